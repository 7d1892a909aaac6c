"""Figures without a window or a shared state, and colours that stay apart for every reader."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.typing import ColorType as Colour

from tacit.files.atomic import harmless

# Okabe and Ito: eight colours that no common colour blindness confuses.
BLUE, VERMILLION, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
SKY, ORANGE, YELLOW, BLACK = "#56b4e9", "#e69f00", "#f0e442", "#000000"

# Yellow is left out: a thin yellow line cannot be seen on white.
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
# Colour is never the only difference: a copy in grey still has the marks and the dashes.
MARKS = ("o", "s", "^", "D", "v", "P", "X")
Dash = str | tuple[int, tuple[float, ...]]
DASHES: tuple[Dash, ...] = (
    "-",
    (0, (5, 1.6)),
    (0, (1.6, 1.4)),
    (0, (6, 1.4, 1.4, 1.4)),
    (0, (9, 2)),
)

INK = "#1b1b1b"
"""Colour of lines and letters."""
MUTED = "#595959"
"""Colour of what stands behind."""
FAINT = "#d4d4d4"
PAPER = "#ffffff"
"""Colour of what stands in front of nothing."""
EMPTY, CELL, MARKED = "#e8e8e8", "#f3f3f1", "#fbdcc4"  # cells: nothing known, plain, framed
# Colours that fill cells stay as they are where the colours of the page change: each is a shade off
# its namesake above, which a page takes for its own. From dark to bright, then the rest.
PAINTED = ("#0072b3", "#d55e01", "#56b4e8", "#f0e443", "#1b1b1c", "#e69f01", "#fffffd")
# What is written on a colour of the data: it stays where the colours of the page change.
ON_LIGHT, ON_DARK = "#000001", "#fffffe"

# All change their brightness one way only, so their order survives a copy in grey.
REWARD_MAP = "viridis"
"""Colours of a reward."""
COST_MAP = "cividis"
"""Colours of a cost."""
VISIT_MAP = "Blues"

MISSING = "Glyph .* missing from"  # how matplotlib begins to say so
READABLE = 4.5  # contrast ratio that WCAG 2 asks of normal text

COLUMN, ROW = 3.5, 0.2  # inches: a figure in a column of a paper, and a row of it
PAGE_WIDTH = 7.2
"""Width of a figure over a whole printed page, in inches."""
TEXT = 8.0
"""Size of text at that width, in points."""
SMALL = 7.0
"""Size of labels and legends, in points."""
TINY = 6.0
"""Size of the smallest letters, in points."""
LETTER = 0.66  # width of a bold letter, in sizes of the text: the widest of the common fonts

_TICK = {"color": MUTED, "labelcolor": INK, "labelsize": SMALL, "major.size": 3, "major.width": 0.7}
# A reader's own matplotlibrc must not change what is drawn, nor how: the same input, the same
# bytes. Keys that start a backend or a window are not ours to set.
_STYLE: dict[Any, Any] = {
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
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],  # which comes with matplotlib
    "font.size": SMALL,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",  # text stays text: small, searchable, and read aloud
    "svg.hashsalt": "tacit",
    "text.color": INK,
    **{f"{axis}tick.{key}": value for axis in "xy" for key, value in _TICK.items()},
}


@contextmanager
def styled() -> Iterator[None]:
    """A context, and a decorator, under which everything is drawn in the same style."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # Letters that the font has not: a reader's own shows them, as text stays text in an SVG.
        warnings.filterwarnings("ignore", MISSING)
        yield


class Sheet(Figure):
    """A figure that a notebook shows by itself."""

    def _repr_png_(self) -> bytes:
        return png(self)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that many inches, on a canvas of its own."""
    with styled():
        figure = Sheet(figsize=(width, height), facecolor=PAPER)
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


def figure_of(artist: Artist) -> Figure:
    """The whole figure on which something is drawn."""
    figure = artist.get_figure(root=True)
    assert figure is not None
    return figure


def plain(text: str) -> str:
    """The text as it is: a dollar sign in a name starts no formula, and no control acts."""
    return harmless(str(text)).replace("$", r"\$")


_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def svg(figure: Figure) -> str:
    """The figure as one SVG document; the same figure gives the same text."""
    file = io.StringIO()
    with styled():
        figure.savefig(file, format="svg", metadata=_NO_METADATA)
    return harmless(file.getvalue())  # a control would make it no XML


def png(figure: Figure, *, dots_per_inch: int = 200) -> bytes:
    """The figure as a PNG image; the same figure gives the same bytes."""
    file = io.BytesIO()
    with styled():
        figure.savefig(file, format="png", dpi=dots_per_inch, metadata={"Software": None})
    return file.getvalue()


def box_of(axes: Axes) -> tuple[float, float, float, float]:
    """(left, top, width, height) of these axes, as shares of their figure."""
    box = axes.get_position()
    return box.x0, 1.0 - box.y1, box.width, box.height


def fit_text(artist: Text, axes: Axes) -> Text:
    """The text, smaller or cut with an ellipsis so that it is no wider than its axes."""
    text, room = (
        artist.get_text(),
        axes.get_position().width * figure_of(axes).get_figwidth() * 72.0,
    )
    size = float(np.clip(room / (LETTER * len(text)), TINY, artist.get_fontsize()))
    most = int(room / (LETTER * size))
    artist.set(text=text if len(text) <= most else f"{text[: most - 1]}…", fontsize=size)
    return artist


def luminance(colour: Colour) -> float:
    """Relative luminance of a colour, as WCAG 2 defines it: 0 for black, 1 for white."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: Colour, other: Colour) -> float:
    """Contrast ratio of two colours, from 1 (the same) to 21 (black on white)."""
    low, high = sorted((luminance(colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: Colour) -> str:
    """Black or white, whichever reads better; never below 4.58, which is the worst of greys."""
    return max(ON_LIGHT, ON_DARK, key=lambda ink: contrast(ink, colour))


def readable(colour: Colour) -> str:
    """The colour, darkened as far as text of that colour needs to be read on white."""
    red, green, blue = to_rgb(colour)
    for step in range(20):
        shade = (red * 0.95**step, green * 0.95**step, blue * 0.95**step)
        if contrast(shade, PAPER) >= READABLE:
            return to_hex(shade)
    return INK


def series_colour(index: int) -> str:
    """The colour of the index-th line; after seven they start again, with other marks."""
    return SERIES[index % len(SERIES)]


def series_mark(index: int) -> str:
    """The mark of the index-th line: a pair of colour and mark returns only after 49 lines."""
    return MARKS[(index + index // len(SERIES)) % len(MARKS)]


def series_dash(index: int) -> Dash:
    """The dash pattern of the index-th line."""
    return DASHES[index % len(DASHES)]


@styled()
def row_axes(axes: Axes | None, count: int, names: Sequence[str], *, each: float = ROW) -> Axes:
    """Axes with a row for each name, from top to bottom; new ones leave room for the names."""
    if axes is None:
        widest = max((len(name) for name in names), default=0)
        left = min(max(0.075 * widest + 0.15, 0.5), 2.2)
        height = max(3, count) * each
        figure = new_figure(max(COLUMN, left + 2.0), height + 0.85)
        axes = axes_at(figure, left, 0.3, float(figure.get_size_inches()[0]) - left - 0.2, height)
    axes.set_yticks(range(count), [plain(name) for name in names])
    axes.set_ylim(max(1, count) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    return axes


def legend_above(entries: int) -> dict[str, Any]:
    """Where a legend covers nothing."""
    place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    columns = {"ncols": min(4, entries), "handlelength": 1.2, "columnspacing": 1.0}
    return {"fontsize": SMALL, "frameon": False, **place, **columns}
