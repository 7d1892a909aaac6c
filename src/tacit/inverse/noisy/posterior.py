"""A fit of very many parameters, and their law: intervals, and answers by products.

Gaussian around the estimate, with the curvature of the loss, the prior's part included. It is
written out [D, D] where that can be; beyond, each linear question is a system of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from tacit.inference.counted_rows import CountedRows, chain_slopes, chain_values
from tacit.inference.gauge import Gauge
from tacit.inference.tails import ONE_SIDED, TWO_SIDED
from tacit.inverse.diagnostics import CountedDynamics
from tacit.inverse.noisy import DeltaMethod, adjoint, table_scores
from tacit.inverse.noisy.adjoint import Descent, Information, Loss, Place, begin, descend, runs_away
from tacit.inverse.noisy.counted import (
    ROUGHLY,
    DynamicsNoise,
    budget_stretch,
    mean_shift,
    noise_around,
    shifted_by,
)
from tacit.inverse.noisy.estimate import bounds_of
from tacit.inverse.noisy.inference import Errors, delta_method, row_errors, undecided
from tacit.inverse.noisy.intervals import Numbers
from tacit.inverse.parameters import BLIND, Parameters, inverse_information
from tacit.inverse.sets import unmeasured
from tacit.likelihood.problem import Fit, LikelihoodProblem
from tacit.likelihood.rescue import RESCUE
from tacit.likelihood.steps import information
from tacit.model.features.design import Design, sums_as_given
from tacit.model.mdp import MDP
from tacit.model.objective import Features, coefficient_names

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.model.objective import FeatureTable, SparseTable


class Ended(NamedTuple):
    """A fit, and how it came about."""

    loss: Loss
    descent: Descent
    boundless: bool  # whether the best parameters are infinite, so that a ridge was taken

    def fit(self, tolerance: float) -> Fit:
        """It as a `Fit`, without its curvature: what decides whether it converged."""
        loss, place = self.loss, self.descent.place
        return Fit(
            problem=LikelihoodProblem.of(loss, loss.lower, loss.upper),
            z=place.x,
            loss=place.loss,
            gradient=place.gradient,
            curvature=np.zeros((0, 0)),
            scale=np.full(len(place.x), loss.scale),
            parts=(place,),
            steps=self.descent.steps,
            tolerance=tolerance,
            pulls=np.zeros(0),
        )


def minimised(loss: Loss, options: Likelihood, near: Place | None = None) -> Ended:
    """The minimum of the loss; with a ridge of last resort where the best parameters run away."""
    from scipy.sparse import csr_array, eye_array

    rules = {"tolerance": options.tolerance, "max_steps": options.max_steps}
    if near is not None:
        near = loss.at(np.clip(near.x, loss.lower, loss.upper), near.values, options.tolerance)
    place = begin(loss, options.tolerance) if near is None or not np.isfinite(near.loss) else near
    end = descend(loss, place, **rules)
    if loss.penalty is not None or not runs_away(end.place):
        return Ended(loss, end, False)
    loss = replace(loss, penalty=csr_array(RESCUE * eye_array(loss.design.size)))
    place = loss.at(end.place.x, end.place.values, options.tolerance)
    return Ended(loss, descend(loss, place, **rules), True)


# Relative size of what is left of the silent direction by rounding.
SILENT = 1e-9
# Most coefficients whose errors are kept as a table [D, D].
TABLED = 1000
# Share of a direction that conjugate gradients may leave, and their products.
LEFT, PATIENT = 1e-6, 3000


@dataclass(frozen=True, eq=False, kw_only=True)
class Posterior:
    """The Gaussian law of very many parameters: curvature of the loss, the prior's part included.

    Attributes:
        gauge: the numbers in the gauge; with derivatives where the curvature is written out.
        ends: [D + K + K, 2] intervals of weights, prices and budgets; NaN where it is not.
        spread: [D + K + K] their standard errors.
        precision: [D, D] the curvature; empty where it is not written out.
        outer: [D, D] sum over all steps of score times score; empty likewise.
        blind: how many directions nothing is known of, neither by steps nor by a prior.
        free: [D] bool, the parameters that no bound holds for certain; empty likewise.
        effective: how many directions the steps determine, a share of each; NaN likewise.
        answer: to linear questions.
        noise: what counted dynamics add; None where they are known, or nothing is written out.
        dynamics: how much that is.
        scaled: the numbers of standardised features, with intervals and errors; None where none
            are known, or where they are those in raw units.
    """

    gauge: Gauge
    ends: np.ndarray
    spread: np.ndarray
    precision: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    outer: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    blind: int = 0
    free: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    effective: float = np.nan
    answer: DeltaMethod
    noise: DynamicsNoise | None = None
    dynamics: CountedDynamics | None = None
    scaled: Numbers | None = None

    @classmethod
    def of(
        cls, ended: Ended, fitted: Fit, reached: np.ndarray, unit: np.ndarray | None = None
    ) -> Posterior:
        """The law at a fit.

        Args:
            ended: the search.
            fitted: where it ended.
            reached: [S, A] discounted visitation of its policy.
            unit: [D] deviations of the features; None where those of one map are all the same.
        """
        loss, x = ended.loss, fitted.z
        space, mdp, policy = loss.design, loss.mdp, fitted.parts[0].policy
        spent, many = sums_as_given(space, reached), space.size + 2 * space.constraints
        open_ends = np.full((many, 2), np.nan)
        if not adjoint.can_write_out(space):
            gauge = Gauge.of(space, x, spent)
            rows, answer = CountedRows.of(mdp), AskedByProducts.made(ended, fitted, gauge)
            dynamics = None if rows is None else CountedDynamics(unseen=rows.unseen(loss.visits))
            law = {"ends": open_ends, "spread": open_ends[:, 0]}
            return cls(gauge=gauge, **law, answer=answer, dynamics=dynamics)
        scores, fisher = written_law(ended)
        precision = fisher if loss.penalty is None else fisher + loss.penalty.toarray()
        silent = None if mdp.ends.any() else space.constant
        free = fitted.free
        if loss.penalty is None:
            free = undecided(fitted, fisher, free & ~space.empty)
        inverse, blind = inverse_precision(precision, free, silent)
        visits = reached.sum(axis=1) if space.constraints else None
        noise = many_noise(ended, free, precision, inverse, reached=visits)
        scatter = precision if noise is None else noise.total(precision)
        covariance = inverse if noise is None else inverse @ scatter @ inverse
        reaction = np.zeros((space.size, space.size))
        if space.constraints:  # what is spent, and so the budgets, moves with the parameters
            reaction = information(scores, policy, reached.sum(axis=1))

        def numbers(space: Design) -> Numbers:
            gauge = Gauge.of(space, x, spent, reaction)
            spread = row_errors(gauge.jacobian, covariance, blind)
            if noise is not None and space.constraints:
                stretch = budget_stretch(space, gauge, inverse, covariance, noise)
                spread[space.size + space.constraints :] *= stretch
            ends = _ends(space, gauge, fitted, (precision, inverse, scatter), spread)
            return Numbers(gauge, ends, spread)

        known = numbers(space)
        gauge, ends, spread = known.gauge, known.ends, known.spread
        scaled = None if unit is None else numbers(replace(space, scales=space.scales / unit))
        small = space.size <= TABLED
        return cls(
            gauge=gauge,
            ends=ends,
            spread=spread,
            precision=precision,
            outer=information(scores, loss.seen, np.ones(mdp.states)) if small else open_ends,
            blind=len(blind),
            free=free,
            effective=float((inverse * fisher).sum()),
            noise=noise,
            dynamics=None if noise is None else _summary(ended, noise, inverse, covariance),
            answer=delta_method(space, x, gauge, covariance, blind, ends),
            scaled=scaled,
        )


def many_noise(
    ended: Ended,
    free: np.ndarray,
    precision: np.ndarray,
    inverse: np.ndarray,
    *,
    reached: np.ndarray | None = None,
    seed: int = 0,
) -> DynamicsNoise | None:
    """The `DynamicsNoise` of a fit whose scores are written out; None where dynamics are known.

    `inverse` [D, D] is that of the precision [D, D]; `reached` [S] as in `dynamics_noise`.
    """
    loss, place, rows = ended.loss, ended.descent.place, CountedRows.of(ended.loss.mdp)
    if rows is None:
        return None
    mdp, policy, scores = loss.mdp, place.policy, written_law(ended)[0]
    tables = loss.design.rows(slice(0, mdp.states)).reshape(*policy.shape, -1)
    right = np.einsum("sa,sad->ds", policy, tables)
    chain = {"policy": policy, "scores": scores, "values": place.values}
    chain |= {"tables": chain_values(mdp, policy, right)}
    parts = [chain_slopes(mdp, **chain, visits=place.visits, counts=loss.seen)]
    if reached is not None:
        parts.append(chain_slopes(mdp, **chain, visits=reached))
    joint = rows.covariance(lambda part: np.concatenate([p.at(rows, part) for p in parts], -1))

    def shifted(world: MDP) -> np.ndarray:
        start = loss.visits - world.discount * world.inflow(loss.seen)
        moved = replace(loss, mdp=world, start=start)
        # The curvature of the fit will do: what it is elsewhere matters to a third order.
        return shifted_by(lambda x: -inverse @ moved.at(x, place.values, ROUGHLY).gradient, place.x)

    bias = mean_shift([shifted(world) for world in rows.worlds(seed)])
    return noise_around(joint, bias, precision, np.where(free, place.x, 0.0))


def written_law(ended: Ended) -> tuple[np.ndarray, np.ndarray]:
    """[D, S, A] the scores of a fit and [D, D] the information of the steps: made once."""
    loss, policy = ended.loss, ended.descent.place.policy
    known = loss.__dict__.get("_law")
    if known is None or known[0] is not policy:
        scores = table_scores(loss.mdp, loss.design.rows(slice(0, loss.mdp.states)), policy)
        known = policy, scores, information(scores, policy, loss.visits)
        object.__setattr__(loss, "_law", known)
    return known[1:]


def inverse_precision(
    precision: np.ndarray, free: np.ndarray, silent: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """As `inverse_information`, by elimination where at most the silent direction is blind.

    What is silent in every world is no doubt but a choice: it stays as it was chosen.
    """
    from scipy.linalg import lapack

    matrix, added, none = precision, np.zeros(precision.shape), np.zeros((0, len(free)))
    if silent is not None and free.all():
        unit = silent / np.linalg.norm(silent)
        if np.abs(precision @ unit).max() <= SILENT * np.abs(precision).max():
            size = float(np.diagonal(precision).mean())
            matrix, added = precision + size * np.outer(unit, unit), np.outer(unit, unit) / size
    kept = np.flatnonzero(free)
    block = matrix[np.ix_(kept, kept)]
    units = np.sqrt(np.maximum(np.diagonal(block), 1e-300))
    scaled = block / np.outer(units, units)
    factor, failed = lapack.dpotrf(scaled, lower=1, clean=1)  # pyright: ignore[reportAttributeAccessIssue]
    if failed or np.diagonal(factor).min(initial=1.0) ** 2 < BLIND * len(kept):
        return inverse_information(precision, free)
    inverse, _ = lapack.dpotri(factor, lower=1)  # pyright: ignore[reportAttributeAccessIssue]
    inverse = (np.tril(inverse) + np.tril(inverse, -1).T) / np.outer(units, units)
    covariance = np.zeros(precision.shape)
    covariance[np.ix_(kept, kept)] = inverse
    return covariance - added, none


def _ends(
    space: Design,
    gauge: Gauge,
    fitted: Fit,
    law: tuple[np.ndarray, np.ndarray, np.ndarray],
    spread: np.ndarray,
) -> np.ndarray:
    """[D + K + K, 2] intervals of weights, prices and budgets within the bounds.

    `law` are precision [D, D] of the parameters, its inverse, and the scatter of their scores. On a
    bound the interval is one-sided: up to where the loss, the free parameters adapting, has risen
    by its quantile.
    """
    weights = np.concatenate([gauge.reward_weights, *gauge.cost_weights])
    middle = np.concatenate([weights, gauge.multipliers, gauge.budgets])
    ends = middle[:, None] + TWO_SIDED * np.outer(spread, [-1.0, 1.0])
    problem, theta = fitted.problem, fitted.z / space.scales
    held, size, precision = np.flatnonzero(~fitted.free), space.size, law[0]
    held = held[problem.upper[held] > problem.lower[held]]  # what is fixed moves with its unit
    side = np.where(fitted.z <= problem.lower, 1.0, -1.0)[held]
    slope = np.maximum(side * fitted.gradient[held], 0.0)
    across = precision[held]
    left = np.diagonal(precision)[held] - ((across @ law[1]) * across).sum(axis=1)
    left = np.maximum(left, 1e-300)
    rest = np.eye(size)[held] - across @ law[1]
    varied = np.maximum(((rest @ law[2]) * rest).sum(axis=1), left)
    limits = (np.sqrt(slope**2 + ONE_SIDED**2 * varied) - slope) / left / space.scales[held]
    units = np.full(size, gauge.temperature)
    for k, block in enumerate(space.blocks[1:]):
        price = gauge.multipliers[k]
        units[block] = gauge.temperature / price if price > 0 else np.nan
    far = theta[held] + side * limits
    ends[held] = np.sort(np.stack([theta[held], far], axis=1) * units[held, None], axis=1)
    spread[held] = np.nan
    prices = np.arange(size, size + space.constraints)
    for rows in (np.flatnonzero(problem.lower >= 0.0), prices):
        ends[rows] = np.maximum(ends[rows], 0.0)
    below = np.flatnonzero((problem.upper <= 0.0) & (problem.lower < 0.0))
    ends[below] = np.minimum(ends[below], 0.0)
    return ends


def coefficients(
    features: Features, design: Design, fitted: Fit, known: Posterior | None, given: np.ndarray
) -> Parameters:
    """The coefficients; with standard errors where they are few enough to keep their curvature.

    Those that are `given` [D] bool were fixed beforehand: they have no error.
    """
    names = coefficient_names(features.reward_names, features.cost_names)
    estimates = fitted.z / design.scales
    lower, upper = bounds_of(fitted.lower, fitted.upper, design.scales, given)
    if known is None or design.size > TABLED or not len(known.precision):
        absence = "no table of standard errors is kept for so many coefficients: ask for directions"
        if known is None:
            absence = "the search found no maximum to measure the errors at"
        return unmeasured(names, estimates, lower=lower, absence=absence)
    return Parameters(
        names=names,
        estimates=estimates,
        jacobian=np.diag(np.where(given, 0.0, 1.0 / design.scales)),
        information=known.precision,
        outer=known.outer,
        scatter=np.full(known.outer.shape, np.nan),
        gradient=fitted.gradient,
        free=known.free,
        lower=lower,
        limits=np.full(design.size, np.nan),
        upper=upper,
        dynamics=None if known.noise is None else known.noise.added(),
        attenuation=1.0 if known.noise is None else known.noise.attenuation,
    )


def _summary(
    ended: Ended, noise: DynamicsNoise, inverse: np.ndarray, covariance: np.ndarray
) -> CountedDynamics | None:
    """How much counted dynamics add, of covariances before and after."""
    rows, none = CountedRows.of(ended.loss.mdp), np.zeros((0, len(inverse)))
    laws = [Errors(law, none, False) for law in (inverse, covariance)]
    return None if rows is None else noise.summary(rows, ended.loss.visits, *laws)


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedByProducts(DeltaMethod):
    """The delta method where no covariance is written out: each question is a linear system.

    Covariance and blind directions are empty; single numbers have no intervals of their own.

    Attributes:
        mdp: the model.
        policy: [S, A] fitted.
        visits: [S] that were seen.
        free: [D] bool, the parameters that no bound holds.
        parts: the matrices of the features, dense ones whole, sparse ones taken apart.
        penalty: the matrix of the prior, likewise; empty for none.
        values: [S] soft values; empty where the dynamics are known.
        counts: [S, A] steps seen; likewise.
    """

    mdp: MDP
    policy: np.ndarray
    visits: np.ndarray
    free: np.ndarray
    parts: tuple[tuple[np.ndarray, ...], ...]
    penalty: tuple[np.ndarray, ...] = ()
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    counts: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def made(cls, ended: Ended, fitted: Fit, gauge: Gauge) -> AskedByProducts:
        """The answers of a fit, at 95 %."""
        loss, space = ended.loss, ended.loss.design
        law = np.zeros((0, 0)), np.zeros((0, space.size))
        counted = loss.mdp.evidence is not None
        return cls(
            **vars(delta_method(space, fitted.z, gauge, *law)),
            mdp=loss.mdp,
            policy=fitted.parts[0].policy,
            visits=loss.visits,
            free=fitted.free,
            parts=tuple(_taken_apart(part) for part in space.parts),
            penalty=() if loss.penalty is None else _taken_apart(loss.penalty),
            values=ended.descent.place.values if counted else np.zeros(0),
            counts=loss.seen if counted else np.zeros((0, 0)),
        )

    def variance(self, slope: np.ndarray) -> float:
        """Of slope [D] . parameters; infinite where conjugate gradients find no answer."""
        edges = np.concatenate([[0], np.cumsum(self.sizes)]).tolist()
        design = Design(
            parts=tuple(_put_together(part) for part in self.parts),
            shape=self.policy.shape,
            signs=np.ones(len(slope)),
            scales=self.scales,
            blocks=tuple(slice(a, b) for a, b in pairwise(edges)),
            names=("",) * len(slope),
            offsets=np.zeros(len(slope)),
        )
        curved = Information(
            mdp=self.mdp,
            design=design,
            policy=self.policy,
            visits=self.visits,
            penalty=_put_together(self.penalty) if self.penalty else None,
        )
        silent = None if self.mdp.ends.any() else design.constant
        if silent is not None and self.free.all():  # a choice, and no doubt
            image, unit = curved @ silent, silent / np.linalg.norm(silent)
            if np.abs(image).max() <= SILENT * np.abs(silent).max() * self.visits.sum():
                slope = slope - (slope @ unit) * unit
        found, _, left = curved.inverse_times(slope, self.free, share=LEFT, most=PATIENT)
        own = float(slope @ found) + self._of_dynamics(curved, found)
        return own if left <= 1e-3 else np.inf

    def _of_dynamics(self, curved: Information, direction: np.ndarray) -> float:
        """What counted dynamics add to the variance of a number moved by these scores [D]."""
        rows = CountedRows.of(self.mdp)
        if rows is None:
            return 0.0
        mdp, policy, table = self.mdp, self.policy, curved.design.table(direction)
        later = curved.solve((policy * table).sum(axis=1), transposed=False)
        scores = table + mdp.discount * mdp.expected_next(later) - later[:, None]
        scores = np.where(mdp.choices, scores, 0.0)
        start = self.counts.sum(axis=1) - mdp.discount * mdp.inflow(self.counts)
        chain = {"policy": policy, "scores": scores[None], "values": self.values}
        visits = curved.solve(start, transposed=True)
        slopes = chain_slopes(mdp, **chain, tables=later[None], visits=visits, counts=self.counts)
        return float(rows.covariance(lambda part: slopes.at(rows, part))[0, 0])


def _taken_apart(matrix: FeatureTable | csr_array) -> tuple[np.ndarray, ...]:
    """A matrix as arrays that a file can hold."""
    from scipy.sparse import csr_array

    rows = csr_array(matrix)
    return rows.data, rows.indices, rows.indptr, np.array(rows.shape)


def _put_together(arrays: tuple[np.ndarray, ...]) -> SparseTable:
    """The matrix of these arrays."""
    from scipy.sparse import csr_array

    made = csr_array(tuple(arrays[:3]), shape=tuple(arrays[3].tolist()))
    return cast("SparseTable", made)
