"""Searches can be watched and stopped, and watching changes nothing, to the last bit."""

import io
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinds
import tacit
from tacit.engine import Side, progress
from tacit.engine.backends import Host
from tacit.engine.backends.device import dense, sparse
from tacit.engine.progress import Event, StopEarly, log, once, pursue, watching
from tacit.files.trees import digest, pack, unpack
from tacit.inference.findings import About
from tacit.search.minimise import Stage
from tacit.search.smooth_dual import Dual, minimum
from walks import seen_by

ESTIMATORS = {
    "likelihood": (tacit.Likelihood(), "noisy"),
    "convex": (tacit.Convex(), "noisy"),
    "alternating": (tacit.Alternating(starts=1, max_steps=6), "exact"),
    "noisy alternation": (
        tacit.Alternating(tacit.SoftDual(temperature=0.1), starts=1, max_steps=3),
        "noisy",
    ),
    "explanation": (tacit.Explanation(), "exact"),
    "no explanation": (tacit.Explanation(), "noisy"),
    "reward only": (tacit.RewardOnly(), "noisy"),
    "constraint only": (tacit.ConstraintOnly([0.5, 0.5]), "noisy"),
}


@pytest.fixture(scope="module")
def seen():
    return seen_by()


def dual(mdp: tacit.MDP, size: int = 3) -> Dual:
    rng = np.random.default_rng(1)
    shape = (mdp.states, mdp.actions)
    return Dual(
        start=rng.random(mdp.states),
        discount=mdp.discount,
        temperature=1.0,
        base=rng.normal(size=shape),
        tables=rng.normal(size=(size, *shape)),
        target=rng.normal(size=size),
        lower=np.zeros(size),
        upper=np.full(size, 50.0),
        ridge=rng.random(size),
        unit=np.ones(size),
        scale=np.full(size, 30.0),
        information=np.ones(mdp.states),
    )


# --- the search itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [dense, sparse, Host])
def test_a_watched_search_ends_at_the_same_bits(engine):
    world = tacit.worlds.random(4, states=12, actions=3)
    given = engine(world.mdp), dual(world.mdp), np.zeros(3), np.zeros(12), 1e-9, 100
    events: list[Event] = []
    alone, steps = minimum(*given)
    with watching([events.append]):
        seen, evaluations = minimum(*given, stage=Stage("fit", ()))
    assert [event.step for event in events] == list(range(1, steps + 1))
    assert evaluations == steps > 3
    for one, other in zip(alone, seen, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("engine", [dense, sparse, Host])
def test_a_search_goes_on_from_where_a_checkpoint_has_it(engine, tmp_path):
    world = tacit.worlds.random(4, states=12, actions=3)
    given = engine(world.mdp), dual(world.mdp), np.zeros(3), np.zeros(12), 1e-9
    kept = tmp_path / "kept.npz"
    whole, steps = minimum(*given, 100)
    with watching([progress.checkpoint(kept, every=0.0), lambda event: event.step == steps - 2]):
        minimum(*given, 100, stage=Stage("fit", ()))
    with watching([progress.checkpoint(kept)]):
        found, left = minimum(*given, 100, stage=Stage("fit", ()))
    assert left < steps
    assert_allclose(found.x, whole.x, rtol=1e-9, atol=1e-12)


# --- watching -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ESTIMATORS)
def test_watching_changes_nothing(seen, tmp_path, name):
    estimator, kind = ESTIMATORS[name]
    events: list[Event] = []
    for folder, callbacks in (("alone", ()), ("watched", [events.append])):
        found = tacit.recover(*seen[kind], estimator=estimator, callbacks=callbacks, throw=False)
        found.save(tmp_path / folder)
    bytes_of = [(tmp_path / f / "recovery.npz").read_bytes() for f in ("alone", "watched")]
    assert bytes_of[0] == bytes_of[1]
    assert len(events) > 1
    steps: dict[str, list[int]] = {}
    for event in events:
        steps.setdefault(event.stage, []).append(event.step)
    assert all(made == list(range(1, len(made) + 1)) for made in steps.values())


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_early_stop_is_said_aloud(seen, name):
    estimator, kind = ESTIMATORS[name]
    events: list[Event] = []

    def stop(event: Event) -> bool:
        events.append(event)
        return len(events) >= 2

    found = tacit.recover(*seen[kind], estimator=estimator, callbacks=[stop], throw=False)
    assert found.status is tacit.RecoveryStatus.NOT_CONVERGED
    said = kinds.told(found.identification.findings, tacit.Kind.NOT_CONVERGED)
    assert f"Stopped early by a callback, at step {events[1].step} of {events[1].stage}." in said
    later = [event.stage for event in events[2:]]
    assert len(later) == len(set(later))  # one step each
    with pytest.raises(tacit.NotConverged):
        tacit.recover(*seen[kind], estimator=estimator, callbacks=[lambda event: True])


def test_stopped_intervals_are_not_made_up(seen):
    mdp, features, walks = seen["exact"]
    many = tacit.Features(
        np.concatenate([features.reward, np.random.default_rng(0).normal(size=(25, 9))], axis=1),
        features.costs,
    )

    def stop(event: Event) -> bool:
        return event.stage.startswith("intervals")

    estimator = tacit.Explanation()
    full = tacit.recover(mdp, many, walks, estimator=estimator).identification
    cut = tacit.recover(mdp, many, walks, estimator=estimator, callbacks=[stop], throw=False)
    cut = cut.identification
    assert_array_equal(cut.reward_intervals[:8], full.reward_intervals[:8])
    assert np.isnan(cut.reward_intervals[8:]).all()
    assert np.isnan(cut.multiplier_intervals).all()
    assert np.isfinite(full.reward_intervals).all()


def counting(to: int, calls: list):
    def advance(state: int, until: int | None) -> int:
        calls.append(until)
        return to if until is None else min(to, until)

    return advance


def count(stage: str, to: int, calls: list) -> int:
    return pursue(
        stage,
        0,
        counting(to, calls),
        step=lambda state: state,
        numbers=lambda state: {"left": float(to - state)},
    )


def test_nobody_watching_it_runs_in_one_go():
    calls: list = []
    assert count("counting", 7, calls) == 7
    assert calls == [None]


def test_stages_are_numbered_and_watches_nest():
    inner, outer = [], []
    with watching([outer.append]):
        count("a", 1, [])
        with watching([inner.append]):
            count("a", 2, [])
        count("b", 1, [])
    assert [(e.stage, e.step) for e in outer] == [("a 1", 1), ("a 2", 1), ("a 2", 2), ("b 1", 1)]
    assert [(e.stage, e.step) for e in inner] == [("a 2", 1), ("a 2", 2)]
    assert outer[2].numbers == {"left": 0.0}


def test_a_stop_inside_does_not_stop_what_is_around():
    def stop(event: Event):
        raise StopEarly

    with watching([lambda event: None]):
        with watching([stop]):
            assert count("a", 5, []) == 1
            assert progress.stopped() == Event("a 1", 1, {"left": 4.0})
            assert once("b", lambda: "something") == "something"
        assert progress.stopped() is None
        assert count("a", 5, []) == 5
        with progress.unwatched():
            calls: list = []
            count("c", 3, calls)
            assert calls == [None]


def test_an_error_of_a_callback_is_its_own():
    def fail(event: Event):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), watching([fail]):
        count("a", 2, [])
    assert count("a", 2, []) == 2


# --- ready-made callbacks -------------------------------------------------------------------------


def test_a_log_has_one_line_a_step():
    stream = io.StringIO()
    with watching([log(stream)]):
        count("a", 2, [])
    assert stream.getvalue() == "a 1: step 1, left 1\na 1: step 2, left 0\n"


# --- trees ----------------------------------------------------------------------------------------


def test_a_tree_comes_back_bit_for_bit():
    odd = np.array([np.nan, -0.0, np.inf, 0.1 + 0.2, 5e-324])
    tree = {
        "small": odd,
        "long": np.linspace(0.0, 1.0, 300),
        "large": np.arange(1000, dtype=np.int32).reshape(10, 100),
        "nested": [Side(About(feature="heat"), (True, 3, 1 / 3, "text")), tacit.Kind.NOTE],
        "finding": tacit.Finding("So be it.", tacit.Kind.NOTE, number=0.5),
        "scalars": (np.float64(0.1), np.int64(7), np.array(2.5), np.bool_(True)),
        "empty": [np.zeros((0, 3)), (), {}],
    }
    again = unpack(pack(tree))
    assert again["small"].tobytes() == odd.tobytes()
    assert again["large"].dtype == np.int32
    assert_array_equal(again["large"], tree["large"])
    assert_array_equal(again["long"], tree["long"])
    assert again["nested"] == tree["nested"]
    assert (again["finding"], again["finding"].about) == (tree["finding"], About(number=0.5))
    assert [type(one) for one in again["scalars"]] == [type(one) for one in tree["scalars"]]
    assert again["empty"][0].shape == (0, 3)
    assert digest(again) == digest(tree)
    odd[0] = 1.0
    assert digest(again) != digest(tree)


@dataclass(frozen=True)
class Box:
    inside: object


def test_only_classes_of_tacit_are_built():
    with pytest.raises(OSError, match="not expected"):
        unpack(pack(Box(1)))
