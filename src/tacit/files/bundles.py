"""Files that belong together and the page that names them, with checksums: all old or all new."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from tacit.files.atomic import PART, Page, file_checksum, read_page, sync_folder, write_page

NEXT = ".next"


def write_bundle(
    folder: Path,
    page: str,
    content: Page,
    files: Mapping[str, Callable[[Path], object]],
    *,
    known: Collection[str],
) -> None:
    """Writes files and the page that names them, all or nothing.

    Args:
        folder: where; made if need be.
        page: the name of the page, a JSON file.
        content: what the page says beside the checksums of the files.
        files: name -> a function that writes the file at the path it is given.
        known: all names that a file of such a bundle may have; nothing else is ever touched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settle(folder, page, known)
    sums: dict[str, str] = {}
    before = _named(folder / page)
    try:
        for name, write in files.items():
            write(_beside(folder / name))
            sums[name] = file_checksum(_beside(folder / name))
        write_page(folder / page, {**content, "files": sums})
    finally:
        # After a failure the page on the disk, whichever it is, says which files are right.
        settle(folder, page, known)
    for name in {*known} & before.keys() - sums.keys():
        (folder / name).unlink(missing_ok=True)


def settle(folder: Path, page: str, known: Collection[str]) -> None:
    """Finishes what a writer left: names the files that the page means, removes what it does not.

    Args:
        folder: of the bundle.
        page: the name of its page.
        known: all names that a file of such a bundle may have.
    """
    meant = _named(folder / page)
    for name in known:
        beside = _beside(folder / name)
        if not beside.exists():
            continue
        if meant.get(name) == file_checksum(beside):
            os.replace(beside, folder / name)
        else:
            beside.unlink()
    for name in {page, *known}:
        for pattern in (f".{name}.*{PART}", f"..{name}{NEXT}.*{PART}"):
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)
    sync_folder(folder)


def member(folder: Path, page: Page, name: str) -> Path:
    """Where the file that the page means lies; `OSError` if it is not there, or has changed."""
    beside, total = _beside(folder / name), page["files"].get(name)
    if total is None:
        raise OSError(f"{folder} has no {name}")
    with contextlib.suppress(FileNotFoundError):
        if file_checksum(beside) == total:
            return beside
    path = folder / name
    if file_checksum(path) != total:
        raise OSError(f"{path} is damaged or of another run: it has changed since saving")
    return path


def _named(page: Path) -> dict[str, str]:
    """Name -> checksum of the files that the page means; none if it cannot be read."""
    try:
        return dict(read_page(page).get("files", {}))
    except OSError:
        return {}


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}{NEXT}")
