"""What would happen if something changed: ways that are closed, prices, budgets, features, worlds.

The demonstrator keeps its coefficients and answers to the change. Every number is a function of the
coefficients, so that all have intervals, those of one evaluation together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tacit.errors import Infeasible, InvalidModel, TacitError
from tacit.estimators.trips.flows import without
from tacit.estimators.trips.goals import PLANNED, Goals
from tacit.estimators.trips.world import Journeys, between
from tacit.files.columns import frame_of
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solution import Solution, Status, visitation
from tacit.inference.action_chances import PRECISION, check_features, world_of
from tacit.inference.expectations import pull_back
from tacit.inference.findings import Finding, Kind
from tacit.inference.fitted_law import FittedLaw, Spread, spread_of
from tacit.inference.quantities import Quantity, QuantityTable, quantity_of
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design
from tacit.model.layout import Layout
from tacit.model.mdp import MDP, outside_policy
from tacit.model.objective import Features, Objective

if TYPE_CHECKING:
    from tacit.estimators.trips.traveller import TripsRecovery
    from tacit.recovery import Recovery

# Draws of the coefficients, with a solution each, where a number bends within its error.
DRAWS = 400


class Outcome(NamedTuple):
    """What the demonstrator does in one world, with one set of coefficients."""

    flows: np.ndarray  # [S, A] expected uses of every pair: discounted; by all trips
    sums: np.ndarray  # [D] expected sums of the features as given; of a mean trip
    prices: np.ndarray  # [K] in rewards of the gauge
    surplus: np.ndarray  # expected log-sum at the start, in units of the noise; of a mean trip

    @property
    def flat(self) -> np.ndarray:
        """[m] all numbers."""
        return np.concatenate([one.ravel() for one in self])


def nowhere(shape: tuple[int, int], size: int, count: int) -> Outcome:
    """The outcome, NaN throughout, where there is none: of S, A, D features and K constraints."""
    return Outcome(*(np.full(one, np.nan) for one in (shape, size, count, ())))


class Scenario(Protocol):
    """A world in which the demonstrator is asked what it does."""

    @property
    def lost(self) -> int:
        """Trips that have no way to their goal."""
        ...

    def outcome(self, coefficients: np.ndarray) -> Outcome:
        """With coefficients [P]; NaN where there is no finite value, or budgets cannot be met."""
        ...

    def policy(self, coefficients: np.ndarray) -> np.ndarray | None:
        """[S, A] with coefficients [P]; None where there are several."""
        ...

    def failure(self, coefficients: np.ndarray) -> TacitError:
        """Why there is no outcome with coefficients [P]."""
        ...

    @property
    def features(self) -> Features:
        """What reward and costs are made of."""
        ...

    @property
    def available(self) -> np.ndarray:
        """[S, A] bool, the actions there are."""
        ...

    def about(self, features: Features) -> Scenario:
        """The same with other features."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Change:
    """What is changed.

    Attributes:
        closed: [n] states that nobody may enter, or [n, 2] pairs of state and action.
        prices: number of a constraint -> what its budget costs, in rewards of the gauge.
        budgets: number of a constraint -> its budget.
        features: other features; None for those there are.
        world: another world; None for the one there is.
    """

    closed: npt.ArrayLike = ()
    prices: Mapping[int, float] = field(default_factory=dict)
    budgets: Mapping[int, float] = field(default_factory=dict)
    features: Features | None = None
    world: MDP | None = None


@dataclass(frozen=True, eq=False)
class StateScenario:
    """One task.

    Attributes:
        world: where.
        features: what reward and costs are made of.
        prices: number of a constraint -> what its budget costs, in rewards of the gauge.
        budgets: number of a constraint -> its budget, which takes the price that it needs.
    """

    world: MDP
    features: Features
    prices: Mapping[int, float]
    budgets: Mapping[int, float]

    lost = 0

    @property
    def available(self) -> np.ndarray:
        """[S, A] bool, the actions there are."""
        return self.world.available

    def about(self, features: Features) -> StateScenario:
        """The same with other features."""
        return replace(self, features=features)

    def outcome(self, coefficients: np.ndarray) -> Outcome:
        """With coefficients [P]; NaN where there is no finite value, or budgets cannot be met."""
        shape, size = self.world.available.shape, len(coefficients)
        _, costs = blocks_of(self.features, coefficients)
        if not all(costs[k].any() for k in {*self.prices, *self.budgets}):
            return nowhere(shape, size, len(costs))  # a cost without weights has no price
        at = priced(self.features, coefficients, self.prices)
        reward, costs = blocks_of(self.features, at)
        prices = np.array([block.sum() for block in costs])
        if self.is_plain:
            point = self._point(at)
            if not np.isfinite(point.loss):
                return nowhere(shape, size, len(costs))
            chances = outside_policy(self.world, np.asarray(point.policy))
            flows = visitation(self.world, chances)
            sums = np.concatenate(pull_back(self.features, flows))
            # The log-sum is what is collected and the entropy of every choice: what is the same
            # everywhere, which the chain leaves out, is in it.
            gains = float(np.concatenate([reward, *(-block for block in costs)]) @ sums)
            done = np.where(chances > 0, chances, 1.0)  # nothing is chosen at an end
            surplus = gains - float((flows * np.log(done)).sum())
        else:
            found = self.solution(coefficients)
            if found.status is not Status.CONVERGED:
                return nowhere(shape, size, len(costs))
            for k, paid in zip(sorted(self.budgets), found.multipliers, strict=True):
                prices[k] = paid
            flows = found.visitation
            sums = np.concatenate(pull_back(self.features, flows))
            surplus = float(self.world.initial @ found.values)
        prices = _quotients(prices, np.abs(reward).sum())
        return Outcome(flows=flows, sums=sums, prices=prices, surplus=np.asarray(surplus))

    def policy(self, coefficients: np.ndarray) -> np.ndarray:
        """[S, A] with coefficients [P]."""
        if self.is_plain:
            at = priced(self.features, coefficients, self.prices)
            return outside_policy(self.world, np.asarray(self._point(at).policy))
        return self.solution(coefficients).policy

    @property
    def is_plain(self) -> bool:
        """Whether no price is sought, and values are finite whatever the coefficients."""
        return not self.budgets and self.world.discount < 1.0

    @cached_property
    def _chain(self) -> StepsChain:
        nothing = np.zeros(self.world.available.shape)
        return StepsChain.matching(self.world, Design.of(self.world, self.features), nothing)

    @cached_property
    def _begun(self) -> list[Any]:
        """The first point, near which all others are sought."""
        return []

    def _point(self, coefficients: np.ndarray) -> Any:
        """The values and the policy with coefficients [P], and whether they are finite."""
        x = coefficients * self._chain.space.scales
        near = self._begun[0] if self._begun else self._chain.blank(x)
        found = self._chain.at(x, near, PRECISION)
        if not self._begun and np.isfinite(found.loss):
            self._begun.append(found)
        return found

    def failure(self, coefficients: np.ndarray) -> TacitError:
        """Why there is no outcome with coefficients [P]."""
        found = self.solution(coefficients)
        if found.status is Status.INFEASIBLE:
            return Infeasible(found.status.value, found)
        return InvalidModel(f"the world has no solution after this change: {found.status.value}")

    def solution(self, coefficients: np.ndarray) -> Solution:
        """Of the noisy demonstrator, in units of its noise."""
        reward, costs = blocks_of(self.features, priced(self.features, coefficients, self.prices))
        charged = self.features.objective(reward, costs, np.zeros(len(costs)))
        gains, charges = charged.tables_of(*self.world.available.shape)
        limited = sorted(self.budgets)
        others = [k for k in range(len(costs)) if k not in self.budgets]
        sizes = np.array([costs[k].sum() for k in limited])
        objective = Objective(
            gains - charges[others].sum(axis=0),
            charges[limited] / sizes[:, None, None],
            np.array([self.budgets[k] for k in limited]),
        )
        return SoftDual(1.0).solve(self.world, objective, throw=False)


@dataclass(frozen=True, eq=False)
class TripsScenario:
    """Trips whose origins and goals are given.

    Attributes:
        journeys: the trips, without steps.
        features: what reward and costs are made of.
        prices: number of a constraint -> what its budget costs, in rewards of the gauge.
        lost: trips that have no way to their goal.
    """

    journeys: Journeys
    features: Features
    prices: Mapping[int, float]
    lost: int = 0

    @property
    def available(self) -> np.ndarray:
        """[S, A] bool, the actions there are."""
        return self.journeys.mdp.available

    def about(self, features: Features) -> TripsScenario:
        """The same with other features."""
        own = self.journeys
        ends = own.origins, np.repeat(own.goals, np.diff(own.begins))
        journeys, _ = between(own.mdp, features, own.discount, *ends)
        return replace(self, journeys=journeys, features=features)

    def outcome(self, coefficients: np.ndarray) -> Outcome:
        """With coefficients [P]; NaN where there is no finite value."""
        space, many = self.journeys.space, len(self.journeys.origins)
        at = priced(self.features, coefficients, self.prices)
        found = self._goals.evaluate(at * space.scales, np.arange(len(self.journeys.goals)))
        reward, costs = blocks_of(self.features, at)
        prices = np.array([block.sum() for block in costs])
        shape = self.journeys.mdp.available.shape
        if not np.isfinite(found.loss):
            return nowhere(shape, len(at), len(costs))
        return Outcome(
            flows=np.zeros(shape) + found.flows,
            sums=found.spent * space.signs * space.scales / many,
            prices=_quotients(prices, np.abs(reward).sum()),
            surplus=np.asarray(found.loss / many),
        )

    def policy(self, coefficients: np.ndarray) -> None:
        """None: every goal has one of its own."""
        return

    def failure(self, coefficients: np.ndarray) -> TacitError:
        """Why there is no outcome with coefficients [P]."""
        return InvalidModel("trips have no finite value after this change: walking in circles pays")

    @cached_property
    def _goals(self) -> Goals:
        return Goals(self.journeys, PLANNED)


def blocks_of(features: Features, coefficients: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The coefficients [P] of the reward, and of each constraint."""
    reward, *costs = np.split(coefficients, np.cumsum(features.sizes)[:-1])
    return reward, costs


def _quotients(prices: np.ndarray, unit: float) -> np.ndarray:
    """[K] prices in rewards of the gauge; infinite where no reward is wanted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return prices / unit


def priced(features: Features, coefficients: np.ndarray, prices: Mapping[int, float]) -> np.ndarray:
    """[P] the coefficients with other prices of budgets, in rewards of the gauge."""
    reward, costs = blocks_of(features, coefficients)
    unit = np.abs(reward).sum()
    for k, price in prices.items():
        costs[k] = costs[k] * (price * unit / costs[k].sum())
    return np.concatenate([reward, *costs])


@dataclass(frozen=True, eq=False, kw_only=True)
class Counterfactual(QuantityTable):
    """What the demonstrator is expected to do after a change, and how well that is known.

    Attributes:
        before: at the coefficients of the recovery, without the change.
        names: [D] of the features.
        flows: [S, A] after the change: discounted uses of every pair; of trips, by all that still
            have a way.
        flow_change: [S, A] by how much they changed.
        sums: [D] expected sums of the features after the change; of a mean trip.
        sum_change: [D] by how much they changed.
        prices: [K] of the budgets after the change, in rewards of the gauge.
        price_change: [K] by how much they changed.
        surplus: change of the expected log-sum at the start, of a mean trip, in units of the noise:
            divided by the coefficient of money it is money.
        policy: [S, A] after the change; None of trips, which `predict` tells goal by goal.
        lost: trips that have no way to their goal any more: they are left out, before, too.
    """

    before: Outcome
    names: tuple[str, ...]
    flows: Quantity
    flow_change: Quantity
    sums: Quantity
    sum_change: Quantity
    prices: Quantity
    price_change: Quantity
    surplus: Quantity
    policy: np.ndarray | None
    lost: int = 0

    @property
    def method(self) -> str:
        """How intervals were made, as of a `Quantity`."""
        return self.surplus.method

    def frame(self, *, pandas: bool = False) -> Any:
        """One row a number: sums of features, prices and surplus, before, after and the change."""
        return self._frame(pandas=pandas)

    def flow_frame(self, layout: Layout | None = None, *, pandas: bool = False) -> Any:
        """One row a used pair of state and action, the largest change first.

        Args:
            layout: how states and actions are called.
            pandas: give a frame of pandas.
        """
        named, change = Layout() if layout is None else layout, self.flow_change
        before, after = self.before.flows, self.flows.estimate
        order = np.argsort(-np.abs(change.estimate).ravel(), kind="stable")
        order = order[np.maximum(before, after).ravel()[order] > 0]
        states, actions = np.unravel_index(order, before.shape)
        columns: dict[str, Any] = {
            "state": [named.state_name(s) for s in states.tolist()],
            "action": [named.action_name(a) for a in actions.tolist()],
        }
        numbers = {"flow_before": before, "flow_after": after, "change": change.estimate}
        numbers |= {"lower": change.interval[..., 0], "upper": change.interval[..., 1]}
        columns |= {name: one[states, actions] for name, one in numbers.items()}
        return frame_of(columns, pandas=pandas)

    @cached_property
    def _columns(self) -> dict[str, Any]:
        """The columns of the table; the level of a log-sum means nothing."""
        levels, changes = (self.sums, self.prices), (self.sum_change, self.price_change)
        nan, surplus = [np.nan], self.surplus
        lower, upper = np.concatenate([*(one.interval for one in changes), [surplus.interval]]).T
        return {
            "number": [
                *(f"sum of {name}" for name in self.names),
                *(f"price {k}" for k in range(self.prices.estimate.size)),
                "surplus",
            ],
            "before": np.concatenate([self.before.sums, self.before.prices, nan]),
            "after": np.concatenate([*(one.estimate for one in levels), nan]),
            "change": np.concatenate([*(one.estimate for one in changes), [surplus.estimate]]),
            "lower": lower,
            "upper": upper,
        }

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What came out, as findings."""
        worth = float(self.surplus.estimate)
        said = f"The expected log-sum changes by {worth:.4g} times the noise"
        if not self.surplus.absence:
            low, high = self.surplus.interval
            said += f" ({self.surplus.confidence:.0%} interval {low:.4g} to {high:.4g})"
        found = [Finding(f"{said}.", number=worth)]
        if self.lost:
            text = f"{self.lost} trips have no way to their goal any more: they are left out."
            found.append(Finding(text, Kind.UNATTAINABLE, number=self.lost))
        if self.surplus.absence:
            found.append(Finding(f"No intervals: {self.surplus.absence}.", Kind.ERRORS))
        return tuple(found)

    def __repr__(self) -> str:
        known = f"{self.surplus.confidence:.0%} intervals of changes by {self.method}"
        return self._text(f"Counterfactual ({self.surplus.absence or known})")


def counterfactual(
    recovery: Recovery, change: Change, *, confidence: float, draws: int, seed: int = 0
) -> Counterfactual:
    """The `Counterfactual` of a change; see `Recovery.counterfactual`."""
    check_constraints(recovery, change)
    before, after = recovery.scenarios(change)
    point = recovery.parameters.estimates

    def both(coefficients: np.ndarray) -> np.ndarray:
        one, other = before.outcome(coefficients).flat, after.outcome(coefficients).flat
        with np.errstate(invalid="ignore"):  # a price without a reward is infinite
            return np.concatenate([other, other - one])

    def spread(law: FittedLaw) -> Spread:
        return spread_of(both, law, draws=draws, seed=seed)

    first, second = before.outcome(point), after.outcome(point)
    if not np.isfinite(second.flat).all():
        raise after.failure(point)
    values = np.concatenate([second.flat, second.flat - first.flat])
    whole = quantity_of(recovery.parameters, spread, values, confidence=confidence)
    edges = np.cumsum([0, *(one.size for one in second)])

    def part(field: str, start: int = 0, lower: float = -np.inf) -> Quantity:
        at = Outcome._fields.index(field)
        rows = slice(int(start + edges[at]), int(start + edges[at + 1]))
        return whole.part(rows, getattr(second, field).shape, lower)

    size = int(edges[-1])
    return Counterfactual(
        before=first,
        names=(*recovery.reward_names, *(name for block in recovery.cost_names for name in block)),
        flows=part("flows", lower=0.0),
        flow_change=part("flows", size),
        sums=part("sums"),
        sum_change=part("sums", size),
        prices=part("prices", lower=0.0),
        price_change=part("prices", size),
        surplus=part("surplus", size),
        policy=after.policy(point),
        lost=after.lost,
    )


def state_scenarios(recovery: Recovery, change: Change) -> tuple[Scenario, Scenario]:
    """One task without a change, and with it."""
    origin = recovery.origin
    if recovery.solution is None:
        raise InvalidModel("a counterfactual needs a world to change, and this one was only logged")
    if origin is None:
        raise InvalidModel(
            "a counterfactual needs the world that the recovery was made in, and one that was "
            "loaded does not hold it: give with_origin(...) what it was made from"
        )
    base, own = world_of(recovery, origin), origin.features
    world, features = change.world or base, change.features or own
    check_features(recovery, world, features)
    if world.available.shape != base.available.shape:
        raise InvalidModel(
            f"world must have the states and actions of the recovery, {base.available.shape}; got "
            f"{world.available.shape}"
        )
    world = without(world, np.asarray(change.closed))
    after = StateScenario(world, features, change.prices, change.budgets)
    return StateScenario(base, own, {}, {}), after


def trips_scenarios(recovery: TripsRecovery, change: Change) -> tuple[Scenario, Scenario]:
    """The trips without a change, and with it: those alone that have a way in both."""
    if change.budgets:
        raise InvalidModel(
            "budgets are of one task; each trip spends as it likes: give prices={constraint: price}"
        )
    own = recovery.features
    network, features = change.world or recovery.network, change.features or own
    check_features(recovery, network, features)
    network = without(network, np.asarray(change.closed))
    ended = recovery.destinations >= 0
    ends = recovery.origins[ended], recovery.destinations[ended]
    after, lost = between(network, features, recovery.discount, *ends)
    kept = after.origins, np.repeat(after.goals, np.diff(after.begins))
    before, _ = between(recovery.network, own, recovery.discount, *kept)
    return TripsScenario(before, own, {}), TripsScenario(after, features, change.prices, lost)


def check_constraints(recovery: Recovery, change: Change) -> None:
    """Raises `InvalidModel` unless prices and budgets are of constraints that have weights."""
    if not np.isfinite(recovery.parameters.estimates).all() or not recovery.temperature > 0:
        raise InvalidModel("a counterfactual needs coefficients and a noise; there are none here")
    for what, given in (("prices", change.prices), ("budgets", change.budgets)):
        for k, value in given.items():
            if k not in range(len(recovery.multipliers)):
                raise InvalidModel(
                    f"{what} must be of constraints 0 to {len(recovery.multipliers) - 1}; got {k}"
                )
            if not recovery.multipliers[k] > 0:
                raise InvalidModel(
                    f"{what} must be of constraints that have weights; constraint {k} was not "
                    "found to be active (level=1 keeps all)"
                )
            if not np.isfinite(value) or (what == "prices" and value < 0):
                raise InvalidModel(f"{what} must be finite numbers; constraint {k} got {value}")
    for k in sorted({*change.prices} & {*change.budgets}):
        raise InvalidModel(f"constraint {k} must have a price or a budget; got both")
