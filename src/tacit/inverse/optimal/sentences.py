"""What the set of explanations says, as findings."""

from __future__ import annotations

import numpy as np

from tacit.inverse.findings import Finding, Kind, listed
from tacit.inverse.optimal.columns import Columns
from tacit.inverse.optimal.points import Point
from tacit.model.objective import Features

# Columns this close to parallel are the same.
SAME = 1.0 - 1e-9
# Singular values below this, relative to the largest, are 0.
RANK = 1e-9
# States named before the rest is counted.
NAMED = 5
# Ends of intervals this close to a bound are on it.
CLOSE = 1e-7


def map_findings(columns: Columns, features: Features) -> list[Finding]:
    """What the features cannot tell apart, whatever is demonstrated."""
    findings = []
    labels = [
        columns.names[b][j]
        for b, silent in enumerate(columns.inert)
        for j in np.flatnonzero(silent)
    ]
    if labels:
        said = (
            f"No policy can influence {listed(labels)}: any weight explains as much, and the "
            "other intervals are given with weight 0 there."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, feature=_only(labels)))
    equal = _equal_maps(features)
    for j, k in equal:
        said = (
            f"Constraints {j} and {k} have the same features: only the sum of multiplier * weights "
            "is identified by one task."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED))
    pairs, nullity = _trading(columns)
    for a, b in pairs:
        said = (
            f"Reward feature {a!r} and cost feature {b!r} trade off freely: in this world no "
            "demonstrations can tell wanting the one from refusing the other."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, feature=a))
    if nullity > len(pairs) + len(equal):
        said = (
            f"{nullity} combinations of features influence no policy: their weights trade off "
            "freely."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=nullity))
    return findings


def _equal_maps(features: Features) -> list[tuple[int, int]]:
    maps = features.costs
    return [
        (j, k)
        for j in range(len(maps))
        for k in range(j + 1, len(maps))
        if maps[j].shape == maps[k].shape and np.array_equal(maps[j], maps[k])
    ]


def _trading(columns: Columns) -> tuple[list[tuple[str, str]], int]:
    """Reward and cost features with parallel columns, and the nullity of all columns."""
    own = columns.units > 0  # not the negatives that free signs bring
    flat = columns.tables[own].reshape(int(own.sum()), np.prod(columns.tables.shape[1:], dtype=int))
    block, feature = columns.block[own], columns.feature[own]
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    similar = np.abs(unit @ unit.T)
    pairs = [
        (columns.names[0][feature[i]], columns.names[block[j]][feature[j]])
        for i in np.flatnonzero(block == 0)
        for j in np.flatnonzero(block > 0)
        if similar[i, j] > SAME
    ]
    sizes = np.linalg.svd(unit, compute_uv=False) if len(unit) else np.zeros(0)
    return pairs, int((sizes <= RANK * sizes.max(initial=0.0)).sum())


def set_findings(
    columns: Columns,
    reward_intervals: np.ndarray,
    multiplier_intervals: np.ndarray,
    *,
    trivial: bool,
) -> list[Finding]:
    """What all explanations have in common."""
    findings = []
    if trivial:
        said = (
            "Only trivial explanations: every one of them makes all actions equally good, so the "
            "demonstrations tell nothing about the weights."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED))
    least = -1.0 if columns.free_reward else 0.0
    lost = [
        columns.names[0][j]
        for j, (low, high) in enumerate(reward_intervals)
        if low <= least + CLOSE and high >= 1.0 - CLOSE and not columns.inert[0][j]
    ]
    if lost and len(columns.names[0]) > 1:
        said = (
            f"Nothing is known about the reward weight of {listed(lost)}: it can be anything "
            f"between {least:g} and 1."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, feature=_only(lost)))
    if np.isnan(reward_intervals).all():
        said = (
            "No explanation wants anything: the costs alone explain the demonstrations, as when a "
            "budget is the least achievable cost. Reward weights are not identified."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED))
    findings += _price_findings(multiplier_intervals)
    if np.isinf(multiplier_intervals).any() and not np.isnan(reward_intervals).all():
        said = (
            "The costs alone could explain the demonstrations: infinite ends of multipliers mean "
            "that a budget may be the least achievable cost, whatever is wanted."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED))
    return findings


def _price_findings(multiplier_intervals: np.ndarray) -> list[Finding]:
    """Whether each constraint is active, may be, or is not, by its prices [K, 2]."""
    findings = []
    for k, (low, high) in enumerate(multiplier_intervals.tolist()):
        name = "The constraint" if len(multiplier_intervals) == 1 else f"Constraint {k}"
        if high == 0.0:
            said = f"{name} is inactive: no explanation has a price for it."
            findings.append(Finding(said, Kind.INACTIVE, constraint=k))
        elif low <= CLOSE * min(high, 1.0):
            most = "at any price" if np.isinf(high) else f"at up to {high:.4g}"
            said = (
                f"{name} may be inactive: some explanations do without it, others have it {most}."
            )
            findings.append(Finding(said, Kind.NOT_IDENTIFIED, constraint=k, number=high))
        elif np.isfinite(low):
            said = f"{name} is active: every explanation prices it at {low:.4g} or more."
            findings.append(Finding(said, Kind.ACTIVE, constraint=k, number=low))
    return findings


def point_findings(point: Point, visited: int) -> list[Finding]:
    """What the chosen explanation does, beyond what was demonstrated."""
    findings = []
    count = int(point.ties.sum())
    if count:
        one = "1 action that was not demonstrated ties"
        tie = one if count == 1 else f"{count} actions that were not demonstrated tie"
        where = "the 1 visited state" if visited == 1 else f"the {visited} visited states"
        said = f"{tie} with a demonstrated one in every explanation, in {where}."
        findings.append(Finding(said, number=count))
    if point.departure > CLOSE:
        said = (
            "Demonstrated actions can lead to states whose actions were not shown; the recovered "
            "objective departs from the demonstrations there."
        )
        findings.append(Finding(said, Kind.ASSUMED))
    return findings


def misfit_findings(by_state: np.ndarray, wrong: float, forgone: float) -> list[Finding]:
    """That the expert errs, how much and where; `by_state` [S] is NaN where it was not."""
    worst = np.argsort(-np.nan_to_num(by_state, nan=-1.0), kind="stable").tolist()
    named = [f"state {s} ({by_state[s]:.3g})" for s in worst[:NAMED] if by_state[s] > 0]
    text = (
        "Imperfect expert: no objective makes every demonstrated action optimal. The one given is "
        f"the nearest: {wrong:.1%} of the steps fall short of it"
    )
    if np.isfinite(forgone):
        text += f", which forgoes {forgone:.1%} of what it gains over acting at random"
    if not named:
        return [Finding(f"{text}.", Kind.MISFIT, number=wrong)]
    text += ". Intervals are those of exactly optimal experts only, so none are given."
    where = (
        f"A step falls short most, on average, in {listed(named)}; see the history's "
        "`slack_by_state`."
    )
    most = float(by_state[worst[0]])
    return [
        Finding(text, Kind.MISFIT, number=wrong),
        Finding(where, Kind.MISFIT, state=worst[0], number=most),
    ]


def _only(names: list[str]) -> str | None:
    """The name, if there is one only."""
    return names[0] if len(names) == 1 else None
