"""Prototype: ONE host search over many small problems, one device call an evaluation.

    python benchmarks/prototypes/batch_search.py --problems 100000

The problems are those of `benchmarks/gpu.py --only "many recoveries"`: convex recoveries on the
paper's grid from resampled trajectories. The search is bounded Newton in NumPy over a leading axis;
what it asks of the device is loss, gradient and information of all unfinished problems, in one
call; soft values stay there. Beside it: `tacit.many.recover_many` on the same data in the same run.
Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from functools import partial
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

import tacit

ROUNDS = 60  # of a fixed point
SETTLED = 1e-13  # change of values at which it is reached
PROMISED = 1e-13  # nats that the next step may still promise
RUNAWAY, RESCUE = 30, 1e-6  # steps after which a ridge is added: the loss has no minimum
SMALLEST = 256  # problems in a call: fewer are padded, so that few shapes are compiled


def eliminated(system: Any, right: Any) -> Any:
    """The x of system @ x = right [S, D] by Gauss and Jordan: an M-matrix needs no pivots."""

    def clear(row: Any, table: Any) -> Any:
        pivot = table[row] / table[row, row]
        table = table - table[:, row, None] * pivot
        return table.at[row].set(pivot)

    table = jnp.concatenate([system, right], axis=1)
    return jax.lax.fori_loop(0, len(system), clear, table)[:, len(system) :]


@partial(jax.jit, static_argnames="discount")
def evaluate(
    z: Any, values: Any, target: Any, features: Any, moves: Any, initial: Any, discount: float
) -> tuple[Any, Any, Any, Any]:
    """Losses [N], gradients [N, D], informations [N, D, D] and soft values [N, S]."""

    def one(z: Any, values: Any, target: Any) -> tuple[Any, Any, Any, Any]:
        utility = features @ z

        def chain(values: Any) -> tuple[Any, Any, Any]:
            total = utility + discount * moves @ values
            fresh = jax.nn.logsumexp(total, axis=1)
            policy = jnp.exp(total - fresh[:, None])
            system = jnp.eye(len(values)) - discount * jnp.einsum("sa,sat->st", policy, moves)
            return fresh, policy, system

        def newton(state: Any) -> Any:
            values, _, done = state
            fresh, _, system = chain(values)
            step = eliminated(system, (fresh - values)[:, None])[:, 0]
            return values + step, jnp.abs(step).max(), done + 1

        def going(state: Any) -> Any:
            return (state[1] > SETTLED * (1 + jnp.abs(state[0]).max())) & (state[2] < ROUNDS)

        values, _, _ = jax.lax.while_loop(going, newton, (values, jnp.inf, 0))
        _, policy, system = chain(values)
        averages = jnp.einsum("sa,sad->sd", policy, features)
        slopes = eliminated(system, averages)
        visits = eliminated(system.T, initial[:, None])[:, 0]
        scores = features + discount * moves @ slopes - slopes[:, None]
        weight = (visits[:, None] * policy).ravel()
        flat = scores.reshape(-1, len(z))
        return (
            initial @ values - target @ z,
            initial @ slopes - target,
            (flat.T * weight) @ flat,
            values,
        )

    return jax.vmap(one)(z, values, target)


def bounded_step(curvature: np.ndarray, slope: np.ndarray, least: np.ndarray) -> np.ndarray:
    """[N, D] minima of slope . d + d' curvature d / 2 where d >= least <= 0: active sets, masked.

    What crosses its bound is put there; nothing crossing, the worst wrong multiplier is let go.
    """
    size = slope.shape[1]
    ridge = 1e-12 * np.trace(curvature, axis1=1, axis2=2)[:, None, None]
    model = curvature + ridge * np.eye(size)
    held = (least >= 0) & (slope > 0)
    step, rows = np.zeros_like(slope), np.arange(len(slope))
    for _ in range(5 * size):
        here, keep = held[rows], ~held[rows]
        fixed = np.where(here, least[rows], 0.0)
        right = -(slope[rows] + (model[rows] @ fixed[..., None])[..., 0]) * keep
        matrix = model[rows] * keep[:, :, None] * keep[:, None, :] + np.eye(size) * here[:, None]
        moved = np.linalg.solve(matrix, right[..., None])[..., 0] + fixed
        step[rows] = moved
        crossing = keep & (moved < least[rows])
        pull = slope[rows] + (model[rows] @ moved[..., None])[..., 0]
        wrong = np.where(
            here & (pull < -1e-12 * np.abs(slope[rows]).max(axis=1, keepdims=True)), pull, 0
        )
        released = (wrong == wrong.min(axis=1, keepdims=True)) & (wrong < 0)
        released &= ~crossing.any(axis=1, keepdims=True)
        held[rows] = (here | crossing) & ~released
        rows = rows[(crossing | released).any(axis=1)]
        if not len(rows):
            break
    return np.maximum(step, least)


def search(target: np.ndarray, features: np.ndarray, mdp: tacit.MDP) -> dict[str, Any]:
    """Minima [N, D] within z >= 0; finished problems leave the batch."""
    count, size = target.shape
    moves = np.asarray(mdp.sparse().todense()).reshape(mdp.states, mdp.actions, mdp.states)
    world = tuple(jnp.asarray(part) for part in (features, moves, mdp.initial))
    z, loss = np.zeros((count, size)), np.full(count, np.inf)
    gradient, information = np.zeros((count, size)), np.zeros((count, size, size))
    values, targets = jnp.zeros((count, mdp.states)), jnp.asarray(target)
    steps, ridge, asked = np.zeros(count, int), np.zeros(count), []

    def ask(rows: np.ndarray, trial: np.ndarray) -> tuple[Any, ...]:
        width = min(count, max(SMALLEST, 1 << (len(rows) - 1).bit_length()))
        begun = time.perf_counter()
        padded = rows[np.minimum(np.arange(width), len(rows) - 1)]
        places = trial[np.minimum(np.arange(width), len(rows) - 1)]
        found = evaluate(
            jnp.asarray(places), values[padded], targets[padded], *world, discount=mdp.discount
        )
        there, slopes, curvatures = (np.array(part[: len(rows)]) for part in found[:3])
        weight = ridge[rows]
        there += 0.5 * weight * (trial**2).sum(axis=1)
        slopes += weight[:, None] * trial
        curvatures += weight[:, None, None] * np.eye(size)
        asked.append((len(rows), time.perf_counter() - begun))
        return padded, there, slopes, curvatures, found[3]

    open_rows = np.arange(count)
    padded, loss, gradient, information, fresh = ask(open_rows, z)
    values = values.at[padded].set(fresh)
    while len(open_rows):
        late = open_rows[(steps[open_rows] > RUNAWAY) & (ridge[open_rows] == 0)]
        if len(late):
            ridge[late] = RESCUE
            loss[late] += 0.5 * RESCUE * (z[late] ** 2).sum(axis=1)
            gradient[late] += RESCUE * z[late]
            information[late] += RESCUE * np.eye(size)
        here, slope, curvature = z[open_rows], gradient[open_rows], information[open_rows]
        step = bounded_step(curvature, slope, -here)
        promise = -(slope * step).sum(axis=1)
        done = (promise <= PROMISED * (1 + np.abs(loss[open_rows]))) | (steps[open_rows] >= 200)
        open_rows, here, slope, step = (part[~done] for part in (open_rows, here, slope, step))
        length, left = np.ones(len(open_rows)), np.arange(len(open_rows))
        while len(left):
            trial = np.maximum(here[left] + length[left, None] * step[left], 0.0)
            rows = open_rows[left]
            padded, there, *derivatives, fresh = ask(rows, trial)
            gain = (slope[left] * (here[left] - trial)).sum(axis=1)
            rounding = 1e-14 * (1 + np.abs(loss[rows]))
            good = there <= loss[rows] - 1e-4 * gain + rounding
            good |= length[left] < 1e-6
            values = values.at[padded[: len(rows)]].set(fresh[: len(rows)])
            taken = rows[good]
            z[taken], loss[taken] = trial[good], there[good]
            gradient[taken], information[taken] = (part[good] for part in derivatives)
            steps[taken] += 1
            length[left[~good]] /= 4
            left = left[~good]
    return {
        "z": z,
        "loss": loss,
        "gradient": gradient,
        "steps": steps,
        "ridge": ridge,
        "asked": asked,
    }


def problems(count: int) -> tuple[tacit.worlds.World, np.ndarray]:
    """The world, and mean discounted visits [N, S, A] of resampled trajectories of experts."""
    experts, trajectories = min(100, count), 100
    each, random = -(-count // experts), np.random.default_rng(0)
    world, tables = tacit.worlds.hill_grid(seed=0), []
    for n in range(experts):
        weights = random.dirichlet(np.ones(2)), [random.dirichlet(np.ones(4))]
        table = world.features.objective(*weights, [np.inf])
        priced = tacit.Objective(table.reward - 0.05 * random.random() * table.costs[0])
        expert = tacit.SoftDual(temperature=0.0025).solve(world.mdp, priced)
        walks = tacit.simulate(world.mdp, expert.policy, trajectories=100, steps=200, seed=n)
        weight = world.mdp.discount**walks.step / (1 - world.mdp.discount**200)
        index = (walks.episode * world.mdp.states + walks.states) * 4 + walks.actions
        visits = np.bincount(index, weight, trajectories * world.mdp.states * 4)
        draws = random.multinomial(trajectories, np.full(trajectories, 1 / trajectories), each)
        tables.append(draws @ visits.reshape(trajectories, -1) / trajectories)
    return world, np.concatenate(tables)[:count].reshape(-1, world.mdp.states, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=100_000)
    parser.add_argument("--beside", action="store_true", help="time recover_many, too")
    args = parser.parse_args()
    world, visits = problems(args.problems)
    features = world.features
    wide = np.broadcast_to(
        np.concatenate([features.reward, -features.costs[0]], axis=1)[:, None],
        (world.mdp.states, 4, 6),
    )
    scales = np.ptp(wide, axis=(0, 1))
    scaled = np.ascontiguousarray(wide / scales)
    target = np.einsum("nsa,sad->nd", visits, scaled)
    report: dict[str, Any] = {"problems": args.problems, "device": jax.devices()[0].device_kind}
    with jax.enable_x64(True):
        for name in ("first_seconds", "seconds"):
            begun = time.perf_counter()
            found = search(target, scaled, world.mdp)
            report[name] = time.perf_counter() - begun
    held = (found["z"] <= 0) & (found["gradient"] > 0)
    report |= {
        "device_calls": len(found["asked"]),
        "rescued": int((found["ridge"] > 0).sum()),
        "largest_calls": [(n, round(t, 3)) for n, t in found["asked"][:10]],
        "seconds_in_calls": sum(t for _, t in found["asked"]),
        "steps_median": float(np.median(found["steps"])),
        "steps_most": int(found["steps"].max()),
        "projected_gradient": float(
            np.quantile(np.abs(np.where(held, 0, found["gradient"])), 0.9999)
        ),
    }
    if args.beside:
        for name in ("today_first_seconds", "today_seconds"):
            begun = time.perf_counter()
            batch = tacit.many.recover_many(world.mdp, features, visits, estimator=tacit.Convex())
            report[name] = time.perf_counter() - begun
        theta = found["z"] / scales
        weights = theta[:, :2] / np.maximum(theta[:, :2].sum(axis=1, keepdims=True), 1e-300)
        sure = batch.converged & ~batch.deterministic
        report["largest_difference"] = float(
            np.nanmax(np.abs(weights - batch.reward_weights)[sure])
        )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
