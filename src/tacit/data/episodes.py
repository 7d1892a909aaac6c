"""Rows in any order become episodes: sorted, checked, and without the rows that say nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.weights import counts_or_weights, repeated
from tacit.errors import InvalidDemonstrations, TacitError
from tacit.files.atomic import LARGEST, naming
from tacit.files.columns import Fault, RawColumn
from tacit.files.wording import unused_name
from tacit.model.layout import Layout

# What `Demonstrations` is made from, by name.
Arguments = dict[str, Any]
ROWS = ("weight", "sampling_weight")  # columns of which every row has its own
PEOPLE = ("group", "individual")  # columns that tell who was seen
FROM_ONE = "every episode begins at step 1: steps are taken to count from 1"


def episodes(
    columns: Mapping[str, np.ndarray],
    labels: RawColumn,
    fault: Fault,
    *,
    missing: str,
    people: Mapping[str, Sequence[str]],
    source: str,
    layout: Layout | None = None,
    largest: int = LARGEST,
) -> Demonstrations:
    """The demonstrations of one row a step in any order; `notes` say what was assumed.

    Args:
        columns: by name; a state or an action is -1 where it is missing.
        labels: the column of episodes, for their names.
        fault: makes the error about a row.
        missing: "refuse" or "split", where something is missing before the end of an episode.
        people: the names behind the numbers of the columns `PEOPLE`.
        source: of the rows, for messages.
        layout: names of states and actions; None where they have none.
        largest: most bytes of memory that episodes may take that stand for several.
    """
    order, first = row_order(columns, labels, fault)
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}

    def wrong(row: int, words: str) -> TacitError:
        return fault(int(row if order is None else order[row]), words)

    starts = np.flatnonzero(first)
    partial, notes = _joined_late(columns, starts)
    arguments: Arguments = {
        "states": columns["state"],
        "actions": columns["action"],
        "offsets": np.append(starts, len(first)),
        "partial": partial,
        "names": _episode_names(labels, starts if order is None else order[starts]),
        **_said_of_episodes(columns, starts, wrong),
        **{name: columns[name] for name in ROWS if name in columns},
    }
    if min(columns["state"].min(), columns["action"].min()) < 0:
        arguments, more = _without_missing(arguments, wrong, missing)
        notes += more
    for name, texts in people.items():
        arguments[f"{name}s"] = np.array(texts)[arguments[f"{name}s"]]
    weight, sampling_weight = (arguments.pop(name, None) for name in ROWS)
    offsets = arguments["offsets"]
    counts, weights, more = counts_or_weights(weight, sampling_weight, offsets, source, largest)
    notes = (*notes, *more)
    with naming(source, InvalidDemonstrations):
        seen = Demonstrations(**arguments, weights=weights, notes=notes, layout=layout)
    return seen if counts is None else repeated(seen, counts)


def _joined_late(
    columns: Mapping[str, np.ndarray], starts: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """([E] bool, whether each episode was joined on its way; what was assumed about steps)."""
    partial = np.zeros(len(starts), bool)
    if "partial" in columns:
        partial = np.logical_or.reduceat(columns["partial"], starts)
    if "step" not in columns:
        return partial, ["there is no column 'step': rows are taken in the order of the file"]
    begins = columns["step"][starts]
    # Some programs count from 1. Otherwise an episode that starts later was joined on its way.
    if (begins == 1).all():
        return partial, [FROM_ONE]
    return partial | (begins > 0), []


def _episode_names(labels: RawColumn, rows: np.ndarray) -> np.ndarray | None:
    """[E] what the episodes that begin in these rows are called; None where 0, 1, 2, ..."""
    values = labels.values[rows]
    if labels.texts is not None:
        return np.array(labels.texts)[values]
    return None if np.array_equal(values, np.arange(len(values))) else values.astype(str)


def row_order(
    columns: Mapping[str, np.ndarray], labels: RawColumn, fault: Fault
) -> tuple[np.ndarray | None, np.ndarray]:
    """(the rows by episode and step, None where they lie so; [N] whether an episode starts)."""
    episode, step = columns["episode"], columns.get("step")
    order = None
    if not _lies_in_order(episode, step):
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
            mend = "tacit ingest LOG --time step --every 1 splits episodes at gaps"
            if step[at] == step[at - 1]:
                mend = "delete one of the two rows"
            raise fault(
                row,
                "every (episode, step) must be there once, without gaps; episode "
                f"{labels.cell(row)} goes from step {step[at - 1]} to {step[at]} "
                f"(row {row + 1} of the data): {mend}",
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


def _said_of_episodes(
    columns: Mapping[str, np.ndarray], starts: np.ndarray, wrong: Fault
) -> Arguments:
    """[E] what columns that speak of whole episodes, their rows in order, say of each."""
    lengths = np.diff(np.append(starts, len(columns["state"])))
    lasts = starts + lengths - 1
    arguments: Arguments = {}

    def refuse(odd: np.ndarray, words: str) -> None:
        if odd.any():
            raise wrong(int(np.argmax(odd)), words)

    if "ended" in columns:  # in all rows of an episode, or in the last alone
        flags = columns["ended"]
        arguments["ended"] = ended = flags[lasts]
        count = np.add.reduceat(flags.astype(np.int64), starts)
        odd = np.repeat((count != ended) & (count != lengths), lengths) & flags
        refuse(odd, "ended must be true at the last step of an episode, or at none; got true")
    for name, rows in (("final_state", lasts), *((name, starts) for name in PEOPLE)):
        if name in columns:
            values = columns[name]
            other = values != np.repeat(values[rows], lengths)
            if name == "final_state":
                other &= values != -1
            refuse(other, f"{name} must be the same in all rows of an episode; here it differs")
            arguments[f"{name}s"] = values[rows]
    return arguments


def _without_missing(
    arguments: Arguments, wrong: Fault, missing: str
) -> tuple[Arguments, list[str]]:
    """The arguments without rows in which a state or an action is missing, and what was done.

    The last row of an episode may lack its action: its state is where the last action led.
    """
    states, actions, offsets = (arguments[name] for name in ("states", "actions", "offsets"))
    starts, lengths, place = offsets[:-1], np.diff(offsets), np.arange(len(states))
    episode = np.repeat(np.arange(len(starts)), lengths)
    # An episode stops after its last row that holds something, or before one without an action.
    there = np.where((states >= 0) | (actions >= 0), place + 1, 0)
    stops = np.maximum(np.maximum.reduceat(there, starts), starts)
    last = np.maximum(stops - 1, starts)
    led = (states[last] >= 0) & (actions[last] < 0)
    stops = stops - led
    inside, lost = place < stops[episode], (states < 0) | (actions < 0)
    holes = np.flatnonzero(inside & lost)
    if len(holes) and missing != "split":
        kind = "state" if states[holes[0]] < 0 else "action"
        raise wrong(
            int(holes[0]),
            f"{kind} must be there, but for the action of an episode's last row; it is missing:"
            " fill it in, or split the episode there: tacit ingest LOG --time step --state "
            "state --action action",
        )
    rows = np.flatnonzero(inside & ~lost)
    if not len(rows):
        raise wrong(0, "some row must have both a state and an action; none has")
    final = arguments.get("final_states", np.full(len(starts), -1))
    arguments = arguments | {"final_states": np.where(led & (final < 0), states[last], final)}
    torn = len({*episode[holes]})
    pieces, whose = _pieces(arguments, rows, episode, stops)
    gone = len(starts) - len({*whose})
    notes = []
    if led.any():
        notes.append(
            f"{led.sum()} of {len(starts)} episodes have no action in their last row: its state is "
            "where the last action led"
        )
    if len(holes):
        notes.append(
            f"{len(holes)} rows without a state or an action were left out; {torn} episodes were "
            "split there, and the later pieces count as joined on their way"
        )
    if gone:
        notes.append(f"{gone} episodes have no row with a state and an action: they are left out")
    return pieces, notes


def _pieces(
    arguments: Arguments, rows: np.ndarray, episode: np.ndarray, stops: np.ndarray
) -> tuple[Arguments, np.ndarray]:
    """The arguments of these rows alone, an episode for each run of them, and whose [P] it is."""
    states, starts = arguments["states"], arguments["offsets"][:-1]
    first = np.ones(len(rows), bool)
    first[1:] = (np.diff(rows) > 1) | (np.diff(episode[rows]) > 0)
    begins, after = rows[first], rows[np.append(first[1:], True)] + 1
    whose = episode[begins]
    is_end = after == stops[whose]  # the piece reaches the end of its episode
    following = states[np.minimum(after, len(states) - 1)]
    names = np.arange(len(starts)) if arguments["names"] is None else arguments["names"]
    pieces: Arguments = {
        name: column[rows] if name in ("states", "actions", *ROWS) else column[whose]
        for name, column in arguments.items()
        if name not in ("offsets", "names")
    }
    pieces["offsets"] = np.append(np.flatnonzero(first), len(rows))
    pieces["names"] = _piece_names(names.astype(str), whose)
    pieces["final_states"] = np.where(is_end, pieces["final_states"], following)
    pieces["partial"] = pieces["partial"] | (begins > starts[whose])
    if "ended" in pieces:
        pieces["ended"] = is_end & pieces["ended"]
    return pieces, whose


def _piece_names(names: np.ndarray, whose: np.ndarray) -> np.ndarray:
    """[P] names of the pieces of episodes, each once: a log may have used one already."""
    taken, pieces = {*names.tolist()}, list[str]()
    for name, again in zip(names[whose].tolist(), np.diff(whose, prepend=-1) == 0, strict=True):
        pieces.append(unused_name(name, taken) if again else name)
        taken.add(pieces[-1])
    return np.array(pieces)
