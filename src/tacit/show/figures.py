"""Whole figures: true and recovered objectives side by side, convergence, studies, spreads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from tacit.model.objective import Objective
from tacit.model.transitions import Layout
from tacit.show.arrows import LEAST_SHARE, differs, draw_key, draw_policy
from tacit.show.canvas import (
    COST_MAP,
    MUTED,
    PAGE_WIDTH,
    REWARD_MAP,
    ROW,
    SMALL,
    TINY,
    axes_at,
    fit_text,
    legend_above,
    plain,
    row_axes,
    series_colour,
    series_mark,
    styled,
    titled_figure,
)
from tacit.show.curves import (
    Convergence,
    Curve,
    Group,
    Interval,
    draw_history,
    draw_spread,
    draw_study,
)
from tacit.show.grid import cell_scale, draw_colour_bar, draw_values, limits_of
from tacit.show.tables import by_state

MOST_ROWS = 24  # of a chart with a row each
_ROW = 0.3  # inches a group of a spread
_AXIS, _ABOVE, _HEIGHT, _UNDER = 0.52, 0.3, 1.6, 0.46  # inches about a panel of lines
_LEFT, _RIGHT, _GAP = 0.24, 0.06, 0.34  # inches
_TITLE, _BETWEEN, _BELOW = 0.24, 0.1, 0.62
_NARROWEST = 1.8  # inches a panel: a figure of many constraints grows wider than the page


@dataclass(frozen=True, eq=False)
class View:
    """One row of the figure: an objective, true or recovered, and what it makes an expert do.

    Attributes:
        name: what the titles begin with, such as "True".
        reward: [S] of each state.
        costs: [K, S] of each state.
        policy: [S, A] probabilities.
        ties: [S, A] whether an action is as good as those taken; None where nobody looked.
    """

    name: str
    reward: np.ndarray
    costs: np.ndarray
    policy: np.ndarray
    _: KW_ONLY
    ties: np.ndarray | None = None

    @classmethod
    def of(
        cls, name: str, objective: Objective, policy: ArrayLike, *, ties: np.ndarray | None = None
    ) -> View:
        """The view of an objective; what depends on the action is averaged over the policy."""
        policy = np.asarray(policy, dtype=float)
        costs = [by_state(cost, policy) for cost in objective.costs]
        return cls(
            name=name,
            reward=by_state(objective.reward, policy),
            costs=np.array(costs).reshape(-1, len(policy)),
            policy=policy,
            ties=ties,
        )


@styled()
def comparison_figure(
    layout: Layout, views: Sequence[View], *, title: str = "", cost_names: Sequence[str] = ()
) -> Figure:
    """A figure with one row a view and a column each for reward, every constraint and policy.

    A column shares its colours and its number format, so that its panels can be compared. Cells
    where a later policy acts as the first neither does nor would are marked.

    Args:
        layout: where the states lie; a grid.
        views: the truth first.
        title: a line above everything.
        cost_names: one name per constraint.
    """
    costs = [np.asarray(view.costs, dtype=float) for view in views]
    constraints = len(costs[0])
    numbered = ["cost"] if constraints == 1 else [f"cost {k + 1}" for k in range(constraints)]
    names = [plain(n) for n in cost_names] or numbered
    columns = [("reward", [view.reward for view in views], REWARD_MAP)]
    columns += [(names[k], [c[k] for c in costs], COST_MAP) for k in range(constraints)]
    figure, panels, below = _page(layout, len(views), len(columns) + 1, title)
    for column, (name, tables, colours) in enumerate(columns):
        _value_column(panels[column], below[column], layout, views, name, tables, colours)
    _policy_column(panels[-1], below[-1], layout, views)
    for column in panels:
        for axes in column:
            axes.set_aspect("auto")
            axes.tick_params(labelbottom=axes is column[-1], labelleft=column is panels[0])
    return figure


def _page(
    layout: Layout, rows: int, columns: int, title: str
) -> tuple[Figure, list[list[Axes]], list[Axes]]:
    """The figure, its panels [column][row], and the axes below each column."""
    spare = _LEFT + _RIGHT + (columns - 1) * _GAP
    width = max((PAGE_WIDTH - spare) / columns, _NARROWEST)
    # A panel is as tall as its grid asks, but never a thread: then its cells are not square.
    height = float(np.clip(width * layout.rows / layout.columns, 0.3 * width, 2.2 * width))
    down = rows * (_TITLE + height) + (rows - 1) * _BETWEEN + _BELOW
    figure, head = titled_figure(spare + columns * width, down, title)
    lefts = [_LEFT + column * (width + _GAP) for column in range(columns)]
    tops = [head + _TITLE + row * (_TITLE + height + _BETWEEN) for row in range(rows)]
    panels = [[axes_at(figure, left, top, width, height) for top in tops] for left in lefts]
    under = tops[-1] + height + 0.24
    return figure, panels, [axes_at(figure, left, under, width, 0.09) for left in lefts]


def _value_column(
    column: Sequence[Axes],
    below: Axes,
    layout: Layout,
    views: Sequence[View],
    name: str,
    tables: Sequence[np.ndarray],
    colours: str,
) -> None:
    """One quantity in every view, on one scale, with its colour bar."""
    limits, scale = limits_of(tables), cell_scale(column[0], layout, tables)
    for axes, view, table in zip(column, views, tables, strict=True):
        draw_values(table, axes, layout=layout, limits=limits, scale=scale, colours=colours)
        fit_text(axes.set_title(f"{plain(view.name)} {name}"), axes)
    if not any(np.isfinite(table).any() for table in tables):
        below.set_axis_off()
        return
    draw_colour_bar(below, limits=limits, scale=scale, name=name, colours=colours)


def _policy_column(
    column: Sequence[Axes], below: Axes, layout: Layout, views: Sequence[View]
) -> None:
    """The policies, the cells where a later one departs from the first, and the key."""
    cells = layout.rows * layout.columns
    tied = mixed = marked = False
    for row, (axes, view) in enumerate(zip(column, views, strict=True)):
        wrong = differs(view.policy, views[0].policy, views[0].ties)[:cells]
        draw_policy(view.policy, axes, layout=layout, ties=view.ties, marked=wrong)
        axes.set_title(f"{plain(view.name)} policy")
        if row:
            agree = f"{cells - int(wrong.sum())} of {cells} agree"
            axes.set_title(agree, loc="right", size=TINY, color=MUTED, weight="normal")
        taken = np.asarray(view.policy, dtype=float)[:cells] > LEAST_SHARE
        tied |= view.ties is not None and bool((np.asarray(view.ties)[:cells] & ~taken).any())
        mixed |= bool((taken.sum(axis=1) > 1).any())
        marked |= bool(wrong.any())
    first = plain(views[0].name).lower() if marked else ""
    actions = np.asarray(views[0].policy).shape[1]
    draw_key(below, layout, actions, tied=tied, mixed=mixed, first=first)


@styled()
def convergence_figure(run: Convergence, *, title: str = "") -> Figure:
    """A figure of three panels: feature gap with its noise, weight change, multipliers."""
    prices = np.asarray(run.multipliers, dtype=float)
    prices = prices.reshape(len(prices), -1)
    names = [str(k + 1) for k in range(prices.shape[1])] if prices.shape[1] > 1 else []
    titles = ["feature gap", "change of the weights", "multipliers" if names else "multiplier"]
    figure, (gap, change, price) = panel_row(titles, title=title, names=names)
    draw = partial(draw_history, best=run.best)
    draw(run.feature_gap, gap, levels=run.noise, level_name="sampling noise")
    draw(run.weight_change, change, levels=run.tolerance, level_name="tolerance")
    true = {"levels": run.true_multipliers, "level_name": "true"}
    draw(prices, price, names=names, **true, logarithmic=False)
    return figure


@styled()
def study_figure(
    studies: Sequence[tuple[str, Sequence[Curve], float | None]],
    *,
    positions_name: str,
    title: str = "",
    logarithmic: bool = False,
) -> Figure:
    """A figure with one panel per measure: (its name, its curves, what knowing nothing achieves).

    Args:
        studies: one measure each.
        positions_name: what the positions count.
        title: a line above everything.
        logarithmic: whether the axes of the measures are.
    """
    ends = {curve.name for _, curves, _ in studies for curve in curves} | {"random weights"}
    figure, panels = panel_row([name for name, _, _ in studies], title=title, names=ends, across=2)
    for axes, (_, curves, null) in zip(panels, studies, strict=True):
        draw_study(curves, axes, null=null, positions_name=positions_name, logarithmic=logarithmic)
    return figure


def panel_row(
    titles: Sequence[str], *, title: str = "", names: Iterable[str] = (), across: int = 3
) -> tuple[Figure, list[Axes]]:
    """A figure of the page's width and its panels, with room for the names of lines beside them.

    Args:
        titles: one per panel.
        title: a line above everything.
        names: what will be written at the ends of lines.
        across: panels side by side.
    """
    across = min(len(titles), across)
    down = -(-len(titles) // across)
    cell = PAGE_WIDTH / across
    # 0.62 em a letter is generous, for the widest common font as well.
    room = 0.1 + max((len(name) for name in names), default=0) * 0.62 * SMALL / 72.0
    block = _ABOVE + _HEIGHT + _UNDER
    figure, head = titled_figure(PAGE_WIDTH, down * block, title)
    width = max(cell - _AXIS - room, 0.3 * cell)
    panels = []
    for index, name in enumerate(titles):
        row, column = divmod(index, across)
        axes = axes_at(figure, column * cell + _AXIS, head + row * block + _ABOVE, width, _HEIGHT)
        # It starts where the numbers do.
        axes.set_title(plain(name), x=(0.1 - _AXIS) / width)
        panels.append(axes)
    return figure, panels


@styled()
def spread_figure(
    measures: Sequence[tuple[str, Sequence[Group]]], *, title: str = "", logarithmic: bool = False
) -> Figure:
    """A figure with a panel per measure, (its name, its groups); all have the same groups.

    Args:
        measures: one panel each, side by side, three a row.
        title: a line above everything.
        logarithmic: whether the axes of the measures are.
    """
    rows = max(len(groups) for _, groups in measures)
    across = min(3, len(measures))
    down = -(-len(measures) // across)
    names, gap = 1.25, 0.22
    width = (PAGE_WIDTH - names - 0.12 - (across - 1) * gap) / across
    block = 0.3 + rows * _ROW + 0.28
    figure, head = titled_figure(PAGE_WIDTH, down * block, title)
    for index, (name, groups) in enumerate(measures):
        row, column = divmod(index, across)
        left, top = names + column * (width + gap), head + row * block + 0.3
        axes = axes_at(figure, left, top, width, rows * _ROW)
        draw_spread(groups, axes, logarithmic=logarithmic)
        axes.tick_params(labelleft=column == 0)
        fit_text(axes.set_title(plain(name)), axes)
    return figure


@styled()
def draw_beside(rows: Mapping[str, Sequence[Interval]], axes: Axes | None, label: str) -> Axes:
    """The axes, with intervals of the same name in one row, a mark for each that has it.

    Args:
        rows: who -> its intervals; what only some have stands for those alone.
        axes: what to draw on; a new figure unless given.
        label: of the numbers.
    """
    features = list(dict.fromkeys(row.name for each in rows.values() for row in each))
    if len(features) > MOST_ROWS:
        label += f" ({MOST_ROWS} of {len(features)})"
    features = features[:MOST_ROWS]
    axes = row_axes(axes, len(features), features, each=max(ROW, 0.11 * len(rows)))
    every = [(row.estimate, row.low, row.high) for each in rows.values() for row in each]
    low, high = limits_of([np.array([*every, (0.0, 0.0, 0.0)])])
    far = high - low  # what has no end leaves the picture
    for k, (name, each) in enumerate(rows.items()):
        found = {row.name: row for row in each}
        shift = 0.6 * ((k + 0.5) / len(rows) - 0.5)
        places = [i for i, feature in enumerate(features) if feature in found]
        kept = [found[features[i]] for i in places]
        middle = np.array([row.estimate for row in kept])
        ends = np.array([[row.low, row.high] for row in kept]).reshape(-1, 2).T
        errors = np.nan_to_num(np.abs(np.clip(ends, low - far, high + far) - middle))
        look = {"color": series_colour(k), "marker": series_mark(k), "ms": 4, "capsize": 0}
        axes.errorbar(
            middle, np.array(places) + shift, xerr=errors, ls="", label=plain(name), **look
        )
    axes.axvline(0.0, color=MUTED, lw=0.7)
    axes.legend(**legend_above(len(rows)))
    axes.set(xlabel=label, xlim=(low - 0.05 * far, high + 0.05 * far))
    return axes
