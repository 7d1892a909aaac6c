"""The model's own coefficients: standard errors of four kinds, tests, intervals and ratios."""

from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eigh

import experts
import oracles
import tacit
from experts import drawn, grid, hill_expert, pairs, policy_of, spread_visits
from rates import coverage_verdict, rates_of
from tacit import MDP, Demonstrations, Features, Likelihood
from tacit.errors import InvalidModel
from tacit.estimators.tasks import SharedLikelihood
from tacit.inference.parameters import KINDS, Parameters, inverse_information
from tacit.inference.sets import unmeasured
from tacit.model.objective import coefficient_names

QUANTILE = 1.959963984540054  # two-sided 95 % of the normal law


def sampled(trajectories: int = 12, steps: int = 60, seed: int = 0, temperature: float = 0.02):
    return experts.sampled(hill_expert(temperature=temperature)[0], trajectories, steps, seed)


@pytest.fixture(scope="module")
def seen():
    return sampled()


@pytest.fixture(scope="module")
def found(seen):
    # Free signs and every constraint: no bound in the way of the textbook's formulas.
    return Likelihood(free_reward=True, level=1.0).fit(grid().mdp, grid().features, seen)


def policy_at(theta: np.ndarray) -> np.ndarray:
    """[S, A] of coefficients in the order of `Parameters`, by an oracle."""
    sizes = [2, 4]
    return policy_of(grid().mdp, grid().features, np.split(theta, np.cumsum(sizes)[:-1]))


def scores_of(theta: np.ndarray) -> np.ndarray:
    """[P, S, A] derivative of log pi, by central differences."""
    found = []
    for j in range(len(theta)):
        # The cube root of rounding balances truncation and rounding: about 1e-9 is left.
        step = np.zeros(len(theta))
        step[j] = 1e-5 * max(1.0, abs(theta[j]))
        up, down = np.log(policy_at(theta + step)), np.log(policy_at(theta - step))
        found.append((up - down) / (2.0 * step[j]))
    return np.stack(found)


def normal(estimates, covariance, *, lower=-np.inf, limits=None) -> Parameters:
    """Coefficients with this covariance."""
    points = np.array(estimates, float)
    return Parameters(
        names=tuple("abcdef"[: len(points)]),
        estimates=points,
        jacobian=np.eye(len(points)),
        information=np.linalg.inv(covariance),
        outer=np.linalg.inv(covariance),
        scatter=np.full((len(points), len(points)), np.nan),
        gradient=np.zeros(len(points)),
        free=np.ones(len(points), bool),
        lower=np.broadcast_to(np.asarray(lower, float), points.shape),
        limits=np.full(len(points), np.nan) if limits is None else np.array(limits, float),
    )


# --- standard errors ------------------------------------------------------------------------------


def test_coefficients_are_weights_over_temperature(found):
    parts = [found.reward_weights, found.multipliers[0] * found.cost_weights[0]]
    assert_allclose(found.parameters.estimates, np.concatenate(parts) / found.temperature)
    assert found.parameters.names == (*grid().features.reward_names, *grid().features.cost_names[0])


def test_fisher_errors_are_the_curvature_of_the_expected_log_likelihood(found, seen):
    theta, visits = found.parameters.estimates, seen.counts(grid().mdp).sum(axis=1)
    here = policy_at(theta)

    def expected(at: np.ndarray) -> float:
        return float((visits[:, None] * here * np.log(policy_at(at))).sum())

    steps = 1e-3 * np.maximum(1.0, np.abs(theta))
    curvature = np.empty((len(theta), len(theta)))
    for i in range(len(theta)):
        for j in range(i + 1):  # the differences of (i, j) and (j, i) are the same four
            total = 0.0
            for a in (1, -1):
                for b in (1, -1):
                    at = theta.copy()
                    at[i] += a * steps[i]
                    at[j] += b * steps[j]
                    total += a * b * expected(at)
            curvature[i, j] = curvature[j, i] = -total / (4.0 * steps[i] * steps[j])
    errors = np.sqrt(np.diagonal(np.linalg.inv(curvature)))
    # Central differences of a relative step of 1e-3 are right to about its square.
    assert_allclose(found.parameters.with_errors("fisher").standard_errors, errors, rtol=1e-4)


def test_the_other_kinds_agree_with_sums_over_single_steps(found, seen):
    parameters, scores = found.parameters, scores_of(found.parameters.estimates)
    per_step = scores[:, seen.states, seen.actions].T
    outer = sum(np.outer(score, score) for score in per_step)
    bread = parameters.with_errors("fisher").covariance
    starts = seen.offsets[:-1]
    sums = [part.sum(axis=0) for part in np.split(per_step, starts[1:])]
    many = len(sums)
    meat = sum(np.outer(g, g) for g in sums) * many / (many - 1)
    # Trajectories scatter no less than their steps: in no direction less than the information.
    shares, turns = eigh(meat, np.linalg.inv(bread))  # turns' information turns = 1
    back = np.linalg.inv(turns).T
    meat = (back * np.maximum(shares, 1.0)) @ back.T
    assert shares.min() < 1.0 < shares.max()
    # Differences of logarithms leave about 1e-8 of a score.
    wanted = {
        "outer": np.linalg.inv(outer),
        "sandwich": bread @ outer @ bread,
        "clustered": bread @ meat @ bread,
    }
    for kind, covariance in wanted.items():
        other = parameters.with_errors(kind)
        assert other.errors == kind
        assert_allclose(other.covariance, covariance, rtol=1e-5, atol=1e-9)
        assert_allclose(other.standard_errors, np.sqrt(np.diagonal(covariance)), rtol=1e-6)


def test_clustered_errors_never_collapse(found):
    # Two trajectories leave one direction of scores at most: without a floor most errors are 0.
    score = np.arange(1.0, 7.0)
    few = replace(found.parameters, trajectories=2, scatter=np.outer(score, score))
    fisher = few.with_errors("fisher").standard_errors
    assert (few.with_errors("clustered").standard_errors >= fisher * (1 - 1e-9)).all()


def test_a_sandwich_without_any_scatter_makes_no_interval_narrower_than_the_likelihood(found):
    nothing = replace(found.parameters, outer=1e-6 * found.parameters.information)
    plain, robust = (nothing.with_errors(kind) for kind in ("fisher", "sandwich"))
    assert (robust.standard_errors < 0.01 * plain.standard_errors).all()
    assert_allclose(robust.intervals, plain.intervals)
    assert_allclose(robust.p_values, plain.p_values)


def test_where_the_model_does_not_fit_the_information_is_the_curvature_of_the_loss():
    # Fisher's information given the visits differs from it there, by a few per cent.
    noises = [hill_expert(temperature=one)[0] for one in (0.003, 0.03)]
    one, two = (tacit.simulate(grid().mdp, p, trajectories=60, steps=40, seed=0) for p in noises)
    seen = Demonstrations(
        np.append(one.states, two.states),
        np.append(one.actions, two.actions),
        np.append(one.offsets, two.offsets[1:] + one.steps),
    )
    own = Likelihood(free_reward=True, level=1.0).fit(grid().mdp, grid().features, seen).parameters
    counts, scores = seen.counts(grid().mdp), scores_of(own.estimates)
    slopes = []
    for j, step in enumerate(1e-3 * np.maximum(1.0, np.abs(own.estimates))):
        ends = [own.estimates + side * step * np.eye(len(own))[j] for side in (1, -1)]
        up, down = (np.tensordot(scores_of(at), counts, 2) for at in ends)
        slopes.append((down - up) / (2.0 * step))
    scales, curvature = 1.0 / np.diagonal(own.jacobian), np.array(slopes)
    found = own.information * np.outer(scales, scales)
    # Central differences of a relative step of 1e-3 are right to about its square.
    units = np.sqrt(np.outer(np.diagonal(curvature), np.diagonal(curvature)))
    assert_allclose(found / units, curvature / units, rtol=0.0, atol=1e-4)
    here = policy_at(own.estimates) * counts.sum(axis=1, keepdims=True)
    fisher = np.einsum("isa,sa,jsa->ij", scores, here, scores)
    assert np.abs((fisher - curvature) / units).max() > 1e-2


def test_two_actions_and_no_future_are_ordinary_logit():
    rng = np.random.default_rng(3)
    states, columns = 40, 3
    # Action 0 has no features: the chance of action 1 is a logit of its own.
    table = np.zeros((states, 2, columns))
    table[:, 1] = rng.normal(size=(states, columns))
    mdp = MDP(np.full((states, 2, states), 1 / states), np.full(states, 1 / states), 0.0)
    chance = 1.0 / (1.0 + np.exp(-table[:, 1] @ [0.8, -0.5, 0.2]))
    counts = drawn(rng, np.stack([1.0 - chance, chance], axis=1), np.full(states, 25))
    recovery = Likelihood(free_reward=True).fit(mdp, Features(table), pairs(counts))
    rows = np.repeat(table[:, 1], 25, axis=0)
    chosen = np.concatenate([np.repeat([0, 1], many) for many in counts])
    theta, covariance, likely = oracles.logit_regression(rows, chosen)
    parameters = recovery.parameters
    # Both searches end with a relative gradient below 1e-9; errors follow the estimates.
    assert_allclose(parameters.estimates, theta, rtol=1e-6)
    assert_allclose(parameters.covariance, covariance, rtol=1e-6, atol=1e-12)
    assert recovery.log_likelihood == pytest.approx(likely, rel=1e-10)
    assert recovery.null_log_likelihood == pytest.approx(1000 * np.log(0.5))
    assert recovery.aic == pytest.approx(2 * 3 - 2 * likely)
    assert recovery.bic == pytest.approx(3 * np.log(1000) - 2 * likely)
    chance = 1.0 / (1.0 + np.exp(-rows @ theta))
    meat = (rows * ((chosen - chance) ** 2)[:, None]).T @ rows
    sandwich = covariance @ meat @ covariance
    assert_allclose(parameters.with_errors("sandwich").covariance, sandwich, rtol=1e-5, atol=1e-12)


def test_units_of_a_feature_change_its_coefficient_alone(seen, found):
    world, factor = grid(), np.array([1.0, 40.0])
    scaled = Features(world.features.reward * factor, world.features.costs)
    other = Likelihood(free_reward=True, level=1.0).fit(world.mdp, scaled, seen).parameters
    ratio = np.array([1.0, 40.0, 1.0, 1.0, 1.0, 1.0])
    for kind in KINDS:
        one, two = found.parameters.with_errors(kind), other.with_errors(kind)
        # Two searches that stop at a relative gradient of 1e-9.
        assert_allclose(two.standard_errors * ratio, one.standard_errors, rtol=1e-5)
        assert_allclose(two.p_values, one.p_values, rtol=1e-4, atol=1e-12)


def test_the_errors_used_are_those_of_the_gauge(seen, found):
    assert found.parameters.errors == "fisher"
    many = sampled(trajectories=80, steps=10)
    clustered = Likelihood().fit(grid().mdp, grid().features, many)
    assert clustered.parameters.errors == "clustered"
    assert clustered.parameters.trajectories == 80


# --- what is missing ------------------------------------------------------------------------------


def test_clustering_needs_trajectories(found):
    policy, visitation = hill_expert(temperature=0.02)
    counts = drawn(np.random.default_rng(0), policy, spread_visits(visitation, 2_000))
    loose = Likelihood().fit(grid().mdp, grid().features, pairs(counts)).parameters
    one = Likelihood().fit(grid().mdp, grid().features, sampled(trajectories=1, steps=400))
    for parameters in (loose, one.parameters):
        clustered = parameters.with_errors("clustered")
        assert np.isnan(clustered.standard_errors).all()
        assert "trajector" in clustered.reason
        assert parameters.reason == ""
        assert np.isfinite(parameters.standard_errors).any()


@pytest.mark.parametrize("kind", KINDS)
def test_an_optimal_expert_has_no_coefficients(kind):
    world = grid()
    walks = tacit.simulate(
        world.mdp, tacit.solve(world.mdp, world.truth).policy, trajectories=5, steps=30, seed=0
    )
    recovery = tacit.Explanation().fit(world.mdp, world.features, walks, throw=False)
    parameters = recovery.parameters.with_errors(kind)
    assert len(parameters) == 6
    for array in (parameters.estimates, parameters.standard_errors, parameters.p_values):
        assert np.isnan(array).all()
    assert np.isnan(parameters.covariance).all()
    assert np.isnan(parameters.intervals).all()
    assert np.isnan([recovery.log_likelihood, recovery.aic, recovery.bic]).all()
    assert "temperature" in parameters.reason


def test_a_search_cut_short_has_coefficients_and_no_errors(seen):
    short = Likelihood(max_steps=1).fit(grid().mdp, grid().features, seen, throw=False)
    assert np.isfinite(short.parameters.estimates).all()
    assert np.isnan(short.parameters.standard_errors).all()
    assert short.parameters.reason
    kinds = {finding.kind for finding in short.identification.findings}
    assert tacit.Kind.NOT_CONVERGED in kinds
    assert tacit.Kind.ERRORS not in kinds


def test_feature_matching_has_coefficients_and_a_likelihood(seen):
    recovery = tacit.Convex().fit(grid().mdp, grid().features, seen)
    parts = [recovery.reward_weights, recovery.multipliers[0] * recovery.cost_weights[0]]
    wanted = np.nan_to_num(np.concatenate(parts)) / recovery.temperature
    assert_allclose(recovery.parameters.estimates, wanted)
    counts = seen.counts(grid().mdp)
    likely = float((counts * np.log(recovery.solution.policy)).sum())
    assert recovery.log_likelihood == pytest.approx(likely, rel=1e-9)
    best = Likelihood(level=1.0).fit(grid().mdp, grid().features, seen)
    assert best.log_likelihood >= likely
    assert best.null_log_likelihood == recovery.null_log_likelihood


def test_a_feature_without_influence_has_an_open_interval(seen):
    world = grid()
    idle = np.concatenate([world.features.reward, np.ones((25, 1))], axis=1)
    for free in (False, True):
        given = Features(idle, world.features.costs)
        recovery = Likelihood(free_reward=free, level=1.0).fit(world.mdp, given, seen)
        low, high = recovery.parameters.intervals[2]
        assert (low, high) == (-np.inf if free else 0.0, np.inf)
        assert np.isnan(recovery.parameters.p_values[2])
        assert np.isfinite(recovery.parameters.standard_errors[0])


def test_a_cost_never_incurred_has_no_upper_limit():
    limited = normal([3.0, 8.0], np.eye(2), lower=0.0, limits=[np.nan, 2.5])
    assert limited.intervals[1].tolist() == [2.5, np.inf]
    assert limited.at(0.9).intervals[1].tolist() == [2.5, np.inf]  # still true
    assert limited.at(0.99).intervals[1].tolist() == [0.0, np.inf]  # no more than the bound is
    assert np.isnan(limited.standard_errors[1])
    assert np.isnan(limited.p_values[1])


# --- bounds ---------------------------------------------------------------------------------------


def test_on_a_bound_the_test_and_the_interval_are_one_sided():
    world, policy = grid(), hill_expert(temperature=0.02)[0]
    for seed in range(20):
        walks = tacit.simulate(world.mdp, policy, trajectories=6, steps=30, seed=seed)
        parameters = Likelihood(level=1.0).fit(world.mdp, world.features, walks).parameters
        for j in np.flatnonzero(parameters.estimates == 0.0):
            assert np.isnan(parameters.standard_errors[j])
            low, high = parameters.intervals[j]
            assert low == 0.0 < high
            # The likelihood would rather have it negative, or as soon nothing.
            assert 0.5 - 1e-6 <= parameters.p_values[j] <= 1.0
            assert parameters.at(0.5).intervals[j, 1] < high
            return
    pytest.fail("no draw put a coefficient on its bound")


@pytest.mark.parametrize("slope", [0.0, 0.4, 3.0])
def test_the_upper_limit_on_a_bound_is_where_the_loss_has_risen_enough(slope):
    fisher = np.array([[2.0, 0.6], [0.6, 1.5]])
    one = Parameters(
        names=("inside", "bound"),
        estimates=np.array([2.0, 0.0]),
        jacobian=np.eye(2),
        information=fisher,
        outer=fisher,
        scatter=fisher,
        gradient=np.array([0.0, slope]),
        free=np.array([True, False]),
        lower=np.zeros(2),
        limits=np.full(2, np.nan),
    )
    end = one.intervals[1, 1]
    left = 1.5 - 0.6**2 / 2.0  # what is left of its information when the other adapts
    # One-sided 95 %: the loss rises by half the squared quantile 1.6449.
    assert slope * end + 0.5 * left * end**2 == pytest.approx(0.5 * 1.6448536**2, rel=1e-6)
    chance = one.p_values[1]
    assert chance >= 0.5
    assert bool(chance > 0.5) is (slope > 0)


def test_intervals_stay_within_the_sign(seen):
    bounded = Likelihood(level=1.0).fit(grid().mdp, grid().features, seen).parameters
    assert (bounded.intervals[:, 0] >= 0.0).all()


# --- confidence, p-values, ratios -----------------------------------------------------------------


def test_wald_numbers_follow_from_estimate_and_error():
    one = normal([3.0, -1.0], [[1.0, 0.3], [0.3, 4.0]])
    assert_allclose(one.standard_errors, [1.0, 2.0])
    margin = QUANTILE * np.array([1.0, 2.0])
    assert_allclose(one.intervals, np.stack([one.estimates - margin, one.estimates + margin], 1))
    # Twice the tail of the standard normal law beyond 3 and 0.5, from tables.
    assert_allclose(one.p_values, [0.00269979606, 0.61707507745], rtol=1e-8)


def test_less_confidence_is_a_narrower_interval(found):
    wide, narrow = found.parameters, found.parameters.at(0.9)
    assert (wide.confidence, narrow.confidence) == (0.95, 0.9)
    assert (np.ptp(narrow.intervals, axis=1) < np.ptp(wide.intervals, axis=1)).all()
    # Rewards have no bound here that could cut an end off.
    ratio = np.ptp(narrow.intervals, axis=1)[:2] / np.ptp(wide.intervals, axis=1)[:2]
    assert_allclose(ratio, 1.6448536269514722 / QUANTILE, rtol=1e-10)
    assert_allclose(narrow.standard_errors, wide.standard_errors)


def test_a_ratio_is_fiellers_set():
    rng = np.random.default_rng(0)
    for _ in range(200):
        root = rng.normal(size=(2, 2))
        covariance, point = root @ root.T + 0.05 * np.eye(2), 3.0 * rng.normal(size=2)
        found = normal(point, covariance).ratio("a", 1)
        assert found.estimate == pytest.approx(point[0] / point[1])
        trials = np.tan(np.linspace(-1.57, 1.57, 4001))
        form = np.stack([np.ones_like(trials), -trials], axis=1)
        variance = np.einsum("nd,de,ne->n", form, covariance, form)
        inside = trials[(form @ point) ** 2 <= QUANTILE**2 * variance]
        low, high = found.interval
        if np.isfinite([low, high]).all():
            assert low <= inside.min() + 1e-9
            assert high >= inside.max() - 1e-9
            # The ends themselves are on the border of the set.
            for end in (low, high):
                gap = (point[0] - end * point[1]) ** 2
                spread = covariance[0, 0] - 2 * end * covariance[0, 1] + end**2 * covariance[1, 1]
                assert gap == pytest.approx(QUANTILE**2 * spread, rel=1e-6, abs=1e-9)
        else:  # the denominator may be 0, so the ratio may be anything large
            assert abs(point[1]) <= QUANTILE * np.sqrt(covariance[1, 1])


def test_fiellers_interval_covers_where_the_denominator_is_weak():
    rng = np.random.default_rng(1)
    truth, covariance = np.array([2.0, 2.5]), np.array([[1.0, 0.4], [0.4, 1.0]])
    draws = rng.multivariate_normal(truth, covariance, size=2000)
    hits = 0
    for point in draws:
        low, high = normal(point, covariance).ratio(0, 1).interval
        hits += low <= truth[0] / truth[1] <= high
    # Exactly .95 for Fieller's set, more for its hull; 2000 draws err by .005 a standard deviation.
    assert hits / 2000 >= 0.95 - 3 * 0.005


def test_ratios_say_what_they_cannot_know():
    # Both not negative, the denominator perhaps 0: no upper end.
    open_ended = normal([6.0, 1.0], np.eye(2), lower=0.0).ratio("a", "b")
    assert open_ended.interval[0] > 0.0
    assert open_ended.interval[1] == np.inf
    anything = normal([0.5, 1.0], np.eye(2)).ratio("a", "b")
    assert anything.interval == (-np.inf, np.inf)
    forbidden = normal([4.0, 50.0], np.eye(2), lower=0.0, limits=[np.nan, 8.0])
    low, high = forbidden.at(0.9).ratio("b", "a").interval
    assert 0.0 < low < 8.0 / 4.0
    assert high == np.inf
    assert np.isnan(forbidden.ratio("b", "a").standard_error)
    nothing = unmeasured("ab", [np.nan, np.nan], lower=-np.inf, absence="none")
    assert np.isnan(nothing.ratio(0, 1).estimate)


def test_a_frame_has_one_row_a_coefficient(found):
    frame = found.parameters.frame()
    assert frame.columns == [
        *("name", "estimate", "standard_error", "z", "p_value", "lower", "upper"),
    ]
    assert frame["name"].to_list() == list(found.parameters.names)
    assert_allclose(frame["z"].to_numpy() * frame["standard_error"].to_numpy(), frame["estimate"])


def test_bad_questions_are_refused(found):
    for ask, said in (
        (lambda p: p.with_errors("robust"), "fisher, outer, sandwich, clustered"),
        (lambda p: p.at(95), "confidence must be in"),
        (lambda p: p.ratio("row", "nowhere"), "no coefficient is named 'nowhere'"),
        (lambda p: p.ratio(0, 17), "6 coefficients"),
    ):
        with pytest.raises(InvalidModel, match=said):
            ask(found.parameters)


def test_names_that_repeat_are_told_apart():
    assert coefficient_names(("a", "b"), [("c",)]) == ("a", "b", "c")
    assert coefficient_names(("a", "b"), [("a",), ("c",)]) == ("a", "b", "cost 0: a", "cost 1: c")


def test_every_array_is_read_only(found):
    for field in fields(Parameters):
        array = getattr(found.parameters, field.name)
        assert not isinstance(array, np.ndarray) or not array.flags.writeable


def test_the_inverse_of_nothing_is_nothing():
    covariance, blind = inverse_information(np.eye(3), np.zeros(3, bool))
    assert not covariance.any()
    assert blind.shape == (0, 3)


# --- other estimators -----------------------------------------------------------------------------


def test_coefficients_of_one_task_are_those_of_the_task_alone(seen):
    world, alone = grid(), Likelihood(level=1.0)
    wanted = alone.fit(world.mdp, world.features, seen)
    shared = SharedLikelihood(likelihood=alone)
    joint = shared.fit([tacit.Task(world.mdp, world.features, seen)])
    for kind in KINDS:
        one, two = joint.recoveries[0].parameters.with_errors(kind), wanted.parameters
        two = two.with_errors(kind)
        # Two searches of the same problem.
        assert_allclose(one.estimates, two.estimates, rtol=1e-5, atol=1e-6)
        assert_allclose(one.standard_errors, two.standard_errors, rtol=1e-4)
        assert_allclose(one.intervals, two.intervals, rtol=1e-4, atol=1e-5)
    assert joint.log_likelihood == pytest.approx(wanted.log_likelihood, rel=1e-9)
    assert joint.aic == pytest.approx(wanted.aic, rel=1e-9)


def test_tasks_together_know_one_direction():
    world = grid()
    tasks = [
        tacit.Task(world.mdp, world.features, sampled(50, 200, seed, temperature=0.005))
        for seed in (0, 1)
    ]
    joint = tacit.recover(tasks)
    parameters, names = (
        joint.parameters,
        (*world.features.reward_names, *world.features.cost_names[0]),
    )
    assert parameters.names == tuple(f"{name} (task {e})" for e in (0, 1) for name in names)
    # A reward and a size each, and one direction: fewer numbers than coefficients.
    assert parameters.degrees < np.count_nonzero(parameters.estimates)
    ratio, again = parameters.ratio(4, 5), parameters.ratio(10, 11)
    assert ratio.estimate == pytest.approx(again.estimate)
    assert ratio.standard_error == pytest.approx(again.standard_error)
    total = sum(one.log_likelihood for one in joint.recoveries)
    assert joint.log_likelihood == pytest.approx(total)
    assert joint.bic > joint.aic


def test_a_known_reward_has_no_error_of_its_own(seen):
    world = grid()
    known = tacit.ConstraintOnly(world.reward_weights, temperature=0.02, level=1.0)
    parameters = known.fit(world.mdp, world.features, seen).parameters
    assert_allclose(parameters.estimates[:2], world.reward_weights / 0.02)
    assert_allclose(parameters.standard_errors[:2], 0.0, atol=0.0)
    assert parameters.degrees == np.count_nonzero(parameters.estimates[2:])
    loose = tacit.ConstraintOnly(world.reward_weights, level=1.0)
    scaled = loose.fit(world.mdp, world.features, seen).parameters
    # One number, the noise, moves both: they are known equally well.
    z = scaled.estimates / scaled.standard_errors
    assert z[0] == pytest.approx(z[1])
    assert scaled.degrees == 1 + np.count_nonzero(scaled.estimates[2:])


def test_what_was_left_out_is_open(seen):
    alone = tacit.RewardOnly().fit(grid().mdp, grid().features, seen).parameters
    assert len(alone) == 6
    assert_allclose(alone.estimates[2:], 0.0, atol=0.0)
    assert alone.intervals[2:].tolist() == [[0.0, np.inf]] * 4
    assert alone.degrees == np.count_nonzero(alone.estimates[:2])


@pytest.mark.study
def test_intervals_cover_as_often_as_they_say():
    world, cover = grid(), {0.5: [], 0.95: []}
    policy, visitation = hill_expert(temperature=0.01)
    truth, visits = world.reward_weights / 0.01, spread_visits(visitation, 3_000)
    options = Likelihood(free_reward=True, level=1.0)
    for seed in range(30):
        counts = drawn(np.random.default_rng(seed), policy, visits)
        parameters = options.fit(world.mdp, world.features, pairs(counts)).parameters
        for confidence, hits in cover.items():
            low, high = parameters.at(confidence).intervals[:2].T
            hits.append((low <= truth) & (truth <= high))
    for confidence, hits in cover.items():
        found = coverage_verdict(rates_of("length", np.array(hits)), confidence)
        assert found.reached, found
        assert not found.beyond, found


def two_on_their_bounds(gradient: list[float]) -> Parameters:
    """Two coefficients at 0 that hang together, both near enough to leave their bound."""
    information = np.array([[4.0, 3.0], [3.0, 4.0]])
    return Parameters(
        names=("a", "b"),
        estimates=np.zeros(2),
        jacobian=np.eye(2),
        information=information,
        outer=information,
        scatter=information,
        gradient=np.array(gradient),
        free=np.ones(2, bool),
        lower=np.zeros(2),
        limits=np.full(2, np.nan),
        trajectories=50,
    )


@pytest.mark.parametrize("gradient", [[1.0, 0.5], [0.2, 1.5]])
def test_a_coefficient_on_its_bound_is_not_significant(gradient):
    # One free beside it was taken along without its own slope: p-values of 5 % in half the draws.
    found = two_on_their_bounds(gradient)
    assert (found.p_values >= 0.5).all()
    # Both may leave their bounds as far as the interval goes: the model's minimum over both.
    step = -np.linalg.solve(found.information, found.gradient)
    error = np.sqrt(np.diagonal(np.linalg.inv(found.information)))
    reach = step + np.hypot(np.minimum(step, 0.0), 1.6448536269514722 * error)
    assert_allclose(found.intervals[:, 1], reach, rtol=1e-10)  # the same numbers by another solve


def test_directions_that_do_not_show_are_not_counted(seen):
    mdp, features = grid().mdp, grid().features
    twice = Features(np.repeat(features.reward, 2, axis=-1), features.costs)
    once = Likelihood(level=1.0, free_reward=True)
    single = once.fit(mdp, features, seen, throw=False)
    double = once.fit(mdp, twice, seen, throw=False)
    assert double.parameters.degrees == single.parameters.degrees
    assert double.aic == pytest.approx(single.aic, abs=1e-3)  # two searches of one maximum


def test_ratios_of_nothing_are_nothing():
    found = unmeasured(["a", "b"], [np.nan, np.nan], lower=-np.inf, absence="no temperature")
    ratio = found.ratio(0, 1)
    assert np.isnan([ratio.estimate, ratio.standard_error, *ratio.interval]).all()
