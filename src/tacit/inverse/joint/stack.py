"""One search for several tasks: the minimum of sum_e F_e(x_e(z)) over the joint parameters z.

Each F_e is a task's minus log-likelihood with its own model; the link gives x_e(z). With a linear
link the sum is as convex as its terms. With shared directions it is convex in the directions for
given sizes and the other way round, not in both at once: its minimum is a local one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.data.observed import Observed
from tacit.engine.backends import backend_of
from tacit.inference.counted_rows import CountedRows
from tacit.inference.goodness import FittedChoices
from tacit.inference.tails import holm
from tacit.inverse.diagnostics import Goodness, goodness_of, untested
from tacit.inverse.joint import Link
from tacit.likelihood.problem import Fit
from tacit.inverse.noisy.counted import policy_noise
from tacit.inverse.noisy.inference import advantages
from tacit.likelihood.chain import information
from tacit.likelihood.chain import Chain
from tacit.model.mdp import MDP
from tacit.search import minimise
from tacit.search.operators import Matrices
from tacit.search.smooth_dual import Dual, Point, point_at


def posed(
    lower: np.ndarray,
    upper: np.ndarray,
    scale: np.ndarray,
    *,
    ridge: float = 0.0,
    discount: float | None = None,
) -> Dual:
    """The search within the bounds [D], of gradients of this scale [D], as a Newton step reads it.

    A search of steps has their number as its scale.
    """
    ones = np.ones(len(lower))
    return Dual(
        start=None,
        discount=discount,
        temperature=1.0,
        base=None,
        tables=None,
        target=ones,
        lower=lower,
        upper=upper,
        ridge=ridge * ones,
        unit=ones,
        scale=scale,
        information=scale[:1],
    )


def descend(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    units: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
) -> tuple[float, np.ndarray]:
    """The smallest loss found within the bounds, and where; coordinates in units of their own."""
    from scipy.optimize import minimize

    best = [loss(start)[0], start]

    def scaled(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = loss(z * units)
        if not np.isfinite(value):  # no finite values there: far, and downhill nowhere
            return abs(best[0]) * 10.0 + 1e6, np.zeros_like(z)
        if value < best[0]:
            best[:] = value, z * units
        return value, slope * units

    lower, upper = bounds
    within = list(zip(lower / units, upper / units, strict=True))
    minimize(scaled, start / units, jac=True, method="L-BFGS-B", bounds=within)
    return float(best[0]), np.array(best[1])


@dataclass(frozen=True, eq=False)
class StackFit:
    """A minimum over the joint parameters, and the same in the parameters of every task.

    Of the whole, only what belongs to the joint parameters is filled in.
    """

    link: Link
    whole: Fit
    parts: tuple[Fit, ...]

    @property
    def z(self) -> np.ndarray:
        """[n] the joint parameters."""
        return self.whole.z

    @property
    def points(self) -> list[Point]:
        """Those of the tasks."""
        return [part.point for part in self.parts]

    @property
    def loss(self) -> float:
        """Minus the log-likelihood of all tasks."""
        return self.whole.loss


@dataclass(frozen=True, eq=False)
class Stack:
    """Several tasks' likelihoods.

    Attributes:
        steps: one per task.
        problems: one per task, its likelihood as a smooth dual.
        tolerance: projected gradient to reach, relative to its scale.
        max_steps: most evaluations of all tasks.
    """

    steps: tuple[Chain, ...]
    problems: tuple[Dual, ...]
    tolerance: float
    max_steps: int

    @property
    def ridged(self) -> bool:
        """Whether a task's likelihood has no maximum by itself, so that a ridge was taken."""
        return any(problem.ridge.any() for problem in self.problems)

    def fit(self, link: Link, z: np.ndarray, near: Sequence[Point]) -> StackFit:
        """The minimum of the sum, from z [n] and points nearby."""
        end = minimise.minimise(
            StackProblem(self, link, near),
            minimise.begin(z[None]),
            tolerance=self.tolerance,
            max_steps=self.max_steps,
        )
        assert end.point is not None
        points, count = end.point.detail, int(end.evaluations[0])
        if not np.isfinite(end.loss[0]):  # at z some task has no finite value (discount 1)
            points = [
                point._replace(
                    loss=np.inf,
                    gradient=np.zeros(len(point.x)),
                    curvature=np.zeros((len(point.x), len(point.x))),
                    residual=np.inf,
                )
                for point in points
            ]
        problem, here = self._joined(link, end.z[0], points)
        pairs = zip(self.problems, points, strict=True)
        parts = tuple(Fit(*pair, count, self.tolerance) for pair in pairs)
        return StackFit(link, Fit(problem, here, count, self.tolerance), parts)

    def information(self, fitted: StackFit) -> tuple[np.ndarray, ...]:
        """One [D, D] per task: the information of its steps about its own parameters."""
        parts = zip(self.scores(fitted), fitted.parts, self.steps, strict=True)
        return tuple(information(own, fit.parts[0].policy, one.visits) for own, fit, one in parts)

    def scores(self, fitted: StackFit) -> list[np.ndarray]:
        """One [D, S, A] per task: the scores of single steps."""
        pairs = zip(self.steps, fitted.parts, strict=True)
        return [advantages(steps.mdp, steps.space, part) for steps, part in pairs]

    def loss_at(self, fitted: StackFit, z: np.ndarray) -> float:
        """Minus the log-likelihood of all tasks at other joint parameters."""
        return sum(float(one.loss) for one in self.points(fitted.link, z, fitted.points))

    def elsewhere(self, mdps: Sequence[MDP]) -> Stack:
        """The likelihoods of the same steps in other worlds, one a task."""
        pairs = zip(mdps, self.steps, strict=True)
        steps = tuple(Chain.counted(mdp, one.space, one.counts) for mdp, one in pairs)
        starts = zip(self.problems, steps, strict=True)
        problems = tuple(problem._replace(start=one.start) for problem, one in starts)
        return replace(self, steps=steps, problems=problems)

    def slopes(self, fitted: StackFit, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[n] gradient and [n, n] curvature of the sum at joint parameters near a fit."""
        _, here = self._joined(fitted.link, z, self.points(fitted.link, z, fitted.points))
        return here.gradient, here.curvature

    def points(self, link: Link, z: np.ndarray, near: Sequence[Point]) -> list[Point]:
        """Those of the tasks at z [n], from points nearby."""
        points = []
        for e, x in enumerate(link.parameters(z)):
            guess = near[e].values + (x - near[e].x) @ near[e].table_values
            backend = backend_of(self.steps[e].mdp)
            points.append(point_at(backend, self.problems[e], x, guess, self.tolerance))
        return points

    def _joined(self, link: Link, z: np.ndarray, points: list[Point]) -> tuple[Dual, Point]:
        """The sum in the words of a single problem: all that a judgement reads."""
        whole = StackProblem(self, link, points).joined(z, points)
        problem, gradient = posed(link.lower, link.upper, whole.scale[0]), whole.gradient
        free = ((z > link.lower) | (gradient < 0)) & ((z < link.upper) | (gradient > 0))
        assert isinstance(whole.curvature, Matrices)
        point = Point(
            x=z,
            loss=float(whole.loss[0]),
            gradient=gradient[0],
            curvature=whole.curvature.bent_up(free)[0],
            values=np.concatenate([point.values for point in points]),
            table_values=None,
            policy=None,
            visits=None,
            residual=max(float(point.residual) for point in points),
        )
        return problem, point


class StackProblem:
    """The sum of the tasks' losses over the joint parameters, as the search asks for it."""

    ties = None
    exact = True

    def __init__(self, stack: Stack, link: Link, near: Sequence[Point]) -> None:
        self.lower, self.upper, self.unit = link.lower, link.upper, np.ones(len(link.lower))
        self._stack, self._link, self._near = stack, link, near

    def at(
        self,
        z: np.ndarray,
        rows: np.ndarray,
        near: minimise.Point | None,
        precision: np.ndarray,
        *,
        lean: bool = False,
    ) -> minimise.Point:
        """The loss and its derivatives at z [1, n]; see `minimise.Problem`."""
        before = self._near if near is None else near.detail
        return self.joined(z[0], self._stack.points(self._link, z[0], before))

    def joined(self, z: np.ndarray, points: list[Point]) -> minimise.Point:
        """The sum of the tasks' points at z [n].

        Far from a minimum the bend of the link can make the sum curve downwards: then without it.
        """
        size = len(z)
        gradient, scale = np.zeros(size), np.zeros(size)
        flat, bend = np.zeros((size, size)), np.zeros((size, size))
        for e, (point, task) in enumerate(zip(points, self._stack.problems, strict=True)):
            inner = self._link.jacobian(e, z)
            gradient += inner.T @ point.gradient
            flat += inner.T @ point.curvature @ inner
            bend += self._link.bend(e, point.gradient)
            scale += np.abs(inner).T @ task.scale
        loss = sum(float(point.loss) for point in points)
        pairs = zip(points, self._stack.problems, strict=True)
        size_of = sum(abs(p.loss) + np.abs(p.x) @ np.abs(task.target) for p, task in pairs)
        return minimise.Point(
            loss=np.array([loss]),
            gradient=gradient[None],
            curvature=Matrices((flat + bend)[None], flat[None]),
            error=np.array([5e-14 * size_of if np.isfinite(loss) else 0.0]),
            scale=np.maximum(scale, 1e-300)[None],
            detail=points,
        )


def _doubt(mdp: MDP, point: Point) -> np.ndarray | None:
    """What the policy of a task is mistaken by, as `policy_noise`; None of known dynamics."""
    rows = CountedRows.of(mdp)
    return None if rows is None else policy_noise(rows, point.policy, point.values)


def task_goodness(
    stack: Stack, alone: StackFit, seen: Sequence[Observed], *, level: float, seed: int
) -> list[Goodness]:
    """Whether the model fits each task, its p-value adjusted for all tasks by Holm's method.

    Asked of every task's own fit: whether they share what they are told to is another test.

    Args:
        stack: the likelihoods.
        alone: every task fitted by itself.
        seen: one per task, what was seen.
        level: of the test over all tasks.
        seed: of the draws.
    """
    if not alone.whole.converged:
        return [untested("the search did not converge") for _ in seen]
    found = [
        goodness_of(
            observed,
            FittedChoices(
                counts=steps.counts,
                policy=part.parts[0].policy,
                scores=scores[part.free],
                choices=steps.mdp.available.sum(axis=1),
                doubt=_doubt(steps.mdp, part.point),
                names=[steps.space.names[j] for j in np.flatnonzero(part.free)],
            ),
            level=level,
            seed=seed,
        )
        for observed, steps, part, scores in zip(
            seen, stack.steps, alone.parts, stack.scores(alone), strict=True
        )
    ]
    tested = [one for one in found if not one.absence]
    adjusted = iter(holm([one.p_value for one in tested]).tolist())
    told = [one if one.absence else replace(one, p_value=next(adjusted)) for one in found]
    return [replace(one, adequate=bool(one.absence) or one.p_value > one.level) for one in told]
