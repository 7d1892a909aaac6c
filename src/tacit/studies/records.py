"""What one unit of work leaves behind: plain numbers that survive a round trip through JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Trace:
    """The way of an alternating estimator, one number a round.

    Attributes:
        feature_gap: of each round.
        weight_change: of each round.
        multiplier: of each round, in the gauge.
        best: the round that was kept.
    """

    feature_gap: list[float]
    weight_change: list[float]
    multiplier: list[float]
    best: int


@dataclass(frozen=True)
class Score:
    """What one estimator recovered from one set of demonstrations, and how it was judged.

    Attributes:
        estimator: its name in the table.
        metrics: name -> number; NaN where a question has no answer.
        reward_weights: [D] in the gauge.
        cost_weights: [D_1] in the gauge; NaN where the constraint was found inactive, except that
            Algorithm 1 returns the weights it carried all the same.
        active: whether the constraint was found to restrain the expert.
        budget: recovered, in the gauge.
        status: the sentence of the recovery.
        converged: whether the recovery says so.
        iterations: rounds or evaluations.
        seconds: it took; the only number that changes from run to run.
        policy: [S][A] of the recovered problem.
        trace: the rounds of an alternating estimator.
    """

    estimator: str
    metrics: dict[str, float]
    reward_weights: list[float]
    cost_weights: list[float]
    active: bool
    budget: float
    status: str
    converged: bool
    iterations: int
    seconds: float
    policy: list[list[float]] = field(default_factory=list)
    trace: Trace | None = None


@dataclass(frozen=True)
class Draw:
    """One draw of the grid at one budget: the truth and every score.

    Attributes:
        block: name of the block.
        seed: of the draw; -1 for the published one.
        recipe: the call that makes the world again.
        feasible: whether any policy meets the budget; if not there is nothing to recover from.
        binds: whether the budget has a price.
        budget: the true one, in the gauge.
        least: smallest cost that any policy can have, in the gauge.
        unconstrained: cost of the reward-optimal policy, in the gauge.
        multiplier: its true price, in the gauge.
        reward_weights: [D] true, in the gauge.
        cost_weights: [D_1] true, in the gauge.
        policy: [S][A] of the true problem.
        ties: [S][A] whether an action is optimal at the true prices.
        noise: sampling noise of the demonstrations' feature expectations.
        scores: one an estimator.
        null: metric -> one number a random guess.
    """

    block: str
    seed: int
    recipe: str
    feasible: bool
    binds: bool
    budget: float
    least: float
    unconstrained: float
    multiplier: float
    reward_weights: list[float]
    cost_weights: list[float]
    policy: list[list[float]]
    ties: list[list[bool]]
    noise: float
    scores: list[Score]
    null: dict[str, list[float]]

    def score(self, estimator: str) -> Score | None:
        """The score of the estimator of that name."""
        return next((score for score in self.scores if score.estimator == estimator), None)


@dataclass(frozen=True)
class Point:
    """One recovery of a study of the amount of data.

    Attributes:
        study: "steps" or "trajectories": what was varied.
        expert: "noisy" or "optimal".
        estimator: its name in the table; "Random weights" for the median of random guesses.
        position: how many of what was varied.
        reward_error: L1 of the reward weights.
        cost_error: L1 of the cost weights; NaN where the constraint was found inactive.
        visitation_distance: total variation to the expert's visitation.
    """

    study: str
    expert: str
    estimator: str
    position: int
    reward_error: float
    cost_error: float
    visitation_distance: float


@dataclass(frozen=True)
class Sweep:
    """The studies of one seed.

    Attributes:
        seed: of the draw.
        points: one a recovery.
    """

    seed: int
    points: list[Point]


def to_json(record: Any) -> str:
    """The record as JSON, NaN and infinities as their names."""
    return json.dumps(_named(asdict(record)), allow_nan=False) + "\n"


def draw_of(text: str) -> Draw:
    """The `Draw` written by `to_json`."""
    page = _numbered(json.loads(text))
    scores = [
        Score(**{**score, "trace": None if score["trace"] is None else Trace(**score["trace"])})
        for score in page.pop("scores")
    ]
    return Draw(**page, scores=scores)


def sweep_of(text: str) -> Sweep:
    """The `Sweep` written by `to_json`."""
    page = _numbered(json.loads(text))
    return Sweep(page["seed"], [Point(**point) for point in page["points"]])


_NAMES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _named(value: Any) -> Any:
    """The value with numbers that JSON does not know replaced by their names."""
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_named(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _numbered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbered(item) for item in value]
    return _NAMES.get(value, value) if isinstance(value, str) else value
