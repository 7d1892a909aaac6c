"""What counted dynamics add to the errors of one fit: noise of the scores, attenuation, and signs.

Errors of the rows move the fit as they move its scores. They are errors of the regressors, too,
which make all coefficients smaller together: how much is measured in worlds drawn in opposite
pairs, two of Newton's steps each. The estimate is left as it is; its errors grow by the
attenuation and by the bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tacit.engine.backends import backend_of
from tacit.engine.soft_search import point_at
from tacit.inference.counted_rows import CountedRows, chain_slopes, moved_policies
from tacit.inverse.diagnostics import CountedDynamics
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.noisy.boltzmann import Fit
from tacit.inverse.noisy.inference import Errors
from tacit.inverse.noisy.steps import Steps
from tacit.inverse.parameters import inverse_information
from tacit.model.mdp import MDP

# Newton's steps in a drawn world, and the tolerance of its values.
STEPS, ROUGHLY = 2, 1e-6
# Largest factor by which coefficients are taken to be too small.
MOST = 2.0
# Draws of policies for the tests of the fit, and numbers that they are at most.
DRAWS, NUMBERS = 100, 20_000_000
# Share of steps to unseen next states, and bias in standard errors, from which they are findings.
UNSEEN, BIASED = 0.05, 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class DynamicsNoise:
    """What errors of counted rows do to a fit of D parameters.

    Attributes:
        scores: [D, D] covariance that they give the scores of all steps.
        sums: [D, D] that they give the expected sums of the features, the parameters being fixed.
        across: [D, D] of scores and sums.
        bias: [D] how far the parameters are from those of the true dynamics on average.
        shift: [D] the same as scores.
        attenuation: by what the coefficients are too small, 1 to 2.
    """

    scores: np.ndarray
    sums: np.ndarray
    across: np.ndarray
    bias: np.ndarray
    shift: np.ndarray
    attenuation: float

    def added(self) -> np.ndarray:
        """[D, D] what the dynamics add to attenuation^2 times the scatter of the steps' scores."""
        return self.attenuation**2 * self.scores + np.outer(self.shift, self.shift)

    def total(self, scatter: np.ndarray) -> np.ndarray:
        """[D, D] scatter of the scores, that of the steps [D, D] and all that the dynamics add."""
        return self.attenuation**2 * scatter + self.added()

    def on(self, found: Errors, fisher: np.ndarray, inverse: np.ndarray) -> Errors:
        """The errors with those of the dynamics; `inverse` [D, D] is that of the information."""
        scatter = self.total(fisher if found.scatter is None else found.scatter)
        return replace(found, scatter=scatter, covariance=inverse @ scatter @ inverse)

    def summary(
        self, rows: CountedRows, visits: np.ndarray, before: Errors, after: Errors
    ) -> CountedDynamics:
        """How much that is, of errors before and after, where the steps visit states [S]."""
        own, whole = np.diagonal(before.covariance), np.diagonal(after.covariance)
        known = (own > 0) & (whole > 0)
        growth, biased = np.sqrt(whole[known] / own[known]), np.abs(self.bias[known])
        return CountedDynamics(
            growth=float(np.median(growth)) if known.any() else 1.0,
            attenuation=self.attenuation,
            bias=float((biased / np.sqrt(whole[known])).max(initial=0.0)),
            unseen=rows.unseen(visits),
        )


def dynamics_noise(
    rows: CountedRows,
    steps: Steps,
    fitted: Fit,
    *,
    scores: np.ndarray,
    bread: np.ndarray,
    free: np.ndarray,
    reached: np.ndarray | None = None,
    seed: int = 0,
) -> DynamicsNoise:
    """The `DynamicsNoise` of a fit.

    Args:
        rows: the counted rows.
        steps: what was seen.
        fitted: its fit.
        scores: [D, S, A] of one step.
        bread: [D, D] information, or curvature, of all steps.
        free: [D] bool, the parameters that move.
        reached: [S] discounted visits from the start; None where no sums are asked about.
        seed: of the drawn worlds.
    """
    point, mdp, size = fitted.point, steps.mdp, len(fitted.point.x)
    chain = {
        "policy": np.asarray(point.policy),
        "scores": scores,
        "values": np.asarray(point.values),
        "tables": np.asarray(point.table_values),
    }
    moved = chain_slopes(mdp, **chain, visits=np.asarray(point.visits), counts=steps.counts)
    parts = [moved]
    if reached is not None:
        parts.append(chain_slopes(mdp, **chain, visits=reached))
    joint = rows.covariance(lambda part: np.concatenate([p.at(rows, part) for p in parts], -1))
    bias = _bias(rows, steps, fitted, free, seed)
    shift, x = bread @ bias, np.where(free, point.x, 0.0)
    length = float(x @ bread @ x)
    shrunk = 1.0 - float(x @ shift) / length if length > 0 else 1.0
    nothing = np.zeros((size, size))
    return DynamicsNoise(
        scores=joint[:size, :size],
        sums=nothing if reached is None else joint[size:, size:],
        across=nothing if reached is None else joint[:size, size:],
        bias=bias,
        shift=shift,
        attenuation=float(np.clip(shrunk, 1.0, MOST)),
    )


def _bias(rows: CountedRows, steps: Steps, fitted: Fit, free: np.ndarray, seed: int) -> np.ndarray:
    """[D] how far the free parameters move on average over drawn worlds."""
    moves = [_step(world, steps, fitted, free) for world in rows.worlds(seed)]
    pairs = np.array(moves).reshape(-1, 2, len(free)).mean(axis=1)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return pairs.mean(axis=0) if len(pairs) else np.zeros(len(free))


def _step(world: MDP, steps: Steps, fitted: Fit, free: np.ndarray) -> np.ndarray:
    """[D] where Newton's steps lead in another world, from the fit and without bounds."""
    start = steps.visits - world.discount * world.inflow(steps.counts)
    problem, x = fitted.problem._replace(start=start), fitted.point.x
    for _ in range(STEPS):
        values = fitted.point.values
        here = point_at(backend_of(world), problem, x, values, ROUGHLY)
        bent = np.asarray(here.curvature)
        if not np.isfinite(bent).all():
            return np.full(len(x), np.nan)
        bent = bent if fitted.norm is None else bent + fitted.norm.information(bent)
        way = inverse_information(bent, free)[0] @ np.asarray(here.gradient)
        # Never far beyond doubling: where little is known a parabola is not to be trusted.
        x = x - way / max(1.0, float((np.abs(way) / (np.abs(x) + 1.0)).max()))
    return x - fitted.point.x


def policy_noise(rows: CountedRows, policy: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[m, S, A] draws of what the logarithm of a fitted policy is mistaken by."""
    draws = int(np.clip(NUMBERS // policy.size, 20, DRAWS))
    return moved_policies(rows, policy, values, draws=draws, seed=0)


def dynamics_findings(known: CountedDynamics) -> list[Finding]:
    """That errors count the dynamics, and where these are too little known to be trusted."""
    said = (
        "The dynamics were counted: what is not known of them is in standard errors, intervals and "
        f"tests. It makes errors {known.growth:.2g} times as large (median)."
    )
    findings = [Finding(said, Kind.ERRORS, number=known.growth)]
    if known.unseen > UNSEEN:
        said = (
            f"About {known.unseen:.0%} of the steps where the demonstrations are lead to states "
            "that were never seen to follow there: no interval counts them. Count more steps."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=known.unseen))
    if known.bias > BIASED:
        small = known.attenuation - 1.0
        said = (
            "Errors in counted dynamics blur what the expert reacts to: on average they shift "
            f"coefficients by up to {known.bias:.2g} standard errors"
        )
        said += f", all of them together to about {small:.0%} too small" if small > 0.005 else ""
        said += ". Intervals are wide enough for it; ratios of coefficients hardly suffer."
        findings.append(Finding(said, Kind.ERRORS, number=known.attenuation))
    return findings
