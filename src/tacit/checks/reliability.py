"""How well each trajectory fits.

The fits are one pass over the steps. Every step is a look-up in tables [S, A] or [S], summed by
episode, so that millions of steps need the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from tacit.checks import TrajectoryFits
from tacit.data.demonstrations import Demonstrations
from tacit.estimators.logged.recovery import LoggedRecovery
from tacit.estimators.trips.traveller import TripsRecovery
from tacit.forward.solution import priced
from tacit.inference.tails import gamma_tails, normal_tail
from tacit.model.arguments import read_only
from tacit.model.mdp import MDP
from tacit.recovery import Recovery
from tacit.search.algebra import coarse

# Steps looked up at a time.
BATCH = 1 << 18
# Actions whose worth differs by less, relative to the largest difference of worths, tie.
TIE = 1e-6
# Variance of a log-likelihood (squared nats) below which only rounding is left.
ROUNDING = 1e-18


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpectedChoices:
    """What a recovery expects where the demonstrations went: in their states, or on ways to goals.

    Attributes:
        policy: [M, A] of the demonstrator, in every place: a state, or a state with a goal.
        best: [M, A] bool, the best actions there.
        available: [M, A] bool, the actions that there are.
        steps: the demonstrations, with places for states.
        episodes: [E] their numbers among all that were given.
    """

    policy: np.ndarray
    best: np.ndarray
    available: np.ndarray
    steps: Demonstrations
    episodes: np.ndarray

    @classmethod
    def of(
        cls, recovery: Recovery, seen: Demonstrations, mdp: MDP | None = None
    ) -> ExpectedChoices:
        """What this recovery expects of these demonstrations."""
        if isinstance(recovery, TripsRecovery):
            chosen = recovery.choices(seen)
            return cls(
                policy=chosen.policy,
                best=likeliest(chosen.policy),
                available=chosen.available,
                steps=chosen.steps,
                episodes=chosen.trips,
            )
        if isinstance(recovery, LoggedRecovery):
            policy = recovery.policy_at(seen)
            there = np.ones(policy.shape, bool)
            own = {"policy": policy, "best": likeliest(policy), "available": there}
            return cls(**own, steps=seen, episodes=np.arange(seen.episodes))
        policy = recovery.behaviour
        seen.check_range(*policy.shape)
        there = policy > 0 if mdp is None else mdp.choices
        if recovery.temperature == 0 and mdp is None:
            there = np.ones(policy.shape, bool)
        return cls(
            policy=policy,
            best=optimal_actions(recovery, mdp),
            available=there,
            steps=seen,
            episodes=np.arange(seen.episodes),
        )

    @property
    def counts(self) -> np.ndarray:
        """[M, A] how often each action was taken."""
        taken = self.steps.pairs(self.policy.shape[1])
        counts = np.bincount(taken, minlength=self.policy.size).astype(np.float64)
        return counts.reshape(self.policy.shape)

    @property
    def options(self) -> np.ndarray:
        """[M] how many actions there are."""
        return self.available.sum(axis=1).clip(1)

    @property
    def chance_best(self) -> np.ndarray:
        """[M] of a best action, if all that there are were as likely."""
        return (self.best & self.available).sum(axis=1) / self.options

    def fits(self, *, noisy: bool) -> TrajectoryFits:
        """The `TrajectoryFits` of the episodes, the worst first."""
        found = _ordered(noisy, *_totals(self.policy, self.best, self.steps))
        return replace(found, episode=read_only(self.episodes[found.episode]))


def trajectory_fits(
    recovery: Recovery, demonstrations: Demonstrations, *, mdp: MDP | None = None
) -> TrajectoryFits:
    """The `TrajectoryFits` of these demonstrations, the worst first.

    Args:
        recovery: what was recovered, from these demonstrations or from others.
        demonstrations: the trajectories to judge.
        mdp: the world. With it, every action that ties for the best counts as optimal; without it,
            only those that the recovered policy takes.
    """
    fits = ExpectedChoices.of(recovery, demonstrations, mdp).fits(noisy=recovery.temperature > 0)
    return called(fits, demonstrations)


def called(fits: TrajectoryFits, seen: Demonstrations) -> TrajectoryFits:
    """The fits with the names of the episodes, where they have some."""
    return fits if seen.names is None else replace(fits, names=seen.names[fits.episode])


def _totals(policy: np.ndarray, best: np.ndarray, seen: Demonstrations) -> np.ndarray:
    """[6, E] sums over each episode: steps, and what `_tables` has."""
    tables = _tables(policy, best)
    totals = np.zeros((len(tables) + 1, seen.episodes))
    totals[0] = seen.lengths
    for episode, index in _batches(seen, policy.shape[1]):
        starts = np.flatnonzero(np.diff(episode, prepend=-1))
        for row, table in zip(totals[1:], tables, strict=True):
            row[episode[starts]] += np.add.reduceat(table[index], starts)
    return totals


def likeliest(policy: np.ndarray) -> np.ndarray:
    """[S, A] bool, the actions that no other is likelier than."""
    return policy >= (1.0 - TIE) * policy.max(axis=1, keepdims=True)


def log_policy(policy: np.ndarray) -> np.ndarray:
    """[S, A] logarithm of a policy [S, A]; what underflowed counts as the smallest number."""
    return np.log(np.maximum(policy, np.finfo(np.float64).tiny))


def optimal_actions(recovery: Recovery, mdp: MDP | None = None) -> np.ndarray:
    """[S, A] bool, the best actions under the recovered objective; with the world, all that tie."""
    solution = recovery.solution
    if recovery.temperature > 0:
        return likeliest(solution.policy)
    if mdp is None:
        return solution.policy > TIE
    worth = priced(*recovery.objective.tables(mdp), solution.multipliers)
    worth = worth + mdp.discount * mdp.expected_next(solution.values)
    worth = np.where(mdp.choices, worth, -np.inf)
    loss = worth.max(axis=1, keepdims=True) - worth
    return (loss <= TIE * max(loss[mdp.choices].max(), 1e-300)) | (solution.policy > TIE)


def _tables(policy: np.ndarray, best: np.ndarray) -> list[np.ndarray]:
    """[S * A] each: log-likelihood, its mean, variance and third moment in that state, optimal."""
    logarithm = log_policy(policy)
    mean = (policy * logarithm).sum(axis=1, keepdims=True)
    moments = [(policy * (logarithm - mean) ** n).sum(axis=1, keepdims=True) for n in (2, 3)]
    tables = (logarithm, mean, *moments, best.astype(np.float64))
    return [np.broadcast_to(table, policy.shape).ravel() for table in tables]


def _ordered(noisy: bool, *totals: np.ndarray) -> TrajectoryFits:
    """The fits from sums over each episode, the worst first."""
    number = np.flatnonzero(totals[0])  # an episode without a step has no fit
    steps, likelihood, mean, variance, third, optimal = (total[number] for total in totals)
    z_score, p_value = _unusual(likelihood - mean, variance, third)
    share = optimal / steps
    # The longer of two equally bad ones says more.
    worst = (-steps, coarse(likelihood / steps), coarse(z_score)) if noisy else (-steps, share)
    order = np.lexsort(worst)
    nothing = np.full(len(steps), np.nan)
    columns = [number, steps.astype(np.int64)]
    columns += [likelihood / steps, mean / steps, z_score, p_value] if noisy else [nothing] * 4
    found = zip(fields(TrajectoryFits), [*columns, share], strict=False)  # no names yet
    return TrajectoryFits(**{one.name: read_only(column[order]) for one, column in found})


def _unusual(
    excess: np.ndarray, variance: np.ndarray, third: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """[E] z-scores and [E] lower tail chances of sums with these central moments.

    A log-likelihood is skewed, so that the normal law would call short trajectories unusual too
    often: the tail is that of a shifted gamma law with the same first three moments.
    """
    certain = variance <= ROUNDING
    spread = np.sqrt(np.where(certain, 1.0, variance))
    score = np.where(certain, 0.0, excess / spread)
    skew = np.where(certain, 0.0, third / spread**3)
    normal = np.abs(skew) < 1e-3
    shape = 4.0 / np.where(normal, 1.0, skew) ** 2
    at = np.maximum(shape + np.sign(skew) * np.sqrt(shape) * score, 0.0)
    below, above = gamma_tails(shape, at)
    tail = np.where(skew < 0, above, below)
    tail = np.where(normal, normal_tail(-score), tail)
    # Where every action was certain, another one is out of the question.
    wrong = certain & (excess < -1e-9)
    return np.where(wrong, -np.inf, score), np.where(certain, np.where(wrong, 0.0, 1.0), tail)


def _batches(seen: Demonstrations, actions: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Episode and s * A + a of the steps, in batches: never a column for all of them."""
    for low in range(0, seen.steps, BATCH):
        high = min(low + BATCH, seen.steps)
        first = int(np.searchsorted(seen.offsets, low, side="right")) - 1
        last = int(np.searchsorted(seen.offsets, high, side="left"))
        lengths = np.diff(np.clip(seen.offsets[first : last + 1], low, high))
        index = seen.states[low:high].astype(np.int64) * actions + seen.actions[low:high]
        yield np.repeat(np.arange(first, last), lengths), index
