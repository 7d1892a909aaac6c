"""Logged dynamics: with a one-hot basis they are the counted ones, and derivatives are exact."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import tacit
from derivatives import check_derivatives
from tacit.dynamics.projected import PAID, UNSEEN, ActionBasis, Projected
from tacit.inference.evidence import evidence_of
from tacit.likelihood.dynamic import DynamicsChain
from tacit.likelihood.problem import LikelihoodProblem
from tacit.model.features.design import Design

STATES, ACTIONS, EPISODES = 6, 3, 100
ONE_HOT = np.eye(STATES)
RIDGE = 0.3  # enough for derivatives that leave it out to be wrong


def demonstrations(steps, end=None, seed=0):
    """(features, demonstrations) of a noisy expert, who reaches state `end` sooner or later."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(STATES, 0.5), size=(STATES, ACTIONS))
    there = np.ones((STATES, ACTIONS), bool)
    if end is not None:
        there[end] = False
    start = np.arange(STATES) != end
    mdp = tacit.MDP(moves, start / start.sum(), 0.9, available=there)
    reward = rng.normal(size=(STATES, ACTIONS, 2))
    cost = rng.uniform(size=(STATES, ACTIONS, 1))
    if end is not None:
        reward[end], cost[end] = reward[end, :1], cost[end, :1]
    table = reward @ [0.6, 0.4] - 0.5 * cost[..., 0]
    expert = tacit.solve(mdp, tacit.Objective(table), solver=tacit.SoftDual(temperature=1.0))
    seen = tacit.simulate(mdp, expert.policy, trajectories=EPISODES, steps=steps, seed=seed)
    return tacit.Features(reward, [cost]), seen


def counted(seen, discount, end=None):
    """The world of the shares that were seen, without any pseudo-count."""
    moves = np.zeros((STATES, ACTIONS, STATES))
    np.add.at(moves, (seen.states, seen.actions, following_states(seen)), 1.0)
    there = np.ones((STATES, ACTIONS), bool)
    if end is not None:
        there[end] = False
    assert (moves.sum(axis=2) > 0)[there].all()  # every pair was tried: nothing is guessed
    moves[there] /= moves.sum(axis=2)[there][:, None]
    begun = np.bincount(seen.states[seen.offsets[:-1]], minlength=STATES)
    return tacit.MDP(moves, begun / begun.sum(), discount, available=there)


def following_states(seen):
    after = np.append(seen.states[1:], -1)
    after[seen.offsets[1:] - 1] = seen.final_states
    return after


def logged(features, seen, discount, end=None, *, ridge=0.0, table=ONE_HOT):
    """The same steps as rows: a chain of logged dynamics on a basis [S, m] of the states."""
    rows, steps = np.append(seen.states, seen.final_states), seen.steps
    following = np.full((len(rows), ACTIONS), UNSEEN)
    after = np.arange(1, steps + 1)
    after[seen.offsets[1:] - 1] = steps + np.arange(seen.episodes)
    following[np.arange(steps), seen.actions] = after
    basis = ActionBasis.by_action(table[rows], ACTIONS)
    world = Projected(
        basis=basis,
        following=following,
        available=np.repeat((rows != end)[:, None], ACTIONS, axis=1),
        penalty=ridge * np.eye(basis.size),
        discount=discount,
        draws=np.arange(len(rows)),
    )
    own = tacit.Features(features.reward[rows], [one[rows] for one in features.costs])
    pairs = seen.episode, np.arange(steps) * ACTIONS + seen.actions
    taken = csr_array((np.ones(steps), pairs), shape=(seen.episodes, following.size))
    starts = np.zeros((1, len(rows)))
    starts[0, seen.offsets[:-1]] = 1 / seen.episodes
    return DynamicsChain(world, Design.of(world, own), taken, starts)


def fitted(chain):
    free = np.array([-np.inf, -np.inf, 0.0])
    problem = LikelihoodProblem.of(chain, free, np.full(3, 1e5))
    return problem.minimum(np.zeros(3), tolerance=1e-10, max_steps=100)


@pytest.mark.parametrize(
    ("discount", "end", "steps"), [(0.9, None, 50), (0.9, 5, 400), (1.0, 5, 400)]
)
def test_a_one_hot_basis_is_the_likelihood_on_counted_transitions(discount, end, steps):
    features, seen = demonstrations(steps, end)
    assert end is None or seen.ended.all()
    mdp = counted(seen, discount, end)
    options = tacit.Likelihood(free_reward=True, level=1.0, tolerance=1e-11)
    theirs = tacit.recover(mdp, features, seen, estimator=options)
    chain = logged(features, seen, discount, end)
    fit = fitted(chain)
    assert fit.converged
    assert -fit.loss == pytest.approx(theirs.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(
        fit.z / chain.space.scales, theirs.parameters.estimates, rtol=1e-9, atol=1e-10
    )
    evidence = evidence_of([seen], fit, 100, counted=False)
    own = evidence.gauge()
    np.testing.assert_allclose(own.budgets, theirs.budgets, rtol=1e-8)
    if not theirs.goodness.adequate:
        return
    errors = np.sqrt(np.diagonal(evidence.errors.covariance)) / chain.space.scales
    np.testing.assert_allclose(errors, theirs.parameters.standard_errors, rtol=1e-7)


@pytest.fixture(scope="module", params=[None, 5], ids=["no ends", "ends"])
def chain(request):
    features, seen = demonstrations(60 if request.param is None else 400, request.param)
    rough = np.random.default_rng(1).normal(size=(STATES, 4))
    return logged(features, seen, 0.95, request.param, ridge=RIDGE, table=rough)


def test_derivatives_are_those_of_differences(chain):
    check_derivatives(chain, np.array([0.4, -0.3, 0.7]))


def test_sums_from_the_start_are_the_slope_of_its_values(chain):
    x, step = np.array([0.4, -0.3, 0.7]), 1e-5
    part = chain.at(x, chain.blank(x), 1e-9)
    evidence = chain.evidence(part, np.eye(3), None)

    def value(place):
        solved = chain.dynamics.solve(chain.jacobian @ place, part.solved)
        return float(chain.starts.ravel() @ solved.values.ravel())

    slope = [(value(x + step * e) - value(x - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(evidence.spent, slope, rtol=1e-6, atol=1e-7)


def test_errors_of_logged_dynamics_are_those_of_counted_ones_with_much_data():
    features, seen = demonstrations(400)
    chain = logged(features, seen, 0.9)
    fit = fitted(chain)
    ours = evidence_of([seen], fit, 100)
    world = tacit.MDP.from_transitions(
        seen, discount=0.9, n_states=STATES, n_actions=ACTIONS, prior=0.0
    )
    options = tacit.Likelihood(free_reward=True, level=1.0)
    theirs = tacit.recover(world, features, seen, estimator=options)
    errors = np.sqrt(np.diagonal(ours.errors.covariance)) / chain.space.scales
    plain = np.sqrt(np.diagonal(np.linalg.inv(fit.parts[0].fisher))) / chain.space.scales
    assert (errors > 1.05 * plain).all()  # it matters
    # 2000 steps a pair: what the counted ones add for few steps is a few per cent.
    np.testing.assert_allclose(errors, theirs.parameters.standard_errors, rtol=0.05)


def test_an_end_that_was_not_logged_pays_nothing():
    features, seen = demonstrations(400, 5)
    silent = tacit.Features(
        np.where(np.arange(STATES)[:, None, None] == 5, 0.0, features.reward),
        [np.where(np.arange(STATES)[:, None, None] == 5, 0.0, one) for one in features.costs],
    )
    with_rows = logged(silent, seen, 1.0, 5)
    world = with_rows.dynamics
    led_to_end = (world.following >= 0) & world.ends[np.maximum(world.following, 0)]
    without = np.where(led_to_end, PAID, world.following)
    bare = DynamicsChain(
        Projected(**(vars_of(world) | {"following": without})),
        with_rows.space,
        with_rows.seen,
        with_rows.starts,
    )
    np.testing.assert_allclose(fitted(bare).z, fitted(with_rows).z, rtol=1e-9)


def vars_of(world):
    names = ("basis", "following", "available", "penalty", "discount", "draws")
    return {name: getattr(world, name) for name in names}


def test_a_shared_basis_with_every_action_in_it_is_one_by_action(chain):
    world, (table, *_) = chain.dynamics, chain.dynamics.basis.tables
    size = table.shape[1]
    blocks = [np.zeros((len(table), ACTIONS * size)) for _ in range(ACTIONS)]
    for a, block in enumerate(blocks):
        block[:, a * size : (a + 1) * size] = table
    shared = Projected(**(vars_of(world) | {"basis": ActionBasis.shared(blocks)}))
    x = np.array([0.4, -0.3, 0.7])
    one, other = (c.solve(chain.jacobian @ x, None).values for c in (world, shared))
    np.testing.assert_allclose(one, other, rtol=1e-9)
