"""What was seen: demonstrations, their sums, data larger than memory, and where they come from.

Here is what weights of rows mean. Counts say how often such an episode was seen: a count of 3 is
three episodes. Sampling weights say how much a row stands for, as of a survey, or of patients some
of whom were lost: they count in the likelihood, but no row is seen more often by them. And what
the cells of a log say: numbers, or nothing; how many steps trajectories cover; and which of them
are independent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit import names_on_demand
from tacit.data.rows import MISSING
from tacit.errors import InvalidDemonstrations
from tacit.files.columns import Column, real

if TYPE_CHECKING:
    from tacit.data import sources as sources
    from tacit.data.observed import Observed, PartitionedDemonstrations, write_partitions
    from tacit.data.tally import Tally
    from tacit.model.prior import Prior

__all__ = [
    "Observed", "PartitionedDemonstrations", "Prior", "Tally", "sources", "write_partitions",
]  # fmt: skip

_HOME, __getattr__ = names_on_demand(__name__)
if TYPE_CHECKING:  # the names above are public, this one here is not
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
        raise column.wrong(row, wanted, _weight_mend(float(values[row])))
    return values


def check_weights(column: Column, rows: np.ndarray) -> None:
    """Raises for the first of these rows of texts that holds no number above 0."""
    found = np.array([real(text, comma=True) for text in column.texts or ()])
    values = found[column.values[rows]]
    if (odd := ~((values > 0) & np.isfinite(values))).any():
        row = int(rows[odd].min())
        mend = _weight_mend(float(found[column.values[row]]))
        raise column.wrong(row, "a number above 0", mend)


def _weight_mend(value: float) -> str:
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


def table_columns(
    seen: Demonstrations, states: Sequence[str], actions: Sequence[str], first: int
) -> dict[str, npt.ArrayLike]:
    """The columns of a table of demonstrations, as `Demonstrations.columns` says."""
    import polars

    def named(names: Sequence[str], numbers: np.ndarray) -> npt.ArrayLike:
        # Polars: NumPy would hold every row's text at the length of the longest.
        return polars.Series([*names, "-1"])[numbers] if names else numbers  # type: ignore

    episode = seen.episode
    called = seen.names is not None and not first and len({*seen.names}) == seen.episodes
    columns: dict[str, npt.ArrayLike] = {
        "episode": named(seen.names.tolist(), episode) if called else first + episode,  # type: ignore
        "step": seen.step,
        "state": named(states, seen.states),
        "action": named(actions, seen.actions),
    }
    if seen.ended.any():
        columns["ended"] = seen.ended[episode]
    if (seen.final_states != -1).any():
        columns["final_state"] = named(states, seen.final_states[episode])
    if seen.partial.any():
        columns["partial"] = seen.partial[episode]
    if seen.groups is not None:
        columns["group"] = named(seen.groups.tolist(), episode)
    if seen.individuals is not None:
        columns["individual"] = named(seen.individuals.tolist(), episode)
    if seen.weights is not None:
        columns["sampling_weight"] = seen.weights
    return columns


def voids(column: Column) -> list[bool]:
    """Whether each text of a column says that it is missing."""
    return [text.casefold() in MISSING for text in column.texts or ()]


def missing_rows(column: Column) -> np.ndarray:
    """[N] whether each row of a column is missing."""
    return np.array(voids(column), bool)[column.values]


@dataclass(frozen=True)
class Reals:
    """Turns a column into numbers."""

    decimal_comma: bool = False

    def __call__(self, column: Column) -> np.ndarray:
        """[N] the numbers of a column; NaN where one is missing."""
        texts = column.texts or ()
        values = np.array([self.number(text) for text in texts])
        odd = ~np.isfinite(values) & ~np.array(voids(column), bool)
        if odd.any():
            text = str(column.cell(int(np.argmax(odd[column.values]))))
            comma = not self.decimal_comma and re.fullmatch(r"[+-]?\d+,\d+", text)
            hint = f": for decimal commas give --decimal-comma, or write {text.replace(',', '.')}"
            column.refuse(odd, "a number", hint if comma else "")
        return values[column.values]

    def number(self, text: str) -> float:
        """The number that a text spells; NaN where it spells none."""
        return real(text, comma=self.decimal_comma)


# What episodes are called where nothing is known of who is behind them, and where it is.
EPISODES, INDIVIDUALS = "trajectories", "individuals"


@dataclass(frozen=True, eq=False)
class Units:
    """What is independent among episodes: those of one individual are not, of each other.

    Attributes:
        number: [E] unit of each episode, from 0.
        called: `INDIVIDUALS`, "groups" or `EPISODES`.
    """

    number: np.ndarray
    called: str

    def across(self, member: np.ndarray) -> Units:
        """The same; the episodes where each group of `member` [E] is one unit by itself."""
        alone = len({*zip(self.number.tolist(), member.tolist(), strict=True)}) <= member.max() + 1
        return Units(np.arange(len(member)), EPISODES) if alone else self

    @property
    def doubt(self) -> str:
        """What to say of a law that takes all episodes for independent."""
        told = f", as if all episodes of {self.called} were independent"
        return "" if self.called == EPISODES else told

    def __len__(self) -> int:
        return int(self.number.max()) + 1

    def drawn(self, random: np.random.Generator) -> np.ndarray:
        """The episodes of as many units as there are, drawn with repetition."""
        if len(self) < 2:
            raise InvalidDemonstrations(f"resampling needs at least two {self.called}; got one")
        order, lengths = np.argsort(self.number, kind="stable"), np.bincount(self.number)
        chosen = random.integers(len(self), size=len(self))
        ends, long = np.cumsum(lengths)[chosen], lengths[chosen]
        return order[np.repeat(ends - np.cumsum(long), long) + np.arange(long.sum())]

    def parted(self, member: np.ndarray) -> np.ndarray:
        """[U] bool, the units with episodes in several of the groups `member` [E]."""
        first = np.unique(self.number, return_index=True)[1]
        apart = np.bincount(self.number, weights=member[first][self.number] != member)
        return np.asarray(apart > 0)

    def dealt(self, member: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """[E] the groups of the episodes, `member` [E], dealt out again to whole units.

        Groups of a unit that has episodes in several are shuffled within it.
        """
        first, parted = np.unique(self.number, return_index=True)[1], self.parted(member)
        own = member[first]
        own[~parted] = random.permutation(own[~parted])
        result = own[self.number]
        if parted.any():
            shuffled = np.lexsort((random.random(len(member)), self.number))
            ordered = np.argsort(self.number, kind="stable")
            within = parted[self.number[ordered]]
            result[ordered[within]] = member[shuffled[within]]
        return result

    def dealing(self, member: np.ndarray, whole: str) -> str:
        """What `dealt` does, in words; episodes are called `whole`."""
        if self.called == EPISODES:
            return f"dealing the {whole} out again"
        told, parted = f"dealing the {len(self)} {self.called} out again", self.parted(member).sum()
        if parted == 0:
            return told
        within = f"shuffling groups within the {parted} {self.called} that are in several"
        return within if parted == len(self) else f"{told}, and {within},"

    def least_chance(self, member: np.ndarray) -> float:
        """The smallest p-value that dealing groups `member` [E] out again can give."""
        first, parted = np.unique(self.number, return_index=True)[1], self.parted(member)
        sizes = np.bincount(member[first][~parted])
        ways = _ways(sizes)
        for unit in np.flatnonzero(parted):
            ways *= _ways(np.bincount(member[self.number == unit]))
        # Groups of the same size may change their names, and nothing else.
        same = np.unique(sizes[sizes > 0], return_counts=True)[1] if not parted.any() else []
        return float(np.prod([math.factorial(int(n)) for n in same]) / ways)


def _ways(sizes: np.ndarray) -> float:
    """How many ways there are to deal out groups of these sizes; infinite beyond all numbers."""
    logarithm = math.lgamma(sizes.sum() + 1.0) - sum(math.lgamma(n + 1.0) for n in sizes)
    return round(math.exp(logarithm)) if logarithm < 40.0 else math.inf


@dataclass(frozen=True)
class Horizons:
    """How many discounted steps trajectories cover, each at most 1 / (1 - discount).

    Attributes:
        number: E, how many trajectories there are.
        mean: of the steps covered.
        square: mean of their squares, for bounds on sums: of an episode that is complete, of the
            most that it could have taken. Infinite at discount 1, where nothing bounds that.
        longest: the most that one covers.
    """

    number: int
    mean: float
    square: float
    longest: float
