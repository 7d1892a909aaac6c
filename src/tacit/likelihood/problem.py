"""Minus a log-likelihood within bounds and equalities, its minimum, and what is nearby.

The loss is the sum of those of its chains, each in parameters of its own that `Ties` make of the
joint ones. With a linear tie the sum is as convex as its terms. With shared directions it is convex
in the directions for given sizes and the other way round, not in both at once: its minimum is then
a local one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacit.likelihood.products import Information
from tacit.likelihood.protocol import LARGEST, ChainEvidence
from tacit.likelihood.ties import Ties
from tacit.search import minimise
from tacit.search.operators import Matrices, Operator

# Information of what is known beforehand, as a multiple of what the steps say of it at most.
CERTAIN = 1e4
NOTHING = np.zeros((0, 0))
# Relative size of what is left of a silent direction by rounding.
SILENT = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Equalities:
    """What is known of sums of parameters: matrix @ z = values.

    Attributes:
        matrix: [E, n].
        values: [E].
        norms: [E] bool, those that say how large a reward is, as a known temperature does; None
            for none.
    """

    matrix: np.ndarray
    values: np.ndarray
    norms: np.ndarray | None = None

    @classmethod
    def none(cls, size: int) -> Equalities:
        """None, about so many parameters."""
        return cls(matrix=np.zeros((0, size)), values=np.zeros(0))

    def among(self, rows: np.ndarray, columns: np.ndarray | slice = slice(None)) -> Equalities:
        """Some of them, [E] bool, about some of the parameters."""
        norms = None if self.norms is None else self.norms[rows]
        return Equalities(
            matrix=self.matrix[rows][:, columns], values=self.values[rows], norms=norms
        )

    def joined(self, matrix: np.ndarray, values: np.ndarray, *, norms: bool) -> Equalities:
        """These and others, [F, n] and [F]."""
        own = np.zeros(len(self.values), bool) if self.norms is None else self.norms
        return Equalities(
            matrix=np.concatenate([self.matrix, matrix]),
            values=np.concatenate([self.values, values]),
            norms=np.append(own, np.full(len(values), norms)),
        )

    def information(self, fisher: np.ndarray) -> np.ndarray:
        """[n, n] that of knowing them, beside that of the steps [n, n]: so much that it is sure."""
        total = np.zeros(fisher.shape)
        for row in self.matrix:
            known = row != 0
            most = float((np.diagonal(fisher)[known] / row[known] ** 2).max())
            total += CERTAIN * most * np.outer(row, row)
        return total

    def tangents(self, free: np.ndarray) -> np.ndarray:
        """[m, n] directions in which free parameters, [n] bool, can move and nothing known does."""
        moves = np.eye(len(free))[free]
        for row in self.matrix:
            across = moves @ row
            if not across.any():
                continue
            at = int(np.abs(across).argmax())
            others = np.arange(len(moves)) != at
            moves = moves[others] - np.outer(across[others] / across[at], moves[at])
        return moves


@dataclass(frozen=True, eq=False, kw_only=True)
class LikelihoodProblem:
    """Minus a log-likelihood over the joint parameters z.

    Attributes:
        chains: what was seen, world by world.
        ties: how their parameters are made of z.
        lower: [n] smallest values of z.
        upper: [n] largest ones; equal to `lower` where an entry is fixed.
        equalities: what is known of sums of parameters; None for nothing.
        tilt: [n] slope of a linear penalty, as that of an L1 norm within signs; None for none.
        model: [n, n] of the curvature where a search begins: most second derivatives are then done
            without; None for nothing known.
    """

    chains: tuple[Any, ...]
    ties: Ties
    lower: np.ndarray
    upper: np.ndarray
    equalities: Equalities | None = None
    tilt: np.ndarray | None = None
    model: np.ndarray | None = None

    @classmethod
    def of(cls, chain: Any, lower: np.ndarray, upper: np.ndarray) -> LikelihoodProblem:
        """The problem of one chain, in its own parameters."""
        return cls(chains=(chain,), ties=Ties.of([chain.space]), lower=lower, upper=upper)

    @cached_property
    def members(self) -> tuple[range, ...]:
        """One per chain, the numbers of its parameters in the ties: those of every kind, shares."""
        sizes = [1 if one.kinds == (one,) else len(one.kinds) + 1 for one in self.chains]
        edges = np.cumsum([0, *sizes]).tolist()
        return tuple(map(range, edges[:-1], edges[1:]))

    @property
    def wanting(self) -> list[tuple[int, Any]]:
        """Every kind of demonstrator: the number of its parameters in the ties, and its chain."""
        pairs = zip(self.chains, self.members, strict=True)
        return [both for chain, own in pairs for both in zip(own, chain.kinds, strict=False)]

    @property
    def movable(self) -> np.ndarray:
        """[n] bool, the entries that are not fixed."""
        return self.lower < self.upper

    @property
    def bounded(self) -> bool:
        """Whether a bound can stop an entry."""
        return bool((np.isfinite(self.lower) | (self.upper < LARGEST)).any())

    @property
    def bilinear(self) -> bool:
        """Whether a parameter is a product of two entries that may move."""
        return self.ties.bilinear(self.movable)

    @property
    def proven(self) -> bool:
        """Whether any minimum is the global one for certain."""
        return not self.bilinear and all(chain.convex for chain in self.chains)

    @property
    def ridged(self) -> bool:
        """Whether a ridge is added to a likelihood."""
        return any(np.any(chain.ridge) for chain in self.chains)

    @property
    def penalised(self) -> bool:
        """Whether there is a prior."""
        return any(chain.penalty is not None for chain in self.chains)

    def parameters(self, z: np.ndarray) -> list[np.ndarray]:
        """One [D] per chain."""
        each = [self.ties.parameters(e, z) for e in range(len(self.ties.rows))]
        return [np.concatenate(each[own.start : own.stop]) for own in self.members]

    def inner(self, chain: int, z: np.ndarray) -> np.ndarray:
        """[D, n] derivative of a chain's parameters."""
        return np.concatenate([self.ties.jacobian(e, z) for e in self.members[chain]])

    def bend(self, chain: int, gradient: np.ndarray) -> np.ndarray:
        """[n, n] second derivative of gradient . parameters of a chain."""
        own = self.members[chain]
        edges = np.cumsum([len(self.ties.rows[e]) for e in own])[:-1]
        pairs = zip(own, np.split(gradient, edges), strict=True)
        return np.sum([self.ties.bend(e, slope) for e, slope in pairs], axis=0)

    def fixing(self, which: np.ndarray, value: float) -> LikelihoodProblem:
        """The problem with some entries, [n] bool, fixed at a value."""
        lower, upper = (np.where(which, value, end) for end in (self.lower, self.upper))
        return replace(self, lower=lower, upper=upper)

    def without(self, b: int, chains: Sequence[int] | None = None) -> LikelihoodProblem:
        """The problem with block b fixed at 0 in these chains; None for all of them."""
        ties, size = self.ties, len(self.lower)
        if chains is None or len(chains) == len(ties.rows):  # sizes of nothing do not matter
            zero, one = np.zeros((2, size), bool)
            for e, blocks in enumerate(ties.blocks):
                zero[ties.rows[e][blocks[b]]] = True
                sizes = ties.sizes[e][blocks[b]]
                one[sizes[sizes >= 0]] = True
            return self.fixing(zero, 0.0).fixing(one, 1.0)
        held = np.zeros(size, bool)
        for e in chains:
            held |= self.steering(b, e)
        return self.fixing(held, 0.0)

    def steering(self, b: int, chain: int) -> np.ndarray:
        """[n] bool, the entries that move block b of this chain and of no other."""
        return self.ties.steering(b, chain) & self.movable

    def with_chains(self, chains: Sequence[Any]) -> LikelihoodProblem:
        """The same of other data, or in other worlds."""
        return replace(self, chains=tuple(chains))

    def losses(self, z: np.ndarray, near: Sequence[Any], precision: float) -> float:
        """The loss at z [n] without ridges, from parts nearby."""
        parts = zip(self.chains, self.parameters(z), near, strict=True)
        return sum(chain.loss_at(x, part, precision) for chain, x, part in parts)

    def parts(self, z: np.ndarray, near: Sequence[Any], precision: float) -> tuple[Any, ...]:
        """One part per chain at z [n], with all derivatives."""
        each = zip(self.chains, self.parameters(z), near, strict=True)
        return tuple(chain.at(x, part, precision) for chain, x, part in each)

    def joined(self, z: np.ndarray, parts: Sequence[Any], precision: float) -> minimise.Point:
        """The sum of the parts at z [n], in the parameters of the search.

        Far from a minimum the bend of the ties, or not knowing kinds, can make the sum curve
        downwards: then without it.
        """
        size, places = len(z), self.parameters(z)
        lean = any(part.lean for part in parts)
        gradient, scale = np.zeros(size), np.zeros(size)
        operator: Operator | None = None
        loss = error = 0.0
        for e, (chain, part) in enumerate(zip(self.chains, parts, strict=True)):
            slope = np.asarray(part.gradient)
            if self.ties.alone:
                gradient, scale = slope, chain.scale
            else:
                inner = self.inner(e, z)
                gradient += inner.T @ slope
                scale += np.abs(inner).T @ chain.scale
            loss += float(part.loss)
            error += chain.error(part, places[e], precision)
        if not lean:
            operator = self._curvature(z, parts)
        if self.tilt is not None:
            gradient, loss = gradient + self.tilt, loss + float(self.tilt @ z)
        return minimise.Point(
            loss=np.array([loss]),
            gradient=gradient[None],
            curvature=operator,
            error=np.array([error]),
            scale=np.maximum(scale, 1e-300)[None],
            detail=tuple(parts),
        )

    def _curvature(self, z: np.ndarray, parts: Sequence[Any]) -> Operator:
        """That of the sum of the parts at z [n]; of one chain alone it may be known by products."""
        size = len(z)
        if self.ties.alone:
            own = parts[0].curvature
            if isinstance(own, Information):
                return replace(own.operator, bounded=self.bounded)
            safe = self.chains[0].convex_of(parts[0])
            return Matrices(np.asarray(own)[None], None if safe is own else np.asarray(safe)[None])
        exact, convex, mixed = np.zeros((size, size)), np.zeros((size, size)), False
        for e, (chain, part) in enumerate(zip(self.chains, parts, strict=True)):
            own, safe, inner = np.asarray(part.curvature), chain.convex_of(part), self.inner(e, z)
            bend = self.bend(e, np.asarray(part.gradient))
            mixed |= safe is not part.curvature or bool(bend.any())
            exact += inner.T @ own @ inner + bend
            convex += inner.T @ np.asarray(safe) @ inner
        return Matrices(exact[None], convex[None] if mixed else None)

    def start(self, z: np.ndarray) -> np.ndarray:
        """[n] a place near z within the bounds, where equalities hold."""
        z = np.clip(z, self.lower, self.upper)
        known = self.equalities
        if known is None:
            return z
        if (
            len(known.values) == 1 and not self.ties.shares.any()
        ):  # a known size: the same direction, if that will do
            length = float(known.matrix[0] @ z)
            size = float(known.values[0])
            z = z * (size / length) if size > 0 and length > 0 else z
        return minimise.feasible(z, self.lower, self.upper, known.matrix, known.values)

    def minimum(
        self,
        z: np.ndarray,
        near: Sequence[Any] | None = None,
        *,
        tolerance: float,
        max_steps: int,
        stage: str = "",
    ) -> Fit:
        """The minimum sought from z [n], and from parts nearby if there are any.

        Args:
            z: where to begin.
            near: parts at a place nearby.
            tolerance: projected gradient to reach, relative to its scale.
            max_steps: most evaluations.
            stage: what the search is called by those who watch it; nobody does by default.
        """
        z, evaluated = self.start(z), False
        if len(self.chains) == 1:
            part = None if near is None else near[0]
            found = self.chains[0].beginning(z, part, self, tolerance)
            if found is None:
                return Fit.infinite(self, z, tolerance)
            z, near, evaluated = found.z, (found.part,), found.evaluated
        if near is None:
            near = [c.blank(x) for c, x in zip(self.chains, self.parameters(z), strict=True)]
        sought, watched = Sought(self, z, near), None
        known = self.joined(z, near, tolerance) if evaluated else None
        if stage:
            given = (chain.inputs for chain in self.chains)
            watched = minimise.Stage(stage, (z, self.lower, self.upper, tolerance, *given))
        end = minimise.minimise(
            sought,
            minimise.begin(z[None], known, self.model),
            tolerance=tolerance,
            max_steps=max_steps,
            stage=watched,
        )
        assert end.point is not None
        if not np.isfinite(end.point.loss[0]):
            return Fit.infinite(self, z, tolerance)
        parts, place = sought.ended(end.point.detail), end.z[0]
        if any(part.lean for part in parts):  # the search was stopped
            parts = self.parts(place, parts, tolerance)
        return Fit.of(self, place, parts, int(end.evaluations[0]), tolerance)


class Sought:
    """A problem during one search, as `minimise` asks for it: every chain on its device."""

    def __init__(self, problem: LikelihoodProblem, z: np.ndarray, near: Sequence[Any]) -> None:
        self.lower, self.upper, self.unit = problem.lower, problem.upper, np.ones(len(z))
        self.ties = None if problem.equalities is None else problem.equalities.matrix
        self.exact = all(chain.exact for chain in problem.chains)
        self._problem, self._views = problem, []
        for e, (chain, x) in enumerate(zip(problem.chains, problem.parameters(z), strict=True)):
            moving = None
            if chain.large and problem.equalities is None:
                own = problem.members[e].start
                moving = problem.movable[problem.ties.rows[own]]
                sizes = problem.ties.sizes[own]
                moving = moving | (problem.movable[sizes] & (sizes >= 0))
            self._views.append(chain.view(x, moving))
        pairs = zip(self._views, near, strict=True)
        self._near = [view.begun(part) for view, part in pairs]

    def at(
        self,
        z: np.ndarray,
        rows: np.ndarray,
        near: minimise.Point | None,
        precision: np.ndarray,
        *,
        lean: bool = False,
    ) -> minimise.Point:
        """The loss and its derivatives at z [1, n]; see `minimise.SearchProblem`."""
        before, fine = self._near if near is None else near.detail, float(precision[0])
        each = zip(self._views, self._problem.parameters(z[0]), before, strict=True)
        parts = [view.at(x, part, fine, lean=lean) for view, x, part in each]
        return self._problem.joined(z[0], parts, fine)

    def ended(self, parts: Sequence[Any]) -> tuple[Any, ...]:
        """The parts in NumPy arrays."""
        return tuple(view.ended(part) for view, part in zip(self._views, parts, strict=True))


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A minimum, and what is needed to judge it.

    Attributes:
        problem: what was minimised.
        z: [n] where it was left.
        loss: there; infinite where there are no finite values.
        gradient: [n] of the loss, with what equalities pull.
        curvature: [n, n], or what is known of it by its products.
        scale: [n] size of a gradient entry that counts as one.
        parts: one per chain.
        steps: evaluations taken.
        tolerance: what was asked.
        pulls: [E] what more of each known sum would cost or, if negative, gain.
        partial: whether derivatives in entries that cannot move are left out.
    """

    problem: LikelihoodProblem
    z: np.ndarray
    loss: float
    gradient: np.ndarray
    curvature: np.ndarray | Information
    scale: np.ndarray
    parts: tuple[Any, ...]
    steps: int
    tolerance: float
    pulls: np.ndarray
    partial: bool = False

    @classmethod
    def of(
        cls,
        problem: LikelihoodProblem,
        z: np.ndarray,
        parts: Sequence[Any],
        steps: int,
        tolerance: float,
    ) -> Fit:
        """The fit whose search ended at z [n] with these parts."""
        here, known, pulls = problem.joined(z, parts, tolerance), problem.equalities, np.zeros(0)
        gradient = here.gradient[0]
        if known is not None:
            free = (z > problem.lower) & (z < problem.upper)
            inside = known.matrix * free
            inside = np.where(inside.any(axis=1, keepdims=True), inside, known.matrix)
            pulls = -np.linalg.lstsq(inside @ known.matrix.T, inside @ gradient, rcond=1e-12)[0]
            gradient = gradient + pulls @ known.matrix
        downhill = ((z > problem.lower) | (gradient < 0)) & ((z < problem.upper) | (gradient > 0))
        moving, curvature = problem.movable, parts[0].curvature
        if isinstance(here.curvature, Matrices):
            curvature = here.curvature.bent_up(downhill[None])[0]
        return cls(
            problem=problem,
            z=z,
            loss=float(here.loss[0]),
            gradient=gradient,
            curvature=curvature,
            scale=here.scale[0],
            parts=tuple(parts),
            steps=steps,
            tolerance=tolerance,
            pulls=pulls,
            partial=known is None and not moving.all() and any(c.large for c in problem.chains),
        )

    @classmethod
    def infinite(cls, problem: LikelihoodProblem, z: np.ndarray, tolerance: float) -> Fit:
        """The fit of a problem without finite values within its bounds."""
        size = len(z)
        parts = [c.blank(x) for c, x in zip(problem.chains, problem.parameters(z), strict=True)]
        known = problem.equalities
        return cls(
            problem=problem,
            z=z,
            loss=np.inf,
            gradient=np.zeros(size),
            curvature=np.zeros((size, size)),
            scale=np.ones(size),
            parts=tuple(parts),
            steps=0,
            tolerance=tolerance,
            pulls=np.zeros(0 if known is None else len(known.values)),
        )

    @property
    def operator(self) -> Operator:
        """The curvature, of which steps in a box are asked."""
        if isinstance(self.curvature, Information):
            return replace(self.curvature.operator, bounded=True)
        return Matrices(self.curvature[None])

    @cached_property
    def diagonal(self) -> np.ndarray | None:
        """[n] of the curvature; None where it is too large to be written out."""
        if not isinstance(self.curvature, Information):
            return np.diagonal(self.curvature)
        whole = self.curvature.written_out()
        return None if whole is None else np.diagonal(whole)

    @property
    def free(self) -> np.ndarray:
        """[n] bool, the parameters that no bound holds."""
        return (self.z > self.problem.lower) & (self.z < self.problem.upper)

    @property
    def projected_gradient(self) -> float:
        """Largest entry of the gradient that no bound holds back, relative to its scale."""
        held = (self.z <= self.problem.lower) & (self.gradient > 0)
        held |= (self.z >= self.problem.upper) & (self.gradient < 0)
        share = np.abs(np.where(held, 0.0, self.gradient / self.scale))
        return float(share.max(initial=0.0))

    @property
    def converged(self) -> bool:
        """Whether the projected gradient met the tolerance and the values are those of a policy."""
        if not self.projected_gradient <= self.tolerance:
            return False
        pairs = zip(self.problem.chains, self.parts, strict=True)
        return np.isfinite(self.loss) and not any(chain.unsettled(part) for chain, part in pairs)

    @property
    def objective_gap(self) -> float:
        """Bound on how far the loss is above its minimum, by convexity, in the fit's own curvature.

        Half the squared Newton decrement: exact for a quadratic, and the decrement is tiny here.
        """
        free = self.free
        if not free.any():
            return 0.0
        if isinstance(self.curvature, Information):
            step, _, _ = self.curvature.inverse_times(self.gradient, free, share=0.1)
            return 0.5 * float(self.gradient @ step)
        gradient, curvature = self.gradient[free], self.curvature[np.ix_(free, free)]
        return float(0.5 * gradient @ np.linalg.lstsq(curvature, gradient, rcond=None)[0])

    @property
    def completed(self) -> Fit:
        """The same fit with all derivatives."""
        if not self.partial:
            return self
        parts = self.problem.parts(self.z, self.parts, self.tolerance)
        return replace(
            Fit.of(self.problem, self.z, parts, self.steps, self.tolerance), partial=False
        )

    def evidence(self, seen: Sequence[Any]) -> tuple[ChainEvidence, ...]:
        """One per chain, what was seen says at this fit."""
        each = zip(self.problem.chains, self.parts, seen, strict=True)
        return tuple(
            # Of very many features nothing is written out, and nothing needs a derivative.
            chain.evidence(part, self.problem.inner(e, self.z) if chain.writable else NOTHING, own)
            for e, (chain, part, own) in enumerate(each)
        )

    @property
    def lower(self) -> np.ndarray:
        """[n] the smallest values allowed."""
        return self.problem.lower

    @property
    def upper(self) -> np.ndarray:
        """[n] the largest values allowed; infinite where none is."""
        return np.where(self.problem.upper < LARGEST, self.problem.upper, np.inf)

    def x(self, chain: int = 0) -> np.ndarray:
        """[D] the parameters of a chain, or of a kind of demonstrators; the shares come last."""
        return self.problem.ties.parameters(chain, self.z)

    def lagrangian(self, z: np.ndarray) -> float:
        """The loss at other parameters [n], without ridges, with what equalities pull."""
        found = self.problem.losses(z, self.parts, self.tolerance)
        return found + float(self.pulls @ self.missing(z)) if len(self.pulls) else found

    @property
    def pull(self) -> np.ndarray | float:
        """[n] what equalities add to the gradient of the loss."""
        known = self.problem.equalities
        return 0.0 if known is None else self.pulls @ known.matrix

    def missing(self, z: np.ndarray) -> np.ndarray:
        """[E] by how much z [n] misses what is known."""
        known = self.problem.equalities
        assert known is not None
        return known.matrix @ z - known.values

    @cached_property
    def prior(self) -> np.ndarray | None:
        """[n, n] curvature of the priors of all chains; None without any."""
        ties, total = self.problem.ties, None
        for e, chain in enumerate(self.problem.chains):
            if chain.penalty is None:
                continue
            inner = self.problem.inner(e, self.z)
            own = chain.penalty.toarray() if ties.alone else inner.T @ (chain.penalty @ inner)
            total = own if total is None else total + own
        return total

    def known(self, e: int = 0) -> Equalities | None:
        """What was known of sums of a chain's own parameters, which no tie changes; else None."""
        known, rows = self.problem.equalities, self.problem.ties.rows[e]
        own = np.zeros(0, bool) if known is None else np.asarray(known.matrix[:, rows].any(axis=1))
        return None if known is None or not own.any() else known.among(own, rows)

    def norm(self, e: int = 0) -> Equalities | None:
        """How large a chain's reward is, where its temperature is known; else None."""
        known = self.known(e)
        if known is None or known.norms is None or not known.norms.any():
            return None
        return known.among(known.norms)

    def conditioned(self, fisher: np.ndarray) -> np.ndarray:
        """[n, n] an information with that of equations that hold for certain."""
        known = self.problem.equalities
        return fisher if known is None else fisher + known.information(fisher)

    def informed(self, fisher: np.ndarray) -> np.ndarray:
        """[n, n] an information with that of what was known beforehand."""
        sure = self.conditioned(fisher)
        if self.prior is None:
            return sure
        sure = sure + self.prior
        return sure + self._chosen(sure)

    def _chosen(self, sure: np.ndarray) -> np.ndarray:
        """[n, n] that of a constant of the reward that neither steps nor the prior tell.

        It changes nothing that anybody does, in any world: that is no doubt but a choice, and stays
        as it was chosen.
        """
        chain, nothing = self.problem.chains[0], np.zeros(sure.shape)
        free = self.problem.ties.alone and self.free[chain.space.blocks[0]].all()
        if not free or chain.space.ending or chain.space.constant is None:
            return nothing
        unit = chain.space.constant / np.linalg.norm(chain.space.constant)
        if np.abs(sure @ unit).max() > SILENT * np.abs(sure).max():
            return nothing
        return CERTAIN * float(np.diagonal(sure).mean()) * np.outer(unit, unit)

    def refit(self, problem: LikelihoodProblem, *, max_steps: int = 300) -> Fit:
        """The minimum of a problem like this one, sought from here.

        Its loss is infinite where no value is finite within the bounds (discount 1).
        """
        problem = replace(problem, model=None)
        return problem.minimum(self.z, self.parts, tolerance=self.tolerance, max_steps=max_steps)

    def held(self, which: np.ndarray, value: float) -> Fit:
        """The minimum with some parameters, [n] bool, held at a value, sought from here."""
        return self.refit(self.problem.fixing(which, value))
