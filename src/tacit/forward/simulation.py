"""From a policy to demonstrations, and to the chance that they avoid something.

Many episodes at once, one vectorised pass over time.

Every episode owns a counter-based stream of uniforms, keyed by the seed and placed by its number:
episode 7 is the same whether 10 or 10 000 episodes are asked for, and its first 50 steps are the
same whether 50 or 2 000 are. NumPy alone: nothing is compiled, the first call is as fast as any.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.forward.solution import Mixture
from tacit.model.arguments import distributions, integer
from tacit.model.ends import check_available
from tacit.model.mdp import MDP, inside_policy

# Steps whose uniforms are drawn at once: enough to amortise a draw, few to waste at an early end.
BLOCK = 256

# Entries of the arrays of one block of sets to avoid.
AT_ONCE = 4_000_000
# States up to which chains are dense.
DENSE = 300
# A chain that cannot leave some states leaves them so often, which makes its system regular.
LEAK = 1e-14
# Trajectories beyond which nobody will wait.
MOST = 10**9

Chooser = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def simulate(
    mdp: MDP,
    policy: ArrayLike | Mixture,
    *,
    trajectories: int = 100,
    steps: int = 2000,
    seed: int = 0,
    stop_when_absorbed: bool = True,
) -> Demonstrations:
    """Demonstrations of a policy in a model. The same arguments give the same bits.

    Args:
        mdp: the model.
        policy: [S, A] one distribution over actions a state; or a `Mixture`, from which one policy
            is drawn per episode.
        trajectories: number of episodes E. The first ones do not change when more are asked for.
        steps: most steps of an episode. The first ones do not change when more are asked for.
        seed: non-negative integer that names the random streams.
        stop_when_absorbed: whether an episode ends when it enters a state that no action leaves.
            That state is then `final_states[e]`, `ended[e]` is true and no action is recorded in
            it. An episode that STARTS in such a state records its one step, so that it is not
            empty, and ends after it. In a state without an available action every episode ends.
    """
    steps = integer(steps, "steps")
    streams = _streams(integer(seed, "seed", 0), integer(trajectories, "trajectories"))
    opening = np.stack([stream.random(2) for stream in streams])
    choose = _chooser(mdp, policy, opening[:, 0])
    over = mdp.ends & (mdp.initial > 0)
    if over.any():
        s = int(over.argmax())
        raise InvalidModel(
            "an episode must start where something can be done; initial gives state "
            f"{s}, which ends it, probability {mdp.initial[s]:g}"
        )
    start = _drawn(mdp.initial, opening[:, 1])

    blocks, lengths, final, ended = _run(mdp, choose, streams, start, steps, stop_when_absorbed)
    # Blocks are [time, episode]; episodes lie one after the other in the columns that come back.
    kept = np.arange(sum(len(seen) for seen, _ in blocks)) < lengths[:, None]
    states = np.concatenate([seen for seen, _ in blocks]).T[kept]
    actions = np.concatenate([taken for _, taken in blocks]).T[kept]
    return Demonstrations(
        states, actions, np.concatenate([[0], np.cumsum(lengths)]), ended=ended, final_states=final
    )


def _run(
    mdp: MDP,
    choose: Chooser,
    streams: list[np.random.Generator],
    start: np.ndarray,
    steps: int,
    stop_when_absorbed: bool,
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of (states, actions) [time, E], lengths [E], final states [E] and ended [E]."""
    width = mdp.transitions.states.shape[2]
    targets = mdp.transitions.states.ravel().astype(np.int64)  # row numbers outgrow int32
    likely = _cumulative(mdp.transitions.probabilities).reshape(-1, width)
    episodes = len(start)
    final_states = mdp.absorbing | mdp.ends if stop_when_absorbed else mdp.ends
    stops = bool(final_states.any())
    lengths = np.full(episodes, steps)
    final, ended = start.copy(), np.zeros(episodes, bool)
    alive, current = np.arange(episodes), start
    blocks = []
    for first in range(0, steps, BLOCK):
        size = min(BLOCK, steps - first)
        seen = np.zeros((size, episodes), np.int32)
        taken = np.zeros((size, episodes), np.int32)
        blocks.append((seen, taken))
        draws = np.stack([streams[e].random(2 * size) for e in alive]).reshape(-1, size, 2)
        draws = np.ascontiguousarray(draws.transpose(1, 2, 0))[..., None]  # [time, 2, alive, 1]
        for t in range(size):
            action = choose(alive, current, draws[t, 0])
            where = slice(None) if len(alive) == episodes else alive
            seen[t, where] = current
            taken[t, where] = action
            row = current * mdp.actions + action
            column = _first_above(likely.take(row, axis=0), draws[t, 1])
            current = targets.take(row * width + column)
            if stops and (stopped := final_states.take(current)).any():
                over, going = alive[stopped], ~stopped
                lengths[over], final[over], ended[over] = first + t + 1, current[stopped], True
                alive, current, draws = alive[going], current[going], draws[:, :, going]
        if not len(alive):
            break
    final[alive] = current
    return blocks, lengths, final, ended


def _streams(seed: int, count: int) -> list[np.random.Generator]:
    """One generator an episode: the same Philox key, and 2^128 counters apart from the next."""
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    counters = np.zeros((count, 4), np.uint64)
    counters[:, 2] = np.arange(count)
    return [np.random.Generator(np.random.Philox(key=key, counter=c)) for c in counters]


def _chooser(mdp: MDP, policy: ArrayLike | Mixture, uniforms: np.ndarray) -> Chooser:
    """The function (episodes, states, draws) -> actions; `uniforms` [E] pick a mixture's policy."""
    if isinstance(policy, Mixture):
        weights = distributions(
            policy.weights, (len(policy.policies),), "mixture weights", "policy"
        )
        weights = weights / weights.sum()
        policies = np.asarray(policy.policies)
        if policies.shape != (len(weights), mdp.states):
            raise InvalidModel(
                f"mixture policies must have shape [M, S] = {(len(weights), mdp.states)}; "
                f"got {policies.shape}"
            )
        if not np.issubdtype(policies.dtype, np.integer) or not (
            policies.min() >= 0 and policies.max() < mdp.actions
        ):
            raise InvalidModel(f"mixture policies must be integers in 0..{mdp.actions - 1}")
        absent = ~(mdp.available[np.arange(mdp.states), policies] | mdp.ends)
        if absent.any():
            m, s = (int(i) for i in np.argwhere(absent)[0])
            raise InvalidModel(
                "mixture policies must take available actions; "
                f"policy {m} takes {policies[m, s]} in state {s}"
            )
        chosen = _drawn(weights, uniforms)
        return lambda episodes, states, _: policies[chosen[episodes], states].astype(np.int64)
    shape = (mdp.states, mdp.actions)
    if mdp.restricted and np.shape(policy) == shape:
        policy = inside_policy(mdp, np.asarray(policy))
    chances = distributions(policy, shape, "policy", "state")
    chances = chances / chances.sum(axis=1, keepdims=True)
    if mdp.restricted:
        check_available(mdp, chances)
    table = _cumulative(chances)
    return lambda _, states, draws: _first_above(table.take(states, axis=0), draws)


def _cumulative(probabilities: np.ndarray) -> np.ndarray:
    """Cumulative sums along the last axis, infinite from the last positive entry on.

    Rounding may leave the true last sum below 1 - 2^-53, the largest uniform: a draw above it would
    fall on an entry of probability 0, or off the row.
    """
    positive = probabilities > 0
    later = np.zeros_like(positive)
    later[..., :-1] = np.logical_or.accumulate(positive[..., :0:-1], axis=-1)[..., ::-1]
    return np.where(later, np.cumsum(probabilities, axis=-1), np.inf)


def _drawn(probabilities: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """[n] the outcomes of one distribution for `uniforms` [n]."""
    return np.searchsorted(_cumulative(probabilities), uniforms, side="right")


def _first_above(cumulative: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """[n] the first column of each row of `cumulative` [n, W] that exceeds `uniforms` [n, 1]."""
    return (cumulative > uniforms).argmax(axis=1)


# --- chances to avoid something -----------------------------------------------------------------


class Seen(NamedTuple):
    """What the demonstrations did, as far as avoiding is concerned."""

    taken: np.ndarray  # [S * A] bool, the pairs that were taken
    visited: np.ndarray  # [S] bool, the states that they were in, the last ones included
    starts: np.ndarray  # [C] first states, of each kind of trajectory
    lengths: np.ndarray  # [C] steps, of each kind; 0 for those that came to their end
    many: np.ndarray  # [C] trajectories of each kind

    @property
    def episodes(self) -> int:
        """How many trajectories there are."""
        return int(self.many.sum())

    @classmethod
    def of(cls, mdp: MDP, demonstrations: Demonstrations) -> Seen:
        """What these did in this world."""
        counts = demonstrations.counts(mdp)
        final = demonstrations.final_states
        visited = np.array(counts.any(axis=1))
        visited[final[final >= 0]] = True
        complete = demonstrations.ended | ((final >= 0) & mdp.ends[final])
        starts = demonstrations.states[demonstrations.offsets[:-1]].astype(np.int64)
        lengths = np.where(complete, 0, demonstrations.lengths)
        kinds, many = np.unique(np.stack([starts, lengths]), axis=1, return_counts=True)
        return cls(counts.ravel() > 0, visited, kinds[0], kinds[1], many)


@dataclass(frozen=True, eq=False)
class Avoiding:
    """What trajectories of some kinds must not touch, in each of K cases.

    With pi the policy, the chance that a trajectory from s does not is h(s), where
    h(s) = sum over a not removed of pi(a|s) sum p h and h(end) = 1, 0 where s is dead; one that was
    cut off after T steps needs T products instead. A world that may never end counts its complete
    trajectories given that they came to an end.

    Attributes:
        mdp: the model.
        policy: [S, A] of the demonstrator; 0 in the rows of ends.
        removed: [S * A, K] bool, pairs that must not be taken.
        dead: [S, K] bool, states that must not be entered.
    """

    mdp: MDP
    policy: np.ndarray
    removed: np.ndarray
    dead: np.ndarray

    def logs(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """[C, K] log-chances of one trajectory of each kind: first state, steps (0: complete)."""
        return np.concatenate([part for _, part in self._blocks(starts, lengths)], axis=1)

    def total(self, starts: np.ndarray, lengths: np.ndarray, many: np.ndarray) -> np.ndarray:
        """[K] log-chances of so many trajectories [C] of each kind."""
        total = np.zeros(self.dead.shape[1])
        for part, logs in self._blocks(starts, lengths):
            total[part] = many @ logs
        return total

    def _blocks(
        self, starts: np.ndarray, lengths: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray]]:
        mdp, cases = self.mdp, self.dead.shape[1]
        size = mdp.states * max(mdp.actions, mdp.states if mdp.states <= DENSE else 1)
        block = max(1, AT_ONCE // size)
        for begin in range(0, cases, block):
            part = slice(begin, begin + block)
            weights = self.policy.reshape(-1, 1) * ~self.removed[:, part]
            dead = self.dead[:, part]
            chances = np.empty((len(starts), dead.shape[1]))
            whole = lengths == 0
            if whole.any():
                chances[whole] = self._complete(weights, dead)[starts[whole]]
            for step, h in enumerate(self._cut_off(weights, dead, int(lengths.max(initial=0))), 1):
                own = lengths == step
                chances[own] = h[starts[own]]
            with np.errstate(divide="ignore"):
                yield part, np.log(np.minimum(chances, 1.0))

    def _complete(self, weights: np.ndarray, dead: np.ndarray) -> np.ndarray:
        """[S, K] chances of trajectories that came to their end; weights are [S * A, K]."""
        mdp = self.mdp
        stop = mdp.ends | mdp.absorbing
        every = np.zeros((mdp.states, 1), bool)
        ending = arrival(mdp, self.policy.reshape(-1, 1), every, stop)
        found = arrival(mdp, weights, dead, stop)
        # Where this world never ends, its trajectories cannot have, and say nothing.
        return np.divide(found, ending, out=np.ones_like(found), where=ending > 0)

    def _cut_off(self, weights: np.ndarray, dead: np.ndarray, longest: int) -> Iterator[np.ndarray]:
        """[S, K] chances of trajectories of 1, 2, ... steps, up to the longest."""
        mdp = self.mdp
        moves, shape = mdp.sparse(), (mdp.states, mdp.actions, dead.shape[1])
        h = (~dead).astype(np.float64)
        for _ in range(longest):
            h_next = (weights * (moves @ h)).reshape(shape).sum(axis=1)
            h_next[mdp.ends] = 1.0
            h = np.where(dead, 0.0, h_next)
            yield h


def arrival(mdp: MDP, weights: np.ndarray, dead: np.ndarray, stop: np.ndarray) -> np.ndarray:
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


def fewest(held: Callable[[int], bool], guess: int = 1) -> float:
    """The least positive number from which on something holds; infinite where that is too large.

    The nearer the guess, the fewer numbers are tried.
    """
    low, high = 0, max(guess, 1)
    while not held(high):
        low, high = high, max(high + 1, int(1.5 * high))
        if high > MOST:
            return np.inf
    while low == 0 and high > 1 and held(lower := max(1, int(high / 1.5))):
        high = lower
    tried = range(low + 1 if low or high == 1 else max(1, int(high / 1.5)), high + 1)
    return float(tried[bisect_left(tried, True, hi=len(tried) - 1, key=held)])
