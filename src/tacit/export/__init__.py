"""Out to the tools people use: Gymnasium environments, wrappers, and plain tables.

Tables are of an objective or a recovery: CSV, Parquet, or npz arrays.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.export.gymnasium import environment, objective_of, wrapper
from tacit.files.arrays import write_arrays
from tacit.files.tables import write_columns
from tacit.inverse.recovery import Recovery
from tacit.model.names import Layout
from tacit.model.objective import Objective

__all__ = ["environment", "tables", "wrapper"]


def tables(given: Objective | Recovery, path: str | Path, layout: Layout | None = None) -> None:
    """Writes what is wanted and refused as a table, by the ending of the name.

    .csv and .parquet hold one row for each state and action: `state`, `state_name`, `action`,
    `action_name`, `reward`, `cost_0` and so on; of a recovery also `policy` and `visitation`. Where
    nothing tells the number of actions there is one row a state. .npz holds the arrays `reward`,
    `costs`, `budgets`; of a recovery also `multipliers`, `temperature`, `policy`, `visitation` and
    the weights.

    Args:
        given: an objective, or a recovery of it.
        path: of the file.
        layout: names of states and actions; None calls them by their numbers.
    """
    path, objective = Path(path), objective_of(given)
    recovery = given if isinstance(given, Recovery) else None
    if path.suffix == ".npz":
        write_arrays(path, _arrays(objective, recovery))
    elif path.suffix in (".csv", ".parquet"):
        write_columns(path, _columns(objective, recovery, layout or Layout()))
    else:
        raise InvalidModel(f"tables are written as .csv, .parquet or .npz; got {path.name}")


def shown(name: str) -> str:
    """The name as a cell that a spreadsheet shows: one that begins like a formula gets a quote."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def _columns(
    objective: Objective, recovery: Recovery | None, layout: Layout
) -> dict[str, np.ndarray]:
    states = objective.reward.shape[0]
    actions = _actions(objective, recovery)
    for kind, names, count in (
        ("states", layout.state_names, states),
        ("actions", layout.action_names, actions),
    ):
        if names and count and len(names) != count:
            raise InvalidModel(f"the layout must name all {count} {kind}; it names {len(names)}")
    width = actions or 1
    state = np.repeat(np.arange(states), width)
    names = np.array([shown(layout.state_name(s)) for s in range(states)])
    found = {"state": state, "state_name": names[state]}
    if actions:
        action = np.tile(np.arange(actions), states)
        called = np.array([shown(layout.action_name(a)) for a in range(actions)])
        found |= {"action": action, "action_name": called[action]}
    found["reward"] = _spread(objective.reward, width)
    for k, table in enumerate(objective.costs):
        found[f"cost_{k}"] = _spread(table, width)
    if recovery is not None:
        found["policy"] = recovery.solution.policy.ravel()
        found["visitation"] = recovery.solution.visitation.ravel()
    return found


def _actions(objective: Objective, recovery: Recovery | None) -> int:
    """A; 0 where nothing tells it."""
    if recovery is not None:
        return recovery.solution.policy.shape[1]
    if objective.reward.ndim == 2:
        return objective.reward.shape[1]
    return objective.costs.shape[2] if objective.costs.ndim == 3 else 0


def _spread(table: np.ndarray, actions: int) -> np.ndarray:
    """[S * A] the table [S] or [S, A], one entry a row."""
    return np.repeat(table, actions) if table.ndim == 1 else table.ravel()


def _arrays(objective: Objective, recovery: Recovery | None) -> dict[str, np.ndarray]:
    found: dict[str, npt.ArrayLike] = {
        "reward": objective.reward,
        "costs": objective.costs,
        "budgets": objective.budgets,
    }
    if recovery is not None:
        found |= {
            "reward_weights": recovery.reward_weights,
            "reward_names": recovery.reward_names,
            "multipliers": recovery.multipliers,
            "temperature": recovery.temperature,
            "policy": recovery.solution.policy,
            "visitation": recovery.solution.visitation,
        }
        for k, weights in enumerate(recovery.cost_weights):
            found |= {f"cost_weights_{k}": weights, f"cost_names_{k}": recovery.cost_names[k]}
    return {name: np.asarray(array) for name, array in found.items()}
