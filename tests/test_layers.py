"""The house: rooms in order, and imports that point one way.

Every rule is a function from a package to its offenders, so that each is tried on a small invented
package that breaks them all, and a failure lists every offender at once.
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import tacit

PACKAGE = Path(tacit.__file__).parent

# From the ground up: a module imports only from rooms before its own, and from its own.
ROOMS = [
    "errors",
    "files",
    "engine",
    "model",
    "data",
    "forward",
    "inference",
    "inverse",
    "checks",
    "many",
    "worlds",
    "judge",
    "folders",
    "show",
    "export",
    "cli",
    "__main__",
]
# Rooms above everything public: they may use the package as its users do.
TOP = ("cli", "__main__")
# The doors upward: methods that a person expects on a noun, each importing inside itself.
DOORS = {
    "Saved": ("save", "load"),
    "Recovery": ("plot", "summary", "_repr_html_"),
    "MixtureRecovery": ("plot", "summary"),
    "JointRecovery": ("plot", "summary", "_repr_html_"),
    "Demonstrations": ("save", "load"),
}
# A noun that is met as a result only -> the public name whose room it lives in.
RESULTS = {"MixtureRecovery": "Mixture", "Saved": "Recovery"}
ENGINES = ("jax", "numba", "highspy", "polars", "matplotlib", "rich", "scipy")
# Engines that a machine may lack, or that are slow to load: imported inside what uses them.
OPTIONAL = {
    "blackjax",
    "dask",
    "gymnasium",
    "highspy",
    "jinja2",
    "joblib",
    "matplotlib",
    "minari",
    "polars",
    "rich",
    "sklearn",
    "tensorboardX",
    "tyro",
    "xarray",
}
# Nothing imports `show` before there is something to draw, `cli` before words to read, or the
# environments of `export` before one is asked for.
AT_ONCE = {("show", "matplotlib"), ("show", "jinja2"), ("cli", "tyro"), ("export", "gymnasium")}
# Rooms that speak to people, where a regular expression may read only what is not a sentence.
SPEAKING = ("inverse", "checks", "show")
PATTERNS = {
    "tacit.show.html": "names inside the SVG that matplotlib writes; `code` and **strong**",
}
# What every room may take from the package itself.
OF_THE_PACKAGE = ("tacit.__version__", "tacit.names_on_demand")
# Where it is decided how a solve or a recovery ended.
DECIDING = ("tacit.forward.solution", "tacit.inverse.recovery")
STATUSES = ("Status", "RecoveryStatus")
VAGUE = {"utils", "util", "common", "base", "helpers", "misc"}
NOUNS = {"errors", "model", "data"}


@dataclass(frozen=True)
class Import:
    """One import statement: where, of what, and inside which function.

    Attributes:
        line: number.
        name: dotted, `from a import b` as `a.b`.
        inside: qualified name of the function or class around it, "" at the top.
        at_once: whether it runs when the module is imported.
    """

    line: int
    name: str
    inside: str
    at_once: bool


@dataclass(frozen=True)
class Module:
    """One file of a package, parsed.

    Attributes:
        path: of the file.
        dotted: the module's name.
        imports: all but those for type checkers.
    """

    path: Path
    dotted: str
    imports: tuple[Import, ...]

    @property
    def room(self) -> str:
        """The folder or file right under the package; "" for the package itself."""
        return self.dotted.partition(".")[2].partition(".")[0]


def named(node: ast.AST) -> str:
    """The name, or the last part of it: `a` and `b.a` are both `a`."""
    return getattr(node, "id", getattr(node, "attr", ""))


def imports_of(tree: ast.AST, inside: str = "", at_once: bool = True) -> Iterator[Import]:
    """Every import below the node, with those inside functions, without those for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and named(node.test) == "TYPE_CHECKING":
            yield from imports_of(ast.Module(node.orelse, []), inside, at_once)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports_of(node, f"{inside}.{node.name}".lstrip("."), False)
        elif isinstance(node, ast.ClassDef):
            yield from imports_of(node, f"{inside}.{node.name}".lstrip("."), at_once)
        elif isinstance(node, ast.Import):
            yield from (Import(node.lineno, a.name, inside, at_once) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            for alias in node.names:
                yield Import(node.lineno, f"{start}.{alias.name}", inside, at_once)
        else:
            if isinstance(node, ast.Call) and named(node.func) == "import_module":
                written = ast.unparse(node.args[0]).lstrip("f").strip("'\"").partition("{")[0]
                yield Import(node.lineno, written.rstrip("."), inside, at_once)
            yield from imports_of(node, inside, at_once and not isinstance(node, ast.Lambda))


@cache
def read(package: Path) -> dict[str, Module]:
    """Every module of the package, by its dotted name; the package is called tacit."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        parts = ("tacit", *path.relative_to(package).with_suffix("").parts)
        dotted = ".".join(parts).removesuffix(".__init__")
        imports = tuple(imports_of(ast.parse(text)))
        found[dotted] = Module(path, dotted, imports)
    return found


def home(house: dict[str, Module], name: str) -> str | None:
    """The module that a dotted name means: itself, or where its last part is defined."""
    return next((n for n in (name, name.rpartition(".")[0]) if n in house and n != "tacit"), None)


def is_door(module: str, inside: str) -> bool:
    noun, _, method = inside.partition(".")
    public = tacit._HOME.get(RESULTS.get(noun, noun), "")
    same_room = module.split(".")[1:2] == public.split(".")[1:2]
    return same_room and method in DOORS.get(noun, ())


def edges(house: dict[str, Module]) -> dict[str, set[str]]:
    """Module -> modules it imports, local imports too, but not through the doors."""
    return {
        name: {
            other
            for found in module.imports
            if (other := home(house, found.name)) not in (None, name)
            and not is_door(name, found.inside)
        }
        for name, module in house.items()
    }


# The rules: package -> offenders --------------------------------------------------------------


def upward(house: dict[str, Module]) -> list[str]:
    """Imports from a room above, of the package instead of a module, and relative ones."""
    found = []
    for name, module in house.items():
        if name == "tacit":
            found += [f"tacit:{i.line} imports {i.name} at once" for i in module.imports
                      if i.at_once and i.name.startswith("tacit")]  # fmt: skip
        elif module.room not in ROOMS:
            found.append(f"{name} is in no room")
        else:
            for one in module.imports:
                top, _, rest = one.name.partition(".")
                other = rest.partition(".")[0]
                if top == "tacit_lab":
                    found.append(f"{name}:{one.line} imports {one.name}")
                if top not in ("tacit", "") or one.name in OF_THE_PACKAGE:
                    continue
                if one.name == "tacit" and module.room in TOP:
                    continue
                known = top == "tacit" and other in ROOMS
                if not known or (
                    ROOMS.index(other) > ROOMS.index(module.room) and not is_door(name, one.inside)
                ):
                    found.append(f"{name}:{one.line} imports {one.name}")
    return found


def circles(house: dict[str, Module]) -> list[str]:
    """Circles of modules that import one another; a pair is the shortest."""
    graph, found, done = edges(house), [], set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        if module in trail:
            found.append(" -> ".join([*trail[trail.index(module) :], module]))
        elif module not in done:
            for other in sorted(graph[module]):
                visit(other, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())
    return found


def early(house: dict[str, Module]) -> list[str]:
    """Optional engines imported before they are used, and matplotlib outside `show`."""
    found = []
    for name, module in house.items():
        for one in module.imports:
            engine = one.name.partition(".")[0]
            at_once = one.at_once and (module.room, engine) not in AT_ONCE
            if (engine in OPTIONAL and at_once) or (
                engine == "matplotlib" and module.room != "show"
            ):
                found.append(f"{name}:{one.line} imports {one.name}")
    return found


def misnamed(house: dict[str, Module]) -> list[str]:
    """Names that say nothing, and families with one prefix: a folder that was not made."""
    folders: dict[Path, set[str]] = {}
    for module in house.values():
        path = module.path.parent if module.path.stem == "__init__" else module.path
        folders.setdefault(path.parent, set()).add(path.stem)
    found = [f"{name} says nothing" for name in house if name.rpartition(".")[2] in VAGUE]
    for folder, names in folders.items():
        heads = Counter(n.partition("_")[0] for n in names if n != "__main__")
        found += [
            f"{folder.name}/: {', '.join(sorted(n for n in names if n.partition('_')[0] == head))}"
            for head, count in heads.items()
            if count > 1
        ]
    return found


def reading_prose(house: dict[str, Module]) -> list[str]:
    """Regular expressions in the rooms that make sentences, but for the listed ones."""
    return [
        f"{name}:{one.line} imports re"
        for name, module in house.items()
        for one in module.imports
        if module.room in SPEAKING and one.name.partition(".")[0] == "re" and name not in PATTERNS
    ]


def statuses(house: dict[str, Module]) -> list[str]:
    """Statuses that are made, not compared with, outside the two places that decide them."""
    found = []
    for name, module in house.items():
        text = module.path.read_text(encoding="utf-8")
        if name in DECIDING or not any(word in text for word in STATUSES):
            continue
        tree = ast.parse(text)
        asked = [n for n in ast.walk(tree) if isinstance(n, ast.Compare | ast.Subscript | ast.Dict)]
        compared = {inner for node in asked for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or named(node.value) not in STATUSES:
                continue
            if node.attr.isupper() and node not in compared:
                found.append(f"{name}:{node.lineno} makes {ast.unparse(node)}")
    return found


RULES = (upward, circles, early, misnamed, reading_prose, statuses)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_its_rules(rule):
    found = rule(read(PACKAGE))
    assert not found, "\n".join(["", *found])


def test_every_rule_sees_what_breaks_it(tmp_path):
    folder = tmp_path / "tacit"
    written = {
        "errors.py": "from tacit.files import arrays",
        "files/arrays.py": "def f():\n    from tacit.model.mdp import MDP",
        "files/utils.py": "from . import arrays",
        "model/mdp.py": "import tacit\nfrom tacit.model.counts import c\nimport matplotlib",
        "model/counts.py": (
            "def f():\n    from tacit.model.mdp import MDP\n    import polars, tacit_lab.worlds"
        ),
        "cellar/wine.py": "",
        "inverse/recovery.py": (
            "import re, polars\nclass Saved:\n"
            "    def save(self):\n        import tacit.folders\n"
            "    def keep(self):\n        from importlib import import_module\n"
            "        import_module(f'tacit.folders.{1}')\n"
        ),
        "inverse/recovery_page.py": "if TYPE_CHECKING:\n    from tacit.show import page\n",
        "folders/runs.py": (
            "from tacit.inverse.recovery import Recovery\nf(status=Status.CONVERGED)\n"
            "s is Status.CONVERGED"
        ),
        "show/page.py": "import matplotlib\n",
    }
    for name, text in written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    house = read(folder)
    assert sorted(upward(house)) == [
        "tacit.cellar.wine is in no room",
        "tacit.errors:1 imports tacit.files.arrays",
        "tacit.files.arrays:2 imports tacit.model.mdp.MDP",
        "tacit.files.utils:1 imports ..arrays",
        "tacit.inverse.recovery:7 imports tacit.folders",
        "tacit.model.counts:3 imports tacit_lab.worlds",
        "tacit.model.mdp:1 imports tacit",
    ]
    assert circles(house) == ["tacit.model.mdp -> tacit.model.counts -> tacit.model.mdp"]
    assert early(house) == [
        "tacit.inverse.recovery:1 imports polars",
        "tacit.model.mdp:3 imports matplotlib",
    ]
    assert misnamed(house) == [
        "tacit.files.utils says nothing",
        "inverse/: recovery, recovery_page",
    ]
    assert reading_prose(house) == ["tacit.inverse.recovery:1 imports re"]
    assert statuses(house) == ["tacit.folders.runs:2 makes Status.CONVERGED"]


def test_nothing_listed_here_is_gone():
    house = read(PACKAGE)
    assert set(PATTERNS) <= set(house), "a listed pattern has no module"
    assert {module.room for module in house.values()} - {""} == set(ROOMS)
    for noun in DOORS:
        assert hasattr(tacit, RESULTS.get(noun, noun)), noun


# Public names -----------------------------------------------------------------------------------


def test_public_names_are_few_listed_once_and_found():
    # The table, the list for `import *` and the imports for type checkers say the same.
    assert sorted(tacit.__all__) == sorted(tacit._HOME)
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {}
    for node in checked.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            typed[alias.asname or alias.name] = whole if whole in read(PACKAGE) else node.module
    assert typed == tacit._HOME
    missing = [name for name in tacit.__all__ if getattr(tacit, name, None) is None]
    missing += [name for name in tacit.__all__ if name not in dir(tacit)]
    assert not missing
    with pytest.raises(AttributeError, match="'tacit' has no attribute 'nonsense'"):
        tacit.nonsense  # noqa: B018


def test_no_public_name_is_shadowed_by_a_module():
    # An import of `tacit.solve`, were there such a module, would replace the function.
    shadowed = [
        name
        for name, where in tacit._HOME.items()
        if f"tacit.{name}" in read(PACKAGE) and where != f"tacit.{name}"
    ]
    assert not shadowed


def test_the_oracles_know_the_nouns_only():
    tree = ast.parse(Path(__file__).with_name("oracles.py").read_text(encoding="utf-8"))
    found = []
    for one in imports_of(tree):
        top, _, rest = one.name.partition(".")
        first = rest.partition(".")[0]
        room = tacit._HOME.get(first, f"tacit.{first}").split(".")[1]
        if top == "tacit" and room not in NOUNS:
            found.append(f"oracles.py:{one.line} imports {one.name}")
    assert not found


# What a process loads -----------------------------------------------------------------------------


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_tacit_loads_no_engine():
    code = f"import sys, tacit; print([name for name in {ENGINES!r} if name in sys.modules])"
    assert fresh(code) == "[]"


def test_only_splitting_over_devices_loads_jax_before_it_is_used():
    # An exact solve, or a recovery of an optimal expert, should not wait a second for it.
    code = "[getattr(tacit, name) for name in tacit.__all__ if name != 'scale']"
    assert fresh(f"import sys, tacit; {code}; print('jax' in sys.modules)") == "False"


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
