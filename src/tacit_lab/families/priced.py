"""Published methods of noisy experts whose costs have a price, beside what is known already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from scipy.special import softmax

from tacit import (
    MDP,
    Features,
    Finding,
    InvalidModel,
    Kind,
    Objective,
    Recovery,
    SoftDual,
    Solution,
    data,
    judge,
    methods,
)
from tacit_lab.families.search import by_action, minimise, seen_expectations, soft_value, spans


@dataclass(frozen=True)
class ConstraintAsReward(methods.PointEstimator):
    """Constraint inference as reward inference (Hugessen, Wiltzer and Berseth 2024).

    Several published constrained methods solve, at their saddle point, the problem of plain inverse
    reinforcement learning for r - c: the multiplier is absorbed by the cost. So the cost is learnt
    like a reward, by maximum causal entropy with the known reward beside it: minimise
    p0 . V_soft((r - c) / temperature) + c . expectations over costs c >= 0 of the features, convex.

    Known weakness: without a budget nothing says what a demonstrator may spend: the cost is a
    price, and a larger reward outweighs it. It is only as identified as a reward: costs that
    potentials shape away, or that the known reward can stand in for, are not.

    Attributes:
        reward_weights: [D] known weights of the reward features, of any size.
        temperature: the expert's noise, in units of the reward that these weights make.
        ridge: pull of the costs towards 0, on features scaled to range one.
        tolerance: projected gradient, relative to the range of a discounted feature sum.
        max_steps: most iterations.
    """

    reward_weights: Sequence[float]
    temperature: float
    _: KW_ONLY
    ridge: float = 0.0
    tolerance: float = 1e-6
    max_steps: int = 500

    def find(self, mdp: MDP, features: Features, demonstrations: data.Observed) -> methods.Estimate:
        """Costs as prices; the budgets are what the expert spends at them."""
        return _priced(self, mdp, features, demonstrations)


@dataclass(frozen=True)
class PenaltyConstraints(methods.PointEstimator):
    """Inverse constrained reinforcement learning (Malik et al. 2021, ICRL), on tables.

    zeta(s, a) in (0, 1) is how far an action is allowed, here the product of one zeta a cost
    feature to the power of the feature. Trajectories have chance exp(r / temperature) zeta / Z,
    so that log zeta is a penalty beside the reward, and the likelihood's gradient is the
    demonstrations' expected log-gradient less the policy's. The regulariser
    `regularisation` * sum(1 - zeta) (every feature once) keeps what need not be forbidden
    allowed. Features that no demonstration has and whose zeta is below 1/2 are listed as forbidden.

    Known weakness: the regulariser decides what is forbidden where the data do not, and the
    problem is not convex with it: a local optimum. What is never done anyway has zeta near 1 or
    near 0 by the starting point alone; there is no error rate.

    Attributes:
        reward_weights: [D] known weights of the reward features, of any size.
        temperature: the expert's noise, in units of the reward that these weights make.
        regularisation: price of a zeta of 0.
        least: smallest zeta, where the penalty ends.
        tolerance: projected gradient, relative to the range of a discounted feature sum.
        max_steps: most iterations.
    """

    reward_weights: Sequence[float]
    temperature: float
    _: KW_ONLY
    regularisation: float = 0.01
    least: float = 1e-3
    tolerance: float = 1e-6
    max_steps: int = 500

    def find(self, mdp: MDP, features: Features, demonstrations: data.Observed) -> methods.Estimate:
        """Penalties as costs, and what is forbidden where they are large."""
        for k, table in enumerate(features.costs):
            if table.min() < 0:
                raise InvalidModel(
                    f"cost features must not be negative here; those of constraint {k} go down to "
                    f"{table.min():g}"
                )

        def further(kappa: np.ndarray) -> tuple[float, np.ndarray]:
            zeta = np.exp(-kappa)
            return self.regularisation * float((1.0 - zeta).sum()), self.regularisation * zeta

        limit = -float(np.log(self.least))
        found = _priced(self, mdp, features, demonstrations, further, limit)
        assert found.multipliers is not None
        assert found.cost_weights is not None
        assert found.solution is not None
        coefficients = np.concatenate([
            np.nan_to_num(price * weights) / found.solution.temperature
            for price, weights in zip(found.multipliers, found.cost_weights, strict=True)
        ])  # fmt: skip
        zeta = np.exp(-coefficients)
        names = [name for part in features.cost_names for name in part]
        done = np.concatenate(seen_expectations(mdp, features, demonstrations)[1:])
        shut = np.flatnonzero((zeta < 0.5) & (done <= 0.0))
        size = features.reward.shape[-1]
        records = tuple(
            methods.HardConstraint(kind="feature", index=size + j, name=names[j])
            for j in shut.tolist()
        )
        said = [
            Finding(
                f"{names[j]} is forbidden: it is allowed to {zeta[j]:.3f} only.",
                Kind.FORBIDDEN,
                feature=names[j],
                number=float(zeta[j]),
            )
            for j in shut.tolist()
        ]
        return replace(found, forbidden=records, findings=(*said, *found.findings))


def _priced(
    method: ConstraintAsReward | PenaltyConstraints,
    mdp: MDP,
    features: Features,
    demonstrations: data.Observed,
    further: Callable[[np.ndarray], tuple[float, np.ndarray]] | None = None,
    limit: float = np.inf,
) -> methods.Estimate:
    """Costs beside a known reward, with a further loss of their coefficients."""
    if not features.constraints:
        raise InvalidModel("there must be cost features to make a constraint of; got none")
    weights, norm = methods.known_weights(method.reward_weights, features)
    noise = method.temperature / norm
    base = by_action(mdp, features.reward @ np.array(method.reward_weights)) / method.temperature
    target = np.concatenate(seen_expectations(mdp, features, demonstrations)[1:])
    guess: Solution | None = None

    def loss(kappa: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal guess
        table = base - _cost_table(mdp, features, kappa)
        value, guess = soft_value(mdp, table, guess)
        if guess is None:
            return np.inf, np.zeros(len(kappa))
        reached = np.concatenate(methods.pull_back(features, guess.visitation)[1:])
        more, slope = (0.0, 0.0) if further is None else further(kappa)
        return float(value + kappa @ target + more), target - reached + slope

    spread = np.concatenate([spans(table) for table in features.costs])
    scales = spread * mdp.horizon
    minimum = minimise(loss, np.zeros(len(spread)), scales, method, lower=0.0, upper=limit)
    parts = _split(features, minimum.point)
    prices = np.array([part.sum() for part in parts])
    costs = [part / p if p > 0 else np.full(len(part), np.nan) for part, p in
             zip(parts, prices, strict=True)]  # fmt: skip
    utility = base - _cost_table(mdp, features, minimum.point)
    visits = SoftDual(1.0).solve(mdp, Objective(utility), throw=False).visitation
    reached = methods.pull_back(features, visits)[1:]
    budgets = np.array([w @ e if p > 0 else np.inf for w, e, p in
                        zip(costs, reached, prices, strict=True)])  # fmt: skip
    objective = features.objective(weights, [np.nan_to_num(w) for w in costs], budgets)
    solution = SoftDual(noise, max(1e-9, method.tolerance)).solve(mdp, objective, throw=False)
    idle = [
        Finding(f"Constraint {k} has no price: no cost explains more.", Kind.INACTIVE, constraint=k)
        for k, p in enumerate(prices)
        if not p > 0
    ]
    said = [Finding("The reward weights and the noise were given."), *idle, *minimum.findings]
    ended = minimum.ended
    ended["deterministic"] &= further is None  # a penalty ends
    return methods.Estimate(
        objective=objective,
        solution=solution,
        reward_weights=weights,
        cost_weights=costs,
        multipliers=prices * noise,
        proven=further is None,
        findings=said,
        **ended,
    )


def _cost_table(mdp: MDP, features: Features, kappa: np.ndarray) -> np.ndarray:
    """[S, A] what these coefficients of all cost features charge."""
    parts = zip(features.costs, _split(features, kappa), strict=True)
    return sum((by_action(mdp, table @ part) for table, part in parts), np.zeros((1, 1)))


def _split(features: Features, kappa: np.ndarray) -> list[np.ndarray]:
    """One [D_k] per constraint, of all coefficients one after the other."""
    return np.split(kappa, np.cumsum([table.shape[-1] for table in features.costs])[:-1])


# --- known constraints ----------------------------------------------------------------------------


@dataclass(frozen=True)
class KnownConstraints(methods.PointEstimator):
    """Rewards under known constraints (Schlaginhaufen and Kamgarpour 2023).

    The expert solves the entropy-regularised problem within known budgets on known costs. The
    reward minimises, over weights and prices >= 0 jointly,
    p0 . V_soft(r - prices . costs) + prices . budgets - weights . expectations: the saddle point of
    their problem, convex, whose optimum has the demonstrations' expectations and keeps the budgets.

    Known weakness: a reward is identified up to potentials AND up to what the prices of the known
    costs can stand in for; it carries over to other dynamics or budgets only
    where the demonstrations leave no more than that. Wrong costs or budgets are not noticed.

    Attributes:
        cost_weights: one [D_k] per constraint, the known weights of its cost features.
        budgets: [K] known budgets on the costs that these weights make.
        free_reward: let reward weights take either sign.
        ridge: pull of the weights towards 0, on features scaled to range one.
        tolerance: projected gradient, relative to the range of a discounted feature sum.
        max_steps: most iterations.
    """

    cost_weights: Sequence[Sequence[float]]
    budgets: Sequence[float]
    _: KW_ONLY
    free_reward: bool = True
    ridge: float = 0.0
    tolerance: float = 1e-6
    max_steps: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = [np.atleast_1d(methods.numbers(w, "cost_weights")) for w in self.cost_weights]
        budgets = np.atleast_1d(methods.numbers(self.budgets, "budgets"))
        if len(weights) != len(budgets) or not len(budgets):
            raise InvalidModel(
                "there must be one budget for the weights of each known constraint; got "
                f"{len(budgets)} for {len(weights)}"
            )
        for k, w in enumerate(weights):
            if not np.isfinite(w).all() or not w.any():
                raise InvalidModel(f"cost_weights[{k}] must be finite and not all 0; got {w}")
        object.__setattr__(self, "cost_weights", tuple(tuple(w.tolist()) for w in weights))
        object.__setattr__(self, "budgets", tuple(budgets.tolist()))

    def find(self, mdp: MDP, features: Features, demonstrations: data.Observed) -> methods.Estimate:
        """The reward, with the prices that the known budgets then have."""
        sizes = [float(np.abs(w).sum()) for w in self.cost_weights]
        costs = [np.array(w) / n for w, n in zip(self.cost_weights, sizes, strict=True)]
        budgets = np.array(self.budgets) / sizes
        size = features.reward.shape[-1]
        _, tables = features.objective(np.zeros(size), costs, budgets).tables(mdp)
        target = seen_expectations(mdp, features, demonstrations)[0]
        guess: Solution | None = None

        def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal guess
            table = by_action(mdp, features.reward @ x[:size]) - np.tensordot(x[size:], tables, 1)
            value, guess = soft_value(mdp, table, guess)
            if guess is None:
                return np.inf, np.zeros(len(x))
            slope = methods.pull_back(features, guess.visitation)[0] - target
            spent = np.tensordot(tables, guess.visitation, 2)
            total = float(value + x[size:] @ budgets - x[:size] @ target)
            return total, np.r_[slope, budgets - spent]

        scales = np.r_[spans(features.reward), [np.ptp(t) or 1.0 for t in tables]] * mdp.horizon
        lower = np.r_[np.full(size, -np.inf if self.free_reward else 0.0), np.zeros(len(tables))]
        found = minimise(loss, np.zeros(len(lower)), scales, self, lower=lower, ridged=size)
        scale = float(np.abs(found.point[:size]).sum()) or 1.0
        weights, prices = found.point[:size] / scale, found.point[size:] / scale
        objective = features.objective(weights, costs, budgets)
        said = [Finding("The costs and the budgets were given."), *found.findings]
        said += [
            Finding(
                f"Constraint {k} has no price: its budget is not used up.", Kind.SLACK, constraint=k
            )
            for k, price in enumerate(prices)
            if not price > 0
        ]
        return methods.Estimate(
            objective=objective,
            solution=SoftDual(1.0 / scale).solve(mdp, objective, throw=False),
            reward_weights=weights,
            cost_weights=costs,
            multipliers=prices,
            findings=said,
            **found.ended,
        )


def choice_probabilities(mdp: MDP, recovery: Recovery, temperature: float = 1.0) -> np.ndarray:
    """[S, A] Boltzmann choice over the action values of a recovery's own solution; 0 at ends.

    Of `InverseActionValues` it is the policy that the paper evaluates.
    """
    own = recovery.solution
    utility = judge.lagrangian(mdp, recovery.objective, own.multipliers)
    utility = utility + mdp.discount * mdp.expected_next(own.values)
    utility = np.where(mdp.choices, utility, -np.inf)
    return np.where(mdp.ends[:, None], 0.0, softmax(utility / temperature, axis=1))
