"""What `tacit solve` is asked: read by the command line, so no numerics are imported here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tacit.errors import InvalidModel


@dataclass(frozen=True)
class Solve:
    """Solve a problem whose truth is known: best policy within the budgets, and their prices.

    The truth is truth.npz in the folder, or [truth] in its problem.toml.
    """

    problem: Path
    """folder of the problem"""
    solver: Literal["column-generation", "occupancy-lp", "soft-dual"] = "column-generation"
    """exact, exact by one linear program, or the noisy expert's"""
    temperature: float | None = None
    """of soft-dual: noise of the expert, in units of the reward"""
    price_curve: int = 0
    """number of budgets at which to tell value and price; 0 for no curve"""
    constraint: int = 0
    """whose budget the price curve moves, from 0"""
    out: Path | None = None
    """folder to write solution.npz, policy.csv and the price curve to"""

    def __post_init__(self) -> None:
        if self.price_curve < 0 or self.price_curve == 1:
            raise InvalidModel(f"price_curve must be 0, or at least 2; got {self.price_curve}")
        if self.temperature is not None and self.solver != "soft-dual":
            raise InvalidModel(
                f"temperature is an option of soft-dual; the solver is {self.solver}"
            )
        if self.temperature is not None and not 0.0 < self.temperature < float("inf"):
            raise InvalidModel(f"temperature must be a positive number; got {self.temperature}")
