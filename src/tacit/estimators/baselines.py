"""Half of the question each: the reward without constraints, or the constraints of a known reward.

Both are the noisy expert of `Likelihood` with part of its parameters settled beforehand, so that
joint, reward-only and constraint-only recovery can be compared on the same demonstrations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
import numpy.typing as npt

from tacit.data.observed import Observed
from tacit.errors import InvalidModel
from tacit.estimators.convex import Convex
from tacit.estimators.likelihood import Likelihood, maximise
from tacit.estimators.methods import check_options, known_weights, left_out
from tacit.estimators.setting import StepsSetting
from tacit.forward.solution import conclude
from tacit.inference.diagnostics import Answer
from tacit.inference.expectations import Spending, check_task, expectations_from_start, pull_back
from tacit.inference.findings import Finding, Kind
from tacit.inference.sets import unidentified
from tacit.inference.standardised import Standard, standard_of
from tacit.model.mdp import MDP
from tacit.model.objective import Features, coefficient_names
from tacit.recovery import Recovery, RecoveryCertificate, delivered


@dataclass(frozen=True)
class RewardOnly:
    """Maximum causal entropy inverse reinforcement learning: whatever was done was wanted.

    Known weakness: what is avoided because it is not allowed looks like what is not liked, and is
    traded against the rest where the world has changed.

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
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery that explains everything by reward; every constraint is inactive."""
        check_task(mdp, features, demonstrations)
        alone = features.reward_alone
        method = Convex if self.matching else Likelihood
        estimator = method(self.free_reward, tolerance=self.tolerance, max_steps=self.max_steps)
        fitted = estimator.fit(mdp, alone, demonstrations, throw=False)
        empty = [np.full(table.shape[-1], np.nan) for table in features.costs]
        known, scaled = fitted.identification, fitted.standardised.identification
        blank = unidentified(np.empty(0), empty, active=np.zeros(len(empty), bool))
        own, size = fitted.parameters, features.reward.shape[-1]
        extra = sum(len(weights) for weights in empty)
        recovery = replace(
            _with_features(mdp, features, demonstrations, fitted, fitted.reward_weights, empty),
            parameters=own.mapped(
                np.eye(size + extra)[:, :size],
                names=coefficient_names(features.reward_names, features.cost_names),
                lower=np.append(own.lower, np.zeros(extra)),
            ),
            identification=replace(
                blank,
                reward_intervals=known.reward_intervals,
                reward_standard_errors=known.reward_standard_errors,
                # Constraints that were left out have no price: directions of theirs add nothing.
                answer=known.answer,
                dynamics=known.dynamics,
                findings=(*known.findings, *left_out(features)),
            ),
            estimator=repr(self),
            standard=standard_of(mdp, features).knowing(
                replace(
                    blank,
                    reward_intervals=scaled.reward_intervals,
                    reward_standard_errors=scaled.reward_standard_errors,
                )
            ),
        )
        return delivered(recovery, throw)


@dataclass(frozen=True)
class ConstraintOnly:
    """Recovery of the constraints when the reward is known, by the step likelihood.

    The reward stays in the answer. Where the costs could do without it, as one cost a state can
    imitate a goal, and its noise was not given, it keeps the noise that it has without any
    constraint, and a finding says what that costs. For an optimal expert with a known reward give
    that reward as the one reward feature of an `Explanation`.

    Known weakness: what a wrong reward leaves unexplained is called a constraint.

    Attributes:
        reward_weights: [D] known weights of the reward features, of any size.
        temperature: the expert's noise, in units of the reward that these weights make; None to
            estimate it, which needs the direction of the weights only.
        level: of the test whether a constraint is active; 1 keeps every constraint.
        tolerance: projected gradient to reach, relative to its scale.
        max_steps: most evaluations of the loss.
        seed: of the simulated laws.
    """

    reward_weights: Sequence[float]
    temperature: float | None = None
    _: KW_ONLY
    level: float = 0.05
    tolerance: float = 1e-9
    max_steps: int = 300
    seed: int = 0

    def __post_init__(self) -> None:
        check_options(self)

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery with these reward weights, in the gauge, and the likeliest constraints."""
        check_task(mdp, features, demonstrations)
        weights, norm = known_weights(self.reward_weights, features)
        size = len(weights)
        # The known reward is one feature; its parameter is one over the temperature.
        one = Features(
            (features.reward @ weights)[..., None],
            features.costs,
            ["the known reward"],
            features.cost_names,
            curves=[curve for curve in features.curves if curve.block],
        )
        options = Likelihood(
            level=self.level,
            tolerance=self.tolerance,
            max_steps=self.max_steps,
            seed=self.seed,
        )
        options.check()
        scale = None if self.temperature is None else norm / self.temperature
        fitted = maximise(options, StepsSetting(mdp, one, demonstrations), first=scale)
        findings = [Finding("The reward weights were given.")]
        if not fitted.parameters.estimates[0] > 0.0:
            fitted, more = _kept_reward(options, mdp, one, demonstrations, fitted)
            findings += more
        known = fitted.identification
        own = fitted.parameters if self.temperature is None else fitted.parameters.given(0)
        rows = np.eye(size - 1 + len(own))[:, size - 1 :]
        rows[:size] = 0.0
        rows[:size, 0] = weights
        recovery = replace(
            _with_features(mdp, features, demonstrations, fitted, weights, fitted.cost_weights),
            parameters=own.mapped(
                rows,
                names=coefficient_names(features.reward_names, features.cost_names),
                lower=np.append(np.full(size, -np.inf), own.lower[1:]),
            ),
            identification=replace(
                known,
                reward_intervals=np.stack([weights, weights], axis=1),
                reward_standard_errors=np.zeros(size),
                answer=None if known.answer is None else KnownReward(known.answer, weights),
                findings=(*known.findings, *findings),
            ),
            estimator=repr(self),
        )
        standard = _standard(mdp, features, recovery, fitted)
        return delivered(replace(recovery, standard=standard), throw)


def _standard(mdp: MDP, features: Features, recovery: Recovery, alone: Recovery) -> Standard:
    """What is known in standard units, where the reward is given: `alone` has it as one feature."""
    units, inner = standard_of(mdp, features), alone.standardised
    scaled = recovery.reward_weights * units.deviations[0]
    size = float(np.abs(scaled).sum())
    weights, known = scaled / size, inner.identification
    # Prices are in rewards, of which the noise is as many as one unit of it.
    rate = recovery.temperature / size / inner.temperature
    return units.knowing(
        replace(
            known,
            reward_intervals=np.stack([weights, weights], axis=1),
            reward_standard_errors=np.zeros(len(weights)),
            multiplier_intervals=known.multiplier_intervals * rate,
            multiplier_standard_errors=known.multiplier_standard_errors * rate,
        )
    )


@dataclass(frozen=True, eq=False)
class KnownReward:
    """Answers to linear questions, where the reward weights were given.

    Attributes:
        answer: the same with the known reward as its one feature.
        weights: [D] of the reward features, in the gauge.
    """

    answer: Answer
    weights: np.ndarray

    def __call__(
        self, reward_direction: npt.ArrayLike, cost_directions: Iterable[npt.ArrayLike] = ()
    ) -> tuple[float, float]:
        """The ends of the interval of the directions times the weights."""
        direction = np.asarray(reward_direction, float)
        if direction.shape != self.weights.shape:
            raise InvalidModel(
                f"reward_direction must have shape {self.weights.shape}; got {direction.shape}"
            )
        return self.answer([direction @ self.weights], cost_directions)


def _kept_reward(
    options: Likelihood, mdp: MDP, one: Features, demonstrations: Observed, without: Recovery
) -> tuple[Recovery, list[Finding]]:
    """The recovery that keeps a known reward which the costs can do without, and why it does.

    Args:
        options: of the likelihood.
        mdp: the model.
        one: the known reward as one feature, and the costs.
        demonstrations: what was seen.
        without: what they say where the reward may be dropped.
    """
    plain = maximise(options, StepsSetting(mdp, one.reward_alone, demonstrations))
    size = float(plain.parameters.estimates[0])
    if not size > 0.0:
        sentence = (
            "The demonstrations do not pursue the reward that was given, with or without "
            "constraints: its noise is not identified. Give a temperature to hold it fixed."
        )
        return without, [Finding(sentence, Kind.NOT_IDENTIFIED, feature=one.reward_names[0])]
    with_reward = maximise(options, StepsSetting(mdp, one, demonstrations), first=size)
    lost = max(without.log_likelihood - with_reward.log_likelihood, 0.0)
    sentence = (
        "The costs alone explain the demonstrations, without the reward that was given. It is kept "
        f"with the noise that it has without any constraint, temperature {1.0 / size:.4g}, which "
        f"costs {lost:.4g} of log-likelihood: give the temperature where it is known."
    )
    return with_reward, [
        Finding(sentence, Kind.NOT_IDENTIFIED, feature=one.reward_names[0], number=lost)
    ]


def _with_features(
    mdp: MDP,
    features: Features,
    demonstrations: Observed,
    found: Recovery,
    reward_weights: np.ndarray,
    cost_weights: Iterable[np.ndarray],
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
    seen = expectations_from_start(mdp, features, demonstrations)
    before, own, measured = found.certificate, found.spending, Spending.of_data(features, seen)
    certificate = RecoveryCertificate.of(  # over all maps: the same number for every estimator
        seen,
        pull_back(features, old.visitation),
        projected_gradient=before.projected_gradient,
        weight_change=before.weight_change,
        objective_gap=before.objective_gap,
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
        spending=own if own and len(own.maps) == features.constraints else measured,
    )
