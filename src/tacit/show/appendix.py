"""What the page of a run ends with: the data, what the status rests on, how to reproduce it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import numpy as np

from tacit.folders.recoveries import plain
from tacit.folders.runs import Run
from tacit.inverse.joint.recovery import JointRecovery
from tacit.inverse.joint.traveller import TripsRecovery
from tacit.inverse.recovery import Recovery
from tacit.show import Block, Code, Facts, Items, Paragraph, Section
from tacit.show.tables import Bars, Cell, Column, Table, as_words, cell, scale_of, short

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
    "type": Column("Type", "the likeliest"),
}
RESTS_ON = {  # numbers of the certificates of a recovery and of its solution: name, meaning
    "feature_gap": ("Feature gap", "between what is shown and what it would do"),
    "sampling_noise": ("Sampling noise", "the feature gap that chance alone gives"),
    "truncation": ("Truncation", "bound on what trajectories cut off may hide"),
    "projected_gradient": ("Projected gradient", "0 at an optimum"),
    "weight_change": ("Weight change", "in the last step"),
    "objective_gap": ("Objective gap", "bound on the loss above its optimum"),
    "flow_residual": ("Flow residual", "of the recovered policy's visits"),
    "violation": ("Violation", "of its budgets"),
    "duality_gap": ("Duality gap", "proof that no policy is better by more"),
    "slackness": ("Slackness", "price times unused budget"),
}


def guarantee_table(each: Mapping[str, Recovery]) -> Table:
    """The numbers behind the status of each of these recoveries, a column each."""
    known = {}
    for name, one in each.items():
        numbers = vars(one.certificate)
        if one.solution is not None:  # trips have a solution for every goal
            numbers = numbers | vars(one.solution.certificate)
        known[name] = [float(numbers.get(number, np.nan)) for number in RESTS_ON]
    rows = np.flatnonzero(np.isfinite([*known.values()]).any(axis=0)).tolist()
    names, meanings = zip(*RESTS_ON.values(), strict=True)
    columns = [
        ("Number", [names[k] for k in rows]),
        *((name, [short(values[k], digits=2) for k in rows]) for name, values in known.items()),
        ("What it is", [meanings[k] for k in rows]),
    ]
    note = "Anyone can compute these from the arrays of the run; smaller is better."
    return Table.of("What the status rests on", columns, note)


def data_section(run: Run) -> Section:
    """The summary of the demonstrations and the fit of each, the worst first."""
    facts: dict[str, Cell] = {}
    tables: list[Block] = []
    for name, value in plain(dict(run.data)).items():
        if isinstance(value, bool):
            facts[as_words(name)] = "yes" if value else "no"
        elif isinstance(value, str | int | float):
            facts[as_words(name)] = value
        elif isinstance(value, Mapping) and value:
            parts = [(k, v) for k, v in value.items() if isinstance(v, str | int | float)]
            facts |= {f"{as_words(name)}: {as_words(k)}": v for k, v in parts[:MOST_PARTS]}
            if len(parts) > MOST_PARTS:
                facts[f"{as_words(name)}: not shown here"] = len(parts) - MOST_PARTS
        elif isinstance(value, list) and value and all(isinstance(v, str) for v in value):
            tables.append(Items([str(v) for v in value]))
    blocks: list[Block] = [Facts(facts)] if facts else []
    note = "The worst fits stand first: they are worth a look."
    fits = fit_table(run.trajectories, "How well each trajectory fits", note)
    return Section("The demonstrations", [*blocks, *tables, *fits])


def fit_table(columns: Mapping[str, np.ndarray], caption: str, note: str) -> list[Block]:
    """One row a trajectory, in the order given; no table where nothing is known of them."""
    shown, count = [], 0
    for name, column in columns.items():
        whole = np.asarray(column)
        values, count = whole[:MOST_TRAJECTORIES], len(whole)
        if name == "share_optimal" or name.startswith("type_"):
            cells = Bars(100.0 * values, limits=(0.0, 100.0))
        elif name == "log_likelihood":
            cells = Bars(values, limits=scale_of(whole))
        else:
            cells = [cell(value) if shown else str(value) for value in values.tolist()]
        if any(value == value for value in whole.tolist()):  # not all is NaN
            head = Column(as_words(name).capitalize(), "chance in %" if name[-1].isdigit() else "")
            shown.append((HEADS.get(name, head), cells))
    if not shown:
        return []
    if count > MOST_TRAJECTORIES:
        note += f" The first {MOST_TRAJECTORIES} of {count} are listed."
    return [Table.of(caption, shown, note, listed=True)]


def reproduce_section(run: Run) -> Section:
    """The command, the versions, the seed and what identifies the data."""
    blocks: list[Block] = []
    command = run.config.get("command")
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
        if isinstance(run.recovery, JointRecovery):
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
    return Section("How to reproduce", blocks)
