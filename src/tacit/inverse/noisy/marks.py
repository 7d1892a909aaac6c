"""Marks of single states and actions: what a missing feature would explain beside a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.inverse.parameters import inverse_information
from tacit.likelihood.problem import Fit
from tacit.likelihood.products import table_scores
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain, information
from tacit.model.features.design import Design
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.inverse.noisy.likelihood import Likelihood

# Most numbers in a table of marks, 160 MB.
MARKED = 20_000_000


def best_mark(steps: StepsChain, fitted: Fit, known: Sequence[int] = ()) -> tuple[int, float, int]:
    """The mark that would explain most beside a fit, its squared score, and how many there are.

    A mark is a feature that is 1 in one state, number 0 to S - 1, or for one action, from S on. The
    square of its score, in units of what is left of its variance beside the free parameters, is
    nearly twice the log-likelihood that it would gain. Those `known` are not asked for; (-1, 0, 0)
    where no other shows, or a table of them is too large.
    """
    mdp, policy = steps.mdp, np.asarray(fitted.parts[0].policy)
    states, actions = policy.shape
    if states * actions * (states + actions) > MARKED:
        return -1, 0.0, 0
    gains = np.zeros((states, actions, states + actions))
    gains[np.arange(states), :, np.arange(states)] = 1.0
    gains[:, np.arange(actions), states + np.arange(actions)] = 1.0
    gains[mdp.ends, :, states:] = 0.0
    scores = table_scores(mdp, gains.reshape(states * actions, -1), policy)
    own = steps.scores(fitted.parts[0])[fitted.free]
    both = information(np.concatenate([scores, own]), policy, steps.visits)
    many = len(scores)
    inverse, _ = inverse_information(both[many:, many:], np.ones(len(own), bool))
    across = both[:many, many:]
    whole = np.diagonal(both)[:many]
    left = whole - np.einsum("ij,jk,ik->i", across, inverse, across)
    shown = left > 1e-6 * np.maximum(whole, 1e-300)
    shown[list(known)] = False
    if not shown.any():
        return -1, 0.0, 0
    slopes = np.tensordot(scores, steps.counts, 2)
    squares = np.where(shown, slopes**2 / np.where(shown, left, 1.0), 0.0)
    at = int(np.argmax(squares))
    return at, float(squares[at]), int(shown.sum())


class Marks(NamedTuple):
    """Marks in the place of a missing feature.

    Attributes:
        marks: those chosen, the first explains most.
        coefficients: of each, in units of the noise.
        log_likelihood: with them.
        p_value: of "none is needed", over all that there are.
    """

    marks: tuple[int, ...] = ()
    coefficients: tuple[float, ...] = ()
    log_likelihood: float = np.nan
    p_value: float = 1.0


def missing_marks(
    steps: StepsChain, base: Fit, features: Features, options: Likelihood, most: int
) -> Marks:
    """The marks that explain most beside a fit, one by one while Schwarz's criterion falls.

    Choosing one of many is paid for: in the p-value by their number, in the criterion of all after
    the first by twice its logarithm.
    """
    from scipy.special import chdtrc

    found, fitted, first = Marks(), base, len(features.reward_names)
    price = float(np.log(max(steps.counts.sum(), 2.0)))
    while len(found.marks) < most:
        at, square, many = best_mark(steps, fitted, found.marks)
        if at < 0:
            break
        marks = (*found.marks, at)
        wider, how = marked(steps, features, options, marks)
        more, space = maximum(wider, how), wider.space
        gained = max(2.0 * float(fitted.loss - more.loss), 0.0)
        if found.marks and not gained > price + 2.0 * np.log(many):
            break
        p_value = min(many * float(chdtrc(1, min(square, gained))), 1.0)
        worth = more.z[first : first + len(marks)] / space.scales[first]
        steps, fitted = wider, more
        found = Marks(
            marks,
            tuple(worth.tolist()),
            -more.loss,
            found.p_value if found.marks else p_value,
        )
    return found


def marked(
    steps: StepsChain, features: Features, options: Likelihood, marks: Sequence[int]
) -> tuple[StepsChain, Likelihood]:
    """The likelihood with these marks among the features, and options that leave their signs free.

    `features` are those without the marks.
    """
    space = Design.of(steps.mdp, with_marks(steps.mdp, features, marks))
    first = len(features.reward_names)
    either = {first + n: (None, None) for n in range(len(marks))}
    wider = StepsChain.counted(steps.mdp, space, steps.counts)
    return wider, replace(options, bounds={**options.bounds, **either})


def with_marks(mdp: MDP, features: Features, marks: Sequence[int]) -> Features:
    """The features, and these marks as features of the reward after its own."""
    table = np.zeros((mdp.states, mdp.actions, len(marks)))
    for n, mark in enumerate(marks):
        here = mark if mark < mdp.states else slice(None)
        table[here, slice(None) if mark < mdp.states else mark - mdp.states, n] = 1.0
    own = features.reward
    own = own if own.ndim == 3 else np.repeat(own[:, None], mdp.actions, axis=1)
    names = (*features.reward_names, *(f"mark {mark}" for mark in marks))
    return Features(np.concatenate([own, table], axis=2), features.costs, names)


def mark_name(mdp: MDP, layout: Layout, mark: int) -> str:
    """What is marked, by name."""
    if mark < mdp.states:
        return layout.state_name(mark)
    return layout.action_name(mark - mdp.states)
