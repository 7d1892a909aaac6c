"""The tables of docs/reproducing.md.

python benchmarks/tables.py    # writes them into the page, with those of docs/performance.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tables import Results, table
from tacit_lab.studies import LIKELIHOOD, MATCHING, RANDOM

Page = dict[str, Any]
COUNTS = ("same_in_every_cell", "visitation_within_0.07", "converged", "constraint_found")
ERRORS = ("reward_error", "cost_error", "starc", "feasible_balanced")


def number_tables(results: Page) -> str:
    """For each block how often the policy comes back and how far off all else is."""
    parts = [f"Made by `{results['command']}`."]
    for block in results["blocks"].values():
        parts.append(
            f"**{block['title'].capitalize()}**: {block['draws']} draws, {block['binding']} of "
            f"them binding, {block['infeasible']} infeasible; sampling noise of the feature gap "
            f"{_said(block['sampling_noise_mean'])} on average."
        )
        parts.append(_block(block))
    if studies := _studies(results):
        parts += ["**Length T**, noisy expert, median L1 error of the cost weights:", studies]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _block(block: Page) -> str:
    head = [
        "recovered by",
        "same policy in every cell",
        "visitation within 0.07",
        "converged",
        "constraint found",
        "visitation distance, mean",
        "feature gap, mean",
        "reward error",
        "cost error",
        "STARC",
        "feasible set",
        "peak found",
        "seconds",
    ]
    rows = []
    for name, row in block["estimators"].items():
        metrics, counts = row["metrics"], row["recovered"]
        known = metrics["peak"]["known"]
        hits = round((metrics["peak"]["mean"] or 0.0) * known)
        rows.append(
            [
                name,
                *(
                    f"{counts[key]} of {counts['draws']}" if key in counts else "–"
                    for key in COUNTS
                ),
                _said(metrics["visitation_distance"]["mean"]),
                _said(metrics["feature_gap"]["mean"]),
                *(_said(metrics[key]["median"]) for key in ERRORS),
                f"{hits} of {known}" if known else "–",
                "–" if name == RANDOM else _said(metrics["seconds"]["median"]),
            ]
        )
    return table(head, rows)


def _studies(results: Page) -> str:
    points = [p for p in results["studies"] if p["expert"] == "noisy"]
    along = [p for p in points if p["study"] == "steps"]
    positions = sorted({p["position"] for p in along})
    rows = []
    for name in (LIKELIHOOD, MATCHING):
        found = {p["position"]: p["cost_error"] for p in along if p["estimator"] == name}
        rows.append([name, *(_said(found.get(at)) for at in positions)])
    null = next((p["cost_error"] for p in points if p["estimator"] == RANDOM), None)
    rows.append([RANDOM, *(_said(null) for _ in positions)])
    return table(["recovered by", *(f"T = {at}" for at in positions)], rows) if along else ""


def _said(number: float | None) -> str:
    """Three decimals; a dash where there is no number."""
    return "–" if number is None else f"{number:.3f}"


BLOCKS: dict[str, Callable[[Results], str]] = {
    "reproduce": lambda found: number_tables(found["reproduce"]),
    "reproduce-as-written": lambda found: number_tables(found["reproduce-as-written"]),
}
