"""The demo needs no file, says what to type, and finds what its mouse was made to want."""

import importlib.util
import json
import re
import zipfile
from importlib.resources import files

import numpy as np

import tacit
from tacit.cli import main


def test_the_demo_goes_from_a_log_to_a_report(tmp_path, capsys):
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert (out / "run" / "report.html").stat().st_size > 50_000
    for words in ("tacit ingest LOG.csv", "tacit check mine", "tacit recover mine", "tacit report"):
        assert words in said
    run = tacit.runs.Run.load(out / "run")
    assert run.trajectories["episode"].tolist()[0].startswith("day ")
    assert "day " in (out / "run" / "report.html").read_text(encoding="utf-8")
    found, known = run.recovery, run.recovery.identification
    # The program of the quick start: heat costs what food is worth, noise nothing.
    low, high = known.multiplier_intervals[0]
    assert low <= 1.0 <= high
    assert found.cost_weights[0].tolist() == [1.0, 0.0]
    assert main(["demo", "--out", str(out), "--json"]) == 4  # the folder is taken
    assert json.loads(capsys.readouterr().out)["code"] == 4


def test_the_example_is_that_of_the_quick_start(repository):
    """The first hundred days of the log that the page makes, and its files."""
    page = (repository / "docs" / "quickstart.md").read_text(encoding="utf-8")
    example = files("tacit.worlds").joinpath("mouse")
    for name in ("features.csv", "problem.toml"):
        block = re.search(rf'title="mouse/{re.escape(name)}"\n(.*?)```', page, re.S)[1]
        assert example.joinpath(name).read_text(encoding="utf-8") == block
    seen = tacit.Demonstrations.load_named(str(example.joinpath("demonstrations.csv")))[0]
    assert (seen.episodes, seen.steps) == (100, 4000)
    lines = page.split("head -4")[1].split("```text\n")[1].split("```")[0]
    assert example.joinpath("demonstrations.csv").read_text(encoding="utf-8").startswith(lines)
    assert np.unique(seen.names).size == 100


def test_the_wheel_has_all_it_needs(repository, tmp_path):
    """`make wheel-test` builds and installs it; here, that it would notice what is missing."""
    spec = importlib.util.spec_from_file_location("wheel", repository / "tools" / "wheel.py")
    wheel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheel)
    for name in wheel.NEEDED[:8]:
        assert (repository / "src" / name).is_file(), name
    path = tmp_path / "tacit_irl-0.whl"
    with zipfile.ZipFile(path, "w") as made:
        for name in wheel.NEEDED[1:]:
            made.writestr(f"somewhere/{name}", "")
        made.writestr("tests/test_demo.py", "")
    assert wheel.missing(path) == ["tacit/py.typed", "not tests/test_demo.py"]
