"""Upper bounds on values at discount 1, where no residual shrinks by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.engine.kernels.chains import chain_solve, policy_chain

if TYPE_CHECKING:
    from tacit.model.mdp import MDP

# How often a lift that is too small is doubled.
DOUBLINGS = 40
# Roundings in a value: of the sum over next states, of the reward and of the difference.
LAST_DIGITS = 16.0 * np.finfo(np.float64).eps


def lift(mdp: MDP, reward: np.ndarray, values: np.ndarray, temperature: float) -> np.ndarray | None:
    """[S] what to add to `values` [S] so that no backup exceeds them; None if nothing was found.

    Then they bound every policy's value from above. The lift goes along the expected length w of
    the rest of an episode: one backup lowers c * w by about c.

    Args:
        mdp: the model, at discount 1.
        reward: [S, A] of the Lagrangian.
        values: [S].
        temperature: of the backup; 0 for a hard one.
    """
    from scipy.special import logsumexp, softmax

    if not np.isfinite(values).all():
        return None

    def utility(values: np.ndarray) -> np.ndarray:
        return np.where(mdp.choices, reward + mdp.expected_next(values), -np.inf)

    def excess(values: np.ndarray) -> np.ndarray:
        """[S] what the backup of these values is above them."""
        worth = utility(values)
        if temperature == 0.0:
            return worth.max(axis=1) - values
        return temperature * np.asarray(logsumexp(worth / temperature, axis=1)) - values

    scale = np.abs(reward) + np.abs(values)[:, None] + mdp.expected_next(np.abs(values))
    rounding = LAST_DIGITS * np.where(mdp.choices, scale + temperature, 0.0).max(axis=1)
    above, best = excess(values), utility(values)
    if (above <= rounding).all():
        return np.zeros(mdp.states)
    if temperature == 0.0:
        policy = np.eye(mdp.actions)[best.argmax(axis=1)]
    else:
        policy = softmax(best / temperature, axis=1)
    for way in (policy, np.eye(mdp.actions)[mdp.walk[0]]):
        lengths, height = _lengths(mdp, way), float(above.max())
        if lengths is None:
            continue
        for _ in range(DOUBLINGS):
            raised = height * lengths
            if (excess(values + raised) <= LAST_DIGITS * raised + rounding).all():
                return raised
            height *= 2.0
    return None


def _lengths(mdp: MDP, policy: np.ndarray) -> np.ndarray | None:
    """[S] the states that a policy [S, A] passes on average; None where it does not end."""
    lengths = chain_solve(mdp, *policy_chain(mdp, policy), np.ones(mdp.states), transposed=False)
    left = 1.0 + (policy * mdp.expected_next(lengths)).sum(axis=1) - lengths
    fine = np.isfinite(lengths).all() and lengths.min() > 0.0
    return lengths if fine and np.abs(left).max() < 0.5 else None
