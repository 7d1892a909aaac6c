"""Intentions that switch: told apart, counted, located; a mixture where nobody switches."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import experts
import tacit
from kinds import told
from tacit import Kind
from tacit.cli import main
from tacit.estimators.intentions import fewest, held_out_counts
from tacit.folders.problem import Problem
from tacit.folders.runs import Run
from tacit.likelihood.switching import Mixing, Sequences, passes
from tacit.model.layout import Layout
from tacit.show.html import render
from tacit.show.page import recovery_document

APART = np.array([[8.0, 1.0, 0.0], [0.0, 8.0, 1.0]])
SURE = 0.9  # chance under the truth from which a step can be distinguished


@cache
def world() -> tacit.worlds.World:
    """Twelve states, three actions, three features."""
    return tacit.worlds.random(3, states=12, actions=3, constraints=0, features=3)


@cache
def policies() -> np.ndarray:
    """[2, S, A] of the two intentions, by an oracle."""
    place = world()
    return np.stack([experts.policy_of(place.mdp, place.features, [theta]) for theta in APART])


def walks(
    switching: np.ndarray,
    *,
    trajectories: int = 20,
    steps: int = 80,
    seed: int = 0,
    places: np.ndarray | None = None,
) -> tuple[tacit.Demonstrations, np.ndarray]:
    """(demonstrations, [N] true intentions), drawn step by step by tables [G, 2, 2] of places."""
    mdp, rng = world().mdp, np.random.default_rng(seed)
    next_law = np.stack([mdp.expected_next(one) for one in np.eye(mdp.states)], axis=2)
    place = np.zeros(mdp.states, int) if places is None else places
    rows = []
    for _ in range(trajectories):
        state, who = rng.choice(mdp.states, p=mdp.initial), int(rng.integers(2))
        for step in range(steps):
            if step:
                who = int(rng.random() < switching[place[state], who, 1])
            action = rng.choice(mdp.actions, p=policies()[who, state])
            rows.append((state, action, who))
            state = rng.choice(mdp.states, p=next_law[state, action])
    states, actions, who = np.array(rows).T
    ends = np.arange(trajectories + 1) * steps
    return tacit.Demonstrations(states, actions, ends), who


def lasting(steps: float) -> np.ndarray:
    """[1, 2, 2] the table of intentions that last so many steps on average."""
    return np.array([[[1 - 1 / steps, 1 / steps], [1 / steps, 1 - 1 / steps]]])


def clear(seen: tacit.Demonstrations, table: np.ndarray) -> np.ndarray:
    """[N] bool, the steps whose intention the truth itself is sure of."""
    logs = np.log(policies()[:, seen.states, seen.actions]).T
    order = Sequences(seen.offsets, np.zeros(seen.steps, int), 1)
    return passes(order, logs, Mixing(np.full(2, 0.5), table)).membership.max(axis=0) > SURE


def fit(seen: tacit.Demonstrations, **options) -> object:
    place, options = world(), {"starts": 3, **options}
    estimator = tacit.Intentions(**options)
    return tacit.recover(place.mdp, place.features, seen, estimator=estimator, throw=False)


@cache
def lasting_twelve():
    """(the recovery of two intentions that last 12 steps, their walks, the truth)."""
    seen, truth = walks(lasting(12.0))
    return fit(seen), seen, truth


def named(found, truth: np.ndarray) -> list[int]:
    """The number of the recovered intention of each true one."""
    return [0, 1] if (found.followed == truth).mean() > 0.5 else [1, 0]


@pytest.mark.parametrize("steps", [5.0, 50.0])
def test_two_switching_rewards_are_told_apart(steps):
    seen, truth = walks(lasting(steps), seed=1)
    found, sure = fit(seen), clear(seen, lasting(steps))
    order = named(found, truth)
    assert sure.mean() > 0.4
    assert (np.array(order)[truth] == found.followed)[sure].mean() >= 0.9


def test_numbers_and_intervals_hold_the_truth():
    found, seen, truth = lasting_twelve()
    assert found.status is tacit.RecoveryStatus.LOCAL_OPTIMUM
    assert found.certificate.projected_gradient < 1e-5
    for who, k in enumerate(named(found, truth)):
        ends = found.intentions[k].parameters.at(0.999).intervals
        assert ((ends[:, 0] <= APART[who]) & (APART[who] <= ends[:, 1])).all()
        low, high = found.share_intervals[k]
        assert low <= (truth == who).mean() <= high
        assert high - low < 0.2
        assert found.dwell_intervals[0, k, 0] <= 12.0 <= found.dwell_intervals[0, k, 1]
        share = np.array([(truth[seen.states == s] == who).mean() for s in range(12)])
        inside = (found.where_intervals[:, k, 0] <= share) & (
            share <= found.where_intervals[:, k, 1]
        )
        assert inside.sum() >= 10  # of 12, each with 95 %
    np.testing.assert_allclose(found.shares, found.following.mean(axis=0))
    each = found.log_likelihoods(seen)
    assert each.shape == (20,)
    assert each.sum() == pytest.approx(found.log_likelihood, rel=1e-9)
    np.testing.assert_allclose(found.membership[3], found.following[240:320].mean(axis=0))
    np.testing.assert_allclose(found.switching.sum(axis=2), 1.0)
    np.testing.assert_allclose(found.dwell, 1.0 / (1.0 - np.diagonal(found.switching, 0, 1, 2)))


def test_their_number_is_that_which_predicts_held_out_trajectories():
    two = fit(walks(lasting(12.0), seed=2)[0], count=None, most=2)
    assert len(two.intentions) == 2
    assert two.held_out[1] > two.held_out[0] + 0.05
    assert told(two.findings, Kind.CHOICE)[0].about.number == 2
    alone = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    seen, truth = walks(alone, seed=3)
    kept = seen.select(truth[seen.offsets[:-1]] == 0)
    one = fit(kept, count=None, most=2, folds=3)
    assert len(one.intentions) == 1
    assert one.shares == 1.0
    assert one.degrees == (one.intentions[0].parameters.estimates > 0).sum()
    # Counts know nothing of weights: they predict a little worse than the right model.
    assert one.counted.shape == (2,)
    assert one.counted[0] < one.held_out[0]


def test_fewest_takes_no_gain_that_chance_makes():
    base = np.full(10, -5.0)
    noise = np.tile([0.5, -0.4], 5)
    assert fewest(np.stack([base, base + noise])) == 0
    assert fewest(np.stack([base, base + 1.0 + noise, base + 1.01 + noise[::-1]])) == 1


def test_counts_held_out_are_those_of_a_plain_loop():
    seen, mdp = walks(lasting(12.0))[0].select(np.arange(4)), world().mdp
    found = held_out_counts(seen, mdp, folds=2, seed=0)
    fold, total = np.random.default_rng(0).permutation(4) % 2, 0.0
    for e in range(4):
        others = [seen.trajectory(o) for o in range(4) if fold[o] != fold[e]]
        table = np.full((12, 3), 0.5)
        for states, actions in others:
            np.add.at(table, (states, actions), 1.0)
        states, actions = seen.trajectory(e)
        total += np.log(table[states, actions] / table[states].sum(axis=1)).sum()
    assert found[0] == pytest.approx(total / seen.steps)


def test_chances_to_switch_may_be_those_of_places_and_times():
    places = np.arange(12) % 2
    tables = np.stack([np.eye(2), lasting(4.0)[0]])  # nobody switches at the first place
    seen, _ = walks(tables, seed=4, places=places)
    found = fit(seen, places=places)
    assert found.switching.shape == (2, 2, 2)
    assert found.dwell[0].min() > 15.0
    assert found.dwell_intervals[0, :, 0].min() > 8.0
    assert found.dwell[1].max() < 8.0
    assert found.log_likelihood > fit(seen).log_likelihood + 20.0
    assert found.log_likelihoods(seen).sum() == pytest.approx(found.log_likelihood, rel=1e-9)
    timed = fit(seen, places=places, times=(40,))
    assert timed.switching.shape == (4, 2, 2)
    assert timed.log_likelihood >= found.log_likelihood - 1e-6


def test_where_nobody_switches_it_is_the_mixture():
    seen, _ = walks(np.eye(2)[None], seed=5, trajectories=30, steps=40)
    found = fit(seen)
    place = world()
    mixture = tacit.recover(
        place.mdp, place.features, seen, estimator=tacit.Mixture(starts=3), throw=False
    )
    # Chances to switch are at their bound, 0, and the rest is the same likelihood.
    assert found.log_likelihood == pytest.approx(mixture.log_likelihood, abs=1e-5)
    np.testing.assert_allclose(found.switching[0], np.eye(2), atol=1e-6)
    for one, other in zip(found.intentions, mixture.types, strict=True):
        np.testing.assert_allclose(one.parameters.estimates, other.parameters.estimates, atol=1e-4)
    assert told(found.findings, Kind.NOTE)[0].startswith("Intention 0 is followed longer")


def test_saved_loaded_shown_and_drawn(tmp_path):
    found, seen, _ = lasting_twelve()
    found.save(tmp_path / "run")
    again = tacit.Intentions.load(tmp_path / "run")
    for name in ("following", "switching", "where_intervals", "offsets"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert again.summary() == found.summary()
    assert repr(found).startswith("IntentionsRecovery(LOCAL_OPTIMUM, intentions=2")
    columns = tacit.export.intention_shares(found, seen)
    assert (np.diff(columns["switches"]) <= 0).all()
    np.testing.assert_allclose(columns["intention_0"], found.membership[columns["number"], 0])
    page = render(recovery_document(Run(found, Layout(), {}, trajectories=columns)))
    assert "When which is followed" in page
    assert "How long each intention lasts" in page
    strips = tacit.plot.intentions(found)
    assert len(strips.get_yticklabels()) == 12
    image = np.asarray(strips.images[0].get_array())
    first = int(strips.get_yticklabels()[0].get_text().removeprefix("trajectory "))
    chances = found.following[80 * first : 80 * first + 80]
    assert chances @ image[0, chances.argmax(axis=0)] == pytest.approx(image[0], abs=0.02)
    numbers = tacit.plot.intentions.table(found, 3)
    np.testing.assert_array_equal(numbers["intention 1"], found.following[240:320, 1])
    assert numbers["step"].to_list() == list(range(80))
    assert tacit.plot.intentions(found, 3).get_ylim() == (0.0, 1.0)
    grid = Layout(rows=3, columns=4)
    path = tacit.plot.intentions(found, 3, layout=grid)
    assert len(path.collections[0].get_segments()) == 79
    assert [text.get_text() for text in found.plot().axes[0].get_yticklabels()] == [
        f"intention {k} ({share:.0%})" for k, share in enumerate(found.shares)
    ]


def test_the_command_line(tmp_path, monkeypatch, capsys):
    seen, place = lasting_twelve()[1], world()
    Problem(place.mdp, place.features, seen).save(tmp_path / "walks")
    monkeypatch.chdir(tmp_path)
    assert main(["recover", "walks", "--intentions", "2", "--starts", "2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [len(data["intentions"]), np.shape(data["switching"])] == [2, (1, 2, 2)]
    assert tacit.Intentions.load("run").shares == pytest.approx(data["shares"])
    assert main(["recover", "walks", "--intentions", "2", "--holdout", "0.2"]) == 2
    assert "several intentions of demonstrators" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"count": 0}, "count must be an integer, 1 or more"),
        ({"folds": 1}, "folds must be an integer, 2 or more"),
        ({"times": (5, 5)}, "times must be rising integers above 0"),
        ({"places": [0, 1]}, "places must be a number from 0 for each of the 12 states"),
        ({"prior": tacit.features.Sparse()}, "must be without a sparse prior"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, said):
    with pytest.raises(tacit.InvalidModel, match=said):
        fit(lasting_twelve()[1], **options)


def test_bad_data_are_refused_in_one_line():
    seen = walks(lasting(12.0))[0]
    few = tacit.Demonstrations(seen.states[:8], seen.actions[:8], [0, 8])
    loose = tacit.Demonstrations.from_pairs(seen.states, seen.actions)
    weighted = replace(seen, weights=np.linspace(1.0, 2.0, seen.steps))
    for bad, options, said in (
        (few, {"count": 3}, "3 intentions need at least 9 steps, .* got 8: ask for fewer"),
        (loose, {}, "got loose steps"),
        (weighted, {}, "weights=None"),
        (seen.select(np.arange(4)), {"count": None}, "at least 10 for 5 folds; got 4"),
    ):
        with pytest.raises(tacit.InvalidDemonstrations, match=said):
            fit(bad, **options)
