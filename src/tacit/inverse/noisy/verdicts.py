"""Tests of fits with very many features: whether constraints are active, whether the model fits.

Laws are simulated: actions are drawn again at the visited states, and a refit is one Newton step
within the bounds from the fit that drew them. That needs the scores of all features written out;
where they are too many for it, a test is a bound on its chance, or is not made, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed, tally_of
from tacit.inverse.findings import LEVEL
from tacit.inverse.goodness import ACTIONS, Goodness, Part, combined, untested
from tacit.inverse.noisy import priced
from tacit.inverse.noisy.adjoint import Place, can_write_out, written_scores
from tacit.inverse.noisy.goodness import drawn_part, noisy_goodness
from tacit.inverse.noisy.inference import information
from tacit.inverse.noisy.posterior import Ended
from tacit.inverse.noisy.steps import prune
from tacit.inverse.parameters import BLIND, inverse_information

if TYPE_CHECKING:
    from tacit.inverse.noisy.likelihood import Likelihood

# Draws of a law, and steps by which each is fitted again.
DRAWS, STEPS = 199, 400
# Directions, drawn at random, in which trajectories are compared with each other.
DIRECTIONS = 12

Minimise = Callable[[Ended, np.ndarray], Ended]


def active_constraints(
    full: Ended, options: Likelihood, minimise: Minimise
) -> tuple[Ended, np.ndarray, bool]:
    """The fit with only the constraints shown to be active, [K] p-values, and if they are bounds.

    NaN for a constraint that was not tested: under a prior no law is known, nor where a search did
    not converge or a price was fixed.

    Args:
        full: the fit with every constraint.
        options: level and seed.
        minimise: (fit, upper bounds [D]) -> the fit within them.
    """
    design = full.loss.design
    given = priced(design.blocks, full.loss.lower)
    constraints = [k for k in range(design.constraints) if k not in given]
    p_values, simulated = np.full(design.constraints, np.nan), can_write_out(design)
    if full.loss.penalty is not None or not full.fit(options.tolerance).converged:
        return full, p_values, False

    def test(fitted: Ended, k: int) -> tuple[float, Ended]:
        upper = fitted.loss.upper.copy()
        upper[design.blocks[1 + k]] = 0.0
        less = minimise(fitted, upper)
        ratio = 2.0 * (less.descent.place.loss - fitted.descent.place.loss)
        tested = np.zeros(design.size, bool)
        tested[design.blocks[1 + k]] = fitted.loss.upper[design.blocks[1 + k]] > 0
        chance = _simulated if simulated else _bound
        return chance(max(ratio, 0.0), less, tested, options.seed), less

    kept, _, found = prune(full, constraints, test, options.level)
    p_values[list(found)] = list(found.values())
    return kept, p_values, not simulated


def _held(less: Ended) -> np.ndarray:
    """[D] bool, the parameters on a bound that they might leave."""
    return (less.descent.place.x <= less.loss.lower) & (less.loss.upper > less.loss.lower)


def _bound(ratio: float, less: Ended, tested: np.ndarray, seed: int) -> float:
    """The chance of a chi-square with all tested parameters and all on a bound: at least the true.

    Takes no draws: `seed` is of no account.
    """
    from scipy.special import chdtrc

    return float(chdtrc(int(tested.sum()) + int(_held(less).sum()), ratio))


def _simulated(ratio: float, less: Ended, tested: np.ndarray, seed: int) -> float:
    """The chance of a likelihood ratio this large if the tested parameters [D] are all 0."""
    if ratio == 0.0 or not tested.any():
        return 1.0
    loss, place = less.loss, less.descent.place
    held = _held(less) & ~tested
    free = ~held & ~tested & (loss.upper > loss.lower)
    scores = written_scores(loss.mdp, loss.design, place.policy)
    fisher = information(scores, place.policy, loss.visits)
    inverse, _ = inverse_information(fisher, free)
    cone = np.flatnonzero(tested | held)
    across = fisher[cone] @ inverse
    left = fisher[np.ix_(cone, cone)] - across @ fisher[:, cone]
    seen = np.diagonal(left) > BLIND * np.maximum(np.diagonal(fisher)[cone], 1e-300)
    cone, across, left = cone[seen], across[seen], left[np.ix_(seen, seen)]
    if not tested[cone].any():
        return 1.0  # nothing that the free parameters could not do as well
    unit = np.sqrt(np.diagonal(left))
    drawn = _scored(scores, _noise(place, loss.visits, seed))  # [n, D]
    rest = (drawn[:, cone] - drawn @ across.T) / unit
    left = left / np.outer(unit, unit)
    both, without = (_gain(left, rest, who) for who in (np.ones(len(cone), bool), ~tested[cone]))
    # One more in both counts: a simulated law cannot vouch for a chance of zero.
    return float((1 + (both - without >= ratio).sum()) / (1 + DRAWS))


def _noise(place: Place, visits: np.ndarray, seed: int) -> np.ndarray:
    """[n, S, A] counts drawn at the visited states from the fitted policy, less the expected."""
    random, whole = np.random.default_rng(seed), visits.astype(np.int64)
    chances = place.policy / np.maximum(place.policy.sum(axis=1, keepdims=True), 1e-300)
    drawn = np.zeros((DRAWS, *chances.shape))
    at = np.flatnonzero(whole > 0)
    drawn[:, at] = random.multinomial(whole[at], chances[at], size=(DRAWS, len(at)))
    return drawn - whole[:, None] * chances


def _scored(scores: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """[n, D] the scores [D, S, A] of drawn counts [n, S, A]."""
    return noise.reshape(len(noise), -1) @ scores.reshape(len(scores), -1).T


def _gain(matrix: np.ndarray, scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """[n] max over y >= 0, 0 outside `allowed`, of 2 y . score - y' matrix y, for scores [n, d].

    Accelerated projected gradient steps on all draws at once, begun anew where they overshoot.
    """
    rows = np.flatnonzero(allowed)
    if not len(rows):
        return np.zeros(len(scores))
    inner, slopes = matrix[np.ix_(rows, rows)], scores[:, rows]
    step = 1.0 / max(float(np.linalg.eigvalsh(inner)[-1]), 1e-12)
    y = np.zeros_like(slopes)
    ahead, pace = y, 1.0
    for _ in range(STEPS):
        new = np.maximum(ahead + step * (slopes - ahead @ inner), 0.0)
        if ((slopes - ahead @ inner) * (new - y)).sum() < 0.0:
            new, pace = np.maximum(y + step * (slopes - y @ inner), 0.0), 1.0
        quicker = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * pace**2))
        ahead, change = new + (pace - 1.0) / quicker * (new - y), np.abs(new - y).max()
        y, pace = new, quicker
        if change <= 1e-7 * (1.0 + np.abs(y).max()):
            break
    return 2.0 * (y * slopes).sum(axis=1) - ((y @ inner) * y).sum(axis=1)


def goodness_of_many(demonstrations: Observed, ended: Ended, options: Likelihood) -> Goodness:
    """Whether the model fits: actions by Pearson's test, trajectories in a few directions."""
    loss, place = ended.loss, ended.descent.place
    if not ended.fit(options.tolerance).converged or ended.boundless:
        return untested("the search found no maximum")
    if not can_write_out(loss.design):
        return untested(f"the law of a fit of {loss.design.size} features is too large to simulate")
    scores = written_scores(loss.mdp, loss.design, place.policy)
    free = ended.fit(options.tolerance).free
    choices = np.asarray(loss.mdp.available.sum(axis=1))
    level = options.level if options.level < 1.0 else LEVEL
    asked = {"counts": loss.seen, "policy": place.policy, "choices": choices}
    whole = demonstrations if isinstance(demonstrations, Demonstrations) else None
    mixed = np.random.default_rng(options.seed).standard_normal((DIRECTIONS, int(free.sum())))
    few = np.tensordot(mixed, scores[free], 1)
    found = noisy_goodness(
        tally_of(loss.mdp, demonstrations) if whole is None else whole,
        **asked,
        scores=few,
        free=np.ones(len(few), bool),
        level=level,
        seed=options.seed,
    )
    actions = _actions_part(ended, scores, free, choices, options.seed)
    return combined(
        [actions, *(part for part in found.parts if part.name != ACTIONS)],
        level=level,
        residuals=found.residuals,
        trajectory_residuals=found.trajectory_residuals,
        worst=found.worst,
    )


def _actions_part(
    ended: Ended, scores: np.ndarray, free: np.ndarray, choices: np.ndarray, seed: int
) -> Part:
    """Pearson's test of the actions, its law from draws that are fitted again by one step.

    Under a prior the step is penalised too, and begins with the pull of the prior: what it takes
    from the fit it takes from the draws as well.
    """
    loss, place = ended.loss, ended.descent.place
    at = np.flatnonzero(loss.visits > 0)
    visits = loss.visits[at]
    rank = int(free.sum())
    if loss.penalty is None and int((choices[at] - 1).clip(0).sum()) <= rank:
        return Part(name=ACTIONS, absence="there are as many parameters as choices")
    expected = visits[:, None] * place.policy[at]
    safe = np.where(expected > 0, np.maximum(expected, 1e-300), 1.0)
    fisher = information(scores, place.policy, loss.visits)
    whole = fisher if loss.penalty is None else fisher + loss.penalty.toarray()
    inverse, _ = inverse_information(whole, free)
    noise = _noise(place, loss.visits, seed)
    steps = (_scored(scores, noise) - loss.pulled(place.x)) @ inverse
    flat = scores[:, at].reshape(len(scores), -1)
    moved = expected.ravel() * (steps @ flat)
    left = noise[:, at].reshape(len(noise), -1) - moved
    law = (left**2 / safe.ravel()).sum(axis=1)
    statistic = float(((loss.seen[at] - expected) ** 2 / safe).sum())
    return replace(drawn_part(ACTIONS, statistic, law), method="bootstrap")
