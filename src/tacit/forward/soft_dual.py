"""The noisy expert within budgets: Newton on the smooth dual of the entropy-regularised problem.

D(prices) = p0 . V_soft(reward - prices . costs) + prices . budgets is convex and smooth; its
gradient is budgets - spent, its Hessian the visitation-weighted covariance of the costs' advantages
over the noise of the actions, divided by the temperature.

Without a discount a loop that costs too little is walked for ever, and the values are infinite: at
parameters 0, say, in any world with a loop. Parameters with a potential h that falls by at least
log(number of actions) on every pair, u(s, a) + P h - h(s) <= -log(actions(s)), have finite values,
since h bounds them from above. If any parameters do, some multiple of a direction has such a
potential: a linear program finds the smallest, or proves that there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.engine.backends import backend_of
from tacit.forward.column_generation import ColumnGeneration, smaller
from tacit.forward.occupancy_lp import optimum
from tacit.forward.policies import deterministic_values
from tacit.forward.solution import (
    Solution,
    Status,
    conclude,
    largest_entry,
    spending_scales,
    status_of,
)
from tacit.forward.solver import BuiltInSolver, of_all_budgets
from tacit.model.ends import inside_table
from tacit.model.mdp import MDP
from tacit.model.objective import Objective
from tacit.search.smooth_dual import Dual, loss_at, minimum

if TYPE_CHECKING:
    from tacit.engine.backends import Array, Backend

# If spending reacts to its price by less than this share of the largest cost, the dual may have no
# minimum at all, and the exact solver is asked.
DEAF = 1e-6
# How often prices are doubled in search of finite values, at discount 1.
RAISES = 30


@dataclass(frozen=True)
class SoftDual(BuiltInSolver):
    """Solver for a Boltzmann expert: maximises reward plus temperature times causal entropy.

    Attributes:
        temperature: noise of the expert, in the units of the reward.
        tolerance: largest entry of the certificate that still counts as converged.
        max_steps: most evaluations of the dual.
    """

    temperature: float = 0.1
    tolerance: float = 1e-9
    max_steps: int = 200

    def _solved(self, mdp: MDP, objective: Objective, guess: Solution | None) -> Solution:
        """The `Solution` at this temperature."""
        bounded = np.isfinite(objective.budgets).any()
        guess = _usable(mdp, objective, guess)
        exact = None
        backend = backend_of(mdp)
        if guess is None and backend.arrays is np and not backend.direct and bounded:
            # On a large model the exact solution costs little and lies close by; where it proves
            # the budgets impossible there is nothing to search for.
            exact = ColumnGeneration().solve(mdp, objective, throw=False)
            if exact.status is Status.INFEASIBLE:
                return replace(exact, temperature=self.temperature)
        solution, flat = self._searched(mdp, objective, exact or guess)
        if solution.status is not Status.CONVERGED and exact is None and bounded:
            # A little noise makes several prices steep and flat by turns: begin where they end
            # without any.
            exact = ColumnGeneration().solve(mdp, objective, throw=False)
            if exact.status is not Status.INFEASIBLE:
                again, still = self._searched(mdp, objective, exact)
                if again.status is Status.CONVERGED:
                    total = solution.iterations + again.iterations
                    solution, flat = replace(again, iterations=total), still
        lost = solution.status is Status.UNBOUNDED and not bounded
        if not lost and (solution.status is not Status.CONVERGED or flat):
            solution = self._diagnosed(mdp, objective, solution)
        return solution

    def _searched(
        self, mdp: MDP, objective: Objective, guess: Solution | None
    ) -> tuple[Solution, bool]:
        """Where the search from a guess ends, and whether a price has no effect any more there."""
        reward, costs = (inside_table(mdp, table) for table in objective.tables(mdp))
        bounded = np.isfinite(objective.budgets)
        prices, values = np.zeros(int(bounded.sum())), np.zeros(mdp.states)
        if guess is not None:
            values, prices = guess.values, guess.multipliers[bounded]
        elif mdp.discount == 1.0:  # from below: from 0 a policy may take ages to end
            every, walk = np.arange(mdp.states), mdp.walk[0]
            values = deterministic_values(mdp, walk, reward[every, walk])
        costs, budgets = costs[bounded], objective.budgets[bounded]
        dearest = [largest_entry(cost) for cost in costs]
        gain = largest_entry(reward) + self.temperature * np.log(mdp.actions + 1.0)
        problem = priced_dual(
            start=mdp.initial,
            discount=mdp.discount,
            temperature=self.temperature,
            reward=reward,
            tables=-costs,
            budgets=budgets,
            unit=gain / np.maximum(dearest, 1e-300),
            scale=spending_scales(mdp.horizon, dearest, budgets),
            information=np.zeros(mdp.states),
        )
        if mdp.discount == 1.0:
            prices = self._finite_prices(backend_of(mdp), problem, prices, values)
        point, steps = minimum(
            backend_of(mdp), problem, prices, values, self.tolerance, self.max_steps
        )
        solution = conclude(
            mdp,
            objective,
            np.maximum(point.visits, 0.0)[:, None] * point.policy,
            point.values,
            of_all_budgets(bounded, point.x),
            tolerance=self.tolerance,
            temperature=self.temperature,
            policy=point.policy,
            iterations=int(steps),
            unbounded=mdp.discount == 1.0 and bool(np.isinf(point.loss)),
        )
        # A price to which spending no longer reacts is no minimum: the slope has levelled off.
        reaction = np.diagonal(point.curvature) * point.x
        return solution, bool(((point.x > 0) & (reaction < DEAF * np.array(dearest))).any())

    def _finite_prices(
        self, backend: Backend, problem: Dual, prices: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """[K] prices at which the values are finite, the given ones if they are.

        At discount 1 a price may be too low: going round for ever pays then.
        """
        trial = prices
        for _ in range(RAISES if len(prices) else 0):
            if np.isfinite(loss_at(backend, problem, trial, values, self.tolerance)):
                return trial
            trial = np.maximum(2.0 * trial, 0.25 * problem.unit)
        return prices

    def _diagnosed(self, mdp: MDP, objective: Objective, solution: Solution) -> Solution:
        """The solution, with a status that says whether the budgets are the trouble."""

        def exact(budgets: np.ndarray) -> Solution:
            """Some policy within these budgets, or the proof that there is none."""
            indifferent = Objective(np.zeros(mdp.states), objective.costs, budgets)
            return ColumnGeneration().solve(mdp, indifferent, throw=False)

        feasible = exact(objective.budgets)
        if feasible.status is Status.INFEASIBLE:
            value = float(np.vdot(feasible.visitation, objective.tables(mdp)[0]))
            return replace(feasible, value=value, temperature=self.temperature)
        no_room = exact(smaller(objective.budgets)).status is Status.INFEASIBLE
        lost = solution.status is Status.UNBOUNDED and not no_room
        status = status_of(solution.certificate, self.tolerance, no_room=no_room, unbounded=lost)
        return replace(solution, status=status)


def priced_dual(
    *,
    start: Array,
    discount: float,
    temperature: float,
    reward: Array,
    tables: Array,
    budgets: np.ndarray,
    unit: np.ndarray,
    scale: np.ndarray,
    information: Array,
) -> Dual:
    """The dual in the prices [K] of costs, minus the tables [K, S, A]; none is below 0.

    `unit` [K] are the prices at which a cost weighs as much as the reward and the noise.
    """
    nothing, endless = np.zeros(len(budgets)), np.full(len(budgets), np.inf)
    return Dual(
        start=start,
        discount=discount,
        temperature=temperature,
        base=reward,
        tables=tables,
        target=-budgets,
        lower=nothing,
        upper=endless,
        ridge=nothing,
        unit=unit,
        scale=scale,
        information=information,
    )


def _usable(mdp: MDP, objective: Objective, guess: Solution | None) -> Solution | None:
    """The guess, if it is of a problem of this shape and made of numbers."""
    if guess is None:
        return None
    fits = guess.values.shape == (mdp.states,) and len(guess.multipliers) == objective.constraints
    finite = fits and np.isfinite(guess.values).all() and np.isfinite(guess.multipliers).all()
    return guess if finite else None


def finite_start(
    mdp: MDP,
    problem: Dual,
    x: np.ndarray,
    tolerance: float,
    *,
    ties: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray] | None:
    """([D] parameters, [S] values to start from) of finite values; None where there are none.

    Those given if theirs are finite, else the smallest that a potential vouches for. What ties
    [E, D] say of x is kept.
    """
    size, nothing = len(problem.target), np.zeros(mdp.states)
    ties = np.zeros((0, size)) if ties is None else ties
    # The parameters of least L1 norm with a potential; those whose potential falls by the largest
    # share of what it should.
    smallest = np.r_[np.ones(2 * size), nothing, 0.0], 1
    steepest = np.r_[np.zeros(2 * size), nothing, -1.0], 0
    known = ties, ties @ x
    for program in (None, smallest, steepest):
        trial = x if program is None else _best_parameters(mdp, problem, *program, ties=known)
        if trial is None:
            continue
        trial = np.clip(trial, problem.lower, problem.upper)
        guess = walk_values(mdp, problem, trial)
        if np.isfinite(float(loss_at(backend_of(mdp), problem, trial, guess, tolerance))):
            return trial, guess
    return None


def walk_values(mdp: MDP, problem: Dual, x: np.ndarray) -> np.ndarray:
    """[S] what the shortest walk to an end collects at x [D]: a bound from below on the values."""
    actions, _ = mdp.walk
    table = problem.base + np.tensordot(x, problem.tables, 1)
    return deterministic_values(mdp, actions, table[np.arange(mdp.states), actions])


def _best_parameters(
    mdp: MDP,
    problem: Dual,
    cost: np.ndarray,
    drop: float,
    *,
    ties: tuple[np.ndarray, np.ndarray],
) -> np.ndarray | None:
    """[D] the parameters x = up - down of least cost with a potential h: (up, down, h, share).

    The share of log(actions) by which the potential falls is at least `drop`; ties @ x is known.
    """
    from scipy.sparse import csr_array, hstack, vstack

    size = len(problem.target)
    states, actions = np.nonzero(mdp.available)
    pairs, ends = states * mdp.actions + actions, np.flatnonzero(mdp.ends)
    gains = csr_array(problem.tables.reshape(size, -1)[:, pairs].T)
    own = csr_array(
        (np.ones(len(pairs)), (np.arange(len(pairs)), states)), (len(pairs), mdp.states)
    )
    entropy = np.log(mdp.available.sum(axis=1)[states])
    falling = hstack([gains, -gains, mdp.sparse()[pairs] - own, csr_array(entropy[:, None])])
    # The potential of an end is what it pays.
    paid = csr_array(problem.tables[:, ends, 0].T)
    each = np.arange(len(ends))
    at_ends = csr_array((-np.ones(len(ends)), (each, ends)), (len(ends), mdp.states))
    fixed = hstack([paid, -paid, at_ends, np.zeros((len(ends), 1))])
    rest = np.zeros((len(ties[0]), mdp.states + 1))
    tied = csr_array(np.concatenate([ties[0], -ties[0], rest], axis=1))
    right = np.r_[-problem.base[states, actions], -problem.base[ends, 0], ties[1]]
    low, high, free = problem.lower, problem.upper, np.full(mdp.states, np.inf)
    vertex = optimum(
        cost,
        vstack([falling, fixed, tied]),
        lower=np.r_[np.maximum(low, 0.0), np.maximum(-high, 0.0), -free, drop],
        upper=np.r_[np.maximum(high, 0.0), np.maximum(-low, 0.0), free, 1.0],
        row_lower=np.where(np.arange(len(right)) < len(pairs), -np.inf, right),
        row_upper=right,
    )
    if vertex is None:
        return None
    up, down = np.split(np.array(vertex.col_value)[: 2 * size], 2)
    return up - down
