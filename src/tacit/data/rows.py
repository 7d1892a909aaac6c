"""Rows of other forms than a table in order: lists, stored arrays, rows with gaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidDemonstrations
from tacit.files.arrays import read_arrays
from tacit.files.columns import TOP, Fault, integers
from tacit.files.tables import Table, TextTable
from tacit.files.wording import did_you_mean

if TYPE_CHECKING:
    from tacit.data.reading import Reading


# What `Demonstrations` is made from, by name: arrays, and notes.
Arguments = dict[str, Any]
# Columns of a table; those of the second line may be absent.
ORDINARY = ("episode", "step", "state", "action")
OPTIONAL = (
    "group", "individual", "weight", "sampling_weight", "ended", "final_state", "partial",
)  # fmt: skip
ROWS = ("weight", "sampling_weight")  # columns of which every row has its own
TOLD = ("ended", "final_state", "group", "individual")  # columns that speak of whole episodes
# Arrays of an npz file; those of the second line may be absent.
NEEDED = ("states", "actions", "offsets")
STORED_EXTRAS = ("ended", "final_states", "partial", "groups", "individuals", "names", "weights")


@dataclass(frozen=True)
class Episodes:
    """What a file of episodes holds.

    Attributes:
        arguments: of `Demonstrations`.
        state_names: names found, in order of their numbers; empty where there are none.
        action_names: names of the actions, likewise.
        repeats: [E] how often each episode was seen; None where once.
    """

    arguments: Arguments
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    repeats: np.ndarray | None = None


def joined(
    trajectories: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """The arguments of `Demonstrations`, from (states, actions) pairs of numbers or known names."""
    states, actions, final = [], [], []
    for number, trajectory in enumerate(trajectories):
        try:
            seen, taken = trajectory
        except (TypeError, ValueError):
            raise InvalidDemonstrations(
                f"trajectory {number} must be a pair (states, actions); got {trajectory!r:.60}"
            ) from None
        seen = _numbered(seen, state_names, f"trajectory {number}: states")
        taken = _numbered(taken, action_names, f"trajectory {number}: actions")
        if len(seen) not in (len(taken), len(taken) + 1):
            raise InvalidDemonstrations(
                f"trajectory {number} must hold as many states as actions, or one more; "
                f"got {len(seen)} and {len(taken)}"
            )
        if len(taken) == 0:
            raise InvalidDemonstrations(f"trajectory {number} holds no step")
        final.append(int(seen[-1]) if len(seen) > len(taken) else -1)
        states.append(seen[: len(taken)])
        actions.append(taken)
    if not states:
        raise InvalidDemonstrations("demonstrations must hold at least one trajectory; got none")
    return {
        "states": np.concatenate(states),
        "actions": np.concatenate(actions),
        "offsets": np.concatenate([[0], np.cumsum([len(taken) for taken in actions])]),
        "final_states": np.array(final),
    }


def _numbered(values: npt.ArrayLike, names: Sequence[str], what: str) -> np.ndarray:
    """[N] the integers of a list of integers or of known names."""
    if not names or not isinstance(values, list | tuple | np.ndarray):
        return integers(values, what)
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "UTO":
        return integers(array, what)
    places = {name: at for at, name in enumerate(names)}
    strange = next((value for value in array.tolist() if value not in places), None)
    if strange is not None:
        raise InvalidDemonstrations(f"{what} must be names of the layout; got {strange!r:.60}")
    return np.array([places[value] for value in array.tolist()], dtype=np.int32)


def stored_arrays(path: Path, reading: Reading) -> dict[str, np.ndarray]:
    """The arguments of `Demonstrations` that an npz file holds."""
    arrays = read_arrays(path, largest=reading.largest)
    for name in NEEDED:
        if name not in arrays:
            raise InvalidDemonstrations(
                f"{path} must hold {name!r}; got {[*arrays]}{did_you_mean(name, arrays)}"
            )
    states = reading.states or len(reading.state_names)
    actions = reading.actions or len(reading.action_names)
    for name, least, count in (
        ("states", 0, states),
        ("actions", 0, actions),
        ("final_states", -1, states),
    ):
        values = arrays.get(name, np.zeros(0, int))
        if values.dtype.kind not in "iu":
            continue  # `Demonstrations` says what is wrong with it
        odd = (values < least) | (values >= (count or TOP + 1))
        if odd.any():
            at = int(np.argmax(odd))
            raise InvalidDemonstrations(
                f"{path}: {name} must be integers from {least} to {(count or TOP + 1) - 1}; "
                f"row {at + 1} is {values.ravel()[at]}"
            )
    return {name: arrays[name] for name in (*NEEDED, *STORED_EXTRAS) if name in arrays}


def of_episodes(
    told: Mapping[str, np.ndarray], starts: np.ndarray, lengths: np.ndarray, wrong: Fault
) -> dict[str, np.ndarray]:
    """[E] what columns `TOLD`, their rows in order, say of whole episodes, as arguments.

    Args:
        told: by name.
        starts: [E] first row of each episode.
        lengths: [E] how many rows it has.
        wrong: makes the error about one of these rows.
    """

    def refuse(odd: np.ndarray, words: str) -> None:
        if odd.any():
            raise wrong(int(np.argmax(odd)), words)

    found, lasts = dict[str, np.ndarray](), starts + lengths - 1
    if "ended" in told:  # in all rows of an episode, or in the last alone
        flags = told["ended"]
        found["ended"] = ended = flags[lasts]
        count = np.add.reduceat(flags.astype(np.int64), starts)
        odd = np.repeat((count != ended) & (count != lengths), lengths) & flags
        refuse(odd, "ended must be true at the last step of an episode, or at none; got true")
    for name, at in (("final_state", lasts), ("group", starts), ("individual", starts)):
        if name in told:
            values = told[name]
            other = values != np.repeat(values[at], lengths)
            other &= (values != -1) if name == "final_state" else True
            refuse(other, f"{name} must be the same in all rows of an episode; here it differs")
            found[f"{name}s"] = values[at]
    return found


def without_missing(
    arguments: Arguments, wrong: Fault, missing: str
) -> tuple[Arguments, list[str]]:
    """The arguments without rows in which a state or an action is missing, and what was done.

    The last row of an episode may lack its action: its state is where the last action led.
    """
    states, actions, offsets = (arguments[name] for name in ("states", "actions", "offsets"))
    count = len(offsets) - 1
    final = arguments.get("final_states", np.full(count, -1))
    ended = arguments.get("ended", np.zeros(count, bool))
    lost = (states < 0) | (actions < 0)
    pieces: list[tuple[int, int, int, int, bool, bool]] = []  # episode, rows, final, partial, ended
    lasts = gaps = torn = gone = 0
    for e in range(count):
        start, stop = int(offsets[e]), int(offsets[e + 1])
        where, joined_late = int(final[e]), bool(arguments["partial"][e])
        if not lost[start:stop].any():
            pieces.append((e, start, stop, where, joined_late, bool(ended[e])))
            continue
        while stop > start and states[stop - 1] < 0 and actions[stop - 1] < 0:
            stop -= 1
        if stop > start and states[stop - 1] >= 0 > actions[stop - 1]:
            stop -= 1
            lasts += 1
            where = int(states[stop]) if where < 0 else where
        holes = start + np.flatnonzero(lost[start:stop])
        if len(holes) and missing != "split":
            kind = "state" if states[holes[0]] < 0 else "action"
            raise wrong(
                int(holes[0]),
                f"{kind} must be there, but for the action of an episode's last row; it is missing:"
                " fill it in, or split the episode there: tacit ingest LOG --time step --state "
                "state --action action",
            )
        gaps, torn = gaps + len(holes), torn + bool(len(holes))
        before = len(pieces)
        for at in [*holes.tolist(), stop]:
            if at > start:
                own = at == stop
                led = where if own else int(states[at])
                pieces.append((e, start, at, led, joined_late, own and bool(ended[e])))
            start, joined_late = at + 1, True
        gone += len(pieces) == before
    if not pieces:
        raise wrong(0, "some row must have both a state and an action; none has")
    episode = np.array([piece[0] for piece in pieces])
    rows = np.concatenate([np.arange(piece[1], piece[2]) for piece in pieces])
    names = arguments["names"]
    names = np.arange(count).astype(str) if names is None else names
    taken, called = {str(name) for name in names}, list[str]()
    for e, part in zip(episode, np.arange(len(episode)) - np.searchsorted(episode, episode)):  # noqa: B905
        name = str(names[e])
        while part and name in taken:  # a log may have called another episode so already
            part, name = part + 1, f"{names[e]} ({part + 1})"
        called.append(name)
        taken.add(name)
    changed = {
        "states": states[rows],
        "actions": actions[rows],
        "offsets": np.append(0, np.cumsum([piece[2] - piece[1] for piece in pieces])),
        "final_states": np.array([piece[3] for piece in pieces]),
        "partial": np.array([piece[4] for piece in pieces]),
        "ended": np.array([piece[5] for piece in pieces]),
        "names": np.array(called),
    }
    changed |= {name: arguments[name][rows] for name in ROWS if name in arguments}
    others = {name: arguments[name][episode] for name in arguments if name not in changed}
    notes = []
    if lasts:
        notes.append(
            f"{lasts} of {count} episodes have no action in their last row: its state is where the "
            "last action led"
        )
    if gaps:
        notes.append(
            f"{gaps} rows without a state or an action were left out; {torn} episodes were split "
            "there, and the later pieces count as joined on their way"
        )
    if gone:
        notes.append(f"{gone} episodes have no row with a state and an action: they are left out")
    return {**others, **changed}, notes


def refuse_short(table: Table, rows: np.ndarray) -> None:
    """Raises where one of these rows of a text table was cut off, with fewer fields than names."""
    if not isinstance(table, TextTable):
        return
    asked = {*rows.tolist()}
    for row, (_, fields) in enumerate(table.rows()):
        if row in asked and len(fields) != len(table.names):
            raise table.fault(row, "the row is cut off")


def placed(episode: np.ndarray, step: np.ndarray) -> np.ndarray | None:
    """The rows by episode and step, each put where it belongs; None where that takes a sort.

    Steps without gaps tell their own places, so that no comparison is needed. Repeated or missing
    ones, and episodes that are numbered far apart, are left to the sort.
    """
    count, least = len(episode), int(episode.min())
    span = int(episode.max()) - least + 1
    if span > 4 * count + 1024 or count > TOP:
        return None
    code = (episode - least).astype(np.int32)
    lengths = np.bincount(code, minlength=span).astype(np.int32)
    starts = np.cumsum(lengths, dtype=np.int32) - lengths
    begins = np.full(span, TOP, np.int32)
    np.minimum.at(begins, code, step)
    place = step - begins[code]
    if (place >= lengths[code]).any():
        return None
    place += starts[code]
    order = np.full(count, -1, np.int64)
    order[place] = np.arange(count)
    return None if (order < 0).any() else order
