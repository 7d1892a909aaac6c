"""Rows of measurements: what is done as they change, and whether chances are as they were seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.show import Gallery, Section
from tacit.show.curves import line_picture
from tacit.show.tables import Table

CHANGES = "What is done as measurements change"
RIGHT = "Are the chances right?"


def row_sections(told: Mapping[str, Any]) -> list[Section]:
    """Pictures of the effects of measurements, and a table of chances beside what was done."""
    actions = [str(one) for one in told["actions"]]
    pictures = []
    for effect in told["effects"]:
        chances = np.asarray(effect["chances"], float)
        lines = dict(zip(actions, chances.T, strict=True))
        at = np.asarray(effect["at"], float)
        pictures.append(line_picture("chance of an action", str(effect["name"]), at, lines))
    calibration = told["calibration"]
    tenths = max(len(one["expected"]) for one in calibration)
    columns: list[tuple[str, list[Any]]] = [("Tenth of the steps", [*range(1, tenths + 1)])]
    for one in calibration:
        columns += [
            (f"{one['action']}: chance", [*np.round(one["expected"], 3).tolist()]),
            (f"{one['action']}: share", [*np.round(one["seen"], 3).tolist()]),
        ]
    lead = "Each measurement from its second to its 98th hundredth, the others at their medians."
    table = Table.of("Steps in order of the chance of each action, in tenths", columns)
    return [Section(CHANGES, [Gallery(pictures)], lead), Section(RIGHT, [table])]
