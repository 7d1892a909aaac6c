"""95 % intervals of weights, multipliers and budgets, with bounds and scarce data taken seriously.

Weights and multipliers are ratios of linear forms of the parameters. Their intervals are profiles:
the ratios that cost the likelihood no more than the quantile allows, all parameters adapting within
their bounds, in the quadratic model of the likelihood at its maximum. Where that is far from every
bound and the denominator far from 0, this is the delta method; elsewhere it stays honest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from tacit.inference.numerics import least_squares, root_between, square_roots
from tacit.inverse.diagnostics import Answer, CountedDynamics, Identification
from tacit.inverse.findings import Finding
from tacit.inverse.noisy import MANY, STIFF, Split, refined_ends
from tacit.inverse.noisy.activity import Verdict
from tacit.inverse.noisy.boltzmann import LARGEST, Fit, silent
from tacit.inverse.noisy.inference import Chosen, Errors, informed, row_errors
from tacit.inverse.noisy.steps import Coordinates, Landscape, of_constraints
from tacit.inverse.parameters import ONE_SIDED, TWO_SIDED
from tacit.model.features import Design


@dataclass(frozen=True, eq=False)
class Numbers:
    """One expert in the gauge, every number with its interval and its error.

    Attributes:
        gauge: the numbers themselves.
        ends: [D + K + K, 2] intervals of weights, multipliers and budgets.
        spread: [D + K + K] their standard errors.
    """

    gauge: Split
    ends: np.ndarray
    spread: np.ndarray

    def reported(self, gauge: Split) -> Numbers:
        """The same about a fit without the constraints that were not shown to be active.

        Intervals stay those of the fit with every constraint, wide enough for both points: the
        choice of what to leave out is made by the same data, and must not make them look surer.
        """
        ends, spread = self.ends.copy(), self.spread.copy()
        weights = np.concatenate([gauge.reward_weights, *gauge.cost_weights])
        points = np.concatenate([weights, gauge.multipliers, gauge.budgets])
        idle = gauge.multipliers == 0
        count = len(idle)
        prices = len(ends) - 2 * count + np.flatnonzero(idle)
        budgets = prices + count
        away = np.isnan(weights)
        away[: len(gauge.reward_weights)] = False  # a reward that is not needed may be any
        ends[: len(weights)][away] = np.nan
        ends[prices, 1] = np.where(np.isnan(ends[prices, 1]), np.inf, ends[prices, 1])
        ends[prices, 0] = 0.0
        known = np.isfinite(points) & ~np.isnan(ends).any(axis=1)
        ends[known, 0] = np.minimum(ends[known, 0], points[known])
        ends[known, 1] = np.maximum(ends[known, 1], points[known])
        ends[budgets] = (np.nan, np.inf)
        spread[np.concatenate([np.flatnonzero(away), prices, budgets])] = np.nan
        return Numbers(gauge, ends, spread)

    def identification(
        self,
        space: Coordinates | Design,
        *,
        findings: Iterable[Finding],
        verdict: Verdict | None,
        answer: Answer | None = None,
        dynamics: CountedDynamics | None = None,
    ) -> Identification:
        """The `Identification` of these numbers; no verdict where the search did not converge."""
        told = Verdict.of(np.zeros(0)) if verdict is None else verdict
        active = (self.gauge.multipliers > 0) & (verdict is not None)
        active = active if told.active is None else active & told.active
        cuts = [*(block.stop for block in space.blocks), space.size + space.constraints]
        reward, *costs, prices, budgets = np.split(self.ends, cuts)
        reward_errors, *cost_errors, price_errors, budget_errors = np.split(self.spread, cuts)
        return Identification(
            reward_intervals=reward,
            cost_intervals=costs,
            multiplier_intervals=prices,
            budget_intervals=budgets,
            reward_standard_errors=reward_errors,
            cost_standard_errors=cost_errors,
            multiplier_standard_errors=price_errors,
            budget_standard_errors=budget_errors,
            active=active,
            findings=tuple(findings),
            answer=answer,
            p_values=told.p_values,
            unadjusted=told.unadjusted,
            sets=told.sets,
            selection=told.selection,
            at_level=() if told.at_level is None else told.at_level,
            dynamics=dynamics,
        )


def intervals(
    space: Coordinates,
    fitted: Fit,
    gauge: Split,
    found: Errors,
    fisher: np.ndarray,
    limits: np.ndarray,
    *,
    chosen: Chosen | None = None,
    loose: np.ndarray | None = None,
    stretch: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """[D + K + K, 2] intervals of weights, multipliers and budgets, and [D + K + K] their errors.

    Args:
        space: the coordinates.
        fitted: the maximum of the likelihood.
        gauge: the same in the gauge.
        found: errors of its parameters.
        fisher: [D, D] information of all steps.
        limits: [D] lower limits of forbidden costs, NaN elsewhere.
        chosen: which constraints are reported, where that was decided by the same data.
        loose: [D] bool, the parameters that no bound holds for certain, where the model does not
            fit; None where it does.
        stretch: [K] by what errors of budgets grow as what is spent moves by itself, too.
    """
    size, count = space.size, space.constraints
    stretch = np.ones(count) if stretch is None else stretch
    spread = row_errors(gauge.jacobian, found.covariance, found.blind)
    spread[size + count :] *= stretch
    ends = np.full((size + 2 * count, 2), np.nan)
    mute = silent(fisher, fitted.problem.information.sum())
    sure = informed(fitted, fisher)
    scatter = None if found.scatter is None else found.scatter + (sure - fisher)
    shown = np.isnan(limits) & ~mute
    made = cache(lambda kept: landscape(fitted, sure, scatter, np.frombuffer(kept, bool)))
    views = _views(fitted, shown, loose, made)
    lower, upper = fitted.problem.lower, fitted.problem.upper
    floor = np.where(lower >= 0.0, 0.0, -1.0)
    ceiling = np.where((upper <= 0.0) & (lower < 0.0), 0.0, 1.0)
    weights = np.concatenate([gauge.reward_weights, *gauge.cost_weights])
    for j in np.flatnonzero(~np.isnan(gauge.ratios.sizes[:size])):
        # Anything goes for a parameter that moves nothing; `numbers_of` widens the others by it.
        alone = (float(floor[j]), float(ceiling[j]))
        mine = np.arange(size) == j  # all of a sum is what the others leave it
        own = views((gauge.ratios.bottoms[j] != 0) & ~mine if weights[j] == 1.0 else mine)
        each = (_weight_ends(one, gauge, fitted, int(j), alone) for one in own)
        ends[j] = alone if mute[j] else _hull(each)
    if np.isnan(gauge.reward_weights).any():  # no reward was needed: which one is anybody's guess
        ends[space.blocks[0]] = np.stack([floor, ceiling], axis=1)[space.blocks[0]]
    for k, block in enumerate(space.blocks[1:]):
        own = views(of_constraints(space.blocks, [k], size))
        set_by = gauge.ratios.bottoms[block.start] * np.isfinite(limits)
        if set_by.any():  # forbidden costs alone make the price: it has no upper limit either
            least = float(set_by @ np.nan_to_num(limits)) / gauge.ratios.sizes[block.start]
            ends[size + k] = (least * gauge.multipliers[k], np.inf)
        else:
            reach = 0.0 if chosen is None else chosen.reach(k)
            ends[size + k] = (0.0, np.inf)
            if not mute[block].all():
                ends[size + k] = _hull(_price_ends(one, gauge, k, reach) for one in own)
        if np.isfinite(gauge.budgets[k]):
            each = (_budget_ends(one, gauge, fitted, space, k, stretch[k]) for one in own)
            ends[size + count + k] = _hull(each)
        if chosen is not None and chosen.barely_found(k) and block.stop - block.start > 1:
            ends[block] = np.where(np.isnan(ends[block]), np.nan, [0.0, 1.0])
    shut = np.isfinite(limits)
    units = 1.0 / space.scales / gauge.ratios.sizes[:size]
    far = np.where(limits < 0, -np.inf, np.inf)
    ends[:size][shut] = np.sort(np.stack([limits * units, far], axis=1)[shut], axis=1)
    # The weight of a coefficient that was fixed moves with the sum that it is a share of.
    moves = fitted.free | ((lower == upper) & (fitted.point.x != 0.0))
    spread[:size] = np.where(moves & ~shut, spread[:size], np.nan)
    return ends, spread


def _views(
    fitted: Fit, shown: np.ndarray, loose: np.ndarray | None, made: Callable[[bytes], Landscape]
) -> Callable[[np.ndarray], list[Landscape]]:
    """[D] bool, the parameters of a number -> the landscapes that its interval must hold in.

    Where the model fits, the truth is within the bounds, and all parameters move within theirs.
    Where it does not, the best approximation without them may be far beyond: what a bound holds for
    certain stays there. If it moved, the scatter of the scores would trade it off otherwise than
    the likelihood does, which shifts and narrows the rest. What a bound may hold by chance does
    both, and a number that is 0 moves alone.
    """
    if loose is None:
        return lambda own: [made(shown.tobytes())]
    free, zero = fitted.free, fitted.point.x == 0.0

    def moving(own: np.ndarray, more: np.ndarray) -> bytes:
        return ((free | more | (own & zero & (not (own & free).any()))) & shown).tobytes()

    return lambda own: [made(kept) for kept in {moving(own, free), moving(own, loose)}]


def _hull(each: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The interval that holds all of these."""
    low, high = zip(*each, strict=True)
    return min(low), max(high)


def _weight_ends(
    around: Landscape, gauge: Split, fitted: Fit, j: int, limits: tuple[float, float]
) -> tuple[float, float]:
    parts = gauge.ratios
    point = float(np.concatenate([gauge.reward_weights, *gauge.cost_weights])[j])

    def rise(ratio: float) -> float:
        form = parts.tops[j] - ratio * parts.bottoms[j]
        return around.rise(form, -ratio * parts.constants[j])

    # A bound of any weight cuts off one side of its own interval, and the other of those that are
    # all the rest: of two weights that sum to 1 each has the interval of the other, mirrored.
    held = fitted.point.x[j] == 0.0 and fitted.problem.lower[j] < fitted.problem.upper[j]
    edge = held or (point == 1.0 and np.count_nonzero(parts.bottoms[j]) > 1)
    cut = 0.5 * (ONE_SIDED if edge else TWO_SIDED) ** 2
    below = float(parts.bottoms[j] @ around.best) + float(parts.constants[j])
    best = float(parts.tops[j] @ around.best) / below if below > 0 else point
    within = partial(_reach, rise, point, best, limits)
    rest = parts.bottoms[j] - parts.tops[j]
    zeros, clear = around.zeros(rest), not edge and not around.zeros(parts.tops[j]).any()
    if clear and zeros.sum() >= MANY:
        # A weight is its price in all the others: the same law as that of a price.
        about = (parts.tops[j], rest, 1.0)
        return refined_ends(around, about, zeros, within(cut), within=within, cuts=(cut, cut))
    return within(cut)


def _price_ends(around: Landscape, gauge: Split, k: int, reach: float) -> tuple[float, float]:
    """Searched over a share u: price = unit * u / (1 - u), so that infinity is within reach.

    The upper end is at least `reach` standard errors away.
    """
    parts = gauge.ratios
    row = len(parts.sizes) - len(gauge.multipliers) + k
    price = float(gauge.multipliers[k])
    unit = price if price > 0 else gauge.temperature

    def rise(share: float) -> float:
        form = (1.0 - share) * parts.tops[row] - share * unit * parts.bottoms[row]
        return around.rise(form, -share * unit * parts.constants[row])

    here, cut = (0.5, 0.5 * TWO_SIDED**2) if price > 0 else (0.0, 0.5 * ONE_SIDED**2)
    own = float(parts.tops[row] @ around.best)
    rest = unit * (float(parts.bottoms[row] @ around.best) + float(parts.constants[row]))
    best = own / (own + rest) if own + rest > 0 else here
    within, far = partial(_reach, rise, here, best, (0.0, 1.0)), max(cut, 0.5 * reach**2)
    low, high = within(cut)
    high = max(high, within(far)[1]) if far > cut else high
    zeros = around.zeros(parts.bottoms[row])
    if price > 0 and zeros.sum() >= MANY:
        about, ends = (parts.tops[row], parts.bottoms[row], unit), (low, high)
        low, high = refined_ends(around, about, zeros, ends, within=within, cuts=(cut, far))
    return unit * low / (1.0 - low), unit * high / (1.0 - high) if high < 1.0 else np.inf


def _budget_ends(
    around: Landscape, gauge: Split, fitted: Fit, space: Coordinates, k: int, stretch: float
) -> tuple[float, float]:
    """A budget is a ratio too, its numerator linear only nearly: theta . expectations(theta)."""
    block = space.blocks[1 + k]
    bottom, total = gauge.ratios.bottoms[block.start], float(gauge.ratios.sizes[block.start])
    budget = float(gauge.budgets[k])
    top = total * gauge.jacobian[space.size + space.constraints + k] + budget * bottom
    constant = budget * total - float(top @ fitted.point.x)

    def rise(ratio: float) -> float:
        return around.rise(top - ratio * bottom, constant)

    cut = 0.5 * TWO_SIDED**2
    below = float(bottom @ around.best)
    best = (float(top @ around.best) + constant) / below if below > 0 else budget
    costs = -space.tables[block] * space.scales[block][:, None, None]
    if fitted.problem.discount == 1.0:
        limits = -np.inf if costs.min() < 0 else 0.0, np.inf if costs.max() > 0 else 0.0
    else:  # what any policy can spend, with weights that sum to 1
        costs = costs / (1.0 - fitted.problem.discount)
        nothing = [0.0] if space.ending else []
        least = min(float(costs.min()), budget, *nothing)
        limits = least, max(float(costs.max()), budget, *nothing)
    low, high = _reach(rise, budget, best, limits, cut)
    low, high = (budget + stretch * (end - budget) for end in (low, high))
    return max(low, limits[0]), min(high, limits[1])


def _reach(
    rise: Callable[[float], float],
    point: float,
    best: float,
    limits: tuple[float, float],
    cut: float,
) -> tuple[float, float]:
    """The ends of where the rise stays below `cut`, widened to hold the point.

    Args:
        rise: of the loss, at a value of the number asked about. Below any height it is an interval.
        point: its estimate.
        best: its value at the minimum of the loss, where the rise is 0.
        limits: the least and the largest value it can have.
        cut: how far the loss may rise.
    """
    low, high = limits
    start, rise = point, cache(rise)  # the start and both ends are asked about again and again
    if rise(point) >= cut:  # trajectories disagree with their steps about the estimate itself
        start = min(max(best, low), high) if np.isfinite(best) else point
    ends = _far_crossing(rise, start, low, cut), _far_crossing(rise, start, high, cut)
    return min(ends[0], point), max(ends[1], point)


def _far_crossing(rise: Callable[[float], float], start: float, end: float, cut: float) -> float:
    """The same where the end may be infinite: an episode can be longer than any number."""
    if np.isfinite(end):
        return _crossing(rise, start, end, cut)
    for doubling in range(40):
        reach = start + np.sign(end) * 2.0**doubling * max(abs(start), 1e-12)
        if rise(reach) > cut:
            return _crossing(rise, start, reach, cut)
    return end


def _crossing(rise: Callable[[float], float], start: float, end: float, cut: float) -> float:
    """Where, on the way from `start` to `end`, the rise reaches `cut`; `end` if it never does."""
    if start == end or rise(end) <= cut:
        return end
    if rise(start) >= cut:
        return start  # only by rounding: `start` is the minimum then
    # The root of the rise is nearly linear in the distance: a secant needs few steps.
    root = math.sqrt(cut)
    share = root_between(
        lambda t: math.sqrt(max(rise(start + t * (end - start)), 0.0)) - root, 0.0, 1.0, 1e-7
    )
    return start + share * (end - start)


def landscape(
    fitted: Fit, fisher: np.ndarray, scatter: np.ndarray | None, moving: np.ndarray
) -> Landscape:
    """The `Landscape` of a fit over the parameters `moving` [D] bool that are not settled.

    Its curvature is the information of the steps, or where units are larger than steps, with the
    `scatter` of their scores, fisher scatter^-1 fisher.
    """
    x, problem = fitted.point.x, fitted.problem
    kept = np.flatnonzero(moving & (problem.upper > problem.lower))
    own = fisher[np.ix_(kept, kept)]
    half, inverse = square_roots(own)
    slope = inverse @ fitted.point.gradient[kept]
    if scatter is not None:
        turn, _ = square_roots(np.linalg.pinv(inverse @ scatter[np.ix_(kept, kept)] @ inverse.T))
        half, slope = turn @ half, turn @ slope
    # Turned so that no sign of an eigenvector is left, which draws around it would follow.
    sizes = np.linalg.norm(half, axis=0)
    left, _, right = np.linalg.svd(half / np.where(sizes > 0, sizes, 1.0), full_matrices=False)
    half, slope = right.T @ (left.T @ half), right.T @ (left.T @ slope)
    # A parameter without a bound is the difference of two that have one.
    lower, upper = problem.lower[kept], problem.upper[kept]
    above, below = np.isfinite(lower), upper < LARGEST
    signs = np.eye(len(x))[:, kept]
    basis = np.where(above | ~below, signs, -signs)
    basis = np.concatenate([basis, -signs[:, ~above & ~below]], axis=1)
    origin = x.copy()
    origin[kept] = np.where(above, lower, np.where(below, upper, x[kept]))
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
        goal = np.append(goal, STIFF * ((upper - lower)[between] * units[between]))
        basis = np.concatenate([basis, np.zeros((len(x), len(between)))], axis=1)
    place, missed = least_squares(rows, goal)
    return Landscape(rows, goal, basis, origin, least=0.5 * missed**2, best=origin + basis @ place)
