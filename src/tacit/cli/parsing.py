"""From the words of a command line to a frozen dataclass, or to one line that says what is wrong.

A field without a default is positional, every other one an option: `problem: Path` is the first
word after the verb, `out: Path = Path("run")` is `--out`.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import typing
from collections.abc import Sequence
from contextlib import redirect_stderr
from io import StringIO
from typing import Any


class BadArguments(Exception):
    """The command line does not parse; the message is one line."""


def parse(kind: type, words: Sequence[str], *, program: str) -> Any | None:
    """The arguments of a verb, or None where its help was asked for and shown.

    Args:
        kind: the dataclass of its arguments.
        words: what stands after the verb.
        program: how the verb is called, for its help.
    """
    import tyro

    shown = StringIO()
    try:
        with redirect_stderr(shown):
            return tyro.cli(
                kind,
                prog=program,
                args=_choices_first(kind, words),
                config=(
                    tyro.conf.CascadeSubcommandArgs,
                    tyro.conf.FlagCreatePairsOff,
                    tyro.conf.PositionalRequiredArgs,
                ),
            )
    except SystemExit as stop:
        if stop.code in (None, 0):
            return None
        message = _plain(one_line(shown.getvalue()), kind) or "cannot read the command line"
        raise BadArguments(f"{message}; see {program} --help") from None


def _choices_first(kind: type, words: Sequence[str]) -> list[str]:
    """The words with every `--field NAME` that chooses a nested dataclass moved up as `field:name`.

    The parser knows the options of a choice only after the choice itself.
    """
    choices = nested_choices(kind)
    first, rest = [], []
    pending = iter(words)
    for word in pending:
        flag, equals, value = word.partition("=")
        field = flag.removeprefix("--")
        if not flag.startswith("--") or field not in choices:
            rest.append(word)
            continue
        name = value if equals else next(pending, "")
        if dashed(name) not in choices[field]:
            known = ", ".join(choices[field])
            raise BadArguments(f"{flag} must be one of {known}, got {name!r}")
        first.append(f"{field}:{dashed(name)}")
    return first + rest


def nested_choices(kind: type) -> dict[str, list[str]]:
    """The options that choose between dataclasses, and the names of these."""
    return {
        name.replace("_", "-"): [dashed(option.__name__) for option in typing.get_args(hint)]
        for name, hint in typing.get_type_hints(kind).items()
        if any(dataclasses.is_dataclass(option) for option in typing.get_args(hint))
    }


def dashed(name: str) -> str:
    """The parser's spelling of a class: `SoftDual`, `soft_dual` and `soft-dual` are one."""
    name = name.replace("NoneType", "none").replace("_", "-")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def option_names(kind: type) -> list[str]:
    """Every option of a verb, `--` included, in the order of its help."""
    found = []
    for field in dataclasses.fields(kind):
        if not required(field):
            found.append("--" + field.name.replace("_", "-"))
    hints = typing.get_type_hints(kind)
    for name in nested_choices(kind):
        for option in typing.get_args(hints[name.replace("-", "_")]):
            if dataclasses.is_dataclass(option):
                inner = (entry.name.replace("_", "-") for entry in dataclasses.fields(option))
                found += [f"--{name}.{entry}" for entry in inner]
    return list(dict.fromkeys(found))


def required(field: dataclasses.Field[Any]) -> bool:
    """Whether a field has no default, so that it is positional."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def one_line(box: str) -> str:
    """The first paragraph of the parser's box, on one line.

    Where the terminal has no line-drawing characters the title is a paragraph of its own.
    """
    paragraphs: list[list[str]] = [[]]
    for line in re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines():
        if line.startswith("╭") or not line.strip(" │╰╯─-"):
            paragraphs.append([])
        else:
            paragraphs[-1].append(line.strip(" │"))
    texts = [" ".join(" ".join(words).split()) for words in paragraphs if words]
    return next(iter(texts if "╭" in box else texts[1:]), "")


def _plain(message: str, kind: type) -> str:
    """The parser's message in words about the option, not about classes and conversions."""
    message = message.rstrip(".")
    names = {
        field.name: field.name.upper() if required(field) else "--" + field.name.replace("_", "-")
        for field in dataclasses.fields(kind)
    }
    if found := re.match(r"Error parsing (--\S+|[A-Z{]\S*): (.*)", message):
        option, reason = found.groups()
        if option == kind.__name__:  # said by the dataclass itself: its first word is the field
            first, _, rest = reason.partition(" ")
            return f"{names[first]} {rest}" if first in names else reason
        if not re.search(r"invalid literal|could not convert|no type matching", reason):
            return f"{option}: {reason}"
        got = re.findall(r"'([^']*)'", reason)
        return f"{option} must be {_kind_word(reason)}; got {got[-1] if got else ''!r}"
    if found := re.match(r"Missing value for argument '(\S+)'", message):
        return f"{found[1]} needs a value"
    if found := re.match(r"invalid choice '(.*)' for argument '(\S+)'\. Expected one of", message):
        choices = ", ".join(re.findall(r"'([^']*)'", message.partition("Expected")[2]))
        return f"{found[2]} must be one of {choices}; got {found[1]!r}"
    if message.startswith("Missing from"):
        needed = [field.name.upper() for field in dataclasses.fields(kind) if required(field)]
        return f"something is missing: it needs {' '.join(needed)}"
    if found := re.match(r"Unrecognized options: (\S+)", message):
        strange = found[1].rstrip(",")
        near = difflib.get_close_matches(strange, option_names(kind), n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        return f"unknown option or word {strange!r}{hint}"
    return message


def _kind_word(reason: str) -> str:
    if "invalid literal for int" in reason:
        return "a whole number"
    if "convert string to float" in reason:
        return "a number"
    expected = re.search(r"no type matching (.*) could be", reason)
    shown = expected[1] if expected else "something else"
    for word, meaning in (
        ("{None}|", ""),
        ("FLOAT", "a number"),
        ("INT", "a whole number"),
        ("|", " or "),
        (",", ", "),
        ("{", ""),
        ("}", ""),
    ):
        shown = shown.replace(word, meaning)
    return shown
