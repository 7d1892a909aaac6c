"""The exact interval of every number of a recovery, over all explanations.

The numbers are asked for in small groups. Each group begins with a program of its own, so that its
answers do not depend on what was asked before: a run that was interrupted goes on with the next
group, and nothing is lost by it, since a program fills up with rows of other questions anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tacit.inverse.explanations.questions import Questions
from tacit.progress import pursue

# Numbers asked for with one program.
GROUP = 8


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


class Asked(NamedTuple):
    """How far the questions have come: [N, 2] ends, NaN where not asked yet."""

    groups: int
    ends: np.ndarray
    programs: int


class Number(NamedTuple):
    """A number: between the least of `low` [C] and the largest of `high` [C], over `norm` [C]."""

    low: np.ndarray
    high: np.ndarray
    norm: np.ndarray


def intervals(questions: Questions, ranges: list[np.ndarray]) -> tuple[Intervals, int]:
    """All `Intervals`, and the linear programs solved for them.

    An inert feature could have any weight; the others are given as if it had none.

    Args:
        questions: about all explanations.
        ranges: one [D_k, 2] per constraint: of expectations of its features.
    """
    words = questions.words
    listed = _weights(questions) + [
        number for k in range(words.constraints) for number in _of_constraint(questions, k, ranges)
    ]
    found = _answered(questions, listed)
    ends = iter(found.ends)
    maps = []
    for block, silent in enumerate(words.inert):
        least = -1.0 if block == 0 and words.free_reward else 0.0
        part = np.array([(least, 1.0) if quiet else next(ends) for quiet in silent])
        # Rounding must not carry a weight beyond what a weight can be, nor make 0 negative.
        maps.append(np.clip(part.reshape(-1, 2), least, 1.0) + 0.0)
    # What a callback stopped has asked nothing, and so says nothing.
    unasked = np.nan if found.groups * GROUP < len(listed) else 0.0
    multipliers = np.full((words.constraints, 2), unasked)
    budgets = np.full((words.constraints, 2), np.nan)
    for k in range(words.constraints):
        budgets[k], price = next(ends), next(ends)
        if np.isnan(budgets[k, 1]):
            continue  # no explanation has a price for it
        # Without any reward in any explanation, a price in rewards is infinite.
        multipliers[k] = (np.inf, np.inf) if np.isnan(price[1]) else (abs(price[0]), price[1])
    return Intervals(maps[0], maps[1:], multipliers, budgets), found.programs


def _answered(questions: Questions, listed: list[Number]) -> Asked:
    """The ends of all numbers, a group at a time."""

    def further(asked: Asked, until: int | None) -> Asked:
        while asked.groups * GROUP < len(listed) and (until is None or asked.groups < until):
            own = replace(questions)  # with a program of its own
            ends = asked.ends.copy()
            first = asked.groups * GROUP
            for i, number in enumerate(listed[first : first + GROUP], start=first):
                ends[i, 0] = 0.0 - own.most(-number.low, number.norm)
                ends[i, 1] = own.most(number.high, number.norm)
            asked = Asked(asked.groups + 1, ends, asked.programs + own.program.solved)
        return asked

    cone, count = questions.cone, len(listed)
    return pursue(
        "intervals",
        Asked(0, np.full((count, 2), np.nan), 0),
        further,
        step=lambda asked: asked.groups,
        numbers=lambda asked: {"of": float(-(-count // GROUP))},
        inputs=(cone.mdp.transitions, cone.tables, cone.observed, questions.tolerance, listed),
        kinds=(Asked,),
    )


def _weights(questions: Questions) -> list[Number]:
    """Every weight of every map that is not inert."""
    words, listed = questions.words, []
    for block, silent in enumerate(words.inert):
        norm = words.norm(block)
        for j in np.flatnonzero(~silent):
            asks = _asks(questions, block, np.eye(len(silent))[j])
            listed.append(Number(asks, asks, norm))
    return listed


def _of_constraint(questions: Questions, k: int, ranges: list[np.ndarray]) -> list[Number]:
    """The budget and the multiplier of a constraint."""
    own = questions.words.norm(k + 1)
    low, high = (_asks(questions, k + 1, ranges[k][:, end]) for end in (0, 1))
    return [Number(low, high, own), Number(own, own, questions.words.norm(0))]


def _asks(questions: Questions, block: int, direction: np.ndarray) -> np.ndarray:
    """[C] the question `direction` . weights of one map."""
    zero = [np.zeros(size) for size in questions.words.sizes]
    zero[block] = direction
    return questions.words.asks(tuple(zero))
