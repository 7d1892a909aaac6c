"""Doubt about estimated dynamics widens the answer, and the wider intervals keep their promise."""

import numpy as np
import pytest

import oracles
import tacit
from tacit import MDP, InvalidModel
from tacit.checks.dynamics import dynamics_uncertainty
from tacit.inverse.findings import Kind


def expert(seed: int, constraints: int = 0, temperature: float = 0.05):
    """A small random world whose features are of states, and the policy of its noisy expert."""
    world = tacit.worlds.random(
        seed,
        states=6,
        actions=3,
        constraints=constraints,
        features=2 if constraints else 3,
        successors=3,
        by_action=False,
        tightness=0.5 if constraints else None,
    )
    reward, costs = world.truth.tables(world.mdp)
    table = (reward - 0.5 * costs.sum(axis=0)) / temperature
    return world, oracles.soft_values(world.mdp, table, 1.0)[1]


def explored(world, steps: int, seed: int) -> MDP:
    """The world as known from a walk of random actions."""
    random = np.full((world.mdp.states, world.mdp.actions), 1.0 / world.mdp.actions)
    walk = tacit.simulate(world.mdp, random, trajectories=1, steps=steps, seed=seed)
    return MDP.from_transitions(
        walk, n_states=6, n_actions=3, discount=0.9, initial=world.mdp.initial
    )


def covered(ends: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return (ends[:, 0] <= truth) & (truth <= ends[:, 1])


def test_widened_intervals_cover_the_truth_where_plain_ones_do_not():
    plain, wide = [], []
    for seed in range(20):
        world, policy = expert(seed)
        seen = tacit.simulate(world.mdp, policy, trajectories=50, steps=40, seed=seed)
        found = dynamics_uncertainty(
            explored(world, 150, 1000 + seed),
            world.features,
            seen,
            estimator=tacit.Likelihood(),
            draws=10,
            seed=seed,
        )
        for recovery, kept in ((found.plain, plain), (found.recovery, wide)):
            kept.append(covered(recovery.identification.reward_intervals, world.reward_weights))
    # Of 60 weights about 27 % and 97 % are covered; 95 % promised, less four standard errors.
    assert np.mean(plain) < 0.6
    assert np.mean(wide) > 0.84


def test_more_steps_behind_the_dynamics_leave_less_doubt():
    world, policy = expert(1)
    seen = tacit.simulate(world.mdp, policy, trajectories=50, steps=40, seed=0)
    moved = [
        dynamics_uncertainty(
            explored(world, steps, 3), world.features, seen, estimator=tacit.Likelihood(), draws=8
        ).reward_deviations.max()
        for steps in (200, 20_000)
    ]
    assert moved[1] < moved[0] / 3  # a hundred times the steps: ten times less, on average


def test_every_interval_grows_and_the_finding_is_said():
    world, policy = expert(4, constraints=1)
    seen = tacit.simulate(world.mdp, policy, trajectories=60, steps=60, seed=2)
    mdp = explored(world, 2000, 5)
    estimator = tacit.Likelihood(level=1.0)
    plain = tacit.recover(mdp, world.features, seen, estimator=estimator)
    found = dynamics_uncertainty(
        mdp, world.features, seen, estimator=estimator, recovery=plain, draws=6
    )
    assert found.plain is plain
    assert found.draws + found.failed == 6
    before, after = plain.identification, found.recovery.identification
    for kind in ("reward", "multiplier", "budget", "cost"):
        for name in (f"{kind}_intervals", f"{kind}_standard_errors"):
            pair = [getattr(known, name) for known in (before, after)]
            old, new = (part[0] if kind == "cost" else part for part in pair)
            assert np.array_equal(np.isnan(old), np.isnan(new))
            if name.endswith("errors"):
                assert (new >= old)[np.isfinite(old)].all()
            else:
                assert (new[:, 0] <= old[:, 0] + 1e-12)[np.isfinite(old[:, 0])].all()  # rounding
                assert (new[:, 1] >= old[:, 1] - 1e-12)[np.isfinite(old[:, 1])].all()
    variance = before.reward_standard_errors**2 + found.reward_deviations**2
    known = np.isfinite(variance)
    assert known.any()
    assert np.allclose(after.reward_standard_errors[known] ** 2, variance[known], rtol=1e-12)
    assert after.findings == (found.finding, *before.findings)
    assert (found.finding.kind, found.draws) == (Kind.ERRORS, 6)
    assert (after.reward_intervals >= 0).all()
    assert (after.reward_intervals <= 1).all()
    assert np.array_equal(found.recovery.reward_weights, plain.reward_weights)


def test_the_same_seed_gives_the_same_bits():
    world, policy = expert(0)
    seen = tacit.simulate(world.mdp, policy, trajectories=10, steps=20, seed=0)
    mdp = explored(world, 300, 1)
    runs = [dynamics_uncertainty(mdp, world.features, seen, draws=3, seed=s) for s in (7, 7, 8)]
    assert np.array_equal(runs[0].reward_deviations, runs[1].reward_deviations)
    assert not np.array_equal(runs[0].reward_deviations, runs[2].reward_deviations)


def test_known_dynamics_and_too_few_draws_are_refused():
    world, policy = expert(0)
    seen = tacit.simulate(world.mdp, policy, trajectories=5, steps=5)
    with pytest.raises(InvalidModel, match="dynamics of this MDP are given, not estimated"):
        dynamics_uncertainty(world.mdp, world.features, seen)
    with pytest.raises(InvalidModel, match="draws must be an integer, 2 or more; got 1"):
        dynamics_uncertainty(explored(world, 300, 1), world.features, seen, draws=1)
