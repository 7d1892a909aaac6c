"""Many recoveries of one shape in one call, `recover_many`, and their answers as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeVar

import numpy as np

from tacit.data.observed import Observed
from tacit.data.tally import counts_of, random_loss, tally_of
from tacit.engine.backends import Backend, backend_of
from tacit.engine.progress import Callback, Event
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.convex import VISIBLE, Convex
from tacit.estimators.likelihood import Likelihood
from tacit.forward.soft_dual import finite_start
from tacit.inference.expectations import check_task
from tacit.inference.gauge import Gauge
from tacit.likelihood.lockstep import Duals, Minima, Progress, minima
from tacit.likelihood.protocol import LARGEST
from tacit.likelihood.rescue import RESCUE
from tacit.likelihood.rescue import VISIBLE as SEEN
from tacit.likelihood.start import NOWHERE, check_plain
from tacit.likelihood.steps import ROUGH, over_an_episode
from tacit.model.arguments import read_only
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.model.objective import Features, known_rest
from tacit.search.smooth_dual import Dual


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """N recoveries as arrays; entry n is problem n. The gauge is that of `Recovery`.

    Attributes:
        reward_weights: [N, D], L1 norm 1; NaN where the reward is not identified.
        cost_weights: one [N, D_k] per constraint; NaN where it does not restrain.
        multipliers: [N, K] price of each budget.
        budgets: [N, K]; infinite where a constraint does not restrain.
        temperatures: [N].
        losses: [N] of the estimator.
        projected_gradients: [N] largest entry that no bound holds back, relative to its scale.
        converged: [N] bool.
        deterministic: [N] bool, experts without visible noise: a ridge sets the scale there.
        parameters: [N, D + sum D_k] what acts, in scaled coordinates: where to begin another fit.
        steps: [N] evaluations.
    """

    reward_weights: np.ndarray
    cost_weights: tuple[np.ndarray, ...]
    multipliers: np.ndarray
    budgets: np.ndarray
    temperatures: np.ndarray
    losses: np.ndarray
    projected_gradients: np.ndarray
    converged: np.ndarray
    deterministic: np.ndarray
    parameters: np.ndarray
    steps: np.ndarray

    def __post_init__(self) -> None:
        for field in fields(self):
            part = getattr(self, field.name)
            for array in part if isinstance(part, tuple) else (part,):
                read_only(array)

    def __len__(self) -> int:
        return len(self.losses)

    def __repr__(self) -> str:
        return f"Batch(problems={len(self)}, converged={int(self.converged.sum())})"


Estimator = Convex | Likelihood
Noun = TypeVar("Noun", MDP, Features)


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
        demonstrations: one a problem; or [N, S, A] counts of steps (`Likelihood`) or discounted
            visitations (`Convex`).
        estimator: `Likelihood()`, the default as in `recover`, or `Convex()`.
        chunk: problems at once; None takes as many as suit the machine.
        callbacks: called with a `tacit.progress.Event` after every chunk.
    """
    estimator = Likelihood() if estimator is None else estimator
    if not isinstance(estimator, Convex | Likelihood):
        raise InvalidModel(
            f"recover_many works with Convex or Likelihood; got {type(estimator).__name__}"
        )
    check_plain(estimator, "recover_many")
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
    designs = {id(f): Design.of(m, f) for m, f in zip(mdps, maps, strict=True)}
    spaces = [*designs.values()] if len(designs) == 1 else [designs[id(f)] for f in maps]
    tables = _tables(estimator, mdps, maps, demonstrations)
    alike = len({id(m) for m in mdps}) == 1
    backend = backend_of(mdps[0], whole=True) if alike else _stacked(mdps)
    duals = posed(backend, estimator, mdps, spaces, tables)
    if mdps[0].discount == 1.0:
        duals = _finite(mdps[0], spaces, duals, estimator.tolerance)
    if isinstance(estimator, Likelihood) and not isinstance(demonstrations, np.ndarray):
        convex = Convex(estimator.free_reward, over_an_episode(mdps[0], ROUGH))
        sums = _tables(convex, mdps, maps, demonstrations)
        rough = posed(backend, convex, mdps, spaces, sums)._replace(x=duals.x, values=duals.values)
        random = np.array([random_loss(t, m.choices) for t, m in zip(tables, mdps, strict=True)])
        rules = {"tolerance": 1e-6, "max_steps": estimator.max_steps, "chunk": chunk}
        duals = _better(duals, minima(rough, count, **rules), random)
    progress = partial(tell, callbacks, "batch", count)
    return batch_of(duals, spaces, estimator, progress=progress, chunk=chunk)


def tell(callbacks: Sequence[Callback], stage: str, count: int, done: int) -> None:
    """Tells how many of so many problems are done."""
    for callback in callbacks:
        callback(Event(stage, done, {"of": float(count)}))


def posed(
    backend: Backend,
    estimator: Estimator,
    mdps: Sequence[MDP],
    spaces: Sequence[Design],
    tables: Sequence[np.ndarray],
) -> Duals:
    """The problems of a batch, stacked where they differ, their searches beginning at 0.

    Args:
        backend: the dynamics.
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
    start, visits, size = initial, np.zeros(first.states), ones
    if steps:
        visits = np.stack([table.sum(axis=1) for table in tables])
        inflows = [m.discount * m.inflow(t) for m, t in zip(mdps, tables, strict=True)]
        start = visits - np.stack(inflows)
        size = np.abs(start).sum(axis=1, keepdims=True) * ones
    one = len(spaces) == 1
    dual = Dual(
        start=start,
        discount=first.discount,
        temperature=1.0,
        base=np.zeros((first.states, first.actions)),
        tables=space.tables if one else np.stack([s.tables for s in spaces]),
        target=np.stack([spaces[0 if one else n].pull_back(t) for n, t in enumerate(tables)]),
        lower=space.lower(free_reward=estimator.free_reward),
        upper=LARGEST * ones,
        ridge=(0.0 if steps else estimator.ridge) * ones,
        unit=ones,
        scale=over_an_episode(first, size),
        information=visits,
    )
    return Duals(backend, dual, initial, np.zeros(space.size), np.zeros(first.states))


def batch_of(
    duals: Duals,
    spaces: Sequence[Design],
    estimator: Estimator,
    *,
    progress: Progress,
    chunk: int | None = None,
) -> Batch:
    """The `Batch` of these problems.

    Args:
        duals: the problems.
        spaces: one for all, or one a problem.
        estimator: what is minimised.
        progress: called with the number of problems done.
        chunk: problems at once; None takes as many as fit.
    """
    dual, space, limit = duals.dual, spaces[0], estimator.tolerance
    rescue: dict[str, Any] = {"visible": VISIBLE, "ridge": RESCUE * dual.scale}
    if isinstance(estimator, Likelihood):
        rescue = {"visible": SEEN}
    rescue = {} if dual.ridge.any() else rescue
    rescue |= {"tolerance": limit, "max_steps": estimator.max_steps}
    ends = minima(duals, len(dual.target), progress=progress, chunk=chunk, **rescue)
    gradient, converged = ends.met(dual, limit)
    offsets = np.stack([s.offsets for s in spaces])  # [1 or N, D]
    length = 1.0 / (1.0 - dual.discount) if offsets.any() else 0.0
    scales, spent = np.stack([s.scales for s in spaces]), ends.spent + offsets * length
    gauge = Gauge(ends.x, scales, space.blocks, spent=spent)
    return Batch(
        reward_weights=gauge.reward_weights,
        cost_weights=gauge.cost_weights,
        multipliers=gauge.multipliers,
        budgets=gauge.budgets,
        temperatures=gauge.temperatures,
        losses=ends.loss,
        projected_gradients=gradient,
        converged=converged,
        deterministic=ends.boundless,
        parameters=ends.x,
        steps=ends.steps,
    )


def _better(duals: Duals, rough: Minima, random: np.ndarray) -> Duals:
    """The problems, begun where rough ones of the same data end, if that beats `random` actions."""
    loss = (duals.dual.start * rough.values).sum(axis=1)
    loss -= (rough.x * duals.dual.target).sum(axis=1)
    better = (loss < random)[:, None]
    return duals._replace(
        x=np.where(better, rough.x, duals.x), values=np.where(better, rough.values, duals.values)
    )


def _finite(mdp: MDP, spaces: Sequence[Design], duals: Duals, tolerance: float) -> Duals:
    """The problems, begun at finite values, which 0 has not where episodes are not discounted."""
    if len(spaces) > 1:
        raise InvalidModel(
            "a batch at discount 1 needs one set of features for all problems; use recover_each"
        )
    one = duals.dual._replace(
        start=mdp.initial, target=np.zeros(len(duals.x)), information=np.zeros(mdp.states)
    )
    start = finite_start(mdp, one, duals.x, tolerance)
    if start is None:
        raise InvalidModel(NOWHERE)
    return duals._replace(x=start[0], values=start[1])


def _tables(
    estimator: Estimator,
    mdps: Sequence[MDP],
    maps: Sequence[Features],
    seen: Sequence[Observed] | np.ndarray,
) -> Sequence[np.ndarray]:
    """One [S, A] a problem: counts of steps for `Likelihood`, else the discounted visitation."""
    shape = (mdps[0].states, mdps[0].actions)
    if isinstance(seen, np.ndarray):
        if seen.shape[1:] != shape or not (np.isfinite(seen) & (seen >= 0)).all():
            raise InvalidModel(
                "tables must be finite and not negative, [N, S, A] = "
                f"[N, {shape[0]}, {shape[1]}]; got {seen.shape}"
            )
        there = mdps[0].choices | mdps[0].ends[:, None]  # several models have all actions
        if not there.all() and (seen * ~there > 0).any():
            n, s, a = (int(i) for i in np.argwhere(seen * ~there > 0)[0])
            raise InvalidDemonstrations(
                f"tables must be 0 where an action is not there; problem {n} has "
                f"{seen[n, s, a]:g} in state {s}, action {a}"
            )
        return list(seen)
    tables = []
    for m, f, d in zip(mdps, maps, seen, strict=True):
        check_task(m, f, d)
        if isinstance(estimator, Likelihood):
            tables.append(counts_of(m, d))
            continue
        tally = tally_of(m, d)
        if not tally.trajectories:
            raise InvalidDemonstrations("Convex needs trajectories that begin at the start")
        tables.append(tally.visitation(known_rest(m, f)))
    return tables


def _each(values: Noun | Sequence[Noun], kind: type[Noun], count: int, name: str) -> list[Noun]:
    every = [values] * count if isinstance(values, kind) else list(values)
    if len(every) != count or not all(isinstance(one, kind) for one in every):
        raise InvalidModel(
            f"{name} must be one {kind.__name__}, or one a problem, {count}; got {len(every)}"
        )
    return every


def _stacked(mdps: Sequence[MDP]) -> Backend:
    """A stack of dense models of the same shape."""
    import jax
    import jax.numpy as jnp

    from tacit.engine.backends.device import Dense

    if any(m.restricted for m in mdps):
        raise InvalidModel(
            "a batch of several models knows no unavailable actions or ends; use recover_each"
        )
    shapes = {(m.states, m.actions, m.discount) for m in mdps}
    if len(shapes) > 1:
        raise InvalidModel(
            "the models of a batch must share states, actions and discount; "
            f"got {len(shapes)} kinds"
        )
    with jax.enable_x64(True):
        return Dense(jnp.asarray(np.stack([m.dense() for m in mdps])))
