"""From demonstrations to an objective."""

from __future__ import annotations

import numpy as np

from tacit.engine.smooth_dual import BLIND


def square_roots(matrix: np.ndarray, blind: float = BLIND) -> tuple[np.ndarray, np.ndarray]:
    """[r, n] R with R' R = matrix, and [r, n] the transpose of its inverse, where it has one."""
    units = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    units = np.where(units > 0, units, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(units, units))
    seen = values > blind * max(float(values.max(initial=0.0)), 0.0)
    root = np.sqrt(values[seen])
    return (vectors[:, seen] * root).T * units, (vectors[:, seen] / root).T / units


def at_least(fisher: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """[D, D] the scatter of units, made no less than the information in any direction.

    Units can only scatter more than their steps do. That they seem to scatter less is chance, which
    few units, or few that tell anything, have much of: intervals would be too narrow by it.
    """
    half, inverse = square_roots(fisher)
    values, vectors = np.linalg.eigh(inverse @ scatter @ inverse.T)
    root = half.T @ vectors * np.sqrt(np.maximum(values, 1.0))
    return root @ root.T
