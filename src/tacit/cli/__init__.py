"""The command `tacit`: parse, call one function, write one folder.

A verb is a frozen dataclass, its arguments, and a function that takes them. Both are named here and
imported only when the verb is called; the dataclass lives in a module that imports no numerics at
the top, so that its help answers at once too. The defaults in the help are those of the dataclass.
"""

import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

from tacit import __version__
from tacit.cli.answer import Answer, jsonable, quietly
from tacit.cli.parsing import BadArguments, option_names, parse
from tacit.engine.compiled import keep_compiled_code
from tacit.errors import Infeasible, NotConverged, TacitError

DONE, OUR_BUG, BAD_INPUT, NOT_SOLVED, NO_FILE, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143


@dataclasses.dataclass(frozen=True)
class Verb:
    """One subcommand.

    Attributes:
        name: how it is called.
        summary: one line for `tacit --help`.
        arguments: "module:Class", the frozen dataclass that holds its arguments.
        run: "module:function", takes that dataclass and returns an `Answer`, or the text to show.
    """

    name: str
    summary: str
    arguments: str
    run: str


VERBS: tuple[Verb, ...] = (
    Verb(
        "simulate",
        "a built-in world and an expert seen in it become a problem folder",
        "tacit.cli.simulate_arguments:Simulate",
        "tacit.cli.simulate:command",
    ),
    Verb(
        "check",
        "what is wrong with a problem folder, where, and how to mend it",
        "tacit.cli.check_arguments:Check",
        "tacit.cli.check:command",
    ),
    Verb(
        "solve",
        "best policy and prices of a problem whose truth is known",
        "tacit.cli.solve_arguments:Solve",
        "tacit.cli.solve:command",
    ),
    Verb(
        "recover",
        "what the demonstrator of a problem wants and refuses, as a run folder",
        "tacit.cli.recover_arguments:Recover",
        "tacit.cli.recover:command",
    ),
    Verb(
        "report",
        "one offline HTML page about a run: what was found, and what it rests on",
        "tacit.cli.report_arguments:Report",
        "tacit.cli.report:command",
    ),
    Verb(
        "compare",
        "two runs side by side, or a run against the truth of a problem",
        "tacit.cli.compare_arguments:Compare",
        "tacit.cli.compare:command",
    ),
    Verb(
        "reproduce",
        "the paper's experiment over many draws, measured against the truth",
        "tacit.studies.settings:Reproduce",
        "tacit.studies.reproduce:command",
    ),
)


class Terminated(BaseException):
    """SIGTERM came. Unwinds like an interrupt, so that half-written files are cleaned up."""


def main(arguments: Sequence[str] | None = None, verbs: Sequence[Verb] = VERBS) -> int:
    """The exit code: 0 done, 1 our bug, 2 bad input, 3 not solved, 4 files, 130 / 143 stopped."""
    if arguments is None:  # a process of our own
        keep_compiled_code()
    with _streams():
        return _done(list(sys.argv[1:] if arguments is None else arguments), verbs)


def _done(given: list[str], verbs: Sequence[Verb]) -> int:
    """The exit code, after doing what is asked and saying what came out."""
    words = [word for word in given if word not in ("--debug", "--json", "--quiet")]
    machine = "--json" in given
    quiet = "--quiet" in given
    try:
        with _terminable(), quietly(quiet):
            answer = _answer(words, verbs)
            if machine and answer.data:
                _print(json.dumps(jsonable(answer.data), ensure_ascii=False))
            elif not quiet:
                _show(answer.text)
            for line in answer.errors:
                print(f"tacit: {line}", file=sys.stderr)
        return answer.code
    except (KeyboardInterrupt, Terminated, Exception) as error:
        if "--debug" in given:
            import traceback

            traceback.print_exception(error)
        code, message = _verdict(error)
        if isinstance(error, BrokenPipeError):
            # Nobody reads any more. Python would complain again when it closes standard output.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return code
        if machine:
            _print(json.dumps({"error": message, "code": code}, ensure_ascii=False))
        print(f"tacit: {message}", file=sys.stderr)
        return code


def _answer(words: list[str], verbs: Sequence[Verb]) -> Answer:
    """What to show for this command line, after doing what it asks."""
    if not words:
        raise BadArguments("say what to do; see tacit --help")
    if words[0] in ("-h", "--help"):
        return Answer(_help(verbs), {verb.name: verb.summary for verb in verbs})
    if words[0] == "--version":
        return Answer(f"tacit {__version__}", {"version": __version__})
    if words[0] == "--completion":
        return _completion(words[1:], verbs)
    chosen = next((verb for verb in verbs if verb.name == words[0]), None)
    if chosen is None:
        raise BadArguments(_unknown(words[0], verbs))
    parsed = parse(_load(chosen.arguments), words[1:], program=f"tacit {chosen.name}")
    if parsed is None:
        return Answer()
    found = _load(chosen.run)(parsed)
    return found if isinstance(found, Answer) else Answer(found, {"text": found})


def _completion(words: Sequence[str], verbs: Sequence[Verb]) -> Answer:
    """The completion script of the shell that is named."""
    from tacit.cli.completion import SHELLS, script

    shell = words[0] if words else ""
    if shell not in SHELLS:
        raise BadArguments(f"--completion must be one of {', '.join(SHELLS)}; got {shell!r}")
    text = script(shell, {verb.name: option_names(_load(verb.arguments)) for verb in verbs})
    return Answer(text, {"shell": shell, "script": text})


def _show(text: Any) -> None:
    """Prints text, tables and rich renderables: drawn on a terminal, plain anywhere else."""
    parts = text if isinstance(text, list | tuple) else [text]
    for part in parts:
        if part is None:
            continue
        if isinstance(part, str) or not (sys.stdout.isatty() or _only_rich(part)):
            _print(str(part))
            continue
        from rich.console import Console

        console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 100)
        console.print(part)


def _only_rich(part: Any) -> bool:
    """Whether rich alone knows how to show it: it has no text of its own."""
    return type(part).__str__ is object.__str__ or type(part).__module__.startswith("rich.")


def _print(text: str) -> None:
    """Prints what the encoding of standard output can say, and escapes the rest."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


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
        "usage: tacit [--help] [--version] COMMAND ... [--json] [--quiet] [--debug]",
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
        "with any command: --json prints one JSON object, --quiet prints nothing, --debug shows",
        "where an error came from; tacit --completion bash|zsh|tcsh prints a completion script",
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


def _load(address: str) -> Any:
    """The object at "module:name"."""
    module, name = address.split(":")
    return getattr(import_module(module), name)


@contextmanager
def _streams() -> Iterator[None]:
    """Inside, there are streams to write to: a closed one (`>&-`, some services) swallows all."""
    before = sys.stdout, sys.stderr
    if None not in before:
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout, sys.stderr = (nowhere if stream is None else stream for stream in before)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


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
