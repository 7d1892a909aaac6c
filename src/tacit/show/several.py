"""What the page says of several recoveries at once: types of a mixture, tasks of a joint fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tacit.folders.runs import Run
from tacit.inverse.findings import LEVEL, OPEN, WARNINGS, Finding, Kind, chance, of_kinds
from tacit.inverse.joint.recovery import JointRecovery
from tacit.inverse.noisy.mixture import MixtureRecovery
from tacit.inverse.noisy.types import SURE
from tacit.inverse.recovery import Recovery
from tacit.model.layout import Layout
from tacit.show import (
    Block,
    Choice,
    Details,
    Document,
    Facts,
    Headline,
    Items,
    Option,
    Section,
    Selector,
    Tone,
)
from tacit.show.appendix import fit_table, guarantee_table
from tacit.show.curves import convergence_section
from tacit.show.differences import agreement_headlines, beside, shared_section
from tacit.show.maps import map_gallery
from tacit.show.quantities import WEIGHTS, NamedRecovery, state_table, weight_tables
from tacit.show.report import NAMED, capital, character, first_sentences
from tacit.show.tables import Bars, Cell, Column, Table, interval_words, share

MOST_TYPES = 6  # chances of a table, a column each

LEADS = {
    "type": "Several types of demonstrators, nobody told who is of which: what each type wants and "
    "refuses, and which trajectories are likely its own.",
    "task": "Several tasks recovered together: what they share is one answer of all of them; the "
    "rest is their own.",
}


def several_page(
    found: JointRecovery | MixtureRecovery,
    run: Run,
    trajectories: Mapping[str, np.ndarray],
    *,
    private: bool,
) -> Document:
    """What the report of types or tasks says of them: each in words, then side by side.

    Args:
        found: what was recovered, in the units to show.
        run: what it was recovered from, without names where they are private.
        trajectories: how well each of them fits.
        private: whether to leave out states, episodes and groups.
    """
    if isinstance(found, MixtureRecovery):
        kind, each = "type", _types(found)
        heads = [_trajectories_fit(trajectories, private=private), _share_headline(found)]
        own = [] if private else [_membership(found, trajectories)]
    else:
        kind, each = "task", _tasks(found, run.config.get("tasks"))
        heads = [_tasks_fit(found, list(each), run.layout), *agreement_headlines(found)]
        own = [shared_section(found, {})]
    named = {name: NamedRecovery(one, _fitting(run.layout, one)) for name, one in each.items()}
    heads += [character(one, name) for name, one in named.items()]
    heads += _open_headlines(found.findings)
    plural = kind if len(each) == 1 else f"{kind}s"
    return Document(
        title=f": {len(each)} {plural}",
        headlines=heads,
        sections=[
            Section(f"The {plural} side by side", beside(each), WEIGHTS),
            *own,
            *([] if private else [_chosen("Where each goes", kind, named, _where)]),
            _chosen("Weights, budgets and prices", kind, named, weight_tables),
            _guarantees(found, kind, each, private=private),
            convergence_section(found),
        ],
        lead=LEADS[kind],
        facts=Facts({plural: len(each)}),
    )


def _types(found: MixtureRecovery) -> dict[str, Recovery]:
    names = [f"type {k} ({share(part)})" for k, part in enumerate(found.shares)]
    return dict(zip(names, found.types, strict=True))


def _tasks(found: JointRecovery, names: object) -> dict[str, Recovery]:
    """Name -> recovery, by the names that the run has for its tasks; else by number."""
    many = len(found.recoveries)
    given = names if isinstance(names, list | tuple) and len(set(names)) == many else range(many)
    called = [str(one) if isinstance(one, str) else f"task {one}" for one in given]
    return dict(zip(called, found.recoveries, strict=True))


def _fitting(layout: Layout, one: Recovery) -> Layout:
    """The layout where it is that of this recovery's world; tasks may have worlds of their own."""
    states = 0 if one.solution is None else len(one.solution.policy)
    named = len(layout.state_names) in (0, states)
    placed = not layout.is_grid or layout.rows * layout.columns <= states
    return layout if named and placed else Layout()


# ------------------------------------------------------------------------------- headlines


def _fit_headline(text: str, *, tested: bool, adequate: bool) -> Headline:
    """Whether the model fits, before anything is read from it."""
    verdict = ("yes" if adequate else "no") if tested else "not tested"
    tone = Tone.GOOD if verdict == "yes" else Tone.CAUTION
    return Headline(text, "Does the model fit?", verdict, tone)


def _tasks_fit(found: JointRecovery, names: Sequence[str], layout: Layout) -> Headline:
    layout, goodness = _fitting(layout, found.recoveries[found.worst]), found.goodness
    text = goodness.sentence(layout.state_names, layout.action_names)
    if len(names) > 1:
        text = f"{names[found.worst]} fits least: {text}"
    return _fit_headline(text, tested=not goodness.absence, adequate=goodness.adequate)


def _trajectories_fit(trajectories: Mapping[str, np.ndarray], *, private: bool) -> Headline:
    chances = np.asarray(trajectories.get("p_value", []), dtype=float)
    if not np.isfinite(chances).any():
        text = "How well trajectories fit their types is not kept in this folder."
        return _fit_headline(text, tested=False, adequate=False)
    least = min(1.0, len(chances) * float(np.nanmin(chances)))
    text = (
        f"Of {len(chances)} trajectories, each judged by its likeliest type, none fits worse "
        f"than chance allows ({chance(least)})."
    )
    if least < LEVEL:
        few = int((chances < LEVEL / len(chances)).sum())
        who = "" if private else f" The worst is {trajectories['episode'][0]}."
        text = (
            f"{few} of {len(chances)} trajectories fit{'s' if few == 1 else ''} none of the "
            f"types: too badly for chance, even by the likeliest one.{who}"
        )
    return _fit_headline(text, tested=True, adequate=least >= LEVEL)


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


def _membership(found: MixtureRecovery, trajectories: Mapping[str, np.ndarray]) -> Section:
    """How likely each trajectory is of each type, the least sure first; and groups by type."""
    chances, columns = found.membership, {"episode": np.arange(len(found.membership))}
    # The table of the run is in the order of fits; its numbers say whose rows they are.
    place = np.argsort(trajectories.get("number", columns["episode"]), kind="stable")
    told = {n: np.asarray(c)[place] for n, c in trajectories.items() if len(c) == len(chances)}
    columns |= {"episode": told["episode"]} if told else {}
    columns["type"] = np.array([f"type {k}" for k in found.assigned])
    columns |= {f"type_{k}": chances[:, k] for k in range(min(len(found.types), MOST_TYPES))}
    columns |= {n: told[n] for n in ("group", "steps", "z_score", "p_value") if n in told}
    order = np.argsort(chances.max(axis=1), kind="stable")
    who = "Who is of which type"
    note = "The least certain stand first. Fits are judged by the likeliest type."
    blocks = fit_table({name: column[order] for name, column in columns.items()}, who, note)
    if "group" in told:
        blocks.insert(0, _group_table(found, told["group"]))
    unsure = int((chances.max(axis=1) < SURE).sum())
    lead = (
        f"{unsure} of {len(chances)} trajectories are of no type with a chance of {100 * SURE:g} %."
    )
    return Section(who, blocks, lead if unsure else "")


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


def _chosen(
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
    found: MixtureRecovery | JointRecovery,
    kind: str,
    each: Mapping[str, Recovery],
    *,
    private: bool,
) -> Section:
    """Every finding, of all and of each, and the numbers that the status of each rests on."""
    states = Table.of(
        f"Each {kind}",
        [(capital(kind), [*each]), ("Status", [one.status.value for one in each.values()])],
    )
    blocks: list[Block] = [states, guarantee_table(each)]
    if not private:
        told = [capital(one) for one in found.findings]
        blocks = [*([Items(told)] if told else []), *blocks]
        for name, one in each.items():
            if said := [capital(finding) for finding in one.identification.findings]:
                blocks.append(Details(f"What is said of {name}", [Items(said)]))
    return Section("Guarantees and findings", blocks, f"Status: {found.status.value}.")
