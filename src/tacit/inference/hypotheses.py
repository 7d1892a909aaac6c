"""Tests of hypotheses about the coefficients: linear ones, and those of a restricted fit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.wording import some
from tacit.inference.activity import small_sample
from tacit.inference.boundary import Directions, ratio_p_value
from tacit.inference.findings import LEVEL
from tacit.inference.fitted_law import restricted_ratio_p_value
from tacit.inference.parameters import Parameters
from tacit.inference.quantities import number_of
from tacit.inference.tails import chi_square_tail, ratio_tail
from tacit.likelihood.problem import Equalities

if TYPE_CHECKING:
    from tacit.recovery import Recovery

# Words of a hypothesis: names, plain or in backticks, numbers, and signs.
WORDS = re.compile(r"\s*(?:`([^`]+)`|([^\W\d]\w*)|(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|([-+*]))")
# What is between marks that stand outside backticks.
OUTSIDE = "{}(?=(?:[^`]*`[^`]*`)*[^`]*$)"
# Relative singular value below which one equation repeats the others.
REPEATED = 1e-10
# Relative difference of log-likelihoods that only rounding and tolerances make.
ROUNDING = 1e-7


@dataclass(frozen=True, eq=False, kw_only=True)
class HypothesisTest:
    """The test of a hypothesis about the coefficients.

    Attributes:
        hypothesis: in words.
        statistic: Wald's, or twice the log-likelihood gained without the hypothesis.
        degrees: number of equations that are tested.
        p_value: chance of a statistic this large if the hypothesis is true.
        method: "wald", "wald at a bound" or "likelihood ratio".
        differences: [q] left side less right side of each equation; empty for a ratio.
        standard_errors: [q] of these.
        absence: why it was not tested; empty where it was.
    """

    hypothesis: str
    statistic: float
    degrees: int
    p_value: float
    method: str
    differences: np.ndarray
    standard_errors: np.ndarray
    absence: str = ""

    def __repr__(self) -> str:
        if self.absence:
            return f"HypothesisTest({self.hypothesis}; not tested: {self.absence})"
        return (
            f"HypothesisTest({self.hypothesis}; p_value {self.p_value:.3g}, statistic "
            f"{self.statistic:.4g} with {self.degrees} degrees of freedom, {self.method})"
        )


def linear_test(parameters: Parameters, hypothesis: str) -> HypothesisTest:
    """Wald's test of linear equations such as "road - water = 0, slope = 2 * cover".

    Names that are not one word stand in `backticks`. Where an equation is about a coefficient on
    its bound, the statistic and its law are those of the nearest points within the bounds.
    """
    rows, goals = equations_of(hypothesis, parameters.names)
    differences = rows @ parameters.tested - goals
    about = {"hypothesis": hypothesis.strip(), "differences": differences}
    covariance, absence = parameters.form_covariance(rows)
    held = parameters.held & rows.any(axis=0)
    if not (absence or held.any() or np.diagonal(covariance).all()):
        absence = "what it is about was fixed beforehand"
    if absence:
        errors = np.full(len(rows), np.nan)
        return HypothesisTest(
            **about,
            statistic=np.nan,
            degrees=len(rows),
            p_value=np.nan,
            method="wald",
            standard_errors=errors,
            absence=absence,
        )
    about["standard_errors"] = np.sqrt(np.diagonal(covariance))
    if held.any():
        statistic, p_value = restricted_ratio_p_value(parameters.law, rows, goals, levels=LEVEL)
        method = "wald at a bound"
    else:
        inverse = np.linalg.pinv(covariance, hermitian=True)
        statistic = float(differences @ inverse @ differences)
        freedom = parameters.law_of(parameters.free).degrees
        p_value, method = chi_square_tail(len(rows), statistic), "wald"
        if np.isfinite(freedom):
            p_value = ratio_tail(len(rows), freedom, statistic / len(rows))
    return HypothesisTest(
        **about, statistic=statistic, degrees=len(rows), p_value=p_value, method=method
    )


def equations_of(hypothesis: str, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """([q, P], [q]) rows and right sides of equations in words, none of which repeats others."""
    rows, goals = [], []
    for equation in re.split(OUTSIDE.format(","), hypothesis):
        parts = re.split(OUTSIDE.format("="), equation)
        sides = [_side(side, names, hypothesis) for side in parts]
        if len(sides) < 2:
            raise InvalidModel(
                f'a hypothesis must be equations like "road - water = 0"; got {hypothesis!r:.80}'
            )
        for (left, low), (right, high) in pairwise(sides):
            rows.append(left - right)
            goals.append(high - low)
    matrix, right = np.array(rows), np.array(goals)
    sizes = np.abs(matrix).max(axis=1, initial=0.0)
    if not sizes.all():
        raise InvalidModel(f"every equation must name a coefficient; got {hypothesis!r:.80}")
    matrix, right = matrix / sizes[:, None], right / sizes
    left, values, turned = np.linalg.svd(matrix, full_matrices=False)
    known = values > REPEATED * values.max()
    if known.all():
        return matrix, right
    kept = (left[:, known].T @ right) / values[known]
    if not np.allclose(left[:, known] @ (values[known] * kept), right):
        raise InvalidModel(f"the equations of a hypothesis must agree; got {hypothesis!r:.80}")
    return turned[known], kept


def _side(side: str, names: tuple[str, ...], hypothesis: str) -> tuple[np.ndarray, float]:
    """[P] factors of the coefficients on one side of an equation, and the number beside them."""
    row, constant, at = np.zeros(len(names)), 0.0, 0

    def refuse(what: str) -> InvalidModel:
        return InvalidModel(
            "a hypothesis must be made of names, numbers, +, -, * and =, odd names in "
            f"`backticks`; got {what!r:.40} in {hypothesis!r:.80}"
        )

    words = list[tuple[str, str]]()
    while at < len(side.rstrip()):
        if (match := WORDS.match(side, at)) is None:
            raise refuse(side[at:].strip())
        kind = ("name", "name", "number", "sign")[match.lastindex - 1]  # pyright: ignore
        words.append((kind, match[match.lastindex]))  # pyright: ignore
        at = match.end()
    if not words:
        raise refuse(side)
    at = 0
    while at < len(words):
        factor, name = 1.0, None
        while at < len(words) and words[at] in (("sign", "+"), ("sign", "-")):
            factor, at = factor * (1.0 if words[at][1] == "+" else -1.0), at + 1
        while True:  # a product
            kind, word = words[at] if at < len(words) else ("end", "the end")
            if kind not in ("name", "number") or (kind == "name" and name is not None):
                raise refuse(word)
            if kind == "name":
                name = number_of(word, names)
            else:
                factor *= float(word)
            at += 1
            if at == len(words) or words[at] != ("sign", "*"):
                break
            at += 1
        if at < len(words) and words[at][0] != "sign":
            raise refuse(words[at][1])
        if name is None:
            constant += factor
        else:
            row[name] += factor
    return row, constant


def likelihood_ratio(full: Recovery, restricted: Recovery) -> HypothesisTest:
    """The likelihood ratio test of a restricted fit to the same steps.

    Its law is a chi-square law or, where coefficients of the restricted fit are on a bound, the
    mixture of such laws there; where errors are clustered or robust, scores scatter as they do.
    """
    wide, narrow = full.parameters, restricted.parameters
    equations = _equations_in(restricted)
    _check_nested(full, restricted, wide, narrow, equations)
    values = dict(zip(narrow.names, narrow.estimates, strict=True))
    at = np.array([values.get(name, 0.0) for name in wide.names])
    fixed = dict(zip(narrow.names, narrow.fixed, strict=True))
    fitted = ~np.array([fixed.get(name, True) for name in wide.names])
    bounded = (at <= wide.lower) | (at >= wide.upper_bounds)

    def moving(which: np.ndarray) -> np.ndarray:
        own = {wide.mover(int(j)) for j in np.flatnonzero(which & ~wide.fixed)}
        return np.isin(np.arange(len(wide.free)), list(own))

    def directions(which: np.ndarray, rows: np.ndarray) -> Directions:
        one_sided, moves = moving(which & bounded), rows @ wide.jacobian
        one_sided &= ~moves.any(axis=0)  # one on its bound that an equation ties stays there
        free = moving(which & ~bounded) & ~one_sided
        tangents = Equalities(matrix=moves, values=np.zeros(len(moves))).tangents(free)
        inner = np.concatenate([tangents, np.eye(len(free))[one_sided]]).T
        is_free = np.arange(inner.shape[1]) < len(tangents)
        return Directions([inner], is_free, ~is_free)

    rows = np.zeros((0, len(wide)))
    if equations:
        rows, _ = equations_of(equations, wide.names)
    ratio = 2.0 * max(full.log_likelihood - restricted.log_likelihood, 0.0)
    law = wide.law
    plain = wide.errors == "fisher" and wide.dynamics is None
    scatter = None if plain else law.information @ law.covariance @ law.information
    p_value = ratio_p_value(
        ratio * small_sample(full.observed_steps, wide.degrees),
        [law.information],
        directions(np.ones(len(wide), bool), np.zeros((0, len(wide)))),
        directions(fitted, rows),
        levels=LEVEL,
        scatter=scatter,
    )
    gone = np.flatnonzero(~fitted & ~wide.fixed).tolist()
    told = [f"{wide.names[j]} = {at[j]:g}" for j in gone]
    return HypothesisTest(
        hypothesis=", ".join([*told, *([equations] if equations else [])]),
        statistic=ratio,
        degrees=int(moving(~fitted).sum()) + len(rows),
        p_value=p_value,
        method="likelihood ratio",
        differences=np.zeros(0),
        standard_errors=np.zeros(0),
    )


def _equations_in(restricted: Recovery) -> str:
    """What the coefficients of a restricted fit were told to keep; empty for nothing."""
    origin = restricted.origin
    told = () if origin is None else getattr(origin.estimator, "restrict", ())
    return ", ".join(told)


def _check_nested(
    full: Recovery, restricted: Recovery, wide: Parameters, narrow: Parameters, equations: str
) -> None:
    """Raises `InvalidModel` unless the one fit is of the same steps and restricts the other."""
    pairs = [(one.log_likelihood, one.null_log_likelihood) for one in (full, restricted)]
    steps = [one.observed_steps for one in (full, restricted)]
    if not np.isfinite(pairs).all():
        raise InvalidModel("a likelihood ratio needs two fits with a likelihood; one has none")
    if steps[0] != steps[1] or not np.isclose(pairs[0][1], pairs[1][1], rtol=1e-9):
        raise InvalidModel(
            "both fits must be to the same steps in the same world; got "
            f"{steps[0]} and {steps[1]} steps, actions at random {pairs[0][1]:.6g} and "
            f"{pairs[1][1]:.6g}"
        )
    others = [name for name in narrow.names if name not in wide.names]
    if others:
        raise InvalidModel(
            f"the restricted fit must have coefficients of the full one; got {some(others, 3)}"
        )
    fitted = {name for name, one in zip(narrow.names, narrow.fixed, strict=True) if not one}
    if not equations and not any(n not in fitted for n in np.array(wide.names)[~wide.fixed]):
        raise InvalidModel(
            "the restricted fit must have fewer free coefficients than the full one; got "
            f"{len(fitted)} and {int((~wide.fixed).sum())} (what a fit was told to keep by "
            "restrict= is not in a file: with_origin tells it)"
        )
    excess = pairs[1][0] - pairs[0][0]
    if excess > ROUNDING * (1.0 + abs(pairs[0][0])):
        raise InvalidModel(
            f"the restricted fit must not be likelier than the full one; it is, by {excess:.3g} "
            "nats: a constraint was left out of the full one (level=1 keeps all), or a search "
            "did not converge"
        )
