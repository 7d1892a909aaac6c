"""The likelihood of trips to many goals, in one network: all goals at once, or world by world.

Moves that are certain, and no discount: z = exp(V) of a goal g solves z = M z with z(g) = 1 and
M = exp(u), so one sparse factorisation of I - M serves every goal and every derivative. With G its
inverse, z = G[:, g] / G[g, g]. Where a trip's z underflows, moves are random or there is a
discount, every goal has a world of its own, in which nothing but the goal ends a trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tacit.engine.backends import backend_of
from tacit.engine.backends.host import Factors
from tacit.engine.process import side_by_side
from tacit.engine.smooth_dual import Dual, Point, point_at
from tacit.forward.policies import visitation
from tacit.inverse.noisy.boltzmann import LARGEST, Fit
from tacit.inverse.noisy.coordinates import Coordinates
from tacit.inverse.noisy.inference import advantages, information
from tacit.model.ends import outside_policy
from tacit.model.mdp import MDP

# Goals treated together: their columns stay in the cache of a core.
TOGETHER = 32
# A trip's z below this is too close to where numbers end: values are then sought in logarithms.
LEAST = 1e-250
# Bytes of worlds kept from one evaluation to the next.
KEPT = 2**28


@dataclass(frozen=True, eq=False, kw_only=True)
class Journeys:
    """Steps of trips, goal by goal.

    Attributes:
        mdp: the network.
        discount: of the trips.
        space: the coordinates, rows of every goal as in the network.
        goals: [G] distinct goals; -1 for trips without one, which end where the network does.
        states: [N] where every step was taken, sorted by goal.
        actions: [N] what was done there.
        trips: [N] number of the trajectory.
        steps: [G + 1] goal i has the steps from steps[i] to steps[i + 1].
        origins: [T] first states of the trips, sorted by goal.
        begins: [G + 1] goal i has the trips from begins[i] to begins[i + 1].
    """

    mdp: MDP
    discount: float
    space: Coordinates
    goals: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    trips: np.ndarray
    steps: np.ndarray
    origins: np.ndarray
    begins: np.ndarray

    @cached_property
    def targets(self) -> np.ndarray:
        """[G, D] sums of the features over the steps to each goal."""
        rows = self.space.tables[:, self.states, self.actions]
        return np.add.reduceat(rows, self.steps[:-1], axis=1).T

    @cached_property
    def successors(self) -> np.ndarray | None:
        """[S, A] the next states where every available move is certain, else None."""
        moves = self.mdp.transitions
        best = moves.probabilities.argmax(axis=2)[..., None]
        sure = np.take_along_axis(moves.probabilities, best, axis=2)[..., 0] == 1.0
        if not sure[self.mdp.available].all():
            return None
        return np.take_along_axis(moves.states, best, axis=2)[..., 0]

    @cached_property
    def reach(self) -> np.ndarray:
        """[G, S] bool, the states that have a way to each goal, of moves that are certain."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, connected_components

        assert self.successors is not None
        states, at = self.mdp.states, np.nonzero(self.mdp.available)[0]
        moves = (np.ones(len(at)), (self.successors[self.mdp.available], at))
        graph = csr_array(moves, shape=(states, states))
        _, parts = connected_components(graph, connection="strong")
        found, reach = {}, np.zeros((len(self.goals), states), bool)
        for i, goal in enumerate(self.goals.tolist()):
            if parts[goal] not in found:  # one search serves all goals that reach each other
                found[parts[goal]] = breadth_first_order(graph, goal, return_predecessors=False)
            reach[i, found[parts[goal]]] = True
        return reach

    @cached_property
    def choices(self) -> np.ndarray:
        """[N, A] bool, the actions that there were on the way to the goal, at every step."""
        if self.successors is not None and self.goals[0] >= 0:
            own = np.repeat(np.arange(len(self.goals)), np.diff(self.steps))
            on_the_way = self.reach[own[:, None], self.successors[self.states]]
            return self.mdp.available[self.states] & on_the_way
        there = np.empty((len(self.states), self.mdp.actions), bool)
        for i, goal in enumerate(self.goals.tolist()):
            rows = slice(self.steps[i], self.steps[i + 1])
            there[rows] = trimmed(self.mdp, goal)[self.states[rows]]
        return there

    def starts(self, i: int) -> np.ndarray:
        """[S] how many trips to goal i begin in each state."""
        begun = self.origins[self.begins[i] : self.begins[i + 1]]
        return np.bincount(begun, minlength=self.mdp.states).astype(float)


def trimmed(mdp: MDP, goal: int) -> np.ndarray:
    """[S, A] bool, the pairs of a trip to this goal: those that leave a sure way there.

    A state that has none is left out with all pairs that may lead to it, until nothing changes.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    there = mdp.available.copy()
    if goal < 0:
        return there
    there[goal] = False
    moves, positive = mdp.transitions.states, mdp.transitions.probabilities > 0
    while True:
        at = np.nonzero(positive & there[:, :, None])
        graph = csr_array((np.ones(len(at[0])), (moves[at], at[0])), shape=(mdp.states,) * 2)
        sure = np.zeros(mdp.states, bool)
        sure[breadth_first_order(graph, goal, return_predecessors=False)] = True
        kept = there & (sure[moves] | ~positive).all(axis=2) & sure[:, None]
        if (kept == there).all():
            return kept
        there = kept


def goal_world(mdp: MDP, goal: int, initial: np.ndarray, discount: float) -> MDP:
    """The `MDP` of a trip to this goal; states without a way there are ends nobody enters."""
    return MDP(mdp.transitions, initial, discount, available=trimmed(mdp, goal))


def paid(mdp: MDP, tables: np.ndarray, states: np.ndarray) -> np.ndarray:
    """[D, n] what the features [D, S, A] of these states are if the trip ends there.

    The arrival is no action: a feature that depends on what is done next is 0.
    """
    rows = tables[:, states]
    there = mdp.available[states] | mdp.ends[states][:, None]
    most = np.where(there, rows, -np.inf).max(axis=2)
    return np.where(most == np.where(there, rows, np.inf).min(axis=2), most, 0.0)


def at_ends(mdp: MDP, world: MDP, tables: np.ndarray) -> np.ndarray:
    """[D, S, A] the features of the network, rows of the world's ends as they are `paid`."""
    changed, ends = tables.copy(), np.flatnonzero(world.ends)
    changed[:, ends] = paid(mdp, tables, ends)[:, :, None]
    return changed


class Sums(NamedTuple):
    """Minus the log-likelihood of trips, without what is linear in x, and its derivatives."""

    loss: float  # infinite where the values of a goal are
    gradient: np.ndarray  # [D]
    curvature: np.ndarray  # [D, D]
    fisher: np.ndarray  # [D, D] information of the steps
    spent: np.ndarray  # [D] expected sums of the features, over all trips
    reaction: np.ndarray  # [D, D] its derivative
    scores: np.ndarray  # [n, D] of the steps
    rows: np.ndarray  # [n] their numbers


def _nothing(size: int, loss: float = 0.0) -> Sums:
    flat, square = np.zeros(size), np.zeros((size, size))
    none = np.zeros(0, np.int64)
    return Sums(loss, flat, square, square, flat, square, np.zeros((0, size)), none)


def added(parts: Sequence[Sums], size: int) -> Sums:
    """The `Sums` of all trips of the parts."""
    whole = [_nothing(size), *parts]
    sums = (sum(column[1:], start=column[0]) for column in list(zip(*whole, strict=True))[:6])
    scores = np.concatenate([part.scores for part in whole])
    return Sums(*sums, scores, np.concatenate([part.rows for part in whole]))  # type: ignore


class Network:
    """Trips where every move is certain and nothing is discounted: one factorisation for all."""

    def __init__(self, journeys: Journeys) -> None:
        successors, self._reach = journeys.successors, journeys.reach
        assert successors is not None
        self._journeys = journeys
        # Pairs that lead to no goal at all are in nobody's way.
        kept = journeys.mdp.available & np.asarray(self._reach.any(axis=0))[successors]
        self._from, self._actions = np.nonzero(kept)
        self._to = successors[kept]
        self._pair = np.zeros(kept.shape, np.int64)
        self._pair[kept] = np.arange(len(self._from))
        self._gains = journeys.space.tables[:, self._from, self._actions]

    def evaluate(self, x: np.ndarray, chosen: np.ndarray) -> tuple[Sums, np.ndarray]:
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
        parts = side_by_side(lambda some: self._block(chances, factors, some), blocks)
        small = np.concatenate([left for _, left in parts])
        return added([part for part, _ in parts], size), small

    def _block(
        self, chances: np.ndarray, factors: Factors, chosen: np.ndarray
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
            found, _ = self._block(chances, factors, chosen[~small])
            return found, chosen[small]
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
        curvature = _products(scores, flow)
        spent = self._gains @ flow.sum(axis=1)
        return Sums(
            loss=float(np.log(likely).sum()),
            gradient=spent,
            curvature=curvature,
            fisher=_products(scores, visits[self._from] * policy),
            spent=spent + paid(j.mdp, j.space.tables, goals) @ number,
            reaction=curvature,
            scores=scores[:, pairs, column].T,
            rows=rows,
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
        problem = Dual(
            start=counts.sum(axis=1) - j.discount * world.inflow(counts),
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

    def evaluate(self, x: np.ndarray, chosen: np.ndarray) -> Sums:
        """The `Sums` at x [D] of the chosen goals."""
        parts: list[Sums] = []
        for i in chosen.tolist():
            parts.append(self._goal(x, i))
            if np.isinf(parts[-1].loss):
                return _nothing(len(x), np.inf)
        return added(parts, len(x))

    def _goal(self, x: np.ndarray, i: int) -> Sums:
        j, (world, problem) = self._journeys, self.posed(i)
        point = self._point(world, problem, x, i)
        if not np.isfinite(point.loss):
            return _nothing(len(x), np.inf)
        fitted = Fit(problem, point, 1, self._tolerance)
        scores = advantages(world, Coordinates(problem.tables, *([None] * 4)), fitted)  # type: ignore
        rows = np.arange(j.steps[i], j.steps[i + 1])
        # The world starts where the trips do.
        reached = visitation(world, outside_policy(world, point.policy))
        origins = j.starts(i)
        return Sums(
            loss=float(problem.start @ point.values),
            gradient=np.asarray(point.gradient),
            curvature=np.asarray(point.curvature),
            fisher=information(scores, point.policy, problem.information),
            spent=np.asarray(point.table_values @ origins),
            reaction=information(scores, point.policy, reached.sum(axis=1) * origins.sum()),
            scores=scores[:, j.states[rows], j.actions[rows]].T,
            rows=rows,
        )
