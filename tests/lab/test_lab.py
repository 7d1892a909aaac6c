"""The lab is a stranger: tacit's public names are enough for it, and tacit does without it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest

import tacit
import tacit_lab
from tacit import cli
from tacit.cli import offers

LAB = Path(tacit_lab.__file__).parent
# From the ground up; a module imports only from rooms before its own, and from its own.
ROOMS = ["worlds", "families", "transfers", "guesses", "figures", "judge", "studies", "commands"]


def is_public(space: object, name: str) -> bool:
    """Whether a name of tacit, or of one of its namespaces, is meant for everybody."""
    listed = getattr(space, "__all__", None)
    return name == "__version__" or (not name.startswith("_") if listed is None else name in listed)


def private(tree: ast.AST) -> Iterator[str]:
    """What a module takes from tacit that is not public."""
    spaces: dict[str, ModuleType] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names if one.name.partition(".")[0] == "tacit"]
            yield from (f"{node.lineno}: {name}" for name in names if name != "tacit")
            spaces |= {one.asname or "tacit": tacit for one in node.names if one.name == "tacit"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tacit":
            for one in node.names:
                if node.module != "tacit" or not is_public(tacit, one.name):
                    yield f"{node.lineno}: {node.module}.{one.name}"
                elif isinstance(found := getattr(tacit, one.name), ModuleType):
                    spaces[one.asname or one.name] = found

    def meant(node: ast.AST) -> object:
        if isinstance(node, ast.Name):
            return spaces.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(inner := meant(node.value), ModuleType):
            return getattr(inner, node.attr, None)
        return None

    for node in ast.walk(tree):
        space = meant(node.value) if isinstance(node, ast.Attribute) else None
        known = isinstance(space, ModuleType)
        if known and not (is_public(space, node.attr) and hasattr(space, node.attr)):
            yield f"{node.lineno}: {ast.unparse(node)}"


def upward(path: Path, tree: ast.AST) -> Iterator[str]:
    """Imports of the lab from a room above."""
    own = path.relative_to(LAB).parts[0].removesuffix(".py")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tacit_lab"):
            inside = node.module.split(".")[1:2] or [one.name for one in node.names]
            for room in inside:
                if own == "__init__" or ROOMS.index(room) > ROOMS.index(own):
                    yield f"{node.lineno}: {room}"


def test_the_lab_uses_public_names_and_imports_upwards():
    for path in sorted(LAB.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not [*private(tree), *upward(path, tree)], path


def test_private_names_are_seen():
    text = """
import tacit.model
import tacit
from tacit.forward import solve
from tacit import judge, model, worlds as places
tacit._HOME, tacit.solve, tacit.judge.regret, judge.regret
tacit.judge.outcomes, judge.relative, places.published, tacit.progress.Event, tacit.many._made
"""
    assert [found.partition(": ")[2] for found in private(ast.parse(text))] == [
        "tacit.model",
        "tacit.forward.solve",
        "tacit.model",
        "tacit._HOME",
        "tacit.judge.outcomes",
        "judge.relative",
        "places.published",
        "tacit.many._made",
    ]


def test_commands_and_estimators_of_the_lab_are_offered_by_entry_points():
    names = {"reproduce", "leaderboard"}
    assert {one.name for one in entry_points(group=offers.COMMANDS)} >= names
    assert {*cli.every_command()} >= {*cli.COMMANDS} | names
    for one in entry_points(group=offers.ESTIMATORS):
        assert hasattr(one.load(), "fit")


def test_a_name_that_is_ours_is_refused(monkeypatch, tmp_path):
    meta = tmp_path / "grove-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: grove\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    for word, group in (("recover", offers.COMMANDS), ("likelihood", offers.ESTIMATORS)):
        (meta / "entry_points.txt").write_text(f"[{group}]\n{word} = grove:nothing\n")
        with pytest.raises(tacit.InvalidModel, match=word):
            offers.offered(group, [word])
    (meta / "entry_points.txt").write_text(f"[{offers.COMMANDS}]\nwander = grove:nothing\n")
    with pytest.raises(tacit.InvalidModel, match=r"grove:nothing.* cannot be loaded"):
        cli.every_command()
    assert isinstance(cli.parse(["demo"]), cli.COMMANDS["demo"])  # nobody else is asked


def test_our_own_commands_do_not_look_for_those_of_others():
    def loaded(words: list[str]) -> list[str]:
        code = f"import sys; from tacit import cli; cli.main({words!r}); print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return done.stdout.rpartition("\n")[0].rpartition("\n")[2].split()

    assert "tacit_lab" not in loaded(["demo", "--help"])
    found = loaded(["--help"])
    assert "tacit_lab.commands" in found
    # Help says what there is, without the engines behind it.
    assert not {"scipy", "jax", "numba", "matplotlib", "tacit_lab.families"} & {*found}
