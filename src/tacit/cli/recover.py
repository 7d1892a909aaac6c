"""`tacit recover`: a problem folder in, a run folder out, kept on disk while it lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, get_args

from tyro.conf import arg

from tacit.cli.options import (
    EstimatorOptions,
    Method,
    estimator_kind,
    estimator_word,
    methods,
    record_of,
)
from tacit.cli.questions import (
    Questions,
    check_answerable,
    further_results,
    read_belief,
)
from tacit.cli.terminal import (
    Answer,
    Terminal,
    command_line,
    finding_data,
    flat_fields,
    flat_values,
    shown_default,
)
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError

if TYPE_CHECKING:
    import numpy as np

    from tacit.engine.progress import Checkpoint
    from tacit.estimators.recover import Estimator
    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run
    from tacit.inference.findings import Finding
    from tacit.model.mdp import MDP
    from tacit.recovery import Recovery

# Options that the result does not depend on.
ELSEWHERE = (
    "problem", "out", "resume", "overwrite", "break_lock", "allow_impossible", "strict",
    "no_report", "by", "share", "belief",
)  # fmt: skip
# Options that a command to do the same again leaves out.
ONCE = ("problem", "resume", "overwrite", "break_lock")


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Which demonstrations are taken, and what may be wrong with them."""

    only: Annotated[Optional[str], shown_default("all")] = None
    """group from whose episodes alone to recover"""
    allow_impossible: bool = False
    """let observed moves of probability 0 pass, with a finding, instead of refusing them"""
    close_untaken: bool = False
    """close the actions that nobody took although a first fit expects them, and fit again"""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How the run is made and written."""

    seed: int = 0
    """seed of everything random"""
    strict: bool = False
    """exit code 3 where the model does not fit what was seen, and of measurements where the basis
    did not settle, actions are too rare for it, rows lie beyond it, or a declaration is not so"""
    no_report: bool = False
    """write no report.html"""
    break_lock: bool = False
    """take the folder from a writer on another machine that is surely gone"""

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InvalidModel(f"seed must be at least 0; got {self.seed}")


@dataclass(frozen=True, kw_only=True)
class Recover:
    """Recover what a demonstrator wants and refuses from a problem folder, into a run folder.

    tacit recover mouse --out mouse-run

    tacit recover mouse --out mouse-more --diagnose --holdout 0.25 --overwrite

    tacit recover foxes --by group --estimator likelihood --level 0.01

    Methods: auto, likelihood, explanation, convex, alternating, reward-only, constraint-only,
    cloning, forbidden, mixture, intentions, and those of tacit leaderboard. Each has options of its
    own: tacit recover --estimator likelihood --help lists them. With --types 2 several types of
    demonstrators are told apart (--estimator mixture), with --intentions 2 what they want now and
    then (--estimator intentions). The run is kept on disk while it lasts: after an interruption
    --resume continues where it stopped, and ends at the same answer.
    """

    problem: Path
    """folder of the problem"""
    out: Path = Path("run")
    """folder to write"""
    estimator: Method = "auto"
    """method, with options of its own; auto picks one by the evidence and says why"""
    resume: bool = False
    """continue the run in the folder, or begin if there is none"""
    overwrite: bool = False
    """begin again; the older run stays until the new one is whole"""
    by: Annotated[Optional[Literal["group"]], shown_default("all together")] = None
    """recover from each group by itself, a run each inside the folder, and compare them"""
    raw_units: bool = False
    """show weights and prices of the features as given, and not of standardised ones"""
    questions: Annotated[Questions, arg(name="question")] = field(default=Questions())
    data: DataOptions = field(default=DataOptions())
    running: Annotated[RunOptions, arg(name="run")] = field(default=RunOptions())
    options: EstimatorOptions = field(default=EstimatorOptions())

    def __post_init__(self) -> None:
        if self.questions.share != "none" and self.by is None:
            raise InvalidModel("share is for --by group; got it alone")
        if self.resume and self.overwrite:
            raise InvalidModel("resume continues, --overwrite begins again; got both")

    @classmethod
    def taking(cls, words: Sequence[str]) -> type[Recover]:
        """The command with the options of the estimator that the words of a command line name."""
        word = estimator_word(words)
        has_options = word != "auto" and word in get_args(methods())
        return _command_of(cls, word) if has_options else cls

    def run(self, terminal: Terminal) -> Answer:
        """Recovers, writes the run, and says what was found.

        Exit code 3 where it did not converge or, if that is asked, where the model does not fit.
        """
        if self.by is not None:
            from tacit.cli.groups import recover_groups

            return recover_groups(self, terminal)
        return self.run_on(*self.load(terminal), terminal)

    def run_on(self, problem: Problem, estimator: Estimator | None, terminal: Terminal) -> Answer:
        """Recovers from a problem that was loaded, writes the run, and says what was found."""
        from tacit.cli.report import write_report
        from tacit.folders.claims import claimed, identity
        from tacit.folders.runs import Run
        from tacit.show.summary import run_parts

        hashes = _hashes(problem, self.questions.belief)
        choices = {name: getattr(self, name) for name in ("resume", "overwrite")}
        choices["break_lock"] = self.running.break_lock
        with claimed(self.out, identity(self.config, hashes), **choices) as claim:
            if claim.done:
                run = Run.load(self.out, several=True)
                terminal.tell(run_parts(run, raw_units=self.raw_units))
            else:
                run = self._recover(problem, estimator, hashes, claim.checkpoint, terminal)
                claim.finish(run)
            page = None
            if not self.running.no_report:
                page = str(write_report(run, self.out, raw_units=self.raw_units).data["report"])
        return _answer(run, self.out, page, strict=self.running.strict)

    def load(self, terminal: Terminal) -> tuple[Problem, Estimator | None]:
        """The problem with what is taken of its data, and the estimator; refuses what cannot be."""
        from tacit.files.atomic import naming
        from tacit.folders.rows_problem import RowsProblem

        whole = terminal.load_problem(self.problem, rows=True)
        with naming(self.problem, TacitError):
            problem = whole if self.data.only is None else of_group(whole, self.data.only)
            estimator, taken = self.options.make(problem, seed=self.running.seed)
            check_answerable(self.questions, problem, estimator)
        if self.questions.belief is not None:
            read_belief(self.questions.belief, problem)  # it names its own file
        with naming(self.problem, TacitError):
            notes = [f"Taken from the truth of the folder: {', '.join(taken)}."] if taken else []
            if self.data.close_untaken and isinstance(problem, RowsProblem):
                raise InvalidModel(
                    "--close-untaken closes actions in states that are visited again and again; "
                    "rows of measurements are seen once"
                )
            if self.data.close_untaken:
                mdp, note = without_untaken(whole, estimator)
                problem, notes = replace(problem, mdp=mdp), [note, *notes]
            return replace(problem, notes=(*problem.notes, *notes)), estimator

    def _recover(
        self,
        problem: Problem,
        estimator: Estimator | None,
        hashes: dict[str, str],
        checkpoint: Checkpoint,
        terminal: Terminal,
    ) -> Run:
        """The run, its answer told before anything is drawn."""
        from tacit.engine.progress import watching
        from tacit.folders.runs import Run
        from tacit.show.summary import run_parts

        message = f"{self.out} keeps what was done: --resume goes on with it"
        options = {"seed": self.running.seed, "estimator": estimator}
        with terminal.resumable(message), terminal.progress() as tell, watching([tell, checkpoint]):
            recovery = recovered(
                problem,
                bootstrap=self.questions.bootstrap,
                allow_impossible=self.data.allow_impossible,
                **options,
            )
            run = Run(
                recovery,
                layout=problem.layout,
                config={**self.config, **self.origin, "ingest": problem.ingest},
                data=summary_of(problem),
                notes=tuple(self._notes(problem, recovery)),
                trajectories=trajectory_table(problem, recovery),
                extras=profiles_of(problem)
                | further_results(self.questions, problem, recovery, **options),
                seed=self.running.seed,
                hashes=hashes,
            )
            terminal.tell(run_parts(run, raw_units=self.raw_units))
        return run

    def _notes(self, problem: Problem, recovery: Recovery) -> list[str]:
        """What was assumed or may be wrong, beside the findings."""
        from tacit.checks.untaken import untaken_actions
        from tacit.estimators.kinds import KindsRecovery
        from tacit.folders.check import availability
        from tacit.folders.rows_problem import RowsProblem
        from tacit.inference.expectations import are_weighted

        if isinstance(problem, RowsProblem):
            return [*problem.notes]
        source = None if self.data.close_untaken else self.problem
        notes = [*problem.notes]
        if not problem.goal:  # of a network it is known which links there are
            notes += availability(problem.mdp, problem.layout, source)
        if isinstance(recovery, KindsRecovery):
            return notes
        seen = problem.seen
        if not self.questions.groups and seen.groups is not None and len({*seen.groups}) > 1:
            notes.append(
                "The demonstrations have groups, taken together here: --groups tests whether they "
                "share their weights."
            )
        is_noisy = recovery.temperature > 0 and recovery.solution is not None
        if is_noisy and not self.data.close_untaken and not are_weighted(seen):
            notes += untaken_actions(problem.mdp, seen, recovery).findings(problem.layout)
        return notes

    @property
    def config(self) -> dict[str, object]:
        """What the result depends on beside the data."""
        return {name: one for name, one in flat_values(self).items() if name not in ELSEWHERE}

    @property
    def origin(self) -> dict[str, str]:
        """Where the run comes from and how it is made again."""
        defaults = {one.name: one.default for one in flat_fields(type(self))}
        defaults["estimator"] = "auto"  # its options are those of another one
        given = {
            name: value
            for name, value in flat_values(self).items()
            if name not in ONCE and value != defaults[name]
        }
        command = command_line("recover", self.problem, given)
        return {"problem": str(self.problem), "out": str(self.out), "command": command}


@cache
def _command_of(command: type[Recover], word: str) -> type[Recover]:
    """The command with the options of one estimator, which it takes unless another is named."""
    record = record_of(estimator_kind(word))
    rows = [
        ("estimator", Method, field(default=word)),
        ("options", Annotated[record, arg(name=word)], field(default=record())),
    ]
    made = make_dataclass(
        "Recover",
        rows,
        bases=(command,),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": command.__doc__},
    )
    return made


def profiles_of(problem: Problem) -> dict[str, Any]:
    """The middle of each state in the units of the log, where states are clusters of rows."""
    stored = problem.ingest.get("profiles")
    if stored is None:
        return {}
    from tacit.data.sources import Profiles

    made = Profiles.from_stored(stored)
    table = dict(zip(made.imputing.columns, made.profile.T.tolist(), strict=True))
    return {"profiles": {"columns": {"state": [*made.names], **table}}}


def summary_of(problem: Problem) -> dict[str, Any]:
    """What was seen, in numbers, for people."""
    from tacit.folders.rows_problem import RowsProblem
    from tacit.show.summary import data_summary, row_summary

    if isinstance(problem, RowsProblem):
        return row_summary(problem.mdp.discount, problem.demonstrations)
    return data_summary(problem.mdp, problem.seen, problem.trips)


def _hashes(problem: Problem, belief: Path | None) -> dict[str, str]:
    """Part of what is asked -> SHA-256 of what it says."""
    from tacit.files.trees import digest
    from tacit.folders.rows_problem import RowsProblem
    from tacit.folders.runs import data_hashes, row_hashes

    if isinstance(problem, RowsProblem):
        hashes = row_hashes(problem)
    else:
        hashes = data_hashes(problem.mdp, problem.features, problem.seen)
    if belief is not None:
        hashes["belief"] = digest((belief.read_text(encoding="utf-8"),))
    if problem.goal:
        hashes["trips"] = digest((problem.goal, problem.discount, problem.unended))
    if problem.coefficients:
        hashes["coefficients"] = digest(repr(problem.coefficients))
    return hashes


def of_group(problem: Problem, name: str) -> Problem:
    """The problem with the episodes of one group."""
    from tacit.files.wording import did_you_mean

    groups, seen = group_names(problem), problem.seen
    if name not in groups:
        raise InvalidDemonstrations(
            f"--only must name one of the groups {', '.join(groups)}; got "
            f"{name!r}{did_you_mean(name, groups)}"
        )
    return replace(problem, demonstrations=seen.select(seen.groups == name))


def group_names(problem: Problem) -> tuple[str, ...]:
    """The names of the groups, sorted; one line where there are none."""
    from tacit.files.wording import natural_order

    if problem.seen.groups is None:
        raise InvalidDemonstrations(
            "--by and --only need demonstrations with a column `group`; got none: add it, or name "
            "it by tacit ingest --group COLUMN"
        )
    return natural_order({*problem.seen.groups.tolist()})


def without_untaken(problem: Problem, estimator: Estimator | None) -> tuple[MDP, Finding]:
    """The world without the actions that nobody took and that a first fit expects, and a note."""
    from tacit.checks.untaken import untaken_actions
    from tacit.engine.progress import unwatched
    from tacit.estimators.kinds import KindsOptions

    if problem.goal or isinstance(estimator, KindsOptions):
        raise InvalidModel("--close-untaken is for demonstrators of one type, and not for trips")
    with unwatched():
        first = recovered(problem, estimator=estimator, allow_impossible=True)
        untaken = untaken_actions(problem.mdp, problem.seen, first)
    return untaken.close(problem.mdp), untaken.closing(problem.layout)


def recovered(problem: Problem, **options: Any) -> Recovery:
    """What `tacit.recover` makes of a problem; impossible moves are told by name."""
    from tacit.estimators.recover import recover
    from tacit.folders.check import impossible_sentence
    from tacit.inference.findings import ImpossibleMoves

    try:
        return recover(problem, **options, throw=False)
    except ImpossibleMoves:
        raise InvalidDemonstrations(impossible_sentence(problem)) from None


def table_of(problem: Problem) -> MDP | None:
    """The table of states; None where there is none."""
    from tacit.model.mdp import MDP

    return problem.mdp if isinstance(problem.mdp, MDP) else None


def trajectory_table(problem: Problem, recovery: Recovery) -> dict[str, np.ndarray]:
    """Name -> column, one entry an episode: who it is and how well it fits, the worst first."""
    from tacit.checks.reliability import trajectory_fits
    from tacit.estimators.intentions import IntentionsRecovery
    from tacit.estimators.mixture import MixtureRecovery
    from tacit.export.frames import intention_shares, memberships
    from tacit.folders.runs import trajectory_columns

    seen = problem.seen
    if isinstance(recovery, IntentionsRecovery):
        columns = intention_shares(recovery, seen)
        episodes = columns["number"]
    elif isinstance(recovery, MixtureRecovery):
        columns = memberships(recovery, seen)
        episodes = columns["number"]
    else:
        fits = trajectory_fits(recovery, seen, mdp=table_of(problem))
        columns, episodes = fits.columns, fits.episode
    return trajectory_columns(columns, episodes, seen, problem.layout, problem.trips)


def _answer(run: Run, out: Path, page: str | None, *, strict: bool) -> Answer:
    """Where it is written, and all for programs; exit code 3 as `Recover.run` says."""
    from tacit.estimators.kinds import KindsRecovery
    from tacit.inference.findings import Finding, Kind
    from tacit.show.report import by_name
    from tacit.show.summary import run_data

    recovery, data = run.recovery, run_data(run)
    errors = [recovery.status.value] if recovery.status.name == "NOT_CONVERGED" else []
    if isinstance(recovery, KindsRecovery):
        for row, one in zip(data[f"{recovery.kind}s"], recovery.parts, strict=True):
            row["findings"] = [*map(finding_data, one.identification.findings)]
    else:
        recovery = by_name(recovery, run.layout)
        errors += [data["fit"]] if strict and not recovery.goodness.adequate else []
        doubted = (Kind.DECLARED, Kind.BASIS, Kind.SUPPORT) if strict else ()
        errors += [str(one) for one in recovery.identification.findings if one.kind in doubted]
    notes = [note for note in run.notes if isinstance(note, Finding)]
    findings = [finding_data(one) for one in (*recovery.identification.findings, *notes)]
    data |= {"run": str(out), "report": page, "findings": findings}
    written = f"written: {out}" + (f", {page}" if page else "")
    return Answer([written], data, 3 if errors else 0, errors[:1])
