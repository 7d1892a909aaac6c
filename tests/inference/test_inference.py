"""Error bars: information by differences, intervals by brute force, and how often they hold."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import oracles
import tacit
from experts import PRICE, TEMPERATURE, drawn, grid, hill_expert, pairs, spread_visits
from rates import coverage_verdict, rates_of
from strategies import examples
from tacit.engine.backends import backend_of
from tacit.estimators.likelihood import Likelihood
from tacit.inference.gauge import Gauge
from tacit.inference.information import errors, row_errors, undecided
from tacit.inference.parameters import inverse_information
from tacit.inference.profiles import CUT, SETTLED, landscape
from tacit.inference.tails import TWO_SIDED
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.start import maximum, silent
from tacit.likelihood.steps import StepsChain, StepsEvidence, information
from tacit.model.features.design import Design
from tacit.search.algebra import at_least
from tacit.search.smooth_dual import minimum

SEEDS = st.integers(0, 2**20)


def sampled(steps: int, seed: int = 0, price: float = PRICE):
    policy, visitation = hill_expert(1, TEMPERATURE, price)
    return pairs(drawn(np.random.default_rng(seed), policy, spread_visits(visitation, steps)))


def fitted(seen):
    """(likelihood, fit, scores, information) of the steps on the grid."""
    world = grid()
    steps = StepsChain.of(world.mdp, Design.of(world.mdp, world.features), seen)
    found = maximum(steps, Likelihood())
    scores = steps.scores(found.parts[0])
    return steps, found, scores, information(scores, found.parts[0].policy, steps.visits)


@pytest.fixture(scope="module")
def plenty():
    return fitted(sampled(200_000))


@pytest.fixture(scope="module")
def few():
    """So few steps that one weight sits on its bound."""
    found = fitted(sampled(2_000, seed=1))
    assert not found[1].free.all()
    return found


def errors_of(steps, found, fisher, seen):
    """The errors at a fit with this information, where these were seen."""
    chain = StepsEvidence(steps, found.parts[0], np.eye(6), seen)
    return errors(fisher, found.free, [chain], fisher=fisher)


def by_hand(steps, x) -> float:
    """Minus the log-likelihood of the counted actions, by value iteration."""
    table = np.tensordot(x, steps.space.tables, 1)
    _, policy = oracles.soft_values(steps.mdp, table, 1.0)
    return -float((steps.counts * np.log(policy)).sum())


def test_scores_are_martingale_differences(plenty):
    _, found, scores, _ = plenty
    # Given the state, the score of a step averages to 0 over the actions: what makes steps add up.
    assert_allclose((found.parts[0].policy * scores).sum(axis=2), 0.0, atol=1e-10)


def test_scores_are_the_derivative_of_the_log_likelihood_of_a_step(plenty):
    steps, found, scores, _ = plenty
    step = 1e-4
    for d in range(6):
        logs = []
        for side in (step, -step):
            x = found.z + side * np.eye(6)[d]
            table = np.tensordot(x, steps.space.tables, 1)
            logs.append(np.log(oracles.soft_values(steps.mdp, table, 1.0)[1]))
        # Central differences of logarithms known to 1e-12.
        assert_allclose(scores[d], (logs[0] - logs[1]) / (2 * step), atol=1e-6)


def test_information_is_the_curvature_of_the_expected_likelihood(plenty):
    steps, found, _, fisher = plenty
    x, step = found.z, 1e-3
    policy = found.parts[0].policy

    def expected(at):
        """Minus the log-likelihood, had every action been taken as often as expected."""
        _, other = oracles.soft_values(steps.mdp, np.tensordot(at, steps.space.tables, 1), 1.0)
        return -float((steps.visits[:, None] * policy * np.log(other)).sum())

    for i, j in ((0, 0), (2, 2), (0, 3), (4, 5)):
        one, two = step * np.eye(6)[i], step * np.eye(6)[j]
        corners = expected(x + one + two) - expected(x + one - two)
        corners += expected(x - one - two) - expected(x - one + two)
        size = np.sqrt(fisher[i, i] * fisher[j, j])
        assert corners / (4 * step**2) == pytest.approx(fisher[i, j], abs=1e-3 * size)


@given(SEEDS, st.integers(0, 3))
@examples(20)
def test_the_inverse_and_what_it_is_blind_to(seed, missing):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(5, 5 - missing)) * rng.choice([1e-3, 1.0, 1e3], (5, 1))
    fisher = root @ root.T
    everything = np.ones(5, bool)
    inverse, blind = inverse_information(fisher, everything)
    assert len(blind) == missing
    size = np.sqrt(np.diagonal(fisher))
    # Relative to each parameter's own unit: a zero eigenvalue is one up to rounding.
    assert np.abs(fisher @ blind.T / size[:, None]).max(initial=0.0) <= 1e-6 * np.abs(root).max()
    assert_allclose(fisher @ inverse @ fisher, fisher, atol=1e-6 * np.outer(size, size).max())
    free = np.array([True, False, True, True, False])
    inverse, _ = inverse_information(fisher, free)
    assert (inverse[~free] == 0).all()
    assert (inverse[:, ~free] == 0).all()


def test_information_that_is_as_good_as_none_is_none():
    """Features range over one: an error of 1e15 is no error, and no number to print."""
    inverse, blind = inverse_information(np.array([[1e-126]]), np.ones(1, bool))
    assert_allclose([inverse[0], blind[0]], [[0.0], [1.0]])
    both = np.array([[4.0, 1e-40], [1e-40, 1e-60]])
    inverse, blind = inverse_information(both, np.ones(2, bool))
    assert_allclose(inverse, [[0.25, 0.0], [0.0, 0.0]])
    assert_allclose(blind, [[0.0, 1.0]])
    assert both[1, 1] == 1e-60  # what was given stays


def test_silent_parameters_are_those_without_any_information():
    fisher = np.diag([1.0, 0.0, 1e-25, 1e-3])
    assert silent(fisher, 1e3).tolist() == [False, True, True, False]


def test_errors_cluster_only_where_trajectories_are_many(plenty):
    world = grid()
    steps, found, _, fisher = plenty
    policy, _ = hill_expert()
    for trajectories, clustered in ((59, False), (60, True)):
        seen = tacit.simulate(world.mdp, policy, trajectories=trajectories, steps=5, seed=1)
        assert errors_of(steps, found, fisher, seen).clustered is clustered
    # Loose pairs are steps, however many.
    loose = errors_of(steps, found, fisher, sampled(5_000))
    assert not loose.clustered
    assert_allclose(loose.covariance, inverse_information(fisher, found.free)[0])


def test_units_never_scatter_less_than_their_steps(plenty):
    fisher = plenty[3]
    rng = np.random.default_rng(0)
    for units in (4, 60):  # fewer than parameters leave directions in which they do not scatter
        draws = rng.standard_normal((units, 6)) @ np.linalg.cholesky(fisher).T
        scatter = at_least(fisher, draws.T @ draws / units)
        extra = np.linalg.eigvalsh(scatter - fisher)
        assert extra.min() >= -1e-9 * extra.max()
        more = np.linalg.eigvalsh(scatter - draws.T @ draws / units)
        assert more.min() >= -1e-9 * more.max()
    # Where they all scatter more, nothing changes.
    np.testing.assert_allclose(at_least(fisher, 3.0 * fisher), 3.0 * fisher, rtol=1e-9)


def test_clustered_errors_agree_with_those_of_steps_for_a_markov_expert():
    # Scores are martingale differences: trajectories add nothing, up to the noise of the sandwich.
    world = grid()
    seen = tacit.simulate(world.mdp, hill_expert()[0], trajectories=1500, steps=50, seed=5)
    steps, found, _, fisher = fitted(seen)
    told = errors_of(steps, found, fisher, seen)
    assert told.clustered
    plain, _ = inverse_information(fisher, found.free)
    ratio = np.diagonal(told.covariance) / np.diagonal(plain)
    # A variance from 1500 trajectories has a relative error of sqrt(2 / 1500) = 4 %; heavy tails
    # of the scores make it a few times that.
    assert_allclose(ratio, 1.0, atol=0.25)


def test_steps_that_repeat_their_trajectory_tell_nothing_new(plenty):
    """Twice the information and four times the scatter: the sandwich stays, to the last digits."""
    steps, found, _, fisher = plenty
    seen = tacit.simulate(grid().mdp, hill_expert()[0], trajectories=80, steps=5, seed=1)
    halves = [(seen.states[i : i + 5], seen.actions[i : i + 5]) for i in seen.offsets[:-1]]
    twice = tacit.Demonstrations.from_trajectories(
        [(np.tile(states, 2), np.tile(actions, 2)) for states, actions in halves]
    )
    fisher = 1e-6 * fisher  # so little that no scatter is raised to it
    once = errors_of(steps, found, fisher, seen).covariance
    assert np.diagonal(once)[found.free].min() > 0
    assert_allclose(errors_of(steps, found, 2 * fisher, twice).covariance, once, rtol=1e-9)


def test_delta_errors_are_the_spread_of_the_gauge(plenty):
    steps, found, _, fisher = plenty
    space, x = steps.space, found.z
    spent = space.pull_back(oracles.policy_visitation(steps.mdp, found.parts[0].policy))
    nothing = np.zeros((6, 6))
    covariance, _ = inverse_information(fisher, found.free)
    told = row_errors(Gauge.of(space, x, spent, nothing).jacobian, covariance, np.zeros((0, 6)))
    draws = np.random.default_rng(0).multivariate_normal(x, covariance, 4000)
    parts = [Gauge.of(space, draw, spent, nothing) for draw in draws]
    listed = np.array(
        [
            np.concatenate([p.reward_weights, *p.cost_weights, p.multipliers, p.budgets])
            for p in parts
        ]
    )
    # 4000 draws know a standard deviation to 1.1 %; the rest is curvature of the ratios.
    assert_allclose(told, listed.std(axis=0), rtol=0.06)


def test_what_a_blind_direction_moves_has_no_error(plenty):
    steps, found, _, _ = plenty
    space = steps.space
    gauge = Gauge.of(space, found.z, np.ones(6), np.zeros((6, 6)))
    blind = np.eye(6)[2:3]
    told = row_errors(gauge.jacobian, np.zeros((6, 6)), blind)
    assert told[:2].tolist() == [0.0, 0.0]  # the reward does not react to a cost parameter
    assert np.isinf(told[2:]).all()  # weights of its constraint, multiplier and budget do


def test_a_parameter_close_to_its_bound_is_undecided(few):
    _, found, _, fisher = few
    told = undecided(found, fisher, found.free)
    assert (told | ~found.free).all()  # free ones stay
    inverse, _ = inverse_information(fisher, found.free)
    left = np.diagonal(fisher - fisher @ inverse @ fisher)
    for j in np.flatnonzero(~found.free):
        assert told[j] == (found.gradient[j] < 2.0 * np.sqrt(left[j]))


def landscape_of(found, fisher, scatter=None):
    return landscape(
        found.z,
        found.gradient,
        fisher,
        lower=found.problem.lower,
        upper=np.full(6, np.inf),
        moving=np.ones(6, bool),
        scatter=scatter,
    )


@given(SEEDS)
@examples(15)
def test_rise_is_the_least_loss_on_a_hyperplane_within_the_bounds(few, seed):
    _, found, _, fisher = few
    around = landscape_of(found, fisher)
    rng = np.random.default_rng(seed)
    x, gradient = found.z, found.gradient
    form = rng.normal(size=6)
    constant = -float(form @ (x * rng.uniform(0.8, 1.2, 6)))

    def model(at):
        return gradient @ (at - x) + 0.5 * (at - x) @ fisher @ (at - x)

    answer = minimize(
        model,
        x,
        jac=lambda at: gradient + fisher @ (at - x),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda at: form @ at + constant, "jac": lambda at: form},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    # The oracle walks from x, which is off the plane: it ends within its own tolerance of it.
    assert answer.success
    assert around.rise(form, constant) == pytest.approx(answer.fun, rel=1e-3, abs=1e-5)


def test_trajectories_that_scatter_more_than_their_steps_flatten_the_landscape(few):
    _, found, _, fisher = few
    form = np.array([1.0, -3.0, 0.5, 0.0, 1.0, -1.0])
    plain = landscape_of(found, fisher)
    same = landscape_of(found, fisher, fisher)
    wide = landscape_of(found, fisher, 4.0 * fisher)
    for constant in (0.0, -2.0, 5.0):
        rise = plain.rise(form, constant)
        assert same.rise(form, constant) == pytest.approx(rise, rel=1e-5, abs=1e-7)
        # Twice the standard error is a quarter of the rise.
        assert wide.rise(form, constant) == pytest.approx(rise / 4, rel=1e-5, abs=1e-7)


def test_a_weight_on_its_bound_has_a_limit_on_one_side(few):
    world = grid()
    _, found, _, fisher = few
    known = Likelihood(level=1.0).fit(world.mdp, world.features, sampled(2_000, seed=1))
    space = Design.of(world.mdp, world.features)
    around = landscape_of(found, fisher)
    parts = Gauge.of(space, found.z, found.z).ratios
    intervals = np.concatenate(
        [known.identification.reward_intervals, *known.identification.cost_intervals]
    )
    for j in range(6):
        low, high = intervals[j]
        for end, side in ((low, 1.0), (high, -1.0)):
            if 1e-9 < end < 1.0 - 1e-9:
                form = parts.tops[j] - end * parts.bottoms[j]
                rise = around.rise(form, 0.0)
                # The end has the cut of its own law, which is sought no finer than this.
                beyond = rise - 0.5 * around.cut(form, 0.0, side)
                assert abs(beyond) <= SETTLED
                assert rise >= 0.5 * CUT * (1.0 - 1e-3)
    held = np.flatnonzero(~found.free)
    assert (intervals[held, 0] == 0).all()
    assert np.isnan(known.identification.cost_standard_errors[0][held - 2]).all()


def test_a_reward_weight_on_its_bound_leaves_room_to_the_other():
    # With one weight at 0 the other is 1, but not for certain: the two intervals are complements.
    world = grid()
    fit = Likelihood(level=1.0).fit
    tried = (fit(world.mdp, world.features, sampled(400, seed)) for seed in range(20))
    recovery = next(one for one in tried if one.reward_weights[1] == 0.0)
    assert recovery.reward_weights.tolist() == [1.0, 0.0]
    (low, one), (zero, high) = recovery.identification.reward_intervals
    assert (one, zero) == (1.0, 0.0)
    assert 0.5 < low < 1.0
    assert low == pytest.approx(1.0 - high, abs=1e-6)  # both one-sided, to the search's tolerance


def test_a_bound_met_by_chance_does_not_make_the_others_surer(few):
    world = grid()
    steps, found, _, fisher = few
    seen = sampled(2_000, seed=1)
    spent = steps.space.pull_back(oracles.policy_visitation(world.mdp, found.parts[0].policy))
    gauge = Gauge.of(steps.space, found.z, spent, np.zeros((6, 6)))
    told = Likelihood(level=1.0).fit(world.mdp, world.features, seen).identification
    assert undecided(found, fisher, found.free).all()
    law = errors_of(steps, found, fisher, seen)
    settled = row_errors(gauge.jacobian, law.covariance, law.blind)
    free = found.free[2:]
    assert (told.cost_standard_errors[0][free] >= 0.999 * settled[2:6][free]).all()
    assert (told.cost_standard_errors[0][free] > 1.1 * settled[2:6][free]).any()


def test_the_ends_of_an_interval_cost_the_quantile_in_the_true_likelihood(plenty):
    # The profile by brute force: refit with the first weight settled at the end of its interval,
    # by writing its parameter through the second: theta_0 = ratio / (1 - ratio) theta_1.
    world = grid()
    steps, found, _, _ = plenty
    known = Likelihood().fit(world.mdp, world.features, sampled(200_000)).identification
    space, sums, best = steps.space, steps.target, by_hand(steps, found.z)
    rest = ("lower", "upper", "ridge", "unit", "scale")
    whole = steps.dual._replace(lower=found.problem.lower, upper=found.problem.upper)
    for ratio in known.reward_intervals[0]:
        odds = ratio / (1 - ratio) * space.scales[0] / space.scales[1]
        less = whole._replace(
            tables=np.concatenate([space.tables[1:2] + odds * space.tables[:1], space.tables[2:]]),
            target=np.concatenate([sums[1:2] + odds * sums[:1], sums[2:]]),
            **{name: getattr(whole, name)[1:] for name in rest},
        )
        begin = (found.z[1:], found.parts[0].values)
        point, _ = minimum(backend_of(steps.mdp), less, *begin, 1e-9, 300)
        # 200 000 steps make the likelihood quadratic to a few per cent.
        assert point.loss - best == pytest.approx(0.5 * TWO_SIDED**2, rel=0.05)


def test_far_from_every_bound_the_intervals_are_those_of_the_delta_method():
    world = grid()
    known = Likelihood().fit(world.mdp, world.features, sampled(2_000_000)).identification
    for ends, spread in (
        (known.reward_intervals, known.reward_standard_errors),
        (known.cost_intervals[0], known.cost_standard_errors[0]),
        (known.multiplier_intervals, known.multiplier_standard_errors),
        (known.budget_intervals, known.budget_standard_errors),
    ):
        # Half a width differs from 1.96 errors by the curvature of a ratio: of second order.
        assert_allclose(np.ptp(ends, axis=1) / 2, TWO_SIDED * spread, rtol=0.02)


def test_intervals_widen_when_data_shrink():
    world = grid()
    widths = []
    for steps in (800_000, 50_000, 3_000):
        known = Likelihood(level=1.0).fit(world.mdp, world.features, sampled(steps)).identification
        ends = (known.reward_intervals, *known.cost_intervals, known.multiplier_intervals)
        widths.append(np.concatenate([np.ptp(part, axis=1) for part in ends]))
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()
    # One over the root of the number of steps, where nothing is near a bound.
    assert_allclose(widths[1][:2] / widths[0][:2], 4.0, rtol=0.1)


@pytest.mark.parametrize(
    ("steps", "seed"), [(50_000, 11), pytest.param(1_500, 12, marks=pytest.mark.study)]
)
def test_nominal_intervals_hold_as_often_as_they_say(steps, seed):
    world = grid()
    policy, visitation = hill_expert()
    visits, rng = spread_visits(visitation, steps), np.random.default_rng(seed)
    budget = np.vdot(world.truth.tables(world.mdp)[1][0], visitation)
    truth = np.array([*world.reward_weights, *world.cost_weights[0], PRICE, budget])
    held = []
    for _ in range(100):
        seen = pairs(drawn(rng, policy, visits))
        known = Likelihood(level=1.0).fit(world.mdp, world.features, seen).identification
        ends = np.concatenate(
            [
                known.reward_intervals,
                *known.cost_intervals,
                known.multiplier_intervals,
                known.budget_intervals,
            ]
        )
        held.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    found = coverage_verdict(rates_of(f"{steps} steps", np.array(held)))
    assert found.reached, found
    # With few steps a bound makes intervals conservative; 100 of 100 hold with a chance of .006.
    assert np.mean(held) <= 0.99 or steps < 50_000


def test_refitting_from_a_fit_finds_it_again(plenty):
    steps, found, _, _ = plenty
    again = found.refit(found.problem)
    assert again.steps <= 2
    assert_allclose(again.z, found.z, rtol=1e-6)
    pulled = found.refit(found.problem.with_chains([replace(steps, ridge=1e6)]))
    assert np.abs(pulled.z).max() < np.abs(found.z).max()


def test_the_loss_is_minus_the_log_likelihood(plenty, few):
    for steps, found, _, _ in (plenty, few):
        assert found.loss == pytest.approx(by_hand(steps, found.z), rel=1e-10)
        other = found.z + 0.3
        assert found.lagrangian(other) == pytest.approx(by_hand(steps, other), rel=1e-10)


def test_a_fit_judges_itself(plenty):
    steps, found, _, _ = plenty
    assert found.converged
    assert found.projected_gradient <= 1e-9
    assert 0 <= found.objective_gap <= 1e-9
    problem = LikelihoodProblem.of(steps, found.problem.lower, found.problem.upper)
    short = problem.minimum(np.zeros(6), tolerance=1e-9, max_steps=3)
    assert not short.converged
    # An honest gap: at least of the order of what is really missing.
    missing = short.loss - found.loss
    assert 0.2 * missing <= short.objective_gap <= 5 * missing
