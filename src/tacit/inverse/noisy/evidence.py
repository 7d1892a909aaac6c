"""What the steps say about the parameters of one fit of a noisy expert."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.data.observed import Observed
from tacit.forward.policies import visitation
from tacit.inverse.expectations import Expectations, Spending, pull_back
from tacit.inverse.noisy.boltzmann import Fit, rescued
from tacit.inverse.noisy.coordinates import Coordinates, Split, split
from tacit.inverse.noisy.inference import (
    Errors,
    advantages,
    errors,
    forbidden_limits,
    information,
    robust_errors,
    undecided,
)
from tacit.inverse.noisy.steps import Steps, curvature
from tacit.model.ends import outside_policy
from tacit.model.objective import Features

# Likelihood (nats) that doubling all parameters must cost, or the expert looks deterministic.
VISIBLE = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """What the steps say about the parameters of one fit.

    Attributes:
        asked: the fit.
        fitted: the same, made finite by a ridge where it is not.
        gauge: its parameters in the gauge.
        found: errors of the parameters.
        fisher: [D, D] information of all steps.
        outer: [D, D] sum over all steps of score times score.
        free: [D] bool, the parameters that no bound holds for certain.
        reached: [S, A] discounted visitation of its policy.
        reaction: [D, D] derivative of its scaled, signed feature sums in the parameters.
        limits: [D] lower limits of forbidden costs, NaN elsewhere.
        boundless: whether the likelihood has no maximum, so that a ridge was taken.
        robust: whether the model does not fit, so that errors are about its best approximation and
            `fisher` is the curvature of the loss.
    """

    asked: Fit
    fitted: Fit
    gauge: Split
    found: Errors
    fisher: np.ndarray
    outer: np.ndarray
    free: np.ndarray
    reached: np.ndarray
    reaction: np.ndarray
    limits: np.ndarray
    boundless: bool
    robust: bool = False

    @property
    def absence(self) -> str:
        """Why curvature says nothing: the maximum is not there, or was not reached; else empty."""
        if self.boundless:
            return "the likelihood has no maximum: there are no standard errors"
        return "" if self.fitted.converged else "the search did not converge: there are none"

    def spending(
        self, space: Coordinates, features: Features, seen: Expectations | None
    ) -> Spending | None:
        """What the fitted demonstrator spends and how it prices that; `seen` is its data's own.

        A price times what it is charged for is linear in the parameters but for what they do to
        the spending: both move together, and their errors with them.
        """
        if self.absence:
            return Spending.of_data(features, seen)
        spread, theta = self.found.covariance, self.fitted.point.x / space.scales
        means, errors, prices, covariances = [], [], [], []
        for block, mean in zip(
            space.blocks[1:], pull_back(features, self.reached)[1:], strict=True
        ):
            slopes = -self.reaction[block] * space.scales[block][:, None]
            own = np.eye(space.size)[block] / space.scales
            rows = np.concatenate([own, (theta[block] @ slopes + mean @ own)[None]])
            means.append(mean)
            errors.append(np.sqrt(np.maximum(np.diagonal(slopes @ spread @ slopes.T), 0.0)))
            prices.append(np.append(theta[block], theta[block] @ mean))
            covariances.append(rows @ spread @ rows.T)
        return Spending(
            maps=features.costs,
            means=tuple(means),
            errors=tuple(errors),
            prices=tuple(prices),
            covariances=tuple(covariances),
        )


def evidence_of(
    demonstrations: Observed, steps: Steps, kept: Fit, max_steps: int, *, robust: bool = False
) -> Evidence:
    """The `Evidence` of a fit, made finite by a ridge where it is not."""
    mdp, space = steps.mdp, steps.space
    fitted, boundless = rescued(mdp, kept, VISIBLE, max_steps)
    nothing = np.full(space.size, np.nan)
    # An expert without noise forbids everything it does not do: nothing in particular is forbidden.
    limits = nothing if boundless else forbidden_limits(mdp, space, fitted)
    shut = np.isfinite(limits)
    scores = advantages(mdp, space, fitted)
    policy = fitted.point.policy
    fisher = information(scores, policy, steps.visits)
    fisher = fisher if steps.lost is None else fisher - steps.lost
    if robust:
        fisher = curvature(steps, fitted, scores)
    free = undecided(fitted, fisher, fitted.free & ~shut) & ~shut
    reached = visitation(mdp, outside_policy(mdp, policy))
    reaction = information(scores, policy, reached.sum(axis=1))
    found = errors(fisher, free, scores, demonstrations)
    if robust:
        found = robust_errors(fisher, free, scores, steps.counts, demonstrations)
    return Evidence(
        asked=kept,
        fitted=fitted,
        gauge=split(space, fitted.point.x, space.pull_back(reached), reaction, forbidden=shut),
        found=found,
        fisher=fisher,
        outer=information(scores, steps.counts, np.ones(mdp.states)),
        free=free,
        reached=reached,
        reaction=reaction,
        limits=limits,
        boundless=boundless,
        robust=robust,
    )
