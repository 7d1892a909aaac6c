"""Many recoveries: a batch of one shape in one call, tasks each by itself, how answers differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from tacit import checks
from tacit.engine import cluster_is_told, cores, each, keep_compiled_code
from tacit.engine.progress import Callback, Event
from tacit.errors import InvalidModel
from tacit.estimators.batch import Batch, recover_many
from tacit.estimators.recover import Estimator, recover
from tacit.estimators.task import Task
from tacit.inference.findings import LEVEL, Finding, Kind, chance, listed
from tacit.inference.standardised import in_one_unit, unit_findings
from tacit.inference.tails import ONE_SIDED, TWO_SIDED, holm
from tacit.recovery import Recovery, RecoveryStatus
from tacit.search.algebra import largest_first

# What is said of a price in units of the noise, where no reward is known.
OVER_NOISE = " over the noise"


def recover_each(
    tasks: Iterable[Task],
    *,
    estimator: Estimator | Sequence[Estimator] | None = None,
    workers: int | None = None,
    callbacks: Sequence[Callback] = (),
    allow_impossible: bool = False,
) -> list[Recovery]:
    """The `Recovery` of every task, in their order; each says by its status how it ended.

    Tasks may differ in everything: world, features, size. They share nothing, unlike those of
    `recover`, and are not in step, unlike those of `recover_many`.

    Args:
        tasks: what to recover; a sweep or resampled demonstrations are such lists, too.
        estimator: how; one for all, or one a task. None picks by evidence.
        workers: processes; None for what joblib was told, or one per core if nothing. A cluster
            decides by itself.
        callbacks: called with a `tacit.progress.Event` whenever one more is done, in the order of
            the tasks.
        allow_impossible: let moves of probability 0 pass as findings, as `recover` does.
    """
    tasks = list(tasks)
    for task in tasks:
        if not isinstance(task, Task):
            raise InvalidModel(f"tasks must be of type Task; got {type(task).__name__}")
    estimators = list(estimator) if isinstance(estimator, Sequence) else [estimator] * len(tasks)
    if len(estimators) != len(tasks):
        raise InvalidModel(
            f"there must be one estimator, or one a task ({len(tasks)}); got {len(estimators)}"
        )
    recoveries: list[Recovery] = []
    allowed = [allow_impossible] * len(tasks)
    pieces = zip(tasks, estimators, allowed, strict=True)
    for recovery in each(_recovered, pieces, workers=workers):
        recoveries.append(recovery)
        for callback in callbacks:
            callback(Event("tasks", len(recoveries), {"of": float(len(tasks))}))
    return recoveries


def _recovered(task: Task, estimator: Estimator | None, allow_impossible: bool) -> Recovery:
    return recover(
        task.mdp,
        task.features,
        task.demonstrations,
        estimator=estimator,
        allow_impossible=allow_impossible,
        throw=False,
    )


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One number in two recoveries, the first minus the second.

    Attributes:
        quantity: "reward", "cost 0", "price 0" and so on.
        name: of the feature; of a price that of its constraint.
        first: name of one recovery.
        second: name of the other.
        value: the difference.
        low: lower end of its 95 % interval, no less than the intervals of both allow.
        high: upper end, likewise.
        standard_error: of the difference, of two that are independent; where individuals are in
            both, the largest that any dependence allows.
        p_value: chance of one this large, either way, if there is none: by the side of the
            interval that lies towards 0, as if normal.
        adjusted: the same by Holm's method, over all differences asked about.
        shared_individuals: how many are in both.
    """

    quantity: str
    name: str
    first: str
    second: str
    value: float
    low: float
    high: float
    standard_error: float
    p_value: float
    adjusted: float = math.nan
    shared_individuals: int = 0

    @property
    def what(self) -> str:
        """The number, in words."""
        kind = self.quantity.partition(" ")[0]
        return (
            f"the price of {self.name}" if kind == "price" else f"the {kind} weight of {self.name}"
        )


@dataclass(frozen=True, eq=False)
class Differences:
    """How the weights and prices of several recoveries differ, pair by pair.

    Attributes:
        names: of the recoveries.
        rows: one per number and pair, those that are clearest first.
        unjudged: numbers that have no error bars or another unit in one of a pair, and so no
            p-value; each with the reason.
        doubts: what is wrong with single recoveries, misfit, not converged, not identified; and
            which of them the same individuals are in.
    """

    names: tuple[str, ...]
    rows: tuple[Difference, ...]
    unjudged: tuple[str, ...] = ()
    doubts: tuple[Finding, ...] = ()

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What came out, as findings."""
        findings = [_spoken(row) for row in self.rows if row.adjusted <= LEVEL]
        if not self.rows:
            sentence = (
                "No single number can be compared: none has errors in one unit in two of them."
            )
            findings = [Finding(sentence)]
        elif not findings:
            least = float(self.rows[0].adjusted)
            sentence = (
                f"Nothing shows that {' and '.join(self.names)} differ: of {len(self.rows)} "
                f"differences the clearest has {chance(least)}, adjusted by Holm's method."
            )
            findings = [Finding(sentence, number=least)]
        if self.unjudged:
            sentence = (
                f"Not judged: {', '.join(self.unjudged[:6])}. Groups of one problem can differ all "
                "the same: tacit recover --groups tests all their weights together."
            )
            findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, number=len(self.unjudged)))
        return (*findings, *self.doubts)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Name -> column of a table, one row a difference."""
        names = [*Difference.__dataclass_fields__]
        return {name: np.array([getattr(row, name) for row in self.rows]) for name in names}


def _spoken(row: Difference) -> Finding:
    more = "larger" if row.value > 0 else "smaller"
    ends = [math.copysign(1.0, row.value) * end for end in (row.low, row.high)]
    sentence = (
        f"For {row.first} {row.what} is {more} than for {row.second} by {abs(row.value):.3g} "
        f"[{min(ends):.3g}, {max(ends):.3g}] "
        f"({chance(row.adjusted)}, adjusted by Holm's method)."
    )
    return Finding(sentence, Kind.NOTE, feature=row.name, number=row.adjusted)


def differences(
    recoveries: Mapping[str, Recovery],
    *,
    individuals: Mapping[str, ArrayLike] | None = None,
    raw_units: bool = False,
) -> Differences:
    """The `Differences` of recoveries by name.

    Weights are those of sum 1, prices in units of the reward: so groups may differ in their noise.
    Both are of standardised features, each in the deviations of its own world, or with `raw_units`
    of the features as given. A number on its bound is judged by the end of its interval.

    Args:
        recoveries: name -> what was recovered.
        individuals: name -> names of the individuals whose demonstrations these were. Two with
            none in common are independent of each other; of others the errors add up, as if
            they depended on each other as badly as they can.
        raw_units: compare numbers of the features as given.
    """
    if len(recoveries) < 2:
        raise InvalidModel(f"at least two recoveries are needed to compare; got {len(recoveries)}")
    shown = in_one_unit(recoveries, raw_units=raw_units)
    numbers = {name: dict(_numbers(one)) for name, one in shown.items()}
    who = {name: {*map(str, np.ravel(own))} for name, own in (individuals or {}).items()}
    rows, unjudged, shared = [], [], {}
    for first, second in combinations(numbers, 2):
        common = len(who.get(first, set()) & who.get(second, set()))
        if common:
            shared[first, second] = common
        # Errors of two numbers add up in squares if they are independent, and to their sum at most.
        together = float.__add__ if common else math.hypot
        for key, one in numbers[first].items():
            other = numbers[second].get(key, NOT_KNOWN)
            gap, spread = one.value - other.value, together(one.error, other.error)
            if not (math.isfinite(gap) and math.isfinite(spread) and spread > 0):
                why = "without error bars" if key in numbers[second] else "in one of them only"
                if key not in numbers[second] and _other_unit(key) in numbers[second]:
                    why = "in other units"
                unjudged.append(f"{key[0]} {key[1]} ({first}, {second}: {why})")
                continue
            # Of two independent numbers the distances to the ends of their intervals add up in
            # squares (Zou and Donner 2008): no end is beyond what the two can be.
            below = together(one.below, other.above)
            above = together(one.above, other.below)
            towards = below if gap > 0 else above
            row = Difference(
                quantity=key[0],
                name=key[1],
                first=first,
                second=second,
                value=gap,
                low=gap - below,
                high=gap + above,
                standard_error=spread,
                p_value=math.erfc(TWO_SIDED * abs(gap) / towards / math.sqrt(2.0)) if gap else 1.0,
                shared_individuals=common,
            )
            rows.append(row)
    adjusted = holm([row.p_value for row in rows]).tolist()
    judged = [replace(row, adjusted=fair) for row, fair in zip(rows, adjusted, strict=True)]
    order = [judged[i] for i in largest_first([-row.p_value for row in judged])]
    doubts = [doubt for name, one in recoveries.items() for doubt in _doubts(name, one)]
    doubts += unit_findings(shown)
    doubts = [*_dependence(shared), *doubts]
    return Differences(tuple(recoveries), tuple(order), tuple(unjudged), tuple(doubts))


def _dependence(shared: Mapping[tuple[str, str], int]) -> Iterator[Finding]:
    """That some pairs are not independent, with how many individuals are in both."""
    if shared:
        pairs = listed([f"{one} and {other} ({n})" for (one, other), n in shared.items()])
        sentence = (
            f"The same individuals are in {pairs}, so these are not independent: the errors of a "
            "difference are added, the most that any dependence allows. tacit recover --groups "
            "shuffles groups within individuals, and may see a difference that this does not."
        )
        yield Finding(sentence, Kind.ERRORS, number=float(max(shared.values())))


def _other_unit(key: tuple[str, str]) -> tuple[str, str]:
    """(quantity, name) of the same price in its other unit: the reward's, or the noise's."""
    plain = key[0].removesuffix(OVER_NOISE)
    return (plain + OVER_NOISE if plain == key[0] else plain), key[1]


def _doubts(name: str, recovery: Recovery) -> Iterator[Finding]:
    """What keeps the numbers of one recovery from being read as they stand."""
    fit = recovery.goodness
    if recovery.status is RecoveryStatus.NOT_CONVERGED:
        yield Finding(f"{name}: {recovery.status.value}.", Kind.NOT_CONVERGED)
    if not fit.adequate:
        how = f" ({chance(fit.p_value)})" if math.isfinite(fit.p_value) else ""
        sentence = (
            f"{name}: the model does not fit what was seen{how}; its numbers, and differences "
            "from them, are about the best approximation. Its report says where it fails."
        )
        yield Finding(sentence, Kind.MISFIT, number=float(fit.p_value))
    for one in recovery.identification.findings:
        if isinstance(one, Finding) and one.kind in (Kind.NOT_IDENTIFIED, Kind.INACTIVE):
            yield Finding(f"{name}: {one[:1].lower()}{one[1:]}", one.kind, **asdict(one.about))


@dataclass(frozen=True)
class _Measured:
    """A number with its standard error, and how far it is to both ends of its 95 % interval."""

    value: float
    error: float
    below: float
    above: float


NOT_KNOWN = _Measured(math.nan, math.nan, math.nan, math.nan)


def _numbers(recovery: Recovery) -> Iterator[tuple[tuple[str, str], _Measured]]:
    """((quantity, name), number) of every weight and price; NaN where unknown."""
    rows = [row for row in checks.numbers_of(recovery) if not row.is_budget]
    many = Counter(row.quantity for row in rows)
    # Where no reward is known, prices are in units of the noise: no matter for a difference.
    unit = "" if np.isfinite(recovery.reward_weights).all() else OVER_NOISE
    for quantity, name, value, low, high, error in rows:
        below, above, most = value - low, high - value, 1.0
        if quantity == "price":
            quantity, name = f"price {name}{unit}", " and ".join(recovery.cost_names[int(name)][:3])
            most = math.inf
        elif many[quantity] == 1:
            continue  # a weight that stands alone is 1 by definition
        if not recovery.temperature > 0:
            error = math.nan  # the set of all explanations is no matter of chance
        elif not error > 0:
            error = max(above, below) / ONE_SIDED
            # One side holds all 5 % that such an interval may miss: here each side has its half.
            below = min(below * TWO_SIDED / ONE_SIDED, value - (-1.0 if low < 0 else 0.0))
            above = min(above * TWO_SIDED / ONE_SIDED, max(most - value, above))
        yield (quantity, name), _Measured(value, error, below, above)


__all__ = [
    "Batch",
    "Difference",
    "Differences",
    "cluster_is_told",
    "cores",
    "differences",
    "each",
    "keep_compiled_code",
    "recover_each",
    "recover_many",
]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)
