"""The cone of all explanations of an optimal expert, with the values of most states eliminated.

An explanation is an amount >= 0 of each column and values V with V = backup on observed (state,
action) pairs and V >= backup on all others. Three kinds of states:

- visited: one observed action fixes the values as linear forms of everything else;
- frontier: never visited, though an observed action can lead there. What the expert does there is
  unknown, so the value is a variable of its own, at least that of every action and at most what the
  columns can be worth there, each at its best (a bound that holds for every expert);
- rest: the others. Their values only make explanations harder, so they are the least possible:
  those of an optimal policy there. Each policy gives linear forms that bound them from below.

So the variables are the amounts and the frontier values, however many states there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.forward.policy_iteration import Column, best_column
from tacit.mdp import MDP
from tacit.transitions import Successors


@dataclass(frozen=True, eq=False)
class Cone:
    """All explanations, as linear forms of n = C + F variables: amounts, then frontier values.

    Attributes:
        mdp: the model.
        tables: [C, S, A] the columns.
        observed: [S, A] bool, the pairs that were demonstrated.
        visited: [S] bool.
        frontier: [F] states never visited though an observed pair can lead there.
        rest: [R] all other states never visited.
        forms: [S, n] values of visited and frontier states as linear forms; 0 for the rest.
        equalities: [E, n] rows that are 0 on every explanation: second actions seen in a state.
        ceilings: [F, n] rows that are <= 0: values of the frontier against their bound.
        stopped: the model in which visited and frontier states are never left; None if R = 0.
        moves: [S * A, S] sparse transitions.
    """

    mdp: MDP
    tables: np.ndarray
    observed: np.ndarray
    visited: np.ndarray
    frontier: np.ndarray
    rest: np.ndarray
    forms: np.ndarray
    equalities: np.ndarray
    ceilings: np.ndarray
    stopped: MDP | None
    moves: Any

    @property
    def columns(self) -> int:
        """C, how many columns there are."""
        return len(self.tables)

    @property
    def size(self) -> int:
        """n, how many variables there are."""
        return self.forms.shape[1]

    @property
    def restricted(self) -> np.ndarray:
        """[S, A] bool, the pairs whose backup must not exceed the value: inequalities."""
        held = np.zeros_like(self.observed)
        held[self.visited] = ~self.observed[self.visited]
        held[self.frontier] = True
        return held


def cone(mdp: MDP, tables: np.ndarray, counts: np.ndarray) -> Cone:
    """The `Cone` of these columns [C, S, A], for demonstrations with these `counts` [S, A]."""
    observed = counts > 0
    visited = np.asarray(observed.any(axis=1))
    moves = mdp.sparse()
    entered = (observed.ravel().astype(float) @ moves) > 0
    frontier = np.flatnonzero(entered & ~visited)
    rest = np.flatnonzero(~entered & ~visited)
    chosen = counts.argmax(axis=1)
    forms = _forms(mdp, tables, moves, chosen, np.flatnonzero(visited), frontier)
    ceilings = np.zeros((len(frontier), forms.shape[1]))
    if len(frontier):
        ceilings[:, : len(tables)] = -most_worth(mdp, tables)[frontier]
        ceilings[:, len(tables) :] = np.eye(len(frontier))
    second = observed.copy()
    second[np.arange(mdp.states), chosen] = False
    found = Cone(
        mdp,
        tables,
        observed,
        visited,
        frontier,
        rest,
        forms,
        np.zeros((0, forms.shape[1])),
        ceilings,
        _stopped(mdp, rest) if len(rest) else None,
        moves,
    )
    object.__setattr__(found, "equalities", rows(found, forms, *np.nonzero(second)))
    return found


def most_worth(mdp: MDP, tables: np.ndarray) -> np.ndarray:
    """[S, C] the optimal values of each column by itself: together they bound those of any sum."""
    found = [best_column(mdp, table[None], np.ones(1)).values[0] for table in tables]
    return np.array(found).reshape(len(tables), mdp.states).T


def _forms(
    mdp: MDP,
    tables: np.ndarray,
    moves: Any,
    chosen: np.ndarray,
    inside: np.ndarray,
    frontier: np.ndarray,
) -> np.ndarray:
    """[S, n] values of the states `inside` under the `chosen` actions, given the frontier's."""
    columns = len(tables)
    forms = np.zeros((mdp.states, columns + len(frontier)))
    forms[frontier, columns + np.arange(len(frontier))] = 1.0
    steps = moves[inside * mdp.actions + chosen[inside]]
    gains = np.zeros((len(inside), forms.shape[1]))
    gains[:, :columns] = tables[:, inside, chosen[inside]].T
    forms[inside] = _evaluated(steps, inside, gains + mdp.discount * (steps @ forms), mdp.discount)
    return forms


def _evaluated(steps: Any, inside: np.ndarray, gains: np.ndarray, discount: float) -> np.ndarray:
    """The solution X of X = gains + discount * steps[:, inside] X, by sparse elimination."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import splu

    chain = csc_array(eye_array(len(inside)) - discount * steps[:, inside])
    # Diagonally dominant, so no pivoting is needed and an ordering of little fill may be used.
    factors = splu(
        chain,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return factors.solve(gains)


def _stopped(mdp: MDP, rest: np.ndarray) -> MDP:
    """The model in which all states but the `rest` lead to themselves."""
    held = np.setdiff1d(np.arange(mdp.states), rest)
    states, chances = mdp.transitions.states.copy(), mdp.transitions.probabilities.copy()
    states[held] = held[:, None, None]
    chances[held] = 0.0
    chances[held, :, 0] = 1.0
    return MDP(Successors(states, chances), mdp.initial, mdp.discount)


def values(cone: Cone, x: np.ndarray, start: Column | None) -> tuple[np.ndarray, Column | None]:
    """[S] the values of an explanation x [n], and the optimal policy in the rest.

    Args:
        cone: of explanations.
        x: [n].
        start: what this returned for a similar x.
    """
    found = cone.forms @ x
    if cone.stopped is None:
        return found, None
    table = np.tensordot(x[: cone.columns], cone.tables, 1)
    held = np.ones(cone.mdp.states, bool)
    held[cone.rest] = False
    table[held] = (1.0 - cone.mdp.discount) * found[held, None]
    best = best_column(cone.stopped, table[None], np.ones(1), start=start)
    found[cone.rest] = best.values[0, cone.rest]
    return found, best


def slack(cone: Cone, x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[S, A] by how much each action falls short of the value, at x [n] and `values` [S]."""
    table = np.tensordot(x[: cone.columns], cone.tables, 1)
    return values[:, None] - table - cone.mdp.discount * cone.mdp.expected_next(values)


def full_forms(cone: Cone, policy: np.ndarray | None) -> np.ndarray:
    """[S, n] values of all states as linear forms, for the actions `policy` [S] in the rest.

    Exact for visited and frontier states, from below for the rest.
    """
    if cone.stopped is None or policy is None:
        return cone.forms
    steps = cone.moves[cone.rest * cone.mdp.actions + policy[cone.rest]]
    gains = cone.mdp.discount * (steps @ cone.forms)
    gains[:, : cone.columns] += cone.tables[:, cone.rest, policy[cone.rest]].T
    forms = cone.forms.copy()
    forms[cone.rest] = _evaluated(steps, cone.rest, gains, cone.mdp.discount)
    return forms


def rows(cone: Cone, forms: np.ndarray, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """[p, n] backup minus value of these pairs, as linear forms."""
    found = cone.mdp.discount * (cone.moves[states * cone.mdp.actions + actions] @ forms)
    found[:, : cone.columns] += cone.tables[:, states, actions].T
    return found - forms[states]


def total(cone: Cone, forms: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[n] the sum of backup minus value over all pairs, weighted by `weights` [S, A]."""
    flow = cone.mdp.discount * cone.mdp.inflow(weights) - weights.sum(axis=1)
    found = flow @ forms
    found[: cone.columns] += np.tensordot(cone.tables, weights, 2)
    return found
