"""`tacit report`, `tacit figures`, `tacit score`: a run as a page, as figures, on other data."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional, cast

from tacit.cli.terminal import (
    Answer,
    Cell,
    Part,
    Table,
    Terminal,
    finding_data,
    headline_data,
    shown_default,
)
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tacit.checks.held_out import Prediction
    from tacit.cli.recover import Recover
    from tacit.data.demonstrations import Demonstrations
    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run
    from tacit.inverse.joint.recovery import JointRecovery
    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.inverse.recovery import Recovery

PAGE, FIGURES = "report.html", "figures"
SMALLEST, LARGEST = 80 / 25.4, 400 / 25.4  # inches of a figure: names need room beside bars
NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


@dataclass(frozen=True)
class Report:
    """Write one offline HTML page about a run: what was found, and what that rests on."""

    folder: Path
    """folder of the run, as `tacit recover` writes it"""
    out: Annotated[Optional[Path], shown_default("report.html in that folder")] = None
    """file of the page; only the default writes figures as well"""
    private: bool = False
    """leave out states, episodes, groups and paths, so that the page can be shared"""
    raw_units: bool = field(default=False, kw_only=True)
    """weights and prices of the features as given, and not of standardised ones"""

    def run(self, terminal: Terminal) -> Answer:
        """Writes the page of a run, and says where."""
        from tacit.folders.runs import Run

        out = self.folder / PAGE if self.out is None else self.out
        _check_name(out, given=self.out is not None)
        run = Run.load(self.folder, several=True)
        asked = {"private": self.private, "raw_units": self.raw_units}
        return write_report(run, self.folder, out=self.out, **asked)


def write_report(
    run: Run,
    folder: Path,
    *,
    out: Path | None = None,
    private: bool = False,
    raw_units: bool = False,
) -> Answer:
    """Writes the page of a run, with figures beside it where it goes into the run's folder."""
    from tacit.files.atomic import check_folder, write_bytes
    from tacit.show import figure_files
    from tacit.show.html import render
    from tacit.show.page import recovery_document
    from tacit.show.summary import holds_several

    make = recovery_document
    if holds_several(run):
        from tacit.show.several import several_document as make
    page = render(document := make(run, private=private, raw_units=raw_units)).encode()
    figures = figure_files(document) if out is None and not private else {}
    check_folder(folder / FIGURES)
    if figures:
        (folder / FIGURES).mkdir(exist_ok=True)
    for name, image in figures.items():
        write_bytes(folder / FIGURES / name, image)
    place = folder / PAGE if out is None else out
    write_bytes(place, page)  # last: a page says that its figures are there
    saved = f", {len(figures)} figures in {folder / FIGURES}" if figures else ""
    data = {
        "report": str(place),
        "bytes": len(page),
        "figures": [str(folder / FIGURES / name) for name in figures],
        "findings": [headline_data(one) for one in document.headlines],
    }
    return Answer([f"{place} ({len(page) / 1000:.0f} kB){saved}"], data)


@dataclass(frozen=True)
class Figures:
    """Write the figures of a run for a paper: weights, prices, maps, residuals, price curves."""

    folder: Path
    """folder of the run, as `tacit recover` writes it"""
    out: Annotated[Optional[Path], shown_default("figures in that folder")] = None
    """folder to write them to"""
    format: Literal["pdf", "png", "svg"] = "pdf"
    """kind of file"""
    width: str = "89mm"
    """width of a figure in mm, cm or in; text keeps its size in points"""
    raw_units: bool = field(default=False, kw_only=True)
    """weights and prices of the features as given, and not of standardised ones"""

    def __post_init__(self) -> None:
        if not SMALLEST <= self.inches <= LARGEST:
            raise InvalidModel(f"width must be from 80mm to 400mm; got {self.width!r}")

    @property
    def inches(self) -> float:
        """The width in inches."""
        units = {"mm": 25.4, "cm": 2.54, "in": 1.0}
        number, unit = self.width.strip()[:-2], self.width.strip()[-2:]
        try:
            return float(number) / units[unit]
        except (KeyError, ValueError):
            raise InvalidModel(
                f"width must be a number and mm, cm or in, such as 89mm; got {self.width!r}"
            ) from None

    def run(self, terminal: Terminal) -> Answer:
        """Writes one file a figure, each whole or not at all, and says where."""
        import io
        import warnings

        from tacit.files.atomic import write_bytes
        from tacit.folders.runs import Run
        from tacit.show.canvas import MISSING, styled
        from tacit.show.checks import in_shown_units

        out = self.folder / FIGURES if self.out is None else self.out
        run = Run.load(self.folder, several=True)
        figures = _all_figures(in_shown_units(run, raw_units=self.raw_units))
        out.mkdir(parents=True, exist_ok=True)
        written, boxes = [], []
        for name, figure in figures.items():
            width, height = figure.get_size_inches()
            figure.set_size_inches(self.inches, height * self.inches / width)
            file = io.BytesIO()
            with styled(), warnings.catch_warnings(record=True) as told:
                warnings.filterwarnings("always", MISSING)
                figure.savefig(file, format=self.format, dpi=300, metadata=NO_DATE[self.format])
            written.append(out / f"{name}.{self.format}")
            write_bytes(written[-1], file.getvalue())
            boxes += [str(written[-1])] if told and self.format != "svg" else []
        data = {"figures": [str(path) for path in written], "boxes": boxes}
        parts = [f"{len(written)} figures in {out}", *map(str, written)]
        if boxes:
            parts.append(
                f"The font lacks letters of some names: they are boxes in {len(boxes)} figures. "
                "--format svg keeps text as text, for the reader's own font."
            )
        return Answer(parts, data)


def _all_figures(run: Run) -> dict[str, Figure]:
    """Name -> figure, every picture that the run has numbers for."""
    import numpy as np

    from tacit.show import plot
    from tacit.show.canvas import figure_of
    from tacit.show.checks import price_curves
    from tacit.show.summary import holds_several

    recovery, layout = run.recovery, run.layout
    if holds_several(run):
        return {"beside": recovery.plot()}
    known = [bool(np.isfinite(weights).all()) for weights in recovery.cost_weights]
    drawn: dict[str, Axes] = {}
    if any(known) or np.isfinite(recovery.reward_weights).all():
        drawn["weights"] = plot.weights(recovery)
    if known:
        drawn["prices"] = plot.prices(recovery)
    drawn["reward"] = plot.map(recovery, layout=layout)
    for k in np.flatnonzero(known).tolist():
        drawn[f"cost-{k}"] = plot.map(recovery, k, layout=layout)
    drawn["policy"] = plot.policy(recovery, layout=layout)
    drawn["visits"] = plot.map(recovery, "visits", layout=layout)
    if layout.is_grid and layout.directions:
        drawn["flows"] = plot.flows(recovery, layout=layout)
    if np.isfinite(recovery.goodness.residuals).any():
        drawn["residuals"] = plot.residuals(recovery, layout=layout)
    for curve in price_curves(run.extras):
        drawn[f"price-{curve.constraint}"] = plot.price_curve(curve)
    return {name: figure_of(axes) for name, axes in drawn.items()}


def _check_name(out: Path, *, given: bool) -> None:
    """Raises `OSError` unless a file can have this name."""
    if out.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(out))
    if given and not out.parent.is_dir():
        raise OSError(errno.ENOENT, "no such folder to write the report to", str(out.parent))


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
        from tacit.folders.reading import bad_line
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
    from tacit.folders.reading import SEEN, one_of

    if not path.is_dir():
        return path
    found = one_of(path, *SEEN)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "the folder holds no demonstrations", str(path))
    return found


def _read(path: Path, run: Run) -> Demonstrations:
    """The demonstrations of a file, with the names of states and actions that the run has."""
    from tacit.folders.reading import read_demonstrations
    from tacit.folders.recoveries import shape_of
    from tacit.folders.settings import Names, numbers

    states, actions = shape_of(run.recovery)
    layout = run.layout
    names = Names(layout.state_names or numbers(states), layout.action_names or numbers(actions))
    source = f"the run {run.config.get('out', '')}".strip()
    return read_demonstrations(path, names, source=source)[0]


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
) -> list[Part]:
    import numpy as np

    def beside(value: float, error: float) -> str:
        return f"{value:.6g}" if np.isnan(error) else f"{value:.6g} (standard error {error:.2g})"

    rows: list[tuple[Cell, ...]] = [("episodes", found.episodes, ""), ("steps", found.steps, "")]
    if not np.isnan(likely := found.log_likelihood):
        null, steps = found.null_log_likelihood, found.steps
        told = beside(likely, found.log_likelihood_error)
        rows.append(("log-likelihood", told, f"{null:.6g}"))
        rows.append(("log-likelihood a step", f"{likely / steps:.4g}", f"{null / steps:.4g}"))
        rows.append(("rho squared", f"{found.rho_squared:.4f}", "0"))
    hits = beside(found.hit_rate, found.hit_rate_error)
    rows.append(("hit rate", hits, f"{found.null_hit_rate:.4g}"))
    title = f"{path} by {arguments.run_folder}"
    parts: list[Part] = [Table(["what", "recovery", "random actions"], rows, title)]
    shown = [name for name in ("episode", "origin", "goal", "steps", "z_score") if name in columns]
    listed = list(zip(*(columns[name][:LISTED].tolist() for name in shown), strict=True))
    parts.append(Table([name.replace("_", " ") for name in shown], listed, "the worst fits"))
    parts += list(found.sentences)
    if arguments.out is not None:
        parts.append(f"written: {arguments.out}")
    return parts


def shared_run(
    arguments: Recover,
    problem: Problem,
    seen: Demonstrations,
    groups: Sequence[str],
    *,
    estimator: Likelihood | None,
    place: Path,
) -> JointRecovery:
    """The fit of these groups with the same weights, written as a run of its own."""
    from tacit.folders.runs import Run, data_hashes
    from tacit.inverse.joint.tasks import Task
    from tacit.inverse.recover import recover
    from tacit.show.summary import summary_of

    of_each = [seen.select(seen.groups == name) for name in groups]
    joint = recover(
        [Task(problem.mdp, problem.features, one) for one in of_each],
        estimator=estimator,
        share_reward=arguments.share == "all",
        allow_impossible=True,  # refused already, group by group, where it is not allowed
        throw=False,
    )
    place.parent.mkdir(parents=True, exist_ok=True)
    asked = {"problem": str(arguments.problem), "command": arguments.command}
    Run(
        cast("Recovery", joint),
        layout=problem.layout,
        config={**asked, "tasks": list(groups), "share": arguments.share},
        data=summary_of(problem, seen),
        notes=tuple(problem.notes),
        seed=arguments.seed,
        hashes=data_hashes(problem.mdp, problem.features, seen),
    ).save(place)
    return joint
