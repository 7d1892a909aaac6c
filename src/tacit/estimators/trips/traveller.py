"""The traveller behind all trips: one recovery, whatever the goals.

Weights and noise are shared, so nothing is fitted goal by goal: the likelihood is the sum over the
goals (`flows.py`), and Newton's method finds its maximum (`chain.py`). Complete trips whose moves
are certain make it convex. A state means another choice on the way to another goal: what was chosen
is kept place by place, a place being a state with a goal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, cast, overload

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.estimators.assembly import Estimate, recovery
from tacit.estimators.estimate import point_of
from tacit.estimators.likelihood import Likelihood, maximise
from tacit.estimators.setting import with_posterior_law
from tacit.estimators.trips.chain import TripsChain
from tacit.estimators.trips.goals import PLANNED
from tacit.estimators.trips.units import TripUnits
from tacit.estimators.trips.world import (
    Journeys,
    Trips,
    at_ends,
    goal_world,
    network_ending,
    trimmed,
)
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solution import Solution, conclude, costs_of
from tacit.inference.action_chances import KnownWorld, check_features, places_of
from tacit.inference.diagnostics import Goodness, goodness_of
from tacit.inference.dynamics_noise import uncounted_findings
from tacit.inference.evidence import Evidence
from tacit.inference.findings import Finding, Kind, feature_findings
from tacit.inference.goodness import FittedChoices
from tacit.likelihood.kinds import KindsChain, log_likelihood
from tacit.model.arguments import read_only
from tacit.model.features.design import Design
from tacit.model.layout import Layout, number_of
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective
from tacit.recovery import Recovery, delivered

if TYPE_CHECKING:
    from tacit.estimators.mixture import Mixture, MixtureRecovery
    from tacit.estimators.whatif import Change, Scenario


@dataclass(frozen=True, eq=False, kw_only=True)
class Choices:
    """What was chosen on the way to the goals, place by place: a place is a state with a goal.

    Attributes:
        states: [M] state of each place.
        goals: [M] goal of each place; -1 for trips without one.
        policy: [M, A] chance of each action there.
        available: [M, A] bool, the actions that leave a sure way to the goal.
        scores: [D, M, A] of one step.
        steps: the trips, with places for states.
        trips: [E] number of each trip among the demonstrations.
        flows: [S, A] expected uses of every pair of state and action, by all trips.
    """

    states: np.ndarray
    goals: np.ndarray
    policy: np.ndarray
    available: np.ndarray
    scores: np.ndarray
    steps: Demonstrations
    trips: np.ndarray
    flows: np.ndarray

    @classmethod
    def of(cls, chain: TripsChain, x: np.ndarray) -> Choices:
        """The choices of the trips, with the policies at x [D]."""
        j, sums = chain.journeys, chain.sums(x, detailed=True)
        if not np.isfinite(sums.loss):
            raise InvalidModel(
                "trips to these goals have no finite value at these coefficients: walking in "
                "circles pays"
            )
        order = np.argsort(sums.rows)
        own = np.repeat(np.arange(len(j.goals)), np.diff(j.steps))
        places, first, at = np.unique(
            own * j.mdp.states + j.states, return_index=True, return_inverse=True
        )
        starts = np.flatnonzero(np.diff(j.trips, prepend=-1))
        return cls(
            states=places % j.mdp.states,
            goals=j.goals[places // j.mdp.states],
            policy=sums.policy[order][first],
            available=j.choices[first],
            scores=np.moveaxis(sums.advantages[order][first], 2, 0),
            steps=Demonstrations(at, j.actions, np.append(starts, len(at))),
            trips=j.trips[starts],
            flows=sums.flows,
        )

    def with_lapses(self, share: float) -> Choices:
        """The same with a share of steps at random; the last score is that of the share."""
        random = self.available / self.available.sum(axis=1, keepdims=True).clip(1)
        mixed = (1.0 - share) * self.policy + share * random
        safe = np.maximum(mixed, 1e-300)
        own = (random - self.policy) / safe
        scores = np.concatenate([self.scores * ((1.0 - share) * self.policy / safe), own[None]])
        return replace(self, policy=mixed, scores=scores)

    @property
    def counts(self) -> np.ndarray:
        """[M, A] how often each action was taken."""
        size = self.policy.shape
        flat = self.steps.states.astype(np.int64) * size[1] + self.steps.actions
        return np.bincount(flat, minlength=size[0] * size[1]).reshape(size).astype(float)

    def fitted(self, moves: np.ndarray, names: Sequence[str] = ()) -> FittedChoices:
        """The same as a fit that could move along [n, D], called by names where these are single.

        Residuals are by state and action, over all goals. So are the actions tested where a state
        is on the way to several goals: single places are seldom met.
        """
        return FittedChoices(
            counts=self.counts,
            policy=self.policy,
            scores=np.tensordot(moves, self.scores, 1),
            choices=self.available.sum(axis=1),
            states=self.states,
            names=names,
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TripsRecovery(Recovery):
    """What the traveller behind all trips wants and refuses.

    There is a policy for every goal, so `solution` is None: `solve` gives that of one goal. Budgets
    are what a trip spends on average.

    Attributes:
        network: the model of the trips.
        features: what reward and costs are made of.
        discount: of the trips.
        origins: [T] where the trips began.
        destinations: [T] where they ended; -1 where they did not.
        flows: [S, A] expected uses of every pair of state and action, by all these trips.
        unended: what was done with trajectories that did not end.
        layout: what nodes and actions are called, where numbers may be given by name.
        solution: None: every goal has one of its own.
    """

    network: MDP
    features: Features
    discount: float
    origins: np.ndarray
    destinations: np.ndarray
    flows: np.ndarray
    unended: str = "refuse"
    layout: Layout = field(default_factory=Layout)
    solution: Solution | None = None  # pyright: ignore[reportIncompatibleVariableOverride]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("origins", "destinations"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name), np.int64)))
        object.__setattr__(self, "flows", read_only(np.array(self.flows, np.float64)))

    def trips(self, demonstrations: Demonstrations) -> Trips:
        """These trajectories as `Trips` in the same network."""
        task = self.network, self.features, demonstrations
        return Trips(*task, discount=self.discount, unended=self.unended)

    def choices(self, demonstrations: Demonstrations) -> Choices:
        """The `Choices` of these trips, or of others in the same network, as recovered here."""
        found, _ = self.trips(demonstrations).journeys()
        x = self.parameters.estimates * found.space.scales
        own = Choices.of(TripsChain.of(found, Likelihood().tolerance), x)
        return own if self.lapses is None else own.with_lapses(self.lapses.share)

    def choice_model(
        self,
        at: npt.ArrayLike | None = None,
        goals: npt.ArrayLike | None = None,
        *,
        world: MDP | None = None,
        features: Features | None = None,
    ) -> GoalChoices:
        """What may be chosen in states on the way to goals; see `Recovery.choice_model`."""
        network = self.network if world is None else world
        features = self.features if features is None else features
        check_features(self, network, features)
        at, goals = self._numbers(at), self._numbers(goals)
        count = network.states
        own = np.unique(self.destinations[self.destinations >= 0])
        goals = places_of("goals", goals, count, own[:1] if len(own) == 1 else own[:0])
        if not len(goals):
            raise InvalidModel("predictions of trips need goals: one for all places, or one each")
        if at is None and len(goals) > 1:
            raise InvalidModel("predictions at all states are for one goal; got several")
        there = np.flatnonzero(trimmed(network, int(goals[0])).any(axis=1))
        states = places_of("at", at, count, there)
        if len(goals) not in (1, len(states)):
            raise InvalidModel(f"goals must be one or {len(states)}; got {len(goals)}")
        goals = np.broadcast_to(goals, states.shape)
        return GoalChoices.of(network, features, self.discount, states, goals)

    def simulate(
        self,
        *,
        trajectories: int | None = None,
        steps: int = 2000,
        seed: int = 0,
        world: MDP | None = None,
    ) -> Demonstrations:
        """Trips between origins and goals drawn from those that were seen; see `Recovery`."""
        from tacit.estimators.simulated import simulated_trips

        many = trajectories or int((self.destinations >= 0).sum())
        return simulated_trips(self, many, steps=steps, seed=seed, world=world)

    def scenarios(self, change: Change) -> tuple[Scenario, Scenario]:
        """The trips without a change and with it, as `counterfactual` asks for them."""
        from tacit.estimators.whatif import trips_scenarios

        closed = [self._closed(one) for one in np.asarray(change.closed, object).tolist()]
        return trips_scenarios(self, replace(change, closed=np.array(closed, np.int64)))

    def _closed(self, one: object) -> int | tuple[int, int]:
        """The number of a node, or those of a node and of the action there or where it leads."""
        if not isinstance(one, list | tuple):
            return self._node(one)
        if len(one) != 2:
            raise InvalidModel(f"closed must be nodes, or pairs of node and action; got {one!r}")
        node, way = self._node(one[0]), one[1]
        if isinstance(way, str) and way not in self.layout.action_names:
            led = self.network.transitions.states[node, :, 0] == self._node(way)
            found = np.flatnonzero(led & self.network.available[node])
            if len(found) != 1:
                raise InvalidModel(
                    f"closed must be links; {len(found)} lead from {one[0]} to {way}"
                    + (": name the action" if len(found) else "")
                )
            return node, int(found[0])
        return node, number_of(way, self.network.actions, self.layout.action_names, "action")

    def _node(self, given: object) -> int:
        return number_of(given, self.network.states, self.layout.state_names, "node")  # type: ignore[arg-type]

    def _numbers(self, given: npt.ArrayLike | None) -> npt.ArrayLike | None:
        """The numbers of nodes that are given by name, or what was given."""
        if given is None or np.asarray(given).dtype.kind not in "UO":
            return given
        return [self._node(one) for one in np.atleast_1d(np.asarray(given, object)).tolist()]

    def solve(self, goal: int | str) -> Solution:
        """The `Solution` of trips to this goal, from where the demonstrated ones to it began.

        A goal that nobody went to is reached from all origins that have a way there. The prices
        are those recovered; the budgets are what such a trip spends.

        Args:
            goal: number or name of a node.
        """
        goal = self._node(goal)
        there = np.asarray(trimmed(self.network, goal).any(axis=1))
        begun = self.origins[self.destinations == goal]
        begun = begun if len(begun) else self.origins[there[self.origins]]
        if not len(begun):
            raise InvalidModel(f"no trip begins where there is a sure way to state {goal}")
        start = np.bincount(begun, minlength=self.network.states) / len(begun)
        world = goal_world(self.network, goal, start, self.discount)
        reward, costs = self.objective.tables_of(world.states, world.actions)
        tables = at_ends(self.network, world, np.concatenate([reward[None], costs]))
        charged = tables[0] - np.tensordot(self.multipliers, tables[1:], 1)
        found = SoftDual(self.temperature).solve(world, Objective(charged), throw=False)
        spent = costs_of(tables[1:], found.visitation)
        return conclude(
            world,
            Objective(tables[0], tables[1:], spent),
            found.visitation,
            found.values,
            self.multipliers,
            tolerance=1e-6,
            temperature=self.temperature,
            policy=found.policy,
            iterations=found.iterations,
        )


@dataclass(frozen=True, eq=False)
class GoalChoices(KnownWorld):
    """Choices in states on the way to goals.

    Attributes:
        chain: one step from each place, sorted by goal.
        order: [n] number of each place among these.
    """

    chain: TripsChain
    order: np.ndarray

    @classmethod
    def of(
        cls,
        network: MDP,
        features: Features,
        discount: float,
        states: np.ndarray,
        goals: np.ndarray,
    ) -> GoalChoices:
        """Those in states [n] on the way to goals [n]."""
        order = np.argsort(goals, kind="stable")
        distinct, first = np.unique(goals[order], return_index=True)
        ends = np.append(first, len(order))
        journeys = Journeys(
            mdp=network,
            discount=discount,
            space=Design.of(network_ending(network, distinct), features),
            goals=distinct,
            states=states[order],
            actions=np.zeros(len(order), np.int64),
            trips=np.arange(len(order)),
            steps=ends,
            origins=states[order],
            begins=ends,
        )
        lost = ~journeys.choices.any(axis=1) | (states == goals)[order]
        if lost.any():
            at = int(order[lost.argmax()])
            raise InvalidModel(
                "every place must have a sure way to its goal, and not be the goal; state "
                f"{states[at]} has none to {goals[at]}"
            )
        taken = replace(journeys, actions=journeys.choices.argmax(axis=1))
        return cls(TripsChain.of(taken, PLANNED), np.argsort(order, kind="stable"))

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """The states, and the goals."""
        journeys = self.chain.journeys
        goals = np.repeat(journeys.goals, np.diff(journeys.steps))
        return {"state": journeys.states[self.order], "goal": goals[self.order]}

    @property
    def available(self) -> np.ndarray:
        """[n, A] bool, the actions that leave a sure way."""
        return self.chain.journeys.choices[self.order]

    def scored(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[n, A] chances at coefficients [P], and [P, n, A] derivatives of their logarithms."""
        scales = self.chain.space.scales
        sums = self.chain.sums(coefficients * scales, detailed=True)
        if not np.isfinite(sums.loss):
            raise InvalidModel(
                "trips have no finite value at these coefficients: walking in circles pays"
            )
        rows = np.argsort(sums.rows)[self.order]
        return sums.policy[rows], np.moveaxis(sums.advantages[rows] * scales, 2, 0)


@overload
def recover_trips(
    trips: Trips, *, estimator: Likelihood | None = None, throw: bool = True
) -> TripsRecovery: ...


@overload
def recover_trips(trips: Trips, *, estimator: Mixture, throw: bool = True) -> MixtureRecovery: ...


def recover_trips(
    trips: Trips, *, estimator: Likelihood | Mixture | None = None, throw: bool = True
) -> TripsRecovery | MixtureRecovery:
    """The `TripsRecovery` under which the observed trips are most likely; of types, the types.

    Args:
        trips: the network and its trips.
        estimator: a `Likelihood` or `Mixture` for its options; None lets reward weights take either
            sign, as the attributes of a route do.
        throw: raise `NotConverged` instead of returning a recovery that says so.
    """
    if hasattr(estimator, "fit_trips"):
        return estimator.fit_trips(trips, throw=throw)  # type: ignore[union-attr]
    if estimator is not None and not isinstance(estimator, Likelihood):
        raise InvalidModel(f"trips are recovered by Likelihood or Mixture; got {estimator!r:.60}")
    options = Likelihood(free_reward=True) if estimator is None else estimator
    options.check()
    setting = TripsSetting.of(trips)
    if estimator is None:
        said = "Likelihood was picked for these trips, with reward weights of either sign."
        setting = setting.saying(Finding(said, Kind.CHOICE))
    return delivered(cast("TripsRecovery", maximise(options, setting)), throw)


@dataclass(frozen=True, eq=False, kw_only=True)
class TripsSetting:
    """Trips in a network, as the report of an expert asks for them: `Setting`.

    Attributes:
        task: the trips.
        journeys: their steps, sorted by goal.
        assumed: what had to be assumed.
        chances: [N] of each step to be of one of several types of travellers; None for one type.
    """

    task: Trips
    journeys: Journeys
    assumed: tuple[Finding, ...] = ()
    chances: np.ndarray | None = None

    counted = False

    @classmethod
    def of(cls, trips: Trips) -> TripsSetting:
        """The setting of these trips."""
        journeys, assumed = trips.journeys()
        return cls(task=trips, journeys=journeys, assumed=tuple(assumed))

    def saying(self, finding: Finding) -> TripsSetting:
        """The same, of which more is to be known."""
        return replace(self, assumed=(*self.assumed, finding))

    @property
    def mdp(self) -> MDP:
        """The network."""
        return self.task.mdp

    @property
    def features(self) -> Features:
        """What reward and costs may be made of."""
        return self.task.features

    @property
    def seen(self) -> Demonstrations:
        """The trips."""
        return self.task.demonstrations

    def chain(self, options: Likelihood) -> TripsChain:
        """The likelihood of all trips."""
        return TripsChain.of(self.journeys, options.tolerance)

    def step_units(self, chain: TripsChain) -> TripUnits:
        """Single steps."""
        return TripUnits.steps(chain)

    def episode_units(self, options: Likelihood) -> TripUnits:
        """Whole trips."""
        return TripUnits.trips(self.chain(options))

    def goodness(self, options: Likelihood, evidence: Evidence) -> Goodness:
        """Whether the model fits: actions at places, between trips, and over time."""
        fitted, own = evidence.fitted, evidence.chains[0]
        space, known = own.chain.space, fitted.known()
        chosen, free = Choices.of(own.chain, fitted.x()), fitted.free[: space.size]
        moves = np.eye(space.size)[free] if known is None else known.tangents(free)
        names = [space.names[j] for j in np.flatnonzero(free)] if known is None else []
        if isinstance(fitted.problem.chains[0], KindsChain):
            chosen = chosen.with_lapses(float(fitted.parts[0].shares[-1]))
            share = int(fitted.free[-2:].all())  # the two sum to 1
            moves = np.asarray(block_diag(moves, np.eye(share, 1)))
            names += ["the share of lapses"] * (share if known is None else 0)
        choices = chosen.fitted(moves, names)
        if own.chain.penalty is not None:
            choices = with_posterior_law(replace(choices, names=[]), moves, own, fitted.x())
        rules = {"states": self.mdp.states, "level": options.level, "seed": options.seed}
        found = goodness_of(chosen.steps, choices, **rules)
        residuals = np.full(self.seen.episodes, np.nan)
        if len(found.trajectory_residuals):
            residuals[chosen.trips] = found.trajectory_residuals
        return replace(found, trajectory_residuals=residuals)

    def point(self, evidence: Evidence, e: int = 0) -> Estimate:
        """The numbers of chain e of a fit; every goal has a policy of its own."""
        own, fitted, j = evidence.chains[e], evidence.fitted, self.journeys
        weights = np.ones(len(j.states)) if self.chances is None else self.chances
        counts = np.zeros(j.mdp.available.shape)
        np.add.at(counts, (j.states, j.actions), weights)
        likely = log_likelihood(fitted)
        if self.chances is not None:
            likely = -float(self.chances @ TripUnits.steps(own.chain).losses(own.part))
        return replace(
            point_of(self.features, fitted, evidence.gauge(e)),
            counts=counts,
            log_likelihood=likely,
            null_log_likelihood=-float(weights @ np.log(j.choices.sum(axis=1))),
        )

    def findings(self, evidence: Evidence, e: int = 0) -> list[Finding]:
        """What had to be assumed, and what of features and optimum is to be known."""
        j = self.journeys
        findings = [
            *self.assumed,
            *feature_findings(self.features, network_ending(self.mdp, j.goals)),
            *_endless_findings(evidence, e),
            *uncounted_findings(self.mdp, "errors of trips count the steps alone"),
        ]
        if evidence.fitted.problem.proven:
            said = (
                f"These {len(j.origins)} trips to {len(j.goals)} goals are complete and their "
                "moves certain: the likelihood is convex, and this is its one global maximum."
            )
            return [*findings, Finding(said, number=len(j.goals))]
        said = (
            "The likelihood of these trips is not certain to be convex: moves are random, trips "
            "were cut off, or kinds of steps or trips are not known. The optimum is a local one."
        )
        return [*findings, Finding(said, Kind.LOCAL_OPTIMUM)]

    def with_lapses(self, found: Estimate, chain: TripsChain) -> Estimate:
        """The estimate, which says that flows are those without lapses."""
        said = "Expected flows, and trips that are solved for, are those of a trip without lapses."
        return replace(found, findings=(*found.findings, Finding(said, Kind.ASSUMED)))

    def of_type(self, evidence: Evidence, k: int) -> TripsSetting:
        """Trips by their chances to be of this type."""
        chances, units = (
            evidence.fitted.parts[0].membership[k],
            evidence.fitted.problem.chains[0].units,
        )
        return replace(self, chances=chances[units.number])

    def recovery(
        self, called: str, found: Estimate, evidence: Evidence, e: int = 0
    ) -> TripsRecovery:
        """The answer, `called` by the estimator's call."""
        trips, j = self.task, self.journeys
        travelled = partial(
            TripsRecovery,
            network=trips.mdp,
            features=trips.features,
            discount=j.discount,
            origins=j.origins,
            destinations=np.repeat(j.goals, np.diff(j.begins)),
            flows=Choices.of(evidence.chains[e].chain, evidence.fitted.x(e)).flows,
            unended=trips.unended,
            layout=trips.demonstrations.layout or Layout(),
        )
        return recovery(called, trips.mdp, trips.features, None, found, result=travelled)


def _endless_findings(evidence: Evidence, e: int) -> list[Finding]:
    """Reward features that were never or always met where they could be: larger is likelier."""
    x, space, limits = evidence.fitted.x(e), evidence.chains[e].chain.space, evidence.own_limits(e)
    findings = []
    for j in np.flatnonzero((space.signs > 0) & np.isfinite(limits)):
        end = float(limits[j] / space.scales[j])
        said = (
            f"{space.names[j]} has no finite coefficient: the trips never chose "
            f"{'with' if x[j] < 0 else 'without'} it where they could, and the larger its "
            f"coefficient the likelier they are. It is {'below' if x[j] < 0 else 'above'} "
            f"{end:.4g}, and it sets no scale for the others."
        )
        about = {"feature": space.names[j], "number": end}
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, **about))
    return findings
