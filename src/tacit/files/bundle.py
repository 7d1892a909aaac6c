"""Several files that belong together: a reader finds all the old ones or all the new ones.

The files are written beside the old ones, then the page that holds their checksums is replaced, in
one step, and only then do the new files take their names. Whoever comes between finds a page whose
files lie beside: they are read from there, and the next writer finishes the renaming.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tacit.files.atomic import PART, sync_folder, write_bytes

NEXT = ".next"
BLANK = "0" * 64


def write_bundle(
    folder: Path, page: str, content: Mapping[str, Any], files: Mapping[str, Callable[[Path], Any]]
) -> None:
    """Writes files and the page that names them, all or nothing.

    Args:
        folder: where; made if need be.
        page: the name of the page, a JSON file.
        content: what the page says beside the checksums of the files.
        files: name -> a function that writes the file at the path it is given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settle(folder, page, files)
    sums: dict[str, str] = {}
    before = _named(folder / page)
    try:
        for name, write in files.items():
            write(_beside(folder / name))
            sums[name] = hashlib.sha256(_beside(folder / name).read_bytes()).hexdigest()
        write_page(folder / page, {**content, "files": sums})
    finally:
        # After a failure the page on the disk, whichever it is, says which files are right.
        settle(folder, page, files)
    for name in before.keys() - sums.keys():
        (folder / name).unlink(missing_ok=True)


def settle(folder: Path, page: str, names: Iterable[str] = ()) -> None:
    """Finishes what a writer left: names the files that the page means, removes what it does not.

    Args:
        folder: of the bundle.
        page: the name of its page.
        names: of files that a writer may have left, beside those of the page.
    """
    meant = _named(folder / page)
    for name in {*meant, *names}:
        beside = _beside(folder / name)
        if not beside.exists():
            continue
        if meant.get(name) == hashlib.sha256(beside.read_bytes()).hexdigest():
            os.replace(beside, folder / name)
        else:
            beside.unlink()
    for name in {page, *meant, *names}:
        for pattern in (f".{name}.*{PART}", f"..{name}{NEXT}.*{PART}"):
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)
    sync_folder(folder)


def member(folder: Path, page: Mapping[str, Any], name: str) -> Path:
    """Where the file that the page means lies, damaged or not; `OSError` if it is not there."""
    beside = _beside(folder / name)
    with contextlib.suppress(FileNotFoundError):
        if hashlib.sha256(beside.read_bytes()).hexdigest() == page["files"].get(name):
            return beside
    if name not in page["files"]:
        raise OSError(f"{folder} has no {name}")
    return folder / name


def verify(path: Path, page: Mapping[str, Any], name: str) -> None:
    """`OSError` unless the file holds what it held when the page was written."""
    if hashlib.sha256(path.read_bytes()).hexdigest() != page["files"][name]:
        raise OSError(f"{path} is damaged or of another run: it has changed since saving")


def write_page(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON file that holds the checksum of its own text."""
    page = {**content, "checksum": BLANK}
    text = json.dumps(page, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    total = hashlib.sha256(text.encode()).hexdigest()
    at = text.rindex(BLANK)
    write_bytes(path, (text[:at] + total + text[at + len(BLANK) :]).encode())


def read_page(path: Path, *, form: int | None = None) -> dict[str, Any]:
    """The content of a page; `OSError` if it is none, of another `form`, or has changed."""
    raw = path.read_bytes()
    try:
        page = json.loads(raw.decode("utf-8"))
    except ValueError as error:
        raise OSError(f"{path} is no page of a run: {error}") from None
    if not isinstance(page, dict) or (form is not None and page.get("format") != form):
        raise OSError(f"{path} is no page of a run in format {form}")
    total = page.pop("checksum", None)
    if not isinstance(total, str) or len(total) != len(BLANK) or raw.count(total.encode()) != 1:
        raise OSError(f"{path} is damaged: it has lost its checksum")
    blank = raw.replace(total.encode(), BLANK.encode())
    if hashlib.sha256(blank).hexdigest() != total:
        raise OSError(f"{path} is damaged: it has changed since it was written")
    return page


def _named(page: Path) -> dict[str, str]:
    """Name -> checksum of the files that a page means; none if it cannot be read."""
    with contextlib.suppress(OSError):
        return read_page(page).get("files", {})
    return {}


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}{NEXT}")
