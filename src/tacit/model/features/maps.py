"""A feature map: columns of numbers over states, or states and actions, each with a name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidModel
from tacit.model.arguments import is_integer, numbers, read_only
from tacit.model.features.curves import CurveTerm, Spline, Surface
from tacit.model.layout import Layout, numbers_of, state_names
from tacit.model.mdp import MDP
from tacit.model.objective import Features

AXES = ("row", "column")
# One or more states or actions, by name or number.
Names: TypeAlias = str | int | Iterable[str | int]


@dataclass(frozen=True, eq=False)
class Map:
    """Named columns of features; `+` puts two maps side by side, `-` turns the sign of one.

    Attributes:
        values: [S, D] or [S, A, D].
        names: [D] what people call each column; no name twice.
        curves: those that columns are parameters of.
    """

    values: np.ndarray
    names: tuple[str, ...]
    curves: tuple[CurveTerm, ...] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            values: ArrayLike,
            names: str | Iterable[str],
            curves: tuple[CurveTerm, ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        values = numbers(self.values, "feature values")
        if values.ndim not in (2, 3) or 0 in values.shape:
            raise InvalidModel(
                f"feature values must be a non-empty array [S, D] or [S, A, D]; got {values.shape}"
            )
        names = (self.names,) if isinstance(self.names, str) else tuple(map(str, self.names))
        if len(names) != values.shape[-1]:
            raise InvalidModel(
                f"{values.shape[-1]} feature columns need as many names; got {len(names)}"
            )
        twice = next((name for j, name in enumerate(names) if name in names[:j]), None)
        if twice is not None:
            raise InvalidModel(f"every feature needs a name of its own; {twice!r} is there twice")
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            *place, column = (int(i) for i in bad[0])
            where = f"state {place[0]}" + (f", action {place[1]}" if len(place) > 1 else "")
            raise InvalidModel(
                f"feature {names[column]!r} must be finite; it is "
                f"{values[tuple(bad[0])]} in {where}"
            )
        object.__setattr__(self, "values", read_only(values))
        object.__setattr__(self, "names", names)

    @property
    def states(self) -> int:
        """S, the number of states."""
        return self.values.shape[0]

    @property
    def by_action(self) -> bool:
        """Whether the features differ between actions: values are [S, A, D]."""
        return self.values.ndim == 3

    def __add__(self, other: Map) -> Map:
        mine, others = _alike(self, other)
        moved = [replace(c, columns=c.columns + len(self.names)) for c in other.curves]
        table = np.concatenate([mine, others], axis=-1)
        return Map(table, (*self.names, *other.names), (*self.curves, *moved))

    def __neg__(self) -> Map:
        self._refuse_curves()
        return Map(-self.values, [f"minus {name}" for name in self.names])

    def __getitem__(self, names: str | Iterable[str]) -> Map:
        """The columns of these names, in this order."""
        self._refuse_curves()
        chosen = (names,) if isinstance(names, str) else tuple(names)
        for name in chosen:
            if name not in self.names:
                raise InvalidModel(f"no feature is called {name!r}; there are {[*self.names]}")
        return Map(self.values[..., [self.names.index(name) for name in chosen]], chosen)

    def renamed(self, *names: str) -> Map:
        """The same columns under other names, one for each."""
        return Map(self.values, names, self.curves)

    def _refuse_curves(self) -> None:
        if self.curves:
            raise InvalidModel(
                f"{self.curves[0].name} stays whole: put maps beside it by +, and write products "
                "as formulas, s(x):group"
            )

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.values.shape))
        return f"Map([{shape}], names={[*self.names]})"


def combine(reward: Map | Iterable[Map], costs: Iterable[Map | Iterable[Map]] = ()) -> Features:
    """The `Features` of a reward map and one cost map per constraint, with all their names.

    Args:
        reward: a map, or several to put side by side.
        costs: one entry per constraint: a map, or several to put side by side.
    """
    if isinstance(costs, Map):
        raise InvalidModel("costs must be a list with one map per constraint: write costs=[map]")
    wanted = _joined(reward, "reward")
    refused = [_joined(entry, f"costs[{k}]") for k, entry in enumerate(costs)]
    return Features(
        wanted.values,
        [entry.values for entry in refused],
        reward_names=wanted.names,
        cost_names=[entry.names for entry in refused],
        curves=[
            replace(curve, block=k)
            for k, entry in enumerate((wanted, *refused))
            for curve in entry.curves
        ],
    )


def curve(
    values: ArrayLike,
    name: str = "x",
    *,
    k: int | None = None,
    cyclic: float | None = None,
    shape: str = "",
) -> Map:
    """A smooth curve of a measurement, whose smoothness is estimated: "s(x)" in formulas.

    Args:
        values: [S] or [S, A] the measurement.
        name: what it is called.
        k: B-splines of the curve; None for 12, or as many as there are distinct values.
        cyclic: period after which the curve begins again; None for a curve with two ends.
        shape: "positive", "increasing" or "decreasing"; "" for any.
    """
    table, what = numbers(values, name), f"s({name})"
    made = Spline.of(table.ravel(), splines=k, period=cyclic, shape=shape, what=what)
    return _curve_map(made, table[..., None], what, (name,))


def surface(
    first: ArrayLike,
    second: ArrayLike,
    names: tuple[str, str] = ("x", "y"),
    *,
    k: int | None = None,
) -> Map:
    """A smooth surface over two measurements, whose smoothness is estimated: "te(x, y)".

    Args:
        first: [S] or [S, A] one measurement.
        second: of the same shape, the other.
        names: what they are called.
        k: B-splines along each side; None for 18, or as many as there are distinct values.
    """
    table = np.stack([numbers(first, names[0]), numbers(second, names[1])], axis=-1)
    what = f"te({names[0]}, {names[1]})"
    made = Surface.of(table.reshape(-1, 2), splines=k, what=what)
    return _curve_map(made, table, what, names)


def _curve_map(
    basis: Spline | Surface, values: np.ndarray, what: str, variables: tuple[str, ...]
) -> Map:
    """The map of a basis at measurements [..., m]."""
    columns = basis.columns(values.reshape(-1, values.shape[-1]))
    term = CurveTerm(
        name=what,
        variables=variables,
        columns=np.arange(basis.size),
        basis=basis,
        values=values,
    )
    names = [f"{what}[{j + 1}]" for j in range(basis.size)]
    return Map(columns.reshape(*values.shape[:-1], -1), names, (term,))


def product(left: Map, right: Map) -> Map:
    """Every column of one map times every column of the other: "sun times noon"."""
    for one in (left, right):
        one._refuse_curves()
    mine, others = _alike(left, right)
    table = mine[..., :, None] * others[..., None, :]
    names = [f"{a} times {b}" for a in left.names for b in right.names]
    return Map(table.reshape(*table.shape[:-2], -1), names)


def scaled(features: Map, low: float = 0.0, high: float = 1.0) -> Map:
    """Every column moved and stretched so that it runs from `low` to `high`; names stay."""
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InvalidModel(f"a scale must run from low to high; got {low} and {high}")
    features._refuse_curves()
    flat = features.values.reshape(-1, features.values.shape[-1])
    least, span = flat.min(axis=0), np.ptp(flat, axis=0)
    if not span.all():
        same = features.names[int(np.argmin(span))]
        raise InvalidModel(f"feature {same!r} is the same everywhere and cannot be scaled")
    return Map(low + (high - low) * ((features.values - least) / span), features.names)


def _joined(given: Map | Iterable[Map], what: str) -> Map:
    parts = (given,) if isinstance(given, Map) else tuple(given)
    if not parts or not all(isinstance(part, Map) for part in parts):
        kinds = [type(part).__name__ for part in parts] or "nothing"
        raise InvalidModel(f"{what} must be a map of tacit.features, or several; got {kinds}")
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _alike(left: Map, right: Map) -> tuple[np.ndarray, np.ndarray]:
    """The values of both, [S, A, .] where one of them is."""
    if left.states != right.states:
        raise InvalidModel(
            f"maps must speak of the same states; got {left.states} ({left.names[0]}) and "
            f"{right.states} ({right.names[0]})"
        )
    actions = {part.values.shape[1] for part in (left, right) if part.by_action}
    if len(actions) > 1:
        raise InvalidModel(f"maps must speak of the same actions; got {sorted(actions)}")
    if not actions:
        return left.values, right.values
    width = actions.pop()
    mine, others = (
        part.values if part.by_action else np.repeat(part.values[:, None], width, axis=1)
        for part in (left, right)
    )
    return mine, others


def known_states(world: MDP | Layout | int, layout: Layout | None = None) -> tuple[int, Layout]:
    """(S, the layout that names them) of a number of states, an `MDP` or a `Layout`."""
    if isinstance(world, Layout):
        layout, count = world, len(world.state_names) or world.rows * world.columns
        if count == 0:
            raise InvalidModel("this layout does not tell the number of states: pass an MDP")
    elif isinstance(world, MDP):
        count = world.states
    elif is_integer(world) and world > 0:
        count = int(world)
    else:
        raise InvalidModel(
            f"the world must be an MDP, a Layout or the number of states; got {world!r:.60}"
        )
    layout = layout or Layout()
    if layout.state_names and len(layout.state_names) != count:
        raise InvalidModel(
            f"the layout must name all {count} states; it names {len(layout.state_names)}"
        )
    return count, layout


def one_hot(
    world: MDP | Layout | int, layout: Layout | None = None, *, only: Names | None = None
) -> Map:
    """[S, D] a column for each state, 1 there and 0 elsewhere, named after the state.

    Args:
        world: an `MDP`, a `Layout`, or the number of states.
        layout: names of the states; not needed where `world` is one.
        only: names or numbers of the states that get a column; None for all.
    """
    count, layout = known_states(world, layout)
    chosen = list(range(count))
    if only is not None:
        chosen = numbers_of(only, count, state_names(layout, count), "state")
    return Map(np.eye(count)[:, chosen], [layout.state_name(s) for s in chosen])


def action_one_hot(mdp: MDP, layout: Layout | None = None, *, only: Names | None = None) -> Map:
    """[S, A, D] a column for each action, 1 where it is taken, named after the action.

    Args:
        mdp: the world.
        layout: names of the actions.
        only: names or numbers of the actions that get a column; None for all.
    """
    layout = layout or Layout()
    chosen = list(range(mdp.actions))
    if only is not None:
        chosen = numbers_of(only, mdp.actions, layout.action_names, "action")
    table = np.broadcast_to(np.eye(mdp.actions)[:, chosen], (mdp.states, mdp.actions, len(chosen)))
    return Map(table, [layout.action_name(a) for a in chosen])


def coordinates(world: Layout | ArrayLike, names: Sequence[str] | None = None) -> Map:
    """[S, d] where each state lies: row and column on a grid, or the points that are given.

    Args:
        world: the `Layout` of a grid; or points [S, d].
        names: one per coordinate; None says "row" and "column", or "coordinate 0" and so on.
    """
    if not isinstance(world, Layout):
        points = numbers(world, "coordinates")
        points = points[:, None] if points.ndim == 1 else points
        if points.ndim != 2:
            raise InvalidModel(f"coordinates must have shape [S, d]; got {points.shape}")
        return Map(points, names or [f"coordinate {j}" for j in range(points.shape[1])])
    if not world.is_grid:
        raise InvalidModel("this layout is no grid: give the coordinates [S, d] of the states")
    count, _ = known_states(world)
    if count > world.rows * world.columns:
        lost = world.state_name(world.rows * world.columns)
        raise InvalidModel(f"{lost!r} lies off the grid: give the coordinates [S, 2] of all states")
    return Map(np.stack(np.divmod(np.arange(count), world.columns), axis=1), names or AXES)


def bumps(
    centres: ArrayLike,
    widths: ArrayLike,
    coordinates: ArrayLike | Map,
    *,
    names: Sequence[str] | None = None,
) -> Map:
    """[S, C] exp(-distance^2 / (2 width^2)) to each centre: 1 there, fading with distance.

    Args:
        centres: [C, d] points.
        widths: one width, or one per centre.
        coordinates: [S, d] where the states lie, as points or as a map of `coordinates`.
        names: one per centre; None says "near (x, y)".
    """
    points = points_of(coordinates)
    middle = numbers(centres, "centres")
    middle = middle[:, None] if middle.ndim == 1 and points.shape[1] == 1 else middle
    if middle.ndim != 2 or middle.shape[1] != points.shape[1]:
        raise InvalidModel(
            f"centres must have shape [C, {points.shape[1]}], as the coordinates; "
            f"got {middle.shape}"
        )
    width = numbers(widths, "widths")
    if width.shape not in ((), (len(middle),)) or not (width > 0).all():
        raise InvalidModel(
            f"widths must be positive, one or {len(middle)} of them; got {widths!r:.60}"
        )
    square = ((points[:, None, :] - middle[None, :, :]) ** 2).sum(axis=2)
    shown = [", ".join(f"{x:.4g}" for x in centre) for centre in middle]
    return Map(np.exp(-0.5 * square / width**2), names or [f"near ({text})" for text in shown])


def points_of(given: ArrayLike | Map) -> np.ndarray:
    """[S, d] the coordinates, from points or a map."""
    if isinstance(given, Map) and given.by_action:
        raise InvalidModel("coordinates must be of states; got a map over actions, too")
    return coordinates(given.values if isinstance(given, Map) else given).values


def distance_to(
    targets: Names,
    world: MDP | Layout | ArrayLike | Map,
    layout: Layout | None = None,
    *,
    nearest: bool = False,
    likely: float = 0.0,
    unreachable: float | None = None,
) -> Map:
    """[S, D] distance of each state to each target, "distance to water"; 0 at the target itself.

    Args:
        targets: names or numbers of one or more states.
        world: an `MDP`, for the fewest steps with which any actions can lead there; the `Layout` of
            a grid, for the fewest moves between cells; or coordinates [S, d], as points or as a
            map, for the straight line.
        layout: names of the states; not needed where `world` is one.
        nearest: one column, the distance to the nearest target, instead of one for each.
        likely: transitions of this probability or less are not counted as a way.
        unreachable: the distance of states from which no way leads there; None refuses them.
    """
    if isinstance(world, MDP | Layout):
        count, layout = known_states(world, layout)
        chosen = numbers_of(targets, count, state_names(layout, count), "state")
        steps = grid_moves(world) if isinstance(world, Layout) else transition_pairs(world, likely)
        table = _fewest_steps(*steps, chosen, count)
    else:
        points = points_of(world)
        count, layout = known_states(len(points), layout)
        chosen = numbers_of(targets, count, state_names(layout, count), "state")
        table = np.linalg.norm(points[:, None, :] - points[None, chosen, :], axis=2)
    names = [f"distance to {layout.state_name(s)}" for s in chosen]
    if nearest:
        table = table.min(axis=1, keepdims=True)
        names = ["distance to " + " or ".join(layout.state_name(s) for s in chosen)]
    lost = np.argwhere(np.isinf(table))
    if len(lost) and unreachable is None:
        state, column = (int(i) for i in lost[0])
        more = len(lost) - 1
        others = f" and {more} other state{'' if more == 1 else 's'}" if more else ""
        raise InvalidModel(
            f"{names[column]}: no way leads there from {layout.state_name(state)}{others}: "
            "pass unreachable=NUMBER to say how far they are"
        )
    table[np.isinf(table)] = unreachable
    return Map(table, names)


def transition_pairs(mdp: MDP, likely: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """([M] from, [M] to) states of every transition of more than this probability."""
    s, a, b = np.nonzero(mdp.transitions.probabilities > likely)
    return s, mdp.transitions.states[s, a, b]


def grid_moves(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """([M] from, [M] to) cells of every move: in the layout's directions, or to four neighbours."""
    if not layout.is_grid:
        raise InvalidModel("this layout is no grid: pass the MDP, or the coordinates of the states")
    row, column = np.divmod(np.arange(layout.rows * layout.columns), layout.columns)
    start, end = [], []
    for down, right in layout.directions or ((0, 1), (1, 0), (0, -1), (-1, 0)):
        r, c = row + down, column + right
        inside = (r >= 0) & (r < layout.rows) & (c >= 0) & (c < layout.columns)
        start.append(np.flatnonzero(inside))
        end.append((r * layout.columns + c)[inside])
    return np.concatenate(start), np.concatenate(end)


def _fewest_steps(start: np.ndarray, end: np.ndarray, targets: list[int], count: int) -> np.ndarray:
    """[S, D] fewest steps from each state to each target; infinite where no way leads there."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    # Backwards from the targets: one search each, whatever the number of states.
    graph = csr_array((np.ones(len(start)), (end, start)), shape=(count, count))
    return np.asarray(dijkstra(graph, indices=targets, unweighted=True)).T.copy()
