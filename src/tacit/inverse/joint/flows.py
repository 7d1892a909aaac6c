"""The likelihood of trips to many goals, in one network: all goals at once, or world by world.

Moves that are certain, and no discount: z = exp(V) of a goal g solves z = M z with z(g) = 1 and
M = exp(u), so one sparse factorisation of I - M serves every goal and every derivative. With G its
inverse, z = G[:, g] / G[g, g]. Where a trip's z underflows, moves are random or there is a
discount, every goal has a world of its own, in which nothing but the goal ends a trip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from tacit.data.tally import Scatter
from tacit.engine import State, side_by_side
from tacit.engine.backends import Array, Factors, backend_of
from tacit.engine.smooth_dual import Dual, Point, point_at
from tacit.errors import InvalidModel
from tacit.forward.policies import visitation
from tacit.inverse.joint.trips import Journeys, Trips, at_ends, between, goal_world, paid
from tacit.inverse.noisy import by_number, number_of
from tacit.inverse.noisy.boltzmann import LARGEST, Fit
from tacit.inverse.noisy.coordinates import Coordinates
from tacit.inverse.noisy.inference import CLUSTERS, advantages, at_least, information
from tacit.model.features import Map
from tacit.model.mdp import MDP, outside_policy

# Goals treated together: their columns stay in the cache of a core.
TOGETHER = 32
# A trip's z below this is too close to where numbers end: values are then sought in logarithms.
LEAST = 1e-250
# Bytes of worlds kept from one evaluation to the next.
KEPT = 2**28


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


def _nothing(size: int, loss: float = 0.0) -> Sums:
    flat, square = np.zeros(size), np.zeros((size, size))
    none = np.zeros((0, size)), np.zeros(0, np.int64)
    return Sums(loss, flat, square, square, flat, square, np.zeros(()), *none, *UNASKED)


def added(parts: Sequence[Sums], size: int) -> Sums:
    """The `Sums` of all trips of the parts."""
    whole = [_nothing(size), *parts]
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
            return _nothing(size, np.inf), chosen[:0]
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
            return _nothing(size, np.inf), chosen[:0]
        trips, own = _slices(j.begins, chosen)
        likely = z[j.origins[trips], own]
        small = np.isin(every, own[likely < LEAST])
        if small.any():
            if small.all():
                return _nothing(size), chosen
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
        rows, column = _slices(j.steps, chosen)
        visits = np.zeros(shape)
        np.add.at(visits, (j.states[rows], column), 1.0)
        policy = chances[:, None] * z[self._to] / safe[self._from]
        pairs = self._pair[j.states[rows], j.actions[rows]]
        curvature, used = _products(scores, flow), np.zeros(self._kept.shape)
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
            fisher=_products(scores, visits[self._from] * policy),
            spent=spent + paid(j.mdp, j.space.tables, goals) @ number,
            reaction=curvature,
            flows=used,
            scores=scores[:, pairs, column].T,
            rows=rows,
            policy=told[0],
            advantages=told[1],
        ), chosen[:0]


def _slices(starts: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the chosen goals, and the place of each row's goal among the chosen."""
    lengths = starts[chosen + 1] - starts[chosen]
    places = np.repeat(np.arange(len(chosen)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + (starts[chosen] - before)[places], places


def _products(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[D, D] the weighted sum of products of scores [D, ...]."""
    flat = scores.reshape(len(scores), -1)
    return (flat * weights.ravel()) @ flat.T


class Worlds:
    """Trips of any kind: each goal's values by itself, in logarithms, from those found before."""

    def __init__(self, journeys: Journeys, tolerance: float) -> None:
        self._journeys, self._tolerance = journeys, tolerance
        moves = journeys.mdp.transitions.probabilities
        self._most = KEPT // max(1, 32 * moves.size)
        self._kept: dict[int, tuple[MDP, Dual]] = {}
        self._points: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def posed(self, i: int) -> tuple[MDP, Dual]:
        """The world of goal i, and its likelihood as a smooth dual."""
        if i in self._kept:
            return self._kept[i]
        j = self._journeys
        origins, rows = j.starts(i), slice(j.steps[i], j.steps[i + 1])
        world = goal_world(j.mdp, int(j.goals[i]), origins / origins.sum(), j.discount)
        flat = j.states[rows].astype(np.int64) * j.mdp.actions + j.actions[rows]
        counts = np.bincount(flat, minlength=j.mdp.states * j.mdp.actions)
        counts = counts.reshape(j.mdp.states, j.mdp.actions).astype(float)
        ones = np.ones(j.space.size)
        begun = counts.sum(axis=1) - j.discount * world.inflow(counts)
        problem = Dual(
            start=begun if counts.any() else origins,  # trips that are only planned have no steps
            discount=j.discount,
            temperature=1.0,
            base=np.zeros(counts.shape),
            tables=at_ends(j.mdp, world, j.space.tables),
            target=0.0 * ones,
            lower=-LARGEST * ones,
            upper=LARGEST * ones,
            ridge=0.0 * ones,
            unit=ones,
            scale=max(1.0, counts.sum()) * ones,
            information=counts.sum(axis=1),
        )
        if len(self._kept) < self._most:
            self._kept[i] = world, problem
        return world, problem

    def convex(self, i: int) -> bool:
        """Whether the likelihood of the trips to goal i is convex for certain."""
        world, problem = self.posed(i)
        within = problem.start[~world.ends]
        return bool(within.min(initial=0.0) >= -1e-9 * problem.information.sum())

    def _point(self, world: MDP, problem: Dual, x: np.ndarray, i: int) -> Point:
        """The `Point` at x [D], from the values that goal i had before."""
        guess = np.zeros(world.states)
        if i in self._points:
            before, values, slopes = self._points[i]
            guess = values + (x - before) @ slopes
        point = point_at(backend_of(world), problem, x, guess, self._tolerance)
        if np.isfinite(point.loss):
            self._points[i] = x, np.asarray(point.values), np.asarray(point.table_values)
        return point

    def evaluate(self, x: np.ndarray, chosen: np.ndarray, *, detailed: bool = False) -> Sums:
        """The `Sums` at x [D] of the chosen goals."""
        parts: list[Sums] = []
        for i in chosen.tolist():
            parts.append(self._goal(x, i, detailed))
            if np.isinf(parts[-1].loss):
                return _nothing(len(x), np.inf)
        return added(parts, len(x))

    def _goal(self, x: np.ndarray, i: int, detailed: bool) -> Sums:
        j, (world, problem) = self._journeys, self.posed(i)
        point = self._point(world, problem, x, i)
        if not np.isfinite(point.loss):
            return _nothing(len(x), np.inf)
        fitted = Fit(problem, point, 1, self._tolerance)
        scores = advantages(world, Coordinates(problem.tables, *([None] * 3), names=None), fitted)  # type: ignore
        rows = np.arange(j.steps[i], j.steps[i + 1])
        # The world starts where the trips do.
        reached = visitation(world, outside_policy(world, point.policy))
        origins, at = j.starts(i), j.states[rows]
        told = (point.policy[at], scores[:, at].transpose(1, 2, 0)) if detailed else UNASKED
        return Sums(
            loss=float(problem.start @ point.values),
            gradient=np.asarray(point.gradient),
            curvature=np.asarray(point.curvature),
            fisher=information(scores, point.policy, problem.information),
            spent=np.asarray(point.table_values @ origins),
            reaction=information(scores, point.policy, reached.sum(axis=1) * origins.sum()),
            flows=np.where(world.ends[:, None], 0.0, reached) * origins.sum(),
            scores=scores[:, at, j.actions[rows]].T,
            rows=rows,
            policy=np.asarray(told[0]),
            advantages=np.asarray(told[1]),
        )


def planned(journeys: Journeys, x: np.ndarray, tolerance: float = 1e-9) -> tuple[np.ndarray, float]:
    """[S, A] expected uses by trips of which only origins and goals are given, and their worth.

    The worth is the sum of their values, in units of the noise; minus infinity where a value is
    not finite.

    Args:
        journeys: the trips, without steps.
        x: [D] the parameters.
        tolerance: of the values, where they are sought world by world.
    """
    chosen, parts = np.arange(len(journeys.goals)), []
    certain = journeys.successors is not None and journeys.goals[0] >= 0
    if certain and journeys.discount == 1.0:
        known, chosen = Network(journeys).evaluate(x, chosen)
        parts.append(known)
    parts.append(Worlds(journeys, tolerance).evaluate(x, chosen))
    whole = added(parts, len(x))
    if np.isinf(whole.loss):
        return np.full(journeys.mdp.available.shape, np.nan), -np.inf
    return np.zeros(journeys.mdp.available.shape) + whole.flows, float(whole.loss)


def link_size(
    trips: Trips, coefficients: Mapping[str | int, float], *, name: str = "link size"
) -> Map:
    """[S, A, 1] how often a mean trip is expected to use every pair, at given coefficients.

    The attribute of Fosgerau, Frejinger and Karlstrom (2013) that corrects for routes which
    overlap, here the mean over the trips between all origins and goals.

    Args:
        trips: the network, its features, and the trips for their origins and goals.
        coefficients: {feature: coefficient} of the trips that are expected, in units of the noise,
            such as {"minutes": -1.0}; others are 0.
        name: of the feature.
    """
    ended = trips.goals >= 0
    seen = trips.demonstrations
    origins = seen.states[seen.offsets[:-1][ended]].astype(np.int64)
    task = trips.mdp, trips.features, cast("float", trips.discount)
    journeys, _ = between(*task, origins, trips.goals[ended])
    x, space = np.zeros(journeys.space.size), journeys.space
    for j, (one, value) in by_number(space, coefficients, "link_size").items():
        x[j] = number_of(f"link_size: {one}", value) * space.scales[j]
    flows, worth = planned(journeys, x)
    if np.isinf(worth):
        told = ", ".join(f"{one} {value:g}" for one, value in coefficients.items())
        raise InvalidModel(
            "link sizes need coefficients under which walking in circles does not pay; got "
            f"{told or 'none'}: make a cost of every step larger"
        )
    return Map(flows[..., None] / len(journeys.origins), name)
