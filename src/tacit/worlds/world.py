"""A world: a model, the truth that a recovery should find again, and how to draw it.

`gymnasium` makes one of a toy-text environment: of any table `P[state][action]` of outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.sources.gymnasium import Outcomes, OutcomeTable, action_masks, make_environment
from tacit.errors import InvalidModel
from tacit.inference.gauge import normalised
from tacit.model.arguments import number, read_only
from tacit.model.layout import Layout
from tacit.model.mdp import MDP, Successors
from tacit.model.objective import Features, Objective


@dataclass(frozen=True, eq=False)
class World:
    """A model, the features to explain behaviour with, and the truth made of them.

    `truth` is `features.objective(reward_weights, cost_weights, truth.budgets)`.

    Attributes:
        mdp: what everybody knows.
        features: what reward and costs are made of.
        truth: the objective of the demonstrator.
        reward_weights: [D] true weights of the reward features.
        cost_weights: one [D_k] per constraint, true weights of its features.
        layout: how to name and draw states and actions.
        recipe: the call that makes this world again; it is what the world prints as.
    """

    mdp: MDP
    features: Features
    truth: Objective
    _: KW_ONLY
    reward_weights: np.ndarray
    cost_weights: Sequence[np.ndarray]
    layout: Layout = field(default_factory=Layout)
    recipe: str = ""

    def __post_init__(self) -> None:
        reward_weights = read_only(np.array(self.reward_weights, dtype=np.float64))
        cost_weights = tuple(read_only(np.array(w, dtype=np.float64)) for w in self.cost_weights)
        object.__setattr__(self, "reward_weights", reward_weights)
        object.__setattr__(self, "cost_weights", cost_weights)
        self.layout.check(self.mdp.states, self.mdp.actions)

    @classmethod
    def of(
        cls,
        mdp: MDP,
        features: Features,
        reward_weights: npt.ArrayLike,
        cost_weights: Sequence[npt.ArrayLike] = (),
        budgets: npt.ArrayLike = (),
        *,
        layout: Layout | None = None,
        recipe: str = "",
    ) -> World:
        """The world whose truth has these weights and budgets."""
        return cls(
            mdp,
            features,
            features.objective(reward_weights, cost_weights, budgets),
            reward_weights=np.asarray(reward_weights),
            cost_weights=[np.asarray(weights) for weights in cost_weights],
            layout=layout or Layout(),
            recipe=recipe,
        )

    @property
    def in_gauge(self) -> World:
        """The same world with every weight vector scaled to L1 norm 1, as recoveries report them.

        Each budget is divided by the norm of its weights, which changes no constraint; a multiplier
        is multiplied by that norm and divided by the norm of the reward weights. Weights that are
        all zero stay as they are.
        """
        reward_weights, _ = normalised(self.reward_weights)
        pairs = [normalised(weights) for weights in self.cost_weights]
        cost_weights = tuple(weights for weights, _ in pairs)
        budgets = self.truth.budgets / np.array([norm for _, norm in pairs])
        return replace(
            self,
            truth=self.features.objective(reward_weights, cost_weights, budgets),
            reward_weights=reward_weights,
            cost_weights=cost_weights,
            recipe=f"{self}.in_gauge",
        )

    def __repr__(self) -> str:
        return self.recipe or f"World({self.mdp}, {self.truth})"


def recipe(
    name: str,
    given: Mapping[str, object],
    defaults: Mapping[str, object] | None = None,
    *,
    module: str = "tacit.worlds",
) -> str:
    """The call `module.name(...)` with these arguments, those equal to a default left out."""
    spare = defaults or {}
    shown = [
        f"{key}={_literal(value)}"
        for key, value in given.items()
        if key not in spare or _literal(value) != _literal(spare[key])
    ]
    return f"{module}.{name}({', '.join(shown)})"


def neighbours(size: int, moves: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """[S, M] the cell of a square grid that each (row, column) move leads to, and [S, M] bool.

    State = row * size + column. What would leave the grid stays, and is False in the second.
    """
    cells = np.arange(size * size)
    target = np.stack(np.divmod(cells, size), axis=1)[:, None] + np.array(moves)
    inside = np.asarray(((target >= 0) & (target < size)).all(axis=2))
    return np.where(inside, target @ [size, 1], cells[:, None]), inside


def _literal(value: object) -> str:
    """What to type for this value; arrays become lists, at full precision."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return repr(value.value if isinstance(value, Enum) else value)


# Costs closer than this, relative to their size, cannot be told apart after a solve to 1e-9.
SAME_COST = 1e-7


def budgets_between(mdp: MDP, truth: Objective, tightness: float) -> np.ndarray:
    """[K] budgets between the most careful policy's cost (tightness 0) and the reckless one's (1).

    budgets = careful + tightness * (reckless - careful), where the careful policy minimises the sum
    of the costs and the reckless one maximises the reward alone. A mixture of the two spends just
    the budgets, so they can be met jointly; their sum is below what the reckless policy spends, so
    at least one of them binds.

    Args:
        mdp: the model.
        truth: reward and costs; its budgets are not read.
        tightness: in (0, 1).
    """
    tightness = number(tightness, "tightness", "in (0, 1)", lambda t: 0.0 < t < 1.0)
    reward, costs = truth.tables(mdp)
    if not len(costs):
        raise InvalidModel("tightness places budgets, and this world has no constraint")

    from tacit.forward.solve import solve

    def spent(wanted: np.ndarray) -> np.ndarray:
        visits = solve(mdp, Objective(wanted)).visitation
        return costs.reshape(len(costs), -1) @ visits.ravel()

    careful, reckless = spent(-costs.sum(axis=0)), spent(reward)
    scale = max(1e-300, float(np.abs(costs).max()) * mdp.horizon)
    if reckless.sum() - careful.sum() <= SAME_COST * scale:
        raise InvalidModel(
            "no budget can bind: the reward-optimal policy already spends the least cost, "
            f"{careful.sum():.6g}; choose another seed"
        )
    return careful + tightness * (reckless - careful)


# Action names and directions by the environment's class; its table does not tell them.
_ACTIONS = {
    "FrozenLakeEnv": (("left", "down", "right", "up"), ((0, -1), (1, 0), (0, 1), (-1, 0))),
    "CliffWalkingEnv": (("up", "right", "down", "left"), ((-1, 0), (0, 1), (1, 0), (0, -1))),
    "TaxiEnv": (("down", "up", "right", "left", "pick up", "drop off"), ()),
}


def gymnasium(
    environment: str | OutcomeTable | object,
    *,
    discount: float = 0.99,
    initial: npt.ArrayLike | None = None,
    costs: npt.ArrayLike | None = None,
    budgets: npt.ArrayLike | None = None,
    masks: bool = True,
) -> World:
    """The `World` of a toy-text environment: its S states, and further ones for some ends.

    A transition marked `done` ends the episode where it leads. A state that is entered with `done`
    alone, a hole of the frozen lake, is an end: it has no action, and what it costs it costs once,
    on arrival. (`done` sits on transitions, not on states.) One that is also entered without, as
    some of Taxi's, or started in, is split: its end is a state of its own, S or more, called "the
    end of" the other; `tacit.data.sources.terminal_states` numbers them alike. The reward [S', A]
    is the expected one of each action, 0 at ends.

    The features of the reward are one column, the environment's reward, of weight 1. A cost by
    state has one feature a state, so its weights are the costs themselves; a cost by state and
    action is one column of weight 1.

    Args:
        environment: a name such as "FrozenLake-v1", an environment, or the table `P` itself:
            `P[state][action]` is a list of (probability, next state, reward, done).
        discount: of the model; 1 where every state can reach an end.
        initial: [S] distribution of the first state; None takes the environment's
            `initial_state_distrib`, or state 0 where there is none.
        costs: [K, S] or [K, S, A] what each constraint charges; None for no constraint.
        budgets: [K] largest expected discounted cost of each.
        masks: whether actions that the environment's own `action_mask(state)` rules out, as in
            `info["action_mask"]`, are not available. Taxi has masks: they leave out what would
            change nothing.
    """
    table, source, name = _table(environment)
    outcomes = Outcomes.of(table)
    states, actions = outcomes.shape
    start = _initial(initial, source, states)
    ends = outcomes.terminals(start)
    twins = np.flatnonzero(ends >= states)
    transitions, reward = _moves(outcomes, ends)
    available = np.ones(reward.shape, bool)
    if masks and callable(getattr(source, "action_mask", None)):
        available[:states] = action_masks(source)
    available[ends[ends >= 0]] = False
    reward[~available.any(axis=1)] = 0.0
    mdp = MDP(transitions, np.append(start, np.zeros(len(twins))), discount, available=available)
    cost_features, cost_weights = _cost_features(costs, states, actions, twins)
    features = Features(reward[:, :, None], cost_features, reward_names=["reward"])
    asked = {"environment": name, "discount": mdp.discount, "masks": masks}
    # Only an environment known by its name can be written down as a call.
    plain = isinstance(environment, str) and initial is None and costs is None
    return World.of(
        mdp,
        features,
        np.ones(1),
        cost_weights,
        () if budgets is None else budgets,
        layout=_layout(source, states, actions, twins),
        recipe=recipe("gymnasium", asked, {"masks": True}) if plain else "",
    )


def _table(environment: Any) -> tuple[OutcomeTable, object, str]:
    """The table P, the environment it is from (None if it is given itself), and its name."""
    name = environment if isinstance(environment, str) else ""
    environment = make_environment(environment) if name else environment
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


def _moves(outcomes: Outcomes, ends: np.ndarray) -> tuple[Successors, np.ndarray]:
    """Transitions of all S' states, `done` ones to their ends, and expected reward [S', A]."""
    states, actions = outcomes.shape
    state, action, following = outcomes.moves.T
    row = state * actions + action
    count = np.bincount(row, minlength=states * actions)
    slot = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    every = max(states, int(ends.max()) + 1)
    target = np.zeros((every * actions, max(1, int(count.max()))), dtype=np.int64)
    probability = np.zeros(target.shape)
    over = outcomes.done & (ends[following] >= 0)  # the rows of ends are not looked at
    target[row, slot] = np.where(over, ends[following], following)
    probability[row, slot] = outcomes.probabilities
    paid = outcomes.probabilities * outcomes.rewards
    expected = np.bincount(row, weights=paid, minlength=len(target))
    shape = (every, actions, -1)
    return (
        Successors(target.reshape(shape), probability.reshape(shape)),
        expected.reshape(shape[:2]),
    )


def _initial(given: npt.ArrayLike | None, source: object, states: int) -> np.ndarray:
    """[S] the distribution of the first state."""
    if given is None:
        given = getattr(source, "initial_state_distrib", None)
    if given is None:
        given = np.arange(states) == 0
    start = np.asarray(given, dtype=np.float64)
    if start.shape != (states,):
        raise InvalidModel(f"initial must have shape [S] = ({states},); got {start.shape}")
    return start


def _cost_features(
    costs: npt.ArrayLike | None, states: int, actions: int, twins: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """One feature map and one weight vector per constraint; an end costs what its state does."""
    if costs is None:
        return [], []
    tables = np.asarray(costs, dtype=np.float64)
    if tables.ndim not in (2, 3) or tables.shape[1:] != (states, actions)[: tables.ndim - 1]:
        raise InvalidModel(
            f"costs must have shape [K, S] or [K, S, A] with S, A = {(states, actions)}; "
            f"got {tables.shape}"
        )
    if tables.ndim == 2:
        one_hot = np.eye(states)[[*range(states), *twins]]
        return [one_hot] * len(tables), list(tables)
    padded = np.pad(tables, ((0, 0), (0, len(twins)), (0, 0)))
    return [table[:, :, None] for table in padded], [np.ones(1)] * len(tables)


def _layout(source: Any, states: int, actions: int, twins: np.ndarray) -> Layout:
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
    state_names += tuple(f"the end of {state_names[s]}" for s in twins)
    return Layout(
        rows,
        columns,
        directions=directions if rows else (),
        state_names=state_names,
        action_names=names,
    )
