"""Figures, judged by what their artists hold: data, colours and boxes, never pixels."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.quiver import Quiver
from matplotlib.text import Text

import tacit
from tacit.errors import InvalidModel
from tacit.show.arrows import (
    ASSUMED,
    NEVER_VISITED,
    NO_PREFERENCE,
    STAYS,
    TAKEN,
    TIED,
    draw_key,
    draw_policy,
    has_arrows,
)
from tacit.show.canvas import (
    COST_MAP,
    PAPER,
    READABLE,
    REWARD_MAP,
    SERIES,
    axes_at,
    contrast,
    fit_text,
    ink_on,
    luminance,
    new_figure,
    plain,
    png,
    readable,
    series_colour,
    series_dash,
    series_mark,
    svg,
)
from tacit.show.grid import MOST_NUMBERED, draw_values, limits_of
from tacit.show.intervals import draw_beside
from tacit.show.tables import IntervalEstimate, Scale, share, short
from tacit.worlds import Layout, hill_grid, published_figure
from tacit_lab.figures import (
    Convergence,
    Group,
    ObjectiveView,
    SampleCurve,
    comparison_figure,
    convergence_figure,
    differs,
    draw_history,
    draw_study,
    separate,
    spread_figure,
    study_figure,
)
from tacit_lab.worlds import published_values

UP, DOWN, LEFT, RIGHT = range(4)
GRID = hill_grid(3).layout


def panel(inches: float = 2.0):
    return axes_at(new_figure(inches + 0.6, inches + 0.6), 0.3, 0.3, inches, inches)


def layout(rows: int, columns: int) -> Layout:
    return Layout(rows, columns, directions=GRID.directions, action_names=GRID.action_names)


def one_hot(actions) -> np.ndarray:
    return np.eye(4)[np.asarray(actions)]


def text_box(artist) -> tuple[float, float, float, float]:
    """(left, bottom, right, top) of a text in points from the lower left corner of its figure."""
    figure = artist.get_figure(root=True)
    box = artist.get_window_extent(figure.canvas.get_renderer())
    scale = 72.0 / figure.dpi
    return box.x0 * scale, box.y0 * scale, box.x1 * scale, box.y1 * scale


def shown_texts(figure) -> list:
    """Every text a reader sees: of cells, titles, ticks, labels and keys."""
    figure.canvas.draw()
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.majorTicks, *axis.minorTicks):
                # Ticks outside the panel, and those left over from an earlier draw, are not drawn.
                drawn = low <= tick.get_loc() <= high and axes.axison
                drawn = drawn and tick in axis.get_major_ticks(len(axis.get_majorticklocs()))
                hidden |= {id(tick.label2)} | (set() if drawn else {id(tick.label1)})
    return [
        text
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and id(text) not in hidden
    ]


def assert_legible(figure) -> None:
    """No text meets another or leaves the page."""
    texts = shown_texts(figure)
    words = [text.get_text() for text in texts]
    box = np.array([text_box(text) for text in texts])
    width, height = figure.get_size_inches() * 72.0
    # A point of grace: the box of a text is larger than its ink.
    out = (box[:, :2] < -1).any(axis=1) | (box[:, 2:] > np.array([width, height]) + 1).any(axis=1)
    assert [words[i] for i in np.flatnonzero(out)] == []
    low, high = box[:, None, :2] + 0.5, box[:, None, 2:] - 0.5
    meets = ((low < box[None, :, 2:]) & (box[None, :, :2] < high)).all(axis=2)
    assert [(words[i], words[j]) for i, j in np.argwhere(meets) if i < j] == []


# ------------------------------------------------------------------------------- colours


def test_contrast_of_the_extremes():
    assert luminance("black") == 0.0
    assert luminance("white") == pytest.approx(1.0, abs=1e-12)
    assert contrast("black", "white") == pytest.approx(21.0, abs=1e-9)
    assert contrast("#777777", "#777777") == 1.0


@given(st.tuples(*[st.floats(0, 1)] * 3))
def test_ink_can_be_read_on_any_colour(colour):
    # Black or white: the worse luminance has ratio sqrt(21) = 4.58 with both.
    assert contrast(ink_on(colour), colour) >= 4.58 - 0.01


@pytest.mark.parametrize("colour", SERIES)
def test_words_in_the_colour_of_a_line_can_be_read_on_white(colour):
    assert contrast(readable(colour), PAPER) >= READABLE


@pytest.mark.parametrize("name", [REWARD_MAP, COST_MAP])
def test_a_grey_copy_keeps_the_order_of_the_colours(name):
    from matplotlib import colormaps

    grey = [luminance(colormaps[name](x)[:3]) for x in np.linspace(0, 1, 64)]
    assert (np.diff(grey) > 0).all()


def test_lines_differ_in_more_than_their_colour():
    looks = {(series_mark(i), series_dash(i)) for i in range(7)}
    assert len(looks) == 7
    assert len({(series_colour(i), series_mark(i)) for i in range(49)}) == 49


# ------------------------------------------------------------------------------- numbers


@given(st.floats(1e-12, 1e12), st.integers(1, 5))
def test_short_numbers_are_within_half_of_their_last_digit(value, digits):
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    mantissa, _, power = short(value, digits=digits).replace("×10", "e").partition("e")
    if mantissa.startswith("10") and mantissa[2:].translate(raised) != mantissa[2:]:
        mantissa, power = "1", mantissa[2:]
    read = float(f"{mantissa}e{power.translate(raised) or 0}")
    assert abs(read - value) <= 0.5000001 * 10.0 ** (np.floor(np.log10(value)) + 1 - digits)


def test_short_numbers_of_every_kind():
    assert [short(x) for x in (None, np.nan, np.inf, -np.inf, 0.0, -0.00012, 7, np.int64(-3))] == [
        *("–", "–", "∞", "−∞", "0", "−1.2×10⁻⁴", "7", "−3")
    ]
    assert [short(x) for x in (9.999, 999.6, 0.99951, 123456.0)] == ["10", "1000", "1", "123000"]


def test_a_share_is_never_rounded_to_all_or_nothing():
    assert [share(x) for x in (0.0, 0.0004, 0.004, 0.5, 0.996, 0.9996, 1.0, None)] == [
        *("0 %", "under 0.1 %", "0.4 %", "50 %", "99.6 %", "over 99.9 %", "100 %", "–")
    ]


def test_scale_is_shared_and_named_once():
    scale = Scale.of([[0.0025, 0.01], [np.nan, -0.002]])
    assert (scale.exponent, scale.label("reward")) == (-3, "reward (×10⁻³)")
    assert [scale.number(x) for x in (0.0025, 0.01, -0.002, np.nan, -1e-9)] == [
        *("2.5", "10.0", "−2.0", "–", "0.0")
    ]
    assert Scale.of([[0.337, 0.07]]).number(0.337) == "0.337"
    assert Scale.of([[12345.0]]).label("cost") == "cost (×10³)"
    assert Scale.of([[0.0, np.nan]]).number(0.0) == "0"


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=7), st.floats(0.1, 20))
def test_labels_move_apart_as_little_as_possible(wanted, spacing):
    placed = np.array(separate(wanted, spacing))
    order = np.argsort(wanted, kind="stable")
    steps = np.diff(placed[order])
    assert (steps >= spacing - 1e-9).all()  # rounding of numbers up to 200
    # Variational inequality: no feasible place is nearer. Feasible directions are those that keep
    # or widen the tight gaps; (wanted - placed) must not point along any of them.
    pull = (np.array(wanted) - placed)[order]
    assert abs(pull.sum()) <= 1e-7  # moving all of them together
    tight = steps <= spacing + 1e-9
    for gap in range(len(steps)):
        above = pull[gap + 1 :].sum()  # moving everything above this gap upwards widens it
        assert above <= 1e-7
        if not tight[gap]:
            assert abs(above) <= 1e-7


# ------------------------------------------------------------------------------- one panel


def test_cells_hold_the_values_and_say_them():
    values = hill_grid(3).truth.costs[0]
    axes = draw_values(values, panel(), layout=GRID)
    image = axes.images[0]
    assert np.array_equal(image.get_array(), values.reshape(5, 5))
    assert image.get_clim() == (values.min(), values.max())
    said = {text.get_position(): text.get_text() for text in axes.texts}
    assert said == {
        (column, row): f"{values[5 * row + column]:.3f}" for row in range(5) for column in range(5)
    }


@pytest.mark.parametrize("size", [3, 5, 7, 9])
@pytest.mark.parametrize("factor", [1e-7, 1.0, -12345.0])
def test_numbers_stay_in_their_cells_and_can_be_read(size, factor):
    values = factor * np.random.default_rng(size).random(size * size)
    axes = draw_values(values, panel(), layout=layout(size, size))
    assert len(axes.texts) in (0, size * size)
    assert axes.texts or size > 5  # small grids always say their numbers
    image = axes.images[0]
    for text in axes.texts:
        column, row = text.get_position()
        box = np.array(text_box(text))
        low, high = axes.transData.transform([(column - 0.5, row + 0.5), (column + 0.5, row - 0.5)])
        cell = np.concatenate([low, high]) * 72.0 / axes.figure.dpi
        assert (cell[:2] < box[:2]).all()
        assert (box[2:] < cell[2:]).all()
        shade = image.cmap(image.norm(image.get_array()[row, column]))[:3]
        assert contrast(text.get_color(), shade) >= 4.5


def test_large_grids_are_colours_only():
    size = MOST_NUMBERED + 1
    axes = draw_values(np.arange(size * size), panel(), layout=layout(size, size))
    assert not axes.texts
    assert axes.images[0].get_array().shape == (size, size)


@pytest.mark.parametrize("size", [(4, 12), (12, 4), (30, 3), (100, 1000)])
def test_rows_and_columns_are_numbered_apart(size):
    axes = draw_values(np.arange(size[0] * size[1]), panel(), layout=layout(*size))
    for count, ticks in zip(size, (axes.get_yticks(), axes.get_xticks()), strict=True):
        assert 0 < len(ticks) <= 20
        assert ticks[0] == 0
        assert ticks[-1] < count
        assert len(ticks) == count or count > MOST_NUMBERED


def test_colour_bars_say_the_ticks_they_have():
    values = np.linspace(0.0, 1.0, 48)  # numbers too wide for its cells, and cut to two digits
    views = [
        ObjectiveView(name, values, values[None], np.eye(4)[[0] * 48]) for name in ("True", "Found")
    ]
    figure = comparison_figure(layout(4, 12), views)
    figure.canvas.draw()
    bar = next(axes for axes in figure.axes if axes.get_xlabel() == "cost")
    said = [label.get_text() for label in bar.get_xticklabels()]
    assert [float(text) for text in said] == pytest.approx(bar.get_xticks(), abs=1e-12)


def test_missing_values_are_empty_cells():
    values = np.arange(25.0)
    values[[0, 7]] = np.nan
    axes = draw_values(values, panel(), layout=GRID)
    assert axes.images[0].get_array().mask.sum() == 2
    said = [text.get_text() for text in axes.texts]
    assert said.count("–") == 2
    for text in axes.texts:
        if text.get_text() == "–":
            assert contrast(text.get_color(), axes.get_facecolor()) >= READABLE


def test_a_table_without_numbers_says_so():
    axes = draw_values(np.full(25, np.nan), panel(), layout=GRID)
    assert [text.get_text() for text in axes.texts] == ["not identified"]


@given(st.lists(st.floats(-1e6, 1e6) | st.just(np.nan), max_size=5))
def test_limits_hold_every_number_and_are_never_equal(values):
    low, high = limits_of([values])
    finite = [v for v in values if not np.isnan(v)]
    assert low < high
    assert all(low <= v <= high for v in finite)


def test_only_grids_are_drawn_as_grids():
    with pytest.raises(InvalidModel, match="no grid"):
        draw_values(np.arange(3.0), panel(), layout=Layout())


# ------------------------------------------------------------------------------- arrows


def quivers(axes) -> dict[str, Quiver]:
    return {c.get_label(): c for c in axes.collections if isinstance(c, Quiver)}


def arrows(axes, label: str = TAKEN) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """(row, column) of every cell with arrows -> the directions they point in."""
    found: dict[tuple[int, int], set[tuple[int, int]]] = {}
    quiver = quivers(axes).get(label)
    if quiver is None:
        return found
    for x, y, u, v in zip(quiver.X, quiver.Y, quiver.U, quiver.V, strict=True):
        # A cell holds the whole of its arrows: the middle of each lies in it.
        cell = (round(float(y + v / 2)), round(float(x + u / 2)))
        found.setdefault(cell, set()).add((int(np.sign(v)), int(np.sign(u))))
    return found


def middles_of(areas) -> list:
    return [path.get_extents().get_points().mean(axis=0) for path in areas.get_paths()]


def marks(axes) -> list[PolyCollection]:
    return [c for c in axes.collections if c.get_label() == "differs from the true policy"]


def test_one_arrow_for_one_action():
    actions = np.random.default_rng(0).integers(4, size=25)
    axes = draw_policy(one_hot(actions), panel(), layout=GRID)
    assert arrows(axes) == {
        divmod(state, 5): {GRID.directions[action]} for state, action in enumerate(actions)
    }
    assert set(quivers(axes)) == {TAKEN}


def test_arrows_point_down_the_page_where_rows_grow():
    axes = draw_policy(one_hot([DOWN] * 25), panel(), layout=GRID)
    assert (quivers(axes)[TAKEN].V > 0).all()
    bottom, top = axes.get_ylim()
    assert bottom > top  # row 0 is at the top


def test_arrows_of_a_mixed_state_are_as_long_as_they_are_likely():
    policy = one_hot([DOWN] * 25)
    policy[7] = [0.0, 0.7, 0.3, 0.0]
    policy[8] = [0.25, 0.25, 0.25, 0.25]
    policy[9] = [0.0, 0.995, 0.005, 0.0]  # less than one per cent is not drawn
    axes = draw_policy(policy, panel(), layout=GRID)
    drawn = arrows(axes)
    assert drawn[1, 2] == {(1, 0), (0, -1)}
    assert (1, 3) not in drawn
    rings = [line for line in axes.lines if line.get_label() == NO_PREFERENCE]
    assert rings[0].get_xydata().tolist() == [[3, 1]]
    assert drawn[1, 4] == {(1, 0)}
    quiver = quivers(axes)[TAKEN]
    here = np.hypot(quiver.X - 2, quiver.Y - 1) < 0.3  # those of state 7
    down, left = quiver.V[here].max(), -quiver.U[here].min()
    assert down / left == pytest.approx(0.7 / 0.3)


def test_cells_where_nobody_was_are_hatched_and_the_key_says_so():
    unseen = np.zeros(25, bool)
    unseen[[0, 24]] = True
    for assumed in (False, True):
        axes = draw_policy(
            one_hot([DOWN] * 25), panel(), layout=GRID, unseen=unseen, assumed=assumed
        )
        [hatched] = [one for one in axes.collections if one.get_hatch()]
        assert np.allclose(middles_of(hatched), [(0, 0), (4, 4)])
        key = panel()
        draw_key(key, [axes])
        said = {text.get_text() for text in key.get_legend().get_texts()}
        assert said == {TAKEN, ASSUMED if assumed else NEVER_VISITED}


def test_no_cell_is_painted_with_the_first_action_of_a_tie():
    policy = np.full((900, 4), 0.25)
    policy[7] = [0.1, 0.7, 0.1, 0.1]
    shown = draw_policy(policy, panel(), layout=layout(30, 30)).images[0].get_array()
    assert shown.count() == 1
    assert shown.ravel()[7] == 1


def test_ties_are_outlined_arrows_of_actions_not_taken():
    ties = np.zeros((25, 4), bool)
    ties[0, [DOWN, RIGHT]] = True
    axes = draw_policy(one_hot([DOWN] * 25), panel(), layout=GRID, ties=ties)
    assert arrows(axes, TIED) == {(0, 0): {(0, 1)}}
    assert arrows(axes)[0, 0] == {(1, 0)}
    assert to_rgb(quivers(axes)[TIED].get_facecolor()[0][:3]) == to_rgb(PAPER)


def test_every_arrow_stays_in_its_cell():
    policy = np.random.default_rng(1).dirichlet(np.ones(4), size=25)
    axes = draw_policy(policy, panel(), layout=GRID, ties=np.ones((25, 4), bool))
    for quiver in quivers(axes).values():
        tips = np.stack([quiver.X + quiver.U, quiver.Y + quiver.V], axis=1)
        starts = np.stack([quiver.X, quiver.Y], axis=1)
        assert (np.abs(tips - np.round(starts)) < 0.5).all()


def test_staying_is_a_dot():
    here = Layout(2, 2, directions=((0, 0), (0, 1)))
    axes = draw_policy(np.eye(2)[[0, 1, 0, 1]], panel(), layout=here)
    [dots] = [one for one in axes.collections if one.get_label() == STAYS]
    assert dots.get_offsets().tolist() == [[0, 0], [0, 1]]


def test_marked_cells_are_framed():
    marked = np.zeros(25, bool)
    marked[[3, 12]] = True
    axes = draw_policy(one_hot([DOWN] * 25), panel(), layout=GRID, marked=marked, reference="true")
    [frames] = marks(axes)
    assert np.allclose(middles_of(frames), [(3, 0), (2, 2)])


def test_large_grids_colour_the_most_likely_action():
    large = layout(30, 30)
    assert not has_arrows(large)
    draws = np.random.default_rng(2)
    policy = (draws.dirichlet(np.ones(4), size=900) + np.eye(4)[draws.integers(4, size=900)]) / 2
    policy[5] = np.nan
    axes = draw_policy(policy, panel(), layout=large)
    shown = axes.images[0].get_array()
    assert shown.mask.sum() == 1
    known = ~shown.mask.ravel()
    assert (shown.ravel()[known] == policy.argmax(axis=1)[known]).all()
    assert not quivers(axes)


def test_policies_differ_where_less_than_half_is_common():
    truth = one_hot([DOWN, DOWN, DOWN, DOWN])
    other = np.array([[0, 1, 0, 0], [0, 0, 0, 1], [0.6, 0.4, 0, 0], [0, 0.5, 0.5, 0]], float)
    assert differs(other, truth).tolist() == [False, True, True, False]
    ties = np.zeros((4, 4), bool)
    ties[1, RIGHT] = ties[2, UP] = True
    assert differs(other, truth, ties).tolist() == [False, False, False, False]


# ------------------------------------------------------------------------------- six panels


@pytest.fixture(scope="module")
def six_panels():
    """A world, two views with ties, a mixed state and three cells that disagree, and the figure."""
    world = hill_grid(3)
    wrong = world.features.objective([0.3, 0.7], [[0.4, 0.6, 0.2, 0.8]], world.truth.budgets)
    policy, ties = one_hot([DOWN] * 20 + [RIGHT] * 5), np.zeros((25, 4), bool)
    policy[7] = [0.0, 0.7, 0.0, 0.3]
    ties[0, [DOWN, RIGHT]] = ties[24, [DOWN, RIGHT]] = True
    other = policy.copy()
    other[[0, 3, 12, 18]] = one_hot([RIGHT] * 4)  # in cell 0 that is as good
    views = [
        ObjectiveView.of("True", world.truth, policy, ties=ties),
        ObjectiveView.of("Recovered", wrong, other, ties=ties),
    ]
    return world, views, comparison_figure(world.layout, views, title="Seed 3")


def titled(figure) -> dict:
    return {axes.get_title(loc="left"): axes for axes in figure.axes}


def test_six_panels_show_truth_and_recovery(six_panels):
    _, (true, recovered), figure = six_panels
    panels = titled(figure)
    assert {"True reward", "True cost", "True policy"} <= set(panels)
    assert {"Recovered reward", "Recovered cost", "Recovered policy"} <= set(panels)
    for view in (true, recovered):
        for title, table in (("reward", view.reward), ("cost", view.costs[0])):
            image = panels[f"{view.name} {title}"].images[0]
            assert np.array_equal(image.get_array(), table.reshape(5, 5))
        taken = {
            divmod(s, 5): {GRID.directions[a] for a in np.flatnonzero(view.policy[s] > 0.01)}
            for s in range(25)
        }
        assert arrows(panels[f"{view.name} policy"]) == taken


def test_a_pair_shares_its_colours_and_its_scale(six_panels):
    _, (true, recovered), figure = six_panels
    panels = titled(figure)
    for what, tables in (
        ("reward", [true.reward, recovered.reward]),
        ("cost", [true.costs, recovered.costs]),
    ):
        pair = [panels[f"{name} {what}"].images[0] for name in ("True", "Recovered")]
        assert pair[0].get_clim() == pair[1].get_clim() == limits_of(tables)
        assert pair[0].cmap.name == pair[1].cmap.name
    bars = [axes for axes in figure.axes if axes.get_xlabel()]
    assert [bar.get_xlabel() for bar in bars] == ["reward (×10⁻³)", "cost"]
    reward = panels["True reward"].images[0]
    assert bars[0].get_xlim() == pytest.approx(reward.get_clim(), rel=1e-12)


def test_cells_that_disagree_are_counted_and_marked(six_panels):
    _, (true, recovered), figure = six_panels
    wrong = differs(recovered.policy, true.policy, true.ties)
    assert np.flatnonzero(wrong).tolist() == [3, 12, 18]
    panels = titled(figure)
    axes = panels["Recovered policy"]
    assert axes.get_title(loc="right") == f"{25 - wrong.sum()} of 25 agree"
    assert [len(one.get_paths()) for one in marks(axes)] == [wrong.sum()]
    assert not marks(panels["True policy"])


def test_six_panels_are_legible(six_panels):
    _, _, figure = six_panels
    assert figure.get_figwidth() == pytest.approx(7.2)  # the width of a printed page
    assert_legible(figure)


def test_published_values_make_a_third_row():
    world, said = published_figure(), published_values()
    reward = world.features.reward @ said.recovered_reward_weights
    policy = one_hot(said.policy)
    published = ObjectiveView("Published", reward, said.recovered_cost[None], policy)
    truth = ObjectiveView.of("True", world.truth, policy)
    figure = comparison_figure(world.layout, [truth, truth, published])
    panels = titled(figure)
    assert panels["Published policy"].get_title(loc="right") == "25 of 25 agree"
    texts = [t.get_text() for t in panels["Published cost"].texts]
    assert texts[:3] == ["0.041", "0.110", "0.230"]
    assert_legible(figure)


@pytest.mark.parametrize(
    ("rows", "columns"), [(3, 3), (4, 12), (12, 4), (9, 9), (15, 15), (40, 40)]
)
def test_other_sizes_are_legible(rows, columns):
    states = rows * columns
    random = np.random.default_rng(states)
    views = [
        ObjectiveView(
            name,
            random.random(states),
            random.random((1, states)),
            random.dirichlet(np.ones(4), states),
        )
        for name in ("True", "Recovered")
    ]
    assert_legible(comparison_figure(layout(rows, columns), views))


def test_many_constraints_and_long_or_odd_names_are_legible():
    random = np.random.default_rng(0)
    names = ["cost of $climbing$ the very highest hill", "<time>", "fuel & oil"]
    views = [
        ObjectiveView(name, random.random(25), random.random((3, 25)) * 1e4, one_hot([DOWN] * 25))
        for name in ("True", "Recovered")
    ]
    figure = comparison_figure(GRID, views, cost_names=names)
    assert_legible(figure)
    assert "$climbing$" in svg(figure)


def test_a_cost_that_was_not_identified_is_said_so():
    world = hill_grid(1)
    policy = one_hot([DOWN] * 25)
    views = [
        ObjectiveView.of("True", world.truth, policy),
        ObjectiveView("Recovered", world.truth.reward, np.full((1, 25), np.nan), policy),
    ]
    figure = comparison_figure(world.layout, views)
    texts = [text.get_text() for text in titled(figure)["Recovered cost"].texts]
    assert texts == ["not identified"]
    views = [ObjectiveView(v.name, v.reward, np.full((1, 25), np.nan), v.policy) for v in views]
    assert_legible(comparison_figure(world.layout, views))


def test_what_depends_on_the_action_is_averaged_over_the_policy():
    policy = np.array([[0.25, 0.75], [1.0, 0.0]])
    truth = tacit.Objective([[1.0, 3.0], [5.0, 7.0]], [[[0.0, 4.0], [2.0, 0.0]]], [1.0])
    view = ObjectiveView.of("True", truth, policy)
    assert view.reward.tolist() == [2.5, 5.0]
    assert view.costs.tolist() == [[3.0, 2.0]]
    assert ObjectiveView.of("True", tacit.Objective([1.0, 2.0]), policy).costs.shape == (0, 2)


# ------------------------------------------------------------------------------- curves


def run(steps: int = 60, constraints: int = 1) -> Convergence:
    fall = np.exp(-np.arange(steps) / 9.0)
    return Convergence(
        feature_gap=0.5 * fall + 0.03,
        weight_change=0.2 * fall + 1e-9,
        multipliers=0.02 * (1 - fall)[:, None] * np.arange(1, constraints + 1),
        noise=0.029,
        tolerance=1e-4,
        true_multipliers=0.021 * np.arange(1, constraints + 1),
        best=steps - 5,
    )


def level_lines(axes) -> list[float]:
    """Heights of the dashed lines that cross the whole panel."""
    lines = [line for line in axes.lines if line.get_transform() == axes.get_yaxis_transform()]
    return [float(np.asarray(line.get_ydata())[0]) for line in lines]


def test_convergence_shows_the_numbers_and_what_they_are_judged_by():
    history = run()
    figure = convergence_figure(history, title="Seed 3")
    gap, change, price = figure.axes
    for axes, values, level in (
        (gap, history.feature_gap, 0.029),
        (change, history.weight_change, 1e-4),
        (price, history.multipliers[:, 0], 0.021),
    ):
        line = axes.lines[0]
        assert line.get_xdata().tolist() == list(range(1, 61))
        assert np.array_equal(line.get_ydata(), values)
        assert level_lines(axes) == [level]
        ring = axes.lines[1].get_xydata().tolist()
        assert ring == [[56, values[55]]]
        low, high = axes.get_ylim()
        assert low <= level <= high
    assert gap.get_yscale() == change.get_yscale() == "log"
    assert price.get_yscale() == "linear"
    assert "sampling noise" in [text.get_text() for text in gap.texts]
    assert_legible(figure)


@pytest.mark.parametrize("constraints", [2, 4])
def test_several_multipliers_are_named_at_their_ends(constraints):
    figure = convergence_figure(run(constraints=constraints))
    price = figure.axes[2]
    names = [t.get_text() for t in price.texts if t.get_text() != "true"]
    assert names == [str(k + 1) for k in range(constraints)]
    assert len(level_lines(price)) == constraints


def test_a_history_that_cannot_be_logarithmic_is_drawn_all_the_same():
    axes = draw_history(np.zeros(5), panel())
    assert axes.get_yscale() == "linear"
    assert axes.lines[0].get_ydata().tolist() == [0.0] * 5
    axes = draw_history([0.5, 0.0, 0.25], panel())
    assert np.isnan(axes.lines[0].get_ydata()[1])
    assert_legible(convergence_figure(Convergence([0.3], [0.0], [[0.0]])))


def curve(name: str, level: float, seed: int) -> SampleCurve:
    positions = [20, 50, 100, 200, 500, 1000, 2000]
    noise = np.random.default_rng(seed).lognormal(0, 0.3, (7, 10))
    return SampleCurve(name, positions, (level + 1 / np.sqrt(positions))[:, None] * noise)


def test_study_shows_medians_quartiles_and_the_null():
    curves = [curve("Likelihood", 0.0, 1), curve("Convex", 0.4, 2)]
    axes = draw_study(curves, panel(), null=0.7, positions_name="steps")
    for line, each, band in zip(axes.lines, curves, axes.collections, strict=False):
        assert line.get_xdata().tolist() == each.positions
        assert np.allclose(line.get_ydata(), np.median(each.samples, axis=1), rtol=1e-12)
        edge = band.get_paths()[0].vertices
        low, high = np.percentile(each.samples[3], (25, 75))
        at = edge[np.isclose(edge[:, 0], 200), 1]
        assert at.min() == pytest.approx(low, rel=1e-12)
        assert at.max() == pytest.approx(high, rel=1e-12)
    assert level_lines(axes) == [0.7]
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.texts if text.get_text()] == [
        *("Likelihood", "Convex", "random weights")
    ]
    low, high = axes.get_ylim()
    assert low <= 0.0
    assert high > 0.7


def test_missing_repetitions_do_not_hide_the_others():
    samples = np.array([[1.0, np.nan, 3.0], [np.nan] * 3])
    assert np.array_equal(
        SampleCurve("c", [1, 2], samples).quartiles(),
        [[1.5, np.nan], [2.0, np.nan], [2.5, np.nan]],
        equal_nan=True,
    )


def test_positions_that_lie_close_are_not_all_numbered():
    crowded = SampleCurve("one", [10, 11, 12, 13, 14, 2000], np.ones((6, 3)))
    figure = study_figure([("error", [crowded], None)], positions_name="steps")
    assert_legible(figure)
    ticks = figure.axes[0].get_xticks().tolist()
    assert ticks[-1] == 2000
    assert 1 < len(ticks) < 6


@pytest.mark.parametrize("logarithmic", [False, True])
def test_names_of_lines_that_end_together_stay_apart(logarithmic):
    curves = [curve(f"Estimator {i}", 0.3, 5) for i in range(5)]
    studies = [(f"measure {i}, L1 error", curves, 0.31) for i in range(3)]
    figure = study_figure(studies, positions_name="steps (T)", logarithmic=logarithmic, title="T")
    assert_legible(figure)


# ------------------------------------------------------------------------------- spread


def groups(scale: float) -> list[Group]:
    random = np.random.default_rng(int(100 * scale))
    return [
        Group("Likelihood", scale * random.lognormal(0, 0.4, 10)),
        Group("Alternating, published", np.append(scale * random.lognormal(1, 0.4, 9), np.nan)),
        Group("nothing came out", np.full(10, np.nan)),
        Group("random weights", scale * random.lognormal(2, 0.3, 10), null=True),
    ]


def test_every_repetition_is_a_dot_and_the_median_a_bar():
    every = groups(0.1)
    figure = spread_figure([("cost weights, L1 error", every)])
    axes = figure.axes[0]
    dots = [line for line in axes.lines if line.get_linestyle() == "None"]
    drawn = [np.sort(line.get_xdata()) for line in dots]
    wanted = [np.sort(g.samples[np.isfinite(g.samples)]) for g in every if g.name != every[2].name]
    assert all(np.array_equal(d, w) for d, w in zip(drawn, wanted, strict=True))
    bars = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "-"]
    assert np.allclose(bars, [np.median(w) for w in wanted], rtol=1e-12)
    boxes = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches]
    assert np.allclose(boxes, [np.percentile(w, (25, 75)) for w in wanted], rtol=1e-12)
    assert [t.get_text() for t in axes.get_yticklabels()] == [g.name for g in every]
    assert axes.get_ylim() == (3.5, -0.5)  # the first group on top
    assert axes.get_xlim()[0] == 0.0
    assert [t.get_text() for t in axes.texts] == ["no number"]


@pytest.mark.parametrize("logarithmic", [False, True])
def test_tables_over_seeds_are_legible(logarithmic):
    measures = [(name, groups(s)) for name, s in (("reward", 0.02), ("cost", 0.3), ("regret", 9.0))]
    assert_legible(spread_figure(measures * 2, logarithmic=logarithmic, title="Ten seeds"))


def test_negative_repetitions_keep_their_place():
    axes = spread_figure([("regret", [Group("violator", [-0.5, 0.1, 0.2])])]).axes[0]
    assert axes.get_xlim()[0] <= -0.5


def test_intervals_show_ends_and_estimates():
    known = {
        "row": IntervalEstimate(0.68, 0.6, 0.74),
        "water $": IntervalEstimate(0.2, 0.1, np.inf),
        "border": IntervalEstimate(np.nan, 0.0, 1.0),
    }
    axes = draw_beside({"": known}, None, "")
    bars = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert [tuple(bar.get_xdata()) for bar in bars[:1]] == [(0.6, 0.74)]
    assert bars[1].get_xdata()[1] == axes.get_xlim()[1]  # cut at the edge, where an arrow goes on
    assert ">" in [line.get_marker() for line in axes.lines]
    assert_legible(axes.figure)


# ------------------------------------------------------------------------------- the canvas


def test_the_same_figure_gives_the_same_bytes_whatever_the_reader_has_set():
    import matplotlib

    def drawn():
        figure = convergence_figure(run())
        return svg(figure), png(figure, dots_per_inch=60)

    first = drawn()
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "svg.fonttype": "path"}):
        assert drawn() == first
    assert "<dc:date>" not in first[0]


def test_drawing_leaves_no_trace_in_the_settings():
    import matplotlib

    before = dict(matplotlib.rcParams)
    svg(convergence_figure(run()))
    assert dict(matplotlib.rcParams) == before


def test_no_window_and_no_shared_state():
    code = (
        "import sys; from tacit.show import canvas; from tacit_lab import figures;"
        " canvas.svg(figures.spread_figure([('a', [])]));"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


def test_a_dollar_in_a_name_starts_no_formula():
    axes = panel()
    text = axes.text(0.5, 0.5, plain("a $1 b $2"))
    wide = text_box(text)
    text.set_text("a 1 b 2")
    # Two more signs of about 0.64 em at 10 points; a formula would have swallowed them.
    assert (wide[2] - wide[0]) - (text_box(text)[2] - text_box(text)[0]) > 8


def test_what_is_too_wide_is_made_smaller_and_then_cut():
    axes = panel(1.0)
    short_title = fit_text(axes.set_title("cost"), axes)
    assert short_title.get_text() == "cost"
    long_title = fit_text(axes.set_title("a name that nobody can fit above one inch"), axes)
    left, _, right, _ = text_box(long_title)
    assert right - left <= 72.0
    assert long_title.get_text().endswith("…")
