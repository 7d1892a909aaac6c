"""Recoveries and objectives as frames: rows for states and actions, or for trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.checks.reliability import trajectory_fits
from tacit.errors import InvalidModel
from tacit.files.columns import frame_of
from tacit.model.layout import Layout
from tacit.model.objective import Objective
from tacit.recovery import Recovery

if TYPE_CHECKING:
    import polars

    from tacit.data.demonstrations import Demonstrations
    from tacit.estimators.intentions import IntentionsRecovery
    from tacit.estimators.mixture import MixtureRecovery

# Tables [S, A] of a solution.
LEARNT = ("policy", "visitation")


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


def frame(
    source: Objective | Recovery, layout: Layout | None = None, *, pandas: bool = False
) -> polars.DataFrame | Any:
    """What is wanted and refused as a Polars frame, one row for each state and action.

    Columns are `state`, `state_name`, `action`, `action_name`, `reward`, `cost_0`, ...; of a
    recovery also `policy`, `visitation`, and where it forbids something, `available`. Without a
    number of actions there is one row a state. `.write_csv(path)` and `.write_parquet(path)` make
    files of it.

    Args:
        source: an objective, or a recovery of it.
        layout: names of states and actions; None calls them by their numbers.
        pandas: give a frame of pandas.
    """
    objective, layout = objective_of(source), layout or Layout()
    recovery = source if isinstance(source, Recovery) else None
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
        columns |= {name: getattr(recovery.solution, name).ravel() for name in LEARNT}
        if recovery.available is not None:
            columns["available"] = recovery.available.ravel()
    return frame_of(columns, pandas=pandas)


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


def intention_shares(
    recovery: IntentionsRecovery, demonstrations: Demonstrations
) -> dict[str, np.ndarray]:
    """Name -> [E], one row a trajectory: what share of its steps follows each intention.

    `episode` is its name, `number` its place in the demonstrations, `steps` how many there are,
    `intention_0`, `intention_1`, ... the shares, and `switches` how often the likeliest intention
    changes. Those that change most stand first.

    Args:
        recovery: the intentions.
        demonstrations: those that they were recovered from.
    """
    if len(recovery.membership) != demonstrations.episodes:
        raise InvalidModel(
            f"shares are those of {len(recovery.membership)} trajectories; got "
            f"{demonstrations.episodes}"
        )
    number, names = np.arange(demonstrations.episodes), demonstrations.names
    changes = (np.diff(recovery.followed, prepend=recovery.followed[:1]) != 0).astype(np.int64)
    changes[demonstrations.offsets[:-1]] = 0
    switches = np.add.reduceat(changes, demonstrations.offsets[:-1])
    shares = {f"intention_{k}": own for k, own in enumerate(recovery.membership.T)}
    table = {"episode": number if names is None else names, "number": number, **shares}
    table |= {"steps": demonstrations.lengths, "switches": switches}
    order = np.argsort(-switches, kind="stable")
    return {name: np.asarray(column)[order] for name, column in table.items()}


def shown(name: str) -> str:
    """The name as a cell that a spreadsheet shows: one that begins like a formula gets a quote."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name
