"""Recovery beyond the paper's grid: many features, a clinic, real mice.

    python benchmarks/larger_worlds.py

Writes benchmarks/results/larger_worlds.json. The clinic needs the extra `bench` (icu-sepsis), the
mice need TACIT_DATA to name a folder with `labyrinth/`; what is missing is a row that says so.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about
from tacit.estimators.baselines import RewardOnly
from tacit.judge.behaviour import log_likelihood


@dataclass(frozen=True)
class Args:
    """Recovery on larger worlds."""

    size: int = 50
    """The large grid has size x size states."""
    features: int = 20
    """Radial bumps for the reward, and as many for the cost."""
    trajectories: int = 200
    steps: int = 2000
    only: tuple[str, ...] = ()
    out: Path = Path(__file__).parent / "results" / "larger_worlds.json"


def scored(
    world: Any, features: Any, train: Any, test: Any, estimators: dict[str, Any]
) -> dict[str, float]:
    """Held-out log-likelihood a step of each estimator's expert, and of the uniform policy."""
    rows = {}
    for name, estimator in estimators.items():
        recovery = tacit.recover(world, features, train, estimator=estimator, throw=False)
        rows[name] = log_likelihood(world, recovery.solution.policy, test)
    uniform = np.full((world.states, world.actions), 1.0 / world.actions)
    rows["uniform"] = log_likelihood(world, uniform, test)
    return rows


def large_grid(args: Args) -> dict[str, Any]:
    """A grid of thousands of states with tens of features, a noisy expert of known weights."""
    rng = np.random.default_rng(0)
    mdp = tacit.worlds.hill_grid(0, size=args.size, discount=0.95).mdp
    cells = np.stack(np.divmod(np.arange(mdp.states), args.size), axis=1) / args.size

    def bumps() -> np.ndarray:
        centres = rng.random((args.features, 2))
        distance = ((cells[:, None, :] - centres) ** 2).sum(axis=2)
        return np.exp(-distance / (2 * 0.1**2))

    features = tacit.Features(bumps(), [bumps()])
    spread = tacit.MDP(mdp.transitions, np.full(mdp.states, 1 / mdp.states), mdp.discount)
    reward, cost = rng.dirichlet(np.ones(args.features)), rng.dirichlet(np.ones(args.features))
    multiplier, temperature = 1.0, 0.02
    tables = features.objective(reward, [cost], [1.0])
    priced = tacit.Objective(tables.reward - multiplier * tables.costs[0])
    expert = tacit.solve(spread, priced, solver=tacit.SoftDual(temperature=temperature))
    seen = tacit.simulate(
        spread, expert.policy, trajectories=args.trajectories, steps=args.steps, seed=0
    )
    start = time.perf_counter()
    recovery = tacit.recover(spread, features, seen, estimator=tacit.Likelihood(), throw=False)
    seconds = time.perf_counter() - start
    known = recovery.identification
    ends = np.concatenate([known.reward_intervals, known.cost_intervals[0]])
    true = np.concatenate([reward, cost])
    null = rng.dirichlet(np.ones(args.features), 200)
    return {
        "states": spread.states,
        "parameters": 2 * args.features,
        "observed_steps": seen.steps,
        "seconds": seconds,
        "status": recovery.status.name,
        "reward_L1": np.abs(recovery.reward_weights - reward).sum(),
        "cost_L1": np.abs(recovery.cost_weights[0] - cost).sum(),
        "random_weights_L1_median": float(np.median(np.abs(null - cost).sum(axis=1))),
        "multiplier": recovery.multipliers[0],
        "true_multiplier": multiplier,
        "intervals_containing_the_truth": ((ends[:, 0] <= true) & (true <= ends[:, 1])).mean(),
    }


def clinic(args: Args) -> dict[str, Any]:
    """icu-sepsis: 716 states, 25 treatments, simulated clinicians who dislike heavy dosing."""
    found = importlib.util.find_spec("icu_sepsis")
    if found is None or found.origin is None:
        return {"skipped": "icu-sepsis is not installed"}
    folder = Path(found.origin).parent / "envs" / "assets"
    data = np.load(folder / "dynamics.npz")
    transitions = data["tx_mat"] / data["tx_mat"].sum(axis=2, keepdims=True)
    mdp = tacit.MDP(transitions, data["d_0"], 0.99)
    survival = (data["tx_mat"] * data["r_mat"]).sum(axis=2)
    fluids, pressors = np.divmod(np.arange(25), 5)
    doses = np.stack([fluids / 4, pressors / 4, (fluids * pressors) / 16], axis=1)
    features = tacit.Features(
        survival[:, :, None],
        [np.broadcast_to(doses, (mdp.states, 25, 3)).copy()],
        ["survival"],
        [["fluids", "vasopressors", "both at once"]],
    )
    cost, multiplier, temperature = np.array([0.2, 0.5, 0.3]), 0.02, 0.01
    tables = features.objective([1.0], [cost], [1.0])
    priced = tacit.Objective(tables.reward - multiplier * tables.costs[0])
    expert = tacit.solve(mdp, priced, solver=tacit.SoftDual(temperature=temperature))
    seen = tacit.simulate(mdp, expert.policy, trajectories=20_000, steps=100, seed=0)
    test = tacit.simulate(mdp, expert.policy, trajectories=2_000, steps=100, seed=1)
    start = time.perf_counter()
    recovery = tacit.recover(mdp, features, seen, estimator=tacit.Likelihood(), throw=False)
    seconds = time.perf_counter() - start
    return {
        "states": mdp.states,
        "observed_steps": seen.steps,
        "seconds": seconds,
        "status": recovery.status.name,
        "cost_weights": recovery.cost_weights[0].tolist(),
        "true_cost_weights": cost.tolist(),
        "cost_intervals": recovery.identification.cost_intervals[0].tolist(),
        "multiplier": recovery.multipliers[0],
        "true_multiplier": multiplier,
        "temperature": recovery.temperature,
        "true_temperature": temperature,
        "held_out_log_likelihood": scored(
            mdp,
            features,
            seen,
            test,
            {"joint": tacit.Likelihood(), "reward only": RewardOnly()},
        )
        | {"true expert": log_likelihood(mdp, expert.policy, test)},
    }


def mice(args: Args) -> dict[str, Any]:
    """Ten mice in a labyrinth: what held-out steps say, and what cannot be told."""
    folder = Path(os.environ.get("TACIT_DATA", "")) / "labyrinth"
    if not folder.is_dir():
        return {"skipped": "TACIT_DATA names no folder with labyrinth/"}
    windows = np.load(folder / "emissions500new.npy")
    transitions = np.load(folder / "trans_probs.npy")
    count = len(transitions)
    # Windows of 500 steps cut from longer runs: partial, starting anywhere.
    mdp = tacit.MDP(transitions, np.full(count, 1 / count), 0.95)
    depth = np.floor(np.log2(np.arange(count) + 1))
    one_hot = np.eye(count)
    reward = np.stack([one_hot[116], one_hot[0], depth == 6], axis=1).astype(float)
    nexts = transitions.argmax(axis=2)
    wall = (nexts == np.arange(count)[:, None]).astype(float)
    turning = np.repeat((depth / 6)[:, None], 4, axis=1)
    features = tacit.Features(
        reward,
        [np.stack([wall, turning], axis=2)],
        ["water port", "way home", "end of a corridor"],
        [["running into a wall", "being deep inside"]],
    )

    def demonstrations(chosen: np.ndarray) -> Any:
        rows = windows[chosen]
        lengths = np.arange(len(rows) + 1) * rows.shape[1]
        flat = rows.reshape(-1, 2)
        partial = np.ones(len(rows), bool)
        return tacit.Demonstrations(flat[:, 0], flat[:, 1], lengths, partial=partial)

    order = np.random.default_rng(0).permutation(len(windows))
    test, train = (demonstrations(part) for part in (order[:48], order[48:]))
    recovery = tacit.recover(mdp, features, train, estimator=tacit.Likelihood(), throw=False)
    return {
        "states": count,
        "observed_steps": train.steps,
        "status": recovery.status.name,
        "reward_weights": dict(
            zip(features.reward_names, recovery.reward_weights.tolist(), strict=True)
        ),
        "reward_intervals": recovery.identification.reward_intervals.tolist(),
        "cost_weights": dict(
            zip(features.cost_names[0], recovery.cost_weights[0].tolist(), strict=True)
        ),
        "multiplier": recovery.multipliers[0],
        "findings": list(recovery.identification.findings),
        "held_out_log_likelihood": scored(
            mdp,
            features,
            train,
            test,
            {"joint": tacit.Likelihood(), "reward only": RewardOnly()},
        ),
        "caution": "windows were kept only if home and water were visited at least 7 times each: "
        "a high reward there is partly that selection",
    }


STUDIES = {"large grid": large_grid, "icu-sepsis": clinic, "labyrinth": mice}


def main(args: Args) -> None:
    rows = []
    for name, study in STUDIES.items():
        if args.only and name not in args.only:
            continue
        rows.append({"name": name, **study(args)})
        print(json.dumps(rows[-1], indent=1, default=float), flush=True)
    if args.only:
        return
    names = ("tacit-irl", "jax", "numpy", "scipy", "numba")
    document = {
        **about(names),
        "rows": rows,
    }
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1, default=float) + "\n")


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args))
