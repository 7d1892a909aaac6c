"""What was recovered, used where things have changed: other dynamics, starts, rewards, budgets.

A recovered objective is more than a description if it still leads to good and allowed behaviour in
a world that nobody demonstrated. It is solved again there, and judged by the truth.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from tacit import (
    MDP,
    ColumnGeneration,
    Demonstrations,
    Features,
    Forbidden,
    InvalidModel,
    Objective,
    OccupancyLP,
    Recovery,
    SoftDual,
    compare,
    judge,
    policies,
    solve,
)

SAFE = 1e-3  # a violation that counts as none
LEAST = 0.1  # share of a budget that is the least unit of a violation
SLIP = 0.2  # chance that new dynamics do what another action would
LOOSER = 1.5  # how much larger new budgets are
LEAK = 1e-12  # chance to vanish in a step


@dataclass(frozen=True, eq=False, kw_only=True)
class Scales:
    """What a truth can give and take at most, so that worlds can be compared.

    Attributes:
        width: what policies can earn at most less at least, with no budget; where nothing is
            discounted and that has no end, less what random actions earn.
        beyond: [K] unit of a violation: what the unconstrained optimum spends beyond the budget,
            and at least a tenth of the budget, which it may hardly break.
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
            least = float(
                (
                    policies.visitation(mdp, policies.uniform_policy(mdp)) * truth.tables(mdp)[0]
                ).sum()
            )
        return cls(
            width=max(float(highest.value) - least, 1e-12),
            beyond=np.maximum(
                judge.excess(mdp, truth, highest.visitation),
                np.maximum(LEAST * np.abs(truth.budgets), 1e-12),
            ),
        )

    def violation(self, mdp: MDP, truth: Objective, visits: np.ndarray) -> float:
        """The largest excess over a budget of these visits [S, A], on the scale of that budget."""
        return float((judge.excess(mdp, truth, visits) / self.beyond).max(initial=0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class TransferSuite:
    """Regret and violation of the recovered pair under each change.

    Attributes:
        names: "same", "dynamics", "start", "budget" and, where it can be, "reward".
        regrets: true reward that is lost, as a share of what policies can earn at most less at
            least; negative for a violator.
        violations: the largest excess over a true budget beyond what the true optimum cannot help,
            in units of `Scales.beyond`.
        share_safe: share of the changes without a violation.
        policy: [S, A] best policy of the recovered pair in the same world.
    """

    names: tuple[str, ...]
    regrets: np.ndarray
    violations: np.ndarray
    share_safe: float
    policy: np.ndarray


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
    found_policies = []
    for world, wanted, asked in worlds.values():
        best = solve(world, wanted, throw=False)
        narrowed = world
        if allowed is not None and allowed.shape == world.available.shape:
            narrowed = world.restricted_to(allowed)
        answer = solve(narrowed, asked, throw=False)
        found_policies.append(answer.policy)
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
        policy=found_policies[0],
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


def _looser(objective: Objective) -> Objective:
    return Objective(objective.reward, objective.costs, LOOSER * objective.budgets)


def decidable(
    estimator: Forbidden,
    mdp: MDP,
    features: Features,
    demonstrations: Demonstrations,
    true: Collection[str],
    *,
    parts: bool = False,
) -> frozenset[str]:
    """The names, of those truly forbidden, that these demonstrations can tell at the level.

    Something can be told if it is tested in the world that lacks all the rest of the truth: the
    chance to avoid it there is known beforehand, and small enough beside those of all candidates.
    What nobody could enter anyway, or hardly would, cannot; nor can a set of which a part, itself a
    candidate, explains all: that the part is forbidden is all that the data say.

    Args:
        estimator: what may be forbidden, to whom, and at which level.
        mdp: the model.
        features: of the model.
        demonstrations: what was seen.
        true: names of what is forbidden.
        parts: whether to count sets of which only a part can be told.
    """
    search = estimator.selection(mdp, features, demonstrations)
    truth = [k for k, one in enumerate(search.candidates) if one.name in true]

    def told(k: int) -> bool:
        others = [other for other in truth if other != k]
        world = search.world(others)
        tested = world.tested(estimator.level)
        if parts or not tested[k]:
            return bool(tested[k])
        own, bar = world.closure.one(k), np.log(estimator.level)
        inside = np.flatnonzero(world.closure.within(own) & ~world.idle & tested).tolist()
        parts_of = [j for j in inside if not own.within(world.closure.one(j))[0]]
        return all(search.world([*others, j]).logs[k] <= bar for j in parts_of)

    return frozenset(search.candidates[k].name for k in truth if told(k))


def feasible_share(mdp: MDP, truth: Objective, policy: np.ndarray) -> float:
    """The chance to come to an end without paying any cost: the feasible reward of a goal worth 1.

    Args:
        mdp: the model.
        truth: with costs, of which none may be paid.
        policy: [S, A].
    """
    _, costs = truth.tables(mdp)
    paid = np.asarray((costs > 0).any(axis=0))
    # What a state charges it charges where an episode ends, too.
    free = ~np.all(paid, axis=1)
    chain = np.einsum("sa,sat->st", np.where(paid, 0.0, policy), mdp.dense())
    chain[mdp.ends] = 0.0
    # A way that never ends counts as none, and leaves the system with a solution.
    arrival = np.linalg.solve(
        np.eye(mdp.states) - (1.0 - LEAK) * chain * free[:, None], mdp.ends & free
    )
    return float(mdp.initial @ arrival)


def transfer(
    mdp: MDP,
    truth: Objective,
    recovered: Objective,
    *,
    reward: np.ndarray | None = None,
    budget_factors: np.ndarray | float = 1.0,
    solver: SoftDual | ColumnGeneration | OccupancyLP | None = None,
    features: Features | None = None,
    seed: int = 0,
) -> judge.Comparison:
    """The `Comparison` in another task than the one the objective was recovered from.

    Both objectives are changed in the same way, solved anew and judged in the new task. What was
    recovered as an objective must carry over; a policy that was merely copied would not.

    Args:
        mdp: the new model: other dynamics or another start, with the same states and actions.
        truth: as of `compare`.
        recovered: as of `compare`.
        reward: [S] or [S, A] a new task's reward, put in the place of both rewards: then only the
            recovered costs and budgets are on trial.
        budget_factors: scalar or [K], multiplies every budget, true and recovered: a recovered
            cost has a unit of its own, so a new true budget reaches it as a ratio.
        solver: as of `compare`.
        features: as of `compare`.
        seed: as of `compare`.
    """
    moved = [
        Objective(
            objective.reward if reward is None else reward,
            objective.costs,
            objective.budgets * budget_factors,
        )
        for objective in (truth, recovered)
    ]
    return compare(mdp, *moved, solver=solver, features=features, seed=seed)
