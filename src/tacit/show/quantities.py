"""Everything that was recovered, with its name: weights, prices and states, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.inference.numerics import largest_first
from tacit.inverse.findings import Kind
from tacit.inverse.joint.traveller import TripsRecovery
from tacit.inverse.recovery import Recovery
from tacit.model.transitions import Layout
from tacit.show import Block, Choice, Option, Paragraph, Selector
from tacit.show.tables import MISSING, Bar, Cell, Column, Row, Table, by_state, scale_of, short

MOST_LISTED = 300  # rows of the table of states
MOST_BARS = 15
NOTHING = 1e-4
MOST_CHOSEN = 60  # states that can be looked at one by one


@dataclass(frozen=True, eq=False)
class NamedRecovery:
    """A recovery with names for everything, and its tables by state.

    Attributes:
        recovery: what was recovered.
        layout: how states and actions are named.
        assumed: whether the moves where nobody was seen are assumptions.
    """

    recovery: Recovery
    layout: Layout
    assumed: bool = False

    @property
    def states(self) -> int:
        """S, the number of states."""
        return len(self.visits)

    @property
    def actions(self) -> int:
        """A, the number of actions."""
        return self.visits.shape[1]

    @property
    def constraints(self) -> int:
        """K, the number of constraints."""
        return len(self.recovery.cost_weights)

    def assumptions(self, notes: Sequence[str]) -> tuple[str, ...]:
        """The notes, and the findings that say what was assumed."""
        found = self.recovery.identification.findings
        told = [str(one) for one in found if getattr(one, "kind", None) is Kind.ASSUMED]
        return (*notes, *(one for one in told if one not in notes))

    @cached_property
    def visits(self) -> np.ndarray:
        """[S, A] how often it does what; of trips, what all of them are expected to do."""
        if isinstance(self.recovery, TripsRecovery):
            return self.recovery.flows
        return np.asarray(self.recovery.solution.visitation, dtype=float)

    @cached_property
    def policy(self) -> np.ndarray:
        """[S, A] what it does; of trips, on average over their goals."""
        if not isinstance(self.recovery, TripsRecovery):
            return np.asarray(self.recovery.solution.policy, dtype=float)
        total = self.visits.sum(axis=1, keepdims=True)
        return np.where(total > 0, self.visits / np.where(total > 0, total, 1.0), 0.0)

    @cached_property
    def time(self) -> np.ndarray:
        """[S] share of its discounted time that the recovered policy spends in each state."""
        visits = self.visits.sum(axis=1)
        return visits / (visits.sum() or 1.0)

    @cached_property
    def reward(self) -> np.ndarray:
        """[S] reward of a step in each state, averaged over what it does there."""
        return self._by_state(self.recovery.objective.reward)

    @cached_property
    def costs(self) -> np.ndarray:
        """[K, S] cost of a step in each state, NaN where the constraint is not identified."""
        known = self.identified
        tables = [
            self._by_state(table) if known[k] else np.full(self.states, np.nan)
            for k, table in enumerate(self.recovery.objective.costs)
        ]
        return np.array(tables).reshape(self.constraints, self.states)

    @cached_property
    def unseen(self) -> np.ndarray | None:
        """[S] whether no demonstration was in a state; None where that is not known."""
        residuals = self.recovery.goodness.residuals
        if residuals.shape != self.policy.shape:
            return None
        chosen = (self.policy > 0).sum(axis=1) > (0 if self.whole_set else 1)
        return np.isnan(residuals).all(axis=1) & chosen

    @cached_property
    def offered(self) -> np.ndarray:
        """[S, A] whether an action can be taken there; a noisy policy takes all that can be."""
        taken = self.policy > 0
        noisy = isinstance(self.recovery, TripsRecovery) or self.recovery.temperature > 0
        return taken if noisy else np.ones_like(taken)

    @property
    def identified(self) -> list[bool]:
        """Of each constraint, whether its weights are known."""
        return [bool(np.isfinite(weights).all()) for weights in self.recovery.cost_weights]

    @property
    def whole_set(self) -> bool:
        """Whether intervals hold all explanations, and are not a matter of chance."""
        sure = self.recovery.identification.confidence == 1.0
        return self.estimator == "Explanation" and sure

    @property
    def estimator(self) -> str:
        """The name of the estimator."""
        return self.recovery.estimator.partition("(")[0] or "an unnamed estimator"

    @property
    def confidence(self) -> str:
        """The confidence of the intervals, such as "95 %"."""
        return f"{100 * self.recovery.identification.confidence:g} %"

    def constraint(self, k: int) -> str:
        """The name of a constraint: its only feature, or its number."""
        names = self.recovery.cost_names[k]
        if len(names) == 1:
            return names[0]
        return "the cost" if self.constraints == 1 else f"constraint {k}"

    def cost_title(self, k: int) -> str:
        """What a chart of the cost of a constraint is called."""
        name = self.constraint(k)
        return "cost" if name == "the cost" else f"cost: {name}"

    def state(self, state: int) -> str:
        """The name of a state."""
        return self.layout.state_name(int(state))

    def action(self, action: int) -> str:
        """The name of an action."""
        return self.layout.action_name(int(action))

    def action_shares(self, chances: np.ndarray, *, most: int = 3) -> str:
        """The likeliest actions in words, with their shares."""
        order = [a for a in largest_first(chances)[:most] if chances[a] >= 0.01]
        if not order or chances[order[0]] > 0.995:
            return self.action(order[0]) if order else "–"
        return ", ".join(f"{self.action(a)} {100 * chances[a]:.0f}\u00a0%" for a in order)

    def _by_state(self, table: np.ndarray) -> np.ndarray:
        return by_state(np.asarray(table, dtype=float), self.policy)


def state_bars(named: NamedRecovery) -> Choice:
    """The highest and the lowest states by each quantity, one quantity at a time."""
    quantities = [("reward", named.reward, "")]
    quantities += [
        (named.cost_title(k), cost, "") for k, cost in enumerate(named.costs) if named.identified[k]
    ]
    quantities.append(("share of its time", 100.0 * without_traces(named.time), " %"))
    options = [
        Option((index,), [_bars(named, name, values, unit)])
        for index, (name, values, unit) in enumerate(quantities)
    ]
    return Choice([Selector("show", [name for name, _, _ in quantities])], options)


def _bars(named: NamedRecovery, name: str, values: np.ndarray, unit: str) -> Table:
    order = largest_first(values)
    cut = len(order) - MOST_BARS
    shown = order if cut <= 0 else np.concatenate([order[: MOST_BARS - 5], order[-5:]])
    limits = scale_of(values)
    rows = [Row([named.state(s), Bar(float(values[s]), limits, unit=unit)]) for s in shown]
    note = "" if cut <= 0 else f"The {MOST_BARS - 5} highest and the 5 lowest of {len(order)}."
    return Table(f"States by {name}", [Column("State"), Column(name)], rows, note)


def state_table(named: NamedRecovery) -> Table:
    """Every state with what it earns, costs and what is done there; the most visited first."""
    order = largest_first(named.time)[:MOST_LISTED]
    known = [k for k in range(named.constraints) if named.identified[k]]
    scales = [scale_of(100.0 * named.time), scale_of(named.reward)]
    scales += [scale_of(named.costs[k]) for k in known]
    columns = [Column("State"), Column("Time there", "%"), Column("What it does")]
    columns += [Column("Reward", "of a step there")]
    columns += [Column(named.cost_title(k).capitalize(), "of a step there") for k in known]
    rows, time = [], without_traces(named.time)
    for s in order:
        numbers = [100.0 * time[s], named.reward[s]]
        numbers += [named.costs[k, s] for k in known]
        bars: list[Cell] = [Bar(float(v), scale) for v, scale in zip(numbers, scales, strict=True)]
        rows.append(Row([named.state(s), bars[0], named.action_shares(named.policy[s]), *bars[1:]]))
    note = "Time is the share of its discounted time that the recovered policy spends there."
    if named.states > MOST_LISTED:
        note += (
            f" The {MOST_LISTED} most visited of {named.states} states are listed, to keep this "
            "page small; `tacit.Recovery.load` has them all."
        )
    return Table("States", columns, rows, note, searchable=True, sortable=True)


def state_choice(named: NamedRecovery) -> list[Block]:
    """One state at a time, the most visited first: what is done, what it earns and costs."""
    if named.actions < 2 or named.actions > MOST_CHOSEN:
        return []
    order = largest_first(named.time)[:MOST_CHOSEN]
    objective = named.recovery.objective
    known = [k for k in range(named.constraints) if named.identified[k]]
    columns = [Column("Action"), Column("Chance", "%")]
    by_action = objective.reward.ndim == 2
    if by_action:
        columns.append(Column("Reward"))
    costly = known if objective.costs.ndim == 3 else []
    columns += [Column(named.cost_title(k).capitalize()) for k in costly]
    options = []
    for index, s in enumerate(order):
        rows, chances = [], without_traces(named.policy[s])
        for a in np.flatnonzero(named.offered[s]).tolist():
            cells: list[Cell] = [named.action(a), Bar(100.0 * float(chances[a]), (0, 100))]
            if by_action:
                cells.append(Bar(float(objective.reward[s, a]), scale_of(objective.reward)))
            cells += [
                Bar(float(objective.costs[k, s, a]), scale_of(objective.costs[k])) for k in costly
            ]
            rows.append(Row(cells))
        options.append(Option((index,), [Table(f"In {named.state(s)}", columns, rows)]))
    text = "One state at a time: how likely each action is there."
    if named.states > MOST_CHOSEN:
        text += f" The {MOST_CHOSEN} most visited of {named.states} states."
    names = [named.state(s) for s in order]
    return [Paragraph(text), Choice([Selector("state", names)], options)]


def without_traces(shares: np.ndarray) -> np.ndarray:
    """The shares, rid of what is nothing beside the largest: nobody needs 10⁻¹⁷ %."""
    return np.where(shares < NOTHING * shares.max(initial=0.0), 0.0, shares)


MOST_FEATURES = 60  # of a table of weights


def weight_tables(named: NamedRecovery) -> list[Block]:
    """A table of weights for the reward and for each identified constraint, and the prices."""
    recovery, known = named.recovery, named.recovery.identification
    kind = (
        "Bands hold every explanation of the demonstrations."
        if named.whole_set
        else f"Bands are {named.confidence} intervals."
    )
    if np.isnan(known.reward_intervals).all():
        kind = "This answer has no intervals."
    groups = [("wants: weights of the reward", recovery.reward_names, recovery.reward_weights)]
    ends, notes = [known.reward_intervals], [f"Weights have absolute values of sum 1. {kind}"]
    for k, weights in enumerate(recovery.cost_weights):
        of = "the cost" if named.constraints == 1 else f"constraint {k}"
        groups.append((f"refuses: weights of {of}", recovery.cost_names[k], weights))
        ends, notes = [*ends, known.cost_intervals[k]], [*notes, ""]
    blocks: list[Block] = [
        _weights(f"What it {caption}", names, weights, limits, note)
        for (caption, names, weights), limits, note in zip(groups, ends, notes, strict=True)
        if np.isfinite(weights).all()
    ]
    return blocks + _prices(named) + _coefficients(named)


def _weights(
    caption: str, names: Sequence[str], weights: np.ndarray, ends: np.ndarray, note: str
) -> Table:
    order = largest_first(np.abs(weights))[:MOST_FEATURES]
    limits = _shared_scale(np.append(weights, 1.0), ends)
    if len(weights) == 1 and ends[0, 0] == ends[0, 1]:  # the gauge alone says that it is 1
        ends = np.full((1, 2), np.nan)
    rows = [Row([names[j], _bar(weights[j], limits, ends[j])]) for j in map(int, order)]
    if len(weights) > MOST_FEATURES:
        note = f"The {MOST_FEATURES} heaviest of {len(weights)}. {note}".strip()
    scale = f"scale {short(limits[0])} to {short(limits[1])}"
    return Table(caption, [Column("Feature"), Column("Weight", scale)], rows, note)


def _prices(named: NamedRecovery) -> list[Block]:
    recovery, known = named.recovery, named.recovery.identification
    if not named.constraints:
        return []
    budgets = _shared_scale(recovery.budgets, known.budget_intervals)
    prices = _shared_scale(recovery.multipliers, known.multiplier_intervals)
    stable = recovery.noise_prices
    steady, rows = np.isfinite(stable.standard_errors).any(), []
    over = _shared_scale(stable.estimates, stable.intervals) if steady else (0.0, 1.0)
    for k in range(named.constraints):
        spent = recovery.budgets[k] if named.identified[k] else np.nan
        if recovery.solution is not None and named.identified[k]:
            spent = recovery.solution.spent[k]
        budget, price = recovery.budgets[k], recovery.multipliers[k]
        cells: list[Cell] = [
            named.constraint(k),
            _bar(budget, budgets, known.budget_intervals[k]) if budget < np.inf else "none seen",
            float(spent),
            _bar(price, prices, known.multiplier_intervals[k]),
            *([_bar(stable.estimates[k], over, stable.intervals[k])] if steady else []),
            _holds_back(named, k),
        ]
        rows.append(Row(cells))
    columns = [
        Column("Constraint"),
        Column("Budget", "largest expected discounted cost"),
        Column("Spent", "by the recovered policy"),
        Column("Price", "reward for one more unit"),
        *([Column("Price over the noise", "in no unit of the reward")] if steady else []),
        Column("Holds it back"),
    ]
    return [Table("Budgets and prices", columns, rows)]


def _holds_back(named: NamedRecovery, k: int) -> str:
    """Whether a constraint was shown to be active, alone or as one of a set."""
    known = named.recovery.identification
    stand_ins = known.set_of(k)
    if stand_ins is not None:
        return f"{stand_ins.name}, not told which"
    return "yes" if known.active[k] else "not shown"


def _chance(p_value: float) -> str:
    """A p-value as people write it."""
    if np.isnan(p_value):
        return MISSING
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _coefficients(named: NamedRecovery) -> list[Block]:
    """The model's own coefficients with their standard errors; nothing where there are none."""
    found = named.recovery.parameters
    if not np.isfinite(found.standard_errors).any():
        return []
    limits = _shared_scale(found.estimates, found.intervals)
    numbers = found.estimates, found.intervals, found.standard_errors.tolist(), found.p_values
    rows = [
        Row([name, _bar(estimate, limits, ends), error, _chance(p_value)])
        for name, estimate, ends, error, p_value in zip(found.names, *numbers, strict=True)
    ]
    interval = f"and its {100 * found.confidence:g} % interval"
    columns = [Column("Coefficient"), Column("Estimate", interval), Column("Standard error")]
    columns.append(Column("p-value", "if it were 0"))
    note = f"In units of the demonstrator's noise; {found.errors} standard errors."
    return [Table("Coefficients of the model", columns, rows[:MOST_FEATURES], note)]


def _shared_scale(values: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """(left, right) of a scale for these numbers, with room beyond them for an open end."""
    left, right = scale_of(np.concatenate([values, np.ravel(ends)]))
    return left, right * (1.3 if np.isposinf(ends).any() else 1.0)


def _bar(value: float, limits: tuple[float, float], ends: np.ndarray) -> Bar:
    return Bar(float(value), limits, low=float(ends[0]), high=float(ends[1]))
