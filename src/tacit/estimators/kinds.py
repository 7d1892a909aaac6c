"""What types of demonstrators and intentions that switch have in common: options and the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from tacit.errors import InvalidModel
from tacit.estimators.assembly import several
from tacit.estimators.estimate import estimate_of
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.setting import Setting
from tacit.estimators.types import degrees
from tacit.inference.activity import Verdict
from tacit.inference.diagnostics import untested
from tacit.inference.evidence import Evidence, evidence_of, score_law
from tacit.inference.findings import Finding, Kind
from tacit.inference.idle_constraints import without_idle_prices
from tacit.inference.information import described
from tacit.inference.parameters import MOVED, Parameters, together
from tacit.inference.sets import unidentified
from tacit.inference.standardised import shown
from tacit.likelihood.kinds import log_likelihood
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import Label, Range, within_temperature
from tacit.model.features import Ridge, Sparse
from tacit.recovery import History, Recovery, Several

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Mixed = TypeVar("Mixed", bound="KindsRecovery")


class KindsRecovery(Several):
    """Several kinds of demonstrators, or intentions of one, each with a recovery of its own.

    Attributes:
        kind: what one of them is called.
        what: what they have shares of.
    """

    kind: ClassVar[str]
    what: ClassVar[str]

    shares: np.ndarray
    share_intervals: np.ndarray
    membership: np.ndarray
    tried: np.ndarray
    criteria: np.ndarray
    null_log_likelihood: float
    history: History
    estimator: str

    @cached_property
    def parameters(self) -> Parameters:
        """The coefficients of every kind, one after the other."""
        return together([one.parameters for one in self.parts], self.kind)

    @property
    def assigned(self) -> np.ndarray:
        """[E] the likeliest kind of each trajectory."""
        return self.membership.argmax(axis=1)

    @cached_property
    def standardised(self) -> Self:
        """The same about features divided by their standard deviations."""
        return self.with_parts([one.standardised for one in self.parts])

    def plot(self, *, raw_units: bool = False) -> Figure:
        """One figure of the shares, weights and prices of all kinds, beside each other."""
        from tacit.show.plot import overview
        from tacit.show.tables import IntervalEstimate

        names = [f"{self.kind} {k} ({share:.0%})" for k, share in enumerate(self.shares)]
        ends = zip(self.shares.tolist(), *self.share_intervals.T.tolist(), strict=True)
        shares = {
            name: IntervalEstimate(*numbers) for name, numbers in zip(names, ends, strict=True)
        }
        parts = shown(self, raw_units=raw_units).parts
        each = dict(zip(names, parts, strict=True))
        return overview(each, shares=shares, shared=f"share of the {self.what}")

    def __repr__(self) -> str:
        shares = np.array2string(self.shares, precision=3, threshold=6)
        called = f"{type(self).__name__}({self.status.name}"
        return f"{called}, {self.kind}s={len(self.parts)}, shares={shares})"


class KindsOptions:
    """The options that estimators of several kinds have in common; each documents its own.

    Attributes:
        noun: what the estimator is of, as messages call it.
        kind: what one of the kinds is called.
    """

    noun: ClassVar[str]
    kind: ClassVar[str]

    free_reward: bool
    level: float
    starts: int
    tolerance: float
    max_rounds: int
    seed: int
    prior: Ridge | None
    bounds: Mapping[Label, Range]
    fixed: Mapping[Label, float]
    start: Mapping[Label, float]
    temperature: float | None

    def check_options(self, number: str) -> None:
        """Raises `InvalidModel` unless they make sense; `number` is the field of that of kinds."""
        for name, least in ((number, 1), ("most", 1), ("starts", 1), ("max_rounds", 1)):
            given = getattr(self, name)
            if name == number and given is None:
                continue
            if isinstance(given, bool) or not isinstance(given, int) or given < least:
                raise InvalidModel(f"{name} must be an integer, {least} or more; got {given!r:.60}")
        self.of_one.check()
        if isinstance(self.prior, Sparse):
            raise InvalidModel(
                f"{self.noun} must be without a sparse prior: it compares sets of features for the "
                f"same demonstrators, and with other features trajectories are of other "
                f"{self.kind}s"
            )
        if self.prior is not None and self.strength == 0.0:
            raise InvalidModel(
                f"{self.noun} must have the strength of its prior, as in Ridge(1.0); got "
                f"{self.prior!r}"
            )

    @property
    def strength(self) -> float:
        """Of the prior; 0 without one."""
        return float(getattr(self.prior, "strength", None) or 0.0)

    @property
    def of_one(self) -> Likelihood:
        """The options of the fit of one kind."""
        return Likelihood(
            self.free_reward,
            self.level,
            tolerance=self.tolerance,
            max_steps=self.max_rounds,
            seed=self.seed,
            prior=self.prior,
            bounds=self.bounds,
            fixed=self.fixed,
            start=self.start,
            temperature=self.temperature,
        )

    def knowing(self, fitted: Fit) -> Fit:
        """The fit with the temperature that is known, if one is."""
        if self.temperature is None:
            return fitted
        return within_temperature(fitted, self.temperature, self.max_rounds)


class KindsReport(NamedTuple):
    """What a fit of several kinds says of each."""

    recoveries: list[Recovery]
    evidence: Evidence  # of the fit without prices that are not shown to be needed

    @property
    def fitted(self) -> Fit:
        """The fit without prices that are not shown to be needed, and without a ridge."""
        return self.evidence.unregularised


def report_of(
    options: KindsOptions, setting: Setting, best: Fit, *, taken: str, robust: bool = False
) -> KindsReport:
    """The `KindsReport` of a fit.

    Args:
        options: of the estimator.
        setting: what was seen.
        best: the fit.
        taken: what errors take for independent.
        robust: whether errors are those of the best approximation, by how sequences scatter.
    """
    seen, max_steps = [setting.seen], options.max_rounds
    full = evidence_of(seen, best, max_steps, counted=False, robust=robust)
    about = {"size": int(best.free.sum()), "counted": False, "robust": robust}
    reduced_fit, verdicts = without_idle_prices(
        best,
        lambda less: score_law(less, seen, **about),
        level=options.level,
        steps=best.problem.chains[0].steps,
        max_steps=max_steps,
        seed=options.seed,
    )
    reduced = full
    if reduced_fit is not best:
        reduced = evidence_of(seen, reduced_fit, max_steps, counted=False, robust=robust)
    recoveries = [
        _recovery(options, setting, full, reduced, verdict, k, taken)
        for k, verdict in enumerate(verdicts)
    ]
    return KindsReport(recoveries, reduced)


def _recovery(
    options: KindsOptions,
    setting: Setting,
    full: Evidence,
    reduced: Evidence,
    verdict: Verdict,
    k: int,
    taken: str,
) -> Recovery:
    """The `Recovery` of one kind."""
    own = setting.of_type(reduced, k)
    kind, what = options.kind, "steps" if own_steps(reduced) else "trajectories"
    goodness = untested(f"which {what} are of this {kind} is not known for certain")
    about = {"full": full, "reduced": reduced, "verdict": verdict, "goodness": goodness}
    found = estimate_of(options.of_one, own, **about, e=k)
    errors = Finding(
        f"Which {what} are of this {kind} is not known for certain; the standard errors count "
        f"that, and treat {taken} as independent.",
        Kind.ERRORS,
    )
    found = replace(found, findings=[*_without_errors(found.findings), errors])
    called = f"{described(options)}, {kind} {k} of {len(reduced.chains)}"
    return own.recovery(called, found, reduced, k)


def own_steps(evidence: Evidence) -> bool:
    """Whether kinds are those of single steps, one after the other."""
    return bool(evidence.fitted.problem.chains[0].sequences.tables)


def _without_errors(findings: Iterable[Finding]) -> list[Finding]:
    return [one for one in findings if one.kind is not Kind.ERRORS]


def mixing_errors(reduced: Evidence) -> np.ndarray:
    """[n] standard errors of shares and chances to switch; infinite where nothing is known."""
    found, own = reduced.errors, reduced.fitted.problem.ties.rows[-1]
    spread = np.sqrt(np.maximum(np.diagonal(found.covariance)[own], 0.0))
    lost = np.abs(found.blind[:, own]).max(axis=0, initial=0.0) > MOVED
    return np.where(lost | bool(reduced.absence), np.inf, spread)


def several_kinds(
    kind: type[Mixed],
    options: KindsOptions,
    parts: Sequence[Recovery],
    fits: Sequence[Fit],
    findings: Sequence[Finding],
    **own: Any,
) -> Mixed:
    """The result of these kinds.

    Args:
        kind: its type.
        options: that were asked for.
        parts: the recoveries of the kinds.
        fits: of one kind, and where there are more, of all of them, and less idle prices.
        findings: on all kinds.
        own: the fields that only this kind of result has.
    """
    likely, last = [log_likelihood(one) for one in fits], fits[-1]
    return several(
        kind,
        parts,
        last,
        converged=last.converged,
        proven=len(parts) == 1,
        history={"log_likelihood": likely},
        log_likelihood=likely[-1],
        degrees=degrees(last),
        identification=unidentified(np.empty(0), [], active=np.zeros(0, bool), findings=findings),
        estimator=described(options),
        **own,
    )
