"""Rows of a log, as the one report of a noisy expert asks for them, and what is made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from tacit.data.measurements import Measurements
from tacit.dynamics.projected import Projected
from tacit.errors import InvalidModel
from tacit.estimators.assembly import Estimate, recovery
from tacit.estimators.estimate import point_of
from tacit.estimators.likelihood import Likelihood, maximise
from tacit.estimators.logged.choice import BasisChoice, choice_of
from tacit.estimators.logged.choices import regression_errors
from tacit.estimators.logged.doubts import (
    basis_findings,
    declared_findings,
    price_findings,
    support_findings,
    untold_findings,
)
from tacit.estimators.logged.goodness import logged_goodness
from tacit.estimators.logged.recovery import LoggedRecovery
from tacit.estimators.logged.world import LoggedRegression, LoggedTask
from tacit.inference.diagnostics import Goodness
from tacit.inference.evidence import Evidence
from tacit.inference.findings import Finding, Kind, feature_findings
from tacit.likelihood.dynamic import DynamicsChain
from tacit.likelihood.kinds import StepUnits
from tacit.model.features import Ridge, Smooth
from tacit.model.objective import Features
from tacit.recovery import delivered, warned


def recover_logged(
    task: LoggedTask, *, estimator: Likelihood | None = None, throw: bool = True
) -> LoggedRecovery:
    """The `LoggedRecovery` under which the actions in a logged world are most likely.

    Args:
        task: the world, its features and its rows.
        estimator: a `Likelihood` for its options; None for one with rewards of either sign.
        throw: raise `NotConverged` instead of returning a recovery that says so.
    """
    if estimator is not None and not isinstance(estimator, Likelihood):
        raise InvalidModel(
            "a logged world is recovered by Likelihood: errors of what is learnt of the world move "
            "which steps are of one type, and sums of features over time, in ways that are not "
            f"counted; got {type(estimator).__name__}"
        )
    options = Likelihood(free_reward=True) if estimator is None else estimator
    options.check()
    if isinstance(options.prior, Ridge | Smooth):
        raise InvalidModel(
            "a logged world is recovered without prior: its scores are corrected for a ridge of "
            f"their own; got prior={options.prior!r:.60}"
        )
    choice, chain = choice_of(task, options)
    setting = LoggedSetting(task.with_basis(choice.basis), choice=choice, ready=chain)
    if estimator is None:
        said = "Likelihood was picked, with rewards of either sign: rows have no other estimator."
        setting = replace(setting, known=(Finding(said, Kind.CHOICE),))
    found = warned(maximise(options, cast("Any", setting)))
    return delivered(cast("LoggedRecovery", found), throw)


@dataclass(frozen=True, eq=False)
class LoggedSetting:
    """Rows of a log on a basis that is settled: a `Setting`.

    Attributes:
        task: the world, features and rows.
        known: what is to be said beforehand.
        choice: of the basis; None where there is none.
        ready: the likelihood on it, after the orthogonal step; None likewise.
    """

    task: LoggedTask
    known: tuple[Finding, ...] = ()
    choice: BasisChoice | None = None
    ready: DynamicsChain | None = None

    counted = True

    @property
    def mdp(self) -> Projected:
        """The rows as sites."""
        return cast("Projected", self._plain.dynamics)

    @property
    def features(self) -> Features:
        """Of all rows."""
        return self.task.tables

    @property
    def seen(self) -> Measurements:
        """The rows."""
        return self.task.demonstrations

    @cached_property
    def _plain(self) -> DynamicsChain:
        assert self.ready is not None
        return replace(self.ready, tilt=None, near=None)

    def chain(self, options: Likelihood) -> DynamicsChain:
        """The likelihood of all steps, after the orthogonal step that takes off what a ridge does.

        With lapses or types steps are not all of one kind: then without.
        """
        assert self.ready is not None
        return self.ready if options.lapses is False else self._plain

    def step_units(self, chain: DynamicsChain) -> StepUnits:
        """Single steps."""
        return StepUnits.steps(cast("Any", chain))

    def episode_units(self, options: Likelihood) -> StepUnits:
        """Whole episodes."""
        whole, table = cast("Any", self._plain), cast("Any", self._plain.seen)
        return StepUnits(table=table, repeats=np.ones(self._plain.episodes), whole=whole)

    def goodness(self, options: Likelihood, evidence: Evidence) -> Goodness:
        """Whether the model fits, at a fit that converged."""
        return logged_goodness(evidence, self.task, options.level, options.seed)

    def point(self, evidence: Evidence, e: int = 0) -> Estimate:
        """The numbers of chain e of a fit; there are no states to have tables of."""
        own, gauge = evidence.chains[e], evidence.gauge(e)
        likely = own.chain.log_likelihood(own.part)
        return replace(
            point_of(self.features, evidence.fitted, gauge),
            objective=None,
            budgets=gauge.budgets,
            counts=own.chain.counts,
            log_likelihood=likely,
            null_log_likelihood=-own.chain.steps * float(np.log(self.task.actions)),
        )

    def findings(self, evidence: Evidence, e: int = 0) -> list[Finding]:
        """What of features, rows and optimum is to be known."""
        said = (
            "The likelihood of logged rows is not certain to be convex: the optimum is a local "
            "one, sought from where two steps of regression lead."
        )
        assert self.choice is not None
        dynamics = evidence.dynamics[e] if evidence.dynamics else None
        return [
            *self.known,
            *declared_findings(self.task),
            *self.choice.findings(),
            *basis_findings(self.task, self.choice.basis),
            *support_findings(self.task, self.choice.basis),
            *untold_findings(evidence.chains[e].chain),
            *([] if dynamics is None else price_findings(dynamics.price)),
            *feature_findings(self.features, self.mdp),
            Finding(said, Kind.LOCAL_OPTIMUM),
        ]

    def with_lapses(self, found: Estimate, chain: DynamicsChain) -> Estimate:
        """The estimate, which says that errors take the dynamics for known."""
        said = (
            "With lapses, standard errors and intervals take the dynamics for known, and the bias "
            "of the ridge is not corrected: they are too small."
        )
        return replace(found, findings=(*found.findings, Finding(said, Kind.ERRORS, number=0.0)))

    def of_type(self, told: Evidence, k: int) -> LoggedSetting:
        """The same: types are not sought where dynamics are only logged."""
        return self

    def recovery(self, called: str, found: Estimate, told: Evidence, e: int = 0) -> LoggedRecovery:
        """The answer, `called` by the estimator's call."""
        assert self.choice is not None
        own, task = told.chains[e], self.task
        solved, chain = own.part.solved, own.chain
        errors = regression_errors(told, e)
        slopes = chain.dynamics.coefficient_slopes(solved, chain.jacobian) * chain.space.scales
        regression = LoggedRegression(
            basis=self.choice.basis,
            inputs=task.inputs,
            coefficients=solved.unknowns,
            reference=told.fitted.x(e) / chain.space.scales,
            moves=np.concatenate([slopes, errors.spread], axis=1),
            shared=errors.shared,
        )
        answer: Any = partial(
            LoggedRecovery,
            world=task.mdp,
            features=task.row_features,
            actions=task.demonstrations.action_names,
            basis=self.choice,
            regression=regression,
        )
        return recovery(called, cast("Any", self.mdp), self.features, None, found, result=answer)
