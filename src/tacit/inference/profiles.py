"""Intervals of linear forms and of ratios of them: profiles of the loss within its bounds.

An interval holds the values that cost the likelihood no more than a cut allows, all parameters
adapting within their bounds, in the quadratic model of the loss at its minimum, and in the loss
itself where that bends on the way. The cut is that of
a chi-square number, or where parameters may be on their bounds that of the law of the ratio there,
each end with one of its own. Where the model does not fit, the ratio is scaled by how much more a
form scatters than the information says, and never by less than 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cache, cached_property
from typing import Protocol

import numpy as np

from tacit.inference.boundary import MOST, RatioLaw
from tacit.inference.tails import chi_square_tail
from tacit.search.algebra import CLOSE, Approach, crossing, least_squares, square_roots

# Weight of an equality in the least-squares problem, relative to one standard error.
STIFF = 1e5
# Squared quantile of the normal law for two-sided 95 %: no cut of a ratio is smaller.
CUT = 3.841458820694124
# Share of draws within one end of an interval.
WITHIN = 0.975
# Standard errors below which a parameter without its bound may well be on it.
CLEAR = 2.5
# Standard errors beyond its bound from which one is on it for certain.
BEYOND = 3.0
# Parameters beyond which those without any bound are worked out as one parabola.
MANY = 16
# Laws that are kept: each holds megabytes of faces, and an end asks for few again.
LAWS = 8
# How often the end of an interval is given the cut of its own law, what change of the cut leaves
# the end where it is, and what ratio moves it so little that its law is the same: by a tenth.
ROUNDS, SETTLED, LITTLE = 3, 0.05, 1.2
# Share of the cut that a rise misses it by where it jumps: a value beyond needs a sum to be 0.
JUMP = 0.05
# Largest ratio of two cuts by which the second end is sought beyond the first.
FAR = 4.0
# What is added to an information with 1 on its diagonal, so that nothing is known for certain.
UNKNOWN = 1e-10

# Share of the cut by which a rise may miss it before the end is sought on the loss itself, and by
# which it may then.
BENT, EXACT = 0.13, 1e-3
# How often the way to an end that lies beyond that of the quadratic model is doubled.
DOUBLINGS = 40
# Relative rounding of what bounds allow, and halvings of the way to it.
ROUNDED, HALVINGS = 1e-9, 50

# A value of a number -> the form [D] of the parameters, and the constant, that are 0 in sum there.
FormOf = Callable[[float], tuple[np.ndarray, float]]


class ExactLoss(Protocol):
    """The loss whose quadratic model a `Landscape` is, where form [D] . x + constant = 0."""

    def bends(self, form: np.ndarray, constant: float, share: float, /) -> bool:
        """Whether its rise is off that of its model by more than a share of it."""
        ...

    def ratio(self, form: np.ndarray, constant: float, /) -> float:
        """How many times the rise of its model it must rise."""
        ...


@dataclass(frozen=True, eq=False)
class Landscape:
    """The loss around its minimum as least squares: |rows z - goal|^2 / 2 + constant, z >= 0.

    Attributes:
        rows: [r, n].
        goal: [r].
        basis: [D, n] parameters are x = origin + basis z.
        origin: [D] bounds; the estimates of parameters without one.
        moving: [D] bool, the parameters that are not settled.
        information: [m, m] of the moving ones.
        free: [m] sign-free estimates of the moving ones: where the loss alone would have them.
        lower: [m] their smallest values.
        upper: [m] their largest ones.
        excess: form [D] -> how many times its variance is what the information says.
        least: minimum of the least squares.
        best: [D] parameters where that is. Where trajectories weigh otherwise than their steps and
            bounds hold some parameters, those are not the parameters of the fit.
        exact: the loss itself; None where nothing is asked of it.
    """

    rows: np.ndarray
    goal: np.ndarray
    basis: np.ndarray
    origin: np.ndarray
    _: KW_ONLY
    moving: np.ndarray
    information: np.ndarray
    free: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    excess: Callable[[np.ndarray], float] | None
    least: float
    best: np.ndarray
    exact: ExactLoss | None = None

    def rise(self, form: np.ndarray, constant: float) -> float:
        """How far above its minimum the loss must be where form . x + constant = 0.

        Divided by the excess of the form, if it has any.
        """
        if self._open:
            own, short = form[self.moving], constant + float(form @ self.best)
            variance = float(own @ self._spread @ own)
            rise = 0.5 * short**2 / variance if variance > 0 else (0.0 if short == 0 else np.inf)
            return rise if self.excess is None else rise / self.excess(form)
        row, level = form @ self.basis, constant + float(form @ self.origin)
        if not row.any():
            return 0.0 if level == 0.0 else np.inf
        rise = 0.5 * self._nearest(row, level)[1] - self.least
        return rise if self.excess is None else rise / self.excess(form)

    @cached_property
    def boxed(self) -> bool:
        """Whether some parameter has a bound on both sides."""
        return bool((np.isfinite(self.lower) & np.isfinite(self.upper)).any())

    def possible(self, form: np.ndarray, constant: float) -> bool:
        """Whether form . x + constant = 0 somewhere within the bounds."""
        own = form[self.moving]
        used = own != 0.0
        ends = own[used] * np.stack([self.lower[used], self.upper[used]])
        settled = constant + float(form @ np.where(self.moving, 0.0, self.origin))
        least, most = ends.min(axis=0).sum() + settled, ends.max(axis=0).sum() + settled
        slack = ROUNDED * (abs(settled) + float(np.abs(own * self.best[self.moving]).sum()))
        return bool(least <= slack and most >= -slack)

    def cut(self, form: np.ndarray, constant: float, side: float) -> float:
        """The cut of the ratio where form . x + constant = 0 is true, for estimates on one side.

        At least that of the chi-square law, which it is where no bound is near; infinite where the
        form is a sum of parameters that may all be on their bounds.
        """
        law, row = self._law_of(form, constant)
        return CUT if law is None else max(law.cut(row, side, WITHIN), CUT)

    def chance(self, form: np.ndarray, constant: float, rise: float) -> float:
        """The chance of a rise this large if form . x + constant = 0 is true."""
        law, row = self._law_of(form, constant)
        ratios = None if law is None else law.ratios(row)
        if ratios is None:
            return chi_square_tail(1, 2.0 * max(rise, 0.0))
        return ratios.share_beyond(2.0 * rise)

    def _law_of(self, form: np.ndarray, constant: float) -> tuple[RatioLaw | None, np.ndarray]:
        """The law of the ratio where form . x + constant = 0 is true; the form as it asks for it.

        Bounded are the parameters that the fit under the equality has on a bound, and those that
        without any bound would be close to it: of a sum in the form, only where another part of it
        is clear of its own. Far beyond a bound the truth is on it for certain, or the model wrong:
        such a parameter is settled. None where no bound is near.
        """
        if self._open:
            return None, form[self.moving]
        own, spread = form[self.moving], self._spread
        lean = spread @ own
        variance = max(float(own @ lean), 1e-300)
        settled = np.where(self.moving, 0.0, self.origin)
        short = float(own @ self.free) + constant + float(form @ settled)
        place = self.free - lean * (short / variance)
        errors = np.sqrt(np.maximum(np.diagonal(spread) - lean**2 / variance, 0.0))
        signs = np.where(self.upper - place < place - self.lower, -1.0, 1.0)
        room = np.where(signs > 0, place - self.lower, self.upper - place)
        near = room < CLEAR * errors
        for part in (own > 0, own < 0):
            near &= ~part | (part & ~near).any()
        held = self.place(form, constant)[self.moving]
        near |= np.where(signs > 0, held <= self.lower, held >= self.upper)
        near &= np.isfinite(room)
        kept = ~(near & (room < -BEYOND * errors))
        near &= kept
        if near.sum() > MOST:  # of more the law is that of those the form leans on
            weight = np.abs(lean) / np.sqrt(np.maximum(np.diagonal(spread), 1e-300))
            near &= weight >= np.sort(weight[near])[-MOST]
        if not near.any():
            return None, own
        signs = np.where(near, signs, 1.0)
        return self._law(near[kept], signs[kept], kept), (signs * own)[kept]

    def place(self, form: np.ndarray, constant: float) -> np.ndarray:
        """[D] the parameters of the fit under the equality form . x + constant = 0."""
        if self._open:
            own, place = form[self.moving], self.best.copy()
            lean = self._spread @ own
            short = constant + float(form @ self.best)
            place[self.moving] -= lean * (short / max(float(own @ lean), 1e-300))
            return place
        if not self.basis.shape[1]:
            return self.origin
        place, _ = self._nearest(form @ self.basis, constant + float(form @ self.origin))
        return self.origin + self.basis @ place

    def _nearest(self, row: np.ndarray, level: float) -> tuple[np.ndarray, float]:
        """[n] where the loss is smallest under row . z + level = 0, and twice the loss there."""
        stiff = STIFF / max(math.sqrt(row @ row), 1e-300)
        return self._approach.nearest(stiff * row, -stiff * level)

    def _law(self, near: np.ndarray, signs: np.ndarray, kept: np.ndarray) -> RatioLaw:
        key = near.tobytes() + signs.tobytes() + kept.tobytes()
        if key not in self._laws:
            while len(self._laws) >= LAWS:
                del self._laws[next(iter(self._laws))]
            turned = signs[:, None] * self.information[np.ix_(kept, kept)] * signs
            self._laws[key] = RatioLaw(turned, near)
        return self._laws[key]

    @cached_property
    def _laws(self) -> dict[bytes, RatioLaw]:
        return {}

    @cached_property
    def _open(self) -> bool:
        """Whether there are many parameters and no bounds: a profile is a parabola then."""
        bounded = np.isfinite(self.lower) | np.isfinite(self.upper)
        return len(self.free) > MANY and not bounded.any()

    @cached_property
    def _approach(self) -> Approach:
        return Approach(self.rows, self.goal)

    @cached_property
    def _spread(self) -> np.ndarray:
        """[m, m] covariance of the sign-free estimates."""
        units = np.sqrt(np.maximum(np.diagonal(self.information), 1e-300))
        scaled = self.information / np.outer(units, units) + UNKNOWN * np.eye(len(units))
        return np.linalg.inv(scaled) / np.outer(units, units)


def landscape(
    x: np.ndarray,
    gradient: np.ndarray,
    information: np.ndarray,
    *,
    lower: np.ndarray,
    upper: np.ndarray,
    moving: np.ndarray,
    scatter: np.ndarray | None = None,
    excess: Callable[[np.ndarray], float] | None = None,
) -> Landscape:
    """The `Landscape` of a minimum over the parameters that are not settled.

    Its curvature is the information or, with a `scatter` of the scores that is larger,
    information scatter^-1 information: then it is one over the variance.

    Args:
        x: [D] where the minimum is.
        gradient: [D] of the loss there: not 0 where a bound holds a parameter.
        information: [D, D].
        lower: [D] smallest values of the parameters.
        upper: [D] largest ones, infinite where there are none.
        moving: [D] bool, the parameters that are not settled.
        scatter: [D, D] covariance of the gradient; None where it is the information.
        excess: form [D] -> how many times its variance is what the curvature says.
    """
    moving = moving & (upper > lower)
    kept = np.flatnonzero(moving)
    half, inverse = square_roots(information[np.ix_(kept, kept)])
    slope = inverse @ gradient[kept]
    if scatter is not None:
        turn, _ = square_roots(np.linalg.pinv(inverse @ scatter[np.ix_(kept, kept)] @ inverse.T))
        half, slope = turn @ half, turn @ slope
    aim = half @ x[kept] - slope
    # A parameter without a bound is the difference of two that have one.
    low, high = lower[kept], upper[kept]
    above, below = np.isfinite(low), np.isfinite(high)
    signs = np.eye(len(x))[:, kept]
    basis = np.where(above | ~below, signs, -signs)
    basis = np.concatenate([basis, -signs[:, ~above & ~below]], axis=1)
    origin = x.copy()
    origin[kept] = np.where(above, low, np.where(below, high, x[kept]))
    rows = half @ basis[kept]
    goal = half @ (x - origin)[kept] - slope
    # Columns of one size: the search stops at an absolute tolerance.
    units = np.linalg.norm(rows, axis=0)
    units = np.where(units > 0, units, 1.0)
    rows, basis = rows / units, basis / units
    between = np.flatnonzero(above & below)
    if len(between):  # two bounds: what is above the one and what is below the other add up
        stiff = STIFF * np.eye(rows.shape[1])[between]
        aside, none = STIFF * np.eye(len(between)), np.zeros((len(rows), len(between)))
        rows = np.block([[rows, none], [stiff, aside]])
        goal = np.append(goal, STIFF * ((high - low)[between] * units[between]))
        basis = np.concatenate([basis, np.zeros((len(x), len(between)))], axis=1)
    place, missed = least_squares(rows, goal)
    return Landscape(
        rows,
        goal,
        basis,
        origin,
        moving=moving,
        information=half.T @ half,
        free=np.linalg.lstsq(half, aim, rcond=None)[0],
        lower=low,
        upper=high,
        excess=excess,
        least=0.5 * missed**2,
        best=origin + basis @ place,
    )


def ends_of(
    around: Landscape,
    form_of: FormOf,
    *,
    point: float,
    best: float,
    limits: tuple[float, float],
    reach: float = 0.0,
) -> tuple[float, float]:
    """The ends of the interval of a number, widened to hold its estimate.

    Args:
        around: the loss.
        form_of: value -> the form and the constant that are 0 in sum there; the form grows with
            what is above the value.
        point: the estimate.
        best: where the landscape has its minimum.
        limits: the least and the largest value the number can have.
        reach: least standard errors to the upper end.
    """
    heights: dict[float, float] = {}  # the start and both ends are asked about again and again

    def rise(value: float) -> float:
        if value not in heights:
            heights[value] = around.rise(*form_of(value))
        return heights[value]

    def end_at(cut: float, limit: float, nearby: float) -> float:
        start = point
        if rise(point) >= 0.5 * cut:  # trajectories disagree with their steps about the estimate
            start = min(max(best, limits[0]), limits[1]) if np.isfinite(best) else point
        return _far_crossing(rise, start, limit, 0.5 * cut, nearby)

    ends = []
    if around.boxed:
        low, high = (_farthest_possible(around, form_of, point, limit) for limit in limits)
        limits = low, high
    for limit, side, least in ((limits[0], 1.0, CUT), (limits[1], -1.0, max(CUT, reach**2))):
        cut = least
        end = end_at(cut, limit, limit)
        for _ in range(ROUNDS):
            if end == limit or abs(rise(end) - 0.5 * cut) > JUMP * cut:
                break
            other = max(around.cut(*form_of(end), side), least)
            if other <= cut + SETTLED:
                break
            growth = other / cut
            nearby = point + math.sqrt(min(growth, FAR)) * (end - point)
            cut, end = other, end_at(other, limit, nearby)
            if growth <= LITTLE:
                break
        if around.exact is not None:
            end = _exact_end(around.exact, form_of, rise, point, end, limit, cut)
        ends.append(end)
    return min(ends[0], point), max(ends[1], point)


def _farthest_possible(around: Landscape, form_of: FormOf, point: float, limit: float) -> float:
    """The value farthest from the point, up to the limit, that the bounds allow."""
    if not np.isfinite(limit) or around.possible(*form_of(limit)):
        return limit
    for _ in range(HALVINGS):
        middle = 0.5 * (point + limit)
        point, limit = (middle, limit) if around.possible(*form_of(middle)) else (point, middle)
    return point


def _exact_end(
    exact: ExactLoss,
    form_of: FormOf,
    rise: Callable[[float], float],
    start: float,
    end: float,
    limit: float,
    cut: float,
) -> float:
    """The end on the loss itself, where it bends between the start and that of its model."""
    if start == end or not exact.bends(*form_of(end), BENT):
        return end

    @cache
    def exact_rise(value: float) -> float:
        modelled = rise(value)
        return modelled * exact.ratio(*form_of(value)) if 0.0 < modelled < np.inf else modelled

    jumps = end != limit and abs(rise(end) - 0.5 * cut) > JUMP * cut
    far = end
    if not jumps:  # beyond a jump there is nothing
        for _ in range(DOUBLINGS):
            if far == limit or exact_rise(far) > 0.5 * cut:
                break
            beyond = start + 2.0 * (far - start)
            far = max(beyond, limit) if limit < start else min(beyond, limit)
    nearby = start + (end - start) * math.sqrt(0.5 * cut / max(exact_rise(end), 0.1 * cut))
    return _crossing(exact_rise, start, far, 0.5 * cut, nearby, EXACT)


def _far_crossing(
    rise: Callable[[float], float], start: float, end: float, cut: float, nearby: float
) -> float:
    """The same where the end may be infinite: an episode can be longer than any number."""
    if np.isfinite(end):
        return _crossing(rise, start, end, cut, nearby)
    for doubling in range(40):
        reach = start + np.sign(end) * 2.0**doubling * max(abs(start), 1e-12)
        if rise(reach) > cut:
            return _crossing(rise, start, reach, cut, nearby)
    return end


def _crossing(
    rise: Callable[[float], float],
    start: float,
    end: float,
    cut: float,
    nearby: float,
    close: float = CLOSE,
) -> float:
    """Where, on the way from `start` to `end`, the rise reaches `cut`; `end` if it never does.

    It is looked for `nearby` at first, or where a line to the end crosses.
    """
    if start == end or rise(end) <= cut:
        return end
    if rise(start) >= cut:
        return start  # only by rounding: `start` is the minimum then
    # The root of the rise is nearly linear in the distance: a secant needs few steps.
    root = math.sqrt(cut)
    share = crossing(
        lambda t: math.sqrt(max(rise(start + t * (end - start)), 0.0)) / root - 1.0,
        (nearby - start) / (end - start),
        close,
    )
    return start + share * (end - start)
