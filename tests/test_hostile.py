"""What comes from elsewhere does no harm: folders that lie, links that wait, names that act."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

import tacit
from tacit.cli import main
from tacit.files.atomic import locked, read_page, write_bytes, write_page
from tacit.folders.resume import claimed
from tacit.folders.runs import Run
from walks import problem


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a problem and a run of it."""
    folder = tmp_path_factory.mktemp("hostile")
    problem("noisy").save(folder / "problem")
    words = ["recover", str(folder / "problem"), "--out", str(folder / "run"), "--quiet"]
    assert main([*words, "--no-report"]) == 0
    return folder


@pytest.fixture
def run(place, tmp_path) -> Path:
    """A copy of the run, beside which a file lies that is nobody's business."""
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".precious.next").write_text("precious")
    return Path(shutil.copytree(place / "run", tmp_path / "run"))


def everything(folder: Path) -> dict[str, bytes | str]:
    """What lies under a folder, links as what they point to."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def changed(path: Path, **parts: object) -> None:
    """Writes a page with other parts, sealed again."""
    write_page(path, {**read_page(path), **parts})


# --- folders that lie -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../precious", "{outside}/precious", "figures/../../precious", "other.npz", ".", "run.json"],
)
@pytest.mark.parametrize("doing", ["overwrite", "resume", "save", "load", "report"])
def test_a_page_that_names_other_files_is_refused_untouched(place, run, capsys, name, doing):
    page = read_page(run / "run.json")
    name = name.format(outside=run.parent)
    total = hashlib.sha256(b"precious").hexdigest()
    changed(run / "run.json", files={**page["files"], name: total})
    before = everything(run.parent)
    if doing in ("save", "load"):
        act = Run.load(place / "run").save if doing == "save" else Run.load
        with pytest.raises(tacit.TacitError, match=r"it names .* nothing was touched"):
            act(run)
    elif doing == "report":
        assert main(["report", str(run)]) == 2
    else:
        words = ["recover", str(place / "problem"), "--out", str(run), "--no-report"]
        assert main([*words, f"--{doing}", "--quiet"]) == 2
        assert "it names" in capsys.readouterr().err
    assert everything(run.parent) == before


@pytest.mark.parametrize("name", ["recovery.npz", ".recovery.npz.next", "run.json", "journal"])
def test_links_in_a_run_are_refused_untouched(place, run, tmp_path, capsys, name):
    target = tmp_path / "elsewhere"
    if name == "journal":
        target.mkdir()
        (target / "fit-1.npz").write_text("precious")
        (target / "settings.json").write_text("precious")
    elif (run / name).exists():
        (run / name).rename(target)
    else:
        target.write_text("precious")
    (run / name).symlink_to(target)
    before = everything(tmp_path)
    words = ["recover", str(place / "problem"), "--out", str(run), "--overwrite", "--no-report"]
    assert main([*words, "--quiet"]) == 2
    assert "it is a link" in capsys.readouterr().err
    assert everything(tmp_path) == before


def test_what_the_writers_of_a_run_left_is_still_settled(run):
    """The files of the page may lie under the name of their writing; others are removed."""
    (run / "recovery.npz").rename(run / ".recovery.npz.next")
    (run / ".history.parquet.next").write_text("half")
    (run / ".run.json.0123456789abcdef.part").write_text("half")
    settings = read_page(run / "run.json")["identity"]
    with claimed(run, settings, resume=True) as claim:
        assert claim.done
    assert sorted(os.listdir(run)) == sorted([*read_page(run / "run.json")["files"], "run.json"])
    assert Run.load(run).recovery.status is tacit.RecoveryStatus.LOCAL_OPTIMUM


# --- links that wait ------------------------------------------------------------------------------


def test_a_file_is_written_under_a_name_that_nobody_foresees(tmp_path, monkeypatch):
    opened, open_ = [], os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: (opened.append(a), open_(*a, **k))[1])
    for _ in range(2):
        write_bytes(tmp_path / "file", b"new")
    (first, flags, _), (second, *_) = (call for call in opened if str(call[0]).endswith(".part"))
    assert first != second
    assert str(os.getpid()) not in Path(first).name
    assert flags & os.O_EXCL
    assert flags & os.O_NOFOLLOW


def test_a_waiting_link_is_not_followed(tmp_path, monkeypatch):
    """Even where the name is guessed."""
    monkeypatch.setattr("secrets.token_hex", lambda count: "00")
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / ".file.00.part").symlink_to(target)
    with pytest.raises(FileExistsError):
        write_bytes(tmp_path / "file", b"new")
    assert target.read_text() == "precious"
    assert (tmp_path / ".file.00.part").is_symlink()  # it is not ours to remove
    assert not (tmp_path / "file").exists()
    (tmp_path / ".problem.00.part").symlink_to(tmp_path / "folder")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileExistsError):
        problem("noisy").save(tmp_path / "problem")
    assert (tmp_path / ".problem.00.part").is_symlink()


def test_a_lock_that_is_a_link_is_refused(tmp_path):
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(target)
    with pytest.raises(tacit.TacitError, match="it is a link"), locked(tmp_path / "run"):
        pytest.fail("it was locked")
    assert target.read_text() == "precious"


def test_figures_are_not_written_through_a_link(run, tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    (run / "figures").symlink_to(tmp_path / "elsewhere")
    assert main(["report", str(run)]) == 2
    assert "it is a link" in capsys.readouterr().err
    assert not any((tmp_path / "elsewhere").iterdir())
