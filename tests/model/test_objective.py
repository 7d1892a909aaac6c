"""What is wanted and refused: tables of states or of actions, and sums of features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from strategies import examples
from tacit.errors import InvalidModel
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective


def model(states: int = 3, actions: int = 2) -> MDP:
    return MDP(np.full((states, actions, states), 1 / states), np.full(states, 1 / states), 0.9)


def test_state_tables_are_the_same_for_every_action():
    rng = np.random.default_rng(0)
    reward, costs = rng.normal(size=3), rng.normal(size=(2, 3))
    by_state = Objective(reward, costs, [1.0, 2.0]).tables(model())
    by_action = Objective(
        np.stack([reward, reward], axis=1), np.stack([costs, costs], axis=2), [1.0, 2.0]
    ).tables(model())
    for one, other in zip(by_state, by_action, strict=True):
        assert_array_equal(one, other)
    assert by_state[0].shape == (3, 2)
    assert by_state[1].shape == (2, 3, 2)


def test_a_state_reward_may_stand_beside_action_costs_and_the_reverse():
    reward, costs = Objective([1, 2, 3], np.ones((1, 3, 2)), [1]).tables(model())
    assert (reward.shape, costs.shape) == ((3, 2), (1, 3, 2))
    reward, costs = Objective(np.ones((3, 2)), [[1, 2, 3]], [1]).tables(model())
    assert_array_equal(costs[0], [[1, 1], [2, 2], [3, 3]])


@pytest.mark.parametrize("costs", [None, [], np.zeros((0, 3)), np.zeros((0, 3, 2))])
@pytest.mark.parametrize("budgets", [None, [], np.zeros(0)])
def test_no_constraint_at_all(costs, budgets):
    objective = Objective([1, 2, 3], costs, budgets)
    assert objective.constraints == 0
    assert objective.tables(model())[1].shape == (0, 3, 2)
    assert objective.budgets.shape == (0,)


def test_negative_costs_and_budgets_and_unlimited_budgets_are_allowed():
    objective = Objective([0, 0, 0], [[-1, -2, -3], [1, 1, 1]], [-5.0, np.inf])
    assert_array_equal(objective.budgets, [-5.0, np.inf])
    assert "may be negative" in Objective.__doc__


def test_one_budget_may_be_a_plain_number():
    assert_array_equal(Objective([0, 0], [[1, 1]], 3).budgets, [3.0])


@pytest.mark.parametrize("weights", [1.0, np.float64(1.0), True, "x", {}, [1.0]])
def test_cost_weights_that_are_no_vectors_are_refused(weights):
    features = Features(np.ones((2, 1)), [np.ones((2, 2))])
    with pytest.raises(InvalidModel, match="cost_weights"):
        features.objective([1.0], weights, [1.0])


def test_the_objective_owns_its_arrays_and_they_do_not_change():
    reward, costs, budgets = np.zeros(3), np.ones((1, 3)), np.ones(1)
    objective = Objective(reward, costs, budgets)
    reward[:], costs[:], budgets[:] = 7, 7, 7  # still the caller's own, still writable
    assert_array_equal(objective.reward, np.zeros(3))
    assert_array_equal(objective.costs, np.ones((1, 3)))
    assert_array_equal(objective.budgets, [1.0])
    for array in (objective.reward, objective.costs, objective.budgets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_repr_names_the_size():
    text = repr(Objective([0, 0, 0], [[1, 1, 1]], [2.5]))
    assert text == "Objective(states=3, constraints=1, budgets=[2.5])"


@given(st.integers(0, 2**20), st.booleans(), st.lists(st.booleans(), min_size=0, max_size=3))
@examples(40)
def test_a_weighted_sum_of_features_is_the_objective(seed, reward_by_action, costs_by_action):
    rng = np.random.default_rng(seed)
    mdp = model(4, 3)

    def features(by_action: bool, width: int) -> np.ndarray:
        return rng.normal(size=(4, 3, width) if by_action else (4, width))

    phi = features(reward_by_action, 3)
    psi = [features(flag, k + 1) for k, flag in enumerate(costs_by_action)]
    weights = rng.normal(size=3)
    cost_weights = [rng.normal(size=k + 1) for k in range(len(psi))]
    budgets = rng.normal(size=len(psi))
    objective = Features(phi, psi).objective(weights, cost_weights, budgets)
    reward, costs = objective.tables(mdp)
    for s, a in np.ndindex(4, 3):
        at = (s, a) if reward_by_action else (s,)
        assert reward[s, a] == pytest.approx(sum(phi[at] * weights))
        for k, flag in enumerate(costs_by_action):
            at = (s, a) if flag else (s,)
            assert costs[k, s, a] == pytest.approx(sum(psi[k][at] * cost_weights[k]))
    assert_array_equal(objective.budgets, budgets)


def test_features_have_names_given_or_not():
    plain = Features(np.ones((2, 2)), [np.ones((2, 1))])
    assert plain.reward_names == ("reward feature 0", "reward feature 1")
    assert plain.cost_names == (("cost feature 0",),)
    two = Features(np.ones((2, 1)), [np.ones((2, 1)), np.ones((2, 2))])
    assert two.cost_names == (("cost 0 feature 0",), ("cost 1 feature 0", "cost 1 feature 1"))
    named = Features(np.ones((2, 2)), [np.ones((2, 1))], ["sun", "rain"], [["heat"]])
    assert (named.reward_names, named.cost_names) == (("sun", "rain"), (("heat",),))
    assert named.constraints == 1
    assert Features(np.ones((2, 2)), None).constraints == 0


def test_features_own_their_arrays():
    phi = np.ones((2, 2))
    features = Features(phi, [phi])
    phi[:] = 7.0
    assert_allclose(features.reward, 1.0)
    assert_allclose(features.costs[0], 1.0)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Features(np.ones(3)), ["reward features", "[S, D]", "(3,)"]),
        (lambda: Features([[np.nan]]), ["reward features", "(0, 0)", "nan"]),
        (lambda: Features(np.ones((2, 1)), np.ones((2, 1))), ["costs=[array]", "(2, 1)"]),
        (lambda: Features(np.ones((2, 1)), [np.ones((3, 1))]), ["states", "2", "3", "cost 0"]),
        (lambda: Features(np.ones((2, 1)), [np.ones((2, 3, 1)), np.ones((2, 4, 1))]), ["actions"]),
        (lambda: Features(np.ones((2, 1)), [], ["a", "b"]), ["names", "1", "2"]),
        (lambda: Features(np.ones((2, 1)), [np.ones((2, 1))], None, []), ["cost_names", "0"]),
    ],
)
def test_features_that_cannot_be(build, words):
    with pytest.raises(InvalidModel) as caught:
        build()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0, 2.0], [[1.0]], [1.0]), ["reward_weights", "(1,)", "(2,)"]),
        (([1.0], [[1.0, 2.0]], [1.0]), ["cost_weights[0]", "(1,)", "(2,)"]),
        (([1.0], [], []), ["cost_weights", "(1)", "got 0"]),
        (([1.0], None, []), ["cost_weights", "(1)", "got 0"]),
        (("sun", [[1.0]], [1.0]), ["reward_weights", "str"]),
        (([1.0], [[1.0]], [1.0, 2.0]), ["budgets", "(2,)", "1"]),
        (([1.0], [[np.nan]], [1.0]), ["costs", "nan"]),
    ],
)
def test_weights_that_do_not_fit(arguments, words):
    features = Features(np.ones((2, 1)), [np.ones((2, 1))])
    with pytest.raises(InvalidModel) as caught:
        features.objective(*arguments)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("size", [1e101, 1e-101])
def test_features_beyond_what_can_be_squared_are_refused(size):
    said = r"between 1e-100 and 1e\+100 in size; column 1 goes up to 1e[+-]101"
    with pytest.raises(InvalidModel, match="reward features must be numbers " + said):
        Features([[1.0, 0.0], [0.0, -size]])
    with pytest.raises(InvalidModel, match="cost features 0 must be numbers " + said):
        Features([[1.0], [0.0]], [[[1.0, 0.0], [0.0, size]]])
    Features([[0.0, 1e100], [0.0, 1e-200]])  # a column counts as a whole
