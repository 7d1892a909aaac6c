"""A world: a model, the truth that a recovery should find again, and how to draw it.

`random` draws one that can be met by construction, of any size, for tests and benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from tacit.errors import InvalidModel
from tacit.model.mdp import MDP, Successors
from tacit.model.names import Layout
from tacit.model.objective import Features, Objective
from tacit.model.transitions import read_only


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
    reward_weights: np.ndarray
    cost_weights: Sequence[np.ndarray]
    layout: Layout = field(default_factory=Layout)
    recipe: str = ""

    def __post_init__(self) -> None:
        reward_weights = read_only(np.array(self.reward_weights, dtype=np.float64))
        cost_weights = tuple(read_only(np.array(w, dtype=np.float64)) for w in self.cost_weights)
        object.__setattr__(self, "reward_weights", reward_weights)
        object.__setattr__(self, "cost_weights", cost_weights)
        for kind, names, count in (
            ("state", self.layout.state_names, self.mdp.states),
            ("action", self.layout.action_names, self.mdp.actions),
        ):
            if names and len(names) != count:
                raise InvalidModel(f"{count} {kind}s need {count} names; got {len(names)}")

    @property
    def in_gauge(self) -> World:
        """The same world with every weight vector scaled to L1 norm 1, as recoveries report them.

        Each budget is divided by the norm of its weights, which changes no constraint; a multiplier
        is multiplied by that norm and divided by the norm of the reward weights. Weights that are
        all zero stay as they are.
        """
        scales = [float(np.abs(w).sum()) or 1.0 for w in (self.reward_weights, *self.cost_weights)]
        reward_weights = self.reward_weights / scales[0]
        cost_weights = tuple(w / c for w, c in zip(self.cost_weights, scales[1:], strict=True))
        budgets = self.truth.budgets / np.array(scales[1:])
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
    name: str, given: Mapping[str, object], defaults: Mapping[str, object] | None = None
) -> str:
    """The call `tacit.worlds.name(...)` with these arguments, those equal to a default left out."""
    spare = defaults or {}
    shown = [
        f"{key}={_literal(value)}"
        for key, value in given.items()
        if key not in spare or _literal(value) != _literal(spare[key])
    ]
    return f"tacit.worlds.{name}({', '.join(shown)})"


def integer(number: float, name: str, least: int, why: str = "") -> int:
    """The number, if it is an integer of at least `least`; raises `InvalidModel` if not."""
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not whole or number < least:
        raise InvalidModel(
            f"{name} must be an integer of at least {least}{why}; got {number!r:.60}"
        )
    return int(number)


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
    if not isinstance(tightness, int | float | np.number) or not 0.0 < tightness < 1.0:
        raise InvalidModel(f"tightness must be in (0, 1); got {tightness!r:.60}")
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


def random(
    seed: int = 0,
    *,
    states: int = 20,
    actions: int = 3,
    constraints: int = 1,
    discount: float = 0.9,
    successors: int | None = None,
    features: int = 3,
    by_action: bool = True,
    margin: float = 0.005,
    tightness: float | None = None,
) -> World:
    """A random `World` whose budgets can be met; it prints as the call that makes it again.

    Next states are uniform, their probabilities and the initial distribution flat on the simplex;
    features are uniform on [0, 1]; weights are flat on the simplex, so the truth is in the gauge of
    a recovery. Transitions, reward and each cost have a random stream of their own: more
    constraints, say, leave the transitions as they are.

    Args:
        seed: names the draw.
        states: S.
        actions: A.
        constraints: K, 0 or more.
        discount: of the model.
        successors: next states drawn for each action (repeats add up); None draws min(S, 5).
        features: D, of the reward and of each cost.
        by_action: whether features are [S, A, D] or [S, D].
        margin: slack left to a randomly drawn policy that takes every action: its expected
            discounted cost plus margin * (largest - least cost) / (1 - discount) is the budget. Any
            number of budgets then hold jointly, strictly. A single one binds in two of five draws.
        tightness: in (0, 1); instead places the budgets between those of the most careful and of
            the reward-optimal policy, where at least one binds.
    """
    asked = dict(locals())
    for name, least in _LEAST.items():
        integer(asked[name], name, least)
    width = min(states, 5) if successors is None else integer(successors, "successors", 1)
    if not isinstance(margin, int | float | np.number) or not 0 < margin < math.inf:
        raise InvalidModel(f"margin must be a positive number; got {margin!r:.60}")
    seeds = np.random.SeedSequence(int(seed)).spawn(4)
    moves, wants, plays = (np.random.default_rng(s) for s in seeds[:3])
    charges = [np.random.default_rng(s) for s in seeds[3].spawn(int(constraints))]

    next_states = moves.integers(0, states, size=(states, actions, width), dtype=np.int32)
    transitions = Successors(next_states, _simplex(moves, (states, actions, width)))
    mdp = MDP(transitions, _simplex(moves, (states,)), discount)

    shape = (states, actions, features) if by_action else (states, features)
    maps = Features(wants.random(shape), [draw.random(shape) for draw in charges])
    reward_weights = _simplex(wants, (features,))
    cost_weights = [_simplex(draw, (features,)) for draw in charges]
    truth = maps.objective(reward_weights, cost_weights, np.full(constraints, np.inf))
    if tightness is not None:
        budgets = budgets_between(mdp, truth, tightness)
    else:
        budgets = _budgets_with_margin(mdp, truth.tables(mdp)[1], plays, margin)
    asked["discount"] = mdp.discount
    return World(
        mdp=mdp,
        features=maps,
        truth=maps.objective(reward_weights, cost_weights, budgets),
        reward_weights=reward_weights,
        cost_weights=cost_weights,
        recipe=recipe("random", asked, _OPTIONS),
    )


def _budgets_with_margin(
    mdp: MDP, costs: np.ndarray, draw: np.random.Generator, margin: float
) -> np.ndarray:
    """[K] what a randomly drawn policy spends, and a little more."""
    if not len(costs):
        return np.zeros(0)
    from tacit.forward.policies import visitation

    policy = _simplex(draw, (mdp.states, mdp.actions))
    flat, visits = costs.reshape(len(costs), -1), visitation(mdp, policy).ravel()
    # One product a row: a matrix product rounds differently with the number of rows.
    spent = np.array([np.vdot(row, visits) for row in flat])
    spread = (flat.max(axis=1) - flat.min(axis=1)) / (1.0 - mdp.discount)
    return spent + margin * np.where(spread > 0, spread, 1.0)


def _simplex(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform on the simplex along the last axis; every entry is positive."""
    # Exponentials over their sum are a flat Dirichlet. An exponential of exactly 0 is possible.
    gaps = np.maximum(draw.standard_exponential(shape), 1e-12)
    return gaps / gaps.sum(axis=-1, keepdims=True)


# The smallest value of each number.
_LEAST = {"states": 1, "actions": 1, "constraints": 0, "features": 1, "seed": 0}
# Seed and size are always printed; the other arguments only where they are not the default.
_SIZE = ("states", "actions", "constraints", "discount")
_OPTIONS = {k: v for k, v in (random.__kwdefaults__ or {}).items() if k not in _SIZE}
