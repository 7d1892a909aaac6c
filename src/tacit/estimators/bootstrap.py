"""Intervals by the bootstrap: recoveries of trajectories drawn again.

Of resampled trajectories, or individuals, nothing is assumed but their independence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

from tacit.data.tally import tally_of
from tacit.data.units import Units, jointly_numbered
from tacit.engine.backends import backend_of
from tacit.engine.progress import Callback, unwatched
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.batch import Batch, batch_of, posed, tell
from tacit.estimators.batch import Estimator as Batched
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.logged.world import LoggedTask
from tacit.estimators.mixture import MixtureRecovery
from tacit.estimators.task import Task
from tacit.estimators.trips.traveller import TripsRecovery, recover_trips
from tacit.estimators.trips.world import Trips
from tacit.inference.diagnostics import Identification
from tacit.inference.findings import Finding, Kind
from tacit.inference.gauge import Gauge
from tacit.inference.information import CLUSTERS
from tacit.inference.parameters import CONFIDENCE
from tacit.inference.sets import coefficients
from tacit.inference.standardised import Standard
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import Bounds, maximum, within_temperature
from tacit.model.features.design import Design
from tacit.model.objective import Features, known_rest
from tacit.recovery import Recovery, RecoveryStatus

if TYPE_CHECKING:
    from tacit.estimators.joint_recovery import JointRecovery
    from tacit.estimators.tasks import SharedLikelihood, TaskFits

Answer = TypeVar("Answer", Recovery, TripsRecovery, MixtureRecovery)
Widened = TypeVar("Widened", bound=Recovery)
NOT_CONVERGED = RecoveryStatus.NOT_CONVERGED
# Percentiles that are the ends of an interval.
ENDS = (50.0 * (1.0 - CONFIDENCE), 50.0 * (1.0 + CONFIDENCE))
# Fewer trajectories or individuals than this say little about how they differ.
FEW = 10


class Replicates(NamedTuple):
    """Numbers of N recoveries of resampled data, in the gauge, as those of a `Batch`."""

    reward_weights: np.ndarray  # [N, D]
    cost_weights: tuple[np.ndarray, ...]  # one [N, D_k] per constraint
    multipliers: np.ndarray  # [N, K]
    budgets: np.ndarray  # [N, K]
    temperatures: np.ndarray  # [N]
    converged: np.ndarray  # [N] bool

    @classmethod
    def stacked(cls, found: Sequence[Any], converged: Sequence[bool]) -> Self:
        """Of gauges, or of recoveries."""
        count = len(found[0].cost_weights)
        return cls(
            reward_weights=np.stack([one.reward_weights for one in found]),
            cost_weights=tuple(np.stack([g.cost_weights[k] for g in found]) for k in range(count)),
            multipliers=np.stack([one.multipliers for one in found]),
            budgets=np.stack([one.budgets for one in found]),
            temperatures=np.array([one.temperature for one in found]),
            converged=np.array(converged),
        )

    @property
    def coefficients(self) -> np.ndarray:
        """[N, P] in units of the noise, as in `recovery.parameters`; NaN where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [self.reward_weights / self.temperatures[:, None]]
            for k, weights in enumerate(self.cost_weights):
                price = self.multipliers[:, k] / self.temperatures
                parts.append(np.where(price > 0, price, 0.0)[:, None] * np.nan_to_num(weights))
        return np.concatenate(parts, axis=1)

    @classmethod
    def of(cls, batch: Batch) -> Self:
        """Of a batch."""
        return cls(*(getattr(batch, name) for name in cls._fields))


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """How data are drawn again.

    Attributes:
        replicates: how many times.
        seed: of the draws.
        callbacks: called with a `tacit.progress.Event` as replicates are done.
    """

    replicates: int
    seed: int = 0
    callbacks: Sequence[Callback] = ()

    def drawn(self, units: Units) -> Iterator[np.ndarray]:
        """The episodes of as many units as there are, once for every replicate."""
        random = np.random.default_rng(self.seed)
        for done in range(self.replicates):
            yield units.drawn(random)
            self.tell(done + 1)

    def drawn_jointly(self, parts: Sequence[Units]) -> Iterator[list[np.ndarray]]:
        """The episodes of every task, of units drawn from all of them: who is in two is in both.

        As many are drawn as there are, of those in the same tasks: no task is left without any.
        """
        random, joint = np.random.default_rng(self.seed), jointly_numbered(parts)
        many = 1 + max(int(one.number.max()) for one in joint)
        if many < 2:
            raise InvalidDemonstrations("resampling needs at least two individuals; got one")
        inside = np.zeros((many, len(parts)), bool)
        for e, one in enumerate(joint):
            inside[one.number, e] = True
        kind = np.unique(inside, axis=0, return_inverse=True)[1].ravel()
        alike = [np.flatnonzero(kind == k) for k in range(kind.max() + 1)]
        for done in range(self.replicates):
            drawn = np.concatenate([random.choice(units, len(units)) for units in alike])
            often = np.bincount(drawn, minlength=many)
            yield [np.repeat(np.arange(len(u.number)), often[u.number]) for u in joint]
            self.tell(done + 1)

    def tell(self, done: int) -> None:
        """Tells how many are done."""
        tell(self.callbacks, "bootstrap", self.replicates, done)


def resampled(task: Task, recovery: Answer, *, estimator: Any, resampling: Resampling) -> Answer:
    """The recovery that `estimator` made of a task, with intervals of replicates.

    Every replicate draws as many trajectories as there are, with repetition, and is fitted from
    the parameters of the recovery: individuals with all their trajectories where they are named. A
    constraint that the recovery does not keep stays out.
    """
    task.check_in_memory()
    task = task.without_dropped
    if isinstance(recovery, MixtureRecovery):
        return _resampled_types(task, recovery, estimator, resampling)
    if not isinstance(estimator, Batched):
        raise InvalidModel(
            "bootstrap works with Convex or Likelihood, whose answers move with chance in the "
            f"steps; got {type(estimator).__name__}"
        )
    if not isinstance(estimator, Likelihood):
        task = task.select(~task.demonstrations.partial)
    units = task.units(CLUSTERS * sum(task.sizes))
    if isinstance(task, LoggedTask):
        task = task.prepared(estimator)
    draws = (task.select(episodes) for episodes in resampling.drawn(units))
    idle = [k for k, own in enumerate(recovery.cost_weights) if not np.isfinite(own).all()]
    asked = any(getattr(estimator, name, None) for name in ("lapses", "prior", "restrict"))
    if isinstance(task, LoggedTask) and getattr(estimator, "lapses", False) is not False:
        raise InvalidModel(
            "rows with lapses are recovered without bootstrap: how much a step counts would depend "
            "on what follows it, and that is learnt anew in every replicate"
        )
    if isinstance(task, LoggedTask) or (isinstance(task, Trips) and not asked):
        found = _near_all(draws, task, estimator, idle)
    elif _batched(task, estimator):
        found = _in_lockstep(list(draws), task, recovery, estimator, resampling)
    else:
        found = _one_by_one(draws, estimator, idle)
    return widened(recovery, found, units)


def _resampled_types(
    task: Task, mixture: MixtureRecovery, estimator: Any, resampling: Resampling
) -> MixtureRecovery:
    """The mixture with intervals of replicates, whose types are those that their units were of."""
    from scipy.optimize import linear_sum_assignment

    many, units = len(mixture.types), task.units()
    keep = replace(estimator, types=many, level=1.0)
    found, shares = [list[Any]() for _ in mixture.types], []
    with unwatched():
        for episodes in resampling.drawn(units):
            drawn = recovered(task.select(episodes), keep)
            alike = drawn.membership.T @ mixture.membership[episodes]
            order = np.argsort(linear_sum_assignment(-alike)[1])
            shares.append(drawn.shares[order])
            for own, k in zip(found, order, strict=True):
                own.append(drawn.types[k])
    types = [
        widened(one, _without_idle(one, own), units)
        for one, own in zip(mixture.types, found, strict=True)
    ]
    ends = np.percentile(shares, ENDS, axis=0).T
    return replace(mixture, types=tuple(types), share_intervals=ends)


def _without_idle(recovery: Recovery, found: Sequence[Recovery]) -> Replicates:
    """The replicates of a recovery, constraints that it does not keep at 0 in all of them."""
    numbers = Replicates.stacked(found, [one.status is not NOT_CONVERGED for one in found])
    idle = np.array([not np.isfinite(own).all() for own in recovery.cost_weights], bool)
    return numbers._replace(
        multipliers=np.where(idle, 0.0, numbers.multipliers),
        budgets=np.where(idle, np.inf, numbers.budgets),
    )


def recovered(task: Task, estimator: Any) -> Any:
    """What an estimator makes of a task; how it ended is for those who ask."""
    if isinstance(task, Trips):
        return recover_trips(task, estimator=estimator, throw=False)
    return estimator.fit(task.mdp, task.features, task.demonstrations, throw=False)


def jointly_resampled(
    tasks: Sequence[Task],
    recovery: JointRecovery,
    found: TaskFits,
    options: SharedLikelihood,
    resampling: Resampling,
) -> JointRecovery:
    """The recovery of several tasks with intervals of replicates, each sought from the joint fit.

    Args:
        tasks: what was recovered together.
        recovery: of them.
        found: the fits behind it.
        options: of these.
        resampling: how units are drawn again: trajectories, or individuals in all their tasks.
    """
    from tacit.estimators.tasks import with_priors

    joint, inner = found.joint, options.likelihood
    rules: dict[str, Any] = {"tolerance": inner.tolerance, "max_steps": inner.max_steps}
    units = [task.units(CLUSTERS * len(joint.z)) for task in tasks]
    gauges, converged = [[] for _ in tasks], []
    for episodes in resampling.drawn_jointly(units):
        drawn = [task.select(own) for task, own in zip(tasks, episodes, strict=True)]
        chains = with_priors(found.strengths, [task.chain(inner) for task in drawn])
        problem = joint.problem.with_chains(chains)
        fitted = problem.minimum(joint.z, joint.parts, **rules)
        for own, gauge in zip(gauges, gauges_of(fitted, drawn), strict=True):
            own.append(gauge)
        converged.append(fitted.converged)
    parts = zip(recovery.recoveries, gauges, units, strict=True)
    each = [widened(one, Replicates.stacked(own, converged), who) for one, own, who in parts]
    return recovery.speaking(each, (joint.problem.ties.leaders[0], *found.speakers))


def _batched(task: Task, estimator: Any) -> bool:
    """Whether nothing is asked of the estimator that searches in lockstep do not know of."""
    asked = (
        getattr(estimator, name, None) for name in ("lapses", "prior", "temperature", "restrict")
    )
    plain = isinstance(estimator, Batched) and not any(asked)
    return plain and not task.chain(estimator).by_products


def _in_lockstep(
    draws: Sequence[Task], task: Task, recovery: Recovery, estimator: Batched, how: Resampling
) -> Replicates:
    """All replicates in one search."""
    mdp, space = task.mdp, Design.of(task.mdp, task.features)
    known = known_rest(mdp, task.features)
    steps = isinstance(estimator, Likelihood)
    tables = [
        one.demonstrations.counts(mdp)
        if steps
        else tally_of(mdp, one.demonstrations).visitation(known)
        for one in draws
    ]
    duals = posed(backend_of(mdp, whole=True), estimator, [mdp] * len(draws), [space], tables)
    kept = np.ones(space.size, bool)
    for block, weights in zip(space.blocks[1:], recovery.cost_weights, strict=True):
        kept[block] = np.isfinite(weights).all()
    bounds = Bounds.of(space, estimator)
    lower, upper = (np.where(kept, end, 0.0) for end in (bounds.lower, bounds.upper))
    dual = duals.dual._replace(lower=lower, upper=upper)
    batch = batch_of(
        duals._replace(dual=dual, x=coefficients(recovery) * space.scales * kept),
        [space],
        estimator,
        progress=partial(tell, how.callbacks, "bootstrap", how.replicates),
    )
    return Replicates.of(batch)


def _near_all(draws: Iterable[Task], task: Task, options: Any, idle: Sequence[int]) -> Replicates:
    """Every replicate sought from the fit of the whole task."""
    near, gauges, converged = maximum(task.chain(options), options, idle=idle), [], []
    for drawn in draws:
        fitted = maximum(drawn.chain(options), options, near=near, idle=idle)
        if options.temperature is not None:
            fitted = within_temperature(fitted, options.temperature, options.max_steps)
        gauges += gauges_of(fitted, [drawn])
        converged.append(fitted.converged)
    return Replicates.stacked(gauges, converged)


def gauges_of(fitted: Fit, tasks: Sequence[Task]) -> list[Gauge]:
    """The numbers of every chain of a fit."""
    seen = [task.demonstrations for task in tasks]
    return [
        Gauge.of(own.chain.space, fitted.x(e), own.spent, own.reaction)
        for e, own in enumerate(fitted.evidence(seen))
    ]


def _one_by_one(draws: Iterable[Task], estimator: Any, idle: Sequence[int]) -> Replicates:
    """Every replicate recovered as the whole was, with the constraints that that keeps."""
    keep = replace(estimator, level=1.0) if hasattr(estimator, "level") else estimator
    found, converged = [], []
    with unwatched():
        for drawn in draws:
            own = drawn.features
            kept = [k for k in range(own.constraints) if k not in idle]
            names = [own.cost_names[k] for k in kept]
            curves = [
                replace(curve, block=curve.block and 1 + kept.index(curve.block - 1))
                for curve in own.curves
                if not curve.block or curve.block - 1 in kept
            ]
            costs = [own.costs[k] for k in kept]
            less = Features(own.reward, costs, own.reward_names, names, curves=curves)
            one = recovered(replace(drawn, features=less), keep)
            found.append(_Numbers.of(one, own, kept))
            converged.append(one.status is not NOT_CONVERGED)
    return Replicates.stacked(found, converged)


class _Numbers(NamedTuple):
    """The numbers of a recovery, with constraints that were left out."""

    reward_weights: np.ndarray
    cost_weights: tuple[np.ndarray, ...]
    multipliers: np.ndarray
    budgets: np.ndarray
    temperature: float

    @classmethod
    def of(cls, found: Recovery, features: Features, kept: Sequence[int]) -> Self:
        """Of all constraints of the features, of which the recovery has those kept."""
        weights = [np.full(size, np.nan) for size in features.sizes[1:]]
        prices, budgets = np.zeros(len(weights)), np.full(len(weights), np.inf)
        for place, k in enumerate(kept):
            weights[k] = found.cost_weights[place]
            prices[k], budgets[k] = found.multipliers[place], found.budgets[place]
        return cls(found.reward_weights, tuple(weights), prices, budgets, found.temperature)


def check_replicates(replicates: int) -> None:
    """Raises `InvalidModel` unless that many recoveries can make an interval."""
    if not isinstance(replicates, int | np.integer) or replicates < 2:
        raise InvalidModel(f"bootstrap must be a whole number of at least 2; got {replicates!r}")


def widened(recovery: Widened, batch: Replicates, units: Units) -> Widened:
    """The recovery with the intervals and standard errors of replicates that drew such units."""
    known, standard = _counted(recovery, batch, units), recovery.standard
    if standard is not None and not standard.uniform:
        scaled = _counted(recovery.standardised, _in_units(batch, standard), units)
        standard = standard.knowing(scaled)
    return replace(recovery, identification=known, standard=standard, replicates=batch)


def _in_units(batch: Replicates, units: Standard) -> Replicates:
    """The same recoveries about standardised features."""
    reward, *costs = units.deviations
    weights = batch.reward_weights * reward
    norm = np.abs(weights).sum(axis=1, keepdims=True)
    norm = np.where(norm > 0, norm, 1.0)  # without a reward prices are in units of the noise
    parts = [part * unit for part, unit in zip(batch.cost_weights, costs, strict=True)]
    sizes = [part.sum(axis=1) for part in parts]
    totals = np.stack(sizes, axis=1) if sizes else np.zeros((len(norm), 0))
    known = np.where(totals > 0, totals, 1.0)
    return batch._replace(
        reward_weights=weights / norm,
        cost_weights=tuple(part / own[:, None] for part, own in zip(parts, known.T, strict=True)),
        multipliers=batch.multipliers * known / norm,
        budgets=batch.budgets / known,
        temperatures=batch.temperatures / norm[:, 0],
    )


def _counted(recovery: Recovery, batch: Replicates, units: Units) -> Identification:
    """What is known, with the intervals and standard errors of the replicates."""
    held = 0

    def known_draws(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        finite = np.where(np.isfinite(draws), draws, np.nan)
        empty = np.asarray(np.isnan(finite).all(axis=0))
        return np.where(empty, 0.0, finite), empty

    def intervals(draws: np.ndarray, own: np.ndarray) -> np.ndarray:
        nonlocal held
        if not own.size:
            return own
        safe, empty = known_draws(draws)
        found = np.where(empty, np.nan, np.nanpercentile(safe, ENDS, axis=0)).T
        # On its bound in every resample: how far off it might be, only the likelihood can tell.
        still = (found[:, 0] == found[:, 1]) & (own[:, 0] < own[:, 1])
        held += int(still.sum())
        return np.where(still[:, None], own, found)

    def errors(draws: np.ndarray) -> np.ndarray:
        safe, empty = known_draws(draws)
        return np.where(empty, np.nan, np.nanstd(safe, axis=0, ddof=1))

    many = len(batch.converged)
    said = (
        f"Intervals of weights, prices and budgets are percentiles of {many} recoveries of "
        f"resampled {units.called} ({int(batch.converged.sum())} converged); those of coefficients "
        "are the estimator's."
    )
    if len(units) < FEW:
        said += f" They are too narrow: {len(units)} {units.called} are too few to resample."
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
        said += f" {held} numbers are on a bound in every resample: they keep their own intervals."
    known = known.with_findings([Finding(said, Kind.ERRORS, number=float(many))])
    return replace(
        known,
        **found,
        reward_standard_errors=errors(batch.reward_weights),
        cost_standard_errors=tuple(errors(part) for part in batch.cost_weights),
        multiplier_standard_errors=errors(batch.multipliers),
        budget_standard_errors=errors(batch.budgets),
    )
