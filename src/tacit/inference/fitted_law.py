"""The law of fitted coefficients within their bounds, and of any function of them.

Away from bounds the law is normal, and a function has an interval by the delta method. At a bound
the interval holds what the function, made linear, is wherever the likelihood ratio of one number
excludes nothing within the bounds. Where a function bends within the error it is evaluated at draws
of what would be fitted to other such data: the nearest points within the bounds to normal ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tacit.inference.boundary import Cone
from tacit.inference.tails import normal_tail, simulated_chance, student_quantile
from tacit.search.algebra import covariance_root
from tacit.search.operators import inverse_information

# Standard errors within which a bound cuts something off.
NEAR = 3.0
# Step of the central differences, in standard errors, and draws at which they are checked.
STEP, PROBES = 0.05, 16
# Root mean square of what a function may depart from its derivative, in its own standard errors.
BENT = 0.2
# Draws of the law, in antithetic pairs; the fewest, and the most numbers, that are kept of many.
DRAWS, FEWEST, MOST = 2000, 100, 2**26
# Relative change of a function that is more than rounding.
VISIBLE = 1e-7
# Weight of an equation against the information about it.
STIFF = 1e6
# Most by which a form is pressed against its bounds, beyond what it takes without; halvings.
PRESSED, HALVINGS = 1e4, 40

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class BoundedQuadratic:
    """y' matrix y over y that are at least 0 where one-sided.

    Attributes:
        matrix: [n, n].
        one_sided: [n] bool.
    """

    matrix: np.ndarray
    one_sided: np.ndarray

    def nearest(self, pulls: np.ndarray) -> np.ndarray:
        """[N, n] maxima of 2 y . pull - y' matrix y, for pulls [N, n]."""
        rest = (pulls - pulls @ self._inverse @ self.matrix)[:, self.one_sided]
        inside = self._cone.maxima(rest / self._units) / self._units
        found = (pulls - inside @ self.matrix[self.one_sided]) @ self._inverse
        found[:, self.one_sided] = inside
        return found

    def at(self, places: np.ndarray) -> np.ndarray:
        """[N] of places [N, n]."""
        return ((places @ self.matrix) * places).sum(axis=1)

    @cached_property
    def _inverse(self) -> np.ndarray:
        return inverse_information(self.matrix, ~self.one_sided)[0]

    @cached_property
    def _left(self) -> np.ndarray:
        """[k, k] of the one-sided numbers when the others adapt."""
        across = self.matrix[self.one_sided]
        return across[:, self.one_sided] - across @ self._inverse @ across.T

    @cached_property
    def _units(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diagonal(self._left), 1e-300))

    @cached_property
    def _cone(self) -> Cone:
        return Cone(self._left / np.outer(self._units, self._units))


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedLaw:
    """The law of the coefficients of a fit.

    Attributes:
        point: [P] coefficients of the fit.
        centre: [P] coefficients of the largest likelihood, bounds left aside.
        jacobian: [P, n] derivative of the coefficients in the numbers that were fitted.
        information: [n, n] of these numbers: the metric of what is nearest.
        covariance: [n, n] of these numbers, bounds left aside; 0 for those that do not move.
        room: [n] how far below 0 a number may move from the centre; infinite without a bound.
            A number with an upper bound counts downwards.
        lower: [P] smallest coefficients allowed.
        upper: [P] largest.
        blind: [B, P] directions that nothing is known of.
        limited: [L] numbers of coefficients that have a limit on one side alone.
        limits: [L] the limits.
        degrees: of freedom, where few individuals tell how it scatters; infinite for a normal law.
        absence: why there is no law; empty where there is one.
    """

    point: np.ndarray
    centre: np.ndarray
    jacobian: np.ndarray
    information: np.ndarray
    covariance: np.ndarray
    room: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    blind: np.ndarray
    limited: np.ndarray
    limits: np.ndarray
    degrees: float = np.inf
    absence: str = ""

    @cached_property
    def moving(self) -> np.ndarray:
        """[n] bool, the numbers that move."""
        return np.diagonal(self.covariance) > 0

    @cached_property
    def moves(self) -> np.ndarray:
        """[P, r] derivative of the coefficients in the numbers that move."""
        return self.jacobian[:, self.moving]

    @cached_property
    def one_sided(self) -> np.ndarray:
        """[r] bool, the moving numbers that a bound is near to."""
        return np.isfinite(self.room[self.moving])

    @property
    def near_bound(self) -> bool:
        """Whether a bound cuts something off."""
        return bool(self.one_sided.any())

    @cached_property
    def root(self) -> np.ndarray:
        """[r, r] root of the covariance of the numbers that move."""
        return covariance_root(self._own(self.covariance))

    def normal(self, count: int, seed: int = 0) -> np.ndarray:
        """[count, r] normal numbers, in antithetic pairs, of variance 1 also where they are few."""
        half = np.random.default_rng(seed).standard_normal((count // 2, len(self.root)))
        half /= np.sqrt((half**2).mean(axis=0))
        if np.isfinite(self.degrees):  # as many draws of what the variance may be
            scales = np.random.default_rng(seed + 1).chisquare(self.degrees, (len(half), 1))
            half *= np.sqrt(self.degrees / scales)
        return np.concatenate([half, -half])

    def draws(self, count: int, seed: int = 0) -> np.ndarray:
        """[count, P] coefficients as they would be fitted to other such data."""
        steps = self.normal(count, seed) @ self.root.T
        if self.near_bound:
            metric = BoundedQuadratic(self._own(self.information), self.one_sided)
            steps = metric.nearest((steps + self.shift) @ metric.matrix) - self.shift
        return self.within(self.centre + steps @ self.moves.T)

    def ends(self, slopes: np.ndarray, confidence: float) -> np.ndarray:
        """[m, 2] the least and largest of linear forms [m, P] of coefficients less the point.

        Among the coefficients within the bounds that are no further from the nearest to the centre
        than the quantile of one number.
        """
        quantile = float(student_quantile(self.degrees, 0.5 + 0.5 * confidence))
        errors = np.linalg.norm(slopes @ self.moves @ self.root, axis=1)
        if not self.near_bound:
            return quantile * np.outer(errors, [-1.0, 1.0])
        inverse = inverse_information(self._own(self.covariance), np.ones(len(self.root), bool))[0]
        region, nothing = BoundedQuadratic(inverse, self.one_sided), np.zeros((1, len(self.root)))
        least = region.at(region.nearest((nothing + self.shift) @ inverse) - self.shift)
        middle = slopes @ (self.centre - self.point)
        sides = []
        for side in (-1.0, 1.0):
            forms = side * slopes @ self.moves
            pressed = quantile / np.where(errors > 0, errors, 1.0)
            low, high = np.log(pressed), np.log(pressed * PRESSED)
            steps = np.zeros(forms.shape)
            for _ in range(HALVINGS):
                half = 0.5 * (low + high)
                pulls = self.shift @ inverse + np.exp(half)[:, None] * forms
                found = region.nearest(pulls) - self.shift
                inside = region.at(found) - least <= (1.0 + VISIBLE) * quantile**2
                steps = np.where(inside[:, None], found, steps)
                low, high = np.where(inside, half, low), np.where(inside, high, half)
            sides.append(middle + side * (forms * steps).sum(axis=1))
        return np.where(errors[:, None] > 0, np.stack(sides, axis=1), 0.0) + 0.0  # no -0

    def within(self, coefficients: np.ndarray) -> np.ndarray:
        """[..., P] the coefficients, moved to a bound that they are beyond."""
        return np.clip(coefficients, self.lower, self.upper)

    def limited_at(self, values: np.ndarray) -> FittedLaw:
        """The same with other values [L] of the coefficients that have a limit on one side."""
        point, centre = self.point.copy(), self.centre.copy()
        point[self.limited] = centre[self.limited] = values
        return replace(self, point=point, centre=centre)

    def joined(self, number: float, error: float) -> FittedLaw:
        """The same and one coefficient more, a share that is independent of the others."""
        from scipy.linalg import block_diag

        def with_one(matrix: np.ndarray, value: float) -> np.ndarray:
            return np.asarray(block_diag(matrix, [[value]]))

        precision = 1.0 / error**2 if error > 0 else 1.0
        return replace(
            self,
            point=np.append(self.point, number),
            centre=np.append(self.centre, number),
            jacobian=with_one(self.jacobian, 1.0),
            information=with_one(self.information, precision),
            covariance=with_one(self.covariance, error**2),
            room=np.append(self.room, number if number < NEAR * error else np.inf),
            lower=np.append(self.lower, 0.0),
            upper=np.append(self.upper, 1.0),
            blind=np.pad(self.blind, [(0, 0), (0, 1)]),
        )

    def beside(self, shared: np.ndarray) -> FittedLaw:
        """The same and r standard normal numbers more, of covariance [P, r] with the others."""
        from scipy.linalg import block_diag

        many = shared.shape[1]
        if not many:
            return self
        moving = np.diagonal(self.covariance) > 0
        across = np.linalg.pinv(self.jacobian) @ shared * moving[:, None]
        unit, open_ended = np.eye(many), np.full(many, np.inf)
        return replace(
            self,
            point=np.pad(self.point, (0, many)),
            centre=np.pad(self.centre, (0, many)),
            jacobian=block_diag(self.jacobian, unit),
            information=block_diag(self.information, unit),
            covariance=np.block([[self.covariance, across], [across.T, unit]]),
            room=np.append(self.room, open_ended),
            lower=np.append(self.lower, -open_ended),
            upper=np.append(self.upper, open_ended),
            blind=np.pad(self.blind, [(0, 0), (0, many)]),
        )

    @cached_property
    def shift(self) -> np.ndarray:
        """[r] what makes a one-sided number at least 0."""
        return np.where(self.one_sided, self.room[self.moving], 0.0)

    def _own(self, matrix: np.ndarray) -> np.ndarray:
        """[r, r] of a matrix [n, n], the rows of the numbers that move."""
        return matrix[np.ix_(self.moving, self.moving)]


@dataclass(frozen=True, eq=False)
class Spread:
    """How a function of the coefficients, [P] -> [m], scatters.

    Attributes:
        law: of the coefficients.
        values: [m] at the fit.
        slopes: [m, P] derivative; empty where it is not used.
        draws: [N, m] values at draws of the law; None where the function does not bend.
    """

    law: FittedLaw
    values: np.ndarray
    slopes: np.ndarray
    draws: np.ndarray | None = None

    @property
    def method(self) -> str:
        """How the interval is made: "delta", "profile" at a bound, "draws" of a bent function."""
        if self.draws is not None:
            return "draws"
        return "profile" if self.law.near_bound else "delta"

    @cached_property
    def is_open(self) -> np.ndarray:
        """[m] bool, whether the demonstrations leave the value open."""
        if self.draws is not None:
            return np.zeros(len(self.values), bool)
        moved = np.abs(self.slopes @ self.law.blind.T).max(axis=1, initial=0.0)
        return moved > VISIBLE * (1.0 + np.abs(self.values))

    @cached_property
    def errors(self) -> np.ndarray:
        """[m] standard errors; infinite where the value is open. Only draws know of bounds.

        Of draws they are half of what holds 68 %: a quotient may have no variance.
        """
        if self.draws is not None:
            low, high = self.interval(1.0 - 2.0 * float(normal_tail(1.0))).T
            return 0.5 * (high - low)
        errors = np.linalg.norm(self.slopes @ self.law.moves @ self.law.root, axis=1)
        return np.where(self.is_open, np.inf, errors)

    def part(self, rows: slice) -> Spread:
        """Of some of the values."""
        draws = None if self.draws is None else self.draws[:, rows]
        return Spread(self.law, self.values[rows], self.slopes[rows], draws)

    def interval(self, confidence: float) -> np.ndarray:
        """[m, 2] of this confidence."""
        if self.draws is not None:
            tails = [0.5 - 0.5 * confidence, 0.5 + 0.5 * confidence]
            ends = np.nanquantile(self.draws, tails, axis=0, method="nearest")
            return ends.reshape(2, -1).T  # NumPy drops an axis of what is empty
        ends = self.values[:, None] + self.law.ends(self.slopes, confidence)
        return np.where(self.is_open[:, None], [-np.inf, np.inf], ends)


def spread_of(function: Function, law: FittedLaw, *, draws: int = DRAWS, seed: int = 0) -> Spread:
    """The `Spread` of a function of the coefficients, [P] -> [m].

    Derivatives are central differences along the axes of the law, in standard errors. They are
    checked at draws: where the function bends within the error, it is evaluated at many more.

    Args:
        function: to evaluate.
        law: of the coefficients.
        draws: how many, where the function bends; 0 for none, and no check.
        seed: of the draws.
    """
    here, axes = function(law.point), (law.moves @ law.root).T
    steps = np.concatenate([STEP * axes, law.blind])
    changes = [function(law.point + step) - function(law.point - step) for step in steps]
    # [m, P] the slopes of least length that have these changes.
    slopes = (np.linalg.pinv(2.0 * steps) @ np.reshape(changes, (len(steps), -1))).T
    found = Spread(law, here, slopes)
    return straightened(function, found, draws=draws, seed=seed) if draws else found


def straightened(function: Function, found: Spread, *, draws: int, seed: int = 0) -> Spread:
    """The spread by its slopes or, where the function bends within the error, by draws."""
    law, here, slopes = found.law, found.values, found.slopes
    probes = law.draws(PROBES, seed)
    values = np.array([function(one) for one in probes])
    missed = values - here - (probes - law.point) @ slopes.T
    size = np.linalg.norm(slopes @ law.moves @ law.root, axis=1)
    straight = np.sqrt((missed**2).mean(axis=0)) <= BENT * size + VISIBLE * (1.0 + np.abs(here))
    if (straight | found.is_open).all():
        return found
    count = min(draws, max(FEWEST, MOST // max(len(here), 1)))
    return replace(found, draws=np.array([function(one) for one in law.draws(count, seed)]))


def restricted_ratio_p_value(
    law: FittedLaw, rows: np.ndarray, goals: np.ndarray, *, levels: npt.ArrayLike, seed: int = 0
) -> tuple[float, float]:
    """What equations cost the likelihood, and the chance of as much if they are true.

    Args:
        law: of the coefficients.
        rows: [q, P] of the equations.
        goals: [q] their right sides.
        levels: what the chance is compared with.
        seed: of the draws.
    """
    moves, gaps = rows @ law.moves, rows @ law.centre - goals
    errors = np.linalg.norm(moves @ law.root, axis=1)
    known = errors > 0
    if (np.abs(gaps[~known]) > VISIBLE * np.abs(rows[~known]).max(initial=1.0)).any():
        return np.inf, 0.0
    moves, gaps = moves[known] / errors[known, None], gaps[known] / errors[known]
    matrix = law.information[np.ix_(law.moving, law.moving)]
    stiff = matrix + STIFF * moves.T @ moves

    def lost(free: np.ndarray, goals: np.ndarray, one_sided: np.ndarray) -> tuple[np.ndarray, ...]:
        """[N] what moves . y = goals costs the steps y nearest to free [N, r], and these [N, r]."""
        wide, tied = BoundedQuadratic(matrix, one_sided), BoundedQuadratic(stiff, one_sided)
        pulls = free @ matrix
        places = tied.nearest(pulls + STIFF * goals @ moves), wide.nearest(pulls)
        costs = [wide.at(one - free) for one in places]
        return np.maximum(costs[0] - costs[1], 0.0), places[0]

    shift = law.shift
    ratio, place = lost(shift[None], moves @ shift - gaps, law.one_sided)
    on_bound = law.one_sided & (place[0] <= 100.0 / STIFF * np.linalg.norm(law.root, axis=1))

    def larger(random: np.random.Generator, count: int) -> int:
        free = random.standard_normal((count, len(law.root))) @ law.root.T
        return int((lost(free, 0.0 * gaps, on_bound)[0] >= ratio[0] - VISIBLE).sum())

    return float(ratio[0]), simulated_chance(larger, seed=seed, levels=levels)
