"""What was seen in one world as a smooth loss of one number a feature: a chain of steps.

In the Boltzmann model only theta_r = reward weights / temperature and theta_k = multiplier *
weights / temperature act. Inside the library every feature is scaled to a range of one, so that
tolerances and ridges mean the same for all; a cost enters with a minus sign.

Minus the log-likelihood of all observed actions equals b . V_soft(theta) - theta . sum N phi with
b(s') = N(s') - discount * inflow of N: the dual of `Convex` with the start replaced by b. Where
episodes end V is what the end pays, linear in theta, and b is minus the expected arrivals.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed, PartitionedDemonstrations
from tacit.data.tally import Scatter, Tally, episode_sums, random_loss, squares_of, tally_of
from tacit.data.units import EPISODES, Units, units_of
from tacit.dynamics.counted import ChainSlopes, CountedRows, chain_slopes
from tacit.engine.backends import Host, backend_of, fetched, placed, side_by_side, tables_fit
from tacit.forward.soft_dual import finite_start
from tacit.forward.solution import visitation
from tacit.likelihood.products import Loss, can_write_out, table_values
from tacit.likelihood.protocol import Beginning, FirstPlace, HostView, OneKind, events_of
from tacit.model.features.design import Design, sums_as_given
from tacit.model.mdp import MDP, outside_policy
from tacit.search.algebra import square_roots, weighted_products
from tacit.search.smooth_dual import (
    INERT,
    Dual,
    DualPoint,
    blank,
    extended,
    loss_at,
    loss_error,
    point_at,
    point_there,
    restricted,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.likelihood.problem import LikelihoodProblem

Amount = TypeVar("Amount", float, np.ndarray)

# More features than this have no curvature [D, D] made of D solves on every step.
MANY_FEATURES = 200
# Ridge of the fit that a search begins from where it may matter.
ROUGH = 1e-4
# Share of the information below which the loss is too flat to divide by.
BENT = 0.05


@dataclass(frozen=True, eq=False)
class StepsChain(OneKind):
    """Steps in one world as the coefficients of a smooth loss, start . V_soft(x) - x . target.

    Attributes:
        mdp: the model.
        space: its features, scaled.
        counts: [S, A] how often each action was taken; or mean discounted visits to be matched.
        start: [S] the b of the likelihood; complete trips whose moves are certain make it the
            number of trips that begin in each state, at discount 1. Else the law of the start.
        visits: [S] number of steps in each state, by which information is weighted; 0 where the
            loss is no likelihood.
        ridge: pull of the parameters towards 0, on scaled features.
        penalty: [D, D] sparse and positive semidefinite, that of a prior; None for none.
        discounted: [S, A] mean discounted visits of the trajectories that begin at the start, if
            there are any.
        tally: of the demonstrations; None where there are only counts.
        squares: [S, A] squared sampling weights of the steps, summed, their mean being 1; None
            where all steps count alike.
    """

    mdp: MDP
    space: Design
    counts: np.ndarray
    start: np.ndarray
    _: KW_ONLY
    visits: np.ndarray
    ridge: float = 0.0
    penalty: csr_array | None = None
    discounted: np.ndarray | None = None
    tally: Tally | None = None
    squares: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        mdp: MDP,
        space: Design,
        demonstrations: Observed,
        *,
        penalty: csr_array | None = None,
    ) -> StepsChain:
        """The likelihood of these demonstrations, and the penalty of a prior."""
        tally, visits = tally_of(mdp, demonstrations), None
        if tally.trajectories:
            known = np.flatnonzero(mdp.absorbing & ~mdp.ends)
            alike = known[space.alike(known)]
            visits = tally.visitation(np.isin(np.arange(mdp.states), alike))
        plain = cls.counted(mdp, space, tally.counts, penalty=penalty)
        squares = squares_of(mdp, demonstrations)
        return replace(plain, discounted=visits, tally=tally, squares=squares)

    @classmethod
    def counted(
        cls, mdp: MDP, space: Design, counts: np.ndarray, *, penalty: csr_array | None = None
    ) -> StepsChain:
        """The likelihood of steps of which only the counts [S, A] are known."""
        visits = counts.sum(axis=1)
        start = visits - mdp.discount * mdp.inflow(counts)
        return cls(mdp, space, counts, start, visits=visits, penalty=penalty)

    @classmethod
    def matching(
        cls, mdp: MDP, space: Design, visitation: np.ndarray, *, ridge: float = 0.0
    ) -> StepsChain:
        """The maximum-entropy dual of collecting what a visitation [S, A] does."""
        nothing = np.zeros(mdp.states)
        return cls(mdp, space, visitation, mdp.initial, visits=nothing, ridge=ridge)

    def reweighted(self, counts: np.ndarray) -> StepsChain:
        """The likelihood of some of the steps, or of a share of each, given as counts [S, A]."""
        return self.counted(self.mdp, self.space, counts, penalty=self.penalty)

    def elsewhere(self, mdp: MDP) -> StepsChain:
        """The likelihood of the same steps in another world."""
        there = self.counted(mdp, self.space, self.counts, penalty=self.penalty)
        return replace(there, ridge=self.ridge)

    @cached_property
    def by_products(self) -> bool:
        """Whether features are too many for tables [D, S, A] and a curvature [D, D] a step.

        Of more than `MANY_FEATURES` only those that vary count: the others influence nothing.
        """
        space = self.space
        if space.given is not None:
            return False
        if not tables_fit(space.size * self.counts.size):
            return True
        return space.size > MANY_FEATURES and int((~space.empty).sum()) > MANY_FEATURES

    @property
    def writable(self) -> bool:
        """Whether the scores of all parameters can be written out."""
        return not self.by_products or can_write_out(self.space)

    @cached_property
    def loss(self) -> Loss:
        """The same without tables, for very many features."""
        from scipy.sparse import csr_array, eye_array

        penalty = self.penalty
        if self.ridge:
            ridge = csr_array(self.ridge * eye_array(self.space.size))
            penalty = ridge if penalty is None else csr_array(penalty + ridge)
        return Loss(
            mdp=self.mdp,
            design=self.space,
            start=self.start,
            seen=self.counts,
            visits=self.visits,
            penalty=penalty,
        )

    @property
    def design(self) -> float:
        """By what weights of the steps multiply the variance of a mean (Kish's design effect)."""
        return 1.0 if self.squares is None else float(self.squares.sum() / self.counts.sum())

    @property
    def at_starts(self) -> np.ndarray:
        """[D] bool, which features every trajectory has where it begins, and which were seen."""
        begun = np.flatnonzero(self.mdp.initial > 0)
        return self.space.in_each(begun) & (self.target != 0.0)

    @property
    def steps(self) -> float:
        """How many steps there are."""
        return float(self.visits.sum())

    @property
    def at_random(self) -> float:
        """The loss if all available actions are as likely."""
        return random_loss(self.counts, self.mdp.choices)

    @property
    def discount(self) -> float:
        """Of the world."""
        return self.mdp.discount

    @property
    def choices(self) -> np.ndarray:
        """[S, A] bool, the available actions, and at ends the one that leads nowhere."""
        return self.mdp.choices

    @property
    def endless_rewards(self) -> bool:
        """Whether rewards of free sign may have one-sided limits, as forbidden costs do."""
        return False

    @property
    def convex(self) -> bool:
        """Whether the loss is convex for certain, so that its optimum is global."""
        within = self.start[~self.mdp.ends]  # the value of an end is linear
        return bool(within.min(initial=0.0) >= -1e-9 * self.counts.sum())

    @cached_property
    def target(self) -> np.ndarray:
        """[D] sums of the features over all steps."""
        return self.space.pull_back(self.counts)

    @property
    def scale(self) -> np.ndarray:
        """[D] size of a gradient entry that counts as one: what a feature collects at most."""
        amount = over_an_episode(self.mdp, max(float(np.abs(self.start).sum()), 1e-300))
        return np.full(self.space.size, amount)

    @cached_property
    def dual(self) -> Dual:
        """The same as a smooth dual without bounds."""
        ones = np.ones(self.space.size)
        return Dual(
            start=self.start,
            discount=self.mdp.discount,
            temperature=1.0,
            base=np.zeros((self.mdp.states, self.mdp.actions)),
            tables=self.space.tables,
            target=self.target,
            lower=-np.inf * ones,
            upper=np.inf * ones,
            ridge=self.ridge * ones,
            unit=ones,
            scale=self.scale,
            information=self.visits,
        )

    @property
    def exact(self) -> bool:
        """Whether a rough evaluation costs as much as a fine one."""
        return self.space.size == 0 or (not self.by_products and backend_of(self.mdp).direct)

    @property
    def large(self) -> bool:
        """Whether derivatives in parameters that cannot move are worth leaving out."""
        return not self.by_products and isinstance(backend_of(self.mdp), Host)

    stage = "fit"

    def approach(
        self, problem: LikelihoodProblem, x: np.ndarray | None, max_steps: int
    ) -> FirstPlace:
        """Where the convex problem of the same data ends, if that is a better start than 0.

        It is not where trajectories are so few or short that no policy collects what they do.
        """
        plain = FirstPlace(problem, np.zeros(self.space.size) if x is None else x, None)
        known = x is not None or self.penalty is not None  # a prior's own place is 0
        if known or self.convex or self.discounted is None:
            return plain
        ridge = over_an_episode(self.mdp, ROUGH)
        matching = StepsChain.matching(self.mdp, self.space, self.discounted, ridge=ridge)
        convex = problem.with_chains([matching])
        rough = convex.minimum(plain.x, tolerance=1e-6, max_steps=max_steps, stage=self.stage)
        if not np.isfinite(rough.loss):
            return plain
        loss = float(self.start @ rough.parts[0].values - rough.z @ self.target)
        if not loss < self.at_random:
            return plain
        # A feature that moves nothing matches cut-off trajectories with any parameter.
        bends = rough.diagonal
        moves = True if bends is None else bends > ridge * (1.0 + 1e-9)
        place = np.clip(np.where(moves, rough.z, 0.0), problem.lower, problem.upper)
        return FirstPlace(problem, place, rough.parts)

    def view(self, x: np.ndarray, moving: np.ndarray | None = None) -> StepsView | ProductsView:
        """The chain as a search asks for it, that begins at x [D].

        Derivatives in parameters that do not move, [D] bool, are left out; None moves all.
        """
        if self.by_products:
            return ProductsView(self)
        return StepsView(self, x, None if moving is None or moving.all() else moving)

    def at(self, x: np.ndarray, near: DualPoint, precision: float) -> DualPoint:
        """The loss at x [D] with all derivatives, sought from a point nearby."""
        if self.by_products:
            return self.loss.at(x, near.values, precision)
        backend = backend_of(self.mdp)
        return self.pulled(point_at(backend, self.dual, x, near.values, precision, near=near))

    def pulled(self, point: DualPoint) -> DualPoint:
        """A point of the steps with what the penalty adds."""
        if self.penalty is None:
            return point
        x = np.asarray(point.x)
        pull = self.penalty @ x
        return point._replace(
            loss=point.loss + 0.5 * float(x @ pull),
            gradient=np.asarray(point.gradient) + pull,
            curvature=np.asarray(point.curvature) + self.penalty.toarray(),
        )

    def blank(self, x: np.ndarray) -> DualPoint:
        """A point at x [D] of which nothing is known."""
        if self.by_products:
            return self.loss.blank(x, np.zeros(self.mdp.states))
        return blank(self.dual, x, np.zeros(self.mdp.states))

    def unsettled(self, point: DualPoint) -> bool:
        """Whether the values of a point are not those of a policy."""
        return bool(point.residual > 1e-8 * (1.0 + float(np.abs(point.values).max())))

    @property
    def inputs(self) -> tuple:
        """What the loss is made of."""
        return self.start, self.counts, self.space.scales, self.mdp.transitions

    def loss_at(self, x: np.ndarray, near: DualPoint, precision: float) -> float:
        """The loss at x [D] without its ridge."""
        if self.by_products:
            bare = replace(self.loss, penalty=self.penalty)
            return float(bare.at(x, near.values, precision).loss)
        pull = 0.0 if self.penalty is None else 0.5 * float(x @ (self.penalty @ x))
        bare = self.dual._replace(ridge=np.zeros(len(x)))
        return float(loss_at(backend_of(self.mdp), bare, x, near.values, precision)) + pull

    def error(self, point: DualPoint, x: np.ndarray, precision: float) -> float:
        """By what rounding and rough solves may mistake the loss."""
        loss, target = np.asarray(point.loss, float)[None], np.abs(self.target)
        rough = np.array([precision * float(np.abs(self.start).sum())])
        return float(loss_error(loss, x[None], target, rough)[0])

    def beginning(
        self,
        x: np.ndarray,
        near: DualPoint | None,
        problem: LikelihoodProblem,
        precision: float,
    ) -> Beginning | None:
        """As the protocol says; at discount 1 values are finite for some x alone."""
        if self.mdp.discount < 1.0:
            return Beginning(x, self.blank(x) if near is None else near, False)
        if self.by_products:
            begun = self.loss.finite_start(x, problem.lower, problem.upper, precision)
            return None if begun is None else Beginning(begun.x, begun, True)
        known, dual = problem.equalities, self.dual
        dual = dual._replace(lower=problem.lower, upper=problem.upper)
        ties = None if known is None else known.matrix
        begun = finite_start(self.mdp, dual, x, precision, ties=ties)
        return None if begun is None else Beginning(begun[0], blank(self.dual, *begun), False)

    def evidence(self, point: DualPoint, inner: np.ndarray, seen: Observed) -> StepsEvidence:
        """What was seen says at a point, its parameters having this derivative [D, n]."""
        return StepsEvidence(self, self.written(point), inner, seen)

    def written(self, point: DualPoint) -> DualPoint:
        """A point with the values of all tables, which products do without, where they fit."""
        if not self.by_products or not self.writable or len(point.table_values):
            return point
        tables = self.space.tables.reshape(self.space.size, -1).T
        return point._replace(table_values=table_values(self.mdp, tables, point.policy).T)

    def scores(self, point: DualPoint) -> np.ndarray:
        """[D, S, A] the score of one step: its features and all that follow, less the average."""
        mdp, tables, point = self.mdp, self.space.tables, self.written(point)
        result = np.empty(tables.shape)

        def score(d: int) -> None:
            values = point.table_values[d]
            later = mdp.discount * mdp.expected_next(np.ascontiguousarray(values))
            result[d] = tables[d] + later - values[:, None]

        side_by_side(score, range(len(tables)))
        if mdp.restricted:
            result[:, ~mdp.choices] = 0.0  # never taken, and nothing at an end is chosen
        largest = np.abs(point.table_values).max(axis=1, initial=0.0)
        result[np.abs(result).max(axis=(1, 2), initial=0.0) <= INERT * largest] = 0.0
        return result


@dataclass(frozen=True, eq=False)
class StepsEvidence(OneKind):
    """What the steps of a chain say at a fit.

    Attributes:
        chain: the chain.
        part: of the fit.
        inner: [D, n] derivative of its parameters in the joint ones.
        seen: the demonstrations.
    """

    chain: StepsChain
    part: DualPoint
    inner: np.ndarray
    seen: Observed

    @cached_property
    def scores(self) -> np.ndarray:
        """[D, S, A] of one step, in the chain's own parameters."""
        return self.chain.scores(self.part)

    @cached_property
    def fisher(self) -> np.ndarray:
        """[D, D] information of the steps."""
        return information(self.scores, self.part.policy, self.chain.visits)

    def events(self, move: np.ndarray) -> float:
        """How many steps of one size would tell as much of a move [D] of the parameters."""
        return events_of(move, self.scores, self._expected)

    @cached_property
    def _expected(self) -> np.ndarray:
        """[S, A] steps of the fitted policy, from where steps were seen."""
        return self.chain.visits[:, None] * self.part.policy

    @cached_property
    def curvature(self) -> np.ndarray:
        """[D, D] of the loss; the information of the steps where that is no minimum.

        Both agree where the model is right. Elsewhere the loss bends by the visits that the fitted
        policy makes of the start b, not by those that were seen.
        """
        return bent(self.scores, self.part.policy, self.part.visits, self.chain.visits)

    @cached_property
    def outer(self) -> np.ndarray:
        """[n, n] sum over all steps of score times score, in the joint parameters."""
        squares = self.chain.counts if self.chain.squares is None else self.chain.squares
        own = information(self.scores, squares, np.ones(len(squares)))
        return carried(own, self.inner)

    @cached_property
    def source(self) -> CountedRows | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What the dynamics were counted from; None where they are known."""
        return CountedRows.of(self.chain.mdp)

    def dynamics_influence(self, *, sums: bool) -> list[ChainSlopes]:
        """Slopes in the rows of the world of the scores and, asked for, of what is spent."""
        chain, point = self.chain, self.chain.written(self.part)
        slopes_of = partial(
            chain_slopes,
            chain.mdp,
            policy=np.asarray(point.policy),
            scores=self.scores,
            values=np.asarray(point.values),
            tables=np.asarray(point.table_values),
        )
        found = [slopes_of(visits=np.asarray(point.visits), counts=chain.counts)]
        return [*found, slopes_of(visits=self.reached.sum(axis=1))] if sums else found

    @cached_property
    def reached(self) -> np.ndarray:
        """[S, A] discounted visitation of the fitted policy."""
        return visitation(self.chain.mdp, outside_policy(self.chain.mdp, self.part.policy))

    @cached_property
    def spent(self) -> np.ndarray:
        """[D] expected discounted sums of the scaled, signed features."""
        return sums_as_given(self.chain.space, self.reached)

    @cached_property
    def reaction(self) -> np.ndarray:
        """[D, D] derivative of what is spent; 0 where no constraint asks for it."""
        if not self.chain.space.constraints:
            return np.zeros(self.inner.shape[:1] * 2)
        return information(self.scores, self.part.policy, self.reached.sum(axis=1))

    @property
    def loose(self) -> bool:
        """Whether every step is an episode by itself."""
        return self.seen.episodes == self.seen.steps

    @property
    def individuals(self) -> set[object]:
        """Who is named."""
        named = getattr(self.seen, "individuals", None)
        return set() if named is None else set(named.tolist())

    @property
    def episodes(self) -> Units:
        """Every episode by itself."""
        return Units.alone(self.seen.episodes)

    def units(self, least: float) -> Units | None:
        """Individuals, groups where there are `least`, or episodes; None where only sums are known.

        Nothing but demonstrations in memory says who was seen.
        """
        if isinstance(self.seen, Demonstrations):
            return units_of(self.seen, least)
        return self.episodes if isinstance(self.seen, PartitionedDemonstrations) else None

    def scatter(self, units: Units) -> Scatter:
        """Squares of the units' scores, in the joint parameters."""
        if isinstance(self.seen, Demonstrations):
            alone = units.called == EPISODES
            found = Scatter.of(self.scores, self.seen, None if alone else units.number)
        else:
            assert isinstance(self.seen, PartitionedDemonstrations)
            found = self.seen.scatter(self.scores)
        return Scatter(found.episodes, carried(found.products, self.inner))

    def unit_information(self, units: Units, many: int) -> np.ndarray:
        """[many, n, n] information of each unit, by the states that it was in."""
        assert isinstance(self.seen, Demonstrations)  # nothing else says who was seen
        states = len(self.part.policy)
        owner = np.repeat(units.number, self.seen.lengths).astype(np.int64)
        visits = np.bincount(owner * states + self.seen.states, minlength=many * states)
        tables = visits.reshape(many, states).astype(float)
        own = [information(self.scores, self.part.policy, one) for one in tables]
        return np.stack([carried(one, self.inner) for one in own])

    def unit_scores(self, units: Units, many: int) -> np.ndarray:
        """[many, n] sums of the scores over each unit, in the joint parameters."""
        assert isinstance(self.seen, Demonstrations)  # nothing else says who was seen
        sums = episode_sums(self.scores, self.seen)
        own = [np.bincount(units.number, weights=row, minlength=many) for row in sums]
        return np.stack(own, axis=1) @ self.inner


class StepsView:
    """A chain during one search: its tables on their device, derivatives of what moves alone."""

    def __init__(self, chain: StepsChain, x: np.ndarray, moving: np.ndarray | None) -> None:
        self._backend, self._chain, self._moving = backend_of(chain.mdp), chain, moving
        dual = chain.dual if moving is None else restricted(chain.dual, x, moving)
        self._dual = placed(self._backend, dual)

    def begun(self, near: DualPoint) -> DualPoint:
        """A point nearby, on the device."""
        return placed(self._backend, near)

    def at(
        self, x: np.ndarray, near: DualPoint, precision: float, *, lean: bool = False
    ) -> DualPoint:
        """The loss at x [D] and its derivatives, left where they were computed."""
        moving = self._moving
        if moving is None:
            found = point_there(self._backend, self._dual, x, near.values, precision, near=near)
            return self._chain.pulled(found)
        known = near._replace(x=near.x[moving], table_values=near.table_values[moving])
        found = point_at(self._backend, self._dual, x[moving], near.values, precision, near=known)
        return self._chain.pulled(extended(self._chain.dual, x, moving, found))

    def ended(self, point: DualPoint) -> DualPoint:
        """A point in NumPy arrays."""
        return fetched(self._backend, point)


@dataclass(frozen=True, eq=False)
class ProductsView(HostView):
    """A chain of very many features during one search."""

    chain: StepsChain

    def at(
        self, x: np.ndarray, near: DualPoint, precision: float, *, lean: bool = False
    ) -> DualPoint:
        """The loss at x [D] and its derivatives."""
        return self.chain.loss.at(x, near.values, precision)


def over_an_episode(mdp: MDP, amount: Amount) -> Amount:
    """This amount a step, over an episode: 1 / (1 - discount) steps, or a walk to an end.

    A scale: at discount 1 an episode may be longer than any number.
    """
    return amount / (1.0 - mdp.discount) if mdp.discount < 1.0 else amount * mdp.horizon


def information(scores: np.ndarray, policy: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """[D, D] sum over states of visits [S] times the covariance of the scores under the policy."""
    flat = scores.reshape(len(scores), -1)
    return weighted_products(flat, (visits[:, None] * policy).ravel())


def carried(matrix: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """[n, n] a matrix [D, D] of a chain's parameters, whose derivative is [D, n], in those of z."""
    alone = inner.shape == matrix.shape and np.array_equal(inner, np.eye(len(inner)))
    return matrix if alone else inner.T @ matrix @ inner


def bent(
    scores: np.ndarray, policy: np.ndarray, expected: np.ndarray, visits: np.ndarray
) -> np.ndarray:
    """[D, D] by the expected visits [S]; by those that were seen where that is no minimum."""
    return positive_or(information(scores, policy, expected), information(scores, policy, visits))


def positive_or(own: np.ndarray, fisher: np.ndarray) -> np.ndarray:
    """[D, D] a curvature, or the information where it bends down or is too flat to divide by."""
    inverse = square_roots(fisher)[1]
    least = np.linalg.eigvalsh(inverse @ own @ inverse.T).min(initial=1.0)
    return own if least > BENT else fisher
