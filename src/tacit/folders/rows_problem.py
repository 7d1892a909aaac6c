"""A problem whose states are rows of measurements: nobody has a table of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tacit.data.measurements import Measurements
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.logged.world import Logged, LoggedTask
from tacit.files.atomic import naming, write_bytes
from tacit.files.tables import Progress
from tacit.folders.demonstrations import FILES, one_of
from tacit.folders.problem import Problem
from tacit.folders.settings import (
    FILE,
    VERSION,
    ProblemSettings,
    coefficient_table,
    toml_lines,
)
from tacit.inference.findings import row_findings
from tacit.model.features.formulas import FormulaFeatures
from tacit.model.layout import Layout

# Keys of problem.toml that are about tables of states.
TABULAR = ("initial", "goal", "reward", "states", "rows", "absorbing", "truth")


@dataclass(frozen=True, eq=False)
class RowsProblem(Problem):
    """A log of measurements, and what is known of its world, as one folder holds it.

    Attributes:
        mdp: what is known of the world.
        features: formulas over the columns.
        demonstrations: the rows.
    """

    mdp: Logged  # pyright: ignore[reportIncompatibleVariableOverride]
    features: FormulaFeatures  # pyright: ignore[reportIncompatibleVariableOverride]
    demonstrations: Measurements = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.task.demonstrations.check_rows()
        self.features.fitted(self.demonstrations)  # refuses formulas that are not of these rows
        object.__setattr__(self, "discount", self.mdp.discount)

    @property
    def task(self) -> LoggedTask:
        """What a recovery is asked about."""
        return LoggedTask(self.mdp, self.features, self.demonstrations)

    def check_tabular(self) -> None:
        """Raises `InvalidModel`: there is no table of states."""
        raise InvalidModel(
            "this problem is a log of measurements, without a table of states: it is for tacit "
            "recover, predict and score"
        )

    def with_coefficients(self, estimator: Any, *, seed: int = 0) -> Any:
        """The estimator with what the folder knows of coefficients; None where nothing picks it."""
        if estimator is None and self.coefficients:
            estimator = Likelihood(free_reward=True, seed=seed)
        return super().with_coefficients(estimator, seed=seed)

    @property
    def settings(self) -> Mapping[str, object]:
        """What `[measurements]` of `problem.toml` says."""
        found = {
            "columns": list(self.demonstrations.columns),
            "reward": self.features.reward,
            "costs": list(self.features.costs),
            "exogenous": list(self.mdp.exogenous),
        }
        return {name: part for name, part in found.items() if part}

    def _write(self, folder: Path) -> None:
        self.demonstrations.save(folder / "demonstrations.parquet")
        lines = toml_lines({"version": VERSION, "discount": self.mdp.discount})
        lines += toml_lines(self.settings, "measurements")
        lines += toml_lines({"actions": self.demonstrations.action_names}, "names")
        lines += toml_lines(coefficient_table(self.coefficients), "coefficients")
        lines += toml_lines(self.ingest, "ingest")
        write_bytes(folder / FILE, "\n".join([*lines, ""]).encode())

    def __repr__(self) -> str:
        return f"RowsProblem({self.demonstrations!r}, {self.mdp!r})"


def read_rows(folder: Path, settings: ProblemSettings, progress: Progress | None) -> dict[str, Any]:
    """The arguments of a `RowsProblem`, read from its folder."""
    about = settings.measurements
    assert about is not None
    with naming(settings.path, InvalidModel):
        if again := [key for key in TABULAR if getattr(settings, key)]:
            raise InvalidModel(f"[measurements] is without a table of states; got {again[0]}, too")
        features = FormulaFeatures(reward=about.reward, costs=about.costs)
        discount = 0.9 if settings.discount is None else settings.discount
        world = Logged(discount=discount, exogenous=about.exogenous)
    path = one_of(folder, *FILES)
    if path is None:
        raise InvalidDemonstrations(
            f"{folder} must hold demonstrations to recover from: demonstrations.parquet, .csv or "
            ".npz; it holds none"
        )
    layout = Layout(action_names=settings.actions)
    loaded = Measurements.load(path, layout, state=about.columns, progress=progress)
    seen = cast("Measurements", loaded)
    return {
        "mdp": world,
        "features": features,
        "demonstrations": seen,
        "layout": Layout(action_names=seen.action_names),
        "notes": (*seen.notes, *row_findings(seen)),
        "coefficients": settings.coefficients,
        "ingest": settings.ingest,
    }
