"""Priors on the weights of features, where these are many: small, smooth, or few."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.model.arguments import number, numbers
from tacit.model.features.maps import grid_moves, transition_pairs
from tacit.model.layout import Layout
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class WeightPrior:
    """A prior on weights, of a given strength: base class of all of them.

    Attributes:
        strength: a positive number; None chooses it from the demonstrations.
    """

    strength: float | None = None

    def __post_init__(self) -> None:
        wanted = "a positive number, or None to choose it from the demonstrations"
        if self.strength is not None:
            name = "a prior's strength on weights"
            number(self.strength, name, wanted, lambda strength: 0.0 < strength < np.inf)

    def __str__(self) -> str:
        return type(self).__name__.lower()


class Ridge(WeightPrior):
    """A normal prior on each weight: the loss grows by strength / 2 times the sum of their squares.

    Weights are of features scaled to range one, in units of the demonstrator's noise.

    Attributes:
        strength: 1 / variance of a weight before anything is seen; None chooses it by trajectories
            that are held out.
    """


@dataclass(frozen=True)
class Smooth(WeightPrior):
    """A prior by which neighbouring states are worth alike.

    The loss grows by strength / 2 times the sum of squared differences of the reward, and of each
    cost, between neighbours, in units of the demonstrator's noise. A state's reward is the mean
    over its actions.

    Attributes:
        strength: 1 / variance of such a difference before anything is seen; None chooses it by
            trajectories that are held out.
        over: pairs of neighbours [E, 2]; the `Layout` of a grid, for its cells side by side; or
            None, for all states between which a single step can lead.
    """

    over: Layout | npt.ArrayLike | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.over is not None and not isinstance(self.over, Layout):
            pairs = numbers(self.over, "neighbours", None)
            if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
                raise InvalidModel(
                    f"neighbours must be pairs of states [E, 2]; got {pairs.dtype} {pairs.shape}"
                )
            object.__setattr__(self, "over", pairs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Smooth):
            return NotImplemented
        same_pairs = self.over is other.over or np.array_equal(
            np.asarray(self.over), np.asarray(other.over)
        )
        return self.strength == other.strength and same_pairs

    def roughness(self, mdp: MDP) -> csr_array:
        """[S, S] the graph Laplacian L of the neighbours: u . L u = sum of squared differences."""
        from scipy.sparse import csr_array, diags_array

        pairs = self._neighbours(mdp)
        outside = pairs[(pairs < 0) | (pairs >= mdp.states)]
        if len(outside):
            raise InvalidModel(
                f"neighbours must be states in 0..{mdp.states - 1}; got {outside[0]}"
            )
        low, high = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1).T
        upper = csr_array((np.ones(len(low)), (low, high)), shape=(mdp.states, mdp.states))
        upper.data[:] = 1.0  # a pair that is listed twice counts once
        adjacency = upper + upper.T
        degrees = np.asarray(adjacency.sum(axis=1)).ravel()
        return csr_array(diags_array(degrees) - adjacency)

    def _neighbours(self, mdp: MDP) -> np.ndarray:
        """[E, 2] pairs of neighbouring states, in any order."""
        if self.over is None:
            return np.column_stack(transition_pairs(mdp))
        if not isinstance(self.over, Layout):
            return np.asarray(self.over)
        if not self.over.is_grid:
            raise InvalidModel("this layout is no grid: give the pairs of neighbours [E, 2]")
        return np.column_stack(grid_moves(replace(self.over, directions=((0, 1), (1, 0)))))


class Sparse(WeightPrior):
    """A Laplace prior by which few features matter: the lasso.

    The loss grows by strength times the sum of the weights' absolute values. Weights are of
    features scaled to range one, in units of the demonstrator's noise. The prior chooses which
    features have a weight at all; those that do are then estimated without it, and all intervals
    are those of the fit with every feature.

    Attributes:
        strength: factor of the absolute values; None takes, of all strengths, the one whose
            features have the least BIC.
    """
