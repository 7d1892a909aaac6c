"""`tacit report`: a run folder in, one offline HTML page and its figures out."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Optional

from tacit.cli.terminal import Answer, Terminal, shown_default

PAGE, FIGURES = "report.html", "figures"


@dataclass(frozen=True)
class Report:
    """Write one offline HTML page about a run: what was found, and what that rests on."""

    folder: Path
    """folder of the run, as `tacit recover` writes it"""
    out: Annotated[Optional[Path], shown_default("report.html in that folder")] = None
    """file of the page; only the default writes figures as well"""

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
        document = recovery_document(run)
        page = render(document).encode()
        figures = figure_files(document) if self.out is None else {}
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


def _check_name(out: Path, *, given: bool) -> None:
    """Raises `OSError` unless a file can have this name."""
    if out.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(out))
    if given and not out.parent.is_dir():
        raise OSError(errno.ENOENT, "no such folder to write the report to", str(out.parent))
