"""Tries every variant of a recovery with every option on a tiny world, and writes the table.

    python tools/variants.py            # docs/variants.md
    python tools/variants.py --print    # to the terminal

A pair works, or is refused in one sentence, which the page gives as it is raised. A pair that has
no meaning is not tried: there is nothing to call.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tacit

PAGE = Path(__file__).parents[1] / "docs" / "variants.md"
SEED, INDIVIDUALS, REPLICATES = 0, 12, 4
# Pairs without a meaning, and why.
MEANINGLESS = {
    ("convex", "Sparse prior"): "a sparse prior drops features that the likelihood of the steps "
    "can do without; this method has no likelihood, it matches sums of features",
    ("convex", "lapses"): "lapses are random steps; this method sees sums over trajectories, which "
    "do not tell steps apart",
    ("convex", "level of the tests"): "it tests no constraint: a price is either needed to match "
    "the sums, or it is 0",
    ("mixture", "groups"): "types are groups whose members are not known; groups whose members "
    "are known are compared by `Likelihood`",
}

# Pairs that an estimator has no field for, and why: they count as refused.
ABSENT = {
    ("mixture", "lapses"): "a trajectory with odd steps is of another type, or of this one with "
    "lapses: the same actions would have to tell both apart",
}


@cache
def world() -> tacit.worlds.World:
    """A tiny world with two reward and two cost features."""
    return tacit.worlds.random(3, states=5, actions=3, constraints=1, features=2, tightness=0.5)


@cache
def seen(seed: int = SEED) -> tacit.Demonstrations:
    """A few trajectories of a noisy expert, several of each individual, in two groups."""
    noisy = tacit.solve(world().mdp, world().truth, solver=tacit.SoftDual(temperature=0.5))
    walks = tacit.simulate(world().mdp, noisy.policy, trajectories=48, steps=15, seed=seed)
    who = np.array([f"individual {e % INDIVIDUALS:02}" for e in range(48)])
    groups = np.array([f"group {e % 2}" for e in range(48)])
    return replace(walks, individuals=who, groups=groups)


@cache
def town() -> tacit.Trips:
    """Trips to two goals along a ring of streets that can be walked both ways."""
    count = 6
    moves = np.zeros((count, 2, count))
    for state in range(count):
        moves[state, 0, (state + 1) % count] = moves[state, 1, (state - 1) % count] = 1.0
    mdp = tacit.MDP(moves, np.full(count, 1.0 / count), 0.9)
    random = np.random.default_rng(SEED)
    features = tacit.Features(-1.0 - random.random((count, 2, 2)), [random.random((count, 2, 1))])
    trips = []
    while len(trips) < 48:
        at, goal = int(random.integers(count)), int(random.choice([0, 3]))
        if at == goal:
            continue
        way = 1 if (at - goal) % count < 3 else 0
        way = way if random.random() < 0.8 else 1 - way
        states, actions = [at], []
        while at != goal:
            at = (at + (1 if way == 0 else -1)) % count
            states.append(at)
            actions.append(way)
        trips.append((states, actions))
    who = np.array([f"individual {e % INDIVIDUALS:02}" for e in range(48)])
    groups = np.array([f"group {e % 2}" for e in range(48)])
    walks = tacit.Demonstrations.from_trajectories(trips, ended=np.ones(48, bool), groups=groups)
    return tacit.Trips(mdp, features, replace(walks, individuals=who), discount=1.0)


@cache
def wide() -> tacit.Features:
    """More features than are fitted with their curvature written out."""
    states, actions = world().mdp.states, world().mdp.actions
    table = np.random.default_rng(SEED).random((states, actions, 201))
    return tacit.Features(table, world().features.costs)


class Variant(NamedTuple):
    """One kind of recovery."""

    name: str
    meaning: str
    recover: Callable[..., Any]  # of an estimator and options of `tacit.recover`
    estimator: Callable[..., Any]  # of fields
    grouped: Callable[[Any], Any]  # the test of groups, of an estimator


def one_world(features: Callable[[], tacit.Features]) -> tuple[Callable[..., Any], ...]:
    """How a task is recovered, and its groups are compared."""

    def task() -> tuple[Any, ...]:
        return world().mdp, features(), seen()

    def fit(estimator: Any, **options: Any) -> Any:
        return tacit.recover(*task(), estimator=estimator, throw=False, **options)

    def grouped(estimator: Any) -> Any:
        return tacit.checks.equal_weights_test(*task(), estimator=estimator, draws=2)

    return fit, grouped


def of_tasks(estimator: Any, **options: Any) -> Any:
    """Two tasks that share cost weights, the same individuals in both."""
    tasks = [tacit.Task(world().mdp, world().features, seen(seed)) for seed in (0, 1)]
    return tacit.recover(tasks, estimator=estimator, throw=False, **options)


def of_trips(estimator: Any, **options: Any) -> Any:
    """The trips."""
    return tacit.recover(town(), estimator=estimator, throw=False, **options)


def variants() -> list[Variant]:
    """Those of the table."""
    few, few_groups = one_world(lambda: world().features)
    many, many_groups = one_world(wide)

    def mixture(**fields: Any) -> Any:
        return tacit.Mixture(types=2, starts=2, **fields)

    def convex(prior: Any = None, **fields: Any) -> Any:
        return tacit.Convex(ridge=0.0 if prior is None else prior.strength, **fields)

    def of_groups(estimator: Any) -> Any:
        return tacit.checks.equal_weights_test(town(), estimator=estimator, draws=2)

    plain = tacit.Likelihood
    return [
        Variant("few features", "`Likelihood` in one world", few, plain, few_groups),
        Variant("many features", "`Likelihood` of more than 200", many, plain, many_groups),
        Variant("tasks", "a list of `Task`s", of_tasks, plain, lambda one: of_tasks(one).agreement),
        Variant("trips", "`Trips`", of_trips, plain, of_groups),
        Variant("mixture", "`Mixture`", few, mixture, few_groups),
        Variant("convex", "`Convex`", few, convex, few_groups),
    ]


@dataclass(frozen=True)
class Option:
    """One thing that is asked for beside the answer.

    Attributes:
        name: in the table.
        how: it is asked for, in Python.
        shell: the same on the command line.
        fields: of the estimator.
        options: of `tacit.recover`.
    """

    name: str
    how: str
    shell: str
    fields: tuple[tuple[str, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def ask(self, variant: Variant) -> Any:
        """What the variant gives; raises where it refuses."""
        estimator = variant.estimator(**dict(self.fields))
        if self.name == "groups":
            return variant.grouped(estimator)
        options = dict(self.options)
        if variant.name == "convex" and self.name == "clustered errors":
            options["bootstrap"] = REPLICATES  # it has no errors of its own
        return variant.recover(estimator, **options)


TABLE = "`[coefficients]` in `problem.toml`"
OPTIONS = [
    Option("bounds", "`bounds={0: (-2, 2)}`", TABLE, (("bounds", {0: (-2.0, 2.0)}),)),
    Option("fixed", "`fixed={0: 0.5}`", TABLE, (("fixed", {0: 0.5}),)),
    Option("start", "`start={0: 0.5}`", TABLE, (("start", {0: 0.5}),)),
    Option("free reward", "`free_reward=True`", "`--free-reward`", (("free_reward", True),)),
    Option(
        "Ridge prior",
        "`prior=Ridge(1.0)`, of convex `ridge=1.0`",
        "`--prior ridge:1`, of convex `--ridge 1`",
        (("prior", tacit.features.Ridge(1.0)),),
    ),
    Option(
        "Sparse prior",
        "`prior=Sparse(1.0)`",
        "`--prior sparse:1`",
        (("prior", tacit.features.Sparse(0.1)),),
    ),
    Option("lapses", "`lapses=True`", "in Python alone", (("lapses", True),)),
    Option(
        "known temperature",
        "`temperature=0.5`",
        "`--temperature 0.5`",
        (("temperature", 0.5),),
    ),
    Option("bootstrap", "`bootstrap=200`", "`--bootstrap 200`", (), (("bootstrap", REPLICATES),)),
    Option(
        "clustered errors",
        "`individuals` in the demonstrations",
        "a column `individual`",
    ),
    Option(
        "groups",
        "`checks.equal_weights_test`, of tasks their agreement",
        "`--groups`, of tasks `--by group --share costs`",
    ),
    Option(
        "level of the tests",
        "`level=1`, which keeps every constraint",
        "`--level 1`",
        (("level", 1.0),),
    ),
]


class Pair(NamedTuple):
    """A variant with an option."""

    variant: str
    option: str
    refusal: str  # empty where it works
    meaningless: bool = False


def pairs() -> Iterator[Pair]:
    """Every pair, tried."""
    for option in OPTIONS:
        for variant in variants():
            why = MEANINGLESS.get((variant.name, option.name))
            if why is not None:
                yield Pair(variant.name, option.name, why, meaningless=True)
                continue
            absent = ABSENT.get((variant.name, option.name))
            if absent is not None:
                yield Pair(variant.name, option.name, absent)
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    option.ask(variant)
            except tacit.TacitError as error:
                yield Pair(variant.name, option.name, str(error))
            else:
                yield Pair(variant.name, option.name, "")


def page(found: list[Pair]) -> str:
    """The page."""
    columns, cells = variants(), {(one.variant, one.option): one for one in found}
    notes = [one for one in found if one.refusal]
    number = {(one.variant, one.option): n for n, one in enumerate(notes, start=1)}

    def cell(variant: str, option: str) -> str:
        one = cells[variant, option]
        if not one.refusal:
            return "yes"
        return f"{'-' if one.meaningless else 'no'} ({number[variant, option]})"

    refused = [one for one in notes if not one.meaningless]
    lines = [
        "# Variants and options",
        "",
        (
            "What can be asked of what: every pair was tried on a tiny world by `python "
            f"tools/variants.py`, which wrote this page. Of {len(found)} pairs {len(refused)} are "
            f"refused and {len(notes) - len(refused)} have no meaning."
        ),
        "",
        "| | " + " | ".join(one.name for one in columns) + " |",
        "|---|" + "---|" * len(columns),
        *(
            f"| {o.name} | " + " | ".join(cell(v.name, o.name) for v in columns) + " |"
            for o in OPTIONS
        ),
        "",
        "Columns: " + "; ".join(f"{one.name}: {one.meaning}" for one in columns) + ".",
        "",
        "| row | in Python | on the command line |",
        "|---|---|---|",
        *(f"| {one.name} | {one.how} | {one.shell} |" for one in OPTIONS),
        "",
        "## Why not",
        "",
        *(f"{n}. {one.variant}, {one.option}: {one.refusal}." for n, one in enumerate(notes, 1)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: list[str]) -> None:
    """Writes the page, or prints it."""
    text = page(list(pairs()))
    if "--print" in arguments:
        sys.stdout.write(text)
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
