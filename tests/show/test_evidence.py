"""The picture and the page of a watch."""

import numpy as np
import pytest

import experts
import tacit
from tacit.show.evidence import evidence_document
from tacit.show.html import render


@pytest.fixture(scope="module")
def watch():
    """A watch of a demonstrator whose price doubles."""
    world, theta = experts.tangle(), [np.array([2.0, 1.0, 0.5])] + 2 * [np.array([1.0, 0.5, 0.5])]

    def steps(theta, seed):
        policy = experts.policy_of(world.mdp, world.features, theta)
        return tacit.simulate(world.mdp, policy, trajectories=10, steps=20, seed=seed)

    seen = tacit.simulate(
        world.mdp,
        experts.policy_of(world.mdp, world.features, theta),
        trajectories=100,
        steps=20,
        seed=0,
    )
    known = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())
    found = tacit.Watch(known)
    for seed in range(1, 4):
        found.update(steps(theta, seed))
    for seed in range(4, 12):
        found.update(steps([theta[0], 3.0 * theta[1], theta[2]], seed))
    return found


def test_the_picture_is_of_the_history(watch):
    axes = tacit.plot.evidence(watch)
    steps, evidence = axes.lines[0].get_data()
    assert np.array_equal(steps, watch.history[:, 0])
    assert np.log10(evidence) == pytest.approx(watch.history[:, 1])
    assert axes.get_yscale() == "log"
    levels = [line.get_ydata()[0] for line in axes.lines[1:]]
    assert watch.run_length in levels


def test_the_page_says_the_level_and_reads_itself_anew(watch):
    page = render(evidence_document(watch, title="A <courier>", refresh=7))
    assert '<meta http-equiv="refresh" content="7">' in page
    assert "A &lt;courier&gt;" in page
    assert watch.level == "alarm"
    assert f"after about {watch.since} steps" in page
    fresh = tacit.Watch(watch.recovery)
    page = render(evidence_document(fresh, title="Fresh"))
    assert 'http-equiv="refresh"' not in page
    assert "No batch of steps has come yet." in page
