"""What the arrows and colours of a drawn policy mean."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.path import Path

from tacit.model.names import Layout
from tacit.show.arrows import MARKED, action_colours, has_arrows
from tacit.show.canvas import TINY, plain, styled
from tacit.show.palette import INK, MUTED, PAPER, VERMILLION


@styled()
def draw_key(
    axes: Axes, layout: Layout, actions: int, *, tied: bool, mixed: bool, first: str = ""
) -> None:
    """What the arrows, or the colours, mean; only what occurs is explained.

    Args:
        axes: what to draw on.
        layout: where the actions point.
        actions: how many there are.
        tied: whether actions as good, but not taken, are drawn.
        mixed: whether a state takes several actions.
        first: the policy that marked cells differ from; empty where none is marked.
    """
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    handles: list[Any] = []
    if has_arrows(layout):
        handles.append((_sample(INK), "action taken" + (", longer if likelier" if mixed else "")))
        if tied:
            handles.append((_sample(PAPER), "as good, not taken"))
        if first:
            frame = Rectangle((0, 0), 1, 1, facecolor=MARKED, edgecolor=VERMILLION, linewidth=1)
            handles.append((frame, f"differs from the {first} policy"))
    else:
        for action, colour in enumerate(action_colours(actions)):
            patch = Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor=MUTED, linewidth=0.4)
            handles.append((patch, plain(layout.action_name(action))))
    axes.legend(
        [handle for handle, _ in handles],
        [label for _, label in handles],
        loc="upper left",
        bbox_to_anchor=(0, 1.6),
        borderpad=0,
        borderaxespad=0,
        frameon=False,
        fontsize=TINY,
        labelspacing=0.35,
        handlelength=1.4,
        handleheight=0.9,
        handletextpad=0.6,
        ncols=1 if has_arrows(layout) else 2,
        columnspacing=1.2,
    )


def _sample(colour: str) -> Any:
    """An arrow for the key."""
    arrow = Path(
        [
            (-1, -0.2),
            (0.1, -0.2),
            (0.1, -0.75),
            (1, 0),
            (0.1, 0.75),
            (0.1, 0.2),
            (-1, 0.2),
            (-1, -0.2),
        ]
    )
    return Line2D([], [], ls="", marker=arrow, ms=9, mfc=colour, mec=INK, mew=0.6)
