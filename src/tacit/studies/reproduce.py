"""`tacit reproduce`: every unit of work once, wherever it was interrupted, then the report.

A run is a folder with one file a unit, written whole or not at all, so that it can be continued.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.engine.process import cluster_is_told, cores, each, keep_compiled_code
from tacit.engine.progress import Callback, Event
from tacit.errors import TacitError
from tacit.files.atomic import check_folder, locked, write_bytes
from tacit.studies.records import BINDING, FIGURE, FIGURES, PUBLISHED, Settings

if TYPE_CHECKING:
    from tacit.studies.tally import Run

SETTINGS, UNITS = "settings.json", "units"
FORMAT = 2  # of the units; a folder of another one is refused
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


@dataclass(frozen=True)
class Task:
    """One unit of work; what it leaves depends on nothing else but the settings.

    Attributes:
        kind: "draw" or "sweep".
        block: index of the block of a draw.
        seed: of the grid; -1 for the published one.
    """

    kind: str
    block: int
    seed: int

    def file(self, settings: Settings) -> Path:
        """Where its record is written."""
        kind = settings.blocks[self.block].name if self.kind == "draw" else "study"
        seed = "published-draw" if self.seed == FIGURE else f"seed-{self.seed:03d}"
        return settings.out / UNITS / f"{kind}-{seed}.json"


def reproduce(
    settings: Settings, *, callbacks: Sequence[Callback] = (), break_lock: bool = False
) -> Path:
    """The path of the report, after running what is not done yet.

    Args:
        settings: what to run, and the folder to write.
        callbacks: called with an `Event` after every unit.
        break_lock: take the folder from a writer on another machine that is surely gone.
    """
    settings.out.mkdir(parents=True, exist_ok=True)
    with locked(settings.out, broken=break_lock):
        _claim(settings)
        todo = tasks(settings)
        open_ = [task for task in todo if not task.file(settings).exists()]
        done = len(todo) - len(open_)
        for number, _ in enumerate(_work(settings, open_), done + 1):
            for callback in callbacks:
                callback(Event("units of work", number, {"of": len(todo)}))
        return _write_report(settings)


def tasks(settings: Settings) -> list[Task]:
    """All units, the slowest kind first; the published draw where it is a draw of this grid."""
    blocks = range(len(settings.blocks))
    found = [Task("sweep", 0, seed) for seed in range(settings.seeds)]
    found += [Task("draw", block, seed) for seed in range(settings.seeds) for block in blocks]
    if settings.size == 5 and settings.hill == "absolute":
        shown = (b for b in blocks if settings.blocks[b].name in (PUBLISHED, BINDING))
        found += [Task("draw", b, FIGURE) for b in shown]
    return found


def perform(settings: Settings, task: Task) -> None:
    """Does the task and writes what it found."""
    from tacit.studies.records import to_json

    if task.kind == "sweep":
        from tacit.studies.draws import run_sweep

        record = run_sweep(settings, task.seed)
    else:
        from tacit.studies.draws import run_draw
        from tacit.studies.report import comparisons

        record = run_draw(settings, settings.blocks[task.block], task.seed)
        for name, image in comparisons(settings, record).items():
            write_bytes(settings.out / FIGURES / f"{name}.svg", image.encode())
    write_bytes(task.file(settings), to_json(record).encode())


def load(settings: Settings) -> Run:
    """The `Run` whose units lie in the folder."""
    from tacit.studies.records import draw_of, sweep_of
    from tacit.studies.tally import Run

    texts = [(one.kind, one.file(settings).read_text(encoding="utf-8")) for one in tasks(settings)]
    draws = [draw_of(text) for kind, text in texts if kind == "draw"]
    draws.sort(key=lambda draw: (draw.seed == FIGURE, draw.seed))
    return Run(
        settings, tuple(draws), tuple(sweep_of(text) for kind, text in texts if kind == "sweep")
    )


def _claim(settings: Settings) -> None:
    """Makes the folder this run's, or raises `TacitError` if it is another's."""
    for name in (UNITS, FIGURES):
        check_folder(settings.out / name)
        (settings.out / name).mkdir(parents=True, exist_ok=True)
    page = settings.out / SETTINGS
    # Through JSON, so that a tuple and a list, 1 and 1.0 compare as they are read back.
    wanted = json.loads(json.dumps({**settings.identity(), "format": FORMAT}))
    if not page.exists():
        write_bytes(page, (json.dumps(wanted, indent=2) + "\n").encode())
        return
    try:
        held = json.loads(page.read_text(encoding="utf-8"))
    except ValueError as error:
        raise OSError(f"{page} is no page of settings: {error}") from None
    if held != wanted:
        held = held if isinstance(held, dict) else {}
        names = [name for name in {**held, **wanted} if held.get(name) != wanted.get(name)]
        told = ", ".join(f"{n} {held.get(n)!r} there, {wanted.get(n)!r} asked" for n in names[:2])
        raise TacitError(
            f"{settings.out} holds a run with other settings ({told}); choose another --out"
        )


def _work(settings: Settings, todo: list[Task]) -> Iterator[None]:
    """Does what is left, in processes of one thread each, or on the cluster joblib was told of.

    Sums in linear algebra round differently with the number of threads, so a unit would depend on
    who computes it; one process is not spared that either.
    """
    jobs = min(settings.jobs or cores(), len(todo))
    if not jobs:
        return
    # Each worker writes its own units, and may stand in another folder.
    pieces = [(replace(settings, out=settings.out.absolute()), task) for task in todo]
    cluster, _ = cluster_is_told()
    with _single_threads():
        if jobs == 1 and not cluster:
            yield from _in_turn(pieces)
        else:
            yield from each(perform, pieces, workers=jobs, ordered=False)


def _in_turn(pieces: list[tuple[Settings, Task]]) -> Iterator[None]:
    """Does one piece after the other in one process."""
    from joblib.externals.loky import ProcessPoolExecutor

    executor = ProcessPoolExecutor(max_workers=1, initializer=keep_compiled_code)
    try:
        for piece in pieces:
            yield executor.submit(perform, *piece).result()
    finally:
        executor.shutdown(kill_workers=True)


@contextmanager
def _single_threads() -> Iterator[None]:
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


def _write_report(settings: Settings) -> Path:
    """The path of the report, after writing it and `results.json`."""
    from tacit.show.report import render
    from tacit.studies.report import LARGEST, document
    from tacit.studies.tally import tally, to_text

    run, page = load(settings), settings.out / "report.html"
    write_bytes(settings.out / "results.json", to_text(tally(run)).encode())
    write_bytes(page, render(document(run), largest=LARGEST).encode())
    return page
