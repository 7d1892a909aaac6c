"""Small worlds in which trips end, and slow, plain answers about them: all paths, value iteration.

Nothing here is imported from the solvers. A network is a list of links (state, action, next).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import logsumexp

from tacit import MDP, Demonstrations, Features


def model(links, states: int, actions: int, *, discount: float = 1.0, initial=None) -> MDP:
    """The `MDP` of links (state, action, next or {next: chance}); other pairs are not there."""
    moves, there = np.zeros((states, actions, states)), np.zeros((states, actions), bool)
    for state, action, reached in links:
        there[state, action] = True
        for place, chance in (reached if isinstance(reached, dict) else {reached: 1.0}).items():
            moves[state, action, place] += chance
    start = np.eye(states)[0] if initial is None else np.asarray(initial, float)
    return MDP(moves, start, discount, available=there)


def corridor(discount: float = 0.5) -> MDP:
    """Three cells in a row, the last one absorbing; action 0 stays, action 1 moves on."""
    stay, move = np.eye(3), np.array([[0.0, 1, 0], [0, 0, 1], [0, 0, 1]])
    return MDP(np.stack([stay, move], axis=1), [1.0, 0, 0], discount)


@cache
def fork(discount: float = 1.0, states: int = 7, actions: int = 3) -> MDP:
    """Seven states without a loop; two ends, 5 and 6; two or three ways out of most others.

    More states are ends that nobody reaches, more actions are never there: shapes may be shared.
    """
    links = [(0, 0, 1), (0, 1, 2), (0, 2, 3), (1, 1, 3), (1, 2, 4), (2, 0, 4), (2, 2, 5)]
    links += [(3, 0, 4), (3, 1, 5), (3, 2, 6), (4, 1, 5), (4, 2, 6)]
    initial = np.r_[0.7, 0.3, np.zeros(states - 2)]
    return model(links, states, actions, discount=discount, initial=initial)


@cache
def town(side: int = 4, discount: float = 1.0, slip: float = 0.0) -> MDP:
    """A square of streets, left, right, up, down where there is a way; the last corner is the end.

    A step goes astray to a random neighbour with chance `slip`.
    """
    steps, links = ((0, -1), (0, 1), (-1, 0), (1, 0)), []
    last = side * side - 1
    for at in range(last):
        ways = {}
        for action, (down, across) in enumerate(steps):
            row, column = at // side + down, at % side + across
            if 0 <= row < side and 0 <= column < side:
                ways[action] = row * side + column
        for action, reached in ways.items():
            chances = dict.fromkeys(ways.values(), slip / len(ways))
            chances[reached] += 1.0 - slip
            links.append((at, action, chances))
    initial = np.r_[np.ones(last) / last, 0.0]
    return model(links, side * side, 4, discount=discount, initial=initial)


def attributes(mdp: MDP, size: int, seed: int = 0, *, costs: int = 0) -> Features:
    """[S, A, D] random link attributes to be avoided, and costs; what an end has, all its row has.

    Minus the length comes first; lengths are at least 1, so that no loop is free.
    """
    rng = np.random.default_rng(seed)
    lengths = 1.0 + rng.random((mdp.states, mdp.actions, 1))
    rest = rng.random((mdp.states, mdp.actions, size - 1 + costs))
    table = np.concatenate([lengths, rest], axis=2)
    table[mdp.ends] = rng.random((int(mdp.ends.sum()), 1, size + costs))
    return Features(-table[..., :size], [table[..., size:]] if costs else ())


def soft_values(mdp: MDP, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[S] soft values at temperature 1 and [S, A] policy, from below, by value iteration."""
    dense = mdp.dense()
    values = np.where(mdp.ends, table[:, 0], -50.0)  # far below: they rise to the least fixed point
    for _ in range(100_000):
        later = np.where(dense > 0, dense * np.where(dense > 0, values, 0.0), 0.0).sum(axis=2)
        worth = np.where(mdp.available, table + mdp.discount * later, -np.inf)
        with np.errstate(divide="ignore"):
            new = np.where(mdp.ends, table[:, 0], logsumexp(worth, axis=1))
        if np.abs(new - values).max() <= 1e-14 * np.abs(new).max():
            break
        values = new
    policy = np.exp(worth - np.where(mdp.ends, 0.0, new)[:, None])
    return new, np.where(mdp.available, policy, 0.0)


def paths(mdp: MDP, start: int) -> list[list[tuple[int, int]]]:
    """All ways from a state to an end of a network without loops, as lists of (state, action)."""
    if mdp.ends[start]:
        return [[(start, -1)]]
    dense, found = mdp.dense(), []
    for action in np.flatnonzero(mdp.available[start]):
        (reached,) = np.flatnonzero(dense[start, action])
        found += [[(start, int(action)), *rest] for rest in paths(mdp, int(reached))]
    return found


def path_loss(mdp: MDP, table: np.ndarray, trips: list[list[tuple[int, int]]]) -> float:
    """Minus the log-likelihood of trips if each path is as likely as exp(what it collects)."""

    def worth(path: list[tuple[int, int]]) -> float:
        return sum(table[state, max(action, 0)] for state, action in path)

    total = 0.0
    for trip in trips:
        total += logsumexp([worth(path) for path in paths(mdp, trip[0][0])]) - worth(trip)
    return float(total)


def travel(mdp: MDP, policy: np.ndarray, number: int, seed: int = 0) -> Demonstrations:
    """Complete trips of this policy, drawn one step at a time."""
    rng, dense, trips = np.random.default_rng(seed), mdp.dense(), []
    for _ in range(number):
        at = int(rng.choice(mdp.states, p=mdp.initial))
        states, actions = [at], []
        while not mdp.ends[at]:
            row = policy[at] / policy[at].sum()
            actions.append(int(rng.choice(mdp.actions, p=row)))
            at = int(rng.choice(mdp.states, p=dense[at, actions[-1]]))
            states.append(at)
        if actions:
            trips.append((states, actions))
    return Demonstrations.from_trajectories(trips, ended=np.ones(len(trips), bool))
