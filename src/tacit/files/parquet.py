"""Parquet files, looked at before they are read.

At worst an engine panics with pages of text, or ends the whole process over an absurd allocation. A
file written here carries the SHA-256 of all its bytes, looked at before the engine sees any; a file
without it, of whatever size, is decoded once in a process of its own, which may fail as it likes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.files.arrays import check_unpacked
from tacit.files.atomic import LARGEST, known_format, read_head, write_bytes

if TYPE_CHECKING:
    import polars

SEAL = "tacit.sha256"
# A value of 64 letters after its key, as Thrift writes it.
SEALED = re.compile(re.escape(SEAL.encode()) + rb"\x18\x40(.{64})", re.DOTALL)
CHUNK = 2**22
ROWS = 2**20  # of one slice
# Where the engine cannot be imported there is nothing to try; a size that will be refused anyway
# is not decoded.
TRIAL = """
import sys
try:
    import polars
except ImportError:
    sys.exit(0)
path, size, largest = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    scan = polars.scan_parquet(path, glob=False)
    rows = scan.select(polars.len()).collect().item()
    if 8 * rows * len(scan.collect_schema()) <= largest:
        for row in range(0, rows, size):
            scan.slice(row, size).collect()
except Exception as error:
    print((str(error).splitlines() or [""])[0][:160])
    sys.exit(1)
"""


def check_parquet(path: Path, *, largest: int = LARGEST) -> tuple[tuple[str, ...], int]:
    """(names of the columns, number of rows); `OSError` unless it can be read without harm."""
    import polars

    head = read_head(path, "a Parquet file", largest=largest)
    with open(path, "rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - 8))
        tail = file.read()
    if not (head.startswith(b"PAR1") and tail.endswith(b"PAR1") and size >= 12):
        found = known_format(head) or ("something else" if head else "an empty file")
        words = "it is cut off or damaged" if found == "Parquet" else f"it is {found}"
        raise OSError(f"{path} is no table that can be read: expected Parquet; {words}")
    footer = min(int.from_bytes(tail[:4], "little") + 8, size)
    if not _seal_holds(path, size - footer):
        _try_out(path, largest)
    with readable(path):
        scan = polars.scan_parquet(path, glob=False)
        names = tuple(scan.collect_schema())
        rows = int(scan.select(polars.len()).collect().item())
    # What a file declares may be thousands of times its own size: look before reading.
    check_unpacked(path, 8 * rows * len(names), largest)
    return names, rows


def _seal_holds(path: Path, footer: int) -> bool:
    """Whether the file is sealed; `OSError` where the seal is broken."""
    with open(path, "rb") as file:
        file.seek(footer)
        matches = [*SEALED.finditer(file.read())]
        if len(matches) != 1:
            return False
        place, claimed = footer + matches[0].start(1), matches[0][1]
        digest = hashlib.sha256()
        file.seek(0)
        while (here := file.tell()) < place:
            digest.update(file.read(min(CHUNK, place - here)))
        file.seek(place + 64)
        digest.update(b"0" * 64)
        while block := file.read(CHUNK):
            digest.update(block)
    if digest.hexdigest().encode() != claimed:
        raise OSError(
            f"{path} is damaged: it has changed since it was written "
            f"(if another program wrote it, have it drop the metadata {SEAL!r})"
        )
    return True


def _try_out(path: Path, largest: int) -> None:
    """Decodes the file in a process of its own; `OSError` where that one fails."""
    with contextlib.suppress(subprocess.SubprocessError, PermissionError, FileNotFoundError):
        done = subprocess.run(
            [sys.executable, "-P", "-c", TRIAL, str(path), str(ROWS), str(largest)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            reason = done.stdout.decode(errors="replace").strip() or "it is damaged"
            raise OSError(f"{path} is no table that can be read: {reason}")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Within, what Polars says of a file that it cannot read becomes one line of `OSError`."""
    import polars

    try:
        yield
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise OSError(f"{path} is no table that can be read: {lines[0]:.160}") from None


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a Parquet file, by name; `OSError` if it is no such table."""
    import polars

    check_parquet(path)
    with readable(path):
        frame = polars.read_parquet(path.read_bytes())
        return {name: frame[name].to_numpy() for name in frame.columns}


def write_parquet(path: Path, frame: polars.DataFrame) -> None:
    """Writes a Polars frame as Parquet, sealed with the SHA-256 of all bytes of the file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={SEAL: "0" * 64})
    content = bytearray(buffer.getvalue())
    places = [match.start(1) for match in SEALED.finditer(content)]
    if len(places) == 1:
        content[places[0] : places[0] + 64] = hashlib.sha256(content).hexdigest().encode()
    write_bytes(path, content)
