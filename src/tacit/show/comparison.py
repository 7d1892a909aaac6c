"""The paper's figure: true and recovered reward, constraint and policy, on one scale each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from tacit.model.names import Layout
from tacit.model.objective import Objective
from tacit.show.canvas import (
    COST_MAP,
    HEAD,
    MUTED,
    PAGE_WIDTH,
    REWARD_MAP,
    TINY,
    axes_at,
    fit_text,
    headline,
    new_figure,
    plain,
    styled,
)
from tacit.show.grid import cell_scale, draw_colour_bar, draw_values, limits_of
from tacit.show.policy import LEAST_SHARE, differs, draw_key, draw_policy

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
        costs = [_by_state(cost, policy) for cost in objective.costs]
        return cls(
            name=name,
            reward=_by_state(objective.reward, policy),
            costs=np.array(costs).reshape(-1, len(policy)),
            policy=policy,
            ties=ties,
        )


@styled()
def comparison_figure(
    layout: Layout,
    views: Sequence[View],
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
    names = [plain(n) for n in cost_names] or _cost_names(constraints)
    columns = [("reward", [view.reward for view in views], REWARD_MAP)]
    columns += [(names[k], [c[k] for c in costs], COST_MAP) for k in range(constraints)]
    figure, panels, below = _page(layout, len(views), len(columns) + 1, title)
    for column, (name, tables, colours) in enumerate(columns):
        _value_column(panels[column], below[column], layout, views, name, tables, colours)
    _policy_column(panels[-1], below[-1], layout, views)
    for column in panels:
        for axes in column:
            axes.set_aspect("auto")
        for axes in column[:-1]:
            axes.tick_params(labelbottom=False)
    for column in panels[1:]:
        for axes in column:
            axes.tick_params(labelleft=False)
    return figure


def _page(
    layout: Layout, rows: int, columns: int, title: str
) -> tuple[Figure, list[list[Axes]], list[Axes]]:
    """The figure, its panels [column][row], and the axes below each column."""
    spare = _LEFT + _RIGHT + (columns - 1) * _GAP
    width = max((PAGE_WIDTH - spare) / columns, _NARROWEST)
    # A panel is as tall as its grid asks, but never a thread: then its cells are not square.
    height = float(np.clip(width * layout.rows / layout.columns, 0.3 * width, 2.2 * width))
    head = HEAD if title else 0.0
    figure = new_figure(
        spare + columns * width, head + rows * (_TITLE + height) + (rows - 1) * _BETWEEN + _BELOW
    )
    if title:
        headline(figure, title)
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


def _cost_names(constraints: int) -> list[str]:
    return ["cost"] if constraints == 1 else [f"cost {k + 1}" for k in range(constraints)]


def _by_state(table: np.ndarray, policy: np.ndarray) -> np.ndarray:
    return table if table.ndim == 1 else (table * policy).sum(axis=1)
