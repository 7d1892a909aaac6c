"""What comes from elsewhere does no harm: files that are none, sizes, names that act."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
import tracemalloc
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.engine import is_trusted
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import BadFile, largest_allowed, locked, read_page, write_page
from tacit.folders.claims import claimed
from tacit.folders.runs import Run
from tacit.model.layout import Layout
from tacit_lab.studies import read_unit, write_unit
from tacit_lab.studies.leaderboard import TriedMethod, Unit
from text_form import save_text
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


# --- folders of others ----------------------------------------------------------------------------


def test_files_that_only_a_page_names_are_let_be(place, run):
    page = read_page(run / "run.json")
    total = hashlib.sha256(b"precious").hexdigest()
    for name in ("../precious", "other.npz"):
        (run / name).write_text("precious")
        write_page(run / "run.json", {**page, "files": {**page["files"], name: total}})
        Run.load(place / "run").save(run)
        assert (run / name).read_text() == "precious"
    assert Run.load(run).recovery.summary() == Run.load(place / "run").recovery.summary()


@pytest.mark.parametrize("skeleton", ["", "[]", '{"kind": "subprocess.Popen", "fields": {}}'])
def test_a_sealed_run_that_holds_something_else_is_one_line(place, run, capsys, skeleton):
    write_arrays(run / "recovery.npz", {"skeleton": np.array(skeleton)})
    page = read_page(run / "run.json")
    page["files"]["recovery.npz"] = hashlib.sha256((run / "recovery.npz").read_bytes()).hexdigest()
    write_page(run / "run.json", page)
    assert main(["report", str(run)]) == 2
    assert "must hold a recovery that can be read" in (said := capsys.readouterr().err)
    assert said.count("\n") == 1


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


# --- sealed, and malformed ------------------------------------------------------------------------

ODD = (None, True, -1, 1e300, "x", [], {}, [[]], {"a": 1}, [None], "x" * 400, 10**40)


def mutated(tree: object, rng: random.Random) -> object:
    """The tree of JSON with one part, however deep, replaced by something odd or left out."""
    if isinstance(tree, dict | list) and tree and rng.random() < 0.85:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key, copy = rng.choice(keys), tree.copy()
        if rng.random() < 0.15:
            copy.pop(key)
        else:
            copy[key] = mutated(copy[key], rng)
        return copy
    return rng.choice(ODD)


def test_a_malformed_unit_of_a_study_is_refused(tmp_path):
    """Whatever is changed and sealed again: it is read as what it was meant to be, or not."""
    path, refused = tmp_path / "unit.json", 0
    row = TriedMethod(
        method="Cloning", told="", metrics={"regret": 0.5}, status="CONVERGED", fits=True
    )
    unit = Unit(world="walls-1", seed=0, rows=[row], absent="", seconds=1.0)
    write_unit(path, unit)
    assert read_unit(path, Unit) == unit
    page = read_page(path)
    for seed in range(100):
        odd = mutated(page, random.Random(seed))
        write_page(path, odd if isinstance(odd, dict) else {"rows": odd})
        try:
            found = read_unit(path, Unit)
        except BadFile as error:
            refused += "remove it" in str(error)
        else:
            assert [type(one) for one in found.rows] == [TriedMethod] * len(found.rows)
            assert isinstance(found.seed, int)
    assert 50 <= refused < 100
    path.write_bytes(path.read_bytes().replace(b"walls", b"balls"))
    with pytest.raises(OSError, match="damaged"):
        read_unit(path, Unit)


def test_a_bug_in_drawing_is_ours_and_no_bad_input(run, monkeypatch, capsys):
    def draw(run, *, private, raw_units):
        raise ValueError("no such colour")

    monkeypatch.setattr("tacit.show.page.recovery_document", draw)
    assert main(["report", str(run)]) == 1
    assert "a bug in tacit, ValueError: no such colour" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["report"], ["check"]])
def test_what_is_not_there_is_one_line_and_one_object(tmp_path, capsys, words):
    place = tmp_path / "nothere"
    assert main([*words, str(place)]) == 4
    out, said = capsys.readouterr()
    assert (out, said.count("\n")) == ("", 1)
    assert str(place) in said
    assert main([*words, str(place), "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert told["code"] == 4
    assert str(place) in told["error"]
    assert not place.exists()


# --- what grows when it is opened -----------------------------------------------------------------


def seconds_to_refuse(folder: Path, capsys, word: str) -> float:
    start = time.process_time()  # its own work, whatever else the machine does
    assert main(["check", str(folder), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert word in said
    assert max(map(len, said.splitlines())) <= 300
    return time.process_time() - start


@pytest.fixture
def small(place, tmp_path) -> Path:
    """A copy of the problem that has a page of settings."""
    return save_text(problem("noisy"), tmp_path / "small")


def test_an_archive_too_large_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "mdp.npz"
    np.savez_compressed(path, successors=np.zeros(2**21))
    assert path.stat().st_size < 2**17
    tracemalloc.start()
    with pytest.raises(BadFile, match="or set TACIT_LARGEST"):
        read_arrays(path, largest=2**20)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
    assert len(read_arrays(path)["successors"]) == 2**21


def test_the_limit_is_asked_of_the_environment_and_of_the_memory(monkeypatch):
    monkeypatch.setenv("TACIT_LARGEST", "12345")
    assert largest_allowed() == 12345
    monkeypatch.delenv("TACIT_LARGEST")
    assert largest_allowed() <= min(2**33, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


@pytest.mark.parametrize(
    "text", ["a=" + "[" * 100_000, "a." * 20_000 + "b=1", "[a" + ".'a'" * 50_000 + "]\nx=1"]
)
def test_deep_settings_are_refused_in_seconds(small, capsys, text):
    (small / "problem.toml").write_text(text)
    assert seconds_to_refuse(small, capsys, "nested too deeply") < 5


def test_a_million_columns_are_refused_in_seconds(small, capsys):
    (small / "features.csv").write_text("s," + "a," * 500_000 + "b\n")
    assert seconds_to_refuse(small, capsys, "at most 16384 columns") < 5
    (small / "features.csv").write_text("s," + "abc," * 500_000 + "b\n")
    assert seconds_to_refuse(small, capsys, "never ends") < 5


def test_deep_pages_are_refused_in_seconds(run, capsys):
    (run / "run.json").write_text("[" * 200_000)
    start = time.process_time()
    assert main(["report", str(run)]) in (2, 4)
    assert time.process_time() - start < 5
    assert capsys.readouterr().err.count("\n") == 1


# --- names that act -------------------------------------------------------------------------------

ACTING = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil"


def test_what_a_terminal_would_obey_is_shown_instead(tmp_path, capsys, monkeypatch):
    from tacit.cli.terminal import Answer, Terminal, table_text

    class Say:
        def run(self, terminal: Terminal) -> Answer:
            terminal.note(ACTING)
            table = table_text([ACTING, "n"], [[ACTING, 1.0], ["a\nb", 2.0]], ACTING)
            return Answer([ACTING, table], {"name": ACTING}, 2, [ACTING])

    kind = dataclass(frozen=True)(type("Say", (Say,), {"__doc__": "Say."}))
    for tty in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda tty=tty: tty)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "dumb")
        for more in ([], ["--json"]):
            assert main(["say", *more], {"say": kind, "other": kind}) == 2
            out, err = capsys.readouterr()
            for text in (out, err):
                assert not set(text) & set("\x07\x9b\u202e")
                assert "\x1b]" not in text
                assert "\x1b[2J" not in text
            if more:
                assert json.loads(out) == {"error": ACTING, "code": 2, "name": ACTING}
    assert main([ACTING * 100]) == 2
    said = capsys.readouterr().err
    assert len(said) <= 301
    assert "\x1b" not in said


HIT = "window.hit=1"
NAMES = (
    f"<script>{HIT}</script>",
    f"<img src=x onerror={HIT}>",
    f"</script><script>{HIT}</script>",
    f"</style><svg onload={HIT}>",
    f"\"' onmouseover={HIT} onfocus={HIT} '\"",
    f"javascript:{HIT}",
    f"[a](javascript:{HIT}) <a href=javascript:{HIT}>a</a>",
    "--><!-- ]]>&lt;b&gt; \\",
    "$\\frac{",
    f"{{{{7*7}}}} ${{{HIT}}} `x` **y**",
    "x" * 5000,
    "\u202eסוף\u2066",
    ACTING,
    "line\u2028line",
    "../../etc/passwd",
    "=cmd|' /C calc'!A0",
    "猫と犬",
)


def called(kind: str, count: int, turn: int) -> tuple[str, ...]:
    """Different hostile names, in an order that begins at another one every turn."""
    names = [NAMES[(turn + i) % len(NAMES)] for i in range(count)]
    return tuple(f"{kind}{i} {one}" if i % 2 else f"{one} {kind}{i}" for i, one in enumerate(names))


# As notebooks show what an object says of itself: scripts inside would run.
NOTEBOOK = """<!doctype html><meta charset="utf-8"><div></div><script>
const text = JSON.parse({text});
document.querySelector("div").append(document.createRange().createContextualFragment(text));
</script>"""
# All that a person might touch, touched.
TOUCH = """(async () => {
  for (const e of document.querySelectorAll("body, body *"))
    for (const kind of ["mouseover", "mouseenter", "focus", "click", "input", "toggle"])
      e.dispatchEvent(new Event(kind, {bubbles: true, cancelable: true}));
  await new Promise(done => setTimeout(done, 100));
  return window.hit ?? 0;
})()"""
LINKS = "[...document.querySelectorAll('a, area, form, iframe, object, embed')].map(e => e.href)"


def notebook(fragment: str) -> str:
    """A page that shows a fragment of HTML as a notebook does."""
    inside = json.dumps(json.dumps(fragment)).replace("<", "\\u003c")
    return NOTEBOOK.replace("{text}", inside)


@pytest.mark.browser
@pytest.mark.parametrize("turn", [0, *(pytest.param(n, marks=pytest.mark.study) for n in (5, 10))])
def test_no_name_acts_in_a_report_a_comparison_or_a_notebook(chrome, tmp_path, turn):
    task = problem("noisy")
    known, seen = task.features, task.demonstrations
    features = tacit.Features(
        known.reward, known.costs, called("r", 2, turn + 2), [called("c", 4, turn)]
    )
    names = {"state_names": called("s", 25, turn), "action_names": called("a", 4, turn + 9)}
    seen = replace(
        seen,
        groups=np.array([NAMES[(turn + i % 2) % len(NAMES)] for i in range(seen.episodes)]),
        names=np.array(called("e", seen.episodes, turn)),
    )
    layout = Layout(rows=5, columns=5, directions=((-1, 0), (0, 1), (1, 0), (0, -1)), **names)
    tacit.runs.Problem(task.mdp, features, seen, layout=layout).save(tmp_path / "problem")
    words = ["recover", str(tmp_path / "problem"), "--by", "group", "--out", str(tmp_path / "by")]
    assert main([*words, "--quiet"]) == 0
    (compared,) = (tmp_path / "by").glob("*.html")
    runs = sorted(path.parent for path in (tmp_path / "by").glob("*/run.json"))
    assert len(runs) == 2
    for picture in (tmp_path / "by").rglob("*.svg"):  # files of their own: XML, and nothing acts
        for element in ElementTree.fromstring(picture.read_bytes()).iter():
            assert "script" not in str(element.tag)
            assert not [name for name in element.attrib if name.lower().startswith("on")]
    shown = tmp_path / "notebook.html"
    shown.write_text(notebook(Run.load(runs[0]).recovery._repr_html_()), "utf-8")
    raw = tmp_path / "raw.html"
    raw.write_text(notebook("".join(NAMES)), "utf-8")
    for path in (runs[0] / "report.html", compared, shown, raw):
        page = chrome.open(path.as_uri(), width=900)
        hit = page.evaluate(TOUCH)
        if path is raw:
            assert hit == 1  # or this test would see nothing
            continue
        assert hit == 0
        assert {url.partition(":")[0] for url in page.requests} <= {"file", "data"}
        assert sum(url.startswith("file") for url in page.requests) == 1
        assert not [link for link in page.evaluate(LINKS) if not link.startswith(path.as_uri())]
        text = page.evaluate("document.body.textContent")
        assert f"<script>{HIT}</script>" in text or turn
        assert "\\u202e" in text or path is not runs[0] / "report.html"
        assert not set(text) & set("\x07\x1b\x9b\u202e\u2066")
        page.close()


def test_cells_that_a_spreadsheet_would_run_are_shown_instead():
    names = ("=1+1", "+1", "-1", "@SUM(A1)", "kitchen")
    objective = tacit.Objective(np.zeros(5))
    frame = tacit.export.frame(objective, layout=Layout(state_names=names))
    assert frame["state_name"].to_list() == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "kitchen"]


# --- whose folder it is ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["recover", "reproduce"])
def test_a_lock_of_a_dead_machine_says_how_to_break_it(place, tmp_path, capsys, command):
    out = tmp_path / "out"
    out.mkdir()
    (out / ".lock").write_text("7\nelsewhere\n")
    words = ["recover", str(place / "problem"), "--no-report"]
    words = words if command == "recover" else ["reproduce", "--seeds", "1"]
    assert main([*words, "--out", str(out)]) == 4
    assert "process 7 on elsewhere" in (said := capsys.readouterr().err)
    assert "--break-lock" in said
    if command == "recover":
        assert main([*words, "--out", str(out), "--break-lock", "--quiet"]) == 0
        assert not (out / ".lock").exists()
    held = pytest.raises(OSError, match="is being written")
    with locked(tmp_path), held, locked(tmp_path, broken=True):
        pytest.fail("the lock of a living process was broken")


CHOSEN = "JAX_COMPILATION_CACHE_DIR"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="other permissions")
@pytest.mark.parametrize(("mode", "kept"), [(0o755, True), (0o775, False), (0o777, False)])
def test_compiled_code_that_others_can_write_is_not_used(tmp_path, monkeypatch, mode, kept):
    folder = tmp_path / "jax"
    folder.mkdir()
    folder.chmod(mode)
    is_trusted.cache_clear()
    assert is_trusted(folder) is kept
    before = {name: os.environ.get(name) for name in os.environ if name.startswith("JAX_")}
    code = (
        "import os; from tacit.engine import keep_compiled_code as keep\n"
        "print(keep(), os.environ.get('JAX_COMPILATION_CACHE_DIR'))\n"
        "from tacit.engine.kernels import chains\n"
        "print(type(chains.size_of.machine._cache).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **dict.fromkeys(("NUMBA_CACHE_DIR", CHOSEN), str(folder))},
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = [*[str(folder)] * 2, "FunctionCache"] if kept else [*["None"] * 2, "NullCache"]
    assert done.stdout.split() == wanted
    assert before == {name: os.environ.get(name) for name in before}
