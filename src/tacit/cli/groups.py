"""`tacit recover --by group`: a run for each group, what they share, and how they differ."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tacit.cli.compare import SHARED, compare_runs
from tacit.cli.questions import check_answerable
from tacit.cli.recover import Recover, group_names, of_group
from tacit.cli.report import write_report
from tacit.cli.terminal import Answer, Terminal
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.estimators.kinds import KindsOptions
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.recover import recover
from tacit.estimators.task import Task
from tacit.estimators.tasks import shared_likelihood
from tacit.files.atomic import naming
from tacit.folders.runs import Run, data_hashes
from tacit.show.summary import data_summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.estimators.recover import Estimator
    from tacit.folders.problem import Problem
    from tacit.recovery import Recovery

# The page beside the runs of the groups, which compares them.
COMPARED = "compare"


def recover_groups(command: Recover, terminal: Terminal) -> Answer:
    """One run a group inside the folder, and the page that compares them."""
    problem, estimator = command.load(terminal)
    with naming(command.problem, TacitError):
        if isinstance(estimator, KindsOptions):
            raise InvalidModel(
                "--by group knows who is of which; several types and intentions are for --only"
            )
        folders = _folders_of(group_names(problem))
        _check_shareable(command, problem, estimator)
        each = {name: _command_for(command, name, folder) for name, folder in folders.items()}
        parts = {name: of_group(problem, name) for name in each}
        for name, one in each.items():
            check_answerable(one.questions, parts[name], estimator)
    answers, lines = {}, []
    for name, one in each.items():
        terminal.note(f"group {name}: {parts[name].seen.episodes} episodes")
        answers[name] = one.run_on(parts[name], estimator, replace(terminal, machine=True))
        extras = cast("dict[str, dict[str, Any]]", answers[name].data["extras"])
        for result in extras.values():  # what was asked of each group besides
            lines += [f"{name}: {line}" for line in result.get("sentences", ())]
    shared = _shared_answer(command, problem, estimator)
    page = None if command.running.no_report else command.out / f"{COMPARED}.html"
    place = Path(str(shared.data["shared"])) if shared.data else None
    outs = [one.out for one in each.values()]
    compared = compare_runs(outs, page=page, shared=place, raw_units=command.raw_units)
    errors = [f"group {name}: {line}" for name, one in answers.items() for line in one.errors]
    errors += shared.errors
    data = {**compared.data, **shared.data, "runs": [*map(str, outs)]}
    data["extras"] = {name: one.data["extras"] for name, one in answers.items()}
    parts_shown = [*compared.parts, *lines, *shared.parts, f"written: {', '.join(data['runs'])}"]
    return Answer(parts_shown, data, 3 if errors else 0, errors[:1])


def _folders_of(groups: Sequence[str]) -> dict[str, str]:
    """Group -> the name of its folder."""
    folders = {}
    for group in groups:
        name = re.sub(r"[^\w.-]+", "-", group)[:60].strip(".-") or "group"
        is_taken = name.casefold() == SHARED or name.casefold().startswith(COMPARED)
        folders[group] = f"group-{name}" if is_taken else name
    if len(groups) < 2 or len({name.casefold() for name in folders.values()}) < len(groups):
        raise InvalidDemonstrations(
            "--by group needs at least two groups whose names make different folders; got "
            f"{', '.join(groups)}"
        )
    return folders


def _check_shareable(command: Recover, problem: Problem, estimator: Estimator | None) -> None:
    """Raises where the groups cannot be fitted with the same weights, as was asked."""
    if command.questions.share == "none":
        return
    if problem.goal:
        raise InvalidModel(
            '--share is not for trips (goal = "last"): --groups tests whether their groups share '
            "all coefficients"
        )
    if not isinstance(estimator, Likelihood | None):
        raise InvalidModel(f"--share fits by the likelihood; the estimator is {estimator!r:.60}")
    shared_likelihood(estimator, command.questions.share == "all").check()


def _command_for(command: Recover, group: str, folder: str) -> Recover:
    """The command that recovers from one group alone."""
    return replace(
        command,
        by=None,
        out=command.out / folder,
        questions=replace(command.questions, share="none"),
        data=replace(command.data, only=group),
    )


def _shared_answer(command: Recover, problem: Problem, estimator: Estimator | None) -> Answer:
    """The fit of all groups with the same weights, written as a run of its own, where asked."""
    share, groups = command.questions.share, group_names(problem)
    if share == "none":
        return Answer()
    tasks = [Task(problem.mdp, problem.features, of_group(problem, name).seen) for name in groups]
    joint = recover(
        tasks,
        estimator=cast("Likelihood | None", estimator),
        share_reward=share == "all",
        allow_impossible=command.data.allow_impossible,
        throw=False,
    )
    place = command.out / SHARED / "shared"
    place.parent.mkdir(parents=True, exist_ok=True)
    run = Run(
        cast("Recovery", joint),
        layout=problem.layout,
        config={**command.origin, "tasks": list(groups), "share": share},
        data=data_summary(problem.mdp, problem.seen),
        notes=problem.notes,
        seed=command.running.seed,
        hashes=data_hashes(problem.mdp, problem.features, problem.seen),
    )
    run.save(place)
    if not command.running.no_report:
        write_report(run, place, raw_units=command.raw_units)
    errors = []
    if joint.status.name == "NOT_CONVERGED":
        errors.append(f"with {share} shared: {joint.status.value}")
    if command.running.strict and not joint.goodness.adequate:
        errors += joint.findings[:1]
    heading = f"With {share} shared, tasks in the order {', '.join(groups)}:\n"
    summary = joint.summary(raw_units=command.raw_units)
    return Answer([heading, summary, f"written: {place}"], {"shared": str(place)}, errors=errors)
