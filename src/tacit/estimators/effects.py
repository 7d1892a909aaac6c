"""Marginal effects and elasticities: what a feature that grows a little does to what is done.

The feature grows where it is asked to, by a share of itself or of a unit; coefficients stay. An
effect is the difference of two outcomes, a little above and below, and a function of the
coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.estimators.whatif import Change, Scenario, check_constraints
from tacit.files.columns import frame_of
from tacit.inference.fitted_law import FittedLaw, Spread, spread_of
from tacit.inference.quantities import Quantity, QuantityTable, number_of, quantity_of
from tacit.model.layout import Layout
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.recovery import Recovery

# Largest change of a utility, in units of the noise, by which a derivative is taken.
STEP = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class Effects(QuantityTable):
    """What changes where a feature grows, for each unit that it grows by, or each per cent.

    Attributes:
        feature: that grows.
        relative: whether numbers are elasticities, per cent for each per cent.
        names: [D] of the features.
        sums: [D] effect on the expected sums of the features, as they are then; of a mean trip.
        flows: [S, A] effect on the uses of every pair: discounted; by all trips.
        surplus: effect on the expected log-sum at the start, in units of the noise; None of an
            elasticity, as the level of a log-sum means nothing.
        chances: [S, A] effect on the chances of actions; None of trips, which have a policy each.
        sum_levels: [D] the sums themselves.
        flow_levels: [S, A] the uses themselves.
        chance_levels: [S, A] the chances themselves; None of trips.
    """

    feature: str
    relative: bool
    names: tuple[str, ...]
    sums: Quantity
    flows: Quantity
    surplus: Quantity | None
    chances: Quantity | None
    sum_levels: np.ndarray
    flow_levels: np.ndarray
    chance_levels: np.ndarray | None

    @property
    def method(self) -> str:
        """How intervals were made, as of a `Quantity`."""
        return self.sums.method

    def frame(self, *, pandas: bool = False) -> Any:
        """One row a number: sums of features and, of marginal effects, the surplus."""
        return self._frame(pandas=pandas)

    def flow_frame(self, layout: Layout | None = None, *, pandas: bool = False) -> Any:
        """One row a used pair of state and action, the largest effect first."""
        return _pairs(self.flow_levels, self.flows, layout, "flow", pandas=pandas)

    def choice_frame(self, layout: Layout | None = None, *, pandas: bool = False) -> Any:
        """One row a state and available action, the largest effect first; of trips refused."""
        if self.chances is None or self.chance_levels is None:
            raise InvalidModel("trips have a policy for every goal: ask for flow_frame()")
        return _pairs(self.chance_levels, self.chances, layout, "probability", pandas=pandas)

    @cached_property
    def _columns(self) -> dict[str, Any]:
        lower, upper = self.sums.interval.T
        columns: dict[str, Any] = {
            "number": [f"sum of {name}" for name in self.names],
            "level": self.sum_levels,
            self.kind: self.sums.estimate,
            "lower": lower,
            "upper": upper,
        }
        if self.surplus is None:
            return columns
        own = [np.nan, self.surplus.estimate, *self.surplus.interval]
        numbers = zip([*columns][1:], own, strict=True)
        more = {name: np.append(columns[name], value) for name, value in numbers}
        return {"number": [*columns["number"], "surplus"], **more}

    @property
    def kind(self) -> str:
        """What the numbers are: "elasticity" or "effect"."""
        return "elasticity" if self.relative else "effect"

    def __repr__(self) -> str:
        each = "per cent for each per cent" if self.relative else "for each unit"
        known = f"{self.sums.confidence:.0%} intervals by {self.method}"
        return self._text(f"Effects of {self.feature}, {each} ({self.sums.absence or known})")


def effects(
    recovery: Recovery,
    feature: str,
    at: npt.ArrayLike | None,
    *,
    relative: bool,
    confidence: float,
    draws: int,
    seed: int = 0,
) -> Effects:
    """The `Effects` of a feature that grows; see `Recovery.marginal_effects`."""
    check_constraints(recovery, Change())
    scenario, _ = recovery.scenarios(Change())
    names, point = recovery.parameters.names, recovery.parameters.estimates
    number = number_of(feature, names)
    grown = Grown.of(scenario, number, float(point[number]), at, relative=relative)

    def spread(law: FittedLaw) -> Spread:
        return spread_of(grown.effects, law, draws=draws, seed=seed)

    values = grown.effects(point)
    if not np.isfinite(values).all():
        raise scenario.failure(point)
    whole = quantity_of(recovery.parameters, spread, values, confidence=confidence)
    levels = grown.levels(point)
    shapes = {name: np.shape(one) for name, one in levels.items()}
    edges = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes.values())])
    rows = {n: slice(int(a), int(b)) for n, a, b in zip(shapes, edges, edges[1:], strict=False)}

    def part(name: str) -> Quantity | None:
        return whole.part(rows[name], shapes[name], -np.inf) if name in rows else None

    sums, flows = part("sums"), part("flows")
    assert sums is not None
    assert flows is not None
    return Effects(
        feature=feature,
        relative=relative,
        names=names,
        sums=sums,
        flows=flows,
        surplus=None if relative else part("surplus"),
        chances=part("chances"),
        sum_levels=levels["sums"],
        flow_levels=levels["flows"],
        chance_levels=levels.get("chances"),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Grown:
    """A scenario, and the same where a feature is a little less and a little more.

    Attributes:
        scenario: as it is.
        less: with a step less of the feature.
        more: with a step more.
        step: in units of the feature, or as a share of it.
        relative: whether effects are divided by what they are on.
    """

    scenario: Scenario
    less: Scenario
    more: Scenario
    step: float
    relative: bool

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        number: int,
        slope: float,
        at: npt.ArrayLike | None,
        *,
        relative: bool,
    ) -> Grown:
        """Of a scenario in which a feature with this coefficient grows at places, None for all."""
        features, actions = scenario.features, scenario.available.shape[1]
        block = next(b for b, own in enumerate(features.blocks) if number < own.stop)
        column = number - features.blocks[block].start
        where = places(at, scenario.available).astype(float)
        maps = features.by_action(actions)
        growth = where * maps[block][..., column] if relative else where
        size = float(np.abs(growth[scenario.available]).max(initial=0.0))
        if not size:
            raise InvalidModel(
                "a feature that grows must be there somewhere; it is 0 in all places"
            )
        largest = float(np.abs(maps[block][..., column]).max(initial=0.0)) or 1.0
        step = STEP / (size * max(abs(slope), 1.0 / largest))

        def changed(by: float) -> Scenario:
            grown = [np.array(one) for one in maps]
            grown[block][..., column] += by * growth
            names = features.reward_names, features.cost_names
            return scenario.about(Features(grown[0], grown[1:], *names, curves=features.curves))

        return cls(
            scenario=scenario,
            less=changed(-step),
            more=changed(step),
            step=step,
            relative=relative,
        )

    def levels(self, coefficients: np.ndarray) -> dict[str, np.ndarray]:
        """What effects are on, with coefficients [P]."""
        return _levels(self.scenario, coefficients)

    def effects(self, coefficients: np.ndarray) -> np.ndarray:
        """[m] all effects with coefficients [P]; NaN where there is no finite value."""
        low, high = _levels(self.less, coefficients), _levels(self.more, coefficients)
        change = {name: (high[name] - low[name]) / (2.0 * self.step) for name in low}
        if self.relative:
            level = {name: 0.5 * (high[name] + low[name]) for name in low}
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = {name: change[name] / level[name] for name in change}
            change = {name: np.where(level[name] == 0.0, 0.0, shares[name]) for name in change}
        return np.concatenate([np.ravel(one) for one in change.values()])


def _levels(scenario: Scenario, coefficients: np.ndarray) -> dict[str, np.ndarray]:
    """What is done and collected in a scenario with coefficients [P]."""
    outcome, policy = scenario.outcome(coefficients), scenario.policy(coefficients)
    found = {"sums": outcome.sums, "flows": outcome.flows, "surplus": outcome.surplus}
    return found if policy is None else found | {"chances": policy}


def places(at: npt.ArrayLike | None, available: np.ndarray) -> np.ndarray:
    """[S, A] bool, the places that states [n] or pairs [n, 2] name; None names all."""
    if at is None:
        return np.ones(available.shape, bool)
    given, found = np.asarray(at), np.zeros(available.shape, bool)
    pairs = given.ndim == 2 and given.shape[1] == 2
    limits = available.shape if pairs else available.shape[:1]
    whole = given.dtype.kind in "iu" and given.size and (pairs or given.ndim == 1)
    if not whole or not ((given >= 0) & (given < limits)).all():
        raise InvalidModel(
            f"at must be states [n] or pairs of state and action [n, 2], below {list(limits)}; got "
            f"{at!r:.60}"
        )
    found[tuple(given.T) if pairs else given] = True
    if pairs and not available[found].all():
        state, action = np.argwhere(found & ~available)[0].tolist()
        raise InvalidModel(f"at names action {action} in state {state}, which is not available")
    return found


def _pairs(
    level: np.ndarray, effect: Quantity, layout: Layout | None, name: str, *, pandas: bool
) -> Any:
    """One row a pair of state and action that is ever used, the largest effect first."""
    named = Layout() if layout is None else layout
    order = np.argsort(-np.abs(effect.estimate).ravel(), kind="stable")
    order = order[level.ravel()[order] > 0]
    states, actions = np.unravel_index(order, level.shape)
    columns: dict[str, Any] = {
        "state": [named.state_name(s) for s in states.tolist()],
        "action": [named.action_name(a) for a in actions.tolist()],
    }
    numbers = {name: level, "effect": effect.estimate}
    numbers |= {"lower": effect.interval[..., 0], "upper": effect.interval[..., 1]}
    columns |= {name: one[states, actions] for name, one in numbers.items()}
    return frame_of(columns, pandas=pandas)
