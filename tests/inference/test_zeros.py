"""Many weights at 0: prices have a law of their own, and price over temperature does not care."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tacit
from kinds import told
from rates import coverage_verdict, rates_of
from tacit.inference import gauged_intervals
from tacit.inference.findings import Kind
from tacit.inference.gauge import Gauge, GaugeRatios
from tacit.inference.profiles import CUT, Landscape, landscape
from tacit.search.algebra import least_squares
from tacit_lab import worlds


def around(rows: np.ndarray, place: np.ndarray, noise: np.ndarray) -> Landscape:
    """The loss that one draw of the noise makes, its truth at `place`."""
    goal, size = rows @ place + noise, len(place)
    found, _ = least_squares(rows, goal)
    return landscape(
        found,
        rows.T @ (rows @ found - goal),
        rows.T @ rows,
        lower=np.zeros(size),
        upper=np.full(size, np.inf),
        moving=np.ones(size, bool),
    )


@pytest.mark.parametrize("zeros", [0, 18])
def test_the_cuts_of_both_ends_are_those_of_fresh_draws(zeros):
    rng = np.random.default_rng(zeros)
    size = 3 + zeros
    rows = np.linalg.cholesky(np.eye(size) + 0.3 * np.ones((size, size))).T
    truth = np.r_[6.0, 6.0, np.zeros(zeros), 9.0]
    form = np.eye(size)[-1] - 0.75 * np.r_[np.ones(size - 1), 0.0]
    ratios, sides, cuts = [], [], []
    for i in range(200):
        seen = around(rows, truth, rng.standard_normal(size))
        ratios.append(2.0 * seen.rise(form, 0.0))
        sides.append(np.sign(form @ seen.best))
        if i < 8:  # the cut hardly moves from draw to draw
            cuts.append([seen.cut(form, 0.0, side) for side in (1.0, -1.0)])
    inside = np.array(ratios) <= np.where(np.array(sides) > 0, *np.mean(cuts, axis=0))
    assert np.mean(inside) >= 0.90  # .95 in 200 draws, less three standard errors
    if zeros:
        assert np.max(cuts) > 1.5 * CUT
        assert np.mean(np.array(ratios) <= CUT) < np.mean(inside) - 0.1
    else:
        np.testing.assert_array_equal(cuts, CUT)


def test_prices_among_many_zeros_have_intervals_that_hold():
    world = worlds.six_by_six()
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=1.0))
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=100, steps=100, seed=1)
    found = tacit.Likelihood(level=1.0).fit(world.mdp, world.features, seen, throw=False)
    ends, known = found.identification.multiplier_intervals, found.identification
    assert (ends[:, 0] <= expert.multipliers).all()
    assert (expert.multipliers <= ends[:, 1]).all()
    # The price over the temperature, 1, is near the truth where the price itself is half of it.
    stable = found.noise_prices
    assert (np.abs(stable.z * (1 - expert.multipliers / stable.estimates)) < 3).all()
    assert_allclose(stable.estimates, found.multipliers / found.temperature)
    for k in range(2):
        note = told(known.findings, Kind.NOTE, constraint=k)
        assert note[0].about.number == pytest.approx(stable.estimates[k])


def weight_beside_zeros(rng: np.random.Generator) -> tuple[float, float]:
    """The interval of a weight of .6 among twelve, ten of which are 0, by one Gaussian draw."""
    size, true = 12, np.array([3.0, 2.0, *np.zeros(10)])
    rows = np.linalg.cholesky(0.6 * np.eye(size) + 0.4).T * 5.0
    loss = around(rows, true, rng.standard_normal(size))
    x = loss.best
    parts = GaugeRatios(np.eye(size), np.ones((size, size)), np.zeros(size), np.full(size, x.sum()))
    gauge = SimpleNamespace(ratios=parts, reward_weights=x / x.sum(), cost_weights=())
    return gauged_intervals._weight_ends(loss, cast(Gauge, gauge), 0, (0.0, 1.0))


def test_a_clear_weight_beside_many_zeros_has_a_wider_interval(monkeypatch):
    low, high = weight_beside_zeros(np.random.default_rng(0))
    monkeypatch.setattr("tacit.inference.profiles.ROUNDS", 0)
    plain = weight_beside_zeros(np.random.default_rng(0))
    assert 0.0 < low <= plain[0] < plain[1] < high < 1.0  # the zeros only take from it: upwards


@pytest.mark.study
def test_clear_weights_beside_many_zeros_have_intervals_that_hold(monkeypatch):
    def held() -> np.ndarray:
        rng = np.random.default_rng(1)
        ends = np.array([weight_beside_zeros(rng) for _ in range(80)])
        return (ends[:, 0] <= 0.6) & (ends[:, 1] >= 0.6)

    simulated = held()
    monkeypatch.setattr("tacit.inference.profiles.ROUNDS", 0)
    found = coverage_verdict(rates_of("simulated cut", simulated))
    assert found.reached, found
    assert held().mean() < simulated.mean()
