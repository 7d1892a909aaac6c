"""Weights, prices and budgets of standardised features, which no choice of units can change.

A weight says what one unit of a feature counts: of an elevation in metres another share of the
whole than of the same in kilometres. Divided by its standard deviation over the choices of the
world, every feature counts by how much it usually differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from tacit.inference.diagnostics import Identification
from tacit.inference.findings import Finding, Kind
from tacit.model.arguments import read_only
from tacit.model.available import Sites
from tacit.model.objective import Features, is_sparse

if TYPE_CHECKING:
    from tacit.estimators.joint_recovery import JointRecovery
    from tacit.estimators.kinds import KindsRecovery
    from tacit.model.objective import FeatureTable
    from tacit.recovery import Recovery

Shown = TypeVar("Shown", bound="Recovery | JointRecovery | KindsRecovery")

# Relative size of differences between the values of a constant that only rounding makes.
CONSTANT = 1e-9
# Relative difference of deviations that are the same.
ALIKE = 1e-12
# Relative difference of deviations of the same features in the same world.
SAME = 1e-9
# Numbers of a feature map that are looked at together.
BLOCK = 2**20


@dataclass(frozen=True, eq=False, kw_only=True)
class Standard:
    """The units of standardised features, and what is known of weights and prices in these.

    Attributes:
        deviations: ([D], [D_1], ...) what features of the reward, then of each constraint, are
            divided by.
        intervals: [N, 2] of the weights of reward and costs, the multipliers and the budgets, in
            this order; empty where none are known beside those in raw units.
        standard_errors: [N] likewise.
        applied: whether the recovery that has them is in these units.
    """

    deviations: tuple[np.ndarray, ...]
    intervals: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    standard_errors: np.ndarray = field(default_factory=lambda: np.zeros(0))
    applied: bool = False

    def __post_init__(self) -> None:
        parts = tuple(read_only(np.array(part, np.float64)) for part in self.deviations)
        object.__setattr__(self, "deviations", parts)
        for name in ("intervals", "standard_errors"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name), np.float64)))

    @property
    def stacked(self) -> np.ndarray:
        """[D + sum D_k] the deviations of all features."""
        return np.concatenate(self.deviations)

    @property
    def uniform(self) -> bool:
        """Whether features of one map have one unit: then weights and intervals keep their size."""
        return all(np.ptp(part) <= ALIKE * part.max() for part in self.deviations if len(part))

    def knowing(self, known: Identification) -> Standard:
        """The same with the intervals and errors of a recovery in these units."""
        stacked = {what: known.stacked(what) for what in ("intervals", "standard_errors")}
        return replace(self, **stacked, applied=False)


def standard_of(mdp: Sites, features: Features) -> Standard:
    """The `Standard` of features over the choices of a world: all available pairs, and its ends."""
    return standards_of([(mdp, features)])[0]


def standards_of(worlds: Sequence[tuple[Sites, Features]]) -> list[Standard]:
    """The `Standard` of each world, over the choices of all together where maps are as large.

    What worlds share then has one unit in all of them.
    """
    found = []
    for own in zip(*map(_weighted, worlds), strict=True):
        shared = len({table.shape[1] for table, _ in own}) == 1
        found.append([_deviations(own)] * len(own) if shared else [_deviations([p]) for p in own])
    return [Standard(deviations=tuple(parts)) for parts in zip(*found, strict=True)]


def _weighted(world: tuple[Sites, Features]) -> list[tuple[FeatureTable, np.ndarray]]:
    """(matrix [n, D], [n] how often each row counts), for every map of the features."""
    mdp, features = world
    pairs = mdp.choices.astype(np.float64)
    return [
        (table, pairs.sum(axis=1))
        if table.ndim == 2
        else (np.asarray(table).reshape(-1, table.shape[-1]), pairs.ravel())
        for table in features.maps
    ]


def _deviations(parts: Sequence[tuple[FeatureTable, np.ndarray]]) -> np.ndarray:
    """[D] standard deviations over the rows of all parts; of a constant, its size."""
    total = sum(float(count.sum()) for _, count in parts)
    mean = np.sum([table.T @ count for table, count in parts], axis=0) / total
    square, largest = np.zeros(len(mean)), np.abs(mean)
    for table, count in parts:
        for rows, often in _blocks(table, count):
            square += often @ (rows - mean) ** 2
            here = np.abs(rows[often > 0])
            largest = np.maximum(largest, here.max(axis=0, initial=0.0))
    found = np.sqrt(square / total)
    return np.where(found > CONSTANT * largest, found, np.where(largest > 0.0, largest, 1.0))


def _blocks(table: FeatureTable, count: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of a map, written out some at a time, and how often each counts."""
    size = max(1, BLOCK // table.shape[1])
    for first in range(0, len(count), size):
        rows = table[first : first + size]
        dense = rows.toarray() if is_sparse(rows) else np.asarray(rows)
        yield dense, count[first : first + size]


def _norm(weights: np.ndarray, unit: np.ndarray, endless: np.ndarray) -> float:
    """The L1 norm in other units, without what has no finite weight; 1 where that is nothing."""
    sizes = np.abs(weights) * unit
    counted = sizes[~endless].sum()
    size = float(counted if counted > 0 else sizes.sum())
    return size if size > 0 else 1.0


def standardised(found: Recovery) -> Recovery:
    """The recovery in the units of standardised features; as it is where these are not known."""
    units = found.standard
    if units is None or units.applied:
        return found
    reward_unit, *cost_units = units.deviations
    none = np.zeros(len(reward_unit), bool)
    rewards = 1.0 / _norm(found.reward_weights, reward_unit, none)
    ends = found.identification.cost_intervals
    pairs = list(zip(found.cost_weights, cost_units, strict=True))
    norms = [_norm(*pair, np.isposinf(own[:, 1])) for pair, own in zip(pairs, ends, strict=True)]
    costs = 1.0 / np.array(norms)
    prices = rewards / costs
    objective, solution = found.objective, found.solution
    along = (slice(None), *(None,) * (objective.costs.ndim - 1)) if objective else ()
    return replace(
        found,
        reward_weights=found.reward_weights * reward_unit * rewards,
        cost_weights=tuple(w * unit * cost for (w, unit), cost in zip(pairs, costs, strict=True)),
        multipliers=found.multipliers * prices,
        budgets=found.budgets * costs,
        temperature=found.temperature * rewards,
        objective=objective
        and replace(
            objective,
            reward=objective.reward * rewards,
            costs=objective.costs * costs[along],
            budgets=objective.budgets * costs,
        ),
        solution=solution
        and replace(
            solution,
            values=solution.values * rewards,
            value=solution.value * rewards,
            multipliers=solution.multipliers * prices,
            spent=solution.spent * costs,
            temperature=solution.temperature * rewards,
        ),
        identification=_known(found.identification, units, prices, costs),
        standard=replace(units, applied=True),
    )


def shown(found: Shown, *, raw_units: bool = False) -> Shown:
    """What is shown of a recovery: standardised, or in raw units, which nothing then changes."""
    if not raw_units:
        return cast("Shown", found.standardised)
    return cast("Shown", found.with_parts([replace(one, standard=None) for one in found.parts]))


def in_one_unit(
    recoveries: Mapping[str, Recovery], *, raw_units: bool = False
) -> dict[str, Recovery]:
    """The recoveries by name, all standardised; all in raw units if asked, or if one must be."""
    raw = raw_units or any(one.standard is None for one in recoveries.values())
    return {name: shown(one, raw_units=raw) for name, one in recoveries.items()}


def unit_findings(shown: Mapping[str, Recovery]) -> list[Finding]:
    """That a feature varies otherwise in another world, where standardised numbers are shown."""
    units = {name: one.standard for name, one in shown.items()}
    first, *others = units
    found = []
    for other in others:
        one, its = units[first], units[other]
        if one is None or its is None or [*map(len, one.deviations)] != [*map(len, its.deviations)]:
            continue
        gaps = np.abs(np.log(its.stacked / one.stacked))
        worst = int(gaps.argmax())
        if gaps[worst] <= SAME:
            continue
        names = [*shown[first].reward_names, *(n for part in shown[first].cost_names for n in part)]
        sentence = (
            f"Features vary otherwise in {other} than in {first}: the standard deviation of "
            f"{names[worst]} is {its.stacked[worst]:.3g} there and {one.stacked[worst]:.3g} here. "
            "Each is compared in its own standard deviations; if the features have the same units "
            "in both, raw units (raw_units=True, --raw-units) compare them as they are."
        )
        found.append(
            Finding(sentence, Kind.ASSUMED, feature=names[worst], number=float(gaps[worst]))
        )
    return found


def _known(
    known: Identification, units: Standard, prices: np.ndarray, costs: np.ndarray
) -> Identification:
    """What is known in the new units: exactly where these are uniform, else as it was kept.

    A multiplier is one of the old ones times its price [K], a budget one times its cost [K].
    """
    ends, errors = units.intervals, units.standard_errors
    if units.uniform:  # weights of norm 1 stay what they are
        scale = np.concatenate([np.ones(len(units.stacked)), prices, costs])
        ends = known.stacked("intervals") * scale[:, None]
        errors = known.stacked("standard_errors") * scale
    elif not len(ends):
        count = len(units.stacked) + 2 * len(costs)
        ends, errors = np.full((count, 2), np.nan), np.full(count, np.nan)
    return replace(known.with_stacked(intervals=ends, standard_errors=errors), answer=None)
