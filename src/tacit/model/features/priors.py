"""Priors on the weights of features, where these are many: small, smooth, or few."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.model.arguments import number, numbers
from tacit.model.features.maps import moves, ways
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import is_sparse

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.model.objective import FeatureTable

# Most entries of a sparse map that is written out to compare its columns, or to be hashed.
LOOKED_AT = 2**22


def too_large(table: FeatureTable) -> bool:
    """Whether a map is sparse, and of more entries than a look at each of them is worth."""
    return is_sparse(table) and table.shape[0] * table.shape[1] > LOOKED_AT


@dataclass(frozen=True)
class Pull:
    """What the priors on weights have in common.

    Attributes:
        strength: a positive number; None chooses it by what the demonstrations say.
    """

    strength: float | None = None

    def __post_init__(self) -> None:
        wanted = "a positive number, or None to choose it by trajectories held out"
        if self.strength is not None:
            name = "a prior's strength on weights"
            number(self.strength, name, wanted, lambda strength: 0.0 < strength < np.inf)

    def __str__(self) -> str:
        return type(self).__name__.lower()


class Ridge(Pull):
    """A prior on weights that pulls each of them towards 0: strength / 2 times their squares.

    Weights of features scaled to range one, in units of the demonstrator's noise.

    Attributes:
        strength: 1 / variance of a weight before anything is seen; None chooses it by trajectories
            that are held out.
    """


@dataclass(frozen=True)
class Smooth(Pull):
    """A prior by which neighbouring states are worth alike.

    Strength / 2 times the squared differences of the reward, and of each cost, between neighbours,
    in units of the demonstrator's noise; what actions pay is averaged.

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

    def roughness(self, mdp: MDP) -> csr_array:
        """[S, S] the graph Laplacian of the neighbours: u . L u = sum of squared differences."""
        from scipy.sparse import csr_array, diags_array

        size = mdp.states
        one, other = self._pairs(mdp)
        for state in (*one[(one < 0) | (one >= size)], *other[(other < 0) | (other >= size)]):
            raise InvalidModel(f"neighbours must be states in 0..{size - 1}; got {state}")
        low, high = np.minimum(one, other), np.maximum(one, other)
        pairs = np.unique(low[low < high].astype(np.int64) * size + high[low < high])
        low, high = np.divmod(pairs, size)
        joined = csr_array((np.ones(len(low)), (low, high)), shape=(size, size))
        joined = joined + joined.T
        return csr_array(diags_array(np.asarray(joined.sum(axis=1)).ravel()) - joined)

    def _pairs(self, mdp: MDP) -> tuple[np.ndarray, np.ndarray]:
        if self.over is None:
            return ways(mdp)
        if not isinstance(self.over, Layout):
            return tuple(np.asarray(self.over).T)
        if not self.over.is_grid:
            raise InvalidModel("this layout is no grid: give the pairs of neighbours [E, 2]")
        return moves(replace(self.over, directions=((0, 1), (1, 0))))


class Sparse(Pull):
    """A prior by which few features matter: strength times the sum of the weights' sizes.

    Weights of features scaled to range one, in units of the demonstrator's noise. It says which
    features have a weight at all; those that do are then estimated without it, and all intervals
    are those of the fit with every feature.

    Attributes:
        strength: of the pull towards 0; None takes, of all strengths, the one whose features have
            the least BIC.
    """
