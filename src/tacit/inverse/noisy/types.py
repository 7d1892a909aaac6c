"""What one fit of all trajectories leaves out: types, and marks of single states and actions.

Of trajectories of unknown type: their information, free numbers and active constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from tacit.inference.activity import (
    BoundedFit,
    ConstraintSet,
    ScoreLaw,
    Trial,
    Verdict,
    active_constraints,
    selection_of,
)
from tacit.inference.tails import TWO_SIDED
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.noisy.em import Kinds, Search, Units, climb, observed_information
from tacit.inverse.parameters import inverse_information
from tacit.likelihood.problem import Fit
from tacit.likelihood.products import table_scores
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain, information, of_constraints, priced
from tacit.model.features.design import Design
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# Gain (nats) still to come that ends a search where likelihoods are only compared.
COMPARED = 1e-2
# Most numbers in a table of marks, 160 MB.
MARKED = 20_000_000
# Chance of its best type below which it is said that a trajectory cannot be told.
SURE = 0.95


def schwarz(degrees: int, log_likelihood: float, steps: int) -> float:
    """Schwarz's criterion, smaller is better: coefficients * log(steps) - 2 * log-likelihood."""
    return degrees * float(np.log(max(steps, 1))) - 2.0 * log_likelihood


def degrees(units: Units, kinds: Kinds) -> int:
    """How many numbers were fitted: coefficients off their bounds that show, and free shares."""
    total, parts = kinds.degrees, units.parts(kinds.membership)
    for one, part in zip(kinds.experts, parts, strict=False):
        scores = part.scores(one.parts[0])
        fisher = information(scores, one.parts[0].policy, part.visits)
        _, blind = inverse_information(fisher, one.free)
        total += int(one.free.sum()) - len(blind)
    return total


def constraint_tests(
    units: Units,
    full: Kinds,
    how: Search,
    *,
    level: float,
    rounds: int,
    seed: int,
    tolerance: float = COMPARED,
) -> tuple[Kinds, list[Verdict]]:
    """The kinds with only the constraints that they are shown to need, and a verdict on each kind.

    Each test is a likelihood ratio: EM is run again without the constraints in that kind. They are
    adjusted by Holm's method over all kinds and constraints; those of one kind that can stand in
    for each other are tested as a set.

    Args:
        units: what is of one kind.
        full: the kinds with every constraint.
        how: a maximisation step searches.
        level: of the tests.
        rounds: most rounds of EM, each test.
        seed: of the simulated laws.
        tolerance: gain (nats) still to come that ends EM, each test.
    """
    space, experts = units.whole.space, full.experts
    many, count, size = len(experts), space.constraints, space.size
    if not full.converged or not count:
        return full, [Verdict.of(np.ones(count)) for _ in experts]

    def as_tested(kinds: Kinds) -> BoundedFit[Kinds]:
        problems = [one.problem for one in kinds.experts]
        logits = np.full(full.degrees, np.inf)
        return BoundedFit(
            fitted=kinds,
            loss=-kinds.log_likelihood,
            x=np.concatenate([*(one.z for one in kinds.experts), np.zeros(full.degrees)]),
            lower=np.concatenate([*(one.lower for one in problems), -logits]),
            upper=np.concatenate([*(one.upper for one in problems), logits]),
            law=lambda: law_of(kinds),
        )

    def law_of(kinds: Kinds) -> ScoreLaw:
        moving = slice(many * size + full.degrees)
        return ScoreLaw(observed_information(units, kinds)[0][moving, moving])

    @cache
    def restricted(members: tuple[int, ...]) -> BoundedFit[Kinds]:
        own = [[m % count for m in members if m // count == k] for k in range(many)]
        tops = [
            np.where(of_constraints(space.blocks, part, size), 0.0, one.problem.upper)
            for part, one in zip(own, experts, strict=True)
        ]
        about = {"rounds": rounds, "tolerance": tolerance, "upper": tops}
        return as_tested(climb(units, how, replace(full, trace=()), **about))

    whole, steps = as_tested(full), float(units.whole.counts.sum())
    groups = [range(k * count, (k + 1) * count) for k in range(many)]
    known = [priced(space.blocks, one.problem.lower) for one in experts]
    given = [k * count + g for k, one in enumerate(known) for g in one]
    rules = {"level": level, "steps": steps, "seed": seed, "groups": groups, "given": given}
    kept, verdict = active_constraints(whole, many * count, restricted, **rules)

    def without(members: Sequence[int]) -> Trial[Kinds]:
        less = restricted(tuple(sorted(members))) if len(members) else whole
        return Trial(less.fitted, less.loss, int(less.free.sum()), lambda: 1.0)

    told = []
    for group, own in zip(groups, known, strict=True):
        mine, first = slice(group.start, group.stop), group.start
        sets = [
            ConstraintSet(tuple(m - first for m in one.members), one.p_value)
            for one in verdict.sets
            if one.members[0] in group
        ]
        fixed = [first + g for g in own]
        chosen = selection_of([m for m in group if m not in fixed], without, steps, fixed)
        chosen = replace(chosen, members=tuple(m - first for m in chosen.members))
        told.append(
            Verdict(
                unadjusted=verdict.unadjusted[mine],
                p_values=verdict.p_values[mine],
                active=None if verdict.active is None else verdict.active[mine],
                sets=tuple(sets),
                selection=chosen,
                at_level=None if verdict.at_level is None else verdict.at_level[mine],
            )
        )
    return kept, told


def share_intervals(shares: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """[T, 2] 95 % intervals of shares with these standard errors, on the logit scale."""
    if len(shares) == 1:
        return np.ones((1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.log(shares / (1.0 - shares))
        margin = TWO_SIDED * errors / (shares * (1.0 - shares))
        ends = 1.0 / (1.0 + np.exp(-np.stack([middle - margin, middle + margin], axis=1)))
    return np.where(np.isnan(ends), [[0.0, 1.0]], ends)


def type_findings(
    types: Kinds, tried: np.ndarray, criteria: np.ndarray, *, given: bool, starts: int
) -> list[Finding]:
    """How many types there are, and how well trajectories can be told apart.

    Args:
        types: that were found.
        tried: [M] numbers of types.
        criteria: [M] the BIC of each.
        given: whether their number was.
        starts: of EM.
    """
    many, number = len(types.fits), np.flatnonzero(tried == len(types.fits))[0]
    told = ", ".join(f"{b:.6g} for {n}" for n, b in zip(tried.tolist(), criteria, strict=True))
    findings = []
    if not given:
        said = f"{many} type{'s' if many > 1 else ''} explain the trajectories best (BIC {told})."
        findings.append(Finding(said, Kind.CHOICE, number=many))
    elif criteria[number] > criteria.min():
        fewer = int(tried[criteria.argmin()])
        said = f"{fewer} type{'s' if fewer > 1 else ''} would do: the BIC is {told}."
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=fewer))
    if many == 1:
        return findings
    unsure = int((types.membership.max(axis=1) < SURE).sum())
    if unsure:
        said = (
            f"{unsure} of {len(types.membership)} trajectories cannot be assigned with "
            f"{100 * SURE:g} % confidence."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=unsure))
    for k in np.flatnonzero(types.shares * len(types.membership) < 2.0).tolist():
        said = f"Type {k} is hardly more than one trajectory: look at that one."
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=float(types.shares[k])))
    if not types.converged:
        said = "EM stopped before its tolerance was met: raise `max_rounds`."
        findings.append(Finding(said, Kind.NOT_CONVERGED))
    said = (
        f"EM found these types as the likeliest of {starts} starts: a local optimum, better ones "
        "are not ruled out."
    )
    return [*findings, Finding(said, Kind.LOCAL_OPTIMUM, number=starts)]


def best_mark(steps: StepsChain, fitted: Fit, known: Sequence[int] = ()) -> tuple[int, float, int]:
    """The mark that would explain most beside a fit, its squared score, and how many there are.

    A mark is a feature that is 1 in one state, number 0 to S - 1, or for one action, from S on. The
    square of its score, in units of what is left of its variance beside the free parameters, is
    nearly twice the log-likelihood that it would gain. Those `known` are not asked for; (-1, 0, 0)
    where no other shows, or a table of them is too large.
    """
    mdp, policy = steps.mdp, np.asarray(fitted.parts[0].policy)
    states, actions = policy.shape
    if states * actions * (states + actions) > MARKED:
        return -1, 0.0, 0
    gains = np.zeros((states, actions, states + actions))
    gains[np.arange(states), :, np.arange(states)] = 1.0
    gains[:, np.arange(actions), states + np.arange(actions)] = 1.0
    gains[mdp.ends, :, states:] = 0.0
    scores = table_scores(mdp, gains.reshape(states * actions, -1), policy)
    own = steps.scores(fitted.parts[0])[fitted.free]
    both = information(np.concatenate([scores, own]), policy, steps.visits)
    many = len(scores)
    inverse, _ = inverse_information(both[many:, many:], np.ones(len(own), bool))
    across = both[:many, many:]
    whole = np.diagonal(both)[:many]
    left = whole - np.einsum("ij,jk,ik->i", across, inverse, across)
    shown = left > 1e-6 * np.maximum(whole, 1e-300)
    shown[list(known)] = False
    if not shown.any():
        return -1, 0.0, 0
    slopes = np.tensordot(scores, steps.counts, 2)
    squares = np.where(shown, slopes**2 / np.where(shown, left, 1.0), 0.0)
    at = int(np.argmax(squares))
    return at, float(squares[at]), int(shown.sum())


class Marks(NamedTuple):
    """Marks in the place of a missing feature.

    Attributes:
        marks: those chosen, the first explains most.
        coefficients: of each, in units of the noise.
        log_likelihood: with them.
        p_value: of "none is needed", over all that there are.
    """

    marks: tuple[int, ...] = ()
    coefficients: tuple[float, ...] = ()
    log_likelihood: float = np.nan
    p_value: float = 1.0


def missing_marks(
    steps: StepsChain, base: Fit, features: Features, options: Search, most: int
) -> Marks:
    """The marks that explain most beside a fit, one by one while Schwarz's criterion falls.

    Choosing one of many is paid for: in the p-value by their number, in the criterion of all after
    the first by twice its logarithm.
    """
    from scipy.special import chdtrc

    found, fitted, first = Marks(), base, len(features.reward_names)
    price = float(np.log(max(steps.counts.sum(), 2.0)))
    while len(found.marks) < most:
        at, square, many = best_mark(steps, fitted, found.marks)
        if at < 0:
            break
        marks = (*found.marks, at)
        wider, how = marked(steps, features, options, marks)
        more, space = maximum(wider, how), wider.space
        gained = max(2.0 * float(fitted.loss - more.loss), 0.0)
        if found.marks and not gained > price + 2.0 * np.log(many):
            break
        p_value = min(many * float(chdtrc(1, min(square, gained))), 1.0)
        worth = more.z[first : first + len(marks)] / space.scales[first]
        steps, fitted = wider, more
        found = Marks(
            marks,
            tuple(worth.tolist()),
            -more.loss,
            found.p_value if found.marks else p_value,
        )
    return found


def marked(
    steps: StepsChain, features: Features, options: Search, marks: Sequence[int]
) -> tuple[StepsChain, Search]:
    """The likelihood with these marks among the features, and options that leave their signs free.

    `features` are those without the marks.
    """
    space = Design.of(steps.mdp, with_marks(steps.mdp, features, marks))
    first = len(features.reward_names)
    either = {first + n: (None, None) for n in range(len(marks))}
    wider = StepsChain.counted(steps.mdp, space, steps.counts)
    return wider, replace(options, bounds={**options.bounds, **either})


def with_marks(mdp: MDP, features: Features, marks: Sequence[int]) -> Features:
    """The features, and these marks as features of the reward after its own."""
    table = np.zeros((mdp.states, mdp.actions, len(marks)))
    for n, mark in enumerate(marks):
        here = mark if mark < mdp.states else slice(None)
        table[here, slice(None) if mark < mdp.states else mark - mdp.states, n] = 1.0
    own = features.reward
    own = own if own.ndim == 3 else np.repeat(own[:, None], mdp.actions, axis=1)
    names = (*features.reward_names, *(f"mark {mark}" for mark in marks))
    return Features(np.concatenate([own, table], axis=2), features.costs, names)


def mark_name(mdp: MDP, layout: Layout, mark: int) -> str:
    """What is marked, by name."""
    if mark < mdp.states:
        return layout.state_name(mark)
    return layout.action_name(mark - mdp.states)
