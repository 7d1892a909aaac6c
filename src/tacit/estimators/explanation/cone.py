"""The cone of all explanations of an optimal expert, with the values of most states eliminated.

An explanation is an amount >= 0 of each column and values V with V = backup on observed (state,
action) pairs and V >= backup on all others. Three kinds of states:

- visited: one observed action fixes the values as linear forms of everything else;
- frontier: never visited, though an observed action can lead there. What the expert does there is
  unknown, so the value is a variable of its own, at least that of every action and at most what the
  columns can be worth there, each at its best (a bound that holds for every expert);
- rest: the others. Their values only make explanations harder, so they are the least possible:
  those of an optimal policy there. Each policy gives linear forms that bound them from below.

So the variables are the amounts and the frontier values, however many states there are. Where the
frontier is large, because little was shown of a large world, nothing is eliminated instead: all
values are variables, and all rows are sparse. So it is at discount 1, where demonstrated actions
may go in circles and some amounts have no finite values at all.

Actions that are not there give no inequality. An end counts as visited: its value is what it pays.

Columns: a reward that is replaced by r + discount * P v - v has the same optimal policies for any
v; only its values move by v. So each feature is taken with v the values of the uniform policy: the
advantage over that policy is then p0 . V, features that cannot influence anything become zero, and
an offset has no effect. Divided by its root mean square each column is of order one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from tacit.forward.occupancy_lp import Matrix
from tacit.forward.policies import PolicyColumn, Unbounded, best_column, policy_values
from tacit.model.arguments import truth
from tacit.model.ends import uniform_policy
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.model.transitions import Successors

# Frontier states from which on dense rows with one column each cost more than what they save.
MANY = 250
# A column smaller than this, relative to the feature it is made of, is rounding of the values.
INERT = 1e-10


@dataclass(frozen=True, eq=False, kw_only=True)
class CanonicalColumns:
    """Columns whose non-negative combinations are all Lagrangian rewards that can be told apart.

    A reward feature of free sign has two columns, itself and its negative; a cost feature has its
    negative; an inert feature, the same to all policies, has none.

    Attributes:
        tables: [C, S, A] the columns, of root mean square one.
        units: [C] weight of the feature, in the user's units, that one unit of the column stands
            for; negative for the negative of a reward feature.
        block: [C] 0 for a reward feature, k + 1 for one of constraint k.
        feature: [C] position of the feature in its map.
        sizes: (D, D_1, ...) features of each map.
        inert: one [D] bool for the reward, then one [D_k] per constraint.
        names: one tuple of names for the reward, then one per constraint.
        free_reward: whether reward weights may be negative.
    """

    tables: np.ndarray
    units: np.ndarray
    block: np.ndarray
    feature: np.ndarray
    sizes: tuple[int, ...]
    inert: tuple[np.ndarray, ...]
    names: tuple[tuple[str, ...], ...]
    free_reward: bool

    @property
    def constraints(self) -> int:
        """K, the number of constraints."""
        return len(self.sizes) - 1

    def weights(self, amounts: np.ndarray) -> tuple[np.ndarray, ...]:
        """([D], [D_1], ...) weights in the user's units, for `amounts` [C] of the columns."""
        found = tuple(np.zeros(size) for size in self.sizes)
        for b, part in enumerate(found):
            mine = self.block == b
            np.add.at(part, self.feature[mine], (amounts * self.units)[mine])
        return found

    def in_units(self, deviations: tuple[np.ndarray, ...]) -> CanonicalColumns:
        """The same of features that are divided by their deviations, ([D], [D_1], ...)."""
        sizes = [deviations[b][j] for b, j in zip(self.block, self.feature, strict=True)]
        return replace(self, units=self.units * sizes)

    def asks(self, directions: tuple[np.ndarray, ...]) -> np.ndarray:
        """[C] what one unit of each column adds to directions . weights; one direction a map."""
        chosen = [directions[b][j] for b, j in zip(self.block, self.feature, strict=True)]
        return np.array(chosen, dtype=np.float64).reshape(-1) * self.units

    def norm(self, block: int) -> np.ndarray:
        """[C] what one unit of each column adds to the L1 norm of the weights of a map."""
        return np.where(self.block == block, np.abs(self.units), 0.0)

    def reward_probes(self) -> list[np.ndarray]:
        """[C] objectives, at least one of them positive wherever some reward weight is not 0.

        The sum of the amounts will not do for free signs: a feature and its negative cancel.
        """
        if not self.free_reward:
            return [(self.block == 0).astype(float)]
        sides = np.where(self.block == 0, np.sign(self.units), 0.0)
        alone = [np.where(self.feature == j, sides, 0.0) for j in range(self.sizes[0])]
        return [side * probe for probe in alone for side in (1.0, -1.0)]

    def table(self, amounts: np.ndarray) -> np.ndarray:
        """[S, A] the Lagrangian reward of `amounts` [C], less its uniform values."""
        return np.tensordot(amounts, self.tables, 1)


def columns_of(mdp: MDP, features: Features, *, free_reward: bool = False) -> CanonicalColumns:
    """The `CanonicalColumns` of these features on this model."""
    truth(free_reward, "free_reward")
    uniform = uniform_policy(mdp)
    tables, units, block, feature, inert = [], [], [], [], []
    for b, full in enumerate(features.by_action(mdp.actions)):
        silent = np.zeros(full.shape[-1], bool)
        for j in range(full.shape[-1]):
            column, size = canonical(mdp, np.ascontiguousarray(full[..., j]), uniform)
            silent[j] = size == 0.0
            for sign in (1.0, -1.0) if b == 0 and free_reward else (1.0 if b == 0 else -1.0,):
                if size > 0.0:
                    tables.append(sign * column)
                    # A cost weight is counted as such: its minus sign is in the column.
                    units.append((1.0 if b else sign) / size)
                    block.append(b)
                    feature.append(j)
        inert.append(silent)
    return CanonicalColumns(
        tables=np.array(tables).reshape(-1, mdp.states, mdp.actions),
        units=np.array(units),
        block=np.array(block, dtype=int),
        feature=np.array(feature, dtype=int),
        sizes=tuple(len(part) for part in inert),
        inert=tuple(inert),
        names=(features.reward_names, *features.cost_names),
        free_reward=free_reward,
    )


def canonical(mdp: MDP, table: np.ndarray, uniform: np.ndarray) -> tuple[np.ndarray, float]:
    """[S, A] the table less the values of the `uniform` policy, over its size; and that size."""
    if mdp.restricted:
        table = np.where(mdp.choices | mdp.ends[:, None], table, 0.0)
    largest = float(np.abs(table).max())
    # The mean first: what is the same everywhere needs no linear solve to be removed. Where
    # episodes end it is not the same after them.
    centred = table if mdp.ends.any() else table - table.mean()
    values = policy_values(mdp, uniform, centred)
    column = centred + mdp.discount * mdp.expected_next(values) - values[:, None]
    if mdp.restricted:  # nothing is gained by what is not there, nor at an end
        column = np.where(mdp.available, column, 0.0)
        size = float(np.sqrt(np.sum(column**2) / mdp.available.sum()))
    else:
        size = float(np.sqrt(np.mean(column**2)))
    if size <= INERT * largest:
        return np.zeros_like(column), 0.0
    return column / size, size


@dataclass(frozen=True, eq=False)
class ExplanationCone:
    """All explanations, as linear forms of n = C + V variables: amounts, then values of states.

    Attributes:
        mdp: the model.
        tables: [C, S, A] the columns.
        observed: [S, A] bool, the pairs that were demonstrated.
        visited: [S] bool; ends are.
        frontier: [F] states never visited though an observed pair can lead there.
        free: [V] states whose values are variables: the frontier, or all.
        rest: [R] states whose values follow from an optimal policy there.
        forms: [S, n] values as linear forms; 0 for the rest. Sparse if all values are variables.
        ceilings: [F, n] rows that are <= 0: values of the frontier against their bound.
        stopped: the model in which visited and frontier states are never left, or where some
            actions are not there, end an episode; None if R = 0.
        moves: [S * A, S] sparse transitions.
        equalities: [E, n] rows that are 0 on every explanation: second actions seen in a state, or
            all that were seen.
    """

    mdp: MDP
    tables: np.ndarray
    observed: np.ndarray
    _: KW_ONLY
    visited: np.ndarray
    frontier: np.ndarray
    free: np.ndarray
    rest: np.ndarray
    forms: Matrix
    ceilings: Matrix
    stopped: MDP | None
    moves: Matrix
    equalities: Matrix = None

    @property
    def width(self) -> int:
        """C, how many columns there are."""
        return len(self.tables)

    @property
    def size(self) -> int:
        """n, how many variables there are."""
        return self.forms.shape[1]

    @property
    def restricted(self) -> np.ndarray:
        """[S, A] bool, the pairs whose backup must not exceed the value: inequalities."""
        held = self.mdp.available & ~self.observed
        held[self.rest] = False
        return held

    @property
    def plain(self) -> bool:
        """Whether all values are variables."""
        return len(self.free) == self.mdp.states


def cone(mdp: MDP, tables: np.ndarray, observed: np.ndarray) -> ExplanationCone:
    """The cone of these columns [C, S, A], for demonstrations of the pairs `observed` [S, A]."""
    observed = shown_counts(mdp, observed) > 0
    visited = np.asarray(observed.any(axis=1))
    moves = mdp.sparse()
    entered = (observed.ravel().astype(float) @ moves) > 0
    frontier = np.flatnonzero(entered & ~visited)
    rest = np.flatnonzero(~entered & ~visited)
    if len(frontier) > MANY or mdp.discount == 1.0:
        free, rest = np.arange(mdp.states), rest[:0]
        forms, second = _own_values(len(tables), mdp.states), observed
    else:
        chosen = observed.argmax(axis=1)
        free, second = frontier, observed.copy()
        second[np.arange(mdp.states), chosen] = False
        forms = _forms(mdp, tables, moves, chosen, np.flatnonzero(visited), frontier)
    found = ExplanationCone(
        mdp,
        tables,
        observed,
        visited=visited,
        frontier=frontier,
        free=free,
        rest=rest,
        forms=forms,
        ceilings=_ceilings(mdp, tables, forms, frontier),
        stopped=_stopped(mdp, rest) if len(rest) else None,
        moves=moves,
    )
    return replace(found, equalities=rows(found, forms, *np.nonzero(second)))


def shown_counts(mdp: MDP, counts: np.ndarray) -> np.ndarray:
    """[S, A] the counts, with the one thing there is to do at an end done once."""
    if not mdp.ends.any():
        return counts
    shown = counts.copy()
    shown[mdp.ends, 0] = 1.0
    return shown


def _own_values(columns: int, states: int) -> Matrix:
    """[S, n] sparse, each value a variable of its own."""
    from scipy.sparse import csr_array, eye_array, hstack

    return csr_array(hstack([csr_array((states, columns)), eye_array(states)]))


def _ceilings(mdp: MDP, tables: np.ndarray, forms: Matrix, frontier: np.ndarray) -> Matrix:
    """[F, n] value minus its bound, for the states of the frontier."""
    if len(frontier) == 0:
        return np.zeros((0, forms.shape[1]))
    most = most_worth(mdp, tables)[frontier]
    bounded = np.isfinite(most).all(axis=1)  # at discount 1 a column alone may be worth anything
    return _with_gains(forms[frontier[bounded]], -most[bounded])


def _with_gains(block: Matrix, gains: np.ndarray) -> Matrix:
    """The rows `block` [p, n], dense or sparse, plus `gains` [p, C] in the columns of amounts."""
    if isinstance(block, np.ndarray):
        block = block.copy()
        block[:, : gains.shape[1]] += gains
        return block
    from scipy.sparse import csr_array, hstack

    more = csr_array((block.shape[0], block.shape[1] - gains.shape[1]))
    return csr_array(block + hstack([csr_array(gains), more]))


def most_worth(mdp: MDP, tables: np.ndarray) -> np.ndarray:
    """[S, C] the optimal values of each column by itself: together they bound those of any sum.

    Infinite where, at discount 1, going round for ever gains.
    """
    found = np.full((len(tables), mdp.states), np.inf)
    for j, table in enumerate(tables):
        with suppress(Unbounded):
            found[j] = best_column(mdp, table[None], np.ones(1)).values[0]
    return found.T


def _forms(
    mdp: MDP,
    tables: np.ndarray,
    moves: Matrix,
    chosen: np.ndarray,
    inside: np.ndarray,
    frontier: np.ndarray,
) -> np.ndarray:
    """[S, n] values of the states `inside` under the `chosen` actions, given the frontier's."""
    width = len(tables)
    forms = np.zeros((mdp.states, width + len(frontier)))
    forms[frontier, width + np.arange(len(frontier))] = 1.0
    steps = moves[inside * mdp.actions + chosen[inside]]
    gains = np.zeros((len(inside), forms.shape[1]))
    gains[:, :width] = tables[:, inside, chosen[inside]].T
    forms[inside] = _evaluated(steps, inside, gains + mdp.discount * (steps @ forms), mdp.discount)
    return forms


def _evaluated(steps: Matrix, inside: np.ndarray, gains: np.ndarray, discount: float) -> np.ndarray:
    """The solution X of X = gains + discount * steps[:, inside] X, by sparse elimination."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import splu

    chain = csc_array(eye_array(len(inside)) - discount * steps[:, inside])
    # Diagonally dominant, so no pivoting is needed and an ordering of little fill may be used.
    how = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0}
    return splu(chain, options={"SymmetricMode": True}, **how).solve(gains)


def _stopped(mdp: MDP, rest: np.ndarray) -> MDP:
    """The model in which all states but the `rest` lead to themselves."""
    held = np.setdiff1d(np.arange(mdp.states), rest)
    if mdp.restricted:
        there = mdp.available.copy()
        there[held] = False
        return MDP(mdp.transitions, mdp.initial, mdp.discount, available=there)
    states, chances = mdp.transitions.states.copy(), mdp.transitions.probabilities.copy()
    states[held] = held[:, None, None]
    chances[held] = 0.0
    chances[held, :, 0] = 1.0
    return MDP(Successors(states, chances), mdp.initial, mdp.discount)


def values(
    cone: ExplanationCone, x: np.ndarray, start: PolicyColumn | None
) -> tuple[np.ndarray, PolicyColumn | None]:
    """[S] the values of an explanation x [n], and the optimal policy in the rest.

    The search starts from the policy that this returned for a similar x.
    """
    found = cone.forms @ x
    if cone.stopped is None:
        return found, None
    table = np.tensordot(x[: cone.width], cone.tables, 1)
    held = np.ones(cone.mdp.states, bool)
    held[cone.rest] = False
    share = 1.0 if cone.stopped.restricted else 1.0 - cone.mdp.discount
    table[held] = share * found[held, None]
    best = best_column(cone.stopped, table[None], np.ones(1), start=start)
    found[cone.rest] = best.values[0, cone.rest]
    return found, best


def slack(cone: ExplanationCone, x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[S, A] by how much each action falls short of the value, at x [n] and `values` [S]."""
    table = np.tensordot(x[: cone.width], cone.tables, 1)
    return shortfall(cone.mdp, table, values)


def shortfall(mdp: MDP, table: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[S, A] values - table - discount * P values; 0 for actions that are not there."""
    short = values[:, None] - table - mdp.discount * mdp.expected_next(values)
    return np.where(mdp.choices, short, 0.0) if mdp.restricted else short


def full_forms(cone: ExplanationCone, policy: np.ndarray | None) -> Matrix:
    """[S, n] values of all states as linear forms, for the actions `policy` [S] in the rest.

    Exact for visited and frontier states, from below for the rest.
    """
    if cone.stopped is None or policy is None:
        return cone.forms
    steps = cone.moves[cone.rest * cone.mdp.actions + policy[cone.rest]]
    gains = cone.mdp.discount * (steps @ cone.forms)
    gains[:, : cone.width] += cone.tables[:, cone.rest, policy[cone.rest]].T
    forms = cone.forms.copy()
    forms[cone.rest] = _evaluated(steps, cone.rest, gains, cone.mdp.discount)
    return forms


def rows(cone: ExplanationCone, forms: Matrix, states: np.ndarray, actions: np.ndarray) -> Matrix:
    """[p, n] backup minus value of these pairs, as linear forms; sparse if these are."""
    ahead = cone.mdp.discount * (cone.moves[states * cone.mdp.actions + actions] @ forms)
    return _with_gains(ahead - forms[states], cone.tables[:, states, actions].T)
