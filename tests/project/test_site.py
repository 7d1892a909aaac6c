"""The site builds without a warning, needs no network, and shows what the pages say."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import tacit
from tacit_lab import families

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# What a browser would fetch by itself, unlike a link that somebody has to follow.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?(?:https?:)?//
    |<link\b(?![^>]*rel=["']?(?:canonical|prev|next|alternate))[^>]*\bhref=["']?(?:https?:)?//
    |url\(\s*["']?(?:https?:)?//|@import\s+["']?(?:https?:)?//""",
    re.X | re.I,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
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


class Settings(yaml.SafeLoader):
    """Reads mkdocs.yml, and passes over what only mkdocs can make of it."""


Settings.add_multi_constructor("", lambda loader, suffix, node: None)


def listed(entry: object) -> list[str]:
    """Every page of a navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in listed(part)]


def test_every_page_is_in_the_navigation_once():
    settings = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Settings)  # a safe loader
    assert sorted(listed(settings["nav"])) == sorted(
        page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")
    )


SPACES = [name for name in tacit.__all__ if inspect.ismodule(getattr(tacit, name))]


def test_no_module_hides_a_public_name():
    """Importing `space.name` puts that module in the place of a function of the same name."""
    hidden = [
        f"tacit.{space}.{name}"
        for space in SPACES
        for name in getattr(getattr(tacit, space), "__all__", ())
        if inspect.ismodule(getattr(getattr(tacit, space), name))
    ]
    assert hidden == ["tacit.data.sources"]  # a namespace of its own


def test_the_pattern_knows_what_is_fetched():
    for text in (
        '<script src="https://a.b/c.js">',
        '<link rel="stylesheet" href="//a.b/c.css">',
        "@import 'https://a.b/c.css'",
        "src: url(https://a.b/c.woff)",
    ):
        assert FETCHED.search(text), text
    for text in ('<a href="https://a.b">', '<script src="a.js">', '<link rel="icon" href="a.png">'):
        assert not FETCHED.search(text), text


def test_nothing_is_fetched_from_anywhere(site):
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > len(list(DOCS.rglob("*.md")))
    for path in files:
        found = FETCHED.search(path.read_text("utf-8"))
        assert found is None, (path.name, found)


def test_every_public_name_is_documented(site):
    """The names of `tacit` on the first page, those of a namespace on the page of that name."""
    wanted = {"index": {f"tacit.{name}" for name in tacit.__all__ if name not in SPACES}}
    for name in SPACES:
        inside = getattr(getattr(tacit, name), "__all__", ())
        wanted[name] = {f"tacit.{name}.{part}" for part in inside} or {f"tacit.{name}"}
    wanted["families"] = {f"tacit_lab.families.{name}" for name in families.__all__}
    assert {page.stem for page in (site / "api").glob("*.html")} == set(wanted)
    missing = []
    for name, names in wanted.items():
        page = (site / "api" / f"{name}.html").read_text("utf-8")
        missing += names - set(re.findall(r'id="(tacit(?:_lab)?\.[\w.]+)"', page))
    assert not missing, ", ".join(sorted(missing))


def test_formulas_are_drawn_without_scripts(site):
    page = (site / "theory.html").read_text("utf-8")
    assert page.count("<math") > 100
    assert "merror" not in page
    assert "arithmatex" not in page, "a formula was left as LaTeX"


def test_links_out_of_the_folder_name_the_file_instead(site):
    page = (site / "index.html").read_text("utf-8")
    assert 'href="../' not in page
    assert "CHANGELOG.md" in page


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
