"""Draws docs/gallery-*.svg: what the blocks of docs/gallery.md save.

python docs/figures/gallery.py
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import matplotlib as mpl  # noqa: E402

import pages  # noqa: E402

if __name__ == "__main__":
    mpl.rcParams["svg.hashsalt"] = "gallery"  # the same picture, the same file
    for _ in pages.run(ROOT / "docs" / "gallery.md"):
        for drawn in Path().glob("gallery-*.svg"):
            shutil.copy(drawn, ROOT / "docs" / drawn.name)
