"""What would have been noticed: the power of the tests of a fit, at the size of the data in hand.

Demonstrators that the model cannot describe are made from the fitted one, each in one way. Data
sets like the one that was seen are drawn from each of them; the model is fitted once, to all of
them together, which is its best approximation. At that every data set is tested, without a refit of
its own: scores are projected out instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.dynamics.numbering import action_marks, state_marks, successor_order
from tacit.engine.backends import backend_of
from tacit.inference.diagnostics import Power, judged
from tacit.inference.findings import LEVEL
from tacit.inference.goodness import FittedChoices, fit_tests
from tacit.inference.information import fitted_scores
from tacit.inference.parameters import inverse_information
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain, information
from tacit.model.mdp import MDP
from tacit.search.algebra import coarse, covariance_root
from tacit.search.smooth_dual import point_at, restricted

if TYPE_CHECKING:
    from tacit.estimators.likelihood import Likelihood

# Data sets drawn of each demonstrator, and their steps at most; data of more steps have power.
DRAWS, MOST_STEPS = 60, 1_000_000
# Trajectories below which one number would say too much: a range over what the fit may be.
FEW, FITS = 30, 8
# The other demonstrators: a discount, a share of random steps, and how much less and more noise.
MYOPIC, RANDOM, DULL = 0.3, 0.1, (0.5, 2.0)

# What a demonstrator does: policies [S, A], each of as many trajectories as the others.
Kinds = list[np.ndarray]


@dataclass(frozen=True, eq=False)
class PowerStudy:
    """What the tests of a fit would have noticed; computed when it is asked for.

    Attributes:
        options: of the fit.
        fitted: the fit.
        demonstrations: what was seen.
    """

    options: Likelihood
    fitted: Fit
    demonstrations: Demonstrations

    @cached_property
    def found(self) -> tuple[Power, ...]:
        """The power against each of the other demonstrators."""
        size = self.demonstrations.steps
        if size * 20 > MOST_STEPS or not len(self.demonstrations.states):
            return ()
        random = np.random.default_rng(self.options.seed)
        fits = [self.fitted.z]
        if self.demonstrations.episodes < FEW:
            fits = self._drawn_parameters(random)
        draws = int(np.clip(MOST_STEPS // (size * len(fits)), 20, DRAWS // len(fits) + 10))
        chances: dict[str, list[float]] = {}
        for x in fits:
            for name, kinds in self._others(x):
                chances.setdefault(name, []).append(self._chance(kinds, draws, random))
        return tuple(
            Power(
                expert=name,
                chance=float(np.mean(each)),
                low=float(np.quantile(each, 0.1)),
                high=float(np.quantile(each, 0.9)),
            )
            for name, each in chances.items()
        )

    def _drawn_parameters(self, random: np.random.Generator) -> list[np.ndarray]:
        """Parameters that may be the true ones, within their bounds."""
        problem, part = self.fitted.problem, self.fitted.parts[0]
        fisher = information(self._chain.scores(part), part.policy, self._chain.visits)
        spread, _ = inverse_information(fisher, self.fitted.free)
        root = covariance_root(spread, np.diagonal(fisher))
        drawn = self.fitted.z + random.standard_normal((FITS, len(root))) @ root.T
        return list(np.clip(drawn, problem.lower, problem.upper))

    @property
    def _chain(self) -> StepsChain:
        return self.fitted.problem.chains[0]

    def _others(self, x: np.ndarray) -> Iterator[tuple[str, Kinds]]:
        """The other demonstrators near these parameters, each with its name."""
        mdp = self._chain.mdp
        own = self._policy(mdp, x)
        if mdp.discount > MYOPIC:
            near = MDP(mdp.transitions, mdp.initial, MYOPIC, available=mdp.available)
            yield f"one that plans with a discount of {MYOPIC:g}", [self._policy(near, x)]
        even = mdp.available / np.maximum(mdp.available.sum(axis=1, keepdims=True), 1)
        mixed = (1.0 - RANDOM) * own + RANDOM * even
        yield f"one that takes {100 * RANDOM:g} % of its steps at random", [mixed]
        reward = self._chain.space.blocks[0]
        if reward.stop - reward.start > 1:
            known = np.ones(len(x)) if self.fitted.diagonal is None else self.fitted.diagonal
            order = np.lexsort([-coarse(known[reward]), -coarse(x[reward])])
            turned = x.copy()  # of features scaled to a range of one: in no unit
            turned[reward][order] = np.roll(x[reward][order], 1)
            name = "two kinds, of which one has the reward weights in another order"
            yield name, [own, self._policy(mdp, turned)]
        else:
            name = "two kinds, of which one has half of the noise and one twice"
            yield name, [self._policy(mdp, scale * x) for scale in DULL]

    def _policy(self, mdp: MDP, x: np.ndarray) -> np.ndarray:
        """[S, A] the policy of these parameters in a model."""
        values, tolerance = self.fitted.parts[0].values, self.fitted.tolerance
        if self._chain.by_products:
            return self._chain.elsewhere(mdp).loss.at(x, values, tolerance).policy
        nothing = np.zeros(len(x), bool)
        alone = restricted(self._chain.dual, x, nothing)._replace(discount=mdp.discount)
        policy = np.asarray(point_at(backend_of(mdp), alone, x[:0], values, tolerance).policy)
        return policy / np.maximum(policy.sum(axis=1, keepdims=True), 1e-300)

    def _chance(self, kinds: Kinds, draws: int, random: np.random.Generator) -> float:
        """The share of data sets of this demonstrator in which the tests notice it."""
        mdp, level = self._chain.mdp, self.options.level if self.options.level < 1.0 else LEVEL
        many, shape = self.demonstrations.episodes, (mdp.states, mdp.actions)
        drawn = similar_walks(mdp, kinds, self.demonstrations, draws, random)
        pairs, ends = drawn.pairs(mdp.actions), drawn.offsets[::many]
        cells = mdp.states * mdp.actions
        counts = [
            np.bincount(pairs[begin:end], minlength=cells).reshape(shape).astype(float)
            for begin, end in pairwise(ends)
        ]
        whole = self._chain.reweighted(np.mean(counts, axis=0))
        best = maximum(whole, self.options, near=self.fitted)
        choices = FittedChoices(
            counts=counts[0],
            policy=best.parts[0].policy,
            scores=fitted_scores(best, whole.scores(best.parts[0])),
            choices=mdp.available.sum(axis=1),
        )
        noticed = 0
        for b, own in enumerate(counts):
            offsets = drawn.offsets[b * many : (b + 1) * many + 1]
            rows = slice(offsets[0], offsets[-1])
            seen = Demonstrations(drawn.states[rows], drawn.actions[rows], offsets - offsets[0])
            found = replace(choices, counts=own)
            tests = fit_tests(seen, found, states=mdp.states, level=level, simulated=False)
            noticed += not judged(tests, level).adequate
        return noticed / draws


def similar_walks(
    mdp: MDP, kinds: Kinds, like: Demonstrations, draws: int, random: np.random.Generator
) -> Demonstrations:
    """Trajectories of these policies, one for each that was seen, so many times over.

    Each begins where that began and is as long; where episodes end, it ends there instead.
    """
    starts, ends = like.states[like.offsets[:-1]], mdp.ends
    many = draws * like.episodes
    here, kind = np.tile(starts, draws), np.tile(np.arange(like.episodes) % len(kinds), draws)
    longest = np.tile(like.lengths, draws)
    if ends.any():
        longest = np.full(many, like.lengths.max())
    marks, policies, moves = state_marks(mdp), np.stack(kinds), mdp.transitions
    keys = np.broadcast_to(action_marks(mdp, marks), policies.shape)
    likeliest = np.lexsort([keys, -coarse(policies)], axis=2)
    chances = np.take_along_axis(policies, likeliest, axis=2).cumsum(axis=2)
    order = successor_order(moves.states, moves.probabilities, marks)
    following = np.take_along_axis(moves.states, order, axis=2)
    arrivals = np.take_along_axis(moves.probabilities, order, axis=2).cumsum(axis=2)
    alive, rows, states, actions = np.arange(many), [], [], []
    for t in range(int(longest.max())):
        alive = alive[(longest[alive] > t) & ~ends[here[alive]]]
        if not len(alive):
            break
        own = here[alive]
        table = chances[kind[alive], own]
        drawn = random.random((len(alive), 1)) * table[:, -1:]
        action = likeliest[kind[alive], own, (drawn > table[:, :-1]).sum(axis=1)]
        rows.append(alive)
        states.append(own)
        actions.append(action)
        table = arrivals[own, action]
        place = (random.random((len(alive), 1)) * table[:, -1:] > table[:, :-1]).sum(axis=1)
        here[alive] = following[own, action, place]
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    offsets = np.concatenate([[0], np.bincount(row, minlength=many).cumsum()])
    return Demonstrations(np.concatenate(states)[order], np.concatenate(actions)[order], offsets)
