"""Intervals by resampling whole trajectories: nothing is assumed but their independence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import tally_of
from tacit.data.tally import known_rest
from tacit.engine.backends import backend_of
from tacit.engine.progress import Callback, Event
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.inverse.batch import Batch, Estimator, finished, posed
from tacit.inverse.expectations import check_task
from tacit.inverse.joint.resample import replicates_of
from tacit.inverse.joint.traveller import TripsRecovery
from tacit.inverse.joint.trips import Trips
from tacit.inverse.lockstep import search_many
from tacit.inverse.noisy.coordinates import Coordinates, coordinates
from tacit.inverse.noisy.inference import check_plain
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.recovery import Recovery
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# Fewer trajectories than this say little about how trajectories differ.
FEW = 10


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """What resampling the trajectories says about a recovery.

    Attributes:
        replicates: the recoveries of the resampled demonstrations.
        recovery: the given one, with the intervals and standard errors of the replicates.
    """

    replicates: Batch
    recovery: Recovery


def bootstrap(
    mdp: MDP,
    features: Features,
    demonstrations: Demonstrations,
    recovery: Recovery,
    *,
    estimator: Estimator,
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    callbacks: Sequence[Callback] = (),
) -> Bootstrap:
    """The `Bootstrap` of a recovery that `estimator` made of these demonstrations.

    Every replicate draws as many trajectories as there are, with repetition, and is fitted from
    the parameters of the recovery. A constraint that the recovery does not keep stays out.

    Args:
        mdp: the known world.
        features: as recovered with.
        demonstrations: likewise.
        recovery: what they gave.
        estimator: `Convex` or `Likelihood`.
        replicates: how many.
        seed: of the draws.
        level: of the intervals, which run between percentiles.
        callbacks: called with a `tacit.progress.Event` as replicates are done.
    """
    check_task(mdp, features, demonstrations, in_memory=True)
    check_replicates(replicates)
    if not 0.0 < level < 1.0:
        raise InvalidModel(f"level must be in (0, 1); got {level}")
    check_plain(estimator, "the bootstrap")
    if not isinstance(estimator, Likelihood):
        demonstrations = demonstrations.select(~demonstrations.partial)
    if demonstrations.episodes < 2:
        raise InvalidDemonstrations("resampling needs at least two trajectories; got one")
    space = coordinates(mdp, features)
    random = np.random.default_rng(seed)
    tables, known = [], known_rest(mdp, features)
    for _ in range(replicates):
        many = demonstrations.episodes
        drawn = demonstrations.select(random.integers(many, size=many))
        tables.append(
            drawn.counts(mdp)
            if isinstance(estimator, Likelihood)
            else tally_of(mdp, drawn).visitation(known)
        )
    problem, start = posed(estimator, [mdp] * replicates, [space], tables)
    kept = np.ones(space.size, bool)
    for block, weights in zip(space.blocks[1:], recovery.cost_weights, strict=True):
        kept[block] = np.isfinite(weights).all()
    problem = problem._replace(
        lower=np.where(kept, problem.lower, 0.0), upper=np.where(kept, problem.upper, 0.0)
    )
    start = start._replace(x=_parameters(space, recovery) * kept)

    def told(done: int) -> None:
        for callback in callbacks:
            callback(Event("bootstrap", done, {"of": float(replicates)}))

    backend = backend_of(mdp, whole=True)
    settings = {"tolerance": estimator.tolerance, "max_steps": estimator.max_steps}
    found = search_many(backend, problem, start, replicates, told=told, **settings)
    batch = finished(backend, [space], problem, start.initial, found, estimator, settings)
    return Bootstrap(batch, _widened(recovery, batch, demonstrations.episodes, level))


def bootstrap_trips(
    trips: Trips,
    recovery: TripsRecovery,
    *,
    estimator: Likelihood,
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    callbacks: Sequence[Callback] = (),
) -> Bootstrap:
    """The `Bootstrap` of a recovery of trips: whole trips are drawn again, whatever their goals.

    Args:
        trips: the network and its trips.
        recovery: what they gave.
        estimator: that made it.
        replicates: how many.
        seed: of the draws.
        level: of the intervals, which run between percentiles.
        callbacks: called with a `tacit.progress.Event` as replicates are done.
    """
    check_replicates(replicates)

    def told(done: int) -> None:
        for callback in callbacks:
            callback(Event("bootstrap", done, {"of": float(replicates)}))

    batch = replicates_of(trips, recovery, estimator, replicates=replicates, seed=seed, told=told)
    return Bootstrap(batch, _widened(recovery, batch, trips.demonstrations.episodes, level))


def check_replicates(replicates: int) -> None:
    """Raises `InvalidModel` unless that many recoveries can make an interval."""
    if not isinstance(replicates, int | np.integer) or replicates < 2:
        raise InvalidModel(f"bootstrap must be a whole number of at least 2; got {replicates!r}")


def _parameters(space: Coordinates, recovery: Recovery) -> np.ndarray:
    """[D] the parameters of a recovery, in scaled coordinates."""
    theta = [np.nan_to_num(recovery.reward_weights)]
    for price, weights in zip(recovery.multipliers, recovery.cost_weights, strict=True):
        theta.append(price * np.nan_to_num(weights))
    return np.concatenate(theta) / recovery.temperature * space.scales


def _widened(recovery: Recovery, batch: Batch, episodes: int, level: float) -> Recovery:
    ends = [50.0 * (1.0 - level), 50.0 * (1.0 + level)]

    def intervals(draws: np.ndarray) -> np.ndarray:
        finite = np.where(np.isfinite(draws), draws, np.nan)
        empty = np.isnan(finite).all(axis=0)
        safe = np.where(empty, 0.0, finite)
        return np.where(empty, np.nan, np.nanpercentile(safe, ends, axis=0)).T

    def errors(draws: np.ndarray) -> np.ndarray:
        finite = np.where(np.isfinite(draws), draws, np.nan)
        empty = np.isnan(finite).all(axis=0)
        return np.where(empty, np.nan, np.nanstd(np.where(empty, 0.0, finite), axis=0, ddof=1))

    said = (
        f"Intervals are percentiles of {len(batch)} recoveries of resampled trajectories "
        f"({int(batch.converged.sum())} converged)."
    )
    if episodes < FEW:
        said += f" With {episodes} trajectories they are too narrow: resampling cannot invent more."
    known = recovery.identification
    known = replace(
        known,
        reward_intervals=intervals(batch.reward_weights),
        cost_intervals=tuple(intervals(part) for part in batch.cost_weights),
        multiplier_intervals=intervals(batch.multipliers),
        budget_intervals=intervals(batch.budgets),
        reward_standard_errors=errors(batch.reward_weights),
        cost_standard_errors=tuple(errors(part) for part in batch.cost_weights),
        multiplier_standard_errors=errors(batch.multipliers),
        budget_standard_errors=errors(batch.budgets),
        findings=(*known.findings, said),
    )
    return replace(recovery, identification=known)
