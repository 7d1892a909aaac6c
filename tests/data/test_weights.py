"""Sampling weights of rows: read, kept, counted in the likelihood, and refused elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import tacit
from refusals import refusal
from tacit.data.tally import Tally
from tacit.folders.runs import Run, data_hashes
from tacit.inference.findings import Kind
from tacit.show.page import recovery_document
from tacit.show.tables import by_state
from text_form import save_text

# Three states, two actions: 0 stays, 1 goes on.
MOVES = np.zeros((3, 2, 3))
for _s in range(3):
    MOVES[_s, 0, _s] = MOVES[_s, 1, (_s + 1) % 3] = 1.0
PHI = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, -1.0]])  # [S, 2], of the action "go on"


@pytest.fixture(scope="module")
def world():
    """(model without a future, features of state and action, 60 episodes of 4 to 9 steps)."""
    mdp = tacit.MDP(MOVES, [0.5, 0.3, 0.2], 0.0)
    table = np.zeros((3, 2, 2))
    table[:, 1] = PHI
    logit = PHI @ [0.8, 0.5]
    policy = np.stack([1 / (1 + np.exp(logit)), 1 / (1 + np.exp(-logit))], axis=1)
    random = np.random.default_rng(1)
    rows = []
    for _ in range(60):
        states = [int(random.choice(3, p=mdp.initial))]
        actions = []
        for _ in range(int(random.integers(4, 10))):
            actions.append(int(random.random() < policy[states[-1], 1]))
            states.append((states[-1] + actions[-1]) % 3)
        rows.append((states, actions))
    return mdp, tacit.Features(table), tacit.Demonstrations.from_trajectories(rows)


@pytest.fixture(scope="module")
def weighted(world):
    """The episodes with weights of the rows, and what is recovered from them."""
    mdp, features, plain = world
    weights = np.random.default_rng(2).lognormal(0.0, 0.7, plain.steps)
    seen = replace(plain, weights=weights)
    return seen, tacit.recover(mdp, features, seen, estimator=tacit.Likelihood(free_reward=True))


def test_estimates_and_errors_are_those_of_the_weighted_logit(world, weighted):
    # Without a future the model is a logit: its weighted maximum and its sandwich by hand.
    seen, recovery = weighted
    x, taken, share = PHI[seen.states], seen.actions, seen.weights / seen.weights.mean()

    def loss(theta):
        return share @ (np.log1p(np.exp(x @ theta)) - taken * (x @ theta))

    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-10}).x
    np.testing.assert_allclose(recovery.parameters.estimates, best, atol=1e-6)  # BFGS' own
    chance = 1 / (1 + np.exp(-(x @ best)))
    bread = np.linalg.inv((x * (share * chance * (1 - chance))[:, None]).T @ x)
    scores = x * (share * (taken - chance))[:, None]
    units = np.add.reduceat(scores, seen.offsets[:-1])
    meat = units.T @ units * (len(units) / (len(units) - 1))
    found = recovery.parameters
    assert found.errors == "clustered"
    np.testing.assert_allclose(found.covariance, bread @ meat @ bread, rtol=1e-5)
    rows = bread @ (scores.T @ scores) @ bread  # squares of the weights, not the weights
    np.testing.assert_allclose(found.with_errors("sandwich").covariance, rows, rtol=1e-5)


def test_what_takes_weights_for_counts_is_not_given(weighted):
    seen, recovery = weighted
    said = [one for one in recovery.identification.findings if one.kind is Kind.ERRORS]
    share = seen.weights / seen.weights.mean()
    assert any(one.about.number == pytest.approx((share**2).mean()) for one in said)
    assert recovery.goodness.absence
    assert np.isnan(recovery.goodness.p_value)
    assert np.isnan([recovery.log_likelihood, recovery.aic, recovery.bic]).all()
    for kind in ("fisher", "outer"):
        other = recovery.parameters.with_errors(kind)
        assert other.reason
        assert np.isnan(other.standard_errors).all()
    assert recovery.observed_steps == seen.steps
    assert np.isnan(recovery.certificate.sampling_noise)
    assert "Bernstein" not in recovery.summary()  # a bound on sums that weigh the same


def test_the_unit_of_weights_and_weights_that_are_alike_change_nothing(world, weighted):
    mdp, features, plain = world
    seen, recovery = weighted
    how = tacit.Likelihood(free_reward=True)
    scaled = tacit.recover(mdp, features, replace(seen, weights=1e6 * seen.weights), estimator=how)
    for one in ("estimates", "standard_errors", "intervals"):
        got = getattr(scaled.parameters, one)
        np.testing.assert_allclose(got, getattr(recovery.parameters, one), rtol=1e-9)
    alike = replace(plain, weights=np.full(plain.episodes, 0.3))
    ours = tacit.recover(mdp, features, alike, estimator=how).parameters.estimates
    theirs = tacit.recover(mdp, features, plain, estimator=how).parameters.estimates
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_whole_weights_estimate_what_repeated_episodes_do(world):
    mdp, features, plain = world
    many = np.random.default_rng(3).integers(1, 4, plain.episodes)
    again = plain.select(np.repeat(np.arange(plain.episodes), many))
    how = tacit.Likelihood(free_reward=True)
    repeated = tacit.recover(mdp, features, again, estimator=how).parameters
    weighed = tacit.recover(mdp, features, replace(plain, weights=many), estimator=how).parameters
    np.testing.assert_allclose(weighed.estimates, repeated.estimates, rtol=1e-8)
    assert (weighed.standard_errors > 1.1 * repeated.standard_errors).all()  # no new episodes


def test_sums_are_weighted_row_by_row(world):
    _, _, plain = world
    mdp = tacit.MDP(MOVES, [0.5, 0.3, 0.2], 0.7)
    partial = np.arange(plain.episodes) % 4 == 0
    weights = np.random.default_rng(4).uniform(0.2, 3.0, plain.steps)
    seen = replace(plain, weights=weights, partial=partial)
    counts, visits, starts = np.zeros((3, 2)), np.zeros((3, 2)), np.zeros(3)
    for e in range(seen.episodes):
        own = weights[seen.offsets[e] : seen.offsets[e + 1]]
        for t, (s, a) in enumerate(zip(*seen.trajectory(e), strict=True)):
            counts[s, a] += own[t]
            visits[s, a] += 0.0 if partial[e] else own[t] * 0.7**t
        starts[seen.trajectory(e)[0][0]] += 0.0 if partial[e] else own[0]
    tally = Tally.of(mdp, seen)
    np.testing.assert_allclose(tally.counts, counts / weights.mean())
    never = np.zeros(3, bool)
    np.testing.assert_allclose(tally.visitation(never), visits / starts.sum())
    assert tally.steps == seen.steps


def test_arriving_at_an_end_weighs_what_the_last_step_does():
    moves = np.zeros((2, 1, 2))
    moves[:, 0, 1] = 1.0
    mdp = tacit.MDP(moves, [1.0, 0.0], 0.5, available=[[True], [False]])
    rows = [([0, 1], [0]), ([0, 0, 1], [0, 0])]
    plain = tacit.Demonstrations.from_trajectories(rows)
    tally = Tally.of(mdp, replace(plain, weights=[1.0, 2.0, 6.0]))
    np.testing.assert_allclose(tally.ends, [0.0, 7.0 / 3.0])
    np.testing.assert_allclose(tally.discounted[:, 0], [6.0 / 3.0, (0.5 + 0.25 * 6.0) / 3.0])


@pytest.mark.parametrize(
    "estimator",
    [
        tacit.Convex(),
        tacit.Explanation(),
        tacit.Alternating(),
        tacit.Mixture(),
        tacit.Likelihood(lapses=True),
        tacit.Likelihood(prior=tacit.features.Ridge()),
    ],
)
def test_who_does_not_count_weights_refuses_them(world, weighted, estimator):
    mdp, features, _ = world
    with pytest.raises(tacit.InvalidDemonstrations, match="sampling weights"):
        tacit.recover(mdp, features, weighted[0], estimator=estimator)


def test_checks_and_resampling_refuse_weights(world, weighted):
    mdp, features, _ = world
    seen, recovery = weighted
    groups = np.arange(seen.episodes) % 2
    for ask in (
        lambda: tacit.recover(mdp, features, seen, bootstrap=20),
        lambda: tacit.checks.equal_weights_test(mdp, features, seen, groups=groups),
        lambda: tacit.checks.holdout(mdp, features, seen),
        lambda: tacit.checks.diagnose(mdp, features, seen),
        lambda: tacit.recover([tacit.Task(mdp, features, seen)]),
        lambda: tacit.recover(mdp, features, Tally.of(mdp, seen)),  # single weights are gone
    ):
        with pytest.raises(tacit.InvalidDemonstrations, match="sampling weights"):
            ask()
    assert recovery.status is tacit.recover(mdp, features, seen).status  # picked, and said why


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_weights_survive_a_file_and_what_is_cut_from_it(world, weighted, tmp_path, ending):
    seen, _ = weighted
    seen.save(tmp_path / f"seen.{ending}")
    back = tacit.Demonstrations.load(tmp_path / f"seen.{ending}")
    np.testing.assert_allclose(back.weights, seen.weights, rtol=1e-15)
    some = back.select([3, 0]).truncate(2)
    rows = [seen.offsets[3], seen.offsets[3] + 1, 0, 1]
    np.testing.assert_allclose(some.weights, seen.weights[rows], rtol=1e-15)
    mdp, features, plain = world
    assert data_hashes(mdp, features, seen) != data_hashes(mdp, features, plain)


ROWS = "episode,step,state,action,{}\na,0,0,1,{}\na,1,1,1,{}\nb,0,0,0,{}\n"


@pytest.mark.parametrize(
    ("column", "cells", "weights", "episodes"),
    [
        ("weight", (2, 2, 3), None, 5),  # counts
        ("weight", (1.5, 1.5, 2), [1.5, 1.5, 2.0], 2),  # no counts
        ("weight", (2, 3, 1), [2.0, 3.0, 1.0], 2),  # of rows, not of episodes
        ("sampling_weight", (2, 2, 3), [2.0, 2.0, 3.0], 2),  # said to be none
    ],
)
def test_whole_weights_are_counts_unless_they_are_called_otherwise(
    tmp_path, column, cells, weights, episodes
):
    (tmp_path / "seen.csv").write_text(ROWS.format(column, *cells))
    seen = tacit.Demonstrations.load(tmp_path / "seen.csv")
    assert seen.episodes == episodes
    assert (None if seen.weights is None else seen.weights.tolist()) == weights
    assert bool(seen.notes) == (column == "weight")  # what was taken for what is said


@pytest.mark.parametrize(
    ("cells", "said"), [((1, 0, 1), "above 0"), ((1, -2, 1), "above 0"), ((1, "x", 1), "number")]
)
def test_weights_that_cannot_be_are_refused_by_line(tmp_path, cells, said):
    (tmp_path / "seen.csv").write_text(ROWS.format("sampling_weight", *cells))
    with refusal(tacit.InvalidDemonstrations, "line 3", match=said):
        tacit.Demonstrations.load(tmp_path / "seen.csv")


def test_weights_given_in_memory_are_checked(world):
    plain = world[2]
    apart = np.where(np.arange(plain.steps) == 3, 1e300, 1.0)
    none, unknown = np.zeros(plain.steps), np.full(plain.steps, np.nan)
    for wrong in (np.ones(7), none, unknown, ["much"], [10**400] * plain.steps, apart):
        with pytest.raises(tacit.InvalidDemonstrations, match="weights must"):
            replace(plain, weights=wrong)


def test_a_step_that_outweighs_all_others_is_told_of(world):
    mdp, features, plain = world
    weights = np.ones(plain.steps)
    weights[0] = 1e12  # the expert looks deterministic by it, and is not
    seen = replace(plain, weights=weights)
    recovery = tacit.recover(mdp, features, seen, estimator=tacit.Likelihood(free_reward=True))
    assert recovery.status is tacit.RecoveryStatus.EXPERT_DETERMINISTIC
    said = [one for one in recovery.identification.findings if one.kind is Kind.ERRORS]
    assert [one.about.number for one in said] == [pytest.approx(plain.steps)]
    assert "as much as 1 " in said[0]


def test_the_unit_of_weights_may_be_as_large_as_numbers_are(world, weighted):
    seen = weighted[0]
    large = replace(seen, weights=seen.weights / seen.weights.max() * 1.7e308)
    np.testing.assert_allclose(large.shares, seen.shares, rtol=1e-14)


def test_first_states_that_are_counted_are_weighted(world, tmp_path):
    mdp, features, plain = world
    partial = np.arange(plain.episodes) % 5 == 0
    weights = np.random.default_rng(5).uniform(0.1, 4.0, plain.steps)
    seen = replace(plain, weights=weights, partial=partial)
    begun = seen.offsets[:-1][~partial]
    total = np.array([weights[begun][seen.states[begun] == s].sum() for s in range(3)])
    counted = tacit.MDP.from_transitions(seen, discount=0.7)
    np.testing.assert_allclose(counted.initial, total / total.sum(), rtol=1e-12)
    place = save_text(tacit.runs.Problem(mdp, features, seen), tmp_path / "problem")
    settings = (place / "problem.toml").read_text().splitlines()
    kept = [line for line in settings if not line.startswith("initial")]
    (place / "problem.toml").write_text("\n".join(kept))
    for name in ("transitions.csv", None):  # known, and counted
        start = tacit.runs.Problem.load(place).mdp.initial
        np.testing.assert_allclose(start, total / total.sum(), rtol=1e-12)
        if name:
            (place / name).unlink()


def test_a_posterior_takes_no_weights_for_counts(weighted):
    with pytest.raises(tacit.InvalidModel, match="sampling weights"):
        tacit.checks.posterior(weighted[1])


def test_scores_are_weighted(world, weighted):
    # Whole weights of episodes score what repeated ones do, but for the errors.
    mdp, _, plain = world
    many = np.random.default_rng(6).integers(1, 4, plain.episodes)
    again = plain.select(np.repeat(np.arange(plain.episodes), many))
    one = tacit.checks.score(weighted[1], replace(plain, weights=many), mdp=mdp)
    two = tacit.checks.score(weighted[1], again, mdp=mdp)
    for name in ("hit_rate", "null_hit_rate", "rho_squared"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-12)
    assert one.log_likelihood / one.steps == pytest.approx(two.log_likelihood / two.steps)
    assert one.hit_rate_error > two.hit_rate_error  # no new episodes


def test_a_page_says_first_that_the_fit_was_not_tested(weighted):
    page = recovery_document(Run(weighted[1]))
    assert weighted[1].goodness.absence in str(page.headlines[0].text)


def test_an_end_shows_what_it_pays_on_arrival():
    table, policy = np.array([[1.0, 3.0], [-0.7, -0.7]]), np.array([[0.5, 0.5], [0.0, 0.0]])
    assert by_state(table, policy).tolist() == [2.0, -0.7]
