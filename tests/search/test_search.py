"""The one search: bounds, equalities, batches, steps without second derivatives, where it ends."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import LinearConstraint, minimize
from scipy.special import logsumexp, softmax

from tacit.search.minimise import MOST_LEAN, STOP_SHARE, Point, begin, feasible, minimise
from tacit.search.operators import Matrices

SIZE = 5
RULES = {"tolerance": 1e-9, "max_steps": 200}


class Choices:
    """Multinomial choices among eight, with a ridge: N convex losses of five parameters."""

    exact = True

    def __init__(self, seed, count=1, *, lower=-np.inf, upper=np.inf, ties=None, ridge=0.1):
        rng = np.random.default_rng(seed)
        self.tables = rng.normal(size=(count, 8, SIZE))
        self.target = 8.0 * np.einsum("nad,na->nd", self.tables, rng.dirichlet(np.ones(8), count))
        self.lower, self.upper = (np.broadcast_to(end, SIZE) + 0.0 for end in (lower, upper))
        self.unit, self.ties, self.ridge = np.ones(SIZE), ties, ridge
        self.asked = []

    def loss(self, z, n=0):
        return 8.0 * logsumexp(self.tables[n] @ z) - self.target[n] @ z + self.ridge * z @ z / 2

    def slope(self, z, n=0):
        chances = softmax(self.tables[n] @ z)
        return 8.0 * chances @ self.tables[n] - self.target[n] + self.ridge * z

    def at(self, z, rows, near, precision, *, lean=False):
        self.asked.append((rows.tolist(), lean))
        chances = softmax(np.einsum("nad,nd->na", self.tables[rows], z), axis=1)
        mean = np.einsum("na,nad->nd", chances, self.tables[rows])
        apart = self.tables[rows] - mean[:, None]
        bend = 8.0 * np.einsum("na,nad,nae->nde", chances, apart, apart)
        return Point(
            loss=np.array([self.loss(x, n) for x, n in zip(z, rows, strict=True)]),
            gradient=np.array([self.slope(x, n) for x, n in zip(z, rows, strict=True)]),
            curvature=None if lean else Matrices(bend + self.ridge * np.eye(SIZE)),
            error=np.full(len(rows), 1e-13),
            scale=np.full(z.shape, 8.0),
            detail=Nothing(),
        )


class Nothing:
    """Of evaluations that begin from nothing."""

    def taken(self, mask):
        return self

    def replaced(self, rows, fresh):
        return self


def searched(problem, start=None, count=1, **options):
    z = np.zeros((count, SIZE)) if start is None else start
    return minimise(problem, begin(z, **options), **RULES)


@pytest.mark.parametrize("seed", range(6))
def test_the_minimum_within_bounds_and_equalities_is_that_of_another_method(seed):
    rng = np.random.default_rng([seed, 1])
    ties = rng.random((1 + seed % 2, SIZE))
    known = ties @ rng.random(SIZE)
    problem = Choices(seed, lower=0.0, upper=0.9, ties=ties)
    start = feasible(np.zeros(SIZE), problem.lower, problem.upper, ties, known)
    assert_allclose(ties @ start, known, atol=1e-12)
    assert ((start >= 0.0) & (start <= 0.9)).all()
    end = searched(problem, start[None])
    z = end.z[0]
    assert ((z >= 0.0) & (z <= 0.9)).all()
    assert_allclose(ties @ z, known, atol=1e-11)
    other = minimize(
        problem.loss,
        start,
        jac=problem.slope,
        method="SLSQP",
        bounds=[(0.0, 0.9)] * SIZE,
        constraints={"type": "eq", "fun": lambda x: ties @ x - known, "jac": lambda x: ties},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert problem.loss(z) <= other.fun + 1e-9
    assert_allclose(z, other.x, atol=1e-4)  # what its own tolerance leaves
    assert end.evaluations[0] < 30


@pytest.mark.parametrize("seed", range(6))
def test_bounds_alone(seed):
    problem = Choices(seed, lower=-0.1, upper=0.3)
    end = searched(problem)
    bounds = [(-0.1, 0.3)] * SIZE
    other = minimize(problem.loss, np.zeros(SIZE), jac=problem.slope, bounds=bounds, tol=1e-14)
    assert_allclose(end.z[0], other.x, atol=1e-6)
    inside = (end.z[0] > -0.1) & (end.z[0] < 0.3)
    assert 0 < inside.sum() < SIZE
    assert np.abs(problem.slope(end.z[0])[inside]).max() <= 8.0 * RULES["tolerance"]


def test_a_batch_ends_where_each_does_and_asks_only_for_the_unfinished():
    problem = Choices(0, 40, lower=0.0)
    end = searched(problem, count=40)
    together = [rows for rows, _ in problem.asked]
    assert len(together) == end.evaluations.max()
    assert together[0] == list(range(40))
    assert 0 < len(together[-1]) < 40
    assert sum(len(rows) for rows in together) == end.evaluations.sum()
    for n in range(40):
        alone = Choices(0, 40, lower=0.0)
        alone.tables, alone.target = problem.tables[n : n + 1], problem.target[n : n + 1]
        one = searched(alone)
        assert_allclose(end.z[n], one.z[0], atol=1e-10)
        assert end.evaluations[n] == one.evaluations[0]


class Curved(Choices):
    """A loss on which Newton's plain step from afar goes further and further: sqrt(1 + z^2)."""

    def loss(self, z, n=0):
        return float(np.sqrt(1.0 + z**2).sum())

    def slope(self, z, n=0):
        return z / np.sqrt(1.0 + z**2)

    def at(self, z, rows, near, precision, *, lean=False):
        found = super().at(z, rows, near, precision, lean=lean)
        return found._replace(
            curvature=Matrices(((1.0 + z**2) ** -1.5)[:, :, None] * np.eye(SIZE)),
            scale=np.ones(z.shape),
        )


def test_a_step_that_raises_the_loss_is_shortened():
    problem, start = Curved(0), np.linspace(1.5, 4.0, SIZE)[None]
    end = searched(problem, start)
    assert_allclose(end.z[0], 0.0, atol=1e-8)
    assert np.abs(start - (1.0 + start**2) * start).max() > 4.0  # the first plain step
    losses = []
    for limit in range(1, int(end.evaluations[0]) + 1):
        some = minimise(Curved(0), begin(start), tolerance=1e-9, max_steps=limit)
        losses.append(some.point.loss[0])
    assert (np.diff(losses) <= 1e-12).all()
    assert losses[-1] == pytest.approx(SIZE)


class Saddle(Choices):
    """A loss that bends down at 0: z^4 / 4 - z^2 / 2, less a little slope."""

    def loss(self, z, n=0):
        return float((z**4 / 4 - z**2 / 2 - 0.01 * z).sum())

    def slope(self, z, n=0):
        return z**3 - z - 0.01

    def at(self, z, rows, near, precision, *, lean=False):
        found = super().at(z, rows, near, precision, lean=lean)
        bend = (3.0 * z**2 - 1.0)[:, :, None] * np.eye(SIZE)
        safe = (3.0 * z**2 + 1.0)[:, :, None] * np.eye(SIZE)
        return found._replace(curvature=Matrices(bend, safe), scale=np.ones(z.shape))


def test_where_the_curvature_is_indefinite_its_stand_in_leads_down():
    end = searched(Saddle(0))
    assert_allclose(end.z[0] ** 3 - end.z[0], 0.01, atol=1e-8)
    assert (end.z[0] > 0.9).all()


def test_steps_without_second_derivatives_end_at_the_same_minimum_with_them():
    problem = Choices(3, lower=0.0)
    plain = searched(problem)
    model = plain.point.curvature.values[0] * 1.5
    lean = Choices(3, lower=0.0)
    end = searched(lean, plain.z + 0.3, model=model)
    assert_allclose(end.z, plain.z, atol=1e-8)
    asked = [order for _, order in lean.asked]
    assert asked[0]
    assert not asked[-1]  # the last has all that is asked of the end
    assert sum(asked) <= MOST_LEAN
    assert end.model is None


def test_the_search_stops_at_its_tolerance_or_its_limit_and_not_before():
    problem = Choices(1)
    end = searched(problem)
    assert end.missed[0] <= STOP_SHARE * RULES["tolerance"]
    before = minimise(
        Choices(1),
        begin(np.zeros((1, SIZE))),
        tolerance=1e-9,
        max_steps=int(end.evaluations[0]) - 1,
    )
    assert before.missed[0] > STOP_SHARE * RULES["tolerance"]
    rough = minimise(Choices(1), begin(np.zeros((1, SIZE))), tolerance=1e-2, max_steps=200)
    assert rough.evaluations[0] < end.evaluations[0]
    far = minimise(Choices(1, ridge=1e-9), begin(np.zeros((1, SIZE))), far=0.01, **RULES)
    assert far.missed[0] > RULES["tolerance"]


def test_no_finite_value_is_the_end():
    class Nowhere(Choices):
        def at(self, z, rows, near, precision, *, lean=False):
            found = super().at(z, rows, near, precision, lean=lean)
            return found._replace(loss=np.full(len(rows), np.inf), error=np.zeros(len(rows)))

    end = searched(Nowhere(0))
    assert np.isinf(end.point.loss[0])
    assert end.evaluations[0] < 30


def test_the_nearest_place_within_bounds_where_equalities_hold():
    rng = np.random.default_rng(0)
    for _ in range(50):
        ties, inside = rng.random((2, SIZE)), rng.random(SIZE)
        z, known = rng.normal(size=SIZE), ties @ inside
        place = feasible(z, np.zeros(SIZE), np.ones(SIZE), ties, known)
        assert_allclose(ties @ place, known, atol=1e-11)
        other = minimize(
            lambda x, z=z: ((x - z) ** 2).sum(),
            inside,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * SIZE,
            constraints=LinearConstraint(ties, known, known),
            options={"ftol": 1e-14},
        )
        assert ((place - z) ** 2).sum() <= other.fun + 1e-8
