"""Several kinds of demonstrators in one file: `Mixture`, and what it finds.

Every trajectory is of one type, nobody knows which. Types, shares and memberships are the maximum
of one likelihood (`likelihood/kinds.py`), and so are their errors, intervals and tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from tacit.data.observed import Observed
from tacit.engine.progress import unwatched
from tacit.errors import InvalidDemonstrations
from tacit.estimators.kinds import (
    KindsOptions,
    KindsRecovery,
    mixing_errors,
    report_of,
    several_kinds,
)
from tacit.estimators.likelihood import maximise
from tacit.estimators.setting import Setting, StepsSetting
from tacit.estimators.types import (
    degrees,
    kinds_of,
    schwarz,
    search,
    share_intervals,
    type_findings,
)
from tacit.inference.diagnostics import Identification
from tacit.inference.expectations import check_task
from tacit.inference.findings import Finding
from tacit.likelihood.kinds import log_likelihood
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import Label, Range, maximum
from tacit.model.arguments import read_only
from tacit.model.features import Ridge
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.recovery import (
    History,
    Recovery,
    RecoveryCertificate,
    RecoveryStatus,
    delivered,
)

if TYPE_CHECKING:
    from tacit.estimators.trips.world import Trips


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MixtureRecovery(KindsRecovery):
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
            and the types' feature gaps, root mean square.
        history: log-likelihood of one type, of the best start after a few steps, and at the end.
        identification: the findings; every number is known in the types.
        estimator: the call that made it.
    """

    kind: ClassVar[str] = "type"
    what: ClassVar[str] = "trajectories"

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
    def parts(self) -> tuple[Recovery, ...]:
        """The types."""
        return self.types

    def with_parts(self, parts: Sequence[Recovery]) -> Self:
        """The same with other recoveries of its types."""
        return replace(self, types=tuple(parts))


@dataclass(frozen=True, kw_only=True)
class Mixture(KindsOptions):
    """Several types of noisy experts, by maximum likelihood; each trajectory is of one of them.

    Attributes:
        types: how many; None takes the number with the smallest BIC.
        most: types tried at most, where the number is not given.
        free_reward: let reward weights take either sign.
        level: of the test whether a constraint is active in a type; 1 keeps every constraint.
        starts: of the search; half group trajectories by their scores, half deal them out at
            random.
        tolerance: projected gradient to reach, relative to the number of steps.
        max_rounds: most evaluations of the likelihood, each search.
        seed: of the starts and of the simulated laws.
        prior: `tacit.features.Ridge` of a given strength, on the coefficients of every type; None
            for none.
        bounds: {coefficient: (least, largest)}, of every type, as in `Likelihood`.
        fixed: {coefficient: value}, those that are known beforehand and the same in every type.
        start: {coefficient: value}, where to begin the search for all trajectories together.
        temperature: the noise of every type where it is known, as in `Likelihood`.
    """

    noun: ClassVar[str] = "a mixture"
    kind: ClassVar[str] = "type"

    types: int | None = 2
    most: int = 4
    free_reward: bool = False
    level: float = 0.05
    starts: int = 8
    tolerance: float = 1e-9
    max_rounds: int = 500
    seed: int = 0
    prior: Ridge | None = field(default=None, repr=False)
    bounds: Mapping[Label, Range] = field(default_factory=dict, repr=False, hash=False)
    fixed: Mapping[Label, float] = field(default_factory=dict, repr=False, hash=False)
    start: Mapping[Label, float] = field(default_factory=dict, repr=False, hash=False)
    temperature: float | None = field(default=None, repr=False)

    def check(self) -> None:
        """Raises `InvalidModel` unless the options make sense."""
        self.check_options("types")

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> MixtureRecovery:
        """The types under which the observed actions are most likely, each with its recovery."""
        check_task(mdp, features, demonstrations, in_memory=True)
        setting = StepsSetting(mdp, features, demonstrations)
        return delivered(self._recovery(setting, "trajectories"), throw)

    def fit_trips(self, trips: Trips, *, throw: bool = True) -> MixtureRecovery:
        """The types of travellers under which the trips are most likely.

        Trips without a goal that are left out are of each type with the chance of its share.
        """
        from tacit.estimators.trips.traveller import TripsSetting

        setting = TripsSetting.of(trips)
        mixture = self._recovery(setting, "trips")
        kept, many = np.unique(setting.journeys.trips), trips.demonstrations.episodes
        membership = np.tile(mixture.shares, (many, 1))
        membership[kept] = mixture.membership
        return delivered(replace(mixture, membership=membership), throw)

    def _recovery(self, setting: Setting, what: str) -> MixtureRecovery:
        """The `MixtureRecovery` of episodes, which are called so."""
        self.check()
        units, least = setting.episode_units(self.of_one), max(self.types or 1, 2)
        if len(units) < least:
            raise InvalidDemonstrations(
                f"a mixture of {self.types or 'several'} types needs at least {least} {what}; "
                f"got {len(units)}"
            )
        with unwatched():  # hundreds of small fits: none is a stage of its own
            return _mixture_of(self, units, self._search(units), setting)

    @staticmethod
    def load(folder: str | Path) -> MixtureRecovery:
        """The `MixtureRecovery` saved in this folder."""
        return MixtureRecovery.load(folder)

    def _search(self, units: Any) -> Searched:
        """The fits of all numbers of types that are tried."""
        whole, options = replace(units.whole, ridge=self.strength), self.of_one
        pooled = self.knowing(maximum(whole, options))
        most = min(self.most, len(units))
        numbers = sorted({1, self.types}) if self.types else list(range(1, most + 1))
        about = {"starts": self.starts, "seed": self.seed, "prior": self.strength}
        fits = [
            pooled if n == 1 else self.knowing(search(units, options, pooled, n, **about))
            for n in numbers
        ]
        steps = int(whole.steps)
        criteria = np.array([schwarz(degrees(one), log_likelihood(one), steps) for one in fits])
        at = numbers.index(self.types) if self.types else int(np.argmin(criteria))
        return Searched(np.array(numbers), criteria, pooled, fits[at])


class Searched(NamedTuple):
    """What the search for types found."""

    tried: np.ndarray  # [M] numbers of types
    criteria: np.ndarray  # [M] their BIC
    pooled: Fit  # of one type
    best: Fit  # of the number that was asked for, or has the smallest BIC


def _mixture_of(options: Mixture, units: Any, found: Searched, setting: Setting) -> MixtureRecovery:
    """The `MixtureRecovery` of these types."""
    whole, inner, reduced_fit, many = units.whole, options.of_one, found.best, kinds_of(found.best)
    shares, membership, errors = np.ones(1), np.ones((len(units), 1)), np.zeros(1)
    findings = list[Finding]()
    if many == 1:
        types = [maximise(inner, setting)]
    else:
        types, reduced = report_of(options, setting, found.best, taken="steps")
        reduced_fit = reduced.fitted
        shares, membership = reduced_fit.parts[0].shares, reduced_fit.parts[0].membership.T
        errors = mixing_errors(reduced)
        said = (
            "Whether the types fit is tested trajectory by trajectory (checks.trajectory_fits, and "
            "the report): what is done where, over all of them, has no test of its own here."
        )
        findings.append(Finding(said))
    about = {"given": options.types is not None, "starts": options.starts}
    findings = type_findings(reduced_fit, found.tried, found.criteria, **about) + findings
    fits = (found.pooled, found.best, reduced_fit)[: 1 + 2 * (many > 1)]
    return several_kinds(
        MixtureRecovery,
        options,
        types,
        fits,
        findings,
        types=tuple(types),
        shares=shares,
        share_intervals=share_intervals(shares, errors),
        membership=membership,
        null_log_likelihood=-whole.at_random,
        observed_steps=int(whole.steps),
        tried=found.tried,
        criteria=found.criteria,
    )
