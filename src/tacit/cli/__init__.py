"""The command `tacit`: parse, run one command, print what it hands back.

A command is a frozen dataclass, its arguments, with a method `run`. Its module imports no numerics
at the top, so that help answers at once. Parsing, help and completion are tyro's.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, make_dataclass
from types import UnionType
from typing import Annotated, ClassVar, Literal, Protocol, Union, get_args, get_origin

import tyro

# The events of this module let a refusal be one line of ours. They are not part of tyro's stable
# interface; the pin in pyproject.toml is for them.
from tyro import _errors as refusals

from tacit import __version__
from tacit.cli.check import Check
from tacit.cli.compare import Compare
from tacit.cli.demo import Demo
from tacit.cli.figures import Figures
from tacit.cli.ingest import Ingest
from tacit.cli.map import Map
from tacit.cli.offers import COMMANDS as OFFERED
from tacit.cli.offers import loaded, offered
from tacit.cli.options import option_of_others
from tacit.cli.predict import Predict
from tacit.cli.recover import Recover
from tacit.cli.report import Report
from tacit.cli.score import ScoreDemonstrations
from tacit.cli.simulate import Simulate
from tacit.cli.solve import Solve
from tacit.cli.terminal import (
    CODES,
    Answer,
    Terminal,
    Terminated,
    error_line,
    flat_fields,
    print_safely,
    to_json,
)
from tacit.cli.watch import WatchLog
from tacit.engine import keep_compiled_code
from tacit.errors import Infeasible, NotConverged, TacitError

DONE, OUR_BUG, BAD_INPUT, NOT_SOLVED, NO_FILE, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143
KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)
SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, kw_only=True)
class Printing:
    """What every command prints."""

    json: bool = False
    """print one JSON object instead of text"""
    quiet: bool = False
    """print nothing but errors"""
    debug: bool = False
    """show where an error came from"""


FLAGS = tuple(one.name for one in fields(Printing))
DESCRIPTION = """\
Recover what a demonstrator wants and refuses in a known Markov decision process.

tacit COMMAND --help describes a command, tacit --version prints the version, and
tacit --completion bash|zsh|fish prints a completion script.

exit codes: 0 done, 1 a bug in tacit, 2 bad input, 3 infeasible or not converged,
            4 cannot read, write or get memory, 130 interrupted, 143 terminated"""


class Command(Protocol):
    """The arguments of one command: a frozen dataclass.

    A field without a default is positional, every other one an option.
    """

    __dataclass_fields__: ClassVar[dict]
    __doc__: str | None

    def run(self, terminal: Terminal) -> Answer:
        """What came out, after doing what is asked."""
        ...


COMMANDS: dict[str, type[Command]] = {
    "demo": Demo,
    "ingest": Ingest,
    "simulate": Simulate,
    "check": Check,
    "solve": Solve,
    "recover": Recover,
    "score": ScoreDemonstrations,
    "predict": Predict,
    "watch": WatchLog,
    "report": Report,
    "figures": Figures,
    "map": Map,
    "compare": Compare,
}  # those of other packages are found where they are asked for


class BadArguments(Exception):
    """The command line does not parse; the message is one line."""


def every_command() -> dict[str, type[Command]]:
    """Name -> command: our own, then what installed packages offer, as the lab does."""
    return COMMANDS | {name: loaded(one) for name, one in offered(OFFERED, COMMANDS).items()}


def main(
    arguments: Sequence[str] | None = None, commands: Mapping[str, type[Command]] | None = None
) -> int:
    """The exit code: 0 done, 1 our bug, 2 bad input, 3 not solved, 4 files, 130 / 143 stopped."""
    if arguments is not None:
        return _run(list(arguments), commands)
    keep_compiled_code()  # a process of our own
    code = _run(sys.argv[1:], commands)
    if code in CODES.values():
        _end_now(code)
    return code


def _run(words: list[str], commands: Mapping[str, type[Command]] | None) -> int:
    """The exit code, after doing what is asked and printing what came out."""
    # Known before parsing: a refusal is told in the same way.
    machine, quiet = "--json" in words, "--quiet" in words
    terminal = Terminal(quiet=quiet, machine=machine)

    try:
        with terminal.signals.watched():
            if words == ["--version"]:
                print_safely(f"tacit {__version__}")
                return DONE
            command = parse(words, commands)
            answer = Answer() if command is None else command.run(terminal)
            terminal.signals.check()
            if machine and answer.data:
                failed = {"error": answer.errors[0], "code": answer.code} if answer.errors else {}
                print_safely(json.dumps(to_json({**failed, **answer.data}), ensure_ascii=False))
            terminal.tell(answer.parts)
            for line in answer.errors:
                print(error_line(line), file=sys.stderr)
        return answer.code
    except (KeyboardInterrupt, Terminated, Exception) as error:
        if "--debug" in words:
            import traceback

            traceback.print_exception(error)
        if terminal.signals.asked:  # an engine may have made another error of it
            error = (
                Terminated() if CODES[terminal.signals.asked] == TERMINATED else KeyboardInterrupt()
            )
        code, message = _verdict(error)
        if isinstance(error, BrokenPipeError):
            # Nobody reads any more. Python would complain again when it closes standard output.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return code
        if machine:
            print_safely(json.dumps({"error": message, "code": code}, ensure_ascii=False))
        print(error_line(message), file=sys.stderr)
        return code


def parse(
    words: Sequence[str], commands: Mapping[str, type[Command]] | None = None
) -> Command | None:
    """The command that the words ask for; None where help or a completion script was printed.

    Args:
        words: of the command line.
        commands: by name; by default our own, and those of other packages where none is ours.
    """
    words = list(words)
    if commands is None:
        first = next((word for word in words if not word.startswith("-")), "")
        commands = COMMANDS if first in COMMANDS else every_command()
    if words[:1] == ["--completion"]:
        if words[1:] not in [[shell] for shell in SHELLS]:
            raise BadArguments(
                f"--completion must be one of {', '.join(SHELLS)}; got {' '.join(words[1:])!r}"
            )
        words = ["--tyro-write-completion", words[1], "-"]
    name = next((word for word in words if word in commands), None)
    if name is not None and issubclass(kind := commands[name], Recover):
        commands = {**commands, name: kind.taking(words)}

    def refuse(event: refusals.ParseErrorEvent) -> None:
        program = "tacit" if name is None else f"tacit {name}"
        raise BadArguments(f"{_refusal(event, name, commands)}; see {program} --help")

    try:
        with refusals.on_parse_error(refuse):
            parsed = tyro.cli(
                _command_line(commands, name),
                prog="tacit",
                description=DESCRIPTION,
                args=words,
                config=(
                    tyro.conf.DisallowNone,
                    tyro.conf.FlagCreatePairsOff,
                    tyro.conf.OmitArgPrefixes,
                    tyro.conf.OmitSubcommandPrefixes,
                    tyro.conf.PositionalMetavarFromFieldName,
                    tyro.conf.PositionalRequiredArgs,
                ),
            )
    except SystemExit:
        sys.stdout.flush()  # or a closed pipe would be noticed too late
        return None
    return parsed.command


def _command_line(commands: Mapping[str, type[Command]], name: str | None) -> type:
    """A dataclass of the chosen command and the flags of all; only the named one is looked into."""
    choices = [
        Annotated[
            kind,
            tyro.conf.subcommand(
                word,
                # In the list of commands, the first line of what the command says of itself.
                description=None if word == name else (kind.__doc__ or "").partition("\n")[0],
            ),
        ]
        for word, kind in commands.items()
    ]
    flags = Annotated[Printing, tyro.conf.arg(name="printing"), tyro.conf.CascadeSubcommandArgs]
    rows = [("command", Union[tuple(choices)]), ("printing", flags, field(default=Printing()))]
    return make_dataclass("Tacit", rows, frozen=True)


def _refusal(
    event: refusals.ParseErrorEvent, name: str | None, commands: Mapping[str, type[Command]]
) -> str:
    """What is wrong with the command line, in words about its options."""
    options = (
        {} if name is None else {one.name: _spelling(one) for one in flat_fields(commands[name])}
    )
    known = [*commands] if name is None else [*options.values(), *(f"--{flag}" for flag in FLAGS)]
    match event:
        case refusals.MissingArgs():
            needed = (options[one.arg.field.intern_name] for one in event.missing_arguments)
            return f"{' and '.join(needed)} must be given"
        case refusals.InvalidChoice():
            option = options[event.argument.field.intern_name]
            optional = "None" in event.choices  # then they come in no order
            known = sorted({*event.choices} - {"None"}) if optional else [*event.choices]
            # First what was typed: a long list may be cut, to keep errors on one line.
            got = f"{option} got {event.value!r}{_nearest(str(event.value), known)}"
            return f"{got}; it must be one of {', '.join(known)}"
        case refusals.BadValue():
            return f"{options[event.argument.field.intern_name]} needs a value"
        case refusals.UnrecognizedArgs():
            kind = None if name is None else commands[name]
            chosen = kind.estimator if kind is not None and issubclass(kind, Recover) else None
            if chosen and (hint := option_of_others(event.tokens[0], chosen)):
                return hint
            what = "command" if name is None else "option or word"
            return f"unknown {what} {event.tokens[0]!r}{_nearest(event.tokens[0], known)}"
        case refusals.InstantiationFailure(argument=None):
            # Said by the dataclass itself, which begins with the name of a field.
            first, _, rest = event.message.partition(" ")
            return f"{options[first]} {rest}" if first in options else event.message
        case refusals.InstantiationFailure():
            place = event.argument.field  # pyright: ignore[reportOptionalMemberAccess]
            quoted = event.message.split("'")
            # Of several types the first line says what was typed, the others why each is none.
            at = 1 if "\n" in event.message else -2
            got = quoted[at] if len(quoted) > 2 else ""
            return f"{options[place.intern_name]} must be {_noun(place.type_stripped)}; got {got!r}"
    return f"a command must be named: {', '.join(commands)}"


def _spelling(option: Field[object]) -> str:
    """How a field is written on the command line."""
    return (
        option.name.upper() if option.default is MISSING else f"--{option.name.replace('_', '-')}"
    )


def _nearest(word: str, known: Sequence[str]) -> str:
    from tacit.files.wording import nearest

    near = nearest(word, known)
    return f", did you mean {near}?" if near else ""


def _noun(kind: object) -> str:
    """What a value of this type is called."""
    if get_origin(kind) is Literal:
        return ", ".join(str(one) for one in get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_noun(one) for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is tuple:
        return f"{_noun(get_args(kind)[0])} or several"
    names = {int: "a whole number", float: "a number"}
    return names.get(kind, "something else")  # pyright: ignore[reportArgumentType, reportCallIssue]


def _verdict(error: BaseException) -> tuple[int, str]:
    """The exit code for what went wrong, and the line that says it."""
    message = " ".join(str(error).split())
    match error:
        case BadArguments():
            return BAD_INPUT, message
        case Infeasible() | NotConverged():
            return NOT_SOLVED, message
        case TacitError():
            return BAD_INPUT, message
        case OSError():
            where = f": {error.filename}" if error.filename is not None else ""
            return NO_FILE, f"{error.strerror or message}{where}"
        case MemoryError():
            return NO_FILE, f"not enough memory: {message or 'none is left'}"
        case KeyboardInterrupt():
            return INTERRUPTED, "interrupted"
        case Terminated():
            return TERMINATED, "terminated"
    return OUR_BUG, f"a bug in tacit, {type(error).__name__}: {message} (--debug shows where)"


def _end_now(code: int) -> None:
    """Ends this process and its workers: engines and gigabytes take long to be taken down."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    if "multiprocessing.process" in sys.modules:
        from multiprocessing import active_children

        for child in active_children():
            if child.pid is not None:  # by number: those of loky have no `kill`
                with contextlib.suppress(OSError):
                    os.kill(child.pid, KILL)
    os._exit(code)
