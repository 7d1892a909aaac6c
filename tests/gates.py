"""Work that waits for a gate, so that a test knows what is unfinished; workers import it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.data.tally import Tally


@dataclass(frozen=True)
class Gate:
    """A file that is not there until the gate is open.

    Attributes:
        path: of the file.
    """

    path: Path

    def open(self) -> None:
        self.path.touch()

    def wait(self) -> None:
        """Returns when the gate is open; no test should hang for ever if it never is."""
        limit = time.monotonic() + 120
        while not self.path.exists() and time.monotonic() < limit:
            time.sleep(0.02)


@dataclass(frozen=True)
class Gated:
    """An estimator that waits first.

    Attributes:
        estimator: what fits in the end.
        gate: what it waits for.
    """

    estimator: Any
    gate: Gate

    def fit(self, mdp, features, demonstrations, *, throw=True):
        self.gate.wait()
        return self.estimator.fit(mdp, features, demonstrations, throw=throw)


def gated_tally(gate: Gate, mdp, demonstrations) -> Tally:
    """The tally of a part; all but parts of a single episode wait."""
    if demonstrations.episodes > 1:
        gate.wait()
    return Tally.of(mdp, demonstrations)
