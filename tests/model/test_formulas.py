"""What formulas make of rows is what formulaic makes of them; it is stored as plain numbers."""

import json
import re
from types import SimpleNamespace

import numpy as np
import polars
import pytest

import tacit
from tacit.model.features.formulas import FormulaFeatures
from tacit.model.layout import Layout

from_formula = tacit.Features.from_formula
RANDOM = np.random.default_rng(0)
TABLE = {
    "x": RANDOM.normal(size=60),
    "y": RANDOM.uniform(1.0, 5.0, size=60),
    "hour": RANDOM.uniform(0.0, 24.0, size=60),
    "kind": np.resize([3.0, 1.0, 2.0], 60),
    "size": np.repeat(["big", "small"], 30),
    "cover": np.resize(["wood", "field", "town", "water"], 60),
}
NUMERIC = ("x", "y", "hour", "kind")
ACTIONS = ("none", "some", "much")


def rows_of(columns=NUMERIC, actions=ACTIONS, table=TABLE):
    """Rows of measurements with these columns."""
    observations = np.stack([table[name] for name in columns], axis=1)
    steps = np.resize(np.arange(len(actions)), len(observations))
    layout = Layout(action_names=actions)
    return tacit.Measurements.from_trajectories([(observations, steps)], layout, columns=columns)


@pytest.mark.parametrize(
    "formula",
    [
        "x + y",
        "scale(x) + center(y) + log(y) + exp(x) + sqrt(y)",
        "bs(x, df=5) + bs(y, df=4, degree=2)",
        "cr(x, df=4) + cc(hour, df=3, lower_bound=0, upper_bound=24)",
        "poly(x, degree=3)",
        "C(kind)",
        "C(cover) * x",
        "C(cover) + C(cover):x",
        "x + C(cover):x",
        "C(cover):C(kind)",
        "C(cover) * C(kind)",
        "C(kind):bs(x, df=4)",
        "C(cover):C(kind):x",
        "C(cover):C(kind):C(size)",
        "C(cover):C(kind):C(size) + C(size):x",
        "(C(cover) + C(kind) + x)^3 - C(cover)",
        "C(cover):x + x",
        "(x + y + hour)^3 - x:y:hour",
        "C(cover) / x",
        "log(y + 1):x",
    ],
)
def test_columns_are_those_of_formulaic(formula):
    import pandas
    from formulaic import model_matrix

    made = from_formula(formula, data=TABLE)
    # A constant among the columns would move no choice.
    spelled = re.sub(r"(c[rc]\([^)]*)", r"\1, constraints='center'", formula)
    matrix = model_matrix(spelled, pandas.DataFrame(TABLE), context={"sqrt": np.sqrt})
    wanted = np.asarray(matrix)[:, 1:]
    own = made.reward
    assert own.shape == wanted.shape
    # The order of columns is another where terms have factors with levels.
    order = [int(np.abs(own - column[:, None]).max(axis=0).argmin()) for column in wanted.T]
    assert sorted(order) == [*range(own.shape[1])]
    np.testing.assert_allclose(own[:, order], wanted, rtol=1e-12, atol=1e-12)


def test_names_say_what_columns_are():
    made = from_formula("C(cover, base='town') * x", ["bs(y, df=3)", "y:cover"], data=TABLE)
    assert made.reward_names == (
        "cover[field]", "cover[water]", "cover[wood]", "x",
        "cover[field]:x", "cover[water]:x", "cover[wood]:x",
    )  # fmt: skip
    assert made.cost_names[0] == tuple(f"bs(y, df=3)[{j}]" for j in (1, 2, 3))
    assert made.cost_names[1] == tuple(
        f"y:cover[{level}]" for level in ("field", "town", "water", "wood")
    )
    assert from_formula("1 + x", data=TABLE).reward_names == ("1", "x")


FORMULAS = ("C(kind) + scale(x) + poly(y, 2)", ["bs(x, df=4):action", "cc(hour, df=3)", "cr(y, 3)"])


def test_rows_have_a_table_for_each_action():
    made = from_formula("x + C(action, base='some'):y", ["action", "C(kind)"]).fitted(rows_of())
    tables = made.on(np.array([[1.0, 2.0, 0.0, 3.0], [np.nan, 4.0, 0.0, np.nan]]), 3)
    assert made.reward_names == ("x", "action[none]:y", "action[some]:y", "action[much]:y")
    assert made.cost_names == (("action[some]", "action[much]"), ("kind[2]", "kind[3]"))
    median = np.median(TABLE["x"])
    np.testing.assert_allclose(tables.reward[:, :, 0], [[1.0] * 3, [median] * 3])
    np.testing.assert_array_equal(tables.reward[:, :, 1:], [2.0 * np.eye(3), 4.0 * np.eye(3)])
    np.testing.assert_array_equal(tables.costs[0], [np.eye(3)[:, 1:]] * 2)
    # A level that is missing for the first time is taken for the most frequent, the first of them.
    np.testing.assert_array_equal(tables.costs[1][:, 0], [[0.0, 1.0], [0.0, 0.0]])


def test_what_was_learned_is_stored_as_plain_numbers_and_applied_to_new_rows():
    rows = rows_of()
    made = from_formula(*FORMULAS).fitted(rows)
    text = json.dumps(made.stored(), allow_nan=False)
    again = FormulaFeatures.from_stored(json.loads(text))
    assert (again.reward_names, again.cost_names) == (made.reward_names, made.cost_names)
    new = rows.observations[:7] * 1.5
    new[:, 3] = 2.0
    for own, other in zip(made.on(new, 3).maps, again.on(new, 3).maps, strict=True):
        np.testing.assert_array_equal(own, other)
    for own, other in zip(
        made.on(rows.observations, 3).maps, again.on(rows.observations, 3).maps, strict=True
    ):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-12)
    with pytest.raises(tacit.InvalidModel, match="allowed are"):
        FormulaFeatures.from_stored(made.stored() | {"reward": "__import__('os')"})


def test_a_row_makes_the_same_columns_alone_as_among_others():
    rows = rows_of()
    made = from_formula(*FORMULAS).fitted(rows)
    whole = made.on(rows.observations, 3)
    for own, alone in zip(whole.maps, made.on(rows.observations[[4]], 3).maps, strict=True):
        np.testing.assert_allclose(own[[4]], alone, rtol=1e-12)


def test_b_splines_go_on_as_constants_and_natural_ones_as_lines():
    made = from_formula("bs(x, df=5) + cr(x, df=4) + cc(hour, df=3)").fitted(rows_of())
    beyond = np.tile([[np.nan] * 4], (4, 1))
    beyond[:, 0] = TABLE["x"].max() + np.arange(4.0)
    table = made.on(beyond, 1).reward[:, 0]
    np.testing.assert_allclose(table[:, :5], table[:1, :5].repeat(4, axis=0), atol=1e-12)
    np.testing.assert_allclose(np.diff(table[:, 5:9], n=2, axis=0), 0.0, atol=1e-9)
    assert np.abs(np.diff(table[:, 5:9], axis=0)).max() > 1e-3


def test_order_of_rows_and_columns_does_not_matter():
    made = from_formula(*FORMULAS).fitted(rows_of())
    turned = {name: column[::-1] for name, column in TABLE.items()}
    other = from_formula(*FORMULAS).fitted(rows_of(NUMERIC[::-1], table=turned))
    before = made.on(rows_of().observations, 3)
    after = other.on(rows_of(NUMERIC[::-1]).observations, 3)
    for own, table in zip(before.maps, after.maps, strict=True):
        np.testing.assert_allclose(own, table, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("formula", ["scale(x)", "bs(x, df=5)", "cr(x, df=4)", "poly(x, 2)"])
def test_units_and_shifts_do_not_matter_where_a_transform_learns_its_scale(formula):
    moved = TABLE | {"x": 1e3 * TABLE["x"] + 1e4}
    own, other = from_formula(formula, data=TABLE), from_formula(formula, data=moved)
    np.testing.assert_allclose(own.reward, other.reward, rtol=1e-8, atol=1e-9)


def test_missing_measurements_are_levels_and_indicators_of_their_own():
    table = TABLE | {"kind": np.where(TABLE["kind"] == 3.0, np.nan, TABLE["kind"])}
    made = from_formula("C(kind) + missing(kind) + kind").fitted(rows_of(table=table))
    assert made.reward_names == ("kind[2]", "kind[missing]", "missing(kind)", "kind")
    tables = made.on(np.array([[0.0, 0.0, 0.0, np.nan], [0.0, 0.0, 0.0, 2.0]]), 3)
    np.testing.assert_array_equal(tables.reward[:, 0], [[0, 1, 1, 1.5], [1, 0, 0, 2]])


def test_a_table_by_state_may_be_a_file_in_any_order(tmp_path):
    layout = Layout(state_names=("den", "hall", "roof"))
    frame = polars.DataFrame(
        {"state": ["roof", "den", "hall"], "dark": [0.0, 1.0, 0.5], "cover": ["tin", "mud", "mud"]}
    )
    frame.write_csv(tmp_path / "table.csv")
    for data in (frame, tmp_path / "table.csv"):
        made = from_formula("dark + cover", ["dark:cover"], data=data, layout=layout)
        np.testing.assert_array_equal(made.reward, [[1, 0], [0.5, 0], [0, 1]])
        assert made.reward_names == ("dark", "cover[tin]")
        assert made.cost_names == (("dark:cover[mud]", "dark:cover[tin]"),)


def test_a_table_by_state_and_action_makes_tables_of_both():
    pairs = {
        "state": [1, 0, 1, 0],
        "action": ["go", "go", "stay", "stay"],
        "effort": [3.0, 1.0, 2.0, 0.0],
    }
    layout = Layout(action_names=("stay", "go"))
    made = from_formula("effort", ["action:effort", "1"], data=pairs, layout=layout)
    np.testing.assert_array_equal(made.reward[..., 0], [[0, 1], [2, 3]])
    assert made.cost_names == (("action[stay]:effort", "action[go]:effort"), ("1",))
    np.testing.assert_array_equal(made.costs[0][1], [[2, 0], [0, 3]])
    numbered = pairs | {"action": [1, 1, 0, 0]}
    np.testing.assert_array_equal(from_formula("effort", data=numbered).reward, made.reward)


def test_actions_of_a_layout_are_levels_of_a_table_by_state():
    layout = Layout(action_names=("stay", "go"))
    made = from_formula("action:x", ["x"], data={"x": [1.0, 2.0]}, layout=layout)
    np.testing.assert_array_equal(made.reward, [np.eye(2), 2 * np.eye(2)])
    assert made.costs[0].shape == (2, 1)


def test_a_recovery_takes_features_of_a_formula():
    world = tacit.worlds.hill_grid(0)
    states = np.arange(world.mdp.states)
    table = {"x": states % 5, "y": (states // 5) ** 2}
    made = from_formula("scale(x) + y", ["x:y"], data=table)
    walks = tacit.simulate(world.mdp, tacit.solve(world.mdp, world.truth).policy, trajectories=5,
                           steps=20, seed=0)  # fmt: skip
    found = tacit.recover(world.mdp, made, walks, estimator=tacit.Likelihood(), throw=False)
    assert found.parameters.names == ("scale(x)", "y", "x:y")


@pytest.mark.parametrize(
    ("formula", "table", "words"),
    [
        ("x + z", TABLE, "got 'z'"),
        ("covr", TABLE, "did you mean 'cover'"),
        ("lambda", TABLE, "got 'lambda'"),
        ("scale(cover)", TABLE, r"write C\(cover\)"),
        ("cover + 1:x", TABLE, "allowed are"),
        ("log(x)", TABLE, r"log\(x\) must be finite; row \d+ is nan"),
        ("log(x - x)", TABLE, "is -inf"),
        ("x:exp(y * 1000)", TABLE, "is inf"),
        ("scale(x)", {"x": [3.0, 3.0]}, r"scale\(x\) must be of what varies; x is 3 in all rows"),
        ("bs(x, df=4)", {"x": [3.0, 3.0]}, "must be of what varies"),
        ("C(x)", {"x": [3.0, 3.0]}, "there are 1: 3"),
        ("C(x)", {"x": np.arange(300.0)}, "2 to 200"),
        (
            "C(x):C(y):C(z)",
            {name: np.arange(100.0) for name in "xyz"},
            "at most 10000 columns; .* has 1000000",
        ),
        ("C(x, base='b')", {"x": ["a", "c"]}, "the base one of these"),
        ("bs(x, df=2)", TABLE, r"bs\(x, df=2\) cannot be made"),
        ("bs(x, df=2.5)", TABLE, "whole number"),
        ("cr(x)", TABLE, r"cr\(x\) cannot be made"),
        ("action", TABLE, "names of the actions"),
        ("x", {"x": ["1", "", "3"]}, "row 2: x must be a number or a name; it is missing"),
        ("x", {"x": []}, "at least one row"),
        ("x", {"state": [0, 0], "x": [1.0, 2.0]}, "must have one row"),
        ("x", {"state": [0, 2], "x": [1.0, 2.0]}, r"a state in 0\.\.1"),
        ("x", {"action": [0, 1], "x": [1.0, 2.0]}, "must have the column 'state'"),
        (
            "x",
            {"state": [0, 0, 1], "action": [0, 1, 1], "x": [1.0, 2.0, 3.0]},
            "'state 1', 'action 0' is missing",
        ),
        (
            "x",
            {"state": [0, 0], "action": [1, 1], "x": [1.0, 2.0]},
            "an action in 0..0",
        ),
    ],
)
def test_what_a_table_cannot_give_is_said_in_one_line(formula, table, words):
    with pytest.raises(tacit.InvalidModel, match=words) as refusal:
        from_formula(formula, data=table)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: from_formula("z").fitted(rows_of()), "got 'z'"),
        (lambda: from_formula("x").on(np.zeros((1, 4)), 3), "fitted first"),
        (lambda: from_formula("x").reward_names, "once it is fitted"),
        (lambda: from_formula("x", "y"), r"costs=\[formula\]"),
        (lambda: from_formula("x").fitted(rows_of()).on(np.zeros((1, 3)), 3), r"\[n, 4\]"),
        (lambda: from_formula("x").fitted(rows_of()).on(np.zeros((1, 4)), 0), "actions must be"),
        (lambda: from_formula("action").fitted(rows_of()).on(np.zeros((1, 4)), 2), "3 actions"),
        (lambda: from_formula("action").fitted(rows_of(actions=("a",))), "at least two levels"),
        (lambda: from_formula("scale(action)").fitted(rows_of()), "holds names"),
        (lambda: from_formula("C(kind)").fitted(rows_of()).on(np.full((1, 4), 9.0), 3), "got '9'"),
        (
            lambda: from_formula("x").fitted(
                SimpleNamespace(
                    observations=np.zeros((2, 1)), columns=("action",), action_names=("a", "b")
                )
            ),
            "rename the measurement",
        ),
        (
            lambda: from_formula("x + kind").fitted(
                rows_of(table=TABLE | {"x": np.full(60, np.nan)})
            ),
            "missing in all",
        ),
    ],
)
def test_what_rows_cannot_give_is_said_in_one_line(ask, words):
    with pytest.raises(tacit.InvalidModel, match=words) as refusal:
        ask()
    assert "\n" not in str(refusal.value)


def test_bases_say_that_they_need_formulaic(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "formulaic.transforms", None)
    with pytest.raises(tacit.InvalidModel, match=r"bs needs formulaic.*\[formulas\]"):
        from_formula("bs(x)", data=TABLE)
    assert from_formula("scale(x)", data=TABLE).reward.shape == (60, 1)
