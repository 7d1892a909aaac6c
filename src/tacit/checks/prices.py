"""What a budget is worth: value and price of one budget, from the least cost to where it is slack.

The best value is concave in the budget, and its slope is the price.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.errors import InvalidModel
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.solution import Certificate, Solution, Status, entropy, stationary_policy
from tacit.forward.solve import Solver, solve
from tacit.inference.findings import Finding, Kind
from tacit.model.mdp import MDP
from tacit.model.objective import Objective

# Budgets closer than this, relative to their size, are one.
SAME = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class PriceCurve:
    """Value and price of one budget, everything else being equal.

    Attributes:
        constraint: whose budget moves.
        budgets: [P] from the least that can be met to the first that does not matter.
        values: [P] expected discounted reward of the best policy.
        multipliers: [P] price: what one unit more of the budget buys. Where the slope jumps every
            price between the slopes on both sides is one.
        spent: [P] expected discounted cost of the constraint.
        noise: [P] temperature times discounted entropy, which a noisy expert maximises along with
            the value: the price is the slope of their sum. 0 for an expert without noise.
        certificates: one per point.
        statuses: one per point.
    """

    constraint: int
    budgets: np.ndarray
    values: np.ndarray
    multipliers: np.ndarray
    spent: np.ndarray
    noise: np.ndarray
    certificates: tuple[Certificate, ...]
    statuses: tuple[Status, ...]

    def __repr__(self) -> str:
        low, high = self.budgets[[0, -1]]
        return (
            f"PriceCurve(constraint {self.constraint}: {len(self)} budgets from {low:.4g} to "
            f"{high:.4g})"
        )

    def __len__(self) -> int:
        return len(self.budgets)

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What the curve says, as findings."""
        if len(self) == 1:
            said = f"The budget of constraint {self.constraint} never matters."
            return (Finding(said, Kind.SLACK, constraint=self.constraint),)
        low, high = self.budgets[0], self.budgets[-1]
        texts = [
            f"No policy spends less than {low:.4g} of cost {self.constraint}; beyond {high:.4g} "
            "its budget no longer matters."
            if self.noise[0] == 0.0
            else f"Beyond {high:.4g} the budget of constraint {self.constraint} no longer matters.",
            (
                f"From {low:.4g} to {high:.4g} the value goes from {self.values[0]:.4g} to "
                f"{self.values[-1]:.4g}, and the price of one unit falls from "
                f"{self.multipliers[0]:.4g} to {self.multipliers[-1]:.4g}."
            ),
        ]
        said = [Finding(text, constraint=self.constraint) for text in texts]
        missed = sum(status is Status.TOLERANCE_MISSED for status in self.statuses)
        if missed:
            text = f"{missed} of {len(self)} points missed the tolerance."
            said.append(
                Finding(text, Kind.NOT_CONVERGED, constraint=self.constraint, number=missed)
            )
        return tuple(said)


def price_curve(
    mdp: MDP,
    objective: Objective,
    *,
    constraint: int = 0,
    points: int = 21,
    solver: Solver | None = None,
) -> PriceCurve:
    """The `PriceCurve` of one budget, the others being kept.

    Args:
        mdp: the known world.
        objective: what is wanted and what is refused; the budget in question does not matter.
        constraint: whose budget to move.
        points: how many budgets to solve for.
        solver: as for `solve`.
    """
    if not isinstance(mdp, MDP) or not isinstance(objective, Objective):
        got = f"{type(mdp).__name__} and {type(objective).__name__}"
        raise InvalidModel(f"price_curve takes an MDP and an Objective; got {got}")
    if not 0 <= constraint < objective.constraints:
        raise InvalidModel(
            f"constraint must be one of the {objective.constraints} of the objective, from 0; "
            f"got {constraint}"
        )
    if points < 2:
        raise InvalidModel(f"points must be at least 2; got {points}")
    chosen = ColumnGeneration() if solver is None else solver
    lifted, (reward, costs) = _with_budget(objective, constraint, np.inf), objective.tables(mdp)
    free = solve(mdp, lifted, solver=chosen)
    exact = ColumnGeneration() if free.temperature > 0 else chosen
    # Least cost of the constraint wanted, its own budget lifted, the others kept.
    least = solve(mdp, Objective(-costs[constraint], costs, lifted.budgets), solver=exact)
    low, high = float(least.spent[constraint]), float(free.spent[constraint])
    if free.temperature == 0:  # of all that are best without the budget, what the cheapest spends
        kept = np.append(lifted.budgets, -free.value)
        thrifty = Objective(-costs[constraint], [*costs, -reward], kept)
        high = float(exact.solve(mdp, thrifty, guess=free, throw=False).spent[constraint])
    if high - low <= SAME * max(1.0, abs(high)):
        budgets = np.array([high])
    elif free.temperature > 0:  # a noisy expert reaches the least cost at an infinite price only
        budgets = np.linspace(low, high, points + 1)[1:]
    else:
        budgets = np.linspace(low, high, points)
    found, guess = [], free
    for budget in budgets[::-1]:  # each from the solution of the next larger one
        asked = _with_budget(objective, constraint, float(budget))
        guess = chosen.solve(mdp, asked, guess=guess, throw=False)
        found.append(guess)
    found.reverse()
    return PriceCurve(
        constraint=constraint,
        budgets=budgets,
        values=np.array([one.value for one in found]),
        multipliers=np.array([one.multipliers[constraint] for one in found]),
        spent=np.array([one.spent[constraint] for one in found]),
        noise=np.array([_noise(mdp, one) for one in found]),
        certificates=tuple(one.certificate for one in found),
        statuses=tuple(one.status for one in found),
    )


def _noise(mdp: MDP, solution: Solution) -> float:
    """Temperature times discounted entropy; nothing is chosen at an end."""
    if solution.temperature == 0:
        return 0.0
    visits = np.where(mdp.ends, 0.0, solution.visitation.sum(axis=1))
    return float(solution.temperature * visits @ entropy(stationary_policy(solution.visitation)))


def _with_budget(objective: Objective, constraint: int, budget: float) -> Objective:
    budgets = objective.budgets.copy()
    budgets[constraint] = budget
    return Objective(objective.reward, objective.costs, budgets)
