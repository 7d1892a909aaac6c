"""Some solves and recoveries give the numbers stored; `tests/net.py` compares them all."""

import pytest

import net

# Another processor or BLAS may differ in the last digits, and an iteration may carry that on; on
# one machine `python tests/net.py --against tests/net_numbers.npz` holds all cases to 1e-12.
TOLERANCE = 1e-9
CHEAP = (
    "solve_exact",
    "solve_occupancy",
    "solve_infeasible",
    "convex",
    "explanation",
    "alternating_published",
    "tally",
)


@pytest.fixture(scope="module")
def stored():
    return net.read()


@pytest.mark.parametrize("key", CHEAP)
def test_the_numbers_are_those_stored(stored, key):
    found, _ = net.ran([key])
    worst, where = net.difference(stored[key], found[key])
    assert worst <= TOLERANCE, where


def test_every_case_is_stored(stored):
    assert sorted(stored) == sorted(net.CASES)


def test_a_difference_is_seen(stored):
    numbers = stored["solve_exact"]
    moved = numbers | {"K2.value": numbers["K2.value"] * (1 + 1e-8)}
    assert net.difference(numbers, numbers) == (0.0, "")
    assert net.difference(numbers, moved)[0] > TOLERANCE
    assert (
        net.difference(numbers, numbers | {"K2.status": net.np.array(["OTHER"])})[0] == net.np.inf
    )
