"""The likelihood of trips to many goals in one network, by one factorisation for all of them.

Moves that are certain, and no discount: z = exp(V) of a goal g solves z = M z with z(g) = 1 and
M = exp(u), so one sparse factorisation of I - M serves every goal and every derivative. With G its
inverse, z = G[:, g] / G[g, g]. Where a trip's z underflows, moves are random or there is a
discount, values are sought in logarithms (`goals.py`), each goal with a policy of its own: their
systems have one `Pattern` and are factorised side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.engine.backends import side_by_side
from tacit.engine.kernels import SMALL
from tacit.engine.kernels.systems import (
    SparseFactors,
    eliminate_lanes,
    flow_moments,
    substitute_lanes,
)
from tacit.errors import InvalidModel
from tacit.estimators.trips.world import Journeys, paid
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Goals treated together: an entry of the factors serves all of them while it is at hand.
TOGETHER = 64
# A trip's z below this is too close to where numbers end: values are then sought in logarithms.
LEAST = 1e-250


class Sums(NamedTuple):
    """Minus the log-likelihood of trips, without what is linear in x, and its derivatives."""

    loss: float  # infinite where the values of a goal are
    gradient: np.ndarray  # [D]
    curvature: np.ndarray  # [D, D]
    fisher: np.ndarray  # [D, D] information of the steps
    spent: np.ndarray  # [D] expected sums of the features, over all trips
    reaction: np.ndarray  # [D, D] its derivative
    flows: np.ndarray  # [S, A] expected uses of every pair, by all trips; one 0 where there is none
    scores: np.ndarray  # [n, D] of the steps
    rows: np.ndarray  # [n] their numbers
    # [n, A] where the steps were taken, and [n, A, D] the scores of all actions there, if asked for
    policy: np.ndarray = np.zeros((0, 0))
    advantages: np.ndarray = np.zeros((0, 0, 0))

    @property
    def lean(self) -> bool:
        """Whether only the loss and what one derivative needs is there."""
        return bool(np.isnan(self.fisher).any())


def nothing(size: int, loss: float = 0.0) -> Sums:
    """The `Sums` of no trips, of D parameters; infinite where a loss is given as that."""
    flat, square = np.zeros(size), np.zeros((size, size))
    none = np.zeros((0, size)), np.zeros(0, np.int64)
    return Sums(loss, flat, square, square, flat, square, np.zeros(()), *none)


def added(parts: Sequence[Sums], size: int) -> Sums:
    """The `Sums` of all trips of the parts."""
    whole = [nothing(size), *parts]
    columns = list(zip(*whole, strict=True))
    sums = (sum(column[1:], start=column[0]) for column in columns[:7])
    lists = (np.concatenate([one for one in c if one.size] or c[:1]) for c in columns[7:])
    return Sums(*sums, *lists)  # type: ignore


class Network:
    """Trips where every move is certain and nothing is discounted: one factorisation for all."""

    def __init__(self, journeys: Journeys) -> None:
        successors, self._lost = journeys.successors, ~np.ascontiguousarray(journeys.reach.T)
        assert successors is not None
        self._journeys = journeys  # pairs that lead to no goal at all are in nobody's way
        self._kept = kept = journeys.mdp.available & ~np.asarray(self._lost.all(axis=1))[successors]
        self._from, actions = np.nonzero(kept)
        self._to = successors[kept]
        self._pair = np.zeros(kept.shape, np.int64)
        self._pair[kept] = np.arange(len(self._from))
        self._starts = np.searchsorted(self._from, np.arange(len(kept) + 1))
        self._gains = journeys.space.tables[:, self._from, actions]

    def evaluate(
        self, x: np.ndarray, chosen: np.ndarray, *, detailed: bool = False, lean: bool = False
    ) -> tuple[Sums, np.ndarray]:
        """The `Sums` at x [D] of the chosen goals, and those whose z underflows, left out."""
        from scipy.sparse import csr_array, eye_array

        size, states = len(x), self._journeys.mdp.states
        chances = np.exp(x @ self._gains)

        def along(weights: np.ndarray) -> csr_array:
            return csr_array((weights, self._to, self._starts), shape=(states, states))

        try:
            factors = SparseFactors((eye_array(states) - along(chances)).tocsc())
        except RuntimeError:  # exactly singular: the border of finite values
            return nothing(size, np.inf), chosen[:0]
        ways = [] if lean else [along(chances * gains) for gains in self._gains]
        blocks = np.array_split(chosen, -(-len(chosen) // TOGETHER) or 1)
        parts = side_by_side(lambda b: self._block(chances, ways, factors, b, detailed), blocks)
        small = np.concatenate([left for _, left in parts])
        return added([part for part, _ in parts], size), small

    def _block(
        self,
        chances: np.ndarray,
        ways: list[csr_array],
        factors: SparseFactors,
        chosen: np.ndarray,
        detailed: bool,
    ) -> tuple[Sums, np.ndarray]:
        """The `Sums` of some goals, lean without derived ways; and those whose z underflows."""
        j, size, every = self._journeys, self._journeys.space.size, np.arange(len(chosen))
        goals, shape = j.goals[chosen], (j.mdp.states, len(chosen))
        lost = self._lost[:, chosen]
        z = factors.solve((np.arange(len(lost))[:, None] == goals).astype(float))
        with np.errstate(all="ignore"):
            z /= z[goals, every]
        np.copyto(z, 0.0, where=lost)
        if not (z >= 0.0).all():  # nor where it is NaN: no finite value at these weights
            return nothing(size, np.inf), chosen[:0]
        trips, own = slices(j.begins, chosen)
        likely = z[j.origins[trips], own]
        small = np.isin(every, own[likely < LEAST])
        if small.any():
            if small.all():
                return nothing(size), chosen
            found, _ = self._block(chances, ways, factors, chosen[~small], detailed)
            return found, chosen[small]
        number = np.bincount(own, minlength=len(chosen)).astype(float)
        weights = np.zeros(shape)
        np.add.at(weights, (j.origins[trips], own), 1.0 / likely)
        # What arrives goes on in I - M, not in a trip: it is taken out at the goal.
        weights[goals, every] -= number
        y = factors.solve(weights, transposed=True)
        np.maximum(y, 0.0, out=y)
        np.copyto(y, 0.0, where=lost)
        y[goals, every] = 0.0
        slopes, safe = np.empty((len(ways), *shape)), np.where(z > 0, z, 1.0)
        for d, way in enumerate(ways):
            slope = way @ z
            slope[goals, every] = 0.0
            slope = factors.solve(slope)
            slope -= z * slope[goals, every]
            np.divide(slope, safe, out=slopes[d])
        np.copyto(slopes, 0.0, where=z == 0.0)
        flow, moments = np.zeros(len(chances)), np.zeros((len(ways), len(ways), len(chosen)))
        flow_moments(self._from, self._to, chances, self._gains, z, y, slopes, flow, moments)
        used, spent = np.zeros(self._kept.shape), self._gains @ flow
        used[self._kept] = flow
        found = nothing(size)._replace(
            loss=float(np.log(likely).sum()),
            gradient=spent,
            spent=spent + paid(j.mdp, j.space.tables, goals) @ number,
            flows=used,
        )
        if not ways and size:
            blank = np.full((size, size), np.nan)
            return found._replace(curvature=blank, fisher=blank, reaction=blank), chosen[:0]
        below = moments.sum(axis=2)
        curvature = below + np.tril(below, -1).T
        rows, column = slices(j.steps, chosen)
        at, done, own = j.states[rows], j.actions[rows], column[:, None]
        pairs, kept = self._pair[at], self._kept[at]
        policy = chances[pairs] * z[self._to[pairs], own] / safe[at, column][:, None]
        policy = np.where(kept, policy, 0.0)
        scores = self._gains[:, pairs] + slopes[:, self._to[pairs], own]
        scores = np.where(policy > 0, scores - slopes[:, at, column][..., None], 0.0)
        told = {"policy": policy, "advantages": scores.transpose(1, 2, 0)} if detailed else {}
        return found._replace(
            curvature=curvature,
            fisher=products(scores, policy),
            reaction=curvature,
            scores=scores[:, np.arange(len(rows)), done].T,
            rows=rows,
            **told,
        ), chosen[:0]


def slices(starts: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the chosen goals, and the place of each row's goal among the chosen."""
    lengths = starts[chosen + 1] - starts[chosen]
    places = np.repeat(np.arange(len(chosen)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + (starts[chosen] - before)[places], places


def products(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[D, D] the weighted sum of products of scores [D, ...]."""
    flat = scores.reshape(len(scores), -1)
    return (flat * weights.ravel()) @ flat.T


class Pattern:
    """Where the systems of all goals have entries, once eliminated."""

    def __init__(self, journeys: Journeys) -> None:
        from scipy.sparse import csr_array, eye_array
        from scipy.sparse.linalg import splu

        mdp = journeys.mdp
        self.states, self.discount, self.moves = mdp.states, journeys.discount, mdp.sparse()
        pairs = self.moves.tocoo()
        at, to = pairs.coords[0] // mdp.actions, pairs.coords[1]
        self.dense = mdp.states <= SMALL
        self.size, self.work = mdp.states**2, 0.0
        self.usable, places = True, at * mdp.states + to
        if not self.dense:
            number = np.maximum(mdp.available.sum(axis=1), 1)
            walk = csr_array((0.9 * pairs.data / number[at], (at, to)), shape=(mdp.states,) * 2)
            factors = splu(
                (eye_array(mdp.states) - walk).tocsc(),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
            # Entries of one sign below and beside the diagonal: what fills in cannot cancel.
            lower, upper = abs(factors.L).tocsr(), abs(factors.U).tocsr()
            whole = (lower + upper).tocsr()
            whole.sort_indices()
            # A pivot takes its row off every row below it that has an entry in its column.
            below = np.bincount(lower.indices, minlength=mdp.states) - 1.0
            self.size, self.work = whole.nnz, float(below @ (np.diff(upper.indptr) - 1.0))
            rows = np.repeat(np.arange(mdp.states), np.diff(whole.indptr))
            self.order = factors.perm_c.astype(np.int64)
            self.columns = whole.indices.astype(np.int64)
            self.starts = whole.indptr.astype(np.int64)
            self.diagonal = np.flatnonzero(rows == self.columns)
            keys, sought = rows * mdp.states + self.columns, self.order[at] * mdp.states
            sought += self.order[to]
            places = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
            self.usable = bool(
                (factors.perm_c == factors.perm_r).all()
                and (keys[places] == sought).all()
                and len(self.diagonal) == mdp.states
            )
        # From the chances of all pairs to the entries of I - discount P.
        entries = -self.discount * pairs.data
        shape = (self.size, mdp.states * mdp.actions)
        self.gather = csr_array((entries, (places, pairs.coords[0])), shape=shape)

    def later(self, values: np.ndarray) -> np.ndarray:
        """[S, A, ...] discounted expected value of the next state, for values [S, ...]."""
        flat = self.discount * np.asarray(self.moves @ values.reshape(self.states, -1))
        return flat.reshape(self.states, -1, *values.shape[1:])


class Systems:
    """I - discount P of one policy a goal, factorised side by side."""

    def __init__(self, pattern: Pattern, policy: np.ndarray) -> None:
        self._pattern, lanes = pattern, policy.shape[2]
        entries = pattern.gather @ policy.reshape(-1, lanes)
        if pattern.dense:
            square = entries.T.reshape(lanes, pattern.states, pattern.states)
            self._entries = square + np.eye(pattern.states)
            return
        entries[pattern.diagonal] += 1.0
        if not eliminate_lanes(pattern.starts, pattern.columns, pattern.diagonal, entries):
            entries[:] = np.nan  # the goals get worlds of their own
        self._entries = entries

    def solve(self, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
        """[S, m, n] the solutions for m right sides of n goals, [S, m, n]; NaN where singular."""
        pattern = self._pattern
        if pattern.dense:
            systems = self._entries.swapaxes(1, 2) if transposed else self._entries
            sides = right.transpose(2, 0, 1)
            try:
                return np.linalg.solve(systems, sides).transpose(1, 2, 0)
            except np.linalg.LinAlgError:
                return np.full(right.shape, np.nan)
        x = np.empty_like(right)
        x[pattern.order] = right
        form = pattern.starts, pattern.columns, pattern.diagonal, self._entries
        substitute_lanes(*form, transposed, x)
        return x[pattern.order]


def without(mdp: MDP, closed: np.ndarray) -> MDP:
    """The world where nobody enters [n] states, or takes the actions of [n, 2] pairs."""
    there, moves = mdp.available.copy(), mdp.transitions
    pairs = closed.ndim == 2 and closed.shape[1] == 2
    limits = there.shape if pairs else there.shape[:1]
    if closed.size and not (pairs or closed.ndim == 1):
        raise InvalidModel(f"closed must be states [n] or pairs [n, 2]; got {list(closed.shape)}")
    if closed.size and closed.dtype.kind not in "iu":
        raise InvalidModel(
            f"closed must be numbers of states, or pairs of numbers of state and action; got "
            f"{closed.flat[0]!s}: a layout's state_names.index(name) tells the number of a name"
        )
    for one in closed.reshape(-1, len(limits)).tolist() if closed.size else ():
        if not all(0 <= at < limit for at, limit in zip(one, limits, strict=True)):
            raise InvalidModel(f"closed must lie below {list(limits)}; got {one}")
        if pairs and not mdp.available[tuple(one)]:
            raise InvalidModel(
                f"closed must be actions that there are; action {one[1]} is not available in "
                f"state {one[0]}"
            )
        if pairs:
            there[tuple(one)] = False
    if closed.size and not pairs:
        entered = np.isin(moves.states, closed) & (moves.probabilities > 0)
        there &= ~np.asarray(entered.any(axis=2))
    return MDP(moves, mdp.initial, mdp.discount, available=there)
