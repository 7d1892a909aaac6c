"""Notebooks are their pages, cell by cell, and run."""

import contextlib
import io
import json

import pytest

import notebooks
import pages

PAGES = sorted(notebooks.FOLDER.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_is_its_page(page):
    place = page.with_suffix(".ipynb")
    assert place.read_text("utf-8") == notebooks.notebook(page), "run tools/notebooks.py"
    whole = json.loads(place.read_text("utf-8"))
    assert whole["nbformat"] == 4
    assert len({cell["id"] for cell in whole["cells"]}) == len(whole["cells"])
    code = ["".join(cell["source"]) for cell in whole["cells"] if cell["cell_type"] == "code"]
    asked = [b.code.rstrip("\n") for b in pages.blocks(page) if b.language == "python"]
    assert [one for one in code if one in asked] == asked
    assert not any("Download this page" in "".join(cell["source"]) for cell in whole["cells"])


def test_files_and_commands_of_a_page_are_cells_that_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = '# A page\n\n```toml title="a/b.toml"\nx = "1"\n```\n\n```sh\ntacit --version\n```\n'
    written, shell = (cell for cell in notebooks.cells(text) if cell["cell_type"] == "code")
    exec("".join(written["source"]), {})
    assert (tmp_path / "a" / "b.toml").read_text() == 'x = "1"\n'
    assert shell["source"] == ["!tacit --version"]


def test_the_cells_of_a_notebook_run_in_turn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole, space = json.loads((notebooks.FOLDER / "trips.ipynb").read_text("utf-8")), {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for cell in whole["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), space)
    assert "a hill is worth" in printed.getvalue()
