"""One task for every way to split it, and the program that each process of a split job runs.

python tests/shards.py OUT                         # all devices of this process
python tests/shards.py OUT ADDRESS PROCESSES RANK  # one process of a job
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np

import tacit

# 289 states: too many for one dense matrix, and no number of devices divides them.
SIDE, DISCOUNT = 17, 0.8
# Finer than its default: two answers are compared to 1e-9.
SOLVER = tacit.SoftDual(temperature=0.05, tolerance=1e-10)
LIKELIHOOD, CONVEX = tacit.Likelihood(level=1.0), tacit.Convex()


@cache
def task() -> tuple[tacit.MDP, tacit.Features, tacit.Objective]:
    """A grid with smooth features, and what an expert wants and refuses there."""
    grid = tacit.worlds.hill_grid(0, size=SIDE, discount=DISCOUNT).mdp
    rng = np.random.default_rng(0)
    cells = np.stack(np.divmod(np.arange(grid.states), SIDE), axis=1) / SIDE

    def bumps(count: int) -> np.ndarray:
        distance = ((cells[:, None, :] - rng.random((count, 2))) ** 2).sum(axis=2)
        return np.exp(-distance / (2 * 0.2**2))

    features = tacit.Features(bumps(3), [bumps(2)])
    even = np.full(grid.states, 1 / grid.states)
    mdp = tacit.MDP(grid.transitions, even, DISCOUNT)
    return mdp, features, features.objective([0.5, 0.3, 0.2], [[0.6, 0.4]], [0.7])


def counts(mdp: tacit.MDP, policy: np.ndarray) -> np.ndarray:
    """[S, A] how often each action was taken: a hundred steps in every state."""
    rng = np.random.default_rng(1)
    chances = policy / policy.sum(axis=1, keepdims=True)
    return rng.multinomial(np.full(mdp.states, 100), chances).astype(float)


def steps(seen: np.ndarray) -> tacit.Demonstrations:
    """The same as loose pairs."""
    states, actions = np.nonzero(seen)
    many = seen[states, actions].astype(int)
    return tacit.Demonstrations.from_pairs(np.repeat(states, many), np.repeat(actions, many))


def scattered(states: int = 301) -> tacit.MDP:
    """Steps that lead anywhere, and often to one hub: no device sees enough in a border."""
    rng = np.random.default_rng(2)
    lists = rng.integers(states, size=(states, 3, 4))
    lists[:, :, 0] = 7
    chances = rng.dirichlet(np.ones(4), size=(states, 3))
    return tacit.MDP(tacit.Successors(lists, chances), np.eye(states)[0], 0.95)


class Asked:
    """The model by rows; notes which states somebody asked for."""

    def __init__(self) -> None:
        self.mdp, self.parts, self.objective = task()
        self.low, self.high = self.mdp.states, 0

    def rows(self, start: int, stop: int) -> tacit.Successors:
        self.low, self.high = min(self.low, start), max(self.high, stop)
        lists = self.mdp.transitions
        return tacit.Successors(lists.states[start:stop], lists.probabilities[start:stop])

    def wanted(self, start: int, stop: int) -> tacit.Objective:
        o = self.objective
        return tacit.Objective(o.reward[start:stop], o.costs[:, start:stop], o.budgets)

    def features(self, start: int, stop: int) -> tacit.Features:
        costs = [table[start:stop] for table in self.parts.costs]
        return tacit.Features(self.parts.reward[start:stop], costs)

    def model(self) -> tacit.scale.ShardedMDP:
        mdp = self.mdp
        return tacit.scale.ShardedMDP.from_rows(
            self.rows, lambda i, j: mdp.initial[i:j], states=mdp.states, discount=mdp.discount
        )


def numbers(answer) -> list[float]:
    """The small numbers of a recovery, in one list."""
    costs = [w for block in answer.cost_weights for w in block]
    return [
        *answer.reward_weights,
        *costs,
        *answer.multipliers,
        *answer.budgets,
        answer.temperature,
    ]


def held(array) -> int:
    """Bytes of an array that this process holds."""
    return sum(shard.data.nbytes for shard in array.addressable_shards)


def simulated_devices() -> dict:
    """What the public verbs answer, split over the devices of this process."""
    from tacit.engine.backends import backend_of

    mdp, features, objective = task()
    policy = tacit.solve(mdp, objective, solver=SOLVER).policy
    seen = steps(counts(mdp, policy))
    with tacit.scale.sharded():
        solution = tacit.solve(mdp, objective, solver=SOLVER)
        likely = tacit.recover(mdp, features, seen, estimator=LIKELIHOOD)
        world = backend_of(mdp)
        other = tacit.solve(scattered(), hub_objective(), solver=SOLVER)
    return {
        "multipliers": [*solution.multipliers],
        "value": solution.value,
        "values": [*solution.values],
        "likelihood": numbers(likely),
        "errors": [*likely.identification.multiplier_standard_errors],
        "border": world.border,
        "shares": [shard.data.nbytes for shard in world.probabilities.addressable_shards],
        "hub": [*other.multipliers, other.value, *other.values],
    }


def hub_objective() -> tacit.Objective:
    """A reward and a budget that binds, for the scattered model."""
    rng = np.random.default_rng(3)
    return tacit.Objective(rng.random(301), [rng.random(301)], [5.5])


def one_process() -> dict:
    """What this process of a job answers, of a model that no process holds."""
    asked = Asked()
    model = asked.model()
    solution = tacit.solve(model, asked.wanted, solver=SOLVER)
    policy = tacit.solve(asked.mdp, asked.objective, solver=SOLVER).policy
    seen = counts(asked.mdp, policy)
    rows = lambda i, j: seen[i:j]  # noqa: E731 - as a user writes it
    likely = tacit.recover(model, asked.features, rows, estimator=LIKELIHOOD)
    # A visitation of a policy, so that Convex can match it: the whole in every process.
    with tacit.scale.sharded():
        whole = tacit.solve(asked.mdp, asked.objective, solver=SOLVER)
    rows = lambda i, j: whole.visitation[i:j]  # noqa: E731
    convex = tacit.recover(model, asked.features, rows, estimator=CONVEX)
    return {
        "multipliers": [*solution.multipliers],
        "value": solution.value,
        "certificate": [*vars(solution.certificate).values()],
        "likelihood": numbers(likely),
        "errors": [*likely.standard_errors],
        "convex": numbers(convex),
        "whole": [*whole.multipliers, whole.value, *whole.values],
        "asked": [asked.low, asked.high],
        "bytes": [
            held(model.backend.states),
            held(model.backend.probabilities),
            held(solution.policy),
        ],
    }


if __name__ == "__main__":
    out, *job = sys.argv[1:]
    if job:
        import jax

        jax.distributed.initialize(job[0], num_processes=int(job[1]), process_id=int(job[2]))
    from tacit.engine.backends import linear_systems

    tacit.scale.keep_compiled_code()  # compiling is nearly all that this costs
    linear_systems.AT_ONCE = 1  # unrolled steps save an accelerator time, and cost us compiling
    answer = one_process() if job else simulated_devices()
    Path(out).write_text(json.dumps(answer, default=float))
