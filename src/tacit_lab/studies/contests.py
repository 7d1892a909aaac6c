"""One contest: a world, what was seen in it, and every method judged by the hidden truth.

A method is told the model, the features and the demonstrations. What else its paper takes for known
(the reward, the noise, the budgets) it is given, too, and the table says so. Policies are judged in
the true world by exact visitations; recovered objectives are solved again, there and elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import partial
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path
from runpy import run_path

import numpy as np

import tacit
from tacit import (
    Alternating,
    Cloning,
    ConstraintOnly,
    Convex,
    Demonstrations,
    Estimator,
    Explanation,
    Forbidden,
    InvalidModel,
    Likelihood,
    Objective,
    RewardOnly,
    SoftDual,
    TacitError,
    policies,
    recover,
    simulate,
    solve,
)
from tacit_lab import families, worlds
from tacit_lab.judge import Contest, Judge, Place
from tacit_lab.studies.tally import Page
from tacit_lab.transfers import decidable

# What a method is told wherever it asks, if only for better; the rest where it cannot do without.
TOLD = ("temperature", "candidates", "groups", "reward", "free_reward", "prior")
RANDOM, OPTIMUM = "Random actions", "True optimum"
Method = Callable[[Contest], Estimator]


# --- worlds -----------------------------------------------------------------------------------


def _contest(
    world: tacit.worlds.World,
    policy: np.ndarray,
    known: Mapping[str, object],
    *,
    size: tuple[int, int],
    seed: int,
    forbidden: Sequence[str] = (),
) -> Contest:
    """What is seen of this policy, in (episodes, steps), with what some methods know of it."""
    seen, fresh = (
        simulate(world.mdp, policy, trajectories=size[0], steps=size[1], seed=2 * seed + k)
        for k in (0, 1)
    )
    knowledge = dict.fromkeys(("reward_weights", "reward"), world.reward_weights)
    decidable_names = frozenset()
    if forbidden:
        options = {name: known[name] for name in ("candidates", "groups") if name in known}
        test = Forbidden(world.reward_weights, known["temperature"], **options)  # type: ignore[arg-type]
        decidable_names = decidable(test, world.mdp, world.features, seen, forbidden)
    return Contest(
        mdp=world.mdp,
        features=world.features,
        seen=seen,
        fresh=fresh,
        truth=world.truth,
        known=knowledge | {"budgets": world.truth.budgets} | dict(known),
        forbidden=frozenset(forbidden),
        decidable=decidable_names,
    )


def noisy_contest(
    world: tacit.worlds.World, temperature: float, size: tuple[int, int], seed: int
) -> Contest:
    """What (episodes, steps) show of a demonstrator with noise, within its budgets."""
    policy = solve(world.mdp, world.truth, solver=SoftDual(temperature=temperature)).policy
    known = {"temperature": temperature, "cost_weights": tuple(world.cost_weights)}
    known |= {"budget": float(world.truth.budgets[0])} if len(world.truth.budgets) == 1 else {}
    return _contest(world, policy, known, size=size, seed=seed)


def walled_contest(
    world: tacit.worlds.World, temperature: float, size: tuple[int, int], seed: int
) -> Contest:
    """What (episodes, steps) show of one with noise that never enters a cell that costs."""
    shut = world.truth.costs[0] > 0
    shut = shut.any(axis=1) if shut.ndim == 2 else shut
    into = world.mdp.expected_next(shut.astype(float)) > 0
    policy = _without(world, ~into, temperature)
    known = {"temperature": temperature, "candidates": ("states",)}
    names = [f"state {s}" for s in np.flatnonzero(shut)]
    return _contest(world, policy, known, size=size, seed=seed, forbidden=names)


def _without(world: tacit.worlds.World, allowed: np.ndarray, temperature: float) -> np.ndarray:
    """[S, A] what a noisy demonstrator does where only these pairs [S, A] are."""
    plain = Objective(world.truth.reward, np.zeros((0, world.mdp.states)), [])
    return SoftDual(temperature).solve(world.mdp.restricted_to(allowed), plain).policy


def _hills(seed: int) -> Contest:
    world = tacit.worlds.hill_grid(seed=seed, tightness=0.5).in_gauge
    return noisy_contest(world, 0.1 * float(np.ptp(world.truth.reward)), (50, 100), seed)


def _strips(seed: int) -> Contest:
    world = worlds.six_by_six(None if seed == 0 else seed)
    prices = solve(world.mdp, world.truth, solver=SoftDual(temperature=1.0)).multipliers
    binding = prices if (prices > 0).all() else None
    return replace(noisy_contest(world, 1.0, (1000, 100), seed), prices=binding)


def _walls(number: int, seed: int) -> Contest:
    return walled_contest(worlds.walls(number, seed=seed), 0.002, (20, 200), seed)


def _nine(seed: int) -> Contest:
    """The 9 x 9 grid with its published constraints, or with others; 20 fresh demonstrations."""
    world = worlds.nine_by_nine(None if seed == 0 else seed)
    mdp, names, marks = world.mdp, world.features.cost_names[0], world.features.costs[0]
    true = [name for name, weight in zip(names, world.cost_weights[0], strict=True) if weight]
    groups = {n: np.flatnonzero(marks[..., j].any(axis=1)) for j, n in enumerate(names) if j > 88}
    sets = [(name, tuple(cells.tolist())) for name, cells in groups.items()]
    listed = tacit.methods.candidates_of(mdp, world.features, ("states", "actions"), sets)
    base = [one for one in listed if one.name in true]
    shut, wider = (
        tacit.methods.close(mdp, [base]),
        tacit.methods.close(mdp, [[*base, one] for one in listed]),
    )
    implied = [one.name for one, same in zip(listed, wider.within(shut), strict=True) if same]
    policy = _without(world, ~shut.removed.reshape(mdp.available.shape), 1.0)
    known = {"temperature": 1.0, "candidates": ("states", "actions"), "groups": groups}
    contest = _contest(world, policy, known, size=(20, 500), seed=seed, forbidden=true)
    return replace(contest, implied=frozenset(implied))


def _tasks(seed: int) -> Contest:
    """The 3 x 3 grid: ten demonstrators of other rewards, a group each; the task is the world's."""
    world = worlds.three_by_three(seed)
    parts = []
    for k, weights in enumerate(worlds.demonstrator_rewards(world, 10, seed=seed, same=False)):
        own = world.features.objective(weights, world.cost_weights, world.truth.budgets)
        policy = solve(world.mdp, own).policy
        parts.append(simulate(world.mdp, policy, trajectories=200, steps=60, seed=100 * seed + k))
    walks = [
        (part.states[i:j], part.actions[i:j]) for part in parts for i, j in pairwise(part.offsets)
    ]
    groups = [f"demonstrator {k}" for k, part in enumerate(parts) for _ in range(part.episodes)]
    best = solve(world.mdp, world.truth).policy
    contest = _contest(world, best, {}, size=(200, 60), seed=seed)
    return replace(contest, seen=Demonstrations.from_trajectories(walks, groups=groups))


def _recorded(recorded: worlds.Recorded, **known: object) -> Contest:
    """What was recorded in a published world."""
    return Contest(
        mdp=recorded.mdp,
        features=recorded.features,
        seen=recorded.demonstrations[0],
        fresh=recorded.demonstrations[0],
        truth=recorded.truth,
        known=known | {"reward_weights": recorded.reward_weights},
    )


def _objects(seed: int) -> Contest:
    """The published Objectworld with its 128 trajectories."""
    return _recorded(
        worlds.recorded_objectworld(128), free_reward=True, prior=tacit.features.Ridge()
    )


def _buses(seed: int) -> Contest:
    """Rust's buses of the group that was published first."""
    return _recorded(worlds.recorded_buses((4,)))


_WALLS_SAID = (
    "Published: no table; the ceiling is violation 0 and feasible reward 1 (Liu et al. 2023). What "
    "the demonstrator would not enter anyway cannot be told from a wall: recall of what can be "
    "told stands beside recall. Given all other walls, 20 demonstrations can tell 5 of the 5 cells "
    "of walls 1, 2 of the 9 of walls 2 (one is shut in, six are excused by their neighbours), 16 "
    "of the 25 of walls 3 (nine are shut in) and 10 of the 10 of walls 4."
)
PLACES: dict[str, Place] = {
    "hill-grid": Place("The paper's 5 x 5 grid, a noisy demonstrator within its budget", _hills),
    "six-by-six": Place(
        "The 6 x 6 grid of Schlaginhaufen and Kamgarpour, two budgets, noise 1",
        _strips,
        said="Published, their code, 1000 x 100 steps and the noise given: occupancy L1 .049, "
        "prices (35.3, 4.9) where (31.114, 5.033) are true (Schlaginhaufen and Kamgarpour 2023). "
        "Seed 0 is the published grid, others are fresh; a price is in units of the noise, and no "
        "estimate of one draw comes nearer than its sampling error, 8 % and 10 % of the two.",
    ),
    **{
        f"walls-{k}": Place(f"Walls {k}: a noisy demonstrator that enters no wall",
                            partial(_walls, k), said=_WALLS_SAID)
        for k in (1, 2, 3, 4)
    },
    "three-by-three": Place(
        "The 3 x 3 grid of Lindner et al., ten demonstrators of other rewards, a new task",
        _tasks,
        said="Published, their code, 6 seeds: regret .681 of a new reward from 4 demonstrators, "
        ".002 of the same task from 30, a share of best less worst, always safe (Lindner et al. "
        "2024): benchmarks/published.py has the same table. Nobody is told what the demonstrators "
        "wanted; SafeSet is told the task, and its violations are the sampling error of 200 "
        "episodes.",
        only=("SafeSet", "Cloning", "RewardOnly", "CausalEntropy", "Apprenticeship"),
    ),
    "nine-by-nine": Place(
        "The 9 x 9 grid of Scobee and Sastry with 20 demonstrations",
        _nine,
        said="Published, with 1, 5, 10, 20, 100 demonstrations: wrong of found .314, .121, .039, "
        "0 and 0, recall .678, .756, .767, .778 and .778 (Scobee and Sastry 2020). Seed 0 has the "
        "published constraints, the others have as many elsewhere. Two of the nine, state 51 and "
        "green, nobody can tell: recall says how many are hidden as much as how good a method is.",
        only=("Forbidden", "LikeliestConstraints", "PosteriorConstraints", "Cloning"),
    ),
    "objectworld": Place(
        "Objectworld with its 128 recorded trajectories",
        _objects,
        draws=1,
        said="Published, EVD with 128 trajectories: IAVI 2.61 (Kalweit et al. 2020). Their EVD "
        "compares with a softmax policy of the true values: the true optimum scores 10.95 and "
        "cloning equals IAVI to .003, so regret stands here instead. One feature a cell: the step "
        "likelihood has a ridge, its strength by held-out trajectories.",
        only=("Likelihood", "Cloning", "InverseActionValues"),
    ),
    "buses": Place(
        "Rust's buses, group 4",
        _buses,
        draws=1,
        said="Published: replacement cost 10.075 and maintenance 2.293 (Rust 1987), which are the "
        "truth here; the step likelihood has them to four digits (tests/lab/test_rust.py). They "
        "are estimates from the same histories: regret says how near a method comes to them.",
        only=("Likelihood", "RewardOnly", "CausalEntropy", "Cloning", "InverseActionValues"),
    ),
}  # fmt: skip


# --- methods ----------------------------------------------------------------------------------


def _built(kind: type) -> Method:
    """The method of a class: what it must be told, it is told, if the contest knows it."""

    def make(contest: Contest) -> Estimator:
        given = {}
        for one in fields(kind):
            if one.name in contest.known and (needed(one) or one.name in TOLD):
                given[one.name] = contest.known[one.name]
            elif needed(one) and one.init:
                raise InvalidModel(f"it must be told {one.name}, which this world does not say")
        return kind(**given)

    return make


def needed(one: Field) -> bool:
    """Whether a method cannot be made without this argument."""
    return one.default is MISSING and one.default_factory is MISSING


def told_more(name: str, known: Mapping[str, object]) -> str:
    """What a method is told of what a contest knows; "" for nothing, or where it is not tacit's."""
    words = {"reward_weights": "reward", "reward": "reward", "temperature": "noise"}
    words |= {"cost_weights": "costs", "costs": "costs", "budgets": "budgets", "budget": "budgets"}
    kind = estimators().get(name)
    option_names = [
        one.name for one in (fields(kind) if kind else ()) if needed(one) or one.name in TOLD
    ]
    return ", ".join(
        dict.fromkeys(words[one] for one in option_names if one in words and one in known)
    )


def known_methods() -> dict[str, object]:
    """Every estimator of tacit by its name, and those that other packages offer."""
    methods_by_name: dict[str, Method] = {name: _built(kind) for name, kind in estimators().items()}
    # Seconds, not minutes.
    methods_by_name["Alternating"] = lambda _: Alternating(starts=2, max_steps=60)
    return {**methods_by_name, **tacit.terminal.offered("tacit.methods", methods_by_name)}


def estimators() -> dict[str, type]:
    """Every estimator for one task, tacit's and the published ones, by its name."""
    own: list[type] = [Likelihood, Convex, Explanation, Alternating, Forbidden]
    others = [Cloning, ConstraintOnly, RewardOnly]
    others += [kind for name in families.__all__ if is_dataclass(kind := getattr(families, name))]
    own += sorted(others, key=lambda kind: kind.__name__)
    return {kind.__name__: kind for kind in own}


def known_places() -> dict[str, object]:
    """Every world of the leaderboard by its name, and those that other packages offer."""
    return {**PLACES, **tacit.terminal.offered("tacit.worlds", PLACES)}


def resolved(name: str, known: Mapping[str, object], what: str) -> object:
    """What is meant by a name: something known, of a package, or `FILE.py:NAME` of one's own."""
    path, _, own = name.rpartition(":")
    if what == "world" and name not in known and Path(name).is_dir():
        return own_problem(Path(name))
    if name not in known and not path.endswith(".py"):
        near = get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InvalidModel(f"no {what} is called {name!r}{hint}; known are {', '.join(known)}")
    offer = known.get(name)
    if name in known and not isinstance(offer, EntryPoint):
        return offer
    if offer is None and not Path(path).is_file():
        raise InvalidModel(f"a {what} of one's own must be FILE.py:NAME; no file {path}")
    try:
        module_names = {own: offer.load()} if isinstance(offer, EntryPoint) else run_path(path)
    except Exception as error:
        broken = f"{type(error).__name__}: {error}"[:200]
        raise InvalidModel(f"the {what} {name} cannot be loaded: {broken}") from error
    if own not in module_names:
        raise InvalidModel(f"{path} must hold the {what} {own!r}; it does not")
    offered = module_names[own]
    if not (isinstance(offered, Place) if what == "world" else callable(offered)):
        must = {"world": "a `Place`, whose `make` gives", "method": "a function of"}[what]
        raise InvalidModel(f"{name} must be {must} a contest; got {type(offered).__name__}")
    return replace(offered, make=partial(_drawn, offered.make)) if what == "world" else offered


def own_problem(folder: Path) -> Place:
    """The world of a problem folder: part of its episodes is held back, to be predicted."""
    title = f"{folder.name}: your own demonstrations, a fifth of the episodes held back"
    said = "" if tacit.runs.Problem.load(folder).truth else (
        "Nobody knows the truth here: methods are judged by how well they predict the actions of "
        "episodes that they were not shown. Cloning is hard to beat at that, and explains nothing."
    )  # fmt: skip
    return Place(title, partial(_held_back, folder), said=said)


def _held_back(folder: Path, seed: int) -> Contest:
    """The problem of a folder, a random fifth of its episodes to be predicted."""
    problem = tacit.runs.Problem.load(folder)
    problem.check_tabular()
    seen = problem.seen
    if problem.goal:
        raise InvalidModel("trips have one estimator, and are not compared here: tacit score does")
    if seen.episodes < 2:
        raise InvalidModel(f"{folder} must hold at least 2 episodes to hold one back")
    order = np.random.default_rng(seed).permutation(seen.episodes)
    held = np.isin(np.arange(seen.episodes), order[: max(1, seen.episodes // 5)])
    return Contest(
        mdp=problem.mdp,
        features=problem.features,
        seen=seen.select(~held),
        fresh=seen.select(held),
        truth=problem.truth,
        known={"free_reward": True} if problem.free_reward else {},
    )


def _drawn(make: Callable[[int], Contest], seed: int) -> Contest:
    """The contest of a world that is not tacit's; `InvalidModel` where it breaks or gives none."""
    try:
        contest = make(seed)
    except TacitError:
        raise
    except Exception as error:
        broken = f"{type(error).__name__}: {error}"[:200]
        raise InvalidModel(f"its `make` breaks at seed {seed}: {broken}") from error
    if not isinstance(contest, Contest):
        raise InvalidModel(f"its `make` must give a contest; got {type(contest).__name__}")
    return contest


def played(contest: Contest, methods: Mapping[str, Method]) -> list[Page]:
    """One row a method: its metrics, or why there are none; the null row and the optimum last."""
    judge, rows = Judge.of(contest), []
    for name, make in methods.items():
        start = time.process_time()
        try:
            if not hasattr(estimator := make(contest), "fit"):
                raise InvalidModel(f"it must give an estimator; got {type(estimator).__name__}")
            recovery = recover(
                contest.mdp, contest.features, contest.seen, estimator=estimator, throw=False
            )
            seconds = time.process_time() - start
            metrics = judge.policy(recovery.solution.policy) | judge.forbidden(recovery)
            metrics |= judge.prices(recovery)
            reward = recovery.objective.reward
            if np.isfinite(reward).all() and (reward.any() or recovery.forbidden):
                metrics |= judge.elsewhere(recovery)
            row = {"metrics": metrics | {"seconds": seconds}, "status": recovery.status.name}
            row["fits"] = bool(recovery.goodness.adequate)
        except Exception as error:  # somebody's own method may break in its own way
            if not isinstance(error, TacitError) and name in estimators():
                raise
            said = "" if isinstance(error, TacitError) else f"{type(error).__name__}: "
            row = {"metrics": {}, "status": f"{said}{error}"[:200], "fits": True}
        rows.append({"method": name, "told": told_more(name, contest.known), **row})
    blind = judge.policy(policies.uniform_policy(contest.mdp))
    rest = {"told": "", "status": "", "fits": True}
    rows.append({"method": RANDOM, "metrics": blind, **rest})
    if contest.truth is None:
        return rows
    best = solve(contest.mdp, contest.truth, throw=False)
    ideal = judge.policy(best.policy) | judge.elsewhere(contest.truth)
    return [*rows, {"method": OPTIMUM, "metrics": ideal, **rest}]
