"""Draws docs/notebooks/*.svg: what the blocks of the notebooks save.

python docs/figures/notebooks.py [NAME ...]     (names of notebooks; all unless given)
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import matplotlib as mpl  # noqa: E402

import pages  # noqa: E402

if __name__ == "__main__":
    mpl.rcParams["svg.hashsalt"] = "notebooks"  # the same picture, the same file
    folder = ROOT / "docs" / "notebooks"
    names = sys.argv[1:] or sorted(page.stem for page in folder.glob("*.md"))
    for name in names:
        for _ in pages.run(folder / f"{name}.md"):
            if (drawn := Path(f"{name}.svg")).exists():
                shutil.copy(drawn, folder / drawn.name)
