"""Distances of rewards and costs up to what behaviour cannot tell; regret and violation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel, NotConverged
from tacit.forward.policies import policy_values
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solution import entropy, priced, sizes_of, spending_scales, stationary_policy
from tacit.forward.solve import solve
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

# A canonical table this small against what was subtracted to make it is rounding: the linear solve
# behind it is exact to about 1e-14 of its right side, and its condition is 1 / (1 - discount).
ROUNDING = 1e-12


def canonical(mdp: MDP, table: npt.ArrayLike) -> np.ndarray:
    """[S, A] the table less its potential: table + discount * P V - V.

    V is the table's value to a policy that takes all available actions alike. Two tables have the
    same canonical form exactly when they differ by potential shaping, discount * P f - f for some
    f [S]; a constant is such a shaping where no episode ends. Shaping changes the return of every
    policy by the same amount, so no behaviour can tell the two apart. Linear in the table; exactly
    0 where only rounding is left, where an action is not available, and at ends.

    Args:
        mdp: the model.
        table: [S] or [S, A] a reward or a cost.
    """
    reward, _ = Objective(table).tables(mdp)
    centred = reward
    if not mdp.ends.any():
        # A constant is shaping: taking it out first spares digits.
        centred = reward - (reward[mdp.available].mean() if mdp.restricted else reward.mean())
    uniform = mdp.choices / mdp.choices.sum(axis=1, keepdims=True)
    values = policy_values(mdp, uniform, centred)
    shaped = centred + mdp.discount * mdp.expected_next(values) - values[:, None]
    if mdp.restricted:
        shaped = np.where(mdp.available, shaped, 0.0)
    size = (np.abs(reward[mdp.choices]).max() + np.abs(values).max()) * mdp.horizon
    return shaped if np.abs(shaped).max() > ROUNDING * size else np.zeros_like(shaped)


def canonical_norm(mdp: MDP, table: npt.ArrayLike) -> float:
    """The unweighted L2 norm over (s, a) of the canonical table. Range [0, inf)."""
    return float(np.linalg.norm(canonical(mdp, table)))


def starc(mdp: MDP, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """The STARC distance 0.5 * || c1 / ||c1|| - c2 / ||c2|| || of two rewards. Range [0, 1].

    c1 and c2 are the canonical tables and the norm is the unweighted L2 norm over (s, a); a table
    whose norm is 0 stays the zero vector. Symmetric. 0 exactly when the two differ by positive
    scale, constant shift and potential shaping only; 0.5 between a reward that wants something and
    one that wants nothing; 1 between opposites.

    Args:
        mdp: the model.
        first: [S] or [S, A].
        second: [S] or [S, A].
    """
    gap = _direction(canonical(mdp, first)) - _direction(canonical(mdp, second))
    return float(min(1.0, 0.5 * np.linalg.norm(gap)))


def correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Pearson's correlation of two tables of one shape. Range [-1, 1]; NaN if one is constant.

    Symmetric, invariant to positive scale and to constant shift, not to shaping. Smooth tables on
    one grid correlate whatever they mean: read it beside the same number for random weights.
    """
    first, second = np.asarray(first, float), np.asarray(second, float)
    if first.shape != second.shape:
        raise InvalidModel(f"tables must have one shape; got {first.shape} and {second.shape}")
    deviations = _deviation(first), _deviation(second)
    if not all(deviation.any() for deviation in deviations):
        return float("nan")
    return float(np.clip(np.vdot(*map(_direction, deviations)), -1.0, 1.0))


def _deviation(table: np.ndarray) -> np.ndarray:
    """The table less its mean; 0 where the rest is rounding of the mean."""
    deviation = table - table.mean()
    varies = np.abs(deviation).max() > 1e-14 * np.abs(table).max()
    return deviation if varies else np.zeros_like(deviation)


def _direction(table: np.ndarray) -> np.ndarray:
    """The table scaled to L2 norm 1, or all zeros."""
    size = np.abs(table).max()
    if size == 0.0:
        return table
    table = table / size  # squares of very small or very large entries stay in range
    return table / np.linalg.norm(table)


def lagrangian(mdp: MDP, objective: Objective, multipliers: np.ndarray) -> np.ndarray:
    """[S, A] the reward less what the multipliers [K] charge for the costs."""
    return priced(*objective.tables(mdp), multipliers)


def best_values(mdp: MDP, table: np.ndarray, *, temperature: float = 0.0) -> np.ndarray:
    """[S] value of each state to an expert who wants the table [S, A] and has no budget."""
    # Solved at size 1: tolerances of a solve are absolute for small numbers.
    size = float(np.abs(table).max()) or 1.0
    solver = SoftDual(temperature / size) if temperature > 0 else None
    return size * solve(mdp, Objective(table / size), solver=solver).values


def return_range(mdp: MDP, table: np.ndarray) -> tuple[float, float]:
    """The least and the largest expected discounted sum of a table [S, A] over all policies.

    Infinite where, at discount 1, going round for ever pays without end.
    """
    least, most = (_largest_sum(mdp, signed) for signed in (-table, table))
    return -least, max(-least, most)


def _largest_sum(mdp: MDP, table: np.ndarray) -> float:
    """The best expected sum; infinite where values are not finite, as only at discount 1."""
    try:
        values = best_values(mdp, table)
    except NotConverged:
        if mdp.discount < 1.0:
            raise
        return np.inf
    return float(mdp.initial @ values) if np.isfinite(values).all() else np.inf


def relative(amount: float, ends: tuple[float, float]) -> float:
    """The amount in units of the length of a range; 0 where both are 0, NaN where it has none."""
    length = ends[1] - ends[0]
    if not np.isfinite(length):
        return float("nan")
    if length > 1e-12 * max(abs(ends[0]), abs(ends[1])):  # else all policies return the same
        return amount / length
    return 0.0 if abs(amount) <= 1e-9 * max(1e-300, abs(ends[0]), abs(ends[1])) else np.inf


def regret(mdp: MDP, truth: Objective, visitation: np.ndarray, *, optimum: float) -> float:
    """The expert's expected discounted true reward less the behaviour's, in units of that reward.

    Range (-inf, inf): negative for a behaviour that earns more by spending more than allowed, so
    read it beside `violation`, or read `lagrangian_regret`. Invariant to shaping of the reward;
    scales with it.

    Args:
        mdp: the model.
        truth: the true objective.
        visitation: [S, A] of the behaviour to judge.
        optimum: `solution.value` of the expert.
    """
    reward, _ = truth.tables(mdp)
    return optimum - float(np.vdot(reward, visitation))


def excess(mdp: MDP, truth: Objective, visitation: np.ndarray) -> np.ndarray:
    """[K] what the behaviour spends beyond each true budget, negative where it stays within."""
    _, costs = truth.tables(mdp)
    return np.tensordot(costs, visitation, 2) - truth.budgets


def violation(mdp: MDP, truth: Objective, visitation: np.ndarray) -> float:
    """max over k of (spent - budget)+ / scale of the budget, in the true problem. Range [0, inf).

    The same number as in the certificate of a solve; 0 exactly when all true budgets are kept.
    """
    scales = spending_scales(mdp.horizon, sizes_of(truth)[1:], truth.budgets)
    return float((excess(mdp, truth, visitation) / scales).max(initial=0.0))


def lagrangian_regret(
    mdp: MDP, table: np.ndarray, visitation: np.ndarray, *, temperature: float = 0.0
) -> float:
    """p0 . V*(table) - <visitation, table>: what is lost at the true prices. Range [0, inf).

    `table` is the true reward less the true multipliers times the costs, so overspending is charged
    and cannot hide a loss: 0 exactly when every action taken is optimal at the true prices. For a
    noisy expert V* is the soft value and the behaviour's entropy counts: the result is then the
    temperature times the discounted divergence KL(behaviour | expert). Invariant to shaping.

    Args:
        mdp: the model.
        table: [S, A] the true Lagrangian.
        visitation: [S, A] of the behaviour to judge.
        temperature: noise of the expert.
    """
    best = mdp.initial @ best_values(mdp, table, temperature=temperature)
    gained = float(np.vdot(table, visitation))
    if temperature > 0:
        noise = entropy(stationary_policy(visitation))
        gained += temperature * float(visitation.sum(axis=1) @ noise)
    return max(0.0, float(best) - gained)  # below 0 is rounding


def gauged_multipliers(mdp: MDP, objective: Objective, multipliers: np.ndarray) -> np.ndarray:
    """[K] multipliers in the gauge where the canonical reward and each canonical cost have norm 1.

    multiplier_k * ||canonical cost_k|| / ||canonical reward||, with the norm of `starc`. A
    multiplier is a price, reward per cost: it means nothing before both have a unit. In this gauge
    it is invariant to the scale of the reward, to the scale of each cost with its budget, and to
    shifts and shaping of either. A multiplier of 0 stays 0; a positive one against a reward that
    wants nothing is inf.

    Args:
        mdp: the model.
        objective: reward and costs.
        multipliers: [K] optimal ones, in the units of the objective.
    """
    reward, costs = objective.tables(mdp)
    unit = canonical_norm(mdp, reward)
    norms = np.array([canonical_norm(mdp, cost) for cost in costs])
    prices = np.asarray(multipliers, float) * norms
    return np.where(prices == 0, 0.0, prices / unit if unit > 0 else np.inf)


def multiplier_errors(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[K] |difference| of two multipliers in the common gauge. Range [0, inf); symmetric.

    With none on one side, as where no constraint was recovered, its multipliers count as 0; NaN
    where the numbers of constraints differ otherwise, since nothing says which belong together.
    """
    if len(first) == len(second):
        with np.errstate(invalid="ignore"):  # two infinite ones agree
            return np.where(first == second, 0.0, np.abs(first - second))
    if 0 in (len(first), len(second)):
        return np.abs(first if len(first) else second)
    return np.full(max(len(first), len(second)), np.nan)
