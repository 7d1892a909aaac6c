"""The page a person reads first: what is wanted, what is refused, how sure that is."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tacit.inverse.recovery import Recovery

WIDTH = 88
SHOWN = 12  # features listed before the rest is counted


def summarise(recovery: Recovery) -> str:
    """The recovery as plain text."""
    known = recovery.identification
    parts = [
        f"Recovered by {recovery.estimator or 'an unnamed estimator'}.",
        f"Status: {recovery.status.value}.",
        "",
        *_reward(recovery),
    ]
    for k, weights in enumerate(recovery.cost_weights):
        parts += ["", *_constraint(recovery, k, weights)]
    if recovery.temperature > 0 and np.isfinite(recovery.reward_weights).all():
        parts += ["", f"It errs with temperature {recovery.temperature:.4g} (rewards above = 1)."]
    elif recovery.temperature > 0:
        parts += ["", "It errs; without a reward its noise is the unit of the price."]
    parts += ["", "How sure", *_certificate(recovery)]
    if known.findings:
        parts += ["", "Findings", *known.findings]
    return "\n".join(_wrapped(part) for part in parts) + "\n"


def _reward(recovery: Recovery) -> list[str]:
    if not np.isfinite(recovery.reward_weights).all():
        return ["It wants: nothing these demonstrations show; the reward is not identified."]
    intervals = recovery.identification.reward_intervals
    return ["It wants", *_features(recovery.reward_names, recovery.reward_weights, intervals)]


def _constraint(recovery: Recovery, k: int, weights: np.ndarray) -> list[str]:
    name = "It refuses" if len(recovery.cost_weights) == 1 else f"It refuses ({k})"
    if not np.isfinite(weights).all():
        return [f"{name}: nothing these demonstrations show; the constraint is not identified."]
    known = recovery.identification
    unit = "reward" if np.isfinite(recovery.reward_weights).all() else "times its noise"
    head = (
        f"{name} more than {recovery.budgets[k]:.4g}{_interval(known.budget_intervals[k])} "
        f"expected discounted cost (one unit more would buy {recovery.multipliers[k]:.4g}"
        f"{_interval(known.multiplier_intervals[k])} {unit}), made of"
    )
    return [head, *_features(recovery.cost_names[k], weights, known.cost_intervals[k])]


def _features(names: tuple[str, ...], weights: np.ndarray, intervals: np.ndarray) -> list[str]:
    """One line a feature, the heaviest first."""
    order = np.argsort(-np.abs(weights), kind="stable")
    width = max((len(names[j]) for j in order[:SHOWN]), default=0)
    lines = [
        f"  {names[j]:<{width}}  {weights[j]:8.4f}{_interval(intervals[j])}" for j in order[:SHOWN]
    ]
    if len(order) > SHOWN:
        rest = np.abs(weights[order[SHOWN:]]).sum()
        lines.append(f"  and {len(order) - SHOWN} more, {rest:.4f} together")
    return lines


def _interval(ends: np.ndarray) -> str:
    return "" if np.isnan(ends).any() else f"  [{ends[0]:.4g}, {ends[1]:.4g}]"


def _certificate(recovery: Recovery) -> list[str]:
    c = recovery.certificate
    lines = []
    if not np.isnan(c.feature_gap):
        verb = "are matched to" if c.feature_gap <= 1.0 else "are not matched: they differ by"
        line = f"  feature expectations {verb} {_share(c.feature_gap)}"
        if not np.isnan(c.sampling_noise):
            line += f"; sampling alone makes {_share(c.sampling_noise)}"
        lines.append(line)
    if c.truncation > 0:
        most = _share(c.truncation)
        lines.append(f"  trajectories that were cut off account for at most {most}")
    for text, number in (
        ("gradient that no bound holds back", c.projected_gradient),
        ("change of the weights at the end", c.weight_change),
        ("distance of the loss to its optimum, at most", c.objective_gap),
    ):
        if not np.isnan(number):
            lines.append(f"  {text}: {number:.2e}")
    return lines or ["  nothing was measured"]


def _share(number: float) -> str:
    """A share of the expectations' own size; as a multiple where a percentage would puzzle."""
    if not np.isfinite(number):
        return "an unknown share"
    return f"{number:.2%}" if number <= 1.0 else f"{number:.3g} times their size"


def _wrapped(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    more = indent + ("  " if indent else "")
    return textwrap.fill(line, WIDTH, initial_indent="", subsequent_indent=more) if line else ""
