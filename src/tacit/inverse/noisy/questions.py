"""Answers to linear questions where parameters are too many for a covariance: one system each."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np

from tacit.dynamics.counted import CountedRows, chain_slopes
from tacit.inference.gauge import Gauge
from tacit.inverse.noisy import DeltaMethod
from tacit.inverse.noisy.inference import delta_method
from tacit.likelihood.problem import SILENT, Fit
from tacit.likelihood.products import Information
from tacit.model.features.design import Design
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.model.objective import FeatureTable, SparseTable

# Share of a direction that conjugate gradients may leave, and their products.
LEFT, PATIENT = 1e-6, 3000


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedByProducts(DeltaMethod):
    """The delta method where no covariance is written out: each question is a linear system.

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
    """

    mdp: MDP
    policy: np.ndarray
    visits: np.ndarray
    free: np.ndarray
    parts: tuple[tuple[np.ndarray, ...], ...]
    penalty: tuple[np.ndarray, ...] = ()
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    counts: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def of(cls, fitted: Fit, gauge: Gauge) -> AskedByProducts:
        """The answers of a fit, at 95 %."""
        chain, part = fitted.problem.chains[0], fitted.parts[0]
        space, counted = chain.space, chain.mdp.evidence is not None
        law = np.zeros((0, 0)), np.zeros((0, space.size))
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
        )

    def variance(self, slope: np.ndarray) -> float:
        """Of slope [D] . parameters; infinite where conjugate gradients find no answer."""
        edges = np.concatenate([[0], np.cumsum(self.sizes)]).tolist()
        design = Design(
            parts=tuple(_put_together(part) for part in self.parts),
            shape=self.policy.shape,
            signs=np.ones(len(slope)),
            scales=self.scales,
            blocks=tuple(slice(a, b) for a, b in pairwise(edges)),
            names=("",) * len(slope),
            offsets=np.zeros(len(slope)),
        )
        curved = Information(
            mdp=self.mdp,
            design=design,
            policy=self.policy,
            visits=self.visits,
            penalty=_put_together(self.penalty) if self.penalty else None,
        )
        silent = None if self.mdp.ends.any() else design.constant
        if silent is not None and self.free.all():  # a choice, and no doubt
            image, unit = curved @ silent, silent / np.linalg.norm(silent)
            if np.abs(image).max() <= SILENT * np.abs(silent).max() * self.visits.sum():
                slope = slope - (slope @ unit) * unit
        found, _, left = curved.inverse_times(slope, self.free, share=LEFT, most=PATIENT)
        own = float(slope @ found) + self._of_dynamics(curved, found)
        return own if left <= 1e-3 else np.inf

    def _of_dynamics(self, curved: Information, direction: np.ndarray) -> float:
        """What counted dynamics add to the variance of a number moved by these scores [D]."""
        rows = CountedRows.of(self.mdp)
        if rows is None:
            return 0.0
        mdp, policy, table = self.mdp, self.policy, curved.design.table(direction)
        later = curved.solve((policy * table).sum(axis=1), transposed=False)
        scores = table + mdp.discount * mdp.expected_next(later) - later[:, None]
        scores = np.where(mdp.choices, scores, 0.0)
        start = self.counts.sum(axis=1) - mdp.discount * mdp.inflow(self.counts)
        chain = {"policy": policy, "scores": scores[None], "values": self.values}
        visits = curved.solve(start, transposed=True)
        slopes = chain_slopes(mdp, **chain, tables=later[None], visits=visits, counts=self.counts)
        return float(rows.covariance(lambda part: slopes.at(rows, part))[0, 0])


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
