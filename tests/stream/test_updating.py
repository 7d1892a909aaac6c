"""Recoveries brought up to date by sums, beside refits to all rows."""

from dataclasses import replace

import numpy as np
import pytest

import tacit
import travellers
from tacit.data.tally import Tally

KEPT = ("reward_weights", "multipliers", "budgets", "temperature")


@pytest.fixture(scope="module")
def place():
    return tacit.worlds.hill_grid(0, size=4)


def walks(place, seed, *, objective=None, steps=100):
    wanted = place.truth if objective is None else objective
    solution = tacit.solve(place.mdp, wanted, solver=tacit.SoftDual(temperature=0.3))
    return tacit.simulate(place.mdp, solution.policy, trajectories=5, steps=steps, seed=seed)


def refit(place, seen):
    return tacit.recover(place.mdp, place.features, seen, estimator=tacit.Likelihood())


def same(one, other):
    """Whether everything that sums tell is the same."""
    for name in KEPT:
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-6, nan_ok=True)
    for name in ("estimates", "standard_errors", "intervals", "p_values"):
        found, wanted = (getattr(r.parameters, name) for r in (one, other))
        assert found == pytest.approx(wanted, rel=1e-5, abs=1e-7, nan_ok=True)
    known, wanted = one.identification, other.identification
    assert list(known.active) == list(wanted.active)
    assert known.p_values == pytest.approx(wanted.p_values, abs=1e-6)
    assert known.multiplier_intervals == pytest.approx(wanted.multiplier_intervals, rel=1e-5)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-10)


def test_an_update_is_the_refit_to_merged_sums(place):
    first, second = walks(place, 0), walks(place, 1)
    found = refit(place, first).updated(second)
    tally = Tally.of(place.mdp, first + second)
    same(found, refit(place, tally))
    assert np.array_equal(found.origin.demonstrations.counts, tally.counts)


def test_a_constraint_enters_and_leaves(place):
    free = tacit.Objective(place.truth.reward, place.truth.costs, [1e6])
    solution = tacit.solve(place.mdp, free, solver=tacit.SoftDual(temperature=0.3))
    loose = [
        tacit.simulate(place.mdp, solution.policy, trajectories=20, steps=100, seed=seed)
        for seed in range(2)
    ]
    found = refit(place, loose[0])
    assert not found.identification.active[0]
    for seen in (walks(place, 2, steps=400), walks(place, 3, steps=400)):
        found = found.updated(seen)
    assert found.identification.active[0]
    same(found, refit(place, found.origin.demonstrations))
    found = found.updated(loose[1], forget=40)  # all else is forgotten
    assert not found.identification.active[0]


def test_what_needs_trajectories_is_of_the_last_full_pass(place):
    whole = refit(place, walks(place, 0))
    found = whole.updated(walks(place, 1), keep_rows=True).updated(walks(place, 2), keep_rows=True)
    last = found.origin.last_pass
    assert (last.steps, last.date) == (whole.observed_steps, whole.origin.date)
    assert last.p_value == whole.goodness.p_value
    assert any(one.about.number == last.steps for one in found.identification.findings)
    again = found.refresh()
    seen = walks(place, 0) + walks(place, 1) + walks(place, 2)
    assert again.goodness.p_value == pytest.approx(refit(place, seen).goodness.p_value)
    assert again.origin.last_pass is None
    with pytest.raises(tacit.InvalidDemonstrations, match="only sums were kept"):
        whole.updated(walks(place, 1)).refresh()


def test_sums_alone_say_that_no_pass_was_made(place):
    found = refit(place, Tally.of(place.mdp, walks(place, 0))).updated(walks(place, 1))
    assert found.origin.last_pass is None
    assert any(one.about.number == 0 for one in found.identification.findings)


def test_half_of_an_old_step_is_left_after_a_half_life(place):
    first, second = walks(place, 0), walks(place, 1)
    found = refit(place, first).updated(second, forget=second.steps)
    weights = 0.5 * first.counts(place.mdp) + second.counts(place.mdp)
    assert found.origin.demonstrations.counts == pytest.approx(weights)
    later = found.updated(second)  # goes on forgetting
    assert later.origin.demonstrations.counts.sum() == pytest.approx(
        0.5 * weights.sum() + second.steps
    )
    with pytest.raises(tacit.InvalidModel, match="keep_rows"):
        found.updated(second, keep_rows=True)
    with pytest.raises(tacit.InvalidModel, match="forget"):
        found.updated(second, forget=0.0)


def test_a_loaded_recovery_is_told_what_it_was_made_from(place, tmp_path):
    whole = refit(place, walks(place, 0))
    whole.save(tmp_path)
    loaded = tacit.Recovery.load(tmp_path)
    with pytest.raises(tacit.InvalidModel, match="does not know"):
        loaded.updated(walks(place, 1))
    told = loaded.with_origin(whole)
    same(told.updated(walks(place, 1)), whole.updated(walks(place, 1)))
    other = replace(whole.origin, demonstrations=walks(place, 1, steps=50))
    with pytest.raises(tacit.InvalidDemonstrations, match="steps of the recovery"):
        loaded.with_origin(other)


def test_other_worlds_and_weights_are_refused(place):
    whole = refit(place, walks(place, 0))
    larger = walks(tacit.worlds.hill_grid(0, size=5), 1)
    with pytest.raises(tacit.InvalidDemonstrations, match="state"):
        whole.updated(larger)
    weighted = replace(walks(place, 1), weights=np.full(500, 2.0))
    with pytest.raises(tacit.InvalidDemonstrations, match="sampling weights"):
        whole.updated(weighted)


def test_other_estimators_are_brought_up_to_date_too(place):
    whole = tacit.recover(place.mdp, place.features, walks(place, 0), estimator=tacit.Convex())
    found = whole.updated(walks(place, 1))
    seen = walks(place, 0) + walks(place, 1)
    wanted = tacit.recover(place.mdp, place.features, seen, estimator=tacit.Convex())
    assert found.reward_weights == pytest.approx(wanted.reward_weights, abs=1e-6)


def test_tasks_are_brought_up_to_date_together(place):
    worlds = [replace(place.mdp, discount=discount) for discount in (0.8, 0.9)]
    first, more = ([walks(place, seed + e, steps=200) for e in range(2)] for seed in (0, 10))

    def tasks(seen):
        return [tacit.Task(w, place.features, part) for w, part in zip(worlds, seen, strict=True)]

    joint = tacit.recover(tasks(first), throw=False)
    found = joint.updated(more, keep_rows=True)
    every = [one + other for one, other in zip(first, more, strict=True)]
    wanted = tacit.recover(tasks(every), throw=False)
    assert found.parameters.estimates == pytest.approx(wanted.parameters.estimates, abs=1e-6)
    assert found.agreement == pytest.approx(wanted.agreement, abs=1e-6, nan_ok=True)
    again = found.refresh()
    assert again.goodness.p_value == pytest.approx(wanted.goodness.p_value)
    with pytest.raises(tacit.InvalidDemonstrations, match="one part a task"):
        joint.updated(more[:1])
    with pytest.raises(tacit.InvalidModel, match="together"):
        joint.recoveries[0].updated(more[0])


def test_trips_are_brought_up_to_date_by_their_rows():
    mdp = travellers.streets()
    features = travellers.lengths(mdp)
    table = np.asarray(features.reward) @ travellers.TRUTH
    seen = travellers.travelled(mdp, table, 60, travellers.GOALS)
    trips = tacit.Trips(mdp, features, seen, discount=1.0)
    number = np.arange(trips.demonstrations.episodes)
    first, more = trips.select(number % 2 == 0), trips.select(number % 2 == 1)
    found = tacit.recover(first).updated(more.demonstrations)
    wanted = tacit.recover(trips)
    assert found.parameters.estimates == pytest.approx(wanted.parameters.estimates, rel=1e-5)
    assert found.refresh() is found
    with pytest.raises(tacit.InvalidModel, match="weigh alike"):
        tacit.recover(first).updated(more.demonstrations, forget=100)
