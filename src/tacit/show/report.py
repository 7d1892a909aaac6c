"""One offline HTML file: findings in plain words on top, everything that they rest on below."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import escape
from importlib.resources import files

from tacit.show.document import Block, Choice, Details, Document, Gallery
from tacit.show.markup import Writer, facts, finding
from tacit.show.words import anchor, inline

LARGEST = 1_000_000  # bytes


def render(document: Document, *, largest: int = LARGEST) -> str:
    """The page, as text to be written in UTF-8; the same document gives the same text.

    It asks nothing of any network, and forbids the browser to: scripts and styles are named by
    their checksums. Where it would be larger than allowed, the last alternatives of the largest
    choices are left out, and the page says so.

    Args:
        document: what to say.
        largest: bytes that the page may have; what is not an alternative is never left out.
    """
    page = _page(document)
    while (excess := len(page.encode()) - largest) > 0:
        counts = _fewer(document, excess)
        if not counts:
            break
        document = _with_fewer(document, counts)
        page = _page(document)
    return page


def _page(document: Document) -> str:
    style, script = _asset("page.css"), _asset("page.js")
    writer = Writer()
    names = _anchors(document)
    sections = "\n".join(
        writer.section(section, name)
        for section, name in zip(document.sections, names, strict=True)
    )
    links = "".join(
        f'<li><a href="#{name}">{inline(section.title)}</a></li>'
        for section, name in zip(document.sections, names, strict=True)
    )
    found = "\n".join(finding(one) for one in document.findings)
    lead = f'<p class="lead">{inline(document.lead)}</p>' if document.lead else ""
    strip = facts(document.facts) if document.facts else ""
    findings = (
        f'<section id="findings" aria-labelledby="findings-title"><h2 id="findings-title">'
        f'What was found</h2>\n<ol class="findings">\n{found}\n</ol></section>'
        if document.findings
        else ""
    )
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_checksum(style)}'; "
        f"script-src '{_checksum(script)}'; base-uri 'none'; form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{escape(document.title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
<script>{script}</script>
</head>
<body>
<a class="skip" href="#main">Skip to the findings</a>
<header>
<h1>{inline(document.title)}</h1>
{lead}
{strip}
</header>
<main id="main">
{findings}
<nav aria-label="Contents"><ul>{links}</ul></nav>
{sections}
</main>
<footer>{inline(document.footer)}</footer>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("tacit.show").joinpath(name).read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _anchors(document: Document) -> list[str]:
    """One name per section, no two alike."""
    names: list[str] = []
    for section in document.sections:
        name = wanted = anchor(section.title)
        number = 2
        while name in (*names, "main", "findings"):
            name, number = f"{wanted}-{number}", number + 1
        names.append(name)
    return names


def _fewer(document: Document, excess: int) -> dict[int, int]:
    """How many options each choice (by identity) keeps, so that about `excess` bytes go."""
    choices = list(_choices(block for section in document.sections for block in section.blocks))
    sizes = {
        id(choice): [len(Writer().blocks(option.blocks).encode()) for option in choice.options]
        for choice in choices
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


def _choices(blocks: Iterable[Block]) -> Iterator[Choice]:
    for block in blocks:
        if isinstance(block, Choice):
            yield block
        elif isinstance(block, Details | Gallery):
            yield from _choices(block.blocks)


def _with_fewer(document: Document, counts: dict[int, int]) -> Document:
    sections = [
        replace(section, blocks=_cut(section.blocks, counts)) for section in document.sections
    ]
    return replace(document, sections=sections)


def _cut(blocks: Iterable[Block], counts: dict[int, int]) -> list[Block]:
    """The blocks with choices that keep that many options and say how many they had."""
    cut: list[Block] = []
    for block in blocks:
        if isinstance(block, Details | Gallery):
            cut.append(replace(block, blocks=_cut(block.blocks, counts)))
        elif isinstance(block, Choice) and id(block) in counts:
            left_out = block.left_out + len(block.options) - counts[id(block)]
            cut.append(
                replace(block, options=block.options[: counts[id(block)]], left_out=left_out)
            )
        else:
            cut.append(block)
    return cut
