"""Figures without a window or a shared state: made, placed in inches, and turned into bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tacit.show.palette import FAINT, INK, MUTED, PAPER

PAGE_WIDTH = 7.2  # inches: a figure over the whole width of a printed page
TEXT, SMALL, TINY = 8.0, 7.0, 6.0  # points, at that width
HEAD = 0.28  # inches that a headline takes

# A reader's own matplotlibrc must not change what is drawn, nor how: the same input, the same
# bytes. Keys that start a backend or a window are not ours to set.
_STYLE: Any = {
    key: value
    for key, value in matplotlib.rcParamsDefault.items()
    if not key.startswith(("backend", "interactive", "toolbar", "webagg", "tk.", "savefig.dir"))
} | {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": SMALL,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 6.0,
    "axes.titlesize": TEXT,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.unicode_minus": True,
    "font.family": ["DejaVu Sans"],
    "font.size": SMALL,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",  # text stays text: small, searchable, and read aloud
    "svg.hashsalt": "tacit",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": SMALL,
    "xtick.major.size": 3.0,
    "xtick.major.width": 0.7,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": SMALL,
    "ytick.major.size": 3.0,
    "ytick.major.width": 0.7,
}


def styled() -> Any:
    """A context, and a decorator, under which everything is drawn in the same style."""
    return matplotlib.rc_context(_STYLE)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that many inches, on a canvas of its own."""
    with styled():
        figure = Figure(figsize=(width, height), facecolor=PAPER)
        FigureCanvasAgg(figure)
    return figure


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes of that many inches; `left` and `top` are their distance from that edge of the page."""
    page_width, page_height = figure.get_size_inches()
    box = (
        left / page_width,
        1.0 - (top + height) / page_height,
        width / page_width,
        height / page_height,
    )
    with styled():
        return figure.add_axes(box)


def headline(figure: Figure, text: str) -> None:
    """A line in the upper left corner of the figure, in the room that `HEAD` inches leave."""
    width, height = figure.get_size_inches()
    with styled():
        figure.text(0.1 / width, 1 - 0.08 / height, plain(text), va="top", size=TEXT + 1)


def plain(text: str) -> str:
    """The text as it is: a dollar sign in a name starts no formula."""
    return str(text).replace("$", r"\$")


def svg(figure: Figure) -> str:
    """The figure as one SVG document; the same figure gives the same text."""
    file = io.StringIO()
    with styled():
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def png(figure: Figure, *, dots_per_inch: int = 200) -> bytes:
    """The figure as a PNG image; the same figure gives the same bytes."""
    file = io.BytesIO()
    with styled():
        figure.savefig(file, format="png", dpi=dots_per_inch, metadata={"Software": None})
    return file.getvalue()


def text_box(artist: Any) -> tuple[float, float, float, float]:
    """(left, bottom, right, top) of a text in points from the lower left corner of its figure."""
    figure = artist.get_figure(root=True)
    box = artist.get_window_extent(figure.canvas.get_renderer())
    scale = 72.0 / figure.dpi
    return (box.x0 * scale, box.y0 * scale, box.x1 * scale, box.y1 * scale)


def fitted(artist: Any, axes: Axes) -> Any:
    """The text, smaller or cut with an ellipsis so that it is no wider than its axes."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    # A little less than there is: at another resolution the letters are a little wider.
    room = 0.97 * axes.get_position().width * figure.get_figwidth() * 72.0
    left, _, right, _ = text_box(artist)
    if right - left <= room:
        return artist
    artist.set_fontsize(max(TINY, artist.get_fontsize() * room / (right - left)))
    whole = artist.get_text()
    while len(whole) > 1:
        left, _, right, _ = text_box(artist)
        if right - left <= room:
            break
        # As many letters as the room has for letters of this width, but always fewer.
        whole = whole[: min(len(whole) - 1, int(len(whole) * room / (right - left)))]
        artist.set_text(whole.rstrip(" \\(") + "…")
    return artist


def apart(wanted: Sequence[float], spacing: float) -> list[float]:
    """Positions as near to the wanted ones as they can be (least squares), `spacing` apart.

    Neighbours in the wanted order stay neighbours. Subtracting i * spacing turns it into an
    isotonic regression, which pooling adjacent violators solves exactly.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    pools: list[tuple[float, int]] = []  # (mean, size)
    for rank, index in enumerate(order):
        mean, size = wanted[index] - rank * spacing, 1
        while pools and pools[-1][0] > mean:
            other, count = pools.pop()
            mean, size = (mean * size + other * count) / (size + count), size + count
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    placed = [0.0] * len(wanted)
    for rank, index in enumerate(order):
        placed[index] = flat[rank] + rank * spacing
    return placed
