"""Curves and surfaces of measurements: cubic B-splines, linear in their parameters, centred.

A curve of x is a weighted sum of B-splines with knots at quantiles of the distinct values of x. Its
mean over the rows it was made of is 0, as no choice depends on a constant; one that must be
positive is 0 where its range begins instead. How much it bends is the integral of its squared
second derivative, with x running from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.model.arguments import numbers

DEGREE = 3
# B-splines of a curve, and of a surface along each side, unless another number is asked for.
CURVE_SPLINES, SIDE_SPLINES = 12, 18
FEWEST_SPLINES, MOST_SPLINES = 4, 60
FREE, POSITIVE, INCREASING, DECREASING = "", "positive", "increasing", "decreasing"
SHAPES = (POSITIVE, INCREASING, DECREASING)
# Largest relative residual of a curve that others can stand in for.
SAME_CURVE = 1e-8
# Place of both Gauss points in [-1, 1]: squares of straight lines are integrated exactly.
GAUSS_POINT = 1.0 / np.sqrt(3.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Spline:
    """The parameters of a curve, and the columns and the penalty that they have.

    Attributes:
        breaks: [m] knots in rising order, the ends of the range among them.
        is_cyclic: whether the curve goes on from its end at its beginning.
        shape: "" for any, "positive", "increasing" or "decreasing".
        means: [p] of the B-splines over the rows that the curve is centred on.
    """

    breaks: np.ndarray
    is_cyclic: bool = False
    shape: str = FREE
    means: np.ndarray

    @classmethod
    def of(
        cls,
        values: npt.ArrayLike,
        *,
        splines: int | None = None,
        period: float | None = None,
        shape: str = FREE,
        what: str = "s(x)",
    ) -> Spline:
        """The spline for values [n]; `InvalidModel` where these are too few for a curve.

        Args:
            values: of the rows.
            splines: how many B-splines; None for 12, or as many as there are distinct values.
            period: after which a cyclic curve begins again; None for a curve with two ends.
            shape: "positive", "increasing" or "decreasing"; "" for any.
            what: the term, for messages.
        """
        given = numbers(values, what)
        distinct = np.unique(given % period if period else given)
        if distinct.size < FEWEST_SPLINES:
            raise InvalidModel(
                f"{what} must be of at least {FEWEST_SPLINES} distinct values; there "
                f"{'is one' if distinct.size == 1 else f'are {distinct.size}'}: leave it out, or "
                "take the column itself or C(column)"
            )
        if shape and (shape not in SHAPES or period):
            wanted = f"shape must be one of {', '.join(SHAPES)}, of a curve that is not cyclic"
            raise InvalidModel(f"{what}: {wanted}; got {shape!r}")
        most = min(MOST_SPLINES, distinct.size)
        if splines is not None and not FEWEST_SPLINES <= splines <= most:
            raise InvalidModel(
                f"{what}: k must be from {FEWEST_SPLINES} to {most}, the number of distinct values "
                f"at most; got {splines}"
            )
        count = min(CURVE_SPLINES, distinct.size) if splines is None else splines
        if period:
            breaks = np.linspace(0.0, period, count + 1)
        else:
            breaks = np.quantile(distinct, np.linspace(0.0, 1.0, count - DEGREE + 1))
        plain = cls(breaks=breaks, is_cyclic=bool(period), shape=shape, means=np.zeros(count))
        return replace(plain, means=plain.splines(given).mean(axis=0))

    @property
    def size(self) -> int:
        """D, the number of parameters."""
        return len(self.means) - 1

    @property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """Least and largest value of each measurement, of which there is one."""
        return ((float(self.breaks[0]), float(self.breaks[-1])),)

    def columns(self, values: np.ndarray) -> np.ndarray:
        """[n, D] at values [n] or [n, 1]; beyond the range those at its end."""
        table = self.splines(np.reshape(values, -1)) @ self.mixing
        return table if self.shape == POSITIVE else table - self.means @ self.mixing

    def splines(self, values: np.ndarray) -> np.ndarray:
        """[n, p] the B-splines themselves."""
        from scipy.interpolate import BSpline

        low, high = self.ends[0]
        inside = low + (values - low) % (high - low) if self.is_cyclic else values.clip(low, high)
        return self._wrapped(BSpline.design_matrix(inside, self._knots, DEGREE).toarray())

    @cached_property
    def mixing(self) -> np.ndarray:
        """[p, D] weights of the B-splines by parameters, those that bend least first.

        Of any shape they bend independently of each other, so that a strong penalty of some leaves
        the digits of others.
        """
        whole = np.eye(len(self.means))
        if self.shape == POSITIVE:
            return whole[:, 1:]
        if self.shape:
            steps = np.tri(len(self.means), k=-1)[:, :-1]  # each lifts all that comes after
            return steps if self.shape == INCREASING else 1.0 - steps
        centred = centring(self.means)
        if self.is_cyclic:  # whose waves come in pairs that no order tells apart
            return centred
        _, vectors = np.linalg.eigh(centred.T @ self.roughness @ centred)
        largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(self.size)]
        return centred @ (vectors * np.sign(largest))  # the largest entry of each is positive

    @cached_property
    def penalties(self) -> tuple[np.ndarray, ...]:
        """One [D, D]: how much a curve bends."""
        return (self.mixing.T @ self.roughness @ self.mixing,)

    @cached_property
    def roughness(self) -> np.ndarray:
        """[p, p] R such that w . R w is how much the curve with weights w [p] bends."""
        from scipy.interpolate import BSpline

        knots, span = self._knots, float(np.ptp(self.breaks))
        lengths = np.diff(self.breaks)
        middles = self.breaks[:-1] + 0.5 * lengths
        offsets = np.outer(0.5 * lengths, [-GAUSS_POINT, GAUSS_POINT])
        points = (middles[:, None] + offsets).ravel()
        splines = BSpline(knots, np.eye(len(knots) - DEGREE - 1), DEGREE)
        bends = self._wrapped(splines.derivative(2)(points)) * span**2
        weights = np.repeat(0.5 * lengths / span, 2)
        return bends.T @ (weights[:, None] * bends)

    @property
    def _knots(self) -> np.ndarray:
        if not self.is_cyclic:
            return np.pad(self.breaks, DEGREE, mode="edge")
        span = np.ptp(self.breaks)
        before, after = self.breaks[-1 - DEGREE : -1] - span, self.breaks[1 : 1 + DEGREE] + span
        return np.concatenate([before, self.breaks, after])

    def _wrapped(self, table: np.ndarray) -> np.ndarray:
        """[n, p] columns [n, p + 3], those beyond the end being those of the beginning."""
        if not self.is_cyclic:
            return table
        count = len(self.breaks) - 1
        wrapped = table[:, :count].copy()
        wrapped[:, :DEGREE] += table[:, count:]
        return wrapped

    def stored(self) -> dict[str, Any]:
        """All that it is, as texts, numbers and lists."""
        return {
            "breaks": self.breaks.tolist(),
            "cyclic": self.is_cyclic,
            "shape": self.shape,
            "means": self.means.tolist(),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Surface:
    """The parameters of a surface over two measurements: products of their B-splines.

    Attributes:
        sides: the splines of both.
        means: [p * q] of the products over the rows that the surface is centred on.
    """

    sides: tuple[Spline, Spline]
    means: np.ndarray

    @classmethod
    def of(
        cls, values: npt.ArrayLike, *, splines: int | None = None, what: str = "te(x, y)"
    ) -> Surface:
        """The surface for values [n, 2]; arguments as for `Spline.of`."""
        given = numbers(values, what)
        counts = [min(splines or SIDE_SPLINES, len(np.unique(column))) for column in given.T]
        one, other = (
            Spline.of(column, splines=count if count >= FEWEST_SPLINES else None, what=what)
            for column, count in zip(given.T, counts, strict=True)
        )
        plain = cls(sides=(one, other), means=np.zeros(counts[0] * counts[1]))
        return replace(plain, means=plain.splines(given).mean(axis=0))

    @property
    def shape(self) -> str:
        """Any."""
        return FREE

    @property
    def size(self) -> int:
        """D, the number of parameters."""
        return len(self.means) - 1

    @property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """Least and largest value of each measurement, of which there are two."""
        return tuple(side.ends[0] for side in self.sides)

    def columns(self, values: np.ndarray) -> np.ndarray:
        """[n, D] at values [n, 2]; beyond the range those at its border."""
        return self.splines(values) @ self.mixing

    def splines(self, values: np.ndarray) -> np.ndarray:
        """[n, p * q] products of B-splines."""
        one, other = (side.splines(values[:, j]) for j, side in enumerate(self.sides))
        return (one[:, :, None] * other[:, None]).reshape(len(values), -1)

    @cached_property
    def mixing(self) -> np.ndarray:
        """[p * q, D] weights of the products by parameters."""
        return centring(self.means)

    @cached_property
    def penalties(self) -> tuple[np.ndarray, ...]:
        """Two [D, D]: how much a surface bends along each side."""
        one, other = (side.roughness for side in self.sides)
        both = np.kron(one, np.eye(len(other))), np.kron(np.eye(len(one)), other)
        return tuple(self.mixing.T @ rough @ self.mixing for rough in both)

    def stored(self) -> dict[str, Any]:
        """All that it is, as texts, numbers and lists."""
        return {"sides": [side.stored() for side in self.sides], "means": self.means.tolist()}


def basis_from_stored(stored: Mapping[str, Any]) -> Spline | Surface:
    """The spline or the surface that `stored` gave."""
    means = np.array(stored["means"])
    if "sides" in stored:
        one, other = map(basis_from_stored, stored["sides"])
        assert isinstance(one, Spline)
        assert isinstance(other, Spline)
        return Surface(sides=(one, other), means=means)
    breaks = np.array(stored["breaks"])
    return Spline(breaks=breaks, is_cyclic=stored["cyclic"], shape=stored["shape"], means=means)


def centring(means: np.ndarray) -> np.ndarray:
    """[p, p - 1] orthonormal columns on which sums weighted by means [p] are 0: a reflection."""
    mirror = means.copy()
    mirror[0] += np.copysign(np.linalg.norm(means), means[0])
    return (np.eye(len(means)) - 2.0 * np.outer(mirror, mirror) / (mirror @ mirror))[:, 1:]


@dataclass(frozen=True, eq=False, kw_only=True)
class CurveTerm:
    """A curve among features: which of them are its parameters, and what they make.

    Attributes:
        name: such as "s(slope)".
        variables: what it is a curve of, one name or two.
        columns: [D] numbers of its features in their block.
        basis: how parameters make the curve.
        values: [S, m] or [S, A, m] the m measurements; NaN where the curve says nothing.
        block: 0 for the reward, 1 + k for constraint k.
    """

    name: str
    variables: tuple[str, ...]
    columns: np.ndarray
    basis: Spline | Surface
    values: np.ndarray
    block: int = 0

    def among(self, blocks: Sequence[slice]) -> np.ndarray:
        """[D] numbers of its features among those of all blocks."""
        return blocks[self.block].start + self.columns

    @property
    def label(self) -> str:
        """Its name, and what it is a part of."""
        return f"{self.name} of " + (f"cost {self.block - 1}" if self.block else "the reward")


def same_curves(curves: Sequence[CurveTerm], parts: Sequence[Any]) -> list[tuple[CurveTerm, ...]]:
    """Curves of costs, each after those of the reward that can stand in for it.

    One demonstrator's steps then tell their difference alone: every column of the cost is a sum of
    columns of the reward and of a constant. `parts` are the maps of all blocks.
    """
    of_reward = tuple(curve for curve in curves if not curve.block)
    of_costs = [curve for curve in curves if curve.block] if of_reward else []
    groups = []
    for curve in of_costs:
        tables = [np.asarray(parts[c.block])[..., c.columns] for c in (*of_reward, curve)]
        actions = max((table.shape[1] for table in tables if table.ndim == 3), default=1)
        by_action = [
            np.repeat(table[:, None], actions, axis=1) if table.ndim == 2 else table
            for table in tables
        ]
        flat = [table.reshape(-1, table.shape[-1]) for table in by_action]
        *reward_columns, columns = [table - table.mean(axis=0) for table in flat]
        basis = np.concatenate(reward_columns, axis=1)
        residual = columns - basis @ np.linalg.lstsq(basis, columns, rcond=None)[0]
        if np.abs(residual).max() < SAME_CURVE * np.abs(columns).max():
            alike = [other for other in of_reward if {*other.variables} & {*curve.variables}]
            groups.append((*alike, curve))
    return groups
