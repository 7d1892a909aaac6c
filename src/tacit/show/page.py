"""The report of a run as a `Document`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tacit import __version__
from tacit.folders.runs import Run
from tacit.inverse.joint.recovery import JointRecovery
from tacit.inverse.joint.traveller import TripsRecovery
from tacit.inverse.noisy.mixture import MixtureRecovery
from tacit.inverse.recovery import Recovery
from tacit.inverse.standardised import shown
from tacit.model.layout import Layout
from tacit.search.algebra import largest_first
from tacit.show import Document, Facts, Items, Section
from tacit.show.appendix import (
    MOST_TRAJECTORIES,
    data_section,
    guarantee_table,
    reproduce_section,
)
from tacit.show.checks import answers, check_sections
from tacit.show.curves import convergence_section
from tacit.show.grid import middles
from tacit.show.maps import are_told, forbidden_blocks, map_gallery
from tacit.show.quantities import (
    WEIGHTS,
    NamedRecovery,
    state_choice,
    state_table,
    weight_tables,
)
from tacit.show.report import NAMED, by_name, capital, headlines
from tacit.show.several import several_page
from tacit.show.summary import units_sentence
from tacit.show.tables import Bars, Column, Table, scale_of


def recovery_document(run: Run, *, private: bool = False, raw_units: bool = False) -> Document:
    """The report of a run: findings, maps, weights, guarantees, convergence, data.

    Of types of a mixture and of tasks: whether they fit, each in words, then side by side. `render`
    turns it into one HTML page; its figures can be read by pointing and by keys.

    Args:
        run: what was recovered, and from what.
        private: whether to leave out states, episodes, groups and paths, so that it can be shared.
        raw_units: whether weights and prices are of the features as given, not of standardised
            ones.
    """
    trajectories = run.trajectories
    run = without_names(run) if private else run
    found = shown(run.recovery, raw_units=raw_units)
    if isinstance(found, JointRecovery | MixtureRecovery):
        page = several_page(found, run, trajectories, private=private)
        first = (found.types if isinstance(found, MixtureRecovery) else found.recoveries)[0]
        run = replace(run, trajectories={})  # the table of memberships has the fits
    else:
        page, first = _page(found, run, private=private), found
    told = {name: run.data.get(name) for name in ("episodes", "steps", "discount")}
    numbers = {name: value for name, value in told.items() if isinstance(value, int | float)}
    own = page.facts.facts if page.facts else {}
    name = found.estimator.partition("(")[0] or "an unnamed estimator"
    last = [data_section(run), *([] if private else [reproduce_section(run)])]
    return replace(
        page,
        title=_title(run.config) + page.title,
        sections=[*page.sections, *last],
        lead=f"{page.lead} {units_sentence(first)}",
        facts=Facts({"recovered by": name, **own, **numbers}),
        footer=f"tacit {__version__}. The numbers are in `recovery.npz` beside this page.",
    )


def _page(found: Recovery, run: Run, *, private: bool) -> Document:
    """What the report of one recovery says of it, in the units to show."""
    found = by_name(found, run.layout)
    named = NamedRecovery(found, run.layout, bool(run.data.get("moves_estimated")))
    where = _trip_sections(named)
    if forbidden := forbidden_blocks(named):
        where.append(Section("What is forbidden", forbidden))
    where += _map_sections(named)
    where.append(Section("State by state", [state_table(named), *state_choice(named)]))
    assumed = () if private else named.assumptions(run.notes)
    findings = [capital(one) for one in found.identification.findings]
    proof = [*([Items(findings)] if findings else []), guarantee_table({"Value": found})]
    sections = [
        *([] if private else where),
        Section("Weights, budgets and prices", weight_tables(named), WEIGHTS),
        *check_sections(run.extras),
        Section("Guarantees and findings", proof, f"Status: {found.status.value}."),
        *([Section("What was assumed", [Items(assumed)])] if len(assumed) > NAMED else []),
        convergence_section(run.recovery),
    ]
    return Document(
        title="",
        headlines=headlines(named, assumed, answers(run.extras)),
        sections=sections,
        lead="What a demonstrator wants and what it refuses, as far as its behaviour tells.",
        facts=Facts(
            {
                "states": named.states,
                "actions": named.actions,
                "constraints": named.constraints,
            }
        ),
    )


def without_names(run: Run) -> Run:
    """The run without anything that tells where or who: states by number, no episode, no path."""
    layout = Layout(action_names=run.layout.action_names)
    data = {name: one for name, one in run.data.items() if isinstance(one, int | float)}
    extras = {name: one for name, one in run.extras.items() if name != "groups"}
    empty = {"trajectories": {}, "notes": (), "hashes": {}, "config": {}}
    found = run.recovery
    if getattr(getattr(found, "goodness", None), "farthest", ""):  # the name of an episode
        found = replace(found, goodness=replace(found.goodness, farthest=""))
    return replace(run, recovery=found, layout=layout, data=data, extras=extras, **empty)


def _trip_sections(named: NamedRecovery) -> list[Section]:
    """The goals, and how often each link is taken; nothing where the trajectories are no trips."""
    found = named.recovery
    if not isinstance(found, TripsRecovery):
        return []
    goals, trips = np.unique(found.destinations, return_counts=True)
    order = largest_first(trips)[:MOST_TRAJECTORIES]
    names = [named.state(goal) if goal >= 0 else "none" for goal in goals[order].tolist()]
    columns = [("Goal", names), ("Trips", Bars(trips[order], limits=scale_of(trips)))]
    lead = "Every trajectory is a trip to a goal of its own; weights and noise are those of all."
    tables = [Table.of("Goals", columns, listed=True), _flow_table(named, found)]
    return [Section("Goals and flows", tables, lead)]


def _flow_table(named: NamedRecovery, found: TripsRecovery) -> Table:
    """What the trips are expected to do, the most frequent first, and where they do otherwise."""
    flows, residuals = found.flows, found.goodness.residuals
    order = largest_first(flows)[:MOST_TRAJECTORIES]
    order = order[flows.ravel()[order] > 0]
    states, actions = np.divmod(order, named.actions)
    columns = [
        ("State", [named.state(s) for s in states]),
        ("Action", [named.action(a) for a in actions]),
        (Column("Flow", "expected uses by all trips"), Bars(flows.ravel()[order])),
        (
            Column("Residual", "seen more often than expected there"),
            residuals.ravel()[order] if residuals.size else np.full(len(order), np.nan),
        ),
    ]
    note = "Flows are those of all trips from where they began, by the recovered coefficients."
    return Table.of("Flows", columns, note, listed=True)


def _map_sections(named: NamedRecovery) -> list[Section]:
    """Maps, where it is known where states lie."""
    layout = named.layout
    if not layout.is_map:
        return []
    lead = "Point at a cell, or move over a map with the arrow keys, to read its value."
    if not are_told(named):
        lead = "The table below names the cells that are visited most."
    if named.constraints > 1:
        lead += " The maps of all costs share one colour scale."
    off = named.states - len(middles(layout))
    if off > 0:
        lead += f" {off} {'state lies' if off == 1 else 'states lie'} off the grid; see the table."
    return [Section("Maps", [map_gallery(named)], lead)]


def _title(config: Mapping[str, object]) -> str:
    """What a page about the run of these arguments is called."""
    name, only = str(config.get("problem") or "").rstrip("/").rpartition("/")[2], config.get("only")
    return f"What was recovered from {name}{f', {only}' if only else ''}".removesuffix(" from ")
