"""Noisy travellers through a square of streets, each to a goal of its own."""

import numpy as np

import networks
from tacit import MDP, Demonstrations, Features
from tacit.estimators.trips.world import at_ends, goal_world, trimmed

TRUTH = np.array([-1.5, -0.7, 0.4])
GOALS = [3, 5, 12, 15]


def streets(side: int = 4, slip: float = 0.0, discount: float = 0.9) -> MDP:
    """A square of streets without an end; a step goes astray with chance `slip`."""
    town = networks.town(side, 0.5, slip)
    moves, there = town.dense(), town.available.copy()
    last = side * side - 1
    for action, reached in ((0, last - 1), (2, last - side)):
        moves[last, action, reached], there[last, action] = 1.0, True
    return MDP(moves, np.full(side * side, 1 / side**2), discount, available=there)


def lengths(mdp: MDP, size: int = 3, seed: int = 0, *, costs: int = 0) -> Features:
    """[S, A, D] attributes of links, of which the first is at least 1."""
    table = np.random.default_rng(seed).random((mdp.states, mdp.actions, size + costs))
    table[..., 0] += 1.0
    return Features(table[..., :size], [table[..., size:]] if costs else ())


def travelled(mdp, table, number, goals, *, discount=1.0, seed=0, lapses=0.0) -> Demonstrations:
    """Trips of a noisy traveller, whose policies are found by value iteration.

    A share of the steps, `lapses`, is random among those that leave a way.
    """
    rng, dense, policies, trips = np.random.default_rng(seed), mdp.dense(), {}, []
    while len(trips) < number:
        goal, at = int(rng.choice(goals)), int(rng.integers(mdp.states))
        if goal not in policies:
            world = goal_world(mdp, goal, mdp.initial, discount)
            policies[goal] = networks.soft_values(world, at_ends(mdp, world, table[None])[0])[1]
        if at == goal or not trimmed(mdp, goal)[at].any():
            continue
        states, actions = [at], []
        while at != goal:
            row = policies[goal][at]
            if lapses:
                there = trimmed(mdp, goal)[at]
                row = (1.0 - lapses) * row / row.sum() + lapses * there / there.sum()
            actions.append(int(rng.choice(mdp.actions, p=row / row.sum())))
            at = int(rng.choice(mdp.states, p=dense[at, actions[-1]]))
            states.append(at)
        trips.append((states, actions))
    return Demonstrations.from_trajectories(trips, ended=np.ones(number, bool))
