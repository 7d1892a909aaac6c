"""The blocks of a document as HTML. Everything that is not markup of ours is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import singledispatchmethod
from html import escape
from itertools import count

from tacit.show.choices import controls, left_out, option_name
from tacit.show.document import (
    Block,
    Choice,
    Code,
    Details,
    Facts,
    Finding,
    Gallery,
    Items,
    Paragraph,
    Section,
)
from tacit.show.embed import embedded
from tacit.show.pictures import Picture, overlay
from tacit.show.rows import content, table
from tacit.show.tables import Table
from tacit.show.words import inline


class Writer:
    """Turns blocks into HTML, giving everything that needs a name of its own the next number."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count(1)

    def blocks(self, blocks: Iterable[Block]) -> str:
        """The blocks, one after the other."""
        return "\n".join(self.block(block) for block in blocks)

    def section(self, section: Section, name: str) -> str:
        """A section under its own heading, with a name to link to."""
        lead = f'<p class="lead">{inline(section.lead)}</p>\n' if section.lead else ""
        return (
            f'<section id="{name}" aria-labelledby="{name}-title">\n'
            f'<h2 id="{name}-title">{inline(section.title)}</h2>\n{lead}'
            f"{self.blocks(section.blocks)}\n</section>"
        )

    @singledispatchmethod
    def block(self, block: Block) -> str:
        """The HTML of one block."""
        raise TypeError(f"{type(block).__name__} is no block of a document")

    @block.register
    def _(self, block: Paragraph) -> str:
        return f"<p>{inline(block.text)}</p>"

    @block.register
    def _(self, block: Items) -> str:
        tag = "ol" if block.numbered else "ul"
        return f"<{tag}>{''.join(f'<li>{inline(item)}</li>' for item in block.items)}</{tag}>"

    @block.register
    def _(self, block: Facts) -> str:
        return facts(block)

    @block.register
    def _(self, block: Code) -> str:
        return f'<pre tabindex="0"><code>{escape(block.text)}</code></pre>'

    @block.register
    def _(self, block: Details) -> str:
        return (
            f"<details>\n<summary>{inline(block.summary)}</summary>\n"
            f'<div class="inside">\n{self.blocks(block.blocks)}\n</div>\n</details>'
        )

    @block.register
    def _(self, block: Gallery) -> str:
        # Four side by side where the window has room beside the text: three and one look lost.
        four = " four" if len(block.blocks) == 4 else ""
        return f'<div class="gallery{four}">\n{self.blocks(block.blocks)}\n</div>'

    @block.register
    def _(self, block: Picture) -> str:
        number = next(self._numbers)
        image, wide = embedded(block.image, alt=block.alt, prefix=f"p{number}-")
        # What can scroll can be reached, and moved, with the keyboard.
        frame = ' tabindex="0" role="region" aria-label="Figure, scrolls sideways"'
        caption = f"<figcaption>{inline(block.caption)}</figcaption>" if block.caption else ""
        return (
            f'<figure class="picture{" wide" if wide else ""}">'
            f'<div class="sheet"{frame if wide else ""}><div class="plot">{image}'
            f"{overlay(block.cells)}</div></div>{caption}</figure>"
        )

    @block.register
    def _(self, block: Table) -> str:
        return table(block, f"t{next(self._numbers)}")

    @block.register
    def _(self, block: Choice) -> str:
        name = f"c{next(self._numbers)}"
        first = tuple(block.options[0].at)
        options = "\n".join(
            f'<div class="option{" shown" if tuple(option.at) == first else ""}" '
            f'data-at="{" ".join(map(str, option.at))}">\n'
            f'<p class="option-name">{inline(option_name(block, option))}</p>\n'
            f"{self.blocks(option.blocks)}\n</div>"
            for option in block.options
        )
        return (
            f'<div class="choice" id="{name}">\n'
            f'<div class="controls">{controls(block, name)}</div>\n{options}\n'
            f'<p class="nothing" hidden>There is nothing for this choice.</p>\n'
            f"{left_out(block)}</div>"
        )


def finding(found: Finding) -> str:
    """One finding as an item of a list."""
    label = f'<p class="label">{inline(found.label)}</p>' if found.label else ""
    verdict = f'<p class="verdict">{inline(found.verdict)}</p>' if found.verdict else ""
    detail = f'<p class="detail">{inline(found.detail)}</p>' if found.detail else ""
    margin = f'<div class="margin">{label}{verdict}</div>' if label or verdict else ""
    return (
        f'<li class="{found.tone.value}">{margin}'
        f'<div class="said"><p>{inline(found.text)}</p>{detail}</div></li>'
    )


def facts(block: Facts) -> str:
    """Names and values, as many side by side as there is room for."""
    pairs = "".join(
        f"<div><dt>{inline(name)}</dt><dd>{content(value)}</dd></div>"
        for name, value in block.facts.items()
    )
    return f'<dl class="facts">{pairs}</dl>'
