"""A recovery as a notebook shows it: weights, intervals, prices and findings, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tacit.inverse.recovery import Recovery

SHOWN = 10  # features of a table, and findings


def recovery_html(recovery: Recovery) -> str:
    """A short HTML fragment; its colours are the notebook's own."""
    known = recovery.identification
    name = recovery.estimator.partition("(")[0] or "an unnamed estimator"
    parts = [
        f"<p><b>Recovered</b> by {escape(name)}: {escape(recovery.status.value)}.</p>",
        _table(
            ("It wants", "weight", "interval"),
            _features(recovery.reward_names, recovery.reward_weights, known.reward_intervals),
        ),
    ]
    for k, weights in enumerate(recovery.cost_weights):
        name = "It refuses" if len(recovery.cost_weights) == 1 else f"It refuses ({k})"
        if not np.isfinite(weights).all():
            parts.append(f"<p>{name}: nothing that these demonstrations show.</p>")
            continue
        rows = _features(recovery.cost_names[k], weights, known.cost_intervals[k])
        rows += [
            ("budget", f"{recovery.budgets[k]:.4g}", _ends(known.budget_intervals[k])),
            ("price of the budget", f"{recovery.multipliers[k]:.4g}",
             _ends(known.multiplier_intervals[k])),
        ]  # fmt: skip
        parts.append(_table((name, "weight", "interval"), rows))
    parts.append(_findings(known.findings))
    return f"<div>{''.join(parts)}</div>"


def _features(
    names: Sequence[str], weights: np.ndarray, intervals: np.ndarray
) -> list[tuple[str, str, str]]:
    """One row a feature, the heaviest first."""
    order = np.argsort(-np.abs(weights), kind="stable")
    rows = [(names[j], f"{weights[j]:.4g}", _ends(intervals[j])) for j in map(int, order[:SHOWN])]
    if len(order) > SHOWN:
        rest = np.abs(weights[order[SHOWN:]]).sum()
        rows.append((f"{len(order) - SHOWN} more", f"{rest:.4g} together", ""))
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
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences[:SHOWN])
    if len(sentences) > SHOWN:
        items += f"<li>{len(sentences) - SHOWN} more in `summary()`</li>"
    return f"<p>Findings</p><ul>{items}</ul>"
