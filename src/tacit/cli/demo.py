"""Worked examples: `tacit demo`, a log to a report; `tacit reproduce`, what was published."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional, Union

import tyro

from tacit.cli.terminal import (
    Answer,
    Cell,
    Part,
    Table,
    Terminal,
    finding_data,
    headline_data,
    shown_default,
)
from tacit.errors import InvalidModel
from tacit.studies import Board, Settings

if TYPE_CHECKING:
    from tacit.folders.runs import Run
    from tacit.studies.reproduce import EngineFit

# What comes with tacit: the files of a problem, and what its program was told to want.
EXAMPLE = ("problem.toml", "features.csv", "transitions.csv", "demonstrations.csv")
STORY = (
    "A mouse lives in nine rooms and runs from its nest to the larder, 100 times. Nobody asked it "
    "what it wants. What it did is a table: episode, step, state, action."
)
MEANS = (
    "   features.csv says what each room holds (food, heat, noise), problem.toml which of it may\n"
    "   be wanted and which refused, transitions.csv where moves lead (left out, it is counted)."
)
TRUTH = (
    "The program that made this mouse gave it 1 for food, took 1 for heat, and nothing for noise: "
    "the price of heat was 1, which its interval should hold."
)
OWN = (
    "Now your own data. A table of positions or states, with or without times:",
    "  tacit ingest LOG.csv --episode ID --time TIME --every 1h --x X --y Y --cell 500 --out mine",
    "A table of episode, step, state and action needs no ingest: put it into a folder as",
    "demonstrations.csv, beside features.csv and problem.toml as those in {problem}. Then:",
    "  tacit check mine",
    "  tacit recover mine --out mine-run",
    "  tacit report mine-run",
)


@dataclass(frozen=True)
class Demo:
    """Go from a log to a report in seconds, with an example that comes along: no file is needed.

    A mouse in nine rooms: its log becomes a problem folder, a run and a page to read. Each step
    says what it does, and what to type for your own data.
    """

    out: Path = Path("tacit-demo")
    """folder to make; it must not exist yet, or be empty"""

    def run(self, terminal: Terminal) -> Answer:
        """Writes the problem, recovers, writes the report, and says what to do next."""
        from tacit.cli.problem import Check
        from tacit.cli.recover import Recover
        from tacit.files.atomic import refuse_taken, write_folder
        from tacit.folders.runs import Run

        begin = time.monotonic()
        refuse_taken(self.out)
        problem, folder = self.out / "mouse", self.out / "run"
        terminal.note(f"1 of 3: writing the log of a mouse into {problem}")
        write_folder(problem, write_example)
        checked = Check(problem).run(Terminal(quiet=True))
        terminal.note("2 of 3: recovering what it wants and refuses (the first time compiles code)")
        Recover(problem=problem, out=folder).run(Terminal(quiet=True))
        run, page = Run.load(folder), folder / "report.html"
        terminal.note(f"3 of 3: the report is {page}")
        took = time.monotonic() - begin
        words = [shlex.quote(str(path)) for path in (problem, folder)]
        parts: list[Part] = [
            f"1. The log. {STORY}",
            _head(problem / "demonstrations.csv"),
            MEANS,
            f"   To check such a folder: tacit check {words[0]}\n",
            f"2. What it wants and refuses, as `tacit recover {words[0]} --out {words[1]}` found:",
            Table(["what", "how much", "95 % interval"], _numbers(run)),
            f"   {TRUTH}\n",
            f"3. The page to read, which needs no network: {page}",
            f"   tacit report {words[1]} writes it again; tacit recover --help lists more.\n",
            *(line.format(problem=problem) for line in OWN),
            f"\n({took:.0f} s)",
        ]
        data = {
            "problem": problem,
            "run": folder,
            "report": page,
            "seconds": took,
            "numbers": [list(row) for row in _numbers(run)],
            "check": checked.data["summary"],
        }
        return Answer(parts, data)


def write_example(folder: Path) -> None:
    """Writes the files of the example that comes with tacit."""
    from importlib.resources import files

    from tacit.files.atomic import write_bytes

    for name in EXAMPLE:
        write_bytes(folder / name, files("tacit.worlds").joinpath("mouse", name).read_bytes())


def _head(path: Path, rows: int = 4) -> str:
    """The first lines of a table, indented."""
    with open(path, encoding="utf-8") as file:
        lines = [next(file).rstrip() for _ in range(rows)]
    return "\n".join(f"     {line}" for line in [*lines, "..."])


def _numbers(run: Run) -> list[tuple[str, str, str]]:
    """(what, how much, interval) of the weights and the price."""
    from tacit.many import numbers_of

    told = {"reward": "wants", "cost": "refuses", "price": "price of one unit of that"}
    rows = []
    for key, one in numbers_of(run.recovery).items():
        kind, _, name = key.partition(": ")
        if (said := told.get(kind.partition(" ")[0])) is not None:
            ends = f"[{one.low:.3g}, {one.high:.3g}]"
            rows.append((f"{said} {name}".strip(), f"{one.value:.3g}", ends))
    return rows


NUMBERS = ("replacement", "maintenance", "its error", "its error", "log-likelihood")


@dataclass(frozen=True, kw_only=True)
class Reproduce(Settings):
    """Reproduce published results: the paper's experiment over many draws, or Rust's bus engines.

    paper: draws grids as section 5 of the paper does, simulates an optimal expert in each, recovers
    what it wants and refuses with every estimator, and writes results.json, figures and
    report.html. An interrupted run continues when it is started again with the same folder.

    rust: tables IX and X of Rust (1987), as printed and as found from his data, with both kinds of
    standard errors and what their difference means; writes rust.json.
    """

    study: Annotated[Literal["paper", "rust"], tyro.conf.Positional] = "paper"
    """what to reproduce: paper or rust"""
    draws: int = 40
    """rust: data sets drawn from each fit to judge its standard errors; 0 for none"""
    data: Annotated[Optional[Path], shown_default("the folder that TACIT_DATA names")] = None
    """rust: folder of recordings, which holds a folder rust"""
    break_lock: bool = False
    """take the folder from a writer on another machine that is surely gone"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws < 0:
            raise InvalidModel(f"draws must be at least 0; got {self.draws}")
        if self.study == "paper" and self.data is not None:
            raise InvalidModel("data is an option of rust; the study is the paper's")

    def run(self, terminal: Terminal) -> Answer:
        """Runs what is not done yet, and says what was found and where it is written."""
        if self.study == "rust":
            return self._run_rust()
        from tacit.studies.conclusions import findings
        from tacit.studies.reproduce import load, reproduce

        settings = Settings(**{one.name: getattr(self, one.name) for one in fields(Settings)})
        with terminal.progress() as tell:
            report = reproduce(settings, callbacks=[tell], break_lock=self.break_lock)
        found = findings(load(settings))
        data = {
            "report": report,
            "results": report.with_name("results.json"),
            "findings": [headline_data(one) for one in found],
        }
        return Answer([*(f"- {one.text}" for one in found), "", f"report: {report}"], data)

    def _run_rust(self) -> Answer:
        """Rust's tables beside ours."""
        import json

        from tacit.cli.terminal import to_json
        from tacit.files.atomic import write_bytes
        from tacit.studies.reproduce import engine_fits

        fits = engine_fits(self.data, draws=self.draws)
        told = [one.finding for one in fits if one.bins == 90 and one.discount > 0]
        rows = [asdict(one) | {"ratio": one.ratio, "misprints": misprints(one)} for one in fits]
        data = {"fits": rows, "findings": [finding_data(one) for one in told]}
        self.out.mkdir(parents=True, exist_ok=True)
        content = json.dumps(to_json(data), indent=1, ensure_ascii=False) + "\n"
        write_bytes(self.out / "rust.json", content.encode())
        wrong = [line for one in fits for line in misprints(one)]
        parts: list[Part] = [*_tables(fits), *wrong, *told, f"written: {self.out / 'rust.json'}"]
        return Answer(parts, data)


def _tables(fits: list[EngineFit]) -> list[Table]:
    """One table for every table and discount of Rust's, a row printed and a row found."""
    tables = []
    for bins, discount in dict.fromkeys((one.bins, one.discount) for one in fits):
        rows: list[list[Cell]] = []
        for one in fits:
            if (one.bins, one.discount) != (bins, discount):
                continue
            rows.append([_groups(one), "printed", *(f"{number:g}" for number in one.printed), ""])
            error = f"{one.fisher[0]:.4g}, {one.fisher[1]:.4g}"
            rows.append(["", "found", *(f"{number:.4f}" for number in one.found), error])
        heads = ["groups", "", *NUMBERS, "Fisher errors"]
        name = "IX" if bins == 90 else "X"
        tables.append(Table(heads, rows, f"table {name}: {bins} bins, discount {discount:g}"))
    return tables


def _groups(one: EngineFit) -> str:
    first, last = one.groups[0], one.groups[-1]
    return str(first) if first == last else f"{first}-{last}"


def misprints(one: EngineFit) -> list[str]:
    """Coefficients that differ from the printed ones by more than their last digits."""
    found = []
    for name, printed, ours in zip(NUMBERS[:2], one.printed, one.found, strict=False):
        if abs(printed - ours) > 1e-3 * max(1.0, abs(printed)):
            found.append(
                f"Groups {_groups(one)}, {one.bins} bins, discount {one.discount:g}: {name} is "
                f"{ours:.4f} here where {printed:g} is printed."
            )
    return found


@dataclass(frozen=True, kw_only=True)
class Leaderboard(Board):
    """Compare published methods and tacit's on the same demonstrations, by the hidden truth.

    Every method is tried on every draw of every world and judged by regret, violation, prediction,
    and by what its objective leads to where dynamics, starts, rewards or budgets have changed.
    Writes results.json and leaderboard.html. An interrupted run continues when it is started again
    with the same folder.
    """

    worlds: Annotated[Union[None, tuple[str, ...]], shown_default("all")] = None
    """worlds by name, or FILE.py:NAME of one's own"""
    methods: Annotated[Union[None, tuple[str, ...]], shown_default("all")] = None
    """methods by name, or FILE.py:NAME of one's own"""
    break_lock: bool = False
    """take the folder from a writer on another machine that is surely gone"""

    def run(self, terminal: Terminal) -> Answer:
        """Runs what is not done yet, and says where the page is."""
        from tacit.studies.leaderboard import compare_methods

        options = asdict(self)
        broken = options.pop("break_lock")
        with terminal.progress() as tell:
            page = compare_methods(Board(**options), callbacks=[tell], break_lock=broken)
        results = page.with_name("results.json")
        return Answer([f"page: {page}", f"numbers: {results}"], {"page": page, "results": results})
