"""The report of a run as a `Document`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit import __version__
from tacit.folders.runs import Run
from tacit.show.document import Block, Document, Facts, Items, Section
from tacit.show.recovery.data import data_section, guarantee_section, reproduce_section
from tacit.show.recovery.findings import NAMED, top_findings
from tacit.show.recovery.further import answers, further_sections, words
from tacit.show.recovery.ground import Ground
from tacit.show.recovery.maps import action_maps, map_gallery
from tacit.show.recovery.states import state_bars, state_choice, state_table
from tacit.show.recovery.subject import Subject
from tacit.show.recovery.weights import course, weight_tables
from tacit.show.tables import Cell

WEIGHTS = (
    "A weight says how much one unit of a feature counts. An expected discounted cost is what the "
    "whole way costs on average, later steps counting less; its budget is the most it accepts."
)


def recovery_document(run: Run) -> Document:
    """The report of a run: findings, maps or bars, weights, convergence, guarantees, data.

    `render` turns it into one HTML page; its figures can be read by pointing and by keys.
    """
    subject = Subject(run.recovery, run.layout)
    sections = [
        _world_section(subject),
        _state_section(subject),
        Section("Weights, budgets and prices", weight_tables(subject), WEIGHTS),
        *further_sections(run.extras),
        guarantee_section(run),
        Section("Convergence", course(subject)),
        data_section(run),
        reproduce_section(run),
    ]
    if len(run.notes) > NAMED:
        sections.insert(-3, Section("What was assumed", [Items(list(run.notes))]))
    return Document(
        title=_title(run.config),
        findings=top_findings(subject, run.notes, answers(run.extras)),
        sections=sections,
        lead="What a demonstrator wants and what it refuses, as far as its behaviour tells.",
        facts=Facts(_facts(run, subject)),
        footer=f"tacit {__version__}. The numbers are in `recovery.npz` beside this page.",
    )


def _world_section(subject: Subject) -> Section:
    """Maps of a grid; sorted bars of any other world."""
    if not subject.layout.is_grid:
        lead = "The states by what a step there earns, costs, and how often it is there."
        return Section("Where", [state_bars(subject)], lead)
    blocks: list[Block] = [map_gallery(subject)]
    details = action_maps(subject)
    if details is not None:
        blocks.append(details)
    ground, layout = Ground.of(subject), subject.layout
    lead = "Point at a cell, or move over a map with the arrow keys, to read its value."
    if not ground.told:
        lead = "The table below names the cells that are visited most."
    if ground.factor > 1:
        lead += (
            f" Each point is the mean over {ground.factor} x {ground.factor} of the "
            f"{layout.rows} x {layout.columns} cells."
        )
    if subject.constraints > 1:
        lead += " The maps of all costs share one colour scale."
    off = subject.states - layout.rows * layout.columns
    if off > 0:
        lead += f" {off} {'state lies' if off == 1 else 'states lie'} off the grid; see the table."
    return Section("Maps", blocks, lead)


def _state_section(subject: Subject) -> Section:
    return Section("State by state", [state_table(subject), *state_choice(subject)])


def _title(config: Mapping[str, Any]) -> str:
    name = str(config.get("problem") or "").rstrip("/").rpartition("/")[2]
    return f"What was recovered from {name}" if name else "What was recovered"


def _facts(run: Run, subject: Subject) -> dict[str, Cell]:
    facts: dict[str, Cell] = {
        "recovered by": run.recovery.estimator.partition("(")[0] or "an unnamed estimator",
        "states": subject.states,
        "actions": subject.actions,
        "constraints": subject.constraints,
    }
    for name in ("episodes", "steps", "discount"):
        value = run.data.get(name)
        if isinstance(value, int | float):
            facts[words(name)] = value
    return facts
