"""Recover what a demonstrator wants and refuses, in a Markov decision process that is known.

    Objective --solve--> Solution --simulate--> Demonstrations --recover--> Objective

The public names are found on first use, so that importing tacit costs nothing: no engine
(JAX, HiGHS, Polars, Matplotlib) is loaded before something asks for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit import export, features, judge, progress, runs, sources, worlds
    from tacit.demonstrations import Demonstrations
    from tacit.dynamics_prior import Prior
    from tacit.errors import (
        Infeasible,
        InvalidDemonstrations,
        InvalidModel,
        NotConverged,
        TacitError,
    )
    from tacit.forward.column_generation import ColumnGeneration
    from tacit.forward.occupancy_lp import OccupancyLP
    from tacit.forward.price_curve import price_curve
    from tacit.forward.sharded_model import ShardedMDP
    from tacit.forward.sharded_solve import solve_sharded
    from tacit.forward.sharding import sharded
    from tacit.forward.soft_dual import SoftDual
    from tacit.forward.solution import Certificate, Solution, Status
    from tacit.forward.solve import solve
    from tacit.inverse.alternating import Alternating
    from tacit.inverse.baselines import ConstraintOnly, RewardOnly
    from tacit.inverse.batches.batch import Batch
    from tacit.inverse.batches.recover_many import recover_many
    from tacit.inverse.convex import Convex
    from tacit.inverse.discounts import discount_profile
    from tacit.inverse.dynamics_uncertainty import dynamics_uncertainty
    from tacit.inverse.explanation import Explanation
    from tacit.inverse.fits import trajectory_fits
    from tacit.inverse.groups import equal_weights_test
    from tacit.inverse.holdout import holdout
    from tacit.inverse.likelihood import Likelihood
    from tacit.inverse.recover import recover
    from tacit.inverse.recover_each import recover_each
    from tacit.inverse.recovery import Recovery, RecoveryStatus
    from tacit.inverse.sharded_recovery import recover_sharded
    from tacit.inverse.tasks import JointRecovery, Task
    from tacit.judge.comparison import Comparison, compare
    from tacit.mdp import MDP, Successors
    from tacit.objective import Features, Objective
    from tacit.problems.problem import Problem
    from tacit.simulation import simulate
    from tacit.tallies.partitions import PartitionedDemonstrations
    from tacit.tallies.parts import write_partitions
    from tacit.tallies.tally import Tally

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "Alternating",
    "Batch",
    "Certificate",
    "ColumnGeneration",
    "Comparison",
    "ConstraintOnly",
    "Convex",
    "Demonstrations",
    "Explanation",
    "Features",
    "Infeasible",
    "InvalidDemonstrations",
    "InvalidModel",
    "JointRecovery",
    "Likelihood",
    "NotConverged",
    "Objective",
    "OccupancyLP",
    "PartitionedDemonstrations",
    "Prior",
    "Problem",
    "Recovery",
    "RecoveryStatus",
    "RewardOnly",
    "ShardedMDP",
    "SoftDual",
    "Solution",
    "Status",
    "Successors",
    "TacitError",
    "Tally",
    "Task",
    "compare",
    "discount_profile",
    "dynamics_uncertainty",
    "equal_weights_test",
    "export",
    "features",
    "holdout",
    "judge",
    "price_curve",
    "progress",
    "recover",
    "recover_each",
    "recover_many",
    "recover_sharded",
    "runs",
    "sharded",
    "simulate",
    "solve",
    "solve_sharded",
    "sources",
    "trajectory_fits",
    "worlds",
    "write_partitions",
]

# Name -> the module that defines it. A public name must not be the name of a module of this
# package other than the one it stands for: importing that module would silently replace it.
_HOME = {
    "MDP": "tacit.mdp",
    "Batch": "tacit.inverse.batches.batch",
    "Alternating": "tacit.inverse.alternating",
    "Certificate": "tacit.forward.solution",
    "ColumnGeneration": "tacit.forward.column_generation",
    "Comparison": "tacit.judge.comparison",
    "ConstraintOnly": "tacit.inverse.baselines",
    "Convex": "tacit.inverse.convex",
    "Demonstrations": "tacit.demonstrations",
    "Explanation": "tacit.inverse.explanation",
    "Features": "tacit.objective",
    "Infeasible": "tacit.errors",
    "InvalidDemonstrations": "tacit.errors",
    "InvalidModel": "tacit.errors",
    "JointRecovery": "tacit.inverse.tasks",
    "Likelihood": "tacit.inverse.likelihood",
    "NotConverged": "tacit.errors",
    "Objective": "tacit.objective",
    "OccupancyLP": "tacit.forward.occupancy_lp",
    "PartitionedDemonstrations": "tacit.tallies.partitions",
    "Prior": "tacit.dynamics_prior",
    "Problem": "tacit.problems.problem",
    "Recovery": "tacit.inverse.recovery",
    "RecoveryStatus": "tacit.inverse.recovery",
    "RewardOnly": "tacit.inverse.baselines",
    "ShardedMDP": "tacit.forward.sharded_model",
    "SoftDual": "tacit.forward.soft_dual",
    "Solution": "tacit.forward.solution",
    "Status": "tacit.forward.solution",
    "Successors": "tacit.mdp",
    "TacitError": "tacit.errors",
    "Tally": "tacit.tallies.tally",
    "Task": "tacit.inverse.tasks",
    "compare": "tacit.judge.comparison",
    "discount_profile": "tacit.inverse.discounts",
    "dynamics_uncertainty": "tacit.inverse.dynamics_uncertainty",
    "equal_weights_test": "tacit.inverse.groups",
    "export": "tacit.export",
    "features": "tacit.features",
    "holdout": "tacit.inverse.holdout",
    "judge": "tacit.judge",
    "price_curve": "tacit.forward.price_curve",
    "progress": "tacit.progress",
    "recover": "tacit.inverse.recover",
    "recover_each": "tacit.inverse.recover_each",
    "recover_many": "tacit.inverse.batches.recover_many",
    "recover_sharded": "tacit.inverse.sharded_recovery",
    "runs": "tacit.runs",
    "sharded": "tacit.forward.sharding",
    "simulate": "tacit.simulation",
    "solve": "tacit.forward.solve",
    "solve_sharded": "tacit.forward.sharded_solve",
    "sources": "tacit.sources",
    "trajectory_fits": "tacit.inverse.fits",
    "worlds": "tacit.worlds",
    "write_partitions": "tacit.tallies.parts",
}


def __getattr__(name: str) -> object:
    """The public object of that name, imported now and kept."""
    if name not in _HOME:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    module = import_module(_HOME[name])
    # A subpackage (worlds) is its own public object.
    value = module if _HOME[name] == f"tacit.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
