"""Several recoveries side by side: the page that compares runs, and the weights they may share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import blended_transform_factory

from tacit.inference.numerics import holm
from tacit.inverse.findings import LEVEL, chance, listed
from tacit.inverse.joint.recovery import JointRecovery
from tacit.inverse.recovery import Recovery
from tacit.many import Differences, numbers_of
from tacit.show import Block, Document, Headline, Items, Picture, Section, Tone
from tacit.show.canvas import INK, axes_at, fit_text, new_figure, plain, styled, svg
from tacit.show.curves import Interval, draw_intervals
from tacit.show.summary import units_sentence
from tacit.show.tables import Column, Row, Table, interval_words, short

MOST_DRAWN = 24  # differences; all are in the table
MOST_BESIDE = 60  # intervals of a picture that compares
WIDTH = 3.7  # inches of a figure that compares: a phone shows it

Known = tuple[float, float, float]  # a number and both ends of its interval


def comparison_document(
    recoveries: Mapping[str, Recovery], told: Differences, shared: JointRecovery | None = None
) -> Document:
    """The page about several recoveries: what each wants and refuses, and how they differ.

    Args:
        recoveries: name -> what was recovered, all in the units to show.
        told: their differences, in these.
        shared: the fit in which all of them have the same weights, where there is one.
    """
    first = next(iter(recoveries.values()))
    gaps = [
        (f"{r.quantity}: {r.name}", Interval(f"{r.first} - {r.second}", r.value, r.low, r.high))
        for r in told.rows[:MOST_DRAWN]
    ]
    sections = [Section("Every weight and price", beside(recoveries))]
    if gaps:
        alt = "Their differences with 95 % intervals, the clearest first."
        picture = Picture(svg(interval_panel(gaps)), alt, name="differences")
        sections.append(Section("Their differences", [picture]))
    heads = ("Number", "Of", "Difference", "Low", "High", "p", "p by Holm")
    rows = [
        Row([f"{r.quantity}: {r.name}", f"{r.first} - {r.second}", *(float(x) for x in numbers)])
        for r in told.rows
        for numbers in [(r.value, r.low, r.high, r.p_value, r.adjusted)]
    ]
    note = "Those that share no individuals are taken to be independent."
    if any(row.shared_individuals for row in told.rows):
        note += " Where individuals are in both, errors are added."
    note += " By Holm: adjusted for all rows of this table."
    table = Table("Differences", [Column(head) for head in heads], rows, note, sortable=True)
    if rows:
        sections.append(Section("All differences", [table]))
    said = [
        Headline(str(one), "" if n else "Do they differ?") for n, one in enumerate(told.sentences)
    ]
    if shared is not None:
        said += agreement_headlines(shared)
        sections.insert(1, shared_section(shared, recoveries))
    return Document(
        f"{listed(list(recoveries), 6)} compared",
        said,
        [one for one in sections if one.blocks],
        lead="What each wants and refuses, side by side, and what is sure about the differences. "
        + units_sentence(first),
    )


def beside(recoveries: Mapping[str, Recovery]) -> list[Block]:
    """One picture of every weight and price of all of them; nothing where none is known."""
    weights, prices = (
        [
            (head, Interval(who, value, low, high))
            for head, each in _by_number(recoveries, prices=prices).items()
            for who, (value, low, high) in each.items()
            if value == value and low < high
        ]
        for prices in (False, True)
    )
    if not weights and not prices:
        return []
    alt = f"Every weight and price with its 95 % interval, for {listed(list(recoveries), 6)}."
    caption, total = "", len(weights) + len(prices)
    if total > MOST_BESIDE:
        caption = f"The first {MOST_BESIDE} of {total} intervals."
    shown = weights[:MOST_BESIDE], prices[: max(0, MOST_BESIDE - len(weights))]
    image = svg(interval_panel(*(rows for rows in shown if rows)))
    return [Picture(image, alt, caption=caption, name="forest")]


@styled()
def interval_panel(*parts: Sequence[tuple[str, Interval]]) -> Figure:
    """Panels of intervals under the name of what they are, each on an axis of its own.

    Narrow, so that a phone shows it.
    """
    longest = max(len(row.name) for told in parts for _, row in told)
    left, top = float(np.clip(0.062 * longest + 0.15, 0.4, 2.0)), 0.1
    many = [len(told) + len({head for head, _ in told}) for told in parts]
    figure = new_figure(WIDTH, sum(0.2 * rows + 0.5 for rows in many))
    for told, rows in zip(parts, many, strict=True):
        axes = axes_at(figure, left, top, WIDTH - 0.12 - left, 0.2 * rows)
        _draw_headed(told, axes)
        top += 0.2 * rows + 0.5
    return figure


def _draw_headed(told: Sequence[tuple[str, Interval]], axes: Axes) -> None:
    """Draws intervals from the top down, those of one name together under it."""
    rows: list[Interval] = []
    heads: list[int] = []
    for n, (head, row) in enumerate(told):
        if not n or told[n - 1][0] != head:
            heads.append(len(rows))
            rows.append(Interval(head, np.nan, np.nan, np.nan))
        rows.append(row)
    ends = [end for _, row in told for end in (row.low, row.high) if np.isfinite(end)]
    low, high = min([0.0, *ends]), max([1e-9, *ends])
    draw_intervals(rows, axes, limits=(1.04 * low, 1.04 * high))
    axes.set_yticks(range(len(rows)), [plain(row.name) for row in rows])
    for place, label in enumerate(axes.get_yticklabels()):
        if place in heads:  # it begins where the names do, and may go on above its rows
            label.set_visible(False)
            across = blended_transform_factory(axes.figure.transFigure, axes.transData)
            name = {"transform": across, "va": "center", "weight": "bold", "clip_on": False}
            fit_text(axes.text(0.1 / WIDTH, place, label.get_text(), **name), axes)
    for place in range(len(rows)) if low < 0 else ():
        if place not in heads:  # no line through a name
            axes.plot([0.0, 0.0], [place - 0.5, place + 0.5], color=INK, lw=0.8)


def _by_number(recoveries: Mapping[str, Recovery], *, prices: bool) -> dict[str, dict[str, Known]]:
    """Name of a number -> whose -> value and interval, of the prices or of the weights."""
    found: dict[str, dict[str, Known]] = {}
    wanted = ("price ",) if prices else ("reward: ", "cost ")
    for who, one in recoveries.items():
        for name, number in numbers_of(one).items():
            k = number.constraint
            features = one.reward_names if k is None else one.cost_names[k]
            if name.startswith(wanted) and (prices or len(features) > 1):  # a lone weight is 1
                head = f"{name}: {' and '.join(features[:3])}" if prices else name
                found.setdefault(head, {})[who] = (number.value, number.low, number.high)
    return found


# ------------------------------------------------------------------------------- shared weights


def agreements(found: JointRecovery) -> list[tuple[str, float, float]]:
    """What is shared and tested, the p-value that it is the same, and that by Holm's method."""
    names = ["the reward"]
    for k, features in enumerate(found.recoveries[0].cost_names):
        names.append(features[0] if len(features) == 1 else f"constraint {k}")
    known = [(n, float(p)) for n, p in zip(names, found.agreement, strict=False) if p == p]
    adjusted = holm([p for _, p in known]) if known else []
    return [(n, p, float(q)) for (n, p), q in zip(known, adjusted, strict=True)]


def agreement_headlines(found: JointRecovery) -> list[Headline]:
    """Whether weights fitted apart may be the same, one headline a test."""
    heads = []
    for what, _, adjusted in agreements(found):
        apart = adjusted < LEVEL
        text = (
            f"They {'do not share' if apart else 'may share'} the weights of {what} "
            f"({chance(adjusted)} if they do, adjusted by Holm's method)."
        )
        if apart:
            text += " The shared weights are a compromise."
        verdict = ("a compromise", Tone.CAUTION) if apart else ("not shown to differ", Tone.GOOD)
        heads.append(Headline(text, "Do they share their weights?", *verdict))
    return heads


def shared_section(found: JointRecovery, own: Mapping[str, Recovery]) -> Section:
    """The weights of all beside those of each by itself, and the tests between them.

    Args:
        found: the joint fit.
        own: name -> the recovery of each by itself; none where only the joint fit is known.
    """
    drawn, rows = _shared_rows(found, own)
    blocks: list[Block] = []
    tests = [
        Row([f"weights of {what}", short(p, digits=2), short(q, digits=2), verdict])
        for what, p, q in agreements(found)
        for verdict in ["not the same" if q < LEVEL else "not shown to differ"]
    ]
    if tests:
        heads = [Column("Shared"), Column("p"), Column("p by Holm"), Column("They are")]
        note = (
            "p: the chance that weights fitted apart differ this much if they are the same, steps "
            "taken to be independent. Where trajectories differ more than the model allows, the "
            "differences of the runs, which count that, say more."
        )
        blocks.append(Table("Tests between shared and own weights", heads, tests, note))
    else:
        said = "Nothing is tested: no weight that is shared was free in two of them."
        blocks.append(Items([said]))
    if drawn:
        alt = "Each shared weight above those that each has by itself, with 95 % intervals."
        image = svg(interval_panel(drawn[:MOST_BESIDE]))
        blocks.append(Picture(image, alt, name="shared"))
    if rows:
        heads = [Column("Weight"), Column("Shared"), *(Column(who) for who in own)]
        blocks.append(Table("Shared and own weights", heads, rows))
    lead = "One fit of all of them with the same weights; noise and prices stay those of each."
    return Section("If they share their weights", blocks, lead)


def _shared_rows(
    found: JointRecovery, own: Mapping[str, Recovery]
) -> tuple[list[tuple[str, Interval]], list[Row]]:
    """What is drawn and what is written of each shared weight: its own, then that of each."""
    known, first, alone = found.identification, found.recoveries[0], _by_number(own, prices=False)
    parts = []
    if not isinstance(found.reward_weights, tuple):
        parts.append(("reward", first.reward_names, found.reward_weights, known.reward_intervals))
    for k, weights in enumerate(found.cost_weights):
        parts.append((f"cost {k}", first.cost_names[k], weights, known.cost_intervals[k]))
    drawn: list[tuple[str, Interval]] = []
    rows = []
    for quantity, names, weights, ends in parts:
        for name, weight, (low, high) in zip(names, weights, ends, strict=True):
            if np.isnan(weight):
                continue
            head = f"{quantity}: {name}"
            every = {"shared": (float(weight), float(low), float(high)), **alone.get(head, {})}
            drawn += [(head, Interval(w, *n)) for w, n in every.items() if n[0] == n[0]]
            cells = [_words(*every.get(who, (np.nan,) * 3)) for who in ("shared", *own)]
            rows.append(Row([head, *cells]))
    return drawn, rows


def _words(value: float, low: float, high: float) -> str:
    """A number with its interval, as text."""
    if np.isnan(value):
        return "–"
    if np.isnan(low) or low == high:
        return short(value)
    return f"{short(value)} ({interval_words(low, high)})"
