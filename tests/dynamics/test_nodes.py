"""Worlds on nodes: the same as a table whose states are the nodes and rows nobody enters."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import tacit
from tacit.dynamics.nodes import OnNodes
from tacit.likelihood.dynamic import DynamicsChain
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design
from tacit.model.nodes import Interpolated

ROWS, ACTIONS = 40, 2


def nodes(ends, count):
    return Interpolated.of(
        lambda at, action: at + (0.15 if action else -0.1),
        [(0.0, 1.0), (0.0, 1.0)],
        actions=ACTIONS,
        nodes=count,
        discount=0.9,
        noise=[0.05, 0.0],
        ends=(lambda at: at[:, 0] >= 1.0) if ends else None,
    )


@pytest.mark.parametrize(("ends", "count"), [(False, 5), (True, 5), (True, 17)])
def test_it_is_the_table_of_nodes_and_rows(ends, count):
    random, world = np.random.default_rng(0), nodes(ends, count)
    rows = random.random((ROWS, 2))
    dynamics, size = OnNodes(world, rows), world.nodes.size
    sites = size + ROWS
    moves = np.zeros((sites, ACTIONS, sites))
    moves[ROWS:, :, ROWS:] = world.mdp.sparse().toarray().reshape(size, ACTIONS, size)
    moves[:ROWS, :, ROWS:] = world.moves(rows).toarray().reshape(ROWS, ACTIONS, size)
    there = dynamics.available
    start = np.where(np.arange(sites) < ROWS, 1.0 / ROWS, 0.0)
    mdp = tacit.MDP(moves, start, 0.9, available=there)
    places = np.concatenate([rows, world.nodes.points])
    features = tacit.Features(places, [np.exp(-places[:, :1] * 4)])
    counts = np.zeros((sites, ACTIONS))
    counts[np.arange(ROWS), random.integers(ACTIONS, size=ROWS)] = 1.0
    space = Design.of(mdp, features)
    seen = np.zeros((ROWS, sites * ACTIONS))
    seen[np.arange(ROWS), np.flatnonzero(counts.ravel())] = 1.0
    chain = DynamicsChain(dynamics, space, csr_array(seen), start[None])
    table = StepsChain.counted(mdp, space, counts)
    x = np.array([1.5, -0.5, 0.8])
    here, there = chain.at(x, chain.blank(x), 1e-12), table.at(x, table.blank(x), 1e-12)
    assert here.loss == pytest.approx(there.loss, rel=1e-10)
    np.testing.assert_allclose(here.gradient, there.gradient, atol=1e-8)
    step = 1e-5 * np.eye(3)
    bends = [chain.at(x + e, here, 0).gradient - chain.at(x - e, here, 0).gradient for e in step]
    np.testing.assert_allclose(here.curvature, np.array(bends) / 2e-5, atol=1e-6)
    low, high = np.full(3, -1e5), np.full(3, 1e5)
    ends_at = [
        LikelihoodProblem.of(one, low, high).minimum(np.zeros(3), tolerance=1e-10, max_steps=100)
        for one in (chain, table)
    ]
    np.testing.assert_allclose(ends_at[0].z, ends_at[1].z, atol=1e-6)
