"""Which assumption do the demonstrations contradict? Each is given up in turn, and what that gains.

Every alternative is compared with the plain noisy expert by its likelihood on the same actions:
lapses, another discount, a feature more, a noise by group or trajectory, groups or types that want
other things.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tacit.checks.groups import degrees_of_freedom
from tacit.data.demonstrations import Demonstrations
from tacit.engine.progress import unwatched
from tacit.errors import InvalidModel
from tacit.inverse.expectations import check_task
from tacit.inverse.findings import LEVEL, Finding, Kind, chance, listed
from tacit.inverse.laws import chi_square_tail
from tacit.inverse.noisy import lapses
from tacit.inverse.noisy.boltzmann import Fit
from tacit.inverse.noisy.coordinates import coordinates
from tacit.inverse.noisy.em import (
    Search,
    Trajectories,
    Types,
    fit_direction,
    search,
    single_type,
    trajectory_p_value,
)
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.noisy.types import degrees, mark_name, missing_marks
from tacit.inverse.recovery import Recovery
from tacit.model import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# Gain (nats) still to come that ends a search: far below what a criterion needs to differ.
COMPARED = 1e-2
# Discounts looked at, at most.
HIGHEST = 0.995
# Marks of states and actions in the place of a missing feature, at most.
MARKS = 3


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One assumption, what it was given up for, and what that gains.

    Attributes:
        assumption: of the plain model, in words.
        alternative: in its place.
        extra: number of parameters more.
        gain: of the log-likelihood.
        p_value: of the assumption; NaN where no law of the gain is known.
        aic: difference of Akaike's criterion; negative speaks for the alternative.
        bic: difference of Schwarz's criterion, likewise.
        estimate: what was estimated in its place, in words.
        remedy: what to do, in words.
    """

    assumption: str
    alternative: str
    extra: int
    gain: float
    p_value: float
    aic: float
    bic: float
    estimate: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What giving up each assumption gains, the one contradicted most first.

    Attributes:
        rows: one per assumption, sorted by Schwarz's criterion.
        log_likelihood: of the plain model, with every constraint.
        observed_steps: number of observed actions.
    """

    rows: tuple[Alternative, ...]
    log_likelihood: float
    observed_steps: int

    @property
    def contradicted(self) -> tuple[Alternative, ...]:
        """The assumptions that both criteria, and the test where there is one, speak against."""
        return tuple(
            row
            for row in self.rows
            if max(row.bic, row.aic) < 0
            and not row.p_value > LEVEL / len(self.rows)  # NaN: the criteria alone
        )

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """The conclusion, as a finding: the likeliest culprit first, then what else speaks up."""
        found = self.contradicted
        if not found:
            names = listed([row.assumption for row in self.rows])
            said = f"The demonstrations contradict none of the assumptions tested: {names}."
            return (Finding(said),)
        worst = found[0]
        said = (
            f"What the demonstrations contradict most is that {worst.assumption}: "
            f"{worst.estimate} (log-likelihood up by {worst.gain:.4g} with {worst.extra} more "
            f"parameter{'s' if worst.extra != 1 else ''}{_tested(worst.p_value)}). {worst.remedy}"
        )
        first = Finding(said, Kind.MISFIT, number=worst.p_value)
        if len(found) == 1:
            return (first,)
        others = listed([f"that {row.assumption} ({row.alternative})" for row in found[1:]])
        said = f"Contradicted less, perhaps by the same: {others}. Diagnose again after the first."
        return first, Finding(said, number=float(len(found) - 1))

    @property
    def text(self) -> str:
        """The rows as a table, one a line."""
        heads = ("assumption", "in its place", "more", "gain", "p", "AIC", "BIC", "estimate")
        cells = [heads] + [
            (
                row.assumption,
                row.alternative,
                str(row.extra),
                f"{row.gain:.4g}",
                "-" if np.isnan(row.p_value) else f"{row.p_value:.3f}",
                f"{row.aic:+.4g}",
                f"{row.bic:+.4g}",
                row.estimate,
            )
            for row in self.rows
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  " + "  ".join(f"{cell:<{n}}" for cell, n in zip(line, widths, strict=True)).rstrip()
            for line in cells
        ]
        return "\n".join(lines)


def _tested(p_value: float) -> str:
    return "" if np.isnan(p_value) else f", {chance(p_value)}"


def diagnose(
    mdp: MDP,
    features: Features,
    demonstrations: Demonstrations,
    recovery: Recovery | None = None,
    *,
    estimator: Likelihood | None = None,
    seed: int = 0,
    layout: Layout | None = None,
) -> Diagnosis:
    """The `Diagnosis` of the assumptions of a noisy recovery.

    Args:
        mdp: the known world.
        features: what reward and costs may be made of.
        demonstrations: what was seen.
        recovery: what was recovered, to refuse one of an expert without noise; may be left out.
        estimator: a `Likelihood`, for the signs of its reward; its default by default.
        seed: of starts and redrawn actions.
        layout: names of states and actions.
    """
    check_task(mdp, features, demonstrations, in_memory=True)
    if recovery is not None and not recovery.temperature > 0:
        raise InvalidModel(
            "the diagnosis compares likelihoods: recover with Likelihood(); "
            f"this recovery has none ({recovery.estimator:.60})"
        )
    options = Search((estimator or Likelihood()).free_reward, max_steps=100)
    with unwatched():
        seen = Trajectories.of(mdp, coordinates(mdp, features), demonstrations)
        base = seen.whole.fit(replace(options, max_steps=300))
        rows = [
            _row(seen, base, *found)
            for found in (
                *_lapses(seen, options, base),
                *_discount(seen, options, base),
                *_marks(seen, options, base, features, layout or Layout()),
                *_groups(seen, options, base, demonstrations),
                *_trajectories(seen, options, base, demonstrations, seed),
            )
        ]
    return Diagnosis(
        rows=tuple(sorted(rows, key=lambda row: row.bic)),
        log_likelihood=-float(base.point.loss),
        observed_steps=demonstrations.steps,
    )


# (assumption, alternative, extra, log-likelihood, p-value or None for a chi-square, words, remedy)
Found = tuple[str, str, int, float, float | None, str, str]


def _row(
    seen: Trajectories,
    base: Fit,
    assumption: str,
    alternative: str,
    extra: int,
    likely: float,
    p_value: float | None,
    estimate: str,
    remedy: str,
) -> Alternative:
    gain = max(likely + float(base.point.loss), 0.0)
    if p_value is None:
        p_value = chi_square_tail(extra, 2.0 * gain) if extra and gain > 0 else 1.0
    return Alternative(
        assumption=assumption,
        alternative=alternative,
        extra=extra,
        gain=gain,
        p_value=p_value,
        aic=2.0 * extra - 2.0 * gain,
        bic=extra * float(np.log(seen.whole.counts.sum())) - 2.0 * gain,
        estimate=estimate,
        remedy=remedy,
    )


def _lapses(seen: Trajectories, options: Search, base: Fit) -> Iterator[Found]:
    found = lapses.climb(seen.whole, options, base, 0.1, tolerance=1e-4)
    low, high = lapses.share_interval(seen.whole, options, found)
    ratio = max(2.0 * (found.log_likelihood + float(base.point.loss)), 0.0)
    yield (
        "every step was chosen",
        "lapses",
        1,
        found.log_likelihood,
        0.5 * chi_square_tail(1, ratio) if ratio > 0 else 1.0,  # 0 is a border
        f"{found.share:.1%} of the steps at random [{low:.1%}, {high:.1%}]",
        "Recover with Likelihood(lapses=True).",
    )


def _discount(seen: Trajectories, options: Search, base: Fit) -> Iterator[Found]:
    mdp = seen.whole.mdp
    if mdp.discount > HIGHEST:  # first exit, or so patient that others near it are all alike
        return
    best, interval, likely = fitted_discount(seen, options, base)
    yield (
        f"the discount is {mdp.discount:g}",
        "another discount",
        1,
        likely,
        None,
        f"discount {best:.3g} [{interval[0]:.3g}, {interval[1]:.3g}]",
        f"Recover with a discount near {best:.3g}; checks.discount_profile shows what it changes.",
    )


def fitted_discount(
    seen: Trajectories, options: Search, base: Fit
) -> tuple[float, tuple[float, float], float]:
    """The likeliest discount, its 95 % likelihood interval, and the log-likelihood there."""
    from scipy.optimize import OptimizeResult, minimize_scalar

    whole = seen.whole

    def likely(discount: float) -> float:
        world = replace(whole.mdp, discount=float(discount))
        steps = replace(whole, mdp=world, discounted=None, tally=None)
        return -float(steps.reweighted(whole.counts).fit(options, near=base).point.loss)

    own = whole.mdp.discount
    top, best = -float(base.point.loss), own
    for low, high in ((0.0, own), (own, HIGHEST)):
        found: OptimizeResult = minimize_scalar(  # type: ignore[assignment]
            lambda d: -likely(d), bounds=(low, high), method="bounded", options={"xatol": 1e-3}
        )
        value, place = -float(found["fun"]), float(found["x"])
        if value > top:
            top, best = value, place
    return best, lapses.likelihood_interval(likely, best, top, 0.0, HIGHEST), top


def _marks(
    seen: Trajectories, options: Search, base: Fit, features: Features, layout: Layout
) -> Iterator[Found]:
    found = missing_marks(seen.whole, base, features, options, MARKS)
    if not found.marks:
        return
    names = [mark_name(seen.whole.mdp, layout, mark) for mark in found.marks]
    each = [f"{one} ({x:+.3g})" for one, x in zip(names, found.coefficients, strict=True)]
    yield (
        "no feature is missing",
        "a feature more",
        len(names),
        found.log_likelihood,
        found.p_value,
        f"marks of {listed(each)}",
        f"A feature that tells {listed(names)} from the rest would mend most: add one.",
    )


def _groups(
    seen: Trajectories, options: Search, base: Fit, demonstrations: Demonstrations
) -> Iterator[Found]:
    if demonstrations.groups is None or len(set(demonstrations.groups.tolist())) < 2:
        return
    names, member = np.unique(demonstrations.groups, return_inverse=True)
    parts = seen.parts(np.eye(len(names))[member.ravel()])
    apart = [part.fit(options, near=base) for part in parts]
    loss, points = fit_direction(seen.whole.mdp, apart, base.point.x)
    sizes = np.array([np.abs(p.x / seen.whole.space.scales).sum() for p in points])
    noises = 1.0 / np.maximum(sizes, 1e-300)
    each = [f"{name} {t:.3g}" for name, t in zip(names.tolist(), noises, strict=True)]
    yield (
        "all groups have one noise",
        "a noise by group",
        len(names) - 1,
        -loss,
        None,
        f"temperatures, reward weights of sum 1: {listed(each, 6)}",
        "Recover the groups apart, or as tasks that share their weights.",
    )
    counts = np.stack([part.counts for part in parts])
    extra = int(degrees_of_freedom(seen.whole, base, counts, own_noise=False))
    yield (
        "all groups want and refuse the same",
        "weights by group",
        extra,
        -float(sum(one.point.loss for one in apart)),
        None,
        f"{len(names)} groups, each with coefficients of its own",
        "Recover the groups apart; checks.equal_weights_test says in what they differ.",
    )


def _trajectories(
    seen: Trajectories, options: Search, base: Fit, demonstrations: Demonstrations, seed: int
) -> Iterator[Found]:
    many = len(seen)
    if many < 4 or many == demonstrations.steps:  # loose pairs are nobody's
        return
    p_value = trajectory_p_value(seen, base, seed=seed)
    plain = degrees(seen, single_type(seen, base))

    def sought(shared: bool) -> Types:
        return search(
            seen,
            replace(options, max_steps=20),
            base,
            2,
            starts=2 if shared else 6,
            rounds=60,
            tolerance=COMPARED,
            seed=seed,
            shared=shared,
        )

    found = sought(True)
    scales = seen.whole.space.scales
    noises = sorted(1.0 / max(float(np.abs(f.point.x / scales).sum()), 1e-300) for f in found.fits)
    yield (
        "all trajectories have one noise",
        "two levels of noise",
        2,
        found.log_likelihood,
        p_value,
        f"temperatures {noises[0]:.3g} and {noises[1]:.3g}, reward weights of sum 1",
        "Find out who is noisy: Mixture(types=2) gives the chances of every trajectory.",
    )
    found = sought(False)
    yield (
        "all trajectories are of one type",
        "two types",
        max(degrees(seen, found) - plain, 1),
        found.log_likelihood,
        p_value,
        f"two types, shares {found.shares[0]:.2f} and {found.shares[1]:.2f}",
        "Recover with Mixture(types=None).",
    )
