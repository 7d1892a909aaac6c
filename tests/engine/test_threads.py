"""Work on several cores gives what one core gives, to the bit."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tacit
from tacit.engine import Side
from tacit.engine import backends as threads
from tacit.engine.backends import Host
from tacit.forward.solution import certify


@pytest.mark.parametrize("asked", ["1", "3"])
def test_the_environment_says_how_many_threads(monkeypatch, asked):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert threads.threads_allowed() == int(asked)


@pytest.mark.parametrize("asked", ["", "0", "many"])
def test_what_is_no_number_is_ignored(monkeypatch, asked):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert threads.threads_allowed() >= 1


def test_blocks_cover_all_rows_once(monkeypatch):
    monkeypatch.setattr(threads, "BLOCK", 4)
    blocks = threads.row_blocks(10)
    assert len(blocks) == 3
    assert [row for block in blocks for row in range(10)[block]] == list(range(10))
    assert threads.row_blocks(4) == [slice(0, 4)]


def test_answers_come_in_the_order_of_the_items(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert threads.side_by_side(lambda n: n * n, range(20)) == [n * n for n in range(20)]


def test_work_inside_work_does_not_wait_for_itself(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    inner = lambda n: threads.side_by_side(lambda m: n * m, range(3))  # noqa: E731
    assert threads.side_by_side(inner, range(4)) == [[0, n, 2 * n] for n in range(4)]


def test_an_error_in_a_thread_is_raised_here(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with pytest.raises(ZeroDivisionError):
        threads.side_by_side(lambda n: 1 / n, [1, 0])


def test_backups_and_solves_do_not_depend_on_the_number_of_threads(monkeypatch):
    world = tacit.worlds.hill_grid(seed=0, size=20)
    random = np.random.default_rng(0)
    reward, values = random.random((400, 4)), random.random(400)
    right, aims = random.random((3, 400)), np.full(3, 1e-12)
    monkeypatch.setattr(threads, "BLOCK", 7)
    found = []
    for asked in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        host = Host(world.mdp)
        backed, policy = host.soft_backup(0.9, 0.1, reward, values)
        maps = host.expected_next(right), host.inflow(reward)
        found.append((backed, policy, *maps, host.solve(policy, 0.9, Side(right, aims))))
    for one, several in zip(*found, strict=True):
        np.testing.assert_array_equal(one, several)


@pytest.mark.parametrize("temperature", [0.0, 0.1])
def test_every_block_counts_for_the_certificate(monkeypatch, temperature):
    world = tacit.worlds.hill_grid(seed=0, size=20, tightness=0.5)
    random = np.random.default_rng(0)
    visits, values = random.random((400, 4)), random.random(400)
    values[-1] -= 50.0  # the largest residual lies in the last block
    whole = certify(world.mdp, world.truth, visits, values, np.ones(1), temperature=temperature)
    monkeypatch.setattr(threads, "BLOCK", 7)
    parts = certify(world.mdp, world.truth, visits, values, np.ones(1), temperature=temperature)
    assert whole.duality_gap > 1.0
    for name in ("duality_gap", "flow_residual", "slackness", "violation"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-12)


FORKING = """
import os, select
from tacit.engine import backends as threads
assert threads.side_by_side(abs, [-1, -2]) == [1, 2]
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, bytes(threads.side_by_side(abs, [-3, -4])))
    os._exit(0)
assert select.select([reader], [], [], 30)[0], "the child waits for threads it does not have"
assert os.read(reader, 2) == bytes([3, 4])
"""


def test_a_forked_child_has_threads_of_its_own():
    """In a process of its own: what else is loaded here may not like to be forked."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


CHAIN = """
import hashlib
import numpy as np
from tacit.engine.kernels.chains import chain_values

rng = np.random.default_rng(0)
rows = np.sort(rng.integers(0, 1600, (1600, 5)), axis=1).astype(np.int32)
weights, right, x = rng.dirichlet(np.ones(5), 1600), rng.normal(size=1600), np.zeros(1600)
assert chain_values(rows, weights, 0.99, right, x, 1e-9)
print(hashlib.sha256(x.tobytes()).hexdigest())
"""


@pytest.mark.study
def test_compiled_anew_or_found_compiled_the_bits_are_the_same(tmp_path):
    """Functions are compiled within each other: which copy of one runs depends on the cache."""
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", CHAIN]
    told = [
        subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert any(tmp_path.rglob("*.nbi"))
    assert told[0] == told[1]
