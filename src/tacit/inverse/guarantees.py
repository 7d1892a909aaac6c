"""What can be promised, and what more data would buy, in plain sentences."""

from __future__ import annotations

import numpy as np

from tacit.inverse.expectations import Blocks, Expectations
from tacit.tallies.observed import Observed


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
    names: list[str], ends: np.ndarray, demonstrations: Observed, clustered: bool
) -> list[str]:
    """Which number is known worst, and how much more data would halve its interval.

    Args:
        names: of the weights.
        ends: [D, 2] their intervals.
        demonstrations: what there is.
        clustered: whether trajectories, not steps, are the independent units.
    """
    width = ends[:, 1] - ends[:, 0]
    # From 0 to 1 is all that a weight can be: nothing is told of it, and more of it tells no more.
    told = np.isfinite(width) & ~((ends[:, 0] <= 0.0) & (ends[:, 1] >= 1.0))
    width = np.where(told, width, -1.0)
    # Two weights that add up to 1 have intervals of one width: rounding must not choose.
    worst = int(np.argmax(width >= (1.0 - 1e-6) * width.max()))
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
