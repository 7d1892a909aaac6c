"""Random constrained MDPs that can be met by construction, for tests and benchmarks of any size."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import InvalidModel
from tacit.model.mdp import MDP, Successors
from tacit.model.objective import Features
from tacit.worlds.world import World, budgets_between, integer, recipe


def random(
    seed: int = 0,
    *,
    states: int = 20,
    actions: int = 3,
    constraints: int = 1,
    discount: float = 0.9,
    successors: int | None = None,
    features: int = 3,
    by_action: bool = True,
    margin: float = 0.005,
    tightness: float | None = None,
) -> World:
    """A random `World` whose budgets can be met; it prints as the call that makes it again.

    Next states are uniform, their probabilities and the initial distribution flat on the simplex;
    features are uniform on [0, 1]; weights are flat on the simplex, so the truth is in the gauge of
    a recovery. Transitions, reward and each cost have a random stream of their own: more
    constraints, say, leave the transitions as they are.

    Args:
        seed: names the draw.
        states: S.
        actions: A.
        constraints: K, 0 or more.
        discount: of the model.
        successors: next states drawn for each action (repeats add up); None draws min(S, 5).
        features: D, of the reward and of each cost.
        by_action: whether features are [S, A, D] or [S, D].
        margin: slack left to a randomly drawn policy that takes every action: its expected
            discounted cost plus margin * (largest - least cost) / (1 - discount) is the budget. Any
            number of budgets then hold jointly, strictly. A single one binds in two of five draws.
        tightness: in (0, 1); instead places the budgets between those of the most careful and of
            the reward-optimal policy, where at least one binds.
    """
    asked = dict(locals())
    for name, least in _LEAST.items():
        integer(asked[name], name, least)
    width = min(states, 5) if successors is None else integer(successors, "successors", 1)
    if not isinstance(margin, int | float | np.number) or not 0 < margin < math.inf:
        raise InvalidModel(f"margin must be a positive number; got {margin!r:.60}")
    seeds = np.random.SeedSequence(int(seed)).spawn(4)
    moves, wants, plays = (np.random.default_rng(s) for s in seeds[:3])
    charges = [np.random.default_rng(s) for s in seeds[3].spawn(int(constraints))]

    next_states = moves.integers(0, states, size=(states, actions, width), dtype=np.int32)
    transitions = Successors(next_states, _simplex(moves, (states, actions, width)))
    mdp = MDP(transitions, _simplex(moves, (states,)), discount)

    shape = (states, actions, features) if by_action else (states, features)
    maps = Features(wants.random(shape), [draw.random(shape) for draw in charges])
    reward_weights = _simplex(wants, (features,))
    cost_weights = [_simplex(draw, (features,)) for draw in charges]
    truth = maps.objective(reward_weights, cost_weights, np.full(constraints, np.inf))
    if tightness is not None:
        budgets = budgets_between(mdp, truth, tightness)
    else:
        budgets = _budgets_with_margin(mdp, truth.tables(mdp)[1], plays, margin)
    asked["discount"] = mdp.discount
    return World(
        mdp=mdp,
        features=maps,
        truth=maps.objective(reward_weights, cost_weights, budgets),
        reward_weights=reward_weights,
        cost_weights=cost_weights,
        recipe=recipe("random", asked, _OPTIONS),
    )


def _budgets_with_margin(
    mdp: MDP, costs: np.ndarray, draw: np.random.Generator, margin: float
) -> np.ndarray:
    """[K] what a randomly drawn policy spends, and a little more."""
    if not len(costs):
        return np.zeros(0)
    from tacit.forward.policies import visitation

    policy = _simplex(draw, (mdp.states, mdp.actions))
    flat, visits = costs.reshape(len(costs), -1), visitation(mdp, policy).ravel()
    # One product a row: a matrix product rounds differently with the number of rows.
    spent = np.array([np.vdot(row, visits) for row in flat])
    spread = (flat.max(axis=1) - flat.min(axis=1)) / (1.0 - mdp.discount)
    return spent + margin * np.where(spread > 0, spread, 1.0)


def _simplex(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform on the simplex along the last axis; every entry is positive."""
    # Exponentials over their sum are a flat Dirichlet. An exponential of exactly 0 is possible.
    gaps = np.maximum(draw.standard_exponential(shape), 1e-12)
    return gaps / gaps.sum(axis=-1, keepdims=True)


# The smallest value of each number.
_LEAST = {"states": 1, "actions": 1, "constraints": 0, "features": 1, "seed": 0}
# Seed and size are always printed; the other arguments only where they are not the default.
_SIZE = ("states", "actions", "constraints", "discount")
_OPTIONS = {k: v for k, v in (random.__kwdefaults__ or {}).items() if k not in _SIZE}
