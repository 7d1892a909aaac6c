"""Curves of a fit: their strengths by restricted likelihood, and their bands.

The strength of every penalty is that of the restricted likelihood (REML) of the quadratic of the
likelihood at its fit, by the steps of Fellner and Schall (Wood and Fasiolo 2017). Bands of fits so
smooth are too narrow where the strength is too large: bands are of a fit with a tenth of it, and
without any below some thousand steps. Tests are of the fit without any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tacit.inference.activity import small_sample
from tacit.inference.curves import Curve, density_of
from tacit.inference.evidence import Evidence
from tacit.inference.parameters import inverse_information
from tacit.inference.tails import chi_square_tail
from tacit.likelihood.problem import Equalities, Fit
from tacit.likelihood.rescue import VISIBLE, rescued
from tacit.model.features.curves import CurveTerm
from tacit.model.features.design import Design
from tacit.search.algebra import square_roots

# Strength of the penalty of a band, as a share of that of the curve; and steps below which it is 0.
BAND, FEW = 0.1, 4000
# A strength has settled when its logarithm moves less; it is sought within these, the largest as a
# multiple of the information: far larger ones leave no digits of what is not penalised.
SETTLED, LEAST, MOST = 0.05, 1e-6, 1e5
# Share of the largest eigenvalue of a penalty below which a direction is not penalised.
FLAT = 1e-9
# Where it begins, as a share of the information: a curve that is straight already stays so.
BEGUN = 1e-3
# Rounds of a strength at a quadratic, and of quadratics.
STEPS, ROUNDS = 200, 8


@dataclass(frozen=True, eq=False, kw_only=True)
class Penalised:
    """The parameters of a curve among those of a fit, and their penalties.

    Attributes:
        term: the curve.
        rows: [D] numbers of its parameters.
        penalties: one [D, D] per strength, on scaled features, of the size of the information.
    """

    term: CurveTerm
    rows: np.ndarray
    penalties: tuple[np.ndarray, ...]

    def within(self, matrix: np.ndarray) -> np.ndarray:
        """[D, D] what a matrix [n, n] says of it."""
        return matrix[np.ix_(self.rows, self.rows)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Smoothed:
    """A fit under penalties.

    Attributes:
        fit: with them.
        strengths: one [m] per curve.
        information: [n, n] of the steps alone.
    """

    fit: Fit
    strengths: tuple[np.ndarray, ...]
    information: np.ndarray


def penalised(space: Design) -> tuple[Penalised, ...]:
    """The curves as they stand among the scaled parameters of a design."""
    found = []
    for term in space.curves:
        rows = term.among(space.blocks)
        if space.merged is not None and space.merged[rows].all():
            continue
        units = 1.0 / space.scales[rows]
        scaled = [units[:, None] * one * units for one in term.basis.penalties]
        sized = tuple(one / np.trace(one) for one in scaled)
        found.append(Penalised(term=term, rows=rows, penalties=sized))
    return tuple(found)


def sign_free(fit: Fit, curves: Sequence[Penalised]) -> Fit:
    """The fit in which curves of a known shape may have any."""
    problem, lower = fit.problem, fit.problem.lower.copy()
    for own in curves:
        lower[own.rows] = -np.inf
    if np.array_equal(lower, problem.lower):
        return fit
    return fit.refit(replace(problem, lower=lower))


def with_strengths(
    fit: Fit, curves: Sequence[Penalised], strengths: Sequence[np.ndarray], *, share: float = 1.0
) -> Fit:
    """The fit under a share of these strengths."""
    from scipy.sparse import csr_array

    total = np.zeros((len(fit.z), len(fit.z)))
    for own, strength in zip(curves, strengths, strict=True):
        total[np.ix_(own.rows, own.rows)] += share * np.tensordot(strength, own.penalties, 1)
    (chain,) = fit.problem.chains
    return fit.refit(fit.problem.with_chains([replace(chain, penalty=csr_array(total))])).completed


def smoothed(fit: Fit, curves: Sequence[Penalised], seen: object) -> Smoothed:
    """The fit under the strengths of the restricted likelihood, begun from one without any."""
    information = _information(fit, seen)
    sizes = [max(float(np.trace(own.within(information))), 1.0) for own in curves]
    strengths = [
        np.full(len(own.penalties), BEGUN * size) for own, size in zip(curves, sizes, strict=True)
    ]
    if not np.isfinite(fit.loss) or not fit.converged:  # without a maximum there is no quadratic
        fit = with_strengths(replace(fit, z=np.zeros(len(fit.z))), curves, strengths)
    for _ in range(ROUNDS):
        before = strengths
        information = _information(fit, seen)
        strengths = _restricted(fit, information, curves, strengths)
        fit = with_strengths(fit, curves, strengths)
        moved = np.log(np.concatenate(strengths) / np.concatenate(before))
        if np.abs(moved).max() < SETTLED:
            break
    return Smoothed(fit=fit, strengths=tuple(strengths), information=_information(fit, seen))


def _information(fit: Fit, seen: object) -> np.ndarray:
    (own,) = fit.evidence([seen])
    return own.fisher


def _restricted(
    fit: Fit,
    information: np.ndarray,
    curves: Sequence[Penalised],
    strengths: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """The strengths that the quadratic of the likelihood at a fit asks for."""
    (chain,) = fit.problem.chains
    slope = fit.gradient - (0.0 if chain.penalty is None else chain.penalty @ fit.z)
    free, strengths = fit.free, [one.copy() for one in strengths]
    toward = (information @ fit.z - slope)[free]
    known = information[np.ix_(free, free)]
    places = np.cumsum(free) - 1
    alive = [free[own.rows].all() for own in curves]
    for _ in range(STEPS):
        total = known.copy()
        for own, strength, is_alive in zip(curves, strengths, alive, strict=True):
            if is_alive:
                at = places[own.rows]
                total[np.ix_(at, at)] += np.tensordot(strength, own.penalties, 1)
        inverse = np.linalg.pinv(total, hermitian=True)
        point, moved = inverse @ toward, 0.0
        for own, strength, is_alive in zip(curves, strengths, alive, strict=True):
            if not is_alive:
                continue
            at = places[own.rows]
            mine, law = point[at], inverse[np.ix_(at, at)]
            whole = np.linalg.pinv(np.tensordot(strength, own.penalties, 1), hermitian=True)
            for j, penalty in enumerate(own.penalties):
                gained = np.tensordot(whole, penalty) - np.tensordot(law, penalty)
                bent = float(mine @ penalty @ mine)
                step = np.clip(max(float(gained), 0.0) * strength[j], 1e-300, np.inf)
                new = np.clip(step / max(bent, 1e-300), LEAST, MOST * np.trace(own.within(
                    information)))  # fmt: skip
                moved = max(moved, abs(np.log(new / strength[j])))
                strength[j] = new
        if moved < 0.1 * SETTLED:
            break
    return strengths


@dataclass(frozen=True, eq=False, kw_only=True)
class Smoothing:
    """The curves of a fit, with what is needed to say how well they are known.

    Attributes:
        curves: the curves among the parameters.
        smooth: the fit under the strengths by restricted likelihood, curves of any shape.
        seen: the demonstrations.
    """

    curves: tuple[Penalised, ...]
    smooth: Smoothed
    seen: Any

    @classmethod
    def of(cls, full: Fit, seen: Any) -> Smoothing | None:
        """The smoothing of the curves of a fit; None without any, and where there is a prior."""
        (chain, *others) = full.problem.chains
        if others or chain.kinds != (chain,) or chain.penalty is not None:
            return None
        if not (curves := penalised(chain.space)):
            return None
        return cls(curves=curves, smooth=smoothed(sign_free(full, curves), curves, seen), seen=seen)

    def without_law(self, full: Fit, max_steps: int) -> bool:
        """Whether the unpenalised fit has no law: of surfaces; where the maximum is infinite."""
        many = any(len(own.penalties) > 1 for own in self.curves)
        return many or not full.converged or rescued(full, VISIBLE, max_steps)[1]

    def point(self, kept: Fit) -> Fit:
        """The fit under these strengths, within the bounds of another."""
        return with_strengths(kept, self.curves, self.smooth.strengths)

    def band(self, full: Fit) -> Fit:
        """The fit that bands are of: under a tenth of the strengths."""
        return with_strengths(full, self.curves, self.smooth.strengths, share=BAND)

    def recovered(
        self, full: Evidence, point: Fit, evidence_at: Callable[[Fit], Evidence]
    ) -> tuple[Curve, ...]:
        """The curves, with their bands and tests.

        Args:
            full: evidence of the fit without penalties, or of that under a tenth of the strengths.
            point: the fit whose values are shown.
            evidence_at: the same of another fit.
        """
        fit = full.fitted
        opened = sign_free(fit, self.curves)
        law = full if opened is fit else evidence_at(opened)
        is_penalised = law.fitted.problem.penalised
        enough = law.fitted.problem.chains[0].steps >= FEW
        band = evidence_at(self.band(opened)) if enough and not is_penalised else law
        smooth, chain = self.smooth, fit.problem.chains[0]
        known = smooth.fit.informed(smooth.information)
        hat = inverse_information(known, smooth.fit.free)[0] @ smooth.information
        found = []
        for own, strength in zip(self.curves, smooth.strengths, strict=True):
            units = 1.0 / chain.space.scales[own.rows]
            test = partial(_p_value, law, own)
            found.append(
                Curve(
                    name=own.term.name,
                    variables=own.term.variables,
                    block=own.term.block,
                    columns=own.term.columns,
                    basis=own.term.basis,
                    weights=point.z[own.rows] * units,
                    centre=band.fitted.z[own.rows] * units,
                    covariance=own.within(band.errors.covariance) * np.outer(units, units),
                    degrees=float(np.diagonal(hat)[own.rows].sum()),
                    strengths=strength,
                    p_value=test(np.eye(len(own.rows))),
                    straight_p_value=test(_bends(own)),
                    density=density_of(own.term, chain.counts),
                    absence=band.absence,
                )
            )
        return tuple(found)


def _bends(own: Penalised) -> np.ndarray:
    """[r, D] forms of the scaled parameters that are all 0 where nothing is penalised."""
    values, vectors = np.linalg.eigh(np.sum(own.penalties, axis=0))
    return vectors.T[values > FLAT * values.max()]


def _p_value(law: Evidence, own: Penalised, forms: np.ndarray) -> float:
    """Of "these forms [r, D] of a curve are 0": by likelihood ratio, or Wald's else."""
    if law.absence:
        return np.nan
    fit = law.fitted
    plain = not law.robust and not law.errors.clustered and law.noise is None
    if plain and not fit.problem.penalised and fit.problem.equalities is None:
        rows = np.zeros((len(forms), len(fit.z)))
        rows[:, own.rows] = forms
        known = Equalities(matrix=rows, values=np.zeros(len(forms)))
        straight = not np.array_equal(forms, np.eye(forms.shape[1]))
        held = fit.refit(replace(fit.problem, equalities=known)) if straight else fit.held(
            np.isin(np.arange(len(fit.z)), own.rows), 0.0)  # fmt: skip
        factor = small_sample(fit.problem.chains[0].steps, int(fit.free.sum()))
        return chi_square_tail(len(forms), 2.0 * factor * max(held.loss - fit.loss, 0.0))
    point, rank = forms @ fit.z[own.rows], len(forms)
    covariance = forms @ own.within(law.errors.covariance) @ forms.T
    if fit.problem.penalised:  # the directions that the steps tell best (Wood 2013)
        root = square_roots(forms @ own.within(law.fisher) @ forms.T)[0]
        point, covariance = root @ point, root @ covariance @ root.T
        shares = own.within(law.inverse @ law.fisher)
        rank = max(round(float(np.trace(forms @ shares @ forms.T))), 1)
    values, vectors = np.linalg.eigh(covariance)
    moved, known = vectors.T @ point, np.argsort(-values)[:rank]
    return chi_square_tail(rank, float((moved[known] ** 2 / values[known]).sum()))
