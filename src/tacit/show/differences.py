"""Several recoveries side by side: the page that compares runs, and the weights they may share."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.files.wording import listed
from tacit.inverse.joint.recovery import JointRecovery
from tacit.inverse.recovery import Recovery
from tacit.many import Differences
from tacit.model.layout import Layout
from tacit.show import Block, Document, Headline, Picture, Section
from tacit.show.canvas import figure_of, svg
from tacit.show.intervals import draw_beside
from tacit.show.plot import WEIGHTS, overview
from tacit.show.quantities import Group, NamedRecovery, units_sentence
from tacit.show.several import agreement_headlines, shared_and_own, shared_tables
from tacit.show.tables import IntervalEstimate, Table


def comparison_document(
    recoveries: Mapping[str, Recovery], told: Differences, shared: JointRecovery | None = None
) -> Document:
    """The page about several recoveries: what each wants and refuses, and how they differ.

    Args:
        recoveries: name -> what was recovered, all in the units to show.
        told: their differences, in these.
        shared: the fit in which all of them have the same weights, where there is one.
    """
    sections = [Section("Every weight and price", forest(recoveries))]
    heads = [
        Headline(str(one), "" if n else "Do they differ?") for n, one in enumerate(told.sentences)
    ]
    if shared is not None:
        sections.append(shared_section(shared, recoveries))
        heads += agreement_headlines(shared)
    if told.rows:
        sections += _difference_sections(told)
    return Document(
        f"{listed(list(recoveries), 6)} compared",
        heads,
        [one for one in sections if one.blocks],
        lead="What each wants and refuses, side by side, and what is sure about the differences. "
        + units_sentence(next(iter(recoveries.values()))),
    )


def _difference_sections(told: Differences) -> list[Section]:
    """The differences, drawn pair by pair, and all of them in a table."""
    pairs: dict[str, dict[str, IntervalEstimate]] = {}
    for row in told.rows:
        pair = pairs.setdefault(f"{row.first} - {row.second}", {})
        pair[f"{row.quantity}: {row.name}"] = IntervalEstimate(row.value, row.low, row.high)
    alt = "Their differences with 95 % intervals, the clearest first."
    picture = _drawn(pairs, "difference", alt, "differences")
    note = "Those that share no individuals are taken to be independent."
    if any(row.shared_individuals for row in told.rows):
        note += " Where individuals are in both, errors are added."
    heads = {"value": "Difference", "low": "Low", "high": "High", "p_value": "p"}
    heads["adjusted"] = "p by Holm"
    columns = [
        ("Number", [f"{row.quantity}: {row.name}" for row in told.rows]),
        ("Of", [f"{row.first} - {row.second}" for row in told.rows]),
        *((head, told.columns[name]) for name, head in heads.items()),
    ]
    note += " By Holm: adjusted for all rows of this table."
    table = Table.of("Differences", columns, note, listed=True)
    return [Section("Their differences", [picture]), Section("All differences", [table])]


def _drawn(groups: Mapping[str, Group], label: str, alt: str, name: str) -> Picture:
    """A forest plot of these numbers."""
    return Picture(svg(figure_of(draw_beside(groups, None, label))), alt, name=name)


def forest(recoveries: Mapping[str, Recovery]) -> list[Block]:
    """One picture of every weight and price of all of them; nothing where none is known."""
    named = [NamedRecovery(one, Layout()) for one in recoveries.values()]
    if not any(one.price_rows or one.weight_rows(lone=False) for one in named):
        return []
    alt = f"Every weight and price with its 95 % interval, for {listed(list(recoveries), 6)}."
    return [Picture(svg(overview(recoveries)), alt, name="forest")]


def shared_section(joint: JointRecovery, own: Mapping[str, Recovery]) -> Section:
    """The weights of all beside those of each by itself, and the tests between them.

    Args:
        joint: the fit of all.
        own: name -> the recovery of each by itself; none where only the joint fit is known.
    """
    groups = shared_and_own(joint, own)
    blocks = shared_tables(joint, own)
    if groups["shared"]:
        alt = "Each shared weight beside those that each has by itself, with 95 % intervals."
        blocks.insert(1, _drawn(groups, WEIGHTS, alt, "shared"))
    lead = "One fit of all of them with the same weights; noise and prices stay those of each."
    return Section("If they share their weights", blocks, lead)
