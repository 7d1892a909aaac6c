"""Pages about several recoveries: types of a mixture, tasks of a joint fit, runs compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tacit import __version__
from tacit.folders.runs import Run
from tacit.inverse.findings import LEVEL, OPEN, WARNINGS, Finding, Kind, chance, of_kinds
from tacit.inverse.joint.recovery import JointRecovery
from tacit.inverse.noisy.mixture import MixtureRecovery
from tacit.inverse.noisy.types import SURE
from tacit.inverse.recovery import Recovery
from tacit.inverse.standardised import shown
from tacit.model.transitions import Layout
from tacit.show import (
    Block,
    Choice,
    Details,
    Document,
    Facts,
    Gallery,
    Headline,
    Items,
    Option,
    Section,
    Selector,
    Tone,
)
from tacit.show.checks import cell, history_picture
from tacit.show.differences import agreement_headlines, beside, shared_section
from tacit.show.maps import map_gallery
from tacit.show.page import (
    HEADS,
    MOST_TRAJECTORIES,
    WEIGHTS,
    data_section,
    reproduce_section,
    title_of,
    without_names,
)
from tacit.show.quantities import NamedRecovery, state_table, weight_tables
from tacit.show.report import NAMED, capital, character, first_sentences
from tacit.show.summary import units_sentence
from tacit.show.tables import Bars, Cell, Column, Table, interval_words, share, short

MOST_TYPES = 6  # chances of a table, a column each


def several_document(run: Run, *, private: bool = False, raw_units: bool = False) -> Document:
    """The report of a run that holds types of a mixture, or tasks.

    Args:
        run: what was recovered, and from what.
        private: whether to leave out states, episodes, groups and paths, so that it can be shared.
        raw_units: whether weights and prices are of the features as given, not of standardised
            ones.
    """
    run = replace(run, recovery=shown(run.recovery, raw_units=raw_units))
    found: object = run.recovery
    if isinstance(found, MixtureRecovery):
        return _document(run, _types_of(found), private=private)
    assert isinstance(found, JointRecovery)
    return _document(run, _tasks_of(found, run.config.get("tasks")), private=private)


class _Several(NamedTuple):
    """What is shown side by side: names to recoveries, in words one and many, and a lead."""

    each: dict[str, Recovery]
    one: str
    many: str
    lead: str


def _types_of(found: MixtureRecovery) -> _Several:
    lead = (
        "Several types of demonstrators, nobody told who is of which: what each type wants and "
        "refuses, and which trajectories are likely its own."
    )
    names = [f"type {k} ({share(part)})" for k, part in enumerate(found.shares)]
    return _Several(dict(zip(names, found.types, strict=True)), "type", "types", lead)


def _tasks_of(found: JointRecovery, names: object) -> _Several:
    many = len(found.recoveries)
    given = names if isinstance(names, list | tuple) and len(set(names)) == many else range(many)
    called = [str(one) if isinstance(one, str) else f"task {one}" for one in given]
    lead = (
        "Several tasks recovered together: what they share is one answer of all of them; the rest "
        "is their own."
    )
    return _Several(dict(zip(called, found.recoveries, strict=True)), "task", "tasks", lead)


def _document(run: Run, several: _Several, *, private: bool) -> Document:
    """The page of types or tasks: whether they fit, each in words, then side by side."""
    found: MixtureRecovery | JointRecovery = run.recovery  # type: ignore[assignment]
    if private:
        names = (f"{several.one} {k}" for k in range(len(several.each)))
        kept = several.each.values()
        several = several._replace(each=dict(zip(names, kept, strict=True)))
    told = run
    run = without_names(run) if private else run
    named = {
        name: NamedRecovery(one, _fitting(run.layout, one)) for name, one in several.each.items()
    }
    count = f"{len(named)} {several.many if len(named) > 1 else several.one}"
    heads = [_fit_headline(told, found, list(named), private=private)]
    sections: list[Section] = []
    if isinstance(found, MixtureRecovery):
        heads.append(_share_headline(found))
        if not private:
            sections.append(_membership(found, run.trajectories))
    else:
        heads += agreement_headlines(found)
        sections.append(shared_section(found, {}))
    heads += [character(one, name) for name, one in named.items()]
    heads += _open_headlines(found.findings)
    together = Section(f"The {several.many} side by side", beside(several.each), WEIGHTS)
    parts = [] if private else [_part("Where each goes", several.one, named, _where)]
    parts.append(_part("Weights, budgets and prices", several.one, named, weight_tables))
    if isinstance(found, MixtureRecovery):  # the table of memberships has the fits
        run = replace(run, trajectories={})
    return Document(
        title=f"{title_of(run.config)}: {count}",
        headlines=heads,
        sections=[
            together,
            *sections,
            *parts,
            _guarantees(found, several, private=private),
            data_section(run),
            *([] if private else [reproduce_section(run)]),
        ],
        lead=f"{several.lead} {units_sentence(next(iter(several.each.values())))}",
        facts=Facts(_facts(run, found, several)),
        footer=f"tacit {__version__}. The numbers are in `recovery.npz` beside this page.",
    )


def _fitting(layout: Layout, one: Recovery) -> Layout:
    """The layout where it is that of this recovery's world; tasks may have worlds of their own."""
    states = 0 if one.solution is None else len(one.solution.policy)
    named = len(layout.state_names) in (0, states)
    placed = not layout.is_grid or layout.rows * layout.columns <= states
    return layout if named and placed else Layout()


def _facts(run: Run, found: MixtureRecovery | JointRecovery, several: _Several) -> dict[str, Cell]:
    facts: dict[str, Cell] = {
        "recovered by": found.estimator.partition("(")[0],
        several.many: len(several.each),
    }
    for name in ("episodes", "steps", "states", "actions", "discount"):
        value = run.data.get(name)
        facts |= {name: value} if isinstance(value, int | float) else {}
    return facts


# ------------------------------------------------------------------------------- headlines


def _fit_headline(
    run: Run, found: MixtureRecovery | JointRecovery, names: Sequence[str], *, private: bool
) -> Headline:
    """Whether the model fits, before anything is read from it."""
    label = "Does the model fit?"
    if isinstance(found, JointRecovery):
        layout = Layout() if private else _fitting(run.layout, found.recoveries[found.worst])
        text = found.goodness.sentence(layout.state_names, layout.action_names)
        if len(found.recoveries) > 1:
            text = f"{names[found.worst]} fits least: {text}"
        adequate, tested = found.goodness.adequate, not found.goodness.absence
    else:
        chances = np.asarray(run.trajectories.get("p_value", []), dtype=float)
        tested = bool(np.isfinite(chances).any())
        least = min(1.0, len(chances) * float(np.nanmin(chances))) if tested else np.nan
        adequate = not least < LEVEL
        text = (
            f"Of {len(chances)} trajectories, each judged by its likeliest type, none fits worse "
            f"than chance allows ({chance(least)})."
        )
        if not adequate:
            few = int((chances < LEVEL / len(chances)).sum())
            who = "" if private else f" The worst is {run.trajectories['episode'][0]}."
            text = (
                f"{few} of {len(chances)} trajectories fit{'s' if few == 1 else ''} none of the "
                f"types: too badly for chance, even by the likeliest one.{who}"
            )
        if not tested:
            text = "How well trajectories fit their types is not kept in this folder."
    if not tested:
        return Headline(text, label, "not tested", Tone.CAUTION)
    verdict = ("yes", Tone.GOOD) if adequate else ("no", Tone.CAUTION)
    return Headline(text, label, *verdict)


def _share_headline(found: MixtureRecovery) -> Headline:
    """How many types there are, and how many trajectories are of each."""
    many = len(found.types)
    parts = [
        f"type {k} is **{share(part)}** of the trajectories"
        for k, part in enumerate(found.shares[:NAMED])
    ]
    text = f"**{many}** {'types' if many > 1 else 'type'}: {', '.join(parts)}"
    text += f", and {many - NAMED} more." if many > NAMED else "."
    limits = 100.0 * found.share_intervals
    ends = [f"type {k} {interval_words(*limits[k])} %" for k in range(many)]
    told = zip(found.tried.tolist(), found.criteria.tolist(), strict=True)
    detail = f"95 % interval: {'; '.join(ends)}. " if many > 1 else ""
    detail += "BIC, the smaller the better: "
    detail += ", ".join(f"{value:.6g} for {n}" for n, value in told) + "."
    doubted = int(found.tried[int(np.argmin(found.criteria))]) != many
    verdict, tone = ("fewer would do", Tone.CAUTION) if doubted else ("", Tone.PLAIN)
    return Headline(text, "How many types", verdict, tone, detail=detail)


def _open_headlines(findings: Sequence[Finding]) -> list[Headline]:
    """Warnings about all of them together, and what cannot be told."""
    heads = []
    kinds = [kind for kind in WARNINGS if kind is not Kind.MISFIT]
    for label, wanted in (("Warnings", kinds), ("What cannot be told", OPEN)):
        told = [capital(one) for one in of_kinds(findings, wanted)]
        if told:
            below = "Guarantees and findings"
            heads.append(first_sentences(told, label, Tone.CAUTION, below))
    return heads


# ------------------------------------------------------------------------------- sections


def _membership(found: MixtureRecovery, columns: Mapping[str, np.ndarray]) -> Section:
    """How likely each trajectory is of each type, the least sure first; and groups by type."""
    many, chances = len(found.types), found.membership
    order = np.argsort(chances.max(axis=1), kind="stable")[:MOST_TRAJECTORIES]
    names = {"number": np.arange(len(chances)), **columns}
    # The table of the run is in the order of fits; its numbers say whose rows they are.
    place = np.argsort(np.asarray(names["number"]), kind="stable")
    told = {n: np.asarray(c)[place] for n, c in names.items() if len(c) == len(chances)}
    told.setdefault("episode", np.arange(len(chances)))
    shown: list[tuple[str | Column, Sequence[Cell] | np.ndarray | Bars]] = [
        ("Episode", [str(name) for name in told["episode"][order]]),
        (Column("Type", "the likeliest"), [f"type {k}" for k in found.assigned[order]]),
    ]
    for k in range(min(many, MOST_TYPES)):
        bars = Bars(100.0 * chances[order, k], limits=(0.0, 100.0))
        shown.append((Column(f"Type {k}", "chance in %"), bars))
    for name in ("group", "steps", "z_score", "p_value"):
        if name in told:
            shown.append((HEADS[name], [cell(value) for value in told[name][order].tolist()]))
    note = "The least certain stand first. Fits are judged by the likeliest type."
    if len(chances) > MOST_TRAJECTORIES:
        note += f" {MOST_TRAJECTORIES} of {len(chances)} are listed."
    blocks: list[Block] = [Table.of("Who is of which type", shown, note, listed=True)]
    if "group" in told:
        blocks.insert(0, _group_table(found, told["group"]))
    unsure = int((chances.max(axis=1) < SURE).sum())
    lead = (
        f"{unsure} of {len(chances)} trajectories are of no type with a chance of {100 * SURE:g} %."
    )
    return Section("Who is of which type", blocks, lead if unsure else "")


def _group_table(found: MixtureRecovery, groups: np.ndarray) -> Table:
    """How many trajectories of each group are of each type."""
    names, sizes = np.unique(groups.astype(str), return_counts=True)
    expected = [found.membership[groups.astype(str) == name].sum(axis=0) for name in names]
    columns: list[tuple[str | Column, Sequence[Cell] | np.ndarray | Bars]] = [
        ("Group", names),
        ("Episodes", sizes),
    ]
    for k in range(min(len(found.types), MOST_TYPES)):
        bars = Bars([row[k] for row in expected], limits=(0.0, float(sizes.max())))
        columns.append((Column(f"Type {k}", "expected"), bars))
    return Table.of("Groups by type", columns)


def _part(
    title: str,
    one: str,
    named: Mapping[str, NamedRecovery],
    blocks: Callable[[NamedRecovery], Sequence[Block]],
) -> Section:
    """One thing of each of them, chosen by its name."""
    options = [Option((k,), blocks(who)) for k, who in enumerate(named.values())]
    return Section(title, [Choice([Selector(one, list(named))], options)])


def _where(named: NamedRecovery) -> list[Block]:
    """Maps where there are some, and the states."""
    return [*([map_gallery(named)] if named.layout.is_map else []), state_table(named)]


def _guarantees(
    found: MixtureRecovery | JointRecovery, several: _Several, *, private: bool
) -> Section:
    """Every finding, of all and of each, and the search."""
    blocks: list[Block] = []
    told = [capital(one) for one in found.findings]
    if told and not private:
        blocks.append(Items(told))
    each = several.each.values()
    columns = [
        (capital(several.one), [*several.each]),
        ("Status", [one.status.value for one in each]),
        ("Feature gap", [short(one.certificate.feature_gap, digits=2) for one in each]),
    ]
    blocks.append(Table.of(f"Each {several.one}", columns))
    for name, one in several.each.items():
        said = [capital(finding) for finding in one.identification.findings]
        if said and not private:
            blocks.append(Details(f"What is said of {name}", [Items(said)]))
    likely = np.asarray(found.history.columns.get("log_likelihood", ()), dtype=float)
    if len(likely) > 2 and np.isfinite(likely).all():
        title = "log-likelihood, less that at the end"
        blocks.append(Gallery([history_picture(title, likely - likely[-1])]))
    return Section("Guarantees and findings", blocks, f"Status: {found.status.value}.")
