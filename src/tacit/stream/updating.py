"""A recovery of all that was seen so far, from the one before and what was seen since.

Sums of demonstrations add up, and the likelihood asks for nothing else: its fit to the merged sums,
sought from where the last one ended, is that of all rows together. What needs whole trajectories
again is of the last full pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.data.tally import Tally, tally_of
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.inverse.expectations import check_task
from tacit.inverse.findings import Finding, Kind, check_possible
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.origin import FullPass, Origin, now
from tacit.inverse.recover import Request, recover
from tacit.model.arguments import number

if TYPE_CHECKING:
    from tacit.inverse.recovery import Recovery


def updated(recovery: Recovery, more: Observed, *, forget: float | None, keep_rows: bool) -> Any:
    """The recovery of everything seen so far; see `Recovery.updated`."""
    before = origin_of(recovery)
    mdp, features, estimator = before.mdp, before.features, before.estimator
    half_life = _half_life(before, forget, keep_rows)
    check_task(mdp, features, more)
    check_task(mdp, features, before.demonstrations)  # sums of sampling weights are no counts
    check_possible(mdp, more)
    new, old = tally_of(mdp, more), tally_of(mdp, before.demonstrations)
    if half_life is not None:
        old = old.scaled(0.5 ** (new.steps / half_life))
    merged = old + new
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
    found = request.recovery(mdp, features, merged)
    origin = Origin(
        mdp=mdp,
        features=features,
        demonstrations=merged,
        estimator=estimator,
        date=now(),
        last_pass=_last_pass(recovery, before),
        rows=(*_rows(before), more) if keep_rows else (),
        half_life=half_life,
    )
    findings = [_pass_finding(origin), *_forgetting_findings(origin)]
    known = found.identification.with_findings(findings)
    return replace(found, identification=known, origin=origin)


def refreshed(recovery: Recovery) -> Any:
    """The recovery by a full pass over all rows; see `Recovery.refresh`."""
    origin = origin_of(recovery)
    rows = [part for part in _rows(origin) if isinstance(part, Demonstrations)]
    if len(rows) < len(_rows(origin)):
        raise InvalidDemonstrations(
            "refresh needs all rows in memory, and only sums were kept: updated(..., "
            "keep_rows=True) keeps them, or recover again from all demonstrations"
        )
    seen = reduce(Demonstrations.__add__, rows)
    about = {"estimator": origin.estimator, "allow_impossible": True, "throw": False}
    found = recover(origin.mdp, origin.features, seen, **about)
    assert found.origin is not None
    return replace(found, origin=replace(found.origin, rows=tuple(rows)))


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
    """That of the recovery, where its demonstrations were rows; else the one that it knows of."""
    if isinstance(origin.demonstrations, Tally):
        return origin.last_pass
    found, fit = recovery.parameters, recovery.goodness
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = found.standard_errors / found.with_errors("fisher").standard_errors
    known = ratios[np.isfinite(ratios)]
    return FullPass(
        date=origin.date,
        steps=recovery.observed_steps,
        verdict="misfit" if not fit.adequate else "untested" if fit.absence else "fits",
        p_value=fit.p_value,
        errors=found.errors,
        stretch=float(known.max()) if len(known) else np.nan,
    )


def _pass_finding(origin: Origin) -> Finding:
    """Which numbers are of the last full pass, and when that was."""
    last = origin.last_pass
    steps = tally_of(origin.mdp, origin.demonstrations).steps
    by_sums = f"Brought up to date by sums of {steps} steps"
    if last is None:
        said = (
            f"{by_sums}: there was no pass over whole trajectories, so errors take steps as "
            "independent, and nothing was tested between trajectories or over time."
        )
        return Finding(said, Kind.ERRORS, number=0)
    wide = ""
    if last.errors != "fisher" and last.stretch > 1.0:
        wide = f", then up to {last.stretch:.2f} times those by steps"
    verdict = {
        "misfit": "that the model does not fit",
        "fits": "nothing against the model",
        "untested": "nothing, as there was no test",
    }[last.verdict]
    said = (
        f"{by_sums}; errors take steps as independent. Clustered errors{wide}, and tests between "
        f"trajectories and over time are of the last full pass, {last.date} UTC, over {last.steps} "
        f"steps, which found {verdict}: refresh() makes a new one, where rows are kept."
    )
    return Finding(said, Kind.ERRORS, number=last.steps)


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
