"""What the build of the site does beyond mkdocs: formulas without scripts, links that stay inside.

Pages are written for two readers, the repository and the site. Formulas become MathML, which
browsers draw by themselves. Links to files outside docs/ lead nowhere on the site, so they become
the name of the file.
"""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

# What `pymdownx.arithmatex` leaves: \( ... \) in a span, \[ ... \] in a block.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)
LONG = 40  # characters of LaTeX: more may be wider than a phone
CODE = re.compile(r"(<pre[^>]*>(?:<span></span>)?)<code>")
WORDS = re.compile(r"<code>([^<\n]*--[a-z][^<\n]*)</code>")
OPTION = re.compile(r"--[a-z][\w-]*")
IMAGE = re.compile(r'<img([^>]*) src="([^"]+)\.png"([^>]*?)/?>')
OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)\s#]+)[^)]*\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page with links that leave docs/ replaced by what they are called and where they lie."""
    folders = page.file.src_uri.count("/")

    def said(found: re.Match[str]) -> str:
        leaves = found[2].count("/") > folders
        return f"{found[1]} (`{found[3]}` in the repository)" if leaves else found[0]

    return OUTSIDE.sub(said, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """The page with every formula as MathML, and pictures of the dark where there are any."""
    content = IMAGE.sub(_both, content)
    content = WORDS.sub(lambda found: f"<code>{OPTION.sub(_whole, found[1])}</code>", content)
    content = INLINE.sub(lambda found: _inline(found[1]), content)
    return BLOCK.sub(
        lambda found: f'<div class="formula">{_formula(found[1], "block")}</div>', content
    )


def on_post_page(output: str, **_: Any) -> str:
    """The page with names for what is opened, and code that the keyboard can scroll."""
    output = output.replace('role="dialog"', 'role="dialog" aria-label="Search"')
    return CODE.sub(r'\1<code tabindex="0">', output)


def on_post_build(config: Any, **_: Any) -> None:
    """Removes the page for addresses that do not exist: only a server would show it."""
    (Path(config["site_dir"]) / "404.html").unlink(missing_ok=True)


def _both(found: re.Match[str]) -> str:
    """The picture for the light and that for the dark, of which the style sheet shows one."""
    before, name, after = found.groups()
    if not (Path(__file__).parents[1] / f"{Path(name).name}-dark.png").exists():
        return found[0]
    pair = ((name, "light"), (f"{name}-dark", "dark"))
    return "".join(f'<img{before} src="{one}.png#only-{when}"{after}>' for one, when in pair)


def _whole(option: re.Match[str]) -> str:
    """An option, which no line breaks at its hyphens."""
    return f'<span class="whole">{option[0]}</span>'


def _inline(source: str) -> str:
    """A formula in a line; a long one may scroll by itself on a small screen."""
    drawn = _formula(source, "inline")
    return f'<span class="long-formula">{drawn}</span>' if len(source) > LONG else drawn


def _formula(source: str, display: str) -> str:
    # A prime raised once more, as a superscript, is too small and too high without a math font.
    plain = html.unescape(source).strip().replace("'", r"{\prime}")
    return convert(plain, display=display)
