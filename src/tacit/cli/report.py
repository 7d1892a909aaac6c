"""`tacit report`: a run folder in, one offline HTML page and its figures out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tacit.cli.answer import Answer
from tacit.cli.report_arguments import Report

PAGE, FIGURES = "report.html", "figures"


def command(arguments: Report) -> Answer:
    """Writes the page of a run, and where it was written."""
    from tacit.files.atomic import write_bytes
    from tacit.folders.runs import Run
    from tacit.show.document import figure_files
    from tacit.show.recovery.page import recovery_document
    from tacit.show.report import render

    out = arguments.run / PAGE if arguments.out is None else arguments.out
    _check(out, made=arguments.out is None)
    document = recovery_document(Run.load(arguments.run))
    page = render(document).encode()
    figures = figure_files(document) if arguments.out is None else {}
    if figures:
        (arguments.run / FIGURES).mkdir(exist_ok=True)
    for name, image in figures.items():
        write_bytes(arguments.run / FIGURES / name, image)
    write_bytes(out, page)  # last: a page says that its figures are there
    saved = f", {len(figures)} figures in {arguments.run / FIGURES}" if figures else ""
    data = {
        "report": str(out),
        "bytes": len(page),
        "figures": [str(arguments.run / FIGURES / name) for name in figures],
        "findings": [
            {"label": f.label, "text": f.text.replace("**", ""), "verdict": f.verdict}
            for f in document.headlines
        ],
    }
    return Answer(f"{out} ({len(page) / 1000:.0f} kB){saved}", data)


def _check(out: Path, *, made: bool) -> None:
    """Raises `OSError` unless a file can have this name."""
    if out.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(out))
    if not made and not out.parent.is_dir():
        raise OSError(errno.ENOENT, "no such folder to write the report to", str(out.parent))
