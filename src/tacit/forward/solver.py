"""Objective -> Solution, and what its solvers have in common.

Tolerances inside a solver are absolute, so that very small and very large numbers are measured in
units of their own: in one place, as hyperparameters are checked and errors raised in one place.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Self

import numpy as np

from tacit.errors import Infeasible, InvalidModel, NotConverged
from tacit.forward.solution import Infeasibility, Solution, Status, sizes_of
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

# Below this reach of a reward or a cost, and beyond this much a step, problems are solved in other
# units: 1e-10 is too loose for the small, and finer than the rounding of the large.
SMALL, LARGE = 2.0**-10, 2.0**14


class BuiltInSolver:
    """Frozen hyperparameters, positive numbers all of them, and one verb."""

    def solve(
        self, mdp: MDP, objective: Objective, *, guess: Solution | None = None, throw: bool = True
    ) -> Solution:
        """The `Solution`, with multipliers, certificate and status.

        Very small or large rewards and costs get a unit of their own: a cost of 1e-9 a step would
        be kept or broken at will, and one of 1e6 never met. Units are powers of two: they change no
        digit.

        Args:
            mdp: the known world.
            objective: what is wanted and what is refused.
            guess: a solution of a similar problem to start from.
            throw: raise `Infeasible` or `NotConverged` instead of returning a solution that says
                so.
        """
        noise = self._checked_noise()
        units = _units(mdp, objective, noise)
        if units is None:
            return delivered(self._solved(mdp, objective, guess), throw)
        gain, costs = units[0], units[1:]
        axes = (...,) + (None,) * (objective.costs.ndim - 1)
        scaled = Objective(
            objective.reward / gain, objective.costs / costs[axes], objective.budgets / costs
        )
        if guess is not None and len(guess.multipliers) == len(costs):
            guess = _in_units(guess, 1.0 / gain, 1.0 / costs)
        solution = self._with_noise(noise / gain)._solved(mdp, scaled, guess)
        return delivered(_in_units(solution, gain, costs), throw)

    def _solved(self, mdp: MDP, objective: Objective, guess: Solution | None) -> Solution:
        """The `Solution` of a problem in sound units, whatever its status."""
        raise NotImplementedError

    def _with_noise(self, temperature: float) -> Self:
        """The same solver at another temperature, where it has one."""
        assert is_dataclass(self)
        return replace(self, temperature=temperature) if temperature else self

    def _checked_noise(self) -> float:
        """The temperature, 0 of a solver without one; `InvalidModel` for what is not positive."""
        assert is_dataclass(self)
        for field in fields(self):
            number, least = getattr(self, field.name), "positive"
            good = number > 0.0 and (number < np.inf or field.default == np.inf)
            if isinstance(field.default, int):
                good, least = number >= 1, "at least 1"
            if not good:
                raise InvalidModel(f"{field.name} must be {least}; got {number}")
        return float(getattr(self, "temperature", 0.0))


def _units(mdp: MDP, objective: Objective, temperature: float) -> np.ndarray | None:
    """[1 + K] powers of two in which reward and costs are of order one; None where all are 1."""
    sizes = sizes_of(objective)
    if mdp.restricted:  # what is not there pays nothing
        paid, spent = objective.tables(mdp)
        there = mdp.available | mdp.ends[:, None]
        sizes = [float(np.abs(t).max(initial=0.0, where=there)) for t in (paid, *spent)]
    steps = [sizes[0] + temperature, *sizes[1:]]
    sizes = [_unusual(step, mdp.horizon * step) for step in steps]
    if all(size == 1.0 for size in sizes):
        return None
    units = np.exp2(np.round(np.log2(sizes)))
    return None if (units == 1.0).all() else units


def _unusual(step: float, reach: float) -> float:
    """What a number counts by if it is very small or large, for a step or an episode; else 1."""
    if 0.0 < reach < SMALL:
        return reach
    return step if LARGE < step < np.inf else 1.0


def _in_units(solution: Solution, gain: float, costs: np.ndarray) -> Solution:
    """The same with rewards times `gain` and costs times `costs` [K]."""
    proof = solution.infeasibility
    if proof is not None:
        weights = proof.weights / costs
        total = weights.sum()
        proof = Infeasibility(weights / total, proof.least / total, proof.allowed / total)
    return replace(
        solution,
        values=solution.values * gain,
        multipliers=solution.multipliers * gain / costs,
        value=solution.value * gain,
        spent=solution.spent * costs,
        temperature=solution.temperature * gain,
        infeasibility=proof,
    )


def of_all_budgets(bounded: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """[K] the numbers of the budgets that are finite, 0 for the others."""
    every = np.zeros(len(bounded))
    every[bounded] = numbers
    return every


def delivered(solution: Solution, throw: bool) -> Solution:
    """The solution, or the error it amounts to when `throw` asks for one."""
    if not throw or solution.status in (Status.CONVERGED, Status.AT_LEAST_COST):
        return solution
    if solution.status is Status.INFEASIBLE:
        proof = solution.infeasibility
        assert proof is not None
        raise Infeasible(
            "no policy meets the budgets: the least weighted cost is "
            f"{proof.least:.6g}, the budgets allow {proof.allowed:.6g} "
            f"(weights {np.array2string(proof.weights, precision=4)})",
            solution,
        )
    c = solution.certificate
    if solution.status is Status.UNBOUNDED:
        raise NotConverged(solution.status.value, solution)
    raise NotConverged(
        f"{solution.status.value} (duality gap {c.duality_gap:.2e}, violation {c.violation:.2e}, "
        f"slackness {c.slackness:.2e}, flow residual {c.flow_residual:.2e})",
        solution,
    )
