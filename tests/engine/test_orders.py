"""The answer depends on the problem alone: not on imports, threads, or what was asked before."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tacit
from house import house
from pages import skeleton
from tacit.engine import backends
from tacit.engine.backends import (
    DENSE_LIMIT,
    HOST_TABLES,
    TABLE_COPIES,
    Device,
    Engine,
    Host,
    engine_of,
    tables_fit,
)
from tacit.engine.backends.device import SparseLists
from tacit.search.algebra import coarse, first_largest, largest_first

CPU, GPU = Device(accelerator=False, memory=2**33), Device(accelerator=True, memory=2**37)


@pytest.mark.parametrize(
    ("states", "about", "engine"),
    [
        (25, {}, Engine.DIRECT),  # no device is asked
        (25, {"device": GPU}, Engine.DIRECT),
        (25, {"split": True}, Engine.DIRECT),
        (25, {"whole": True}, Engine.DENSE),
        (DENSE_LIMIT, {}, Engine.DIRECT),
        (DENSE_LIMIT + 1, {"device": CPU}, Engine.HOST),
        (DENSE_LIMIT + 1, {"device": GPU}, Engine.LISTS),
        (DENSE_LIMIT + 1, {"whole": True, "device": CPU}, Engine.HOST),
        (10**6, {"device": CPU}, Engine.HOST),
        (10**6, {"device": GPU}, Engine.LISTS),
        (10**6, {"split": True}, Engine.SPLIT),
    ],
)
def test_sizes_and_devices_choose_the_engine(states, about, engine):
    assert engine_of(states, **about) is engine


def test_a_million_states_and_twenty_features_stay_on_the_accelerator():
    entries = 20 * 10**6 * 4  # D, S, A
    assert tables_fit(entries, GPU)
    assert not tables_fit(entries, CPU)
    assert not tables_fit(entries, GPU._replace(memory=2**33))  # too small for it
    assert tables_fit(HOST_TABLES, CPU)
    assert not tables_fit(HOST_TABLES + 1, CPU)
    most = GPU.memory // (8 * TABLE_COPIES)
    assert tables_fit(most, GPU)
    assert not tables_fit(most + 1, GPU)


def test_a_process_of_a_job_asks_its_own_device(monkeypatch):
    """The first device of a job may be another process's, which tells nobody else its memory."""
    import jax

    def of_another():
        raise AssertionError("memory is known to the device's own process only")

    foreign = SimpleNamespace(memory_stats=of_another)
    own = SimpleNamespace(memory_stats=lambda: {"bytes_limit": 2**30})
    monkeypatch.setattr(jax, "devices", lambda: [foreign, own])
    monkeypatch.setattr(jax, "local_devices", lambda: [own])
    assert backends.this_device().memory == 2**30


def test_an_accelerator_finds_what_the_cores_find(monkeypatch):
    """JAX on the cores stands in for one."""
    world = tacit.worlds.hill_grid(seed=0, size=17)
    mdp, noisy = world.mdp, tacit.SoftDual(temperature=0.0025)
    policy = tacit.solve(mdp, world.truth, solver=noisy).policy
    seen = tacit.simulate(mdp, policy, trajectories=60, steps=100, seed=1)
    found = []
    for device, engine in ((CPU, Host), (GPU, SparseLists)):
        monkeypatch.setattr(backends, "this_device", lambda device=device: device)
        again = tacit.MDP(mdp.transitions, mdp.initial, mdp.discount)
        assert isinstance(backends.backend_of(again), engine)
        one = tacit.recover(again, world.features, seen, estimator=tacit.Likelihood(), throw=False)
        found.append((backends.policy_visits(again, policy), one))
    (host, fit), (other, same) = found
    assert host.sum() == pytest.approx(1.0 / (1.0 - mdp.discount), rel=1e-12)
    np.testing.assert_allclose(host, other, rtol=0, atol=1e-12 * host.sum())
    assert skeleton(fit.summary()) == skeleton(same.summary())
    # Where a search ends is left open by 1e-9 of the steps.
    np.testing.assert_allclose(fit.parameters.intervals, same.parameters.intervals, rtol=1e-6)


def test_what_rounding_tells_apart_keeps_its_order():
    values = [0.1, np.nan, 0.3, 0.1 + 0.2, 0.3 * (1.0 - 1e-15), 0.3001]
    assert first_largest(values[:5]) == 2
    assert first_largest(values) == 5
    assert largest_first(values).tolist() == [5, 2, 3, 4, 0, 1]
    assert first_largest([np.inf, 1.0, np.inf]) == 0
    assert coarse([0.0, -1e-300, np.inf]) == pytest.approx([0.0, -1e-300, np.inf], rel=1e-5)


CHILD = "import sys; sys.path[:0] = {paths!r}; import test_orders; test_orders.print_answers()"


def problems() -> dict[str, Callable[[], list[Any]]]:
    """A few recoveries of different kinds, by name."""
    world = tacit.worlds.hill_grid(seed=4, tightness=0.5)
    noisy = tacit.SoftDual(temperature=0.0025)
    walks = tacit.simulate(
        world.mdp, noisy.solve(world.mdp, world.truth).policy, trajectories=60, steps=100, seed=0
    )
    best = tacit.simulate(
        world.mdp, tacit.solve(world.mdp, world.truth).policy, trajectories=60, steps=100, seed=0
    )
    mdp, features, truth, _ = house()
    lived = tacit.simulate(
        mdp, tacit.solve(mdp, truth, solver=tacit.SoftDual(0.3)).policy, trajectories=80, steps=20
    )
    counted = tacit.MDP.from_transitions(
        lived, n_states=mdp.states, n_actions=mdp.actions, discount=0.9, initial=mdp.initial
    )
    large = tacit.worlds.hill_grid(seed=0, size=DENSE_LIMIT // 16 + 1)
    crossed = tacit.simulate(
        large.mdp, tacit.solve(large.mdp, large.truth, solver=noisy).policy, trajectories=60,
        steps=100, seed=1,
    )  # fmt: skip
    cost = world.features.costs[0]
    copies = tacit.Features(world.features.reward, [cost, cost])

    def one(about: Any, features: Any, seen: Any, **options: Any) -> list[Any]:
        return [tacit.recover(about, features, seen, throw=False, **options)]

    return {
        "noisy": lambda: one(world.mdp, world.features, walks),
        "copies": lambda: one(world.mdp, copies, walks, estimator=tacit.Likelihood()),
        "optimal": lambda: one(world.mdp, world.features, best),
        "matched": lambda: one(world.mdp, world.features, walks, estimator=tacit.Convex()),
        "counted": lambda: one(counted, features, lived),
        "large": lambda: one(large.mdp, large.features, crossed, estimator=tacit.Likelihood()),
        "tasks": lambda: list(
            tacit.recover(
                [tacit.Task(world.mdp, world.features, part) for part in (walks, best)],
                throw=False,
            ).recoveries
        ),
    }


def print_answers() -> None:
    """Prints what is found in the order asked for: the words, and the numbers of each."""
    order, told = slice(None, None, int(os.environ["TACIT_ORDER"])), {}
    chosen = list(problems().items())[order]
    for name, ask in chosen:
        found = ask()
        numbers = [
            [*one.parameters.estimates, *one.parameters.intervals.ravel(), *one.multipliers]
            for one in found
        ]
        words = [one.summary() for one in found]
        told[name] = {"words": words, "numbers": np.concatenate(numbers).tolist()}
    print(json.dumps({"engines": "jax" in sys.modules, "told": told}))


def test_imports_threads_and_order_change_no_word(repository):
    """Words one by one; of numbers, those beyond what is shown are rounding."""
    code = CHILD.format(paths=[str(repository / one) for one in ("tests", "tests/engine", "tools")])
    ways = (("1", "1", code), ("2", "-1", f"import jax; {code}"))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", text],
            env=os.environ
            | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "TACIT_ORDER": order},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for threads, order, text in ways
    ]
    told = []
    for one in running:
        out, said = one.communicate(timeout=300)
        assert one.returncode == 0, said
        told.append(json.loads(out.splitlines()[-1])["told"])
    first, second = told
    assert first.keys() == second.keys()
    for name, answer in first.items():
        for said, again in zip(answer["words"], second[name]["words"], strict=True):
            assert skeleton(said) == skeleton(again), name
        numbers = np.array(answer["numbers"]), np.array(second[name]["numbers"])
        # A search ends where its gradient is 1e-9 of the steps: the square of that is left of the
        # loss, itself of the rest.
        np.testing.assert_allclose(*numbers, rtol=1e-6, atol=1e-8, err_msg=name)
