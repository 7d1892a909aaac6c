"""What one accelerator does: backups against its bandwidth, large soft solves, many recoveries.

    python benchmarks/gpu.py

Writes benchmarks/results/gpu.json. Runs on whatever JAX finds; on a CPU it says so in the file.
Needs JAX, NumPy and SciPy only.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

import tacit
from provenance import about
from tacit.engine.backends.device import sparse
from tacit.forward import soft_dual

DISCOUNT = 0.99
TEMPERATURE = 0.2 * 2.5e-3 / (1.0 - DISCOUNT)  # as in benchmarks/forward.py
LOOP = 50


def best_of(call: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds of the fastest of some calls, after one that compiles."""
    jax.block_until_ready(call())
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def inside_one_call(body: Callable[..., Any], state: Any, *rest: Any) -> float:
    """Seconds of one `body`, repeated inside one compiled call: launching it is not what counts."""
    run = jax.jit(lambda s, *r: jax.lax.fori_loop(0, LOOP, lambda _, x: body(x, *r), s))
    return best_of(lambda: run(state, *rest)) / LOOP


def bandwidth(args: argparse.Namespace) -> dict[str, Any]:
    """A float64 soft backup against the copy bandwidth, in the same run."""
    world = tacit.worlds.hill_grid(seed=0, size=args.size, discount=DISCOUNT)
    with jax.enable_x64(True):
        stored = sparse(world.mdp)
        block = jnp.ones(min(2**28, 250 * world.mdp.states))
        seconds = inside_one_call(lambda x: x * 1.0000001, block)
        copied = 2 * block.nbytes / seconds
        del block
        random = np.random.default_rng(0)
        values = jnp.asarray(random.random(world.mdp.states))
        reward = jnp.asarray(random.random((world.mdp.states, world.mdp.actions)))

        def backup(state: Any, stored: Any, reward: Any) -> Any:
            return stored.soft_backup(DISCOUNT, TEMPERATURE, reward, state[0])

        seconds = inside_one_call(backup, (values, reward), stored, reward)
    # Transitions, reward and values are read, values and policy written, each once.
    least = stored.probabilities.nbytes + stored.states.nbytes + 2 * (values.nbytes + reward.nbytes)
    return {
        "states": world.mdp.states,
        "copy_bytes_a_second": copied,
        "backup_seconds": seconds,
        "backup_bytes": least,
        "share_of_copy_bandwidth": least / copied / seconds,
    }


def soft_solve(args: argparse.Namespace, size: int, repeats: int) -> dict[str, Any]:
    """A constrained soft problem, the budget at 0.6 of what is spent without it."""
    start = time.perf_counter()
    world = tacit.worlds.hill_grid(seed=0, size=size, discount=DISCOUNT)
    built = time.perf_counter() - start
    searches: list[float] = []
    inner = soft_dual.minimum

    def timed(*arguments: Any) -> Any:
        begun = time.perf_counter()
        found = inner(*arguments)
        searches.append(time.perf_counter() - begun)
        return found

    soft_dual.minimum = timed
    try:
        solver = tacit.SoftDual(temperature=TEMPERATURE)
        free = tacit.Objective(world.truth.reward, world.truth.costs, [np.inf])
        budget = 0.6 * float(solver.solve(world.mdp, free).spent[0])
        bound = tacit.Objective(world.truth.reward, world.truth.costs, [budget])
        seconds = []
        for _ in range(1 + repeats):
            begun = time.perf_counter()
            solution = solver.solve(world.mdp, bound)
            seconds.append(time.perf_counter() - begun)
    finally:
        soft_dual.minimum = inner
    c = solution.certificate
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "states": world.mdp.states,
        "discount": DISCOUNT,
        "temperature": TEMPERATURE,
        "budget": budget,
        "built_seconds": built,
        "first_seconds": seconds[0],
        "seconds": min(seconds[1:] or seconds),
        "search_seconds": min(searches[-max(repeats, 1) :]),
        "status": solution.status.name,
        "multiplier": float(solution.multipliers[0]),
        "value": solution.value,
        "evaluations": solution.iterations,
        "certificate": {
            "flow_residual": c.flow_residual,
            "violation": c.violation,
            "duality_gap": c.duality_gap,
            "slackness": c.slackness,
        },
        "device_peak_gib": stats.get("peak_bytes_in_use", 0) / 2**30,
        "host_peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def against_the_cpu(args: argparse.Namespace) -> dict[str, Any]:
    """The same solve and the same recovery on the accelerator and on the host's own cores."""
    found = {}
    for kind in ("accelerator", "cpu"):
        device = jax.devices("cpu" if kind == "cpu" else None)[0]
        with jax.default_device(device):
            world = tacit.worlds.hill_grid(seed=0, size=100, discount=DISCOUNT)
            truth = tacit.Objective(world.truth.reward, world.truth.costs, [25.0])
            solver = tacit.SoftDual(temperature=TEMPERATURE)
            solution = solver.solve(world.mdp, truth)
            small = tacit.worlds.hill_grid(seed=4, budget=0.3)
            expert = tacit.SoftDual(temperature=0.0025).solve(small.mdp, small.truth)
            walks = tacit.simulate(small.mdp, expert.policy, trajectories=100, steps=500, seed=0)
            recovery = tacit.recover(small.mdp, small.features, walks)
        found[kind] = {
            "solve: values": solution.values,
            "solve: multiplier": solution.multipliers,
            "solve: policy": solution.policy,
            "recover: reward weights": recovery.reward_weights,
            "recover: cost weights": recovery.cost_weights[0],
            "recover: multiplier": recovery.multipliers,
        }
    pairs = {n: (found["accelerator"][n], found["cpu"][n]) for n in found["cpu"]}
    return {
        name: float(np.abs(a - b).max() / np.abs(b).max()) for name, (a, b) in pairs.items()
    } | {"states": 10_000}


def many_recoveries(args: argparse.Namespace) -> dict[str, Any]:
    """`Convex` on the paper's grid: resampled trajectories of some experts, all in one call."""
    experts, trajectories = 100, 100
    each = -(-args.problems // experts)
    random = np.random.default_rng(0)
    world = tacit.worlds.hill_grid(seed=0)
    tables = []
    for n in range(experts):
        weights = random.dirichlet(np.ones(2)), [random.dirichlet(np.ones(4))]
        table = world.features.objective(*weights, [np.inf])
        priced = tacit.Objective(table.reward - 0.05 * random.random() * table.costs[0])
        expert = tacit.SoftDual(temperature=0.0025).solve(world.mdp, priced)
        walks = tacit.simulate(
            world.mdp, expert.policy, trajectories=trajectories, steps=200, seed=n
        )
        weight = world.mdp.discount**walks.step / (1 - world.mdp.discount**200)
        index = (walks.episode * world.mdp.states + walks.states) * 4 + walks.actions
        visits = np.bincount(index, weight, trajectories * world.mdp.states * 4)
        draws = random.multinomial(trajectories, np.full(trajectories, 1 / trajectories), each)
        tables.append(draws @ visits.reshape(trajectories, -1) / trajectories)
    every = np.concatenate(tables)[: args.problems].reshape(-1, world.mdp.states, 4)
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        batch = tacit.many.recover_many(world.mdp, world.features, every, estimator=tacit.Convex())
        seconds.append(time.perf_counter() - begun)
    rows = random.choice(len(batch), 20, replace=False)
    alone = tacit.many.recover_many(
        world.mdp, world.features, every[rows], estimator=tacit.Convex()
    )
    same = np.abs(alone.reward_weights - batch.reward_weights[rows])
    return {
        "problems": len(batch),
        "first_seconds": seconds[0],
        "seconds": min(seconds[1:]),
        "converged": int(batch.converged.sum()),
        "without_visible_noise": int(batch.deterministic.sum()),
        "largest_difference_to_a_batch_of_twenty": float(np.nanmax(same)),
    }


def likelihood(args: argparse.Namespace, size: int) -> dict[str, Any]:
    """A full `Likelihood` recovery with intervals: 10 + 10 radial features, a million steps."""
    random = np.random.default_rng(0)
    grid = tacit.worlds.hill_grid(0, size=size, discount=0.95).mdp
    cells = np.stack(np.divmod(np.arange(grid.states), size), axis=1) / size

    def bumps() -> np.ndarray:
        distance = ((cells[:, None, :] - random.random((10, 2))) ** 2).sum(axis=2)
        return np.exp(-distance / (2 * 0.1**2))

    features = tacit.Features(bumps(), [bumps()])
    mdp = tacit.MDP(grid.transitions, np.full(grid.states, 1 / grid.states), grid.discount)
    weights = random.dirichlet(np.ones(10)), random.dirichlet(np.ones(10))
    table = features.objective(weights[0], [weights[1]], [1.0])
    # Noise that leaves an action's worth of difference visible between neighbouring cells.
    temperature = 1.0 / size
    expert = tacit.SoftDual(temperature=temperature).solve(
        mdp, tacit.Objective(table.reward - table.costs[0])
    )
    walks = tacit.simulate(mdp, expert.policy, trajectories=1000, steps=1000, seed=0)
    seconds = []
    while not seconds or (len(seconds) == 1 and seconds[0] < 60.0):  # again, without compiling
        begun = time.perf_counter()
        recovery = tacit.recover(mdp, features, walks, estimator=tacit.Likelihood(), throw=False)
        seconds.append(time.perf_counter() - begun)
    known = recovery.identification
    ends = np.concatenate([known.reward_intervals, known.cost_intervals[0]])
    true = np.concatenate(weights)
    return {
        "states": mdp.states,
        "features": 20,
        "observed_steps": walks.steps,
        "first_seconds": seconds[0],
        "seconds": seconds[-1],
        "status": recovery.status.name,
        "reward_L1": float(np.abs(recovery.reward_weights - weights[0]).sum()),
        "cost_L1": float(np.abs(recovery.cost_weights[0] - weights[1]).sum()),
        "intervals_holding_the_truth": float(((ends[:, 0] <= true) & (true <= ends[:, 1])).mean()),
        "host_peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


STUDIES = {
    "bandwidth": bandwidth,
    "against the cpu": against_the_cpu,
    "many recoveries": many_recoveries,
    "soft": lambda a: soft_solve(a, a.size, 5),
    # By size: the peak of the host's memory is that of the process so far.
    "likelihood 1e5": lambda a: likelihood(a, 316),
    "likelihood 1e6": lambda a: likelihood(a, a.size),
    "soft, largest": lambda a: soft_solve(a, a.largest, 0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1000, help="the grid has size x size states")
    parser.add_argument("--largest", type=int, default=5000, help="the same, for the largest")
    parser.add_argument("--problems", type=int, default=100_000)
    parser.add_argument("--only", nargs="+", choices=STUDIES, default=())
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "gpu.json")
    args = parser.parse_args()
    page: dict[str, Any] = {}
    if args.only and args.out.exists():
        page = json.loads(args.out.read_text(encoding="utf-8"))
    rows = page.setdefault("rows", {})
    for name, study in STUDIES.items():
        if args.only and name not in args.only:
            continue
        begun = time.perf_counter()
        rows[name] = study(args)
        print(f"{name} ({time.perf_counter() - begun:.0f} s):", json.dumps(rows[name]), flush=True)
        page |= {"device": jax.devices()[0].device_kind, "platform": jax.default_backend()}
        page.setdefault("parts", {})[name] = about(("tacit-irl", "jax", "numpy", "scipy"))
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(page, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
