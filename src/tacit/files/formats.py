"""What a file is, by its first bytes: a wrong one is named before anything tries to read it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path

# Files are read into memory: what would need more than this is refused unless asked for.
LARGEST = 2**33

SIGNATURES = (
    (b"PAR1", "Parquet"),
    (b"PK\x03\x04", "a zip archive (npz or a spreadsheet, perhaps)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x93NUMPY", "a single NumPy array (npy)"),
    (b"\x89HDF", "HDF5"),
    (b"ARROW1", "Arrow"),
    (b"\x1f\x8b", "compressed (gzip): unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed (zstd): unpack it first"),
    (b"BZh", "compressed (bzip2): unpack it first"),
    (b"\xfd7zXZ", "compressed (xz): unpack it first"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8"),
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
    """Raises `OSError` where reading the file would take more bytes than allowed."""
    if size > largest:
        raise OSError(
            f"{path} would take {size:,} bytes of memory, more than the {largest:,} allowed; "
            "raise `largest` if it is meant to be that large"
        )


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The known name that a name may be a misspelling of; "" where none is."""
    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else ""


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
