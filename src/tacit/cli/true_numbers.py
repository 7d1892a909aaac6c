"""The weights and budgets of a known truth, to stand beside recovered ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tacit.folders.problem import Problem


def true_numbers(problem: Problem) -> dict[str, float]:
    """The true weights and budgets in the gauge, where the truth is made of the features."""
    truth, features = problem.truth, problem.features
    assert truth is not None
    reward, costs = truth.tables(problem.mdp)
    weights = _weights(features.reward, reward)
    numbers = _gauged("reward", features.reward_names, weights)
    if truth.constraints != features.constraints:
        return numbers
    for k, table in enumerate(features.costs):
        weights = _weights(table, costs[k])
        numbers |= _gauged(f"cost {k}", features.cost_names[k], weights)
        if weights is not None and np.abs(weights).sum() > 0:
            numbers[f"budget {k}"] = float(truth.budgets[k] / np.abs(weights).sum())
    return numbers


def _weights(features: np.ndarray, table: np.ndarray) -> np.ndarray | None:
    """[D] the weights whose sum of features is the table; None where there are none."""
    if features.ndim == 2:
        features = np.repeat(features[:, None, :], table.shape[1], axis=1)
    columns = features.reshape(-1, features.shape[-1])
    weights, _, rank, _ = np.linalg.lstsq(columns, table.ravel(), rcond=None)
    left = np.abs(columns @ weights - table.ravel()).max()
    made = left <= 1e-9 * max(1.0, float(np.abs(table).max())) and rank == columns.shape[1]
    return weights if made else None


def _gauged(kind: str, names: tuple[str, ...], weights: np.ndarray | None) -> dict[str, float]:
    if weights is None or not np.abs(weights).sum() > 0:
        return {}
    scaled = weights / np.abs(weights).sum()
    return {f"{kind}: {name}": float(w) for name, w in zip(names, scaled, strict=True)}
