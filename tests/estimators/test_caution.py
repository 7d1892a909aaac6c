"""What to deploy: what a cautious objective allows, all that the data leave possible allows."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tacit
from experts import grid
from kinds import told
from tacit.cli import main
from tacit.estimators.doubts import Ellipsoid, box_corners, spread_directions
from tacit.inference.findings import Kind


@pytest.fixture(scope="module")
def noisy():
    """The recovery of a noisy expert on the grid, from few steps."""
    world = grid(3)
    noise = 0.05 * float(np.ptp(world.truth.reward))
    policy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(noise)).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=60, steps=50, seed=3)
    return world, tacit.Likelihood().fit(world.mdp, world.features, seen, throw=False)


@pytest.fixture(scope="module")
def optimal():
    """The recovery of an optimal expert on the same grid."""
    world = grid(3)
    policy = tacit.solve(world.mdp, world.truth).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=100, steps=60, seed=3)
    return world, tacit.Explanation().fit(world.mdp, world.features, seen)


def other_world(slip: float) -> tacit.MDP:
    return tacit.worlds.hill_grid(seed=3, tightness=0.5, slip=slip).mdp


def over(world, mdp, objective) -> float:
    """By what the best policy for an objective exceeds the true budget, relative to it."""
    _, costs = world.truth.tables(mdp)
    spent = np.tensordot(costs, tacit.solve(mdp, objective).visitation, 2)
    return float(((spent - world.truth.budgets) / world.truth.budgets).max())


# --- the geometry, as inequalities ----------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 8])
def test_mixtures_of_the_directions_hold_the_ball(size):
    sides, stretch = spread_directions(size)
    assert_allclose(np.linalg.norm(sides, axis=1), 1.0)
    ways = np.random.default_rng(size).standard_normal((500, size))
    # A polytope holds the ball if and only if it reaches as far along every direction.
    reach = stretch * (ways @ sides.T).max(axis=1)
    assert (reach >= np.linalg.norm(ways, axis=1) * (1 - 1e-9)).all()


@pytest.mark.parametrize("size", [2, 4, 7])
def test_corners_of_a_box_hold_all_weights_within(size):
    rng = np.random.default_rng(size)
    inside = rng.dirichlet(np.ones(size), 300)
    ends = np.stack([inside.min(axis=0), inside.max(axis=0)], axis=1)
    corners = box_corners(ends)
    assert_allclose(corners.sum(axis=1), 1.0)
    ways = rng.standard_normal((200, size))
    assert ((ways @ corners.T).max(axis=1) >= (ways @ inside.T).max(axis=1) - 1e-9).all()
    if size <= 5:  # and are within themselves
        assert (corners >= ends[:, 0] - 1e-9).all()
        assert (corners <= ends[:, 1] + 1e-9).all()


def test_the_worst_row_is_the_worst_and_corners_imply_it():
    rng = np.random.default_rng(0)
    point, axes = np.array([3.0, 2.0, 4.0]), 0.3 * rng.standard_normal((3, 3))
    doubt = Ellipsoid(point, axes, 2.0)
    z = rng.standard_normal((2000, 3))
    inside = point + 2.0 * (z / np.linalg.norm(z, axis=1, keepdims=True)) @ axes.T
    corners = doubt.corners()
    kept = 0
    for spent in rng.uniform(0, 1.5, (300, 2)):
        breaks = inside[:, :-1] @ spent - inside[:, -1]
        worst = doubt.worst(spent, 1.0)
        gap = worst[:-1] @ spent - worst[-1]
        assert gap >= breaks.max() - 1e-9
        assert gap <= breaks.max() + 0.2  # and it is one of them: 2000 draws come near
        if (corners[:, :-1] @ spent <= corners[:, -1]).all():
            kept += 1
            assert gap <= 1e-9
    assert 20 < kept < 280  # the check could have failed


# --- recoveries -----------------------------------------------------------------------------------


@pytest.mark.parametrize("expert", ["noisy", "optimal"])
def test_true_budgets_are_kept_in_another_world(expert, request):
    world, found = request.getfixturevalue(expert)
    mdp = other_world(0.1)
    assert over(world, mdp, found.objective) > 0.005  # the plain one breaks them
    here, anywhere = found.cautious(mdp), found.cautious()
    assert over(world, mdp, here) <= 0.0
    assert over(world, mdp, anywhere) <= 0.0
    assert here.share == anywhere.share == 1.0
    # What it costs is a number anyone can check, and being ready for any world costs no less.
    assert here.value == pytest.approx(tacit.solve(mdp, here).value, rel=1e-9)
    assert here.plain_value == pytest.approx(tacit.solve(mdp, found.objective).value, rel=1e-9)
    assert here.reward_lost > 0
    assert tacit.solve(mdp, anywhere).value <= here.value + 1e-9
    assert told(here.findings, Kind.NOTE)[0].about.number == here.reward_lost
    assert np.isnan(anywhere.reward_lost)
    assert repr(anywhere).startswith(f"Caution(for any world: rows={len(anywhere.budgets)}, ")
    assert f"reward_lost={here.reward_lost:.4g}" in repr(here)
    assert len(repr(here)) < 120  # no arrays


def test_more_confidence_allows_less(noisy):
    _, found = noisy
    mdp = other_world(0.1)
    values = [found.cautious(mdp, confidence=c).value for c in (0.5, 0.9, 0.99)]
    assert values[0] > values[1] > values[2]


def test_what_cannot_be_met_is_met_in_part_and_said(noisy):
    _, found = noisy
    mdp = other_world(0.42)
    caution = found.cautious(mdp)
    assert 0.0 < caution.share < 1.0
    assert told(caution.findings, Kind.UNATTAINABLE)[0].about.number == caution.share
    assert caution.excess == 0.0


def test_budgets_that_no_policy_keeps_are_raised_no_more_than_need_be(noisy):
    _, found = noisy
    mdp = other_world(0.7)
    with pytest.raises(tacit.Infeasible):  # not even without any doubt
        tacit.solve(mdp, found.objective)
    caution = found.cautious(mdp)
    assert caution.share == 0.0
    _, costs = found.objective.tables(mdp)
    least = -tacit.solve(mdp, tacit.Objective(-costs[0])).value  # an unconstrained problem
    assert caution.budgets[0] == pytest.approx(least, rel=1e-6)
    assert caution.excess == pytest.approx(least / found.budgets[0] - 1.0, rel=1e-5)
    assert caution.excess > 0.01
    assert told(caution.findings, Kind.UNATTAINABLE)[0].about.number == caution.excess
    assert tacit.solve(mdp, caution).value == pytest.approx(caution.value)
    assert np.isnan(caution.plain_value)


def test_made_for_any_world_it_says_so(noisy):
    _, found = noisy
    assert told(found.cautious().findings, Kind.ASSUMED)
    assert not told(found.cautious(other_world(0.1)).findings, Kind.ASSUMED)


def test_a_constraint_that_may_be_idle_allows_what_was_spent(noisy):
    _, found = noisy
    known = found.identification
    idle = replace(
        found,
        multipliers=np.zeros(1),
        cost_weights=[np.full(4, np.nan)],
        budgets=np.array([np.inf]),
        identification=replace(known, cost_intervals=[np.full((4, 2), np.nan)]),
    )
    caution = idle.cautious()
    assert_array_equal(np.array(caution.weights), np.eye(4))
    assert (caution.budgets < found.spending.means[0]).all()
    assert told(caution.findings, Kind.INACTIVE)[0].about.constraint == 0


def test_doubt_added_later_makes_it_more_cautious(noisy):
    _, found = noisy
    known = found.identification
    doubled = replace(known, budget_standard_errors=2.0 * known.budget_standard_errors)
    mdp = other_world(0.1)
    assert replace(found, identification=doubled).cautious(mdp).value < found.cautious(mdp).value


@pytest.mark.parametrize("expert", ["noisy", "optimal"])
def test_a_saved_recovery_is_as_cautious(expert, request, tmp_path):
    _, found = request.getfixturevalue(expert)
    found.save(tmp_path / "run")
    again = tacit.Recovery.load(tmp_path / "run").cautious(other_world(0.1))
    assert_allclose(again.budgets, found.cautious(other_world(0.1)).budgets, rtol=1e-9)


def test_bad_requests_are_one_line(noisy):
    _, found = noisy
    with pytest.raises(tacit.InvalidModel, match="confidence"):
        found.cautious(confidence=1.0)
    with pytest.raises(tacit.InvalidModel, match="spends"):
        replace(found, spending=None).cautious()
    with pytest.raises(tacit.InvalidModel, match="trips of one goal"):
        replace(found, solution=None).cautious()  # as a recovery from trips has none


def test_the_commands_deploy_it(tmp_path, capsys):
    options = ["--tightness", "0.5", "--temperature", "2e-4"]
    shape = ["--trajectories", "60", "--steps", "50", "--quiet"]
    seen, run, new = (str(tmp_path / name) for name in ("seen", "run", "new"))
    assert main(["simulate", "hill-grid", "--out", seen, *options, *shape]) == 0
    assert main(["simulate", "hill-grid", "--out", new, "--slip", "0.1", *options, *shape]) == 0
    assert main(["recover", seen, "--out", run, "--no-report", "--quiet"]) == 0
    answers = []
    for more in ([], ["--cautious"]):
        assert main(["solve", new, "--recovered", run, *more, "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[1]["value"] < answers[0]["value"]
    assert answers[1]["findings"][-1]["kind"] == "NOTE"
    assert main(["solve", new, "--cautious"]) == 2
    assert "--recovered" in capsys.readouterr().err


def test_weights_that_a_bound_holds_are_doubted_too():
    """Weights of 0 have no standard error: their intervals say how large they may be."""
    world = tacit.worlds.hill_grid(seed=16, tightness=0.5).in_gauge
    noise = 0.05 * float(np.ptp(world.truth.tables(world.mdp)[0]))
    policy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(noise)).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=60, steps=50, seed=16)
    found = tacit.Likelihood(seed=16).fit(world.mdp, world.features, seen, throw=False)
    assert not np.isfinite(found.identification.cost_standard_errors[0]).all()
    other = tacit.worlds.hill_grid(seed=16, tightness=0.5, slip=0.1).mdp
    _, costs = world.truth.tables(other)

    def over(objective: tacit.Objective) -> float:
        spent = np.tensordot(costs, tacit.solve(other, objective).visitation, 2)
        return float((spent / world.truth.budgets - 1.0).max())

    assert over(found.objective) > 0.05  # as the cautious objective did, which took zeros as known
    assert over(found.cautious(other)) < 1e-6
    assert over(found.cautious()) < 1e-6
