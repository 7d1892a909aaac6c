"""What a report says, without how it looks: findings first, then sections made of blocks.

Everywhere a reader's text is expected, `code` between backticks and **strong** between two stars
are understood; everything else is shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tacit.show.pictures import Picture
from tacit.show.tables import Cell, Table


class Tone(Enum):
    """How a finding is meant. The value is a word for the style sheet."""

    PLAIN = "plain"
    GOOD = "good"
    CAUTION = "caution"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text.

    Attributes:
        text: what it says.
    """

    text: str


@dataclass(frozen=True)
class Items:
    """A list of points.

    Attributes:
        items: one text each.
        numbered: whether their order matters.
    """

    items: Sequence[str]
    numbered: bool = False


@dataclass(frozen=True)
class Facts:
    """Short facts, each a name and a value.

    Attributes:
        facts: name to value, in the order to show them.
    """

    facts: Mapping[str, Cell]


@dataclass(frozen=True)
class Code:
    """Text to copy: a command, a program, a configuration.

    Attributes:
        text: shown as it is.
    """

    text: str


@dataclass(frozen=True)
class Selector:
    """One thing to choose by.

    Attributes:
        name: what is chosen, such as "seed".
        values: what there is to choose from.
        slider: whether the values are steps on a scale, such as iterations.
    """

    name: str
    values: Sequence[str]
    slider: bool = False


@dataclass(frozen=True)
class Option:
    """What is shown for one choice.

    Attributes:
        at: index of the chosen value of each selector.
        blocks: what is shown.
    """

    at: Sequence[int]
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Choice:
    """Several alternatives, one shown at a time. The first is shown at first.

    A report that would become too large leaves out the last ones, and says so.

    Attributes:
        selectors: what to choose by.
        options: what there is; not every combination need be there.
        elsewhere: where those that were left out are found, such as "the folder `figures`".
        left_out: how many were left out.
    """

    selectors: Sequence[Selector]
    options: Sequence[Option]
    elsewhere: str = ""
    left_out: int = 0

    def __post_init__(self) -> None:
        if not self.options:
            raise ValueError("a choice must have at least one option")
        places = [tuple(option.at) for option in self.options]
        if len(set(places)) < len(places):
            raise ValueError("no two options of a choice may lie at the same place")
        for option in self.options:
            limits = [len(selector.values) for selector in self.selectors]
            if len(option.at) != len(limits) or any(
                not 0 <= i < n for i, n in zip(option.at, limits, strict=True)
            ):
                raise ValueError(f"an option must lie within {limits}; got {tuple(option.at)}")


@dataclass(frozen=True)
class Details:
    """What only some readers want, folded away.

    Attributes:
        summary: what unfolding it shows.
        blocks: what it holds.
    """

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Gallery:
    """Blocks side by side, as many as there is room for.

    Attributes:
        blocks: what it holds.
    """

    blocks: Sequence[Block]


Block = Paragraph | Items | Facts | Code | Table | Picture | Choice | Details | Gallery


@dataclass(frozen=True)
class Finding:
    """One thing that was found, in plain words.

    Attributes:
        text: the finding, a sentence or two.
        label: what it answers, such as "What it wants".
        verdict: a word or two, such as "confirmed".
        tone: of the verdict.
        detail: the numbers behind it, in smaller print.
    """

    text: str
    label: str = ""
    verdict: str = ""
    tone: Tone = Tone.PLAIN
    detail: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report with its own heading.

    Attributes:
        title: its heading.
        blocks: what it holds.
        lead: what the section is about, below its heading.
    """

    title: str
    blocks: Sequence[Block]
    lead: str = ""


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes:
        title: what it is about.
        findings: what was found, most important first.
        sections: what they rest on.
        lead: a paragraph below the title.
        facts: what was run, in a strip below it.
        footer: how it was made.
    """

    title: str
    findings: Sequence[Finding]
    sections: Sequence[Section]
    lead: str = ""
    facts: Facts | None = None
    footer: str = ""
