"""Curves that were recovered: their values with bands, and tests of what shape they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.files.columns import frame_of
from tacit.inference.findings import chance
from tacit.inference.parameters import CONFIDENCE
from tacit.inference.tails import normal_quantile
from tacit.model.arguments import integer, numbers
from tacit.model.features.curves import DECREASING, INCREASING, POSITIVE, CurveTerm, Spline, Surface

if TYPE_CHECKING:
    import polars

# Points of a grid, and bins of a density, of a curve and of a surface along each side.
GRID, SIDE = 100, 30
# Draws of a curve, by which a simultaneous band is wider than a pointwise one.
DRAWS = 4000


@dataclass(frozen=True, eq=False, kw_only=True)
class CurveValues:
    """Values of a curve, and the band around them.

    Attributes:
        grid: [n, m] where, one column a measurement.
        values: [n] in units of the noise: of the strength by restricted likelihood.
        lower: [n] end of the band.
        upper: [n] end of the band.
        standard_errors: [n] of the fit that the band is of.
        confidence: of the band.
        is_simultaneous: whether it holds the whole curve with this confidence, or each value.
    """

    grid: np.ndarray
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    standard_errors: np.ndarray
    confidence: float
    is_simultaneous: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """A curve or a surface of the reward or of a cost, in units of the demonstrator's noise.

    Attributes:
        name: such as "s(slope)".
        variables: what it is a curve of, one name or two.
        block: 0 for the reward, 1 + k for constraint k.
        columns: [D] numbers of its features in their block.
        basis: how parameters make the curve.
        weights: [D] parameters under the strength by restricted likelihood, 0 where the constraint
            was left out.
        centre: [D] those of the fit that the band is of, without regard to the shape.
        covariance: [D, D] of these.
        degrees: effective degrees of freedom: 1 for a straight line, D for one that is not smooth.
        strengths: [1] of the penalty of a curve, [2] of a surface.
        p_value: of "the curve is 0 everywhere".
        straight_p_value: of "the curve is a straight line"; of a surface, a sum of a straight line
            along each side and of their product.
        density: [100] share of the steps at places in equal parts of the range, [30, 30] of a
            surface.
        absence: why there is no band; empty where there is.
    """

    name: str
    variables: tuple[str, ...]
    block: int
    columns: np.ndarray
    basis: Spline | Surface
    weights: np.ndarray
    centre: np.ndarray
    covariance: np.ndarray
    degrees: float
    strengths: np.ndarray
    p_value: float
    straight_p_value: float
    density: np.ndarray
    absence: str = ""

    @property
    def of(self) -> str:
        """What it is a part of: "reward", or "cost 0"."""
        return f"cost {self.block - 1}" if self.block else "reward"

    @property
    def title(self) -> str:
        """Its name, and what it is a part of."""
        return f"{self.name} of {'' if self.block else 'the '}{self.of}"

    def at(
        self,
        grid: npt.ArrayLike | None = None,
        *,
        confidence: float = CONFIDENCE,
        simultaneous: bool = False,
        seed: int = 0,
    ) -> CurveValues:
        """The `CurveValues` at places, those beyond the range as at its end.

        Args:
            grid: [n], or [n, 2] of a surface; None for an even grid over the range.
            confidence: of the band.
            simultaneous: whether the band holds the whole curve, not each value for itself.
            seed: of the draws that a simultaneous band is made by.
        """
        if not 0.0 < confidence < 1.0:
            raise InvalidModel(f"confidence must be in (0, 1); got {confidence}")
        places = self.even_grid() if grid is None else self._places(grid)
        table = self.basis.columns(places)
        values, centre = table @ self.weights, table @ self.centre
        errors = np.sqrt(np.maximum(((table @ self.covariance) * table).sum(axis=1), 0.0))
        quantile = normal_quantile(0.5 + 0.5 * confidence)
        if simultaneous and not self.absence:
            quantile = self._simultaneous(confidence, seed)
        low, high = centre - quantile * errors, centre + quantile * errors
        low, high = self._shaped(places, low), self._shaped(places, high)
        return CurveValues(
            grid=places,
            values=values,
            lower=np.fmin(low, values) if not self.absence else low,
            upper=np.fmax(high, values) if not self.absence else high,
            standard_errors=errors,
            confidence=confidence,
            is_simultaneous=simultaneous,
        )

    def even_grid(self, count: int | None = None) -> np.ndarray:
        """[n, m] so many places, evenly over the range of each measurement."""
        sides = len(self.variables)
        many = integer(count or (GRID if sides == 1 else SIDE), "count")
        axes = [np.linspace(low, high, many) for low, high in self.basis.ends]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, sides)

    def frame(
        self, grid: npt.ArrayLike | None = None, *, pandas: bool = False, **about: bool | float
    ) -> polars.DataFrame | Any:
        """One row a place: the measurements, the value, its standard error and the band.

        Arguments are those of `at`; `pandas` asks for a frame of pandas.
        """
        found = self.at(grid, **about)  # type: ignore[arg-type]
        columns = dict(zip(self.variables, found.grid.T, strict=True))
        about_values = {
            "value": found.values,
            "standard_error": found.standard_errors,
            "lower": found.lower,
            "upper": found.upper,
        }
        return frame_of(columns | about_values, pandas=pandas)

    @property
    def sentence(self) -> str:
        """What the tests say, in words."""
        said = f"{self.title}: {self.degrees:.1f} effective degrees of freedom"
        if np.isnan(self.p_value):
            return f"{said}; not tested: {self.absence or 'the search did not converge'}."
        tests = f"nothing ({chance(self.p_value)}), a straight line"
        return f"{said}; tests that it is {tests} ({chance(self.straight_p_value)})."

    def __repr__(self) -> str:
        return f"Curve({self.sentence})"

    def _places(self, grid: npt.ArrayLike) -> np.ndarray:
        sides = len(self.variables)
        places = numbers(grid, "grid").astype(float)
        places = places[:, None] if places.ndim == 1 and sides == 1 else places
        if places.ndim != 2 or places.shape[1] != sides or not np.isfinite(places).all():
            wanted = "[n]" if sides == 1 else "[n, 2]"
            raise InvalidModel(
                f"the grid of {self.name} must be finite numbers {wanted}; got {places.shape}"
            )
        return places

    def _shaped(self, places: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """[n] ends of a band that regard the shape: rearranged (Chernozhukov et al. 2009)."""
        if self.basis.shape == POSITIVE:
            return np.maximum(ends, 0.0)
        if self.basis.shape not in (INCREASING, DECREASING):
            return ends
        order = np.argsort(places[:, 0], kind="stable")
        arranged, rising = np.empty_like(ends), np.sort(ends)
        arranged[order] = rising if self.basis.shape == INCREASING else rising[::-1]
        return arranged

    def _simultaneous(self, confidence: float, seed: int) -> float:
        """Standard errors within which the whole curve lies: a quantile of the largest of draws."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        table = self.basis.columns(self.even_grid()) @ root
        errors = np.maximum(np.linalg.norm(table, axis=1), 1e-300)
        draws = np.random.default_rng(seed).standard_normal((len(values), DRAWS))
        largest = (np.abs(table @ draws) / errors[:, None]).max(axis=0)
        return float(np.quantile(largest, confidence))


def density_of(term: CurveTerm, counts: np.ndarray) -> np.ndarray:
    """[100] or [30, 30] the share of steps [..., S, A] at measurements of a curve, equal parts."""
    counts = counts.reshape(-1, *counts.shape[-2:]).sum(axis=0)
    sides = len(term.variables)
    by_state = term.values.ndim == 2
    weights = (counts.sum(axis=1) if by_state else counts).ravel()
    places = term.values.reshape(-1, sides)
    there = np.isfinite(places).all(axis=1) & (weights > 0)
    bins = [GRID if sides == 1 else SIDE] * sides
    inside = [column.clip(*end) for column, end in zip(places[there].T, term.basis.ends,
                                                       strict=True)]  # fmt: skip
    found, _ = np.histogramdd(
        np.stack(inside, axis=1), bins=bins, range=term.basis.ends, weights=weights[there]
    )
    return found / max(found.sum(), 1.0)
