"""Many recoveries at once: seeds, experts, replicates, all of one shape, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.forward.smooth_dual import Problem
from tacit.forward.world import world_of
from tacit.inverse.batches.batch import Batch, in_gauge
from tacit.inverse.batches.search import Found, Start
from tacit.inverse.batches.spread import search_many, search_some
from tacit.inverse.boltzmann import LARGEST, RESCUE
from tacit.inverse.convex import VISIBLE, Convex
from tacit.inverse.coordinates import Coordinates, coordinates
from tacit.inverse.expectations import check_task
from tacit.inverse.likelihood import ROUGH, Likelihood
from tacit.inverse.likelihood_report import VISIBLE as SEEN
from tacit.mdp import MDP
from tacit.objective import Features
from tacit.progress import Callback, Event
from tacit.tallies.observed import Observed, counts_of, tally_of
from tacit.tallies.sums import known_rest

Estimator = Convex | Likelihood


def recover_many(
    mdp: MDP | Sequence[MDP],
    features: Features | Sequence[Features],
    demonstrations: Sequence[Observed] | np.ndarray,
    *,
    estimator: Estimator | None = None,
    chunk: int | None = None,
    callbacks: Sequence[Callback] = (),
) -> Batch:
    """The `Batch` of recoveries of many demonstrations, each as if fitted alone.

    `Convex` finds what it finds alone. `Likelihood` finds its maximum; it keeps every constraint
    and makes no intervals, which are for a closer look at one problem.

    Args:
        mdp: one for all, or one a problem, of the same shape and discount.
        features: likewise, of the same shape.
        demonstrations: one a problem; or [N, S, A] discounted visitations (`Convex`) or counts of
            steps (`Likelihood`).
        estimator: `Convex()` by default, or `Likelihood()`.
        chunk: problems at once; None takes as many as suit the machine.
        callbacks: called with a `tacit.progress.Event` after every chunk.
    """
    estimator = Convex() if estimator is None else estimator
    if not isinstance(estimator, Convex | Likelihood):
        raise InvalidModel(
            f"recover_many works with Convex or Likelihood; got {type(estimator).__name__}"
        )
    if not isinstance(demonstrations, Sequence | np.ndarray):
        raise InvalidDemonstrations(
            "recover_many needs a list of demonstrations, one a problem, or [N, S, A] tables; "
            f"got {type(demonstrations).__name__}"
        )
    count = len(demonstrations)
    if count == 0:
        raise InvalidDemonstrations("recover_many needs at least one problem; got none")
    if chunk is not None and chunk < 1:
        raise InvalidModel(f"chunk must be at least 1; got {chunk}")
    mdps, maps = _each(mdp, MDP, count, "mdp"), _each(features, Features, count, "features")
    made = {id(f): coordinates(m, f) for m, f in zip(mdps, maps, strict=True)}
    spaces = [*made.values()] if len(made) == 1 else [made[id(f)] for f in maps]
    tables = _tables(estimator, mdps, maps, demonstrations)
    world = world_of(mdps[0], whole=True) if len({id(m) for m in mdps}) == 1 else _stacked(mdps)

    def told(done: int) -> None:
        for callback in callbacks:
            callback(Event("batch", done, {"of": float(count)}))

    settings: dict[str, Any] = {"max_steps": estimator.max_steps, "chunk": chunk}
    problem, start = posed(estimator, mdps, spaces, tables)
    if isinstance(estimator, Likelihood) and not isinstance(demonstrations, np.ndarray):
        rough = Convex(estimator.free_reward, ROUGH / (1.0 - mdps[0].discount))
        seen = _tables(rough, mdps, maps, demonstrations)
        start = _better(problem, start, world, posed(rough, mdps, spaces, seen), settings)
    settings["tolerance"] = estimator.tolerance
    found = search_many(world, problem, start, count, told=told, **settings)
    return finished(world, spaces, problem, start.initial, found, estimator, settings)


def posed(
    estimator: Estimator,
    mdps: Sequence[MDP],
    spaces: Sequence[Coordinates],
    tables: Sequence[np.ndarray],
) -> tuple[Problem, Start]:
    """The problems of a batch, stacked where they differ, and where their searches begin.

    Args:
        estimator: what is minimised.
        mdps: one a problem.
        spaces: one for all, or one a problem.
        tables: one [S, A] a problem: discounted visitation, or counts of steps.
    """
    space, first = spaces[0], mdps[0]
    ones = np.ones(space.size)
    steps = isinstance(estimator, Likelihood)
    alike = len({id(m) for m in mdps}) == 1
    initial = first.initial if alike else np.stack([m.initial for m in mdps])
    begin, visits, size = initial, np.zeros(first.states), ones
    if steps:
        visits = np.stack([table.sum(axis=1) for table in tables])
        inflows = [m.discount * m.inflow(t) for m, t in zip(mdps, tables, strict=True)]
        begin = visits - np.stack(inflows)
        size = np.abs(begin).sum(axis=1, keepdims=True) * ones
    one = len(spaces) == 1
    problem = Problem(
        start=begin,
        discount=first.discount,
        temperature=1.0,
        base=np.zeros((first.states, first.actions)),
        tables=space.tables if one else np.stack([s.tables for s in spaces]),
        target=np.stack([spaces[0 if one else n].pull_back(t) for n, t in enumerate(tables)]),
        lower=space.lower(free_reward=estimator.free_reward),
        upper=LARGEST * ones,
        ridge=(0.0 if steps else estimator.ridge) * ones,
        unit=ones,
        scale=size / (1.0 - first.discount),
        information=visits,
    )
    return problem, Start(initial, np.zeros(space.size), np.zeros(first.states))


def finished(
    world: Any,
    spaces: Sequence[Coordinates],
    problem: Problem,
    initial: np.ndarray,
    found: Found,
    estimator: Estimator,
    settings: dict[str, Any],
) -> Batch:
    """The `Batch`, with a ridge on those whose best parameters are infinite.

    `initial` [S] or [N, S] is where the worlds begin, from which budgets are counted.
    """
    steps = isinstance(estimator, Likelihood)
    total = np.abs(found.x).max(axis=1, initial=0.0)
    boundless = (total > 1.0) & (found.doubled < (SEEN if steps else VISIBLE))
    if boundless.any() and not problem.ridge.any():
        rows = np.flatnonzero(boundless)
        ridge = np.zeros((len(total), len(problem.ridge)))
        ridge[rows] = RESCUE * (1.0 if steps else 1.0 / (1.0 - problem.discount))
        problem = problem._replace(ridge=ridge)
        again = search_some(world, problem, Start(initial, found.x, found.values), rows, **settings)
        for kept, fresh in zip(found, again, strict=True):
            kept[rows] = fresh
    return in_gauge(spaces[0], spaces, problem, found, boundless, estimator.tolerance)


def _better(
    problem: Problem,
    start: Start,
    world: Any,
    rough: tuple[Problem, Start],
    settings: dict[str, Any],
) -> Start:
    """Where the convex problems of the same data end, for those where that beats beginning at 0."""
    found = search_many(world, *rough, len(problem.target), tolerance=1e-6, **settings)
    loss = (problem.start * found.values).sum(axis=1) - (found.x * problem.target).sum(axis=1)
    random = problem.information.sum(axis=1) * np.log(problem.base.shape[1])
    good = (loss < random)[:, None]
    return start._replace(x=np.where(good, found.x, 0.0), values=np.where(good, found.values, 0.0))


def _tables(
    estimator: Estimator,
    mdps: Sequence[MDP],
    maps: Sequence[Features],
    given: Sequence[Observed] | np.ndarray,
) -> Sequence[np.ndarray]:
    """One [S, A] a problem: counts of steps for `Likelihood`, else the discounted visitation."""
    shape = (mdps[0].states, mdps[0].actions)
    if isinstance(given, np.ndarray):
        if given.shape[1:] != shape or not (np.isfinite(given) & (given >= 0)).all():
            raise InvalidModel(
                "tables must be finite and not negative, [N, S, A] = "
                f"[N, {shape[0]}, {shape[1]}]; got {given.shape}"
            )
        return list(given)
    tables = []
    for m, f, d in zip(mdps, maps, given, strict=True):
        check_task(m, f, d)
        if isinstance(estimator, Likelihood):
            tables.append(counts_of(m, d))
            continue
        tally = tally_of(m, d)
        if not tally.trajectories:
            raise InvalidDemonstrations("Convex needs trajectories that begin at the start")
        tables.append(tally.visitation(known_rest(m, f)))
    return tables


def _each(given: Any, kind: type, count: int, name: str) -> list[Any]:
    every = [given] * count if isinstance(given, kind) else list(given)
    if len(every) != count or not all(isinstance(one, kind) for one in every):
        raise InvalidModel(
            f"{name} must be one {kind.__name__}, or one a problem, {count}; got {len(every)}"
        )
    return every


def _stacked(mdps: Sequence[MDP]) -> Any:
    """A stack of dense worlds of the same shape."""
    import jax
    import jax.numpy as jnp

    from tacit.forward.dynamics import Dense

    shapes = {(m.states, m.actions, m.discount) for m in mdps}
    if len(shapes) > 1:
        raise InvalidModel(
            "the models of a batch must share states, actions and discount; "
            f"got {len(shapes)} kinds"
        )
    with jax.enable_x64(True):
        return Dense(jnp.asarray(np.stack([m.dense() for m in mdps])))
