"""`tacit watch`: follows a log that is still written, and keeps a run folder current."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

from tacit.cli.terminal import Answer, Terminal, shown_default
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from tacit.folders.problem import Problem
    from tacit.folders.watched import Bookmark
    from tacit.recovery import Recovery
    from tacit.stream.following import GrowingLog
    from tacit.stream.watch import Watch

PAGE = "watch.html"
# Options that what is in the folder must have been made with, too.
KEPT = ("batch", "run_length", "confidence", "forget")


@dataclass(frozen=True, kw_only=True)
class WatchLog:
    """Follow a log that is still written: alarms on a change, and a run folder kept current.

    tacit watch mouse mouse-log.csv --out mouse-watch

    tail -n +1 -f log.csv | tacit watch mouse - --exec "notify-send changed"

    The log is a CSV file that grows by whole lines, a folder to which Parquet files are added in
    the order of their names, or - for standard input, with columns state and action and, where they
    are checked, episode and step. The reference is what is recovered from the problem. Stopped and
    begun again it goes on where it was. A run_length of 10000 promises at least so many steps until
    a false alarm, on average.
    """

    problem: Path
    """folder of the problem, whose demonstrations are the reference"""
    log: Path
    """CSV file, folder of Parquet files, or - for standard input"""
    out: Path = Path("watch")
    """run folder to keep current, with the page watch.html"""
    run_length: float = 10_000.0
    """steps until a false alarm, on average at least"""
    confidence: float = 0.95
    """of the reference's set"""
    batch: int = 1000
    """rows of a batch; a line is printed, and the folder written, for each"""
    forget: Annotated[Optional[float], shown_default("nothing")] = None
    """half-life in steps of what the recovery is of"""
    once: bool = False
    """stop at the end of the log, its last rows included, instead of waiting for more"""
    every: float = 2.0
    """seconds between two looks at the log"""
    exec: Annotated[Optional[str], shown_default("nothing")] = None
    """command to run on an alarm; it finds TACIT_CHANGED, TACIT_SINCE and TACIT_RUN"""
    again: bool = False
    """standard input begins again at its first row: skip the rows that were read before"""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InvalidModel(f"batch must be at least 1; got {self.batch}")
        if not 0.0 < self.every < 1e6:
            raise InvalidModel(f"every must be a number of seconds above 0; got {self.every}")

    def run(self, terminal: Terminal) -> Answer:
        """Follows the log until it ends or somebody stops it."""
        from tacit.files.atomic import locked

        problem = terminal.load_problem(self.problem)
        if problem.goal:
            raise InvalidModel(f"{self.problem}: trips cannot be watched; a log of steps can")
        self.out.mkdir(parents=True, exist_ok=True)
        message = f"{self.out} keeps where it was: the same command goes on with it"
        with locked(self.out), terminal.resumable(message):
            follower = Follower.at(self, problem)
            log = self._log(follower.bookmark.position.rows)
            follower.keep(follower.bookmark)
            while True:
                for line in follower.read(log):
                    terminal.tell([line])
                    terminal.signals.check()
                follower.draw()
                if self.once or log.ended:
                    break
                time.sleep(self.every)
                terminal.signals.check()
        watch = follower.watch
        data = {
            "out": str(self.out),
            "rows": follower.bookmark.position.rows,
            "steps": watch.steps,
            "level": watch.level,
            "changed": watch.changed,
            "since": watch.since,
            "evidence": watch.evidence,
            "findings": [str(one) for one in watch.findings],
        }
        return Answer([f"{self.out}: {_line(watch, follower.bookmark.position.rows)}"], data)

    def _log(self, rows: int) -> GrowingLog:
        """What is followed."""
        from tacit.stream.following import FolderLog, InputLog, TextLog

        if str(self.log) == "-":
            return InputLog(sys.stdin.buffer, skipped=rows if self.again else 0)
        return FolderLog(self.log) if self.log.is_dir() else TextLog(self.log)


class Follower:
    """A watch, the recovery beside it, and where both stand in the log."""

    def __init__(
        self,
        command: WatchLog,
        problem: Problem,
        watch: Watch,
        recovery: Recovery,
        bookmark: Bookmark,
        about: dict[str, Any],
    ) -> None:
        self.command, self.problem, self.about = command, problem, about
        self.watch, self.recovery, self.bookmark = watch, recovery, bookmark
        self.drawn = -math.inf

    @classmethod
    def at(cls, command: WatchLog, problem: Problem) -> Follower:
        """What was left in the folder, or a new one."""
        from tacit.estimators.likelihood import Likelihood
        from tacit.estimators.recover import recover
        from tacit.folders.claims import identity
        from tacit.folders.runs import data_hashes
        from tacit.folders.watched import Bookmark, read
        from tacit.inference.origin import Origin
        from tacit.stream.following import Position
        from tacit.stream.watch import Watch

        seen = problem.seen
        estimator = problem.with_coefficients(Likelihood())
        reference = recover(problem.mdp, problem.features, seen, estimator=estimator)
        watch = Watch(reference, command.run_length, confidence=command.confidence)
        hashes = data_hashes(problem.mdp, problem.features, seen)
        about = identity({name: getattr(command, name) for name in KEPT}, hashes)
        found = read(command.out, about)
        if found is None:
            from tacit.data.tally import tally_of

            tally = tally_of(problem.mdp, seen)
            bookmark = Bookmark(position=Position(), state=watch.state, tally=tally)
            return cls(command, problem, watch, reference, bookmark, about)
        recovery, bookmark = found
        origin = Origin(
            mdp=problem.mdp,
            features=problem.features,
            demonstrations=bookmark.tally,
            estimator=estimator,
            last_pass=bookmark.last_pass,
            half_life=command.forget,
            predictions=bookmark.predictions,
        )
        if not bookmark.state.steps:
            origin = reference.origin
        recovery = replace(recovery, origin=origin)
        return cls(command, problem, watch.resumed(bookmark.state), recovery, bookmark, about)

    def read(self, log: GrowingLog) -> Iterator[str]:
        """A line for every batch that is there, after the folder has it."""
        rows, many = self.command.batch, self.command.batch
        while many == rows:
            before = self.bookmark.position
            frames, after = log.read(before, rows)
            many = after.rows - before.rows
            if many < rows and not (many and (self.command.once or log.ended)):
                return  # what is not yet a batch waits
            self._take(frames, before, after)
            if time.monotonic() - self.drawn > self.command.every:
                self.draw()
            yield _line(self.watch, after.rows)

    def _take(self, frames: Any, before: Any, after: Any) -> None:
        """Counts a batch, and writes the folder."""
        from tacit.data.tally import Tally, tally_of
        from tacit.folders.names import to_look_up
        from tacit.folders.watched import Bookmark
        from tacit.stream.following import counts_of

        mdp, layout = self.problem.mdp, self.problem.layout
        names = (
            to_look_up(layout.state_names, places=False),
            to_look_up(layout.action_names, places=False),
        )
        source = "standard input" if str(self.command.log) == "-" else str(self.command.log)
        counts, after = counts_of(frames, before, after, mdp, names=names, source=source)
        more = Tally.of_counts(counts, mdp.discount)
        if more.steps:
            self.watch.update(more)
            self.recovery = self.recovery.updated(more, forget=self.command.forget)
        origin = self.recovery.origin
        assert origin is not None
        bookmark = Bookmark(
            position=after,
            state=self.watch.state,
            tally=tally_of(mdp, origin.demonstrations),
            last_pass=origin.last_pass,
            predictions=origin.predictions,
            told=self.bookmark.told,
        )
        self.keep(bookmark)

    def keep(self, bookmark: Bookmark) -> None:
        """Writes the folder; runs the command for an alarm once that is on the disk."""
        from tacit.folders.runs import Run
        from tacit.folders.watched import save
        from tacit.show.summary import data_summary

        out = self.command.out
        self.bookmark = bookmark
        run = Run(
            self.recovery,
            layout=self.problem.layout,
            config={"problem": str(self.command.problem), "out": str(out)},
            data=data_summary(self.problem.mdp, self.problem.seen),
            notes=self.problem.notes,
            hashes=self.about["hashes"],
        )
        save(out, run, bookmark, self.about)
        if self.command.exec and self.watch.level == "alarm" and not bookmark.told:
            self._execute(self.command.exec)
            self.bookmark = replace(bookmark, told=True)
            save(out, run, self.bookmark, self.about)

    def draw(self) -> None:
        """Writes the page of the watch."""
        from tacit.files.atomic import write_bytes
        from tacit.show.evidence import evidence_document
        from tacit.show.html import render

        title = f"Watching {self.command.log} for {self.command.problem.name}"
        refresh = max(1, round(self.command.every))
        page = render(evidence_document(self.watch, title=title, refresh=refresh))
        write_bytes(self.command.out / PAGE, page.encode())
        self.drawn = time.monotonic()

    def _execute(self, command: str) -> None:
        told = {"CHANGED": self.watch.changed, "SINCE": self.watch.since, "RUN": self.command.out}
        own = {f"TACIT_{name}": str(value) for name, value in told.items()}
        subprocess.run(shlex.split(command), env=os.environ | own, check=False)


def _line(watch: Watch, rows: int) -> str:
    """Where a watch stands."""
    change = "" if watch.changed is None else f", {watch.changed} since step {watch.since}"
    shown = f"{rows} rows, {watch.steps} steps: {watch.level}{change}"
    return f"{shown} (evidence {watch.evidence:.3g} of {watch.run_length:g})"
