"""From the best round of the alternation to a `Recovery` that says what the loop could not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.data.observed import Observed
from tacit.forward.solution import Solution, Status
from tacit.inverse.expectations import Blocks, Expectations, pull_back
from tacit.inverse.findings import Finding, Kind, data_findings, feature_findings
from tacit.inverse.identification import unidentified
from tacit.inverse.paper.projections import within_bands, yardsticks
from tacit.inverse.paper.rounds import Round, favourites, visits_of, with_favourites
from tacit.inverse.recovery import History, Recovery, RecoveryCertificate, status_of
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective

if TYPE_CHECKING:
    from tacit.inverse.paper.alternating import Alternating

# A multiplier this small beside reward / cost is none.
NO_PRICE = 1e-9
# A feature gap beyond this many times its sampling noise is not explained by sampling.
NOISY = 2.0


def report(
    rules: Alternating,
    mdp: MDP,
    features: Features,
    demonstrations: Observed,
    seen: Expectations,
    best: Round,
    history: History,
) -> Recovery:
    """The recovery at the round `best`; a constraint it does not need is set aside."""
    needed = best.multipliers > NO_PRICE * _price_scale(features, best.weights)
    for k in np.flatnonzero(needed):
        without = needed.copy()
        without[k] = False
        if not best.infeasible and _explained(rules, mdp, features, seen, best, without):
            needed = without
    objective, solution = _problem(rules, mdp, features, seen, best, needed)
    reached = pull_back(features, visits_of(mdp, rules, solution))
    gap = seen.gap(reached)
    multipliers = np.where(needed, best.multipliers, 0.0)
    cost_weights = [
        part if keep else np.full(len(part), np.nan)
        for part, keep in zip(best.weights[1:], needed, strict=True)
    ]
    findings = [
        *_about_match(rules, seen, gap),
        *_about_constraints(best, needed),
        *_about_rounds(rules, best, history),
        *_about_cuts(rules, seen),
        *feature_findings(features, mdp),
        *data_findings(mdp, demonstrations),
    ]
    return Recovery(
        reward_weights=best.weights[0],
        cost_weights=cost_weights,
        multipliers=np.full(len(needed), np.nan) if best.infeasible else multipliers,
        budgets=objective.budgets,
        temperature=solution.temperature,
        objective=objective,
        solution=solution,
        status=status_of(
            converged=not best.infeasible
            and best.converged(rules.tolerance)
            and solution.status is Status.CONVERGED,
            proven=not gap > _explicable(rules, seen),
        ),
        certificate=RecoveryCertificate.of(
            seen, reached, projected_gradient=best.pull, weight_change=best.change
        ),
        history=history,
        identification=unidentified(
            best.weights[0], best.weights[1:], active=needed, findings=findings
        ),
        estimator=repr(rules),
        reward_names=features.reward_names,
        cost_names=features.cost_names,
    )


def _explicable(rules: Alternating, seen: Expectations) -> float:
    """The largest feature gap that sampling explains; infinite where its noise is not known."""
    return np.inf if np.isnan(seen.noise) else max(NOISY * seen.noise, rules.tolerance)


def _problem(
    rules: Alternating,
    mdp: MDP,
    features: Features,
    seen: Expectations,
    best: Round,
    needed: np.ndarray,
) -> tuple[Objective, Solution]:
    """The recovered objective and its solution; a constraint that is not needed costs nothing."""
    weights = [part * keep for part, keep in zip(best.weights[1:], needed, strict=True)]
    budgets = np.where(needed, best.budgets, np.inf)
    objective = features.objective(best.weights[0], weights, budgets)
    if best.number > 0 and needed.all():  # solved already: the first round alone is off the gauge
        return objective, best.solution
    solution = rules.solver.solve(mdp, objective, guess=best.guess, throw=False)
    return objective, with_favourites(solution, favourites(mdp, features, seen.visitation))


def _explained(
    rules: Alternating,
    mdp: MDP,
    features: Features,
    seen: Expectations,
    best: Round,
    kept: np.ndarray,
) -> bool:
    """Whether the constraints `kept` [K] alone make a policy that matches within the band."""
    if rules.constant or not rules.band > 0 or not np.isfinite(seen.noise):
        return False
    _, solution = _problem(rules, mdp, features, seen, best, kept)
    reached = pull_back(features, visits_of(mdp, rules, solution))
    return within_bands(seen, yardsticks(seen, rules.band), reached)


def _price_scale(features: Features, weights: Blocks) -> np.ndarray:
    """[K] reward over cost: the size of a multiplier that matters."""
    costs = weights[1:]
    tables = features.objective(weights[0], costs, np.zeros(len(costs)))
    reward = float(np.abs(tables.reward).max())
    return reward / np.maximum(np.array([np.abs(c).max() for c in tables.costs]), 1e-300)


def _about_match(rules: Alternating, seen: Expectations, gap: float) -> list[Finding]:
    if not gap > _explicable(rules, seen):
        return []
    said = (
        "The demonstrations are not explained: predicted behaviour differs from them by "
        f"{gap:.1%}; chance alone gives {seen.noise:.1%}."
    )
    return [Finding(said, Kind.MISFIT, number=gap)]


def _about_constraints(best: Round, needed: np.ndarray) -> list[Finding]:
    findings = []
    for k in np.flatnonzero(~needed).tolist():
        reason, kind = "the demonstrations are explained as well without it", Kind.INACTIVE
        if best.multipliers[k] == 0 and best.start >= 0:
            reason, kind = "under the weights found its budget does not bind", Kind.SLACK
        said = f"Constraint {k} is not identified: {reason}."
        findings.append(Finding(said, kind, constraint=k))
    if best.raised:
        said = (
            "A budget was raised to the least cost that any policy can have: by chance, or because "
            "they were cut off, the demonstrations spend less."
        )
        findings.append(Finding(said, Kind.UNATTAINABLE))
    if best.infeasible:
        said = (
            "No round was feasible: under the weights given no policy meets the budgets, and there "
            "are no multipliers."
        )
        findings.append(Finding(said, Kind.UNATTAINABLE))
    return findings


def _about_rounds(rules: Alternating, best: Round, history: History) -> list[Finding]:
    """What happened on the way, in counts; rounds with the reward alone apart."""
    if best.start < 0:
        return [Finding("The reward alone matches every feature expectation within the band.")]
    own = history["start"] >= 0
    history = History({name: column[own] for name, column in history.columns.items()})
    total = len(history)
    findings = []
    for column, text in (
        ("infeasible", "no policy met the budgets; the step used the least violation and price 1"),
        ("raised", "budgets had to be raised to what can be met"),
        ("empty", "no constraint weights met the bound of 1; the simplex alone held them"),
    ):
        count = int((history[column] > 0).sum())
        if count:
            findings.append(Finding(f"In {count} of {total} rounds {text}.", number=count))
    idle = history["multipliers"] == 0
    for k in range(idle.shape[1]):
        if idle[:, k].any():
            turned = "its weights did not move" if rules.constant else "its weights turned anyway"
            count = int(idle[:, k].sum())
            said = f"In {count} of {total} rounds the budget of constraint {k} did not bind"
            findings.append(Finding(f"{said}; {turned}.", constraint=k, number=count))
    converged = (history["weight_change"] <= rules.tolerance) & (
        history["projected_gradient"] <= rules.tolerance
    )
    findings += _about_starts(rules, history, converged)
    own = history["start"] == best.start
    late = history["reversed"][own & (history["iteration"] >= own.sum() // 2)]
    if not converged[own].any() and late.mean() > 0.5:
        said = (
            f"The weights oscillate: {late.mean():.0%} of the later steps turned back on the one "
            "before. The best round was kept."
        )
        findings.append(Finding(said, Kind.NOT_CONVERGED, number=float(late.mean())))
    return findings


def _about_starts(rules: Alternating, history: History, converged: np.ndarray) -> list[Finding]:
    if rules.starts == 1:
        return []
    count = int(converged.sum())
    said = f"{count} of {rules.starts} starts converged"
    spread = float(np.ptp(history["reward_weights"][converged], axis=0).max()) if count > 1 else 0.0
    if spread <= 0.05:
        return [Finding(f"{said}.", number=count)]
    said += f", at reward weights that differ by up to {spread:.2f}: the demonstrations do not "
    return [Finding(said + "determine them.", Kind.NOT_IDENTIFIED, number=spread)]


def _about_cuts(rules: Alternating, seen: Expectations) -> list[Finding]:
    if rules.steps is not None or not seen.relative_truncation > seen.noise:
        return []
    said = (
        "Trajectories were cut off early: their feature sums may lack up to "
        f"{seen.relative_truncation:.1%}, more than their sampling error. Pass steps=T if all "
        "were cut after T steps."
    )
    return [Finding(said, Kind.TRUNCATED, number=seen.relative_truncation)]
