"""Prototype: trips through one fused `Goals.evaluate`, on the network of `benchmarks/trips.py`.

    python benchmarks/prototypes/fused_goals.py

One sparse LU of I - M serves every goal: values, gradient and information come from one pass over
blocks of goals of which only sums are kept; once by SuperLU, once by tacit's own factors. The
search knows nothing of trips. Beside them SciPy's BFGS of benchmarks/trips.py and tacit today, CPU
seconds in the same run. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csc_array, eye_array
from scipy.sparse.linalg import splu

sys.path.insert(0, str(Path(__file__).parents[1]))

import tacit
import trips as study
from tacit.engine.kernels.systems import SparseFactors

BLOCK = 64  # goals whose values are in memory at once


class Sums(NamedTuple):
    """Loss, gradient [D] and Fisher information [D, D] over all goals."""

    loss: float
    gradient: np.ndarray
    fisher: np.ndarray | None


class SuperLU:
    """Factors of SciPy."""

    def __init__(self, matrix: csc_array) -> None:
        self._factor = splu(matrix)

    def solve(self, right: np.ndarray, transposed: bool = False) -> np.ndarray:
        return self._factor.solve(right, trans="T" if transposed else "N")


class Goals:
    """Trips to many goals on a network of certain moves."""

    def __init__(self, town: study.Town, seen: tacit.Demonstrations, solver: type) -> None:
        self.solver = solver
        turns = town.turns
        self.size, self.tails, self.heads = town.mdp.states, turns[:, 0], turns[:, 2]
        self.gains = town.features.reward[turns[:, 0], turns[:, 1]]
        self.goals, goal_of = np.unique(seen.final_states, return_inverse=True)
        self.target = town.features.reward[seen.states, seen.actions].sum(axis=0)
        self.origins = np.zeros((self.size, len(self.goals)))
        np.add.at(self.origins, (seen.states[seen.offsets[:-1]], goal_of), 1.0)
        steps_of = np.repeat(goal_of, seen.lengths)
        self.visits = np.zeros((self.size, len(self.goals)))
        np.add.at(self.visits, (seen.states, steps_of), 1.0)
        self.turns_out = csc_array(
            (np.ones(len(turns)), (self.tails, np.arange(len(turns)))), (self.size, len(turns))
        ).tocsr()
        self.evaluations = 0

    def evaluate(self, theta: np.ndarray, *, information: bool) -> Sums:
        """One factorisation, one pass over blocks of goals."""
        self.evaluations += 1
        worth = np.exp(self.gains @ theta)
        network = csc_array((worth, (self.tails, self.heads)), (self.size, self.size))
        factor = self.solver(csc_array(eye_array(self.size) - network))
        loss, gradient = -float(theta @ self.target), -self.target.copy()
        fisher = np.zeros((len(theta), len(theta))) if information else None
        for first in range(0, len(self.goals), BLOCK):
            goals = self.goals[first : first + BLOCK]
            layers, starts = np.arange(len(goals)), self.origins[:, first : first + BLOCK]
            unit = np.zeros((self.size, len(goals)))
            unit[goals, layers] = 1.0
            reach = factor.solve(unit)
            reach /= reach[goals, layers]
            begun = starts > 0
            if not (reach[begun] > 0).all() or not (reach >= 0).all():
                return Sums(np.inf, gradient, fisher)
            loss += float((starts[begun] * np.log(reach[begun])).sum())
            weights = np.divide(starts, reach, out=np.zeros_like(starts), where=begun)
            weights[goals, layers] -= starts.sum(axis=0)
            flow = factor.solve(weights, transposed=True)
            flow[goals, layers] = 0.0
            taken = worth * np.einsum("eg,eg->e", flow[self.tails], reach[self.heads])
            gradient += taken @ self.gains
            if fisher is not None:
                fisher += self._information(theta, worth, factor, reach, goals, first)
        return Sums(loss, gradient, fisher)

    def _information(self, theta, worth, factor, reach, goals, first) -> np.ndarray:
        """[D, D] of a block: one more solve a feature, in the units of `reach`."""
        layers, size = np.arange(len(goals)), len(theta)
        passed = worth[:, None] * reach[self.heads]  # [E, G] unnormalised chances of turns
        passed[np.isin(self.tails, goals)] *= self.tails[np.isin(self.tails, goals), None] != goals
        slopes = np.empty((size, *reach.shape))
        for d in range(size):
            inside = self.turns_out @ (self.gains[:, d, None] * passed)
            found = factor.solve(inside)
            found -= found[goals, layers] * reach
            slopes[d] = np.divide(found, reach, out=np.zeros_like(found), where=reach > 0)
        below = np.where(reach > 0, reach, 1.0)
        chance = passed / below[self.tails]
        seen = self.visits[:, first : first + len(goals)][self.tails] * chance
        # At the goal itself nothing follows: its slope is 0.
        scores = self.gains.T[:, :, None] + slopes[:, self.heads] - slopes[:, self.tails]
        return np.einsum("eg,deg,feg->df", seen, scores, scores, optimize=True)


def minimise(goals: Goals, start: np.ndarray, *, every_step: bool) -> tuple[np.ndarray, Sums]:
    """Newton with Fisher's information; where not `every_step`, one matrix updated by BFGS."""
    theta, here = start, goals.evaluate(start, information=True)
    model = here.fisher
    for _ in range(100):
        step = -np.linalg.solve(model, here.gradient)
        promise, length = -here.gradient @ step, 1.0
        if promise <= 1e-9:
            break
        while True:
            there = goals.evaluate(theta + length * step, information=every_step)
            if there.loss <= here.loss - 1e-4 * length * promise:
                break
            length /= 4
            if length < 1e-9:
                raise SystemExit("no descent")
        moved, bent = length * step, there.gradient - here.gradient
        theta, here = theta + moved, there
        if every_step:
            model = here.fisher
        elif moved @ bent > 0:
            pulled = model @ moved
            model = model - np.outer(pulled, pulled) / (moved @ pulled)
            model = model + np.outer(bent, bent) / (moved @ bent)
    return theta, goals.evaluate(theta, information=True)


def main() -> None:
    args = study.Args()
    made = study.town(args)
    seen = study.journeys(made, args)
    trips = tacit.Trips(made.mdp, made.features, seen, discount=1.0)
    start = study.begun(trips)
    Goals(made, seen.select(range(60)), SparseFactors).evaluate(start, information=True)  # compiled
    report: dict[str, object] = {
        "links": made.mdp.states,
        "goals": len(np.unique(seen.final_states)),
    }
    cases = (("superlu_newton", True, SuperLU), ("superlu_bfgs", False, SuperLU))
    cases += (("newton", True, SparseFactors), ("bfgs", False, SparseFactors))
    for name, every_step, solver in cases:
        goals = Goals(made, seen, solver)
        began = time.process_time()
        theta, last = minimise(goals, start, every_step=every_step)
        report[f"{name}_cpu_seconds"] = time.process_time() - began
        report[f"{name}_evaluations"] = goals.evaluations
        report[f"{name}_estimates"] = theta.tolist()
        report[f"{name}_loss"] = last.loss
        report[f"{name}_errors"] = np.sqrt(np.diag(np.linalg.inv(last.fisher))).tolist()
    tacit.recover(tacit.Trips(made.mdp, made.features, seen.select(range(60)), discount=1.0))
    began = time.process_time()
    today = tacit.recover(trips)
    report["today_cpu_seconds"] = time.process_time() - began
    began = time.process_time()
    study.coefficients(trips)
    report["today_search_cpu_seconds"] = time.process_time() - began
    errors = today.parameters.with_errors("fisher").standard_errors
    report["largest_difference_in_errors"] = float(
        np.abs((np.array(report["newton_estimates"]) - today.parameters.estimates) / errors).max()
    )
    report["errors_apart"] = float(np.abs(np.array(report["newton_errors"]) / errors - 1).max())
    peer = study.Peer(made, seen)
    began = time.process_time()
    minimize(peer, start, jac=True, method="BFGS", options={"gtol": 1e-2})
    report["scipy_cpu_seconds"] = time.process_time() - began
    print(json.dumps(report))


if __name__ == "__main__":
    main()
