"""Algorithm 1 of the paper with its gaps mended, or as published: `Alternating`, and its report.

The recovery at the best round says what the loop could not tell.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from tacit.data.observed import Observed
from tacit.engine.progress import stopped
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.assembly import Estimate, recovery
from tacit.estimators.paper.rounds import Round, better_round, history_of, run_start, solve_round
from tacit.estimators.paper.setting import LoopSetting, price_scale
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.policies import with_favourites
from tacit.forward.solution import Solution, Status
from tacit.forward.solve import Solver
from tacit.inference.expectations import Expectations, check_task, expectations_from_start
from tacit.inference.findings import Finding, Kind, feature_findings
from tacit.inference.sets import unidentified
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective
from tacit.recovery import History, Recovery, delivered

# A multiplier this small beside reward / cost is none.
NO_PRICE = 1e-9
# A feature gap beyond this many times its sampling noise is not explained by sampling.
MOST_NOISES = 2.0
# Rounds after which a decaying step has fallen to 1 / sqrt(2) of the first one.
HALF_LIFE = 100.0
# Starts with the reward alone before the constraints are asked for: -3, -2 and -1 in the history.
FREE_STARTS = 3
# Option -> the words it may be.
CHOICES = {
    "budget": ("calibrated", "one"),
    "bound": ("policy", "demonstrations"),
    "step": ("decaying", "constant"),
    "multiplier": ("optimal", "at-least-one"),
    "update": ("exponentiated", "projected"),
}


@dataclass(frozen=True)
class Alternating:
    """Alternates between solving the constrained problem and steps on its weights.

    Attributes:
        solver: of the constrained problem; `SoftDual(temperature=...)` for a noisy expert.
        budget: "calibrated": what the demonstrations spend under the weights of the moment, raised
            to the least possible cost where need be; "one": as published, the weights are
            projected onto those under which `bound` spends at most 1.
        bound: whose feature expectations that are: "policy" (the paper) or "demonstrations" (the
            authors' slides). Not used with calibrated budgets.
        step: "decaying": steps in units of what the features can differ by, falling with the
            square root of the rounds; "constant": the gradient times `step_size`, as published.
        step_size: of the first step.
        band: standard errors of a feature expectation within which a difference is no reason to
            step. Not used with constant steps.
        steps: T of the finite recursion for the policy's visitation (paper eq. 5); None solves for
            the infinite horizon.
        starts: how many random starts to make.
        tolerance: change of the weights, and pull on them, by a full step that counts as none.
        max_steps: most rounds of a start.
        seed: of the random starts.
        multiplier: "optimal": that of the constrained problem, 0 where its budget is slack, as the
            algorithm has it; "at-least-one": 1 + nu, as the text derives it, with nu the multiplier
            of the budget where the reward is already reduced by the cost. The two agree wherever
            the first is at least 1; below it the second spends less than its budget. It depends on
            the units of the features.
        update: "exponentiated": weights are multiplied by exp(-step * gradient) and projected in
            relative entropy, as published; "projected": the step is subtracted from them, and the
            nearest point in the plain distance is taken.

    With a band, the reward alone is tried first: if it matches all expectations within the band, no
    constraint is identified.

    Ties: of actions with the same next states and features the demonstrated one is taken, of others
    worth the same that of the round before; of rounds that are as good the earlier one is kept.
    """

    solver: Solver = field(default_factory=ColumnGeneration)
    _: KW_ONLY
    budget: str = "calibrated"
    bound: str = "policy"
    step: str = "decaying"
    step_size: float = 5.0
    band: float = 2.5
    steps: int | None = None
    starts: int = 12
    tolerance: float = 1e-4
    max_steps: int = 150
    seed: int = 0
    multiplier: str = "optimal"
    update: str = "exponentiated"

    def __post_init__(self) -> None:
        for name, words in CHOICES.items():
            given = getattr(self, name)
            if not isinstance(given, str) or given not in words:
                known = " or ".join(map(repr, words))
                raise InvalidModel(f"{name} must be {known}; got {given!r:.60}")
        if not (self.step_size > 0 and self.band >= 0 and self.tolerance > 0):
            raise InvalidModel(
                "step_size and tolerance must be positive and band at least 0; "
                f"got {self.step_size}, {self.tolerance}, {self.band}"
            )
        for name in ("starts", "max_steps", "steps"):
            number = getattr(self, name)
            if not (name == "steps" and number is None) and not number >= 1:
                raise InvalidModel(f"{name} must be at least 1; got {number}")

    @classmethod
    def published(cls, *, step_size: float = 10.0, **options: Any) -> Alternating:
        """The rules as printed: budget 1, constant step, one start; `options` change some."""
        rules = {"budget": "one", "step": "constant", "starts": 1, "band": 0.0}
        return cls(step_size=step_size, **(rules | options))

    @property
    def least_multiplier(self) -> float:
        """What no multiplier of a budget falls below."""
        return 1.0 if self.multiplier == "at-least-one" else 0.0

    def share(self, number: int) -> float:
        """The size of a round's step, as a share of the first one."""
        return 1.0 if self.step == "constant" else float(1.0 / np.sqrt(1.0 + number / HALF_LIFE))

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery at the best round of all starts; its history holds every round."""
        check_task(mdp, features, demonstrations)
        seen = expectations_from_start(mdp, features, demonstrations)
        if seen is None:
            raise InvalidDemonstrations(
                "Alternating matches discounted sums from the start: it needs trajectories that "
                "begin there; got partial ones only (use Likelihood)"
            )
        setting = LoopSetting(mdp, features, seen, self)
        found = estimate_of_round(setting, *self._best(setting))
        return delivered(recovery(repr(self), mdp, features, demonstrations, found), throw)

    def _best(self, setting: LoopSetting) -> tuple[Round, History]:
        """The best round of all starts, and every round."""
        seen, best, rows = setting.seen, None, []
        decaying = self.step == "decaying" and self.band > 0
        reward_first = bool(seen.costs) and decaying and seen.trajectories > 1
        for start in range(-FREE_STARTS if reward_first else 0, self.starts):
            free = start < 0
            if stopped() is not None and (free or best is not None):
                continue
            end = run_start(setting, start, free=free)
            rows += end.rows
            assert end.kept is not None
            if not free:
                best = better_round(self, best, end.kept, seen.noise)
            elif end.kept.converged(self.tolerance) and setting.within_bands(end.kept.reached):
                return end.kept, history_of(rows)  # the reward alone explains everything
        assert best is not None
        return best, history_of(rows)


def estimate_of_round(setting: LoopSetting, best: Round, history: History) -> Estimate:
    """The estimate at the round `best`; a constraint it does not need is set aside."""
    features, seen, rules = setting.features, setting.seen, setting.rules
    needed = best.multipliers > NO_PRICE * price_scale(features, best.weights)
    for k in np.flatnonzero(needed):
        without = needed.copy()
        without[k] = False
        if not best.infeasible and _explained(setting, best, without):
            needed = without
    objective, solution = _problem(setting, best, needed)
    reached = setting.reached(solution)
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
        *feature_findings(features, setting.mdp),
    ]
    return Estimate(
        objective=objective,
        solution=solution,
        reward_weights=best.weights[0],
        cost_weights=cost_weights,
        multipliers=np.full(len(needed), np.nan) if best.infeasible else multipliers,
        converged=not best.infeasible
        and best.converged(rules.tolerance)
        and solution.status is Status.CONVERGED,
        proven=not gap > _explicable(rules, seen),
        findings=findings,
        history=history.columns,
        certificate={
            "projected_gradient": best.projected_gradient,
            "weight_change": best.weight_change,
        },
        seen=seen,
        reached=reached,
        known=unidentified(best.weights[0], best.weights[1:], active=needed),
        spending=seen.spending(features),
    )


def _explicable(rules: Alternating, seen: Expectations) -> float:
    """The largest feature gap that sampling explains; infinite where its noise is not known."""
    return np.inf if np.isnan(seen.noise) else max(MOST_NOISES * seen.noise, rules.tolerance)


def _problem(setting: LoopSetting, best: Round, needed: np.ndarray) -> tuple[Objective, Solution]:
    """The recovered objective and its solution; a constraint that is not needed costs nothing."""
    features = setting.features
    weights = [part * keep for part, keep in zip(best.weights[1:], needed, strict=True)]
    budgets = np.where(needed, best.budgets, np.inf)
    if best.iteration > 0 and needed.all():
        # Solved already: the weights of the first round alone are off the gauge.
        return features.objective(best.weights[0], weights, budgets), best.solution
    floors = np.where(needed, best.floors, 0.0)
    parts = (best.weights[0], *weights)
    solution, budgets, _ = solve_round(setting, parts, budgets, floors, guess=best.guess)
    objective = features.objective(best.weights[0], weights, budgets)
    return objective, with_favourites(solution, setting.favourites)


def _explained(setting: LoopSetting, best: Round, kept: np.ndarray) -> bool:
    """Whether the constraints `kept` [K] alone make a policy that matches within the band."""
    rules = setting.rules
    if rules.step == "constant" or not rules.band > 0 or not np.isfinite(setting.seen.noise):
        return False
    _, solution = _problem(setting, best, kept)
    return setting.within_bands(setting.reached(solution))


def _about_match(rules: Alternating, seen: Expectations, gap: float) -> list[Finding]:
    if not gap > _explicable(rules, seen):
        return []
    sentence = (
        "The demonstrations are not explained: predicted behaviour differs from them by "
        f"{gap:.1%}; chance alone gives {seen.noise:.1%}."
    )
    return [Finding(sentence, Kind.MISFIT, number=gap)]


def _about_constraints(best: Round, needed: np.ndarray) -> list[Finding]:
    findings = []
    for k in np.flatnonzero(~needed).tolist():
        reason, kind = "the demonstrations are explained as well without it", Kind.INACTIVE
        if best.multipliers[k] == 0 and best.start >= 0:
            reason, kind = "under the weights found its budget does not bind", Kind.SLACK
        sentence = f"Constraint {k} is not identified: {reason}."
        findings.append(Finding(sentence, kind, constraint=k))
    if best.raised:
        sentence = (
            "A budget was raised to the least cost that any policy can have: by chance, or because "
            "they were cut off, the demonstrations spend less."
        )
        findings.append(Finding(sentence, Kind.UNATTAINABLE))
    if best.infeasible:
        sentence = (
            "No round was feasible: under the weights given no policy meets the budgets, and "
            "there are no multipliers."
        )
        findings.append(Finding(sentence, Kind.UNATTAINABLE))
    return findings


def _about_rounds(rules: Alternating, best: Round, history: History) -> list[Finding]:
    """In how many rounds what happened; rounds with the reward alone are left out."""
    if best.start < 0:
        return [Finding("The reward alone matches every feature expectation within the band.")]
    constrained = history["start"] >= 0
    history = History({name: column[constrained] for name, column in history.columns.items()})
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
    findings += _about_multipliers(rules, history)
    converged = (history["weight_change"] <= rules.tolerance) & (
        history["projected_gradient"] <= rules.tolerance
    )
    findings += _about_starts(rules, history, converged)
    of_start = history["start"] == best.start
    late = of_start & (history["iteration"] >= of_start.sum() // 2)
    reversed_share = float(history["reversed"][late].mean())
    if not converged[of_start].any() and reversed_share > 0.5:
        sentence = (
            f"The weights oscillate: {reversed_share:.0%} of the later steps turned back on the "
            "one before. The best round was kept."
        )
        findings.append(Finding(sentence, Kind.NOT_CONVERGED, number=reversed_share))
    return findings


def _about_multipliers(rules: Alternating, history: History) -> list[Finding]:
    """In how many rounds each budget did not bind, or its multiplier was held at the least one."""
    total, multipliers = len(history), history["multipliers"]
    findings = []
    for k, count in enumerate((multipliers == 0).sum(axis=0).tolist()):
        if count:
            turned = "turned anyway" if rules.step == "decaying" else "did not move"
            sentence = f"In {count} of {total} rounds the budget of constraint {k} did not bind"
            findings.append(
                Finding(f"{sentence}; its weights {turned}.", constraint=k, number=count)
            )
    if not rules.least_multiplier:
        return findings
    held = (multipliers <= 1.0 + 1e-12) & (history["iteration"] > 0)[:, None]
    for k, count in enumerate(held.sum(axis=0).tolist()):
        if count:
            sentence = (
                f"In {count} of {total} rounds the multiplier of constraint {k} was held at 1: the "
                "policy spent less than its budget."
            )
            findings.append(Finding(sentence, constraint=k, number=count))
    return findings


def _about_starts(rules: Alternating, history: History, converged: np.ndarray) -> list[Finding]:
    if rules.starts == 1:
        return []
    count = int(converged.sum())
    sentence = f"{count} of {rules.starts} starts converged"
    spread = float(np.ptp(history["reward_weights"][converged], axis=0).max()) if count > 1 else 0.0
    if spread <= 0.05:
        return [Finding(f"{sentence}.", number=count)]
    sentence = (
        f"{sentence}, at reward weights that differ by up to {spread:.2f}: the demonstrations do "
        "not determine them."
    )
    return [Finding(sentence, Kind.NOT_IDENTIFIED, number=spread)]


def _about_cuts(rules: Alternating, seen: Expectations) -> list[Finding]:
    if rules.steps is not None or not seen.relative_truncation > seen.noise:
        return []
    sentence = (
        "Trajectories were cut off early: their feature sums may lack up to "
        f"{seen.relative_truncation:.1%}, more than their sampling error. Pass steps=T if all "
        "were cut after T steps."
    )
    return [Finding(sentence, Kind.TRUNCATED, number=seen.relative_truncation)]
