"""One offline HTML file of a document: its headlines on top, what they rest on below.

And what a notebook shows of a recovery.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from itertools import count

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from tacit.files.atomic import harmless
from tacit.files.wording import cell_text
from tacit.show import Document, Picture, anchor, free_name
from tacit.show.canvas import CELL, EMPTY, FAINT, INK, MARKED, MUTED, PAPER, SERIES, readable
from tacit.show.several import AnyRecovery
from tacit.show.summary import summary_blocks
from tacit.show.tables import Bar, Cell, number_in, plain_cell, short

_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*")


def render(document: Document) -> str:
    """The page, as text to be written in UTF-8; the same document gives the same text.

    It asks nothing of any network, and forbids the browser to: its only script is named by its
    checksum.
    """
    style, script = (_asset(f"page.{ending}") for ending in ("css", "js"))
    checksum = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{checksum}'; base-uri 'none'; form-action 'none'"
    )
    names: list[str] = []
    for section in document.sections:
        names.append(free_name(anchor(section.title), [*names, "main", "findings"]))
    page = template("page.html").render(
        document=document,
        sections=list(zip(names, document.sections, strict=True)),
        number=count(1).__next__,
        policy=policy,
        style=style,
        script=script,
    )
    return harmless(page)


def _asset(name: str) -> str:
    return files("tacit.show").joinpath("templates", name).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------- templates


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tacit.show"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals["infinity"] = float("inf")
    environment.filters |= {
        "cell_class": _cell_class,
        "inline": inline,
        "kind": lambda value: type(value).__name__,
        "lines": lambda texts: "\n".join(" ".join(str(text).split()) for text in texts),
        "short": lambda value, power: short(value * 10.0**-power if power and value else value),
        "sort_key": _sort_key,
        "svg_content": _svg_content,
        "cell_text": lambda cell: cell_text(plain_cell(cell)),
    }
    return environment


def template(name: str) -> Template:
    """A template by the name of its file, in which everything that is not markup is escaped."""
    return _environment().get_template(name)


def inline(text: str) -> Markup:
    """The text, escaped, with `code` and **strong** as elements.

    >>> str(inline("`a < b` is **not** <b>"))
    '<code>a &lt; b</code> is <strong>not</strong> &lt;b&gt;'
    """
    parts, end = [], 0
    for match in _INLINE.finditer(text):
        code, strong = match.groups()
        parts.append(escape(text[end : match.start()]))
        tag, inside = ("code", escape(code)) if code else ("strong", inline(strong))
        parts.append(Markup(f"<{tag}>{inside}</{tag}>"))
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def _svg_content(picture: Picture, number: int) -> Markup:
    """What stands inside the <svg> element, with names that no other picture of the page has."""
    content = picture.image[picture.image.index("<svg") :].partition(">")[2]
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', content))

    def rename(tag: re.Match[str]) -> str:
        text = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", tag[0])
        text = re.sub(r'( id="|url\(#|href="#)', rf"\1p{number}-", text)
        return _COLOUR.sub(lambda colour: f"var(--{_THEME[colour[0]]})", text)

    # Only inside tags: a label may hold any of these as its text.
    return Markup(re.sub(r"\s*<[^>]+>", rename, content))


# Colours of a figure that change with those of the page; `page.css` has both sets.
_THEME = {
    INK: "ink", MUTED: "muted", FAINT: "line", PAPER: "card", EMPTY: "tint", CELL: "cell",
    MARKED: "marked", **{colour: f"series-{k}" for k, colour in enumerate(SERIES)},
    **{readable(colour): f"series-{k}" for k, colour in enumerate(SERIES)},
}  # fmt: skip
_COLOUR = re.compile("|".join(_THEME))


def _cell_class(cell: Cell, best: bool) -> str:
    names = ["n"] * (not isinstance(cell, str)) + ["b"] * isinstance(cell, Bar) + ["best"] * best
    return " ".join(names)


def _sort_key(cell: Cell) -> Markup:
    number = number_in(cell)
    return Markup("") if number is None else Markup(f' data-number="{number:.4g}"')


# ------------------------------------------------------------------------------- notebooks

ROWS_SHOWN = 10  # of a table, and of findings


def recovery_html(result: AnyRecovery) -> str:
    """A short HTML fragment for a notebook; its colours are the notebook's own."""
    blocks = summary_blocks(result.standardised)
    return harmless(template("notebook.html").render(blocks=blocks, most=ROWS_SHOWN))
