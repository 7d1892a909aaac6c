"""Curves of a recovery: as smooth as the restricted likelihood says, with bands and tests."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import tacit
from tacit.estimators.smoothing import MOST, penalised, smoothed, with_strengths
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design

SIDE = 7
STATES = SIDE * SIDE


def hump(x):
    return 2.0 * np.exp(-((x - 0.5) ** 2) / 0.04)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    return {name: rng.permutation(STATES) / (STATES - 1.0) for name in ("x", "z")} | {
        "goal": (np.arange(STATES) == 24).astype(float)
    }


@pytest.fixture(scope="module")
def world(table):
    rows, columns = np.divmod(np.arange(STATES), SIDE)
    moves = np.zeros((STATES, 4, STATES))
    for a, (down, right) in enumerate([(-1, 0), (1, 0), (0, -1), (0, 1)]):
        there = (rows + down) % SIDE * SIDE + (columns + right) % SIDE
        moves[np.arange(STATES), a, there] = 1.0
    return tacit.MDP(moves, np.full(STATES, 1.0 / STATES), 0.8)


@pytest.fixture(scope="module")
def seen(world, table):
    wanted = tacit.Objective(table["goal"] - hump(table["x"]))
    expert = tacit.solve(world, wanted, solver=tacit.SoftDual(temperature=1.0))
    return tacit.simulate(world, expert.policy, trajectories=160, steps=50, seed=1)


def recovered(world, seen, table, reward, costs=(), **options):
    features = tacit.Features.from_formula(reward, costs, data=table)
    return tacit.Likelihood(**options).fit(world, features, seen)


@pytest.fixture(scope="module")
def found(world, seen, table):
    return recovered(world, seen, table, "goal + s(z)", ["s(x)"])


def test_the_curve_is_found_and_its_band_holds_it(found, table):
    nothing, curve = found.curves
    truth = hump(table["x"]) - hump(table["x"]).mean()
    here = curve.at(table["x"])
    assert np.sqrt(np.mean((here.values - truth) ** 2)) < 0.15  # of a height of 2
    whole = curve.at(table["x"], simultaneous=True)
    assert ((whole.lower <= truth) & (truth <= whole.upper)).all()
    assert curve.p_value < 1e-6
    assert curve.straight_p_value < 1e-6
    assert nothing.p_value > 0.01
    assert nothing.degrees < 4 < curve.degrees < 11


def test_bands_hold_the_values_and_simultaneous_ones_the_pointwise(found):
    for curve in found.curves:
        here, whole = curve.at(), curve.at(simultaneous=True)
        assert (here.lower <= here.values).all()
        assert (here.values <= here.upper).all()
        assert (whole.lower <= here.lower).all()
        assert (here.upper <= whole.upper).all()
        frame = curve.frame()
        np.testing.assert_array_equal(frame["value"], here.values)
        assert frame.columns[0] == curve.variables[0]


def test_strengths_are_stationary_in_the_restricted_likelihood(world, seen, table):
    features = tacit.Features.from_formula("goal + s(z) + s(x)", data=table)
    space = Design.of(world, features)
    full = maximum(StepsChain.of(world, space, seen), tacit.Likelihood())
    curves = penalised(space)
    end = smoothed(full, curves, seen)

    def restricted(strengths):
        """Laplace's approximation, written out."""
        fit = with_strengths(end.fit, curves, strengths)
        total = end.information.copy()
        sizes = 0.0
        for own, (strength,) in zip(curves, strengths, strict=True):
            total[np.ix_(own.rows, own.rows)] += strength * own.penalties[0]
            values = np.linalg.eigvalsh(strength * own.penalties[0])
            sizes += np.log(values[values > 1e-9 * values.max()]).sum()
        return fit.loss + 0.5 * np.linalg.slogdet(total)[1] - 0.5 * sizes

    best = restricted(end.strengths)
    for k in range(2):
        own = curves[k].within(end.information)
        at_most = end.strengths[k] > 0.9 * MOST * np.trace(own)  # of a straight line there is none
        for factor in (0.4,) if at_most else (0.4, 2.5):
            other = [one * (factor if j == k else 1.0) for j, one in enumerate(end.strengths)]
            assert restricted(other) > best - 1e-3  # strengths settle to a twentieth


def test_tests_and_intervals_are_of_the_fit_without_penalties(world, seen, table, found):
    plain = tacit.Features.from_formula("goal + s(z)", ["s(x)"], data=table)
    space = Design.of(world, plain)
    full = maximum(StepsChain.of(world, space, seen), tacit.Likelihood())
    np.testing.assert_allclose(found.parameters.tested, full.z / space.scales, rtol=1e-6)
    less = recovered(world, seen, table, "goal", ["s(x)"])
    nothing = found.curves[0]
    alone = maximum(
        StepsChain.of(world, Design.of(world, tacit.Features.from_formula(
            "goal", ["s(x)"], data=table)), seen), tacit.Likelihood())  # fmt: skip
    from scipy.stats import chi2

    ratio = 2.0 * (alone.loss - full.loss)
    assert nothing.p_value == pytest.approx(chi2.sf(ratio, 11), rel=1e-4)
    assert len(less.curves) == 1


def test_a_known_shape_is_kept_and_found(world, seen, table):
    rising = recovered(world, seen, table, "goal + s(x, shape='increasing')")
    (curve,) = rising.curves
    here = curve.at()
    for ends in (here.values, here.lower, here.upper):
        assert np.diff(ends).min() > -1e-9
    assert (rising.parameters.estimates >= 0.0).all()


def test_few_steps_have_the_band_of_the_fit_without_a_penalty(world, seen, table):
    few = recovered(world, seen.select(np.arange(40)), table, "goal + s(x)")
    (curve,) = few.curves
    np.testing.assert_allclose(curve.centre, few.parameters.tested[1:], rtol=1e-9)
    covariance = few.parameters.covariance[1:, 1:]
    np.testing.assert_allclose(curve.covariance, covariance, rtol=1e-6, atol=1e-9)


def test_surfaces_are_always_penalised(world, seen, table):
    (surface,) = recovered(world, seen, table, "goal + te(x, z, k=6)").curves
    assert surface.strengths.shape == (2,)
    assert surface.p_value < 1e-6
    grid = np.stack([table["x"], table["z"]], axis=1)
    truth = -hump(table["x"]) + hump(table["x"]).mean()
    assert np.corrcoef(surface.at(grid).values, truth)[0, 1] > 0.9


def test_the_same_curve_in_reward_and_cost_is_told_as_a_difference(world, seen, table):
    both = recovered(world, seen, table, "goal + s(x)", ["s(x)"])
    alone = recovered(world, seen, table, "goal + s(x)")
    (curve,) = both.curves
    np.testing.assert_allclose(curve.at().values, alone.curves[0].at().values, atol=1e-5)
    told = [one for one in both.identification.findings if "difference" in one]
    assert len(told) == 1
    assert "s(x) of cost 0 and s(x) of the reward" in told[0]


def test_curves_are_kept_with_the_recovery(found, tmp_path):
    found.save(tmp_path)
    again = tacit.Recovery.load(tmp_path)
    for one, other in zip(found.curves, again.curves, strict=True):
        np.testing.assert_array_equal(one.at().lower, other.at().lower)
        assert repr(one) == repr(other)


def test_misfit_gives_wider_bands(world, seen, table, found):
    # Two kinds of demonstrators, of which one walks at random.
    rng = np.random.default_rng(0)
    actions = seen.actions.copy()
    lost = np.repeat(np.arange(seen.episodes) % 2 == 0, seen.lengths)
    actions[lost] = rng.integers(4, size=int(lost.sum()))
    states, walks = seen.states, []
    following = (world.dense() > 0).argmax(axis=2)
    for e in range(seen.episodes):
        own = slice(seen.offsets[e], seen.offsets[e + 1])
        state, path = states[own.start], []
        for action in actions[own]:
            path.append(state)
            state = following[state, action]
        walks.append((np.array(path), actions[own]))
    mixed = tacit.Demonstrations.from_trajectories(walks)
    wrong = recovered(world, mixed, table, "goal + s(z)", ["s(x)"])
    assert not wrong.goodness.adequate
    assert wrong.parameters.errors == "clustered"
    assert np.isfinite(wrong.curves[1].covariance).all()


def test_wrong_grids_are_refused(found):
    with pytest.raises(tacit.InvalidModel, match="grid of s"):
        found.curves[0].at(np.zeros((3, 2)))
    with pytest.raises(tacit.InvalidModel, match="confidence"):
        found.curves[0].at(confidence=1.5)
    assert replace(found.curves[0], absence="nothing is known").at().values.shape == (100,)


def test_a_straight_line_keeps_its_degree_of_freedom(found):
    straight = found.curves[0]
    assert straight.degrees > 0.99
    slope = np.gradient(straight.at().standard_errors)
    assert np.abs(slope).max() > 0.0


def test_curves_of_rows_without_a_model_are_smoothed():
    places = np.linspace(0.0, 1.0, 30)
    moves = np.zeros((30, 2, 30))
    for a, step in enumerate((-2, 2)):
        for slip in (-1, 0, 1):
            there = (np.arange(30) + step + slip).clip(0, 29)
            moves[np.arange(30), a, there] += 1.0 / 3.0
    line = tacit.MDP(moves, np.full(30, 1.0 / 30.0), 0.7)
    expert = tacit.solve(line, tacit.Objective(hump(places)), solver=tacit.SoftDual(1.0))
    walks = tacit.simulate(line, expert.policy, trajectories=100, steps=50, seed=0)
    rows = [
        (places[walks.states[a:b], None], walks.actions[a:b])
        for a, b in itertools.pairwise(walks.offsets.tolist())
    ]
    seen = tacit.Measurements.from_trajectories(rows, columns=["x"])
    logged = tacit.Logged(discount=0.7, basis=tacit.bases.Gaussian(15))
    features = tacit.Features.from_formula("s(x)")
    found = tacit.recover(logged, features, seen, estimator=tacit.Likelihood(), throw=False)
    (curve,) = found.curves
    grid = np.linspace(0.05, 0.95, 20)
    assert np.corrcoef(curve.at(grid).values, hump(grid))[0, 1] > 0.9
    assert curve.p_value < 1e-6
    assert curve.density.sum() == pytest.approx(1.0)


def test_curves_of_trips_are_smoothed(world, table):
    rng = np.random.default_rng(4)
    walks = []
    for _ in range(150):
        state, path, done = int(rng.integers(STATES)), [], []
        while state != 24 and len(path) < 200:
            action = int(rng.integers(4))
            path.append(state)
            done.append(action)
            state = int(world.dense()[state, action].argmax())
        if state == 24 and path:
            walks.append(([*path, 24], done))
    seen = tacit.Demonstrations.from_trajectories(walks)
    features = tacit.Features.from_formula(
        "step", ["s(x)"], data=table | {"step": -np.ones(STATES)}
    )
    found = tacit.recover(tacit.Trips(world, features, seen), throw=False)
    (curve,) = found.curves
    assert curve.density.sum() == pytest.approx(1.0)
    assert curve.p_value > 1e-3


def test_where_curves_are_not_smoothed_it_is_said(world, seen, table):
    features = tacit.Features.from_formula("goal", ["s(x)"], data=table)
    found = tacit.Likelihood(lapses=True).fit(world, features, seen)
    assert not found.curves
    assert any("not smoothed" in one for one in found.identification.findings)


def test_criteria_count_effective_degrees(found):
    smooth = sum(curve.degrees for curve in found.curves)
    count = (2.0 * found.log_likelihood + found.aic) / 2.0
    assert count == pytest.approx(1.0 + smooth)
