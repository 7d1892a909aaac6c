"""What the page of a run ends with: the data, each trajectory, how to reproduce it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tacit.estimators.joint_recovery import JointRecovery
from tacit.estimators.trips.traveller import TripsRecovery
from tacit.folders.recoveries import plain
from tacit.folders.runs import Run
from tacit.show import Block, Code, Facts, Items, Paragraph, Section
from tacit.show.tables import Cell, Head, Table, as_words, bars, cell

MOST_TRAJECTORIES = 300
MOST_PARTS = 24  # of one fact, such as the episodes of each group

HEADS = {  # of the columns about trajectories
    "origin": Head("From"),
    "goal": Head("To"),
    "log_likelihood": Head("Fit", "mean log-likelihood of a step"),
    "expected": Head("Usual fit", "for the recovered policy"),
    "z_score": Head("Standing", "standard deviations; low is bad"),
    "p_value": Head("p-value"),
    "share_optimal": Head("Best actions", "% of its steps"),
    "type": Head("Type", "the likeliest"),
}


def data_section(run: Run) -> Section:
    """The summary of the demonstrations and the fit of each, the worst first."""
    facts: dict[str, Cell] = {}
    lists: list[Block] = []
    for name, value in plain(dict(run.data)).items():
        if isinstance(value, Mapping):
            parts = [(key, one) for key, one in value.items() if isinstance(one, str | int | float)]
            facts |= {f"{as_words(name)}: {as_words(key)}": one for key, one in parts[:MOST_PARTS]}
            if len(parts) > MOST_PARTS:
                facts[f"{as_words(name)}: not shown here"] = len(parts) - MOST_PARTS
        elif isinstance(value, list):
            lists += [Items([str(one) for one in value])] if value else []
        elif value is not None:
            facts[as_words(name)] = cell(value)
    note = "The worst fits stand first: they are worth a look."
    fits = fit_tables(run.trajectories, "How well each trajectory fits", note)
    return Section("The demonstrations", [*([Facts(facts)] if facts else []), *lists, *fits])


def fit_tables(columns: Mapping[str, np.ndarray], caption: str, note: str) -> list[Block]:
    """One row a trajectory, in the order given; no table where nothing is known of them."""
    known = {name: np.asarray(column) for name, column in columns.items()}
    # A column of NaN alone says nothing.
    known = {name: one for name, one in known.items() if any(x == x for x in one.tolist())}
    if not known:
        return []
    count = max(map(len, known.values()))
    if count > MOST_TRAJECTORIES:
        note += f" The first {MOST_TRAJECTORIES} of {count} are listed."
    shown = [column_of(name, column.tolist()) for name, column in known.items()]
    shown[0] = (shown[0][0], [str(one) for one in shown[0][1]])  # names, not numbers
    cells = [(head, column[:MOST_TRAJECTORIES]) for head, column in shown]
    return [Table.of(caption, cells, note, listed=True)]


def column_of(name: str, values: Sequence[object]) -> tuple[Head, list[Cell]]:
    """The head and the cells of a column of numbers; shares and log-likelihoods with bars."""
    is_chance = name.startswith(("type_", "intention_"))
    usual = Head(as_words(name).capitalize(), "chance in %" if is_chance else "")
    cells: list[Cell] = [cell(value) for value in values]
    if name == "share_optimal" or is_chance:
        cells = [*bars(100.0 * np.array(values, float), limits=(0.0, 100.0))]
    elif name == "log_likelihood":
        cells = [*bars(np.array(values, float))]
    return HEADS.get(name, usual), cells


def reproduce_section(run: Run) -> Section:
    """The command, the versions, the seed and what identifies the data."""
    blocks: list[Block] = []
    if command := run.config.get("command"):
        blocks += [Paragraph("The same command gives the same numbers:"), Code(str(command))]
    if call := run.recovery.estimator:
        task = "mdp, features, demonstrations"
        if isinstance(run.recovery, TripsRecovery):
            task = f"tacit.Trips({task}, discount={run.recovery.discount:g})"
        program = f"tacit.recover({task}, estimator=tacit.{call})"
        if isinstance(run.recovery, JointRecovery):
            shared = not isinstance(run.recovery.reward_weights, tuple)
            program = f"tacit.recover([tacit.Task({task}), ...], share_reward={shared})"
        blocks += [Paragraph("In Python:"), Code(program)]
    seed = {} if run.seed is None else {"seed": str(run.seed)}
    blocks.append(Facts({**run.versions, **seed}))
    if run.hashes:
        sums = [("Part", [*run.hashes]), ("Checksum", [f"`{one}`" for one in run.hashes.values()])]
        note = "SHA-256 of what each part of the problem says: other data, other checksums."
        blocks.append(Table.of("Data", sums, note))
    return Section("How to reproduce", blocks)
