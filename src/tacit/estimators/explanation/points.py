"""One explanation out of all: the one that sets demonstrated actions apart most clearly.

The plain largest margin is 0: moves with identical consequences tie in every explanation. So the
pairs tied in EVERY explanation are found first, and the margin is that of the others. All actions
that are best in the resulting explanation are then demonstrated or tied, and an action tied in
every explanation is best in the true one, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.estimators.explanation.answers import NOTHING, Answers
from tacit.estimators.explanation.cone import (
    CanonicalColumns,
    ExplanationCone,
    full_forms,
    most_worth,
    shortfall,
    shown_counts,
    slack,
    values,
)
from tacit.estimators.explanation.program import Program, least, total
from tacit.forward.occupancy_lp import Matrix
from tacit.forward.policies import PolicyColumn, Unbounded, best_column
from tacit.forward.solution import visitation
from tacit.inference.findings import Finding, Kind, listed
from tacit.inference.parameters import CONFIDENCE
from tacit.model.ends import led_to_an_end
from tacit.model.mdp import outside_policy
from tacit.search.algebra import largest_first

# Slack below this, amounts summing to one, is called a tie: ten times the broken inequalities.
TIE = 1e-8
# Most rounds in which tied pairs are found; each decides one at least, most decide nearly all.
MOST_TIE_ROUNDS = 50
# Most rounds, at each part of the largest margin that is tried, in which the values of states never
# visited are brought down to what is optimal there.
MOST_FRONTIER_ROUNDS = 5
MARGIN_PARTS = (0.5, 0.1, 0.01)
# What the demonstrations must gain over acting at random to set the scale, a unit of a column.
LEAST_GAIN = 1e-3
# A departure this small is rounding.
CLOSE = 1e-7
# Most states that are named.
MOST_NAMED = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class ClearestPoint:
    """An explanation.

    Attributes:
        amounts: [C] of the columns.
        values: [S] optimal values of the Lagrangian reward.
        margin: least slack of the pairs that are not tied in every explanation.
        ties: [S, A] bool, pairs never demonstrated but tied in every explanation.
        violation: by how much it breaks the cone, recomputed from the values of the program.
        departure: by how much a demonstrated action falls short of optimal values; more than
            rounding only where demonstrations lead to states whose actions were not shown.
    """

    amounts: np.ndarray
    values: np.ndarray
    margin: float
    ties: np.ndarray
    violation: float
    departure: float


def best_point(answers: Answers) -> ClearestPoint:
    """The `ClearestPoint` of largest margin."""
    cone = answers.cone
    ties, inner = forced_ties(answers)
    strict = cone.visited[:, None] & cone.mdp.available & ~cone.observed & ~ties
    x, margin = inner, 0.0
    if strict.any():
        program = Program(cone, strict=strict, tolerance=answers.tolerance)
        program.bound_extra(0.0, 4.0 * np.abs(cone.tables).max() / program.share)
        corner = program.maximise(np.zeros(cone.size), 1.0)
        if corner[-1] > answers.tolerance:
            x, margin = _settled(program, corner)
    x, share = _with_reward(answers, x)
    short, best = slack(cone, x, values(cone, x, None)[0]), _best(cone, x).values[0]
    seen = float(np.abs(short[cone.observed]).max(initial=0.0))
    return ClearestPoint(
        amounts=x[: cone.width],
        values=best,
        margin=margin * share,
        ties=ties,
        violation=max(seen, float(-short.min())),
        departure=float(slack(cone, x, best)[cone.observed].max(initial=0.0)),
    )


def forced_ties(answers: Answers) -> tuple[np.ndarray, np.ndarray]:
    """[S, A] the pairs that tie in every explanation, and [n] one in which only these do."""
    cone, program = answers.cone, answers.program
    undecided = cone.visited[:, None] & cone.mdp.available & ~cone.observed
    points = []
    for _ in range(MOST_TIE_ROUNDS):
        if not undecided.any():
            break
        x = program.most_slack(undecided)[:-1]
        found = undecided & (slack(cone, x, values(cone, x, program.start)[0]) > TIE)
        if not found.any():
            break
        undecided = undecided & ~found
        points.append(x)
    if not points:
        everything = np.zeros(cone.size)
        everything[: cone.width] = 1.0
        points = [program.maximise(everything)[:-1]]
    return undecided, np.mean(points, axis=0)


def _settled(program: Program, corner: np.ndarray) -> tuple[np.ndarray, float]:
    """[n] an explanation and its margin, whose frontier values are optimal if that can be had.

    In states that were not visited though the demonstrations can lead there, the cone lets values
    be larger than any policy earns. The excess over a fixed policy is linear: it is minimised, the
    policy improved, and so on, at a part of the largest margin.
    """
    cone = program.cone
    tried = [(corner[:-1], float(corner[-1]))]
    if len(cone.frontier) == 0:
        return tried[0]
    departures, unseen = [], np.flatnonzero(~cone.visited)
    for part in MARGIN_PARTS:
        program.bound_extra(part * corner[-1], np.inf)
        for _ in range(MOST_FRONTIER_ROUNDS):
            x = tried[-1][0]
            best = _best(cone, x)
            departures.append(float(slack(cone, x, best.values[0])[cone.observed].max()))
            if departures[-1] <= TIE:
                return tried[-1]
            taken = np.zeros_like(cone.tables[0])
            taken[unseen, best.policy[unseen]] = 1.0
            x = program.maximise(total(cone, full_forms(cone, best.policy), taken))[:-1]
            tried.append((x, part * float(corner[-1])))
    return tried[int(np.argmin(departures))]


def _best(cone: ExplanationCone, amounts: np.ndarray) -> PolicyColumn:
    """The optimal policy for amounts [C, ...] that a program allows, with its values.

    At discount 1 the program's rounding may let rounds gain that gain nothing: each step is charged
    for it then.
    """
    table = np.tensordot(amounts[: cone.width], cone.tables, 1)
    try:
        return best_column(cone.mdp, table[None], np.ones(1))
    except Unbounded:
        return best_column(cone.mdp, (table - TIE * cone.mdp.available)[None], np.ones(1))


def _with_reward(answers: Answers, x: np.ndarray) -> tuple[np.ndarray, float]:
    """[n] the point, mixed with one that has a reward if it has none; and its share of the mix."""
    columns, width = answers.columns, answers.cone.width
    if np.abs(columns.weights(x[:width] * np.abs(1.0 / columns.units))[0]).sum() > NOTHING:
        return x, 1.0
    for asked in columns.reward_probes():
        other = answers.program.maximise(np.r_[asked, np.zeros(len(x) - width)])[:-1]
        if asked @ other[:width] > NOTHING:
            return 0.5 * (x + other), 0.5
    return x, 1.0


@dataclass(frozen=True, eq=False)
class Nearest:
    """An objective under which the demonstrations fall short least.

    Attributes:
        amounts: [C] of the columns, of sum one.
        values: [S] optimal values of the Lagrangian reward.
        slack: [S, A] by how much each action falls short of these values.
        violation: by how much the program's own values break one of its inequalities.
    """

    amounts: np.ndarray
    values: np.ndarray
    slack: np.ndarray
    violation: float


def nearest(cone: ExplanationCone, counts: np.ndarray) -> Nearest:
    """The `Nearest` of demonstrations with these counts [S, A], which have no explanation."""
    mdp, width = cone.mdp, cone.width
    found = _least_slack(cone, counts / counts.sum(), _gains(cone, counts))
    amounts = np.maximum(found[:width], 0.0)
    size = float(amounts.sum()) or 1.0
    amounts, level = amounts / size, found[width:] / size
    table = np.tensordot(amounts, cone.tables, 1)
    best = _best(cone, amounts).values[0]
    left = shortfall(mdp, table, best)
    broken = float(max(0.0, -shortfall(mdp, table, level).min()))
    return Nearest(amounts, best, np.maximum(left, 0.0), broken)


def _least_slack(cone: ExplanationCone, weights: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """[C + S] amounts, unit . amounts = 1, and values of least slack, as `weights` [S, A] count."""
    from scipy.sparse import block_array, csc_array, eye_array, kron

    mdp, width = cone.mdp, cone.width
    gains = cone.tables.reshape(width, -1).T
    own = kron(eye_array(mdp.states), np.ones((mdp.actions, 1)))
    # Values of states never visited are held below what the columns can be worth there.
    unseen = np.flatnonzero(~cone.visited)
    most = most_worth(mdp, cone.tables)[unseen]
    bounded = np.isfinite(most).all(axis=1)
    unseen, most = unseen[bounded], most[bounded]
    there = np.flatnonzero(mdp.choices.ravel())
    matrix: Matrix = block_array(
        [
            [csc_array(gains[there]), csc_array(mdp.discount * cone.moves - own)[there]],
            [csc_array(-most), csc_array(eye_array(mdp.states))[unseen]],
            [csc_array(unit[None]), None],
        ]
    )
    free = np.full(matrix.shape[0] - 1, -np.inf)
    flow = weights.sum(axis=1) - mdp.discount * mdp.inflow(weights)
    return least(
        np.r_[-(weights.ravel() @ gains), flow],
        matrix,
        lower=np.r_[np.zeros(width), np.full(mdp.states, -np.inf)],
        row_lower=np.r_[free, 1.0],
        row_upper=np.r_[np.zeros(len(free)), 1.0],
    )


def _gains(cone: ExplanationCone, counts: np.ndarray) -> np.ndarray:
    """[C] what the demonstrated frequencies gain over the uniform policy, a unit of each column.

    One for all if none gains anything.
    """
    mdp = cone.mdp
    taken = np.where(cone.visited[:, None], shown_counts(mdp, counts), 1.0 * mdp.choices)
    taken = led_to_an_end(mdp, taken)
    policy = taken / taken.sum(axis=1, keepdims=True)
    visits = visitation(mdp, outside_policy(mdp, policy))
    gains = np.tensordot(cone.tables, visits, 2)
    return gains if (gains > LEAST_GAIN).any() else np.ones(cone.width)


def point_findings(point: ClearestPoint, visited: int) -> list[Finding]:
    """What the chosen explanation does, beyond what was demonstrated."""
    findings = []
    count = int(point.ties.sum())
    if count:
        one = "1 action that was not demonstrated ties"
        tie = one if count == 1 else f"{count} actions that were not demonstrated tie"
        where = "the 1 visited state" if visited == 1 else f"the {visited} visited states"
        sentence = f"{tie} with a demonstrated one in every explanation, in {where}."
        findings.append(Finding(sentence, number=count))
    if point.departure > CLOSE:
        sentence = (
            "Demonstrated actions can lead to states whose actions were not shown; the recovered "
            "objective departs from the demonstrations there."
        )
        findings.append(Finding(sentence, Kind.ASSUMED))
    return findings


def misfit_findings(by_state: np.ndarray, wrong: float, forgone: float) -> list[Finding]:
    """That the expert errs, how much and where; `by_state` [S] is NaN where it was not."""
    worst = largest_first(np.nan_to_num(by_state, nan=-1.0)).tolist()
    named = [f"state {s} ({by_state[s]:.3g})" for s in worst[:MOST_NAMED] if by_state[s] > 0]
    text = (
        "Imperfect expert: no objective makes every demonstrated action optimal. The one given is "
        f"the nearest: {wrong:.1%} of the steps fall short of it"
    )
    if np.isfinite(forgone):
        text += f", which forgoes {forgone:.1%} of what it gains over acting at random"
    if not named:
        return [Finding(f"{text}.", Kind.MISFIT, number=wrong)]
    text += ". Intervals are those of exactly optimal experts only, so none are given."
    where = (
        f"A step falls short most, on average, in {listed(named)}; see the history's "
        "`slack_by_state`."
    )
    most = float(by_state[worst[0]])
    return [
        Finding(text, Kind.MISFIT, number=wrong),
        Finding(where, Kind.MISFIT, state=worst[0], number=most),
    ]


def set_findings(
    columns: CanonicalColumns,
    reward_intervals: np.ndarray,
    multiplier_intervals: np.ndarray,
    *,
    trivial: bool,
) -> list[Finding]:
    """What all explanations have in common: weights not identified, and prices."""
    findings = []
    if trivial:
        sentence = (
            "Only trivial explanations: every one of them makes all actions equally good, so the "
            "demonstrations tell nothing about the weights."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED))
    least = -1.0 if columns.free_reward else 0.0
    unknown = [
        columns.names[0][j]
        for j, (low, high) in enumerate(reward_intervals)
        if low <= least + CLOSE and high >= 1.0 - CLOSE and not columns.inert[0][j]
    ]
    if unknown and len(columns.names[0]) > 1:
        sentence = (
            f"Nothing is known about the reward weight of {listed(unknown)}: it can be anything "
            f"between {least:g} and 1."
        )
        feature = unknown[0] if len(unknown) == 1 else None
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, feature=feature))
    if np.isnan(reward_intervals).all():
        sentence = (
            "Reward weights are not identified: the costs alone explain the demonstrations, as "
            "where a budget is the least achievable cost."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED))
    findings += _price_findings(multiplier_intervals)
    if np.isinf(multiplier_intervals).any() and not np.isnan(reward_intervals).all():
        sentence = (
            "The costs alone could explain the demonstrations: infinite ends of multipliers mean "
            "that a budget may be the least achievable cost, whatever is wanted."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED))
    return findings


def _price_findings(multiplier_intervals: np.ndarray) -> list[Finding]:
    """Whether each constraint is active, may be, or is not, by its prices [K, 2]."""
    findings = []
    for k, (low, high) in enumerate(multiplier_intervals.tolist()):
        name = "The constraint" if len(multiplier_intervals) == 1 else f"Constraint {k}"
        if high == 0.0:
            sentence = f"{name} is inactive: no explanation has a price for it."
            findings.append(Finding(sentence, Kind.INACTIVE, constraint=k))
        elif low <= CLOSE * min(high, 1.0):
            most = "at any price" if np.isinf(high) else f"at up to {high:.4g}"
            sentence = (
                f"{name} may be inactive: some explanations do without it, others have it {most}."
            )
            findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, constraint=k, number=high))
        elif np.isfinite(low):
            sentence = f"{name} is active: every explanation prices it at {low:.4g} or more."
            findings.append(Finding(sentence, Kind.ACTIVE, constraint=k, number=low))
    return findings


def trusted_counts(counts: np.ndarray, errors: float) -> np.ndarray:
    """[S, A] the counts, less the actions that errors of this share may have taken so often.

    If steps are wrong independently, each with at most that chance, then with 95 % confidence every
    action that is left was meant at least once: Bonferroni over all that were seen.
    """
    if errors == 0.0:
        return counts
    from scipy.stats import binom

    tests = max(int((counts > 0).sum()), 1)
    most_errors = binom.ppf(1.0 - (1.0 - CONFIDENCE) / tests, counts.sum(axis=1), errors)
    return np.where(counts > most_errors[:, None], counts, 0.0)
