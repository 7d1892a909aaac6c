"""Nodes: interpolation is exact for multilinear functions, and a Markov chain."""

import numpy as np
import pytest

from tacit.errors import InvalidModel
from tacit.model.nodes import Interpolated

BOX = [(0.0, 1.0), (-2.0, 2.0)]


def world(**changes):
    def step(at, action):
        return at + (0.1 if action else -0.1)

    asked = {"actions": 2, "nodes": (5, 9), "discount": 0.9, "noise": [0.02, 0.0]} | changes
    return Interpolated.of(step, BOX, **asked)


def test_weights_interpolate_multilinear_functions_exactly():
    nodes, random = world().nodes, np.random.default_rng(0)
    points = random.uniform([0, -2], [1, 2], (50, 2))

    def function(at):
        return 1 + 2 * at[:, 0] - at[:, 1] + 3 * at[:, 0] * at[:, 1]

    weights = nodes.weights(points)
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose(weights @ function(nodes.points), function(points))


def test_what_leads_out_of_the_box_stays_at_its_edge():
    weights = world().nodes.weights(np.array([[2.0, -7.0]]))
    assert weights.toarray()[0, 8 * 0 + 9 * 4] == 1.0  # (1, -2)


def test_rows_lead_to_nodes_from_their_own_places():
    rows = np.array([[0.31, 0.5], [0.77, -1.3]])
    moves = world().moves(rows)
    assert moves.shape == (4, 45)
    np.testing.assert_allclose(moves[1] @ world().nodes.points, [0.41, 0.6])
    np.testing.assert_allclose(moves[2] @ world().nodes.points, [0.67, -1.4])


def test_episodes_end_where_the_world_says():
    mdp = world(ends=lambda at: at[:, 0] >= 1.0, discount=1.0, noise=None).mdp
    assert mdp.ends.sum() == 9


def test_every_other_node_has_the_same_edges():
    coarser = world().coarser.nodes
    assert [len(axis) for axis in coarser.axes] == [3, 5]
    assert coarser.axes[1][-1] == 2.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": 10}, r"4 k \+ 1"),
        ({"nodes": (5, 5, 5)}, "one number, or 2"),
        ({"noise": [0.1]}, "2 standard deviations"),
        ({"noise": ([[0.0, 0.0]], [0.4])}, "must be a distribution"),
        ({"columns": ["x"]}, "2 names"),
    ],
)
def test_bad_worlds_are_refused(changes, said):
    with pytest.raises(InvalidModel, match=said):
        world(**changes)


def test_a_step_of_the_wrong_shape_is_refused():
    flat = Interpolated.of(lambda at, a: at[:, 0], BOX, actions=1, nodes=5, discount=0.5)
    with pytest.raises(InvalidModel, match="one row an observation"):
        flat.mdp  # noqa: B018
