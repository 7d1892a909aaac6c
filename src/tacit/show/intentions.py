"""Intentions that switch: when each trajectory follows which, where, and for how long."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.patches import Patch

from tacit.estimators.intentions import IntentionsRecovery
from tacit.model.layout import Layout
from tacit.search.algebra import largest_first
from tacit.show import Block, Gallery, Picture, Section
from tacit.show.appendix import fit_tables
from tacit.show.canvas import (
    INK,
    PAPER,
    ROW,
    VISIT_MAP,
    axes_at,
    figure_of,
    legend_above,
    new_figure,
    row_axes,
    series_colour,
    styled,
    svg,
)
from tacit.show.grid import extent, middles, paint_cells
from tacit.show.quantities import NamedRecovery
from tacit.show.tables import Head, IntervalEstimate, Table

# Trajectories of a picture, places of a table, and steps of a path that are drawn.
MOST_STRIPS, MOST_PLACES, MOST_DRAWN = 12, 12, 400
# How far from the middle of a cell a path is drawn, in cells: visits lie beside each other.
ASIDE = 0.28
# Steps by which the place beside the middle turns all the way round.
TURN = 13


@styled()
def draw_strips(found: IntentionsRecovery, axes: Axes | None = None) -> Axes:
    """The axes, with a row for each trajectory: the colour of each step is that of its intention.

    Where it is not sure which, colours are mixed. Those that switch most stand first.

    Args:
        found: the intentions.
        axes: what to draw on; a new figure unless given.
    """
    order = restless(found)[:MOST_STRIPS]
    lengths = np.diff(found.offsets)[order]
    paper = np.array(to_rgb(PAPER))
    image = np.tile(paper, (len(order), int(lengths.max()), 1))
    for row, e in enumerate(order.tolist()):
        own = found.following[found.offsets[e] : found.offsets[e + 1]]
        image[row, : len(own)] = own @ colours_of(found)
    axes = row_axes(axes, len(order), [f"trajectory {e}" for e in order.tolist()], each=1.2 * ROW)
    axes.imshow(image, aspect="auto", interpolation="nearest")
    axes.set_ylim(len(order) - 0.5, -0.5)
    for row in range(1, len(order)):
        axes.axhline(row - 0.5, color=PAPER, lw=3)
    axes.set_xlabel("step")
    _name_colours(axes, found)
    return axes


@styled()
def draw_chances(found: IntentionsRecovery, trajectory: int, axes: Axes | None = None) -> Axes:
    """The axes, with the chance of each intention at every step of one trajectory."""
    axes = axes_at(new_figure(3.5, 1.9), 0.5, 0.45, 2.85, 1.0) if axes is None else axes
    own = found.following[found.offsets[trajectory] : found.offsets[trajectory + 1]]
    edges = np.arange(len(own) + 1) - 0.5
    below = np.zeros(len(own))
    for k, chance in enumerate(own.T):
        axes.stairs(below + chance, edges, baseline=below, fill=True, color=series_colour(k))
        below = below + chance
    axes.set(xlim=(-0.5, len(own) - 0.5), ylim=(0.0, 1.0), xlabel="step", ylabel="chance")
    _name_colours(axes, found)
    return axes


@styled()
def draw_path(
    found: IntentionsRecovery, trajectory: int, axes: Axes | None = None, *, layout: Layout
) -> Axes:
    """The axes, with the way of one trajectory on a map, in the colours of its intentions.

    Lines are as dark as it is sure which; visits of one place lie beside each other. A ring is
    where it begins, a square where it ends.
    """
    if axes is None:
        width = 3.1
        (left, right), (bottom, top) = extent(layout)
        height = float(np.clip(width * abs(top - bottom) / (right - left), 1.0, 7.0))
        axes = axes_at(new_figure(3.5, height + 0.75), 0.3, 0.45, width, height)
    visits = np.bincount(found.states, minlength=len(found.where))[: len(middles(layout))]
    light = Normalize(0.0, 5.0 * max(float(visits.max(initial=0)), 1.0))  # lines must be seen on it
    paint_cells(visits.astype(float), axes, layout, light, colormaps[VISIT_MAP])
    rows = np.arange(*found.offsets[trajectory : trajectory + 2])[:MOST_DRAWN]
    places = middles(layout)
    rows = rows[found.states[rows] < len(places)]
    turn = 2.0 * np.pi * np.arange(len(rows)) / TURN
    aside = ASIDE * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    if not layout.is_grid:
        aside *= 0.0
    spots = places[found.states[rows]] + aside
    chances, who = found.following[rows], found.followed[rows]
    colours = np.concatenate([colours_of(found)[who], chances.max(axis=1)[:, None]], axis=1)
    lines = list(np.stack([spots[:-1], spots[1:]], axis=1))
    axes.add_collection(LineCollection(lines, colors=list(colours[:-1]), linewidths=1.4))
    ends = {"facecolor": "none", "edgecolor": INK, "zorder": 3, "s": 26}
    axes.scatter(*spots[:1].T, marker="o", **ends)
    axes.scatter(*spots[-1:].T, marker="s", **ends)
    _name_colours(axes, found)
    return axes


def colours_of(found: IntentionsRecovery) -> np.ndarray:
    """[T, 3] the colour of each intention."""
    return np.array([to_rgb(series_colour(k)) for k in range(len(found.intentions))])


def restless(found: IntentionsRecovery) -> np.ndarray:
    """[E] numbers of the trajectories, those that switch most often first."""
    changes = np.abs(np.diff(found.following, axis=0)).sum(axis=1)
    ends = np.minimum(found.offsets[1:] - 1, len(changes))
    total = np.concatenate([[0.0], np.cumsum(changes)])
    return largest_first(total[ends] - total[found.offsets[:-1]])


def _name_colours(axes: Axes, found: IntentionsRecovery) -> None:
    marks = [
        Patch(color=series_colour(k), label=f"intention {k}") for k in range(len(found.intentions))
    ]
    axes.legend(handles=marks, **legend_above(len(marks)))


def intention_sections(
    found: IntentionsRecovery,
    named: NamedRecovery,
    trajectories: Mapping[str, np.ndarray],
    *,
    private: bool,
) -> list[Section]:
    """For how long each intention is followed, where, and when.

    Args:
        found: the intentions.
        named: one of them, with the names of states.
        trajectories: what is known of each trajectory.
        private: whether to show no trajectory and no state.
    """
    blocks: list[Block] = [dwell_table(found)]
    if not private:
        blocks.append(where_table(found, named))
    sections = [Section("How long each is followed, and where", blocks)]
    if private or len(found.intentions) < 2:
        return sections
    first = int(restless(found)[0])
    pictures = [
        Picture(svg(figure_of(draw_strips(found))), "intention of each step of some trajectories")
    ]
    if named.layout.is_map:
        path = draw_path(found, first, layout=named.layout)
        alt = f"way of trajectory {first} on the map, by intention"
        caption = f"Trajectory {first}. Ring: where it begins; square: where it ends."
        pictures.append(Picture(svg(figure_of(path)), alt, caption=caption))
    else:
        alt = f"chance of each intention at every step of trajectory {first}"
        chances = svg(figure_of(draw_chances(found, first)))
        pictures.append(Picture(chances, alt, caption=f"Trajectory {first}."))
    note = "Those that switch most stand first."
    tables = fit_tables(trajectories, "Share of the steps of each trajectory", note)
    return [*sections, Section("When which is followed", [Gallery(pictures), *tables])]


def dwell_table(found: IntentionsRecovery) -> Table:
    """How many steps each intention lasts, and what follows it."""
    tables, many = found.dwell.shape
    pairs = [(g, k) for g in range(tables) for k in range(many)]
    head = Head("Steps", "for which it lasts on average, 95 % interval")
    columns = [
        ("Intention", [f"intention {k}" for _, k in pairs]),
        *([("Place and time", [str(g) for g, _ in pairs])] if tables > 1 else []),
        (head, [IntervalEstimate(found.dwell[p], *found.dwell_intervals[p]) for p in pairs]),
        *(
            (f"To intention {j}", [float(found.switching[g, k, j]) for g, k in pairs])
            for j in range(many)
        ),
    ]
    note = "The chances are those to go on with each, from one step to the next."
    return Table.of("How long each intention lasts", columns, note)


def where_table(found: IntentionsRecovery, named: NamedRecovery) -> Table:
    """What share of the steps in each state follows each intention, where most steps are."""
    visits = np.bincount(found.states, minlength=len(found.where))
    order = largest_first(visits)[:MOST_PLACES]
    order = order[visits[order] > 0]
    columns = [
        ("State", [named.state(s) for s in order.tolist()]),
        ("Steps", visits[order]),
        *(
            (
                Head(f"Intention {k}", "share of the steps, 95 % interval"),
                [IntervalEstimate(found.where[s, k], *found.where_intervals[s, k]) for s in order],
            )
            for k in range(len(found.intentions))
        ),
    ]
    note = "The states with most steps." if len(visits) > MOST_PLACES else ""
    return Table.of("Where each intention is followed", columns, note, listed=True)
