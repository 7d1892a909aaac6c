"""Score tests of what a policy by state cannot make: what follows what, and what changes with time.

Each statistic is a sum over steps of something that the past decides, times something that has mean
0 under the fitted policy: what it scatters is known from the past, step by step, and adds up. The
scores of the fitted parameters are projected out, since a refit would follow them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.search.algebra import square_roots

# Steps of a trajectory that are told apart; later ones are taken together.
MOST_TIMES = 1000
# Bins of time: few for what changes slowly, many for what turns quickly.
BINS = (10, 50)
# Expected events that a sum must rest on to have nearly a normal law: Pearson's rule for cells.
EVENTS = 5.0
# Relative size below which a variance is rounding.
ROUNDING = 1e-9
# Numbers in one go.
AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False, kw_only=True)
class SequenceSums:
    """Sums over the steps of trajectories, in whitened scores; `a + b` is that of both.

    Attributes:
        by_time: [T, r] scores by number of the step in its trajectory.
        information: [T, r, r] their covariances.
        time_shifts: [m, T, r] what estimated dynamics may move them by.
        products: [2] scores times the scores of the step before; repeated actions beyond chance.
        covariance: [2, 2] of these products.
        across: [2, r] their covariance with the scores.
        fourth: [2] sums of their fourth moments.
        product_shifts: [m, 2] what estimated dynamics may move them by.
    """

    by_time: np.ndarray
    information: np.ndarray
    time_shifts: np.ndarray
    products: np.ndarray
    covariance: np.ndarray
    across: np.ndarray
    fourth: np.ndarray
    product_shifts: np.ndarray

    @classmethod
    def of(
        cls,
        policy: np.ndarray,
        whitened: np.ndarray,
        doubt: np.ndarray | None,
        demonstrations: Demonstrations,
    ) -> SequenceSums:
        """The sums of these trajectories.

        Args:
            policy: [n, A].
            whitened: [r, n, A] scores, whose covariance over all steps is 1.
            doubt: [m, n, A] draws of what the logarithm of the policy is mistaken by, if any.
            demonstrations: the trajectories.
        """
        doubt = np.zeros((0, *policy.shape)) if doubt is None else doubt
        return cls(
            **_time_sums(policy, whitened, doubt, demonstrations),
            **_product_sums(policy, whitened, doubt, demonstrations),
        )

    def __add__(self, other: SequenceSums) -> SequenceSums:
        if not isinstance(other, SequenceSums):
            return NotImplemented
        size = max(len(self.by_time), len(other.by_time))
        along = {"by_time": 0, "information": 0, "time_shifts": 1}
        tables = [
            {
                f.name: _padded(getattr(sums, f.name), size, along.get(f.name))
                for f in fields(SequenceSums)
            }
            for sums in (self, other)
        ]
        return SequenceSums(**{name: one + tables[1][name] for name, one in tables[0].items()})

    @property
    def score(self) -> np.ndarray:
        """[r] of all steps; 0 at a maximum of the likelihood."""
        return self.by_time.sum(axis=0)

    def serial(self) -> tuple[float, int]:
        """The statistic of what follows what, and its degrees of freedom; 0 where nothing does."""
        scale = np.diagonal(self.covariance)
        # A sum that rests on few events has no normal law.
        usable = (scale > 0) & (EVENTS * self.fourth <= scale**2)
        across = self.across[usable]
        rest = self.covariance[np.ix_(usable, usable)] - across @ across.T
        half = square_roots(rest, ROUNDING)[1]
        moved = self.product_shifts[:, usable] - self.time_shifts.sum(axis=1) @ across.T
        apart = half @ (self.products[usable] - across @ self.score)
        return _squared(apart, moved @ half.T), len(half)

    def bins(self, most: float) -> tuple[float, int]:
        """The statistic of changes between at most so many bins of time, and its degrees."""
        size = self.by_time.shape[1]
        told = np.einsum("tdd->t", self.information).cumsum()
        if size == 0 or not told[-1] > 0:
            return 0.0, 0
        count = int(most)
        middle = told - 0.5 * np.diff(told, prepend=0.0)
        own = np.minimum((count * middle / told[-1]).astype(int), count - 1)
        begins = np.flatnonzero(np.diff(own, prepend=-1))
        information = np.add.reduceat(self.information, begins, axis=0)
        values, axes = np.linalg.eigh(information)
        seen = values > ROUNDING * values.max(axis=1, keepdims=True)
        halves = axes * np.where(seen, 1.0 / np.sqrt(np.where(seen, values, 1.0)), 0.0)[:, None]
        apart = np.add.reduceat(self.by_time, begins, axis=0) - information @ self.score
        shifts = np.add.reduceat(self.time_shifts, begins, axis=1)
        moved = shifts - np.einsum("bde,me->mbd", information, shifts.sum(axis=1))
        statistic = _squared(
            np.einsum("bd,bde->be", apart, halves).ravel(),
            np.einsum("mbd,bde->mbe", moved, halves).reshape(len(moved), -1)
            if len(moved)
            else np.zeros((0, halves[:, 0].size)),
        )
        return statistic, max(int(seen.sum()) - size, 0)


def _squared(apart: np.ndarray, moved: np.ndarray) -> float:
    """Squared length of a vector [k] of covariance 1 + moved' moved / m, in units of that."""
    length = float(apart @ apart)
    if not len(moved):
        return length
    along = moved @ apart
    inner = len(moved) * np.eye(len(moved)) + moved @ moved.T
    return max(length - float(along @ np.linalg.solve(inner, along)), 0.0)


def _padded(table: np.ndarray, size: int, axis: int | None) -> np.ndarray:
    """The table with zeros up to this size along an axis, if there is one."""
    if axis is None:
        return table
    wide = [(0, 0)] * table.ndim
    wide[axis] = (0, size - table.shape[axis])
    return np.pad(table, wide)


def _time_sums(
    policy: np.ndarray, whitened: np.ndarray, doubt: np.ndarray, demonstrations: Demonstrations
) -> dict[str, np.ndarray]:
    """The sums by time of `SequenceSums`."""
    from scipy.sparse import csc_array

    times = np.minimum(demonstrations.step, MOST_TIMES - 1)
    many, where = int(times.max(initial=0)) + 1, demonstrations.states
    size, flat = len(whitened), whitened.reshape(len(whitened), policy.size)
    taken, weighted = demonstrations.pairs(policy.shape[1]), policy * whitened

    def by_time(rows: np.ndarray) -> np.ndarray:
        return np.bincount(times, weights=rows, minlength=many)

    visits = csc_array((np.ones(len(where)), (times, where)), shape=(many, len(policy)))
    information = np.zeros((many, size * size))
    each = max(1, AT_ONCE // max(size * size, 1))
    for begin in range(0, len(policy), each):
        states = slice(begin, begin + each)
        spread = np.matmul(
            weighted[:, states].transpose(1, 0, 2), whitened[:, states].transpose(1, 2, 0)
        )
        information += visits[:, states] @ spread.reshape(len(spread), size * size)
    information = information.reshape(many, size, size)
    shifts = np.einsum("dsa,msa->mds", weighted, doubt)
    moved = [[by_time(one[where]) for one in draw] for draw in shifts]
    return {
        "by_time": np.array([by_time(one[taken]) for one in flat]).reshape(size, many).T,
        "information": information,
        "time_shifts": np.array(moved).reshape(len(doubt), size, many).swapaxes(1, 2),
    }


def _product_sums(
    policy: np.ndarray, whitened: np.ndarray, doubt: np.ndarray, demonstrations: Demonstrations
) -> dict[str, np.ndarray]:
    """The sums of lagged products of `SequenceSums`."""
    size, actions = len(whitened), policy.shape[1]
    first = np.zeros(demonstrations.steps, bool)
    first[demonstrations.offsets[:-1]] = True
    later = np.flatnonzero(~first)
    states, taken = demonstrations.states, demonstrations.actions
    found = {
        "products": np.zeros(2),
        "covariance": np.zeros((2, 2)),
        "across": np.zeros((2, size)),
        "fourth": np.zeros(2),
        "product_shifts": np.zeros((len(doubt), 2)),
    }
    flat = whitened.reshape(size, policy.size)
    pairs = demonstrations.pairs(actions)
    here, before = pairs[later], pairs[later - 1]
    beyond = (taken[later] == taken[later - 1]) - policy[states[later], taken[later - 1]]
    found["products"][:] = np.sum(flat[:, here] * flat[:, before]), beyond.sum()
    # What is expected of a step hangs on the pair before it and on its state, which come again.
    keys, times = np.unique(
        before.astype(np.int64) * len(policy) + states[later], return_counts=True
    )
    each = max(1, AT_ONCE // (actions * (size + len(doubt) + 2)))
    for begin in range(0, len(keys), each):
        before, own = np.divmod(keys[begin : begin + each], len(policy))
        often = times[begin : begin + each, None]
        last, rows = before % actions, np.arange(len(own))
        chances, scores = policy[own], whitened[:, own]
        terms = np.empty((2, len(own), actions))
        terms[0] = np.einsum("dm,dma->ma", flat[:, before], scores)
        terms[1] = -chances[rows, last][:, None]
        terms[1, rows, last] += 1.0
        weighted = (terms * (chances * often)).reshape(2, -1)
        terms = terms.reshape(2, -1)
        found["covariance"] += weighted @ terms.T
        found["across"] += weighted @ scores.reshape(size, terms.shape[1]).T
        found["fourth"] += (weighted * terms**3).sum(axis=1)
        found["product_shifts"] += doubt[:, own].reshape(len(doubt), terms.shape[1]) @ weighted.T
    return found
