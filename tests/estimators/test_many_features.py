"""Very many features: adjoint gradients, products with the curvature, priors, and what is said."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import tacit
from experts import few_successors
from tacit.cli import BadArguments, parse
from tacit.data.tally import tally_of
from tacit.estimators import strength
from tacit.estimators.strength import STRENGTHS, penalty_of
from tacit.inference.findings import Kind
from tacit.likelihood import products, steps
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.rescue import FAR
from tacit.likelihood.start import Bounds
from tacit.likelihood.steps import StepsChain
from tacit.model.features import Ridge, Smooth
from tacit.model.features.design import Design
from walks import problem

SIDE = 6
FREE = {"free_reward": True}


def grid(side=SIDE, discount=0.9, *, ends=False):
    """A grid with 4 moves of which one in five slips; its last cell ends episodes, if asked."""
    cells = side * side
    table = np.zeros((cells, 4, cells))
    for s in range(cells):
        row, column = divmod(s, side)
        for a, (down, right) in enumerate(((0, 1), (1, 0), (0, -1), (-1, 0))):
            r, c = np.clip([row + down, column + right], 0, side - 1)
            table[s, a, r * side + c] += 0.8
            table[s, a, s] += 0.2
    available = np.ones((cells, 4), bool)
    if ends:
        available[-1] = False
        table[-1] = 0.0
    start = np.zeros(cells)
    start[:side] = 1.0 / side
    return tacit.MDP(table, start, discount, available=available if ends else None)


def shown(mdp, reward, *, trajectories=40, steps=12, seed=0):
    """Trajectories of a demonstrator with noise 1."""
    solution = tacit.solve(mdp, tacit.Objective(reward), solver=tacit.SoftDual(temperature=1.0))
    return tacit.simulate(mdp, solution.policy, trajectories=trajectories, steps=steps, seed=seed)


@pytest.fixture(scope="module")
def world():
    mdp = grid()
    reward = np.random.default_rng(0).normal(size=mdp.states)
    return mdp, reward, shown(mdp, reward)


@pytest.fixture(scope="module")
def ending():
    mdp = grid(4, 1.0, ends=True)
    random = np.random.default_rng(1)
    costs = np.c_[np.ones(16), random.uniform(size=(16, 2))]
    features = tacit.Features(-costs)
    weights = np.array([1.6, 0.5, 0.4])
    return mdp, features, shown(mdp, -costs @ weights, steps=60, seed=2)


def loss_of(mdp, features, demonstrations, *, penalty=None):
    design = Design.of(mdp, features)
    return StepsChain.of(mdp, design, demonstrations, penalty=penalty).loss


def problem_of(mdp, features, demonstrations, *, penalty=None, free=True):
    chain = StepsChain.of(mdp, Design.of(mdp, features), demonstrations, penalty=penalty)
    bounds = Bounds.of(chain.space, tacit.Likelihood(free_reward=free))
    return LikelihoodProblem.of(chain, bounds.lower, bounds.upper)


@pytest.mark.parametrize("case", ["world", "ending"])
def test_curvature_written_in_blocks_is_what_its_products_say(case, request, monkeypatch):
    monkeypatch.setattr(products, "BLOCK", 7)  # of 36 and 16 states
    mdp, features, demonstrations = request.getfixturevalue(case)
    if case == "world":
        by_pair = np.random.default_rng(3).normal(size=(mdp.states, mdp.actions, 2))
        features = tacit.Features(sp.eye(mdp.states), [by_pair])
    loss = loss_of(mdp, features, demonstrations)
    nothing, wide = np.zeros(loss.design.size), np.full(loss.design.size, np.inf)
    bent = loss.finite_start(nothing, -wide, wide, 1e-9).curvature
    each = np.stack([bent @ row for row in np.eye(loss.design.size)])
    # The linear systems inside are solved to 1e-10 of their right sides.
    close = {"atol": 1e-8 * np.abs(each).max()}
    np.testing.assert_allclose(bent.in_blocks(), each, **close)
    np.testing.assert_allclose(bent.written_out(), each, **close)


def test_steps_from_blocks_and_from_products_end_at_the_same_weights(world, monkeypatch):
    """Where bounds hold some weights: each way alone, since the others are taken from it."""
    mdp, _, demonstrations = world
    rng = np.random.default_rng(4)
    features = tacit.Features(rng.uniform(size=(36, 8)), [rng.uniform(size=(36, 4))])
    ways = [(200, products.WRITTEN_OUT, 10**9)]
    ways += [(5, written, values) for _, written, values in (*ways, (0, 0, 10**9), (0, 0, 0))]
    places = []
    for many, written, values in ways:
        monkeypatch.setattr(steps, "MANY_FEATURES", many)
        monkeypatch.setattr(products, "WRITTEN_OUT", written)
        monkeypatch.setattr(products, "VALUES", values)
        problem = problem_of(mdp, features, demonstrations, free=False)
        assert problem.chains[0].by_products == (many == 5)
        end = problem.minimum(np.zeros(12), tolerance=1e-9, max_steps=100)
        assert end.converged
        places.append(end.z)
    assert (places[0] == 0.0).any()
    for other in places[1:]:
        np.testing.assert_allclose(other, places[0], atol=1e-5)


def test_a_search_that_overshoots_comes_back(world, monkeypatch):
    """Beyond where parameters are taken for infinite, and not for good."""
    mdp, _, demonstrations = world
    monkeypatch.setattr(steps, "MANY_FEATURES", 2)
    features = tacit.Features(np.random.default_rng(5).uniform(size=(36, 3)))
    problem = problem_of(mdp, features, demonstrations)
    end = problem.minimum(np.array([2.0 * FAR, 0.0, 0.0]), tolerance=1e-9, max_steps=100)
    assert end.converged
    assert np.abs(end.z).max() < FAR


@pytest.mark.parametrize("case", ["world", "ending"])
def test_gradient_is_the_slope_of_the_log_likelihood(case, request):
    mdp, features, demonstrations = request.getfixturevalue(case)
    if case == "world":
        features = tacit.Features(sp.eye(mdp.states), [np.arange(mdp.states)[:, None] % 3])
    loss = loss_of(mdp, features, demonstrations)
    x = np.random.default_rng(2).normal(size=loss.design.size)
    x = np.array([2.0, 0.3, 0.2]) if case == "ending" else x
    place = loss.at(x, np.zeros(mdp.states), 1e-10)
    # The loss is minus the log-likelihood of the observed actions, found here step by step.
    seen = [(s, a) for s, a in zip(demonstrations.states, demonstrations.actions, strict=True)]
    likely = sum(np.log(place.policy[s, a]) for s, a in seen)
    assert place.loss == pytest.approx(-likely, rel=1e-9)
    for j in range(0, loss.design.size, 7):
        ahead, behind = (x + step * np.eye(len(x))[j] for step in (1e-4, -1e-4))
        up, down = (loss.at(y, place.values, 1e-11).loss for y in (ahead, behind))
        # Central differences err by the third derivative times the squared step.
        assert place.gradient[j] == pytest.approx((up - down) / 2e-4, rel=1e-4, abs=1e-4)


def test_products_are_those_of_the_curvature(world):
    mdp, _, _ = world
    features = tacit.Features(np.random.default_rng(3).uniform(size=(mdp.states, 4, 5)))
    design = Design.of(mdp, features)
    seen = np.random.default_rng(4).uniform(size=(mdp.states, 4))
    loss = products.Loss(
        mdp=mdp,
        design=design,
        start=mdp.initial,  # positive: the curvature is exact
        seen=seen,
        visits=seen.sum(axis=1),
        penalty=sp.csr_array(0.3 * np.eye(5)),
    )
    x = np.array([0.5, -1.0, 0.3, 0.0, 2.0])
    place = loss.at(x, np.zeros(mdp.states), 1e-10)
    bent = np.stack([place.curvature @ row for row in np.eye(5)])
    rows = [
        (loss.at(x + step, place.values, 1e-11).gradient - place.gradient) / 1e-5
        for step in 1e-5 * np.eye(5)
    ]
    np.testing.assert_allclose(bent, bent.T, atol=1e-8)
    np.testing.assert_allclose(bent, np.stack(rows), rtol=1e-3, atol=1e-4)


def test_agrees_with_the_search_that_writes_the_curvature_out(world):
    mdp, _reward, demonstrations = world
    random = np.random.default_rng(5)
    columns = random.uniform(size=(mdp.states, 4))
    features = tacit.Features(columns, [random.uniform(size=(mdp.states, 3))])
    space = Design.of(mdp, features)
    chain = replace(StepsChain.of(mdp, space, demonstrations), ridge=2.0)
    known = Bounds.of(space, tacit.Likelihood(**FREE))
    problem = LikelihoodProblem.of(chain, known.lower, known.upper)
    other = problem.minimum(np.zeros(7), tolerance=1e-9, max_steps=200)
    found = tacit.recover(
        mdp, features, demonstrations, estimator=tacit.Likelihood(prior=Ridge(2.0), **FREE)
    )
    # Both stop at a gradient of 1e-10 of its scale.
    np.testing.assert_allclose(
        found.parameters.estimates, other.z / space.scales, rtol=1e-5, atol=1e-7
    )
    assert found.certificate.projected_gradient <= 1e-9
    few = tacit.recover(mdp, features, demonstrations, estimator=tacit.Likelihood(level=1, **FREE))
    weak = tacit.Likelihood(level=1, prior=Ridge(1e-7), **FREE)
    many = tacit.recover(mdp, features, demonstrations, estimator=weak)
    np.testing.assert_allclose(many.reward_weights, few.reward_weights, atol=1e-5)
    free = np.isfinite(few.parameters.with_errors("fisher").standard_errors)
    free &= np.isfinite(many.parameters.standard_errors)
    assert free.sum() >= 4
    held = many.parameters.lower >= many.parameters.estimates
    if not held.any():
        np.testing.assert_allclose(
            many.parameters.standard_errors[free],
            few.parameters.with_errors("fisher").standard_errors[free],
            rtol=1e-3,
        )


def test_discount_one_with_ends(ending):
    mdp, features, demonstrations = ending
    plain = tacit.recover(mdp, features, demonstrations, estimator=tacit.Likelihood(**FREE))
    many = tacit.recover(
        mdp, features, demonstrations, estimator=tacit.Likelihood(prior=Ridge(1e-7), **FREE)
    )
    np.testing.assert_allclose(
        many.parameters.estimates, plain.parameters.estimates, rtol=1e-4, atol=1e-5
    )
    # Every state its own cost: all walks must still end.
    each = tacit.Features(sp.eye(mdp.states))
    found = tacit.recover(
        mdp, each, demonstrations, estimator=tacit.Likelihood(prior=Ridge(0.1), **FREE)
    )
    assert found.log_likelihood <= 0
    assert np.isfinite(found.solution.values).all()
    assert found.certificate.projected_gradient <= 1e-9


def test_sparse_and_dense_features_give_one_answer(world):
    mdp, _, demonstrations = world
    estimator = tacit.Likelihood(prior=Smooth(0.5), **FREE)
    one, two = (
        tacit.recover(mdp, tacit.Features(table), demonstrations, estimator=estimator)
        for table in (sp.eye(mdp.states).tocoo(), np.eye(mdp.states))
    )
    np.testing.assert_allclose(one.reward_weights, two.reward_weights, atol=1e-9)
    ends = (r.identification.reward_intervals for r in (one, two))
    np.testing.assert_allclose(*ends, atol=1e-7)
    assert one.certificate.feature_gap == pytest.approx(two.certificate.feature_gap)


@pytest.mark.parametrize("prior", [Ridge(1.0), Smooth(1.0)], ids=str)
def test_answers_by_products_are_those_of_the_written_out_law(world, monkeypatch, prior):
    mdp, _, demonstrations = world
    features = tacit.Features(sp.eye(mdp.states), [np.arange(mdp.states)[:, None] % 5])
    options = tacit.Likelihood(prior=prior, **FREE)
    whole = tacit.recover(mdp, features, demonstrations, estimator=options)
    monkeypatch.setattr(steps, "MANY_FEATURES", 20)
    monkeypatch.setattr(products, "WRITTEN_OUT", 0)
    asked = tacit.recover(mdp, features, demonstrations, estimator=options)
    # A constant, which changes nothing, is where each search leaves it.
    np.testing.assert_allclose(asked.reward_weights, whole.reward_weights, atol=1e-5)
    assert np.isnan(asked.identification.reward_intervals).all()
    assert np.isfinite(whole.identification.reward_intervals).all()
    random = np.random.default_rng(6)
    for _ in range(3):
        question = random.normal(size=mdp.states), [random.normal(size=1)]
        ends = (one.identification.interval(*question) for one in (asked, whole))
        np.testing.assert_allclose(*ends, rtol=1e-3)
    # The steps cannot tell a constant; the ridge can, by its own width; else it is a choice.
    unit = np.append(np.full(mdp.states, 1.0 / np.sqrt(mdp.states)), 0.0)
    width = 1.0 if isinstance(prior, Ridge) else 0.0
    covariance = whole.identification.answer.covariance
    assert unit @ covariance @ unit == pytest.approx(width, rel=1e-6, abs=1e-5)


def test_fits_that_choose_a_strength_end_where_they_are_asked_to(monkeypatch):
    """None of them walks about where its values are too coarse to see the loss fall."""
    mdp, prior = grid(8), Ridge()
    reward = np.random.default_rng(3).normal(size=mdp.states)
    seen, ends = shown(mdp, reward, trajectories=32, steps=8), []
    minimum = LikelihoodProblem.minimum

    def watched(*given, **rules):
        ends.append(minimum(*given, **rules))
        return ends[-1]

    monkeypatch.setattr(LikelihoodProblem, "minimum", watched)
    features, options = tacit.Features(sp.eye(mdp.states)), tacit.Likelihood(prior=prior, **FREE)
    found = tacit.recover(mdp, features, seen, estimator=options)
    trials = ends[: strength.FOLDS * (len(found.history["strength"]) - 1)]
    assert all(end.converged for end in trials)
    assert max(end.steps for end in trials) < strength.BRIEFLY


def test_a_prior_is_said_and_chosen_by_trajectories_held_out(world, tmp_path):
    mdp, reward, demonstrations = world
    features = tacit.Features(sp.eye(mdp.states))
    found = tacit.recover(
        mdp, features, demonstrations, estimator=tacit.Likelihood(prior=Ridge(), **FREE)
    )
    tried, held_out = found.history["strength"][:-1], found.history["held_out"][:-1]
    chosen = float(tried[np.argmax(held_out)])
    assert len(tried) >= 4
    assert chosen in STRENGTHS
    assert found.history["strength"][-1] == chosen
    said = [f for f in found.identification.findings if f.kind is Kind.ASSUMED]
    assert said[0].about.number == chosen
    assert held_out.max() > -np.log(4.0)
    again = tacit.recover(
        mdp, features, demonstrations, estimator=tacit.Likelihood(prior=Ridge(chosen), **FREE)
    )
    np.testing.assert_allclose(again.reward_weights, found.reward_weights, atol=1e-8)
    # It finds the reward better than chance: up to a constant and a scale.
    assert np.corrcoef(found.reward_weights, reward)[0, 1] > 0.4
    silent = [f for f in found.identification.findings if f.kind is Kind.NOT_IDENTIFIED]
    assert len(silent) == 2
    assert silent[1].about.number < mdp.states
    found.save(tmp_path / "run")
    loaded = tacit.Recovery.load(tmp_path / "run")
    question = np.arange(mdp.states) - 17.5
    assert loaded.identification.interval(question) == found.identification.interval(question)
    assert "prior=Ridge" in loaded.estimator
    assert loaded.summary()


def test_nothing_held_out_is_predicted(world):
    mdp, _, demonstrations = world
    few = demonstrations.select([0, 1]).truncate(2)
    estimator = tacit.Likelihood(prior=Smooth(), **FREE)
    found = tacit.recover(mdp, tacit.Features(sp.eye(mdp.states)), few, estimator=estimator)
    numbers = [f.about.number for f in found.identification.findings if f.about.number is not None]
    best, random = found.history["held_out"][:-1].max(), -np.log(4.0)
    assert (best <= random) == (best - random in numbers)


def test_more_than_a_few_hundred_features(tmp_path, monkeypatch):
    mdp = grid(15)
    reward = np.random.default_rng(0).normal(size=mdp.states)
    demonstrations = shown(mdp, reward, trajectories=12, steps=6)
    features = tacit.features.combine(tacit.features.one_hot(mdp.states))
    plain = tacit.recover(mdp, features, demonstrations, estimator=tacit.Likelihood(**FREE))
    assert plain.status is tacit.RecoveryStatus.EXPERT_DETERMINISTIC
    assert np.isnan(plain.identification.reward_intervals).all()
    ridge = tacit.Likelihood(prior=Ridge(1.0), **FREE)
    monkeypatch.setattr(products, "WRITTEN_OUT", 0)
    found = tacit.recover(mdp, features, demonstrations, estimator=ridge)
    assert np.isnan(found.identification.reward_intervals).all()
    assert np.isnan(found.parameters.standard_errors).all()
    assert np.isnan(found.parameters.intervals).all()
    low, high = found.identification.interval(np.eye(mdp.states)[3])
    assert low < found.reward_weights[3] < high
    said = [f for f in found.identification.findings if f.kind is Kind.ERRORS]
    assert len(said) == 1
    found.save(tmp_path / "run")
    loaded = tacit.Recovery.load(tmp_path / "run")
    assert loaded.identification.interval(np.eye(mdp.states)[3]) == (low, high)
    assert len(found.summary().splitlines()) < 90


def test_constraints_of_very_many_features():
    mdp = grid()
    random = np.random.default_rng(7)
    maps = [random.uniform(size=(mdp.states, 1)), random.uniform(size=(mdp.states, 205))]
    cost = maps[1][:, 0]
    demonstrations = shown(mdp, 3.0 * maps[0][:, 0] - 6.0 * cost, trajectories=400, steps=20)
    features = tacit.Features(maps[0], [maps[1]])
    ridge = tacit.Likelihood(prior=Ridge(1.0))
    found = tacit.recover(mdp, features, demonstrations, estimator=ridge)
    kept = found.identification
    assert kept.active.tolist() == [True]
    assert np.isnan(kept.p_values[0])
    assert (found.cost_weights[0] >= 0).all()
    assert found.cost_weights[0].sum() == pytest.approx(1.0)
    assert found.cost_weights[0].argmax() == 0
    assert found.budgets[0] == pytest.approx(found.solution.spent[0], rel=1e-6)
    low, high = kept.multiplier_intervals[0]
    assert low <= found.multipliers[0] <= high
    held = found.parameters.estimates <= 0.0
    assert held.any()
    ends = np.concatenate([kept.reward_intervals, kept.cost_intervals[0]])
    assert (ends[held, 0] == 0.0).all()
    assert (ends[held, 1] > 0.0).all()


def test_roughness_is_the_sum_of_squared_differences():
    mdp, layout = grid(3), tacit.worlds.hill_grid(seed=0).layout
    u = np.random.default_rng(8).normal(size=9)
    table = u.reshape(3, 3)
    truth = (np.diff(table, axis=0) ** 2).sum() + (np.diff(table, axis=1) ** 2).sum()
    assert u @ (Smooth().roughness(mdp) @ u) == pytest.approx(truth)
    pairs = Smooth(over=[[0, 8], [8, 0], [4, 4]])
    assert u @ (pairs.roughness(mdp) @ u) == pytest.approx((u[0] - u[8]) ** 2)
    square = replace(layout, rows=3, columns=3, state_names=())
    assert u @ (Smooth(over=square).roughness(mdp) @ u) == pytest.approx(truth)
    # Of features of pairs: the mean over actions.
    by_action = np.random.default_rng(9).uniform(size=(9, 4, 2))
    design = Design.of(mdp, tacit.Features(by_action))
    penalty = penalty_of(Smooth(), mdp, design)
    x = np.array([1.0, -2.0])
    mean = (by_action / np.ptp(by_action, axis=(0, 1))).mean(axis=1) @ x
    assert x @ (penalty @ x) == pytest.approx(mean @ (Smooth().roughness(mdp) @ mean))


def test_smooth_priors_are_equal_where_their_strengths_and_neighbours_are():
    assert Smooth(over=[[0, 1]]) == Smooth(over=[[0, 1]])
    assert Smooth(over=[[0, 1]]) != Smooth(over=[[0, 2]])
    assert Smooth(over=[[0, 1]]) != Smooth()
    assert Smooth(1.0) != Smooth(2.0)


def test_bad_input(world):
    mdp, _, demonstrations = world
    features = tacit.Features(sp.eye(mdp.states))
    for wrong in (0.0, -1.0, np.nan, "much", True):
        with pytest.raises(tacit.InvalidModel, match="strength"):
            Ridge(wrong)
    with pytest.raises(tacit.InvalidModel, match="pairs"):
        Smooth(over=[0, 1, 2])
    with pytest.raises(tacit.InvalidModel, match="states in 0"):
        Smooth(over=[[0, 36]]).roughness(mdp)
    with pytest.raises(tacit.InvalidModel, match="held out"):
        tacit.recover(
            mdp, features, tally_of(mdp, demonstrations), estimator=tacit.Likelihood(prior=Ridge())
        )
    with pytest.raises(tacit.InvalidModel, match="prior"):
        tacit.many.recover_many(
            mdp, features, [demonstrations], estimator=tacit.Likelihood(prior=Ridge())
        )
    with pytest.raises(tacit.InvalidModel, match=r"entry \(2, 0\) is nan"):
        tacit.Features(sp.csr_array([[0.0], [1.0], [np.nan]]))
    with pytest.raises(tacit.InvalidModel, match="non-empty"):
        tacit.Features(sp.csr_array((0, 3)))
    huge = tacit.Features(sp.eye(20_000))
    assert huge.sizes == (20_000,)
    with pytest.raises(tacit.InvalidModel, match="written out"):
        _ = huge.reward


def test_a_prior_by_the_command_line():
    def made(word: str):
        asked = parse(["recover", "somewhere", "--estimator", "likelihood", "--prior", word])
        return asked.options.make(problem("noisy"), seed=0)[0]

    assert made("ridge:0.5") == tacit.Likelihood(prior=Ridge(0.5))
    assert made("smooth").prior == Smooth()
    assert made("sparse").prior == tacit.features.Sparse()
    assert made("sparse:0.5").prior == tacit.features.Sparse(0.5)
    for word in ("lasso", "ridge:much", "ridge:-1"):
        with pytest.raises(tacit.InvalidModel, match=r"prior.*ridge|strength"):
            made(word)
    with pytest.raises(BadArguments, match="--prior is an option of likelihood"):
        parse(["recover", "somewhere", "--prior", "ridge"])


# What is tested -----------------------------------------------------------------------------------


def crowd(price: float, *, seed: int = 0, size: int = 40):
    """A random world of 30 states, `size` reward features and as many of each of two costs."""
    random = np.random.default_rng(seed)
    mdp = tacit.MDP(few_successors(random, 30, 3, 4), np.full(30, 1 / 30), 0.9)
    reward = random.uniform(size=(30, 3, size))
    costs = [random.uniform(size=(30, 3, size)) for _ in range(2)]
    wanted, refused = random.dirichlet(np.full(size, 0.1), 2)
    table = reward @ (4 * wanted) - price * (costs[0] @ refused)
    policy = tacit.solve(mdp, tacit.Objective(table), solver=tacit.SoftDual(temperature=1.0)).policy
    seen = tacit.simulate(mdp, policy, trajectories=100, steps=40, seed=seed)
    return mdp, tacit.Features(reward, costs), seen


def fitted_as_many(monkeypatch, mdp, features, seen):
    """The recovery by the engine and the law of many features, which begin at 200."""
    monkeypatch.setattr("tacit.likelihood.steps.MANY_FEATURES", 20)
    monkeypatch.setattr("tacit.inference.gauged_intervals.PROFILED", 20)
    monkeypatch.setattr("tacit.estimators.setting.PROFILED", 20)
    return tacit.Likelihood().fit(mdp, features, seen, throw=False)


def test_a_real_price_among_many_features_is_found(monkeypatch):
    found = fitted_as_many(monkeypatch, *crowd(5.0))
    assert found.identification.active.tolist() == [True, False]
    assert found.identification.p_values[0] <= 0.05
    assert found.goodness.adequate
    assert found.goodness.parts[0].p_value > 0.05
    assert {one.kind for one in found.identification.findings} >= {Kind.ACTIVE, Kind.INACTIVE}


def test_the_bound_of_a_chance_is_never_below_the_simulated_one(monkeypatch):
    mdp, features, seen = crowd(2.0, seed=1, size=20)
    ours = fitted_as_many(monkeypatch, mdp, features, seen).identification.p_values
    monkeypatch.setattr(products, "WRITTEN_OUT", 0)
    theirs = fitted_as_many(monkeypatch, mdp, features, seen)
    # Less the error of the simulated law.
    assert (theirs.identification.p_values >= ours - 0.01).all()
    assert np.isnan(theirs.goodness.p_value)


def test_a_model_of_many_features_that_does_not_fit_is_said_so(monkeypatch):
    mdp, features, seen = crowd(0.0, seed=3, size=15)
    random = np.random.default_rng(0)
    actions = np.where(random.random(seen.steps) < 0.5, seen.states % 3, seen.actions)
    odd = replace(seen, actions=actions)
    plain = fitted_as_many(monkeypatch, mdp, features, seen)
    found = fitted_as_many(monkeypatch, mdp, features, odd)
    assert plain.goodness.adequate
    assert not found.goodness.adequate
    assert found.identification.findings[0].kind is Kind.MISFIT
    monkeypatch.undo()
    smooth = tacit.Likelihood(prior=tacit.features.Ridge(1.0)).fit(mdp, features, odd, throw=False)
    assert not smooth.goodness.adequate


def test_few_features_of_a_large_world_are_not_written_out(world, monkeypatch):
    mdp, reward, seen = world
    features = tacit.Features(np.c_[reward, np.arange(36) % 5])
    chain = StepsChain.of(mdp, Design.of(mdp, features), seen)
    assert not chain.by_products
    monkeypatch.setattr("tacit.engine.backends.HOST_TABLES", 2 * 36 * 4 - 1)
    assert StepsChain.of(mdp, Design.of(mdp, features), seen).by_products


def test_a_prior_of_few_features_knows_bounds_individuals_and_the_temperature(world):
    mdp, reward, seen = world
    features = tacit.Features(np.c_[reward, np.arange(36) % 5])
    plain = tacit.Likelihood(prior=Ridge(1e-9), **FREE).fit(mdp, features, seen)
    named = replace(seen, individuals=np.arange(seen.episodes) // 2)
    known = tacit.Likelihood(prior=Ridge(1e-9), **FREE).fit(mdp, features, named)
    least = tacit.Likelihood(**FREE).fit(mdp, features, named)
    np.testing.assert_allclose(
        known.parameters.standard_errors, least.parameters.standard_errors, rtol=1e-5
    )
    low = float(plain.parameters.estimates[0]) + 0.1
    name = plain.parameters.names[0]
    held = tacit.Likelihood(prior=Ridge(1.0), bounds={name: (low, None)}, **FREE)
    assert held.fit(mdp, features, seen).parameters.estimates[0] == pytest.approx(low)
    warm = tacit.Likelihood(prior=Ridge(1.0), temperature=2.0).fit(mdp, features, seen)
    assert warm.temperature == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("prior", [tacit.features.Smooth(0.3), tacit.features.Ridge(0.3)], ids=str)
def test_a_feature_a_state_is_divided_by_at_once(prior):
    """The sparse system of the values is the curvature [S, S], written out and inverted."""
    from scipy.sparse import csr_array, eye_array

    from tacit.engine.kernels.systems import inverse_by_values

    mdp, rng = tacit.worlds.hill_grid(seed=0, size=6).mdp, np.random.default_rng(0)
    design = Design.of(mdp, tacit.Features(csr_array(eye_array(36))))
    policy = rng.dirichlet(np.ones(mdp.actions), size=36)
    visits = rng.poisson(2.0, size=36).astype(float)
    penalty = penalty_of(prior, mdp, design)
    bent = products.Information(
        mdp=mdp, design=design, policy=policy, visits=visits, penalty=penalty
    )
    whole = np.stack([bent @ row for row in np.eye(36)])
    right = rng.normal(size=36)
    right -= right.mean()  # nothing is known of what every state pays alike
    given = mdp.sparse(), policy, visits, mdp.discount, design.own_features
    divide = inverse_by_values(*given, penalty)
    held = 1e-4 * penalty.diagonal().mean() * np.eye(36)
    expected = np.linalg.solve(whole + held, right)
    np.testing.assert_allclose(divide(right), expected, rtol=1e-7, atol=1e-9)
    found, taken, left = bent.inverse_times(right, np.ones(36, bool), share=1e-6)
    assert taken <= 12
    assert left <= 1e-6
    np.testing.assert_allclose(whole @ found, right, atol=1e-5)


def test_states_on_no_plane_are_not_factorised():
    from tacit.engine.kernels.systems import inverse_by_values

    rng, states = np.random.default_rng(0), 900
    moves = tacit.MDP(
        tacit.Successors(rng.integers(0, states, (states, 2, 3)), np.full((states, 2, 3), 1 / 3)),
        np.full(states, 1 / states),
        0.9,
    ).sparse()
    from scipy.sparse import csr_array, eye_array

    ones = np.ones(states)
    penalty = csr_array(eye_array(states))
    assert inverse_by_values(moves, np.full((states, 2), 0.5), ones, 0.9, ones, penalty) is None
