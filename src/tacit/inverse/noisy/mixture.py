"""Several kinds of demonstrators in one file: `Mixture`, and what it finds.

Every trajectory is of one type, nobody knows which. Types, shares and memberships are found by EM
(`em.py`). The errors of a type count that memberships are not known: the information that this
takes away is subtracted (Louis 1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.data.tally import Tally, random_loss
from tacit.engine.progress import unwatched
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.inference.activity import Verdict
from tacit.inverse.assembly import recovery
from tacit.inverse.diagnostics import Identification, untested
from tacit.inverse.expectations import check_task
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.noisy.counted import uncounted_findings
from tacit.inverse.noisy.em import Kinds, Search, Units, climb, lost_information, search
from tacit.inverse.noisy.evidence import evidence_of
from tacit.inverse.noisy.likelihood import Likelihood, estimate_of_steps
from tacit.inverse.noisy.types import (
    COMPARED,
    constraint_tests,
    degrees,
    schwarz,
    share_intervals,
    type_findings,
)
from tacit.inverse.recovery import (
    History,
    Recovery,
    RecoveryCertificate,
    RecoveryStatus,
    Saved,
    delivered,
    status_of,
    worst_of,
)
from tacit.inverse.sets import unidentified
from tacit.inverse.standardised import shown
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain, coordinates
from tacit.model.arguments import read_only
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, kw_only=True)
class MixtureRecovery(Saved):
    """Several types of demonstrators, what each wants and refuses, and who is of which.

    Attributes:
        types: one `Recovery` each, the most frequent first. Their likelihoods are those of the
            steps weighted by membership; their errors count that memberships are not known.
        shares: [T] of the trajectories.
        share_intervals: [T, 2].
        membership: [E, T] chances that each trajectory is of each type.
        log_likelihood: of all observed actions, each trajectory of one type.
        null_log_likelihood: the same of actions at random.
        observed_steps: number of observed actions.
        degrees: number of free coefficients of all types and of free shares.
        tried: [M] numbers of types that were tried.
        criteria: [M] Schwarz's criterion of each; the smallest was taken.
        status: how the recovery ended, derived from the certificate.
        certificate: the largest entry of the gradient of the likelihood that no bound holds back,
            the gain of the last round as change, and the types' feature gaps, root mean square.
        history: log-likelihood, round after round of EM.
        identification: the findings; every number is known in the types.
        estimator: the call that made it.
    """

    types: tuple[Recovery, ...]
    shares: np.ndarray
    share_intervals: np.ndarray
    membership: np.ndarray
    log_likelihood: float
    null_log_likelihood: float
    observed_steps: int
    degrees: int
    tried: np.ndarray
    criteria: np.ndarray
    status: RecoveryStatus
    certificate: RecoveryCertificate
    history: History
    identification: Identification
    estimator: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))
        for name in ("shares", "share_intervals", "membership", "tried", "criteria"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name))))

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2.0 * self.degrees - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return schwarz(self.degrees, self.log_likelihood, self.observed_steps)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about all types together."""
        return self.identification.findings

    @property
    def assigned(self) -> np.ndarray:
        """[E] the likeliest type of each trajectory."""
        return self.membership.argmax(axis=1)

    @cached_property
    def standardised(self) -> MixtureRecovery:
        """The same, its types about features divided by their standard deviations."""
        return replace(self, types=[one.standardised for one in self.types])

    def plot(self, *, raw_units: bool = False) -> Figure:
        """One figure of the shares, weights and prices of all types, beside each other."""
        from tacit.show.plot import overview
        from tacit.show.tables import Estimate

        names = [f"type {k} ({share:.0%})" for k, share in enumerate(self.shares)]
        ends = zip(self.shares.tolist(), *self.share_intervals.T.tolist(), strict=True)
        shares = {name: Estimate(*numbers) for name, numbers in zip(names, ends, strict=True)}
        types = shown(self, raw_units=raw_units).types
        return overview(dict(zip(names, types, strict=True)), shares=shares)

    def __repr__(self) -> str:
        shares = np.array2string(self.shares, precision=3, threshold=6)
        return f"MixtureRecovery({self.status.name}, types={len(self.types)}, shares={shares})"


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Several types of noisy experts, by maximum likelihood; each trajectory is of one of them.

    Attributes:
        types: how many; None takes the number with the smallest BIC.
        most: types tried at most, where the number is not given.
        free_reward: let reward weights take either sign.
        level: of the test whether a constraint is active in a type; 1 keeps every constraint.
        starts: of EM; half group trajectories by their scores, half deal them out at random.
        tolerance: gain (nats) still to come at which EM has converged.
        max_rounds: most rounds of EM.
        seed: of the starts and of the simulated laws.
    """

    types: int | None = 2
    most: int = 4
    free_reward: bool = False
    level: float = 0.05
    starts: int = 8
    tolerance: float = 1e-6
    max_rounds: int = 500
    seed: int = 0

    def check(self) -> None:
        """Raises `InvalidModel` unless the options make sense."""
        for name, least in (("types", 1), ("most", 1), ("starts", 1), ("max_rounds", 1)):
            given = getattr(self, name)
            if name == "types" and given is None:
                continue
            if isinstance(given, bool) or not isinstance(given, int) or given < least:
                raise InvalidModel(f"{name} must be an integer, {least} or more; got {given!r:.60}")
        if not 0 < self.level <= 1 or not self.tolerance > 0:
            raise InvalidModel(
                "level must be in (0, 1] and tolerance positive; "
                f"got {self.level}, {self.tolerance}"
            )

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> MixtureRecovery:
        """The types under which the observed actions are most likely, each with its recovery."""
        self.check()
        check_task(mdp, features, demonstrations, in_memory=True)
        assert isinstance(demonstrations, Demonstrations)
        wanted = self.types or 1
        if demonstrations.episodes < max(wanted, 2):
            raise InvalidDemonstrations(
                f"a mixture of {self.types or 'several'} types needs at least {max(wanted, 2)} "
                f"trajectories; got {demonstrations.episodes}"
            )
        units = Units.trajectories(mdp, coordinates(mdp, features), demonstrations)
        with unwatched():  # hundreds of small fits: none is a stage of its own
            tried, criteria, found = self._search(units)
            mixture = _report(self, features, demonstrations, units, found, tried, criteria)
        return delivered(mixture, throw)

    @staticmethod
    def load(folder: str | Path) -> MixtureRecovery:
        """The `MixtureRecovery` saved in this folder."""
        return MixtureRecovery.load(folder)

    def _search(self, units: Units) -> tuple[np.ndarray, np.ndarray, Kinds]:
        """[M] numbers of types tried, [M] their BIC, and the types of the smallest, at rest."""
        options = Search(self.free_reward)
        pooled = maximum(units.whole, replace(options, max_steps=300))
        most = min(self.most, len(units))
        numbers = sorted({1, self.types}) if self.types else list(range(1, most + 1))
        enough = max(COMPARED, self.tolerance)
        sought = partial(search, units, options, pooled, starts=self.starts, seed=self.seed)
        found = [sought(n, rounds=self.max_rounds, tolerance=enough) for n in numbers]
        steps = int(units.whole.counts.sum())
        criteria = np.array([schwarz(degrees(units, t), t.log_likelihood, steps) for t in found])
        at = numbers.index(self.types) if self.types else int(np.argmin(criteria))
        best = found[at]
        if len(best.fits) > 1:
            left = max(self.max_rounds - len(best.trace), 1)
            best = climb(units, options, best, rounds=left, tolerance=self.tolerance).sorted()
        return np.array(numbers), criteria, best


def _report(
    options: Mixture,
    features: Features,
    demonstrations: Demonstrations,
    units: Units,
    full: Kinds,
    tried: np.ndarray,
    criteria: np.ndarray,
) -> MixtureRecovery:
    """The `MixtureRecovery` of these types."""
    whole, how = units.whole, Search(options.free_reward, max_steps=300)
    inner = Likelihood(options.free_reward, options.level, seed=options.seed)
    many = len(full.experts)
    if many == 1:
        kept, errors = full, np.zeros(1)
        recoveries = [inner.fit(whole.mdp, features, demonstrations, throw=False)]
    else:
        kept, verdicts = constraint_tests(
            units,
            full,
            Search(options.free_reward),
            level=options.level,
            rounds=options.max_rounds,
            seed=options.seed,
        )
        tops = [one.problem.upper for one in kept.experts]
        kept = climb(units, how, kept, rounds=2, tolerance=options.tolerance, upper=tops)
        kept = replace(kept, converged=full.converged)
        lost, errors = lost_information(units, kept)
        parts = [
            replace(part, lost=less)
            for part, less in zip(units.parts(kept.membership), lost, strict=True)
        ]
        recoveries = [
            _type_recovery(options, inner, features, demonstrations, kept, full, parts, verdicts, k)
            for k in range(many)
        ]
    slopes = [
        maximum(
            part, replace(how, max_steps=1), near=one, upper=one.problem.upper
        ).projected_gradient
        for part, one in zip(units.parts(kept.membership), kept.experts, strict=True)
    ]
    gaps = [one.certificate.feature_gap for one in recoveries]
    status = status_of(converged=kept.converged, proven=many == 1)
    given = options.types is not None
    findings = type_findings(kept, tried, criteria, given=given, starts=options.starts)
    if many > 1:
        said = (
            "Whether the types fit is tested trajectory by trajectory (checks.trajectory_fits, and "
            "the report): what is done where, over all of them, has no test of its own here."
        )
        findings.append(Finding(said))
    return MixtureRecovery(
        types=tuple(recoveries),
        shares=kept.shares,
        share_intervals=share_intervals(kept.shares, errors),
        membership=kept.membership,
        log_likelihood=kept.log_likelihood,
        null_log_likelihood=-random_loss(whole.counts, whole.mdp.choices),
        observed_steps=int(whole.counts.sum()),
        degrees=degrees(units, kept),
        tried=tried,
        criteria=criteria,
        status=worst_of([status, *(one.status for one in recoveries)]),
        certificate=RecoveryCertificate(
            feature_gap=float(np.sqrt(np.mean(np.square(gaps)))),
            projected_gradient=max(slopes),
            weight_change=kept.trace[-1] - kept.trace[-2] if len(kept.trace) > 1 else 0.0,
        ),
        history=History({"log_likelihood": list(kept.trace)}),
        identification=unidentified(np.empty(0), [], active=np.zeros(0, bool), findings=findings),
        estimator=repr(options),
    )


def _type_recovery(
    options: Mixture,
    inner: Likelihood,
    features: Features,
    demonstrations: Demonstrations,
    kept: Kinds,
    full: Kinds,
    parts: Sequence[StepsChain],
    verdicts: Sequence[Verdict],
    k: int,
) -> Recovery:
    """The `Recovery` of one type: weighted steps, beside the trajectories likeliest its own."""
    mdp = parts[k].mdp
    own = kept.membership.argmax(axis=1) == k
    # A type that is nobody's likeliest has no trajectory to be compared with.
    nobody = replace(demonstrations, partial=np.ones(demonstrations.episodes, bool))
    tally = Tally.of(mdp, demonstrations.select(own) if own.any() else nobody)
    steps = replace(parts[k], tally=tally)

    def about(expert: Fit) -> Fit:
        return replace(expert, problem=expert.problem.with_chains([steps]))

    wide = about(full.experts[k])
    found = estimate_of_steps(
        inner,
        features,
        tally,
        wide=evidence_of([tally], wide, inner.max_steps, counted=False),
        kept=wide if kept is full else about(kept.experts[k]),
        verdict=verdicts[k],
        goodness=untested("which trajectories are of this type is not known for certain"),
    )
    said = (
        "Which trajectories are of this type is not known for certain; the standard errors count "
        "that, and treat steps as independent."
    )
    findings = [one for one in found.findings if one.kind is not Kind.ERRORS]
    findings.append(Finding(said, Kind.ERRORS))
    findings += uncounted_findings(
        mdp, "they move whose a trajectory is, which no sum over its steps tells"
    )
    found = replace(found, proven=False, findings=findings)
    return recovery(f"{options!r}, type {k} of {len(parts)}", mdp, features, tally, found)
