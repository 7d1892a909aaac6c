"""What people hand over, checked once: integers, real numbers, finite tables, distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel, TacitError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# A row that was normalised in float32, or written with seven digits, must still count as a row.
ROW_SUM_TOLERANCE = 1e-6


def is_integer(value: object) -> TypeIs[int | np.integer]:
    """Whether this is a whole number, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def integer(
    value: float, name: str, least: int = 1, *, error: type[TacitError] = InvalidModel
) -> int:
    """The value, if it is an integer of at least `least`; raises `error` if not."""
    if not is_integer(value) or value < least:
        raise error(f"{name} must be an integer of at least {least}; got {value!r:.60}")
    return int(value)


def truth(value: object, name: str) -> bool:
    """The value, if it is True or False; `InvalidModel` if not."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidModel(f"{name} must be True or False; got {value!r:.60}")
    return bool(value)


def number(value: float, name: str, wanted: str, holds: Callable[[float], bool]) -> float:
    """The value, if it is a number for which `holds` does; `InvalidModel` says what is wanted."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not holds(value):
        raise InvalidModel(f"{name} must be {wanted}; got {value!r:.60}")
    return float(value)


def numbers(
    values: object,
    name: str,
    dtype: npt.DTypeLike | None = np.float64,
    *,
    error: type[TacitError] = InvalidModel,
) -> np.ndarray:
    """A fresh array of real numbers; raises `error` for text, ragged lists, complex entries."""
    try:
        array = np.array(values)
        if np.iscomplexobj(array):
            raise TypeError
        return array if dtype is None else array.astype(dtype, copy=False)
    except (TypeError, ValueError):
        kind = getattr(values, "dtype", None) or type(values).__name__
        raise error(
            f"{name} must be an array of real numbers, all rows equally long; got {kind}"
        ) from None


def finite(values: object, name: str, axes: str, dimensions: Sequence[int]) -> np.ndarray:
    """A fresh array of finite numbers with one of these numbers of axes, and not empty."""
    table = numbers(values, name)
    if table.ndim not in dimensions or 0 in table.shape:
        raise InvalidModel(f"{name} must be a non-empty array {axes}; got shape {table.shape}")
    bad = ~np.isfinite(table)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidModel(f"{name} must be finite; entry {where} is {table[where]}")
    return table


def distributions(values: npt.ArrayLike, shape: tuple[int, ...], name: str, row: str) -> np.ndarray:
    """The values as float64, each row, along the last axis, a distribution; the worst is named.

    Args:
        values: as given.
        shape: of the array.
        name: of it, for messages.
        row: what a row is about.
    """
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidModel(f"{name} must be an array of probabilities of shape {shape}") from None
    if table.shape != shape:
        raise InvalidModel(f"{name} must have shape {shape}; got {table.shape}")
    bad = ~(table >= 0) | np.isinf(table)
    if bad.any():
        where = np.argwhere(bad)[0].tolist()
        place = f"entry {tuple(where)}" if table.ndim > 1 else f"{row} {where[0]}"
        raise InvalidModel(f"{name} must hold probabilities; {place} is {table[bad][0]:g}")
    sums = np.atleast_1d(table.sum(axis=-1))
    worst = int(np.abs(sums - 1.0).argmax())
    if abs(sums[worst] - 1.0) > ROW_SUM_TOLERANCE:
        place = f"{row} {worst}" if table.ndim > 1 else "it"
        raise InvalidModel(f"{name} must be a distribution: {place} sums to {sums[worst]:.10g}")
    return table


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, contiguous and no longer writable."""
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array
