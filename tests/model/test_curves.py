"""Curves are what they are said to be: straight where nothing is penalised, periodic, rising."""

import json

import numpy as np
import pytest

import tacit
from tacit.model.features.curves import Spline, Surface, basis_from_stored

RANDOM = np.random.default_rng(0)
VALUES = np.sort(RANDOM.gamma(2.0, size=80))
FINE = np.linspace(VALUES[0], VALUES[-1], 4001)
TABLE = {"x": VALUES, "y": RANDOM.permutation(VALUES), "group": np.resize(["a", "b", "c"], 80)}


def features(formula, costs=()):
    return tacit.Features.from_formula(formula, costs, data=TABLE)


def test_straight_lines_alone_are_not_penalised():
    spline = Spline.of(VALUES)
    line = VALUES - VALUES.mean()
    weights = np.linalg.lstsq(spline.columns(VALUES), line, rcond=None)[0]
    (penalty,) = spline.penalties
    np.testing.assert_allclose(spline.columns(VALUES) @ weights, line, atol=1e-12)
    assert weights @ penalty @ weights < 1e-20 * np.trace(penalty)
    assert (np.linalg.eigvalsh(penalty) > 1e-9 * np.trace(penalty)).sum() == spline.size - 1


def test_the_penalty_is_the_integral_of_the_squared_second_derivative():
    spline, weights = Spline.of(VALUES), RANDOM.normal(size=11)
    place = np.linspace(0.0, 1.0, len(FINE))
    bend = np.gradient(np.gradient(spline.columns(FINE) @ weights, place), place)
    told = weights @ spline.penalties[0] @ weights
    assert told == pytest.approx(np.trapezoid(bend**2, place), rel=0.01)  # of finite differences


def test_the_penalties_of_a_surface_are_those_of_its_sides():
    pairs = np.stack(np.meshgrid(VALUES[::4], VALUES[::5]), axis=-1).reshape(-1, 2)
    surface = Surface.of(pairs, splines=6)
    line = pairs[:, 0] - pairs[:, 0].mean()
    weights = np.linalg.lstsq(surface.columns(pairs), line, rcond=None)[0]
    curved = np.linalg.lstsq(surface.columns(pairs), line**2 - (line**2).mean(), rcond=None)[0]
    along, across = surface.penalties
    size = np.trace(along)
    assert weights @ along @ weights < 1e-18 * size
    assert curved @ along @ curved > 1e3 * curved @ across @ curved


def test_curves_have_mean_zero_or_begin_there():
    for shape in ("", "increasing", "decreasing"):
        columns = Spline.of(VALUES, shape=shape).columns(VALUES)
        np.testing.assert_allclose(columns.mean(axis=0), 0.0, atol=1e-12)
    assert not Spline.of(VALUES, shape="positive").columns(VALUES[:1]).any()


def test_shapes_are_kept_by_weights_that_are_not_negative():
    weights = RANDOM.gamma(1.0, size=11)
    rising = Spline.of(VALUES, shape="increasing").columns(FINE) @ weights
    falling = Spline.of(VALUES, shape="decreasing").columns(FINE) @ weights
    positive = Spline.of(VALUES, shape="positive").columns(FINE) @ weights
    assert np.diff(rising).min() > -1e-12
    assert np.diff(falling).max() < 1e-12
    assert positive.min() >= 0.0


def test_a_cyclic_curve_goes_on_where_it_began():
    hours = RANDOM.uniform(0.0, 24.0, size=200)
    spline, weights = Spline.of(hours, period=24.0), RANDOM.normal(size=11)
    near = np.array([-1e-4, 0.0, 1e-4])
    before, here, after = spline.columns(24.0 + near) @ weights
    np.testing.assert_allclose(spline.columns(near) @ weights, [before, here, after], atol=1e-12)
    assert after - here == pytest.approx(here - before, rel=1e-3)  # no corner
    assert (np.linalg.eigvalsh(spline.penalties[0]) > 1e-9).all()  # no line closes


def test_beyond_its_range_a_curve_stays_what_it_is_at_the_end():
    spline = Spline.of(VALUES)
    far = spline.columns(np.array([VALUES[0] - 9.0, VALUES[-1] + 9.0]))
    np.testing.assert_allclose(far, spline.columns(VALUES[[0, -1]]))


def test_a_basis_is_stored_as_numbers():
    pairs = np.stack([TABLE["x"], TABLE["y"]], axis=1)
    for basis, places in (
        (Spline.of(VALUES, shape="increasing"), VALUES),
        (Surface.of(pairs), pairs),
    ):
        again = basis_from_stored(json.loads(json.dumps(basis.stored())))
        np.testing.assert_array_equal(again.columns(places), basis.columns(places))


def test_formulas_say_which_columns_are_curves():
    made = features("y + s(x) + s(x, by=group)", ["te(x, y, k=5)"])
    names = [(curve.name, curve.block, len(curve.columns)) for curve in made.curves]
    # Beside s(x) the base level has no curve of its own.
    assert names == [
        ("s(x)", 0, 11), ("s(x):group[b]", 0, 11), ("s(x):group[c]", 0, 11),
        ("te(x, y, k=5)", 1, 24),
    ]  # fmt: skip
    for curve in made.curves:
        places = curve.values.reshape(80, -1)
        there = np.isfinite(places).all(axis=1)
        table = made.maps[curve.block][:, curve.columns]
        np.testing.assert_allclose(table[there], curve.basis.columns(places[there]))
        assert not table[~there].any()


def test_curves_by_action_say_something_of_that_action_alone():
    rows = tacit.Measurements.from_trajectories(
        [(VALUES[:, None], np.resize([0, 1], 80))], columns=["x"]
    )
    made = tacit.Features.from_formula("s(x):action").fitted(rows).on(rows.observations, 2)
    assert [curve.name for curve in made.curves] == ["s(x):action[0]", "s(x):action[1]"]
    first = made.curves[0]
    assert np.isfinite(first.values[:, 0]).all()
    assert np.isnan(first.values[:, 1]).all()
    assert not made.reward[:, 1, first.columns].any()


def test_maps_make_the_curves_of_formulas():
    own = tacit.features
    made = own.combine(
        own.Map(TABLE["y"][:, None], "y") + own.curve(VALUES, "x"),
        [own.surface(TABLE["x"], TABLE["y"], k=5)],
    )
    plain = features("y + s(x)", ["te(x, y, k=5)"])
    for one, other in zip(made.maps, plain.maps, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(made.curves, plain.curves, strict=True):
        np.testing.assert_array_equal(one.columns, other.columns)
        assert (one.name, one.block) == (other.name, other.block) or one.name == "te(x, y)"


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("s(flat)", "there is one"),
        ("s(three)", "there are 3"),
        ("s(x, k=200)", "k must be from 4 to 60"),
        ("s(x, shape='bent')", "increasing"),
        ("s(x, shape='increasing', cyclic=24)", "not cyclic"),
        ("te(x, three)", "there are 3"),
        ("te(x)", "','"),
        ("s(x, what=3)", "no such option"),
    ],
)
def test_what_is_no_curve_is_refused_in_one_line(formula, told):
    table = TABLE | {"flat": np.ones(80), "three": np.resize([1.0, 2.0, 3.0], 80)}
    with pytest.raises(tacit.InvalidModel, match=told) as refused:
        tacit.Features.from_formula(formula, data=table)
    assert "\n" not in str(refused.value)


def test_a_curve_stays_whole():
    curve = tacit.features.curve(VALUES)
    for cut in (lambda: -curve, lambda: curve["s(x)[1]"], lambda: tacit.features.scaled(curve)):
        with pytest.raises(tacit.InvalidModel, match="stays whole"):
            cut()
