"""The set of all explanations: against a plain linear program, the truth, and its own symmetries.

The judge is the polyhedron as it is written in the theory, one row a (state, action) pair and one
variable a state, in the user's units and gauges: nothing is eliminated, cut off or rescaled.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle

import numpy as np
import pytest
from scipy.optimize import linprog

import kinds
import oracles
import tacit
from tacit.estimators.explanation.cone import columns_of, cone, rows, values
from tacit.estimators.explanation.estimator import Explanation
from tacit.estimators.explanation.points import trusted_counts
from tacit.estimators.recover import choose
from tacit.inference.expectations import expectations
from tacit.inference.findings import Kind

# Corners of the program are met to 1e-9 with columns of order one; ends of intervals are quotients
# of such numbers and amplify them by the conditioning of the corner, seen up to a few hundred.
EXACT = 1e-6


def demonstrated(world, *, trajectories=100, steps=2000, seed=0):
    """The expert's multipliers in the gauge, and its demonstrations."""
    solution = tacit.solve(world.mdp, world.truth)
    shown = tacit.simulate(
        world.mdp, solution.policy, trajectories=trajectories, steps=steps, seed=seed
    )
    return solution, shown


def fitted(world, shown, **options):
    return Explanation(**options).fit(world.mdp, world.features, shown)


def full(table, actions):
    """[S, A, D] a feature map, by state or by state and action."""
    return table if table.ndim == 3 else np.repeat(table[:, None, :], actions, axis=1)


def stacked(world):
    """[S * A, D + sum D_k] reward features, then minus the cost features."""
    maps = [world.features.reward, *(-table for table in world.features.costs)]
    return np.concatenate([full(m, world.mdp.actions) for m in maps], axis=2).reshape(
        world.mdp.states * world.mdp.actions, -1
    )


class Polyhedron:
    """All (theta, values) that explain `counts` [S, A], as rows of a linear program."""

    def __init__(self, world, counts, *, signs=None):
        mdp = world.mdp
        self.sizes = [world.features.reward.shape[-1]]
        self.sizes += [table.shape[-1] for table in world.features.costs]
        self.signs = np.ones(self.sizes[0]) if signs is None else np.array(signs)
        features = stacked(world)
        bellman = mdp.discount * mdp.dense().reshape(-1, mdp.states)
        bellman -= np.repeat(np.eye(mdp.states), mdp.actions, axis=0)
        table = np.hstack([features, bellman])
        seen = (counts > 0).ravel()
        visited = counts.sum(axis=1) > 0
        entered = np.flatnonzero((seen @ mdp.dense().reshape(-1, mdp.states) > 0) & ~visited)
        ceilings = np.zeros((len(entered), table.shape[1]))
        for j in range(features.shape[1]):
            sign = self.signs[j] if j < self.sizes[0] else 1.0
            column = sign * features[:, j].reshape(mdp.states, mdp.actions)
            ceilings[:, j] = -sign * oracles.best_policy(mdp, column)[1][entered]
        ceilings[:, features.shape[1] + entered] = np.eye(len(entered))
        self.upper = np.vstack([table[~seen], ceilings])
        self.equal = table[seen]
        width = table.shape[1] - features.shape[1]
        self.bounds = [(0, None) if s > 0 else (None, 0) for s in self.signs]
        self.bounds += [(0, None)] * (features.shape[1] - self.sizes[0]) + [(None, None)] * width

    def block(self, k):
        start = sum(self.sizes[:k])
        return slice(start, start + self.sizes[k])

    def gauge(self, k):
        row = np.zeros(self.upper.shape[1])
        row[self.block(k)] = self.signs if k == 0 else 1.0
        return row

    def least(self, question, k):
        """The least question . theta in the gauge of map k; None if no explanation is in it."""
        found = linprog(
            question,
            A_ub=self.upper,
            b_ub=np.zeros(len(self.upper)),
            A_eq=np.vstack([self.equal, self.gauge(k)]),
            b_eq=np.r_[np.zeros(len(self.equal)), 1.0],
            bounds=self.bounds,
            options=oracles.LP_OPTIONS,
        )
        return {0: found.fun, 2: None, 3: -np.inf}[found.status]

    def interval(self, question, k):
        low, high = self.least(question, k), self.least(-question, k)
        return (np.nan, np.nan) if low is None else (low, -high)

    def asked(self, k, direction):
        question = np.zeros(self.upper.shape[1])
        question[self.block(k)] = direction
        return question


def holds(interval, truth, tolerance=EXACT):
    return interval[0] <= truth + tolerance and truth <= interval[1] + tolerance


def lagrangian_regret(world, multipliers, policy):
    """What the policy forgoes of the true Lagrangian, relative to its gain over the uniform one."""
    table = oracles.lagrangian(world.mdp, world.truth, multipliers)
    uniform = np.full_like(policy, 1.0 / policy.shape[1])
    earned = [(oracles.policy_visitation(world.mdp, p) * table).sum() for p in (policy, uniform)]
    best = oracles.best_policy(world.mdp, table)[0]
    return (best - earned[0]) / (best - earned[1])


def shortfall(mdp, objective, multipliers):
    """[S, A] by how much each action falls short of the optimal values of the Lagrangian."""
    table = oracles.lagrangian(mdp, objective, multipliers)
    level = oracles.best_policy(mdp, table)[1]
    return level[:, None] - table - mdp.discount * mdp.dense() @ level


def told(recovery, kind: Kind, **about) -> list:
    return kinds.told(recovery.identification.findings, kind, **about)


# --- the truth ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(24))
def test_the_truth_is_in_every_interval_and_the_policy_has_no_regret(seed):
    world = tacit.worlds.hill_grid(seed, tightness=0.5).in_gauge
    expert, shown = demonstrated(world)
    recovery = fitted(world, shown)
    known = recovery.identification
    assert recovery.status is tacit.RecoveryStatus.CONVERGED
    assert recovery.temperature == 0.0
    for interval, weight in zip(known.reward_intervals, world.reward_weights, strict=True):
        assert holds(interval, weight)
    for interval, weight in zip(known.cost_intervals[0], world.cost_weights[0], strict=True):
        assert holds(interval, weight)
    assert holds(known.multiplier_intervals[0], expert.multipliers[0])
    assert holds(known.budget_intervals[0], world.truth.budgets[0])
    assert lagrangian_regret(world, expert.multipliers, recovery.solution.policy) <= 1e-6
    # The point is in its own set.
    assert all(map(holds, known.reward_intervals, recovery.reward_weights))
    assert all(map(holds, known.cost_intervals[0], recovery.cost_weights[0]))
    assert holds(known.multiplier_intervals[0], recovery.multipliers[0])
    assert holds(known.budget_intervals[0], recovery.budgets[0])


@pytest.mark.parametrize("seed", range(20))
def test_the_truth_is_inside_with_little_data(seed):
    # Short trajectories leave states unvisited that the expert can reach: only then are there
    # frontier values and ceilings. Budgets need the support of the expert, which is not all shown.
    constraints = seed % 3
    world = tacit.worlds.random(
        seed, states=12, constraints=constraints, tightness=0.5 if constraints else None
    )
    expert, shown = demonstrated(world, trajectories=2, steps=6)
    assert (shown.counts(world.mdp).sum(axis=1) == 0).any()
    known = fitted(world, shown, free_reward=seed % 2 == 1).identification
    assert all(map(holds, known.reward_intervals, world.reward_weights))
    for k in range(constraints):
        assert holds(known.multiplier_intervals[k], expert.multipliers[k])
        if expert.multipliers[k] > 1e-9:
            assert all(map(holds, known.cost_intervals[k], world.cost_weights[k]))
    theta = [expert.multipliers[k] * world.cost_weights[k] for k in range(constraints)]
    rng = np.random.default_rng(seed)
    for _ in range(3):
        asked = [rng.normal(size=3) for _ in range(constraints + 1)]
        true = asked[0] @ world.reward_weights
        true += sum(q @ t for q, t in zip(asked[1:], theta, strict=True))
        assert holds(known.interval(asked[0], asked[1:]), true)


# --- the set --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("constraints", [0, 1, 2])
@pytest.mark.parametrize("steps", [3, 200])
def test_intervals_agree_with_the_plain_linear_program(seed, constraints, steps):
    world = tacit.worlds.random(
        100 + seed,
        states=7,
        constraints=constraints,
        discount=(0.9, 0.5, 0.99, 0.0)[seed % 4],
        tightness=0.5 if constraints else None,
    )
    _, shown = demonstrated(world, trajectories=3, steps=steps)
    known = fitted(world, shown).identification
    plain = Polyhedron(world, shown.counts(world.mdp))
    width = np.eye(3)
    for j in range(3):
        expected = plain.interval(plain.asked(0, width[j]), 0)
        np.testing.assert_allclose(known.reward_intervals[j], expected, atol=EXACT)
        for k in range(constraints):
            expected = plain.interval(plain.asked(k + 1, width[j]), k + 1)
            np.testing.assert_allclose(known.cost_intervals[k][j], expected, atol=EXACT)
    rng = np.random.default_rng(seed)
    asked = [rng.normal(size=3) for _ in range(constraints + 1)]
    question = sum(plain.asked(k, direction) for k, direction in enumerate(asked))
    expected = plain.interval(question, 0)
    np.testing.assert_allclose(
        known.interval(asked[0], asked[1:]), expected, atol=EXACT, rtol=EXACT
    )
    for k in range(constraints):
        expected = plain.interval(plain.asked(k + 1, np.ones(3)), 0)
        np.testing.assert_allclose(known.multiplier_intervals[k], expected, atol=EXACT, rtol=EXACT)


@pytest.mark.parametrize("seed", range(6))
def test_eliminating_values_changes_no_answer(seed, monkeypatch):
    world = tacit.worlds.random(seed, states=15, constraints=seed % 2, tightness=None)
    _, shown = demonstrated(world, trajectories=2, steps=8)
    few = fitted(world, shown)
    monkeypatch.setattr("tacit.estimators.explanation.cone.MANY", -1)
    every = fitted(world, shown)
    for name in ("reward_intervals", "multiplier_intervals"):
        mine, theirs = (getattr(r.identification, name) for r in (few, every))
        np.testing.assert_allclose(mine, theirs, atol=EXACT, rtol=EXACT)
    assert few.history["ties"][0] == every.history["ties"][0]
    short = shortfall(world.mdp, every.objective, every.multipliers)
    assert short[shown.counts(world.mdp) > 0].max() <= EXACT


@pytest.mark.parametrize("seed", range(6))
def test_intervals_of_the_grid_agree_with_the_plain_linear_program(seed):
    world = tacit.worlds.hill_grid(seed, tightness=0.5, discount=0.99 if seed % 2 else 0.9)
    _, shown = demonstrated(world)
    known = fitted(world, shown).identification
    # In the units of the paper rewards are 1e-3: the plain program needs columns of order one.
    scales = [world.features.reward.max(), world.features.costs[0].max()]
    features = tacit.Features(
        world.features.reward / scales[0], [world.features.costs[0] / scales[1]]
    )
    plain = Polyhedron(dataclasses.replace(world, features=features), shown.counts(world.mdp))
    for j in range(2):
        expected = plain.interval(plain.asked(0, np.eye(2)[j]), 0)
        np.testing.assert_allclose(known.reward_intervals[j], expected, atol=EXACT)
    for j in range(4):
        expected = plain.interval(plain.asked(1, np.eye(4)[j]), 1)
        np.testing.assert_allclose(known.cost_intervals[0][j], expected, atol=EXACT)
    expected = np.array(plain.interval(plain.asked(1, np.ones(4)), 0)) * scales[0] / scales[1]
    np.testing.assert_allclose(known.multiplier_intervals[0], expected, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("seed", range(6))
def test_free_signs_agree_with_the_union_over_all_signs(seed):
    world = tacit.worlds.random(200 + seed, states=7, constraints=seed % 2, tightness=None)
    _, shown = demonstrated(world, trajectories=20, steps=100)
    counts = shown.counts(world.mdp)
    # With no state left unvisited the set for free signs IS the union; else it is larger.
    assert (counts.sum(axis=1) > 0).all()
    known = fitted(world, shown, free_reward=True).identification
    orthants = [
        Polyhedron(world, counts, signs=signs) for signs in itertools.product((1.0, -1.0), repeat=3)
    ]
    questions = [(0, direction) for direction in np.eye(3)]
    questions += [(1, np.ones(3))] * world.features.constraints
    found = [*known.reward_intervals, *known.multiplier_intervals]
    for (k, direction), interval in zip(questions, found, strict=True):
        ends = np.array([o.interval(o.asked(k, direction), 0) for o in orthants])
        expected = np.nanmin(ends[:, 0]), np.nanmax(ends[:, 1])
        np.testing.assert_allclose(interval, expected, atol=EXACT, rtol=EXACT)


@pytest.mark.parametrize("seed", range(10))
def test_membership_is_optimality_for_the_calibrated_problem(seed):
    world = tacit.worlds.random(300 + seed, states=6, constraints=1 + seed % 2, tightness=0.5)
    mdp = world.mdp
    expert, _ = demonstrated(world, trajectories=1, steps=1)
    columns = columns_of(mdp, world.features)
    every = cone(mdp, columns.tables, (expert.policy > 0).astype(float))
    assert every.visited.all()
    truth = np.concatenate(
        [
            world.reward_weights,
            *(m * w for m, w in zip(expert.multipliers, world.cost_weights, strict=True)),
        ]
    )
    rng = np.random.default_rng(seed)
    drawn = [rng.dirichlet(np.ones(len(truth))) for _ in range(20)]
    near = [truth * np.exp(0.01 * rng.normal(size=len(truth))) for _ in range(10)]
    answers = set()
    for theta in (truth, *near, *drawn):
        amounts = theta / columns.units
        broken = rows(every, every.forms, *np.nonzero(every.restricted)) @ amounts
        member = broken.max() <= 1e-7 and np.abs(every.equalities @ amounts).max(initial=0) <= 1e-7
        parts = np.split(theta, np.cumsum(columns.sizes)[:-1])
        prices = np.array([part.sum() for part in parts[1:]])
        objective = world.features.objective(
            parts[0], [part / part.sum() for part in parts[1:]], np.zeros(len(prices))
        )
        reward, costs = objective.tables(mdp)
        budgets = [(c * expert.visitation).sum() for c in costs]
        calibrated = tacit.Objective(reward, costs, budgets)
        earned = (reward * expert.visitation).sum()
        # Strong duality: the expert is optimal and the prices are right exactly when these meet.
        gap = oracles.dual_value(mdp, calibrated, prices) - earned
        assert gap >= -1e-9
        assert member == (gap <= 1e-7), (gap, broken.max())
        answers.add(member)
    assert answers == {True, False}


def test_more_data_never_widen_an_interval():
    for seed in range(4):
        world = tacit.worlds.hill_grid(seed, tightness=0.5)
        _, shown = demonstrated(world, trajectories=40, steps=200)
        wide = None
        for part in (shown.select([0]).truncate(5), shown.select(range(3)).truncate(40), shown):
            known = fitted(world, part).identification
            found = [*known.reward_intervals, *known.cost_intervals[0], *known.multiplier_intervals]
            if wide is not None:
                for outer, inner in zip(wide, found, strict=True):
                    assert outer[0] <= inner[0] + EXACT
                    assert inner[1] <= outer[1] + EXACT
            wide = found


def test_only_which_pairs_were_seen_counts():
    world = tacit.worlds.hill_grid(3, tightness=0.5)
    _, shown = demonstrated(world, trajectories=30, steps=300)
    twice = tacit.Demonstrations.from_trajectories(
        [shown.trajectory(e) for e in (*range(29, -1, -1), *range(30))]
    )
    loose = tacit.Demonstrations.from_pairs(shown.states, shown.actions)
    first = fitted(world, shown)
    for other in (fitted(world, twice), fitted(world, loose)):
        for name in ("reward_intervals", "multiplier_intervals"):
            mine, theirs = (getattr(r.identification, name) for r in (first, other))
            np.testing.assert_allclose(mine, theirs, atol=EXACT)
        np.testing.assert_allclose(first.reward_weights, other.reward_weights, atol=EXACT)
    assert np.isnan(fitted(world, loose).certificate.feature_gap)


# --- questions ------------------------------------------------------------------------------------


def test_a_coordinate_is_a_question_like_any_other():
    world = tacit.worlds.hill_grid(4, tightness=0.5)
    _, shown = demonstrated(world)
    known = fitted(world, shown).identification
    for j in range(2):
        found = known.interval(np.eye(2)[j], [np.zeros(4)])
        np.testing.assert_allclose(found, known.reward_intervals[j], atol=1e-9)
    found = known.interval(np.zeros(2), [np.ones(4)])
    np.testing.assert_allclose(found, known.multiplier_intervals[0], rtol=1e-7)
    direction = [0.3, -2.0], [[1.0, -1.0, 0.0, 0.5]]
    low, high = known.interval(*direction)
    opposite = known.interval(-np.array(direction[0]), -np.array(direction[1]))
    np.testing.assert_allclose(opposite, (-high, -low), rtol=1e-7)
    # A copy in another process builds its own program.
    again = pickle.loads(pickle.dumps(known))
    np.testing.assert_allclose(again.interval(*direction), (low, high), rtol=1e-7)


def test_questions_of_the_wrong_size_are_refused():
    world = tacit.worlds.hill_grid(4, tightness=0.5)
    known = fitted(world, demonstrated(world)[1]).identification
    with pytest.raises(tacit.InvalidModel, match="reward_direction must hold 2"):
        known.interval([1.0], [np.zeros(4)])
    with pytest.raises(tacit.InvalidModel, match="one vector per constraint"):
        known.interval([1.0, 0.0])
    with pytest.raises(tacit.InvalidModel, match=r"cost_directions\[0\] must hold 4 finite"):
        known.interval([1.0, 0.0], [[0.0, 0.0, 0.0, np.nan]])


def test_a_loaded_recovery_keeps_its_intervals_and_answers_questions(tmp_path):
    world = tacit.worlds.hill_grid(5, tightness=0.5)
    recovery = fitted(world, demonstrated(world)[1])
    recovery.save(tmp_path / "run")
    again = tacit.Recovery.load(tmp_path / "run")
    known = recovery.identification
    np.testing.assert_array_equal(again.identification.reward_intervals, known.reward_intervals)
    assert again.identification.findings == known.findings
    for question in (([1.0, 0.0], [np.zeros(4)]), ([1.0, -1.0], [np.arange(4.0)])):
        # The same linear programs from other corners: broken inequalities are worth 1e-9.
        np.testing.assert_allclose(
            again.identification.interval(*question), known.interval(*question), atol=1e-7
        )


# --- the point ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_demonstrated_actions_stand_out_at_the_point(seed):
    world = tacit.worlds.random(
        400 + seed, states=10, constraints=seed % 3, tightness=0.5 if seed % 3 else None
    )
    expert, shown = demonstrated(world, trajectories=100, steps=300)
    recovery = fitted(world, shown)
    seen = shown.counts(world.mdp) > 0
    prices = np.where(np.isfinite(recovery.multipliers), recovery.multipliers, 0.0)
    short = shortfall(world.mdp, recovery.objective, prices)
    assert short[seen].max() <= EXACT
    ties = int(recovery.history["ties"][0])
    assert (short[~seen] <= EXACT).sum() == ties
    # What the recovered policy does was demonstrated, or ties with it.
    used = recovery.solution.visitation > 1e-9
    assert short[used].max() <= EXACT
    assert recovery.certificate.objective_gap <= 1e-8
    true = oracles.lagrangian(world.mdp, world.truth, expert.multipliers)
    best = oracles.best_policy(world.mdp, true)
    assert best[0] - (recovery.solution.visitation * true).sum() <= 1e-6 * max(1.0, abs(best[0]))


@pytest.mark.parametrize("seed", [5, 8, 9, 28, 35, 59])
def test_where_unshown_states_can_be_reached_demonstrated_actions_are_still_the_best(seed):
    # Here the explanation of largest margin gives unshown states more value than any policy earns.
    world = tacit.worlds.random(seed, states=12, constraints=1, tightness=0.5)
    _, shown = demonstrated(world, trajectories=2, steps=6)
    recovery = fitted(world, shown)
    short = shortfall(world.mdp, recovery.objective, recovery.multipliers)
    assert short[shown.counts(world.mdp) > 0].max() <= EXACT
    assert not told(recovery, Kind.ASSUMED, number=None)


@pytest.mark.parametrize("seed", range(6))
def test_no_explanation_has_a_larger_margin(seed):
    # On the grid some moves tie in every explanation, into the walls of a corner for one.
    world = tacit.worlds.random(600 + seed, states=8, constraints=1, tightness=0.5)
    if seed % 2:
        world = tacit.worlds.hill_grid(seed, tightness=0.5)
    expert, shown = demonstrated(world, trajectories=100, steps=300)
    recovery = fitted(world, shown)
    columns = columns_of(world.mdp, world.features)

    def margin(weights, multiplier, cost_weights):
        """Least slack of what ties not everywhere, amounts of the columns summing to one."""
        amounts = np.r_[weights, multiplier * cost_weights] / columns.units
        amounts /= amounts.sum()
        table = columns.table(amounts)
        level = oracles.best_policy(world.mdp, table)[1]
        short = level[:, None] - table - world.mdp.discount * world.mdp.dense() @ level
        others = np.sort(short[shown.counts(world.mdp) == 0])
        return others[int(recovery.history["ties"][0])]

    mine = margin(recovery.reward_weights, recovery.multipliers[0], recovery.cost_weights[0])
    true = margin(world.reward_weights, expert.multipliers[0], world.cost_weights[0])
    assert mine == pytest.approx(recovery.history["margin"][0], abs=EXACT)
    assert true <= mine + EXACT
    assert mine > 1e-3
    assert seed % 2 == 0 or recovery.history["ties"][0] > 0


def test_budgets_are_within_reach_of_demonstrated_actions_and_said_to_be_moved():
    moved = 0
    for seed in range(8):
        world = tacit.worlds.hill_grid(seed, tightness=0.5)
        _, shown = demonstrated(world, trajectories=20)
        recovery = fitted(world, shown)
        mean = recovery.cost_weights[0] @ expectations(world.mdp, world.features, shown).costs[0]
        cost = recovery.objective.tables(world.mdp)[1][0]
        counts = shown.counts(world.mdp)
        unseen = counts.sum(axis=1) == 0
        ends = []
        for sign in (-1.0, 1.0):
            table = np.where((counts > 0) | unseen[:, None], sign * cost, -1e6)
            ends.append(sign * oracles.best_policy(world.mdp, table)[0])
        assert ends[0] - 1e-9 <= recovery.budgets[0] <= ends[1] + 1e-9
        said = bool(told(recovery, Kind.UNATTAINABLE, constraint=0))
        assert said or ends[0] - 1e-6 <= mean <= ends[1] + 1e-6
        moved += said
        np.testing.assert_allclose(recovery.solution.spent, recovery.budgets, rtol=1e-7)
    assert moved > 0


# --- what cannot be told --------------------------------------------------------------------------


def test_a_column_shared_by_reward_and_cost_is_reported():
    world = tacit.worlds.hill_grid(0, tightness=0.5)
    _, shown = demonstrated(world)
    shared = tacit.Features(
        np.c_[world.features.reward, 7.0 * world.features.costs[0][:, 0]],
        world.features.costs,
        ["row", "column", "height"],
        [["hill", "slope", "north", "east"]],
    )
    recovery = Explanation().fit(world.mdp, shared, shown)
    assert told(recovery, Kind.NOT_IDENTIFIED, feature="height")
    known = recovery.identification
    # The trade: 7 units of cost weight undo one of reward weight, so all of the reward may be it.
    assert known.reward_intervals[2, 1] == pytest.approx(1.0, abs=EXACT)
    assert not np.isnan(known.cost_intervals[0]).any()


def test_only_trivial_explanations_are_called_so():
    world = tacit.worlds.hill_grid(0, tightness=0.5)
    everything = np.full((25, 4), 0.25)
    shown = tacit.simulate(world.mdp, everything, trajectories=50, steps=500)
    same = tacit.Features(world.features.costs[0], [world.features.costs[0]])
    recovery = Explanation().fit(world.mdp, same, shown)
    assert told(recovery, Kind.NOT_IDENTIFIED, feature=None, constraint=None)
    assert not told(recovery, Kind.MISFIT)
    # Without the shared columns nothing but an error of the expert explains acting at random.
    assert told(fitted(world, shown), Kind.MISFIT)


def test_constraints_with_the_same_features_share_one_sum():
    world = tacit.worlds.hill_grid(6, tightness=0.5)
    _, shown = demonstrated(world)
    one = fitted(world, shown).identification
    features = tacit.Features(world.features.reward, [world.features.costs[0]] * 2)
    two = Explanation().fit(world.mdp, features, shown)
    assert told(two, Kind.NOT_IDENTIFIED, constraint=None)
    known = two.identification
    both = known.interval(np.zeros(2), [np.ones(4), np.ones(4)])
    np.testing.assert_allclose(both, one.multiplier_intervals[0], rtol=EXACT)
    assert (known.multiplier_intervals[:, 0] <= EXACT).all()
    assert told(two, Kind.NOT_IDENTIFIED, constraint=0)


def test_an_inactive_constraint_is_nan_and_one_that_may_be_is_said_to_be():
    # One step, no future. State 0: wanted and dear. State 1: dear and nothing else.
    mdp = tacit.MDP(np.full((2, 2, 2), 0.5), [0.5, 0.5], 0.0)
    reward = np.array([[[0.0], [1.0]], [[0.0], [0.0]]])
    cost = np.array([[[0.0], [1.0]], [[0.0], [1.0]]])
    features = tacit.Features(reward, [cost])
    shown = tacit.Demonstrations.from_trajectories([([0], [1]), ([1], [1])])
    recovery = Explanation().fit(mdp, features, shown)
    assert told(recovery, Kind.INACTIVE, constraint=0)
    assert recovery.multipliers[0] == 0.0
    assert np.isnan(recovery.cost_weights[0]).all()
    assert np.isnan(recovery.identification.cost_intervals[0]).all()
    assert recovery.budgets[0] == np.inf
    assert not recovery.identification.active[0]
    np.testing.assert_array_equal(recovery.identification.multiplier_intervals, [[0.0, 0.0]])

    free = tacit.Demonstrations.from_trajectories([([0], [1]), ([1], [0])])
    recovery = Explanation().fit(mdp, features, free)
    assert told(recovery, Kind.NOT_IDENTIFIED, constraint=0)
    # In state 0 one unit wanted outweighs up to one unit of cost.
    np.testing.assert_allclose(recovery.identification.multiplier_intervals, [[0, 1]], atol=1e-8)

    neither = tacit.Demonstrations.from_trajectories([([0], [0]), ([1], [0])])
    known = Explanation().fit(mdp, features, neither).identification
    # Refusing cost alone explains it; no price is too high.
    np.testing.assert_allclose(known.multiplier_intervals, [[1, np.inf]], atol=1e-8)


@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_units_of_the_features_change_nothing_but_units(scale):
    world = tacit.worlds.hill_grid(5, tightness=0.5)
    _, shown = demonstrated(world)
    base = fitted(world, shown)
    features = tacit.Features(scale * world.features.reward, world.features.costs)
    other = Explanation().fit(world.mdp, features, shown)
    np.testing.assert_allclose(other.reward_weights, base.reward_weights, atol=EXACT)
    np.testing.assert_allclose(other.multipliers, scale * base.multipliers, rtol=EXACT)
    known, mine = other.identification, base.identification
    np.testing.assert_allclose(known.reward_intervals, mine.reward_intervals, atol=EXACT)
    np.testing.assert_allclose(known.cost_intervals[0], mine.cost_intervals[0], atol=EXACT)
    np.testing.assert_allclose(
        known.multiplier_intervals, scale * mine.multiplier_intervals, rtol=EXACT
    )
    np.testing.assert_allclose(known.budget_intervals, mine.budget_intervals, rtol=EXACT)

    # One column alone: its weight is in other units, and the gauge follows.
    column = tacit.Features(world.features.reward * [scale, 1.0], world.features.costs)
    known = Explanation().fit(world.mdp, column, shown).identification
    weight = mine.reward_intervals[0]
    assert 0.01 < np.ptp(weight) < 0.99
    expected = weight / (weight + (1.0 - weight) * scale)
    np.testing.assert_allclose(known.reward_intervals[0], expected, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(known.cost_intervals[0], mine.cost_intervals[0], atol=EXACT)


def test_features_that_nothing_influences_leave_room_and_change_nothing_else():
    world = tacit.worlds.hill_grid(7, tightness=0.5)
    _, shown = demonstrated(world)
    base = fitted(world, shown)
    ones, reward = np.ones((25, 1)), world.features.reward
    features = tacit.Features(
        np.hstack([reward + 100.0, 3.0 * ones, 0.0 * ones]),
        [np.hstack([world.features.costs[0], 5.0 * ones])],
    )
    other = Explanation().fit(world.mdp, features, shown)
    np.testing.assert_allclose(other.reward_weights, [*base.reward_weights, 0, 0], atol=EXACT)
    known, mine = other.identification, base.identification
    # They may have any weight, and take it from the others; upper ends stay.
    for ends, plain in (
        (known.reward_intervals[:2], mine.reward_intervals),
        (known.cost_intervals[0][:4], mine.cost_intervals[0]),
    ):
        np.testing.assert_allclose(ends[:, 1], plain[:, 1], atol=EXACT)
        np.testing.assert_array_equal(ends[:, 0], 0.0)
    np.testing.assert_array_equal(known.reward_intervals[2:], [[0, 1], [0, 1]])
    np.testing.assert_array_equal(known.multiplier_intervals, [[0.0, np.inf]])
    assert told(other, Kind.NOT_IDENTIFIED, feature=None)
    np.testing.assert_allclose(known.interval([0, 0, 1, 0], [np.zeros(5)]), [0, 1])


def test_a_world_without_a_choice_tells_nothing():
    mdp = tacit.MDP(np.full((3, 1, 3), 1 / 3), [1, 0, 0], 0.9)
    features = tacit.Features(np.eye(3), [np.eye(3)])
    shown = tacit.simulate(mdp, np.ones((3, 1)), trajectories=2, steps=10)
    recovery = Explanation().fit(mdp, features, shown)
    assert np.isnan(recovery.reward_weights).all()
    assert told(recovery, Kind.NOT_IDENTIFIED)


# --- experts that err -----------------------------------------------------------------------------


def test_an_expert_that_errs_is_a_finding_with_its_slack_by_state():
    world = tacit.worlds.hill_grid(2, tightness=0.5)
    expert, _ = demonstrated(world, trajectories=1, steps=1)
    policy = expert.policy.copy()
    policy[12] = 0.25  # errs in one state only
    shown = tacit.simulate(world.mdp, policy, trajectories=100, steps=500)
    recovery = fitted(world, shown)
    assert recovery.status is tacit.RecoveryStatus.UNEXPLAINED
    assert told(recovery, Kind.MISFIT, state=None)
    assert told(recovery, Kind.MISFIT, state=12)
    known = recovery.identification
    assert np.isnan(known.reward_intervals).all()
    assert np.isnan(known.interval([1.0, 0.0], [np.zeros(4)])).all()
    by_state = recovery.history["slack_by_state"][0]
    # The same from the recovered objective alone, by dense policy iteration.
    short = shortfall(world.mdp, recovery.objective, recovery.multipliers)
    counts = shown.counts(world.mdp)
    expected = (counts * short).sum(axis=1) / counts.sum(axis=1)
    np.testing.assert_allclose(by_state, expected, atol=1e-9)
    assert np.nanargmax(by_state) == 12


@pytest.mark.parametrize("seed", range(4))
def test_no_objective_falls_short_less_than_the_nearest_one(seed):
    world = tacit.worlds.random(700 + seed, states=8, constraints=1, tightness=0.5)
    mdp = world.mdp
    expert, _ = demonstrated(world, trajectories=1, steps=1)
    policy = 0.7 * expert.policy + 0.1
    shown = tacit.simulate(mdp, policy, trajectories=20, steps=200)
    counts = shown.counts(mdp)
    recovery = fitted(world, shown)
    uniform = oracles.policy_visitation(mdp, np.full((8, 3), 1 / 3))
    frequent = oracles.policy_visitation(mdp, counts / counts.sum(axis=1, keepdims=True))
    features = stacked(world)
    bellman = np.repeat(np.eye(8), 3, axis=0) - mdp.discount * mdp.dense().reshape(-1, 8)
    table = np.hstack([-features, bellman])  # slack of every pair
    gain = np.r_[(frequent - uniform).ravel() @ features, np.zeros(8)]

    def least(**fixed):
        found = linprog(
            counts.ravel() @ table,
            A_ub=-table,
            b_ub=np.zeros(len(table)),
            A_eq=gain[None],
            b_eq=[1.0],
            options=oracles.LP_OPTIONS,
            **fixed,
        )
        assert found.status == 0
        return found.fun

    theta = np.r_[recovery.reward_weights, recovery.multipliers[0] * recovery.cost_weights[0]]
    theta = theta / (gain[: len(theta)] @ theta)
    free = [(None, None)] * 8
    best = least(bounds=[(0, None)] * len(theta) + free)
    mine = least(bounds=[(t, t) for t in theta] + free)
    assert mine == pytest.approx(best, rel=1e-6)
    assert best > 0


@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_experts_that_err_everywhere_never_raise(noise):
    for seed in range(4):
        world = tacit.worlds.random(500 + seed, states=10, constraints=seed % 3)
        expert, _ = demonstrated(world, trajectories=1, steps=1)
        policy = (1 - noise) * expert.policy + noise / 3
        shown = tacit.simulate(world.mdp, policy, trajectories=30, steps=100)
        recovery = fitted(world, shown)
        assert told(recovery, Kind.MISFIT)
        assert (recovery.history["slack_by_state"] >= 0).all()
        assert 0 < recovery.history["wrong"][0] < 1
        assert "Imperfect" in recovery.summary()


# --- the shape of it ------------------------------------------------------------------------------


def test_a_reward_alone_is_recovered_from_an_unconstrained_expert():
    world = tacit.worlds.random(11, states=15, constraints=0)
    _, shown = demonstrated(world)
    recovery = fitted(world, shown)
    assert recovery.cost_weights == ()
    assert recovery.identification.multiplier_intervals.shape == (0, 2)
    assert recovery.reward_weights.sum() == pytest.approx(1.0)
    assert "made of" not in recovery.summary()


def test_bad_tolerances_are_refused():
    world = tacit.worlds.hill_grid(0)
    shown = tacit.simulate(world.mdp, np.full((25, 4), 0.25), trajectories=1, steps=3)
    with pytest.raises(tacit.InvalidModel, match="tolerance"):
        fitted(world, shown, tolerance=1e-2)


def test_values_of_an_explanation_are_those_of_its_optimal_policy():
    # Half of the grid was never seen: its values come from policy iteration, not from the program.
    world = tacit.worlds.hill_grid(1, size=8, tightness=0.5)
    expert, shown = demonstrated(world, trajectories=5, steps=60)
    columns = columns_of(world.mdp, world.features)
    every = cone(world.mdp, columns.tables, shown.counts(world.mdp))
    assert len(every.rest) > 5
    theta = np.r_[world.reward_weights, expert.multipliers[0] * world.cost_weights[0]]
    amounts = theta / columns.units
    best = oracles.best_policy(world.mdp, columns.table(amounts))[1]
    x = np.r_[amounts, best[every.frontier]]
    np.testing.assert_allclose(values(every, x, None)[0], best, atol=1e-9)


def erring(seed: int, share: float = 0.02):
    """(world, prices, steps of an optimal expert that errs in this share of its steps)."""
    world = tacit.worlds.hill_grid(seed, tightness=0.5).in_gauge
    solution = tacit.solve(world.mdp, world.truth)
    policy = (1.0 - share) * solution.policy + share / 4
    shown = tacit.simulate(world.mdp, policy, trajectories=50, steps=40, seed=seed)
    return world, solution.multipliers, shown


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_a_share_of_wrong_steps_may_be_allowed_for(seed):
    world, prices, shown = erring(seed)
    assert fitted(world, shown).status is tacit.RecoveryStatus.UNEXPLAINED
    recovery = fitted(world, shown, errors=0.02)
    known = recovery.identification
    assert recovery.status is tacit.RecoveryStatus.CONVERGED
    assert known.confidence == 0.95
    # 95 % confidence: these seeds are not among the misses.
    for ends, truth in (
        (known.reward_intervals, world.reward_weights),
        (known.cost_intervals[0], world.cost_weights[0]),
        (known.multiplier_intervals, prices),
    ):
        assert ((ends[:, 0] - EXACT <= truth) & (truth <= ends[:, 1] + EXACT)).all()
    assert 0.0 < recovery.goodness.share < 0.02  # three of four random actions are wrong
    assert recovery.goodness.adequate
    assert told(recovery, Kind.ASSUMED)
    assert "errors=0.02" in recovery.estimator


def test_without_errors_the_set_is_the_one_that_holds_for_certain():
    world = tacit.worlds.hill_grid(7, tightness=0.5)
    _, shown = demonstrated(world)
    exact, loose = fitted(world, shown), fitted(world, shown, errors=1e-6)
    assert exact.identification.confidence == 1.0
    assert exact.estimator == "Explanation(free_reward=False, tolerance=1e-09)"
    # Next to no errors are allowed for: every action seen often was meant.
    counts = shown.counts(world.mdp)
    assert np.array_equal(trusted_counts(counts, 0.0), counts)
    assert np.array_equal(trusted_counts(counts, 1e-6) > 0, counts > 1)
    for name in ("reward_intervals", "multiplier_intervals"):
        ends, wide = (getattr(one.identification, name) for one in (exact, loose))
        assert (wide[:, 0] <= ends[:, 0] + EXACT).all()
        assert (ends[:, 1] <= wide[:, 1] + EXACT).all()
    with pytest.raises(tacit.InvalidModel, match="errors must be the largest share of wrong steps"):
        fitted(world, shown, errors=0.5)


def test_an_expert_near_the_fence_is_never_called_explained():
    world, _, shown = erring(0, 0.003)
    estimator, reason = choose(world.mdp, world.features, shown)
    assert (type(estimator), reason.kind) == (tacit.Likelihood, Kind.CHOICE)
    assert reason.about.number > 0.9  # it looks deterministic
    world = tacit.worlds.hill_grid(0, tightness=0.5)
    _, shown = demonstrated(world, trajectories=50, steps=40)
    assert isinstance(choose(world.mdp, world.features, shown)[0], Explanation)
