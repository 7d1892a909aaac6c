"""What `tacit reproduce` is asked: read by the command line, so no numerics are imported here."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tacit.errors import InvalidModel

PUBLISHED, BINDING = "published", "binding"
HALFWAY = 0.5  # tightness of the block that binds
LENGTHS = (20, 50, 100, 200, 500, 1000, 2000)
COUNTS = (5, 10, 20, 50, 100, 200)


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper's experiment over many draws and measure it against the truth.

    Draws grids as section 5 of the paper does, lets an optimal expert walk them, recovers what it
    wants and refuses with every estimator, and writes results.json, figures and report.html. A run
    that was interrupted goes on where it stopped when it is called again with the same folder.
    """

    seeds: int = 10
    """draws of the grid: seeds 0, 1, ..."""
    trajectories: int = 100
    """demonstrations of each"""
    steps: int = 2000
    """length T of a demonstration"""
    discount: float = 0.9
    """the paper gives none"""
    size: int = 5
    """rows and columns of the grid"""
    hill: Literal["absolute", "as-written"] = "absolute"
    """the cost feature e^(-c|h-x|), or e^(-c(h-x)) as the paper prints it"""
    budget: Literal["both", "binding"] | float = "both"
    """a number, or "binding" for halfway between least and unconstrained cost; "both" is 1 as
    published and "binding" """
    jobs: int = 0
    """processes; 0 for one per core"""
    out: Path = Path("reproduction")
    """folder to write"""

    def __post_init__(self) -> None:
        least = {"seeds": 1, "trajectories": 2, "steps": 1, "size": 3, "jobs": 0}
        for name, limit in least.items():
            if getattr(self, name) < limit:
                raise InvalidModel(f"{name} must be at least {limit}; got {getattr(self, name)}")
        if not 0.0 < self.discount < 1.0:
            raise InvalidModel(f"discount must be in (0, 1); got {self.discount}")
        if not isinstance(self.budget, str) and not math.isfinite(self.budget):
            raise InvalidModel(f"budget must be a finite number; got {self.budget}")
        if isinstance(self.budget, str) and self.budget not in ("both", BINDING):
            raise InvalidModel(
                f"budget must be a number, 'both' or 'binding'; got {self.budget!r:.60}"
            )
        if self.hill not in ("absolute", "as-written"):
            raise InvalidModel(f"hill must be 'absolute' or 'as-written'; got {self.hill!r:.60}")

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The budgets to run, the published one first."""
        halfway = Block(
            BINDING, "budget halfway, binding", "where it lies halfway and binds", 1.0, HALFWAY
        )
        if self.budget == "both":
            return Block(PUBLISHED, "budget 1, as published", "at budget 1", 1.0, None), halfway
        if isinstance(self.budget, str):
            return (halfway,)
        amount = float(self.budget)
        name = PUBLISHED if amount == 1.0 else f"budget-{amount:g}"
        title = "budget 1, as published" if amount == 1.0 else f"budget {amount:g}"
        return (Block(name, title, f"at budget {amount:g}", amount, None),)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths T of the study of T, up to the one asked for."""
        return (*(length for length in LENGTHS if length < self.steps), self.steps)

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of trajectories of that study, up to twice the one asked for."""
        return tuple(n for n in COUNTS if n <= 2 * self.trajectories)

    def identity(self) -> dict[str, object]:
        """What the results depend on: not the number of processes, nor the folder."""
        return {k: v for k, v in asdict(self).items() if k not in ("jobs", "out")}


@dataclass(frozen=True)
class Block:
    """One budget, over all seeds.

    Attributes:
        name: in file names.
        title: for people.
        phrase: the same inside a sentence.
        budget: largest expected discounted cost; not read where there is a tightness.
        tightness: where between least and unconstrained cost the budget lies, or None.
    """

    name: str
    title: str
    phrase: str
    budget: float
    tightness: float | None
