"""The commands of the lab: `tacit reproduce`, what was published; `tacit leaderboard`, who is best.

As in every module of a command, no numerics are imported at the top: help answers at once.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional, Union

import tyro

import tacit
from tacit import InvalidModel, terminal
from tacit_lab.studies import Board, StudySettings

if TYPE_CHECKING:
    from tacit_lab.studies.reproduce import EngineFit

NUMBERS = ("replacement", "maintenance", "its error", "its error", "log-likelihood")


@dataclass(frozen=True, kw_only=True)
class Reproduce(StudySettings):
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
    data: Annotated[Optional[Path], terminal.shown_default("the folder that TACIT_DATA names")] = (
        None
    )
    """rust: folder of recordings, which holds a folder rust"""
    break_lock: bool = False
    """take the folder from a writer on another machine that is surely gone"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws < 0:
            raise InvalidModel(f"draws must be at least 0; got {self.draws}")
        if self.study == "paper" and self.data is not None:
            raise InvalidModel("data is an option of rust; the study is the paper's")

    def run(self, screen: terminal.Terminal) -> terminal.Answer:
        """Runs what is not done yet, and says what was found and where it is written."""
        if self.study == "rust":
            return self._run_rust()
        from tacit_lab.studies.conclusions import findings
        from tacit_lab.studies.reproduce import load, reproduce

        settings = StudySettings(
            **{one.name: getattr(self, one.name) for one in fields(StudySettings)}
        )
        with screen.progress() as tell:
            report = reproduce(settings, callbacks=[tell], break_lock=self.break_lock)
        found = findings(load(settings))
        data = {
            "report": report,
            "results": report.with_name("results.json"),
            "findings": [terminal.headline_data(one) for one in found],
        }
        return terminal.Answer([*(f"- {one.text}" for one in found), "", f"report: {report}"], data)

    def _run_rust(self) -> terminal.Answer:
        """Rust's tables beside ours."""
        from tacit_lab.studies.reproduce import engine_fits

        fits = engine_fits(self.data, draws=self.draws)
        told = [one.finding for one in fits if one.bins == 90 and one.discount > 0]
        rows = [asdict(one) | {"ratio": one.ratio, "misprints": misprints(one)} for one in fits]
        data = {"fits": rows, "findings": [terminal.finding_data(one) for one in told]}
        self.out.mkdir(parents=True, exist_ok=True)
        content = json.dumps(terminal.to_json(data), indent=1, ensure_ascii=False) + "\n"
        tacit.runs.write_bytes(self.out / "rust.json", content.encode())
        wrong = [line for one in fits for line in misprints(one)]
        parts: list[str] = [
            *_tables(fits),
            *wrong,
            *told,
            f"written: {self.out / 'rust.json'}",
        ]
        return terminal.Answer(parts, data)


def _tables(fits: list[EngineFit]) -> list[str]:
    """One table for every table and discount of Rust's, a row printed and a row found."""
    tables = []
    for bins, discount in dict.fromkeys((one.bins, one.discount) for one in fits):
        rows: list[list[str]] = []
        for one in fits:
            if (one.bins, one.discount) != (bins, discount):
                continue
            rows.append([_groups(one), "printed", *(f"{number:g}" for number in one.printed), ""])
            error = f"{one.fisher[0]:.4g}, {one.fisher[1]:.4g}"
            rows.append(["", "found", *(f"{number:.4f}" for number in one.found), error])
        heads = ["groups", "", *NUMBERS, "Fisher errors"]
        name = "IX" if bins == 90 else "X"
        tables.append(
            terminal.table_text(heads, rows, f"table {name}: {bins} bins, discount {discount:g}")
        )
    return tables


def _groups(one: EngineFit) -> str:
    first, last = one.groups[0], one.groups[-1]
    return str(first) if first == last else f"{first}-{last}"


def misprints(one: EngineFit) -> list[str]:
    """Coefficients that differ from the printed ones by more than their last digits."""
    differences = []
    for name, printed, ours in zip(NUMBERS[:2], one.printed, one.found, strict=False):
        if abs(printed - ours) > 1e-3 * max(1.0, abs(printed)):
            differences.append(
                f"Groups {_groups(one)}, {one.bins} bins, discount {one.discount:g}: {name} is "
                f"{ours:.4f} here where {printed:g} is printed."
            )
    return differences


@dataclass(frozen=True, kw_only=True)
class Leaderboard(Board):
    """Compare published methods and tacit's on the same demonstrations, by the hidden truth.

    Every method is tried on every draw of every world and judged by regret, violation, prediction,
    and by what its objective leads to where dynamics, starts, rewards or budgets have changed.
    Writes results.json and leaderboard.html. An interrupted run continues when it is started again
    with the same folder.
    """

    worlds: Annotated[Union[None, tuple[str, ...]], terminal.shown_default("all")] = None
    """worlds by name, or FILE.py:NAME of one's own"""
    problem: Annotated[Optional[Path], terminal.shown_default("none")] = None
    """folder of a problem: compare on one's own data, a fifth of the episodes held back"""
    methods: Annotated[Union[None, tuple[str, ...]], terminal.shown_default("all")] = None
    """methods by name, or FILE.py:NAME of one's own"""
    break_lock: bool = False
    """take the folder from a writer on another machine that is surely gone"""

    def run(self, screen: terminal.Terminal) -> terminal.Answer:
        """Runs what is not done yet, and says where the page is."""
        from tacit_lab.studies.leaderboard import compare_methods

        options = asdict(self)
        broken = options.pop("break_lock")
        if (problem := options.pop("problem")) is not None:
            if self.worlds:
                raise InvalidModel("--problem is in the place of --worlds; got both")
            options["worlds"] = (str(problem),)
        with screen.progress() as tell:
            page = compare_methods(Board(**options), callbacks=[tell], break_lock=broken)
        results = page.with_name("results.json")
        return terminal.Answer(
            [f"page: {page}", f"numbers: {results}"], {"page": page, "results": results}
        )
