"""What is documented is what is there."""

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
from types import ModuleType

import pytest

import tacit


def every_module() -> list[ModuleType]:
    names = [found.name for found in pkgutil.walk_packages(tacit.__path__, "tacit.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


def defined(kind) -> list:
    """Everything of that kind written in the package, once, in order of its name."""
    found = {
        f"{value.__module__}.{value.__qualname__}": value
        for module in every_module()
        for value in vars(module).values()
        if kind(value) and value.__module__ == module.__name__
    }
    return [found[name] for name in sorted(found)]


def functions() -> list:
    """Functions and methods, with a docstring."""
    methods = [
        value
        for owner in defined(inspect.isclass)
        for value in vars(owner).values()
        if inspect.isfunction(value)
    ]
    return [value for value in [*defined(inspect.isfunction), *methods] if value.__doc__]


def section(text: str, title: str) -> list[str] | None:
    """The names listed in a Google section of a docstring, or None where there is no such one."""
    match = re.search(
        rf"^{title}:\n((?:[ ]+.*\n|\n)*)", inspect.cleandoc(text) + "\n", re.MULTILINE
    )
    return None if match is None else re.findall(r"^ {4}\*{0,2}(\w+):", match[1], re.MULTILINE)


DATACLASSES = [value for value in defined(inspect.isclass) if dataclasses.is_dataclass(value)]
DOCUMENTED = [value for value in DATACLASSES if section(value.__doc__ or "", "Attributes")]
WITH_ARGUMENTS = [value for value in functions() if section(value.__doc__, "Args")]


def qualified(value) -> str:
    return value.__qualname__


@pytest.mark.parametrize("cls", DOCUMENTED, ids=qualified)
def test_attribute_section_matches_the_fields(cls):
    public = [field.name for field in dataclasses.fields(cls) if not field.name.startswith("_")]
    assert section(cls.__doc__, "Attributes") == public


@pytest.mark.parametrize("cls", DATACLASSES, ids=qualified)
def test_every_dataclass_is_frozen(cls):
    assert cls.__dataclass_params__.frozen


@pytest.mark.parametrize("cls", DATACLASSES, ids=qualified)
def test_every_public_dataclass_documents_its_fields(cls):
    # Hyperparameters may be documented under their fields: the command line reads them there.
    if cls.__name__ in ("MDP", "Successors", "Objective", "Features", "Solution", "Certificate"):
        assert cls in DOCUMENTED
    assert not (cls.__doc__ or "").startswith(f"{cls.__name__}("), "the docstring is generated"


@pytest.mark.parametrize("function", WITH_ARGUMENTS, ids=qualified)
def test_args_section_names_real_parameters_in_order(function):
    real = [name for name in inspect.signature(function).parameters if name != "self"]
    listed = section(function.__doc__, "Args")
    assert listed == [name for name in real if name in listed]


@pytest.mark.parametrize("module", every_module(), ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(module):
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_the_reader_of_sections_is_not_blind():
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
    assert {"MDP", "Objective"} <= {cls.__name__ for cls in DOCUMENTED}
