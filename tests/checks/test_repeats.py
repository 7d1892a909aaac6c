"""How often intervals hold, in data simulated at the fit."""

import numpy as np
import pytest

import experts
import tacit


@pytest.fixture(scope="module")
def found():
    world = tacit.worlds.random(3, states=8, actions=3, constraints=1, features=2, tightness=0.5)
    theta = [np.array([2.5, 1.5]), np.array([1.5, 0.5])]
    policy = experts.policy_of(world.mdp, world.features, theta)
    seen = tacit.simulate(world.mdp, policy, trajectories=30, steps=20, seed=0)
    return tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())


def test_intervals_hold_about_as_often_as_they_say(found):
    result = tacit.checks.calibration(found, draws=40)
    assert result.names == (*found.parameters.names, "price 0")
    assert (result.repeats == 40).all()
    assert not result.too_low.any()
    # 40 draws of .95: below .82 is one in a thousand.
    assert (result.shares >= 0.82).all()
    assert "In 40 simulated repeats at this fit the 95% intervals held" in result.sentences[0]


def test_narrow_intervals_are_told(found):
    result = tacit.checks.Calibration(
        names=("a", "b"),
        shares=np.array([0.95, 0.7]),
        repeats=np.array([100, 100]),
        draws=100,
        confidence=0.95,
    )
    assert result.too_low.tolist() == [False, True]
    assert result.sentences[0].about.feature == "b"
    assert "too narrow" in result.sentences[0]


def test_calibration_needs_what_was_fitted(found, tmp_path):
    found.save(tmp_path)
    with pytest.raises(tacit.InvalidModel, match="what it was made from"):
        tacit.checks.calibration(tacit.Recovery.load(tmp_path))
