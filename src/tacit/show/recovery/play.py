"""What it would do under other budgets: price curves, and a part of the page to play with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tacit.checks.prices import PriceCurve
from tacit.show.canvas import figure_of, svg
from tacit.show.document import Block, Gallery, Paragraph, Picture, Play, Section
from tacit.show.recovery.quantities import NamedRecovery
from tacit.show.tables import short

SWEEPS = "budgets"  # their name among the further results of a run
LEAD = (
    "What it would do if a budget were another, everything else being as recovered. Move a budget, "
    "or take a constraint away, and point at a place to read why something is done there."
)


def play_sections(named: NamedRecovery, extras: Mapping[str, object]) -> list[Section]:
    """The section about other budgets; none where nothing was computed for it."""
    sweeps = sweeps_of(extras)
    if not sweeps:
        return []
    pictures = [_curve_picture(named, curve_of(sweep)) for sweep in sweeps.values()]
    blocks: list[Block] = [_play(named, sweeps), Gallery(pictures)]
    if len(sweeps) > 1:
        blocks.insert(1, Paragraph("One budget moves at a time; the others stay as recovered."))
    return [Section("Under other budgets", blocks, LEAD)]


def sweeps_of(extras: Mapping[str, object]) -> dict[int, Mapping]:
    """Constraint -> its sweep, of a run's further results."""
    held = extras.get(SWEEPS)
    return {int(k): sweep for k, sweep in held.items()} if isinstance(held, Mapping) else {}


def curve_of(sweep: Mapping) -> PriceCurve:
    """The price curve that a run has kept."""
    kept = sweep["curve"]
    names = ("budgets", "values", "multipliers", "spent", "noise")
    return PriceCurve(
        constraint=int(kept["constraint"]),
        **{name: np.asarray(kept[name], dtype=float) for name in names},
        certificates=(),
        statuses=(),
        corners=None if kept.get("corners") is None else np.asarray(kept["corners"], dtype=float),
    )


def _curve_picture(named: NamedRecovery, curve: PriceCurve) -> Picture:
    from tacit.show.plot import price_curve

    axes = price_curve(curve)
    name = named.constraint(curve.constraint)
    axes.set_xlabel(f"budget of {name}")
    recovered = float(named.recovery.budgets[curve.constraint])
    axes.axvline(recovered, color="#595959", lw=0.8, ls=(0, (4, 3)))
    ends = f"{short(curve.budgets[0])} to {short(curve.budgets[-1])}"
    alt = (
        f"Price of the budget of {name} for budgets from {ends}: it falls from "
        f"{short(float(curve.multipliers.max()))} to {short(float(curve.multipliers.min()))}."
    )
    caption = f"Price of the budget of {name}; dashed: the budget as recovered."
    return Picture(svg(figure_of(axes)), alt, caption=caption, name=f"price-{curve.constraint}")


def _play(named: NamedRecovery, sweeps: Mapping[int, Mapping]) -> Play:
    layout, sliders, moved = named.layout, [], []
    arrows = layout.is_grid and bool(layout.directions)
    for k, sweep in sweeps.items():
        curve = curve_of(sweep)
        now = int(np.abs(curve.budgets - named.recovery.budgets[k]).argmin())
        texts = [
            f"budget {short(budget)}, price {short(price)}, reward {short(value)}"
            for budget, price, value in zip(
                curve.budgets.tolist(),
                curve.multipliers.tolist(),
                curve.values.tolist(),
                strict=True,
            )
        ]
        sliders.append((named.constraint(k), now, texts))
        moved.append({"points": [_point(sweep, p) for p in range(len(texts))]})
    data = {
        "rows": layout.rows if arrows else 0,
        "columns": layout.columns if arrows else 0,
        "directions": [list(step) for step in layout.directions],
        "states": [named.state(s) for s in range(named.states)],
        "actions": [named.action(a) for a in range(named.actions)],
        "order": np.argsort(-named.time, kind="stable")[:15].tolist(),
        "sweeps": moved,
    }
    return Play(sliders, data, "Sliders for the budgets need a browser that runs scripts.")


def _point(sweep: Mapping, p: int) -> dict[str, list]:
    """What is done at one budget, in few digits: the page must stay small."""
    found = {
        "policy": np.rint(1000 * np.asarray(sweep["policies"][p])).astype(int).ravel(),
        "visits": np.rint(10_000 * np.asarray(sweep["visits"][p])).astype(int),
    }
    told = {name: values.tolist() for name, values in found.items()}
    for name in ("worth", "burden"):
        values = np.nan_to_num(np.asarray(sweep[name][p], dtype=float)).ravel()
        told[name] = [float(f"{value:.2g}") for value in values.tolist()]
    return told
