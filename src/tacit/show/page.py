"""The report of a run as a `Document`, of one demonstrator, of types or of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit import __version__
from tacit.estimators.intentions import IntentionsRecovery
from tacit.estimators.kinds import KindsRecovery
from tacit.estimators.mixture import MixtureRecovery
from tacit.estimators.trips.traveller import TripsRecovery
from tacit.files.wording import capital
from tacit.folders.runs import Run
from tacit.inference.findings import Kind, of_kinds
from tacit.inference.standardised import shown
from tacit.model.layout import Layout
from tacit.search.algebra import largest_first
from tacit.show import Block, Disclosure, Document, Facts, Headline, Items, Section
from tacit.show.appendix import MOST_TRAJECTORIES, data_section, reproduce_section
from tacit.show.bands import curve_section
from tacit.show.checks import answers, check_sections
from tacit.show.curves import convergence_section
from tacit.show.differences import every_number
from tacit.show.grid import middles
from tacit.show.intentions import intention_sections
from tacit.show.maps import are_pointable, forbidden_blocks, map_gallery
from tacit.show.opening import opening
from tacit.show.quantities import (
    WEIGHTS,
    NamedRecovery,
    guarantee_table,
    number_blocks,
    state_choice,
    state_table,
    units_sentence,
)
from tacit.show.report import FINDINGS, NAMED, character, headlines
from tacit.show.rows import row_sections
from tacit.show.several import (
    AnyRecovery,
    Parts,
    fit_headlines,
    headlines_of_all,
    membership_section,
    open_headlines,
)
from tacit.show.space import space_sections
from tacit.show.tables import Head, Table, bars, scale_of

OWN = ("rows", "space", "selection")  # results with sections of their own
LEADS = {
    "": "What a demonstrator wants and what it refuses, as far as its behaviour tells.",
    "type": "Several types of demonstrators, nobody told who is of which: what each type wants and "
    "refuses, and which trajectories are likely its own.",
    "intention": "Several intentions between which demonstrators switch, nobody told when: what "
    "each wants and refuses, and which steps likely follow it.",
    "task": "Several tasks recovered together: what they share is one answer of all of them; the "
    "rest is their own.",
}


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
    fits = run.trajectories
    run = without_names(run) if private else run
    result = shown(run.recovery, raw_units=raw_units)
    is_assumed = bool(run.data.get("moves_estimated"))
    parts = Parts.of(result, run.layout, tasks=run.config.get("tasks"), assumed=is_assumed)
    assumed = [] if private or parts.kind else _assumptions(parts.first, run.notes)
    sections = [
        *_comparisons(result, parts, fits, private=private),
        *([] if private else _where(parts)),
        Section("Weights, budgets and prices", parts.blocks(number_blocks), WEIGHTS),
        *(curve_section(parts.first) if not parts.kind else []),
        *(row_sections(run.extras["rows"]) if "rows" in run.extras and not private else []),
        *(space_sections(parts.first, run.extras) if not private and not parts.kind else []),
        *check_sections({name: one for name, one in run.extras.items() if name not in OWN}),
        _guarantees(result, parts, private=private),
        *([Section("What was assumed", [Items(assumed)])] if len(assumed) > NAMED else []),
        convergence_section(run.recovery),
        # Tables of types and intentions have what is known of each trajectory.
        data_section(replace(run, trajectories={}) if isinstance(result, KindsRecovery) else run),
        *([] if private else [reproduce_section(run)]),
    ]
    return Document(
        _title(run.config, parts),
        _headlines(result, parts, run, fits, assumed=assumed, private=private),
        sections,
        lead=f"{LEADS[parts.kind]} {units_sentence(parts.first.recovery)}",
        facts=_facts(result, parts, run),
        opening=[] if parts.kind else opening(parts.first),
        footer=f"tacit {__version__}. The numbers are in `recovery.npz` beside this page.",
    )


def _headlines(
    result: AnyRecovery,
    parts: Parts,
    run: Run,
    fits: Mapping[str, np.ndarray],
    *,
    assumed: Sequence[str],
    private: bool,
) -> list[Headline]:
    """What was found: of one in full, of several what is said of all, then of each."""
    if not parts.kind:
        return headlines(parts.first, assumed, answers(run.extras))
    return [
        *fit_headlines(result, parts, fits, private=private),
        *headlines_of_all(result),
        *(character(named, name) for name, named in parts.each.items()),
        *open_headlines(result),
    ]


def _comparisons(
    result: AnyRecovery, parts: Parts, fits: Mapping[str, np.ndarray], *, private: bool
) -> list[Section]:
    """Types or tasks side by side; who is of which type, or what tasks share."""
    if not parts.kind:
        return []
    sections = [
        Section(f"The {_plural(parts)} side by side", every_number(parts.recoveries), WEIGHTS)
    ]
    if isinstance(result, MixtureRecovery) and not private:
        sections.append(membership_section(result, fits))
    if isinstance(result, IntentionsRecovery):
        sections += intention_sections(result, parts.first, fits, private=private)
    return sections


def _where(parts: Parts) -> list[Section]:
    """Maps and states; of several those of each, chosen by its name."""
    if not parts.kind:
        return _places(parts.first)

    def blocks(named: NamedRecovery) -> list[Block]:
        return [block for section in _places(named) for block in section.blocks]

    return [Section("Where each goes", parts.blocks(blocks))]


def _places(named: NamedRecovery) -> list[Section]:
    """Goals and flows of trips, what is forbidden, maps and states, where there are any."""
    recovery, forbidden = named.recovery, forbidden_blocks(named)
    return [
        *([_trip_section(named, recovery)] if isinstance(recovery, TripsRecovery) else []),
        *([Section("What is forbidden", forbidden)] if forbidden else []),
        *([_map_section(named)] if named.layout.is_map else []),
        *(
            [Section("State by state", [state_table(named), *state_choice(named)])]
            if named.tabular
            else []
        ),
    ]


def _guarantees(result: AnyRecovery, parts: Parts, *, private: bool) -> Section:
    """Every finding, of all and of each, and the numbers that the status of each rests on."""
    first = parts.first.recovery
    whole = result if parts.kind else first
    blocks: list[Block] = []
    if whole.identification.findings and not (parts.kind and private):
        blocks.append(Items([capital(one) for one in whole.identification.findings]))
    if not parts.kind:
        blocks.append(guarantee_table({"Value": first}))
    else:
        states = [named.recovery.status.value for named in parts.each.values()]
        columns = [(capital(parts.kind), [*parts.each]), ("Status", states)]
        blocks += [Table.of(f"Each {parts.kind}", columns), guarantee_table(parts.recoveries)]
        for name, one in parts.recoveries.items():
            findings = [capital(finding) for finding in one.identification.findings]
            if findings and not private:
                blocks.append(Disclosure(f"What is said of {name}", [Items(findings)]))
    return Section(FINDINGS, blocks, f"Status: {result.status.value}.")


def _facts(result: AnyRecovery, parts: Parts, run: Run) -> Facts:
    """What was run, in a strip."""
    first = parts.first
    sizes = {"constraints": first.constraints}
    if first.tabular:
        sizes = {"states": first.states, "actions": first.actions, **sizes}
    seen = {name: run.data.get(name) for name in ("episodes", "steps", "discount")}
    return Facts(
        {
            "recovered by": result.estimator.partition("(")[0] or "an unnamed estimator",
            **({_plural(parts): len(parts.each)} if parts.kind else sizes),
            **{name: one for name, one in seen.items() if isinstance(one, int | float)},
        }
    )


def _plural(parts: Parts) -> str:
    return parts.kind if len(parts.each) == 1 else f"{parts.kind}s"


def _title(config: Mapping[str, object], parts: Parts) -> str:
    """What the page about the run of these arguments is called."""
    problem = str(config.get("problem") or "").rstrip("/").rpartition("/")[2]
    title = f"What was recovered from {problem}" if problem else "What was recovered"
    title += f", {config['only']}" if config.get("only") else ""
    return f"{title}: {len(parts.each)} {_plural(parts)}" if parts.kind else title


def _assumptions(named: NamedRecovery, notes: Sequence[str]) -> list[str]:
    """The notes, and the findings that say what was assumed."""
    findings = of_kinds(named.recovery.identification.findings, [Kind.ASSUMED])
    return [*notes, *(str(one) for one in findings if one not in notes)]


def without_names(run: Run) -> Run:
    """The run without anything that tells where or who: states by number, no episode, no path."""
    layout = Layout(action_names=run.layout.action_names)
    data = {name: one for name, one in run.data.items() if isinstance(one, int | float)}
    extras = {name: one for name, one in run.extras.items() if name != "groups"}
    empty = {"trajectories": {}, "notes": (), "hashes": {}, "config": {}}
    result = run.recovery
    if getattr(getattr(result, "goodness", None), "farthest", ""):  # the name of an episode
        result = replace(result, goodness=replace(result.goodness, farthest=""))
    return replace(run, recovery=result, layout=layout, data=data, extras=extras, **empty)


def _trip_section(named: NamedRecovery, trips: TripsRecovery) -> Section:
    """The goals, and how often each link is taken."""
    goals, counts = np.unique(trips.destinations, return_counts=True)
    order = largest_first(counts)[:MOST_TRAJECTORIES]
    names = [named.state(goal) if goal >= 0 else "none" for goal in goals[order].tolist()]
    columns = [("Goal", names), ("Trips", bars(counts[order], limits=scale_of(counts)))]
    lead = "Every trajectory is a trip to a goal of its own; weights and noise are those of all."
    tables = [Table.of("Goals", columns, listed=True), _flow_table(named, trips)]
    return Section("Goals and flows", tables, lead)


def _flow_table(named: NamedRecovery, trips: TripsRecovery) -> Table:
    """What the trips are expected to do, the most frequent first, and where they do otherwise."""
    flows, residuals = trips.flows.ravel(), trips.goodness.residuals.ravel()
    order = largest_first(flows)[:MOST_TRAJECTORIES]
    order = order[flows[order] > 0]
    states, actions = np.divmod(order, named.actions)
    columns = [
        ("State", [named.state(s) for s in states]),
        ("Action", [named.action(a) for a in actions]),
        (Head("Flow", "expected uses by all trips"), bars(flows[order])),
    ]
    if residuals.size:
        head = Head("Residual", "seen more often than expected there")
        columns.append((head, residuals[order]))
    note = "Flows are those of all trips from where they began, by the recovered coefficients."
    return Table.of("Flows", columns, note, listed=True)


def _map_section(named: NamedRecovery) -> Section:
    """The maps, and how to read them."""
    lead = "Point at a cell, or move over a map with the arrow keys, to read its value."
    if not are_pointable(named):
        lead = "The table below names the cells that are visited most."
    if named.constraints > 1:
        lead += " The maps of all costs share one colour scale."
    off = named.states - len(middles(named.layout))
    if off > 0:
        lead += f" {off} {'state lies' if off == 1 else 'states lie'} off the grid; see the table."
    return Section("Maps", [map_gallery(named)], lead)
