"""The observed steps as a likelihood to be maximised.

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
from tacit.inverse.noisy.boltzmann import LARGEST, Fit, fit, over_an_episode
from tacit.inverse.noisy.coordinates import Coordinates
from tacit.inverse.noisy.inference import information, square_roots
from tacit.model.mdp import MDP

# Ridge of the fit that a search begins from where it may matter.
ROUGH = 1e-4
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
