"""Marginal effects and elasticities, beside counterfactuals of a little more of a feature."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tacit
from experts import grid, policy_of
from tacit import Features, Likelihood
from tacit.errors import InvalidModel
from tacit.estimators.whatif import StateScenario
from tacit.model.layout import Layout
from travellers import GOALS, TRUTH, lengths, streets, travelled

THETA = [np.array([3.0, 2.0]), np.array([0.5, 1.5, 1.0, 0.5])]
LITTLE = 1e-3


@pytest.fixture(scope="module")
def found():
    world = grid()
    policy = policy_of(world.mdp, world.features, THETA)
    seen = tacit.simulate(world.mdp, policy, trajectories=300, steps=60, seed=5)
    return tacit.recover(world.mdp, world.features, seen, estimator=Likelihood(level=1.0))


@pytest.fixture(scope="module")
def trips():
    mdp, features = streets(), lengths(streets(), costs=1)
    theta = np.append(TRUTH, 0.6)
    table = features.reward @ TRUTH - features.costs[0][..., 0] * theta[3]
    walks = travelled(mdp, table, 200, GOALS, seed=2)
    options = Likelihood(free_reward=True, level=1.0)
    return tacit.recover(tacit.Trips(mdp, features, walks, discount=1.0), estimator=options)


def grown(features, number, where, *, relative):
    """The features with a little more of one of them: of a unit, or of itself."""
    actions = where.shape[1]
    maps = [one.copy() for one in features.by_action(actions)]
    block = next(b for b, own in enumerate(features.blocks) if number < own.stop)
    column = maps[block][..., number - features.blocks[block].start]
    column += LITTLE * where * (column if relative else 1.0)
    return Features(maps[0], maps[1:], features.reward_names, features.cost_names)


@pytest.mark.parametrize("number", [0, 3])
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("kind", ["found", "trips"])
def test_an_effect_is_a_little_counterfactual(request, kind, number, relative):
    recovery = request.getfixturevalue(kind)
    features = recovery.features if kind == "trips" else recovery.origin.features
    world = recovery.network if kind == "trips" else recovery.origin.mdp
    where = np.zeros(world.available.shape, bool)
    where[[1, 5, 6]] = True
    ask = recovery.elasticities if relative else recovery.marginal_effects
    name = recovery.parameters.names[number]
    told = ask(name, at=[1, 5, 6], draws=0)
    after = recovery.counterfactual(
        features=grown(features, number, where, relative=relative), draws=0
    )
    level = after.before
    pairs = [
        (told.sums, after.sum_change, level.sums),
        (told.flows, after.flow_change, level.flows),
    ]
    if not relative:
        pairs.append((told.surplus, after.surplus, np.ones(())))
    for effect, change, before in pairs:
        expected = change.estimate / LITTLE
        if relative:
            expected = np.where(before == 0, 0.0, expected / np.where(before == 0, 1.0, before))
        # A difference on one side, which is as rough as its step.
        scale = np.abs(expected).max()
        assert_allclose(effect.estimate, expected, atol=20 * LITTLE * max(scale, 0.1))
        wide = effect.interval[..., 1] - effect.interval[..., 0]
        assert (wide >= 0).all()
        assert wide.max() > 0


def test_surplus_falls_by_what_is_collected(found):
    """Shepard's lemma, and more of a feature everywhere is worth its weight times its sum."""
    told = found.marginal_effects(found.parameters.names[0], draws=0)
    world = found.origin.mdp
    total = 1.0 / (1.0 - world.discount)
    weight = found.parameters.estimates[0]
    assert float(told.surplus.estimate) == pytest.approx(weight * total, rel=1e-6)
    assert_allclose(told.flows.estimate, 0.0, atol=1e-6)  # the same everywhere moves nobody
    assert told.sums.estimate[0] == pytest.approx(total, rel=1e-6)


def test_intervals_are_those_of_the_delta_method(found):
    p = replace(found.parameters, lower=np.full(6, -np.inf))
    found = replace(found, parameters=p)
    name = p.names[1]
    told = found.elasticities(name, draws=0)
    assert told.method == "delta"

    def elastic(theta):
        at = replace(found, parameters=replace(p, estimates=theta))
        return at.elasticities(name, draws=0).sums.estimate

    steps = 1e-2 * np.eye(6)
    slopes = [(elastic(p.estimates + h) - elastic(p.estimates - h)) / 2e-2 for h in steps]
    errors = np.sqrt(np.einsum("ki,kl,li->i", slopes, p.covariance, slopes))
    assert_allclose(told.sums.standard_error, errors, rtol=0.02)


def test_tables_name_what_they_show(found, trips):
    told = found.marginal_effects(found.parameters.names[2], at=[(5, 1)])
    frame = told.frame()
    assert frame.columns == ["number", "level", "effect", "lower", "upper"]
    assert frame["number"].to_list()[-1] == "surplus"
    layout = Layout(state_names=tuple(f"place {s}" for s in range(len(told.flow_levels))))
    flows, choices = told.flow_frame(layout), told.choice_frame(layout)
    assert flows["state"][0].startswith("place")
    # Dearer there, it is done less there, and that is the largest change of a choice.
    assert choices["state"][0] == "place 5"
    assert (np.diff(np.abs(choices["effect"].to_numpy())) <= 0).all()
    row = choices["action"].to_list().index(layout.action_name(1))
    assert choices["effect"][row] < 0.0
    assert "for each unit" in repr(told)
    wide = told.at(0.99).sums.interval
    assert (wide[:, 0] <= told.sums.interval[:, 0]).all()
    elastic = trips.elasticities(trips.parameters.names[3])
    assert elastic.frame().columns[2] == "elasticity"
    assert elastic.surplus is None
    with pytest.raises(InvalidModel, match="flow_frame"):
        elastic.choice_frame()


def test_what_cannot_grow_is_refused_in_one_line(found, trips):
    name = found.parameters.names[0]
    for ask, words in (
        (lambda: found.elasticities("nothing"), "no coefficient is named 'nothing'"),
        (lambda: found.elasticities(name, at=[99]), "at must be states"),
        (lambda: found.elasticities(name, at=[0.5]), "at must be states"),
        (lambda: found.marginal_effects(name, at=[]), "at must be states"),
        (lambda: trips.marginal_effects(trips.parameters.names[0], at=[(0, 0)]), "not available"),
        (lambda: replace(found, origin=None).elasticities(name), "with_origin"),
    ):
        with pytest.raises(InvalidModel, match=words) as caught:
            ask()
        assert "\n" not in str(caught.value)


def test_an_outcome_is_that_of_the_solver_whatever_ends_and_is_the_same_everywhere():
    """The log-sum from flows and their entropy is the value that the solver finds."""
    rng = np.random.default_rng(0)
    moves, there = rng.dirichlet(np.ones(8), (8, 3)), np.ones((8, 3), bool)
    constant = np.concatenate([5.0 + rng.normal(size=(8, 2)), np.full((8, 1), 3.0)], axis=1)
    features = Features(constant, [rng.uniform(size=(8, 1))])
    for ends in ([], [7]):
        there[ends] = False
        world = tacit.MDP(moves, np.ones(8) / 8, 0.9, available=there)
        scenario = StateScenario(world, features, {}, {})
        theta = np.array([1.0, 0.5, 0.7, 0.3])
        told, solved = scenario.outcome(theta), scenario.solution(theta)
        assert_allclose(told.flows, solved.visitation, atol=1e-10)
        assert float(told.surplus) == pytest.approx(float(world.initial @ solved.values))
