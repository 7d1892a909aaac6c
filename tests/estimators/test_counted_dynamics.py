"""Counted dynamics: intervals that hold although the world itself was estimated from steps."""

import json
from dataclasses import replace

import numpy as np
import polars
import pytest

import oracles
import tacit
from experts import few_successors
from rates import coverage_verdict, rates_of
from tacit import MDP, Features, Likelihood
from tacit.cli import main
from tacit.dynamics.counted import CountedRows, chain_slopes
from tacit.engine.backends import backend_of
from tacit.estimators.tasks import SharedLikelihood
from tacit.folders.problem import Problem
from tacit.forward.solution import visitation
from tacit.inference.dynamics_noise import dynamics_noise
from tacit.inference.findings import Kind
from tacit.likelihood import products
from tacit.likelihood import steps as chains
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design
from tacit.model.transitions import Successors
from tacit.search.smooth_dual import point_at

THETA = np.array([2.0, 1.0, 1.5])


def world(rng: np.random.Generator, states: int = 12, actions: int = 3, successors: int = 3):
    """A random world with two reward features and one cost, and the policy of its noisy expert."""
    moves = few_successors(rng, states, actions, successors)
    mdp = MDP(moves, np.full(states, 1.0 / states), 0.9)
    features = Features(rng.random((states, actions, 2)), [rng.random((states, actions, 1))])
    maps = np.concatenate([features.reward, -features.costs[0]], axis=2)
    return mdp, features, oracles.soft_values(mdp, maps @ THETA, 1.0)[1]


def counted(mdp: MDP, steps: int, seed: int) -> MDP:
    """The same world as known from this many steps: states and actions at random."""
    rng = np.random.default_rng(seed)
    states, actions = rng.integers(mdp.states, size=steps), rng.integers(mdp.actions, size=steps)
    chances = mdp.dense()[states, actions].cumsum(axis=1)
    following = (chances < rng.random((steps, 1))).sum(axis=1).clip(max=mdp.states - 1)
    shape = {"n_states": mdp.states, "n_actions": mdp.actions}
    return MDP.from_transitions(
        states, actions, following, **shape, initial=mdp.initial, discount=mdp.discount
    )


def test_coefficients_hold_with_300_counted_steps():
    held = []
    for seed in range(40):
        mdp, features, policy = world(np.random.default_rng(seed))
        seen = tacit.simulate(mdp, policy, trajectories=100, steps=50, seed=seed)
        known = counted(mdp, 300, 1000 + seed)
        found = Likelihood(level=1.0).fit(known, features, seen, throw=False).parameters
        held.append((found.intervals.T[0] <= THETA) & (found.intervals.T[1] >= THETA))
    found = coverage_verdict(rates_of("300 counted steps", np.array(held)))
    assert found.reached, found


def test_the_command_line_and_the_library_give_the_same_intervals(tmp_path):
    mdp, features, policy = world(np.random.default_rng(7), states=6)
    seen = tacit.simulate(mdp, policy, trajectories=40, steps=30, seed=7)
    walk = tacit.simulate(mdp, np.full((6, 3), 1 / 3), trajectories=1, steps=300, seed=8)
    known = MDP.from_transitions(walk, n_states=6, n_actions=3, initial=mdp.initial, discount=0.9)
    Problem(known, features, seen).save(tmp_path / "world")
    asked = [str(tmp_path / "world"), "--out", str(tmp_path / "run"), "--no-report"]
    assert main(["recover", *asked, "--estimator", "likelihood"]) == 0
    run = tacit.Recovery.load(tmp_path / "run")
    plain = tacit.recover(known, features, seen, estimator=Likelihood(), throw=False)
    for one, other in ((run, plain), (plain, run)):
        assert np.isfinite(one.parameters.intervals).all()
        np.testing.assert_allclose(one.parameters.intervals, other.parameters.intervals)
        for name in ("reward_intervals", "multiplier_intervals", "budget_intervals"):
            ends = [getattr(each.identification, name) for each in (one, other)]
            np.testing.assert_allclose(*ends)
    ends = [one.identification.interval([1.0, -1.0], [[0.0]]) for one in (run, plain)]
    np.testing.assert_allclose(*ends)


def test_variances_are_those_of_redrawn_count_tables():
    """Brute force: the world counted anew from 4 000 steps, and the same behaviour refitted."""
    mdp, features, policy = world(np.random.default_rng(3), states=6)
    seen = tacit.simulate(mdp, policy, trajectories=300, steps=50, seed=1)
    known = counted(mdp, 4000, 5)
    noise, inverse = noise_of(known, features, seen)
    told = np.diagonal(inverse @ noise.scores @ inverse)
    fits = [fitted(counted(mdp, 4000, 100 + draw), features, seen).z for draw in range(300)]
    ratio = np.var(fits, axis=0) / told
    # A variance of 300 draws is known to sqrt(2 / 299), that of one table to some per cent more.
    np.testing.assert_allclose(ratio, 1.0, atol=4 * np.sqrt(2 / 299))


def test_slopes_are_those_of_finite_differences():
    mdp, features, policy = world(np.random.default_rng(3))
    seen = tacit.simulate(mdp, policy, trajectories=60, steps=50, seed=1)
    known = counted(mdp, 300, 5)
    fit, rows = fitted(known, features, seen), CountedRows.of(known)
    (steps,), (point,) = fit.problem.chains, fit.parts
    chain = {"policy": point.policy, "scores": steps.scores(point)}
    chain |= {"values": point.values, "tables": point.table_values}
    slopes = (
        chain_slopes(known, **chain, visits=point.visits, counts=steps.counts),
        chain_slopes(known, **chain, visits=visitation(known, point.policy).sum(axis=1)),
    )
    drawn = rows.errors(np.random.default_rng(0), rows.order(point.policy))
    error = 1e-5 * drawn * (rows.chances > 0)
    error -= rows.chances * error.sum(axis=2, keepdims=True)
    every = slice(0, known.states)
    told = [(one.at(rows, every) * error[..., None]).sum(axis=(0, 1, 2)) for one in slopes]

    def there(sign: float) -> np.ndarray:
        chances = rows.chances + sign * error
        states = np.broadcast_to(rows.states[:, None], chances.shape)
        moved = MDP(Successors(states, chances), known.initial, known.discount)
        start = steps.visits - moved.discount * moved.inflow(steps.counts)
        problem = steps.dual._replace(start=start)
        here = point_at(backend_of(moved), problem, point.x, point.values, 1e-12)
        spent = steps.space.pull_back(visitation(moved, here.policy))
        return np.stack([-np.asarray(here.gradient), spent])

    np.testing.assert_allclose(told, (there(1.0) - there(-1.0)) / 2, rtol=1e-4, atol=1e-10)


def test_the_covariance_is_that_of_drawn_errors():
    mdp, _, policy = world(np.random.default_rng(0), states=5)
    rows = CountedRows.of(counted(mdp, 60, 1))
    rng, order = np.random.default_rng(2), rows.order(policy)
    slopes = rng.random((*rows.chances.shape, 2))
    told = rows.covariance(lambda part: slopes[part])
    draws = [(slopes * rows.errors(rng, order)[..., None]).sum(axis=(0, 1, 2)) for _ in range(4000)]
    np.testing.assert_allclose(np.cov(np.transpose(draws)), told, atol=0.1 * told.max())
    assert np.abs(rows.errors(rng, order).sum(axis=2)).max() < 1e-12


def test_known_rows_have_no_error_and_rows_without_a_prior_are_believed():
    mdp, *_ = world(np.random.default_rng(0), states=5)
    assert CountedRows.of(mdp) is None
    steps = np.array([(0, 0, 1)] * 4 + [(0, 1, 2), (0, 1, 1), (1, 0, 1)])
    ended = MDP.from_transitions(
        *steps.T, n_states=4, n_actions=2, initial=0, discount=0.9, prior=0.0, absorbing=[3]
    )
    rows = CountedRows.of(ended)
    error = rows.errors(np.random.default_rng(0), rows.order(np.full((4, 2), 0.5)))
    assert np.abs(error[0, 0]).max() < 1e-3  # four times the same
    assert np.abs(error[0, 1]).max() > 0.01  # once there, once here
    assert np.array_equal(error[3], np.zeros_like(error[3]))
    assert rows.unseen_share(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx(1 / 6)  # 0 to 2, once


def test_unseen_next_states_are_said():
    mdp, features, policy = world(np.random.default_rng(1), successors=5)
    seen = tacit.simulate(mdp, policy, trajectories=200, steps=50, seed=1)
    shares = []
    for steps in (150, 20_000):
        known = Likelihood().fit(counted(mdp, steps, 2), features, seen, throw=False).identification
        shares.append(known.dynamics.unseen)
        kinds = (Kind.NOT_IDENTIFIED, shares[-1])
        assert (kinds in [(one.kind, one.about.number) for one in known.findings]) == (steps == 150)
    # The share itself, of 12 states with five next states each: within what Good and Turing allow.
    truth = unseen_share(mdp, counted(mdp, 150, 2), seen)
    assert shares[0] == pytest.approx(truth, abs=0.12)
    assert shares[1] < 0.001


def fitted(mdp: MDP, features: Features, seen: tacit.Demonstrations):
    return maximum(StepsChain.of(mdp, Design.of(mdp, features), seen), Likelihood())


def noise_of(mdp: MDP, features: Features, seen: tacit.Demonstrations):
    """What counted dynamics add to a fit without bounds, and the inverse of its information."""
    fit = fitted(mdp, features, seen)
    evidence = fit.evidence([seen])
    information = evidence[0].fisher
    by_chain = dynamics_noise(fit, evidence, information=information, free=fit.free)
    return by_chain.noise, np.linalg.inv(information)


def unseen_share(mdp: MDP, known: MDP, seen: tacit.Demonstrations) -> float:
    """Share of random steps, from where the demonstrations are, to states not seen to follow."""
    new = mdp.dense().mean(axis=1) * ~known.dense().any(axis=1)
    visits = seen.counts(mdp).sum(axis=1)
    return float(visits @ new.sum(axis=1) / visits.sum())


def test_tasks_from_one_log_have_the_errors_of_one_task():
    """Their rows err alike: only what the steps say is more, the more tasks there are."""
    mdp, features, policy = world(np.random.default_rng(5), states=6)
    known = counted(mdp, 300, 6)
    seen = tacit.simulate(mdp, policy, trajectories=80, steps=50, seed=2)
    halves = [seen.select(np.arange(80) % 2 == k) for k in (0, 1)]
    tasks = [tacit.Task(replace(known), features, half) for half in halves]
    shared = SharedLikelihood(share_reward=True, likelihood=Likelihood(level=1.0))
    joint = replace(shared, share_temperature=True).fit(tasks, throw=False)
    alone = Likelihood(level=1.0).fit(known, features, seen, throw=False)
    for found in joint.recoveries:
        # What a task refuses, a single feature, is its own.
        errors = [one.parameters.standard_errors[:2] for one in (found, alone)]
        np.testing.assert_allclose(*errors, rtol=0.05)
        assert found.identification.dynamics.growth > 1.5


def test_many_features_count_the_dynamics_as_few_do(monkeypatch, tmp_path):
    mdp, features, policy = world(np.random.default_rng(5), states=6)
    known = counted(mdp, 1000, 6)
    seen = tacit.simulate(mdp, policy, trajectories=80, steps=50, seed=2)
    few = Likelihood(level=1.0).fit(known, features, seen, throw=False)
    monkeypatch.setattr(chains, "MANY_FEATURES", 1)
    many = Likelihood(level=1.0).fit(known, features, seen, throw=False)
    plain = Likelihood(level=1.0).fit(replace(known, evidence=None), features, seen, throw=False)
    errors = [one.parameters.with_errors("fisher").standard_errors for one in (few, many, plain)]
    np.testing.assert_allclose(errors[1], errors[0], rtol=1e-6)
    assert (errors[1] > 1.1 * errors[2]).all()
    spent = [one.identification.budget_standard_errors for one in (few, many)]
    np.testing.assert_allclose(*spent, rtol=1e-6)
    dynamics = [one.identification.dynamics for one in (few, many)]
    assert dynamics[1].unseen == dynamics[0].unseen
    assert dynamics[1].attenuation == pytest.approx(dynamics[0].attenuation, abs=0.01)
    # By products, where nothing is written out: the same answer, which a file keeps.
    monkeypatch.setattr(products, "PARAMETERS", 1)
    asked = Likelihood(level=1.0).fit(known, features, seen, throw=False)
    asked.save(tmp_path / "run")
    read = tacit.Recovery.load(tmp_path / "run")
    question = [1.0, -0.5], [[0.3]]
    ends = [one.identification.interval(*question) for one in (many, asked, read)]
    np.testing.assert_allclose(ends[1], ends[0], atol=0.01)
    assert ends[2] == ends[1]
    assert asked.identification.dynamics.unseen == dynamics[0].unseen


def test_the_variance_of_a_row_is_that_of_its_steps_its_pool_and_its_pull():
    # From state 0: action 0 three times to 1 and once to 2, action 1 once to 0; a pseudo-count.
    steps = np.array([(0, 0, 1)] * 3 + [(0, 0, 2), (0, 1, 0), (1, 0, 1), (2, 0, 2)])
    known = MDP.from_transitions(*steps.T, n_states=3, n_actions=2, initial=0, discount=0.9)
    rows, f = CountedRows.of(known), np.array([1.0, 5.0, -2.0])
    own = known.dense()[0, 0]
    np.testing.assert_allclose(own, (np.array([0, 3, 1]) + 1 / 3) / 5)
    pool = (
        np.array([1, 3, 1]) + 2 / 3
    ) / 7  # all five steps out of the state, and both pseudo-counts
    variances = [chance @ f**2 - (chance @ f) ** 2 for chance in (own, pool)]
    wanted = (4 * variances[0] + 2 * variances[1]) / 6 / 6
    wanted += ((own - 1 / 3) @ f / 4) ** 2
    slopes = np.zeros((*rows.chances.shape, 1))
    slopes[0, 0, :, 0] = f[rows.states[0]]
    found = rows.covariance(lambda part: slopes[part])
    np.testing.assert_allclose(found, [[wanted]], rtol=1e-12)


def test_a_log_gives_the_same_numbers_in_a_folder_and_in_python(tmp_path, capsys):
    """Without transitions.csv: both count where actions lead by one constructor."""
    place = tmp_path / "p"
    place.mkdir()
    mdp, features, policy = world(np.random.default_rng(8), states=8)
    states = tuple(f"place {s}" for s in range(8))
    layout = tacit.worlds.Layout(state_names=states, action_names=("left", "right", "wait"))
    seen = tacit.simulate(mdp, policy, trajectories=40, steps=30, seed=1)
    polars.DataFrame(seen.table(states, layout.action_names)).write_csv(
        place / "demonstrations.csv"
    )
    table = {name: features.reward[..., d].mean(axis=1) for d, name in enumerate("ab")}
    table["c"] = features.costs[0][..., 0].mean(axis=1)
    polars.DataFrame({"state": states, **table}).write_csv(place / "features.csv")
    (place / "problem.toml").write_text(
        'discount = 0.9\n[features]\nreward = ["a", "b"]\ncosts = [["c"]]\n'
        f"[names]\nactions = {list(layout.action_names)}\n[transitions]\nprior = 0.5\n"
    )
    words = ["recover", str(place), "--out", str(tmp_path / "run"), "--no-report"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    frame = polars.read_csv(place / "demonstrations.csv")
    log = tacit.Demonstrations.from_frame(frame, layout)
    maps = polars.read_csv(place / "features.csv")
    ours = tacit.recover(
        MDP.from_transitions(log, discount=0.9, n_states=8, n_actions=3, prior=0.5),
        Features(
            maps.select("a", "b").to_numpy(), [maps.select("c").to_numpy()], ["a", "b"], ["c"]
        ),
        log,
    )
    theirs = tacit.Recovery.load(tmp_path / "run")
    assert theirs.identification.dynamics is not None
    for one, other in ((ours, theirs), (ours.parameters, theirs.parameters)):
        for name in ("reward_weights", "multipliers", "budgets", "estimates", "standard_errors"):
            if hasattr(one, name):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(ours.parameters.intervals, theirs.parameters.intervals)
    np.testing.assert_array_equal(ours.parameters.p_values, theirs.parameters.p_values)
    assert ours.identification.p_values.tolist() == theirs.identification.p_values.tolist()
    assert told["parameters"]["standard_errors"] == ours.parameters.standard_errors.tolist()
    own = {line for line in ours.summary().splitlines() if any(map(str.isdigit, line))}
    shown = theirs.summary()
    assert own
    assert all(line in shown for line in own)  # to the last digit shown
