"""Words of a reader's text as HTML: escaped, with `code` and **strong**."""

from __future__ import annotations

import re
from html import escape

_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*")


def inline(text: str) -> str:
    """The text, escaped, with `code` and **strong** as elements.

    >>> inline("`a < b` is **not** <b>")
    '<code>a &lt; b</code> is <strong>not</strong> &lt;b&gt;'
    """
    parts, end = [], 0
    for match in _INLINE.finditer(text):
        parts.append(escape(text[end : match.start()]))
        code, strong = match.groups()
        parts.append(
            f"<code>{escape(code)}</code>" if code else f"<strong>{inline(strong)}</strong>"
        )
        end = match.end()
    return "".join(parts) + escape(text[end:])


def anchor(title: str) -> str:
    """A name for links to that title.

    >>> anchor("Budget 1, as published")
    'budget-1-as-published'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
