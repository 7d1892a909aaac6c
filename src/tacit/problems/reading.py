"""From a folder to the parts of a `Problem`: each part from its npz file or from its text twin."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from tacit.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.problems.archives import read_features, read_model, read_truth


def read_problem(folder: Path) -> dict[str, Any]:
    """The arguments of `Problem`, read from its folder."""
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "no such problem folder", str(folder))
    if not folder.is_dir():
        raise NotADirectoryError(
            errno.ENOTDIR, "a problem is a folder; this is a file", str(folder)
        )
    mdp, layout = read_model(folder / "mdp.npz")
    features = read_features(folder / "features.npz")
    truth = folder / "truth.npz"
    seen = one_of(folder, "demonstrations.parquet", "demonstrations.csv", "demonstrations.npz")
    return {
        "mdp": mdp,
        "features": features,
        "layout": layout,
        "truth": read_truth(truth) if truth.exists() else None,
        "demonstrations": None if seen is None else Demonstrations.load(seen),
    }


def one_of(folder: Path, *names: str) -> Path | None:
    """The only file of these that is there, or None; a part given twice is an error."""
    found = [folder / name for name in names if (folder / name).exists()]
    if len(found) > 1:
        both = " and ".join(path.name for path in found)
        raise InvalidModel(f"{folder} must give each part once; it holds {both}")
    return found[0] if found else None
