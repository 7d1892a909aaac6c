"""The safe set of several demonstrators whose rewards nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tacit import (
    MDP,
    ColumnGeneration,
    Demonstrations,
    Features,
    Finding,
    InvalidModel,
    Kind,
    Objective,
    Solution,
    Status,
    Task,
    data,
    methods,
    policies,
)
from tacit_lab.families.search import spans

SURE = 1e15  # steps seen of a policy that is known
Known = tuple[MDP, Features, np.ndarray]


@dataclass(frozen=True, eq=False, kw_only=True)
class SafePolicy:
    """The best policy that is as safe as its demonstrators were.

    Attributes:
        objective: the task, with the facets of the safe set that bound it as constraints.
        solution: its optimum.
        facets: [F, D] weights of the cost features, norm 1 each.
        margins: [F] standard errors of the facets' budgets.
        hull: [G, D] cost expectations of the demonstrators.
        missed: by how much each round left the safe set.
        inside: whether the last one is in it.
        findings: how large it is, and how sure.
    """

    objective: Objective
    solution: Solution
    facets: np.ndarray
    margins: np.ndarray
    hull: np.ndarray
    missed: list[float]
    inside: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class SafeSet(methods.PointEstimator):
    """Safety from demonstrators of unknown rewards (Lindner et al. 2024, CoCoRL).

    A policy whose cost expectations lie in the convex hull of the demonstrated ones, one a group of
    the demonstrations, keeps every budget that all of them kept, for any costs linear in the cost
    features; if no weight is negative, below a point of the hull is enough. The best such policy
    for a known reward is found by cutting planes: the objective holds the facets that it needs.
    Demonstrators may have worlds of their own: `solve` takes them as tasks.

    Known weakness: few demonstrators make a small, careful set, as safe as their expectations are
    known: those of their clones in their worlds. A finding says how large their sampling error is;
    `confidence` lowers every facet by it. The objective bounds its own task, not any other.

    Attributes:
        reward_weights: [D] of the task to do.
        below: whether costs are known to have no negative weights.
        tolerance: by which a facet may be missed, features scaled to range one, per horizon.
        max_steps: most facets.
        confidence: with which each facet must hold in spite of the sampling error; None to take
            the demonstrated expectations for the true ones.
    """

    reward_weights: Sequence[float]
    below: bool = True
    tolerance: float = 1e-6
    max_steps: int = 200
    confidence: float | None = field(default=None, kw_only=True)
    in_memory: ClassVar[bool] = True

    def find(self, mdp: MDP, features: Features, demonstrations: data.Observed) -> methods.Estimate:
        """The objective that has the facets of the safe set as its constraints."""
        assert isinstance(demonstrations, Demonstrations)
        safe = self.solve(mdp, features, [Task(mdp, features, demonstrations)])
        names = tuple(name for part in features.cost_names for name in part)
        return methods.Estimate(
            objective=safe.objective,
            solution=safe.solution,
            reward_weights=methods.known_weights(self.reward_weights, features)[0],
            cost_weights=list(safe.facets),
            cost_names=(names,) * len(safe.facets),
            converged=safe.inside and safe.solution.status is not Status.INFEASIBLE,
            findings=safe.findings,
            history={"missed": safe.missed},
        )

    def solve(self, mdp: MDP, features: Features, tasks: Sequence[Task | Known]) -> SafePolicy:
        """The best `SafePolicy` in a world, from demonstrators in worlds of their own.

        Args:
            mdp: where the task is to be done.
            features: of that world; cost features mean the same in every world.
            tasks: what was demonstrated where, by whom: each group is a demonstrator. Or
                (mdp, features, policy [S, A]) where a policy is known, as in the paper.
        """
        from scipy.special import ndtri

        if not features.constraints:
            raise InvalidModel("there must be cost features to be safe in; got none")
        weights, _ = methods.known_weights(self.reward_weights, features)
        costs = _all_costs(mdp, features)
        shown = _checked_demonstrators(tasks, costs.shape[2])
        hull = np.array([np.tensordot(one.visits, one.costs, 2) for one in shown])
        scale = spans(costs) * mdp.horizon
        # The facet's owner is chosen by the data: all must hold at once.
        confidence = 0.95 if self.confidence is None else self.confidence
        wide = float(ndtri(1.0 - (1.0 - confidence) / len(shown)))
        lowering = 0.0 if self.confidence is None else 1.0
        facets, budgets, margins, missed = [], [], [], []
        while True:
            own = Features(features.reward, [costs] * len(facets), features.reward_names)
            objective = own.objective(weights, facets, budgets)
            solution = ColumnGeneration().solve(mdp, objective, throw=False)
            if solution.status is Status.INFEASIBLE and lowering > 0.0:
                lowering, facets, budgets, margins = 0.0, [], [], []  # nobody is that sure
                continue
            spent = np.tensordot(solution.visitation, costs, 2)
            normal = _outward(spent / scale, hull / scale, self.below) / scale
            missed.append(float(normal @ spent - (hull @ normal).max()))
            inside = missed[-1] <= self.tolerance * max(float(np.abs(normal * scale).max()), 1e-300)
            if inside or len(facets) == self.max_steps or solution.status is Status.INFEASIBLE:
                break
            facet = normal / np.abs(normal).sum()
            errors = wide * np.array([one.error(facet) for one in shown])
            lowered = hull @ facet - lowering * errors
            facets.append(facet)
            budgets.append(float(lowered.max()))
            margins.append(float(errors[int(lowered.argmax())]))
        table = np.array(facets).reshape(len(facets), costs.shape[2])
        return SafePolicy(
            objective=objective,
            solution=solution,
            facets=table,
            margins=np.array(margins) / wide,
            hull=hull,
            missed=missed,
            inside=bool(inside),
            findings=self._told(len(hull), budgets, margins, lowering),
        )

    def _told(
        self, many: int, budgets: list[float], margins: list[float], lowering: float
    ) -> tuple[Finding, ...]:
        """How large the safe set is and how sure, in words."""
        rows = zip(margins, budgets, strict=True)
        share = max((margin / max(abs(budget), 1e-12) for margin, budget in rows), default=0.0)
        sure = 0.95 if self.confidence is None else self.confidence
        said = (
            f"The safe set is the hull of {many} demonstrated expectations; {len(budgets)} of its "
            "facets bound this task."
        )
        if lowering > 0.0:
            said += f" They are lowered by up to {share:.2g}, to hold with {sure:.0%} confidence."
            return (Finding(said, Kind.ERRORS, number=share),)
        said += (
            f" Their sampling error is not in it: with {sure:.0%} confidence a budget that all "
            f"kept is exceeded by at most {share:.2g} of it. `confidence` lowers them by that."
        )
        findings = [Finding(said, Kind.ERRORS, number=share)]
        if self.confidence is not None:
            words = (
                f"No policy is safe with {sure:.0%} confidence: there are too few demonstrators, "
                "or too little was seen of them. The facets are those that were seen."
            )
            findings.insert(0, Finding(words, Kind.UNATTAINABLE, number=share))
        return tuple(findings)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Demonstrator:
    """One demonstrator in its world, by its clone.

    Attributes:
        mdp: the world.
        costs: [S, A, D] all cost features.
        counts: [S, A] how often each action was taken.
        policy: [S, A] the clone.
        visits: [S, A] its visitation.
    """

    mdp: MDP
    costs: np.ndarray
    counts: np.ndarray
    policy: np.ndarray
    visits: np.ndarray

    def error(self, facet: np.ndarray) -> float:
        """The standard error of the expectation of these costs [D].

        By the variance of the shares of actions in each state, Dirichlet after the counts and one
        half for each action, to first order: where nobody was, all of it is open.
        """
        table, mdp = self.costs @ facet, self.mdp
        ahead = table + mdp.discount * mdp.expected_next(
            policies.policy_values(mdp, self.policy, table)
        )
        there = np.where(mdp.choices, 0.5, 0.0)
        weight = (self.counts + there).sum(axis=1)
        shares = (self.counts + there) / np.maximum(weight, 1.0)[:, None]
        shares = np.where(mdp.choices, shares, 0.0)
        mean = (shares * ahead).sum(axis=1, keepdims=True)
        spread = (shares * (ahead - mean) ** 2).sum(axis=1) / (weight + 1.0)
        return float(np.sqrt((np.where(mdp.ends, 0.0, self.visits.sum(axis=1)) ** 2) @ spread))


def _checked_demonstrators(tasks: Sequence[Task | Known], count: int) -> list[_Demonstrator]:
    """Those of all tasks, in whose worlds there are as many cost features."""
    demonstrators = [one for task in tasks for one in _demonstrators(task)]
    for one in demonstrators:
        if one.costs.shape[2] != count:
            raise InvalidModel(
                "cost features must be the same in every world; there are "
                f"{count} and {one.costs.shape[2]}"
            )
    if not demonstrators:
        raise InvalidModel("there must be at least one demonstrator; got no task")
    return demonstrators


def _demonstrators(task: Task | Known) -> list[_Demonstrator]:
    """One for each group of the demonstrations of a task; one where there are no groups."""
    if isinstance(task, tuple):
        mdp, features, policy = task
        visits = policies.visitation(mdp, policy)
        known = {"mdp": mdp, "policy": policy, "visits": visits, "counts": SURE * visits}
        return [_Demonstrator(costs=_all_costs(mdp, features), **known)]
    who, seen = task.demonstrations.groups, task.demonstrations
    names = [None] if who is None else list(dict.fromkeys(who.tolist()))
    found, costs = [], _all_costs(task.mdp, task.features)
    for name in names:
        counts = (seen if name is None else seen.select(who == name)).counts(task.mdp)
        policy = methods.cloned_policy(task.mdp, counts)
        visits = policies.visitation(task.mdp, policy)
        found.append(
            _Demonstrator(mdp=task.mdp, costs=costs, counts=counts, policy=policy, visits=visits)
        )
    return found


def _all_costs(mdp: MDP, features: Features) -> np.ndarray:
    """[S, A, D] the cost features of all constraints."""
    maps = [table if table.ndim == 3 else table[:, None] for table in features.costs]
    return np.concatenate([np.repeat(m, mdp.actions // m.shape[1], 1) for m in maps], axis=2)


def _outward(point: np.ndarray, hull: np.ndarray, below: bool) -> np.ndarray:
    """[D] from the point of the set that is nearest to this one; 0 inside it."""
    from scipy.optimize import nnls

    # Shares that add up to 1, as one more row that weighs heavily; then slack below the hull.
    heavy, size = 1e4 * max(1.0, float(np.abs(hull).max())), len(point)
    rows = np.r_[hull.T, heavy * np.ones((1, len(hull)))]
    if below:
        rows = np.c_[rows, np.r_[-np.eye(size), np.zeros((1, size))]]
    coordinates, _ = nnls(rows, np.r_[point, heavy])
    apart = point - rows[:size] @ coordinates
    return np.where(np.abs(apart) > 1e-12, apart, 0.0)
