"""The documentation runs, prints what it says, and links to what exists.

`python tests/test_docs.py` writes the outputs anew into the pages, after a change that is meant.
"""

import contextlib
import io
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [DOCS / name for name in ("index.md", "theory.md", "choosing.md")]
PICTURE, SCRIPT = DOCS / "choosing.svg", DOCS / "figures" / "choosing.py"

# A python block, and the text block that holds its output if one follows at once.
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S)
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def run(page: Path):
    """Every python block of a page with the output it prints, in one namespace as they follow."""
    names = {"__name__": "docs"}
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        # As many empty lines as stand before the block: errors then name the line of the page.
        code = "\n" * (text[: match.start(1)].count("\n")) + match[1]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)  # our own pages
        yield match, printed.getvalue()


def skeleton(text: str) -> list[str]:
    """The words, each number replaced by #: line breaks may move with the width of a number."""
    return NUMBER.sub("#", text).split()


def alike(said: str, printed: str) -> bool:
    """Whether two numbers are the same but for rounding; whole numbers must be equal.

    Simulations are seeded, so only the order of additions differs between machines: one unit of the
    last digit shown. Residuals, shown as 1.34e-11, are rounding themselves: below 1e-6 all are one.
    """
    digits = max(len(number.partition(".")[2]) for number in (said, printed))
    if digits == 0:
        return said == printed
    return abs(float(said) - float(printed)) <= max(1.01 * 10.0**-digits, 1e-6)


def test_numbers_are_compared_as_strictly_as_they_are_shown():
    assert alike("0.31", "0.311")
    assert alike("1.34e-11", "8.2e-12")
    assert not alike("25", "26")
    assert not alike("0.9224", "0.9234")
    assert not alike("0.5", "inf")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_and_print_what_the_page_says(page):
    for match, printed in run(page):
        said = match[2]
        assert (said is not None) == bool(printed), f"output without a text block:\n{match[1]}"
        if said is None:
            continue
        assert skeleton(said) == skeleton(printed), "stale: run `python tests/test_docs.py`"
        numbers = (NUMBER.findall(text) for text in (said, printed))
        assert all(map(alike, *numbers)), f"stale numbers\n{said}\n{printed}"


def test_pages_have_blocks_that_check_something():
    """The derivations are held by assertions, not only by code that happens to run."""
    blocks = [match[1] for match in BLOCK.finditer((DOCS / "theory.md").read_text("utf-8"))]
    assert sum("assert" in block for block in blocks) == len(blocks) >= 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = page if not path else (page.parent / path).resolve()
        assert file.exists(), f"{page.name} links to {target}"
        assert file.is_relative_to(ROOT), f"{page.name} links outside the repository: {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name} links to a missing heading: {target}"


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    headings = re.findall(r"^#+ (.*)$", prose, re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_links_are_found():
    """The pattern sees links and images; without this a wrong one would pass everything."""
    assert LINK.findall("a [b](c.md#d) and ![e](f.svg)") == ["c.md#d", "f.svg"]
    assert any(LINK.findall(page.read_text("utf-8")) for page in PAGES)


def test_every_page_is_reached_from_the_index():
    linked = {link.partition("#")[0] for link in LINK.findall(PAGES[0].read_text("utf-8"))}
    assert {page.name for page in PAGES[1:]} <= linked


def test_picture_is_what_its_script_draws(tmp_path):
    """The words of the picture are those of the code as it is now (thresholds, estimators)."""
    runpy.run_path(str(SCRIPT))["draw"](tmp_path / "fresh.svg")
    assert words(tmp_path / "fresh.svg") == words(PICTURE), f"run `python {SCRIPT.name}` again"


def words(picture: Path) -> list[str]:
    """The texts of a drawing: matplotlib notes each as a comment beside its outlines."""
    found = re.findall(r"<!-- (.*?) -->", picture.read_text(encoding="utf-8"), re.S)
    assert found, "no text found in the picture"
    return sorted(found)


def rewrite(page: Path) -> None:
    """Puts the outputs printed now into the page."""
    text, shift = page.read_text(encoding="utf-8"), 0
    for match, printed in run(page):
        if match[2] is not None:
            printed = printed.rstrip() + "\n"
            start, end = match.start(2) + shift, match.end(2) + shift
            text, shift = text[:start] + printed + text[end:], shift + len(printed) - (end - start)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for chosen in [DOCS / name for name in sys.argv[1:]] or PAGES:
        rewrite(chosen)
