"""Rows of counted dynamics: how far they may be from the truth, and what that does to numbers.

A row (state, action) that was seen C times has the estimate P and the variance, of P . f for a
function f of the next state,

    [C Var_P(f) + 2 Var_pool(f)] / (C + 2) / (n + 1) + (shrinkage)^2,

with n its steps and pseudo-count. Few steps make a row look surer than it is, so the pool of all
steps out of the state counts as two more. The shrinkage is what the pseudo-count moved P . f by.
Rows are independent of each other (delta method): a number's variance is a sum over rows, each with
the number's derivative in the chances of that row. Numbers of several chains that were counted from
the same steps add their derivatives first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from tacit.dynamics import Source
from tacit.dynamics.numbering import action_marks, state_marks, successor_order
from tacit.engine.backends import DENSE_LIMIT, side_by_side
from tacit.engine.kernels.chains import chain_solve, policy_chain
from tacit.model.mdp import MDP
from tacit.model.pseudo_counts import Over
from tacit.model.transitions import Successors

# Steps that the pool of a state counts as in each of its rows.
POOL_STEPS = 2.0
# Most array entries handled at once: what stays in the cache.
ENTRIES_AT_ONCE = 1_000_000
# Pairs of drawn worlds with opposite errors, and those of a world with more rows than `FEW_ROWS`.
PAIRS, FEW_PAIRS, FEW_ROWS = 20, 5, 5000
# Digits of a policy that do not depend on where a search ended.
POLICY_DIGITS = 6


@dataclass(frozen=True, eq=False, kw_only=True)
class RowOrder:
    """An order of rows and their next states, to which draws are attached instead of to numbers.

    Attributes:
        states: [S] the states in order.
        actions: [S, A] the actions of each state in order.
        following: [S, B] the places of its next states in order.
        slots: how many places there are, those without a next state among them.
    """

    states: np.ndarray
    actions: np.ndarray
    following: np.ndarray
    slots: int

    def of_rows(self, random: np.random.Generator) -> np.ndarray:
        """[S, A] normal numbers, one a row."""
        numbers = np.empty(self.actions.shape)
        places = self.states[:, None], self.actions[self.states]
        numbers[places] = random.standard_normal(numbers.shape)
        return numbers

    def of_next_states(self, random: np.random.Generator) -> np.ndarray:
        """[S, A, W] normal numbers, one for each next state of a row; 0 where there is none."""
        numbers = np.zeros((*self.actions.shape, self.slots))
        actions, following = self.actions[self.states], self.following[self.states]
        places = self.states[:, None, None], actions[..., None], following[:, None]
        numbers[places] = random.standard_normal((*actions.shape, following.shape[1]))
        return numbers


@dataclass(frozen=True, eq=False)
class CountedRows:
    """Counted chances and their errors; of each state, on its possible next states, W at most.

    Attributes:
        mdp: the world as estimated.
        states: [S, W] next states of any action; padded with chances of 0.
        chances: [S, A, W] the estimate.
        pool: [S, W] the estimate from all steps out of the state, whatever the action.
        shrinkage: [S, A, W] what the pseudo-count moved the chances by.
        row_weight: [S, A] weight of a row's own variance; 0 where it is known for certain.
        pool_weight: [S, A] weight of the pool's variance.
        counts: [S, W] steps out of the state that were seen to lead there.
    """

    mdp: MDP
    _: KW_ONLY
    states: np.ndarray
    chances: np.ndarray
    pool: np.ndarray
    shrinkage: np.ndarray
    row_weight: np.ndarray
    pool_weight: np.ndarray
    counts: np.ndarray

    description = "counted"

    @classmethod
    def of(cls, mdp: MDP) -> CountedRows | None:
        """The rows of a world; None where its dynamics are known."""
        if mdp.evidence is None:
            return None
        prior, visits = mdp.evidence.prior, mdp.evidence.visits
        uncertain = np.isfinite(mdp.evidence.concentration)
        states, chances = _by_next_state(mdp)
        steps = np.where(uncertain, mdp.evidence.concentration, 0.0)
        total = steps.sum(axis=1, keepdims=True)
        shares = np.where(total > 0, steps / np.where(total > 0, total, 1.0), 1.0 / mdp.actions)
        # Without a prior a row's own variance is believed.
        pool_steps = POOL_STEPS * max(min(prior.strength, 1.0), 1e-9)
        weight = np.where(uncertain, 1.0 / (visits + pool_steps) / (steps + 1.0), 0.0)
        added = prior.strength * (_prior_chances(mdp, states, chances) - chances)
        added = added * (uncertain & (visits > 0))[..., None]
        counts = (visits * uncertain)[..., None] * chances - added
        return cls(
            mdp,
            states=states,
            chances=chances,
            pool=(shares[..., None] * chances).sum(axis=1),
            shrinkage=added / np.maximum(visits, 1.0)[..., None],
            row_weight=visits * weight,
            pool_weight=pool_steps * weight,
            counts=counts.sum(axis=1),
        )

    def unseen_share(self, visits: np.ndarray) -> float:
        """Share of the steps from states, visited [S] times, to next states never seen there.

        Good-Turing estimate: the share of steps to next states that were seen exactly once. States
        that are known for certain, or were never left, are left out.
        """
        steps = self.counts.sum(axis=1)
        seen_once = (np.abs(self.counts - 1.0) < 1e-6).sum(axis=1)
        share = seen_once / np.where(steps > 0, steps, 1.0)
        weights = np.where(steps > 0, visits, 0.0)
        return float(weights @ share / weights.sum()) if weights.sum() > 0 else 0.0

    def same_steps(self, other: Source | None) -> bool:
        """Whether both were counted from the same steps."""
        if not isinstance(other, CountedRows):
            return False
        one, two = self.mdp, other.mdp
        assert one.evidence is not None
        assert two.evidence is not None
        pairs = [
            (one.evidence.visits, two.evidence.visits),
            (one.transitions.states, two.transitions.states),
            (one.transitions.probabilities, two.transitions.probabilities),
        ]
        return all(np.array_equal(*pair) for pair in pairs)

    def joint_covariance(self, influences: Sequence[ChainSlopes]) -> np.ndarray:
        """[m, m] covariance of the numbers of several chains, whose derivatives are stacked."""
        return self.covariance(
            lambda block: np.concatenate([one.at(self, block) for one in influences], axis=-1)
        )

    def covariance(self, slopes: Callable[[slice], np.ndarray]) -> np.ndarray:
        """[m, m] covariance of m numbers; `slopes` of B states -> [B, A, W, m] derivatives.

        A block of states at once, it adds up the formula of this module: second moments less
        squared means, of the row and of the pool, and squared shrinkage.
        """
        size, actions, width = self.chances.shape
        count = slopes(slice(0, 1)).shape[-1]
        covariance = np.zeros((count, count))
        length = max(1, ENTRIES_AT_ONCE // max(actions * width * count, 1))
        for begin in range(0, size, length):
            block = slice(begin, min(begin + length, size))
            f = slopes(block)
            flat = f.reshape(-1, count)
            row_weight, pool_weight = self.row_weight[block], self.pool_weight[block]
            chances, pool = self.chances[block], self.pool[block]
            weights = row_weight[..., None] * chances + pool_weight[..., None] * pool[:, None]
            row_mean = np.einsum("saw,sawn->san", chances, f).reshape(-1, count)
            pool_mean = np.einsum("sw,sawn->san", pool, f).reshape(-1, count)
            shrinkage = np.einsum("saw,sawn->san", self.shrinkage[block], f).reshape(-1, count)
            covariance += (flat * weights.reshape(-1, 1)).T @ flat + shrinkage.T @ shrinkage
            covariance -= (row_mean * row_weight.reshape(-1, 1)).T @ row_mean
            covariance -= (pool_mean * pool_weight.reshape(-1, 1)).T @ pool_mean
        return covariance

    def errors(self, random: np.random.Generator, order: RowOrder) -> np.ndarray:
        """[S, A, W] errors of the chances, drawn from their law; rows sum to 0."""
        row = np.sqrt(self.row_weight[..., None] * self.chances) * order.of_next_states(random)
        row -= self.chances * row.sum(axis=2, keepdims=True)
        pool = np.sqrt(self.pool_weight[..., None] * self.pool[:, None])
        pool = pool * order.of_next_states(random)
        pool -= self.pool[:, None] * pool.sum(axis=2, keepdims=True)
        return row + pool + self.shrinkage * order.of_rows(random)[..., None]

    def order(self, policy: np.ndarray) -> RowOrder:
        """An order of the rows that depends on no numbers; equal ones by the policy [S, A]."""
        marks, chances = state_marks(self.mdp), self.chances.max(axis=1)
        policy = np.round(policy, POLICY_DIGITS)
        most = int((chances > 0).sum(axis=1).max())
        concentration, weights = (policy**2).sum(axis=1), self.row_weight
        return RowOrder(
            states=np.lexsort([concentration, weights.sum(axis=1), marks]),
            actions=np.lexsort([policy, weights, action_marks(self.mdp, marks)], axis=1),
            following=successor_order(self.states, chances, marks)[:, :most],
            slots=self.states.shape[1],
        )

    def drawn_worlds(self, seed: int, policy: np.ndarray) -> Iterator[MDP]:
        """Worlds drawn around the estimate, each followed by the one with opposite errors."""
        random, mdp, order = np.random.default_rng(seed), self.mdp, self.order(policy)
        states = np.broadcast_to(self.states[:, None], self.chances.shape)
        for _ in range(PAIRS if self.row_weight.size <= FEW_ROWS else FEW_PAIRS):
            error = self.errors(random, order)
            for sign in (1.0, -1.0):
                chances = np.maximum(self.chances + sign * error, 0.0)
                total = chances.sum(axis=2, keepdims=True)
                moves = Successors(states, chances / np.where(total > 0, total, 1.0))
                yield MDP(moves, mdp.initial, mdp.discount, available=mdp.available)


def _by_next_state(mdp: MDP) -> tuple[np.ndarray, np.ndarray]:
    """([S, W] the next states of any action, [S, A, W] chances of them)."""
    moves, size = mdp.transitions, mdp.states
    pairs = np.arange(size)[:, None, None] * size + moves.states  # a state and its next, as one
    distinct, place = np.unique(pairs, return_inverse=True)
    begins = np.searchsorted(distinct, np.arange(size) * size)
    slots = place.reshape(pairs.shape) - begins[:, None, None]
    origins, next_states = np.divmod(distinct, size)
    states = np.zeros((size, int(slots.max()) + 1), np.int64)
    states[origins, np.arange(len(distinct)) - begins[origins]] = next_states
    chances = np.zeros((size, mdp.actions, states.shape[1]))
    s, a = np.ogrid[:size, : mdp.actions]
    np.add.at(chances, (s[..., None], a[..., None], slots), moves.probabilities)
    return states, chances


def _prior_chances(mdp: MDP, states: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """[S, A, W] the prior of every row on the next states."""
    assert mdp.evidence is not None
    possible = chances.any(axis=1)
    if mdp.evidence.prior.over is Over.STAY:
        possible &= states == np.arange(mdp.states)[:, None]
    uniform = possible / np.maximum(possible.sum(axis=1, keepdims=True), 1)
    return np.broadcast_to(uniform[:, None], chances.shape)


class ChainSlopes(NamedTuple):
    """Derivatives of m numbers in the chances P of rows, of one policy's chain.

    They move by the sum over (s, a) of dP(s, a) . [by_policy(s, a) values + flow(s, a) tables].
    """

    by_policy: np.ndarray  # [m, S, A]
    values: np.ndarray  # [S]
    flow: np.ndarray  # [S, A]
    tables: np.ndarray  # [m, S]

    def at(self, rows: CountedRows, block: slice) -> np.ndarray:
        """[B, A, W, m] the derivatives in the chances of a block of states."""
        states = rows.states[block]
        by_policy = np.moveaxis(self.by_policy[:, block], 0, -1)[:, :, None]
        by_policy = by_policy * self.values[states][:, None, :, None]
        return by_policy + self.flow[block][:, :, None, None] * self.tables.T[states][:, None]


def chain_slopes(
    mdp: MDP,
    *,
    policy: np.ndarray,
    scores: np.ndarray,
    values: np.ndarray,
    tables: np.ndarray,
    visits: np.ndarray,
    counts: np.ndarray | None = None,
) -> ChainSlopes:
    """Derivatives, in the chances of rows, of feature sums or of the scores of counted steps.

    Sums of features over visits of the policy, at fixed parameters, move with the policy and with
    where its steps lead. The scores of steps are their own feature sums less the expected ones.

    Args:
        mdp: the world.
        policy: [S, A] of the fit.
        scores: [m, S, A] of a step: features and all that follow, less the average.
        values: [S] soft values.
        tables: [m, S] expected sums of the features from each state.
        visits: [S] of the policy, from where the sums begin.
        counts: [S, A] steps whose scores are meant; None for the sums.
    """
    discount, flow = mdp.discount, visits[:, None] * policy
    weighted = flow * scores
    inflow = np.stack([mdp.inflow(one) for one in weighted]) if len(scores) else weighted[:, :, 0]
    later_visits = chain_values(mdp, policy, discount * inflow, transposed=True)
    by_policy = discount * (weighted + policy * later_visits[:, :, None])
    if counts is None:
        return ChainSlopes(by_policy, values, discount * flow, tables)
    return ChainSlopes(-by_policy, values, discount * (counts - flow), tables)


def chain_values(
    mdp: MDP, policy: np.ndarray, right: np.ndarray, *, transposed: bool = False
) -> np.ndarray:
    """[m, S] values of the policy's chain, of gains [m, S]; transposed, visits from starts."""
    if mdp.states > DENSE_LIMIT:
        chain = policy_chain(mdp, policy)
        return chain_solve(mdp, *chain, right, transposed=transposed, several=side_by_side)
    rows, weights = policy_chain(mdp, policy)
    system = np.eye(mdp.states)
    np.add.at(system, (np.arange(mdp.states)[:, None], rows), -mdp.discount * weights)
    return np.linalg.solve(system.T if transposed else system, right.T).T


def moved_policies(
    rows: CountedRows, policy: np.ndarray, values: np.ndarray, *, draws: int, seed: int
) -> np.ndarray:
    """[draws, S, A] first-order effect of drawn errors of the rows on the log of a policy."""
    mdp, random, order = rows.mdp, np.random.default_rng(seed), rows.order(policy)
    next_values = values[rows.states][:, None]
    moved = np.empty((draws, *policy.shape))  # action values, then log chances
    for i in range(draws):
        moved[i] = mdp.discount * (rows.errors(random, order) * next_values).sum(axis=2)
    moved_values = chain_values(mdp, policy, (policy * moved).sum(axis=2))
    for i, value in enumerate(moved_values):
        moved[i] += mdp.discount * mdp.expected_next(value) - value[:, None]
    return np.where(policy > 0, moved, 0.0)
