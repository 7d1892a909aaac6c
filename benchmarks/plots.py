"""The figures of docs/performance.md, drawn from the result files.

    python benchmarks/plots.py     # then: python benchmarks/tables.py, for the numbers

Writes docs/figures/performance-*.svg. Time or memory over size, both axes logarithmic, tacit and
its peers on the same axes. Colour is never the only difference: lines differ in marks and dashes
too. Each file ends with a digest of what is drawn, by which a test sees whether it is up to date.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.show.canvas import (
    FAINT,
    MUTED,
    PAGE_WIDTH,
    PAPER,
    SMALL,
    axes_at,
    new_figure,
    series_colour,
    series_dash,
    series_mark,
    styled,
    svg,
)

HERE = Path(__file__).parent
RESULTS = HERE / "results"
FIGURES = HERE.parent / "docs" / "figures"

# One look for each solver on every figure.
LOOKS = {
    "tacit": 0,
    "HiGHS simplex": 1,
    "HiGHS interior point": 2,
    "QuantEcon": 1,
    "QuantEcon modified": 2,
    "mdpsolver": 3,
    "pymdptoolbox": 4,
    "pymdptoolbox, values": 5,
    "imitation": 1,
    "tacit, larger grids": 5,
    "one call": 0,
    "one call, H200": 2,
    "a loop": 1,
    "reading and recovering": 0,
    "reading": 1,
    "Explanation": 0,
    "soft, tacit": 6,
    "soft, tacit on H200": 5,
    "scipy and NumPy": 1,
    "JAX as it comes": 2,
    "what the memory allows": 6,
}


@dataclass(frozen=True)
class Line:
    """One line of a panel: (size, measured) pairs; `bounds` are pairs measured only from below."""

    name: str
    points: tuple[tuple[float, float], ...]
    bounds: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Panel:
    """Lines on logarithmic axes with units; `level` is (height, words) of a target or a limit."""

    title: str
    across: str
    up: str
    lines: tuple[Line, ...]
    level: tuple[float, str] | None = None


# --------------------------------------------------------------------------------------------------
# What is drawn
# --------------------------------------------------------------------------------------------------


def solvers(rows: list[dict[str, Any]], task: str, discount: float) -> tuple[Line, ...]:
    """A line for every solver of a task, on the paper's grid."""
    chosen = [
        row
        for row in rows
        if (row["task"], row["discount"]) == (task, discount)
        and row["problem"].startswith("hill")
        and row["seconds"] is not None
    ]
    lines = []
    for name in dict.fromkeys(row["solver"] for row in chosen):
        own = [row for row in chosen if row["solver"] == name]
        points = {
            status: tuple((r["states"], r["seconds"]) for r in own if r["status"] == status)
            for status in ("done", "capped")
        }
        lines.append(Line(name, points["done"], points["capped"]))
    return tuple(lines)


def forward(found: dict[str, Any], task: str) -> list[Panel]:
    rows, panels = found["forward"]["rows"], []
    for discount in (0.95, 0.99):
        lines = solvers(rows, task, discount)
        if task == "constrained" and discount == 0.99:
            lines += soft(found)
        title = f"{task.capitalize()}, discount {discount:g}"
        panels.append(Panel(title, "states", "seconds of one solve", lines))
    return panels


def soft(found: dict[str, Any]) -> tuple[Line, ...]:
    """The entropy-regularised problem has no peer: on two cores, and on the accelerator."""
    rows = [r for r in found["forward"]["rows"] if r["task"] == "soft" and r["status"] == "done"]
    gpu = [found["gpu"]["rows"][name] for name in ("soft", "soft, largest")]
    return (
        Line("soft, tacit", tuple((r["states"], r["seconds"]) for r in rows)),
        Line("soft, tacit on H200", tuple((r["states"], r["seconds"]) for r in gpu)),
    )


def recoveries(found: dict[str, Any]) -> list[Panel]:
    gradient, scale = found["mce_irl"]["rows"], found["explanation_scale"]
    sides = {
        "tacit": "tacit_seconds_a_gradient_with_hessian",
        "imitation": "imitation_seconds_a_gradient",
    }
    lines = [
        Line(name, tuple((row["states"], row[key]) for row in gradient))
        for name, key in sides.items()
    ]
    # Another run than the one beside the peer, so another line.
    large = [row for row in found["curves"]["gradient"] if row["states"] > gradient[-1]["states"]]
    lines.append(Line("tacit, larger grids", tuple((r["states"], r["seconds"]) for r in large)))
    done = tuple((row["states"], row["seconds"]) for row in scale["rows"] if row["seconds"])
    stop = scale["limit_seconds"] + scale["grace_seconds"]
    late = tuple((row["states"], stop) for row in scale["rows"] if not row["seconds"])
    level = (scale["limit_seconds"], "one minute")
    return [
        Panel("Maximum causal entropy", "states", "seconds of one gradient", tuple(lines)),
        Panel(
            "Explanation, all intervals",
            "states",
            "seconds of one recovery",
            (Line("Explanation", done, late),),
            level,
        ),
    ]


def growth(found: dict[str, Any]) -> list[Panel]:
    curves, many = found["curves"], found["gpu"]["rows"]["many recoveries"]
    problems = [
        Line(
            way,
            tuple((r["problems"], r["seconds"]) for r in curves["problems"] if r["way"] == way),
        )
        for way in ("one call", "a loop")
    ]
    problems.append(Line("one call, H200", ((many["problems"], many["seconds"]),)))
    steps = [
        Line(name, tuple((row["steps"], row[key]) for row in curves["steps"]))
        for name, key in (("reading and recovering", "seconds"), ("reading", "read_seconds"))
    ]
    return [
        Panel("Convex, 5 x 5 grid", "problems", "seconds of all", tuple(problems)),
        Panel("Likelihood, 5 x 5 grid", "demonstrated steps", "seconds", tuple(steps)),
    ]


def memory(found: dict[str, Any]) -> list[Panel]:
    rows, panels = found["memory"]["rows"], []
    for task in ("constrained", "unconstrained"):
        chosen = [row for row in rows if row["task"] == task and row.get("added_gib")]
        lines = tuple(
            Line(
                name,
                tuple((r["states"], 1024 * r["added_gib"]) for r in chosen if r["solver"] == name),
            )
            for name in dict.fromkeys(row["solver"] for row in chosen)
        )
        panels.append(Panel(task.capitalize(), "states", "MiB added at the peak", lines))
    return panels


def limit(found: dict[str, Any]) -> list[Panel]:
    """The loops that everything is made of, and the time in which the memory could serve them."""
    report = found["bandwidth"]
    speed = max(report["bytes_a_second"].values())

    def panel(title: str, up: str, works: dict[str, str]) -> Panel:
        own = {w: [r for r in report["rows"] if r["work"] == w] for w in works}
        lines = [
            Line(name, tuple((r["states"], r["seconds"]) for r in own[w]))
            for w, name in works.items()
        ]
        floor = tuple((r["states"], r["bytes"] / speed) for r in next(iter(own.values())))
        lines.append(Line("what the memory allows", floor))
        return Panel(title, "states", up, tuple(lines))

    backups = {
        "backup": "tacit",
        "backup, scipy and NumPy": "scipy and NumPy",
        "backup, JAX as it comes": "JAX as it comes",
    }
    return [
        panel("Soft backup, all cores", "seconds of one backup", backups),
        panel("Krylov steps, one core", "seconds of 200 steps", {"Krylov steps, values": "tacit"}),
    ]


DRAWN: dict[str, Callable[[dict[str, Any]], list[Panel]]] = {
    "constrained": lambda found: forward(found, "constrained"),
    "unconstrained": lambda found: forward(found, "unconstrained"),
    "priced": lambda found: forward(found, "priced"),
    "memory": memory,
    "recoveries": recoveries,
    "growth": growth,
    "limit": limit,
}


# --------------------------------------------------------------------------------------------------
# How
# --------------------------------------------------------------------------------------------------

LEFT, TOP, HEIGHT, UNDER, LEGEND_LINE = 0.62, 0.32, 2.35, 0.5, 0.17  # inches


def figure_of(panels: Sequence[Panel]) -> Any:
    """Panels side by side on the same scales where they show the same, each with its legend."""
    cell = PAGE_WIDTH / len(panels)
    legend = max(-(-len(panel.lines) // 2) for panel in panels) * LEGEND_LINE + 0.1
    figure = new_figure(PAGE_WIDTH, TOP + HEIGHT + UNDER + legend)
    alike = len({(panel.across, panel.up) for panel in panels}) == 1
    every = [p for panel in panels for line in panel.lines for p in line.points + line.bounds]
    for index, panel in enumerate(panels):
        axes = axes_at(figure, index * cell + LEFT, TOP, cell - LEFT - 0.12, HEIGHT)
        with styled():
            draw(axes, panel)
            if alike:
                widen(axes, every)
    return figure


def draw(axes: Any, panel: Panel) -> None:
    axes.set(xscale="log", yscale="log", xlabel=panel.across, ylabel=panel.up)
    axes.set_title(panel.title)
    axes.grid(True, which="major", color=FAINT)
    for line in panel.lines:
        look = LOOKS[line.name]
        colour, ours = series_colour(look), line.name in ("tacit", "one call", "Explanation")
        style = {
            "color": colour,
            "marker": series_mark(look),
            "markersize": 5.0,
            "markeredgecolor": PAPER,
            "markeredgewidth": 0.5,
        }
        points = sorted(line.points)
        axes.plot(
            *zip(*points, strict=True),
            **style,
            ls=series_dash(look),
            lw=2.0 if ours else 1.2,
            zorder=4 if ours else 3,
            label=line.name,
        )
        for bound in line.bounds:
            # Stopped there: the arrow says that the true point lies higher.
            before = [max(points)] if points else []
            axes.plot(*zip(*before, bound, strict=True), color=colour, lw=1.0, ls=":", zorder=3)
            axes.plot(
                *bound,
                **{
                    **style,
                    "markerfacecolor": PAPER,
                    "markeredgecolor": colour,
                    "markeredgewidth": 1.1,
                },
            )
            axes.annotate(
                "", (bound[0], bound[1] * 2.6), bound,
                arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.0, "mutation_scale": 7},
            )  # fmt: skip
    if panel.level is not None:
        height, words = panel.level
        axes.axhline(height, color=MUTED, lw=0.9, ls=(0, (4, 2.5)), zorder=1.5)
        axes.annotate(
            words, (0, height), xycoords=("axes fraction", "data"), xytext=(3, 2),
            textcoords="offset points", color=MUTED, size=SMALL,
        )  # fmt: skip
    widen(axes, [p for line in panel.lines for p in line.points + line.bounds])
    axes.legend(
        loc="upper left", bbox_to_anchor=(-0.08, -0.17), ncols=2, frameon=False, fontsize=SMALL,
        handlelength=3.0, columnspacing=1.2, borderaxespad=0.0,
    )  # fmt: skip


def widen(axes: Any, points: Sequence[tuple[float, float]]) -> None:
    """Limits a little beyond the points, on both axes."""
    across, up = zip(*points, strict=True)
    axes.set_xlim(min(across) / 1.8, max(across) * 1.8)
    axes.set_ylim(min(up) / 2, max(up) * 4)


def digest(panels: Sequence[Panel]) -> str:
    """The same for the same points, names and units."""
    drawn = [
        [p.title, p.across, p.up, p.level, [[x.name, x.points, x.bounds] for x in p.lines]]
        for p in panels
    ]
    return hashlib.sha256(json.dumps(drawn).encode()).hexdigest()[:16]


def results() -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in RESULTS.glob("*.json")}


def main() -> None:
    found = results()
    for name, panels in ((name, make(found)) for name, make in DRAWN.items()):
        text = svg(figure_of(panels)).rstrip() + f"\n<!-- drawn from {digest(panels)} -->\n"
        (FIGURES / f"performance-{name}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
