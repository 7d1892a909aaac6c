"""Weights against weights, and sets against sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.mdp import MDP
from tacit.objective import Objective


@dataclass(frozen=True)
class SetAgreement:
    """How well a recovered set meets a true one. Every score is in [0, 1].

    Attributes:
        precision: share of the recovered set that is true; NaN where nothing was recovered.
        recall: share of the true set that was recovered; NaN where nothing is true.
        f1: 2 * both / (true + recovered), the harmonic mean of the two; 1 where both are empty.
        jaccard: both / either; 1 where both are empty. f1 and jaccard are symmetric.
    """

    precision: float
    recall: float
    f1: float
    jaccard: float


def set_agreement(truth: Any, recovered: Any) -> SetAgreement:
    """The scores of a recovered set against a true one, as two boolean arrays of one shape."""
    truth, recovered = np.asarray(truth, bool), np.asarray(recovered, bool)
    if truth.shape != recovered.shape:
        raise InvalidModel(f"sets must have one shape; got {truth.shape} and {recovered.shape}")
    both, either = int((truth & recovered).sum()), int((truth | recovered).sum())
    true, found = int(truth.sum()), int(recovered.sum())
    return SetAgreement(
        precision=both / found if found else float("nan"),
        recall=both / true if true else float("nan"),
        f1=2 * both / (true + found) if either else 1.0,
        jaccard=both / either if either else 1.0,
    )


def costly_pairs(mdp: MDP, objective: Objective) -> np.ndarray:
    """[S, A] bool, the pairs that break some budget when paid for at every step.

    cost(s, a) / (1 - discount) > budget for some constraint: a set that does not depend on the
    scale of a cost with its budget, nor on a shift of both. It depends on shaping.
    """
    _, costs = objective.tables(mdp)
    limits = (1.0 - mdp.discount) * objective.budgets
    size = np.abs(costs).max(axis=(1, 2), initial=0.0)
    # A relative 1e-9 above the limit is at the limit: rescaling must not flip a pair.
    return (costs > (limits + 1e-9 * size)[:, None, None]).any(axis=0)


def weight_error(truth: Any, recovered: Any) -> float:
    """Full L1 distance of two weight vectors [D], each scaled to L1 norm 1 first. Range [0, 2].

    Weights that are all 0 stay 0. Symmetric, invariant to the positive scale of either vector. NaN
    where a weight is NaN, as for an inactive constraint, whose weights cannot be known.
    """
    one, other = _in_gauge(truth), _in_gauge(recovered)
    if one.shape != other.shape:
        raise InvalidModel(f"weights must be as many; got {one.shape} and {other.shape}")
    return float(np.abs(one - other).sum())


def _in_gauge(weights: Any) -> np.ndarray:
    weights = np.asarray(weights, float)
    size = np.abs(weights).sum()
    return weights / size if size > 0 else weights
