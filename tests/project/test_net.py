"""Some solves and recoveries give the numbers stored; `tools/net.py` compares them all."""

import pytest

import net

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
    assert worst <= net.LIMIT, where


def test_every_case_is_stored(stored):
    assert sorted(stored) == sorted(net.CASES)


def test_a_difference_is_seen(stored):
    numbers = stored["solve_exact"]
    moved = numbers | {"K2.value": numbers["K2.value"] * (1 + 1e-6)}
    assert net.difference(numbers, numbers) == (0.0, "")
    assert net.difference(numbers, moved)[0] > net.LIMIT
    assert (
        net.difference(numbers, numbers | {"K2.status": net.np.array(["OTHER"])})[0] == net.np.inf
    )
