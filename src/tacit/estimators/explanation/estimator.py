"""Recovery from an exactly optimal expert: the set of all explanations, and one point of it.

(theta_r, theta_k, V) explains demonstrations if theta_r . phi_r - sum_k theta_k . phi_k + discount
P V - V is 0 on every observed pair and <= 0 on all others, theta_k = multiplier * weights >= 0.
These are all objectives for which an expert that spends its budgets acts as demonstrated. Unseen
parts of its behaviour only enlarge the set: the truth is in it for certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from tacit.data.observed import Observed
from tacit.data.tally import counts_of
from tacit.engine.progress import once
from tacit.errors import InvalidModel
from tacit.estimators.assembly import Estimate, recovery
from tacit.estimators.explanation.answers import NOTHING, TRIVIAL, Answers, intervals
from tacit.estimators.explanation.cone import CanonicalColumns, columns_of, shortfall
from tacit.estimators.explanation.gauge import calibrate, expectation_ranges
from tacit.estimators.explanation.points import (
    ClearestPoint,
    Nearest,
    best_point,
    misfit_findings,
    nearest,
    point_findings,
    set_findings,
    trusted_counts,
)
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.solution import Status
from tacit.inference.diagnostics import Goodness, Identification
from tacit.inference.expectations import Expectations, Spending, check_task, expectations_from_start
from tacit.inference.findings import Finding, Kind, feature_findings, listed
from tacit.inference.gauge import Gauge
from tacit.inference.goodness import STEPS, Part, Worst
from tacit.inference.parameters import CONFIDENCE
from tacit.inference.sets import Ends, unidentified
from tacit.inference.standardised import standard_of
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.recovery import Recovery, delivered

# Largest violation of an inequality at which a point counts as found.
MOST_VIOLATION = 1e-6
# A step that falls short by more than this, amounts summing to one, was an error of the expert.
LEAST_ERROR = 1e-6
# Cosine from which on columns count as parallel.
PARALLEL = 1.0 - 1e-9
# Singular values below this, relative to the largest, are 0.
RANK_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Explanation:
    """All explanations of an exactly optimal expert: exact intervals, and the clearest one.

    The point given separates demonstrated from other actions by the largest margin, features being
    scaled to the same size. Where no explanation exists the expert errs: the objective under which
    its steps fall short least is given instead, without intervals.

    With `errors`, an expert that means to be optimal and errs: each step is wrong with at most this
    chance, independently. An action that so few errors would hardly have taken as often as it was
    seen, with 95 % confidence for all of them at once, must be best; of the others nothing is held
    against an explanation. The set then holds the truth with that confidence.

    Attributes:
        free_reward: whether reward weights may be negative.
        tolerance: by how much an inequality of the set may be broken, features being of order one.
        errors: largest chance that a step is wrong.
    """

    free_reward: bool = False
    tolerance: float = 1e-9
    errors: float = 0.0

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The `Recovery`; its `identification.interval` answers any linear question."""
        if not 1e-10 <= self.tolerance < 1e-3:
            raise InvalidModel(f"tolerance must be in [1e-10, 1e-3); got {self.tolerance}")
        if not 0.0 <= self.errors < 0.5:
            raise InvalidModel(
                f"errors must be the largest share of wrong steps, in [0, 0.5); got {self.errors}"
            )
        check_task(mdp, features, demonstrations)
        columns = columns_of(mdp, features, free_reward=self.free_reward)
        counts = trusted_counts(counts_of(mdp, demonstrations), self.errors)
        evidence = OptimalEvidence(
            features=features,
            demonstrations=demonstrations,
            answers=Answers(mdp, columns, counts > 0, self.tolerance),
            seen=expectations_from_start(mdp, features, demonstrations),
            counts=counts,
            errors=self.errors,
        )
        estimate = _sought(evidence) if len(columns.tables) else silent(evidence)
        estimator = repr(self) if self.errors else repr(self).replace(", errors=0.0", "")
        return delivered(recovery(estimator, mdp, features, demonstrations, estimate), throw)


@dataclass(frozen=True, eq=False, kw_only=True)
class OptimalEvidence:
    """What a recovery is made from.

    Attributes:
        features: what reward and costs may be made of.
        demonstrations: what was seen.
        answers: about all explanations.
        seen: expectations of the trajectories seen from their start; None if there are none.
        counts: [S, A] how often each action was seen, less those that errors may have taken.
        errors: largest chance that a step is wrong.
    """

    features: Features
    demonstrations: Observed
    answers: Answers
    seen: Expectations | None
    counts: np.ndarray
    errors: float

    @property
    def mdp(self) -> MDP:
        """The model."""
        return self.answers.mdp

    @property
    def columns(self) -> CanonicalColumns:
        """The columns of the features."""
        return self.answers.columns

    @cached_property
    def every_count(self) -> np.ndarray:
        """[S, A] how often each action was seen, errors or not."""
        return counts_of(self.mdp, self.demonstrations)


def _sought(evidence: OptimalEvidence) -> Estimate:
    """The clearest explanation if there is any, else the nearest objective."""
    mdp, answers, counts = evidence.mdp, evidence.answers, evidence.counts
    inputs = (mdp.transitions, mdp.discount, evidence.columns.tables, counts)
    point, programs = once(
        "explanation", lambda: _clearest(answers), inputs=(*inputs, answers.tolerance)
    )
    if point is not None:
        return explained(evidence, point, programs)
    return unexplained(
        evidence, once("nearest", lambda: nearest(answers.cone, counts), inputs=inputs)
    )


def _clearest(answers: Answers) -> tuple[ClearestPoint | None, int]:
    """The clearest explanation if there is any, and the programs solved to find it."""
    point = best_point(answers) if answers.exists() else None
    return point, answers.program.solved


def explained(evidence: OptimalEvidence, point: ClearestPoint, programs: int = 0) -> Estimate:
    """The `Estimate` at a point of the set, found by so many programs, and the set's intervals."""
    # Asked afresh, so that the answer does not depend on what was asked before.
    mdp, columns, answers = evidence.mdp, evidence.columns, evidence.answers.afresh()
    # What an expert that errs spends is not what it means to: only what it can is known.
    seen = None if evidence.errors else evidence.seen
    ranges = expectation_ranges(mdp, evidence.features, answers.cone.observed, seen)
    found, more = intervals(answers, ranges)
    cancels = float(np.abs(columns.table(point.amounts)).max()) <= TRIVIAL
    trivial = (cancels or point.margin == 0.0) and answers.only_trivial()
    findings = [
        *set_findings(columns, found.reward, found.multipliers, trivial=trivial),
        *point_findings(point, int(answers.cone.visited.sum())),
        *_errors_findings(evidence),
    ]
    ties = int(point.ties.sum())
    history = {"margin": [point.margin], "ties": [ties], "programs": [programs + more]}
    estimate = _estimate(evidence, point, findings, history)
    assert estimate.known is not None
    standard = standard_of(mdp, evidence.features)
    if not standard.uniform:
        scaled = columns.in_units(standard.deviations)
        pairs = zip(ranges, standard.deviations[1:], strict=True)
        rows = [part / unit[:, None] for part, unit in pairs]
        ends, _ = intervals(answers.afresh(scaled), rows)
        standard = standard.knowing(_known(estimate.known, ends, scaled, rows))
    known = replace(
        _known(estimate.known, found, columns, ranges),
        answer=answers,
        confidence=CONFIDENCE if evidence.errors else 1.0,
    )
    counts = evidence.every_count
    missed = np.zeros(counts.shape)
    if evidence.errors:
        short = shortfall(mdp, columns.table(point.amounts), point.values)
        missed = np.where((counts > 0) & (short > LEAST_ERROR), short, 0.0)
    share = float(counts[missed > 0].sum() / counts.sum())
    goodness = _goodness(counts, missed, share, 0.0 if share == 0.0 else np.nan)
    return replace(estimate, known=known, goodness=goodness, standard=standard)


def _known(
    known: Identification, ends: Ends, columns: CanonicalColumns, ranges: list[np.ndarray]
) -> Identification:
    """What is known, with these ends; inert features may have any weight."""
    # Where some explanation does without a constraint, its budget may be as large as one likes.
    idle = ends.multipliers[:, 0] <= 0.0
    budgets = np.where(np.outer(idle, [False, True]), np.inf, ends.budgets)
    ends = replace(ends, budgets=budgets)
    ends = ends.beside(columns.inert, ranges, free_reward=columns.free_reward)
    return replace(
        known,
        reward_intervals=ends.reward,
        cost_intervals=ends.costs,
        multiplier_intervals=ends.multipliers,
        budget_intervals=ends.budgets,
    )


def unexplained(evidence: OptimalEvidence, found: Nearest) -> Estimate:
    """The `Estimate` of an expert that errs: the nearest objective, no intervals."""
    counts = evidence.every_count
    visits, lost = counts.sum(axis=1), counts * found.slack
    size = np.abs(evidence.columns.weights(found.amounts)[0]).sum() or 1.0
    by_state = np.full(len(visits), np.nan)
    seen = visits > 0
    by_state[seen] = lost.sum(axis=1)[seen] / visits[seen] / size
    wrong = float(counts[found.slack > LEAST_ERROR].sum() / counts.sum())
    gain = float(evidence.mdp.initial @ found.values)
    forgone = np.nan
    if evidence.seen is not None and gain > 0:
        forgone = float((evidence.seen.visitation * found.slack).sum() / gain)
    state, action = (int(n) for n in np.unravel_index(lost.argmax(), lost.shape))
    taken = float(counts[state, action] / visits[state])
    worst = Worst(state=state, action=action, observed=taken, expected=0.0)
    # Where rounding alone forbids an explanation no step can be named.
    goodness = replace(
        _goodness(counts, found.slack, wrong, forgone),
        adequate=False,
        worst=worst if wrong > 0 else None,
    )
    history = {"slack_by_state": by_state[None], "wrong": [wrong], "forgone": [forgone]}
    estimate = _estimate(evidence, found, misfit_findings(by_state, wrong, forgone), history)
    return replace(estimate, unexplained=True, goodness=goodness)


def explainable(mdp: MDP, features: Features, demonstrations: Observed) -> bool:
    """Whether any objective explains every step of an optimal expert."""
    columns = columns_of(mdp, features)
    if len(columns.tables) == 0:
        return True
    observed = counts_of(mdp, demonstrations) > 0
    return Answers(mdp, columns, observed, Explanation.tolerance).exists()


def _errors_findings(evidence: OptimalEvidence) -> list[Finding]:
    """What was not held against an explanation, where errors are allowed for."""
    if not evidence.errors:
        return []
    counts = evidence.every_count
    loose = (counts > 0) & (evidence.counts == 0)
    sentence = (
        f"Each step is taken to be wrong with a chance of at most {evidence.errors:.1%}, "
        f"independently: {int(counts[loose].sum())} of {int(counts.sum())} steps, "
        f"{int(loose.sum())} of {int((counts > 0).sum())} actions seen, could be such errors and "
        f"are not held against an explanation. The set holds the truth with {CONFIDENCE:.0%} "
        "confidence."
    )
    return [Finding(sentence, Kind.ASSUMED, number=float(counts[loose].sum() / counts.sum()))]


def _goodness(counts: np.ndarray, slack: np.ndarray, share: float, weight: float) -> Goodness:
    """The `Goodness` of steps of which a share falls short by slack [S, A] of what is best."""
    visited = counts.sum(axis=1, keepdims=True) > 0
    return Goodness(
        statistic=share,
        residuals=np.where(visited, 0.0 - counts * slack, np.nan),
        trajectory_residuals=np.zeros(0),
        parts=(Part(name=STEPS, statistic=share, method="exact"),),
        share=share,
        weight=weight,
    )


def silent(evidence: OptimalEvidence) -> Estimate:
    """The `Estimate` where no policy influences any feature: nothing is known."""
    nothing = np.zeros(evidence.counts.shape)
    least = Nearest(np.zeros(0), nothing[:, 0], nothing, 0.0)
    return _estimate(evidence, least, [], {"programs": [0]})


def _estimate(
    evidence: OptimalEvidence,
    found: ClearestPoint | Nearest,
    findings: Iterable[Finding],
    history: dict[str, npt.ArrayLike],
) -> Estimate:
    """The `Estimate` of these amounts in the gauge, without intervals; budgets are calibrated."""
    mdp, features, columns = evidence.mdp, evidence.features, evidence.columns
    gauge = _gauge_of(columns, found.amounts)
    active, costs = gauge.multipliers > 0, list(gauge.cost_weights)
    wants_something = np.isfinite(gauge.reward_weights).all()
    weights = np.nan_to_num(gauge.reward_weights), [np.nan_to_num(w) for w in costs]
    unbudgeted = features.objective(*weights, np.full(len(active), np.inf))
    budgets, budget_findings = _budgets(evidence, found, unbudgeted.tables(mdp)[1], costs, active)
    objective = features.objective(*weights, budgets)
    solution = ColumnGeneration().solve(mdp, objective, throw=False)
    is_unbounded = solution.status is Status.UNBOUNDED
    if is_unbounded:
        sentence = (
            "No finite value at these weights: they are at the border where walking in circles "
            "begins to pay, and no policy is the best. A step cost among the features, or a "
            "discount below 1, would mend it."
        )
        budget_findings.append(Finding(sentence, Kind.NOT_CONVERGED))
    return Estimate(
        objective=objective,
        solution=solution,
        reward_weights=gauge.reward_weights,
        cost_weights=costs,
        multipliers=np.where(active & (not wants_something), np.inf, gauge.multipliers),
        converged=found.violation <= MOST_VIOLATION and not is_unbounded,
        findings=[
            *feature_findings(features, mdp),
            *map_findings(columns, features),
            *findings,
            *budget_findings,
        ],
        history=history,
        certificate={"objective_gap": found.violation},
        seen=evidence.seen,
        known=unidentified(gauge.reward_weights, costs, active=active),
        spending=Spending.of_data(features, evidence.seen),
    )


def _gauge_of(columns: CanonicalColumns, amounts: np.ndarray) -> Gauge:
    """The gauge of amounts [C]; blocks whose amounts are rounding count as 0."""
    totals = [amounts[columns.block == b].sum() for b in range(len(columns.sizes))]
    parts = zip(columns.weights(amounts), totals, strict=True)
    x = np.concatenate([part * (total > NOTHING) for part, total in parts])
    edges = np.cumsum([0, *columns.sizes]).tolist()
    blocks = tuple(slice(*pair) for pair in pairwise(edges))
    return Gauge(x, np.ones(len(x)), blocks, spent=np.zeros(len(x)))


def _budgets(
    evidence: OptimalEvidence,
    found: ClearestPoint | Nearest,
    tables: np.ndarray,
    weights: Sequence[np.ndarray],
    active: np.ndarray,
) -> tuple[np.ndarray, list[Finding]]:
    """[K] what demonstrated actions spend, infinite where nothing is priced; and what was moved.

    Args:
        evidence: what was seen.
        found: the objective, as amounts of columns.
        tables: [K, S, A] its costs.
        weights: one [D_k] per constraint.
        active: [K] bool, the constraints with a price.
    """
    mdp, budgets = evidence.mdp, np.full(len(active), np.inf)
    if not active.any():
        return budgets, []
    chosen = np.flatnonzero(active).tolist()
    seen = np.full(len(chosen), np.nan)
    if evidence.seen is not None and not evidence.errors:
        seen = np.array([weights[k] @ evidence.seen.costs[k] for k in chosen])
    gains = evidence.columns.table(found.amounts) + mdp.discount * mdp.expected_next(found.values)
    greedy = np.where(mdp.choices, gains, -np.inf).argmax(axis=1)
    budgets[active], moved = calibrate(mdp, tables[active], seen, evidence.counts, greedy)
    findings = [
        Finding(
            f"The budget {f'of constraint {k} ' if len(active) > 1 else ''}was moved from "
            f"{old:.6g} to {budgets[k]:.6g}: policies that use only demonstrated actions "
            "cannot spend the former.",
            Kind.UNATTAINABLE,
            constraint=k,
            number=old,
        )
        for k, old, is_moved in zip(chosen, seen.tolist(), moved, strict=True)
        if is_moved
    ]
    return budgets, findings


def map_findings(columns: CanonicalColumns, features: Features) -> list[Finding]:
    """What the features cannot tell apart, whatever is demonstrated."""
    findings = []
    labels = [
        columns.names[b][j]
        for b, silent in enumerate(columns.inert)
        for j in np.flatnonzero(silent)
    ]
    if labels:
        sentence = (
            f"No policy can influence {listed(labels)}: every weight explains the demonstrations "
            "as well. Intervals of other weights and of prices allow for that; they narrow where "
            "it is left out."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, feature=_only(labels)))
    equal = _equal_maps(features)
    for j, k in equal:
        sentence = (
            f"Constraints {j} and {k} have the same features: only the sum of multiplier * weights "
            "is identified by one task."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED))
    pairs, nullity = _trading(columns)
    for a, b in pairs:
        sentence = (
            f"Reward feature {a!r} and cost feature {b!r} trade off freely: in this world no "
            "demonstrations can tell wanting the one from refusing the other."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, feature=a))
    if nullity > len(pairs) + len(equal):
        sentence = (
            f"{nullity} combinations of features influence no policy: their weights trade off "
            "freely."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, number=nullity))
    return findings


def _equal_maps(features: Features) -> list[tuple[int, int]]:
    """The constraints that have the same features, in pairs."""
    pairs = combinations(enumerate(features.costs), 2)
    return [(j, k) for (j, one), (k, other) in pairs if np.array_equal(one, other)]


def _trading(columns: CanonicalColumns) -> tuple[list[tuple[str, str]], int]:
    """Reward and cost features with parallel columns, and the nullity of all columns."""
    positive = columns.units > 0  # not the negatives that free signs bring
    tables = columns.tables[positive]
    flat = tables.reshape(len(tables), np.prod(tables.shape[1:], dtype=int))
    block, feature = columns.block[positive], columns.feature[positive]
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    cosines = np.abs(unit @ unit.T)
    pairs = [
        (columns.names[0][feature[i]], columns.names[block[j]][feature[j]])
        for i in np.flatnonzero(block == 0)
        for j in np.flatnonzero(block > 0)
        if cosines[i, j] > PARALLEL
    ]
    singular = np.linalg.svd(unit, compute_uv=False) if len(unit) else np.zeros(0)
    return pairs, int((singular <= RANK_TOLERANCE * singular.max(initial=0.0)).sum())


def _only(names: list[str]) -> str | None:
    """The name, if there is one only."""
    return names[0] if len(names) == 1 else None
