"""What a result file says about its own making: the command, the day, the machine, the versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def about(
    packages: Iterable[str], *, load: float | None = None, command: str | None = None
) -> dict[str, Any]:
    """The head of a result file.

    Args:
        packages: whose versions matter.
        load: of the machine before the study began, where times were measured.
        command: where the one given must not be shown, because it names a path.
    """
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    if load is not None:
        machine["load_at_start"] = round(load, 1)
    return {
        "command": command or given(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine,
        "versions": {name: importlib.metadata.version(name) for name in packages}
        | {"python": platform.python_version()},
    }


def given() -> str:
    """The command that was given, as it can be given again."""
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
