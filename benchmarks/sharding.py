"""A split model: what each process holds, what moves, and how long it takes.

    python benchmarks/sharding.py
    python benchmarks/sharding.py --quick      # a small grid only; writes nothing

A grid of side x side states, 4 actions, 5 successors, made by rows so that no process ever holds
it all, and a small one of 300 x 300, which shows what compiling alone takes. Jobs of 1 and 2
processes over loopback, then simulated devices in one process. All of them share the cores of one
machine: memory and bytes moved carry over to a cluster, times do not. Writes
benchmarks/results/sharding.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about

RESULTS = Path(__file__).parent / "results" / "sharding.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax", "jaxlib")
BUDGET = 9.0


@dataclass(frozen=True)
class Grid:
    """A slippery grid by rows: nine steps in ten go as meant, one stays or goes elsewhere."""

    side: int
    discount: float = 0.95
    actions: int = 4

    @property
    def states(self) -> int:
        return self.side**2

    def rows(self, start: int, stop: int) -> tacit.Successors:
        row, column = np.divmod(np.arange(start, stop), self.side)
        around = [
            np.clip(row + down, 0, self.side - 1) * self.side
            + np.clip(column + right, 0, self.side - 1)
            for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))
        ]
        lists = np.repeat(np.stack(around, axis=1)[:, None, :], 4, axis=1)
        chances = np.full((1, 4, 5), 0.1 / 4)
        chances[0, np.arange(4), np.arange(4)] = 0.9
        return tacit.Successors(lists, np.repeat(chances, stop - start, axis=0))

    def waves(self, start: int, stop: int, count: int, seed: int) -> np.ndarray:
        """[n, count] features from 0 to 1 that vary as fast on a large grid as on a small one."""
        row, column = np.divmod(np.arange(start, stop)[:, None], self.side)
        lengths, shifts = np.random.default_rng(seed).uniform(12, 30, (2, 2, count))
        down, right = np.sin(row / lengths[0] + shifts[0]), np.sin(column / lengths[1] + shifts[1])
        return (1 + down * right) / 2

    def objective(self, start: int, stop: int) -> tacit.Objective:
        wanted, refused = self.waves(start, stop, 3, 0).mean(1), self.waves(start, stop, 2, 1)
        return tacit.Objective(wanted, refused.mean(1)[None], [BUDGET])

    def features(self, start: int, stop: int) -> tacit.Features:
        return tacit.Features(self.waves(start, stop, 3, 0), [self.waves(start, stop, 2, 1)])

    def model(self) -> tacit.scale.ShardedMDP:
        even = lambda start, stop: np.full(stop - start, 1 / self.states)  # noqa: E731
        return tacit.scale.ShardedMDP.from_rows(
            self.rows, even, states=self.states, discount=self.discount
        )


def peak() -> float:
    """MiB, the most that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def held(*arrays: Any) -> int:
    """Bytes that this process holds of these arrays."""
    return sum(shard.data.nbytes for array in arrays for shard in array.addressable_shards)


def timed(work: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def measured(grid: Grid, *, only_solve: bool) -> dict[str, Any]:
    """What this process sees of a solve and a recovery."""
    import jax

    jax.block_until_ready(jax.jit(lambda x: x + 1)(0.0))
    row: dict[str, Any] = {"base_mib": peak()}
    model, row["build_s"] = timed(grid.model)
    row["model_bytes"] = held(model.backend.states, model.backend.probabilities)
    row["build_peak_mib"] = peak() - row["base_mib"]
    solver = tacit.SoftDual(temperature=0.05)
    # Compiling included: what a second solve saves is compiling.
    solution, row["first_solve_s"] = timed(
        lambda: tacit.solve(model, grid.objective, solver=solver)
    )
    row["solve_peak_mib"] = peak() - row["base_mib"]
    row |= {"multiplier": float(solution.multipliers[0]), "value": solution.value}
    row["duality_gap"] = solution.certificate.duality_gap
    row["evaluations"] = solution.iterations
    row |= {"devices": jax.device_count(), "border": model.backend.border}
    if only_solve:
        return row
    _, row["solve_s"] = timed(lambda: tacit.solve(model, grid.objective, solver=solver))
    own = {
        (shard.index[0].start or 0): np.round(1000 * np.asarray(shard.data))
        for shard in solution.policy.addressable_shards
    }

    def seen(start: int, stop: int) -> np.ndarray:
        return own[start][: stop - start]

    recovery, row["recover_s"] = timed(lambda: tacit.recover(model, grid.features, seen))
    row["recover_peak_mib"] = peak() - row["base_mib"]
    row["weights"] = [float(w) for w in recovery.reward_weights]
    return row | moved(model)


def moved(model: tacit.scale.ShardedMDP) -> dict[str, Any]:
    """Time of one product with the chain, and what its compiled program holds and sends."""
    import jax

    world = model.backend
    with jax.enable_x64(True):
        values = model.zeros() + 1.0
        product = jax.jit(lambda world, values: world.expected_next(values))
        program = product.lower(world, values).compile()
        text = program.as_text()
        jax.block_until_ready(product(world, values))
        times = []
        for _ in range(10):
            _, seconds = timed(lambda: jax.block_until_ready(product(world, values)))
            times.append(seconds)
    sent = re.findall(r"= f64\[([\d,]*)\]\S* (collective-permute|all-gather)(?:-start)?\(", text)
    return {
        "product_s": min(times),
        "product_moves": [[kind, int(size.split(",")[0])] for size, kind in sent],
    }


def program_memory(grid: Grid, features: int) -> dict[str, float]:
    """Bytes a state that a compiled evaluation holds on one device, beside its arguments."""
    import jax

    from tacit.search.smooth_dual import Dual, evaluate

    model = grid.model()
    with jax.enable_x64(True):
        small = np.zeros(features)
        problem = Dual(
            start=model.initial,
            discount=grid.discount,
            temperature=1.0,
            base=model.zeros(actions=True),
            tables=model.table(lambda i, j: np.zeros(()), features),
            target=small,
            lower=small,
            upper=small + 1.0,
            ridge=small,
            unit=small + 1.0,
            scale=small + 1.0,
            information=model.zeros(),
        )
        search = jax.jit(evaluate)
        program = search.lower(model.backend, problem, small, model.zeros(), 1e-9).compile()
    used, share = program.memory_analysis(), grid.states / jax.device_count()
    return {
        "features": features,
        "devices": jax.device_count(),
        "arguments": used.argument_size_in_bytes / share,
        "temporary": used.temp_size_in_bytes / share,
        "results": used.output_size_in_bytes / share,
    }


def launch(arguments: list[str], *, devices: int, processes: int = 1) -> list[dict[str, Any]]:
    """The answers of a job, one a process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    command = [sys.executable, __file__, *arguments]
    jobs = [
        subprocess.Popen(
            [*command, "--job", address, str(processes), str(rank)] if processes > 1 else command,
            env=os.environ | flags | {"JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    said = [job.communicate()[0] for job in jobs]
    if any(job.returncode for job in jobs):
        raise SystemExit(f"a process of {shlex.join(arguments)} failed")
    return [json.loads(text.splitlines()[-1]) for text in said]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--side", type=int, default=800)
    parser.add_argument("--work", choices=("solve", "measured", "memory"))
    parser.add_argument("--job", nargs=3, metavar=("ADDRESS", "PROCESSES", "RANK"))
    args = parser.parse_args()
    grid = Grid(300 if args.quick else args.side)
    if args.job:
        import jax

        address, processes, rank = args.job
        jax.distributed.initialize(address, num_processes=int(processes), process_id=int(rank))
    if args.work in ("solve", "measured"):
        return print(json.dumps(measured(grid, only_solve=args.work == "solve")))
    if args.work == "memory":
        return print(json.dumps([program_memory(grid, features) for features in (1, 5)]))
    load = os.getloadavg()[0]
    whole = ["--side", str(grid.side), "--work", "solve"]
    small = Grid(300)
    part = ["--side", str(small.side), "--work"]
    report = {
        "states": grid.states,
        "small_states": small.states,
        "discount": grid.discount,
        "small_jobs": {str(n): launch([*part, "measured"], devices=1, processes=n) for n in (1, 2)},
        "jobs": {str(n): launch(whole, devices=1, processes=n) for n in (1, 2)},
        "small_simulated": {str(n): launch([*part, "measured"], devices=n)[0] for n in (2, 8)},
        "small_bytes_a_state": [
            row
            for n in (1, 8)
            for row in launch([*part, "memory"], devices=n)[0]  # type: ignore
        ],
    }
    text = json.dumps(about(PACKAGES, load=load) | report, indent=1)
    if not args.quick:
        RESULTS.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
