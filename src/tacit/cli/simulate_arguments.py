"""What `tacit simulate` is asked: read by the command line, so no numerics are imported here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tacit.errors import InvalidModel

OPTIONS = {
    "hill-grid": ("size", "hill", "budget", "tightness", "slip", "discount"),
    "published-figure": ("tightness", "discount"),
    "random": (
        "states",
        "actions",
        "constraints",
        "successors",
        "features",
        "tightness",
        "discount",
    ),
    "gymnasium": ("discount",),
}


@dataclass(frozen=True)
class Simulate:
    """Make a problem folder with a known truth: a built-in world, and an expert seen in it.

    Worlds: hill-grid (the paper's), published-figure (the one it shows), random, and Gymnasium's
    toy-text ones by their name: FrozenLake-v1, CliffWalking-v1, Taxi-v4.
    """

    world: str
    """hill-grid, published-figure, random, or a Gymnasium name such as FrozenLake-v1"""
    out: Path = Path("problem")
    """folder to make; it must not exist yet, or be empty"""
    seed: int = 0
    """names the draw of the world and of the demonstrations"""
    trajectories: int = 100
    """demonstrations to make"""
    steps: int = 200
    """most steps of a demonstration"""
    temperature: float = 0.0
    """noise of the expert, in units of the reward; 0 for an optimal one"""
    format: Literal["npz", "text"] = "npz"
    """npz and Parquet files, or their text twins"""
    discount: float | None = None
    """of the world"""
    tightness: float | None = None
    """of hill-grid, published-figure and random: places the budget between least and free cost"""
    budget: float | None = None
    """of hill-grid: largest expected discounted cost"""
    size: int | None = None
    """of hill-grid: rows and columns"""
    slip: float | None = None
    """of hill-grid: probability that a step goes astray"""
    hill: Literal["absolute", "as-written"] | None = None
    """of hill-grid: how the cost falls away from the peak"""
    states: int | None = None
    """of random: number of states"""
    actions: int | None = None
    """of random: number of actions"""
    constraints: int | None = None
    """of random: number of constraints"""
    successors: int | None = None
    """of random: next states of each action"""
    features: int | None = None
    """of random: features of the reward and of each cost"""

    def __post_init__(self) -> None:
        for name in ("trajectories", "steps"):
            if getattr(self, name) < 1:
                raise InvalidModel(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.seed < 0:
            raise InvalidModel(f"seed must be 0 or more; got {self.seed}")
        if not 0.0 <= self.temperature < float("inf"):
            raise InvalidModel(f"temperature must be a number, 0 or more; got {self.temperature}")
        known = OPTIONS[self.kind]
        for name in sorted({name for names in OPTIONS.values() for name in names}):
            if getattr(self, name) is not None and name not in known:
                shown = ", ".join(known)
                raise InvalidModel(f"{name} is no option of {self.world}; it has {shown}")

    @property
    def kind(self) -> str:
        """The key of `OPTIONS`."""
        name = self.world.replace("_", "-")
        if name in OPTIONS and name != "gymnasium":
            return name
        if re.search(r"-v\d+$", self.world):
            return "gymnasium"
        import difflib

        offered = [*[*OPTIONS][:-1], "FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"]
        folded = {name.casefold(): name for name in offered}
        near = difflib.get_close_matches(self.world.casefold(), folded, n=1, cutoff=0.5)
        hint = f", did you mean {folded[near[0]]}?" if near else ""
        raise InvalidModel(f"world must be one of {', '.join(offered)}; got {self.world!r}{hint}")

    @property
    def asked(self) -> dict[str, Any]:
        """The options of the world that were given."""
        given = {name: getattr(self, name) for name in OPTIONS[self.kind]}
        return {name: value for name, value in given.items() if value is not None}
