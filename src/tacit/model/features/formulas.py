"""Features by formulas over the columns of rows, or over those of a table by state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.columns import RawColumn
from tacit.files.frames import Frame
from tacit.files.wording import some
from tacit.model.arguments import integer, numbers
from tacit.model.features.curves import CurveTerm
from tacit.model.features.notation import Term, terms_of
from tacit.model.features.rows import MeasuredRows, RowFeatures
from tacit.model.features.state_tables import opened_table, pair_numbers, state_numbers
from tacit.model.features.terms import (
    Factor,
    Learned,
    Rows,
    columns_of,
    known_levels,
    unknown_column,
    used,
)
from tacit.model.layout import Layout
from tacit.model.objective import Features

ACTION = "action"  # in a formula, what was done


@dataclass(frozen=True, eq=False, kw_only=True)
class FormulaFeatures(RowFeatures):
    """Features of rows of measurements by formulas: `Features.from_formula` without data.

    Attributes:
        reward: formula of the reward.
        costs: one formula per constraint.
        columns: of the rows, in order, once it is fitted.
        actions: names of the actions, once it is fitted.
        learned: what transforms have learned, by the text of the factor: numbers, texts, lists.
    """

    reward: str
    costs: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    learned: Mapping[str, Learned] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.costs, str):
            raise InvalidModel(
                f"costs must be a list with one formula per constraint; got {self.costs!r:.60}: "
                "write costs=[formula]"
            )
        object.__setattr__(self, "costs", tuple(self.costs))
        _ = self.blocks  # refuses what is no formula

    @property
    def blocks(self) -> tuple[tuple[Term, ...], ...]:
        """The terms of the reward, then those of each constraint."""
        return tuple(terms_of(formula) for formula in (self.reward, *self.costs))

    @property
    def reward_names(self) -> tuple[str, ...]:
        """One name per reward feature, once it is fitted."""
        return self._names()[0]

    @property
    def cost_names(self) -> tuple[tuple[str, ...], ...]:
        """One tuple of names per constraint, once it is fitted."""
        return tuple(self._names()[1:])

    def fitted(self, rows: MeasuredRows) -> FormulaFeatures:
        """The same with what transforms learn from these rows: medians, scales, levels, knots."""
        if ACTION in rows.columns:
            raise InvalidModel(
                f"in a formula {ACTION!r} is what was done; rename the measurement of that name"
            )
        learned = _learned(
            self.blocks, _columns(rows.observations, rows.columns), rows.action_names
        )
        return replace(self, columns=rows.columns, actions=rows.action_names, learned=learned)

    def on(self, observations: np.ndarray, actions: int) -> Features:
        """The `Features` [n, A, D] of these rows and of so many actions."""
        count, tables = integer(actions, "actions"), list[np.ndarray]()
        if not self.columns:
            raise InvalidModel("features of rows must be fitted first: features.fitted(rows)")
        if ACTION in columns_of(self.blocks) and count != len(self.actions):
            raise InvalidModel(
                f"the formula knows {len(self.actions)} actions, {some(self.actions)}; got {count}"
            )
        rows, curves = Rows(_columns(observations, self.columns), dict(self.learned)), []
        for k, terms in enumerate(self.blocks):
            each = _by_action(rows, terms, self.actions)
            values = [factor.values for factor in each]
            tables.append(np.stack(values * (count // len(each)), axis=1))
            curves += _curves(each, k)
        return Features(tables[0], tables[1:], self.reward_names, self.cost_names, curves=curves)

    def stored(self) -> dict[str, Any]:
        """All that it is, as texts, numbers, lists and dictionaries: for JSON or TOML."""
        return {
            "reward": self.reward,
            "costs": [*self.costs],
            "columns": [*self.columns],
            "actions": [*self.actions],
            "learned": dict(self.learned),
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> FormulaFeatures:
        """The features that `stored` gave; their formulas are read and checked anew."""
        return cls(
            reward=stored["reward"],
            costs=tuple(stored["costs"]),
            columns=tuple(stored["columns"]),
            actions=tuple(stored["actions"]),
            learned=dict(stored["learned"]),
        )

    def _names(self) -> list[tuple[str, ...]]:
        if not self.columns:
            raise InvalidModel(
                "the features of a formula have names once it is fitted: features.fitted(rows)"
            )
        nothing = _columns(np.full((1, len(self.columns)), np.nan), self.columns)
        rows = Rows(nothing, dict(self.learned))
        return [_by_action(rows, terms, self.actions)[0].labels for terms in self.blocks]


def features_of_table(
    features: FormulaFeatures,
    data: str | Path | Frame,
    layout: Layout,
    *,
    state: str,
    action: str,
) -> Features:
    """The features [S, D] or [S, A, D] of a table, one row a state or one a state and action.

    Args:
        features: the formulas.
        data: path of a .csv or .parquet file; or columns by name, as a dict or a data frame.
        layout: names of states and actions, as far as they are known.
        state: the column that says which state a row is about; without it rows are in order.
        action: the column that says which action; without it a row is about all of them.
    """
    table = opened_table(data, state)
    names = columns_of(features.blocks) - {ACTION}
    there = [name for name in (state, action) if name in table.names]
    if unknown := sorted(names - {*table.names}):
        raise unknown_column(unknown[0], [*table.names])
    read = table.read(dict.fromkeys([*there, *sorted(names)]) or table.names[:1])
    columns = {name: _cells(read[name]) for name in sorted(names)}
    count = len(next(iter(read.values())))
    if not count:
        raise InvalidModel(f"{table.path} must have at least one row; got none")
    shape, order, actions = (count,), np.arange(count), layout.action_names
    if action in there:
        if state not in there:
            raise InvalidModel(f"{table.path} must have the column {state!r} beside {action!r}")
        order, shape = pair_numbers(table, (read[state], read[action]), layout)
        actions = actions or tuple(map(str, range(shape[1])))
        columns[ACTION] = np.array(actions)[order % shape[1]]
    elif state in there:
        states = len(layout.state_names) or layout.rows * layout.columns or count
        order = state_numbers(table, read[state], states, layout)
    place = np.argsort(order)
    columns = {name: column[place] for name, column in columns.items()}
    if ACTION in columns_of(features.blocks) and not actions:
        raise InvalidModel(
            f"{ACTION!r} in a formula needs names of the actions in a layout, or a column "
            f"{action!r} in the table"
        )
    return _features(features, columns, columns, shape, actions)


def features_of_columns(
    features: FormulaFeatures,
    columns: Mapping[str, np.ndarray],
    actions: Sequence[str],
    available: np.ndarray,
) -> Features:
    """The features [S, D] or [S, A, D] of columns by name, each [S] or [S, A].

    Args:
        features: the formulas.
        columns: numbers; NaN where one is missing.
        actions: names of the actions.
        available: [S, A] bool, the pairs of which transforms learn.
    """
    asked = columns_of(features.blocks)
    if unknown := sorted(asked - {*columns, ACTION}):
        raise unknown_column(unknown[0], [*columns])
    own = {name: columns[name] for name in sorted(asked - {ACTION})}
    if all(column.ndim == 1 for column in own.values()):
        count = len(available)
        own = own or {"": np.zeros(count)}
        return _at_ends(_features(features, own, own, (count,), actions), available)
    shape = available.shape
    pairs = {
        name: np.broadcast_to(column.reshape(len(column), -1), shape)
        for name, column in own.items()
    }
    pairs[ACTION] = np.broadcast_to(np.array(actions), shape)
    known = {name: column[available] for name, column in pairs.items()}
    flat = {name: column.ravel() for name, column in pairs.items()}
    return _at_ends(_features(features, known, flat, shape, actions), available)


def _at_ends(features: Features, available: np.ndarray) -> Features:
    """The features, 0 where nothing is done if they say what is done: an end pays for no action."""
    ends = ~available.any(axis=1)
    tables = [np.array(table) for table in (features.reward, *features.costs)]
    for table in tables:
        if table.ndim == 3 and ends.any():
            rows = table[ends]
            differs = np.ptp(rows, axis=1, keepdims=True) > 0
            table[ends] = np.where(differs, 0.0, rows)
    names = features.reward_names, features.cost_names
    return Features(tables[0], tables[1:], *names, curves=features.curves)


def _features(
    features: FormulaFeatures,
    known: Mapping[str, np.ndarray],
    columns: Mapping[str, np.ndarray],
    shape: tuple[int, ...],
    actions: Sequence[str],
) -> Features:
    """The features of columns [n], laid out in a shape; transforms learn from the known rows."""
    rows = Rows(columns, _learned(features.blocks, known, actions))
    tables, labels, curves = [], [], []
    for k, terms in enumerate(features.blocks):
        each = [rows.block(terms)] if ACTION in columns else _by_action(rows, terms, actions)
        values = [factor.values for factor in each]
        one = values[0] if len(each) == 1 else np.stack(values, axis=1)
        tables.append(one.reshape(*shape, -1) if len(each) == 1 else one)
        labels.append(each[0].labels)
        curves += [
            one if len(each) > 1 else replace(one, values=one.values.reshape(*shape, -1))
            for one in _curves(each, k)
        ]
    return Features(tables[0], tables[1:], labels[0], labels[1:], curves=curves)


def _curves(each: Sequence[Factor], block: int) -> list[CurveTerm]:
    """The curves of a block, given as it is for each action, or once for all."""
    found = []
    for alike in zip(*(factor.curves for factor in each), strict=True):
        values = [one.values for one in alike]
        there = values[0] if len(values) == 1 else np.stack(values, axis=1)
        found.append(replace(alike[0], block=block, values=there))
    return found


def _columns(observations: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
    table = numbers(observations, "observations")
    if table.ndim != 2 or table.shape[1] != len(names):
        raise InvalidModel(
            f"observations must have shape [n, {len(names)}], one column a measurement; got "
            f"{table.shape}"
        )
    return dict(zip(names, table.T, strict=True))


def _cells(column: RawColumn) -> np.ndarray:
    """[n] the numbers of a column, or its texts."""
    column.refuse(column.voids, "a number or a name")
    if column.texts is None or np.isfinite(column.numbers()).all():
        return column.reals()
    return np.array(column.texts)[column.values]


def _learned(
    blocks: Sequence[Sequence[Term]], columns: Mapping[str, np.ndarray], actions: Sequence[str]
) -> dict[str, Learned]:
    """What the factors of the terms learn from these rows; of the action all levels are known."""
    nodes = {node for terms in blocks for term in terms for node in term}
    of_action = [node for node in nodes if used(node) == {ACTION}]
    learned = {str(node): known_levels(node, actions) for node in of_action}
    count = len(next(iter(columns.values())))
    rows = Rows({ACTION: np.full(count, actions[0] if actions else ""), **columns}, learned, True)
    for terms in blocks:
        rows.block(terms)
    return learned


def _by_action(rows: Rows, terms: Sequence[Term], actions: Sequence[str]) -> list[Factor]:
    """The columns of the terms for each action; once, where they do not depend on it."""
    if ACTION not in columns_of([terms]):
        return [rows.block(terms)]
    count, made = len(next(iter(rows.columns.values()))), list[Factor]()
    for name in actions:  # factors without the action go along
        rows = rows.with_columns({ACTION: np.full(count, name)})
        made.append(rows.block(terms))
    return made
