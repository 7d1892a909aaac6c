"""The smooth dual: derivatives by differences of a plain oracle, convexity, and its minimum."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import oracles
from strategies import Problem, examples
from tacit import MDP, Successors
from tacit.engine import Side
from tacit.engine.backends import Host, backend_of
from tacit.engine.backends.device import dense, sparse
from tacit.search.smooth_dual import Dual, minimum, point_at

STATES, ACTIONS, SIZE = 6, 3, 4
TOLERANCE = 1e-9
SEEDS = st.integers(0, 2**20)
DISCOUNTS = st.sampled_from([0.9, 0.99, 0.5, 0.0])


def model(seed: int, discount: float) -> MDP:
    return Problem(seed, STATES, ACTIONS, 0, discount, kind="dense").mdp


def dual(mdp: MDP, seed: int, **changes) -> Dual:
    """A random problem over four tables, convex unless `start` says otherwise."""
    rng = np.random.default_rng([seed, 7])
    shape = (mdp.states, mdp.actions)
    settings = {
        "start": rng.dirichlet(np.ones(mdp.states)) * 3.0,
        "discount": mdp.discount,
        "temperature": 0.7,
        "base": rng.normal(size=shape),
        "tables": rng.normal(size=(SIZE, *shape)),
        "target": rng.normal(size=SIZE),
        "lower": np.zeros(SIZE),
        "upper": np.full(SIZE, 50.0),
        "ridge": rng.random(SIZE),
        "unit": np.ones(SIZE),
        "scale": np.full(SIZE, 3.0 / (1.0 - mdp.discount)),
        "information": np.ones(mdp.states),
    }
    return Dual(**(settings | changes))


def attainable(mdp: MDP, problem: Dual, x: np.ndarray) -> np.ndarray:
    """The target whose minimum without ridge and bounds is x."""
    point = at(mdp, problem, x)
    return np.einsum("dsa,sa->d", problem.tables, point.visits[:, None] * point.policy)


def plain_loss(mdp: MDP, problem: Dual, x: np.ndarray) -> float:
    """The objective by value iteration, straight from its definition."""
    table = problem.base + np.tensordot(x, problem.tables, 1)
    values, _ = oracles.soft_values(mdp, table, problem.temperature)
    return float(problem.start @ values - x @ problem.target + 0.5 * problem.ridge @ x**2)


def at(mdp: MDP, problem: Dual, x: np.ndarray, world=None):
    return point_at(world or backend_of(mdp), problem, x, np.zeros(mdp.states), TOLERANCE)


def lowest(mdp: MDP, problem: Dual, *, world=None, steps: int = 300, x=None):
    begin = np.clip(np.zeros(SIZE) if x is None else x, problem.lower, problem.upper)
    return minimum(world or backend_of(mdp), problem, begin, np.zeros(mdp.states), TOLERANCE, steps)


@given(SEEDS, st.sampled_from([0.9, 0.5, 0.0]), st.booleans())
@examples(15)
def test_gradient_and_curvature_are_the_derivatives_of_the_plain_loss(seed, discount, convex):
    mdp = model(seed, discount)
    rng = np.random.default_rng([seed, 8])
    start = {} if convex else {"start": rng.normal(size=STATES)}
    problem, x = dual(mdp, seed, **start), rng.normal(size=SIZE)
    point = at(mdp, problem, x)
    size = 1.0 / (1.0 - discount)
    assert point.loss == pytest.approx(plain_loss(mdp, problem, x), abs=1e-9 * size)
    step = 1e-4
    shifts = step * np.eye(SIZE)
    slopes = [plain_loss(mdp, problem, x + h) - plain_loss(mdp, problem, x - h) for h in shifts]
    # Central differences err by step^2 / 6 times a third derivative of size 1 / (1 - discount)^3.
    assert_allclose(point.gradient, np.array(slopes) / (2 * step), atol=1e-7 * size**3)
    bends = [at(mdp, problem, x + h).gradient - at(mdp, problem, x - h).gradient for h in shifts]
    if (point.visits >= 0).all():
        assert_allclose(point.curvature, np.array(bends) / (2 * step), atol=1e-6 * size**4)
    # The derivative of the values, which moves the next guess along.
    ahead = at(mdp, problem, x + shifts[0]).values - at(mdp, problem, x - shifts[0]).values
    assert_allclose(point.table_values[0], ahead / (2 * step), atol=1e-7 * size**3)


@given(SEEDS, DISCOUNTS)
@examples(10)
def test_every_engine_computes_the_same(seed, discount):
    mdp = model(seed, discount)
    problem = dual(mdp, seed)
    x = np.random.default_rng([seed, 9]).normal(size=SIZE)
    points = [at(mdp, problem, x, world) for world in (dense(mdp), sparse(mdp), Host(mdp))]
    for point in points[1:]:
        for name in ("loss", "gradient", "curvature", "values", "policy", "visits"):
            expected = getattr(points[0], name)
            size = 1.0 + np.abs(expected).max()
            # Linear solves are exact to 1e-14 / (1 - discount) of their right-hand side.
            assert_allclose(getattr(point, name), expected, rtol=0, atol=1e-9 * size, err_msg=name)


@given(SEEDS)
@examples(3)
def test_every_engine_finds_the_same_minimum(seed):
    mdp = model(seed, 0.9)
    problem = dual(mdp, seed)
    found = [lowest(mdp, problem, world=w)[0] for w in (dense(mdp), sparse(mdp), Host(mdp))]
    for point in found[1:]:
        assert point.loss == pytest.approx(found[0].loss, abs=1e-9)
        # A ridge bounds the curvature below, so a gradient of 1e-10 * scale bounds the distance.
        assert_allclose(point.x, found[0].x, atol=1e-7)


@given(SEEDS, DISCOUNTS, st.floats(0.0, 1.0))
@examples(40)
def test_convex_along_segments_where_the_start_is_not_negative(seed, discount, share):
    mdp = model(seed, discount)
    problem = dual(mdp, seed, ridge=np.zeros(SIZE))
    rng = np.random.default_rng([seed, 10])
    one, two = rng.normal(size=(2, SIZE)) * rng.choice([0.1, 1.0, 30.0])
    ends = share * at(mdp, problem, one).loss + (1 - share) * at(mdp, problem, two).loss
    middle = at(mdp, problem, share * one + (1 - share) * two)
    assert middle.loss <= ends + 1e-9 * (1.0 + abs(ends)) / (1.0 - discount)
    assert np.linalg.eigvalsh(middle.curvature).min() >= -1e-9 * np.abs(middle.curvature).max()


def test_a_negative_start_may_be_concave_and_the_curvature_falls_back_to_the_information():
    mdp = model(3, 0.9)
    problem = dual(mdp, 3, start=-np.ones(STATES), ridge=np.zeros(SIZE))
    x = np.zeros(SIZE)
    ahead, here, behind = (at(mdp, problem, x + h).loss for h in (0.1, 0.0, -0.1))
    assert ahead + behind < 2 * here
    other = problem._replace(start=np.ones(STATES))
    point, proper = at(mdp, problem, x), at(mdp, other, x)
    # With information 1 a state the fallback sums the same advantages over those weights.
    advantages = (
        problem.tables
        + mdp.discount * np.stack([mdp.expected_next(v) for v in proper.table_values])
        - proper.table_values[:, :, None]
    )
    expected = np.einsum("dsa,esa,sa->de", advantages, advantages, proper.policy)
    assert_allclose(point.curvature, expected / problem.temperature, atol=1e-9)


@given(SEEDS, DISCOUNTS)
@examples(40)
def test_the_minimum_satisfies_the_variational_inequality(seed, discount):
    mdp = model(seed, discount)
    problem = dual(mdp, seed)
    rng = np.random.default_rng([seed, 11])
    problem = problem._replace(
        target=attainable(mdp, problem, rng.normal(size=SIZE)), ridge=np.zeros(SIZE)
    )
    point, steps = lowest(mdp, problem)
    assert steps < 300
    assert (point.x >= problem.lower).all()
    assert (point.x <= problem.upper).all()
    fresh = at(mdp, problem, point.x)
    # Convex: gradient . (y - x) >= 0 for every allowed y proves the minimum, with no oracle.
    for corner in rng.random((20, SIZE)) * rng.choice([1.0, 50.0], (20, 1)):
        slack = TOLERANCE * problem.scale[0] * (1.0 + np.abs(corner - point.x).sum())
        assert fresh.gradient @ (corner - point.x) >= -slack


@given(SEEDS)
@examples(5)
def test_no_other_method_finds_a_lower_loss(seed):
    mdp = model(seed, 0.9)
    problem = dual(mdp, seed, target=np.random.default_rng([seed, 12]).normal(size=SIZE) * 3)
    point, _ = lowest(mdp, problem)

    def loss(x):
        tried = at(mdp, problem, x)
        return tried.loss, tried.gradient

    answer = minimize(
        loss,
        np.ones(SIZE),
        jac=True,
        bounds=[(0, 50)] * SIZE,
        method="L-BFGS-B",
        options={"ftol": 0.0, "gtol": 1e-9},
    )
    assert point.loss <= answer.fun + 1e-9 * (1.0 + abs(answer.fun))
    # ... and the start does not matter.
    elsewhere, _ = lowest(mdp, problem, x=np.full(SIZE, 10.0))
    assert elsewhere.loss == pytest.approx(point.loss, abs=1e-9)


@pytest.mark.parametrize("seed", [121, 131])
def test_a_coordinate_pressed_against_its_bound_does_not_slow_the_others(seed):
    # Logistic regression on twelve choices: a Newton step that is clipped at the bounds afterwards
    # is bent by it, and zigzags on these for 279 and 300 evaluations.
    rng = np.random.default_rng(seed)
    size, states = 7, 4
    mdp = MDP(np.broadcast_to(np.eye(states)[0], (states, 3, states)), np.eye(states)[0], 0.0)
    tables = rng.normal(size=(size, states, 3))
    counts = rng.multinomial(3, rng.dirichlet(np.full(3, 0.5)), size=states).astype(float)
    problem = Dual(
        start=counts.sum(axis=1),
        discount=0.0,
        temperature=1.0,
        base=np.zeros((states, 3)),
        tables=tables,
        target=np.einsum("dsa,sa->d", tables, counts),
        lower=np.zeros(size),
        upper=np.full(size, 300.0),
        ridge=np.zeros(size),
        unit=np.ones(size),
        scale=np.full(size, counts.sum()),
        information=np.zeros(states),
    )
    start = (np.zeros(size), np.zeros(states))
    point, steps = minimum(Host(mdp), problem, *start, TOLERANCE, 300)
    missed = np.where((point.x <= 0) & (point.gradient > 0), 0.0, point.gradient)
    assert np.abs(missed).max() <= TOLERANCE * counts.sum()
    assert steps <= 100


def test_settled_coordinates_stay_and_dead_ones_follow_their_slope():
    mdp = model(5, 0.9)
    tables = np.random.default_rng(5).normal(size=(SIZE, STATES, ACTIONS))
    tables[1] = 0.0  # nothing reacts to it, and the target pulls it up: only the bound stops it
    tables[2] = 0.0  # nothing reacts to it and nothing pulls: it stays
    problem = dual(
        mdp,
        5,
        tables=tables,
        target=np.array([0.3, 1.0, 0.0, 0.1]),
        lower=np.array([0.25, 0.0, 0.0, 0.0]),
        upper=np.array([0.25, 8.0, 8.0, 8.0]),
        ridge=np.zeros(SIZE),
    )
    point, steps = lowest(mdp, problem)
    assert steps < 300
    assert_allclose(point.x[:3], [0.25, 8.0, 0.0], atol=1e-12)


def test_a_search_cut_short_says_so_by_its_gradient():
    mdp = model(6, 0.9)
    problem = dual(mdp, 6, target=np.full(SIZE, 9.0), ridge=np.full(SIZE, 0.1))
    short, steps = lowest(mdp, problem, steps=2)
    assert steps == 2
    assert np.abs(short.gradient).max() > 1e-3
    # Downhill all the same.
    assert short.loss < at(mdp, problem, np.zeros(SIZE)).loss


def test_nothing_to_search_for_is_one_evaluation():
    mdp = model(7, 0.9)
    nothing = np.zeros(0)
    problem = dual(
        mdp,
        7,
        tables=np.zeros((0, STATES, ACTIONS)),
        target=nothing,
        lower=nothing,
        upper=nothing,
        ridge=nothing,
        unit=nothing,
        scale=nothing,
    )
    for world in (dense(mdp), Host(mdp)):
        point, steps = minimum(world, problem, nothing, np.zeros(STATES), TOLERANCE, 100)
        assert steps == 1
        assert point.loss == pytest.approx(plain_loss(mdp, problem, nothing), abs=1e-8)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_ring_that_defeats_krylov_steps_is_solved_by_plain_ones(transposed):
    # Every state leads to the next: the spectrum lies on a circle, and BiCGSTAB runs wild.
    count, discount = 400, 0.97
    following = (np.arange(count) + 1) % count
    mdp = MDP(
        Successors(following[:, None, None], np.ones((count, 1, 1))),
        np.full(count, 1 / count),
        discount,
    )
    world, policy = sparse(mdp), np.ones((count, 1))
    right = np.random.default_rng(0).normal(size=count)
    side = Side(right, 1e-12, transposed=transposed)
    solve = jax.jit(lambda w, b: w.solve(policy, discount, side._replace(right=b)))
    with jax.enable_x64(True):
        found = np.asarray(solve(world, right))
    chain = np.zeros((count, count))
    chain[np.arange(count), following] = discount
    system = np.eye(count) - (chain.T if transposed else chain)
    np.testing.assert_allclose(found, np.linalg.solve(system, right), rtol=0, atol=1e-8)
