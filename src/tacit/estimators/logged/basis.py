"""Families of functions of a row, on which soft values are regressed: the public `tacit.bases`.

A family is a choice of hyperparameters; `functions` makes of it functions that know the rows they
were made from. Coordinates are standardised, and scaled by how much they matter where it is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Protocol, Self

import numpy as np

from tacit.errors import InvalidModel

__all__ = ["Additive", "Gaussian", "Matern", "OneHot", "Polynomials"]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)


# Relative variance of the directions of a family that are left out.
FAINT = 1e-7
# Rows by which functions are made orthonormal, and those whose kernels are formed at once.
SOME, CHUNK = 100_000, 20_000
# By what kernels are narrower where there are twice as many.
NARROWER = 0.7
# Share of the mean eigenvalue of a kernel that rounding needs.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Scaling:
    """Standardised coordinates of rows.

    Attributes:
        means: [d] of the rows.
        spreads: [d] their standard deviations; 1 for a constant.
        relevance: [d] what standardised coordinates are multiplied by.
    """

    means: np.ndarray
    spreads: np.ndarray
    relevance: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, relevance: np.ndarray | None = None) -> Scaling:
        """That of rows [n, d], all coordinates being alike unless their relevance [d] is given."""
        means, spreads = rows.mean(axis=0), rows.std(axis=0)
        spreads = np.where(spreads > 1e-12 * (1.0 + np.abs(means)), spreads, 1.0)
        return cls(means, spreads, np.ones(rows.shape[1]) if relevance is None else relevance)

    def at(self, rows: np.ndarray) -> np.ndarray:
        """[n, d] the coordinates of rows."""
        return (rows - self.means) / self.spreads * self.relevance


class Functions(Protocol):
    """Functions of a row."""

    @property
    def penalty(self) -> np.ndarray:
        """[m] squared size of each function, by which a ridge pulls at its coefficient."""
        ...

    def at(self, rows: np.ndarray, /) -> np.ndarray:
        """[n, m] their values at rows [n, d]."""
        ...


class Family(Protocol):
    """Functions to be made for rows."""

    @property
    def size(self) -> int:
        """How many functions there are of one coordinate, or of all, before any is left out."""
        ...

    @property
    def smooth(self) -> bool:
        """Whether a ridge is chosen for it."""
        ...

    def functions(self, rows: np.ndarray, scaling: Scaling, /) -> Functions:
        """The functions for rows [n, d]."""
        ...

    def doubled(self) -> Self | None:
        """The family with about twice as many functions; None where it has all there are."""
        ...


@dataclass(frozen=True, eq=False)
class Whitened:
    """Functions that are orthonormal over the rows they were made for, and a constant.

    Attributes:
        raw: the functions before.
        mix: [k, m] by which they are mixed.
        sizes: [m] variances that the mixtures had: the smaller, the rougher they are.
    """

    raw: Functions
    mix: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, raw: Functions, rows: np.ndarray, *, rough: bool) -> Whitened:
        """Made orthonormal over rows [n, d]; `rough` ones are pulled more by a ridge."""
        some = raw.at(rows[:: -(-len(rows) // SOME)])
        sizes, axes = np.linalg.eigh(some.T @ some / len(some))
        kept = sizes > FAINT * sizes[-1]
        mix = axes[:, kept] / np.sqrt(sizes[kept])
        return cls(raw, mix, sizes[kept] if rough else np.ones(int(kept.sum())))

    @property
    def penalty(self) -> np.ndarray:
        """[1 + m] 0 for the constant; the others' norm as functions before they were mixed."""
        return np.append(0.0, 1.0 / self.sizes)

    def at(self, rows: np.ndarray) -> np.ndarray:
        """[n, 1 + m] the constant, then the mixtures."""
        found = np.ones((len(rows), 1 + self.mix.shape[1]))
        for first in range(0, len(rows), CHUNK):
            part = slice(first, first + CHUNK)
            found[part, 1:] = self.raw.at(rows[part]) @ self.mix
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelFunctions:
    """Nystroem features: kernels around centres, their norm as functions being that of vectors.

    Attributes:
        scaling: of the coordinates.
        centres: [m, d] in these.
        width: of a kernel.
        root: [m, m] inverse root of the kernels between centres.
        rough: whether the kernel is Matern's of order 5/2; else it is Gaussian.
    """

    scaling: Scaling
    centres: np.ndarray
    width: float
    root: np.ndarray
    rough: bool

    @property
    def penalty(self) -> np.ndarray:
        """[m] ones."""
        return np.ones(len(self.centres))

    def at(self, rows: np.ndarray) -> np.ndarray:
        """[n, m] their values at rows."""
        return kernel(self.scaling.at(rows), self.centres, self.width, rough=self.rough) @ self.root


def kernel(points: np.ndarray, centres: np.ndarray, width: float, *, rough: bool) -> np.ndarray:
    """[n, m] Gaussian kernels, or Matern's of order 5/2, of points [n, d] and centres [m, d]."""
    lengths = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
    squares = np.maximum(lengths - 2.0 * points @ centres.T, 0.0) / width**2
    if not rough:
        return np.exp(-0.5 * squares)
    far = np.sqrt(5.0 * squares)
    return (1.0 + far + far**2 / 3.0) * np.exp(-far)


@dataclass(frozen=True)
class Gaussian:
    """Gaussian kernels around some of the rows: for smooth worlds.

    Attributes:
        size: how many.
        width: of a kernel, in standard deviations of a coordinate, times the root of their number.
        seed: by which the centres are drawn.
    """

    size: int = 50
    _: KW_ONLY
    width: float = 1.4
    seed: int = 0

    smooth = True
    rough = False

    def functions(self, rows: np.ndarray, scaling: Scaling) -> Whitened:
        """The functions for rows [n, d]."""
        points = np.unique(scaling.at(rows), axis=0)  # in an order that is not that of the rows
        random = np.random.default_rng(self.seed)
        chosen = random.choice(len(points), min(self.size, len(points)), replace=False)
        centres = points[np.sort(chosen)]
        width = self.width * float(np.sqrt((scaling.relevance**2).sum()))
        between = kernel(centres, centres, width, rough=self.rough)
        sizes, axes = np.linalg.eigh(between)
        root = (axes / np.sqrt(np.maximum(sizes, ROUNDING * sizes.mean()))) @ axes.T
        raw = KernelFunctions(
            scaling=scaling, centres=centres, width=width, root=root, rough=self.rough
        )
        return Whitened.of(raw, rows, rough=True)

    def doubled(self) -> Self:
        """The family with twice as many kernels, which are narrower."""
        return replace(self, size=2 * self.size, width=NARROWER * self.width)


@dataclass(frozen=True)
class Matern(Gaussian):
    """Matern's kernels of order 5/2 around some of the rows: for worlds with edges.

    Attributes:
        size: how many.
        width: of a kernel, in standard deviations of a coordinate, times the root of their number.
        seed: by which the centres are drawn.
    """

    rough = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Monomials:
    """Products of powers of standardised coordinates.

    Attributes:
        scaling: of the coordinates.
        powers: [m, d] the power of each coordinate in each product.
    """

    scaling: Scaling
    powers: np.ndarray

    @property
    def penalty(self) -> np.ndarray:
        """[m] ones."""
        return np.ones(len(self.powers))

    def at(self, rows: np.ndarray) -> np.ndarray:
        """[n, m] their values at rows."""
        points = self.scaling.at(rows)
        found = np.ones((len(rows), len(self.powers)))
        for j, column in enumerate(points.T):
            for power in range(1, int(self.powers[:, j].max(initial=0)) + 1):
                found[:, self.powers[:, j] == power] *= (column**power)[:, None]
        return found


@dataclass(frozen=True)
class Polynomials:
    """Polynomials of low degree: for smooth worlds of many columns.

    Attributes:
        degree: largest power of one coordinate.
        cross: largest degree of products of several; 1 for none, so that they are additive.
    """

    degree: int = 2
    _: KW_ONLY
    cross: int = 2

    smooth = False

    @property
    def size(self) -> int:
        """Functions of one coordinate."""
        return self.degree

    def functions(self, rows: np.ndarray, scaling: Scaling) -> Whitened:
        """The functions for rows [n, d]."""
        width, powers = rows.shape[1], []
        for total in range(1, max(self.degree, self.cross) + 1):
            for chosen in combinations_with_replacement(range(width), total):
                own = np.bincount(chosen, minlength=width)
                if total <= (self.degree if (own > 0).sum() == 1 else self.cross):
                    powers.append(own)
        raw = Monomials(scaling=scaling, powers=np.array(powers))
        return Whitened.of(raw, rows, rough=False)

    def doubled(self) -> Self:
        """The family of one degree more; products follow."""
        return replace(self, degree=self.degree + 1, cross=self.cross + (self.cross > 1))


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Functions of one coordinate each, side by side, with one constant.

    Attributes:
        parts: one per coordinate.
    """

    parts: tuple[Functions, ...]

    @property
    def penalty(self) -> np.ndarray:
        """[m] of all."""
        return np.concatenate([[0.0], *(part.penalty[1:] for part in self.parts)])

    def at(self, rows: np.ndarray) -> np.ndarray:
        """[n, m] their values at rows."""
        each = [part.at(rows[:, [j]])[:, 1:] for j, part in enumerate(self.parts)]
        return np.concatenate([np.ones((len(rows), 1)), *each], axis=1)


@dataclass(frozen=True)
class Additive:
    """Functions of single coordinates, added up: where columns matter one by one.

    Attributes:
        family: of the functions of each.
    """

    family: Gaussian | Polynomials = field(default_factory=lambda: Polynomials(3))

    @property
    def size(self) -> int:
        """Functions of one coordinate."""
        return self.family.size

    @property
    def smooth(self) -> bool:
        """Whether a ridge is chosen for it."""
        return self.family.smooth

    def functions(self, rows: np.ndarray, scaling: Scaling) -> SideBySide:
        """The functions for rows [n, d]."""
        parts = zip(scaling.means, scaling.spreads, strict=True)
        ones = [Scaling(np.array([m]), np.array([s]), np.ones(1)) for m, s in parts]
        each = enumerate(ones)
        return SideBySide(tuple(self.family.functions(rows[:, [j]], one) for j, one in each))

    def doubled(self) -> Self:
        """Twice as many functions of each."""
        return replace(self, family=self.family.doubled())


@dataclass(frozen=True, eq=False)
class Levels:
    """Indicators of distinct rows.

    Attributes:
        rows: [m, d] those rows, sorted.
    """

    rows: np.ndarray

    @property
    def penalty(self) -> np.ndarray:
        """[m] ones."""
        return np.ones(len(self.rows))

    def at(self, rows: np.ndarray) -> np.ndarray:
        """[n, m] 1 where a row is that one; all 0 for one that was never seen."""
        known = {row.tobytes(): k for k, row in enumerate(np.ascontiguousarray(self.rows + 0.0))}
        place = np.array([known.get(row.tobytes(), -1) for row in np.ascontiguousarray(rows + 0.0)])
        found = np.zeros((len(rows), len(self.rows)))
        found[place >= 0, place[place >= 0]] = 1.0
        return found


@dataclass(frozen=True)
class OneHot:
    """An indicator of every distinct row: dynamics counted as those of a table are."""

    smooth = False
    size = 0

    def functions(self, rows: np.ndarray, scaling: Scaling) -> Levels:
        """The functions for rows [n, d]."""
        return Levels(np.unique(rows, axis=0))

    def doubled(self) -> None:
        """None: there are no more."""


@dataclass(frozen=True, eq=False)
class Given:
    """A function of the user's own, observations [n, d] -> [n, m].

    Attributes:
        function: the function; None where it was not kept in a file.
        penalty: [m] squared sizes over the rows; 0 for a constant.
    """

    function: Callable[[np.ndarray], np.ndarray] | None = field(
        default=None, metadata={"packed": ""}
    )
    penalty: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def size(self) -> int:
        """How many, once they are made."""
        return len(self.penalty)

    @property
    def smooth(self) -> bool:
        """Whether a ridge is chosen for it."""
        return True

    def functions(self, rows: np.ndarray, scaling: Scaling) -> Given:
        """The same, with its sizes over rows [n, d]."""
        values = self.at(rows)
        flat = np.ptp(values, axis=0) == 0.0
        return replace(self, penalty=np.where(flat, 0.0, (values**2).mean(axis=0)))

    def doubled(self) -> None:
        """None: there are no more."""

    def at(self, rows: np.ndarray) -> np.ndarray:
        """[n, m] the values at rows; one line where they are none."""
        if self.function is None:
            raise InvalidModel(
                "a basis that is a function is not kept in files: give it again, "
                "tacit.Logged(basis=...)"
            )
        values = np.asarray(self.function(rows), dtype=np.float64)
        if values.ndim != 2 or len(values) != len(rows) or not np.isfinite(values).all():
            raise InvalidModel(
                "a basis must give finite numbers [n, m], one row for each of the observations "
                f"({len(rows)}); got shape {values.shape}"
            )
        return values
