"""`tacit predict`: the chances of actions by a run, with intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional, Union

from tacit.cli.terminal import Answer, Terminal, shown_default, table_text
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    import numpy as np

    from tacit.estimators.logged.recovery import LoggedRecovery
    from tacit.folders.names import Names
    from tacit.folders.runs import Run
    from tacit.model.mdp import MDP
    from tacit.model.objective import Features
    from tacit.recovery import Recovery

# Rows shown to people; --out writes all.
LISTED = 20


@dataclass(frozen=True, kw_only=True)
class Predict:
    """Predict what is done by a run: the chances of all actions, with intervals.

    tacit predict run --at kitchen hall --out chances.csv

    Intervals need the world: it is read from the problem that the run was made from, which must not
    have changed. Where the run is of trips, they need a goal. A run of measurements predicts at the
    rows of a table, which has their columns.
    """

    run_folder: Path
    """folder of the run, as `tacit recover` writes it"""
    at: Annotated[Union[None, tuple[str, ...]], shown_default("all with a choice")] = None
    """states by name, or a .csv or .parquet file with a column `state`, and for trips `goal`; of
    measurements a file with their columns"""
    goal: Annotated[Optional[str], shown_default("column `goal`")] = None
    """goal of all trips"""
    part: Annotated[Optional[int], shown_default("the only one")] = None
    """number of a type or a task, where there are several"""
    problem: Annotated[Optional[Path], shown_default("that of the run")] = None
    """folder of the problem whose world is predicted in"""
    confidence: float = 0.95
    """of the intervals"""
    out: Annotated[Optional[Path], shown_default("write nothing")] = None
    """.csv or .parquet file to write, with one row a place and action"""

    def run(self, terminal: Terminal) -> Answer:
        """Predicts, writes what was asked for, and says what came out."""
        from tacit.estimators.logged.recovery import LoggedRecovery
        from tacit.files.tables import write_columns
        from tacit.folders.runs import Run

        if self.out is not None and self.out.suffix.lower() not in (".csv", ".parquet"):
            raise InvalidModel(f"out must be a .csv or .parquet file; got {self.out.name}")
        run = Run.load(self.run_folder, several=True)
        recovery = run.recovery.part(self.part)
        measured = isinstance(recovery, LoggedRecovery)
        places, goals = self._rows(recovery) if measured else self._places(run, recovery)
        world, features = (None, None) if measured else self._world(run, recovery, terminal)
        found = recovery.predict(
            places, goals, world=world, features=features, confidence=self.confidence
        )
        frame = found.frame(run.layout)
        columns = {name: frame[name].to_list() for name in frame.columns}
        if self.out is not None:
            write_columns(self.out, columns)
        note = f"no intervals: {found.absence}" if found.absence else ""
        rows = list(zip(*columns.values(), strict=True))
        more = f"and {len(rows) - LISTED} more rows" if len(rows) > LISTED else ""
        parts = [
            table_text(list(columns), rows[:LISTED], f"chances by {self.run_folder}"),
            *(line for line in (more, note) if line),
            *([] if self.out is None else [f"written: {self.out}"]),
        ]
        data: dict[str, object] = {
            "run": str(self.run_folder),
            "confidence": found.confidence,
            "method": found.method,
            "absence": found.absence,
            "predictions": columns,
            "out": None if self.out is None else str(self.out),
        }
        return Answer(parts, data)

    def _rows(self, recovery: LoggedRecovery) -> tuple[np.ndarray, None]:
        """[n, d] the rows that are asked about; no goals."""
        import numpy as np

        from tacit.files.tables import open_table

        asked = {"--goal": self.goal, "--problem": self.problem}
        refused = [word for word, value in asked.items() if value is not None]
        if refused:
            raise InvalidModel(
                f"a run of measurements is predicted without {refused[0]}: nothing is known of its "
                "world but the log it was made from"
            )
        at = [Path(one) for one in self.at or ()]
        if len(at) != 1 or at[0].suffix.lower() not in (".csv", ".parquet"):
            raise InvalidModel(
                "--at must be one .csv or .parquet file with the columns "
                f"{', '.join(recovery.columns)}; got {' '.join(self.at or ('nothing',)):.60}"
            )
        table = open_table(at[0], InvalidModel, expected=recovery.columns)
        table.require(*recovery.columns, unique=recovery.columns)
        cells = table.read(recovery.columns, reals=recovery.columns)
        rows = np.stack([cells[name].values for name in recovery.columns], axis=1)
        if not len(rows):
            raise InvalidModel(f"{at[0]} must have one row a place; it has none")
        return rows, None

    def _places(self, run: Run, recovery: Recovery) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Numbers of the states, and of the goals, that are asked about."""
        import numpy as np

        from tacit.folders.names import Names, numbers
        from tacit.folders.recoveries import shape_of
        from tacit.model.layout import state_names

        count, actions = shape_of(recovery)
        layout = run.layout
        known = state_names(layout, count) or numbers(count)
        source = f"the run {self.run_folder}"
        names = Names(known, layout.action_names or numbers(actions), (source, source))
        goals = None if self.goal is None else np.array([_number(self.goal, names, "goal")])
        at = self.at or ()
        if len(at) == 1 and Path(at[0]).suffix.lower() in (".csv", ".parquet"):
            return _table(Path(at[0]), names, goals)
        states = [_number(one, names, "at") for one in at]
        return (np.array(states) if states else None), goals

    def _world(
        self, run: Run, recovery: Recovery, terminal: Terminal
    ) -> tuple[MDP | None, Features | None]:
        """The world that is predicted in, and its features; None for those of the recovery."""
        from tacit.estimators.trips.traveller import TripsRecovery
        from tacit.folders.runs import data_hashes
        from tacit.model.mdp import MDP

        if self.problem is not None:
            problem = terminal.load_problem(self.problem)
            return problem.mdp, problem.features
        folder = run.config.get("problem")
        if isinstance(recovery, TripsRecovery) or not folder or not Path(str(folder)).is_dir():
            return None, None
        problem = terminal.load_problem(Path(str(folder)))
        world, features = problem.mdp, problem.features
        if run.config.get("close_untaken") and recovery.solution is not None:
            there = recovery.solution.policy > 0
            world = MDP(world.transitions, world.initial, world.discount, available=there)
            world = replace(world, evidence=problem.mdp.evidence)
        hashes = data_hashes(world, features, problem.seen)
        changed = [part for part in ("mdp", "features") if hashes[part] != run.hashes.get(part)]
        if changed:
            raise InvalidModel(
                f"{folder} must be as it was when {self.run_folder} was made; "
                f"{' and '.join(changed)} changed: recover again, or give --problem FOLDER to "
                "predict in another world"
            )
        return world, features


def _number(name: str, names: Names, what: str) -> int:
    """The number of a state by its name, or its number where states have none."""
    from tacit.files.wording import did_you_mean

    if name not in names.state_numbers:
        hint = did_you_mean(name, names.states)
        raise InvalidModel(f"{what} must be a state of {names.sources[0]}; got {name!r}{hint}")
    return names.state_numbers[name]


def _table(
    path: Path, names: Names, goals: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Numbers of the states, and of the goals, of a table."""
    from tacit.files.tables import open_table

    table = open_table(path, InvalidModel, expected=("state", "goal"))
    table.require("state")
    asked = [name for name in ("state", "goal") if name in table.names]
    if goals is not None and "goal" in asked:
        raise InvalidModel(f"{path} has goals; --goal gives another: leave one out")
    cells = table.read(asked, texts=asked)
    known = f"a state of {names.sources[0]}"
    found = {name: cells[name].numbered(names.state_numbers, known) for name in asked}
    if not len(found["state"]):
        raise InvalidModel(f"{path} must have one row a place; it has none")
    return found["state"], found.get("goal", goals)
