"""The observed steps as a likelihood to be maximised, and which constraints it needs.

Minus the log-likelihood of all observed actions equals b . V_soft(theta) - theta . sum N phi with
b(s') = N(s') - discount * inflow of N: the dual of `Convex` with the start replaced by b. Where
episodes end V is what the end pays, linear in theta, and b is minus the expected arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from tacit.data.observed import Observed, tally_of
from tacit.data.tally import Tally
from tacit.inverse.goodness import random_loss
from tacit.inverse.noisy.boltzmann import LARGEST, Fit, fit, over_an_episode, refit
from tacit.inverse.noisy.coordinates import Coordinates
from tacit.inverse.noisy.inference import advantages, information, square_roots
from tacit.inverse.parameters import BLIND, inverse_information
from tacit.model.mdp import MDP

# Ridge of the fit that a search begins from where it may matter.
ROUGH = 1e-4
# Draws of the simulated law of a likelihood ratio.
DRAWS = 4000
# Share of the information below which the loss is too flat to divide by.
BENT = 0.05

Fitted = TypeVar("Fitted")
Part = TypeVar("Part", bound=Hashable)


class Options(Protocol):
    """What a search for the maximum needs to be told."""

    @property
    def free_reward(self) -> bool:
        """Whether reward weights may take either sign."""
        ...

    @property
    def tolerance(self) -> float:
        """Projected gradient to reach, relative to the number of steps."""
        ...

    @property
    def max_steps(self) -> int:
        """Most evaluations of the loss."""
        ...


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
    """

    mdp: MDP
    space: Coordinates
    counts: np.ndarray
    start: np.ndarray
    target: np.ndarray
    discounted: np.ndarray | None
    tally: Tally | None = None
    lost: np.ndarray | None = None

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
        return cls(mdp, space, counts, start, space.pull_back(counts), visits, tally)

    def reweighted(self, counts: np.ndarray) -> Steps:
        """The coefficients of some of the steps, or of a share of each, given as counts [S, A]."""
        start = counts.sum(axis=1) - self.mdp.discount * self.mdp.inflow(counts)
        return Steps(self.mdp, self.space, counts, start, self.space.pull_back(counts), None)

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
        self, options: Options, *, near: Fit | None = None, upper: np.ndarray | None = None
    ) -> Fit:
        """The maximum of the likelihood, sought from a fit nearby if there is one.

        `upper` [D] are the largest values allowed; none by default.
        """
        lower = self.space.lower(free_reward=options.free_reward)
        upper = np.full(self.space.size, LARGEST) if upper is None else upper
        x, values = (None, None) if near is None else (near.point.x, near.point.values)
        x = None if x is None else np.clip(x, lower, upper)
        if near is None and not self.convex and self.discounted is not None:
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
        return np.where(moves, point.x, 0.0), point.values


def choices(mdp: MDP) -> np.ndarray:
    """[S] how many actions can be taken in each state."""
    return np.asarray(mdp.available.sum(axis=1))


def active_constraints(
    steps: Steps,
    full: Fit,
    *,
    level: float,
    max_steps: int,
    seed: int,
    scatter: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[Fit, np.ndarray]:
    """The fit with only the constraints shown to be active, and [K] the p-values of all.

    Args:
        steps: what was seen.
        full: the fit with every constraint.
        level: of the tests.
        max_steps: most evaluations of the loss, each fit.
        seed: of the simulated laws.
        scatter: (scores [D, S, A]) -> [D, D] what they scatter, where the model does not fit.
    """
    space = steps.space

    def test(fitted: Fit, k: int) -> tuple[float, Fit]:
        """The p-value of "constraint k is not active", and the fit without it."""
        tested = np.zeros(space.size, bool)
        tested[space.blocks[1 + k]] = True
        lower = np.where(tested, 0.0, fitted.problem.lower)
        upper = np.where(tested, 0.0, fitted.problem.upper)
        less = refit(steps.mdp, fitted, max_steps=max_steps, lower=lower, upper=upper)
        if not np.isfinite(less.point.loss):
            return 1.0 / (1 + DRAWS), less  # without it nothing has a finite value
        if not (fitted.point.x[tested] > 0).any():
            return 1.0, less
        scores = advantages(steps.mdp, space, less)
        fisher, meat = information(scores, less.point.policy, steps.visits), None
        if scatter is not None:
            fisher, meat = curvature(steps, less, scores), scatter(scores)
        held = (upper > lower) & ~less.free
        ratio = 2.0 * (less.point.loss - fitted.point.loss)
        p = activity_p_value(ratio, fisher, tested, less.free, held, seed=seed, scatter=meat)
        return p, less

    constraints = range(space.constraints if full.converged else 0)
    kept, _, found = prune(full, constraints, test, level)
    p_values = np.ones(space.constraints)
    p_values[list(found)] = list(found.values())
    return kept, p_values


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


def prune(
    full: Fitted,
    parts: Sequence[Part],
    test: Callable[[Fitted, Part], tuple[float, Fitted]],
    level: float,
) -> tuple[Fitted, list[Part], dict[Part, float]]:
    """The fit without the parts that were not shown to be needed, the others, and all p-values.

    One at a time, the least needed first: of two constraints that can stand in for each other
    neither is needed beside the other, but one of them is.

    Args:
        full: the fit with every part. A search cut short has shown nothing: give no parts then.
        parts: what may be dropped.
        test: (fit, part) -> p-value of "the part is not needed", and the fit without it.
        level: of the tests.
    """
    left, p_values, fitted = list(parts), dict.fromkeys(parts, 1.0), full
    while left:
        tests = [test(fitted, part) for part in left]
        p_values.update(zip(left, (p for p, _ in tests), strict=True))
        least = int(np.argmax([p for p, _ in tests]))
        if tests[least][0] <= level:
            break
        fitted = tests[least][1]
        left.pop(least)
    return fitted, left, p_values


def activity_p_value(
    ratio: float,
    fisher: np.ndarray,
    tested: np.ndarray,
    free: np.ndarray,
    held: np.ndarray,
    *,
    seed: int = 0,
    scatter: np.ndarray | None = None,
) -> float:
    """The chance of a likelihood ratio this large if the tested parameters are all 0.

    Args:
        ratio: twice the log-likelihood gained by the tested parameters.
        fisher: [D, D] information, at the fit without them.
        tested: [D] bool, the parameters of the constraint, at least 0.
        free: [D] bool, nuisance parameters that no bound holds in the fit without them.
        held: [D] bool, nuisance parameters on their bound: they enter both fits as cones.
        seed: of the simulated law.
        scatter: [D, D] covariance of the scores where the model does not fit, so that it is not the
            information: the law is then that of the ratio about the best approximation.
    """
    from scipy.stats import chi2

    if not tested.any():
        return 1.0
    inverse, _ = inverse_information(fisher, free & ~tested)
    cone = np.flatnonzero(tested | held)
    left = fisher - fisher @ inverse @ fisher
    left = left[np.ix_(cone, cone)]
    scale = np.sqrt(np.maximum(np.diagonal(fisher)[cone], 0.0))
    visible = np.diagonal(left) > BLIND * np.where(scale > 0, scale, 1.0) ** 2
    cone, left = cone[visible], left[np.ix_(visible, visible)]
    if not tested[cone].any():
        return 1.0  # nothing the free parameters could not do as well: not testable
    unit = np.sqrt(np.diagonal(left))
    left = left / np.outer(unit, unit)  # the law does not depend on units, the search would
    spread, widest = left, 1.0
    if scatter is not None:
        # Scores that the free parameters have no part in.
        rest = np.eye(len(fisher))[cone] - fisher[cone] @ inverse
        spread = rest @ scatter @ rest.T / np.outer(unit, unit)
        widest = float(np.abs(np.linalg.eigvals(np.linalg.pinv(left) @ spread)).max())
    # The law never exceeds a plain chi-square: far out in its tail no draw would be this large.
    if chi2.sf(ratio / max(widest, 1e-300), len(cone)) < 1e-3 / DRAWS:
        return 1.0 / (1 + DRAWS)
    values, vectors = np.linalg.eigh(spread)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = np.random.default_rng(seed).standard_normal((DRAWS, len(cone))) @ root.T
    both = _gain(left, draws, np.ones(len(cone), bool))
    without = _gain(left, draws, ~tested[cone])
    # One more in both counts: a simulated law cannot vouch for a chance of zero.
    return float((1 + (both - without >= ratio).sum()) / (1 + DRAWS))


def _gain(matrix: np.ndarray, scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """[n] max over y >= 0, 0 outside `allowed`, of 2 y . score - y' matrix y, for scores [n, d].

    Coordinate ascent on all draws at once; each step is exact in its coordinate.
    """
    y = np.zeros_like(scores)
    diagonal = np.diagonal(matrix)
    for _ in range(500):
        before = y.copy()
        for j in np.flatnonzero(allowed & (diagonal > 0)):
            rest = scores[:, j] - y @ matrix[:, j] + diagonal[j] * y[:, j]
            y[:, j] = np.maximum(rest / diagonal[j], 0.0)
        if np.abs(y - before).max() <= 1e-9 * (1.0 + np.abs(y).max()):
            break
    return 2.0 * (y * scores).sum(axis=1) - np.einsum("nd,de,ne->n", y, matrix, y)
