"""`tacit reproduce`: every unit once, wherever it was interrupted, then the report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit.engine.workers import cluster_is_told, cores, each
from tacit.studies.folder import FIGURES, Folder
from tacit.studies.progress import Teller, telling
from tacit.studies.settings import Reproduce

FORMAT = 1  # of the units; a folder of another one is refused
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

    def name(self, settings: Reproduce) -> str:
        """The name of its file."""
        seed = "published-draw" if self.seed < 0 else f"seed-{self.seed:03d}"
        return (
            f"{settings.blocks[self.block].name}-{seed}" if self.kind == "draw" else f"study-{seed}"
        )


def reproduce(settings: Reproduce, *, silent: bool = True) -> Path:
    """The path of the report, after running what is not done yet.

    Args:
        settings: what to run, and the folder to write.
        silent: whether to keep from telling on standard error how far it is.
    """
    from tacit.studies.estimators import available

    folder = Folder(settings.out)
    names = [entry.name for entry in available()]
    folder.claim({**settings.identity(), "estimators": names, "format": FORMAT})
    todo = tasks(settings)
    open_ = [task for task in todo if not folder.has(task.name(settings))]
    with telling(len(todo), already=len(todo) - len(open_), silent=silent) as teller:
        _work(settings, open_, teller)
        teller.say("writing the report")
        return _report(settings, folder)


def command(settings: Reproduce) -> str:
    """What the command line shows after the run: the findings, and where the report is."""
    from tacit.studies.findings import findings

    report = reproduce(settings, silent=False)
    lines = [f"- {found.text}" for found in findings(load(settings))]
    return "\n".join([*lines, "", f"report: {report}"])


def tasks(settings: Reproduce) -> list[Task]:
    """All units, the slowest kind first; the published draw where it is a draw of this grid."""
    blocks = range(len(settings.blocks))
    found = [Task("sweep", 0, seed) for seed in range(settings.seeds)]
    found += [Task("draw", block, seed) for seed in range(settings.seeds) for block in blocks]
    if settings.size == 5 and settings.hill == "absolute":
        found += [Task("draw", b, -1) for b in blocks if settings.blocks[b].name in _OF_THE_FIGURE]
    return found


_OF_THE_FIGURE = ("published", "binding")


def perform(settings: Reproduce, task: Task) -> str:
    """The name of the task, after doing it and writing what it found."""
    from tacit.studies.records import to_json

    folder, name = Folder(settings.out), task.name(settings)
    if task.kind == "sweep":
        from tacit.studies.sweeps import run_sweep

        record: Any = run_sweep(settings, task.seed)
    else:
        from tacit.studies.drawings import comparisons
        from tacit.studies.draws import run_draw

        record = run_draw(settings, settings.blocks[task.block], task.seed)
        for figure, image in comparisons(settings, record).items():
            folder.write(f"{FIGURES}/{figure}.svg", image)
    folder.write(folder.unit(name), to_json(record))
    return name


def load(settings: Reproduce) -> Any:
    """The `Run` whose units lie in the folder."""
    from tacit.studies.records import draw_of, sweep_of
    from tacit.studies.tally import Run

    folder = Folder(settings.out)
    texts = [(task, folder.read(folder.unit(task.name(settings)))) for task in tasks(settings)]
    draws = [draw_of(text) for task, text in texts if task.kind == "draw"]
    draws.sort(key=lambda draw: (draw.seed < 0, draw.seed))
    sweeps = [sweep_of(text) for task, text in texts if task.kind == "sweep"]
    return Run(settings, tuple(draws), tuple(sweeps))


def _work(settings: Reproduce, todo: list[Task], teller: Teller) -> None:
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
            names = _in_turn(pieces)
        else:
            names = each(perform, pieces, workers=jobs, ordered=False)
        for name in names:
            teller.done(name)


def _in_turn(pieces: list[tuple[Reproduce, Task]]) -> Iterator[str]:
    """The names as they are done, one after the other in one process."""
    from joblib.externals.loky import ProcessPoolExecutor

    executor = ProcessPoolExecutor(max_workers=1)
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


def _report(settings: Reproduce, folder: Folder) -> Path:
    """The path of the report, after writing it and `results.json`."""
    from tacit.show.report import render
    from tacit.studies.pages import LARGEST, document
    from tacit.studies.tally import tally, to_text

    run = load(settings)
    folder.write("results.json", to_text(tally(run)))
    folder.write("report.html", render(document(run, folder), largest=LARGEST))
    return folder.path / "report.html"
