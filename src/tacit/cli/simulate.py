"""`tacit simulate`: an expert in a built-in world, as a problem folder with its truth."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

from tacit.cli.terminal import Answer, Terminal, shown_default, table_text
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from tacit.worlds.world import World

GYMNASIUM = ("FrozenLake-v1", "CliffWalking-v1", "Taxi-v4")


@dataclass(frozen=True, kw_only=True)
class Simulate:
    """Simulate an expert in a built-in world and write a problem folder with the known truth.

    Worlds: hill-grid (the paper's), published-figure (the draw it shows), random, and those of
    Gymnasium's toy text by name: FrozenLake-v1, CliffWalking-v1, Taxi-v4.
    """

    world: str
    """hill-grid, published-figure, random, or a Gymnasium name such as FrozenLake-v1"""
    out: Path = Path("problem")
    """folder to make; it must not exist yet, or be empty"""
    seed: int = 0
    """seed of the world and of the demonstrations"""
    trajectories: int = 100
    """number of demonstrations"""
    steps: int = 2000
    """largest number of steps of a demonstration"""
    temperature: float = 0.0
    """noise of the expert, in units of the reward; 0 for an optimal one"""
    discount: Annotated[Optional[float], shown_default("0.9; Gymnasium: 0.99")] = None
    """discount of the world"""
    tightness: Annotated[Optional[float], shown_default("none: the budget decides")] = None
    """hill-grid, published-figure, random: the budget's place between the least possible cost, 0,
    and the unconstrained expert's, 1"""
    budget: Annotated[Optional[float], shown_default("1.0")] = None
    """hill-grid: largest expected discounted cost"""
    size: Annotated[Optional[int], shown_default("5")] = None
    """hill-grid: number of rows and of columns"""
    slip: Annotated[Optional[float], shown_default("0.3")] = None
    """hill-grid: probability that a step goes astray"""
    hill: Annotated[Optional[Literal["absolute", "as-written"]], shown_default("absolute")] = None
    """hill-grid: how the cost falls away from the peak"""
    states: Annotated[Optional[int], shown_default("20")] = None
    """random: number of states"""
    actions: Annotated[Optional[int], shown_default("3")] = None
    """random: number of actions"""
    constraints: Annotated[Optional[int], shown_default("1")] = None
    """random: number of constraints"""
    successors: Annotated[Optional[int], shown_default("5, or all states")] = None
    """random: number of next states of each action"""
    features: Annotated[Optional[int], shown_default("3")] = None
    """random: number of features of the reward and of each cost"""

    def __post_init__(self) -> None:
        for name in ("trajectories", "steps"):
            if getattr(self, name) < 1:
                raise InvalidModel(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.seed < 0:
            raise InvalidModel(f"seed must be 0 or more; got {self.seed}")
        if not 0.0 <= self.temperature < float("inf"):
            raise InvalidModel(f"temperature must be a number, 0 or more; got {self.temperature}")

    def run(self, terminal: Terminal) -> Answer:
        """Writes the folder and says what is in it."""
        from tacit.files.atomic import refuse_taken
        from tacit.folders.problem import Problem
        from tacit.forward.column_generation import ColumnGeneration
        from tacit.forward.simulation import simulate
        from tacit.forward.soft_dual import SoftDual
        from tacit.forward.solve import solve

        refuse_taken(self.out)
        world = self.make_world()
        noisy = self.temperature > 0
        solver = SoftDual(self.temperature) if noisy else ColumnGeneration()
        solution = solve(world.mdp, world.truth, solver=solver)
        asked = {name: getattr(self, name) for name in ("trajectories", "steps", "seed")}
        seen = simulate(world.mdp, solution.policy, **asked)
        problem = Problem(world.mdp, world.features, seen, truth=world.truth, layout=world.layout)
        problem.save(self.out)
        sizes = {
            "states": world.mdp.states,
            "actions": world.mdp.actions,
            "constraints": world.truth.constraints,
            "episodes": seen.episodes,
            "steps": seen.steps,
        }
        data = {
            "problem": self.out,
            "world": repr(world),
            **sizes,
            "discount": world.mdp.discount,
            "budgets": world.truth.budgets,
            **{name: getattr(solution, name) for name in ("value", "spent", "multipliers")},
        }
        expert = f"noisy, temperature {self.temperature:g}" if noisy else "optimal"
        table = table_text(["what", "value"], [*sizes.items(), ("expert", expert)], str(world))
        return Answer([table, f"problem: {self.out} (next: tacit check {self.out})"], data)

    def make_world(self) -> World:
        """The world that was named, with the options that were given."""
        make, first = self._maker()
        # What is None by default is handed to the function, where it has it.
        options = [one.name for one in fields(self) if one.default is None]
        known = [name for name in options if name in inspect.signature(make).parameters]
        given = {name: value for name in options if (value := getattr(self, name)) is not None}
        for name in given:
            if name not in known:
                raise InvalidModel(
                    f"--{name} is no option of {self.world}; it has {', '.join(known)}"
                )
        return make(*first, **given)

    def _maker(self) -> tuple[Callable[..., World], tuple[int | str, ...]]:
        """The function that makes the world, and its first arguments."""
        from tacit import worlds

        name = self.world.replace("_", "-")
        built_in = {
            "hill-grid": (worlds.hill_grid, (self.seed,)),
            "published-figure": (worlds.published_figure, ()),
            "random": (worlds.random, (self.seed,)),
        }
        if name in built_in:
            return built_in[name]
        if re.search(r"-v\d+$", self.world):
            return worlds.gymnasium, (self.world,)
        from tacit.files.wording import nearest

        offered = [*built_in, *GYMNASIUM]
        near = nearest(self.world, offered, cutoff=0.5)
        hint = f", did you mean {near}?" if near else ""
        raise InvalidModel(f"WORLD must be one of {', '.join(offered)}; got {self.world!r}{hint}")
