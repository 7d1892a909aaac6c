"""What a file is, by its first bytes; and Parquet files that can be trusted.

A wrong file is named before anything tries to read it.

A flipped byte is silent in Parquet at best. At worst the engine panics with pages of text, or ends
the whole process over an absurd allocation. So every file written here carries the SHA-256 of all
its bytes, looked at before the engine sees any; a file without it, of whatever size, is decoded
once in a process of its own, which may fail as it likes.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import math
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tacit.errors import InvalidModel
from tacit.files.atomic import LIMIT, BadFile, largest_allowed, write_atomically

if TYPE_CHECKING:
    import numpy as np
    import polars

# What a terminal would obey instead of showing: controls, and marks that turn the writing round.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Times its own size that a file may unpack to, where that is more than so many bytes: honest
# tables stay far below, and what is made to fill the memory lies far above.
PACKED, SPARED = 100, 2**28

# Members of an archive, and bytes of its list of them: each takes time, however small.
MEMBERS, LISTED = 4096, 2**20

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}  # of durations, in seconds
# Files are read into memory: what would need more than this is refused unless asked for.
LARGEST = largest_allowed()

SIGNATURES = (
    (b"PAR1", "Parquet"),
    (b"PK\x03\x04", "a zip archive (npz or a spreadsheet, perhaps: save that as CSV)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x93NUMPY", "a single NumPy array (npy)"),
    (b"\x89HDF", "HDF5"),
    (b"ARROW1", "Arrow"),
    (b"\x1f\x8b", "compressed (gzip): unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed (zstd): unpack it first"),
    (b"BZh", "compressed (bzip2): unpack it first"),
    (b"\xfd7zXZ", "compressed (xz): unpack it first"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8 (spreadsheets call it CSV UTF-8)"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8 (spreadsheets call it CSV UTF-8)"),
    (b"SQLite", "an SQLite database"),
)
PICKLE = "a pickle, which is never loaded since it could run any code"


def known_format(head: bytes) -> str:
    """What the first bytes say that the file is, in words; "" where they say nothing."""
    if re.match(rb"\x80[\x02-\x05]", head):
        return PICKLE
    return next((words for start, words in SIGNATURES if head.startswith(start)), "")


def read_head(path: Path, wanted: str, *, largest: int = LARGEST) -> bytes:
    """The first 16 bytes of a file; `OSError` where it is none, too large, or a pickle.

    Args:
        path: of the file.
        wanted: what it should be, for messages.
        largest: most bytes that it may have.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected {wanted}")
    if path.exists() and not path.is_file():  # reading might wait, or go on, for ever
        raise OSError(f"{path} is a pipe or a device; expected {wanted}, in a file")
    with open(path, "rb") as file:
        head = file.read(16)
    if path.suffix in (".pkl", ".pickle") or known_format(head) == PICKLE:
        raise OSError(f"{path} is {PICKLE}; expected {wanted}")
    check_size(path, path.stat().st_size, largest)
    return head


def check_text(path: Path, wanted: str, *, largest: int = LARGEST) -> None:
    """Raises `OSError` unless the file may be text."""
    if found := known_format(read_head(path, wanted, largest=largest)):
        raise OSError(f"{path} must be {wanted}; it is {found}")


def check_size(path: Path, size: int, largest: int) -> None:
    """Raises `BadFile` where reading the file would take more bytes than allowed."""
    if size > largest:
        raise BadFile(
            f"{path} would take {size:,} bytes of memory, more than the {largest:,} allowed: "
            f"raise `largest`, or set {LIMIT} to more bytes, if it is meant to be that large"
        )


def check_unpacked(path: Path, size: int, largest: int) -> None:
    """Raises `BadFile` where a file declares more than is allowed, or than its size may hold."""
    check_size(path, size, largest)
    there = path.stat().st_size
    if size > max(SPARED, PACKED * there) and not os.environ.get(LIMIT, "").isdecimal():
        raise BadFile(
            f"{path} has {there:,} bytes and declares {size:,}, more than {PACKED} times as many: "
            f"set {LIMIT} to that many bytes if it is meant to be so"
        )


def listed_members(file: BinaryIO) -> tuple[int, int]:
    """How many members the end of a zip archive declares, and bytes of their list; 0 for none."""
    file.seek(max(file.seek(0, io.SEEK_END) - 2**16 - 22, 0))  # a comment may follow
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    return struct.unpack_from("<HI", tail, at + 10) if 0 <= at <= len(tail) - 22 else (0, 0)


def check_members(path: Path, count: int, size: int = 0) -> None:
    """Raises `BadFile` where an archive lists more members than one of ours could have."""
    if count > MEMBERS or size > LISTED:
        raise BadFile(
            f"{path} must hold at most {MEMBERS:,} arrays; it lists {count:,}, in {size:,} bytes"
            if size
            else f"{path} must hold at most {MEMBERS:,} arrays; it lists {count:,}"
        )


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The known name that a name may be a misspelling of; "" where none is."""
    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else ""


def alike_names(names: Sequence[str], what: str) -> list[str]:
    """A sentence about names that differ in capitals or spaces only, where there are some."""
    same: dict[str, list[str]] = {}
    for name in names:
        same.setdefault(" ".join(name.casefold().split()), []).append(name)
    twice = [" and ".join(map(repr, each)) for each in same.values() if len(each) > 1]
    said = f"{what} differ in capitals or spaces only and count apart: {'; '.join(twice[:3])}"
    return [f"{said}; if they are the same, spell them alike in the log"] if twice else []


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A hint at the name that was meant, to end a message with; "" where none is near."""
    near = nearest(name, known, cutoff=cutoff)
    return f" (did you mean {near!r}?)" if near else ""


def natural_order(names: Iterable[str]) -> tuple[str, ...]:
    """The names sorted as people do: "room 2" comes before "room 10"."""

    def key(name: str) -> tuple[list[tuple[int, int, str]], str]:
        parts = re.split(r"([0-9]+)", name)
        # Digits stand at the odd places; text and numbers must not be compared with each other.
        return [
            (0, int(part), "") if at % 2 else (1, 0, part) for at, part in enumerate(parts)
        ], name

    return tuple(sorted(names, key=key))


def time_stamps(texts: Sequence[str]) -> tuple[np.ndarray, str]:
    """([N] seconds since 1970 of time stamps, NaN where a text is none; the order of their parts).

    The order is "" for ISO 8601. Otherwise it is one that all dates allow: with points the day
    comes first, with strokes a number above 12 must tell. Without a zone they are those of
    Greenwich.
    """
    import numpy as np  # help must not wait for it

    parts = [re.fullmatch(r"(\d{1,2})([./])(\d{1,2})[./](\d{4})(.*)", text) for text in texts]
    dates, order = [part for part in parts if part is not None], ""
    if dates:
        late = [max(int(date[place]) for date in dates) > 12 for place in (1, 3)]
        if late == [False, True]:
            order = "month, day and year"
        elif late[0] or all(date[2] == "." for date in dates):
            order = "day, month and year"
    month, day = (1, 3) if order.startswith("month") else (3, 1)
    found = []
    for text, date in zip(texts, parts, strict=True):
        if date is not None and order:
            text = f"{date[4]}-{int(date[month]):02d}-{int(date[day]):02d}{date[5]}"
        found.append(_stamp(text.replace("/", "-")))
    return np.array(found), order


def _stamp(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


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


def write_parquet(path: Path, frame: polars.DataFrame) -> None:
    """Writes a Polars frame as Parquet, sealed with the SHA-256 of all bytes of the file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={SEAL: "0" * 64})
    content = bytearray(buffer.getvalue())
    places = [match.start(1) for match in SEALED.finditer(content)]
    if len(places) == 1:
        digest = hashlib.sha256(content).hexdigest()
        content[places[0] : places[0] + 64] = digest.encode()
    write_atomically(path, lambda file: file.write(content))


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


def harmless(text: str) -> str:
    """The text with all that a terminal or a page would obey written as an escape."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# The entries of one sparse matrix, behind its name, and the most columns that it may have.
SPARSE = ("data", "indices", "indptr", "shape")
WIDEST = 2**24


def check_sparse(
    data: np.ndarray,
    indices: np.ndarray,
    pointers: np.ndarray,
    shape: np.ndarray,
    *,
    name: str,
) -> None:
    """Raises `BadFile` unless the arrays of `SPARSE` are one matrix [S, D], row by row."""
    for what, array in zip(SPARSE, (data, indices, pointers, shape), strict=True):
        if array.ndim != 1 or array.dtype.kind not in ("biuf" if array is data else "iu"):
            wanted = "numbers" if array is data else "whole numbers"
            raise BadFile(
                f"{name}_{what} must be a list of {wanted}; got {array.dtype} {array.shape}"
            )
    if len(shape) != 2 or shape.min() < 1 or shape[1] > WIDEST:
        raise BadFile(
            f"{name}_shape must be the number of states and that of features, at most {WIDEST}; "
            f"got {shape.tolist()!r:.60}"
        )
    ends = [int(x) for x in (pointers[0], pointers[-1])] if len(pointers) else []
    rising = bool((pointers[1:] >= pointers[:-1]).all())
    if len(pointers) - 1 != shape[0] or ends != [0, len(data)] or not rising:
        raise BadFile(
            f"{name}_indptr must be {shape[0]} + 1 numbers that rise from 0 to the {len(data)} of "
            f"{name}_data; got {len(pointers)}, {pointers.tolist()!r:.40}"
        )
    outside = (indices < 0) | (indices >= shape[1])
    if len(indices) != len(data) or outside.any():
        got = f"{len(indices)}" if not outside.any() else f"{indices[outside.argmax()]}"
        raise BadFile(
            f"{name}_indices must be {len(data)} columns from 0 to {shape[1] - 1}; got {got}"
        )


def duration(length: float, unit: str) -> str:
    """A duration as people say it, such as "15 min"; plain numbers without a unit."""
    if not unit:
        return f"{length:g}"
    name = max((u for u in UNITS if UNITS[u] <= length), key=UNITS.__getitem__, default="s")
    return f"{length / UNITS[name]:.4g} {name}"


def seconds(text: str) -> float:
    """The seconds of a duration such as "15min" or "2 h"."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-z]+)\s*", text.casefold())
    unit = next((u for u in UNITS if match and (match[2] == u or match[2].startswith(u))), None)
    if match is None or unit is None or not float(match[1]) > 0:
        raise InvalidModel(
            f"a time step must be a number with s, min, h or d, such as 15min; got {text!r:.40}"
        )
    return float(match[1]) * UNITS[unit]
