"""`tacit score`: demonstrations judged by a run."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from tacit.cli.terminal import Answer, Terminal, finding_data, shown_default, table_text
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    import numpy as np

    from tacit.checks.held_out import Prediction
    from tacit.data.demonstrations import Demonstrations
    from tacit.folders.runs import Run

# Episodes listed for people, the worst first.
LISTED = 5


@dataclass(frozen=True)
class Score:
    """Score given demonstrations by a run: log-likelihood, hit rate, and the worst episodes.

    The demonstrations may be those of the run or others in the same world, with the same names of
    states and actions. Where the run is of trips, each is judged on the way to its own goal.
    """

    run_folder: Path
    """folder of the run, as `tacit recover` writes it"""
    file: Path
    """demonstrations as .parquet, .csv or .npz, or a problem folder that holds some"""
    out: Annotated[Optional[Path], shown_default("write nothing")] = None
    """.csv or .parquet file to write, with one row an episode, the worst fit first"""

    def run(self, terminal: Terminal) -> Answer:
        """Scores the demonstrations, writes what was asked for, and says what came out."""
        from tacit.checks import score
        from tacit.files.tables import write_columns
        from tacit.folders.demonstrations import bad_line
        from tacit.folders.runs import Run
        from tacit.inverse.joint.trips import BadTrip

        if self.out is not None and self.out.suffix.lower() not in (".csv", ".parquet"):
            raise InvalidModel(f"out must be a .csv or .parquet file; got {self.out.name}")
        run = Run.load(self.run_folder)
        path = demonstrations_of(self.file)
        seen = _read(path, run)
        try:
            found = score(run.recovery, seen)
        except BadTrip as error:
            raise bad_line(path, error, run.layout, seen) from None
        columns = _columns(run, seen, found)
        if self.out is not None:
            write_columns(self.out, columns)
        numbers = {name: value for name, value in vars(found).items() if name != "fits"}
        data = {
            "run": str(self.run_folder),
            "demonstrations": str(path),
            **numbers,
            "rho_squared": found.rho_squared,
            "fits": columns,
            "findings": [finding_data(one) for one in found.sentences],
            "out": None if self.out is None else str(self.out),
        }
        return Answer(_text(found, columns, self, path), data)


def demonstrations_of(path: Path) -> Path:
    """The file of the demonstrations: the path itself, or the one in a problem folder."""
    from tacit.folders.demonstrations import FILES, one_of

    if not path.is_dir():
        return path
    found = one_of(path, *FILES)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "the folder holds no demonstrations", str(path))
    return found


def _read(path: Path, run: Run) -> Demonstrations:
    """The demonstrations of a file, with the names of states and actions that the run has."""
    from tacit.folders.demonstrations import read_demonstrations
    from tacit.folders.names import Names, numbers
    from tacit.folders.recoveries import shape_of

    states, actions = shape_of(run.recovery)
    layout = run.layout
    source = f"the run {run.config.get('out', '')}".strip()
    names = Names(
        layout.state_names or numbers(states),
        layout.action_names or numbers(actions),
        (source, source),
    )
    return read_demonstrations(path, names)[0]


def _columns(run: Run, seen: Demonstrations, found: Prediction) -> dict[str, np.ndarray]:
    """Name -> [E] the fits of the episodes, with origin and goal where they are trips."""
    from tacit.folders.runs import ends_of
    from tacit.inverse.joint.traveller import TripsRecovery

    columns, episodes = dict(found.fits.columns), found.fits.episode
    if not isinstance(run.recovery, TripsRecovery):
        return columns
    ends = ends_of(run.layout, run.recovery.trips(seen), episodes)
    return {"episode": columns.pop("episode"), **ends, **columns}


def _text(
    found: Prediction, columns: dict[str, np.ndarray], arguments: Score, path: Path
) -> list[str]:
    import numpy as np

    def beside(value: float, error: float) -> str:
        return f"{value:.6g}" if np.isnan(error) else f"{value:.6g} (standard error {error:.2g})"

    rows: list[tuple[str | float, ...]] = [
        ("episodes", found.episodes, ""),
        ("steps", found.steps, ""),
    ]
    if not np.isnan(likely := found.log_likelihood):
        null, steps = found.null_log_likelihood, found.steps
        told = beside(likely, found.log_likelihood_error)
        rows.append(("log-likelihood", told, f"{null:.6g}"))
        rows.append(("log-likelihood a step", f"{likely / steps:.4g}", f"{null / steps:.4g}"))
        rows.append(("rho squared", f"{found.rho_squared:.4f}", "0"))
    hits = beside(found.hit_rate, found.hit_rate_error)
    rows.append(("hit rate", hits, f"{found.null_hit_rate:.4g}"))
    title = f"{path} by {arguments.run_folder}"
    parts: list[str] = [table_text(["what", "recovery", "random actions"], rows, title)]
    shown = [name for name in ("episode", "origin", "goal", "steps", "z_score") if name in columns]
    listed = list(zip(*(columns[name][:LISTED].tolist() for name in shown), strict=True))
    parts.append(table_text([name.replace("_", " ") for name in shown], listed, "the worst fits"))
    parts += list(found.sentences)
    if arguments.out is not None:
        parts.append(f"written: {arguments.out}")
    return parts
