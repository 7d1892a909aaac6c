"""What the build of the site does beyond mkdocs: formulas without scripts, links that stay inside.

Pages are written for two readers, the repository and the site. Formulas become MathML, which
browsers draw by themselves. Links to files outside docs/ lead nowhere on the site, so they become
the name of the file.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

# What `pymdownx.arithmatex` leaves: \( ... \) in a span, \[ ... \] in a block.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)\s#]+)[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with links that leave docs/ replaced by what they are called and where they lie."""
    return OUTSIDE.sub(r"\1 (`\2` in the repository)", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """The page with every formula as MathML."""
    content = INLINE.sub(lambda found: _formula(found[1], "inline"), content)
    return BLOCK.sub(
        lambda found: f'<div class="formula">{_formula(found[1], "block")}</div>', content
    )


def _formula(source: str, display: str) -> str:
    return convert(html.unescape(source).strip(), display=display)
