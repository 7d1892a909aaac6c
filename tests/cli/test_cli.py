"""The command line: what it prints, what it returns, what helping loads, how it is stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit import cli
from tacit.cli.terminal import Answer, Terminal, table_text, to_json
from tacit.engine.progress import Event
from tacit.errors import Infeasible, InvalidDemonstrations, InvalidModel, NotConverged, TacitError


@dataclass(frozen=True)
class Thing:
    """Do the thing.

    At length.
    """

    amount: int
    """how much of it"""
    speed: float = 0.5
    """how fast"""
    out: Path = Path("run")
    """where to write"""
    loud: bool = False


@dataclass(frozen=True)
class Other:
    """Do something else."""


@pytest.fixture
def verb():
    """A function of `act` -> the commands `thing`, which does `act`, and `other`."""

    def make(act):
        return {"thing": type("Acting", (Thing,), {"__doc__": Thing.__doc__, "run": act})} | {
            "other": Other
        }

    return make


def told(arguments, terminal):
    return Answer([repr(tuple(vars(arguments).values()))])


def raising(error):
    def act(arguments, terminal):
        raise error

    return act


def test_top_level_help_lists_every_command_and_the_exit_codes(capsys, verb):
    assert cli.main(["--help"], verb(told)) == 0
    shown = capsys.readouterr().out
    for piece in ("thing", "Do the thing.", "Do something else.", "exit codes: 0 done", "--json"):
        assert piece in shown
    assert "At length." not in shown


def test_version_is_the_package_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"tacit {tacit.__version__}\n"


def test_help_of_a_command_shows_its_fields_and_defaults(capsys, verb):
    assert cli.main(["thing", "--help"], verb(raising(AssertionError("help must not run it")))) == 0
    shown = capsys.readouterr().out
    for piece in (
        "tacit thing",
        "AMOUNT",
        "how much of it",
        "--out",
        "(default: run)",
        "At length",
    ):
        assert piece in shown


@pytest.mark.parametrize("name", cli.every_command())
def test_help_shows_real_defaults(name, capsys):
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "None" not in shown
    assert "(default: )" not in shown


def test_a_command_gets_its_arguments_and_its_text_is_shown(capsys, verb):
    assert cli.main(["thing", "3", "--loud"], verb(told)) == 0
    assert capsys.readouterr().out == repr((3, 0.5, Path("run"), True)) + "\n"


def test_json_prints_one_object_without_nan(capsys, verb):
    data = {"weights": np.array([0.5, np.nan]), "bound": np.inf, "out": Path("run"), "ok": True}
    act = lambda *_: Answer(["for people"], data, code=3)  # noqa: E731
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

    def act(arguments, terminal):
        told.append(terminal.quiet)
        return Answer(["for people"], {"a": 1})

    assert cli.main(["thing", "3", "--quiet"], verb(act)) == 0
    assert cli.main(["thing", "3"], verb(act)) == 0
    assert told == [True, False]
    assert capsys.readouterr().out == "for people\n"


def test_tables_are_plain_text(capsys, verb):
    table = table_text(["name", "weight"], [["a [b]", 0.5], ["long name", 12]], "what it wants")
    assert cli.main(["thing", "3"], verb(lambda *_: Answer(["first", table]))) == 0
    plain = "first\nwhat it wants\n  name       weight\n  a [b]         0.5\n  long name      12\n"
    assert capsys.readouterr().out == plain


def test_what_the_encoding_cannot_say_is_escaped(verb, monkeypatch):
    stream = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.main(["thing", "3"], verb(lambda *_: Answer(["Küche"]))) == 0
    assert stream.buffer.getvalue() == b"K\\xfcche\n"


def test_to_json_keeps_what_json_knows():
    assert to_json({1: (True, None, "a", 2)}) == {"1": [True, None, "a", 2]}


def complete(words: list[str]) -> list[str]:
    """What bash offers for the last word."""
    script = subprocess.run(
        [sys.executable, "-m", "tacit", "--completion", "bash"], capture_output=True, check=True
    ).stdout.decode()
    line = " ".join(f"'{word}'" for word in ["tacit", *words])
    code = (
        f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; "
        '_tyro_tacit; echo "${COMPREPLY[@]}"'
    )
    return subprocess.run(
        ["bash", "-c", code], capture_output=True, check=True, text=True
    ).stdout.split()


def test_bash_completes_commands_their_options_and_choices():
    assert complete(["repr"]) == ["reproduce"]
    assert complete(["reproduce", "--traj"]) == ["--trajectories"]
    assert complete(["--js"]) == ["--json"]
    assert complete(["recover", "there", "--estimator", "expl"]) == ["explanation"]


@pytest.mark.parametrize("shell_name", cli.SHELLS)
def test_every_shell_gets_a_script_that_names_every_command(shell_name, capsys):
    assert cli.main(["--completion", shell_name]) == 0
    script = capsys.readouterr().out
    for name in (*cli.every_command(), "trajectories"):
        assert name in script


def test_an_unknown_shell_is_refused(capsys):
    assert cli.main(["--completion", "elvish"]) == 2
    assert "bash, zsh, fish; got 'elvish'" in capsys.readouterr().err


def test_a_command_that_says_nothing_shows_nothing(capsys, verb):
    assert cli.main(["thing", "3"], verb(lambda *_: Answer())) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        ("", "a command must be named: thing, other"),
        ("thin", "unknown command 'thin', did you mean thing?"),
        ("elephant", "unknown command 'elephant'"),
        ("--unknown", "unknown command '--unknown'"),
        ("thing", "AMOUNT must be given"),
        ("thing three", "AMOUNT must be a whole number; got 'three'"),
        ("thing 3 --speed fast", "--speed must be a number; got 'fast'"),
        ("thing 3 --out", "--out needs a value"),
        ("thing 3 4", "unknown option or word '4'"),
        ("thing 3 --lod", "did you mean --loud?"),
        ("thing 3 --jason", "did you mean --json?"),
        ("thing 3 --colour red", "--colour"),
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
    assert cli.main(words.split(), verb(told)) == 2
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
        (FileNotFoundError(2, "No such file or directory", "problem/problem.npz"), 4),
        (PermissionError(13, "Permission denied", "run"), 4),
        (OSError("the disk is gone"), 4),
        (KeyboardInterrupt(), 130),
        (cli.Terminated(), 143),
        (ZeroDivisionError("division by zero"), 1),
        (ValueError("not one of ours"), 1),
        (MemoryError(), 4),
        (MemoryError("Unable to allocate 613. MiB"), 4),
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


def test_an_error_in_the_arguments_themselves_is_bad_input(capsys):
    @dataclass(frozen=True)
    class Positive:
        """Must be positive."""

        amount: int

        def __post_init__(self):
            if self.amount <= 0:
                raise InvalidModel(f"amount must be positive, got {self.amount}")

    assert cli.main(["thing", "-3"], {"thing": Positive, "other": Other}) == 2
    shown = capsys.readouterr().err
    assert "AMOUNT must be positive, got -3" in shown
    assert shown.count("\n") == 1


def test_every_command_is_a_frozen_dataclass_that_runs():
    for kind in cli.every_command().values():
        assert kind.__dataclass_params__.frozen
        assert callable(kind.run)


def test_progress_is_told_in_lines_where_it_takes_long(capsys, monkeypatch):
    clock = iter(range(0, 1000, 5))  # every look at it is five seconds later
    monkeypatch.setattr("tacit.cli.terminal.time.monotonic", lambda: next(clock))
    with Terminal().progress() as tell:
        tell(Event("units", 10, {"of": 20}))
        tell(Event("units", 12, {"of": 20, "mean_loss": 0.25}))
        tell(Event("fit 1", 3, {"loss": 0.5}))
    assert capsys.readouterr().err.splitlines() == [
        "units: 10 of 20",
        "units: 12 of 20, mean loss 0.25",
        "fit 1: step 3, loss 0.5",
    ]
    with Terminal(quiet=True).progress() as tell:
        tell(Event("fit 1", 1))
    assert capsys.readouterr().err == ""


def test_progress_of_what_is_quick_is_not_told(capsys, monkeypatch):
    monkeypatch.setattr("tacit.cli.terminal.time.monotonic", lambda: 0.0)  # no time goes by
    with Terminal().progress() as tell:
        for step in range(100):
            tell(Event("fit 1", step))
    assert capsys.readouterr().err == ""


def test_progress_lines_become_rare(capsys, monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr("tacit.cli.terminal.time.monotonic", lambda: next(clock))
    with Terminal().progress() as tell:
        for step in range(5000):
            tell(Event("fit 1", step))
    # Every two seconds at first, and later after a tenth more of the time gone by.
    assert 50 < capsys.readouterr().err.count("\n") < 100


def test_progress_on_a_terminal_is_one_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with Terminal().progress() as tell:
        for step in range(5):
            tell(Event("units", step, {"of": 5}))
        tell(Event("fit 1", 1))
    assert "fit 1: step 1" in capsys.readouterr().err


# --- in a process of its own ---------------------------------------------------------------------


def shell(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


HELPS = [["--help"], *([name, "--help"] for name in cli.every_command())]


def test_help_loads_no_engine():
    heavy = ("jax", "numba", "highspy", "polars", "matplotlib", "scipy", "numpy", "typeguard")
    code = (
        "import sys; from tacit import cli\n"
        f"for words in {HELPS!r}:\n"
        f"    cli.main(words); print(*[n for n in {heavy!r} if n in sys.modules], file=sys.stderr)"
    )
    assert shell("-c", code).stderr == "\n" * len(HELPS)


def test_the_console_command_is_the_module():
    command = Path(sys.executable).parent / "tacit"
    shown = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert (
        shown.stdout == shell("-m", "tacit", "--version").stdout == f"tacit {tacit.__version__}\n"
    )


# Seconds after which a process is taken to hang: no bound on what it should take.
HANGS = 300

SLEEPER = """
import itertools, os, sys, time
from dataclasses import dataclass
from pathlib import Path
from tacit import cli
from tacit.engine.progress import Event
from tacit.files.atomic import write_bytes

@dataclass(frozen=True)
class Sleep:
    folder: Path
    way: str

    def run(self, terminal):
        def write(descriptor, content, real=os.write):
            if content != b"half":
                return real(descriptor, content)
            print("ready", flush=True)
            with terminal.progress() as tell:
                for step in itertools.count():  # for ever
                    time.sleep(0.05)
                    if "event" in self.way:
                        tell(Event("sleep", step))
        try:
            os.write = write
            write_bytes(self.folder / "half-written", b"half")
        finally:
            while "slowly" in self.way:
                (self.folder / "slowly").touch()
                time.sleep(1.0)
            (self.folder / "unwound").touch()

sys.exit(cli.main(sys.argv[1:], {"sleep": Sleep, "wake": Sleep}))
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["interrupt", "terminate"],
)
@pytest.mark.parametrize("way", ["event", "silent", "slowly"])
def test_a_signal_ends_it_and_leaves_its_code(number, code, way, tmp_path):
    """With and without events it unwinds; one who asks twice does not wait for that, either."""
    words = ["sleep", str(tmp_path), way, "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    if way == "slowly":
        while not (tmp_path / "slowly").exists():  # two that come at once may arrive as one
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    out, shown = process.communicate(timeout=HANGS)
    assert process.returncode == code
    word = "interrupted" if code == 130 else "terminated"
    assert shown == f"tacit: {word}\n"
    assert json.loads(out) == {"error": word, "code": code}
    assert os.listdir(tmp_path) == (["slowly"] if way == "slowly" else ["unwound"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_is_loaded_ends_it_too(number):
    script = f"""
import builtins, os, time
from tacit import __main__ as it
def load(*words, **more):
    os.kill(os.getpid(), {int(number)})
    time.sleep(30.0)
builtins.__import__ = load
it.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert (done.returncode, done.stderr) == (128 + number, f"tacit: {word}\n".encode())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_python_is_taken_down_changes_nothing(number):
    """All is written by then; the process would die of it without a word."""
    script = f"""
import os, sys
from tacit import __main__ as it
class Late:
    def __del__(self, pid=os.getpid(), kill=os.kill):
        kill(pid, {int(number)})
        print("late")
sys.modules["tacit"].late = Late()
sys.argv = ["tacit", "--version"]
sys.exit(it.main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"late\n")


SWALLOWER = """
import gc, itertools, sys, time
from dataclasses import dataclass
from tacit import cli
from tacit.engine.progress import Event

@dataclass(frozen=True)
class Swallow:
    seconds: float

    def run(self, terminal):
        # Where Python calls back from C, as engines let it, an exception is told and dropped.
        gc.callbacks.append(lambda phase, details: time.sleep(0.02))
        print("ready", flush=True)
        with terminal.progress() as tell:
            for step in itertools.count():
                gc.collect()
                tell(Event("swallow", step))
        return cli.Answer()

sys.exit(cli.main(sys.argv[1:], {"swallow": Swallow, "wake": Swallow}))
"""


def test_a_signal_inside_a_callback_of_an_engine_is_not_lost():
    for wait in (0.0, 0.013, 0.031):
        process = subprocess.Popen(
            [sys.executable, "-c", SWALLOWER, "swallow", "1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1 + wait)
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=HANGS)
        assert (process.returncode, shown) == (130, "tacit: interrupted\n")


def test_handlers_of_the_process_come_back(verb):
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    assert cli.main(["thing", "3"], verb(told)) == 0
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
    asked = lambda *_: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731 - with nothing after it
    assert cli.main(["thing", "3"], verb(asked)) == 143
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


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


def test_reproduce_is_a_command_and_its_help_names_every_option(capsys):
    assert cli.main(["--help"]) == 0
    assert "reproduce" in capsys.readouterr().out
    assert cli.main(["reproduce", "--help"]) == 0
    shown = capsys.readouterr().out
    options = "seeds trajectories steps discount size hill budget jobs out"
    for option in options.split():
        assert f"--{option}" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--seeds 0", "tacit: --seeds must be at least 1; got 0"),
        ("--budget tight", "tacit: --budget must be both, binding or a number; got 'tight'"),
        ("--hill steep", "--hill got 'steep'; it must be one of absolute, as-written"),
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
