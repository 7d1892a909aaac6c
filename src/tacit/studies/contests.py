"""One contest: a world, what was seen in it, and every method judged by the hidden truth.

A method is told the model, the features and the demonstrations. What else its paper takes for known
(the reward, the noise, the budgets) it is given, too, and the table says so. Policies are judged in
the true world by exact visitations; recovered objectives are solved again, there and elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields, is_dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from runpy import run_path

import numpy as np

from tacit import worlds
from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel, TacitError
from tacit.files.formats import did_you_mean
from tacit.forward.policies import visitation
from tacit.forward.simulation import simulate
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solve import solve
from tacit.inverse.candidates import candidates_of
from tacit.inverse.recover import Estimator, recover
from tacit.inverse.recovery import Recovery
from tacit.judge.transfers import Scales, limited, transfer_suite
from tacit.model.ends import close, uniform_policy
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective
from tacit.worlds.world import World

# What a method is told wherever it asks, if only for better; the rest where it cannot do without.
TOLD = ("temperature", "candidates", "groups", "reward")
RANDOM, OPTIMUM = "Random actions", "True optimum"
FLOOR = 1e-4  # least chance of an action in a held-out likelihood, for methods that say never


@dataclass(frozen=True, eq=False, kw_only=True)
class Contest:
    """What one draw asks of every method.

    Attributes:
        mdp: the world that everybody knows.
        features: what reward and costs may be made of.
        seen: the demonstrations.
        fresh: further ones of the same demonstrator, to predict.
        truth: what the demonstrator wants and refuses; judges alone know it.
        known: what some methods take for known, by the name of their argument.
        forbidden: names of what is truly forbidden; empty where budgets are soft.
        implied: names of other things that are forbidden with it.
    """

    mdp: MDP
    features: Features
    seen: Demonstrations
    fresh: Demonstrations
    truth: Objective
    known: Mapping[str, object]
    forbidden: frozenset[str] = frozenset()
    implied: frozenset[str] = frozenset()


Method = Callable[[Contest], Estimator]


# --- worlds -----------------------------------------------------------------------------------


def _contest(
    world: World,
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
    told = dict.fromkeys(("reward_weights", "reward"), world.reward_weights)
    return Contest(
        mdp=world.mdp,
        features=world.features,
        seen=seen,
        fresh=fresh,
        truth=world.truth,
        known=told | {"budgets": world.truth.budgets} | dict(known),
        forbidden=frozenset(forbidden),
    )


def _noisy(world: World, temperature: float, episodes: int, steps: int, seed: int) -> Contest:
    """A demonstrator with noise, within its budgets."""
    policy = solve(world.mdp, world.truth, solver=SoftDual(temperature=temperature)).policy
    known = {"temperature": temperature, "cost_weights": tuple(world.cost_weights)}
    known |= {"budget": float(world.truth.budgets[0])} if len(world.truth.budgets) == 1 else {}
    return _contest(world, policy, known, size=(episodes, steps), seed=seed)


def _walled(world: World, temperature: float, episodes: int, steps: int, seed: int) -> Contest:
    """A demonstrator with noise that never enters a cell that costs."""
    shut = world.truth.costs[0] > 0
    shut = shut.any(axis=1) if shut.ndim == 2 else shut
    into = world.mdp.expected_next(shut.astype(float)) > 0
    policy = _without(world, ~into, temperature)
    known = {"temperature": temperature, "candidates": ("states",)}
    names = [f"state {s}" for s in np.flatnonzero(shut)]
    return _contest(world, policy, known, size=(episodes, steps), seed=seed, forbidden=names)


def _without(world: World, allowed: np.ndarray, temperature: float) -> np.ndarray:
    """[S, A] what a noisy demonstrator does where only these pairs [S, A] are."""
    plain = Objective(world.truth.reward, np.zeros((0, world.mdp.states)), [])
    return SoftDual(temperature).solve(limited(world.mdp, allowed), plain).policy


def _hills(seed: int) -> Contest:
    world = worlds.hill_grid(seed=seed, tightness=0.5).in_gauge
    return _noisy(world, 0.1 * float(np.ptp(world.truth.reward)), 50, 100, seed)


def _strips(seed: int) -> Contest:
    world = worlds.six_by_six(None if seed == 0 else seed)
    return _noisy(world, 1.0, 200, 100, seed)


def _walls(number: int | None) -> Callable[[int], Contest]:
    def make(seed: int) -> Contest:
        return _walled(worlds.walls(number, seed=seed), 0.002, 20, 200, seed)

    return make


def _nine(seed: int) -> Contest:
    """The 9 x 9 grid with its published constraints, or with others; 20 fresh demonstrations."""
    world = worlds.nine_by_nine(None if seed == 0 else seed)
    mdp, names, marks = world.mdp, world.features.cost_names[0], world.features.costs[0]
    true = [name for name, weight in zip(names, world.cost_weights[0], strict=True) if weight]
    groups = {n: np.flatnonzero(marks[..., j].any(axis=1)) for j, n in enumerate(names) if j > 88}
    sets = [(name, tuple(cells.tolist())) for name, cells in groups.items()]
    listed = candidates_of(mdp, world.features, ("states", "actions"), sets)
    base = [one for one in listed if one.name in true]
    shut, wider = close(mdp, [base]), close(mdp, [[*base, one] for one in listed])
    implied = [one.name for one, same in zip(listed, wider.within(shut), strict=True) if same]
    policy = _without(world, ~shut.removed.reshape(mdp.available.shape), 1.0)
    known = {"temperature": 1.0, "candidates": ("states", "actions"), "groups": groups}
    told = _contest(world, policy, known, size=(20, 500), seed=seed, forbidden=true)
    return replace(told, implied=frozenset(implied))


def _objects(seed: int) -> Contest:
    """The published Objectworld with its 128 trajectories; other seeds are fresh and smaller."""
    recorded = worlds.recorded_objectworld(128)
    return Contest(
        mdp=recorded.mdp,
        features=recorded.features,
        seen=recorded.demonstrations[0],
        fresh=recorded.demonstrations[0],
        truth=recorded.truth,
        known={"reward_weights": recorded.reward_weights, "temperature": 1.0},
    )


@dataclass(frozen=True)
class Place:
    """A world of the leaderboard.

    Attributes:
        title: what it is, in words.
        make: seed -> contest.
        draws: how many there are; 0 for as many as asked.
        said: what its published numbers are, and what its metrics hide.
        left_out: method -> why it is not tried there.
        only: the methods that are tried there by default; empty for all.
    """

    title: str
    make: Callable[[int], Contest]
    _: KW_ONLY
    draws: int = 0
    said: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()


_WALLS_SAID = (
    "Published: no table; the ceiling is violation 0 and feasible reward 1 (Liu et al. 2023). What "
    "the demonstrator would not enter anyway cannot be told from a wall."
)
_TOO_SLOW: dict[str, str] = dict.fromkeys(
    ("Likelihood", "ConstraintOnly"),
    "not tried: of 49 costs, one a cell, most are never paid, and intervals of that take minutes",
)
PLACES: dict[str, Place] = {
    "hill-grid": Place("The paper's 5 x 5 grid, a noisy demonstrator within its budget", _hills),
    "six-by-six": Place(
        "The 6 x 6 grid of Schlaginhaufen and Kamgarpour, two budgets, noise 1",
        _strips,
        said="Published, their code, 1000 x 100 steps and the noise given: occupancy L1 .049, "
        "prices (35.3, 4.9) where (31.114, 5.033) are true (Schlaginhaufen and Kamgarpour 2023). "
        "Here 200 x 100 steps; seed 0 is the published grid, others are fresh. In seed 2 the best "
        "for the reward alone hardly breaks a budget, so that violations there are thousands.",
    ),
    **{
        f"walls-{k}": Place(f"Walls {k}: a noisy demonstrator that enters no wall", _walls(k),
                            said=_WALLS_SAID, left_out=_TOO_SLOW)
        for k in (1, 2, 3, 4)
    },
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
        "likelihood with its priors is measured by benchmarks/objectworld.py.",
        only=("Cloning", "InverseActionValues"),
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


def known_methods() -> dict[str, Method]:
    """Every estimator of tacit by its name, and those that other packages offer."""
    from tacit.inverse.paper.alternating import Alternating

    found: dict[str, Method] = {name: _built(kind) for name, kind in estimators().items()}
    found["Alternating"] = lambda _: Alternating(starts=2, max_steps=60)  # seconds, not minutes
    return found | {one.name: one.load() for one in entry_points(group="tacit.methods")}


def estimators() -> dict[str, type]:
    """Every estimator of tacit for one task, by its name."""
    from tacit.inverse import families
    from tacit.inverse.forbidden import Forbidden
    from tacit.inverse.noisy.convex import Convex
    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.inverse.optimal.explanation import Explanation
    from tacit.inverse.paper.alternating import Alternating

    own: dict[str, type] = {
        kind.__name__: kind for kind in (Likelihood, Convex, Explanation, Alternating, Forbidden)
    }
    for name in families.__all__:
        kind = getattr(families, name)
        if isinstance(kind, type) and is_dataclass(kind) and hasattr(kind, "fit"):
            own[name] = kind
    return own


def known_places() -> dict[str, Place]:
    """Every world of the leaderboard by its name, and those that other packages offer."""
    return PLACES | {one.name: one.load() for one in entry_points(group="tacit.worlds")}


def resolved(name: str, known: Mapping[str, object], what: str) -> object:
    """What is meant by a name: something known, or `FILE.py:NAME` of one's own."""
    if name in known:
        return known[name]
    path, _, own = name.rpartition(":")
    if path.endswith(".py"):
        if not Path(path).is_file():
            raise InvalidModel(f"a {what} of one's own must be FILE.py:NAME; no file {path}")
        if own not in (held := run_path(path)):
            raise InvalidModel(f"{path} must hold the {what} {own!r}; it does not")
        return held[own]
    hint = did_you_mean(name, known)
    raise InvalidModel(f"no {what} is called {name!r}{hint}; known are {', '.join(known)}")


def played(contest: Contest, methods: Mapping[str, Method]) -> list[dict[str, object]]:
    """One row a method: its metrics, or why there are none; the null row and the optimum last."""
    judge, rows = Judge.of(contest), []
    for name, make in methods.items():
        start = time.perf_counter()
        try:
            found = recover(
                contest.mdp, contest.features, contest.seen, estimator=make(contest), throw=False
            )
            seconds = time.perf_counter() - start
            told = judge.policy(found.solution.policy) | judge.forbidden(found)
            reward = found.objective.reward
            if np.isfinite(reward).all() and (reward.any() or found.forbidden):
                told |= judge.elsewhere(found)
            rows.append(
                {
                    "method": name,
                    "metrics": told | {"seconds": seconds},
                    "status": found.status.name,
                    "fits": bool(found.goodness.adequate),
                }
            )
        except TacitError as error:
            rows.append({"method": name, "metrics": {}, "status": str(error)[:200], "fits": True})
    blind = judge.policy(uniform_policy(contest.mdp))
    best = solve(contest.mdp, contest.truth, throw=False)
    ideal = judge.policy(best.policy) | judge.elsewhere(contest.truth)
    rows.append({"method": RANDOM, "metrics": blind, "status": "", "fits": True})
    return [*rows, {"method": OPTIMUM, "metrics": ideal, "status": "", "fits": True}]


@dataclass(frozen=True)
class Judge:
    """What a method is measured by in one contest, from the truth.

    Attributes:
        contest: the draw.
        best: value of the best policy within the budgets.
        scales: of regrets and violations.
    """

    contest: Contest
    best: float
    scales: Scales

    @classmethod
    def of(cls, contest: Contest) -> Judge:
        """The judge of a contest."""
        best = solve(contest.mdp, contest.truth, throw=False)
        return cls(contest, float(best.value), Scales.of(contest.mdp, contest.truth))

    def policy(self, policy: np.ndarray) -> dict[str, float]:
        """Regret and violation of a policy, and how well it predicts fresh steps."""
        contest = self.contest
        visits = visitation(contest.mdp, policy)
        reward, _ = contest.truth.tables(contest.mdp)
        fresh = contest.fresh
        chances = np.maximum(policy[fresh.states[: len(fresh.actions)], fresh.actions], FLOOR)
        return {
            "regret": (self.best - float((visits * reward).sum())) / self.scales.width,
            "violation": self.scales.violation(contest.mdp, contest.truth, visits),
            "log_likelihood": float(np.log(chances).mean()),
        }

    def elsewhere(self, found: Objective | Recovery) -> dict[str, float]:
        """Regret and violation of the recovered pair, solved again here and elsewhere."""
        told = transfer_suite(self.contest.mdp, self.contest.truth, found)
        regrets = zip(told.names, told.regrets.tolist(), strict=True)
        violations = zip(told.names, told.violations.tolist(), strict=True)
        return (
            {f"{name}_regret": value for name, value in regrets}
            | {f"{name}_violation": value for name, value in violations}
            | {"share_safe": told.share_safe}
        )

    def forbidden(self, found: Recovery) -> dict[str, float]:
        """Share of what was called forbidden and is not, and of what is and was called so."""
        if not (true := self.contest.forbidden):
            return {}
        names = {one.name for one in found.forbidden}
        wrong = len(names - true - self.contest.implied) / len(names) if names else 0.0
        return {"wrong": wrong, "recall": len(names & true) / len(true)}
