"""What is documented is what is there, and data is frozen; each test lists all its offenders."""

import ast
import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import textwrap
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType

import tacit
import tacit_lab

# Annotations that are `Any` and nothing else; lower it when some go.
MOST_ANY = 21


@cache
def every_module() -> tuple[ModuleType, ...]:
    houses = [(tacit.__path__, "tacit."), (tacit_lab.__path__, "tacit_lab.")]
    names = [found.name for house in houses for found in pkgutil.walk_packages(*house)]
    return tuple(importlib.import_module(name) for name in names if not name.endswith("__main__"))


def defined(kind) -> list:
    """Everything of that kind written in the package, once, in order of its name."""
    found = {
        f"{value.__module__}.{value.__qualname__}": value
        for module in every_module()
        for value in vars(module).values()
        if kind(value) and value.__module__ == module.__name__
    }
    return [found[name] for name in sorted(found)]


@cache
def data() -> tuple[type, ...]:
    """The dataclasses."""
    return tuple(value for value in defined(inspect.isclass) if dataclasses.is_dataclass(value))


@cache
def functions() -> tuple[FunctionType, ...]:
    """Functions and methods."""
    methods = [
        getattr(value, "__func__", value)
        for owner in defined(inspect.isclass)
        for value in vars(owner).values()
    ]
    return tuple(f for f in [*defined(inspect.isfunction), *methods] if inspect.isfunction(f))


def section(text: str | None, title: str) -> list[str] | None:
    """The names listed in a Google section of a docstring, or None where there is no such one."""
    match = re.search(
        rf"^{title}:\n((?:[ ]+.*\n|\n)*)", inspect.cleandoc(text or "") + "\n", re.MULTILINE
    )
    return None if match is None else re.findall(r"^ {4}\*{0,2}(\w+):", match[1], re.MULTILINE)


def public(cls: type) -> list[str]:
    """The fields without an underscore."""
    return [field.name for field in dataclasses.fields(cls) if not field.name.startswith("_")]


def added(cls: type) -> list[str]:
    """The fields that a dataclass has beside those of the one it is made from."""
    return [name for name in inspect.get_annotations(cls) if name in public(cls)]


def explained(cls: type) -> set[str]:
    """The fields with a docstring below them: the command line shows these as help."""
    found = set()
    for owner in filter(dataclasses.is_dataclass, cls.__mro__):
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0].body
        for field, below in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                found.add(field.target.id)
    return found


def named(value) -> str:
    return f"{value.__module__}.{value.__qualname__}"


# The rules: classes or functions -> offenders ---------------------------------------------------


def thawed(classes) -> list[str]:
    """Dataclasses that can be changed."""
    return [named(cls) for cls in classes if not cls.__dataclass_params__.frozen]


def undocumented(classes) -> list[str]:
    """Dataclasses whose docstring is generated, and larger ones that do not explain a field."""
    found = [named(cls) for cls in classes if (cls.__doc__ or "").startswith(f"{cls.__name__}(")]
    return found + [
        named(cls)
        for cls in classes
        if len(public(cls)) > 4
        and section(cls.__doc__, "Attributes") is None
        and not explained(cls) >= set(public(cls))
    ]


def misdescribed(classes) -> list[str]:
    """Dataclasses whose section of attributes is not the fields in their order, or those added."""
    return [
        f"{named(cls)}: {listed} but {public(cls)}"
        for cls in classes
        if (listed := section(cls.__doc__, "Attributes")) not in (None, public(cls), added(cls))
    ]


def misargued(found) -> list[str]:
    """Functions whose section of arguments names none of theirs, or in another order."""
    wrong = []
    for function in found:
        listed = section(function.__doc__, "Args") or []
        real = [name for name in inspect.signature(function).parameters if name in listed]
        if listed != real:
            wrong.append(f"{named(function)}: {listed}")
    return wrong


def anything(text: str) -> list[int]:
    """The lines of annotations that are `Any` and nothing else."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        # A function's is its return, an argument's or a variable's its own.
        said = getattr(node, "returns", None) or getattr(node, "annotation", None)
        if isinstance(said, ast.Name) and said.id == "Any":
            lines.append(said.lineno)
    return lines


def test_every_dataclass_is_frozen():
    assert not thawed(data())


def test_larger_dataclasses_document_their_fields():
    assert not undocumented(data())


def test_larger_dataclasses_take_keywords():
    found = []
    for cls in data():
        by_position = [field for field in dataclasses.fields(cls) if not field.kw_only]
        found += [named(cls)] * (len(by_position) > 4)
    assert not found, "\n".join(["", *found])


def test_attribute_sections_match_the_fields():
    assert not misdescribed(data())


def test_args_sections_name_real_parameters_in_order():
    assert not misargued(functions())


def test_examples_in_docstrings_run():
    tried, failed = 0, []
    for module in every_module():
        result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
        tried += result.attempted
        failed += [module.__name__] * (result.failed > 0)
    assert not failed
    assert tried > 0


def test_annotations_say_what_they_hold():
    found = [
        f"{path.name}:{line}"
        for house in (tacit, tacit_lab)
        for path in sorted(Path(house.__file__).parent.rglob("*.py"))
        for line in anything(path.read_text(encoding="utf-8"))
    ]
    assert len(found) <= MOST_ANY, "\n".join([f"{len(found)} annotations are Any", *found])


def test_the_rules_see_what_breaks_them():
    text = """First.

    Args:
        mdp: the world.
        objective: a longer text
            over: two lines.

    Returns:
        something: else.
    """
    assert section(text, "Args") == ["mdp", "objective"]
    assert section(text, "Attributes") is None
    assert {"MDP", "Objective"} <= {cls.__name__ for cls in data()}

    @dataclasses.dataclass
    class Wrong:
        """Many fields.

        Attributes:
            b: the second.
            a: the first.
        """

        a: int
        b: int

    @dataclasses.dataclass(frozen=True)
    class Silent:
        """Five fields."""

        a: int
        b: int
        c: int
        d: int
        e: int

    @dataclasses.dataclass(frozen=True)
    class Wider(Silent):
        """One more field than it tells of.

        Attributes:
            f: the sixth.
        """

        f: int
        g: int

    def solve(mdp, objective):
        pass

    solve.__doc__ = text.replace("mdp:", "model:")
    assert thawed([Wrong, Silent]) == [named(Wrong)]
    assert undocumented([Wrong, Silent]) == [named(Silent)]
    assert len(misdescribed([Wrong, Silent])) == len(misargued([solve])) == 1
    assert len(misdescribed([Wider])) == 1
    assert anything("x: Any = 1\ndef f(a: Any, b: list[Any]) -> Any: ...") == [1, 2, 2]
