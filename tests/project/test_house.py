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
    *(
        "likelihood",
        "inference",
        "recovery",
        "estimators",
        "stream",
        "checks",
        "many",
        "worlds",
        "judge",
    ),
    *("folders", "show", "export", "cli", "__main__"),
]
# Methods that a person expects on a noun may import from above, inside themselves; so may what
# reads the folder that `recover` is given.
DOORS = re.compile(
    r"\.(save|load|plot|summary|_repr_html_|problem_at|updated|refresh|with_origin|"
    r"more_needed|certify|anytime|model_card|cautious|counterfactual|scenarios|simulate|refit|"
    r"_effects)$"
)
# Slow to load, or not on every machine: imported inside what uses them.
HEAVY = {"jax", "numba", "highspy", "polars", "matplotlib", "rich", "scipy", "joblib", "jinja2"}
OPTIONAL = {"tyro", "gymnasium", "minari", "sklearn", "dask"}


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


def upward_imports(package: Path) -> Iterator[str]:
    """Imports of a room from one above it."""
    for path in sorted(package.glob("*/**/*.py")) + sorted(package.glob("[!_]*.py")):
        own = ROOMS.index(path.relative_to(package).with_suffix("").parts[0])
        for name, inside in imports_of(ast.parse(path.read_text("utf-8"))):
            top, other, *_ = f"{name}.".split(".")
            above = other in ROOMS and ROOMS.index(other) > own and not DOORS.search(inside)
            if top == "tacit_lab" or (top == "tacit" and above):
                yield f"{path.relative_to(package)} imports {name}"


@cache
def modules() -> tuple[ModuleType, ...]:
    houses = [(tacit.__path__, "tacit."), (tacit_lab.__path__, "tacit_lab.")]
    names = [found.name for house in houses for found in pkgutil.walk_packages(*house)]
    return tuple(importlib.import_module(name) for name in names if not name.endswith("__main__"))


def defined() -> Iterator[tuple[str, object]]:
    """Qualified name and value of everything that is written in the package, methods included."""
    for module in modules():
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) == module.__name__:
                yield f"{module.__name__}.{name}", value
                for inner, method in vars(value).items() if inspect.isclass(value) else ():
                    yield f"{name}.{inner}", getattr(method, "__func__", method)


def listed(value: object, title: str) -> list[str] | None:
    """The names in a Google section of a docstring; None where there is no such section."""
    text = inspect.cleandoc(value.__doc__ or "") + "\n"
    match = re.search(rf"^{title}:\n((?:[ ]+.*\n|\n)*)", text, re.MULTILINE)
    return None if match is None else re.findall(r"^ {4}\*{0,2}(\w+):", match[1], re.MULTILINE)


def test_imports_point_upwards_only(tmp_path):
    assert not [*upward_imports(Path(tacit.__file__).parent)]
    (tmp_path / "model.py").write_text("def f():\n    from tacit.show import page\n")
    assert [*upward_imports(tmp_path)] == ["model.py imports tacit.show.page"]


def test_importing_tacit_loads_no_engine():
    names = "[getattr(tacit, name) for name in tacit.__all__ if name != 'scale']"
    for after, early in (("pass", HEAVY | OPTIONAL), (names, {"jax"})):
        code = f"import sys, tacit; {after}; print({early!r} & {{*sys.modules}})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout == "set()\n", done.stderr


def test_public_names_are_found_and_no_module_takes_their_place():
    every = [getattr(tacit, name) for name in tacit.__all__]
    hidden = [
        f"{space.__name__}.{name}"
        for space in every
        if inspect.ismodule(space)
        for name in getattr(space, "__all__", ())
        if inspect.ismodule(getattr(space, name))
    ]
    assert hidden == ["tacit.data.sources"]  # a namespace of its own
    with pytest.raises(AttributeError, match="'tacit' has no attribute 'nonsense'"):
        tacit.nonsense  # noqa: B018


def test_documented_is_what_is_there_and_data_is_frozen():
    for name, value in defined():
        if isinstance(value, FunctionType):
            real, names = inspect.signature(value).parameters, listed(value, "Args") or []
            assert names == [one for one in real if one in names], name
        elif inspect.isclass(value) and dataclasses.is_dataclass(value):
            fields = [field.name for field in dataclasses.fields(value) if field.name[0] != "_"]
            own = [field for field in inspect.get_annotations(value) if field in fields]
            assert listed(value, "Attributes") in (None, fields, own), name
            assert value.__dataclass_params__.frozen, name
            assert sum(not field.kw_only for field in dataclasses.fields(value)) <= 4, name


def test_examples_in_docstrings_run():
    results = [doctest.testmod(one, optionflags=doctest.NORMALIZE_WHITESPACE) for one in modules()]
    assert sum(one.attempted for one in results) > 0
    assert not sum(one.failed for one in results)


def test_make_reads_its_targets():
    targets = ["test", "test-orders", "wheel-test", "demo", "docs", "bench", "torture"]
    called = subprocess.run(
        ["make", "-n", *targets], cwd=Path(__file__).parents[2], capture_output=True, check=False
    )
    assert called.returncode == 0, called.stderr.decode()


def test_a_namespace_lists_what_is_in_it_and_nothing_else():
    spaces = [one for name in tacit.__all__ if inspect.ismodule(one := getattr(tacit, name))]
    assert len(spaces) > 10
    for space in [tacit, tacit.data.sources, *spaces]:
        assert dir(space) == sorted(space.__all__), space.__name__


def test_no_sentence_of_the_program_is_a_known_riddle():
    """What readers stumbled over stays out; `tools/sentences` lists every sentence to be read."""
    program = Path(__file__).parents[2] / "tools" / "sentences"
    every = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert len(every.stdout.splitlines()) > 2000
    riddles = (
        *("at most under", "times its size", "times as large by it", "no bound holds back"),
        *("in no unit of", "rises for ever", "give or take", "when it rests"),
        *("without a meaning", "changes nothing that anybody does"),
    )
    found = [line for line in every.stdout.splitlines() for one in riddles if one in line]
    assert not found
