"""Error bars for a fitted noisy expert: information, standard errors, intervals, blind directions.

The score of a step is the advantage of its features, psi(s, a) - V_psi(s), a martingale difference:
the Fisher information of all steps is their covariance, summed over visits, whatever the law of the
states.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Protocol, TypedDict, cast

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed, scatter_of
from tacit.data.tally import Scatter
from tacit.engine.backends import backend_of
from tacit.engine.newton_search import begin
from tacit.engine.smooth_dual import Dual, Point, point_at
from tacit.errors import InvalidModel
from tacit.inverse.noisy.boltzmann import Fit, sought
from tacit.inverse.noisy.coordinates import Coordinates, Split
from tacit.inverse.numerics import at_least as at_least
from tacit.inverse.numerics import square_roots as square_roots
from tacit.inverse.parameters import BLIND, inverse_information
from tacit.model.mdp import MDP

# Information a step below which a feature influences nothing but rounding.
SILENT = 1e-20
# Squared slope of the loss, relative to its information, that only rounding makes.
LEVEL_SLOPE = 1e-6
# What scores are taken to be independent between, where it is nothing larger.
STEPS = "steps"
# Trajectories per parameter from which the clustered sandwich is trusted.
CLUSTERS = 10
# Information of what is known beforehand, as a multiple of what the steps say of it at most.
CERTAIN = 1e4


class Noisy(Protocol):
    """The options of an estimator that may be given the temperature."""

    @property
    def temperature(self) -> float | None:
        """In units of reward weights that sum to 1."""
        ...

    @property
    def max_steps(self) -> int:
        """Most evaluations of the loss."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Norm:
    """The L1 norm of the reward parameters, known because the temperature is: 1 / temperature.

    A fit that keeps to it is the minimum of the loss plus pull * (form . x - value): the target of
    its problem is less by pull * form, its loss is that of the steps alone.

    Attributes:
        form: [D] the norm is form . x within the signs; 0 for what changes nothing.
        value: of the norm.
        pull: what a larger norm would cost or, if negative, gain.
        free_loss: of the fit that does not know the norm.
        free_value: of the norm there.
    """

    form: np.ndarray
    value: float
    pull: float = 0.0
    free_loss: float = np.nan
    free_value: float = np.nan

    @classmethod
    def of(cls, space: Coordinates, fitted: Fit, temperature: float) -> Norm:
        """The norm at a given temperature; `fitted` is the fit that does not know it."""
        reward, problem = space.blocks[0], fitted.problem
        signs = np.where(problem.lower >= 0, 1.0, np.where(problem.upper <= 0, -1.0, np.nan))
        if np.isnan(signs[reward]).any():
            raise InvalidModel(
                "a given temperature needs reward weights of known sign, which sum to 1: leave out "
                "free_reward, and negate features that are disliked; got free signs"
            )
        form = np.zeros(space.size)
        form[reward] = signs[reward] / space.scales[reward]
        shown = ~silent(fitted.point.curvature, float(problem.information.sum()))
        form *= shown & (problem.upper > problem.lower)
        if not form.any():
            raise InvalidModel(
                "a given temperature needs a reward that changes what is done; got none"
            )
        found = float(form @ fitted.point.x)
        free_loss = float(fitted.point.loss)
        return cls(form=form, value=1.0 / temperature, free_loss=free_loss, free_value=found)

    def refit(self, mdp: MDP, fitted: Fit, max_steps: int, **changes: np.ndarray) -> Fit:
        """The minimum with this norm, some fields of the problem changed, sought from a fit.

        One parameter makes up for what the others add up to. If it would leave its bounds to do so,
        it is on a bound at the minimum, and another one makes up for it.
        """
        form, whole = self.form, fitted.problem
        whole = whole._replace(target=whole.target + self.pull * form)._replace(**changes)
        x, point, steps = np.clip(fitted.point.x, whole.lower, whole.upper), fitted.point, 0
        able, at = (form != 0) & (whole.upper > whole.lower), 0
        if form @ x > 0:
            x = np.clip(x * (self.value / float(form @ x)), whole.lower, whole.upper)
        while able.any():
            at = int(np.argmax(np.where(able, form * x, -np.inf)))
            rest = np.arange(len(x)) != at
            shares = form[rest] / form[at]
            same = {
                name: getattr(whole, name)[rest]
                for name in ("lower", "upper", "ridge", "unit", "scale")
            }
            less: Dual = whole._replace(
                base=whole.base + self.value / form[at] * whole.tables[at],
                tables=whole.tables[rest] - shares[:, None, None] * whole.tables[at],
                target=whole.target[rest] - shares * whole.target[at],
                **same,
            )
            found = sought(mdp, less, x[rest], point.values, fitted.tolerance, max_steps)
            point, steps = found.point, steps + found.steps
            x = np.insert(point.x, at, 0.0)
            x[at] = (self.value - float(form @ x)) / form[at]
            if whole.lower[at] <= x[at] <= whole.upper[at]:
                break
            able[at], x = False, np.clip(x, whole.lower, whole.upper)
        ridge = np.where(np.arange(len(x)) == at, 0.0, whole.ridge)
        whole = whole._replace(ridge=ridge)
        if not np.isfinite(point.loss):
            here = begin(whole, x, point.values).point
            return Fit(whole, here, steps, fitted.tolerance, norm=replace(self, pull=0.0))
        here = point_at(backend_of(mdp), whole, x, point.values, fitted.tolerance)
        here = Point(*(np.asarray(part) for part in here))
        pull = -float(here.gradient[at] / form[at])
        here = here._replace(gradient=here.gradient + pull * form)
        whole = whole._replace(target=whole.target - pull * form)
        return Fit(whole, here, steps, fitted.tolerance, norm=replace(self, pull=pull))

    def information(self, fisher: np.ndarray) -> np.ndarray:
        """[D, D] of knowing the norm, beside that of the steps [D, D]: so much that it is sure."""
        known = self.form != 0
        most = float((np.diagonal(fisher)[known] / self.form[known] ** 2).max())
        return CERTAIN * most * np.outer(self.form, self.form)

    def tangents(self, free: np.ndarray) -> np.ndarray:
        """[n, D] the directions in which the free parameters can move without changing the norm."""
        form, moves = np.where(free, self.form, 0.0), np.eye(len(free))
        at = int(np.abs(form).argmax())
        if form[at] == 0.0:
            return moves[free]
        others = free & (np.arange(len(free)) != at)
        return moves[others] - np.outer(form[others] / form[at], moves[at])


def check_temperature(options: Noisy) -> None:
    """Raises `InvalidModel` unless a temperature that is given makes sense, with the rest."""
    given = options.temperature
    if given is None:
        return
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if not number or not 0.0 < given < np.inf:
        raise InvalidModel(f"temperature must be positive and finite; got {given!r:.60}")
    for name in ("lapses", "prior", "ridge", "bounds", "fixed", "start"):
        if other := getattr(options, name, None):
            raise InvalidModel(f"a given temperature must be without {name}; got {name}={other!r}")


def check_plain(options: object, what: str, known: tuple[str, ...] = ()) -> None:
    """Raises `InvalidModel` where an estimator was asked for more than `what` knows of."""
    for name in ("lapses", "prior", "temperature", "bounds", "fixed", "start"):
        given = getattr(options, name, None)
        if given not in (None, False, {}) and name not in known:
            raise InvalidModel(f"{what} must be without {name}: leave it out; got {given!r}")


def with_temperature(options: Noisy) -> str:
    """The estimator in words, a temperature that was given among them."""
    given = options.temperature
    return repr(options) if given is None else f"{repr(options)[:-1]}, temperature={given!r})"


def within_norm(space: Coordinates, mdp: MDP, fitted: Fit, options: Noisy) -> Fit:
    """The fit that keeps to a given temperature; the one that is there where none was given."""
    given = options.temperature
    if given is None:
        return fitted
    return Norm.of(space, fitted, given).refit(mdp, fitted, options.max_steps)


class Scored(TypedDict):
    """The directions in which a fit could move."""

    scores: np.ndarray  # [n, S, A]
    free: np.ndarray  # [n] bool


def fitted_scores(fitted: Fit, scores: np.ndarray) -> Scored:
    """The scores [D, S, A] of a fit; of its free directions alone where the norm is known."""
    if fitted.norm is None:
        return {"scores": scores, "free": fitted.free}
    moves = fitted.norm.tangents(fitted.free)
    return {"scores": np.tensordot(moves, scores, 1), "free": np.ones(len(moves), bool)}


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
    """

    covariance: np.ndarray
    blind: np.ndarray
    clustered: bool
    scatter: np.ndarray | None = None
    _: KW_ONLY
    clusters: Scatter | None = None
    unit: str = STEPS


def advantages(mdp: MDP, space: Coordinates, fitted: Fit) -> np.ndarray:
    """[D, S, A] the score of one step: its features and all that follow, less the average."""
    result = np.empty(space.tables.shape)
    for d, values in enumerate(fitted.point.table_values):
        later = mdp.discount * mdp.expected_next(np.ascontiguousarray(values))
        result[d] = space.tables[d] + later - values[:, None]
    if mdp.restricted:
        result[:, ~mdp.choices] = 0.0  # never taken, and nothing at an end is chosen
    return result


def information(scores: np.ndarray, policy: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """[D, D] sum over states of visits [S] times the covariance of the scores under the policy."""
    flat = scores.reshape(len(scores), -1)
    return (flat * (visits[:, None] * policy).ravel()) @ flat.T


def errors(
    fisher: np.ndarray,
    free: np.ndarray,
    scores: np.ndarray,
    demonstrations: Observed,
) -> Errors:
    """The `Errors` of the free parameters, clustered by trajectory where those are many.

    Args:
        fisher: [D, D] information of all steps.
        free: [D] bool, the parameters that no bound holds.
        scores: [D, S, A].
        demonstrations: the steps.
    """
    inverse, blind = inverse_information(fisher, free)
    least = CLUSTERS * max(int(free.sum()), 1)
    found, unit = clusters_of(scores, demonstrations, least)
    if found is None or found.episodes < least:
        return Errors(inverse, blind, False, None, clusters=found)
    scatter = found.products * (found.episodes / (found.episodes - 1.0))
    scatter = at_least(fisher, scatter)
    return Errors(inverse @ scatter @ inverse, blind, True, scatter, clusters=found, unit=unit)


def clusters_of(
    scores: np.ndarray, demonstrations: Observed, least: int
) -> tuple[Scatter | None, str]:
    """Sums of squared scores of the units, None where only steps are known; and what these are.

    Individuals where they are named; else groups, which name who was seen, where there are `least`
    of them; else trajectories.
    """
    if demonstrations.episodes == demonstrations.steps:
        return None, STEPS
    who, unit = getattr(demonstrations, "individuals", None), "individuals"
    groups = getattr(demonstrations, "groups", None)
    if who is None and groups is not None and len(set(groups.tolist())) >= max(least, 2):
        who, unit = groups, "groups"
    if who is None:
        return scatter_of(scores, demonstrations), "trajectories"
    named = cast(Demonstrations, demonstrations)  # nothing else says who was seen
    return Scatter.of(scores, named, np.unique(who, return_inverse=True)[1]), unit


def robust_errors(
    bread: np.ndarray,
    free: np.ndarray,
    scores: np.ndarray,
    counts: np.ndarray,
    demonstrations: Observed,
) -> Errors:
    """The `Errors` where the model does not fit: those of its best approximation.

    Args:
        bread: [D, D] curvature of the loss.
        free: [D] bool, the parameters that no bound holds.
        scores: [D, S, A].
        counts: [S, A] how often each action was taken.
        demonstrations: the steps.
    """
    inverse, blind = inverse_information(bread, free)
    found, scatter, unit = score_scatter(scores, counts, int(free.sum()), demonstrations)
    return Errors(
        inverse @ scatter @ inverse, blind, found is not None, scatter, clusters=found, unit=unit
    )


def score_scatter(
    scores: np.ndarray, counts: np.ndarray, size: int, demonstrations: Observed
) -> tuple[Scatter | None, np.ndarray, str]:
    """Sums of the units' squared scores, None where steps must do; [D, D] their scatter; the unit.

    Individuals or trajectories are the units where there are enough for so many parameters.
    """
    found, unit = clusters_of(scores, demonstrations, 2 * size + 2)
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


def gauge_errors(split: Split, found: Errors) -> np.ndarray:
    """Standard errors of weights, multipliers and budgets, in the order of `split.jacobian`.

    Infinite where a blind direction moves the number, NaN where there is none.
    """
    rows = split.jacobian
    known = np.asarray(np.isfinite(rows).all(axis=1))
    safe = np.where(known[:, None], rows, 0.0)
    variance = np.einsum("ij,jk,ik->i", safe, found.covariance, safe)
    result = np.where(known, np.sqrt(np.maximum(variance, 0.0)), np.nan)
    if len(found.blind):
        moved = np.abs(safe @ found.blind.T).max(axis=1)
        size = np.maximum(np.abs(safe).max(axis=1), 1e-300)
        result = np.where(known & (moved > 1e-5 * size), np.inf, result)
    return result


def silent(fisher: np.ndarray, steps: float) -> np.ndarray:
    """[D] bool, the parameters that no action ever depends on."""
    return np.asarray(np.diagonal(fisher) <= SILENT * max(steps, 1.0))
