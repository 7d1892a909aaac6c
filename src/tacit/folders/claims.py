"""A folder claimed by one writer, for a run that is gone on with and written whole or not at all.

A run makes the same searches in the same order every time. Going on means to begin again, each
search from the place that it had reached: the end is the same to the tolerance of the searches. The
checkpoint says what it depends on: one of other data is noticed, not used.
"""

from __future__ import annotations

import contextlib
import errno
import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tacit.engine.progress import SECONDS_BETWEEN_WRITES, Checkpoint, read_checkpoint
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError
from tacit.files.atomic import Page, locked
from tacit.files.bundles import settle, write_bundle
from tacit.folders.recoveries import CHECKPOINT, FILES, PAGE, read_run_page, versions
from tacit.folders.runs import Run


def identity(config: Mapping[str, object], hashes: Mapping[str, str]) -> Page:
    """All that must be the same for a run to be gone on with."""
    here = {"system": platform.system(), "machine": platform.machine()}
    parts = {"config": config, "hashes": hashes, "versions": {**versions(), **here}}
    # Through JSON, so that a tuple and a list, a path and its text compare as they are read back.
    return json.loads(json.dumps(parts, default=str))


@dataclass(frozen=True, eq=False)
class Claim:
    """A folder that this process may write a run to.

    Attributes:
        folder: where.
        checkpoint: where the fit keeps the places that its searches have reached.
        done: whether a finished run of the same kind lies there, so that nothing is left to do.
        identity: what the run depends on.
    """

    folder: Path
    checkpoint: Checkpoint
    done: bool
    identity: Page

    def finish(self, run: Run) -> None:
        """Writes the run, all or nothing, and forgets the way to it."""
        page, files = run.contents()
        write_bundle(self.folder, PAGE, {**page, "identity": self.identity}, files, known=FILES)
        self.checkpoint.path.unlink()


@contextmanager
def claimed(
    folder: str | Path,
    identity: Page,
    *,
    resume: bool = False,
    overwrite: bool = False,
    break_lock: bool = False,
    every: float = SECONDS_BETWEEN_WRITES,
) -> Iterator[Claim]:
    """A `Claim` on the folder, held inside.

    `OSError` if another process holds it, or if a run lies there that must not be lost, or other
    things; `TacitError` if it is no run of the same kind. Input that turns out to be bad inside
    leaves no run behind: there would be nothing to go on with.

    Args:
        folder: of the run; made if need be.
        identity: what the run depends on, from `identity`.
        resume: go on with a run of the same kind that was interrupted; begin if there is none.
        overwrite: begin again; an older run stays until the new one is whole.
        break_lock: take the folder from a writer on another machine that is surely gone.
        every: seconds between two writes of the checkpoint.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = Checkpoint(folder / CHECKPOINT, every=every, about=identity)
    try:
        with locked(folder, broken=break_lock):
            done = _is_done(folder, identity, resume=resume, overwrite=overwrite)
            if not done and not checkpoint.path.exists():
                checkpoint.write()
            try:
                yield Claim(folder, checkpoint, done, identity)
            except (InvalidModel, InvalidDemonstrations):
                checkpoint.path.unlink(missing_ok=True)
                raise
    except (InvalidModel, InvalidDemonstrations):
        if is_new:
            with contextlib.suppress(OSError):  # somebody else put something there meanwhile
                folder.rmdir()
        raise


def _is_done(folder: Path, identity: Page, *, resume: bool, overwrite: bool) -> bool:
    """Whether a finished run of the same kind lies in the folder; else it is ready for the run."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    if names and not names & {PAGE, CHECKPOINT}:
        raise FileExistsError(errno.EEXIST, "the folder holds other things than a run", str(folder))
    held = None
    if not overwrite:  # who begins again need not be able to read what was there
        if CHECKPOINT in names:
            held = read_checkpoint(folder / CHECKPOINT)["about"]
        elif PAGE in names:
            held = read_run_page(folder / PAGE).get("identity", {})
    if held is not None and not resume:
        what = "an unfinished run" if CHECKPOINT in names else "a run"
        cure = "--resume continues it, --overwrite begins again"
        raise FileExistsError(errno.EEXIST, f"the folder holds {what} ({cure})", str(folder))
    if held is not None and (other := difference(folder, held, identity)) is not None:
        raise TacitError(other)
    settle(folder, PAGE, (*FILES, CHECKPOINT))
    if overwrite:
        (folder / CHECKPOINT).unlink(missing_ok=True)
    return held is not None and CHECKPOINT not in names


def difference(folder: Path, held: Page, wanted: Page) -> str | None:
    """One line that says what of the run in the folder is not as asked; None if all is."""
    differences = []
    for part, word in (("hashes", "data"), ("config", "setting"), ("versions", "version")):
        old, new = held.get(part, {}), wanted.get(part, {})
        for name in {**old, **new}:
            if old.get(name) != new.get(name):
                differences.append(
                    f"{word} {name}: {_short(old.get(name))} there, {_short(new.get(name))} now"
                )
    if not differences:
        return None
    more = f" and {len(differences) - 4} more" if len(differences) > 4 else ""
    return (
        f"{folder} holds a run of another kind ({'; '.join(differences[:4])}{more}): choose "
        "another folder, or begin again with --overwrite"
    )


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 24 else f"{text[:16]}..."
