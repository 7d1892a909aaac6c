"""Draws: trajectories resampled, and coefficients from their law by the No-U-Turn sampler.

Of resampled trajectories, or individuals, nothing is assumed but their independence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Literal, TypeVar

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.data.tally import tally_of
from tacit.data.units import Units
from tacit.engine.backends import DENSE_LIMIT, backend_of
from tacit.engine.progress import Callback
from tacit.errors import InvalidModel, not_installed
from tacit.inverse.batch import Batch, Estimator, posed, searched, tell
from tacit.inverse.diagnostics import Identification
from tacit.inverse.doubts import POSTERIOR_DRAWS, Posterior, chain_findings, truncated
from tacit.inverse.expectations import check_task
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.noisy import check_plain
from tacit.inverse.noisy.inference import CLUSTERS, units_of
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.noisy.steps import Steps, coordinates
from tacit.inverse.parameters import BLIND, CONFIDENCE
from tacit.inverse.recovery import Recovery
from tacit.inverse.sets import coefficients
from tacit.inverse.standardised import Standard
from tacit.model.mdp import MDP
from tacit.model.objective import Features, known_rest
from tacit.search.sampler import Chains, sampled

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
    space = coordinates(mdp, features)
    units, random = units_of(demonstrations, CLUSTERS * space.size), np.random.default_rng(seed)
    tables, known = [], known_rest(mdp, features)
    for _ in range(replicates):
        drawn = demonstrations.select(units.drawn(random))
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
    start = start._replace(x=coefficients(recovery) * space.scales * kept)
    backend = backend_of(mdp, whole=True)
    settings = {"tolerance": estimator.tolerance, "max_steps": estimator.max_steps}
    told = partial(tell, callbacks, "bootstrap", replicates)
    batch = searched(backend, [space], problem, start, estimator, settings, told)
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


# Chains of a sampler, and the draws kept of each.
CHAINS, DRAWS = 4, 1000
# Log-likelihoods of the same maximum differ by less than this.
SAME = 1e-3


def check_sampler(mdp: MDP) -> None:
    """Raises where the No-U-Turn sampler cannot be used: not installed, or a world too large."""
    if find_spec("blackjax") is None:
        raise InvalidModel(
            f"the sampler nuts needs blackjax, {not_installed('nuts')}; or use laplace"
        )
    if mdp.states > DENSE_LIMIT:
        raise InvalidModel(
            f"nuts is for worlds of at most {DENSE_LIMIT} states; this one has {mdp.states}: use "
            "the sampler laplace"
        )


def chains_of(
    recovery: Recovery,
    task: tuple[MDP, Features, Observed],
    around: tuple[np.ndarray, np.ndarray],
    *,
    prior: np.ndarray,
    seed: int,
) -> Chains:
    """Draws of the coefficients of a recovery from this task, likelihood times belief.

    `around` are a mean and a deviation [P] of their law, roughly; `prior` [P, 2] what was believed.
    """
    mdp, features, demonstrations = task
    check_sampler(mdp)
    found = recovery.parameters
    space = coordinates(mdp, features)
    steps = Steps.of(mdp, space, demonstrations)
    if space.size != len(found) or int(steps.counts.sum()) != recovery.observed_steps:
        raise InvalidModel(
            "nuts must be given what the recovery was made from: its coefficients are "
            f"{len(found)} and its steps {recovery.observed_steps}; got features with "
            f"{space.size} and {int(steps.counts.sum())} steps"
        )
    fitted = steps.fit(Likelihood(free_reward=bool(np.isinf(found.lower[space.blocks[0]]).any())))
    # The maximum with every constraint is no lower than one without some of them.
    more = -float(fitted.point.loss) - recovery.log_likelihood
    if not (more > -SAME and (more < SAME or found.unrestricted is not None)):
        raise InvalidModel(
            "nuts samples the likelihood of Likelihood() alone; the recovery maximised another "
            f"(log-likelihood {recovery.log_likelihood:.6g}, here {-fitted.point.loss:.6g}), with "
            "lapses, a prior or a known noise: use the sampler laplace"
        )
    scales = space.scales
    chains = sampled(
        backend_of(mdp, whole=True),
        fitted.problem,
        around=(around[0] * scales, around[1] * scales),
        prior=(np.nan_to_num(prior[:, 0]) * scales, 1.0 / (prior[:, 1] * scales) ** 2),
        chains=CHAINS,
        draws=DRAWS,
        seed=seed,
    )
    return chains._replace(draws=chains.draws / scales)


def posterior(
    recovery: Recovery,
    belief: Mapping[str, tuple[float, float]] | None = None,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    sampler: Literal["laplace", "nuts"] = "laplace",
    mdp: MDP | None = None,
    features: Features | None = None,
    demonstrations: Observed | None = None,
) -> Posterior:
    """The `Posterior` of the coefficients within their bounds.

    The belief is normal and independent, and cut at the bounds: a cost is never liked, and no
    reward weight negative unless it was let be. By Laplace's approximation the likelihood is taken
    as quadratic around its maximum; by the No-U-Turn sampler it is the likelihood itself. With long
    demonstrations and no belief the intervals of both are those of the recovery.

    Args:
        recovery: of a noisy demonstrator, with standard errors.
        belief: name of a coefficient -> mean and standard deviation believed beforehand, in the
            units of `recovery.parameters`, those of the noise.
        confidence: of the intervals.
        seed: of the draws.
        sampler: "laplace", or "nuts" for small worlds, which needs blackjax (the extra nuts) and
            what the recovery was made from.
        mdp: for nuts, the model.
        features: for nuts, the features.
        demonstrations: for nuts, what was seen.
    """
    found = recovery.parameters
    reason = found.reason or found.with_errors("fisher").reason
    if reason or np.isnan(found.information).any():
        raise InvalidModel(
            "a posterior needs a likelihood and its curvature; this recovery has none"
            + (f": {reason}" if reason else "")
        )
    if not 0.0 < confidence < 1.0:
        raise InvalidModel(f"confidence must be in (0, 1); got {confidence}")
    prior = np.stack([np.full(len(found), np.nan), np.full(len(found), np.inf)], axis=1)
    for name, pair in (belief or {}).items():
        mean, deviation = (float(number) for number in pair)
        # Their squares must be numbers, too.
        if found.names.count(name) != 1 or not (abs(mean) < 1e100 and deviation > 1e-100):
            raise InvalidModel(
                "belief must name coefficients and give each a mean and a positive standard "
                f"deviation; got {name!r:.60}: {pair!r:.60}; the names are "
                f"{', '.join(found.names[:8])}"
            )
        prior[found.names.index(name)] = mean, deviation
    centre = found.estimates if found.unrestricted is None else found.unrestricted
    back = np.linalg.inv(found.jacobian)
    precision = back.T @ found.information @ back
    pull = precision @ centre - back.T @ found.gradient
    held = 1.0 / prior[:, 1] ** 2
    precision, pull = precision + np.diag(held), pull + held * np.nan_to_num(prior[:, 0])
    sizes = np.sqrt(np.diagonal(precision))
    if (sizes == 0).any() or np.linalg.cond(precision / np.outer(sizes, sizes)) > 1.0 / BLIND:
        raise InvalidModel(
            "the demonstrations leave a combination of coefficients open: give a belief about "
            "one of those that a finding says trade off freely"
        )
    covariance = np.linalg.inv(precision)
    mean, errors = covariance @ pull, np.sqrt(np.diagonal(covariance))
    rng = np.random.default_rng(seed)
    draws = rng.multivariate_normal(mean, covariance, POSTERIOR_DRAWS, method="cholesky")
    if ((mean - found.lower) < 6.0 * errors).any():  # a bound cuts some of it off
        draws = truncated(rng, mean, precision, found.lower)
        mean, errors = draws.mean(axis=0), draws.std(axis=0)
    chains, doubts = None, ()
    said = "Laplace's approximation: the likelihood is taken as quadratic around its maximum"
    if sampler == "nuts":
        if mdp is None or features is None or demonstrations is None:
            raise InvalidModel(
                "the sampler nuts needs mdp=, features= and demonstrations= of the recovery; "
                "got no such, or not all"
            )
        task = (mdp, features, demonstrations)
        chains = chains_of(recovery, task, (mean, errors), prior=prior, seed=seed)
        draws = chains.draws.reshape(-1, len(found))
        mean, errors = draws.mean(axis=0), draws.std(axis=0)
        doubts = chain_findings(chains, found.names)
        said = f"that of {CHAINS} chains of the No-U-Turn sampler, {len(draws)} draws in all"
    elif sampler != "laplace":
        raise InvalidModel(f"sampler must be 'laplace' or 'nuts'; got {sampler!r:.60}")
    tails = 0.5 + np.array([-0.5, 0.5]) * confidence
    said = (
        f"The posterior is {said}, with a belief about {len(belief or {})} of {len(found)} "
        "coefficients."
    )
    none = np.full(len(found), np.nan)
    return Posterior(
        names=found.names,
        means=mean,
        deviations=errors,
        intervals=np.quantile(draws, tails, axis=0).T,
        draws=draws,
        prior=prior,
        confidence=confidence,
        sampler=sampler,
        r_hat=none if chains is None else chains.r_hat,
        effective=none if chains is None else chains.effective,
        divergences=0 if chains is None else chains.divergences,
        reliable=not doubts,
        findings=(*doubts, Finding(said, Kind.ERRORS, number=float(len(belief or {})))),
    )
