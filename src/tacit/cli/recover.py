"""`tacit recover`: a problem folder in, a run folder out, kept on disk while it lasts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.cli.answer import Answer, is_quiet
from tacit.cli.loading import load_problem
from tacit.cli.recover_arguments import SEEDED, Recover
from tacit.cli.recover_questions import extras, widened
from tacit.cli.telling import telling
from tacit.errors import InvalidDemonstrations

if TYPE_CHECKING:
    from tacit.data.demonstrations import Demonstrations
    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run

NOT_CONVERGED = 3
# Word of the command line -> module and class.
KINDS = {
    "likelihood": ("noisy.likelihood", "Likelihood"),
    "convex": ("noisy.convex", "Convex"),
    "alternating": ("paper.alternating", "Alternating"),
    "explanation": ("optimal.explanation", "Explanation"),
    "reward-only": ("families.baselines", "RewardOnly"),
    "constraint-only": ("families.baselines", "ConstraintOnly"),
}


def command(arguments: Recover) -> Answer:
    """Recovers, writes the run, and says what was found; 3 where it did not converge."""
    from tacit.engine.progress import watching
    from tacit.folders.resume import claimed
    from tacit.folders.runs import Run, data_hashes, identity

    problem = load_problem(arguments.problem)
    seen = problem.demonstrations
    if seen is None:
        raise InvalidDemonstrations(
            f"{arguments.problem} must hold demonstrations to recover from: "
            "demonstrations.parquet, .csv or .npz; it holds none"
        )
    _answerable(arguments, problem, seen)
    hashes = data_hashes(problem.mdp, problem.features, seen)
    depends = identity(arguments.config, hashes)
    options = {"resume": arguments.resume, "overwrite": arguments.overwrite}
    with claimed(arguments.out, depends, **options) as claim:
        if claim.done:
            run = Run.load(arguments.out)
        else:
            bar = telling(quiet=is_quiet())
            with _inviting(arguments), bar as tell, watching([tell], claim.journal):
                run = _made(arguments, problem, seen, hashes)
            claim.finish(run)
        report = None if arguments.no_report else _report(arguments.out)
    return _answer(arguments, run, report)


def _answerable(arguments: Recover, problem: Problem, seen: Demonstrations) -> None:
    """Raises, before any long fit, where these data cannot answer what is asked afterwards."""
    if arguments.groups and seen.groups is None:
        raise InvalidDemonstrations(
            f"{arguments.problem}: --groups needs demonstrations with a column `group`; got none"
        )
    if arguments.groups and len(found := set(seen.groups.tolist())) < 2:  # type: ignore
        raise InvalidDemonstrations(
            f"{arguments.problem}: --groups needs at least two groups; all are {found.pop()!r}"
        )
    if seen.episodes < 2 and (arguments.holdout > 0 or arguments.bootstrap):
        option = "--holdout" if arguments.holdout > 0 else "--bootstrap"
        raise InvalidDemonstrations(
            f"{arguments.problem}: {option} needs at least 2 episodes; got {seen.episodes}"
        )
    if arguments.bootstrap and arguments.estimator == "auto":
        from tacit.inverse.recover import choose

        picked, reason = choose(problem.mdp, problem.features, seen)
        if type(picked).__name__ == "Explanation":
            raise InvalidDemonstrations(
                f"{arguments.problem}: --bootstrap works with likelihood or convex. {reason} "
                "Choose one by --estimator, or leave --bootstrap out"
            )


@contextmanager
def _inviting(arguments: Recover) -> Iterator[None]:
    """An interrupted run says how to go on with it."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and not is_quiet():
            sys.stderr.write(f"{arguments.out} keeps what was done: --resume goes on with it\n")
        raise


def _made(
    arguments: Recover, problem: Problem, seen: Demonstrations, hashes: dict[str, str]
) -> Run:
    """The run, fitted and questioned as asked."""
    from tacit.checks.fits import trajectory_fits
    from tacit.folders.runs import Run, data_summary
    from tacit.inverse.recover import recover

    estimator = _estimator(arguments)
    recovery = recover(
        problem.mdp,
        problem.features,
        seen,
        estimator=estimator,
        bootstrap=arguments.bootstrap,
        seed=arguments.seed,
        throw=False,
    )
    recovery = widened(arguments, problem, seen, recovery, estimator)
    fits = trajectory_fits(recovery, seen, mdp=problem.mdp)
    columns = dict(fits.columns)
    groups = seen.groups
    notes = list(problem.notes)
    if groups is not None:
        columns = {"episode": columns.pop("episode"), "group": groups[fits.episode], **columns}
        if not arguments.groups and len(set(groups.tolist())) > 1:
            notes.append(
                "The demonstrations have groups, taken together here: --groups tests whether they "
                "share their weights."
            )
    return Run(
        recovery,
        problem.layout,
        {
            **arguments.config,
            "problem": str(arguments.problem),
            "out": str(arguments.out),
            "command": arguments.command,
        },
        data_summary(problem.mdp, seen),
        tuple(notes),
        columns,
        extras(arguments, problem, seen, recovery, estimator),
        seed=arguments.seed,
        hashes=hashes,
    )


def _estimator(arguments: Recover) -> Any:
    """The estimator that was asked for, or None to pick by evidence."""
    if arguments.estimator == "auto":
        return None
    module, name = KINDS[arguments.estimator]
    kind = getattr(import_module(f"tacit.inverse.{module}"), name)
    seed = {"seed": arguments.seed} if arguments.estimator in SEEDED else {}
    return kind(**arguments.given, **seed)


def _report(folder: Path) -> str:
    """Writes the report of a run; where it is."""
    from tacit.cli.report import command as report
    from tacit.cli.report_arguments import Report

    return str(report(Report(folder)).data["report"])


def _answer(arguments: Recover, run: Run, report: str | None) -> Answer:
    recovery = run.recovery
    lines: list[Any] = [recovery.summary()]
    lines += [f"Note: {note}" for note in run.notes]
    for result in run.extras.values():
        lines += list(result.get("sentences", ()))
    lines.append(f"written: {arguments.out}" + (f", {report}" if report else ""))
    known = recovery.identification
    data = {
        "run": str(arguments.out),
        "report": report,
        "estimator": recovery.estimator,
        "status": recovery.status.name,
        "reward_weights": dict(zip(recovery.reward_names, recovery.reward_weights, strict=True)),
        "cost_weights": [
            dict(zip(names, weights, strict=True))
            for names, weights in zip(recovery.cost_names, recovery.cost_weights, strict=True)
        ],
        "multipliers": recovery.multipliers,
        "budgets": recovery.budgets,
        "temperature": recovery.temperature,
        "reward_intervals": known.reward_intervals,
        "cost_intervals": list(known.cost_intervals),
        "multiplier_intervals": known.multiplier_intervals,
        "budget_intervals": known.budget_intervals,
        "active": known.active,
        "findings": known.findings,
        "certificate": asdict(recovery.certificate),
        "data": run.data,
        "notes": run.notes,
        "extras": run.extras,
    }
    code = NOT_CONVERGED if recovery.status.name == "NOT_CONVERGED" else 0
    return Answer(lines, data, code)
