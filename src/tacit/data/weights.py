"""What weights of rows mean: counts, or sampling weights.

Counts say how often such an episode was seen: a count of 3 is three episodes. Sampling weights say
how much a row stands for, as of a survey, or of patients some of whom were lost: they count in the
likelihood, but no row is seen more often by them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidDemonstrations
from tacit.files.columns import RawColumn

if TYPE_CHECKING:
    from tacit.data.demonstrations import Demonstrations

# Bytes that a step of a repeated episode takes.
STEP_BYTES = 16
# Largest ratio of two sampling weights.
LARGEST_RATIO = 1e12


def positive(column: RawColumn, *, comma: bool = False) -> np.ndarray:
    """[N] weights of the rows of a column, with decimal commas or not: numbers above 0."""
    values = column.numbers(comma=comma)[column.values] if column.texts else column.reals()
    odd = ~(np.isfinite(values) & (values > 0))
    if odd.any():
        row = int(np.argmax(odd))
        mend = "leave out" if values[row] == 0 else "correct it, or leave out"
        raise column.wrong(row, "a number above 0", f": {mend} its row")
    return values


def weights_of(values: npt.ArrayLike, lengths: np.ndarray) -> np.ndarray:
    """[N] weights of the steps; of [E] entries each is that of all steps of an episode."""
    steps, episodes = int(lengths.sum()), len(lengths)
    try:
        weights = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidDemonstrations("weights must be numbers, one a step or an episode") from None
    if weights.shape not in ((steps,), (episodes,)):
        raise InvalidDemonstrations(
            f"weights must hold one entry a step ({steps}) or an episode ({episodes}); "
            f"got {weights.shape}"
        )
    odd = ~np.isfinite(weights) | (weights <= 0)
    if odd.any():
        entry = int(np.argmax(odd))
        raise InvalidDemonstrations(
            f"weights must be above 0 and finite; entry {entry} is {weights[entry]}: select the "
            "episodes that count"
        )
    if weights.min() < weights.max() / LARGEST_RATIO:
        raise InvalidDemonstrations(
            f"weights must lie within a factor of {LARGEST_RATIO:g}, or the smallest are lost; "
            f"they are {weights.min():g} to {weights.max():g}: leave out what weighs next to "
            "nothing"
        )
    return weights if len(weights) == steps else np.repeat(weights, lengths)


def counts_or_weights(
    weight: np.ndarray | None,
    sampling_weight: np.ndarray | None,
    offsets: np.ndarray,
    source: str,
    largest: int,
) -> tuple[np.ndarray | None, np.ndarray | None, list[str]]:
    """([E] how often each episode was seen, or [N] sampling weights; None else; what was taken).

    A column `weight` of whole numbers, the same in all rows of an episode, holds counts. Any other
    one, and a column `sampling_weight`, holds sampling weights.

    Args:
        weight: [N] that column; None where there is none.
        sampling_weight: [N] that column, likewise.
        offsets: [E + 1] of the episodes' rows.
        source: of the rows, for messages.
        largest: most bytes of memory that repeated episodes may take.
    """
    if weight is None:
        return None, sampling_weight, []
    if sampling_weight is not None:
        raise InvalidDemonstrations(
            f"{source} must have one column of weights: weight for counts, or sampling_weight; it "
            "has both"
        )
    counts, is_whole = weight[offsets[:-1]], (weight % 1 == 0).all()
    if not is_whole or not (np.repeat(counts, np.diff(offsets)) == weight).all():
        why = "differ within an episode" if is_whole else "are not all whole numbers"
        note = f"the weights {why}: they are taken for sampling weights, not for counts"
        return None, weight, [note]
    steps = float(weight.sum())
    if STEP_BYTES * steps > largest:
        raise InvalidDemonstrations(
            f"{source}: weights must make no more steps than fit into memory; they make "
            f"{steps:.4g}: if they are sampling weights, call their column sampling_weight"
        )
    note = (
        f"{len(counts)} episodes stand for {counts.sum():.0f}, as their weights say: "
        "whole numbers are counts; sampling weights stand in a column sampling_weight"
    )
    return counts.astype(np.int64), None, [note]


def repeated(seen: Demonstrations, counts: np.ndarray) -> Demonstrations:
    """The demonstrations with every episode as often as its count [E] says, copies last.

    A count of 3 is three episodes, so every sum, likelihood and error bar is that of three. Copies
    keep their individual: error bars take all that one individual did as one.
    """
    every = np.arange(len(counts))
    again = np.repeat(every, counts - 1)
    copy = np.arange(len(again)) - np.searchsorted(again, again) + 2
    names = [seen.episode_name(e) for e in range(seen.episodes)]
    names += [f"{names[e]} x{n}" for e, n in zip(again, copy, strict=True)]
    return replace(seen.select(np.concatenate([every, again])), names=np.array(names))
