"""Worlds from Gymnasium's toy-text environments: any table `P[state][action]` of outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.sources.gymnasium import made
from tacit.errors import InvalidModel
from tacit.model.mdp import MDP, Successors
from tacit.model.names import Layout
from tacit.model.objective import Features
from tacit.worlds.world import World, recipe

# P[state][action]: (probability, next state, reward, done) of every outcome.
Table = Mapping[int, Any] | Sequence[Any]

# Action names and directions by the environment's class; its table does not tell them.
_ACTIONS = {
    "FrozenLakeEnv": (("left", "down", "right", "up"), ((0, -1), (1, 0), (0, 1), (-1, 0))),
    "CliffWalkingEnv": (("up", "right", "down", "left"), ((-1, 0), (0, 1), (1, 0), (0, -1))),
    "TaxiEnv": (("down", "up", "right", "left", "pick up", "drop off"), ()),
}


def gymnasium(
    environment: str | Table | object,
    *,
    discount: float = 0.99,
    initial: npt.ArrayLike | None = None,
    costs: npt.ArrayLike | None = None,
    budgets: npt.ArrayLike | None = None,
) -> World:
    """The `World` of a toy-text environment: its S states and a sink, number S.

    A transition marked `done` keeps its reward and leads to the sink, which nothing leaves and
    where reward and costs are 0. (`done` sits on transitions, not on states: Taxi enters some
    states both with and without it.) So a state that is only entered with `done`, a hole of the
    frozen lake, is never occupied: what it should cost is charged to the actions that lead there.
    The reward [S + 1, A] is the expected one of each action.

    The features of the reward are one column, the environment's reward, of weight 1. A cost by
    state has one feature a state, so its weights are the costs themselves; a cost by state and
    action is one column of weight 1.

    Args:
        environment: a name such as "FrozenLake-v1", an environment, or the table `P` itself:
            `P[state][action]` is a list of (probability, next state, reward, done).
        discount: of the model.
        initial: [S] distribution of the first state; None takes the environment's
            `initial_state_distrib`, or state 0 where there is none.
        costs: [K, S] or [K, S, A] what each constraint charges; None for no constraint.
        budgets: [K] largest expected discounted cost of each.
    """
    table, source, name = _table(environment)
    transitions, reward = _outcomes(table)
    states, actions = len(table), len(table[0])
    mdp = MDP(transitions, _initial(initial, source, states), discount)
    cost_features, cost_weights = _cost_features(costs, states, actions)
    features = Features(reward[:, :, None], cost_features, reward_names=["reward"])
    truth = features.objective([1.0], cost_weights, [] if budgets is None else budgets)
    asked = {"environment": name, "discount": mdp.discount}
    # Only an environment known by its name can be written down as a call.
    plain = isinstance(environment, str) and initial is None and costs is None
    shown = recipe("gymnasium", asked) if plain else ""
    return World(
        mdp=mdp,
        features=features,
        truth=truth,
        reward_weights=np.ones(1),
        cost_weights=cost_weights,
        layout=_layout(source, states, actions),
        recipe=shown,
    )


def _table(environment: Any) -> tuple[Table, object, str]:
    """The table P, the environment it is from (None if it is given itself), and its name."""
    name = environment if isinstance(environment, str) else ""
    environment = made(environment) if name else environment
    source = getattr(environment, "unwrapped", environment)
    table = getattr(source, "P", None)
    if table is None and isinstance(environment, dict | list | tuple):
        table, source = environment, None
    if table is None:
        raise InvalidModel(
            "a toy-text environment must have a table P[state][action]; "
            f"got {name or type(source).__name__}, which has none"
        )
    if isinstance(table, dict):
        missing = next((s for s in range(len(table)) if s not in table), None)
        if missing is not None:
            raise InvalidModel(
                f"P must hold the states 0 to {len(table) - 1}; {missing} is missing"
            )
    if not len(table) or not len(table[0]):
        raise InvalidModel("P must hold at least one state and one action; got none")
    return table, source, name


def _outcomes(table: Table) -> tuple[Successors, np.ndarray]:
    """Transitions of S + 1 states, `done` ones sent to the last, and expected reward [S + 1, A]."""
    states, actions = len(table), len(table[0])
    rows = []
    for s in range(states):
        if len(table[s]) != actions:
            raise InvalidModel(
                f"every state of P must have the same {actions} actions; "
                f"state {s} has {len(table[s])}"
            )
        for a in range(actions):
            for outcome in _listed(table, s, a):
                rows.append((s, a, *outcome))
    columns = np.array(rows, dtype=np.float64)
    _check_next_states(columns, states)
    state, action, following = (columns[:, i].astype(np.int64) for i in (0, 1, 3))
    done = columns[:, 5] != 0
    row = state * actions + action
    count = np.bincount(row, minlength=states * actions)
    slot = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    target = np.full(((states + 1) * actions, max(1, int(count.max()))), states, dtype=np.int64)
    probability = np.zeros(target.shape)
    probability[states * actions :, 0] = 1.0  # the sink stays
    target[row, slot] = np.where(done, states, following)
    probability[row, slot] = columns[:, 2]
    expected = np.bincount(row, weights=columns[:, 2] * columns[:, 4], minlength=len(target))
    shape = (states + 1, actions, -1)
    return (
        Successors(target.reshape(shape), probability.reshape(shape)),
        expected.reshape(shape[:2]),
    )


def _listed(table: Table, state: int, action: int) -> list[tuple[float, float, float, float]]:
    """The outcomes (probability, next state, reward, done) of one action, as numbers."""
    place = f"P[{state}][{action}]"
    try:
        outcomes = [(float(p), float(n), float(r), float(d)) for p, n, r, d in table[state][action]]
    except (TypeError, ValueError, KeyError, IndexError):
        raise InvalidModel(
            f"{place} must be a list of (probability, next state, reward, done)"
        ) from None
    if not outcomes:
        raise InvalidModel(f"{place} must list at least one outcome; got none")
    return outcomes


def _check_next_states(columns: np.ndarray, states: int) -> None:
    inside = np.isin(columns[:, 3], np.arange(states))  # false for fractions and NaN too
    if not inside.all():
        s, a, _, following = columns[int(np.argmin(inside)), :4]
        raise InvalidModel(
            f"next states must be in 0..{states - 1}; P[{s:.0f}][{a:.0f}] has {following:g}"
        )


def _initial(given: npt.ArrayLike | None, source: object, states: int) -> np.ndarray:
    """[S + 1] the distribution of the first state; never the sink."""
    if given is None:
        given = getattr(source, "initial_state_distrib", None)
    if given is None:
        given = np.arange(states) == 0
    start = np.asarray(given, dtype=np.float64)
    if start.shape != (states,):
        raise InvalidModel(f"initial must have shape [S] = ({states},); got {start.shape}")
    return np.append(start, 0.0)


def _cost_features(
    costs: npt.ArrayLike | None, states: int, actions: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """One feature map and one weight vector per constraint, 0 in the sink."""
    if costs is None:
        return [], []
    tables = np.asarray(costs, dtype=np.float64)
    if tables.ndim not in (2, 3) or tables.shape[1:] != (states, actions)[: tables.ndim - 1]:
        raise InvalidModel(
            f"costs must have shape [K, S] or [K, S, A] with S, A = {(states, actions)}; "
            f"got {tables.shape}"
        )
    if tables.ndim == 2:
        one_hot = np.eye(states + 1, states)
        return [one_hot] * len(tables), list(tables)
    padded = np.pad(tables, ((0, 0), (0, 1), (0, 0)))
    return [table[:, :, None] for table in padded], [np.ones(1)] * len(tables)


def _layout(source: Any, states: int, actions: int) -> Layout:
    """Rows and columns where the environment tells them, and the names its class is known by."""
    shape = getattr(source, "shape", None)
    if shape is None and hasattr(source, "nrow"):
        shape = (source.nrow, source.ncol)
    rows, columns = shape if shape is not None and len(shape) == 2 else (0, 0)
    if rows * columns != states:
        rows, columns = 0, 0
    names, directions = _ACTIONS.get(type(source).__name__, ((), ()))
    if len(names) != actions:
        names, directions = (), ()
    state_names = tuple(f"state {s}" for s in range(states))
    if rows:
        state_names = tuple(f"({s // columns}, {s % columns})" for s in range(states))
    return Layout(rows, columns, directions if rows else (), (*state_names, "the end"), names)
