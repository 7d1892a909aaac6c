"""Result files know the code that made them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import provenance
from provenance import digest, heads, origin

ROOT = Path(__file__).resolve().parents[2]
CODE = '''"""What it is."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a import b as b

__version__ = "0.1.0"


def area(side: float) -> float:
    """Of a square."""
    return side * side  # no root
'''


def test_prose_layout_and_public_names_are_no_change():
    for old, new in (
        ("What it is", "What it was"),
        ("Of a square", "Of a square with these sides"),
        ("  # no root", ""),
        ("side * side", "(\n        side * side\n    )"),
        ("import b as b", "import c as c"),
        ("0.1.0", "0.2.0"),
    ):
        assert digest(CODE.replace(old, new)) == digest(CODE) != digest(""), old


def test_any_change_of_code_is_one():
    for old, new in (
        ("side * side", "side + side"),
        ("def area", "def areas"),
        ("return side", "return 1.0 * side"),
        ("side: float", "side: int"),
        ("    return", "    side += 0\n    return"),
        ("side * side", "side.real * side.imag"),
    ):
        assert digest(CODE.replace(old, new)) != digest(CODE), old


def test_constants_of_other_types_are_other_code():
    codes = ("x = 1", "x = 1.0", "x = '1'", "x = None", "x = -1", "x = f'{y}'", "x = f'a{y}'")
    assert len({digest(code) for code in codes}) == len(codes)


BENCHMARK = """
import json, subprocess, sys
from pathlib import Path
from provenance import about
import tacit.errors
subprocess.run([sys.executable, "-c", "import tacit.model.mdp"], check=True)
head = about(("tacit-irl",), load=1.0)
Path("results/small.json").write_text(json.dumps({**head, "rows": []}))
"""


@pytest.fixture
def house(tmp_path):
    """A copy of the code with a small benchmark, its result made; and a way to run a script."""
    folder = tmp_path / "house"
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "benchmarks" / "results").mkdir(parents=True)
    for name in ("provenance.py", "stale.py"):
        shutil.copy(ROOT / "benchmarks" / name, folder / "benchmarks")
    (folder / "benchmarks" / "small.py").write_text(BENCHMARK)

    def run(script, *words):
        around = {k: v for k, v in os.environ.items() if k != provenance.NOTES}
        return subprocess.run(
            [sys.executable, f"{folder}/benchmarks/{script}", *words],
            cwd=folder / "benchmarks",
            env=around | {"PYTHONPATH": str(folder / "src")},
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("small.py", "--draws", "3").returncode == 0
    return folder, run


def test_a_result_is_stale_when_a_module_changes_and_fresh_when_it_is_made_again(house):
    folder, run = house
    head = json.loads((folder / "benchmarks" / "results" / "small.json").read_text())
    assert head["command"] == "python benchmarks/small.py --draws 3"
    assert head["commit"] is None  # no repository
    assert {"date", "machine", "versions", "seconds"} <= head.keys()
    # What this process imported, and what the one that it started did; and nothing else.
    assert {"tacit", "tacit.errors", "tacit.model.mdp"} <= head["modules"].keys()
    assert "tacit.forward.solve" not in head["modules"]
    assert run("stale.py").returncode == 0
    module = folder / "src" / "tacit" / "model" / "mdp.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text + "\n# a remark\n", encoding="utf-8")
    assert run("stale.py").returncode == 0
    module.write_text(text + "\nCHANGED = 1\n", encoding="utf-8")
    found = run("stale.py")
    assert found.returncode == 1
    assert "small.json: tacit.model.mdp changed" in found.stdout
    assert "python benchmarks/small.py --draws 3" in found.stdout
    assert run("small.py").returncode == 0
    assert run("stale.py").returncode == 0
    module.unlink()  # a module that is gone has changed
    assert run("stale.py").returncode == 1


@pytest.mark.parametrize("gone", ["modules", "command"])
def test_a_result_that_does_not_know_its_code_is_stale(house, gone):
    folder, run = house
    path = folder / "benchmarks" / "results" / "small.json"
    head = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in head.items() if k != gone}))
    assert run("stale.py", "small").returncode == 1


def test_every_part_made_on_its_own_is_asked():
    part = {"command": "python b.py --only x", "date": "2026-01-02T10:00", "commit": "abc"}
    whole = {"command": "python b.py", "date": "2026-01-01", "rows": [{"x": part}], "parts": {}}
    assert [place for place, _ in heads(whole)] == ["", "rows.x"]
    assert (
        origin("b", whole) == "`b.json`, measured on 2026-01-01 and on 2026-01-02 at commit `abc`"
    )


def test_every_benchmark_writes_a_head():
    """By the function that makes it: what writes a result file without it would not be noticed."""
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        writes = re.search(r"(RESULTS|RATIOS|\bout|path)\)?\.write_text\(", text)
        if writes and path.stem not in ("provenance", "tables", "plots"):
            assert re.search(r"\babout\(", text), path.name
