"""Noisy experts whose truth is known, and steps drawn straight from their model."""

from __future__ import annotations

from functools import cache

import numpy as np

import oracles
import tacit
from tacit import MDP, Demonstrations, Features
from tacit.data import Horizons
from tacit.inverse.expectations import Expectations, pull_back

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
