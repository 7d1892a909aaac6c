"""What `tacit recover` is asked: read by the command line, so no numerics are imported here."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from tacit.errors import InvalidModel

# Option -> the estimators that have it.
OPTIONS = {
    "free_reward": ("likelihood", "convex", "explanation", "reward-only"),
    "level": ("likelihood", "constraint-only"),
    "ridge": ("convex",),
    "tolerance": (
        "likelihood",
        "convex",
        "alternating",
        "explanation",
        "reward-only",
        "constraint-only",
    ),
    "max_steps": ("likelihood", "convex", "alternating", "reward-only", "constraint-only"),
    "starts": ("alternating",),
    "step_size": ("alternating",),
    "band": ("alternating",),
    "reward_weights": ("constraint-only",),
    "temperature": ("constraint-only",),
}
SEEDED = ("likelihood", "alternating", "constraint-only")
# What the result does not depend on.
ELSEWHERE = ("problem", "out", "resume", "overwrite", "no_report")


@dataclass(frozen=True)
class Recover:
    """Recover what a demonstrator wants and refuses from a problem folder, into a run folder.

    The run is kept on disk while it lasts: after an interruption `--resume` goes on where it
    stopped, and ends with the same numbers, to the last bit, as a run that was never interrupted.
    """

    problem: Path
    """folder of the problem"""
    out: Path = Path("run")
    """folder to write"""
    estimator: Literal[
        "auto",
        "likelihood",
        "explanation",
        "convex",
        "alternating",
        "reward-only",
        "constraint-only",
    ] = "auto"
    """how to recover; auto picks by the evidence and says why"""
    resume: bool = False
    """go on with the run in the folder; begin if there is none"""
    overwrite: bool = False
    """begin again; the older run stays until the new one is whole"""
    seed: int = 0
    """of everything random"""
    holdout: float = 0.0
    """share of the episodes on which to test the recovery from the others; 0 for no test"""
    discount_grid: tuple[float, ...] = ()
    """discounts under which to recover as well, to see how the answer moves"""
    bootstrap: int = 0
    """times to resample the trajectories for the intervals; 0 keeps those of the estimator"""
    dynamics_draws: int | None = None
    """redraws of estimated transitions, which widen the intervals; by default 20 in small worlds"""
    groups: bool = False
    """test whether the groups of the demonstrations share their weights"""
    free_reward: bool = False
    """of likelihood, convex, explanation, reward-only: let reward weights be negative"""
    level: float | None = None
    """of likelihood, constraint-only: level of the test whether a constraint is active"""
    ridge: float | None = None
    """of convex: pull of the parameters towards 0"""
    tolerance: float | None = None
    """when the estimator rests"""
    max_steps: int | None = None
    """most steps of the estimator; not of explanation"""
    starts: int | None = None
    """of alternating: random starts"""
    step_size: float | None = None
    """of alternating: the first step"""
    band: float | None = None
    """of alternating: standard errors within which a difference is no reason to step"""
    reward_weights: tuple[float, ...] = ()
    """of constraint-only: the known weights of the reward features"""
    temperature: float | None = None
    """of constraint-only: the known noise of the expert"""
    no_report: bool = False
    """write no report.html"""

    def __post_init__(self) -> None:
        for name in self.given:
            if self.estimator not in OPTIONS[name]:
                raise InvalidModel(
                    f"{name} is an option of {', '.join(OPTIONS[name])}; "
                    f"the estimator is {self.estimator}"
                )
        if self.estimator == "constraint-only" and not self.reward_weights:
            raise InvalidModel("reward_weights must be given for constraint-only; got none")
        if not 0.0 <= self.holdout < 1.0:
            raise InvalidModel(f"holdout must be in [0, 1); got {self.holdout}")
        for discount in self.discount_grid:
            if not 0.0 <= discount < 1.0:
                raise InvalidModel(f"discount_grid must be in [0, 1); got {discount}")
        if self.resume and self.overwrite:
            raise InvalidModel("resume goes on, overwrite begins again; got both")
        if self.bootstrap and self.estimator not in ("auto", "likelihood", "convex"):
            raise InvalidModel(
                f"bootstrap works with likelihood or convex; the estimator is {self.estimator}"
            )
        for name in ("seed", "bootstrap", "dynamics_draws"):
            if (getattr(self, name) or 0) < 0:
                raise InvalidModel(f"{name} must be at least 0; got {getattr(self, name)}")

    @property
    def given(self) -> dict[str, Any]:
        """The options of the estimator that were given, by name."""
        values = {name: getattr(self, name) for name in OPTIONS}
        # By identity: a 0 that was given is not False.
        return {n: v for n, v in values.items() if not (v is None or v is False or v == ())}

    @property
    def config(self) -> dict[str, Any]:
        """What the result depends on beside the data."""
        return {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in ELSEWHERE
        }

    @property
    def command(self) -> str:
        """The command line that asks for the same."""
        words = ["tacit", "recover", str(self.problem)]
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in ("problem", "resume", "overwrite") or value == one.default:
                continue
            words.append("--" + one.name.replace("_", "-"))
            if value is not True:
                words += [str(v) for v in (value if isinstance(value, tuple) else (value,))]
        return shlex.join(words)
