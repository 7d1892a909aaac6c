"""The command `tacit`: parse, call one function, write one folder.

A verb is a frozen dataclass, its arguments, and a function that takes them. Both are named here and
imported only when the verb is called; the dataclass lives in a module that imports no numerics at
the top, so that its help answers at once too. The defaults in the help are those of the dataclass.
"""

import dataclasses
import os
import re
import signal
import sys
import typing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from io import StringIO
from types import FrameType

from tacit import __version__
from tacit.errors import Infeasible, NotConverged, TacitError

DONE, OUR_BUG, BAD_INPUT, NOT_SOLVED, NO_FILE, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143


@dataclasses.dataclass(frozen=True)
class Verb:
    """One subcommand.

    Attributes:
        name: how it is called.
        summary: one line for `tacit --help`.
        arguments: "module:Class", the frozen dataclass that holds its arguments.
        run: "module:function", takes that dataclass and returns the text to show, or None.
    """

    name: str
    summary: str
    arguments: str
    run: str


VERBS: tuple[Verb, ...] = (
    Verb(
        "reproduce",
        "the paper's experiment over many draws, measured against the truth",
        "tacit.studies.settings:Reproduce",
        "tacit.studies.reproduce:command",
    ),
)


class BadArguments(Exception):
    """The command line does not parse; the message is one line."""


class Terminated(BaseException):
    """SIGTERM came. Unwinds like an interrupt, so that half-written files are cleaned up."""


def main(arguments: Sequence[str] | None = None, verbs: Sequence[Verb] = VERBS) -> int:
    """The exit code: 0 done, 1 our bug, 2 bad input, 3 not solved, 4 files, 130 / 143 stopped."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with _terminable():
            text = _answer(words, verbs)
            if text is not None:
                print(text, flush=True)
        return DONE
    except (KeyboardInterrupt, Terminated, Exception) as error:
        if debug:
            import traceback

            traceback.print_exception(error)
        code, message = _verdict(error)
        if isinstance(error, BrokenPipeError):
            # Nobody reads any more. Python would complain again when it closes standard output.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            print(f"tacit: {message}", file=sys.stderr)
        return code


def _answer(words: list[str], verbs: Sequence[Verb]) -> str | None:
    """What to show for this command line, after doing what it asks."""
    if not words:
        raise BadArguments("say what to do; see tacit --help")
    if words[0] in ("-h", "--help"):
        return _help(verbs)
    if words[0] == "--version":
        return f"tacit {__version__}"
    chosen = next((verb for verb in verbs if verb.name == words[0]), None)
    if chosen is None:
        raise BadArguments(_unknown(words[0], verbs))
    parsed = parse(chosen, words[1:])
    return None if parsed is None else _load(chosen.run)(parsed)


def parse(verb: Verb, words: Sequence[str]) -> object | None:
    """The arguments of a verb, or None where its help was asked for and shown."""
    import tyro

    kind = _load(verb.arguments)
    shown = StringIO()
    try:
        with redirect_stderr(shown):
            return tyro.cli(
                kind,
                prog=f"tacit {verb.name}",
                args=_choices_first(kind, words),
                config=(tyro.conf.CascadeSubcommandArgs, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as stop:
        if stop.code in (None, 0):
            return None
        message = _one_line(shown.getvalue()) or "cannot read the command line"
        raise BadArguments(f"{message}; see tacit {verb.name} --help") from None


def _choices_first(kind: type, words: Sequence[str]) -> list[str]:
    """The words with every `--field NAME` that chooses a nested dataclass moved up as `field:name`.

    The parser knows the options of a choice only after the choice itself.
    """
    choices = {
        name.replace("_", "-"): [_dashed(option.__name__) for option in typing.get_args(hint)]
        for name, hint in typing.get_type_hints(kind).items()
        if any(dataclasses.is_dataclass(option) for option in typing.get_args(hint))
    }
    first, rest = [], []
    pending = iter(words)
    for word in pending:
        flag, equals, value = word.partition("=")
        field = flag.removeprefix("--")
        if not flag.startswith("--") or field not in choices:
            rest.append(word)
            continue
        name = value if equals else next(pending, "")
        if _dashed(name) not in choices[field]:
            known = ", ".join(choices[field])
            raise BadArguments(f"{flag} must be one of {known}, got {name!r}")
        first.append(f"{field}:{_dashed(name)}")
    return first + rest


def _dashed(name: str) -> str:
    """The parser's spelling of a class: `SoftDual`, `soft_dual` and `soft-dual` are one."""
    name = name.replace("NoneType", "none").replace("_", "-")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def _one_line(box: str) -> str:
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


def _verdict(error: BaseException) -> tuple[int, str]:
    """The exit code for what went wrong, and the line that says it."""
    said = " ".join(str(error).split())
    match error:
        case BadArguments():
            return BAD_INPUT, said
        case Infeasible() | NotConverged():
            return NOT_SOLVED, said
        case TacitError():
            return BAD_INPUT, said
        case OSError():
            where = f": {error.filename}" if error.filename is not None else ""
            return NO_FILE, f"{error.strerror or said}{where}"
        case KeyboardInterrupt():
            return INTERRUPTED, "interrupted"
        case Terminated():
            return TERMINATED, "terminated"
    return OUR_BUG, f"a bug in tacit, {type(error).__name__}: {said} (--debug shows where)"


def _help(verbs: Sequence[Verb]) -> str:
    """The top-level help, from the table alone."""
    lines = [
        "usage: tacit [--help] [--version] [--debug] COMMAND ...",
        "",
        "Recover what a demonstrator wants and refuses in a known Markov decision process.",
        "",
    ]
    width = max((len(verb.name) for verb in verbs), default=0)
    if verbs:
        lines += ["commands (tacit COMMAND --help tells more):"]
        lines += [f"  {verb.name:<{width}}  {verb.summary}" for verb in verbs]
    else:
        lines += ["No command yet in this version: use the Python interface, `import tacit`."]
    lines += [
        "",
        "exit codes: 0 done, 1 a bug in tacit, 2 bad input, 3 infeasible or not converged,",
        "            4 cannot read or write, 130 interrupted, 143 terminated",
    ]
    return "\n".join(lines)


def _unknown(name: str, verbs: Sequence[Verb]) -> str:
    """One line about a command that does not exist, with the nearest one that does."""
    import difflib

    near = difflib.get_close_matches(name, [verb.name for verb in verbs], n=1)
    hint = f"did you mean {near[0]}?" if near else "see tacit --help"
    return f"no command {name!r}, {hint}"


def _load(address: str) -> typing.Any:
    """The object at "module:name"."""
    module, name = address.split(":")
    return getattr(import_module(module), name)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM raises `Terminated` once inside; a second one kills as usual."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: signals are somebody else's business
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
