"""Quantities made of the coefficients of a recovery, with their intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.files.columns import frame_of
from tacit.files.wording import did_you_mean, some, table_text
from tacit.inference.fitted_law import DRAWS, VISIBLE, FittedLaw, Function, Spread, spread_of
from tacit.inference.parameters import CONFIDENCE, Parameters

if TYPE_CHECKING:
    from collections.abc import Sequence


class Coefficients(np.ndarray):
    """[P] coefficients, each found by its number or its name: `c["road"] / c["water"]`."""

    names: tuple[str, ...] = ()

    def __array_finalize__(self, made_of: Any) -> None:
        self.names = getattr(made_of, "names", ())

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, str):
            which = number_of(which, self.names)
        found = super().__getitem__(which)
        return np.asarray(found) if isinstance(found, np.ndarray) else found


def number_of(name: str, names: Sequence[str]) -> int:
    """The number of the coefficient with this name, of which there must be one."""
    if (many := list(names).count(name)) == 1:
        return list(names).index(name)
    if many:
        raise InvalidModel(f"coefficients must be told by name; {many} are named {name!r:.60}")
    hint = did_you_mean(name, names) or f"; the names are {some(names)}"
    raise InvalidModel(f"no coefficient is named {name!r:.60}{hint}")


@dataclass(frozen=True, eq=False)
class Quantity:
    """A number, or an array of numbers, made of the coefficients, and how well it is known.

    Attributes:
        estimate: [...] at the coefficients of the recovery.
        spreads: how it scatters; where coefficients have a limit on one side alone three: where
            these are as fitted, at their limits, and twice as far as fitted.
        confidence: of the interval.
        absence: why nothing is known of its error; empty where it is.
        lower: smallest value that there is.
    """

    estimate: np.ndarray
    _: KW_ONLY
    spreads: tuple[Spread, ...] = ()
    confidence: float = CONFIDENCE
    absence: str = ""
    lower: float = -np.inf

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence < 1.0:
            raise InvalidModel(f"confidence must be in (0, 1); got {self.confidence}")

    @property
    def method(self) -> str:
        """How the interval was made: "delta", "profile" at a bound, "draws" of a bent function."""
        return self.spreads[0].method if self.spreads else ""

    @property
    def standard_error(self) -> np.ndarray:
        """[...] infinite where the demonstrations leave it open, NaN where none is known."""
        errors = self.spreads[0].errors if self.spreads else np.full(self.estimate.size, np.nan)
        return errors.reshape(self.estimate.shape)[()]

    @cached_property
    def interval(self) -> np.ndarray:
        """[..., 2] wide enough for the estimate.

        A coefficient with a limit on one side alone has it at 95 %: of more nothing is known.
        """
        shape = self.estimate.shape
        if self.absence:
            return np.full((*shape, 2), np.nan)
        ends = np.stack([one.interval(self.confidence) for one in self.spreads[:2]])
        if len(self.spreads) > 1:
            first, limit, beyond = (one.values for one in self.spreads)
            visible = VISIBLE * (1.0 + np.abs(first))
            away = beyond - first
            endless = np.where(np.abs(away) > visible, np.copysign(np.inf, away), first)
            ends = np.concatenate([ends, np.stack([endless, endless], axis=1)[None]])
            if self.confidence > CONFIDENCE:
                unknown = np.isinf(endless) | (np.abs(limit - first) > visible)
                ends = np.where(unknown[:, None], [-np.inf, np.inf], ends)
        here = self.estimate.ravel()
        low = np.maximum(np.fmin(ends[..., 0].min(axis=0), here), self.lower)
        high = np.fmax(ends[..., 1].max(axis=0), here)
        return np.stack([low, high], axis=-1).reshape(*shape, 2)

    def at(self, confidence: float) -> Quantity:
        """The same with an interval of another confidence."""
        return replace(self, confidence=confidence)

    def part(self, rows: slice, shape: tuple[int, ...], lower: float) -> Quantity:
        """Some of the numbers, in another shape, with a smallest value."""
        return replace(
            self,
            estimate=self.estimate.ravel()[rows].reshape(shape),
            spreads=tuple(one.part(rows) for one in self.spreads),
            lower=lower,
        )

    def __repr__(self) -> str:
        if self.estimate.ndim:
            return f"Quantity({list(self.estimate.shape)} numbers; {self.method or self.absence})"
        if self.absence:
            return f"Quantity({float(self.estimate):.4g}; {self.absence})"
        low, high = self.interval
        return (
            f"Quantity({float(self.estimate):.4g}, standard error {float(self.standard_error):.2g}"
            f", {self.confidence:.0%} interval [{low:.4g}, {high:.4g}] by {self.method})"
        )


def quantity_of(
    parameters: Parameters,
    spread: Callable[[FittedLaw], Spread],
    estimate: np.ndarray,
    *,
    confidence: float,
) -> Quantity:
    """A `Quantity` of these estimates [...], its spread made from the law of the coefficients."""
    law = parameters.law
    if law.absence:
        return Quantity(estimate, confidence=confidence, absence=law.absence)
    laws = [law]
    if len(law.limited):
        beyond = 2.0 * law.point[law.limited]
        laws += [law.limited_at(law.limits), law.limited_at(beyond)]
    return Quantity(estimate, spreads=tuple(map(spread, laws)), confidence=confidence)


def function_of(
    parameters: Parameters,
    function: Callable[[Coefficients], npt.ArrayLike],
    *,
    confidence: float = CONFIDENCE,
    draws: int = DRAWS,
    seed: int = 0,
) -> Quantity:
    """The `Quantity` that a function makes of the coefficients.

    Args:
        parameters: the coefficients.
        function: `Coefficients` [P] -> a number or an array of numbers.
        confidence: of the interval.
        draws: how many, where the delta method will not do.
        seed: of the draws.
    """

    def values(coefficients: np.ndarray) -> np.ndarray:
        named = np.array(coefficients, dtype=np.float64).view(Coefficients)
        named.names = parameters.names
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.asarray(function(named), dtype=np.float64)

    estimate = values(parameters.estimates)
    flat: Function = lambda coefficients: values(coefficients).ravel()  # noqa: E731
    about = {"draws": draws, "seed": seed}
    return quantity_of(
        parameters, lambda law: spread_of(flat, law, **about), estimate, confidence=confidence
    )


class QuantityTable:
    """What several quantities have in common that are fields of one result, row by row a table."""

    @cached_property
    def _columns(self) -> dict[str, Any]:
        """The columns of the table."""
        raise NotImplementedError

    def at(self, confidence: float) -> Self:
        """The same with intervals of another confidence."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        quantities = {
            name: one.at(confidence) for name, one in parts.items() if isinstance(one, Quantity)
        }
        return replace(self, **quantities)  # type: ignore[type-var]

    def _frame(self, *, pandas: bool) -> Any:
        """The table as a frame."""
        return frame_of(self._columns, pandas=pandas)

    def _text(self, title: str) -> str:
        """The table as text."""
        names, *columns = self._columns.values()
        rows = list(zip(names, *(one.tolist() for one in columns), strict=True))
        return table_text(["", *[*self._columns][1:]], rows, title)
