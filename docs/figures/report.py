"""Takes docs/report-top.png and docs/report-map.png, light and dark: the report of `tacit demo`.

python docs/figures/report.py     (needs chromium and Pillow)
"""

import base64
import io
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from PIL import Image  # noqa: E402

from browser import Page, browser  # noqa: E402
from tacit.cli import main  # noqa: E402

WIDTH = 900
TOP = "document.querySelector(%r).getBoundingClientRect().top + scrollY"
# Picture -> what to show: from the top of the first, to the top of the second. And how many colours
# are enough: text needs few, which makes the file small; maps need all (0).
PICTURES = {
    "report-top.png": (None, "#maps", 224),
    "report-map.png": ("#maps", "#state-by-state", 0),
}


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
    with tempfile.TemporaryDirectory() as place, browser() as opened:
        main(["demo", "--out", f"{place}/demo", "--quiet"])
        report = (Path(place) / "demo" / "run" / "report.html").as_uri()
        for dark in (False, True):
            shown = opened.open(report, width=WIDTH, dark=dark)
            for name, (begin, end, enough) in PICTURES.items():
                named = name.replace(".png", "-dark.png") if dark else name
                take(shown, ROOT / "docs" / named, begin, end, enough)
