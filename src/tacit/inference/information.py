"""A fitted noisy expert in the gauge, and its error bars: information, errors, blind directions.

The score of a step is the advantage of its features, psi(s, a) - V_psi(s), a martingale difference:
the Fisher information of all steps is their covariance, summed over visits, whatever the law of the
states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from tacit.data.tally import Scatter
from tacit.data.units import EPISODES, GROUPS, INDIVIDUALS, Units, jointly_numbered
from tacit.inference.delta_method import DeltaMethod
from tacit.inference.few_units import MANY, FewUnits
from tacit.inference.gauge import Gauge
from tacit.inference.parameters import BLIND, CONFIDENCE, MOVED, inverse_information
from tacit.inference.tails import ONE_SIDED, TWO_SIDED, normal_quantile, normal_tail
from tacit.likelihood.problem import Fit
from tacit.likelihood.protocol import ChainEvidence
from tacit.likelihood.start import SILENT
from tacit.model.features.design import Design
from tacit.search.algebra import at_least

# A constraint is barely found where more than this share of those found by chance look as sure.
BARELY = 0.05
# Standard errors that no interval of a price that was left out goes beyond: 1 in 2000 of all data.
FARTHEST = 3.29

# Squared slope of the loss, relative to its information, that only rounding makes.
LEVEL_SLOPE = 1e-6
# What scores are taken to be independent between, where it is nothing larger.
STEPS = "steps"
# Trajectories per parameter from which the clustered sandwich is trusted.
CLUSTERS = 10


def described(options: object) -> str:
    """The estimator in words, lapses, a prior or a temperature that were asked for among them."""
    words = ("lapses", "prior", "temperature", "restrict")
    values = {name: getattr(options, name, None) for name in words}
    chosen = {name: value for name, value in values.items() if value not in (None, False, ())}
    return f"{repr(options)[:-1]}{''.join(f', {k}={v!r}' for k, v in chosen.items())})"


def fitted_scores(fitted: Fit, scores: np.ndarray, e: int = 0) -> np.ndarray:
    """[n, S, A] the scores [D, S, A] of a chain along the directions in which it could move."""
    known, free = fitted.known(e), fitted.free[fitted.problem.ties.rows[e]]
    return scores[free] if known is None else np.tensordot(known.tangents(free), scores, 1)


@dataclass(frozen=True, eq=False)
class Errors:
    """What the data say about the parameters, in scaled coordinates.

    Attributes:
        covariance: [D, D] of the estimates; 0 for parameters on a bound.
        blind: [B, D] unit directions in which the parameters can move freely.
        clustered: whether trajectories or individuals, not steps, were the independent units.
        scatter: [D, D] covariance of the scores of all units, no less than of the steps; None where
            those are the units, so that it is the information.
        units: the same as it was seen.
        clusters: sums of squared scores of the units that trajectories make; None where they are
            not known.
        unit: what was taken for independent: "steps", "trajectories", "individuals" or "groups".
        few: individuals that are named, where those are too few to be the units; else 0.
        small: the units, where they are so few that Student's law is theirs; None for many.
    """

    covariance: np.ndarray
    blind: np.ndarray
    clustered: bool
    scatter: np.ndarray | None = None
    _: KW_ONLY
    units: np.ndarray | None = None
    clusters: Scatter | None = None
    unit: str = STEPS
    few: int = 0
    small: FewUnits | None = None

    @property
    def taken(self) -> str:
        """What the errors take as independent, in words."""
        if self.unit == INDIVIDUALS and self.clusters is not None:
            return f"the {self.clusters.episodes} {INDIVIDUALS} as independent"
        reason = f": {self.few} individuals are too few to tell how they differ"
        return f"{self.unit} as independent{reason if self.few else ''}"


def errors(
    bread: np.ndarray,
    free: np.ndarray,
    chains: Sequence[ChainEvidence],
    *,
    robust: bool = False,
    fisher: np.ndarray,
    certain: np.ndarray | float = 0.0,
    moving: np.ndarray | None = None,
    prior: np.ndarray | None = None,
) -> Errors:
    """The `Errors` of the free parameters, clustered by trajectory where those are many.

    Args:
        bread: [n, n] information of all steps; curvature of the loss where the model does not fit.
        free: [n] bool, the parameters that no bound holds.
        chains: what was seen, at the fit.
        robust: whether the model does not fit: errors are then those of its best approximation.
        fisher: [n, n] what scores scatter at least.
        certain: [n, n] what of the bread is of equations: of moves that break them nothing is
            asked, and they scatter by that.
        moving: [n] bool, the parameters that were not fixed beforehand; None for all.
        prior: [n, n] what of the bread a prior knows; None without one.
    """
    inverse, blind = inverse_information(bread, free)
    size = int(free.sum())
    by_unit = scatter_of(chains, size, robust=robust, free=free)
    units, small, scatter = by_unit.scatter, by_unit.small, None
    if units is not None:
        scatter = at_least(fisher + certain, units, moving) - certain
    covariance = inverse if scatter is None else sandwich(inverse, scatter, prior)
    if small is not None and scatter is not None:  # what profiles are cut by has a wider law
        scatter = at_least(scatter, small.widened(scatter))
    named = set[object]().union(*(chain.individuals for chain in chains))
    return Errors(
        covariance,
        blind,
        clustered=units is not None and by_unit.clusters is not None,
        scatter=scatter,
        units=units,
        clusters=by_unit.clusters,
        unit=by_unit.unit,
        few=0 if by_unit.unit == INDIVIDUALS else len(named),
        small=small,
    )


def sandwich(inverse: np.ndarray, scatter: np.ndarray, prior: np.ndarray | None) -> np.ndarray:
    """[n, n] covariance by the scatter of scores; a prior scatters by what it knows."""
    return inverse @ (scatter if prior is None else scatter + prior) @ inverse


class UnitScatter(NamedTuple):
    """How the scores of independent units scatter."""

    clusters: Scatter | None  # sums of squared scores of the units; None where only steps are known
    unit: str  # what the units are
    small: FewUnits | None = None  # the units, where they are few individuals
    scatter: np.ndarray | None = None  # [n, n] covariance of scores; None where the information is


def clusters_of(
    chains: Sequence[ChainEvidence], least: int, size: int, free: np.ndarray | None = None
) -> UnitScatter:
    """Sums of squared scores of the units that trajectories make, and what these are.

    Individuals that are too few for so many parameters are none: errors must not be smaller than
    if nobody had named them. Who is named in several chains is one unit: its scores are added up.
    Scores of few individuals are adjusted for their leverage where it is said which parameters are
    `free` [n] bool.
    """
    loose = all(chain.loose for chain in chains)
    units = [chain.units(np.inf if loose else least) for chain in chains]
    known = [own for own in units if own is not None]
    if len(known) < len(units):  # only sums are known
        return UnitScatter(None, STEPS if loose else EPISODES)
    kinds, joint = {own.called for own in known}, jointly_numbered(known)
    count = 1 + max(int(own.number.max()) for own in joint)
    too_few = kinds == {INDIVIDUALS} and count < 2 * size + 2
    if too_few or len(kinds) > 1:
        known = [chain.episodes for chain in chains]
        kinds = {chains[0].episodes.called}
    if loose and not kinds & {INDIVIDUALS, GROUPS}:
        return UnitScatter(None, STEPS)
    adjusting = free is not None and count <= MANY
    if kinds == {INDIVIDUALS} and (adjusting or count < sum(map(len, known))):
        return _individual_clusters(chains, joint, count, free if adjusting else None)
    parts = [chain.scatter(own) for chain, own in zip(chains, known, strict=True)]
    return UnitScatter(sum(parts[1:], start=parts[0]), kinds.pop())


def _individual_clusters(
    chains: Sequence[ChainEvidence], units: Sequence[Units], count: int, free: np.ndarray | None
) -> UnitScatter:
    """Squared scores of so many individuals over all chains; adjusted where `free` [n] is given."""
    pairs = list(zip(chains, units, strict=True))
    scores = np.sum([chain.unit_scores(own, count) for chain, own in pairs], axis=0)
    if free is None:
        return UnitScatter(Scatter(count, scores.T @ scores), INDIVIDUALS)
    informations = [chain.unit_information(own, count) for chain, own in pairs]
    small = FewUnits.of(np.sum(informations, axis=0), free)
    # Where sums of squares are used they are multiplied by n / (n - 1).
    scores = small.adjusted(scores) * np.sqrt((count - 1.0) / count)
    return UnitScatter(Scatter(count, scores.T @ scores), INDIVIDUALS, small)


def scatter_of(
    chains: Sequence[ChainEvidence], size: int, *, robust: bool, free: np.ndarray | None = None
) -> UnitScatter:
    """The scatter of scores, of `size` parameters; `free` as for `clusters_of`.

    Individuals or trajectories are the units where there are enough for so many parameters. Else
    steps are: their scatter is the information, or, where the model does not fit, is summed up.
    """
    least = 2 * size + 2 if robust else CLUSTERS * max(size, 1)
    by_unit = clusters_of(chains, least, size, free)
    clusters = by_unit.clusters
    count = 0 if clusters is None else clusters.episodes
    enough = count >= least or (by_unit.unit == INDIVIDUALS and not robust)
    if clusters is not None and enough:
        return by_unit._replace(scatter=clusters.products * (count / (count - 1.0)))
    if robust:
        outer = np.sum([chain.outer for chain in chains], axis=0)
        return UnitScatter(None, STEPS, scatter=outer)
    return UnitScatter(clusters, STEPS)


def undecided(fitted: Fit, fisher: np.ndarray, free: np.ndarray) -> np.ndarray:
    """[D] bool, the free parameters and those that only chance may have put on their bound.

    A parameter whose unbounded estimate is within two standard errors of the bound could as well
    be inside: taking it for fixed would make the others look surer than they are. So could one that
    the free ones make up for altogether, which has no slope but rounding.
    """
    inverse, _ = inverse_information(fisher, free)
    information, slope = np.diagonal(fisher), np.abs(fitted.gradient)
    profiled = information - ((fisher @ inverse) * fisher).sum(axis=1)
    within_errors = np.where(
        profiled > BLIND * information,
        slope**2 < 4.0 * profiled,
        slope**2 < LEVEL_SLOPE * information,
    )
    informed = information > SILENT * max(float(information.max(initial=0.0)), 1.0)
    return np.asarray(free | (within_errors & fitted.problem.movable & informed))


def row_errors(rows: np.ndarray, covariance: np.ndarray, blind: np.ndarray) -> np.ndarray:
    """[n] standard errors of rows [n, D] . parameters; infinite where a blind direction moves one.

    NaN where there is none. Of weights, multipliers and budgets the rows are `Gauge.jacobian`.
    """
    defined = np.asarray(np.isfinite(rows).all(axis=1))
    safe = np.where(defined[:, None], rows, 0.0)
    variance = ((safe @ covariance) * safe).sum(axis=1)
    moved = np.abs(safe @ blind.T).max(axis=1, initial=0.0)
    is_blind = moved > MOVED * np.maximum(np.abs(safe).max(axis=1, initial=0.0), 1e-300)
    known = np.where(is_blind, np.inf, np.sqrt(np.maximum(variance, 0.0)))
    return np.where(defined, known, np.nan)


def delta_method(
    space: Design,
    x: np.ndarray,
    gauge: Gauge,
    covariance: np.ndarray,
    blind: np.ndarray,
    ends: np.ndarray | None = None,
) -> DeltaMethod:
    """The answers of a fit with parameters x [D] and this covariance, at 95 %.

    `ends` [D + K or more, 2] begins with the intervals of weights and prices, where they have any.
    """
    return DeltaMethod(
        x=x,
        scales=space.scales,
        sizes=np.array([block.stop - block.start for block in space.blocks]),
        temperature=gauge.temperature,
        covariance=covariance,
        blind=blind,
        quantile=TWO_SIDED,
        ends=None if ends is None else ends[: space.size + space.constraints],
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Chosen:
    """Which constraints were kept, by tests of the data that the intervals are of.

    An interval that holds in 95 % of all data does not in 95 % of those in which a weak constraint
    is found, or a strong one is missed.

    Attributes:
        p_values: [K] of "this constraint is not active", for all of them together.
        kept: [K] bool.
        level: of the tests; 1 where nothing was chosen.
    """

    p_values: np.ndarray
    kept: np.ndarray
    level: float

    @classmethod
    def of(cls, p_values: np.ndarray, multipliers: np.ndarray, level: float) -> Chosen:
        """Those that have a price, [K] multipliers, in what is reported."""
        return cls(p_values=p_values, kept=multipliers > 0, level=level)

    def barely_found(self, k: int) -> bool:
        """Whether a price of 0 is not excluded, given that it was found.

        Its weights may then be anything: without a price they do nothing, though they look sure.
        """
        return bool(self.kept[k] and BARELY * self.level < self.p_values[k] <= self.level < 1)

    def reach(self, k: int) -> float:
        """Standard errors up to which a price that was left out may be above its estimate.

        Where it is left out, it is within reach with the confidence, unless nearly no data allow
        that. With z of the estimate and c of the least that is found, a price d standard errors
        above has the chance normal(-d) / normal(c - z - d).
        """
        if self.kept[k] or self.level >= 1 or np.isnan(self.p_values[k]):
            return 0.0
        # An estimate on its bound, 0, is no farther from what is found than 0 is.
        other = normal_quantile(1.0 - min(float(self.p_values[k]), 0.5))
        short = normal_quantile(1.0 - self.level) - other
        far = np.arange(ONE_SIDED, FARTHEST, 0.005)
        beyond = normal_tail(far) <= (1.0 - CONFIDENCE) * normal_tail(far - max(short, 0.0))
        return float(far[beyond][0]) if beyond.any() else FARTHEST
