"""Maps of a grid world: reward, costs, policy and visits, each a picture to point at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tacit.show.arrows import LEAST_SHARE, draw_policy
from tacit.show.canvas import axes_at, fitted, new_figure, plain, styled, svg
from tacit.show.digits import Scale, short
from tacit.show.document import Choice, Details, Gallery, Option, Picture, Selector
from tacit.show.grid import cell_scale, draw_colour_bar, draw_values, limits_of
from tacit.show.keys import draw_key
from tacit.show.palette import COST_MAP, REWARD_MAP, VISIT_MAP
from tacit.show.pictures import Cells, box_of
from tacit.show.recovery.ground import Ground
from tacit.show.recovery.subject import Subject
from tacit.show.words import anchor

FEW = 2_500  # cells whose values are told in full

_WIDTH = 3.0  # inches of a map
_LEFT, _RIGHT, _TITLE, _BELOW = 0.24, 0.06, 0.26, 0.62


def map_gallery(subject: Subject) -> Gallery:
    """The maps side by side; those of several costs share their colours."""
    ground = Ground.of(subject)
    limits = limits_of([ground.pooled(cost) for cost in subject.costs])
    pictures = [
        value_map(ground, subject.reward, "reward", colours=REWARD_MAP),
        *(
            value_map(ground, cost, subject.cost_title(k), colours=COST_MAP, limits=limits)
            for k, cost in enumerate(subject.costs)
        ),
        policy_map(ground, subject),
        value_map(
            ground,
            100.0 * subject.time,
            "visits",
            unit=" %",
            colours=VISIT_MAP,
            bar="share of its time, in %",
        ),
    ]
    return Gallery(pictures)


def action_maps(subject: Subject) -> Details | None:
    """How likely each action is, and what it earns and costs where that depends on it."""
    objective = subject.recovery.objective
    tables_each = 1 + (objective.reward.ndim == 2) + subject.constraints
    ground = Ground(subject.layout, subject.actions * tables_each)
    if subject.actions < 2 or ground.factor > 1 or not ground.told:
        return None
    tables: list[tuple[str, np.ndarray, str, tuple[float, float]]] = [
        ("chance", subject.policy, VISIT_MAP, (0.0, 1.0))
    ]
    if objective.reward.ndim == 2:
        limits = limits_of([objective.reward[: ground.cells]])
        tables.append(("reward", objective.reward, REWARD_MAP, limits))
    if objective.costs.ndim == 3:
        limits = limits_of([objective.costs[:, : ground.cells]])
        tables += [
            (subject.cost_title(k), objective.costs[k], COST_MAP, limits)
            for k in range(subject.constraints)
            if subject.identified[k]
        ]
    options = []
    for action in range(subject.actions):
        pictures = [
            value_map(
                ground,
                table[:, action],
                f"{name} of {subject.action(action)}",
                colours=colours,
                limits=limits,
            )
            for name, table, colours, limits in tables
        ]
        options.append(Option((action,), [Gallery(pictures)]))
    names = [subject.action(a) for a in range(subject.actions)]
    return Details("One action at a time", [Choice([Selector("action", names)], options)])


def value_map(
    ground: Ground,
    values: Any,
    title: str,
    *,
    colours: str,
    limits: tuple[float, float] | None = None,
    unit: str = "",
    bar: str = "",
) -> Picture:
    """The picture of one number [S] a state.

    Args:
        ground: where the states lie.
        values: [S]; NaN is drawn as an empty cell.
        title: what they are.
        colours: name of a sequential colour map.
        limits: values of the first and the last colour; those of the table unless given.
        unit: what follows a number.
        bar: what stands under the colour bar; the title unless given.
    """
    layout, table = ground.drawn, ground.pooled(values)
    limits = limits_of([table]) if limits is None else limits

    def draw(axes: Axes, below: Axes) -> None:
        scale = cell_scale(axes, layout, [table])
        draw_values(table, axes, layout=layout, limits=limits, scale=scale, colours=colours)
        if np.isfinite(table).any():
            ends = Scale.of([np.array(limits)])
            draw_colour_bar(below, limits=limits, scale=ends, name=bar or title, colours=colours)
        else:
            below.set_axis_off()

    digits = 3 if ground.cells <= FEW else 2
    texts = [f"{short(v, digits=digits)}{unit}" for v in table] if ground.told else []
    return _picture(ground, title, draw, texts, _value_words(ground, table, title, unit))


def policy_map(ground: Ground, subject: Subject) -> Picture:
    """The picture of what is done in each cell."""
    layout, policy = ground.drawn, ground.pooled(subject.policy)

    def draw(axes: Axes, below: Axes) -> None:
        draw_policy(policy, axes, layout=layout)
        mixed = bool(((policy > LEAST_SHARE).sum(axis=1) > 1).any())
        draw_key(below, layout, subject.actions, tied=False, mixed=mixed)

    most = 3 if ground.cells <= FEW else 1
    texts = [subject.told(chances, most=most) for chances in policy] if ground.told else []
    counts = np.bincount(policy.argmax(axis=1), minlength=subject.actions)
    common = ", ".join(f"{subject.action(a)} in {counts[a]}" for a in np.argsort(-counts)[:4])
    return _picture(
        ground, "policy", draw, texts, f"Map of the policy. Likeliest action: {common} cells."
    )


@styled()
def _picture(
    ground: Ground,
    title: str,
    draw: Callable[[Axes, Axes], None],
    texts: Sequence[str],
    alt: str,
) -> Picture:
    """A map with its title, something below it, and the lattice to point at."""
    layout = ground.drawn
    width = _WIDTH - _LEFT - _RIGHT
    height = float(np.clip(width * layout.rows / layout.columns, 0.3 * width, 2.2 * width))
    figure = new_figure(_WIDTH, _TITLE + height + _BELOW)
    axes = axes_at(figure, _LEFT, _TITLE, width, height)
    below = axes_at(figure, _LEFT, _TITLE + height + 0.24, width, 0.09)
    draw(axes, below)
    axes.set_aspect("auto")
    if ground.factor > 1:
        for axis in (axes.xaxis, axes.yaxis):
            places = axis.get_ticklocs()
            axis.set_ticks(places, [f"{ground.factor * int(place)}" for place in places])
    fitted(axes.set_title(plain(title)), axes)
    cells = []
    if texts:
        box = box_of(axes, (-0.5, layout.columns - 0.5), (-0.5, layout.rows - 0.5))
        cells.append(Cells(title, box, layout.rows, layout.columns, texts, ground.names))
    return Picture(svg(figure), alt, cells=cells, name=anchor(title))


def _value_words(ground: Ground, table: np.ndarray, title: str, unit: str) -> str:
    if not np.isfinite(table).any():
        return f"Map of {title}: not identified."
    low, high = int(np.nanargmin(table)), int(np.nanargmax(table))
    name = ground.names.__getitem__ if ground.names else ground.drawn.state_name
    return (
        f"Map of {title}. Lowest {short(table[low])}{unit} at {name(low)}, highest "
        f"{short(table[high])}{unit} at {name(high)}."
    )
