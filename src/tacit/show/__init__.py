"""Figures and the offline report: what was computed, drawn. The only room that draws.

canvas, grid, arrows, intervals, curves   panels on axes
plot                   pictures of a recovery by one call each: the public `tacit.plot`
tables                 cells and rows; html: a `Document` rendered to one HTML file
quantities             a recovery with its names, and the tables of its numbers
several                types and tasks: what is said of all of them, and of each in turn
opening, network       what a report opens with: the answer as a picture, or trips as a table
report                 what the report says on top, from numbers and from kinds of findings
page, maps, checks, appendix   the report of a run and its parts; differences: of runs compared
summary                what a terminal and a notebook say, from the same tables; and for programs

Here stands what a report says, without how it looks: headlines first, then sections of blocks.
Everywhere a reader's text is expected, `code` between backticks and **strong** between two stars
are understood; everything else is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING

from tacit import names_on_demand
from tacit.show.tables import (
    Best,
    Cell,
    Head,
    IntervalEstimate,
    Row,
    RowKind,
    Table,
    by_state,
    short,
)

if TYPE_CHECKING:
    from tacit.show.arrows import draw_key, draw_policy
    from tacit.show.canvas import (
        COST_MAP,
        INK,
        MUTED,
        PAGE_WIDTH,
        PAPER,
        REWARD_MAP,
        SMALL,
        TEXT,
        TINY,
        axes_at,
        figure_of,
        fit_text,
        new_figure,
        plain,
        readable,
        series_colour,
        series_dash,
        series_mark,
        styled,
        svg,
    )
    from tacit.show.grid import cell_scale, draw_colour_bar, draw_values, limits_of
    from tacit.show.html import render
    from tacit.show.intervals import draw_level, tidy_rows, tidy_values

# The public `tacit.pages`.
__all__ = [
    "COST_MAP",
    "INK",
    "MUTED",
    "PAGE_WIDTH",
    "PAPER",
    "REWARD_MAP",
    "SMALL",
    "TEXT",
    "TINY",
    "Alternatives",
    "Best",
    "Block",
    "Code",
    "Disclosure",
    "Document",
    "Facts",
    "Gallery",
    "Head",
    "Headline",
    "IntervalEstimate",
    "Items",
    "Option",
    "Paragraph",
    "Picture",
    "Row",
    "RowKind",
    "Section",
    "Selector",
    "Table",
    "Tone",
    "axes_at",
    "by_state",
    "cell_scale",
    "draw_colour_bar",
    "draw_key",
    "draw_level",
    "draw_policy",
    "draw_values",
    "figure_of",
    "fit_text",
    "limits_of",
    "new_figure",
    "plain",
    "readable",
    "render",
    "series_colour",
    "series_dash",
    "series_mark",
    "short",
    "styled",
    "svg",
    "tidy_rows",
    "tidy_values",
]

_HOME, __getattr__, __dir__ = names_on_demand(__name__)


class Tone(Enum):
    """How a headline is meant. The value is a word for the style sheet."""

    PLAIN = "plain"
    GOOD = "good"
    CAUTION = "caution"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of points, numbered where their order matters."""

    items: Sequence[str]
    numbered: bool = False


@dataclass(frozen=True)
class Facts:
    """Short facts, name to value, in the order to show them."""

    facts: Mapping[str, Cell]


@dataclass(frozen=True)
class Code:
    """Text to copy, shown as it is: a command, a program, a configuration."""

    text: str


@dataclass(frozen=True)
class Cells:
    """A lattice of values over a part of a figure: pointed at, or read with the arrow keys.

    Attributes:
        label: what the values are.
        box: (left, top, width, height) of the lattice, as shares of the figure's size.
        rows: number of rows.
        columns: number of columns.
        values: one text a cell, row by row.
        names: one name a cell; empty where its row and column name it.
        points: where cells that form no lattice have their middle, as shares of the box from its
            left and its top; rows and columns are 0 then.
    """

    label: str
    box: tuple[float, float, float, float]
    _: KW_ONLY
    rows: int
    columns: int
    values: Sequence[str]
    names: Sequence[str] = ()
    points: Sequence[tuple[float, float]] = ()

    def __post_init__(self) -> None:
        count = self.rows * self.columns or len(self.points)
        if len(self.values) != count or len(self.names) not in (0, count):
            raise ValueError(f"a lattice of {count} cells must have as many values and names")


@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        image: SVG, as text.
        alt: what it shows, for who cannot see it.
        caption: how to read it, below.
        cells: the values that can be read off it.
        bright: whether the least is the brightest: on a dark page its colours change sides.
    """

    image: str
    alt: str
    _: KW_ONLY
    caption: str = ""
    cells: Sequence[Cells] = ()
    bright: bool = False

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("a picture must say in `alt` what it shows")

    @property
    def size(self) -> tuple[float, float]:
        """(width, height) in points."""
        box = self.image.partition('viewBox="')[2].partition('"')[0].split()
        return (float(box[2]), float(box[3])) if len(box) == 4 else (0.0, 0.0)


@dataclass(frozen=True)
class Selector:
    """One thing to choose by.

    Attributes:
        name: what is chosen, such as "seed".
        values: what there is to choose from.
    """

    name: str
    values: Sequence[str]


@dataclass(frozen=True)
class Option:
    """The blocks shown for one choice; `at` is the index of the chosen value of each selector."""

    at: Sequence[int]
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Alternatives:
    """Several alternatives, one shown at a time. The first is shown at first.

    Attributes:
        selectors: what to choose by.
        options: what there is; not every combination need be there.
    """

    selectors: Sequence[Selector]
    options: Sequence[Option]

    def __post_init__(self) -> None:
        if not self.options:
            raise ValueError("a choice must have at least one option")
        limits = [len(selector.values) for selector in self.selectors]
        places = [tuple(option.at) for option in self.options]
        if len(set(places)) < len(places):
            raise ValueError("no two options of a choice may lie at the same place")
        for place in places:
            if len(place) != len(limits) or any(
                not 0 <= i < n for i, n in zip(place, limits, strict=True)
            ):
                raise ValueError(f"an option must lie within {limits}; got {place}")

    def values(self, selector: int) -> list[int]:
        """The values of a selector that some option has."""
        return sorted({option.at[selector] for option in self.options})

    def title(self, option: Option) -> str:
        """What was chosen where this option is shown."""
        pairs = zip(self.selectors, option.at, strict=True)
        return ", ".join(f"{selector.name}: {selector.values[index]}" for selector, index in pairs)


@dataclass(frozen=True)
class Disclosure:
    """What only some readers want, folded away; the summary says what unfolding it shows."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Gallery:
    """Blocks side by side, as many as there is room for."""

    blocks: Sequence[Block]


Block = Paragraph | Items | Facts | Code | Table | Picture | Alternatives | Disclosure | Gallery
"""What a section may hold."""


@dataclass(frozen=True)
class Headline:
    """One thing that was found, in plain words.

    Attributes:
        text: what was found, a sentence or two.
        label: what it answers, such as "What it wants".
        verdict: a word or two, such as "confirmed".
        tone: of the verdict.
        detail: the numbers behind it, in smaller print.
    """

    text: str
    label: str = ""
    verdict: str = ""
    tone: Tone = Tone.PLAIN
    _: KW_ONLY
    detail: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report: its heading, its blocks, and below the heading what it is about."""

    title: str
    blocks: Sequence[Block]
    lead: str = ""


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes:
        title: what it is about.
        headlines: what was found, most important first.
        sections: what they rest on.
        lead: a paragraph below the title.
        facts: what was run, in a strip below it.
        opening: what stands above the headlines: the answer at one look.
        footer: how it was made.
        refresh: seconds after which a browser reads the page again; 0 for never.
    """

    title: str
    headlines: Sequence[Headline]
    sections: Sequence[Section]
    _: KW_ONLY
    lead: str = ""
    facts: Facts | None = None
    opening: Sequence[Block] = ()
    footer: str = ""
    refresh: int = 0

    def blocks(self) -> Iterator[Block]:
        """Every block of the opening and of every section, and the blocks inside them."""
        sections = (block for section in self.sections for block in section.blocks)
        return _every(chain(self.opening, sections))


def _every(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Disclosure | Gallery):
            yield from _every(block.blocks)
        elif isinstance(block, Alternatives):
            yield from _every(inside for option in block.options for inside in option.blocks)


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, numbered from 2 where it is taken already."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free


def anchor(title: str) -> str:
    """A name for links to that title: at most 80 letters.

    >>> anchor("Budget 1, as published")
    'budget-1-as-published'
    """
    letters = (c if c.isascii() and c.isalnum() else " " for c in title.lower())
    return "-".join("".join(letters).split())[:80].strip("-") or "section"
