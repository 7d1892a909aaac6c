"""The likelihood of trips to many goals in one network, by one factorisation for all of them.

Moves that are certain, and no discount: z = exp(V) of a goal g solves z = M z with z(g) = 1 and
M = exp(u), so one sparse factorisation of I - M serves every goal and every derivative. With G its
inverse, z = G[:, g] / G[g, g]. Where a trip's z underflows, moves are random or there is a
discount, values are sought in logarithms (`goals.py`), each goal with a policy of its own: their
systems have one `Pattern` and are factorised side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tacit.data.tally import Scatter
from tacit.engine import State, side_by_side
from tacit.engine.backends import Array, Factors
from tacit.engine.kernels import SMALL
from tacit.engine.kernels.chains import eliminate_lanes, substitute_lanes
from tacit.errors import InvalidModel
from tacit.inverse.joint.trips import Journeys, paid
from tacit.inverse.noisy.inference import CLUSTERS, at_least
from tacit.model.mdp import MDP

# Goals treated together: their columns stay in the cache of a core.
TOGETHER = 32
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
    policy: np.ndarray  # [n, A] where the steps were taken; [0, 0] unless asked for
    advantages: np.ndarray  # [n, A, D] the scores of all actions there, likewise


UNASKED = np.zeros((0, 0)), np.zeros((0, 0, 0))


def nothing(size: int, loss: float = 0.0) -> Sums:
    """The `Sums` of no trips, of D parameters; infinite where a loss is given as that."""
    flat, square = np.zeros(size), np.zeros((size, size))
    none = np.zeros((0, size)), np.zeros(0, np.int64)
    return Sums(loss, flat, square, square, flat, square, np.zeros(()), *none, *UNASKED)


def added(parts: Sequence[Sums], size: int) -> Sums:
    """The `Sums` of all trips of the parts."""
    whole = [nothing(size), *parts]
    columns = list(zip(*whole, strict=True))
    sums = (sum(column[1:], start=column[0]) for column in columns[:7])
    lists = (np.concatenate([one for one in c if one.size] or c[:1]) for c in columns[7:])
    return Sums(*sums, *lists)  # type: ignore


def scatter_of(
    journeys: Journeys, sums: Sums, size: int, *, robust: bool
) -> tuple[Scatter, np.ndarray | None, bool]:
    """Sums of the trips' squared scores, [D, D] the covariance of all, whether trips are its units.

    The covariance is None where it is the information: the model fits, and trips are few for so
    many free parameters.
    """
    # The score of a trip is the sum of those of its steps.
    trips, own = np.unique(journeys.trips[sums.rows], return_inverse=True)
    whole = np.stack([np.bincount(own, weights=score) for score in sums.scores.T])
    many, clusters = len(trips), Scatter(len(trips), whole @ whole.T)
    if many >= (2 * size + 2 if robust else CLUSTERS * max(size, 1)):
        scatter = clusters.products * (many / (many - 1.0))
        return clusters, scatter if robust else at_least(sums.fisher, scatter), True
    return clusters, sums.scores.T @ sums.scores if robust else None, False


class Plain:
    """What a Newton step asks of a backend."""

    arrays = np
    linear_solve = staticmethod(np.linalg.solve)

    @staticmethod
    def while_loop(
        going: Callable[[State], Array], step: Callable[[State], State], state: State
    ) -> State:
        """The state after repeating `step` while `going`."""
        while going(state):
            state = step(state)
        return state


def descend(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    units: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
) -> tuple[float, np.ndarray]:
    """The smallest loss found within the bounds, and where; coordinates in units of their own."""
    from scipy.optimize import minimize

    best = [loss(start)[0], start]

    def scaled(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = loss(z * units)
        if not np.isfinite(value):  # no finite values there: far, and downhill nowhere
            return abs(best[0]) * 10.0 + 1e6, np.zeros_like(z)
        if value < best[0]:
            best[:] = value, z * units
        return value, slope * units

    lower, upper = bounds
    within = list(zip(lower / units, upper / units, strict=True))
    minimize(scaled, start / units, jac=True, method="L-BFGS-B", bounds=within)
    return float(best[0]), np.array(best[1])


class Network:
    """Trips where every move is certain and nothing is discounted: one factorisation for all."""

    def __init__(self, journeys: Journeys) -> None:
        successors, self._reach = journeys.successors, journeys.reach
        assert successors is not None
        self._journeys = journeys
        # Pairs that lead to no goal at all are in nobody's way.
        kept = journeys.mdp.available & np.asarray(self._reach.any(axis=0))[successors]
        self._kept = kept
        self._from, self._actions = np.nonzero(kept)
        self._to = successors[kept]
        self._pair = np.zeros(kept.shape, np.int64)
        self._pair[kept] = np.arange(len(self._from))
        self._gains = journeys.space.tables[:, self._from, self._actions]

    def evaluate(
        self, x: np.ndarray, chosen: np.ndarray, *, detailed: bool = False
    ) -> tuple[Sums, np.ndarray]:
        """The `Sums` at x [D] of the chosen goals, and those whose z underflows, left out."""
        from scipy.sparse import coo_array, eye_array

        size, states = len(x), self._journeys.mdp.states
        chances = np.exp(x @ self._gains)
        ways = coo_array((chances, (self._from, self._to)), shape=(states, states))
        try:
            factors = Factors((eye_array(states) - ways).tocsc())
        except RuntimeError:  # exactly singular: the border of finite values
            return nothing(size, np.inf), chosen[:0]
        blocks = [chosen[k : k + TOGETHER] for k in range(0, len(chosen), TOGETHER)]
        parts = side_by_side(lambda b: self._block(chances, factors, b, detailed), blocks)
        small = np.concatenate([left for _, left in parts])
        return added([part for part, _ in parts], size), small

    def _block(
        self, chances: np.ndarray, factors: Factors, chosen: np.ndarray, detailed: bool
    ) -> tuple[Sums, np.ndarray]:
        """The `Sums` of some goals, and those whose z underflows, left out."""
        from scipy.sparse import csr_array

        j, size, every = self._journeys, self._journeys.space.size, np.arange(len(chosen))
        goals, shape = j.goals[chosen], (j.mdp.states, len(chosen))
        reach = self._reach[chosen].T
        unit = np.zeros(shape)
        unit[goals, every] = 1.0
        z = factors.solve(unit)
        with np.errstate(all="ignore"):
            z = np.where(reach, z / z[goals, every], 0.0)
        if not (z >= 0.0).all():  # nor where it is NaN: no finite value at these weights
            return nothing(size, np.inf), chosen[:0]
        trips, own = slices(j.begins, chosen)
        likely = z[j.origins[trips], own]
        small = np.isin(every, own[likely < LEAST])
        if small.any():
            if small.all():
                return nothing(size), chosen
            found, _ = self._block(chances, factors, chosen[~small], detailed)
            return found, chosen[small]
        loss = float(np.log(likely).sum())
        number = np.bincount(own, minlength=len(chosen)).astype(float)
        weights = np.zeros(shape)
        np.add.at(weights, (j.origins[trips], own), 1.0 / likely)
        # What arrives goes on in I - M, not in a trip: it is taken out at the goal.
        weights[goals, every] -= number
        y = np.maximum(np.where(reach, factors.solve(weights, transposed=True), 0.0), 0.0)
        y[goals, every] = 0.0
        flow = chances[:, None] * y[self._from] * z[self._to]
        safe = np.where(z > 0, z, 1.0)
        scores = np.empty((size, len(self._from), len(chosen)))
        for d, gains in enumerate(self._gains):
            moves = (chances * gains, (self._from, self._to))
            slope = csr_array(moves, shape=(j.mdp.states,) * 2) @ z
            slope[goals, every] = 0.0
            slope = factors.solve(slope)
            slope = np.where(z > 0, (slope - z * slope[goals, every]) / safe, 0.0)
            scores[d] = gains[:, None] + slope[self._to] - slope[self._from]
        rows, column = slices(j.steps, chosen)
        visits = np.zeros(shape)
        np.add.at(visits, (j.states[rows], column), 1.0)
        policy = chances[:, None] * z[self._to] / safe[self._from]
        pairs = self._pair[j.states[rows], j.actions[rows]]
        curvature, used = products(scores, flow), np.zeros(self._kept.shape)
        used[self._kept] = flow.sum(axis=1)
        spent = self._gains @ used[self._kept]
        told = UNASKED
        if detailed:
            at, own = self._pair[j.states[rows]], column[:, None]
            likely = np.where(self._kept[j.states[rows]], policy[at, own], 0.0)
            told = likely, np.where(likely > 0, scores[:, at, own], 0.0).transpose(1, 2, 0)
        return Sums(
            loss=loss,
            gradient=spent,
            curvature=curvature,
            fisher=products(scores, visits[self._from] * policy),
            spent=spent + paid(j.mdp, j.space.tables, goals) @ number,
            reaction=curvature,
            flows=used,
            scores=scores[:, pairs, column].T,
            rows=rows,
            policy=told[0],
            advantages=told[1],
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
