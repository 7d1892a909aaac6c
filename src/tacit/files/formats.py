"""Files of others that can be trusted: npz archives and Parquet, looked at before they are read.

One flipped byte is silent in most formats. At worst an engine panics with pages of text, or ends
the whole process over an absurd allocation. The checksums of arrays travel in their archive, as the
entry `checksums`; one made elsewhere, without them, is read as it is. A Parquet file written here
carries the SHA-256 of all its bytes, looked at before the engine sees any; a file without it, of
whatever size, is decoded once in a process of its own, which may fail as it likes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import lzma
import math
import os
import re
import struct
import subprocess
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from tacit.errors import InvalidModel
from tacit.files.arrays import BROKEN, SUMS, checksum
from tacit.files.atomic import LARGEST, LIMIT, BadFile, check_size, known_format, read_head

# What damaged archives and headers raise, in the standard library and in NumPy.
DAMAGE = (
    *BROKEN,
    SyntaxError,
    RuntimeError,
    EOFError,
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
)
# Times its own size that a file may unpack to, where that is more than so many bytes: honest
# tables stay far below, and what is made to fill the memory lies far above.
PACKED, SPARED = 100, 2**28
# Members of an archive, and bytes of its list of them: each takes time, however small.
MEMBERS, LISTED = 4096, 2**20
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}  # of durations, in seconds


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
        listed = f", in {size:,} bytes" if size else ""
        raise BadFile(f"{path} must hold at most {MEMBERS:,} arrays; it lists {count:,}{listed}")


def read_arrays(path: Path, *, largest: int = LARGEST) -> dict[str, np.ndarray]:
    """The arrays of an npz file; `OSError` if it cannot be read or an array has changed.

    Args:
        path: of the file.
        largest: most bytes that it may unpack to; more is refused before anything is unpacked.
    """
    path = Path(path)
    head = read_head(path, "an npz archive", largest=largest)
    if not head.startswith(b"PK"):
        found = known_format(head) if head else "an empty file"
        raise OSError(
            f"{path} holds no arrays that can be read: no npz archive{found and f' but {found}'}"
        )
    with open(path, "rb") as file:
        check_members(path, *listed_members(file))
        with _damage_told(path):
            archive = zipfile.ZipFile(file)
            sizes = sum(entry.file_size for entry in archive.infolist())
        check_members(path, len(archive.infolist()))
        if len(set(archive.namelist())) < len(archive.infolist()):
            raise BadFile(f"{path} must hold each array once; it holds two of the same name")
        check_unpacked(path, sizes, largest)
        with _damage_told(path):
            arrays = {
                entry.filename.removesuffix(".npy"): _array(archive.read(entry))
                for entry in archive.infolist()
            }
    return _verified(path, arrays)


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Inside, what a damaged archive raises becomes one line of `OSError`."""
    try:
        yield
    except DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise OSError(f"{path} holds no arrays that can be read: {reason:.120}") from None


def _array(content: bytes) -> np.ndarray:
    """The array of one npy entry. The header is believed only where the bytes are there."""
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with warnings.catch_warnings():
        # A damaged header may be odd Python: that is an error below, not a warning.
        warnings.simplefilter("ignore")
        shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, a pickle, which are never loaded")
    start = stream.tell()
    count = math.prod(shape)
    if count * dtype.itemsize != len(content) - start:
        raise ValueError(
            f"an array of shape {shape} and type {dtype} does not fit "
            f"the {len(content) - start} bytes that are there"
        )
    if count == 0:
        return np.zeros(shape, dtype)
    flat = np.frombuffer(content, dtype, count, start)
    return np.array(flat.reshape(shape, order="F" if fortran else "C"))


def _verified(path: Path, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays without their checksums; `OSError` where one does not agree."""
    sums = arrays.pop(SUMS, None)
    if sums is None:
        return arrays
    try:
        expected = dict(json.loads(str(sums)))
    except (ValueError, TypeError, RecursionError):
        raise OSError(f"{path} is damaged: its checksums cannot be read") from None
    for name, value in expected.items():
        if name not in arrays or checksum(arrays[name]) != value:
            raise OSError(f"{path} is damaged: {name} has changed since it was written")
    return arrays


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


def last_record(content: bytes) -> int:
    """The number of bytes up to the last line end that lies outside quotes."""
    end = content.rfind(b"\n") + 1
    quotes = content.count(b'"', 0, end)
    while end and quotes % 2:
        before = content.rfind(b"\n", 0, end - 1) + 1
        quotes -= content.count(b'"', before, end)
        end = before
    return end


def time_stamps(texts: Sequence[str]) -> tuple[np.ndarray, str]:
    """([N] seconds since 1970 of time stamps, NaN where a text is none; the order of their parts).

    The order is "" for ISO 8601. Otherwise it is one that all dates allow: with points the day
    comes first, with strokes a number above 12 must tell. Without a zone they are those of
    Greenwich.
    """
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


def alike_names(names: Sequence[str], what: str) -> list[str]:
    """A sentence about names that differ in capitals or spaces only, where there are some."""
    same: dict[str, list[str]] = {}
    for name in names:
        same.setdefault(" ".join(name.casefold().split()), []).append(name)
    twice = [" and ".join(map(repr, each)) for each in same.values() if len(each) > 1]
    said = f"{what} differ in capitals or spaces only and count apart: {'; '.join(twice[:3])}"
    return [f"{said}; if they are the same, spell them alike in the log"] if twice else []


def duration(length: float, unit: str = "s", *, digits: int = 4) -> str:
    """A duration in seconds as people say it, such as "15 min"; plain numbers without a unit."""
    if not unit:
        return f"{length:g}"
    name = max((u for u in UNITS if UNITS[u] <= length), key=UNITS.__getitem__, default="s")
    return f"{length / UNITS[name]:.{digits}g} {name}"


def seconds(text: str) -> float:
    """The seconds of a duration such as "15min" or "2 h"."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-z]+)\s*", text.casefold())
    unit = next((u for u in UNITS if match and (match[2] == u or match[2].startswith(u))), None)
    if match is None or unit is None or not float(match[1]) > 0:
        raise InvalidModel(
            f"a time step must be a number with s, min, h or d, such as 15min; got {text!r:.40}"
        )
    return float(match[1]) * UNITS[unit]
