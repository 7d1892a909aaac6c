"""What `tacit recover` asks beside the fit: doubt about dynamics, holdout, discounts, groups.

And the prices of other budgets, for the page.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, cast

from tyro.conf import arg

from tacit.cli.offers import ESTIMATORS, loaded, offered
from tacit.errors import InvalidDemonstrations, InvalidModel

if TYPE_CHECKING:
    import numpy as np

    from tacit.cli.recover import Recover
    from tacit.cli.terminal import Answer, Terminal
    from tacit.data.demonstrations import Demonstrations
    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run
    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.inverse.noisy.mixture import Mixture, MixtureRecovery
    from tacit.inverse.recover import Estimator
    from tacit.inverse.recovery import Recovery

# Estimators of tacit by their words; other packages offer more.
METHODS = (
    "auto", "likelihood", "explanation", "convex", "alternating", "reward-only", "constraint-only",
    "cloning", "forbidden", "mixture",
)  # fmt: skip


def methods() -> type:
    """The type of a word for an estimator: those of tacit, then what packages offer."""
    return Literal[(*METHODS, *offered(ESTIMATORS, METHODS))]  # pyright: ignore


Method = Annotated[str, arg(constructor_factory=methods, help_behavior_hint="(default: auto)")]  # pyright: ignore[reportCallIssue]
# Options of `tacit recover` that ask for more than a fit.
QUESTIONS = ("bootstrap", "holdout", "discount_grid", "groups", "diagnose", "belief", "cautious")
# Budgets that are tried beside the recovered one, in worlds of so many pairs of state and action.
POINTS, MOST_PAIRS = 21, 5000
# The page beside the runs of the groups, which compares them.
COMPARED = "compare"


def estimator_kind(word: str) -> type | None:
    """The class that a word of `methods` names; None for auto."""
    import tacit

    if word == "auto":
        return None
    if word not in METHODS:
        return loaded(offered(ESTIMATORS, METHODS)[word])
    return getattr(tacit, "".join(part.capitalize() for part in word.split("-")))


def check_answerable(arguments: Recover, problem: Problem, seen: Demonstrations) -> None:
    """Raises, before any long fit, where these data cannot answer what is asked."""
    if arguments.groups:
        if seen.groups is None:
            raise InvalidDemonstrations(
                f"{arguments.problem}: --groups needs demonstrations with a column `group`; "
                "got none"
            )
        if len(found := set(seen.groups.tolist())) < 2:
            raise InvalidDemonstrations(
                f"{arguments.problem}: --groups needs at least two groups; all are {found.pop()!r}"
            )
    if 1.0 in (arguments.discount_grid or ()) and not (problem.goal or problem.mdp.ends.any()):
        raise InvalidModel(
            f"{arguments.problem}: --discount-grid must be in [0, 1): a discount of 1 needs ends, "
            'or trips (goal = "last")'
        )
    for asked, wanted in (
        (arguments.diagnose, "--diagnose compares likelihoods"),
        (arguments.belief is not None, "--belief needs the likelihood"),
    ):
        if asked and problem.trips is None and (told := _optimal(arguments, problem, seen)):
            said = f"{wanted} of a noisy demonstrator; {told}"
            raise InvalidDemonstrations(f"{arguments.problem}: {said}")
    if arguments.belief is not None:
        from tacit.inverse.bootstrap import check_sampler

        read_belief(arguments, problem)
        if arguments.sampler == "nuts":
            check_sampler(problem.mdp)
    if seen.episodes < 2 and (arguments.holdout > 0 or arguments.bootstrap):
        option = "--holdout" if arguments.holdout > 0 else "--bootstrap"
        raise InvalidDemonstrations(
            f"{arguments.problem}: {option} needs at least 2 episodes; got {seen.episodes}"
        )
    auto = arguments.estimator == "auto" and not problem.goal
    if arguments.bootstrap and auto and (told := _optimal(arguments, problem, seen)):
        raise InvalidDemonstrations(
            f"{arguments.problem}: --bootstrap works with likelihood or convex. {told} "
            "Choose one by --estimator, or leave --bootstrap out"
        )


def _optimal(arguments: Recover, problem: Problem, seen: Demonstrations) -> str:
    """Why the demonstrator is taken for optimal, and so has no likelihood; "" where it is not."""
    if arguments.estimator != "auto":
        optimal = arguments.estimator in ("explanation", "alternating")
        return f"the estimator is {arguments.estimator}" if optimal else ""
    from tacit.inverse.optimal.explanation import Explanation
    from tacit.inverse.recover import choose

    picked, reason = choose(problem.mdp, problem.features, seen)
    return reason if isinstance(picked, Explanation) else ""


def with_coefficients(
    arguments: Recover, problem: Problem, estimator: Estimator | None
) -> Estimator | None:
    """The estimator, told what `problem.toml` knows of coefficients; None to pick by evidence."""
    from tacit.inverse.noisy.likelihood import Likelihood

    if estimator is None:  # nothing else knows bounds
        estimator = Likelihood(free_reward=bool(problem.goal), seed=arguments.seed)
    if not isinstance(estimator, Likelihood):
        raise InvalidModel(
            f"{arguments.problem}: [coefficients] of problem.toml is for --estimator likelihood; "
            f"the estimator is {arguments.estimator}"
        )
    return replace(estimator, **problem.coefficients)


def read_belief(arguments: Recover, problem: Problem) -> dict[str, tuple[float, float]]:
    """Coefficient -> mean and standard deviation believed beforehand, from the file given."""
    from tacit.folders.settings import read_toml
    from tacit.model.objective import coefficient_names

    assert arguments.belief is not None
    names = coefficient_names(problem.features.reward_names, problem.features.cost_names)
    found = {}
    for name, pair in read_toml(arguments.belief).items():
        sound = isinstance(pair, list) and [type(one) in (int, float) for one in pair] == [True] * 2
        if name not in names or not sound or not pair[1] > 0:
            raise InvalidModel(
                f"{arguments.belief} must give coefficients a mean and a positive standard "
                f"deviation, as in {names[0]!r} = [1.0, 0.5]; got {name!r:.60} = {pair!r:.60}; the "
                f"names are {', '.join(names[:8])}"
            )
        found[name] = (float(pair[0]), float(pair[1]))
    return found


def fit_types(
    arguments: Recover, problem: Problem, seen: Demonstrations, estimator: Estimator | None
) -> tuple[MixtureRecovery, np.ndarray, dict[str, np.ndarray]]:
    """The types of demonstrators, the numbers of the trajectories, and columns about them."""
    from tacit.export.frames import memberships
    from tacit.inverse.findings import Finding, Kind
    from tacit.inverse.recover import recover

    options = {"allow_impossible": True, "throw": False}  # moves were refused already, by name
    chosen = cast("Mixture", estimator)
    found = recover(problem.mdp, problem.features, seen, estimator=chosen, **options)
    if problem.mdp.evidence is not None:
        said = "The intervals of all types take the estimated transitions for known."
        known = found.identification.with_findings([Finding(said, Kind.ERRORS)])
        found = replace(found, identification=known)
    columns = memberships(found, seen)
    return found, columns["number"], columns


def further_results(
    arguments: Recover,
    problem: Problem,
    seen: Demonstrations,
    recovery: Recovery,
    estimator: Estimator | None,
) -> dict[str, object]:
    """Further results by name, each a stage of its own."""
    from tacit import checks
    from tacit.engine.progress import once, unwatched
    from tacit.folders.recoveries import plain
    from tacit.inverse.noisy.likelihood import Likelihood

    world, seed = (problem.mdp, problem.features, seen), arguments.seed
    task = world
    if problem.trips is not None:  # `check_answerable` refuses what is asked of a world
        task = (replace(problem.trips, demonstrations=seen), None, None)
    asked = {}
    if (share := arguments.holdout) > 0:
        asked["holdout"] = lambda: checks.holdout(
            *task, estimator=estimator, share=share, seed=seed, recovery=recovery
        )
    if arguments.discount_grid:
        own = None if problem.trips is None else problem.trips.discount
        own = problem.mdp.discount if own is None else own
        grid = sorted({own, *arguments.discount_grid})
        asked["discount_profile"] = lambda: checks.discount_profile(
            *task, grid, estimator=estimator
        )
    if arguments.groups:
        chosen = estimator if isinstance(estimator, Likelihood) else None
        asked["groups"] = lambda: checks.equal_weights_test(
            *task, estimator=chosen, seed=seed, raw_units=arguments.raw_units
        )
    if arguments.diagnose:
        chosen = estimator if isinstance(estimator, Likelihood) else None
        asked["diagnose"] = lambda: checks.diagnose(
            *task, recovery, estimator=chosen, seed=seed, layout=problem.layout
        )
    if arguments.belief is not None:
        belief = read_belief(arguments, problem)
        given = {"mdp": problem.mdp, "features": problem.features, "demonstrations": seen}
        asked["posterior"] = lambda: checks.posterior(
            recovery, belief, seed=seed, sampler=arguments.sampler, **given
        )
    if arguments.cautious:
        from tacit.checks.prices import cautious_answer

        asked["cautious"] = lambda: cautious_answer(recovery, problem.mdp, problem.features)

    def compute(name: str) -> object:
        with unwatched():
            return plain(asked[name](), arrays=True)

    return {name: once(name, lambda name=name: compute(name)) for name in asked}


def without_untaken(arguments: Recover, problem: Problem, estimator: Estimator | None) -> Problem:
    """The problem without the actions that nobody took and that a first fit expects."""
    from tacit.checks.untaken import untaken_actions
    from tacit.engine.progress import unwatched
    from tacit.inverse.findings import Finding, Kind
    from tacit.inverse.recover import recover

    if arguments.mixed or problem.goal:
        raise InvalidModel("--close-untaken is for demonstrators of one type, and not for trips")
    seen = problem.demonstrations
    assert seen is not None
    with unwatched():
        world = problem.mdp, problem.features
        first = recover(*world, seen, estimator=estimator, allow_impossible=True, throw=False)
        found = untaken_actions(problem.mdp, seen, first)
    many, worth = int(found.pairs.sum()), found.gain / found.observed_steps
    said = (
        f"{many} pairs of state and action that were never taken are closed, as --close-untaken "
        f"asks ({found.names(problem.layout)}): worth {worth:.2g} nats a step by the fit before. "
        "They were chosen by the same demonstrations: tests and intervals do not count that."
        if many
        else "--close-untaken closed nothing: no action was left untaken that the fit expects."
    )
    notes = (*problem.notes, Finding(said, Kind.ASSUMED, number=float(many)))
    return replace(problem, mdp=found.close(problem.mdp), notes=notes)


def of_group(arguments: Recover, seen: Demonstrations, only: str) -> Demonstrations:
    """The episodes of the one group that was asked for."""
    groups = group_names(arguments, seen)
    if only not in groups:
        from tacit.files.columns import did_you_mean

        raise InvalidDemonstrations(
            f"{arguments.problem}: --only must name one of the groups {', '.join(groups)}; got "
            f"{only!r}{did_you_mean(only, groups)}"
        )
    return seen.select(seen.groups == only)


def group_names(arguments: Recover, seen: Demonstrations) -> tuple[str, ...]:
    """The names of the groups, sorted; one line where there are none."""
    from tacit.files.columns import natural_order

    if seen.groups is None:
        raise InvalidDemonstrations(
            f"{arguments.problem}: --by and --only need demonstrations with a column `group`; got "
            "none: add it, or name it by tacit ingest --group COLUMN"
        )
    return natural_order({*seen.groups.tolist()})


def recover_groups(arguments: Recover, terminal: Terminal) -> Answer:
    """One run a group inside the folder, and the page that compares them."""
    import re

    from tacit.cli.compare import SHARED, Compare
    from tacit.cli.run import Report, shared_run
    from tacit.cli.terminal import Answer
    from tacit.files.atomic import check_folder
    from tacit.inverse.noisy.likelihood import Likelihood

    if arguments.mixed:
        raise InvalidModel("--by group knows who is of which; several types are for --only")
    problem = terminal.load_problem(arguments.problem)
    seen = arguments.chosen_episodes(problem)
    groups = group_names(arguments, seen)
    if problem.goal and arguments.share != "none":
        raise InvalidModel(
            f'{arguments.problem}: --share is not for trips (goal = "last"): --groups tests '
            "whether their groups share all coefficients"
        )
    estimator = arguments.make_estimator()
    if problem.coefficients:
        estimator = with_coefficients(arguments, problem, estimator)
    if arguments.close_untaken:
        problem = without_untaken(arguments, problem, estimator)
    if arguments.share != "none":
        check_folder(arguments.out / SHARED)
        if not isinstance(estimator, Likelihood | None):
            raise InvalidModel(
                f"--share fits by the likelihood; the estimator is {arguments.estimator}"
            )
        (estimator or Likelihood()).check_no_lapses("--share")
    folders = {name: re.sub(r"[^\w.-]+", "-", name)[:60].strip(".-") or "group" for name in groups}
    for name, folder in folders.items():
        if folder.casefold() == SHARED or folder.casefold().startswith(COMPARED):
            folders[name] = f"group-{folder}"
    if len(groups) < 2 or len({folder.casefold() for folder in folders.values()}) < len(groups):
        raise InvalidDemonstrations(
            f"{arguments.problem}: --by group needs at least two groups whose names make different "
            f"folders; got {', '.join(groups)}"
        )
    answers, said = {}, []
    for name, folder in folders.items():
        terminal.note(f"group {name}: {int((seen.groups == name).sum())} episodes")
        alone = replace(arguments, by=None, share="none", only=name, out=arguments.out / folder)
        answers[name] = alone.run(replace(terminal, show=None))
        extras = cast("dict[str, dict[str, object]]", answers[name].data["extras"])
        for one in extras.values():  # what was asked of each group besides
            said += [f"{name}: {line}" for line in cast("list[str]", one.get("sentences", ()))]
    runs = tuple(arguments.out / folder for folder in folders.values())
    wrong = [f"group {name}: {line}" for name, one in answers.items() for line in one.errors]
    parts, data, place = [], {}, None
    if arguments.share != "none":
        place = arguments.out / SHARED / "shared"
        one = cast("Likelihood | None", estimator)
        joint = shared_run(arguments, problem, seen, groups, estimator=one, place=place)
        if not arguments.no_report:
            Report(place, raw_units=arguments.raw_units).run(terminal)
        heading = f"With {arguments.share} shared, tasks in the order {', '.join(groups)}:\n"
        parts += [heading, joint.summary(raw_units=arguments.raw_units), f"written: {place}"]
        data["shared"] = str(place)
        if joint.status.name == "NOT_CONVERGED":
            wrong.append(f"with {arguments.share} shared: {joint.status.value}")
        wrong += joint.findings[:1] if arguments.strict and not joint.goodness.adequate else []
    page = None if arguments.no_report else arguments.out / f"{COMPARED}.html"
    told = Compare(runs[0], runs[1:], page, raw_units=arguments.raw_units).run(terminal, place)
    each = {name: one.data["extras"] for name, one in answers.items()}
    data = {**told.data, **data, "runs": [str(run) for run in runs], "extras": each}
    parts = [*told.parts, *said, *parts, f"written: {', '.join(map(str, runs))}"]
    return Answer(parts, data, 3 if wrong else 0, wrong[:1])


def with_price_curves(problem: Problem, run: Run) -> Run:
    """The run with the price curve of every budget that holds the demonstrator back.

    None where the world is too large, no cost is known, or every goal has a policy of its own.
    """
    import numpy as np

    from tacit.checks import price_curve
    from tacit.engine.progress import unwatched
    from tacit.folders.recoveries import plain
    from tacit.forward.column_generation import ColumnGeneration
    from tacit.forward.soft_dual import SoftDual

    recovery, mdp = run.recovery, problem.mdp
    if recovery.solution is None or mdp.states * mdp.actions > MOST_PAIRS:
        return run
    noise = recovery.solution.temperature
    solver = SoftDual(temperature=noise) if noise > 0 else ColumnGeneration()
    curves = {}
    with unwatched():
        for k, (weights, price) in enumerate(
            zip(recovery.cost_weights, recovery.multipliers, strict=True)
        ):
            if price > 0 and np.isfinite(weights).all():
                budget = float(recovery.objective.budgets[k])
                asked = {"constraint": k, "points": POINTS, "solver": solver}
                curves[str(k)] = price_curve(mdp, recovery.objective, **asked, through=budget)
    if not curves:
        return run
    return replace(run, extras={**run.extras, "prices": plain(curves, arrays=True)})
