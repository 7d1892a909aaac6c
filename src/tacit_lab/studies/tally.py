"""The draws and sweeps of a run as numbers: the page `results.json`, and tables of a report."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacit import judge, pages
from tacit_lab.studies import FIGURE, RANDOM, Draw, EstimatorScore, StudySettings, Sweep, SweepPoint
from tacit_lab.studies.draws import ESTIMATORS
from tacit_lab.worlds import published_values

Page: TypeAlias = dict[str, Any]  # plain JSON: numbers, text, lists and pages, by name
NEAR = 0.07  # a visitation distance up to which two behaviours look alike
DIGITS = 4
OWN = ("iterations", "seconds")  # metrics of an estimator, which random weights do not have


@dataclass(frozen=True)
class Reproduction:
    """Everything a run computed.

    Attributes:
        settings: what was asked.
        draws: one a block and seed, in order; then the published draw at each budget.
        sweeps: one a seed.
    """

    settings: StudySettings
    draws: tuple[Draw, ...]
    sweeps: tuple[Sweep, ...]

    def block(self, name: str) -> list[Draw]:
        """The draws of a block that can be met, the published one left out."""
        return [d for d in self.draws if d.block == name and d.seed != FIGURE and d.feasible]

    @property
    def figures(self) -> list[Draw]:
        """The published draw, once a block."""
        return [draw for draw in self.draws if draw.seed == FIGURE]

    @property
    def estimators(self) -> list[str]:
        """The estimators that were run, in the order of the table."""
        ran = {score.estimator for draw in self.draws for score in draw.scores}
        return [name for name in ESTIMATORS if name in ran]


def quartiles(samples: npt.ArrayLike) -> pages.IntervalEstimate:
    """The median of the samples [M] and, as its interval, their middle half; without NaN."""
    numbers = np.asarray(samples, dtype=float).ravel()
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return pages.IntervalEstimate(np.nan)
    # The nearest sample, not a mean of two, where there are infinities: they have none.
    method = "linear" if np.isfinite(numbers).all() else "nearest"
    low, middle, high = np.quantile(numbers, (0.25, 0.5, 0.75), method=method).tolist()
    return pages.IntervalEstimate(middle, low, high)


def values(draws: Iterable[Draw], estimator: str, metric: str) -> np.ndarray:
    """[M] one number a draw; of random weights, one a guess of every draw."""
    if estimator == RANDOM:
        return np.array([x for draw in draws for x in draw.null.get(metric, [])])
    scores = [draw.score(estimator) for draw in draws]
    return np.array([_number(score, metric) for score in scores if score is not None], float)


def _number(score: EstimatorScore, metric: str) -> float:
    return getattr(score, metric) if metric in OWN else score.metrics[metric]


def recovered(draws: Sequence[Draw], estimator: str) -> dict[str, int]:
    """In how many draws, or random guesses, the policy came back, by three readings of that."""
    cells, visited, distances = (
        values(draws, estimator, metric)
        for metric in ("cells", "policy_agreement", "visitation_distance")
    )
    counts = {
        "draws": len(cells),
        "same_in_every_cell": int((cells >= 1 - 1e-9).sum()),
        "same_where_it_goes": int((visited >= 1 - 1e-9).sum()),
        "visitation_within_0.07": int((distances <= NEAR).sum()),
    }
    if estimator != RANDOM:
        scores = [score for draw in draws if (score := draw.score(estimator)) is not None]
        counts["converged"] = sum(score.converged for score in scores)
        counts["constraint_found"] = sum(score.active for score in scores)
    return counts


def tally(run: Reproduction) -> Page:
    """The results as plain JSON: settings, a summary a block, every draw, the studies."""
    blocks = {}
    for block in run.settings.blocks:
        draws = run.block(block.name)
        rows = {name: _summary(draws, name) for name in (*run.estimators, RANDOM)}
        blocks[block.name] = {
            "title": block.title,
            "draws": len(draws),
            "infeasible": sum(
                not d.feasible for d in run.draws if d.block == block.name and d.seed != FIGURE
            ),
            "binding": sum(draw.binds for draw in draws),
            "binding_by_seed": {str(draw.seed): draw.binds for draw in draws},
            "sampling_noise_mean": _middle([draw.noise for draw in draws], np.mean),
            "estimators": rows,
        }
    return {
        "command": command(run.settings),
        "settings": run.settings.identity(),
        "blocks": blocks,
        "published_draw": [_figure(draw) for draw in run.figures],
        "studies": studies(run.sweeps),
        "draws": [_plain(draw) for draw in run.draws if draw.seed != FIGURE],
    }


def to_text(results: Page) -> str:
    """The results as JSON, one line a draw and a point of a study: small, and fit for a diff."""
    lines = []
    for key, value in results.items():
        if isinstance(value, list):
            rows = ",\n  ".join(json.dumps(row, allow_nan=False) for row in value)
            lines.append(f"{json.dumps(key)}: [\n  {rows}\n ]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def command(settings: StudySettings) -> str:
    """What to type for these results."""
    usual = StudySettings().identity()
    words = [f"--{k} {v}" for k, v in settings.identity().items() if v != usual.get(k)]
    return " ".join(["tacit reproduce", *words])


def studies(sweeps: Sequence[Sweep]) -> list[Page]:
    """Medians over the seeds, one entry a study, expert, estimator and position."""
    keys = ("study", "expert", "estimator", "position")
    errors = ("reward_error", "cost_error", "visitation_distance")
    groups: dict[tuple, list[SweepPoint]] = {}
    for point in (point for sweep in sweeps for point in sweep.points):
        groups.setdefault(tuple(getattr(point, name) for name in keys), []).append(point)
    return [
        dict(zip(keys, key, strict=True))
        | {name: _middle(getattr(point, name) for point in points) for name in errors}
        for key, points in groups.items()
    ]


def _summary(draws: Sequence[Draw], estimator: str) -> Page:
    """Median, quartiles and mean of every metric of one row."""
    names = list(draws[0].null) if draws else []
    own = () if estimator == RANDOM else OWN
    metrics = {}
    for name in [*names, *own]:
        numbers = values(draws, estimator, name)
        known = numbers[np.isfinite(numbers)]
        low, middle, high = np.quantile(known, (0.25, 0.5, 0.75)) if len(known) else (np.nan,) * 3
        metrics[name] = {
            "median": _short(middle),
            "quartiles": [_short(low), _short(high)],
            "mean": _middle(known, np.mean),
            "known": len(known),
        }
    return {"recovered": recovered(draws, estimator), "metrics": metrics}


def _figure(draw: Draw) -> Page:
    return {
        **_plain(draw),
        "random_weights": {name: _middle(numbers) for name, numbers in draw.null.items()},
    }


def _plain(draw: Draw) -> Page:
    """A draw without what can be computed again: policies, rounds, guesses."""
    return {
        "block": draw.block,
        "seed": draw.seed,
        "recipe": draw.recipe,
        "feasible": draw.feasible,
        "binds": draw.binds,
        "budget": _short(draw.budget),
        "least_cost": _short(draw.least),
        "unconstrained_cost": _short(draw.unconstrained),
        "multiplier": _short(draw.multiplier),
        "sampling_noise": _short(draw.noise),
        "reward_weights": [_short(x) for x in draw.reward_weights],
        "cost_weights": [_short(x) for x in draw.cost_weights],
        "scores": [
            {
                "estimator": score.estimator,
                "converged": score.converged,
                "active": score.active,
                "iterations": score.iterations,
                "seconds": _short(score.seconds, 2),
                "reward_weights": [_short(x) for x in score.reward_weights],
                "cost_weights": [_short(x) for x in score.cost_weights],
                **{name: _short(number) for name, number in score.metrics.items()},
            }
            for score in draw.scores
        ],
    }


def _short(number: float, digits: int = DIGITS) -> float | None:
    """The number with few digits; None where there is none, which JSON calls null."""
    return float(f"{float(number):.{digits}g}") if math.isfinite(number) else None


def _middle(numbers: Iterable[float], kind: Callable[..., float] = np.median) -> float | None:
    """The median of what is known, or its mean, with few digits; None where nothing is."""
    known = [x for x in numbers if math.isfinite(x)]
    return _short(kind(known)) if known else None


def published_correlations() -> tuple[float, float]:
    """Correlation of the published recovered reward and cost with the published true ones."""
    printed = published_values()
    row, column = np.divmod(np.arange(len(printed.cost)), 5)
    places = np.stack([row, column], axis=1)
    reward = judge.correlation(
        places @ printed.reward_weights, places @ printed.recovered_reward_weights
    )
    return reward, judge.correlation(printed.cost, printed.recovered_cost)


def published_row(draw: Draw) -> dict[str, float]:
    """The metrics that the published figure allows to compute."""
    assert draw.seed == FIGURE
    printed = published_values()
    reward, cost = published_correlations()
    gaps = np.abs(printed.recovered_reward_weights - printed.reward_weights)
    return {
        "reward_error": float(gaps.sum()),
        "reward_correlation": reward,
        "cost_correlation": cost,
        "cells": 1.0,
        "peak": float(printed.cost[int(printed.recovered_cost.argmax())] >= printed.cost.max()),
    }


def published_spread() -> float:
    """Standard deviation of the published recovered reward over the grid, in true ones."""
    printed = published_values()
    return float(
        np.linalg.norm(printed.recovered_reward_weights) / np.linalg.norm(printed.reward_weights)
    )


# (metric, head, note, which is best)
METRICS = (
    ("reward_error", "reward error", "L1 of weights, 0 to 2", pages.Best.LOWEST),
    ("cost_error", "cost error", "L1 of weights, 0 to 2", pages.Best.LOWEST),
    ("starc", "STARC", "of the reward", pages.Best.LOWEST),
    ("relative_regret", "regret", "share of range", pages.Best.NONE),
    ("violation", "violation", "of the true budget", pages.Best.LOWEST),
    ("multiplier_error", "multiplier error", "common gauge", pages.Best.LOWEST),
    ("feasible_balanced", "feasible set", "balanced agreement", pages.Best.HIGHEST),
    ("visitation_distance", "visitation distance", "state-action", pages.Best.LOWEST),
    ("state_distance", "state distance", "states only", pages.Best.LOWEST),
    ("policy_agreement", "policy agreement", "by visits", pages.Best.HIGHEST),
    ("feature_gap", "feature gap", "relative", pages.Best.LOWEST),
    ("iterations", "iterations", "", pages.Best.NONE),
    ("seconds", "seconds", "", pages.Best.NONE),
)


def published_table(run: Reproduction) -> pages.Table:
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
        pages.Row(
            ["Authors' figure", "", *(printed.get(m) for m, _, _ in metrics)],
            pages.RowKind.PUBLISHED,
        )
    ]
    for draw in run.figures:
        rows += [
            pages.Row([score.estimator, draw.block, *(score.metrics[m] for m, _, _ in metrics)])
            for score in draw.scores
        ]
        guesses = [quartiles(draw.null[m]) for m, _, _ in metrics]
        rows.append(pages.Row([RANDOM, draw.block, *guesses], pages.RowKind.NULL))
    columns = [pages.Head("recovered by"), pages.Head("budget")]
    columns += [pages.Head(head, note) for _, head, note in metrics]
    return pages.Table(
        "The published draw",
        columns,
        rows,
        note="Budgets: published is 1, binding is halfway. The figure prints no budget and no "
        "visitation. It shows the same arrows for truth and recovery; they are the unconstrained "
        "optimum.",
    )


def score_table(run: Reproduction, draws: Sequence[Draw]) -> pages.Table:
    """Every metric of every estimator over the draws: median and middle half."""

    def cell(name: str, metric: str) -> pages.IntervalEstimate | None:
        if name == RANDOM and metric in OWN:
            return None
        return quartiles(values(draws, name, metric))

    rows = _rows(run, lambda name: [cell(name, metric) for metric, *_ in METRICS])
    columns = [pages.Head("recovered by")]
    columns += [pages.Head(head, note, best) for _, head, note, best in METRICS]
    noise = float(np.mean([draw.noise for draw in draws]))
    return pages.Table(
        f"Over {len(draws)} draws: median, and the middle half",
        columns,
        rows,
        note=f"Sampling noise of the feature gap: {noise:.3f}. Regret is negative for a policy "
        "that earns more by spending more than allowed. Noisy estimators are judged by their own "
        "noisy policy; for the agreement of policies its most likely action counts.",
    )


def count_table(run: Reproduction, draws: Sequence[Draw]) -> pages.Table:
    """How often the policy came back."""
    heads = (
        ("same_in_every_cell", "same in every cell", "as a reader of the figure sees it"),
        ("same_where_it_goes", "same where it goes", "in every cell the expert visits"),
        ("visitation_within_0.07", "visitation within 0.07", ""),
        ("converged", "converged", "by its own rule"),
        ("constraint_found", "constraint found", "active, with weights"),
    )

    def cells(name: str) -> list[str]:
        counts = recovered(draws, name)
        return [f"{counts[k]} of {counts['draws']}" if k in counts else "–" for k, _, _ in heads]

    columns = [pages.Head("recovered by"), *(pages.Head(head, note) for _, head, note in heads)]
    return pages.Table("How often the policy comes back", columns, _rows(run, cells))


def _rows(run: Reproduction, cells: Callable[[str], Sequence]) -> list[pages.Row]:
    """One row an estimator, and one of random weights."""
    names = (*run.estimators, RANDOM)
    kinds = [pages.RowKind.NULL if name == RANDOM else pages.RowKind.PLAIN for name in names]
    return [pages.Row([name, *cells(name)], kind) for name, kind in zip(names, kinds, strict=True)]


def seed_tables(draws: Sequence[Draw]) -> pages.Disclosure:
    """Every number of every draw, folded away."""
    rows = []
    for draw in draws:
        binds = "binds" if draw.binds else "slack"
        for score in draw.scores:
            numbers = [_number(score, metric) for metric, *_ in METRICS]
            name = f"seed {draw.seed}: {score.estimator}"
            rows.append(pages.Row([name, binds, *numbers, draw.noise]))
        null = [quartiles(draw.null[m]) if m in draw.null else None for m, *_ in METRICS]
        rows.append(
            pages.Row([f"seed {draw.seed}: {RANDOM}", binds, *null, draw.noise], pages.RowKind.NULL)
        )
    columns = [pages.Head("seed and estimator"), pages.Head("budget")]
    columns += [pages.Head(head, note) for _, head, note, _ in METRICS]
    columns.append(pages.Head("noise", "of the feature gap"))
    return pages.Disclosure(
        "Every draw", [pages.Table("Every draw, every estimator", columns, rows, listed=True)]
    )


def binding_table(run: Reproduction, groups: dict[str, list[Draw]]) -> pages.Table:
    """The draws of each group side by side."""
    metrics = ("reward_error", "cost_error", "feasible_balanced", "visitation_distance")
    columns_asked = [(metric, group) for metric in metrics for group in groups.values()]
    rows = _rows(
        run, lambda name: [quartiles(values(group, name, m)) for m, group in columns_asked]
    )
    heads = {m: head for m, head, *_ in METRICS}
    columns = [pages.Head("recovered by")]
    columns += [pages.Head(heads[m], word) for m in metrics for word in groups]
    counts = f"{len(groups['binding'])} binding and {len(groups['slack'])} slack draws"
    return pages.Table(f"{counts}, both blocks: median and middle half", columns, rows)
