"""Prototype: the projected likelihood at a million logged rows, solved in the basis' coefficients.

    python benchmarks/prototypes/projected_rows.py --rows 1000000 --centres 100

Navigation on the unit square (5 actions, position moved by .12 and noise .05; two rewards, one
cost), rows (s, a, s') of a noisy expert. The soft value at logged next rows is regressed on a basis
(Gaussian Nystroem features, orthonormal over the rows, times actions): Newton on its coefficients,
rows in chunks, the system formed anew only where the last one no longer contracts. A system formed
from a sample of the rows does NOT precondition the whole one: its noise is amplified, and steps
diverge. Outside, Fisher scoring with the implicit derivative; at the end the full variance by one
transposed solve. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import csr_array
from scipy.special import logsumexp

DISCOUNT, NOISE, STEP = 0.9, 0.05, 0.12
MOVES = np.array([[0.0, 0.0], [STEP, 0.0], [0.0, STEP], [-STEP, 0.0], [0.0, -STEP]])
TRUTH = np.array([3.0, 2.0, 2.0])
CHUNK = 50_000
FAINT = 1e-7  # relative variance of the directions of the basis that are left out
SOME = 100_000  # rows by which the basis is made orthonormal


def features(places: np.ndarray) -> np.ndarray:
    """[n, D] of a state: a goal, a slope, minus a hill."""
    goal = np.exp(-((places - [0.8, 0.8]) ** 2).sum(axis=1) / 0.08)
    hill = np.exp(-((places - [0.5, 0.5]) ** 2).sum(axis=1) / 0.04)
    return np.stack([goal, places[:, 0], -hill], axis=1)


def expert(random: np.random.Generator, rows: int, walkers: int) -> tuple[np.ndarray, ...]:
    """Rows (s, a, s') of the soft-optimal policy on a grid of nodes, interpolated."""
    side, (points, weights) = 61, np.polynomial.hermite_e.hermegauss(5)
    axis = np.linspace(0, 1, side)
    nodes = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=2).reshape(-1, 2)

    def interpolated(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low = np.minimum((places * (side - 1)).astype(int), side - 2)
        share = places * (side - 1) - low
        corners, parts = [], []
        for i in (0, 1):
            for j in (0, 1):
                corners.append((low[:, 0] + i) * side + low[:, 1] + j)
                parts.append(np.abs(1 - i - share[:, 0]) * np.abs(1 - j - share[:, 1]))
        return np.stack(corners, axis=1), np.stack(parts, axis=1)

    moves, weights = [], weights / weights.sum()
    for move in MOVES:
        matrix = csr_array((len(nodes),) * 2)
        for first, one in zip(points, weights, strict=True):
            for second, two in zip(points, weights, strict=True):
                there = np.clip(nodes + move + NOISE * np.array([first, second]), 0, 1)
                columns, parts = interpolated(there)
                lines = np.repeat(np.arange(len(nodes)), 4)
                entries = (one * two * parts.ravel(), (lines, columns.ravel()))
                matrix = matrix + csr_array(entries, shape=matrix.shape)
        moves.append(matrix)
    paid, values = features(nodes) @ TRUTH, np.zeros(len(nodes))
    for _ in range(400):
        worth = np.stack([paid + DISCOUNT * (move @ values) for move in moves], axis=1)
        values = logsumexp(worth, axis=1)
    steps, here = rows // walkers, random.random((walkers, 2))
    states, actions, after = (np.empty((steps, walkers, 2)), np.empty((steps, walkers), int), None)
    after = np.empty_like(states)
    for t in range(steps):
        columns, parts = interpolated(here)
        there = np.einsum("nk,nka->na", parts, worth[columns])
        chances = np.exp(there - logsumexp(there, axis=1)[:, None]).cumsum(axis=1)
        done = (random.random((walkers, 1)) > chances).sum(axis=1).clip(0, 4)
        states[t], actions[t] = here, done
        here = np.clip(here + MOVES[done] + NOISE * random.normal(size=here.shape), 0, 1)
        after[t] = here
    return states.reshape(-1, 2), actions.ravel(), after.reshape(-1, 2)


class Projected:
    """Logged dynamics: everything that a search asks is answered from chunks of rows."""

    def __init__(self, states, actions, after, centres: int, ridge: float, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.centres = states[random.choice(len(states), centres, replace=False)]
        square = np.exp(-self._distances(self.centres) / 2) + 1e-8 * np.eye(centres)
        sizes, axes = np.linalg.eigh(square)
        self.half = (axes / np.sqrt(np.maximum(sizes, 1e-6))) @ axes.T
        self._whiten(states)
        self.basis, self.next_basis = self._basis(states), self._basis(after)
        self.gains, self.next_gains = features(states), features(after)
        self.actions, self.many = actions, len(MOVES)
        self.size = centres = self.half.shape[1]
        self.kappa = np.zeros((self.many, centres))
        own, common = np.eye(self.many) - 1 / self.many, np.full((self.many,) * 2, 1 / self.many)
        self.ridge = np.kron(ridge * own + 0.03 * ridge * common, self.norm)
        self.rows_of = [np.flatnonzero(actions == a) for a in range(self.many)]
        self.formed = self.swept = 0
        self.factor = None

    def _distances(self, places: np.ndarray) -> np.ndarray:
        lengths = (places**2).sum(axis=1)[:, None] + (self.centres**2).sum(axis=1)
        return (lengths - 2 * places @ self.centres.T) / 0.25**2

    def _whiten(self, states: np.ndarray) -> None:
        """Makes the basis orthonormal over some logged rows: fewer directions carry it."""
        some = self._basis(states[:: max(1, len(states) // SOME)])
        sizes, axes = np.linalg.eigh(some.T @ some / len(some))
        kept = sizes > FAINT * sizes[-1]
        self.half = self.half @ (axes[:, kept] / np.sqrt(sizes[kept]))
        self.norm = np.diag(1.0 / sizes[kept])  # of functions, as before: the ridge is in it

    def _basis(self, places: np.ndarray) -> np.ndarray:
        found = np.empty((len(places), self.half.shape[1]))
        for first in range(0, len(places), CHUNK):
            rows = slice(first, first + CHUNK)
            found[rows] = np.exp(-self._distances(places[rows]) / 2) @ self.half
        return found

    def policies(self, basis: np.ndarray, gains: np.ndarray, z: np.ndarray) -> tuple:
        """Soft values [n] and policies [n, A]: rewards are of the state, alike for all actions."""
        worth = DISCOUNT * basis @ self.kappa.T
        values = logsumexp(worth, axis=1)
        return gains @ z + values, np.exp(worth - values[:, None])

    def gap(self, z: np.ndarray) -> np.ndarray:
        """[A m] the regression's normal equations at the present coefficients."""
        self.swept += 1
        gap = np.zeros((self.many, self.size))
        for a, every in enumerate(self.rows_of):
            for first in range(0, len(every), CHUNK):
                rows = every[first : first + CHUNK]
                values, _ = self.policies(self.next_basis[rows], self.next_gains[rows], z)
                gap[a] += self.basis[rows].T @ (values - self.basis[rows] @ self.kappa[a])
        return gap.ravel() - self.ridge @ self.kappa.ravel()

    def system(self, z: np.ndarray) -> np.ndarray:
        """[A m, A m] minus the derivative of the gap, formed chunk by chunk."""
        self.formed += 1
        blocks = np.zeros((self.many, self.size, self.many, self.size))
        for a, every in enumerate(self.rows_of):
            for first in range(0, len(every), CHUNK):
                rows = every[first : first + CHUNK]
                own, after = self.basis[rows], self.next_basis[rows]
                _, policy = self.policies(after, self.next_gains[rows], z)
                blocks[a, :, a] += own.T @ own
                for b in range(self.many):
                    blocks[a, :, b] -= DISCOUNT * own.T @ (policy[:, b, None] * after)
        return blocks.reshape((self.many * self.size,) * 2) + self.ridge

    def solve(self, z: np.ndarray) -> None:
        """Coefficients at z: chord steps with the last factors, formed anew when they are slow."""
        before = np.inf
        for _ in range(60):
            gap = self.gap(z)
            if self.factor is None:
                self.factor = lu_factor(self.system(z), check_finite=False)
            step = lu_solve(self.factor, gap)
            self.kappa = self.kappa + step.reshape(self.kappa.shape)
            size = np.abs(step).max() / (1 + np.abs(self.kappa).max())
            if size < 1e-8:
                break
            if size > 0.7 * before:
                self.factor, before = (
                    lu_factor(self.system(z), check_finite=False),
                    np.inf,
                )
            else:
                before = size
        self.step = size

    def at(self, z: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Loss, gradient [D] and Fisher information [D, D]."""
        self.solve(z)
        right = np.concatenate([self.basis[r].T @ self.next_gains[r] for r in self.rows_of])
        self.factor = lu_factor(self.system(z), check_finite=False)
        self.slopes = lu_solve(self.factor, right)
        self.slopes = self.slopes.reshape(self.many, self.size, -1)
        loss, gradient, fisher = 0.0, np.zeros(len(z)), np.zeros((len(z),) * 2)
        for rows, _, policy, scores in self.chunks(z):
            chosen = policy[np.arange(len(rows)), self.actions[rows]]
            loss -= float(np.log(chosen).sum())
            gradient -= scores[np.arange(len(rows)), self.actions[rows]].sum(axis=0)
            flat = scores.reshape(-1, len(z))
            fisher += (flat * policy.reshape(-1, 1)).T @ flat
        return loss, gradient, fisher

    def chunks(self, z: np.ndarray):
        """Rows, values, policies and scores [n, A, D], chunk by chunk."""
        for first in range(0, len(self.actions), CHUNK):
            rows = np.arange(first, min(first + CHUNK, len(self.actions)))
            values, policy = self.policies(self.basis[rows], self.gains[rows], z)
            answers = DISCOUNT * np.einsum(
                "nm,amd->nad", self.basis[rows], self.slopes, optimize=True
            )
            yield rows, values, policy, answers - np.einsum("na,nad->nd", policy, answers)[:, None]

    def covariance(self, z: np.ndarray, fisher: np.ndarray) -> np.ndarray:
        """[D, D] with the noise of the dynamics, by one transposed solve."""
        right = np.zeros((self.many, self.size, len(z)))
        for rows, _, policy, scores in self.chunks(z):
            for b in range(self.many):
                right[b] -= self.basis[rows].T @ (policy[:, b, None] * scores[:, b])
        levers = lu_solve(self.factor, right.reshape(-1, len(z)), trans=1).reshape(right.shape)
        scatter = np.zeros_like(fisher)
        for rows, _, _, scores in self.chunks(z):
            done = self.actions[rows]
            after, _ = self.policies(self.next_basis[rows], self.next_gains[rows], z)
            own = np.einsum("nm,nm->n", self.basis[rows], self.kappa[done])
            lever = np.empty((len(rows), len(z)))
            for a in range(self.many):
                lever[done == a] = self.basis[rows[done == a]] @ levers[a]
            score = scores[np.arange(len(rows)), done]
            score = score + lever * (DISCOUNT * (after - own))[:, None]
            scatter += score.T @ score
        inverse = np.linalg.inv(fisher)
        return inverse @ scatter @ inverse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--centres", type=int, default=100)
    parser.add_argument("--ridge", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    states, actions, after = expert(random, args.rows, max(args.rows // 1000, 10))
    print(json.dumps({"simulated_rows": len(actions)}), flush=True)
    began, used = time.perf_counter(), time.process_time()
    problem = Projected(states, actions, after, args.centres, args.ridge, args.seed)
    z = np.ones(3)
    loss, gradient, fisher = problem.at(z)
    evaluations = 1
    print(json.dumps({"first_evaluation_seconds": time.perf_counter() - began}), flush=True)
    for _ in range(30):
        step = -np.linalg.solve(fisher, gradient)
        if -gradient @ step < 1e-6:
            break
        length = 1.0
        while True:
            there = problem.at(np.maximum(z + length * step, 0))
            evaluations += 1
            if there[0] <= loss + 1e-4 * length * gradient @ step or length < 1e-3:
                break
            length /= 4
        z, (loss, gradient, fisher) = np.maximum(z + length * step, 0), there
    covariance = problem.covariance(z, fisher)
    naive, full = np.sqrt(np.diag(np.linalg.inv(fisher))), np.sqrt(np.diag(covariance))
    report = {
        "rows": len(actions),
        "coefficients_of_the_basis": problem.many * problem.size,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - used,
        "evaluations": evaluations,
        "systems_formed": problem.formed,
        "sweeps": problem.swept,
        "last_step": float(problem.step),
        "estimates": z.tolist(),
        "truth": TRUTH.tolist(),
        "errors_known_dynamics": naive.tolist(),
        "errors": full.tolist(),
        "standardised": ((z - TRUTH) / full).tolist(),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
