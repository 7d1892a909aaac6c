"""Intervals by the bootstrap: recoveries of trajectories drawn again.

Of resampled trajectories, or individuals, nothing is assumed but their independence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.tally import tally_of
from tacit.data.units import Units, units_of
from tacit.engine.backends import backend_of
from tacit.engine.progress import Callback
from tacit.errors import InvalidModel
from tacit.inverse.batch import Batch, Estimator, posed, searched, tell
from tacit.inverse.diagnostics import Identification
from tacit.inverse.expectations import check_task
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.noisy import check_plain
from tacit.inverse.noisy.inference import CLUSTERS
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.parameters import CONFIDENCE
from tacit.inverse.recovery import Recovery
from tacit.inverse.sets import coefficients
from tacit.inverse.standardised import Standard
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.model.objective import Features, known_rest

Answer = TypeVar("Answer", bound=Recovery)
# Fewer trajectories or individuals than this say little about how they differ.
FEW = 10


def resampled(
    mdp: MDP,
    features: Features,
    demonstrations: Demonstrations,
    recovery: Recovery,
    *,
    estimator: Estimator,
    replicates: int,
    seed: int,
    callbacks: Sequence[Callback],
) -> Recovery:
    """The recovery that `estimator` made of these demonstrations, with intervals of replicates.

    Every replicate draws as many trajectories as there are, with repetition, and is fitted from
    the parameters of the recovery: individuals with all their trajectories where they are named. A
    constraint that the recovery does not keep stays out.

    Args:
        mdp: the known world.
        features: as recovered with.
        demonstrations: likewise.
        recovery: what they gave.
        estimator: `Convex` or `Likelihood`.
        replicates: how many.
        seed: of the draws.
        callbacks: called with a `tacit.progress.Event` as replicates are done.
    """
    check_task(mdp, features, demonstrations, in_memory=True)
    if not isinstance(estimator, Estimator):
        kind = type(estimator).__name__
        raise InvalidModel(f"bootstrap works with Convex or Likelihood on one task; got {kind}")
    check_plain(estimator, "the bootstrap")
    if not isinstance(estimator, Likelihood):
        demonstrations = demonstrations.select(~demonstrations.partial)
    space = Design.of(mdp, features)
    units, random = units_of(demonstrations, CLUSTERS * space.size), np.random.default_rng(seed)
    tables, known = [], known_rest(mdp, features)
    for _ in range(replicates):
        drawn = demonstrations.select(units.drawn(random))
        tables.append(
            drawn.counts(mdp)
            if isinstance(estimator, Likelihood)
            else tally_of(mdp, drawn).visitation(known)
        )
    duals = posed(backend_of(mdp, whole=True), estimator, [mdp] * replicates, [space], tables)
    kept = np.ones(space.size, bool)
    for block, weights in zip(space.blocks[1:], recovery.cost_weights, strict=True):
        kept[block] = np.isfinite(weights).all()
    lower, upper = duals.dual.lower, duals.dual.upper
    dual = duals.dual._replace(lower=np.where(kept, lower, 0.0), upper=np.where(kept, upper, 0.0))
    duals = duals._replace(dual=dual, x=coefficients(recovery) * space.scales * kept)
    batch = searched(
        duals,
        [space],
        estimator,
        tolerance=estimator.tolerance,
        max_steps=estimator.max_steps,
        progress=partial(tell, callbacks, "bootstrap", replicates),
    )
    return widened(recovery, batch, units)


def check_replicates(replicates: int) -> None:
    """Raises `InvalidModel` unless that many recoveries can make an interval."""
    if not isinstance(replicates, int | np.integer) or replicates < 2:
        raise InvalidModel(f"bootstrap must be a whole number of at least 2; got {replicates!r}")


def widened(recovery: Answer, batch: Batch, units: Units) -> Answer:
    """The recovery with the intervals and standard errors of replicates that drew such units."""
    known, standard = _counted(recovery, batch, units), recovery.standard
    if standard is not None and not standard.uniform:
        scaled = _counted(recovery.standardised, _in_units(batch, standard), units)
        standard = standard.knowing(scaled)
    return replace(recovery, identification=known, standard=standard)


def _in_units(batch: Batch, units: Standard) -> Batch:
    """The same recoveries about standardised features."""
    reward, *costs = units.deviations
    weights = batch.reward_weights * reward
    norm = np.abs(weights).sum(axis=1, keepdims=True)
    norm = np.where(norm > 0, norm, 1.0)  # without a reward prices are in units of the noise
    parts = [part * unit for part, unit in zip(batch.cost_weights, costs, strict=True)]
    sizes = [part.sum(axis=1) for part in parts]
    totals = np.stack(sizes, axis=1) if sizes else np.zeros((len(batch), 0))
    known = np.where(totals > 0, totals, 1.0)
    return replace(
        batch,
        reward_weights=weights / norm,
        cost_weights=tuple(part / own[:, None] for part, own in zip(parts, known.T, strict=True)),
        multipliers=batch.multipliers * known / norm,
        budgets=batch.budgets / known,
        temperatures=batch.temperatures / norm[:, 0],
    )


def _counted(recovery: Recovery, batch: Batch, units: Units) -> Identification:
    """What is known, with the intervals and standard errors of the replicates."""
    ends, held = [50.0 * (1.0 - CONFIDENCE), 50.0 * (1.0 + CONFIDENCE)], 0

    def known_draws(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        finite = np.where(np.isfinite(draws), draws, np.nan)
        empty = np.asarray(np.isnan(finite).all(axis=0))
        return np.where(empty, 0.0, finite), empty

    def intervals(draws: np.ndarray, own: np.ndarray) -> np.ndarray:
        nonlocal held
        if not own.size:
            return own
        safe, empty = known_draws(draws)
        found = np.where(empty, np.nan, np.nanpercentile(safe, ends, axis=0)).T
        # On its bound in every resample: how far off it might be, only the likelihood can tell.
        still = (found[:, 0] == found[:, 1]) & (own[:, 0] < own[:, 1])
        held += int(still.sum())
        return np.where(still[:, None], own, found)

    def errors(draws: np.ndarray) -> np.ndarray:
        safe, empty = known_draws(draws)
        return np.where(empty, np.nan, np.nanstd(safe, axis=0, ddof=1))

    said = (
        f"Intervals of weights, prices and budgets are percentiles of {len(batch)} recoveries of "
        f"resampled {units.called} ({int(batch.converged.sum())} converged); those of coefficients "
        "are the estimator's."
    )
    if (many := len(units)) < FEW:
        said += f" They are too narrow: {many} {units.called} are too few to resample."
    known = recovery.identification
    if known.dynamics is not None:
        said += " They take the counted dynamics for known, which the estimator's do not."
    parts = zip(batch.cost_weights, known.cost_intervals, strict=True)
    found = {
        "reward_intervals": intervals(batch.reward_weights, known.reward_intervals),
        "cost_intervals": tuple(intervals(part, own) for part, own in parts),
        "multiplier_intervals": intervals(batch.multipliers, known.multiplier_intervals),
        "budget_intervals": intervals(batch.budgets, known.budget_intervals),
    }
    if held:
        said += f" Numbers that no resample moves off a bound ({held}) keep their own intervals."
    known = known.with_findings([Finding(said, Kind.ERRORS, number=float(len(batch)))])
    return replace(
        known,
        **found,
        reward_standard_errors=errors(batch.reward_weights),
        cost_standard_errors=tuple(errors(part) for part in batch.cost_weights),
        multiplier_standard_errors=errors(batch.multipliers),
        budget_standard_errors=errors(batch.budgets),
    )
