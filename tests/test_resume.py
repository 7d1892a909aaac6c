"""A run that was interrupted, wherever that was, ends at the bits of an unbroken one."""

import functools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.engine.progress import Event, checkpoint, watching
from tacit.files.arrays import write_arrays
from tacit.files.formats import read_arrays
from tacit.folders.runs import Run, claimed
from walks import problem, seen_by

ESTIMATORS = {
    "likelihood": (tacit.Likelihood(), "noisy"),
    "convex": (tacit.Convex(), "noisy"),
    "alternating": (tacit.Alternating(starts=1, max_steps=4), "exact"),
    "explanation": (tacit.Explanation(), "exact"),
    "no explanation": (tacit.Explanation(), "noisy"),
    "constraint only": (tacit.families.ConstraintOnly([0.5, 0.5]), "noisy"),
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


def saved(folder: Path, name: str, callbacks=()) -> bytes:
    estimator, kind = ESTIMATORS[name]
    found = tacit.recover(*seen_by()[kind], estimator=estimator, callbacks=callbacks, throw=False)
    found.save(folder)
    return (folder / "recovery.npz").read_bytes() + (folder / "history.parquet").read_bytes()


# --- in one process -------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [0.0, 1e9], ids=["every step", "on the way out"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_run_cut_at_every_event_ends_where_an_unbroken_one_does(tmp_path, name, every):
    events: list[Event] = []
    whole = saved(tmp_path / "whole", name, [events.append])
    folder = tmp_path / "kept"
    # One life a checkpoint: each goes on from where the last was cut, one event further.
    heard: list[Event] = []
    for _ in events:
        kept = checkpoint(folder, every=every)
        with pytest.raises(PowerCut):
            saved(tmp_path / "never", name, [kept, heard.append, cut_at(1)])
    assert saved(tmp_path / "pieces", name, [checkpoint(folder), cut_at(1)]) == whole
    assert heard == events  # nothing was done twice, nothing left out


@pytest.mark.parametrize("name", ["likelihood", "alternating"])
def test_what_was_not_written_is_done_again(tmp_path, name):
    events: list[Event] = []
    whole = saved(tmp_path / "whole", name, [events.append])
    for place in range(1, len(events) - 2, 4):
        folder = tmp_path / f"kept {place}"
        with pytest.raises(PowerCut):
            saved(tmp_path / "never", name, [checkpoint(folder, every=0.0), cut_at(place)])
        # Killed without warning between two writes: what came since the last one is lost.
        forgetful = checkpoint(folder, every=1e9)
        forgetful.flush = lambda: None  # type: ignore[method-assign]
        with pytest.raises(PowerCut):
            saved(tmp_path / "never", name, [forgetful, cut_at(2)])
        heard: list[Event] = []
        assert saved(tmp_path / "pieces", name, [checkpoint(folder), heard.append]) == whole
        assert heard == events[place:]


def test_a_journal_keeps_what_took_longest_for_its_bytes(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("tacit.engine.progress.time", clock)
    monkeypatch.setattr("tacit.engine.progress.MOST", 60_000)  # two large states and some
    kept = checkpoint(tmp_path / "kept", every=1e9)
    for number, (seconds, size) in enumerate(((5, 3000), (1, 3000), (3, 3000), (2, 100)), 1):
        clock.now += seconds
        kept.keep(f"fit {number}", None, np.ones(size), finished=True)
    kept.flush()
    left = {path.name for path in (tmp_path / "kept").iterdir()}
    assert left == {"fit-1.npz", "fit-3.npz", "fit-4.npz"}


def test_stages_that_were_not_kept_are_made_again_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.engine.progress.MOST", 0)
    events: list[Event] = []
    whole = saved(tmp_path / "whole", "likelihood", [events.append])
    folder = tmp_path / "kept"
    with pytest.raises(PowerCut):
        saved(tmp_path / "run", "likelihood", [checkpoint(folder, every=0), cut_at(len(events))])
    assert [path.name for path in folder.iterdir()] == ["current.npz"]
    assert saved(tmp_path / "run", "likelihood", [checkpoint(folder, every=0)]) == whole


def test_what_a_gap_made_anew_by_other_digits_leads_to_is_made_anew_too(tmp_path):
    """As on another processor: what began where the first time's digits were is no error then."""
    folder, kept = tmp_path / "kept", checkpoint(tmp_path / "kept", every=0)
    for number in (1, 2, 3):
        kept.recall(f"fit {number}", np.array([float(number)]), ())
        kept.keep(f"fit {number}", None, np.array([10.0 * number]), finished=True)
    (folder / "fit-2.npz").unlink()
    again = checkpoint(folder, every=0)
    assert again.recall("fit 1", np.array([1.0]), ()) is not None
    assert again.recall("fit 2", np.array([2.0]), ()) is None
    assert again.recall("fit 3", np.array([np.nextafter(3.0, 4.0)]), ()) is None
    with pytest.raises(tacit.TacitError, match="other data or settings"):
        checkpoint(folder, every=0).recall("fit 3", np.array([np.nextafter(3.0, 4.0)]), ())


def test_a_journal_of_other_data_is_refused(tmp_path):
    mdp, features, walks = seen_by()["noisy"]
    tacit.recover(mdp, features, walks, callbacks=[checkpoint(tmp_path, every=0.0)])
    fewer = walks.select(np.arange(walks.episodes) > 0)
    with pytest.raises(tacit.TacitError, match="other data or settings") as caught:
        tacit.recover(mdp, features, fewer, callbacks=[checkpoint(tmp_path)])
    assert "\n" not in str(caught.value)


def test_a_damaged_journal_is_noticed(tmp_path):
    mdp, features, walks = seen_by()["noisy"]
    tacit.recover(mdp, features, walks, callbacks=[checkpoint(tmp_path, every=0.0)])
    path = tmp_path / "fit-1.npz"
    content = path.read_bytes()
    whole = read_arrays(path)
    noticed = 0
    for place in range(0, len(content), len(content) // 40):
        changed = bytearray(content)
        changed[place] ^= 0x40
        path.write_bytes(changed)
        try:
            read = read_arrays(path)
        except OSError:
            noticed += 1
            with pytest.raises(OSError, match=r"fit-1\.npz"):
                tacit.recover(mdp, features, walks, callbacks=[checkpoint(tmp_path)])
        else:  # bytes of a zip file that mean nothing
            assert all(
                np.array_equal(read[k], whole[k], equal_nan=True)
                for k in whole
                if whole[k].dtype.kind == "f"
            )
    assert noticed > 20


def test_an_early_stop_can_be_gone_on_with(tmp_path):
    whole = saved(tmp_path / "whole", "likelihood")
    folder = tmp_path / "kept"
    for _ in range(3):
        callbacks = [checkpoint(folder, every=0.0), lambda event: event.step >= 2]
        found = tacit.recover(*seen_by()["noisy"], callbacks=callbacks, throw=False)
        assert found.status is tacit.RecoveryStatus.NOT_CONVERGED
    assert saved(tmp_path / "pieces", "likelihood", [checkpoint(folder)]) == whole


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
    monkeypatch.setattr("tacit.folders.runs.claimed", functools.partial(claimed, every=0.0))
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
        patched.setattr("tacit.folders.runs.versions", lambda: {"tacit": "0.0.9"})
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


def test_a_journal_without_settings_is_none(tmp_path):
    with claimed(tmp_path / "run", {"config": {}}) as claim:
        write_arrays(claim.journal.folder / "fit-1.npz", {"a": np.zeros(1)})
    (tmp_path / "run" / "journal" / "settings.json").unlink()
    with claimed(tmp_path / "run", {"config": {}}) as claim:
        assert [path.name for path in claim.journal.folder.iterdir()] == ["settings.json"]
