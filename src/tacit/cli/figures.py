"""`tacit figures`: the figures of a run, for papers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, Optional

from tacit.cli.report import FIGURES
from tacit.cli.terminal import Answer, Terminal, shown_default
from tacit.errors import InvalidModel

UNITS = {"mm": 25.4, "cm": 2.54, "in": 1.0}  # of an inch
SMALLEST, LARGEST = 80 / 25.4, 400 / 25.4  # inches of a figure: names need room beside bars
NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


@dataclass(frozen=True)
class Figures:
    """Write the figures of a run for a paper: weights, prices, maps, residuals."""

    folder: Path
    """folder of the run, as `tacit recover` writes it"""
    out: Annotated[Optional[Path], shown_default("figures in that folder")] = None
    """folder to write them to"""
    format: Literal["pdf", "png", "svg"] = "pdf"
    """kind of file"""
    width: str = "89mm"
    """width of a figure in mm, cm or in; text keeps its size in points"""
    raw_units: bool = field(default=False, kw_only=True)
    """weights and prices of the features as given, and not of standardised ones"""

    def __post_init__(self) -> None:
        if not SMALLEST <= self.inches <= LARGEST:
            raise InvalidModel(f"width must be from 80mm to 400mm; got {self.width!r}")

    @property
    def inches(self) -> float:
        """The width in inches."""
        number, unit = self.width.strip()[:-2], self.width.strip()[-2:]
        try:
            return float(number) / UNITS[unit]
        except (KeyError, ValueError):
            raise InvalidModel(
                f"width must be a number and mm, cm or in, such as 89mm; got {self.width!r}"
            ) from None

    def run(self, terminal: Terminal) -> Answer:
        """Writes one file a figure, each whole or not at all, and says where."""
        import io
        import warnings

        from tacit.files.atomic import write_bytes
        from tacit.folders.runs import Run
        from tacit.inverse.standardised import shown
        from tacit.show.canvas import MISSING, styled
        from tacit.show.plot import every_figure

        out = self.folder / FIGURES if self.out is None else self.out
        run = Run.load(self.folder, several=True)
        run = replace(run, recovery=shown(run.recovery, raw_units=self.raw_units))
        figures = every_figure(run)
        out.mkdir(parents=True, exist_ok=True)
        written, boxes = [], []
        for name, figure in figures.items():
            width, height = figure.get_size_inches()
            figure.set_size_inches(self.inches, height * self.inches / width)
            file = io.BytesIO()
            with styled(), warnings.catch_warnings(record=True) as told:
                warnings.filterwarnings("always", MISSING)
                figure.savefig(file, format=self.format, dpi=300, metadata=NO_DATE[self.format])
            written.append(out / f"{name}.{self.format}")
            write_bytes(written[-1], file.getvalue())
            boxes += [str(written[-1])] if told and self.format != "svg" else []
        data = {"figures": [str(path) for path in written], "boxes": boxes}
        parts = [f"{len(written)} figures in {out}", *map(str, written)]
        if boxes:
            parts.append(
                f"The font lacks letters of some names: they are boxes in {len(boxes)} figures. "
                "--format svg keeps text as text, for the reader's own font."
            )
        return Answer(parts, data)
