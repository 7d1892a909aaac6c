"""Recoveries and objectives as files and frames: rows for states and actions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.checks.reliability import trajectory_fits
from tacit.errors import InvalidModel
from tacit.files.arrays import write_arrays
from tacit.files.tables import write_columns
from tacit.inverse.recovery import Recovery
from tacit.model.layout import Layout
from tacit.model.objective import Objective

if TYPE_CHECKING:
    import polars

    from tacit.data.demonstrations import Demonstrations
    from tacit.inverse.noisy.mixture import MixtureRecovery


def objective_of(source: Objective | Recovery) -> Objective:
    """The objective itself, or the one that a recovery found."""
    if isinstance(source, Objective):
        return source
    if isinstance(getattr(source, "objective", None), Objective):
        return source.objective
    raise InvalidModel(f"an Objective or a Recovery must be given; got {type(source).__name__}")


def actions_of(objective: Objective) -> int:
    """A; 0 where the objective does not tell it."""
    if objective.reward.ndim == 2:
        return objective.reward.shape[1]
    return objective.costs.shape[2] if objective.costs.ndim == 3 else 0


def tables(source: Objective | Recovery, path: str | Path, layout: Layout | None = None) -> None:
    """Writes what is wanted and refused as a table, by the ending of the name.

    .csv and .parquet hold one row for each state and action: `state`, `state_name`, `action`,
    `action_name`, `reward`, `cost_0`, ...; of a recovery also `policy`, `visitation`, and where
    it forbids something, `available`. Without a number of actions there is one row a state. .npz
    holds `reward`, `costs`, `budgets`; of a recovery the same, its weights and its noise.

    Args:
        source: an objective, or a recovery of it.
        path: of the file.
        layout: names of states and actions; None calls them by their numbers.
    """
    path, objective = Path(path), objective_of(source)
    recovery = source if isinstance(source, Recovery) else None
    if path.suffix == ".npz":
        write_arrays(path, _arrays(objective, recovery))
    elif path.suffix in (".csv", ".parquet"):
        write_columns(path, _columns(objective, recovery, layout or Layout()))
    else:
        raise InvalidModel(f"tables are written as .csv, .parquet or .npz; got {path.name}")


def frame(source: Objective | Recovery, layout: Layout | None = None) -> polars.DataFrame:
    """The rows of `tables` as a Polars frame; `.to_pandas()` makes one of pandas of it."""
    import polars

    recovery = source if isinstance(source, Recovery) else None
    return polars.DataFrame(_columns(objective_of(source), recovery, layout or Layout()))


def memberships(mixture: MixtureRecovery, demonstrations: Demonstrations) -> dict[str, np.ndarray]:
    """Name -> [E], one row a trajectory: how likely it is of each type, and how well it fits.

    `episode` is its name, `number` its place in the demonstrations, `type` its likeliest type and
    `type_0`, `type_1`, ... the chances of all; `steps`, `log_likelihood`, `z_score` and so on are
    those of `checks.trajectory_fits`, judged by the likeliest type. The worst fit stands first.

    Args:
        mixture: the types.
        demonstrations: those that they were recovered from.
    """
    if len(mixture.membership) != demonstrations.episodes:
        raise InvalidModel(
            f"memberships are those of {len(mixture.membership)} trajectories; got "
            f"{demonstrations.episodes}"
        )
    parts: list[dict[str, np.ndarray]] = []
    for k, one in enumerate(mixture.types):
        own = np.flatnonzero(mixture.assigned == k)
        if len(own):
            fits = trajectory_fits(one, demonstrations.select(mixture.assigned == k))
            number, columns = own[fits.episode], dict(fits.columns)
            about = {"number": number, "type": np.full(len(own), k)}
            about |= {f"type_{j}": mixture.membership[number, j] for j in range(len(mixture.types))}
            # Named by the whole: of a part, numbers would begin at 0 again.
            columns["episode"] = number if demonstrations.names is None else columns["episode"]
            parts.append({"episode": columns["episode"], **about, **columns})
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(np.nan_to_num(table["z_score"]), kind="stable")
    return {name: column[order] for name, column in table.items()}


def shown(name: str) -> str:
    """The name as a cell that a spreadsheet shows: one that begins like a formula gets a quote."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def _columns(
    objective: Objective, recovery: Recovery | None, layout: Layout
) -> dict[str, np.ndarray]:
    states = objective.reward.shape[0]
    actions = recovery.solution.policy.shape[1] if recovery is not None else actions_of(objective)
    for kind, names, count in (
        ("states", layout.state_names, states),
        ("actions", layout.action_names, actions),
    ):
        if names and count and len(names) != count:
            raise InvalidModel(f"the layout must name all {count} {kind}; it names {len(names)}")
    width = actions or 1
    state = np.repeat(np.arange(states), width)
    names = np.array([shown(layout.state_name(s)) for s in range(states)])
    columns = {"state": state, "state_name": names[state]}
    if actions:
        action = np.tile(np.arange(actions), states)
        called = np.array([shown(layout.action_name(a)) for a in range(actions)])
        columns |= {"action": action, "action_name": called[action]}
    reward, costs = objective.tables_of(states, width)
    columns |= {"reward": reward.ravel()} | {f"cost_{k}": c.ravel() for k, c in enumerate(costs)}
    if recovery is not None:
        columns |= {name: table.ravel() for name, table in _learnt(recovery).items()}
    return columns


def _learnt(recovery: Recovery) -> dict[str, np.ndarray]:
    """What a recovery has for each state and action, [S, A] each."""
    solution, mask = recovery.solution, recovery.available
    tables = {"policy": solution.policy, "visitation": solution.visitation}
    return tables if mask is None else tables | {"available": mask}


def _arrays(objective: Objective, recovery: Recovery | None) -> dict[str, np.ndarray]:
    arrays: dict[str, npt.ArrayLike] = {"reward": objective.reward, "costs": objective.costs}
    arrays["budgets"] = objective.budgets
    if recovery is not None:
        arrays |= {
            "reward_weights": recovery.reward_weights,
            "reward_names": recovery.reward_names,
            "multipliers": recovery.multipliers,
            "temperature": recovery.temperature,
            **_learnt(recovery),
        }
        for k, weights in enumerate(recovery.cost_weights):
            arrays |= {f"cost_weights_{k}": weights, f"cost_names_{k}": recovery.cost_names[k]}
    return {name: np.asarray(array) for name, array in arrays.items()}
