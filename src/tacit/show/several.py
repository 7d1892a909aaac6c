"""What a result is about, one demonstrator or types and tasks, and what is said of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.estimators.intentions import IntentionsRecovery
from tacit.estimators.joint_recovery import JointRecovery, agreement_findings
from tacit.estimators.kinds import KindsRecovery
from tacit.estimators.mixture import MixtureRecovery
from tacit.estimators.types import SURE
from tacit.inference.findings import LEVEL, OPEN, WARNINGS, Kind, chance
from tacit.many import Differences
from tacit.model.layout import Layout
from tacit.recovery import Recovery
from tacit.show import Alternatives, Block, Headline, Option, Section, Selector, Tone
from tacit.show.appendix import fit_tables
from tacit.show.quantities import NamedRecovery
from tacit.show.report import (
    FIT,
    NAMED,
    by_name,
    fit_headline,
    misfit_headlines,
    warning_headlines,
)
from tacit.show.tables import Head, IntervalEstimate, Table, bars, interval_words, share

MOST_TYPES = 6  # chances of a table, a column each
AGREE = ("not shown to differ", Tone.GOOD)
# Of the tests between shared weights and those that each has by itself.
TESTED = (
    "One fit of all has the same weights; noise and prices stay those of each. p takes steps to be "
    "independent where the model fits, and counts how trajectories differ where it does not."
)

AnyRecovery = Recovery | JointRecovery | KindsRecovery


@dataclass(frozen=True, eq=False)
class Parts:
    """What a result is about: one demonstrator, or several types or tasks.

    Attributes:
        kind: "type", "intention" or "task"; empty for one recovery.
        each: name -> recovery; of one recovery its name is empty.
    """

    kind: str
    each: Mapping[str, NamedRecovery]

    @classmethod
    def of(
        cls, result: AnyRecovery, layout: Layout, *, tasks: object = None, assumed: bool = False
    ) -> Parts:
        """The parts of a result.

        Args:
            result: in the units to show.
            layout: how states and actions are called.
            tasks: names of the tasks, where they have some.
            assumed: whether the moves where nobody was seen are assumptions.
        """
        if isinstance(result, KindsRecovery):
            kind = result.kind
            names = [f"{kind} {k} ({share(part)})" for k, part in enumerate(result.shares)]
            recoveries = dict(zip(names, result.parts, strict=True))
        elif isinstance(result, JointRecovery):
            given = list(map(str, tasks)) if isinstance(tasks, list | tuple) else []
            numbered = [f"task {k}" for k in range(len(result.recoveries))]
            names = given if len({*given}) == len(numbered) else numbered
            kind, recoveries = "task", dict(zip(names, result.recoveries, strict=True))
        else:
            kind, recoveries = "", {"": result}
        return cls(
            kind,
            {
                name: NamedRecovery(by_name(one, own), own, assumed)
                for name, one in recoveries.items()
                for own in [fitting_layout(layout, one)]
            },
        )

    @property
    def recoveries(self) -> dict[str, Recovery]:
        """Name -> recovery."""
        return {name: named.recovery for name, named in self.each.items()}

    @property
    def first(self) -> NamedRecovery:
        """The first of them, or the only one."""
        return next(iter(self.each.values()))

    def blocks(self, make: Callable[[NamedRecovery], Sequence[Block]]) -> Sequence[Block]:
        """Blocks about the only one, or about each, chosen by its name."""
        if not self.kind:
            return make(self.first)
        options = [Option((k,), make(named)) for k, named in enumerate(self.each.values())]
        return [Alternatives([Selector(self.kind, list(self.each))], options)]


def fitting_layout(layout: Layout, one: Recovery) -> Layout:
    """The layout where it is that of this recovery's world; tasks may have worlds of their own."""
    if one.solution is None:  # trips have one for every goal
        return layout
    states = len(one.solution.policy)
    named = len(layout.state_names) in (0, states)
    placed = not layout.is_grid or layout.rows * layout.columns <= states
    return layout if named and placed else Layout()


# ------------------------------------------------------------------------------- headlines


def headlines_of_all(result: AnyRecovery) -> list[Headline]:
    """How many types there are, or whether tasks share their weights; of one recovery nothing."""
    if isinstance(result, JointRecovery):
        return agreement_headlines(result)
    if isinstance(result, IntentionsRecovery):
        return [_share_headline(result), *prediction_headlines(result)]
    return [_share_headline(result)] if isinstance(result, KindsRecovery) else []


def fit_headlines(
    result: AnyRecovery, parts: Parts, trajectories: Mapping[str, np.ndarray], *, private: bool
) -> list[Headline]:
    """Whether the model fits, before anything is read from it; of one that fits nothing.

    Args:
        result: the result.
        parts: of it.
        trajectories: how well each of them fits.
        private: whether to name no trajectory.
    """
    if isinstance(result, MixtureRecovery):
        return [_trajectories_fit(trajectories, private=private)]
    if isinstance(result, JointRecovery):
        name, named = list(parts.each.items())[result.worst]
        return [fit_headline(named, f"{name} fits least: " if len(parts.each) > 1 else "")]
    return misfit_headlines(parts.first)


def _trajectories_fit(trajectories: Mapping[str, np.ndarray], *, private: bool) -> Headline:
    """Whether each trajectory fits the likeliest of its types."""
    p_values = np.asarray(trajectories.get("p_value", []), dtype=float)
    if not np.isfinite(p_values).any():
        text = "How well trajectories fit their types is not kept in this folder."
        return Headline(text, FIT, "not tested", Tone.CAUTION)
    count, least = len(p_values), min(1.0, len(p_values) * float(np.nanmin(p_values)))
    if least >= LEVEL:
        text = (
            f"Of {count} trajectories, each judged by its likeliest type, none fits worse "
            f"than chance allows ({chance(least)})."
        )
        return Headline(text, FIT, "yes", Tone.GOOD)
    few = int((p_values < LEVEL / count).sum())
    worst = "" if private else f" The worst is {trajectories['episode'][0]}."
    text = (
        f"{few} of {count} trajectories fit{'s' if few == 1 else ''} none of the "
        f"types: too badly for chance, even by the likeliest one.{worst}"
    )
    return Headline(text, FIT, "no", Tone.CAUTION)


def _share_headline(several: KindsRecovery) -> Headline:
    """How many kinds there are, and how many trajectories or steps are of each."""
    count, kind = len(several.parts), several.kind
    shares = [
        f"{kind} {k} is **{share(part)}** of the {several.what}"
        for k, part in enumerate(several.shares[:NAMED])
    ]
    text = f"**{count}** {kind}{'s' if count > 1 else ''}: {', '.join(shares)}"
    text += f", and {count - NAMED} more." if count > NAMED else "."
    limits = 100.0 * several.share_intervals
    ends = [f"{kind} {k} {interval_words(*limits[k])} %" for k in range(count)]
    criteria = zip(several.tried.tolist(), several.criteria.tolist(), strict=True)
    detail = f"95 % interval: {'; '.join(ends)}. " if count > 1 else ""
    detail += "BIC, the smaller the better: "
    detail += ", ".join(f"{value:.6g} for {number}" for number, value in criteria) + "."
    by_prediction = isinstance(several, IntentionsRecovery) and len(several.held_out) > 0
    is_best = by_prediction or int(several.tried[int(np.argmin(several.criteria))]) == count
    verdict, tone = ("", Tone.PLAIN) if is_best else ("fewer would do", Tone.CAUTION)
    return Headline(text, f"How many {kind}s", verdict, tone, detail=detail)


def prediction_headlines(found: IntentionsRecovery) -> list[Headline]:
    """How well each number of intentions predicts what was held out, beside counts."""
    if not len(found.held_out):
        return []
    scores = zip(found.tried.tolist(), found.held_out.tolist(), strict=True)
    told = ", ".join(f"**{score:.4f}** with {number}" for number, score in scores)
    here, before = found.counted
    text = (
        f"Nats a step on trajectories held out: {told}; counts by state {here:.4f}, by state and "
        f"the one before {before:.4f}."
    )
    good = float(found.held_out[len(found.parts) - 1]) >= before
    verdict, tone = ("as well as counts", Tone.GOOD) if good else ("counts do better", Tone.CAUTION)
    return [Headline(text, "What they predict", verdict, tone)]


def open_headlines(result: AnyRecovery) -> list[Headline]:
    """Warnings about types or tasks together, and what cannot be told of them."""
    kinds, findings = [*WARNINGS], result.identification.findings
    kinds.remove(Kind.MISFIT)
    return [
        *warning_headlines(findings, kinds),
        *warning_headlines(findings, OPEN, "What cannot be told"),
    ]


# ------------------------------------------------------------------------------- sections


def membership_section(mixture: MixtureRecovery, trajectories: Mapping[str, np.ndarray]) -> Section:
    """How likely each trajectory is of each type, the least sure first; and groups by type."""
    chances = mixture.membership
    numbers = np.arange(len(chances))
    # The table of the run is in the order of fits; its numbers say whose rows they are.
    place = np.argsort(trajectories.get("number", numbers), kind="stable")
    fits = {n: np.asarray(c)[place] for n, c in trajectories.items() if len(c) == len(chances)}
    columns = {
        "episode": fits.get("episode", numbers),
        "type": np.array([f"type {k}" for k in mixture.assigned]),
        **{f"type_{k}": chances[:, k] for k in range(min(len(mixture.types), MOST_TYPES))},
        **{n: fits[n] for n in ("group", "steps", "z_score", "p_value") if n in fits},
    }
    order = np.argsort(chances.max(axis=1), kind="stable")
    title = "Who is of which type"
    note = "The least certain stand first. Fits are judged by the likeliest type."
    tables = fit_tables({name: column[order] for name, column in columns.items()}, title, note)
    if "group" in fits:
        tables.insert(0, _group_table(mixture, fits["group"].astype(str)))
    unsure = int((chances.max(axis=1) < SURE).sum())
    lead = (
        f"{unsure} of {len(chances)} trajectories are of no type with a chance of {100 * SURE:g} %."
    )
    return Section(title, tables, lead if unsure else "")


def _group_table(mixture: MixtureRecovery, groups: np.ndarray) -> Table:
    """How many trajectories of each group [E] are of each type."""
    names, sizes = np.unique(groups, return_counts=True)
    expected = np.array([mixture.membership[groups == name].sum(axis=0) for name in names])
    limits = (0.0, float(sizes.max()))
    types = [
        (Head(f"Type {k}", "expected"), bars(expected[:, k], limits=limits))
        for k in range(min(len(mixture.types), MOST_TYPES))
    ]
    return Table.of("Groups by type", [("Group", names), ("Episodes", sizes), *types])


# ------------------------------------------------------------------------------- shared weights


def agreement_headlines(joint: JointRecovery) -> list[Headline]:
    """Whether weights fitted apart may be the same, one headline a test."""
    label = "Do they share their weights?"
    if not (found := agreement_findings(joint.agreement)):
        untested = "Nothing is tested: no weight that is shared is free in two tasks."
        return [Headline(untested, label)]
    verdicts = {Kind.MISFIT: ("a compromise", Tone.CAUTION), Kind.NOTE: AGREE}
    heads = [Headline(str(one), label, *verdicts[one.kind]) for one in found]
    return [*heads[:-1], replace(heads[-1], detail=TESTED)]


def shared_weights(joint: JointRecovery) -> Recovery:
    """What tasks share, as one recovery: without prices, which are of each task."""
    first, known = joint.recoveries[0], joint.identification
    is_shared = not isinstance(joint.reward_weights, tuple)
    reward, ends = joint.reward_weights, known.reward_intervals
    if not is_shared:
        reward = np.full_like(first.reward_weights, np.nan)
        ends = np.full((len(reward), 2), np.nan)
    return replace(
        first,
        reward_weights=reward,
        cost_weights=joint.cost_weights,
        multipliers=np.full_like(first.multipliers, np.nan),
        identification=replace(
            first.identification, reward_intervals=ends, cost_intervals=known.cost_intervals
        ),
    )


def difference_table(gaps: Differences) -> Table:
    """The differences of several recoveries, the clearest first."""
    note = "Those that share no individuals are taken to be independent."
    if any(row.shared_individuals for row in gaps.rows):
        note += " Where individuals are in both, errors are added."
    columns = [
        ("Number", [f"{row.quantity}: {row.name}" for row in gaps.rows]),
        ("Of", [f"{row.first} - {row.second}" for row in gaps.rows]),
        ("Difference", [IntervalEstimate(row.value, row.low, row.high) for row in gaps.rows]),
        ("p", gaps.columns["p_value"]),
        ("p by Holm", gaps.columns["adjusted"]),
    ]
    note += " By Holm: adjusted for all rows of this table."
    return Table.of("Differences, the clearest first", columns, note, listed=True)
