"""What was seen: trajectories of states and actions, in columns, and their counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.data.trajectories import joined
from tacit.data.weights import weights_of
from tacit.errors import InvalidDemonstrations
from tacit.files.arrays import write_arrays
from tacit.files.atomic import LARGEST
from tacit.files.columns import flags, integers, texts
from tacit.files.frames import Frame
from tacit.files.tables import Progress, write_columns
from tacit.model.arguments import read_only
from tacit.model.available import first_unavailable
from tacit.model.layout import Layout

if TYPE_CHECKING:
    from tacit.model.mdp import MDP

# Fields that speak of whole episodes -> what reads them, and what they hold where nothing is given.
OF_EPISODES: dict[str, tuple[Callable[[npt.ArrayLike, str], np.ndarray], object]] = {
    "ended": (flags, False),
    "final_states": (integers, -1),
    "partial": (flags, False),
    "groups": (texts, None),
    "individuals": (texts, None),
    "names": (texts, None),
}


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
        groups: [E] str, who was seen (a mouse, a site); None where nobody is told apart.
        notes: sentences on what was assumed when the episodes were read.
        individuals: [E] str, the individual behind each episode, where several episodes are of one
            and not independent; None where nobody is told apart.
        names: [E] str, what the episodes are called; None where they are numbered from 0.
        layout: names of states and actions found when the episodes were read; None where none were.
        weights: [N] sampling weights: how much each step stands for, in any unit; those of [E]
            episodes may be given. None where all count alike.
    """

    states: np.ndarray
    actions: np.ndarray
    offsets: np.ndarray
    _: KW_ONLY
    ended: np.ndarray = None  # type: ignore[assignment]
    final_states: np.ndarray = None  # type: ignore[assignment]
    partial: np.ndarray = None  # type: ignore[assignment]
    groups: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    individuals: np.ndarray | None = None
    names: np.ndarray | None = None
    layout: Layout | None = None
    weights: np.ndarray | None = None

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
        if len(empty := np.flatnonzero(np.diff(offsets) < 1)):
            raise InvalidDemonstrations(
                f"every episode must hold at least one step; episode {empty[0]} holds none"
            )
        episodes = len(offsets) - 1
        columns = {"states": states, "actions": actions, "offsets": offsets}
        for name, (read, default) in OF_EPISODES.items():
            given = getattr(self, name)
            if given is None and default is None:
                continue
            column = read(np.full(episodes, default) if given is None else given, name)
            if column.shape != (episodes,):
                raise InvalidDemonstrations(
                    f"{name} must hold one entry an episode ({episodes}); got {column.shape}"
                )
            columns[name] = column
        if self.weights is not None:
            columns["weights"] = weights_of(self.weights, np.diff(offsets))
        for name, column in columns.items():
            object.__setattr__(self, name, read_only(column))
        object.__setattr__(self, "notes", tuple(self.notes))

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
        layout: Layout | None = None,
        *,
        ended: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Demonstrations:
        """Demonstrations from (states, actions) pairs of equal length, one pair an episode.

        Where `states` is one longer than `actions`, its last entry is the state after the last
        action. With a layout that has names, they may be names.
        """
        names = (layout.state_names, layout.action_names) if layout else ((), ())
        return cls(**joined(trajectories, *names), ended=ended, groups=groups)  # type: ignore[arg-type]

    @classmethod
    def from_pairs(cls, states: npt.ArrayLike, actions: npt.ArrayLike) -> Demonstrations:
        """Demonstrations from loose (state, action) pairs, in no order and from no known start."""
        count = len(np.asarray(states))
        every, joined = np.arange(count + 1), np.ones(count, bool)
        return cls(states, actions, every, partial=joined)  # type: ignore[arg-type]

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        layout: Layout | None = None,
        *,
        episode: str = "episode",
        step: str | None = "step",
        state: str | Sequence[str] = "state",
        action: str = "action",
        missing: str = "refuse",
        **others: str,
    ) -> Demonstrations:
        """The demonstrations of a pandas or Polars frame, one row a step, in any order.

        States and actions are numbers from 0 or names; those found are in `layout` of the result,
        sorted. The last row of an episode may lack its action: its state is where the last led.

        Args:
            frame: or a dictionary from names to columns.
            layout: names of states and actions in their order, where they are known.
            episode: name of the column that tells episodes apart.
            step: name of the column of steps; None takes rows in the order of the frame.
            state: name of the column of states; or a list of columns of measurements, and each row
                is a state of its own: the result is `Measurements`, missing cells are NaN.
            action: name of the column of actions.
            missing: "refuse" or "split", where something is missing within an episode.
            **others: names of the columns `group`, `individual`, `weight`, `sampling_weight`,
                `ended`, `final_state` and `partial`; a column that has such a name itself needs no
                mention.
        """
        from tacit.data.reading import Reading, read_frame

        columns = {"episode": episode, "step": step, "action": action} | others
        measured = None if isinstance(state, str) else tuple(state)
        if isinstance(state, str):
            columns["state"] = state
        elif not measured:
            raise InvalidDemonstrations("state must name at least one column; got an empty list")
        reading = Reading(layout=layout or Layout(), missing=missing, measured=measured)
        return read_frame(frame, columns, reading)

    @classmethod
    def load(
        cls,
        path: str | Path,
        layout: Layout | None = None,
        *,
        state: Sequence[str] | None = None,
        states: int = 0,
        actions: int = 0,
        available: np.ndarray | None = None,
        largest: int = LARGEST,
        progress: Progress | None = None,
    ) -> Demonstrations:
        """The demonstrations of a .csv, .parquet or .npz file.

        A table has one row a step, in any order, and the columns episode, step, state and action;
        it may have group, individual, weight (how many such episodes were seen) or sampling_weight
        (how much a row stands for), ended, final_state and partial. Episodes are numbers or names.
        Separator and line ends are found out.
        Without a column `step` rows are taken in the order of the file, and `notes` says so.

        Args:
            path: of the file; the ending of its name tells the format.
            layout: names of states and actions, where the file has names instead of numbers.
            state: columns of measurements, in place of a column of states: the result is
                `Measurements`. `Measurements.load` takes all columns that have no other meaning.
            states: number of states, to refuse the line that has a larger one; 0 to allow any.
            actions: number of actions, likewise.
            available: [S, A] bool, to refuse the line that takes an action where there is none.
            largest: most bytes of memory to take; a larger file is refused before it is read.
            progress: called now and then with what is done and what there is to do.
        """
        from tacit.data.reading import Reading, read_file

        if state is None and cls is not Demonstrations:
            state = ()
        reading = Reading(
            layout=layout or Layout(),
            measured=None if state is None else tuple(state),
            states=states,
            actions=actions,
            available=available,
            largest=largest,
            progress=progress,
        )
        return read_file(Path(path), reading)

    @classmethod
    def load_named(
        cls, path: str | Path, *, largest: int = LARGEST, progress: Progress | None = None
    ) -> tuple[Demonstrations, Layout]:
        """The demonstrations of a file, and the layout of the names found in it, sorted.

        "room 2" is sorted before "room 10". Where states or actions are numbers, they stay so.
        """
        from tacit.data.reading import Reading, read_file

        reading = Reading(find=("state", "action"), largest=largest, progress=progress)
        seen = read_file(Path(path), reading)
        return seen, seen.layout or Layout()

    def save(self, path: str | Path, *, first: int = 0) -> None:
        """Writes a .parquet, .csv or .npz file, by the ending of the name; `load` reads it back.

        Episodes of a table keep their names, or are numbered from `first`.
        """
        path = Path(path)
        if path.suffix == ".npz":
            write_arrays(path, self.arrays())
            return
        if path.suffix not in (".parquet", ".csv"):
            raise InvalidDemonstrations(
                f"demonstrations are saved as .parquet, .csv or .npz; got {path.name}"
            )
        write_columns(path, self.table(first=first))

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of an npz file."""
        from tacit.data.reading import STORED

        arrays = {name: getattr(self, name) for name in STORED}
        return {name: part for name, part in arrays.items() if part is not None}

    def table(
        self, states: Sequence[str] = (), actions: Sequence[str] = (), *, first: int = 0
    ) -> dict[str, npt.ArrayLike]:
        """The columns of a table, one entry a step; of whole episodes what is unusual.

        Args:
            states: names of the states, to stand instead of their numbers.
            actions: names of the actions, likewise.
            first: number of the first episode.
        """
        import polars

        def named(names: Sequence[str], numbers: np.ndarray) -> npt.ArrayLike:
            # Polars: NumPy would hold every row's text at the length of the longest.
            return polars.Series([*names, "-1"])[numbers] if names else numbers  # type: ignore

        episode = self.episode
        called = self.names is not None and not first and len({*self.names}) == self.episodes
        columns: dict[str, npt.ArrayLike] = {
            "episode": named(self.names.tolist(), episode) if called else first + episode,  # type: ignore
            "step": self.step,
            "state": named(states, self.states),
            "action": named(actions, self.actions),
        }
        if self.ended.any():
            columns["ended"] = self.ended[episode]
        if (self.final_states != -1).any():
            columns["final_state"] = named(states, self.final_states[episode])
        if self.partial.any():
            columns["partial"] = self.partial[episode]
        if self.groups is not None:
            columns["group"] = named(self.groups.tolist(), episode)
        if self.individuals is not None:
            columns["individual"] = named(self.individuals.tolist(), episode)
        if self.weights is not None:
            columns["sampling_weight"] = self.weights
        return columns

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
        ahead = np.ones(self.steps, np.int64)  # one more each step, back to 0 with each episode
        ahead[0], ahead[self.offsets[1:-1]] = 0, 1 - self.lengths[:-1]
        return np.cumsum(ahead, out=ahead)

    @property
    def episode(self) -> np.ndarray:
        """[N] episode of every row: a running sum, as `np.repeat` would hold up other threads."""
        return np.cumsum(np.bincount(self.offsets[1:-1], minlength=self.steps))

    def pairs(self, actions: int) -> np.ndarray:
        """[N] the number s * A + a of every row's state and action, for so many actions."""
        pairs = self.states * np.int64(actions)
        pairs += self.actions
        return pairs

    @property
    def shares(self) -> np.ndarray:
        """[N] the weights, their mean 1, whatever unit they are in; 1 where all count alike."""
        if self.weights is None:
            return np.broadcast_to(1.0, self.steps)
        weights = self.weights / self.weights.max()  # the sum of large ones is no number
        return weights / weights.mean()

    @property
    def next_states(self) -> np.ndarray:
        """[N] the state after every step; -1 where it was not recorded."""
        following = np.append(self.states[1:], -1)
        following[self.offsets[1:] - 1] = self.final_states
        return following

    @property
    def last_states(self) -> np.ndarray:
        """[E] the last known state of every episode."""
        last = self.states[self.offsets[1:] - 1]
        return np.where(self.final_states < 0, last, self.final_states)

    def episode_name(self, episode: int) -> str:
        """What an episode is called, or its number where it has no name."""
        return str(episode) if self.names is None else str(self.names[episode])

    def trajectory(self, episode: int) -> tuple[np.ndarray, np.ndarray]:
        """States and actions of one episode."""
        if not 0 <= episode < self.episodes:
            raise IndexError(f"episode must be in 0..{self.episodes - 1}; got {episode}")
        rows = slice(self.offsets[episode], self.offsets[episode + 1])
        return self.states[rows], self.actions[rows]

    def __add__(self, other: Demonstrations) -> Demonstrations:
        """The episodes of both, as `pooled` makes one set of them."""
        from tacit.data.pooling import pooled

        return pooled(self, other) if isinstance(other, Demonstrations) else NotImplemented

    def select(self, episodes: Sequence[int] | np.ndarray) -> Demonstrations:
        """The chosen episodes, in the order given; an episode may be chosen more than once."""
        chosen = np.asarray(episodes)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        if chosen.size == 0:
            raise InvalidDemonstrations("select must keep at least one episode; got none")
        columns = {name: getattr(self, name) for name in OF_EPISODES}
        columns = {name: part[chosen] for name, part in columns.items() if part is not None}
        return replace(self, **self._pieces(self.offsets[chosen], self.lengths[chosen]), **columns)

    def truncate(self, steps: int) -> Demonstrations:
        """Every episode cut after its first `steps` steps."""
        if steps < 1:
            raise InvalidDemonstrations(f"truncate must keep at least one step; got steps={steps}")
        lengths = np.minimum(self.lengths, steps)
        cut = lengths < self.lengths
        following = self.states[np.minimum(self.offsets[:-1] + lengths, self.steps - 1)]
        return replace(
            self,
            **self._pieces(self.offsets[:-1], lengths),
            ended=self.ended & ~cut,
            final_states=np.where(cut, following, self.final_states),
        )

    def _pieces(self, starts: np.ndarray, lengths: np.ndarray) -> dict[str, np.ndarray]:
        """The columns of steps, of pieces that begin in these rows and are so long."""
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        steps = {"states": self.states[rows], "actions": self.actions[rows], "offsets": offsets}
        return steps if self.weights is None else steps | {"weights": self.weights[rows]}

    def check(self, mdp: MDP) -> None:
        """Raises `InvalidDemonstrations` unless the model has all states and actions taken."""
        self.check_range(mdp.states, mdp.actions)
        taken = (self.states, self.actions)
        if mdp.restricted and (odd := first_unavailable(mdp.available, *taken)) is not None:
            raise InvalidDemonstrations(f"{odd.sentence()} at {self._place(odd.row)}")

    def check_range(self, states: int, actions: int) -> None:
        """Raises `InvalidDemonstrations` unless there are as many states and actions as taken."""
        columns = {"state": (self.states, states), "action": (self.actions, actions)}
        for name, (column, count) in columns.items():
            if column.min() < 0 or column.max() >= count:
                row = int(np.argmax((column < 0) | (column >= count)))
                raise InvalidDemonstrations(
                    f"every {name} must be in 0..{count - 1}; {self._place(row)} has {column[row]}"
                )
        outside = (self.final_states < -1) | (self.final_states >= states)
        if outside.any():
            episode = int(np.argmax(outside))
            raise InvalidDemonstrations(
                f"every final state must be in 0..{states - 1}; "
                f"episode {self.episode_name(episode)} has {self.final_states[episode]}"
            )

    def _place(self, row: int) -> str:
        return f"episode {self.episode_name(self.episode[row])}, step {self.step[row]}"

    def counts(self, mdp: MDP) -> np.ndarray:
        """[S, A] how often each action was taken in each state; by `shares` where they weigh."""
        self.check(mdp)
        flat = self.pairs(mdp.actions)
        weights = None if self.weights is None else self.shares
        total = np.bincount(flat, weights, minlength=mdp.states * mdp.actions)
        return total.reshape(mdp.states, mdp.actions).astype(np.float64)

    def __repr__(self) -> str:
        return f"Demonstrations(episodes={self.episodes}, steps={self.steps})"
