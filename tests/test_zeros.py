"""Many weights at 0: prices have a law of their own, and price over temperature does not care."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tacit
from kinds import told
from tacit.inverse import least_squares
from tacit.inverse.findings import Kind
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
            cuts.append(seen.cut(top, bottom, share, 1.0, seen.zeros(bottom)))
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
