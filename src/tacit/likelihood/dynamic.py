"""Chains of any dynamics: a likelihood from the few maps that `Dynamics` gives."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.tally import Scatter
from tacit.data.units import EPISODES, Units, units_of
from tacit.dynamics import Dynamics, RegressorNoise, Solved, Source
from tacit.likelihood.protocol import Beginning, FirstPlace, HostView, OneKind, events_of
from tacit.likelihood.steps import positive_or
from tacit.model.features.design import Design, sums_as_given
from tacit.search.algebra import square_roots

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.likelihood.problem import LikelihoodProblem


# Share of the information of a direction that errors in variables make up, from which on the
# direction is taken for uninformative.
LARGEST_NOISE_SHARE = 0.6


class DynamicPart(NamedTuple):
    """The loss of a chain at one place."""

    x: np.ndarray  # [D]
    loss: float
    gradient: np.ndarray  # [D]
    curvature: np.ndarray  # [D, D]
    fisher: np.ndarray  # [D, D] information of what was seen
    slopes: np.ndarray  # [U, D] scores of every unit
    solved: Solved | None
    scores: np.ndarray  # [L, n, A, D] of one step

    @property
    def lean(self) -> bool:
        """Whether second derivatives were done without: never here."""
        return False

    @property
    def policy(self) -> np.ndarray:
        """[L * n, A] of the fit."""
        assert self.solved is not None
        return self.solved.policy.reshape(-1, self.solved.policy.shape[2])

    @property
    def values(self) -> np.ndarray:
        """[L * n] soft values."""
        assert self.solved is not None
        return self.solved.values.ravel()


@dataclass(frozen=True, eq=False)
class DynamicsChain(HostView, OneKind):
    """Steps in a world of any dynamics.

    Attributes:
        dynamics: where actions lead.
        space: the features, scaled.
        seen: sparse [U, L * n * A], how often each episode took each action.
        starts: [L, n] weights of the sites where episodes begin, of sum 1.
        ridge: pull of the parameters towards 0, on scaled features.
        tilt: [D] slope of the loss that is added to it: what the penalty of estimated dynamics
            leaves of their errors in the scores; None for none.
        near: where a search begins; None for where two steps of regression lead, or 0.
        penalty: [D, D] sparse and positive semidefinite, that of curves; None for none.
        uninformative: [m, D] orthonormal directions in which parameters change nothing, because
            the information about them is errors of estimated dynamics; None for none.
    """

    dynamics: Dynamics
    space: Design
    seen: csr_array
    starts: np.ndarray
    _: KW_ONLY
    ridge: float = 0.0
    tilt: np.ndarray | None = None
    near: DynamicPart | None = None
    penalty: csr_array | None = None
    uninformative: np.ndarray | None = None

    stage = "fit"
    exact = True
    large = False
    writable = True
    convex = False
    design = 1.0
    squares = None
    endless_rewards = False

    @property
    def discount(self) -> float:
        """Of the dynamics."""
        return self.dynamics.discount

    @cached_property
    def steps(self) -> float:
        """How many steps there are."""
        return float(self.seen.sum())

    @property
    def visits(self) -> np.ndarray:
        """[L * n] steps at every site."""
        return self.counts.sum(axis=2).ravel()

    @cached_property
    def choices(self) -> np.ndarray:
        """[L * n, A] bool, the available actions."""
        pairs, shape = self.space.pairs, self.space.shape
        there = np.ones(shape, bool) if pairs is None else pairs
        return np.tile(there, (self.dynamics.layers, 1))

    def reweighted(self, counts: np.ndarray) -> DynamicsChain:
        """The likelihood of some steps, or of a share of each, given as counts [L * n, A]."""
        from scipy.sparse import csr_array

        return replace(self, seen=csr_array(counts.reshape(1, -1)), tilt=None, near=None)

    def of_episodes(self, chosen: np.ndarray) -> DynamicsChain:
        """The likelihood of some episodes, [U] bool, in the same world; slopes of all add up."""
        own = replace(self, seen=self.seen[np.flatnonzero(chosen)], tilt=None, near=None)
        if self.near is None or self.tilt is None:
            return own
        estimated, near = self.dynamics.estimated, self.near
        assert estimated is not None
        assert near.solved is not None
        influence = estimated.score_influence(near.solved, near.scores[0], own.visits)
        return replace(own, tilt=-influence.sum(axis=0))

    def scores(self, part: DynamicPart) -> np.ndarray:
        """[D, L * n, A] the score of one step."""
        return np.moveaxis(part.scores.reshape(-1, *part.scores.shape[2:]), -1, 0)

    def corrected(self, part: DynamicPart) -> DynamicsChain:
        """The chain after one orthogonal step (Neyman) from its maximum, a part.

        A penalty of estimated dynamics biases the scores. Their sum is subtracted as a slope of the
        loss, so that bounds and tests account for it, too.
        """
        size = self.space.size
        (influence,) = self.evidence(part, np.eye(size), Units.alone(1)).dynamics_influence(
            sums=False
        )
        return replace(self, tilt=-influence.sum(axis=0), near=part)

    @property
    def scale(self) -> np.ndarray:
        """[D] size of a gradient entry that counts as one."""
        return np.full(self.space.size, self.steps)

    @property
    def at_starts(self) -> np.ndarray:
        """[D] bool, the features that every episode has where it begins."""
        return np.zeros(self.space.size, bool)

    @property
    def inputs(self) -> tuple:
        """What the loss is made of."""
        return self.counts, self.space.tables

    @property
    def episodes(self) -> int:
        """How many there are."""
        return len(self.seen.indptr) - 1

    @cached_property
    def counts(self) -> np.ndarray:
        """[L, n, A] how often each action was taken."""
        total = np.asarray(self.seen.sum(axis=0)).ravel()
        return total.reshape(self.dynamics.layers, *self.space.tables.shape[1:])

    @cached_property
    def jacobian(self) -> np.ndarray:
        """[n, A, D] of the utilities."""
        tables = np.ascontiguousarray(np.moveaxis(self.space.tables, 0, -1))
        if self.uninformative is None:
            return tables
        return tables - (tables @ self.uninformative.T) @ self.uninformative

    def approach(
        self, problem: LikelihoodProblem, x: np.ndarray | None, max_steps: int
    ) -> FirstPlace:
        """At x [D], or 0; of estimated dynamics where two steps of regression lead."""
        if self.near is not None:
            return FirstPlace(problem, self.near.x if x is None else x, (self.near,))
        if self.dynamics.estimated is None:
            return FirstPlace(problem, np.zeros(self.space.size) if x is None else x, None)
        begun, solved = self.dynamics.estimated.starting_point(self.counts[0], self.jacobian)
        solved = solved._replace(factor=None)
        place = np.clip(begun, problem.lower, problem.upper) if x is None else x
        return FirstPlace(problem, place, (self.blank(place)._replace(solved=solved),))

    def without_uninformative(self, part: DynamicPart | None) -> DynamicsChain:
        """The chain without directions whose information is mostly errors of estimated dynamics.

        They are judged at a part, or at the starting point, which is rough, where there is none.
        """
        estimated = self.dynamics.estimated
        assert estimated is not None
        solved = None if part is None else part.solved
        if solved is None:
            _, solved = estimated.starting_point(self.counts[0], self.jacobian)
        if solved.factor is None:
            return self
        policy = solved.policy[0]
        responses = self.dynamics.respond(solved, self.jacobian)[0]
        scores = responses - np.einsum("na,nad->nd", policy, responses)[:, None]
        fisher = _weighted(scores.reshape(-1, self.space.size), self.visits[:, None] * policy)
        noise = self.noise_of_regressors(solved)
        if noise is None:
            return self
        plain = np.flatnonzero(~self.space.in_curve)
        _, half = square_roots(fisher[np.ix_(plain, plain)])
        shares, axes = np.linalg.eigh(half @ noise.information[np.ix_(plain, plain)] @ half.T)
        noisy = shares > LARGEST_NOISE_SHARE
        if not noisy.any():
            return self
        embedded = np.eye(self.space.size)[:, plain] @ half.T
        directions, _ = np.linalg.qr(embedded @ axes[:, noisy])
        return replace(self, uninformative=directions.T, near=None)

    def noise_of_regressors(self, solved: Solved) -> RegressorNoise | None:
        """What errors of regressed values add; nothing to curves, which penalties hold."""
        estimated = self.dynamics.estimated
        if estimated is None or solved.factor is None:
            return None
        noise = estimated.regressor_noise(solved, self.jacobian, self.visits)
        if noise is None:
            return None
        plain = ~self.space.in_curve
        return RegressorNoise(noise.information * np.outer(plain, plain), noise.score_bias * plain)

    def view(self, x: np.ndarray, moving: np.ndarray | None) -> DynamicsChain:
        """Itself: nothing has to be placed anywhere."""
        return self

    def at(
        self, x: np.ndarray, near: DynamicPart, precision: float, *, lean: bool = False
    ) -> DynamicPart:
        """The loss at x [D] and its derivatives."""
        solved = self.dynamics.solve(self.jacobian @ x, near.solved)
        if solved is None:
            return self.blank(x)
        policy, counts = solved.policy, self.counts
        weights = self.dynamics.adjoint(solved, counts)
        responses = self.dynamics.respond(solved, self.jacobian)
        average = np.einsum("lsa,lsad->lsd", policy, responses)
        scores = np.where(policy[..., None] > 0, responses - average[:, :, None], 0.0)
        flat = scores.reshape(-1, len(x))
        slope = (weights[:, :, None] * policy - counts).sum(axis=0)
        gradient = np.tensordot(slope, self.jacobian, 2) + self.pull @ x
        return DynamicPart(
            x=x,
            loss=self._loss(solved, x) + 0.5 * self.ridge * float(x @ x),
            gradient=gradient if self.tilt is None else gradient + self.tilt,
            curvature=_weighted(flat, weights[:, :, None] * policy) + self.pull,
            fisher=_weighted(flat, counts.sum(axis=2)[:, :, None] * policy),
            slopes=np.asarray(self.seen @ flat),
            solved=solved,
            scores=scores,
        )

    def loss_at(self, x: np.ndarray, near: DynamicPart, precision: float) -> float:
        """The loss at x [D] without its ridge."""
        solved = self.dynamics.solve(self.jacobian @ x, near.solved)
        return np.inf if solved is None else self._loss(solved, x)

    def _loss(self, solved: Solved, x: np.ndarray) -> float:
        tilted = 0.0 if self.tilt is None else float(self.tilt @ x)
        tilted += 0.0 if self.penalty is None else 0.5 * float(x @ (self.penalty @ x))
        return tilted - float(self.counts.ravel() @ solved.log_policy.ravel())

    @cached_property
    def pull(self) -> np.ndarray:
        """[D, D] curvature of the ridge and of the penalty."""
        ridge = self.ridge * np.eye(self.space.size)
        return ridge if self.penalty is None else ridge + self.penalty.toarray()

    def log_likelihood(self, part: DynamicPart) -> float:
        """Of what was seen, without a ridge, a penalty and a tilt."""
        assert part.solved is not None
        return float(self.counts.ravel() @ part.solved.log_policy.ravel())

    def convex_of(self, part: DynamicPart) -> np.ndarray:
        """[D, D] the information of the steps, where the curvature bends down."""
        return part.fisher + self.pull

    def error(self, part: DynamicPart, x: np.ndarray, precision: float) -> float:
        """By what rounding may mistake the loss."""
        return 1e-13 * (abs(part.loss) + self.steps) if np.isfinite(part.loss) else 0.0

    def unsettled(self, part: DynamicPart) -> bool:
        """Whether values are not those of a policy: dynamics that solve give such."""
        return part.solved is None

    def blank(self, x: np.ndarray) -> DynamicPart:
        """A part of which nothing is known."""
        size, zero = len(x), np.zeros
        nothing, shape = zero((size, size)), (self.dynamics.layers, *self.jacobian.shape)
        none = zero((self.episodes, size))
        return DynamicPart(x, np.inf, zero(size), nothing, nothing, none, None, zero(shape))

    def beginning(
        self,
        x: np.ndarray,
        near: DynamicPart | None,
        problem: LikelihoodProblem,
        precision: float,
    ) -> Beginning | None:
        """At x [D], or 0, if values are finite there."""
        for place in (x, np.clip(np.zeros(len(x)), problem.lower, problem.upper)):
            part = self.at(place, self.blank(place) if near is None else near, precision)
            if np.isfinite(part.loss):
                return Beginning(place, part, True)
        return None

    def evidence(
        self, part: DynamicPart, inner: np.ndarray, seen: Units | Demonstrations
    ) -> DynamicEvidence:
        """What was seen says at a part; `seen` are the episodes, or what is independent of them."""
        return DynamicEvidence(self, part, inner, seen)


@dataclass(frozen=True, eq=False)
class DynamicEvidence(OneKind):
    """The evidence of a chain of any dynamics at a fit.

    Attributes:
        chain: the chain.
        part: of the fit.
        inner: [D, n] derivative of its parameters in the joint ones.
        seen: the episodes, or what is independent among them.
    """

    chain: DynamicsChain
    part: DynamicPart
    inner: np.ndarray
    seen: Units | Demonstrations

    @property
    def loose(self) -> bool:
        """Whether every step is an episode by itself."""
        return self.chain.episodes == self.chain.steps

    @property
    def source(self) -> Source | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What the dynamics were estimated from; None where they are known."""
        estimated = self.chain.dynamics.estimated
        return None if estimated is None else estimated.source

    def dynamics_influence(self, *, sums: bool) -> list[np.ndarray]:
        """By what errors of the dynamics move the scores and, asked for, what is spent."""
        estimated, solved, chain = self.chain.dynamics.estimated, self.part.solved, self.chain
        assert estimated is not None
        assert solved is not None
        scores = self.part.scores[0]
        found = [estimated.score_influence(solved, scores, chain.visits)]
        if sums:
            found.append(estimated.sum_influence(solved, chain.jacobian, scores, chain.starts[0]))
        return found

    @property
    def regressor_noise(self) -> RegressorNoise | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Errors in variables, by those of estimated dynamics."""
        solved = self.part.solved
        return None if solved is None else self.chain.noise_of_regressors(solved)

    @property
    def scores(self) -> np.ndarray:
        """[D, L * n, A] of one step."""
        return self.chain.scores(self.part)

    @property
    def fisher(self) -> np.ndarray:
        """[D, D] information of the steps."""
        return self.part.fisher

    def events(self, move: np.ndarray) -> float:
        """How many steps of one size would tell as much of a move [D] of the parameters.

        Far away estimated dynamics may have no solution: infinity, so that only the quadratic model
        of the loss is asked there.
        """
        if self.chain.dynamics.estimated is not None:
            return np.inf
        expected = self.chain.visits.ravel()[:, None] * self.part.policy
        return events_of(move, self.scores, expected)

    @property
    def curvature(self) -> np.ndarray:
        """[D, D] of the loss without a penalty; that of the steps where that is no minimum."""
        penalty = self.chain.penalty
        own = self.part.curvature if penalty is None else self.part.curvature - penalty.toarray()
        return positive_or(own, self.part.fisher)

    @cached_property
    def outer(self) -> np.ndarray:
        """[n, n] sum over all steps of score times score."""
        flat = self.part.scores.reshape(-1, len(self.inner)) @ self.inner
        return _weighted(flat, self.chain.counts)

    @cached_property
    def spent(self) -> np.ndarray:
        """[D] expected discounted sums of the scaled, signed features."""
        return sums_as_given(self.chain.space, self.reached)

    @cached_property
    def reached(self) -> np.ndarray:
        """[n, A] discounted visits of the fitted policy, of all layers together."""
        solved = self.part.solved
        assert solved is not None
        return (self._reached(solved)[:, :, None] * solved.policy).sum(axis=0)

    @cached_property
    def reaction(self) -> np.ndarray:
        """[D, D] derivative of what is spent."""
        solved = self.part.solved
        assert solved is not None
        flat = self.part.scores.reshape(-1, len(self.inner))
        return _weighted(flat, self._reached(solved)[:, :, None] * solved.policy)

    def _reached(self, solved: Solved) -> np.ndarray:
        return self.chain.dynamics.visits_from(solved, self.chain.starts)

    @property
    def individuals(self) -> set[object]:
        """Who is named."""
        who = self.units(np.inf)
        return set() if who.called == EPISODES else set(who.number.tolist())

    @property
    def episodes(self) -> Units:
        """Every episode by itself."""
        return Units.alone(self.chain.episodes)

    def units(self, least: float) -> Units:
        """What is independent among the episodes."""
        return self.seen if isinstance(self.seen, Units) else units_of(self.seen, least)

    def scatter(self, units: Units) -> Scatter:
        """Squares of the units' scores, in the joint parameters."""
        scores = self.unit_scores(units, len(units))
        return Scatter(len(units), scores.T @ scores)

    def unit_scores(self, units: Units, many: int) -> np.ndarray:
        """[many, n] sums of the scores over each unit, in the joint parameters."""
        slopes = self.part.slopes @ self.inner
        pairs = [(units.number, column) for column in slopes.T]
        sums = [np.bincount(own, weights=column, minlength=many) for own, column in pairs]
        return np.stack(sums, axis=1)


def _weighted(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[D, D] sum over rows [N, D] of weight times row times row."""
    return rows.T @ (rows * weights.reshape(-1, 1))
