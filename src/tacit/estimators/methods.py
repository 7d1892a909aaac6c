"""What an estimator of one's own is made of: the public `tacit.methods`.

A method that finds points, without error bars, is a `PointEstimator` with a `find`. Beside it stand
the pieces that estimators share: sums of what was seen, solutions of policies, candidates for what
may be forbidden, and findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import ClassVar

import numpy as np

from tacit.data.observed import Observed
from tacit.data.tally import counts_of
from tacit.errors import InvalidModel
from tacit.estimators.assembly import Estimate, recovery
from tacit.estimators.forbidden.candidates import Candidate, candidates_of
from tacit.estimators.forbidden.sentences import about
from tacit.forward.solution import conclude
from tacit.inference.expectations import (
    check_task,
    expectations,
    expectations_from_start,
    pull_back,
)
from tacit.inference.findings import LEVEL, Finding, Kind, chance, listed
from tacit.inference.sets import HardConstraint
from tacit.model.arguments import numbers
from tacit.model.closure import close
from tacit.model.ends import led_to_an_end
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective
from tacit.recovery import History, Recovery, delivered

__all__ = [
    "LEVEL",
    "Candidate",
    "Estimate",
    "HardConstraint",
    "History",
    "PointEstimator",
    "about",
    "candidates_of",
    "chance",
    "check_options",
    "check_task",
    "cloned_policy",
    "close",
    "conclude",
    "counts_of",
    "delivered",
    "expectations",
    "expectations_from_start",
    "known_weights",
    "left_out",
    "listed",
    "numbers",
    "pull_back",
    "table_objective",
]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)


ALONE = "the reward alone had to explain the demonstrations"

# What a hyperparameter must be, and whether a number is so.
POSITIVE = ("a positive number", lambda number: 0.0 < number < np.inf)
AT_LEAST_0 = ("a number of at least 0", lambda number: 0.0 <= number < np.inf)
SHARE = ("in (0, 1)", lambda number: 0.0 < number < 1.0)
Limit = tuple[str, Callable[[float], bool]]
LIMITS: dict[str, Limit] = {
    "tolerance": POSITIVE,
    "temperature": POSITIVE,
    "stop": POSITIVE,
    "max_steps": ("at least 1", lambda number: number >= 1),
    "draws": ("at least 10", lambda number: number >= 10),
    "ridge": AT_LEAST_0,
    "penalty": AT_LEAST_0,
    "regularisation": AT_LEAST_0,
    "budget": AT_LEAST_0,
    "pseudo_count": AT_LEAST_0,
    "floor": SHARE,
    "prior_chance": SHARE,
    "least": ("in (0, 0.5)", lambda number: 0.0 < number < 0.5),
    "confidence": ("in [0.5, 1)", lambda number: 0.5 <= number < 1.0),
}


class PointEstimator:
    """An estimator of points: hyperparameters within their limits, what it finds, and `fit`."""

    limits: ClassVar[Mapping[str, Limit]] = {}  # where they are not those of `LIMITS`
    in_memory: ClassVar[bool] = False  # whether it reads trajectories, not only their sums

    def __post_init__(self) -> None:
        check_options(self, self.limits)

    def find(self, mdp: MDP, features: Features, demonstrations: Observed) -> Estimate:
        """What the method finds in a task that is known to be one."""
        raise NotImplementedError

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery of what the method finds; it has points and no error bars."""
        check_task(mdp, features, demonstrations, in_memory=self.in_memory)
        found = self.find(mdp, features, demonstrations)
        if not found.converged:
            stopped = "The method stopped before its tolerance was met: the last point is given."
            sentence = Finding(stopped, Kind.NOT_CONVERGED)
            found = replace(found, findings=(sentence, *found.findings))
        return delivered(recovery(repr(self), mdp, features, demonstrations, found), throw)


def check_options(method: object, limits: Mapping[str, Limit] | None = None) -> None:
    """`InvalidModel` unless the options of a method are within their limits, or None by default.

    They become plain numbers, so that it prints as the call that makes it.
    """
    options = {one.name: (getattr(method, one.name), one.default) for one in fields(method)}  # type: ignore[arg-type]
    for name, (must, holds) in (LIMITS | dict(limits or {})).items():
        value, default = options.get(name, (None, None))
        if value is None and default is None:
            continue
        if not isinstance(value, int | float | np.number) or not holds(float(value)):
            raise InvalidModel(f"{name} must be {must}; got {value!r:.60}")
        if isinstance(value, np.number):
            object.__setattr__(method, name, value.item())
    if "reward_weights" in options:
        weights = np.atleast_1d(numbers(options["reward_weights"][0], "reward_weights"))
        if weights.ndim != 1 or not np.isfinite(weights).all() or not weights.any():
            raise InvalidModel(
                "reward_weights must be a vector of finite numbers that are not all 0; "
                f"got {options['reward_weights'][0]!r:.60}"
            )
        object.__setattr__(method, "reward_weights", tuple(weights.tolist()))


def known_weights(weights: Sequence[float], features: Features) -> tuple[np.ndarray, float]:
    """[D] known weights of the reward features in the gauge, and the L1 norm they were given in."""
    vector, size = np.array(weights), features.reward.shape[-1]
    if len(vector) != size:
        raise InvalidModel(f"reward_weights must have shape ({size},); got ({len(vector)},)")
    norm = float(np.abs(vector).sum())
    return vector / norm, norm


def left_out(features: Features, why: str = ALONE) -> list[Finding]:
    """One finding a constraint that a method does not look for."""
    return [
        Finding(f"Constraint {k} was left out: {why}.", Kind.INACTIVE, constraint=k)
        for k in range(features.constraints)
    ]


def table_objective(mdp: MDP, features: Features, reward: np.ndarray) -> Objective:
    """The objective of this reward [S, A] alone; every constraint has no cost and no budget."""
    nothing = np.zeros((features.constraints, mdp.states, mdp.actions))
    return Objective(reward, nothing, np.full(features.constraints, np.inf))


def cloned_policy(mdp: MDP, counts: np.ndarray, pseudo_count: float = 0.0) -> np.ndarray:
    """[S, A] the shares of the actions taken [S, A]; uniform where none was, 0 at ends.

    At discount 1 a state from which these come to no end takes one step of the shortest walk.
    """
    visited = counts.sum(axis=1, keepdims=True) > 0
    table = np.where(visited, counts + pseudo_count, 1.0) * mdp.available
    table = led_to_an_end(mdp, table + 0.0) * mdp.available
    return table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
