"""`tacit reproduce`: every unit of work once, wherever it was interrupted, then the report.

A run is a folder with one file a unit, written whole or not at all, so that it can be continued.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit import (
    Demonstrations,
    Finding,
    Kind,
    Likelihood,
    Recovery,
    TacitError,
    many,
    methods,
    pages,
    progress,
    recover,
    runs,
)
from tacit_lab.studies import (
    BINDING,
    FIGURE,
    FIGURES,
    PUBLISHED,
    UNITS,
    Board,
    Draw,
    StudySettings,
    Sweep,
    read_unit,
    write_unit,
)
from tacit_lab.worlds import Recorded, recorded_buses

if TYPE_CHECKING:
    from tacit_lab.studies.tally import Reproduction

SETTINGS = "settings.json"
FORMAT = 3  # of the units; a folder of another one is refused
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class StudyUnit(NamedTuple):
    """One unit of work; what it leaves depends on nothing else but the settings."""

    kind: str  # "draw" or "sweep"
    block: int  # index of the block of a draw
    seed: int  # of the grid; -1 for the published one


def reproduce(
    settings: StudySettings,
    *,
    callbacks: Sequence[progress.Callback] = (),
    break_lock: bool = False,
) -> Path:
    """The path of the report, after running what is not done yet.

    Args:
        settings: what to run, and the folder to write.
        callbacks: called with an `Event` after every unit.
        break_lock: take the folder from a writer on another machine that is surely gone.
    """
    with claimed(settings, break_lock):
        complete(settings, tasks(settings), perform, "units of work", callbacks)
        return _write_report(settings)


def tasks(settings: StudySettings) -> list[StudyUnit]:
    """All units, the slowest kind first; the published draw where it is a draw of this grid."""
    blocks = range(len(settings.blocks))
    units = [StudyUnit("sweep", 0, seed) for seed in range(settings.seeds)]
    units += [StudyUnit("draw", block, seed) for seed in range(settings.seeds) for block in blocks]
    if settings.size == 5 and settings.hill == "absolute":
        shown = (b for b in blocks if settings.blocks[b].name in (PUBLISHED, BINDING))
        units += [StudyUnit("draw", b, FIGURE) for b in shown]
    return units


def perform(settings: StudySettings, kind: str, block: int, seed: int) -> None:
    """Does a task and writes what it found, wherever that is by the same compiled code."""
    import jax  # noqa: F401

    if kind == "sweep":
        from tacit_lab.studies.draws import run_sweep

        record = run_sweep(settings, seed)
    else:
        from tacit_lab.studies.draws import run_draw
        from tacit_lab.studies.report import comparisons

        record = run_draw(settings, settings.blocks[block], seed)
        for name, image in comparisons(settings, record).items():
            runs.write_bytes(settings.out / FIGURES / f"{name}.svg", image.encode())
    write_unit(settings.file(kind, block, seed), record)


def load(settings: StudySettings) -> Reproduction:
    """The `Reproduction` whose units lie in the folder."""
    from tacit_lab.studies.draws import ESTIMATORS
    from tacit_lab.studies.tally import Reproduction

    found, draws = tasks(settings), []
    for task in (one for one in found if one.kind == "draw"):
        path, block = settings.file(*task), settings.blocks[task.block].name
        draw = read_unit(path, Draw)
        own = {score.estimator for score in draw.scores} <= {*ESTIMATORS}
        if (draw.block, draw.seed) != (block, task.seed) or not own:
            raise runs.BadFile(f"{path} must be of {block}, seed {task.seed}")
        draws.append(draw)
    draws.sort(key=lambda draw: (draw.seed == FIGURE, draw.seed))
    sweeps = [read_unit(settings.file(*one), Sweep) for one in found if one.kind == "sweep"]
    return Reproduction(settings, tuple(draws), tuple(sweeps))


# --- one run of any study -------------------------------------------------------------------------


@contextmanager
def claimed(settings: StudySettings | Board, break_lock: bool) -> Iterator[None]:
    """Keeps the folder for this run; raises `TacitError` if it is another's."""
    settings.out.mkdir(parents=True, exist_ok=True)
    with runs.locked(settings.out, broken=break_lock):
        _check_settings(settings)
        yield


def _check_settings(settings: StudySettings | Board) -> None:
    """Makes the folder this run's, or raises `TacitError` if it is another's."""
    for name in (UNITS, FIGURES):
        (settings.out / name).mkdir(parents=True, exist_ok=True)
    page = settings.out / SETTINGS
    # Through JSON, so that a tuple and a list, 1 and 1.0 compare as they are read back.
    wanted = json.loads(json.dumps({**settings.identity(), "format": FORMAT}))
    if not page.exists():
        runs.write_bytes(page, (json.dumps(wanted, indent=2) + "\n").encode())
        return
    try:
        recorded = json.loads(page.read_text(encoding="utf-8"))
    except ValueError as error:
        raise OSError(f"{page} is no page of settings: {error}") from None
    if recorded != wanted:
        recorded = recorded if isinstance(recorded, dict) else {}
        names = [name for name in {**recorded, **wanted} if recorded.get(name) != wanted.get(name)]
        told = ", ".join(
            f"{n} {recorded.get(n)!r} there, {wanted.get(n)!r} asked" for n in names[:2]
        )
        raise TacitError(
            f"{settings.out} holds a run with other settings ({told}); choose another --out"
        )


def complete(
    settings: StudySettings | Board,
    units: Sequence[tuple],
    perform: Callable[..., None],
    called: str,
    callbacks: Sequence[progress.Callback],
    *,
    apart: bool = True,
) -> None:
    """Performs what has no file yet, in processes of one thread each, or on joblib's cluster.

    Sums in linear algebra round differently with the number of threads, so a unit would depend on
    who computes it; where it must not, one process is not spared that either: it stands `apart`.
    """
    left = [unit for unit in units if not settings.file(*unit).exists()]
    # Each worker writes its own units, and may stand in another folder.
    pieces = [(replace(settings, out=settings.out.absolute()), *unit) for unit in left]
    jobs = min(settings.jobs or many.cores(), len(left))
    with single_threads():
        if jobs > 1 or (jobs and many.cluster_is_told()[0]):
            work = many.each(perform, pieces, workers=jobs, ordered=False)
        else:
            work = _in_turn(perform, pieces) if apart and jobs else starmap(perform, pieces)
        for number, _ in enumerate(work, len(units) - len(left) + 1):
            for callback in callbacks:
                callback(progress.Event(called, number, {"of": len(units)}))


def _in_turn(perform: Callable[..., None], pieces: Sequence[tuple]) -> Iterator[None]:
    """Does one piece after the other in one process."""
    from joblib.externals.loky import ProcessPoolExecutor

    executor = ProcessPoolExecutor(max_workers=1, initializer=many.keep_compiled_code)
    try:
        for piece in pieces:
            yield executor.submit(perform, *piece).result()
    finally:
        executor.shutdown(kill_workers=True)


@contextmanager
def single_threads() -> Iterator[None]:
    """Processes started inside use one thread in linear algebra."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _write_report(settings: StudySettings) -> Path:
    """The path of the report, after writing it and `results.json`."""
    from tacit_lab.studies.report import document
    from tacit_lab.studies.tally import tally, to_text

    run, page = load(settings), settings.out / "report.html"
    with runs.sound(settings.out / UNITS, "records of one study"):
        numbers = to_text(tally(run))
    runs.write_bytes(settings.out / "results.json", numbers.encode())
    runs.write_bytes(page, pages.render(document(run)).encode())
    return page


# --- Rust's bus engines ---------------------------------------------------------------------------

GROUPS = ((1, 2, 3), (4,), (1, 2, 3, 4))
# By bins (tables IX and X) and discount, one row for each of GROUPS: replacement cost, maintenance,
# their standard errors (outer product), and the log-likelihood of decisions and usage; as printed.
PRINTED = {
    (90, 0.9999): (
        (11.7270, 4.8259, 2.602, 1.792, -2708.366),
        (10.0750, 2.2930, 1.582, 0.639, -3304.155),
        (9.7558, 2.6275, 1.227, 0.618, -6055.250),
    ),
    (90, 0.0): (
        (8.2985, 109.9031, 1.0417, 26.163, -2710.746),
        (7.6538, 71.5133, 0.7197, 13.778, -3306.028),
        (7.3055, 70.2769, 0.5067, 10.750, -6061.641),
    ),
    (175, 0.9999): (
        (11.7257, 2.4569, 2.597, 0.9122, -3993.991),
        (10.896, 1.1732, 1.581, 0.327, -4495.135),
        (9.7687, 1.3428, 1.226, 0.315, -8607.889),
    ),
    (175, 0.0): (
        (8.2969, 56.1657, 1.0477, 13.4205, -3996.353),
        (7.6423, 36.6692, 0.7204, 7.0675, -4496.997),
        (7.3113, 36.0175, 0.5073, 5.5145, -8614.238),
    ),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class EngineFit:
    """One column of Rust's tables, as printed and as found here.

    Attributes:
        bins: 90 (table IX) or 175 (table X).
        discount: .9999, or 0 for an owner who does not look ahead.
        groups: of buses.
        printed: replacement cost, maintenance, their standard errors, log-likelihood.
        found: the same, the standard errors by outer products as well.
        fisher: [2] standard errors by the information.
        spread: [2] p-values of the ratios of the two errors, by data drawn from the fit; NaN where
            nothing was drawn.
        misfit: p-value of the tests of the fit.
    """

    bins: int
    discount: float
    groups: tuple[int, ...]
    printed: tuple[float, ...]
    found: tuple[float, ...]
    fisher: np.ndarray
    spread: np.ndarray
    misfit: float

    @property
    def ratio(self) -> np.ndarray:
        """[2] outer-product errors over Fisher errors: 1, but for chance, if the model holds."""
        return np.array(self.found[2:4]) / self.fisher

    @property
    def finding(self) -> Finding:
        """What it means that the two kinds of errors differ."""
        called = f"{self.groups[0]} to {self.groups[-1]}" if len(self.groups) > 1 else "4"
        said = (
            f"Group{'s' if len(self.groups) > 1 else ''} {called}: outer-product errors are "
            f"{self.ratio[0]:.2f} times the Fisher ones ({self.found[2]:.3f} against "
            f"{self.fisher[0]:.3f} for the replacement cost). If the model holds, both estimate "
            "the same number. "
        )
        kind, p = Kind.ERRORS, methods.chance(self.spread[0])
        if self.spread[0] > methods.LEVEL:
            said += f"In data drawn from the fit they often differ as much ({p}): chance."
        elif not np.isnan(self.spread[0]):
            kind = Kind.MISFIT
            said += (
                f"In data drawn from the fit they seldom differ as much ({p}): the model does not "
                "hold for these groups. Fisher errors are then too small and outer-product ones no "
                "better founded: take sandwich errors, or fit the groups apart."
            )
        return Finding(said.strip(), kind, number=float(self.ratio[0]))


def engine_fits(
    folder: str | Path | None = None, *, draws: int = 40, seed: int = 0
) -> list[EngineFit]:
    """Rust's tables IX and X: all columns, as printed and as found here.

    Args:
        folder: that holds the folder rust of recordings; None for the one that TACIT_DATA names.
        draws: data sets drawn from each fit of table IX with a look ahead, to judge its errors.
        seed: of these.
    """
    fits = []
    for (bins, discount), rows in PRINTED.items():
        for groups, printed in zip(GROUPS, rows, strict=True):
            world = recorded_buses(groups, discount=discount, bins=bins, folder=folder)
            seen, months = world.demonstrations[0], np.bincount(world.tables["usage"])
            fit = recover(world.mdp, world.features, seen, estimator=Likelihood())
            driven = months[months > 0]
            usage = float(driven @ np.log(driven / driven.sum()))
            outer, fisher = _both_errors(fit)
            spread = np.full(2, np.nan)
            if draws and bins == 90 and discount > 0:
                drawn = np.array([_redrawn(world, fit, seed + n) for n in range(draws)])
                spread = (1 + (drawn >= outer / fisher).sum(axis=0)) / (1 + draws)
            own = (*fit.parameters.estimates, *outer, fit.log_likelihood + usage)
            fits.append(
                EngineFit(
                    bins=bins,
                    discount=discount,
                    groups=groups,
                    printed=printed,
                    found=tuple(map(float, own)),
                    fisher=fisher,
                    spread=spread,
                    misfit=fit.goodness.p_value,
                )
            )
    return fits


def _both_errors(fit: Recovery) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors by outer products and by the information."""
    outer, fisher = (fit.parameters.with_errors(kind) for kind in ("outer", "fisher"))
    return outer.standard_errors, fisher.standard_errors


def _redrawn(world: Recorded, fit: Recovery, seed: int) -> np.ndarray:
    """[2] the ratio of the two errors in data drawn from the fit: as many buses, as many months."""
    random = np.random.default_rng(seed)
    seen, moves = world.demonstrations[0], world.mdp.transitions
    at, every = seen.states[seen.offsets[:-1]].astype(np.int64), np.arange(seen.episodes)
    states, actions = np.zeros((2, seen.episodes, int(seen.lengths.max())), np.int64)
    for month in range(states.shape[1]):
        taken = (random.random(len(at)) < fit.solution.policy[at, 1]).astype(np.int64)
        states[:, month], actions[:, month] = at, taken
        passed = np.cumsum(moves.probabilities[at, taken], axis=1)
        chosen = (passed < random.random(len(at))[:, None] * passed[:, -1:]).sum(axis=1)
        at = moves.states[at, taken][every, chosen].astype(np.int64)
    walks = [(states[e, :n], actions[e, :n]) for e, n in enumerate(seen.lengths.tolist())]
    again = Demonstrations.from_trajectories(walks)
    outer, fisher = _both_errors(recover(world.mdp, world.features, again, estimator=Likelihood()))
    return outer / fisher
