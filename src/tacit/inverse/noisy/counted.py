"""What counted dynamics add to the errors of one fit: noise of the scores, attenuation, and signs.

Errors of the rows move the fit as they move its scores. They are errors of the regressors, too,
which make all coefficients smaller together: how much is measured in worlds drawn in opposite
pairs, two of Newton's steps each. The estimate is left as it is; its errors grow by the
attenuation and by the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.engine.backends import backend_of
from tacit.inference.counted_rows import CountedRows, chain_slopes, moved_policies
from tacit.inference.gauge import Gauge
from tacit.inverse.diagnostics import CountedDynamics
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.noisy.boltzmann import Fit
from tacit.inverse.noisy.inference import Errors
from tacit.inverse.noisy.steps import Coordinates, Steps
from tacit.inverse.parameters import inverse_information
from tacit.model.features import Design
from tacit.model.mdp import MDP
from tacit.search.smooth_dual import point_at

# Newton's steps in a drawn world, and the tolerance of its values.
STEPS, ROUGHLY = 2, 1e-6
# Largest factor by which coefficients are taken to be too small.
MOST = 2.0
# Draws of policies for the tests of the fit, and numbers that they are at most.
DRAWS, NUMBERS = 100, 20_000_000
# Share of steps to unseen next states, and bias in standard errors, from which they are findings.
UNSEEN, BIASED = 0.05, 0.5
NOTICED = 1.05  # factor of standard errors below which they hardly change


@dataclass(frozen=True, eq=False, kw_only=True)
class DynamicsNoise:
    """What errors of counted rows do to a fit of D parameters.

    Attributes:
        scores: [D, D] covariance that they give the scores of all steps.
        sums: [m, m] that they give expected sums of features, the parameters being fixed.
        across: [D, m] of scores and sums.
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

    def with_sums(self, law: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        """[D + m, D + m] covariance of the parameters and of m sums at fixed ones.

        `law` [D, D] is that of the parameters, `inverse` [D, D] that of their information.
        """
        across = inverse @ self.across
        return np.block([[law, across], [across.T, self.sums]])

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
    mdp, point, chain = steps.mdp, fitted.point, chain_of(fitted, scores)
    parts = [chain_slopes(mdp, **chain, visits=np.asarray(point.visits), counts=steps.counts)]
    if reached is not None:
        parts.append(chain_slopes(mdp, **chain, visits=reached))
    joint = rows.covariance(lambda part: np.concatenate([p.at(rows, part) for p in parts], -1))

    def shifted(world: MDP) -> np.ndarray:
        start = steps.visits - world.discount * world.inflow(steps.counts)
        problem, backend = fitted.problem._replace(start=start), backend_of(world)

        def way(x: np.ndarray) -> np.ndarray:
            here = point_at(backend, problem, x, point.values, ROUGHLY)
            bent = np.asarray(here.curvature)
            bent = bent if fitted.norm is None else bent + fitted.norm.information(bent)
            return newton_way(np.asarray(here.gradient), bent, free)

        return shifted_by(way, point.x)

    bias = mean_shift([shifted(world) for world in rows.worlds(seed)])
    return noise_around(joint, bias, bread, np.where(free, point.x, 0.0))


def chain_of(fitted: Fit, scores: np.ndarray) -> dict[str, np.ndarray]:
    """The policy's chain at a fit, as `chain_slopes` takes it; `scores` [D, S, A] of one step."""
    point = fitted.point
    return {
        "policy": np.asarray(point.policy),
        "scores": scores,
        "values": np.asarray(point.values),
        "tables": np.asarray(point.table_values),
    }


def noise_around(
    joint: np.ndarray, bias: np.ndarray, bread: np.ndarray, x: np.ndarray
) -> DynamicsNoise:
    """The `DynamicsNoise` at parameters x [D] of this bias [D], and information [D, D].

    `joint` [D + m, D + m] is the covariance of the scores and of m sums, perhaps none.
    """
    size, shift = len(x), bread @ bias
    length = float(x @ bread @ x)
    shrunk = 1.0 - float(x @ shift) / length if length > 0 else 1.0
    return DynamicsNoise(
        scores=joint[:size, :size],
        sums=joint[size:, size:],
        across=joint[:size, size:],
        bias=bias,
        shift=shift,
        attenuation=float(np.clip(shrunk, 1.0, MOST)),
    )


def mean_shift(moves: Sequence[np.ndarray]) -> np.ndarray:
    """[D] mean of moves [D] in worlds that come in opposite pairs; those without one left out."""
    pairs = np.array(moves).reshape(-1, 2, len(moves[0])).mean(axis=1)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return pairs.mean(axis=0) if len(pairs) else np.zeros(pairs.shape[1])


def newton_way(gradient: np.ndarray, bent: np.ndarray, free: np.ndarray) -> np.ndarray:
    """[D] Newton's step of the free parameters; NaN where gradient or curvature is not finite."""
    if not (np.isfinite(gradient).all() and np.isfinite(bent).all()):
        return np.full(len(gradient), np.nan)
    return -inverse_information(bent, free)[0] @ gradient


def shifted_by(way: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """[D] how far so many steps lead from x [D]; `way` gives the step at a place."""
    place = x
    for _ in range(STEPS):
        step = way(place)
        # Never far beyond doubling: where little is known a parabola is not to be trusted.
        place = place + step / max(1.0, float((np.abs(step) / (np.abs(place) + 1.0)).max()))
    return place - x


def budget_stretch(
    space: Coordinates | Design,
    gauge: Gauge,
    inverse: np.ndarray,
    law: np.ndarray,
    noise: DynamicsNoise,
) -> np.ndarray:
    """[K] by what errors of budgets grow as counted dynamics move what is spent, too.

    `inverse` [D, D] is that of the information, `law` [D, D] the covariance of the parameters.
    """
    size, whole = space.size, noise.with_sums(law, inverse)
    stretch = np.ones(space.constraints)
    for k, block in enumerate(space.blocks[1:]):
        row = np.concatenate([gauge.jacobian[size + space.constraints + k], np.zeros(size)])
        alone = float(row @ whole @ row)
        row[size:][block] = -gauge.cost_weights[k] * space.scales[block]
        if alone > 0:
            stretch[k] = np.sqrt(max(float(row @ whole @ row) / alone, 0.0))
    return stretch


def policy_noise(rows: CountedRows, policy: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[m, S, A] draws of what the logarithm of a fitted policy is mistaken by."""
    draws = int(np.clip(NUMBERS // policy.size, 20, DRAWS))
    return moved_policies(rows, policy, values, draws=draws, seed=0)


def uncounted_findings(mdp: MDP, reason: str) -> list[Finding]:
    """That errors take counted dynamics for known, and why; nothing where these are known."""
    if mdp.evidence is None:
        return []
    said = (
        f"The dynamics were counted, and errors, intervals and tests take them for known: {reason}."
    )
    return [Finding(said, Kind.ERRORS, number=0.0)]


def dynamics_findings(known: CountedDynamics) -> list[Finding]:
    """That errors count the dynamics, and where these are too little known to be trusted."""
    larger = f"multiplies standard errors by {known.growth:.2g} (median)"
    if known.growth < NOTICED:
        larger = "hardly changes standard errors"
    said = (
        "The dynamics were counted. Their sampling error is part of standard errors, intervals and "
        f"tests; it {larger}."
    )
    if np.isnan(known.growth):
        said = (
            "The dynamics were counted. Their sampling error is part of the answers to questions, "
            "without attenuation; tests take the dynamics for known."
        )
    findings = [Finding(said, Kind.ERRORS, number=known.growth)]
    if known.unseen > UNSEEN:
        said = (
            f"Unseen successors: about {known.unseen:.0%} of the steps from visited states lead to "
            "states that were never seen to follow there. No interval counts them; more counted "
            "steps would."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=known.unseen))
    if known.bias > BIASED:
        small = known.attenuation - 1.0
        said = (
            "Attenuation: errors in the counted dynamics shift coefficients on average by up to "
            f"{known.bias:.2g} standard errors"
        )
        said += f", all of them together to about {small:.0%} too small" if small > 0.005 else ""
        said += ". Intervals allow for it; ratios of coefficients are hardly affected."
        findings.append(Finding(said, Kind.ERRORS, number=known.attenuation))
    return findings
