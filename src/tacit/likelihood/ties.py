"""How the parameters of several chains hang together.

Chains share weights, never parameters: theta_k of a chain is multiplier * weights / temperature,
and multipliers differ. So every parameter of every chain is factor * z[row], or with a shared
direction factor * z[row] * z[size]: z are the joint parameters, an entry of its own or a shared
one, times a size. Of one chain alone they are its own parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from tacit.model.features.design import Design

# Entry of `Ties.sizes` of a parameter that no size multiplies.
UNSIZED = -1


class Tie(Enum):
    """What the chains have in common in one block: the reward, or one constraint."""

    OWN = "nothing: every chain has its own parameters"
    DIRECTION = "the direction: sizes differ"
    SAME = "everything"


@dataclass(frozen=True, eq=False, kw_only=True)
class Ties:
    """The map from the joint parameters z [n] to the parameters of every chain.

    Of a chain of several kinds every kind counts as a chain here, and so do their shares.

    Attributes:
        rows: one [D] per chain, the entry of z that each parameter is made of.
        sizes: one [D] per chain, the entry of z that it is multiplied by; `UNSIZED` for none.
        factors: one [D] per chain, the ratio of its units to those of z.
        kinds: one per block.
        leaders: one chain per block, whose units z has and whose size is one.
        blocks: one tuple of slices of its parameters per chain: the reward, then each constraint.
        names: [n] what to call each entry.
    """

    rows: tuple[np.ndarray, ...]
    sizes: tuple[np.ndarray, ...]
    factors: tuple[np.ndarray, ...]
    kinds: tuple[Tie, ...]
    leaders: tuple[int, ...]
    blocks: tuple[tuple[slice, ...], ...]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls,
        spaces: Sequence[Design],
        kinds: Sequence[Tie] | None = None,
        leaders: Sequence[int] | None = None,
    ) -> Ties:
        """The ties of chains with these features.

        Args:
            spaces: one per chain; tied blocks are equally long.
            kinds: one per block; None for nothing in common.
            leaders: one chain per block, whose units z has and whose size is one; None for the
                first.
        """
        blocks = spaces[0].blocks
        kinds = [Tie.OWN] * len(blocks) if kinds is None else kinds
        leaders = [0] * len(blocks) if leaders is None else leaders
        rows = [np.zeros(len(space.scales), np.intp) for space in spaces]
        sizes = [np.full(len(space.scales), UNSIZED) for space in spaces]
        factors, names = [np.ones(len(space.scales)) for space in spaces], list[str]()

        def add(called: Sequence[str]) -> np.ndarray:
            names.extend(called)
            return np.arange(len(names) - len(called), len(names))

        for b, (tie, leader) in enumerate(zip(kinds, leaders, strict=True)):
            ahead = spaces[leader].blocks[b]
            shared = add(() if tie is Tie.OWN else spaces[leader].names[ahead])
            for e, space in enumerate(spaces):
                block = space.blocks[b]
                if tie is Tie.OWN:
                    own = f" (task {e})" if len(spaces) > 1 else ""
                    rows[e][block] = add([f"{name}{own}" for name in space.names[block]])
                    continue
                rows[e][block] = shared
                factors[e][block] = space.scales[block] / spaces[leader].scales[ahead]
                if tie is Tie.DIRECTION and e != leader:
                    what = "reward" if b == 0 else f"constraint {b - 1}"
                    sizes[e][block] = add([f"size of the {what} (task {e})"])
        return cls(
            rows=tuple(rows),
            sizes=tuple(sizes),
            factors=tuple(factors),
            kinds=tuple(kinds),
            leaders=tuple(leaders),
            blocks=tuple(space.blocks for space in spaces),
            names=tuple(names),
        )

    @classmethod
    def of_lengths(cls, spaces: Sequence[Design]) -> Ties:
        """The ties of chains with one direction of all parameters, each at its own length.

        The first chain's length is one; those of the others come last.
        """
        size, count = len(spaces[0].scales), len(spaces)
        first = np.arange(size)
        return cls(
            rows=(first,) * count,
            sizes=tuple(np.full(size, size + e - 1 if e else UNSIZED) for e in range(count)),
            factors=tuple(space.scales / spaces[0].scales for space in spaces),
            kinds=(Tie.DIRECTION,) * len(spaces[0].blocks),
            leaders=(0,) * len(spaces[0].blocks),
            blocks=tuple(space.blocks for space in spaces),
            names=(*spaces[0].names, *(f"length (task {e})" for e in range(1, count))),
        )

    @property
    def alone(self) -> bool:
        """Whether there is one chain, whose parameters are z."""
        return len(self.rows) == 1

    def with_shares(self, names: Sequence[str]) -> Ties:
        """The same and one entry more: the shares of kinds, which are in no block."""
        own = np.arange(len(self.names), len(self.names) + len(names))
        return replace(
            self,
            rows=(*self.rows, own),
            sizes=(*self.sizes, np.full(len(own), UNSIZED)),
            factors=(*self.factors, np.ones(len(own))),
            blocks=(*self.blocks, (slice(0, 0),) * len(self.kinds)),
            names=(*self.names, *names),
        )

    @property
    def shares(self) -> np.ndarray:
        """[n] bool, the entries that are shares of kinds."""
        mask = np.zeros(len(self.names), bool)
        for rows, blocks in zip(self.rows, self.blocks, strict=True):
            if not any(block.stop for block in blocks):
                mask[rows] = True
        return mask

    def multiples(self, chain: int, z: np.ndarray) -> np.ndarray:
        """[D] by what the entries of z are multiplied in the chain's parameters."""
        sizes = self.sizes[chain]
        return self.factors[chain] * np.where(sizes == UNSIZED, 1.0, z[sizes])

    def own_bounds(self, chain: int, z: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """[D] bounds [n] on z as those of the chain's parameters, its sizes staying."""
        own, multiples = ends[self.rows[chain]], self.multiples(chain, z)
        known = np.isfinite(own)
        return np.where(known, np.where(known, own, 0.0) * multiples, own)

    def parameters(self, chain: int, z: np.ndarray) -> np.ndarray:
        """[D] of the chain, in its scaled coordinates."""
        return self.multiples(chain, z) * z[self.rows[chain]]

    def jacobian(self, chain: int, z: np.ndarray) -> np.ndarray:
        """[D, n] derivative of the chain's parameters."""
        row, size = self.rows[chain], self.sizes[chain]
        every, matrix = np.arange(len(row)), np.zeros((len(row), len(z)))
        np.add.at(matrix, (every, row), self.multiples(chain, z))
        sized = size != UNSIZED
        moved = (self.factors[chain] * z[row])[sized]
        np.add.at(matrix, (every[sized], size[sized]), moved)
        return matrix

    def bend(self, chain: int, gradient: np.ndarray) -> np.ndarray:
        """[n, n] second derivative of gradient . parameters of the chain: a product bends."""
        matrix, sized = np.zeros((len(self.names),) * 2), self.sizes[chain] != UNSIZED
        twist = (gradient * self.factors[chain])[sized]
        np.add.at(matrix, (self.rows[chain][sized], self.sizes[chain][sized]), twist)
        return matrix + matrix.T

    def bilinear(self, movable: np.ndarray) -> bool:
        """Whether a parameter is the product of two entries that may move, `movable` [n] bool."""
        pairs = zip(self.rows, self.sizes, strict=True)
        return any((movable[row] & movable[size] & (size != UNSIZED)).any() for row, size in pairs)

    def steering(self, b: int, chain: int) -> np.ndarray:
        """[n] bool, the entries that move block b of this chain and of no other: size or own."""
        block, mask = self.blocks[chain][b], np.zeros(len(self.names), bool)
        sizes = self.sizes[chain][block]
        if self.kinds[b] is Tie.OWN:
            mask[self.rows[chain][block]] = True
        elif self.kinds[b] is Tie.DIRECTION:
            mask[sizes[sizes != UNSIZED]] = True
        return mask

    def start(self, parameters: Sequence[np.ndarray]) -> np.ndarray:
        """[n] joint parameters whose chains have these, each [D], as nearly as the ties allow.

        A direction is the leader's; sizes are the least-squares ones.
        """
        z = np.ones(len(self.names))
        for e, x in enumerate(parameters):
            leads = self.sizes[e] == UNSIZED  # and where blocks are not tied, every chain leads
            z[self.rows[e][leads]] = (x / self.factors[e])[leads]
        for e, x in enumerate(parameters):
            for block in self.blocks[e]:
                size = self.sizes[e][block][:1]
                if len(size) and size[0] != UNSIZED:
                    ahead = self.factors[e][block] * z[self.rows[e][block]]
                    length = float(ahead @ ahead)
                    z[size] = ahead @ x[block] / length if length > 0 else 1.0
        return z

    def pointing(self, parameters: Sequence[np.ndarray], chain: int) -> list[np.ndarray]:
        """The parameters, with the leaders' shared directions turned into those of this chain."""
        turned = [x.copy() for x in parameters]
        for b, tie in enumerate(self.kinds):
            leader = self.leaders[b]
            if tie is not Tie.DIRECTION or chain == leader:
                continue
            block, ahead = self.blocks[chain][b], self.blocks[leader][b]
            v, old = (parameters[chain] / self.factors[chain])[block], parameters[leader][ahead]
            if v @ old > 0:
                turned[leader][ahead] = (v @ old) / (v @ v) * v
        return turned
