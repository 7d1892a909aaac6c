"""Rows in any order become episodes: sorted, checked, and without the rows that say nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from tacit.data.weights import weigh
from tacit.errors import TacitError
from tacit.files.atomic import LARGEST
from tacit.files.columns import Column, Fault

# What `Demonstrations` is made from, by name: arrays, and notes.
Arguments = dict[str, Any]
ROWS = ("weight", "sampling_weight")  # columns of which every row has its own
PEOPLE = ("group", "individual")  # columns that tell who was seen
TOLD = ("ended", "final_state", *PEOPLE)  # columns that speak of whole episodes
FROM_ONE = "every episode begins at step 1: steps are taken to count from 1"


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


def episodes(
    columns: Mapping[str, np.ndarray],
    labels: Column,
    fault: Fault,
    *,
    missing: str,
    people: Mapping[str, Sequence[str]],
    source: str,
    largest: int = LARGEST,
) -> Episodes:
    """The episodes of one row a step in any order, and what was assumed.

    Args:
        columns: by name; a state or an action is -1 where it is missing.
        labels: the column of episodes, for their names.
        fault: makes the error about a row.
        missing: "refuse" or "split", where something is missing before the end of an episode.
        people: the names behind the numbers of the columns `PEOPLE`.
        source: of the rows, for messages.
        largest: most bytes of memory that episodes may take that stand for several.
    """
    arguments, notes = _sorted(columns, labels, fault, missing)
    for name, texts in people.items():
        arguments[f"{name}s"] = np.array(texts)[arguments[f"{name}s"]]
    if any(name in arguments for name in ROWS):
        arguments, said = weigh(arguments, source, largest)
        notes += said
    repeats = arguments.pop("repeats", None)
    return Episodes(arguments | {"notes": tuple(notes)}, repeats=repeats)


def _sorted(
    columns: Mapping[str, np.ndarray], labels: Column, fault: Fault, missing: str
) -> tuple[Arguments, list[str]]:
    """The arguments of `Demonstrations` but for weights and names of people, and notes."""
    notes, (order, first) = [], row_order(columns, labels, fault)

    def sorted_rows(name: str) -> np.ndarray:
        return columns[name] if order is None else columns[name][order]

    def wrong(at: int, words: str) -> TacitError:
        return fault(int(at if order is None else order[at]), words)

    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, len(first)))
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
    told = {name: sorted_rows(name) for name in TOLD if name in columns}
    arguments = {
        "states": sorted_rows("state"),
        "actions": sorted_rows("action"),
        "offsets": np.append(starts, len(first)),
        "partial": partial,
        "names": _episode_names(labels, starts if order is None else order[starts]),
        **(of_episodes(told, starts, lengths, wrong) if told else {}),
        **{name: sorted_rows(name) for name in ROWS if name in columns},
    }
    if min(arguments["states"].min(), arguments["actions"].min()) < 0:
        arguments, said = without_missing(arguments, wrong, missing)
        notes += said
    return arguments, notes


def _episode_names(labels: Column, rows: np.ndarray) -> np.ndarray | None:
    """[E] what the episodes that begin in these rows are called; None where 0, 1, 2, ..."""
    values = labels.values[rows]
    if labels.texts is not None:
        return np.array(labels.texts)[values]
    return None if np.array_equal(values, np.arange(len(values))) else values.astype(str)


def row_order(
    columns: Mapping[str, np.ndarray], labels: Column, fault: Fault
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
    starts, lengths = offsets[:-1], np.diff(offsets)
    number, place = len(starts), np.arange(len(states))
    episode = np.repeat(np.arange(number), lengths)
    final = arguments.get("final_states", np.full(number, -1))
    # An episode stops after its last row that holds something, or before one without an action.
    there = np.where((states >= 0) | (actions >= 0), place + 1, 0)
    stops = np.maximum(np.maximum.reduceat(there, starts), starts)
    last = np.maximum(stops - 1, starts)
    led = (states[last] >= 0) & (actions[last] < 0)
    final = np.where(led & (final < 0), states[last], final)
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
    first = np.ones(len(rows), bool)  # of a piece
    first[1:] = (np.diff(rows) > 1) | (np.diff(episode[rows]) > 0)
    begins, after = rows[first], rows[np.append(first[1:], True)] + 1
    whose = episode[begins]
    own = after == stops[whose]  # reaches the end of its episode
    names = np.arange(number) if arguments["names"] is None else arguments["names"]
    ended = arguments.get("ended", np.zeros(number, bool))
    changed = {
        "states": states[rows],
        "actions": actions[rows],
        "offsets": np.append(np.flatnonzero(first), len(rows)),
        "final_states": np.where(own, final[whose], states[np.minimum(after, len(states) - 1)]),
        "partial": arguments["partial"][whose] | (begins > starts[whose]),
        "ended": own & ended[whose],
        "names": _piece_names(names.astype(str), whose),
    }
    changed |= {name: arguments[name][rows] for name in ROWS if name in arguments}
    others = {name: arguments[name][whose] for name in arguments if name not in changed}
    torn, gone = len({*episode[holes]}), number - len({*whose})
    notes = []
    if led.any():
        notes.append(
            f"{led.sum()} of {number} episodes have no action in their last row: its state is "
            "where the last action led"
        )
    if len(holes):
        notes.append(
            f"{len(holes)} rows without a state or an action were left out; {torn} episodes were "
            "split there, and the later pieces count as joined on their way"
        )
    if gone:
        notes.append(f"{gone} episodes have no row with a state and an action: they are left out")
    return {**others, **changed}, notes


def _piece_names(names: np.ndarray, whose: np.ndarray) -> np.ndarray:
    """[P] names of the pieces of episodes, each once: a log may have used one already."""
    taken, found = {*names.tolist()}, list[str]()
    for name, again in zip(names[whose].tolist(), np.diff(whose, prepend=-1) == 0, strict=True):
        found.append(unused_name(name, taken) if again else name)
        taken.add(found[-1])
    return np.array(found)


def unused_name(name: str, taken: Collection[str]) -> str:
    """The name with the first number behind it that makes it another than those taken."""
    return next(new for n in count(2) if (new := f"{name} ({n})") not in taken)
