"""Mixtures and diagnoses on demonstrators whose truth is known: who is told apart, what is named.

    python benchmarks/mixtures.py
    python benchmarks/mixtures.py --draws 5 --diagnoses 2    # a quick look; writes as well

Random worlds of 12 states, 3 actions and 3 features; 60 trajectories of 50 steps. Mixtures: two
types with other weights, the share of trajectories assigned right among those whose likelihoods
under the true policies differ by more than 3 nats; one type, how often BIC picks 1 of at most 3.
Where BIC takes one type of two, is that the search or the data? `two_by_truth` counts the draws in
which the true coefficients themselves, counted as estimated, have a smaller BIC than one type;
`search_short` those in which the search ends below their likelihood.
Diagnoses: how often `checks.diagnose` names the assumption that is wrong, or none where all are
right; a verdict by the rule of rates.py on assumptions named where all are right.
Writes benchmarks/results/mixtures.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

import tacit
from provenance import about
from rates import rates_of, size_verdict

RESULTS = Path(__file__).parent / "results" / "mixtures.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax")
TRAJECTORIES, STEPS, CLEAR = 60, 50, 3.0
KINDS = {
    "right": "none",
    "lapses in 20 % of steps": "lapses",
    "discount 0.3": "another discount",
    "two types": "two types",
    "two noises": "two levels of noise",
    "two noises, groups known": "a noise by group",
}


def world_of(seed: int) -> tacit.worlds.World:
    """One random world."""
    return tacit.worlds.random(1000 + seed, states=12, actions=3, constraints=0, features=3)


def policy(world: tacit.worlds.World, theta: np.ndarray, discount: float = 0.9) -> np.ndarray:
    """[S, A] the noisy expert with these coefficients, in units of its noise."""
    reward = world.features.objective(theta, [], []).reward
    mdp = replace(world.mdp, discount=discount)
    solver = tacit.SoftDual(temperature=1.0)
    return tacit.solve(mdp, tacit.Objective(reward), solver=solver).policy


def seen_of(
    world: tacit.worlds.World, policies: list[np.ndarray], seed: int, *, groups: bool = False
) -> tacit.Demonstrations:
    """As many trajectories of each policy."""
    each, rows = TRAJECTORIES // len(policies), []
    for k, one in enumerate(policies):
        drawn = tacit.simulate(world.mdp, one, trajectories=each, steps=STEPS, seed=100 * seed + k)
        rows += [drawn.trajectory(e) for e in range(each)]
    names = np.repeat([f"group {k}" for k in range(len(policies))], each) if groups else None
    return tacit.Demonstrations.from_trajectories(rows, groups=names)


def two_types(seed: int) -> dict[str, float]:
    """Two types in one draw: how many of the clear trajectories are assigned right."""
    world, rng = world_of(seed), np.random.default_rng(seed)
    theta = 4.0 * rng.dirichlet(np.ones(3))
    policies = [policy(world, theta), policy(world, np.roll(theta, 1))]
    seen = seen_of(world, policies, seed)
    pairs = [seen.trajectory(e) for e in range(seen.episodes)]
    apart = np.array([sum(np.log(policies[0][s, a] / policies[1][s, a])) for s, a in pairs])
    clear = np.abs(apart) > CLEAR
    found = tacit.Mixture(seed=seed).fit(world.mdp, world.features, seen, throw=False)
    each = [[float(np.log(p[s, a]).sum()) for p in policies] for s, a in pairs]
    true = float(np.logaddexp.reduce(np.array(each) - np.log(2.0), axis=1).sum())
    # Three coefficients a type, and a share.
    schwarz = 7 * np.log(seen.steps) - 2.0 * true
    truth = np.repeat([0, 1], TRAJECTORIES // 2)
    right = (found.assigned == truth)[clear]
    return {
        "clear": int(clear.sum()),
        "right": int(max(right.sum(), (~right).sum())),
        "two_by_bic": bool(found.criteria[1] < found.criteria[0]),
        "two_by_truth": bool(schwarz < found.criteria[0]),
        "search_short": bool(found.log_likelihood < true - 0.5),
    }


def one_type(seed: int) -> int:
    """The number of types that BIC picks where there is one."""
    world, rng = world_of(seed), np.random.default_rng(seed)
    seen = seen_of(world, [policy(world, 4.0 * rng.dirichlet(np.ones(3)))], seed)
    options = tacit.Mixture(types=None, most=3, seed=seed)
    return len(options.fit(world.mdp, world.features, seen, throw=False).types)


def named(kind: str, seed: int) -> str:
    """The alternative that the diagnosis of one draw puts first."""
    world, rng = world_of(seed), np.random.default_rng(seed)
    theta = rng.dirichlet(np.ones(3))
    policies = {
        "right": lambda: [policy(world, 4.0 * theta)],
        "lapses in 20 % of steps": lambda: [0.8 * policy(world, 20.0 * theta) + 0.2 / 3],
        "discount 0.3": lambda: [policy(world, 6.0 * theta, 0.3)],
        "two types": lambda: [policy(world, 5.0 * theta), policy(world, 5.0 * np.roll(theta, 1))],
    }
    noises = [policy(world, 1.5 * theta), policy(world, 10.0 * theta)]
    chosen = policies[kind]() if kind in policies else noises
    seen = seen_of(world, chosen, seed, groups="groups" in kind)
    found = tacit.checks.diagnose(world.mdp, world.features, seen, seed=seed).contradicted
    return found[0].alternative if found else "none"


def main() -> None:
    """Runs all draws and writes the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=50, help="of the mixtures")
    parser.add_argument("--diagnoses", type=int, default=10, help="draws of each wrong expert")
    given = parser.parse_args()
    pairs = [two_types(seed) for seed in range(given.draws)]
    picked = [one_type(seed) for seed in range(given.draws)]
    names = {kind: [named(kind, s) for s in range(given.diagnoses)] for kind in KINDS}
    wrongly = np.array([name != "none" for name in names["right"]])
    verdict = size_verdict(rates_of("right", wrongly))
    print(f"named where all are right: {verdict}")
    result = {
        **about(PACKAGES),
        "two_types": {
            "draws": given.draws,
            "clear": sum(p["clear"] for p in pairs),
            "right": sum(p["right"] for p in pairs),
            **{
                name: sum(p[name] for p in pairs)
                for name in ("two_by_bic", "two_by_truth", "search_short")
            },
            "two_by_bic_or_not_by_truth": sum(
                p["two_by_bic"] or not p["two_by_truth"] for p in pairs
            ),
        },
        "one_type": {"draws": given.draws, "picked_one": picked.count(1)},
        "verdict_of_false_names": asdict(verdict),
        "named": {
            kind: {"draws": given.diagnoses, "right": found.count(KINDS[kind]), "all": found}
            for kind, found in names.items()
        },
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "modules"}, indent=2))


if __name__ == "__main__":
    main()
