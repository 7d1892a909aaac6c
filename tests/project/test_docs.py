"""The documentation runs, prints what it says, and links to what exists."""

import importlib.util
import re
import runpy
import tomllib
from pathlib import Path

import pytest

from pages import (
    ALL,
    DOCS,
    ELSEWHERE,
    NUMBER,
    PAGES,
    ROOT,
    WIDTH,
    alike,
    blocks,
    run,
    shell,
    skeleton,
    steady,
)

NEEDS = {
    "sepsis.md": "icu_sepsis",
    "robots.md": "gymnasium",
    "gallery.md": "gymnasium",
    "robot.md": "gymnasium",
}
PICTURE, SCRIPT = DOCS / "choosing.svg", DOCS / "figures" / "choosing.py"

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def test_numbers_are_compared_as_strictly_as_they_are_shown():
    assert alike("0.31", "0.311")
    assert alike("1.34e-11", "8.2e-12")
    assert not alike("25", "26")
    assert not alike("0.9224", "0.9234")
    assert not alike("0.5", "inf")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_blocks_run_and_print_what_the_page_says(page, monkeypatch):
    needed = NEEDS.get(page.name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{page.name} needs {needed}, which is not installed")
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    for block, printed in run(page):
        said, printed = None if block.said is None else steady(block.said), steady(printed)
        where = f"{page.name}, line {block.line}"
        assert (said is not None) == bool(printed), f"{where}: shown and printed are not both there"
        if said is None:
            continue
        assert skeleton(said) == skeleton(printed), f"{where}: run `python tools/pages.py`"
        numbers = (NUMBER.findall(text) for text in (said, printed))
        assert all(map(alike, *numbers)), f"{where}: stale numbers\n{said}\n{printed}"


def test_commands_that_fail_are_heard_and_strange_ones_are_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shell("tacit check nowhere").startswith("tacit: ")
    assert shell("pip install nothing  # left to the reader") == ""
    with pytest.raises(AssertionError, match="may not run rm"):
        shell("rm -r .")


def test_files_of_a_page_are_written_and_outputs_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '```toml title="a/b.toml"\nx = 1\n```\n\n```sh\ncat a/b.toml\n```\n\n```text\nx = 1\n```\n'
    )
    assert [(block.said, printed) for block, printed in run(page)] == [("x = 1\n", "x = 1\n")]
    assert not Path("a").exists()


def test_every_verb_is_shown_with_its_help():
    """What it says is compared above; here, that no verb is forgotten."""
    from tacit.cli import every_command

    shown = {block.code.strip() for block in blocks(DOCS / "commands.md")}
    assert {f"tacit {name} --help" for name in every_command()} <= shown


def test_every_page_is_run_somewhere():
    """Pages that say they are run elsewhere are few, and known; all others are run here."""
    assert {page.name for page in ALL} - {page.name for page in PAGES} <= ELSEWHERE
    assert len(PAGES) >= 3


def test_pages_have_blocks_that_check_something():
    """The derivations are held by assertions, not only by code that happens to run."""
    found = [block.code for block in blocks(DOCS / "theory.md") if block.language == "python"]
    assert sum("assert" in code for code in found) == len(found) >= 8


def test_links_lead_somewhere():
    wrong = []
    for page in ALL:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if target.startswith(("http://", "https://")):
                continue
            path, _, anchor = target.partition("#")
            file = page if not path else (page.parent / path).resolve()
            outside = not file.exists() or not file.is_relative_to(ROOT)
            if outside or (anchor and anchor not in anchors(file)):
                wrong.append(f"{page.name} links to {target}")
    assert not wrong


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
    text = (DOCS / "index.md").read_text("utf-8")
    text += (DOCS / "api" / "index.md").read_text("utf-8").replace("](", "](api/")
    linked = {link.partition("#")[0] for link in LINK.findall(text)}
    assert {page.relative_to(DOCS).as_posix() for page in ALL} - {"index.md"} <= linked


def test_picture_is_what_its_script_draws(tmp_path):
    """The words of the picture are those of the code as it is now (thresholds, estimators)."""
    runpy.run_path(str(SCRIPT))["draw"](tmp_path / "fresh.svg")
    assert words(tmp_path / "fresh.svg") == words(PICTURE), f"run `python {SCRIPT.name}` again"


def words(picture: Path) -> list[str]:
    """The texts of a drawing: matplotlib notes each as a comment beside its outlines."""
    found = re.findall(r"<!-- (.*?) -->", picture.read_text(encoding="utf-8"), re.S)
    assert found, "no text found in the picture"
    return sorted(found)


def test_extras_that_pages_name_can_be_installed_from_a_copy():
    # Nothing is released: the name on the index would not be found.
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = {
        found
        for page in pages
        for found in re.findall(r"pip install '(.*?)\[(.*?)\]'", page.read_text("utf-8"))
    }
    assert {where for where, _ in named} == {"."}
    assert {extra for _, extra in named} - {"{extra}"} <= {*extras}
    assert len(named) > 3
