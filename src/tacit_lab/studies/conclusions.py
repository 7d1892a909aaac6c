"""What a run found, in plain words. Every number is computed from the run; none is remembered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit import pages
from tacit_lab.studies import (
    BINDING,
    CALIBRATED,
    EXPLANATION,
    LIKELIHOOD,
    MATCHING,
    PUBLISHED,
    RANDOM,
    RULES,
    Draw,
)
from tacit_lab.studies.tally import (
    NEAR,
    Reproduction,
    published_correlations,
    published_spread,
    recovered,
    values,
)

NOISE_FACTOR = 1.3  # a mean feature gap up to this many times its sampling noise is no error


def findings(run: Reproduction) -> list[pages.Headline]:
    """The findings, most important first; those that the draws do not speak of are left out."""
    found = [
        _policy(run),
        _calibrated(run),
        _weights(run),
        _binding(run),
        _explained(run),
        _lengths(run),
        _figure(run),
        _peak(run),
        _spread(run),
    ]
    return [finding for finding in found if finding is not None]


def _policy(run: Reproduction) -> pages.Headline | None:
    """The paper: the policy of what was recovered is the true one, in every seed."""
    parts, hits, total = [], 0, 0
    for block in run.settings.blocks:
        draws = run.block(block.name)
        counts = recovered(draws, RULES)
        if counts["draws"]:
            hits, total = hits + counts["same_in_every_cell"], total + counts["draws"]
            parts.append(
                f"{counts['same_in_every_cell']} of {counts['draws']} draws {block.phrase}"
            )
    if not total:
        return None
    everything = [draw for block in run.settings.blocks for draw in run.block(block.name)]
    sentences = []
    for word, binds in (("binds", True), ("is slack", False)):
        some = [draw for draw in everything if draw.binds is binds]
        if some:
            hits_here = recovered(some, RULES)["same_in_every_cell"]
            distance = np.median(values(some, RULES, "visitation_distance"))
            sentences.append(
                f"where the budget {word}, {hits_here} of {len(some)} with a median visitation "
                f"distance of {distance:.2f}"
            )
    return pages.Headline(
        "With its rules as published, Algorithm 1 brings back the true policy, cell for cell, in "
        f"{' and in '.join(parts)}.",
        label="Is the policy recovered?",
        verdict=_verdict(hits, total),
        tone=pages.Tone.GOOD if hits == total else pages.Tone.CAUTION,
        detail="The paper reports the same policy in its figure and the same trends in ten seeds. "
        f"Here, {'; '.join(sentences)}.",
    )


def _calibrated(run: Reproduction) -> pages.Headline | None:
    """Budgets set from the demonstrations, where the budget binds."""
    draws = run.block(BINDING)
    gaps = values(draws, CALIBRATED, "feature_gap")
    if not len(gaps):
        return None
    noise = float(np.mean([draw.noise for draw in draws]))
    distances = values(draws, CALIBRATED, "visitation_distance")
    gap, distance = float(gaps.mean()), float(distances.mean())
    both = gap <= NOISE_FACTOR * noise and distance <= NEAR
    rules = values(draws, RULES, "feature_gap")
    before = f", where the published rule leaves {rules.mean():.3f}" if len(rules) else ""
    return pages.Headline(
        "With the budget calibrated from the demonstrations the same algorithm matches what they "
        f"collect to {gap:.3f} on average{before}; sampling noise alone is {noise:.3f}. Its "
        f"policy is {distance:.3f} from the expert's, in total variation of the visitations.",
        label="Does a calibrated budget help?",
        verdict="yes" if both else "in part",
        tone=pages.Tone.GOOD if both else pages.Tone.CAUTION,
        detail=f"Means over {len(gaps)} draws whose budget binds. Ratio of gap to noise "
        f"{gap / noise:.2f}; policy the same in every cell in "
        f"{recovered(draws, CALIBRATED)['same_in_every_cell']} of {len(gaps)} draws.",
    )


def _weights(run: Reproduction) -> pages.Headline | None:
    """Weights against random ones: behaviour may come back while its reasons do not."""
    draws = run.block(BINDING)
    names = {
        RULES: "the published rule",
        CALIBRATED: "the calibrated rule",
        EXPLANATION: "the explanation set",
    }
    if not draws:
        return None
    sentences = [
        f"{word} {_median(draws, name, 'reward_error'):.2f} and "
        f"{_number(_median(draws, name, 'cost_error'))}"
        for name, word in names.items()
    ]
    guessed = [_median(draws, RANDOM, metric) for metric in ("reward_error", "cost_error")]
    # The published rule has no say: with no price its weights are those it started from.
    tried = [name for name in names if name != RULES]
    share = np.nanmin([*(_median(draws, name, "cost_error") for name in tried), 2.0]) / guessed[1]
    verdict = "yes" if share < 0.25 else "in part" if share < 0.6 else "hardly"
    how = "are" if verdict == "yes" else f"are {verdict}"
    return pages.Headline(
        f"The weights behind the behaviour {how} pinned down by it: median L1 errors of reward "
        f"and cost weights are {'; '.join(sentences)}; random weights get {guessed[0]:.2f} and "
        f"{guessed[1]:.2f}.",
        label="Are the weights recovered?",
        verdict=verdict,
        tone=pages.Tone.GOOD if verdict == "yes" else pages.Tone.CAUTION,
        detail="Both vectors have norm 1, so an error of 2 is the worst. An optimal expert leaves "
        "many explanations: see the explanation set.",
    )


def _binding(run: Reproduction) -> pages.Headline | None:
    """At the published budget many draws say nothing about the constraint."""
    draws = run.block(PUBLISHED)
    if not draws:
        return None
    binding = sum(draw.binds for draw in draws)
    slack = [str(draw.seed) for draw in draws if not draw.binds]
    text = (
        f"The published budget of 1 restrains the expert in {binding} of {len(draws)} draws; in "
        "the others the expert does what it would do without any constraint, and nothing about "
        "the constraint can be learnt."
        if slack
        else f"The published budget of 1 restrains the expert in all {len(draws)} draws."
    )
    detail = f"Slack seeds: {', '.join(slack)}." if slack else ""
    lost = run.settings.seeds - len(draws)
    detail += f" {lost} draws cannot meet the budget at all." if lost else ""
    return pages.Headline(
        text, label="Does budget 1 bind?", verdict=f"{binding} of {len(draws)}", detail=detail
    )


def _explained(run: Reproduction) -> pages.Headline | None:
    """The exact alternative for an optimal expert."""
    draws = run.block(BINDING)
    if not draws:
        return None
    counts = recovered(draws, EXPLANATION)
    states = values(draws, EXPLANATION, "state_distance")
    return pages.Headline(
        "Taking the expert for optimal instead of noisy, the explanation set brings back the "
        f"policy cell for cell in {counts['same_in_every_cell']} of {counts['draws']} draws whose "
        f"budget binds, with a mean state-visitation distance of {states.mean():.3f}.",
        label="Is there a better way?",
        detail="It takes no step size, no start and no iteration; ties between actions with the "
        "same consequences are counted as the same policy.",
    )


def _lengths(run: Reproduction) -> pages.Headline | None:
    """The paper: increasing T increased the accuracy."""
    lengths = run.settings.lengths
    middle = next((at for at in lengths if at >= 200), lengths[-1])
    if middle == lengths[-1] or not run.sweeps:
        return None
    steps = [(at, _study(run, LIKELIHOOD, at)) for at in (lengths[0], middle, lengths[-1])]
    match = [(at, _study(run, MATCHING, at)) for at in (lengths[0], middle, lengths[-1])]

    def said(rows: Sequence[tuple[int, float]]) -> str:
        return ", ".join(f"{error:.2f} at T = {at}" for at, error in rows)

    grows = steps[-1][1] < 0.9 * steps[0][1]
    still = abs(match[-1][1] - match[1][1]) <= 0.05 * max(match[1][1], 1e-12)
    return pages.Headline(
        f"Longer demonstrations {'help' if grows else 'do not help'} the step likelihood, whose "
        f"median cost-weight error is {said(steps)}. Feature matching has {said(match)}: "
        + (
            f"beyond {middle} steps nothing changes, because its discounted sums are complete."
            if still
            else "it still changes."
        ),
        label="Does a larger T help?",
        verdict="it depends on the method" if grows and still else ("yes" if grows else "no"),
        detail=f"A noisy expert, {run.settings.trajectories} trajectories. At discount "
        f"{run.settings.discount:g} a step after {middle} others weighs "
        f"{run.settings.discount**middle:.0e} of the first one.",
    )


def _figure(run: Reproduction) -> pages.Headline | None:
    """The published figure beside random weights."""
    draw = next((d for d in run.figures if d.block == PUBLISHED and d.feasible), None)
    if draw is None:
        return None
    reward, cost = published_correlations()
    null = [float(np.nanmedian(draw.null[f"{kind}_correlation"])) for kind in ("reward", "cost")]
    return pages.Headline(
        f"The recovered panels of the published figure correlate {reward:.3f} (reward) and "
        f"{cost:.3f} (constraint) with the true ones; random weights get {null[0]:.3f} and "
        f"{null[1]:.3f} in the median.",
        label="What does the figure show?",
        verdict="little beyond chance" if reward - null[0] < 0.05 and cost - null[1] < 0.05 else "",
        tone=pages.Tone.CAUTION,
        detail="Every non-negative weighting of row and column rises to the right and downwards, "
        "and every weighting of the hill features is high near the hill.",
    )


def _peak(run: Reproduction) -> pages.Headline | None:
    """The paper: the peak of the cost is well recovered."""
    draws = [draw for draw in run.block(BINDING) if draw.binds]
    hits = values(draws, CALIBRATED, "peak")
    if not len(hits):
        return None
    null = float(np.nanmean(values(draws, RANDOM, "peak")))
    rules = values(draws, RULES, "peak")
    told = f" and in {int(np.nansum(rules))} by the published one" if len(rules) else ""
    return pages.Headline(
        f"The cell of largest cost is found in {int(np.nansum(hits))} of {len(hits)} draws by "
        f"the calibrated rule{told}; random weights find it in {null:.0%}.",
        label="Is the peak of the cost found?",
    )


def _spread(run: Reproduction) -> pages.Headline | None:
    """The paper: the recovered reward varies less than the true one."""
    draws = [draw for block in run.settings.blocks for draw in run.block(block.name)]
    ratios = values(draws, RULES, "reward_spread")
    if not len(ratios):
        return None
    less = int((ratios < 1.0).sum())
    figure = published_spread()
    return pages.Headline(
        f"The recovered reward varies less over the grid than the true one in {less} of "
        f"{len(ratios)} recoveries; in the published figure its standard deviation is "
        f"{figure:.2f} times the true one's.",
        label="Does the reward vary less?",
        verdict=_verdict(less, len(ratios)),
        detail="The paper says it does. Since weights sum to 1, largest less smallest reward is "
        "the same for all of them; what can differ is the standard deviation.",
    )


def _study(run: Reproduction, estimator: str, length: int) -> float:
    """The median cost-weight error at that length, the noisy expert's."""
    points = [p for sweep in run.sweeps for p in sweep.points if p.expert == "noisy"]
    own = [p for p in points if p.study == "steps" and p.estimator == estimator]
    return float(np.nanmedian([p.cost_error for p in own if p.position == length]))


def _median(draws: Sequence[Draw], estimator: str, metric: str) -> float:
    numbers = values(draws, estimator, metric)
    return float(np.nanmedian(numbers)) if np.isfinite(numbers).any() else float("nan")


def _number(number: float) -> str:
    return "none" if np.isnan(number) else f"{number:.2f}"


def _verdict(hits: int, total: int) -> str:
    if hits == total:
        return "confirmed"
    return "not confirmed" if hits == 0 else "in part"
