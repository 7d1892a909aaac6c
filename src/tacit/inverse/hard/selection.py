"""Forward selection of hard constraints by exact p-values.

If a set C is allowed, the chance that a trajectory avoids it is h(start), with
h(s) = sum over a not in C of pi(a|s) sum p h and h(end) = 1; a trajectory that was cut off after T
steps needs T products instead. The p-value of "C is allowed" is the product over trajectories. For
complete trips in a world without chance it equals exp(-gain in log-likelihood) by forbidding C.

That p-value is h where no demonstration takes C and 1 otherwise, and h is known beforehand: testing
only the candidates with the smallest h, as long as these add up to at most the level, errs with at
most that chance. Every candidate counts, whether it was taken or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tacit.inverse.hard.candidates import Candidate, Closure, Seen, close
from tacit.model.mdp import MDP

# Entries of the arrays of one block of candidates.
AT_ONCE = 4_000_000
# States up to which chains are dense.
DENSE = 300
# A chain that cannot leave some states leaves them so often, which makes its system regular.
LEAK = 1e-14
# Demonstrations beyond which nobody will wait for a decision.
MOST = 10**9


def avoidance(mdp: MDP, policy: np.ndarray, closure: Closure, seen: Seen) -> np.ndarray:
    """[K] log-probabilities that the seen starts, under a policy, avoid what each closure removes.

    Args:
        mdp: the model.
        policy: [S, A] of the expert to whom all of it is allowed; 0 in the rows of ends.
        closure: of K worlds.
        seen: where the trajectories start, and how long they are.
    """
    worlds = closure.dead.shape[1]
    total = np.zeros(worlds)
    size = mdp.states * max(mdp.actions, mdp.states if mdp.states <= DENSE else 1)
    block = max(1, AT_ONCE // size)
    for begin in range(0, worlds, block):
        part = slice(begin, begin + block)
        weights = policy.reshape(-1, 1) * ~closure.removed[:, part]
        total[part] = _complete(mdp, policy, weights, closure.dead[:, part], seen)
        total[part] += _cut_off(mdp, weights, closure.dead[:, part], seen)
    return total


def _complete(
    mdp: MDP, policy: np.ndarray, weights: np.ndarray, dead: np.ndarray, seen: Seen
) -> np.ndarray:
    """[K] the part of `avoidance` of trajectories that came to their end; weights are [S * A, K].

    Given that they came there, which in a world without a discount they do for certain.
    """
    starts = seen.starts[seen.lengths == 0]
    if not len(starts):
        return np.zeros(dead.shape[1])
    stop = mdp.ends | mdp.absorbing
    every = np.zeros((mdp.states, 1), bool)
    ending = _solved(mdp, policy.reshape(-1, 1), every, stop)
    with np.errstate(divide="ignore"):
        logs = np.log(np.minimum(_solved(mdp, weights, dead, stop) / ending, 1.0))
    return logs[starts].sum(axis=0)


def _solved(mdp: MDP, weights: np.ndarray, dead: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """[S, K] chances to come to a stop [S] by weights [S * A, K], past what is dead [S, K]."""
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.linalg import splu

    worlds, shape = dead.shape[1], (mdp.states, mdp.actions)
    target = (stop[:, None] & ~dead).astype(np.float64)
    going = ~(stop[:, None] | dead)
    if mdp.states <= DENSE:
        table = (weights.reshape(*shape, worlds) * going[:, None]).transpose(2, 0, 1)
        chains = np.einsum("ksa,sat->kst", table, mdp.dense(), optimize=True)
        systems = np.eye(mdp.states) - (1.0 - LEAK) * chains
        return np.linalg.solve(systems, target.T[:, :, None])[:, :, 0].T.clip(0.0)
    found, moves = np.empty((mdp.states, worlds)), mdp.sparse()
    rows = np.repeat(np.arange(mdp.states), mdp.actions)
    for k in range(worlds):
        own = weights[:, k] * np.repeat(going[:, k], mdp.actions)
        choose = csr_array((own, (rows, np.arange(len(own)))), (mdp.states, len(own)))
        system = eye_array(mdp.states) - (1.0 - LEAK) * (choose @ moves)
        found[:, k] = splu(system.tocsc()).solve(target[:, k])
    return found.clip(0.0)


def _cut_off(mdp: MDP, weights: np.ndarray, dead: np.ndarray, seen: Seen) -> np.ndarray:
    """[K] the part of `avoidance` of trajectories that were cut off: as many steps as they have."""
    total = np.zeros(dead.shape[1])
    longest = int(seen.lengths.max(initial=0))
    if longest == 0:
        return total
    moves, shape = mdp.sparse(), (mdp.states, mdp.actions, dead.shape[1])
    h = (~dead).astype(np.float64)
    for step in range(1, longest + 1):
        h_next = (weights * (moves @ h)).reshape(shape).sum(axis=1)
        h_next[mdp.ends] = 1.0
        h = np.where(dead, 0.0, h_next)
        starts = seen.starts[seen.lengths == step]
        if len(starts):
            with np.errstate(divide="ignore"):
                total += np.log(np.minimum(h, 1.0))[starts].sum(axis=0)
    return total


@dataclass(frozen=True, eq=False, kw_only=True)
class World:
    """One world without the chosen candidates, and what it says of all.

    Attributes:
        mdp: the world, with the mask.
        own: what is gone in it.
        closure: what would be gone without each candidate, too.
        logs: [K] log p-values of "this candidate is allowed", given that the chosen are not.
        broken: [K] bool, whether a demonstration contradicts the candidate.
        idle: [K] bool, whether nothing more is gone without the candidate.
    """

    mdp: MDP
    own: Closure
    closure: Closure
    logs: np.ndarray
    broken: np.ndarray
    idle: np.ndarray

    def tested(self, level: float) -> np.ndarray:
        """[K] bool, the candidates whose p-values, the smallest first, add up to at most level."""
        order = np.argsort(self.logs, kind="stable")
        tested = np.zeros(len(order), bool)
        tested[order] = np.cumsum(np.exp(self.logs[order])) <= level
        return tested & (self.logs < 0.0)

    def demonstrations_needed(self, k: int, episodes: int, level: float) -> float:
        """Demonstrations like these after which candidate k would be tested; infinite if never."""
        rates = self.logs / episodes
        others = rates[rates <= rates[k]]
        if not others.max() < -np.log(2.0) / MOST:
            return np.inf
        low, high = 0, 1
        while np.exp(high * others).sum() > level:
            low, high = high, 2 * high
            if high > MOST:
                return np.inf
        while high - low > 1:
            middle = (low + high) // 2
            if np.exp(middle * others).sum() > level:
                low = middle
            else:
                high = middle
        return float(high)


@dataclass(frozen=True, eq=False, kw_only=True)
class Selection:
    """Forward selection among candidates.

    Attributes:
        mdp: the model, with everything allowed.
        candidates: K of them.
        seen: what the demonstrations did.
        policy: (world) -> [S, A] what the demonstrator would do there, 0 in the rows of ends.
        level: of the tests.
        worlds: those met so far, by the numbers of the candidates that they are without.
    """

    mdp: MDP
    candidates: list[Candidate]
    seen: Seen
    policy: Callable[[MDP], np.ndarray]
    level: float
    worlds: dict[frozenset[int], World] = field(default_factory=dict)

    def world(self, chosen: Sequence[int]) -> World:
        """The world without the chosen candidates."""
        key = frozenset(chosen)
        if key not in self.worlds:
            base = [self.candidates[k] for k in sorted(key)]
            own = close(self.mdp, [base])
            closure = close(self.mdp, [[*base, one] for one in self.candidates])
            there = self.mdp.available & ~own.removed.reshape(self.mdp.available.shape)
            mdp = replace(self.mdp, available=there) if own.removed.any() else self.mdp
            policy = self.policy(mdp)
            self.worlds[key] = World(
                mdp=mdp,
                own=own,
                closure=closure,
                logs=avoidance(mdp, policy, closure, self.seen),
                broken=closure.broken_by(self.seen),
                idle=closure.within(own),
            )
        return self.worlds[key]

    def select(self) -> list[int]:
        """The forbidden candidates, in the order in which they were found."""
        chosen: list[int] = []
        while (best := self._best(chosen)) is not None:
            chosen.append(best)
        while len(chosen) > 1:
            p_values = self.p_values(chosen)
            worst = int(np.argmax(p_values))
            if p_values[worst] <= self.level:
                break
            chosen.pop(worst)
        return chosen

    def _best(self, chosen: list[int]) -> int | None:
        """The next candidate: the smallest set that explains what the least likely one does."""
        world, level = self.world(chosen), self.level
        found = np.flatnonzero(world.tested(level) & ~world.broken & ~world.idle)
        if not len(found):
            return None
        found = found[np.argsort(world.logs[found], kind="stable")]
        best = int(found[0])
        for k in found[1:].tolist():
            # All that is gone without the smaller one is gone without the larger, too.
            nested = bool(world.closure.one(k).within(world.closure.one(best))[0])
            if nested and not self.world([*chosen, k]).tested(level)[best]:
                best = k
        return best

    def p_values(self, chosen: Sequence[int]) -> list[float]:
        """Of "this one is allowed", given that the other chosen ones are not."""
        return [
            float(np.exp(self.world([other for other in chosen if other != k]).logs[k]))
            for k in chosen
        ]
