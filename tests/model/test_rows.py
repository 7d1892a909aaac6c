"""Features of rows are what their functions say, and a function that errs is named."""

import json

import numpy as np
import pytest

import tacit

OBSERVATIONS = np.array([[1.0, 4.0], [2.0, np.nan], [4.0, 6.0], [8.0, 0.0]])
ROWS = tacit.Measurements.from_trajectories([(OBSERVATIONS, [0, 1, 2])], columns=("speed", "lean"))


def features(**functions):
    return tacit.Features.from_functions(reward=functions).fitted(ROWS)


def test_functions_see_rows_and_action_and_columns_stand_for_themselves():
    made = tacit.Features.from_functions(
        reward={"pull": lambda rows, action: action * rows[:, 0], "fast": "speed"},
        costs=[["lean"], {"far": lambda rows, action: rows[:, 1] ** 2}],
    )
    tables = made.fitted(ROWS).on(OBSERVATIONS, 3)
    lean = np.array([4.0, 4.0, 6.0, 0.0])  # the median of what is known for what is missing
    expected = OBSERVATIONS[:, :1] * [0.0, 1.0, 2.0]
    np.testing.assert_array_equal(tables.reward[..., 0], expected)
    np.testing.assert_array_equal(tables.reward[..., 1], OBSERVATIONS[:, [0, 0, 0]])
    np.testing.assert_array_equal(tables.costs[0][..., 0], np.stack([lean] * 3, axis=1))
    np.testing.assert_array_equal(tables.costs[1][..., 0], np.stack([lean**2] * 3, axis=1))
    assert made.reward_names == ("pull", "fast")
    assert made.cost_names == (("lean",), ("far",))


def test_medians_are_those_of_the_rows_it_was_fitted_on():
    made = features(lean=lambda rows, action: rows[:, 1])
    other = np.array([[0.0, np.nan], [0.0, 100.0]])
    assert made.on(other, 1).reward[:, 0, 0].tolist() == [4.0, 100.0]
    assert made.imputing.missing.tolist() == [0, 1]
    np.testing.assert_array_equal(
        made.imputing.prepared(other), [[0.0, 4.0, 1.0], [0.0, 100.0, 0.0]]
    )
    assert made.imputing.indicators == ("lean is missing",)
    again = type(made.imputing).from_stored(json.loads(json.dumps(made.imputing.stored())))
    np.testing.assert_array_equal(again.prepared(other), made.imputing.prepared(other))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda rows, action: rows, r"shape \(4,\); action 0 gives shape \(4, 2\)"),
        (lambda rows, action: 1.0, r"gives shape \(\)"),
        (lambda rows, action: rows[:, 0] / 0, "must be finite; row 0, action 0 gives inf"),
        (lambda rows, action: np.where(rows[:, 0] > 3, np.nan, action), "row 2, action 0"),
        (lambda rows, action: ["a"] * len(rows), "one real number a row; action 0"),
        (lambda rows, action: None, "one real number a row; action 0 gives object|NoneType"),
        (lambda rows, action: rows[:, 0] * 1j, "one real number a row"),
        (lambda rows, action: [[1], [2, 3]], "one real number a row"),
    ],
)
def test_a_function_that_errs_is_named_in_one_line(function, words):
    made = features(bad=function)
    with np.errstate(divide="ignore"), pytest.raises(tacit.InvalidModel, match=words) as refusal:
        made.on(OBSERVATIONS, 2)
    assert "'bad'" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda given: given({}), "reward must be a dictionary"),
        (lambda given: given("speed"), "reward must be a dictionary"),
        (lambda given: given({"a": 3}), "feature 'a' must be a function"),
        (lambda given: given(["speed"], {"lean": "lean"}), r"costs=\[\{\.\.\.\}\]"),
        (lambda given: given(["speed", "speed"]), "its own name"),
        (lambda given: given(["sped"]).fitted(ROWS), "did you mean 'speed'"),
        (lambda given: given(["speed"]).on(OBSERVATIONS, 2), "fitted first"),
        (lambda given: given(["speed"]).fitted(ROWS).on(np.zeros((2, 3)), 2), r"\[n, 2\]"),
        (lambda given: given(["speed"]).fitted(ROWS).on(OBSERVATIONS, 0), "actions must be"),
    ],
)
def test_what_is_no_feature_of_rows_is_refused(make, words):
    with pytest.raises(tacit.InvalidModel, match=words):
        make(tacit.Features.from_functions)


def test_a_column_missing_in_all_rows_is_refused():
    nothing = [([[0.0, np.nan], [1.0, np.nan]], [0, 1])]
    rows = tacit.Measurements.from_trajectories(nothing, columns=("speed", "lean"))
    with pytest.raises(tacit.InvalidDemonstrations, match="'lean' is missing in all 2"):
        tacit.Features.from_functions(reward=["speed"]).fitted(rows)
