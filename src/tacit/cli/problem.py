"""`tacit simulate` and `tacit check`: problem folders made, and looked through before a fit.

Also what a problem tells an estimator that was asked for by its word.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, get_args

from tacit.cli.questions import QUESTIONS, estimator_kind, methods
from tacit.cli.solve import KNOWN, known_numbers, named_sets, prior_of, split_weights
from tacit.cli.solve import taken_notes as taken_notes
from tacit.cli.terminal import Answer, Cell, Part, Table, Terminal, finding_data, shown_default
from tacit.errors import InvalidModel, TacitError

if TYPE_CHECKING:
    from tacit.cli.recover import Recover
    from tacit.folders.problem import Problem
    from tacit.inverse.recover import Estimator
    from tacit.worlds.world import World

# Impossible moves that are listed for people.
LISTED = 10
# Names of actions, features and groups that are shown.
SHOWN = 24


@dataclass(frozen=True)
class Check:
    """Check a problem folder: what is wrong with it, where, and how to repair it.

    Warns of what is only odd. Exit code 0 if the problem can be used, 2 if it cannot.
    """

    problem: Path
    """folder of the problem"""
    allow_impossible: bool = False
    """take observed moves of probability 0 for a warning, as tacit recover then does"""

    def run(self, terminal: Terminal) -> Answer:
        """Reads the folder and says everything that there is to say about it."""
        try:
            problem = terminal.load_problem(self.problem)
        except TacitError as error:
            from tacit.folders.check import faults

            found = faults(self.problem, error)
            return Answer((), {"problem": self.problem, "ok": False, "errors": found}, 2, found)
        from tacit.folders.check import (
            check_problem,
            estimate,
            impossible_moves,
            impossible_sentence,
        )
        from tacit.folders.reading import availability

        notes = (*problem.notes, *availability(problem.mdp, problem.layout, self.problem))
        warnings, cost, seen = check_problem(problem), estimate(problem), problem.demonstrations
        moves = [] if seen is None else impossible_moves(problem.mdp, seen, problem.layout)
        said = "" if seen is None or self.allow_impossible else impossible_sentence(problem, seen)
        refused = [f"{self.problem}: {said}"] if said else []
        heads = ("state", "action", "next_state", "count")
        data: dict[str, object] = {
            "problem": self.problem,
            "ok": not refused,
            "errors": refused,
            "warnings": warnings,
            "notes": notes,
            "findings": [finding_data(note) for note in (*notes, *warnings)],
            "summary": dict(_summary(problem)),
            "impossible_moves": [dict(zip(heads, move, strict=True)) for move in moves],
        }
        parts: list[Part] = [Table(["what", "value"], _summary(problem), str(self.problem))]
        parts += [f"note: {note}" for note in notes]
        parts += [f"warning: {warning}" for warning in warnings]
        if moves:
            title = "observed moves of probability 0, the most frequent first"
            heads = [head.replace("_", " ") for head in heads]
            parts.append(Table(heads, [list(move) for move in moves[:LISTED]], title))
        if cost is not None:
            data["estimate"] = {
                "estimator": cost.estimator,
                "reason": cost.reason,
                "seconds": cost.seconds,
                "memory_bytes": cost.memory,
            }
            parts.append(cost.sentence)
        count = f"{len(warnings)} warning{'' if len(warnings) == 1 else 's'}"
        if refused:
            return Answer(parts, data, 2, refused)
        parts.append(f"ok: the problem can be used ({count if warnings else 'no warnings'})")
        return Answer(parts, data)


def _summary(problem: Problem) -> list[tuple[str, Cell]]:
    import numpy as np

    from tacit.model.objective import is_sparse
    from tacit.show.summary import data_summary

    mdp, features, seen = problem.mdp, problem.features, problem.demonstrations
    named = bool(problem.layout.action_names)
    rows: list[tuple[str, Cell]] = [
        ("states", mdp.states),
        ("actions", mdp.actions),
        *([("action names", _some(problem.layout.action_names))] if named else []),
        ("discount", problem.discount or 0.0),
        ("transitions", "estimated from the demonstrations" if mdp.evidence else "given"),
        *([("ends", int(mdp.ends.sum()))] if mdp.restricted else []),
    ]
    labels = (features.reward_names, *features.cost_names)
    for k, (table, names) in enumerate(zip(features.maps, labels, strict=True)):
        kept = f", sparse: {table.nnz} entries" if is_sparse(table) else ""
        rows.append((f"cost {k - 1} made of" if k else "reward made of", _some(names) + kept))
    if seen is not None:
        rows += [("episodes", seen.episodes), ("steps", seen.steps)]
        if problem.trips is not None:
            goals = problem.trips.goals
            rows.append(("goals", len(np.unique(goals[goals >= 0]))))
        rows.append(("states visited", data_summary(mdp, seen)["states_visited"]))
        if seen.weights is not None:
            least, most = seen.weights.min(), seen.weights.max()
            rows.append(("sampling weights", f"{least:.3g} to {most:.3g}"))
        if seen.groups is not None:
            rows.append(("groups", _some(sorted(set(seen.groups.tolist())))))
    rows.append(("truth", "given" if problem.truth is not None else "not given"))
    return rows


def _some(names: Sequence[str]) -> str:
    """The names, or the first of them and how many are not shown."""
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest


GYMNASIUM = ("FrozenLake-v1", "CliffWalking-v1", "Taxi-v4")


@dataclass(frozen=True, kw_only=True)
class Simulate:
    """Simulate an expert in a built-in world and write a problem folder with the known truth.

    Worlds: hill-grid (the paper's), published-figure (the draw it shows), random, and those of
    Gymnasium's toy text by name: FrozenLake-v1, CliffWalking-v1, Taxi-v4.
    """

    world: str
    """hill-grid, published-figure, random, or a Gymnasium name such as FrozenLake-v1"""
    out: Path = Path("problem")
    """folder to make; it must not exist yet, or be empty"""
    seed: int = 0
    """seed of the world and of the demonstrations"""
    trajectories: int = 100
    """number of demonstrations"""
    steps: int = 2000
    """largest number of steps of a demonstration"""
    temperature: float = 0.0
    """noise of the expert, in units of the reward; 0 for an optimal one"""
    discount: Annotated[Optional[float], shown_default("0.9; Gymnasium: 0.99")] = None
    """discount of the world"""
    tightness: Annotated[Optional[float], shown_default("none: the budget decides")] = None
    """hill-grid, published-figure, random: the budget's place between the least possible cost, 0,
    and the unconstrained expert's, 1"""
    budget: Annotated[Optional[float], shown_default("1.0")] = None
    """hill-grid: largest expected discounted cost"""
    size: Annotated[Optional[int], shown_default("5")] = None
    """hill-grid: number of rows and of columns"""
    slip: Annotated[Optional[float], shown_default("0.3")] = None
    """hill-grid: probability that a step goes astray"""
    hill: Annotated[Optional[Literal["absolute", "as-written"]], shown_default("absolute")] = None
    """hill-grid: how the cost falls away from the peak"""
    states: Annotated[Optional[int], shown_default("20")] = None
    """random: number of states"""
    actions: Annotated[Optional[int], shown_default("3")] = None
    """random: number of actions"""
    constraints: Annotated[Optional[int], shown_default("1")] = None
    """random: number of constraints"""
    successors: Annotated[Optional[int], shown_default("5, or all states")] = None
    """random: number of next states of each action"""
    features: Annotated[Optional[int], shown_default("3")] = None
    """random: number of features of the reward and of each cost"""

    def __post_init__(self) -> None:
        for name in ("trajectories", "steps"):
            if getattr(self, name) < 1:
                raise InvalidModel(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.seed < 0:
            raise InvalidModel(f"seed must be 0 or more; got {self.seed}")
        if not 0.0 <= self.temperature < float("inf"):
            raise InvalidModel(f"temperature must be a number, 0 or more; got {self.temperature}")

    def run(self, terminal: Terminal) -> Answer:
        """Writes the folder and says what is in it."""
        from tacit.files.atomic import refuse_taken
        from tacit.folders.problem import Problem
        from tacit.forward.column_generation import ColumnGeneration
        from tacit.forward.simulation import simulate
        from tacit.forward.soft_dual import SoftDual
        from tacit.forward.solve import solve

        refuse_taken(self.out)
        world = self.make_world()
        noisy = self.temperature > 0
        solver = SoftDual(self.temperature) if noisy else ColumnGeneration()
        solution = solve(world.mdp, world.truth, solver=solver)
        asked = {name: getattr(self, name) for name in ("trajectories", "steps", "seed")}
        seen = simulate(world.mdp, solution.policy, **asked)
        problem = Problem(world.mdp, world.features, seen, truth=world.truth, layout=world.layout)
        problem.save(self.out)
        sizes = {
            "states": world.mdp.states,
            "actions": world.mdp.actions,
            "constraints": world.truth.constraints,
            "episodes": seen.episodes,
            "steps": seen.steps,
        }
        data = {
            "problem": self.out,
            "world": repr(world),
            **sizes,
            "discount": world.mdp.discount,
            "budgets": world.truth.budgets,
            **{name: getattr(solution, name) for name in ("value", "spent", "multipliers")},
        }
        expert = f"noisy, temperature {self.temperature:g}" if noisy else "optimal"
        table = Table(["what", "value"], [*sizes.items(), ("expert", expert)], str(world))
        return Answer([table, f"problem: {self.out} (next: tacit check {self.out})"], data)

    def make_world(self) -> World:
        """The world that was named, with the options that were given."""
        make, first = self._maker()
        # What is None by default is handed to the function, where it has it.
        options = [one.name for one in fields(self) if one.default is None]
        known = [name for name in options if name in inspect.signature(make).parameters]
        given = {name: value for name in options if (value := getattr(self, name)) is not None}
        for name in given:
            if name not in known:
                raise InvalidModel(
                    f"--{name} is no option of {self.world}; it has {', '.join(known)}"
                )
        return make(*first, **given)

    def _maker(self) -> tuple[Callable[..., World], tuple[int | str, ...]]:
        """The function that makes the world, and its first arguments."""
        from tacit import worlds

        name = self.world.replace("_", "-")
        built_in = {
            "hill-grid": (worlds.hill_grid, (self.seed,)),
            "published-figure": (worlds.published_figure, ()),
            "random": (worlds.random, (self.seed,)),
        }
        if name in built_in:
            return built_in[name]
        if re.search(r"-v\d+$", self.world):
            return worlds.gymnasium, (self.world,)
        from tacit.files.columns import nearest

        offered = [*built_in, *GYMNASIUM]
        near = nearest(self.world, offered, cutoff=0.5)
        hint = f", did you mean {near}?" if near else ""
        raise InvalidModel(f"WORLD must be one of {', '.join(offered)}; got {self.world!r}{hint}")


# --- estimators by their words --------------------------------------------------------------------

# Options whose argument has another name in an estimator.
CALLED = {
    ("forbidden", "reward_weights"): "reward",
    ("soft-constraint", "budgets"): "budget",
    ("mixture", "max_steps"): "max_rounds",
    ("", "sets"): "groups",
}


def estimator_of(
    arguments: Recover, asked: Mapping[str, object], problem: Problem | None
) -> Estimator | None:
    """The estimator that was asked for, with these options; None where it needs the problem."""
    mixed = arguments.types is not None and arguments.estimator == "auto"
    chosen = "mixture" if mixed else arguments.estimator
    kind = estimator_kind(chosen)  # the others are loaded for a refusal alone
    known = set() if kind is None else {one.name for one in fields(kind)}

    def called(word: str, name: str) -> str:
        return CALLED.get((word, name), CALLED.get(("", name), name))

    for name in asked:
        if called(chosen, name) not in known:
            kinds = {word: estimator_kind(word) for word in get_args(methods())}
            word, told = name.replace("_", "-"), f"the estimator is {chosen}"
            having = {w: k.__dataclass_fields__ for w, k in kinds.items() if k}
            owners = [w for w, known in having.items() if called(w, name) in known]
            mend = f"give --estimator {owners[0]}, or leave out --{word}"
            raise InvalidModel(f"--{word} is an option of {', '.join(owners)}; {told}: {mend}")
    assert kind is not None
    given: dict[str, Any] = {called(chosen, name): value for name, value in asked.items()}
    for one in fields(kind):
        if one.name not in given and one.default is one.default_factory is MISSING:
            spelled = {own: name for (word, name), own in CALLED.items() if word in ("", chosen)}
            name = spelled.get(one.name, one.name)
            if problem is None and name in KNOWN:
                return None
            held = known_numbers(problem) if problem is not None and name in KNOWN else {}
            if name not in held:
                word = name.replace("_", "-")
                place = f", or be in the truth of {arguments.problem}" if name in KNOWN else ""
                raise InvalidModel(f"--{word} must be given for {chosen}{place}; got none")
            given[one.name] = held[name]
    if given.get("types") == "auto":
        given["types"] = None
    if "prior" in given:
        given["prior"] = prior_of(given["prior"])
    if "budget" in given:
        if len(given["budget"]) != 1:
            raise InvalidModel(f"--budgets must be one number for {chosen}; got {given['budget']}")
        given["budget"] = given["budget"][0]
    if problem is None and {"cost_weights", "groups"} & {*given}:
        return None
    if problem is not None and "cost_weights" in given:
        given["cost_weights"] = split_weights(problem, given["cost_weights"])
    if problem is not None and "groups" in given:
        given["groups"] = named_sets(problem, given["groups"])
    return kind(**given, **({"seed": arguments.seed} if "seed" in known else {}))


def check_trips(arguments: Recover, problem: Problem) -> None:
    """Raises where something is asked that trips do not answer."""
    asked = {
        "--estimator": (
            arguments.estimator not in ("auto", "likelihood"),
            "likelihood is the one estimator of trips",
        ),
        "--sampler": (arguments.sampler != "laplace", "laplace is the one sampler of trips"),
        "--cautious": (arguments.cautious, "a goal has its own budget; recover one goal's trips"),
    }
    for option, (given, reason) in asked.items():
        if given:
            told = f'{option} is not for trips (goal = "last"): {reason}'
            raise InvalidModel(f"{arguments.problem}: {told}")


def check_types(arguments: Recover, problem: Problem) -> None:
    """Raises where something is asked that types of demonstrators do not answer."""
    asked = {f"--{name.replace('_', '-')}": getattr(arguments, name) for name in QUESTIONS}
    asked['trips (goal = "last")'] = problem.goal
    if refused := [option for option, given in asked.items() if given]:
        raise InvalidModel(
            f"{arguments.problem}: several types of demonstrators are recovered without "
            f"{refused[0]}; leave out one of the two"
        )
