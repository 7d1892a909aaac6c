"""Pictures of a recovery by one call each, on axes of yours or on new ones.

Every function gives the axes it drew on, so that titles and limits can be changed afterwards:

    axes = tacit.plot.weights(recovery)
    axes.figure.savefig("weights.pdf")

States are drawn where they lie if a `layout` says so (that of a world or of a run), and as sorted
bars if not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.errors import InvalidModel
from tacit.model.layout import Layout
from tacit.search.algebra import largest_first
from tacit.show.arrows import draw_policy
from tacit.show.canvas import (
    COLUMN,
    COST_MAP,
    INK,
    MUTED,
    REWARD_MAP,
    ROW,
    VISIT_MAP,
    axes_at,
    figure_of,
    legend_above,
    new_figure,
    plain,
    row_axes,
    series_colour,
    styled,
)
from tacit.show.grid import draw_values, extent
from tacit.show.intervals import MOST_ROWS, Interval, draw_beside, tidy_values
from tacit.show.quantities import NamedRecovery

if TYPE_CHECKING:
    from tacit.checks.prices import PriceCurve
    from tacit.folders.runs import Run
    from tacit.inverse.recovery import Recovery
from tacit.inverse.standardised import in_one_unit, shown

__all__ = [
    "compare", "explanation", "flows", "map", "overview", "policy", "price_curve", "prices",
    "residuals", "several", "weights",
]  # fmt: skip

Panel = tuple[Callable[..., Axes], float]  # what draws on given axes, and their height in inches
WEIGHTS, PRICES = "weight, of sum 1 in each group", "price of one more unit of the budget"


def weights(recovery: Recovery, axes: Axes | None = None, *, raw_units: bool = False) -> Axes:
    """The axes, with every weight and its interval: what is wanted, then what is refused.

    Args:
        recovery: what was recovered.
        axes: what to draw on; a new figure unless given.
        raw_units: draw the weights of the features as given, and not of standardised ones.
    """
    return draw_beside({"": _named(recovery, raw_units=raw_units).weight_rows}, axes, WEIGHTS)


def prices(recovery: Recovery, axes: Axes | None = None, *, raw_units: bool = False) -> Axes:
    """The axes, with the price of every budget and its interval; one not held back is at 0.

    Units as in `weights`.
    """
    return draw_beside({"": _named(recovery, raw_units=raw_units).price_rows}, axes, PRICES)


def explanation(recovery: Recovery, axes: Axes | None = None) -> Axes:
    """The axes, with how much of its possible range each number keeps: the shorter, the clearer.

    For an optimal demonstrator these are all numbers that some explanation has, and not a matter of
    chance; for a noisy one they are confidence intervals.
    """
    named = _named(recovery)
    known, budgets = named.recovery.identification, named.recovery.budgets
    rows = [*named.weight_rows]
    for k, ends in enumerate(known.budget_intervals):
        rows.append(Interval(f"budget: {named.constraint(k)}", float(budgets[k]), *ends))
    label = f"{named.confidence} interval"
    if named.whole_set:
        label = "every explanation of what was seen"
    return draw_beside({"": rows}, axes, label)


@styled()
def map(  # noqa: A001
    recovery: Recovery,
    what: str | int = "reward",
    axes: Axes | None = None,
    *,
    layout: Layout | None = None,
) -> Axes:
    """The axes, with a number for each state as the colour of its cell, or as bars.

    Args:
        recovery: what was recovered.
        what: "reward", "visits" (share of time, in %), or the number of a constraint: its cost.
        axes: what to draw on; a new figure unless given.
        layout: where the states lie.
    """
    named = _named(recovery, layout)
    if isinstance(what, int) and not isinstance(what, bool):
        if not 0 <= what < named.constraints:
            raise InvalidModel(
                f"what must be 'reward', 'visits' or a constraint below {named.constraints}; "
                f"got {what}"
            )
        values, colours, title = named.costs[what], COST_MAP, named.cost_title(what)
    elif what in ("reward", "visits"):
        values = named.reward if what == "reward" else 100.0 * named.time
        colours = REWARD_MAP if what == "reward" else VISIT_MAP
        title = "reward" if what == "reward" else "share of its time, in %"
    else:
        raise InvalidModel(f"what must be 'reward', 'visits' or a constraint; got {what!r}")
    if named.layout.is_map:
        axes = _panel(named, axes)
        draw_values(values, axes, layout=named.layout, colours=colours)
        axes.set_title(plain(title))
        return axes
    return _bars(named, values, axes, title)


@styled()
def policy(recovery: Recovery, axes: Axes | None = None, *, layout: Layout | None = None) -> Axes:
    """The axes, with what is done in each state: arrows as long as they are likely, or bars.

    A ring is a state without a preference; hatching, one where no demonstration was.
    """
    named = _named(recovery, layout)
    if named.layout.is_map:
        axes = _panel(named, axes)
        hatched = {"unseen": named.unseen, "assumed": named.assumed}
        draw_policy(named.policy, axes, layout=named.layout, **hatched)
        axes.set_title("policy")
        return axes
    order = largest_first(named.time)[:MOST_ROWS]
    axes = row_axes(axes, len(order), [named.state(s) for s in order])
    begun = np.zeros(len(order))
    for a in range(named.actions):
        look = {"left": begun, "color": series_colour(a), "height": 0.7, "label": named.action(a)}
        axes.barh(range(len(order)), named.policy[order, a], **look)
        begun = begun + named.policy[order, a]
    axes.legend(**legend_above(named.actions))
    axes.set_xlim(0, 1)
    axes.set_xlabel("chance of each action")
    return axes


@styled()
def flows(recovery: Recovery, axes: Axes | None = None, *, layout: Layout) -> Axes:
    """The axes, with how often each move is made: lines as wide as the flow over them.

    Args:
        recovery: what was recovered.
        axes: what to draw on; a new figure unless given.
        layout: where the states lie and where the actions point.
    """
    named = _named(recovery, layout)
    if not (named.layout.is_grid and named.layout.directions):
        raise InvalidModel("flows needs a grid whose actions point somewhere: layout.directions")
    axes = _panel(named, axes)
    time = 100.0 * named.time
    light = (0.0, 2.5 * float(time.max(initial=0.0)) or 1.0)  # lines must be seen on it
    draw_values(time, axes, layout=layout, colours=VISIT_MAP, limits=light)
    for text in list(axes.texts):
        text.remove()
    cells = layout.rows * layout.columns
    flow = np.asarray(recovery.solution.visitation, dtype=float)[:cells]
    widest = flow.max(initial=0.0) or 1.0
    for s, a in zip(*np.nonzero(flow > 0.002 * widest), strict=True):
        row, column = divmod(int(s), layout.columns)
        down, right = layout.directions[a]
        inside = 0 <= row + down < layout.rows and 0 <= column + right < layout.columns
        if inside and (down or right):
            # Two ways between the same cells lie beside each other, as traffic does.
            x, y = column - 0.1 * down, row + 0.1 * right
            ends = [x, x + 0.92 * right], [y, y + 0.92 * down]
            axes.plot(*ends, color=INK, lw=6.0 * flow[s, a] / widest, solid_capstyle="butt")
    axes.set_title("flows")
    return axes


@styled()
def residuals(
    recovery: Recovery, axes: Axes | None = None, *, layout: Layout | None = None
) -> Axes:
    """The axes, with the state-action pairs at which the model fails most, the worst on top.

    A bar to the right was done more often than the model says, one to the left less often; beyond
    the dashed lines at 2 it is seldom chance.
    """
    named, table = _named(recovery, layout), recovery.goodness.residuals
    if not np.isfinite(table).any():
        reason = recovery.goodness.absence or "no residuals are known"
        raise InvalidModel(f"residuals needs a recovery whose fit was tested; {reason}")
    order = largest_first(np.abs(np.nan_to_num(table)))[: MOST_ROWS // 2]
    pairs = [divmod(int(at), table.shape[1]) for at in order]
    names = [f"{named.state(s)}: {named.action(a)}" for s, a in pairs]
    axes = row_axes(axes, len(pairs), names)
    values = [float(np.nan_to_num(table[s, a])) for s, a in pairs]
    axes.barh(range(len(pairs)), values, color=series_colour(0), height=0.7)
    for level in (-2.0, 2.0):
        axes.axvline(level, color=MUTED, lw=0.8, ls=(0, (4, 3)))
    axes.set_xlabel("(seen - expected) / its standard deviation")
    return axes


@styled()
def price_curve(curve: PriceCurve, axes: Axes | None = None) -> Axes:
    """The axes, with the price of a budget against the budget; made by `checks.price_curve`."""
    axes = axes_at(new_figure(COLUMN, 2.4), 0.6, 0.2, COLUMN - 0.75, 1.7) if axes is None else axes
    axes.plot(curve.budgets, curve.multipliers, color=series_colour(0), lw=1.4, marker="o", ms=3)
    axes.set_xlabel(f"budget of constraint {curve.constraint}")
    axes.set_ylabel("price of one more unit")
    axes.set_ylim(bottom=0.0)
    tidy_values(axes)
    return axes


@styled()
def compare(
    recoveries: Mapping[str, Recovery], axes: Axes | None = None, *, raw_units: bool = False
) -> Axes:
    """The axes, with the weights of several recoveries beside each other, a mark for each.

    Args:
        recoveries: name -> recovery; features that only some have stand for those alone.
        axes: what to draw on; a new figure unless given.
        raw_units: as in `weights`.
    """
    if len(recoveries) < 2:
        raise InvalidModel(f"compare needs at least two recoveries; got {len(recoveries)}")
    each = in_one_unit(recoveries, raw_units=raw_units)
    rows = {name: _named(one).weight_rows for name, one in each.items()}
    return draw_beside(rows, axes, WEIGHTS)


def several(
    recoveries: Mapping[str, Recovery], shares: Sequence[tuple[str, float, float, float]] = ()
) -> Figure:
    """One figure of several recoveries: weights and prices compared.

    Args:
        recoveries: name -> recovery.
        shares: (name, share, its lower and upper end) of each, where they have shares.
    """
    named = {who: _named(one) for who, one in recoveries.items()}
    panels = {
        "share of the trajectories": {"": [Interval(*one) for one in shares]},
        # A lone weight is 1 by the gauge: there is nothing to compare.
        WEIGHTS: {
            who: [row for group in one.weights if len(group.names) > 1 for row in group.rows]
            for who, one in named.items()
        },
        PRICES: {who: one.price_rows for who, one in named.items()},
    }
    names, drawn = [""], list[Panel]()
    for label, each in panels.items():
        if found := {row.name for rows in each.values() for row in rows}:
            names += found
            height = min(MOST_ROWS, len(found)) * max(ROW, 0.11 * len(each))
            drawn.append((partial(draw_beside, each, label=label), max(0.5, height)))
    if not drawn:
        raise InvalidModel("nothing here was identified, so there is nothing to draw")
    left = float(np.clip(0.075 * max(len(name) for name in names) + 0.15, 0.5, 2.2))
    figure = new_figure(max(COLUMN, left + 2.5), sum(height + 0.95 for _, height in drawn))
    _stack(figure, drawn, left, 0.4, 0.95)
    return figure


def overview(recovery: Recovery, *, layout: Layout | None = None) -> Figure:
    """One figure of everything: weights, prices and, on a grid, reward and policy."""
    named = _named(recovery, layout)
    drawn: list[Panel] = []
    rows = min(MOST_ROWS, len(named.weight_rows))
    if rows:
        drawn.append((partial(weights, recovery), 0.2 + ROW * max(rows, 4)))
    elif recovery.solution is not None:  # an answer without weights is a policy
        states = min(MOST_ROWS, named.states)
        drawn.append((partial(policy, recovery), 0.2 + ROW * max(states, 4)))
    if named.constraints:
        drawn.append((partial(prices, recovery), 0.2 + ROW * max(named.constraints, 2)))
    maps = (map, policy) if named.layout.is_map else ()
    wide = 2 * COLUMN if maps else COLUMN
    square = 0.5 * (wide - 0.9)
    tall = sum(height + 0.7 for _, height in drawn)
    figure = new_figure(wide, tall + (square + 0.5 if maps else 0.0))
    top = _stack(figure, drawn, 1.5, 0.25, 0.7)
    for k, draw in enumerate(maps):
        axes = axes_at(figure, 0.4 + k * (square + 0.3), top + 0.1, square, square)
        draw(recovery, axes=axes, layout=layout).set_aspect("auto")
    return figure


# ------------------------------------------------------------------------------- parts


def _named(
    recovery: Recovery, layout: Layout | None = None, *, raw_units: bool = False
) -> NamedRecovery:
    if not hasattr(recovery, "reward_weights"):
        raise InvalidModel(f"a Recovery must be given; got {type(recovery).__name__}")
    recovery = shown(recovery, raw_units=raw_units)
    return NamedRecovery(recovery, Layout() if layout is None else layout)


def _stack(figure: Figure, drawn: Sequence[Panel], left: float, top: float, apart: float) -> float:
    """Draws panels under each other, from the top on; where they end, in inches."""
    for draw, height in drawn:
        draw(axes=axes_at(figure, left, top, figure.get_figwidth() - left - 0.2, height))
        top += height + apart
    return top


@styled()
def _panel(named: NamedRecovery, axes: Axes | None) -> Axes:
    """Axes with the shape of the grid."""
    if axes is not None:
        return axes
    width = COLUMN - 0.4
    (left, right), (bottom, top) = extent(named.layout)
    height = float(np.clip(width * abs(top - bottom) / (right - left), 1.0, 7.0))
    return axes_at(new_figure(COLUMN, height + 0.6), 0.3, 0.3, width, height)


@styled()
def _bars(named: NamedRecovery, values: np.ndarray, axes: Axes | None, title: str) -> Axes:
    """The highest and the lowest states as bars."""
    order = largest_first(values)
    if len(order) > MOST_ROWS:
        order = np.concatenate([order[: MOST_ROWS - 6], order[-6:]])
        title += f" ({len(order)} of {len(values)} states)"
    axes = row_axes(axes, len(order), [named.state(s) for s in order])
    axes.barh(range(len(order)), values[order], color=series_colour(0), height=0.7)
    axes.set_xlabel(plain(title))
    return axes


def every_figure(run: Run) -> dict[str, Figure]:
    """Name -> figure, every picture that a run has numbers for."""
    from tacit.show.summary import holds_several

    recovery, layout = run.recovery, run.layout
    if holds_several(run):
        return {"beside": recovery.plot()}
    known = [bool(np.isfinite(costs).all()) for costs in recovery.cost_weights]
    drawn: dict[str, Axes] = {}
    if any(known) or np.isfinite(recovery.reward_weights).all():
        drawn["weights"] = weights(recovery)
    if known:
        drawn["prices"] = prices(recovery)
    drawn["reward"] = map(recovery, layout=layout)
    for k in np.flatnonzero(known).tolist():
        drawn[f"cost-{k}"] = map(recovery, k, layout=layout)
    drawn["policy"] = policy(recovery, layout=layout)
    drawn["visits"] = map(recovery, "visits", layout=layout)
    if layout.is_grid and layout.directions:
        drawn["flows"] = flows(recovery, layout=layout)
    if np.isfinite(recovery.goodness.residuals).any():
        drawn["residuals"] = residuals(recovery, layout=layout)
    return {name: figure_of(axes) for name, axes in drawn.items()}
