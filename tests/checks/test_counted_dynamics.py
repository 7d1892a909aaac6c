"""Doubt about counted dynamics is in the tests and in the errors."""

from dataclasses import replace

import numpy as np
import pytest

import oracles
import tacit
from experts import grid, hill_expert
from tacit import MDP
from tacit.data.tally import Scatter
from tacit.inference import information
from tacit.inference.findings import Kind
from tacit.inference.goodness import Chances
from tacit.inference.information import clusters_of
from tacit.likelihood.steps import StepsEvidence


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


def taken(mdp: MDP) -> MDP:
    """The same world, its dynamics taken for known."""
    return replace(mdp, evidence=None)


def covered(ends: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return (ends[:, 0] <= truth) & (truth <= ends[:, 1])


def test_constraints_are_tested_with_the_doubt_about_the_dynamics():
    # The constraint is idle. Taken for known, dynamics from 150 steps raise alarms in half of the
    # worlds, and most reward weights are missed.
    alarms, missed = {True: 0, False: 0}, {True: 0, False: 0}
    for seed in (0, 1, 2, 4, 5, 6):
        world, _ = expert(seed, constraints=1)
        reward, _ = world.truth.tables(world.mdp)
        policy = oracles.soft_values(world.mdp, reward / 0.05, 1.0)[1]
        seen = tacit.simulate(world.mdp, policy, trajectories=50, steps=40, seed=seed)
        mdp, wanted = explored(world, 150, 1000 + seed), world.in_gauge.reward_weights
        for counted in alarms:
            given, estimator = mdp if counted else taken(mdp), tacit.Likelihood(seed=seed)
            known = estimator.fit(given, world.features, seen, throw=False).identification
            alarms[counted] += int(known.active[0])
            missed[counted] += int((~covered(known.reward_intervals, wanted)).sum())
            assert (known.dynamics is not None) == counted
    assert alarms[False] >= 2
    assert alarms[True] <= 1
    assert missed[False] >= 4
    assert missed[True] <= 2  # one world of six: its two weights sum to 1


def test_plain_recover_counts_the_dynamics_and_says_so():
    world, policy = expert(1)
    seen = tacit.simulate(world.mdp, policy, trajectories=50, steps=40, seed=0)
    mdp, known = explored(world, 2000, 3), {}
    for counted in (True, False):
        given = mdp if counted else taken(mdp)
        known[counted] = tacit.recover(given, world.features, seen, throw=False).identification
    (more,) = (k.dynamics for k in known.values() if k.dynamics is not None)
    told = [one.about.number for one in known[True].findings if one.kind is Kind.ERRORS]
    assert more.growth in told
    assert more.growth > 1.0
    assert 1.0 <= more.attenuation <= 2.0
    assert 0.0 <= more.unseen < 0.05
    assert (known[True].reward_standard_errors > known[False].reward_standard_errors).all()
    width = [np.ptp(known[counted].reward_intervals, axis=1) for counted in (True, False)]
    assert (width[0] > width[1]).all()
    # What cannot count it says that it does not; known dynamics need no word.
    explained = tacit.recover(
        mdp, world.features, seen, estimator=tacit.Convex(), throw=False
    ).identification
    assert explained.dynamics is None
    assert 0.0 in [one.about.number for one in explained.findings if one.kind is Kind.ERRORS]
    assert len([one for one in known[False].findings if one.kind is Kind.ERRORS]) == 1


def test_the_fit_is_tested_with_the_doubt_about_the_dynamics():
    said, naive, wrong = [], [], []
    for seed in range(8):
        world, policy = expert(seed % 4, temperature=0.1)
        counted = explored(world, 300, 2000 + seed)
        seen = tacit.simulate(world.mdp, policy, trajectories=60, steps=50, seed=seed)
        good = []
        for given, list_ in ((counted, said), (taken(counted), naive)):
            found = tacit.Likelihood().fit(given, world.features, seen, throw=False)
            list_.append(not found.goodness.adequate)
            good.append(found.goodness)
        pooled, plain = good
        assert np.isnan(plain.settled)
        assert pooled.settled == pytest.approx(plain.p_value) or not pooled.adequate
        assert pooled.hidden == (pooled.adequate and not plain.adequate)
        assert [one.kind for one in pooled.findings()] == [Kind.NOT_IDENTIFIED] * pooled.hidden
        random = np.full(policy.shape, 1 / 3)
        greedy = 0.8 * np.eye(3)[policy.argmax(axis=1)] + 0.2 * random
        seen = tacit.simulate(world.mdp, greedy, trajectories=60, steps=50, seed=seed)
        found = tacit.Likelihood().fit(counted, world.features, seen, throw=False)
        wrong.append(not found.goodness.adequate)
    assert sum(said) <= 1  # 5 % of 8, and two standard errors
    assert sum(naive) >= 3  # as if the counted dynamics were the true ones
    assert sum(wrong) >= 4  # measured: 4; with 300 steps of dynamics doubt costs much power


def test_mixtures_of_draws_scatter_as_the_draws_do():
    rng = np.random.default_rng(0)
    doubt = 0.01 * rng.standard_normal((6, 2, 3))
    policy = rng.dirichlet(np.ones(3), size=2)
    drawn = Chances(policy, doubt).drawn(20_000, rng)
    assert np.allclose(drawn.sum(axis=2), 1.0)
    moves = policy * (doubt - (policy * doubt).sum(axis=2, keepdims=True))  # to first order
    spread = np.einsum("msa,mtb->satb", moves, moves) / 6
    told = np.cov(drawn.reshape(-1, 6).T).reshape(2, 3, 2, 3)
    np.testing.assert_allclose(told, spread, atol=0.05 * np.abs(spread).max())
    assert Chances(policy, None).drawn(5, rng).shape == (1, 2, 3)


def test_episodes_of_one_individual_count_as_one(monkeypatch):
    world, (policy, _) = grid(), hill_expert()
    short = tacit.simulate(world.mdp, policy, trajectories=120, steps=30, seed=4)
    # The same walks, told apart or not; and every walk three times over by one individual.
    who = np.repeat(np.arange(120), 3)
    thrice = tacit.Demonstrations.from_trajectories(
        [
            (short.states[a:b], short.actions[a:b])
            for a, b in zip(short.offsets[who], short.offsets[who + 1], strict=True)
        ]
    )
    named = replace(thrice, individuals=np.array([f"mouse {w}" for w in who]))
    scores = np.random.default_rng(0).normal(size=(2, 25, 4))

    def unit_of(seen):
        steps = StepsEvidence(None, None, np.eye(2), seen)
        steps.__dict__["scores"] = scores
        return clusters_of([steps], 60, 6).unit

    once, alike = Scatter.of(scores, short), Scatter.of(scores, named, who)
    assert alike.episodes == 120
    assert np.allclose(alike.products, 9.0 * once.products)
    kinds = {
        "trajectories": thrice,
        "individuals": named,
        "groups": replace(thrice, groups=named.individuals),
    }
    errors = {}
    for unit, seen in kinds.items():
        assert unit_of(seen) == unit
        known = tacit.Likelihood().fit(world.mdp, world.features, seen).identification
        errors[unit] = known.reward_standard_errors
        said = [one for one in known.findings if one.kind is Kind.ERRORS]
        assert f"{unit} as independent" in said[0]
    # Copies tell nothing new: errors of walks apart are sqrt(3) too small, but for the correction
    # of 120 and 360 units. Clustered ones are never smaller than Fisher's, in no direction: those
    # of these walks apart would be by 7 %, and only so much is missing.
    ratio = errors["individuals"] / errors["trajectories"]
    assert (ratio <= np.sqrt(3.0) * 1.01).all()
    assert (ratio >= np.sqrt(3.0) * 0.92).all()
    monkeypatch.setattr(information, "at_least", lambda _, scatter, *moving: scatter)
    plain = [
        tacit.Likelihood().fit(world.mdp, world.features, seen).identification
        for seen in (named, thrice)
    ]
    ratio = plain[0].reward_standard_errors / plain[1].reward_standard_errors
    np.testing.assert_allclose(ratio, np.sqrt(3.0), rtol=0.01)
    assert np.array_equal(errors["individuals"], errors["groups"])
    # Two groups are a treatment, not who was seen: trajectories stay the units.
    few = replace(thrice, groups=np.where(who < 60, "a", "b"))
    assert unit_of(few) == "trajectories"
