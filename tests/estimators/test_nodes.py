"""Rows in a continuous world whose steps are known: values on nodes, and what the nodes cost."""

import numpy as np
import pytest

import tacit

MOVES = np.array([[0.0, 0.0], [0.15, 0.0], [0.0, 0.15], [-0.15, 0.0], [0.0, -0.15]])
TRUTH = np.array([3.0, 2.0, 2.0])
FEATURES = tacit.Features.from_functions(
    reward={
        "goal": lambda at, a: np.exp(-((at - [0.8, 0.8]) ** 2).sum(axis=1) / 0.15),
        "east": lambda at, a: at[:, 0],
    },
    costs=[{"hill": lambda at, a: np.exp(-((at - [0.5, 0.5]) ** 2).sum(axis=1) / 0.1)}],
)


def square(nodes, width=1.0, discount=0.8):
    """The unit square in units of `width`."""
    return tacit.worlds.interpolated(
        lambda at, action: at + width * MOVES[action],
        [(0.0, width), (0.0, width)],
        actions=5,
        nodes=nodes,
        discount=discount,
        noise=[0.05 * width, 0.05 * width],
        columns=("east", "north"),
    )


@pytest.fixture(scope="module")
def walks():
    """Steps of a noisy walker whose values are those of very many nodes."""
    random, world = np.random.default_rng(1), square(49)
    maps = FEATURES.fitted(_rows(np.random.default_rng(0).random((5, 2)))).on(world.nodes.points, 5)
    paid = maps.reward @ TRUTH[:2] - maps.costs[0] @ TRUTH[2:]
    values = np.zeros(world.nodes.size)
    for _ in range(150):
        values = np.logaddexp.reduce(paid + 0.8 * world.mdp.expected_next(values), axis=1)
    here, seen, taken = random.random((60, 2)), [], []
    for _ in range(25):
        worth = 0.8 * (world.moves(here) @ values).reshape(-1, 5)
        chances = np.exp(worth - np.logaddexp.reduce(worth, axis=1)[:, None]).cumsum(axis=1)
        actions = (random.random((60, 1)) > chances).sum(axis=1).clip(0, 4)
        seen.append(here)
        taken.append(actions)
        here = np.clip(here + MOVES[actions] + 0.05 * random.standard_normal((60, 2)), 0, 1)
    rows, actions = np.stack([*seen, here], axis=1), np.stack(taken, axis=1)
    return [(rows[e], actions[e]) for e in range(60)]


def _rows(points):
    pairs = [(points, np.arange(len(points) - 1) % 5)]
    return tacit.Measurements.from_trajectories(pairs, columns=("east", "north"))


def measured(walks, width=1.0):
    pairs = [(width * rows, actions) for rows, actions in walks]
    return tacit.Measurements.from_trajectories(pairs, columns=("east", "north"))


def test_the_truth_is_within_the_intervals_and_the_nodes_say_what_they_cost(walks):
    found = tacit.recover(square(17), FEATURES, measured(walks))
    low, high = found.parameters.at(0.99).intervals.T
    assert ((low < TRUTH) & (high > TRUTH)).all()
    assert found.identification.active.tolist() == [True]
    error = found.discretisation
    assert error.settled
    assert error.nodes == (17, 17)
    assert (error.errors < found.parameters.standard_errors).all()
    said = [one for one in found.identification.findings if "interpolated between" in one]
    assert len(said) == 1
    policy = found.policy([[0.1, 0.1], [0.75, 0.8]])
    np.testing.assert_allclose(policy.sum(axis=1), 1.0)
    assert policy[0, 1] + policy[0, 2] > 0.5  # towards the goal


def test_nodes_that_do_not_settle_are_refused(walks):
    steep = tacit.Features.from_functions(
        reward={"spot": lambda at, a: np.exp(-((at - [0.8, 0.8]) ** 2).sum(axis=1) / 0.02)}
    )
    with pytest.raises(tacit.NotConverged, match="nodes are too few"):
        tacit.recover(square(17), steep, measured(walks))
    found = tacit.recover(square(17), steep, measured(walks), throw=False)
    assert found.status.name == "NOT_CONVERGED"
    assert not found.discretisation.settled


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.T[::-1].T, "coordinates east, north"),
        (lambda rows: np.where(rows > 0.5, np.nan, rows), "must be measured"),
    ],
)
def test_rows_of_another_world_are_refused(walks, change, said):
    columns = ("north", "east") if "east, north" in said else ("east", "north")
    pairs = [(change(rows), actions) for rows, actions in walks]
    rows = tacit.Measurements.from_trajectories(pairs, columns=columns)
    with pytest.raises(tacit.InvalidModel, match=said):
        tacit.recover(square(9), FEATURES, rows)
