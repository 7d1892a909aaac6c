"""`tacit report` and `tacit figures`: an offline page of a run, and its figures for papers."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

from tacit.cli.terminal import Answer, Terminal, shown_default
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tacit.folders.runs import Run

PAGE, FIGURES = "report.html", "figures"
SMALLEST, LARGEST = 80 / 25.4, 400 / 25.4  # inches of a figure: names need room beside bars
NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


@dataclass(frozen=True)
class Report:
    """Write one offline HTML page about a run: what was found, and what that rests on."""

    folder: Path
    """folder of the run, as `tacit recover` writes it"""
    out: Annotated[Optional[Path], shown_default("report.html in that folder")] = None
    """file of the page; only the default writes figures as well"""
    private: bool = False
    """leave out states, episodes, groups and paths, so that the page can be shared"""

    def run(self, terminal: Terminal) -> Answer:
        """Writes the page of a run, and says where."""
        from tacit.files.atomic import check_folder, write_bytes
        from tacit.folders.runs import Run
        from tacit.show.document import figure_files
        from tacit.show.recovery.page import recovery_document
        from tacit.show.report import render

        out = self.folder / PAGE if self.out is None else self.out
        _check_name(out, given=self.out is not None)
        run = Run.load(self.folder)
        document = recovery_document(run, private=self.private)
        page = render(document).encode()
        figures = figure_files(document) if self.out is None and not self.private else {}
        check_folder(self.folder / FIGURES)
        if figures:
            (self.folder / FIGURES).mkdir(exist_ok=True)
        for name, image in figures.items():
            write_bytes(self.folder / FIGURES / name, image)
        write_bytes(out, page)  # last: a page says that its figures are there
        saved = f", {len(figures)} figures in {self.folder / FIGURES}" if figures else ""
        data = {
            "report": str(out),
            "bytes": len(page),
            "figures": [str(self.folder / FIGURES / name) for name in figures],
            "findings": [
                {"label": f.label, "text": f.text.replace("**", ""), "verdict": f.verdict}
                for f in document.headlines
            ],
        }
        return Answer([f"{out} ({len(page) / 1000:.0f} kB){saved}"], data)


@dataclass(frozen=True)
class Figures:
    """Write the figures of a run for a paper: weights, prices, maps, residuals, price curves."""

    folder: Path
    """folder of the run, as `tacit recover` writes it"""
    out: Annotated[Optional[Path], shown_default("figures in that folder")] = None
    """folder to write them to"""
    format: Literal["pdf", "png", "svg"] = "pdf"
    """kind of file"""
    width: str = "89mm"
    """width of a figure in mm, cm or in; text keeps its size in points"""

    def __post_init__(self) -> None:
        if not SMALLEST <= self.inches <= LARGEST:
            raise InvalidModel(f"width must be from 80mm to 400mm; got {self.width!r}")

    @property
    def inches(self) -> float:
        """The width in inches."""
        units = {"mm": 25.4, "cm": 2.54, "in": 1.0}
        number, unit = self.width.strip()[:-2], self.width.strip()[-2:]
        try:
            return float(number) / units[unit]
        except (KeyError, ValueError):
            raise InvalidModel(
                f"width must be a number and mm, cm or in, such as 89mm; got {self.width!r}"
            ) from None

    def run(self, terminal: Terminal) -> Answer:
        """Writes one file a figure, each whole or not at all, and says where."""
        import io

        from tacit.files.atomic import write_bytes
        from tacit.folders.runs import Run
        from tacit.show.canvas import styled

        out = self.folder / FIGURES if self.out is None else self.out
        figures = _all_figures(Run.load(self.folder))
        out.mkdir(parents=True, exist_ok=True)
        written = []
        for name, figure in figures.items():
            width, height = figure.get_size_inches()
            figure.set_size_inches(self.inches, height * self.inches / width)
            file = io.BytesIO()
            with styled():
                figure.savefig(file, format=self.format, dpi=300, metadata=NO_DATE[self.format])
            written.append(out / f"{name}.{self.format}")
            write_bytes(written[-1], file.getvalue())
        data = {"figures": [str(path) for path in written]}
        return Answer([f"{len(written)} figures in {out}", *map(str, written)], data)


def _all_figures(run: Run) -> dict[str, Figure]:
    """Name -> figure, every picture that the run has numbers for."""
    import numpy as np

    from tacit.show import plot
    from tacit.show.canvas import figure_of
    from tacit.show.recovery.checks import curve_of, sweeps_of

    recovery, layout = run.recovery, run.layout
    known = [bool(np.isfinite(weights).all()) for weights in recovery.cost_weights]
    drawn: dict[str, Axes] = {}
    if any(known) or np.isfinite(recovery.reward_weights).all():
        drawn["weights"] = plot.weights(recovery)
    if known:
        drawn["prices"] = plot.prices(recovery)
    drawn["reward"] = plot.map(recovery, layout=layout)
    for k in np.flatnonzero(known).tolist():
        drawn[f"cost-{k}"] = plot.map(recovery, k, layout=layout)
    drawn["policy"] = plot.policy(recovery, layout=layout)
    drawn["visits"] = plot.map(recovery, "visits", layout=layout)
    if layout.is_grid and layout.directions:
        drawn["flows"] = plot.flows(recovery, layout=layout)
    if np.isfinite(recovery.goodness.residuals).any():
        drawn["residuals"] = plot.residuals(recovery, layout=layout)
    for k, sweep in sweeps_of(run.extras).items():
        drawn[f"price-{k}"] = plot.price_curve(curve_of(sweep))
    return {name: figure_of(axes) for name, axes in drawn.items()}


def _check_name(out: Path, *, given: bool) -> None:
    """Raises `OSError` unless a file can have this name."""
    if out.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(out))
    if given and not out.parent.is_dir():
        raise OSError(errno.ENOENT, "no such folder to write the report to", str(out.parent))
