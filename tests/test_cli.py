"""The command line: what it prints, what it returns, how fast it helps, how it is stopped."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, make_dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tacit
from tacit import cli
from tacit.cli.answer import Answer, is_quiet, jsonable
from tacit.cli.parsing import dashed
from tacit.cli.tables import Table
from tacit.errors import Infeasible, InvalidDemonstrations, InvalidModel, NotConverged, TacitError


@dataclass(frozen=True)
class Careful:
    """Slow and sure."""

    steps: int = 10


@dataclass(frozen=True)
class QuickGuess:
    """Fast and loose."""

    width: float = 0.5


@dataclass(frozen=True)
class Arguments:
    """Do the thing."""

    amount: int
    """how much of it"""
    estimator: Careful | QuickGuess | None = field(default_factory=Careful)
    out: Path = Path("run")
    """where to write"""
    loud: bool = False


@pytest.fixture
def verb(monkeypatch):
    """A function of `act` -> the verbs table with one verb `thing` which does `act`."""
    module = ModuleType("thing")
    monkeypatch.setitem(sys.modules, "thing", module)

    def make(act):
        module.Arguments = Arguments
        module.run = act
        return (cli.Verb("thing", "does the thing", "thing:Arguments", "thing:run"),)

    return make


def raising(error):
    def act(arguments):
        raise error

    return act


def test_top_level_help_lists_every_command_and_the_exit_codes(capsys, verb):
    assert cli.main(["--help"], verb(repr)) == 0
    shown = capsys.readouterr().out
    assert "thing  does the thing" in shown
    assert "exit codes: 0 done" in shown


def test_top_level_help_without_commands_says_so(capsys):
    assert cli.main(["--help"], ()) == 0
    assert "No command yet" in capsys.readouterr().out


def test_version_is_the_package_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"tacit {tacit.__version__}\n"


def test_help_of_a_verb_shows_its_fields_and_defaults(capsys, verb):
    assert cli.main(["thing", "--help"], verb(raising(AssertionError("help must not run it")))) == 0
    shown = capsys.readouterr().out
    for piece in ("tacit thing", "INT", "how much of it", "--out", "run", "estimator:careful"):
        assert piece in shown


def test_a_verb_gets_its_arguments_and_its_text_is_shown(capsys, verb):
    assert cli.main(["thing", "3", "--loud"], verb(repr)) == 0
    assert capsys.readouterr().out == repr(Arguments(3, loud=True)) + "\n"


def test_json_prints_one_object_without_nan(capsys, verb):
    data = {"weights": np.array([0.5, np.nan]), "bound": np.inf, "out": Path("run"), "ok": True}
    act = lambda arguments: Answer("for people", data, code=3)  # noqa: E731
    assert cli.main(["thing", "3", "--json"], verb(act)) == 3
    shown = capsys.readouterr().out
    assert json.loads(shown) == {"weights": [0.5, None], "bound": None, "out": "run", "ok": True}
    assert shown.count("\n") == 1


def test_json_tells_an_error_to_machines_and_to_people(capsys, verb):
    assert cli.main(["--json", "thing", "3"], verb(raising(InvalidModel("it is wrong")))) == 2
    out, shown = capsys.readouterr()
    assert json.loads(out) == {"error": "it is wrong", "code": 2}
    assert shown == "tacit: it is wrong\n"


def test_quiet_prints_nothing_and_tells_the_verb(capsys, verb):
    told = []

    def act(arguments):
        told.append(is_quiet())
        return Answer("for people", {"a": 1})

    assert cli.main(["thing", "3", "--quiet"], verb(act)) == 0
    assert cli.main(["thing", "3"], verb(act)) == 0
    assert told == [True, False]
    assert capsys.readouterr().out == "for people\n"


def test_tables_are_plain_text_where_there_is_no_terminal(capsys, verb, monkeypatch):
    table = Table(["name", "weight"], [["a [b]", 0.5], ["long name", 12]], "what it wants")
    from rich.panel import Panel

    assert cli.main(["thing", "3"], verb(lambda _: Answer(["first", table, None]))) == 0
    plain = "first\nwhat it wants\n  name       weight\n  a [b]         0.5\n  long name      12\n"
    assert capsys.readouterr().out == plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.main(["thing", "3"], verb(lambda _: Answer([table, Panel("inside")]))) == 0
    drawn = capsys.readouterr().out
    assert "a [b]" in drawn  # not taken for markup
    assert "─" in drawn
    assert not re.search(r"\x1b\[[349]\d", drawn)  # bold is no colour


def test_what_the_encoding_cannot_say_is_escaped(verb, monkeypatch):
    stream = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.main(["thing", "3"], verb(lambda _: Answer("Küche"))) == 0
    assert stream.buffer.getvalue() == b"K\\xfcche\n"


def test_jsonable_keeps_what_json_knows():
    assert jsonable({1: (True, None, "a", 2)}) == {"1": [True, None, "a", 2]}


def complete(words: list[str]) -> list[str]:
    """What bash offers for the last word."""
    script = subprocess.run(
        [sys.executable, "-m", "tacit", "--completion", "bash"], capture_output=True, check=True
    ).stdout.decode()
    line = " ".join(f"'{word}'" for word in ["tacit", *words])
    code = (
        f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _tacit; echo "${{COMPREPLY[@]}}"'
    )
    return subprocess.run(
        ["bash", "-c", code], capture_output=True, check=True, text=True
    ).stdout.split()


def test_bash_completes_verbs_and_their_options():
    assert complete(["repr"]) == ["reproduce"]
    assert complete(["reproduce", "--traj"]) == ["--trajectories"]
    assert complete(["reproduce", "--out", ""]) == []  # the shell's own file names
    assert complete(["--completion", "z"]) == ["zsh"]


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "tcsh"])
def test_every_shell_gets_a_script_that_names_every_verb(shell_name, capsys):
    assert cli.main(["--completion", shell_name]) == 0
    script = capsys.readouterr().out
    for verb in cli.VERBS:
        assert verb.name in script
    assert "trajectories" in script


def test_an_unknown_shell_is_refused(capsys):
    assert cli.main(["--completion", "fish"]) == 2
    assert "bash, zsh, tcsh; got 'fish'" in capsys.readouterr().err


def test_a_verb_that_returns_nothing_shows_nothing(capsys, verb):
    assert cli.main(["thing", "3"], verb(lambda arguments: None)) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "words",
    [
        "3 --estimator quick-guess --out there --estimator.width 2",
        "3 --estimator QuickGuess --estimator.width 2 --out there",
        "--estimator.width 2 3 --out there --estimator=quick_guess",
        "estimator:quick-guess 3 --out there --estimator.width 2",
        "3 --out there estimator:quick-guess --estimator.width 2",
    ],
)
def test_a_nested_choice_may_stand_anywhere(words, capsys, verb):
    assert cli.main(["thing", *words.split()], verb(repr)) == 0
    expected = Arguments(3, estimator=QuickGuess(2.0), out=Path("there"))
    assert capsys.readouterr().out == repr(expected) + "\n"


def test_none_is_a_choice_where_the_field_allows_it(capsys, verb):
    assert cli.main(["thing", "--estimator", "none", "3"], verb(repr)) == 0
    assert capsys.readouterr().out == repr(Arguments(3, estimator=None)) + "\n"


@pytest.mark.parametrize(
    "name", ["MDP", "OccupancyLP", "SoftDual", "HTTPThing", "Convex", "soft_dual", "ICRL2D"]
)
def test_choices_are_spelt_as_the_parser_spells_them(name):
    import tyro

    kind = make_dataclass(name, [("x", int, 0)], frozen=True)
    outer = make_dataclass("Outer", [("inner", kind | Careful, Careful())], frozen=True)
    parsed = tyro.cli(outer, args=[f"inner:{dashed(name)}"])
    assert type(parsed.inner).__name__ == name


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        ("", "say what to do"),
        ("thin", "did you mean thing?"),
        ("elephant", "no command 'elephant'"),
        ("--unknown", "no command '--unknown'"),
        ("thing", "it needs AMOUNT"),
        ("thing three", "must be a whole number; got 'three'"),
        ("thing 3 --out", "--out needs a value"),
        ("thing 3 4", "unknown option or word '4'"),
        ("thing 3 --lod", "did you mean --loud?"),
        ("thing 3 --estimator careful --estimator.steps x", "--estimator.steps must be a whole"),
        ("thing 3 --colour red", "--colour"),
        ("thing 3 --estimator nonsense", "careful, quick-guess, none, got 'nonsense'"),
        ("thing 3 --estimator", "got ''"),
        ("thing 3 estimator:nonsense", "estimator:nonsense"),
    ],
)
@pytest.mark.parametrize("columns", ["30", "200"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_parse_errors_are_one_line_and_exit_2(
    words, piece, columns, encoding, capsys, verb, monkeypatch
):
    # The parser wraps its message to the terminal, and draws a box where the encoding has one.
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(BytesIO(), encoding=encoding))
    assert cli.main(words.split(), verb(repr)) == 2
    out, shown = capsys.readouterr()
    assert sys.stdout.buffer.getvalue() == b""
    assert out == ""
    assert shown.count("\n") == 1
    assert shown.endswith("\n")
    assert shown.startswith("tacit: ")
    assert piece in shown
    assert not set(shown) & set("│─╭╰")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidModel("the model\nis wrong"), 2),
        (InvalidDemonstrations("the demonstrations are wrong"), 2),
        (TacitError("something is wrong"), 2),
        (Infeasible("no policy meets the budgets", solution=None), 3),
        (NotConverged("stopped early", result=None), 3),
        (FileNotFoundError(2, "No such file or directory", "problem/mdp.npz"), 4),
        (PermissionError(13, "Permission denied", "run"), 4),
        (OSError("the disk is gone"), 4),
        (KeyboardInterrupt(), 130),
        (cli.Terminated(), 143),
        (ZeroDivisionError("division by zero"), 1),
        (ValueError("not one of ours"), 1),
        (MemoryError(), 1),
    ],
)
def test_every_failure_has_its_exit_code_and_one_line(error, code, capsys, verb):
    assert cli.main(["thing", "3"], verb(raising(error))) == code
    out, shown = capsys.readouterr()
    assert out == ""
    assert shown.startswith("tacit: ")
    assert shown.count("\n") == 1


def test_a_failure_names_its_file(capsys, verb):
    cli.main(["thing", "3"], verb(raising(FileNotFoundError(2, "No such file", "a.npz"))))
    assert capsys.readouterr().err == "tacit: No such file: a.npz\n"


@pytest.mark.parametrize("words", ["--debug thing 3", "thing 3 --debug"])
def test_debug_shows_the_traceback_and_keeps_the_code(words, capsys, verb):
    assert cli.main(words.split(), verb(raising(ZeroDivisionError("here")))) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "test_cli.py" in shown


def test_an_error_in_the_arguments_themselves_is_bad_input(capsys, verb, monkeypatch):
    @dataclass(frozen=True)
    class Positive:
        amount: int

        def __post_init__(self):
            if self.amount <= 0:
                raise InvalidModel(f"amount must be positive, got {self.amount}")

    verbs = verb(repr)
    monkeypatch.setattr(sys.modules["thing"], "Arguments", Positive)
    assert cli.main(["thing", "-3"], verbs) == 2
    shown = capsys.readouterr().err
    assert "AMOUNT must be positive, got -3" in shown
    assert shown.count("\n") == 1


def test_the_table_of_verbs_points_at_real_things():
    names = [verb.name for verb in cli.VERBS]
    assert len(set(names)) == len(names)
    for verb in cli.VERBS:
        assert cli._load(verb.arguments).__dataclass_params__.frozen
        assert callable(cli._load(verb.run))


# --- in a process of its own ---------------------------------------------------------------------


def shell(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


HELPS = [["--help"], *([verb.name, "--help"] for verb in cli.VERBS)]


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_help_costs_little_more_than_its_parser(words):
    # The promise is 0.3 s on a quiet machine; what holds on any is the ratio to what must be paid:
    # the parser, and what it checks the types of defaults with.
    ours, floor = [], []
    for _ in range(3):
        start = time.perf_counter()
        assert shell("-m", "tacit", *words).returncode == 0
        middle = time.perf_counter()
        assert shell("-c", "import tyro, typeguard").returncode == 0
        ours.append(middle - start)
        floor.append(time.perf_counter() - middle)
    # Importing an engine (NumPy at least) would cost more than the parser itself.
    assert min(ours) < 2.0 * min(floor)


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_help_loads_no_engine(words):
    heavy = ("jax", "numba", "highspy", "polars", "matplotlib", "scipy", "numpy")
    code = (
        "import sys; from tacit import cli; "
        f"cli.main({words!r}); print([n for n in {heavy!r} if n in sys.modules], file=sys.stderr)"
    )
    assert shell("-c", code).stderr == "[]\n"


def test_the_console_command_is_the_module():
    command = Path(sys.executable).parent / "tacit"
    shown = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert (
        shown.stdout == shell("-m", "tacit", "--version").stdout == f"tacit {tacit.__version__}\n"
    )


SLEEPER = """
import sys, time, types
from dataclasses import dataclass
from tacit import cli

@dataclass(frozen=True)
class Arguments:
    folder: str

def run(arguments):
    try:
        open(arguments.folder + "/half-written", "w").close()
        print("ready", flush=True)
        time.sleep(60)
    finally:
        import os
        os.remove(arguments.folder + "/half-written")

module = types.ModuleType("sleeper")
module.Arguments, module.run = Arguments, run
sys.modules["sleeper"] = module
verb = cli.Verb("sleep", "sleeps", "sleeper:Arguments", "sleeper:run")
sys.exit(cli.main(["sleep", sys.argv[1]], (verb,)))
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["interrupt", "terminate"],
)
def test_a_signal_unwinds_and_leaves_its_code(number, code, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, shown = process.communicate(timeout=10)
    assert process.returncode == code
    assert shown.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_a_closed_pipe_is_quiet():
    # Buffered, as in a terminal: then Python itself tries once more to write when it ends.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "tacit", "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=buffered,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 4
    assert done.stderr == ""


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_stream_that_was_closed_is_no_bug(monkeypatch, closed):
    monkeypatch.setattr(sys, closed, None)
    assert cli.main(["--help"]) == 0
    assert cli.main(["check"]) == 2
    assert getattr(sys, closed) is None


def test_reproduce_is_a_command_and_its_help_names_every_option(capsys):
    assert cli.main(["--help"]) == 0
    assert "reproduce" in capsys.readouterr().out
    assert cli.main(["reproduce", "--help"]) == 0
    shown = capsys.readouterr().out
    options = "seeds trajectories steps discount size hill budget jobs out"
    for option in options.split():
        assert f"--{option}" in shown


def test_the_help_of_reproduce_loads_no_engine():
    code = (
        "import sys; from tacit import cli; cli.main(['reproduce', '--help']); "
        "sys.stderr.write(str([n for n in ('jax', 'numpy', 'matplotlib') if n in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--seeds 0", "tacit: --seeds must be at least 1; got 0"),
        ("--budget tight", "tacit: --budget must be both, binding or a number; got 'tight'"),
        ("--hill steep", "--hill must be one of absolute, as-written; got 'steep'"),
        ("--discount 1", "tacit: --discount must be in (0, 1)"),
    ],
)
def test_reproduce_refuses_bad_settings_with_one_line(words, said, capsys, tmp_path):
    out = tmp_path / "run"
    assert cli.main(["reproduce", *words.split(), "--out", str(out)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not out.exists()


def test_reproduce_refuses_a_folder_of_another_run_with_code_2(capsys, tmp_path):
    (tmp_path / "settings.json").write_text('{"seeds": 7}\n')
    assert cli.main(["reproduce", "--seeds", "1", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "seeds 7 there, 1 asked" in told
    assert told.count("\n") == 1


def test_reproduce_says_where_it_cannot_write(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert cli.main(["reproduce", "--out", str(tmp_path / "file" / "run")]) == 4
    assert "file" in capsys.readouterr().err
