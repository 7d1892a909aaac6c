"""The functions of `os` that write, made to fail at their n-th call: here and in other processes.

A disk that is full fails in whatever process writes next. So calls are counted in a file, which a
process started meanwhile counts in as well: `sitecustomize` in the folder that `spread` puts on its
path calls `install`. Needs the standard library alone, since Python runs it before everything else.
"""

import contextlib
import errno
import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

CALLS = ("open", "write", "fsync", "replace", "unlink")
VARIABLE = "TACIT_FAULTY"  # names the file that says which call is to fail
HERE, ELSEWHERE = b"h", b"e"
REAL = {name: getattr(os, name) for name in CALLS}


def concerns(within: str, name: str, arguments: tuple) -> bool:
    """Whether a call writes inside a folder."""
    if name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR):
        return False
    first = arguments[0]
    if isinstance(first, int):  # a descriptor
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{first}").startswith(within)
        return False
    return os.fspath(first).startswith(within)


def count_call(counter: str, mark: bytes) -> int:
    """How many calls there were with this one, over all processes; its mark is one byte."""
    file = REAL["open"](counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        REAL["write"](file, mark)
        return os.fstat(file).st_size
    finally:
        os.close(file)


def install(order: str) -> None:
    """Makes the functions of `os` in this process do what the order, a file, says at each call."""

    def replaced(name: str):
        real = REAL[name]

        def instead(*arguments, **keywords):
            try:
                with open(order, encoding="utf-8") as file:
                    told = json.load(file)
            except (OSError, ValueError):  # nothing is to fail now
                return real(*arguments, **keywords)
            counted = name == told["name"] and concerns(told["within"], name, arguments)
            if counted and count_call(order + ".calls", ELSEWHERE) == told["number"]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **keywords)

        return instead

    for name in CALLS:
        setattr(os, name, replaced(name))


@contextlib.contextmanager
def spread(place: Path) -> Iterator[Path]:
    """The order that processes started inside obey; there is none yet."""
    order, before = place / "order.json", {n: os.environ.get(n) for n in (VARIABLE, "PYTHONPATH")}
    place.mkdir(parents=True)
    (place / "sitecustomize.py").write_text(
        f"import os, sys\nsys.path.append({str(Path(__file__).parent)!r})\n"
        f"import faulty\nfaulty.install(os.environ[{VARIABLE!r}])\n"
    )
    paths = [str(place), *(before["PYTHONPATH"] or "").split(os.pathsep)]
    os.environ[VARIABLE] = str(order)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    try:
        yield order
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def failing(
    name: str, number: int, within: Path, *, order: Path | None = None
) -> Iterator[Counter[str]]:
    """The `number`-th call of a function of `os` that writes in a folder fails: no space left.

    Args:
        name: of the function.
        number: of the call; beyond the last one, calls are counted only.
        within: the folder.
        order: of `spread`, to count and fail in the processes started there, too.
    """
    met, real = Counter[str](), REAL[name]
    calls = Path(f"{order}.calls")
    if order is not None:
        calls.unlink(missing_ok=True)

    def next_call() -> int:
        if order is not None:
            return count_call(f"{order}.calls", HERE)
        met["calls"] += 1
        return met["calls"]

    def instead(*arguments, **keywords):
        if concerns(str(within), name, arguments) and next_call() == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **keywords)

    if order is not None:
        order.write_text(json.dumps({"name": name, "number": number, "within": str(within)}))
    setattr(os, name, instead)
    try:
        yield met
    finally:
        setattr(os, name, real)
        if order is not None:
            order.unlink()
            marks = calls.read_bytes() if calls.exists() else b""
            met["calls"], met["elsewhere"] = len(marks), marks.count(ELSEWHERE)
        met["failed"] = int(met["calls"] >= number)
