"""`tacit check`: what is wrong with a problem, what to be careful about, what it will cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.cli.answer import Answer
from tacit.cli.check_arguments import Check
from tacit.cli.loading import load_problem
from tacit.cli.tables import Table
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.folders.problem import Problem


def command(arguments: Check) -> Answer:
    """Reads the folder and says everything that there is to say about it."""
    try:
        problem = load_problem(arguments.problem)
    except TacitError as error:
        from tacit.folders.reading import faults

        found = faults(arguments.problem, error)
        data = {"problem": arguments.problem, "ok": False, "errors": found}
        return Answer(None, data, code=2, errors=found)
    from tacit.folders.check import check_problem, estimate, impossible_moves

    warnings = check_problem(problem)
    cost = estimate(problem)
    seen = problem.demonstrations
    moves = [] if seen is None else impossible_moves(problem.mdp, seen, problem.layout)
    data: dict[str, Any] = {
        "problem": arguments.problem,
        "ok": True,
        "errors": [],
        "warnings": warnings,
        "notes": problem.notes,
        "summary": dict(_summary(problem)),
        "impossible_moves": [
            dict(zip(("state", "action", "next_state", "count"), move, strict=True))
            for move in moves
        ],
    }
    parts: list[Any] = [Table(["what", "value"], _summary(problem), str(arguments.problem))]
    parts += [f"note: {note}" for note in problem.notes]
    parts += [f"warning: {warning}" for warning in warnings]
    if moves:
        rows = [list(move) for move in moves[:10]]
        title = "observed moves of probability 0, the most frequent first"
        parts.append(Table(["state", "action", "next state", "count"], rows, title))
    if cost is not None:
        data["estimate"] = {
            "estimator": cost.estimator,
            "reason": cost.reason,
            "seconds": cost.seconds,
            "memory_bytes": cost.memory,
        }
        parts.append(cost.sentence)
    many = f"{len(warnings)} warning{'' if len(warnings) == 1 else 's'}"
    parts.append(f"ok: the problem can be used ({many if warnings else 'no warnings'})")
    return Answer(parts, data)


def _summary(problem: Problem) -> list[tuple[str, Any]]:
    mdp, features, seen = problem.mdp, problem.features, problem.demonstrations
    rows: list[tuple[str, Any]] = [
        ("states", mdp.states),
        ("actions", mdp.actions),
        ("discount", mdp.discount),
        ("transitions", "estimated from the demonstrations" if mdp.evidence else "given"),
        ("reward made of", ", ".join(features.reward_names)),
    ]
    rows += [(f"cost {k} made of", ", ".join(names)) for k, names in enumerate(features.cost_names)]
    if seen is not None:
        rows += [("episodes", seen.episodes), ("steps", seen.steps)]
        visited = int((seen.counts(mdp).sum(axis=1) > 0).sum())
        rows.append(("states visited", visited))
        if seen.groups is not None:
            rows.append(("groups", ", ".join(sorted(set(seen.groups.tolist())))))
    rows.append(("truth", "given" if problem.truth is not None else "not given"))
    return rows
