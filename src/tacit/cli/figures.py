"""`tacit figures`: the figures of a run, for papers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, Optional

from tacit.cli.terminal import Answer, Terminal, shown_default
from tacit.errors import InvalidModel

INCH = 25.4  # mm
SMALLEST, LARGEST = 80, 400  # mm of a figure: names need room beside bars
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
    width: float = 89.0
    """width of a figure in mm; text keeps its size in points"""
    raw_units: bool = field(default=False, kw_only=True)
    """weights and prices of the features as given, and not of standardised ones"""

    def __post_init__(self) -> None:
        if not SMALLEST <= self.width <= LARGEST:
            raise InvalidModel(f"width must be from {SMALLEST} to {LARGEST} mm; got {self.width}")

    def run(self, terminal: Terminal) -> Answer:
        """Writes one file a figure, each whole or not at all, and says where."""
        import io
        import warnings

        from tacit.files.atomic import write_bytes
        from tacit.folders.runs import Run
        from tacit.inference.standardised import shown
        from tacit.show.canvas import MISSING, styled
        from tacit.show.plot import every_figure

        out = self.folder / "figures" if self.out is None else self.out
        run = Run.load(self.folder, several=True)
        run = replace(run, recovery=shown(run.recovery, raw_units=self.raw_units))
        written, boxes = [], []
        out.mkdir(parents=True, exist_ok=True)
        for name, figure in every_figure(run).items():
            width, height = figure.get_size_inches()
            figure.set_size_inches(self.width / INCH, height / width * self.width / INCH)
            file, path = io.BytesIO(), str(out / f"{name}.{self.format}")
            with styled(), warnings.catch_warnings(record=True) as complaints:
                warnings.filterwarnings("always", MISSING)
                figure.savefig(file, format=self.format, dpi=300, metadata=NO_DATE[self.format])
            write_bytes(Path(path), file.getvalue())
            written.append(path)
            boxes += [path] if complaints and self.format != "svg" else []
        parts = [f"{len(written)} figures in {out}", *written]
        if boxes:
            parts.append(
                f"The font lacks letters of some names: they are boxes in {len(boxes)} figures. "
                "--format svg keeps text as text, for the reader's own font."
            )
        return Answer(parts, {"figures": written, "boxes": boxes})
