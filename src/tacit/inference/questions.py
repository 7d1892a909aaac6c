"""Answers to linear questions where parameters are too many for a covariance.

Each is a linear system. Where bounds are near, it is a few more: of the parameters that are near
their bounds and tell of the question most the joint law is written out, all others adapting, and
the ends are those that the law of all parameters would give.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np

from tacit.dynamics.counted import CountedRows, chain_slopes
from tacit.inference.delta_method import DeltaMethod
from tacit.inference.gauge import Gauge
from tacit.inference.information import delta_method
from tacit.inference.profiles import Landscape, ends_of, landscape
from tacit.likelihood.problem import SILENT, Fit
from tacit.likelihood.products import Information
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.search.algebra import largest_first

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.model.objective import FeatureTable, SparseTable

# Share of a direction that conjugate gradients may leave, of which they still have found it, and
# their products.
LEFT, FOUND, PATIENT = 1e-6, 1e-3, 3000
# Most parameters near their bounds whose joint law with a question is written out: a system each.
NEARBY = 12
# Share of a variance that is rounding.
KNOWN = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedByProducts(DeltaMethod):
    """Answers where no covariance is written out: each question is a few linear systems.

    Covariance and blind directions are empty; single numbers have no intervals of their own.

    Attributes:
        mdp: the model.
        policy: [S, A] fitted.
        visits: [S] that were seen.
        free: [D] bool, the parameters that no bound holds.
        parts: the matrices of the features, dense ones whole, sparse ones taken apart.
        penalty: the matrix of the prior, likewise; empty for none.
        values: [S] soft values; empty where the dynamics are known.
        counts: [S, A] steps seen; likewise.
        gradient: [D] of the loss.
        lower: [D] smallest values of the parameters; empty where no bound is asked about.
        upper: [D] largest ones; infinite where there are none.
    """

    mdp: MDP
    policy: np.ndarray
    visits: np.ndarray
    free: np.ndarray
    parts: tuple[tuple[np.ndarray, ...], ...]
    penalty: tuple[np.ndarray, ...] = ()
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    counts: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    gradient: np.ndarray = field(default_factory=lambda: np.zeros(0))
    lower: np.ndarray = field(default_factory=lambda: np.zeros(0))
    upper: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, fitted: Fit, gauge: Gauge) -> AskedByProducts:
        """The answers of a fit, at 95 %."""
        chain, part = fitted.problem.chains[0], fitted.parts[0]
        space, counted = chain.space, chain.mdp.evidence is not None
        law = np.zeros((0, 0)), np.zeros((0, space.size))
        alone = fitted.problem.equalities is None  # what is known of sums is not in the products
        return cls(
            **vars(delta_method(space, fitted.z, gauge, *law)),
            mdp=chain.mdp,
            policy=part.policy,
            visits=chain.visits,
            free=fitted.free,
            parts=tuple(_taken_apart(own) for own in space.parts),
            penalty=() if chain.penalty is None else _taken_apart(chain.penalty),
            values=part.values if counted else np.zeros(0),
            counts=chain.counts if counted else np.zeros((0, 0)),
            gradient=fitted.gradient,
            lower=fitted.lower if alone else np.zeros(0),
            upper=fitted.upper if alone else np.zeros(0),
        )

    def variance(self, slope: np.ndarray) -> float:
        """Of slope [D] . parameters; infinite where conjugate gradients find no answer."""
        law = self._law(slope[None], self.free)
        return np.inf if law is None else float(law[0, 0])

    def _single(self, direction: np.ndarray) -> tuple[float, float] | None:
        """The ends of a weight or a price where bounds are near: what the table would say."""
        if not len(self.lower):
            return None
        found, bounded = self._number(direction), self.lower < self.upper
        bounded &= np.isfinite(self.lower) | np.isfinite(self.upper)
        reward = np.arange(len(self.x)) < self.sizes[0]
        signs = np.where(self.x == 0.0, 1.0, np.sign(self.x))
        bottom = np.where(reward, signs, 0.0) / self.scales
        if found is None or not bounded.any() or not float(bottom @ self.x) > 0.0:
            return None
        row, factor = found
        top = direction / factor / self.scales
        point = float(top @ self.x) / float(bottom @ self.x)
        near = self._nearby(top - point * bottom, bounded)
        forms = np.concatenate([np.eye(len(self.x))[near], [top, bottom]])
        law = self._law(forms, self.free | np.isin(np.arange(len(self.x)), near))
        if law is None:
            return None
        few = FewParameters.of(law, np.array([top @ self.x, bottom @ self.x]), self.x[near])
        around = few.landscape(self.gradient[near], self.lower[near], self.upper[near])
        limits = (0.0, np.inf)
        if row < len(self.x):
            limits = 0.0 if self.lower[row] >= 0.0 else -1.0, 1.0
        best = few.ratio(around.best)
        ends = ends_of(around, few.form_of, point=point, best=best, limits=limits)
        low, high = sorted(factor * end for end in ends)
        return low, high

    def _nearby(self, form: np.ndarray, bounded: np.ndarray) -> np.ndarray:
        """[k] the bounded parameters whose bounds matter most to a form [D].

        By how much the form leans on them, over how far they are from their bounds or, of those on
        a bound, how firmly it holds them: both in the same unknown errors.
        """
        lean, _, _ = self._information.inverse_times(form, self.free, share=LEFT, most=PATIENT)
        left = form - self._information @ lean
        room = np.minimum(self.x - self.lower, self.upper - self.x)
        away = np.where(self.free, room, np.abs(self.gradient))
        share = np.where(self.free, np.abs(lean), np.abs(left)) / np.maximum(away, 1e-300)
        return np.sort(largest_first(np.where(bounded, share, -1.0))[: min(NEARBY, bounded.sum())])

    @cached_property
    def _information(self) -> Information:
        """That of the steps, by its products."""
        edges = np.concatenate([[0], np.cumsum(self.sizes)]).tolist()
        design = Design(
            parts=tuple(_put_together(part) for part in self.parts),
            shape=self.policy.shape,
            signs=np.ones(len(self.x)),
            scales=self.scales,
            blocks=tuple(slice(a, b) for a, b in pairwise(edges)),
            names=("",) * len(self.x),
            offsets=np.zeros(len(self.x)),
        )
        return Information(
            mdp=self.mdp,
            design=design,
            policy=self.policy,
            visits=self.visits,
            penalty=_put_together(self.penalty) if self.penalty else None,
        )

    def _law(self, forms: np.ndarray, free: np.ndarray) -> np.ndarray | None:
        """[n, n] covariance of forms [n, D] of the parameters; None where no answer is found."""
        curved = self._information
        silent = None if self.mdp.ends.any() else curved.design.constant
        if silent is not None and free.all():  # a choice, and no doubt
            image, unit = curved @ silent, silent / np.linalg.norm(silent)
            if np.abs(image).max() <= SILENT * np.abs(silent).max() * self.visits.sum():
                forms = forms - np.outer(forms @ unit, unit)
        found = np.empty(forms.shape)
        for i, form in enumerate(forms):
            found[i], _, left = curved.inverse_times(form, free, share=LEFT, most=PATIENT)
            if left > FOUND:
                return None
        law = forms @ found.T
        return 0.5 * (law + law.T) + self._of_dynamics(curved, found)

    def _of_dynamics(self, curved: Information, directions: np.ndarray) -> np.ndarray | float:
        """What counted dynamics add to the covariance of numbers moved by these scores [n, D]."""
        rows = CountedRows.of(self.mdp)
        if rows is None:
            return 0.0
        mdp, policy = self.mdp, self.policy
        start = self.counts.sum(axis=1) - mdp.discount * mdp.inflow(self.counts)
        tables, scores = [], []
        for direction in directions:
            table = curved.design.table(direction)
            later = curved.solve((policy * table).sum(axis=1), transposed=False)
            own = table + mdp.discount * mdp.expected_next(later) - later[:, None]
            tables.append(later)
            scores.append(np.where(mdp.choices, own, 0.0))
        slopes = chain_slopes(
            mdp,
            policy=policy,
            scores=np.stack(scores),
            values=self.values,
            tables=np.stack(tables),
            visits=curved.solve(start, transposed=True),
            counts=self.counts,
        )
        return rows.covariance(lambda part: slopes.at(rows, part))


@dataclass(frozen=True, eq=False, kw_only=True)
class FewParameters:
    """A ratio of two forms as a function of few parameters, all others adapting.

    They are the parameters near bounds, and what of the two forms does not lean on these.

    Attributes:
        estimates: [n] of them.
        covariance: [n, n] of those near bounds, and of the rest, which is independent of them.
        forms: [2, n] the numerator and the denominator, but for their constants.
        constants: [2].
    """

    estimates: np.ndarray
    covariance: np.ndarray
    forms: np.ndarray
    constants: np.ndarray

    @classmethod
    def of(cls, law: np.ndarray, values: np.ndarray, near: np.ndarray) -> FewParameters:
        """Those near bounds, estimated [k], and two forms of values [2], by their joint law."""
        from scipy.linalg import block_diag

        count = len(near)
        own, across, rest = law[:count, :count], law[count:, :count], law[count:, count:]
        lean = across @ np.linalg.pinv(own, hermitian=True)
        units = np.sqrt(np.maximum(np.diagonal(rest), 1e-300))
        sizes, axes = np.linalg.eigh((rest - lean @ across.T) / np.outer(units, units))
        seen = sizes > KNOWN
        estimates = np.append(near, np.zeros(seen.sum()))
        forms = np.concatenate([lean, units[:, None] * axes[:, seen]], axis=1)
        return cls(
            estimates=estimates,
            covariance=np.asarray(block_diag(own, np.diag(sizes[seen]))),
            forms=forms,
            constants=values - forms @ estimates,
        )

    def landscape(self, gradient: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Landscape:
        """The loss, by its gradient [k] in the parameters near bounds, and their bounds [k]."""
        open_ = np.full(len(self.estimates) - len(lower), np.inf)
        return landscape(
            self.estimates,
            np.append(gradient, np.zeros(len(open_))),
            np.linalg.pinv(self.covariance, hermitian=True),
            lower=np.append(lower, -open_),
            upper=np.append(upper, open_),
            moving=np.ones(len(self.estimates), bool),
        )

    def form_of(self, ratio: float) -> tuple[np.ndarray, float]:
        """The form and the constant that are 0 in sum where the ratio has this value."""
        top, bottom = self.forms
        return top - ratio * bottom, float(self.constants[0] - ratio * self.constants[1])

    def ratio(self, place: np.ndarray) -> float:
        """At parameters [n]; infinite where the denominator is not positive."""
        top, bottom = self.forms @ place + self.constants
        return float(top / bottom) if bottom > 0 else np.inf


def _taken_apart(matrix: FeatureTable | csr_array) -> tuple[np.ndarray, ...]:
    """A matrix as arrays that a file can hold."""
    from scipy.sparse import csr_array

    rows = csr_array(matrix)
    return rows.data, rows.indices, rows.indptr, np.array(rows.shape)


def _put_together(arrays: tuple[np.ndarray, ...]) -> SparseTable:
    """The matrix of these arrays."""
    from scipy.sparse import csr_array

    made = csr_array(tuple(arrays[:3]), shape=tuple(arrays[3].tolist()))
    return cast("SparseTable", made)
