"""Marks of single states and actions, in the place of a feature that is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tacit.estimators.likelihood import Likelihood
from tacit.estimators.task import Task
from tacit.estimators.trips.world import Trips
from tacit.inference.parameters import inverse_information
from tacit.inference.tails import chi_square_tail
from tacit.likelihood.problem import Fit
from tacit.likelihood.products import table_scores
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import information
from tacit.model.features import Map
from tacit.model.layout import Layout
from tacit.model.mdp import MDP

# Most numbers in a table of marks, 160 MB.
MARKED = 20_000_000


class Clearest(NamedTuple):
    """The mark that would explain most beside a fit.

    A mark is a feature that is 1 in one state, number 0 to S - 1, or for one action, from S on.
    """

    mark: int  # -1 where none shows
    square: float  # nearly twice the log-likelihood that it would gain; infinite where not known
    among: int  # how many there are


def clearest_mark(task: Task, fitted: Fit, known: Sequence[int] = ()) -> Clearest:
    """The clearest mark beside those known."""
    ranked = isinstance(task, Trips)  # places are ranked by their uses, without scores
    squares = (_clearest_of_trips if ranked else _clearest_of_steps)(task, fitted)
    squares[list(known)] = -1.0
    most = int(squares.argmax()) if len(squares) else -1
    if most < 0 or squares[most] < 0:
        return Clearest(-1, 0.0, 0)
    square = np.inf if ranked else float(squares[most])
    return Clearest(most, square, int((squares >= 0).sum()))


def _clearest_of_steps(task: Task, fitted: Fit) -> np.ndarray:
    """[S + A] squared scores in units of their variance beside the free parameters; -1 for none.

    None shows where a table of all marks is too large.
    """
    steps, policy = fitted.problem.chains[0], np.asarray(fitted.parts[0].policy)
    mdp, (states, actions) = steps.mdp, policy.shape
    if states * actions * (states + actions) > MARKED:
        return np.full(states + actions, -1.0)
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
    slopes = np.tensordot(scores, steps.counts, 2)
    return np.where(shown, slopes**2 / np.where(shown, left, 1.0), -1.0)


def _clearest_of_trips(task: Task, fitted: Fit) -> np.ndarray:
    """[S + A] by how far uses are from those expected, as if uses were Poisson."""
    counts, flows = task.demonstrations.counts(task.mdp), fitted.parts[0].flows
    uses = [(counts.sum(axis=axis), flows.sum(axis=axis)) for axis in (1, 0)]
    return np.concatenate([(seen - flow) ** 2 / (flow + 1.0) for seen, flow in uses])


class MarkedFit(NamedTuple):
    """A fit with marks among the features of the reward."""

    task: Task
    options: Likelihood  # under which marks have either sign
    fitted: Fit
    marks: tuple[int, ...]  # the first explains most
    coefficients: tuple[float, ...]  # of each, in units of the noise
    p_value: float  # of "none is needed", over all that there are


def missing_marks(task: Task, base: Fit, options: Likelihood, most: int) -> MarkedFit | None:
    """The marks that explain most beside a fit, one by one while Schwarz's criterion falls.

    Choosing one of many is paid for: in the p-value by their number, in the criterion of all after
    the first by twice its logarithm. None where no mark shows.
    """
    found, first = None, len(task.features.reward_names)
    price = float(np.log(max(base.problem.chains[0].steps, 2.0)))
    before = task, base
    while found is None or len(found.marks) < most:
        marks = () if found is None else found.marks
        one = clearest_mark(*before, marks)
        if one.mark < 0:
            break
        marks = (*marks, one.mark)
        wider, how = with_marks(task, marks), with_free_marks(options, first, len(marks))
        fitted = maximum(wider.chain(how), how)
        gained = max(2.0 * float(before[1].loss - fitted.loss), 0.0)
        if found is not None and not gained > price + 2.0 * np.log(one.among):
            break
        x = (fitted.z / fitted.problem.chains[0].space.scales)[first : first + len(marks)]
        p_value = min(one.among * chi_square_tail(1, min(one.square, gained)), 1.0)
        p_value = p_value if found is None else found.p_value
        found = MarkedFit(wider, how, fitted, marks, tuple(x.tolist()), p_value)
        before = wider, fitted
    return found


def with_free_marks(options: Likelihood, first: int, many: int) -> Likelihood:
    """The options, coefficients from the first on of either sign."""
    either = {first + n: (None, None) for n in range(many)}
    return replace(options, bounds={**options.bounds, **either})


def with_marks(task: Task, marks: Sequence[int]) -> Task:
    """The task with these marks as features of the reward after its own."""
    mdp = task.mdp
    table = np.zeros((mdp.states, mdp.actions, len(marks)))
    for n, mark in enumerate(marks):
        if mark < mdp.states:
            table[mark, :, n] = 1.0
        else:
            table[:, mark - mdp.states, n] = 1.0
    return task.with_features(Map(table, [f"mark {mark}" for mark in marks]))


def mark_name(mdp: MDP, layout: Layout, mark: int) -> str:
    """What is marked, by name."""
    if mark < mdp.states:
        return layout.state_name(mark)
    return layout.action_name(mark - mdp.states)
