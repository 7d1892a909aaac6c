"""The exact interval of every number of a recovery, over all explanations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.inverse.explanations.questions import Questions


@dataclass(frozen=True, eq=False)
class Intervals:
    """Least and largest value of each number; NaN where no explanation has the number.

    Attributes:
        reward: [D, 2] of the reward weights, of L1 norm 1.
        costs: one [D_k, 2] per constraint, of its weights, of sum 1.
        multipliers: [K, 2] at reward weights of L1 norm 1; ends may be infinite.
        budgets: [K, 2] of what the weights make of the expert's expectations.
    """

    reward: np.ndarray
    costs: list[np.ndarray]
    multipliers: np.ndarray
    budgets: np.ndarray


def intervals(questions: Questions, ranges: list[np.ndarray]) -> Intervals:
    """All `Intervals`; `ranges` has one [D_k, 2] per constraint: of expectations of its features.

    An inert feature could have any weight; the others are given as if it had none.
    """
    words = questions.words
    least = -1.0 if words.free_reward else 0.0
    norm = words.norm(0)
    reward = _weights(questions, 0, norm, least)
    multipliers = np.zeros((words.constraints, 2))
    budgets = np.full((words.constraints, 2), np.nan)
    costs = []
    for k in range(words.constraints):
        own = words.norm(k + 1)
        costs.append(_weights(questions, k + 1, own, 0.0))
        low, high = (
            -questions.most(-_asks(questions, k + 1, ranges[k][:, 0]), own),
            questions.most(_asks(questions, k + 1, ranges[k][:, 1]), own),
        )
        budgets[k] = low, high
        if np.isnan(high):
            continue  # no explanation has a price for it
        ends = -questions.most(-own, norm), questions.most(own, norm)
        # Without any reward in any explanation, a price in rewards is infinite.
        multipliers[k] = (np.inf, np.inf) if np.isnan(ends[1]) else (abs(ends[0]), ends[1])
    return Intervals(reward, costs, multipliers, budgets)


def _weights(questions: Questions, block: int, norm: np.ndarray, least: float) -> np.ndarray:
    """[D, 2] the intervals of the weights of one map."""
    found = np.empty((questions.words.sizes[block], 2))
    for j, silent in enumerate(questions.words.inert[block]):
        if silent:
            found[j] = least, 1.0
            continue
        asks = _asks(questions, block, np.eye(len(found))[j])
        # Rounding must not carry a weight beyond what a weight can be.
        ends = 0.0 - questions.most(-asks, norm), questions.most(asks, norm)
        found[j] = np.clip(ends, least, 1.0) + 0.0  # no negative zero
    return found


def _asks(questions: Questions, block: int, direction: np.ndarray) -> np.ndarray:
    """[C] the question `direction` . weights of one map."""
    zero = [np.zeros(size) for size in questions.words.sizes]
    zero[block] = direction
    return questions.words.asks(tuple(zero))
