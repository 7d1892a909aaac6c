"""Simulation: what it draws is possible, has the right law, and never changes for a seed."""

import time
from itertools import product

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import oracles
from networks import corridor
from refusals import refusal
from strategies import examples, policies, problems, random_policy
from tacit.errors import InvalidModel
from tacit.forward.simulation import BLOCK, _cumulative, _drawn, _first_above, simulate
from tacit.forward.solution import PolicyMixture
from tacit.model.mdp import MDP

LARGEST_UNIFORM = 1.0 - 2.0**-53
# Deviations in standard errors. One test looks at fewer than 400 numbers, so five sigma raises a
# false alarm less than once in 4 000 seeds; the seeds are fixed, and a wrong law is far beyond.
SIGMAS = 5.0


def same(one, other) -> bool:
    columns = ("states", "actions", "offsets", "ended", "final_states")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)


def next_states(walks) -> np.ndarray:
    """[N] the state after every row."""
    following = np.append(walks.states[1:], 0)
    following[walks.offsets[1:] - 1] = walks.final_states
    return following


# --- what is drawn is possible --------------------------------------------------------------------


@examples(60)
@given(problem=problems(max_states=12), steps=st.integers(1, 40), stop=st.booleans())
def test_every_step_is_possible(problem, steps, stop):
    mdp, policy = problem.mdp, policies(problem)
    walks = simulate(mdp, policy, trajectories=7, steps=steps, seed=3, stop_when_absorbed=stop)
    walks.check(mdp)
    assert (policy[walks.states, walks.actions] > 0).all()
    assert (mdp.dense()[walks.states, walks.actions, next_states(walks)] > 0).all()
    assert (mdp.initial[walks.states[walks.offsets[:-1]]] > 0).all()


@examples(60)
@given(problem=problems(max_states=6), steps=st.integers(1, 40))
def test_episodes_end_exactly_when_they_enter_an_absorbing_state(problem, steps):
    mdp = problem.mdp
    walks = simulate(mdp, policies(problem), trajectories=9, steps=steps, seed=1)
    absorbing = mdp.absorbing
    assert (walks.ended == absorbing[walks.final_states]).all()
    assert (walks.lengths[~walks.ended] == steps).all()
    first = walks.step == 0
    assert not absorbing[walks.states[~first]].any()
    # One that starts there is not empty: it records its one step and ends.
    started = absorbing[walks.states[first]]
    assert (walks.lengths[started] == 1).all()
    assert walks.ended[started].all()


def test_an_episode_by_hand():
    always_move = np.array([[0.0, 1], [0, 1], [0, 1]])
    walks = simulate(corridor(), always_move, trajectories=2, steps=10)
    assert walks.states.tolist() == [0, 1, 0, 1]
    assert walks.actions.tolist() == [1, 1, 1, 1]
    assert walks.ended.tolist() == [True, True]
    assert walks.final_states.tolist() == [2, 2]


def test_without_stopping_an_absorbed_episode_goes_on():
    always_move = np.array([[0.0, 1], [0, 1], [0, 1]])
    walks = simulate(
        corridor(), always_move, trajectories=1, steps=BLOCK + 3, stop_when_absorbed=False
    )
    assert walks.states.tolist() == [0, 1] + [2] * (BLOCK + 1)
    assert walks.ended.tolist() == [False]


def test_the_last_step_may_enter_the_absorbing_state():
    always_move = np.array([[0.0, 1], [0, 1], [0, 1]])
    walks = simulate(corridor(), always_move, trajectories=1, steps=2)
    assert walks.ended.tolist() == [True]
    assert simulate(corridor(), always_move, trajectories=1, steps=1).ended.tolist() == [False]


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("uniform", [0.0, 5e-324, 0.5, LARGEST_UNIFORM - 2.0**-53, LARGEST_UNIFORM])
def test_probability_zero_is_never_drawn(length, uniform):
    weights = np.array(list(product([0.0, 1e-17, 0.1, 1 / 3], repeat=length)))
    weights = weights[weights.sum(axis=1) > 0]
    # Rounding may leave a row a little short of 1; a shortfall of 1e-9 stands for the worst of it.
    for shortfall in (0.0, 1e-9):
        rows = weights / weights.sum(axis=1, keepdims=True) * (1.0 - shortfall)
        drawn = _first_above(_cumulative(rows), np.full((len(rows), 1), uniform))
        assert (rows[np.arange(len(rows)), drawn] > 0).all()
        for row in rows:
            assert row[_drawn(row, np.array([uniform]))] > 0


# --- and has the right law ------------------------------------------------------------------------


def discounted_sums(walks, mdp: MDP) -> np.ndarray:
    """[E, S * A] discounted visits of every episode."""
    cell = walks.episode * mdp.states * mdp.actions + walks.states * mdp.actions + walks.actions
    shape = (walks.episodes, mdp.states * mdp.actions)
    return np.bincount(cell, mdp.discount**walks.step, np.prod(shape)).reshape(shape)


@examples(8)
@given(problem=problems(max_states=12, max_discount=0.9))
def test_the_mean_discounted_visits_are_the_visitation(problem):
    mdp, policy = problem.mdp, policies(problem)
    # 0.9 ** 250 / 0.1 < 1e-10: what is cut off is far below the sampling error.
    walks = simulate(
        mdp, policy, trajectories=2000, steps=250, seed=problem.seed, stop_when_absorbed=False
    )
    sums = discounted_sums(walks, mdp)
    error = sums.std(axis=0) / np.sqrt(len(sums))
    exact = oracles.policy_visitation(mdp, policy).ravel()
    # Where a rare cell was met a few times the estimated error is itself unsure: 1e-3 covers that.
    assert (np.abs(sums.mean(axis=0) - exact) <= SIGMAS * error + 1e-3).all()


def test_actions_starts_and_successors_have_their_frequencies():
    rng = np.random.default_rng(5)
    transitions = rng.dirichlet(np.ones(6), (6, 3))
    mdp = MDP(transitions, rng.dirichlet(np.ones(6)), 0.9)
    policy = random_policy(2, 6, 3)
    walks = simulate(mdp, policy, trajectories=4000, steps=25, seed=8)
    starts = np.bincount(walks.states[walks.offsets[:-1]], minlength=6)
    assert_frequencies(starts[None], mdp.initial[None])
    assert_frequencies(walks.counts(mdp), policy)
    triples = np.zeros((6, 3, 6))
    np.add.at(triples, (walks.states, walks.actions, next_states(walks)), 1)
    assert_frequencies(triples.reshape(18, 6), transitions.reshape(18, 6))


def assert_frequencies(counts: np.ndarray, probabilities: np.ndarray) -> None:
    """Each count is binomial; its deviation is at most SIGMAS standard errors."""
    total = counts.sum(axis=1, keepdims=True)
    error = np.sqrt(total * probabilities * (1 - probabilities))
    assert (np.abs(counts - total * probabilities) <= SIGMAS * error).all()
    assert total.sum() >= 4000


def test_steps_of_one_episode_and_episodes_are_uncorrelated():
    # A fair coin: the walk of uniforms itself. Streams that overlapped would repeat each other.
    mdp = MDP(np.ones((1, 2, 1)), [1.0], 0.9)
    walks = simulate(mdp, [[0.5, 0.5]], trajectories=200, steps=500, stop_when_absorbed=False)
    tosses = 2.0 * walks.actions.reshape(200, 500) - 1
    lag = (tosses[:, 1:] * tosses[:, :-1]).mean() * np.sqrt(200 * 499)
    assert abs(lag) <= SIGMAS
    between = tosses @ tosses.T / np.sqrt(500)
    # 19 900 pairs: six sigma.
    assert np.abs(between - np.diag(np.diag(between))).max() <= 6.0


# --- mixtures -------------------------------------------------------------------------------------


def test_a_mixture_draws_one_policy_per_episode():
    mdp = MDP(np.full((4, 3, 4), 0.25), [0.25] * 4, 0.9)
    mixture = PolicyMixture(
        np.array([0.2, 0.0, 0.8]), np.array([[0, 1, 2, 0], [1, 1, 1, 1], [2, 0, 0, 1]])
    )
    walks = simulate(mdp, mixture, trajectories=2000, steps=60, seed=4)
    follows = np.stack([policy[walks.states] == walks.actions for policy in mixture.policies])
    whole = np.stack([np.logical_and.reduceat(row, walks.offsets[:-1]) for row in follows])
    # 60 steps in four states tell the policies apart.
    assert (whole.sum(axis=0) == 1).all()
    assert not whole[1].any()
    assert abs(whole[0].sum() - 400) <= SIGMAS * np.sqrt(2000 * 0.2 * 0.8)


def test_a_mixture_keeps_its_policies_when_episodes_end():
    # Policy 0 leaves at once, policy 1 never: the ones still going must not inherit from the ended.
    mixture = PolicyMixture(np.array([0.5, 0.5]), np.array([[1, 1, 1], [0, 0, 0]]))
    walks = simulate(corridor(), mixture, trajectories=50, steps=20, seed=2)
    assert 0 < walks.ended.sum() < 50
    assert (walks.lengths == np.where(walks.ended, 2, 20)).all()
    assert (np.logical_and.reduceat(walks.actions == 1, walks.offsets[:-1]) == walks.ended).all()


@pytest.mark.parametrize(
    ("weights", "policies_", "message"),
    [
        ([0.5, 0.4], [[0, 0, 0], [1, 1, 1]], "mixture weights must be a distribution"),
        ([0.5, 0.5], [[0, 0], [1, 1]], r"mixture policies must have shape \[M, S\]"),
        ([0.5, 0.5], [[0, 0, 0], [1, 1, 2]], r"integers in 0\.\.1"),
        ([0.5, 0.5], [[0, 0, 0], [1, 1, -1]], r"integers in 0\.\.1"),
        ([0.5, 0.5], [[0, 0, 0.0], [1, 1, 1]], r"integers in 0\.\.1"),
    ],
)
def test_a_mixture_that_is_none_is_refused(weights, policies_, message):
    with pytest.raises(InvalidModel, match=message):
        simulate(corridor(), PolicyMixture(np.array(weights), np.array(policies_)))


# --- the same seed, the same bits -----------------------------------------------------------------


@examples(40)
@given(
    problem=problems(max_states=6),
    trajectories=st.integers(1, 8),
    steps=st.sampled_from([1, 2, 5, BLOCK - 1, BLOCK, BLOCK + 1]),
    more=st.integers(1, 5),
)
def test_asking_for_more_does_not_change_what_was_there(problem, trajectories, steps, more):
    mdp, policy = problem.mdp, policies(problem)
    few = simulate(mdp, policy, trajectories=trajectories, steps=steps, seed=11)
    again = simulate(mdp, policy, trajectories=trajectories, steps=steps, seed=11)
    assert same(few, again)
    wider = simulate(mdp, policy, trajectories=trajectories + more, steps=steps, seed=11)
    assert same(few, wider.select(np.arange(trajectories)))
    longer = simulate(mdp, policy, trajectories=trajectories, steps=steps + more, seed=11)
    assert same(few, longer.truncate(steps))


def test_seeds_and_episodes_differ():
    mdp = MDP(np.full((5, 2, 5), 0.2), [0.2] * 5, 0.9)
    policy = np.full((5, 2), 0.5)
    one, other = (simulate(mdp, policy, trajectories=3, steps=50, seed=seed) for seed in (0, 1))
    assert not np.array_equal(one.states, other.states)
    assert not np.array_equal(one.trajectory(0)[0], one.trajectory(1)[0])


def test_the_bits_of_a_seed_are_these():
    # Golden: recordings made with an earlier version must come out again.
    mdp = MDP(np.full((5, 2, 5), 0.2), [0.2] * 5, 0.9)
    walks = simulate(mdp, np.full((5, 2), 0.5), trajectories=2, steps=8, seed=0)
    assert walks.states.tolist() == GOLDEN_STATES
    assert walks.actions.tolist() == GOLDEN_ACTIONS


GOLDEN_STATES = [1, 0, 1, 0, 0, 2, 4, 0, 1, 2, 4, 0, 4, 0, 0, 2]
GOLDEN_ACTIONS = [0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1]


def test_the_paper_size_takes_well_under_a_second():
    rng = np.random.default_rng(0)
    mdp = MDP(rng.dirichlet(np.ones(25), (25, 4)), np.eye(25)[0], 0.9)
    policy = random_policy(0, 25, 4)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        walks = simulate(mdp, policy, trajectories=100, steps=2000)
        seconds.append(time.process_time() - start)
    assert walks.steps == 200_000
    # About 0.06 s of one core, of which 1 s is far away whatever else the machine does.
    assert min(seconds) < 1.0


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((3, 3), 1 / 3), r"policy must have shape \(3, 2\); got \(3, 3\)"),
        ([[0.5, 0.5], [0.5, 0.4], [1.0, 0.0]], r"must be a distribution: state 1 sums to 0\.9"),
        ([[0.5, 0.5], [1.5, -0.5], [1, 0]], r"entry \(1, 1\) is -0.5"),
        ([[0.5, 0.5], [np.nan, 1], [1, 0]], r"entry \(1, 0\) is nan"),
        ([[0.5, 0.5], [np.inf, 1], [1, 0]], r"entry \(1, 0\) is inf"),
        ("down", "policy must be an array of probabilities"),
        (None, "policy must"),
    ],
)
def test_a_policy_that_is_none_is_refused(policy, message):
    with refusal(InvalidModel, match=message):
        simulate(corridor(), policy)


def test_rows_may_miss_1_by_what_seven_digits_miss_and_no_more():
    simulate(corridor(), np.full((3, 2), 0.5 - 1e-7), steps=3)
    with pytest.raises(InvalidModel, match=r"sums to 0\.99999"):
        simulate(corridor(), np.full((3, 2), 0.5 - 1e-6), steps=3)


def test_the_worst_row_of_a_policy_is_named():
    with pytest.raises(InvalidModel, match=r"state 2 sums to 0\.7"):
        simulate(corridor(), [[0.5, 0.5], [0.5, 0.4], [0.7, 0.0]])


@pytest.mark.parametrize(
    "arguments",
    [
        {"trajectories": 0},
        {"trajectories": 2.0},
        {"trajectories": True},
        {"steps": 0},
        {"steps": "9"},
        {"seed": -1},
        {"seed": 0.5},
        {"seed": None},
    ],
)
def test_bad_numbers_are_named(arguments):
    (name,) = arguments
    with pytest.raises(InvalidModel, match=f"{name} must be an integer of at least [01]; got"):
        simulate(corridor(), np.full((3, 2), 0.5), **arguments)
