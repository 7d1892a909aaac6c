"""The tables of a run: every row beside what random weights get."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.show.document import Details
from tacit.show.tables import Best, Column, Row, RowKind, Spread, Table
from tacit.studies.records import RANDOM, Draw
from tacit.studies.tally import Run, published_row, recovered, values

# (metric, head, note, which is best)
METRICS = (
    ("reward_error", "reward error", "L1 of weights, 0 to 2", Best.LOWEST),
    ("cost_error", "cost error", "L1 of weights, 0 to 2", Best.LOWEST),
    ("starc", "STARC", "of the reward", Best.LOWEST),
    ("relative_regret", "regret", "share of range", Best.NONE),
    ("violation", "violation", "of the true budget", Best.LOWEST),
    ("multiplier_error", "multiplier error", "common gauge", Best.LOWEST),
    ("feasible_balanced", "feasible set", "balanced agreement", Best.HIGHEST),
    ("visitation_distance", "visitation distance", "state-action", Best.LOWEST),
    ("state_distance", "state distance", "states only", Best.LOWEST),
    ("policy_agreement", "policy agreement", "by visits", Best.HIGHEST),
    ("feature_gap", "feature gap", "relative", Best.LOWEST),
    ("iterations", "iterations", "", Best.NONE),
    ("seconds", "seconds", "", Best.NONE),
)


def published_table(run: Run) -> Table:
    """The published draw: what the authors printed, what we recover, what random weights get."""
    metrics = (
        ("reward_error", "reward error", "L1 of weights"),
        ("reward_correlation", "reward correlation", ""),
        ("cost_correlation", "cost correlation", ""),
        ("peak", "peak found", ""),
        ("cells", "cells agree", "share"),
        ("visitation_distance", "visitation distance", ""),
    )
    first = run.figures[0]
    printed = published_row(first)
    rows = [
        Row(["Authors' figure", "", *(printed.get(m) for m, _, _ in metrics)], RowKind.PUBLISHED)
    ]
    for draw in run.figures:
        rows += [
            Row([score.estimator, draw.block, *(score.metrics[m] for m, _, _ in metrics)])
            for score in draw.scores
        ]
        guesses = [Spread.of(draw.null[m]) for m, _, _ in metrics]
        rows.append(Row([RANDOM, draw.block, *guesses], RowKind.NULL))
    columns = [Column("recovered by"), Column("budget")]
    columns += [Column(head, note) for _, head, note in metrics]
    return Table(
        "The published draw",
        columns,
        rows,
        note="Budgets: published is 1, binding is halfway. The figure prints no budget and no "
        "visitation. It shows the same arrows for truth and recovery; they are the unconstrained "
        "optimum.",
    )


def score_table(run: Run, draws: Sequence[Draw]) -> Table:
    """Every metric of every estimator over the draws: median and middle half."""
    rows = [
        Row([name, *(Spread.of(values(draws, name, metric)) for metric, *_ in METRICS)])
        for name in run.estimators
    ]
    null = [
        None if m in ("iterations", "seconds") else Spread.of(values(draws, RANDOM, m))
        for m, *_ in METRICS
    ]
    rows.append(Row([RANDOM, *null], RowKind.NULL))
    columns = [Column("recovered by")]
    columns += [Column(head, note, best) for _, head, note, best in METRICS]
    noise = float(np.mean([draw.noise for draw in draws]))
    return Table(
        f"Over {len(draws)} draws: median, and the middle half",
        columns,
        rows,
        note=f"Sampling noise of the feature gap: {noise:.3f}. Regret is negative for a policy "
        "that earns more by spending more than allowed. Noisy estimators are judged by their own "
        "noisy policy; for the agreement of policies its most likely action counts.",
    )


def count_table(run: Run, draws: Sequence[Draw]) -> Table:
    """How often the policy came back."""
    heads = (
        ("same_in_every_cell", "same in every cell", "as a reader of the figure sees it"),
        ("same_where_it_goes", "same where it goes", "in every cell the expert visits"),
        ("visitation_within_0.07", "visitation within 0.07", ""),
        ("converged", "converged", "by its own rule"),
        ("constraint_found", "constraint found", "active, with weights"),
    )
    rows = []
    for name in (*run.estimators, RANDOM):
        counts = recovered(draws, name)
        cells = [f"{counts[k]} of {counts['draws']}" if k in counts else "–" for k, _, _ in heads]
        rows.append(Row([name, *cells], RowKind.NULL if name == RANDOM else RowKind.PLAIN))
    columns = [Column("recovered by"), *(Column(head, note) for _, head, note in heads)]
    return Table("How often the policy comes back", columns, rows)


def seed_tables(draws: Sequence[Draw]) -> Details:
    """Every number of every draw, folded away."""
    rows = []
    for draw in draws:
        binds = "binds" if draw.binds else "slack"
        for score in draw.scores:
            numbers = [
                getattr(score, m) if m in ("iterations", "seconds") else score.metrics[m]
                for m, *_ in METRICS
            ]
            name = f"seed {draw.seed}: {score.estimator}"
            rows.append(Row([name, binds, *numbers, draw.noise]))
        null = [Spread.of(draw.null[m]) if m in draw.null else None for m, *_ in METRICS]
        rows.append(Row([f"seed {draw.seed}: {RANDOM}", binds, *null, draw.noise], RowKind.NULL))
    columns = [Column("seed and estimator"), Column("budget")]
    columns += [Column(head, note) for _, head, note, _ in METRICS]
    columns.append(Column("noise", "of the feature gap"))
    return Details(
        "Every draw", [Table("Every draw, every estimator", columns, rows, searchable=True)]
    )


def binding_table(run: Run, groups: dict[str, list[Draw]]) -> Table:
    """The draws of each group side by side."""
    metrics = ("reward_error", "cost_error", "feasible_balanced", "visitation_distance")
    rows = []
    for name in (*run.estimators, RANDOM):
        cells: list[Spread] = []
        for metric in metrics:
            cells += [Spread.of(values(group, name, metric)) for group in groups.values()]
        rows.append(Row([name, *cells], RowKind.NULL if name == RANDOM else RowKind.PLAIN))
    heads = {m: head for m, head, *_ in METRICS}
    columns = [Column("recovered by")]
    columns += [Column(heads[m], word) for m in metrics for word in groups]
    counts = f"{len(groups['binding'])} binding and {len(groups['slack'])} slack draws"
    return Table(f"{counts}, both blocks: median and middle half", columns, rows)
