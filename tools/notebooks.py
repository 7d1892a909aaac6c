"""Makes a notebook of every page of docs/notebooks: the same text, the same code, cell by cell.

    python tools/notebooks.py            # writes them all
    python tools/notebooks.py --check    # exit code 1 where one is not what its page says

Text is a cell of text, Python a cell of code. A file that the page shows is written by its cell, a
shell block is lines that begin with "!": whoever has tacit installed can run all of it. Outputs are
left out: they come when it runs.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pages import BLOCK, DOCS

FOLDER = DOCS / "notebooks"
# Stands below the title of the page, and not in the notebook.
LINK = "[Download this page as a notebook that runs]({}.ipynb)"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def cells(text: str) -> list[dict[str, Any]]:
    """The cells of a page."""
    found, at = [], 0
    for match in BLOCK.finditer(text):
        found += _written(text[at : match.start()])
        found.append(_code(match[1], match[3], match[2]))
        at = match.end()
    return [*found, *_written(text[at:])]


def _written(text: str) -> list[dict[str, Any]]:
    """One cell of text; none where there is nothing but blanks."""
    body = text.strip("\n")
    return [{"cell_type": "markdown", "metadata": {}, "source": _lines(body)}] if body else []


def _code(language: str, code: str, title: str | None) -> dict[str, Any]:
    """One cell that does what a block shows."""
    body = code.rstrip("\n")
    if title is not None:
        place = f"pathlib.Path({title!r})"
        body = f"import pathlib\n\n{place}.parent.mkdir(parents=True, exist_ok=True)\n"
        body += f"{place}.write_text({code!r})"
    elif language == "sh":
        body = "\n".join(f"!{line}" if line.strip() else line for line in body.split("\n"))
    elif language != "python":
        return {"cell_type": "markdown", "metadata": {}, "source": _lines(f"```\n{body}\n```")}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": _lines(body),
    }


def _lines(text: str) -> list[str]:
    """The text as notebooks hold it: lines with their ends, but for the last."""
    return text.splitlines(keepends=True)


def notebook(page: Path) -> str:
    """The notebook of a page, as text."""
    text = page.read_text(encoding="utf-8").replace(f"{LINK.format(page.stem)}\n\n", "")
    every = cells(text)
    numbered = [{"id": f"cell-{k}", **cell} for k, cell in enumerate(every)]
    whole = {
        "cells": numbered,
        "metadata": {"kernelspec": KERNEL, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Writes all notebooks, or says which are stale."""
    stale = []
    for page in sorted(FOLDER.glob("*.md")):
        place, text = page.with_suffix(".ipynb"), notebook(page)
        if place.exists() and place.read_text(encoding="utf-8") == text:
            continue
        stale.append(place.name)
        if "--check" not in sys.argv:
            place.write_text(text, encoding="utf-8")
    print("stale" if "--check" in sys.argv else "written", *stale or ["nothing"])
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
