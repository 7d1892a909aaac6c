"""One offline HTML file of a document: its headlines on top, what they rest on below.

And what a notebook shows of a recovery.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import count

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from tacit.files.atomic import harmless
from tacit.inverse.recovery import Recovery
from tacit.model.layout import Layout
from tacit.show import Block, Choice, Details, Document, Gallery, Picture, anchor, free_name
from tacit.show.canvas import CELL, EMPTY, FAINT, INK, MARKED, MUTED, PAPER, SERIES, readable
from tacit.show.quantities import NamedRecovery, weight_tables
from tacit.show.summary import units_sentence
from tacit.show.tables import Bar, Cell, cell_text, number_in, short

LARGEST = 1_000_000  # bytes

_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*")


def render(document: Document, *, largest: int = LARGEST) -> str:
    """The page, as text to be written in UTF-8; the same document gives the same text.

    It asks nothing of any network, and forbids the browser to: its only script is named by its
    checksum. Where it would be larger than allowed, the last alternatives of the largest choices
    are left out, and the page says so.

    Args:
        document: what to say.
        largest: bytes that the page may have; what is not an alternative is never left out.
    """
    page = _page(document)
    while (excess := len(page.encode()) - largest) > 0:
        counts = _fewer_options(document, excess)
        if not counts:
            break
        sections = [replace(one, blocks=_cut(one.blocks, counts)) for one in document.sections]
        document = replace(document, sections=sections)
        page = _page(document)
    return page


def _page(document: Document) -> str:
    style, script = _asset("page.css"), _asset("page.js")
    checksum = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{checksum}'; base-uri 'none'; form-action 'none'"
    )
    names: list[str] = []
    for section in document.sections:
        names.append(free_name(anchor(section.title), "", [*names, "main", "findings"]))
    page = template("page.html").render(
        document=document,
        sections=list(zip(names, document.sections, strict=True)),
        number=count(1).__next__,
        policy=policy,
        style=style,
        script=script,
    )
    return harmless(page)


def blocks_html(blocks: Iterable[Block]) -> str:
    """The HTML of these blocks alone."""
    module = template("blocks.html").make_module({"number": count(1).__next__})
    return str(getattr(module, "blocks")(blocks))  # noqa: B009


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
        "base64": lambda image: base64.b64encode(image).decode("ascii"),
        "cell_class": _cell_class,
        "inline": inline,
        "json": lambda value: json.dumps(_shown(value), separators=(",", ":"), allow_nan=False),
        "kind": lambda value: type(value).__name__,
        "lines": lambda texts: "\n".join(" ".join(str(text).split()) for text in texts),
        "short": lambda value, power: short(value * 10.0**-power if power and value else value),
        "sort_key": _sort_key,
        "svg_content": _svg_content,
        "cell_text": cell_text,
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


def _shown(value: object) -> object:
    """The value with harmless texts: what JSON escapes, the script of the page reads back."""
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, dict):
        return {_shown(key): _shown(one) for key, one in value.items()}
    return [_shown(one) for one in value] if isinstance(value, list | tuple) else value


def _svg_content(picture: Picture, number: int) -> Markup:
    """What stands inside the <svg> element, with names that no other picture of the page has."""
    assert isinstance(picture.image, str)
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


# ------------------------------------------------------------------------------- size


def _fewer_options(document: Document, excess: int) -> dict[int, int]:
    """How many options each choice (by identity) keeps, so that about `excess` bytes go."""
    sizes = {
        id(block): [len(blocks_html(option.blocks).encode()) for option in block.options]
        for block in document.blocks()
        if isinstance(block, Choice)
    }
    kept = {name: len(each) for name, each in sizes.items()}
    dropped = 0
    while dropped < excess:
        spare = {name: sum(sizes[name][:n]) for name, n in kept.items() if n > 1}
        if not spare:
            break
        largest = max(spare, key=lambda name: spare[name])
        kept[largest] -= 1
        dropped += sizes[largest][kept[largest]]
    return {name: n for name, n in kept.items() if n < len(sizes[name])}


def _cut(blocks: Iterable[Block], counts: dict[int, int]) -> list[Block]:
    """The blocks with choices that keep that many options and say how many they had."""
    cut: list[Block] = []
    for block in blocks:
        if isinstance(block, Details | Gallery):
            cut.append(replace(block, blocks=_cut(block.blocks, counts)))
        elif isinstance(block, Choice):
            kept = block.options[: counts.get(id(block), len(block.options))]
            options = [replace(option, blocks=_cut(option.blocks, counts)) for option in kept]
            left_out = block.left_out + len(block.options) - len(options)
            cut.append(replace(block, options=options, left_out=left_out))
        else:
            cut.append(block)
    return cut


# ------------------------------------------------------------------------------- notebooks

ROWS_SHOWN = 10  # features of a table, and findings, in a notebook


def recovery_html(recovery: Recovery) -> str:
    """A short HTML fragment for a notebook; its colours are the notebook's own."""
    named = NamedRecovery(recovery.standardised, Layout())
    goodness = named.recovery.goodness
    fragment = template("notebook.html").render(
        estimator=named.estimator,
        status=recovery.status.value,
        units=units_sentence(named.recovery),
        misfit="" if goodness.adequate else goodness.sentence(),
        tables=weight_tables(named),
        nothing=[one.part for one in named.weights if not one.order],
        findings=named.recovery.identification.findings,
        most=ROWS_SHOWN,
    )
    return harmless(fragment)
