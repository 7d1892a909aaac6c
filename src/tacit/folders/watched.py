"""The run folder of a watch: the recovery up to date, and where the log was left, as one bundle.

Both are of the same batch, whatever happens while they are written: no step is lost or counted
twice.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tacit.data.tally import Tally
from tacit.errors import TacitError
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import BadFile, Page
from tacit.files.bundles import member, settle, write_bundle
from tacit.files.trees import pack, sound, unpack
from tacit.folders.claims import difference
from tacit.folders.recoveries import BOOKMARK, FILES, PAGE, load, read_run_page
from tacit.folders.runs import Run
from tacit.inference.origin import FullPass, Predictions
from tacit.recovery import Recovery
from tacit.stream.following import Position
from tacit.stream.watch import State


@dataclass(frozen=True, eq=False, kw_only=True)
class Bookmark:
    """Where a watch was left.

    Attributes:
        position: in the log.
        state: of the watch.
        tally: of all steps that the recovery is of.
        last_pass: over whole trajectories.
        predictions: of the steps of the log.
        told: whether the command for an alarm was run.
    """

    position: Position
    state: State
    tally: Tally
    last_pass: FullPass | None = None
    predictions: Predictions | None = None
    told: bool = False


def save(folder: Path, run: Run, bookmark: Bookmark, identity: Mapping[str, object]) -> None:
    """Writes the folder, all or nothing: run and bookmark are of the same batch."""
    page, files = run.contents()
    arrays = pack(bookmark)
    files[BOOKMARK] = lambda path: write_arrays(path, arrays)
    write_bundle(folder, PAGE, {**page, "identity": dict(identity)}, files, known=FILES)


def read(folder: Path, identity: Page) -> tuple[Recovery, Bookmark] | None:
    """What was left in the folder; None where nothing was.

    `TacitError` where it is of another problem or other settings, or no run of a watch.
    """
    settle(folder, PAGE, FILES)
    names = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    if PAGE not in names:
        if names:
            said = "the folder holds other things than a run"
            raise FileExistsError(errno.EEXIST, said, str(folder))
        return None
    page = read_run_page(folder / PAGE)
    if BOOKMARK not in page["files"]:
        raise TacitError(f"{folder} holds a run, but not of a watch: choose another folder")
    held = {**page.get("identity", {}), "versions": {}}
    if (other := difference(folder, held, {**identity, "versions": {}})) is not None:
        raise TacitError(other.replace(", or begin again with --overwrite", ""))
    path = member(folder, page, BOOKMARK)
    with sound(path, "where a watch was left"):
        bookmark = unpack(read_arrays(path))
        if not isinstance(bookmark, Bookmark):
            raise BadFile(f"it holds a {type(bookmark).__name__}")
    return load(folder, "Recovery"), bookmark
