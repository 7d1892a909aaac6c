"""Recovery where only a log of rows is known."""

from dataclasses import replace

import numpy as np
import pytest

import continuous
import tacit
from rates import coverage_verdict, rates_of
from tacit import Features, Logged, Measurements, bases
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.inference.findings import Kind

FREE = tacit.Likelihood(free_reward=True, level=1.0)


def test_intervals_hold_the_truth_on_a_continuous_plane():
    held, errors = [], []
    for seed in range(20):
        drawn = continuous.navigation(2000, seed)
        world = Logged(0.9, basis=bases.Gaussian(50))
        found = tacit.recover(world, drawn.features, drawn.rows, estimator=FREE)
        low, high = found.parameters.intervals.T
        held.append((low <= drawn.truth) & (drawn.truth <= high))
        errors.append(np.abs(found.parameters.estimates - drawn.truth).sum() / 7.0)
    assert coverage_verdict(rates_of("coefficients", np.array(held))).reached
    # The Cramer-Rao bound of known dynamics is .15 here, and bins are off by .15 to .28.
    assert np.mean(errors) < 0.25


@pytest.fixture(scope="module")
def drawn():
    return continuous.navigation(1000, 0)


@pytest.fixture(scope="module")
def found(drawn):
    world = Logged(0.9, basis=bases.Gaussian(40))
    return tacit.recover(world, drawn.features, drawn.rows, estimator=FREE)


def test_an_answer_is_functions_of_rows(drawn, found):
    rows = drawn.rows.observations[:5]
    assert found.objective is None
    assert found.solution is None
    reward = found.reward(rows, 3)
    columns = np.stack([continuous.goal(rows, 3), continuous.east(rows, 3)], axis=1)
    np.testing.assert_allclose(reward, columns @ found.reward_weights, rtol=1e-12)
    weights = np.nan_to_num(found.cost_weights[0])
    charged = continuous.hill(rows, 0) * weights
    np.testing.assert_allclose(found.costs(rows, "0")[0], charged, rtol=1e-12)


def test_the_policy_at_the_rows_is_what_the_likelihood_is_of(drawn, found):
    chances = found.policy(drawn.rows)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    taken = chances[drawn.rows.states, drawn.rows.actions]
    assert np.log(taken).sum() == pytest.approx(found.log_likelihood, rel=1e-9)


def test_predictions_at_rows_have_intervals_with_the_errors_of_the_regression(drawn, found):
    rows = drawn.rows.observations[:40]
    told = found.predict(rows)
    np.testing.assert_allclose(told.probabilities, found.policy(rows), rtol=1e-9)
    assert told.labels.keys() == {"x", "y"}
    places, discount = continuous.bilinear(rows), 0.9
    worth = np.einsum("nk,nka->na", places[1], continuous.WORTH[discount][places[0]])
    chances = np.exp(worth - np.logaddexp.reduce(worth, axis=1)[:, None])
    held = (told.intervals[..., 0] <= chances) & (chances <= told.intervals[..., 1])
    size = len(found.regression.reference)
    alone = replace(
        found.regression,
        moves=found.regression.moves[:, :size],
        shared=found.regression.shared[:, :0],
    )
    known = replace(found, regression=alone).predict(rows).intervals
    less = (known[..., 0] <= chances) & (chances <= known[..., 1])
    assert held.mean() > 0.75  # most; a ridge bends what it cannot tell
    assert less.mean() < held.mean() - 0.1
    with pytest.raises(InvalidModel, match="need them"):
        found.predict()
    with pytest.raises(InvalidModel, match="one column for each of x, y"):
        found.predict([[1.0, 2.0, 3.0]])


def test_questions_about_coefficients_are_answered_for_rows(drawn, found):
    test = found.test("goal = east")
    assert test.p_value == pytest.approx(found.test("goal - east = 0").p_value)
    ratio = found.function(lambda c: c["goal"] / c["east"])
    assert ratio.interval[0] < ratio.estimate < ratio.interval[1]
    options = tacit.Likelihood(free_reward=True, level=1.0, fixed={"hill": 0.0})
    world = Logged(0.9, basis=bases.Gaussian(40))
    less = tacit.recover(world, drawn.features, drawn.rows, estimator=options)
    assert 0.0 < found.compare_lr(less).p_value <= 1.0
    with pytest.raises(InvalidModel, match="needs a world to change"):
        found.counterfactual(closed=[1])


def test_errors_say_what_not_knowing_the_dynamics_costs(found):
    known = found.identification.dynamics
    assert known.made == "only logged"
    assert known.price > 0.3
    about = [one for one in found.identification.findings if one.kind is Kind.ERRORS]
    assert any(one.about.number == known.growth for one in about)


def test_the_answer_does_not_depend_on_shifts_and_units_of_features(drawn, found):
    moved = Features.from_functions(
        reward={
            "goal": lambda rows, a: 7.0 + 2.0 * continuous.goal(rows, a),
            "east": continuous.east,
        },
        costs=[{"hill": continuous.hill}],
    )
    world = Logged(0.9, basis=bases.Gaussian(40))
    other = tacit.recover(world, moved, drawn.rows, estimator=FREE).parameters
    factors = np.array([0.5, 1.0, 1.0])
    np.testing.assert_allclose(other.estimates, factors * found.parameters.estimates, rtol=1e-6)
    np.testing.assert_allclose(
        other.standard_errors, factors * found.parameters.standard_errors, rtol=1e-6
    )


def test_individuals_are_what_errors_take_as_independent(drawn):
    pairs = [drawn.rows.trajectory(e) for e in range(drawn.rows.episodes)]
    rows = [(drawn.rows.observations[states], actions) for states, actions in pairs]
    named = Measurements.from_trajectories(
        rows, individuals=[f"walker {e // 2}" for e in range(len(rows))]
    )
    world = Logged(0.9, basis=bases.Gaussian(40))
    found = tacit.recover(world, drawn.features, named, estimator=FREE)
    assert found.parameters.errors == "clustered"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda d: (Logged(0.9), d.features, d.rows.numbered()), "rows of measurements"),
        (lambda d: (Logged(0.9), Features(np.zeros((3, 1)), []), d.rows), "features of rows"),
        (lambda d: (Logged(0.9, exogenous=["z"]), d.features, d.rows), "'z'"),
        (lambda d: (Logged(1.0), d.features, d.rows), "discount 1 needs episodes that all end"),
        (lambda d: (Logged(0.9, basis=lambda rows: rows[:3]), d.features, d.rows), "a basis must"),
    ],
)
def test_bad_input_is_one_line(drawn, make, said):
    with pytest.raises((InvalidModel, InvalidDemonstrations), match=said) as error:
        tacit.recover(*make(drawn))
    assert "\n" not in str(error.value)


def test_a_recovery_is_summarised_saved_and_loaded(drawn, found, tmp_path):
    assert "hill" in found.summary()
    found.save(tmp_path / "run")
    again = tacit.Recovery.load(tmp_path / "run")
    assert isinstance(again, tacit.LoggedRecovery)
    np.testing.assert_array_equal(again.parameters.intervals, found.parameters.intervals)
    rows = drawn.rows.observations[:4]
    worth = found.regression.worth(rows)
    np.testing.assert_array_equal(again.regression.worth(rows), worth)
    with pytest.raises(InvalidModel, match="functions are not kept in files"):
        again.policy(rows)


def test_formulas_are_kept_in_files(drawn, tmp_path):
    features = Features.from_formula(reward="x + y + x:y")
    world = Logged(0.9, basis=bases.Gaussian(40))
    found = tacit.recover(world, features, drawn.rows, estimator=FREE)
    found.save(tmp_path / "run")
    again = tacit.Recovery.load(tmp_path / "run")
    rows = drawn.rows.observations[:4]
    np.testing.assert_allclose(again.policy(rows), found.policy(rows), rtol=1e-12)


def test_lapses_are_a_kind_of_steps_here_too(drawn):
    options = tacit.Likelihood(free_reward=True, level=1.0, lapses=True)
    world = Logged(0.9, basis=bases.Gaussian(40))
    found = tacit.recover(world, drawn.features, drawn.rows, estimator=options, throw=False)
    assert 0.0 <= found.lapses.share < 0.2


def test_a_basis_is_chosen_by_episodes_held_out_and_by_doubling(drawn):
    found = tacit.recover(Logged(0.9), drawn.features, drawn.rows, estimator=FREE)
    tried = found.basis.columns
    assert len({*tried["family"]}) > 3
    best = np.nanargmax(tried["score"])
    assert tried["family"][best].startswith(("Gaussian", "Matern"))
    assert np.nanmax(tried["shift"]) < 1.0  # a smooth world
    said = [one for one in found.identification.findings if one.about.number is not None]
    moved = [one for one in said if one.about.number == found.basis.unsettled]
    settled = np.nanmin(tried["shift"]) < 0.5  # one of the families did
    assert np.isnan(found.basis.unsettled) == settled
    assert bool(moved) == (not settled)
    assert all(one.kind is Kind.BASIS for one in moved)


def test_what_is_left_after_an_action_is_shared_by_all_actions():
    drawn = continuous.two_engines(1000, 0)
    found = tacit.recover(drawn.world, drawn.features, drawn.rows, estimator=FREE)
    off = np.abs(found.parameters.estimates - drawn.truth)
    assert (off < 3.0 * found.parameters.standard_errors).all()
    assert found.regression.inputs.shared
    wrong = Logged(0.9, basis=bases.Gaussian(20), exogenous=["first"])
    found = tacit.recover(wrong, drawn.features, drawn.rows, estimator=FREE, throw=False)
    said = [one for one in found.identification.findings if one.kind is Kind.DECLARED]
    assert [one.about.feature for one in said] == ["first"]


def test_what_no_action_moves_is_shared_by_all_actions():
    drawn = continuous.firm_entry(1200, 0)
    world = Logged(0.95, bases.Polynomials(2), drawn.world.exogenous)
    found = tacit.recover(world, drawn.features, drawn.rows, estimator=FREE)
    off = np.abs(found.parameters.estimates - drawn.truth)
    assert (off < 3.5 * found.parameters.standard_errors).all()
    # "Previous action" is set by the action: that is found out, and gives it the constant 0 or 1.
    np.testing.assert_array_equal(found.regression.inputs.law[:, 0], [[0.0, 0.0], [1.0, 0.0]])
    assert not [one for one in found.identification.findings if one.kind is Kind.DECLARED]


def test_actions_that_are_rare_for_so_many_functions_are_a_finding(drawn):
    few = drawn.rows.select(np.arange(4))
    world = Logged(0.9, basis=bases.Gaussian(60))
    found = tacit.recover(world, drawn.features, few, estimator=FREE, throw=False)
    rare = [one for one in found.identification.findings if one.kind is Kind.BASIS]
    assert {one.about.action for one in rare} == set(range(5))


def test_a_discount_profile_is_of_logged_worlds_too(drawn):
    world = Logged(0.9, basis=bases.Gaussian(30))
    found = tacit.checks.discount_profile(world, drawn.features, drawn.rows, [0.5, 0.9])
    assert found.log_likelihood[1] > found.log_likelihood[0]


def test_a_missing_feature_is_seen_in_functions_of_the_row():
    drawn, world = continuous.navigation(3000, 0), Logged(0.9, basis=bases.Gaussian(30))
    right = tacit.recover(world, drawn.features, drawn.rows, estimator=FREE).goodness
    assert right.verdict == "fits"
    assert {part.name for part in right.parts} >= {"actions", "trajectories", "serial"}
    less = Features.from_functions(reward={"east": continuous.east})
    wrong = tacit.recover(world, less, drawn.rows, estimator=FREE, throw=False)
    assert not wrong.goodness.adequate
    actions = next(part for part in wrong.goodness.parts if part.name == "actions")
    assert actions.p_value < 1e-6
    assert wrong.identification.findings[0].kind is Kind.MISFIT


def test_actions_are_not_tested_where_they_are_too_rare_for_the_basis(found):
    actions = next(part for part in found.goodness.parts if part.name == "actions")
    assert "too seldom" in actions.absence


def walks_of(moved: float, walks: int, steps: int = 12) -> Measurements:
    """Walks of a demonstrator whose actions move the pressure by so much, in hardly any place."""
    random, found = np.random.default_rng(0), []
    for _ in range(walks):
        state, rows, actions = random.normal(size=2), [], []
        for _ in range(steps):
            chance = 1.0 / (1.0 + np.exp(0.4 * state[0]))
            actions.append(int(random.random() < chance))
            rows.append(state)
            state = 0.7 * state + [moved * actions[-1], 0.0] + random.normal(size=2)
        found.append((np.array([*rows, state]), np.array(actions)))
    return Measurements.from_trajectories(found, columns=("pressure", "age"))


PRESSURE_AND_AGE = Features.from_functions(
    reward={"pressure": lambda at, a: at[:, 0], "age": lambda at, a: np.exp(at[:, 1] / 2)}
)


def test_what_only_errors_of_the_regression_tell_is_not_identified():
    seen = walks_of(0.0, 60)
    world = Logged(0.8, basis=bases.Gaussian(50))
    found = tacit.recover(world, PRESSURE_AND_AGE, seen, throw=False)
    assert np.isinf(found.parameters.standard_errors).all()
    np.testing.assert_array_equal(found.identification.reward_intervals, [[-1.0, 1.0]] * 2)
    kinds = [one.kind for one in found.identification.findings]
    assert kinds.count(Kind.NOT_IDENTIFIED) >= 2  # which, and why


def test_intervals_allow_for_errors_of_features_that_hardly_differ_between_actions():
    held = []
    for seed in range(8):
        drawn = continuous.patients(3600, seed, columns=3, missing=0.0)
        world = Logged(0.8, basis=bases.Gaussian(50))
        found = tacit.recover(world, drawn.features, drawn.rows, estimator=FREE)
        low, high = found.parameters.intervals.T
        held.append((low <= drawn.truth) & (drawn.truth <= high))
        told = found.identification.dynamics.attenuation > 1.02
        assert told or np.isinf(high).any()  # or nothing but errors tells of a direction
    assert np.mean(held) >= 0.85  # a half, where errors of the features are not counted


def test_a_weight_that_two_bounds_hold_has_an_interval_within_them(drawn):
    world = Logged(0.9, basis=bases.Gaussian(40))
    options = tacit.Likelihood(free_reward=True, bounds={"goal": (0, 2)}, fixed={"east": 2})
    found = tacit.recover(world, drawn.features, drawn.rows, estimator=options, throw=False)
    low, high = found.identification.reward_intervals[0]
    assert 0.0 <= low <= 0.5
    assert high == pytest.approx(0.5)  # the goal is worth 2 at most, and the east 2


def test_episodes_held_out_are_predicted(drawn):
    world = Logged(0.9, basis=bases.Gaussian(30))
    found = tacit.checks.holdout(world, drawn.features, drawn.rows)
    assert found.recovered.log_likelihood > found.uniform.log_likelihood
    assert found.recovered.lead == 0.0
    assert len(found.held) == 4


def test_groups_are_compared_in_one_world(drawn):
    world, group = Logged(0.9, basis=bases.Gaussian(30)), np.arange(drawn.rows.episodes) % 2
    random, walks = np.random.default_rng(0), []
    for e in range(drawn.rows.episodes):
        states, actions = drawn.rows.trajectory(e)
        other = (group[e] == 1) & (random.random(len(actions)) < 0.4)
        walks.append((drawn.rows.observations[states], np.where(other, 3, actions)))
    apart = Measurements.from_trajectories(walks, columns=drawn.rows.columns)
    about = {"estimator": FREE, "draws": 19}
    test = tacit.checks.equal_weights_test
    alike = test(world, drawn.features, drawn.rows, group, **about)
    assert alike.p_value > 0.05
    assert test(world, drawn.features, apart, group, **about).p_value == pytest.approx(0.05)
    with pytest.raises(InvalidModel, match="no chi-square law"):
        test(world, drawn.features, apart, group, estimator=FREE, draws=0)


def test_replicates_learn_the_world_anew(drawn, found):
    world = Logged(0.9, basis=bases.Gaussian(40))
    options = {"estimator": FREE, "bootstrap": 12}
    again = tacit.recover(world, drawn.features, drawn.rows, **options)
    np.testing.assert_allclose(again.parameters.estimates, found.parameters.estimates)
    own, theirs = (np.ptp(one.parameters.intervals, axis=1) for one in (found, again))
    assert (theirs > 0.2 * own).all()
    assert (theirs < 3.0 * own).all()


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda d: {"estimator": tacit.Mixture(types=2)}, "which steps are of one type"),
        (lambda d: {"estimator": tacit.Likelihood(prior=tacit.features.Ridge(1.0))}, "without p"),
        (
            lambda d: {"estimator": tacit.Likelihood(lapses=True), "bootstrap": 2},
            "how much a step counts",
        ),
    ],
)
def test_what_rows_are_not_asked_says_why(drawn, ask, said):
    world = Logged(0.9, basis=bases.Gaussian(20))
    with pytest.raises(InvalidModel, match=said):
        tacit.recover(world, drawn.features, drawn.rows, throw=False, **ask(drawn))


def test_more_rows_are_pooled_and_not_added(drawn, found):
    with pytest.raises(InvalidModel, match="pool them"):
        found.updated(drawn.rows)


def test_what_is_left_after_an_action_is_identified_by_few_rows():
    for seed in (0, 4):  # begun from a rough policy, errors of the regression look like much there
        drawn = continuous.two_engines(1000, seed)
        found = tacit.recover(drawn.world, drawn.features, drawn.rows, estimator=FREE)
        off = np.abs(found.parameters.estimates - drawn.truth)
        assert (off < 3.0 * found.parameters.standard_errors).all()
        assert np.isfinite(found.parameters.standard_errors).all()
