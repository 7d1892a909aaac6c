"""Published methods: one conformance test over all, each against a closed form or brute force."""

import dataclasses
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

import tacit
from refusals import refusal
from tacit.estimators.forbidden.candidates import candidates_of
from tacit.forward.solution import visitation
from tacit.inference.expectations import pull_back
from tacit.inference.findings import Finding, Kind
from tacit_lab import families, worlds
from tacit_lab.families.experts import ObservedTrips, trajectory_partition
from tacit_lab.families.margins import (
    advantages_of,
    best_margins,
    nearest_mixture,
    planning_loss,
)
from tacit_lab.families.search import seen_expectations

TEMPERATURE = 2e-3


@pytest.fixture(scope="module")
def world():
    return tacit.worlds.hill_grid(1, size=3, tightness=0.5)


@pytest.fixture(scope="module")
def seen(world):
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(TEMPERATURE))
    return tacit.simulate(world.mdp, expert.policy, trajectories=40, steps=40, seed=0)


def estimators(world):
    """Every family, with what it must be told of this world."""
    return {
        "Apprenticeship": families.Apprenticeship(tolerance=1e-2),
        "LinearProgramming": families.LinearProgramming(),
        "MarginPlanning": families.MarginPlanning(tolerance=1e-3),
        "SafeSet": families.SafeSet(world.reward_weights),
        "SoftConstraint": families.SoftConstraint(world.reward_weights, 1.0),
        "CausalEntropy": families.CausalEntropy(),
        "Cloning": tacit.Cloning(),
        "InverseActionValues": families.InverseActionValues(),
        "KnownConstraints": families.KnownConstraints(world.cost_weights, world.truth.budgets),
        "MaximumEntropy": families.MaximumEntropy(),
        "LikeliestConstraints": families.LikeliestConstraints(world.reward_weights, TEMPERATURE),
        "PosteriorConstraints": families.PosteriorConstraints(
            world.reward_weights, TEMPERATURE, candidates=("states",), draws=60
        ),
        "RewardOnly": tacit.RewardOnly(),
        "ConstraintAsReward": families.ConstraintAsReward(world.reward_weights, TEMPERATURE),
        "PenaltyConstraints": families.PenaltyConstraints(world.reward_weights, TEMPERATURE),
        "ConstraintOnly": tacit.ConstraintOnly(world.reward_weights),
    }


# Those whose answer is a table, so that weights are NaN.
TABLES = ("Cloning", "InverseActionValues")
NAMES = [name for name in families.__all__ if name[0].isupper()]


@pytest.mark.parametrize("name", NAMES)
def test_every_family_keeps_the_contract(world, seen, name, tmp_path):
    estimator = estimators(world)[name]
    assert "Known weakness: " in type(estimator).__doc__
    mdp, features = world.mdp, world.features
    found = tacit.recover(mdp, features, seen, estimator=estimator, throw=False)
    assert isinstance(found, tacit.Recovery)
    assert isinstance(found.status, tacit.RecoveryStatus)
    assert found.estimator == repr(estimator)
    assert eval(repr(estimator), vars(families)) == estimator
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimator.anything = 1
    # Weights in the gauge, or NaN where there are none.
    size = features.reward.shape[-1]
    assert found.reward_weights.shape == (size,)
    if name in TABLES:
        assert np.isnan(found.reward_weights).all()
    else:
        assert np.abs(found.reward_weights).sum() == pytest.approx(1.0)
    for price, budget, weights, names in zip(
        found.multipliers, found.budgets, found.cost_weights, found.cost_names, strict=True
    ):
        assert len(weights) == len(names)
        if np.isnan(weights).any():
            assert price == 0
            assert budget == np.inf
        else:
            assert np.abs(weights).sum() == pytest.approx(1.0)
    # A policy of this world, solved and judged; the objective is the one that was solved.
    policy = found.solution.policy
    np.testing.assert_allclose(policy.sum(axis=1), 1.0, atol=1e-9)
    reward, _ = found.objective.tables(mdp)
    assert found.solution.value == pytest.approx(float((reward * found.solution.visitation).sum()))
    assert found.solution.certificate.flow_residual < 1e-6
    assert np.isfinite(found.certificate.feature_gap)
    assert found.temperature == found.solution.temperature
    assert np.isfinite(found.log_likelihood) == (found.temperature > 0)
    assert all(isinstance(one, Finding) for one in found.identification.findings)
    assert len(found.history) >= 1
    # Every constraint is spoken of where the answer leaves it out.
    silent = {k for k, w in enumerate(found.cost_weights) if np.isnan(w).any()}
    assert silent <= {one.about.constraint for one in found.identification.findings}
    # Determined by its input alone, and kept on disk as it is.
    again = estimator.fit(mdp, features, seen, throw=False)
    found.save(tmp_path / "run")
    loaded = tacit.Recovery.load(tmp_path / "run")
    for other in (again, loaded):
        np.testing.assert_array_equal(other.reward_weights, found.reward_weights)
        np.testing.assert_array_equal(other.solution.policy, found.solution.policy)
        np.testing.assert_array_equal(other.objective.reward, found.objective.reward)
        np.testing.assert_array_equal(other.multipliers, found.multipliers)
        assert other.identification.findings == found.identification.findings
        assert repr(other.forbidden) == repr(found.forbidden)  # NaN is no equal of itself
    assert repr(estimator).split("(")[0] in found.summary()
    # Bad input is one line.
    odd = tacit.Demonstrations.from_pairs([0, 99], [0, 0])
    with refusal(tacit.InvalidDemonstrations):
        estimator.fit(mdp, features, odd)
    with refusal(tacit.InvalidModel):
        estimator.fit(mdp, tacit.Features(np.zeros((4, 1))), seen)


def test_bad_hyperparameters_are_one_line():
    for call, words in [
        (lambda: tacit.Cloning(-1.0), "pseudo_count must be"),
        (lambda: families.InverseActionValues(floor=0.0), "floor must be in"),
        (lambda: families.Apprenticeship(tolerance=0.0), "tolerance must be a positive number"),
        (lambda: families.LinearProgramming(penalty=-1.0), "penalty must be"),
        (lambda: families.MarginPlanning(0.0), "regularisation must be"),
        (lambda: families.SafeSet([0.0]), "reward_weights must be"),
        (lambda: families.SoftConstraint([1.0], -1.0), "budget must be"),
        (lambda: families.MaximumEntropy(ridge=-1.0), "ridge must be a number of at least 0"),
        (lambda: families.KnownConstraints([[1.0]], []), "one budget for"),
        (lambda: families.KnownConstraints([[0.0]], [1.0]), "not all 0"),
        (lambda: families.ConstraintAsReward([0.0], 1.0), "not all 0"),
        (lambda: families.ConstraintAsReward([1.0], 0.0), "temperature must be a positive number"),
        (lambda: families.PenaltyConstraints([1.0], 1.0, least=0.7), "least must be in"),
        (lambda: families.LikeliestConstraints([0.0]), "reward"),
        (lambda: families.LikeliestConstraints([1.0], candidates=("walls",)), "candidates"),
        (lambda: families.LikeliestConstraints([1.0], stop=0.0), "stop must be"),
        (lambda: families.LikeliestConstraints([1.0], None), "must be known"),
        (lambda: families.PosteriorConstraints([1.0], prior_chance=1.0), "prior_chance must be in"),
    ]:
        with refusal(tacit.InvalidModel, match=words):
            call()


# --- cloning, inverse action values ---------------------------------------------------------------


def test_a_clone_does_what_was_done(world, seen):
    found = tacit.Cloning().fit(world.mdp, world.features, seen)
    counts = seen.counts(world.mdp)
    visited = counts.sum(axis=1) > 0
    shares = counts[visited] / counts[visited].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.solution.policy[visited], shares)
    # The likeliest policy of all: no other has a larger likelihood.
    other = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())
    assert found.log_likelihood >= other.log_likelihood
    # Its reward has it as the noisy optimum: the solver agrees.
    smoothed = tacit.Cloning(0.5).fit(world.mdp, world.features, seen)
    solved = tacit.solve(world.mdp, smoothed.objective, solver=tacit.SoftDual(1.0))
    np.testing.assert_allclose(solved.policy, smoothed.solution.policy, atol=1e-7)
    assert found.solution.status is tacit.Status.CONVERGED


def test_a_clone_of_a_trip_comes_to_its_end():
    table = np.zeros((3, 2, 3))
    for s, a, after in [(0, 0, 1), (0, 1, 2), (1, 0, 0), (1, 1, 2)]:
        table[s, a, after] = 1.0
    mdp = tacit.MDP(table, [1.0, 0.0, 0.0], 1.0, available=table.any(axis=2))
    # Going to and fro, cut off: the shares alone would never end.
    seen = tacit.Demonstrations.from_trajectories([([0, 1] * 5, [0, 0] * 5)])
    found = tacit.Cloning().fit(mdp, tacit.Features(np.eye(3)), seen)
    assert found.solution.certificate.flow_residual < 1e-6
    assert found.solution.policy[2].sum() == 0
    with pytest.raises(tacit.InvalidModel, match="discount below 1"):
        families.InverseActionValues().fit(mdp, tacit.Features(np.eye(3)), seen)


def swept(mdp, chances, floor, sweeps=4000):
    """[S, A] rewards and values of the published sweeps: least squares, state by state."""
    states, actions = chances.shape
    moves, logs = mdp.dense(), np.log(chances + floor)
    matrix = np.full((actions, actions), -1.0 / (actions - 1))
    np.fill_diagonal(matrix, 1.0)
    reward, q = np.zeros((2, states, actions))
    for _ in range(sweeps):
        before = q.copy()
        for s in range(states):
            ahead = mdp.discount * moves[s] @ q.max(axis=1)
            eta = logs[s] - ahead
            reward[s] = np.linalg.lstsq(matrix, matrix @ eta, rcond=None)[0]
            q[s] = reward[s] + mdp.discount * moves[s] @ q.max(axis=1)
        if np.abs(q - before).max() < 1e-12:
            break
    return reward, q


def test_inverse_action_values_are_the_published_sweeps_in_closed_form():
    world = tacit.worlds.random(2, states=5, actions=3, features=2, constraints=0)
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(0.2))
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=3, steps=20, seed=1)
    found = families.InverseActionValues().fit(world.mdp, world.features, seen)
    cloned = tacit.Cloning().fit(world.mdp, world.features, seen).solution.policy
    reward, q = swept(world.mdp, cloned, 1e-6)
    np.testing.assert_allclose(found.objective.reward, reward, atol=1e-9)
    np.testing.assert_allclose(found.solution.values, q.max(axis=1), atol=1e-9)
    assert found.solution.status is tacit.Status.CONVERGED  # the optimum of its own reward
    noisy = families.choice_probabilities(world.mdp, found)
    np.testing.assert_allclose(noisy, (cloned + 1e-6) / (1 + 3e-6), atol=1e-12)


@pytest.mark.parametrize(("number", "shipped"), [(128, 2.606), (512, 2.045)])
def test_inverse_action_values_have_the_shipped_value_differences(data, number, shipped):
    world = worlds.recorded_objectworld(number, folder=data)
    found = families.InverseActionValues().fit(world.mdp, world.features, world.demonstrations[0])
    moves, worth = world.mdp.dense(), 0.9 * world.reward_weights
    values = 0.9 * (tacit.solve(world.mdp, world.truth).values - world.reward_weights) / 0.9
    choice = moves @ (worth + 0.9 * values)
    choice = np.exp(choice - choice.max(axis=1, keepdims=True))
    choice /= choice.sum(axis=1, keepdims=True)

    def value(policy):  # as its evaluation has it: what a state pays it pays on leaving
        chain = np.einsum("sa,sat->st", policy, moves)
        return np.linalg.solve(np.eye(1024) - 0.9 * chain, worth)

    noisy = families.choice_probabilities(world.mdp, found)
    # The source stops its own evaluation at differences of .01 and .001.
    assert np.square(value(choice) - value(noisy)).mean() == pytest.approx(shipped, abs=0.03)


# --- what is forbidden ----------------------------------------------------------------------------

# 0 -> {1, 2, 3} -> 4, and 1 -> 3: where each action of a state leads.
WAYS = {(0, 0): 1, (0, 1): 2, (0, 2): 3, (1, 0): 4, (1, 1): 3, (2, 0): 4, (3, 0): 4}
STEPS = np.array([1.0, 0.4, 0.7, 0.2])  # what leaving each state costs


def diamond():
    """A world of five trips, and features whose weights are the costs of its states."""
    table = np.zeros((5, 3, 5))
    for (s, a), after in WAYS.items():
        table[s, a, after] = 1.0
    mdp = tacit.MDP(table, np.eye(5)[0], 1.0, available=table.any(axis=2))
    return mdp, tacit.Features(np.eye(5)[:, :4])


def trips(state=0):
    """Every trip from a state: its states and its actions."""
    if state == 4:
        return [((), ())]
    return [
        ((state, *states), (a, *actions))
        for (s, a), after in WAYS.items()
        if s == state
        for states, actions in trips(after)
    ]


def test_the_divergence_falls_as_all_trips_say():
    mdp, features = diamond()
    done = [((0, 2), (1, 0)), ((0, 2), (1, 0)), ((0, 3), (2, 0))]
    seen = tacit.Demonstrations.from_trajectories(done, ended=[True] * 3)
    found = families.LikeliestConstraints(-STEPS, 0.5, ("states",), stop=0.05).fit(
        mdp, features, seen
    )
    gain = {trip: -STEPS[list(trip[0])].sum() / 0.5 for trip in trips()}
    entropy = -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3))
    mean = np.mean([gain[trip] for trip in done])

    def divergence(shut):
        left = [g for trip, g in gain.items() if not set(trip[0]) & shut]
        return np.log(np.exp(left).sum()) - mean - entropy

    # State 1 is all that nobody goes through.
    assert [one.index for one in found.forbidden] == [1]
    expected = [divergence(set()), divergence({1})]
    np.testing.assert_allclose(found.history["divergence"], expected, atol=1e-9)
    assert not found.available[0, 0]
    low = expected[0] - expected[1] - 1e-6
    one = families.LikeliestConstraints(-STEPS, 0.5, ("states",), stop=low).fit(mdp, features, seen)
    assert [found.index for found in one.forbidden] == [1]
    # A drop below what is worth a constraint adds none.
    high = expected[0] - expected[1] + 1e-6
    none = families.LikeliestConstraints(-STEPS, 0.5, ("states",), stop=high).fit(
        mdp, features, seen
    )
    assert none.forbidden == ()


@pytest.mark.parametrize(("n", "wrong", "recall"), [(1, 0.314, 0.678), (20, 0.0, 0.778)])
def test_likeliest_constraints_have_the_published_rows(data, n, wrong, recall):
    world = worlds.recorded_nine_by_nine(folder=data)
    names = np.array(world.features.cost_names[0])
    true = set(names[world.cost_weights[0] > 0])
    method = families.LikeliestConstraints(world.reward_weights, 1.0, groups=worlds.COLOURS)
    sets = world.demonstrations if n == 1 else world.demonstrations[:1]
    rows = []
    for seen in sets:
        few = seen.select(np.arange(seen.episodes) < n)
        found = {one.name for one in method.fit(world.mdp, world.features, few).forbidden}
        rows.append([len(found - true) / len(found), len(found & true) / 9])
    np.testing.assert_allclose(np.mean(rows, axis=0), [wrong, recall], atol=5e-4)


def test_the_chain_has_the_posterior_that_enumeration_has():
    mdp, features = diamond()
    done = [((0, 2), (1, 0))] * 2 + [((0, 1), (0, 0))]
    seen = tacit.Demonstrations.from_trajectories(done, ended=[True] * 3)
    method = families.PosteriorConstraints(
        -STEPS,
        0.5,
        (),
        {f"{s}": [s] for s in (1, 2, 3)},
        prior_chance=0.3,
        penalties=(3, 3),
        draws=4000,
    )
    found = method.fit(mdp, features, seen)
    weight, shares = 0.0, np.zeros(3)
    for mask in range(8):
        shut = [s for s in (1, 2, 3) if mask >> (s - 1) & 1]

        def gain(trip, shut=shut):
            return sum(-STEPS[s] / 0.5 - 3.0 * (s in shut) for s in trip[0])

        total = np.log(sum(np.exp(gain(trip)) for trip in trips()))
        chance = np.exp(sum(gain(trip) - total for trip in done))
        chance *= 0.3 ** len(shut) * 0.7 ** (3 - len(shut))
        weight += chance
        shares += chance * np.isin([1, 2, 3], shut)
    groups = [(name, tuple(states)) for name, states in method.groups.items()]
    candidates = candidates_of(mdp, features, (), groups)
    drawn = method.sample(mdp, tacit.Features(features.reward), seen, candidates)[0]
    # 3200 correlated draws of three bits: standard errors of about .015.
    np.testing.assert_allclose(drawn, shares / weight, atol=0.05)
    told = {
        one.about.feature for one in found.identification.findings if one.kind is Kind.FORBIDDEN
    }
    assert told == {str(s) for s, share in zip((1, 2, 3), drawn, strict=True) if share > 0.5}


# --- entropy --------------------------------------------------------------------------------------


def every_trajectory(mdp, start, steps):
    """(states, actions, chance of the moves) of every trajectory, cut off after so many steps."""
    if steps == 0 or mdp.ends[start]:
        return [((start,), (), 1.0)]
    moves = mdp.dense()
    return [
        ((start, *states), (a, *actions), moves[start, a, after] * chance)
        for a in np.flatnonzero(mdp.available[start])
        for after in np.flatnonzero(moves[start, a])
        for states, actions, chance in every_trajectory(mdp, after, steps - 1)
    ]


def test_trajectories_have_the_partition_that_enumeration_has():
    world = tacit.worlds.random(5, states=3, actions=2, features=2, constraints=0, successors=2)
    mdp, table = world.mdp, np.array([[0.3, -0.7], [0.9, 0.1], [-0.2, 0.4]])
    starts = np.zeros((4, 3))
    starts[3, 0], starts[2, 1] = 2.0, 1.0
    value, visits = trajectory_partition(mdp, table, ObservedTrips(starts, np.zeros((3, 2)), 3))
    total, expected = 0.0, np.zeros((3, 2))
    for steps, start, many in [(3, 0, 2), (2, 1, 1)]:
        rows = every_trajectory(mdp, start, steps)
        worth = np.array([table[list(s[:-1]), list(a)].sum() for s, a, _ in rows])
        mass = np.exp(worth) * [chance for _, _, chance in rows]
        total += many * np.log(mass.sum())
        for (states, actions, _), share in zip(rows, mass / mass.sum(), strict=True):
            np.add.at(expected, (list(states[:-1]), list(actions)), many * share)
    assert value == pytest.approx(total / 3, abs=1e-12)
    np.testing.assert_allclose(visits, expected / 3, atol=1e-12)


def test_where_moves_are_sure_both_entropies_agree():
    mdp, features = diamond()
    policy = tacit.solve(mdp, features.objective(-STEPS), solver=tacit.SoftDual(1.0)).policy
    seen = tacit.simulate(mdp, policy, trajectories=500, steps=10, seed=0)
    trips_, causal = (
        method.fit(mdp, features, seen, throw=False)
        for method in (families.MaximumEntropy(), families.CausalEntropy())
    )
    # One likelihood: the chance of a trip is the product of those of its steps.
    assert trips_.log_likelihood == pytest.approx(causal.log_likelihood, abs=1e-4)
    np.testing.assert_allclose(trips_.solution.policy, causal.solution.policy, atol=1e-4)
    assert trips_.status is tacit.RecoveryStatus.CONVERGED


def test_the_most_random_policy_has_the_expectations_of_the_demonstrations(world, seen):
    mdp, features = world.mdp, world.features
    found = families.CausalEntropy().fit(mdp, features, seen, throw=False)
    # Soft values by hand, at the weights over the noise: the policy is Boltzmann over them.
    table = (features.reward @ found.reward_weights / found.temperature).reshape(mdp.states, -1)
    moves, q = mdp.dense(), np.zeros((mdp.states, mdp.actions))
    for _ in range(4000):
        q = table + mdp.discount * moves @ np.logaddexp.reduce(q, axis=1)
    policy = np.exp(q - np.logaddexp.reduce(q, axis=1)[:, None])
    np.testing.assert_allclose(found.solution.policy, policy, atol=1e-6)
    # And its discounted visits, by hand, have the demonstrations' sums of features.
    chain = np.einsum("sa,sat->st", policy, moves)
    visits = np.linalg.solve(np.eye(mdp.states) - mdp.discount * chain.T, mdp.initial)
    own = pull_back(features, visits[:, None] * policy)[0]
    target = seen_expectations(mdp, features, seen)[0]
    np.testing.assert_allclose(own, target, rtol=1e-4)  # its gradient is small, not 0


def test_over_trajectories_luck_is_taken_for_choice():
    # Action 0 stays sure; action 1 is lucky half of the time. Both are worth the same on average.
    table = np.zeros((4, 2, 4))
    table[0, 0, 1] = 1.0
    table[0, 1, [2, 3]] = 0.5
    mdp = tacit.MDP(table, np.eye(4)[0], 1.0, available=table.any(axis=2))
    worth = np.array([0.0, 0.0, 1.0, -1.0])
    start = np.zeros((2, 4))
    start[1, 0] = 1.0
    _, visits = trajectory_partition(mdp, worth, ObservedTrips(start, np.zeros((4, 2)), 1))
    luck = np.log(0.5 * (np.e + 1 / np.e))  # of the exponential, where the mean is 0
    assert visits[0, 1] / visits[0].sum() == pytest.approx(np.exp(luck) / (1 + np.exp(luck)))
    causal = tacit.solve(mdp, tacit.Objective(worth), solver=tacit.SoftDual(1.0))
    assert causal.policy[0, 1] == pytest.approx(0.5)


def test_known_constraints_leave_the_reward_that_made_the_expert(world):
    mdp, features = world.mdp, world.features
    expert = tacit.solve(mdp, world.truth, solver=tacit.SoftDual(TEMPERATURE))
    seen = tacit.simulate(mdp, expert.policy, trajectories=400, steps=80, seed=2)
    found = families.KnownConstraints(world.cost_weights, world.truth.budgets).fit(
        mdp, features, seen
    )
    assert found.status is tacit.RecoveryStatus.CONVERGED
    # The optimum has the demonstrations' expectations and keeps the budget, complementarily.
    target = seen_expectations(mdp, features, seen)
    reached = pull_back(features, found.solution.visitation)
    np.testing.assert_allclose(reached[0], target[0], rtol=1e-4)
    assert found.solution.spent[0] <= found.budgets[0] * (1 + 1e-6)
    assert found.solution.multipliers[0] == pytest.approx(found.multipliers[0], rel=1e-3)
    # Of 400 episodes; the price is that of the truth in the gauge.
    truth = world.in_gauge
    price = tacit.solve(mdp, truth.truth, solver=tacit.SoftDual(TEMPERATURE / np.abs(
        world.reward_weights).sum())).multipliers[0]  # fmt: skip
    assert found.multipliers[0] == pytest.approx(price, rel=0.25)


# --- prices beside a known reward -----------------------------------------------------------------


def choices_world(shares):
    """One state of four ways to an end, and 100 choices with these shares of a hundred."""
    table = np.zeros((2, 4, 2))
    table[0, :, 1] = 1.0
    mdp = tacit.MDP(table, [1.0, 0.0], 1.0, available=table.any(axis=2))
    worth = np.array([1.0, 1.0, 0.5, 0.0])
    reward, cost = np.zeros((2, 4, 1)), np.zeros((2, 4, 3))
    reward[0, :, 0] = worth
    cost[0, range(3), range(3)] = 1.0
    seen = tacit.Demonstrations.from_trajectories(
        [([0, 1], [a]) for a, many in enumerate(shares) for _ in range(many)]
    )
    return mdp, tacit.Features(reward, [cost]), seen, worth


def test_a_price_is_the_log_odds_that_the_reward_does_not_explain():
    # Way 3 is free: the cost of another is its worth less its log-odds against way 3.
    mdp, features, seen, worth = choices_world([20, 40, 20, 20])
    found = families.ConstraintAsReward([1.0], 0.5).fit(mdp, features, seen)
    shares = np.array([20, 40, 20, 20])
    expected = worth[:3] / 0.5 - np.log(shares[:3] / shares[3])
    assert (expected > 0).all()
    coefficients = found.multipliers[0] * found.cost_weights[0] / found.temperature
    np.testing.assert_allclose(coefficients, expected, atol=1e-4)
    np.testing.assert_allclose(found.solution.policy[0], shares / 100, atol=1e-5)
    assert found.status is tacit.RecoveryStatus.CONVERGED
    # What is never done has no finite price, and it is said.
    mdp, features, seen, _ = choices_world([0, 50, 25, 25])
    endless = families.ConstraintAsReward([1.0], 0.5).fit(mdp, features, seen, throw=False)
    assert endless.status in (
        tacit.RecoveryStatus.EXPERT_DETERMINISTIC,
        tacit.RecoveryStatus.NOT_CONVERGED,
    )


def test_a_penalty_is_where_its_gradient_is_the_regulariser_s():
    mdp, features, seen, worth = choices_world([0, 50, 25, 25])
    method = families.PenaltyConstraints([1.0], 0.5, regularisation=0.05, least=1e-2)
    found = method.fit(mdp, features, seen)
    # Way 0 is worth most and never taken: its zeta is the least there is.
    assert [one.name for one in found.forbidden] == [features.cost_names[0][0]]
    kappa = found.multipliers[0] * found.cost_weights[0] / found.temperature
    assert np.exp(-kappa[0]) == pytest.approx(1e-2, rel=1e-3)
    # By hand, over a grid of the other two: no better point around.
    shares = np.array([0.0, 0.5, 0.25, 0.25])

    def loss(k):
        utility = worth / 0.5 - np.r_[k, 0.0]
        zeta = np.exp(-k)
        return np.log(np.exp(utility).sum()) + k @ shares[:3] + 0.05 * (1 - zeta).sum()

    here = loss(kappa)
    for shift in np.eye(3):
        assert loss(np.clip(kappa + 0.05 * shift, 0, -np.log(1e-2))) >= here - 1e-7
        assert loss(np.clip(kappa - 0.05 * shift, 0, None)) >= here - 1e-7
    assert found.status is tacit.RecoveryStatus.LOCAL_OPTIMUM


# --- margins --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny():
    """A small world, what an optimal expert did in it, and the expectations of all its policies."""
    world = tacit.worlds.random(7, states=3, actions=2, features=2, constraints=0, discount=0.7)
    policy = tacit.solve(world.mdp, world.truth).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=30, steps=30, seed=0)
    points = [
        pull_back(world.features, visitation(world.mdp, np.eye(2)[list(actions)]))[0]
        for actions in product(range(2), repeat=3)
    ]
    return world, seen, np.array(points)


@pytest.mark.parametrize("margin", [False, True])
def test_apprentices_come_as_near_as_any_mixture(tiny, margin):
    world, seen, points = tiny
    mdp, features = world.mdp, world.features
    found = families.Apprenticeship(margin, 1e-5, 2000).fit(mdp, features, seen, throw=False)
    target = seen_expectations(mdp, features, seen)[0]
    scale = np.ptp(features.reward.reshape(-1, 2), axis=0) * mdp.horizon
    # Every mixture of policies is one of deterministic ones: the nearest, by brute force.
    rows = (points - target) / scale
    least = minimize(
        lambda a: float(np.square(a @ rows).sum()),
        np.full(8, 1 / 8),
        bounds=[(0, 1)] * 8,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
        options={"ftol": 1e-15},
    )
    reached = pull_back(features, found.solution.visitation)[0]
    distance = np.linalg.norm((reached - target) / scale)
    assert distance == pytest.approx(np.sqrt(least.fun), abs=2e-4 if not margin else 2e-5)
    assert found.history["distance"][-1] == pytest.approx(distance, abs=1e-9)
    assert (np.diff(found.history["distance"]) <= 1e-12).all()


def test_the_nearest_mixture_of_a_triangle():
    shares = nearest_mixture(np.array([[1.0, 1.0], [1.0, -1.0], [3.0, 0.0]]))
    np.testing.assert_allclose(shares, [0.5, 0.5, 0.0], atol=1e-12)


def test_linear_programs_have_the_margins_of_a_search_over_the_weights(tiny):
    world, seen, points = tiny
    mdp, features = world.mdp, world.features
    rows, groups = advantages_of(mdp, features, seen.counts(mdp))
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 81)] * 2), axis=-1).reshape(-1, 2)
    for penalty in (0.0, 0.5):
        weights, value = best_margins(rows, groups, penalty)
        gain = grid @ rows.T
        gain = np.minimum(gain, 2 * gain)
        total = sum(gain[:, groups == g].min(axis=1) for g in np.unique(groups))
        total = total - penalty * np.abs(grid).sum(axis=1)
        assert value >= total.max() - 1e-9
        assert value == pytest.approx(total.max(), abs=0.05)  # of a grid of step 1/40
        assert np.abs(weights).max() <= 1 + 1e-9
    # Where two states disagree, the loss of one counts twice: w is 0 unless the other gains more.
    assert best_margins(np.array([[1.9], [-1.0]]), np.arange(2), 0.0)[1] == pytest.approx(0.0)
    assert best_margins(np.array([[2.1], [-1.0]]), np.arange(2), 0.0)[1] == pytest.approx(0.1)
    # The expert is optimal: what it does beats every other action, by the true weights too.
    assert (rows @ world.reward_weights >= -1e-9).all()
    found = families.LinearProgramming().fit(mdp, features, seen)
    most = seen.counts(mdp).argmax(axis=1)
    assert (found.solution.policy[np.arange(3), most] > 0.5).all()
    # Compared by returns, no policy does better than the demonstrations at the end.
    found = families.LinearProgramming(trajectories=True, tolerance=1e-3).fit(mdp, features, seen)
    target = seen_expectations(mdp, features, seen)[0]
    scale = np.ptp(features.reward.reshape(-1, 2), axis=0) * mdp.horizon
    assert found.status is tacit.RecoveryStatus.CONVERGED
    assert ((points - target) @ found.reward_weights).max() <= 0.05 * scale.max()


def test_margin_planning_is_at_the_minimum_over_all_policies(tiny):
    world, seen, points = tiny
    mdp, features = world.mdp, world.features
    method = families.MarginPlanning(0.05, tolerance=1e-7)
    found = method.fit(mdp, features, seen)
    scale = np.ptp(features.reward.reshape(-1, 2), axis=0) * mdp.horizon
    target = seen_expectations(mdp, features, seen)[0]
    loss = planning_loss(mdp, seen.counts(mdp))
    heights = [
        (loss * visitation(mdp, np.eye(2)[list(actions)])).sum() / mdp.horizon
        for actions in product(range(2), repeat=3)
    ]

    def objective(w):
        rise = np.array(heights) + (points - target) / scale @ w
        return 0.025 * w @ w + max(0.0, rise.max())

    best = min(
        minimize(
            objective, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
        ).fun
        for start in (np.zeros(2), world.reward_weights)
    )
    # Between the bounds of the cutting planes, whose gap is on the certificate.
    assert found.history["loss"][-1] == pytest.approx(best, abs=1e-6)
    assert 0 <= found.certificate.objective_gap + 1e-12 <= 1e-6


# --- sets and budgets -----------------------------------------------------------------------------


def demonstrators(world, count, seed):
    """Episodes of demonstrators with rewards of their own, a group each, and their rewards."""
    rewards = worlds.demonstrator_rewards(world, count, seed=seed)
    parts, groups = [], []
    for number, weights in enumerate(rewards):
        truth = world.features.objective(weights, world.cost_weights, world.truth.budgets)
        policy = tacit.solve(world.mdp, truth).policy
        seen = tacit.simulate(world.mdp, policy, trajectories=200, steps=60, seed=number)
        cuts = seen.offsets
        parts += [(seen.states[i:j], seen.actions[i:j]) for i, j in pairwise(cuts)]
        groups += [f"demonstrator {number}"] * 200
    return tacit.Demonstrations.from_trajectories(parts, groups=groups)


@pytest.mark.parametrize("below", [True, False])
def test_a_safe_policy_lies_in_the_hull_and_is_the_best_that_does(below):
    world = worlds.three_by_three(6)
    mdp, features = world.mdp, world.features
    seen = demonstrators(world, 4, seed=3)
    task = worlds.demonstrator_rewards(world, 1, seed=9, same=False)[0]
    found = families.SafeSet(task, below, tolerance=1e-5).fit(mdp, features, seen)
    assert found.status is tacit.RecoveryStatus.CONVERGED
    hull = []
    for name in dict.fromkeys(seen.groups.tolist()):
        clone = tacit.Cloning().fit(mdp, features, seen.select(seen.groups == name))
        hull.append(np.concatenate(pull_back(features, clone.solution.visitation)[1:]))
    hull = np.array(hull)
    spent = np.concatenate(pull_back(features, found.solution.visitation)[1:])
    # The whole problem as one linear program: visits, shares of the hull, below it.
    moves, pairs = mdp.dense(), 45
    flow = np.repeat(np.eye(9), 5, axis=0).T - 0.9 * moves.reshape(pairs, 9).T
    table = np.concatenate([f.reshape(pairs, -1) for f in features.costs], axis=1)
    sides = [np.c_[table.T, -hull.T]] + [np.c_[-table.T, hull.T]] * (not below)
    program = linprog(
        -np.r_[features.reward.reshape(pairs, 9) @ task, np.zeros(len(hull))],
        np.concatenate(sides),
        np.full(len(sides) * table.shape[1], 1e-9),
        np.r_[np.c_[flow, np.zeros((9, len(hull)))], [np.r_[np.zeros(pairs), np.ones(len(hull))]]],
        np.r_[mdp.initial, 1.0],
    )
    assert program.status == 0
    value = found.solution.value * np.abs(task).sum()
    assert value == pytest.approx(-program.fun, abs=2e-3)
    # No facet of the set is missed: it costs no more than the hull in any direction tried.
    for normal in np.random.default_rng(0).random((50, len(spent))) - 0.5 * (not below):
        assert normal @ spent <= (hull @ normal).max() + 1e-3
    # So every budget that all demonstrators kept is kept, up to their sampling error.
    costs = world.truth.tables(mdp)[1]
    assert (np.tensordot(costs, found.solution.visitation, 2) <= world.truth.budgets + 0.1).all()


def test_a_soft_constraint_is_what_keeps_better_policies_out():
    # Two ways to an end: the better one costs 1, and the expert takes it in one of four episodes.
    table = np.zeros((2, 2, 2))
    table[0, :, 1] = 1.0
    mdp = tacit.MDP(table, [1.0, 0.0], 0.9, available=table.any(axis=2))
    reward, cost = np.zeros((2, 2, 1)), np.zeros((2, 2, 2))
    reward[0, 1, 0] = 1.0
    cost[0, 1, 0] = cost[0, 0, 1] = 1.0
    features = tacit.Features(reward, [cost])
    seen = tacit.Demonstrations.from_trajectories([([0, 1], [int(i % 4 == 0)]) for i in range(40)])
    found = families.SoftConstraint([2.0], 0.25).fit(mdp, features, seen)
    # All of the cost is on the better way; its budget is the share that the expert took.
    np.testing.assert_allclose(found.cost_weights[0], [1.0, 0.0], atol=1e-9)
    assert found.budgets[0] == pytest.approx(0.25)
    assert found.solution.policy[0, 1] == pytest.approx(0.25, abs=1e-6)
    assert found.status is tacit.RecoveryStatus.CONVERGED
    # A clone that is noisy beside it is no optimum of any cost: said, with how much it falls short.
    third = np.concatenate([table, table[:, :1]], axis=1)
    wide = tacit.MDP(third, [1.0, 0.0], 0.9, available=third.any(axis=2))
    worth, charge = np.zeros((2, 3, 1)), np.zeros((2, 3, 1))
    worth[0, 1, 0], worth[0, 2, 0], charge[0, 1, 0] = 1.0, -1.0, 1.0
    lazy = [([0, 1], [(0, 1, 2, 0)[i % 4]]) for i in range(40)]
    noisy = tacit.Demonstrations.from_trajectories(lazy)
    told = families.SoftConstraint([1.0], 0.25).fit(wide, tacit.Features(worth, [charge]), noisy)
    assert told.status is tacit.RecoveryStatus.UNEXPLAINED
    assert told.identification.findings[0].kind is tacit.Kind.MISFIT
    assert told.identification.findings[0].about.number == pytest.approx(0.25, abs=1e-6)
    # An expert who always takes it needs no constraint.
    best = tacit.Demonstrations.from_trajectories([([0, 1], [1])] * 5)
    assert np.isnan(
        families.SoftConstraint([2.0], 0.25).fit(mdp, features, best).cost_weights[0]
    ).all()


def test_demonstrators_in_worlds_of_their_own_make_one_safe_set():
    # Learnt where one action in five is random, used where none is: policies are known.
    drawn = worlds.three_by_three(3, random_actions=0.2)
    place = worlds.three_by_three(3)
    rewards = worlds.demonstrator_rewards(drawn, 7, seed=1)
    shown, limits = [], drawn.truth.budgets
    for weights in rewards[:6]:
        aim = drawn.features.objective(weights, drawn.cost_weights, limits)
        shown.append((drawn.mdp, drawn.features, tacit.solve(drawn.mdp, aim).policy))
    found = families.SafeSet(rewards[6]).solve(place.mdp, place.features, shown)
    assert found.inside
    assert found.margins.max(initial=0.0) < 1e-6  # nothing was sampled
    truth = place.features.objective(rewards[6], drawn.cost_weights, limits)
    spent = np.tensordot(truth.tables(place.mdp)[1], found.solution.visitation, 2)
    assert (spent <= limits + 1e-6).all()
    # Fewer of them make a smaller set, in which nobody earns more; and somebody who was shown the
    # task itself loses nothing.
    fewer = families.SafeSet(rewards[6]).solve(place.mdp, place.features, shown[:3])
    assert fewer.solution.value <= found.solution.value + 1e-6
    own = families.SafeSet(rewards[0]).solve(drawn.mdp, drawn.features, shown)
    aim = drawn.features.objective(rewards[0], drawn.cost_weights, limits)
    best = tacit.solve(drawn.mdp, aim).value / np.abs(rewards[0]).sum()
    assert own.solution.value == pytest.approx(best, abs=1e-5)  # a facet may be missed by 1e-6
    with pytest.raises(tacit.InvalidModel, match="at least one demonstrator"):
        families.SafeSet(rewards[6]).solve(place.mdp, place.features, [])


def test_the_sampling_error_of_a_safe_set_is_that_of_many_samples():
    # One state, two actions: the cost of the second is paid for ever with its share of the steps.
    from tacit_lab.families.safe_set import _demonstrators

    mdp = tacit.MDP(np.ones((1, 2, 1)), [1.0], 0.5)
    features = tacit.Features(np.zeros((1, 2, 1)), [np.array([[[0.0], [1.0]]])])
    draw, errors, values = np.random.default_rng(0), [], []
    for _ in range(200):
        walks = [([0] * 25, draw.integers(0, 4, 25) // 3)]
        task = tacit.Task(mdp, features, tacit.Demonstrations.from_trajectories(walks))
        (one,) = _demonstrators(task)
        errors.append(one.error(np.ones(1)))
        values.append(float(np.tensordot(one.visits, one.costs, 2)[0]))
    # 2 sqrt(p (1 - p) / 25) = .173; the prior of half a step an action widens it a little.
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)
    assert np.mean(errors) == pytest.approx(0.173, rel=0.1)


def test_a_safe_set_with_confidence_is_lowered_or_says_that_nobody_is_so_sure():
    mdp = tacit.MDP(np.ones((1, 2, 1)), [1.0], 0.5)
    reward, cost = np.array([[[0.0], [1.0]]]), np.array([[[0.0], [1.0]]])
    features = tacit.Features(reward, [cost])
    walks = [([0] * 40, [0, 1] * 20)] * 5
    seen = tacit.Demonstrations.from_trajectories(walks)
    plain = families.SafeSet([1.0]).fit(mdp, features, seen)
    sure = families.SafeSet([1.0], confidence=0.9).fit(mdp, features, seen)
    # Half of the steps cost: 1 of 2; the error is 2 sqrt(.25 / 202), the quantile 1.28.
    assert plain.solution.spent[0] == pytest.approx(1.0, abs=1e-6)
    margin = 1.2816 * 2.0 * np.sqrt(0.25 / 202.0)
    assert sure.solution.spent[0] == pytest.approx(1.0 - margin, abs=1e-4)
    (said, *_) = sure.identification.findings
    assert said.about.number == pytest.approx(margin / (1.0 - margin), abs=1e-4)
    # Where all costs add up to a constant nobody is safer than one demonstrator.
    both = tacit.Features(reward, [np.eye(2)[None]])
    torn = families.SafeSet([1.0], confidence=0.9).fit(mdp, both, seen)
    assert torn.identification.findings[0].kind is tacit.Kind.UNATTAINABLE
    assert torn.solution.spent.max() == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(tacit.InvalidModel, match="confidence"):
        families.SafeSet([1.0], confidence=1.0)
