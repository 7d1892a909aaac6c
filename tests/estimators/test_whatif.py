"""What would happen after a change, with intervals; and a recovery used again."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oracles
import tacit
from experts import grid, policy_of
from tacit import Features, Likelihood
from tacit.errors import Infeasible, InvalidModel
from tacit.inference.expectations import pull_back
from tacit.model.layout import Layout
from travellers import GOALS, TRUTH, lengths, streets, travelled

QUANTILE = 1.959963984540054
THETA = [np.array([3.0, 2.0]), np.array([0.5, 1.5, 1.0, 0.5])]


@pytest.fixture(scope="module")
def found():
    world = grid()
    policy = policy_of(world.mdp, world.features, THETA)
    seen = tacit.simulate(world.mdp, policy, trajectories=300, steps=60, seed=5)
    return tacit.recover(world.mdp, world.features, seen, estimator=Likelihood(level=1.0))


@pytest.fixture(scope="module")
def trips():
    mdp, features = streets(), lengths(streets())
    walks = travelled(mdp, features.reward @ TRUTH, 150, GOALS, seed=2)
    return tacit.recover(tacit.Trips(mdp, features, walks, discount=1.0))


def values_of(world, features, theta):
    """Soft value at the start and discounted sums of all features, by an oracle."""
    reward, *costs = np.split(theta, np.cumsum(features.sizes)[:-1])
    policy = policy_of(world, features, [reward, *costs])
    visits = oracles.policy_visitation(world, policy)
    charged = features.objective(reward, costs, np.zeros(len(costs)))
    gains, charges = charged.tables(world)
    start = oracles.soft_values(world, gains - charges.sum(axis=0), 1.0)[0]
    return world.initial @ start, np.concatenate(pull_back(features, visits))


def test_closed_ways_are_worlds_without_them(found):
    world, features, theta = grid().mdp, grid().features, found.parameters.estimates
    answer = found.counterfactual(closed=[(3, 1), (12, 0)], draws=0)
    there = world.available.copy()
    there[3, 1] = there[12, 0] = False
    other = tacit.MDP(world.transitions, world.initial, world.discount, available=there)
    same = found.counterfactual(world=other, draws=0)
    assert_allclose(answer.flows.estimate, same.flows.estimate)
    assert answer.flows.estimate[3, 1] == answer.flows.interval[3, 1, 1] == 0.0
    value, sums = values_of(world, features, theta)
    assert_allclose(answer.before.sums, sums, rtol=1e-6)
    assert float(answer.before.surplus) == pytest.approx(value, rel=1e-6)
    assert float(answer.surplus.estimate) < 0.0
    assert_allclose(answer.flow_change.estimate, answer.flows.estimate - answer.before.flows)
    assert_allclose(answer.policy[3, 1], 0.0, atol=1e-12)


def test_intervals_are_those_of_the_delta_method_where_no_bound_is_near(found):
    # Every coefficient is free here, so that no bound is in the way.
    world, p = grid().mdp, found.parameters
    p = replace(p, lower=np.full(6, -np.inf))
    found, other = replace(found, parameters=p), grid(2)
    answer = found.counterfactual(world=other.mdp, draws=0)
    assert answer.method == "delta"

    def both(theta):
        ends = [values_of(one, grid().features, theta) for one in (world, other.mdp)]
        return np.append(ends[1][1] - ends[0][1], ends[1][0] - ends[0][0])

    steps = 1e-3 * np.eye(6)
    slopes = [(both(p.estimates + h) - both(p.estimates - h)) / 2e-3 for h in steps]
    errors = np.sqrt(np.einsum("ki,kl,li->i", slopes, p.covariance, slopes))
    # Steps of .05 standard errors: to their square.
    assert_allclose(answer.sum_change.standard_error, errors[:-1], rtol=0.01)
    assert float(answer.surplus.standard_error) == pytest.approx(errors[-1], rel=0.01)
    low, high = answer.surplus.interval
    assert high - low == pytest.approx(2 * QUANTILE * errors[-1], rel=0.01)


def test_a_price_is_a_scaled_constraint_and_a_budget_takes_its_price(found):
    p, price = found.parameters.estimates, float(found.multipliers[0])
    answer = found.counterfactual(prices={0: 2.0 * price}, draws=0)
    doubled = np.concatenate([p[:2], 2.0 * p[2:]])
    value, sums = values_of(grid().mdp, grid().features, doubled)
    assert_allclose(answer.sums.estimate, sums, rtol=1e-6)
    assert float(answer.prices.estimate[0]) == pytest.approx(2.0 * price)
    assert float(answer.surplus.estimate) == pytest.approx(value - float(answer.before.surplus))
    # What is spent at that price is the budget that has it.
    spent = float(answer.sums.estimate[2:] @ found.cost_weights[0])
    back = found.counterfactual(budgets={0: spent}, draws=0)
    assert_allclose(back.sums.estimate, answer.sums.estimate, rtol=1e-5)
    assert float(back.prices.estimate[0]) == pytest.approx(2.0 * price, rel=1e-5)
    assert float(back.price_change.standard_error[0]) > 0.0
    loose = found.counterfactual(budgets={0: 1e3}, draws=0)
    assert float(loose.prices.estimate[0]) == 0.0
    with pytest.raises(Infeasible):
        found.counterfactual(budgets={0: 1e-6})


def test_trips_keep_their_ends_and_may_pay_more():
    mdp, features = streets(), lengths(streets(), costs=1)
    theta = np.append(TRUTH, 0.6)
    table = features.reward @ TRUTH - features.costs[0][..., 0] * theta[3]
    walks = travelled(mdp, table, 200, GOALS, seed=2)
    trips = tacit.recover(
        tacit.Trips(mdp, features, walks, discount=1.0),
        estimator=Likelihood(free_reward=True, level=1.0),
    )
    same = trips.counterfactual(prices={0: float(trips.multipliers[0])}, draws=0)
    assert_allclose(same.sum_change.estimate, 0.0, atol=1e-8)
    dearer = trips.counterfactual(prices={0: 2.0 * float(trips.multipliers[0])}, draws=0)
    assert dearer.sum_change.estimate[3] < 0.0
    assert float(dearer.surplus.estimate) < 0.0
    # Shepard's lemma: what a little more of a price costs is what is spent.
    little = trips.counterfactual(prices={0: 1.001 * float(trips.multipliers[0])}, draws=0)
    paid = 0.001 * trips.parameters.estimates[3] * same.sums.estimate[3]
    assert float(little.surplus.estimate) == pytest.approx(-paid, rel=1e-2)
    with pytest.raises(InvalidModel, match="budgets are of one task"):
        trips.counterfactual(budgets={0: 1.0})


def test_tables_name_what_they_show(trips):
    answer = trips.counterfactual(closed=[(5, 1)])
    frame = answer.frame()
    assert frame.columns == ["number", "before", "after", "change", "lower", "upper"]
    assert frame["number"].to_list()[-1] == "surplus"
    assert len(frame) == 4
    layout = Layout(4, 4, state_names=tuple(f"place {s}" for s in range(16)))
    flows = answer.flow_frame(layout)
    assert flows["state"][0].startswith("place")
    assert (np.diff(np.abs(flows["change"].to_numpy())) <= 0).all()
    inside = (flows["lower"] <= flows["change"]) & (flows["change"] <= flows["upper"])
    assert inside.all()
    wide = answer.at(0.99).surplus.interval
    assert wide[0] <= answer.surplus.interval[0] <= answer.surplus.interval[1] <= wide[1]
    assert "surplus" in repr(answer)
    assert "log-sum" in answer.sentences[0]


def test_what_cannot_be_changed_is_refused_in_one_line(found, trips):
    idle = replace(found, multipliers=np.zeros(1))
    names = Features(grid().features.reward, grid().features.costs)
    for ask, words in (
        (lambda: found.counterfactual(prices={3: 1.0}), "constraints 0 to 0"),
        (lambda: found.counterfactual(prices={0: -1.0}), "finite numbers"),
        (lambda: found.counterfactual(prices={0: 1.0}, budgets={0: 1.0}), "got both"),
        (lambda: idle.counterfactual(budgets={0: 1.0}), "that have weights"),
        (lambda: found.counterfactual(features=names), "must be those of the recovery"),
        (lambda: found.counterfactual(world=streets()), "must have|features"),
        (lambda: found.counterfactual(closed=[99]), "must lie below"),
        (lambda: replace(found, temperature=0.0).counterfactual(), "a noise"),
        (lambda: replace(found, solution=None).counterfactual(), "only logged"),
        (lambda: replace(found, solution=None, origin=None).predict(), "policy"),
        (lambda: found.refit(levels=1), "options must be"),
        (lambda: replace(found, origin=None).refit(level=1.0), "refit needs"),
        (lambda: replace(found, origin=None).simulate(), "give world="),
        (lambda: trips.counterfactual(part=1), "part must be"),
    ):
        with pytest.raises(InvalidModel, match=words) as caught:
            ask()
        assert "\n" not in str(caught.value)


def test_a_recovery_is_simulated_and_refitted(found, trips):
    seen = found.simulate(trajectories=400, steps=60, seed=1)
    again = tacit.recover(grid().mdp, grid().features, seen, estimator=Likelihood(level=1.0))
    errors = np.hypot(found.parameters.standard_errors, again.parameters.standard_errors)
    gaps = (again.parameters.estimates - found.parameters.estimates) / errors
    assert np.nanmax(np.abs(gaps)) < 4.0
    other = grid(2)
    there = found.simulate(trajectories=5, steps=10, world=other.mdp)
    assert there.episodes == 5
    walked = trips.simulate(seed=3)
    assert walked.episodes == len(trips.origins)
    assert walked.ended.all()
    assert {*walked.final_states.tolist()} <= {*GOALS}
    kept = trips.refit(level=1.0)
    assert_allclose(kept.parameters.estimates, trips.parameters.estimates, rtol=1e-6)
    ridged = found.refit(free_reward=True)
    assert "free_reward=True" in ridged.estimator
