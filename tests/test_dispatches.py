"""Small problems do not drown in overhead: a solve or a gradient is one compiled call.

The calls are counted by JAX's own profiler, one event for every program that the CPU is handed; the
exact solver's are counted at its own door.
"""

import gzip
import json
from collections import Counter

import jax
import numpy as np
import pytest

import tacit
from tacit.data.observed import tally_of
from tacit.engine.backends import backend_of
from tacit.engine.smooth_dual import point_at
from tacit.forward import pricing as secant
from tacit.inverse.noisy.boltzmann import fit
from tacit.inverse.noisy.coordinates import coordinates

WORLD = tacit.worlds.hill_grid(seed=0, tightness=0.5)
NOISY = tacit.SoftDual(temperature=0.0025)


def programs(folder, work):
    """How many compiled programs ran during `work`, which was done once before."""
    work()
    with jax.profiler.trace(folder, create_perfetto_trace=True):
        work()
    (trace,) = folder.rglob("perfetto_trace.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    names = Counter(event.get("name", "") for event in events)
    return sum(times for name, times in names.items() if "ExecuteHelper" in name)


def test_the_count_sees_every_program(tmp_path):
    twice = jax.jit(lambda x: 2.0 * x)
    assert programs(tmp_path, lambda: [twice(np.ones(3)) for _ in range(5)]) == 5


def test_a_soft_solve_is_one_program(tmp_path):
    assert NOISY.solve(WORLD.mdp, WORLD.truth).iterations > 3
    assert programs(tmp_path, lambda: NOISY.solve(WORLD.mdp, WORLD.truth)) == 1


def test_a_gradient_with_its_hessian_is_one_program(tmp_path):
    space = coordinates(WORLD.mdp, WORLD.features)
    nothing = np.zeros(space.size)
    problem = fit(
        WORLD.mdp,
        space,
        WORLD.mdp.initial,
        nothing,
        lower=nothing,
        tolerance=1e-9,
        max_steps=1,
    ).problem
    world, start = backend_of(WORLD.mdp), np.zeros(WORLD.mdp.states)
    work = lambda: point_at(world, problem, np.ones(space.size), start, 1e-9)  # noqa: E731
    assert programs(tmp_path, work) == 1


@pytest.mark.parametrize("problems", [1, 200])
def test_a_batch_takes_as_many_programs_as_one_problem(tmp_path, problems):
    policy = NOISY.solve(WORLD.mdp, WORLD.truth).policy
    seen = tacit.simulate(WORLD.mdp, policy, trajectories=50, steps=100, seed=0)
    one = tally_of(WORLD.mdp, seen).visitation(np.zeros(WORLD.mdp.states, bool))
    every = np.repeat(one[None], problems, axis=0)
    work = lambda: tacit.many.recover_many(WORLD.mdp, WORLD.features, every)  # noqa: E731
    assert programs(tmp_path, work) <= 3  # a rough look, the search, and one more for stragglers


def test_an_exact_solve_is_one_search(monkeypatch):
    calls = []
    inner = secant.search
    monkeypatch.setattr(secant, "search", lambda *a: (calls.append(1), inner(*a))[1])
    solution = tacit.solve(WORLD.mdp, WORLD.truth)
    assert solution.multipliers[0] > 0
    assert solution.iterations > 2  # unconstrained problems, all inside the one call
    assert len(calls) == 1
