"""Do two costs with their budgets allow the same behaviours? Asked of behaviours worth asking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.errors import InvalidModel
from tacit.forward.solve import solve
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective

# Spending this close to a budget, relative to the largest a cost can sum to, is within it.
AT_BUDGET = 1e-9


@dataclass(frozen=True, eq=False)
class Behaviours:
    """Visitations to ask about: vertices, and convex combinations of two of them each.

    Attributes:
        vertices: [V, S, A] visitations of optimal policies of random rewards.
        members: [N, 2] which vertices each combination mixes.
        weights: [N, 2] how much of each.
        seed: names the draw.
    """

    vertices: np.ndarray
    members: np.ndarray
    weights: np.ndarray
    seed: int

    @property
    def count(self) -> int:
        """Number of behaviours, V + N."""
        return len(self.vertices) + len(self.members)

    def spent(self, costs: np.ndarray) -> np.ndarray:
        """[V + N, K] expected discounted costs [K, S, A] of every behaviour, vertices first."""
        at = np.tensordot(self.vertices, costs, ((1, 2), (1, 2)))
        mixed = (self.weights[:, :, None] * at[self.members]).sum(axis=1)
        return np.concatenate([at, mixed])


@dataclass(frozen=True)
class FeasibleAgreement:
    """How far two objectives allow the same behaviours.

    Attributes:
        jaccard: behaviours allowed by both / by either; 1 where neither allows any. Range [0, 1],
            symmetric.
        balanced: mean of the shares judged right among those truly allowed and among those truly
            refused, or the one of the two that exists. Range [0, 1]; a constraint that allows
            everything, or nothing, gets 0.5 where both exist.
        true_share: share of the behaviours allowed by the truth.
        recovered_share: share allowed by the recovered objective.
        samples: number of behaviours asked about.
        seed: of their draw.
    """

    jaccard: float
    balanced: float
    true_share: float
    recovered_share: float
    samples: int
    seed: int


def sample_behaviours(
    mdp: MDP,
    *,
    features: Features | None = None,
    vertices: int = 128,
    combinations: int = 4000,
    seed: int = 0,
) -> Behaviours:
    """Behaviours that want something: the `vertices` of random rewards, and mixtures of pairs.

    Random policies would not do: they wander, are never within a budget that binds, and so make any
    cost look right. Mixtures of many vertices crowd in the middle for the same reason: two it is.

    Args:
        mdp: the model.
        features: rewards are standard normal weights times all reward and cost features, each
            column scaled to standard deviation 1 over (s, a). None: a standard normal reward for
            every state.
        vertices: number of rewards drawn.
        combinations: number of pairs drawn, with a uniform share each.
        seed: names the draw.

    At discount 1 the largest entry of a reward, and its standard deviation, are taken off every
    step: without, going round for ever would pay.
    """
    if vertices < 2 or combinations < 0:
        raise InvalidModel(
            "vertices must be at least 2 and combinations at least 0; "
            f"got {vertices} and {combinations}"
        )
    random = np.random.default_rng(seed)
    basis = None if features is None else _standardised(mdp, features)
    visited = np.empty((vertices, mdp.states, mdp.actions))
    for vertex in visited:
        if basis is None:
            reward = random.standard_normal(mdp.states)
        else:
            reward = basis @ random.standard_normal(basis.shape[2])
        if mdp.discount == 1.0:
            reward = reward - reward.max() - reward.std()
        vertex[:] = solve(mdp, Objective(reward)).visitation
    first = random.integers(vertices, size=combinations)
    second = (first + random.integers(1, vertices, size=combinations)) % vertices  # another one
    share = random.random(combinations)
    return Behaviours(
        visited, np.stack([first, second], axis=1), np.stack([share, 1.0 - share], axis=1), seed
    )


def allowed(mdp: MDP, objective: Objective, behaviours: Behaviours) -> np.ndarray:
    """[V + N] bool, which behaviours keep all budgets of the objective."""
    _, costs = objective.tables(mdp)
    slack = AT_BUDGET * np.abs(costs).max(axis=(1, 2), initial=0.0) * mdp.horizon
    return (behaviours.spent(costs) <= objective.budgets + slack).all(axis=1)


def feasible_agreement(
    mdp: MDP, truth: Objective, recovered: Objective, *, behaviours: Behaviours
) -> FeasibleAgreement:
    """The agreement of two feasible sets on the behaviours sampled; rewards are not read.

    Invariant to the scale of a cost with its budget, and to shifts and shaping of a cost with the
    matching shift of its budget. The numbers of constraints may differ.

    Args:
        mdp: the model.
        truth: costs and budgets.
        recovered: costs and budgets.
        behaviours: of `sample_behaviours`, on the same model.
    """
    true, found = allowed(mdp, truth, behaviours), allowed(mdp, recovered, behaviours)
    either = int((true | found).sum())
    rates = [rate.mean() for rate in (found[true], ~found[~true]) if len(rate)]
    return FeasibleAgreement(
        jaccard=float((true & found).sum() / either) if either else 1.0,
        balanced=float(np.mean(rates)),
        true_share=float(true.mean()),
        recovered_share=float(found.mean()),
        samples=behaviours.count,
        seed=behaviours.seed,
    )


def _standardised(mdp: MDP, features: Features) -> np.ndarray:
    """[S, A, D] all reward and cost features, each column of standard deviation 1 or all zeros."""
    columns = np.concatenate(
        [
            np.repeat(table[:, None], mdp.actions, axis=1) if table.ndim == 2 else table
            for table in (features.reward, *features.costs)
        ],
        axis=2,
    )
    spread = columns.std(axis=(0, 1))
    # A constant column moves no policy; its spread is rounding.
    varies = spread > 1e-12 * np.abs(columns).max(axis=(0, 1))
    return np.where(varies, columns, 0.0) / np.where(varies, spread, 1.0)
