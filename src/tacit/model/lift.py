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

    def action_values(values: np.ndarray) -> np.ndarray:
        """[S, A] what each action is worth if these values [S] follow."""
        return np.where(mdp.choices, reward + mdp.expected_next(values), -np.inf)

    def excess(values: np.ndarray) -> np.ndarray:
        """[S] backup of these values less the values."""
        utility = action_values(values)
        if temperature == 0.0:
            return utility.max(axis=1) - values
        return temperature * np.asarray(logsumexp(utility / temperature, axis=1)) - values

    scale = np.abs(reward) + np.abs(values)[:, None] + mdp.expected_next(np.abs(values))
    rounding = LAST_DIGITS * np.where(mdp.choices, scale + temperature, 0.0).max(axis=1)
    above, utility = excess(values), action_values(values)
    if (above <= rounding).all():
        return np.zeros(mdp.states)
    if temperature == 0.0:
        policy = np.eye(mdp.actions)[utility.argmax(axis=1)]
    else:
        policy = softmax(utility / temperature, axis=1)
    for ending_policy in (policy, np.eye(mdp.actions)[mdp.walk[0]]):
        lengths = _lengths(mdp, ending_policy)
        if lengths is None:
            continue
        height = float(above.max())
        for _ in range(DOUBLINGS):
            raised = height * lengths
            if (excess(values + raised) <= LAST_DIGITS * raised + rounding).all():
                return raised
            height *= 2.0
    return None


def _lengths(mdp: MDP, policy: np.ndarray) -> np.ndarray | None:
    """[S] the states that a policy [S, A] passes on average; None where it does not end."""
    lengths = chain_solve(mdp, *policy_chain(mdp, policy), np.ones(mdp.states), transposed=False)
    residual = 1.0 + (policy * mdp.expected_next(lengths)).sum(axis=1) - lengths
    is_positive = np.isfinite(lengths).all() and lengths.min() > 0.0
    return lengths if is_positive and np.abs(residual).max() < 0.5 else None
