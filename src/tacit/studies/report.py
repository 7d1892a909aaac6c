"""The report of a run: findings, the paper's figure, tables over the seeds, studies, curves."""

from __future__ import annotations

from tacit import __version__
from tacit.show.document import Block as Element
from tacit.show.document import (
    Choice,
    Code,
    Details,
    Document,
    Facts,
    Items,
    Option,
    Picture,
    Section,
    Selector,
)
from tacit.studies import figures
from tacit.studies.conclusions import findings
from tacit.studies.records import BINDING, FIGURES, Block, Draw
from tacit.studies.scores import (
    binding_table,
    count_table,
    published_table,
    score_table,
    seed_tables,
)
from tacit.studies.tally import Run, command

LARGEST = 1_800_000  # bytes

SPREADS = (
    ("visitation distance", "visitation_distance"),
    ("feature gap", "feature_gap"),
    ("cost weights, L1", "cost_error"),
)


def document(run: Run) -> Document:
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
    return Document(
        title="Inverse reinforcement learning with constraint recovery, reproduced",
        headlines=findings(run),
        sections=[section for section in sections if section is not None],
        lead="Section 5 of the paper shows one figure and no numbers. Here its experiment is drawn "
        "again, solved, recovered by every estimator and measured against the truth.",
        facts=Facts(
            {
                "draws": settings.seeds,
                "demonstrations": f"{settings.trajectories} of {settings.steps} steps",
                "grid": f"{settings.size} x {settings.size}",
                "discount": settings.discount,
                "hill": settings.hill,
                "budgets": "; ".join(block.title for block in settings.blocks),
            }
        ),
        footer=f"tacit {__version__}. The numbers are in `results.json` beside this page.",
    )


def _figure_section(run: Run) -> Section | None:
    """The paper's six panels, for every draw and rule."""
    draws = [draw for draw in run.draws if draw.feasible]
    rules = list(dict.fromkeys(s.estimator for draw in draws for s in figures.drawn(draw)))
    if not rules:
        return None
    blocks = run.settings.blocks
    # The published draw first: it is the figure that readers know.
    draws.sort(key=lambda draw: (draw.seed >= 0, draw.seed))
    seeds = list(dict.fromkeys(draw.seed for draw in draws))
    options = []
    for draw in draws:
        block = [b.name for b in blocks].index(draw.block)
        for score in figures.drawn(draw):
            options.append(
                Option(
                    (seeds.index(draw.seed), block, rules.index(score.estimator)),
                    [
                        Picture(
                            _image(run, draw, score.estimator),
                            alt=f"True and recovered reward, cost and policy of {_seed(draw)}, "
                            f"{score.estimator}, {blocks[block].title}",
                            caption=_caption(draw, score.estimator),
                        )
                    ],
                )
            )
    choice = Choice(
        [
            Selector("draw", ["figure" if seed < 0 else str(seed) for seed in seeds]),
            Selector("budget", [block.title for block in blocks]),
            Selector("recovered by", rules),
        ],
        options,
        elsewhere=f"the folder `{FIGURES}`",
    )
    parts: list[Element] = [choice]
    if run.figures:
        parts.append(published_table(run))
        first = run.figures[0]
        picture = Picture(
            figures.published_panels(run.settings, first),
            alt="True and recovered reward, cost and policy as the authors printed them",
            caption="Reward weights .68 / .32 against .97 / .03; the true costs fit hill weights "
            "that sum to about 3. Drawn in the same units as above: cost weights of sum 1.",
        )
        parts.append(Details("The published figure, from its printed numbers", [picture]))
    return Section(
        "The paper's figure",
        parts,
        lead="True above, recovered below, each pair on one colour scale, with weights of sum 1. "
        "Where an action is as good as the one taken it is an outlined arrow.",
    )


def _image(run: Run, draw: Draw, estimator: str) -> str:
    """SVG of one draw, written when the draw was done."""
    name = f"{figures.figure_name(draw, estimator)}.svg"
    return (run.settings.out / FIGURES / name).read_text(encoding="utf-8")


def _caption(draw: Draw, estimator: str) -> str:
    score = draw.score(estimator)
    assert score is not None
    binds = "The budget binds" if draw.binds else "The budget is slack"
    return (
        f"{_seed(draw).capitalize()}. {binds}: it is {draw.budget:.3f}, the least possible cost "
        f"{draw.least:.3f}, the unconstrained one {draw.unconstrained:.3f}. Visitation distance "
        f"{score.metrics['visitation_distance']:.3f}; {score.status}."
    )


def _seed(draw: Draw) -> str:
    return "the published draw" if draw.seed < 0 else f"seed {draw.seed}"


def _block_section(run: Run, block: Block) -> Section | None:
    """The table of one budget over the seeds."""
    draws = run.block(block.name)
    if not draws:
        return None
    picture = Picture(
        figures.spread(run, block.name, SPREADS),
        alt="Visitation distance, feature gap and cost error of every draw, by estimator",
        caption="One mark a draw; the box is the middle half.",
    )
    title = block.title[0].upper() + block.title[1:]
    return Section(
        title, [count_table(run, draws), score_table(run, draws), picture, seed_tables(draws)]
    )


def _binding_section(run: Run) -> Section | None:
    """What a slack budget does to a recovery."""
    draws = [draw for block in run.settings.blocks for draw in run.block(block.name)]
    groups = {
        "binding": [draw for draw in draws if draw.binds],
        "slack": [draw for draw in draws if not draw.binds],
    }
    if not all(groups.values()):
        return None
    return Section(
        "Binding against slack budgets",
        [binding_table(run, groups)],
        lead="A slack budget leaves no trace in the behaviour. Cost weights recovered there are "
        "made up; estimators that find the constraint inactive give none.",
    )


def _study_section(run: Run) -> Section | None:
    if not run.sweeps:
        return None
    blocks: list[Element] = []
    for of, positions in (("steps", "length T"), ("trajectories", "trajectories")):
        for expert in dict.fromkeys(p.expert for p in run.sweeps[0].points if p.study == of):
            image = figures.study(run.sweeps, of=of, expert=expert, positions_name=positions)
            blocks.append(
                Picture(
                    image,
                    alt=f"Errors against {positions} for the {expert} expert",
                    caption=f"{expert.capitalize()} expert, errors against {positions}: median "
                    "over the draws, band from quartile to quartile, dashed: random weights.",
                )
            )
    return Section(
        "Accuracy against the amount of data",
        blocks,
        lead="The paper: increasing T increased the accuracy. The optimal expert keeps the budget "
        "halfway; the noisy one makes step likelihood and feature matching comparable.",
    )


def _convergence_section(run: Run) -> Section | None:
    name = BINDING if run.block(BINDING) else run.settings.blocks[0].name
    draws = run.block(name)
    rules = list(dict.fromkeys(s.estimator for d in draws for s in d.scores if s.trace is not None))
    if not rules:
        return None
    options = []
    shown = draws[:3]
    for at, draw in enumerate(shown):
        for rule, estimator in enumerate(rules):
            score = draw.score(estimator)
            assert score is not None
            options.append(
                Option(
                    (at, rule),
                    [
                        Picture(
                            figures.convergence(draw, score),
                            alt=f"Feature gap, weight change and multiplier of {estimator}",
                            caption=f"Seed {draw.seed}, {estimator}: {score.status}.",
                        )
                    ],
                )
            )
    selectors = [
        Selector("seed", [str(draw.seed) for draw in shown]),
        Selector("recovered by", rules),
    ]
    return Section(
        "Convergence",
        [Choice(selectors, options)],
        lead="The rounds of Algorithm 1 where the budget binds. The circle is the round kept.",
    )


def _method_section(run: Run) -> Section:
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
    return Section("How it was done", [Items(points), Code(command(settings))])
