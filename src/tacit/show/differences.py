"""Several recoveries side by side: the page that compares runs, and the weights they may share."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.estimators.joint_recovery import JointRecovery
from tacit.files.wording import listed
from tacit.many import Differences
from tacit.model.layout import Layout
from tacit.recovery import Recovery
from tacit.show import Block, Document, Headline, Picture, Section
from tacit.show.canvas import figure_of, svg
from tacit.show.intervals import draw_beside
from tacit.show.plot import overview
from tacit.show.quantities import NamedRecovery, units_sentence
from tacit.show.several import (
    agreement_headlines,
    difference_table,
    shared_weights,
)
from tacit.show.tables import IntervalEstimate, Table

SHARED = "shared"  # the fit in which all have the same weights


def comparison_document(
    recoveries: Mapping[str, Recovery], gaps: Differences, shared: JointRecovery | None = None
) -> Document:
    """The page about several recoveries: what each wants and refuses, and how they differ.

    Args:
        recoveries: name -> what was recovered, all in the units to show.
        gaps: their differences, in these.
        shared: the fit in which all of them have the same weights, where there is one.
    """
    every = dict(recoveries) if shared is None else {**recoveries, SHARED: shared_weights(shared)}
    sections = [Section("Every weight and price", every_number(every))]
    heads = [
        Headline(str(one), "" if n else "Do they differ?") for n, one in enumerate(gaps.sentences)
    ]
    if shared is not None:
        heads += agreement_headlines(shared)
    if gaps.rows:
        sections += _difference_sections(gaps)
    return Document(
        f"{listed(list(recoveries), 6)} compared",
        heads,
        [one for one in sections if one.blocks],
        lead="What each wants and refuses, side by side, and what is sure about the differences. "
        + units_sentence(next(iter(recoveries.values()))),
    )


def _difference_sections(gaps: Differences) -> list[Section]:
    """The differences, drawn pair by pair, and all of them in a table."""
    pairs: dict[str, dict[str, IntervalEstimate]] = {}
    for row in gaps.rows:
        pair = pairs.setdefault(f"{row.first} - {row.second}", {})
        pair[f"{row.quantity}: {row.name}"] = IntervalEstimate(row.value, row.low, row.high)
    drawing = svg(figure_of(draw_beside(pairs, None, "difference")))
    alt = "Their differences with 95 % intervals, the clearest first."
    picture = Picture(drawing, alt)
    table = difference_table(gaps)
    return [Section("Their differences", [picture]), Section("All differences", [table])]


def every_number(recoveries: Mapping[str, Recovery]) -> list[Block]:
    """A picture and a table of every weight and price of all; nothing where none is known."""
    rows = {}
    for who, one in recoveries.items():
        named = NamedRecovery(one, Layout())
        prices = {f"price: {name}": price for name, price in named.price_rows.items()}
        rows[who] = named.weight_rows(lone=False) | prices
    if not (names := list(dict.fromkeys(name for own in rows.values() for name in own))):
        return []
    alt = f"Every weight and price with its 95 % interval, for {listed(list(recoveries), 6)}."
    columns = [(who, [own.get(name) for name in names]) for who, own in rows.items()]
    table = Table.of("Weights and prices", [("Number", names), *columns])
    return [Picture(svg(overview(recoveries)), alt), table]
