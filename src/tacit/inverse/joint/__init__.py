"""Several tasks at once: how their parameters hang together.

Tasks share weights, never parameters: theta_k of a task is multiplier * weights / temperature, and
multipliers differ. So every parameter of every task is factor * z[row] * z[size], with z the joint
parameters: an entry of its own or a shared one, times a size, times a ratio of units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from tacit.likelihood.chain import LARGEST
from tacit.likelihood.chain import Coordinates

# A task's size, relative to the task that speaks most clearly.
LARGEST_SIZE = 1e3


class Tie(Enum):
    """What the tasks have in common in one block: the reward, or one constraint."""

    OWN = "nothing: every task has its own parameters"
    DIRECTION = "the direction: sizes differ"
    SAME = "everything"


@dataclass(frozen=True, eq=False, kw_only=True)
class Link:
    """The map from the joint parameters z [n] to the parameters of every task.

    Attributes:
        rows: one [D] per task, the entry of z that each parameter is made of.
        sizes: one [D] per task, the entry of z that it is multiplied by.
        factors: one [D] per task, the ratio of its units to those of z.
        lower: [n] smallest values of z.
        upper: [n] largest values of z; equal to `lower` where an entry is settled.
        ties: one per block.
        leaders: one task per block, whose units z has and whose size is one.
        blocks: one tuple of slices of its parameters per task: the reward, then each constraint.
        names: [n] what to call each entry.
    """

    rows: tuple[np.ndarray, ...]
    sizes: tuple[np.ndarray, ...]
    factors: tuple[np.ndarray, ...]
    lower: np.ndarray
    upper: np.ndarray
    ties: tuple[Tie, ...]
    leaders: tuple[int, ...]
    blocks: tuple[tuple[slice, ...], ...]
    names: tuple[str, ...]

    @property
    def movable(self) -> np.ndarray:
        """[n] bool, the entries that are not settled."""
        return self.lower < self.upper

    @property
    def linear(self) -> bool:
        """Whether every parameter has at most one entry that may move."""
        moves = self.movable
        pairs = zip(self.rows, self.sizes, strict=True)
        return not any((moves[row] & moves[size]).any() for row, size in pairs)

    def parameters(self, z: np.ndarray) -> tuple[np.ndarray, ...]:
        """One [D] per task, in its scaled coordinates."""
        parts = zip(self.factors, self.rows, self.sizes, strict=True)
        return tuple(factor * z[row] * z[size] for factor, row, size in parts)

    def jacobian(self, task: int, z: np.ndarray) -> np.ndarray:
        """[D, n] derivative of the task's parameters."""
        factor, row, size = self.factors[task], self.rows[task], self.sizes[task]
        every, matrix = np.arange(len(row)), np.zeros((len(row), len(z)))
        np.add.at(matrix, (every, row), factor * z[size])
        np.add.at(matrix, (every, size), factor * z[row])
        return matrix

    def bend(self, task: int, gradient: np.ndarray) -> np.ndarray:
        """[n, n] second derivative of gradient . parameters of the task."""
        matrix = np.zeros((len(self.lower), len(self.lower)))
        twist = gradient * self.factors[task]
        np.add.at(matrix, (self.rows[task], self.sizes[task]), twist)
        return matrix + matrix.T

    def steering(self, b: int, task: int) -> np.ndarray:
        """[n] bool, the entries that move block b of this task and of no other: size or own."""
        block, mask = self.blocks[task][b], np.zeros(len(self.lower), bool)
        if self.ties[b] is Tie.OWN:
            mask[self.rows[task][block]] = True
        elif self.ties[b] is Tie.DIRECTION:
            mask[self.sizes[task][block]] = True
        return mask & self.movable

    def without(self, b: int, tasks: Sequence[int]) -> Link:
        """The link with block b settled at 0 in these tasks."""
        if len(tasks) == len(self.blocks):  # sizes of nothing do not matter
            zero, one = np.zeros((2, len(self.lower)), bool)
            for e, blocks in enumerate(self.blocks):
                zero[self.rows[e][blocks[b]]] = True
                one[self.sizes[e][blocks[b]]] = True
            return self.settled(zero, 0.0).settled(one, 1.0)
        held = np.zeros(len(self.lower), bool)
        for e in tasks:
            held |= self.steering(b, e)
        return self.settled(held, 0.0)

    def start(self, parameters: Sequence[np.ndarray]) -> np.ndarray:
        """[n] joint parameters whose tasks have these, each [D], as nearly as the ties allow.

        A direction is the leader's; sizes are the least-squares ones.
        """
        z = np.ones(len(self.lower))
        for e, x in enumerate(parameters):
            leads = self.sizes[e] == 0  # and where blocks are not tied, every task leads
            z[self.rows[e][leads]] = (x / self.factors[e])[leads]
        for e, x in enumerate(parameters):
            for b, block in enumerate(self.blocks[e]):
                size = self.sizes[e][block][:1]
                if self.ties[b] is Tie.DIRECTION and size[0] > 0:
                    ahead = self.factors[e][block] * z[self.rows[e][block]]
                    length = float(ahead @ ahead)
                    z[size] = ahead @ x[block] / length if length > 0 else 1.0
        return np.clip(z, self.lower, self.upper)

    def pointing(self, parameters: Sequence[np.ndarray], task: int) -> list[np.ndarray]:
        """The parameters, with the leaders' shared directions turned into those of this task."""
        turned = [x.copy() for x in parameters]
        for b, tie in enumerate(self.ties):
            leader = self.leaders[b]
            if tie is not Tie.DIRECTION or task == leader:
                continue
            block, ahead = self.blocks[task][b], self.blocks[leader][b]
            v, old = (parameters[task] / self.factors[task])[block], parameters[leader][ahead]
            if v @ old > 0:
                turned[leader][ahead] = (v @ old) / (v @ v) * v
        return turned

    def settled(self, held: np.ndarray, value: float) -> Link:
        """The link with the entries `held` [n] bool settled at this value."""
        lower = np.where(held, value, self.lower)
        return replace(self, lower=lower, upper=np.where(held, value, self.upper))


def link(
    spaces: Sequence[Coordinates],
    ties: Sequence[Tie],
    leaders: Sequence[int],
    *,
    free_reward: bool = False,
) -> Link:
    """The `Link` of tasks with these coordinates.

    Args:
        spaces: one per task; tied blocks are equally long.
        ties: one per block.
        leaders: one task per block, whose units z has and whose size is one.
        free_reward: let reward parameters take either sign.
    """
    tasks = range(len(spaces))
    rows = [np.zeros(space.size, np.intp) for space in spaces]
    sizes = [np.zeros(space.size, np.intp) for space in spaces]
    factors = [np.ones(space.size) for space in spaces]
    # Entry 0 is the number one, for parameters that nothing multiplies.
    lower, upper, names = [1.0], [1.0], ["one"]

    def add(count: int, low: float, high: float, called: Sequence[str]) -> np.ndarray:
        fresh = np.arange(len(lower), len(lower) + count)
        lower.extend([low] * count)
        upper.extend([high] * count)
        names.extend(called)
        return fresh

    for b, (tie, leader) in enumerate(zip(ties, leaders, strict=True)):
        low = -np.inf if b == 0 and free_reward else 0.0
        ahead = spaces[leader].blocks[b]
        width = 0 if tie is Tie.OWN else ahead.stop - ahead.start
        shared = add(width, low, LARGEST, spaces[leader].names[ahead][:width])
        for e in tasks:
            block = spaces[e].blocks[b]
            if tie is Tie.OWN:
                called = [f"{name} (task {e})" for name in spaces[e].names[block]]
                rows[e][block] = add(block.stop - block.start, low, LARGEST, called)
                continue
            rows[e][block] = shared
            factors[e][block] = spaces[e].scales[block] / spaces[leader].scales[ahead]
            if tie is Tie.DIRECTION and e != leader:
                what = "reward" if b == 0 else f"constraint {b - 1}"
                sizes[e][block] = add(1, 0.0, LARGEST_SIZE, [f"size of the {what} (task {e})"])
    return Link(
        rows=tuple(rows),
        sizes=tuple(sizes),
        factors=tuple(factors),
        lower=np.array(lower),
        upper=np.array(upper),
        ties=tuple(ties),
        leaders=tuple(leaders),
        blocks=tuple(space.blocks for space in spaces),
        names=tuple(names),
    )
