"""Lapses, and which assumption the demonstrations contradict."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2

import experts
import networks
import tacit
from kinds import told
from tacit import Kind, checks
from tacit.checks.assumptions import DISCOUNTS, best_discount
from tacit.checks.marks import clearest_mark, missing_marks, with_marks
from tacit.estimators import lapses
from tacit.estimators.types import trajectory_p_value
from tacit.likelihood.kinds import StepUnits
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain, information
from tacit.model.features.design import Design

THETA = np.array([2.5, 1.0, 0.5])


@cache
def world(constraints: int = 0) -> tacit.worlds.World:
    return tacit.worlds.random(52, states=12, actions=3, constraints=constraints, features=3)


def policy(theta, discount: float = 0.9) -> np.ndarray:
    place = world()
    mdp = replace(place.mdp, discount=discount)
    return experts.policy_of(mdp, place.features, [np.asarray(theta)])


def seen(*policies, trajectories: int = 60, seed: int = 0, groups: bool = False):
    each = trajectories // len(policies)
    drawn = [
        tacit.simulate(world().mdp, one, trajectories=each, steps=50, seed=7 * seed + k)
        for k, one in enumerate(policies)
    ]
    names = np.repeat([f"group {k}" for k in range(len(policies))], each) if groups else None
    rows = [one.trajectory(e) for one in drawn for e in range(each)]
    return tacit.Demonstrations.from_trajectories(rows, groups=names)


def task_of(demonstrations) -> tacit.Task:
    return tacit.Task(world().mdp, world().features, demonstrations)


def diagnosis(*policies, **options) -> checks.Diagnosis:
    return checks.diagnose(world().mdp, world().features, seen(*policies, **options))


@cache
def lapsing():
    return seen(0.8 * policy(6 * THETA) + 0.2 / 3)


def steps_of(demonstrations) -> StepsChain:
    place = world()
    return StepsChain.of(place.mdp, Design.of(place.mdp, place.features), demonstrations)


def test_a_share_of_lapses_is_estimated_with_its_interval():
    place, data = world(), lapsing()
    found = tacit.Likelihood(lapses=True).fit(place.mdp, place.features, data)
    low, high = found.lapses.interval
    assert low <= 0.2 <= high
    assert high - low < 0.1
    assert found.lapses.p_value < 1e-6
    plain = tacit.Likelihood().fit(place.mdp, place.features, data)
    assert found.bic < plain.bic - 20
    assert found.aic == pytest.approx(2 * 4 - 2 * found.log_likelihood)  # the share counts
    assert found.log_likelihood > plain.log_likelihood
    ends = found.parameters.at(0.999).intervals
    assert ((ends[:, 0] <= 6 * THETA) & (ends[:, 1] >= 6 * THETA)).all()
    assert not (plain.parameters.at(0.999).intervals[0, 1] > 6 * THETA[0])  # what it mends
    assert told(found.identification.findings, Kind.ASSUMED, number=found.lapses.share)
    assert "lapses=True" in found.estimator
    likely = (steps_of(data).counts * np.log(found.behaviour)).sum()
    assert found.log_likelihood == pytest.approx(likely, abs=1e-3)
    # A judge that is handed the recovery counts its lapses.
    judged = tacit.judge.log_likelihood(place.mdp, found, data)
    assert judged * data.steps == pytest.approx(likely, rel=1e-12)
    assert judged > tacit.judge.log_likelihood(place.mdp, found.solution.policy, data) + 0.01


def test_the_profile_of_the_share_ends_where_it_fell_by_the_quantile():
    steps = steps_of(lapsing())
    plain = maximum(steps, tacit.Likelihood())
    found = lapses.with_lapses(StepUnits.steps(steps), tacit.Likelihood(), plain)

    def loss_at(share):
        return lapses.with_lapses(
            StepUnits.steps(steps), tacit.Likelihood(lapses=float(share)), found
        ).loss

    for end in lapses.share_interval(found):
        assert 2.0 * (loss_at(end) - found.loss) == pytest.approx(3.84, abs=0.05)
    share = found.parts[0].shares[-1]
    assert all(loss_at(share + off) > found.loss for off in (-0.02, 0.02))


def test_information_with_lapses_is_that_of_the_scores():
    """Two ways: the errors that are reported are those of a sum by finite differences."""
    place, steps = world(), steps_of(lapsing())
    scales = steps.space.scales

    def log_mixed(z):
        soft = experts.policy_of(place.mdp, place.features, [z[:3] / scales])
        return np.log((1 - z[3]) * soft + z[3] / 3)

    def errors_of(asked):
        found = tacit.Likelihood(lapses=asked).fit(place.mdp, place.features, lapsing())
        return found.parameters.estimates, found.lapses.share, found.parameters.standard_errors

    for asked in (True, 0.2):
        estimates, share, errors = errors_of(asked)
        at, slopes = np.append(estimates * scales, share), []
        for j in range(4):
            step = np.zeros(4)
            step[j] = 1e-5
            slopes.append((log_mixed(at + step) - log_mixed(at - step)) / 2e-5)
        weights = steps.visits[:, None] * np.exp(log_mixed(at))
        full = np.einsum("isa,jsa,sa->ij", slopes, slopes, weights)
        # A share that is given loses nothing but which steps were lapses.
        law = np.linalg.inv(full if asked is True else full[:3, :3])
        np.testing.assert_allclose(errors, np.sqrt(np.diag(law)[:3]) / scales, rtol=1e-4)


def test_lapses_beside_what_is_known_beforehand():
    place, data = world(), lapsing()

    def fit(**options):
        return tacit.Likelihood(lapses=True, **options).fit(place.mdp, place.features, data)

    free = fit()
    at, errors = free.parameters.estimates, free.parameters.standard_errors
    # What is known to be where it is found moves nothing, and leaves less to be unsure of.
    fixed = fit(fixed={0: float(at[0])})
    warm = fit(temperature=free.temperature)
    for known in (fixed, warm):
        np.testing.assert_allclose(known.parameters.estimates, at, rtol=1e-5)
        assert known.log_likelihood == pytest.approx(free.log_likelihood, abs=1e-6)
        assert known.lapses.share == pytest.approx(free.lapses.share, abs=1e-6)
        assert (known.parameters.standard_errors < errors).all()
    assert fixed.parameters.standard_errors[0] == 0.0
    bounded = fit(bounds={0: (0.0, float(at[0] - errors[0]))}, start={0: 1.0})
    assert bounded.parameters.estimates[0] == pytest.approx(at[0] - errors[0])
    lost = free.log_likelihood - bounded.log_likelihood
    assert lost == pytest.approx(0.5, rel=0.3)  # half of a squared standard error
    findings = bounded.identification.findings
    assert told(findings, Kind.ASSUMED, feature=bounded.reward_names[0])


def test_lapses_with_a_prior_are_likeliest_with_it():
    place, data, strength = world(), lapsing(), 0.3
    found = tacit.Likelihood(lapses=True, prior=tacit.features.Ridge(strength)).fit(
        place.mdp, place.features, data
    )
    steps, at = steps_of(data), np.append(found.parameters.estimates, found.lapses.share)

    def penalised(z) -> float:
        soft = experts.policy_of(place.mdp, place.features, [z[:3]])
        likely = (steps.counts * np.log((1 - z[3]) * soft + z[3] / 3)).sum()
        return likely - 0.5 * strength * ((z[:3] * steps.space.scales) ** 2).sum()

    for j in range(4):
        step = 1e-4 * np.eye(4)[j]
        slope = (penalised(at + step) - penalised(at - step)) / 2e-4
        bend = (2 * penalised(at) - penalised(at + step) - penalised(at - step)) / 1e-8
        assert abs(slope) < 1e-3 * np.sqrt(bend)  # a thousandth of a standard error
    chosen = tacit.Likelihood(lapses=True, prior=tacit.features.Ridge())
    with pytest.raises(tacit.InvalidModel, match="lapses"):
        chosen.fit(place.mdp, place.features, data)


def test_without_lapses_none_are_found_and_a_given_share_stays():
    place, data = world(), seen(policy(THETA))
    found = tacit.Likelihood(lapses=True).fit(place.mdp, place.features, data)
    assert found.lapses.interval[0] == 0.0
    assert found.lapses.p_value > 0.01
    given = tacit.Likelihood(lapses=0.1).fit(place.mdp, place.features, data)
    assert given.lapses.share == 0.1
    assert np.isnan(given.lapses.p_value)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_a_share_of_lapses_is_checked(share):
    with pytest.raises(tacit.InvalidModel, match="lapses"):
        tacit.Likelihood(lapses=share).fit(world().mdp, world().features, lapsing())


def test_lapses_are_estimated_again_in_every_resample():
    place, data, options = world(), lapsing(), tacit.Likelihood(lapses=True)
    plain, drawn = (
        tacit.recover(place.mdp, place.features, data, estimator=options, bootstrap=draws, seed=1)
        for draws in (0, 20)
    )
    errors = [one.identification.reward_standard_errors for one in (plain, drawn)]
    # A standard error of 20 draws is off by a sixth.
    assert np.all(np.abs(np.log(errors[1] / errors[0])) < 0.6)


def test_who_does_not_know_lapses_says_so():
    place, data, options = world(), lapsing(), tacit.Likelihood(lapses=True)
    with pytest.raises(tacit.InvalidModel, match="lapses"):
        checks.discount_profile(place.mdp, place.features, data, [0.8, 0.9], estimator=options)


def test_nothing_is_contradicted_where_the_model_is_right():
    found = diagnosis(policy(THETA))
    assert not found.contradicted
    assert [one.kind for one in found.sentences] == [Kind.NOTE]
    assert [row.bic for row in found.rows] == sorted(row.bic for row in found.rows)
    assert all(row.gain >= 0 for row in found.rows)


@pytest.mark.parametrize(
    ("alternative", "policies", "groups"),
    [
        ("lapses", lambda: [0.8 * policy(6 * THETA) + 0.2 / 3], False),
        ("another discount", lambda: [policy(2 * THETA, 0.3)], False),
        ("two types", lambda: [policy(1.2 * THETA), policy(1.2 * THETA[::-1])], False),
        ("two levels of noise", lambda: [policy(0.4 * THETA), policy(2.5 * THETA)], False),
        ("a noise by group", lambda: [policy(0.4 * THETA), policy(2.5 * THETA)], True),
    ],
)
def test_the_assumption_that_is_wrong_is_named(alternative, policies, groups):
    found = diagnosis(*policies(), groups=groups)
    assert found.contradicted[0].alternative == alternative
    # What else seems to be contradicted is so by the same.
    assert found.together is None or found.together.needed == (alternative,)
    assert found.together is not None or alternative == "two levels of noise"
    assert found.sentences[0].kind is Kind.MISFIT
    assert alternative in found.text


def lacking(state: int = 10):
    """Demonstrations of somebody who is drawn to a state, which no feature tells."""
    place = world()
    more = with_marks(task_of(seen(policy(THETA))), [state]).features
    expert = experts.policy_of(place.mdp, more, [np.append(THETA, 1.5)])
    return tacit.simulate(place.mdp, expert, trajectories=60, steps=50, seed=0)


def test_a_missing_feature_is_named_where_it_shows():
    layout = tacit.worlds.Layout(state_names=tuple(f"room {s}" for s in range(12)))
    found = checks.diagnose(world().mdp, world().features, lacking(), layout=layout)
    first = found.contradicted[0]
    assert first.alternative == "a feature more"
    assert "room 10" in first.remedy
    assert first.p_value < 1e-6
    # What it gains is what the likelihood with that feature of either sign is higher by.
    more = with_marks(task_of(lacking()), [10]).features
    whole = tacit.Likelihood(bounds={"mark 10": (None, None)}).fit(world().mdp, more, lacking())
    assert first.gain == pytest.approx(whole.log_likelihood - found.log_likelihood, rel=1e-6)


def test_two_assumptions_that_are_wrong_are_both_needed():
    place = world()
    more = with_marks(task_of(seen(policy(THETA))), [10]).features
    expert = experts.policy_of(place.mdp, more, [np.append(2.0 * THETA, 3.0)])
    both = tacit.simulate(place.mdp, 0.75 * expert + 0.25 / 3, trajectories=60, steps=50, seed=1)
    found = checks.diagnose(place.mdp, place.features, both)
    first, second = found.contradicted[:2]
    assert found.together.alternatives == (first.alternative, second.alternative)
    assert set(found.together.needed) == {"a feature more", "lapses"}
    assert found.sentences[1].about.number == 2
    # One likelihood, whichever was first, and that of the fit with both; EM stops within 0.02 nats.
    gains, whole = found.together.gains, found.log_likelihood
    assert first.gain + gains[1] == pytest.approx(second.gain + gains[0])
    options = tacit.Likelihood()
    chosen = missing_marks(task_of(both), maximum(steps_of(both), options), options, 3)
    more = chosen.task.features
    oracle = tacit.Likelihood(free_reward=True, lapses=True).fit(place.mdp, more, both)
    assert whole + first.gain + gains[1] == pytest.approx(oracle.log_likelihood, abs=0.02)


def test_the_score_of_a_mark_is_nearly_what_it_gains():
    # To leading order: the true mark is of weak effect here.
    task, options = task_of(seen(policy(THETA))), tacit.Likelihood()
    base = maximum(task.chain(options), options)
    at, square, many = clearest_mark(task, base)
    found = missing_marks(task, base, options, 1)
    assert found.marks == (at,)
    gained = 2.0 * (base.loss - found.fitted.loss)
    assert square == pytest.approx(gained, rel=0.1)
    assert many <= 12 + 3
    assert found.p_value == pytest.approx(min(many * chi2.sf(min(square, gained), 1), 1.0))
    assert clearest_mark(task, base, range(15)) == (-1, 0.0, 0)


def test_marks_of_ends_and_missing_actions_have_the_scores_of_their_features():
    # The oracle is the score that the same mark has as a feature like any other, at coefficient 0.
    mdp = networks.town(3, 0.9, 0.2)
    rng = np.random.default_rng(0)
    table = rng.random((9, 4, 1))
    table[mdp.ends] = 0.0
    features = tacit.Features(table)
    walk = networks.soft_values(mdp, table[..., 0])[1]
    drawn = tacit.simulate(mdp, walk, trajectories=40, steps=30, seed=0)
    task, options = tacit.Task(mdp, features, drawn), tacit.Likelihood()
    at, square, _ = clearest_mark(task, maximum(task.chain(options), options))
    more = with_marks(task, [at]).chain(options)
    upper = np.where(np.arange(2) == 1, 0.0, 1e5)
    there = maximum(more, tacit.Likelihood(), upper=upper)
    scores = more.scores(there.parts[0])
    fisher = information(scores, there.parts[0].policy, more.visits)
    left = fisher[1, 1] - fisher[0, 1] ** 2 / fisher[0, 0]
    assert there.gradient[1] ** 2 / left == pytest.approx(square, rel=1e-5)


def test_the_likeliest_culprit_leads_and_the_others_follow():
    def row(name: str, bic: float) -> checks.Alternative:
        return checks.Alternative(
            assumption=f"no {name}", alternative=name, extra=1, gain=-bic, p_value=0.0, aic=bic,
            bic=bic, estimate="", remedy="",
        )  # fmt: skip

    rows = (row("lapses", -300.0), row("another discount", -70.0), row("two types", 30.0))
    found = checks.Diagnosis(rows=rows, log_likelihood=0.0, observed_steps=9)
    assert [one.alternative for one in found.contradicted] == ["lapses", "another discount"]
    first, second = found.sentences
    assert first.kind is Kind.MISFIT
    assert "lapses" in first
    assert "another discount" in second
    assert second.about.number == 1
    alone = replace(found, rows=(rows[0], rows[2]))
    assert len(alone.sentences) == 1
    # The second leads where it explains what the first gains, and not the other way round.
    pair = checks.Together(
        alternatives=("lapses", "another discount"), gains=(1.0, 9.0), criteria=(6.0, -10.0)
    )
    turned = replace(found, together=pair)
    assert [one.alternative for one in turned.contradicted] == ["another discount", "lapses"]
    assert [one.about.number for one in turned.sentences[1:]] == [1, 1]
    neither = replace(found, together=replace(pair, criteria=(6.0, 5.0)))
    assert neither.contradicted[0].alternative == "lapses"
    assert neither.sentences[1].kind is Kind.NOT_IDENTIFIED


@pytest.mark.study
def test_labels_at_random_on_the_paper_s_grid_are_lapses():
    place = tacit.worlds.hill_grid(0, tightness=0.5)
    expert = tacit.solve(place.mdp, place.truth).policy
    walks = tacit.simulate(place.mdp, expert, trajectories=60, steps=50, seed=0)
    rng = np.random.default_rng(0)
    actions, hit = walks.actions.copy(), rng.random(walks.steps) < 0.3
    actions[hit] = rng.integers(0, 4, hit.sum())
    labelled = tacit.Demonstrations(walks.states, actions, walks.offsets)
    found = checks.diagnose(place.mdp, place.features, labelled)
    # An optimal expert breaks ties always alike, which marks of an action explain and no lapse.
    marks, first = found.contradicted[:2]
    assert marks.alternative == "a feature more"
    assert first.alternative == "lapses"
    assert first.bic < -200  # measured -331; the next, another discount, -70


def test_trajectories_of_one_type_scatter_by_chance_only():
    place = world()
    space = Design.of(place.mdp, place.features)
    p_values = []
    for seed in range(8):
        rows = StepUnits.trajectories(
            place.mdp, space, seen(policy(THETA), trajectories=20, seed=seed)
        )
        p_values.append(trajectory_p_value(rows, maximum(rows.whole, tacit.Likelihood())))
    assert min(p_values) > 0.005  # the smallest of eight uniform numbers
    assert max(p_values) > 0.3
    mixed = StepUnits.trajectories(place.mdp, space, seen(policy(THETA), policy(THETA[::-1])))
    assert trajectory_p_value(mixed, maximum(mixed.whole, tacit.Likelihood())) == 1 / 200


@pytest.mark.parametrize("own", [0.0, 0.5, 0.9, DISCOUNTS[1]])
@pytest.mark.parametrize("true", [0.2, 0.97])
def test_discounts_are_sought_on_both_sides_of_the_present_one(own, true):
    def likely(discount):
        return -100.0 * (discount - true) ** 2

    best, top = best_discount(likely, likely(own), own, DISCOUNTS)
    assert best == pytest.approx(true, abs=2e-3)
    assert top == pytest.approx(0.0, abs=1e-3)
    # Nowhere better than here: the present one stays, to the last digit.
    assert best_discount(likely, 1.0, own, DISCOUNTS) == (own, 1.0)
