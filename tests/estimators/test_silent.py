"""Features that change no choice widen what is said about their partners and about prices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import linprog

import tacit
from experts import drawn, pairs, policy_of
from tacit import MDP, Features
from tacit.inference.findings import Kind
from tacit.inference.sets import Ends

STATES, ACTIONS, DISCOUNT = 6, 3, 0.9
KINDS = ("plain", "constant", "unreachable", "shaping")
# Corners of the linear programs are met to 1e-9; ends are quotients of such numbers.
EXACT = 1e-6


def problem(seed: int):
    """(world, features, reward weights, cost weights, price): the last state is never reached."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((STATES, ACTIONS, STATES))
    for s, a in np.ndindex(STATES - 1, ACTIONS):
        moves[s, a, rng.choice(STATES - 1, 2, replace=False)] = rng.dirichlet(np.ones(2))
    moves[-1, :, -1] = 1.0
    start = np.append(np.full(STATES - 1, 1.0 / (STATES - 1)), 0.0)

    def column(kind: str) -> np.ndarray:
        if kind == "constant":
            return np.full((STATES, ACTIONS), 0.2 + rng.random())
        if kind == "unreachable":
            return np.eye(STATES)[-1][:, None] * np.ones(ACTIONS)
        if kind == "shaping":
            potential = rng.random(STATES)
            return potential[:, None] - DISCOUNT * moves @ potential
        return rng.random((STATES, ACTIONS))

    maps = [np.stack([column("plain"), column(rng.choice(KINDS))], -1) for _ in range(2)]
    weights = rng.dirichlet(np.ones(2), size=2)
    world = MDP(moves, start, DISCOUNT)
    return world, Features(maps[0], maps[1:]), *weights, rng.uniform(0.2, 1.0)


def holds(ends: np.ndarray, truth) -> bool:
    return bool(((ends[:, 0] - EXACT <= truth) & (truth <= ends[:, 1] + EXACT)).all())


def test_the_truth_is_in_every_set_that_holds_for_certain():
    # Where partners are not widened, 37 of these 40 are missed.
    for seed in range(40):
        world, features, wanted, refused, price = problem(seed)
        table = features.reward @ wanted - price * (features.costs[0] @ refused)
        policy = tacit.solve(world, tacit.Objective(table)).policy
        shown = tacit.simulate(world, policy, trajectories=20, steps=30, seed=seed)
        known = tacit.Explanation().fit(world, features, shown).identification
        assert holds(known.reward_intervals, wanted), seed
        assert holds(known.cost_intervals[0], refused), seed
        assert holds(known.multiplier_intervals, price), seed
        # A question asked by itself has the same answer.
        low, high = known.interval([1.0, 0.0], [np.zeros(2)])
        assert known.reward_intervals[0] == pytest.approx([max(low, 0.0), min(high, 1.0)], abs=1e-6)
        own = [
            table[..., j].ravel() for table in (features.reward, features.costs[0]) for j in (1,)
        ]
        constant = [float(np.ptp(column)) == 0.0 for column in own]
        if constant[0]:
            assert known.reward_intervals.tolist() == [[0.0, 1.0]] * 2
            assert known.multiplier_intervals[0, 0] == 0.0
        if constant[1]:
            assert known.cost_intervals[0][:, 0].tolist() == [0.0, 0.0]
            assert known.multiplier_intervals[0, 1] == np.inf


def silent_directions(world: MDP, features: Features) -> np.ndarray:
    """[D, B] all z for which some v has phi z + discount P v - v = 0 on reachable pairs."""
    reached = np.arange(STATES) < STATES - 1
    phi = np.concatenate([features.reward, -features.costs[0]], axis=2)[reached]
    ahead = DISCOUNT * world.dense()[reached] - np.eye(STATES)[reached][:, None, :]
    rows = np.concatenate([phi, ahead], axis=2).reshape(-1, phi.shape[2] + STATES)
    basis = null_space(rows, rcond=1e-10)[: phi.shape[2]]
    left, sizes, _ = np.linalg.svd(basis)
    return left[:, : int((sizes > 1e-8).sum())]


def ratio_range(theta, directions, top, bottom) -> tuple[float, float]:
    """Least and largest top . x / bottom . x over x = theta + directions y >= 0.

    By Charnes and Cooper: scaled so that the denominator is 1; infinite where that has no bound.
    """
    size, many = len(theta), directions.shape[1]
    # Variables: x * t, y * t, t.
    equal = np.block([[np.eye(size), -directions, -theta[:, None]]])
    equal = np.vstack([equal, np.r_[bottom, np.zeros(many + 1)]])
    right = np.r_[np.zeros(size), 1.0]
    bounds = [(0, None)] * size + [(None, None)] * many + [(0, None)]
    found = []
    for sign in (1.0, -1.0):
        cost = sign * np.r_[top, np.zeros(many + 1)]
        program = linprog(cost, A_eq=equal, b_eq=right, bounds=bounds, method="highs")
        found.append(-sign * np.inf if program.status == 3 else sign * program.fun)
    return found[0], found[1]


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 8])
def test_likelihood_allows_all_that_no_choice_depends_on(seed):
    world, features, wanted, refused, price = problem(seed)
    policy = policy_of(world, features, [wanted / 0.1, price * refused / 0.1])
    visits = np.append(np.full(STATES - 1, 20_000), 0)
    seen = pairs(drawn(np.random.default_rng(seed), policy, visits))
    recovery = tacit.Likelihood(level=1.0).fit(world, features, seen, throw=False)
    known, theta = recovery.identification, recovery.parameters.estimates
    free = silent_directions(world, features)
    reward, cost = np.array([1.0, 1, 0, 0]), np.array([0.0, 0, 1, 1])
    numbers = [(np.eye(4)[j], reward, known.reward_intervals[j]) for j in (0, 1)]
    numbers += [(np.eye(4)[j], cost, known.cost_intervals[0][j - 2]) for j in (2, 3)]
    numbers.append((cost, reward, known.multiplier_intervals[0]))
    for top, bottom, ends in numbers:
        low, high = ratio_range(theta, free, top, bottom)
        assert ends[0] <= low + EXACT
        assert high <= ends[1] + EXACT
    assert holds(known.multiplier_intervals, price)


def test_ends_beside_silent_features():
    ends = Ends(
        np.array([[0.2, 0.3], [0.7, 0.8], [0.0, 0.0]]),
        [np.array([[1.0, 1.0], [0.0, 0.0]])],
        np.array([[0.31, 0.37]]),
        np.array([[2.0, 3.0]]),
    )
    quiet = [np.array([False, False, True]), np.array([False, False])]
    spent = [np.array([[2.0, 3.0], [5.0, 5.0]])]
    wide = ends.beside(quiet, spent)
    assert wide.reward.tolist() == [[0.0, 0.3], [0.0, 0.8], [0.0, 1.0]]
    assert wide.multipliers.tolist() == [[0.0, 0.37]]
    assert wide.costs[0].tolist() == ends.costs[0].tolist()
    assert ends.beside(quiet, spent, free_reward=True).reward[2].tolist() == [-1.0, 1.0]
    wide = ends.beside([np.zeros(3, bool), np.array([False, True])], spent)
    assert wide.reward.tolist() == ends.reward.tolist()
    assert wide.costs[0].tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert wide.multipliers.tolist() == [[0.31, np.inf]]
    assert wide.budgets.tolist() == [[2.0, 5.0]]


def test_a_constant_leaves_an_active_constraint_active():
    # The least price is 0 because rewards may be large beside it, not because it is idle.
    world, features, wanted, refused, price = problem(1)
    table = features.reward @ wanted - 3.0 * price * (features.costs[0] @ refused)
    policy = tacit.solve(world, tacit.Objective(table)).policy
    shown = tacit.simulate(world, policy, trajectories=20, steps=30, seed=1)
    constant = np.ones((STATES, ACTIONS, 1))
    plain = tacit.Explanation().fit(world, features, shown)
    beside = Features(np.concatenate([features.reward, constant], axis=2), features.costs)
    widened = tacit.Explanation().fit(world, beside, shown)
    kinds = [
        [one.kind for one in r.identification.findings if one.about.constraint == 0]
        for r in (plain, widened)
    ]
    assert kinds[0] == kinds[1]
    assert widened.identification.multiplier_intervals[0, 0] == 0.0
    told = [f for f in widened.identification.findings if f.kind is Kind.NOT_IDENTIFIED]
    assert any(one.about.feature == "reward feature 2" for one in told)
