"""Runs the pages of the documentation, and writes what they print anew into them.

    python tools/pages.py            # all pages, after a change that is meant
    python tools/pages.py trust.md   # these alone

Every page is a small world of its own: an empty folder and a namespace. Its blocks are taken in
turn. A block with a title is a file, and is written. Python is executed. Of a shell block, `tacit`
runs here and now, as the command does; a few harmless programs run as they are; `pip` and `make`
are left to the reader. A text block that follows at once is what must have been printed.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Run elsewhere: a cluster needs one (test_cluster.py), the paper takes minutes (test_reproduce.py),
# many devices need many devices (test_sharding.py).
ELSEWHERE = {"cluster.md", "reproducing.md", "scale.md", "performance.md"}
ALL = sorted(DOCS.rglob("*.md"))
PAGES = [page for page in ALL if page.name not in ELSEWHERE]

# A fenced block, and the text block that holds its output if one follows at once.
BLOCK = re.compile(
    r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M
)
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)")
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


if __name__ == "__main__":
    os.environ["COLUMNS"] = str(WIDTH)
    for chosen in [DOCS / name for name in sys.argv[1:]] or PAGES:
        rewrite(chosen)
