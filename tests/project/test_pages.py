"""Pages say what the code prints, draws and documents, and what was measured."""

import contextlib
import inspect
import io
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import leaderboard
import pages
import plots
import tables
import tacit
import torture
from pages import DOCS, NUMBER, ROOT
from tacit.cli import every_command
from tacit_lab import families

NEEDS = {"sepsis": "icu_sepsis", "robots": "gymnasium", "gallery": "gymnasium"}
NEEDS |= {"robot": "gymnasium"}
RECORDED = {"mouse"}  # pages about recordings, which are no part of the repository
README = ROOT / "README.md"
# What a browser would fetch by itself, unlike a link that somebody has to follow.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?(?:https?:)?//
    |<link\b(?![^>]*rel=["']?(?:canonical|prev|next|alternate))[^>]*\bhref=["']?(?:https?:)?//
    |url\(\s*["']?(?:https?:)?//|@import\s+["']?(?:https?:)?//""",
    re.X | re.I,
)


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_blocks_run_and_print_what_the_page_says(page, monkeypatch):
    pytest.importorskip(NEEDS.get(page.stem, "tacit"))
    if page.stem in RECORDED and "TACIT_DATA" not in os.environ:
        pytest.skip("TACIT_DATA does not name the folder of recordings")
    monkeypatch.setenv("COLUMNS", str(pages.WIDTH))
    for block, printed in pages.run(page):
        where = f"{page.name}, line {block.line}: run `python tools/pages.py {page.name}`"
        said, printed = (pages.steady(text) for text in (block.said or "", printed))
        assert pages.skeleton(said) == pages.skeleton(printed), where
        assert all(map(pages.alike, NUMBER.findall(said), NUMBER.findall(printed))), where


def test_the_readme_prints_what_it_shows():
    code, shown = (block.code for block in pages.blocks(README) if block.language != "sh")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    assert printed.getvalue() == shown


def test_numbers_are_compared_as_strictly_as_they_are_shown():
    assert pages.alike("0.31", "0.311")
    assert pages.alike("1.34e-11", "8.2e-12")
    for said, printed in (("25", "26"), ("0.9224", "0.9234"), ("0.5", "inf")):
        assert not pages.alike(said, printed)


def test_a_page_is_a_folder_of_its_own_and_runs_harmless_programs_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, files = tmp_path / "page.md", '```toml title="a/b.toml"\nx = 1\n```\n\n'
    page.write_text(f"{files}```sh\ncat a/b.toml\n```\n\n```text\nx = 1\n```\n")
    assert [(block.said, printed) for block, printed in pages.run(page)] == [("x = 1\n",) * 2]
    assert not Path("a").exists()
    assert pages.shell("tacit check nowhere").startswith("tacit: ")
    assert pages.shell("pip install nothing  # left to the reader") == ""
    with pytest.raises(AssertionError, match="may not run rm"):
        pages.shell("rm -r .")


def test_what_pages_name_is_there():
    """Files that are linked, extras, and the help of every command."""
    texts = {page: page.read_text("utf-8") for page in (README, *pages.ALL)}
    for page, text in texts.items():
        for target in re.findall(r"\]\((?!https?:)([^)\s#]+)", text):
            assert (page.parent / target).exists(), (page, target)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"pip install '(.*?)\[(\w+)\]'", "".join(texts.values()))
    # Nothing is released: the name on the index would not be found.
    assert {*named} <= {(".", extra) for extra in extras["optional-dependencies"]}
    shown = {block.code.strip() for block in pages.blocks(DOCS / "commands.md")}
    assert {f"tacit {name} --help" for name in every_command()} <= shown


def test_tables_are_made_from_the_result_files():
    found = tables.results()
    stale = [page for page, text in tables.pages(found).items() if page.read_text("utf-8") != text]
    assert not stale, "run `python benchmarks/tables.py`"
    assert leaderboard.page(found["leaderboard"]) == leaderboard.PAGE.read_text("utf-8")
    campaign = "\n".join([*torture.table_of(found["torture"]["rows"]), ""])
    assert campaign + f"\n{torture.sentences_of(found['torture'])}" in torture.PAGE.read_text()


def test_what_was_measured_has_a_day_and_is_quoted_as_it_was():
    found = tables.results()
    whole = {DOCS / "performance.md", DOCS / "reliability.md"}  # made as a whole
    for page in {*DOCS.glob("*.md")} - whole:
        text = page.read_text("utf-8")
        named = {*re.findall(r"benchmarks/(?:results/)?([\w-]+)\.(?:py|json)", text)}
        assert named & {*found} <= {*re.findall(r"`([\w-]+)\.json`, measured on", text)}, page
    prose = re.split(r"<!-- (?:made: .*?|end) -->", (DOCS / "reproducing.md").read_text("utf-8"))
    made = {*re.findall(r"(?<![\w.])(?:\d+ of \d+|\d+\.\d{3})(?![\w.])", "".join(prose[1::2]))}
    assert {*re.findall(r"\*\*(\d[^*]*)\*\*", "".join(prose[::2]))} <= made


def test_another_result_or_another_day_is_seen():
    found = tables.results()
    page, text = DOCS / "trust.md", (DOCS / "trust.md").read_text("utf-8")
    for change in ({"date": "2030-01-01"}, {"rows": []}):
        changed = found | {"caution": found["caution"] | change}
        assert tables.pages(changed)[page] != text


def test_figures_are_drawn_from_the_result_files(tmp_path):
    found = tables.results()
    for name, panels in plots.DRAWN.items():
        drawn = (plots.FIGURES / f"performance-{name}.svg").read_text("utf-8")
        assert f"drawn from {plots.digest(panels(found))}" in drawn, "run benchmarks/plots.py"
    for name, rows in found["trust"]["studies"].items():
        drawn = (plots.FIGURES / f"trust-{name}.svg").read_text("utf-8")
        for side in ("before", "after"):
            held = sum(row[side][1] <= row["truth"] <= row[side][2] for row in rows)
            assert f"{held} of {len(rows)} hold" in drawn, "run benchmarks/trust.py --only-draw"
    # Matplotlib notes each text as a comment beside its outlines.
    texts = re.compile(r"<!-- (.*?) -->", re.S)
    runpy.run_path(str(DOCS / "figures" / "choosing.py"))["draw"](fresh := tmp_path / "fresh.svg")
    committed = DOCS / "choosing.svg"
    one, two = (sorted(texts.findall(path.read_text("utf-8"))) for path in (fresh, committed))
    assert one == two, "run docs/figures/choosing.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built without a warning: links, anchors, and that the menu has every page."""
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    folder = tmp_path_factory.mktemp("docs") / "site"
    # Not --quiet: with it mkdocs counts no warnings, and strict means nothing.
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    told = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 0, told
    assert [line for line in told if line and not line.startswith("INFO ")] == []
    return folder


def test_the_site_needs_no_network_and_draws_formulas(site):
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > len(pages.ALL)
    for path in files:
        text = path.read_text("utf-8")
        assert not FETCHED.search(text), path
        assert path.suffix == ".css" or not re.search("merror|arithmatex", text), path
    assert 'href="../' not in (site / "index.html").read_text("utf-8")
    for text in ('<script src="https://a.b/c.js">', "@import 'https://a.b/c.css'"):
        assert FETCHED.search(text), text


def test_every_public_name_is_documented(site):
    """The names of `tacit` on the first page, those of a namespace on the page of that name."""
    spaces = {name for name in tacit.__all__ if inspect.ismodule(getattr(tacit, name))}
    wanted = {"index": {f"tacit.{name}" for name in tacit.__all__ if name not in spaces}}
    for name in spaces:
        inside = getattr(getattr(tacit, name), "__all__", ())
        wanted[name] = {f"tacit.{name}.{part}" for part in inside} or {f"tacit.{name}"}
    wanted["families"] = {f"tacit_lab.families.{name}" for name in families.__all__}
    for name, names in wanted.items():
        page = (site / "api" / f"{name}.html").read_text("utf-8")
        assert names <= set(re.findall(r'id="(tacit(?:_lab)?\.[\w.]+)"', page)), name


@pytest.mark.study
@pytest.mark.browser
def test_pages_fit_phone_and_desktop_and_can_be_searched_from_a_folder(site):
    from browser import browser

    with browser() as opened:
        for page in sorted(site.rglob("*.html")):
            # A page that fits a phone fits a desk; two tell that the wide form is well, too.
            for width in (390, 1280) if page.name in ("index.html", "theory.html") else (390,):
                shown = opened.open(page.as_uri(), width=width)
                assert shown.complaints == [], page.name
                assert all(url.startswith(("file:", "data:")) for url in shown.requests)
                wide = shown.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (page.name, width, wide)
                shown.close()
        home = opened.open((site / "index.html").as_uri(), width=1280)
        assert home.faults(contrast=True) == []
        for dark in (False, True):  # code has the faintest inks
            code = opened.open((site / "foxes.html").as_uri(), width=1280, dark=dark)
            assert code.faults(contrast=True) == []
            code.close()
        for asked, page in (
            ("I have trips", "trips"),
            ("a simulator", "robot"),
            ("patients", "patients"),
        ):
            left = home.evaluate(
                f"(f => {{ f.value = {asked!r}; f.dispatchEvent(new Event('input')); return "
                "[...document.querySelectorAll('.md-typeset tbody tr:not([hidden]) a')]"
                ".map(a => a.getAttribute('href')); })(document.getElementById('tasks'))"
            )
            assert left
            assert any(page in address for address in left)
            assert len(left) <= 4
        home.evaluate("document.querySelector('[data-md-component=search-query]').focus()")
        for letter in "budget":
            home.press(letter, code=ord(letter.upper()), text=letter)
        results = "document.querySelectorAll('.md-search-result__item').length"
        found = home.evaluate(
            "new Promise(done => { let n = 0; const look = () => "
            f"{results} || ++n > 200 ? done({results}) : setTimeout(look, 50); look(); }})"
        )
        assert found >= 3
        assert home.complaints == []
