"""Recover what a demonstrator wants and refuses, in a Markov decision process that is known.

    Objective --solve--> Solution --simulate--> Demonstrations --recover--> Objective

The public names are found on first use, so that importing tacit costs nothing: no engine
(JAX, HiGHS, Polars, Matplotlib) is loaded before something asks for it.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit import checks as checks
    from tacit import data as data
    from tacit import export as export
    from tacit import folders as runs
    from tacit import judge as judge
    from tacit import many as many
    from tacit import show as pages
    from tacit import worlds as worlds
    from tacit.cli import terminal as terminal
    from tacit.data.demonstrations import Demonstrations
    from tacit.data.measurements import Measurements
    from tacit.engine import progress as progress
    from tacit.errors import (
        Infeasible,
        InvalidDemonstrations,
        InvalidModel,
        NotConverged,
        TacitError,
    )
    from tacit.estimators import methods as methods
    from tacit.estimators.baselines import ConstraintOnly, RewardOnly
    from tacit.estimators.cloning import Cloning
    from tacit.estimators.convex import Convex
    from tacit.estimators.explanation.estimator import Explanation
    from tacit.estimators.forbidden.estimator import Forbidden
    from tacit.estimators.intentions import Intentions
    from tacit.estimators.joint_recovery import JointRecovery
    from tacit.estimators.likelihood import Likelihood
    from tacit.estimators.logged import basis as bases
    from tacit.estimators.logged.recovery import LoggedRecovery
    from tacit.estimators.logged.world import Logged
    from tacit.estimators.mixture import Mixture
    from tacit.estimators.paper.alternating import Alternating
    from tacit.estimators.recover import Estimator, recover
    from tacit.estimators.task import Task
    from tacit.estimators.trips.world import Trips
    from tacit.forward import policies as policies
    from tacit.forward.column_generation import ColumnGeneration
    from tacit.forward.occupancy_lp import OccupancyLP
    from tacit.forward.simulation import simulate
    from tacit.forward.soft_dual import SoftDual
    from tacit.forward.solution import Certificate, Solution, Status
    from tacit.forward.solve import solve
    from tacit.inference.findings import Finding, Kind
    from tacit.judge.comparison import compare
    from tacit.model import features as features
    from tacit.model import sharded as scale
    from tacit.model.mdp import MDP
    from tacit.model.objective import Features, Objective
    from tacit.model.transitions import Successors
    from tacit.recovery import Recovery, RecoveryStatus
    from tacit.show import plot as plot
    from tacit.show.fits import side_by_side
    from tacit.stream.watch import Watch

__version__ = "0.1.0"


Names = tuple[dict[str, str], Callable[[str], object], Callable[[], list[str]]]


def names_on_demand(package: str) -> Names:
    """Public name -> the module that it is found in, then the package's `__getattr__`, `__dir__`.

    They are what the package imports for type checkers, under `if TYPE_CHECKING`, which never runs:
    the one list of what is public. With `as` the name is that of a module itself, a namespace.
    """
    module = sys.modules[package]
    source = module.__loader__.get_source(package)  # pyright: ignore
    checked = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    home, spaces = {}, set()
    for node in checked.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inside = f"{node.module}.{alias.name}" if alias.asname else str(node.module)
                home[alias.asname or alias.name] = inside
                spaces.update([alias.asname] if alias.asname else [])

    def find(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = import_module(home[name])
        value = found if name in spaces else getattr(found, name)
        setattr(module, name, value)
        return value

    def listed() -> list[str]:
        return sorted(getattr(module, "__all__", home))

    return home, find, listed


_HOME, __getattr__, __dir__ = names_on_demand(__name__)
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]
