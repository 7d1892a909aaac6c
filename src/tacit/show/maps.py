"""Which maps of a grid world a page shows, reward, costs, policy and visits, to point at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from matplotlib.axes import Axes

from tacit.inference.numerics import first_largest
from tacit.model.transitions import Layout
from tacit.show import Block, Cells, Choice, Details, Gallery, Option, Picture, Selector, anchor
from tacit.show.arrows import (
    ASSUMED,
    LEAST_SHARE,
    NEVER_VISITED,
    NO_PREFERENCE,
    draw_key,
    draw_policy,
    indifferent,
)
from tacit.show.canvas import (
    COST_MAP,
    REWARD_MAP,
    VISIT_MAP,
    axes_at,
    box_of,
    figure_of,
    fit_text,
    new_figure,
    plain,
    styled,
    svg,
)
from tacit.show.grid import cell_scale, draw_colour_bar, draw_values, extent, limits_of, map_names
from tacit.show.quantities import NamedRecovery
from tacit.show.tables import MISSING, Column, Scale, Table, short

MOST_DRAWN = 64_000  # cells that are drawn, all maps together
MOST_TOLD = 26_000  # values that can be pointed at, all maps together
MOST_MAPPED = 12  # actions that have a map each where states lie on no grid
MOST_LISTED = 200  # hard constraints
FEW = 2_500  # cells whose values are told in full

_WIDTH = 3.0  # inches of a map
_LEFT, _RIGHT, _TITLE, _BELOW = 0.24, 0.06, 0.26, 0.62


@dataclass(frozen=True, eq=False)
class MapGrid:
    """What all maps of one world share.

    Attributes:
        layout: where the states lie.
        maps: how many there are.
    """

    layout: Layout
    maps: int

    @classmethod
    def of(cls, named: NamedRecovery) -> MapGrid:
        """The grid of the maps of a recovery: reward, costs, policy and visits."""
        return cls(named.layout, 3 + named.constraints)

    @cached_property
    def factor(self) -> int:
        """Rows, and columns, that are drawn as one; 1 where every cell is drawn."""
        cells = self.layout.rows * self.layout.columns
        if not cells:
            return 1
        return max(1, int(np.ceil(np.sqrt(cells * self.maps / MOST_DRAWN))))

    @cached_property
    def drawn(self) -> Layout:
        """The grid as it is drawn."""
        if not self.layout.is_grid:
            return self.layout
        rows, columns = (-(-n // self.factor) for n in (self.layout.rows, self.layout.columns))
        return replace(self.layout, rows=rows, columns=columns, state_names=())

    @property
    def cells(self) -> int:
        """Number of cells that are drawn."""
        return self.drawn.rows * self.drawn.columns or len(self.layout.centres)

    @property
    def has_values(self) -> bool:
        """Whether values can be pointed at, and the page stays small."""
        return self.cells * self.maps <= MOST_TOLD

    def pooled(self, values: np.ndarray) -> np.ndarray:
        """[cells] or [cells, A] the means of values [S] or [S, A] over what is drawn as one."""
        layout, factor = self.layout, self.factor
        table = np.asarray(values, dtype=float)[: layout.rows * layout.columns or len(values)]
        if factor == 1:
            return table
        table = table.reshape(layout.rows, layout.columns, -1)
        rows, columns = (np.arange(0, n, factor) for n in (layout.rows, layout.columns))
        sums = np.add.reduceat(np.add.reduceat(table, rows, axis=0), columns, axis=1)
        counts = np.outer(
            np.diff(rows, append=layout.rows), np.diff(columns, append=layout.columns)
        )
        means = (sums / counts[:, :, None]).reshape(self.cells, -1)
        return means if np.ndim(values) == 2 else means[:, 0]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One name a drawn cell; empty where row and column name it."""
        if self.factor == 1:
            return self.layout.state_names[: self.cells]

        def span(index: int, count: int) -> str:
            first = index * self.factor
            return f"{first} to {min(first + self.factor, count) - 1}"

        rows = [span(i, self.layout.rows) for i in range(self.drawn.rows)]
        columns = [span(j, self.layout.columns) for j in range(self.drawn.columns)]
        return tuple(f"rows {row}, columns {column}" for row in rows for column in columns)


def forest(named: NamedRecovery) -> list[Block]:
    """Every weight and every price with its interval; nothing where no weight is known."""
    from tacit.show.plot import prices, weights

    if not np.isfinite(named.recovery.reward_weights).all() and not any(named.identified):
        return []
    figure = figure_of(weights(named.recovery))
    count = len(named.recovery.reward_weights)
    alt = f"The {count} weights of the reward, and those of the costs, each with its interval."
    pictures = [Picture(svg(figure), alt, name="weights")]
    if named.constraints:
        alt = f"The prices of {named.constraints} budgets, each with its interval."
        pictures.append(Picture(svg(figure_of(prices(named.recovery))), alt, name="prices"))
    return [Gallery(pictures)]


def map_gallery(named: NamedRecovery) -> Gallery:
    """The maps side by side; those of several costs share their colours."""
    grid = MapGrid.of(named)
    limits = limits_of([grid.pooled(cost) for cost in named.costs])
    shares, bar = 100.0 * named.time, "share of its time, in %"
    pictures = [
        value_map(grid, named.reward, "reward", colours=REWARD_MAP),
        *(
            value_map(grid, cost, named.cost_title(k), colours=COST_MAP, limits=limits)
            for k, cost in enumerate(named.costs)
        ),
        policy_map(grid, named),
        value_map(grid, shares, "visits", colours=VISIT_MAP, unit=" %", bar=bar),
    ]
    return Gallery(pictures)


def forbidden_blocks(named: NamedRecovery) -> list[Block]:
    """What is forbidden and what is undecided: a map of the states, and a table of all."""
    found = [(one, "forbidden") for one in named.recovery.forbidden]
    found += [(one, "undecided") for one in named.recovery.undecided]
    if not found:
        return []
    blocks: list[Block] = []
    suspicion = np.full(named.states, np.nan)
    for one, verdict in reversed(found):  # the least suspicious first: others overwrite it
        allowed = one.allowed if np.isfinite(one.allowed) else 0.5
        suspicion[list(one.states)] = 1.0 if verdict == "forbidden" else min(1.0 - allowed, 0.99)
    if named.layout.is_map and np.isfinite(suspicion).any():
        bar = "1 where forbidden, else the posterior chance"
        grid = MapGrid.of(named)
        picture = value_map(
            grid, suspicion, "forbidden", colours=COST_MAP, limits=(0.0, 1.0), bar=bar
        )
        blocks.append(Gallery([picture]))
    simplest = {one.name for one in named.recovery.simplest}
    ones = [one for one, _ in found[:MOST_LISTED]]
    waits = [MISSING if np.isnan(one.more) else f"{short(one.more)}" for one in ones]
    columns = [
        ("What", [one.name for one in ones]),
        ("Kind", [one.kind for one in ones]),
        ("Verdict", [verdict for _, verdict in found[:MOST_LISTED]]),
        (Column("Allowed", "posterior chance"), [short(one.allowed) for one in ones]),
        (Column("Strict", "whatever else is forbidden"), _marks(one.strict for one in ones)),
        (
            Column("Simplest", "part of the simplest explanation, which has no error rate"),
            _marks(one.name in simplest for one in ones),
        ),
        (
            Column("p-value", "if it is allowed, given what else was found"),
            [short(one.p_value) for one in ones],
        ),
        (
            Column("More", "demonstrations that would tell, about"),
            ["never" if wait == "∞" else wait for wait in waits],
        ),
        (Column("Or", "one of the two is forbidden"), [one.rival or MISSING for one in ones]),
    ]
    note = f"The {MOST_LISTED} first of {len(found)}." if len(found) > MOST_LISTED else ""
    return [*blocks, Table.of("Forbidden and undecided", columns, note, listed=True)]


def _marks(holds: Iterable[bool]) -> list[str]:
    return ["yes" if one else MISSING for one in holds]


def action_maps(named: NamedRecovery) -> Details | None:
    """How likely each action is, and what it earns and costs where that depends on it."""
    objective = named.recovery.objective
    tables_each = 1 + (objective.reward.ndim == 2) + named.constraints
    grid = MapGrid(named.layout, named.actions * tables_each)
    many = not named.layout.is_grid and named.actions > MOST_MAPPED
    if named.actions < 2 or grid.factor > 1 or not grid.has_values or many:
        return None
    tables: list[tuple[str, np.ndarray, str, tuple[float, float]]] = [
        ("chance", named.policy, VISIT_MAP, (0.0, 1.0))
    ]
    if objective.reward.ndim == 2:
        limits = limits_of([objective.reward[: grid.cells]])
        tables.append(("reward", objective.reward, REWARD_MAP, limits))
    if objective.costs.ndim == 3:
        limits = limits_of([objective.costs[:, : grid.cells]])
        tables += [
            (named.cost_title(k), objective.costs[k], COST_MAP, limits)
            for k in range(named.constraints)
            if named.identified[k]
        ]
    options = []
    for action in range(named.actions):
        of = named.action(action)
        pictures = [
            value_map(grid, table[:, action], f"{name} of {of}", colours=colours, limits=limits)
            for name, table, colours, limits in tables
        ]
        options.append(Option((action,), [Gallery(pictures)]))
    names = [named.action(a) for a in range(named.actions)]
    return Details("One action at a time", [Choice([Selector("action", names)], options)])


def value_map(
    grid: MapGrid,
    values: np.ndarray,
    title: str,
    *,
    colours: str,
    limits: tuple[float, float] | None = None,
    unit: str = "",
    bar: str = "",
) -> Picture:
    """The picture of one number [S] a state.

    Args:
        grid: where the states lie.
        values: [S]; NaN is drawn as an empty cell.
        title: what they are.
        colours: name of a sequential colour map.
        limits: values of the first and the last colour; those of the table unless given.
        unit: what follows a number.
        bar: what stands under the colour bar; the title unless given.
    """
    layout, table = grid.drawn, grid.pooled(values)
    limits = limits_of([table]) if limits is None else limits

    def draw(axes: Axes, below: Axes) -> None:
        scale = cell_scale(axes, layout, [table])
        draw_values(table, axes, layout=layout, limits=limits, scale=scale, colours=colours)
        if np.isfinite(table).any():
            ends = Scale.of([np.array(limits)])
            draw_colour_bar(below, limits=limits, scale=ends, name=bar or title, colours=colours)
        else:
            below.set_axis_off()

    digits = 3 if grid.cells <= FEW else 2
    texts = [f"{short(v, digits=digits)}{unit}" for v in table] if grid.has_values else []
    drawn = _picture(grid, title, draw, texts, _value_words(grid, table, title, unit))
    return replace(drawn, bright=colours == VISIT_MAP)


def policy_map(grid: MapGrid, named: NamedRecovery) -> Picture:
    """The picture of what is done in each cell."""
    layout, policy = grid.drawn, grid.pooled(named.policy)

    def draw(axes: Axes, below: Axes) -> None:
        whole = grid.factor == 1
        unseen = named.unseen if whole else None
        draw_policy(policy, axes, layout=layout, unseen=unseen, assumed=named.assumed)
        alike = indifferent(np.nan_to_num(policy))
        mixed = bool(((policy > LEAST_SHARE).sum(axis=1) > 1)[~alike].any())
        also = [NO_PREFERENCE] if alike.any() else []
        if unseen is not None and unseen[: grid.cells].any():
            also.append(ASSUMED if named.assumed else NEVER_VISITED)
        draw_key(below, layout, named.actions, tied=False, mixed=mixed, also=also)

    most = 3 if grid.cells <= FEW else 1
    texts = (
        [named.action_shares(chances, most=most) for chances in policy] if grid.has_values else []
    )
    counts = np.bincount(policy.argmax(axis=1), minlength=named.actions)
    common = ", ".join(
        f"{named.action(a)} in {counts[a]}" for a in np.argsort(-counts, kind="stable")[:4]
    )
    return _picture(
        grid, "policy", draw, texts, f"Map of the policy. Likeliest action: {common} cells."
    )


@styled()
def _picture(
    grid: MapGrid, title: str, draw: Callable[[Axes, Axes], None], texts: Sequence[str], alt: str
) -> Picture:
    """A map with its title, something below it, and the lattice to point at."""
    layout = grid.drawn
    width = _WIDTH - _LEFT - _RIGHT
    across, up = extent(layout)
    shape = abs(up[1] - up[0]) / (across[1] - across[0])
    height = float(np.clip(width * shape, 0.3 * width, 2.2 * width))
    figure = new_figure(_WIDTH, _TITLE + height + _BELOW)
    axes = axes_at(figure, _LEFT, _TITLE, width, height)
    below = axes_at(figure, _LEFT, _TITLE + height + 0.24, width, 0.09)
    draw(axes, below)
    axes.set_aspect("auto")
    if layout.is_grid:
        for axis, names in zip((axes.xaxis, axes.yaxis), map_names(grid.layout), strict=True):
            places = axis.get_ticklocs()
            axis.set_ticks(places, [names[grid.factor * int(place)] for place in places])
    fit_text(axes.set_title(plain(title)), axes)
    cells = []
    if texts:
        box = box_of(axes, across, (up[1], up[0]))
        size = {"rows": layout.rows, "columns": layout.columns}
        points = [] if layout.is_grid else _shares(layout)
        cells.append(Cells(title, box, **size, values=texts, names=grid.names, points=points))
    return Picture(svg(figure), alt, cells=cells, name=anchor(title))


def _shares(layout: Layout) -> list[tuple[float, float]]:
    """Where the middle of each state lies on its map, as shares from the left and from the top."""
    (left, right), (bottom, top) = extent(layout)
    return [((x - left) / (right - left), (top - y) / (top - bottom)) for x, y in layout.centres]


def _value_words(grid: MapGrid, table: np.ndarray, title: str, unit: str) -> str:
    if not np.isfinite(table).any():
        return f"Map of {title}: not identified."
    low, high = first_largest(-table), first_largest(table)
    name = grid.names.__getitem__ if grid.names else grid.drawn.state_name
    return (
        f"Map of {title}. Lowest {short(table[low])}{unit} at {name(low)}, highest "
        f"{short(table[high])}{unit} at {name(high)}."
    )
