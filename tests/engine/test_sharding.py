"""Split over devices and over processes: the same answers, and each holds its part only."""

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import experts
import shards
import tacit
from tacit.engine import Side
from tacit.engine.backends import backend_of
from tacit.engine.backends.device import sparse
from tacit.engine.backends.sharded import Sharded
from tacit.model import sharded as sharded_model

# Solves are exact to 1e-10, recoveries to 1e-9 in their gradient, whose curvature is above one.
SAME = {"rtol": 1e-9, "atol": 1e-9}
SCRIPT = Path(shards.__file__)
PAGE = SCRIPT.parents[1] / "docs" / "scale.md"


def finish(processes: list[subprocess.Popen]) -> None:
    """Waits for all; what a failed one said is the failure. None outlives the test."""
    try:
        for process in processes:
            # A deadlock between devices is a failure, not a hang.
            _, said = process.communicate(timeout=400)
            assert process.returncode == 0, said[-3000:]
    finally:
        for process in processes:
            process.kill()


def begin(*arguments: object, devices: int) -> subprocess.Popen:
    settings = {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.Popen(
        command,
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The answers over eight devices of one process."""
    out = tmp_path_factory.mktemp("devices") / "answer.json"
    finish([begin(out, devices=8)])
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The answers of two processes that talk over loopback."""
    folder = tmp_path_factory.mktemp("job")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    outs = [folder / f"{rank}.json" for rank in range(2)]
    finish([begin(out, address, 2, rank, devices=1) for rank, out in enumerate(outs)])
    return [json.loads(out.read_text()) for out in outs]


@pytest.fixture(scope="module")
def alone():
    """The solution and both recoveries of one process, not split."""
    mdp, features, objective = shards.task()
    solution = tacit.solve(mdp, objective, solver=shards.SOLVER)
    seen = shards.steps(shards.counts(mdp, solution.policy))
    likely = tacit.recover(mdp, features, seen, estimator=shards.LIKELIHOOD)
    return solution, likely


def test_eight_devices_answer_as_one(simulated, alone):
    solution, likely = alone
    assert simulated["border"] == shards.SIDE  # a step on the grid leads one row away at most
    assert solution.multipliers[0] > 0.01  # the budget binds: its price says something
    assert_allclose(simulated["multipliers"], solution.multipliers, **SAME)
    assert_allclose(simulated["value"], solution.value, **SAME)
    assert_allclose(simulated["values"], solution.values, **SAME)
    assert_allclose(simulated["likelihood"], shards.numbers(likely), **SAME)
    errors = likely.identification.multiplier_standard_errors
    assert_allclose(simulated["errors"], errors, rtol=1e-7)  # by the inverse of the information


def test_steps_that_lead_anywhere_are_answered_alike(simulated):
    mdp = shards.scattered()
    solution = tacit.solve(mdp, shards.hub_objective(), solver=shards.SOLVER)
    assert solution.multipliers[0] > 0.01
    expected = [*solution.multipliers, solution.value, *solution.values]
    assert_allclose(simulated["hub"], expected, **SAME)


def test_every_device_holds_an_eighth(simulated):
    whole = shards.task()[0].packed.probabilities
    per_state = whole.nbytes // len(whole)
    # Rounded up to whole states, with no copy anywhere.
    assert simulated["shares"] == [-(-len(whole) // 8) * per_state] * 8


@pytest.mark.study
def test_two_processes_answer_as_one(job, alone):
    solution, likely = alone
    mdp, features, _ = shards.task()
    seen = experts.exact(mdp, features, solution.visitation)
    convex = shards.CONVEX.match(mdp, features, seen)
    for answer in job:
        assert_allclose(answer["multipliers"], solution.multipliers, **SAME)
        assert_allclose(answer["value"], solution.value, **SAME)
        assert max(np.abs(answer["certificate"])) <= shards.SOLVER.tolerance
        assert_allclose(answer["likelihood"], shards.numbers(likely), **SAME)
        assert_allclose(answer["convex"], shards.numbers(convex), **SAME)
        expected = [*solution.multipliers, solution.value, *solution.values]
        assert_allclose(answer["whole"], expected, **SAME)
    assert job[0]["likelihood"] == job[1]["likelihood"]  # one search, not two that agree


@pytest.mark.study
def test_a_process_is_asked_for_its_own_states_and_holds_no_more(job):
    mdp = shards.task()[0]
    half = -(-mdp.states // 2)
    assert job[0]["asked"] == [0, half]
    assert job[1]["asked"] == [half, mdp.states]
    layout = mdp.packed
    for answer in job:
        per_state = [4 * layout.states[0].size, 8 * layout.probabilities[0].size, 8 * mdp.actions]
        assert answer["bytes"] == [half * n for n in per_state]


def test_rows_in_chunks_of_different_widths_make_the_same_model(monkeypatch):
    monkeypatch.setattr(sharded_model, "CHUNK", 5)
    rng = np.random.default_rng(0)
    lists, chances = rng.integers(23, size=(23, 2, 4)), rng.dirichlet(np.ones(4), size=(23, 2))
    chances[:7] = [1.0, 0.0, 0.0, 0.0]  # one successor an action: narrow, and shared
    chances[10:15, :, 3] = 0.0
    chances /= chances.sum(axis=2, keepdims=True)
    mdp = tacit.MDP(tacit.Successors(lists, chances), np.eye(23)[3], 0.9)
    objective = tacit.Objective(rng.random((23, 2)), [rng.random((23, 2))], [4.0])
    model = tacit.scale.ShardedMDP.from_rows(
        lambda i, j: tacit.Successors(lists[i:j], chances[i:j]), 3, states=23, discount=0.9
    )

    def part(start, stop):
        reward, costs = objective.reward[start:stop], objective.costs[:, start:stop]
        return tacit.Objective(reward, costs, objective.budgets)

    split = tacit.solve(model, part, solver=shards.SOLVER)
    solution = tacit.solve(mdp, objective, solver=shards.SOLVER)
    assert_allclose(split.multipliers, solution.multipliers, **SAME)
    assert_allclose(np.asarray(split.values)[:23], solution.values, **SAME)
    assert_allclose(vars(split.certificate)["duality_gap"], 0.0, atol=1e-9)
    short = tacit.SoftDual(temperature=0.05, max_steps=1)
    with pytest.raises(tacit.NotConverged, match="before the tolerance was met"):
        tacit.solve(model, part, solver=short)


def test_bad_rows_are_named():
    def built(probability=1.0, target=1, initial=0, count=4):
        def rows(start, stop):
            lists = np.full((count, 1, 1), target)
            return tacit.Successors(lists, np.full((count, 1, 1), probability))

        return tacit.scale.ShardedMDP.from_rows(rows, initial, states=4, discount=0.9)

    with pytest.raises(tacit.InvalidModel, match=r"rows\(0, 4\).*sums to 0.5"):
        built(probability=0.5)
    with pytest.raises(tacit.InvalidModel, match=r"must be in 0..3; .* is 9"):
        built(target=9)
    with pytest.raises(tacit.InvalidModel, match="4 states were asked for; got 3"):
        built(count=3)
    with pytest.raises(tacit.InvalidModel, match=r"initial .* 0..3; got 4"):
        built(initial=4)
    with pytest.raises(tacit.InvalidModel, match="it sums to 2"):
        built(initial=lambda start, stop: np.full(stop - start, 0.5))
    with pytest.raises(tacit.InvalidModel, match="state 2 has -1"):
        built(initial=lambda start, stop: np.array([1.0, 1.0, -1.0, 0.0]))


def test_a_model_is_split_inside_only_and_never_for_a_batch():
    mdp = shards.task()[0]
    with tacit.scale.sharded():
        assert isinstance(backend_of(mdp), Sharded)
        assert not isinstance(backend_of(mdp, whole=True), Sharded)
    assert not isinstance(backend_of(mdp), Sharded)


def test_visits_from_an_even_start_are_found(monkeypatch):
    """An even start is an eigenvector of every chain: a Krylov method may break down on it."""
    import jax

    from tacit.engine.backends import linear_systems

    monkeypatch.setattr(linear_systems, "PLAIN", 0)  # no fallback: the Krylov steps themselves
    mdp, _, _ = shards.task()
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(mdp.actions), size=mdp.states)
    with jax.enable_x64(True):
        side = Side(mdp.initial, 1e-15, transposed=True)
        found = sparse(mdp).solve(policy, mdp.discount, side)
    visits = np.asarray(found)
    flow = visits - mdp.discount * mdp.inflow(visits[:, None] * policy) - mdp.initial
    assert np.abs(flow).sum() <= 2e-15 * mdp.states  # the residual asked for, and rounding


@pytest.mark.study
def test_the_page_prints_what_it_says():
    """On one device, whatever the number: the blocks are those of a user with many."""
    names, shown = {}, re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S)
    blocks = shown.findall(PAGE.read_text("utf-8"))
    for code, said in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, str(PAGE), "exec"), names)  # our own page
        assert printed.getvalue() == said
    assert len(blocks) >= 3


# A process of a job: it is ready, then works with the others until one is lost.
PARTNER = """
import sys
import tacit
tacit.scale.join(sys.argv[1], 2, int(sys.argv[2]))
import numpy as np
from jax.experimental.multihost_utils import process_allgather
for round in range(1_000_000):
    process_allgather(np.ones(3))
    if round == 1:
        print("ready", flush=True)
"""


def test_a_job_that_loses_a_process_ends_at_once_with_one_line():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    pair = [
        subprocess.Popen(
            [sys.executable, "-c", PARTNER, address, str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    try:
        for process in pair:
            assert "ready" in [process.stdout.readline().strip() for _ in range(2)]
        pair[1].kill()
        # 30 s are promised: a machine under test is not held to less.
        _, said = pair[0].communicate(timeout=30)
    finally:
        for process in pair:
            process.kill()
            process.communicate()
    assert pair[0].returncode == 4
    assert said.startswith("tacit: another process of this job was lost")
    assert said.count("\n") == 1


# The connections and the engine of one process find the same loss at the same moment,
# and the system is slow.
ALL_AT_ONCE = """
import os
import threading
import time
from tacit.model import sharded
together = threading.Barrier(4)
def slow(call):
    def slowly(*arguments):
        time.sleep(0.2)
        return call(*arguments)
    return slowly
def find():
    together.wait()
    sharded.end()
os.open, os._exit = slow(os.open), slow(os._exit)
for _ in range(4):
    threading.Thread(target=find).start()
"""


def test_a_loss_that_many_threads_find_at_once_is_said_once():
    done = subprocess.run(
        [sys.executable, "-c", ALL_AT_ONCE], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
