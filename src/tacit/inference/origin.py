"""What a recovery was made from, kept by reference: more is seen, or something is asked, later."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tacit.data.observed import Observed
    from tacit.model.mdp import MDP
    from tacit.model.objective import Features


def now() -> str:
    """The time, to the second, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True, eq=False, kw_only=True)
class FullPass:
    """What only a pass over whole trajectories tells, as of the last one.

    Attributes:
        date: of the pass, UTC.
        steps: number of observed steps then.
        verdict: of `Goodness` then, with the tests between trajectories and over time.
        p_value: of all its tests.
        errors: kind of standard errors then.
        stretch: largest ratio of those to Fisher's; 1 where these were Fisher's, NaN for none.
    """

    date: str
    steps: int
    verdict: str
    p_value: float
    errors: str
    stretch: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictions:
    """How well each batch was predicted by the fit to what came before it.

    Attributes:
        counts: [S, A] steps that were predicted.
        log_likelihood: of their actions, each by the fit before its batch.
    """

    counts: np.ndarray
    log_likelihood: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Origin:
    """What a recovery was made from; it is not saved with the recovery.

    Attributes:
        mdp: the world.
        features: what reward and costs may be made of.
        demonstrations: what was seen; sums of it where more was added.
        estimator: how; for a task that of all together, None for a type.
        date: when, UTC.
        last_pass: over whole trajectories; None where this was one, or none was made.
        rows: all that was seen, in parts, where rows are kept; empty where they are not.
        half_life: steps after which an old step weighs half; None where none is forgotten.
        predictions: of all that was added; None where nothing was, or something is forgotten.
    """

    mdp: MDP
    features: Features
    demonstrations: Observed
    estimator: Any
    date: str = field(default_factory=now)
    last_pass: FullPass | None = None
    rows: tuple[Observed, ...] = ()
    half_life: float | None = None
    predictions: Predictions | None = None
