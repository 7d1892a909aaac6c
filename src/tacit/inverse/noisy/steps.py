"""The observed steps as a likelihood to be maximised, and its shape around the maximum.

Minus the log-likelihood of all observed actions equals b . V_soft(theta) - theta . sum N phi with
b(s') = N(s') - discount * inflow of N: the dual of `Convex` with the start replaced by b. Where
episodes end V is what the end pays, linear in theta, and b is minus the expected arrivals.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.observed import Observed
from tacit.data.tally import Tally, tally_of
from tacit.inverse.expectations import random_loss, squares_of
from tacit.inverse.findings import LEVEL, Finding, Kind, chance
from tacit.inverse.noisy import norm_findings
from tacit.inverse.noisy.boltzmann import Fit, fit, over_an_episode
from tacit.inverse.noisy.coordinates import LARGEST, Bounds, Coordinates
from tacit.inverse.noisy.inference import information, square_roots
from tacit.inverse.numerics import Approach, SignedSums, chi_square_tail, least_squares
from tacit.inverse.parameters import CONFIDENCE
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    from tacit.inverse.noisy.em import Search
    from tacit.inverse.noisy.evidence import Evidence
    from tacit.inverse.noisy.likelihood import Likelihood

# Ridge of the fit that a search begins from where it may matter.
ROUGH = 1e-4
# Share of the information below which the loss is too flat to divide by.
BENT = 0.05
# Steps a parameter below which likelihood ratios are those of a small sample.
FEW = 10
# Weight of an equality in the least-squares problem, relative to one standard error.
STIFF = 1e5
# A sum of at least this many parameters that may be 0, their values without a bound being less than
# so many standard errors, has a law of its own: simulated by draws, the ends refined so often.
MANY, CLEAR, DRAWS, REFINED = 4, 2.5, 400, 2
# The draws are always the same: their quantile is taken one Monte Carlo error wider, or it might
# always be too narrow (by 12 % of the cut with 200 draws, where intervals held in 93 %).
WIDER = CONFIDENCE + float(np.sqrt(CONFIDENCE * (1.0 - CONFIDENCE) / DRAWS))


@dataclass(frozen=True, eq=False)
class Steps:
    """The observed steps as the coefficients of the likelihood.

    Attributes:
        mdp: the model.
        space: its coordinates.
        counts: [S, A] how often each action was taken.
        start: [S] the b of the likelihood; complete trips whose moves are certain make it the
            number of trips that begin in each state, at discount 1.
        target: [D] sums of the features over all steps.
        discounted: [S, A] mean discounted visits of the trajectories that begin at the start, if
            there are any.
        tally: of the demonstrations; None where there are only counts.
        lost: [D, D] information that what was not seen takes away: whose steps these are, or
            whether they were chosen at all. None where all is seen.
        squares: [S, A] squared sampling weights of the steps, summed, their mean being 1; None
            where all steps count alike.
    """

    mdp: MDP
    space: Coordinates
    counts: np.ndarray
    start: np.ndarray
    _: KW_ONLY
    target: np.ndarray
    discounted: np.ndarray | None
    tally: Tally | None = None
    lost: np.ndarray | None = None
    squares: np.ndarray | None = None

    @classmethod
    def of(cls, mdp: MDP, space: Coordinates, demonstrations: Observed) -> Steps:
        """The coefficients of these demonstrations."""
        tally = tally_of(mdp, demonstrations)
        counts = tally.counts
        start = counts.sum(axis=1) - mdp.discount * mdp.inflow(counts)
        visits = None
        if tally.trajectories:
            alike = (np.ptp(space.tables, axis=2) == 0).all(axis=0)
            visits = tally.visitation(mdp.absorbing & ~mdp.ends & alike)
        return cls(
            mdp,
            space,
            counts,
            start,
            target=space.pull_back(counts),
            discounted=visits,
            tally=tally,
            squares=squares_of(mdp, demonstrations),
        )

    @property
    def design(self) -> float:
        """By what weights of the steps multiply the variance of a mean (Kish's design effect)."""
        return 1.0 if self.squares is None else float(self.squares.sum() / self.counts.sum())

    @property
    def at_starts(self) -> np.ndarray:
        """[D] bool, which features every trajectory has where it begins, and which were seen."""
        begun = self.space.tables[:, self.mdp.initial > 0].any(axis=2).all(axis=-1)
        return begun & (self.target != 0.0)

    def reweighted(self, counts: np.ndarray) -> Steps:
        """The coefficients of some of the steps, or of a share of each, given as counts [S, A]."""
        start = counts.sum(axis=1) - self.mdp.discount * self.mdp.inflow(counts)
        target = self.space.pull_back(counts)
        return Steps(self.mdp, self.space, counts, start, target=target, discounted=None)

    @property
    def visits(self) -> np.ndarray:
        """[S] number of steps in each state."""
        return self.counts.sum(axis=1)

    @property
    def convex(self) -> bool:
        """Whether the likelihood is convex for certain, so that its optimum is global."""
        within = self.start[~self.mdp.ends]  # the value of an end is linear
        return bool(within.min(initial=0.0) >= -1e-9 * self.counts.sum())

    def fit(
        self,
        options: Likelihood | Search,
        *,
        near: Fit | None = None,
        upper: np.ndarray | None = None,
    ) -> Fit:
        """The maximum of the likelihood, sought from a fit nearby if there is one.

        `upper` [D] are the largest values allowed; none by default.
        """
        known = Bounds.of(self.space, options)
        lower = known.lower
        upper = known.upper if upper is None else upper
        x, values = (known.start, None) if near is None else (near.point.x, near.point.values)
        x = None if x is None else np.clip(x, lower, upper)
        if x is None and not self.convex and self.discounted is not None:
            x, values = self._begin(self.discounted, lower, upper, options.max_steps)
        return fit(
            self.mdp,
            self.space,
            self.start,
            self.target,
            lower=lower,
            upper=upper,
            tolerance=options.tolerance,
            max_steps=options.max_steps,
            information=self.visits,
            x=x,
            values=values,
        )

    def _begin(
        self, discounted: np.ndarray, lower: np.ndarray, upper: np.ndarray, max_steps: int
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Where the convex problem of the same data ends, if that is a better start than 0.

        It is not where trajectories are so few or short that no policy collects what they do.
        """
        ridge = over_an_episode(self.mdp, ROUGH)
        rough = fit(
            self.mdp,
            self.space,
            self.mdp.initial,
            self.space.pull_back(discounted),
            lower=lower,
            upper=upper,
            ridge=ridge,
            tolerance=1e-6,
            max_steps=max_steps,
        )
        point = rough.point
        loss = float(self.start @ point.values - point.x @ self.target)
        if not loss < random_loss(self.counts, self.mdp.choices):
            return None, None
        # A feature that moves nothing matches cut-off trajectories with any parameter.
        moves = np.diagonal(point.curvature) > ridge * (1.0 + 1e-9)
        return np.clip(np.where(moves, point.x, 0.0), lower, upper), point.values


def choices(mdp: MDP) -> np.ndarray:
    """[S] how many actions can be taken in each state."""
    return np.asarray(mdp.available.sum(axis=1))


def small_sample(steps: float, parameters: float) -> float:
    """By what a likelihood ratio is multiplied where there are few steps for the free parameters.

    Of n steps and q free parameters it is about n / (n - q) times what its law says, as in a test
    of means; where there are more parameters than steps it says nothing. From `FEW` steps a
    parameter on that is less than chance does, and 1.
    """
    few = float(steps) < FEW * float(parameters)
    return max(1.0 - float(parameters) / max(float(steps), 1.0), 0.0) if few else 1.0


def curvature(steps: Steps, fitted: Fit, scores: np.ndarray) -> np.ndarray:
    """[D, D] of the loss at a fit; the information of the steps where that is no minimum.

    Both agree where the model is right. Elsewhere the loss bends by the visits that the fitted
    policy makes of the start b, not by those that were seen.
    """
    own = information(scores, fitted.point.policy, fitted.point.visits)
    fisher = information(scores, fitted.point.policy, steps.visits)
    inverse = square_roots(fisher)[1]
    least = np.linalg.eigvalsh(inverse @ own @ inverse.T).min(initial=1.0)
    return own if least > BENT else fisher


@dataclass(frozen=True, eq=False)
class Landscape:
    """The loss around its minimum as least squares: |rows z - goal|^2 / 2 + constant, z >= 0.

    Attributes:
        rows: [r, n].
        goal: [r].
        basis: [D, n] parameters are x = origin + basis z.
        origin: [D].
        least: its minimum.
        best: [D] parameters where that is. Where trajectories weigh otherwise than their steps and
            bounds hold some parameters, those are not the parameters of the fit.
    """

    rows: np.ndarray
    goal: np.ndarray
    basis: np.ndarray
    origin: np.ndarray
    _: KW_ONLY
    least: float
    best: np.ndarray

    def rise(self, form: np.ndarray, constant: float) -> float:
        """How far above its minimum the loss must be where form . x + constant = 0."""
        row = form @ self.basis
        size = math.sqrt(row @ row)
        level = constant + float(form @ self.origin)
        if size == 0.0:
            return 0.0 if level == 0.0 else np.inf
        stiff = STIFF / size
        return 0.5 * self._approach.missed(stiff * row, -stiff * level) - self.least

    @cached_property
    def _approach(self) -> Approach:
        return Approach(self.rows, self.goal)

    @cached_property
    def _small(self) -> np.ndarray:
        """[n] bool, what has a bound at 0 and would be small or negative without it."""
        inverse = np.linalg.pinv(self.rows)
        errors = np.linalg.norm(inverse, axis=1)
        return (self.basis >= 0).all(axis=0) & (inverse @ self.goal < CLEAR * errors)

    def zeros(self, form: np.ndarray) -> np.ndarray:
        """[n] bool, what `form` [D] adds up and may well be 0: too small without its bound."""
        return self._small & (form @ self.basis > 0)

    def cut(
        self, top: np.ndarray, bottom: np.ndarray, share: float, unit: float, zeros: np.ndarray
    ) -> float:
        """How far the rise goes by chance where top . x = price * bottom . x, in 95 % of draws.

        Simulated at the fit there, with the zeros at 0 and the rest of the ratio as it must be: a
        sum of many parameters that are 0 adds up their noise, which has no chi-square law.

        Args:
            top: [D] the sum that is priced.
            bottom: [D] the sum that it is priced in.
            share: u of the price, unit * u / (1 - u).
            unit: of the price.
            zeros: [n] bool, what is held at 0.
        """
        above, below = top @ self.basis, bottom @ self.basis
        form = (1.0 - share) * above - share * unit * below
        stiff = STIFF / max(float(np.linalg.norm(form)), 1e-300)
        held = np.concatenate([self.rows, stiff * form[None]])
        place = np.where(zeros, 0.0, least_squares(held, np.append(self.goal, 0.0))[0])
        lower, upper = float(above @ place), float(below @ place)
        if not (0.0 < share < 1.0 and lower > 0 and upper > 0):
            return 0.0
        place = np.where(above > 0, place * (share * unit * upper) / ((1.0 - share) * lower), place)
        return float(np.quantile(self._rises(held, 0.0, place), WIDER))

    def chance(self, form: np.ndarray, value: float, rise: float) -> float:
        """The chance of a rise this large, if form . x = value > 0 is what is true.

        The chi-square law, or where many parameters of the form may be 0 a simulated one. The
        origin is 0: every parameter of the form has a bound there.
        """
        zeros, row = self.zeros(form), form @ self.basis
        if zeros.sum() < MANY:
            return chi_square_tail(1, 2.0 * max(rise, 0.0))
        stiff = STIFF / float(np.linalg.norm(row))
        held = np.concatenate([self.rows, stiff * row[None]])
        place = least_squares(held, np.append(self.goal, stiff * value))[0]
        place = np.where(zeros & (place < place.max()), 0.0, place)
        place = np.where(row > 0, place * (value / float(row @ place)), place)
        rises = self._rises(held, stiff * value, place)
        return float((1 + (rises >= rise).sum()) / (1 + DRAWS))

    def _rises(self, held: np.ndarray, level: float, place: np.ndarray) -> np.ndarray:
        """[draws] rises of the loss to what `held` [r + 1, n] adds, by chance, if it holds at z."""
        noise = np.random.default_rng(0).standard_normal((DRAWS, len(self.goal)))
        goals = self.rows @ place + noise
        free = SignedSums(self.rows).nearest_each(goals)[1]
        levels = np.full((DRAWS, 1), level)
        bound = SignedSums(held).nearest_each(np.concatenate([goals, levels], axis=1))[1]
        return 0.5 * (bound**2 - free**2)


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


def temperature_findings(evidence: Evidence) -> list[Finding]:
    """That the temperature was given, and whether the steps speak against it."""
    fitted = evidence.fitted
    norm, findings = fitted.norm, norm_findings(fitted)
    if norm is None or evidence.absence:
        return findings
    slope = fitted.point.gradient - norm.pull * norm.form
    plain = replace(fitted, point=fitted.point._replace(gradient=slope), norm=None)
    moving = np.isnan(evidence.limits)
    around = landscape(plain, evidence.fisher, evidence.found.scatter, moving)
    # Where steps are not the units, so much of the likelihood ratio is chance.
    rise = float(fitted.point.loss) - norm.free_loss
    if evidence.found.scatter is not None:
        rise = around.rise(norm.form, -norm.value)
    p = around.chance(norm.form, norm.value, rise)
    if p < LEVEL:
        other = f"{1.0 / norm.free_value:.4g}" if norm.free_value > 0 else "without a limit"
        said = (
            f"The demonstrations contradict the given temperature ({chance(p)} if it were "
            f"right): without it the estimate is {other}."
        )
        findings.append(Finding(said, Kind.MISFIT, number=p))
    return findings
