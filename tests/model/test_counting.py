"""The world from data: counts, pseudo-counts, what is known for certain, and what is in doubt."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from refusals import refusal
from tacit import MDP, Demonstrations, InvalidDemonstrations, InvalidModel
from tacit.files.trees import pack, unpack
from tacit.model.counts import ROWS_AT_ONCE, count_transitions
from tacit.model.layout import Layout
from tacit.model.pseudo_counts import Over, Prior, Unvisited

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3)), min_size=1)


def counted(rows, states=4, actions=2) -> np.ndarray:
    """[S, A, S] counts, one row after the other."""
    table = np.zeros((states, actions, states))
    for s, a, n in rows:
        table[s, a, n] += 1
    return table


@given(ROWS, ROWS)
def test_counts_are_those_of_a_loop_and_add_up(some, more):
    parts = [count_transitions(*np.array(rows).T, n_states=4, n_actions=2) for rows in (some, more)]
    total = parts[0] + parts[1]
    expected = counted([*some, *more])
    assert np.array_equal(total.toarray().reshape(4, 2, 4), expected)


def test_parts_of_a_long_column_are_added_up():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, n, ROWS_AT_ONCE + 1000, dtype=np.int32) for n in (5, 2, 5)]
    found = count_transitions(*columns).toarray()
    key = (columns[0].astype(int) * 2 + columns[1]) * 5 + columns[2]
    assert np.array_equal(found.ravel(), np.bincount(key, minlength=50))


def pseudo_shares(rows, over) -> np.ndarray:
    """[S, A, S] shares of a pseudo-count, from the definition."""
    seen = counted(rows).sum(axis=1) > 0
    lone = np.where(seen.any(axis=1, keepdims=True), seen, np.eye(4, dtype=bool))
    place = {Over.SUCCESSORS: lone, Over.ALL: np.ones((4, 4)), Over.STAY: np.eye(4)}[over]
    place = place / place.sum(axis=1, keepdims=True)
    return np.repeat(place[:, None, :], 2, axis=1)


@given(ROWS, st.sampled_from([*Over][:3]), st.sampled_from([0.5, 1.0, 3.0]))
def test_the_estimate_is_observed_plus_pseudo_counts(rows, over, strength):
    mdp = MDP.from_transitions(
        *np.array(rows).T,
        n_states=4,
        n_actions=2,
        initial=0,
        discount=0.9,
        prior=Prior(strength, over.value),
    )
    table = counted(rows) + strength * pseudo_shares(rows, over)
    # Two ways to divide a few numbers: rounding only.
    assert np.allclose(mdp.dense(), table / table.sum(axis=2, keepdims=True), atol=1e-12)
    assert np.array_equal(mdp.visits, counted(rows).sum(axis=2))
    assert np.allclose(mdp.evidence.concentration, table.sum(axis=2), atol=1e-12)


def test_without_pseudo_counts_the_shares_are_the_observed_ones():
    rows = [(0, 0, 1), (0, 0, 1), (0, 0, 0), (1, 0, 0)]
    mdp = MDP.from_transitions(*np.array(rows).T, initial=0, discount=0.5, prior=Prior(0))
    assert np.allclose(mdp.dense(), [[[1 / 3, 2 / 3]], [[1.0, 0.0]]], atol=1e-15)


# Hall -> garden -> the end, and an episode that was cut off on its way.
HOUSE = Demonstrations(
    states=[0, 1, 0, 0, 1],
    actions=[0, 1, 1, 0, 0],
    offsets=[0, 2, 4, 5],
    ended=[True, False, False],
    final_states=[3, 1, -1],
    partial=[False, False, True],
)
NAMES = Layout(state_names=("hall", "garden", "cellar", "the end"), action_names=("go", "wait"))


def test_demonstrations_give_steps_ends_and_the_start():
    mdp = MDP.from_transitions(HOUSE, n_states=4, discount=0.9, prior=Prior(0))
    visits = [[2, 1], [0, 1], [0, 0], [0, 0]]  # the last step of episode 2 led nobody knows where
    assert np.array_equal(mdp.visits, visits)
    assert np.array_equal(mdp.initial, [1, 0, 0, 0])  # the partial episode starts nothing
    assert mdp.dense()[0, 0, 1] == 1.0
    assert mdp.dense()[0, 1, 0] == 1.0
    assert mdp.dense()[1, 1, 3] == 1.0
    assert mdp.absorbing.tolist() == [False, False, True, False]
    assert mdp.ends.tolist() == [False, False, False, True]  # nothing was done there
    assert mdp.evidence.certain.tolist() == [False, False, False, True]
    assert mdp.evidence.unvisited_pairs.tolist() == [[1, 0], [2, 0], [2, 1]]
    assert mdp.evidence.never_left.tolist() == [2]


def test_the_sentences_name_what_was_assumed():
    mdp = MDP.from_transitions(HOUSE, n_states=4, discount=0.9)
    text = " ".join(mdp.evidence.sentences(NAMES))
    for part in (
        "estimated from 4 observed steps",
        "A pseudo-count of 1 was added",
        "1 last step could not be counted",
        "start was counted from 2 episodes",
        "Episodes end in the end",
        "3 of 6 pairs of state and action were never seen (go in garden, go in cellar and",
        "No step out of cellar was seen: taken to stay for ever",
        "100% of the observed steps lie in pairs seen fewer than 5 times",
        "intervals and tests of Likelihood count what is not known of these",
    ):
        assert part in text, text
    known = MDP(np.eye(2)[:, None, :], [1, 0], 0.5)
    assert known.visits is None
    assert known.evidence is None


def test_a_world_that_looks_deterministic_is_said_to():
    rows = np.array([(0, 0, 1), (0, 0, 1), (1, 0, 0)])
    text = "if this world is deterministic, a prior of 0"
    for last, said in (((1, 0, 0), True), ((1, 0, 1), False)):
        found = MDP.from_transitions(*np.vstack([rows, last]).T, initial=0, discount=0.9)
        assert found.evidence.deterministic is said
        assert (text in found.evidence.sentences()[-1]) is said


@pytest.mark.parametrize("over", [*Over])
def test_evidence_survives_a_file(over):
    mdp = MDP.from_transitions(HOUSE, n_states=4, discount=0.9, prior=Prior(2, over))
    found = unpack(pack(mdp.evidence))
    assert found.sentences(NAMES) == mdp.evidence.sentences(NAMES)
    assert np.array_equal(found.visits, mdp.visits)
    assert np.array_equal(found.concentration, mdp.evidence.concentration)
    again = MDP(mdp.transitions, mdp.initial, 0.9, found, available=mdp.available)
    drawn = [m.evidence.draw(m.transitions, np.random.default_rng(0)) for m in (mdp, again)]
    assert np.array_equal(drawn[0].probabilities, drawn[1].probabilities)
    with pytest.raises(InvalidModel, match=r"S, A = \(2, 1\); got \(4, 2\)"):
        MDP(np.eye(2)[:, None, :], [1, 0], 0.9, found)


@pytest.mark.parametrize("rule", list(Unvisited))
def test_pairs_never_seen_follow_the_rule(rule):
    def build():
        return MDP.from_transitions(
            [0, 1], [0, 0], [1, 0], n_actions=2, initial=0, discount=0.9, unvisited=rule.value
        )

    if rule is Unvisited.REFUSE:
        with pytest.raises(InvalidModel, match=r"2 of 4 pairs were not.*\(state 0, action 1\)"):
            build()
        return
    expected = {Unvisited.PRIOR: [[0, 1], [1, 0]], Unvisited.STAY: [[1, 0], [0, 1]]}[rule]
    assert np.array_equal(build().dense()[:, 1], expected)


def test_draws_follow_the_dirichlet_law_of_each_row():
    # (state 0, action 0): counts 6 and 2 and a pseudo-count of one over both; the end is certain.
    mdp = MDP.from_transitions(
        [0] * 8, [0] * 8, [0] * 6 + [1] * 2, initial=0, discount=0.9, absorbing=[1]
    )
    rng = np.random.default_rng(0)
    shares = np.array(
        [
            MDP(mdp.evidence.draw(mdp.transitions, rng), [1, 0], 0.9).dense()[:, 0, 0]
            for _ in range(4000)
        ]
    )
    mean, total = 6.5 / 9, 9.0
    deviation = np.sqrt(mean * (1 - mean) / (total + 1))
    # Five standard errors of a mean, and of a standard deviation, of 4000 draws.
    assert abs(shares[:, 0].mean() - mean) < 5 * deviation / np.sqrt(4000)
    assert abs(shares[:, 0].std() / deviation - 1) < 5 / np.sqrt(2 * 4000)
    assert (shares[:, 1] == 0).all()


def test_draws_of_very_thin_rows_are_still_distributions():
    mdp = MDP.from_transitions(
        [0], [0], [1], n_states=50, initial=0, discount=0.9, prior=Prior(0.01, "all")
    )
    drawn = mdp.evidence.draw(mdp.transitions, np.random.default_rng(1))
    assert np.allclose(drawn.probabilities.sum(axis=2), 1.0, atol=1e-12)  # rounding


def test_the_estimate_comes_close_to_the_truth_with_data():
    world = tacit.worlds.random(3, states=6, actions=2, constraints=0)
    policy = np.full((6, 2), 0.5)
    errors = []
    for many in (20, 2000):
        seen = tacit.simulate(world.mdp, policy, trajectories=many, steps=20, seed=1)
        found = MDP.from_transitions(seen, n_states=6, n_actions=2, discount=0.9)
        errors.append(np.abs(found.dense() - world.mdp.dense()).max())
    # A hundred times the steps: ten times closer on average; half of that leaves room for chance.
    assert errors[1] < errors[0] / 5
    assert errors[1] < 0.03


def refused(words, **given):
    arguments = {"states": [0, 1], "actions": [0, 0], "next_states": [1, 0], "discount": 0.9}
    with refusal((InvalidDemonstrations, InvalidModel), words):
        MDP.from_transitions(**(arguments | {"initial": 0} | given))


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("states must be integers; got float64", {"states": [0.0, 1.5]}),
        ("next_states must be in 0..1; row 1 has 2", {"next_states": [0, 2], "n_states": 2}),
        ("actions must be in 0..0; row 0 has -1", {"actions": [-1, 0]}),
        ("must be as many; got [2, 1, 2]", {"actions": [0]}),
        ("initial must be given", {"initial": None}),
        ("initial must be a state in 0..1; got 7", {"initial": 7}),
        ("n_states must be an integer of at least 1; got 0", {"n_states": 0}),
        ("unvisited must be one of 'prior', 'stay', 'refuse'; got 'dream'", {"unvisited": "dream"}),
        ("absorbing must list states in 0..1", {"absorbing": [5]}),
        ("hold their own actions", {"states": HOUSE}),
    ],
)
def test_bad_input_is_one_line(words, given):
    refused(words, **given)


def test_a_prior_is_checked_when_it_is_made():
    with pytest.raises(InvalidModel, match="strength must be a number of steps, 0 or more; got -1"):
        Prior(-1)
    with pytest.raises(InvalidModel, match="must be one of 'successors', 'all', 'stay'; got 'far'"):
        Prior(1, "far")
    seen = ([0, 1], [0, 0], [1, 0])
    with pytest.raises(InvalidModel, match="strength must be a number of steps"):
        MDP.from_transitions(*seen, discount=0.9, initial=0, prior="far")  # type: ignore


def test_a_number_is_the_strength_of_a_prior():
    seen = ([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1])
    number, prior = (
        MDP.from_transitions(*seen, discount=0.9, initial=0, prior=given)
        for given in (0.5, Prior(0.5))
    )
    assert np.array_equal(number.dense(), prior.dense())
    assert number.dense()[0, 0, 1] == pytest.approx(0.25 / 1.5)


def test_an_end_that_is_left_is_refused_by_episode_and_step():
    seen = Demonstrations([0, 1, 0], [0, 0, 0], [0, 1, 3], ended=[True, False], final_states=[1, 0])
    with pytest.raises(InvalidDemonstrations, match="state 1 ends one, but episode 1 leaves it at"):
        MDP.from_transitions(seen, discount=0.9)


def test_time_goes_on_where_an_episode_ended_and_something_was_done():
    # State 1 ends episode 0 and is stayed in by episode 1: were it an end, that could not be.
    seen = Demonstrations([0, 0, 1], [0, 0, 1], [0, 1, 3], ended=[True, True], final_states=[1, 1])
    mdp = MDP.from_transitions(seen, discount=0.9)
    assert not mdp.ends.any()
    assert mdp.absorbing.tolist() == [False, True]
    seen.check(mdp)
    said = " ".join(mdp.evidence.sentences(ends=mdp.ends))
    assert "Nothing leaves state 1: time goes on there." in said
    assert "Episodes end in" not in said


def test_only_a_mask_makes_an_unseen_pair_unavailable():
    seen = {"states": [0, 1, 1], "actions": [0, 0, 1], "next_states": [1, 0, 1]}
    plain = MDP.from_transitions(**seen, initial=0, discount=0.9)
    assert not plain.restricted
    assert plain.evidence.unvisited_pairs.tolist() == [[0, 1]]
    mask = [[True, False], [True, True]]
    mdp = MDP.from_transitions(**seen, initial=0, discount=0.9, available=mask)
    assert mdp.available.tolist() == mask
    assert mdp.dense()[0, 1].tolist() == [0.0, 0.0]
    assert len(mdp.evidence.unvisited_pairs) == 0
    assert np.array_equal(mdp.dense()[mdp.available], plain.dense()[mdp.available])
    assert "1 pair of state and action is not available" in " ".join(mdp.evidence.sentences())
    drawn = mdp.evidence.draw(mdp.transitions, np.random.default_rng(0))
    again = MDP(drawn, [1, 0], 0.9, available=mdp.available)  # an unavailable row stays empty
    assert again.dense()[0, 1].tolist() == [0.0, 0.0]
    mask = [[True, False], [True, False]]
    with pytest.raises(InvalidDemonstrations, match="got action 1 in state 1, seen 1 times"):
        MDP.from_transitions(**seen, initial=0, discount=0.9, available=mask)
    # Counted ends allow discount 1; without one, one line says what is missing.
    walk = Demonstrations([0, 0], [0, 1], [0, 1, 2], ended=[True, True], final_states=[1, 1])
    assert MDP.from_transitions(walk, discount=1.0).ends.tolist() == [False, True]
    with pytest.raises(InvalidModel, match="no state is an end"):
        MDP.from_transitions(**seen, initial=0, discount=1.0)


def test_taken_up_again_a_model_keeps_every_bit():
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(7), size=(7, 3))
    once = MDP(table, np.full(7, 1 / 7), 0.9)
    for form in (once.transitions, once.dense(), once.sparse()):
        again = MDP(form, once.initial, 0.9)
        assert np.array_equal(again.transitions.probabilities, once.transitions.probabilities)
        assert np.array_equal(again.transitions.states, once.transitions.states)
