"""Published worlds: stated facts of their sources, worlds by hand, and fresh draws by seed."""

from itertools import pairwise

import numpy as np
import pytest

import tacit
import tacit_lab
from refusals import refusal
from tacit.inference.findings import check_possible
from tacit_lab import worlds as lab

FRESH = [
    lambda seed: lab.objectworld(seed, size=6, objects=5),
    lambda seed: lab.walls(seed=seed),
    lab.nine_by_nine,
    lab.six_by_six,
    lab.three_by_three,
]


@pytest.mark.parametrize(("number", "steps"), [(1, 10), (2, 9), (3, 11), (4, 14)])
def test_shortest_safe_ways_past_the_walls(number, steps):
    world = lab.walls(number)
    found = tacit.solve(world.mdp, world.truth)
    # Reward 1 after so many discounted steps, and nothing unsafe on the way.
    assert found.value == pytest.approx(0.99**steps, rel=1e-9)
    assert found.spent == pytest.approx(0.0, abs=1e-12)
    free = tacit.solve(world.mdp, tacit.Objective(world.truth.reward))
    assert free.value == pytest.approx(0.99**6, rel=1e-9)  # straight through


def test_prices_of_the_six_by_six_grid_are_the_published_ones():
    world = lab.six_by_six()
    found = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(1.0))
    np.testing.assert_allclose(found.multipliers, [31.114, 5.033], atol=5e-4)  # as printed
    assert world.features.reward.shape == (36, 20)
    assert world.mdp.initial.max() == pytest.approx(1 / 30)
    assert world.mdp.absorbing.nonzero()[0].tolist() == [5, 33]
    dense = world.mdp.dense()
    assert dense[0, 2, 0] == pytest.approx(0.95)  # into a wall of a corner: two ways to stay
    assert dense[14, 0, [15, 20, 13, 8]] == pytest.approx([0.925, 0.025, 0.025, 0.025])


# (x, y) steps of right, down, left and up.
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))


def by_hand(size, x, y, move, wind=0.3):
    """[S] next cells of Objectworld, by the rules of its source, cell by cell."""
    row, off = np.zeros(size * size), 0
    for dx, dy in MOVES:
        inside = 0 <= x + dx < size and 0 <= y + dy < size
        off += not inside
        if inside:
            chance = wind / 5 + (1 - wind) * ((dx, dy) == move)
            row[x + dx + size * (y + dy)] = chance
    leaves = not (0 <= x + move[0] < size and 0 <= y + move[1] < size)
    here = 1 - wind + wind / 5 if move == (0, 0) else off * wind / 5 + (1 - wind) * leaves
    row[x + size * y] = here
    return row / row.sum()


def test_moves_and_worth_of_objectworld_are_those_of_its_source():
    world = lab.objectworld(3, size=5, objects=4)
    for s in range(25):
        for a, move in enumerate((*MOVES, (0, 0))):
            np.testing.assert_allclose(world.mdp.dense()[s, a], by_hand(5, s % 5, s // 5, move))
    # One object of each outer colour in a row: 1 near both, -1 near the first alone.
    worth = lab.object_worth(9, np.array([0, 4]), np.array([0, 1]))
    assert worth[:9].tolist() == [-1.0, -1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    # Paid on arrival over a discount: the same advantages as the worth of the cell.
    cells = world.reward_weights * 0.9
    arrival = tacit.Objective(np.einsum("sat,t->sa", world.mdp.dense(), cells))
    one, other = (tacit.solve(world.mdp, o).values for o in (arrival, world.truth))
    np.testing.assert_allclose(one, other - cells / 0.9, atol=1e-9)


def test_the_recorded_objectworld_is_the_published_one(data):
    world = lab.recorded_objectworld(4, folder=data)
    seen = world.demonstrations[0]
    assert (world.mdp.states, world.mdp.actions, seen.episodes, seen.steps) == (1024, 5, 4, 32)
    assert sorted(set((world.reward_weights * 0.9).round(9))) == [-1.0, 0.0, 1.0]
    counts = seen.counts(world.mdp)
    visited = counts.sum(axis=1) > 0
    cloned = counts[visited] / counts[visited].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(world.tables["cloned_policy"][visited], cloned, atol=1e-12)
    check_possible(world.mdp, seen)
    with pytest.raises(tacit.InvalidModel, match="trajectories must be one of"):
        lab.recorded_objectworld(5, folder=data)


def test_the_nine_by_nine_grid_and_its_sets(data):
    world = lab.recorded_nine_by_nine(folder=data)
    mdp = world.mdp
    assert (mdp.discount, mdp.ends.nonzero()[0].tolist()) == (1.0, [8])
    reward, costs = world.truth.tables(mdp)
    assert reward[3].tolist() == [-4.0] * 8
    assert reward[8].tolist() == [10.0] * 8
    assert [s.episodes for s in world.demonstrations] == [100] * 10
    for seen in world.demonstrations:
        check_possible(mdp, seen)
        # No demonstration does what is forbidden.
        assert (seen.counts(mdp) * costs[0]).sum() == 0
    # The shortest allowed way: 14 steps of 4 and 10 for the goal.
    assert tacit.solve(mdp, world.truth).value == pytest.approx(10 - 14 * 4)


def test_buses_of_unknown_groups(data):
    with pytest.raises(tacit.InvalidModel, match="groups must be of"):
        lab.recorded_buses([77], folder=data)


def test_demonstrators_of_three_by_three_keep_the_limits():
    world = lab.three_by_three(4)
    assert len(world.truth.budgets) == 2
    assert sum(w.sum() for w in world.cost_weights) == 3
    rewards = lab.demonstrator_rewards(world, 3, seed=1)
    assert rewards.shape == (3, 9)
    other = lab.demonstrator_rewards(world, 3, seed=1, same=False)
    assert (other[:, sum(world.cost_weights) > 0] == 0).all()
    windy = lab.three_by_three(4, random_actions=0.2).mdp.dense()
    np.testing.assert_allclose(windy[4, 4], 0.8 * np.eye(9)[4] + 0.2 * windy[4].mean(axis=0))
    found = tacit.solve(world.mdp, world.truth)
    assert (found.spent <= world.truth.budgets + 1e-9).all()


@pytest.mark.parametrize("make", FRESH)
def test_fresh_draws_differ_by_seed_and_come_again(make):
    drawn = [make(seed) for seed in range(3)]
    for world in drawn:
        again = eval(repr(world), {"tacit": tacit, "tacit_lab": tacit_lab})
        assert np.array_equal(again.truth.reward, world.truth.reward)
        assert np.array_equal(again.truth.costs, world.truth.costs)
        made = world.features.objective(
            world.reward_weights, world.cost_weights, world.truth.budgets
        )
        assert np.array_equal(made.reward, world.truth.reward)
    assert all(
        not (
            np.array_equal(a.truth.reward, b.truth.reward)
            and np.array_equal(a.truth.costs, b.truth.costs)
        )
        for a, b in pairwise(drawn)
    )
    solver = tacit.SoftDual(1.0) if make is lab.six_by_six else tacit.ColumnGeneration()
    found = tacit.solve(drawn[0].mdp, drawn[0].truth, solver=solver)  # its budgets can be kept
    assert found.status is tacit.Status.CONVERGED


def test_bad_input_is_one_line(monkeypatch, tmp_path):
    monkeypatch.delenv("TACIT_DATA", raising=False)
    for call, words in [
        (lambda: lab.walls(5), "walls are numbered"),
        (lambda: lab.objectworld(0, size=2, objects=9), "objects must fit"),
        (lambda: lab.six_by_six(noise=2), "wind must be a probability"),
        (lambda: lab.three_by_three(random_actions=-1), "random_actions"),
        (lambda: lab.buses([0.5, 0.6]), "usage must be a distribution"),
        (lab.recorded_buses, "TACIT_DATA"),
        (lambda: lab.recorded_objectworld(folder=tmp_path), "must hold a folder objectworld"),
    ]:
        with refusal(tacit.InvalidModel, match=words):
            call()
