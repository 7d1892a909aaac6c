"""`features.csv`: one row a state, or one a state and action where it has a column `action`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.errors import InvalidModel
from tacit.objective import Features
from tacit.problems.settings import Settings
from tacit.problems.sheets import Sheet, nearest, number, read_sheet


@dataclass(frozen=True)
class FeatureTable:
    """The rows of `features.csv`, and the names it uses.

    Attributes:
        sheet: the file.
        rows: (line number, cells) of each row.
        states: distinct names of states, as found.
        actions: distinct names of actions, as found; empty where a row speaks of a state alone.
    """

    sheet: Sheet
    rows: tuple[tuple[int, list[str]], ...]
    states: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def offered(self) -> tuple[str, ...]:
        """The columns that may be features."""
        return tuple(name for name in self.sheet.header if name not in ("state", "action"))

    def gives(self, name: str) -> bool:
        """Whether there is a column of that name with one entry a state."""
        return not self.actions and name in self.offered

    def column(
        self, name: str, states: Mapping[str, int], actions: Mapping[str, int]
    ) -> np.ndarray:
        """[S] or [S, A] the numbers of a column.

        Args:
            name: of the column.
            states: number of each state, by name.
            actions: number of each action, by name.
        """
        place = self.sheet.header.index(name)
        shape = (len(set(states.values())), len(set(actions.values())) if self.actions else 1)
        values = np.full(shape, np.nan)
        for line, cells in self.rows:
            value = number(cells[place], path=self.sheet.path, line=line, field=name)
            values[states[cells[0]], actions[cells[1]] if self.actions else 0] = value
        return values if self.actions else values[:, 0]


def read_feature_table(path: Path) -> FeatureTable:
    """The table of `features.csv`, its names checked, its numbers not yet read."""
    sheet = read_sheet(path, ["state"])
    by_action = "action" in sheet.header
    front = [sheet.header.index(name) for name in (["state", "action"] if by_action else ["state"])]
    order = front + [j for j in range(len(sheet.header)) if j not in front]
    sheet = Sheet(path, tuple(sheet.header[j] for j in order), sheet.separator, sheet.content)
    rows, lines = [], {}
    for line, cells in sheet.rows():
        cells = [cells[j] for j in order]
        key = tuple(cells[: len(front)])
        for field, name in zip(("state", "action"), key, strict=False):
            if not name:
                raise InvalidModel(f"{path}, line {line}: {field} must have a name; it is empty")
        if key in lines:
            what = " and ".join(
                f"{f} {n!r}" for f, n in zip(("state", "action"), key, strict=False)
            )
            raise InvalidModel(
                f"{path}, line {line}: {what} must have one row; line {lines[key]} has it too"
            )
        lines[key] = line
        rows.append((line, cells))
    if not rows:
        raise InvalidModel(f"{path} must have one row a state; it has a header alone")
    states = tuple(dict.fromkeys(key[0] for key in lines))
    actions = tuple(dict.fromkeys(key[1] for key in lines)) if by_action else ()
    for state in states:
        for action in actions:
            if (state, action) not in lines:
                raise InvalidModel(
                    f"{path} must have a row for every state and action; "
                    f"state {state!r} has none for action {action!r}"
                )
    return FeatureTable(sheet, tuple(rows), states, actions)


def table_features(
    table: FeatureTable,
    settings: Settings,
    states: Mapping[str, int],
    actions: Mapping[str, int],
) -> Features:
    """The `Features` that `problem.toml` names among the columns.

    Args:
        table: of `features.csv`.
        settings: of `problem.toml`.
        states: number of each state, by name.
        actions: number of each action, by name.
    """
    path = table.sheet.path
    if settings.reward is None:
        raise InvalidModel(
            f"{settings.path} must say which columns of {path.name} matter: under [features], "
            f"reward = [...] and costs = [[...]]; {path.name} has {', '.join(table.offered)}"
        )
    for key, names in (
        ("features.reward", settings.reward),
        *((f"features.costs[{k}]", names) for k, names in enumerate(settings.costs)),
    ):
        if not names:
            raise InvalidModel(f"{settings.path}: {key} must name at least one column; got none")
        for name in names:
            if name not in table.offered:
                raise InvalidModel(
                    f"{settings.path}: {key} must name columns of {path.name} "
                    f"({', '.join(table.offered)}); got {name!r}{nearest(name, table.offered)}"
                )

    def stacked(names: tuple[str, ...]) -> np.ndarray:
        return np.stack([table.column(name, states, actions) for name in names], axis=-1)

    try:
        return Features(
            stacked(settings.reward),
            [stacked(names) for names in settings.costs],
            settings.reward,
            settings.costs,
        )
    except InvalidModel as error:
        said = str(error)
        raise InvalidModel(said if str(path) in said else f"{path}: {said}") from None
