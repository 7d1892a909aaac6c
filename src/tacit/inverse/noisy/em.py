"""Demonstrators of several kinds, and nobody knows which unit is of which: EM, and what that costs.

A unit is a trajectory, and kinds are types of noisy experts; or it is a single step, and a kind
without utility is a lapse, which acts at random. The expectation step gives each unit its chances
of being of each kind, from the likelihood of its actions. The maximisation step is the step
likelihood on counts weighted by those chances, begun where the last one ended: it need not reach
the maximum, only rise, so that no round lowers the likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.inverse.parameters import inverse_information
from tacit.likelihood.problem import Fit, LikelihoodProblem
from tacit.likelihood.start import Label, Range, maximum
from tacit.likelihood.steps import StepsChain, information
from tacit.likelihood.ties import Ties
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.search.algebra import covariance_root, weighted_products

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Largest share of units of kinds that want nothing.
MOST = 0.999
# Rounds from every start before the best goes on, and the gain (nats) that ends those.
SHORT, ROUGH = 15, 1e-2
# Iterations of k-means.
LLOYD = 30
# Logarithm of the noise of a type or group relative to the first one's, at most.
WIDEST = 7.0
# Redrawn actions behind the test of trajectories, and most steps for which it is made.
DRAWS, LARGEST = 199, 500_000
# Projected gradient of fits with one direction: far finer than a likelihood ratio needs.
LIKENED = 1e-7


@dataclass(frozen=True)
class Search:
    """How one M-step searches.

    Attributes:
        free_reward: let reward weights take either sign.
        tolerance: projected gradient to reach, relative to the number of steps.
        max_steps: most evaluations of the loss.
        bounds: {coefficient: (least, largest)}, where not the usual ones.
    """

    free_reward: bool = False
    tolerance: float = 1e-9
    max_steps: int = 20
    bounds: Mapping[Label, Range] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Units:
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
    def trajectories(cls, mdp: MDP, space: Design, seen: Demonstrations) -> Units:
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
    def steps(cls, whole: StepsChain) -> Units:
        """Single steps: a unit for every pair of state and action, as often as it was seen."""
        from scipy.sparse import csr_matrix, eye_array

        table = csr_matrix(eye_array(whole.counts.size))
        return cls(table=table, repeats=whole.counts.ravel(), whole=whole, cells=True)

    def __len__(self) -> int:
        return len(self.repeats)

    def parts(self, membership: np.ndarray) -> list[StepsChain]:
        """The likelihood of each kind, every unit weighted by its chances [U, T]."""
        counts = np.asarray(self.table.T @ (self.repeats[:, None] * membership)).T
        return [self.whole.reweighted(c.reshape(self.whole.counts.shape)) for c in counts]

    def expected(self, kinds: Kinds) -> np.ndarray:
        """[U] how many single steps of each kind there are on average where these were."""
        total = np.exp(log_chances(self, kinds.fits, kinds.shares)).sum(axis=1)
        chosen = total.reshape(self.whole.counts.shape) * self.whole.mdp.choices
        return (self.whole.visits[:, None] * chosen).ravel()

    def sums(self, tables: np.ndarray) -> np.ndarray:
        """[U, n] sums of tables [n, S, A] over every unit."""
        return np.asarray(self.table @ tables.reshape(len(tables), -1).T)


@dataclass(frozen=True, eq=False, kw_only=True)
class Kinds:
    """Where EM stands: what each kind wants, and which unit is of which.

    Attributes:
        fits: one per kind; None for a kind that wants nothing and acts at random.
        shares: [T] of the units.
        membership: [U, T] chances that each unit is of each kind, under these fits.
        trace: log-likelihood of all actions less the penalties, round after round; the last is that
            of the fits.
        converged: whether the gain was down to the tolerance.
        given: whether the shares are known.
    """

    fits: tuple[Fit | None, ...]
    shares: np.ndarray
    membership: np.ndarray
    trace: tuple[float, ...]
    converged: bool
    given: bool = False

    @property
    def experts(self) -> tuple[Fit, ...]:
        """The fits of the kinds that want something, which come first."""
        return tuple(one for one in self.fits if one is not None)

    @property
    def log_likelihood(self) -> float:
        """Of all actions."""
        return self.trace[-1] + _penalty(self.experts)

    @property
    def degrees(self) -> int:
        """How many shares are free."""
        return 0 if self.given else len(self.fits) - 1

    def sorted(self) -> Kinds:
        """The same, the most frequent kind first."""
        order = np.argsort(-self.shares, kind="stable")
        return replace(
            self,
            fits=tuple(self.fits[k] for k in order),
            shares=self.shares[order],
            membership=self.membership[:, order],
        )


def single_kind(units: Units, pooled: Fit) -> Kinds:
    """The fit of all units together, as the only kind."""
    return Kinds(
        fits=(pooled,),
        shares=np.ones(1),
        membership=np.ones((len(units), 1)),
        trace=(-pooled.loss,),
        converged=pooled.converged,
    )


def random_policy(steps: StepsChain) -> np.ndarray:
    """[S, A] every available action as likely."""
    choices = steps.mdp.choices
    return choices / choices.sum(axis=1, keepdims=True)


def log_chances(units: Units, fits: Sequence[Fit | None], shares: np.ndarray) -> np.ndarray:
    """[U, T] logarithms of the chances of each unit and kind; what underflows is the smallest."""
    tiny, idle = np.finfo(np.float64).tiny, random_policy(units.whole)
    policies = np.stack([idle if one is None else one.parts[0].policy for one in fits])
    return units.sums(np.log(np.maximum(policies, tiny))) + np.log(np.maximum(shares, tiny))


def expectation(
    units: Units, fits: Sequence[Fit | None], shares: np.ndarray
) -> tuple[np.ndarray, float]:
    """[U, T] chances that each unit is of each kind, and the log-likelihood of all."""
    from scipy.special import logsumexp

    each = log_chances(units, fits, shares)
    total = np.asarray(logsumexp(each, axis=1))
    return np.exp(each - total[:, None]), float(units.repeats @ total)


def climb(
    units: Units,
    options: Search,
    begin: Kinds,
    *,
    rounds: int,
    tolerance: float,
    shared: bool = False,
    upper: Sequence[np.ndarray] | None = None,
) -> Kinds:
    """The kinds after EM from `begin`: at rest, or after so many rounds.

    Args:
        units: what is of one kind.
        options: of the fit of one kind.
        begin: chances of the units, and fits to search from.
        rounds: most rounds.
        tolerance: gain (nats) still to come, by the rate of the last rounds, that ends the search.
        shared: whether the kinds share weights and prices and differ in their noise alone.
        upper: one [D] per kind that wants something, the largest parameters allowed; none by
            default.
    """
    fits, shares, chances = begin.experts, begin.shares, begin.membership
    idle, tops = (None,) * (len(begin.fits) - len(fits)), upper or (None,) * len(fits)
    trace, before, converged = list(begin.trace), np.inf, False
    for _ in range(rounds):
        if not begin.given:
            shares = _shares(units.repeats @ chances, len(fits))
        parts = units.parts(chances)[: len(fits)]
        if shared:
            fits = scaled_fits(parts, options, fits)
        else:
            pairs = zip(parts, fits, tops, strict=True)
            fits = tuple(maximum(part, options, near=near, upper=top) for part, near, top in pairs)
        chances, likely = expectation(units, (*fits, *idle), shares)
        likely -= _penalty(fits)
        gain = likely - trace[-1] if trace else np.inf
        trace.append(likely)
        rest = gain * gain / (before - gain) if before > gain else np.inf
        if max(gain, rest) <= tolerance:
            converged = True
            break
        before = gain
    return Kinds(
        fits=(*fits, *idle),
        shares=shares,
        membership=chances,
        trace=tuple(trace),
        converged=converged,
        given=begin.given,
    )


def _shares(sizes: np.ndarray, experts: int) -> np.ndarray:
    """[T] shares of kinds of these sizes [T]; those of the first, who want something, are some."""
    shares = sizes / sizes.sum()
    least = (1.0 - MOST) * (experts < len(sizes))
    wanting = max(float(shares[:experts].sum()), 1e-300)
    if wanting < least:
        shares[:experts] *= least / wanting
        shares[experts:] *= (1.0 - least) / shares[experts:].sum()
    return shares


def _penalty(fits: Sequence[Fit]) -> float:
    """What the ridges of these fits take off the log-likelihood."""
    return sum(0.5 * one.problem.chains[0].ridge * float(one.z @ one.z) for one in fits)


def observed_information(units: Units, kinds: Kinds) -> tuple[np.ndarray, np.ndarray]:
    """[n, n] about the parameters of all kinds, then logits of shares, and [n] bool, the free.

    By Louis (1982): the information of the complete data less the covariance, given what was seen,
    of its scores. Of single steps it is the expected one: what they might have been is known.
    """
    space, experts = units.whole.space, kinds.experts
    many, first = len(kinds.fits), len(experts) * space.size
    repeats = units.expected(kinds) if units.cells else units.repeats
    parts = replace(units, repeats=repeats).parts(kinds.membership)
    complete = np.zeros((first + many - 1, first + many - 1))
    shares = np.diag(kinds.shares) - np.outer(kinds.shares, kinds.shares)
    complete[first:, first:] = repeats.sum() * shares[:-1, :-1]
    scores = np.zeros((many, len(units), len(complete)))
    scores[:, :, first:] = (np.eye(many) - kinds.shares)[:, None, :-1]
    for k, one in enumerate(experts):
        own, table = slice(k * space.size, (k + 1) * space.size), parts[k].scores(one.parts[0])
        scores[k, :, own] = units.sums(table)
        complete[own, own] = information(table, one.parts[0].policy, parts[k].visits)
        complete[own, own] += one.problem.chains[0].ridge * np.eye(space.size)
    chances = kinds.membership.T
    scores -= (chances[:, :, None] * scores).sum(axis=0)
    for apart, chance in zip(scores, chances, strict=True):
        complete -= weighted_products(apart.T, repeats * chance)
    free = [*(one.free for one in experts), np.full(many - 1, not kinds.given)]
    return complete, np.concatenate(free)


def lost_information(units: Units, kinds: Kinds) -> tuple[list[np.ndarray], np.ndarray]:
    """One [D, D] per kind, information that not knowing the memberships takes, and [T] errors.

    Of the observed information the part is lost that the other kinds and the shares could imitate.
    The errors are the standard errors of the shares.
    """
    space = units.whole.space
    full, free = observed_information(units, kinds)
    size, last = space.size, slice(len(kinds.experts) * space.size, None)
    lost = []
    for k, (one, part) in enumerate(
        zip(kinds.experts, units.parts(kinds.membership), strict=False)
    ):
        own = slice(k * size, (k + 1) * size)
        scores = part.scores(one.parts[0])
        complete = information(scores, one.parts[0].policy, part.visits)
        complete += one.problem.chains[0].ridge * np.eye(size)
        others = free.copy()
        others[own] = False
        inverse, _ = inverse_information(full, others)
        left = full[own, own] - full[own] @ inverse @ full[:, own]
        lost.append(complete - 0.5 * (left + left.T))
    inverse, blind = inverse_information(full, free)
    # The shares move with their logarithms relative to the last one's.
    slope = (np.diag(kinds.shares) - np.outer(kinds.shares, kinds.shares))[:, :-1]
    spread = np.sqrt(np.maximum(np.diagonal(slope @ inverse[last, last] @ slope.T), 0.0))
    if np.abs(blind[:, last]).max(initial=0.0) > 1e-5:
        spread[:] = np.inf
    return lost, spread


def search(
    units: Units,
    options: Search,
    pooled: Fit,
    types: int,
    *,
    starts: int,
    rounds: int,
    tolerance: float,
    seed: int,
    shared: bool = False,
) -> Kinds:
    """The likeliest so many types found from several starts, the most frequent first.

    Half of the starts group trajectories by their scores, half deal them out at random; each gets a
    few rounds, and the best goes on.

    Args:
        units: the trajectories.
        options: of the fit of one type.
        pooled: the fit of all trajectories together.
        types: how many.
        starts: how many.
        rounds: most rounds of the one that goes on.
        tolerance: as in `climb`.
        seed: of the starts.
        shared: as in `climb`.
    """
    if types == 1:
        return single_kind(units, pooled)
    rng = np.random.default_rng(seed)
    directions = trajectory_directions(units, pooled)
    best = None
    for number in range(starts):
        if number % 2:
            member = rng.permutation(np.arange(len(units)) % types)
        else:
            member = k_means(rng, directions, types)
        # Nobody is certain at the start: a trajectory dealt out wrongly must be able to leave.
        chances = np.full((len(units), types), 0.2 / types)
        chances[np.arange(len(units)), member] += 0.8
        begin = Kinds(
            fits=(pooled,) * types,
            shares=chances.mean(axis=0),
            membership=chances,
            trace=(),
            converged=False,
        )
        found = climb(
            units, options, begin, rounds=min(SHORT, rounds), tolerance=ROUGH, shared=shared
        )
        if best is None or found.log_likelihood > best.log_likelihood:
            best = found
    assert best is not None  # there is a start
    left = max(rounds - len(best.trace), 1)
    return climb(units, options, best, rounds=left, tolerance=tolerance, shared=shared).sorted()


def trajectory_directions(units: Units, pooled: Fit) -> np.ndarray:
    """[E, n] scores of the trajectories in the fit of all, in units of their chance variation."""
    space = units.whole.space
    scores = units.whole.scores(pooled.parts[0])
    fisher = information(scores, pooled.parts[0].policy, units.whole.visits)
    covariance, _ = inverse_information(fisher, np.ones(space.size, bool))
    lengths = np.asarray(units.table.sum(axis=1)).reshape(-1, 1)
    # A score grows like the square root of the length if all is chance: one scale for all lengths.
    return units.sums(scores) @ covariance_root(covariance) * np.sqrt(lengths.sum() / lengths)


def k_means(rng: np.random.Generator, points: np.ndarray, groups: int) -> np.ndarray:
    """[E] group of each of the points [E, n], by k-means from k-means++ seeds."""
    centres = points[rng.integers(len(points))][None]
    while len(centres) < groups:
        far = ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
        chance = far / far.sum() if far.sum() > 0 else None
        centres = np.concatenate([centres, points[rng.choice(len(points), p=chance)][None]])
    member = np.zeros(len(points), np.int64)
    for _ in range(LLOYD):
        member = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        kept = [points[member == g] for g in range(groups)]
        moved = np.stack(
            [k.mean(axis=0) if len(k) else c for k, c in zip(kept, centres, strict=True)]
        )
        if np.allclose(moved, centres):
            break
        centres = moved
    return member


def scaled_fits(
    parts: Sequence[StepsChain], options: Search, near: Sequence[Fit]
) -> tuple[Fit, ...]:
    """Fits with one direction of the parameters, each part at its own length, from fits nearby."""
    sizes = np.array([np.abs(one.z).sum() for one in near])
    lengths = sizes / sizes[0] if sizes.min() > 0 else np.ones(len(sizes))
    whole = one_direction(parts, near[0].problem, near[0].z, lengths[1:], max_steps=4)
    pairs = zip(
        near, whole.problem.chains, whole.parts, whole.problem.parameters(whole.z), strict=True
    )
    return tuple(
        Fit.of(one.problem.with_chains([chain]), x, [part], whole.steps, one.tolerance)
        for one, chain, part, x in pairs
    )


def one_direction(
    chains: Sequence[Any],
    like: LikelihoodProblem,
    x: np.ndarray,
    lengths: np.ndarray | None = None,
    *,
    max_steps: int = 200,
) -> Fit:
    """The fit of chains with one direction of the parameters, each at its own length.

    Args:
        chains: of one space.
        like: a problem with the bounds of the first chain.
        x: [D] parameters of the first chain, to begin from.
        lengths: [G - 1] the others' lengths, to begin from; 1 by default.
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
    start = np.concatenate([x, np.ones(others) if lengths is None else lengths])
    return problem.minimum(start, tolerance=LIKENED, max_steps=max_steps)


def trajectory_p_value(units: Units, base: Fit, *, seed: int = 0) -> float:
    """Chance that trajectories of one type scatter as much as these; NaN where they are too many.

    The scatter of their scores in units of the information; its law by actions redrawn at the
    visited states, each draw corrected by one score step instead of a refit.
    """
    whole = units.whole
    if whole.counts.sum() > LARGEST:
        return np.nan
    policy, actions = np.asarray(base.parts[0].policy), whole.mdp.actions
    scores = whole.scores(base.parts[0])[base.free]
    fisher = information(scores, policy, whole.visits)
    inverse, _ = inverse_information(fisher, np.ones(len(scores), bool))
    own = units.table.tocoo()
    # One row a step: its trajectory and its state.
    often = own.data.astype(np.int64)
    row, state = np.repeat(own.row, often), np.repeat(own.col // actions, often)
    visits = np.zeros((len(units), whole.mdp.states))
    np.add.at(visits, (row, state), 1.0)
    per_state = np.einsum("dsa,esa,sa->sde", scores, scores, policy)
    each = np.tensordot(visits, per_state, 1)  # [E, D, D] information of every trajectory

    def scatter(sums: np.ndarray) -> float:
        left = sums - each @ (inverse @ sums.sum(axis=0))
        return float(np.einsum("ed,df,ef->", left, inverse, left))

    rng, edges = np.random.default_rng(seed), np.cumsum(policy, axis=1)[state]
    observed, larger = scatter(units.sums(scores)), 0
    for _ in range(DRAWS):
        drawn = (rng.random(len(state))[:, None] > edges[:, :-1]).sum(axis=1)
        sums = np.zeros((len(units), len(scores)))
        np.add.at(sums, row, scores[:, state, drawn].T)
        larger += scatter(sums) >= observed
    return (1.0 + larger) / (1.0 + DRAWS)
