"""Orders of states, actions and next states that depend on the world and not on its numbering.

Draws are attached to the places of these orders: an answer that rests on them is then the same
however the states and actions of a world are numbered. States that the world does not tell apart
keep the order of their numbers.
"""

from __future__ import annotations

import numpy as np

from tacit.model.mdp import MDP

# Random steps whose visits distinguish states, and the digits to which these are known.
STEPS, DIGITS = 8, 9


def state_marks(mdp: MDP) -> np.ndarray:
    """[S] a number of each state: how often random steps come by it, and by what follows it."""
    size = mdp.states
    uniform = mdp.available / np.maximum(mdp.available.sum(axis=1, keepdims=True), 1)
    arrivals = 0.5 * (mdp.initial + 1.0 / size)  # everywhere, but not all alike
    visits = arrivals.copy()
    for _ in range(STEPS):
        arrivals = mdp.inflow(arrivals[:, None] * uniform)
        visits += arrivals
    next_visits = (uniform * mdp.expected_next(visits)).sum(axis=1)
    return np.round(size * (visits + 0.5 * next_visits), DIGITS)


def action_marks(mdp: MDP, marks: np.ndarray) -> np.ndarray:
    """[S, A] a number of each action: the expected mark [S] of the next state."""
    return np.round(mdp.expected_next(marks), DIGITS)


def successor_order(states: np.ndarray, probabilities: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """[..., W] places of next states [..., W], by their marks [S]; those of probability 0 last."""
    keys = np.where(probabilities > 0, marks[states], np.inf)
    return np.argsort(keys, axis=-1, kind="stable")
