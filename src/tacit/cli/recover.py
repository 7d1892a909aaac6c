"""`tacit recover`: a problem folder in, a run folder out, kept on disk while it lasts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional, Union, cast

from tacit.cli.problem import check_trips, check_types, estimator_of, taken_notes
from tacit.cli.questions import (
    QUESTIONS,
    Method,
    check_answerable,
    fit_types,
    further_results,
    of_group,
    recover_groups,
    with_coefficients,
    with_price_curves,
    without_untaken,
)
from tacit.cli.terminal import Answer, Terminal, command_line, finding_data, shown_default
from tacit.errors import InvalidDemonstrations, InvalidModel

if TYPE_CHECKING:
    import numpy as np

    from tacit.data.demonstrations import Demonstrations
    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run
    from tacit.inverse.recover import Estimator
    from tacit.inverse.recovery import Recovery

# Options that are handed to the estimator, where it has them.
OPTIONS = (
    "types", "free_reward", "level", "ridge", "prior", "tolerance", "max_steps", "starts",
    "step_size", "band", "multiplier", "update", "reward_weights", "temperature", "errors",
    "candidates", "sets", "cost_weights", "budgets",
)  # fmt: skip
# Arguments that the result does not depend on.
ELSEWHERE = (
    "problem", "out", "resume", "overwrite", "break_lock", "allow_impossible", "strict",
    "no_report", "by", "share", "belief",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Recover:
    """Recover what a demonstrator wants and refuses from a problem folder, into a run folder.

    The run is kept on disk while it lasts: after an interruption `--resume` continues where it
    stopped, and gives the same numbers, to the last bit, as a run that was never interrupted.
    """

    problem: Path
    """folder of the problem"""
    out: Path = Path("run")
    """folder to write"""
    estimator: Method = "auto"
    """method; auto picks one by the evidence and says why"""
    resume: bool = False
    """continue the run in the folder, or begin if there is none"""
    overwrite: bool = False
    """begin again; the older run stays until the new one is whole"""
    break_lock: bool = False
    """take the folder from a writer on another machine that is surely gone"""
    seed: int = 0
    """seed of everything random"""
    holdout: float = 0.0
    """share of episodes, or individuals, kept back to test the recovery from others; 0 for none"""
    discount_grid: Annotated[Union[None, tuple[float, ...]], shown_default("none")] = None
    """discounts, beside its own, under which to recover, to see how the answer changes"""
    bootstrap: int = 0
    """resamples of trajectories, or individuals, for the intervals; 0 keeps the estimator's"""
    groups: bool = False
    """test whether the groups of the demonstrations share their weights"""
    by: Annotated[Optional[Literal["group"]], shown_default("all together")] = None
    """recover from each group by itself, a run each inside the folder, and compare them"""
    share: Literal["none", "costs", "all"] = "none"
    """with --by: also fit all groups with the same cost weights, or with all weights the same"""
    types: Annotated[Union[None, int, Literal["auto"]], shown_default("1; mixture: 2")] = None
    """mixture: number of types, where it is not known who is of which; auto chooses it by BIC"""
    only: Annotated[Optional[str], shown_default("all")] = None
    """group from whose episodes alone to recover"""
    diagnose: bool = False
    """give up each assumption in turn and say which one the demonstrations contradict"""
    belief: Annotated[Optional[Path], shown_default("none")] = None
    """TOML file of a prior belief: a mean and a standard deviation for each coefficient in it"""
    sampler: Literal["laplace", "nuts"] = "laplace"
    """with --belief: laplace takes the likelihood for quadratic at its maximum, nuts samples it"""
    cautious: bool = False
    """also give the objective that keeps within every budget the demonstrations leave possible"""
    allow_impossible: bool = False
    """let observed moves of probability 0 pass, with a finding, instead of refusing them"""
    close_untaken: bool = False
    """close the actions that nobody took although a first fit expects them, and fit again"""
    free_reward: bool = False
    """likelihood, convex, explanation, reward-only, mixture: let reward weights be negative"""
    level: Annotated[Optional[float], shown_default("0.05")] = None
    """likelihood, constraint-only, mixture: level of the test whether a constraint is active"""
    ridge: Annotated[Optional[float], shown_default("0.0")] = None
    """convex: strength of the penalty on the squared parameters"""
    prior: Annotated[Optional[str], shown_default("none")] = None
    """likelihood: ridge, smooth or sparse, a prior on weights; ridge:0.3 gives its strength, too"""
    tolerance: Annotated[
        Optional[float], shown_default("1e-09; alternating: 0.0001; mixture: 1e-06")
    ] = None
    """the estimator has converged when its residual is below this"""
    max_steps: Annotated[Optional[int], shown_default("300; alternating: 150; mixture: 500")] = None
    """largest number of steps of the estimator; not for explanation"""
    starts: Annotated[Optional[int], shown_default("12; mixture: 8")] = None
    """alternating, mixture: number of random starts"""
    step_size: Annotated[Optional[float], shown_default("5.0")] = None
    """alternating: size of the first step"""
    band: Annotated[Optional[float], shown_default("2.5")] = None
    """alternating: number of standard errors within which a difference is taken for chance"""
    multiplier: Annotated[
        Optional[Literal["optimal", "at-least-one"]], shown_default("optimal")
    ] = None
    """alternating: price of the constrained problem, or 1 + nu as the paper's text has it"""
    update: Annotated[
        Optional[Literal["exponentiated", "projected"]], shown_default("exponentiated")
    ] = None
    """alternating: weights times exp(-step), as published, or less the step, then projected"""
    reward_weights: Annotated[Union[None, tuple[float, ...]], shown_default("none")] = None
    """constraint-only, forbidden and others: the known weights of the reward features"""
    cost_weights: Annotated[Union[None, tuple[float, ...]], shown_default("none")] = None
    """known-constraints: the known weights of all cost features, constraint by constraint"""
    budgets: Annotated[Union[None, tuple[float, ...]], shown_default("none")] = None
    """known-constraints, soft-constraint: the known budget of each constraint"""
    candidates: Annotated[
        Union[None, tuple[Literal["states", "actions", "features", "pairs"], ...]],
        shown_default("states and actions; forbidden: features, too"),
    ] = None
    """forbidden, likeliest- and posterior-constraints: what may be forbidden"""
    sets: Annotated[Union[None, tuple[str, ...]], shown_default("none")] = None
    """for the same methods: states that may be forbidden together, each as NAME=STATE,STATE"""
    temperature: Annotated[Optional[float], shown_default("estimated")] = None
    """likelihood, convex, constraint-only: the known noise, of reward weights that sum to 1"""
    errors: Annotated[Optional[float], shown_default("0.0")] = None
    """explanation: largest probability that a step is a mistake; above 0 the set is a 95 % one"""
    strict: bool = False
    """exit code 3 where the model does not fit what was seen"""
    no_report: bool = False
    """write no report.html"""
    raw_units: bool = False
    """show weights and prices of the features as given, and not of standardised ones"""

    def __post_init__(self) -> None:
        if self.share != "none" and self.by is None:
            raise InvalidModel("share is for --by group; got it alone")
        if self.sampler != "laplace" and self.belief is None:
            raise InvalidModel("sampler is for --belief; got it alone (an empty file is none)")
        if not 0.0 <= self.holdout < 1.0:
            raise InvalidModel(f"holdout must be in [0, 1); got {self.holdout}")
        for discount in self.discount_grid or ():
            if not 0.0 <= discount <= 1.0:
                raise InvalidModel(f"discount_grid must be in [0, 1]; got {discount}")
        if self.resume and self.overwrite:
            raise InvalidModel("resume continues, --overwrite begins again; got both")
        if self.bootstrap and self.estimator not in ("auto", "likelihood", "convex"):
            raise InvalidModel(
                f"bootstrap works with likelihood or convex; the estimator is {self.estimator}"
            )
        for name in ("seed", "bootstrap"):
            if (getattr(self, name) or 0) < 0:
                raise InvalidModel(f"{name} must be at least 0; got {getattr(self, name)}")

    def run(self, terminal: Terminal) -> Answer:
        """Recovers, writes the run, and says what was found.

        Exit code 3 where it did not converge or, if that is asked, where the model does not fit.
        """
        from tacit.cli.run import write_report
        from tacit.engine.progress import watching
        from tacit.files.arrays import digest
        from tacit.folders.claims import claimed, identity
        from tacit.folders.runs import Run, data_hashes
        from tacit.show.summary import run_parts

        self.make_estimator()  # what makes no sense is said before anything is read
        if self.by is not None:
            return recover_groups(self, terminal)
        problem = terminal.load_problem(self.problem)
        estimator = self.make_estimator(problem)
        if problem.coefficients:
            estimator = with_coefficients(self, problem, estimator)
        seen = self.chosen_episodes(problem)
        if self.mixed:
            check_types(self, problem)
        if problem.goal:
            check_trips(self, problem)
        self._check_moves(problem, seen)
        if self.asks:
            check_answerable(self, problem, seen)
        if self.close_untaken:
            problem = without_untaken(self, problem, estimator)
        hashes = data_hashes(problem.mdp, problem.features, seen)
        if self.belief is not None:
            hashes["belief"] = digest((self.belief.read_text(encoding="utf-8"),))
        if problem.goal:
            hashes["trips"] = digest((problem.goal, problem.discount, problem.unended))
        if problem.coefficients:
            hashes["coefficients"] = digest(repr(problem.coefficients))
        depends = identity(self.config, hashes)
        options = {name: getattr(self, name) for name in ("resume", "overwrite", "break_lock")}
        with claimed(self.out, depends, **options) as claim:
            if claim.done:
                run = Run.load(self.out, several=True)
            else:
                kept = f"{self.out} keeps what was done: --resume goes on with it"
                going, progress = terminal.resumable(kept), terminal.progress()
                with going, progress as tell, watching([tell, claim.checkpoint]):
                    run = _fit(self, problem, seen, estimator, hashes)
                    if terminal.show is not None:  # the answer first: pages and their figures wait
                        terminal.show(run_parts(run, raw_units=self.raw_units))
                    if not self.mixed and (run.recovery.multipliers > 0).any():
                        run = with_price_curves(problem, run)
                claim.finish(run)
            report = None
            if not self.no_report:
                report = write_report(run, self.out, raw_units=self.raw_units).data["report"]
        answer = _answer(self, run, report)
        told = terminal.show is not None and not claim.done
        return replace(answer, parts=answer.parts[-1:]) if told else answer

    def make_estimator(self, problem: Problem | None = None) -> Estimator | None:
        """The estimator that was asked for, with the options given; None to pick by evidence.

        None also where the problem must be known to make it and is not given.
        """
        # By identity: a 0 that was given is not False.
        given = {n: v for n in OPTIONS if (v := getattr(self, n)) is not None and v is not False}
        if self.estimator == "auto" and not given:
            return None
        return estimator_of(self, given, problem)

    def chosen_episodes(self, problem: Problem) -> Demonstrations:
        """The demonstrations of a problem, or of the one group that was asked for."""
        if problem.demonstrations is None:
            raise InvalidDemonstrations(
                f"{self.problem} must hold demonstrations to recover from: "
                "demonstrations.parquet, .csv or .npz; it holds none"
            )
        every = problem.demonstrations
        return every if self.only is None else of_group(self, every, self.only)

    def _check_moves(self, problem: Problem, seen: Demonstrations) -> None:
        """Raises where moves were seen that the given dynamics rule out, unless that is allowed."""
        from tacit.inverse.expectations import moves_of

        known = problem.mdp.evidence is None and not self.allow_impossible and not problem.goal
        if known and (found := moves_of(problem.mdp, seen)) is not None and found.impossible:
            from tacit.folders.check import impossible_sentence

            raise InvalidDemonstrations(f"{self.problem}: {impossible_sentence(problem, seen)}")

    @property
    def asks(self) -> bool:
        """Whether anything is asked beside the fit."""
        return any(getattr(self, name) for name in QUESTIONS)

    @property
    def mixed(self) -> bool:
        """Whether several types of demonstrators are asked for."""
        return self.types is not None or self.estimator == "mixture"

    @property
    def config(self) -> dict[str, object]:
        """What the result depends on beside the data."""
        names = (one.name for one in fields(self) if one.name not in ELSEWHERE)
        return {name: getattr(self, name) for name in names}

    @property
    def command(self) -> str:
        """The command line that asks for the same."""
        left = ("problem", "resume", "overwrite", "break_lock")
        asked = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in left}
        given = {name: value for name, value in asked.items() if value != getattr(Recover, name)}
        return command_line("recover", self.problem, given)


def _fit(
    arguments: Recover,
    problem: Problem,
    seen: Demonstrations,
    estimator: Estimator | None,
    hashes: dict[str, str],
) -> Run:
    """The run: the recovery, and every question asked about it."""
    from tacit.checks.untaken import untaken_actions
    from tacit.folders.reading import availability
    from tacit.folders.runs import Run
    from tacit.inverse.expectations import are_weighted
    from tacit.show.summary import summary_of

    fit = fit_types if arguments.mixed else _fit_one
    recovery, number, columns = fit(arguments, problem, seen, estimator)
    who = {"episode": number if seen.names is None else seen.names[number]}
    if seen.individuals is not None:
        who["individual"] = seen.individuals[number]
    source = None if arguments.close_untaken else arguments.problem
    notes = [*problem.notes, *availability(problem.mdp, problem.layout, source)]
    notes += [] if estimator is None else taken_notes(arguments, estimator)
    if seen.groups is not None:
        who["group"] = seen.groups[number]
        alike = arguments.groups or arguments.mixed
        if not alike and len(set(seen.groups.tolist())) > 1:
            notes.append(
                "The demonstrations have groups, taken together here: --groups tests whether they "
                "share their weights."
            )
    asked = {"problem": arguments.problem, "out": arguments.out, "command": arguments.command}
    found, extras = cast("Recovery", recovery), {}
    noisy = not (arguments.mixed or problem.goal) and found.temperature > 0
    if noisy and not arguments.close_untaken and not are_weighted(seen):
        notes += untaken_actions(problem.mdp, seen, found).findings(problem.layout)
    if arguments.asks:
        extras = further_results(arguments, problem, seen, found, estimator)
    return Run(
        found,
        layout=problem.layout,
        config={**arguments.config, **{name: str(value) for name, value in asked.items()}},
        data=summary_of(problem, seen),
        notes=tuple(notes),
        trajectories={**who, **columns},
        extras=extras,
        seed=arguments.seed,
        hashes=hashes,
    )


def _fit_one(
    arguments: Recover, problem: Problem, seen: Demonstrations, estimator: Estimator | None
) -> tuple[Recovery, np.ndarray, dict[str, np.ndarray]]:
    """The recovery, the numbers of the trajectories, the worst first, and columns about them."""
    from tacit.checks.reliability import trajectory_fits
    from tacit.folders.runs import ends_of
    from tacit.inverse.recover import recover

    trips = None if problem.trips is None else replace(problem.trips, demonstrations=seen)
    options = {"estimator": estimator, "bootstrap": arguments.bootstrap, "seed": arguments.seed}
    if trips is not None:
        recovery = recover(trips, **options, throw=False)
    else:
        # Moves were refused already, by name, where they are not allowed.
        world = problem.mdp, problem.features, seen
        recovery = recover(*world, **options, allow_impossible=True, throw=False)
    fits = trajectory_fits(recovery, seen, mdp=problem.mdp)
    ends = {} if trips is None else ends_of(problem.layout, trips, fits.episode)
    told = {name: one for name, one in vars(fits).items() if name not in ("episode", "names")}
    return recovery, fits.episode, {**ends, **told}


def _answer(arguments: Recover, run: Run, report: object) -> Answer:
    """What was found; exit code 3 as `Recover.run` says."""
    from tacit.show.summary import run_data, run_parts, with_names

    found, data = with_names(run.recovery, run.layout), run_data(run)
    notes = [note for note in run.notes if hasattr(note, "kind")]
    told = [finding_data(one) for one in (*found.identification.findings, *notes)]
    data |= {"run": str(arguments.out), "report": report, "findings": told}
    types: tuple[Recovery, ...] = getattr(found, "types", ())
    for one, kept in zip(data.get("types", []), types, strict=True):
        one["findings"] = [finding_data(said) for said in kept.identification.findings]
    wrong = [found.status.value] if found.status.name == "NOT_CONVERGED" else []
    if arguments.strict and not arguments.mixed and not found.goodness.adequate:
        wrong.append(data["fit"])
    shown = run_parts(run, raw_units=arguments.raw_units)
    parts = [*shown, f"written: {arguments.out}" + (f", {report}" if report else "")]
    return Answer(parts, data, 3 if wrong else 0, wrong[:1])
