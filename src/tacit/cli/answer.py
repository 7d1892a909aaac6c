"""What a verb hands back: text for people, data for machines, and an exit code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a verb hands back. The command line prints it.

    Attributes:
        text: for people: a str, a `Table`, a rich renderable, or a sequence of these, one under
            the other; None shows nothing.
        data: the same for machines, printed by `--json`. Numbers, text, lists, dicts, arrays.
        code: the exit code: 0 done, 2 bad input, 3 infeasible or not converged.
        errors: lines for standard error, each about one thing that is wrong.
    """

    text: Any = None
    data: Mapping[str, Any] = field(default_factory=dict)
    code: int = 0
    errors: tuple[str, ...] = ()


@contextmanager
def quietly(quiet: bool) -> Iterator[None]:
    """Inside, `is_quiet()` says whether `--quiet` was given."""
    token = _QUIET.set(quiet)
    try:
        yield
    finally:
        _QUIET.reset(token)


def is_quiet() -> bool:
    """Whether `--quiet` was given: then a verb tells nothing of its progress."""
    return _QUIET.get()


def jsonable(value: Any) -> Any:
    """The value with arrays as lists, paths and names as text, and no NaN or infinity.

    JSON has no word for those: they become null.
    """
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(entry) for entry in value]
    if hasattr(value, "tolist"):  # NumPy arrays and numbers
        return jsonable(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
