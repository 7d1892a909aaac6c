"""Tracks: use of space beside what the fit expects, and the strength of selection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.show import Gallery, Paragraph, Picture, Section
from tacit.show.bands import PartialEffect, draw_partial_effect
from tacit.show.canvas import VISIT_MAP, figure_of, svg
from tacit.show.grid import limits_of
from tacit.show.maps import are_pointable, value_map
from tacit.show.quantities import NamedRecovery
from tacit.show.tables import short

OF_EFFECTS = ("values", "effects", "lower", "upper", "density")
MOST_EFFECTS = 12  # features of which the strength of selection is drawn


def space_sections(named: NamedRecovery, extras: Mapping[str, Any]) -> list[Section]:
    """The sections of tracks, as far as their numbers are there."""
    sections = []
    if "space" in extras and named.layout.is_map:
        sections.append(_use_section(named, extras["space"]))
    if effects := extras.get("selection", {}).get("effects"):
        sections.append(_selection_section(effects))
    return sections


def _use_section(named: NamedRecovery, told: Mapping[str, Any]) -> Section:
    maps = {"observed": told["observed"], "simulated from the fit": told["expected"]}
    shares = {
        name: 100.0 * np.asarray(values, float) / max(float(np.sum(values)), 1e-300)
        for name, values in maps.items()
    }
    pictures = [
        value_map(
            named.layout,
            one,
            name,
            colours=VISIT_MAP,
            limits=limits_of([*shares.values()]),
            unit=" %",
            bar="share of the steps, in %",
            pointable=are_pointable(named),
        )
        for name, one in shares.items()
    ]
    said = " ".join(str(one) for one in told.get("sentences", ()))
    return Section("Use of space", [Paragraph(said), Gallery(pictures)])


def _selection_section(effects: list[Mapping[str, Any]]) -> Section:
    pictures = []
    for told in effects[:MOST_EFFECTS]:
        arrays: dict[str, Any] = {name: np.asarray(told[name], float) for name in OF_EFFECTS}
        one = PartialEffect(
            feature=str(told["feature"]),
            block=int(told["block"]),
            absence=str(told["absence"]),
            **arrays,
        )
        alt = (
            f"Log relative selection strength of {one.feature}, from {short(one.effects[0])} at "
            f"{short(one.values[0])} to {short(one.effects[-1])} at {short(one.values[-1])}."
        )
        pictures.append(Picture(svg(figure_of(draw_partial_effect(one))), alt))
    lead = (
        "Log relative selection strength: how much likelier, in logarithms, a step is for what it "
        "meets there, beside a step that meets the mean of what was used; with the 95 % band."
    )
    return Section("Relative selection strength", [Gallery(pictures)], lead)
