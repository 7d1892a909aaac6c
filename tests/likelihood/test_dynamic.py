"""A new kind of world is one class: finite horizons against the same world laid out in time."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import tacit
from derivatives import check_derivatives
from tacit.data.units import Units
from tacit.dynamics.layered import Layered
from tacit.inference.evidence import evidence_of
from tacit.likelihood.dynamic import DynamicsChain
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design

STATES, ACTIONS, TIMES = 6, 3, 7


@pytest.fixture(scope="module", params=[False, True], ids=["no ends", "ends"])
def world(request):
    rng = np.random.default_rng(3)
    moves = rng.dirichlet(np.full(STATES, 0.4), size=(STATES, ACTIONS))
    there = np.ones((STATES, ACTIONS), bool)
    there[1, 2] = False
    if request.param:
        there[STATES - 1] = False
    mdp = tacit.MDP(moves, np.full(STATES, 1 / STATES), 0.95, available=there)
    reward = rng.normal(size=(STATES, 2))
    cost = rng.uniform(size=(STATES, 1))
    return mdp, tacit.Features(reward, [cost])


def episodes(mdp, policy, number=80):
    """Sparse [E, T * S * A] of episodes that begin anywhere but in ends, and the same as steps."""
    rng, dense = np.random.default_rng(0), mdp.dense()
    rows = np.zeros((number, TIMES, STATES, ACTIONS))
    for row in rows:
        state = rng.choice(np.flatnonzero(~mdp.ends))
        for t in range(TIMES):
            if mdp.ends[state]:
                break
            action = rng.choice(ACTIONS, p=policy[t, state])
            row[t, state, action] += 1
            state = rng.choice(STATES, p=dense[state, action])
    return csr_array(rows.reshape(number, -1))


@pytest.fixture(scope="module")
def chain(world):
    mdp, features = world
    space, layered = Design.of(mdp, features), Layered(mdp, TIMES)
    solved = layered.solve(np.tensordot([2.0, 1.0, 1.5], space.tables, 1), None)
    starts = np.zeros((TIMES, STATES))
    starts[0] = ~mdp.ends / (~mdp.ends).sum()
    return DynamicsChain(layered, space, episodes(mdp, solved.policy), starts)


def laid_out(mdp, features, counts):
    """The same world with time as a part of the state, which ends after the last step."""
    size = TIMES * STATES + 1
    moves, there = np.zeros((size, ACTIONS, size)), np.zeros((size, ACTIONS), bool)
    for t in range(TIMES):
        here = slice(t * STATES, (t + 1) * STATES)
        later = slice((t + 1) * STATES, (t + 2) * STATES)
        moves[here, :, later if t < TIMES - 1 else slice(0, 0)] = (
            mdp.dense() if t < TIMES - 1 else np.zeros((STATES, ACTIONS, 0))
        )
        there[here] = mdp.available
    last = slice((TIMES - 1) * STATES, TIMES * STATES)
    arrived = mdp.dense()[:, :, mdp.ends]
    moves[last, :, -1] = 1.0 - arrived.sum(axis=2)
    if mdp.ends.any():  # what ends pay they pay after the last step, too
        extra = np.zeros((size + 1, ACTIONS, size + 1))
        extra[:size, :, :size] = moves
        extra[last, :, size] = arrived.sum(axis=2)
        moves, there = extra, np.vstack([there, np.zeros((1, ACTIONS), bool)])
    tail = len(moves) - TIMES * STATES
    initial = np.zeros(len(moves))
    initial[:STATES] = mdp.initial
    world = tacit.MDP(moves, initial, mdp.discount, available=there)

    def table(map_):
        pays = np.zeros((tail, map_.shape[1]))
        if mdp.ends.any():
            pays[-1] = map_[mdp.ends][0]
        return np.concatenate([np.tile(map_, (TIMES, 1)), pays])

    wide = tacit.Features(table(features.reward), [table(features.costs[0])])
    flat = np.zeros((len(moves), ACTIONS))
    flat[: TIMES * STATES] = counts.reshape(-1, ACTIONS)
    return StepsChain.counted(world, Design.of(world, wide), flat)


def fitted(chain):
    size = chain.space.size
    problem = LikelihoodProblem.of(chain, np.zeros(size), np.full(size, 1e5))
    return problem.minimum(np.zeros(size), tolerance=1e-10, max_steps=100)


def test_derivatives_are_those_of_differences(chain):
    check_derivatives(chain, np.array([1.0, 0.5, 0.7]))


def test_a_finite_horizon_is_a_world_laid_out_in_time(world, chain):
    mdp, features = world
    ours, theirs = fitted(chain), fitted(laid_out(mdp, features, chain.counts))
    assert ours.converged
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-12)
    theta = theirs.z / theirs.problem.chains[0].space.scales
    np.testing.assert_allclose(ours.z / chain.space.scales, theta, rtol=1e-7)


def test_errors_and_prices_come_from_the_one_inference(chain):
    fit = fitted(chain)
    evidence = evidence_of([Units.alone(80)], fit, 100, counted=False)
    fisher = evidence.chains[0].fisher
    assert evidence.errors.clustered
    assert (np.diagonal(evidence.errors.covariance) >= np.diagonal(np.linalg.inv(fisher))).all()
    gauge = evidence.gauge()
    assert gauge.budgets[0] == pytest.approx(
        -(evidence.chains[0].spent * chain.space.scales)[2], rel=1e-12
    )
