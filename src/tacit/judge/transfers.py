"""What was recovered, used where things have changed: other dynamics, starts, rewards, budgets.

A recovered objective is more than a description if it still leads to good and allowed behaviour in
a world that nobody demonstrated. It is solved again there, and judged by the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tacit.errors import InvalidModel
from tacit.forward.policies import visitation
from tacit.forward.solve import solve
from tacit.inverse.recovery import Recovery
from tacit.model.ends import uniform_policy
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

SAFE = 1e-3  # share of what an unconstrained optimum spends beyond a budget that counts as nothing
SLIP = 0.2  # chance that new dynamics do what another action would
LOOSER = 1.5  # how much larger new budgets are


@dataclass(frozen=True, eq=False, kw_only=True)
class Scales:
    """What a truth can give and take at most, so that worlds can be compared.

    Attributes:
        width: what policies can earn at most less at least, with no budget; where nothing is
            discounted and that has no end, less what random actions earn.
        beyond: [K] what the unconstrained optimum spends beyond each budget.
    """

    width: float
    beyond: np.ndarray

    @classmethod
    def of(cls, mdp: MDP, truth: Objective) -> Scales:
        """The scales of a truth in its world."""
        free = np.full(len(truth.budgets), np.inf)
        highest = solve(mdp, Objective(truth.reward, truth.costs, free), throw=False)
        if mdp.discount < 1:
            turned = Objective(-truth.reward, truth.costs, free)
            least = -float(solve(mdp, turned, throw=False).value)
        else:
            least = float((visitation(mdp, uniform_policy(mdp)) * truth.tables(mdp)[0]).sum())
        spent = spending(mdp, truth, highest.visitation)
        return cls(
            width=max(float(highest.value) - least, 1e-12),
            beyond=np.maximum(spent - truth.budgets, 1e-3 * np.maximum(np.abs(spent), 1e-12)),
        )

    def violation(self, mdp: MDP, truth: Objective, visits: np.ndarray) -> float:
        """The largest excess over a budget of these visits [S, A], on the scale of that budget."""
        excess = (spending(mdp, truth, visits) - truth.budgets) / self.beyond
        return float(np.maximum(excess, 0.0).max(initial=0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class TransferSuite:
    """Regret and violation of the recovered pair under each change.

    Attributes:
        names: "same", "dynamics", "start", "budget" and, where it can be, "reward".
        regrets: true reward that is lost, as a share of what policies can earn at most less at
            least; negative for a violator.
        violations: the largest excess over a true budget beyond what the true optimum cannot help,
            as a share of what the unconstrained optimum spends beyond it.
        share_safe: share of the changes without a violation.
    """

    names: tuple[str, ...]
    regrets: np.ndarray
    violations: np.ndarray
    share_safe: float


def transfer_suite(mdp: MDP, truth: Objective, recovered: Objective | Recovery) -> TransferSuite:
    """How a recovered objective does in the same world and in four that have changed.

    Args:
        mdp: the world it was recovered in.
        truth: what the demonstrator wanted and refused there.
        recovered: an objective, or a recovery: what it forbids is then kept forbidden.
    """
    if not isinstance(mdp, MDP) or not isinstance(truth, Objective):
        got = f"{type(mdp).__name__} and {type(truth).__name__}"
        raise InvalidModel(f"transfer_suite takes an MDP and the true Objective; got {got}")
    found, allowed = recovered, None
    if isinstance(recovered, Recovery):
        found, allowed = recovered.objective, recovered.available
    assert isinstance(found, Objective)
    scales, regrets, violations = Scales.of(mdp, truth), [], []
    worlds = changes(mdp, truth, found)
    for world, wanted, asked in worlds.values():
        best = solve(world, wanted, throw=False)
        narrowed = world
        if allowed is not None and allowed.shape == world.available.shape:
            narrowed = limited(world, allowed)
        answer = solve(narrowed, asked, throw=False)
        reward, _ = wanted.tables(world)
        earned = [float((one.visitation * reward).sum()) for one in (best, answer)]
        regrets.append((earned[0] - earned[1]) / scales.width)
        beyond = [scales.violation(world, wanted, one.visitation) for one in (best, answer)]
        violations.append(max(0.0, beyond[1] - beyond[0]))
    return TransferSuite(
        names=tuple(worlds),
        regrets=np.array(regrets),
        violations=np.array(violations),
        share_safe=float(np.mean(np.array(violations) <= SAFE)),
    )


def changes(
    mdp: MDP, truth: Objective, found: Objective
) -> dict[str, tuple[MDP, Objective, Objective]]:
    """Name -> world, truth and recovered objective, where one thing is another.

    New dynamics do what another action would, one step in five. New starts are uniform over the
    states that go on and cost nothing. New budgets are half as large again, the true and the
    recovered. A new reward is the true one turned round, known to everybody, under the constraint
    that was recovered; it needs a discount below 1.
    """
    moves, there = mdp.dense(), mdp.available[:, :, None]
    mean = (moves * there).sum(axis=1, keepdims=True) / np.maximum(there.sum(axis=1), 1)[:, None]
    slipping = np.where(there, (1.0 - SLIP) * moves + SLIP * mean, 0.0)
    slipping[mdp.ends] = moves[mdp.ends]
    _, costs = truth.tables(mdp)
    going = (~mdp.ends & ~(costs > 0).any(axis=(0, 2))).astype(float)
    going = going if going.any() else (~mdp.ends).astype(float)
    changed = {
        "same": (mdp, truth, found),
        "dynamics": (
            MDP(slipping, mdp.initial, mdp.discount, available=mdp.available), truth, found),
        "start": (replace(mdp, initial=going / going.sum()), truth, found),
        "budget": (mdp, _looser(truth), _looser(found)),
    }  # fmt: skip
    if mdp.discount < 1:
        turned = truth.reward.max() + truth.reward.min() - truth.reward
        changed["reward"] = (
            mdp,
            Objective(turned, truth.costs, truth.budgets),
            Objective(turned, found.costs, found.budgets),
        )
    return changed


def spending(mdp: MDP, truth: Objective, visits: np.ndarray) -> np.ndarray:
    """[K] expected discounted cost of these visits [S, A]."""
    _, costs = truth.tables(mdp)
    return np.array([(visits * cost).sum() for cost in costs])


def _looser(objective: Objective) -> Objective:
    return Objective(objective.reward, objective.costs, LOOSER * objective.budgets)


def limited(mdp: MDP, allowed: np.ndarray) -> MDP:
    """The world with these pairs [S, A] only; states that would be left without any keep theirs."""
    if allowed.shape != mdp.available.shape:
        known = f"{mdp.available.shape} states and actions, as the world has"
        raise InvalidModel(f"what is available must be of {known}; it is of {allowed.shape}")
    left = mdp.available & allowed
    return replace(mdp, available=np.where(left.any(axis=1, keepdims=True), left, mdp.available))
