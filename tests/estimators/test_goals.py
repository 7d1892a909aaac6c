"""Trips: a goal for every trajectory, one likelihood for all of them."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

import networks
import tacit
from tacit import MDP, Demonstrations, Features, InvalidDemonstrations, InvalidModel, Kind
from tacit.engine.kernels import systems
from tacit.estimators.trips import flows, goals
from tacit.estimators.trips.chain import TripsChain
from tacit.estimators.trips.flows import Network, Sums
from tacit.estimators.trips.world import at_ends, goal_world, trimmed
from tacit.inference.evidence import evidence_of
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design
from tacit.search.minimise import bfgs_update
from travellers import GOALS, TRUTH, lengths, streets, travelled

FREE = tacit.Likelihood(free_reward=True)


@pytest.fixture(scope="module")
def town():
    mdp = streets()
    features = lengths(mdp)
    return tacit.Trips(
        mdp, features, travelled(mdp, features.reward @ TRUTH, 150, GOALS), discount=1.0
    )


def chain_of(trips) -> TripsChain:
    return TripsChain.of(trips.journeys()[0], FREE.tolerance)


def best(trips):
    return maximum(chain_of(trips), FREE)


# --- independent answers -------------------------------------------------------------------------


def ways(mdp, start, goal):
    """All paths from a state to a goal of a network without loops, as lists of (state, action)."""
    if start == goal:
        return [[]]
    dense, found = mdp.dense(), []
    for action in np.flatnonzero(mdp.available[start]):
        reached = int(dense[start, action].argmax())
        found += [[(start, int(action)), *rest] for rest in ways(mdp, reached, goal)]
    return found


def test_equals_the_enumeration_of_all_paths():
    mdp = networks.fork()  # ends in 5 and 6; 4 is a goal too, and a state on the way of others
    features = networks.attributes(mdp, 2, seed=3)
    rng, trips = np.random.default_rng(1), []
    truth = np.array([1.0, 2.0])
    for start, goal in itertools.islice(itertools.cycle([(0, 4), (0, 5), (1, 6), (0, 6)]), 80):
        paths = ways(mdp, start, goal)
        worth = np.array([sum(features.reward[s, a] @ truth for s, a in path) for path in paths])
        path = paths[rng.choice(len(paths), p=np.exp(worth - logsumexp(worth)))]
        trips.append(([s for s, _ in path] + [goal], [a for _, a in path]))
    seen = Demonstrations.from_trajectories(trips, ended=np.ones(80, bool))

    def collected(path):
        return sum(features.reward[s, a] for s, a in path)

    every = {}
    for states, _ in trips:
        ends = (states[0], states[-1])
        every[ends] = np.array([collected(path) for path in ways(mdp, *ends)])
    own = sum(collected(zip(*trip, strict=False)) for trip in trips)

    def loss(theta):
        totals = {ends: logsumexp(sums @ theta) for ends, sums in every.items()}
        return sum(totals[states[0], states[-1]] for states, _ in trips) - own @ theta

    best = minimize(loss, np.zeros(2), tol=1e-12)
    recovery = tacit.recover(tacit.Trips(mdp, features, seen), estimator=FREE)
    # The oracle's own search ends at a gradient of about 1e-5.
    np.testing.assert_allclose(recovery.parameters.estimates, best.x, atol=1e-4)
    assert recovery.log_likelihood == pytest.approx(-best.fun, abs=1e-7)
    assert recovery.log_likelihood == pytest.approx(-loss(recovery.parameters.estimates), abs=1e-9)
    assert recovery.status is tacit.RecoveryStatus.CONVERGED
    # Actions that lead only to other ends are not there: from 3 to 4 there is one way.
    counted = [len([a for a in range(3) if trimmed(mdp, t[0][-1])[s, a]]) for t in trips
               for s in t[0][:-1]]  # fmt: skip
    assert recovery.null_log_likelihood == pytest.approx(-np.log(counted).sum())


@pytest.mark.parametrize(("slip", "discount"), [(0.0, 1.0), (0.2, 1.0), (0.0, 0.9), (0.2, 0.9)])
@pytest.mark.parametrize("costs", [0, 1])
def test_one_goal_is_a_plain_likelihood_with_an_end(slip, discount, costs):
    mdp = networks.town(4, discount, slip)
    features = networks.attributes(mdp, 2, seed=1, costs=costs)
    table = features.reward @ [1.0, 0.5] - (features.costs[0][..., 0] if costs else 0.0)
    seen = networks.travel(mdp, networks.soft_values(mdp, table)[1], 200, seed=4)
    plain = tacit.recover(mdp, features, seen, estimator=tacit.Likelihood())
    trips = tacit.recover(tacit.Trips(mdp, features, seen), estimator=tacit.Likelihood())
    # Both searches end at 1e-9 of their scale.
    np.testing.assert_allclose(trips.parameters.estimates, plain.parameters.estimates, rtol=1e-6)
    steps = StepsChain.of(mdp, Design.of(mdp, features), seen)
    evidence = evidence_of([seen], maximum(steps, tacit.Likelihood()), 300)
    told, clusters = trips.parameters, evidence.errors.clusters
    np.testing.assert_allclose(told.information, evidence.fisher, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(told.outer, evidence.outer, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(told.scatter, clusters.products, rtol=1e-5, atol=1e-6)
    assert told.errors == "clustered"
    assert told.trajectories == seen.episodes
    assert trips.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-10)
    assert trips.null_log_likelihood == pytest.approx(plain.null_log_likelihood, rel=1e-12)
    np.testing.assert_allclose(trips.reward_weights, plain.reward_weights, rtol=1e-6)
    np.testing.assert_allclose(trips.multipliers, plain.multipliers, rtol=1e-6)
    # One goal: a place is a state, and the tests of the fit are the same, draw by draw.
    for ours, theirs in zip(trips.goodness.parts, plain.goodness.parts, strict=True):
        assert (ours.name, ours.method) == (theirs.name, theirs.method)
        assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-5)
        assert ours.p_value == pytest.approx(theirs.p_value, abs=0.02)
    np.testing.assert_allclose(trips.goodness.residuals[:15], plain.goodness.residuals[:15],
                               rtol=1e-4, atol=1e-6)  # fmt: skip
    np.testing.assert_allclose(
        trips.goodness.trajectory_residuals, plain.goodness.trajectory_residuals, atol=1e-4
    )
    if plain.goodness.adequate:  # else they are about a best approximation
        ends = plain.identification.reward_intervals
        np.testing.assert_allclose(trips.identification.reward_intervals, ends, rtol=1e-4)
    assert trips.status is plain.status
    local = any(f.kind is Kind.LOCAL_OPTIMUM for f in trips.identification.findings)
    assert local == (plain.status is tacit.RecoveryStatus.LOCAL_OPTIMUM)
    assert slip > 0 or not local
    if costs:
        # Per trip: from where the trips began, not from the start of the network.
        spent = trips.solve(15).spent
        np.testing.assert_allclose(trips.budgets, spent, rtol=1e-6)
        np.testing.assert_allclose(trips.cost_weights[0], [1.0])


@pytest.mark.parametrize(("slip", "prior"), [(0.0, 4.0), (0.2, 4.0), (0.0, None)])
def test_one_goal_under_a_prior_is_a_plain_likelihood_under_it(slip, prior):
    mdp = networks.town(4, 0.9, slip)
    features = networks.attributes(mdp, 2, seed=1, costs=1)
    table = features.reward @ [1.0, 0.5] - features.costs[0][..., 0]
    seen = networks.travel(mdp, networks.soft_values(mdp, table)[1], 200, seed=4)
    options = tacit.Likelihood(prior=tacit.features.Ridge(prior))
    plain = tacit.recover(mdp, features, seen, estimator=options)
    trips = tacit.recover(tacit.Trips(mdp, features, seen), estimator=options)
    own, other = trips.parameters, plain.parameters
    np.testing.assert_allclose(own.estimates, other.estimates, rtol=1e-6)
    np.testing.assert_allclose(own.information, other.information, rtol=1e-5, atol=1e-6)
    assert trips.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-9)
    assert trips.goodness.p_value == pytest.approx(plain.goodness.p_value, abs=0.02)
    ends = plain.identification.reward_intervals
    if plain.goodness.adequate and trips.goodness.adequate:
        np.testing.assert_allclose(trips.identification.reward_intervals, ends, rtol=1e-3)


def test_one_factorisation_equals_world_by_world(town, monkeypatch):
    chain = chain_of(town)
    x = np.array([-3.0, -1.0, 0.3])
    fast, (_, small) = chain.sums(x), Network(chain.journeys).evaluate(x, chain.chosen)
    assert len(small) == 0
    monkeypatch.setattr(chain.dynamics, "_network", None)
    slow = chain.sums(x)
    for name in Sums._fields:  # sums of 1e3 numbers
        np.testing.assert_allclose(
            getattr(fast, name), getattr(slow, name), rtol=1e-9, atol=1e-9, err_msg=name
        )


def test_lean_sums_are_those_of_one_derivative(town, monkeypatch):
    chain = dataclasses.replace(chain_of(town), ridge=0.5)
    x = np.array([-3.0, -1.0, 0.3])
    whole, lean = (chain.sums(x, lean=lean) for lean in (False, True))
    assert lean.lean
    assert not whole.lean
    for name in ("loss", "gradient", "spent", "flows"):
        np.testing.assert_allclose(getattr(lean, name), getattr(whole, name), rtol=1e-13)
    # Nothing is saved in logarithms: all of it comes back.
    monkeypatch.setattr(chain.dynamics, "_network", None)
    assert not chain.sums(x, lean=True).lean


@pytest.mark.parametrize("worse", [1.0, 0.02, 50.0])
def test_a_search_by_gradients_ends_where_newtons_does(town, worse, monkeypatch):
    chain, free, rules = chain_of(town), np.full(3, np.inf), {"tolerance": 1e-9, "max_steps": 300}
    problem = LikelihoodProblem.of(chain, -free, free)
    newton = problem.minimum(np.zeros(3), **rules)
    start = newton.z + np.array([0.3, -0.2, 0.4])
    model = worse * chain.sums(start).curvature
    asked, sums = [], TripsChain.sums

    def watched(self, x, *, detailed=False, lean=False):
        asked.append(lean)
        return sums(self, x, detailed=detailed, lean=lean)

    monkeypatch.setattr(TripsChain, "sums", watched)
    modelled = dataclasses.replace(problem, model=model)
    found = modelled.minimum(start, **rules)
    assert any(asked)
    assert found.converged
    (ours,), (theirs,) = found.parts, newton.parts
    assert not ours.lean
    np.testing.assert_allclose(found.z, newton.z, rtol=1e-9)
    np.testing.assert_allclose(ours.fisher, theirs.fisher, rtol=1e-8)
    np.testing.assert_allclose(ours.curvature, theirs.curvature, rtol=1e-8)
    # Held at a bound, and stopped at once, it has its second derivatives as well.
    upper = np.where(np.arange(3) == 1, start[1], np.inf)
    bounded, plain = (
        dataclasses.replace(one, upper=upper).minimum(start, **rules) for one in (modelled, problem)
    )
    np.testing.assert_allclose(bounded.z, plain.z, rtol=1e-9)
    short = modelled.minimum(start, tolerance=1e-9, max_steps=2)
    assert not short.parts[0].lean
    np.testing.assert_allclose(short.parts[0].curvature, sums(chain, short.z).curvature, rtol=1e-12)
    np.testing.assert_allclose(short.curvature, short.parts[0].curvature, rtol=1e-12)


def test_many_goals_begin_with_some_of_them(town, monkeypatch):
    usual = best(town)
    monkeypatch.setattr("tacit.estimators.trips.chain.SOME", 1)
    chain = chain_of(town)
    found = maximum(chain, FREE)
    np.testing.assert_allclose(found.z, usual.z, rtol=1e-9)
    np.testing.assert_allclose(found.parts[0].fisher, usual.parts[0].fisher, rtol=1e-8)
    # What was found out in detail at the end is not found out again.
    assert found.parts[0].policy is not None
    assert chain.sums(found.z, detailed=True).policy is found.parts[0].policy


def test_a_bent_curvature_explains_the_last_step():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    true, step = root @ root.T + np.eye(4), rng.normal(size=4)
    found = bfgs_update(np.eye(4), step, true @ step)
    np.testing.assert_allclose(found @ step, true @ step)
    assert np.linalg.eigvalsh(found).min() > 0
    np.testing.assert_array_equal(bfgs_update(np.eye(4), step, -step), np.eye(4))


def test_values_too_small_for_numbers_are_sought_in_logarithms(town, monkeypatch):
    chain = chain_of(town)
    x = np.array([-2000.0, -1.0, 0.3])  # a trip collects about -5000
    whole, small = Network(chain.journeys).evaluate(x, chain.chosen)
    assert len(small) > 0
    assert np.isfinite(whole.loss)
    found = chain.sums(x)
    monkeypatch.setattr(chain.dynamics, "_network", None)
    slow = chain.sums(x)
    assert found.loss == pytest.approx(slow.loss, rel=1e-12)
    np.testing.assert_allclose(found.gradient, slow.gradient, rtol=1e-9, atol=1e-6)


def test_the_compiled_substitution_equals_scipys(town, monkeypatch):
    chain = chain_of(town)
    x = np.array([-3.0, -1.0, 0.3])
    plain = chain.sums(x)
    monkeypatch.setattr(systems, "SMALL", 0)
    compiled = chain.sums(x)
    np.testing.assert_allclose(compiled.gradient, plain.gradient, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(compiled.curvature, plain.curvature, rtol=1e-12)


@pytest.mark.parametrize(("slip", "discount"), [(0.0, 1.0), (0.3, 1.0), (0.0, 0.95)])
def test_derivatives_are_those_of_finite_differences(slip, discount):
    mdp = streets(slip=slip)
    features = lengths(mdp)
    seen = travelled(mdp, features.reward @ TRUTH, 40, GOALS, discount=discount)
    chain = chain_of(tacit.Trips(mdp, features, seen, discount=discount))
    x, width = np.array([-3.0, -1.0, 0.3]), 1e-5
    here = chain.sums(x)
    ahead = [chain.sums(x + width * e) for e in np.eye(3)]
    behind = [chain.sums(x - width * e) for e in np.eye(3)]
    slope = [(a.loss - b.loss) / (2 * width) for a, b in zip(ahead, behind, strict=True)]
    np.testing.assert_allclose(here.gradient, slope, rtol=1e-6, atol=1e-5)
    if slip == 0.0:  # elsewhere the curvature is that of the information where it may be negative
        bend = [(a.gradient - b.gradient) / (2 * width) for a, b in zip(ahead, behind, strict=True)]
        np.testing.assert_allclose(here.curvature, bend, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(here.curvature, here.curvature.T)
    spend = [(a.spent - b.spent) / (2 * width) for a, b in zip(ahead, behind, strict=True)]
    np.testing.assert_allclose(here.reaction, spend, rtol=1e-5, atol=1e-5)
    assert np.linalg.eigvalsh(here.fisher).min() > 0


@pytest.mark.parametrize(("slip", "discount"), [(0.3, 1.0), (0.3, 0.95), (0.0, 0.95)])
@pytest.mark.parametrize("few", [200, 0], ids=["dense", "sparse"])
def test_goals_as_columns_give_what_goals_one_by_one_do(slip, discount, few, monkeypatch):
    monkeypatch.setattr(flows, "SMALL", few)
    mdp = streets(slip=slip)
    features = lengths(mdp)
    seen = travelled(mdp, features.reward @ TRUTH, 40, GOALS, discount=discount)
    journeys, _ = tacit.Trips(mdp, features, seen, discount=discount).journeys()
    columns, single = goals.Goals(journeys, 1e-9), goals.Goals(journeys, 1e-9)
    monkeypatch.setattr(goals.Columns, "blocks", lambda _, chosen: [chosen[:3], chosen[3:]])
    vars(single)["columns"] = None
    monkeypatch.setattr(columns, "_goal", None)  # none is left over
    every = np.arange(len(journeys.goals))
    for x in (np.array([-3.0, -1.0, 0.3]), np.array([-2.5, -1.2, 0.2])):  # cold, then warm
        told, one = (w.evaluate(x, every, detailed=True) for w in (columns, single))
        order = np.argsort(told.rows)
        assert told.loss == pytest.approx(one.loss, rel=1e-12)
        for name in ("gradient", "fisher", "spent", "reaction", "flows"):
            np.testing.assert_allclose(getattr(told, name), getattr(one, name), atol=1e-9)
        for name in ("rows", "scores", "policy", "advantages"):
            np.testing.assert_allclose(getattr(told, name)[order], getattr(one, name), atol=1e-9)
        # Goal by goal visits are only as exact as a curvature needs.
        np.testing.assert_allclose(told.curvature, one.curvature, rtol=1e-7)


def test_columns_count_what_a_goal_pays_on_arrival():
    """States that pay: below discount 1 an arrival is worth less the longer the way was."""
    mdp, rng = streets(slip=0.3), np.random.default_rng(3)
    features, x = Features(-1.0 - rng.random((16, 2))), np.array([1.2, 0.3])
    table = np.repeat((features.reward @ x)[:, None], mdp.actions, axis=1)
    seen = travelled(mdp, table, 20, GOALS, discount=0.9)
    journeys, _ = tacit.Trips(mdp, features, seen, discount=0.9).journeys()
    columns = goals.Goals(journeys, 1e-9)
    assert columns.columns is not None
    expected = 0.0
    for i, goal in enumerate(journeys.goals.tolist()):
        world = goal_world(mdp, goal, mdp.initial, 0.9)
        values, _ = networks.soft_values(world, at_ends(mdp, world, table[None])[0])
        expected += columns.seen(i).start @ values
    every = np.arange(len(journeys.goals))
    found = columns.evaluate(x * journeys.space.scales, every).loss
    assert found == pytest.approx(expected, rel=1e-9)


def test_goals_that_columns_do_not_find_have_worlds_of_their_own(monkeypatch):
    mdp = streets(slip=0.3)
    features = lengths(mdp)
    seen = travelled(mdp, features.reward @ TRUTH, 40, GOALS)
    journeys, _ = tacit.Trips(mdp, features, seen, discount=1.0).journeys()
    every, x = np.arange(len(journeys.goals)), np.array([-3.0, -1.0, 0.3])
    whole = goals.Goals(journeys, 1e-9).evaluate(x, every)
    level = goals.Columns.level

    def lost(self, x, seen, guess):
        found = level(self, x, seen, guess)
        one = seen.ends[journeys.goals[1]] & (seen.ends.sum(axis=0) == 1)
        return found._replace(found=found.found & ~one)

    monkeypatch.setattr(goals.Columns, "level", lost)
    parts = goals.Goals(journeys, 1e-9).evaluate(x, every)
    np.testing.assert_allclose(parts.gradient, whole.gradient, atol=1e-9)
    np.testing.assert_allclose(parts.flows, whole.flows, atol=1e-9)
    # Where going round in circles pays, no goal has a finite value; where every step may slip into
    # the goal, each has one.
    certain, _ = tacit.Trips(
        streets(), features, travelled(streets(), features.reward @ TRUTH, 40, GOALS), discount=1.0
    ).journeys()
    monkeypatch.setattr(goals.Columns, "level", level)
    for found, finite in ((journeys, True), (certain, False)):
        parts = goals.Goals(found, 1e-9)
        monkeypatch.setattr(parts, "_network", None)
        assert np.isfinite(parts.evaluate(np.array([3.0, 0.0, 0.0]), every).loss) == finite


def test_known_coefficients_lie_within_three_standard_errors():
    mdp = streets(8)  # 224 links
    features = lengths(mdp, 4, seed=5)
    truth = np.array([-1.2, -0.8, 0.5, -0.3])
    seen = travelled(mdp, features.reward @ truth, 600, np.arange(0, 64, 5), seed=2)
    recovery = tacit.recover(tacit.Trips(mdp, features, seen, discount=1.0))
    found = recovery.parameters
    for kind in ("fisher", "clustered"):
        z = (found.estimates - truth) / found.with_errors(kind).standard_errors
        assert np.abs(z).max() < 3.0
    assert np.linalg.norm(z) > 0.1  # not by errors that are far too large
    # One global optimum, and the certificate that says so.
    assert recovery.status is tacit.RecoveryStatus.CONVERGED
    assert recovery.certificate.objective_gap < 1e-9
    assert recovery.solution is None
    assert recovery.log_likelihood > recovery.null_log_likelihood


def test_many_goals_begin_from_a_fit_to_some_of_them(town, monkeypatch):
    whole = best(town)
    monkeypatch.setattr("tacit.estimators.trips.chain.SOME", 2)
    np.testing.assert_allclose(best(town).z, whole.z, rtol=1e-8)


def test_discount_1_is_the_limit_of_discounts(town):
    at_one = tacit.recover(town).parameters.estimates
    near = tacit.Trips(town.mdp, town.features, town.demonstrations, discount=1 - 1e-6)
    np.testing.assert_allclose(tacit.recover(near).parameters.estimates, at_one, atol=1e-3)


def test_a_feature_that_nobody_chose_is_named_and_leaves_the_others_alone(town):
    seen, features = town.demonstrations, town.features
    never = np.zeros((*town.mdp.available.shape, 1))
    counts = seen.counts(town.mdp)
    # Left out somewhere on the way of many, and never taken: like a turn that is not allowed.
    states, actions = np.nonzero(town.mdp.available & (counts == 0))
    never[states, actions] = 1.0
    wide = Features(np.concatenate([features.reward, never], axis=2))
    recovery = tacit.recover(tacit.Trips(town.mdp, wide, seen, discount=1.0), throw=False)
    (told,) = [f for f in recovery.identification.findings if f.kind is Kind.NOT_IDENTIFIED]
    assert told.about.feature == "reward feature 3"
    # As if those turns were not there at all.
    closed = MDP(
        town.mdp.transitions, town.mdp.initial, 0.9, available=town.mdp.available & (counts > 0)
    )
    without = tacit.recover(tacit.Trips(closed, features, seen, discount=1.0))
    np.testing.assert_allclose(
        recovery.parameters.estimates[:3], without.parameters.estimates, rtol=1e-4
    )
    # One end only, below 0, and no part in the scale of the others.
    low, high = recovery.parameters.intervals[3]
    assert low == -np.inf
    assert recovery.parameters.estimates[3] < high < 0.0
    assert told.about.number == pytest.approx(high)
    np.testing.assert_array_equal(recovery.parameters.at(0.99).intervals[3], [-np.inf, np.inf])
    assert recovery.identification.reward_intervals[3, 0] == -np.inf
    assert recovery.temperature == pytest.approx(without.temperature, rel=1e-4)
    np.testing.assert_allclose(recovery.reward_weights[:3], without.reward_weights, rtol=1e-4)
    np.testing.assert_allclose(recovery.identification.reward_intervals[:3],
                               without.identification.reward_intervals, rtol=2e-2)  # fmt: skip
    # At that end the best of the others is as unlikely as the confidence says.
    full = best(tacit.Trips(town.mdp, wide, seen, discount=1.0))
    held = np.arange(4) == 3
    less = full.held(held, high * full.problem.chains[0].space.scales[3])
    assert less.loss - full.loss == pytest.approx(0.5 * 1.6449**2, rel=0.05)


def test_features_of_actions_are_not_paid_on_arrival_at_a_goal():
    mdp = streets(discount=0.8)
    features = lengths(mdp)
    seen = travelled(mdp, features.reward @ TRUTH, 60, [5], discount=0.8)
    trips = tacit.recover(tacit.Trips(mdp, features, seen))
    there, table = mdp.available.copy(), features.reward.copy()
    there[5], table[5] = False, 0.0
    world = MDP(mdp.transitions, mdp.initial, 0.8, available=there)
    plain = tacit.recover(world, Features(table), seen, estimator=FREE)
    np.testing.assert_allclose(trips.parameters.estimates, plain.parameters.estimates, rtol=1e-6)
    assert trips.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-10)


def test_random_moves_may_leave_a_local_optimum_and_it_is_said():
    mdp = networks.town(3, 1.0, 0.4)
    features = networks.attributes(mdp, 1, seed=1)
    seen = networks.travel(mdp, networks.soft_values(mdp, features.reward[..., 0])[1], 8, seed=4)
    recovery = tacit.recover(tacit.Trips(mdp, features, seen), estimator=FREE)
    counts = seen.counts(mdp)
    within = (counts.sum(axis=1) - mdp.inflow(counts))[~mdp.ends]
    assert within.min() < -0.1
    assert recovery.status is tacit.RecoveryStatus.LOCAL_OPTIMUM
    assert Kind.LOCAL_OPTIMUM in {f.kind for f in recovery.identification.findings}
    assert np.isnan(recovery.certificate.objective_gap)


# --- where values are not finite -----------------------------------------------------------------


def test_no_finite_value_is_an_infinite_loss_on_both_ways(town, monkeypatch):
    chain = chain_of(town)
    for x in (np.zeros(3), np.array([0.5, 0.0, 0.0])):  # walking in circles is free, or pays
        assert chain.sums(x).loss == np.inf
    monkeypatch.setattr(chain.dynamics, "_network", None)
    assert dataclasses.replace(chain, chosen=chain.chosen[:1]).sums(np.zeros(3)).loss == np.inf


def test_no_weights_within_their_signs_are_an_error(town):
    with pytest.raises(InvalidModel, match="free_reward=True"):
        tacit.recover(town, estimator=tacit.Likelihood())


# --- goals and ways ------------------------------------------------------------------------------


def test_pairs_without_a_sure_way_are_trimmed_until_nothing_changes():
    # 0 -> 1 or 2; 2 may slip into the dead end 4, so that 2 has no sure way, nor has 0 by it.
    links = [(0, 0, 1), (0, 1, 2), (1, 0, 3), (1, 1, {3: 0.5, 4: 0.5}), (2, 0, {3: 0.9, 4: 0.1})]
    mdp = networks.model([*links, (3, 0, 0)], 5, 2, discount=0.9)
    expected = np.zeros((5, 2), bool)
    expected[0, 0] = expected[1, 0] = True
    np.testing.assert_array_equal(trimmed(mdp, 3), expected)
    features = Features(np.ones((5, 1)))
    seen = Demonstrations.from_trajectories([([0, 2, 3], [1, 0])], ended=[True])
    with pytest.raises(InvalidDemonstrations, match="trajectory 0 has the goal state 3"):
        tacit.recover(tacit.Trips(mdp, features, seen, discount=1.0))


def seen_again(town, trips, **options):
    seen = Demonstrations.from_trajectories(trips, **options)
    return tacit.Trips(town.mdp, town.features, seen, discount=1.0)


def test_bad_trips_are_named(town):
    good = ([0, 1, 2, 3], [1, 1, 1])
    for trips, options, words in (
        ([good, ([0, 1, 0, 1], [1, 0, 1])], {}, "trajectory 1 passes its goal, state 1"),
        ([good, ([1, 0, 1], [0, 1])], {}, "trajectory 1 passes its goal, state 1"),
        ([good, ([0, 1, 2], [1, 1])], {"ended": [True, False]}, "trajectory 1 did not end"),
        ([good, ([0, 1, 7], [1, 1])], {}, "trajectory 1 goes from state 1 by action 1 to state 7"),
    ):
        with pytest.raises(InvalidDemonstrations, match=words):
            tacit.recover(seen_again(town, trips, **options))
    # 5 is a dead end of the fork: nothing leads from there to 6.
    mdp = networks.fork()
    lost = Demonstrations.from_trajectories([([0, 3, 6], [2, 2]), ([0, 2, 5, 6], [1, 2, 0])])
    features = networks.attributes(mdp, 1)
    with pytest.raises(InvalidDemonstrations, match="state 5"):
        tacit.recover(tacit.Trips(mdp, features, lost))
    jumped = Demonstrations.from_trajectories([([0, 3, 6], [2, 2]), ([3, 0], [1])])
    with pytest.raises(
        InvalidDemonstrations, match=r"trajectory 1 has the goal state 0.*there is none"
    ):
        tacit.recover(tacit.Trips(mdp, features, jumped))


def test_the_last_state_is_known_where_moves_are_certain(town):
    seen = town.demonstrations
    bare = Demonstrations(seen.states, seen.actions, seen.offsets)
    recovery = tacit.recover(tacit.Trips(town.mdp, town.features, bare, discount=1.0))
    told = tacit.recover(town)
    np.testing.assert_array_equal(recovery.parameters.estimates, told.parameters.estimates)
    assert Kind.ASSUMED in {f.kind for f in recovery.identification.findings}
    assert Kind.ASSUMED not in {f.kind for f in told.identification.findings}
    slippery = tacit.Trips(streets(slip=0.2), town.features, bare, discount=1.0)
    with pytest.raises(InvalidDemonstrations, match="trajectory 0 is not recorded"):
        tacit.recover(slippery)


def test_trajectories_that_did_not_end_are_dropped_or_kept_if_asked():
    mdp = networks.town(4)
    features = networks.attributes(mdp, 2, seed=1)
    policy = networks.soft_values(mdp, features.reward @ [1.0, 0.5])[1]
    whole = networks.travel(mdp, policy, 200, seed=4)
    cut = whole.truncate(4)
    assert 0 < cut.ended.sum() < 200
    dropped = tacit.recover(tacit.Trips(mdp, features, cut, unended="drop"), estimator=FREE)
    left = tacit.recover(mdp, features, cut.select(cut.ended), estimator=FREE)
    np.testing.assert_allclose(dropped.parameters.estimates, left.parameters.estimates, rtol=1e-6)
    # All ends are the network's own one here: without their goals the steps say the same.
    kept = tacit.recover(tacit.Trips(mdp, features, cut, unended="keep"), estimator=FREE)
    plain = tacit.recover(mdp, features, cut, estimator=FREE)
    np.testing.assert_allclose(kept.parameters.estimates, plain.parameters.estimates, rtol=1e-5)
    for recovery in (dropped, kept):
        (told,) = [f for f in recovery.identification.findings if f.kind is Kind.TRUNCATED]
        assert told.about.number == (~cut.ended).sum()
    with pytest.raises(InvalidModel, match="unended must be one of"):
        tacit.Trips(mdp, features, cut, unended="guess")
    endless = tacit.Trips(streets(), features, cut, discount=1.0, unended="keep")
    with pytest.raises(InvalidModel, match="end where the network does"):
        tacit.recover(endless)


# --- the answer ----------------------------------------------------------------------------------


def test_one_goal_is_solved_if_asked(town):
    recovery = tacit.recover(town)
    table = town.features.reward @ recovery.parameters.estimates
    for goal in (3, 0):  # nobody went to 0
        solution = recovery.solve(goal)
        assert solution.status is tacit.Status.CONVERGED
        world = goal_world(town.mdp, goal, town.mdp.initial, 1.0)
        values, policy = networks.soft_values(world, at_ends(town.mdp, world, table[None])[0])
        np.testing.assert_allclose(solution.policy, policy, atol=1e-7)
        np.testing.assert_allclose(
            solution.values / recovery.temperature, values, rtol=1e-7, atol=1e-7
        )
    with pytest.raises(InvalidModel, match=r"a name or a number in 0\.\.15; got 99"):
        recovery.solve(99)


def test_a_shared_price_is_found_and_an_idle_one_is_not():
    mdp = streets()
    features = lengths(mdp, 2, costs=2)
    features = Features(-features.reward, [features.costs[0][..., :1], features.costs[0][..., 1:]])
    table = features.reward @ [1.5, 0.5] - 1.2 * features.costs[0][..., 0]
    seen = travelled(mdp, table, 300, GOALS, seed=3)
    recovery = tacit.recover(
        tacit.Trips(mdp, features, seen, discount=1.0), estimator=tacit.Likelihood()
    )
    kinds = {f.kind: f.about.constraint for f in recovery.identification.findings}
    assert kinds[Kind.ACTIVE] == 0
    assert kinds[Kind.INACTIVE] == 1
    np.testing.assert_array_equal(recovery.identification.active, [True, False])
    found = recovery.parameters
    z = (found.estimates[:3] - [1.5, 0.5, 1.2]) / found.standard_errors[:3]
    assert np.abs(z).max() < 3.0
    spent = [recovery.solve(g).spent[0] for g in recovery.destinations]
    assert np.mean(spent) == pytest.approx(recovery.budgets[0], rel=1e-6)
    assert recovery.budgets[1] == np.inf


def test_a_summary_a_folder_and_other_estimators(town, tmp_path):
    recovery = tacit.recover(town)
    assert "trips to 4 goals" in recovery.summary()
    recovery.save(tmp_path / "run")
    again = type(recovery).load(tmp_path / "run")
    np.testing.assert_array_equal(again.parameters.estimates, recovery.parameters.estimates)
    np.testing.assert_allclose(again.solve(3).policy, recovery.solve(3).policy, rtol=1e-12)
    with pytest.raises(InvalidModel, match="trips are recovered by Likelihood"):
        tacit.recover(town, estimator=tacit.Convex())
    with pytest.raises(InvalidModel, match="their own features"):
        tacit.recover(town, town.features)
    with pytest.raises(InvalidModel, match="share_reward"):
        tacit.recover(town, share_reward=True)


def test_a_search_can_be_watched_and_stopped(town):
    seen = []
    tacit.recover(town, callbacks=[lambda event: seen.append(event.step)])
    assert len(seen) >= 2
    stopped = tacit.recover(town, callbacks=[lambda event: True], throw=False)
    assert stopped.status is tacit.RecoveryStatus.NOT_CONVERGED


# --- whether it fits, and flows ------------------------------------------------------------------


def test_places_have_the_policy_to_their_goal_and_flows_add_up(town):
    recovery = tacit.recover(town)
    chosen = recovery.choices(town.demonstrations)
    for goal in np.unique(recovery.destinations).tolist():
        rows = chosen.goals == goal
        policy = recovery.solve(goal).policy[chosen.states[rows]]
        np.testing.assert_allclose(chosen.policy[rows], policy, atol=1e-7)
        np.testing.assert_array_equal(
            chosen.available[rows], trimmed(town.mdp, goal)[chosen.states[rows]]
        )
    seen = town.demonstrations
    taken = chosen.policy[chosen.steps.states, chosen.steps.actions]
    assert np.log(taken).sum() == pytest.approx(recovery.log_likelihood, rel=1e-9)
    # Scores have mean 0 under the policy.
    means = np.einsum("ma,dma->dm", chosen.policy, chosen.scores)
    np.testing.assert_allclose(means, 0.0, atol=1e-9)
    counts = np.zeros(town.mdp.available.shape)
    for goal, number in zip(*np.unique(recovery.destinations, return_counts=True), strict=True):
        visits = recovery.solve(int(goal)).visitation.copy()
        visits[goal] = 0.0
        counts += number * visits
    np.testing.assert_allclose(recovery.flows, counts, rtol=1e-6, atol=1e-7)
    # At the maximum, complete trips use in all what was seen: the sums of the features agree.
    sums = np.einsum("sad,sa->d", town.features.reward, recovery.flows)
    own = np.einsum("sad,sa->d", town.features.reward, seen.counts(town.mdp))
    np.testing.assert_allclose(sums, own, rtol=1e-7)
    slow = tacit.Trips(town.mdp, town.features, seen, discount=1 - 1e-9)
    np.testing.assert_allclose(tacit.recover(slow).flows, recovery.flows, atol=1e-4)


def test_a_missing_feature_does_not_fit_and_errors_are_then_sandwich_ones(town):
    table = town.features.reward @ [-6.0, 5.0, -5.0]
    seen = travelled(town.mdp, table, 600, GOALS, seed=9)
    bare = tacit.Trips(town.mdp, Features(town.features.reward[..., :1]), seen, discount=1.0)
    recovery = tacit.recover(bare)
    assert recovery.goodness.failed[0] == "actions"
    assert recovery.identification.findings[0].kind is Kind.MISFIT
    assert recovery.parameters.errors == "clustered"
    assert len(recovery.goodness.trajectory_residuals) == 600
    worst = recovery.goodness.worst
    taken = seen.counts(town.mdp)[worst.state]
    assert worst.observed == pytest.approx(taken[worst.action] / taken.sum())
    whole = tacit.recover(tacit.Trips(town.mdp, town.features, seen, discount=1.0))
    assert whole.goodness.adequate
    assert whole.goodness.statistic < recovery.goodness.statistic
    fits = tacit.checks.trajectory_fits(recovery, seen)
    assert sorted(fits.episode) == list(range(600))
    total = float(fits.log_likelihood @ fits.steps)
    assert total == pytest.approx(recovery.log_likelihood, rel=1e-9)


# --- what if -------------------------------------------------------------------------------------


@pytest.mark.parametrize("discount", [1.0, 0.95])
def test_closing_a_link_and_changing_an_attribute_is_solving_anew(town, discount):
    trips = tacit.Trips(town.mdp, town.features, town.demonstrations, discount=discount)
    recovery = tacit.recover(trips)
    same = recovery.counterfactual(draws=0)
    np.testing.assert_allclose(same.flows.estimate, recovery.flows, rtol=1e-6, atol=1e-8)
    assert (float(same.surplus.estimate), same.lost) == (pytest.approx(0.0, abs=1e-12), 0)
    shut = [(5, 1), (9, 2)]
    found = recovery.counterfactual(closed=shut, draws=0)
    there = town.mdp.available.copy()
    there[tuple(np.transpose(shut))] = False
    other = MDP(town.mdp.transitions, town.mdp.initial, 0.9, available=there)
    table, flows, worth = town.features.reward @ recovery.parameters.estimates, 0.0, 0.0
    for goal in np.unique(recovery.destinations).tolist():
        begun = np.bincount(recovery.origins[recovery.destinations == goal], minlength=16)
        values = []
        for network in (other, town.mdp):
            world = goal_world(network, goal, begun / begun.sum(), discount)
            value, policy = networks.soft_values(world, at_ends(network, world, table[None])[0])
            values.append(value)
            if network is other:
                arrived, left = np.zeros(16), begun.astype(float)
                for _ in range(2000):
                    arrived, left = arrived + left, discount * other.inflow(left[:, None] * policy)
                flows = flows + np.where(world.ends, 0.0, arrived)[:, None] * policy
        worth += begun @ (values[0] - values[1])
    np.testing.assert_allclose(found.flows.estimate, flows, atol=1e-6)
    surplus = float(found.surplus.estimate)
    assert surplus == pytest.approx(worth / 150, rel=1e-6)
    assert surplus < 0.0
    # A link that grows longer by one per cent, and no other.
    longer = town.features.reward.copy()
    longer[5, 1, 0] *= 1.01
    moved = recovery.counterfactual(features=Features(longer), draws=0)
    assert moved.flow_change.estimate[5, 1] < 0.0
    np.testing.assert_allclose(moved.before.flows, recovery.flows, rtol=1e-6, atol=1e-8)


def test_trips_without_a_way_are_counted_and_states_can_be_closed(town):
    recovery = tacit.recover(town)
    found = recovery.counterfactual(closed=[3], draws=0)  # a goal
    assert found.lost == (recovery.destinations == 3).sum()
    assert found.sentences[1].kind is Kind.UNATTAINABLE
    assert found.flows.estimate[town.mdp.dense()[:, :, 3] > 0].sum() == 0.0
    # Those that have a way lose by it: they, and not all trips, are what they are held against.
    table, worth = town.features.reward @ recovery.parameters.estimates, 0.0
    there = town.mdp.available & ~(town.mdp.dense()[:, :, 3] > 0)
    other = MDP(town.mdp.transitions, town.mdp.initial, 0.9, available=there)
    for goal in sorted({*recovery.destinations.tolist()} - {3}):
        begun = np.bincount(recovery.origins[recovery.destinations == goal], minlength=16)
        for network, sign in ((other, 1.0), (town.mdp, -1.0)):
            world = goal_world(network, goal, begun / begun.sum(), 1.0)
            value, _ = networks.soft_values(world, at_ends(network, world, table[None])[0])
            worth += sign * float(begun @ value)
    surplus = float(found.surplus.estimate)
    assert surplus == pytest.approx(worth / (recovery.destinations != 3).sum(), rel=1e-6)
    assert surplus < 0.0
    shut = tuple(np.argwhere(~town.mdp.available)[0].tolist())  # a slip would change nothing
    for closed, words in (
        ([shut], "is not available in state"),
        ([(99, 0)], r"a name or a number in 0\.\.15; got 99"),
        ([-1], r"a name or a number in 0\.\.15; got -1"),
        ([("here", "there")], "no node is called 'here'"),
        ([(0, 1, 2)], r"or pairs of node and action; got \[0, 1, 2\]"),
    ):
        with pytest.raises(InvalidModel, match=words):
            recovery.counterfactual(closed=closed)


def test_one_task_answers_too():
    mdp = networks.town(3, 0.9)
    features = networks.attributes(mdp, 2, seed=1, costs=1)
    table = features.reward @ [1.0, 0.5] - 0.8 * features.costs[0][..., 0]
    seen = networks.travel(mdp, networks.soft_values(mdp, table)[1], 200, seed=4)
    found = tacit.recover(mdp, features, seen, estimator=tacit.Likelihood())
    same = found.counterfactual(draws=0)
    np.testing.assert_allclose(same.flows.estimate, found.solution.visitation, atol=1e-6)
    points, scaled = found.parameters.estimates, features.reward * [1.01, 1.0]
    policy = networks.soft_values(mdp, scaled @ points[:2] - features.costs[0][..., 0] * points[2])[
        1
    ]
    policy[mdp.ends] = 1.0 / mdp.actions
    moved = found.counterfactual(features=Features(scaled, features.costs), draws=0)
    np.testing.assert_allclose(moved.flows.estimate, visits(mdp, policy), atol=1e-6)
    with pytest.raises(InvalidModel, match="needs the world"):
        dataclasses.replace(found, origin=None).counterfactual()


def visits(mdp, policy) -> np.ndarray:
    """[S, A] discounted visits, by adding up step after step."""
    total, left = np.zeros(mdp.states), mdp.initial.copy()
    for _ in range(600):
        total = total + left
        left = mdp.discount * mdp.inflow(np.where(mdp.ends, 0.0, left)[:, None] * policy)
    return total[:, None] * policy


# --- link sizes ----------------------------------------------------------------------------------


def test_a_link_size_is_the_expected_use_by_a_mean_trip(town):
    theta = {"reward feature 0": -1.2, 2: 0.1}
    found = tacit.checks.link_size(town, theta)
    mdp, seen = town.mdp, town.demonstrations
    table, uses = town.features.reward @ [-1.2, 0.0, 0.1], np.zeros((16, 4))
    origins = seen.states[seen.offsets[:-1]]
    for goal in np.unique(town.goals):
        world = goal_world(mdp, int(goal), mdp.initial, 1.0)
        policy = networks.soft_values(world, at_ends(mdp, world, table[None])[0])[1]
        chain = np.einsum("sa,sat->st", policy, mdp.dense())
        begun = np.bincount(origins[town.goals == goal], minlength=16).astype(float)
        uses += np.linalg.solve(np.eye(16) - chain.T, begun)[:, None] * policy
    np.testing.assert_allclose(found.values[..., 0], uses / seen.episodes, atol=1e-9)
    assert found.names == ("link size",)
    longer = town.with_features(found)
    assert longer.features.reward_names[-1] == "link size"
    wide, plain = tacit.recover(longer), tacit.recover(town)
    assert wide.log_likelihood >= plain.log_likelihood  # the models are nested
    with pytest.raises(InvalidModel, match="circles"):
        tacit.checks.link_size(town, {"reward feature 0": 1.0})
    with pytest.raises(InvalidModel, match="did you mean"):
        tacit.checks.link_size(town, {"reward featur 0": 1.0})


# --- trips drawn again ---------------------------------------------------------------------------


def test_trips_held_out_are_scored_by_the_others(town):
    held = tacit.checks.holdout(town, share=0.2, seed=3)
    rest = dataclasses.replace(town, demonstrations=town.demonstrations.select(held.kept))
    fitted, new = tacit.recover(rest), town.demonstrations.select(held.held)
    told = tacit.checks.score(fitted, new)
    assert held.recovered.log_likelihood * held.steps == pytest.approx(told.log_likelihood)
    assert held.uniform.log_likelihood * held.steps == pytest.approx(told.null_log_likelihood)
    assert held.uniform.share_optimal == pytest.approx(told.null_hit_rate)
    assert held.recovered.share_optimal == pytest.approx(told.hit_rate)


@pytest.mark.study
def test_equal_groups_of_trips_are_rejected_as_often_as_they_should():
    mdp = streets()
    table = lengths(mdp, 2)
    p_values, half = [], np.arange(80) % 2
    for seed in range(6):
        seen = travelled(mdp, table.reward @ TRUTH[:2], 80, GOALS, seed=seed)
        trips = tacit.Trips(mdp, table, seen, discount=1.0)
        p_values.append(tacit.checks.equal_weights_test(trips, groups=half).p_value)
    # Uniform: six draws, each below .001 once in a thousand; and not all on one side.
    assert min(p_values) > 1e-3
    assert 0.2 < np.mean(p_values) < 0.8
    other = travelled(mdp, table.reward @ [-2.5, 0.7], 40, GOALS, seed=99)
    both = [(one.trajectory(e), one.final_states[e]) for one in (seen, other) for e in range(40)]
    drawn = [((*states, last), actions) for (states, actions), last in both]
    mixed = Demonstrations.from_trajectories(drawn, ended=np.ones(80, bool))
    apart = tacit.Trips(mdp, table, mixed, discount=1.0)
    test = tacit.checks.equal_weights_test(apart, groups=np.repeat([0, 1], 40))
    assert test.p_value < 0.01
    assert test.degrees == 2
    # The ratio is that of the three fits, and dealing agrees with its law.
    likely = [
        tacit.recover(tacit.Trips(mdp, table, mixed.select(who), discount=1.0)).log_likelihood
        for who in (range(40), range(40, 80), range(80))
    ]
    assert test.ratio == pytest.approx(2 * (likely[0] + likely[1] - likely[2]), rel=1e-6)
    dealt = tacit.checks.equal_weights_test(apart, groups=np.repeat([0, 1], 40), draws=19)
    assert dealt.p_value == pytest.approx(1 / 20)


def test_resampled_trips_scatter_as_their_errors_say(town):
    plain = tacit.recover(town)
    drawn = tacit.recover(town, bootstrap=60, seed=1)
    ours = drawn.identification.reward_standard_errors
    theirs = plain.identification.reward_standard_errors
    # 60 draws know a deviation to 9 %, 150 trips the law of their scores to about 15.
    np.testing.assert_allclose(ours, theirs, rtol=0.5)
    assert not np.array_equal(ours, theirs)
    np.testing.assert_array_equal(drawn.reward_weights, plain.reward_weights)


def test_what_no_resample_moves_off_its_bound_keeps_an_honest_interval(town):
    """Percentiles of numbers that are all 0 are [0, 0], as if nothing else were possible."""
    name = town.features.reward_names[0]
    held = tacit.Likelihood(free_reward=True, bounds={name: (0.0, None)})  # it is negative
    plain = tacit.recover(town, estimator=held)
    drawn = tacit.recover(town, estimator=held, bootstrap=4, seed=1)
    low, high = drawn.identification.reward_intervals[0]
    assert plain.reward_weights[0] == 0.0
    assert low == 0.0 < high
    np.testing.assert_array_equal((low, high), plain.identification.reward_intervals[0])


def test_trips_are_held_out_with_their_own_features(town):
    with pytest.raises(InvalidModel, match="trips hold their features"):
        tacit.checks.holdout(town, town.features)
    with pytest.raises(InvalidModel, match="trips hold their features"):
        tacit.checks.equal_weights_test(town, town.features, groups=np.zeros(150))
    with pytest.raises(InvalidModel, match="got fewer"):
        tacit.checks.holdout(town.mdp)
    with pytest.raises(InvalidModel, match="got fewer"):
        tacit.checks.equal_weights_test(town.mdp)


# --- which assumption is wrong -------------------------------------------------------------------


def together(*parts: Demonstrations) -> Demonstrations:
    """Trips of several travellers, each a group."""
    trips = [
        (np.r_[one.trajectory(e)[0], one.final_states[e]], one.trajectory(e)[1])
        for one in parts
        for e in range(one.episodes)
    ]
    groups = np.repeat(["x", "y"], [one.episodes for one in parts])
    return Demonstrations.from_trajectories(trips, ended=np.ones(len(trips), bool), groups=groups)


@pytest.mark.study
def test_the_assumption_that_trips_contradict_is_named(town):
    mdp, features, table = town.mdp, town.features, town.features.reward @ TRUTH
    avoided = table.copy()
    avoided[5] -= 1.5
    half = town.demonstrations, travelled(mdp, 2.5 * table, 150, GOALS, seed=1)
    cases = {
        None: town.demonstrations,
        "another discount": travelled(mdp, table, 200, GOALS, discount=0.7),
        "a feature more": travelled(mdp, avoided, 150, GOALS),
        "a noise by group": together(*half),
        "lapses": travelled(mdp, table, 400, GOALS, lapses=0.1),
    }
    for planted, seen in cases.items():
        trips = tacit.Trips(mdp, features, seen, discount=1.0)
        found = tacit.checks.diagnose(trips)
        assert [row.alternative for row in found.contradicted][:1] == [planted] * bool(planted)
        assert found.log_likelihood == pytest.approx(-best(trips).loss)
        assert found.observed_steps == seen.steps


def test_discounts_of_trips_are_compared(town):
    seen = travelled(town.mdp, town.features.reward @ TRUTH, 200, GOALS, discount=0.7)
    trips = tacit.Trips(town.mdp, town.features, seen, discount=1.0)
    profile = tacit.checks.discount_profile(trips, None, None, [0.7, 1.0])
    assert profile.inside.tolist() == [True, False]
    assert profile.assumed == 1.0
    alone = tacit.recover(dataclasses.replace(trips, discount=0.7))
    assert profile.log_likelihood[0] == pytest.approx(alone.log_likelihood)
    with pytest.raises(InvalidModel, match=r"\[0, 1\]"):
        tacit.checks.discount_profile(trips, None, None, [1.1])


@pytest.mark.parametrize(("pay", "finite"), [(-1e-3, True), (-1e-6, True), (0.0, False)])
def test_values_at_the_border_of_finite_ones_are_not_found(pay, finite):
    """Staying for `pay` or leaving for nothing: exp(V) = 1 / (1 - exp(pay)), infinite at 0.

    There the residual vanishes by rounding, as every step of Newton's still raises the values by 1.
    """
    moves = np.zeros((2, 2, 2))
    moves[0, 0, 0] = moves[0, 1, 1] = moves[1, 0, 0] = moves[1, 1, 0] = 1.0
    mdp = MDP(moves, [1.0, 0.0], 0.9)
    table = np.zeros((2, 2, 1))
    table[0, 0, 0] = 1.0
    seen = Demonstrations.from_trajectories([([0, 0, 1], [0, 1])], ended=[True])
    journeys = tacit.Trips(mdp, Features(table), seen, discount=1.0).journeys()[0]
    columns = goals.Columns(journeys, 1e-8)
    left = goals.GoalSteps(
        np.array([[True, True], [False, False]])[..., None], *np.zeros((3, 2, 1))
    )
    scale = Design.of(mdp, Features(table)).scales[0]
    level = columns.level(np.array([pay * scale]), left, np.zeros((2, 1)))
    assert level.found.tolist() == [finite]
    if finite:
        assert level.values[0, 0] == pytest.approx(-np.log(-np.expm1(pay)), rel=1e-9)


def test_trips_of_one_individual_are_not_independent():
    """Copies of every trip, each set of copies one individual's: no more is known than before."""
    town = streets()
    features = lengths(town)
    seen = travelled(town, features.reward @ TRUTH, 150, GOALS)
    many = seen.episodes
    copies = seen.select(np.tile(np.arange(many), 8))
    named = dataclasses.replace(
        copies, individuals=np.array([f"p{i % many}" for i in range(8 * many)])
    )
    found = [
        tacit.recover(tacit.Trips(town, features, walks, discount=1.0))
        for walks in (seen, named, copies)
    ]
    one, alike, apart = (one.parameters.with_errors("clustered") for one in found)
    # 5 %: the correction for few steps counts steps, of which the copies have eight times as many.
    np.testing.assert_allclose(alike.standard_errors, one.standard_errors, rtol=0.05)
    np.testing.assert_allclose(apart.standard_errors * np.sqrt(8), one.standard_errors, rtol=0.05)
    said = [one.identification.findings for one in found]
    units = [any(f.kind == Kind.ERRORS and "individuals" in f for f in one) for one in said]
    assert units == [False, True, False]
    halves = np.arange(many) % 2
    tests = [
        tacit.checks.equal_weights_test(
            tacit.Trips(town, features, walks, discount=1.0), groups=groups, draws=9
        )
        for walks, groups in ((seen, halves), (named, np.tile(halves, 8)))
    ]
    # Of the names, in order: p0, p1, p10, ...
    assert tests[1].ratio == pytest.approx(8 * tests[0].ratio, rel=1e-5)
    assert ["individuals" in test.law for test in tests] == [False, True]
