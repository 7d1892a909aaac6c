"""The documentation runs, prints what it says, and links to what exists.

Every page is a small world of its own: an empty folder and a namespace. Its blocks are taken in
turn. A block with a title is a file, and is written. Python is executed. Of a shell block, `tacit`
runs here and now, as the command does; a few harmless programs run as they are; `pip` and `make`
are left to the reader. A text block that follows at once is what must have been printed.

`python tests/test_docs.py` writes the outputs anew into the pages, after a change that is meant;
with names of pages, into these alone.
"""

import contextlib
import importlib.util
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Run elsewhere: a cluster needs one (test_cluster.py), the paper takes minutes (test_reproduce.py),
# many devices need many devices (test_sharding.py).
ELSEWHERE = {"cluster.md", "reproducing.md", "scale.md", "performance.md"}
ALL = sorted(DOCS.rglob("*.md"))
PAGES = [page for page in ALL if page.name not in ELSEWHERE]
NEEDS = {
    "sepsis.md": "icu_sepsis",
    "robots.md": "gymnasium",
    "gallery.md": "gymnasium",
    "robot.md": "gymnasium",
}
PICTURE, SCRIPT = DOCS / "choosing.svg", DOCS / "figures" / "choosing.py"

# A fenced block, and the text block that holds its output if one follows at once.
BLOCK = re.compile(
    r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M
)
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
WIDTH = 88  # columns of the terminal that pages show
PROGRAMS, NOT_RUN = ("python", "head", "ls", "cat"), ("pip", "make")


class Block(NamedTuple):
    """One block of a page: its language, what it says, the output shown (None: none), and where.

    `title` is the name of the file it holds, if it is one; `line` and `span` tell where the block
    begins and where the output lies in the text of the page.
    """

    language: str
    code: str
    said: str | None
    title: str | None
    line: int
    span: tuple[int, int]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        line = text[: match.start(3)].count("\n")
        yield Block(match[1], match[3], match[4], match[2], line, match.span(4))


def run(page: Path) -> Iterator[tuple[Block, str]]:
    """Every block that is run, with what it prints, in the order of the page."""
    names = {"__name__": "docs"}
    with tempfile.TemporaryDirectory(prefix="page") as folder, contextlib.chdir(folder):
        for block in blocks(page):
            if block.title is not None:
                Path(block.title).parent.mkdir(parents=True, exist_ok=True)
                Path(block.title).write_text(block.code, encoding="utf-8")
            elif block.language == "python":
                # As many empty lines as stand before the block: errors then name its line.
                code = compile("\n" * block.line + block.code, str(page), "exec")
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    exec(code, names)  # our own pages
                yield block, printed.getvalue()
            elif block.language == "sh":
                lines = block.code.replace("\\\n", " ").splitlines()
                yield block, "".join(shell(line) for line in lines)


def shell(line: str) -> str:
    """What a line of a shell block prints; of a command that fails, also what it complains of."""
    words = shlex.split(line, comments=True)
    if not words or words[0] in NOT_RUN:
        return ""
    if words[0] == "tacit":
        from tacit.cli import main

        with (
            contextlib.redirect_stdout(io.StringIO()) as printed,
            contextlib.redirect_stderr(io.StringIO()) as complaints,
        ):
            try:
                code = main(words[1:])
            except SystemExit as stop:
                code = stop.code
        return printed.getvalue() + (complaints.getvalue() if code else "")
    assert words[0] in PROGRAMS, f"a page may not run {words[0]}"
    words[0] = sys.executable if words[0] == "python" else words[0]
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=True)
    return done.stdout


def steady(text: str) -> str:
    """The text without the size of files, which depends on the versions of what draws."""
    return re.sub(r"\d+ kB", "some kB", text)


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
        assert skeleton(said) == skeleton(printed), f"{where}: run `python tests/test_docs.py`"
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


def rewrite(page: Path) -> None:
    """Puts the outputs printed now into the page."""
    text, shift = page.read_text(encoding="utf-8"), 0
    for block, printed in run(page):
        if block.said is None:
            if printed:
                print(f"{page.name}, line {block.line}: no text block for\n{printed}")
            continue
        printed = "\n".join(line.rstrip() for line in printed.rstrip().splitlines()) + "\n"
        start, end = (place + shift for place in block.span)
        text, shift = text[:start] + printed + text[end:], shift + len(printed) - (end - start)
    page.write_text(text, encoding="utf-8")


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


if __name__ == "__main__":
    os.environ["COLUMNS"] = str(WIDTH)
    for chosen in [DOCS / name for name in sys.argv[1:]] or PAGES:
        rewrite(chosen)
