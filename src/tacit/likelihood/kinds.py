"""Demonstrators of several kinds, and nobody knows which unit is of which: one chain of all kinds.

A unit is what one kind did: a trajectory, where kinds are types of noisy experts; or a single step,
where the last kind wants nothing: a lapse, which acts at random. With shares w_t and the losses l_t
of a unit under every kind, its loss is -log sum_t w_t exp(-l_t). An evaluation is one step of
expectation: the values of every kind, the chances that each unit is of each, then the derivatives
of every kind's likelihood on counts weighted by those chances. What not knowing kinds takes of
their curvature is subtracted (Louis 1982); where the rest bends down the complete one stands in,
whose step is one of expectation and maximisation.

Shares are parameters like others, at their bound 0, too: nothing is divided by a share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.data.tally import Scatter
from tacit.data.units import Units
from tacit.likelihood.problem import Equalities, Fit, LikelihoodProblem
from tacit.likelihood.protocol import LARGEST, Beginning, ChainEvidence, HostView
from tacit.likelihood.start import Bounds
from tacit.likelihood.steps import StepsChain, positive_or
from tacit.likelihood.ties import Ties
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.search.algebra import weighted_products
from tacit.search.smooth_dual import DualPoint

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Largest share of units of a kind that wants nothing.
MOST = 0.999
# Logarithm of the noise of a kind or group relative to the first one's, at most.
WIDEST = 7.0
# Logarithm of how much likelier than under all kinds a unit may be under one that nobody is of: of
# units that were never seen more would not be a finite number, nor tell anything.
UNSEEN = 300.0


@dataclass(frozen=True, eq=False, kw_only=True)
class StepUnits:
    """What is of one kind: trajectories, or single steps, which are alike cell by cell.

    Attributes:
        table: sparse [U, S * A] how often each unit took each action in each state.
        repeats: [U] how many units there are like it.
        whole: the likelihood of all steps.
        cells: whether a unit is a step: the chances of all that could be done are known then.
    """

    table: csr_matrix
    repeats: np.ndarray
    whole: StepsChain
    cells: bool = False

    @classmethod
    def trajectories(cls, mdp: MDP, space: Design, seen: Demonstrations) -> StepUnits:
        """The trajectories of these demonstrations."""
        from scipy.sparse import csr_matrix

        index = seen.states.astype(np.int64) * mdp.actions + seen.actions
        shape = (seen.episodes, mdp.states * mdp.actions)
        table = csr_matrix((np.ones(seen.steps), index, seen.offsets), shape=shape)
        table.sum_duplicates()
        return cls(
            table=table, repeats=np.ones(seen.episodes), whole=StepsChain.of(mdp, space, seen)
        )

    @classmethod
    def steps(cls, whole: StepsChain) -> StepUnits:
        """Single steps: a unit for every pair of state and action, as often as it was seen."""
        from scipy.sparse import csr_matrix, eye_array

        table = csr_matrix(eye_array(whole.counts.size))
        return cls(table=table, repeats=whole.counts.ravel(), whole=whole, cells=True)

    def __len__(self) -> int:
        return len(self.repeats)

    @property
    def lengths(self) -> np.ndarray:
        """[U] steps of each unit."""
        return np.asarray(self.table.sum(axis=1)).ravel()

    def point(self, x: np.ndarray, near: DualPoint, precision: float) -> DualPoint:
        """Where a kind with parameters x [D] is, sought from a point nearby."""
        return self.whole.at(x, near, precision)

    def weighted(
        self, points: Sequence[DualPoint], membership: np.ndarray, precision: float
    ) -> tuple[tuple[StepsChain, ...], tuple[DualPoint, ...]]:
        """Every kind's own likelihood, units weighted by their chances [T, U], and its points."""
        chains = self.parts(membership)
        pairs = zip(chains, points, strict=True)
        return tuple(chains), tuple(one.at(point.x, point, precision) for one, point in pairs)

    def parts(self, membership: np.ndarray) -> list[StepsChain]:
        """The likelihood of each kind, every unit weighted by its chances [T, U]."""
        counts = np.asarray(self.table.T @ (self.repeats * membership).T).T
        return [self.whole.reweighted(c.reshape(self.whole.counts.shape)) for c in counts]

    def scores(self, point: DualPoint) -> np.ndarray:
        """[U, D] of each unit at a point."""
        return self.sums(self.whole.scores(point))

    def losses(self, point: DualPoint) -> np.ndarray:
        """[U] minus the logarithms of the chances of each unit at a point of the whole."""
        return self.sums(-np.log(np.maximum(point.policy, np.finfo(float).tiny))[None])[:, 0]

    @cached_property
    def idle(self) -> np.ndarray:
        """[U] minus the logarithms of the chances of each unit if every action is as likely."""
        there = self.whole.choices
        choices = np.maximum(there.sum(axis=1), 1)
        return self.sums(np.log(np.repeat(choices[:, None], there.shape[1], 1))[None])[:, 0]

    def sums(self, tables: np.ndarray) -> np.ndarray:
        """[U, n] sums of tables [n, S, A] over every unit."""
        return np.asarray(self.table @ tables.reshape(len(tables), -1).T)

    def expected(self, chances: np.ndarray) -> np.ndarray:
        """[U] how many single steps of each kind there are on average where these were."""
        chosen = chances.reshape(self.whole.counts.shape) * self.whole.choices
        return (self.whole.visits[:, None] * chosen).ravel()


class KindsPart(NamedTuple):
    """The loss of units of unknown kind at one x, and every kind's own likelihood there."""

    x: np.ndarray  # [D] parameters of every kind, then the shares
    loss: float
    gradient: np.ndarray  # [D]
    curvature: np.ndarray  # [D, D] of the observed loss
    convex: np.ndarray  # [D, D] the same if the kinds were known: it never bends down
    slopes: np.ndarray  # [U, D] gradients of the units' losses
    unknown: np.ndarray  # [D, D] what is not known of the kinds takes of the curvature
    membership: np.ndarray  # [T, U] chances that a unit is of each kind
    losses: np.ndarray  # [U] of single units
    chains: tuple[Any, ...]  # of every kind that wants something, units weighted
    parts: tuple[Any, ...]  # of those

    @property
    def lean(self) -> bool:
        """Whether second derivatives were done without: never here."""
        return False

    @property
    def shares(self) -> np.ndarray:
        """[T] of the units."""
        return self.x[-len(self.membership) :]


@dataclass(frozen=True, eq=False, kw_only=True)
class KindsChain(HostView):
    """Units of unknown kinds as one smooth loss of every kind's parameters and the shares.

    Attributes:
        units: what is of one kind: `StepUnits`, or of trips `TripUnits`.
        experts: how many kinds want something; they come first.
        idle: whether there is one more, which wants nothing.
        prior: 1 / variance of a scaled parameter before anything is seen; 0 for no prior.
        ridge: pull of the parameters towards 0, on scaled features, that is no prior.
    """

    units: Any
    experts: int
    idle: bool = False
    prior: float = 0.0
    ridge: float = 0.0

    large = False
    penalty = None
    writable = True
    convex = False
    endless_rewards = False
    design = 1.0
    squares = None

    @property
    def whole(self) -> Any:
        """The likelihood of all units, were they of one kind."""
        return self.units.whole

    @property
    def kinds(self) -> tuple[Any, ...]:
        """One per kind that wants something, of all units."""
        return (self.whole,) * self.experts

    @property
    def many(self) -> int:
        """T, how many kinds there are."""
        return self.experts + self.idle

    @property
    def discount(self) -> float:
        """Of the world."""
        return self.whole.discount

    @property
    def steps(self) -> float:
        """How many steps there are."""
        return self.whole.steps

    @property
    def exact(self) -> bool:
        """Whether a rough evaluation costs as much as a fine one."""
        return self.whole.exact

    @property
    def scale(self) -> np.ndarray:
        """[D] size of a gradient entry that counts as one."""
        shares = np.full(self.many, float(self.units.repeats.sum()))
        return np.concatenate([*(one.scale for one in self.kinds), shares])

    @property
    def inputs(self) -> tuple:
        """What the loss is made of."""
        return (*self.whole.inputs, self.units.repeats, self.experts, self.idle, self.prior)

    def split(self, x: np.ndarray) -> list[np.ndarray]:
        """The parameters of every kind that wants something."""
        return np.split(x[: len(x) - self.many], self.experts)

    def view(self, x: np.ndarray, moving: np.ndarray | None) -> KindsChain:
        """Itself: nothing has to be placed anywhere."""
        return self

    def blank(self, x: np.ndarray) -> KindsPart:
        """A part at x [D] of which nothing is known."""
        size, square = len(x), np.zeros((len(x), len(x)))
        points = tuple(map(self.whole.blank, self.split(x)))
        about = np.zeros((self.many, len(self.units))), np.zeros(len(self.units)), self.kinds
        none = np.zeros((len(self.units), size))
        return KindsPart(x, np.inf, np.zeros(size), square, square, none, square, *about, points)

    def at(
        self, x: np.ndarray, near: KindsPart, precision: float, *, lean: bool = False
    ) -> KindsPart:
        """The loss at x [D] with all derivatives: one step of expectation."""
        solved, losses, ratios = self._expected(x, near, precision)
        if not np.isfinite(losses).all():
            return self.blank(x)
        shares, repeats, pull = x[-self.many :], self.units.repeats, self.prior + self.ridge
        membership = shares[:, None] * ratios
        chains, parts = self.units.weighted(solved, membership[: self.experts], precision)
        size, coefficients = len(x), slice(len(x) - self.many)
        tail = slice(coefficients.stop, size)
        gradient, slopes = np.zeros(size), np.zeros((len(self.units), size))
        complete, unknown = np.zeros((size, size)), np.zeros((size, size))
        for k, part in enumerate(parts):
            width, share = len(part.gradient), coefficients.stop + k
            own = slice(k * width, (k + 1) * width)
            scores = self.units.scores(part)  # minus the slopes of the kind's loss
            gradient[own], complete[own, own] = part.gradient, part.curvature
            slopes[:, own] = -membership[k][:, None] * scores
            unknown[own, own] = weighted_products(scores.T, repeats * membership[k])
            unknown[share, own] = unknown[own, share] = (repeats * ratios[k]) @ scores
        slopes[:, tail] = -ratios.T
        gradient[tail] = -ratios @ repeats
        told = weighted_products(slopes.T, repeats)
        complete[tail, tail] = told[tail, tail]
        known = told.copy()
        known[tail, tail] = 0.0
        gradient[coefficients] += pull * x[coefficients]
        complete[coefficients, coefficients] += pull * np.eye(coefficients.stop)
        return KindsPart(
            x=x,
            loss=float(repeats @ losses) + 0.5 * pull * float(np.sum(x[coefficients] ** 2)),
            gradient=gradient,
            curvature=complete + known - unknown,
            convex=complete,
            slopes=slopes,
            unknown=unknown,
            membership=membership,
            losses=losses,
            chains=chains,
            parts=parts,
        )

    def loss_at(self, x: np.ndarray, near: KindsPart, precision: float) -> float:
        """The loss at x [D] without its ridge."""
        losses, pulled = self._expected(x, near, precision)[1], x[: len(x) - self.many]
        return float(self.units.repeats @ losses) + 0.5 * self.prior * float(pulled @ pulled)

    def _expected(
        self, x: np.ndarray, near: KindsPart, precision: float
    ) -> tuple[list[Any], np.ndarray, np.ndarray]:
        """Every kind's point, [U] losses, [T, U] the chances under a kind over those under all."""
        from scipy.special import logsumexp

        solved = [
            self.units.point(place, point, precision)
            for place, point in zip(self.split(x), near.parts, strict=True)
        ]
        if not all(np.isfinite(point.loss) for point in solved):
            none = np.full(len(self.units), np.inf)
            return solved, none, np.zeros((self.many, len(self.units)))
        each = [self.units.losses(point) for point in solved]
        each = -np.stack([*each, self.units.idle] if self.idle else each)
        total = np.asarray(logsumexp(each, axis=0, b=x[-self.many :, None]))
        return solved, -total, np.exp(np.minimum(each - total, UNSEEN))

    def error(self, part: KindsPart, x: np.ndarray, precision: float) -> float:
        """By what rounding and rough solves may mistake the loss."""
        if not np.isfinite(part.loss):
            return 0.0
        each = zip(part.chains, part.parts, self.split(x), strict=True)
        return sum(chain.error(point, place, precision) for chain, point, place in each)

    def convex_of(self, part: KindsPart) -> np.ndarray:
        """[D, D] what stands in for a curvature that bends down: the complete one."""
        return part.convex

    def unsettled(self, part: KindsPart) -> bool:
        """Whether the values of a part are not those of a policy."""
        return any(map(self.whole.unsettled, part.parts))

    def beginning(
        self, z: np.ndarray, near: KindsPart | None, problem: LikelihoodProblem, precision: float
    ) -> Beginning | None:
        """At z [n]; where values are not finite there, wherever each kind's are."""
        x, ties = problem.parameters(z)[0], problem.ties
        near = self.blank(x) if near is None else near
        part = self.at(x, near, precision)
        if np.isfinite(part.loss):
            return Beginning(z, part, True)
        places = []
        for e, place in enumerate(self.split(x)):
            ends = problem.lower[ties.rows[e]], problem.upper[ties.rows[e]]
            alone = LikelihoodProblem.of(self.whole, *ends)
            begun = self.whole.beginning(place, None, alone, precision)
            if begun is None:
                return None
            places.append(begun.z)
        z = problem.start(ties.start([*places, x[-self.many :]]))
        x = problem.parameters(z)[0]
        part = self.at(x, self.blank(x), precision)
        return Beginning(z, part, True) if np.isfinite(part.loss) else None

    def evidence(self, part: KindsPart, inner: np.ndarray, seen: Observed) -> KindsEvidence:
        """What was seen says at a part, its parameters having this derivative [D, n]."""
        return KindsEvidence(self, part, inner, seen)


@dataclass(frozen=True, eq=False)
class KindsEvidence:
    """What units of unknown kinds say at a fit.

    Attributes:
        chain: of all kinds.
        part: of the fit.
        inner: [D, n] derivative of its parameters in the joint ones.
        seen: the demonstrations.
    """

    chain: KindsChain
    part: KindsPart
    inner: np.ndarray
    seen: Observed

    loose = False
    source = None

    def slopes(self, *, sums: bool) -> list[Any]:
        """None: the dynamics are taken for known."""
        return []

    @cached_property
    def kinds(self) -> tuple[ChainEvidence, ...]:
        """What the steps of every kind say, each counted by its chance to be of that kind."""
        rows = np.split(self.inner[: len(self.inner) - self.chain.many], self.chain.experts)
        each = zip(self.part.chains, self.part.parts, rows, strict=True)
        return tuple(chain.evidence(part, own, self.seen) for chain, part, own in each)

    @cached_property
    def complete(self) -> np.ndarray:
        """[D, D] information of the units if their kinds were known."""
        found = self.part.convex.copy()
        for k, one in enumerate(self.kinds):
            width = len(one.inner)
            own = slice(k * width, (k + 1) * width)
            found[own, own] = one.fisher + self.chain.prior * np.eye(width)
        return found

    @cached_property
    def fisher(self) -> np.ndarray:
        """[D, D] information of the units. Of single steps the expected one; else the observed."""
        part, units = self.part, self.chain.units
        if units.cells:
            found = weighted_products(part.slopes.T, units.expected(np.exp(-part.losses)))
            pulled = np.arange(len(found)) < len(found) - self.chain.many
            return found + np.diag(self.chain.prior * pulled)
        return self.complete + part.curvature - part.convex

    @property
    def curvature(self) -> np.ndarray:
        """[D, D] of the loss; the information of the units where that is no minimum."""
        return positive_or(self.part.curvature, self.fisher)

    @property
    def outer(self) -> np.ndarray:
        """[n, n] sum over all units of score times score, in the joint parameters."""
        own = weighted_products(self.part.slopes.T, self.chain.units.repeats)
        return self.inner.T @ own @ self.inner

    @property
    def individuals(self) -> set[object]:
        """Who is named: nobody, as units are trajectories or steps."""
        return set()

    @property
    def episodes(self) -> Units:
        """Every unit by itself."""
        return Units.alone(len(self.chain.units))

    def units(self, least: float) -> None:
        """None: what is of one kind is independent."""

    def scatter(self, units: Units) -> Scatter:
        """Squares of the units' scores, in the joint parameters."""
        return Scatter(len(units), self.outer)


def problem_of_kinds(
    chain: KindsChain,
    known: Bounds,
    *,
    share: float | None = None,
    one_direction: bool = False,
) -> LikelihoodProblem:
    """The problem of kinds with these bounds each.

    Args:
        chain: the kinds.
        known: bounds of the coefficients of every kind.
        share: of the kind that wants nothing, where it is known.
        one_direction: whether kinds have one direction of the parameters, each at its own length.
    """
    spaces, many = [chain.whole.space] * chain.experts, chain.many
    ties = Ties.of_lengths(spaces) if one_direction else Ties.of(spaces)
    ties = ties.with_shares([f"share of kind {k}" for k in range(many)])
    size = len(ties.names)
    lower, upper = np.full(size, np.exp(-WIDEST)), np.full(size, np.exp(WIDEST))
    for rows in ties.rows[:-1]:
        lower[rows], upper[rows] = known.lower, known.upper
    shares = ties.rows[-1]
    lower[shares], upper[shares] = 0.0, LARGEST
    if chain.idle:
        upper[shares[-1]] = MOST
    if share is not None:
        lower[shares] = upper[shares] = [1.0 - share, share]
    row = np.isin(np.arange(size), shares).astype(float)
    sum_of = None if share is not None else Equalities(matrix=row[None], values=np.ones(1))
    return LikelihoodProblem(
        chains=(chain,), ties=ties, lower=lower, upper=upper, equalities=sum_of
    )


def log_likelihood(found: Fit) -> float:
    """Of all actions, without what a prior or a ridge adds."""
    chain, part = found.problem.chains[0], found.parts[0]
    if isinstance(chain, KindsChain):
        return -float(chain.units.repeats @ part.losses)
    prior = 0.0 if chain.penalty is None else found.z @ (chain.penalty @ found.z)
    return 0.5 * float(chain.ridge * found.z @ found.z + prior) - found.loss


def one_direction(
    chains: Sequence[Any],
    like: LikelihoodProblem,
    x: np.ndarray,
    *,
    tolerance: float = 1e-7,
    max_steps: int = 200,
) -> Fit:
    """The fit of chains with one direction of the parameters, each at its own length.

    Args:
        chains: of one space.
        like: a problem with the bounds of the first chain.
        x: [D] parameters of the first chain, to begin from.
        tolerance: far finer than a likelihood ratio needs.
        max_steps: most evaluations.
    """
    ties, others = Ties.of_lengths([chain.space for chain in chains]), len(chains) - 1
    least, most = (np.full(others, np.exp(end)) for end in (-WIDEST, WIDEST))
    problem = LikelihoodProblem(
        chains=tuple(chains),
        ties=ties,
        lower=np.concatenate([like.lower, least]),
        upper=np.concatenate([like.upper, most]),
    )
    start = np.concatenate([x, np.ones(others)])
    return problem.minimum(start, tolerance=tolerance, max_steps=max_steps)
