"""`features.csv`: what could matter in each state, or in each state and action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.atomic import naming
from tacit.files.columns import RawColumn
from tacit.files.tables import TableSource, open_table
from tacit.files.wording import did_you_mean, nearest
from tacit.folders.names import Names
from tacit.folders.settings import LARGEST_TABLE, ProblemSettings
from tacit.model.features.formulas import FormulaFeatures, features_of_columns
from tacit.model.features.notation import formula_of
from tacit.model.features.terms import columns_of
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.model.objective import GivenTable

# The column that says which actions there are.
MASK = "available"


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The table of `features.csv`, its names checked, its numbers not yet.

    Attributes:
        table: the file.
        columns: by name.
        states: distinct names of states, as found.
        actions: distinct names of actions, as found; empty where a row speaks of a state alone.
    """

    table: TableSource
    columns: Mapping[str, RawColumn]
    states: tuple[str, ...]
    actions: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> FeatureTable:
        """The table of a file."""
        table = open_table(path, InvalidModel, expected=("state", "action"), largest=LARGEST_TABLE)
        table.require("state")
        columns = table.read(texts=("state", "action"))
        front = [columns[name] for name in ("state", "action") if name in columns]
        key = np.zeros(len(front[0]), np.int64)
        for column in front:
            column.refuse([not text for text in column.texts or ()], "a name")
            key = key * len(column.texts or ()) + column.values
        if not len(key):
            raise InvalidModel(f"{path} must have one row a state; it has a header alone")
        table.refuse_repeats(
            key, lambda row: " and ".join(f"{c.name} {c.cell(row)!r}" for c in front)
        )
        states, *actions = (column.texts or () for column in front)
        return cls(table, columns, states, actions[0] if actions else ())

    @property
    def path(self) -> Path:
        """Of the file."""
        return Path(self.table.path)

    @property
    def offered(self) -> tuple[str, ...]:
        """The columns that may be features."""
        return tuple(name for name in self.columns if name not in ("state", "action"))

    def gives(self, name: str) -> bool:
        """Whether there is a column of that name with one entry a state."""
        return not self.actions and name in self.offered

    def available(self, names: Names, settings: ProblemSettings) -> np.ndarray | None:
        """[S, A] bool, what the column `available` says; None where there is none, or as a feature.

        Args:
            names: of states and actions.
            settings: of `problem.toml`.
        """
        named = settings.used
        spare = [name for name in self.offered if name not in named and name != settings.initial]
        if MASK not in spare:
            near = None if MASK in self.offered else nearest(MASK, spare, cutoff=0.8)
            if near:
                raise InvalidModel(
                    f"{self.path}: unknown column {near!r}, did you mean {MASK!r}? If it is "
                    "something else, rename it"
                )
            return None
        mask, flags = np.ones(names.shape, bool), self.columns[MASK].flags()
        mask[self._pairs(names)] = flags if self.actions else flags[:, None]
        return mask

    def refuse_empty(self, asked: np.ndarray, given: np.ndarray, names: Names) -> None:
        """Raises, with its line, where a pair is said to be available but leads nowhere.

        Args:
            asked: [S, A] bool, what the column `available` says.
            given: [S, A] bool, the pairs that have a row in `transitions.csv`.
            names: of states and actions.
        """
        pairs = self._pairs(names)
        empty = asked[pairs] & ~given[pairs]
        if not self.actions:
            empty = asked[pairs].any(axis=1) & ~given[pairs].any(axis=1)
        if empty.any():
            message = f"{MASK} must be false where transitions.csv has no row; got true"
            raise self.table.fault(int(np.argmax(empty)), message)

    def _pairs(self, names: Names) -> tuple[np.ndarray, np.ndarray | slice]:
        """[N] the state of each row, and [N] its action, or all of them."""
        rows = self.columns["state"].numbered(names.state_numbers, "a known state")
        if not self.actions:
            return rows, slice(None)
        return rows, self.columns["action"].numbered(names.action_numbers, "a known action")

    def column(self, name: str, names: Names) -> np.ndarray:
        """[S] or [S, A] the numbers of a column, given the names of states and actions."""
        pairs, numbers = self._pairs(names), self.columns[name].reals()
        if not self.actions:
            values = np.full(len(names.states), np.nan)
            values[pairs[0]] = numbers
            return values
        # A pair without a row is not available. At an end one row is enough: it speaks for all.
        values, there = np.zeros(names.shape), np.zeros(names.shape, bool)
        values[pairs], there[pairs] = numbers, True
        first = values[np.arange(len(values)), there.argmax(axis=1)]
        return np.where(there, values, first[:, None])

    def cells(self, name: str, names: Names) -> np.ndarray:
        """[S] or [S, A] the numbers of a column, or its words, for formulas."""
        column = self.columns[name]
        column.refuse(column.voids, "a number or a name")
        if column.texts is None or np.isfinite(column.numbers()).all():
            return self.column(name, names)
        places = replace(column, values=column.values, texts=None)
        codes = replace(self, columns={**self.columns, name: places}).column(name, names)
        return np.array(column.texts)[codes.astype(np.int64)]

    def check_names(self, names: Names, mdp: MDP) -> None:
        """Raises unless the table speaks of exactly the states and actions of the model."""
        for kind, known, count in (
            ("state", names.state_numbers, mdp.states),
            ("action", names.action_numbers, mdp.actions),
        ):
            if kind not in self.columns:
                continue
            met = {*self.columns[kind].numbered(known, f"one of the model's {count}").tolist()}
            if len(met) < count and not (kind == "action" and mdp.restricted):
                missing = next(name for name, number in known.items() if number not in met)
                raise InvalidModel(
                    f"{self.path} must have a row for every {kind} ({count}); {missing!r} has none"
                )
        there = np.zeros(names.shape, bool)
        there[self._pairs(names)] = True
        if (lost := mdp.available & ~there).any():
            state, action = np.argwhere(lost)[0].tolist()
            raise InvalidModel(
                f"{self.path} must have a row for every state and action that is available; "
                f"state {names.states[state]!r} has none for action {names.actions[action]!r}"
            )


def table_features(
    table: FeatureTable | None, settings: ProblemSettings, names: Names, available: np.ndarray
) -> Features:
    """The `Features` that `problem.toml` makes of the columns, or of the states.

    Args:
        table: of `features.csv`; None where no column is needed.
        settings: of `problem.toml`.
        names: of states and actions.
        available: [S, A] bool, which actions there are.
    """
    path, offered = (table.path, table.offered) if table else (settings.path, ())
    if settings.reward is None:
        raise InvalidModel(
            f"{settings.path} must say which columns of {path.name} matter: under [features], "
            f"reward = [...] and costs = [[...]]; {path.name} has {', '.join(offered)}"
        )
    blocks = [settings.reward, *settings.costs]
    if table is not None and any(isinstance(block, str) for block in blocks):
        return _formula_features(table, settings, blocks, names, available)
    lists = [block for block in blocks if not isinstance(block, str)]
    keys = ["reward", *(f"costs[{k}]" for k in range(len(lists) - 1))]
    chosen = dict(zip(keys, lists, strict=True))
    for key, listed in chosen.items():
        if strange := next((name for name in listed if name not in offered), None):
            raise InvalidModel(
                f"{settings.path}: features.{key} must name columns of {path.name} "
                f"({', '.join(offered)}); got {strange!r}{did_you_mean(strange, offered)}"
            )

    def stacked(listed: tuple[str, ...]) -> GivenTable:
        if not listed or table is None:
            from scipy.sparse import eye_array

            return eye_array(len(names.states), format="csr")
        return np.stack([table.column(name, names) for name in listed], axis=-1)

    reward, *costs = map(stacked, chosen.values())
    reward_names, *cost_names = (listed or names.states for listed in chosen.values())
    try:
        return Features(reward, costs, reward_names, cost_names)
    except InvalidModel as error:
        message = str(error)
        raise InvalidModel(message if str(path) in message else f"{path}: {message}") from None


def _formula_features(
    table: FeatureTable,
    settings: ProblemSettings,
    blocks: Sequence[tuple[str, ...] | str],
    names: Names,
    available: np.ndarray,
) -> Features:
    """The `Features` of formulas over the columns; a list of columns is their sum."""
    if not all(blocks):
        raise InvalidModel(
            f"{settings.path}: features.reward and costs must not be a formula beside "
            '{ one_hot = "state" }; got both: list columns in the place of the formula'
        )
    reward, *costs = (one if isinstance(one, str) else formula_of(one) for one in blocks)
    with naming(settings.path, InvalidModel):
        formulas = FormulaFeatures(reward=reward, costs=tuple(costs))
        asked = columns_of(formulas.blocks)
        columns = {name: table.cells(name, names) for name in table.offered if name in asked}
        unused = {name: np.zeros(0) for name in table.offered if name not in asked}
        return features_of_columns(formulas, unused | columns, names.actions, available)
