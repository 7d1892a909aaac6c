"""Episodes of one individual are not independent: resampled, dealt out and held out together.

Every walk three times over, as one individual's, says no more than once: what is made of the
copies by individual is what is made of the walks by themselves.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinds
import tacit
from experts import grid, hill_expert
from tacit.data.units import EPISODES, Units, units_of
from tacit.inference.findings import Kind

COPIES = 3


@cache
def once(episodes=24, steps=60):
    world = grid()
    seen = tacit.simulate(world.mdp, hill_expert()[0], trajectories=episodes, steps=steps, seed=5)
    return replace(seen, names=None)


@cache
def copies():
    """The walks of each individual stand apart, as in a log sorted by day."""
    every = np.tile(np.arange(once().episodes), COPIES)
    return replace(
        once().select(every), names=None, individuals=np.array([f"mouse {e:02}" for e in every])
    )


def task(seen):
    return grid().mdp, grid().features, seen


def test_copies_are_resampled_with_their_individual():
    one, same, apart = (
        tacit.recover(*task(seen), estimator=tacit.Likelihood(), bootstrap=40, seed=2)
        for seen in (once(), copies(), replace(copies(), individuals=None))
    )
    errors = [each.identification.reward_standard_errors for each in (one, same, apart)]
    # The same draws; the searches end within their tolerance.
    assert_allclose(errors[1], errors[0], rtol=1e-5)
    assert np.all(errors[2] < 0.9 * errors[0])
    found = [kinds.told(each.identification.findings, Kind.ERRORS) for each in (one, same, apart)]
    said = [findings[-1] for findings in found]
    assert ["individuals" in finding for finding in said] == [False, True, False]


def test_one_individual_cannot_be_resampled():
    alone = replace(once(), individuals=np.repeat("the mouse", once().episodes))
    with pytest.raises(tacit.InvalidDemonstrations, match="at least two individuals"):
        tacit.recover(*task(alone), estimator=tacit.Likelihood(), bootstrap=20)


def test_many_groups_are_resampled_as_they_are_in_the_error_bars():
    groups = np.array([f"site {e % 400}" for e in range(800)])
    seen = tacit.simulate(grid().mdp, hill_expert()[0], trajectories=800, steps=5, seed=5)
    assert units_of(replace(seen, groups=groups), 100).called == "groups"
    assert units_of(replace(seen, groups=groups), 500).called == EPISODES


def test_copies_are_dealt_out_with_their_individual():
    halves = np.arange(once().episodes) % 2
    test = tacit.checks.equal_weights_test
    one = test(*task(once()), halves, draws=39, seed=1)
    same = test(*task(copies()), np.tile(halves, COPIES), draws=39, seed=1)
    assert_allclose(same.ratio, COPIES * one.ratio, rtol=1e-5)
    assert same.p_value == one.p_value
    by_default = test(*task(copies()), np.tile(halves, COPIES))
    assert (by_default.draws > 0, "individuals" in by_default.law) == (True, True)
    # Asked for in so many words, the law of independent steps says what it takes for granted.
    asked = test(*task(copies()), np.tile(halves, COPIES), draws=0)
    assert "independent" in asked.law
    assert asked.p_value < one.p_value


def test_individuals_that_are_the_groups_are_compared_by_their_episodes():
    names = np.where(np.arange(once().episodes) % 2, "mouse", "vole")
    seen = replace(once(), individuals=names)
    one, plain = (
        tacit.checks.equal_weights_test(*task(each), names, draws=19, seed=1)
        for each in (seen, once())
    )
    assert (one.p_value, one.law) == (plain.p_value, plain.law)


def test_dealing_moves_whole_individuals_or_stays_within_each():
    random = np.random.default_rng(0)
    number = random.integers(6, size=40)
    units = Units(np.unique(number, return_inverse=True)[1], "individuals")
    of_unit = random.integers(2, size=len(units))
    dealt = units.dealt(of_unit[units.number], random)
    after = [set(dealt[units.number == u]) for u in range(len(units))]
    assert all(len(one) == 1 for one in after)
    assert sorted(min(one) for one in after) == sorted(of_unit)
    assert (dealt != of_unit[units.number]).any()
    mixed = random.integers(3, size=40)
    dealt = units.dealt(mixed, random)
    for u in range(len(units)):
        own = units.number == u
        assert_array_equal(np.sort(dealt[own]), np.sort(mixed[own]))
    assert (dealt != mixed).any()


def test_drawing_takes_all_episodes_of_a_unit():
    random = np.random.default_rng(3)
    units = Units(np.array([0, 1, 0, 2, 2, 2]), "individuals")
    own = {0: [0, 2], 1: [1], 2: [3, 4, 5]}
    for seed in range(20):
        chosen = np.random.default_rng(seed).integers(3, size=3)
        rows = units.drawn(np.random.default_rng(seed))
        assert rows.tolist() == [row for unit in chosen for row in own[int(unit)]]
    plain = Units(np.arange(5), EPISODES)
    again = np.random.default_rng(3).integers(5, size=5)
    assert_array_equal(plain.drawn(random), again)


def test_an_individual_is_held_out_as_a_whole():
    found = tacit.checks.holdout(*task(copies()), share=0.25, seed=3)
    who = copies().individuals
    assert not set(who[found.held]) & set(who[found.kept])
    assert len(set(who[found.held])) == 6
    plain = tacit.checks.holdout(*task(once()), share=0.25, seed=3)
    for one, other in zip(found.scores, plain.scores, strict=True):
        assert_allclose(one.log_likelihood, other.log_likelihood, rtol=1e-6)
        # Of random actions it is 0 but for rounding.
        assert_allclose(one.log_likelihood_error, other.log_likelihood_error, rtol=1e-5, atol=1e-12)


def test_one_individual_held_out_shows_nothing():
    halves = np.repeat(["mouse", "vole"], once().episodes // 2)
    found = tacit.checks.holdout(*task(replace(once(), individuals=halves)), share=0.5)
    assert found.sentences[-1].kind is Kind.NOT_IDENTIFIED
    alone = replace(once(), individuals=np.repeat("mouse", once().episodes))
    with pytest.raises(tacit.InvalidDemonstrations, match="at least 2 individuals"):
        tacit.checks.holdout(*task(alone))


def test_one_individual_in_both_groups_does_not_silence_the_others():
    """The nested are dealt out among themselves, the parted shuffled within."""
    number, of_unit = np.repeat(np.arange(8), 4), np.arange(8) % 2
    member = of_unit[number]
    member[0] = 1 - member[0]
    units = Units(number, "individuals")
    moved = np.zeros(8)
    for seed in range(50):
        dealt = units.dealt(member, np.random.default_rng(seed))
        assert dealt[:4].sum() == member[:4].sum()
        rest = dealt[4:].reshape(7, 4)
        assert_array_equal(rest, np.repeat(rest[:, :1], 4, axis=1))
        assert rest[:, 0].sum() == of_unit[1:].sum()
        moved += [(dealt[number == u] != member[number == u]).any() for u in range(8)]
    assert np.all(moved > 5)
    assert "1 individuals that are in several" in units.dealing(member, "episodes")


@pytest.mark.parametrize(
    ("member", "least"),
    [
        ([0, 0, 0, 1, 1, 1], 2 / 20),  # twenty deals; the names of equal groups may change
        ([0, 0, 0, 0, 1], 1 / 5),
        ([0, 0, 1, 1, 2, 2], 6 / 90),
        ([0, 1] * 100, 0.0),
    ],
)
def test_the_least_chance_counts_the_deals(member, least):
    units = Units(np.arange(len(member)), "individuals")
    assert units.least_chance(np.array(member)) == pytest.approx(least, abs=1e-15)


def test_few_individuals_cannot_tell_groups_apart():
    names = np.array([f"mouse {e // 4}" for e in range(once().episodes)])
    groups = np.array([f"site {e // 12}" for e in range(once().episodes)])
    found = tacit.checks.equal_weights_test(
        *task(replace(once(), individuals=names)), groups, draws=19
    )
    assert found.least == pytest.approx(0.1)
    assert found.p_value >= found.least
    assert found.sentences[0].kind is Kind.NOT_IDENTIFIED


def errors_of(seen):
    recovery = tacit.recover(*task(seen), estimator=tacit.Likelihood())
    told = [f for f in recovery.identification.findings if f.kind is Kind.ERRORS]
    return recovery.identification.reward_standard_errors, told[0]


def test_names_of_few_individuals_never_make_errors_smaller():
    many = once(episodes=80, steps=30)
    plain, _ = errors_of(many)
    # Two of them cannot tell how individuals differ: trajectories do, and a sentence says so.
    few, said = errors_of(replace(many, individuals=np.where(np.arange(80) % 2, "a", "b")))
    assert_allclose(few, plain, rtol=1e-12)
    assert "too few" in said
    twenty, said = errors_of(replace(many, individuals=np.array([f"{e % 20}" for e in range(80)])))
    assert "the 20 individuals" in said
    assert (twenty != plain).any()


def test_one_step_episodes_of_individuals_are_theirs():
    """Choices of a panel: every row an episode, several rows a person."""
    walks = once(episodes=40, steps=30)
    each = tacit.Demonstrations.from_trajectories(
        [([s], [a]) for s, a in zip(walks.states, walks.actions, strict=True)]
    )
    who = np.repeat([f"p{e:02}" for e in range(40)], 30)
    alone, _ = errors_of(each)
    loose, said = errors_of(replace(each, individuals=who))
    whole, _ = errors_of(replace(walks, individuals=np.array([f"p{e:02}" for e in range(40)])))
    assert "the 40 individuals" in said
    assert_allclose(loose, whole, rtol=1e-6)
    assert np.all(loose >= 0.999 * alone)
    halves = np.repeat(np.arange(40) % 2, 30)
    test = tacit.checks.equal_weights_test(*task(replace(each, individuals=who)), halves, draws=9)
    assert "individuals out again" in test.law
