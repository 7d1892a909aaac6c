"""`tacit check`: a problem folder looked through before a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.cli.terminal import Answer, Terminal, finding_data, table_text
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.folders.problem import Problem

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

            errors = faults(self.problem, error)
            return Answer((), {"problem": self.problem, "ok": False, "errors": errors}, 2, errors)
        from tacit.folders.check import (
            availability,
            check_problem,
            choice,
            impossible_moves,
            impossible_sentence,
        )

        notes = problem.notes
        if not problem.goal:  # of a network it is known which links there are
            notes = (*notes, *availability(problem.mdp, problem.layout, self.problem))
        warnings, picked, seen = check_problem(problem), choice(problem), problem.demonstrations
        facts = problem_facts(problem)
        moves = [] if seen is None else impossible_moves(problem.mdp, seen, problem.layout)
        refusal = "" if self.allow_impossible else impossible_sentence(problem)
        refused = [f"{self.problem}: {refusal}"] if refusal else []
        heads = ("state", "action", "next_state", "count")
        data: dict[str, object] = {
            "problem": self.problem,
            "ok": not refused,
            "errors": refused,
            "warnings": warnings,
            "notes": notes,
            "findings": [finding_data(note) for note in (*notes, *warnings)],
            "summary": facts,
            "impossible_moves": [dict(zip(heads, move, strict=True)) for move in moves],
        }
        parts: list[str] = [table_text(["what", "value"], [*facts.items()], str(self.problem))]
        parts += [f"note: {note}" for note in notes]
        parts += [f"warning: {warning}" for warning in warnings]
        if moves:
            title = "observed moves of probability 0, the most frequent first"
            heads = [head.replace("_", " ") for head in heads]
            parts.append(table_text(heads, [list(move) for move in moves[:LISTED]], title))
        if picked is not None:
            data["choice"] = picked
            parts.append(picked)
        count = f"{len(warnings)} warning{'' if len(warnings) == 1 else 's'}"
        if refused:
            return Answer(parts, data, 2, refused)
        parts.append(f"ok: the problem can be used ({count if warnings else 'no warnings'})")
        return Answer(parts, data)


def problem_facts(problem: Problem) -> dict[str, str | float]:
    """What the problem holds, in words and numbers."""
    from tacit.model.objective import is_sparse
    from tacit.show.summary import data_summary

    mdp, features, seen = problem.mdp, problem.features, problem.demonstrations
    facts: dict[str, str | float] = {
        "states": mdp.states,
        "actions": mdp.actions,
        "action names": "" if problem.goal else _some(problem.layout.action_names),
        "discount": problem.discount or 0.0,
        "transitions": "estimated from the demonstrations" if mdp.evidence else "given",
        "ends": int(mdp.ends.sum()) or "",
    }
    labels = (features.reward_names, *features.cost_names)
    for k, (table, names) in enumerate(zip(features.maps, labels, strict=True)):
        stored = f", sparse: {table.nnz} entries" if is_sparse(table) else ""
        facts[f"cost {k - 1} made of" if k else "reward made of"] = _some(names) + stored
    if seen is not None:
        numbers = data_summary(mdp, seen, problem.trips)
        shown_facts = ("episodes", "steps", "goals", "states_visited")
        facts |= {name.replace("_", " "): numbers[name] for name in shown_facts if name in numbers}
        facts["groups"] = _some([*numbers.get("groups", ())])
        if seen.weights is not None:
            facts["sampling weights"] = f"{seen.weights.min():.3g} to {seen.weights.max():.3g}"
    facts["truth"] = "given" if problem.truth is not None else "not given"
    return {name: one for name, one in facts.items() if one != ""}


def _some(names: Sequence[str]) -> str:
    """The names, or the first of them and how many are not shown."""
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest
