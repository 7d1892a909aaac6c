"""How individuals differ, of tables and of trips, beside a truth."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tacit
from tacit.errors import InvalidModel
from travellers import GOALS, TRUTH, lengths, streets, travelled

MEAN, SPREAD = np.array([1.0, 0.5, 0.8]), np.array([0.7, 0.0, 0.3])


def world():
    rng = np.random.default_rng(5)
    moves, phi = rng.dirichlet(np.ones(10), (10, 3)), rng.normal(size=(10, 3, 2))
    cost = 2.0 * rng.uniform(size=(10, 3, 1))
    mdp = tacit.MDP(moves, np.ones(10) / 10, 0.7)
    return mdp, tacit.Features(phi, [cost], ["a", "b"], [["c"]])


def herd(many, seed=0, steps=20, trajectories=8, spread=SPREAD):
    """The recovery of so many animals, and their own coefficients."""
    mdp, features = world()
    rng, parts, own = np.random.default_rng(seed), [], []
    for one in range(many):
        theta = MEAN + spread * rng.normal(size=3)
        table = features.reward @ theta[:2] - features.costs[0][..., 0] * theta[2]
        policy = tacit.SoftDual(1.0).solve(mdp, tacit.Objective(table)).policy
        about = {"trajectories": trajectories, "steps": steps, "seed": 1000 * seed + one}
        parts.append(tacit.simulate(mdp, policy, **about))
        own.append(theta)
    seen = parts[0]
    for part in parts[1:]:
        seen = seen + part
    who = np.repeat([f"animal {g:02d}" for g in range(many)], trajectories)
    seen = replace(seen, individuals=who)
    found = tacit.recover(mdp, features, seen, estimator=tacit.Likelihood(level=1.0))
    return found, np.array(own)


@pytest.fixture(scope="module")
def found():
    recovery, own = herd(20)
    return recovery, own, tacit.checks.individuals(recovery)


def test_means_spreads_and_individuals_are_near_the_truth(found):
    _, own, told = found
    assert told.converged
    assert told.individuals[3] == "animal 03"
    assert (np.abs(told.means - MEAN) < 3.0 * told.standard_errors).all()
    low, high = tacit.checks.individuals(found[0], confidence=0.99).spread_intervals.T
    assert (low <= SPREAD).all()
    assert (high >= SPREAD).all()
    assert told.spread_p_values[0] < 0.001 < 0.05 < told.spread_p_values[1]
    assert np.corrcoef(told.estimates[:, 0], own[:, 0])[0, 1] > 0.8
    inside = (told.estimate_intervals[..., 0] <= own) & (own <= told.estimate_intervals[..., 1])
    assert inside.mean() > 0.85
    # 20 individuals tell a mean to 19 degrees of freedom at most where they differ.
    assert 5.0 < told.degrees[0] < 22.0


def test_estimates_are_shrunken_to_the_mean(found):
    recovery, _, told = found
    alone = []
    for who in told.individuals:
        mine = recovery.origin.demonstrations.individuals == who
        seen = recovery.origin.demonstrations.select(np.flatnonzero(mine))
        options = tacit.Likelihood(level=1.0, free_reward=True)
        one = tacit.recover(*world(), seen, estimator=options, throw=False)
        alone.append(one.parameters.estimates[0])
    apart = np.array(alone) - told.means[0]
    assert np.std(told.estimates[:, 0]) < np.std(alone)
    clear = np.abs(apart) > 0.5
    assert (np.sign(told.estimates[clear, 0] - told.means[0]) == np.sign(apart[clear])).all()


def test_one_coefficient_may_vary_alone(found):
    recovery, _, told = found
    one = tacit.checks.individuals(recovery, vary=["a"])
    assert one.varying.tolist() == [True, False, False]
    assert_allclose(one.spreads[0], told.spreads[0], rtol=0.2)
    assert np.ptp(one.estimates[:, 2]) == 0.0
    assert np.isnan(one.spread_intervals[2]).all()


def test_tables_and_picture_hold_the_numbers(found):
    _, _, told = found
    frame = told.frame()
    assert frame["name"].to_list() == ["a", "b", "c"]
    assert frame["mean"].to_list() == pytest.approx(told.means)
    assert len(told.individual_frame()) == 60
    axes = tacit.plot.individuals(told, "a")
    dots = next(line for line in axes.lines if line.get_marker() == "o")
    assert_allclose(dots.get_xdata(), np.sort(told.estimates[:, 0]))
    table = tacit.plot.individuals.table(told, "a")
    assert table["estimate"].to_list() == pytest.approx(np.sort(told.estimates[:, 0]))
    assert "20 individuals" in repr(told)


def test_travellers_differ_too():
    town, features = streets(), lengths(streets())
    trips, who = [], []
    for one in range(8):
        theta = TRUTH * np.array([1.0 + 0.4 * (one % 2), 1.0, 1.0])
        trips.append(travelled(town, features.reward @ theta, 25, GOALS, seed=one))
        who += [f"driver {one}"] * 25
    seen = trips[0]
    for part in trips[1:]:
        seen = seen + part
    seen = replace(seen, individuals=np.array(who))
    task = tacit.Trips(town, features, seen, discount=1.0)
    recovery = tacit.recover(task, estimator=tacit.Likelihood(free_reward=True))
    told = tacit.checks.individuals(recovery, vary=[recovery.parameters.names[0]])
    assert told.converged
    assert (np.abs(told.means - TRUTH * [1.2, 1, 1]) < 4 * told.standard_errors).all()
    odd = np.array([int(name.split()[1]) % 2 == 1 for name in told.individuals])
    assert told.estimates[odd, 0].mean() < told.estimates[~odd, 0].mean()


def test_what_cannot_be_told_is_one_line(found):
    recovery, _, told = found
    few, _ = herd(4)
    for ask, words in (
        (lambda: tacit.checks.individuals(few), "vary="),
        (lambda: tacit.checks.individuals(recovery, vary=["d"]), "no coefficient is named 'd'"),
        (lambda: tacit.checks.individuals(recovery, confidence=1.0), "confidence"),
        (lambda: tacit.checks.individuals(replace(recovery, origin=None)), "with_origin"),
        (lambda: tacit.plot.individuals(told, "d"), "no coefficient is named"),
    ):
        with pytest.raises(InvalidModel, match=words) as caught:
            ask()
        assert "\n" not in str(caught.value)
    one = tacit.checks.individuals(few, vary=["a"])
    assert any("too few for a spread" in line for line in one.findings)
