"""What was seen: trajectories of states and actions, in columns, and their counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.reading import STORED_EXTRAS as OPTIONAL
from tacit.data.reading import Reading, read_recorded, write_recorded
from tacit.errors import InvalidDemonstrations
from tacit.files.columns import flags, integers, join, texts
from tacit.files.contents import LARGEST
from tacit.model.names import Layout
from tacit.model.transitions import read_only


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """Ragged trajectories, one after the other.

    Attributes:
        states: [N] state of every observed step.
        actions: [N] action taken there.
        offsets: [E + 1] episode e holds the rows offsets[e] to offsets[e + 1].
        ended: [E] bool, whether the episode ran into a state it never leaves. Such an episode is
            complete: nothing of its discounted sums was cut off.
        final_states: [E] the state after the last action; -1 where it was not recorded.
        partial: [E] bool, whether the episode was joined on its way, so that its first state says
            nothing about where episodes start. Loose (state, action) pairs are partial.
        groups: [E] str, who was seen (a mouse, a clinician, a site); None where nobody is told
            apart.
        notes: sentences on what was assumed when the episodes were read.
    """

    states: Any
    actions: Any
    offsets: Any
    ended: Any = None
    final_states: Any = None
    partial: Any = None
    groups: Any = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        states = integers(self.states, "states")
        actions = integers(self.actions, "actions")
        offsets = integers(self.offsets, "offsets").astype(np.int64)
        if states.shape != actions.shape:
            raise InvalidDemonstrations(
                f"states and actions must be as many; got {len(states)} and {len(actions)}"
            )
        if len(states) == 0:
            raise InvalidDemonstrations("demonstrations must hold at least one step; got none")
        if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(states):
            raise InvalidDemonstrations(
                f"offsets must run from 0 to the number of steps ({len(states)}); got {offsets}"
            )
        if (np.diff(offsets) < 1).any():
            empty = int(np.flatnonzero(np.diff(offsets) < 1)[0])
            raise InvalidDemonstrations(
                f"every episode must hold at least one step; episode {empty} holds none"
            )
        episodes = len(offsets) - 1
        ended = np.zeros(episodes, bool) if self.ended is None else flags(self.ended, "ended")
        final = np.full(episodes, -1, np.int32)
        if self.final_states is not None:
            final = integers(self.final_states, "final_states")
        partial = np.zeros(episodes, bool)
        if self.partial is not None:
            partial = flags(self.partial, "partial")
        columns = {"ended": ended, "final_states": final, "partial": partial}
        if self.groups is not None:
            columns["groups"] = texts(self.groups, "groups")
        for name, column in columns.items():
            if column.shape != (episodes,):
                raise InvalidDemonstrations(
                    f"{name} must hold one entry an episode ({episodes}); got {column.shape}"
                )
        columns |= {"states": states, "actions": actions, "offsets": offsets}
        for name, column in columns.items():
            object.__setattr__(self, name, read_only(column))
        object.__setattr__(self, "notes", tuple(self.notes))

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Iterable[tuple[Any, Any]],
        layout: Layout | None = None,
        *,
        ended: Any = None,
        groups: Any = None,
    ) -> Demonstrations:
        """Demonstrations from (states, actions) pairs of equal length, one pair an episode.

        Where `states` is one longer than `actions`, its last entry is the state after the last
        action. With a layout that has names, they may be names.
        """
        names = (layout.state_names, layout.action_names) if layout else ((), ())
        return cls(**join(trajectories, *names), ended=ended, groups=groups)

    @classmethod
    def from_pairs(cls, states: Any, actions: Any) -> Demonstrations:
        """Demonstrations from loose (state, action) pairs, in no order and from no known start."""
        count = len(np.asarray(states))
        return cls(states, actions, np.arange(count + 1), partial=np.ones(count, bool))

    @classmethod
    def load(
        cls,
        path: str | Path,
        layout: Layout | None = None,
        *,
        states: int = 0,
        actions: int = 0,
        largest: int = LARGEST,
        progress: Callable[[int, int], Any] | None = None,
    ) -> Demonstrations:
        """The demonstrations of a .csv, .parquet or .npz file.

        A table has one row a step, in any order, and the columns episode, step, state and action;
        it may have group, ended, final_state and partial. Episodes are numbers or names. Separator
        (comma, semicolon, tab, bar), byte order mark and line ends are found out. Without a column
        `step` the rows of an episode are taken in the order of the file, and `notes` says so.
        Numbered episodes come in the order of their numbers, named ones in that of the file.

        Args:
            path: of the file; the ending of its name tells the format.
            layout: names of states and actions, where the file has names instead of numbers.
            states: number of states, to refuse the line that has a larger one; 0 to allow any.
            actions: number of actions, likewise.
            largest: most bytes of memory to take; a larger file is refused before it is read.
            progress: called now and then with what is done and what there is to do.
        """
        names = (layout.state_names, layout.action_names) if layout else ((), ())
        return cls._read(path, Reading(*names, False, states, actions, largest, progress))[0]

    @classmethod
    def load_named(
        cls,
        path: str | Path,
        *,
        largest: int = LARGEST,
        progress: Callable[[int, int], Any] | None = None,
    ) -> tuple[Demonstrations, Layout]:
        """The demonstrations of a file, and the layout of the names found in it, sorted.

        "room 2" is sorted before "room 10". Where states or actions are numbers, they stay so.
        """
        return cls._read(path, Reading(find=True, largest=largest, progress=progress))

    @classmethod
    def _read(cls, path: str | Path, reading: Reading) -> tuple[Demonstrations, Layout]:
        steps = read_recorded(Path(path), reading)
        layout = Layout(state_names=steps.state_names, action_names=steps.action_names)
        try:
            return cls(**steps.arguments), layout
        except InvalidDemonstrations as error:
            raise InvalidDemonstrations(f"{path}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Writes a .parquet, .csv or .npz file, by the ending of the name; `load` reads it back."""
        rows = {"states": self.states, "actions": self.actions}
        whole = {name: getattr(self, name) for name in ("offsets", *OPTIONAL)}
        write_recorded(Path(path), rows, whole)

    @property
    def episodes(self) -> int:
        """E, the number of episodes."""
        return len(self.offsets) - 1

    @property
    def steps(self) -> int:
        """N, the number of observed steps."""
        return len(self.states)

    @property
    def lengths(self) -> np.ndarray:
        """[E] number of steps of every episode."""
        return np.diff(self.offsets)

    @property
    def step(self) -> np.ndarray:
        """[N] position of every row within its episode, from 0."""
        return np.arange(self.steps) - np.repeat(self.offsets[:-1], self.lengths)

    @property
    def episode(self) -> np.ndarray:
        """[N] episode of every row."""
        return np.repeat(np.arange(self.episodes), self.lengths)

    def trajectory(self, episode: int) -> tuple[np.ndarray, np.ndarray]:
        """States and actions of one episode."""
        if not 0 <= episode < self.episodes:
            raise IndexError(f"episode must be in 0..{self.episodes - 1}; got {episode}")
        rows = slice(self.offsets[episode], self.offsets[episode + 1])
        return self.states[rows], self.actions[rows]

    def select(self, episodes: Sequence[int] | np.ndarray) -> Demonstrations:
        """The chosen episodes, in the order given; an episode may be chosen more than once."""
        chosen = np.asarray(episodes)
        if chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)
        if chosen.size == 0:
            raise InvalidDemonstrations("select must keep at least one episode; got none")
        lengths = self.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return replace(
            self,
            states=self.states[rows],
            actions=self.actions[rows],
            offsets=offsets,
            ended=self.ended[chosen],
            final_states=self.final_states[chosen],
            partial=self.partial[chosen],
            groups=None if self.groups is None else self.groups[chosen],
        )

    def truncate(self, steps: int) -> Demonstrations:
        """Every episode cut after its first `steps` steps."""
        if steps < 1:
            raise InvalidDemonstrations(f"truncate must keep at least one step; got steps={steps}")
        lengths = np.minimum(self.lengths, steps)
        cut = lengths < self.lengths
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(self.offsets[:-1] - offsets[:-1], lengths) + np.arange(offsets[-1])
        following = self.states[np.minimum(self.offsets[:-1] + lengths, self.steps - 1)]
        return replace(
            self,
            states=self.states[rows],
            actions=self.actions[rows],
            offsets=offsets,
            ended=self.ended & ~cut,
            final_states=np.where(cut, following, self.final_states),
        )

    def check(self, mdp: Any) -> None:
        """Raises `InvalidDemonstrations` unless every state and action exists in the model."""
        for name, column, count in (
            ("state", self.states, mdp.states),
            ("action", self.actions, mdp.actions),
        ):
            outside = (column < 0) | (column >= count)
            if outside.any():
                row = int(np.flatnonzero(outside)[0])
                raise InvalidDemonstrations(
                    f"every {name} must be in 0..{count - 1}; episode {self.episode[row]}, "
                    f"step {self.step[row]} has {column[row]}"
                )
        outside = (self.final_states < -1) | (self.final_states >= mdp.states)
        if outside.any():
            episode = int(np.argmax(outside))
            raise InvalidDemonstrations(
                f"every final state must be in 0..{mdp.states - 1}; "
                f"episode {episode} has {self.final_states[episode]}"
            )

    def counts(self, mdp: Any) -> np.ndarray:
        """[S, A] how often each action was taken in each state."""
        self.check(mdp)
        flat = self.states.astype(np.int64) * mdp.actions + self.actions
        total = np.bincount(flat, minlength=mdp.states * mdp.actions)
        return total.reshape(mdp.states, mdp.actions).astype(np.float64)

    def __repr__(self) -> str:
        return f"Demonstrations(episodes={self.episodes}, steps={self.steps})"
