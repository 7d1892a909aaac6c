"""Colours that stay apart for every reader and in grey, and ink that can be read on them."""

from __future__ import annotations

from typing import Any

from matplotlib.colors import to_hex, to_rgb

# Okabe and Ito: eight colours that no common colour blindness confuses.
BLUE, VERMILLION, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
SKY, ORANGE, YELLOW, BLACK = "#56b4e9", "#e69f00", "#f0e442", "#000000"

# Yellow is left out: a thin yellow line cannot be seen on white.
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
# Colour is never the only difference: a copy in grey still has the marks and the dashes.
MARKS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (5, 1.6)), (0, (1.6, 1.4)), (0, (6, 1.4, 1.4, 1.4)), (0, (9, 2)))

INK, MUTED, FAINT, PAPER = "#1b1b1b", "#595959", "#d4d4d4", "#ffffff"

# All change their brightness one way only, so their order survives a copy in grey.
REWARD_MAP, COST_MAP, VISIT_MAP = "viridis", "cividis", "Blues"

READABLE = 4.5  # contrast ratio that WCAG 2 asks of normal text


def luminance(colour: Any) -> float:
    """Relative luminance of a colour, as WCAG 2 defines it: 0 for black, 1 for white."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: Any, other: Any) -> float:
    """Contrast ratio of two colours, from 1 (the same) to 21 (black on white)."""
    low, high = sorted((luminance(colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: Any) -> str:
    """Black or white, whichever reads better; never below 4.58, which is the worst of greys."""
    return max(BLACK, PAPER, key=lambda ink: contrast(ink, colour))


def readable(colour: Any) -> str:
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


def series_dash(index: int) -> Any:
    """The dash pattern of the index-th line."""
    return DASHES[index % len(DASHES)]
