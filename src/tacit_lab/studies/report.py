"""The report of a run: findings, the paper's figure, tables over the seeds, studies, curves."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

import tacit
from tacit import pages
from tacit_lab import figures
from tacit_lab.studies import (
    BINDING,
    CALIBRATED,
    EXPLANATION,
    FIGURE,
    FIGURES,
    LIKELIHOOD,
    MATCHING,
    RANDOM,
    REWARD_ONLY,
    RULES,
    SLIDES,
    Block,
    Draw,
    EstimatorScore,
    StudySettings,
    Sweep,
)
from tacit_lab.studies.conclusions import findings
from tacit_lab.studies.draws import world_of
from tacit_lab.studies.tally import (
    Reproduction,
    binding_table,
    command,
    count_table,
    published_table,
    score_table,
    seed_tables,
    values,
)
from tacit_lab.worlds import published_values

LARGEST = 1_500_000  # letters of the figures of all draws

SPREADS = (
    ("visitation distance", "visitation_distance"),
    ("feature gap", "feature_gap"),
    ("cost weights, L1", "cost_error"),
)
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


def document(run: Reproduction) -> pages.Document:
    """The report of a run whose figures of draws lie in its folder."""
    settings = run.settings
    sections = [
        _figure_section(run),
        *(_block_section(run, block) for block in settings.blocks),
        _binding_section(run),
        _study_section(run),
        _convergence_section(run),
        _method_section(run),
    ]
    return pages.Document(
        title="Inverse reinforcement learning with constraint recovery, reproduced",
        headlines=findings(run),
        sections=[section for section in sections if section is not None],
        lead="Section 5 of the paper shows one figure and no numbers. Here its experiment is drawn "
        "again, solved, recovered by every estimator and measured against the truth.",
        facts=pages.Facts(
            {
                "draws": settings.seeds,
                "demonstrations": f"{settings.trajectories} of {settings.steps} steps",
                "grid": f"{settings.size} x {settings.size}",
                "discount": settings.discount,
                "hill": settings.hill,
                "Algorithm 1": f"{settings.multiplier} multiplier, {settings.update} update",
                "budgets": "; ".join(block.title for block in settings.blocks),
            }
        ),
        footer=f"tacit {tacit.__version__}. The numbers are in `results.json` beside this page.",
    )


def _figure_section(run: Reproduction) -> pages.Section | None:
    """The paper's six panels, for every draw and rule."""
    draws = [draw for draw in run.draws if draw.feasible]
    rules = list(dict.fromkeys(s.estimator for draw in draws for s in drawn(draw)))
    if not rules:
        return None
    blocks = run.settings.blocks
    # The published draw first: it is the figure that readers know.
    draws.sort(key=lambda draw: (draw.seed >= 0, draw.seed))
    seeds = list(dict.fromkeys(draw.seed for draw in draws))
    options, letters = [], 0
    for draw in draws:
        block = [b.name for b in blocks].index(draw.block)
        for score in drawn(draw):
            at = (seeds.index(draw.seed), block, rules.index(score.estimator))
            name = f"{figure_name(draw, score.estimator)}.svg"  # written when the draw was done
            picture = pages.Picture(
                (run.settings.out / FIGURES / name).read_text(encoding="utf-8"),
                alt=f"True and recovered reward, cost and policy of {_seed(draw)}, "
                f"{score.estimator}, {blocks[block].title}",
                caption=_caption(draw, score),
            )
            letters += len(picture.image)
            if letters <= LARGEST or not options:
                options.append(pages.Option(at, [picture]))
    selectors = [
        pages.Selector("draw", ["figure" if seed < 0 else str(seed) for seed in seeds]),
        pages.Selector("budget", [block.title for block in blocks]),
        pages.Selector("recovered by", rules),
    ]
    parts: list[pages.Block] = [pages.Alternatives(selectors, options)]
    if letters > LARGEST:
        parts.append(pages.Paragraph(f"The figures of all draws are in the folder `{FIGURES}`."))
    if run.figures:
        parts.append(published_table(run))
        first = run.figures[0]
        picture = pages.Picture(
            published_panels(run.settings, first),
            alt="True and recovered reward, cost and policy as the authors printed them",
            caption="Reward weights .68 / .32 against .97 / .03; the true costs fit hill weights "
            "that sum to about 3. Drawn in the same units as above: cost weights of sum 1.",
        )
        parts.append(pages.Disclosure("The published figure, from its printed numbers", [picture]))
    return pages.Section(
        "The paper's figure",
        parts,
        lead="True above, recovered below, each pair on one colour scale, with weights of sum 1. "
        "Where an action is as good as the one taken it is an outlined arrow.",
    )


def _caption(draw: Draw, score: EstimatorScore) -> str:
    binds = "The budget binds" if draw.binds else "The budget is slack"
    return (
        f"{_seed(draw).capitalize()}. {binds}: it is {draw.budget:.3f}, the least possible cost "
        f"{draw.least:.3f}, the unconstrained one {draw.unconstrained:.3f}. Visitation distance "
        f"{score.metrics['visitation_distance']:.3f}; {score.status}."
    )


def _seed(draw: Draw) -> str:
    return "the published draw" if draw.seed < 0 else f"seed {draw.seed}"


def _block_section(run: Reproduction, block: Block) -> pages.Section | None:
    """The table of one budget over the seeds."""
    draws = run.block(block.name)
    if not draws:
        return None
    picture = pages.Picture(
        spread(run, block.name, SPREADS),
        alt="Visitation distance, feature gap and cost error of every draw, by estimator",
        caption="One mark a draw; the box is the middle half.",
    )
    title = block.title[0].upper() + block.title[1:]
    return pages.Section(
        title, [count_table(run, draws), score_table(run, draws), picture, seed_tables(draws)]
    )


def _binding_section(run: Reproduction) -> pages.Section | None:
    """What a slack budget does to a recovery."""
    draws = [draw for block in run.settings.blocks for draw in run.block(block.name)]
    groups = {
        "binding": [draw for draw in draws if draw.binds],
        "slack": [draw for draw in draws if not draw.binds],
    }
    if not all(groups.values()):
        return None
    return pages.Section(
        "Binding against slack budgets",
        [binding_table(run, groups)],
        lead="A slack budget leaves no trace in the behaviour. Cost weights recovered there are "
        "made up; estimators that find the constraint inactive give none.",
    )


def _study_section(run: Reproduction) -> pages.Section | None:
    if not run.sweeps:
        return None
    blocks: list[pages.Block] = []
    for of, positions in (("steps", "length T"), ("trajectories", "trajectories")):
        for expert in dict.fromkeys(p.expert for p in run.sweeps[0].points if p.study == of):
            image = study(run.sweeps, of=of, expert=expert, positions_name=positions)
            blocks.append(
                pages.Picture(
                    image,
                    alt=f"Errors against {positions} for the {expert} expert",
                    caption=f"{expert.capitalize()} expert, errors against {positions}: median "
                    "over the draws, band from quartile to quartile, dashed: random weights.",
                )
            )
    return pages.Section(
        "Accuracy against the amount of data",
        blocks,
        lead="The paper: increasing T increased the accuracy. The optimal expert keeps the budget "
        "halfway; the noisy one makes step likelihood and feature matching comparable.",
    )


def _convergence_section(run: Reproduction) -> pages.Section | None:
    draws = run.block(BINDING) or run.block(run.settings.blocks[0].name)
    rules = list(dict.fromkeys(s.estimator for d in draws for s in d.scores if s.trace is not None))
    if not rules:
        return None
    options, shown = [], draws[:3]
    for at, draw in enumerate(shown):
        for score in draw.scores:
            if score.trace is not None:
                picture = pages.Picture(
                    convergence(draw, score),
                    alt=f"Feature gap, weight change and multiplier of {score.estimator}",
                    caption=f"Seed {draw.seed}, {score.estimator}: {score.status}.",
                )
                options.append(pages.Option((at, rules.index(score.estimator)), [picture]))
    seeds = pages.Selector("seed", [str(draw.seed) for draw in shown])
    selectors = [seeds, pages.Selector("recovered by", rules)]
    return pages.Section(
        "Convergence",
        [pages.Alternatives(selectors, options)],
        lead="The rounds of Algorithm 1 where the budget binds. The circle is the round kept.",
    )


def _method_section(run: Reproduction) -> pages.Section:
    settings = run.settings
    shown = f"{settings.trajectories} demonstrations of {settings.steps} steps each"
    points = [
        "`recipe` in `results.json` is, for every draw, the call that makes its world again.",
        "The expert is exactly optimal; where its budget binds it may mix two actions in a cell.",
        f"{shown}, all from the top left cell.",
        "Random weights are flat on the simplex, with budgets that the expert just spends.",
        "Weight errors are full L1 distances of vectors of norm 1.",
        "STARC, in [0, 1], is blind to scale, shift and shaping of the reward.",
        "The feasible set is judged on optimal policies of random rewards, and mixtures of two.",
    ]
    return pages.Section("How it was done", [pages.Items(points), pages.Code(command(settings))])


def drawn(draw: Draw) -> list[EstimatorScore]:
    """The scores that are drawn."""
    return [score for name in DRAWN if (score := draw.score(name)) is not None]


def figure_name(draw: Draw, estimator: str) -> str:
    """The name of a figure's file."""
    seed = "published-draw" if draw.seed == FIGURE else f"seed-{draw.seed:03d}"
    word = re.sub(r"[^a-z0-9]+", "-", estimator.lower()).strip("-")
    return f"{draw.block}-{seed}-{word}"


def comparisons(settings: StudySettings, draw: Draw) -> dict[str, str]:
    """File name -> SVG of the paper's six panels, one an estimator that is drawn."""
    block = settings.block(draw.block)
    world = world_of(settings, block, draw.seed)
    true = figures.ObjectiveView.of("True", world.truth, draw.policy, ties=np.array(draw.ties))
    drawings = {}
    for score in drawn(draw):
        objective = world.features.objective(
            np.nan_to_num(score.reward_weights), [np.nan_to_num(score.cost_weights)], [1.0]
        )
        views = [true, figures.ObjectiveView.of("Recovered", objective, score.policy)]
        title = f"{score.estimator}; {block.title}"
        drawings[figure_name(draw, score.estimator)] = pages.svg(
            figures.comparison_figure(world.layout, views, title=title)
        )
    return drawings


def published_panels(settings: StudySettings, draw: Draw) -> str:
    """SVG of the published figure, from its printed values, in the gauge."""
    world, printed = (
        world_of(settings, settings.block(draw.block), FIGURE),
        published_values(),
    )
    size = float(np.asarray(printed.cost).sum() / world.truth.costs[0].sum())  # printed units
    policy = np.eye(4)[printed.policy]
    reward = world.features.reward
    views = [
        figures.ObjectiveView(
            "True", reward @ printed.reward_weights, printed.cost[None] / size, policy
        ),
        figures.ObjectiveView(
            "Recovered",
            reward @ printed.recovered_reward_weights,
            printed.recovered_cost[None] / size,
            policy,
        ),
    ]
    return pages.svg(
        figures.comparison_figure(world.layout, views, title="As printed by the authors")
    )


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
            curves.append(figures.SampleCurve(LABELS[name], positions, samples))
        panels.append((title, curves, float(np.median(null)) if null else None))
    title = f"{expert} expert"
    return pages.svg(figures.study_figure(panels, positions_name=positions_name, title=title))


def convergence(draw: Draw, score: EstimatorScore) -> str:
    """SVG of the way of one recovery: feature gap, change of the weights, multiplier."""
    assert score.trace is not None
    way = figures.Convergence(
        score.trace.feature_gap,
        score.trace.weight_change,
        np.array(score.trace.multiplier)[:, None],
        noise=draw.noise,
        true_multipliers=[draw.multiplier],
        best=score.trace.best,
    )
    return pages.svg(figures.convergence_figure(way, title=f"{score.estimator}, seed {draw.seed}"))


def spread(run: Reproduction, block: str, measures: Sequence[tuple[str, str]]) -> str:
    """SVG of every draw's number for each measure (its name, its metric) of a block."""
    draws = run.block(block)
    names = [*run.estimators, RANDOM]
    panels = [
        (
            title,
            [figures.Group(LABELS[n], values(draws, n, of), null=n == RANDOM) for n in names],
        )
        for title, of in measures
    ]
    return pages.svg(figures.spread_figure(panels))
