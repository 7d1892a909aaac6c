"""Worlds: the paper's grid by hand, random models that can be met, Gymnasium's tables."""

import time
from itertools import product

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import nnls

import oracles
import tacit
from refusals import refusal
from strategies import examples
from tacit.worlds import Hill, Layout, World
from tacit_lab.worlds import published_values

UP, DOWN, LEFT, RIGHT = range(4)
WALKS = list(product([False, True], [False, True]))  # slip_to_intended, slip_into_walls


def assert_same_world(one: World, other: World) -> None:
    """Bit for bit."""
    for name in ("reward", "costs", "budgets"):
        assert np.array_equal(getattr(one.truth, name), getattr(other.truth, name)), name
    assert np.array_equal(one.mdp.transitions.states, other.mdp.transitions.states)
    assert np.array_equal(one.mdp.transitions.probabilities, other.mdp.transitions.probabilities)
    assert np.array_equal(one.mdp.initial, other.mdp.initial)
    assert one.mdp.discount == other.mdp.discount
    assert np.array_equal(one.reward_weights, other.reward_weights)
    assert one.layout == other.layout


def assert_truth_is_made_of_features(world: World) -> None:
    made = world.features.objective(world.reward_weights, world.cost_weights, world.truth.budgets)
    assert np.array_equal(made.reward, world.truth.reward)
    assert np.array_equal(made.costs, world.truth.costs)


def again(world: World) -> World:
    """The world that its own print makes."""
    return eval(repr(world), {"tacit": tacit})


# --- the hill grid: transitions -------------------------------------------------------------------


def test_moves_in_the_middle():
    dense = tacit.worlds.hill_grid(slip_to_intended=True).mdp.dense()
    assert dense[12, UP, [7, 17, 11, 13]] == pytest.approx([0.775, 0.075, 0.075, 0.075])
    assert dense[12, RIGHT, [7, 17, 11, 13]] == pytest.approx([0.075, 0.075, 0.075, 0.775])
    dense = tacit.worlds.hill_grid().mdp.dense()
    assert dense[12, DOWN, [7, 17, 11, 13]] == pytest.approx([0.1, 0.7, 0.1, 0.1])


@pytest.mark.parametrize(
    ("to_intended", "into_walls", "action", "expected"),
    [  # probabilities of staying in the top left corner, of the cell right and of the cell below
        (True, False, DOWN, [0.0, 0.15, 0.85]),
        (True, False, UP, [0.7, 0.15, 0.15]),
        (True, True, DOWN, [0.15, 0.075, 0.775]),
        (True, True, UP, [0.85, 0.075, 0.075]),
        (False, False, DOWN, [0.0, 0.3, 0.7]),
        (False, False, UP, [0.7, 0.15, 0.15]),
        (False, True, DOWN, [0.2, 0.1, 0.7]),
        (False, True, UP, [0.8, 0.1, 0.1]),
    ],
)
def test_moves_in_the_corner(to_intended, into_walls, action, expected):
    world = tacit.worlds.hill_grid(slip_to_intended=to_intended, slip_into_walls=into_walls)
    assert world.mdp.dense()[0, action, [0, 1, 5]] == pytest.approx(expected)


@pytest.mark.parametrize("size", [3, 4, 7])
@pytest.mark.parametrize(("to_intended", "into_walls"), WALKS)
def test_one_step_is_one_cell_and_the_grid_is_symmetric(size, to_intended, into_walls):
    world = tacit.worlds.hill_grid(
        size=size, slip=0.4, slip_to_intended=to_intended, slip_into_walls=into_walls
    )
    dense = world.mdp.dense().reshape(size, size, 4, size, size)
    rows, columns = np.indices((size, size))
    far = np.abs(rows[:, :, None, None] - rows) + np.abs(columns[:, :, None, None] - columns)
    assert (dense.max(axis=2)[far > 1] == 0).all()
    # Rows and columns play the same part, and so do both ends of each.
    np.testing.assert_allclose(
        dense.transpose(1, 0, 2, 4, 3)[:, :, [LEFT, RIGHT, UP, DOWN]], dense, atol=1e-15
    )
    np.testing.assert_allclose(
        dense[::-1, :, :, ::-1][:, :, [DOWN, UP, LEFT, RIGHT]], dense, atol=1e-15
    )


def test_without_slip_the_moves_are_certain():
    dense = tacit.worlds.hill_grid(slip=0.0).mdp.dense()
    assert set(np.unique(dense)) == {0.0, 1.0}
    assert dense[7, LEFT, 6] == dense[7, UP, 2] == dense[0, LEFT, 0] == dense[24, DOWN, 24] == 1


def test_the_start_is_the_top_left_corner():
    assert tacit.worlds.hill_grid().mdp.initial.tolist() == [1.0] + [0.0] * 24


# --- the hill grid: truth -------------------------------------------------------------------------


def test_the_draw_is_as_documented():
    world = tacit.worlds.hill_grid(seed=6)
    random = np.random.default_rng(6)
    c1, c2 = random.random(), random.random()
    h1, h2 = random.integers(1, 4, size=2)
    q, a, b = random.random(), random.random(), random.random()
    assert world.reward_weights.tolist() == [q, 1 - q]
    assert world.cost_weights[0].tolist() == [a, 1 - a, b, 1 - b]
    for state in range(25):
        x, y = divmod(state, 5)
        reward = 2.5e-3 * np.array([x, y])
        hill = [np.exp(-c1 * abs(h1 - x)), np.exp(-c2 * abs(h2 - y))]
        border = [min(abs(4 - x), x), min(abs(4 - y), y)]
        # Rounding only: the same formula in another order.
        np.testing.assert_allclose(world.features.reward[state], reward, rtol=1e-14)
        np.testing.assert_allclose(
            world.features.costs[0][state], 0.1 * np.array(hill + border), rtol=1e-14
        )
    assert world.truth.budgets.tolist() == [1.0]
    assert_truth_is_made_of_features(world)


def test_the_draws_cover_what_the_paper_says():
    worlds = [tacit.worlds.hill_grid(seed) for seed in range(60)]
    for world in worlds:
        assert world.reward_weights.sum() == pytest.approx(1.0)
        assert world.cost_weights[0].sum() == pytest.approx(2.0)
        assert (world.cost_weights[0] >= 0).all()
    # The peak is where both hill features are at their height, 0.1.
    peaks = {
        tuple(np.argwhere(np.isclose(w.features.costs[0][:, :2], 0.1).all(axis=1))[0])
        for w in worlds
    }
    assert peaks == {(row * 5 + column,) for row in (1, 2, 3) for column in (1, 2, 3)}


@pytest.mark.parametrize("size", [3, 6, 7])
def test_the_border_feature_is_the_distance_to_it(size):
    world = tacit.worlds.hill_grid(size=size)
    distance = np.minimum(np.arange(size), np.arange(size)[::-1])
    by_row, by_column = (world.layout.grid(world.features.costs[0][:, j]) for j in (2, 3))
    np.testing.assert_allclose(by_row, 0.1 * np.repeat(distance[:, None], size, axis=1))
    np.testing.assert_allclose(by_column, by_row.T)


@pytest.mark.parametrize("peak", [(2, 2), (1, 3), (3, 1)])
def test_the_absolute_hill_is_symmetric_about_its_peak(peak):
    world = tacit.worlds.hill_grid(size=5, peak=peak, slopes=(0.4, 0.9))
    for axis in (0, 1):
        height = world.layout.grid(world.features.costs[0][:, axis]).take(0, axis=1 - axis)
        h = peak[axis]
        for step in range(1, min(h, 4 - h) + 1):
            assert height[h - step] == height[h + step]
            assert height[h + step] < height[h + step - 1]
        assert height[h] == pytest.approx(0.1)


def test_as_written_the_hill_is_a_slope():
    world = tacit.worlds.hill_grid(hill="as-written", peak=(2, 2), slopes=(0.5, 0.5))
    height = world.layout.grid(world.features.costs[0][:, 0])[:, 0]
    assert height == pytest.approx(0.1 * np.exp(-0.5 * (2 - np.arange(5))))
    assert (np.diff(height) > 0).all()
    assert_same_world(
        world, tacit.worlds.hill_grid(hill=Hill.AS_WRITTEN, peak=(2, 2), slopes=[0.5] * 2)
    )


def test_naming_one_draw_leaves_the_others():
    plain = tacit.worlds.hill_grid(seed=4)
    named = tacit.worlds.hill_grid(seed=4, slopes=(0.1, 0.2), peak=(1, 1), reward_weights=[1, 0])
    assert np.array_equal(plain.cost_weights[0], named.cost_weights[0])
    assert named.reward_weights.tolist() == [1.0, 0.0]
    assert np.array_equal(plain.features.costs[0][:, 2:], named.features.costs[0][:, 2:])


def test_the_gauge_changes_no_constraint():
    world = tacit.worlds.hill_grid(seed=2, reward_weights=(3.0, 1.0))
    gauged = world.in_gauge
    assert np.abs(gauged.reward_weights).sum() == pytest.approx(1.0)
    assert gauged.cost_weights[0].sum() == pytest.approx(1.0)
    np.testing.assert_allclose(
        gauged.truth.costs / gauged.truth.budgets[0],
        world.truth.costs / world.truth.budgets[0],
        rtol=1e-14,
    )
    np.testing.assert_allclose(gauged.truth.reward * 4.0, world.truth.reward, rtol=1e-14)
    assert gauged.truth.budgets == pytest.approx([0.5])
    assert_truth_is_made_of_features(gauged)
    assert_same_world(again(gauged), gauged)


def test_multipliers_follow_the_gauge():
    world = tacit.worlds.hill_grid(seed=2, tightness=0.5, reward_weights=(3.0, 1.0))
    gauged = world.in_gauge
    plain, scaled = (tacit.solve(w.mdp, w.truth) for w in (world, gauged))
    # Cost weights of norm 2, reward weights of norm 4; the multiplier is no kink here.
    assert scaled.multipliers == pytest.approx(plain.multipliers * 2.0 / 4.0, rel=1e-6)
    assert scaled.value == pytest.approx(plain.value / 4.0, rel=1e-7)
    np.testing.assert_allclose(scaled.policy, plain.policy, atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"seed": 7, "size": 6, "discount": 0.95, "hill": Hill.AS_WRITTEN, "budget": 0.1 + 0.2},
        {"slip": 0.1, "slip_into_walls": False, "slip_to_intended": True},
        {"seed": np.int64(3), "slopes": np.array([1 / 3, 0.2]), "peak": (1, 2)},
        {"cost_weights": [0.25] * 4, "reward_weights": np.array([0.1, 0.9])},
    ],
)
def test_a_hill_grid_prints_as_the_call_that_makes_it(arguments):
    world = tacit.worlds.hill_grid(**arguments)
    assert_same_world(again(world), world)


def test_only_what_differs_is_printed():
    assert repr(tacit.worlds.hill_grid(hill="absolute")) == "tacit.worlds.hill_grid(seed=0)"


# --- budgets that bind ----------------------------------------------------------------------------


@pytest.mark.parametrize("hill", list(Hill))
@pytest.mark.parametrize("tightness", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_placed_budget_binds(seed, tightness, hill):
    world = tacit.worlds.hill_grid(seed, tightness=tightness, hill=hill)
    mdp = world.mdp
    reward, costs = world.truth.tables(mdp)
    least = -oracles.best_policy(mdp, -costs[0])[0]
    _, _, greedy = oracles.best_policy(mdp, reward)
    visits = oracles.policy_visitation(mdp, oracles.one_hot(greedy, 4))
    most = float((costs[0] * visits).sum())
    # The solves behind the budget are good to 1e-9.
    assert world.truth.budgets == pytest.approx([least + tightness * (most - least)], abs=1e-7)
    solution = tacit.solve(mdp, world.truth)
    assert solution.multipliers[0] > 1e-6
    assert solution.spent == pytest.approx(world.truth.budgets, abs=1e-7)
    assert_truth_is_made_of_features(world)
    assert_same_world(again(world), world)


def test_where_no_budget_can_bind_it_says_so():
    with pytest.raises(tacit.InvalidModel, match=r"no budget can bind.*choose another seed"):
        tacit.worlds.hill_grid(tightness=0.5, cost_weights=[0, 0, 0, 0])
    # One action: every policy spends the same.
    with pytest.raises(tacit.InvalidModel, match="no budget can bind"):
        tacit.worlds.random(0, states=1, actions=1, tightness=0.5)


@pytest.mark.parametrize("constraints", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_several_placed_budgets_are_met_jointly_and_one_binds(seed, constraints):
    world = tacit.worlds.random(seed, constraints=constraints, tightness=0.4)
    optimum = oracles.occupancy_program(world.mdp, world.truth)
    assert optimum.feasible
    assert optimum.multipliers.max() > 1e-6
    _, costs = world.truth.tables(world.mdp)
    least = -oracles.best_policy(world.mdp, -costs.sum(axis=0))[0]
    assert world.truth.budgets.sum() > least


def test_how_often_the_published_budget_binds():
    """As measured before this library: 37 % bind, 62 % are slack, 2 % infeasible; 98 % as written.

    100 draws: three binomial standard errors are 15 and 5 points.
    """
    outcome = {"binds": 0, "slack": 0, "infeasible": 0}
    for seed in range(100):
        world = tacit.worlds.hill_grid(seed)
        solution = tacit.solve(world.mdp, world.truth, throw=False)
        if solution.status is tacit.Status.INFEASIBLE:
            outcome["infeasible"] += 1
        else:
            outcome["binds" if solution.multipliers[0] > 1e-9 else "slack"] += 1
    assert 22 <= outcome["binds"] <= 52, outcome
    assert outcome["infeasible"] <= 7, outcome
    written = 0
    for seed in range(100):
        world = tacit.worlds.hill_grid(seed, hill="as-written")
        solution = tacit.solve(world.mdp, world.truth, throw=False)
        written += solution.status is tacit.Status.CONVERGED and solution.multipliers[0] > 1e-9
    assert written >= 93


# --- the published figure -------------------------------------------------------------------------


def test_the_published_costs_are_met_and_their_weights_sum_to_three():
    world, printed = tacit.worlds.published_figure(), published_values()
    # Two printed digits, four weights for nine different numbers: 0.004 is what remains.
    np.testing.assert_allclose(world.truth.costs[0], printed.cost, atol=0.004)
    fitted, _ = nnls(world.features.costs[0], printed.cost)
    np.testing.assert_allclose(world.cost_weights[0], fitted, rtol=1e-9)
    assert 2.84 <= world.cost_weights[0].sum() <= 3.22
    assert world.truth.budgets.tolist() == [1.0]
    assert world.reward_weights.tolist() == [0.68, 0.32]
    grid = world.layout.grid(world.truth.reward)
    assert grid[4, 0] == pytest.approx(2.5e-3 * 0.68 * 4)
    assert grid[0, 4] == pytest.approx(2.5e-3 * 0.32 * 4)


def test_the_published_panels_as_printed():
    printed = published_values()
    cost, recovered = (np.reshape(c, (5, 5)) for c in (printed.cost, printed.recovered_cost))
    assert cost[0, :3].tolist() == [0.069, 0.11, 0.20]
    assert recovered[1, :3].tolist() == [0.096, 0.17, 0.28]
    for panel in (cost, recovered):
        assert np.array_equal(panel, panel[::-1])
        assert np.array_equal(panel, panel[:, ::-1])
        assert panel.argmax() == 12
    # The correlation that two-digit readings of the figure give.
    assert np.corrcoef(printed.cost, printed.recovered_cost)[0, 1] == pytest.approx(0.975, abs=5e-4)
    features = tacit.worlds.published_figure().features.reward
    true, found = features @ printed.reward_weights, features @ printed.recovered_reward_weights
    assert np.corrcoef(true, found)[0, 1] == pytest.approx(0.92, abs=0.005)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_the_published_policy_is_the_unconstrained_optimum(discount):
    world = tacit.worlds.published_figure(discount=discount)
    reward, _ = world.truth.tables(world.mdp)
    policy = oracles.one_hot(published_values().policy, 4)
    values = oracles.policy_value(world.mdp, policy, reward)
    _, best, _ = oracles.best_policy(world.mdp, reward)
    np.testing.assert_allclose(values, best, rtol=1e-10)


def test_the_published_figure_prints_as_its_call():
    world = tacit.worlds.published_figure(discount=0.8)
    assert repr(world) == "tacit.worlds.published_figure(discount=0.8)"
    assert_same_world(again(world), world)


# --- random worlds --------------------------------------------------------------------------------


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    states=st.integers(1, 60),
    actions=st.integers(1, 6),
    constraints=st.integers(0, 4),
    discount=st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.999]),
    by_action=st.booleans(),
    successors=st.sampled_from([None, 1, 3, 70]),
)
def test_a_random_world_can_be_met_and_printed(
    seed, states, actions, constraints, discount, by_action, successors
):
    world = tacit.worlds.random(
        seed,
        states=states,
        actions=actions,
        constraints=constraints,
        discount=discount,
        by_action=by_action,
        successors=successors,
    )
    assert (world.mdp.states, world.mdp.actions) == (states, actions)
    assert world.truth.constraints == constraints
    assert repr(world).startswith(f"tacit.worlds.random(seed={seed}, states={states}, ")
    assert_same_world(again(world), world)
    assert_truth_is_made_of_features(world)
    assert world.in_gauge.truth.budgets == pytest.approx(world.truth.budgets)
    if constraints:
        # Met strictly: no weighting of the constraints has a least cost above its budgets.
        _, costs = world.truth.tables(world.mdp)
        for weights in np.random.default_rng(seed).dirichlet(np.ones(constraints), 5):
            least = -oracles.best_policy(world.mdp, -np.tensordot(weights, costs, 1))[0]
            assert least < weights @ world.truth.budgets


@pytest.mark.parametrize("seed", range(4))
def test_the_occupancy_program_finds_random_worlds_feasible(seed):
    world = tacit.worlds.random(seed, constraints=3, states=12)
    assert oracles.occupancy_program(world.mdp, world.truth).feasible


def test_random_budgets_bind_now_and_then():
    multipliers = []
    for seed in range(200):
        world = tacit.worlds.random(seed)
        multipliers.append(tacit.solve(world.mdp, world.truth).multipliers[0])
    # "Two of five": within three binomial standard errors of 80.
    assert 60 <= np.sum(np.array(multipliers) > 1e-9) <= 100


def test_more_constraints_leave_the_rest():
    few, many = (tacit.worlds.random(5, constraints=k) for k in (1, 3))
    assert np.array_equal(few.mdp.dense(), many.mdp.dense())
    assert np.array_equal(few.truth.reward, many.truth.reward)
    assert np.array_equal(few.truth.costs[0], many.truth.costs[0])
    assert few.truth.budgets[0] == many.truth.budgets[0]


def test_large_worlds_stay_sparse():
    start = time.process_time()
    assert tacit.worlds.hill_grid(size=300).mdp.transitions.states.shape == (90_000, 4, 4)
    world = tacit.worlds.random(0, states=100_000, actions=2, successors=3, by_action=False)
    assert world.mdp.transitions.states.shape == (100_000, 2, 3)
    # Under a second of this process; a dense table would take 80 GB.
    assert time.process_time() - start < 20


# --- gymnasium ------------------------------------------------------------------------------------

NAMES = ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"]


@pytest.fixture(scope="module")
def gym():
    return pytest.importorskip("gymnasium")


def optimal_values(table, discount: float) -> np.ndarray:
    """[S] value iteration on P itself: nothing follows a transition that is `done`."""
    # [outcomes, 6]: state, action, probability, next state, reward, done
    rows = np.array(
        [(s, a, *o) for s in table for a, outcomes in table[s].items() for o in outcomes], float
    )
    state, action, following = (rows[:, i].astype(int) for i in (0, 1, 3))
    values = np.zeros(len(table))
    for _ in range(3000):
        quality = np.zeros((len(table), action.max() + 1))
        gain = rows[:, 4] + discount * np.where(rows[:, 5] == 1, 0.0, values[following])
        np.add.at(quality, (state, action), rows[:, 2] * gain)
        change = np.abs(quality.max(axis=1) - values).max()
        values = quality.max(axis=1)
        if change < 1e-12:
            return values
    raise AssertionError("value iteration did not stop")


def values_of(mdp, reward: np.ndarray) -> np.ndarray:
    """[S] value iteration over the available actions; an end is worth what it pays."""
    dense, values = mdp.dense(), np.zeros(mdp.states)
    for _ in range(3000):
        worth = np.where(mdp.choices, reward + mdp.discount * dense @ values, -np.inf).max(axis=1)
        change, values = np.abs(worth - values).max(), worth
        if change < 1e-12:
            return values
    raise AssertionError("value iteration did not stop")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("masks", [True, False])
def test_values_are_those_of_the_table(gym, name, masks):
    discount = 0.9
    table = gym.make(name).unwrapped.P
    world = tacit.worlds.gymnasium(name, discount=discount, masks=masks)
    reward, _ = world.truth.tables(world.mdp)
    values, states = values_of(world.mdp, reward), len(table)
    acting = ~world.mdp.ends[:states]
    # Value iteration stops within discount / (1 - discount) of 1e-12. No mask rules out what pays.
    expected = optimal_values(table, discount)
    np.testing.assert_allclose(values[:states][acting], expected[acting], atol=1e-9)
    assert (values[world.mdp.ends] == 0).all()
    assert_truth_is_made_of_features(world)
    assert_same_world(again(world), world)


@pytest.mark.parametrize("name", NAMES)
def test_done_leads_to_ends_and_nothing_else_does(gym, name):
    source = gym.make(name).unwrapped
    world = tacit.worlds.gymnasium(source, masks=False)
    mdp, states, dense = world.mdp, len(source.P), world.mdp.dense()
    acting = np.flatnonzero(~mdp.ends[:states])
    done = np.array(
        [[sum(p for p, _, _, d in outs if d) for outs in source.P[s].values()] for s in acting]
    )
    np.testing.assert_allclose(dense[acting][:, :, mdp.ends].sum(axis=2), done, atol=1e-12)
    assert mdp.available[acting].all()
    assert (dense[mdp.ends] == 0).all()
    reward, _ = world.truth.tables(mdp)
    assert (reward[mdp.ends] == 0).all()
    np.testing.assert_allclose(mdp.initial[:states], source.initial_state_distrib, atol=1e-12)
    # Every end is the state where the table says it is over, or the second half of one.
    ends = tacit.data.sources.terminal_states(source)
    assert sorted(ends[ends >= 0]) == np.flatnonzero(mdp.ends).tolist()


def test_which_states_are_ends_and_which_are_split(gym):
    lake, cliff, taxi = (tacit.worlds.gymnasium(name) for name in NAMES)
    # Four holes and the goal; the goal, though its row of P leads on; four destinations, each of
    # which a taxi also drives through with its passenger delivered.
    assert np.flatnonzero(lake.mdp.ends).tolist() == [5, 7, 11, 12, 15]
    assert (cliff.mdp.states, np.flatnonzero(cliff.mdp.ends).tolist()) == (48, [47])
    assert (taxi.mdp.states, np.flatnonzero(taxi.mdp.ends).tolist()) == (504, [500, 501, 502, 503])
    twins = np.flatnonzero(tacit.data.sources.terminal_states("Taxi-v4") >= 500)
    assert [taxi.layout.state_name(500 + i) for i in range(4)] == [
        f"the end of state {s}" for s in twins
    ]
    assert cliff.mdp.restricted
    assert not taxi.mdp.available[:500].all()
    for state in range(500):  # as the environment's own mask says
        mask = gym.make("Taxi-v4").unwrapped.action_mask(state) if state % 97 == 0 else None
        assert mask is None or np.array_equal(taxi.mdp.available[state], mask.astype(bool))


def test_an_episode_ends_at_the_goal(gym):
    world = tacit.worlds.gymnasium("CliffWalking-v1")
    solution = tacit.solve(world.mdp, world.truth)
    walks = tacit.simulate(world.mdp, solution.policy, trajectories=3)
    # Eleven cells along the cliff, one up and one down: 13 steps at -1 each.
    assert walks.lengths.tolist() == [13, 13, 13]
    assert walks.ended.all()
    assert (walks.final_states == 47).all()
    assert solution.value == pytest.approx(-(1 - 0.99**13) / 0.01)
    assert tacit.solve(*_undiscounted("CliffWalking-v1")).value == pytest.approx(-13)


def _undiscounted(name: str) -> tuple:
    world = tacit.worlds.gymnasium(name, discount=1.0)
    return world.mdp, world.truth


def test_the_famous_value_of_the_frozen_lake(gym):
    world = tacit.worlds.gymnasium("FrozenLake-v1", discount=0.99)
    # The value of the start on the slippery 4 x 4 map, known from textbooks.
    assert tacit.solve(world.mdp, world.truth).value == pytest.approx(0.542, abs=5e-4)


def test_grids_and_names(gym):
    lake, cliff, taxi = (tacit.worlds.gymnasium(name).layout for name in NAMES)
    assert (lake.rows, lake.columns, cliff.rows, cliff.columns) == (4, 4, 4, 12)
    assert not taxi.is_grid
    assert lake.action_name(0) == "left"
    assert cliff.action_name(1) == "right"
    assert taxi.action_name(5) == "drop off"
    assert lake.state_name(6) == "(1, 2)"
    # The direction of each action is where the table says it leads, far from walls.
    table = gym.make("FrozenLake-v1", is_slippery=False).unwrapped.P
    for action, (down, right) in enumerate(lake.directions):
        assert table[9][action][0][1] == (2 + down) * 4 + 1 + right
    table = gym.make("CliffWalking-v1").unwrapped.P
    for action, (down, right) in enumerate(cliff.directions):
        assert table[17][action][0][1] == (1 + down) * 12 + 5 + right


def two_rooms() -> dict:
    """From 0 action 1 leads on or ends, half and half, for a reward of 4; state 1 only stays."""
    return {
        0: {0: [(1.0, 0, 0.0, False)], 1: [(0.5, 1, 4.0, False), (0.5, 1, 4.0, True)]},
        1: {0: [(1.0, 1, 1.0, False)], 1: [(1.0, 1, 0.0, False)]},
    }


def test_a_table_by_hand_with_costs():
    world = tacit.worlds.gymnasium(
        two_rooms(), discount=0.5, costs=[[0.0, 3.0]], budgets=[1.0], initial=[0.5, 0.5]
    )
    # State 1 is entered with `done` and without: its end is a state of its own, at the same cost.
    assert world.mdp.ends.tolist() == [False, False, True]
    assert world.mdp.dense()[0, 1].tolist() == [0.0, 0.5, 0.5]
    assert world.truth.reward.tolist() == [[0.0, 4.0], [1.0, 0.0], [0.0, 0.0]]
    assert world.truth.costs.tolist() == [[0.0, 3.0, 3.0]]
    assert world.cost_weights[0].tolist() == [0.0, 3.0]
    assert world.mdp.initial.tolist() == [0.5, 0.5, 0.0]
    assert world.layout.state_names == ("state 0", "state 1", "the end of state 1")
    by_action = tacit.worlds.gymnasium(two_rooms(), costs=[[[0.0, 1.0], [2.0, 0.0]]], budgets=[1.0])
    assert by_action.truth.costs.tolist() == [[[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]]]
    assert by_action.mdp.initial.tolist() == [1.0, 0.0, 0.0]
    assert_truth_is_made_of_features(world)
    assert_truth_is_made_of_features(by_action)


def test_a_state_that_only_an_end_would_leave_to_is_not_acted_in():
    # 1 is entered with `done` alone; its own row, which leads on without, says nothing.
    table = {
        0: {0: [(1.0, 1, 1.0, True)]},
        1: {0: [(1.0, 2, 5.0, False)]},
        2: {0: [(1.0, 1, 0.0, False)]},
    }
    world = tacit.worlds.gymnasium(table, discount=0.5)
    # Nothing but 2 enters 1 without an end, and 2 may be started in by nobody: but it may be acted
    # in, as it is never entered with `done`. So 1 is split.
    assert (world.mdp.states, np.flatnonzero(world.mdp.ends).tolist()) == (4, [3])
    table[2] = {0: [(1.0, 1, 0.0, True)]}
    world = tacit.worlds.gymnasium(table, discount=0.5)
    assert (world.mdp.states, np.flatnonzero(world.mdp.ends).tolist()) == (3, [1])


def test_a_list_of_lists_is_a_table_too():
    table = [list(actions.values()) for actions in two_rooms().values()]
    assert_same_world(tacit.worlds.gymnasium(table), tacit.worlds.gymnasium(two_rooms()))


# --- layouts --------------------------------------------------------------------------------------


def test_a_layout_places_and_names():
    layout = Layout(2, 3, action_names=("go", "stay"))
    assert layout.is_grid
    assert layout.grid(np.arange(7)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert layout.cell(4) == (1, 1)
    assert layout.cell(6) is None
    assert layout.cell(-1) is None
    assert (layout.state_name(4), layout.state_name(6)) == ("(1, 1)", "state 6")
    assert layout.action_name(1) == "stay"
    plain = Layout()
    assert not plain.is_grid
    assert (plain.state_name(3), plain.action_name(2)) == ("state 3", "action 2")
    with pytest.raises(tacit.InvalidModel, match="no grid"):
        plain.grid(np.arange(4))
    with pytest.raises(tacit.InvalidModel, match="6 or more"):
        layout.grid(np.arange(5))


def test_wrong_numbers_of_names_are_refused():
    world = tacit.worlds.hill_grid()
    parts = (world.mdp, world.features, world.truth)
    weights = {"reward_weights": world.reward_weights, "cost_weights": world.cost_weights}
    with pytest.raises(tacit.InvalidModel, match="25 states need 25 names; got 2"):
        World(*parts, **weights, layout=Layout(state_names=("a", "b")))
    assert repr(World(*parts, **weights)).startswith("World(MDP(states=25")


# --- bad input ------------------------------------------------------------------------------------

HILL, RANDOM, GYM = tacit.worlds.hill_grid, tacit.worlds.random, tacit.worlds.gymnasium


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (HILL, {"size": 2}, "size must be an integer of at least 3.*got 2"),
        (HILL, {"size": 5.0}, "size must be"),
        (HILL, {"hill": "steep"}, "hill must be 'absolute' or 'as-written'; got 'steep'"),
        (HILL, {"slip": 1.5}, "slip must be a probability; got 1.5"),
        (HILL, {"slip": "a little"}, "slip must be"),
        (HILL, {"seed": -1}, "seed must be an integer of at least 0; got -1"),
        (HILL, {"seed": "one"}, "seed must be"),
        (HILL, {"discount": 1.0}, r"discount must be in \[0, 1\)"),
        (HILL, {"budget": "all"}, "budget must be a number"),
        (HILL, {"budget": float("nan")}, "budgets must be numbers"),
        (HILL, {"tightness": 0.0}, r"tightness must be in \(0, 1\); got 0.0"),
        (HILL, {"tightness": 1}, "tightness must be"),
        (HILL, {"tightness": "tight"}, "tightness must be"),
        (HILL, {"slopes": 0.5}, "slopes must hold 2 finite numbers; got 0.5"),
        (HILL, {"peak": ("a", "b")}, "peak must hold 2 finite numbers"),
        (HILL, {"cost_weights": [1, 0]}, "cost_weights must hold 4 finite numbers"),
        (HILL, {"reward_weights": [np.inf, 0]}, "reward_weights must hold 2 finite numbers"),
        (RANDOM, {"states": 0}, "states must be an integer of at least 1; got 0"),
        (RANDOM, {"actions": 1.5}, "actions must be an integer"),
        (RANDOM, {"constraints": -1}, "constraints must be an integer of at least 0; got -1"),
        (RANDOM, {"features": 0}, "features must be"),
        (RANDOM, {"successors": 0}, "successors must be"),
        (RANDOM, {"seed": -3}, "seed must be"),
        (RANDOM, {"discount": -0.1}, "discount must be"),
        (RANDOM, {"constraints": 0, "tightness": 0.5}, "this world has no constraint"),
        (GYM, {"environment": None}, r"must have a table P\[state\]\[action\]; got NoneType"),
        (GYM, {"environment": {}}, "at least one state and one action"),
        (GYM, {"environment": {0: {}}}, "at least one state and one action"),
        (GYM, {"environment": {1: {0: [(1.0, 0, 0, False)]}}}, "states 0 to 0; 0 is missing"),
        (GYM, {"environment": [[[(1.0, 0, 0.0)]]]}, r"P\[0\]\[0\] must be a list of \(prob"),
        (GYM, {"environment": [[[]]]}, r"P\[0\]\[0\] must list at least one outcome"),
        (GYM, {"environment": [[[(1.0, 3, 0.0, False)]]]}, r"in 0..0; P\[0\]\[0\] has 3"),
        (GYM, {"environment": [[[(1.0, 0.5, 0.0, False)]]]}, r"P\[0\]\[0\] has 0.5"),
        (
            GYM,
            {"environment": [[[(0.9, 0, 0.0, False)]]]},
            r"row \(state 0, action 0\) sums to 0.9",
        ),
        (GYM, {"environment": [[[(1.0, 0, np.nan, False)]]]}, "must be finite"),
        (
            GYM,
            {"environment": [[[(1.0, 0, 0, False)]], [[(1.0, 0, 0, False)]] * 2]},
            "same 1 actions; state 1 has 2",
        ),
        (GYM, {"environment": two_rooms(), "costs": [0.0, 1.0]}, r"costs must have shape \[K, S\]"),
        (GYM, {"environment": two_rooms(), "costs": [[0.0, 1.0]]}, "budgets must hold one number"),
        (GYM, {"environment": two_rooms(), "initial": [1.0]}, r"initial must have shape \[S\]"),
        (
            GYM,
            {"environment": two_rooms(), "initial": [0.4, 0.4]},
            "initial must be a distribution",
        ),
    ],
)
def test_bad_input_is_one_line_that_names_it(make, arguments, message):
    with refusal(tacit.InvalidModel, match=message):
        make(**arguments)


@pytest.mark.parametrize("name", ["Nowhere-v0", "Blackjack-v1"])
def test_environments_without_a_table_are_refused(gym, name):
    with refusal(tacit.InvalidModel, match=name):
        tacit.worlds.gymnasium(name)


def test_gymnasium_is_asked_for_only_by_name(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gymnasium", None)
    tacit.worlds.gymnasium(two_rooms())
    with pytest.raises(tacit.InvalidModel, match=r"pip install '\.\[gymnasium\]'"):
        tacit.worlds.gymnasium("FrozenLake-v1")
