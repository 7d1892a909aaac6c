"""Recoveries brought up to date: the one before, and the demonstrations that came since.

Sums of demonstrations add up, and the likelihood depends on nothing else: its fit to the merged
sums, begun at the last fit, is the fit to all rows together. What needs whole trajectories, as
clustered errors do, is of the last full pass over the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.data.tally import Tally, tally_of
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.recover import Estimator, Request, recover
from tacit.estimators.task import Task
from tacit.estimators.tasks import SharedLikelihood
from tacit.estimators.trips.traveller import TripsRecovery
from tacit.inference.expectations import check_task
from tacit.inference.findings import Finding, Kind, check_possible
from tacit.inference.origin import FullPass, Origin, Predictions, now
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.start import Bounds
from tacit.likelihood.steps import StepsChain
from tacit.model.arguments import number
from tacit.model.features.design import Design

if TYPE_CHECKING:
    from tacit.estimators.joint_recovery import JointRecovery
    from tacit.recovery import Recovery

# Known steps at which half of the actions in a prediction would be random: the share shrinks as
# steps become known.
RANDOM_STEPS = 0.1


def updated(recovery: Recovery, more: Observed, *, forget: float | None, keep_rows: bool) -> Any:
    """The recovery of everything seen so far; see `Recovery.updated`."""
    before = origin_of(recovery)
    if isinstance(recovery, TripsRecovery):
        return _updated_trips(recovery, more, forget)
    estimator = before.estimator
    if not isinstance(estimator, Estimator) or isinstance(estimator, SharedLikelihood):
        raise InvalidModel(
            "a type, or one of several tasks, was not recovered by itself: bring all of them up to "
            "date together"
        )
    origin = _with_more(recovery, more, forget, keep_rows)
    request = Request(
        estimator=estimator,
        share_reward=False,
        bootstrap=0,
        seed=0,
        callbacks=(),
        allow_impossible=True,  # what may be impossible was let pass before
        throw=False,
        near=recovery if isinstance(estimator, Likelihood) else None,
    )
    recovered = request.recovery(origin.mdp, origin.features, origin.demonstrations)
    return _with_origin_of_sums(recovered, origin)


def updated_tasks(
    joint: JointRecovery, more: Sequence[Observed], *, forget: float | None, keep_rows: bool
) -> JointRecovery:
    """The recovery of everything seen so far; see `JointRecovery.updated`."""
    more = list(more)
    if len(more) != len(joint.recoveries):
        raise InvalidDemonstrations(
            f"there must be one part a task ({len(joint.recoveries)}); got {len(more)}"
        )
    origins = [
        _with_more(recovery, part, forget, keep_rows)
        for recovery, part in zip(joint.recoveries, more, strict=True)
    ]
    recovered = recover(list(map(_task, origins)), **_options(origins[0]))
    recoveries = map(_with_origin_of_sums, recovered.recoveries, origins)
    return replace(recovered, recoveries=tuple(recoveries))


def _updated_trips(recovery: TripsRecovery, more: Observed, forget: float | None) -> Any:
    """The recovery of all trips, from their rows: sums of trips are by goal and do not add up."""
    before = origin_of(recovery)
    if forget is not None:
        raise InvalidModel(
            "trips are brought up to date by their rows, which weigh alike; no forget"
        )
    if not isinstance(before.demonstrations, Demonstrations) or not isinstance(
        more, Demonstrations
    ):
        raise InvalidDemonstrations("trips must be in memory to be brought up to date")
    trips = recovery.trips(before.demonstrations + more)
    return recover(trips, estimator=before.estimator, throw=False)


def refreshed(recovery: Recovery) -> Any:
    """The recovery by a full pass over all rows; see `Recovery.refresh`."""
    origin = origin_of(recovery)
    if isinstance(recovery, TripsRecovery):
        return recovery  # always is one
    rows = _rows_in_memory(origin)
    pooled = reduce(Demonstrations.__add__, rows)
    recovered = recover(
        origin.mdp, origin.features, pooled, **_options(origin), allow_impossible=True
    )
    assert recovered.origin is not None
    return replace(
        recovered,
        origin=replace(recovered.origin, rows=rows, predictions=origin.predictions),
    )


def refreshed_tasks(joint: JointRecovery) -> JointRecovery:
    """The recovery by a full pass over all rows; see `JointRecovery.refresh`."""
    origins = [origin_of(recovery) for recovery in joint.recoveries]
    pooled = [
        replace(origin, demonstrations=reduce(Demonstrations.__add__, _rows_in_memory(origin)))
        for origin in origins
    ]
    return recover(list(map(_task, pooled)), **_options(origins[0]), allow_impossible=True)


def _options(origin: Origin) -> dict[str, Any]:
    """Options of `recover` by which the same is asked again."""
    return {"estimator": origin.estimator, "throw": False}


def _task(origin: Origin) -> Task:
    """The task that a recovery was made from."""
    return Task(origin.mdp, origin.features, cast("Demonstrations", origin.demonstrations))


def _with_more(recovery: Recovery, more: Observed, forget: float | None, keep_rows: bool) -> Origin:
    """The origin of the next recovery: sums of all that was seen, forgotten steps weighed less."""
    before = origin_of(recovery)
    mdp, features = before.mdp, before.features
    half_life = _half_life(before, forget, keep_rows)
    check_task(mdp, features, more)
    check_task(mdp, features, before.demonstrations)  # sums of sampling weights are no counts
    check_possible(mdp, more)
    new, old = tally_of(mdp, more), tally_of(mdp, before.demonstrations)
    if half_life is not None:
        old = old.scaled(0.5 ** (new.steps / half_life))
    return Origin(
        mdp=mdp,
        features=features,
        demonstrations=old + new,
        estimator=before.estimator,
        date=now(),
        last_pass=_last_pass(recovery, before),
        rows=(*_rows(before), more) if keep_rows else (),
        half_life=half_life,
        predictions=None if half_life is not None else _predicted(recovery, before, new.counts),
    )


def _predicted(recovery: Recovery, before: Origin, counts: np.ndarray) -> Predictions | None:
    """The predictions so far, and that of a batch [S, A] by the recovery before it.

    A small share is random, so that nothing is impossible; it shrinks with the steps that are
    known, and costs about as much as one number a fit.
    """
    if recovery.solution is None or (before.last_pass is not None and before.predictions is None):
        return None  # not all that was added was predicted
    random = before.mdp.choices / before.mdp.choices.sum(axis=1, keepdims=True).clip(1)
    share = RANDOM_STEPS / (RANDOM_STEPS + max(recovery.observed_steps, 1))
    chances = (1.0 - share) * recovery.behaviour + share * random
    with np.errstate(divide="ignore"):
        log_likelihood = float(np.where(counts > 0, counts * np.log(chances), 0.0).sum())
    past = before.predictions
    if past is not None:
        counts = past.counts + counts
        log_likelihood += past.log_likelihood
    return Predictions(counts=counts, log_likelihood=log_likelihood)


def _with_origin_of_sums(recovery: Recovery, origin: Origin) -> Recovery:
    """The recovery from sums, with findings on which of its numbers are not of all steps."""
    findings = [_pass_finding(origin), *_forgetting_findings(origin)]
    identification = recovery.identification.with_findings(findings)
    return replace(recovery, identification=identification, origin=origin)


def _rows_in_memory(origin: Origin) -> tuple[Demonstrations, ...]:
    """All rows, in parts."""
    rows = tuple(part for part in _rows(origin) if isinstance(part, Demonstrations))
    if len(rows) < len(_rows(origin)):
        raise InvalidDemonstrations(
            "refresh needs all rows in memory, and only sums were kept: updated(..., "
            "keep_rows=True) keeps them, or recover again from all demonstrations"
        )
    return rows


def with_origin(recovery: Recovery, origin: Origin | Recovery) -> Any:
    """The recovery that knows what it was made from; see `Recovery.with_origin`."""
    source = origin if isinstance(origin, Origin) else origin_of(origin)
    names = source.features.reward_names, source.features.cost_names
    if names != (recovery.reward_names, recovery.cost_names):
        raise InvalidModel(
            "an origin must have the features of the recovery, "
            f"{recovery.reward_names, recovery.cost_names}; got {names}"
        )
    steps = tally_of(source.mdp, source.demonstrations).steps
    if steps != recovery.observed_steps:
        raise InvalidDemonstrations(
            f"an origin must have the steps of the recovery, {recovery.observed_steps}; got {steps}"
        )
    return replace(recovery, origin=source)


def origin_of(recovery: Any) -> Origin:
    """What a recovery was made from; one line where it does not know."""
    origin = getattr(recovery, "origin", None)
    if origin is None or origin.estimator is None:
        raise InvalidModel(
            "this recovery does not know what it was made from, as one that was loaded or is of "
            "types: recover again, or give with_origin(...) what it was made from"
        )
    return origin


def problem_of(recovery: Recovery) -> LikelihoodProblem:
    """The likelihood that a recovery maximised, and its bounds."""
    origin = origin_of(recovery)
    options = origin.estimator
    if not isinstance(options, Likelihood) or options.lapses is not False or options.prior:
        raise InvalidModel(
            "this needs a recovery by Likelihood without lapses and prior; got "
            f"{recovery.estimator:.60}"
        )
    space = Design.of(origin.mdp, origin.features)
    chain = StepsChain.of(origin.mdp, space, origin.demonstrations)
    known = Bounds.of(space, options)
    return LikelihoodProblem.of(chain, known.lower, known.upper)


def _half_life(before: Origin, forget: float | None, keep_rows: bool) -> float | None:
    """Steps after which an old step weighs half: once asked for, always the same."""
    if forget is None:
        forget = before.half_life
    if forget is None:
        return None
    number(forget, "forget", "a number of steps above 0", lambda steps: 0.0 < steps < np.inf)
    if keep_rows:
        raise InvalidModel(
            "keep_rows must not be asked for with forget: a full pass weighs all rows alike"
        )
    return float(forget)


def _rows(origin: Origin) -> tuple[Observed, ...]:
    """All that was seen, in parts: of a recovery that nothing was added to, its demonstrations."""
    return origin.rows or (origin.demonstrations,)


def _last_pass(recovery: Recovery, origin: Origin) -> FullPass | None:
    """The last pass over rows: this recovery's, or of a recovery by sums the one before it."""
    if isinstance(origin.demonstrations, Tally):
        return origin.last_pass
    parameters, goodness = recovery.parameters, recovery.goodness
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = parameters.standard_errors / parameters.with_errors("fisher").standard_errors
    ratios = ratios[np.isfinite(ratios)]
    verdict = "untested" if goodness.absence else "fits"
    return FullPass(
        date=origin.date,
        steps=recovery.observed_steps,
        verdict=verdict if goodness.adequate else "misfit",
        p_value=goodness.p_value,
        errors=parameters.errors,
        stretch=float(ratios.max()) if len(ratios) else np.nan,
    )


def _pass_finding(origin: Origin) -> Finding:
    """Which numbers are of the last full pass, and when that was."""
    last = origin.last_pass
    steps = tally_of(origin.mdp, origin.demonstrations).steps
    by_sums = f"Brought up to date by sums of {steps} steps"
    if last is None:
        sentence = (
            f"{by_sums}: there was no pass over whole trajectories, so errors take steps as "
            "independent, and nothing was tested between trajectories or over time."
        )
        return Finding(sentence, Kind.ERRORS, number=0)
    ratio = ""
    if last.errors != "fisher" and last.stretch > 1.0:
        ratio = f", then up to {last.stretch:.2f} times those by steps"
    verdict = {
        "misfit": "that the model does not fit",
        "fits": "nothing against the model",
        "untested": "nothing, as there was no test",
    }[last.verdict]
    sentence = (
        f"{by_sums}; errors take steps as independent. Clustered errors{ratio}, and tests between "
        f"trajectories and over time are of the last full pass, {last.date} UTC, over {last.steps} "
        f"steps, which found {verdict}: refresh() makes a new one, where rows are kept."
    )
    return Finding(sentence, Kind.ERRORS, number=last.steps)


def _forgetting_findings(origin: Origin) -> Iterable[Finding]:
    """What forgetting does to the counts."""
    if origin.half_life is None:
        return
    steps = tally_of(origin.mdp, origin.demonstrations).counts.sum()
    yield Finding(
        f"Steps are forgotten with a half-life of {origin.half_life:g} steps: all that were seen "
        f"weigh as {steps:.0f}, and sums are no counts. Errors and tests take them for as many "
        "steps: errors are too wide, by up to 1.41 times, and tests too careful, never the other "
        "way.",
        Kind.ERRORS,
        number=float(steps),
    )
