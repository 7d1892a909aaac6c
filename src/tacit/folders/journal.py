"""The stages of a run on disk: each finished one, and the last state of the one under way.

A run makes the same stages in the same order every time. Going on means to begin again and to read
back what is known, so the end is the same to the last bit. Each stage is kept with a checksum of
everything it depends on: a journal of other data is noticed, not used.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.engine.progress import Event
from tacit.errors import TacitError
from tacit.files.arrays import digest, pack, read_arrays, unpack, write_arrays

# Within the folder of a run; settings say what the stages depend on.
JOURNAL, SETTINGS = "journal", "settings.json"
CURRENT, HEAD = "current.npz", "head"
# Seconds between two writes: what an interruption without warning may cost.
EVERY = 2.0
# Times as long as a write takes, at least: a large state must not spend the run on being kept.
RARELY = 20.0


class FolderJournal:
    """A `tacit.progress.Journal` in a folder; also a callback, which asks for nothing."""

    def __init__(self, folder: Path, *, every: float = EVERY) -> None:
        self.folder, self.every = folder, every
        self._digests: dict[str, str] = {}
        self._waiting: dict[str, tuple[dict[str, Any], Any]] = {}
        self._last, self._pause = time.monotonic(), every

    def __call__(self, event: Event) -> None:
        """Nothing: states come by `keep`."""

    def recall(self, stage: str, inputs: Any, kinds: Sequence[type]) -> tuple[Any, bool] | None:
        """The last state of the stage and whether that was its end; None if it is not known."""
        self._digests[stage] = digest(inputs)
        for name in (_file(stage), CURRENT):
            path = self.folder / name
            if not path.exists():
                continue
            arrays = read_arrays(path)
            try:
                head = json.loads(str(arrays.pop(HEAD)))
                if head["stage"] != stage:
                    continue
                state = unpack(arrays, kinds) if head["inputs"] == self._digests[stage] else None
            except (ValueError, KeyError, TypeError) as error:
                raise OSError(f"{path} is no record of a stage: {error}") from None
            if head["inputs"] != self._digests[stage]:
                raise TacitError(
                    f"{path} was made from other data or settings than {stage} has now; "
                    "begin again with --overwrite"
                )
            return state, bool(head["finished"])
        return None

    def keep(self, stage: str, inputs: Any, state: Any, *, finished: bool) -> None:
        """Remembers where the stage stands, and writes it down if it is time."""
        if stage not in self._digests:
            self._digests[stage] = digest(inputs)
        head = {"stage": stage, "inputs": self._digests[stage], "finished": finished}
        # The state itself, not a copy: states are never changed, only replaced.
        self._waiting[_file(stage) if finished else CURRENT] = (head, state)
        if time.monotonic() - self._last >= self._pause:
            self.flush()

    def flush(self) -> None:
        """Writes what has not been written yet, finished stages first."""
        began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(self._waiting, key=lambda name: name == CURRENT):
            head, state = self._waiting[name]
            write_arrays(self.folder / name, {HEAD: np.array(json.dumps(head)), **pack(state)})
            del self._waiting[name]
        self._last = time.monotonic()
        if self.every > 0:
            self._pause = max(self.every, RARELY * (self._last - began))


def checkpoint(folder: str | Path, *, every: float = EVERY) -> FolderJournal:
    """A callback that keeps a recovery in a folder, to go on after an interruption.

    `tacit.recover(..., callbacks=[tacit.runs.checkpoint("kept")])`, called again with the same
    arguments, goes on where it was left. Remove the folder when the answer is there.

    Args:
        folder: where to keep it.
        every: seconds between two writes, more where writing takes long; 0 writes at every step.
    """
    return FolderJournal(Path(folder), every=every)


def _file(stage: str) -> str:
    return re.sub(r"[^0-9A-Za-z]+", "-", stage) + ".npz"
