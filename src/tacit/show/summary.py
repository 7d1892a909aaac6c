"""The page a person reads first: what is wanted, what is refused, how sure that is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tacit.inverse.joint.tasks import JointRecovery
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


JOINT_WIDTH = 88


def summarise_joint(joint: JointRecovery) -> str:
    """The recovery as plain text."""
    known, first = joint.identification, joint.recoveries[0]
    count = len(joint.recoveries)
    lines = [
        f"Recovered from {count} task{'s' if count > 1 else ''} by {joint.estimator}.",
        f"Status: {joint.status.value}.",
    ]
    if not isinstance(joint.reward_weights, tuple):
        lines += ["", "All tasks want"]
        lines += _weights(first.reward_names, joint.reward_weights, known.reward_intervals)
    for k, weights in enumerate(joint.cost_weights):
        which = "" if len(joint.cost_weights) == 1 else f" ({k})"
        lines += [""]
        if np.isnan(weights).all():
            lines.append(f"All tasks refuse{which}: nothing these demonstrations show.")
            continue
        prices = ", ".join(f"{one.multipliers[k]:.4g}" for one in joint.recoveries)
        lines.append(f"All tasks refuse{which}, at prices of {prices}, what is made of")
        lines += _weights(first.cost_names[k], weights, known.cost_intervals[k])
    lines += ["", "Findings", *joint.findings]
    text = (
        "\n".join(textwrap.fill(line, JOINT_WIDTH, subsequent_indent="  ") for line in lines) + "\n"
    )
    parts = [f"Task {e}\n{one.summary()}" for e, one in enumerate(joint.recoveries)]
    return "\n".join([text, *parts])


def _weights(names: tuple[str, ...], weights: np.ndarray, intervals: np.ndarray) -> list[str]:
    """One line a feature, the heaviest first."""
    width = max(map(len, names))
    return [
        f"  {names[j]:<{width}}  {weights[j]:8.4f}  [{intervals[j, 0]:.4g}, {intervals[j, 1]:.4g}]"
        for j in np.argsort(-np.abs(weights), kind="stable")
    ]


ROWS_SHOWN = 10  # features of a table, and findings


def recovery_html(recovery: Recovery) -> str:
    """A short HTML fragment; its colours are the notebook's own."""
    known = recovery.identification
    name = recovery.estimator.partition("(")[0] or "an unnamed estimator"
    parts = [
        f"<p><b>Recovered</b> by {escape(name)}: {escape(recovery.status.value)}.</p>",
        _table(
            ("It wants", "weight", "interval"),
            _feature_rows(recovery.reward_names, recovery.reward_weights, known.reward_intervals),
        ),
    ]
    for k, weights in enumerate(recovery.cost_weights):
        name = "It refuses" if len(recovery.cost_weights) == 1 else f"It refuses ({k})"
        if not np.isfinite(weights).all():
            parts.append(f"<p>{name}: nothing that these demonstrations show.</p>")
            continue
        rows = _feature_rows(recovery.cost_names[k], weights, known.cost_intervals[k])
        rows += [
            ("budget", f"{recovery.budgets[k]:.4g}", _ends(known.budget_intervals[k])),
            ("price of the budget", f"{recovery.multipliers[k]:.4g}",
             _ends(known.multiplier_intervals[k])),
        ]  # fmt: skip
        parts.append(_table((name, "weight", "interval"), rows))
    parts.append(_findings(known.findings))
    return f"<div>{''.join(parts)}</div>"


def _feature_rows(
    names: Sequence[str], weights: np.ndarray, intervals: np.ndarray
) -> list[tuple[str, str, str]]:
    """One row a feature, the heaviest first."""
    order = np.argsort(-np.abs(weights), kind="stable")
    rows = [
        (names[j], f"{weights[j]:.4g}", _ends(intervals[j])) for j in map(int, order[:ROWS_SHOWN])
    ]
    if len(order) > ROWS_SHOWN:
        rest = np.abs(weights[order[ROWS_SHOWN:]]).sum()
        rows.append((f"{len(order) - ROWS_SHOWN} more", f"{rest:.4g} together", ""))
    return rows


def _ends(ends: np.ndarray) -> str:
    return "" if np.isnan(ends).any() else f"{ends[0]:.4g} to {ends[1]:.4g}"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _findings(sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences[:ROWS_SHOWN])
    if len(sentences) > ROWS_SHOWN:
        items += f"<li>{len(sentences) - ROWS_SHOWN} more in `summary()`</li>"
    return f"<p>Findings</p><ul>{items}</ul>"
