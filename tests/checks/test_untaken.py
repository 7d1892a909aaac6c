"""Actions that nobody took: proposed as unavailable where a fit expects them, not silently."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.errors import InvalidDemonstrations, InvalidModel

PHI = np.random.default_rng(1).uniform(size=(16, 2))
TRUTH = tacit.Objective(PHI @ [0.7, 0.3], np.zeros((0, 16)), np.zeros(0))
FEATURES = tacit.Features(PHI, (), ["food", "rest"])


def walks(mdp: tacit.MDP, seed: int, trajectories: int = 60) -> tacit.Demonstrations:
    """Walks of somebody who likes the features 0.7 to 0.3."""
    expert = tacit.solve(mdp, TRUTH, solver=tacit.SoftDual(temperature=0.3))
    return tacit.simulate(mdp, expert.policy, trajectories=trajectories, steps=50, seed=seed)


def doors(seed: int) -> np.ndarray:
    """[S, A] bool, every pair but one in each of six states."""
    random = np.random.default_rng(seed)
    there = np.ones((16, 4), bool)
    there[random.choice(16, 6, replace=False), random.integers(0, 4, 6)] = False
    return there


@pytest.fixture(scope="module")
def world() -> tacit.MDP:
    """A grid in which every action is available everywhere."""
    mdp = tacit.worlds.hill_grid(seed=0, size=4).mdp
    assert (mdp.states, mdp.actions) == (16, 4)
    assert mdp.available.all()
    return mdp


@pytest.mark.parametrize("seed", range(4))
def test_actions_that_are_not_there_are_proposed_with_what_they_are_worth(world, seed):
    there = doors(seed)
    seen = walks(replace(world, available=there), seed)
    counts = seen.counts(world)
    recovery = tacit.recover(world, FEATURES, seen, estimator=tacit.Likelihood())
    found = tacit.checks.untaken_actions(world, seen, recovery)
    assert not (found.pairs & there).any()
    assert (found.pairs | there)[counts.sum(axis=1) > 60].all()  # 4 actions, often visited
    assert found.untaken == ((counts == 0) & (counts.sum(axis=1, keepdims=True) > 0)).sum()
    # By hand: the policy without these pairs, renormalised.
    policy = recovery.solution.policy
    rest = np.where(found.pairs, 0.0, policy)
    rest /= rest.sum(axis=1, keepdims=True)
    taken = counts > 0
    by_hand = (counts[taken] * np.log(rest[taken] / policy[taken])).sum()
    assert found.gain == pytest.approx(by_hand)
    assert found.expected == pytest.approx((counts.sum(axis=1) @ (policy * found.pairs)).sum())
    [told] = found.findings()
    assert told.kind is tacit.Kind.ASSUMED
    assert told.about.number == pytest.approx(found.gain / seen.steps)
    closed = found.close(world)
    assert (closed.available == ~found.pairs).all()
    again = tacit.recover(closed, FEATURES, seen, estimator=tacit.Likelihood())
    assert again.log_likelihood - recovery.log_likelihood > 0.8 * found.gain
    low, high = again.identification.reward_intervals[0]
    assert low - 0.1 < 0.7 < high + 0.1
    assert not tacit.checks.untaken_actions(closed, seen, again).pairs.any()


def test_nothing_is_proposed_where_all_is_available(world):
    wrong = 0
    for seed in range(20):
        # So few visits that chance leaves many pairs untaken.
        seen = walks(world, 100 + seed, trajectories=6)
        recovery = tacit.recover(world, FEATURES, seen, estimator=tacit.Likelihood())
        found = tacit.checks.untaken_actions(world, seen, recovery)
        wrong += bool(found.pairs.any())
        assert len(found.findings()) == bool(found.pairs.any())
    assert wrong <= 3  # more than 3 of 20 at 5 % has chance 0.016


def test_the_diagnosis_names_actions_that_are_not_there(world):
    seen = walks(replace(world, available=doors(0)), 0)
    told = tacit.checks.diagnose(world, FEATURES, seen)
    row = told.contradicted[0]
    assert row.alternative == "untaken actions closed"
    found = tacit.checks.untaken_actions(
        world, seen, tacit.recover(world, FEATURES, seen, estimator=tacit.Likelihood())
    )
    assert row.extra == found.pairs.sum()
    fits = [
        tacit.recover(mdp, FEATURES, seen, estimator=tacit.Likelihood())
        for mdp in (world, found.close(world))
    ]
    assert row.gain == pytest.approx(fits[1].log_likelihood - fits[0].log_likelihood, rel=1e-4)
    plain = tacit.checks.diagnose(world, FEATURES, walks(world, 0))
    assert "untaken actions closed" not in {one.alternative for one in plain.rows}


def test_counted_rows_that_are_closed_are_no_longer_uncertain(world):
    there = doors(1)
    seen = walks(replace(world, available=there), 1)
    counted = tacit.MDP.from_transitions(seen, discount=0.9, n_states=16, n_actions=4)
    recovery = tacit.recover(counted, FEATURES, seen, estimator=tacit.Likelihood())
    found = tacit.checks.untaken_actions(counted, seen, recovery)
    closed = found.close(counted)
    assert found.pairs.any()
    assert np.isinf(closed.evidence.concentration[found.pairs]).all()
    known = tacit.MDP.from_transitions(
        seen, discount=0.9, n_states=16, n_actions=4, available=~found.pairs
    )
    table = closed.transitions
    assert (table.probabilities[found.pairs] == 0).all()
    assert np.array_equal(known.evidence.concentration, closed.evidence.concentration)


def test_only_a_noisy_demonstrator_leaves_actions_to_chance(world):
    seen = walks(world, 0)
    recovery = tacit.recover(world, FEATURES, seen, estimator=tacit.Likelihood())
    with pytest.raises(InvalidModel, match="noisy"):
        tacit.checks.untaken_actions(world, seen, replace(recovery, temperature=0.0))
    weighted = replace(seen, weights=np.full(seen.steps, 0.5))
    with pytest.raises(InvalidDemonstrations, match="sampling weights"):
        tacit.checks.untaken_actions(world, weighted, recovery)


def test_the_command_proposes_and_closes_only_where_asked(world, tmp_path, capsys):
    there = doors(0)
    seen = walks(replace(world, available=there), 0)
    seen = replace(seen, groups=np.where(np.arange(seen.episodes) % 2, "a", "b"))
    tacit.runs.Problem(world, FEATURES, seen).save(tmp_path / "problem")
    words = ["recover", str(tmp_path / "problem"), "--estimator", "likelihood", "--json"]
    assert main([*words, "--out", str(tmp_path / "plain"), "--no-report"]) == 0
    plain = json.loads(capsys.readouterr().out)
    [proposal] = [one for one in plain["findings"] if "--close-untaken" in one["sentence"]]
    assert proposal["about"]["number"] > 0.01
    assert tacit.Recovery.load(tmp_path / "plain").solution.policy.min() > 0
    closing = [*words, "--close-untaken"]
    assert main([*closing, "--out", str(tmp_path / "closed")]) == 0
    closed = json.loads(capsys.readouterr().out)
    run = tacit.runs.Run.load(tmp_path / "closed")
    gone = run.recovery.solution.policy == 0
    assert gone.any()
    assert not (gone & there).any()
    gain = run.recovery.log_likelihood - tacit.Recovery.load(tmp_path / "plain").log_likelihood
    assert gain / seen.steps == pytest.approx(proposal["about"]["number"], rel=0.2)
    [told] = [
        one
        for one in closed["findings"]
        if one["about"].get("number") == gone.sum() and "--close-untaken" in one["sentence"]
    ]
    assert told["kind"] == "ASSUMED"
    # Groups are compared in one world: what neither of them took.
    by = ["--by", "group", "--no-report", "--out", str(tmp_path / "by")]
    assert main([*closing, *by]) == 0
    capsys.readouterr()
    for name in "ab":
        policy = tacit.Recovery.load(tmp_path / "by" / name).solution.policy
        assert np.array_equal(policy == 0, gone)
    closing[closing.index("likelihood")] = "mixture"
    assert main([*closing, "--out", str(tmp_path / "types")]) == 2
    assert "one type" in capsys.readouterr().out


def test_walls_of_the_labyrinth_are_found():
    """255 pairs of node and action that ten mice never took, all of them walls."""
    folder = Path(os.environ.get("TACIT_DATA", "")) / "labyrinth"
    if not folder.is_dir():
        pytest.skip("TACIT_DATA names no folder with labyrinth/")
    windows = np.load(folder / "emissions500new.npy").astype(int)
    table = np.load(folder / "trans_probs.npy")
    nodes = len(table)
    mdp = tacit.MDP(table, np.full(nodes, 1 / nodes), 0.95)
    flat, steps = windows.reshape(-1, 2), windows.shape[1]
    offsets = np.arange(len(windows) + 1) * steps
    partial = np.ones(len(windows), bool)
    seen = tacit.Demonstrations(flat[:, 0], flat[:, 1], offsets, partial=partial)
    depth = np.floor(np.log2(np.arange(nodes) + 1))
    reward = np.stack([np.arange(nodes) == 116, np.arange(nodes) == 0, depth == 6], axis=1)
    features = tacit.Features(reward.astype(float))
    estimator = tacit.Likelihood(free_reward=True)
    recovery = tacit.recover(mdp, features, seen, estimator=estimator, throw=False)
    found = tacit.checks.untaken_actions(mdp, seen, recovery)
    assert found.pairs.sum() == found.untaken == 255
    assert (table.argmax(axis=2) == np.arange(nodes)[:, None])[found.pairs].all()
    again = tacit.recover(found.close(mdp), features, seen, estimator=estimator, throw=False)
    gain = (again.log_likelihood - recovery.log_likelihood) / seen.steps
    assert gain == pytest.approx(0.441, abs=0.001)
    assert found.gain / seen.steps == pytest.approx(0.425, abs=0.001)
