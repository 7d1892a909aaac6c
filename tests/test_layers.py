"""The folders are the circle: imports point one way, and importing tacit loads no engine."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tacit

PACKAGE = Path(tacit.__file__).parent

# From the ground up. A module imports only what stands above it in this list, or its own folder.
LAYERS = [
    "errors",
    "progress",
    "workers",
    "threads",
    "files",
    "engine",
    "layout",
    "transitions",
    "counting",
    "dynamics_prior",
    "evidence",
    "estimation",
    "mdp",
    "objective",
    "demonstrations",
    "tallies",
    "sources",
    "features",
    "forward",
    "simulation",
    "inverse",
    "worlds",
    "judge",
    "problems",
    "runs",
    "export",
    "show",
    "studies",
    "commands",
    "cli",
    "__main__",
]

ENGINES = ("jax", "numba", "highspy", "polars", "matplotlib", "rich", "scipy")

# Engines that a machine may lack: they are imported inside the functions that use them.
OPTIONAL = {
    "dask",
    "gymnasium",
    "highspy",
    "joblib",
    "matplotlib",
    "minari",
    "polars",
    "rich",
    "sklearn",
    "tensorboardX",
    "tyro",
}

NOUNS = {"errors", "transitions", "mdp", "objective", "demonstrations"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(path: Path, *, top_only: bool = False) -> list[tuple[int, str]]:
    """(line, dotted name) of everything the file imports, `from a import b` as `a.b`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(_top_level(tree)) if top_only else list(ast.walk(tree))
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def _top_level(node: ast.AST):
    """What runs when the module is imported: not the functions, not `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _top_level(child)


@pytest.mark.parametrize("path", modules(), ids=named)
def test_a_module_has_a_place_and_imports_only_what_stands_above(path):
    if path == PACKAGE / "__init__.py":
        assert [name for _, name in imported(path, top_only=True) if "tacit" in name] == []
        return
    own = layer(path)
    assert own in LAYERS, f"{own} has no place in the layout"
    for line, name in imported(path):
        top, _, rest = name.partition(".")
        if top != "tacit" or name == "tacit.__version__":
            continue
        other = rest.partition(".")[0]
        assert other in LAYERS, f"{path}:{line}: import {name} from its own module"
        rank, limit = LAYERS.index(other), LAYERS.index(own)
        inside = other == own and path.parent != PACKAGE
        assert rank < limit or inside, f"{path}:{line}: {own} must not import {other}"


def test_no_folder_imports_itself_in_a_circle():
    graph = {}
    for path in modules():
        dotted = ".".join(["tacit", *path.relative_to(PACKAGE).with_suffix("").parts])
        graph[dotted.removesuffix(".__init__")] = {
            name for _, name in imported(path, top_only=True)
        }
    # `from tacit.forward.solve import solve` means the module tacit.forward.solve.
    edges = {
        module: {
            other
            for name in names
            for other in (name, name.rpartition(".")[0])
            if other in graph and other != module
        }
        for module, names in graph.items()
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join([*trail, module])
        if module not in done:
            for other in sorted(edges[module]):
                visit(other, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", modules(), ids=named)
def test_optional_engines_are_imported_where_they_are_used(path):
    # Nothing imports `show` before there is something to draw.
    allowed = {"matplotlib"} if layer(path) == "show" else set()
    for line, name in imported(path, top_only=True):
        engine = name.partition(".")[0]
        assert engine not in OPTIONAL - allowed, f"{path}:{line}: import {name} later"


@pytest.mark.parametrize("path", modules(), ids=named)
def test_only_show_draws(path):
    names = {name.partition(".")[0] for _, name in imported(path)}
    assert "matplotlib" not in names or layer(path) == "show"


@pytest.mark.parametrize("path", modules(), ids=named)
def test_module_names_say_what_is_inside(path):
    assert path.stem not in {"utils", "util", "common", "base", "helpers", "misc"}


def test_the_oracles_know_the_nouns_only():
    oracles = Path(__file__).with_name("oracles.py")
    if not oracles.exists():
        pytest.skip("there is no oracles.py")
    for line, name in imported(oracles):
        top, _, rest = name.partition(".")
        if top != "tacit":
            continue
        first = rest.partition(".")[0]
        home = tacit._HOME.get(first, f"tacit.{first}").removeprefix("tacit.")
        assert home.partition(".")[0] in NOUNS, f"oracles.py:{line}: {name} is not a noun"


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_tacit_loads_no_engine():
    code = f"import sys, tacit; print([name for name in {ENGINES!r} if name in sys.modules])"
    assert fresh(code) == "[]"


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ImportError(name + " is not installed here")

sys.meta_path.insert(0, Missing())
import numpy as np
import tacit

# Stay or switch between two states; being in state 1 pays 1 and costs 1, half of it is allowed.
mdp = tacit.MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [1, 0], 0.5)
truth = tacit.Objective([0, 1], [[0, 1]], [0.5])
print([tacit.solve(mdp, truth, solver=solver).status.name for solver in ({solvers})])
"""


def test_solving_needs_numpy_scipy_and_jax_only():
    missing = sorted({*OPTIONAL, "numba"})
    code = WITHOUT.format(missing=missing, solvers="tacit.ColumnGeneration(), tacit.SoftDual()")
    assert fresh(code) == "['CONVERGED', 'CONVERGED']"


def test_every_public_name_is_listed_and_found():
    # The table, the list for `import *` and the imports for type checkers say the same.
    assert sorted(tacit.__all__) == sorted(tacit._HOME)
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: (f"tacit.{alias.name}" if node.module == "tacit" else node.module)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == tacit._HOME
    for name in tacit.__all__:
        assert getattr(tacit, name) is not None
        assert name in dir(tacit)
    with pytest.raises(AttributeError, match="'tacit' has no attribute 'nonsense'"):
        tacit.nonsense  # noqa: B018


def test_no_public_name_is_shadowed_by_a_module():
    for name, home in tacit._HOME.items():
        if home != f"tacit.{name}":
            assert not (PACKAGE / f"{name}.py").exists(), f"tacit.{name} would become a module"
            assert not (PACKAGE / name).exists(), f"tacit.{name} would become a folder"


@pytest.mark.parametrize("name", ["solve", "simulate"])
def test_verbs_stay_functions_after_their_modules_are_imported(name):
    code = f"import tacit, {tacit._HOME[name]}; print(callable(tacit.{name}))"
    assert fresh(code) == "True"
