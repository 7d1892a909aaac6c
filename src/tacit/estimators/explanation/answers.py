"""Exact answers to linear questions about all explanations at once.

Weights are amounts in a gauge, that is ratios of linear forms over the cone. The largest value of
such a ratio is found by Dinkelbach's method: maximise numerator - level * denominator, raise the
level to the ratio of the corner found, and stop when nothing is left to gain. Each step is a linear
program over the SAME polytope (amounts that sum to one), so each starts from the last corner.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.engine.progress import pursue
from tacit.errors import InvalidModel
from tacit.estimators.explanation.cone import CanonicalColumns, ExplanationCone, cone
from tacit.estimators.explanation.program import Program
from tacit.inference.sets import Ends
from tacit.model.arguments import numbers
from tacit.model.mdp import MDP

# Amounts are of order one at a corner, or zero: less than this is what broken inequalities allow.
NOTHING = 1e-7
# Gains below this, relative to the terms they are the difference of, are none.
GAIN = 1e-9
# Ratios closer than this, relative to their size, are the same.
SAME_RATIO = 1e-10
STEPS = 60
# An explanation can be scaled up to amounts of sum one, and rounding cannot: what lies between?
EXISTS = 1e-4
# Singular values of the columns below this, relative to the largest, are 0: columns cancel.
INERT_RANK = 1e-9
# Amounts of what does not cancel that count as more than rounding.
TRIVIAL = 1e-7
# A ratio this small beside a negative one is what inequalities broken by rounding make of 0.
ROUNDING = 1e-6
# At a ratio of 0 both terms vanish, and the largest coefficient is the scale: up to this share.
STEEPEST = 1e-7
# Reward features of undecided sign up to which all signs are tried.
SIGNS = 6


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to questions about all explanations, in a form that a file can keep.

    Attributes:
        mdp: the model.
        columns: what explanations are made of.
        observed: [S, A] bool, the pairs that were demonstrated.
        tolerance: by how much an inequality may be broken, amounts summing to one.
    """

    mdp: MDP
    columns: CanonicalColumns
    observed: np.ndarray
    tolerance: float

    @cached_property
    def cone(self) -> ExplanationCone:
        """The set of explanations."""
        return cone(self.mdp, self.columns.tables, self.observed)

    @cached_property
    def program(self) -> Program:
        """The linear program, kept between answers."""
        return Program(self.cone, tolerance=self.tolerance)

    @cached_property
    def corners(self) -> list[np.ndarray]:
        """[C] amounts of every corner met so far: where the next question may start."""
        return []

    def afresh(self, columns: CanonicalColumns | None = None) -> Answers:
        """The same with nothing asked yet: an answer must not depend on what was asked before.

        Or about the same columns in other units.
        """
        other = replace(self, columns=columns or self.columns)
        vars(other)["cone"] = self.cone
        return other

    def __getstate__(self) -> dict[str, object]:
        # A program of HiGHS cannot be copied or sent; it is built again when asked.
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def __call__(
        self, reward_direction: npt.ArrayLike, cost_directions: Iterable[npt.ArrayLike] = ()
    ) -> tuple[float, float]:
        """The least and largest reward_direction . theta_r + sum_k cost_directions[k] . theta_k.

        theta_r are the reward weights in the gauge, theta_k = multiplier * weights of constraint k.
        """
        directions = self._directions(reward_direction, cost_directions)
        asks, norm = self.columns.asks(directions), self.columns.norm(0)
        ends = [-self.most(-asks, norm), self.most(asks, norm)]
        touched = [d[silent] for d, silent in zip(directions, self.columns.inert, strict=True)]
        # An inert reward feature could have all of the norm, and leave nothing to the others and
        # their prices; an inert cost could have any weight.
        if len(touched[0]):
            alone = [*touched[0], *(-touched[0] if self.columns.free_reward else ())]
            ends = [np.fmin(ends[0], min(alone)), np.fmax(ends[1], max(alone))]
        for part in touched[1:]:
            ends = [
                -np.inf if (part < 0).any() else ends[0],
                np.inf if (part > 0).any() else ends[1],
            ]
        return float(ends[0]), float(ends[1])

    def most(self, asks: np.ndarray, norm: np.ndarray) -> float:
        """The supremum of asks [C] . y / norm [C] . y over explanations whose norm is not 0.

        NaN if there is none; infinite if the norm can be 0 while the numerator is positive.
        """
        known = self._known_ratios(asks, norm) or self._first_ratio(asks, norm)
        if not known:
            return np.nan
        best = max(known)[0]
        # For rewards of free sign the norm is convex, not linear: only a level >= 0 is a program.
        found = self._climb(asks, norm, max(best, 0.0) if self._signed(norm) else best)
        if self._signed(norm) and found <= ROUNDING * -best:
            return self._over_signs(asks, norm)
        return found

    def _signed(self, norm: np.ndarray) -> bool:
        return self.columns.free_reward and bool((norm[self.columns.block == 0] > 0).any())

    def exists(self) -> bool:
        """Whether there is any explanation but none of everything."""
        costs = (self.columns.block > 0).astype(float)
        for asks in (*self.columns.reward_probes(), costs):
            if asks @ self._corner(asks) > EXISTS:
                return True
        return False

    def only_trivial(self) -> bool:
        """Whether every explanation makes all actions equally good everywhere.

        Such a Lagrangian reward is one that no policy can influence: its columns cancel.
        """
        tables = self.cone.tables.reshape(self.cone.width, -1)
        _, sizes, directions = np.linalg.svd(tables.T, full_matrices=False)
        for direction in directions[sizes > INERT_RANK * sizes.max(initial=0.0)]:
            for side in (direction, -direction):
                if side @ self._corner(side) > TRIVIAL:
                    return False
        return True

    def _climb(self, asks: np.ndarray, norm: np.ndarray, level: float) -> float:
        for _ in range(STEPS):
            gain = asks - level * norm
            # Gains are judged on the scale of what the two terms are worth at the level's corner.
            known = self._known_ratios(asks, norm)
            nearest = min(known, key=lambda pair: abs(pair[0] - level), default=(0.0, 0.0))
            size = max(nearest[1], STEEPEST * float(np.abs(gain).max(initial=0.0))) or 1.0
            amounts = self._corner(gain / size)
            # A gain can be scaled up to amounts of sum one: one that was not is rounding.
            if gain @ amounts <= GAIN * size or amounts.sum() < 0.5:
                return level
            if amounts[norm > 0].sum() <= NOTHING:
                return np.inf
            ratio = float(asks @ amounts / (norm @ amounts))
            if ratio <= level + SAME_RATIO * abs(level):
                return level
            level = ratio
        return level

    def _over_signs(self, asks: np.ndarray, norm: np.ndarray) -> float:
        """The same where it is negative: the largest over all signs that rewards can have."""
        reward = self.columns.block == 0
        possible = np.ones(len(norm), bool)
        for j in np.flatnonzero(reward):
            twin = reward & (self.columns.feature == self.columns.feature[j])
            side = np.where(twin, np.sign(self.columns.units), 0.0) * np.sign(self.columns.units[j])
            possible[j] = side @ self._corner(side) > NOTHING
        choices = []
        for j in np.unique(self.columns.feature[reward]):
            pair = np.flatnonzero(reward & (self.columns.feature == j))
            choices.append([i for i in pair if possible[i]] or [pair[0]])
        if np.prod([float(len(c)) for c in choices]) > 2.0**SIGNS:
            return 0.0  # too many signs to try: a bound, not the supremum
        found = []
        for chosen in product(*choices):
            allowed = ~reward
            allowed[list(chosen)] = True
            self.program.allow(allowed)
            amounts = self._corner(np.where(allowed, norm, 0.0))
            if amounts[norm > 0].sum() > NOTHING:
                found.append(self._climb(asks, norm, float(asks @ amounts / (norm @ amounts))))
        self.program.allow(np.ones(len(norm), bool))
        return max(found, default=0.0)

    def _corner(self, objective: np.ndarray) -> np.ndarray:
        """[C] amounts at which objective [C] . amounts is largest; remembered."""
        full = np.zeros(self.cone.size)
        full[: len(objective)] = objective
        amounts = self.program.maximise(full)[: len(objective)]
        if amounts.sum() > 0.5:
            self.corners.append(amounts)
        return amounts

    def _first_ratio(self, asks: np.ndarray, norm: np.ndarray) -> list[tuple[float, float]]:
        """Known ratios after looking for an explanation whose norm is not 0; empty if none has."""
        plain = [norm / (norm.max(initial=0.0) or 1.0)]
        tries = self.columns.reward_probes() if self._signed(norm) else plain
        for objective in tries:
            self._corner(objective)
            if known := self._known_ratios(asks, norm):
                return known
        return []

    def _known_ratios(self, asks: np.ndarray, norm: np.ndarray) -> list[tuple[float, float]]:
        """(ratio, size of its terms) at every known corner whose norm is not 0."""
        if not self.corners:
            return []
        found = np.stack(self.corners)
        counted = norm > 0
        if self._signed(norm):  # a feature and its negative cancel, and leave no norm
            sides = np.where(counted, np.sign(self.columns.units), 0.0)
            net = np.zeros((len(found), self.columns.sizes[0]))
            for j in np.flatnonzero(counted):
                net[:, self.columns.feature[j]] += sides[j] * found[:, j]
            found = found[np.abs(net).sum(axis=1) > NOTHING]
        else:
            found = found[found[:, counted].sum(axis=1) > NOTHING]
        ratios = (found @ asks) / (found @ norm)
        sizes = found @ np.abs(asks) + np.abs(ratios) * (found @ norm)
        return list(zip(ratios.tolist(), sizes.tolist(), strict=True))

    def _directions(
        self, reward: npt.ArrayLike, costs: Iterable[npt.ArrayLike] | None
    ) -> tuple[np.ndarray, ...]:
        """One direction a map, checked."""
        given = list(() if costs is None else costs)
        sizes = self.columns.sizes
        if len(given) != len(sizes) - 1:
            raise InvalidModel(
                f"cost_directions must hold one vector per constraint ({len(sizes) - 1}); "
                f"got {len(given)}"
            )
        names = ["reward_direction", *(f"cost_directions[{k}]" for k in range(len(given)))]
        found = tuple(map(numbers, [reward, *given], names))
        for name, array, size in zip(names, found, sizes, strict=True):
            if array.shape != (size,) or not np.isfinite(array).all():
                raise InvalidModel(f"{name} must hold {size} finite numbers; got {array!r:.60}")
        return found


# Numbers asked for with one program.
GROUP = 8


class Asked(NamedTuple):
    """How far the questions have come: [N, 2] ends, NaN where not asked yet."""

    groups: int
    ends: np.ndarray
    programs: int


class AskedNumber(NamedTuple):
    """A number: between the least of `low` [C] and the largest of `high` [C], over `norm` [C]."""

    low: np.ndarray
    high: np.ndarray
    norm: np.ndarray


def intervals(answers: Answers, ranges: list[np.ndarray]) -> tuple[Ends, int]:
    """The `Ends` of all numbers, and the linear programs solved for them.

    An inert feature could have any weight; the others are given as if it had none: `Ends.beside`
    widens them. The budgets need `ranges`, one [D_k, 2] per constraint: of expectations of its
    features.
    """
    columns = answers.columns
    listed = _weights(answers)
    for k in range(columns.constraints):
        listed += _of_constraint(answers, k, ranges)
    found = _answered(answers, listed)
    ends = iter(found.ends)
    maps = []
    for block, silent in enumerate(columns.inert):
        least = -1.0 if block == 0 and columns.free_reward else 0.0
        part = np.array([(least, 1.0) if quiet else next(ends) for quiet in silent])
        # Rounding must not carry a weight beyond what a weight can be, nor make 0 negative.
        maps.append(np.clip(part.reshape(-1, 2), least, 1.0) + 0.0)
    # What a callback stopped has asked nothing, and so says nothing.
    unasked = np.nan if found.groups * GROUP < len(listed) else 0.0
    multipliers = np.full((columns.constraints, 2), unasked)
    budgets = np.full((columns.constraints, 2), np.nan)
    for k in range(columns.constraints):
        budgets[k], price = next(ends), next(ends)
        if np.isnan(budgets[k, 1]):
            continue  # no explanation has a price for it
        # Without any reward in any explanation, a price in rewards is infinite.
        multipliers[k] = (np.inf, np.inf) if np.isnan(price[1]) else (abs(price[0]), price[1])
    return Ends(maps[0], maps[1:], multipliers, budgets), found.programs


def _answered(answers: Answers, listed: list[AskedNumber]) -> Asked:
    """The ends of all numbers, a group at a time."""

    def further(asked: Asked, until: int | None) -> Asked:
        while asked.groups * GROUP < len(listed) and (until is None or asked.groups < until):
            own = answers.afresh()
            ends = asked.ends.copy()
            first = asked.groups * GROUP
            for i, number in enumerate(listed[first : first + GROUP], start=first):
                ends[i, 0] = 0.0 - _most(own, -number.low, number.norm)
                ends[i, 1] = _most(own, number.high, number.norm)
            asked = Asked(asked.groups + 1, ends, asked.programs + own.program.solved)
        return asked

    mdp, count = answers.mdp, len(listed)
    return pursue(
        "intervals",
        Asked(0, np.full((count, 2), np.nan), 0),
        further,
        step=lambda asked: asked.groups,
        numbers=lambda asked: {"of": float(-(-count // GROUP))},
        inputs=(
            mdp.transitions,
            answers.columns.tables,
            answers.observed,
            answers.tolerance,
            listed,
        ),
    )


def _most(answers: Answers, asks: np.ndarray, norm: np.ndarray) -> float:
    """The largest asks . amounts over norm . amounts, where some of `asks` [C] may be infinite."""
    endless = np.isposinf(asks)
    if endless.any():
        if answers.most(endless.astype(float), norm) > NOTHING:
            return np.inf
        asks = np.where(endless, 0.0, asks)
    return answers.most(asks, norm)


def _weights(answers: Answers) -> list[AskedNumber]:
    """Every weight of every map that is not inert."""
    columns, listed = answers.columns, []
    for block, silent in enumerate(columns.inert):
        norm = columns.norm(block)
        for j in np.flatnonzero(~silent):
            asks = _asks(answers, block, np.eye(len(silent))[j])
            listed.append(AskedNumber(asks, asks, norm))
    return listed


def _of_constraint(answers: Answers, k: int, ranges: list[np.ndarray]) -> list[AskedNumber]:
    """The budget and the multiplier of a constraint."""
    own = answers.columns.norm(k + 1)
    low, high = (_asks(answers, k + 1, ranges[k][:, end]) for end in (0, 1))
    return [AskedNumber(low, high, own), AskedNumber(own, own, answers.columns.norm(0))]


def _asks(answers: Answers, block: int, direction: np.ndarray) -> np.ndarray:
    """[C] the question `direction` . weights of one map."""
    zero = [np.zeros(size) for size in answers.columns.sizes]
    zero[block] = direction
    return answers.columns.asks(tuple(zero))
