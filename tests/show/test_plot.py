"""Pictures by one call: every number drawn is a number of the recovery."""

import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.quiver import Quiver

import tacit

matplotlib.use("agg")


@pytest.fixture(scope="module")
def world():
    return tacit.worlds.hill_grid(seed=0)


@pytest.fixture(scope="module")
def recovery(world):
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.2))
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=20, steps=60, seed=1)
    return tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())


def names(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_weights_stand_where_they_are_with_their_intervals(recovery):
    axes = tacit.plot.weights(recovery)
    order = np.argsort(-recovery.reward_weights, kind="stable")
    assert names(axes)[: len(order)] == [recovery.reward_names[j] for j in order]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    found = [float(dot.get_xdata()[0]) for dot in dots]
    assert found[: len(order)] == pytest.approx(recovery.reward_weights[order])
    bands = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2]
    ends = recovery.identification.reward_intervals[order]
    assert np.allclose(bands[: len(order)], ends)


def test_a_map_holds_the_tables_of_the_recovery(world, recovery):
    objective = recovery.standardised.objective
    for what, table in (("reward", objective.reward), (0, objective.costs[0])):
        axes = tacit.plot.map(recovery, what, layout=world.layout)
        assert np.allclose(axes.images[0].get_array(), world.layout.grid(table))
    bars = tacit.plot.map(recovery, "visits")
    widths = [patch.get_width() for patch in bars.patches]
    assert widths == sorted(widths, reverse=True)
    visits = recovery.solution.visitation.sum(axis=1)
    assert widths[0] == pytest.approx(100 * visits.max() / visits.sum())


def test_axes_of_yours_are_drawn_on(world, recovery):
    figure, axes = matplotlib.pyplot.subplots()
    drawn = [
        tacit.plot.prices(recovery, axes),
        tacit.plot.policy(recovery, axes, layout=world.layout),
        tacit.plot.residuals(recovery, axes, layout=world.layout),
    ]
    assert all(one is axes for one in drawn)
    matplotlib.pyplot.close(figure)


def test_bars_of_a_policy_end_at_1(recovery):
    axes = tacit.plot.policy(recovery)
    ends = {}
    for patch in axes.patches:
        row = round(patch.get_y() + patch.get_height() / 2)
        ends[row] = max(ends.get(row, 0.0), patch.get_x() + patch.get_width())
    assert list(ends.values()) == pytest.approx([1.0] * len(ends))


def test_flows_are_as_wide_as_the_moves_are_frequent(world, recovery):
    axes = tacit.plot.flows(recovery, layout=world.layout)
    [lines] = [one for one in axes.collections if isinstance(one, LineCollection)]
    assert max(lines.get_linewidths()) <= 6.0
    # Only moves that stay on the grid are drawn.
    ends = np.array([line[-1] for line in lines.get_segments()])
    assert (ends > -0.5).all()
    assert (ends < 4.5).all()
    with pytest.raises(tacit.InvalidModel, match=r"layout\.directions"):
        tacit.plot.flows(recovery, layout=type(world.layout)())


def test_the_worst_residuals_come_first(world, recovery):
    axes = tacit.plot.residuals(recovery, layout=world.layout)
    widths = np.abs([patch.get_width() for patch in axes.patches])
    assert (np.diff(widths) <= 1e-12).all()
    assert widths[0] == pytest.approx(np.nanmax(np.abs(recovery.goodness.residuals)))


def test_the_price_falls_with_the_budget(world, recovery):
    curve = tacit.checks.price_curve(world.mdp, recovery.objective, points=5)
    line = tacit.plot.price_curve(curve).lines[0]
    assert (np.diff(line.get_ydata()) <= 1e-9).all()


def test_several_recoveries_side_by_side(recovery):
    axes = tacit.plot.weights({"one": recovery, "another": recovery})
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "another"]


def test_everything_in_one_figure_that_a_notebook_shows(world, recovery):
    plain, mapped = recovery.plot(), recovery.plot(world.layout)
    assert len(mapped.axes) == len(plain.axes) + 2
    assert mapped._repr_png_().startswith(b"\x89PNG")
    assert any(isinstance(one, Quiver) for one in mapped.axes[-1].collections)


def test_an_answer_without_weights_is_drawn_as_its_policy(world, recovery):
    seen = tacit.simulate(world.mdp, recovery.solution.policy, trajectories=5, steps=20, seed=0)
    cloned = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Cloning(), throw=False)
    assert np.isnan(cloned.reward_weights).all()
    figure = cloned.plot()
    assert figure.axes[0].get_xlabel() == "chance of each action"
    assert len(cloned.plot(world.layout).axes) == len(figure.axes) + 2


def test_bad_input_is_one_line(recovery, world):
    with pytest.raises(tacit.InvalidModel, match="a constraint below 1; got 4"):
        tacit.plot.map(recovery, 4)
    with pytest.raises(tacit.InvalidModel, match="a constraint below 1; got 'love'"):
        tacit.plot.map(recovery, "love")
    with pytest.raises(tacit.InvalidModel, match="a Recovery must be given; got MDP"):
        tacit.plot.weights(world.mdp)


def test_a_curve_has_its_band_and_the_steps_below(world):
    height = np.arange(world.mdp.states, dtype=float)
    features = tacit.features.combine(tacit.features.curve(height, "height"))
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.2))
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=20, steps=60, seed=1)
    found = tacit.recover(world.mdp, features, seen, estimator=tacit.Likelihood())
    (curve,) = found.curves
    axes = tacit.plot.curve(curve)
    here = curve.at()
    line = next(line for line in axes.lines if len(line.get_xdata()) == len(here.values))
    np.testing.assert_allclose(line.get_ydata(), here.values)
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(here.lower.min())
    assert band.max() == pytest.approx(here.upper.max())
    heights = np.array([bar.get_height() for bar in axes.patches])
    np.testing.assert_allclose(heights / heights.sum(), curve.density)
    assert max(bar.get_y() + bar.get_height() for bar in axes.patches) < here.lower.min()
    assert "s(height)" in found.summary()


def test_every_picture_has_the_table_of_its_numbers(world, recovery):
    weights = tacit.plot.weights.table(recovery)
    axes = tacit.plot.weights(recovery)
    dots = [float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "o"]
    assert weights["value"].to_list() == pytest.approx(dots)
    assert weights.columns == ["name", "value", "lower", "upper"]
    both = tacit.plot.prices.table({"one": recovery, "another": recovery})
    assert both["recovery"].to_list() == ["one"] * (len(both) // 2) + ["another"] * (len(both) // 2)
    reward = tacit.plot.map.table(recovery, layout=world.layout)
    assert reward["value"].to_list() == pytest.approx(recovery.standardised.objective.reward)
    policy = tacit.plot.policy.table(recovery, layout=world.layout)
    assert policy["probability"].sum() == pytest.approx(world.mdp.states)
    flows = tacit.plot.flows.table(recovery, layout=world.layout)
    assert flows["flow"].sum() == pytest.approx(recovery.solution.visitation.sum())
    residuals = tacit.plot.residuals.table(recovery)
    worst = np.nanmax(np.abs(recovery.goodness.residuals))
    assert residuals["residual"].abs().max() == pytest.approx(worst)
    curve = tacit.checks.price_curve(world.mdp, recovery.objective, points=5)
    line = tacit.plot.price_curve(curve).lines[0]
    table = tacit.plot.price_curve.table(curve)
    assert table["price"].to_list() == pytest.approx(line.get_ydata())
    overview = tacit.plot.overview.table(recovery)
    assert len(overview) > len(weights)
    public = [getattr(tacit.plot, name) for name in tacit.plot.__all__]
    assert all(callable(one.table) and one.__doc__ for one in public)


def test_a_table_is_one_of_pandas_where_asked(recovery):
    pytest.importorskip("pandas")
    assert type(tacit.plot.weights.table(recovery, pandas=True)).__module__.startswith("pandas")
    for frame in (
        recovery.parameters.frame(pandas=True),
        tacit.export.frame(recovery, pandas=True),
    ):
        assert type(frame).__module__.startswith("pandas")


def test_a_partial_effect_is_its_coefficient_times_the_feature(world, recovery):
    for j, name in enumerate(recovery.parameters.names):
        axes = tacit.plot.partial_effect(recovery, name)
        table = tacit.plot.partial_effect.table(recovery, name)
        sign = 1.0 if j < len(recovery.reward_names) else -1.0
        rise = np.diff(table["effect"]) / np.diff(table[name])
        assert np.allclose(rise, sign * recovery.parameters.estimates[j])
        wide = table["upper"] - table["lower"]
        low, high = recovery.parameters.intervals[j]
        centre = table[name][wide.arg_min()]
        assert table["density"].sum() == pytest.approx(1.0)
        assert np.allclose(wide, (high - low) * np.abs(table[name] - centre), atol=wide.max() / 50)
        matplotlib.pyplot.close(axes.figure)
    with pytest.raises(tacit.InvalidModel, match="no coefficient is named"):
        tacit.plot.partial_effect(recovery, "nothing")
