"""The house: imports point one way, nothing heavy is loaded early, documented is what is there."""

import ast
import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import tacit
import tacit_lab

# From the ground up: a module imports only from rooms before its own, and from its own.
ROOMS = [
    *("errors", "files", "engine", "model", "dynamics", "search", "data", "forward"),
    *("likelihood", "inference", "inverse", "checks", "many", "worlds", "judge"),
    *("folders", "show", "export", "cli", "__main__"),
]
# Methods that a person expects on a noun may import from above, inside themselves.
DOORS = re.compile(r"\.(save|load|plot|summary|_repr_html_)$")
# Slow to load, or not on every machine: imported inside what uses them, or at once in a room that
# nothing imports before it is needed.
HEAVY = {"jax", "numba", "highspy", "polars", "matplotlib", "rich", "scipy"}
OPTIONAL = {"joblib", "jinja2", "tyro", "gymnasium", "minari", "sklearn", "dask"}


def imports_of(node: ast.AST, inside: str = "") -> Iterator[tuple[str, str]]:
    """Every import below the node but those for type checkers: dotted name, qualified place."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, inside) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from ((f"{child.module}.{alias.name}", inside) for alias in child.names)
        else:
            yield from imports_of(child, f"{inside}.{getattr(child, 'name', '')}".rstrip("."))


def upward_imports(package: Path) -> list[str]:
    """Imports of a room from one above it."""
    offenders = []
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).with_suffix("").parts[0]
        if room == "__init__":
            continue
        assert room in ROOMS, path
        for name, inside in imports_of(ast.parse(path.read_text("utf-8"))):
            top, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            above = other in ROOMS and ROOMS.index(other) > ROOMS.index(room)
            if top == "tacit_lab" or (top == "tacit" and above and not DOORS.search(inside)):
                offenders.append(f"{path.relative_to(package)} imports {name}")
    return offenders


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@cache
def modules() -> tuple[ModuleType, ...]:
    houses = [(tacit.__path__, "tacit."), (tacit_lab.__path__, "tacit_lab.")]
    names = [found.name for house in houses for found in pkgutil.walk_packages(*house)]
    return tuple(importlib.import_module(name) for name in names if not name.endswith("__main__"))


def defined() -> list[tuple[str, object]]:
    """Qualified name and value of everything that is written in the package, methods included."""
    own = [
        (f"{module.__name__}.{name}", value)
        for module in modules()
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
    ]
    methods = [
        (f"{name}.{inner}", getattr(value, "__func__", value))
        for name, owner in own
        if inspect.isclass(owner)
        for inner, value in vars(owner).items()
    ]
    return [*own, *methods]


def listed(text: str | None, title: str) -> list[str] | None:
    """The names in a Google section of a docstring; None where there is no such section."""
    text = inspect.cleandoc(text or "") + "\n"
    match = re.search(rf"^{title}:\n((?:[ ]+.*\n|\n)*)", text, re.MULTILINE)
    return None if match is None else re.findall(r"^ {4}\*{0,2}(\w+):", match[1], re.MULTILINE)


def test_imports_point_upwards_only(tmp_path):
    assert not upward_imports(Path(tacit.__file__).parent)
    (tmp_path / "model.py").write_text("def f():\n    from tacit.show import page\n")
    assert upward_imports(tmp_path) == ["model.py imports tacit.show.page"]


def test_importing_tacit_loads_no_engine():
    code = f"import sys, tacit; print(sorted({HEAVY | OPTIONAL!r} & set(sys.modules)))"
    assert fresh(code) == "[]"
    names = "[getattr(tacit, name) for name in tacit.__all__ if name != 'scale']"
    assert fresh(f"import sys, tacit; {names}; print('jax' in sys.modules)") == "False"


def test_public_names_are_found_and_none_is_shadowed_by_a_module():
    assert all(name in dir(tacit) and getattr(tacit, name) is not None for name in tacit.__all__)
    spaces = {name for name, home in tacit._HOME.items() if home == f"tacit.{name}"}
    files = {module.__name__ for module in modules()}
    assert not [n for n in tacit.__all__ if n not in spaces and f"tacit.{n}" in files]
    with pytest.raises(AttributeError, match="'tacit' has no attribute 'nonsense'"):
        tacit.nonsense  # noqa: B018


def test_data_is_frozen_and_its_documented_fields_are_its_fields():
    classes = [(n, v) for n, v in defined() if inspect.isclass(v) and dataclasses.is_dataclass(v)]
    for name, cls in classes:
        assert cls.__dataclass_params__.frozen, name
        fields = [field.name for field in dataclasses.fields(cls) if field.name[0] != "_"]
        own = [field for field in inspect.get_annotations(cls) if field in fields]
        assert listed(cls.__doc__, "Attributes") in (None, fields, own), name
        assert sum(not field.kw_only for field in dataclasses.fields(cls)) <= 4, name


def test_documented_arguments_are_real():
    for name, function in defined():
        if isinstance(function, FunctionType):
            names = listed(function.__doc__, "Args") or []
            real = inspect.signature(function).parameters
            assert names == [one for one in real if one in names], name


def test_examples_in_docstrings_run():
    results = [doctest.testmod(one, optionflags=doctest.NORMALIZE_WHITESPACE) for one in modules()]
    assert sum(one.attempted for one in results) > 0
    assert not sum(one.failed for one in results)
