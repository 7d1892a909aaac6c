"""Priors on the weights of features, where these are many: small, smooth, or few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.files.atomic import BadFile
from tacit.model.features.maps import moves, ways
from tacit.model.mdp import MDP
from tacit.model.objective import is_sparse
from tacit.model.transitions import Layout, numbers

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.model.objective import FeatureTable, SparseTable

# The entries of one sparse matrix, behind its name, and the most columns that it may have.
SPARSE = ("data", "indices", "indptr", "shape")
WIDEST = 2**24

# Most entries of a sparse map that is written out to compare its columns, or to be hashed.
LOOKED_AT = 2**22


def too_large(table: FeatureTable) -> bool:
    """Whether a map is sparse, and of more entries than a look at each of them is worth."""
    return is_sparse(table) and table.shape[0] * table.shape[1] > LOOKED_AT


def hashable_map(table: SparseTable) -> np.ndarray | dict[str, np.ndarray]:
    """A sparse map by which problems are compared: written out, or its entries if too large."""
    return sparse_entries(table, "map") if too_large(table) else table.toarray()


@dataclass(frozen=True)
class Pull:
    """What the priors on weights have in common.

    Attributes:
        strength: a positive number; None chooses it by what the demonstrations say.
    """

    strength: float | None = None

    def __post_init__(self) -> None:
        given = self.strength
        number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
        if given is not None and not (number and 0.0 < given < np.inf):
            raise InvalidModel(
                "a prior's strength on weights must be a positive number, or None to choose it by "
                f"trajectories held out; got {given!r:.60}"
            )

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


def check_sparse(
    data: np.ndarray, indices: np.ndarray, pointers: np.ndarray, shape: np.ndarray, *, name: str
) -> None:
    """Raises `BadFile` unless the arrays of `SPARSE` are one matrix [S, D], row by row."""
    for what, array in zip(SPARSE, (data, indices, pointers, shape), strict=True):
        if array.ndim != 1 or array.dtype.kind not in ("biuf" if array is data else "iu"):
            wanted = "numbers" if array is data else "whole numbers"
            raise BadFile(
                f"{name}_{what} must be a list of {wanted}; got {array.dtype} {array.shape}"
            )
    if len(shape) != 2 or shape.min() < 1 or shape[1] > WIDEST:
        raise BadFile(
            f"{name}_shape must be the number of states and that of features, at most {WIDEST}; "
            f"got {shape.tolist()!r:.60}"
        )
    ends = [int(x) for x in (pointers[0], pointers[-1])] if len(pointers) else []
    rising = bool((pointers[1:] >= pointers[:-1]).all())
    if len(pointers) - 1 != shape[0] or ends != [0, len(data)] or not rising:
        raise BadFile(
            f"{name}_indptr must be {shape[0]} + 1 numbers that rise from 0 to the {len(data)} of "
            f"{name}_data; got {len(pointers)}, {pointers.tolist()!r:.40}"
        )
    outside = (indices < 0) | (indices >= shape[1])
    if len(indices) != len(data) or outside.any():
        got = f"{len(indices)}" if not outside.any() else f"{indices[outside.argmax()]}"
        raise BadFile(
            f"{name}_indices must be {len(data)} columns from 0 to {shape[1] - 1}; got {got}"
        )


def sparse_entries(table: csr_array, name: str) -> dict[str, np.ndarray]:
    """The entries of a sparse matrix that `sparse_matrix` reads, as it is stored."""
    parts = (table.data, table.indices, table.indptr, np.array(table.shape))
    return {f"{name}_{part}": array for part, array in zip(SPARSE, parts, strict=True)}


def sparse_matrix(arrays: Mapping[str, np.ndarray], name: str) -> csr_array | None:
    """[S, D] the sparse matrix of that name, or None; `BadFile` where its entries are none."""
    found = [f"{name}_{part}" for part in SPARSE if f"{name}_{part}" in arrays]
    if not found:
        return None
    if name in arrays:
        raise BadFile(f"{name} must be there once; {found[0]} gives it again")
    if len(found) < len(SPARSE):
        wanted = ", ".join(f"{name}_{part}" for part in SPARSE)
        raise BadFile(f"a sparse {name} must have {wanted}; got {', '.join(found)}")
    data, indices, pointers, shape = (arrays[entry] for entry in found)
    check_sparse(data, indices, pointers, shape, name=name)
    from scipy.sparse import csr_array

    parts = (data, indices.astype(np.int64), pointers.astype(np.int64))
    return csr_array(parts, shape=(int(shape[0]), int(shape[1])))
