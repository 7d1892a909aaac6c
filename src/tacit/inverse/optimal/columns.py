"""Feature columns in the form in which the cone of explanations is best computed.

A reward that is replaced by r + discount * P v - v has the same optimal policies for any v; only
its values move by v. So each feature is taken with v the values of the uniform policy: the
advantage over that policy is then p0 . V, features that cannot influence anything become zero, and
an offset of the feature has no effect on the numbers. Divided by its root mean square each column
is of order one, whatever its units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.forward.policies import policy_values
from tacit.model.ends import uniform_policy
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# A column smaller than this, relative to the feature it is made of, is rounding of the values.
INERT = 1e-10


@dataclass(frozen=True, eq=False)
class Columns:
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


def columns_of(mdp: MDP, features: Features, *, free_reward: bool = False) -> Columns:
    """The `Columns` of these features on this model."""
    uniform = uniform_policy(mdp)
    tables, units, block, feature, inert = [], [], [], [], []
    for b, given in enumerate((features.reward, *features.costs)):
        full = given if given.ndim == 3 else np.repeat(given[:, None, :], mdp.actions, axis=1)
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
    return Columns(
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
