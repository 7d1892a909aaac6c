"""Slow, plain answers to compare the library with: dense NumPy and SciPy, from the nouns only.

Nothing here is imported from `tacit.forward`. Every oracle works on the dense transitions, and the
linear programs are checked after the fact: their value is accepted only if a policy and a dual
point, both evaluated by direct linear solves, agree on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize

from tacit.model.mdp import MDP
from tacit.model.objective import Objective

# HiGHS defaults to 1e-7; the library is held to 1e-6 relative, so its judge must be sharper.
LP_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class OracleFailed(AssertionError):
    """The oracle could not vouch for its own answer: the test says nothing."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """What the occupancy program says.

    Attributes:
        feasible: whether some policy meets the budgets.
        value: optimal value; NaN if infeasible.
        multipliers: [K] one optimal dual point.
        visitation: [S, A] one optimal visitation.
    """

    feasible: bool
    value: float
    multipliers: np.ndarray
    visitation: np.ndarray


# --- policies -------------------------------------------------------------------------------------


def policy_chain(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """[S, S] probability of the next state under `policy` [S, A]."""
    return np.einsum("sa,sat->st", policy, mdp.dense())


def policy_visitation(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """[S, A] discounted visitation of `policy`, by one dense solve."""
    chain = policy_chain(mdp, policy)
    state = np.linalg.solve(np.eye(mdp.states) - mdp.discount * chain.T, mdp.initial)
    return state[:, None] * policy


def policy_value(mdp: MDP, policy: np.ndarray, table: np.ndarray) -> np.ndarray:
    """[S] discounted sum of `table` [S, A] under `policy`, by one dense solve."""
    chain = policy_chain(mdp, policy)
    return np.linalg.solve(np.eye(mdp.states) - mdp.discount * chain, (policy * table).sum(axis=1))


def one_hot(choice: np.ndarray, actions: int) -> np.ndarray:
    """[S, A] the deterministic policy that takes `choice` [S]."""
    return np.eye(actions)[np.asarray(choice)]


def best_policy(mdp: MDP, table: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Optimal value, values [S] and actions [S] for the reward `table` [S, A]: policy iteration."""
    dense = mdp.dense()
    choice = np.argmax(table, axis=1)
    rows = np.arange(mdp.states)
    scale = 1.0 + np.abs(table).max() / (1.0 - mdp.discount)
    for _ in range(1000):
        values = policy_value(mdp, one_hot(choice, mdp.actions), table)
        quality = table + mdp.discount * dense @ values
        # Only a real improvement changes the action, so that ties cannot cycle.
        better = quality.max(axis=1) > quality[rows, choice] + 1e-13 * scale
        if not better.any():
            return float(mdp.initial @ values), values, choice
        choice = np.where(better, quality.argmax(axis=1), choice)
    raise OracleFailed("policy iteration did not stop")


def all_deterministic_policies(mdp: MDP) -> np.ndarray:
    """[A ** S, S] every deterministic policy."""
    return np.array(list(product(range(mdp.actions), repeat=mdp.states)))


# --- the hard problem -----------------------------------------------------------------------------


def lagrangian(mdp: MDP, objective: Objective, multipliers: np.ndarray) -> np.ndarray:
    """[S, A] reward minus what the multipliers charge."""
    reward, costs = objective.tables(mdp)
    return reward - np.tensordot(multipliers, costs, axes=1)


def dual_value(mdp: MDP, objective: Objective, multipliers: np.ndarray) -> float:
    """g(multipliers): an upper bound of the optimal value for any multipliers >= 0."""
    best, _, _ = best_policy(mdp, lagrangian(mdp, objective, multipliers))
    return best + charged(objective, multipliers)


def charged(objective: Objective, multipliers: np.ndarray) -> float:
    """The sum of multiplier times budget; an infinite budget at multiplier 0 charges nothing."""
    used = np.asarray(multipliers) != 0
    return float(np.asarray(multipliers)[used] @ objective.budgets[used])


def flow_rows(mdp: MDP) -> np.ndarray:
    """[S, S * A] the flow equations: outflow minus discounted inflow."""
    own = np.repeat(np.eye(mdp.states), mdp.actions, axis=1)
    inflow = mdp.dense().reshape(mdp.states * mdp.actions, mdp.states).T
    return own - mdp.discount * inflow


def _program(*args: Any, **kwargs: Any) -> Any:
    """The solved program, tried sharply first: HiGHS at times gives up at its tightest setting."""
    for options in (LP_OPTIONS, {**LP_OPTIONS, "presolve": False}, {}):
        answer = linprog(*args, method="highs", options=options, **kwargs)
        if answer.status in (0, 2):
            return answer
    raise OracleFailed(f"linprog: {answer.message}")


def occupancy_program(mdp: MDP, objective: Objective) -> Optimum:
    """The optimum of the constrained problem, by the linear program over normalised visitations."""
    reward, costs = objective.tables(mdp)
    count = objective.constraints
    weight = 1.0 - mdp.discount  # visitations scaled to sum to 1 keep the program well conditioned
    bounded = np.isfinite(objective.budgets)
    rows = costs.reshape(count, mdp.states * mdp.actions)[bounded]
    answer = _program(
        -reward.ravel(),
        A_ub=rows if bounded.any() else None,
        b_ub=objective.budgets[bounded] * weight if bounded.any() else None,
        A_eq=flow_rows(mdp),
        b_eq=mdp.initial * weight,
        bounds=(0, None),
    )
    multipliers = np.zeros(count)
    if answer.status == 2:
        return Optimum(False, float("nan"), multipliers, np.zeros_like(reward))
    if bounded.any():
        multipliers[bounded] = np.maximum(-answer.ineqlin.marginals, 0.0)
    visitation = np.maximum(answer.x, 0.0).reshape(reward.shape)
    # The program is believed only where exact evaluations bracket its value.
    visitation = policy_visitation(mdp, stationary(visitation))
    primal = float((visitation * reward).sum())
    spent = np.einsum("ksa,sa->k", costs, visitation)
    dual = dual_value(mdp, objective, multipliers)
    scale = max(1.0, abs(primal))
    if dual - primal > 2e-8 * scale or (spent > objective.budgets + 1e-8 * (1 + abs(spent))).any():
        raise OracleFailed(f"oracle gap {dual - primal:g}, spent {spent} of {objective.budgets}")
    return Optimum(True, dual, multipliers, visitation)


def stationary(visitation: np.ndarray) -> np.ndarray:
    """[S, A] the stationary policy with this visitation; uniform where nothing was visited."""
    totals = visitation.sum(axis=1, keepdims=True)
    uniform = np.full_like(visitation, 1.0 / visitation.shape[1])
    return np.where(totals > 0, visitation / np.where(totals > 0, totals, 1.0), uniform)


def _dual_constraints(mdp: MDP, objective: Objective) -> tuple[np.ndarray, np.ndarray, list]:
    """Rows and right-hand sides of dual feasibility over (values [S], multipliers [K]), bounds."""
    reward, costs = objective.tables(mdp)
    rows = np.hstack([-flow_rows(mdp).T, -costs.reshape(objective.constraints, -1).T])
    bounds = [(None, None)] * mdp.states
    bounds += [(0, None) if np.isfinite(b) else (0, 0) for b in objective.budgets]
    return rows, -reward.ravel(), bounds


def distance_to_optimal_multipliers(
    mdp: MDP, objective: Objective, multipliers: np.ndarray, optimum: float, *, slack: float = 1e-9
) -> float:
    """Largest entry of the smallest move that makes `multipliers` optimal.

    Optimal means: dual value at most `optimum` + slack * max(1, |optimum|). The slack covers the
    rounding of the optimum itself.
    """
    multipliers = np.asarray(multipliers, float)
    count = objective.constraints
    if count == 0:
        return 0.0
    rows, sides, bounds = _dual_constraints(mdp, objective)
    # Centre the values at those of the given point and scale by (1 - discount): entries of order 1.
    width = mdp.states + count + 1
    weight = 1.0 - mdp.discount
    budgets = np.where(np.isfinite(objective.budgets), objective.budgets, 0.0)
    feasible = np.hstack([rows, np.zeros((len(rows), 1))])
    feasible[:, : mdp.states] /= weight
    best = np.concatenate([mdp.initial / weight, budgets, [0.0]])[None, :]
    near = np.zeros((2 * count, width))
    near[:count, mdp.states : mdp.states + count] = np.eye(count)
    near[count:, mdp.states : mdp.states + count] = -np.eye(count)
    near[:, -1] = -1.0
    limit = optimum + slack * max(1.0, abs(optimum))
    answer = _program(
        np.eye(width)[-1],
        A_ub=np.vstack([feasible, best * weight, near]),
        b_ub=np.concatenate([sides, [limit * weight], multipliers, -multipliers]),
        bounds=[*bounds, (0, None)],
    )
    if answer.status != 0:
        raise OracleFailed("no dual point reaches the optimum: the optimum given is too low")
    return float(answer.fun)


def multiplier_interval(mdp: MDP, objective: Objective, optimum: float, k: int) -> tuple:
    """Smallest and largest value of multiplier k over all optimal dual points; may be infinite."""
    rows, sides, bounds = _dual_constraints(mdp, objective)
    budgets = np.where(np.isfinite(objective.budgets), objective.budgets, 0.0)
    best = np.concatenate([mdp.initial, budgets])
    target = np.eye(mdp.states + objective.constraints)[mdp.states + k]
    ends = []
    for sign in (1.0, -1.0):
        answer = linprog(
            sign * target,
            A_ub=np.vstack([rows, best]),
            b_ub=np.append(sides, optimum + 1e-9 * max(1.0, abs(optimum))),
            bounds=bounds,
            method="highs",
        )
        if answer.status not in (0, 3):
            raise OracleFailed(answer.message)
        ends.append(sign * answer.fun if answer.status == 0 else float("inf"))
    return tuple(ends)


def brute_force(mdp: MDP, objective: Objective) -> float:
    """Optimal value over mixtures of all deterministic policies, K <= 1; -inf if infeasible.

    With one budget an optimal mixture needs two policies, so every pair is tried: no solver at all.
    """
    reward, costs = objective.tables(mdp)
    points = []
    for choice in all_deterministic_policies(mdp):
        visitation = policy_visitation(mdp, one_hot(choice, mdp.actions))
        points.append([(visitation * reward).sum(), *np.einsum("ksa,sa->k", costs, visitation)])
    points = np.array(points)
    if objective.constraints == 0:
        return float(points[:, 0].max())
    assert objective.constraints == 1
    budget = objective.budgets[0]
    gain, spent = points.T
    within = spent <= budget + 1e-12 * (1 + abs(budget))
    best = float(gain[within].max(initial=-np.inf))
    for i, j in combinations(range(len(points)), 2):
        low, high = (i, j) if spent[i] < spent[j] else (j, i)
        if spent[low] < budget < spent[high]:
            share = (budget - spent[low]) / (spent[high] - spent[low])
            best = max(best, float((1 - share) * gain[low] + share * gain[high]))
    return best


def least_cost(mdp: MDP, objective: Objective, weights: np.ndarray) -> float:
    """Smallest achievable weighted sum of discounted costs, for `weights` [K]."""
    _, costs = objective.tables(mdp)
    best, _, _ = best_policy(mdp, -np.tensordot(weights, costs, axes=1))
    return -best


def least_violation(
    mdp: MDP, objective: Objective, *, scale: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Smallest possible largest violation (spent - budget) / scale, and the weights [K] proving it.

    Negative if every budget can be met with room to spare.
    """
    _, costs = objective.tables(mdp)
    bounded = np.isfinite(objective.budgets)
    scale = np.ones(objective.constraints) if scale is None else np.asarray(scale, float)
    weight = 1.0 - mdp.discount
    rows = costs.reshape(objective.constraints, -1)[bounded]
    answer = _program(
        np.append(np.zeros(rows.shape[1]), 1.0),
        A_ub=np.hstack([rows, -scale[bounded, None]]),
        b_ub=objective.budgets[bounded] * weight,
        A_eq=np.hstack([flow_rows(mdp), np.zeros((mdp.states, 1))]),
        b_eq=mdp.initial * weight,
        bounds=[*[(0, None)] * rows.shape[1], (None, None)],
    )
    weights = np.zeros(objective.constraints)
    weights[bounded] = np.maximum(-answer.ineqlin.marginals, 0.0)
    bound = least_cost(mdp, objective, weights) - charged(objective, weights)
    value = answer.fun / weight
    if abs(bound - value) > 1e-7 * max(1.0, abs(value)):
        raise OracleFailed(f"phase one: {value} but its proof says {bound}")
    return float(bound), weights


# --- the soft problem -----------------------------------------------------------------------------


def log_sums(table: np.ndarray) -> np.ndarray:
    """[S] logarithms of the sums of exponentials; scipy's own spends most of its time on checks."""
    best = table.max(axis=1)
    return best + np.log(np.exp(table - best[:, None]).sum(axis=1))


def soft_values(mdp: MDP, table: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Soft values [S] and Boltzmann policy [S, A] of the reward `table`, by value iteration.

    It begins where policy iteration has come close, and whatever it begins with, its last change
    proves how far it is from the end.
    """
    dense = mdp.dense()
    values = np.zeros(mdp.states)
    scale = 1.0 + (np.abs(table).max() + temperature * np.log(mdp.actions)) / (1.0 - mdp.discount)
    for _ in range(60):
        quality = (table + mdp.discount * dense @ values) / temperature
        logs = quality - log_sums(quality)[:, None]
        before = values
        values = policy_value(mdp, np.exp(logs), table - temperature * logs)
        if np.abs(values - before).max() <= 1e-10 * scale:
            break
    for _ in range(200_000):
        quality = table + mdp.discount * dense @ values
        new = temperature * log_sums(quality / temperature)
        change = np.abs(new - values).max()
        values = new
        # Contraction: what is left is at most discount / (1 - discount) times the last change.
        if change * mdp.discount / (1.0 - mdp.discount) <= 1e-13 * scale or change == 0.0:
            break
        if change <= 4 * np.finfo(float).eps * scale:  # rounding: value iteration cannot do better
            break
    else:
        raise OracleFailed("soft value iteration did not stop")
    quality = table + mdp.discount * dense @ values
    policy = np.exp(quality / temperature - log_sums(quality / temperature)[:, None])
    return values, policy / policy.sum(axis=1, keepdims=True)


def soft_dual(
    mdp: MDP, objective: Objective, multipliers: np.ndarray, temperature: float
) -> tuple[float, np.ndarray]:
    """D(multipliers) and its gradient [K], budget minus spent."""
    _, costs = objective.tables(mdp)
    values, policy = soft_values(mdp, lagrangian(mdp, objective, multipliers), temperature)
    spent = np.einsum("ksa,sa->k", costs, policy_visitation(mdp, policy))
    value = float(mdp.initial @ values) + charged(objective, multipliers)
    return value, objective.budgets - spent


def soft_optimum(mdp: MDP, objective: Objective, temperature: float) -> tuple[float, np.ndarray]:
    """Optimal soft value and multipliers [K], minimising the dual by L-BFGS."""
    count = objective.constraints
    if count == 0:
        return soft_dual(mdp, objective, np.zeros(0), temperature)[0], np.zeros(0)
    answer = minimize(
        lambda multipliers: soft_dual(mdp, objective, multipliers, temperature),
        np.zeros(count),
        jac=True,
        bounds=[(0, None)] * count,
        method="L-BFGS-B",
        options={"ftol": 0.0, "gtol": 1e-11, "maxiter": 2000},
    )
    return float(answer.fun), answer.x


def causal_entropy(visitation: np.ndarray) -> float:
    """Discounted causal entropy of a visitation [S, A], in plain loops."""
    total = 0.0
    for row in visitation:
        mass = row.sum()
        for part in row:
            if part > 0:
                total -= part * np.log(part / mass)
    return float(total)


def soft_objective(solution: Any) -> float:
    """What a solver maximises: its value, and at a temperature the causal entropy."""
    return solution.value + solution.temperature * causal_entropy(solution.visitation)


# --- the certificate ------------------------------------------------------------------------------


def certificate_scale(number: float, reach: float) -> float:
    """On which a certificate judges: the number, at least 1, or what can be reached at all."""
    scale = min(max(1.0, abs(number)), max(abs(number), reach))
    return scale if scale > 0 else 1.0


def recomputed_certificate(
    mdp: MDP,
    objective: Objective,
    visitation: np.ndarray,
    values: np.ndarray,
    multipliers: np.ndarray,
    *,
    temperature: float = 0.0,
) -> dict[str, float]:
    """The four numbers from their definitions, for non-negative visitation and multipliers."""
    reward, costs = objective.tables(mdp)
    dense = mdp.dense()
    outflow = visitation.sum(axis=1)
    inflow = np.einsum("sa,sat->t", visitation, dense)
    flow = float(np.abs(outflow - mdp.discount * inflow - mdp.initial).sum())
    violation, slackness = 0.0, 0.0
    primal = float((visitation * reward).sum()) + temperature * causal_entropy(visitation)
    noise = temperature * np.log(mdp.actions)
    scale = certificate_scale(primal, (np.abs(reward).max() + noise) / (1.0 - mdp.discount))
    for cost, budget, multiplier in zip(costs, objective.budgets, multipliers, strict=True):
        spent = float((cost * visitation).sum())
        if np.isfinite(budget):
            unit = certificate_scale(budget, np.abs(cost).max() / (1.0 - mdp.discount))
            violation = max(violation, (spent - budget) / unit)
        if multiplier != 0:
            slackness = max(slackness, abs(multiplier * (budget - spent)) / scale)
    quality = lagrangian(mdp, objective, multipliers) + mdp.discount * dense @ values
    if temperature > 0:
        backup = temperature * log_sums(quality / temperature)
    else:
        backup = quality.max(axis=1)
    lift = max(0.0, float((backup - values).max())) / (1.0 - mdp.discount)
    dual = float(mdp.initial @ values) + charged(objective, multipliers) + lift
    return {
        "flow_residual": flow,
        "violation": violation,
        "duality_gap": (dual - primal) / scale,
        "slackness": slackness,
    }


# --- judgements of a solution, whoever made it ----------------------------------------------------


def judge_arrays(mdp: MDP, objective: Objective, solution: Any, *, flow: float = 1e-9) -> None:
    """Asserts that a solution's arrays fit each other, and that its certificate is theirs.

    `flow` is the flow residual the solver promises; a visitation that misses the flow by so much
    can differ from its policy's by at most `flow` / (1 - discount).
    """
    reward, costs = objective.tables(mdp)
    mass = 1.0 / (1.0 - mdp.discount)
    shape = (mdp.states, mdp.actions)
    assert solution.policy.shape == shape
    assert solution.visitation.shape == shape
    assert solution.values.shape == shape[:1]
    assert solution.multipliers.shape == solution.spent.shape == (objective.constraints,)
    for array in (solution.policy, solution.visitation, solution.values, solution.multipliers):
        assert array.dtype == np.float64
        assert np.isfinite(array).all()
    assert (solution.policy >= 0).all()
    assert (solution.visitation >= 0).all()
    assert (solution.multipliers >= 0).all()
    np.testing.assert_allclose(solution.policy.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.visitation.sum(), mass, rtol=1e-9)
    np.testing.assert_allclose(
        solution.visitation,
        policy_visitation(mdp, solution.policy),
        rtol=0,
        atol=(flow + 1e-11) * mass,
    )
    # The numbers are sums over the arrays, nothing else.
    size = 1e-12 * mass
    np.testing.assert_allclose(
        solution.value, (solution.visitation * reward).sum(), rtol=1e-10, atol=size
    )
    np.testing.assert_allclose(
        solution.spent, [(solution.visitation * c).sum() for c in costs], rtol=1e-10, atol=size
    )
    judge_certificate(mdp, objective, solution)


def judge_certificate(mdp: MDP, objective: Objective, solution: Any) -> None:
    """Asserts that the certificate is what anyone gets from the solution's arrays."""
    expected = recomputed_certificate(
        mdp,
        objective,
        solution.visitation,
        solution.values,
        solution.multipliers,
        temperature=solution.temperature,
    )
    # Rounding: sums of visitation (mass) times values, relative to the certificate's own scale.
    reward, _ = objective.tables(mdp)
    charge = np.abs(lagrangian(mdp, objective, solution.multipliers)).max()
    mass = 1.0 / (1.0 - mdp.discount)
    size = 1e-13 * (1.0 + np.abs(reward).max() + charge + np.abs(solution.values).max()) * mass
    for name, number in expected.items():
        np.testing.assert_allclose(
            getattr(solution.certificate, name), number, rtol=1e-7, atol=size, err_msg=name
        )


def judge_hard_optimum(
    mdp: MDP, objective: Objective, solution: Any, optimum: Optimum, *, tolerance: float = 1e-6
) -> None:
    """Asserts that a solution is optimal: value, budgets, and distance of the multipliers."""
    scale = max(1.0, abs(optimum.value))
    assert abs(solution.value - optimum.value) <= tolerance * scale, (solution.value, optimum.value)
    over = solution.spent - objective.budgets
    assert (over <= tolerance * np.maximum(1.0, np.abs(solution.spent))).all(), over
    dual = dual_value(mdp, objective, solution.multipliers)
    assert dual <= optimum.value + tolerance * scale, (dual, optimum.value)
    distance = distance_to_optimal_multipliers(mdp, objective, solution.multipliers, optimum.value)
    size = max(1.0, float(np.abs(solution.multipliers).max(initial=0.0)))
    assert distance <= tolerance * size, (distance, solution.multipliers)


def logit_regression(rows: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """([D] coefficients, [D, D] covariance, log-likelihood) of ordinary logit, by Newton's method.

    Args:
        rows: [n, D] regressors; the chance of 1 is 1 / (1 + exp(-rows . coefficients)).
        chosen: [n] 0 or 1.
    """
    theta = np.zeros(rows.shape[1])
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-rows @ theta))
        hessian = (rows * (chance * (1.0 - chance))[:, None]).T @ rows
        theta = theta + np.linalg.solve(hessian, rows.T @ (chosen - chance))
    chance = 1.0 / (1.0 + np.exp(-rows @ theta))
    likely = float(np.log(np.where(chosen == 1, chance, 1.0 - chance)).sum())
    return theta, np.linalg.inv((rows * (chance * (1.0 - chance))[:, None]).T @ rows), likely
