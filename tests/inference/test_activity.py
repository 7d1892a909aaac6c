"""The test whether a constraint is active: its law in closed form, and its rate of false alarms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, norm

import tacit
from experts import drawn, grid, hill_expert, pairs, policy_of, spread_visits, tangle
from kinds import told
from strategies import draws, examples
from tacit import Features
from tacit.engine.backends import Direct
from tacit.estimators.likelihood import Likelihood
from tacit.inference import activity as tests_of_activity
from tacit.inference.activity import Trial, judge, selection_of, small_sample
from tacit.inference.boundary import activity_p_value
from tacit.inference.findings import Kind
from tacit.inference.idle_constraints import level_findings
from tacit.inference.information import FARTHEST, Chosen
from tacit.inference.tails import DRAWS, MORE_DRAWS, at_level, simulated_chance
from tacit.likelihood.problem import Fit
from tacit.likelihood.steps import StepsChain
from tacit.search.algebra import covariance_root

SEEDS = st.integers(0, 2**20)


def mask(size: int, *places: int) -> np.ndarray:
    found = np.zeros(size, bool)
    found[list(places)] = True
    return found


def p_value(ratio, fisher, tested, free=None, held=None, seed=0):
    nothing = np.zeros(len(fisher), bool)
    free = nothing if free is None else free
    held = nothing if held is None else held
    return activity_p_value(ratio, fisher, tested, free, held, seed=seed)


def close_to(p: float, expected: float) -> bool:
    """Within five standard errors of a simulated share."""
    return abs(p - expected) <= 5 * np.sqrt(expected * (1 - expected) / DRAWS) + 1 / DRAWS


def test_the_law_hangs_on_no_sign_of_an_eigenvector(monkeypatch):
    """Nor on the last bit of the information, which turns such signs."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(4, 9))
    fisher, eigh = root @ root.T, np.linalg.eigh
    about = (mask(4, 0, 1), mask(4, 2), mask(4, 3))
    plain = p_value(3.0, fisher, *about)
    assert p_value(3.0, fisher * (1.0 + 2e-16), *about) == plain
    half = covariance_root(fisher)
    np.testing.assert_allclose(half @ half.T, fisher, rtol=1e-12)

    def flipped(matrix):
        values, vectors = eigh(matrix)
        return values, vectors * np.where(np.arange(len(values)) % 2, -1.0, 1.0)

    monkeypatch.setattr(np.linalg, "eigh", flipped)
    assert p_value(3.0, fisher, *about) == plain
    np.testing.assert_allclose(covariance_root(fisher), half, rtol=1e-12)


def test_draws_follow_units():
    """What is drawn for a parameter in other units is what was drawn, in those units."""
    root = np.random.default_rng(3).normal(size=(3, 5))
    matrix, units = root @ root.T, np.array([1e-6, 1.0, 1e6])
    scaled = covariance_root(matrix * np.outer(units, units))
    np.testing.assert_allclose(scaled, units[:, None] * covariance_root(matrix), rtol=1e-12)


def test_more_draws_are_made_at_the_level_alone():
    made = []

    def share(chance):
        def larger(random, count):
            made.append(count)
            return int((random.random(count) < chance).sum())

        return larger

    for chance, many in ((0.3, DRAWS), (0.051, MORE_DRAWS), (0.026, MORE_DRAWS)):
        made.clear()
        found = simulated_chance(share(chance), seed=0, levels=[0.05, 0.025])
        assert sum(made) == many
        assert found == pytest.approx(chance, abs=4 * np.sqrt(chance / many))
    assert at_level([0.05, 0.0524, 0.053], 0.05).tolist() == [True, True, False]
    assert not at_level([1.0, np.nan], 1.0).any()


@given(SEEDS, st.floats(0.3, 8.0))
@examples(20)
def test_one_parameter_follows_half_a_chi_square(seed, ratio):
    # A normal estimate is below its bound half of the time, and then gains nothing.
    p = p_value(ratio, np.array([[3.7]]), mask(1, 0), seed=seed)
    assert close_to(p, 0.5 * chi2.sf(ratio, 1))


@given(SEEDS, st.floats(0.3, 8.0))
@examples(20)
def test_independent_parameters_follow_the_binomial_mixture(seed, ratio):
    # Each of two is inside with chance one half: weights 1/4, 1/2, 1/4 on 0, 1, 2 degrees.
    fisher = np.diag([1e-4, 5e6])
    p = p_value(ratio, fisher, mask(2, 0, 1), seed=seed)
    assert close_to(p, 0.5 * chi2.sf(ratio, 1) + 0.25 * chi2.sf(ratio, 2))


@pytest.mark.parametrize("correlation", [-0.9, -0.3, 0.6, 0.95])
def test_correlated_parameters_follow_the_angle_of_their_cone(correlation):
    # Estimates have minus the correlation of the information: both are above their bound with
    # chance arccos(correlation) / 2 pi, and exactly one is in the projection half of the time.
    fisher = np.array([[2.0, correlation * np.sqrt(6.0)], [correlation * np.sqrt(6.0), 3.0]])
    both = np.arccos(correlation) / (2 * np.pi)
    for ratio in (1.0, 3.0, 6.0):
        p = p_value(ratio, fisher, mask(2, 0, 1))
        assert close_to(p, 0.5 * chi2.sf(ratio, 1) + both * chi2.sf(ratio, 2))


@given(SEEDS)
@examples(20)
def test_free_nuisances_leave_the_information_that_is_left(seed):
    # The law depends on the information profiled over the free parameters only.
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 9))
    fisher = root @ root.T
    tested, free = mask(4, 0, 1), mask(4, 2, 3)
    left = fisher[:2, :2] - fisher[:2, 2:] @ np.linalg.solve(fisher[2:, 2:], fisher[2:, :2])
    one = p_value(2.5, fisher, tested, free)
    two = p_value(2.5, left, mask(2, 0, 1))
    assert abs(one - two) <= 10 * np.sqrt(0.25 / DRAWS)


@given(SEEDS, st.sampled_from([1e-6, 1e6]))
@examples(10)
def test_units_do_not_matter(seed, factor):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 9))
    fisher = root @ root.T
    units = np.array([factor, 1.0, 1.0, 1 / factor])
    tested, free, held = mask(4, 0, 1), mask(4, 2), mask(4, 3)
    one = p_value(2.0, fisher, tested, free, held)
    two = p_value(2.0, fisher * np.outer(units, units), tested, free, held)
    assert one == pytest.approx(two, abs=5 * np.sqrt(0.25 / DRAWS))


@given(SEEDS)
@examples(10)
def test_a_larger_ratio_is_less_likely(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 5))
    chances = [p_value(ratio, root @ root.T, mask(3, 0, 1), mask(3, 2)) for ratio in (0.5, 2, 4, 9)]
    assert chances == sorted(chances, reverse=True)
    assert chances[-1] >= 1.0 / (1 + DRAWS)
    assert chances[0] <= 1.0


def test_what_the_free_parameters_can_do_as_well_is_not_testable():
    fisher = np.array([[2.0, 2.0], [2.0, 2.0]])
    assert p_value(9.0, fisher, mask(2, 0), mask(2, 1)) == 1.0
    assert p_value(9.0, np.zeros((2, 2)), mask(2, 0), mask(2, 1)) == 1.0
    assert p_value(9.0, np.eye(2), np.zeros(2, bool), mask(2, 1)) == 1.0


def test_a_nuisance_on_its_bound_may_take_the_credit():
    # Held nuisances enter both fits as cones. One that could do the same explains all there is.
    fisher = np.array([[2.0, 1.999], [1.999, 2.0]])
    alone = p_value(3.0, fisher[:1, :1], mask(1, 0))
    beside = p_value(3.0, fisher, mask(2, 0), None, mask(2, 1))
    assert beside < alone
    assert close_to(alone, 0.5 * chi2.sf(3.0, 1))


def replicates(price: float, count: int, seed: int) -> np.ndarray:
    """[count] whether the constraint was called active, steps drawn straight from the model."""
    world = grid()
    policy, visitation = hill_expert(1, 0.0025, price)
    visits = spread_visits(visitation, 20_000)
    rng = np.random.default_rng(seed)
    called = [
        Likelihood()
        .fit(world.mdp, world.features, pairs(drawn(rng, policy, visits)))
        .identification.active[0]
        for _ in range(count)
    ]
    return np.array(called)


def test_false_alarms_are_as_rare_as_the_level_says():
    many = draws(200)
    alarms = int(replicates(0.0, many, 7).sum())
    # A test of size 5 % raises between 2 and 21 of 200 alarms in all but one of a thousand runs.
    low, high = binom.interval(0.999, many, 0.05)
    assert low <= alarms <= high


def test_a_constraint_that_is_paid_for_is_found():
    assert replicates(0.05, 25, 8).all()


def stand_ins(noise: float, price: float, seed: int = 1, count: int = 2) -> tuple:
    """(world, features, steps): constraint 0 has the price, the others copy its features."""
    world, rng = tangle(), np.random.default_rng(seed)
    cost = world.features.costs[0]
    copies = [cost + noise * cost.std() * rng.normal(size=cost.shape) for _ in range(count - 1)]
    features = Features(world.features.reward, [cost, *copies])
    theta = [world.reward_weights / 0.1, price * world.cost_weights[0]]
    theta += [np.zeros(3)] * (count - 1)
    policy = policy_of(world.mdp, features, theta)
    return world, features, pairs(drawn(rng, policy, np.full(9, 2_000)))


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_copies_are_a_set_of_which_one_is_active(noise):
    world, features, seen = stand_ins(noise, 6.0)
    recovery = Likelihood().fit(world.mdp, features, seen)
    known = recovery.identification
    assert known.active.tolist() == [False, False]
    assert (known.p_values > 0.05).all()
    (found,) = known.sets
    assert found.members == (0, 1)
    assert found.p_value < 0.001
    assert known.set_of(1) is found
    assert known.selection.count == 1
    told = [one for one in known.findings if one.about.constraints == (0, 1)]
    assert [(one.kind, one.about.number) for one in told] == [(Kind.NOT_IDENTIFIED, found.p_value)]
    assert not [one for one in known.findings if one.kind in (Kind.ACTIVE, Kind.INACTIVE)]
    # Each price may be 0, and all that the set costs where it carries all alone.
    for k in range(2):
        alone = Features(features.reward, [features.costs[k]])
        price = Likelihood().fit(world.mdp, alone, seen).multipliers[0]
        low, high = known.multiplier_intervals[k]
        assert low == 0.0
        assert high >= price
    # The answer given is one explanation, not a mixture.
    assert (recovery.multipliers > 0).sum() == 1
    assert "not told which" in " ".join(recovery.summary().split())


def test_copies_of_an_idle_constraint_are_no_set():
    world, features, seen = stand_ins(0.0, 0.0)
    known = Likelihood().fit(world.mdp, features, seen).identification
    assert known.sets == ()
    assert known.selection.count == 0
    assert not known.active.any()
    assert [one.kind for one in known.findings].count(Kind.INACTIVE) == 2
    assert Kind.ACTIVE not in [one.kind for one in known.findings]


def test_a_set_survives_the_disk(tmp_path):
    world, features, seen = stand_ins(0.0, 6.0)
    recovery = Likelihood().fit(world.mdp, features, seen)
    recovery.save(tmp_path / "run")
    again = tacit.Recovery.load(tmp_path / "run").identification
    assert again.sets == recovery.identification.sets
    assert again.selection.members == recovery.identification.selection.members
    assert again.selection.criteria.tolist() == recovery.identification.selection.criteria.tolist()
    assert [one.about for one in again.findings] == [
        one.about for one in recovery.identification.findings
    ]


def judged(chances, losses, count, level=0.05, groups=()):
    """The verdict where the fit without a set has this p-value and this loss."""
    trials = {key: Trial(key, loss, count - len(key), lambda: 1.0) for key, loss in losses.items()}
    for key, p in chances.items():
        trials[key] = Trial(key, losses[key], count - len(key), lambda p=p: p)
    drop = trials.__getitem__
    return judge(trials[()], count, drop, level=level, steps=100.0, groups=groups)


def test_holm_and_the_test_of_all_decide_together():
    losses = {(): 0.0, (0,): 9.0, (1,): 3.0, (0, 1): 12.0}
    kept, verdict = judged({(0,): 0.001, (1,): 0.04, (0, 1): 0.0005}, losses, 2)
    assert kept == ()
    assert verdict.active.tolist() == [True, True]
    assert verdict.p_values.tolist() == [0.002, 0.04]
    kept, verdict = judged({(0,): 0.001, (1,): 0.06, (0, 1): 0.0005}, losses, 2)
    assert (kept, verdict.active.tolist(), verdict.sets) == ((1,), [True, False], ())
    # Not one by itself, but one of them for certain: the likelier is in the answer.
    kept, verdict = judged({(0,): 0.03, (1,): 0.5, (0, 1): 0.01}, losses, 2)
    assert (kept, verdict.active.any(), verdict.sets[0].members) == ((1,), False, (0, 1))
    assert verdict.p_values.tolist() == [0.06, 0.5]
    # Nothing is said where all at once are not seen to be needed.
    kept, verdict = judged({(0,): 0.01, (1,): 0.5, (0, 1): 0.2}, losses, 2)
    assert (kept, verdict.active.any(), verdict.sets) == ((0, 1), False, ())
    assert (verdict.p_values >= 0.2).all()


def test_what_the_error_of_a_simulated_law_decides_is_at_the_level():
    losses = {(): 0.0, (0,): 9.0, (1,): 3.0, (0, 1): 12.0}
    chances = {(0,): 0.0251, (1,): 0.04, (0, 1): 0.0005}  # compared with 0.025 and 0.05
    verdict = judged(chances, losses, 2)[1]
    assert verdict.at_level.tolist() == [True, False]
    (said,) = level_findings(verdict)
    assert (said.about.constraint, said.about.number) == (0, 0.0502)
    chances |= {(0,): 0.001, (1,): 0.0501}
    assert judged(chances, losses, 2)[1].at_level.tolist() == [False, True]
    chances |= {(1,): 0.04, (0, 1): 0.0502}  # below a test of both
    assert judged(chances, losses, 2)[1].at_level.tolist() == [True, False]
    chances |= {(0, 1): 0.0005}
    verdict = judged(chances, losses, 2)[1]
    assert not verdict.at_level.any()
    assert level_findings(verdict) == []


def test_a_set_has_no_member_that_it_can_do_without():
    # 0 and 2 stand in for each other; 1 does nothing.
    every = [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    losses = {key: 20.0 if {0, 2} <= set(key) else 0.1 * len(key) for key in every}
    chances = {key: 0.0002 if {0, 2} <= set(key) else 0.8 for key in every[1:]}
    kept, verdict = judged(chances, losses, 3)
    assert [one.members for one in verdict.sets] == [(0, 2)]
    assert kept in ((0, 1), (1, 2))
    assert verdict.selection.count == 1


def test_groups_in_doubt_share_the_level_of_their_sets():
    """Of two groups that each have two copies the sets are tested at half the level each."""
    every = [tuple(k for k in range(4) if code >> k & 1) for code in range(16)]
    first, second = {0, 1}, {2, 3}

    def found(other):
        chances = dict.fromkeys(every[1:], 0.8)
        for key in every[1:]:
            chances[key] = other if second <= set(key) else chances[key]
            chances[key] = 0.001 if first <= set(key) else chances[key]
        losses = {key: 9.0 * (first <= set(key)) + 3.0 * (second <= set(key)) for key in every}
        kept, verdict = judged(chances, losses, 4, groups=[range(2), range(2, 4)])
        assert verdict.selection is None
        assert not verdict.active.any()
        return len(kept), [one.members for one in verdict.sets]

    assert found(0.02) == (2, [(0, 1), (2, 3)])
    assert found(0.03) == (3, [(0, 1)])  # below the level, and above its half


def test_the_criterion_counts_what_is_needed():
    losses = {(): 0.0, (0,): 50.0, (1,): 1.0, (0, 1): 60.0}
    _, verdict = judged({(0,): 0.0002, (1,): 0.2, (0, 1): 0.0002}, losses, 2)
    chosen = verdict.selection
    assert (chosen.count, chosen.members) == (1, (0,))
    assert chosen.log_likelihoods.tolist() == [-60.0, -1.0, 0.0]
    assert chosen.criteria == pytest.approx([120.0, 2.0 + np.log(100), 2 * np.log(100)])


def test_what_was_not_tested_is_not_said_to_be_active():
    """Five steps whose likelihood has no maximum: a ridge gives a point, and no test was made."""
    world = tacit.worlds.random(1, states=12, actions=3, constraints=1, features=3, tightness=0.5)
    soft = tacit.SoftDual(temperature=0.3)
    expert = tacit.solve(world.mdp, tacit.Objective(world.truth.reward), solver=soft)
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=1, steps=5, seed=1001)
    found = Likelihood().fit(world.mdp, world.features, seen)
    known = found.identification
    assert found.status is tacit.RecoveryStatus.EXPERT_DETERMINISTIC
    assert np.isnan(known.p_values).all()
    assert not known.active.any()
    assert not told(known.findings, Kind.ACTIVE)
    assert told(known.findings, Kind.NOT_CONVERGED)


def test_a_few_steps_seldom_make_a_constraint_active():
    """Of an expert who acts at random; without a correction for few steps 4 of these 14 do."""
    wrong = []
    for draw in range(5, 19):
        world = tacit.worlds.random(draw % 6, states=12, actions=3, features=3, tightness=0.5)
        policy = np.full((12, 3), 1 / 3)
        seen = tacit.simulate(world.mdp, policy, trajectories=1, steps=5, seed=5000 + draw)
        found = Likelihood().fit(world.mdp, world.features, seen)
        wrong.append(bool(found.identification.active.any()))
    assert sum(wrong) <= binom.ppf(0.99, len(wrong), 0.05)


@pytest.mark.parametrize("true", [0.0, 1.0, 2.0, 3.0, 3.6])
def test_prices_left_out_are_within_reach_among_those_left_out(true):
    # A normal estimate is left out below its quantile: over all that are, its reach holds 95 %.
    least = norm.ppf(0.95)
    shares = (np.arange(400) + 0.5) / 400 * norm.cdf(least - true)
    estimates = true + norm.ppf(shares)  # as likely as each other, given that it is left out
    chances = np.where(estimates > 0, norm.sf(estimates), 1.0)  # below 0 the estimate is 0
    reach = [Chosen.of(np.array([p]), np.zeros(1), 0.05).reach(0) for p in chances.tolist()]
    held = np.mean(np.maximum(estimates, 0.0) + reach >= true)
    assert held >= 0.945  # the grids of reaches and of estimates are worth half a hundredth
    assert held <= 0.965 or true < 2.2
    assert max(reach) <= FARTHEST


def test_constraints_kept_or_not_chosen_have_no_farther_reach():
    assert Chosen.of(np.array([0.2]), np.zeros(1), 1.0).reach(0) == 0.0
    assert Chosen.of(np.array([0.02]), np.ones(1), 0.05).reach(0) == 0.0
    assert Chosen.of(np.array([np.nan]), np.zeros(1), 0.05).reach(0) == 0.0
    assert Chosen.of(np.ones(1), np.zeros(1), 0.05).reach(0) == pytest.approx(2.17, abs=0.01)
    asked = {p: Chosen.of(np.array([p]), np.ones(1), 0.05) for p in (0.001, 0.01, 0.05, 0.3)}
    assert [one.barely_found(0) for one in asked.values()] == [False, True, True, False]
    assert not Chosen.of(np.array([0.01]), np.ones(1), 1.0).barely_found(0)
    assert not Chosen.of(np.array([0.01]), np.zeros(1), 0.05).barely_found(0)


def test_weights_of_a_constraint_found_barely_may_be_anything():
    # The same few steps, at a level that finds the constraint barely, clearly, or keeps it anyhow.
    world = tacit.worlds.random(0, states=6, actions=3, constraints=1, features=2, tightness=0.5)
    mdp, features = world.mdp, world.features
    theta = [6.0 * world.reward_weights, 2.0 * world.cost_weights[0]]
    seen = tacit.simulate(mdp, policy_of(mdp, features, theta), trajectories=8, steps=15, seed=4)
    kept = Likelihood(level=1.0).fit(mdp, features, seen)
    p = float(kept.identification.p_values[0])
    assert 0.0005 < p < 0.5
    barely = Likelihood(level=min(2.0 * p, 0.9)).fit(mdp, features, seen)
    left_out = Likelihood(level=0.9 * p).fit(mdp, features, seen)
    (said,) = told(barely.identification.findings, Kind.NOTE, constraint=0)
    assert said.about.number == barely.identification.p_values[0]
    assert said.about.number == pytest.approx(p, abs=5 * np.sqrt(p / DRAWS))
    assert barely.identification.cost_intervals[0].tolist() == [[0.0, 1.0]] * 2
    assert not (kept.identification.cost_intervals[0] == [0.0, 1.0]).all()
    np.testing.assert_array_equal(
        barely.identification.multiplier_intervals, kept.identification.multiplier_intervals
    )
    top = [one.identification.multiplier_intervals[0, 1] for one in (kept, left_out)]
    assert top[1] > top[0] > 0
    assert not told(kept.identification.findings, Kind.NOTE, constraint=0)


def test_where_the_doubt_about_the_dynamics_decides_it_is_said():
    rng = np.random.default_rng(1)
    mdp = tacit.MDP(rng.dirichlet(np.full(6, 0.4), (6, 3)), np.full(6, 1 / 6), 0.9)
    features = Features(rng.random((6, 3, 2)), [rng.random((6, 1))])
    policy = policy_of(mdp, features, [np.array([3.0, 2.0]), np.array([1.25])])
    seen = tacit.simulate(mdp, policy, trajectories=60, steps=20, seed=1)
    walk = tacit.simulate(mdp, np.full((6, 3), 1 / 3), trajectories=1, steps=60, seed=100)
    counted = tacit.MDP.from_transitions(
        walk, n_states=6, n_actions=3, discount=0.9, initial=mdp.initial
    )
    pooled = Likelihood().fit(counted, features, seen, throw=False)
    plain = Likelihood().fit(replace(counted, evidence=None), features, seen, throw=False)
    p = float(plain.identification.unadjusted[0])
    assert p < 0.05 < pooled.identification.unadjusted[0]
    assert plain.goodness.adequate  # so both are tested alike
    assert pooled.goodness.adequate
    (said,) = told(pooled.identification.findings, Kind.NOT_IDENTIFIED, constraint=0)
    assert said.about.number == p
    assert not told(plain.identification.findings, Kind.NOT_IDENTIFIED, constraint=0)


def on_both_engines(many: int) -> list[np.ndarray]:
    """[2, 2] p-values of two constraints of two features each, on NumPy and in JAX, by draw."""
    import jax

    from tacit.engine.backends.device import dense

    pairs_of = []
    for draw in range(many):
        world = tacit.worlds.random(
            draw, states=8, actions=3, constraints=2, features=2, tightness=0.5
        )
        theta = [4.0 * world.reward_weights, *(0.5 * weights for weights in world.cost_weights)]
        policy = policy_of(world.mdp, world.features, theta)
        seen = tacit.simulate(world.mdp, policy, trajectories=20, steps=15, seed=draw)
        found = []
        for held in (Direct(world.mdp), dense(world.mdp)):
            world.mdp.__dict__["_backend"] = held, (None, False)
            with jax.enable_x64(True):
                one = Likelihood().fit(world.mdp, world.features, seen, throw=False)
            found.append(one.identification.unadjusted)
        pairs_of.append(np.array(found))
    return pairs_of


def test_engines_find_the_same_p_values():
    for numpy, jax in on_both_engines(6):
        # The same draws: rounding decides about one of them at most.
        np.testing.assert_allclose(numpy, jax, rtol=0, atol=1.5 / DRAWS)


@pytest.mark.study
def test_engines_find_the_same_p_values_in_many_draws():
    found = np.array(on_both_engines(200))
    assert np.isfinite(found).mean() > 0.9
    np.testing.assert_allclose(found[:, 0], found[:, 1], rtol=0, atol=1.5 / DRAWS)
    assert ((found[:, 0] != found[:, 1]).mean(axis=0) < 0.02).all()


def test_likelihood_ratios_of_few_steps_are_shrunk():
    assert small_sample(5, 4) == pytest.approx(0.2)
    assert small_sample(3, 4) == 0.0
    assert small_sample(40, 4) == 1.0


def test_the_least_needed_are_found_without_fits_that_cannot_be_it():
    """The path is that of fitting every candidate, ties too, and most of them are never fitted."""
    rng, fitted = np.random.default_rng(0), 0
    for draw in range(20):
        # What is lost grows with what is gone: sets of constraints that are needed together.
        needs = rng.random((12, 6)) < 0.3
        worth = rng.integers(0, 4, 12) if draw % 2 else rng.exponential(10.0, 12)
        every, asked = range(6), {}

        def without(members, needs=needs, worth=worth, asked=asked):
            loss = float(worth[needs[:, list(members)].any(axis=1)].sum())
            return asked.setdefault(tuple(sorted(members)), Trial(None, loss, 0, lambda: 1.0))

        gone, losses = [], [0.0]
        while len(gone) < 6:
            rest = [k for k in every if k not in gone]
            gone.append(min(rest, key=lambda k: without([*gone, k]).loss))
            losses.append(without(gone).loss)
        asked.clear()
        found = selection_of(every, without, 100.0)
        assert (-found.log_likelihoods[::-1]).tolist() == losses
        fitted += len(asked)
    assert fitted < 20 * 20  # of 22 each


def test_short_cuts_in_large_models_change_no_answer(monkeypatch):
    """Fits of what can move alone, begun near by, and tests left out: what plain refits find."""
    mdp = tacit.worlds.hill_grid(seed=0, size=17).mdp  # too large for elimination
    mdp = tacit.MDP(mdp.transitions, np.full(mdp.states, 1.0 / mdp.states), 0.9)
    maps = np.random.default_rng(1).random((6, mdp.states, 1)).cumsum(axis=1) % 4.0
    features = Features(maps[0], [*maps[1:3], np.hstack(maps[3:5]), maps[5]])
    policy = policy_of(mdp, features, [[1.0], [0.5], [0.7], [0.0, 0.0], [0.05]])
    seen = tacit.simulate(mdp, policy, trajectories=20, steps=400, seed=1)
    estimator = Likelihood(fixed={5: 0.05})
    found = estimator.fit(mdp, features, seen)
    assert found.identification.active.tolist() == [True, True, False, True]
    assert 0.05 < found.identification.p_values[2] < 1.0  # not clear: its law is asked

    begun, refit = [], Fit.refit

    def plainly(self, problem, **rules):
        begun.append(self)
        return refit(begun[0], problem, **rules)  # always from the fit of all

    monkeypatch.setattr(tests_of_activity, "is_beyond", lambda *_: False)
    monkeypatch.setattr(StepsChain, "large", False)
    monkeypatch.setattr(Fit, "refit", plainly)
    again = estimator.fit(mdp, features, seen)
    assert any(one is not begun[0] for one in begun)
    one, other = found.identification, again.identification
    # The same draws of the same law: rounding decides about one of them at most.
    assert one.p_values[:2].tolist() == other.p_values[:2].tolist()
    assert one.p_values[2] == pytest.approx(other.p_values[2], abs=1.5 / DRAWS)
    # A search ends at 1e-9 of the gradient: its square is left of the loss, itself of the rest.
    criteria = one.selection.criteria, other.selection.criteria
    assert criteria[0] == pytest.approx(criteria[1], rel=1e-12)
    for name in ("estimates", "information", "gradient"):
        pair = getattr(found.parameters, name), getattr(again.parameters, name)
        assert pair[0] == pytest.approx(pair[1], rel=1e-6, abs=1e-6), name
    assert found.budgets == pytest.approx(again.budgets, rel=1e-7)
