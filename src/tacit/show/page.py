"""The report of a run as a `Document`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit import __version__
from tacit.folders.recoveries import plain
from tacit.folders.runs import Run
from tacit.forward.solution import Certificate
from tacit.inference.numerics import largest_first
from tacit.inverse.joint.traveller import TripsRecovery
from tacit.inverse.standardised import shown
from tacit.model.transitions import Layout
from tacit.show import (
    Block,
    Choice,
    Code,
    Details,
    Document,
    Facts,
    Gallery,
    Items,
    Option,
    Paragraph,
    Section,
    Selector,
)
from tacit.show.checks import answers, cell, check_sections, history_picture, words
from tacit.show.grid import middles
from tacit.show.maps import are_told, forbidden_blocks, map_gallery
from tacit.show.quantities import (
    NamedRecovery,
    state_choice,
    state_table,
    weight_tables,
)
from tacit.show.report import NAMED, by_name, capital, headlines
from tacit.show.summary import units_sentence
from tacit.show.tables import Bars, Cell, Column, Table, scale_of, short

MOST_TRAJECTORIES = 300
MOST_PARTS = 24  # of one fact, such as the episodes of each group

HEADS = {  # of the columns about trajectories
    "episode": Column("Episode"),
    "group": Column("Group"),
    "origin": Column("From"),
    "goal": Column("To"),
    "steps": Column("Steps"),
    "log_likelihood": Column("Fit", "mean log-likelihood of a step"),
    "expected": Column("Usual fit", "for the recovered policy"),
    "z_score": Column("Standing", "standard deviations; low is bad"),
    "p_value": Column("Chance", "of a fit this bad"),
    "share_optimal": Column("Best actions", "% of its steps"),
}
WEIGHTS = (
    "A weight says how much one unit of a feature counts: its standard deviation, unless raw units "
    "are shown. An expected discounted cost is what the "
    "whole way costs on average, later steps counting less; its budget is the most it accepts."
)

SEARCH = "Weights and prices on the way are in the units of the features as given."


def recovery_document(run: Run, *, private: bool = False, raw_units: bool = False) -> Document:
    """The report of a run: findings, maps or bars, weights, convergence, guarantees, data.

    `render` turns it into one HTML page; its figures can be read by pointing and by keys.

    Args:
        run: what was recovered, and from what.
        private: whether to leave out states, episodes, groups and paths, so that it can be shared.
        raw_units: whether weights and prices are of the features as given, not of standardised
            ones.
    """
    run = without_names(run) if private else run
    given = run.recovery
    run = replace(run, recovery=by_name(shown(given, raw_units=raw_units), run.layout))
    named = NamedRecovery(run.recovery, run.layout, bool(run.data.get("moves_estimated")))
    where = _trip_sections(named)
    if forbidden := forbidden_blocks(named):
        where.append(Section("What is forbidden", forbidden))
    where += _map_sections(named)
    where.append(Section("State by state", [state_table(named), *state_choice(named)]))
    sections = [
        *([] if private else where),
        Section("Weights, budgets and prices", weight_tables(named), WEIGHTS),
        *check_sections(run.extras),
        guarantee_section(run),
        Section("Convergence", convergence_blocks(NamedRecovery(given, run.layout)), SEARCH),
        data_section(run),
        *([] if private else [reproduce_section(run)]),
    ]
    assumed = () if private else named.assumptions(run.notes)
    if len(assumed) > NAMED:
        sections.insert(-3, Section("What was assumed", [Items(list(assumed))]))
    return Document(
        title=title_of(run.config),
        headlines=headlines(named, assumed, answers(run.extras)),
        sections=sections,
        lead="What a demonstrator wants and what it refuses, as far as its behaviour tells. "
        + units_sentence(run.recovery),
        facts=Facts(_facts(run, named)),
        footer=f"tacit {__version__}. The numbers are in `recovery.npz` beside this page.",
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


def title_of(config: Mapping[str, object]) -> str:
    """What a page about the run of these arguments is called."""
    name, only = str(config.get("problem") or "").rstrip("/").rpartition("/")[2], config.get("only")
    return f"What was recovered from {name}{f', {only}' if only else ''}".removesuffix(" from ")


def _facts(run: Run, named: NamedRecovery) -> dict[str, Cell]:
    facts: dict[str, Cell] = {
        "recovered by": named.estimator,
        "states": named.states,
        "actions": named.actions,
        "constraints": named.constraints,
    }
    told = {words(name): run.data.get(name) for name in ("episodes", "steps", "discount")}
    return facts | {name: value for name, value in told.items() if isinstance(value, int | float)}


def data_section(run: Run) -> Section:
    """The summary of the demonstrations and the fit of each, the worst first."""
    facts: dict[str, Cell] = {}
    tables: list[Block] = []
    for name, value in plain(dict(run.data)).items():
        if isinstance(value, bool):
            facts[words(name)] = "yes" if value else "no"
        elif isinstance(value, str | int | float):
            facts[words(name)] = value
        elif isinstance(value, Mapping) and value:
            parts = [(k, v) for k, v in value.items() if isinstance(v, str | int | float)]
            facts |= {f"{words(name)}: {words(k)}": v for k, v in parts[:MOST_PARTS]}
            if len(parts) > MOST_PARTS:
                facts[f"{words(name)}: not shown here"] = len(parts) - MOST_PARTS
        elif isinstance(value, list) and value and all(isinstance(v, str) for v in value):
            tables.append(Items([str(v) for v in value]))
    blocks: list[Block] = [Facts(facts)] if facts else []
    return Section("The demonstrations", blocks + tables + fit_table(run.trajectories))


def fit_table(columns: Mapping[str, np.ndarray]) -> list[Block]:
    """One row a trajectory: how well it fits what was recovered, the worst first."""
    shown, count = [], 0
    for name, column in columns.items():
        cells: Sequence[Cell] | Bars = [cell(v) for v in np.asarray(column).tolist()]
        count = len(cells)
        if not any(v == v for v in cells):
            continue
        cells = cells[:MOST_TRAJECTORIES]
        if name == "share_optimal":
            cells = Bars(100.0 * np.asarray(column)[:MOST_TRAJECTORIES], limits=(0.0, 100.0))
        if name == "log_likelihood":
            cells = Bars(column[:MOST_TRAJECTORIES], limits=scale_of(column))
        cells = cells if shown or isinstance(cells, Bars) else [str(v) for v in cells]
        shown.append((HEADS.get(name, words(name).capitalize()), cells))
    if not shown:
        return []
    note = "The worst fits stand first: they are worth a look."
    if count > MOST_TRAJECTORIES:
        note += f" The {MOST_TRAJECTORIES} worst of {count} are listed."
    return [Table.of("How well each trajectory fits", shown, note, listed=True)]


def guarantee_section(run: Run) -> Section:
    """Everything the estimator has to say, word for word, and the numbers behind the status."""
    certificate, solution = run.recovery.certificate, run.recovery.solution
    nothing = Certificate(*[np.nan] * 4)  # trips have a solution for every goal
    solved = nothing if solution is None else solution.certificate
    numbers = [
        ("Feature gap", certificate.feature_gap, "between what is shown and what it would do"),
        ("Sampling noise", certificate.sampling_noise, "the feature gap that chance alone gives"),
        ("Truncation", certificate.truncation, "bound on what trajectories cut off may hide"),
        ("Projected gradient", certificate.projected_gradient, "0 at an optimum"),
        ("Weight change", certificate.weight_change, "in the last step"),
        ("Objective gap", certificate.objective_gap, "bound on the loss above its optimum"),
        ("Flow residual", solved.flow_residual, "of the recovered policy's visits"),
        ("Violation", solved.violation, "of its budgets"),
        ("Duality gap", solved.duality_gap, "proof that no policy is better by more"),
        ("Slackness", solved.slackness, "price times unused budget"),
    ]
    names, values, meanings = zip(*(one for one in numbers if not np.isnan(one[1])), strict=True)
    columns = [
        ("Number", names),
        ("Value", [short(value, digits=2) for value in values]),
        ("What it is", meanings),
    ]
    note = "Anyone can compute these from the arrays of the run; smaller is better."
    table = Table.of("What the status rests on", columns, note)
    findings = [capital(f) for f in run.recovery.identification.findings]
    blocks: list[Block] = [Items(findings)] if findings else []
    lead = f"Status: {run.recovery.status.value}."
    return Section("Guarantees and findings", [*blocks, table], lead)


def reproduce_section(run: Run) -> Section:
    """The command, the versions, the seed and what identifies the data."""
    config = plain(dict(run.config))
    blocks: list[Block] = []
    command = config.pop("command", None)
    if isinstance(command, list):
        command = shlex.join(str(word) for word in command)
    if command:
        blocks += [Paragraph("The same command gives the same numbers:"), Code(str(command))]
    call = run.recovery.estimator
    if call:
        task = "mdp, features, demonstrations"
        if isinstance(run.recovery, TripsRecovery):
            task = f"tacit.Trips({task}, discount={run.recovery.discount:g})"
        program = f"tacit.recover({task}, estimator=tacit.{call})"
        if hasattr(run.recovery, "recoveries"):  # several tasks
            shared = not isinstance(run.recovery.reward_weights, tuple)
            program = f"tacit.recover([tacit.Task({task}), ...], share_reward={shared})"
        blocks += [Paragraph("In Python:"), Code(program)]
    facts: dict[str, Cell] = {str(name): str(value) for name, value in run.versions.items()}
    if run.seed is not None:
        facts["seed"] = str(run.seed)
    blocks.append(Facts(facts))
    if run.hashes:
        sums = [("Part", [*run.hashes]), ("Checksum", [f"`{one}`" for one in run.hashes.values()])]
        note = "SHA-256 of what each part of the problem says: other data, other checksums."
        blocks.append(Table.of("Data", sums, note))
    if config:
        values = ["–" if v in (None, "") else f"`{v}`" for v in config.values()]
        columns = [("Name", [words(name) for name in config]), ("Value", values)]
        blocks.append(Details("All settings", [Table.of("Settings", columns)]))
    return Section("How to reproduce", blocks)


MOST_FOLLOWED = 12  # features followed over the iterations
MOST_STOPS = 40  # of the slider

FOLLOWED = {  # columns of a history that are drawn
    "feature_gap": "feature gap",
    "weight_change": "change of the weights",
    "loss": "loss",
    "projected_gradient": "gradient",
    "violation": "violation",
}


def convergence_blocks(named: NamedRecovery) -> list[Block]:
    """The curves of the search, and a slider over its iterations; nothing if it has no history."""
    history = named.recovery.history
    rows = _kept_rows(named)
    names = [name for name in FOLLOWED if name in history.columns]
    if len(rows) < 2:
        facts = ", ".join(
            f"{name.replace('_', ' ')} {short(float(np.ravel(column)[-1]))}"
            for name, column in history.columns.items()
            if len(column) and column.ndim == 1
        )
        at_the_end = f" At its end: {facts}." if facts else ""
        return [Paragraph(f"The search keeps no record of its steps.{at_the_end}")]
    noise = named.recovery.certificate.sampling_noise
    curves = [(FOLLOWED[n], history[n][rows], noise if n == "feature_gap" else None) for n in names]
    pictures: list[Block] = [
        history_picture(title, np.asarray(values, float), level)
        for title, values, level in curves
        if values.ndim == 1 and np.isfinite(np.asarray(values, float)).any()
    ]
    blocks: list[Block] = [Gallery(pictures)] if pictures else []
    return blocks + _slider(named, rows)


def _kept_rows(named: NamedRecovery) -> np.ndarray:
    """The rows of the history that led to the answer: of several starts, the one that was kept."""
    history = named.recovery.history
    rows = np.arange(len(history))
    if "start" not in history.columns or "reward_weights" not in history.columns:
        return rows
    distance = np.abs(history["reward_weights"] - named.recovery.reward_weights).sum(axis=1)
    for k, weights in enumerate(named.recovery.cost_weights):
        name = f"cost_weights_{k}"
        if named.identified[k] and name in history.columns:
            distance = distance + np.abs(history[name] - weights).sum(axis=1)
    distance = np.where(np.isfinite(distance), distance, np.inf)
    return rows[history["start"] == history["start"][int(distance.argmin())]]


def _slider(named: NamedRecovery, rows: np.ndarray) -> list[Block]:
    """The weights and prices at chosen iterations; the last is shown at first."""
    history, recovery = named.recovery.history, named.recovery
    groups = [("refuses", f"cost_weights_{k}", n) for k, n in enumerate(recovery.cost_names)]
    groups = [("wants", "reward_weights", recovery.reward_names), *groups]
    groups = [group for group in groups if group[1] in history.columns]
    if not groups:
        return []
    spread = np.linspace(0, len(rows) - 1, min(len(rows), MOST_STOPS))
    stops = np.unique(spread.round().astype(int))
    order = {
        name: largest_first(np.abs(np.nan_to_num(history[name][rows[-1]]))) for _, name, _ in groups
    }
    options = []
    for index in reversed(range(len(stops))):
        row = rows[stops[index]]
        followed = [
            (names[j], part, history[name][row, j])
            for part, name, names in groups
            for j in order[name][:MOST_FOLLOWED]
        ]
        features, parts, weights = zip(*followed, strict=True)
        bars = (Column("Weight", "scale 0 to 1"), Bars(weights, limits=(0.0, 1.0)))
        prices = history["multipliers"][row] if "multipliers" in history.columns else []
        said = ", ".join(short(float(price)) for price in np.ravel(prices))
        note = f"Price of the budget: {said}." if said else ""
        caption = f"Iteration {stops[index] + 1} of {len(rows)}"
        columns = [("Feature", features), ("Part", parts), bars]
        options.append(Option((index,), [Table.of(caption, columns, note)]))
    selector = Selector("iteration", [str(stop + 1) for stop in stops], slider=True)
    return [Choice([selector], options)]
