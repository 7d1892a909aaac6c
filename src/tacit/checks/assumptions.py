"""Which assumption do the demonstrations contradict? Each is given up in turn, and what that gains.

Every alternative is compared with the plain noisy expert by its likelihood on the same actions:
lapses, another discount, a feature more, a noise by group or trajectory, groups or types that want
other things.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from tacit.checks import Alternative, Diagnosis, Together
from tacit.checks.groups import degrees_of_freedom
from tacit.checks.untaken import untaken_by
from tacit.data.demonstrations import Demonstrations
from tacit.engine.progress import unwatched
from tacit.errors import InvalidModel
from tacit.inference.tails import chi_square_tail
from tacit.inverse.expectations import check_task
from tacit.inverse.findings import listed
from tacit.inverse.joint.resample import GivenUp, alternatives
from tacit.inverse.joint.trips import Trips
from tacit.inverse.noisy import lapses
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.noisy.marks import mark_name, marked, missing_marks, with_marks
from tacit.inverse.noisy.types import degrees, search, trajectory_p_value
from tacit.inverse.recovery import Recovery
from tacit.likelihood.kinds import Units, one_direction
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# Projected gradient of searches whose ends are only compared: criteria do not differ by so little.
COMPARED = 1e-6
# What assumptions are given up for, where two of them are fitted together.
LAPSES, DISCOUNT, MARK = "lapses", "another discount", "a feature more"
UNTAKEN = "untaken actions closed"
NOISE_BY_GROUP, BY_GROUP = "a noise by group", "weights by group"
# Marks of states and actions in the place of a missing feature, at most.
MARKS = 3


class Setting(NamedTuple):
    """The world that an alternative is fitted in.

    Attributes:
        seen: the trajectories.
        options: of a fit.
        base: the fit of the plain model there.
        features: what reward and costs may be made of.
        demonstrations: what was seen.
        layout: names of states and actions.
        seed: of starts and redrawn actions.
    """

    seen: Units
    options: Likelihood
    base: Fit
    features: Features
    demonstrations: Demonstrations
    layout: Layout
    seed: int


def diagnose(
    mdp: MDP | Trips,
    features: Features | None = None,
    demonstrations: Demonstrations | None = None,
    recovery: Recovery | None = None,
    *,
    estimator: Likelihood | None = None,
    seed: int = 0,
    layout: Layout | None = None,
) -> Diagnosis:
    """The `Diagnosis` of the assumptions of a noisy recovery.

    Args:
        mdp: the known world; or `Trips`, which have features and demonstrations.
        features: what reward and costs may be made of.
        demonstrations: what was seen.
        recovery: what was recovered, to refuse one of an expert without noise; may be left out.
        estimator: a `Likelihood`, for the signs of its reward; its default by default.
        seed: of starts and redrawn actions.
        layout: names of states and actions.
    """
    if recovery is not None and not recovery.temperature > 0:
        raise InvalidModel(
            "the diagnosis compares likelihoods: recover with Likelihood(); "
            f"this recovery has none ({recovery.estimator:.60})"
        )
    if isinstance(mdp, Trips):
        with unwatched():
            free = estimator or Likelihood(free_reward=True)
            loss, steps, rest = alternatives(mdp, free, layout or Layout())
            return _diagnosis(loss, steps, rest)
    features, demonstrations = cast("Features", features), cast("Demonstrations", demonstrations)
    check_task(mdp, features, demonstrations, in_memory=True)
    options = Likelihood((estimator or Likelihood()).free_reward, max_steps=100)
    with unwatched():
        seen = Units.trajectories(mdp, Design.of(mdp, features), demonstrations)
        base = maximum(seen.whole, replace(options, max_steps=300))
        at = Setting(seen, options, base, features, demonstrations, layout or Layout(), seed)
        asked = (_lapses, _discount, _marks, _untaken, _groups, _trajectories)
        found = [one for ask in asked for one in ask(at)]
        steps = demonstrations.steps
        told = _diagnosis(base.loss, steps, (one[:-1] for one in found))
        inside = {one[1]: one[-1] for one in found}
        return replace(told, together=_together(told, at, inside))


# (assumption, alternative, extra, log-likelihood, p-value or None for a chi-square, words, remedy,
# the world with this alternative in it, where there is one)
Found = tuple[str, str, int, float, float | None, str, str, Setting | None]


def _diagnosis(loss: float, steps: int, found: Iterable[GivenUp]) -> Diagnosis:
    """What was found, by Schwarz's criterion; `loss` is of the plain model."""
    rows = []
    for assumption, alternative, extra, likely, p_value, estimate, remedy in found:
        gain = max(likely + loss, 0.0)
        if p_value is None:
            p_value = chi_square_tail(extra, 2.0 * gain) if extra and gain > 0 else 1.0
        rows.append(
            Alternative(
                assumption=assumption,
                alternative=alternative,
                extra=extra,
                gain=gain,
                p_value=p_value,
                aic=2.0 * extra - 2.0 * gain,
                bic=extra * float(np.log(steps)) - 2.0 * gain,
                estimate=estimate,
                remedy=remedy,
            )
        )
    ordered = tuple(sorted(rows, key=lambda row: row.bic))
    return Diagnosis(rows=ordered, log_likelihood=-loss, observed_steps=steps)


def _together(
    told: Diagnosis, at: Setting, inside: Mapping[str, Setting | None]
) -> Together | None:
    """The two alternatives that gain most, in one fit: the best of the ways to fit it there are."""
    every, single = told.contradicted, (LAPSES, DISCOUNT, MARK, UNTAKEN)
    who = bool(every) and every[0].alternative not in single
    rest = [row for row in every[1:] if not who or row.alternative in single]
    for other in rest:
        ways = _ways({every[0].alternative, other.alternative}, at, inside)
        if ways:
            return _pair(told, (every[0], other), max(ways), sum(at.seen.whole.counts.shape))
    return None


def _ways(pair: set[str], at: Setting, inside: Mapping[str, Setting | None]) -> list[float]:
    """Log-likelihoods of fits of two alternatives together, one for each way there is."""
    ways = [
        _likely(other, world)
        for own in sorted(pair)
        for other in pair - {own}
        if (world := inside[own]) is not None
    ]
    whole = at.seen.whole
    if pair == {LAPSES, DISCOUNT}:
        near = _lapsing(whole, at)
        share = max(float(near.parts[0].shares[-1]), 0.01)

        def likely(steps: StepsChain) -> float:
            return -lapses.with_lapses(Units.steps(steps), at.options, near, share=share).loss

        ways.append(lapses.best_discount(whole, likely, -near.loss, 0.01)[1])
    if pair == {LAPSES, BY_GROUP}:
        parts = _by_group(at)[1]
        ways.append(-sum(_lapsing(one, at).loss for one in parts))
    return ways


def _pair(
    told: Diagnosis, found: tuple[Alternative, Alternative], likely: float, marks: int
) -> Together:
    """What each of two alternatives gains beside the other; so many marks there are to choose."""
    # Together they explain no less than each does alone.
    top = max(likely - told.log_likelihood, *(row.gain for row in found))
    gains = top - found[1].gain, top - found[0].gain
    # Marks are chosen among many, and pay for it.
    chosen = [2.0 * float(np.log(marks)) * (row.alternative == MARK) for row in found]
    prices = [
        row.extra * (np.log(told.observed_steps) + more)
        for row, more in zip(found, chosen, strict=True)
    ]
    return Together(
        alternatives=(found[0].alternative, found[1].alternative),
        gains=gains,
        criteria=(float(prices[0]) - 2.0 * gains[0], float(prices[1]) - 2.0 * gains[1]),
    )


def _likely(alternative: str, at: Setting) -> float:
    """The log-likelihood of an alternative in a world."""
    if alternative == LAPSES:
        return -_lapsing(at.seen.whole, at).loss
    asked = {
        DISCOUNT: _discount,
        MARK: _marks,
        UNTAKEN: _untaken,
        NOISE_BY_GROUP: _groups,
        BY_GROUP: _groups,
    }
    found = asked.get(alternative, _trajectories)(at)
    return next((one[3] for one in found if one[1] == alternative), -np.inf)


def _lapsing(steps: StepsChain, at: Setting) -> Fit:
    """The fit of these steps with lapses."""
    return lapses.with_lapses(Units.steps(steps), at.options, at.base)


def _lapses(at: Setting) -> Iterator[Found]:
    whole = at.seen.whole
    found = _lapsing(whole, at)
    told = lapses.lapses_of(found, at.base)
    low, high = told.interval
    yield (
        "every step was chosen",
        LAPSES,
        1,
        -found.loss,
        told.p_value,
        f"{told.share:.1%} of the steps at random [{low:.1%}, {high:.1%}]",
        "Recover with Likelihood(lapses=True).",
        None,
    )


def _discount(at: Setting) -> Iterator[Found]:
    whole = at.seen.whole
    if whole.mdp.discount > lapses.HIGHEST:  # first exit, or so patient that others are all alike
        return
    best, interval, likely = lapses.fitted_discount(whole, at.options, at.base)
    there = lapses.steps_at(whole, best)
    seen, base = replace(at.seen, whole=there), maximum(there, at.options, near=at.base)
    yield (
        f"the discount is {whole.mdp.discount:g}",
        DISCOUNT,
        1,
        likely,
        None,
        f"discount {best:.3g} [{interval[0]:.3g}, {interval[1]:.3g}]",
        f"Recover with a discount near {best:.3g}; checks.discount_profile shows what it changes.",
        at._replace(seen=seen, base=base),
    )


def _marks(at: Setting) -> Iterator[Found]:
    mdp, whole = at.seen.whole.mdp, at.seen.whole
    found = missing_marks(whole, at.base, at.features, at.options, MARKS)
    if not found.marks:
        return
    names = [mark_name(mdp, at.layout, mark) for mark in found.marks]
    each = [f"{one} ({x:+.3g})" for one, x in zip(names, found.coefficients, strict=True)]
    wider, how = marked(whole, at.features, at.options, found.marks)
    world = at._replace(
        seen=replace(at.seen, whole=wider),
        options=how,
        base=maximum(wider, how),
        features=with_marks(mdp, at.features, found.marks),
    )
    yield (
        "no feature is missing",
        MARK,
        len(names),
        found.log_likelihood,
        found.p_value,
        f"marks of {listed(each)}",
        f"A feature that tells {listed(names)} from the rest would mend most: add one.",
        world,
    )


def _untaken(at: Setting) -> Iterator[Found]:
    whole = at.seen.whole
    found = untaken_by(at.base.parts[0].policy, whole.counts, whole.mdp)
    if not found.pairs.any():
        return
    closed = found.close(whole.mdp)
    seen = Units.trajectories(closed, Design.of(closed, at.features), at.demonstrations)
    base = maximum(seen.whole, at.options, near=at.base)
    many, gain = int(found.pairs.sum()), at.base.loss - base.loss
    worth = f"{gain / found.observed_steps:.2g} nats a step"
    yield (
        "every action is available that is said to be",
        UNTAKEN,
        many,
        -base.loss,
        None,
        f"{many} pairs closed ({found.names(at.layout)}), {worth}",
        "If these actions are not there, recover with --close-untaken, or say so in `available`.",
        at._replace(seen=seen, base=base),
    )


def _temperature(space: Design, x: np.ndarray) -> float:
    """The temperature at parameters x [D], the reward weights being of sum 1."""
    reward = space.blocks[0]
    return 1.0 / max(float(np.abs(x[reward] / space.scales[reward]).sum()), 1e-300)


def _by_group(at: Setting) -> tuple[list[str], list[StepsChain]]:
    """The names of the groups, and the likelihood of each; none where there are not two."""
    if at.demonstrations.groups is None:
        return [], []
    names, member = np.unique(at.demonstrations.groups, return_inverse=True)
    if len(names) < 2:
        return [], []
    return names.tolist(), at.seen.parts(np.eye(len(names))[:, member.ravel()])


def _groups(at: Setting) -> Iterator[Found]:
    names, parts = _by_group(at)
    if not names:
        return
    whole, base = at.seen.whole, at.base
    apart = [maximum(part, at.options, near=base) for part in parts]
    shared = one_direction(parts, base.problem, base.z)
    noises = [_temperature(whole.space, x) for x in shared.problem.parameters(shared.z)]
    each = [f"{name} {t:.3g}" for name, t in zip(names, noises, strict=True)]
    yield (
        "all groups have one noise",
        NOISE_BY_GROUP,
        len(names) - 1,
        -shared.loss,
        None,
        f"temperatures, reward weights of sum 1: {listed(each, 6)}",
        "Recover the groups apart, or as tasks that share their weights.",
        None,
    )
    counts = np.stack([part.counts for part in parts])
    extra = int(degrees_of_freedom(whole, base, counts, own_noise=False))
    yield (
        "all groups want and refuse the same",
        BY_GROUP,
        extra,
        -float(sum(one.loss for one in apart)),
        None,
        f"{len(names)} groups, each with coefficients of its own",
        "Recover the groups apart; checks.equal_weights_test says in what they differ.",
        None,
    )


def _trajectories(at: Setting) -> Iterator[Found]:
    seen, many = at.seen, len(at.seen)
    if many < 4 or many == at.demonstrations.steps:  # loose pairs are nobody's
        return
    p_value = trajectory_p_value(seen, at.base, seed=at.seed)
    compared = replace(at.options, tolerance=COMPARED)

    def sought(shared: bool) -> Fit:
        starts = 2 if shared else 6
        return search(seen, compared, at.base, 2, starts=starts, seed=at.seed, shared=shared)

    found = sought(True)
    noises = sorted(_temperature(seen.whole.space, found.x(k)) for k in range(2))
    yield (
        "all trajectories have one noise",
        "two levels of noise",
        2,
        -found.loss,
        p_value,
        f"temperatures {noises[0]:.3g} and {noises[1]:.3g}, reward weights of sum 1",
        "Find out who is noisy: Mixture(types=2) gives the chances of every trajectory.",
        None,
    )
    found = sought(False)
    first, second = found.parts[0].shares
    yield (
        "all trajectories are of one type",
        "two types",
        max(degrees(found) - degrees(at.base), 1),
        -found.loss,
        p_value,
        f"two types, shares {first:.2f} and {second:.2f}",
        "Recover with Mixture(types=None).",
        None,
    )
