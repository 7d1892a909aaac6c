"""Random constrained problems that print as a seed and a size, and the hypothesis settings.

Two families. `problems()` draws any shape, for the hard solvers and the nouns. `soft_problems()`
draws from a few fixed shapes with full support, because the soft core is compiled once per shape.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, settings

import oracles
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

# Of the examples that a property asks for and the draws of a study: all in `make torture`, this
# share elsewhere.
SHARE = float(os.environ.get("TACIT_EXAMPLES", "0.3"))


def examples(count: int) -> settings:
    """So many examples, or a share of them, the same on every machine and in every run.

    No deadline: the first example of a shape pays for its compilation.
    """
    return settings(
        max_examples=max(5, round(SHARE * count)),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def draws(count: int) -> int:
    """So many repetitions, or a share of them, as of examples."""
    return max(1, round(SHARE * count))


DISCOUNTS = (0.9, 0.99, 0.999, 0.3, 0.0)
KINDS = ("sparse", "dense", "tied", "deterministic")
# (states, actions, constraints): few, since each is compiled once for the soft solver.
SOFT_SHAPES = ((1, 2, 1), (5, 3, 1), (9, 2, 2), (6, 4, 0))


@dataclass(frozen=True, repr=False, eq=False)
class Problem:
    """A random constrained problem, feasible by construction.

    Attributes:
        seed: of every random number below.
        states: S.
        actions: A.
        constraints: K.
        discount: of the model.
        kind: "dense" (full support), "sparse" (up to three successors), "deterministic" (one), or
            "tied" (deterministic, rewards and costs in {-1, 0, 1}: many optimal policies).
        tightness: 0 lets every budget go unused, 1 puts the budgets at what some policy of low cost
            spends; in between they lie between the two and mostly bind.
        margin: room added to every budget, a step: then some policy keeps all budgets strictly,
            which a soft problem needs to have multipliers at all.
    """

    seed: int
    states: int
    actions: int
    constraints: int
    discount: float
    kind: str = "sparse"
    tightness: float = 0.5
    margin: float = 0.0

    def __repr__(self) -> str:
        return (
            f"Problem(seed={self.seed}, states={self.states}, actions={self.actions}, "
            f"constraints={self.constraints}, discount={self.discount!r}, kind={self.kind!r}, "
            f"tightness={self.tightness!r}, margin={self.margin!r})"
        )

    @cached_property
    def transitions(self) -> np.ndarray:
        """[S, A, S]."""
        rng = np.random.default_rng([self.seed, 1])
        shape = (self.states, self.actions, self.states)
        if self.kind == "dense":
            return rng.dirichlet(np.ones(self.states), shape[:2])
        width = 3 if self.kind == "sparse" else 1
        table = np.zeros(shape)
        for s, a in np.ndindex(shape[:2]):
            next_states = rng.integers(self.states, size=width)
            np.add.at(table, (s, a, next_states), rng.dirichlet(np.ones(width)))
        return table / table.sum(axis=2, keepdims=True)

    @cached_property
    def mdp(self) -> MDP:
        """The model, started anywhere, or in one state."""
        rng = np.random.default_rng([self.seed, 2])
        initial = rng.dirichlet(np.ones(self.states))
        if rng.random() < 0.3:
            initial = np.eye(self.states)[rng.integers(self.states)]
        return MDP(self.transitions, initial, self.discount)

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """[S, A] reward and [K, S, A] costs, some of them negative."""
        rng = np.random.default_rng([self.seed, 3])
        shape = (self.states, self.actions)
        if self.kind == "tied":
            reward = rng.integers(-1, 2, shape).astype(float)
            return reward, rng.integers(-1, 2, (self.constraints, *shape)).astype(float)
        costs = rng.uniform(-0.3, 1.0, (self.constraints, *shape))
        # Wanting what is costly is what makes a budget bind.
        return rng.normal(size=shape) + 0.7 * costs.sum(axis=0), costs

    @cached_property
    def objective(self) -> Objective:
        """Budgets between what the unconstrained optimum and a thrifty policy spend."""
        rng = np.random.default_rng([self.seed, 4])
        reward, costs = self.tables
        if self.constraints == 0:
            return Objective(reward)
        mdp = self.mdp
        _, _, greedy = oracles.best_policy(mdp, reward)
        charge = np.tensordot(rng.dirichlet(np.ones(self.constraints)), costs, axes=1)
        _, _, thrifty = oracles.best_policy(mdp, -charge)
        spent = [
            np.einsum("ksa,sa->k", costs, oracles.policy_visitation(mdp, policy))
            for policy in (
                oracles.one_hot(greedy, self.actions),
                0.9 * oracles.one_hot(thrifty, self.actions) + 0.1 / self.actions,
            )
        ]
        budgets = (1 - self.tightness) * spent[0] + self.tightness * spent[1]
        # Some budgets get room of their own, so that zero, one or many may bind.
        room = rng.exponential(size=self.constraints) * (rng.random(self.constraints) < 0.25)
        budgets = budgets + room * (1.0 + np.abs(spent[0])) + self.margin / (1.0 - self.discount)
        return Objective(reward, costs, budgets)


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    max_states: int = 60,
    max_actions: int = 6,
    min_constraints: int = 0,
    max_constraints: int = 4,
    max_discount: float = 0.999,
) -> Problem:
    """Problems of any shape up to the given one."""
    discount = draw(
        st.sampled_from([d for d in DISCOUNTS if d <= max_discount])
        | st.floats(0.0, max_discount).map(lambda d: round(d, 4))
    )
    # Hypothesis prefers what comes first: a choice to make and a budget that binds.
    actions = [*range(2, max_actions + 1), 1]
    constraints = [*range(max(1, min_constraints), max_constraints + 1)]
    if min_constraints == 0:
        constraints.append(0)
    return Problem(
        seed=draw(st.integers(0, 2**20)),
        states=draw(st.integers(1, max_states)),
        actions=draw(st.sampled_from(actions)),
        constraints=draw(st.sampled_from(constraints)),
        discount=discount,
        kind=draw(st.sampled_from(KINDS)),
        tightness=draw(st.sampled_from((0.7, 1.0, 0.3, 0.0))),
    )


def sweep(seed: int, count: int) -> list[Problem]:
    """So many problems drawn evenly over all shapes, which hypothesis does not promise."""
    rng = np.random.default_rng(seed)
    return [
        Problem(
            seed=int(rng.integers(2**20)),
            states=int(rng.integers(1, 61)),
            actions=int(rng.integers(1, 7)),
            constraints=int(rng.integers(0, 5)),
            discount=float(rng.choice([*DISCOUNTS, round(rng.uniform(0.0, 0.999), 4)])),
            kind=str(rng.choice(KINDS)),
            tightness=float(rng.choice([0.0, 0.3, 0.7, 1.0])),
        )
        for _ in range(count)
    ]


@st.composite
def soft_problems(
    draw: st.DrawFn, *, min_constraints: int = 0, max_discount: float = 0.99
) -> Problem:
    """Problems of a few fixed shapes, full support: one compilation per shape."""
    states, actions, constraints = draw(
        st.sampled_from([shape for shape in SOFT_SHAPES if shape[2] >= min_constraints])
    )
    return Problem(
        seed=draw(st.integers(0, 2**20)),
        states=states,
        actions=actions,
        constraints=constraints,
        discount=draw(st.sampled_from([d for d in DISCOUNTS if d <= max_discount])),
        kind="dense",
        tightness=draw(st.sampled_from((0.8, 0.4, 0.0))),
        margin=0.02,
    )


def random_policy(seed: int, states: int, actions: int) -> np.ndarray:
    """[S, A] a random policy; some states deterministic."""
    rng = np.random.default_rng(seed)
    policy = rng.dirichlet(np.ones(actions), states)
    fixed = rng.random(states) < 0.3
    policy[fixed] = np.eye(actions)[rng.integers(actions, size=int(fixed.sum()))]
    return policy


def policies(problem: Problem) -> np.ndarray:
    """[S, A] the random policy that belongs to a problem's seed."""
    return random_policy(problem.seed, problem.states, problem.actions)
