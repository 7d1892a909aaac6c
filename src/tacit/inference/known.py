"""What is said of knowledge from before the fit: bounds, fixed values, the noise, and borders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidModel
from tacit.inference.findings import LEVEL, Finding, Kind, chance
from tacit.inference.hypotheses import equations_of
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import Bounds
from tacit.model.objective import coefficient_names
from tacit.search.algebra import at_least

if TYPE_CHECKING:
    from tacit.estimators.convex import Convex
    from tacit.estimators.kinds import KindsOptions
    from tacit.estimators.likelihood import Likelihood
    from tacit.inference.evidence import Evidence
    from tacit.inference.gauged_intervals import OwnFit
    from tacit.model.features.design import Design

# A step of this size or less (scaled features), beyond which no value is finite, ends at a border.
NEAR = 1e-3
# So many reward weights at 0 add up their noise in the unit of prices, which is worth a sentence.
MANY = 4


def check_temperature(options: Likelihood | Convex | KindsOptions) -> None:
    """Raises `InvalidModel` unless the temperature that is given makes sense."""
    given = options.temperature
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if given is None or not number or not 0.0 < given < np.inf:
        raise InvalidModel(f"temperature must be positive and finite; got {given!r:.60}")


def check_restrictions(options: Likelihood) -> None:
    """Raises `InvalidModel` unless the restrictions are texts, a list of them."""
    given = options.restrict
    if isinstance(given, str) or not all(isinstance(one, str) for one in given):
        raise InvalidModel(f'restrict must be a list of equations, ["a = b"]; got {given!r:.60}')


def restrictions_of(equations: Sequence[str], space: Design) -> tuple[np.ndarray, np.ndarray]:
    """([q, D], [q]) rows and right sides of the equations, about the coefficients of a space."""
    groups = [space.names[block] for block in space.blocks]
    return equations_of(", ".join(equations), coefficient_names(groups[0], groups[1:]))


def check_droppable(rows: np.ndarray, goals: np.ndarray, space: Design, level: float) -> None:
    """Raises `InvalidModel` where an equation gives a cost a size, and a test may leave it out."""
    sized = np.asarray(rows[goals != 0.0].any(axis=0))
    held = np.flatnonzero(sized[space.blocks[0].stop :])
    if held.size and level < 1.0:
        name = space.names[space.blocks[0].stop + int(held[0])]
        raise InvalidModel(
            f"restrict gives {name} a size, and a test may leave its constraint out: keep all "
            "constraints with level=1, or restrict it to other coefficients"
        )


def restriction_findings(options: Likelihood, fitted: Fit, plain: Fit) -> list[Finding]:
    """What the coefficients were told to keep, and what that costs the likelihood."""
    if not options.restrict:
        return []
    cost = max(fitted.loss - plain.loss, 0.0)
    beside = "" if options.lapses is False and options.temperature is None else None
    said = f"The coefficients were told to keep {', '.join(options.restrict)}"
    if beside is None:
        return [Finding(f"{said}.", Kind.ASSUMED)]
    sentence = f"{said}: that costs {cost:.4g} nats of the log-likelihood."
    return [Finding(sentence, Kind.ASSUMED, number=cost)]


def bound_findings(
    known: Bounds,
    space: Design,
    x: np.ndarray,
    undecided: np.ndarray | None = None,
) -> list[Finding]:
    """What was fixed, and which of the bounds that were asked for hold a coefficient at x [D].

    One each, so that each says which feature it is about. Those that are `undecided` [D] bool might
    as well be elsewhere.
    """
    findings = []
    for j in np.flatnonzero(known.given | known.asked):
        name, value = space.names[j], float(x[j] / space.scales[j])
        said = f"The coefficient of {name} was fixed at {value:.4g} beforehand: it has no error."
        if not known.given[j]:
            if known.lower[j] < x[j] < known.upper[j]:
                continue
            beyond = "alone would have it beyond, and intervals and tests are one-sided"
            if undecided is not None and undecided[j]:
                beyond = "do not tell whether it is beyond"
            said = (
                f"The coefficient of {name} is on its bound, {value:.4g}: the demonstrations "
                f"{beyond}."
            )
        findings.append(Finding(said, Kind.ASSUMED, feature=name, number=value))
    return findings


def given_temperature_findings(fitted: Fit, e: int = 0) -> list[Finding]:
    """That the temperature was given, if it was."""
    known = fitted.norm(e)
    if known is None:
        return []
    norm = float(known.values[0])
    said = (
        f"The temperature was given, {1.0 / norm:.6g}: reward weights over it sum to "
        f"{norm:.6g}. Their shares, the prices and the budgets were estimated."
    )
    return [Finding(said, Kind.ASSUMED, number=1.0 / norm)]


def at_border(fitted: Fit) -> bool:
    """Whether a search ended where, a small step further, no value is finite (discount 1)."""
    discounted = all(chain.discount < 1.0 for chain in fitted.problem.chains)
    if discounted or fitted.converged or not np.isfinite(fitted.loss):
        return False
    problem, z = fitted.problem, fitted.z
    low, high = np.maximum(problem.lower - z, -NEAR), np.minimum(problem.upper - z, NEAR)
    box, share = (low[None], high[None]), np.array([0.1])
    step = fitted.operator.bounded_step(fitted.gradient[None], *box, ties=None, share=share)[0]
    beyond = np.clip(z + step, problem.lower, problem.upper)
    return bool(np.isinf(problem.losses(beyond, fitted.parts, fitted.tolerance)))


def border_findings(fitted: Fit) -> list[Finding]:
    """That a search ended where values cease to be finite, if it did."""
    if not at_border(fitted):
        return []
    said = (
        "No finite value at these weights: the search ended where walking in circles begins to "
        "pay, which at discount 1 is worth more than any number. A step cost among the features, "
        "or a discount below 1, would mend it."
    )
    return [Finding(said, Kind.NOT_CONVERGED)]


def zero_findings(evidence: Evidence, e: int = 0) -> list[Finding]:
    """What many reward weights at 0 do to the prices, and the number that they leave alone."""
    own, fitted, gauge = evidence.chains[e], evidence.fitted, evidence.gauge(e)
    space, x, rows = own.chain.space, fitted.x(e), fitted.problem.ties.rows[e]
    reward = space.blocks[0]
    zeros = int(((x == 0.0) & (fitted.problem.lower[rows] == 0.0))[reward].sum())
    known = fitted.norm(e) is not None  # the unit is known then
    if zeros < MANY or evidence.absence or known:
        return []
    findings, law = list[Finding](), own.inner @ evidence.errors.covariance @ own.inner.T
    for k in np.flatnonzero(gauge.multipliers > 0).tolist():
        row = np.zeros(space.size)
        row[space.blocks[1 + k]] = 1.0 / space.scales[space.blocks[1 + k]]
        stable = float(row @ x)
        error = float(np.sqrt(max(row @ law @ row, 0.0)))
        said = (
            f"Price {k} divided by the temperature is {stable:.4g} (standard error {error:.2g}). "
            f"It does not depend on the {zeros} reward weights at 0; the unit of price {k} itself "
            "does, so its interval was simulated."
        )
        findings.append(Finding(said, Kind.NOTE, constraint=k, number=stable))
    return findings


def temperature_findings(
    evidence: Evidence, own: OwnFit, unknown: Fit | None, e: int = 0
) -> list[Finding]:
    """That the temperature was given, and whether the steps speak against it.

    `own` is the fit that knows it, `unknown` the one that does not.
    """
    fitted, findings = evidence.fitted, given_temperature_findings(evidence.fitted, e)
    known = fitted.norm(e)
    if known is None or unknown is None or evidence.absence:
        return findings
    form, norm = known.matrix[0], float(known.values[0])
    slope = own.gradient - (fitted.pull * np.ones(len(fitted.z)))[fitted.problem.ties.rows[e]]
    errors = own.errors
    if errors.units is not None:  # of moves that change the norm, too
        errors = replace(errors, scatter=at_least(own.fisher, errors.units))
    plain = replace(own, gradient=slope, known=np.zeros(own.known.shape), errors=errors)
    around = plain.landscape(np.isnan(own.limits))
    # Where steps are not the units, so much of the likelihood ratio is chance.
    rise = fitted.loss - unknown.loss
    if evidence.errors.scatter is not None:
        rise = around.rise(form, -norm)
    p, free = around.chance(form, -norm, rise), float(form @ unknown.x(e))
    if p < LEVEL:
        other = f"{1.0 / free:.4g}" if free > 0 else "without a limit"
        said = (
            f"The demonstrations contradict the given temperature ({chance(p)} if it were "
            f"right): without it the estimate is {other}."
        )
        findings.append(Finding(said, Kind.MISFIT, number=p))
    return findings
