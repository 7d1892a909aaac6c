"""What was seen: trajectories of states and actions, in columns, and their counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.episodes import episodes_from_columns, integers
from tacit.files.tables import read_columns, write_columns
from tacit.transitions import read_only


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
    """

    states: Any
    actions: Any
    offsets: Any
    ended: Any = None
    final_states: Any = None
    partial: Any = None

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
        ended = np.zeros(episodes, bool) if self.ended is None else np.array(self.ended, bool)
        unknown = np.full(episodes, -1)
        final = (
            unknown if self.final_states is None else integers(self.final_states, "final_states")
        )
        partial = np.zeros(episodes, bool) if self.partial is None else np.array(self.partial, bool)
        for name, column in (("ended", ended), ("final_states", final), ("partial", partial)):
            if column.shape != (episodes,):
                raise InvalidDemonstrations(
                    f"{name} must hold one entry an episode ({episodes}); got {column.shape}"
                )
        object.__setattr__(self, "states", read_only(states.astype(np.int32)))
        object.__setattr__(self, "actions", read_only(actions.astype(np.int32)))
        object.__setattr__(self, "offsets", read_only(offsets))
        object.__setattr__(self, "ended", read_only(ended))
        object.__setattr__(self, "final_states", read_only(final.astype(np.int32)))
        object.__setattr__(self, "partial", read_only(partial))

    @classmethod
    def from_trajectories(cls, trajectories: Iterable[tuple[Any, Any]]) -> Demonstrations:
        """Demonstrations from (states, actions) pairs of equal length, one pair an episode.

        Where `states` is one longer than `actions`, its last entry is the state after the last
        action.
        """
        states, actions, final = [], [], []
        for number, trajectory in enumerate(trajectories):
            try:
                seen, taken = trajectory
            except (TypeError, ValueError):
                raise InvalidDemonstrations(
                    f"trajectory {number} must be a pair (states, actions); got {trajectory!r:.60}"
                ) from None
            seen = integers(seen, f"trajectory {number}: states")
            taken = integers(taken, f"trajectory {number}: actions")
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
            raise InvalidDemonstrations(
                "demonstrations must hold at least one trajectory; got none"
            )
        offsets = np.concatenate([[0], np.cumsum([len(taken) for taken in actions])])
        return cls(np.concatenate(states), np.concatenate(actions), offsets, None, final)

    @classmethod
    def from_pairs(cls, states: Any, actions: Any) -> Demonstrations:
        """Demonstrations from loose (state, action) pairs, in no order and from no known start."""
        count = len(np.asarray(states))
        return cls(states, actions, np.arange(count + 1), partial=np.ones(count, bool))

    @classmethod
    def load(cls, path: str | Path) -> Demonstrations:
        """The demonstrations of a .parquet or .csv (episode, step, state, action) or .npz file."""
        path = Path(path)
        if path.suffix == ".npz":
            columns = read_arrays(path)
            missing = [n for n in ("states", "actions", "offsets") if n not in columns]
            if missing:
                raise InvalidDemonstrations(f"{path} must hold {missing[0]!r}; got {[*columns]}")
            known = {field.name for field in fields(cls)}
            return cls(**{name: part for name, part in columns.items() if name in known})
        return cls(**episodes_from_columns(read_columns(path), str(path)))

    def save(self, path: str | Path) -> None:
        """Writes a .parquet, .csv or .npz file, by the ending of the name; `load` reads it back."""
        path = Path(path)
        if path.suffix == ".npz":
            write_arrays(path, {field.name: getattr(self, field.name) for field in fields(self)})
        elif path.suffix in (".parquet", ".csv"):
            rows = {
                "episode": self.episode,
                "step": self.step,
                "state": self.states,
                "action": self.actions,
            }
            write_columns(path, rows | self._episode_columns())
        else:
            raise InvalidDemonstrations(
                f"demonstrations are saved as .parquet, .csv or .npz; got {path.name}"
            )

    def _episode_columns(self) -> dict[str, np.ndarray]:
        """What is known of whole episodes, repeated in their rows; only what is unusual."""
        parts = (
            ("ended", self.ended, False),
            ("final_state", self.final_states, -1),
            ("partial", self.partial, False),
        )
        return {
            name: np.repeat(part, self.lengths)
            for name, part, usual in parts
            if (part != usual).any()
        }

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
        return Demonstrations(
            self.states[rows],
            self.actions[rows],
            offsets,
            self.ended[chosen],
            self.final_states[chosen],
            self.partial[chosen],
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
        return Demonstrations(
            self.states[rows],
            self.actions[rows],
            offsets,
            self.ended & ~cut,
            np.where(cut, following, self.final_states),
            self.partial,
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
