"""A figure in a report, and the values that are read off it by pointing at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from matplotlib.axes import Axes


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
    """

    label: str
    box: tuple[float, float, float, float]
    rows: int
    columns: int
    values: Sequence[str]
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        wanted = self.rows * self.columns
        if len(self.values) != wanted or len(self.names) not in (0, wanted):
            raise ValueError(f"a lattice of {wanted} cells must have as many values and names")


@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        image: SVG as text, or PNG as bytes.
        alt: what it shows, for who cannot see it.
        caption: how to read it, below.
        cells: the values that can be read off it.
        name: of its file, without ending, where figures are also saved; empty for none.
    """

    image: str | bytes
    alt: str
    caption: str = ""
    cells: Sequence[Cells] = ()
    name: str = ""

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("a picture must say in `alt` what it shows")


def box_of(
    axes: Axes, across: tuple[float, float], down: tuple[float, float]
) -> tuple[float, float, float, float]:
    """(left, top, width, height) of a rectangle of these axes, as shares of their figure.

    Args:
        axes: in their final place, with their final limits.
        across: left and right end, in data.
        down: upper and lower end, in data.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    corners = axes.transData.transform(np.array([(across[0], down[0]), (across[1], down[1])]))
    (left, top), (right, bottom) = figure.transFigure.inverted().transform(corners)
    return float(left), float(1 - top), float(right - left), float(top - bottom)


def overlay(cells: Sequence[Cells]) -> str:
    """The lattices as rectangles to point at, drawn over a picture; nothing if there is none."""
    if not cells:
        return ""
    lattices = "".join(_lattice(one) for one in cells)
    return (
        '<svg class="over" viewBox="0 0 1000 1000" preserveAspectRatio="none">'
        f'{lattices}<rect class="spot" width="0" height="0"/></svg>'
    )


def _lattice(one: Cells) -> str:
    place = zip(("x", "y", "width", "height"), one.box, strict=True)
    written = {key: f"{1000 * share:.1f}" for key, share in place}
    written |= {"data-rows": str(one.rows), "data-columns": str(one.columns)}
    written |= {"data-label": one.label, "data-values": _lines(one.values)}
    if one.names:
        written["data-names"] = _lines(one.names)
    attributes = "".join(f' {key}="{escape(value)}"' for key, value in written.items())
    told = escape(f"{one.label}: the arrow keys read one value after the other")
    return f'<rect class="cells" tabindex="0" role="img" aria-label="{told}"{attributes}/>'


def _lines(texts: Sequence[Any]) -> str:
    return "\n".join(" ".join(str(text).split()) for text in texts)
