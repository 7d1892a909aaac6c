"""From rows to episodes: lists and frames in memory, the order of rows, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidDemonstrations, TacitError
from tacit.files.columns import TOP, Column, Fault, Growing, did_you_mean, integers
from tacit.files.tables import Progress, Table

if TYPE_CHECKING:
    import polars

# What `Demonstrations` is made from, by name: arrays, and notes.
Arguments = dict[str, Any]
# A frame of somebody else's: Polars, pandas, or a mapping from names to columns.
Frame = Any
# Cells that say nothing, in small letters: never a name.
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "-")
ROWS = ("weight", "sampling_weight")  # columns of which every row has its own
FROM_ONE = "every episode begins at step 1: steps are taken to count from 1"


class FrameTable(Table):
    """A frame in memory as a table, its columns under the names that tacit gives them."""

    def __init__(
        self,
        frame: Frame,
        error: type[TacitError],
        columns: Mapping[str, str],
        *,
        what: str,
        as_texts: bool = False,
    ) -> None:
        have = [str(name) for name in _column_names(frame, error)]
        for name, column in columns.items():
            if column not in have:
                shown = ", ".join(have[:12]) + (", ..." if len(have) > 12 else "")
                index = column in getattr(getattr(frame, "index", None), "names", ())  # pandas
                hint = ": it is the index, reset_index() makes a column of it" if index else ""
                raise error(
                    f"{what} must have the column {column!r}, its {name}; it has {shown}"
                    f"{hint or did_you_mean(column, have)}"
                )
            if have.count(column) > 1:
                raise error(f"{what} must have the column {column!r} once; it has several")
        super().__init__(what, error, tuple(columns))
        self.columns, self._frame, self._as_texts = dict(columns), frame, as_texts

    def batches(
        self, columns: Mapping[str, Growing], progress: Progress | None
    ) -> Iterator[polars.DataFrame]:
        """The frame itself, with the columns asked for."""
        import polars

        found = {name: series(self._frame, self.columns[name]) for name in columns}
        kind = polars.String if self._as_texts else None
        yield polars.DataFrame({n: one.cast(kind) if kind else one for n, one in found.items()})


def _column_names(frame: Frame, error: type[TacitError]) -> list[object]:
    found = getattr(frame, "columns", None)
    if found is None and isinstance(frame, Mapping):
        found = [*frame]
    if found is None or isinstance(frame, str | bytes | np.ndarray):
        raise error(
            "a frame must be a pandas or Polars frame, or a dictionary of columns; "
            f"got {type(frame).__name__}"
        )
    return list(found)


def series(frame: Frame, name: str) -> polars.Series:
    """One column of a frame as Polars holds it: what is missing is null, whole numbers whole."""
    import polars

    found = frame[name]
    if not isinstance(found, polars.Series):
        found = _from_values(np.asarray(found), name)
    if found.dtype.is_float():  # whole numbers among missing ones are floats in pandas
        found = found.fill_nan(None)
        rest = found.drop_nulls().to_numpy()
        if len(rest) and np.isfinite(rest).all() and (rest == np.floor(rest)).all():
            found = found.cast(polars.Int64) if np.abs(rest).max() < 2**53 else found
    return found.alias(name)


def _from_values(values: np.ndarray, name: str) -> polars.Series:
    import polars

    if values.dtype.kind not in "OSU":
        return polars.Series(name, values)
    cells = [None if _is_void(cell) else cell for cell in values.tolist()]
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int} or kinds <= {int, float} or kinds <= {bool}:
        return polars.Series(name, cells, strict=False)
    return polars.Series(name, [None if cell is None else str(cell) for cell in cells])


def _is_void(cell: object) -> bool:
    """Whether a cell of somebody else's frame says that it is missing."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell != cell


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


def assembled(
    columns: Mapping[str, np.ndarray], labels: Column, fault: Fault, *, missing: str = "refuse"
) -> tuple[Arguments, list[str]]:
    """The arguments of `Demonstrations`, from one row a step in any order, and what was assumed.

    Args:
        columns: by name; a state or an action is -1 where it is missing.
        labels: the column of episodes, for their names.
        fault: makes the error about a row.
        missing: "refuse" or "split", where something is missing before the end of an episode.
    """
    notes, (order, first) = [], row_order(columns, labels, fault)

    def sorted_rows(name: str) -> np.ndarray:
        return columns[name] if order is None else columns[name][order]

    def wrong(at: int, words: str) -> TacitError:
        return fault(int(at if order is None else order[at]), words)

    def refuse(odd: np.ndarray, words: str) -> None:
        if odd.any():
            raise wrong(int(np.argmax(odd)), words)

    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, len(first)))
    lasts = starts + lengths - 1
    partial = np.zeros(len(starts), bool)
    if "step" in columns:
        begins = sorted_rows("step")[starts]
        # Some programs count from 1. Otherwise an episode that starts later was joined on its way.
        from_one = bool((begins == 1).all())
        partial = (begins > 0) & (not from_one)
        notes += [FROM_ONE] if from_one else []
    else:
        notes.append("there is no column 'step': rows are taken in the order of the file")
    if "partial" in columns:
        partial |= np.logical_or.reduceat(sorted_rows("partial"), starts)
    whole_episodes: dict[str, np.ndarray] = {}
    if "ended" in columns:  # in all rows of an episode, or in the last alone
        flags = sorted_rows("ended")
        ended = flags[lasts]
        count = np.add.reduceat(flags.astype(np.int64), starts)
        odd = np.repeat((count != ended) & (count != lengths), lengths) & flags
        refuse(odd, "ended must be true at the last step of an episode, or at none; got true")
        whole_episodes["ended"] = ended
    for name, field, at in (
        ("final_state", "final_states", lasts),
        ("group", "groups", starts),
        ("individual", "individuals", starts),
    ):
        if name in columns:
            values = sorted_rows(name)
            other = values != np.repeat(values[at], lengths)
            other &= (values != -1) if name == "final_state" else True
            refuse(other, f"{name} must be the same in all rows of an episode; here it differs")
            whole_episodes[field] = values[at]
    arguments = {
        "states": sorted_rows("state"),
        "actions": sorted_rows("action"),
        "offsets": np.append(starts, len(first)),
        "partial": partial,
        "names": _episode_names(labels, starts if order is None else order[starts]),
        **whole_episodes,
        **{name: sorted_rows(name) for name in ROWS if name in columns},
    }
    if min(arguments["states"].min(), arguments["actions"].min()) < 0:
        arguments, said = _without_missing(arguments, wrong, missing)
        notes += said
    return arguments, notes


def _episode_names(labels: Column, rows: np.ndarray) -> np.ndarray | None:
    """[E] what the episodes that begin in these rows are called; None where 0, 1, 2, ..."""
    values = labels.values[rows]
    if labels.texts is not None:
        return np.array(labels.texts)[values]
    return None if np.array_equal(values, np.arange(len(values))) else values.astype(str)


def _without_missing(
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


def row_order(
    columns: Mapping[str, np.ndarray], labels: Column, fault: Fault
) -> tuple[np.ndarray | None, np.ndarray]:
    """(the rows by episode and step, None where they lie so; [N] whether an episode starts)."""
    episode, step = columns["episode"], columns.get("step")
    order = None
    if not _lies_in_order(episode, step):
        order = _placed(episode, step) if step is not None else None
        if order is None:
            order = np.lexsort((episode,) if step is None else (step, episode))
        episode = episode[order]
        step = None if step is None else step[order]
    first = np.ones(len(episode), bool)
    np.not_equal(episode[1:], episode[:-1], out=first[1:])
    if order is not None and step is not None:
        broken = ~first
        broken[1:] &= step[1:] != step[:-1] + 1
        if broken.any():
            at = int(np.argmax(broken))
            row = int(order[at])
            raise fault(
                row,
                "every (episode, step) must be there once, without gaps; episode "
                f"{labels.cell(row)} goes from step {step[at - 1]} to {step[at]} "
                f"(row {row + 1} of the data): "
                + (
                    "delete one of the two rows"
                    if step[at] == step[at - 1]
                    else "tacit ingest LOG --time step --every 1 splits episodes at gaps"
                ),
            )
    return order, first


def _lies_in_order(episode: np.ndarray, step: np.ndarray | None) -> bool:
    """Whether episodes ascend and the steps of each follow each other."""
    if (episode[1:] < episode[:-1]).any():
        return False
    if step is None:
        return True
    follows = step[1:] == step[:-1] + 1
    follows |= episode[1:] != episode[:-1]
    return bool(follows.all())


def _placed(episode: np.ndarray, step: np.ndarray) -> np.ndarray | None:
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
