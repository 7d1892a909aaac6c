"""Steps as a likelihood: what is said of many of them without a look at each."""

from typing import Any, cast

import numpy as np
import pytest

import tacit
from tacit.inverse.task import Task
from tacit.likelihood import steps
from tacit.likelihood.start import maximum


def test_effective_events_are_no_fewer_than_the_bound_for_many_steps(monkeypatch):
    world = tacit.worlds.hill_grid(seed=0)
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.1))
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=50, steps=40, seed=0)
    options, task = tacit.Likelihood(), Task(world.mdp, world.features, seen)
    fit = maximum(task.chain(options), options)
    (plain,) = cast("Any", fit.evidence([seen]))
    assert plain.fewest_events == 0.0  # of few steps all are counted
    moves = np.random.default_rng(0).normal(size=(200, len(plain.fisher)))
    exact = [plain.events(move) for move in moves]
    monkeypatch.setattr(steps, "MANY_SCORES", 0)
    (bounded,) = cast("Any", fit.evidence([seen]))
    assert 0.0 < bounded.fewest_events <= min(exact)
    monkeypatch.setattr(steps, "ENOUGH_EVENTS", 0.0)
    assert bounded.events(moves[0]) == pytest.approx(bounded.fewest_events)
