"""What a terminal and a notebook say about a recovery, as blocks and as text; and for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.measurements import Measurements
from tacit.estimators.intentions import IntentionsRecovery
from tacit.estimators.kinds import KindsRecovery
from tacit.estimators.mixture import MixtureRecovery
from tacit.files.atomic import Page
from tacit.files.wording import cell_text
from tacit.inference.standardised import shown
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.show import Alternatives, Block, Disclosure, Facts, Items, Paragraph
from tacit.show.quantities import (
    NamedRecovery,
    guarantee_table,
    likelihoods,
    number_blocks,
    units_sentence,
)
from tacit.show.several import (
    AnyRecovery,
    Parts,
    fit_headlines,
    headlines_of_all,
)
from tacit.show.tables import Table, line_width, plain_cell

if TYPE_CHECKING:
    from tacit.estimators.trips.world import Trips
    from tacit.folders.runs import Run
    from tacit.recovery import Recovery

# What is said of each coefficient, and of all together.
ESTIMATED = (
    "names", "estimates", "standard_errors", "intervals", "p_values", "errors", "confidence",
)  # fmt: skip
KNOWN = (
    "reward_intervals", "cost_intervals", "multiplier_intervals", "budget_intervals", "active",
    "p_values", "at_level",
)  # fmt: skip
JUDGED = (
    "verdict", "adequate", "statistic", "p_value", "level", "share", "weight", "settled", "absence",
)  # fmt: skip
FOLLOWED = (
    "shares", "share_intervals", "start", "switching", "dwell", "dwell_intervals", "where",
    "where_intervals", "membership", "following", "tried", "criteria", "held_out", "counted",
)  # fmt: skip
LIKELIHOODS = ("log_likelihood", "null_log_likelihood", "aic", "bic")


def summary_blocks(result: AnyRecovery, layout: Layout | None = None) -> list[Block]:
    """What a terminal and a notebook say: how it ended, every number, and the findings.

    Args:
        result: in the units to show; of types and tasks it is said what they share, then each.
        layout: how states and actions are called.
    """
    parts = Parts.of(result, layout or Layout())
    misfit, known = [], []
    if not isinstance(result, KindsRecovery) and not result.goodness.adequate:
        misfit = [head.text for head in fit_headlines(result, parts, {}, private=False)]
        known = [(one.kind, one.about) for one in result.goodness.findings()]
    whole = result if parts.kind else parts.first.recovery
    heads = headlines_of_all(result)
    said = {head.text for head in heads}
    findings = [
        one
        for one in whole.identification.findings
        if (one.kind, one.about) not in known and one not in said
    ]
    lines = [
        *misfit,
        f"Recovered by {result.estimator or 'an unnamed estimator'}.",
        f"Status: {result.status.value}.",
        units_sentence(parts.first.recovery),
        *(f"{head.text} {head.detail}" for head in heads),
    ]
    return [
        *map(Paragraph, lines),
        *parts.blocks(lambda named: _about_one(named, is_part=bool(parts.kind))),
        *([Facts(likelihoods(result))] if parts.kind and likelihoods(result) else []),
        *([Disclosure("Findings", [Items(findings)])] if findings else []),
    ]


def _about_one(named: NamedRecovery, *, is_part: bool) -> list[Block]:
    """Every number of one recovery, what they rest on and, of one of several, its findings."""
    goodness, known = named.recovery.goodness, named.recovery.identification
    sentences = [goodness.sentence(), goodness.power_sentence()] if goodness.adequate else []
    return [
        *number_blocks(named),
        *(Paragraph(sentence) for sentence in sentences if sentence),
        guarantee_table({"Value": named.recovery}),
        *([Items(known.findings)] if is_part and known.findings else []),
    ]


def summarise(result: AnyRecovery, layout: Layout | None = None) -> str:
    """The recovery as plain text, with the layout's names where it has any."""
    text = "\n".join(lines_of(summary_blocks(result, layout)))
    return text.replace("\n\n\n", "\n\n").rstrip() + "\n"


def lines_of(blocks: Iterable[Block]) -> Iterator[str]:
    """The blocks as lines of text; of pictures nothing."""
    for block in blocks:
        match block:
            case Paragraph():
                yield _wrapped(block.text)
            case Items():
                yield from map(_wrapped, block.items)
            case Facts():
                facts = [f"{n} {cell_text(plain_cell(one))}" for n, one in block.facts.items()]
                yield _wrapped(", ".join(facts))
            case Table():
                yield f"\n{block.text()}\n"
            case Disclosure():
                yield from (f"\n{block.summary}", *lines_of(block.blocks))
            case Alternatives():
                for option in block.options:
                    yield from (f"\n{block.title(option)}", *lines_of(option.blocks))


def _wrapped(sentence: str) -> str:
    return textwrap.fill(sentence.replace("**", ""), line_width())


def run_parts(run: Run, *, raw_units: bool = False) -> list[str]:
    """What a run says to people, one part under the other."""
    result = shown(run.recovery, raw_units=raw_units)
    parts = [summarise(result, run.layout), *(f"Note: {note}" for note in run.notes)]
    for answer in run.extras.values():
        parts += [f"{answer['text']}\n"] if "text" in answer else []
        parts += list(answer.get("sentences", ()))
    return parts


def run_data(run: Run) -> dict[str, Any]:
    """Everything that a run found, as names, numbers, lists and arrays, for other programs."""
    result, layout = run.recovery, run.layout
    data: dict[str, Any] = {
        "estimator": result.estimator,
        "status": result.status.name,
        "certificate": asdict(result.certificate),
        "data": run.data,
        "notes": run.notes,
        **_fields(result, LIKELIHOODS),
    }
    if isinstance(result, MixtureRecovery):
        names = ("shares", "share_intervals", "membership", "tried", "criteria")
        types = [_numbers(one) for one in result.types]
        return data | _fields(result, names) | {"types": types, "trajectories": run.trajectories}
    if isinstance(result, IntentionsRecovery):
        each = [_numbers(one) for one in result.intentions]
        return data | _fields(result, FOLLOWED) | {"intentions": each}
    goodness = result.goodness
    fit = {name: [asdict(one) for one in getattr(goodness, name)] for name in ("parts", "power")}
    return {  # what does not fit before all numbers
        "fit": goodness.sentence(layout.state_names, layout.action_names),
        **_numbers(result),
        **data,
        "rho_squared": result.rho_squared,
        "goodness": _fields(goodness, JUDGED) | fit,
        "extras": run.extras,
    }


def _fields(record: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _numbers(recovery: Recovery) -> dict[str, object]:
    """Every number of one recovery and what is known of it; those of standardised features, too."""
    known = recovery.identification
    deviations = None if recovery.standard is None else recovery.standard.deviations
    return {
        **_answer(recovery),
        "unadjusted_p_values": known.unadjusted,
        "sets": [asdict(one) for one in known.sets],
        "selection": None if known.selection is None else asdict(known.selection),
        "parameters": _fields(recovery.parameters, ESTIMATED),
        "noise_prices": _fields(recovery.noise_prices, ESTIMATED),
        "standardised": {"deviations": deviations, **_answer(recovery.standardised)},
    }


def _answer(recovery: Recovery) -> dict[str, object]:
    """Weights by name, prices, budgets and noise, with their intervals."""
    pairs = zip(recovery.cost_names, recovery.cost_weights, strict=True)
    return {
        "reward_weights": dict(zip(recovery.reward_names, recovery.reward_weights, strict=True)),
        "cost_weights": [dict(zip(names, weights, strict=True)) for names, weights in pairs],
        **_fields(recovery, ("multipliers", "budgets", "temperature")),
        **_fields(recovery.identification, KNOWN),
    }


def data_summary(mdp: MDP, demonstrations: Demonstrations, trips: Trips | None = None) -> Page:
    """What the demonstrations are, in numbers, for people; of trips the goals, too."""
    counts = demonstrations.counts(mdp)
    reached = np.isin(np.arange(mdp.states), demonstrations.final_states) & mdp.ends
    facts = _episode_facts(demonstrations) | {
        "states": mdp.states,
        "states_visited": int((reached | (counts.sum(axis=1) > 0)).sum()),
        "actions": mdp.actions,
        "state_action_pairs_seen": int((counts > 0).sum()),
        "moves_estimated": mdp.evidence is not None,
        "discount": mdp.discount,
    }
    if trips is not None:
        goals = np.unique(trips.goals[trips.goals >= 0])
        facts |= {"goals": len(goals), "discount": trips.discount}
    return facts | _group_facts(demonstrations)


def row_summary(discount: float, rows: Measurements) -> Page:
    """What rows of measurements are, in numbers, for people."""
    return {
        **_episode_facts(rows),
        "measurements": ", ".join(rows.columns),
        "missing": int(np.isnan(rows.observations).sum()),
        "actions": len(rows.action_names),
        "discount": discount,
        **_group_facts(rows),
    }


def _episode_facts(demonstrations: Demonstrations) -> Page:
    lengths = np.diff(demonstrations.offsets)
    return {
        "episodes": demonstrations.episodes,
        "steps": demonstrations.steps,
        "shortest_episode": int(lengths.min()),
        "longest_episode": int(lengths.max()),
        "ended_episodes": int(demonstrations.ended.sum()),
        "episodes_joined_on_the_way": int(demonstrations.partial.sum()),
    }


def _group_facts(demonstrations: Demonstrations) -> Page:
    if demonstrations.groups is None:
        return {}
    names, sizes = np.unique(demonstrations.groups.astype(str), return_counts=True)
    return {"groups": dict(zip(names.tolist(), sizes.tolist(), strict=True))}
