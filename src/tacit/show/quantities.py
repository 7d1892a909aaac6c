"""Everything that was recovered, with its name: weights, prices and states, as tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit import checks
from tacit.estimators.joint_recovery import JointRecovery
from tacit.estimators.kinds import KindsRecovery
from tacit.estimators.logged.recovery import LoggedRecovery
from tacit.estimators.trips.traveller import TripsRecovery
from tacit.model.layout import Layout
from tacit.recovery import Recovery
from tacit.search.algebra import largest_first
from tacit.show import Alternatives, Block, Facts, Option, Paragraph, Selector
from tacit.show.tables import (
    MOST_IN_TEXT,
    Cell,
    Head,
    IntervalEstimate,
    Table,
    bar_scale,
    bars,
    by_state,
    interval_words,
    scale_of,
    short,
)

MOST_LISTED = 300  # rows of the table of states
MOST_FEATURES = 60  # of a table of weights
MOST_ROWS = 24  # of a chart with a row each
NOTHING = 1e-4
COEFFICIENTS = "Coefficients of the model"
MOST_CHOSEN = 40  # states that can be looked at one by one

WEIGHTS = (
    "A weight says how much one unit of a feature counts: its standard deviation, unless raw units "
    "are shown. An expected discounted cost is what the "
    "whole way costs on average, later steps counting less; its budget is the most it accepts."
)
RESTS_ON = {  # numbers of the certificates of a recovery and of its solution: name, meaning
    "feature_gap": ("Feature gap", "between what is shown and what it would do"),
    "sampling_noise": ("Sampling noise", "the feature gap that chance alone gives"),
    "truncation": ("Truncation", "bound on what trajectories cut off may hide"),
    "projected_gradient": ("Projected gradient", "0 at an optimum"),
    "weight_change": ("Weight change", "in the last step"),
    "objective_gap": ("Objective gap", "bound on the loss above its optimum"),
    "flow_residual": ("Flow residual", "of the recovered policy's visits"),
    "violation": ("Violation", "of its budgets"),
    "duality_gap": ("Duality gap", "proof that no policy is better by more"),
    "slackness": ("Slackness", "price times unused budget"),
}

# Words in the names of features that are times, and that are money.
TIMES = {
    "minutes", "minute", "mins", "min", "time", "times", "hours", "hour", "seconds", "sec",
    "duration", "ivt", "tt",
}  # fmt: skip
MONEY = {
    "cost", "costs", "toll", "tolls", "fare", "fares", "price", "prices", "fee", "fees", "money",
    "euro", "euros", "eur", "dollar", "dollars", "usd", "pound", "pounds", "gbp", "yen", "chf",
}  # fmt: skip

Group = Mapping[str, IntervalEstimate]  # name -> number


def estimated(row: checks.ReportedNumber) -> IntervalEstimate:
    """A number of a recovery with its interval."""
    return IntervalEstimate(row.value, row.low, row.high)


def numbers_of(recovery: Recovery) -> dict[str, IntervalEstimate]:
    """Label -> number, such as "reward: row", "cost 0: hill", "price 0", "budget 0", "noise"."""
    numbers = {row.label: estimated(row) for row in checks.numbers_of(recovery)}
    return numbers | {"noise": IntervalEstimate(recovery.temperature)}


def heaviest_first(group: Group) -> dict[str, IntervalEstimate]:
    """The weights, the heaviest first; none where they are not identified."""
    names, values = list(group), np.array([one.value for one in group.values()])
    if not np.isfinite(values).all():
        return {}
    return {names[j]: group[names[j]] for j in largest_first(np.abs(values))}


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
    def tabular(self) -> bool:
        """Whether there is a table of states; of rows of measurements there is none."""
        return not isinstance(self.recovery, LoggedRecovery)

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
    def weights(self) -> dict[str, dict[str, IntervalEstimate]]:
        """Part -> feature -> weight, of the reward, then of each cost, the heaviest first."""
        parts: dict[str, dict[str, IntervalEstimate]] = {"reward": {}}
        for row in checks.numbers_of(self.recovery):
            if row.is_weight:
                part = row.quantity.removesuffix(" 0") if self.constraints == 1 else row.quantity
                group = parts.setdefault(part, {})
                if (row.quantity, row.name) not in self.in_curves:
                    group[row.name] = estimated(row)
        return {part: heaviest_first(group) for part, group in parts.items()}

    @cached_property
    def in_curves(self) -> set[tuple[str, str]]:
        """Part and name of the features that are parameters of curves, which are shown instead."""
        result = self.recovery
        parts = "reward", *(f"cost {k}" for k in range(self.constraints))
        names = result.reward_names, *result.cost_names
        return {(parts[c.block], names[c.block][j]) for c in result.curves for j in c.columns}

    def weight_rows(self, *, lone: bool = True) -> dict[str, IntervalEstimate]:
        """Every weight that is known, the heaviest of each part first.

        Args:
            lone: whether with those that stand alone, and are 1 by the gauge.
        """
        return {
            name if part == "reward" else f"{part}: {name}": group[name]
            for part, group in self.weights.items()
            if lone or len(group) > 1
            for name in list(group)[:MOST_ROWS]
        }

    @property
    def price_rows(self) -> dict[str, IntervalEstimate]:
        """The price of every budget, 0 for one that is not held back."""
        return {
            self.constraint(int(row.name)): estimated(row)
            for row in checks.numbers_of(self.recovery)
            if row.is_price and np.isfinite(row.value)
        }

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


def state_table(named: NamedRecovery) -> Table:
    """Every state with what it earns, costs and what is done there; the most visited first."""
    order = largest_first(named.time)[:MOST_LISTED]
    time, earned = 100.0 * without_traces(named.time), "of a step there"
    columns = [
        ("State", [named.state(s) for s in order]),
        (Head("Time there", "%"), bars(time[order], limits=scale_of(100.0 * named.time))),
        ("What it does", [named.action_shares(named.policy[s]) for s in order]),
        (Head("Reward", earned), bars(named.reward[order], limits=scale_of(named.reward))),
    ]
    for k, cost in enumerate(named.costs):
        if named.identified[k]:
            head = Head(named.cost_title(k).capitalize(), earned)
            columns.append((head, bars(cost[order], limits=scale_of(cost))))
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
            (Head("Chance", "%"), bars(chances[actions], limits=(0.0, 100.0))),
        ]
        for name, table in tables:
            columns.append((name, bars(table[s, actions], limits=scale_of(table))))
        options.append(Option((index,), [Table.of(f"In {named.state(s)}", columns)]))
    text = "One state at a time: how likely each action is there."
    if named.states > MOST_CHOSEN:
        text += f" The {MOST_CHOSEN} most visited of {named.states} states."
    names = [named.state(s) for s in order]
    return [Paragraph(text), Alternatives([Selector("state", names)], options)]


def without_traces(shares: np.ndarray) -> np.ndarray:
    """The shares, rid of what is nothing beside the largest: nobody needs 10⁻¹⁷ %."""
    return np.where(shares < NOTHING * shares.max(initial=0.0), 0.0, shares)


def units_sentence(recovery: Recovery) -> str:
    """In what units weights, prices and budgets are shown."""
    if recovery.standard is None:
        return (
            "Weights, prices and budgets are in the units of the features as given, and depend on "
            "them."
        )
    return (
        "Weights, prices and budgets are of features divided by their standard deviation over all "
        "choices of the world; coefficients are of the features as given."
    )


def number_blocks(named: NamedRecovery) -> list[Block]:
    """Every number of a recovery: what is not identified, then tables, noise and likelihoods."""
    known = {curve.block for curve in named.recovery.curves if curve.weights.any()}
    parts = enumerate(named.weights.items())
    unknown = [part for k, (part, group) in parts if not group and k not in known]
    facts = noise_facts(named.recovery) | likelihoods(named.recovery)
    if isinstance(named.recovery, TripsRecovery):  # what a modeller of choices reads first
        values = map(Paragraph, values_of_time(named.recovery))
        coefficients = coefficient_tables(named.recovery)
        others = [one for one in weight_tables(named) if one.caption != COEFFICIENTS]
        return [*coefficients, *values, *([Facts(facts)] if facts else []), *others]
    return [
        *(
            Paragraph(f"Weights of the {part}: not identified, nothing these demonstrations show.")
            for part in unknown
        ),
        *weight_tables(named),
        *([Facts(facts)] if facts else []),
    ]


def weight_tables(named: NamedRecovery) -> list[Table]:
    """What is known in numbers: weights of reward and costs, budgets and prices, coefficients."""
    tables = []
    for k, (part, group) in enumerate(named.weights.items(), -1):
        caption, note = "What it wants: weights of the reward", _interval_note(named)
        if k >= 0:
            of = "the cost" if part == "cost" else f"constraint {k}"
            caption, note = f"What it refuses: weights of {of}", ""
        if group:
            tables.append(weight_table(caption, group, note))
    tables += [_price_table(named)] if named.constraints else []
    return [*tables, *curve_tables(named.recovery), *coefficient_tables(named.recovery)]


def curve_tables(recovery: Recovery) -> list[Table]:
    """What the tests say of each curve, where there are any."""
    curves = recovery.curves
    if not curves:
        return []
    columns = [
        ("Curve", [curve.name for curve in curves]),
        ("Of the", [curve.of for curve in curves]),
        (
            Head("Height", "in units of the noise"),
            [float(np.ptp(curve.at().values)) for curve in curves],
        ),
        (Head("Degrees", "effective"), np.round([curve.degrees for curve in curves], 1)),
        ("p if nothing", [_chance(curve.p_value) for curve in curves]),
        ("p if straight", [_chance(curve.straight_p_value) for curve in curves]),
    ]
    note = (
        "A curve has mean 0 over the rows it was made of; one that must be positive begins at 0. "
        "Values and bands at any places: `recovery.curves[0].frame()`."
    )
    return [Table.of("Curves", columns, note)]


def _interval_note(named: NamedRecovery) -> str:
    """What absolute values and intervals of weights mean."""
    kind = f"Intervals are {named.confidence} ones."
    if named.whole_set:
        kind = "Intervals hold every explanation of the demonstrations."
    if np.isnan(named.recovery.identification.reward_intervals).all():
        kind = "This answer has no intervals."
    return f"Weights have absolute values of sum 1. {kind}"


def weight_table(caption: str, group: Group, note: str = "") -> Table:
    """The weights of one part, in the order given."""
    weights = list(group.values())[:MOST_FEATURES]
    values, ends = [one.value for one in weights], [(one.low, one.high) for one in weights]
    if len(group) == 1 and ends[0][0] == ends[0][1]:  # the gauge alone says that it is 1
        ends = [(np.nan, np.nan)]
    limits = bar_scale([*values, 1.0], ends)
    if len(group) > MOST_FEATURES:
        note = f"The {MOST_FEATURES} heaviest of {len(group)}. {note}".strip()
    head = Head("Weight", f"scale {short(limits[0])} to {short(limits[1])}")
    columns = [("Feature", list(group)[:MOST_FEATURES]), (head, bars(values, ends, limits))]
    return Table.of(caption, columns, note)


def _price_table(named: NamedRecovery) -> Table:
    """The budget and the price of every constraint, and whether it was shown to be active."""
    recovery, known = named.recovery, named.recovery.identification
    spent = recovery.budgets if recovery.solution is None else recovery.solution.spent
    budgets = bars(recovery.budgets, known.budget_intervals)
    columns = [
        ("Cost", [named.constraint(k) for k in range(named.constraints)]),
        (
            Head("Budget", "largest expected discounted cost"),
            [one if one.value < np.inf else "none seen" for one in budgets],
        ),
        (
            Head("Spent", "by the recovered policy"),
            np.where(named.identified, spent, np.nan),
        ),
        (
            Head("Price", "reward for one more unit"),
            bars(recovery.multipliers, known.multiplier_intervals),
        ),
    ]
    stable = recovery.noise_prices
    if np.isfinite(stable.standard_errors).any():
        head = Head("Price over noise", "independent of the unit of reward")
        columns.append((head, bars(stable.estimates, stable.intervals)))
    columns.append(("Active", [_activity(named, k) for k in range(named.constraints)]))
    return Table.of("Budgets and prices", columns)


def _activity(named: NamedRecovery, k: int) -> str:
    """Whether a constraint was shown to be active, alone or as one of a set."""
    known = named.recovery.identification
    stand_ins = known.set_of(k)
    if stand_ins is not None:
        return f"{stand_ins.name}, not told which"
    return "yes" if known.active[k] else "not shown"


def coefficient_tables(recovery: Recovery) -> list[Table]:
    """The model's own coefficients, what tests them, and likelihoods; none where none is known."""
    fitted = recovery.parameters
    if not np.isfinite(fitted.estimates).any():
        return []
    full = fitted.estimates if fitted.unrestricted is None else fitted.unrestricted
    # What was left out stands at 0: z and P of another number, that of the full fit, mislead.
    is_out = (fitted.estimates == 0.0) & (full != 0.0)
    z, p_values = (np.where(is_out, np.nan, one) for one in (fitted.z, fitted.p_values))
    errors = fitted.standard_errors.tolist()
    # The heaviest, in the order of the model.
    begins = np.cumsum([0, len(recovery.reward_names), *map(len, recovery.cost_names)])
    in_curve = [begins[curve.block] + curve.columns for curve in recovery.curves]
    plain = np.setdiff1d(np.arange(len(fitted)), np.concatenate([[], *in_curve]))
    order = largest_first(np.abs(fitted.estimates[plain]))[:MOST_FEATURES]
    rows = np.sort(plain[order]).tolist()
    if not rows:
        return []
    limits = bar_scale(fitted.estimates, fitted.intervals)
    interval = f"and its {100 * fitted.confidence:g} % interval"
    if np.isnan(fitted.intervals).any(axis=1).all():
        interval = ""
    columns = [
        ("Coefficient", [fitted.names[j] for j in rows]),
        (
            Head("Estimate", interval),
            bars(fitted.estimates[rows], fitted.intervals[rows], limits),
        ),
        ("Standard error", [errors[j] if errors[j] else "fixed" for j in rows]),
        ("z", np.round(z[rows], 2)),
        (Head("p-value", "if it were 0"), [_chance(float(p_values[j])) for j in rows]),
    ]
    kind = fitted.reason or f"{fitted.errors} standard errors"
    notes = [f"Of the features as given, in units of the demonstrator's noise; {kind}."]
    if not np.allclose(full[plain], fitted.estimates[plain], rtol=0.05, equal_nan=True):
        each = ", ".join(f"{fitted.names[j]} {full[j]:.4g}" for j in rows[:MOST_IN_TEXT])
        rough = " and curves that are not smoothed" if recovery.curves else ""
        notes.append(f"Errors, z and p-values are of the fit with every constraint{rough}: {each}.")
    if len(fitted) > MOST_FEATURES:
        notes.append(f"All {len(fitted)} are in `recovery.parameters.frame()`.")
    return [Table.of(COEFFICIENTS, columns, " ".join(notes))]


def values_of_time(recovery: TripsRecovery) -> list[str]:
    """What a unit of each feature that is a time is worth in each that is money, as sentences."""
    fitted, found = recovery.parameters, []
    times, money = ([n for n in fitted.names if _is_called(n, words)] for words in (TIMES, MONEY))
    for time in times:
        for price in money:
            ratio = fitted.ratio(time, price)
            if not np.isfinite(ratio.estimate):
                continue
            found.append(
                f"Value of time: one unit of {time} is worth **{short(ratio.estimate)}** of "
                f"{price} ({100 * fitted.confidence:g} % interval "
                f"{interval_words(*ratio.interval)})."
            )
    return found


def _is_called(name: str, words: set[str]) -> bool:
    return any(part in words for part in re.split(r"[\W\d_]+", name.casefold()))


def likelihoods(result: Recovery | JointRecovery | KindsRecovery) -> dict[str, Cell]:
    """How well the model predicts the actions that were seen; nothing where that is not known."""
    if not np.isfinite(result.log_likelihood):
        return {}
    facts: dict[str, Cell] = {
        "log-likelihood": f"{result.log_likelihood:.6g}",
        "of actions at random": f"{result.null_log_likelihood:.6g}",
        "AIC": f"{result.aic:.6g}",
        "BIC": f"{result.bic:.6g}",
    }
    if isinstance(result, TripsRecovery):
        degrees = result.parameters.degrees
        adjusted = 1.0 - (result.log_likelihood - degrees) / result.null_log_likelihood
        facts |= {"rho squared": f"{result.rho_squared:.4f}", "adjusted": f"{adjusted:.4f}"}
    return facts


def noise_facts(recovery: Recovery) -> dict[str, Cell]:
    """The temperature of the demonstrator, and the share of its steps that are lapses."""
    facts: dict[str, Cell] = {}
    if recovery.temperature > 0 and np.isfinite(recovery.reward_weights).all():
        facts["temperature"] = f"{recovery.temperature:.4g}"
    elif recovery.temperature > 0:
        facts["temperature"] = "the unit of prices"
    if recovery.lapses is not None:
        facts["share of lapses"] = IntervalEstimate(
            recovery.lapses.share, *recovery.lapses.interval
        )
    return facts


def _chance(p_value: float) -> str | None:
    """A p-value as people write it."""
    if np.isnan(p_value):
        return None
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def guarantee_table(each: Mapping[str, Recovery]) -> Table:
    """The numbers behind the status of each of these recoveries, a column each."""
    numbers = {}
    for name, one in each.items():
        solution = {} if one.solution is None else vars(one.solution.certificate)  # trips have many
        known = vars(one.certificate) | solution
        numbers[name] = np.array([known.get(number, np.nan) for number in RESTS_ON], dtype=float)
    rows = np.flatnonzero(np.isfinite([*numbers.values()]).any(axis=0)).tolist()
    heads, meanings = zip(*RESTS_ON.values(), strict=True)
    columns = [
        ("Number", [heads[k] for k in rows]),
        *((name, one[rows]) for name, one in numbers.items()),
        ("What it is", [meanings[k] for k in rows]),
    ]
    note = "Anyone can compute these from the arrays of the run; smaller is better."
    return Table.of("What the status rests on", columns, note)
