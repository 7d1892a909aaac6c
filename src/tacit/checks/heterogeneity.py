"""How individuals differ: coefficients with a mean and a spread in the population.

Every individual has coefficients of its own, normal around the means of the population. They are
fitted by Laplace's approximation: each individual's likelihood is quadratic around its own,
shrunken coefficients, and the restricted likelihood of means and spreads is maximised, in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tacit.data.units import EPISODES
from tacit.errors import InvalidModel
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.task import Task
from tacit.estimators.trips.traveller import TripsRecovery
from tacit.files.columns import frame_of
from tacit.files.wording import listed, table_text
from tacit.inference.findings import LEVEL, NAMED, Finding, Kind, chance
from tacit.inference.parameters import CONFIDENCE, Parameters
from tacit.inference.quantities import number_of
from tacit.inference.random_effects import NormalEffects, quantiles, tails

if TYPE_CHECKING:
    from tacit.recovery import Recovery

# Rounds of modes and spreads; change that ends them, in standard errors of the means; steps that
# are halved at most, and by what rounding may raise a loss.
ROUNDS, SETTLED, HALVINGS, SLACK = 100, 1e-3, 8, 1e-7
# Precision of values.
PRECISION = 1e-9
# Fewest individuals beside the coefficients that vary, and from which a spread is well known.
BESIDE, MANY = 3, 8
# Departure of a log-likelihood from its parabola, in nats at one posterior deviation, that is said.
ROUGH = 0.2


@dataclass(frozen=True, eq=False, kw_only=True)
class Individuals:
    """How individuals differ in what they want and refuse.

    Attributes:
        names: [D] of the coefficients.
        individuals: [G] names.
        varying: [D] bool, the coefficients that may differ.
        means: [D] of the population, in units of the noise.
        standard_errors: [D] of these.
        degrees: [D] of freedom, by Satterthwaite: intervals are those of Student's law.
        spreads: [D] standard deviations between individuals; 0 where they do not vary.
        spread_intervals: [D, 2] by the profile of the restricted likelihood; NaN likewise.
        spread_p_values: [D] of "all have the same"; NaN likewise.
        estimates: [G, D] expected coefficients of each individual, shrunken towards the means.
        estimate_errors: [G, D] standard deviations of these.
        steps: [G] of each individual.
        confidence: of the intervals.
        converged: whether means and spreads came to rest.
        findings: what it rests on.
    """

    names: tuple[str, ...]
    individuals: tuple[str, ...]
    varying: np.ndarray
    means: np.ndarray
    standard_errors: np.ndarray
    degrees: np.ndarray
    spreads: np.ndarray
    spread_intervals: np.ndarray
    spread_p_values: np.ndarray
    estimates: np.ndarray
    estimate_errors: np.ndarray
    steps: np.ndarray
    confidence: float
    converged: bool
    findings: tuple[Finding, ...]

    @property
    def intervals(self) -> np.ndarray:
        """[D, 2] of the means."""
        margin = quantiles(self.degrees, self.confidence) * self.standard_errors
        return np.stack([self.means - margin, self.means + margin], axis=1)

    @property
    def p_values(self) -> np.ndarray:
        """[D] of "the mean is 0"."""
        return tails(self.means / self.standard_errors, self.degrees)

    @property
    def estimate_intervals(self) -> np.ndarray:
        """[G, D, 2] of each individual's coefficients."""
        margin = quantiles(self.degrees, self.confidence) * self.estimate_errors
        return np.stack([self.estimates - margin, self.estimates + margin], axis=2)

    def varying_name(self, feature: str) -> str:
        """The name, if it is that of a coefficient that varies; raises `InvalidModel` if not."""
        number = number_of(feature, self.names)
        if not self.varying[number]:
            raise InvalidModel(f"{feature} does not vary here: all individuals share it")
        return feature

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What it rests on, and what is too little."""
        return self.findings

    def frame(self, *, pandas: bool = False) -> Any:
        """One row a coefficient: mean, its error and interval, spread and its interval."""
        return frame_of(self._columns, pandas=pandas)

    def individual_frame(self, *, pandas: bool = False) -> Any:
        """One row an individual and coefficient that varies: estimate, error and interval."""
        varying = np.flatnonzero(self.varying)
        many = len(self.individuals)
        ends = self.estimate_intervals[:, varying].reshape(-1, 2)
        columns = {
            "individual": np.repeat(self.individuals, len(varying)).tolist(),
            "name": [self.names[j] for j in varying] * many,
            "steps": np.repeat(self.steps, len(varying)),
            "estimate": self.estimates[:, varying].ravel(),
            "standard_error": self.estimate_errors[:, varying].ravel(),
            "lower": ends[:, 0],
            "upper": ends[:, 1],
        }
        return frame_of(columns, pandas=pandas)

    @property
    def _columns(self) -> dict[str, Any]:
        low, high = self.intervals.T
        least, most = self.spread_intervals.T
        return {
            "name": list(self.names),
            "mean": self.means,
            "standard_error": self.standard_errors,
            "degrees": self.degrees,
            "lower": low,
            "upper": high,
            "p_value": self.p_values,
            "spread": np.where(self.varying, self.spreads, np.nan),
            "spread_lower": least,
            "spread_upper": most,
            "spread_p_value": self.spread_p_values,
        }

    @property
    def text(self) -> str:
        """The table, and the findings."""
        names, *columns = self._columns.values()
        rows = list(zip(names, *(one.tolist() for one in columns), strict=True))
        title = f"{len(self.individuals)} individuals, {self.confidence:.0%} intervals"
        heads = ["", *[name.replace("_", " ") for name in [*self._columns][1:]]]
        return "\n".join([table_text(heads, rows, title), *self.findings])

    def __repr__(self) -> str:
        return self.text


def individuals(
    recovery: Recovery,
    vary: Sequence[str] | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> Individuals:
    """The `Individuals` behind a recovery: who differs from whom, in what, and by how much.

    `tacit.checks.individuals(recovery)` lets all coefficients vary, each with a spread of its own;
    `vary=["road"]` one of them. Individuals are those that the demonstrations name, else groups,
    else trajectories. No sign is asked of anybody's coefficients.

    Args:
        recovery: of tables or of trips, by `Likelihood`; it must know its demonstrations.
        vary: names of the coefficients that may differ; None for all.
        confidence: of the intervals.
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidModel(f"confidence must be in (0, 1); got {confidence}")
    task, parameters = _task_of(recovery), recovery.parameters
    units = task.units(2.0)
    size, many = len(parameters), len(units)
    # What no data tell, and costs that nobody ever incurs, have no place among individuals.
    known = ~np.isfinite(parameters.limits) & ~np.isinf(parameters.standard_errors)
    known &= ~parameters.fixed
    asked = [number_of(name, parameters.names) for name in vary or ()]
    varying = np.isin(np.arange(size), asked) & known if vary is not None else known
    if many < int(varying.sum()) + BESIDE:
        raise InvalidModel(
            f"individuals must be {BESIDE} more than the coefficients that vary; there are "
            f"{many} {units.called} and {int(varying.sum())} such coefficients: name fewer, "
            "vary=[...]"
        )
    found = _Fit.of(task, units.number, parameters, known, np.flatnonzero(varying[known]))
    return _told(found, recovery, units, known, varying, confidence)


def _task_of(recovery: Recovery) -> Task:
    """The task behind a recovery, whose episodes can be looked at again."""
    origin = recovery.origin
    if origin is None or recovery.temperature == 0 or not hasattr(origin.estimator, "level"):
        raise InvalidModel(
            "individuals are those of a recovery by Likelihood that knows its demonstrations; one "
            "that was loaded is told by with_origin(...)"
        )
    if isinstance(recovery, TripsRecovery):
        return recovery.trips(cast("Any", origin.demonstrations)).without_dropped
    task = Task(origin.mdp, origin.features, cast("Any", origin.demonstrations))
    task.check_in_memory()
    return task.without_dropped


@dataclass(frozen=True, eq=False)
class _State:
    """Means, effects of individuals and spreads, where likelihoods are to be looked at.

    Attributes:
        means: [D].
        effects: [G, q].
        spread: [q].
        varying: [q] numbers of the coefficients that vary.
        halvings: how often it was moved back.
    """

    means: np.ndarray
    effects: np.ndarray
    spread: np.ndarray
    varying: np.ndarray
    _: KW_ONLY
    halvings: int = 0

    @classmethod
    def at_means(cls, means: np.ndarray, many: int, varying: np.ndarray) -> _State:
        """Everybody alike."""
        size = len(varying)
        return cls(means, np.zeros((many, size)), np.zeros(size), varying)

    @classmethod
    def of(cls, normal: NormalEffects) -> _State:
        """Where quadratic likelihoods say that everybody is."""
        return cls(normal.means, normal.effects, normal.spread, normal.varying)

    @property
    def places(self) -> np.ndarray:
        """[G, D] coefficients of the individuals."""
        found = np.repeat(self.means[None], len(self.effects), axis=0)
        found[:, self.varying] += self.effects
        return found

    def penalty(self, spread: np.ndarray) -> float:
        """Half the squared effects over these spreads; infinite where there are none."""
        moving = spread > 0
        still = np.abs(self.effects[:, ~moving]).max(initial=0.0)
        return (
            np.inf
            if still > 0
            else 0.5 * float(((self.effects[:, moving] / spread[moving]) ** 2).sum())
        )

    def halfway(self, other: _State) -> _State:
        """Half the way back to another."""
        return replace(
            self,
            means=0.5 * (self.means + other.means),
            effects=np.where(self.spread > 0, 0.5 * (self.effects + other.effects), 0.0),
            halvings=self.halvings + 1,
        )


@dataclass(frozen=True, eq=False)
class _Fit:
    """Individuals at their modes.

    Attributes:
        normal: their likelihoods as quadratic ones, with means and spreads, of known coefficients.
        steps: [G] of each.
        rough: departure of the likelihoods from parabolas, one an individual, in nats.
        converged: whether means and spreads came to rest.
    """

    normal: NormalEffects
    steps: np.ndarray
    rough: np.ndarray
    converged: bool

    @classmethod
    def of(
        cls,
        task: Task,
        number: np.ndarray,
        parameters: Parameters,
        known: np.ndarray,
        varying: np.ndarray,
    ) -> _Fit:
        """Modes, means and spreads in turn, until they rest."""
        chains = task.group_chains(number, Likelihood(free_reward=True))
        base, scales = parameters.estimates.copy(), chains[0].space.scales
        begun = np.where(np.isfinite(base), base, 0.0)
        near = [chain.blank(begun * chain.space.scales) for chain in chains]

        def quadratic(chain: Any, place: np.ndarray, near: Any) -> tuple[Any, ...] | None:
            """The part at coefficients, its information and pull; None where not finite."""
            whole = begun.copy()
            whole[known] = place
            part = chain.at(whole * chain.space.scales, near, PRECISION)
            if not np.isfinite(float(part.loss)):
                return None
            own = chain.space.scales[known]
            evidence = chain.evidence(part, np.eye(len(scales)), None)
            fisher = evidence.fisher[np.ix_(known, known)] * np.outer(own, own)
            gradient = np.asarray(part.gradient)[known] * own
            return part, fisher, fisher @ place - gradient

        state = _State.at_means(begun[known], len(chains), varying)
        accepted: _State | None = None
        normal, converged, loss = None, False, np.inf
        for _ in range(ROUNDS):
            each = [quadratic(*row) for row in zip(chains, state.places, near, strict=True)]
            parts = [one for one in each if one is not None]
            here = np.inf
            if len(parts) == len(each):
                here = sum(float(one[0].loss) for one in parts) + state.penalty(state.spread)
            if accepted is not None:
                worse = not here <= loss + accepted.penalty(state.spread) + SLACK
                if worse and (state.halvings < HALVINGS or not np.isfinite(here)):
                    state = state.halfway(accepted)
                    continue
            if not np.isfinite(here):
                raise InvalidModel("the likelihood is not finite at the pooled coefficients")
            near, loss = [one[0] for one in parts], sum(float(one[0].loss) for one in parts)
            normal = NormalEffects(
                information=np.stack([one[1] for one in parts]),
                pull=np.stack([one[2] for one in parts]),
                varying=varying,
                spread=state.spread,
            ).fitted()
            accepted, state = state, _State.of(normal)
            errors = np.sqrt(np.diagonal(normal.covariance))
            if np.abs((state.places - accepted.places) / errors).max() < SETTLED:
                converged = True
                break
        assert normal is not None
        rough = _roughness(chains, near, normal, begun, known)
        steps = np.array([chain.steps for chain in chains])
        return cls(normal, steps, rough, converged)


def _roughness(
    chains: Sequence[Any],
    near: Sequence[Any],
    normal: NormalEffects,
    begun: np.ndarray,
    known: np.ndarray,
) -> np.ndarray:
    """[G] how far each log-likelihood is from its parabola, one posterior deviation away."""
    found, middle = [], normal.individuals
    for g, (chain, part) in enumerate(zip(chains, near, strict=True)):
        values, vectors = np.linalg.eigh(normal.effect_covariance[g])
        move = np.zeros(middle.shape[1])
        move[normal.varying] = vectors[:, -1] * np.sqrt(max(float(values[-1]), 0.0))
        worst = 0.0
        for side in (-1.0, 1.0):
            step, whole = side * move, begun.copy()
            whole[known] = middle[g] + step
            loss = chain.loss_at(whole * chain.space.scales, part, PRECISION)
            slope = normal.information[g] @ middle[g] - normal.pull[g]
            expected = float(part.loss) + slope @ step
            expected += 0.5 * step @ normal.information[g] @ step
            worst = max(worst, abs(float(loss) - expected))
        found.append(worst)
    return np.array(found)


def _told(
    fit: _Fit,
    recovery: Recovery,
    units: Any,
    known: np.ndarray,
    varying: np.ndarray,
    confidence: float,
) -> Individuals:
    """The answer, about all coefficients."""
    normal, size, many = fit.normal, len(known), len(units)
    places, own = np.flatnonzero(known), np.flatnonzero(varying)

    def spread_out(values: np.ndarray, at: np.ndarray, empty: float) -> np.ndarray:
        whole = np.full((*values.shape[:-1], size), empty)
        whole[..., at] = values
        return whole

    variances = np.diagonal(normal.individual_covariance, axis1=1, axis2=2)
    ends = [normal.spread_interval(k, confidence) for k in range(len(own))]
    intervals = np.full((size, 2), np.nan)
    intervals[own] = np.reshape(ends, (-1, 2))
    p_values = np.array([normal.spread_p_value(k) for k in range(len(own))])
    names = units.names if units.names is not None else np.arange(many)
    told = Individuals(
        names=recovery.parameters.names,
        individuals=tuple(map(str, np.asarray(names).tolist())),
        varying=varying,
        means=spread_out(normal.means, places, np.nan),
        standard_errors=spread_out(np.sqrt(np.diagonal(normal.covariance)), places, np.nan),
        degrees=spread_out(normal.degrees, places, np.nan),
        spreads=spread_out(normal.spread, own, 0.0),
        spread_intervals=intervals,
        spread_p_values=spread_out(p_values, own, np.nan),
        estimates=spread_out(normal.individuals, places, np.nan),
        estimate_errors=spread_out(np.sqrt(variances), places, np.nan),
        steps=fit.steps,
        confidence=confidence,
        converged=fit.converged,
        findings=(),
    )
    return replace(told, findings=tuple(_findings(told, fit, units.called)))


def _findings(told: Individuals, fit: _Fit, called: str) -> list[Finding]:
    """What differs, what it rests on, and what is too little."""
    many, findings = len(told.individuals), []
    if not fit.converged:
        sentence = "Means and spreads did not come to rest: they are those of the last round."
        findings.append(Finding(sentence, Kind.NOT_CONVERGED))
    for j in np.flatnonzero(told.varying):
        p_value, low, high = told.spread_p_values[j], *told.spread_intervals[j]
        differs = "differ" if p_value <= LEVEL else "are not shown to differ"
        sentence = (
            f"{called.capitalize()} {differs} in {told.names[j]} ({chance(p_value)}): standard "
            f"deviation {told.spreads[j]:.3g}, {told.confidence:.0%} interval {low:.3g} to "
            f"{high:.3g}, around {told.means[j]:.3g}."
        )
        about = {"feature": told.names[j], "number": float(p_value)}
        findings.append(Finding(sentence, Kind.NOTE, **about))
    if called == EPISODES:
        sentence = "Nobody is named: every trajectory is taken for another individual."
        findings.append(Finding(sentence, Kind.ASSUMED))
    left = [name for name, mean in zip(told.names, told.means, strict=True) if np.isnan(mean)]
    if left:
        sentence = f"Left out, as the demonstrations leave it open: {listed(left, NAMED)}."
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, feature=left[0]))
    if many < MANY:
        sentence = f"{many} {called} are too few for a spread: its interval is wide and rough."
        findings.append(Finding(sentence, Kind.ERRORS, number=float(many)))
    rough = np.flatnonzero(fit.rough > ROUGH)
    if rough.size:
        who = [told.individuals[g] for g in rough]
        sentence = (
            f"Laplace's approximation is rough for {listed(who, NAMED)}: too little was seen of "
            "them for a likelihood that is quadratic. Their estimates rest on the population."
        )
        findings.append(Finding(sentence, Kind.ERRORS, number=float(fit.rough.max())))
    return findings
