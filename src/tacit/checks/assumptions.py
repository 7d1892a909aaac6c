"""Which assumption do the demonstrations contradict? Each is given up in turn, and what that gains.

Every alternative is compared with the plain noisy expert by its likelihood on the same actions:
lapses, another discount, a feature more, a noise by group or trajectory, groups or types that want
other things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tacit.checks import Alternative, Diagnosis, Together
from tacit.checks.groups import GroupFits
from tacit.checks.marks import mark_name, missing_marks
from tacit.checks.untaken import untaken_by
from tacit.data.demonstrations import Demonstrations
from tacit.engine.progress import unwatched
from tacit.errors import InvalidModel
from tacit.estimators.lapses import BEGUN, lapses_of, likelihood_interval, with_lapses
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.task import Task, task_of
from tacit.estimators.trips.chain import TripsChain
from tacit.estimators.trips.units import TripUnits
from tacit.estimators.trips.world import Trips
from tacit.estimators.types import degrees, search, trajectory_p_value
from tacit.inference.findings import listed
from tacit.inference.tails import chi_square_tail
from tacit.likelihood.kinds import StepUnits, one_direction
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import maximum
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
# Discounts looked at: of steps, where beyond them others are all alike, and of trips.
DISCOUNTS, TRIP_DISCOUNTS = (0.0, 0.995), (0.5, 1.0)


class TaskFit(NamedTuple):
    """A task and the fit of the plain model there, in which an alternative is fitted.

    Attributes:
        task: the task.
        options: of a fit.
        base: the fit of the plain model there.
        layout: names of states and actions.
        seed: of starts and redrawn actions.
    """

    task: Task
    options: Likelihood
    base: Fit
    layout: Layout
    seed: int

    @property
    def chain(self) -> Any:
        """The likelihood of all episodes."""
        return self.base.problem.chains[0]

    def refitted(self, task: Task) -> TaskFit:
        """The same in another world, or of other episodes."""
        base = maximum(task.chain(self.options), self.options, near=self.base)
        return self._replace(task=task, base=base)


class GivenUp(NamedTuple):
    """One assumption, what it is given up for, and the likelihood of that.

    Attributes:
        assumption: in words.
        alternative: in its place.
        extra: parameters more.
        log_likelihood: of all steps.
        p_value: of the assumption; None where that of a chi-square will do.
        estimate: in words.
        remedy: in words.
        world: the task with this alternative in it, where there is one.
    """

    assumption: str
    alternative: str
    extra: int
    log_likelihood: float
    p_value: float | None
    estimate: str
    remedy: str
    world: TaskFit | None = None


def diagnose(
    mdp: MDP | Task,
    features: Features | None = None,
    demonstrations: Demonstrations | None = None,
    *,
    estimator: Likelihood | None = None,
    seed: int = 0,
    layout: Layout | None = None,
) -> Diagnosis:
    """The `Diagnosis` of the assumptions of `Likelihood`.

    Types of travellers are not sought: `Mixture` does.

    Args:
        mdp: the known world; or a `Task` or `Trips`, which hold features and demonstrations.
        features: what reward and costs may be made of.
        demonstrations: what was seen.
        estimator: a `Likelihood`, for its bounds and signs; its default by default.
        seed: of starts and redrawn actions.
        layout: names of states and actions.
    """
    task = task_of(mdp, features, demonstrations, "the diagnosis")
    given = estimator or Likelihood(free_reward=isinstance(task, Trips))
    plain = replace(given, lapses=False, prior=None, temperature=None)
    with unwatched():
        base = maximum(task.chain(plain), plain)
        options = replace(plain, max_steps=100, start={})
        at = TaskFit(task, options, base, layout or Layout(), seed)
        asked = (_lapses, _discount, _marks, _untaken, _groups, _trajectories)
        found = [one for ask in asked for one in ask(at)]
        told = _diagnosis(base.loss, task.demonstrations.steps, found)
        return replace(told, together=_together(told, at, found))


def _diagnosis(loss: float, steps: int, found: list[GivenUp]) -> Diagnosis:
    """What was found, by Schwarz's criterion; `loss` is of the plain model."""
    rows = []
    for one in found:
        gain, p_value, extra = max(one.log_likelihood + loss, 0.0), one.p_value, one.extra
        if p_value is None:
            p_value = chi_square_tail(extra, 2.0 * gain) if extra and gain > 0 else 1.0
        rows.append(
            Alternative(
                assumption=one.assumption,
                alternative=one.alternative,
                extra=extra,
                gain=gain,
                p_value=p_value,
                aic=2.0 * extra - 2.0 * gain,
                bic=extra * float(np.log(steps)) - 2.0 * gain,
                estimate=one.estimate,
                remedy=one.remedy,
            )
        )
    ordered = tuple(sorted(rows, key=lambda row: row.bic))
    return Diagnosis(rows=ordered, log_likelihood=-loss, observed_steps=steps)


def _together(told: Diagnosis, at: TaskFit, found: list[GivenUp]) -> Together | None:
    """The two alternatives that gain most, in one fit: the best of the ways to fit it there are."""
    inside = {one.alternative: one.world for one in found}
    every, single = told.contradicted, (LAPSES, DISCOUNT, MARK, UNTAKEN)
    who = bool(every) and every[0].alternative not in single
    rest = [row for row in every[1:] if not who or row.alternative in single]
    for other in rest:
        ways = _ways({every[0].alternative, other.alternative}, at, inside)
        if ways:
            marks = at.task.mdp.states + at.task.mdp.actions
            return _pair(told, (every[0], other), max(ways), marks)
    return None


def _ways(pair: set[str], at: TaskFit, inside: dict[str, TaskFit | None]) -> list[float]:
    """Log-likelihoods of fits of two alternatives together, one for each way there is."""
    ways = [
        _likely(other, world)
        for own in sorted(pair)
        for other in pair - {own}
        if (world := inside[own]) is not None
    ]
    if pair == {LAPSES, DISCOUNT}:
        near = _lapsing(at.base, at.options)
        share = max(float(near.parts[0].shares[-1]), 0.01)

        def likely(discount: float) -> float:
            there = at.refitted(at.task.with_discount(discount)).base
            return -_lapsing(there, at.options, share=share).loss

        sides = at.chain.discount, _discounts(at)
        ways.append(best_discount(likely, -near.loss, *sides, care=0.01).log_likelihood)
    if pair == {LAPSES, BY_GROUP}:
        _, member = _members(at)
        parts = at.task.group_chains(member, at.options)
        apart = [maximum(part, at.options, near=at.base) for part in parts]
        ways.append(-sum(_lapsing(one, at.options).loss for one in apart))
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


def _likely(alternative: str, at: TaskFit) -> float:
    """The log-likelihood of an alternative beside what a task has."""
    if alternative == LAPSES:
        return -_lapsing(at.base, at.options).loss
    asked = {
        DISCOUNT: _discount,
        MARK: _marks,
        UNTAKEN: _untaken,
        NOISE_BY_GROUP: _groups,
        BY_GROUP: _groups,
    }
    found = asked.get(alternative, _trajectories)(at)
    return next((one.log_likelihood for one in found if one.alternative == alternative), -np.inf)


def _lapsing(near: Fit, options: Likelihood, *, share: float = BEGUN) -> Fit:
    """The fit of the same chain with lapses."""
    chain = near.problem.chains[0]
    trips = isinstance(chain, TripsChain)
    units = TripUnits.steps(chain) if trips else StepUnits.steps(chain)
    return with_lapses(units, options, near, share=share)


def _lapses(at: TaskFit) -> Iterator[GivenUp]:
    found = _lapsing(at.base, at.options)
    told = lapses_of(found, at.base)
    low, high = told.interval
    yield GivenUp(
        "every step was chosen",
        LAPSES,
        1,
        -found.loss,
        told.p_value,
        f"{told.share:.1%} of the steps at random [{low:.1%}, {high:.1%}]",
        "Recover with Likelihood(lapses=True).",
    )


def _on_border(ratio: float) -> float:
    """The p-value of a likelihood ratio of one number whose value is on the border."""
    return 0.5 * chi_square_tail(1, ratio) if ratio > 0 else 1.0


def _discounts(at: TaskFit) -> tuple[float, float]:
    """The smallest and largest discount looked at."""
    return TRIP_DISCOUNTS if isinstance(at.task, Trips) else DISCOUNTS


class DiscountFit(NamedTuple):
    """The likeliest discount."""

    discount: float
    log_likelihood: float


def best_discount(
    likely: Callable[[float], float],
    top: float,
    own: float,
    within: tuple[float, float],
    *,
    care: float = 1e-3,
) -> DiscountFit:
    """The likeliest discount, to `care`, sought on both sides of the present one.

    Args:
        likely: the log-likelihood at a discount, everything else refitted.
        top: that of the present one.
        own: the present one.
        within: smallest and largest discount.
        care: how far off it may be.
    """
    from scipy.optimize import OptimizeResult, minimize_scalar

    best = DiscountFit(own, top)
    for low, high in ((within[0], own), (own, within[1])):
        if high - low < 1e-6:
            continue
        found: OptimizeResult = minimize_scalar(  # type: ignore[assignment]
            lambda d: -likely(d), bounds=(low, high), method="bounded", options={"xatol": care}
        )
        if -float(found["fun"]) > best.log_likelihood:
            best = DiscountFit(float(found["x"]), -float(found["fun"]))
    return best


def _discount(at: TaskFit) -> Iterator[GivenUp]:
    own, (least, most) = float(at.chain.discount), _discounts(at)
    if own > most:  # first exit, or so patient that others are all alike
        return

    def likely(discount: float) -> float:
        with suppress(InvalidModel):  # no finite values
            return -at.refitted(at.task.with_discount(discount)).base.loss
        return -np.inf

    best, top = best_discount(likely, -at.base.loss, own, (least, most))
    low, high = likelihood_interval(likely, best, top, least, most)
    p_value = _on_border(2.0 * (top + at.base.loss)) if own in (0.0, 1.0) else None
    yield GivenUp(
        f"the discount is {own:g}",
        DISCOUNT,
        1,
        top,
        p_value,
        f"discount {best:.3g} [{low:.3g}, {high:.3g}]",
        f"Recover with a discount near {best:.3g}; checks.discount_profile shows what it changes.",
        at.refitted(at.task.with_discount(best)),
    )


def _marks(at: TaskFit) -> Iterator[GivenUp]:
    found = missing_marks(at.task, at.base, at.options, MARKS)
    if found is None:
        return
    names = [mark_name(at.task.mdp, at.layout, mark) for mark in found.marks]
    each = [f"{one} ({x:+.3g})" for one, x in zip(names, found.coefficients, strict=True)]
    yield GivenUp(
        "no feature is missing",
        MARK,
        len(names),
        -found.fitted.loss,
        found.p_value,
        f"marks of {listed(each)}",
        f"A feature that tells {listed(names)} from the rest would mend most: add one.",
        at._replace(task=found.task, options=found.options, base=found.fitted),
    )


def _untaken(at: TaskFit) -> Iterator[GivenUp]:
    if isinstance(at.task, Trips):  # every goal has a policy of its own
        return
    found = untaken_by(at.base.parts[0].policy, at.chain.counts, at.task.mdp)
    if not found.pairs.any():
        return
    world = at.refitted(replace(at.task, mdp=found.close(at.task.mdp)))
    many, gain = int(found.pairs.sum()), at.base.loss - world.base.loss
    worth = f"{gain / found.observed_steps:.2g} nats a step"
    yield GivenUp(
        "every action is available that is said to be",
        UNTAKEN,
        many,
        -world.base.loss,
        None,
        f"{many} pairs closed ({found.names(at.layout)}), {worth}",
        "If these actions are not there, recover with --close-untaken, or say so in `available`.",
        world,
    )


def _temperature(space: Design, x: np.ndarray) -> float:
    """The temperature at parameters x [D], the reward weights being of sum 1."""
    reward = space.blocks[0]
    return 1.0 / max(float(np.abs(x[reward] / space.scales[reward]).sum()), 1e-300)


def _members(at: TaskFit) -> tuple[list[str], np.ndarray]:
    """The names of the groups, and [E] the number of each episode's."""
    groups = at.task.demonstrations.groups
    if groups is None:
        return [], np.zeros(0, np.int64)
    names, member = np.unique(groups, return_inverse=True)
    return names.tolist(), member.ravel()


def _groups(at: TaskFit) -> Iterator[GivenUp]:
    names, member = _members(at)
    if len(names) < 2:
        return
    found = GroupFits.of(at.task, member, at.options, pooled=at.base)
    chains, apart = found.chains, found.apart
    near = at.base.z * (chains[0].space.scales / at.chain.space.scales)
    shared = one_direction(chains, apart[0].problem, near)
    pairs = zip(chains, shared.problem.parameters(shared.z), strict=True)
    noises = [_temperature(chain.space, x) for chain, x in pairs]
    each = [f"{name} {t:.3g}" for name, t in zip(names, noises, strict=True)]
    yield GivenUp(
        "all groups have one noise",
        NOISE_BY_GROUP,
        len(names) - 1,
        -shared.loss,
        None,
        f"temperatures, reward weights of sum 1: {listed(each, 6)}",
        "Recover the groups apart, or as tasks that share their weights.",
    )
    yield GivenUp(
        "all groups want and refuse the same",
        BY_GROUP,
        int(found.degrees),
        -float(sum(one.loss for one in apart)),
        None,
        f"{len(names)} groups, each with coefficients of its own",
        "Recover the groups apart; many.differences says in what they differ.",
    )


def _trajectories(at: TaskFit) -> Iterator[GivenUp]:
    task, many = at.task, at.task.demonstrations.episodes
    loose = many == task.demonstrations.steps  # pairs are nobody's
    if many < 4 or loose or isinstance(task, Trips):
        return
    seen = StepUnits.trajectories(task.mdp, at.chain.space, task.demonstrations)
    p_value = trajectory_p_value(seen, at.base, seed=at.seed)
    compared = replace(at.options, tolerance=COMPARED)

    def sought(shared: bool) -> Fit:
        starts = 2 if shared else 6
        return search(seen, compared, at.base, 2, starts=starts, seed=at.seed, shared=shared)

    found = sought(True)
    noises = sorted(_temperature(at.chain.space, found.x(k)) for k in range(2))
    yield GivenUp(
        "all trajectories have one noise",
        "two levels of noise",
        2,
        -found.loss,
        p_value,
        f"temperatures {noises[0]:.3g} and {noises[1]:.3g}, reward weights of sum 1",
        "Find out who is noisy: Mixture(types=2) gives the chances of every trajectory.",
    )
    found = sought(False)
    first, second = found.parts[0].shares
    yield GivenUp(
        "all trajectories are of one type",
        "two types",
        max(degrees(found) - degrees(at.base), 1),
        -found.loss,
        p_value,
        f"two types, shares {first:.2f} and {second:.2f}",
        "Recover with Mixture(types=None).",
    )
