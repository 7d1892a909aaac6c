"""The noisy expert within budgets: Newton on the smooth dual of the entropy-regularised problem.

D(prices) = p0 . V_soft(reward - prices . costs) + prices . budgets is convex and smooth; its
gradient is budgets - spent, its Hessian the visitation-weighted covariance of the costs' advantages
over the noise of the actions, divided by the temperature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidModel
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.occupancy_lp import in_sound_units
from tacit.forward.policies import deterministic_values, largest_entry
from tacit.forward.solution import Solution, Status, conclude, delivered, spending_scales, status_of
from tacit.model.ends import inside_table
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

if TYPE_CHECKING:
    from tacit.engine.backends import Backend
    from tacit.engine.smooth_dual import Dual

# If spending reacts to its price by less than this share of the largest cost, the dual may have no
# minimum at all, and the exact solver is asked.
DEAF = 1e-6
# How often prices are doubled in search of finite values, at discount 1.
RAISES = 30


@dataclass(frozen=True)
class SoftDual:
    """Solver for a Boltzmann expert: maximises reward plus temperature times causal entropy.

    Attributes:
        temperature: noise of the expert, in the units of the reward.
        tolerance: largest entry of the certificate that still counts as converged.
        max_steps: most evaluations of the dual.
    """

    temperature: float = 0.1
    tolerance: float = 1e-9
    max_steps: int = 200

    @in_sound_units
    def solve(
        self,
        mdp: MDP,
        objective: Objective,
        *,
        guess: Solution | None = None,
        throw: bool = True,
    ) -> Solution:
        """The `Solution` at this temperature; `guess` is a solution of a similar problem."""
        from tacit.engine.backends import backend_of

        if not 0.0 < self.temperature < np.inf:
            raise InvalidModel(f"temperature must be a positive number; got {self.temperature}")
        if self.max_steps < 1 or not 0.0 < self.tolerance < np.inf:
            raise InvalidModel(
                "max_steps must be at least 1 and tolerance positive; "
                f"got {self.max_steps} and {self.tolerance}"
            )
        bounded = np.isfinite(objective.budgets).any()
        guess = _usable(mdp, objective, guess)
        exact = None
        backend = backend_of(mdp)
        if guess is None and backend.arrays is np and not backend.direct and bounded:
            # On a large model the exact solution costs little and lies close by; where it proves
            # the budgets impossible there is nothing to search for.
            exact = ColumnGeneration().solve(mdp, objective, throw=False)
            if exact.status is Status.INFEASIBLE:
                return delivered(replace(exact, temperature=self.temperature), throw)
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
        return delivered(solution, throw)

    def _searched(
        self, mdp: MDP, objective: Objective, guess: Solution | None
    ) -> tuple[Solution, bool]:
        """Where the search from a guess ends, and whether a price has no effect any more there."""
        from tacit.engine.backends import backend_of
        from tacit.engine.newton_search import minimise
        from tacit.engine.smooth_dual import Dual

        reward, costs = (inside_table(mdp, table) for table in objective.tables(mdp))
        bounded = np.isfinite(objective.budgets)
        prices, values = np.zeros(int(bounded.sum())), np.zeros(mdp.states)
        if guess is not None:
            values, prices = guess.values, guess.multipliers[bounded]
        elif mdp.discount == 1.0:  # from below: from 0 a policy may take ages to end
            every, walk = np.arange(mdp.states), mdp.walk[0]
            values = deterministic_values(mdp, walk, reward[every, walk])
        costs, budgets = costs[bounded], objective.budgets[bounded]
        dearest = np.array([largest_entry(cost) for cost in costs])
        largest = largest_entry(reward) + self.temperature * np.log(mdp.actions + 1.0)
        nothing = np.zeros(len(budgets))
        problem = Dual(
            start=mdp.initial,
            discount=mdp.discount,
            temperature=self.temperature,
            base=reward,
            tables=-costs,
            target=-budgets,
            lower=nothing,
            upper=np.full(len(budgets), np.inf),
            ridge=nothing,
            # The price at which a cost weighs as much as the reward and the noise.
            unit=largest / np.maximum(dearest, 1e-300),
            scale=spending_scales(mdp, costs, budgets),
            information=np.zeros(mdp.states),
        )
        if mdp.discount == 1.0:
            prices = self._finite_prices(backend_of(mdp), problem, prices, values)
        point, steps = minimise(
            backend_of(mdp), problem, prices, values, self.tolerance, self.max_steps
        )
        multipliers = np.zeros(objective.constraints)
        multipliers[bounded] = point.x
        solution = conclude(
            mdp,
            objective,
            np.maximum(point.visits, 0.0)[:, None] * point.policy,
            point.values,
            multipliers,
            tolerance=self.tolerance,
            temperature=self.temperature,
            policy=point.policy,
            iterations=int(steps),
            unbounded=mdp.discount == 1.0 and bool(np.isinf(point.loss)),
        )
        # A price to which spending no longer reacts is no minimum: the slope has levelled off.
        reaction = np.diagonal(point.curvature) * point.x
        return solution, bool(((point.x > 0) & (reaction < DEAF * dearest)).any())

    def _finite_prices(
        self, backend: Backend, problem: Dual, prices: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """[K] prices at which the values are finite, the given ones if they are.

        At discount 1 a price may be too low: going round for ever pays then.
        """
        from tacit.engine.smooth_dual import loss_at

        trial = prices
        for _ in range(RAISES if len(prices) else 0):
            if np.isfinite(loss_at(backend, problem, trial, values, self.tolerance)):
                return trial
            trial = np.maximum(2.0 * trial, 0.25 * problem.unit)
        return prices

    def _diagnosed(self, mdp: MDP, objective: Objective, solution: Solution) -> Solution:
        """The solution, with a status that says whether the budgets are the trouble."""
        indifferent = Objective(np.zeros(mdp.states), objective.costs, objective.budgets)
        exact = ColumnGeneration().solve(mdp, indifferent, throw=False)
        if exact.status is Status.INFEASIBLE:
            reward, _ = objective.tables(mdp)
            return replace(
                exact, value=float(np.vdot(exact.visitation, reward)), temperature=self.temperature
            )
        bounded = np.isfinite(objective.budgets)
        less = objective.budgets.copy()
        less[bounded] -= 1e-7 * np.maximum(1.0, np.abs(less[bounded]))
        tighter = Objective(np.zeros(mdp.states), objective.costs, less)
        found = ColumnGeneration().solve(mdp, tighter, throw=False)
        no_room = found.status is Status.INFEASIBLE
        lost = solution.status is Status.UNBOUNDED and not no_room
        status = status_of(solution.certificate, self.tolerance, no_room=no_room, unbounded=lost)
        return replace(solution, status=status)


def _usable(mdp: MDP, objective: Objective, guess: Solution | None) -> Solution | None:
    """The guess, if it is of a problem of this shape and made of numbers."""
    if guess is None:
        return None
    fits = guess.values.shape == (mdp.states,) and len(guess.multipliers) == objective.constraints
    finite = fits and np.isfinite(guess.values).all() and np.isfinite(guess.multipliers).all()
    return guess if finite else None
