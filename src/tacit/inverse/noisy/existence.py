"""Where a noisy expert has finite values: at discount 1 not at all parameters.

Without a discount a loop that costs too little is walked for ever, and the values are infinite: at
parameters 0, say, in any world with a loop. Parameters with a potential h that falls by at least
log(number of actions) on every pair, u(s, a) + P h - h(s) <= -log(actions(s)), have finite values,
since h bounds them from above. If any parameters do, some multiple of a direction has such a
potential: a linear program finds the smallest, or proves that there is none.
"""

from __future__ import annotations

import numpy as np

from tacit.engine.backends import backend_of
from tacit.engine.smooth_dual import Dual, loss_at
from tacit.forward.policies import deterministic_values
from tacit.model.mdp import MDP

NOWHERE = (
    "discount 1 needs weights under which walking in circles does not pay, and no weights of these "
    "features within their signs are such: add a feature that every step pays (a step cost), let "
    "reward weights be negative (free_reward=True), or take a discount below 1"
)


def finite_start(
    mdp: MDP, problem: Dual, x: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """([D] parameters, [S] values to start from) of finite values; None where there are none.

    Those given if theirs are finite, else the smallest that a potential vouches for.
    """
    for found in (lambda: x, lambda: _smallest(mdp, problem), lambda: _steepest(mdp, problem)):
        trial = found()
        if trial is None:
            continue
        trial = np.clip(trial, problem.lower, problem.upper)
        guess = walk_values(mdp, problem, trial)
        if np.isfinite(float(loss_at(backend_of(mdp), problem, trial, guess, tolerance))):
            return trial, guess
    return None


def walk_values(mdp: MDP, problem: Dual, x: np.ndarray) -> np.ndarray:
    """[S] what the shortest walk to an end collects at x [D]: a bound from below on the values."""
    actions, _ = mdp.walk
    table = problem.base + np.tensordot(x, problem.tables, 1)
    return deterministic_values(mdp, actions, table[np.arange(mdp.states), actions])


def _smallest(mdp: MDP, problem: Dual) -> np.ndarray | None:
    """[D] the parameters of least L1 norm with a potential, if there are any."""
    size = len(problem.target)
    return _program(mdp, problem, cost=np.r_[np.ones(2 * size), np.zeros(mdp.states), 0.0], drop=1)


def _steepest(mdp: MDP, problem: Dual) -> np.ndarray | None:
    """[D] the parameters whose potential falls by the largest share of what it should."""
    size = len(problem.target)
    return _program(mdp, problem, cost=np.r_[np.zeros(2 * size + mdp.states), -1.0], drop=0)


def _program(mdp: MDP, problem: Dual, *, cost: np.ndarray, drop: float) -> np.ndarray | None:
    """[D] the best parameters x = up - down with a potential h, over (up, down, h, share).

    The share of log(actions) by which the potential falls is at least `drop`.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    states, actions = np.nonzero(mdp.available)
    flat = problem.tables.reshape(len(problem.target), -1)
    pairs = states * mdp.actions + actions
    gains = csr_array(flat[:, pairs].T)
    own = csr_array(
        (np.ones(len(pairs)), (np.arange(len(pairs)), states)), (len(pairs), mdp.states)
    )
    entropy = np.log(mdp.available.sum(axis=1)[states])
    rows = hstack([gains, -gains, mdp.sparse()[pairs] - own, csr_array(entropy[:, None])])
    # The potential of an end is what it pays.
    ends = np.flatnonzero(mdp.ends)
    paid = csr_array(problem.tables[:, ends, 0].T)
    at_ends = csr_array(-np.eye(mdp.states)[ends])
    fixed = hstack([paid, -paid, at_ends, np.zeros((len(ends), 1))])
    lower, upper = problem.lower, problem.upper
    sides = [(max(low, 0.0), max(high, 0.0)) for low, high in zip(lower, upper, strict=True)]
    sides += [(max(-high, 0.0), max(-low, 0.0)) for low, high in zip(lower, upper, strict=True)]
    found = linprog(
        cost,
        A_ub=rows.tocsr(),
        b_ub=-problem.base[states, actions],
        A_eq=fixed.tocsr(),
        b_eq=-problem.base[ends, 0],
        bounds=[*sides, *[(None, None)] * mdp.states, (drop, 1.0)],
        method="highs",
    )
    if found.x is None:
        return None
    size = len(problem.target)
    return found.x[:size] - found.x[size : 2 * size]
