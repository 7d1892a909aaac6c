"""The compiled soft backup: its own exp and log against NumPy's, and its way with bad numbers."""

import numpy as np
import pytest
from scipy.special import softmax

from tacit.engine.kernels.backups import BLOCK, NOTHING, exponentials, fused_backup, logarithms
from tacit.forward.solution import soft_values


def model(states, actions, width, lanes, seed=0):
    random = np.random.default_rng(seed)
    chances = random.dirichlet(np.ones(width), (states, actions))
    reached = random.integers(0, states, (states, lanes, width)).astype(np.int32)
    return reached, chances


def backup(reached, chances, discount, temperature, reward, values, first=0, last=None):
    backed, policy = np.full(len(values), -7.0), np.full(reward.shape, -7.0)
    last = len(values) if last is None else last
    fused_backup(
        reached,
        chances,
        discount,
        temperature,
        reward,
        values,
        NOTHING,
        backed,
        policy,
        first,
        last,
    )
    return backed, policy


@pytest.mark.parametrize("temperature", [1e-3, 0.05, 1.0, 1e3])
@pytest.mark.parametrize(
    "shape", [(3, 1, 1, 1), (BLOCK, 4, 5, 1), (BLOCK + 1, 4, 5, 4), (2 * BLOCK - 1, 2, 3, 2)]
)
def test_equals_the_formula(shape, temperature):
    reached, chances = model(*shape)
    random = np.random.default_rng(1)
    reward, values = random.normal(size=shape[:2]), random.normal(size=shape[0])
    utility = reward + 0.9 * (chances * values[reached]).sum(axis=2)
    backed, policy = backup(reached, chances, 0.9, temperature, reward, values)
    # A utility is divided by the temperature: rounding of the quotient is rounding of the policy.
    rounding = 1e-15 * (1.0 + np.abs(utility).max() / temperature)
    np.testing.assert_allclose(
        backed, soft_values(utility, temperature), rtol=0, atol=1e-14 + 1e-15 * temperature
    )
    np.testing.assert_allclose(
        policy, softmax(utility / temperature, axis=1), rtol=0, atol=4 * rounding
    )
    np.testing.assert_allclose(policy.sum(axis=1), 1.0, rtol=0, atol=1e-15 * shape[1])


def test_writes_its_own_rows_only():
    reached, chances = model(40, 2, 3, 1)
    backed, policy = backup(reached, chances, 0.9, 1.0, np.zeros((40, 2)), np.zeros(40), 10, 30)
    assert (backed[:10] == -7).all()
    assert (backed[30:] == -7).all()
    assert (backed[10:30] > 0).all()
    assert (policy[:10] == -7).all()
    assert (policy[30:] == -7).all()


def test_exponentials_to_the_last_digits():
    x = -np.concatenate([np.geomspace(1e-300, 700, BLOCK - 2), [0.0, 708.0]])
    table, mass = x.copy(), np.ones(BLOCK)
    exponentials(table, np.zeros(BLOCK), mass, np.empty(BLOCK))
    np.testing.assert_allclose(table, np.exp(x), rtol=5e-16)
    np.testing.assert_array_equal(mass, 1.0 + table)


def test_what_is_out_of_reach_keeps_a_trace_of_chance():
    table, mass = np.full(BLOCK, -1e9), np.zeros(BLOCK)
    exponentials(table, np.zeros(BLOCK), mass, np.empty(BLOCK))
    assert (table > 0).all()
    assert (table < 1e-300).all()


def test_logarithms_to_the_last_digits():
    x = np.concatenate([np.linspace(1.0, 4.0, BLOCK // 2), np.geomspace(1.0, 1e9, BLOCK // 2)])
    out = np.empty(BLOCK)
    logarithms(x.copy(), out)
    np.testing.assert_allclose(out, np.log(x), rtol=5e-16, atol=0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("action", [0, 1])
def test_what_is_no_number_stays_visible(bad, action):
    reached, chances = model(5, 2, 2, 1)
    reward = np.zeros((5, 2))
    reward[3, action] = bad
    backed, policy = backup(reached, chances, 0.9, 1.0, reward, np.zeros(5))
    assert not np.isfinite(backed[3])
    assert not np.isfinite(policy[3]).all()
    assert np.isfinite(np.delete(backed, 3)).all()
