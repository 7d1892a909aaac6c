"""Demonstrators of several kinds, and nobody knows which unit is of which: one chain of all kinds.

A unit is what one kind did: a trajectory, where kinds are types of noisy experts; or a single step,
where the last kind wants nothing: a lapse, which acts at random. With shares w_t and the losses l_t
of a unit under every kind, its loss is -log sum_t w_t exp(-l_t). Where units follow each other in
`Sequences`, the kind may switch from one to the next (`switching.py`): kinds are then intentions.
An evaluation is one step of expectation: the values of every kind, the chances that each unit is of
each, then the derivatives of every kind's likelihood on counts weighted by those chances. What not
knowing kinds takes of their curvature is subtracted (Louis 1982); where the rest bends down the
complete one stands in, whose step is one of expectation and maximisation.

Shares and chances to switch are parameters like others, at their bound 0, too: nothing is divided
by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.data.tally import Scatter
from tacit.data.units import Units
from tacit.likelihood.problem import Equalities, Fit, LikelihoodProblem
from tacit.likelihood.protocol import LARGEST, Beginning, ChainEvidence, HostView
from tacit.likelihood.start import Bounds
from tacit.likelihood.steps import StepsChain, positive_or
from tacit.likelihood.switching import (
    Mixing,
    Passes,
    Sequences,
    passes,
    products_with_earlier,
    slopes_of_mixing,
)
from tacit.likelihood.ties import Ties
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.search.algebra import weighted_products
from tacit.search.smooth_dual import DualPoint

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Curvature across chances that sum to 1, as a multiple of the largest of each by itself.
ACROSS = 10.0
# Largest share of units of a kind that wants nothing.
MOST = 0.999
# Logarithm of the noise of a kind or group relative to the first one's, at most.
WIDEST = 7.0


@dataclass(frozen=True, eq=False, kw_only=True)
class StepUnits:
    """What is of one kind: trajectories, or single steps, which are alike cell by cell.

    Attributes:
        table: sparse [U, S * A] how often each unit took each action in each state.
        repeats: [U] how many units there are like it.
        whole: the likelihood of all steps.
        cells: whether a unit is a step: the chances of all that could be done are known then.
    """

    table: csr_matrix
    repeats: np.ndarray
    whole: StepsChain
    cells: bool = False

    @classmethod
    def trajectories(cls, mdp: MDP, space: Design, seen: Demonstrations) -> StepUnits:
        """The trajectories of these demonstrations."""
        from scipy.sparse import csr_matrix

        index = seen.states.astype(np.int64) * mdp.actions + seen.actions
        shape = (seen.episodes, mdp.states * mdp.actions)
        table = csr_matrix((np.ones(seen.steps), index, seen.offsets), shape=shape)
        table.sum_duplicates()
        return cls(
            table=table, repeats=np.ones(seen.episodes), whole=StepsChain.of(mdp, space, seen)
        )

    @classmethod
    def ordered(cls, mdp: MDP, space: Design, seen: Demonstrations) -> StepUnits:
        """The steps of these demonstrations one by one, in their order."""
        from scipy.sparse import csr_matrix

        index = seen.states.astype(np.int64) * mdp.actions + seen.actions
        rows, shape = np.arange(seen.steps + 1), (seen.steps, mdp.states * mdp.actions)
        table = csr_matrix((np.ones(seen.steps), index, rows), shape=shape)
        return cls(table=table, repeats=np.ones(seen.steps), whole=StepsChain.of(mdp, space, seen))

    @classmethod
    def steps(cls, whole: StepsChain) -> StepUnits:
        """Single steps: a unit for every pair of state and action, as often as it was seen."""
        from scipy.sparse import csr_matrix, eye_array

        table = csr_matrix(eye_array(whole.counts.size))
        return cls(table=table, repeats=whole.counts.ravel(), whole=whole, cells=True)

    def joined(self, number: np.ndarray) -> StepUnits:
        """The same in larger units: [U] the number of the one that each is part of."""
        from scipy.sparse import csr_matrix

        size, ones = (int(number[-1]) + 1, len(number)), np.ones(len(number))
        sums = csr_matrix((ones, (number, np.arange(len(number)))), shape=size)
        return replace(self, table=csr_matrix(sums @ self.table), repeats=np.ones(size[0]))

    def select(self, which: np.ndarray) -> StepUnits:
        """The same of some of the units, [U] bool."""
        table, repeats = self.table[which], self.repeats[which]
        counts = np.asarray(table.T @ repeats).reshape(self.whole.counts.shape)
        return replace(self, table=table, repeats=repeats, whole=self.whole.reweighted(counts))

    def __len__(self) -> int:
        return len(self.repeats)

    @property
    def lengths(self) -> np.ndarray:
        """[U] steps of each unit."""
        return np.asarray(self.table.sum(axis=1)).ravel()

    def point(self, x: np.ndarray, near: DualPoint, precision: float) -> DualPoint:
        """Where a kind with parameters x [D] is, sought from a point nearby."""
        return self.whole.at(x, near, precision)

    def weighted(
        self, points: Sequence[DualPoint], membership: np.ndarray, precision: float
    ) -> tuple[tuple[StepsChain, ...], tuple[DualPoint, ...]]:
        """Every kind's own likelihood, units weighted by their chances [T, U], and its points."""
        chains = self.parts(membership)
        pairs = zip(chains, points, strict=True)
        return tuple(chains), tuple(one.at(point.x, point, precision) for one, point in pairs)

    def parts(self, membership: np.ndarray) -> list[StepsChain]:
        """The likelihood of each kind, every unit weighted by its chances [T, U]."""
        counts = np.asarray(self.table.T @ (self.repeats * membership).T).T
        return [self.whole.reweighted(c.reshape(self.whole.counts.shape)) for c in counts]

    def scores(self, point: DualPoint) -> np.ndarray:
        """[U, D] of each unit at a point."""
        return self.sums(self.whole.scores(point))

    def losses(self, point: DualPoint) -> np.ndarray:
        """[U] minus the logarithms of the chances of each unit at a point of the whole."""
        return self.sums(-np.log(np.maximum(point.policy, np.finfo(float).tiny))[None])[:, 0]

    @cached_property
    def idle(self) -> np.ndarray:
        """[U] minus the logarithms of the chances of each unit if every action is as likely."""
        there = self.whole.choices
        choices = np.maximum(there.sum(axis=1), 1)
        return self.sums(np.log(np.repeat(choices[:, None], there.shape[1], 1))[None])[:, 0]

    def sums(self, tables: np.ndarray) -> np.ndarray:
        """[U, n] sums of tables [n, S, A] over every unit."""
        return np.asarray(self.table @ tables.reshape(len(tables), -1).T)

    def expected(self, chances: np.ndarray) -> np.ndarray:
        """[U] how many single steps of each kind there are on average where these were."""
        chosen = chances.reshape(self.whole.counts.shape) * self.whole.choices
        return (self.whole.visits[:, None] * chosen).ravel()


class KindsPart(NamedTuple):
    """The loss of units of unknown kind at one x, and every kind's own likelihood there."""

    x: np.ndarray  # [D] parameters of every kind, then the mixing
    loss: float
    gradient: np.ndarray  # [D]
    curvature: np.ndarray  # [D, D] of the observed loss
    convex: np.ndarray  # [D, D] the same if the kinds were known: it never bends down
    slopes: np.ndarray  # [E, D] gradients of the sequences' losses
    unknown: np.ndarray  # [D, D] what is not known of the kinds takes of the curvature
    membership: np.ndarray  # [T, U] chances that a unit is of each kind
    losses: np.ndarray  # [E] of single sequences
    mixing: Mixing
    chains: tuple[Any, ...]  # of every kind that wants something, units weighted
    parts: tuple[Any, ...]  # of those

    @property
    def lean(self) -> bool:
        """Whether second derivatives were done without: never here."""
        return False

    @property
    def shares(self) -> np.ndarray:
        """[T] of the units; of those that follow each other the expected ones."""
        if len(self.mixing.switching):
            return self.membership.mean(axis=1)
        return self.mixing.start


@dataclass(frozen=True, eq=False, kw_only=True)
class KindsChain(HostView):
    """Units of unknown kinds as one smooth loss of every kind's parameters and the mixing.

    Attributes:
        units: what is of one kind: `StepUnits`, or of trips `TripUnits`.
        experts: how many kinds want something; they come first.
        idle: whether there is one more, which wants nothing.
        prior: 1 / variance of a scaled parameter before anything is seen; 0 for no prior.
        ridge: pull of the parameters towards 0, on scaled features, that is no prior.
        following: in which order units were done, where kinds may switch; None where each unit is
            by itself.
    """

    units: Any
    experts: int
    idle: bool = False
    prior: float = 0.0
    ridge: float = 0.0
    following: Sequences | None = None

    large = False
    penalty = None
    writable = True
    convex = False
    endless_rewards = False
    design = 1.0
    squares = None

    @property
    def whole(self) -> Any:
        """The likelihood of all units, were they of one kind."""
        return self.units.whole

    @property
    def kinds(self) -> tuple[Any, ...]:
        """One per kind that wants something, of all units."""
        return (self.whole,) * self.experts

    @cached_property
    def sequences(self) -> Sequences:
        """The order of the units: each by itself, unless it is said what follows what."""
        return self.following or Sequences.alone(len(self.units))

    @cached_property
    def repeats(self) -> np.ndarray:
        """[E] how many sequences there are like each."""
        return np.asarray(self.units.repeats[self.sequences.first])

    @property
    def many(self) -> int:
        """T, how many kinds there are."""
        return self.experts + self.idle

    @property
    def mixed(self) -> int:
        """How many parameters the mixing has."""
        return self.many + self.sequences.tables * self.many**2

    @property
    def laws(self) -> np.ndarray:
        """[1 + G * K, D] what sums to 1: the shares, and from each kind the chances to go on."""
        size, many = sum(len(one.scale) for one in self.kinds), self.mixed // self.many
        return np.pad(np.repeat(np.eye(many), self.many, axis=1), ((0, 0), (size, 0)))

    def mixing(self, x: np.ndarray) -> Mixing:
        """That of parameters x [D]."""
        return Mixing.of(x[len(x) - self.mixed :], self.many)

    @property
    def discount(self) -> float:
        """Of the world."""
        return self.whole.discount

    @property
    def steps(self) -> float:
        """How many steps there are."""
        return self.whole.steps

    @property
    def exact(self) -> bool:
        """Whether a rough evaluation costs as much as a fine one."""
        return self.whole.exact

    @property
    def scale(self) -> np.ndarray:
        """[D] size of a gradient entry that counts as one."""
        mixed = np.full(self.mixed, float(self.units.repeats.sum()))
        return np.concatenate([*(one.scale for one in self.kinds), mixed])

    @property
    def inputs(self) -> tuple:
        """What the loss is made of."""
        order = self.sequences.offsets, self.sequences.entered
        about = self.units.repeats, self.experts, self.idle, self.prior
        return (*self.whole.inputs, *about, *order)

    def split(self, x: np.ndarray) -> list[np.ndarray]:
        """The parameters of every kind that wants something."""
        return np.split(x[: len(x) - self.mixed], self.experts)

    def view(self, x: np.ndarray, moving: np.ndarray | None) -> KindsChain:
        """Itself: nothing has to be placed anywhere."""
        return self

    def blank(self, x: np.ndarray) -> KindsPart:
        """A part at x [D] of which nothing is known."""
        size, square, many = len(x), np.zeros((len(x), len(x))), len(self.sequences)
        return KindsPart(
            x=x,
            loss=np.inf,
            gradient=np.zeros(size),
            curvature=square,
            convex=square,
            slopes=np.zeros((many, size)),
            unknown=square,
            membership=np.zeros((self.many, len(self.units))),
            losses=np.zeros(many),
            mixing=self.mixing(x),
            chains=self.kinds,
            parts=tuple(map(self.whole.blank, self.split(x))),
        )

    def at(
        self, x: np.ndarray, near: KindsPart, precision: float, *, lean: bool = False
    ) -> KindsPart:
        """The loss at x [D] with all derivatives: one step of expectation."""
        solved, found = self._expected(x, near, precision)
        if found is None or not np.isfinite(found.losses).all():
            return self.blank(x)
        sequences, mixing, repeats = self.sequences, self.mixing(x), self.units.repeats
        pull, membership = self.prior + self.ridge, found.membership
        chains, parts = self.units.weighted(solved, membership[: self.experts], precision)
        size, coefficients = len(x), slice(len(x) - self.mixed)
        tail = slice(coefficients.stop, size)
        gradient, slopes = np.zeros(size), np.zeros((len(self.units), size))
        complete, unknown = np.zeros((size, size)), np.zeros((size, size))
        scores = [self.units.scores(part) for part in parts]  # minus the slopes of kinds' losses
        for k, part in enumerate(parts):
            width = len(part.gradient)
            own = slice(k * width, (k + 1) * width)
            gradient[own], complete[own, own] = part.gradient, part.curvature
            slopes[:, own] = -membership[k][:, None] * scores[k]
            unknown[own, own] = weighted_products(scores[k].T, repeats * membership[k])
        slopes[:, tail] = -slopes_of_mixing(sequences, found)
        gradient[tail] = repeats @ slopes[:, tail]
        gradient[coefficients] += pull * x[coefficients]
        complete[coefficients, coefficients] += pull * np.eye(coefficients.stop)
        earlier = products_with_earlier(sequences, found, scores, mixing, self.repeats)
        unknown += earlier + earlier.T
        sums = sequences.sums(slopes)
        known = weighted_products(sums.T, self.repeats)
        observed = complete + known - unknown
        complete[tail, tail] = weighted_products(slopes[:, tail].T, repeats)
        return KindsPart(
            x=x,
            loss=float(self.repeats @ found.losses)
            + 0.5 * pull * float(np.sum(x[coefficients] ** 2)),
            gradient=gradient,
            curvature=observed,
            convex=complete,
            slopes=sums,
            unknown=unknown,
            membership=membership,
            losses=found.losses,
            mixing=mixing,
            chains=chains,
            parts=parts,
        )

    def loss_at(self, x: np.ndarray, near: KindsPart, precision: float) -> float:
        """The loss at x [D] without its ridge."""
        found, pulled = self._expected(x, near, precision)[1], x[: len(x) - self.mixed]
        if found is None:
            return np.inf
        return float(self.repeats @ found.losses) + 0.5 * self.prior * float(pulled @ pulled)

    def passes(self, x: np.ndarray, near: KindsPart, precision: float) -> Passes | None:
        """What is known of the kinds of all units at x [D]; None where values are not finite."""
        return self._expected(x, near, precision)[1]

    def _expected(
        self, x: np.ndarray, near: KindsPart, precision: float
    ) -> tuple[list[Any], Passes | None]:
        """Every kind's point, and what is known of the kinds there."""
        solved = [
            self.units.point(place, point, precision)
            for place, point in zip(self.split(x), near.parts, strict=True)
        ]
        if not all(np.isfinite(point.loss) for point in solved):
            return solved, None
        each = [self.units.losses(point) for point in solved]
        logs = -np.stack([*each, self.units.idle] if self.idle else each, axis=1)
        return solved, passes(self.sequences, logs, self.mixing(x))

    def error(self, part: KindsPart, x: np.ndarray, precision: float) -> float:
        """By what rounding and rough solves may mistake the loss."""
        if not np.isfinite(part.loss):
            return 0.0
        each = zip(part.chains, part.parts, self.split(x), strict=True)
        return sum(chain.error(point, place, precision) for chain, point, place in each)

    def convex_of(self, part: KindsPart) -> np.ndarray:
        """[D, D] what stands in for a curvature that bends down: the complete one."""
        return part.convex

    def unsettled(self, part: KindsPart) -> bool:
        """Whether the values of a part are not those of a policy."""
        return any(map(self.whole.unsettled, part.parts))

    def beginning(
        self, z: np.ndarray, near: KindsPart | None, problem: LikelihoodProblem, precision: float
    ) -> Beginning | None:
        """At z [n]; where values are not finite there, wherever each kind's are."""
        x, ties = problem.parameters(z)[0], problem.ties
        near = self.blank(x) if near is None else near
        part = self.at(x, near, precision)
        if np.isfinite(part.loss):
            return Beginning(z, part, True)
        places = []
        for e, place in enumerate(self.split(x)):
            ends = problem.lower[ties.rows[e]], problem.upper[ties.rows[e]]
            alone = LikelihoodProblem.of(self.whole, *ends)
            begun = self.whole.beginning(place, None, alone, precision)
            if begun is None:
                return None
            places.append(begun.z)
        z = problem.start(ties.start([*places, x[-self.mixed :]]))
        x = problem.parameters(z)[0]
        part = self.at(x, self.blank(x), precision)
        return Beginning(z, part, True) if np.isfinite(part.loss) else None

    def evidence(self, part: KindsPart, inner: np.ndarray, seen: Observed) -> KindsEvidence:
        """What was seen says at a part, its parameters having this derivative [D, n]."""
        return KindsEvidence(self, part, inner, seen)


@dataclass(frozen=True, eq=False)
class KindsEvidence:
    """What units of unknown kinds say at a fit.

    Attributes:
        chain: of all kinds.
        part: of the fit.
        inner: [D, n] derivative of its parameters in the joint ones.
        seen: the demonstrations.
    """

    chain: KindsChain
    part: KindsPart
    inner: np.ndarray
    seen: Observed

    loose = False
    source = None

    def dynamics_influence(self, *, sums: bool) -> list[Any]:
        """None: the dynamics are taken for known."""
        return []

    @cached_property
    def kinds(self) -> tuple[ChainEvidence, ...]:
        """What the steps of every kind say, each counted by its chance to be of that kind."""
        rows = np.split(self.inner[: len(self.inner) - self.chain.mixed], self.chain.experts)
        each = zip(self.part.chains, self.part.parts, rows, strict=True)
        return tuple(chain.evidence(part, own, self.seen) for chain, part, own in each)

    @cached_property
    def complete(self) -> np.ndarray:
        """[D, D] information of the units if their kinds were known."""
        found = self.part.convex.copy()
        for k, one in enumerate(self.kinds):
            width = len(one.inner)
            own = slice(k * width, (k + 1) * width)
            found[own, own] = one.fisher + self.chain.prior * np.eye(width)
        return found

    @cached_property
    def fisher(self) -> np.ndarray:
        """[D, D] information of the units. Of single steps the expected one; else the observed."""
        part, units = self.part, self.chain.units
        if units.cells:
            found = weighted_products(part.slopes.T, units.expected(np.exp(-part.losses)))
            pulled = np.arange(len(found)) < len(found) - self.chain.mixed
            return found + np.diag(self.chain.prior * pulled)
        return self.complete + part.curvature - part.convex + self._across

    @property
    def curvature(self) -> np.ndarray:
        """[D, D] of the loss; the information of the units where that is no minimum."""
        return positive_or(self.part.curvature + self._across, self.fisher)

    @property
    def _across(self) -> np.ndarray | float:
        """[D, D] that chances to switch sum to 1: across that the loss may bend down.

        No more than it takes: what is known beforehand is added as a multiple of all of it.
        """
        if not self.chain.sequences.tables:
            return 0.0
        laws = self.chain.laws
        stiffness = ACROSS * np.where(laws > 0, np.diagonal(self.complete), 0.0).max(axis=1)
        return weighted_products(laws.T, stiffness)

    @property
    def outer(self) -> np.ndarray:
        """[n, n] sum over all sequences of score times score, in the joint parameters."""
        own = weighted_products(self.part.slopes.T, self.chain.repeats)
        return self.inner.T @ own @ self.inner

    @property
    def individuals(self) -> set[object]:
        """Who is named: nobody, as units are trajectories or steps."""
        return set()

    @property
    def episodes(self) -> Units:
        """Every sequence by itself."""
        return Units.alone(len(self.chain.sequences))

    def units(self, least: float) -> Units | None:
        """Sequences; None where units are by themselves: what is of one kind is independent."""
        return self.episodes if self.chain.sequences.tables else None

    def scatter(self, units: Units) -> Scatter:
        """Squares of the sequences' scores, in the joint parameters."""
        return Scatter(len(units), self.outer)


def problem_of_kinds(
    chain: KindsChain,
    known: Bounds,
    *,
    share: float | None = None,
    one_direction: bool = False,
) -> LikelihoodProblem:
    """The problem of kinds with these bounds each.

    Args:
        chain: the kinds.
        known: bounds of the coefficients of every kind.
        share: of the kind that wants nothing, where it is known.
        one_direction: whether kinds have one direction of the parameters, each at its own length.
    """
    spaces, many = [chain.whole.space] * chain.experts, chain.many
    ties = Ties.of_lengths(spaces) if one_direction else Ties.of(spaces)
    tables = range(chain.sequences.tables)
    ties = ties.with_shares(
        [
            *(f"share of kind {k}" for k in range(many)),
            *(f"from kind {j} to {k}" for _ in tables for j in range(many) for k in range(many)),
        ]
    )
    size = len(ties.names)
    lower, upper = np.full(size, np.exp(-WIDEST)), np.full(size, np.exp(WIDEST))
    for rows in ties.rows[:-1]:
        lower[rows], upper[rows] = known.lower, known.upper
    shares = ties.rows[-1]
    lower[shares], upper[shares] = 0.0, LARGEST
    if chain.idle:
        upper[shares[-1]] = MOST
    if share is not None:
        lower[shares] = upper[shares] = [1.0 - share, share]
    rows = np.zeros((len(chain.laws), size))
    rows[:, shares] = chain.laws[:, -chain.mixed :]
    sum_of = None if share is not None else Equalities(matrix=rows, values=np.ones(len(rows)))
    return LikelihoodProblem(
        chains=(chain,), ties=ties, lower=lower, upper=upper, equalities=sum_of
    )


def log_likelihood(found: Fit) -> float:
    """Of all actions, without what a prior or a ridge adds."""
    chain, part = found.problem.chains[0], found.parts[0]
    if isinstance(chain, KindsChain):
        return -float(chain.repeats @ part.losses)
    prior = 0.0 if chain.penalty is None else found.z @ (chain.penalty @ found.z)
    return 0.5 * float(chain.ridge * found.z @ found.z + prior) - found.loss


def one_direction(
    chains: Sequence[Any],
    like: LikelihoodProblem,
    x: np.ndarray,
    *,
    tolerance: float = 1e-7,
    max_steps: int = 200,
) -> Fit:
    """The fit of chains with one direction of the parameters, each at its own length.

    Args:
        chains: of one space.
        like: a problem with the bounds of the first chain.
        x: [D] parameters of the first chain, to begin from.
        tolerance: far finer than a likelihood ratio needs.
        max_steps: most evaluations.
    """
    ties, others = Ties.of_lengths([chain.space for chain in chains]), len(chains) - 1
    least, most = (np.full(others, np.exp(end)) for end in (-WIDEST, WIDEST))
    problem = LikelihoodProblem(
        chains=tuple(chains),
        ties=ties,
        lower=np.concatenate([like.lower, least]),
        upper=np.concatenate([like.upper, most]),
    )
    start = np.concatenate([x, np.ones(others)])
    return problem.minimum(start, tolerance=tolerance, max_steps=max_steps)
