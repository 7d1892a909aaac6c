"""Trips of one network as a smooth loss: a chain with a policy for every goal.

The likelihood is the sum over the goals (`flows.py`, and where that will not do `goals.py`);
complete trips whose moves are certain make it convex.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.tally import Scatter
from tacit.data.units import INDIVIDUALS, Units
from tacit.estimators.trips.flows import Sums, nothing
from tacit.estimators.trips.goals import Goals
from tacit.estimators.trips.world import Journeys
from tacit.forward.soft_dual import finite_start
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.protocol import LARGEST, Beginning, FirstPlace, HostView, OneKind, events_of
from tacit.model.features.design import Design
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Goals of a rough fit from which that of all begins, and its tolerance.
SOME, ROUGH = 64, 1e-3
# Most scores of steps that are kept of the last evaluation.
DETAILED = 2**24
# Share of what is known of a direction that steps which were taken must account for.
SHOWN = 0.5
# What episodes of this kind are called.
TRIPS = "trips"


@dataclass(frozen=True, eq=False)
class TripsChain(OneKind):
    """Minus the log-likelihood of the trips to some goals.

    Attributes:
        dynamics: of the trips, goal by goal.
        chosen: numbers of the goals.
        ridge: pull of the parameters towards 0, on scaled features.
        penalty: [D, D] sparse and positive semidefinite, that of a prior; None for none.
    """

    dynamics: Goals
    chosen: np.ndarray
    ridge: float = 0.0
    penalty: csr_array | None = None

    @classmethod
    def of(cls, journeys: Journeys, tolerance: float) -> TripsChain:
        """The likelihood of all these trips."""
        return cls(Goals(journeys, tolerance), np.arange(len(journeys.goals)))

    @property
    def journeys(self) -> Journeys:
        """The trips."""
        return self.dynamics.journeys

    @property
    def mdp(self) -> MDP:
        """The network."""
        return self.journeys.mdp

    @property
    def space(self) -> Design:
        """The features, scaled."""
        return self.journeys.space

    @property
    def discount(self) -> float:
        """Of the trips."""
        return self.journeys.discount

    @cached_property
    def steps(self) -> float:
        """How many steps there are on the way to these goals."""
        return float(np.diff(self.journeys.steps)[self.chosen].sum())

    @cached_property
    def counts(self) -> np.ndarray:
        """[S, A] how often each action was taken, whatever the goal."""
        seen = np.zeros(self.space.shape)
        np.add.at(seen, (self.journeys.states, self.journeys.actions), 1.0)
        return seen

    @property
    def at_random(self) -> float:
        """The loss if every action that leaves a way to the goal is as likely."""
        return float(np.log(self.journeys.choices.sum(axis=1)).sum())

    @property
    def scale(self) -> np.ndarray:
        """[D] size of a gradient entry that counts as one."""
        return np.full(self.space.size, self.steps)

    @property
    def at_starts(self) -> np.ndarray:
        """[D] bool, features that every trip has where it begins: trips begin anywhere."""
        return np.zeros(self.space.size, bool)

    stage = "trips"
    exact = True
    large = False
    writable = True
    design = 1.0
    squares = None
    endless_rewards = True

    @property
    def convex(self) -> bool:
        """Whether the likelihood is convex for certain, so that its minimum is the global one."""
        return self.journeys.certain or all(map(self.dynamics.convex, self.chosen.tolist()))

    @property
    def inputs(self) -> tuple:
        """What the loss is made of."""
        return self.chosen, self.journeys.targets

    def view(self, x: np.ndarray, moving: np.ndarray | None) -> TripsView:
        """The chain as a search asks for it."""
        return TripsView(self)

    def sums(self, x: np.ndarray, *, detailed: bool = False, lean: bool = False) -> Sums:
        """The `Sums` at x [D], with what is linear in x; the loss is infinite if a value is.

        Where it is asked to be detailed, with the policy at every step; lean, without second
        derivatives, where that is faster.
        """
        whole = self.dynamics.evaluate(x, self.chosen, detailed=detailed, lean=lean)
        target, pull = self.journeys.targets[self.chosen].sum(axis=0), self.ridge * np.eye(len(x))
        if self.penalty is not None:
            pull += self.penalty.toarray()
        return whole._replace(
            loss=whole.loss - x @ target + 0.5 * x @ pull @ x,
            gradient=whole.gradient - target + pull @ x,
            curvature=whole.curvature + pull,
        )

    def at(self, x: np.ndarray, near: Sums, precision: float) -> Sums:
        """The loss at x [D] with all derivatives."""
        return self.sums(x)

    def loss_at(self, x: np.ndarray, near: Sums, precision: float) -> float:
        """The loss at x [D] without its ridge."""
        return float(self.sums(x).loss) - 0.5 * self.ridge * float(x @ x)

    def error(self, sums: Sums, x: np.ndarray, precision: float) -> float:
        """By what rounding may mistake the loss."""
        return 5e-13 * (abs(sums.loss) + self.steps) if np.isfinite(sums.loss) else 0.0

    def unsettled(self, sums: Sums) -> bool:
        """Whether the values are not those of a policy: a loss that is finite has such."""
        return False

    def blank(self, x: np.ndarray) -> Sums:
        """Sums of which nothing is known."""
        return nothing(len(x), np.inf)

    def beginning(
        self, x: np.ndarray, near: Sums | None, problem: LikelihoodProblem, precision: float
    ) -> Beginning | None:
        """As the protocol says: x, else a little of what every step pays, else a program's."""
        lower, upper, model = problem.lower, problem.upper, problem.model is not None
        begun = Beginning(x, self.sums(x, lean=model), True)
        if np.isfinite(begun.part.loss):
            return begun
        if self.discount < 1.0:
            return None
        paid = -np.sign(self.space.tables[:, self.journeys.mdp.available].mean(axis=1))

        def starts() -> Iterable[np.ndarray]:
            for size in 0.25 * 2.0 ** np.arange(8):
                yield size * paid
            first = self.dynamics.alone(int(self.chosen[0]))
            dual = first.dual._replace(lower=lower, upper=np.minimum(upper, LARGEST))
            finite = finite_start(first.mdp, dual, x, precision)
            if finite is not None:
                for size in (1.0, 2.0, 4.0, 8.0):
                    yield size * finite[0]

        for start in starts():
            place = problem.start(start)
            sums = self.sums(place)
            if np.isfinite(sums.loss):
                return Beginning(place, sums, True)
        return None

    def evidence(self, sums: Sums, inner: np.ndarray, seen: object) -> TripsEvidence:
        """What the trips say at these sums."""
        return TripsEvidence(self, sums, inner)

    def approach(
        self, problem: LikelihoodProblem, x: np.ndarray | None, max_steps: int
    ) -> FirstPlace:
        """From the maximum over some of the goals, where they are many."""
        x = np.zeros(self.space.size) if x is None else x
        if len(self.chosen) < 2 * SOME:
            return FirstPlace(problem, x, None)
        some = replace(self, chosen=self.chosen[:: -(-len(self.chosen) // SOME)])
        rules = {"tolerance": ROUGH, "max_steps": max_steps, "stage": self.stage}
        rough = problem.with_chains([some]).minimum(x, **rules)
        if np.isfinite(rough.loss):
            model = rough.parts[0].curvature * (self.steps / some.steps)
            problem = replace(problem, model=model)
        return FirstPlace(problem, rough.z, None)


class TripsView(HostView):
    """A chain of trips during one search.

    The last evaluation, for which all second derivatives are asked, keeps the scores of the steps.
    """

    def __init__(self, chain: TripsChain) -> None:
        self._chain = chain
        self._detailed = chain.steps * chain.space.size <= DETAILED

    def at(self, x: np.ndarray, near: Sums, precision: float, *, lean: bool = False) -> Sums:
        """The loss at x [D] and its derivatives."""
        last = near.lean and not lean
        return self._chain.sums(x, detailed=last and self._detailed, lean=lean)


@dataclass(frozen=True, eq=False)
class TripsEvidence(OneKind):
    """What trips say at a fit.

    Attributes:
        chain: the trips.
        part: sums of the fit.
        inner: [D, n] derivative of their parameters in the joint ones.
    """

    chain: TripsChain
    part: Sums
    inner: np.ndarray

    loose = False
    reached = np.zeros((0, 0))

    @property
    def scores(self) -> np.ndarray:
        """None by state and action: a state means another choice on the way to another goal."""
        return np.zeros((len(self.inner), 0, 0))

    @property
    def fisher(self) -> np.ndarray:
        """[D, D] information of the steps."""
        return self.part.fisher

    def events(self, move: np.ndarray) -> float:
        """How many steps of one size would tell as much of a move [D] of the parameters.

        Only steps that were taken are kept: 0 where these do not account for what is known.
        """
        scores = self.part.scores @ move
        shown = float(scores @ scores) >= SHOWN * float(move @ self.fisher @ move)
        if not shown or not len(scores):
            return 0.0
        return events_of(move, self.part.scores.T[:, :, None], np.ones((len(scores), 1)))

    @property
    def curvature(self) -> np.ndarray:
        """[D, D] of the loss without its prior."""
        penalty = self.chain.penalty
        return self.part.curvature if penalty is None else self.part.curvature - penalty.toarray()

    @property
    def outer(self) -> np.ndarray:
        """[n, n] sum over all steps of score times score."""
        scores = self._joint_scores
        return scores.T @ scores

    @property
    def spent(self) -> np.ndarray:
        """[D] expected sums of the scaled, signed features, of a trip on average."""
        return self.part.spent / len(self.chain.journeys.origins)

    @property
    def reaction(self) -> np.ndarray:
        """[D, D] derivative of what is spent."""
        return self.part.reaction / len(self.chain.journeys.origins)

    @property
    def individuals(self) -> set[object]:
        """Who is named."""
        named = self.chain.journeys.individuals
        return set() if named is None else set(named[self.part.rows].tolist())

    @property
    def episodes(self) -> Units:
        """Every trip by itself; units are numbered step by step."""
        return self._units(self.chain.journeys.trips, TRIPS)

    def units(self, least: float) -> Units:
        """Individuals where they are named, else trips; numbered step by step."""
        named = self.chain.journeys.individuals
        return self.episodes if named is None else self._units(named, INDIVIDUALS)

    def scatter(self, units: Units) -> Scatter:
        """Squares of the units' scores, in the joint parameters."""
        scores = self.unit_scores(units, len(units))
        return Scatter(len(units), scores.T @ scores)

    def unit_scores(self, units: Units, many: int) -> np.ndarray:
        """[many, n] sums of the scores over each unit, in the joint parameters."""
        pairs = [(units.number, score) for score in self._joint_scores.T]
        sums = [np.bincount(own, weights=score, minlength=many) for own, score in pairs]
        return np.stack(sums, axis=1)

    def _units(self, number: np.ndarray, called: str) -> Units:
        return Units(np.unique(number[self.part.rows], return_inverse=True)[1], called)

    @cached_property
    def _joint_scores(self) -> np.ndarray:
        """[N, n] of the steps."""
        return self.part.scores @ self.inner
