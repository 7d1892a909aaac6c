"""A fitted noisy expert in the gauge, and its error bars: information, errors, blind directions.

The score of a step is the advantage of its features, psi(s, a) - V_psi(s), a martingale difference:
the Fisher information of all steps is their covariance, summed over visits, whatever the law of the
states.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed, PartitionedDemonstrations
from tacit.data.tally import Scatter
from tacit.data.units import EPISODES, INDIVIDUALS, Units
from tacit.inference.gauge import Gauge
from tacit.inference.numerics import (
    ONE_SIDED,
    TWO_SIDED,
    at_least,
    normal_quantile,
    normal_tail,
    weighted_products,
)
from tacit.inverse.noisy import DeltaMethod
from tacit.inverse.noisy.boltzmann import SILENT, Fit
from tacit.inverse.parameters import (
    BLIND,
    CONFIDENCE,
    MOVED,
    inverse_information,
)
from tacit.model.features import Design
from tacit.model.mdp import MDP
from tacit.search.smooth_dual import INERT

if TYPE_CHECKING:
    from tacit.inverse.noisy.convex import Convex
    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.inverse.noisy.steps import Coordinates

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


def described(options: Likelihood | Convex) -> str:
    """The estimator in words, lapses, a prior or a temperature that were asked for among them."""
    asked = {name: getattr(options, name, None) for name in ("lapses", "prior", "temperature")}
    told = "".join(f", {k}={v!r}" for k, v in asked.items() if v is not None and v is not False)
    return f"{repr(options)[:-1]}{told})"


def fitted_scores(fitted: Fit, scores: np.ndarray) -> np.ndarray:
    """[n, S, A] those of the scores [D, S, A] of a fit in the directions in which it could move."""
    if fitted.norm is None:
        return scores[fitted.free]
    return np.tensordot(fitted.norm.tangents(fitted.free), scores, 1)


def informed(fitted: Fit, fisher: np.ndarray) -> np.ndarray:
    """[D, D] the information with that of what was known beforehand."""
    return fisher if fitted.norm is None else fisher + fitted.norm.information(fisher)


@dataclass(frozen=True, eq=False)
class Errors:
    """What the data say about the parameters, in scaled coordinates.

    Attributes:
        covariance: [D, D] of the estimates; 0 for parameters on a bound.
        blind: [B, D] unit directions in which the parameters can move freely.
        clustered: whether trajectories or individuals, not steps, were the independent units.
        scatter: [D, D] covariance of the scores of all units; None where those are steps, so that
            it is the information.
        clusters: sums of squared scores of the units that trajectories make; None where they are
            not known.
        unit: what was taken for independent: "steps", "trajectories", "individuals" or "groups".
        few: individuals that are named, where those are too few to be the units; else 0.
    """

    covariance: np.ndarray
    blind: np.ndarray
    clustered: bool
    scatter: np.ndarray | None = None
    _: KW_ONLY
    clusters: Scatter | None = None
    unit: str = STEPS
    few: int = 0

    @property
    def taken(self) -> str:
        """What the errors take as independent, in words."""
        if self.unit == INDIVIDUALS and self.clusters is not None:
            return f"the {self.clusters.episodes} {INDIVIDUALS} as independent"
        doubt = f": {self.few} individuals are too few to tell how they differ"
        return f"{self.unit} as independent{doubt if self.few else ''}"


def advantages(mdp: MDP, space: Coordinates, fitted: Fit) -> np.ndarray:
    """[D, S, A] the score of one step: its features and all that follow, less the average."""
    result = np.empty(space.tables.shape)
    for d, values in enumerate(fitted.point.table_values):
        later = mdp.discount * mdp.expected_next(np.ascontiguousarray(values))
        result[d] = space.tables[d] + later - values[:, None]
    if mdp.restricted:
        result[:, ~mdp.choices] = 0.0  # never taken, and nothing at an end is chosen
    largest = np.abs(fitted.point.table_values).max(axis=1, initial=0.0)
    result[np.abs(result).max(axis=(1, 2), initial=0.0) <= INERT * largest] = 0.0
    return result


def information(scores: np.ndarray, policy: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """[D, D] sum over states of visits [S] times the covariance of the scores under the policy."""
    flat = scores.reshape(len(scores), -1)
    return weighted_products(flat, (visits[:, None] * policy).ravel())


def errors(
    bread: np.ndarray,
    free: np.ndarray,
    scores: np.ndarray,
    demonstrations: Observed,
    counts: np.ndarray | None = None,
    *,
    floor: np.ndarray | None = None,
) -> Errors:
    """The `Errors` of the free parameters, clustered by trajectory where those are many.

    Args:
        bread: [D, D] information of all steps; curvature of the loss where the model does not fit.
        free: [D] bool, the parameters that no bound holds.
        scores: [D, S, A].
        demonstrations: the steps.
        counts: [S, A] how often each action was taken, where the model does not fit: the errors are
            then those of its best approximation.
        floor: [D, D] what scores scatter at least; None for the bread.
    """
    floor = bread if floor is None else floor
    inverse, blind = inverse_information(bread, free)
    size, who = int(free.sum()), getattr(demonstrations, "individuals", None)
    if counts is not None:
        found, scatter, unit = score_scatter(scores, counts, size, demonstrations)
        scatter = at_least(floor, scatter)  # where nothing was seen, nothing scatters
    else:
        least = CLUSTERS * max(size, 1)
        found, unit = clusters_of(scores, demonstrations, least, size)
        if found is None or (found.episodes < least and unit != INDIVIDUALS):
            scatter, unit = None, STEPS
        else:
            scatter = at_least(floor, found.products * (found.episodes / (found.episodes - 1.0)))
    few = 0 if who is None or unit == INDIVIDUALS else len(set(who.tolist()))
    law = inverse if scatter is None else inverse @ scatter @ inverse
    told = {"clusters": found, "unit": unit, "few": few}
    return Errors(law, blind, scatter is not None and found is not None, scatter, **told)


def clusters_of(
    scores: np.ndarray, demonstrations: Observed, least: int, size: int
) -> tuple[Scatter | None, str]:
    """Sums of squared scores of the units, None where only steps are known; and what these are.

    Individuals that are too few for so many parameters are none: errors must not be smaller than
    if nobody had named them.
    """
    loose = demonstrations.episodes == demonstrations.steps
    if not isinstance(demonstrations, Demonstrations):  # nothing else says who was seen
        if loose or not isinstance(demonstrations, PartitionedDemonstrations):
            return None, STEPS if loose else EPISODES
        return demonstrations.scatter(scores), EPISODES
    units = units_of(demonstrations, np.inf if loose else least)
    if units.called == EPISODES or (units.called == INDIVIDUALS and len(units) < 2 * size + 2):
        return (None, STEPS) if loose else (Scatter.of(scores, demonstrations), EPISODES)
    return Scatter.of(scores, demonstrations, units.number), units.called


def units_of(demonstrations: Demonstrations, least: float = np.inf) -> Units:
    """Individuals where they are named; else groups, where there are `least`; else trajectories.

    Groups name who was seen: a mouse, a site.
    """
    who, called = demonstrations.individuals, INDIVIDUALS
    groups = demonstrations.groups
    if who is None and groups is not None and len(set(groups.tolist())) >= max(least, 2):
        who, called = groups, "groups"
    if who is None:
        return Units(np.arange(demonstrations.episodes), EPISODES)
    return Units(np.unique(who, return_inverse=True)[1], called)


def score_scatter(
    scores: np.ndarray, counts: np.ndarray, size: int, demonstrations: Observed
) -> tuple[Scatter | None, np.ndarray, str]:
    """Sums of the units' squared scores, None where steps must do; [D, D] their scatter; the unit.

    Individuals or trajectories are the units where there are enough for so many parameters.
    """
    found, unit = clusters_of(scores, demonstrations, 2 * size + 2, size)
    if found is None or found.episodes < 2 * size + 2:
        return None, information(scores, counts, np.ones(len(counts))), STEPS
    return found, found.products * (found.episodes / (found.episodes - 1.0)), unit


def undecided(fitted: Fit, fisher: np.ndarray, free: np.ndarray) -> np.ndarray:
    """[D] bool, the free parameters and those that only chance may have put on their bound.

    A parameter whose unbounded estimate is within two standard errors of the bound could as well
    be inside: taking it for fixed would make the others look surer than they are. So could one that
    the free ones make up for altogether, which has no slope but rounding.
    """
    inverse, _ = inverse_information(fisher, free)
    known, slope = np.diagonal(fisher), np.abs(fitted.point.gradient)
    left = known - np.einsum("ij,jk,ik->i", fisher, inverse, fisher)
    least = np.where(left > BLIND * known, 4.0 * left, LEVEL_SLOPE * known)
    open_ended = fitted.problem.upper > fitted.problem.lower
    shown = known > SILENT * max(float(known.max(initial=0.0)), 1.0)
    return np.asarray(free | ((slope**2 < least) & open_ended & shown))


def row_errors(rows: np.ndarray, covariance: np.ndarray, blind: np.ndarray) -> np.ndarray:
    """[n] standard errors of rows [n, D] . parameters; infinite where a blind direction moves one.

    NaN where there is none. Of weights, multipliers and budgets the rows are `Gauge.jacobian`.
    """
    known = np.asarray(np.isfinite(rows).all(axis=1))
    safe = np.where(known[:, None], rows, 0.0)
    variance = ((safe @ covariance) * safe).sum(axis=1)
    moved = np.abs(safe @ blind.T).max(axis=1, initial=0.0)
    lost = moved > MOVED * np.maximum(np.abs(safe).max(axis=1, initial=0.0), 1e-300)
    return np.where(known, np.where(lost, np.inf, np.sqrt(np.maximum(variance, 0.0))), np.nan)


def delta_method(
    space: Coordinates | Design,
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
