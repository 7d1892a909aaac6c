"""A fitted noisy expert: the minimum of the smooth dual over the parameters, its coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tacit.engine.backends import Host, backend_of
from tacit.errors import InvalidModel
from tacit.forward.soft_dual import finite_start
from tacit.forward.solution import conclude
from tacit.inverse.assembly import Estimate, objective_of
from tacit.inverse.parameters import Parameters
from tacit.inverse.sets import unmeasured
from tacit.model.mdp import MDP
from tacit.model.objective import Features, coefficient_names
from tacit.search.minimise import Stage
from tacit.search.operators import Matrices
from tacit.search.smooth_dual import (
    Dual,
    Point,
    blank,
    extended,
    loss_at,
    minimum,
    point_at,
    restricted,
)

if TYPE_CHECKING:
    from tacit.inference.gauge import Gauge
    from tacit.inverse.noisy.evidence import Evidence
    from tacit.inverse.noisy.known import Norm
    from tacit.inverse.noisy.steps import Coordinates, Steps

# Scaled features have range one. Far beyond any plausible parameter, even where one extreme entry
# makes the range of a feature and all others differ by a thousandth of it.
LARGEST = 1e5

# Information a step below which a feature influences nothing but rounding.
SILENT = 1e-20

# A search that has come this far without an end (in nats a step) is after an infinite parameter.
FAR = 30.0

# A step whose loss would rise by half as many thresholds, were it a parabola, is not flat.
DEAR = 1e3

Amount = TypeVar("Amount", float, np.ndarray)
# Pull towards 0 taken when the demonstrations alone determine no finite parameters.
RESCUE = 1e-3
NOWHERE = (
    "discount 1 needs weights under which walking in circles does not pay, and no weights of these "
    "features within their signs are such: add a feature that every step pays (a step cost), let "
    "reward weights be negative (free_reward=True), or take a discount below 1"
)


@dataclass(frozen=True, eq=False)
class Fit:
    """A minimum, and what is needed to judge it.

    Attributes:
        problem: the objective that was minimised.
        point: where it was left.
        steps: evaluations taken.
        tolerance: what was asked.
        norm: what was known of the parameters beforehand, if the temperature was.
    """

    problem: Dual
    point: Point
    steps: int
    tolerance: float
    norm: Norm | None = field(default=None, kw_only=True)

    @property
    def free(self) -> np.ndarray:
        """[D] bool, the parameters that no bound holds."""
        return (self.point.x > self.problem.lower) & (self.point.x < self.problem.upper)

    @property
    def projected_gradient(self) -> float:
        """Largest entry of the gradient that no bound holds back, relative to its scale."""
        x, gradient = self.point.x, self.point.gradient
        held = (x <= self.problem.lower) & (gradient > 0)
        held |= (x >= self.problem.upper) & (gradient < 0)
        return float(np.abs(np.where(held, 0.0, gradient / self.problem.scale)).max(initial=0.0))

    @property
    def converged(self) -> bool:
        """Whether the projected gradient met the tolerance and the values are those of a policy."""
        size = 1.0 + float(np.abs(self.point.values).max())
        return self.projected_gradient <= self.tolerance and self.point.residual <= 1e-8 * size

    @property
    def objective_gap(self) -> float:
        """Bound on how far the loss is above its minimum, by convexity, in the fit's own curvature.

        Half the squared Newton decrement: exact for a quadratic, and the decrement is tiny here.
        """
        free = self.free
        if not free.any():
            return 0.0
        gradient = self.point.gradient[free]
        curvature = self.point.curvature[np.ix_(free, free)]
        return float(0.5 * gradient @ np.linalg.lstsq(curvature, gradient, rcond=None)[0])


def fit(
    mdp: MDP,
    space: Coordinates,
    start: np.ndarray,
    target: np.ndarray,
    *,
    lower: np.ndarray,
    tolerance: float,
    max_steps: int,
    ridge: float = 0.0,
    information: np.ndarray | None = None,
    x: np.ndarray | None = None,
    values: np.ndarray | None = None,
    upper: np.ndarray | None = None,
) -> Fit:
    """The minimum of start . V_soft(x . tables) - x . target + ridge |x|^2 / 2.

    Args:
        mdp: the model.
        space: its coordinates.
        start: [S] weights of the states.
        target: [D] sums of the tables to be matched.
        lower: [D] bounds.
        tolerance: projected gradient to reach, relative to its scale.
        max_steps: most evaluations.
        ridge: strength of the pull towards 0, on scaled features.
        information: [S] weights for the curvature where the objective may not be convex.
        x: [D] where to begin.
        values: [S] likewise.
        upper: [D] bounds; far beyond any plausible parameter by default.
    """
    ones = np.ones(space.size)
    problem = Dual(
        start=start,
        discount=mdp.discount,
        temperature=1.0,
        base=np.zeros((mdp.states, mdp.actions)),
        tables=space.tables,
        target=target,
        lower=lower,
        upper=LARGEST * ones if upper is None else upper,
        ridge=ridge * ones,
        unit=ones,
        # A feature of range one collects at most this much.
        scale=over_an_episode(mdp, max(float(np.abs(start).sum()), 1e-300)) * ones,
        information=np.zeros(mdp.states) if information is None else information,
    )
    x = np.clip(np.zeros(space.size), problem.lower, problem.upper) if x is None else x
    values = np.zeros(mdp.states) if values is None else values
    found = sought(mdp, problem, x, values, tolerance, max_steps)
    if mdp.discount == 1.0 and np.isinf(found.point.loss):
        raise InvalidModel(NOWHERE)
    return found


def over_an_episode(mdp: MDP, amount: Amount) -> Amount:
    """This amount a step, over an episode: 1 / (1 - discount) steps, or a walk to an end.

    A scale: at discount 1 an episode may be longer than any number.
    """
    return amount / (1.0 - mdp.discount) if mdp.discount < 1.0 else amount * mdp.horizon


def refit(mdp: MDP, fitted: Fit, *, max_steps: int = 300, **changes: np.ndarray) -> Fit:
    """The minimum of the fitted problem with some of its fields changed, sought from the fit.

    Its loss is infinite where no value is finite within the bounds (discount 1).
    """
    if fitted.norm is not None:
        return fitted.norm.refit(mdp, fitted, max_steps, **changes)
    problem = fitted.problem._replace(**changes)
    x = np.clip(fitted.point.x, problem.lower, problem.upper)
    return sought(mdp, problem, x, fitted.point.values, fitted.tolerance, max_steps)


def refit_moving(mdp: MDP, fitted: Fit, near: Fit, *, max_steps: int, **changes: np.ndarray) -> Fit:
    """What `refit` finds, for large models sought from the fit `near`, and with less work.

    Derivatives in parameters that cannot move are left out: 0, until the fit is `completed`.
    """
    if fitted.norm is not None or not isinstance(backend_of(mdp), Host):
        return refit(mdp, fitted, max_steps=max_steps, **changes)
    problem = fitted.problem._replace(**changes)
    x, moving = np.clip(near.point.x, problem.lower, problem.upper), problem.upper > problem.lower
    part = restricted(problem, x, moving)
    found = sought(mdp, part, x[moving], near.point.values, fitted.tolerance, max_steps)
    point = extended(problem, x, moving, found.point)
    return Fit(problem, point, found.steps, fitted.tolerance)


def completed(mdp: MDP, fitted: Fit) -> Fit:
    """The same fit with all derivatives, after `refit_moving`."""
    problem, point = fitted.problem, fitted.point
    if fitted.norm is not None or not isinstance(backend_of(mdp), Host):
        return fitted
    given = (problem, point.x, point.values, fitted.tolerance)
    return replace(fitted, point=point_at(backend_of(mdp), *given, near=point))


def sought(
    mdp: MDP,
    problem: Dual,
    x: np.ndarray,
    values: np.ndarray,
    tolerance: float,
    max_steps: int,
    *,
    ties: np.ndarray | None = None,
) -> Fit:
    """The `Fit` from this start, as a search that can be watched; ties [E, D] of x stay as is."""
    if mdp.discount == 1.0:
        begun = finite_start(mdp, problem, x, tolerance, ties=ties)
        if begun is None:
            return Fit(problem, blank(problem, x, values), 0, tolerance)
        x, values = begun
    inputs = (problem, x, values, tolerance, max_steps, mdp.transitions)
    given = (backend_of(mdp), problem, x, values, tolerance, max_steps)
    point, steps = minimum(*given, ties=ties, stage=Stage("fit", inputs))
    return Fit(problem, point, steps, tolerance)


def loss_of(mdp: MDP, fitted: Fit, x: np.ndarray) -> float:
    """The loss of the fitted problem at other parameters, without its ridge."""
    bare = fitted.problem._replace(ridge=np.zeros(len(x)))
    return float(loss_at(backend_of(mdp), bare, x, fitted.point.values, fitted.tolerance))


def looks_deterministic(mdp: MDP, fitted: Fit, threshold: float) -> bool:
    """Whether larger parameters explain the expert as well: its noise is too small to see."""
    problem, point = fitted.problem, fitted.point
    loss = partial(loss_of, mdp, fitted)
    bounds = {"lower": problem.lower, "upper": problem.upper}
    return is_boundless(loss, point.x, **bounds, curvature=point.curvature, threshold=threshold)


def is_boundless(
    loss: Callable[[np.ndarray], float],
    x: np.ndarray,
    *,
    lower: np.ndarray,
    upper: np.ndarray,
    curvature: np.ndarray,
    threshold: float,
) -> bool:
    """Whether the minimum at x [D] is an infinite one: the loss is flat along larger parameters.

    At a proper optimum doubling costs half the parameters' own information; an expert without noise
    sends the scale to infinity, along which the loss is flat. Where all but a few choices are
    certain, those few stay as they are meanwhile (`outward_step`).
    """
    moving = upper > lower  # a parameter that is given runs nowhere
    if not np.abs(x[moving]).max(initial=0.0) > 1.0:
        return False
    upper = np.where(upper < LARGEST, upper, np.inf)
    step = np.clip(np.where(moving, 2.0, 1.0) * x, lower, upper) - x
    if not np.abs(step).max(initial=0.0) > 1.0:  # its bounds keep it here
        return False
    bent = outward_step(step[None], curvature[None])[0]
    if bent @ curvature @ bent > DEAR * threshold:  # no need to look
        return False
    here = loss(x)
    if loss(x + step) - here < threshold:
        return True
    if not loss(np.clip(x + bent, lower, upper)) - here < threshold:
        return False
    # A direction of which nothing is known is as flat from 0.
    return abs(loss(bent) - loss(np.zeros(len(x)))) >= threshold


def outward_step(step: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """[N, D] steps [N, D] bent to where curvatures [N, D, D] see least of them.

    Every coordinate goes at least half of its way. Two actions that are taken equally often, by an
    expert whose other choices are certain, pin down one sum of large parameters: to double that sum
    would be dear, and parameters may run off to infinity beside it.
    """
    slope = (curvature @ step[:, :, None])[:, :, 0]
    leeway = 0.5 * np.abs(step)
    return step + Matrices(curvature).bounded_step(slope, -leeway, leeway)


def rescued(
    mdp: MDP, fitted: Fit, threshold: float, max_steps: int, *, ridge: float = RESCUE
) -> tuple[Fit, bool]:
    """A fit with finite parameters, and whether that took a ridge because the best are infinite."""
    moving = fitted.problem.upper > fitted.problem.lower
    far = float(np.abs(fitted.point.x[moving]).max(initial=0.0)) > FAR
    runs_away = looks_deterministic(mdp, fitted, threshold) if fitted.converged else far
    if not runs_away or fitted.problem.ridge.any():
        return fitted, False
    return refit(mdp, fitted, max_steps=max_steps, ridge=np.full(len(fitted.point.x), ridge)), True


def estimate_of(
    mdp: MDP, features: Features, fitted: Fit, gauge: Gauge, reached: np.ndarray, *, off: float
) -> Estimate:
    """The `Estimate` of a fit, of which is still to be said how well it is known.

    Nothing is solved again: `reached` [S, A] is the visitation of the fitted policy, and
    temperature * values of the fit are the values at that temperature. `off` was taken off all
    values with the features.
    """
    objective = objective_of(features, gauge)
    solution = conclude(
        mdp,
        objective,
        reached,
        gauge.temperature * (fitted.point.values + off),
        gauge.multipliers,
        tolerance=1e-6,
        temperature=gauge.temperature,
        policy=fitted.point.policy,
        iterations=fitted.steps,
    )
    return Estimate(
        objective=objective,
        solution=solution,
        reward_weights=gauge.reward_weights,
        cost_weights=gauge.cost_weights,
        converged=fitted.converged,
        history={"loss": [fitted.point.loss], "evaluations": [fitted.steps]},
        certificate={"projected_gradient": fitted.projected_gradient},
    )


def bounds_of(
    fitted: Fit, scales: np.ndarray, given: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """[D] smallest and largest coefficients allowed, None where none is the largest.

    Those that are `given` [D] bool have none: no test or interval of theirs meets a bound.
    """
    problem = fitted.problem
    lower = np.where(given | np.isinf(problem.lower), -np.inf, problem.lower) / scales
    upper = np.where(given | (problem.upper >= LARGEST), np.inf, problem.upper) / scales
    return lower, None if np.isinf(upper).all() else upper


def coefficients_of(
    steps: Steps, features: Features, evidence: Evidence, kept: Fit, given: np.ndarray
) -> Parameters:
    """The coefficients of the fit `kept`, with the standard errors of the one with all.

    Those that are `given` [D] bool were fixed beforehand: they have no error.
    """
    space, fitted, found = steps.space, evidence.fitted, evidence.found
    names = coefficient_names(features.reward_names, features.cost_names)
    points = kept.point.x / space.scales
    # A constraint that was dropped is on its bound like any other cost without a price.
    lower, upper = bounds_of(fitted, space.scales, given)
    if evidence.absence:
        return unmeasured(names, points, lower=lower, absence=evidence.absence)
    nothing, norm = np.full(evidence.fisher.shape, np.nan), fitted.norm
    parts = (evidence.fisher, evidence.outer)
    fisher, outer = parts if norm is None else (one + norm.information(one) for one in parts)
    if norm is not None:
        # None is more than all of the reward; a hair above, where one is all of it, is no bound.
        upper = np.where(norm.form != 0, norm.value * (1.0 + 1e-12), np.inf)
    return Parameters(
        names=names,
        estimates=points,
        jacobian=np.diag(np.where(given, 0.0, 1.0 / space.scales)),
        information=fisher,
        outer=outer,
        scatter=nothing if found.clusters is None else found.clusters.products,
        gradient=fitted.point.gradient,
        free=evidence.free,
        lower=lower,
        limits=evidence.limits / space.scales,
        trajectories=0 if found.clusters is None else found.clusters.episodes,
        errors="clustered" if found.clustered else "sandwich" if evidence.robust else "fisher",
        unrestricted=None if kept is fitted else fitted.point.x / space.scales,
        conditions=int(fitted.norm is not None),
        upper=upper,
        weighted=steps.squares is not None,
        dynamics=None if evidence.noise is None else evidence.noise.added(),
        attenuation=1.0 if evidence.noise is None else evidence.noise.attenuation,
    )


def silent(fisher: np.ndarray, steps: float) -> np.ndarray:
    """[D] bool, the parameters that no action ever depends on."""
    return np.asarray(np.diagonal(fisher) <= SILENT * max(steps, 1.0))
