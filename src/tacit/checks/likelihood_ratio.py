"""The likelihood ratio of groups fitted apart against groups that are alike, and its law.

A model of groups that are alike (`Alike`) is either one fit of all, or one direction of the
parameters with a noise of its own for every group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.engine.backends import backend_of
from tacit.engine.smooth_dual import point_at
from tacit.inverse.noisy.boltzmann import Fit
from tacit.inverse.noisy.inference import advantages, information, inverse_information
from tacit.inverse.noisy.likelihood import Likelihood, Steps
from tacit.model.mdp import MDP

# Episodes that every group must have for dealing them out again to say something.
ENOUGH = 5
# Logarithm of the noise of a group relative to the first one's, at most.
WIDEST = 7.0


@dataclass(frozen=True, eq=False)
class Deck:
    """The episodes, to be dealt out to groups.

    Attributes:
        member: [E] group of each episode.
        groups: G.
        index: [N] s * A + a of every step.
        lengths: [E] steps of each episode.
        shape: (S, A).
    """

    member: np.ndarray
    groups: int
    index: np.ndarray
    lengths: np.ndarray
    shape: tuple[int, int]

    @classmethod
    def of(cls, mdp: MDP, seen: Demonstrations, member: np.ndarray, groups: int) -> Deck:
        """The deck of these demonstrations."""
        index = seen.states.astype(np.int64) * mdp.actions + seen.actions
        return cls(member, groups, index, seen.lengths, (mdp.states, mdp.actions))

    @property
    def exchangeable(self) -> bool:
        """Whether there are enough trajectories, not just loose pairs, to deal them out again."""
        fewest = int(np.bincount(self.member, minlength=self.groups).min())
        return fewest >= ENOUGH and len(self.lengths) < len(self.index)

    def counts(self, member: np.ndarray) -> np.ndarray:
        """[G, S, A] how often each group took each action, for the group of every episode [E]."""
        size = self.shape[0] * self.shape[1]
        at = np.repeat(member * size, self.lengths) + self.index
        total = np.bincount(at, minlength=self.groups * size)
        return total.reshape(self.groups, *self.shape).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Alike:
    """The best model of groups that are alike.

    Attributes:
        loss: minus the log-likelihood of all steps.
        pooled: the fit of all.
        policies: [G, S, A] of every group.
    """

    loss: float
    pooled: Fit
    policies: np.ndarray


def fitted_apart(
    whole: Steps, options: Likelihood, counts: np.ndarray, near: Fit
) -> tuple[Fit, ...]:
    """The fit of every group by itself, begun at the fit of all: never worse than that."""
    return tuple(_part(whole, table).fit(options, near=near) for table in counts)


def alike(pooled: Fit, apart: tuple[Fit, ...], mdp: MDP, *, own_noise: bool) -> Alike:
    """The best model in which groups share all parameters, or all but their noise."""
    loss, policies = float(pooled.point.loss), [pooled.point.policy] * len(apart)
    if own_noise:
        found, points = _one_direction(pooled, apart, mdp)
        if found < loss:
            loss, policies = found, [point.policy for point in points]
    return Alike(loss, pooled, np.stack(policies))


def ratio_of(model: Alike, apart: tuple[Fit, ...]) -> float:
    """Twice the log-likelihood that the separate fits gain."""
    return max(0.0, 2.0 * (model.loss - float(sum(one.point.loss for one in apart))))


def simulated(
    whole: Steps,
    options: Likelihood,
    model: Alike,
    deck: Deck,
    draws: int,
    *,
    own_noise: bool,
    seed: int,
) -> tuple[np.ndarray, str]:
    """[draws] likelihood ratios of groups that are alike, and how they were made."""
    rng = np.random.default_rng(seed)
    ratios = []
    if deck.exchangeable and not own_noise:
        # Exact whatever the episodes are like, if nothing but chance put them into their groups.
        for _ in range(draws):
            counts = deck.counts(rng.permutation(deck.member))
            ratios.append(ratio_of(model, fitted_apart(whole, options, counts, model.pooled)))
        return np.array(ratios), f"by dealing the episodes out again {draws} times"
    for counts in redrawn(rng, model.policies, deck, draws):
        pooled = _part(whole, counts.sum(axis=0)).fit(options, near=model.pooled)
        apart = fitted_apart(whole, options, counts, pooled)
        ratios.append(ratio_of(alike(pooled, apart, whole.mdp, own_noise=own_noise), apart))
    return np.array(ratios), f"by drawing new actions {draws} times"


def degrees_of_freedom(whole: Steps, pooled: Fit, counts: np.ndarray, *, own_noise: bool) -> float:
    """Parameters that the separate fits have more than the model, those seen by the data."""
    scores = advantages(whole.mdp, whole.space, pooled)
    policy, free = pooled.point.policy, pooled.free

    def seen(visits: np.ndarray) -> int:
        _, blind = inverse_information(information(scores, policy, visits), free)
        return int(free.sum()) - len(blind)

    more = sum(seen(table.sum(axis=1)) for table in counts) - seen(whole.visits)
    return float(max(more - (len(counts) - 1 if own_noise else 0), 0))


def _part(whole: Steps, counts: np.ndarray) -> Steps:
    """The coefficients of the likelihood for some of the steps, given as counts [S, A]."""
    start = counts.sum(axis=1) - whole.mdp.discount * whole.mdp.inflow(counts)
    return Steps(whole.mdp, whole.space, counts, start, whole.space.pull_back(counts), None)


def redrawn(
    rng: np.random.Generator, policies: np.ndarray, deck: Deck, draws: int
) -> Iterator[np.ndarray]:
    """[G, S, A] counts of actions drawn from the policies [G, S, A], states as they were."""
    visits = deck.counts(deck.member).sum(axis=2).astype(np.int64)
    chances = policies / policies.sum(axis=2, keepdims=True)
    for _ in range(draws):
        yield rng.multinomial(visits, chances).astype(np.float64)


def _one_direction(pooled: Fit, apart: tuple[Fit, ...], mdp: MDP) -> tuple[float, list]:
    """Least loss with one direction of the parameters, each group at its own length, and points."""
    from scipy.optimize import minimize

    size, backend = len(pooled.point.x), backend_of(mdp)
    values = [one.point.values for one in apart]
    points = [one.point for one in apart]

    def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
        total, slope = 0.0, np.zeros(len(z))
        for g, one in enumerate(apart):
            scale = float(np.exp(z[size + g - 1])) if g else 1.0
            point = point_at(backend, one.problem, scale * z[:size], values[g], one.tolerance)
            points[g], values[g] = point, point.values
            total += float(point.loss)
            slope[:size] += scale * point.gradient
            if g:
                slope[size + g - 1] = scale * float(z[:size] @ point.gradient)
        return total, slope

    problem = pooled.problem
    limits = list(zip(problem.lower, problem.upper, strict=True))
    limits += [(-WIDEST, WIDEST)] * (len(apart) - 1)
    begin = np.concatenate([pooled.point.x, np.zeros(len(apart) - 1)])
    # In nats: far finer than a likelihood ratio needs.
    options = {"ftol": 1e-10, "gtol": 1e-4, "maxiter": 200}
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=limits, options=options)
    total, _ = loss(found.x)
    return total, points
