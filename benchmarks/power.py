"""Whether the power that stands beside a fit is the one that the tests have.

    python benchmarks/power.py
    python benchmarks/power.py --worlds 6 --draws 30 --trajectories 12 --steps 30

Writes benchmarks/results/power.json. In each world the right expert is recovered, and
`goodness.power` says how often three others would have been noticed at this sample size. Beside it
stands how often they are: the same experts, made from the truth instead of the fit, are drawn and
recovered one by one. Features depend on state and action in every second world, else on the state.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

import tacit
from misfit import ACTIONS, Plan, World, policy, simulate, world
from provenance import about


@dataclass(frozen=True)
class Args:
    """Worlds and draws."""

    worlds: int = 20
    draws: int = 60
    trajectories: int = 60
    steps: int = 50
    out: Path = Path(__file__).parent / "results" / "power.json"


def others(at: World) -> list[Plan]:
    """The experts of `goodness.power`, in its order, made from the truth."""
    own = policy(at, at.theta)
    mixed = 0.9 * own + 0.1 / ACTIONS
    turned = policy(at, np.roll(at.theta, 1))
    kinds = [policy(at, at.theta, discount=0.3)], [mixed], [own, turned]
    return [(np.stack(one)[:, None], 0.0) for one in kinds]


def alarm(at: World, seen: tacit.Demonstrations) -> bool:
    """Whether misfit is said."""
    return not tacit.Likelihood().fit(at.mdp, at.features, seen, throw=False).goodness.adequate


def row(number: int, args: Args) -> dict[str, object] | None:
    """What would have been noticed in a world, and what is; None where the right one is accused."""
    at = world(100 + number, True, ("action", "state")[number % 2])
    size = args.trajectories, args.steps
    right = simulate(at, (policy(at, at.theta)[None, None], 0.0), *size, seed=number)
    told = tacit.Likelihood().fit(at.mdp, at.features, right, throw=False).goodness.power
    if not told:
        return None
    found = []
    for one, plan in zip(told, others(at), strict=True):
        draws = [alarm(at, simulate(at, plan, *size, seed=1000 + n)) for n in range(args.draws)]
        found.append({**asdict(one), "noticed": float(np.mean(draws))})
    return {"world": number, "experts": found}


def main(args: Args) -> None:
    rows = []
    for number in range(args.worlds):
        found = row(number, args)
        if found is not None:
            rows.append(found)
            print(json.dumps(found), flush=True)
    apart = np.array([[one["chance"] - one["noticed"] for one in r["experts"]] for r in rows])
    inside = np.array(
        [
            [one["low"] - 0.1 <= one["noticed"] <= one["high"] + 0.1 for one in r["experts"]]
            for r in rows
        ]
    )
    result = {
        **about(["tacit-irl", "numpy", "scipy"]),
        "settings": {name: value for name, value in asdict(args).items() if name != "out"},
        "mean_error": np.abs(apart).mean(axis=0).tolist(),
        "largest_error": np.abs(apart).max(axis=0).tolist(),
        "within_a_tenth": inside.mean(axis=0).tolist(),
        "rows": rows,
    }
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({name: result[name] for name in ("mean_error", "within_a_tenth")}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for field in fields(Args):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    main(Args(**vars(parser.parse_args())))
