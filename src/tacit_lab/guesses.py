"""What guessing gets: objectives of random weights, and every metric of the judge over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit import (
    MDP,
    ColumnGeneration,
    Demonstrations,
    Features,
    InvalidModel,
    Objective,
    OccupancyLP,
    SoftDual,
    Solution,
    compare,
    judge,
    methods,
    solve,
)


@dataclass(frozen=True, eq=False)
class NullDraw:
    """A guess: weights flat on the simplex.

    Attributes:
        reward_weights: [D].
        cost_weights: one [D_k] per constraint.
        objective: made of them, with budgets that the expert just spends.
    """

    reward_weights: np.ndarray
    cost_weights: tuple[np.ndarray, ...]
    objective: Objective


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """Every metric of so many guesses.

    Attributes:
        names: [M] of the metrics: those of `Comparison.scalars`, then "reward_weight_error" and
            "cost_weight_error" (the worst constraint's) where the true weights were given.
        values: [draws, M] what each guess gets.
        seed: of the draws.
    """

    names: tuple[str, ...]
    values: np.ndarray
    seed: int

    def of(self, name: str) -> np.ndarray:
        """[draws] one metric."""
        if name not in self.names:
            raise InvalidModel(f"no metric {name!r}; there are {', '.join(self.names)}")
        return self.values[:, self.names.index(name)]

    def quantile(self, name: str, share: float = 0.5) -> float:
        """The quantile of a metric over the guesses it is defined for; NaN if there is none."""
        known = self.of(name)[~np.isnan(self.of(name))]
        return float(np.quantile(known, share, method="inverted_cdf")) if len(known) else np.nan

    def share_below(self, name: str, value: float) -> float:
        """Share of the guesses at most `value`: how often an error this small is luck."""
        return float((self.of(name) <= value).mean())


def null_objectives(
    features: Features, visitation: np.ndarray, *, draws: int = 100, seed: int = 0
) -> tuple[NullDraw, ...]:
    """Guesses that know nothing but the budgets: random weights, calibrated to the expert.

    Weights of the reward and of each cost are Dirichlet(1), flat on the simplex. Each budget is
    what the behaviour spends under the guessed cost, the calibration that every estimator uses, so
    that the guess can be met and differs from a recovery in its weights alone. The first guesses
    do not change when more are asked for.

    Args:
        features: what reward and costs are made of.
        visitation: [S, A] of the expert, or of its demonstrations.
        draws: number of guesses.
        seed: names the draw.
    """
    if draws < 1:
        raise InvalidModel(f"draws must be at least 1; got {draws}")
    random = np.random.default_rng(seed)
    spent = methods.pull_back(features, visitation)[1:]
    guesses = []
    for _ in range(draws):
        wants = random.dirichlet(np.ones(features.reward.shape[-1]))
        refuses = tuple(random.dirichlet(np.ones(len(part))) for part in spent)
        budgets = [weights @ part for weights, part in zip(refuses, spent, strict=True)]
        guesses.append(NullDraw(wants, refuses, features.objective(wants, refuses, budgets)))
    return tuple(guesses)


def null_distribution(
    mdp: MDP,
    features: Features,
    truth: Objective,
    *,
    draws: int = 100,
    seed: int = 0,
    solver: SoftDual | ColumnGeneration | OccupancyLP | None = None,
    true_solution: Solution | None = None,
    reward_weights: np.ndarray | None = None,
    cost_weights: tuple[np.ndarray, ...] | None = None,
    demonstrations: Demonstrations | None = None,
    behaviours: judge.Behaviours | None = None,
) -> NullDistribution:
    """The `NullDistribution` of every metric of `compare` over random weights.

    Args:
        mdp: the model.
        features: what reward and costs are made of.
        truth: the true objective.
        draws: number of guesses.
        seed: of the guesses, and of the behaviours where none are given.
        solver: as of `compare`.
        true_solution: of `truth`, where it is known already.
        reward_weights: [D] true weights, for the weight errors.
        cost_weights: one [D_k] per constraint, true weights.
        demonstrations: as of `compare`.
        behaviours: as of `compare`; the same for the guesses and for what they stand beside.
    """
    expert = true_solution or solve(mdp, truth, solver=solver)
    if behaviours is None:
        behaviours = judge.sample_behaviours(mdp, features=features, seed=seed)
    rows, error = [], judge.weight_error
    for guess in null_objectives(features, expert.visitation, draws=draws, seed=seed):
        row = compare(
            mdp,
            truth,
            guess.objective,
            solver=solver,
            true_solution=expert,
            features=features,
            demonstrations=demonstrations,
            behaviours=behaviours,
        ).scalars()
        if reward_weights is not None:
            row["reward_weight_error"] = error(reward_weights, guess.reward_weights)
        if cost_weights:
            pairs = zip(cost_weights, guess.cost_weights, strict=True)
            row["cost_weight_error"] = max(error(*pair) for pair in pairs)
        rows.append(row)
    values = np.array([list(row.values()) for row in rows])
    return NullDistribution(tuple(rows[0]), values, seed)
