"""A run that was interrupted, wherever that was, ends at the answer of an unbroken one."""

import functools

import numpy as np
import pytest

import tacit
from answers import check_same
from refusals import refusal
from tacit.cli import main
from tacit.engine.progress import Event, checkpoint, watching
from tacit.files.arrays import read_arrays
from tacit.folders.claims import claimed
from tacit.folders.runs import Run
from walks import problem, seen_by

ESTIMATORS = {
    "likelihood": (tacit.Likelihood(), "noisy"),
    "convex": (tacit.Convex(), "noisy"),
    "alternating": (tacit.Alternating(starts=1, max_steps=4), "exact"),
    "explanation": (tacit.Explanation(), "exact"),
    "no explanation": (tacit.Explanation(), "noisy"),
    "constraint only": (tacit.ConstraintOnly([0.5, 0.5]), "noisy"),
}


class PowerCut(BaseException):
    """Comes from nowhere, like a signal."""


def cut_at(number: int):
    """A callback that ends the run at its n-th event."""
    left = iter(range(number - 1))

    def callback(event: Event) -> None:
        if next(left, None) is None:
            raise PowerCut

    return callback


def recovered(name: str, callbacks=()) -> tacit.Recovery:
    estimator, kind = ESTIMATORS[name]
    return tacit.recover(*seen_by()[kind], estimator=estimator, callbacks=callbacks, throw=False)


# --- in one process -------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [0.0, 1e9], ids=["every step", "on the way out"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_run_cut_at_every_event_ends_where_an_unbroken_one_does(tmp_path, name, every):
    events: list[Event] = []
    unbroken = recovered(name, [events.append])
    path = tmp_path / "kept.npz"
    # Every life goes on from where the last was cut. A search that is begun again at its end looks
    # there once more, so lives must grow to come to an end.
    for lives in range(1, len(events) + 2):
        try:
            answer = recovered(name, [checkpoint(path, every=every), cut_at(lives)])
            break
        except PowerCut:
            pass
    else:
        raise AssertionError("it never came to an end")
    assert lives > 1
    check_same(answer, unbroken)


@pytest.mark.parametrize("name", ["likelihood", "alternating"])
def test_what_was_not_written_is_done_again(tmp_path, name):
    events: list[Event] = []
    unbroken = recovered(name, [events.append])
    for place in range(1, len(events) - 2, 4):
        path = tmp_path / f"kept-{place}.npz"
        with pytest.raises(PowerCut):
            recovered(name, [checkpoint(path, every=0.0), cut_at(place)])
        # Killed without warning between two writes: what came since the last one is lost.
        forgetful = checkpoint(path, every=1e9)
        forgetful.flush = lambda: None  # type: ignore[method-assign]
        with pytest.raises(PowerCut):
            recovered(name, [forgetful, cut_at(2)])
        check_same(recovered(name, [checkpoint(path)]), unbroken)


def test_a_search_goes_on_from_where_it_was(tmp_path):
    events: list[Event] = []
    recovered("likelihood", [events.append])
    longest = max(event.step for event in events)
    path = tmp_path / "kept.npz"
    recovered("likelihood", [checkpoint(path)])
    again: list[Event] = []
    recovered("likelihood", [checkpoint(path), again.append])
    assert longest > 3
    assert max(event.step for event in again) <= 3  # a look at the end, and perhaps one step


def test_a_checkpoint_is_small(tmp_path):
    path = tmp_path / "kept.npz"
    recovered("likelihood", [checkpoint(path)])
    assert path.stat().st_size < 20_000  # parameters, not tables by state


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    mdp, features, walks = seen_by()["noisy"]
    path = tmp_path / "kept.npz"
    tacit.recover(mdp, features, walks, callbacks=[checkpoint(path, every=0.0)])
    fewer = walks.select(np.arange(walks.episodes) > 0)
    with refusal(tacit.TacitError, match="other data or settings"):
        tacit.recover(mdp, features, fewer, callbacks=[checkpoint(path)])


def test_a_damaged_checkpoint_is_noticed(tmp_path):
    mdp, features, walks = seen_by()["noisy"]
    path = tmp_path / "kept.npz"
    tacit.recover(mdp, features, walks, callbacks=[checkpoint(path, every=0.0)])
    content = path.read_bytes()
    skeleton = read_arrays(path)["skeleton"]
    noticed = 0
    for place in range(0, len(content), len(content) // 40):
        changed = bytearray(content)
        changed[place] ^= 0x40
        path.write_bytes(changed)
        try:
            read = read_arrays(path)
        except OSError:
            noticed += 1
            with pytest.raises(OSError, match=r"kept\.npz"):
                tacit.recover(mdp, features, walks, callbacks=[checkpoint(path)])
        else:  # bytes of a zip file that mean nothing
            assert read["skeleton"] == skeleton
    assert noticed > 20


def test_an_early_stop_can_be_gone_on_with(tmp_path):
    path = tmp_path / "kept.npz"
    for _ in range(3):
        callbacks = [checkpoint(path, every=0.0), lambda event: event.step >= 1]
        answer = recovered("likelihood", callbacks)
        assert answer.status is tacit.RecoveryStatus.NOT_CONVERGED
    check_same(recovered("likelihood", [checkpoint(path)]), recovered("likelihood"))


# --- run folders ----------------------------------------------------------------------------------


@pytest.fixture
def asked(tmp_path):
    """The words of a command on a problem folder."""
    problem("noisy").save(tmp_path / "problem")
    return [
        *("recover", str(tmp_path / "problem"), "--out", str(tmp_path / "run")),
        *("--estimator", "alternating", "--starts", "1", "--max-steps", "5", "--no-report"),
    ]


def test_a_command_goes_on_where_it_was_cut(tmp_path, asked, monkeypatch, capsys):
    monkeypatch.setattr("tacit.folders.claims.claimed", functools.partial(claimed, every=0.0))
    other = [word.replace(str(tmp_path / "run"), str(tmp_path / "whole")) for word in asked]
    events: list[Event] = []
    with watching([events.append]):
        assert main([*other, "--holdout", "0.3"]) == 3  # five rounds are too few, and it says so
    lives = 0
    with watching([cut_at(1)]), pytest.raises(PowerCut):
        main([*asked, "--holdout", "0.3"])
    while True:
        lives += 1
        try:
            with watching([cut_at(1)]):
                code = main([*asked, "--holdout", "0.3", "--resume"])
            break
        except PowerCut:
            with pytest.raises(OSError, match="not finished"):
                Run.load(tmp_path / "run")
            assert not (tmp_path / "run" / ".lock").exists()
    assert (code, lives) == (3, len(events))
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        *("extras.npz", "history.parquet", "recovery.npz", "run.json", "trajectories.parquet")
    ]
    for path in (tmp_path / "run").iterdir():
        if path.name != "run.json":  # names its own folder
            assert path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes(), path.name
    assert "held out" in capsys.readouterr().out
    run = Run.load(tmp_path / "run")
    assert run.extras["holdout"]["steps"] == 6 * 40
    assert tacit.Recovery.load(tmp_path / "run").estimator == run.recovery.estimator


def test_a_finished_run_has_nothing_left_to_do(tmp_path, asked, capsys):
    assert main([*asked, "--quiet"]) == 3
    before = (tmp_path / "run" / "run.json").stat().st_mtime_ns
    events: list[Event] = []
    with watching([events.append]):
        assert main([*asked, "--resume"]) == 3
    assert events == []
    assert (tmp_path / "run" / "run.json").stat().st_mtime_ns == before
    assert "stopped before the tolerance" in capsys.readouterr().out


def test_a_run_is_not_lost_by_mistake_and_not_mixed_up(tmp_path, asked, capsys):
    assert main([*asked, "--quiet"]) == 3
    capsys.readouterr()  # why it ends so
    page = (tmp_path / "run" / "run.json").read_bytes()

    def refused(*words: str, code: int = 2) -> str:
        assert main([*asked, *words]) == code
        assert (tmp_path / "run" / "run.json").read_bytes() == page
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    assert "--resume continues it, --overwrite begins again" in refused(code=4)
    assert "setting seed: 0 there, 1 now" in refused("--resume", "--seed", "1")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tacit.folders.claims.versions", lambda: {"tacit": "0.0.9"})
        assert "version tacit: 0.1.0 there, 0.0.9 now" in refused("--resume")
    seen = problem("exact").demonstrations
    (tmp_path / "problem" / "demonstrations.parquet").unlink()
    seen.save(tmp_path / "problem" / "demonstrations.csv")
    said = refused("--resume")
    assert "data demonstrations:" in said
    assert "mdp" not in said
    assert main([*asked, "--overwrite", "--quiet"]) == 0  # an optimal expert is found at once
    assert (tmp_path / "run" / "run.json").read_bytes() != page


def test_other_files_of_the_same_data_are_the_same_data(tmp_path, asked):
    assert main([*asked, "--quiet"]) == 3
    seen = problem("noisy").demonstrations
    (tmp_path / "problem" / "demonstrations.parquet").unlink()
    seen.save(tmp_path / "problem" / "demonstrations.csv")
    assert main([*asked, "--resume", "--quiet"]) == 3
