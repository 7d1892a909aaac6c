"""Estimates with standard errors of the same dynamic choices, beside `econirl`'s NFXP and CCP.

    python benchmarks/econirl.py --peer-python PATH

`econirl` lives in an environment of its own, whose Python is PATH; both sides run on this machine
in one call, one after the other, on the same demonstrations, model and features. The first call of
each side loads and compiles. `econirl` knows no constraints: the last row is what tacit says of one
that is there, and what the estimates of a model without it are worth. Writes
benchmarks/results/econirl.json.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about

# What the peer's Python runs: it knows nothing of tacit.
PEER = """
import importlib.metadata, json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
import jax.numpy as jnp
from econirl.core.types import DDCProblem, Panel, Trajectory
from econirl.estimation.ccp import CCPEstimator
from econirl.estimation.nfxp import NFXPEstimator
from econirl.preferences.linear import LinearUtility
data = np.load(sys.argv[1])
method, calls = sys.argv[2], int(sys.argv[3])
panel = Panel([
    Trajectory(states=jnp.array(s), actions=jnp.array(a), next_states=jnp.array(n))
    for s, a, n in zip(data["states"], data["actions"], data["next_states"])])
states, actions, size = data["features"].shape
utility = LinearUtility(jnp.array(data["features"]), [f"x{k}" for k in range(size)])
problem = DDCProblem(states, actions, float(data["discount"]), 1.0)
transitions = jnp.array(data["transitions"])
made = {"nfxp": NFXPEstimator, "ccp": CCPEstimator}[method]
for _ in range(calls):
    began, busy = time.perf_counter(), time.process_time()
    found = made().estimate(panel, utility, problem, transitions, initial_params=jnp.zeros(size))
    print(json.dumps({
        "seconds": time.perf_counter() - began, "cpu": time.process_time() - busy,
        "estimates": np.asarray(found.parameters).tolist(),
        "errors": np.asarray(found.standard_errors).tolist(),
        "log_likelihood": float(found.log_likelihood), "converged": bool(found.converged),
        "version": importlib.metadata.version("econirl")}), flush=True)
"""


@dataclass(frozen=True)
class Args:
    """Benchmark of estimates of dynamic choices against econirl."""

    peer_python: Path
    """The Python of an environment with `econirl`."""
    sizes: tuple[int, ...] = (200, 1000, 4000)
    features: int = 4
    trajectories: int = 400
    steps: int = 100
    discount: float = 0.95
    calls: int = 3
    """Of each side; the first is told by itself, of the others the best."""
    limit: float = 120.0
    """Seconds after which the peer is stopped."""
    out: Path = Path(__file__).parent / "results" / "econirl.json"


def world_of(args: Args, size: int) -> tuple[tacit.MDP, tacit.Features, np.ndarray, Any]:
    """A random world, features of state and action, their coefficients, and what was seen."""
    random = np.random.default_rng(size)
    mdp = tacit.worlds.random(seed=size, states=size, actions=3, discount=args.discount).mdp
    table = random.normal(size=(size, mdp.actions, args.features))
    truth = random.normal(size=args.features) * 0.5
    expert = tacit.solve(
        mdp, tacit.Objective(table @ truth), solver=tacit.SoftDual(temperature=1.0)
    )
    seen = tacit.simulate(
        mdp, expert.policy, trajectories=args.trajectories, steps=args.steps, seed=size
    )
    return mdp, tacit.Features(table), truth, seen


def mine(args: Args, mdp: tacit.MDP, features: tacit.Features, seen: Any) -> list[dict[str, Any]]:
    """Calls of tacit, with intervals, tests of fit and all."""
    calls = []
    for _ in range(args.calls):
        began, busy = time.perf_counter(), time.process_time()
        recovery = tacit.recover(
            mdp, features, seen, estimator=tacit.Likelihood(free_reward=True), throw=False
        )
        calls.append(
            {
                "seconds": time.perf_counter() - began,
                "cpu": time.process_time() - busy,
                "estimates": recovery.parameters.estimates.tolist(),
                "errors": recovery.parameters.standard_errors.tolist(),
                "log_likelihood": recovery.log_likelihood,
                "status": recovery.status.name,
            }
        )
    return calls


def theirs(
    args: Args, method: str, mdp: tacit.MDP, features: tacit.Features, seen: Any
) -> list[dict[str, Any]]:
    """Calls of the peer that ended within the limit."""
    rows = seen.offsets[:-1, None] + np.arange(args.steps)
    states = seen.states[rows]
    # What comes after the last step is in no likelihood of choices.
    following = np.concatenate([states[:, 1:], states[:, -1:]], axis=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(
            path, states=states, actions=seen.actions[rows], next_states=following,
            features=features.reward, transitions=mdp.dense().transpose(1, 0, 2),
            discount=mdp.discount,
        )  # fmt: skip
        command = [str(args.peer_python), "-I", "-c", PEER, str(path), method, str(args.calls)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=args.limit)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
            printed = done.stdout
        except subprocess.TimeoutExpired as late:
            printed = (late.stdout or b"").decode()
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def row(args: Args, size: int) -> dict[str, Any]:
    """Both sides on one world."""
    mdp, features, truth, seen = world_of(args, size)
    own = mine(args, mdp, features, seen)
    estimates, errors = np.array(own[-1]["estimates"]), np.array(own[-1]["errors"])
    found = {
        "states": size,
        "observed_steps": seen.steps,
        "tacit": timed(own),
        "tacit_status": own[-1]["status"],
        "off_by_standard_errors": float(np.abs((estimates - truth) / errors).max()),
    }
    for method in ("nfxp", "ccp"):
        calls = theirs(args, method, mdp, features, seen)
        found[method] = timed(calls)
        if calls:
            off = np.abs(estimates - calls[-1]["estimates"])
            found[f"{method}_ratio"] = found[method]["seconds"] / found["tacit"]["seconds"]
            found[f"{method}_cpu_ratio"] = found[method]["cpu"] / found["tacit"]["cpu"]
            found[f"{method}_apart_in_standard_errors"] = float((off / errors).max())
            found[f"{method}_nats_below"] = own[-1]["log_likelihood"] - calls[-1]["log_likelihood"]
            found["econirl_version"] = calls[-1]["version"]
    return found


def timed(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds of the first call, and the best of the others; None where none ended."""
    later = calls[1:] or calls
    return {
        "first_seconds": calls[0]["seconds"] if calls else None,
        "seconds": min(call["seconds"] for call in later) if calls else None,
        "cpu": min(call["cpu"] for call in later) if calls else None,
        "calls": len(calls),
    }


def constrained() -> dict[str, Any]:
    """A demonstrator with a budget: its price by tacit, and a model that leaves it out."""
    world = tacit.worlds.hill_grid(seed=4, budget=0.3)
    expert = tacit.SoftDual(temperature=0.0025).solve(world.mdp, world.truth)
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=400, steps=100, seed=0)
    both = tacit.recover(world.mdp, world.features, seen)
    alone = tacit.recover(world.mdp, tacit.Features(world.features.reward), seen, throw=False)
    return {
        "states": world.mdp.states,
        "true_price": float(expert.multipliers[0] * world.cost_weights[0].sum()),  # in the gauge
        "price": float(both.multipliers[0]),
        "interval": both.identification.multiplier_intervals[0].tolist(),
        "fits": both.goodness.verdict,
        "without_the_constraint": alone.goodness.verdict,
        "nats_a_step_lost": float((both.log_likelihood - alone.log_likelihood) / seen.steps),
    }


def main(args: Args) -> None:
    rows = [row(args, size) for size in args.sizes]
    document = {
        **about(
            ("tacit-irl", "jax", "numpy", "scipy", "numba"),
            command="python benchmarks/econirl.py --peer-python PATH",
        ),
        "rows": rows,
        "constraint": constrained(),
    }
    print(json.dumps({name: document[name] for name in ("rows", "constraint")}, indent=1))
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args))
