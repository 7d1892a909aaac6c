"""Curvatures as a search sees them: matrices, one a problem, or what is known by its products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tacit.engine.kernels.systems import Matrix, bounded_step, conjugate_gradients

# Relative eigenvalue below which a curvature says nothing about a direction.
BLIND = 1e-9
# Least curvature, relative to the convex one, of a mixture of both; and how far down one may bend
# that is mixed.
BENT, DOWN = 0.05, 0.3
# Root of the information below which a parameter, of a table of range one, is not told at all.
FAINT = 1e-15
# Share of a coordinate's own curvature that is added to it.
STEADY = 1e-10
# Parameters beyond which an information is inverted by elimination, if it can be.
LARGE = 200
# Products for one step: among coordinates that no bound can stop, and within bounds.
PRODUCTS, BOUNDED_PRODUCTS = 250, 1000


class Operator(Protocol):
    """The curvatures of some problems of one size, as symmetric operators on their parameters."""

    def taken(self, rows: np.ndarray) -> Operator:
        """Those of these problems."""
        ...

    def replaced(self, rows: np.ndarray, fresh: Any) -> Operator:
        """The same with those of these problems new."""
        ...

    def times(self, directions: np.ndarray) -> np.ndarray:
        """[N, D] the products with directions [N, D]."""
        ...

    def bent_up(self, free: np.ndarray) -> np.ndarray:
        """[N, D, D] the curvatures, convex among the free [N, D]."""
        ...

    def bounded_step(
        self,
        gradient: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        *,
        ties: np.ndarray | None,
        share: np.ndarray,
    ) -> np.ndarray:
        """[N, D] steps to the minima of the quadratic models in a box.

        Args:
            gradient: [N, D] of the model, what equalities pull included.
            low: [N, D] at most 0, and finite.
            high: [N, D] at least 0, and finite.
            ties: [E, D] what a step must not change: ties @ step = 0.
            share: [N] of the gradient that is small enough to be left.
        """
        ...


@dataclass(frozen=True, eq=False)
class Matrices:
    """Curvatures as matrices.

    Attributes:
        values: [N, D, D].
        convex: [N, D, D] what stands in for those that bend down; None where none does.
    """

    values: np.ndarray
    convex: np.ndarray | None = None

    def taken(self, rows: np.ndarray) -> Matrices:
        """Those of these problems."""
        return Matrices(self.values[rows], None if self.convex is None else self.convex[rows])

    def replaced(self, rows: np.ndarray, fresh: Matrices) -> Matrices:
        """The same with those of these problems new."""
        values = self.values.copy()
        values[rows] = fresh.values
        return Matrices(values)

    def times(self, directions: np.ndarray) -> np.ndarray:
        """[N, D] the products with directions [N, D]."""
        return (self.values @ directions[:, :, None])[:, :, 0]

    def bounded_step(
        self,
        gradient: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        *,
        ties: np.ndarray | None = None,
        share: np.ndarray | None = None,
    ) -> np.ndarray:
        """[N, D] steps to the minima of the quadratic models in a box, leg by leg.

        A coordinate that meets its bound on the way stays there, and the others go on. The model
        falls along every leg, so the step as a whole leads downhill; clipping the plain Newton step
        would bend it, at times uphill.
        """
        free = ((low < 0) | (gradient < 0)) & ((high > 0) | (gradient > 0))
        model = self.bent_up(free, ties)
        size = gradient.shape[1]
        own, every = np.diagonal(model, axis1=1, axis2=2), np.arange(size)
        # A coordinate that the policy does not react to yet still goes downhill; directions without
        # any information stay where they are.
        steep = np.abs(gradient) / np.maximum(np.maximum(-low, high), 1e-300)
        ridge = np.where(own > 0, STEADY * own, np.where(steep > 0, steep, 1.0))
        model = model.copy()
        model[:, every, every] += ridge
        if ties is not None and len(ties):
            # Each as stiff as what it ties: one beyond all others would leave them no digits.
            for tie in ties:
                largest = np.where(free & (tie != 0.0), own, 0.0).max(axis=1, initial=1e-300)
                stiffness = largest / max(float((tie**2).max()), 1e-300)
                model += stiffness[:, None, None] * np.outer(tie, tie)
        step, rows = np.zeros_like(gradient), np.arange(len(gradient))
        # Every leg but the last ends at a bound, so there are no more than coordinates and one.
        for _ in range(size + 1):
            keep, here = free[rows], step[rows]
            slope = gradient[rows] + (model[rows] @ here[:, :, None])[:, :, 0]
            move = _unbounded_step(model[rows], np.where(keep, -slope, 0.0), keep, ties)
            room = np.where(move < 0, low[rows], high[rows]) - here
            moves = move != 0
            share_of = np.where(moves, room / np.where(moves, move, 1.0), np.inf)
            length = np.minimum(1.0, share_of.min(axis=1, initial=np.inf))[:, None]
            blocked = keep & (share_of <= length) & (length < 1.0)
            bound = np.where(move < 0, low[rows], high[rows])
            step[rows] = np.where(blocked, bound, here + length * move)
            free[rows] = keep & ~blocked
            rows = rows[length[:, 0] < 1.0]
            if not len(rows):
                break
        return step

    def bent_up(self, free: np.ndarray, ties: np.ndarray | None = None) -> np.ndarray:
        """[N, D, D] the curvatures, or what stands in where they bend down among the free.

        Only directions along the ties [E, D] count: no step goes across them.
        """
        if self.convex is None:
            return self.values
        found = self.values.copy()
        for n, kept in enumerate(free):
            units = np.sqrt(np.maximum(np.diagonal(self.convex[n])[kept], 1e-300))
            block = found[n][np.ix_(kept, kept)] / np.outer(units, units)
            known = np.isfinite(block).all()
            along = np.eye(len(units)) if ties is None else null_space(ties[:, kept] / units)
            if known and np.linalg.eigvalsh(along.T @ block @ along).min(initial=1.0) > BLIND:
                continue
            safe = self.convex[n][np.ix_(kept, kept)] / np.outer(units, units)
            share = share_of(along.T @ block @ along, along.T @ safe @ along) if known else 1.0
            found[n] = (
                found[n] + share * (self.convex[n] - found[n]) if share < 1.0 else self.convex[n]
            )
        return found


def share_of(own: np.ndarray, convex: np.ndarray) -> float:
    """The smallest share of a convex curvature that makes a mixture with it bend up everywhere.

    Whole steps of the convex one, as of expectation and maximisation, are short. They are made far
    from a minimum, where the curvature bends down by more than `DOWN`.
    """
    try:
        root = np.linalg.cholesky(convex)
    except np.linalg.LinAlgError:
        return 1.0
    relative = np.linalg.solve(root, np.linalg.solve(root, own).T)
    least = float(np.linalg.eigvalsh(relative).min(initial=1.0))
    return 1.0 if least < -DOWN else max((BENT - least) / (1.0 - least), 0.0)


def null_space(ties: np.ndarray) -> np.ndarray:
    """[D, m] orthonormal directions in which the ties [E, D] do not change."""
    _, sizes, directions = np.linalg.svd(ties)
    return directions[int((sizes > 1e-12 * sizes.max(initial=0.0)).sum()) :].T


def _unbounded_step(
    model: np.ndarray, downhill: np.ndarray, free: np.ndarray, ties: np.ndarray | None
) -> np.ndarray:
    """[N, D] the x of model x = downhill among the free coordinates, along the ties [E, D]."""
    both = free[:, :, None] & free[:, None, :]
    every = np.arange(free.shape[1])
    within = np.where(both, model, 0.0)
    within[:, every, every] += ~free
    if ties is None or not len(ties):
        return _solved(within, downhill[:, :, None])[:, :, 0]
    tied = np.where(free[:, None, :], ties, 0.0)  # [N, E, D]
    right = np.concatenate([downhill[:, None, :], tied], axis=1).transpose(0, 2, 1)
    found = _solved(within, right)
    step, pulled = found[:, :, 0], found[:, :, 1:]
    across = tied @ pulled
    across = np.where(np.isfinite(across), across, 0.0)  # of a singular matrix there is no step
    prices = np.linalg.pinv(across, rcond=1e-12) @ (tied @ step[:, :, None])
    return step - (pulled @ prices)[:, :, 0]


def _solved(matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    """[N, D, m] the x of matrices x = right; NaN where a matrix is singular."""
    try:
        return np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full(right.shape, np.nan)
        pairs = zip(matrices, right, strict=True)
        return np.concatenate([_solved(one[None], side[None]) for one, side in pairs])


@dataclass(frozen=True, eq=False)
class Products:
    """The curvature of one problem, known by its products.

    Attributes:
        matrix: the products with directions [D].
        rough: an approximate inverse.
        bounded: whether a bound can stop a coordinate.
        written: () -> [D, D] the same; None where it is too large.
    """

    matrix: Matrix
    rough: Callable[[np.ndarray], np.ndarray]
    bounded: bool = False
    written: Callable[[], np.ndarray | None] = lambda: None

    def taken(self, rows: np.ndarray) -> Products:
        """Itself: there is one problem."""
        return self

    def replaced(self, rows: np.ndarray, fresh: Products) -> Products:
        """The new one: there is one problem."""
        return fresh

    def times(self, directions: np.ndarray) -> np.ndarray:
        """[1, D] the product with a direction [1, D]."""
        return np.asarray(self.matrix @ directions[0])[None]

    def bent_up(self, free: np.ndarray) -> np.ndarray:
        """[1, D, D] the curvature, where it is small enough to be written out."""
        whole = self.written()
        assert whole is not None
        return whole[None]

    def bounded_step(
        self,
        gradient: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        *,
        ties: np.ndarray | None = None,
        share: np.ndarray,
    ) -> np.ndarray:
        """[1, D] the step to about the minimum of the quadratic model in a box."""
        slope, box, left = gradient[0], (low[0], high[0]), float(share[0])
        if self.bounded or ties is not None:
            # Bounds that come and go cost more products than there are parameters.
            if (whole := self.written()) is not None:
                return Matrices(whole[None]).bounded_step(gradient, low, high, ties=ties)
            step, _ = bounded_step(self.matrix, slope, *box, share=left, most=BOUNDED_PRODUCTS)
            return step[None]
        free = box[1] > box[0]
        given = {"share": left, "most": PRODUCTS, "rough": self.rough}
        step, _, _ = conjugate_gradients(self.matrix, -slope, free, **given)
        if not step.any():  # no curvature at all: downhill
            downhill = np.where(free, -slope, 0.0)
            step = downhill * (box[1].max() / max(float(np.abs(slope).max()), 1e-300))
        # Shorten the step as a whole: shortening coordinates would bend it away from descent.
        beyond = np.where(free, np.abs(step) / np.maximum(box[1], 1e-300), 0.0).max(initial=0.0)
        return step[None] / max(1.0, float(beyond))


def inverse_information(fisher: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[D, D] the inverse on the free parameters, and [B, D] the directions it knows nothing of."""
    size = len(fisher)
    covariance, kept = np.zeros((size, size)), np.flatnonzero(free)
    if len(kept) == 0:
        return covariance, np.zeros((0, size))
    block = fisher[np.ix_(kept, kept)]
    units = np.sqrt(np.maximum(np.diagonal(block), 0.0))
    faint = units <= FAINT
    units[faint], block[faint], block[:, faint] = 1.0, 0.0, 0.0
    block = block / np.outer(units, units)
    if len(kept) > LARGE and (inverse := _by_elimination(block)) is not None:
        covariance[np.ix_(kept, kept)] = inverse / np.outer(units, units)
        return covariance, np.zeros((0, size))
    eigenvalues, vectors = np.linalg.eigh(block)
    seen = np.asarray(eigenvalues > BLIND * max(eigenvalues.max(), 0.0))
    half = vectors[:, seen] / np.sqrt(eigenvalues[seen])
    covariance[np.ix_(kept, kept)] = (half @ half.T) / np.outer(units, units)
    directions = np.zeros((int(np.logical_not(seen).sum()), size))
    directions[:, kept] = (vectors[:, np.logical_not(seen)] / units[:, None]).T
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    return covariance, directions / np.where(lengths > 0, lengths, 1.0)


def _by_elimination(matrix: np.ndarray) -> np.ndarray | None:
    """[n, n] the inverse of a matrix with 1 on its diagonal; None where it may be blind."""
    from scipy.linalg import lapack

    factor, failed = lapack.dpotrf(matrix, lower=1, clean=1)  # pyright: ignore[reportAttributeAccessIssue]
    if failed or np.diagonal(factor).min(initial=1.0) ** 2 < BLIND * len(matrix):
        return None
    inverse, _ = lapack.dpotri(factor, lower=1)  # pyright: ignore[reportAttributeAccessIssue]
    return np.tril(inverse) + np.tril(inverse, -1).T
