"""Noisy experts whose truth is known, and steps drawn straight from their model."""

from __future__ import annotations

from functools import cache

import numpy as np

import oracles
import tacit
from tacit import MDP, Demonstrations, Features
from tacit.data.tally import Horizons
from tacit.inference.expectations import Expectations, pull_back

TEMPERATURE, PRICE = 0.0025, 0.05


@cache
def grid(seed: int = 1) -> tacit.worlds.World:
    """A 5 x 5 hill grid, weights of L1 norm 1."""
    return tacit.worlds.hill_grid(seed=seed, tightness=0.5).in_gauge


@cache
def tangle(seed: int = 0) -> tacit.worlds.World:
    """A random world with two constraints whose features depend on the action."""
    return tacit.worlds.random(seed, states=9, actions=3, constraints=2, features=3, tightness=0.5)


def policy_of(mdp: MDP, features: Features, theta) -> np.ndarray:
    """[S, A] the Boltzmann policy of the parameters (reward, one per constraint), by an oracle."""
    objective = features.objective(theta[0], theta[1:], np.zeros(len(theta) - 1))
    reward, costs = objective.tables(mdp)
    return oracles.soft_values(mdp, reward - costs.sum(axis=0), 1.0)[1]


@cache
def hill_expert(
    seed: int = 1, temperature: float = TEMPERATURE, price: float = PRICE
) -> tuple[np.ndarray, np.ndarray]:
    """([S, A] policy of the noisy expert on the grid, [S, A] its visitation)."""
    world = grid(seed)
    theta = [world.reward_weights / temperature]
    theta += [price * w / temperature for w in world.cost_weights]
    policy = policy_of(world.mdp, world.features, theta)
    return policy, oracles.policy_visitation(world.mdp, policy)


def sampled(
    policy: np.ndarray | None = None, trajectories: int = 40, steps: int = 60, seed: int = 0
) -> Demonstrations:
    """Trajectories on the grid, of the noisy expert unless another policy [S, A] is given."""
    policy = hill_expert()[0] if policy is None else policy
    return tacit.simulate(grid().mdp, policy, trajectories=trajectories, steps=steps, seed=seed)


def joined(*parts: Demonstrations) -> Demonstrations:
    """All trajectories, of one part after the other."""
    return Demonstrations.from_trajectories(
        part.trajectory(e) for part in parts for e in range(part.episodes)
    )


def few_successors(
    rng: np.random.Generator, states: int, actions: int = 3, successors: int = 3
) -> np.ndarray:
    """[S, A, S] transitions to so many random states each."""
    moves = np.zeros((states, actions, states))
    for row in moves.reshape(-1, states):
        row[rng.choice(states, successors, replace=False)] = rng.dirichlet(np.ones(successors))
    return moves


def drawn(rng: np.random.Generator, policy: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """[S, A] counts of actions, given how often each state was visited [S]."""
    return np.stack([rng.multinomial(n, p) for n, p in zip(visits, policy, strict=True)])


def pairs(counts: np.ndarray) -> Demonstrations:
    """Loose pairs with these counts [S, A]."""
    states, actions = np.nonzero(counts)
    many = counts[states, actions].astype(int)
    return Demonstrations.from_pairs(np.repeat(states, many), np.repeat(actions, many))


def spread_visits(visitation: np.ndarray, steps: int) -> np.ndarray:
    """[S] about so many steps, shared out as the visitation does; every state at least once."""
    share = visitation.sum(axis=1) / visitation.sum()
    return np.maximum(1, np.round(steps * share)).astype(int)


def exact(mdp: MDP, features: Features, visitation: np.ndarray) -> Expectations:
    """The expectations of endlessly many trajectories with this visitation."""
    maps = (features.reward, *features.costs)
    nothing = tuple(np.zeros(table.shape[-1]) for table in maps)
    spans = tuple(np.ptp(table.reshape(-1, table.shape[-1]), axis=0) for table in maps)
    length = 1.0 / (1.0 - mdp.discount)
    horizon = Horizons(1, length, length**2, length)
    means = pull_back(features, visitation)
    return Expectations(means, nothing, nothing, spans, horizons=horizon, visitation=visitation)


# Experts that no policy by state describes -------------------------------------------------------


def state_world(seed: int) -> tuple[MDP, Features, np.ndarray, np.ndarray]:
    """A random world of 12 states whose features know no action; two rewards [3] to want there."""
    rng = np.random.default_rng(seed)
    moves = few_successors(rng, 12, 4, 4)
    features = Features(rng.random((12, 3)), (rng.random((12, 1)),))
    one, other = 8.0 * rng.dirichlet(2.0 * np.ones(3)), 8.0 * rng.dirichlet(2.0 * np.ones(3))
    return MDP(moves, np.full(12, 1.0 / 12), 0.9), features, one, other


def odd_steps(kind: str, seed: int, *, many: int = 60, steps: int = 50) -> Demonstrations:
    """Trajectories in `state_world(seed)` of an expert whose choices no policy by state makes.

    Args:
        kind: "right" for one whose choices do; "avoids" takes the last action half as often;
            "slumps" has 2.5 times the noise in the middle third; "periodic" wants the other reward
            in every second five steps.
        seed: of the world and of the draws.
        many: trajectories.
        steps: of each.
    """
    mdp, features, one, other = state_world(seed)
    own, apart, dull = (policy_of(mdp, features, [w, [3.0]]) for w in (one, other, 0.4 * one))
    rng, moves = np.random.default_rng(10**6 + seed), mdp.dense().cumsum(axis=2)
    here, last = rng.integers(12, size=many), np.full(many, -1)
    states, actions = np.empty((2, many, steps), int)
    for t in range(steps):
        slumps = kind == "slumps" and steps // 3 <= t < 2 * steps // 3
        turned = kind == "periodic" and t // 5 % 2 == 1
        chances = (dull if slumps else apart if turned else own)[here]
        if kind == "avoids" and t:
            chances[np.arange(many), last] *= 0.5
            chances /= chances.sum(axis=1, keepdims=True)
        last = (rng.random((many, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
        states[:, t], actions[:, t] = here, last
        here = (rng.random((many, 1)) > moves[here, last][:, :-1]).sum(axis=1)
    offsets = np.arange(many + 1) * steps
    return Demonstrations(states.ravel(), actions.ravel(), offsets)


def cliff_walks(
    seed: int, *, many: int = 60, steps: int = 100
) -> tuple[MDP, Features, Demonstrations]:
    """Gymnasium's CliffWalking, a cost beside the cliff at price 2, and walks that never fall.

    The model is right; how much a fall would cost is not told by any step.
    """
    mdp = tacit.worlds.gymnasium("CliffWalking-v1").mdp
    falls = tacit.worlds.gymnasium("CliffWalking-v1").features.reward
    beside = np.zeros((*falls.shape[:2], 1))
    beside[24:36] = 1.0
    features = Features(falls, (beside,))
    policy = policy_of(mdp, features, [[1.0], [2.0]])
    walks = tacit.simulate(mdp, policy, trajectories=many, steps=steps, seed=seed)
    return mdp, features, walks
