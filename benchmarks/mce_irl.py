"""One gradient of maximum causal entropy, beside `imitation`'s tabular mce_irl, same problem.

    python benchmarks/mce_irl.py --peer-python PATH

`imitation` is heavy and lives in an environment of its own, whose Python is PATH; both sides run on
this machine in one call, alternating. Its problem is finite: the horizon is set so that what lies
beyond weighs less than 1e-9 at the discount. Writes benchmarks/results/mce_irl.json.
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

from provenance import about

# What the peer's Python runs: it knows nothing of tacit.
PEER = """
import json, sys, time, types, importlib.metadata
import numpy as np
from imitation.algorithms import mce_irl
data = np.load(sys.argv[1])
steps, discount = int(sys.argv[2]), float(data["discount"])
env = types.SimpleNamespace(
    horizon=int(data["horizon"]), state_dim=len(data["initial"]),
    action_dim=data["transitions"].shape[1],
    transition_matrix=data["transitions"], reward_matrix=data["reward"],
    initial_state_dist=data["initial"])
times = []
for _ in range(steps):
    start = time.perf_counter()
    _, visits = mce_irl.mce_occupancy_measures(env, reward=data["reward"], discount=discount)
    gradient = visits @ data["features"]
    times.append(time.perf_counter() - start)
_, _, policy = mce_irl.mce_partition_fh(env, reward=data["reward"], discount=discount)
_, respected = mce_irl.mce_occupancy_measures(
    env, reward=data["reward"], pi=policy, discount=discount)
print(json.dumps({"seconds": min(times), "gradient": gradient.tolist(),
    "gradient_with_discounted_policy": (respected @ data["features"]).tolist(),
    "version": importlib.metadata.version("imitation")}))
"""


@dataclass(frozen=True)
class Args:
    """Benchmark of one gradient against imitation."""

    peer_python: Path
    """The Python of an environment with `imitation`."""
    sizes: tuple[int, ...] = (5, 32)
    steps: int = 5
    """Gradients of each side; the best counts."""
    discount: float = 0.9
    out: Path = Path(__file__).parent / "results" / "mce_irl.json"


def row(args: Args, size: int) -> dict[str, Any]:
    """Both sides on one grid."""
    import tacit
    from tacit.engine.backends import backend_of
    from tacit.likelihood.steps import StepsChain
    from tacit.model.features.design import Design
    from tacit.search.smooth_dual import point_at

    world = tacit.worlds.hill_grid(0, size=size, discount=args.discount)
    mdp, space = world.mdp, Design.of(world.mdp, world.features)
    horizon = int(np.ceil(np.log(1e-9 * (1 - args.discount)) / np.log(args.discount)))
    x = np.ones(space.size)
    reward = (space.tables[:, :, 0] * x[:, None]).sum(axis=0)
    problem = StepsChain.matching(mdp, space, np.zeros((mdp.states, mdp.actions))).dual
    engine, start_values = backend_of(mdp), np.zeros(mdp.states)

    def gradient() -> np.ndarray:
        return point_at(engine, problem, x, start_values, 1e-9).gradient

    mine = gradient()
    best = np.inf
    for _ in range(max(args.steps, 20)):
        start = time.perf_counter()
        gradient()
        best = min(best, time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(
            path, transitions=mdp.dense(), initial=mdp.initial, reward=reward, horizon=horizon,
            features=space.tables[:, :, 0].T, discount=args.discount,
        )  # fmt: skip
        command = [str(args.peer_python), "-c", PEER, str(path), str(args.steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    peer = json.loads(done.stdout.strip().splitlines()[-1])
    return {
        "states": mdp.states,
        "horizon_of_imitation": horizon,
        "tacit_seconds_a_gradient_with_hessian": best,
        "imitation_seconds_a_gradient": peer["seconds"],
        "ratio": peer["seconds"] / best,
        "tacit_against_imitation_with_discounted_policy": float(
            np.abs(mine - peer["gradient_with_discounted_policy"]).max() / np.abs(mine).max()
        ),
        "imitation_as_it_is_against_discounted_policy": float(
            np.abs(np.subtract(peer["gradient"], peer["gradient_with_discounted_policy"])).max()
            / np.abs(mine).max()
        ),
        "target": ">= 20 times faster a gradient, and the discount is respected",
        "imitation_version": peer["version"],
    }


def main(args: Args) -> None:
    rows = [row(args, size) for size in args.sizes]
    print(json.dumps(rows, indent=1))
    names = ("tacit-irl", "jax", "numpy", "scipy", "numba")
    document = {
        **about(names, command="python benchmarks/mce_irl.py --peer-python PATH"),
        "rows": rows,
    }
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args))
