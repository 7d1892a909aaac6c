"""`tacit solve`: value, spending, prices and certificate of a truth, or of what was recovered."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

from tacit.cli.terminal import Answer, Terminal, finding_data, shown_default, table_text
from tacit.errors import Infeasible, InvalidModel

if TYPE_CHECKING:
    from tacit.checks.prices import PriceCurve
    from tacit.folders.problem import Problem
    from tacit.forward.solution import Solution
    from tacit.forward.solve import Solver
    from tacit.inverse.findings import Finding
    from tacit.model.objective import Objective


# Flows that are listed, those that change most first.
MOST_FLOWS = 10


@dataclass(frozen=True, kw_only=True)
class Solve:
    """Solve a problem whose truth is known: best policy within the budgets, and their prices.

    The truth is [truth] in problem.toml, or what tacit simulate wrote. With --recovered what a
    run found takes its place: the world of the problem may then be another one.
    """

    problem: Path
    """folder of the problem"""
    solver: Literal["column-generation", "occupancy-lp", "soft-dual"] = "column-generation"
    """exact, exact by one linear program, or that of a noisy expert"""
    temperature: Annotated[Optional[float], shown_default("0.1")] = None
    """soft-dual: noise of the expert, in units of the reward"""
    recovered: Annotated[Optional[Path], shown_default("solve the truth")] = None
    """folder of a run whose recovered objective is solved in the place of the truth"""
    cautious: bool = False
    """recovered: keep within the budgets of every objective that the run leaves possible"""
    price_curve: int = 0
    """number of budgets at which to compute value and price; 0 for no curve"""
    constraint: int = 0
    """number of the constraint whose budget the price curve moves, from 0"""
    out: Annotated[Optional[Path], shown_default("write nothing")] = None
    """folder for solution.npz, policy.csv and the price curve"""

    def __post_init__(self) -> None:
        if self.cautious and self.recovered is None:
            raise InvalidModel("cautious is about what was recovered: name a run by --recovered")
        if self.price_curve < 0 or self.price_curve == 1:
            raise InvalidModel(f"price_curve must be 0, or at least 2; got {self.price_curve}")
        if self.temperature is not None and self.solver != "soft-dual":
            raise InvalidModel(
                f"temperature is an option of soft-dual; the solver is {self.solver}"
            )
        if self.temperature is not None and not 0.0 < self.temperature < float("inf"):
            raise InvalidModel(f"temperature must be a positive number; got {self.temperature}")

    def run(self, terminal: Terminal) -> Answer:
        """Solves the problem, writes what was asked for, and says what was found."""
        from tacit.checks import price_curve
        from tacit.files.atomic import refuse_taken, write_folder
        from tacit.forward.solve import solve

        if self.out is not None:
            refuse_taken(self.out)
        problem = terminal.load_problem(self.problem)
        if problem.goal:
            return _solve_trips(self, problem)
        notes: tuple[Finding, ...] = ()
        if self.recovered is not None:
            objective = _recovered(self.recovered, problem, cautious=self.cautious)
            problem, notes = replace(problem, truth=objective), getattr(objective, "findings", ())
        truth = problem.truth
        if truth is None:
            raise InvalidModel(
                f"{self.problem} must hold the truth to solve: [truth] in problem.toml, with "
                "reward, costs and budgets"
            )
        solver = self._solver()
        try:
            solution = solve(problem.mdp, truth, solver=solver)
        except Infeasible as error:
            raise Infeasible(_proof(error, problem), error.solution) from None
        curve = None
        if self.price_curve:
            asked = {"constraint": self.constraint, "points": self.price_curve}
            curve = price_curve(problem.mdp, truth, **asked, solver=solver)
        if self.out is not None:
            write_folder(self.out, lambda folder: _write(folder, problem, solution, curve))
        text, data = _text(problem, solution, curve, self), _data(problem, solution, curve)
        data["findings"] = [finding_data(one) for one in notes]
        return Answer([*text[:1], *notes, *text[1:]], data)

    def _solver(self) -> Solver:
        from tacit.forward.column_generation import ColumnGeneration
        from tacit.forward.occupancy_lp import OccupancyLP
        from tacit.forward.soft_dual import SoftDual

        if self.solver == "soft-dual":
            given = self.temperature
            return SoftDual() if given is None else SoftDual(temperature=given)
        return OccupancyLP() if self.solver == "occupancy-lp" else ColumnGeneration()


def _recovered(folder: Path, problem: Problem, *, cautious: bool) -> Objective:
    """What the run in a folder found, to be solved in the world of the problem."""
    from tacit.folders.runs import Run

    recovery = Run.load(folder).recovery
    world, own = (problem.mdp.states, problem.mdp.actions), recovery.solution.policy.shape
    if world != own:
        raise InvalidModel(
            f"{folder} must speak of the states and actions of the problem, {world}; got {own}"
        )
    return recovery.cautious(problem.mdp) if cautious else recovery.objective


def _solve_trips(arguments: Solve, problem: Problem) -> Answer:
    """The flows of a run's trips in this network, which may be another than they were seen in."""
    import numpy as np

    from tacit.checks import reroute
    from tacit.files.atomic import write_folder
    from tacit.files.tables import write_columns
    from tacit.folders.runs import Run
    from tacit.inverse.joint.traveller import TripsRecovery
    from tacit.search.algebra import largest_first

    if arguments.recovered is None:
        raise InvalidModel(
            f"{arguments.problem}: recovered must name a run of trips, whose coefficients, origins "
            'and goals a folder with goal = "last" is solved with; got none'
        )
    run = Run.load(arguments.recovered)
    found, layout = run.recovery, problem.layout
    if not isinstance(found, TripsRecovery):
        raise InvalidModel(f"{arguments.recovered} must be a run of trips; it is of one task")
    names = (found.features.reward_names, found.features.cost_names)
    for what, ours, theirs in (
        ("features", names, (problem.features.reward_names, problem.features.cost_names)),
        ("states", run.layout.state_names, layout.state_names),
        ("actions", run.layout.action_names, layout.action_names),
        ("numbers of states and actions", found.flows.shape, problem.mdp.available.shape),
    ):
        if ours != theirs:
            lacks = [repr(name) for name in ours if name not in theirs]
            got = f"; it lacks {', '.join(lacks[:4])}" if lacks else ""
            raise InvalidModel(
                f"{arguments.problem} must have the {what} of {arguments.recovered}, in their "
                f"order{got}: keep all rows of features.csv, or list them under [names] in "
                "problem.toml"
            )
    answer = reroute(found, mdp=problem.mdp, features=problem.features)
    change = answer.flows - answer.before
    order = largest_first(np.abs(change))
    used = np.maximum(answer.before, answer.flows).ravel() > 0
    pairs = [divmod(int(i), problem.mdp.actions) for i in order if used[i]]
    columns = {
        "state": [layout.state_name(s) for s, _ in pairs],
        "action": [layout.action_name(a) for _, a in pairs],
        "flow_before": [float(answer.before[pair]) for pair in pairs],
        "flow_after": [float(answer.flows[pair]) for pair in pairs],
    }
    heads = [name.replace("_", " ") for name in columns]
    rows = list(zip(*columns.values(), strict=True))[:MOST_FLOWS]
    parts: list[str] = [table_text(heads, rows, "flows that change most"), *answer.sentences]
    if arguments.out is not None:
        write_folder(arguments.out, lambda folder: write_columns(folder / "flows.csv", columns))
        parts.append(f"written: {arguments.out}")
    data = {"flows": answer.flows, "before": answer.before}
    data |= {"worth": answer.worth, "lost": answer.lost}
    return Answer(parts, data | {"findings": [finding_data(one) for one in answer.sentences]})


def _proof(error: Infeasible, problem: Problem) -> str:
    """Why no policy can meet the budgets, in words."""
    proof, truth = error.solution.infeasibility, problem.truth
    assert proof is not None
    assert truth is not None
    used = [k for k, weight in enumerate(proof.weights) if weight > 0]
    if len(used) == 1:
        k = used[0]
        least, weight = proof.least, proof.weights[k]
        return (
            f"no policy meets the budgets: even the one that spends least of cost {k} spends "
            f"{least / weight:.6g}, and its budget is {truth.budgets[k]:.6g}"
        )
    costs = " + ".join(f"{proof.weights[k]:.4g} x cost {k}" for k in used)
    return (
        f"no policy meets the budgets together: whatever is done, {costs} is at least "
        f"{proof.least:.6g}, and the budgets allow {proof.allowed:.6g}"
    )


def _text(
    problem: Problem, solution: Solution, curve: PriceCurve | None, arguments: Solve
) -> list[str]:
    truth, certificate = problem.truth, solution.certificate
    assert truth is not None
    parts: list[str] = [
        (
            f"{solution.status.value}: value {solution.value:.6g} ({arguments.solver}, "
            f"{problem.mdp.states} states, {problem.mdp.actions} actions)"
        )
    ]
    if truth.constraints:
        names = problem.features.cost_names
        if len(names) != truth.constraints:
            names = [(f"cost {k}",) for k in range(truth.constraints)]
        numbers = zip(solution.spent, truth.budgets, solution.multipliers, strict=True)
        rows = [[", ".join(of), *map(float, row)] for of, row in zip(names, numbers, strict=True)]
        parts.append(table_text(["cost made of", "spent", "budget", "price"], rows))
    rows = [
        [name.replace("_", " "), f"{number:.2e}"] for name, number in asdict(certificate).items()
    ]
    parts.append(table_text(["certificate, 0 at an optimum", ""], rows))
    if curve is not None:
        numbers = zip(curve.budgets, curve.values, curve.multipliers, strict=True)
        rows = [[*map(float, row)] for row in numbers]
        parts += [table_text(["budget", "value", "price"], rows, "price curve"), *curve.sentences]
    if arguments.out is not None:
        parts.append(f"written: {arguments.out}")
    return parts


def _data(problem: Problem, solution: Solution, curve: PriceCurve | None) -> dict[str, object]:
    assert problem.truth is not None
    data: dict[str, object] = {
        "status": solution.status.name,
        "value": solution.value,
        "spent": solution.spent,
        "budgets": problem.truth.budgets,
        **{name: getattr(solution, name) for name in ("multipliers", "temperature")},
        "certificate": asdict(solution.certificate),
        "notes": problem.notes,
    }
    if curve is not None:
        told = ("constraint", "budgets", "values", "multipliers", "sentences")
        data["price_curve"] = {name: getattr(curve, name) for name in told}
    return data


def _write(folder: Path, problem: Problem, solution: Solution, curve: PriceCurve | None) -> None:
    from tacit.files.arrays import write_arrays
    from tacit.files.tables import write_columns

    arrays = ("policy", "visitation", "values", "multipliers", "spent")
    write_arrays(folder / "solution.npz", {name: getattr(solution, name) for name in arrays})
    layout = problem.layout
    policy = {"state": [layout.state_name(s) for s in range(problem.mdp.states)]}
    policy |= {layout.action_name(a): one for a, one in enumerate(solution.policy.T)}
    write_columns(folder / "policy.csv", policy)
    if curve is not None:
        columns = {
            "budget": curve.budgets,
            "value": curve.values,
            "price": curve.multipliers,
            "spent": curve.spent,
        }
        write_columns(folder / "price_curve.csv", columns)
