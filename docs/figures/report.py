"""Takes docs/report-top.png and docs/report-map.png: the report of the quick start, as it looks.

python docs/figures/report.py     (needs chromium and Pillow)
"""

import base64
import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from PIL import Image  # noqa: E402

import test_docs  # noqa: E402
from browser import Page, browser  # noqa: E402

WIDTH = 900
TOP = "document.querySelector(%r).getBoundingClientRect().top + scrollY"
# Picture -> what to show: from the top of the first, to the top of the second. And how many colours
# are enough: text needs few, which makes the file small; maps need all (0).
PICTURES = {
    "report-top.png": (None, "#maps", 224),
    "report-map.png": ("#maps", "#state-by-state", 0),
}


def make_run(folder: Path) -> None:
    """The run of the quick start, by the blocks of that page up to `tacit recover`."""
    with contextlib.chdir(folder):
        for block in test_docs.blocks(ROOT / "docs" / "quickstart.md"):
            if block.title is not None:
                Path(block.title).parent.mkdir(parents=True, exist_ok=True)
                Path(block.title).write_text(block.code, encoding="utf-8")
            elif block.language == "sh":
                for line in block.code.splitlines():
                    test_docs.shell(line)
            if "tacit recover" in block.code:
                return


def take(view: Page, picture: Path, first: str | None, second: str, colours: int) -> None:
    """A picture of a page between two of its elements."""
    top, end = (0 if query is None else view.evaluate(TOP % query) for query in (first, second))
    clip = {"x": 0, "y": top, "width": WIDTH, "height": end - top, "scale": 1}
    options = {"format": "png", "clip": clip, "captureBeyondViewport": True}
    answer = view.browser.send("Page.captureScreenshot", options, view)
    drawn = Image.open(io.BytesIO(base64.b64decode(answer["data"]))).convert("RGB")
    drawn = drawn.quantize(colours) if colours else drawn
    drawn.save(picture, optimize=True)


if __name__ == "__main__":
    os.environ["COLUMNS"] = str(test_docs.WIDTH)
    with tempfile.TemporaryDirectory() as place, browser() as opened:
        make_run(Path(place))
        shown = opened.open((Path(place) / "mouse-run" / "report.html").as_uri(), width=WIDTH)
        for name, (begin, end, enough) in PICTURES.items():
            take(shown, ROOT / "docs" / name, begin, end, enough)
