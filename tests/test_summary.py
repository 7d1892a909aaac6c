"""The page a person reads first, on days when little is known."""

import re

import numpy as np
import pytest

import tacit
from experts import grid
from tacit import Demonstrations

STEP = Demonstrations.from_trajectories([([0], [1])])
ESTIMATORS = [
    None,
    tacit.Likelihood(),
    tacit.Convex(),
    tacit.Explanation(),
    tacit.families.RewardOnly(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_one_step_is_summarised_without_nan_or_odd_numbers(estimator):
    world = grid()
    recovery = tacit.recover(world.mdp, world.features, STEP, estimator=estimator, throw=False)
    page = " ".join(recovery.summary().split())
    assert not re.search(r"\bnan\b", page)
    assert max((float(share) for share in re.findall(r"([\d.]+) ?%", page)), default=0) <= 100
    assert not re.search(r"(?<![\d.,])1 (steps|states|actions|episodes|moves|trajectories)\b", page)


def test_a_reward_that_is_not_identified_is_said_not_shown():
    world = grid()
    few = Demonstrations.from_trajectories([([0, 0, 0], [0, 1, 0])])
    recovery = tacit.recover(world.mdp, world.features, few, estimator=tacit.Convex(), throw=False)
    assert np.isnan(recovery.reward_weights).all(), "the case at hand"
    page = " ".join(recovery.summary().split())
    assert "It wants: nothing these demonstrations show" in page
    assert "times its noise" in page
    assert "rewards above" not in page


def test_a_gap_beyond_all_expectations_is_a_multiple():
    world = grid()
    recovery = tacit.recover(world.mdp, world.features, STEP, throw=False)
    assert recovery.certificate.feature_gap > 1
    page = " ".join(recovery.summary().split())
    assert f"{recovery.certificate.feature_gap:.3g} times its size" in page
