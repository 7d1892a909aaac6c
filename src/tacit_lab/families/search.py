"""What published methods share beside `tacit.methods`: a search for smooth losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tacit import (
    MDP,
    Features,
    Finding,
    InvalidDemonstrations,
    Kind,
    Objective,
    SoftDual,
    Solution,
    Status,
    data,
    methods,
)

POSITIVE = ("a positive number", lambda number: 0.0 < number < np.inf)

# Loss that doubling a coordinate, or all, must cost, or there is no best point.
VISIBLE = 1e-10
# The largest coordinates, of which that is tried.
TRIED = 10
Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]


class SearchOptions(Protocol):
    """What a search is told."""

    @property
    def tolerance(self) -> float:
        """Projected gradient to reach, relative to its scale."""
        ...

    @property
    def max_steps(self) -> int:
        """Most iterations."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Minimum:
    """Where a search ended.

    Attributes:
        point: [P].
        gradient: largest entry of the projected gradient, relative to its scale.
        converged: whether that is within the tolerance.
        deterministic: whether a coordinate twice as far is as good, so that no point is the best.
        losses: one an iteration.
    """

    point: np.ndarray
    gradient: float
    converged: bool
    deterministic: bool
    losses: list[float]

    @property
    def ended(self) -> dict[str, Any]:
        """How it did, as fields of `Estimate`."""
        return {
            "converged": self.converged,
            "deterministic": self.deterministic,
            "history": {"loss": self.losses},
            "certificate": {"projected_gradient": self.gradient},
        }

    @property
    def findings(self) -> list[Finding]:
        """What is to be said where no finite point is the best."""
        if not self.deterministic:
            return []
        said = "No finite weights are the best: twice as large ones explain as much, as of an "
        return [Finding(f"{said}expert who never errs.", Kind.DETERMINISTIC)]


def minimise(
    loss: Loss,
    start: np.ndarray,
    scales: np.ndarray,
    options: SearchOptions,
    *,
    lower: float | np.ndarray,
    upper: float = np.inf,
    ridged: int | None = None,
) -> Minimum:
    """The `Minimum` of a smooth loss within bounds, by L-BFGS on coordinates scaled to range one.

    Args:
        loss: (point) -> value and gradient [P]; infinite where there is no value.
        start: [P].
        scales: [P] range of each entry of the gradient.
        options: with a tolerance, a number of steps and perhaps a ridge on the scaled coordinates.
        lower: bounds of the point.
        upper: bounds of the point.
        ridged: how many entries, the first ones, the ridge is about; None for all.
    """
    from scipy.optimize import minimize

    ridge = np.zeros(len(start))
    ridge[:ridged] = getattr(options, "ridge", 0.0)
    low, high = np.broadcast_to(lower, start.shape), np.full(len(start), upper)
    losses: list[float] = []

    def scaled(y: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = loss(y / scales)
        return value + 0.5 * float(ridge @ y**2), slope / scales + ridge * y

    minimum = minimize(
        scaled,
        start * scales,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low * scales, high * scales, strict=True)),
        callback=lambda y: losses.append(scaled(y)[0]),
        options={"maxiter": options.max_steps, "ftol": 1e-15, "gtol": 0.1 * options.tolerance},
    )
    y = np.asarray(minimum.x)
    value, slope = scaled(y)
    projected = np.clip(y - slope, low * scales, high * scales) - y
    gradient = float(np.abs(projected).max(initial=0.0))
    # Weights that may grow at no loss: the demonstrations never do what these rule out.
    far = [j for j in np.argsort(-np.abs(y))[:TRIED].tolist() if abs(y[j]) > 1.0]
    trials = [y + y * (np.arange(len(y)) == j) for j in far] + [2.0 * y] * bool(far)
    endless = upper == np.inf and any(
        scaled(np.clip(trial, low * scales, high * scales))[0] <= value + VISIBLE
        for trial in trials
    )
    return Minimum(
        point=y / scales,
        gradient=gradient,
        converged=bool(np.isfinite(value)) and gradient <= options.tolerance,
        deterministic=endless,
        losses=[*losses, value],
    )


def soft_value(
    mdp: MDP, table: np.ndarray, guess: Solution | None
) -> tuple[float, Solution | None]:
    """p0 . V_soft at temperature 1 for this utility [S, A], and its solution; None if infinite."""
    found = SoftDual(1.0).solve(mdp, Objective(table), guess=guess, throw=False)
    if found.status is Status.UNBOUNDED or not np.isfinite(found.values).all():
        return np.inf, None
    return float(mdp.initial @ found.values), found


def seen_expectations(
    mdp: MDP, features: Features, demonstrations: data.Observed
) -> tuple[np.ndarray, ...]:
    """([D], [D_1], ...) discounted feature expectations of the demonstrations."""
    seen = methods.expectations_from_start(mdp, features, demonstrations)
    if seen is None:
        raise InvalidDemonstrations(
            "this method matches discounted sums from the start: it needs trajectories that begin "
            "there; got partial ones only"
        )
    return seen.means


def by_action(mdp: MDP, values: np.ndarray) -> np.ndarray:
    """[S, A] the values [S] or [S, A]."""
    return values if values.ndim == 2 else np.repeat(values[:, None], mdp.actions, axis=1)


def spans(table: np.ndarray) -> np.ndarray:
    """[D] range of each feature, 1 where it is the same everywhere."""
    found = np.ptp(table.reshape(-1, table.shape[-1]), axis=0)
    return np.where(found > 0, found, 1.0)


def reward_alone(features: Features, weights: np.ndarray) -> Objective:
    """The objective of these reward weights, every constraint without cost and budget."""
    nothing = [np.zeros(table.shape[-1]) for table in features.costs]
    return features.objective(weights, nothing, np.full(len(nothing), np.inf))
