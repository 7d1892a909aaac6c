"""Pictures inside a page: SVG as part of it, small and with names of its own; PNG as a data URL."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from xml.etree import ElementTree

_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_FONT = re.compile(r"^(?:(italic|oblique)\s+)?(?:(bold|[1-9]00)\s+)?([\d.]+)px\b")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_WIDE = 400.0  # points: a picture wider than that scrolls on a phone rather than shrink to a blur

# What a group hands down to what is in it. Opacity is not among them: a group is faded as one.
_SHARED = frozenset(
    {
        *("clip-path", "fill", "fill-opacity", "font-size", "font-style", "font-weight"),
        *("stroke", "stroke-dasharray", "stroke-dashoffset", "stroke-linecap"),
        *("stroke-linejoin", "stroke-opacity", "stroke-width", "text-anchor"),
    }
)

_PNG_HEAD = b"\x89PNG\r\n\x1a\n"


def embedded(image: str | bytes, *, alt: str, prefix: str) -> tuple[str, bool]:
    """(the markup of a picture, whether it is a wide one).

    Args:
        image: SVG as text, or PNG as bytes.
        alt: what it shows.
        prefix: put before the names inside an SVG, so that no two pictures of a page share one.
    """
    if isinstance(image, bytes):
        return _png(image, alt)
    return _svg(image, alt, prefix)


def _png(image: bytes, alt: str) -> tuple[str, bool]:
    if not image.startswith(_PNG_HEAD):
        raise ValueError("a picture in bytes must be a PNG image")
    width, height = struct.unpack(">II", image[16:24])
    data = base64.b64encode(image).decode("ascii")
    markup = (
        f'<img src="data:image/png;base64,{data}" alt="{escape(alt)}" '
        f'width="{width}" height="{height}">'
    )
    return markup, width > 2 * _WIDE


def _svg(image: str, alt: str, prefix: str) -> tuple[str, bool]:
    """The drawing alone: no metadata, no style sheet, no names that nobody refers to.

    What a `style` attribute says is said by attributes, which every browser reads alike and which
    a strict content security policy lets pass.
    """
    root = ElementTree.fromstring(image)
    used = set(_REFERENCE.findall(image)) | set(re.findall(r'href="#([^"]+)"', image))
    # In the order of the document: the same picture gives the same names.
    ids = [node.get("id") for node in root.iter() if node.get("id") in used]
    names = {old: f"{prefix}{index}" for index, old in enumerate(dict.fromkeys(ids))}
    _without_background(root)
    inside = _markup(root, names)
    box = root.get("viewBox") or ""
    head = (
        f'<svg viewBox="{escape(box)}" role="img" aria-label="{escape(alt)}" '
        'stroke-linejoin="round" stroke-linecap="butt">'
    )
    sizes = box.split()
    return f"{head}{inside}</svg>", len(sizes) == 4 and float(sizes[2]) > _WIDE


def _without_background(root: ElementTree.Element) -> None:
    """Drops the white sheet that Matplotlib puts under everything: the page has one."""
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        for child in list(group):
            if group.get("id") == "figure_1" and child.get("id") == "patch_1":
                group.remove(child)


def _markup(nodes: Iterable[ElementTree.Element], names: dict[str | None, str]) -> str:
    """The elements; what a run of the same ones have in common is said once, around them."""
    text = ""
    for tag, run in groupby(_elements(nodes, names), key=lambda element: element[0]):
        elements = list(run)
        first = elements[0][1]
        shared = {
            key: value
            for key, value in first.items()
            if key in _SHARED and all(attributes.get(key) == value for _, attributes, _ in elements)
        }
        shared = shared if len(elements) > 1 else {}
        inside = "".join(
            _element(tag, {k: v for k, v in attributes.items() if k not in shared}, content)
            for _, attributes, content in elements
        )
        text += _element("g", shared, inside) if shared else inside
    return text


def _elements(
    nodes: Iterable[ElementTree.Element], names: dict[str | None, str]
) -> Iterator[tuple[str, dict[str, str], str]]:
    """(tag, attributes, content) of what is drawn, without groups that group nothing."""
    for node in nodes:
        tag = node.tag.rpartition("}")[2]
        if tag in ("metadata", "style", "title"):
            continue
        attributes = _attributes(node, tag, names)
        if tag == "g" and not attributes:
            yield from _elements(node, names)
            continue
        content = escape(node.text or "", quote=False) if tag in ("text", "tspan") else ""
        content += _markup(node, names)
        if content or tag not in ("g", "defs"):
            yield tag, attributes, content


def _element(tag: str, attributes: dict[str, str], content: str) -> str:
    written = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def _attributes(
    node: ElementTree.Element, tag: str, names: dict[str | None, str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in node.attrib.items():
        key = key.rpartition("}")[2]
        if key == "id":
            if value in names:
                found["id"] = names[value]
        elif key == "style":
            found.update(_declared(value))
        elif key == "href":
            # An image keeps its data, without the line breaks inside it.
            found[key] = f"#{names[value[1:]]}" if value.startswith("#") else "".join(value.split())
        elif not (key == "transform" and value.startswith("rotate(-0 ")):
            found[key] = value
    for key, value in found.items():
        if key not in ("id", "href"):
            value = _REFERENCE.sub(lambda m: f"url(#{names[m[1]]})", value)
            found[key] = _NUMBER.sub(_rounded, " ".join(value.split()))
    if tag == "path" and "d" in found:
        found["d"] = _shortened(found["d"])
    return found


def _shortened(path: str) -> str:
    """The path with the steps of its straight lines instead of their ends, which are longer."""
    if set(re.findall("[A-Za-z]", path)) - set("MLz"):
        return re.sub(r" ?([A-Za-z]) ?", r"\1", path)
    text, here, start = "", (0, 0), (0, 0)
    for command, numbers in re.findall(r"([MLz])([^MLz]*)", path):
        if command == "z":
            text, here = text + "z", start
            continue
        # In hundredths, whole numbers: steps that add up leave no error behind.
        x, y = (round(100 * float(number)) for number in numbers.split())
        if command == "M":
            text += f"M{_hundredths(x)} {_hundredths(y)}"
            start = (x, y)
        elif y == here[1]:
            text += f"h{_hundredths(x - here[0])}"
        elif x == here[0]:
            text += f"v{_hundredths(y - here[1])}"
        else:
            text += f"l{_hundredths(x - here[0])} {_hundredths(y - here[1])}"
        here = (x, y)
    return text


def _hundredths(number: int) -> str:
    text = f"{number / 100:.2f}".rstrip("0").rstrip(".")
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def _declared(style: str) -> dict[str, str]:
    """The declarations of a style as attributes; the font is the page's, its size the picture's."""
    found: dict[str, str] = {}
    for declaration in style.split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key == "font":  # the short form of some versions: [style] [weight] size family
            match = _FONT.match(value)
            if match:
                parts = ("font-style", "font-weight", "font-size")
                found.update({p: m for p, m in zip(parts, match.groups(), strict=True) if m})
        elif key and key != "font-family":
            found[key] = value.removesuffix("px") if key == "font-size" else value
    return found


def _rounded(match: re.Match[str]) -> str:
    """Hundredths of a point: a tenth of what a printer can place."""
    return _hundredths(round(100 * float(match[0])))
