"""Recover what a demonstrator wants and refuses, in a Markov decision process that is known.

    Objective --solve--> Solution --simulate--> Demonstrations --recover--> Objective

The public names are found on first use, so that importing tacit costs nothing: no engine
(JAX, HiGHS, Polars, Matplotlib) is loaded before something asks for it.
"""

import ast
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit import checks as checks
    from tacit import data as data
    from tacit import export as export
    from tacit import folders as runs
    from tacit import judge as judge
    from tacit import many as many
    from tacit import worlds as worlds
    from tacit.data.demonstrations import Demonstrations
    from tacit.engine import progress as progress
    from tacit.errors import (
        Infeasible,
        InvalidDemonstrations,
        InvalidModel,
        NotConverged,
        TacitError,
    )
    from tacit.forward.column_generation import ColumnGeneration
    from tacit.forward.occupancy_lp import OccupancyLP
    from tacit.forward.simulation import simulate
    from tacit.forward.soft_dual import SoftDual
    from tacit.forward.solution import Certificate, Solution, Status
    from tacit.forward.solve import solve
    from tacit.inverse import families as families
    from tacit.inverse.findings import Finding, Kind
    from tacit.inverse.forbidden import Forbidden
    from tacit.inverse.joint.recovery import JointRecovery
    from tacit.inverse.joint.tasks import Task
    from tacit.inverse.joint.trips import Trips
    from tacit.inverse.noisy.convex import Convex
    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.inverse.noisy.mixture import Mixture
    from tacit.inverse.optimal.explanation import Explanation
    from tacit.inverse.paper.alternating import Alternating
    from tacit.inverse.recover import recover
    from tacit.inverse.recovery import Recovery, RecoveryStatus
    from tacit.judge.comparison import compare
    from tacit.model import features as features
    from tacit.model import sharded as scale
    from tacit.model.mdp import MDP
    from tacit.model.objective import Features, Objective
    from tacit.model.transitions import Successors
    from tacit.show import plot as plot

__version__ = "0.1.0"


def _listed() -> list[tuple[str, str, str | None]]:
    """(module, name, name of a namespace or None) of the imports above, which are never executed.

    Type checkers follow them, and they are the one list of what is public.
    """
    source = __loader__.get_source(__name__)  # pyright: ignore
    checked = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    return [
        (node.module, alias.name, alias.asname)
        for node in checked.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    ]


# Public name -> the module that defines it; a namespace is a module itself.
_NAMESPACES = {space: f"{module}.{name}" for module, name, space in _listed() if space}
_HOME = {name: module for module, name, space in _listed() if not space} | _NAMESPACES

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    """The public object of that name, imported now and kept."""
    if name not in _HOME:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    module = import_module(_HOME[name])
    value = module if name in _NAMESPACES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
