"""The figures of a report as files, for papers and slides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tacit.show.document import Block, Choice, Details, Document, Gallery
from tacit.show.pictures import Picture


def figure_files(document: Document) -> dict[str, bytes]:
    """File name -> content of every picture of the document that has a name."""
    files: dict[str, bytes] = {}
    for section in document.sections:
        for picture in _pictures(section.blocks):
            ending = "svg" if isinstance(picture.image, str) else "png"
            image = picture.image.encode() if isinstance(picture.image, str) else picture.image
            files.setdefault(_free(files, picture.name, ending), image)
    return files


def _pictures(blocks: Iterable[Block]) -> Iterator[Picture]:
    for block in blocks:
        if isinstance(block, Picture):
            if block.name:
                yield block
        elif isinstance(block, Details | Gallery):
            yield from _pictures(block.blocks)
        elif isinstance(block, Choice):
            for option in block.options:
                yield from _pictures(option.blocks)


def _free(files: dict[str, bytes], name: str, ending: str) -> str:
    """The name of a file, numbered where another has it already."""
    wanted, number = f"{name}.{ending}", 2
    while wanted in files:
        wanted, number = f"{name}-{number}.{ending}", number + 1
    return wanted
