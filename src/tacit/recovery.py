"""The answer of a recovery: what a demonstrator wants and refuses, and how far to trust it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel, NotConverged
from tacit.forward.solution import Solution
from tacit.inference.curves import Curve
from tacit.inference.diagnostics import LAZY, Goodness, Identification, untested
from tacit.inference.expectations import Blocks, Expectations, Spending
from tacit.inference.findings import LEVEL, Finding, Kind, chance
from tacit.inference.parameters import CONFIDENCE, Parameters
from tacit.inference.sets import HardConstraint, Lapses, unmeasured, weights_as_parameters
from tacit.inference.standardised import Standard, shown, standardised
from tacit.inference.tails import holm
from tacit.model.arguments import read_only
from tacit.model.objective import Objective

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.data.demonstrations import Demonstrations
    from tacit.data.observed import Observed
    from tacit.estimators.bootstrap import Replicates
    from tacit.estimators.caution import Caution
    from tacit.estimators.certified import PolicyCertificate
    from tacit.estimators.effects import Effects
    from tacit.estimators.whatif import Change, Counterfactual, Scenario
    from tacit.inference.action_chances import ChoiceModel, Prediction
    from tacit.inference.hypotheses import HypothesisTest
    from tacit.inference.origin import Origin
    from tacit.inference.quantities import Coefficients, Quantity
    from tacit.model.layout import Layout
    from tacit.model.mdp import MDP
    from tacit.model.objective import Features
    from tacit.stream.anytime import AnytimeSet, MoreNeeded

NO_PARAMETERS = unmeasured((), (), lower=0.0, absence="not set")
UNTESTED = untested("this estimator tests no fit")


class RecoveryStatus(Enum):
    """How a recovery ended. The value is the sentence shown to the user."""

    CONVERGED = "converged"
    NOT_CONVERGED = "stopped before the tolerance was met: the best point met so far is given"
    LOCAL_OPTIMUM = "converged to a local optimum; nothing proves that there is no better one"
    UNATTAINABLE = (
        "no policy has the feature expectations of the demonstrations; "
        "the closest attainable ones were matched"
    )
    UNEXPLAINED = (
        "no objective explains every step of an optimal expert: the one under which they fall "
        "short least is given"
    )
    EXPERT_DETERMINISTIC = (
        "the expert looks deterministic: no noisy expert explains the demonstrations best, "
        "and the point given depends on the ridge"
    )


BEST = RecoveryStatus.CONVERGED
WORST_FIRST = (
    RecoveryStatus.NOT_CONVERGED,
    RecoveryStatus.UNATTAINABLE,
    RecoveryStatus.UNEXPLAINED,
    RecoveryStatus.EXPERT_DETERMINISTIC,
    RecoveryStatus.LOCAL_OPTIMUM,
    BEST,
)


def status_of(
    *,
    converged: bool,
    unattainable: bool = False,
    unexplained: bool = False,
    deterministic: bool = False,
    proven: bool = True,
) -> RecoveryStatus:
    """How a recovery ended, whatever the estimator: the first of these facts that is bad.

    Args:
        converged: whether the certificate meets the tolerance.
        unattainable: whether no policy has the demonstrations' feature expectations.
        unexplained: whether an optimal expert could not have taken all the steps.
        deterministic: whether no noise is seen, so that a ridge was needed.
        proven: whether the optimum is proven to be the global one.
    """
    facts = (not converged, unattainable, unexplained, deterministic, not proven)
    return next((status for bad, status in zip(facts, WORST_FIRST, strict=False) if bad), BEST)


def worst_of(statuses: Iterable[RecoveryStatus]) -> RecoveryStatus:
    """The worst of several statuses."""
    return min(statuses, key=WORST_FIRST.index)


@dataclass(frozen=True)
class RecoveryCertificate:
    """Numbers that let anyone judge a recovery. NaN where the estimator has no such number.

    Attributes:
        feature_gap: distance of the recovered policy's feature expectations to the
            demonstrations', each map relative to its own size, root mean square over the maps.
        sampling_noise: what `feature_gap` would be, root mean square, for the demonstrator's own
            policy, from the standard errors over trajectories.
        truncation: bound on the part of `feature_gap` due to trajectories that were cut off.
        projected_gradient: largest entry of the gradient that no bound on the weights holds back.
        weight_change: what the stopping rule of the estimator measured, in L1 norm.
        objective_gap: bound on the distance of the estimator's loss to its global optimum.
    """

    feature_gap: float = np.nan
    sampling_noise: float = np.nan
    truncation: float = np.nan
    _: KW_ONLY
    projected_gradient: float = np.nan
    weight_change: float = np.nan
    objective_gap: float = np.nan

    @classmethod
    def of(
        cls, seen: Expectations | None, reached: Blocks, **numbers: float
    ) -> RecoveryCertificate:
        """The certificate of a policy with these feature expectations, and other fields."""
        if seen is None:
            return cls(**numbers)
        return cls(seen.gap(reached), seen.noise, seen.relative_truncation, **numbers)

    def __post_init__(self) -> None:
        for part in fields(self):  # NumPy's scalars print and save unlike Python's
            object.__setattr__(self, part.name, float(getattr(self, part.name)))


@dataclass(frozen=True, eq=False)
class History:
    """What happened on the way, one row an iteration: `history["feature_gap"]`.

    Attributes:
        columns: name -> [I] or [I, n]; every column has as many rows.
    """

    columns: Mapping[str, Any]

    def __post_init__(self) -> None:
        columns = {str(name): read_only(np.array(c)) for name, c in self.columns.items()}
        lengths = {name: len(column) for name, column in columns.items()}
        assert len(set(lengths.values())) <= 1, f"columns must be equally long; got {lengths}"
        object.__setattr__(self, "columns", columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.columns[name])

    def __len__(self) -> int:
        return max((len(np.asarray(column)) for column in self.columns.values()), default=0)


class Saved:
    """A result that a run folder keeps, and that says how it ended.

    It has parts: itself, or a `Recovery` for every task or type.
    """

    status: RecoveryStatus
    certificate: RecoveryCertificate
    log_likelihood: Any
    observed_steps: Any
    degrees: Any
    parts: Any

    @property
    def aic(self) -> float:
        """Akaike's criterion, smaller is better: 2 * coefficients - 2 * log-likelihood."""
        return 2.0 * self.degrees - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion: coefficients * log(steps) - 2 * log-likelihood."""
        return self.degrees * float(np.log(max(self.observed_steps, 1))) - 2.0 * self.log_likelihood

    def save(self, folder: str | Path) -> None:
        """Writes the run folder: `recovery.npz`, `history.parquet` and, last, `run.json`."""
        from tacit.folders.recoveries import save

        save(cast("Recovery", self), Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """What was saved in this folder, every array checked; of several tasks all of them."""
        from tacit.folders.recoveries import load

        return load(Path(folder), None if cls is Recovery else cls.__name__)

    def function(
        self,
        function: Callable[[Coefficients], npt.ArrayLike],
        *,
        confidence: float = CONFIDENCE,
        seed: int = 0,
    ) -> Quantity:
        """The `Quantity` that a function makes of the coefficients: `lambda c: c["a"] / c["b"]`.

        By the delta method, near a bound by a profile within it, and by draws where the function
        bends within its error.
        """
        from tacit.inference.quantities import function_of

        own = cast("Recovery", self).parameters
        return function_of(own, function, confidence=confidence, seed=seed)

    def test(self, hypothesis: str) -> HypothesisTest:
        """The test of linear equations: "road - water = 0", several with commas between them.

        Names that are not one word stand in `backticks`.
        """
        from tacit.inference.hypotheses import linear_test

        return linear_test(cast("Recovery", self).parameters, hypothesis)

    def compare_lr(self, restricted: Saved) -> HypothesisTest:
        """The likelihood ratio test of a restricted fit to the same steps."""
        from tacit.inference.hypotheses import likelihood_ratio

        return likelihood_ratio(cast("Recovery", self), cast("Recovery", restricted))

    def predict(
        self,
        at: npt.ArrayLike | None = None,
        goals: npt.ArrayLike | None = None,
        part: int | None = None,
        *,
        world: MDP | None = None,
        features: Features | None = None,
        confidence: float = CONFIDENCE,
        draws: int | None = None,
    ) -> Prediction:
        """The `Prediction` of what is done: the chances of all actions, with intervals.

        Args:
            at: [n] states; None for all in which there is a choice.
            goals: of trips, one for all places or [n].
            part: number of a type or a task; needed where there are several.
            world: to predict in; None for that of the demonstrations.
            features: in that world; None for those of the recovery.
            confidence: of the intervals.
            draws: how many, where log-odds bend within their errors; 0 for none, and no check.
        """
        from tacit.inference.action_chances import predict

        own = self.part(part)
        about = {"world": world, "features": features, "confidence": confidence, "draws": draws}
        return predict(own, at, goals, **about)

    def counterfactual(
        self,
        *,
        closed: npt.ArrayLike = (),
        prices: Mapping[int, float] | None = None,
        budgets: Mapping[int, float] | None = None,
        features: Features | None = None,
        world: MDP | None = None,
        part: int | None = None,
        confidence: float = CONFIDENCE,
        draws: int | None = None,
    ) -> Counterfactual:
        """What the demonstrator is expected to do after a change, each number with an interval.

        Constraints that are not named keep their prices. Trips keep their origins and goals.

        Args:
            closed: [n] states that nobody may enter, or [n, 2] pairs of state and action.
            prices: number of a constraint -> what its budget costs, in rewards of the gauge.
            budgets: number of a constraint -> its budget, which takes the price that it needs.
            features: as they are after the change; None for those of the recovery.
            world: as it is after the change; None for that of the demonstrations.
            part: number of a type or a task; needed where there are several.
            confidence: of the intervals.
            draws: how many, where a number bends within its error; 0 for none, and no check.
        """
        from tacit.estimators.whatif import DRAWS, Change, counterfactual

        change = Change(
            closed=closed,
            prices=prices or {},
            budgets=budgets or {},
            features=features,
            world=world,
        )
        number = DRAWS if draws is None else draws
        return counterfactual(self.part(part), change, confidence=confidence, draws=number)

    def marginal_effects(
        self,
        feature: str,
        at: npt.ArrayLike | None = None,
        *,
        part: int | None = None,
        confidence: float = CONFIDENCE,
        draws: int | None = None,
    ) -> Effects:
        """What changes for each unit that a feature grows by, each number with an interval.

        `recovery.marginal_effects("toll", at=[3])`: `.sums`, `.flows`, `.surplus`, `.chances`.

        Args:
            feature: name of a coefficient.
            at: where it grows: states [n], or pairs of state and action [n, 2]; None for all.
            part: number of a type or a task; needed where there are several.
            confidence: of the intervals.
            draws: how many, where a number bends within its error; 0 for none, and no check.
        """
        about = {"relative": False, "confidence": confidence, "draws": draws}
        return self._effects(feature, at, part, **about)

    def elasticities(
        self,
        feature: str,
        at: npt.ArrayLike | None = None,
        *,
        part: int | None = None,
        confidence: float = CONFIDENCE,
        draws: int | None = None,
    ) -> Effects:
        """By how many per cent what is done changes for each per cent that a feature grows by.

        Arguments are those of `marginal_effects`. A sum of the feature itself has 1 in it: what is
        used as before costs so much more.
        """
        about = {"relative": True, "confidence": confidence, "draws": draws}
        return self._effects(feature, at, part, **about)

    def _effects(
        self, feature: str, at: npt.ArrayLike | None, part: int | None, **about: Any
    ) -> Effects:
        from tacit.estimators.effects import effects
        from tacit.estimators.whatif import DRAWS

        about |= {"draws": DRAWS if about["draws"] is None else about["draws"]}
        return effects(self.part(part), feature, at, **about)

    def part(self, part: int | None = None) -> Recovery:
        """One type or task of several, by its number; the recovery itself where it is one."""
        parts: Sequence[Recovery] = self.parts
        if part is None and len(parts) > 1:
            raise InvalidModel(f"there are {len(parts)} parts: say which, part=0 or another")
        if not 0 <= (part or 0) < len(parts):
            raise InvalidModel(f"part must be a number from 0 to {len(parts) - 1}; got {part}")
        return parts[part or 0]

    def summary(self, layout: Layout | None = None, *, raw_units: bool = False) -> str:
        """The page a person reads first, as plain text; of types and tasks what is said of all.

        Weights and prices are of standardised features, or with `raw_units` as in the attributes.

        Args:
            layout: how states and actions are called.
            raw_units: show the numbers of the features as given.
        """
        from tacit.show.summary import summarise

        return summarise(shown(cast("Recovery", self), raw_units=raw_units), layout)

    def model_card(self, layout: Layout | None = None) -> str:
        """One page in Markdown for people who were not there.

        What it is, its data, what it assumes, what was found, whether it fits, and what it must not
        be used for: `Path("CARD.md").write_text(recovery.model_card())`.

        Args:
            layout: how states and actions are called.
        """
        from tacit.show.card import model_card

        return model_card(cast("Recovery", self), layout)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from tacit.show.html import recovery_html

        return recovery_html(cast("Recovery", self))


class Several(Saved):
    """Several recoveries that were found together, its parts, and what is said of all of them."""

    identification: Identification

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about all parts together."""
        return self.identification.findings

    def with_parts(self, parts: Sequence[Recovery]) -> Self:
        """The same with other recoveries for its parts."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class Recovery(Saved):
    """What a demonstrator wants and refuses, as far as the demonstrations tell.

    Weights are in the gauge: L1 norm 1 each. A constraint that does not restrain the demonstrator
    has multiplier 0, NaN weights and an infinite budget; its table in `objective` is 0.

    Attributes:
        reward_weights: [D] of the reward features.
        cost_weights: one [D_k] per constraint.
        multipliers: [K] price of each budget, in rewards of the gauge.
        budgets: [K] largest expected discounted cost.
        temperature: the demonstrator's noise, in rewards of the gauge; 0 for an optimal one.
        objective: the same as tables, to solve, compare and save.
        solution: of `objective`, with the estimator's own model.
        status: how the recovery ended, derived from the certificate.
        certificate: what the status rests on.
        history: the iterations.
        identification: how well each number is known, and the findings.
        estimator: the call that made it.
        reward_names: one name per reward feature.
        cost_names: one tuple of names per constraint.
        parameters: the model's own coefficients, with standard errors and tests.
        curves: those among the features, with their bands and tests.
        log_likelihood: of the observed actions under the recovered policy; NaN without a noise.
        null_log_likelihood: the same of actions at random.
        observed_steps: number of observed actions that the likelihoods are about.
        goodness: whether the model fits what was seen, and where it does not.
        lapses: the share of random steps, where the estimator allows for them; the policy of
            `solution` is that of the other steps.
        forbidden: what the demonstrator never does although its reward would have it done.
        undecided: what no demonstration does, and may or may not be forbidden.
        simplest: the fewest hard constraints that explain the demonstrations, by p-values that
            take all else for allowed; not named at any level.
        available: [S, A] bool, the actions of the world without what is forbidden and without the
            simplest explanation, that of `solution`; None where no hard constraint was sought.
        spending: what the demonstrator spends of each cost feature; None where that is not known.
        standard: the units of `standardised`; None where the features are not known.
        origin: world, features, demonstrations and estimator; None for a recovery that was loaded.
        replicates: recoveries of resampled data; None without a bootstrap, and where it was loaded.
    """

    reward_weights: np.ndarray
    cost_weights: Sequence[np.ndarray]
    multipliers: np.ndarray
    budgets: np.ndarray
    temperature: float
    objective: Objective
    solution: Solution
    status: RecoveryStatus
    certificate: RecoveryCertificate
    history: History
    identification: Identification
    estimator: str = ""
    reward_names: tuple[str, ...] = ()
    cost_names: tuple[tuple[str, ...], ...] = ()
    parameters: Parameters = NO_PARAMETERS
    curves: tuple[Curve, ...] = ()
    log_likelihood: float = np.nan
    null_log_likelihood: float = np.nan
    observed_steps: int = 0
    goodness: Goodness = UNTESTED
    lapses: Lapses | None = None
    forbidden: tuple[HardConstraint, ...] = ()
    undecided: tuple[HardConstraint, ...] = ()
    simplest: tuple[HardConstraint, ...] = ()
    available: np.ndarray | None = None
    spending: Spending | None = None
    standard: Standard | None = None
    origin: Origin | None = field(default=None, repr=False, metadata=LAZY)
    replicates: Replicates | None = field(default=None, repr=False, metadata=LAZY)

    def __post_init__(self) -> None:
        for name in ("reward_weights", "multipliers", "budgets"):
            array = np.array(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, read_only(array))
        weights = tuple(read_only(np.array(w, dtype=np.float64)) for w in self.cost_weights)
        object.__setattr__(self, "cost_weights", weights)
        names = self.reward_names or [
            f"reward feature {j}" for j in range(len(self.reward_weights))
        ]
        object.__setattr__(self, "reward_names", tuple(names))
        given = self.cost_names or [
            [f"cost {k} feature {j}" for j in range(len(w))] for k, w in enumerate(weights)
        ]
        object.__setattr__(self, "cost_names", tuple(tuple(names) for names in given))
        if not len(self.parameters):
            object.__setattr__(self, "parameters", weights_as_parameters(self))

    @cached_property
    def standardised(self) -> Self:
        """The same answer about features divided by their standard deviations: in no unit.

        Its weights, prices, budgets, noise and their intervals are those of such features; its
        coefficients stay those of the features as they were given. Summaries, pages and comparisons
        show it first. It is the recovery itself where `standard` is None.
        """
        return cast("Self", standardised(self))

    @property
    def parts(self) -> tuple[Self, ...]:
        """Itself: there is one part."""
        return (self,)

    def with_parts(self, parts: Sequence[Self]) -> Self:
        """Its only part."""
        (part,) = parts
        return part

    @property
    def degrees(self) -> float:
        """Number of free coefficients, and of a share of lapses that was estimated.

        Of the coefficients of a curve its effective degrees of freedom.
        """
        lapsing = self.lapses is not None and not np.isnan(self.lapses.p_value)
        spared = [max(np.count_nonzero(one.weights) - one.degrees, 0.0) for one in self.curves]
        return self.parameters.degrees + int(lapsing) - sum(spared)

    @property
    def noise_prices(self) -> Parameters:
        """[K] price of each budget over the temperature, with its errors: what data tell best.

        In the units of the cost features, which are their deviations where they are standardised.
        """
        blocks = np.repeat(
            np.arange(1 + len(self.cost_names)),
            [len(self.reward_names), *map(len, self.cost_names)],
        )
        rows = (blocks == 1 + np.arange(len(self.cost_names))[:, None]).astype(float)
        if self.standard is not None and self.standard.applied:
            rows *= self.standard.stacked
        names = [f"price {k} / temperature" for k in range(len(rows))]
        return self.parameters.mapped(rows, names=names, lower=np.zeros(len(rows)))

    @property
    def rho_squared(self) -> float:
        """McFadden's: 1 less the log-likelihood over that of actions at random; NaN without any."""
        return 1.0 - self.log_likelihood / (self.null_log_likelihood or np.nan)

    @property
    def behaviour(self) -> np.ndarray:
        """[S, A] the policy that was seen: that of `solution`, and its lapses."""
        policy = self.solution.policy
        if self.lapses is None:
            return policy
        there = policy > 0  # an action that is not available has chance 0 and is no lapse either
        share, spread = self.lapses.share, there / there.sum(axis=1, keepdims=True).clip(1)
        return (1.0 - share) * policy + share * spread

    def choice_model(
        self,
        at: npt.ArrayLike | None = None,
        goals: npt.ArrayLike | None = None,
        *,
        world: MDP | None = None,
        features: Features | None = None,
    ) -> ChoiceModel | None:
        """What may be chosen in states, and how chances follow the coefficients.

        None where the world is not known. Arguments as for `predict`.
        """
        from tacit.inference.action_chances import state_choices

        return state_choices(self, at, goals, world=world, features=features)

    def simulate(
        self,
        *,
        trajectories: int | None = None,
        steps: int = 2000,
        seed: int = 0,
        world: MDP | None = None,
    ) -> Demonstrations:
        """Demonstrations of what was recovered, lapses included.

        Args:
            trajectories: how many; None for 100, or for as many trips as were seen.
            steps: most of each.
            seed: of all draws.
            world: where; None for that of the demonstrations.
        """
        from tacit.estimators.simulated import simulated

        return simulated(self, trajectories or 100, steps=steps, seed=seed, world=world)

    def refit(self, *, throw: bool = True, **options: Any) -> Self:
        """The recovery from the same demonstrations with other options: `refit(level=1)`.

        Args:
            throw: raise `NotConverged` instead of returning a recovery that says so.
            **options: of the estimator, by name.
        """
        from tacit.estimators.simulated import refitted

        return cast("Self", refitted(self, options, throw=throw))

    def scenarios(self, change: Change) -> tuple[Scenario, Scenario]:
        """The world without a change and with it, as `counterfactual` asks for them."""
        from tacit.estimators.whatif import state_scenarios

        return state_scenarios(self, change)

    def cautious(self, mdp: MDP | None = None, *, confidence: float = CONFIDENCE) -> Caution:
        """The `Objective` that allows only what every objective the data leave possible allows.

        In the world given, if any, what that costs is measured, and no more asked than can be met.
        """
        from tacit.estimators.caution import cautious

        return cautious(self, mdp, confidence=confidence)

    def certify(
        self,
        policy: npt.ArrayLike | Solution,
        world: MDP | None = None,
        *,
        confidence: float = CONFIDENCE,
    ) -> PolicyCertificate:
        """Which of the true budgets a policy keeps, and how sure that is.

        Args:
            policy: [S, A], or a solution.
            world: where it acts; None for that of the recovery.
            confidence: for all budgets at once.
        """
        from tacit.estimators.certified import certify

        return certify(self, policy, world, confidence=confidence)

    def updated(
        self, more: Observed, *, forget: float | None = None, keep_rows: bool = False
    ) -> Self:
        """The recovery of everything seen so far, by merged sums: what a refit to them gives.

        Args:
            more: what was seen since.
            forget: half-life in steps, for a demonstrator that drifts: an old step weighs half
                after so many new ones. Sums are then no counts, and errors never too small.
            keep_rows: keep what was seen for `refresh`, in memory; else sums alone.
        """
        from tacit.stream.updating import updated

        return cast("Self", updated(self, more, forget=forget, keep_rows=keep_rows))

    def refresh(self) -> Self:
        """The recovery by a full pass over all that was seen, where its rows were kept."""
        from tacit.stream.updating import refreshed

        return cast("Self", refreshed(self))

    def anytime(self, *, confidence: float = CONFIDENCE) -> AnytimeSet:
        """Intervals of the coefficients that hold after every `updated(more)` at once.

        They are wider than those of `parameters`, which hold at one time that was fixed beforehand.
        """
        from tacit.stream.anytime import anytime

        return anytime(self, confidence=confidence)

    def more_needed(self, width: float, name: str | None = None) -> MoreNeeded:
        """How many more demonstrations make an interval as narrow as this.

        Args:
            width: of the interval.
            name: of a feature, for its weight, or "price 0"; None for the widest interval.
        """
        from tacit.stream.anytime import more_needed

        return more_needed(self, width, name)

    def with_origin(self, origin: Origin | Recovery) -> Self:
        """The same, that knows what it was made from: a recovery that was loaded does not."""
        from tacit.stream.updating import with_origin

        return cast("Self", with_origin(self, origin))

    def plot(self, layout: Layout | None = None, *, raw_units: bool = False) -> Figure:
        """One figure of weights, prices and, where a layout says where states lie, maps.

        Units as in `summary`.
        """
        from tacit.show.plot import overview

        return overview(shown(self, raw_units=raw_units), layout=layout)

    def __repr__(self) -> str:
        weights = np.array2string(self.reward_weights, precision=4, threshold=6)
        prices = np.array2string(self.multipliers, precision=4, threshold=6)
        shown = f"{self.status.name}, reward_weights={weights}, multipliers={prices}"
        return f"{type(self).__name__}({shown})"


Delivered = TypeVar("Delivered", bound=Saved)


def delivered(recovery: Delivered, throw: bool) -> Delivered:
    """The recovery, or `NotConverged` where its status says so and `throw` asks for it."""
    if not throw or recovery.status is not RecoveryStatus.NOT_CONVERGED:
        return recovery
    for finding in cast("Recovery", recovery).identification.findings:
        if finding.kind is Kind.BASIS:
            raise NotConverged(f"{finding} Pass throw=False to get it nonetheless.", recovery)
    c = recovery.certificate
    raise NotConverged(
        f"{recovery.status.value} (predicted behaviour differs from the data by "
        f"{c.feature_gap:.1%}, chance alone gives {c.sampling_noise:.1%}; weight change "
        f"{c.weight_change:.2e}); "
        "pass throw=False to get it, or raise `max_steps`",
        recovery,
    )


def warned(recovery: Recovery) -> Recovery:
    """The recovery, which says where signs are wrong, or chance explains more."""
    null = recovery.null_log_likelihood
    findings, short = _sign_findings(recovery), null - recovery.log_likelihood
    if 1e-9 * (1.0 + abs(null)) < short < np.inf:  # rounding is no difference
        sentence = (
            "The model explains the demonstrations worse than chance does: its log-likelihood, "
            f"{recovery.log_likelihood:.6g}, is below that of actions at random, {null:.6g}."
        )
        findings.append(Finding(sentence, Kind.MISFIT, number=short))
    return replace(recovery, identification=recovery.identification.with_findings(findings))


def _sign_findings(recovery: Recovery) -> list[Finding]:
    """Which features of the reward are avoided, by the scores at the bound 0 and Holm's method."""
    found, names = recovery.parameters, recovery.reward_names
    # On a bound a p-value is that of a coefficient above 0: near 1 where it would be below.
    below = np.where((found.estimates == 0.0) & (found.lower == 0.0), 1.0 - found.p_values, np.nan)
    held, findings = np.flatnonzero(np.isfinite(below[: len(names)])), []
    for j, p in zip(held.tolist(), holm(below[held].tolist()).tolist(), strict=True):
        sentence = (
            f"The demonstrations speak for a negative weight of {names[j]} ({chance(p)}), which is "
            "not allowed here: turn the sign of its column, or use free_reward=True (--estimator "
            "likelihood --free-reward)."
        )
        if p <= LEVEL:
            findings.append(Finding(sentence, Kind.MISFIT, feature=names[j], number=p))
    return findings
