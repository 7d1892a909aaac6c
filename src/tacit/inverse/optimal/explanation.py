"""Recovery from an exactly optimal expert: the set of all explanations, and one point of it.

(theta_r, theta_k, V) explains demonstrations if theta_r . phi_r - sum_k theta_k . phi_k + discount
P V - V is 0 on every observed pair and <= 0 on all others, theta_k = multiplier * weights >= 0.
These are all objectives for which an expert that spends its budgets acts as demonstrated. Unseen
parts of its behaviour only enlarge the set: the truth is in it for certain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.data.observed import Observed, counts_of
from tacit.engine.progress import once
from tacit.errors import InvalidModel
from tacit.forward.column_generation import ColumnGeneration
from tacit.inverse.expectations import Expectations, check_task, expectations_from_start, pull_back
from tacit.inverse.findings import Finding, Kind, data_findings, feature_findings
from tacit.inverse.identification import Identification, unidentified
from tacit.inverse.optimal.budgets import calibrated, expectation_ranges
from tacit.inverse.optimal.cone import Cone, cone
from tacit.inverse.optimal.findings import (
    map_findings,
    misfit_findings,
    point_findings,
    set_findings,
)
from tacit.inverse.optimal.points import Nearest, Point, best_point, nearest
from tacit.inverse.optimal.questions import NOTHING, TRIVIAL, Questions, intervals
from tacit.inverse.optimal.vocabulary import Vocabulary, vocabulary
from tacit.inverse.recovery import History, Recovery, RecoveryCertificate, RecoveryStatus, delivered
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective


@dataclass(frozen=True)
class Explanation:
    """All explanations of an exactly optimal expert: exact intervals, and the clearest one.

    The point given separates demonstrated from other actions by the largest margin, features being
    scaled to the same size. Where no explanation exists the expert errs: the objective under which
    its steps fall short least is given instead, without intervals.

    Attributes:
        free_reward: whether reward weights may be negative.
        tolerance: by how much an inequality of the set may be broken, features being of order one.
    """

    free_reward: bool = False
    tolerance: float = 1e-9

    def fit(
        self,
        mdp: MDP,
        features: Features,
        demonstrations: Observed,
        *,
        throw: bool = True,
    ) -> Recovery:
        """The `Recovery`; its `identification.interval` answers any linear question."""
        if not 1e-10 <= self.tolerance < 1e-3:
            raise InvalidModel(f"tolerance must be in [1e-10, 1e-3); got {self.tolerance}")
        check_task(mdp, features, demonstrations)
        words = vocabulary(mdp, features, free_reward=self.free_reward)
        counts = counts_of(mdp, demonstrations)
        found = cone(mdp, words.tables, counts)
        seen = expectations_from_start(mdp, features, demonstrations)
        evidence = Evidence(mdp, features, demonstrations, words, found, seen, repr(self))
        questions = Questions(found, words, self.tolerance)
        if len(words.tables) == 0:
            return delivered(silent(evidence), throw)
        inputs = (mdp.transitions, mdp.discount, words.tables, counts)
        point, programs = once(
            "explanation",
            lambda: _clearest(questions),
            inputs=(*inputs, self.tolerance),
            kinds=(Point,),
        )
        if point is not None:
            return delivered(explained(evidence, questions, point, programs), throw)
        least = once("nearest", lambda: nearest(found, counts), inputs=inputs, kinds=(Nearest,))
        return delivered(unexplained(evidence, least), throw)


def _clearest(questions: Questions) -> tuple[Point | None, int]:
    """The clearest explanation if there is any, and the programs solved to find it."""
    point = best_point(questions) if questions.exists() else None
    return point, questions.program.solved


# A point that breaks an inequality by more than this is not the point that was asked for.
BROKEN = 1e-6
# A step that falls short by more than this, amounts summing to one, was an error of the expert.
WRONG = 1e-6


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a recovery is made from.

    Attributes:
        mdp: the model.
        features: what reward and costs may be made of.
        demonstrations: what was seen.
        words: the columns of the features.
        cone: all explanations.
        seen: expectations of the trajectories seen from their start; None if there are none.
        estimator: the call that makes the recovery.
    """

    mdp: MDP
    features: Features
    demonstrations: Observed
    words: Vocabulary
    cone: Cone
    seen: Expectations | None
    estimator: str


def explained(
    evidence: Evidence, questions: Questions, point: Point, programs: int = 0
) -> Recovery:
    """The `Recovery` at a point of the set, found by so many programs, and the set's intervals."""
    words, mdp, cone = evidence.words, evidence.mdp, evidence.cone
    parts, moved = _in_gauge(evidence, point.amounts, point.values)
    ranges = expectation_ranges(mdp, evidence.features, cone.observed, evidence.seen)
    found, more = intervals(questions, ranges)
    # Where some explanation does without a constraint, its budget may be as large as one likes.
    budgets = found.budgets.copy()
    budgets[found.multipliers[:, 0] <= 0.0, 1] = np.inf
    cancels = float(np.abs(words.table(point.amounts)).max()) <= TRIVIAL
    # Asked afresh, so that the answer does not depend on what was asked before.
    questions = replace(questions)
    trivial = (cancels or point.margin == 0.0) and questions.only_trivial()
    findings = [
        *_shared_findings(evidence),
        *set_findings(words, found.reward, found.multipliers, trivial=trivial),
        *point_findings(point, int(cone.visited.sum())),
        *moved,
    ]
    nothing = unidentified(parts.reward_weights, parts.cost_weights, active=parts.active)
    identification = replace(
        nothing,
        reward_intervals=found.reward,
        cost_intervals=found.costs,
        multiplier_intervals=found.multipliers,
        budget_intervals=budgets,
        findings=tuple(findings),
        answer=questions,
    )
    history = {
        "margin": [point.margin],
        "ties": [int(point.ties.sum())],
        "programs": [programs + more],
    }
    return _recovery(evidence, parts, identification, history, point.violation)


def unexplained(evidence: Evidence, found: Nearest) -> Recovery:
    """The `Recovery` of an expert that errs: the nearest objective, no intervals."""
    parts, moved = _in_gauge(evidence, found.amounts, found.values)
    counts = counts_of(evidence.mdp, evidence.demonstrations)
    visits = counts.sum(axis=1)
    size = np.abs(evidence.words.weights(found.amounts)[0]).sum() or 1.0
    by_state = np.full(len(visits), np.nan)
    seen = visits > 0
    by_state[seen] = (counts * found.slack).sum(axis=1)[seen] / visits[seen] / size
    wrong = float(counts[found.slack > WRONG].sum() / counts.sum())
    gain = float(evidence.mdp.initial @ found.values)
    forgone = np.nan
    if evidence.seen is not None and gain > 0:
        forgone = float((evidence.seen.visitation * found.slack).sum() / gain)
    findings = [
        *misfit_findings(by_state, wrong, forgone),
        *_shared_findings(evidence),
        *moved,
    ]
    identification = unidentified(
        parts.reward_weights, parts.cost_weights, active=parts.active, findings=findings
    )
    history = {"slack_by_state": by_state[None], "wrong": [wrong], "forgone": [forgone]}
    return _recovery(evidence, parts, identification, history, found.violation)


def silent(evidence: Evidence) -> Recovery:
    """The `Recovery` where no policy influences any feature: nothing is known."""
    parts, _ = _in_gauge(evidence, np.zeros(0), np.zeros(evidence.mdp.states))
    findings = _shared_findings(evidence)
    identification = unidentified(
        parts.reward_weights, parts.cost_weights, active=parts.active, findings=findings
    )
    return _recovery(evidence, parts, identification, {}, 0.0)


@dataclass(frozen=True, eq=False)
class Parts:
    """An objective in the gauge.

    Attributes:
        reward_weights: [D] of L1 norm 1; NaN if the reward is 0.
        cost_weights: one [D_k] per constraint, of sum 1; NaN if it is inactive.
        multipliers: [K].
        budgets: [K] infinite if inactive.
        active: [K] bool.
    """

    reward_weights: np.ndarray
    cost_weights: list[np.ndarray]
    multipliers: np.ndarray
    budgets: np.ndarray
    active: np.ndarray


def _in_gauge(
    evidence: Evidence, amounts: np.ndarray, values: np.ndarray
) -> tuple[Parts, list[Finding]]:
    """The `Parts` of these amounts [C], budgets calibrated; findings about moved budgets."""
    words, mdp = evidence.words, evidence.mdp
    theta = words.weights(amounts)
    large = [amounts[words.block == b].sum() > NOTHING for b in range(len(theta))]
    norm = np.abs(theta[0]).sum()
    reward = theta[0] / norm if large[0] and norm > 0 else np.full(len(theta[0]), np.nan)
    active = np.array(large[1:], dtype=bool)
    price = 1.0 / norm if np.isfinite(reward).all() else np.inf
    prices = [part.sum() * price if on else 0.0 for part, on in zip(theta[1:], active, strict=True)]
    costs = [
        part / part.sum() if is_active else np.full(len(part), np.nan)
        for part, is_active in zip(theta[1:], active, strict=True)
    ]
    gains = words.table(amounts) + mdp.discount * mdp.expected_next(values)
    budgets, moved = _calibrated(evidence, costs, active, gains.argmax(axis=1))
    findings = [
        Finding(
            f"The budget {f'of constraint {k} ' if len(active) > 1 else ''}was moved from "
            f"{old:.6g} to {budgets[k]:.6g}: policies that use only demonstrated actions cannot "
            "spend the former.",
            Kind.UNATTAINABLE,
            constraint=k,
            number=old,
        )
        for k, old in moved
    ]
    return Parts(reward, costs, np.array(prices), budgets, active), findings


def _calibrated(
    evidence: Evidence, costs: list[np.ndarray], active: np.ndarray, greedy: np.ndarray
) -> tuple[np.ndarray, list[tuple[int, float]]]:
    """[K] budgets, and (constraint, what the demonstrations spend) for those that were moved."""
    budgets = np.full(len(active), np.inf)
    if not active.any():
        return budgets, []
    mdp, seen = evidence.mdp, evidence.seen
    tables = _objective(evidence, None, costs, budgets).tables(mdp)[1][active]
    wanted = np.full(len(tables), np.nan)
    if seen is not None:
        wanted = np.array([costs[k] @ seen.costs[k] for k in np.flatnonzero(active)])
    counts = counts_of(mdp, evidence.demonstrations)
    budgets[active], moved = calibrated(mdp, tables, wanted, counts, greedy)
    which = np.flatnonzero(active)[moved]
    return budgets, list(zip(which.tolist(), wanted[moved].tolist(), strict=True))


def _objective(
    evidence: Evidence,
    reward_weights: np.ndarray | None,
    cost_weights: list[np.ndarray],
    budgets: np.ndarray,
) -> Objective:
    """The objective of these weights; NaN weights count as 0."""
    features = evidence.features
    width = features.reward.shape[-1]
    reward = np.zeros(width) if reward_weights is None else np.nan_to_num(reward_weights)
    return features.objective(reward, [np.nan_to_num(w) for w in cost_weights], budgets)


def _shared_findings(evidence: Evidence) -> list[Finding]:
    return [
        *data_findings(evidence.mdp, evidence.demonstrations),
        *feature_findings(evidence.features),
        *map_findings(evidence.words, evidence.features),
    ]


def _recovery(
    evidence: Evidence,
    parts: Parts,
    identification: Identification,
    history: dict[str, Any],
    violation: float,
) -> Recovery:
    objective = _objective(evidence, parts.reward_weights, parts.cost_weights, parts.budgets)
    solution = ColumnGeneration().solve(evidence.mdp, objective, throw=False)
    gap = noise = truncation = np.nan
    if evidence.seen is not None:
        gap = evidence.seen.gap(pull_back(evidence.features, solution.visitation))
        noise, truncation = evidence.seen.noise, evidence.seen.relative_truncation
    fine = violation <= BROKEN
    return Recovery(
        parts.reward_weights,
        parts.cost_weights,
        parts.multipliers,
        parts.budgets,
        0.0,
        objective,
        solution,
        RecoveryStatus.CONVERGED if fine else RecoveryStatus.NOT_CONVERGED,
        RecoveryCertificate(gap, noise, truncation, objective_gap=violation),
        History(history),
        identification,
        evidence.estimator,
        evidence.features.reward_names,
        evidence.features.cost_names,
    )
