"""What can be promised, and what more data would buy, in plain sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.inverse.coordinates import Coordinates
from tacit.inverse.expectations import Blocks, Expectations
from tacit.inverse.gauge import Split
from tacit.inverse.inference import TWO_SIDED, Errors


def guarantee_sentences(seen: Expectations, reached: Blocks) -> list[str]:
    """How far the recovered policy can be from the demonstrator, for any weights in the span.

    |J(demonstrator) - J(recovered)| <= |w|_1 (gap + sampling + truncation), for every w.
    """
    if seen.trajectories < 2:
        return []
    sure = seen.guarantee(reached, seen.hoeffding())
    likely = seen.guarantee(reached, seen.bernstein())
    parts = ["reward"] + [f"cost {k}" for k in range(len(sure) - 1)]
    listed = "; ".join(
        f"{name} {min(a, b):.3g}" for name, a, b in zip(parts, sure, likely, strict=True)
    )
    sentence = (
        "For any weights of L1 norm 1 the recovered policy collects what the demonstrator does up "
        f"to, with 95 % confidence: {listed} (discounted sums; the better of the Hoeffding and "
        "the empirical Bernstein bound)."
    )
    return [sentence]


def more_data_sentence(
    names: list[str], ends: np.ndarray, demonstrations: Demonstrations, clustered: bool
) -> list[str]:
    """Which number is known worst, and how much more data would halve its interval.

    Args:
        names: of the weights.
        ends: [D, 2] their intervals.
        demonstrations: what there is.
        clustered: whether trajectories, not steps, are the independent units.
    """
    width = ends[:, 1] - ends[:, 0]
    width = np.where(np.isfinite(width), width, -1.0)
    worst = int(width.argmax())
    if width[worst] <= 0:
        return []
    # Intervals shrink with the square root of the data: half the width takes four times as much.
    unit = "trajectories" if clustered else "steps"
    more = 3 * (demonstrations.episodes if clustered else demonstrations.steps)
    sentence = (
        f"The widest interval is that of {names[worst]}; {more} more {unit} like these would "
        "halve it."
    )
    return [sentence]


def linear_question(
    space: Coordinates, x: np.ndarray, gauge: Split, found: Errors
) -> Callable[[Any, Any], tuple[float, float]]:
    """Answers `Identification.interval` by the delta method, 95 %."""

    def answer(reward_direction: Any, cost_directions: Any = ()) -> tuple[float, float]:
        parts = [np.asarray(reward_direction, float)]
        given = list(cost_directions)
        for k, block in enumerate(space.blocks[1:]):
            size = block.stop - block.start
            parts.append(np.asarray(given[k], float) if k < len(given) else np.zeros(size))
        direction = np.concatenate(parts)
        if direction.shape != x.shape:
            raise InvalidModel(
                f"directions must have one entry a feature ({len(x)} in all); got {direction.shape}"
            )
        theta = x / space.scales
        scaled = np.where(direction != 0, direction * theta, 0.0).sum() * gauge.temperature
        slope = direction * gauge.temperature
        signs = np.zeros(len(x))
        signs[space.blocks[0]] = np.sign(theta[space.blocks[0]])
        slope = (slope - scaled * gauge.temperature * signs) / space.scales
        moved = np.abs(found.blind @ slope).max(initial=0.0)
        if moved > 1e-5 * np.abs(slope).max(initial=1e-300):
            return -np.inf, np.inf
        margin = TWO_SIDED * float(np.sqrt(max(slope @ found.covariance @ slope, 0.0)))
        return float(scaled) - margin, float(scaled) + margin

    return answer
