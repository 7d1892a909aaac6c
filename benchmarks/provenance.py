"""What a result file says about its own making, and whether the code is still the one measured.

The head of a result file has the command, the day, the commit, the machine, the versions, the
seconds since the benchmark began and, for every module of tacit and of its lab that was imported,
the digest of its code. Imports are counted in this process and in all that it starts. A digest
leaves out what changes no number: comments, docstrings, layout, the public names listed for type
checkers and the version.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

BEGAN = time.perf_counter()
HOUSES = ("tacit", "tacit_lab")
NOTES = "TACIT_IMPORTS"  # the environment variable that names the folder of notes

# Run by Python when a process starts: notes every module of tacit that it is going to import.
HOOK = f"""
import os, sys

class Notes:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {HOUSES}:
            with open(os.path.join(os.environ["{NOTES}"], str(os.getpid())), "a") as file:
                file.write(name + "\\n")

if "{NOTES}" in os.environ:
    sys.meta_path.insert(0, Notes)
"""


def note_imports() -> None:
    """Has every process that is started from here note what it imports of tacit."""
    if NOTES in os.environ:
        return  # by the process that started this one
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "hook").mkdir()
    (folder / "hook" / "sitecustomize.py").write_text(HOOK, encoding="utf-8")
    paths = [str(folder / "hook"), os.environ.get("PYTHONPATH", "")]
    os.environ |= {NOTES: str(folder), "PYTHONPATH": os.pathsep.join(filter(None, paths))}


if Path(sys.argv[0]).resolve().parent == Path(__file__).resolve().parent:
    note_imports()  # a benchmark runs; a test that imports one starts nothing


def about(
    packages: Iterable[str],
    *,
    load: float | None = None,
    command: str | None = None,
    modules: Iterable[str] | None = None,
) -> dict[str, Any]:
    """The head of a result file, or of a part of one, to be made when all is measured.

    Args:
        packages: whose versions matter.
        load: of the machine before the study began, where times were measured.
        command: where the one given must not be shown, because it names a path.
        modules: of tacit that were exercised; those that were imported by default.
    """
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    if load is not None:
        machine["load_at_start"] = round(load, 1)
    return {
        "command": command or command_line(),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(Path(__file__).parent.parent),
        "seconds": round(time.perf_counter() - BEGAN, 1),
        "machine": machine,
        "versions": {name: version(name) for name in packages}
        | {"python": platform.python_version()},
        "modules": fingerprint(imported() if modules is None else modules),
    }


def version(package: str) -> str:
    """The version of an installed package, or of tacit where it is only on the path."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        if package != "tacit-irl":
            raise
        return importlib.import_module("tacit").__version__


def command_line() -> str:
    """The command as it can be given again: without `--out PATH`, which is of one machine."""
    words = sys.argv[1:]
    if "--out" in words:
        place = words.index("--out")
        del words[place : place + 2]
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def commit(checkout: Path) -> str | None:
    """The commit that is checked out, with a mark where the code differs; None outside of Git.

    A copy of the tree that is no checkout of its own says its commit by TACIT_COMMIT.
    """
    if told := os.environ.get("TACIT_COMMIT"):
        return told
    git = ["git", "-C", str(checkout)]
    head = subprocess.run(
        [*git, "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=False
    )
    if head.returncode:
        return None
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "src"], capture_output=True, text=True, check=True
    )
    return head.stdout.strip() + ("-dirty" if changed.stdout.strip() else "")


def imported() -> set[str]:
    """Modules of tacit that this process, and those it started, have imported."""
    names = set(sys.modules)
    if NOTES in os.environ:
        for notes in Path(os.environ[NOTES]).glob("[0-9]*"):
            names |= set(notes.read_text(encoding="utf-8").split())
    return {name for name in names if name.partition(".")[0] in HOUSES}


def every_module() -> set[str]:
    """All modules of tacit, for what exercises the whole."""
    places = [home().with_name(house) for house in HOUSES]
    paths = (path.relative_to(home().parent) for one in places for path in one.rglob("*.py"))
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths}


def fingerprint(names: Iterable[str]) -> dict[str, str]:
    """Module -> digest of its code, of those that are files of tacit."""
    found = {name: digest_of(name) for name in sorted(names)}
    return {name: digest for name, digest in found.items() if digest is not None}


@cache
def home() -> Path:
    """The folder of tacit, which need not be imported."""
    package = importlib.util.find_spec("tacit")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent


@cache
def digest_of(name: str) -> str | None:
    """Digest of the code of a module of tacit; None where there is no such module."""
    place = home().parent.joinpath(*name.split("."))
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.exists():
            return digest(path.read_text(encoding="utf-8"))
    return None


def digest(source: str) -> str:
    """Digest of code: the same for every version of Python and every layout of the same code."""
    text = "\n".join(pieces(ast.parse(source)))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def pieces(node: Any) -> Iterator[str]:
    """The kinds, names and constants of a tree, without what changes no number."""
    if isinstance(node, ast.Constant):
        yield f"{type(node.value).__name__} {node.value!r}"
    elif isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name, value in ast.iter_fields(node):
            if value in (None, []):  # as fields are that another version of Python does not have
                continue
            yield f".{name}"
            if name == "body":
                value = body_of(node, value)
            elif isinstance(node, ast.JoinedStr):
                value = texts_joined(value)
            yield from pieces(value)
        yield ")"
    elif isinstance(node, list):
        for each in node:
            yield from pieces(each)
    else:
        yield repr(node)


def body_of(node: ast.AST, body: Any) -> Any:
    """Statements without docstring, without imports for type checkers and without the version."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return body
    documented = ast.get_docstring(node, clean=False) is not None
    return [
        one
        for one in body[documented:]
        if not (isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING")
        and not (isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__version__")
    ]


def texts_joined(values: list[ast.expr]) -> list[ast.expr]:
    """Parts of an f-string, where texts that follow each other are one: Python 3.12 splits them."""
    parts: list[ast.expr] = []
    for one in values:
        last = parts[-1] if parts else None
        if isinstance(one, ast.Constant) and isinstance(last, ast.Constant):
            parts[-1] = ast.Constant(str(last.value) + str(one.value))
        elif not (isinstance(one, ast.Constant) and one.value == ""):
            parts.append(one)
    return parts


def heads(document: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every head of a result file, with its place in it: the whole, or parts made on their own."""
    if isinstance(document, dict):
        if isinstance(document.get("command"), str):
            yield place, document
        for name, inner in document.items():
            yield from heads(inner, f"{place}.{name}" if place else name)
    elif isinstance(document, list):
        for inner in document:
            yield from heads(inner, place)


def changed(head: dict[str, Any]) -> list[str] | None:
    """Modules whose code is no longer the one measured; None where the head has no fingerprint."""
    if not head.get("modules"):
        return None
    return [name for name, digest in head["modules"].items() if digest_of(name) != digest]


def origin(name: str, document: dict[str, Any]) -> str:
    """Where numbers come from, for a reader: the result file, its days and commits."""
    return f"`{name}.json`, {measured(document)}"


def measured(document: dict[str, Any]) -> str:
    """On which days, and at which commits, a result file was measured."""
    dated = [head for _, head in heads(document) if "date" in head]
    made = sorted({(head["date"][:10], head.get("commit") or "") for head in dated})
    days = [f"on {date} at commit `{commit}`" if commit else f"on {date}" for date, commit in made]
    return f"measured {' and '.join(days) if days else 'on a day not noted'}"
