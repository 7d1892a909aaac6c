"""A run as a folder: one file a unit, written whole or not at all, so that a run can be resumed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.files.atomic import write_atomically

SETTINGS, UNITS, FIGURES = "settings.json", "units", "figures"


@dataclass(frozen=True)
class Folder:
    """Where a run lives.

    Attributes:
        path: of the folder.
    """

    path: Path

    def claim(self, identity: dict[str, Any]) -> None:
        """Makes the folder this run's, or raises `TacitError` if it is another's.

        Args:
            identity: everything that the results depend on.
        """
        (self.path / UNITS).mkdir(parents=True, exist_ok=True)
        (self.path / FIGURES).mkdir(exist_ok=True)
        page = self.path / SETTINGS
        # Through JSON, so that a tuple and a list, 1 and 1.0 compare as they are read back.
        wanted = json.loads(json.dumps(identity))
        if not page.exists():
            self.write(SETTINGS, json.dumps(identity, indent=2) + "\n")
            return
        try:
            held = json.loads(page.read_text(encoding="utf-8"))
        except ValueError as error:
            raise OSError(f"{page} is no page of settings: {error}") from None
        if held != wanted:
            raise TacitError(_difference(self.path, held, wanted))

    def write(self, name: str, content: str | bytes) -> None:
        """Writes a file of the folder, whole or not at all."""
        data = content.encode() if isinstance(content, str) else content
        write_atomically(self.path / name, lambda file: file.write(data))

    def read(self, name: str) -> str:
        """The text of a file of the folder."""
        return (self.path / name).read_text(encoding="utf-8")

    def unit(self, name: str) -> str:
        """The file of a unit, within the folder."""
        return f"{UNITS}/{name}.json"

    def has(self, name: str) -> bool:
        """Whether a unit is done."""
        return (self.path / self.unit(name)).exists()


def _difference(path: Path, held: Any, wanted: dict[str, Any]) -> str:
    """One line that says which settings of the run in the folder are others."""
    held = held if isinstance(held, dict) else {}
    names = [k for k in {**held, **wanted} if held.get(k) != wanted.get(k)]
    told = ", ".join(f"{k} {held.get(k)!r} there, {wanted.get(k)!r} asked" for k in names[:2])
    return f"{path} holds a run with other settings ({told}); choose another --out"
