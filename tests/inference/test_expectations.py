"""Feature expectations: against loops in plain Python, closed forms, and their own error bars."""

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import oracles
from networks import corridor
from strategies import examples, policies, problems
from tacit.data.demonstrations import Demonstrations
from tacit.data.tally import Horizons
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.forward.simulation import simulate
from tacit.inference.expectations import check_task, expectations, pull_back
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# Sums of the same few thousand products in another order.
ROUNDING = 1e-12


def random_features(seed: int, mdp: MDP, *, constraints: int = 2) -> Features:
    """Maps of states and of state-action pairs, alternating, of both signs."""
    rng = np.random.default_rng(seed)
    shapes = [(mdp.states, 2), (mdp.states, mdp.actions, 3), (mdp.states, 1)]
    maps = [rng.normal(size=shapes[(seed + k) % 3]) for k in range(constraints + 1)]
    return Features(maps[0], maps[1:])


def alike(features: Features, state: int) -> bool:
    """Whether no feature of the state depends on the action."""
    maps = (features.reward, *features.costs)
    return all(np.ptp(table[state], axis=0).max() == 0 for table in maps if table.ndim == 3)


def summed(
    mdp: MDP, features: Features, table: np.ndarray, walks: Demonstrations, episode: int
) -> np.ndarray:
    """[D] the discounted feature sum of one trajectory, step by step."""
    states, actions = walks.trajectory(episode)
    total = np.zeros(table.shape[-1])
    for t, (s, a) in enumerate(zip(states, actions, strict=True)):
        total += mdp.discount**t * (table[s] if table.ndim == 2 else table[s, a])
    last = walks.final_states[episode]
    last = states[-1] if last < 0 else last
    if mdp.absorbing[last] and alike(features, last):
        rest = table[last] if table.ndim == 2 else table[last, 0]
        total += mdp.discount ** len(states) / (1 - mdp.discount) * rest
    return total


def ragged(mdp: MDP, policy: np.ndarray, seed: int, episodes: int = 6) -> Demonstrations:
    """Trajectories of different lengths, some with a known last state."""
    rng = np.random.default_rng(seed)
    long = simulate(mdp, policy, trajectories=episodes, steps=25, seed=seed)
    pieces = []
    for e in range(episodes):
        states, actions = long.trajectory(e)
        kept = int(rng.integers(1, len(states) + 1))
        seen = states[: kept + 1] if rng.random() < 0.5 else states[:kept]
        pieces.append((seen, actions[:kept]))
    return Demonstrations.from_trajectories(pieces)


# --- what is computed -----------------------------------------------------------------------------


@examples(60)
@given(problem=problems(max_states=8, max_constraints=0), seed=st.integers(0, 2**20))
def test_means_and_errors_are_those_of_sums_taken_step_by_step(problem, seed):
    mdp = problem.mdp
    features, walks = random_features(seed, mdp), ragged(mdp, policies(problem), seed)
    found = expectations(mdp, features, walks)
    for block, table in enumerate((features.reward, *features.costs)):
        sums = np.array([summed(mdp, features, table, walks, e) for e in range(walks.episodes)])
        scale = 1.0 + np.abs(sums).max()
        assert found.means[block] == pytest.approx(sums.mean(axis=0), abs=ROUNDING * scale)
        spread = sums.std(axis=0, ddof=1)
        assert found.deviations[block] == pytest.approx(spread, abs=1e-9 * scale)
        errors = spread / np.sqrt(walks.episodes)
        assert found.standard_errors[block] == pytest.approx(errors, abs=1e-9 * scale)
    assert found.reward is found.means[0]
    assert found.costs == found.means[1:]


@examples(60)
@given(problem=problems(max_states=8, max_constraints=0), seed=st.integers(0, 2**20))
def test_pulling_back_is_the_transpose_of_weighing(problem, seed):
    mdp, rng = problem.mdp, np.random.default_rng(seed)
    features = random_features(seed, mdp)
    visits = rng.exponential(size=(mdp.states, mdp.actions))
    weights = [rng.normal(size=t.shape[-1]) for t in (features.reward, *features.costs)]
    reward, costs = features.objective(weights[0], weights[1:], [0.0, 0.0]).tables(mdp)
    for w, table, back in zip(weights, [reward, *costs], pull_back(features, visits), strict=True):
        assert w @ back == pytest.approx(np.vdot(table, visits), rel=1e-9, abs=1e-9)


@examples(30)
@given(problem=problems(max_states=8, max_constraints=0), seed=st.integers(0, 2**20))
def test_means_are_the_pull_back_of_the_demonstrated_visitation(problem, seed):
    mdp = problem.mdp
    features, walks = random_features(seed, mdp), ragged(mdp, policies(problem), seed)
    found = expectations(mdp, features, walks)
    for mean, back in zip(found.means, pull_back(features, found.visitation), strict=True):
        assert (mean == back).all()
    assert found.visitation.sum() == pytest.approx(found.horizons.mean, rel=ROUNDING)


@examples(30)
@given(problem=problems(max_states=8, max_constraints=0), seed=st.integers(0, 2**20))
def test_order_of_trajectories_does_not_matter_and_copies_only_shrink_errors(problem, seed):
    mdp = problem.mdp
    features, walks = random_features(seed, mdp), ragged(mdp, policies(problem), seed)
    found = expectations(mdp, features, walks)
    shuffled = np.random.default_rng(seed).permutation(walks.episodes)
    twice = expectations(mdp, features, walks.select([*shuffled, *shuffled]))
    for block in range(3):
        scale = 1.0 + np.abs(found.means[block]).max()
        assert twice.means[block] == pytest.approx(found.means[block], abs=1e-11 * scale)
        # n copies twice: the squared deviations double, their number goes from n - 1 to 2n - 1.
        n = walks.episodes
        ratio = np.sqrt(2 * (n - 1) / (2 * n - 1))
        assert twice.deviations[block] == pytest.approx(
            ratio * found.deviations[block], abs=1e-9 * scale
        )


# --- ends and cuts --------------------------------------------------------------------------------


def test_an_episode_that_is_absorbed_is_complete():
    # Feature: one on the last cell. Two moves reach it, so the sum is 0.5^2 / (1 - 0.5) = 0.5.
    mdp, features = corridor(), Features(np.eye(3))
    walks = simulate(mdp, np.tile([0.0, 1.0], (3, 1)), trajectories=3, steps=50)
    assert walks.ended.all()
    found = expectations(mdp, features, walks)
    assert found.reward == pytest.approx([1.0, 0.5, 0.5], abs=ROUNDING)
    assert (found.truncation[0] == 0).all()
    assert found.horizons == Horizons(number=3, mean=2.0, square=4.0, longest=2.0)
    assert (found.deviations[0] == 0).all()


def test_what_an_unseen_action_collects_for_ever_is_counted_as_missing():
    table = np.zeros((3, 2, 1))
    table[2] = [[1.0], [5.0]]
    walks = Demonstrations.from_trajectories([([0, 1, 2], [1, 1])] * 2)
    found = expectations(corridor(), Features(table), walks)
    # Which action it takes in the last cell was not seen: up to 0.5^2 / (1 - 0.5) * 5 is missing.
    assert found.reward == pytest.approx([0.0], abs=ROUNDING)
    assert found.truncation[0] == pytest.approx([2.5])


def test_absorbed_at_different_times_the_sums_differ_by_their_tails():
    mdp, table = corridor(), np.arange(6.0).reshape(3, 2, 1)
    table[2] = 4.0
    features = Features(table)
    walks = simulate(mdp, np.full((3, 2), 0.5), trajectories=8, steps=40, seed=4)
    sums = np.array([summed(mdp, features, table, walks, e) for e in range(8)])
    found = expectations(mdp, Features(table), walks)
    assert walks.ended.all()
    assert found.reward == pytest.approx(sums.mean(axis=0))
    assert found.deviations[0] == pytest.approx(sums.std(axis=0, ddof=1))
    assert found.deviations[0] > 0


def test_the_last_state_counts_where_the_next_one_is_not_recorded():
    mdp, features = corridor(), Features(np.eye(3))
    inside = expectations(mdp, features, Demonstrations([0, 1, 2], [1, 1, 0], [0, 3]))
    assert inside.reward == pytest.approx([1.0, 0.5, 0.5], abs=ROUNDING)
    assert (inside.truncation[0] == 0).all()
    # On its way, nothing is known of what comes: 0.5^2 / (1 - 0.5) of the largest feature.
    on_its_way = expectations(mdp, features, Demonstrations([0, 1], [1, 1], [0, 2], ended=[True]))
    assert on_its_way.reward == pytest.approx([1.0, 0.5, 0.0], abs=ROUNDING)
    assert on_its_way.truncation[0] == pytest.approx([0.5] * 3)


@examples(40)
@given(
    problem=problems(max_states=8, max_constraints=0, max_discount=0.9),
    seed=st.integers(0, 2**20),
    steps=st.integers(1, 12),
)
def test_truncation_bounds_what_later_steps_add(problem, seed, steps):
    mdp = problem.mdp
    features = random_features(seed, mdp)
    long = simulate(mdp, policies(problem), trajectories=5, steps=400, seed=seed)
    whole, cut = (
        expectations(mdp, features, long),
        expectations(mdp, features, long.truncate(steps)),
    )
    for block in range(3):
        missing = np.abs(whole.means[block] - cut.means[block])
        bound = cut.truncation[block] + whole.truncation[block]
        assert (missing <= bound + 1e-9).all()


def test_truncation_bound_is_sharp():
    # A constant feature loses exactly discount^T / (1 - discount).
    mdp = MDP(np.full((2, 1, 2), 0.5), [1.0, 0.0], 0.8)
    features = Features(np.full((2, 1), -3.0))
    walks = simulate(mdp, np.ones((2, 1)), trajectories=4, steps=7)
    found = expectations(mdp, features, walks)
    assert found.reward + -3.0 * 0.8**7 / 0.2 == pytest.approx([-15.0])
    assert found.truncation[0] == pytest.approx([3.0 * 0.8**7 / 0.2])


# --- error bars -----------------------------------------------------------------------------------


def replicates(count: int = 400, trajectories: int = 30):
    """A small random chain, its exact expectations, and those of many sets of demonstrations."""
    rng = np.random.default_rng(5)
    mdp = MDP(rng.dirichlet(np.ones(4), (4, 2)), rng.dirichlet(np.ones(4)), 0.8)
    policy = rng.dirichlet(np.ones(2), 4)
    features = Features(rng.normal(size=(4, 2)), [rng.random((4, 2, 3))])
    exact = pull_back(features, oracles.policy_visitation(mdp, policy))
    walks = simulate(mdp, policy, trajectories=count * trajectories, steps=120, seed=2)
    batches = np.arange(count * trajectories).reshape(count, trajectories)
    return features, exact, [expectations(mdp, features, walks.select(b)) for b in batches]


@pytest.fixture(scope="module")
def batches():
    return replicates()


def test_means_are_unbiased_and_standard_errors_tell_their_spread(batches):
    _, exact, found = batches
    for block in range(2):
        means = np.array([f.means[block] for f in found])
        errors = np.array([f.standard_errors[block] for f in found])
        spread = means.std(axis=0, ddof=1)
        # 400 sets: the mean of means is off by spread / 20, five times that is never by chance.
        assert (np.abs(means.mean(axis=0) - exact[block]) <= 5 * spread / 20).all()
        # The spread itself is known to 1 / sqrt(800) = 3.5 %; four times that.
        ratio = np.sqrt((errors**2).mean(axis=0)) / spread
        assert ratio == pytest.approx(np.ones(len(ratio)), abs=0.14)


def test_the_gap_of_the_truth_is_its_noise(batches):
    _, exact, found = batches
    # Root mean square over 400 sets of a sum of squares with at least one degree of freedom.
    ratio = np.mean([f.gap(exact) ** 2 for f in found]) / np.mean([f.noise**2 for f in found])
    assert ratio == pytest.approx(1.0, abs=0.2)


def test_bounds_hold_more_often_than_they_promise(batches):
    _, exact, found = batches
    for confidence in (0.5, 0.95):
        both = [f.hoeffding(confidence) for f in found], [f.bernstein(confidence) for f in found]
        for bounds in both:
            held = [
                all(
                    (np.abs(m - e) <= b).all()
                    for m, e, b in zip(f.means, exact, bound, strict=True)
                )
                for f, bound in zip(found, bounds, strict=True)
            ]
            assert np.mean(held) >= confidence


def test_only_trajectories_that_begin_at_the_start_are_summed():
    mdp, features = corridor(), Features(np.eye(3))
    walks = simulate(mdp, np.full((3, 2), 0.5), trajectories=6, steps=4, seed=0)
    late = np.arange(6) % 2 == 1
    mixed = replace(walks, partial=late)
    found, kept = (
        expectations(mdp, features, mixed),
        expectations(mdp, features, mixed.select(~late)),
    )
    assert (found.reward == kept.reward).all()
    assert found.trajectories == kept.trajectories == 3
    with pytest.raises(InvalidDemonstrations, match="got partial ones only"):
        expectations(mdp, features, replace(walks, partial=np.ones(6, bool)))


def test_hoeffding_and_bernstein_by_hand():
    # 100 trajectories of 10 steps at discount 0: one coin each, horizon 1, span 2.
    mdp = MDP(np.full((2, 1, 2), 0.5), [0.5, 0.5], 0.0)
    walks = simulate(mdp, np.ones((2, 1)), trajectories=100, steps=10, seed=1)
    found = expectations(mdp, Features([[-1.0], [1.0]], [[[0.0, 0.5], [1.0, 0.5]]]), walks)
    assert found.horizons == Horizons(number=100, mean=1.0, square=1.0, longest=1.0)
    number = 3  # coordinates that must hold at once; the constant one has span 0
    half = np.sqrt(np.log(2 * number / 0.05) / 200)
    assert found.hoeffding()[0] == pytest.approx([2 * half])
    assert found.hoeffding()[1] == pytest.approx([half, 0.0])
    log = np.log(4 * number / 0.05)
    coin = found.deviations[0][0]
    assert found.bernstein()[0] == pytest.approx(
        [coin * np.sqrt(2 * log / 100) + 7 * 2 * log / (3 * 99)]
    )
    assert found.bernstein()[1][1] == pytest.approx(0.0, abs=1e-15)


def test_unequal_horizons_share_one_bound():
    # Two coins of horizon 1 and 1.5: independent ranges add in squares.
    mdp = MDP(np.full((2, 1, 2), 0.5), [0.5, 0.5], 0.5)
    walks = Demonstrations([0, 1, 0], [0, 0, 0], [0, 1, 3])
    found = expectations(mdp, Features([[0.0], [1.0]]), walks)
    assert found.horizons == Horizons(number=2, mean=1.25, square=1.625, longest=1.5)
    half = np.sqrt((1 + 1.5**2) * np.log(2 / 0.1) / 2) / 2
    assert found.hoeffding(0.9)[0] == pytest.approx([half])


def test_low_variance_makes_bernstein_the_smaller_one():
    # A rare coin, many trajectories: the range is all that Hoeffding knows.
    mdp = MDP(np.tile([0.99, 0.01], (2, 1, 1)), [0.99, 0.01], 0.0)
    walks = simulate(mdp, np.ones((2, 1)), trajectories=20_000, steps=1, seed=0)
    found = expectations(mdp, Features([[0.0], [1.0]]), walks)
    assert found.bernstein()[0] < 0.5 * found.hoeffding()[0]


def test_the_guarantee_bounds_every_return(batches):
    _, exact, found = batches
    rng = np.random.default_rng(0)
    for f in found[:50]:
        reached = tuple(e + 0.1 * rng.normal(size=len(e)) for e in exact)
        limits = f.guarantee(reached, f.hoeffding(0.999))
        for block, limit in enumerate(limits):
            weights = rng.normal(size=len(exact[block]))
            weights /= np.abs(weights).sum()
            assert abs(weights @ (exact[block] - reached[block])) <= limit


def test_a_single_trajectory_has_no_error_bar():
    mdp = corridor()
    found = expectations(mdp, Features(np.eye(3)), Demonstrations([0, 1], [0, 1], [0, 2]))
    assert np.isnan(found.deviations[0]).all()
    assert np.isnan(found.noise)
    assert np.isinf(found.bernstein()[0]).all()
    assert np.isfinite(found.hoeffding()[0]).all()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_of_a_map_do_not_change_gap_and_noise(batches, scale):
    rng = np.random.default_rng(1)
    mdp = MDP(rng.dirichlet(np.ones(4), (4, 2)), rng.dirichlet(np.ones(4)), 0.8)
    walks = simulate(mdp, np.full((4, 2), 0.5), trajectories=20, steps=30)
    maps = rng.normal(size=(4, 2)), rng.random((4, 2, 3))
    visits = oracles.policy_visitation(mdp, rng.dirichlet(np.ones(2), 4))
    one, other = Features(maps[0], [maps[1]]), Features(maps[0], [scale * maps[1]])
    first, second = (expectations(mdp, f, walks) for f in (one, other))
    assert second.noise == pytest.approx(first.noise, rel=1e-12)
    assert second.relative_truncation == pytest.approx(first.relative_truncation, rel=1e-12)
    gaps = first.gap(pull_back(one, visits)), second.gap(pull_back(other, visits))
    assert gaps[1] == pytest.approx(gaps[0], rel=1e-12)
    assert gaps[0] > 0
    assert first.gap(first.means) == 0


def test_the_gap_by_hand():
    # Sums (3, 4) and (1,), reached (3, 3.5) and (1.2,). Nothing varies, so each has its sum for a
    # unit: (0, 1 / 8) of (1, 1), and 20 %.
    mdp = MDP([[[1.0]]], [1.0], 0.0)
    found = expectations(
        mdp, Features([[3.0, 4.0]], [[[1.0]]]), Demonstrations([0, 0], [0, 0], [0, 1, 2])
    )
    gap = found.gap((np.array([3.0, 3.5]), np.array([1.2])))
    assert gap == pytest.approx(np.sqrt((0.125**2 / 2 + 0.2**2) / 2))


def test_a_map_that_is_zero_everywhere_says_nothing():
    mdp = corridor()
    walks = simulate(mdp, np.tile([0.5, 0.5], (3, 1)), trajectories=5, steps=4)
    found = expectations(mdp, Features(np.eye(3), [np.zeros((3, 2))]), walks)
    assert (found.costs[0] == 0).all()
    assert np.isfinite(found.noise)
    assert found.gap(found.means) == 0


# --- the border -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "walks", "error", "message"),
    [
        (Features(np.ones((4, 1))), None, InvalidModel, "reward features"),
        (Features(np.ones((3, 1)), [np.ones((3, 5, 1))]), None, InvalidModel, "cost features 0"),
        (None, Demonstrations([7], [0], [0, 1]), InvalidDemonstrations, "every state"),
        (np.ones((3, 1)), None, InvalidModel, "features must be a Features; got ndarray"),
        (None, [([0], [0])], InvalidDemonstrations, "must be Demonstrations; got list"),
    ],
)
def test_what_does_not_belong_together_is_refused(features, walks, error, message):
    features = Features(np.eye(3)) if features is None else features
    walks = Demonstrations([0], [0], [0, 1]) if walks is None else walks
    with pytest.raises(error, match=message):
        check_task(corridor(), features, walks)


def test_confidence_is_a_probability():
    found = expectations(corridor(), Features(np.eye(3)), Demonstrations([0], [0], [0, 1]))
    with pytest.raises(InvalidModel, match="confidence"):
        found.hoeffding(1.0)
