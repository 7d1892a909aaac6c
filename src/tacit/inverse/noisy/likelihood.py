"""The step likelihood: every observed step counts equally, and every answer has its error bar.

Minus the log-likelihood of all observed actions equals b . V_soft(theta) - theta . sum N phi with
b(s') = N(s') - discount * inflow of N: the dual of `Convex` with the start replaced by b. Where
b >= 0 it is convex and the optimum global; otherwise it starts from the convex fit, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.data.observed import Observed, tally_of
from tacit.data.tally import Tally
from tacit.errors import InvalidModel
from tacit.inverse.expectations import check_task
from tacit.inverse.noisy.boltzmann import LARGEST, Fit, fit
from tacit.inverse.noisy.coordinates import Coordinates, coordinates
from tacit.inverse.noisy.inference import activity_p_value, advantages, information
from tacit.inverse.recovery import Recovery, delivered
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# Ridge of the fit that a search begins from where it may matter.
ROUGH = 1e-4


@dataclass(frozen=True)
class Likelihood:
    """Maximum likelihood of the observed actions of a noisy expert, with intervals and tests.

    Attributes:
        free_reward: let reward weights take either sign.
        level: of the test whether a constraint is active; 1 keeps every constraint.
        tolerance: projected gradient to reach, relative to the number of steps.
        max_steps: most evaluations of the loss.
        seed: of the simulated laws.
    """

    free_reward: bool = False
    level: float = 0.05
    tolerance: float = 1e-9
    max_steps: int = 300
    seed: int = 0

    def fit(
        self,
        mdp: MDP,
        features: Features,
        demonstrations: Observed,
        *,
        throw: bool = True,
    ) -> Recovery:
        """The recovery under which the observed actions are most likely."""
        from tacit.inverse.noisy.report import report

        if not 0 < self.level <= 1 or not self.tolerance > 0 or self.max_steps < 1:
            raise InvalidModel(
                "level must be in (0, 1], tolerance positive, max_steps at least 1; "
                f"got {self.level}, {self.tolerance}, {self.max_steps}"
            )
        check_task(mdp, features, demonstrations)
        steps = Steps.of(mdp, coordinates(mdp, features), demonstrations)
        full = steps.fit(self)
        kept, p_values = self._active(steps, full)
        recovery = report(self, mdp, features, demonstrations, steps, full, kept, p_values)
        return delivered(recovery, throw)

    def _active(self, steps: Steps, full: Fit) -> tuple[Fit, np.ndarray]:
        """The fit with only the constraints shown to be active, and [K] the p-values of all.

        One at a time, the least needed first: of two constraints that can stand in for each other
        neither is needed beside the other, but one of them is.
        """
        kept, gone = full, np.zeros(steps.space.size, bool)
        p_values = np.ones(steps.space.constraints)
        left = list(range(steps.space.constraints))
        while left and full.converged:  # a search cut short has shown nothing
            tests = [self._tested(steps, kept, gone, k) for k in left]
            p_values[left] = [p for p, _ in tests]
            least = int(np.argmax(p_values[left]))
            if p_values[left[least]] <= self.level:
                break
            kept = tests[least][1]
            gone[steps.space.blocks[1 + left.pop(least)]] = True
        return kept, p_values

    def _tested(self, steps: Steps, fitted: Fit, gone: np.ndarray, k: int) -> tuple[float, Fit]:
        """The p-value of "constraint k is not active", and the fit without it."""
        tested = np.zeros(steps.space.size, bool)
        tested[steps.space.blocks[1 + k]] = True
        less = steps.fit(self, without=tested | gone, near=fitted)
        if not (fitted.point.x[tested] > 0).any():
            return 1.0, less
        scores = advantages(steps.mdp, steps.space, less)
        fisher = information(scores, less.point.policy, steps.visits)
        held = ~tested & ~gone & ~less.free
        ratio = 2.0 * (less.point.loss - fitted.point.loss)
        p = activity_p_value(ratio, fisher, tested, less.free & ~tested, held, seed=self.seed)
        return p, less


@dataclass(frozen=True, eq=False)
class Steps:
    """The observed steps as the coefficients of the likelihood.

    Attributes:
        mdp: the model.
        space: its coordinates.
        counts: [S, A] how often each action was taken.
        start: [S] the b of the likelihood.
        target: [D] sums of the features over all steps.
        discounted: [S, A] mean discounted visits of the trajectories that begin at the start, if
            there are any.
        tally: of the demonstrations; None where there are only counts.
    """

    mdp: MDP
    space: Coordinates
    counts: np.ndarray
    start: np.ndarray
    target: np.ndarray
    discounted: np.ndarray | None
    tally: Tally | None = None

    @classmethod
    def of(cls, mdp: MDP, space: Coordinates, demonstrations: Observed) -> Steps:
        """The coefficients of these demonstrations."""
        tally = tally_of(mdp, demonstrations)
        counts = tally.counts
        start = counts.sum(axis=1) - mdp.discount * mdp.inflow(counts)
        visits = None
        if tally.trajectories:
            alike = (np.ptp(space.tables, axis=2) == 0).all(axis=0)
            visits = tally.visitation(mdp.absorbing & alike)
        return cls(mdp, space, counts, start, space.pull_back(counts), visits, tally)

    @property
    def visits(self) -> np.ndarray:
        """[S] number of steps in each state."""
        return self.counts.sum(axis=1)

    @property
    def convex(self) -> bool:
        """Whether the likelihood is convex for certain, so that its optimum is global."""
        return bool(self.start.min() >= -1e-9 * self.counts.sum())

    def fit(
        self, options: Likelihood, *, without: np.ndarray | None = None, near: Fit | None = None
    ) -> Fit:
        """The maximum of the likelihood, with the parameters `without` [D] held at 0."""
        lower = self.space.lower(free_reward=options.free_reward)
        upper = np.full(self.space.size, LARGEST)
        x, values = (None, None) if near is None else (near.point.x, near.point.values)
        if without is not None:
            lower, upper = np.where(without, 0.0, lower), np.where(without, 0.0, upper)
            x = None if x is None else np.where(without, 0.0, x)
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
        ridge = ROUGH / (1.0 - self.mdp.discount)
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
        if not loss < self.counts.sum() * np.log(self.mdp.actions):  # what random actions cost
            return None, None
        # A feature that moves nothing matches cut-off trajectories with any parameter.
        moves = np.diagonal(point.curvature) > ridge * (1.0 + 1e-9)
        return np.where(moves, point.x, 0.0), point.values
