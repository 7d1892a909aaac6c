"""Everything that was recovered, with its name: weights, prices and states, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tacit.inverse.diagnostics import Identification
from tacit.inverse.findings import Kind
from tacit.inverse.joint.traveller import TripsRecovery
from tacit.inverse.recovery import Recovery
from tacit.model.layout import Layout
from tacit.search.algebra import largest_first
from tacit.show import Block, Choice, Option, Paragraph, Selector
from tacit.show.intervals import MOST_ROWS, Interval
from tacit.show.tables import MISSING, Bars, Column, Table, bar_scale, by_state, scale_of, short

MOST_LISTED = 300  # rows of the table of states
MOST_BARS = 15
NOTHING = 1e-4
MOST_CHOSEN = 60  # states that can be looked at one by one


WEIGHTS = (
    "A weight says how much one unit of a feature counts: its standard deviation, unless raw units "
    "are shown. An expected discounted cost is what the "
    "whole way costs on average, later steps counting less; its budget is the most it accepts."
)


class Weights(NamedTuple):
    """The weights of the reward, or of one cost.

    Attributes:
        part: "reward", "cost", or "cost 1" where there are several.
        names: of the features.
        values: [D]; NaN where they are not identified.
        ends: [D, 2] their intervals; NaN where none are known.
    """

    part: str
    names: Sequence[str]
    values: np.ndarray
    ends: np.ndarray

    @property
    def order(self) -> list[int]:
        """The features, the heaviest first; none where the weights are not identified."""
        if not np.isfinite(self.values).all():
            return []
        return largest_first(np.abs(self.values)).tolist()

    @property
    def rows(self) -> list[Interval]:
        """One row a feature, the heaviest first; a weight without an interval is a point."""
        of = "" if self.part == "reward" else f"{self.part}: "
        ends = np.where(np.isnan(self.ends), self.values[:, None], self.ends).tolist()
        return [
            Interval(f"{of}{self.names[j]}", float(self.values[j]), *ends[j]) for j in self.order
        ]


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

    @cached_property
    def weights(self) -> list[Weights]:
        """Those of the reward, then of each cost."""
        found, known = self.recovery, self.recovery.identification
        return weights_of(found, found.reward_weights, found.cost_weights, known)

    @property
    def weight_rows(self) -> list[Interval]:
        """Every weight that is known, the heaviest of each group first."""
        return [row for group in self.weights for row in group.rows[:MOST_ROWS]]

    @property
    def price_rows(self) -> list[Interval]:
        """The price of every budget, 0 for one that is not held back."""
        ends = self.recovery.identification.multiplier_intervals.tolist()
        prices = self.recovery.multipliers.tolist()
        return [Interval(self.constraint(k), prices[k], *ends[k]) for k in range(self.constraints)]

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


def weights_of(
    one: Recovery,
    reward: np.ndarray,
    costs: Sequence[np.ndarray],
    known: Identification,
) -> list[Weights]:
    """Weights with the names of the features of a recovery.

    Args:
        one: whose features they are of.
        reward: [D].
        costs: one [D_k] a constraint.
        known: their intervals.
    """
    parts = ["cost"] if len(costs) == 1 else [f"cost {k}" for k in range(len(costs))]
    own = zip(parts, one.cost_names, costs, known.cost_intervals, strict=True)
    first = Weights("reward", one.reward_names, reward, known.reward_intervals)
    return [first, *(Weights(*group) for group in own)]


def state_table(named: NamedRecovery) -> Table:
    """Every state with what it earns, costs and what is done there; the most visited first."""
    order = largest_first(named.time)[:MOST_LISTED]
    time, earned = 100.0 * without_traces(named.time), "of a step there"
    columns = [
        ("State", [named.state(s) for s in order]),
        (Column("Time there", "%"), Bars(time[order], limits=scale_of(100.0 * named.time))),
        ("What it does", [named.action_shares(named.policy[s]) for s in order]),
        (Column("Reward", earned), Bars(named.reward[order], limits=scale_of(named.reward))),
    ]
    for k, cost in enumerate(named.costs):
        if named.identified[k]:
            head = Column(named.cost_title(k).capitalize(), earned)
            columns.append((head, Bars(cost[order], limits=scale_of(cost))))
    note = "Time is the share of its discounted time that the recovered policy spends there."
    if named.states > MOST_LISTED:
        note += (
            f" The {MOST_LISTED} most visited of {named.states} states are listed, to keep this "
            "page small; `tacit.Recovery.load` has them all."
        )
    return Table.of("States", columns, note, listed=True)


def state_choice(named: NamedRecovery) -> list[Block]:
    """One state at a time, the most visited first: what is done, what it earns and costs."""
    if named.actions < 2 or named.actions > MOST_CHOSEN:
        return []
    order = largest_first(named.time)[:MOST_CHOSEN]
    objective = named.recovery.objective
    tables = [("Reward", objective.reward)] if objective.reward.ndim == 2 else []
    if objective.costs.ndim == 3:
        costs = [(named.cost_title(k).capitalize(), c) for k, c in enumerate(objective.costs)]
        tables += [one for one, known in zip(costs, named.identified, strict=True) if known]
    options = []
    for index, s in enumerate(order):
        actions = np.flatnonzero(named.offered[s]).tolist()
        chances = 100.0 * without_traces(named.policy[s])
        columns = [
            ("Action", [named.action(a) for a in actions]),
            (Column("Chance", "%"), Bars(chances[actions], limits=(0.0, 100.0))),
        ]
        for name, table in tables:
            columns.append((name, Bars(table[s, actions], limits=scale_of(table))))
        options.append(Option((index,), [Table.of(f"In {named.state(s)}", columns)]))
    text = "One state at a time: how likely each action is there."
    if named.states > MOST_CHOSEN:
        text += f" The {MOST_CHOSEN} most visited of {named.states} states."
    names = [named.state(s) for s in order]
    return [Paragraph(text), Choice([Selector("state", names)], options)]


def without_traces(shares: np.ndarray) -> np.ndarray:
    """The shares, rid of what is nothing beside the largest: nobody needs 10⁻¹⁷ %."""
    return np.where(shares < NOTHING * shares.max(initial=0.0), 0.0, shares)


MOST_FEATURES = 60  # of a table of weights


def weight_tables(named: NamedRecovery) -> list[Table]:
    """A table of weights for the reward and for each identified constraint, and the prices."""
    kind = f"Bands are {named.confidence} intervals."
    if named.whole_set:
        kind = "Bands hold every explanation of the demonstrations."
    if np.isnan(named.recovery.identification.reward_intervals).all():
        kind = "This answer has no intervals."
    tables = []
    for k, group in enumerate(named.weights, -1):
        caption, note = (
            "What it wants: weights of the reward",
            "Weights have absolute values of sum 1.",
        )
        if k >= 0:
            of = "the cost" if named.constraints == 1 else f"constraint {k}"
            caption, note, kind = f"What it refuses: weights of {of}", "", ""
        if np.isfinite(group.values).all():
            tables.append(_weights(caption, group, f"{note} {kind}".strip()))
    return [*tables, *_prices(named), *_coefficients(named)]


def _weights(caption: str, group: Weights, note: str) -> Table:
    order = group.order[:MOST_FEATURES]
    ends = group.ends[order]
    if len(group.values) == 1 and ends[0, 0] == ends[0, 1]:  # the gauge alone says that it is 1
        ends = np.full((1, 2), np.nan)
    limits = bar_scale(np.append(group.values, 1.0), group.ends)
    if len(group.values) > MOST_FEATURES:
        note = f"The {MOST_FEATURES} heaviest of {len(group.values)}. {note}".strip()
    scale = f"scale {short(limits[0])} to {short(limits[1])}"
    bars = (Column("Weight", scale), Bars(group.values[order], ends, limits))
    return Table.of(caption, [("Feature", [group.names[j] for j in order]), bars], note)


def _prices(named: NamedRecovery) -> list[Table]:
    recovery, known = named.recovery, named.recovery.identification
    if not named.constraints:
        return []
    spent = np.where(named.identified, recovery.budgets, np.nan)
    if recovery.solution is not None:
        spent = np.where(named.identified, recovery.solution.spent, np.nan)
    budgets = Bars(recovery.budgets, known.budget_intervals).cells
    seen = [
        c if b < np.inf else "none seen" for c, b in zip(budgets, recovery.budgets, strict=True)
    ]
    columns = [
        ("Constraint", [named.constraint(k) for k in range(named.constraints)]),
        (Column("Budget", "largest expected discounted cost"), seen),
        (Column("Spent", "by the recovered policy"), spent),
        (
            Column("Price", "reward for one more unit"),
            Bars(recovery.multipliers, known.multiplier_intervals),
        ),
    ]
    stable = recovery.noise_prices
    if np.isfinite(stable.standard_errors).any():
        head = Column("Price / temperature", "independent of the unit of reward")
        columns.append((head, Bars(stable.estimates, stable.intervals)))
    columns.append(("Holds it back", [_holds_back(named, k) for k in range(named.constraints)]))
    return [Table.of("Budgets and prices", columns)]


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


def _coefficients(named: NamedRecovery) -> list[Table]:
    """The model's own coefficients with their standard errors; nothing where there are none."""
    found = named.recovery.parameters
    if not np.isfinite(found.standard_errors).any():
        return []
    shown = slice(MOST_FEATURES)
    limits = bar_scale(found.estimates, found.intervals)
    interval = f"and its {100 * found.confidence:g} % interval"
    columns = [
        ("Coefficient", found.names[shown]),
        (
            Column("Estimate", interval),
            Bars(found.estimates[shown], found.intervals[shown], limits),
        ),
        ("Standard error", found.standard_errors[shown]),
        (Column("p-value", "if it were 0"), [_chance(p) for p in found.p_values[shown]]),
    ]
    note = f"In units of the demonstrator's noise; {found.errors} standard errors."
    return [Table.of("Coefficients of the model", columns, note)]
