"""Whether tacit notices that its model is wrong, and what its numbers are worth when it is.

    python benchmarks/misfit.py
    python benchmarks/misfit.py --counted 1000 --draws 60

Writes benchmarks/results/misfit.json. Experts that the model cannot describe, and one that it can,
on random worlds, with a constraint and without. For each: how often misfit is said (and by which
part), how often a constraint that does not exist is called active, also among those not flagged,
and how often 95 % intervals of reward weights hold those of the best approximation, which is the
fit of very many steps of the same expert, with its Monte Carlo error. Where the dynamics are
counted, how often only the doubt about them keeps misfit from being said (`not_settled`). Verdicts
by the rule of rates.py: false misfits and false active constraints of the right expert, intervals
of all. The
kinds `sticky`, `drifting` and `distracted` were not used while the tests were built. With
`--counted N` the dynamics are not known but counted from a walk of N random steps, anew for every
draw; that writes benchmarks/results/misfit-counted.json. With `--features state` features do not
depend on the action, as most do not, and misfit is harder to see; that writes
benchmarks/results/misfit-state.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about
from rates import Rate, Verdict, coverage_verdict, rates_of, size_verdict

STATES, ACTIONS, DISCOUNT = 12, 4, 0.9
FRESH = ("sticky", "drifting", "distracted")


@dataclass(frozen=True)
class Args:
    """Wrong experts and the right one."""

    draws: int = 200
    worlds: int = 5
    trajectories: int = 60
    steps: int = 50
    best: int = 8_000
    """Trajectories of the best approximation."""
    counted: int = 0
    """Random steps that the dynamics are counted from; 0 where they are known."""
    features: str = "action"
    """What features depend on: "action" (and state), or "state" alone."""
    out: Path = Path(__file__).parent / "results" / "misfit.json"


@dataclass(frozen=True)
class World:
    """A model, its features and the true coefficients; `extra` is a feature that nobody is told."""

    mdp: tacit.MDP
    features: tacit.Features
    moves: np.ndarray
    theta: np.ndarray
    price: float
    extra: np.ndarray
    other: np.ndarray


def world(seed: int, constrained: bool, features: str = "action") -> World:
    """One of the worlds; the same but for the price with a constraint and without."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((STATES, ACTIONS, STATES))
    for s in range(STATES):
        for a in range(ACTIONS):
            moves[s, a, rng.choice(STATES, 4, replace=False)] = rng.dirichlet(np.ones(4))
    reward, cost = rng.random((STATES, ACTIONS, 3)), rng.random((STATES, ACTIONS, 1))
    if features == "state":
        reward, cost = (np.repeat(table[:, :1], ACTIONS, axis=1) for table in (reward, cost))
    theta, other = 8.0 * rng.dirichlet(2.0 * np.ones(3)), 8.0 * rng.dirichlet(2.0 * np.ones(3))
    mdp = tacit.MDP(moves, np.full(STATES, 1.0 / STATES), DISCOUNT)
    known = tacit.Features(reward, (cost,))
    extra = 4.0 * rng.random((STATES, ACTIONS))
    return World(mdp, known, moves, theta, 3.0 if constrained else 0.0, extra, other)


def policy(
    at: World,
    theta: np.ndarray,
    *,
    discount: float = DISCOUNT,
    extra: float = 0.0,
    greedy: bool = False,
    scale: float = 1.0,
    moves: np.ndarray | None = None,
    sweeps: int = 2000,
    present: float = 1.0,
) -> np.ndarray:
    """[S, A] of an expert with these coefficients, which plans so many steps with these moves.

    What comes after a step counts `present` times as much in the choice of that step.
    """
    moves = at.moves if moves is None else moves
    gain = at.features.reward @ theta - at.price * at.features.costs[0][..., 0] + extra * at.extra
    gain, values = scale * gain, np.zeros(STATES)
    for _ in range(sweeps):
        ahead = gain + discount * moves @ values
        top = ahead.max(axis=1)
        soft = top + np.log(np.exp(ahead - top[:, None]).sum(axis=1))
        values, before = (top if greedy else soft), values
        if np.abs(values - before).max() < 1e-10:
            break
    if present != 1.0:
        ahead = gain + present * discount * moves @ values
        soft = np.log(np.exp(ahead).sum(axis=1))
    if greedy:
        return np.eye(ACTIONS)[ahead.argmax(axis=1)]
    return np.exp(ahead - soft[:, None])


# [types, phases, S, A] policies, and how often an action repeats; below 0, how much less likely the
# last action is than it would be.
Plan = tuple[np.ndarray, float]


def plans(at: World) -> dict[str, Callable[[], Plan]]:
    """Kind of expert -> what it does: half of its trajectories are of each type."""
    theta, random = at.theta, np.full((STATES, ACTIONS), 1.0 / ACTIONS)

    def mixed(*types: np.ndarray) -> Plan:
        return np.stack(types)[:, None], 0.0

    def drifting() -> Plan:
        way = np.linspace(0.0, 1.0, 10)
        return np.stack([policy(at, (1 - w) * theta + w * at.other) for w in way])[None], 0.0

    def distracted() -> Plan:
        own = policy(at, theta)
        own[:2] = random[:2]
        return mixed(own)

    def turning(phases: int) -> Plan:
        pair = policy(at, theta), policy(at, at.other)
        return np.stack([pair[n % 2] for n in range(phases)])[None], 0.0

    def slumping() -> Plan:
        scales = (1.0, 0.4, 1.0)
        return np.stack([policy(at, theta, scale=one) for one in scales])[None], 0.0

    sure = np.eye(STATES)[at.moves.argmax(axis=2)]
    return {
        "right": lambda: mixed(policy(at, theta)),
        "optimal, 20 % at random": lambda: mixed(
            0.8 * policy(at, theta, greedy=True) + 0.2 * random
        ),
        "missing feature": lambda: mixed(policy(at, theta, extra=1.0)),
        "discount 0.3 for 0.9": lambda: mixed(policy(at, theta, discount=0.3)),
        "two rewards": lambda: mixed(policy(at, theta), policy(at, at.other)),
        "two noises": lambda: mixed(policy(at, theta, scale=0.4), policy(at, theta, scale=2.0)),
        "sticky": lambda: (policy(at, theta)[None, None], 0.2),
        "drifting": drifting,
        "distracted": distracted,
        "avoids repeating": lambda: (policy(at, theta)[None, None], -0.5),
        "midday slump": slumping,
        "rewards in turns of 5 steps": lambda: turning(10),
        "rewards in turns of 3 steps": lambda: turning(17),
        "10 % at random": lambda: mixed(0.9 * policy(at, theta) + 0.1 * random),
        "looks 2 steps ahead": lambda: mixed(policy(at, theta, sweeps=2)),
        "looks 5 steps ahead": lambda: mixed(policy(at, theta, sweeps=5)),
        "believes in no chance": lambda: mixed(policy(at, theta, moves=sure)),
        "believes in 40 % teleport": lambda: mixed(
            policy(at, theta, moves=0.6 * at.moves + 0.4 / STATES)
        ),
        "present counts double": lambda: mixed(policy(at, theta, present=0.5)),
    }


def simulate(at: World, plan: Plan, many: int, steps: int, seed: int) -> tacit.Demonstrations:
    """Trajectories of an expert."""
    (table, repeat), rng = plan, np.random.default_rng(seed)
    kind = np.arange(many) % len(table)
    states, actions = np.empty((many, steps), int), np.empty((many, steps), int)
    here, last = rng.integers(STATES, size=many), np.full(many, -1)
    walks = at.moves.cumsum(axis=2)
    for t in range(steps):
        chances = table[kind, t * table.shape[1] // steps, here]
        if repeat < 0 and t:
            chances[np.arange(many), last] *= 1.0 + repeat
            chances /= chances.sum(axis=1, keepdims=True)
        chances = chances.cumsum(axis=1)
        chosen = (rng.random((many, 1)) > chances[:, :-1]).sum(axis=1)
        again = (rng.random(many) < repeat) & (last >= 0)
        last = np.where(again, last, chosen)
        states[:, t], actions[:, t] = here, last
        here = (rng.random((many, 1)) > walks[here, last][:, :-1]).sum(axis=1)
    offsets = np.arange(many + 1) * steps
    return tacit.Demonstrations(states.ravel(), actions.ravel(), offsets)


def known(at: World, walk: int, seed: int) -> tacit.MDP:
    """The model that the recovery is given: the true one, or one counted from a walk."""
    if not walk:
        return at.mdp
    random = np.full((STATES, ACTIONS), 1.0 / ACTIONS)
    walked = tacit.simulate(at.mdp, random, trajectories=1, steps=walk, seed=10**6 + seed)
    return tacit.MDP.from_transitions(
        walked, n_states=STATES, n_actions=ACTIONS, discount=DISCOUNT, initial=at.mdp.initial
    )


def row(kind: str, constrained: bool, args: Args) -> dict[str, Any]:
    """What is said of one kind of expert."""
    said, active, covered, true, widths, seconds, hidden = [], [], [], [], [], [], []
    failed: dict[str, int] = {}
    worlds = []
    for n in range(args.worlds):
        at = world(n, constrained, args.features)
        plan = plans(at)[kind]()
        seen = simulate(at, plan, args.best, args.steps, 10**6 + n)
        whole = tacit.Likelihood(level=1.0).fit(at.mdp, at.features, seen, throw=False)
        worlds.append((at, plan, whole.reward_weights))
    for draw in range(args.draws):
        at, plan, best = worlds[draw % args.worlds]
        seen = simulate(at, plan, args.trajectories, args.steps, draw)
        mdp = known(at, args.counted, draw)
        began = time.perf_counter()
        found = tacit.Likelihood().fit(mdp, at.features, seen, throw=False)
        seconds.append(time.perf_counter() - began)
        said.append(not found.goodness.adequate)
        hidden.append(found.goodness.adequate and found.goodness.settled <= found.goodness.level)
        for name in found.goodness.failed:
            failed[name] = failed.get(name, 0) + 1
        active.append(bool(found.identification.active[0]))
        ends = found.identification.reward_intervals
        covered.append((ends[:, 0] <= best) & (best <= ends[:, 1]))
        truth = at.theta / at.theta.sum()
        true.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        widths.append(float(np.mean(ends[:, 1] - ends[:, 0])))
    flagged, on, held = np.array(said), np.array(active), np.array(covered)
    cell = f"{kind}, {'with' if constrained else 'without'} a constraint"
    quiet = int((~flagged).sum())
    return {
        "expert": kind,
        "constraint": constrained,
        "fresh": kind in FRESH,
        "misfit_said": float(flagged.mean()),
        "by_part": {name: count / args.draws for name, count in sorted(failed.items())},
        "active": float(on.mean()),
        "not_flagged": quiet,
        "active_among_not_flagged": float(on[~flagged].mean()) if quiet else None,
        "not_settled": float(np.mean(hidden)),
        "coverage_of_best_approximation": float(held.mean()),
        "coverage_error": float(held.mean(axis=1).std() / np.sqrt(args.draws)),
        "coverage_of_truth": float(np.mean(true)),
        "mean_width": float(np.mean(widths)),
        "median_seconds": float(np.median(seconds)),
        "rates": {
            "misfit": [asdict(rate) for rate in rates_of(cell, flagged)],
            "active": [asdict(rate) for rate in rates_of(cell, on)],
            "intervals": [asdict(rate) for rate in rates_of(cell, held)],
        },
    }


def verdicts(rows: list[dict[str, Any]]) -> dict[str, Verdict]:
    """What was promised of the right expert, and of intervals for the best approximation."""

    def rates(name: str, *, kinds: str = "", idle: bool = False) -> list[Rate]:
        chosen = [row for row in rows if kinds in ("", row["expert"])]
        chosen = [row for row in chosen if not (idle and row["constraint"])]
        return [Rate(**rate) for row in chosen for rate in row["rates"][name]]

    return {
        "false misfits of the right expert": size_verdict(rates("misfit", kinds="right")),
        "idle constraints of the right expert called active": size_verdict(
            rates("active", kinds="right", idle=True)
        ),
        "intervals for the best approximation": coverage_verdict(rates("intervals")),
    }


def main(args: Args) -> None:
    load = os.getloadavg()[0]
    rows = []
    for constrained in (False, True):
        for kind in plans(world(0, constrained, args.features)):
            rows.append(row(kind, constrained, args))
            print(json.dumps(rows[-1]), flush=True)
    head = about(["tacit-irl", "numpy", "scipy", "jax", "numba"], load=load)
    settings = {name: value for name, value in asdict(args).items() if name != "out"}
    out = args.out.with_stem("misfit-counted") if args.counted else args.out
    out = args.out.with_stem("misfit-state") if args.features == "state" else out
    judged = verdicts(rows)
    for name, verdict in judged.items():
        print(f"{name}: {verdict}")
    told = {name: asdict(verdict) for name, verdict in judged.items()}
    written = {**head, "settings": settings, "verdicts": told, "rows": rows}
    out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for field in fields(Args):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    main(Args(**vars(parser.parse_args())))
