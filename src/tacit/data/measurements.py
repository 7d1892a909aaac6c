"""Rows of measurements: what was seen where nobody numbered the states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.data.demonstrations import Demonstrations
from tacit.data.trajectories import joined
from tacit.errors import InvalidDemonstrations
from tacit.files.wording import did_you_mean, some
from tacit.model.arguments import numbers, read_only
from tacit.model.features.imputing import Imputing
from tacit.model.layout import Layout

if TYPE_CHECKING:
    from tacit.model.mdp import MDP


@dataclass(frozen=True, eq=False)
class Measurements(Demonstrations):
    """Trajectories whose states are rows of measurements, each row a site of its own.

    Sites are numbered in the order of the steps; `states` is 0, 1, ..., N - 1, so that all that is
    asked of numbered states can be asked of rows. An episode with a row after its last action has
    the site of that row as its final state.

    Attributes:
        observations: [N + F, d] what was measured: the rows of the N steps, then the F rows after
            the last actions of episodes; NaN where a measurement is missing.
        columns: d names, one a measurement.
    """

    _: KW_ONLY
    observations: np.ndarray = None  # type: ignore[assignment]
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        led = np.flatnonzero(self.final_states >= 0)
        sites = self.steps + len(led)
        names = tuple(str(name) for name in self.columns)
        rows = observations_of(self.observations, "observations", len(names))
        if len(rows) != sites:
            raise InvalidDemonstrations(
                "observations must hold one row a step and one after each last action that is "
                f"known, {self.steps} + {len(led)}; got {len(rows)}"
            )
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidDemonstrations(f"columns must have different names; {twice!r} is twice")
        in_order = np.append(self.states, self.final_states[led])
        if not np.array_equal(in_order, np.arange(sites)):
            raise InvalidDemonstrations(
                "states must number the rows in their order: from 0 those of the steps, then "
                "those after the last actions; make them with Measurements.from_trajectories"
            )
        object.__setattr__(self, "observations", read_only(rows))
        object.__setattr__(self, "columns", names)

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
        layout: Layout | None = None,
        *,
        columns: Sequence[str] | None = None,
        ended: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        individuals: npt.ArrayLike | None = None,
    ) -> Measurements:
        """Measurements from (observations [T, d], actions [T]) pairs, one pair an episode.

        Where `observations` has one row more than there are actions, it is the row after the last
        action.

        Args:
            trajectories: one pair an episode; a missing measurement is NaN.
            layout: names of the actions; actions may then be given by name.
            columns: d names; None for "x0", "x1", ...
            ended: [E] bool, whether each episode ran into an end.
            groups: [E] str, who was seen.
            individuals: [E] str, the individual behind each episode.
        """
        rows, numbered, before = [], [], 0
        names = None if columns is None else tuple(columns)
        for number, trajectory in enumerate(trajectories):
            try:
                seen, taken = trajectory
            except (TypeError, ValueError):
                raise InvalidDemonstrations(
                    f"trajectory {number} must be a pair (observations, actions); "
                    f"got {trajectory!r:.60}"
                ) from None
            where = f"trajectory {number}: observations"
            table = observations_of(seen, where, None if names is None else len(names))
            names = names or tuple(f"x{j}" for j in range(table.shape[1]))
            rows.append(table)
            numbered.append((before + np.arange(len(table)), taken))
            before += len(table)
        sites = Demonstrations(
            **joined(numbered, (), layout.action_names if layout else ()),  # type: ignore[arg-type]
            ended=ended,  # type: ignore[arg-type]
            groups=groups,  # type: ignore[arg-type]
            individuals=individuals,  # type: ignore[arg-type]
            layout=layout,
        )
        return cls.at_sites(sites, np.concatenate(rows), names or ())

    @classmethod
    def at_sites(
        cls, sites: Demonstrations, observations: np.ndarray, columns: Sequence[str]
    ) -> Measurements:
        """The measurements of demonstrations whose states are rows of a table.

        Args:
            sites: their states and final states are numbers of rows, in any order.
            observations: [n, d] the table.
            columns: d names.
        """
        led = sites.final_states >= 0
        rows = np.append(sites.states, sites.final_states[led])
        arguments = {field.name: getattr(sites, field.name) for field in fields(Demonstrations)}
        arguments["states"] = np.arange(sites.steps)
        arguments["final_states"] = np.where(led, sites.steps - 1 + np.cumsum(led), -1)
        return cls(**arguments, observations=observations[rows], columns=tuple(columns))

    def numbered(self, first: int = 0) -> Demonstrations:
        """The same as demonstrations of numbered states: the sites, counted from `first`."""
        arguments = {field.name: getattr(self, field.name) for field in fields(Demonstrations)}
        arguments["states"] = self.states + first
        arguments["final_states"] = np.where(self.final_states < 0, -1, self.final_states + first)
        return Demonstrations(**arguments)

    @property
    def sites(self) -> int:
        """N + F, the number of rows."""
        return len(self.observations)

    @property
    def action_names(self) -> tuple[str, ...]:
        """A names of the actions; where they have none, the numbers up to the largest seen."""
        named = () if self.layout is None else self.layout.action_names
        return named or tuple(map(str, range(int(self.actions.max()) + 1)))

    def check_rows(self) -> None:
        """Raises `InvalidDemonstrations` where nothing can be recovered from the rows."""
        Imputing.of(self.observations, self.columns)  # refuses a column without any number
        low, high = np.nanmin(self.observations, axis=0), np.nanmax(self.observations, axis=0)
        if (low == high).any():
            column = int(np.argmax(low == high))
            raise InvalidDemonstrations(
                f"every column must vary; {self.columns[column]!r} is {low[column]:g} in all rows: "
                "leave it out"
            )
        if (self.actions == self.actions[0]).all():
            raise InvalidDemonstrations(
                "a choice must have been made between actions; all "
                f"{self.steps} steps took {self.action_names[self.actions[0]]!r}"
            )
        if not (self.next_states >= 0).any() and not self.ended.any():
            raise InvalidDemonstrations(
                "some row must have a row after it; every episode has one step and no row after "
                "its action: give episodes of several steps, or observations [T + 1, d]"
            )

    def measuring(self, columns: Sequence[str]) -> Measurements:
        """The same with these columns alone, in this order."""
        rows = np.stack([self.column(name) for name in columns], axis=1)
        return replace(self, observations=rows, columns=tuple(columns))

    def column(self, name: str) -> np.ndarray:
        """[N + F] the measurements of that name."""
        if name not in self.columns:
            raise InvalidDemonstrations(
                f"measurements have the columns {some(self.columns)}; got {name!r}"
                f"{did_you_mean(name, self.columns)}"
            )
        return self.observations[:, self.columns.index(name)]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of an npz file."""
        arrays = super().arrays()
        arrays |= {"observations": self.observations, "columns": np.array(self.columns)}
        named = () if self.layout is None else self.layout.action_names
        return arrays | ({"action_names": np.array(named)} if named else {})

    def table(
        self, states: Sequence[str] = (), actions: Sequence[str] = (), *, first: int = 0
    ) -> dict[str, npt.ArrayLike]:
        """The columns of a table: a row a step, and one without an action after the last."""
        import polars

        from tacit.data.reading import OPTIONAL, ORDINARY

        named = () if self.layout is None else self.layout.action_names
        led = np.flatnonzero(self.final_states >= 0)
        steps = np.append(self.step, self.lengths[led])
        order = np.lexsort((steps, np.append(self.episode, led)))
        source = np.append(self.states, self.offsets[led])[order]  # a step of the episode
        steps_alone = super().table((), actions or named, first=first)
        columns: dict[str, npt.ArrayLike] = {
            name: np.asarray(column)[source]
            for name, column in steps_alone.items()
            if name not in ("state", "final_state")
        }
        twice = next((name for name in self.columns if name in (*ORDINARY, *OPTIONAL)), None)
        if twice is not None:
            raise InvalidDemonstrations(
                f"a table has a meaning of its own for the column {twice!r}: rename the "
                "measurement, or save it as .npz"
            )
        columns["step"] = steps[order]
        taken = polars.Series(np.asarray(columns["action"]))
        columns["action"] = taken.set(polars.Series(order >= self.steps), None)
        return columns | {
            name: polars.Series(self.observations[order, column], nan_to_null=True)
            for column, name in enumerate(self.columns)
        }

    def check(self, mdp: MDP) -> None:
        """Raises `InvalidDemonstrations`: a model of numbered states has no rows."""
        raise InvalidDemonstrations(
            "an MDP needs demonstrations of numbered states; got rows of measurements: recover "
            "from them with tacit.Logged, or number them with tacit.data.sources.Discretiser"
        )

    def select(self, episodes: Sequence[int] | np.ndarray) -> Measurements:
        """The chosen episodes with their rows; an episode may be chosen more than once."""
        chosen = self.numbered().select(episodes)
        return self.at_sites(chosen, self.observations, self.columns)

    def truncate(self, steps: int) -> Measurements:
        """Every episode cut after its first `steps` steps; the row that followed is its last."""
        return self.at_sites(self.numbered().truncate(steps), self.observations, self.columns)

    def __add__(self, other: Demonstrations) -> Measurements:
        """The episodes of both; columns of the second in the order of the first."""
        if not isinstance(other, Demonstrations):
            return NotImplemented
        if not isinstance(other, Measurements) or {*other.columns} != {*self.columns}:
            got = other.columns if isinstance(other, Measurements) else ("numbered states",)
            raise InvalidDemonstrations(
                f"measurements that are pooled must have the same columns; got "
                f"{some(self.columns)} and {some(got)}"
            )
        order = [other.columns.index(name) for name in self.columns]
        both = self.numbered() + other.numbered(self.sites)
        table = np.concatenate([self.observations, other.observations[:, order]])
        return self.at_sites(both, table, self.columns)

    def __radd__(self, other: Demonstrations) -> Measurements:
        return self + other if isinstance(other, Demonstrations) else NotImplemented

    def __repr__(self) -> str:
        return (
            f"Measurements(episodes={self.episodes}, steps={self.steps}, "
            f"columns=({some(self.columns)}))"
        )


def observations_of(values: npt.ArrayLike, name: str, width: int | None) -> np.ndarray:
    """[n, d] float64, NaN where something is missing; one line where it is no such table."""
    if values is None:
        raise InvalidDemonstrations(f"{name} must be an array [n, d]; got None")
    table = numbers(values, name, error=InvalidDemonstrations)
    if table.ndim == 1 and width in (None, 1):
        table = table[:, None]
    shape = "[n, d]" if width is None else f"[n, {width}], one column a name"
    if table.ndim != 2 or not table.shape[1] or width not in (None, table.shape[1]):
        raise InvalidDemonstrations(f"{name} must have shape {shape}; got {table.shape}")
    odd = np.isinf(table)
    if odd.any():
        row, column = np.argwhere(odd)[0].tolist()
        raise InvalidDemonstrations(
            f"{name} must be finite, or NaN where one is missing; row {row}, column {column} is "
            f"{table[row, column]}"
        )
    return table
