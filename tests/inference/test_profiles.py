"""Intervals that hold: where nothing informs, beside idle constraints, and whatever the size."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize
from scipy.stats import binom

import tacit
from experts import few_successors
from tacit.likelihood import products, steps


def within(intervals, values, margin=0.0):
    """Whether each interval [n, 2] holds its value [n], up to a share of its width."""
    room = margin * np.where(np.isfinite(intervals).all(axis=1), np.ptp(intervals, axis=1), 0.0)
    return (intervals[:, 0] - room <= values) & (values <= intervals[:, 1] + room)


def at_most(misses, draws, rate):
    """Whether so many misses are not significantly more than the rate allows, at 1 %."""
    return binom.sf(misses - 1, draws, rate) >= 0.01


# --- A cliff from which nobody falls: nothing tells the scale of the reward.


def cliff(seed, *, price=2.0, walks=60, length=200):
    """CliffWalking with its own reward (a fall costs 100) and a price on the cells at the edge."""
    world = tacit.worlds.gymnasium("CliffWalking-v1", discount=0.95)
    mdp = world.mdp
    edge = (np.arange(mdp.states) // 12 == 2).astype(float)[:, None]
    features = tacit.Features(world.features.reward, [edge])
    objective = tacit.Objective(features.reward[..., 0] - price * edge)
    expert = tacit.solve(mdp, objective, solver=tacit.SoftDual(temperature=1.0))
    seen = tacit.simulate(mdp, expert.policy, trajectories=walks, steps=length, seed=seed)
    return mdp, features, seen


def weighted(seen):
    """The same steps with sampling weights of 1, which make all errors robust ones."""
    return replace(seen, weights=np.ones(seen.steps))


@pytest.mark.parametrize("robust", [False, True])
def test_a_cliff_that_nobody_falls_from_leaves_the_truth_inside(robust):
    held = []
    for seed in range(6):
        mdp, features, seen = cliff(seed)
        seen = weighted(seen) if robust else seen
        found = tacit.recover(mdp, features, seen, estimator=tacit.Likelihood())
        assert found.identification.multiplier_standard_errors[0] > 1.0  # nothing tells it
        held.append(within(found.parameters.intervals, np.array([1.0, 2.0])))
        held[-1] = [*held[-1], *within(found.identification.multiplier_intervals, [2.0])]
    assert at_most(6 - np.sum(held, axis=0).min(), 6, 0.05)


@pytest.mark.parametrize("robust", [False, True])
def test_a_point_that_is_nearly_as_likely_is_inside_every_interval(robust):
    """One whose log-likelihood, all else fitted again, is within .5 of the maximum."""
    mdp, features, seen = cliff(0)
    told = weighted(seen) if robust else seen
    found = tacit.recover(mdp, features, told, estimator=tacit.Likelihood(level=1.0))
    best = tacit.recover(mdp, features, seen, estimator=tacit.Likelihood(level=1.0))
    ends = found.parameters.intervals
    names = found.parameters.names
    asked = {0: (0.15, 0.5, 1.0, 3.0), 1: found.parameters.estimates[1] * np.array([0.96, 1.04])}
    tried = 0
    for j, values in asked.items():
        for value in values:
            one = tacit.Likelihood(level=1.0, fixed={names[j]: float(value)})
            other = tacit.recover(mdp, features, seen, estimator=one)
            if best.log_likelihood - other.log_likelihood > 0.5:
                continue
            tried += 1
            assert ends[j, 0] <= value <= ends[j, 1]
            weights = found.identification
            assert within(weights.reward_intervals, other.reward_weights).all()
            assert within(weights.multiplier_intervals, other.multipliers).all()
    assert tried >= 4  # the scale of the reward hardly matters


def ray_loss(mdp, features, seen, price):
    """Minus the log-likelihood at a price, the scale of all coefficients being the best one."""
    steps = seen.states.astype(int), seen.actions.astype(int)

    def loss(scale):
        gain = features.reward[..., 0] - price * features.costs[0]
        expert = tacit.solve(mdp, tacit.Objective(gain), solver=tacit.SoftDual(temperature=scale))
        return -np.log(np.maximum(expert.policy[steps], 1e-300)).sum()

    sought = optimize.minimize_scalar(
        lambda power: loss(np.exp(power)), bounds=(-5.0, 5.0), method="bounded"
    )
    return sought.fun


@pytest.mark.parametrize("robust", [False, True])
def test_ends_are_those_of_the_loss_where_it_bends(robust):
    """A price and a scale: the quadratic model says [.02, inf)."""
    mdp, features, seen = cliff(0)
    told = weighted(seen) if robust else seen
    found = tacit.recover(mdp, features, told, estimator=tacit.Likelihood())
    best = ray_loss(mdp, features, seen, found.multipliers[0])
    for end in found.identification.multiplier_intervals[0]:
        # The cut is the chi-square one, or a little more by a law of its own; robust errors add.
        rise = 2.0 * (ray_loss(mdp, features, seen, end) - best)
        assert 3.82 <= rise <= 4.5


def test_steps_of_unequal_weight_tell_less():
    """By as much as the design effect says: the ratio is scaled, and nothing else."""
    mdp, features, weights = look_alike(0, similarity=0.0, costs=1)
    objective = tacit.Objective(features.reward @ weights)
    expert = tacit.solve(mdp, objective, solver=tacit.SoftDual(temperature=0.5))
    seen = tacit.simulate(mdp, expert.policy, trajectories=60, steps=50, seed=0)
    own = np.where(np.random.default_rng(0).random(seen.steps) < 0.1, 10.0, 0.5)
    widths = []
    for one in (np.ones(seen.steps), own):
        told = replace(seen, weights=one)
        found = tacit.recover(mdp, features, told, estimator=tacit.Likelihood(level=1.0))
        widths.append(np.ptp(found.identification.reward_intervals[0]))
    design = np.sqrt((own**2).mean() / own.mean() ** 2)
    # The scatter of 3000 steps is known to 15 %.
    assert widths[1] / widths[0] == pytest.approx(design, rel=0.3)


# --- An idle constraint that resembles a feature of the reward.


def look_alike(seed, *, similarity, costs):
    """A world of two reward features and one idle constraint whose features resemble the first."""
    rng = np.random.default_rng(seed)
    mdp = tacit.MDP(few_successors(rng, 12), np.full(12, 1.0 / 12), 0.9)
    reward = rng.normal(size=(12, 3, 2))
    own = rng.normal(size=(12, 3, costs))
    cost = similarity * reward[..., :1] + np.sqrt(1.0 - similarity**2) * own
    return mdp, tacit.Features(reward, [cost]), np.array([0.6, 0.4])


@pytest.mark.parametrize(
    ("similarity", "costs"), [(0.9, 4), pytest.param(0.98, 8, marks=pytest.mark.study)]
)
def test_reward_weights_beside_an_idle_look_alike_hold(similarity, costs):
    missed, draws = np.zeros(2), 60
    for seed in range(draws):
        mdp, features, weights = look_alike(seed % 6, similarity=similarity, costs=costs)
        objective = tacit.Objective(features.reward @ weights)
        expert = tacit.solve(mdp, objective, solver=tacit.SoftDual(temperature=0.5))
        seen = tacit.simulate(mdp, expert.policy, trajectories=60, steps=50, seed=seed)
        found = tacit.recover(mdp, features, seen, estimator=tacit.Likelihood())
        missed += ~within(found.identification.reward_intervals, weights)
    assert at_most(missed.max(), draws, 0.05)


# --- The same problem on both sides of a threshold of size.


def crowd(extra=0, size=6, seed=0):
    """A world of some features and one constraint, with columns of zeros beside them."""
    rng = np.random.default_rng(seed)
    many = 8 * size
    mdp = tacit.MDP(few_successors(rng, many), np.full(many, 1.0 / many), 0.9)
    reward, cost = rng.random((many, 3, size)), rng.random((many, 3, 2))
    table = reward @ np.linspace(1.5, 0.0, size) - 1.2 * cost[..., 0]
    expert = tacit.solve(mdp, tacit.Objective(table), solver=tacit.SoftDual(temperature=1.0))
    seen = tacit.simulate(mdp, expert.policy, trajectories=60, steps=50, seed=seed)
    wide = np.concatenate([reward, np.zeros((many, 3, extra))], axis=2)
    return mdp, tacit.Features(wide, [cost]), seen


def numbers(found):
    """[n, 2] all intervals, those of the coefficients first."""
    known = found.identification
    parts = [found.parameters.intervals, known.reward_intervals, *known.cost_intervals]
    return np.concatenate([*parts, known.multiplier_intervals, known.budget_intervals])


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("where", ["likelihood.steps.MANY_FEATURES", "engine.backends.HOST_TABLES"])
def test_both_sides_of_a_threshold_of_size_say_the_same(where, free, monkeypatch):
    """Within what may move: coefficients 1e-6 errors, interval ends 1e-4 of their width."""
    task = crowd()
    asked = tacit.Likelihood(free_reward=free)
    few = tacit.recover(*task, estimator=asked)
    monkeypatch.setattr(f"tacit.{where}", 7)
    many = tacit.recover(*task, estimator=asked)
    errors = np.nanmax(few.parameters.standard_errors)
    assert np.abs(few.parameters.estimates - many.parameters.estimates).max() <= 1e-6 * errors
    one, other = numbers(few), numbers(many)
    width = np.ptp(np.where(np.isfinite(one), one, 0.0), axis=1)[:, None]
    np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))
    away = np.where(np.isfinite(one), np.abs(one - other), 0.0)
    assert (away <= 1e-4 * width + 1e-9).all()
    gap = few.identification.p_values - many.identification.p_values
    assert np.abs(gap).max() <= 3.0 * np.sqrt(0.25 / 4000)
    assert few.goodness.adequate == many.goodness.adequate
    assert few.status is many.status


def test_columns_of_zeros_beyond_200_cost_the_others_nothing():
    below, beyond = (
        tacit.recover(*crowd(extra), estimator=tacit.Likelihood()) for extra in (4, 200)
    )
    one, other = below.parameters.intervals, beyond.parameters.intervals
    kept = [*range(6), -2, -1]
    np.testing.assert_allclose(one[kept], other[kept], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        below.identification.reward_intervals[:6],
        beyond.identification.reward_intervals[:6],
        rtol=1e-4,
        atol=1e-6,
    )


def test_a_question_beyond_the_table_gets_what_the_table_would_say(monkeypatch):
    task = crowd()
    table = tacit.recover(*task, estimator=tacit.Likelihood())
    monkeypatch.setattr(steps, "MANY_FEATURES", 7)
    monkeypatch.setattr(products, "PARAMETERS", 7)
    asked = tacit.recover(*task, estimator=tacit.Likelihood())
    for j in range(6):
        found = asked.identification.interval(np.eye(6)[j], [np.zeros(2)])
        expected = table.identification.reward_intervals[j]
        # The cut is simulated on both sides by the same draws.
        np.testing.assert_allclose(found, expected, atol=2e-3 * np.ptp(expected))
        twice = asked.identification.interval(-2.0 * np.eye(6)[j], [np.zeros(2)])
        np.testing.assert_allclose(twice, (-2.0 * found[1], -2.0 * found[0]))
    price = asked.identification.interval(np.zeros(6), [np.ones(2)])
    expected = table.identification.multiplier_intervals[0]
    np.testing.assert_allclose(price, expected, atol=2e-3 * np.ptp(expected))
