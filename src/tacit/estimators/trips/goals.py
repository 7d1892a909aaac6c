"""The likelihood of trips in logarithms: goals as columns of one table, or world by world.

For every goal the values are the fixed point V = logsumexp(u + discount * P V), found by Newton's
method. Goals differ in where trips end and in what leads there, not in the moves: backups of all
goals are one sparse product, and the systems of all policies, which have one pattern, are
eliminated side by side, a lane a goal. A goal whose values are not found so, and goals whose
pattern fills in, have a world of their own, in which nothing but the goal ends a trip.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from tacit.engine import DIVERGED, LONGEST, STEADY
from tacit.engine.backends import side_by_side
from tacit.errors import InvalidModel
from tacit.estimators.trips.flows import (
    Network,
    Pattern,
    Sums,
    Systems,
    added,
    nothing,
    products,
    slices,
)
from tacit.estimators.trips.world import Journeys, Trips, at_ends, between, paid, trimmed
from tacit.forward.solution import visitation
from tacit.likelihood.start import by_number, number_of
from tacit.likelihood.steps import StepsChain, information
from tacit.model.features import Map
from tacit.model.mdp import MDP, outside_policy
from tacit.search.smooth_dual import VALUE_CARE

# Bytes of worlds kept from one evaluation to the next.
KEPT = 2**28
# Bytes of the factors of goals that are eliminated side by side, and the most of them.
WIDE, LANES = 2**24, 32
# Multiplications of one elimination, as a multiple of the moves and of the root of the states: in
# the plane it is below 1, and a Krylov method grows alike. Beyond it goals are taken one by one.
FILL = 3.0
# Newton steps before a goal gets a world of its own.
STEPS = 40
# Tolerance of the values of trips that are only planned.
PLANNED = 1e-9
# What a solved system may leave of its right side, relative to the size of its solution.
TRUE = 1e-9


class GoalSteps(NamedTuple):
    """What was seen of the trips to a goal; of several, one after the other on a last axis."""

    open: np.ndarray  # [S, A] bool, the pairs that leave a sure way
    start: np.ndarray  # [S] weights of the values in the loss
    origins: np.ndarray  # [S] trips that begin there
    visits: np.ndarray  # [S] steps taken there

    @property
    def ends(self) -> np.ndarray:
        """[S] bool, the goal, and states without a way there."""
        return np.asarray(~self.open.any(axis=1))


class Level(NamedTuple):
    """The values of some goals at x, a column a goal."""

    values: np.ndarray  # [S, n]
    policy: np.ndarray  # [S, A, n]; 0 at ends
    systems: Systems
    found: np.ndarray  # [n] bool, whether these are the values


class Columns:
    """Trips of any kind: the values of many goals at once, in logarithms."""

    def __init__(self, journeys: Journeys, tolerance: float) -> None:
        self._journeys, self._tolerance = journeys, tolerance
        self._pattern = Pattern(journeys)
        tables = journeys.space.tables
        self._paid = paid(journeys.mdp, tables, np.arange(journeys.mdp.states))
        self._tables = np.moveaxis(tables, 0, -1)  # [S, A, D]
        self._lanes = int(np.clip(WIDE // (8 * self._pattern.size), 4, LANES))

    @property
    def usable(self) -> bool:
        """Whether elimination side by side is worth it."""
        pattern = self._pattern
        return pattern.usable and pattern.work <= FILL * pattern.moves.nnz * pattern.states**0.5

    def blocks(self, chosen: np.ndarray) -> list[np.ndarray]:
        """The goals that are treated together."""
        return [chosen[k : k + self._lanes] for k in range(0, len(chosen), self._lanes)]

    def level(self, x: np.ndarray, seen: GoalSteps, guess: np.ndarray) -> Level:
        """The values at x [D], by Newton's method from a guess [S, n]."""
        pattern, ends = self._pattern, seen.ends
        reward = (self._tables @ x)[:, :, None]
        arrival = np.where(ends, (x @ self._paid)[:, None], 0.0)
        unit = np.abs(reward[seen.open.any(axis=2)]).max(initial=0.0) + np.abs(arrival).max() + 1.0
        size = unit + np.log(1.0 + reward.shape[1])
        values, found, before = guess, np.zeros(seen.open.shape[2], bool), np.inf
        policy, systems = np.zeros(seen.open.shape), None
        for _ in range(STEPS):
            with np.errstate(all="ignore"):  # on the way to infinite values
                utility = np.where(seen.open, reward + pattern.later(values), -np.inf)
                best = np.where(ends, 0.0, utility.max(axis=1))
                chances = np.exp(utility - best[:, None])
                total = np.where(ends, 1.0, chances.sum(axis=1))
                policy = chances / total[:, None]
                gap = np.where(ends, arrival, best + np.log(total)) - values
                systems = Systems(pattern, policy)
                right = np.stack([gap, np.ones_like(gap)], axis=1)
                solved = systems.solve(right)
                after = (policy[:, :, None] * pattern.later(solved)).sum(axis=1)
                left = np.abs(right + after - solved).max(axis=0)  # the true residuals
                step, lengths = solved[:, 0], np.abs(solved[:, 1]).max(axis=0)
                error, move = np.abs(gap).max(axis=0), np.abs(step).max(axis=0)
                largest = np.abs(values).max(axis=0)
                # A residual e moves the values by e times the length of a trip.
                target = np.maximum(VALUE_CARE * self._tolerance / lengths, 4e-16 * lengths * size)
                stuck = (error > 0.5 * before) & (error < 1e3 * target)
                sound = (left[1] <= TRUE * lengths) & (left[0] <= TRUE * move + 1e-14 * size)
                sound &= (lengths <= LONGEST) & (largest <= DIVERGED * unit)
                sound &= move <= STEADY * (largest + unit)
                found = ((error <= target) | stuck) & sound
                going = ~found & np.isfinite(move) & (largest <= DIVERGED * unit)
                if not going.any():
                    break
                values, before = np.where(going, values + step, values), error
        assert systems is not None
        return Level(values, policy, systems, found)

    def sums(
        self, goals: np.ndarray, seen: GoalSteps, level: Level, *, detailed: bool
    ) -> tuple[Sums, np.ndarray]:
        """The `Sums` of these goals, and [S, D, n] the derivatives of their values."""
        j, pattern, ends, policy = self._journeys, self._pattern, seen.ends, level.policy
        average = np.einsum("san,sad->sdn", policy, self._tables)
        average = np.where(ends[:, None], self._paid.T[:, :, None], average)
        slopes = level.systems.solve(average)  # [S, D, n]
        sides = np.stack([seen.start, seen.origins], axis=1)
        visits = level.systems.solve(sides, transposed=True)
        scores = self._tables[..., None] + pattern.later(slopes) - slopes[:, None]  # [S, A, D, n]
        scores = np.where(seen.open[:, :, None], scores, 0.0)
        # A table that shifts all values alike moves no action: what is left of it is rounding.
        largest = np.abs(slopes).max(axis=0)
        inert = np.abs(scores).max(axis=(0, 1)) <= 1e-12 * largest
        gradient = np.einsum("sdn,sn->dn", slopes, seen.start)
        little = np.abs(gradient) <= 1e-11 * largest * np.abs(seen.start).sum(axis=0)
        gradient = np.where(inert & little, 0.0, gradient)
        curving = np.moveaxis(np.where(inert, 0.0, scores), 2, 0)
        weights = np.where(visits[:, 0] > 0, visits[:, 0], seen.visits)
        reached = np.where(ends, 0.0, np.maximum(visits[:, 1], 0.0))
        scores = np.moveaxis(scores, 2, 0)  # [D, S, A, n]
        steps, own = slices(j.steps, goals)
        at, done = j.states[steps], j.actions[steps]
        told = {}
        if detailed:
            every = scores[:, at, :, own].transpose(0, 2, 1)
            told = {"policy": policy[at, :, own], "advantages": every}
        return Sums(
            loss=float((seen.start * level.values).sum()),
            gradient=gradient.sum(axis=1),
            curvature=products(curving, weights[:, None] * policy),
            fisher=products(scores, seen.visits[:, None] * policy),
            spent=np.einsum("sdn,sn->d", slopes, seen.origins),
            reaction=products(scores, reached[:, None] * policy),
            flows=(reached[:, None] * policy).sum(axis=2),
            scores=scores[:, at, done, own].T,
            rows=steps,
            **told,
        ), slopes


class Goals:
    """Dynamics of trips: one factorisation for all goals or, where that will not do, logarithms.

    Values in logarithms are sought from those found before: of many goals at once, or of each.
    """

    def __init__(self, journeys: Journeys, tolerance: float) -> None:
        self.journeys = self._journeys = journeys
        self._tolerance = tolerance
        plain = journeys.certain and journeys.discount == 1.0
        self._network = Network(journeys) if plain else None
        self._told: tuple[tuple[bytes, bytes], Sums] | None = None  # the last asked in detail
        moves = journeys.mdp.transitions.probabilities
        self._most = KEPT // max(1, 32 * moves.size)
        self._kept: dict[int, StepsChain] = {}
        self._seen: dict[int, GoalSteps] = {}
        self._points: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    @cached_property
    def columns(self) -> Columns | None:
        """Many goals at once, unless their systems fill in."""
        found = Columns(self._journeys, self._tolerance)
        return found if found.usable else None

    def seen(self, i: int) -> GoalSteps:
        """What was seen of the trips to goal i."""
        if i in self._seen:
            return self._seen[i]
        j = self._journeys
        rows, origins = slice(j.steps[i], j.steps[i + 1]), j.starts(i)
        counts = np.zeros(j.mdp.available.shape)
        np.add.at(counts, (j.states[rows], j.actions[rows]), 1.0)
        visits = counts.sum(axis=1)
        start = visits - j.discount * j.mdp.inflow(counts)
        if not counts.any():  # trips that are only planned have no steps
            start = origins
        found = GoalSteps(trimmed(j.mdp, int(j.goals[i])), start, origins, visits)
        if len(self._seen) < self._most:
            self._seen[i] = found
        return found

    def alone(self, i: int) -> StepsChain:
        """The likelihood of the trips to goal i in a world of their own, nothing linear in it."""
        if i in self._kept:
            return self._kept[i]
        j, seen = self._journeys, self.seen(i)
        initial = seen.origins / seen.origins.sum()
        world = MDP(j.mdp.transitions, initial, j.discount, available=seen.open)
        space = j.space.with_tables(at_ends(j.mdp, world, j.space.tables))
        chain = StepsChain(world, space, np.zeros(seen.open.shape), seen.start, visits=seen.visits)
        if len(self._kept) < self._most:
            self._kept[i] = chain
        return chain

    def convex(self, i: int) -> bool:
        """Whether the likelihood of the trips to goal i is convex for certain."""
        seen = self.seen(i)
        return bool(seen.start[~seen.ends].min(initial=0.0) >= -1e-9 * seen.visits.sum())

    def _guess(self, x: np.ndarray, i: int) -> np.ndarray:
        """[S] the values of goal i at x [D], to first order from those found before."""
        if i not in self._points:
            return np.zeros(self._journeys.mdp.states)
        before, values, slopes = self._points[i]
        return values + (x - before) @ slopes

    def evaluate(
        self, x: np.ndarray, chosen: np.ndarray, *, detailed: bool = False, lean: bool = False
    ) -> Sums:
        """The `Sums` at x [D] of the chosen goals.

        Where it is asked to be detailed, with the policy at every step; lean, without second
        derivatives, where that is faster.
        """
        asked = x.tobytes(), chosen.tobytes()
        if detailed and self._told is not None and self._told[0] == asked:
            return self._told[1]
        parts, rest = [], chosen
        if self._network is not None:
            known, rest = self._network.evaluate(x, chosen, detailed=detailed, lean=lean)
            parts.append(known)
        if len(rest) and np.isfinite(sum(part.loss for part in parts)):
            parts.append(self._in_logarithms(x, rest, detailed=detailed))
        whole = added(parts, len(x))
        if detailed:
            self._told = asked, whole
        return whole

    def _in_logarithms(self, x: np.ndarray, chosen: np.ndarray, *, detailed: bool) -> Sums:
        """The `Sums` at x [D] of the chosen goals, none of them by the factorisation."""
        parts: list[Sums] = []

        def is_finite(found: list[tuple[list[Sums], np.ndarray]]) -> bool:
            for known, rest in found:
                parts.extend(known)
                for i in rest.tolist():
                    parts.append(self._goal(x, i, detailed))
                    if np.isinf(parts[-1].loss):
                        return False
            return True

        if len(chosen) < 2 or self.columns is None:
            whole = is_finite([([], chosen)])
        else:
            blocks = self.columns.blocks(chosen)
            # The first alone: where its values are not finite, nobody asks for the others.
            whole = is_finite([self._block(x, blocks[0], detailed)]) and is_finite(
                side_by_side(lambda block: self._block(x, block, detailed), blocks[1:])
            )
        return added(parts, len(x)) if whole else nothing(len(x), np.inf)

    def _block(
        self, x: np.ndarray, goals: np.ndarray, detailed: bool
    ) -> tuple[list[Sums], np.ndarray]:
        """The `Sums` of these goals, all at once, and those whose values are not found so."""
        assert self.columns is not None
        single = [self.seen(i) for i in goals.tolist()]
        seen = GoalSteps(*(np.stack(column, axis=-1) for column in zip(*single, strict=True)))
        guess = np.stack([self._guess(x, i) for i in goals.tolist()], axis=1)
        level = self.columns.level(x, seen, guess)
        if not level.found.all():
            kept = level.found
            if not kept.any():
                return [], goals
            found, rest = self._block(x, goals[kept], detailed)
            return found, np.concatenate([goals[~kept], rest])
        sums, slopes = self.columns.sums(goals, seen, level, detailed=detailed)
        if not (np.isfinite(sums.curvature).all() and np.isfinite(sums.reaction).all()):
            return [], goals
        for column, i in enumerate(goals.tolist()):
            self._points[i] = x, level.values[:, column], slopes[:, :, column].T
        return [sums], goals[:0]

    def _goal(self, x: np.ndarray, i: int, detailed: bool) -> Sums:
        j, chain = self._journeys, self.alone(i)
        near = chain.blank(x)._replace(values=self._guess(x, i))
        point = chain.at(x, near, self._tolerance)
        if not np.isfinite(point.loss):
            return nothing(len(x), np.inf)
        self._points[i] = x, np.asarray(point.values), np.asarray(point.table_values)
        scores, world = chain.scores(point), chain.mdp
        rows = np.arange(j.steps[i], j.steps[i + 1])
        # The world starts where the trips do.
        reached = visitation(world, outside_policy(world, point.policy))
        origins, at = j.starts(i), j.states[rows]
        told = {}
        if detailed:
            told = {"policy": point.policy[at], "advantages": scores[:, at].transpose(1, 2, 0)}
        return Sums(
            loss=float(chain.start @ point.values),
            gradient=np.asarray(point.gradient),
            curvature=np.asarray(point.curvature),
            fisher=information(scores, point.policy, chain.visits),
            spent=np.asarray(point.table_values @ origins),
            reaction=information(scores, point.policy, reached.sum(axis=1) * origins.sum()),
            flows=np.where(world.ends[:, None], 0.0, reached) * origins.sum(),
            scores=scores[:, at, j.actions[rows]].T,
            rows=rows,
            **told,
        )


def planned(journeys: Journeys, x: np.ndarray) -> tuple[np.ndarray, float]:
    """[S, A] expected uses by trips of which only origins and goals are given, and their worth.

    The worth is the sum of their values, in units of the noise; minus infinity where a value is
    not finite.

    Args:
        journeys: the trips, without steps.
        x: [D] the parameters.
    """
    whole = Goals(journeys, PLANNED).evaluate(x, np.arange(len(journeys.goals)))
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
