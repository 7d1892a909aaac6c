"""From a policy to demonstrations: many episodes at once, one vectorised pass over time.

Every episode owns a counter-based stream of uniforms, keyed by the seed and placed by its number:
episode 7 is the same whether 10 or 10 000 episodes are asked for, and its first 50 steps are the
same whether 50 or 2 000 are. NumPy alone: nothing is compiled, the first call is as fast as any.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.forward.solution import PolicyMixture
from tacit.model.arguments import distributions, integer
from tacit.model.ends import check_available
from tacit.model.mdp import MDP, inside_policy

# Steps whose uniforms are drawn at once: enough to amortise a draw, few to waste at an early end.
BLOCK = 256

Chooser = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def simulate(
    mdp: MDP,
    policy: ArrayLike | PolicyMixture,
    *,
    trajectories: int = 100,
    steps: int = 2000,
    seed: int = 0,
    stop_when_absorbed: bool = True,
) -> Demonstrations:
    """Demonstrations of a policy in a model. The same arguments give the same bits.

    Args:
        mdp: the model.
        policy: [S, A] one distribution over actions a state; or a `PolicyMixture`, from which one
            policy is drawn per episode.
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
    recorded = np.arange(sum(len(seen) for seen, _ in blocks)) < lengths[:, None]
    states = np.concatenate([seen for seen, _ in blocks]).T[recorded]
    actions = np.concatenate([taken for _, taken in blocks]).T[recorded]
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


def _chooser(mdp: MDP, policy: ArrayLike | PolicyMixture, uniforms: np.ndarray) -> Chooser:
    """The function (episodes, states, draws) -> actions; `uniforms` [E] pick a mixture's policy."""
    if isinstance(policy, PolicyMixture):
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
