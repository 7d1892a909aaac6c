"""Whether the model fits logged rows: their actions by moments of functions of the row, and more.

Single rows are seen once, so that actions are not compared row by row. What is asked is whether
functions of the row still tell who does what beside the fitted policy: moments f(row) (1{action} -
chance), the fitted parameters projected out, with the noise of the dynamics in their law.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tacit.estimators.logged.basis import Polynomials, Scaling
from tacit.estimators.logged.doubts import basis_findings
from tacit.estimators.logged.world import LoggedTask
from tacit.inference.diagnostics import Goodness, judged, untested
from tacit.inference.evidence import Evidence
from tacit.inference.findings import LEVEL
from tacit.inference.goodness import ACTIONS, FittedChoices, Part, fit_tests
from tacit.inference.information import fitted_scores
from tacit.inference.tails import chi_square_tail
from tacit.likelihood.kinds import KindsChain
from tacit.search.algebra import square_roots

# Most moments, and numbers of what policies are mistaken by that are drawn.
MOMENTS, NUMBERS, DRAWS, FEWEST = 30, 20_000_000, 100, 20


def logged_goodness(evidence: Evidence, task: LoggedTask, level: float, seed: int) -> Goodness:
    """The `Goodness` of a fit that converged."""
    fitted, own = evidence.fitted, evidence.chains[0]
    if isinstance(fitted.problem.chains[0], KindsChain):
        return untested("with lapses the noise of logged dynamics is not known")
    if own.chain.dynamics.estimated is None:
        return untested("rows in a world of known steps are not tested")
    sites, part, chain = len(task.demonstrations.observations), own.part, own.chain
    usual = level if level < 1.0 else LEVEL
    scores = fitted_scores(fitted, own.scores)
    actions = moments_part(evidence, task, scores)
    draws = int(np.clip(NUMBERS // (sites * task.actions), 0, DRAWS))
    if draws < FEWEST:
        return replace(judged_alone(actions, usual), residuals=np.zeros((0, 0)))
    choices = FittedChoices(
        counts=chain.counts[0, :sites],
        policy=part.policy[:sites],
        scores=scores[:, :sites],
        choices=chain.dynamics.available[:sites].sum(axis=1),
        doubt=policy_doubt(chain, part, draws, seed)[:, :sites],
        names=[chain.space.names[j] for j in np.flatnonzero(fitted.free)],
    )
    tests = fit_tests(task.demonstrations, choices, states=sites, level=usual, seed=seed)
    rest = [one for one in tests.parts if one.name != ACTIONS]
    return judged(replace(tests, parts=(actions, *rest), worst=None), usual)


def judged_alone(part: Part, level: float) -> Goodness:
    """The `Goodness` of one test, where rows are too many for the others."""
    one = replace(part, adjusted=part.p_value)
    found = untested(part.absence)
    if part.absence:
        return found
    return replace(
        found,
        statistic=part.statistic,
        p_value=part.p_value,
        adequate=part.p_value > level,
        level=level,
        parts=(one,),
    )


def moments_part(evidence: Evidence, task: LoggedTask, scores: np.ndarray) -> Part:
    """The test of the moments, at scores [D, n, A] of directions in which the fit could move."""
    own = evidence.chains[0]
    chain, part = own.chain, own.part
    if task.settled is not None and basis_findings(task, task.settled):
        return Part(name=ACTIONS, absence="some action was taken too seldom for so many functions")
    estimated: Any = chain.dynamics.estimated
    values, sites = row_functions(task), part.policy.shape[0]
    functions = np.zeros((sites, values.shape[1]))
    functions[: len(values)] = values
    policy, many = part.policy, task.actions
    contrasts = np.eye(many)[:, 1:]  # of all actions but one the moments tell the rest
    centred = contrasts[None] - (policy @ contrasts)[:, None]
    moments = (centred[:, :, None] * functions[:, None, :, None]).reshape(sites, many, -1)
    moments = moments[..., :MOMENTS]
    tables = np.concatenate([moments, np.moveaxis(scores, 0, 2)], axis=2)
    counts, visits = chain.counts[0], chain.visits
    steps = np.einsum("na,nad->nd", counts, tables)
    noise = estimated.score_influence(part.solved, tables, visits)
    flat = tables.reshape(-1, tables.shape[2])
    expected = flat.T @ (flat * (visits[:, None] * policy).reshape(-1, 1))
    size = moments.shape[2]
    # Moments less what a refit of the parameters would take away, to first order.
    onto = expected[:size, size:] @ np.linalg.pinv(expected[size:, size:])
    rest = np.concatenate([np.eye(size), -onto], axis=1)
    law = rest @ (expected + estimated.source.joint_covariance([noise])) @ rest.T
    # What a ridge does to the moments is taken off, and known no better than by its own size.
    taken_off = rest @ noise.sum(axis=0)
    half = square_roots(law + np.outer(taken_off, taken_off))[1]
    total, degrees = half @ (rest @ steps.sum(axis=0) + taken_off), len(half)
    if degrees < 1:
        return Part(name=ACTIONS, absence="no function of the row varies beside the features")
    statistic = float(total @ total)
    p_value = chi_square_tail(degrees, statistic)
    return Part(
        name=ACTIONS,
        statistic=statistic,
        p_value=p_value,
        method="chi-square",
        degrees=float(degrees),
    )


def row_functions(task: LoggedTask) -> np.ndarray:
    """[N, m] a constant and a parabola of each coordinate of the rows, orthonormal."""
    rows = task.imputing.prepared(task.demonstrations.observations[: task.demonstrations.steps])
    return Polynomials(2, cross=1).functions(rows, Scaling.of(rows)).at(rows)


def policy_doubt(chain: Any, part: Any, draws: int, seed: int) -> np.ndarray:
    """[draws, n, A] what errors of the regression move the logarithm of the policy by."""
    world, solved, random = chain.dynamics, part.solved, np.random.default_rng(seed)
    found = np.empty((draws, *part.policy.shape))
    for i in range(draws):
        moved = world.discount * world.basis.worth(world.drawn_error(solved, random))
        found[i] = moved - (part.policy * moved).sum(axis=1, keepdims=True)
    found[:, world.ends] = 0.0
    return found
