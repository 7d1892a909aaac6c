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

# States up to which inverting costs no more than updating.
MOST_STATES_INVERTED = 150
# Most updates in a row: each loses digits.
MOST_UPDATES = 200
# Share of a chance to come to the end below which an update has lost too many digits.
LEAST_SHARE_UPDATED = 1e-3
# Least share of a chance that is told from none.
LEAST_SHARE = 1e-14


def removed_pairs(mdp: MDP, candidate: Candidate) -> np.ndarray:
    """[P] the available pairs that a candidate forbids, or that may lead into its states."""
    removed = np.zeros(mdp.available.size, bool)
    removed[candidate.pairs] = True
    if len(candidate.states):
        in_states = np.zeros(mdp.states)
        in_states[candidate.states] = 1.0
        removed |= (mdp.sparse() @ in_states) > 0
    return np.flatnonzero(removed & mdp.available.ravel())


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
        self.parts = [removed_pairs(mdp, candidate) for candidate in candidates]
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
        """Makes this set [K] bool the chosen one, and inverts afresh."""
        self.chosen = chosen.copy()
        self._cover = np.zeros(len(self._weights), int)
        for k in np.flatnonzero(chosen).tolist():
            self._cover[self.parts[k]] += 1
        self._invert()

    def _invert(self) -> None:
        """Computes the inverse, and the chances, afresh."""
        size, weights = len(self._ends), np.where(self._cover == 0, self._weights, 0.0)
        chain = np.bincount(self._target * size + self._source, weights, size**2)
        # Of the transpose, whose columns are dominant: no row is exchanged, nothing subtracted.
        self.inverse = np.linalg.inv(np.eye(size) - chain.reshape(size, size)).T
        self.chances, self._updates = self.inverse @ self._ends, 0

    def _moved(self, pairs: np.ndarray, inside: np.ndarray | bool) -> np.ndarray:
        """[P] chances of the pairs that flipping a candidate moves; 0 where another holds them."""
        return np.where(self._cover[pairs] == inside, self._weights[pairs], 0.0)

    def idle(self, chosen: np.ndarray) -> np.ndarray:
        """[K] bool, whether the others of the set take away all that a candidate would."""
        self._go(chosen)
        idle = np.ones(len(self.parts), bool)
        by_others = self._cover[self._flat] > self.chosen[self._owner]
        if len(self._single):
            idle[self._single] = np.logical_and.reduceat(by_others, self._first)
        for k in np.flatnonzero(self.wide).tolist():
            idle[k] = bool((self._cover[self.parts[k]] > self.chosen[k]).all())
        return idle

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
        return -np.log(np.maximum(1.0 + gains / before, LEAST_SHARE)) @ self._many

    def _gains(self) -> np.ndarray:
        """[starts, N] what flipping each candidate with one state on a side adds to chances.

        Sherman-Morrison: with G the inverse, w the chances of a candidate's pairs s -> t, and the
        sign + where they are opened, G[start, s] w h(t) / (1 -+ w G[t, s]), sums over the pairs.
        """
        source, target = self._sides(self._flat)
        moved = self._moved(self._flat, self.chosen[self._owner])
        # By pairs of one target, or of one source, the product of sums is the sum of products.
        through = self.inverse[self._starts[:, None], source] * (moved * self.chances[target])
        returns = np.add.reduceat(moved * self.inverse[target, source], self._first)
        sign = np.where(self.chosen[self._single], 1.0, -1.0)
        return sign * np.add.reduceat(through, self._first, axis=1) / (1.0 - sign * returns)

    def _gain(self, pairs: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """[N, starts] what changing the weights of pairs by `moved` [N, P] adds to chances.

        Woodbury's formula, of the rank of the distinct targets or sources, whichever are fewer.
        """
        source, target = self._sides(pairs)
        sources, source_number = np.unique(source, return_inverse=True)
        targets, target_number = np.unique(target, return_inverse=True)
        if len(targets) <= len(sources):
            weights = moved[:, :, None] * (target_number[:, None] == np.arange(len(targets)))
            left = self.inverse[np.ix_(self._starts, source)] @ weights
            inner = self.inverse[np.ix_(targets, source)] @ weights
            right = self.chances[targets][None, :, None]
        else:
            weights = moved[:, None, :] * (source_number == np.arange(len(sources))[:, None])
            left = self.inverse[np.ix_(self._starts, sources)]
            inner = weights @ self.inverse[np.ix_(target, sources)]
            right = (weights @ self.chances[target])[:, :, None]
        return (left @ np.linalg.solve(np.eye(inner.shape[-1]) - inner, right))[..., 0]

    def flip(self, k: int) -> None:
        """Forbids candidate k, or allows it."""
        before, pairs, was_chosen = self.chances[self._starts], self.parts[k], self.chosen[k]
        moved = self._moved(pairs, was_chosen)
        source, target = self._sides(pairs)
        self.chosen[k] = not was_chosen
        self._cover[pairs] += -1 if was_chosen else 1
        one_target = len(pairs) > 0 and bool((target == target[0]).all())
        one_source = len(pairs) > 0 and bool((source == source[0]).all())
        is_small = len(self._ends) < MOST_STATES_INVERTED
        if is_small or self._updates == MOST_UPDATES or not (one_target or one_source):
            self._invert()
            return
        # Sherman-Morrison.
        left = self.inverse[:, source] @ moved if one_target else self.inverse[:, source[0]]
        right = self.inverse[target[0]] if one_target else moved @ self.inverse[target]
        sign = 1.0 if was_chosen else -1.0
        factor = sign / (1.0 - sign * float(moved @ self.inverse[target, source]))
        self.inverse = self.inverse + np.outer(factor * left, right)
        self.chances = self.inverse @ self._ends
        self._updates += 1
        if (self.chances[self._starts] < LEAST_SHARE_UPDATED * before).any():
            self._invert()

    def _go(self, chosen: np.ndarray) -> None:
        """Makes another set [K] bool the chosen one, by one flip where that is enough."""
        different = np.flatnonzero(chosen != self.chosen)
        if different.size == 1:
            self.flip(int(different[0]))
        elif different.size:
            self.restart(chosen)
