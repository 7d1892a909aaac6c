"""Signals: a flag that every event looks at, and an end at once where no event comes.

An exception raised by a handler comes up wherever Python happens to be. Inside a callback of an
engine it is swallowed, and the run goes on as if nobody had asked. So handlers raise nothing: they
leave a mark, and the next event, which is ordinary code, raises. Where a long computation tells no
event, or somebody asks twice, or the way out takes long, a thread ends the process with what is
kept by then: files are whole or not there, so nothing needs to be waited for.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

from tacit.files.atomic import remove_unfinished

# Seconds that the code may go on without an event after somebody asked it to end, and how many more
# it may take, once it has heard, to write down what it has: whoever asks is answered within one.
PATIENCE, UNWINDING = 0.5, 0.3
CODES: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}
KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)


class Terminated(BaseException):
    """SIGTERM came. Unwinds like an interrupt, so that half-written files are cleaned up."""


class Signals:
    """What the process was asked, and what it has to say if it must end at once.

    Attributes:
        asked: the number of the signal that came first; 0 for none.
        notes: lines to be said at an end, by who is at work.
    """

    def __init__(self) -> None:
        self.asked, self.notes = 0, list[str]()
        self._heard = False

    def check(self) -> None:
        """Raises `KeyboardInterrupt` or `Terminated` where somebody asked for it."""
        if self.asked:
            self._heard = True
            raise Terminated if self.asked == signal.SIGTERM else KeyboardInterrupt

    @contextmanager
    def noting(self, line: str) -> Iterator[None]:
        """Inside, an end at once says this line."""
        self.notes.append(line)
        try:
            yield
        finally:
            self.notes.remove(line)

    @contextmanager
    def watched(self, end: Callable[[int], object]) -> Iterator[None]:
        """Inside, SIGINT and SIGTERM are asked of `check`; on the way out they are asked once more.

        Args:
            end: called, in another thread, with the number of a signal that nobody heard in time or
                that came twice. It does not come back.
        """
        mine, its = socket.socketpair()
        for one in (mine, its):
            one.setblocking(False)
        try:
            # A signal that is ignored here, as in the background of a shell, stays so.
            caught = [one for one in CODES if signal.getsignal(one) is not signal.SIG_IGN]
            before = {one: signal.signal(one, self._mark) for one in caught}
        except ValueError:  # not the main thread: signals are somebody else's business
            mine.close()
            its.close()
            yield
            return
        outside = signal.set_wakeup_fd(mine.fileno(), warn_on_full_buffer=False)
        watch = threading.Thread(target=self._wait, args=(its, end), daemon=True)
        watch.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(outside)
            for one, handler in before.items():
                signal.signal(one, handler)
            mine.close()  # which ends the thread
            watch.join(1.0)
            its.close()
        self.check()

    def _mark(self, number: int, frame: FrameType | None) -> None:
        """The handler: Python runs it in the main thread between two of its steps."""
        self.asked = self.asked or number

    def _wait(self, told: socket.socket, end: Callable[[int], object]) -> None:
        """Reads the numbers of signals, which come even while a long call lasts."""
        first, until, granted = 0, None, False
        while True:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            ready, _, _ = select.select([told], [], [], left)
            if not ready:
                if self._heard and until is not None and not granted:
                    until, granted = until + UNWINDING, True  # it is on its way out
                    continue
                end(first)
                return
            came = _received(told)
            if not came:  # closed: it is over
                return
            numbers = [number for number in came if number in CODES]
            if len(numbers) + bool(first) > 1:
                end(first or numbers[0])
                return
            if numbers and not first:
                first, until = numbers[0], time.monotonic() + PATIENCE


def _received(told: socket.socket) -> bytes:
    with contextlib.suppress(OSError):
        return told.recv(64)
    return b""


def hush_helpers() -> None:
    """Has joblib and the process that watches its workers say nothing about work that was ended.

    They tidy up all the same; what they say of it would come after the last line.
    """
    warnings.filterwarnings("ignore", r"\d+ tasks which were still being processed")
    told = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = f"{told + ',' if told else ''}ignore:resource_tracker"


def _give_back() -> None:
    """Has the semaphores of workers removed; else a process that watches them complains later."""
    from multiprocessing import util

    def tidy() -> None:
        with contextlib.suppress(Exception):
            util.__dict__["_run_finalizers"](0)  # it has no public name

    thread = threading.Thread(target=tidy, daemon=True)
    thread.start()
    thread.join(0.2)


def _descriptor(stream: TextIO | None, usual: int) -> int:
    """Where a stream ends; the usual place where it ends within this process, which is over."""
    try:
        return usual if stream is None else stream.fileno()
    except (OSError, ValueError, AttributeError):
        return usual


def end_at_once(code: int, lines: list[str], answer: str = "") -> None:
    """Ends this process and those that it started, half-written files removed; never comes back.

    Args:
        code: exit code.
        lines: for standard error; none where all is said.
        answer: for standard output.
    """
    with contextlib.suppress(OSError):
        # A bar that is being drawn has hidden the cursor.
        cursor = "\x1b[?25h\n" if lines and os.isatty(_descriptor(sys.stderr, 2)) else ""
        if answer:
            os.write(_descriptor(sys.stdout, 1), f"{answer}\n".encode())
        said = cursor + "".join(f"{one}\n" for one in lines)
        os.write(_descriptor(sys.stderr, 2), said.encode())
    if "multiprocessing.process" in sys.modules:
        from multiprocessing import active_children

        for child in active_children():
            if child.pid is not None:  # by number: those of loky have no `kill`
                with contextlib.suppress(OSError):
                    os.kill(child.pid, KILL)
        _give_back()
    remove_unfinished()
    os._exit(code)
