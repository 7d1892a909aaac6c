"""The search for the minimum of a loss within bounds and linear equalities: Newton's method.

Every step goes to the minimum of the quadratic model in a box, which ends at the bounds and a
little beyond doubling a coordinate. It is shortened until the loss falls enough (Armijo), and looks
as closely as the distance to the minimum deserves. The search ends where the gradient that no bound
and no equality holds back is within the tolerance.

All has a leading axis of problems. Each evaluation is one call for those that are not finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from tacit.engine.progress import pursue
from tacit.search.operators import Matrices, Operator

# Share of the fall that the slope promises which a step must bring (Armijo), else it is shortened
# to this share of itself.
ARMIJO, BACKTRACK = 1e-4, 0.25
# A point is evaluated to this share of the last one's distance from the minimum, to the square of
# that distance where Newton's steps square it, and at worst to `WORST_PRECISION`.
PRECISION_SHARE, WORST_PRECISION = 0.1, 0.1
# Newton's step in one coordinate is stretched by this factor after one that left so much slope.
SLOPE_LEFT, STRETCH = 0.4, 2.0
# Share of the tolerance at which the search stops.
STOP_SHARE = 0.1
# A step shortened to less than this share of Newton's gains nothing more.
SHORTEST = 1e-12
# Most evaluations without second derivatives.
MOST_LEAN = 12
# Most steps on the way to a place where equalities hold.
MOST_DUAL_STEPS = 100


class Point(NamedTuple):
    """Losses and their derivatives at one place for each of some problems."""

    loss: np.ndarray  # [N] infinite or NaN where there is no finite value
    gradient: np.ndarray  # [N, D]
    curvature: Operator | None  # None where second derivatives were done without
    error: np.ndarray  # [N] by what rounding and rough solves may mistake the loss
    scale: np.ndarray  # [N, D] size of a gradient entry that counts as one
    detail: Any = None  # what evaluations nearby begin from


class SearchProblem(Protocol):
    """A loss within bounds; of several problems of one size, each its own.

    Attributes:
        lower: [D] or [N, D] bounds.
        upper: likewise.
        unit: [D] step that a coordinate may take from 0 without looking back.
        ties: [E, D] what of the parameters is known and stays as it is; None where nothing is.
        exact: whether a rough evaluation costs as much as a fine one.
    """

    lower: np.ndarray
    upper: np.ndarray
    unit: np.ndarray
    exact: bool

    @property
    def ties(self) -> np.ndarray | None:
        """As above."""
        ...

    def at(
        self,
        z: np.ndarray,
        rows: np.ndarray,
        near: Point | None,
        precision: np.ndarray,
        *,
        lean: bool,
    ) -> Point:
        """The `Point` of these problems at z [n, D].

        Args:
            z: where.
            rows: [n] which of the problems.
            near: a point of all problems.
            precision: [n] to which the values are needed, relative to the scale.
            lean: whether second derivatives may be left out.
        """
        ...


class Search(NamedTuple):
    """Where a search stands: all that its next evaluation needs."""

    z: np.ndarray  # [N, D]
    point: Point | None  # None where nothing was evaluated yet
    missed: np.ndarray  # [N] the projected gradient, see `distance`
    step: np.ndarray  # [N, D] of Newton's
    stale: np.ndarray  # [N] bool, whether it is that of an earlier point
    length: np.ndarray  # [N] share of the step to try next
    evaluations: np.ndarray  # [N]
    precision: np.ndarray  # [N] to which the point was evaluated
    model: np.ndarray | None  # [D, D] of the curvature, while second derivatives are done without


@dataclass(frozen=True)
class Stage:
    """What a search is called by those who watch it, and what it is about."""

    name: str
    inputs: object


def begin(z: np.ndarray, point: Point | None = None, model: np.ndarray | None = None) -> Search:
    """A `Search` at z [N, D], evaluated before or not.

    With a model [D, D] of the curvature most second derivatives are done without.
    """
    count = len(z)
    if point is not None and point.curvature is None:
        assert model is not None
        point = point._replace(curvature=Matrices(model[None]))
    elif point is not None:
        model = None
    return Search(
        z=z,
        point=point,
        missed=np.full(count, np.inf),
        step=np.zeros(z.shape),
        stale=np.ones(count, bool),
        length=np.ones(count),
        evaluations=np.full(count, 0 if point is None else 1),
        precision=np.full(count, np.inf if point is None else 0.0),
        model=model,
    )


def minimise(
    problem: SearchProblem,
    start: Search,
    *,
    tolerance: float,
    max_steps: int,
    far: float = np.inf,
    stage: Stage | None = None,
) -> Search:
    """Where the search from a start ends.

    Args:
        problem: what is minimised.
        start: as from `begin`.
        tolerance: projected gradient to reach, relative to its scale.
        max_steps: most evaluations of each problem.
        far: parameter beyond which the minimum is taken to be infinite.
        stage: of a single problem that may be watched.
    """
    if start.point is not None:
        start = start._replace(missed=distance(problem, start.z, start.point, _all(start.z)))

    def ahead(at: Search, until: int | None) -> Search:
        limit = max_steps if until is None else min(max_steps, until)
        while (rows := np.flatnonzero(_unfinished(at, tolerance, limit, far))).size:
            at = _advanced(problem, at, rows, tolerance)
        return at

    with np.errstate(all="ignore"):  # what overflows is seen in the loss
        if stage is None:
            return ahead(start, None)
        return pursue(
            stage.name,
            start,
            ahead,
            step=lambda at: int(at.evaluations[0]),
            numbers=lambda at: numbers_of(problem, at),
            inputs=stage.inputs,
            save=lambda at: at.z,
            restore=begin,
        )


def _unfinished(at: Search, tolerance: float, limit: int, far: float) -> np.ndarray:
    """[N] bool, the problems whose search makes another step: the stopping rule."""
    if at.point is None:
        return at.evaluations < max(limit, 1)
    missing = (at.missed > STOP_SHARE * tolerance) | (at.precision > tolerance)
    missing |= at.model is not None
    able = (at.evaluations < limit) & (at.length > SHORTEST)
    return missing & able & (np.abs(at.z).max(axis=1, initial=0.0) <= far)


def _advanced(problem: SearchProblem, at: Search, rows: np.ndarray, tolerance: float) -> Search:
    """The `Search` after one more evaluation of the problems in these rows."""
    if at.point is None:
        rough = tolerance if problem.exact else max(WORST_PRECISION, tolerance)
        precision = np.full(len(rows), rough)
        z = np.clip(at.z, problem.lower, problem.upper)
        fresh = problem.at(z, rows, None, precision, lean=at.model is not None)
        return _arrived(problem, at, rows, z, fresh, precision)

    point, missed = at.point, at.missed[rows]
    moves = np.ones(len(rows), bool)
    if at.model is None:
        # At the minimum, as far as a rough look can tell: look again, from where it is.
        moves = missed > STOP_SHARE * tolerance
    at = _with_newton_steps(problem, at, rows[moves])
    here, lower, upper = at.z[rows], of(problem.lower, rows), of(problem.upper, rows)
    length = np.where(moves, at.length[rows], 0.0)
    trial = np.clip(here + length[:, None] * at.step[rows], lower, upper)
    precision = _precision(problem, missed, tolerance)
    # The last step, from where the gradient is met, has all that is asked of the end.
    lean = at.model is not None and bool(
        missed[0] > STOP_SHARE * tolerance and at.length[0] == 1.0 and at.evaluations[0] < MOST_LEAN
    )
    fresh = problem.at(trial, rows, point, precision, lean=lean)

    slope = np.minimum((point.gradient[rows] * (trial - here)).sum(axis=1), 0.0)
    error = point.error[rows] + fresh.error
    accepted = fresh.loss <= point.loss[rows] + ARMIJO * slope + error
    if not accepted.all():
        at = _shortened(at, rows[~accepted])
        if not accepted.any():
            return at
        rows, trial, slope, precision = (part[accepted] for part in (rows, trial, slope, precision))
        here, fresh = at.z[rows], _taken(fresh, accepted)
    at = _arrived(problem, at, rows, trial, fresh, precision)
    if here.shape[1] == 1:
        # Much of the slope is left where the curvature falls: the next step will fall short too.
        # Along one coordinate, that is; among several, stretched steps were seen to stray.
        short = (fresh.gradient * (trial - here)).sum(axis=1) < SLOPE_LEFT * slope
        at = at._replace(length=_with(at.length, rows[short], STRETCH))
    return at


def _with_newton_steps(problem: SearchProblem, at: Search, rows: np.ndarray) -> Search:
    """The `Search` with new steps for those of these rows whose step is of an earlier point."""
    stale = rows[at.stale[rows]]
    if not stale.size:
        return at
    assert at.point is not None
    steps = newton_step(problem, at.z, at.point, stale, at.missed)
    return at._replace(step=_with(at.step, stale, steps), stale=_with(at.stale, stale, False))


def _precision(problem: SearchProblem, missed: np.ndarray, tolerance: float) -> np.ndarray:
    """[n] to which the next points are evaluated, so far from the minimum as `missed` [n] says.

    Far from it a rough look will do: the next step is only as good as its model.
    """
    if problem.exact:
        return np.full(len(missed), tolerance)
    rough = np.minimum(WORST_PRECISION, np.minimum(PRECISION_SHARE, missed) * missed)
    return np.maximum(tolerance, rough)


def _shortened(at: Search, rows: np.ndarray) -> Search:
    """The `Search` after an evaluation that was rejected in these rows."""
    length = _with(at.length, rows, BACKTRACK * at.length[rows])
    return at._replace(
        length=length, evaluations=_with(at.evaluations, rows, at.evaluations[rows] + 1)
    )


def _taken(point: Point, accepted: np.ndarray) -> Point:
    """The point of the accepted problems, [n] bool."""
    curvature = point.curvature
    return Point(
        point.loss[accepted],
        point.gradient[accepted],
        None if curvature is None else curvature.taken(np.flatnonzero(accepted)),
        point.error[accepted],
        point.scale[accepted],
        point.detail if len(accepted) == 1 else point.detail.taken(accepted),
    )


def _arrived(
    problem: SearchProblem,
    at: Search,
    rows: np.ndarray,
    z: np.ndarray,
    fresh: Point,
    precision: np.ndarray,
) -> Search:
    """The `Search` with the problems of these rows at z [n, D] and their fresh points."""
    model = at.model
    if fresh.curvature is None:
        assert model is not None
        if at.point is not None:
            model = bfgs_update(model, z[0] - at.z[0], fresh.gradient[0] - at.point.gradient[0])
        fresh = fresh._replace(curvature=Matrices(model[None]))
    else:
        model = None
    places, point = at.z.copy(), fresh
    places[rows] = z
    if at.point is not None and len(at.z) > 1:
        before = at.point
        assert before.curvature is not None
        point = Point(
            _with(before.loss, rows, fresh.loss),
            _with(before.gradient, rows, fresh.gradient),
            before.curvature.replaced(rows, fresh.curvature),
            _with(before.error, rows, fresh.error),
            _with(before.scale, rows, fresh.scale),
            before.detail.replaced(rows, fresh.detail),
        )
    return Search(
        z=places,
        point=point,
        missed=_with(at.missed, rows, distance(problem, places, point, rows)),
        step=at.step,
        stale=_with(at.stale, rows, True),
        length=_with(at.length, rows, 1.0),
        evaluations=_with(at.evaluations, rows, at.evaluations[rows] + 1),
        precision=_with(at.precision, rows, precision),
        model=model,
    )


def _with(array: np.ndarray, rows: np.ndarray, fresh: np.ndarray | float) -> np.ndarray:
    """The array with these rows new."""
    array = array.copy()
    array[rows] = fresh
    return array


def _all(z: np.ndarray) -> np.ndarray:
    """[N] the numbers of all problems."""
    return np.arange(len(z))


def of(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """What is given for all problems or for each, of these rows."""
    return array[rows] if array.ndim == 2 else array


def newton_step(
    problem: SearchProblem, z: np.ndarray, point: Point, rows: np.ndarray, missed: np.ndarray
) -> np.ndarray:
    """[n, D] the steps from z [N, D] to the minima of the models, never far beyond doubling.

    What would go further, as it tells next to nothing, stops there alone: to shorten the step for
    its sake would hold back all others.
    """
    here = z[rows]
    longest = 2.0 * np.abs(here) + problem.unit
    low = np.maximum(of(problem.lower, rows) - here, -longest)
    high = np.minimum(of(problem.upper, rows) - here, longest)
    gradient = lagrangian(problem, z, point, rows)
    curvature = point.curvature
    assert curvature is not None
    curvature = curvature if len(rows) == len(z) else curvature.taken(rows)
    share = np.minimum(0.1, np.sqrt(missed[rows]))
    return curvature.bounded_step(gradient, low, high, ties=problem.ties, share=share)


def lagrangian(problem: SearchProblem, z: np.ndarray, point: Point, rows: np.ndarray) -> np.ndarray:
    """[n, D] the gradient, less what the equalities take of it where no bound does."""
    gradient = point.gradient[rows]
    if problem.ties is None or not len(problem.ties):
        return gradient
    here = z[rows]
    inside = (here > of(problem.lower, rows)) & (here < of(problem.upper, rows))
    prices = [
        np.linalg.lstsq((problem.ties * kept).T, -slope * kept, rcond=1e-12)[0]
        for slope, kept in zip(gradient, inside, strict=True)
    ]
    return gradient + np.stack(prices) @ problem.ties


def held(
    problem: SearchProblem, z: np.ndarray, gradient: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """[n, D] bool, the coordinates that their bound holds back."""
    here, lower, upper = z[rows], of(problem.lower, rows), of(problem.upper, rows)
    return ((here <= lower) & (gradient >= 0)) | ((here >= upper) & (gradient <= 0))


def distance(problem: SearchProblem, z: np.ndarray, point: Point, rows: np.ndarray) -> np.ndarray:
    """[n] how far the gradient that nothing holds back is from 0, as a share of scale and gain."""
    gradient = lagrangian(problem, z, point, rows)
    missed = np.where(held(problem, z, gradient, rows), 0.0, np.abs(gradient))
    gain = np.abs(z[rows]) / np.maximum(1.0, np.abs(point.loss[rows]))[:, None]
    return (missed * np.maximum(1.0 / point.scale[rows], gain)).max(axis=1, initial=0.0)


def numbers_of(problem: SearchProblem, at: Search) -> dict[str, float]:
    """What there is to tell of the search of a single problem."""
    assert at.point is not None
    rows = _all(at.z)
    gradient = lagrangian(problem, at.z, at.point, rows)
    missed = np.where(held(problem, at.z, gradient, rows), 0.0, np.abs(gradient))
    share = (missed / at.point.scale).max(initial=0.0)
    return {"loss": float(at.point.loss[0]), "projected_gradient": float(share)}


def bfgs_update(curvature: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """[D, D] a curvature that explains the change [D] of the gradient over a step [D], too."""
    slope, predicted = float(step @ change), curvature @ step
    if not (slope > 1e-12 * np.abs(step) @ np.abs(change) and step @ predicted > 0):
        return curvature
    added = np.outer(change, change) / slope
    return curvature + added - np.outer(predicted, predicted) / (step @ predicted)


def feasible(
    z: np.ndarray, lower: np.ndarray, upper: np.ndarray, ties: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """[D] the place nearest to z within the bounds where ties @ place = known [E].

    It is z plus prices [E] @ ties, cut off at the bounds; the prices maximise the dual of this
    quadratic program, by Newton's method.
    """

    def dual(prices: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        place = np.clip(z + prices @ ties, lower, upper)
        missing = known - ties @ place
        return place, missing, float(((place - z) ** 2).sum() / 2 + prices @ missing)

    prices, products = np.zeros(len(ties)), ties @ ties.T
    place, missing, value = dual(prices)
    for _ in range(MOST_DUAL_STEPS):
        if np.abs(missing).max(initial=0.0) <= 1e-13 * (1.0 + np.abs(known).max(initial=0.0)):
            break
        moving = ties * (z + prices @ ties == place)
        step = np.linalg.solve(moving @ ties.T + 1e-9 * products, missing)
        length = 1.0
        while length > SHORTEST:
            _, _, trial_value = dual(prices + length * step)
            if trial_value >= value + ARMIJO * length * float(step @ missing):
                break
            length *= BACKTRACK
        prices = prices + length * step
        place, missing, value = dual(prices)
    return place
