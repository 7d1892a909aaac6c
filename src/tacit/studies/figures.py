"""The figures of a run: the paper's six panels, the studies, the way to convergence."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tacit.show.canvas import svg
from tacit.show.comparison import View, comparison_figure
from tacit.show.curves import Convergence, Curve, convergence_figure, study_figure
from tacit.show.strips import Group, spread_figure
from tacit.studies.draws import world_of
from tacit.studies.records import (
    CALIBRATED,
    EXPLANATION,
    FIGURE,
    LIKELIHOOD,
    MATCHING,
    RANDOM,
    REWARD_ONLY,
    RULES,
    SLIDES,
    Draw,
    Score,
    Settings,
    Sweep,
)
from tacit.studies.tally import Run, values
from tacit.worlds.hills import published_values

DRAWN = (RULES, CALIBRATED)  # one figure each, for every draw
# Names that fit beside a line or a box.
LABELS = {
    RULES: "Alg. 1, published",
    SLIDES: "Alg. 1, slides",
    CALIBRATED: "Alg. 1, calibrated",
    EXPLANATION: "explanation set",
    MATCHING: "feature matching",
    LIKELIHOOD: "step likelihood",
    REWARD_ONLY: "reward only",
    RANDOM: "random weights",
}


def drawn(draw: Draw) -> list[Score]:
    """The scores that are drawn."""
    return [score for name in DRAWN if (score := draw.score(name)) is not None]


def figure_name(draw: Draw, estimator: str) -> str:
    """The name of a figure's file."""
    seed = "published-draw" if draw.seed == FIGURE else f"seed-{draw.seed:03d}"
    word = re.sub(r"[^a-z0-9]+", "-", estimator.lower()).strip("-")
    return f"{draw.block}-{seed}-{word}"


def comparisons(settings: Settings, draw: Draw) -> dict[str, str]:
    """File name -> SVG of the paper's six panels, one an estimator that is drawn."""
    block = settings.block(draw.block)
    world = world_of(settings, block, draw.seed)
    true = View.of("True", world.truth, draw.policy, ties=np.array(draw.ties))
    figures = {}
    for score in drawn(draw):
        objective = world.features.objective(
            np.nan_to_num(score.reward_weights), [np.nan_to_num(score.cost_weights)], [1.0]
        )
        views = [true, View.of("Recovered", objective, score.policy)]
        title = f"{score.estimator}; {block.title}"
        figures[figure_name(draw, score.estimator)] = svg(
            comparison_figure(world.layout, views, title=title)
        )
    return figures


def published_panels(settings: Settings, draw: Draw) -> str:
    """SVG of the published figure, from its printed values, in the gauge."""
    world, printed = world_of(settings, settings.block(draw.block), FIGURE), published_values()
    size = float(np.asarray(printed.cost).sum() / world.truth.costs[0].sum())  # printed units
    policy = np.eye(4)[printed.policy]
    reward = world.features.reward
    views = [
        View("True", reward @ printed.reward_weights, printed.cost[None] / size, policy),
        View(
            "Recovered",
            reward @ printed.recovered_reward_weights,
            printed.recovered_cost[None] / size,
            policy,
        ),
    ]
    return svg(comparison_figure(world.layout, views, title="As printed by the authors"))


def study(sweeps: Sequence[Sweep], *, of: str, expert: str, positions_name: str) -> str:
    """SVG of the errors against the amount of data, for one expert."""
    points = [p for sweep in sweeps for p in sweep.points if p.expert == expert]
    names = list(dict.fromkeys(p.estimator for p in points if p.study == of))
    measures = (
        ("error of reward weights, L1", "reward_error"),
        ("error of cost weights, L1", "cost_error"),
        ("visitation distance", "visitation_distance"),
    )
    panels = []
    for title, metric in measures:
        null = [getattr(p, metric) for p in points if p.estimator == RANDOM]
        curves = []
        for name in names:
            own = [p for p in points if p.study == of and p.estimator == name]
            positions = sorted({p.position for p in own})
            samples = [[getattr(p, metric) for p in own if p.position == at] for at in positions]
            curves.append(Curve(LABELS[name], positions, samples))
        panels.append((title, curves, float(np.median(null)) if null else None))
    title = f"{expert} expert"
    return svg(study_figure(panels, positions_name=positions_name, title=title))


def convergence(draw: Draw, score: Score) -> str:
    """SVG of the way of one recovery: feature gap, change of the weights, multiplier."""
    assert score.trace is not None
    way = Convergence(
        score.trace.feature_gap,
        score.trace.weight_change,
        np.array(score.trace.multiplier)[:, None],
        noise=draw.noise,
        true_multipliers=[draw.multiplier],
        best=score.trace.best,
    )
    return svg(convergence_figure(way, title=f"{score.estimator}, seed {draw.seed}"))


def spread(run: Run, block: str, measures: Sequence[tuple[str, str]]) -> str:
    """SVG of every draw's number for each measure (its name, its metric) of a block."""
    draws = run.block(block)
    names = [*run.estimators, RANDOM]
    panels = [
        (
            title,
            [Group(LABELS[n], values(draws, n, metric), null=n == RANDOM) for n in names],
        )
        for title, metric in measures
    ]
    return svg(spread_figure(panels))
