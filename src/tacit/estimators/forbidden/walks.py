"""Likelihoods of sets of forbidden candidates where walks are complete and moves are certain.

Without a discount the likelihood of a set F is then that of its walks: with M the chain of what the
demonstrator would do were everything allowed, less the moves that F takes away, h = (I - M)^-1 end
is the chance to come to an end without any of these, and log L(F) = const - sum of log h(starts).
Scaled by the demonstrator's own policy nothing underflows in long walks or with little noise.

A candidate is a set of moves (pairs). Shutting or opening those that lead to one state, or begin in
one, changes M by a product of two vectors, and the inverse G = (I - M)^-1 by another; several
states make a product of as many. I - M is an M-matrix with dominant rows, so that elimination along
its columns subtracts nothing: inverted afresh it keeps the digits that updates lose.
"""

from __future__ import annotations

import numpy as np

from tacit.estimators.forbidden.candidates import Candidate
from tacit.forward.avoidance import Coverage
from tacit.model.mdp import MDP

# States up to which inverting costs no more than updating, and updates in a row beyond.
SMALL, UPDATES = 150, 200
# What is left of a chance to come to the end at which updates have lost too many digits.
LOST = 1e-3
# Least share of a chance that is told from none.
TINY = 1e-14


def taken_away(mdp: MDP, one: Candidate) -> np.ndarray:
    """[P] the available pairs that a candidate forbids, or that may lead into its states."""
    gone = np.zeros(mdp.available.size, bool)
    gone[one.pairs] = True
    if len(one.states):
        inside = np.zeros(mdp.states)
        inside[one.states] = 1.0
        gone |= (mdp.sparse() @ inside) > 0
    return np.flatnonzero(gone & mdp.available.ravel())


class Walks:
    """The likelihood of one set of candidates, and of all that differ from it in one.

    Attributes:
        parts: the pairs that each candidate takes away.
        chosen: [K] bool, the set.
        inverse: [S, S] of I - M.
        chances: [S] to come to an end without what is forbidden.
        wide: [K] bool, candidates of several states on both sides, whose changes take a solve each.
    """

    def __init__(
        self, mdp: MDP, policy: np.ndarray, candidates: list[Candidate], seen: Coverage
    ) -> None:
        self._weights, self._ends = policy.ravel(), mdp.ends.astype(float)
        likely = np.argmax(mdp.transitions.probabilities, axis=2)[..., None]
        self._source = np.repeat(np.arange(mdp.states), mdp.actions)
        self._target = np.take_along_axis(mdp.transitions.states, likely, 2).ravel().astype(int)
        self._starts, self._many = seen.starts, seen.many.astype(float)
        self.parts = [taken_away(mdp, one) for one in candidates]
        sides = [self._sides(part) for part in self.parts]
        width = np.array([min(len(np.unique(side)) for side in pair) for pair in sides])
        # Those with one state on one side are worked out together.
        self._single = np.flatnonzero(width == 1)
        self.wide = width > 1
        sizes = np.array([len(self.parts[k]) for k in self._single], int)
        self._flat = np.concatenate([np.zeros(0, int), *(self.parts[k] for k in self._single)])
        self._owner = np.repeat(self._single, sizes)
        self._first = np.cumsum(sizes) - sizes
        self.restart(np.zeros(len(candidates), bool))

    def _sides(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[P] the states that pairs begin in, and those that they lead to."""
        return self._source[pairs], self._target[pairs]

    def restart(self, chosen: np.ndarray) -> None:
        """Goes on from this set [K] bool."""
        self.chosen = chosen.copy()
        self._cover = np.zeros(len(self._weights), int)
        for k in np.flatnonzero(chosen).tolist():
            self._cover[self.parts[k]] += 1
        self._invert()

    def _invert(self) -> None:
        """The inverse afresh."""
        size, left = len(self._ends), np.where(self._cover == 0, self._weights, 0.0)
        chain = np.bincount(self._target * size + self._source, left, size**2)
        # Of the transpose, whose columns are dominant: no row is exchanged, nothing subtracted.
        self.inverse = np.linalg.inv(np.eye(size) - chain.reshape(size, size)).T
        self.chances, self._updates = self.inverse @ self._ends, 0

    def _moved(self, pairs: np.ndarray, inside: np.ndarray | bool) -> np.ndarray:
        """[P] chances of the pairs that flipping a candidate moves; 0 where another holds them."""
        return np.where(self._cover[pairs] == inside, self._weights[pairs], 0.0)

    def idle(self, chosen: np.ndarray) -> np.ndarray:
        """[K] bool, whether the others of the set take away all that a candidate would."""
        self._go(chosen)
        found = np.ones(len(self.parts), bool)
        held = self._cover[self._flat] > self.chosen[self._owner]
        if len(self._single):
            found[self._single] = np.logical_and.reduceat(held, self._first)
        for k in np.flatnonzero(self.wide).tolist():
            found[k] = bool((self._cover[self.parts[k]] > self.chosen[k]).all())
        return found

    def changes(self, chosen: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """[asked] change of the log-likelihood by flipping each candidate of this set [K] bool."""
        self._go(chosen)
        gains = np.zeros((len(self._starts), len(chosen)))
        narrow, wide = asked[~self.wide[asked]], asked[self.wide[asked]]
        if len(narrow) and len(self._single):
            gains[:, self._single] = self._gains()
        for k in wide.tolist():
            moved = self._moved(self.parts[k], chosen[k])
            gains[:, k] = self._gain(self.parts[k], (moved if chosen[k] else -moved)[None])[0]
        return self._logs(gains[:, asked].T)

    def changes_to(self, chosen: np.ndarray, others: np.ndarray) -> np.ndarray:
        """[N] changes of the log-likelihood from this set [K] bool to others [N, K] bool."""
        self._go(chosen)
        cover = np.tile(self._cover, (len(others), 1))
        for k in np.flatnonzero((chosen != others).any(axis=0)).tolist():
            cover[:, self.parts[k]] += (chosen[k] ^ others[:, [k]]) * (1 - 2 * chosen[k])
        opened = (cover == 0).astype(float) - (self._cover == 0)
        pairs = np.flatnonzero(opened.any(axis=0))
        return self._logs(self._gain(pairs, opened[:, pairs] * self._weights[pairs]))

    def _logs(self, gains: np.ndarray) -> np.ndarray:
        """[N] changes of the log-likelihood where chances change by gains [N, starts]."""
        before = np.maximum(self.chances[self._starts], 1e-300)
        return -np.log(np.maximum(1.0 + gains / before, TINY)) @ self._many

    def _gains(self) -> np.ndarray:
        """[starts, N] what flipping each candidate with one state on a side adds to chances."""
        source, target = self._sides(self._flat)
        moved = self._moved(self._flat, self.chosen[self._owner])
        # By pairs of one target, or of one source, the product of sums is the sum of products.
        ways = self.inverse[self._starts[:, None], source] * (moved * self.chances[target])
        again = np.add.reduceat(moved * self.inverse[target, source], self._first)
        sign = np.where(self.chosen[self._single], 1.0, -1.0)
        return sign * np.add.reduceat(ways, self._first, axis=1) / (1.0 - sign * again)

    def _gain(self, pairs: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """[N, starts] what changing the weights of pairs by `moved` [N, P] adds to chances."""
        source, target = self._sides(pairs)
        sources, begin = np.unique(source, return_inverse=True)
        targets, end = np.unique(target, return_inverse=True)
        # Pairs of one target, or of one source, are one way: as few as there can be.
        if len(targets) <= len(sources):
            ways = moved[:, :, None] * (end[:, None] == np.arange(len(targets)))
            begun, again = (
                self.inverse[np.ix_(at, source)] @ ways for at in (self._starts, targets)
            )
            after = self.chances[targets][None, :, None]
        else:
            ways = moved[:, None, :] * (begin == np.arange(len(sources))[:, None])
            begun = self.inverse[np.ix_(self._starts, sources)]
            again = ways @ self.inverse[np.ix_(target, sources)]
            after = (ways @ self.chances[target])[:, :, None]
        return (begun @ np.linalg.solve(np.eye(again.shape[-1]) - again, after))[..., 0]

    def flip(self, k: int) -> None:
        """Forbids candidate k, or allows it."""
        before, pairs, inside = self.chances[self._starts], self.parts[k], self.chosen[k]
        moved, (source, target) = self._moved(pairs, inside), self._sides(pairs)
        self.chosen[k] = not inside
        self._cover[pairs] += -1 if inside else 1
        one_target = len(pairs) and (target == target[0]).all()
        if (
            len(self._ends) < SMALL
            or self._updates == UPDATES
            or not (one_target or (len(pairs) and (source == source[0]).all()))
        ):
            return self._invert()
        begun = self.inverse[:, source] @ moved if one_target else self.inverse[:, source[0]]
        ended = self.inverse[target[0]] if one_target else moved @ self.inverse[target]
        sign = 1.0 if inside else -1.0
        factor = sign / (1.0 - sign * float(moved @ self.inverse[target, source]))
        self.inverse = self.inverse + np.outer(factor * begun, ended)
        self.chances, self._updates = self.inverse @ self._ends, self._updates + 1
        if (self.chances[self._starts] < LOST * before).any():
            self._invert()
        return None

    def _go(self, chosen: np.ndarray) -> None:
        """To another set, by one flip where that is enough."""
        different = np.flatnonzero(chosen != self.chosen)
        if different.size == 1:
            self.flip(int(different[0]))
        elif different.size:
            self.restart(chosen)
