"""Moments in time become steps, and moves between states actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.data.sources.places import STAY, Places
from tacit.data.sources.times import duration
from tacit.errors import InvalidModel

# Share of moves beyond a neighbour from which cells or time steps do not suit each other.
MANY_JUMPS = 0.1
# Share of a time step by which a moment may miss its step and be called regular.
LATE = 0.25
# Share of the rows that counting steps from the row before must keep to be preferred.
DRIFT = 0.02


@dataclass(frozen=True, eq=False)
class Track:
    """Rows in order of owner and time, cut into pieces of steps that follow each other.

    Attributes:
        rows: [M] numbers of the rows that are used.
        first: [M] bool, whether a piece begins there.
        owner: [M] number of whose row it is, ascending.
        notes: what was left out, as sentences.
    """

    rows: np.ndarray
    first: np.ndarray
    owner: np.ndarray
    notes: tuple[str, ...] = ()

    @property
    def piece(self) -> np.ndarray:
        """[M] number of the piece of every row."""
        return np.cumsum(self.first) - 1

    @property
    def step(self) -> np.ndarray:
        """[M] place of every row in its piece."""
        return np.arange(len(self.first)) - np.flatnonzero(self.first)[self.piece]

    @property
    def part(self) -> np.ndarray:
        """[M] number of every row's piece among those of its owner."""
        owner = self.owner[self.first]
        return (np.arange(len(owner)) - np.searchsorted(owner, owner))[self.piece]

    def follows(self) -> np.ndarray:
        """[M] bool, whether the next row is the next step of the same piece."""
        return np.append(~self.first[1:], False)


def cut_track(
    who: np.ndarray, known: np.ndarray, *, time: np.ndarray | None, every: float | None, unit: str
) -> Track:
    """The `Track` of rows: a gap in time, or a row of which nothing is known, ends a piece.

    Args:
        who: [N] number of whose row it is.
        known: [N] bool, whether a row says where.
        time: [N] when; None takes the rows as they come, one a step.
        every: the time step; None takes the median between rows.
        unit: of times, for sentences: "s" for time stamps, "" for numbers.
    """
    if time is None:
        order = np.argsort(who, kind="stable")
        owner = who[order]
        tick = np.arange(len(who), dtype=np.float64)
        keep, notes = known[order], []
    else:
        order = np.lexsort((time, who))
        order = order[known[order]]  # a row without a place is a gap in time
        owner, moment = who[order], time[order]
        same = owner[1:] == owner[:-1]
        notes = []
        if every is None:
            between = np.diff(moment)[same]
            between = between[between > 0]
            if not len(between):
                raise InvalidModel("a time step must be given: no two rows follow each other")
            every = float(np.median(between))
            notes.append(f"no time step was given: the median, {duration(every, unit)}, is taken")
        tick, keep, off = _by_clock(owner, moment, every)
        other = _by_last(owner, moment, every)
        worse = [_broken(owner, *way) for way in ((tick, keep), other[:2])]
        if worse[0] - worse[1] > max(DRIFT * len(owner), 0.2 * worse[0]):
            tick, keep, off = other
            notes.append(
                f"the times drift: each step of {duration(every, unit)} is counted from the row "
                f"before, which makes {worse[1]} gaps and spare rows; counted from the first row "
                f"of an episode there would be {worse[0]}"
            )
        if (surplus := int((~keep).sum())) > 0:
            notes.append(
                f"{surplus} of {len(order)} rows were left out: others are nearer to the same time "
                f"step of {duration(every, unit)}"
            )
        if (odd := float((off[keep] > LATE).mean())) > 0.05:
            notes.append(
                f"{odd:.0%} of the rows miss their time step by more than a quarter of it: another "
                "time step may suit them better"
            )
    if (lost := int((~known).sum())) > 0:
        notes.append(f"{lost} of {len(known)} rows do not say where: they are left out, as gaps")
    owner, tick, order = owner[keep], tick[keep], order[keep]
    first = np.ones(len(order), bool)
    first[1:] = (owner[1:] != owner[:-1]) | (tick[1:] != tick[:-1] + 1)
    gaps = int(first.sum()) - len(np.unique(owner))
    if gaps:
        notes.append(f"{gaps} gaps split episodes; what follows counts as joined on its way")
    return Track(order, first, owner, tuple(notes))


def _by_clock(
    owner: np.ndarray, moment: np.ndarray, every: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[M] time steps from the first row of each owner, which rows stay, how far they miss theirs.

    Of several rows for one step the nearest in time stays.
    """
    place = (moment - moment[np.searchsorted(owner, owner)]) / every
    tick = np.rint(place)
    off = np.abs(place - tick)
    nearest = np.lexsort((off, tick, owner))
    again = (np.diff(tick[nearest]) == 0) & (np.diff(owner[nearest]) == 0)
    keep = np.ones(len(owner), bool)
    keep[nearest[1:][again]] = False
    return tick, keep, off


def _by_last(
    owner: np.ndarray, moment: np.ndarray, every: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same with steps from the last row that stays: visits every 6 to 8 days drift.

    A row less than half a step after that one is spare.
    """
    keep, near = np.ones(len(owner), bool), np.ones(1, bool)
    while near.any():
        rows = np.flatnonzero(keep)
        length = np.diff(moment[rows]) / every
        near = (np.rint(length) == 0) & (np.diff(owner[rows]) == 0)
        near[1:] &= ~near[:-1]  # one after a spare row is judged when that is gone
        keep[rows[1:][near]] = False
    rows = np.flatnonzero(keep)
    same = np.diff(owner[rows]) == 0
    length = np.where(same, np.diff(moment[rows]) / every, 0.0)
    tick, off = np.zeros(len(owner)), np.zeros(len(owner))
    tick[rows[1:]], off[rows[1:]] = np.rint(length).cumsum(), np.abs(length - np.rint(length))
    return tick, keep, off


def _broken(owner: np.ndarray, tick: np.ndarray, keep: np.ndarray) -> int:
    """How many rows are spare, or follow a gap."""
    gap = (np.diff(tick[keep]) != 1) & (np.diff(owner[keep]) == 0)
    return int((~keep).sum() + gap.sum())


@dataclass(frozen=True, eq=False)
class Inferred:
    """Actions that moves tell.

    Attributes:
        track: cut where a move is none of them.
        taken: [M] number of the action; -1 where nothing follows.
        names: [A] of all actions.
        moves: [S, A] where each leads; -1 where it is not available.
    """

    track: Track
    taken: np.ndarray
    names: tuple[str, ...]
    moves: np.ndarray


def infer_actions(
    where: np.ndarray, track: Track, names: Sequence[str], places: Places | None
) -> Inferred:
    """The actions of a track through states [M]: compass directions on cells, else "to STATE"."""
    follows = track.follows()
    after = np.append(where[1:], -1)
    if places is None or not places.moves:
        changed = follows & (after != where)
        goals = np.unique(after[changed])
        slot = 1 + np.searchsorted(goals, after)
        actions = (STAY, *(f"to {names[goal]}" for goal in goals))
        moves = np.full((len(names), len(actions)), -1, np.int64)
        moves[:, 0] = np.arange(len(names))
        moves[where[changed], slot[changed]] = after[changed]
        code = np.where(changed, slot, np.where(follows, 0, -1))
        return Inferred(track, code, actions, moves)
    met = places.neighbours[where] == after[:, None]
    near = met.any(axis=1)
    jump = follows & ~near
    if jump.any():
        share = float(jump.sum() / max(1, follows.sum()))
        advice = (
            ": larger cells or a shorter time step would keep more" if share > MANY_JUMPS else ""
        )
        note = (
            f"{int(jump.sum())} of {int(follows.sum())} moves ({share:.1%}) lead beyond a "
            f"neighbouring cell: episodes are split there{advice}"
        )
        first = track.first.copy()
        first[1:] |= jump[:-1]
        track = replace(track, first=first, notes=(*track.notes, note))
    code = np.where(follows & near, met.argmax(axis=1), -1)
    return Inferred(track, code, places.moves, places.neighbours)
