"""States by name: the ones that matter most as sorted bars, all in a table, one at a time."""

from __future__ import annotations

import numpy as np

from tacit.show.document import Block, Choice, Option, Paragraph, Selector
from tacit.show.recovery.subject import Subject
from tacit.show.tables import Bar, Cell, Column, Row, Table

MOST_LISTED = 300  # rows of the table of states
MOST_BARS = 15
NOTHING = 1e-4
MOST_CHOSEN = 60  # states that can be looked at one by one


def state_bars(subject: Subject) -> Choice:
    """The highest and the lowest states by each quantity, one quantity at a time."""
    quantities = [("reward", subject.reward, "")]
    quantities += [
        (subject.cost_title(k), cost, "")
        for k, cost in enumerate(subject.costs)
        if subject.identified[k]
    ]
    quantities.append(("share of its time", 100.0 * rid(subject.time), " %"))
    options = [
        Option((index,), [_bars(subject, name, values, unit)])
        for index, (name, values, unit) in enumerate(quantities)
    ]
    return Choice([Selector("show", [name for name, _, _ in quantities])], options)


def _bars(subject: Subject, name: str, values: np.ndarray, unit: str) -> Table:
    order = np.argsort(-values, kind="stable")
    cut = len(order) - MOST_BARS
    shown = order if cut <= 0 else np.concatenate([order[: MOST_BARS - 5], order[-5:]])
    limits = scale_of(values)
    rows = [Row([subject.state(s), Bar(float(values[s]), limits, unit=unit)]) for s in shown]
    note = "" if cut <= 0 else f"The {MOST_BARS - 5} highest and the 5 lowest of {len(order)}."
    return Table(f"States by {name}", [Column("State"), Column(name)], rows, note)


def state_table(subject: Subject) -> Table:
    """Every state with what it earns, costs and what is done there; the most visited first."""
    order = np.argsort(-subject.time, kind="stable")[:MOST_LISTED]
    known = [k for k in range(subject.constraints) if subject.identified[k]]
    scales = [scale_of(100.0 * subject.time), scale_of(subject.reward)]
    scales += [scale_of(subject.costs[k]) for k in known]
    columns = [Column("State"), Column("Time there", "%"), Column("What it does")]
    columns += [Column("Reward", "of a step there")]
    columns += [Column(subject.cost_title(k).capitalize(), "of a step there") for k in known]
    rows, time = [], rid(subject.time)
    for s in order:
        numbers = [100.0 * time[s], subject.reward[s]]
        numbers += [subject.costs[k, s] for k in known]
        bars: list[Cell] = [Bar(float(v), scale) for v, scale in zip(numbers, scales, strict=True)]
        rows.append(Row([subject.state(s), bars[0], subject.doing(s), *bars[1:]]))
    note = "Time is the share of its discounted time that the recovered policy spends there."
    if subject.states > MOST_LISTED:
        note += (
            f" The {MOST_LISTED} most visited of {subject.states} states are listed, to keep this "
            "page small; `tacit.Recovery.load` has them all."
        )
    return Table("States", columns, rows, note, searchable=True, sortable=True)


def state_choice(subject: Subject) -> list[Block]:
    """One state at a time, the most visited first: what is done, what it earns and costs."""
    if subject.actions < 2 or subject.actions > MOST_CHOSEN:
        return []
    order = np.argsort(-subject.time, kind="stable")[:MOST_CHOSEN]
    objective = subject.recovery.objective
    known = [k for k in range(subject.constraints) if subject.identified[k]]
    columns = [Column("Action"), Column("Chance", "%")]
    by_action = objective.reward.ndim == 2
    if by_action:
        columns.append(Column("Reward"))
    costly = known if objective.costs.ndim == 3 else []
    columns += [Column(subject.cost_title(k).capitalize()) for k in costly]
    options = []
    for index, s in enumerate(order):
        rows, chances = [], rid(subject.policy[s])
        for a in range(subject.actions):
            cells: list[Cell] = [
                subject.action(a),
                Bar(100.0 * float(chances[a]), (0, 100)),
            ]
            if by_action:
                cells.append(Bar(float(objective.reward[s, a]), scale_of(objective.reward)))
            cells += [
                Bar(float(objective.costs[k, s, a]), scale_of(objective.costs[k])) for k in costly
            ]
            rows.append(Row(cells))
        options.append(Option((index,), [Table(f"In {subject.state(s)}", columns, rows)]))
    text = "One state at a time: how likely each action is there."
    if subject.states > MOST_CHOSEN:
        text += f" The {MOST_CHOSEN} most visited of {subject.states} states."
    names = [subject.state(s) for s in order]
    return [Paragraph(text), Choice([Selector("state", names)], options)]


def rid(shares: np.ndarray) -> np.ndarray:
    """The shares, rid of what is nothing beside the largest: nobody needs 10⁻¹⁷ %."""
    return np.where(shares < NOTHING * shares.max(initial=0.0), 0.0, shares)


def scale_of(values: np.ndarray) -> tuple[float, float]:
    """(left, right) of a scale that holds zero and every finite value."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
    return (low, high) if high > low else (0.0, 1.0)
