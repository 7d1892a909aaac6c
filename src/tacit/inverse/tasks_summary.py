"""The page on several tasks: what they share, then each by itself."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tacit.inverse.tasks import JointRecovery

WIDTH = 88


def summarise(joint: JointRecovery) -> str:
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
    text = "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines) + "\n"
    parts = [f"Task {e}\n{one.summary()}" for e, one in enumerate(joint.recoveries)]
    return "\n".join([text, *parts])


def _weights(names: tuple[str, ...], weights: np.ndarray, intervals: np.ndarray) -> list[str]:
    """One line a feature, the heaviest first."""
    width = max(map(len, names))
    return [
        f"  {names[j]:<{width}}  {weights[j]:8.4f}  [{intervals[j, 0]:.4g}, {intervals[j, 1]:.4g}]"
        for j in np.argsort(-np.abs(weights), kind="stable")
    ]
