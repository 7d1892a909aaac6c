"""`tacit compare`: two runs side by side, or a run against the truth of a problem."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.cli.answer import Answer
from tacit.cli.compare_arguments import Compare
from tacit.cli.loading import load_problem
from tacit.cli.tables import Table
from tacit.cli.true_numbers import true_numbers
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from tacit.folders.runs import Run
    from tacit.inverse.recovery import Recovery
    from tacit.model.names import Layout


@dataclass(frozen=True)
class Number:
    """One number of an answer and how well it is known.

    Attributes:
        value: NaN where it is not known at all.
        low: lower end of its interval.
        high: upper end of its interval.
    """

    value: float
    low: float = np.nan
    high: float = np.nan

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "not known"
        if np.isnan(self.low) or np.isnan(self.high) or self.low == self.high:
            return f"{self.value:.4g}"
        return f"{self.value:.4g} [{self.low:.3g}, {self.high:.3g}]"

    def excludes(self, other: Number) -> bool:
        """Whether the two intervals have nothing in common; never where one is not known."""
        mine, its = self._range(), other._range()
        return bool(mine[0] > its[1] or its[0] > mine[1])  # false for NaN

    def _range(self) -> tuple[float, float]:
        if np.isnan(self.low) or np.isnan(self.high):
            return np.nan, np.nan
        return self.low, self.high


def command(arguments: Compare) -> Answer:
    """Reads both folders and says where they agree."""
    mine = _run(arguments.first)
    if not (arguments.second / "run.json").exists():
        return _against_truth(mine, arguments)
    its = _run(arguments.second)
    first, second = mine.recovery, its.recovery
    if first.solution.policy.shape != second.solution.policy.shape:
        raise InvalidModel(
            f"{arguments.first} and {arguments.second} must be runs of the same world; they have "
            f"[S, A] = {first.solution.policy.shape} and {second.solution.policy.shape}"
        )
    from tacit.judge.behaviour import policy_distance

    # Files may name the same states and actions in another order.
    order = np.ix_(*_orders(mine.layout, its.layout, first.solution.policy.shape, arguments))
    visitations = [first.solution.visitation, second.solution.visitation[order]]
    visits = [visitation.sum(axis=1) for visitation in visitations]
    shares = [visitation / visitation.sum() for visitation in visitations]
    distances = {
        "policy_distance": policy_distance(
            first.solution.policy, second.solution.policy[order], visits=visits[0] + visits[1]
        ),
        "visitation_distance": float(0.5 * np.abs(shares[0] - shares[1]).sum()),
    }
    titles = (str(arguments.first), str(arguments.second))
    return _answer(
        _numbers(first), _numbers(second), titles, distances, "behaviour, 0 for the same"
    )


def _run(folder: Path) -> Run:
    from tacit.folders.runs import Run

    return Run.load(folder)


def _orders(
    first: Layout, second: Layout, sizes: tuple[int, ...], arguments: Compare
) -> list[np.ndarray]:
    """For states and actions, where the second has what the first calls 0, 1, ..."""
    orders = []
    for kind, mine, its, size in (
        ("state", first.state_names, second.state_names, sizes[0]),
        ("action", first.action_names, second.action_names, sizes[1]),
    ):
        if mine == its or not mine or not its:  # without names numbers have to do
            orders.append(np.arange(size))
            continue
        place = {name: index for index, name in enumerate(its)}
        if missing := [name for name in mine if name not in place]:
            raise InvalidModel(
                f"{arguments.first} and {arguments.second} must be of the same world; "
                f"{kind} {missing[0]!r} is in the first only"
            )
        orders.append(np.array([place[name] for name in mine]))
    return orders


def _numbers(found: Recovery) -> dict[str, Number]:
    """Every number of a recovery by its name."""
    known = found.identification
    numbers = {
        f"reward: {name}": Number(float(weight), *map(float, ends))
        for name, weight, ends in zip(
            found.reward_names, found.reward_weights, known.reward_intervals, strict=True
        )
    }
    for k, names in enumerate(found.cost_names):
        pieces = zip(names, found.cost_weights[k], known.cost_intervals[k], strict=True)
        for name, weight, ends in pieces:
            numbers[f"cost {k}: {name}"] = Number(float(weight), *map(float, ends))
        price, budget = known.multiplier_intervals[k], known.budget_intervals[k]
        numbers[f"price {k}"] = Number(float(found.multipliers[k]), *map(float, price))
        numbers[f"budget {k}"] = Number(float(found.budgets[k]), *map(float, budget))
    return numbers | {"noise": Number(found.temperature)}


def _answer(
    first: dict[str, Number],
    second: dict[str, Number],
    titles: tuple[str, str],
    distances: dict[str, float],
    heading: str,
) -> Answer:
    nothing, units = Number(np.nan), _other_units(first, second)
    names = [*first, *(name for name in second if name not in first)]
    rows, data = [], []
    for name in names:
        one, other = first.get(name, nothing), second.get(name, nothing)
        apart = one.excludes(other) and _which(name) not in units
        rows.append([name, str(one), str(other), "differs" if apart else ""])
        data.append(
            {
                "name": name,
                "first": [one.value, one.low, one.high],
                "second": [other.value, other.low, other.high],
                "differs": apart,
            }
        )
    table = Table(["", *titles, ""], rows, "weights, prices and budgets, with their intervals")
    behaviour = Table(
        [heading, ""],
        [[name.replace("_", " "), float(number)] for name, number in distances.items()],
    )
    count = sum(entry["differs"] for entry in data)
    said = (
        "No interval of the one excludes that of the other."
        if not count
        else f"{count} of {len(data)} numbers differ: their intervals exclude each other."
    )
    return Answer([table, behaviour, said, *units.values()], {"numbers": data, **distances})


def _other_units(first: dict[str, Number], second: dict[str, Number]) -> dict[str, str]:
    """Number of a cost -> a sentence, for costs that the two give in other units.

    What is forbidden stands outside the weights that sum to 1, and so changes the unit of a cost.
    """
    found = {}
    for name in first:
        barred = [np.isinf(side[name].high) for side in (first, second) if name in side]
        if name.startswith("cost ") and any(barred) and not all(barred):
            feature = name.partition(": ")[2]
            found[_which(name)] = (
                f"{feature} is forbidden in one of them only: weights, price and budget of cost "
                f"{_which(name)} are in other units there, and are not judged."
            )
    return found


def _which(name: str) -> str:
    """The number of the cost that `cost 0: heat`, `price 0` or `budget 0` is about."""
    return name.partition(":")[0].split()[-1]


def _against_truth(run: Run, arguments: Compare) -> Answer:
    from tacit.forward.soft_dual import SoftDual
    from tacit.judge.comparison import compare

    problem, found = load_problem(arguments.second), run.recovery
    if problem.truth is None:
        raise InvalidModel(
            f"{arguments.second} must be a run, or a problem whose truth is known; it has no truth"
        )
    if found.solution.policy.shape != (problem.mdp.states, problem.mdp.actions):
        raise InvalidModel(
            f"{arguments.first} must be a run of {arguments.second}; they have [S, A] = "
            f"{found.solution.policy.shape} and {(problem.mdp.states, problem.mdp.actions)}"
        )
    orders = _orders(run.layout, problem.layout, found.solution.policy.shape, arguments)
    if any((np.diff(order) < 0).any() for order in orders):
        raise InvalidModel(
            f"{arguments.second} must name states and actions in the order of {arguments.first}: "
            "give it in [names] of problem.toml, or recover again"
        )
    # The truth has no noise of its own: a noisy run is judged at the noise it found.
    noise = found.temperature
    solver = SoftDual(temperature=noise) if noise > 0 else None
    judged = compare(
        problem.mdp,
        problem.truth,
        found.objective,
        solver=solver,
        recovered_policy=found.solution.policy,
        features=problem.features,
        demonstrations=problem.demonstrations,
    )
    truth = {name: Number(value, value, value) for name, value in true_numbers(problem).items()}
    titles = (str(arguments.first), f"truth of {arguments.second}")
    return _answer(_numbers(found), truth, titles, judged.scalars(), "judged in the true world")
