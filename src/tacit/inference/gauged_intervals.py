"""95 % intervals of weights, multipliers and budgets, with bounds and scarce data taken seriously.

Weights and multipliers are ratios of linear forms of the parameters. Their intervals are profiles:
the ratios that cost the likelihood no more than the quantile allows, all parameters adapting within
their bounds, in the quadratic model of the likelihood at its maximum. Where that is far from every
bound and the denominator far from 0, this is the delta method; elsewhere it stays honest. Ends that
rest on few events are asked of the likelihood itself, by fits under an equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from tacit.inference.activity import Verdict
from tacit.inference.diagnostics import Answer, CountedDynamics, Identification
from tacit.inference.evidence import Evidence, scaled_by
from tacit.inference.expectations import pull_back
from tacit.inference.findings import Finding
from tacit.inference.gauge import Gauge
from tacit.inference.information import Chosen, Errors, row_errors
from tacit.inference.parameters import inverse_information
from tacit.inference.profiles import Landscape, ends_of, landscape
from tacit.inference.sets import Ends
from tacit.inference.tails import ONE_SIDED, TWO_SIDED
from tacit.likelihood.kinds import KindsChain
from tacit.likelihood.problem import Equalities, Fit
from tacit.likelihood.start import silent
from tacit.likelihood.ties import UNSIZED
from tacit.model.features.design import Design
from tacit.model.objective import Features

# Parameters that move, beyond which intervals are by standard errors: profiles of so many cost
# minutes. A threshold of law: docs/trust.md says by how much an interval jumps there.
PROFILED = 200
# Steps of one size that must tell of a move, so that the loss is as good as quadratic along it:
# third derivatives are bounded by fourth powers of scores, and with 100 a cut of 4 is missed by a
# quarter at most.
ENOUGH = 100
# Most evaluations of a fit under an equality.
MOST_STEPS = 100
# Relative size of what an equality that can hold may be missed by.
MISSED = 1e-6


@dataclass(frozen=True, eq=False)
class Numbers:
    """One expert in the gauge, every number with its interval and its error.

    Attributes:
        gauge: the numbers themselves.
        ends: [D + K + K, 2] intervals of weights, multipliers and budgets.
        spread: [D + K + K] their standard errors.
    """

    gauge: Gauge
    ends: np.ndarray
    spread: np.ndarray

    def reported(self, gauge: Gauge) -> Numbers:
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
        space: Design,
        *,
        findings: Iterable[Finding] = (),
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


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnFit:
    """A fit as a function of one chain's parameters, all others adapting.

    Attributes:
        x: [D] the parameters.
        gradient: [D] of the loss.
        lower: [D] smallest values allowed.
        upper: [D] largest ones; infinite where none is.
        fisher: [D, D] information of all steps.
        known: [D, D] that of what was known beforehand.
        errors: of the parameters.
        limits: [D] lower limits of forbidden costs, NaN elsewhere.
        loose: [D] bool, the parameters that no bound holds for certain, where the model does not
            fit; None where it does.
        steps: how many there are.
        discount: of the chain.
        exact: its quadratic model -> the loss itself; None where it is not asked.
    """

    x: np.ndarray
    gradient: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    fisher: np.ndarray
    known: np.ndarray
    errors: Errors
    limits: np.ndarray
    loose: np.ndarray | None
    steps: float
    discount: float
    exact: Callable[[Landscape], ProfiledLoss] | None = None

    @classmethod
    def of(cls, evidence: Evidence, e: int = 0) -> OwnFit:
        """Chain e of a fit.

        What the other chains add is the information about its parameters that is left when all
        other joint parameters adapt.
        """
        fitted, own = evidence.fitted, evidence.chains[e]
        problem, ties, found = fitted.problem, fitted.problem.ties, evidence.errors
        about = {
            "limits": evidence.own_limits(e),
            "steps": own.chain.steps,
            "discount": own.chain.discount,
        }
        # Of intentions every point of a profile is a search over all steps: its model stands in.
        one = problem.chains[0]
        is_long = isinstance(one, KindsChain) and one.sequences.tables > 0
        if not evidence.absence and not is_long:
            about["exact"] = partial(ProfiledLoss.of, evidence, e)
        if len(ties.rows) == 1:
            return cls(
                x=fitted.z,
                gradient=fitted.gradient,
                lower=fitted.lower,
                upper=fitted.upper,
                fisher=evidence.fisher,
                known=fitted.informed(evidence.fisher) - evidence.fisher,
                errors=found,
                loose=evidence.free if evidence.robust else None,
                **about,
            )
        rows, x, inner = ties.rows[e], fitted.x(e), own.inner
        follow = adapted(evidence, e)
        scatter, units = (
            None if one is None else follow.T @ one @ follow for one in (found.scatter, found.units)
        )
        law, blind = inner @ found.covariance @ inner.T, found.blind @ inner.T
        of_chain = Errors(law, blind, found.clustered, scatter, units=units)
        fisher, sure = (
            follow.T @ one @ follow for one in (evidence.fisher, fitted.informed(evidence.fisher))
        )
        sized = ties.sizes[e] != UNSIZED
        steered = ~sized | (fitted.z[ties.sizes[e]] > 0)
        settled = (x == 0.0) & ~(problem.movable[rows] & steered)
        high = ties.own_bounds(e, fitted.z, fitted.upper)
        return cls(
            x=x,
            gradient=follow.T @ fitted.gradient,
            lower=ties.own_bounds(e, fitted.z, problem.lower),
            upper=np.where(settled, 0.0, high),
            fisher=fisher,
            known=sure - fisher,
            errors=of_chain,
            loose=None,
            **about,
        )

    @property
    def free(self) -> np.ndarray:
        """[D] bool, the parameters that no bound holds."""
        return (self.x > self.lower) & (self.x < self.upper)

    @property
    def silent(self) -> np.ndarray:
        """[D] bool, the parameters that no action ever depends on."""
        return silent(self.fisher + self.known, self.steps)

    def landscape(self, moving: np.ndarray) -> Landscape:
        """The loss around the fit over the parameters `moving` [D] bool.

        Where the model fits, units that scatter more than steps flatten it. Where it does not, a
        ratio is the likelihood's own, divided by how many times the variance of its form the
        information's is.
        """
        sure, excess = self.fisher + self.known, None
        scatter = None if self.errors.scatter is None else self.errors.scatter + self.known
        if self.loose is not None and scatter is not None:
            excess, scatter = Excess(sure, scatter, self.loose & moving), None
        made = partial(
            landscape,
            self.x,
            self.gradient,
            sure,
            lower=self.lower,
            upper=self.upper,
            moving=moving,
        )
        plain = made()
        around = plain if scatter is None else made(scatter=scatter)
        exact = None if self.exact is None else self.exact(plain)
        return replace(around, excess=excess, exact=exact)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProfiledLoss:
    """The loss of a fit where a linear form of one chain's parameters is 0, all others adapting.

    Attributes:
        fitted: the fit.
        model: the quadratic model of the loss as a function of the chain's parameters.
        rows: [D] the entries of the fit's parameters that those of the chain are multiples of.
        multiples: [D] of them; NaN where a size is fitted, too, so that no form of it is linear.
        follow: [n, D] how they move with those of the chain, all others adapting.
        events: a move [D] -> how many steps of one size would tell as much of it.
    """

    fitted: Fit
    model: Landscape
    rows: np.ndarray
    multiples: np.ndarray
    follow: np.ndarray
    events: Callable[[np.ndarray], float]

    @classmethod
    def of(cls, evidence: Evidence, e: int, model: Landscape) -> ProfiledLoss:
        """That of chain e."""
        ties = evidence.fitted.problem.ties
        return cls(
            fitted=evidence.fitted,
            model=model,
            rows=ties.rows[e],
            multiples=np.where(ties.sizes[e] == UNSIZED, ties.factors[e], np.nan),
            follow=np.eye(len(model.moving)) if ties.alone else adapted(evidence, e),
            events=evidence.chains[e].events,
        )

    def bends(self, form: np.ndarray, constant: float, share: float) -> bool:
        """Whether its rise is off that of its model by more than a share of it."""
        modelled, z = self.model.rise(form, constant), self._near(form, constant)
        move = self.model.place(form, constant) - self.model.best
        if not modelled > 0.0 or self.events(move) >= ENOUGH:
            return False
        return not abs((self.fitted.lagrangian(z) - self.fitted.loss) / modelled - 1.0) <= share

    def ratio(self, form: np.ndarray, constant: float) -> float:
        """How many times the rise of its model it must rise; 1 where no fit is found."""
        problem, z = self.fitted.problem, self.fitted.z
        row, settled = np.zeros(len(z)), self.rows[~self.model.moving]
        np.add.at(row, self.rows, np.where(form != 0.0, form * self.multiples, 0.0))
        lower, upper = problem.lower.copy(), problem.upper.copy()
        lower[settled] = upper[settled] = z[settled]
        if np.isnan(row).any() or not row[lower < upper].any():
            return 1.0
        size = float(np.linalg.norm(row))
        matrix, values = row[None] / size, np.array([-constant]) / size
        if (known := problem.equalities) is not None:
            matrix = np.concatenate([known.matrix, matrix])
            values = np.concatenate([known.values, values])
            moves = matrix * (lower < upper)
            if np.linalg.matrix_rank(moves) < len(moves):  # it is known: no other value is possible
                return np.inf
        known = Equalities(matrix=matrix, values=values)
        held = replace(problem, lower=lower, upper=upper, equalities=known, model=None)
        found = held.minimum(
            self._near(form, constant),
            self.fitted.parts,
            tolerance=self.fitted.tolerance,
            max_steps=MOST_STEPS,
        )
        if np.abs(found.missing(found.z)).max() > MISSED * (1.0 + np.abs(values).max()):
            return np.inf  # no place within the bounds
        if np.isfinite(found.loss) and not found.converged:
            return 1.0
        modelled = self.model.rise(form, constant)
        return max(found.loss - self.fitted.loss, 0.0) / modelled if modelled > 0.0 else 1.0

    def _near(self, form: np.ndarray, constant: float) -> np.ndarray:
        """[n] the parameters of the fit under the equality, by the model."""
        move = self.model.place(form, constant) - self.model.best
        problem = self.fitted.problem
        return np.clip(self.fitted.z + self.follow @ move, problem.lower, problem.upper)


def adapted(evidence: Evidence, e: int) -> np.ndarray:
    """[n, D] how the joint parameters follow when one of chain e moves, all others adapting."""
    fitted = evidence.fitted
    problem, ties = fitted.problem, fitted.problem.ties
    kept, sized = evidence.free.copy(), ties.sizes[e] != UNSIZED
    for entries in (ties.rows[e], ties.sizes[e][sized]):
        kept[entries] = problem.movable[entries]
    kept &= np.isnan(evidence.limits)
    inner = evidence.chains[e].inner[:, kept]
    follow = np.zeros((len(fitted.z), len(inner)))
    if not kept.any():
        return follow
    back = np.linalg.pinv(inner)
    _, sizes, axes = np.linalg.svd(inner)
    rank = int((sizes > 1e-12 * sizes.max(initial=0.0)).sum())
    rest = axes[rank:].T  # joint directions that leave this chain alone
    fisher = fitted.informed(evidence.fisher)[np.ix_(kept, kept)]
    inverse, _ = inverse_information(rest.T @ fisher @ rest, np.ones(rest.shape[1], bool))
    follow[kept] = back - rest @ inverse @ rest.T @ fisher @ back
    return follow


def numbers_of(
    evidence: Evidence,
    e: int = 0,
    *,
    features: Features | None = None,
    chosen: Chosen | None = None,
    unit: np.ndarray | None = None,
) -> Numbers:
    """The expert of a chain in the gauge, with its intervals where the evidence has any.

    Of the features is asked what a constant costs: the coordinates do not know. `chosen` are the
    constraints that are reported; `unit` [D] is what the features are divided by first.
    """
    own, gauge = evidence.chains[e], evidence.gauge(e, unit)
    space = own.chain.space if unit is None else scaled_by(own.chain.space, unit)
    if not evidence.written:
        ends = np.full((space.size + 2 * space.constraints, 2), np.nan)
        return Numbers(gauge, ends, ends[:, 0].copy())
    part = OwnFit.of(evidence, e)
    stretch = evidence.budget_stretch(e, gauge)
    ends, spread = intervals(space, part, gauge, chosen=chosen, stretch=stretch)
    mute = part.silent & (part.upper > part.lower)
    if mute.any() and len(evidence.fitted.problem.chains) == 1:
        edges = [block.stop for block in space.blocks[:-1]]
        spent = np.split(-own.spent * space.scales, edges)
        if features is not None and own.reached.size:
            spent = list(pull_back(features, own.reached))
            if unit is not None:
                spent = [one / div for one, div in zip(spent, np.split(unit, edges), strict=True)]
        prices = slice(space.size, space.size + space.constraints)
        rows = ends[prices.stop :].copy()
        rows[~np.isfinite(gauge.budgets)] = np.nan
        costs = [ends[block] for block in space.blocks[1:]]
        narrow = Ends(ends[space.blocks[0]], costs, ends[prices], rows)
        wide = narrow.beside(
            [mute[block] for block in space.blocks],
            [np.stack([own, own], axis=1) for own in spent[1:]],
            free_reward=bool(np.isinf(part.lower).any()),
        )
        ends = np.concatenate([wide.reward, *wide.costs, wide.multipliers, wide.budgets])
    if evidence.absence:
        ends[:], spread[:] = np.nan, np.nan
    return Numbers(gauge, ends, spread)


def intervals(
    space: Design,
    fitted: OwnFit,
    gauge: Gauge,
    *,
    chosen: Chosen | None = None,
    stretch: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """[D + K + K, 2] intervals of weights, multipliers and budgets, and [D + K + K] their errors.

    Args:
        space: the coordinates.
        fitted: the maximum of the likelihood.
        gauge: the same in the gauge.
        chosen: which constraints are reported, where that was decided by the same data.
        stretch: [K] by what errors of budgets grow as what is spent moves by itself, too.
    """
    size, count = space.size, space.constraints
    stretch = np.ones(count) if stretch is None else stretch
    limits, found = fitted.limits, fitted.errors
    spread = row_errors(gauge.jacobian, found.covariance, found.blind)
    spread[size + count :] *= stretch
    mute, lower, upper = fitted.silent, fitted.lower, fitted.upper
    moving = np.isnan(limits) & ~mute
    profiled = int((moving & (upper > lower)).sum()) <= PROFILED
    around = fitted.landscape(moving) if profiled else None
    ends = np.full((size + 2 * count, 2), np.nan)
    in_curve = np.flatnonzero(space.in_curve)
    if not profiled:
        ends = quadratic_ends(space, fitted, gauge, spread)
    elif len(in_curve):  # of which nobody reads single weights
        ends[in_curve] = quadratic_ends(space, fitted, gauge, spread)[in_curve]
    floor = np.where(lower >= 0.0, 0.0, -1.0)
    ceiling = np.where((upper <= 0.0) & (lower < 0.0), 0.0, 1.0)
    for j in np.flatnonzero(~np.isnan(gauge.ratios.sizes[:size])):
        # Anything goes for a parameter that moves nothing; `numbers_of` widens the others by it.
        alone = (float(floor[j]), float(ceiling[j]))
        if mute[j]:
            ends[j] = alone
        elif around is not None and not space.in_curve[j]:
            ends[j] = _weight_ends(around, gauge, int(j), alone)
    if np.isnan(gauge.reward_weights).any():  # no reward was needed: which one is anybody's guess
        ends[space.blocks[0]] = np.stack([floor, ceiling], axis=1)[space.blocks[0]]
    for k, block in enumerate(space.blocks[1:]):
        set_by = gauge.ratios.bottoms[block.start] * np.isfinite(limits)
        if set_by.any():  # forbidden costs alone make the price: it has no upper limit either
            least = float(set_by @ np.nan_to_num(limits)) / gauge.ratios.sizes[block.start]
            ends[size + k] = (least * gauge.multipliers[k], np.inf)
        elif mute[block].all():
            ends[size + k] = (0.0, np.inf)
        elif around is not None:
            reach = 0.0 if chosen is None else chosen.reach(k)
            ends[size + k] = _price_ends(around, gauge, k, reach)
        if np.isfinite(gauge.budgets[k]) and around is not None:
            own_ends = _budget_ends(around, gauge, fitted, space, k, stretch[k])
            ends[size + count + k] = own_ends
        if chosen is not None and chosen.barely_found(k) and block.stop - block.start > 1:
            ends[block] = np.where(np.isnan(ends[block]), np.nan, [0.0, 1.0])
    shut = np.isfinite(limits)
    units = 1.0 / space.scales / gauge.ratios.sizes[:size]
    far = np.where(limits < 0, -np.inf, np.inf)
    ends[:size][shut] = np.sort(np.stack([limits * units, far], axis=1)[shut], axis=1)
    # The weight of a coefficient that was fixed moves with the sum that it is a share of.
    moves = fitted.free | ((lower == upper) & (fitted.x != 0.0))
    spread[:size] = np.where(moves & ~shut, spread[:size], np.nan)
    return ends, spread


def quadratic_ends(space: Design, fitted: OwnFit, gauge: Gauge, spread: np.ndarray) -> np.ndarray:
    """[D + K + K, 2] intervals of weights, prices and budgets by their errors, within the bounds.

    On a bound the interval is one-sided: up to where the loss, the free parameters adapting, has
    risen by its quantile.
    """
    weights = np.concatenate([gauge.reward_weights, *gauge.cost_weights])
    middle = np.concatenate([weights, gauge.multipliers, gauge.budgets])
    ends = middle[:, None] + TWO_SIDED * np.outer(spread, [-1.0, 1.0])
    theta, size, sure = fitted.x / space.scales, space.size, fitted.fisher + fitted.known
    scatter = sure if fitted.errors.scatter is None else fitted.errors.scatter + fitted.known
    held = np.flatnonzero(~fitted.free & (fitted.upper > fitted.lower))  # others move with units
    side = np.where(fitted.x <= fitted.lower, 1.0, -1.0)[held]
    slope = np.maximum(side * fitted.gradient[held], 0.0)
    across = sure[held]
    inverse, _ = inverse_information(sure, fitted.free)
    left = np.diagonal(sure)[held] - ((across @ inverse) * across).sum(axis=1)
    left = np.maximum(left, 1e-300)
    rest = np.eye(size)[held] - across @ inverse
    varied = np.maximum(((rest @ scatter) * rest).sum(axis=1), left)
    limits = (np.sqrt(slope**2 + ONE_SIDED**2 * varied) - slope) / left / space.scales[held]
    units = np.full(size, gauge.temperature)
    for k, block in enumerate(space.blocks[1:]):
        price = gauge.multipliers[k]
        units[block] = gauge.temperature / price if price > 0 else np.nan
    far = theta[held] + side * limits
    ends[held] = np.sort(np.stack([theta[held], far], axis=1) * units[held, None], axis=1)
    prices = np.arange(size, size + space.constraints)
    for rows in (np.flatnonzero(fitted.lower >= 0.0), prices):
        ends[rows] = np.maximum(ends[rows], 0.0)
    below = np.flatnonzero((fitted.upper <= 0.0) & (fitted.lower < 0.0))
    ends[below] = np.minimum(ends[below], 0.0)
    return ends


@dataclass(frozen=True, eq=False)
class Excess:
    """How many times the variance of a form is what the information says; at least 1.

    Attributes:
        information: [D, D] curvature of the loss.
        scatter: [D, D] covariance of its gradient.
        free: [D] bool, the parameters that no bound holds for certain; the others of a form move
            where none of its own is free.
    """

    information: np.ndarray
    scatter: np.ndarray
    free: np.ndarray

    def __call__(self, form: np.ndarray) -> float:
        """Of a form [D]."""
        lean = form @ self._inverse(self.free.tobytes())
        if not lean.any():
            lean = form @ self._inverse((self.free | (form != 0)).tobytes())
        plain = float(lean @ form)
        return max(1.0, float(lean @ self.scatter @ lean) / plain) if plain > 0 else 1.0

    def _inverse(self, free: bytes) -> np.ndarray:
        if free not in self._inverses:
            moving = np.frombuffer(free, bool)
            self._inverses[free] = inverse_information(self.information, moving)[0]
        return self._inverses[free]

    @cached_property
    def _inverses(self) -> dict[bytes, np.ndarray]:
        return {}


def _weight_ends(
    around: Landscape, gauge: Gauge, j: int, limits: tuple[float, float]
) -> tuple[float, float]:
    parts = gauge.ratios
    point = float(np.concatenate([gauge.reward_weights, *gauge.cost_weights])[j])

    def form_of(ratio: float) -> tuple[np.ndarray, float]:
        return parts.tops[j] - ratio * parts.bottoms[j], -ratio * float(parts.constants[j])

    below = float(parts.bottoms[j] @ around.best) + float(parts.constants[j])
    best = float(parts.tops[j] @ around.best) / below if below > 0 else point
    return ends_of(around, form_of, point=point, best=best, limits=limits)


def _price_ends(around: Landscape, gauge: Gauge, k: int, reach: float) -> tuple[float, float]:
    """Searched over a share u: price = unit * u / (1 - u), so that infinity is within reach.

    The upper end is at least `reach` standard errors away.
    """
    parts = gauge.ratios
    row = len(parts.sizes) - len(gauge.multipliers) + k
    price = float(gauge.multipliers[k])
    unit = price if price > 0 else gauge.temperature

    def form_of(share: float) -> tuple[np.ndarray, float]:
        form = (1.0 - share) * parts.tops[row] - share * unit * parts.bottoms[row]
        return form, -share * unit * float(parts.constants[row])

    here = 0.5 if price > 0 else 0.0
    own = float(parts.tops[row] @ around.best)
    rest = unit * (float(parts.bottoms[row] @ around.best) + float(parts.constants[row]))
    best = own / (own + rest) if own + rest > 0 else here
    limits = (0.0, 1.0)
    low, high = ends_of(around, form_of, point=here, best=best, limits=limits, reach=reach)
    return unit * low / (1.0 - low), unit * high / (1.0 - high) if high < 1.0 else np.inf


def _budget_ends(
    around: Landscape, gauge: Gauge, fitted: OwnFit, space: Design, k: int, stretch: float
) -> tuple[float, float]:
    """A budget is a ratio too, its numerator linear only nearly: theta . expectations(theta)."""
    block = space.blocks[1 + k]
    bottom, total = gauge.ratios.bottoms[block.start], float(gauge.ratios.sizes[block.start])
    budget = float(gauge.budgets[k])
    top = total * gauge.jacobian[space.size + space.constraints + k] + budget * bottom
    constant = budget * total - float(top @ fitted.x)

    def form_of(ratio: float) -> tuple[np.ndarray, float]:
        return top - ratio * bottom, constant

    below = float(bottom @ around.best)
    best = (float(top @ around.best) + constant) / below if below > 0 else budget
    edges = np.stack(space.ranges)[:, block]
    costs = -(edges + space.offsets[block]) * space.scales[block]
    if fitted.discount == 1.0:
        limits = -np.inf if costs.min() < 0 else 0.0, np.inf if costs.max() > 0 else 0.0
    else:  # what any policy can spend, with weights that sum to 1
        costs = costs / (1.0 - fitted.discount)
        nothing = [0.0] if space.ending else []
        least = min(float(costs.min()), budget, *nothing)
        limits = least, max(float(costs.max()), budget, *nothing)
    linear = replace(around, exact=None)  # the loss knows no such form
    low, high = ends_of(linear, form_of, point=budget, best=best, limits=limits)
    low, high = (budget + stretch * (end - budget) for end in (low, high))
    return max(low, limits[0]), min(high, limits[1])
