"""How near the compiled loops come to what the memory of this machine allows.

    python benchmarks/bandwidth.py

A grid with 4 actions and 5 successors (stay, or one of the neighbours), 1e4 to 1e6 states, float64.
The limit is measured in the same run, on all cores: the faster of STREAM's copy and triad, by
NumPy. `share` is the bytes that must move at least (each array once) at that speed, divided by the
time taken; models that fit into the cache can beat it. Beside the soft backup, what one would write
first: scipy's sparse product with NumPy's logsumexp, and the same lists in JAX as it comes; then
the loop alone, without making the arrays it fills, and the choices that were weighed against it.
Writes benchmarks/results/bandwidth.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about
from tacit.engine.backends import Host, row_blocks, side_by_side
from tacit.engine.backends import threads_allowed as cores
from tacit.engine.kernels.backups import NOTHING, fused_backup
from tacit.engine.kernels.chains import krylov, policy_chain

RESULTS = Path(__file__).parent / "results" / "bandwidth.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax", "numba")
SIZES = (100, 316, 1000)  # grids of size x size states
DISCOUNT, TEMPERATURE = 0.99, 0.05
STEPS = 200  # of one round of the Krylov solver


def best_of(work: Callable[[], Any], repeats: int = 9) -> float:
    """Seconds of the fastest call after one that compiles."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def memory_speed(entries: int = 20_000_000) -> dict[str, float]:
    """Bytes a second of STREAM's copy and triad on all cores, as NumPy does them."""
    a, b, c = np.ones(entries), np.ones(entries), np.ones(entries)
    share = -(-entries // cores())
    parts = [slice(k, k + share) for k in range(0, entries, share)]
    copy = lambda p: np.copyto(c[p], a[p])  # noqa: E731
    add = lambda p: np.add(a[p], b[p], out=c[p])  # noqa: E731 - the triad less its multiplication
    return {
        "copy": 2 * a.nbytes / best_of(lambda: side_by_side(copy, parts)),
        "triad": 3 * a.nbytes / best_of(lambda: side_by_side(add, parts)),
    }


def grid(size: int) -> tacit.MDP:
    """A grid where every action may stay or go to any neighbour, with chances of its own."""
    states = np.arange(size * size)
    row, column = np.divmod(states, size)
    near = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
    reached = [
        np.clip(row + down, 0, size - 1) * size + np.clip(column + right, 0, size - 1)
        for down, right in near
    ]
    lists = np.repeat(np.stack(reached, axis=1)[:, None, :], 4, axis=1)
    chances = np.random.default_rng(0).dirichlet(np.ones(5), lists.shape[:2])
    start = np.full(len(states), 1 / len(states))
    return tacit.MDP(tacit.Successors(lists, chances), start, DISCOUNT)


def table_bytes(mdp: tacit.MDP, tables: int, vectors: int) -> int:
    """Bytes of the transitions, of some tables [S, A] and of some vectors [S]."""
    lists = mdp.packed.states.nbytes + mdp.packed.probabilities.nbytes
    return lists + 8 * mdp.states * (mdp.actions * tables + vectors)


def plain_backup(mdp: tacit.MDP, reward: np.ndarray, values: np.ndarray) -> Callable[[], Any]:
    """A backup as one would write it first, with scipy and NumPy."""
    matrix = mdp.sparse()

    def work() -> tuple[np.ndarray, np.ndarray]:
        later = (matrix @ values).reshape(reward.shape)
        scaled = (reward + DISCOUNT * later) / TEMPERATURE
        best = scaled.max(axis=1, keepdims=True)
        weights = np.exp(scaled - best)
        mass = weights.sum(axis=1, keepdims=True)
        return TEMPERATURE * (best + np.log(mass))[:, 0], weights / mass

    return work


def jax_backup(mdp: tacit.MDP, reward: np.ndarray, values: np.ndarray) -> Callable[[], Any]:
    """The same lists and formula under `jax.jit`."""
    import jax

    from tacit.engine.backends.device import sparse

    with jax.enable_x64(True):
        world, r, v = sparse(mdp), jax.numpy.asarray(reward), jax.numpy.asarray(values)
    run = jax.jit(lambda w, r, v: w.soft_backup(DISCOUNT, TEMPERATURE, r, v))

    def work() -> Any:
        with jax.enable_x64(True):
            return jax.block_until_ready(run(world, r, v))

    return work


def kernel(
    reached: np.ndarray, chances: np.ndarray, reward: np.ndarray, values: np.ndarray, threads: bool
) -> Callable[[], Any]:
    """The compiled backup on these lists."""
    backed, policy = np.empty(len(values)), np.empty(reward.shape)
    arrays = (reached, chances, DISCOUNT, TEMPERATURE, reward, values, NOTHING, backed, policy)
    blocks = row_blocks(len(values)) if threads else [slice(0, len(values))]
    return lambda: side_by_side(lambda rows: fused_backup(*arrays, rows.start, rows.stop), blocks)


def measured(size: int, choices: bool) -> list[dict[str, Any]]:
    """Seconds and bytes of every piece of work at this size."""
    mdp, random = grid(size), np.random.default_rng(1)
    reward, values = random.random((mdp.states, mdp.actions)), random.random(mdp.states)
    host, lists = Host(mdp), mdp.packed
    backup = table_bytes(mdp, tables=2, vectors=2)
    works: list[tuple[str, Callable[[], Any], int]] = [
        ("backup", lambda: host.soft_backup(DISCOUNT, TEMPERATURE, reward, values), backup),
        ("backup, scipy and NumPy", plain_backup(mdp, reward, values), backup),
        ("backup, JAX as it comes", jax_backup(mdp, reward, values), backup),
        ("expected next", lambda: host.expected_next(values), table_bytes(mdp, 1, 1)),
        ("inflow", lambda: host.inflow(reward), table_bytes(mdp, 1, 1)),
    ]
    rows, weights = policy_chain(mdp, random.dirichlet(np.ones(4), mdp.states))
    # A step makes two products, which read the chain, and some twenty passes over a vector.
    step = 2 * (rows.nbytes + weights.nbytes) + 20 * values.nbytes
    for name, transposed in (("values", False), ("visits", True)):
        # A target that nothing meets: the solver makes all steps of a round.
        work = lambda t=transposed: krylov(  # noqa: E731
            rows, weights, DISCOUNT, t, values, np.zeros(mdp.states), 0.0, STEPS
        )
        works.append((f"Krylov steps, {name}", work, STEPS * step))
    if choices:
        whole = np.ascontiguousarray(np.repeat(lists.states, mdp.actions, axis=1))
        given = (lists.states, lists.probabilities)
        far = (lists.states.astype(np.int64), lists.probabilities)
        short = (lists.states, lists.probabilities.astype(np.float32))
        own = (whole, lists.probabilities)
        for name, pair, threads in (
            ("backup, into given arrays", given, True),
            ("backup, into given arrays, one thread", given, False),
            ("the same, 64-bit next states", far, True),
            ("the same, 32-bit probabilities", short, True),
            ("the same, next states of each action", own, True),
        ):
            least = backup + sum(a.nbytes for a in pair) - sum(a.nbytes for a in given)
            works.append((name, kernel(*pair, reward, values, threads), least))
    return [
        {
            "work": name,
            "states": mdp.states,
            "bytes": least,
            "seconds": best_of(work, 3 if "Krylov" in name else 9),
        }
        for name, work, least in works
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    speed = memory_speed()
    print("bytes a second:", json.dumps(speed), flush=True)
    limit = max(speed.values())
    rows = []
    for size in SIZES:
        for row in measured(size, choices=size == SIZES[-1]):
            rows.append(row | {"share": row["bytes"] / limit / row["seconds"]})
            print(json.dumps(rows[-1]), flush=True)
    report = {
        **about(PACKAGES, load=load),
        "bytes_a_second": speed,
        "rows": rows,
    }
    args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
