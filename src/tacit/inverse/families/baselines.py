"""Half of the question each: the reward without constraints, or the constraints of a known reward.

Both are the noisy expert of `Likelihood` with part of its parameters settled beforehand, so that
joint, reward-only and constraint-only recovery can be compared on the same demonstrations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.data.observed import Observed
from tacit.errors import InvalidModel
from tacit.forward.solution import conclude
from tacit.inverse.expectations import check_task, expectations_from_start, pull_back
from tacit.inverse.identification import unidentified
from tacit.inverse.noisy.boltzmann import LARGEST, Fit, refit
from tacit.inverse.noisy.convex import Convex
from tacit.inverse.noisy.coordinates import coordinates
from tacit.inverse.noisy.inference import activity_p_value, advantages, information
from tacit.inverse.noisy.likelihood import Likelihood, Steps
from tacit.inverse.parameters import coefficient_names
from tacit.inverse.recovery import Recovery, delivered
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.model.transitions import numbers


@dataclass(frozen=True)
class RewardOnly:
    """Maximum causal entropy inverse reinforcement learning: whatever was done was wanted.

    Attributes:
        matching: match discounted feature expectations, instead of the step likelihood.
        free_reward: let reward weights take either sign.
        tolerance: projected gradient to reach, relative to its scale.
        max_steps: most evaluations of the loss.
    """

    matching: bool = False
    free_reward: bool = False
    tolerance: float = 1e-9
    max_steps: int = 300

    def fit(
        self,
        mdp: MDP,
        features: Features,
        demonstrations: Observed,
        *,
        throw: bool = True,
    ) -> Recovery:
        """The recovery that explains everything by reward; every constraint is inactive."""
        check_task(mdp, features, demonstrations)
        alone = Features(features.reward, reward_names=features.reward_names)
        method = Convex if self.matching else Likelihood
        estimator = method(self.free_reward, tolerance=self.tolerance, max_steps=self.max_steps)
        found = estimator.fit(mdp, alone, demonstrations, throw=False)
        empty = [np.full(table.shape[-1], np.nan) for table in features.costs]
        said = [
            f"Constraint {k} was left out: the reward alone had to explain the demonstrations."
            for k in range(features.constraints)
        ]
        known = found.identification
        blank = unidentified(np.empty(0), empty, active=np.zeros(len(empty), bool))
        own, size = found.parameters, features.reward.shape[-1]
        extra = sum(len(weights) for weights in empty)
        recovery = replace(
            _with_features(mdp, features, demonstrations, found, found.reward_weights, empty),
            parameters=own.mapped(
                np.eye(size + extra)[:, :size],
                names=coefficient_names(features.reward_names, features.cost_names),
                lower=np.append(own.lower, np.zeros(extra)),
            ),
            identification=replace(
                blank,
                reward_intervals=known.reward_intervals,
                reward_standard_errors=known.reward_standard_errors,
                findings=(*said, *known.findings),
            ),
            estimator=repr(self),
        )
        return delivered(recovery, throw)


@dataclass(frozen=True)
class ConstraintOnly:
    """Recovery of the constraints when the reward is known, by the step likelihood.

    Attributes:
        reward_weights: [D] known weights of the reward features, of any size.
        temperature: the expert's noise, in units of the reward that these weights make; None to
            estimate it, which needs the direction of the weights only.
        level: of the test whether a constraint is active; 1 keeps every constraint.
        tolerance: projected gradient to reach, relative to its scale.
        max_steps: most evaluations of the loss.
        seed: of the simulated laws.
    """

    reward_weights: Any
    temperature: float | None = None
    level: float = 0.05
    tolerance: float = 1e-9
    max_steps: int = 300
    seed: int = 0

    def __post_init__(self) -> None:
        weights = np.atleast_1d(numbers(self.reward_weights, "reward_weights"))
        if weights.ndim != 1 or not np.isfinite(weights).all() or not weights.any():
            raise InvalidModel(
                "reward_weights must be a vector of finite numbers that are not all 0; "
                f"got {self.reward_weights!r:.60}"
            )
        # Plain numbers, so that the estimator prints as the call that makes it.
        object.__setattr__(self, "reward_weights", tuple(weights.tolist()))
        if self.temperature is not None and not 0.0 < self.temperature < np.inf:
            raise InvalidModel(f"temperature must be a positive number; got {self.temperature}")

    def fit(
        self,
        mdp: MDP,
        features: Features,
        demonstrations: Observed,
        *,
        throw: bool = True,
    ) -> Recovery:
        """The recovery with these reward weights, in the gauge, and the likeliest constraints."""
        check_task(mdp, features, demonstrations)
        size = features.reward.shape[-1]
        if len(self.reward_weights) != size:
            raise InvalidModel(
                f"reward_weights must have shape ({size},); got ({len(self.reward_weights)},)"
            )
        given = np.array(self.reward_weights)
        weights = given / np.abs(given).sum()
        # The known reward is one feature; its parameter is one over the temperature.
        one = Features(
            (features.reward @ weights)[..., None],
            features.costs,
            ["the known reward"],
            features.cost_names,
        )
        options = Likelihood(
            level=self.level, tolerance=self.tolerance, max_steps=self.max_steps, seed=self.seed
        )
        if self.temperature is None:
            found = options.fit(mdp, one, demonstrations, throw=False)
        else:
            inverse = float(np.abs(given).sum()) / self.temperature
            found = _with_known_scale(options, mdp, one, demonstrations, inverse)
        known = found.identification
        own = found.parameters if self.temperature is None else found.parameters.given(0)
        rows = np.eye(size - 1 + len(own))[:, size - 1 :]
        rows[:size] = 0.0
        rows[:size, 0] = weights
        recovery = replace(
            _with_features(mdp, features, demonstrations, found, weights, found.cost_weights),
            parameters=own.mapped(
                rows,
                names=coefficient_names(features.reward_names, features.cost_names),
                lower=np.append(np.full(size, -np.inf), own.lower[1:]),
            ),
            identification=replace(
                known,
                reward_intervals=np.stack([weights, weights], axis=1),
                reward_standard_errors=np.zeros(size),
                findings=("The reward weights were given.", *known.findings),
            ),
            estimator=repr(self),
        )
        return delivered(recovery, throw)


def _with_features(
    mdp: MDP,
    features: Features,
    demonstrations: Observed,
    found: Recovery,
    reward_weights: np.ndarray,
    cost_weights: Any,
) -> Recovery:
    """The recovery in terms of these features, found in terms of others that act the same."""
    multipliers, budgets = np.zeros(features.constraints), np.full(features.constraints, np.inf)
    multipliers[: len(found.multipliers)] = found.multipliers
    budgets[: len(found.budgets)] = found.budgets
    objective = features.objective(
        np.nan_to_num(reward_weights), [np.nan_to_num(w) for w in cost_weights], budgets
    )
    old = found.solution
    solution = conclude(
        mdp,
        objective,
        old.visitation,
        old.values,
        multipliers,
        tolerance=1e-6,
        temperature=old.temperature,
        policy=old.policy,
        iterations=old.iterations,
    )
    certificate = found.certificate
    seen = expectations_from_start(mdp, features, demonstrations)
    if seen is not None:
        # Over all maps: the same number for every estimator.
        certificate = replace(
            certificate,
            feature_gap=seen.gap(pull_back(features, old.visitation)),
            sampling_noise=seen.noise,
            truncation=seen.relative_truncation,
        )
    return replace(
        found,
        reward_weights=reward_weights,
        cost_weights=cost_weights,
        multipliers=multipliers,
        budgets=budgets,
        objective=objective,
        solution=solution,
        certificate=certificate,
        reward_names=features.reward_names,
        cost_names=features.cost_names,
    )


def _with_known_scale(
    options: Likelihood, mdp: MDP, one: Features, demonstrations: Observed, inverse: float
) -> Recovery:
    """The likelihood's recovery with the parameter of the one reward feature held at `inverse`."""
    from tacit.inverse.noisy.report import report

    steps = Steps.of(mdp, coordinates(mdp, one), demonstrations)
    space = steps.space
    held = np.zeros(space.size)
    held[0] = inverse * space.scales[0]

    def run(dropped: np.ndarray, near: Fit) -> Fit:
        """The fit without these parameters, sought from one nearby."""
        upper = np.where(dropped, 0.0, LARGEST)
        upper[0] = held[0]
        return refit(mdp, near, max_steps=options.max_steps, lower=held, upper=upper)

    def without(fitted: Fit, gone: np.ndarray, k: int) -> tuple[float, Fit]:
        """The p-value of "constraint k is not active", and the fit without it."""
        tested = np.zeros(space.size, bool)
        tested[space.blocks[1 + k]] = True
        less = run(tested | gone, fitted)
        if not (fitted.point.x[tested] > 0).any():
            return 1.0, less
        fisher = information(advantages(mdp, space, less), less.point.policy, steps.visits)
        one_sided = ~tested & ~gone & ~less.free
        one_sided[0] = False  # known: neither free nor on a bound
        ratio = 2.0 * (less.point.loss - fitted.point.loss)
        free = less.free & ~tested
        return activity_p_value(ratio, fisher, tested, free, one_sided, seed=options.seed), less

    # Begins where an unknown scale would lead.
    kept = full = run(np.zeros(space.size, bool), steps.fit(options))
    p_values, gone = np.ones(space.constraints), np.zeros(space.size, bool)
    left = list(range(space.constraints))
    while left and full.converged:  # a search cut short has shown nothing
        tests = [without(kept, gone, k) for k in left]
        p_values[left] = [p for p, _ in tests]
        least = int(np.argmax(p_values[left]))
        if p_values[left[least]] <= options.level:
            break
        # The least needed first: the others may be needed without it.
        kept = tests[least][1]
        gone[space.blocks[1 + left.pop(least)]] = True
    return report(options, mdp, one, demonstrations, steps, full, kept, p_values)
