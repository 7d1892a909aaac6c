"""Several recoveries side by side: the page that compares runs, and the weights they may share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit.inverse.diagnostics import holm
from tacit.inverse.findings import LEVEL, chance, listed
from tacit.inverse.joint.recovery import JointRecovery
from tacit.inverse.recovery import Recovery
from tacit.many import Differences
from tacit.model.layout import Layout
from tacit.show import Block, Document, Headline, Items, Picture, Section, Tone
from tacit.show.canvas import figure_of, svg
from tacit.show.intervals import Interval, draw_beside
from tacit.show.plot import WEIGHTS, several
from tacit.show.quantities import NamedRecovery, weights_of
from tacit.show.summary import units_sentence
from tacit.show.tables import MISSING, Table, interval_words, short

DIFFER, NOT_SHOWN = "not the same", "not shown to differ"


def comparison_document(
    recoveries: Mapping[str, Recovery], told: Differences, shared: JointRecovery | None = None
) -> Document:
    """The page about several recoveries: what each wants and refuses, and how they differ.

    Args:
        recoveries: name -> what was recovered, all in the units to show.
        told: their differences, in these.
        shared: the fit in which all of them have the same weights, where there is one.
    """
    sections = [Section("Every weight and price", beside(recoveries))]
    if shared is not None:
        sections.append(shared_section(shared, recoveries))
    if told.rows:
        sections += _difference_sections(told)
    said = [
        Headline(str(one), "" if n else "Do they differ?") for n, one in enumerate(told.sentences)
    ]
    return Document(
        f"{listed(list(recoveries), 6)} compared",
        said + ([] if shared is None else agreement_headlines(shared)),
        [one for one in sections if one.blocks],
        lead="What each wants and refuses, side by side, and what is sure about the differences. "
        + units_sentence(next(iter(recoveries.values()))),
    )


def _difference_sections(told: Differences) -> list[Section]:
    """The differences, drawn pair by pair, and all of them in a table."""
    pairs: dict[str, list[Interval]] = {}
    for row in told.rows:
        name = f"{row.quantity}: {row.name}"
        gap = Interval(name, row.value, row.low, row.high)
        pairs.setdefault(f"{row.first} - {row.second}", []).append(gap)
    figure = figure_of(draw_beside(pairs, None, "difference"))
    alt = "Their differences with 95 % intervals, the clearest first."
    drawn = Section("Their differences", [Picture(svg(figure), alt, name="differences")])
    note = "Those that share no individuals are taken to be independent."
    if any(row.shared_individuals for row in told.rows):
        note += " Where individuals are in both, errors are added."
    numbers = {
        "Difference": "value",
        "Low": "low",
        "High": "high",
        "p": "p_value",
        "p by Holm": "adjusted",
    }
    columns = [
        ("Number", [f"{row.quantity}: {row.name}" for row in told.rows]),
        ("Of", [f"{row.first} - {row.second}" for row in told.rows]),
        *(
            (head, [float(getattr(row, name)) for row in told.rows])
            for head, name in numbers.items()
        ),
    ]
    table = Table.of(
        "Differences", columns, f"{note} By Holm: adjusted for all rows of this table.", listed=True
    )
    return [drawn, Section("All differences", [table])]


def beside(recoveries: Mapping[str, Recovery]) -> list[Block]:
    """One picture of every weight and price of all of them; nothing where none is known."""
    named = [NamedRecovery(one, Layout()) for one in recoveries.values()]
    known = [one.price_rows or [g for g in one.weights if len(g.order) > 1] for one in named]
    if not any(known):
        return []
    alt = f"Every weight and price with its 95 % interval, for {listed(list(recoveries), 6)}."
    return [Picture(svg(several(recoveries)), alt, name="forest")]


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
        verdict = ("a compromise", Tone.CAUTION) if apart else (NOT_SHOWN, Tone.GOOD)
        heads.append(Headline(text, "Do they share their weights?", *verdict))
    return heads


def shared_section(found: JointRecovery, own: Mapping[str, Recovery]) -> Section:
    """The weights of all beside those of each by itself, and the tests between them.

    Args:
        found: the joint fit.
        own: name -> the recovery of each by itself; none where only the joint fit is known.
    """
    known, first = found.identification, found.recoveries[0]
    reward = found.reward_weights
    apart = isinstance(reward, tuple)
    groups = weights_of(
        first, reward[0] if isinstance(reward, tuple) else reward, found.cost_weights, known
    )
    rows = {"shared": [row for group in groups[apart:] for row in group.rows]}
    names = [row.name for row in rows["shared"]]
    for who, one in own.items():
        each = NamedRecovery(one, Layout()).weight_rows
        rows[who] = [row for row in each if row.name in names]
    blocks: list[Block] = []
    if tests := agreements(found):
        what, p_values, adjusted = zip(*tests, strict=True)
        columns = [
            ("Shared", [f"weights of {name}" for name in what]),
            ("p", [short(p, digits=2) for p in p_values]),
            ("p by Holm", [short(p, digits=2) for p in adjusted]),
            (
                "They are",
                ["not the same" if p < LEVEL else "not shown to differ" for p in adjusted],
            ),
        ]
        note = (
            "p: the chance that weights fitted apart differ this much if they are the same, steps "
            "taken to be independent. Where trajectories differ more than the model allows, the "
            "differences of the runs, which count that, say more."
        )
        blocks.append(Table.of("Tests between shared and own weights", columns, note))
    else:
        said = "Nothing is tested: no weight that is shared was free in two of them."
        blocks.append(Items([said]))
    if names:
        alt = "Each shared weight beside those that each has by itself, with 95 % intervals."
        figure = figure_of(draw_beside(rows, None, WEIGHTS))
        blocks.append(Picture(svg(figure), alt, name="shared"))
        columns = [("Weight", names), *((who, _words(each, names)) for who, each in rows.items())]
        blocks.append(Table.of("Shared and own weights", columns))
    lead = "One fit of all of them with the same weights; noise and prices stay those of each."
    return Section("If they share their weights", blocks, lead)


def _words(rows: Sequence[Interval], names: Sequence[str]) -> list[str]:
    """Of each name the number and its interval, as text."""
    said = dict.fromkeys(names, MISSING)
    for row in rows:
        said[row.name] = short(row.estimate)
        if row.low < row.high:
            said[row.name] += f" ({interval_words(row.low, row.high)})"
    return list(said.values())
