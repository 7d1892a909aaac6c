"""What `tacit recover` is asked beside the fit: refused before it, or answered after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union, cast

from tacit.cli.terminal import shown_default
from tacit.errors import InvalidDemonstrations, InvalidModel

if TYPE_CHECKING:
    from tacit.data.measurements import Measurements
    from tacit.estimators.logged.recovery import LoggedRecovery
    from tacit.estimators.recover import Estimator
    from tacit.folders.problem import Problem
    from tacit.model.layout import Layout
    from tacit.model.mdp import MDP
    from tacit.recovery import Recovery
    from tacit.show.bands import PartialEffect

OF_ROWS = (
    "--holdout",
    "--discount-grid",
    "--bootstrap",
    "--groups",
    "--belief",
)  # what rows of measurements can be asked
ASKING = ("bootstrap", "holdout", "discount_grid", "groups", "diagnose", "belief")


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What is asked beside the fit; each answer is part of the report."""

    diagnose: bool = False
    """give up each assumption in turn and say which one the demonstrations contradict"""
    holdout: float = 0.0
    """share of episodes, or individuals, kept back to test the recovery from others; 0 for none"""
    discount_grid: Annotated[Union[None, tuple[float, ...]], shown_default("none")] = None
    """discounts, beside its own, under which to recover, to see how the answer changes"""
    bootstrap: int = 0
    """resamples of trajectories, or individuals, for the intervals; 0 keeps the estimator's"""
    groups: bool = False
    """test whether the groups of the demonstrations share their weights"""
    share: Literal["none", "costs", "all"] = "none"
    """with --by: also fit all groups with the same cost weights, or with all weights the same"""
    belief: Annotated[Optional[Path], shown_default("none")] = None
    """TOML file of a prior belief: a mean and a standard deviation for each coefficient in it"""

    def __post_init__(self) -> None:
        if not 0.0 <= self.holdout < 1.0:
            raise InvalidModel(f"holdout must be in [0, 1); got {self.holdout}")
        for discount in self.discount_grid or ():
            if not 0.0 <= discount <= 1.0:
                raise InvalidModel(f"discount_grid must be in [0, 1]; got {discount}")
        if self.bootstrap < 0:
            raise InvalidModel(f"bootstrap must be at least 0; got {self.bootstrap}")

    @property
    def asked(self) -> list[str]:
        """The options by which something is asked."""
        return [f"--{name.replace('_', '-')}" for name in ASKING if getattr(self, name)]


def check_answerable(questions: Questions, problem: Problem, estimator: Estimator | None) -> None:
    """Raises, before any long fit, where these data or this estimator cannot answer."""
    from tacit.estimators.kinds import KindsOptions
    from tacit.folders.rows_problem import RowsProblem

    if isinstance(estimator, KindsOptions):
        if problem.goal and estimator.kind == "intention":
            raise InvalidModel("trips are recovered without intentions that switch; give --types")
        if refused := questions.asked:
            raise InvalidModel(
                f"several {estimator.kind}s of demonstrators are recovered without {refused[0]}; "
                "leave out one of the two"
            )
        return
    if isinstance(problem, RowsProblem):
        if refused := [one for one in questions.asked if one not in OF_ROWS]:
            raise InvalidModel(
                f"rows of measurements are recovered without {refused[0]}, which changes single "
                f"states of a table; of these options they have {', '.join(OF_ROWS)}"
            )
        _check_data(questions, problem)
        return
    if problem.goal:
        _check_trips(estimator)
    elif reason := _reason_for_optimal(questions, problem, estimator):
        raise InvalidDemonstrations(reason)
    _check_data(questions, problem)


def _check_trips(estimator: Estimator | None) -> None:
    """Raises where an estimator is not for trips."""
    from tacit.estimators.likelihood import Likelihood

    if not isinstance(estimator, Likelihood | None):
        raise InvalidModel(
            '--estimator is not for trips (goal = "last"): they are recovered by likelihood or '
            f"mixture; got {estimator!r:.60}"
        )


def _reason_for_optimal(questions: Questions, problem: Problem, estimator: Estimator | None) -> str:
    """What is asked of a noisy demonstrator while this one is taken for optimal; "" for nothing."""
    from tacit.estimators.convex import Convex
    from tacit.estimators.explanation.estimator import Explanation
    from tacit.estimators.likelihood import Likelihood
    from tacit.estimators.paper.alternating import Alternating
    from tacit.estimators.recover import choose

    wishes = [
        (questions.diagnose, "--diagnose compares likelihoods of a noisy demonstrator"),
        (questions.belief, "--belief needs the likelihood of a noisy demonstrator"),
        (questions.bootstrap, "--bootstrap works with likelihood or convex"),
    ]
    wishes = [wish for is_asked, wish in wishes if is_asked]
    if not wishes:
        return ""
    if estimator is None:
        picked, reason = choose(problem.mdp, problem.features, problem.seen)
        cure = "choose one by --estimator, or leave it out"
        return f"{wishes[0]}. {reason} {cure}" if isinstance(picked, Explanation) else ""
    if questions.bootstrap and not isinstance(estimator, Likelihood | Convex):
        return f"{wishes[-1]}; the estimator is {estimator!r:.60}"
    is_optimal = isinstance(estimator, Explanation | Alternating)
    return f"{wishes[0]}; the estimator is {estimator!r:.60}" if is_optimal else ""


def _check_data(questions: Questions, problem: Problem) -> None:
    """Raises where these demonstrations are too few, or this world has no ends."""
    seen = problem.seen
    if questions.groups:
        groups = set() if seen.groups is None else set(seen.groups.tolist())
        if seen.groups is None:
            raise InvalidDemonstrations(
                "--groups needs demonstrations with a column `group`; got none"
            )
        if len(groups) < 2:
            raise InvalidDemonstrations(
                f"--groups needs at least two groups; all are {groups.pop()!r}"
            )
    if 1.0 in (questions.discount_grid or ()) and not (problem.goal or problem.mdp.ends.any()):
        raise InvalidModel(
            "--discount-grid must be in [0, 1): a discount of 1 needs ends, or trips "
            '(goal = "last")'
        )
    for name in ("holdout", "bootstrap"):
        if getattr(questions, name) and seen.episodes < 2:
            raise InvalidDemonstrations(f"--{name} needs at least 2 episodes; got {seen.episodes}")


def read_belief(path: Path, problem: Problem) -> dict[str, tuple[float, float]]:
    """Coefficient -> mean and standard deviation believed beforehand, from a file."""
    from tacit.folders.rows_problem import RowsProblem
    from tacit.folders.settings import read_toml
    from tacit.model.objective import coefficient_names

    is_rows = isinstance(problem, RowsProblem)
    features = problem.task.row_features if is_rows else problem.features
    names = coefficient_names(features.reward_names, features.cost_names)
    belief = {}
    for name, pair in read_toml(path).items():
        numbers = (
            [one for one in pair if type(one) in (int, float)] if isinstance(pair, list) else []
        )
        if name not in names or numbers != pair or len(numbers) != 2 or not numbers[1] > 0:
            raise InvalidModel(
                f"{path} must give coefficients a mean and a positive standard "
                f"deviation, as in {names[0]!r} = [1.0, 0.5]; got {name!r:.60} = {pair!r:.60}; the "
                f"names are {', '.join(names[:8])}"
            )
        belief[name] = (float(numbers[0]), float(numbers[1]))
    return belief


def has_coordinates(layout: Layout) -> bool:
    """Whether it is known where all states lie on the land."""
    import numpy as np

    middles = layout.middles
    return len(middles) > 0 and bool(np.isfinite(middles).all())


def selection(recovery: Recovery) -> list[PartialEffect]:
    """How selection changes along each feature that is no part of a curve."""
    from tacit.show.bands import partial_effects
    from tacit.show.space import MOST_EFFECTS

    names = recovery.parameters.names
    begins = [0, len(recovery.reward_names)]
    for names_of in recovery.cost_names:
        begins.append(begins[-1] + len(names_of))
    curved = {begins[one.block] + j for one in recovery.curves for j in one.columns.tolist()}
    plain_names = [name for j, name in enumerate(names) if j not in curved][:MOST_EFFECTS]
    return [partial_effects(recovery, name, confidence=0.95) for name in plain_names]


def further_results(
    questions: Questions,
    problem: Problem,
    recovery: Recovery,
    *,
    estimator: Estimator | None,
    seed: int,
) -> dict[str, object]:
    """The answers by name, each a stage of its own: one function of `tacit.checks` each."""
    from tacit import checks
    from tacit.engine.progress import once, unwatched
    from tacit.estimators.likelihood import Likelihood
    from tacit.folders.recoveries import plain
    from tacit.folders.rows_problem import RowsProblem

    world = problem.mdp, problem.features, problem.seen
    task: tuple[Any, Any, Any] = world if problem.trips is None else (problem.trips, None, None)
    if isinstance(problem, RowsProblem):
        task = (problem.task, None, None)
    fit = {"estimator": estimator}
    likelihood = estimator if isinstance(estimator, Likelihood) else None
    grid = sorted({problem.discount or 0.0, *(questions.discount_grid or ())})
    belief = {} if questions.belief is None else read_belief(questions.belief, problem)
    is_land = not problem.goal and has_coordinates(problem.layout)
    is_land = is_land and len(recovery.parts) == 1 and recovery.solution is not None
    held = {"share": questions.holdout, "seed": seed}
    answers: dict[str, tuple[object, Callable[[], object]]] = {
        "holdout": (questions.holdout, lambda: checks.holdout(*task, **fit, **held)),
        "discount_profile": (
            questions.discount_grid,
            lambda: checks.discount_profile(*task, grid, **fit),
        ),
        "groups": (
            questions.groups,
            lambda: checks.equal_weights_test(*task, estimator=likelihood, seed=seed),
        ),
        "diagnose": (
            questions.diagnose,
            lambda: checks.diagnose(*task, estimator=likelihood, seed=seed, layout=problem.layout),
        ),
        "rows": (
            isinstance(problem, RowsProblem),
            lambda: checks.row_effects(
                cast("LoggedRecovery", recovery), cast("Measurements", problem.seen)
            ),
        ),
        "space": (
            is_land,
            lambda: checks.space_use(cast("MDP", problem.mdp), recovery, problem.seen),
        ),
        "selection": (is_land, lambda: {"effects": selection(recovery)}),
        "posterior": (questions.belief, lambda: checks.posterior(recovery, belief, seed=seed)),
    }

    def compute(answer: Callable[[], object]) -> object:
        with unwatched():
            return plain(answer(), arrays=True)

    return {
        name: once(name, partial(compute, answer))
        for name, (is_asked, answer) in answers.items()
        if is_asked
    }
