"""Findings: what data and features leave open, before and whatever the estimator."""

import copy
import itertools
import pickle
from collections.abc import Sequence

import numpy as np
import pytest

import tacit
from experts import drawn, grid, hill_expert, pairs, spread_visits
from kinds import fields, told
from tacit import MDP, Demonstrations, Features
from tacit.estimators.likelihood import Likelihood
from tacit.inference.findings import (
    Finding,
    Kind,
    blind_findings,
    data_findings,
    feature_findings,
    row_findings,
    single_minded,
)
from tacit.model.features.design import Design

NAMES = {"reward_names": ("a", "b"), "cost_names": [("c", "d")]}


def features(seed: int = 0, actions: int | None = None) -> Features:
    rng = np.random.default_rng(seed)
    shape = (6, 2) if actions is None else (6, actions, 2)
    return Features(rng.random(shape), [rng.random(shape)], **NAMES)


def changed(given: Features, kind: str, column: int, values) -> Features:
    reward, cost = given.reward.copy(), given.costs[0].copy()
    (reward if kind == "reward" else cost)[..., column] = values
    return Features(reward, [cost], given.reward_names, given.cost_names)


@pytest.mark.parametrize("actions", [None, 3])
def test_ordinary_features_are_not_talked_about(actions):
    assert feature_findings(features(actions=actions)) == []


@pytest.mark.parametrize("value", [0.0, 1.0, -3e8, 2e-9])
def test_a_feature_that_is_the_same_everywhere_is_named(value):
    (said,) = feature_findings(changed(features(), "cost", 1, value))
    assert (said.kind, said.about.feature) == (Kind.NOT_IDENTIFIED, "d")


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e6, 0.0), (-1e-6, 0.3), (2.0, 1e3)])
def test_a_feature_in_both_maps_is_found_whatever_its_units(scale, shift):
    given = features()
    said = feature_findings(changed(given, "cost", 0, scale * given.reward[:, 1] + shift))
    assert len(said) == len(told(said, Kind.NOT_IDENTIFIED, feature="b")) == 1


def test_a_state_feature_beside_one_of_actions_is_compared_as_such():
    given = features(actions=3)
    state = np.repeat(np.arange(6.0)[:, None], 3, axis=1)
    copied = changed(given, "reward", 0, state)
    both = Features(copied.reward, [np.stack([np.arange(6.0), np.ones(6)], axis=1)], **NAMES)
    said = feature_findings(both)
    assert told(said, Kind.NOT_IDENTIFIED, feature="d")
    assert told(said, Kind.NOT_IDENTIFIED, feature="a")


def test_two_constants_are_not_called_copies_of_each_other():
    given = changed(changed(features(), "reward", 0, 1.0), "cost", 0, 2.0)
    said = feature_findings(given)
    assert [one.about.feature for one in said] == ["a", "c"]


def steps(counts) -> Demonstrations:
    return pairs(np.array(counts))


def test_unvisited_states_are_counted():
    mdp = MDP(np.full((4, 2, 4), 0.25), np.full(4, 0.25), 0.9)
    (said,) = data_findings(mdp, steps([[3, 4], [0, 0], [2, 2], [0, 0]]))
    assert (said.kind, said.about.number) == (Kind.ASSUMED, 2)
    assert data_findings(mdp, steps([[3, 4], [1, 1], [2, 2], [5, 3]])) == []


def test_an_expert_who_always_does_the_same_looks_deterministic():
    mdp = MDP(np.full((3, 2, 3), 1 / 3), np.full(3, 1 / 3), 0.9)
    (said,) = data_findings(mdp, steps([[50, 0], [0, 30], [20, 0]]))
    assert (said.kind, said.about.number) == (Kind.DETERMINISTIC, 1.0)
    assert data_findings(mdp, steps([[50, 0], [15, 15], [20, 0]])) == []


def test_one_action_is_no_choice():
    mdp = MDP(np.full((2, 1, 2), 0.5), [0.5, 0.5], 0.9)
    (said,) = data_findings(mdp, steps([[50], [20]]))
    assert said.kind is Kind.NOT_IDENTIFIED


def test_single_minded_looks_at_states_with_enough_visits_only():
    assert single_minded(np.array([[4.0, 0.0], [2.0, 2.0]])) == 0.0  # nothing was seen often
    assert single_minded(np.array([[10.0, 0.0], [4.0, 0.0], [5.0, 5.0]])) == 0.5
    # Once in a hundred is a slip of the hand.
    assert single_minded(np.array([[99.0, 1.0]])) == 1.0
    assert single_minded(np.array([[98.0, 2.0]])) == 0.0


def test_blind_directions_are_said_pair_by_pair():
    space = Design.of(grid().mdp, grid().features)
    names = space.names
    pairs_of = np.array([[1, -1, 0, 0, 0, 0], [0, 0, 0, 2, 0, 1.0]]) / 2
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    for rows in (pairs_of, turn @ pairs_of):
        said = blind_findings(space.names, rows)
        assert len(said) == 2
        for i, j in ((0, 1), (3, 5)):
            assert any(s.startswith(f"{names[i]} and {names[j]} trade off freely") for s in said)
    assert blind_findings(space.names, np.zeros((0, 6))) == []
    # The same direction twice, or none at all, is not a second one.
    assert (
        len(blind_findings(space.names, np.stack([pairs_of[0], -2 * pairs_of[0], np.zeros(6)])))
        == 1
    )
    alone = blind_findings(space.names, np.eye(6)[2:3])
    assert alone[0].startswith(f"{names[2]} cannot be told from these demonstrations")


def test_a_long_list_of_names_is_cut():
    mdp = MDP(np.full((9, 2, 9), 1 / 9), np.full(9, 1 / 9), 0.9)
    space = Design.of(mdp, Features(np.eye(9)))
    (said,) = blind_findings(space.names, np.ones((1, 9)))
    assert said.startswith("reward feature 0, reward feature 1, reward feature 2, ")
    assert "reward feature 4 and 4 more trade off freely" in said


def test_a_feature_copied_into_both_maps_is_reported_by_the_estimator():
    world = grid()
    hill = world.features.costs[0][:, :1]
    copied = Features(
        np.concatenate([world.features.reward, 40.0 * hill + 3.0], axis=1),
        [np.concatenate([world.features.costs[0], np.zeros((25, 1))], axis=1)],
        ("row", "column", "the copy"),
        [("hill", "b", "c", "d", "nothing")],
    )
    policy, visitation = hill_expert()
    counts = drawn(np.random.default_rng(0), policy, spread_visits(visitation, 20_000))
    recovery = Likelihood().fit(world.mdp, copied, pairs(counts))
    known = recovery.identification
    assert told(known.findings, Kind.NOT_IDENTIFIED, feature="the copy")
    # Wanting it more and refusing it more cancel: neither has an upper limit short of all there is.
    assert known.reward_intervals[2] == pytest.approx([0.0, 1.0], abs=1e-3)
    assert known.cost_intervals[0][0, 1] == pytest.approx(1.0, abs=1e-3)
    assert known.reward_intervals[0, 0] == pytest.approx(0.0, abs=1e-3)
    # What is known stays known: the price of the rest, in units of the reward it stands beside.
    plain = Likelihood().fit(world.mdp, world.features, pairs(counts))
    ours, theirs = recovery.cost_weights[0][1:4], plain.cost_weights[0][1:]
    np.testing.assert_allclose(ours / ours.sum(), theirs / theirs.sum(), rtol=1e-4)
    np.testing.assert_allclose(recovery.solution.policy, plain.solution.policy, atol=1e-6)


# Names that read like our own sentences, and like markup.
PHRASES = (
    "active",
    "not identified",
    "cannot be told",
    "picked fruit",
    "trivial pursuit",
    "never visited",
    "<b>may be inactive</b>",
    "the \"reward alone\" & 'no intervals'",
)


def renamed(given: Features, names: Sequence[str]) -> Features:
    """The same features, called by these names in turn."""
    pool = itertools.cycle(names)
    costs = [[next(pool) for _ in part] for part in given.cost_names]
    return Features(given.reward, given.costs, [next(pool) for _ in given.reward_names], costs)


@pytest.mark.parametrize(
    "estimator",
    [Likelihood(), tacit.Convex(), tacit.Explanation(), tacit.Alternating(starts=2, max_steps=30)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_kinds_and_fields_do_not_depend_on_names(estimator):
    world = tacit.worlds.hill_grid(0, tightness=0.5)
    constant = np.ones((25, 1))
    given = Features(
        np.concatenate([world.features.reward, constant], axis=1),
        [np.concatenate([world.features.costs[0], world.features.reward[:, :1]], axis=1)],
        ["a", "b", "c"],
        [["d", "e", "f", "g", "h"]],
    )
    policy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.005)).policy
    walks = tacit.simulate(world.mdp, policy, trajectories=20, steps=100, seed=1)
    plain = estimator.fit(world.mdp, given, walks, throw=False).identification.findings
    assert told(plain, Kind.NOT_IDENTIFIED, feature="c")
    for names in (PHRASES, PHRASES[::-1]):
        other = estimator.fit(world.mdp, renamed(given, names), walks, throw=False)
        assert fields(other.identification.findings) == fields(plain)


def test_kinds_of_a_check_do_not_depend_on_names():
    world = tacit.worlds.hill_grid(0, tightness=0.5)
    policy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.005)).policy
    walks = tacit.simulate(world.mdp, policy, trajectories=20, steps=100, seed=1)
    told_by = [
        tacit.checks.discount_profile(world.mdp, given, walks, [0.8, 0.9], estimator=Likelihood())
        for given in (world.features, renamed(world.features, PHRASES))
    ]
    assert fields(told_by[0].sentences) == fields(told_by[1].sentences)


def test_a_finding_survives_a_copy_and_a_trip_to_another_process():
    one = Finding("b is active", Kind.INACTIVE, constraint=2, feature="b", number=0.5)
    for again in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert (again, again.kind, again.about) == (one, one.kind, one.about)


def test_missing_measurements_and_rows_without_a_successor_are_counted():
    rows = np.arange(12.0).reshape(6, 2)
    rows[[0, 3], 1] = np.nan
    pairs = [(rows[:3], [0, 1, 0]), (rows[3:], [1, 1])]
    seen = tacit.Measurements.from_trajectories(pairs, columns=("sbp", "lactate"))
    lost, cut = row_findings(seen)
    assert (lost.kind, lost.about.number) == (Kind.DATA, 2)
    assert "lactate (2)" in lost
    assert "sbp" not in lost
    assert (cut.kind, cut.about.number) == (Kind.DATA, 1)
    whole = tacit.Measurements.from_trajectories([(rows[1:3], [0])])
    assert row_findings(whole) == []
    ended = tacit.Measurements.from_trajectories([(rows[1:3], [0, 1])], ended=[True])
    assert row_findings(ended) == []
