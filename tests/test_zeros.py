"""Many weights at 0: prices have a law of their own, and price over temperature does not care."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tacit
from kinds import told
from rates import coverage_verdict, rates_of
from tacit.inference.numerics import least_squares
from tacit.inverse import noisy
from tacit.inverse.findings import Kind
from tacit.inverse.noisy import Ratios, Split, intervals, ratio_cut
from tacit.inverse.noisy.boltzmann import Fit
from tacit.inverse.noisy.steps import Landscape

PLAIN = 0.5 * 1.96**2


def around(rows: np.ndarray, place: np.ndarray, noise: np.ndarray) -> Landscape:
    """The loss that one draw of the noise makes, its truth at `place`."""
    goal = rows @ place + noise
    found, missed = least_squares(rows, goal)
    size = len(place)
    return Landscape(rows, goal, np.eye(size), np.zeros(size), least=0.5 * missed**2, best=found)


@pytest.mark.parametrize(("zeros", "law"), [(0, (1.2, 2.8)), (18, (2.5, 12.0))])
def test_the_cut_is_that_of_fresh_draws(zeros, law):
    rng = np.random.default_rng(zeros)
    size = 3 + zeros
    rows = np.linalg.cholesky(np.eye(size) + 0.3 * np.ones((size, size))).T
    truth = np.r_[6.0, 6.0, np.zeros(zeros), 9.0]
    bottom, top = np.r_[np.ones(size - 1), 0.0], np.eye(size)[-1]
    price = 9.0 / 12.0
    share = price / (1.0 + price)
    kept, rises, cuts = [], [], []
    for i in range(100):
        seen = around(rows, truth, rng.standard_normal(size))
        rise = seen.rise(top - price * bottom, 0.0)
        rises.append(rise)
        if i < 8:  # the cut hardly moves from draw to draw
            cuts.append(
                ratio_cut(seen, top, bottom, share=share, unit=1.0, zeros=seen.zeros(bottom))
            )
    cut = float(np.mean(cuts))
    kept = float(np.mean(np.array(rises) <= cut))
    assert law[0] < cut < law[1]
    assert kept >= 0.88  # 0.95 in 100 draws, less three standard errors
    if zeros:
        assert np.mean(np.array(rises) <= PLAIN) < kept - 0.1  # what the chi-square cut would hold


def test_prices_among_many_zeros_have_intervals_that_hold():
    world = tacit.worlds.six_by_six()
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
    parts = Ratios(np.eye(size), np.ones((size, size)), np.zeros(size), np.full(size, x.sum()))
    gauge = SimpleNamespace(ratios=parts, reward_weights=x / x.sum(), cost_weights=())
    problem = SimpleNamespace(lower=np.zeros(size), upper=np.full(size, 1e5))
    fitted = SimpleNamespace(free=x > 0, problem=problem, point=SimpleNamespace(x=x))
    return intervals._weight_ends(loss, cast(Split, gauge), cast(Fit, fitted), 0, (0.0, 1.0))


def test_the_cut_of_a_clear_weight_is_not_short_by_its_own_draws():
    # The same few draws simulate every cut: that of 200 held in 93 % of 2000 fresh ones.
    size, rng = 12, np.random.default_rng(1)
    rows = np.linalg.cholesky(0.6 * np.eye(size) + 0.4).T * 5.0
    true, top = np.array([3.0, 2.0, *np.zeros(10)]), np.eye(size)[0]
    fresh = [around(rows, true, rng.standard_normal(size)) for _ in range(500)]
    rises = np.array([one.rise(top - 0.6, 0.0) for one in fresh])
    zeros = fresh[0].zeros(1.0 - top)
    cut = ratio_cut(fresh[0], top, 1.0 - top, share=0.6, unit=1.0, zeros=zeros)
    # 95 %, less one Monte Carlo error of 500.
    assert np.mean(rises <= PLAIN) < 0.9 < 0.94 <= np.mean(rises <= cut) < 0.98


def test_a_clear_weight_beside_many_zeros_has_a_wider_interval(monkeypatch):
    low, high = weight_beside_zeros(np.random.default_rng(0))
    monkeypatch.setattr(noisy, "REFINED", 0)
    plain = weight_beside_zeros(np.random.default_rng(0))
    assert 0.0 < low <= plain[0] < plain[1] < high < 1.0  # the zeros only take from it: upwards


@pytest.mark.study
def test_clear_weights_beside_many_zeros_have_intervals_that_hold(monkeypatch):
    def held() -> np.ndarray:
        rng = np.random.default_rng(1)
        ends = np.array([weight_beside_zeros(rng) for _ in range(80)])
        return (ends[:, 0] <= 0.6) & (ends[:, 1] >= 0.6)

    simulated = held()
    monkeypatch.setattr(noisy, "REFINED", 0)
    found = coverage_verdict(rates_of("simulated cut", simulated))
    assert found.reached, found
    assert held().mean() < simulated.mean()
