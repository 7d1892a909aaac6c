"""Figures of studies: truth and recovery side by side, convergence, errors, repetitions.

Drawn on axes with the public tools of `tacit.pages`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from tacit import Objective, pages, worlds

_BESIDE = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
HEAD = 0.28  # inches that a headline takes
_ROW = 0.3  # inches a group of a spread
_AXIS, _ABOVE, _HEIGHT, _UNDER = 0.52, 0.3, 1.6, 0.46  # inches about a panel of lines
_LEFT, _RIGHT, _GAP = 0.24, 0.06, 0.34  # inches
_TITLE, _BETWEEN, _BELOW = 0.24, 0.1, 0.62
_NARROWEST = 1.8  # inches a panel: a figure of many constraints grows wider than the page


@dataclass(frozen=True, eq=False)
class ObjectiveView:
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
    ) -> ObjectiveView:
        """The view of an objective; what depends on the action is averaged over the policy."""
        policy = np.asarray(policy, dtype=float)
        costs = [pages.by_state(cost, policy) for cost in objective.costs]
        return cls(
            name=name,
            reward=pages.by_state(objective.reward, policy),
            costs=np.array(costs).reshape(-1, len(policy)),
            policy=policy,
            ties=ties,
        )


@dataclass(frozen=True, eq=False)
class SampleCurve:
    """A line of measurements, several at each position.

    Attributes:
        name: what stands at its end.
        positions: [N] where it was measured.
        samples: [N, M] what was measured there in M repetitions; NaN where one is missing.
    """

    name: str
    positions: Sequence[float]
    samples: ArrayLike

    def quartiles(self) -> np.ndarray:
        """[3, N] lower quartile, median and upper quartile of the samples at each position."""
        samples = np.asarray(self.samples, dtype=float)
        rows = [row[np.isfinite(row)] for row in samples.reshape(len(samples), -1)]
        return np.array(
            [np.percentile(row, (25, 50, 75)) if row.size else (np.nan,) * 3 for row in rows]
        ).T


@dataclass(frozen=True, eq=False)
class Convergence:
    """What an estimator saw on its way.

    Attributes:
        feature_gap: [N] distance of the feature expectations after each iteration.
        weight_change: [N] how far the weights moved.
        multipliers: [N, K] price of each budget.
        noise: the feature gap that sampling alone would leave; None where nobody estimated it.
        tolerance: the weight change at which the estimator stops; None where it has none.
        true_multipliers: [K] what the prices should become; None where there is no truth.
        best: the iteration whose weights were kept; None for the last one.
    """

    feature_gap: ArrayLike
    weight_change: ArrayLike
    multipliers: ArrayLike
    _: KW_ONLY
    noise: float | None = None
    tolerance: float | None = None
    true_multipliers: ArrayLike | None = None
    best: int | None = None


@dataclass(frozen=True, eq=False)
class Group:
    """The repetitions of one way of doing it.

    Attributes:
        name: of the way.
        samples: [M] one number per repetition; NaN where it gave none.
        null: whether it is the baseline that knows nothing, drawn in grey.
    """

    name: str
    samples: ArrayLike
    null: bool = False


@pages.styled()
def comparison_figure(
    layout: worlds.Layout,
    views: Sequence[ObjectiveView],
    *,
    title: str = "",
    cost_names: Sequence[str] = (),
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
    names = [pages.plain(n) for n in cost_names] or numbered
    columns = [("reward", [view.reward for view in views], pages.REWARD_MAP)]
    columns += [(names[k], [c[k] for c in costs], pages.COST_MAP) for k in range(constraints)]
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
    layout: worlds.Layout, rows: int, columns: int, title: str
) -> tuple[Figure, list[list[Axes]], list[Axes]]:
    """The figure, its panels [column][row], and the axes below each column."""
    spare = _LEFT + _RIGHT + (columns - 1) * _GAP
    width = max((pages.PAGE_WIDTH - spare) / columns, _NARROWEST)
    # A panel is as tall as its grid asks, but never a thread: then its cells are not square.
    height = float(np.clip(width * layout.rows / layout.columns, 0.3 * width, 2.2 * width))
    down = rows * (_TITLE + height) + (rows - 1) * _BETWEEN + _BELOW
    figure, head = titled_figure(spare + columns * width, down, title)
    lefts = [_LEFT + column * (width + _GAP) for column in range(columns)]
    tops = [head + _TITLE + row * (_TITLE + height + _BETWEEN) for row in range(rows)]
    panels = [[pages.axes_at(figure, left, top, width, height) for top in tops] for left in lefts]
    under = tops[-1] + height + 0.24
    return figure, panels, [pages.axes_at(figure, left, under, width, 0.09) for left in lefts]


def _value_column(
    column: Sequence[Axes],
    below: Axes,
    layout: worlds.Layout,
    views: Sequence[ObjectiveView],
    name: str,
    tables: Sequence[np.ndarray],
    colours: str,
) -> None:
    """One quantity in every view, on one scale, with its colour bar."""
    limits, scale = pages.limits_of(tables), pages.cell_scale(column[0], layout, tables)
    for axes, view, table in zip(column, views, tables, strict=True):
        pages.draw_values(table, axes, layout=layout, limits=limits, scale=scale, colours=colours)
        pages.fit_text(axes.set_title(f"{pages.plain(view.name)} {name}"), axes)
    if not any(np.isfinite(table).any() for table in tables):
        below.set_axis_off()
        return
    pages.draw_colour_bar(below, limits=limits, scale=scale, name=name, colours=colours)


def _policy_column(
    column: Sequence[Axes], below: Axes, layout: worlds.Layout, views: Sequence[ObjectiveView]
) -> None:
    """The policies, the cells where a later one departs from the first, and the key."""
    cells = layout.rows * layout.columns
    first = pages.plain(views[0].name).lower()
    for row, (axes, view) in enumerate(zip(column, views, strict=True)):
        wrong = differs(view.policy, views[0].policy, views[0].ties)[:cells]
        told = {"ties": view.ties, "marked": wrong, "reference": first}
        pages.draw_policy(view.policy, axes, layout=layout, **told)
        axes.set_title(f"{pages.plain(view.name)} policy")
        if row:
            agree = f"{cells - int(wrong.sum())} of {cells} agree"
            axes.set_title(agree, loc="right", size=pages.TINY, color=pages.MUTED, weight="normal")
    pages.draw_key(below, column)


def differs(policy: ArrayLike, reference: ArrayLike, ties: ArrayLike | None = None) -> np.ndarray:
    """[S] whether two policies overlap in less than half of their probability.

    What a policy does counts as the same where the reference finds the action as good.
    """
    policy, reference = np.asarray(policy, dtype=float), np.asarray(reference, dtype=float)
    overlap = np.minimum(policy, reference).sum(axis=1)
    if ties is not None:
        overlap = np.maximum(overlap, (policy * np.asarray(ties, bool)).sum(axis=1))
    return overlap < 0.5


def titled_figure(width: float, height: float, title: str) -> tuple[Figure, float]:
    """(an empty figure of that room below its title, inches that the title takes)."""
    head = HEAD if title else 0.0
    figure = pages.new_figure(width, head + height)
    if title:
        place = (0.1 / width, 1 - 0.08 / (head + height))
        with pages.styled():
            figure.text(*place, pages.plain(title), va="top", size=pages.TEXT + 1)
    return figure, head


@pages.styled()
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


@pages.styled()
def study_figure(
    studies: Sequence[tuple[str, Sequence[SampleCurve], float | None]],
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
    cell = pages.PAGE_WIDTH / across
    # 0.62 em a letter is generous, for the widest common font as well.
    room = 0.1 + max((len(name) for name in names), default=0) * 0.62 * pages.SMALL / 72.0
    block = _ABOVE + _HEIGHT + _UNDER
    figure, head = titled_figure(pages.PAGE_WIDTH, down * block, title)
    width = max(cell - _AXIS - room, 0.3 * cell)
    panels = []
    for index, name in enumerate(titles):
        row, column = divmod(index, across)
        axes = pages.axes_at(
            figure, column * cell + _AXIS, head + row * block + _ABOVE, width, _HEIGHT
        )
        # It starts where the numbers do.
        axes.set_title(pages.plain(name), x=(0.1 - _AXIS) / width)
        panels.append(axes)
    return figure, panels


@pages.styled()
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
    width = (pages.PAGE_WIDTH - names - 0.12 - (across - 1) * gap) / across
    block = 0.3 + rows * _ROW + 0.28
    figure, head = titled_figure(pages.PAGE_WIDTH, down * block, title)
    for index, (name, groups) in enumerate(measures):
        row, column = divmod(index, across)
        left, top = names + column * (width + gap), head + row * block + 0.3
        axes = pages.axes_at(figure, left, top, width, rows * _ROW)
        draw_spread(groups, axes, logarithmic=logarithmic)
        axes.tick_params(labelleft=column == 0)
        pages.fit_text(axes.set_title(pages.plain(name)), axes)
    return figure


@pages.styled()
def draw_history(
    values: ArrayLike,
    axes: Axes,
    *,
    names: Sequence[str] = (),
    levels: ArrayLike | None = None,
    level_name: str = "",
    best: int | None = None,
    logarithmic: bool = True,
) -> Axes:
    """The axes, with one line over the iterations for each column of the values [N] or [N, K].

    Args:
        values: [N] or [N, K]; on a logarithmic axis, what is not positive is left out.
        axes: what to draw on.
        names: one name per column, written at the end of its line.
        levels: what the lines are judged by, dashed: one number, or one for each column.
        level_name: what stands on them.
        best: the iteration to mark.
        logarithmic: whether the axis of the values is.
    """
    table = np.asarray(values, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    steps = np.arange(1, len(table) + 1)
    logarithmic = logarithmic and bool((table > 0).any())
    shown = np.where(table > 0, table, np.nan) if logarithmic else table
    if logarithmic:
        axes.set_yscale("log")
    for k, column in enumerate(shown.T):
        # One point makes no line.
        mark = pages.series_mark(k) if np.isfinite(column).sum() < 2 else ""
        colour = pages.series_colour(k)
        axes.plot(steps, column, color=colour, ls=pages.series_dash(k), lw=1.3, marker=mark, ms=4)
        if best is not None and 0 <= best < len(column):
            look = {"ls": "", "marker": "o", "ms": 5, "mfc": pages.PAPER, "mec": colour}
            axes.plot(steps[best], column[best], **look)
    if not logarithmic:
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), axes.get_ylim()[1] if table.any() else 1.0)
    judges = np.zeros(0) if levels is None else np.ravel(levels)
    for k, level in enumerate(judges):
        colour = pages.readable(pages.series_colour(k)) if len(judges) > 1 else pages.INK
        pages.draw_level(axes, float(level), level_name, colour)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlim(0, max(2, len(steps)))
    axes.set_xlabel("iteration" if best is None else "iteration (○ kept)")
    pages.tidy_values(axes)
    if names:
        name_ends(axes, zip(shown.T, names, strict=True))
    return axes


@pages.styled()
def draw_study(
    curves: Sequence[SampleCurve],
    axes: Axes,
    *,
    null: float | None = None,
    null_name: str = "random weights",
    positions_name: str = "",
    logarithmic: bool = False,
) -> Axes:
    """The axes, with the median of each curve, a band from quartile to quartile, and its name.

    Args:
        curves: what was measured.
        axes: what to draw on.
        null: what knowing nothing achieves, a dashed line.
        null_name: what stands at its end.
        positions_name: what the positions count.
        logarithmic: whether the axis of the values is; that of the positions always is.
    """
    axes.set_xscale("log")
    if logarithmic:
        axes.set_yscale("log")
    for k, curve in enumerate(curves):
        colour = pages.series_colour(k)
        low, middle, high = curve.quartiles()
        axes.fill_between(curve.positions, low, high, color=colour, alpha=0.16, linewidth=0)
        look = {"ls": pages.series_dash(k), "lw": 1.4, "marker": pages.series_mark(k), "ms": 4}
        axes.plot(curve.positions, middle, color=colour, label=pages.plain(curve.name), **look)
    measured = sorted({float(x) for curve in curves for x in curve.positions})
    axes.set_xlim(measured[0] / 1.12, measured[-1] * 1.12)
    axes.xaxis.set_major_locator(FixedLocator(legible_ticks(measured, axes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.set_xlabel(pages.plain(positions_name))
    if not logarithmic:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    pages.draw_level(axes, null, "", pages.INK)
    pages.tidy_values(axes)
    medians = [(curve.quartiles()[1], curve.name) for curve in curves]
    more = [] if null is None else [(null, null_name)]
    name_ends(axes, medians, levels=more)
    return axes


def name_ends(
    axes: Axes, lines: Iterable[tuple[np.ndarray, str]], *, levels: Sequence[tuple[float, str]] = ()
) -> None:
    """The names at the right ends of lines, moved apart where they would meet.

    Args:
        axes: on which they are drawn, in their final limits.
        lines: (values [N], name) of each, in the order of their colours.
        levels: (value, name) of dashed lines, in ink.
    """
    ends = [
        (float(values[np.isfinite(values)][-1]), name, pages.readable(pages.series_colour(k)))
        for k, (values, name) in enumerate(lines)
        if np.isfinite(values).any()
    ]
    ends += [(value, name, pages.INK) for value, name in levels if np.isfinite(value)]
    if not ends:
        return
    heights = axes.transData.transform([(1.0, value) for value, _, _ in ends])[:, 1]
    figure = pages.figure_of(axes)
    point = figure.dpi / 72.0
    places = separate([float(height) for height in heights], 1.25 * pages.SMALL * point)
    for (value, name, colour), height, place in zip(ends, heights, places, strict=True):
        look = {"ha": "left", "va": "center", "size": pages.SMALL, "color": colour}
        shift = (4, (place - height) / point)
        axes.annotate(
            pages.plain(name), (1, value), xytext=shift, annotation_clip=False, **_BESIDE, **look
        )


def separate(wanted: Sequence[float], spacing: float) -> list[float]:
    """Positions as near to the wanted ones as they can be (least squares), `spacing` apart.

    Neighbours in the wanted order stay neighbours. Subtracting i * spacing turns it into an
    isotonic regression.
    """
    from scipy.optimize import isotonic_regression

    order, steps = np.argsort(wanted, kind="stable"), spacing * np.arange(len(wanted))
    placed = np.empty(len(order))
    placed[order] = isotonic_regression(np.asarray(wanted)[order] - steps).x + steps
    return placed.tolist()


def legible_ticks(positions: Sequence[float], axes: Axes) -> list[float]:
    """Those positions whose numbers do not touch on a logarithmic axis, the last one always."""
    figure = pages.figure_of(axes)
    width = axes.get_position().width * figure.get_figwidth() * 72.0
    reach = np.log(positions[-1] / positions[0]) or 1.0
    kept: list[float] = []
    for position in reversed(positions):
        # Half of either number, and a space between them.
        gap = np.log(kept[-1] / position) / reach * width if kept else np.inf
        letters = (len(f"{position:.0f}") + len(f"{kept[-1]:.0f}")) / 2 if kept else 0
        if gap >= (letters + 1.6) * 0.64 * pages.SMALL:
            kept.append(position)
    return kept[::-1]


@pages.styled()
def draw_spread(groups: Sequence[Group], axes: Axes, *, logarithmic: bool = False) -> Axes:
    """The axes, with a row per group: a dot per repetition, the middle half as a box, the median.

    Args:
        groups: from top to bottom.
        axes: what to draw on.
        logarithmic: whether the axis is; what is not positive is then left out.
    """
    if logarithmic:
        axes.set_xscale("log")
    coloured, negative = 0, False
    for row, group in enumerate(groups):
        colour, mark = (
            (pages.MUTED, "|")
            if group.null
            else (pages.series_colour(coloured), pages.series_mark(coloured))
        )
        coloured += not group.null
        samples = np.asarray(group.samples, dtype=float).ravel()
        kept = np.sort(samples[np.isfinite(samples) & ((samples > 0) | (not logarithmic))])
        if not kept.size:
            look = {"va": "center", "size": pages.TINY, "style": "italic", "color": pages.MUTED}
            axes.text(0.02, row, "no number", transform=axes.get_yaxis_transform(), **look)
            continue
        negative |= kept[0] < 0
        low, middle, high = np.percentile(kept, (25, 50, 75))
        axes.add_patch(
            Rectangle((low, row - 0.26), high - low, 0.52, facecolor=colour, alpha=0.18, lw=0)
        )
        # Neighbours of the same size alternate above and below, so that none is hidden.
        shift = np.array([0.0, 0.13, -0.13])[np.arange(kept.size) % 3]
        axes.plot(kept, row + shift, ls="", marker=mark, ms=4, mfc="none", mec=colour, mew=0.9)
        axes.plot([middle, middle], [row - 0.32, row + 0.32], color=pages.readable(colour), lw=2.2)
    axes.set_yticks(range(len(groups)), [pages.plain(group.name) for group in groups])
    if not logarithmic and axes.get_xlim()[0] < 0.3 * axes.get_xlim()[1]:
        # Distances are read from zero; what is negative keeps its place.
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]) if negative else 0.0)
    for label, group in zip(axes.get_yticklabels(), groups, strict=True):
        label.set_fontstyle("italic" if group.null else "normal")
    pages.tidy_rows(axes, len(groups))
    return axes
