"""`tacit score`: demonstrations judged by a run."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

from tacit.cli.terminal import Answer, Terminal, finding_data, shown_default, table_text
from tacit.errors import InvalidDemonstrations, InvalidModel

if TYPE_CHECKING:
    from tacit.checks import held_out
    from tacit.data.demonstrations import Demonstrations
    from tacit.folders.names import Names
    from tacit.folders.runs import Run

# Episodes listed for people, the worst first, and what is shown of each.
LISTED = 5
SHOWN = ("episode", "origin", "goal", "steps", "z_score")


@dataclass(frozen=True)
class ScoreDemonstrations:
    """Score given demonstrations by a run: log-likelihood, hit rate, and the worst episodes.

    The demonstrations may be those of the run or others in the same world, with the same names of
    states and actions; or another log like the one that tacit ingest made the problem of, which is
    read with its options. Where the run is of trips, each is judged on the way to its own goal.
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
        from tacit.estimators.trips.traveller import TripsRecovery
        from tacit.estimators.trips.world import BadTrip
        from tacit.files.tables import write_columns
        from tacit.folders.demonstrations import bad_line
        from tacit.folders.runs import Run, trajectory_columns

        if self.out is not None and self.out.suffix.lower() not in (".csv", ".parquet"):
            raise InvalidModel(f"out must be a .csv or .parquet file; got {self.out.name}")
        run = Run.load(self.run_folder)
        path = demonstrations_of(self.file)
        seen = _read(path, run)
        try:
            prediction = score(run.recovery, seen)
        except BadTrip as error:
            raise bad_line(path, error, run.layout, seen) from None
        trips = run.recovery.trips(seen) if isinstance(run.recovery, TripsRecovery) else None
        fits = prediction.fits
        columns = trajectory_columns(fits.columns, fits.episode, seen, run.layout, trips)
        if self.out is not None:
            write_columns(self.out, columns)
        numbers = {name: value for name, value in vars(prediction).items() if name != "fits"}
        data = {
            "run": str(self.run_folder),
            "demonstrations": str(path),
            **numbers,
            "rho_squared": prediction.rho_squared,
            "fits": columns,
            "findings": [finding_data(one) for one in prediction.sentences],
            "out": None if self.out is None else str(self.out),
        }
        shown = [name for name in SHOWN if name in columns]
        rows = list(zip(*(columns[name][:LISTED].tolist() for name in shown), strict=True))
        heads = [name.replace("_", " ") for name in shown]
        parts = [
            _numbers(prediction, f"{path} by {self.run_folder}"),
            table_text(heads, rows, "the worst fits"),
            *prediction.sentences,
            *([] if self.out is None else [f"written: {self.out}"]),
        ]
        return Answer(parts, data)


def demonstrations_of(path: Path) -> Path:
    """The file of the demonstrations: the path itself, or the one in a problem folder."""
    from tacit.folders.demonstrations import FILES, one_of

    if not path.is_dir():
        return path
    file = one_of(path, *FILES)
    if file is None:
        raise FileNotFoundError(errno.ENOENT, "the folder holds no demonstrations", str(path))
    return file


def _read(path: Path, run: Run) -> Demonstrations:
    """The demonstrations of a file, with the names of states and actions that the run has.

    A log is read as the one was that the problem was made of.
    """
    from tacit.files.tables import open_table
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
    options = run.config.get("ingest")
    if isinstance(options, Mapping) and options and path.suffix.lower() != ".npz":
        held = open_table(path, InvalidDemonstrations).names
        if not {"state", "action"} <= {*held}:
            return _ingested(path, options, names)
    return read_demonstrations(path, names)[0]


def _ingested(path: Path, options: Mapping[str, Any], names: Names) -> Demonstrations:
    """The demonstrations of a log, read by options of `tacit ingest`, with the numbers of a run."""
    import numpy as np

    from tacit.cli.ingest import Ingest
    from tacit.files.wording import some

    log = Ingest.again(path, options).read(profiles=options.get("profiles"))
    places = (
        (log.layout.state_names, names.state_numbers),
        (
            log.layout.action_names,
            names.action_numbers,
        ),
    )
    numbers = []
    for what, (own, known) in zip(("states", "actions"), places, strict=True):
        if strange := [name for name in own if name not in known]:
            raise InvalidDemonstrations(
                f"{what} of {path} must be those of {names.sources[0]}; it has {some(strange)}"
            )
        numbers.append(np.array([known[name] for name in own]))
    states, actions = numbers
    seen = log.demonstrations
    finals = np.where(seen.final_states >= 0, states[seen.final_states], -1)
    return replace(
        seen, states=states[seen.states], actions=actions[seen.actions], final_states=finals
    )


def _numbers(prediction: held_out.Score, title: str) -> str:
    """How well the run predicts, beside actions at random, as a table."""
    likely, null, steps = (
        prediction.log_likelihood,
        prediction.null_log_likelihood,
        prediction.steps,
    )
    rows: list[tuple[str, str | int, str]] = [
        ("episodes", prediction.episodes, ""),
        ("steps", steps, ""),
    ]
    if likely == likely:
        rows += [
            ("log-likelihood", _with_error(likely, prediction.log_likelihood_error), f"{null:.6g}"),
            ("log-likelihood a step", f"{likely / steps:.4g}", f"{null / steps:.4g}"),
            ("rho squared", f"{prediction.rho_squared:.4f}", "0"),
        ]
    hits = _with_error(prediction.hit_rate, prediction.hit_rate_error)
    rows.append(("hit rate", hits, f"{prediction.null_hit_rate:.4g}"))
    return table_text(["what", "recovery", "random actions"], rows, title)


def _with_error(value: float, error: float) -> str:
    return f"{value:.6g}" + (f" (standard error {error:.2g})" if error == error else "")
