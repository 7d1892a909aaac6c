"""Rows of counted dynamics: how far they may be from the truth, and what that does to numbers.

A row (state, action) that was seen C times has the estimate P and the variance, of P . f for a
function f of the next state,

    [C Var_P(f) + 2 Var_pool(f)] / (C + 2) / (n + 1) + (pull)^2,

with n its steps and pseudo-count. Few steps make a row look surer than it is: the pool, of all
steps out of the state, speaks for two more. The pull is what the pseudo-count moved the row by.
Rows are independent of each other, so that a number's variance is a sum over rows, each with the
number's slopes in the chances of that row; numbers of several chains with one source of counts
add their slopes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from tacit.dynamics.numbering import action_marks, state_marks, successor_order
from tacit.engine.backends import DENSE_LIMIT, side_by_side
from tacit.engine.kernels.chains import chain_solve, policy_chain
from tacit.model.mdp import MDP
from tacit.model.pseudo_counts import Over
from tacit.model.transitions import Successors

# Steps that the pool of a state speaks for in each of its rows.
POOLED = 2.0
# Numbers in one go: what stays in the cache.
AT_ONCE = 1_000_000
# Pairs of worlds with opposite errors, and those of a world with more rows than `SMALL`.
PAIRS, FEW_PAIRS, SMALL = 20, 5, 5000
# Digits of a policy that a search leaves no doubt of.
LIKELY = 6


@dataclass(frozen=True, eq=False, kw_only=True)
class RowOrder:
    """An order of rows and their next states, to which draws are attached instead of to numbers.

    Attributes:
        states: [S] the states in order.
        actions: [S, A] the actions of each state.
        following: [S, B] the places of its next states.
        slots: how many places there are, those without a next state among them.
    """

    states: np.ndarray
    actions: np.ndarray
    following: np.ndarray
    slots: int

    def of_rows(self, random: np.random.Generator) -> np.ndarray:
        """[S, A] normal numbers, one a row."""
        found = np.empty(self.actions.shape)
        places = self.states[:, None], self.actions[self.states]
        found[places] = random.standard_normal(found.shape)
        return found

    def of_next_states(self, random: np.random.Generator) -> np.ndarray:
        """[S, A, W] normal numbers, one for each next state of a row; 0 where there is none."""
        found = np.zeros((*self.actions.shape, self.slots))
        actions, following = self.actions[self.states], self.following[self.states]
        places = self.states[:, None, None], actions[..., None], following[:, None]
        found[places] = random.standard_normal((*actions.shape, following.shape[1]))
        return found


@dataclass(frozen=True, eq=False)
class CountedRows:
    """The rows of counted dynamics on the next states that their state can have, W at most.

    Attributes:
        mdp: the world as estimated.
        states: [S, W] next states of any action; padded with chances of 0.
        chances: [S, A, W] the estimate.
        pool: [S, W] the same of all steps out of the state.
        pull: [S, A, W] what the pseudo-count moved the chances by.
        own: [S, A] weight of a row's own variance; 0 where it is known for certain.
        pooled: [S, A] weight of the pool's.
        counts: [S, W] steps out of the state that were seen to lead there.
    """

    mdp: MDP
    _: KW_ONLY
    states: np.ndarray
    chances: np.ndarray
    pool: np.ndarray
    pull: np.ndarray
    own: np.ndarray
    pooled: np.ndarray
    counts: np.ndarray

    made = "counted"

    @classmethod
    def of(cls, mdp: MDP) -> CountedRows | None:
        """The rows of a world; None where its dynamics are known."""
        if mdp.evidence is None:
            return None
        behind, prior = mdp.evidence.concentration, mdp.evidence.prior
        uncertain, seen = np.isfinite(behind), mdp.evidence.visits
        moves, size = mdp.transitions, mdp.states
        keys = np.arange(size)[:, None, None] * size + moves.states
        distinct, place = np.unique(keys, return_inverse=True)
        begins = np.searchsorted(distinct, np.arange(size) * size)
        slots = place.reshape(keys.shape) - begins[:, None, None]
        states = np.zeros((size, int(slots.max()) + 1), np.int64)
        states[distinct // size, np.arange(len(distinct)) - begins[distinct // size]] = (
            distinct % size
        )
        chances = np.zeros((size, mdp.actions, states.shape[1]))
        s, a = np.ogrid[:size, : mdp.actions]
        np.add.at(chances, (s[..., None], a[..., None], slots), moves.probabilities)
        steps = np.where(uncertain, behind, 0.0)
        total = steps.sum(axis=1, keepdims=True)
        shares = np.where(total > 0, steps / np.where(total > 0, total, 1.0), 1.0 / mdp.actions)
        weight = POOLED * max(min(prior.strength, 1.0), 1e-9)  # without a prior rows are believed
        spread = np.where(uncertain, 1.0 / (seen + weight) / (steps + 1.0), 0.0)
        apart = _guess(mdp, states, chances) - chances
        apart = prior.strength * apart * (uncertain & (seen > 0))[..., None]
        counts = (seen * uncertain)[..., None] * chances - apart
        return cls(
            mdp,
            states=states,
            chances=chances,
            pool=(shares[..., None] * chances).sum(axis=1),
            pull=apart / np.maximum(seen, 1.0)[..., None],
            own=seen * spread,
            pooled=weight * spread,
            counts=counts.sum(axis=1),
        )

    def unseen(self, visits: np.ndarray) -> float:
        """Share of steps, from states visited [S] so often, to next states never seen there.

        By Good and Turing about as many as led to a state that was seen to follow once. States
        that are known for certain, or were never left, are not asked.
        """
        steps = self.counts.sum(axis=1)
        once = (np.abs(self.counts - 1.0) < 1e-6).sum(axis=1)
        asked = np.where(steps > 0, visits, 0.0)
        share = once / np.where(steps > 0, steps, 1.0)
        return float(asked @ share / asked.sum()) if asked.sum() > 0 else 0.0

    def same(self, other: object) -> bool:
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

    def covariance_of(self, slopes: Sequence[ChainSlopes]) -> np.ndarray:
        """[m, m] covariance of the numbers of several chains, one after the other."""
        return self.covariance(
            lambda part: np.concatenate([one.at(self, part) for one in slopes], axis=-1)
        )

    def covariance(self, slopes: Callable[[slice], np.ndarray]) -> np.ndarray:
        """[n, n] covariance of numbers; some states -> [B, A, W, n] slopes in their chances."""
        size, actions, width = self.chances.shape
        count = slopes(slice(0, 1)).shape[-1]
        found = np.zeros((count, count))
        block = max(1, AT_ONCE // max(actions * width * count, 1))
        for begin in range(0, size, block):
            part = slice(begin, min(begin + block, size))
            f = slopes(part)
            flat = f.reshape(-1, count)
            weights = self.own[part, :, None] * self.chances[part]
            weights = weights + self.pooled[part, :, None] * self.pool[part, None]
            mean = np.einsum("saw,sawn->san", self.chances[part], f).reshape(-1, count)
            pooled = np.einsum("sw,sawn->san", self.pool[part], f).reshape(-1, count)
            moved = np.einsum("saw,sawn->san", self.pull[part], f).reshape(-1, count)
            found += (flat * weights.reshape(-1, 1)).T @ flat + moved.T @ moved
            found -= (mean * self.own[part].reshape(-1, 1)).T @ mean
            found -= (pooled * self.pooled[part].reshape(-1, 1)).T @ pooled
        return found

    def errors(self, random: np.random.Generator, order: RowOrder) -> np.ndarray:
        """[S, A, W] errors of the chances, drawn from their law; rows sum to 0."""
        own = np.sqrt(self.own[..., None] * self.chances) * order.of_next_states(random)
        own -= self.chances * own.sum(axis=2, keepdims=True)
        noise = np.sqrt(self.pooled[..., None] * self.pool[:, None])
        noise = noise * order.of_next_states(random)
        noise -= self.pool[:, None] * noise.sum(axis=2, keepdims=True)
        return own + noise + self.pull * order.of_rows(random)[..., None]

    def order(self, policy: np.ndarray) -> RowOrder:
        """An order of the rows that hangs on no numbers; a policy [S, A] tells equal ones apart."""
        marks, chances = state_marks(self.mdp), self.chances.max(axis=1)
        likely, most = np.round(policy, LIKELY), int((chances > 0).sum(axis=1).max())
        return RowOrder(
            states=np.lexsort([(likely**2).sum(axis=1), self.own.sum(axis=1), marks]),
            actions=np.lexsort([likely, self.own, action_marks(self.mdp, marks)], axis=1),
            following=successor_order(self.states, chances, marks)[:, :most],
            slots=self.states.shape[1],
        )

    def worlds(self, seed: int, policy: np.ndarray) -> Iterator[MDP]:
        """Worlds drawn around the estimate, each followed by the one with opposite errors."""
        many = PAIRS if self.own.size <= SMALL else FEW_PAIRS
        random, mdp, order = np.random.default_rng(seed), self.mdp, self.order(policy)
        states = np.broadcast_to(self.states[:, None], self.chances.shape)
        for _ in range(many):
            error = self.errors(random, order)
            for sign in (1.0, -1.0):
                chances = np.maximum(self.chances + sign * error, 0.0)
                total = chances.sum(axis=2, keepdims=True)
                moves = Successors(states, chances / np.where(total > 0, total, 1.0))
                yield MDP(moves, mdp.initial, mdp.discount, available=mdp.available)


def _guess(mdp: MDP, states: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """[S, A, W] the prior of every row on the next states."""
    assert mdp.evidence is not None
    prior, size = mdp.evidence.prior, mdp.states
    there = chances.any(axis=1)
    if prior.over is Over.STAY:
        there &= states == np.arange(size)[:, None]
    each = there / np.maximum(there.sum(axis=1, keepdims=True), 1)
    return np.broadcast_to(each[:, None], chances.shape)


class ChainSlopes(NamedTuple):
    """Slopes of numbers in the chances of rows, of one policy's chain.

    A number moves by sum_sa dP(s, a) . [along(s, a) values + own(s, a) tables].
    """

    along: np.ndarray  # [n, S, A]
    values: np.ndarray  # [S]
    own: np.ndarray  # [S, A]
    tables: np.ndarray  # [n, S]

    def at(self, rows: CountedRows, part: slice) -> np.ndarray:
        """[B, A, W, n] the slopes of some of the states."""
        states = rows.states[part]
        found = (
            np.moveaxis(self.along[:, part], 0, -1)[:, :, None]
            * self.values[states][:, None, :, None]
        )
        return found + self.own[part][:, :, None, None] * self.tables.T[states][:, None]


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
    """The slopes of sums of features, or of the scores of counted steps, in the chances of rows.

    Sums of features over visits that follow the policy, weights given, move with the policy and
    with where its steps lead. The scores of steps are their sums less those expected.

    Args:
        mdp: the world.
        policy: [S, A] of the fit.
        scores: [n, S, A] of a step: features and all that follow, less the average.
        values: [S] soft values.
        tables: [n, S] expected sums of the features from each state.
        visits: [S] of the policy, from where the sums begin.
        counts: [S, A] steps whose scores are meant; None for the sums.
    """
    discount, chosen = mdp.discount, visits[:, None] * policy
    moved = chosen * scores
    flows = np.stack([mdp.inflow(one) for one in moved]) if len(moved) else moved[:, :, 0]
    back = chain_values(mdp, policy, discount * flows, transposed=True)
    along = discount * (moved + policy * back[:, :, None])
    if counts is None:
        return ChainSlopes(along, values, discount * chosen, tables)
    return ChainSlopes(-along, values, discount * (counts - chosen), tables)


def chain_values(
    mdp: MDP, policy: np.ndarray, right: np.ndarray, *, transposed: bool = False
) -> np.ndarray:
    """[n, S] the values of the policy's chain for right sides [n, S]; transposed, its visits."""
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
    """[draws, S, A] what errors of the rows move the logarithm of a policy by, to first order."""
    mdp, random, order = rows.mdp, np.random.default_rng(seed), rows.order(policy)
    later = values[rows.states][:, None]
    found = np.empty((draws, *policy.shape))
    for i in range(draws):
        found[i] = mdp.discount * (rows.errors(random, order) * later).sum(axis=2)
    after = chain_values(mdp, policy, (policy * found).sum(axis=2))
    for i, value in enumerate(after):
        found[i] += mdp.discount * mdp.expected_next(value) - value[:, None]
    return np.where(policy > 0, found, 0.0)
