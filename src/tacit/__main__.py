"""`python -m tacit` is `tacit`."""

import atexit
import os
import signal
import sys
from types import FrameType

CODES = {
    signal.SIGINT: (130, b"tacit: interrupted\n"),
    signal.SIGTERM: (143, b"tacit: terminated\n"),
}


def main() -> int:
    """The exit code of the command line, which is loaded here: a signal meanwhile ends it, too."""
    for number in CODES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    atexit.register(_ignore)  # first, so that it is called last
    from tacit.cli import main as run

    return run()


def _leave(number: int, frame: FrameType | None) -> None:
    """The handler before and after a command, when there is nothing to be kept."""
    code, line = CODES[signal.Signals(number)]
    try:
        os.write(2, line)
    finally:
        os._exit(code)


def _ignore() -> None:
    """All is done and said: a signal that comes while Python is taken down changes nothing.

    Python itself would put back the system's own handlers, and the process would die of it.
    """
    for number in CODES:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
