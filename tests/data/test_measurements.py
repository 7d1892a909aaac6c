"""Rows of measurements behave as numbered states do, and keep their rows."""

import dataclasses

import numpy as np
import pytest

import tacit
from tacit.data.units import units_of
from tacit.model.layout import Layout

Measurements = tacit.Measurements


def drawn(seed=0, lengths=(5, 3, 1), longer=(False, True, True), columns=("speed", "lean")):
    """Measurements of some episodes, and the rows and actions they were made from."""
    random = np.random.default_rng(seed)
    pairs = [
        (random.normal(size=(steps + more, len(columns))), random.integers(3, size=steps))
        for steps, more in zip(lengths, longer, strict=True)
    ]
    ended = np.array(longer) & (np.array(lengths) > 1)
    return Measurements.from_trajectories(pairs, columns=columns, ended=ended), pairs


def as_trajectories(seen):
    """The (observations, actions) of every episode."""
    pairs = []
    for episode in range(seen.episodes):
        sites, actions = seen.trajectory(episode)
        last = seen.final_states[episode]
        pairs.append((seen.observations[np.append(sites, last) if last >= 0 else sites], actions))
    return pairs


def assert_same(seen, pairs):
    for (rows, actions), (wanted, taken) in zip(as_trajectories(seen), pairs, strict=True):
        np.testing.assert_array_equal(rows, wanted)
        np.testing.assert_array_equal(actions, taken)


def test_rows_stand_in_the_order_of_steps_then_those_after_last_actions():
    seen, pairs = drawn()
    assert (seen.episodes, seen.steps, seen.sites) == (3, 9, 11)
    np.testing.assert_array_equal(seen.states, np.arange(9))
    np.testing.assert_array_equal(seen.final_states, [-1, 9, 10])
    np.testing.assert_array_equal(seen.next_states, [1, 2, 3, 4, -1, 6, 7, 9, 10])
    assert_same(seen, pairs)
    assert not seen.observations.flags.writeable


def test_selected_and_cut_episodes_keep_their_rows():
    seen, pairs = drawn()
    assert_same(seen.select([2, 1, 1]), [pairs[2], pairs[1], pairs[1]])
    cut = seen.truncate(2)
    assert_same(cut, [(rows[:3], actions[:2]) for rows, actions in pairs])
    assert not cut.ended[1]
    assert cut.final_states.tolist() == [5, 6, 7]


def test_pooled_rows_are_those_of_both_whatever_the_order_of_columns():
    first, pairs = drawn()
    second, others = drawn(seed=1, columns=("lean", "speed"))
    assert_same(first + second, pairs + [(rows[:, ::-1], taken) for rows, taken in others])
    with pytest.raises(tacit.InvalidDemonstrations, match="same columns"):
        first + drawn(columns=("lean", "height"))[0]
    plain = tacit.Demonstrations.from_trajectories([([0, 1], [0, 1])])
    for pool in (lambda: first + plain, lambda: plain + first):
        with pytest.raises(tacit.InvalidDemonstrations, match="same columns"):
            pool()


def test_who_was_seen_and_what_steps_weigh_go_along():
    seen, _ = drawn()
    weights = np.arange(1.0, 10.0)
    seen = dataclasses.replace(seen, individuals=["a", "b", "a"], weights=weights)
    some = seen.select([2, 0])
    assert some.individuals.tolist() == ["a", "a"]
    np.testing.assert_array_equal(some.weights, weights[[8, 0, 1, 2, 3, 4]])
    assert len(units_of(seen)) == 2


def test_actions_may_be_names():
    layout = Layout(action_names=("left", "right"))
    seen = Measurements.from_trajectories([([[0.0], [1.0]], ["right", "left"])], layout)
    assert seen.actions.tolist() == [1, 0]
    assert seen.action_names == ("left", "right")
    assert seen.columns == ("x0",)
    np.testing.assert_array_equal(seen.column("x0"), [0.0, 1.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda m: m.from_trajectories([]), "at least one trajectory"),
        (lambda m: m.from_trajectories([([[0.0]], [0, 1])]), "as many states as actions"),
        (lambda m: m.from_trajectories([([["a"]], [0])]), "trajectory 0: observations must be"),
        (lambda m: m.from_trajectories([([[np.inf]], [0])]), "row 0, column 0 is inf"),
        (lambda m: m.from_trajectories([([[0.0]], [0])], columns=["a", "b"]), r"\[n, 2\]"),
        (
            lambda m: m.from_trajectories([([[0.0, 1.0]], [0])], columns=["a", "a"]),
            "'a' is twice",
        ),
        (lambda m: m.from_trajectories([([[0.0, 1]], [0]), ([[0.0]], [0])]), "trajectory 1"),
        (lambda m: m.from_trajectories([([[0.0]], [0.5])]), "actions must be integers"),
        (lambda m: m.from_trajectories([3]), "pair"),
        (
            lambda m: dataclasses.replace(drawn()[0], observations=np.zeros((3, 2))),
            "one row a step",
        ),
        (lambda m: dataclasses.replace(drawn()[0], states=np.zeros(9, int)), "in their order"),
        (lambda m: drawn()[0].column("sped"), "did you mean 'speed'"),
        (lambda m: drawn()[0].check(tacit.worlds.hill_grid(0).mdp), "tacit.Logged"),
    ],
)
def test_bad_rows_are_refused_in_one_line(make, words):
    with pytest.raises(tacit.InvalidDemonstrations, match=words) as refusal:
        make(Measurements)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("observations", "actions", "words"),
    [
        ([[0.0, np.nan], [1.0, np.nan]], [0, 1], "'b' is missing in all 2"),
        ([[0.0, 3.0], [1.0, 3.0]], [0, 1], "'b' is 3 in all rows"),
        ([[0.0, 3.0], [1.0, 2.0]], [1, 1], "all 2 steps took '1'"),
    ],
)
def test_rows_that_say_nothing_are_refused(observations, actions, words):
    seen = Measurements.from_trajectories([(observations, actions)], columns=("a", "b"))
    with pytest.raises(tacit.InvalidDemonstrations, match=words):
        seen.check_rows()


def test_rows_without_any_successor_are_refused():
    pairs = [([[0.0]], [0]), ([[1.0]], [1])]
    with pytest.raises(tacit.InvalidDemonstrations, match="a row after it"):
        Measurements.from_trajectories(pairs).check_rows()
    Measurements.from_trajectories(pairs, ended=[True, False]).check_rows()
    drawn()[0].check_rows()
