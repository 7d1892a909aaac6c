"""What weights of rows mean: counts, or sampling weights.

Counts say how often such an episode was seen: a count of 3 is three episodes. Sampling weights say
how much a row stands for, as of a survey, or of patients some of whom were lost: they count in the
likelihood, but no row is seen more often by them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidDemonstrations
from tacit.files.columns import Column

if TYPE_CHECKING:
    from tacit.data.demonstrations import Demonstrations

# Bytes that a step of a repeated episode takes.
STEP = 16
# Times that a sampling weight may be another.
APART = 1e12


def positive(column: Column) -> np.ndarray:
    """[N] weights of the rows of a column: numbers above 0."""
    wanted = "a number above 0"
    if column.texts is not None:
        column.refuse([text.strip() == "" for text in column.texts], wanted, ": leave out its row")
    values = column.reals()
    if (values <= 0).any():
        row = int(np.argmax(values <= 0))
        raise column.wrong(row, wanted, weight_mend(float(values[row])))
    return values


def weight_mend(value: float) -> str:
    """What to do about a weight that is refused, to end a message with."""
    return f": {'leave out' if value == 0 else 'correct it, or leave out'} its row"


def weights_of(given: npt.ArrayLike, lengths: np.ndarray) -> np.ndarray:
    """[N] weights of the steps; of [E] entries each is that of all steps of an episode."""
    steps, episodes = int(lengths.sum()), len(lengths)
    try:
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidDemonstrations("weights must be numbers, one a step or an episode") from None
    if weights.shape not in ((steps,), (episodes,)):
        raise InvalidDemonstrations(
            f"weights must hold one entry a step ({steps}) or an episode ({episodes}); "
            f"got {weights.shape}"
        )
    odd = ~np.isfinite(weights) | (weights <= 0)
    if odd.any():
        at = int(np.argmax(odd))
        raise InvalidDemonstrations(
            f"weights must be above 0 and finite; entry {at} is {weights[at]}: select the episodes "
            "that count"
        )
    if weights.min() < weights.max() / APART:
        raise InvalidDemonstrations(
            f"weights must lie within a factor of {APART:g}, or the smallest are lost; they are "
            f"{weights.min():g} to {weights.max():g}: leave out what weighs next to nothing"
        )
    return weights if len(weights) == steps else np.repeat(weights, lengths)


def weigh(
    arguments: dict[str, Any], path: Path | str, largest: int
) -> tuple[dict[str, Any], list[str]]:
    """The arguments of `Demonstrations` with the weights of its rows counted, and what was done.

    A column `weight` of whole numbers, the same in all rows of an episode, holds counts, which
    become `repeats` [E]. Any other one, and a column `sampling_weight`, holds sampling weights.
    """
    told, counts = arguments.pop("sampling_weight", None), arguments.pop("weight", None)
    if counts is not None and told is not None:
        raise InvalidDemonstrations(
            f"{path} must have one column of weights: weight for counts, or sampling_weight; it "
            "has both"
        )
    if counts is None:
        return arguments | {"weights": told}, []
    starts = arguments["offsets"][:-1]
    alike = np.repeat(counts[starts], np.diff(arguments["offsets"])) == counts
    if alike.all() and (counts % 1 == 0).all():
        if STEP * (steps := float(counts.sum())) > largest:
            raise InvalidDemonstrations(
                f"{path}: weights must make no more steps than fit into memory; they make "
                f"{steps:.4g}: if they are sampling weights, call their column sampling_weight"
            )
        said = (
            f"{len(starts)} episodes stand for {counts[starts].sum():.0f}, as their weights say: "
            "whole numbers are counts; sampling weights stand in a column sampling_weight"
        )
        return arguments | {"repeats": counts[starts].astype(np.int64)}, [said]
    why = "differ within an episode" if (counts % 1 == 0).all() else "are not all whole numbers"
    said = f"the weights {why}: they are taken for sampling weights, not for counts"
    return arguments | {"weights": counts}, [said]


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
