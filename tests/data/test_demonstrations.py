"""What was seen: ragged episodes in columns, cut, chosen and counted without losing a step."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from refusals import refusal
from strategies import examples
from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations
from tacit.model.mdp import MDP

MODEL = MDP(np.full((4, 3, 4), 0.25), np.full(4, 0.25), 0.9)
STEP = st.tuples(st.integers(0, 3), st.integers(0, 2))
EPISODES = st.lists(st.lists(STEP, min_size=1, max_size=6), min_size=1, max_size=6)


def columns(episode: list) -> tuple[list, list]:
    return [s for s, _ in episode], [a for _, a in episode]


@given(EPISODES)
@examples(60)
def test_trajectories_come_back_as_they_went_in(episodes):
    seen = Demonstrations.from_trajectories(columns(e) for e in episodes)
    assert seen.episodes == len(episodes)
    assert seen.steps == sum(map(len, episodes))
    assert seen.lengths.tolist() == [len(e) for e in episodes]
    for number, episode in enumerate(episodes):
        states, actions = seen.trajectory(number)
        assert (states.tolist(), actions.tolist()) == columns(episode)
    assert seen.episode.tolist() == [e for e, steps in enumerate(episodes) for _ in steps]
    assert seen.step.tolist() == [t for steps in episodes for t in range(len(steps))]
    assert seen.final_states.tolist() == [-1] * len(episodes)
    assert not seen.ended.any()


@given(EPISODES)
@examples(60)
def test_counts_count_every_step_once(episodes):
    counts = Demonstrations.from_trajectories(columns(e) for e in episodes).counts(MODEL)
    expected = np.zeros((4, 3))
    for episode in episodes:
        for s, a in episode:
            expected[s, a] += 1
    assert_array_equal(counts, expected)


@given(EPISODES, st.integers(1, 8))
@examples(60)
def test_truncation_keeps_the_first_steps_and_the_state_that_followed(episodes, steps):
    full = Demonstrations.from_trajectories(([*columns(e)[0], 3], columns(e)[1]) for e in episodes)
    full = Demonstrations(
        full.states,
        full.actions,
        full.offsets,
        ended=np.ones(full.episodes, bool),
        final_states=full.final_states,
    )
    cut = full.truncate(steps)
    for number, episode in enumerate(episodes):
        states, actions = cut.trajectory(number)
        assert (states.tolist(), actions.tolist()) == columns(episode[:steps])
        shortened = len(episode) > steps
        assert cut.final_states[number] == (episode[steps][0] if shortened else 3)
        # An episode that was cut did not run to its end.
        assert cut.ended[number] == (not shortened)


@given(EPISODES, st.data())
@examples(60)
def test_selection_keeps_order_and_repeats(episodes, data):
    seen = Demonstrations.from_trajectories(columns(e) for e in episodes)
    chosen = data.draw(st.lists(st.integers(0, len(episodes) - 1), min_size=1, max_size=8))
    again = seen.select(chosen)
    assert again.episodes == len(chosen)
    for number, source in enumerate(chosen):
        states, actions = again.trajectory(number)
        assert (states.tolist(), actions.tolist()) == columns(episodes[source])
    mask = np.arange(len(episodes)) == chosen[0]
    assert_array_equal(seen.select(mask).states, seen.trajectory(chosen[0])[0])


def test_a_last_state_without_an_action_is_the_final_state():
    seen = Demonstrations.from_trajectories([([0, 1, 2], [1, 0]), ([3], [2])])
    assert seen.final_states.tolist() == [2, -1]
    assert seen.states.tolist() == [0, 1, 3]
    assert repr(seen) == "Demonstrations(episodes=2, steps=3)"


def test_the_columns_do_not_change():
    states = np.array([0, 1])
    seen = Demonstrations(states, [0, 0], [0, 2])
    states[:] = 3
    assert seen.states.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        seen.states[0] = 1


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Demonstrations([0, 1], [0], [0, 2]), ["states and actions", "2", "1"]),
        (lambda: Demonstrations([], [], [0]), ["at least one step"]),
        (lambda: Demonstrations([0], [0], [0]), ["offsets", "(1)"]),
        (lambda: Demonstrations([0], [0], [1, 1]), ["offsets", "[1 1]"]),
        (lambda: Demonstrations([0], [0], [0, 1, 1]), ["episode 1", "none"]),
        (lambda: Demonstrations([0, 0, 0], [0, 0, 0], [0, 2, 1, 3]), ["episode 1", "none"]),
        (lambda: Demonstrations([0.5], [0], [0, 1]), ["states", "integers", "float64"]),
        (lambda: Demonstrations([0], [True], [0, 1]), ["actions", "integers", "bool"]),
        (lambda: Demonstrations([[0]], [0], [0, 1]), ["states", "one column", "(1, 1)"]),
        (lambda: Demonstrations([[0], [0, 1]], [0], [0, 1]), ["states", "ragged"]),
        (lambda: Demonstrations([0, 2**32], [0, 0], [0, 2]), ["states", "row 1", "4294967296"]),
        (lambda: Demonstrations([0], [0], [0, 1], ended=[True, True]), ["ended", "(1)", "(2,)"]),
        (
            lambda: Demonstrations([0], [0], [0, 1], ended=None, final_states=[0, 0]),
            ["final_states", "(1)", "(2,)"],
        ),
        (lambda: Demonstrations.from_trajectories([]), ["at least one trajectory"]),
        (lambda: Demonstrations.from_trajectories([([], [])]), ["trajectory 0", "no step"]),
        (lambda: Demonstrations.from_trajectories([([0], [0, 1])]), ["trajectory 0", "1 and 2"]),
        (lambda: Demonstrations.from_trajectories([([0], [0]), 5]), ["trajectory 1", "5"]),
        (lambda: Demonstrations.from_trajectories([(["a"], [0])]), ["trajectory 0", "integers"]),
        (lambda: Demonstrations([4], [0], [0, 1]).check(MODEL), ["state", "0..3", "4"]),
        (lambda: Demonstrations([0, -1], [0, 0], [0, 1, 2]).check(MODEL), ["episode 1", "-1"]),
        (lambda: Demonstrations([0, 0], [0, 3], [0, 2]).counts(MODEL), ["action", "step 1", "3"]),
        (
            lambda: Demonstrations([0], [0], [0, 1], ended=None, final_states=[4]).check(MODEL),
            ["final state", "episode 0", "4"],
        ),
        (
            lambda: Demonstrations([0], [0], [0, 1], ended=None, final_states=[-2]).check(MODEL),
            ["final state", "episode 0", "-2"],
        ),
        (lambda: Demonstrations([0], [0], [0, 1]).truncate(0), ["at least one step", "steps=0"]),
        (lambda: Demonstrations([0], [0], [0, 1]).select([]), ["at least one episode"]),
    ],
)
def test_demonstrations_that_cannot_have_happened(build, words):
    with refusal(InvalidDemonstrations, *words):
        build()


def test_an_episode_that_is_not_there():
    seen = Demonstrations([0], [0], [0, 1])
    for episode in (-1, 1):
        with pytest.raises(IndexError, match=r"0\.\.0"):
            seen.trajectory(episode)


# --- two sets as one ------------------------------------------------------------------------------


@given(EPISODES, st.integers(0, 6))
@examples(60)
def test_two_sets_are_pooled_to_what_they_were_parted_from(episodes, cut):
    whole = Demonstrations.from_trajectories(columns(e) for e in episodes)
    whole = replace(
        whole,
        ended=np.arange(whole.episodes) % 2 == 0,
        partial=np.arange(whole.episodes) % 3 == 0,
        groups=[f"group {e % 2}" for e in range(whole.episodes)],
        individuals=[f"fox {e % 3}" for e in range(whole.episodes)],
        weights=1.0 + np.arange(whole.steps),
    )
    first, second = np.arange(whole.episodes) < cut, np.arange(whole.episodes) >= cut
    if not first.any() or not second.any():
        return
    both = whole.select(first) + whole.select(second)
    for field in fields(whole):
        assert_array_equal(getattr(both, field.name), getattr(whole, field.name))
    assert_array_equal(both.counts(MODEL), whole.counts(MODEL))


def test_names_of_two_logs_are_those_of_one_log():
    rows = {
        "episode": ["a", "a", "b"],
        "state": ["hall", "den", "roof"],
        "action": ["go", "x", "x"],
    }
    first = Demonstrations.from_frame({n: c[:2] for n, c in rows.items()}, step=None)
    second = Demonstrations.from_frame({n: c[2:] for n, c in rows.items()}, step=None)
    whole = Demonstrations.from_frame(rows, step=None)
    both = first + second
    assert both.layout == whole.layout
    for name in ("states", "actions", "offsets", "names", "final_states", "notes"):
        assert_array_equal(getattr(both, name), getattr(whole, name))
    again = both + second  # whose names the first ones have
    assert again.layout == both.layout
    assert again.names.tolist() == ["a", "b", "b (2)"]
    assert again.states.tolist() == [*both.states, both.states[-1]]


def test_sets_that_cannot_be_one_are_refused_in_one_line():
    plain = Demonstrations([0, 5], [0, 1], [0, 2])
    named = Demonstrations.from_frame({"episode": [0], "state": ["hall"], "action": [0]}, step=None)
    groups = replace(plain, groups=["a"])
    for first, second, said in (
        (plain, groups, "both have groups, or neither; the first have none"),
        (replace(plain, weights=[1.0, 2.0]), plain, "weights, or neither; the second have none"),
        (named, plain, "one has 1 names, the other state 5 without one: read both with one layout"),
    ):
        with refusal(InvalidDemonstrations, match=said):
            first + second
    with pytest.raises(TypeError):
        plain + 1
