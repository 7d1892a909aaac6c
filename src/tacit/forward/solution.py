"""The answer of a solve, its formulas, and the one function that judges it by the arrays alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from tacit.engine.backends import policy_visits, row_blocks, side_by_side
from tacit.errors import InvalidModel
from tacit.model.ends import check_available, check_it_ends
from tacit.model.lift import lift
from tacit.model.mdp import MDP, inside_policy, outside_policy, outside_visitation
from tacit.model.objective import Objective

Rows: TypeAlias = slice | np.ndarray  # some of the states


class Status(Enum):
    """How a solve ended. The value is the sentence shown to the user."""

    CONVERGED = "converged"
    AT_LEAST_COST = (
        "a budget equals the least achievable cost: there is no room at all, and a noisy expert "
        "meets it only in the limit of an infinite multiplier"
    )
    INFEASIBLE = "no policy meets the budgets; proof and policy of least violation are given"
    UNBOUNDED = "no finite value at these weights: going round for ever gains on every round"
    TOLERANCE_MISSED = "stopped before the tolerance was met: raise `max_steps`"


@dataclass(frozen=True)
class Certificate:
    """Numbers that let anyone judge a solution without trusting the solver; 0 at an optimum.

    Attributes:
        flow_residual: L1 norm of what the visitation creates or loses, negative parts included.
        violation: max over k of (spent - budget)+, on the scale of `spending_scales`.
        duality_gap: dual - primal, on that of `value_scale`; the dual bounds the optimum for any
            values.
        slackness: max over k of |multiplier * (budget - spent)|, on that of `value_scale`.
    """

    flow_residual: float
    violation: float
    duality_gap: float
    slackness: float

    def within(self, tolerance: float) -> bool:
        """Whether every number is at most `tolerance`; NaN never is."""
        numbers = (self.flow_residual, self.violation, abs(self.duality_gap), self.slackness)
        return all(number <= tolerance for number in numbers)


@dataclass(frozen=True, eq=False)
class PolicyMixture:
    """Draws one policy per episode; its visitation is the average. Mixing per step is another.

    Attributes:
        weights: [M] probability of each policy.
        policies: [M, S] the action of each policy in each state.
    """

    weights: np.ndarray
    policies: np.ndarray


@dataclass(frozen=True, eq=False)
class Infeasibility:
    """A proof that no policy meets the budgets: even the least weighted cost exceeds the budgets'.

    Attributes:
        weights: [K] non-negative weights of the constraints.
        least: the least weighted cost of any policy, an unconstrained MDP anyone can solve.
        allowed: the weighted sum of the budgets; `least > allowed` is the proof.
    """

    weights: np.ndarray
    least: float
    allowed: float


@dataclass(frozen=True, eq=False)
class Solution:
    """A policy for an objective, its prices, and a certificate.

    Attributes:
        policy: [S, A] stationary, randomised; 0 in the rows of states that end the episode.
        visitation: [S, A] discounted; sums to 1 / (1 - discount) where nothing ends. Arrivals in a
            state that ends the episode are spread evenly over its row.
        values: [S] value of the Lagrangian; lets anyone check the gap without solving anything.
        multipliers: [K] price of each budget.
        value: expected discounted reward of the policy.
        spent: [K] expected discounted cost of the policy.
        temperature: noise of the policy; 0 for an optimal one.
        status: how the solve ended, derived from the certificate.
        certificate: what the status rests on.
        mixture: the deterministic policies whose average this is, if the solver works with such.
        infeasibility: the proof, if there is no policy within the budgets.
        iterations: outer steps taken.
    """

    policy: np.ndarray
    visitation: np.ndarray
    values: np.ndarray
    multipliers: np.ndarray
    _: KW_ONLY
    value: float
    spent: np.ndarray
    temperature: float
    status: Status
    certificate: Certificate
    mixture: PolicyMixture | None = None
    infeasibility: Infeasibility | None = None
    iterations: int = 0

    def __repr__(self) -> str:
        numbers = np.array2string(self.multipliers, precision=6)
        return f"Solution({self.status.name}, value={self.value:.6g}, multipliers={numbers})"


def certify(
    mdp: MDP,
    objective: Objective,
    visitation: np.ndarray,
    values: np.ndarray,
    multipliers: np.ndarray,
    *,
    temperature: float = 0.0,
) -> Certificate:
    """The certificate of a primal and dual pair, computed from nothing but these arrays.

    Weak duality makes it a proof: for ANY values, p0 . values + multipliers . budgets
    + max(0, max(backup(values) - values)) / (1 - discount) bounds the optimum from above, because
    adding the Bellman residual / (1 - discount) to the values makes them feasible for the dual. At
    discount 1 the values are lifted along the expected length of the rest of an episode, and
    checked; where no such lift is found the gap is infinite.
    """
    (reward, costs), budgets = objective.tables(mdp), objective.budgets
    state_visits = row_sums(visitation)
    flow = state_visits - mdp.discount * mdp.inflow(visitation) - mdp.initial
    flow_residual = np.abs(flow).sum() - np.minimum(visitation, 0.0).sum()
    ends = mdp.ends if mdp.restricted else None
    if ends is not None:  # nobody does what is not there; arrivals in an end are no actions
        flow_residual += np.abs(visitation[~ends][~mdp.available[~ends]]).sum()
    going = state_visits if ends is None else np.where(ends, 0.0, state_visits)
    spent = costs_of(costs, visitation)
    primal = np.vdot(visitation, reward)

    def some(rows: slice) -> tuple[float, float]:
        """What these states add to the entropy of the visits, and their largest residual."""
        utility = _utility(mdp, objective, values, multipliers, rows)
        if temperature == 0.0:
            return 0.0, float((row_maxima(utility) - values[rows]).max())
        noise = np.vdot(going[rows], entropy(stationary_policy(visitation[rows])))
        return float(noise), float((soft_values(utility, temperature) - values[rows]).max())

    parts = side_by_side(some, row_blocks(mdp.states))
    primal += temperature * sum(noise for noise, _ in parts)
    residual = max(0.0, *(residual for _, residual in parts))
    if mdp.discount < 1.0:
        dual = float(mdp.initial @ values) + residual / (1.0 - mdp.discount)  # NaN if values are
    else:
        raised = lift(mdp, priced(reward, costs, multipliers), values, temperature)
        dual = np.inf if raised is None else float(mdp.initial @ (values + raised))
    reward_size, *cost_sizes = sizes_of(objective)
    gain = reward_size + temperature * float(np.log(mdp.actions))
    return certificate_of(
        flow_residual=float(flow_residual),
        primal=float(primal),
        dual=dual,
        multipliers=multipliers,
        budgets=budgets,
        spent=spent,
        unit=value_scale(float(primal), gain * mdp.horizon),
        units=spending_scales(mdp.horizon, cost_sizes, budgets),
    )


def certificate_of(
    *,
    flow_residual: float,
    primal: float,
    dual: float,
    multipliers: np.ndarray,
    budgets: np.ndarray,
    spent: np.ndarray,
    unit: float,
    units: np.ndarray,
) -> Certificate:
    """The certificate of sums over all states.

    Args:
        flow_residual: as in the certificate.
        primal: what the visitation collects, its entropy at the temperature included.
        dual: a bound on what any can collect at the multipliers, budgets not counted.
        multipliers: [K].
        budgets: [K].
        spent: [K].
        unit: on which values count.
        units: [K] on which spending counts.
    """
    violation, slackness = 0.0, 0.0
    for price, budget, cost, size in zip(multipliers, budgets, spent, units, strict=True):
        if price < 0 or (price > 0 and budget == np.inf):
            dual = np.inf  # the bound holds only for non-negative prices, 0 for no budget at all
        elif price > 0 or np.isnan(price):
            dual += price * budget
            slackness = np.maximum(slackness, abs(price * (budget - cost)) / unit)
        if budget < np.inf:
            violation = np.maximum(violation, (cost - budget) / size)
    return Certificate(
        flow_residual=flow_residual,
        violation=float(violation),
        duality_gap=float((dual - primal) / unit),
        slackness=float(slackness),
    )


def sizes_of(objective: Objective) -> list[float]:
    """[1 + K] the largest absolute reward, and that of each cost; kept with the objective."""
    sizes = objective.__dict__.get("_sizes")
    if sizes is None:
        sizes = [largest_entry(table) for table in (objective.reward, *objective.costs)]
        objective.__dict__["_sizes"] = sizes
    return sizes


def spending_scales(
    horizon: float, dearest: Sequence[float] | np.ndarray, budgets: np.ndarray
) -> np.ndarray:
    """[K] the scale on which spending counts: its budget, or 1, but no more than can be spent.

    An episode spends at most its length, the `horizon`, times the `dearest` [K] action; where that
    is nothing, or less than the budget, the budget alone is the scale.
    """
    return np.array(
        [
            value_scale(budget if budget < np.inf else 0.0, horizon * size)
            for budget, size in zip(budgets.tolist(), dearest, strict=True)
        ]
    )


def value_scale(value: float, reach: float) -> float:
    """The scale on which values count: the value, or 1, but no more than can be reached."""
    size = abs(value)
    scale = min(max(1.0, size), max(size, reach))
    return scale if scale > 0.0 else 1.0  # NaN is on the scale of 1


def costs_of(costs: np.ndarray, visitation: np.ndarray) -> np.ndarray:
    """[K] what a visitation [S, A] spends, for cost tables [K, S, A]."""
    return costs.reshape(-1, visitation.size) @ visitation.ravel()


def priced(reward: np.ndarray, costs: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    """[S, A] the Lagrangian's reward: what is wanted less what is refused, at its price."""
    if len(costs) == 0:
        return reward
    return reward - (multipliers @ costs.reshape(len(costs), -1)).reshape(reward.shape)


def status_of(
    certificate: Certificate,
    tolerance: float,
    *,
    proof: Infeasibility | None = None,
    no_room: bool = False,
    unbounded: bool = False,
) -> Status:
    """How a solve ended, from its certificate and what was proven; no solver says it by itself.

    Args:
        certificate: of the solution.
        tolerance: largest entry that counts as converged.
        proof: that no policy meets the budgets, where there is one.
        no_room: whether budgets any smaller could not be met: multipliers are huge then and magnify
            rounding beyond the tolerance, or have no finite value at all.
        unbounded: whether policies were found that gain without end, at discount 1.
    """
    if proof is not None and proof.least > proof.allowed:
        return Status.INFEASIBLE
    if unbounded:
        return Status.UNBOUNDED
    if no_room:
        return Status.AT_LEAST_COST
    return Status.CONVERGED if certificate.within(tolerance) else Status.TOLERANCE_MISSED


def conclude(
    mdp: MDP,
    objective: Objective,
    visitation: np.ndarray,
    values: np.ndarray,
    multipliers: np.ndarray,
    *,
    tolerance: float,
    temperature: float = 0.0,
    policy: np.ndarray | None = None,
    mixture: PolicyMixture | None = None,
    infeasibility: Infeasibility | None = None,
    iterations: int = 0,
    unbounded: bool = False,
) -> Solution:
    """The `Solution` of these arrays, its status derived from the certificate and the proof.

    `visitation` and `policy` may have the form that solvers see (`model/ends.py`).
    """
    reward, costs = objective.tables(mdp)
    visitation = outside_visitation(mdp, visitation)
    certificate = certify(mdp, objective, visitation, values, multipliers, temperature=temperature)
    status = status_of(certificate, tolerance, proof=infeasibility, unbounded=unbounded)

    def best(states: np.ndarray) -> np.ndarray:
        """[n] what to do in states that nobody visits."""
        if mdp.discount == 1.0:  # the best of several alike may go round for ever, the walk not
            return mdp.walk[0][states]
        return _utility(mdp, objective, values, multipliers, states).argmax(axis=1)

    policy = stationary_policy(visitation, best) if policy is None else policy
    return Solution(
        policy=outside_policy(mdp, policy),
        visitation=visitation,
        values=values,
        multipliers=multipliers,
        value=float(np.vdot(visitation, reward)),
        spent=costs_of(costs, visitation),
        temperature=temperature,
        status=status,
        certificate=certificate,
        mixture=mixture,
        infeasibility=infeasibility if status is Status.INFEASIBLE else None,
        iterations=iterations,
    )


def _utility(
    mdp: MDP, objective: Objective, values: np.ndarray, multipliers: np.ndarray, rows: Rows
) -> np.ndarray:
    """[R, A] what each action is worth in some states; minus infinity where it is not there."""
    reward, costs = objective.tables_of(mdp.states, mdp.actions)
    later = mdp.discount * mdp.expected_next_of(rows, values)
    utility = priced(reward[rows], costs[:, rows], multipliers) + later
    return np.where(mdp.choices[rows], utility, -np.inf) if mdp.restricted else utility


def soft_values(utility: np.ndarray, temperature: float) -> np.ndarray:
    """[S] temperature * logsumexp(utility / temperature) over actions, without overflow."""
    best = row_maxima(utility)
    return best + temperature * np.log(row_sums(np.exp((utility - best[:, None]) / temperature)))


def entropy(policy: np.ndarray) -> np.ndarray:
    """[S] entropy of the actions, in nats."""
    return row_sums(-policy * np.log(np.where(policy > 0, policy, 1.0)))


def row_sums(table: np.ndarray) -> np.ndarray:
    """[S] sums over the actions of `table` [S, A], as a product: several times faster."""
    return table @ np.ones(table.shape[1])


def row_maxima(table: np.ndarray) -> np.ndarray:
    """[S] maxima over the actions of `table` [S, A], column by column where those are few."""
    tall = len(table) >= 1000 and table.shape[1] <= 16
    return functools.reduce(np.maximum, table.T) if tall else table.max(axis=1)


def largest_entry(table: np.ndarray) -> float:
    """The largest absolute value of a table, without a table of absolute values."""
    return max(float(table.max()), -float(table.min()))


def stationary_policy(
    visitation: np.ndarray, fallback: Callable[[np.ndarray], np.ndarray] | None = None
) -> np.ndarray:
    """[S, A] the stationary policy with this visitation.

    States [n] that are never visited take the actions `fallback(states)` [n], or are uniform.
    """
    visits, actions = row_sums(visitation)[:, None], visitation.shape[1]
    lost = np.flatnonzero(~(visits[:, 0] > 0))
    if not len(lost):
        return visitation / visits
    policy = visitation / np.where(visits > 0, visits, 1.0)
    policy[lost] = 1.0 / actions if fallback is None else np.eye(actions)[fallback(lost)]
    return policy


def visitation(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """[S, A] discounted visitation of a stationary policy [S, A]; sums to 1 / (1 - discount).

    Where episodes end it sums to their expected discounted length; the arrivals in an end are
    spread evenly over its row.
    """
    policy = check_policy(mdp, policy)
    return outside_visitation(mdp, policy_visits(mdp, policy)[:, None] * policy)


def check_policy(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """The policy as float64 [S, A], or `InvalidModel` naming the worst row.

    Rows of ends, 0 outside, come back with the one choice that solvers see there.
    """
    policy = np.asarray(policy, dtype=np.float64)
    if policy.shape != (mdp.states, mdp.actions):
        raise InvalidModel(
            f"policy must have shape [S, A] = ({mdp.states}, {mdp.actions}); got {policy.shape}"
        )
    policy = inside_policy(mdp, policy)
    error = np.abs(policy.sum(axis=1) - 1.0) - 2.0 * np.minimum(policy, 0.0).sum(axis=1)
    worst = int(error.argmax())  # NaN is the worst
    if not error[worst] <= 1e-6:
        raise InvalidModel(
            f"policy must hold a distribution over actions for every state; "
            f"state {worst} has {policy[worst]}"
        )
    if mdp.restricted:
        check_available(mdp, policy)
        check_it_ends(mdp, policy)
    return policy
