"""A worked example: `tacit demo`, a log to a report."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.cli.terminal import Answer, Terminal, table_text

if TYPE_CHECKING:
    from tacit.folders.runs import Run

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
        from tacit.cli.check import Check
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
        parts: list[str] = [
            f"1. The log. {STORY}",
            _head(problem / "demonstrations.csv"),
            MEANS,
            f"   To check such a folder: tacit check {words[0]}\n",
            f"2. What it wants and refuses, as `tacit recover {words[0]} --out {words[1]}` found:",
            table_text(["what", "how much", "95 % interval"], _numbers(run)),
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
    from tacit.show.quantities import NamedRecovery

    named = NamedRecovery(run.recovery.standardised, run.layout)
    rows = {f"wants {name}": one for name, one in named.weights["reward"].items()}
    rows |= {f"refuses {name}": one for name, one in named.weights["cost"].items()}
    [rows["price of one unit of that"]] = named.price_rows.values()
    return [(n, f"{x.value:.3g}", f"[{x.low:.3g}, {x.high:.3g}]") for n, x in rows.items()]
