"""Draws docs/choosing.svg: which estimator suits which demonstrations.

python docs/figures/choosing.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from tacit.estimators.recover import DETERMINISTIC
from tacit.inference.findings import MIN_VISITS

# Okabe and Ito's blue and vermilion: told apart by all eyes, and by lightness in print. Outlines
# differ as well, so that the colours are not needed.
PICKED, ASKED, INK = "#0072B2", "#D55E00", "#222222"
EXPLANATION = "all explanations at once:\nexact intervals, no\nconfidence level"
LIKELIHOOD = "every step counts:\nerror bars, and a test\nof each constraint"
STYLE = {"svg.fonttype": "path", "svg.hashsalt": "tacit", "font.family": "DejaVu Sans"}


def box(axes: Axes, place: tuple[float, float, float, float], text: str, **look: object) -> None:
    """A rounded box at (left, bottom, width, height): its first line bold, the others plain."""
    left, bottom, width, height = place
    colour, fill = look.get("colour", INK), look.get("fill", "white")
    shape = FancyBboxPatch(
        (left, bottom),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.8",
        facecolor=fill,
        edgecolor=colour,
        linewidth=1.6,
        linestyle=look.get("line", "-"),
    )
    axes.add_patch(shape)
    head, *rest = text.split("\n")
    ink = "white" if fill == colour else INK
    middle, top = left + width / 2, bottom + height / 2 + 1.35 * len(rest)
    shared = {"ha": "center", "va": "center", "color": ink}
    axes.text(middle, top, head, fontsize=9.5, fontweight="bold", **shared)
    for number, line in enumerate(rest, start=1):
        axes.text(middle, top - 2.7 * number, line, fontsize=8.2, **shared)


def arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, line: str = "-"
) -> None:
    """An arrow between two points."""
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.5, "linestyle": line}
    axes.annotate("", xy=end, xytext=start, arrowprops={**look, "shrinkA": 0, "shrinkB": 0})


def draw(path: Path) -> None:
    """Writes the picture."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.6, 5.7))
        axes.set(xlim=(0, 100), ylim=(0, 75), position=(0, 0, 1, 1))
        axes.axis("off")
        _picked(axes)
        _asked(axes)
        # No date, so that drawing it twice makes the same file.
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def _picked(axes: Axes) -> None:
    """The left half: what recover does by itself."""
    axes.text(24, 72, "tacit.recover picks", ha="center", fontsize=11, color=PICKED, weight="bold")
    box(
        axes,
        (5, 59.3, 38, 9.6),
        "What was seen\ntrajectories, parts of them,\nor loose (state, action) pairs",
    )
    arrow(axes, (24, 59.3), (24, 55.2), PICKED)
    box(
        axes,
        (2, 38, 44, 17),
        "Does the expert always do the same?\n"
        f"In states with {MIN_VISITS} visits or more: were over\n"
        f"{100 * DETERMINISTIC:.0f} % of the steps taken where one action\n"
        "was taken at least 99 % of the time?",
        colour=PICKED,
    )
    answers = (
        (12.5, "yes", "Explanation\noptimal expert\n \n" + EXPLANATION),
        (36, "no, or\ntoo few", "Likelihood\nnoisy expert\n \n" + LIKELIHOOD),
    )
    for x, word, name in answers:
        arrow(axes, (x, 38), (x, 29.2), PICKED)
        axes.text(x + 1.2, 33.8, word, fontsize=8.2, va="center", color=INK)
        box(axes, (x - 11.2, 9.5, 22.4, 19.5), name, colour=PICKED, fill=PICKED)
    axes.text(
        24,
        5,
        "The first finding says what was picked, and why.",
        ha="center",
        fontsize=8.2,
        color=INK,
    )


def _asked(axes: Axes) -> None:
    """The right half: what has to be asked for by name."""
    axes.text(75, 72, "you ask for", ha="center", fontsize=11, color=ASKED, weight="bold")
    axes.plot([49, 49], [3, 73], color="#999999", linewidth=0.8)
    rows = (
        (
            "several tasks of\none demonstrator",
            "recover([Task(...), ...])\nshared directions, own prices",
        ),
        ("exact expectations, or\nfeatures to match", "Convex\none global optimum"),
        ("the loop of the paper", "Alternating\nAlgorithm 1, gaps as options"),
        ("the reward is known", "ConstraintOnly\nthe constraints of that reward"),
        ("could reward alone\nexplain everything?", "RewardOnly\nno constraint: a baseline"),
    )
    for number, (need, name) in enumerate(rows):
        y = 60 - 12.5 * number
        axes.text(51, y + 4.25, need, fontsize=8.6, va="center", linespacing=1.35, color=INK)
        arrow(axes, (69.3, y + 4.25), (72.2, y + 4.25), ASKED, "--")
        box(axes, (72.4, y, 26.6, 8.5), name, colour=ASKED, line="--")


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "choosing.svg")
