"""`tacit report`: a run as one page to read."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from tacit.cli.terminal import Answer, Terminal, headline_data, shown_default

if TYPE_CHECKING:
    from tacit.folders.runs import Run

PAGE = "report.html"


@dataclass(frozen=True)
class Report:
    """Write one offline HTML page about a run: what was found, and what that rests on."""

    folder: Path
    """folder of the run, as `tacit recover` writes it"""
    out: Annotated[Optional[Path], shown_default("report.html in that folder")] = None
    """file of the page"""
    private: bool = False
    """leave out states, episodes, groups and paths, so that the page can be shared"""
    raw_units: bool = field(default=False, kw_only=True)
    """weights and prices of the features as given, and not of standardised ones"""

    def run(self, terminal: Terminal) -> Answer:
        """Writes the page of a run, and says where."""
        from tacit.folders.runs import Run

        page = self.folder / PAGE if self.out is None else self.out
        if page.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(page))
        if self.out is not None and not page.parent.is_dir():
            folder = str(page.parent)
            raise OSError(errno.ENOENT, "no such folder to write the report to", folder)
        check_one(self.folder)
        run = Run.load(self.folder, several=True)
        options = {"private": self.private, "raw_units": self.raw_units}
        return write_report(run, self.folder, out=self.out, **options)


def check_one(folder: Path) -> None:
    """Raises `InvalidModel`, with their names, where a folder holds runs and is none itself."""
    from tacit.cli.compare import runs_in
    from tacit.errors import InvalidModel
    from tacit.files.wording import some
    from tacit.folders.recoveries import PAGE as RUN

    if not folder.is_dir() or (folder / RUN).exists():
        return
    inside = [path for path in runs_in(folder) if path != folder]
    if inside:
        names = some([path.name for path in inside])
        raise InvalidModel(
            f"{folder} holds several runs, {names}: name one, tacit report {inside[0]}; tacit "
            f"compare {folder} puts all of them on one page"
        )


def write_report(
    run: Run,
    folder: Path,
    *,
    out: Path | None = None,
    private: bool = False,
    raw_units: bool = False,
) -> Answer:
    """Writes the page of a run."""
    from tacit.files.atomic import write_bytes
    from tacit.show.html import render
    from tacit.show.page import recovery_document

    document = recovery_document(run, private=private, raw_units=raw_units)
    page = render(document).encode()
    place = folder / PAGE if out is None else out
    write_bytes(place, page)
    data = {
        "report": str(place),
        "bytes": len(page),
        "findings": [headline_data(one) for one in document.headlines],
    }
    return Answer([f"{place} ({len(page) / 1000:.0f} kB)"], data)
