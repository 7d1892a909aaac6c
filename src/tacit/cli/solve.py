"""`tacit solve`: value, spending, prices and certificate of a truth, or of what was recovered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

from tacit.cli.terminal import Answer, Terminal, finding_data, shown_default, table_text
from tacit.errors import Infeasible, InvalidModel

if TYPE_CHECKING:
    from tacit.checks.prices import PriceCurve
    from tacit.estimators.trips.traveller import TripsRecovery
    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run
    from tacit.forward.solution import Solution
    from tacit.forward.solve import Solver
    from tacit.model.layout import Layout
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
        from tacit.files.atomic import refuse_taken, write_folder
        from tacit.folders.runs import Run

        if self.out is not None:
            refuse_taken(self.out)
        problem = terminal.load_problem(self.problem)
        run = None if self.recovered is None else Run.load(self.recovered)
        answer, write = self._rerouted(problem, run) if problem.goal else self._solved(problem, run)
        if self.out is None:
            return answer
        write_folder(self.out, write)
        return replace(answer, parts=[*answer.parts, f"written: {self.out}"])

    def _solved(self, problem: Problem, run: Run | None) -> tuple[Answer, Callable[[Path], None]]:
        """The solution of the truth, or of what a run found, and how to write it."""
        from tacit.checks import price_curve
        from tacit.forward.solve import solve

        truth, notes = problem.truth, ()
        if run is not None:
            truth = self._recovered(run, problem)
            notes = getattr(truth, "findings", ())
        if truth is None:
            raise InvalidModel(
                f"{self.problem} must hold the truth to solve: [truth] in problem.toml, with "
                "reward, costs and budgets"
            )
        solver = self._solver()
        try:
            solution = solve(problem.mdp, truth, solver=solver)
        except Infeasible as error:
            raise Infeasible(_proof(error, truth), error.solution) from None
        curve = None
        if self.price_curve:
            points = {"constraint": self.constraint, "points": self.price_curve}
            curve = price_curve(problem.mdp, truth, **points, solver=solver)
        headline = (
            f"{solution.status.value}: value {solution.value:.6g} ({self.solver}, "
            f"{problem.mdp.states} states, {problem.mdp.actions} actions)"
        )
        parts = [headline, *notes, *_tables(solution, truth, problem.features.cost_names, curve)]
        data: dict[str, object] = {
            "status": solution.status.name,
            "value": solution.value,
            "spent": solution.spent,
            "budgets": truth.budgets,
            "multipliers": solution.multipliers,
            "temperature": solution.temperature,
            "certificate": asdict(solution.certificate),
            "notes": problem.notes,
            "findings": [finding_data(one) for one in notes],
        }
        if curve is not None:
            curve_fields = ("constraint", "budgets", "values", "multipliers", "sentences")
            data["price_curve"] = {name: getattr(curve, name) for name in curve_fields}
        write = partial(_write, layout=problem.layout, solution=solution, curve=curve)
        return Answer(parts, data), write

    def _recovered(self, run: Run, problem: Problem) -> Objective:
        """What a run found, to be solved in the world of the problem."""
        recovery = run.recovery
        world, own = (problem.mdp.states, problem.mdp.actions), recovery.solution.policy.shape
        if world != own:
            raise InvalidModel(
                f"{self.recovered} must speak of the states and actions of the problem, {world}; "
                f"got {own}"
            )
        return recovery.cautious(problem.mdp) if self.cautious else recovery.objective

    def _solver(self) -> Solver:
        from tacit.forward.column_generation import ColumnGeneration
        from tacit.forward.occupancy_lp import OccupancyLP
        from tacit.forward.soft_dual import SoftDual

        if self.solver == "soft-dual":
            return SoftDual() if self.temperature is None else SoftDual(self.temperature)
        return OccupancyLP() if self.solver == "occupancy-lp" else ColumnGeneration()

    def _rerouted(self, problem: Problem, run: Run | None) -> tuple[Answer, Callable[[Path], None]]:
        """The flows of a run's trips in this network, which may be another than theirs."""
        from tacit.estimators.trips.traveller import TripsRecovery
        from tacit.files.tables import write_columns

        if run is None:
            raise InvalidModel(
                f"{self.problem}: recovered must name a run of trips, whose coefficients, origins "
                'and goals a folder with goal = "last" is solved with; got none'
            )
        trips, layout = run.recovery, problem.layout
        if not isinstance(trips, TripsRecovery):
            raise InvalidModel(f"{self.recovered} must be a run of trips; it is of one task")
        self._check_network(problem, run, trips)
        world, features = problem.mdp, problem.features
        answer = trips.counterfactual(world=world, features=features, draws=0)
        frame = answer.flow_frame(layout)
        columns = {name: frame[name].to_list() for name in frame.columns}
        heads = [name.replace("_", " ") for name in columns]
        rows = list(zip(*columns.values(), strict=True))[:MOST_FLOWS]
        parts = [table_text(heads, rows, "flows that change most"), *answer.sentences]
        data: dict[str, object] = {
            "flows": answer.flows.estimate,
            "before": answer.before.flows,
            "surplus": answer.surplus.estimate,
            "surplus_interval": answer.surplus.interval,
            "lost": answer.lost,
            "findings": [finding_data(one) for one in answer.sentences],
        }
        return Answer(parts, data), lambda folder: write_columns(folder / "flows.csv", columns)

    def _check_network(self, problem: Problem, run: Run, trips: TripsRecovery) -> None:
        """Raises where the network speaks of other features, states or actions than the run."""
        own, layout = trips.features, problem.layout
        for what, ours, theirs in (
            ("features", own.reward_names, problem.features.reward_names),
            ("features", own.cost_names, problem.features.cost_names),
            ("states", run.layout.state_names, layout.state_names),
            ("actions", run.layout.action_names, layout.action_names),
            ("numbers of states and actions", trips.flows.shape, problem.mdp.available.shape),
        ):
            if ours != theirs:
                lacks = [repr(name) for name in ours if name not in theirs]
                got = f"; it lacks {', '.join(lacks[:4])}" if lacks else ""
                raise InvalidModel(
                    f"{self.problem} must have the {what} of {self.recovered}, in their order{got}:"
                    " keep all rows of features.csv, or list them under [names] in problem.toml"
                )


def _proof(error: Infeasible, truth: Objective) -> str:
    """Why no policy can meet the budgets, in words."""
    proof = error.solution.infeasibility
    assert proof is not None
    used = [k for k, weight in enumerate(proof.weights) if weight > 0]
    if len(used) == 1:
        k = used[0]
        return (
            f"no policy meets the budgets: even the one that spends least of cost {k} spends "
            f"{proof.least / proof.weights[k]:.6g}, and its budget is {truth.budgets[k]:.6g}"
        )
    costs = " + ".join(f"{proof.weights[k]:.4g} x cost {k}" for k in used)
    return (
        f"no policy meets the budgets together: whatever is done, {costs} is at least "
        f"{proof.least:.6g}, and the budgets allow {proof.allowed:.6g}"
    )


def _tables(
    solution: Solution,
    truth: Objective,
    cost_names: Sequence[Sequence[str]],
    curve: PriceCurve | None,
) -> list[str]:
    """What is spent and what budgets cost, the certificate, and the price curve."""
    tables = []
    if truth.constraints:
        names = [", ".join(one) for one in cost_names]
        if len(names) != truth.constraints:
            names = [f"cost {k}" for k in range(truth.constraints)]
        numbers = (solution.spent, truth.budgets, solution.multipliers)
        rows = list(zip(names, *(one.tolist() for one in numbers), strict=True))
        tables.append(table_text(["cost made of", "spent", "budget", "price"], rows))
    proof = asdict(solution.certificate).items()
    rows = [(name.replace("_", " "), f"{number:.2e}") for name, number in proof]
    tables.append(table_text(["certificate, 0 at an optimum", ""], rows))
    if curve is not None:
        numbers = (curve.budgets, curve.values, curve.multipliers)
        rows = list(zip(*(one.tolist() for one in numbers), strict=True))
        tables.append(table_text(["budget", "value", "price"], rows, "price curve"))
    return [*tables, *(() if curve is None else curve.sentences)]


def _write(folder: Path, layout: Layout, solution: Solution, curve: PriceCurve | None) -> None:
    from tacit.files.arrays import write_arrays
    from tacit.files.tables import write_columns

    arrays = ("policy", "visitation", "values", "multipliers", "spent")
    write_arrays(folder / "solution.npz", {name: getattr(solution, name) for name in arrays})
    states = range(len(solution.policy))
    policy = {"state": [layout.state_name(state) for state in states]}
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
