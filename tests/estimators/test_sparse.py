"""A sparse fit: the L1 path keeps its optimality conditions, BIC finds the features that matter."""

import numpy as np
import pytest

import tacit
from kinds import told
from tacit.estimators.sparse import penalised, select
from tacit.inference.findings import Kind
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design

STATES, ACTIONS, FEATURES = 8, 3, 8


def drawn(seed: int, *, negative: bool = False):
    """A world where two of eight reward features and one of two costs matter, and steps there."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(0.3 * np.ones(STATES), size=(STATES, ACTIONS))
    mdp = tacit.MDP(moves, np.full(STATES, 1.0 / STATES), 0.9)
    features = tacit.Features(
        rng.random((STATES, ACTIONS, FEATURES)), [rng.random((STATES, ACTIONS, 2))]
    )
    theta = np.zeros(FEATURES)
    theta[:2] = 3.0, -2.0 if negative else 2.0
    gain = features.reward @ theta - 3.0 * features.costs[0][..., 0]
    expert = tacit.solve(mdp, tacit.Objective(gain), solver=tacit.SoftDual(temperature=1.0))
    return mdp, features, tacit.simulate(mdp, expert.policy, trajectories=40, steps=50, seed=seed)


@pytest.mark.parametrize("free", [False, True])
def test_penalised_fits_keep_the_optimality_conditions(free):
    mdp, features, seen = drawn(0, negative=free)
    steps = StepsChain.of(mdp, Design.of(mdp, features), seen)
    kept = maximum(steps, tacit.Likelihood(free_reward=free))
    for strength in (3.0, 30.0):
        x = penalised(kept, kept, strength, 300).z
        assert 0 < (x == 0.0).sum() < len(x)
        for j in range(len(x)):  # by differences of the loss itself
            step = 1e-4 * np.eye(len(x))[j]
            up, down = (kept.lagrangian(x + sign * step) for sign in (1, -1))
            slope, allowed = (up - down) / 2e-4, 1e-3 * strength
            if x[j] != 0.0:
                assert slope == pytest.approx(-strength * np.sign(x[j]), abs=allowed)
            else:
                assert slope >= -strength - allowed
                assert not free or j >= FEATURES or slope <= strength + allowed


def test_it_finds_the_features_that_matter_and_its_intervals_are_of_all():
    mdp, features, seen = drawn(1)
    every = tacit.Likelihood().fit(mdp, features, seen, throw=False)
    few = tacit.Likelihood(prior=tacit.features.Sparse()).fit(mdp, features, seen, throw=False)
    assert set(np.flatnonzero(few.reward_weights)) == {0, 1}
    assert few.cost_weights[0].tolist() == [1.0, 0.0]
    assert (every.reward_weights > 0).sum() > 2
    assert few.bic < every.bic
    # The noise of weights that are 0 does not add up in the unit any more.
    assert every.temperature < few.temperature == pytest.approx(1 / 5, rel=0.15)
    for name in ("reward_intervals", "multiplier_intervals"):
        ends, wide = getattr(few.identification, name), getattr(every.identification, name)
        assert (ends[:, 0] <= wide[:, 0] + 1e-9).all()
        assert (ends[:, 1] >= wide[:, 1] - 1e-9).all()
    weights, ends = few.reward_weights, few.identification.reward_intervals
    assert ((ends[:, 0] <= weights) & (weights <= ends[:, 1])).all()
    assert np.array_equal(few.identification.p_values, every.identification.p_values)
    assert "prior=Sparse(strength=None)" in few.estimator
    (said,) = told(few.identification.findings, Kind.ASSUMED)
    assert said.about.number > 0


def test_a_strength_that_is_given_is_taken():
    mdp, features, seen = drawn(1)
    steps = StepsChain.of(mdp, Design.of(mdp, features), seen)
    kept = maximum(steps, tacit.Likelihood())
    sizes = []
    for strength in (1e-6, 20.0):
        found = select(kept, tacit.features.Sparse(strength), 300)
        alone = penalised(kept, kept, strength, 300).z
        assert not (found.fitted.z[alone == 0.0] != 0.0).any()
        sizes.append(int((found.fitted.z != 0.0).sum()))
    assert sizes[1] < sizes[0]
    with pytest.raises(tacit.InvalidModel, match="smaller"):
        select(kept, tacit.features.Sparse(1e6), 300)


def test_what_does_not_go_together_is_refused():
    mdp, features, seen = drawn(1)
    estimator = tacit.Likelihood(prior=tacit.features.Sparse(), lapses=True)
    with pytest.raises(tacit.InvalidModel, match="lapses"):
        estimator.fit(mdp, features, seen)
    with pytest.raises(tacit.InvalidModel, match="strength"):
        tacit.features.Sparse(-1.0)
