"""Standardised weights, prices and budgets: exact, and the same in every unit of the features."""

from dataclasses import replace

import numpy as np
import pytest

import tacit
from tacit.folders.runs import Run
from tacit.inference.standardised import standard_of
from tacit.model.objective import Features
from tacit.show.page import recovery_document

RANDOM = np.random.default_rng(7)
# Three reward features of very different sizes, and two cost features in one constraint.
WANTED = RANDOM.uniform(size=(16, 3)) * [1.0, 3.0, 0.2] + [0.0, 5.0, 0.0]
REFUSED = np.stack([np.arange(16) % 4 == 1, RANDOM.uniform(size=16) * 2.0], axis=1).astype(float)
NAMES = ["forest", "elevation", "water"]
NUMBERS = ("reward_weights", "multipliers", "budgets", "temperature")
TABLES = ("reward", "multiplier", "budget")


@pytest.fixture(scope="module")
def mdp():
    return tacit.worlds.hill_grid(seed=0, size=4).mdp


def features(scales=(1.0, 1.0, 1.0), costs=(1.0, 1.0), shift=0.0):
    return tacit.Features(WANTED * scales + shift, [REFUSED * costs], NAMES, [["road", "noise"]])


def expert(mdp, temperature=0.5, price=0.8):
    gain = WANTED @ [0.6, 0.3, 1.0] - price * REFUSED @ [0.7, 0.3]
    truth = tacit.Objective(gain, np.zeros((0, 16)), np.zeros(0))
    solver = tacit.SoftDual(temperature=temperature) if temperature else tacit.ColumnGeneration()
    return tacit.solve(mdp, truth, solver=solver).policy


def walks(mdp, temperature=0.5, trajectories=60, seed=1):
    policy = expert(mdp, temperature)
    return tacit.simulate(mdp, policy, trajectories=trajectories, steps=30, seed=seed)


def assert_same(one, other, rtol=1e-6):
    """Two recoveries have the same numbers, intervals and errors, in the units they are in."""
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-9)
    for mine, its in zip(one.cost_weights, other.cost_weights, strict=True):
        np.testing.assert_allclose(mine, its, rtol=rtol, atol=1e-9)
    known, wanted = one.identification, other.identification
    for kind in TABLES:
        for what in ("intervals", "standard_errors"):
            pair = (getattr(known, f"{kind}_{what}"), getattr(wanted, f"{kind}_{what}"))
            np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-6)  # ends are searched for
    for what in ("cost_intervals", "cost_standard_errors"):
        for mine, its in zip(getattr(known, what), getattr(wanted, what), strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(one.objective.reward, other.objective.reward, rtol=rtol, atol=1e-9)
    np.testing.assert_allclose(one.objective.costs, other.objective.costs, rtol=rtol, atol=1e-9)
    np.testing.assert_allclose(one.solution.values, other.solution.values, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.solution.spent, other.solution.spent, rtol=rtol, atol=1e-9)


ESTIMATORS = {
    "likelihood": (tacit.Likelihood(), 0.5),
    "free": (tacit.Likelihood(free_reward=True), 0.5),
    "all kept": (tacit.Likelihood(level=1.0), 0.5),
    "ridge": (tacit.Likelihood(prior=tacit.features.Ridge(strength=1e-9), level=1.0), 0.5),
    "convex": (tacit.Convex(), 0.5),
    "explanation": (tacit.Explanation(), 0.0),
    "reward only": (tacit.RewardOnly(), 0.5),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_standardised_numbers_are_those_of_features_divided_beforehand(mdp, name):
    estimator, temperature = ESTIMATORS[name]
    seen, plain = walks(mdp, temperature), features()
    divided = divided_by(standard_of(mdp, plain).deviations)
    found = estimator.fit(mdp, plain, seen, throw=False)
    asked = estimator.fit(mdp, divided, seen, throw=False)
    assert_same(found.standardised, asked)
    assert found.standardised.standardised is found.standardised
    np.testing.assert_allclose(
        found.standardised.noise_prices.intervals, asked.noise_prices.intervals, rtol=1e-4
    )


def divided_by(deviations):
    reward, cost = deviations
    return Features(WANTED / reward, [REFUSED / cost], NAMES, [["road", "noise"]])


def test_a_known_reward_and_resamples_are_standardised_exactly(mdp):
    seen, plain = walks(mdp), features()
    deviations = standard_of(mdp, plain).deviations
    given = np.array([0.6, 0.3, 1.0])
    known = [tacit.ConstraintOnly(w.tolist()) for w in (given, given * deviations[0])]
    found = known[0].fit(mdp, plain, seen, throw=False)
    assert_same(found.standardised, known[1].fit(mdp, divided_by(deviations), seen, throw=False))
    asked = {"estimator": tacit.Likelihood(level=1.0), "bootstrap": 20, "seed": 3}
    drawn = [tacit.recover(mdp, made, seen, **asked) for made in (plain, divided_by(deviations))]
    assert_same(drawn[0].standardised, drawn[1])


def test_tasks_share_one_unit_and_its_weights(mdp):
    tasks = [tacit.Task(mdp, features(), walks(mdp, 0.5, 40, seed)) for seed in (1, 2)]
    joint = tacit.recover(tasks, share_reward=True, throw=False)
    deviations = standard_of(mdp, features()).deviations
    made = [replace(one, features=divided_by(deviations)) for one in tasks]
    asked = tacit.recover(made, share_reward=True, throw=False)
    shown = joint.standardised
    for one, other in zip(shown.recoveries, asked.recoveries, strict=True):
        assert_same(one, other)
    np.testing.assert_allclose(shown.reward_weights, asked.reward_weights, rtol=1e-6)
    np.testing.assert_allclose(
        shown.identification.reward_intervals, asked.identification.reward_intervals, rtol=1e-4
    )
    np.testing.assert_allclose(
        shown.identification.cost_intervals[0], asked.identification.cost_intervals[0], rtol=1e-4
    )
    assert shown.standardised is not joint


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_and_shifts_change_no_standardised_number(mdp, scale):
    seen = walks(mdp)
    plain, other = (
        tacit.Likelihood(level=1.0).fit(mdp, made, seen)
        for made in (features(), features((1.0, scale, 1.0), (scale, 1.0)))
    )
    assert not np.allclose(plain.reward_weights, other.reward_weights, rtol=0.1)
    assert_same(plain.standardised, other.standardised, rtol=1e-5)
    moved = tacit.Likelihood(level=1.0).fit(mdp, features(shift=100.0), seen)
    for name in ("reward_weights", "multipliers", "temperature"):
        pair = getattr(moved.standardised, name), getattr(plain.standardised, name)
        np.testing.assert_allclose(*pair, rtol=1e-5)


def test_deviations_are_over_choices_and_of_constants_their_size(mdp):
    constant = tacit.Features(np.full((16, 1), 3.0), [np.zeros((16, 1))])
    assert [part.tolist() for part in standard_of(mdp, constant).deviations] == [[3.0], [1.0]]
    reward, _ = standard_of(mdp, features()).deviations
    np.testing.assert_allclose(reward, WANTED.std(axis=0))  # every state has as many actions
    by_pair = np.repeat(WANTED[:, None], mdp.actions, axis=1)
    np.testing.assert_allclose(standard_of(mdp, Features(by_pair)).deviations[0], reward)
    available = np.ones((16, mdp.actions), bool)
    available[0, 1:] = available[3] = False  # one action less here; an end there
    world = tacit.MDP(mdp.transitions, mdp.initial, 0.9, available=available)
    count = available.sum(axis=1) + (np.arange(16) == 3)
    mean = count @ WANTED / count.sum()
    wanted = np.sqrt(count @ (WANTED - mean) ** 2 / count.sum())
    for made in (Features(WANTED), Features(by_pair)):
        np.testing.assert_allclose(standard_of(world, made).deviations[0], wanted)


def words(text):
    """What a summary says, without the coefficients as given, and residuals, which are rounding."""
    lines = text.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("Coefficients of"))
    end = next(n for n, line in enumerate(lines) if "log-likelihood" in line)
    return lines[:begin] + [line for line in lines[end:] if "e-" not in line]


@pytest.fixture(scope="module")
def pair(mdp):
    """The same demonstrations, elevation and noise in metres and in kilometres."""
    seen = walks(mdp)
    return [
        tacit.recover(mdp, features((1.0, scale, 1.0), (1.0, scale)), seen) for scale in (1.0, 1e-3)
    ]


def test_summaries_and_pages_say_the_same_in_every_unit(pair):
    metres, kilometres = pair
    assert words(metres.summary()) == words(kilometres.summary())
    assert words(metres.summary(raw_units=True)) != words(kilometres.summary(raw_units=True))
    pages = [recovery_document(Run(one)) for one in pair]
    assert pages[0].headlines == pages[1].headlines
    assert pages[0].lead == pages[1].lead
    assert str(metres.reward_weights) != str(kilometres.reward_weights)  # the attributes are raw
    raw = [recovery_document(Run(one), raw_units=True) for one in pair]
    assert raw[0].headlines != raw[1].headlines
    assert raw[0].lead != pages[0].lead


def test_runs_in_other_units_are_compared_and_that_is_said(pair):
    both: dict[str, tacit.Recovery] = dict(zip(("metres", "kilometres"), pair, strict=True))
    told = tacit.many.differences(both)
    assert max(abs(row.value) for row in told.rows) < 1e-6
    (doubt,) = (one for one in told.doubts if one.kind is tacit.Kind.ASSUMED)
    assert doubt.about.number == pytest.approx(np.log(1000.0))
    raw = tacit.many.differences(both, raw_units=True)
    assert max(abs(row.value) for row in raw.rows) > 0.5
    assert not [one for one in raw.doubts if one.kind is tacit.Kind.ASSUMED]


def test_groups_are_compared_in_no_unit(mdp):
    rows, said = [], []
    for scale in (1.0, 1e-3):
        made = features((1.0, scale, 1.0), (1.0, scale))
        each = {
            who: tacit.Likelihood(level=1.0).fit(mdp, made, walks(mdp, seed=seed))
            for seed, who in enumerate(("ann", "bob"))
        }
        told = tacit.many.differences(each)
        rows.append([(one.value, one.low, one.high, one.p_value) for one in told.rows])
        said.append(told.sentences)
        both = tacit.Demonstrations.from_trajectories(
            [walks(mdp, t, 20, seed=3).trajectory(e) for t in (0.3, 1.0) for e in range(20)],
            groups=np.repeat(["calm", "wild"], 20),
        )
        test = tacit.checks.equal_weights_test(mdp, made, both, draws=0)
        said.append(test.sentences)
        raw = tacit.many.differences(each, raw_units=True)
        assert [one.value for one in raw.rows] != [one.value for one in told.rows]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-4, atol=1e-6)
    assert said[:2] == said[2:]
