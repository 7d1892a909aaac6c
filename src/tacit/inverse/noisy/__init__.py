"""Estimators of a demonstrator who errs, and the gauge of their numbers.

Steps tell weights and prices over the temperature alone. The gauge makes numbers of them: reward
weights of norm 1 and a temperature, or, where the temperature is given, weights of a known norm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.engine.backends import backend_of
from tacit.engine.kernels.chains import policy_chain
from tacit.engine.newton_search import Dual, Point, begin, loss_at, newton_step, point_at
from tacit.errors import InvalidModel
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.noisy.boltzmann import Fit, silent, sought
from tacit.inverse.noisy.coordinates import Coordinates
from tacit.model.features import Design
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    from tacit.inverse.noisy.convex import Convex
    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.inverse.noisy.steps import Steps

# A step of this size or less (scaled features), beyond which no value is finite, ends at a border.
NEAR = 1e-3

# Information of what is known beforehand, as a multiple of what the steps say of it at most.
CERTAIN = 1e4


@dataclass(frozen=True, eq=False)
class Ratios:
    """Weights and multipliers are ratios of two linear forms of the parameters.

    Attributes:
        tops: [D + K, D] the numerators: of every weight, then of every multiplier.
        bottoms: [D + K, D] the denominators.
        constants: [D + K] what is added to them.
        sizes: [D + K] values of the denominators; NaN where there is no such weight.
    """

    tops: np.ndarray
    bottoms: np.ndarray
    constants: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """One parameter vector in the gauge.

    Attributes:
        reward_weights: [D] of L1 norm 1; NaN if all parameters of the reward are 0.
        cost_weights: one [D_k] per constraint, sum 1; NaN if its parameters are all 0.
        multipliers: [K].
        budgets: [K] what the expert spends, infinite for an inactive constraint.
        temperature: 1 / |theta_r|, or 1 if all parameters of the reward are 0.
        jacobian: [D + sum D_k + K + K, D] derivative of all of these but the temperature, stacked
            in this order, in the scaled coordinates.
        ratios: what weights and multipliers are made of.
    """

    reward_weights: np.ndarray
    cost_weights: tuple[np.ndarray, ...]
    multipliers: np.ndarray
    budgets: np.ndarray
    temperature: float
    jacobian: np.ndarray
    ratios: Ratios


def points(space: Design, x: np.ndarray, spent: np.ndarray) -> Split:
    """The parameters x [D] in the gauge, without derivatives: for more than fit a matrix [D, D].

    `spent` [D] as in `split`.
    """
    theta, reward = x / space.scales, space.blocks[0]
    norm = float(np.abs(theta[reward]).sum())
    temperature = 1.0 / norm if norm > 0 else 1.0
    weights, prices, budgets = [], [], []
    for block in space.blocks[1:]:
        total = float(theta[block].sum())
        own = theta[block] / total if total > 0 else np.full(block.stop - block.start, np.nan)
        weights.append(own)
        prices.append(temperature * total)
        spending = float(own @ (-spent * space.scales)[block])
        budgets.append(spending if total > 0 else np.inf)
    empty = np.zeros((0, len(x)))
    return Split(
        reward_weights=temperature * theta[reward]
        if norm > 0
        else np.full(len(theta[reward]), np.nan),
        cost_weights=tuple(weights),
        multipliers=np.array(prices),
        budgets=np.array(budgets),
        temperature=temperature,
        jacobian=empty,
        ratios=Ratios(empty, empty, np.zeros(0), np.zeros(0)),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class DeltaMethod:
    """Answers to linear questions about a recovery.

    About single numbers, multiples of one reward weight or of one price, it answers by their own
    intervals; about all else by the delta method, from a covariance.

    Attributes:
        x: [D] the parameters, scaled.
        scales: [D] what the features were divided by.
        sizes: [1 + K] features of the reward, then of each constraint.
        temperature: the demonstrator's noise.
        covariance: [D, D] of the parameters.
        blind: [B, D] directions in which they can move freely.
        quantile: standard errors to either side.
        ends: [D + K, 2] intervals of weights and prices; None where there are none.
    """

    x: np.ndarray
    scales: np.ndarray
    sizes: np.ndarray
    temperature: float
    covariance: np.ndarray
    blind: np.ndarray
    quantile: float
    ends: np.ndarray | None = None

    def __call__(
        self, reward_direction: npt.ArrayLike, cost_directions: Iterable[npt.ArrayLike] = ()
    ) -> tuple[float, float]:
        """The ends of the interval of the directions times the weights."""
        parts = [np.asarray(part, float) for part in (reward_direction, *cost_directions)]
        for k, (part, size) in enumerate(zip(parts, self.sizes, strict=False)):
            if part.shape != (size,) or not np.isfinite(part).all():
                name = f"cost_directions[{k - 1}]" if k else "reward_direction"
                raise InvalidModel(f"{name} must hold {size} finite numbers; got {part!r:.60}")
        parts = parts[: len(self.sizes)]  # constraints that were left out have no price
        parts += [np.zeros(size) for size in self.sizes[len(parts) :]]
        direction = np.concatenate(parts)
        x, scales, temperature = self.x, self.scales, float(self.temperature)
        own = self._single(direction)
        if own is not None:
            return own
        theta = x / scales
        scaled = np.where(direction != 0, direction * theta, 0.0).sum() * temperature
        slope = direction * temperature
        signs = np.zeros(len(x))
        reward = slice(0, int(self.sizes[0]))
        signs[reward] = np.sign(theta[reward])
        slope = (slope - scaled * temperature * signs) / scales
        moved = np.abs(self.blind @ slope).max(initial=0.0)
        if moved > 1e-5 * np.abs(slope).max(initial=1e-300):
            return -np.inf, np.inf
        margin = float(self.quantile) * float(np.sqrt(max(self.variance(slope), 0.0)))
        return float(scaled) - margin, float(scaled) + margin

    def variance(self, slope: np.ndarray) -> float:
        """Of slope [D] . parameters."""
        return float(slope @ self.covariance @ slope)

    def _single(self, direction: np.ndarray) -> tuple[float, float] | None:
        """The ends from the table, where the direction [D] is a multiple of one of its numbers."""
        asked = np.flatnonzero(direction)
        if self.ends is None or len(asked) == 0:
            return None
        factor, row = float(direction[asked[0]]), int(asked[0])
        if len(asked) > 1 or row >= self.sizes[0]:
            # The weights of a constraint sum to 1: all of them alike ask for its price.
            edges = np.cumsum(self.sizes)
            k = int(np.searchsorted(edges, row, side="right"))
            whole = np.arange(len(direction)) >= edges[k - 1]
            whole &= np.arange(len(direction)) < edges[k]
            if k == 0 or not np.array_equal(direction, factor * whole):
                return None
            row = len(direction) + k - 1
        low, high = sorted((factor * self.ends[row]).tolist())
        return low, high


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


def check_plain(options: object, what: str, known: tuple[str, ...] = ()) -> None:
    """Raises `InvalidModel` where an estimator was asked for more than `what` knows of."""
    for name in ("lapses", "prior", "temperature", "bounds", "fixed", "start"):
        given = getattr(options, name, None)
        if given not in (None, False, {}) and name not in known:
            raise InvalidModel(f"{what} must be without {name}: leave it out; got {given!r}")


def weight_findings(steps: Steps) -> list[Finding]:
    """What sampling weights do to an answer, whether it has a maximum or not."""
    worth = float(steps.counts.sum()) / steps.design
    said = (
        "The steps have sampling weights: the weighted likelihood is maximised. All "
        f"{steps.counts.sum():.0f} steps tell as much as {worth:.0f} that weigh the same. What "
        "takes weights for counts is not given: the test of the fit, log-likelihood, AIC and BIC, "
        "and bounds on the sums of trajectories."
    )
    return [Finding(said, Kind.ERRORS, number=steps.design)]


def written_scores(mdp: MDP, space: Design, policy: np.ndarray) -> np.ndarray:
    """[D, S, A] the scores of one step, of all parameters."""
    tables = space.rows(slice(0, mdp.states))
    size, moves = (mdp.states, mdp.actions, space.size), mdp.sparse()
    chain = np.zeros((mdp.states, mdp.states))
    rows, weights = policy_chain(mdp, policy)
    np.add.at(chain, (np.arange(mdp.states)[:, None], rows), weights)
    average = (policy[:, :, None] * tables.reshape(size)).sum(axis=1)
    values = np.linalg.solve(np.eye(mdp.states) - mdp.discount * chain, average)
    scores = tables + mdp.discount * (moves @ values) - np.repeat(values, mdp.actions, axis=0)
    if mdp.restricted:
        scores[~mdp.choices.ravel()] = 0.0
    return np.ascontiguousarray(scores.T).reshape(space.size, mdp.states, mdp.actions)


def check_temperature(options: Likelihood | Convex) -> None:
    """Raises `InvalidModel` unless the temperature that is given makes sense, with the rest."""
    given = options.temperature
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if not number or not 0.0 < float(given) < np.inf:
        raise InvalidModel(f"temperature must be positive and finite; got {given!r:.60}")
    for name in ("lapses", "prior", "ridge", "bounds", "fixed", "start"):
        if other := getattr(options, name, None):
            raise InvalidModel(f"a given temperature must be without {name}; got {name}={other!r}")


def within_norm(space: Coordinates, mdp: MDP, fitted: Fit, options: Likelihood | Convex) -> Fit:
    """The fit that keeps to a given temperature, sought from one that does not know it."""
    assert options.temperature is not None
    return Norm.of(space, fitted, options.temperature).refit(mdp, fitted, options.max_steps)


def norm_findings(fitted: Fit) -> list[Finding]:
    """That the temperature was given, if it was."""
    if (norm := fitted.norm) is None:
        return []
    said = (
        f"The temperature was given, {1.0 / norm.value:.6g}: reward weights over it sum to "
        f"{norm.value:.6g}. Their shares, the prices and the budgets were estimated."
    )
    return [Finding(said, Kind.ASSUMED, number=1.0 / norm.value)]


def at_border(mdp: MDP, fitted: Fit) -> bool:
    """Whether a search ended where, a small step further, no value is finite (discount 1)."""
    if mdp.discount < 1.0 or fitted.converged or not np.isfinite(fitted.point.loss):
        return False
    problem, point, backend = fitted.problem, fitted.point, backend_of(mdp)
    step = np.asarray(newton_step(backend, problem, point))
    step = step / max(1.0, float(np.abs(step).max(initial=0.0)) / NEAR)
    beyond = np.clip(point.x + step, problem.lower, problem.upper)
    return bool(np.isinf(float(loss_at(backend, problem, beyond, point.values, fitted.tolerance))))


def border_findings(mdp: MDP, fitted: Fit) -> list[Finding]:
    """That a search ended where values cease to be finite, if it did."""
    if not at_border(mdp, fitted):
        return []
    said = (
        "No finite value at these weights: the search ended where walking in circles begins to "
        "pay, which at discount 1 is worth more than any number. A step cost among the features, "
        "or a discount below 1, would mend it."
    )
    return [Finding(said, Kind.NOT_CONVERGED)]
