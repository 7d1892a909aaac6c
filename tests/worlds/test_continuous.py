"""Continuous worlds from a function or from Gymnasium."""

import numpy as np
import pytest

import tacit


def test_mountain_car_is_stepped_from_any_node():
    pytest.importorskip("gymnasium")
    world = tacit.worlds.interpolated(
        "MountainCar-v0", nodes=9, discount=0.95, ends=lambda at: at[:, 0] >= 0.5, repeat=5
    )
    assert (world.nodes.size, world.actions) == (81, 3)
    points = world.nodes.points
    speeds = (world.moves(points) @ points)[:, 1].reshape(81, 3)
    far = np.abs(points[:, 0] + 0.3) < 0.4  # from both walls
    assert (speeds[far, 2] >= speeds[far, 0]).all()  # to the right against to the left


def test_an_environment_that_ends_must_say_where():
    pytest.importorskip("gymnasium")
    with pytest.raises(tacit.InvalidModel, match="say where"):
        tacit.worlds.interpolated("MountainCar-v0", nodes=9, discount=0.95)


def test_an_environment_without_a_state_to_set_is_refused():
    pytest.importorskip("gymnasium")
    with pytest.raises(tacit.InvalidModel, match="attribute `state`"):
        tacit.worlds.interpolated("Pendulum-v1", nodes=9, discount=0.95)


def test_a_step_needs_a_box_and_actions():
    with pytest.raises(tacit.InvalidModel, match="needs box="):
        tacit.worlds.interpolated(lambda at, action: np.asarray(at), discount=0.9)
