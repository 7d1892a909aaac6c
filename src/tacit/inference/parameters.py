"""The coefficients that the model itself has, with standard errors of four kinds.

A noisy demonstrator acts on reward weights / temperature and multiplier * cost weights /
temperature alone. These coefficients are what the likelihood determines; weights, multipliers and
the temperature are ratios of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.columns import frame_of
from tacit.inference.fitted_law import NEAR, FittedLaw
from tacit.inference.tails import (
    normal_quantile,
    normal_tail,
    student_quantile,
    student_tails,
)
from tacit.model.arguments import read_only
from tacit.search.algebra import at_least
from tacit.search.operators import BLIND as BLIND
from tacit.search.operators import inverse_information

if TYPE_CHECKING:
    import polars

KINDS = ("fisher", "outer", "sandwich", "clustered")
# Confidence of intervals where nobody asks for another.
CONFIDENCE = 0.95
# Share of a coefficient's derivative that must lie in a blind direction to leave it open.
MOVED = 1e-5


@dataclass(frozen=True)
class Ratio:
    """One coefficient divided by another.

    Attributes:
        estimate: infinite where only the denominator is 0.
        standard_error: by the delta method; NaN where one of the two has none.
        interval: by Fieller's theorem; an end is infinite where the denominator may be 0.
    """

    estimate: float
    standard_error: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False, kw_only=True)
class Parameters:
    """[P] coefficients in units of the demonstrator's noise: rewards first, then each constraint.

    A coefficient on its bound has no standard error and an interval on one side of it; a cost that
    was never incurred has [lower, inf); one that was fixed beforehand has error 0. All is NaN where
    the estimator has no temperature.

    Attributes:
        names: [P] of the features; those of a cost begin with its number where names repeat.
        estimates: [P] reward weights / temperature, then multiplier * cost weights / temperature.
        jacobian: [P, n] derivative of the coefficients in the n numbers that were fitted.
        information: [n, n] Fisher information of all steps; where the model does not fit, the
            curvature of the loss, which is not the same then; NaN where there is none.
        outer: [n, n] sum over steps of score times score; NaN where there is none.
        scatter: [n, n] sum over trajectories of score times score; NaN where there is none.
        gradient: [n] of minus the log-likelihood.
        free: [n] bool, the numbers that no bound holds for certain.
        lower: [P] smallest value allowed: 0, minus infinity, or what was asked for.
        limits: [P] 95 % limits of coefficients that have none on the other side, else NaN.
        trajectories: how many independent ones there are; 0 where they are not known.
        errors: kind of the standard errors: "fisher", "outer", "sandwich" or "clustered".
        confidence: of the intervals.
        absence: why there are no standard errors; empty where there are.
        unrestricted: [P] estimates with every constraint, which errors, tests and intervals are
            about; None where nothing was left out.
        conditions: known of the fitted numbers beforehand, and counted in the information.
        upper: [P] largest value allowed; None where there is none.
        weighted: whether steps have sampling weights, so that information is no variance.
        dynamics: [n, n] what counted dynamics add to the scatter of scores; None where they are
            known.
        attenuation: by what coefficients are too small as the dynamics were counted: errors are
            larger by that.
        prior: [n, n] what of the information is of priors; None where nothing is.
        student: [P] degrees of freedom of Student's law, where few individuals make the errors;
            None for the normal law.
    """

    names: tuple[str, ...]
    estimates: np.ndarray
    jacobian: np.ndarray
    information: np.ndarray
    outer: np.ndarray
    scatter: np.ndarray
    gradient: np.ndarray
    free: np.ndarray
    lower: np.ndarray
    limits: np.ndarray
    trajectories: int = 0
    errors: str = "fisher"
    confidence: float = CONFIDENCE
    absence: str = ""
    unrestricted: np.ndarray | None = None
    conditions: int = 0
    upper: np.ndarray | None = None
    weighted: bool = False
    dynamics: np.ndarray | None = None
    attenuation: float = 1.0
    prior: np.ndarray | None = None
    student: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.errors not in KINDS:
            raise InvalidModel(f"errors must be one of {', '.join(KINDS)}; got {self.errors!r:.60}")
        if not 0.0 < self.confidence < 1.0:
            raise InvalidModel(f"confidence must be in (0, 1); got {self.confidence}")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, read_only(np.array(value)))
        object.__setattr__(self, "names", tuple(self.names))

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        parts = list(zip(self.names, self.estimates, self.standard_errors, strict=True))[:6]
        shown = ", ".join(f"{name} {x:.4g} ({error:.2g})" for name, x, error in parts)
        return f"Parameters({shown}{', ...' * (len(self) > 6)}; {self.errors} standard errors)"

    @property
    def degrees(self) -> int:
        """How many directions of the fitted numbers move a coefficient off its bound, and show."""
        moving = np.asarray(self.jacobian[~self._bound].any(axis=0))
        has_information = moving.size and not np.isnan(self.information).any()
        blind = len(inverse_information(self.information, moving)[1]) if has_information else 0
        return int(moving.sum() if moving.size else (~self._bound).sum()) - blind - self.conditions

    @property
    def reason(self) -> str:
        """Why there are no standard errors of this kind; empty where there are."""
        if self.weighted and self.errors in ("fisher", "outer") and not self.absence:
            return f"{self.errors} standard errors take sampling weights for counts"
        if self.absence or self.errors != "clustered" or self.trajectories > 1:
            return self.absence
        if self.trajectories == 1:
            return "clustered standard errors need at least two trajectories; there is one"
        return "clustered standard errors need trajectories; none are known here"

    def with_errors(self, kind: str) -> Parameters:
        """The same with standard errors of another kind; NaN, and a `reason`, if it has none."""
        return replace(self, errors=kind)

    def at(self, confidence: float) -> Parameters:
        """The same with intervals of another confidence."""
        return replace(self, confidence=confidence)

    @cached_property
    def covariance(self) -> np.ndarray:
        """[P, P] of the estimates; NaN for a coefficient without a finite standard error."""
        spread, _ = self._fitted_covariance(self.free)
        found = self.jacobian @ spread @ self.jacobian.T
        bare = ~np.isfinite(self.standard_errors)
        found[bare] = found[:, bare] = np.nan
        found[bare, bare] = self.standard_errors[bare] ** 2
        return read_only(found)

    @cached_property
    def standard_errors(self) -> np.ndarray:
        """[P]; infinite where the demonstrations say nothing, NaN on a bound or without limit."""
        spread, blind = self._fitted_covariance(self.free)
        variance = np.einsum("ij,jk,ik->i", self.jacobian, spread, self.jacobian)
        found = np.sqrt(np.maximum(variance, 0.0)) + (0.0 if self.free.size else np.nan)
        size = np.abs(self.jacobian).max(axis=1, initial=0.0)
        moved = np.abs(self.jacobian @ blind.T).max(axis=1, initial=0.0)
        found[(moved > MOVED * size) & ~np.isnan(found)] = np.inf
        held = np.abs(self.jacobian[:, ~self.free]).max(axis=1, initial=0.0) > 0
        found[held | self.held | np.isfinite(self.limits)] = np.nan
        return read_only(found)

    @cached_property
    def _tested_errors(self) -> np.ndarray:
        """[P] errors of tests and intervals: no sandwich knows more than the likelihood does."""
        if self.errors != "sandwich" or self.reason:
            return self.standard_errors
        plain = replace(self, errors="fisher", weighted=False).standard_errors
        return np.maximum(self.standard_errors, plain)

    @cached_property
    def intervals(self) -> np.ndarray:
        """[P, 2] Wald intervals within the bounds; one-sided on a bound, and without limit."""
        margin = self._quantiles * self._tested_errors
        ends = np.stack([self.tested - margin, self.tested + margin], axis=1)
        ends = np.clip(ends, self.lower[:, None], self.upper_bounds[:, None])
        for j, side in self._sides:
            step, error = self._step_inside(j)
            room = _upper_limit(side * step, error, self.confidence)
            room = min(room, self.upper_bounds[j] - self.lower[j])
            ends[j] = np.sort([self.tested[j], self.tested[j] + side * room])
        # Limits are profiles at 95 %: valid for less; for more only the bound itself is.
        shut, less = np.isfinite(self.limits), self.limits < 0
        near = self.limits if self.confidence <= CONFIDENCE else np.where(less, np.inf, self.lower)
        ends[shut] = np.sort([near, np.where(less, -np.inf, np.inf)], axis=0).T[shut]
        if self.unrestricted is not None:  # wide enough for both fits
            ends = np.stack([ends.T[0].clip(max=self.estimates), ends.T[1].clip(self.estimates)], 1)
        return read_only(ends)

    @property
    def _freedom(self) -> np.ndarray:
        """[P] degrees of freedom of Student's law; infinite for the normal one."""
        if self.student is None or self.errors != "clustered":
            return np.full(len(self), np.inf)
        return self.student

    @property
    def _quantiles(self) -> np.ndarray:
        """[P] standard errors to either end of an interval."""
        return student_quantile(self._freedom, 0.5 + 0.5 * self.confidence)

    @cached_property
    def law(self) -> FittedLaw:
        """The law of all coefficients within their bounds, with the errors of tests."""
        held = {self.mover(j) for j, _ in self._sides if self.jacobian[j].any()}
        moving = self.free | np.isin(np.arange(len(self.free)), list(held))
        room, _ = self._room(moving)
        return self.law_of(moving & ~(room < -NEAR))  # so far beyond a bound it stays there

    def law_of(self, moving: np.ndarray) -> FittedLaw:
        """The same where only these of the fitted numbers, [n] bool, move."""
        room, upwards = self._room(moving)
        count = len(moving)
        spread, blind = self._tested_covariance(moving)
        flips = np.where(upwards, 1.0, -1.0)
        none = np.isnan(spread).any() or not count
        limited = np.flatnonzero(np.isfinite(self.limits))
        moved = np.asarray(np.abs(self.jacobian[:, moving]).max(axis=1, initial=0.0) > 0)
        near = np.isfinite(room) & (room < NEAR)
        sizes = np.sqrt(np.maximum(np.diagonal(spread), 0.0))
        return FittedLaw(
            point=self.tested,
            centre=self.tested + self.jacobian @ self._newton_step(moving),
            jacobian=self.jacobian * flips,
            information=self.information * np.outer(flips, flips),
            covariance=np.zeros((count, count)) if none else spread * np.outer(flips, flips),
            room=np.where(near, np.where(near, room, 0.0) * sizes, np.inf),
            lower=self.lower,
            upper=self.upper_bounds,
            blind=blind @ self.jacobian.T,
            limited=limited,
            limits=self.limits[limited],
            degrees=float(self._freedom[moved].min(initial=np.inf)),
            absence=self.reason or ("nothing is known of the errors" if none else ""),
        )

    def _room(self, moving: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[n] errors between where a number would be and its bound, and [n] whether it is lower.

        Negative beyond the bound; infinite where there is none.
        """
        count = len(moving)
        room, upwards = np.full(count, np.inf), np.ones(count, bool)
        spread, _ = self._tested_covariance(moving)
        centre = self.tested + self.jacobian @ self._newton_step(moving)
        for j in np.flatnonzero(np.abs(self.jacobian[:, moving]).max(axis=1, initial=0.0) > 0):
            at = self.mover(int(j))
            error = abs(self.jacobian[j, at]) * np.sqrt(max(spread[at, at], 0.0))
            if not (moving[at] and error > 0) or np.isfinite(self.limits[j]):
                continue
            for gap, up in (
                (centre[j] - self.lower[j], True),
                (self.upper_bounds[j] - centre[j], False),
            ):
                if gap / error < room[at]:
                    room[at] = gap / error
                    upwards[at] = up == (self.jacobian[j, at] > 0)
        return room, upwards

    def mover(self, j: int) -> int:
        """The number that moves a coefficient most: on a bound the only one that does."""
        return int(np.abs(self.jacobian[j]).argmax())

    def _newton_step(self, moving: np.ndarray) -> np.ndarray:
        """[n] from the fit to where the likelihood is largest among the moving numbers."""
        if self.reason or np.isnan(self.information).any():
            return np.zeros(len(moving))
        inverse, _ = inverse_information(self.information, moving)
        return -inverse @ np.where(moving, self.gradient, 0.0)

    def _tested_covariance(self, moving: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[n, n] covariance of tests, and [B, n] blind: no sandwich knows more than likelihood."""
        spread, blind = self._fitted_covariance(moving)
        if self.errors != "sandwich" or self.reason:
            return spread, blind
        plain, _ = replace(self, errors="fisher", weighted=False)._fitted_covariance(moving)
        own = np.ix_(moving, moving)
        spread[own] = at_least(plain[own], spread[own])
        return spread, blind

    @property
    def fixed(self) -> np.ndarray:
        """[P] bool, the coefficients that were fixed beforehand or left out with a constraint."""
        gone = np.zeros(len(self), bool)
        if self.unrestricted is not None:
            gone = (self.estimates == 0.0) & (self.unrestricted != 0.0)
        return gone | ~self.jacobian.any(axis=1)

    def form_covariance(self, rows: np.ndarray) -> tuple[np.ndarray, str]:
        """[q, q] of forms [q, P] of the coefficients; and why it is not known, if it is not."""
        involved = rows.any(axis=0)
        law = self.law if (involved & self.held).any() else self.law_of(self.free)
        if law.absence:
            return np.full((len(rows),) * 2, np.nan), law.absence
        if (shut := involved & np.isfinite(self.limits)).any():
            name = self.names[int(shut.argmax())]
            return np.full((len(rows),) * 2, np.nan), f"{name} has a limit on one side alone"
        if (np.abs(law.blind @ rows.T) > MOVED).any():
            return np.full((len(rows),) * 2, np.nan), "the demonstrations leave it open"
        moves = rows @ law.jacobian
        return moves @ law.covariance @ moves.T, ""

    @property
    def z(self) -> np.ndarray:
        """[P] estimates, with every constraint as the tests are, over their standard errors.

        Over those of the likelihood itself where a sandwich has smaller ones.
        """
        errors = np.where(self._tested_errors == 0.0, np.nan, self._tested_errors)  # given
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.tested / errors

    @cached_property
    def p_values(self) -> np.ndarray:
        """[P] of "the coefficient is 0": two-sided Wald tests, one-sided score tests on a bound.

        NaN where nothing tells: of one that was fixed, or is on a bound that is not 0.
        """
        found = 2.0 * student_tails(self._freedom, np.abs(self.z))
        for j, side in self._sides:
            step, error = self._step_inside(j, hold=True)
            is_tested = np.isfinite(error) and self.tested[j] == 0.0
            found[j] = normal_tail(side * step / error) if is_tested else np.nan
        found[np.isin(self.standard_errors, (0.0, np.inf))] = np.nan  # given, or unknown
        return read_only(found)

    def ratio(self, numerator: int | str, denominator: int | str) -> Ratio:
        """The `Ratio` of two coefficients, each by number or name; free of the noise's scale."""
        i, j = self._number(numerator), self._number(denominator)
        top, bottom = self.tested[[i, j]].tolist()
        with np.errstate(divide="ignore", invalid="ignore"):
            estimate = float(np.divide(self.estimates[i], self.estimates[j]))
        positive = bool(self.lower[i] >= 0 and self.lower[j] >= 0)
        alike = positive or bool(self.upper_bounds[i] <= 0 and self.upper_bounds[j] <= 0)
        floor = 0.0 if alike else -np.inf
        if np.isnan([top, bottom]).any():
            return Ratio(np.nan, np.nan, (np.nan, np.nan))
        if not np.isfinite(self.standard_errors[[i, j]]).all() or bottom == 0.0:
            return Ratio(estimate, np.nan, self._quotient(i, j) if positive else (floor, np.inf))
        (a, c), (_, b) = self.covariance[np.ix_([i, j], [i, j])]
        error = np.sqrt(max(a - 2.0 * estimate * c + estimate**2 * b, 0.0)) / abs(bottom)
        squared = float(self._quantiles[[i, j]].max()) ** 2
        # Fieller: all r with (top - r bottom)^2 <= squared * variance of (top - r bottom).
        lead, rest = bottom**2 - squared * b, top**2 - squared * a
        middle = top * bottom - squared * c
        spread = middle**2 - lead * rest
        ends = (-np.inf, np.inf)
        if lead > 0:
            root = np.sqrt(max(spread, 0.0))
            ends = (middle - root) / lead, (middle + root) / lead
        elif positive and lead < 0 < rest:  # all but a stretch around 0
            ends = (middle - np.sqrt(spread)) / lead, np.inf
        return Ratio(estimate, float(error), (float(max(ends[0], floor)), float(ends[1])))

    def mapped(self, rows: np.ndarray, *, names: Iterable[str], lower: np.ndarray) -> Parameters:
        """The `Parameters` of linear forms of these: rows [Q, P] . coefficients.

        Args:
            rows: [Q, P]; one that is a multiple of a single coefficient keeps its limit.
            names: [Q].
            lower: [Q] smallest values allowed.
        """
        factors, at = rows.max(axis=1, initial=0.0), rows.argmax(axis=1)
        same = (np.count_nonzero(rows, axis=1) == 1) & (factors > 0.0)
        return replace(
            self,
            names=tuple(names),
            estimates=rows @ self.estimates,
            unrestricted=None if self.unrestricted is None else rows @ self.unrestricted,
            jacobian=rows @ self.jacobian,
            lower=lower,
            upper=None,
            limits=np.where(same, factors * self.limits[at], np.nan),
            student=None
            if self.student is None
            else np.where(rows != 0.0, self.student, np.inf).min(axis=1, initial=np.inf),
        )

    def given(self, j: int) -> Parameters:
        """The same, the number j of those fitted known beforehand: it has no error at all."""
        others = np.arange(len(self.free)) != j
        inner = np.ix_(others, others)
        return replace(
            self,
            jacobian=self.jacobian[:, others],
            information=self.information[inner],
            outer=self.outer[inner],
            scatter=self.scatter[inner],
            dynamics=None if self.dynamics is None else self.dynamics[inner],
            prior=None if self.prior is None else self.prior[inner],
            gradient=self.gradient[others],
            free=self.free[others],
        )

    def frame(self, *, pandas: bool = False) -> polars.DataFrame | Any:
        """One row a coefficient: name, estimate, standard error, z, p-value, interval."""
        columns = (self.estimates, self.standard_errors, self.z, self.p_values, *self.intervals.T)
        names = ("estimate", "standard_error", "z", "p_value", "lower", "upper")
        numbers = dict(zip(names, columns, strict=True))
        return frame_of({"name": list(self.names), **numbers}, pandas=pandas)

    @property
    def _bound(self) -> np.ndarray:
        """[P] bool, the coefficients on their bound."""
        return np.asarray((self.estimates <= self.lower) | (self.estimates >= self.upper_bounds))

    @property
    def tested(self) -> np.ndarray:
        """[P] estimates with every constraint, which tests and intervals are about."""
        return self.estimates if self.unrestricted is None else self.unrestricted

    @property
    def upper_bounds(self) -> np.ndarray:
        """[P] largest values allowed; infinite where there is none."""
        return np.full(len(self), np.inf) if self.upper is None else self.upper

    @property
    def held(self) -> np.ndarray:
        """[P] bool, the coefficients that are on a bound with every constraint."""
        return np.asarray((self.tested <= self.lower) | (self.tested >= self.upper_bounds))

    @property
    def _sides(self) -> list[tuple[int, float]]:
        """The coefficients on a bound, and on which side of it they may be."""
        sides = np.where(self.tested <= self.lower, 1.0, -1.0)
        return [(int(j), float(sides[j])) for j in np.flatnonzero(self.held)]

    def _number(self, which: int | str) -> int:
        if isinstance(which, str):
            if self.names.count(which) != 1:
                known = ", ".join(self.names[:8]) + (", ..." if len(self) > 8 else "")
                raise InvalidModel(f"no coefficient is named {which!r:.60}; the names are {known}")
            return self.names.index(which)
        if not -len(self) <= which < len(self):
            raise InvalidModel(f"there are {len(self)} coefficients; got number {which}")
        return which % len(self)

    def _fitted_covariance(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[n, n] covariance of the fitted numbers, the free ones moving, and [B, n] blind ones."""
        if self.reason or np.isnan(self.information).any():
            return np.full(self.information.shape, np.nan), np.zeros((0, len(self.free)))
        bread = self.outer if self.errors == "outer" else self.information
        inverse, blind = inverse_information(bread, free)
        scatter = bread
        if self.errors == "sandwich":
            scatter = self.outer
        if self.errors == "clustered":
            many, known = float(self.trajectories), 0.0 if self.prior is None else self.prior
            # Trajectories scatter no less than their steps: that they seem to is chance.
            units = at_least(self.information - known, self.scatter * (many / (many - 1.0)))
            scatter = units + known
        if self.dynamics is not None:
            scatter = self.attenuation**2 * scatter + self.dynamics
        return inverse if scatter is bread else inverse @ scatter @ inverse, blind

    def _step_inside(self, j: int, *, hold: bool = False) -> tuple[float, float]:
        """One Newton step of a coefficient off its bound, all free ones adapting, and its error.

        `hold` keeps the others that are on a bound there: an interval grants that they may leave
        it, a test that the likelihood would have this one at 0 does not. Infinite error where the
        demonstrations say nothing about it, NaN where no error is known.
        """
        row = self.jacobian[j]
        if not row.any():
            return 0.0, np.nan if self.reason else np.inf
        at = int(np.abs(row).argmax())  # on a bound only one of the fitted numbers moves it
        moving = self.free.copy()
        if hold:
            moving[np.abs(self.jacobian[self.held]).argmax(axis=1)] = False
        moving[at] = True
        spread, blind = self._fitted_covariance(moving)
        if np.isnan(spread).any():
            return np.nan, np.nan
        if np.abs(blind[:, at]).max(initial=0.0) > MOVED:
            return 0.0, np.inf
        inverse, _ = inverse_information(self.information, moving)
        # Others on a bound may move too: their slopes are not 0 and shift this one.
        step = -row[at] * (inverse[at] @ np.where(moving, self.gradient, 0.0))
        return float(step), float(abs(row[at]) * np.sqrt(spread[at, at]))

    def _quotient(self, i: int, j: int) -> tuple[float, float]:
        """The interval of a ratio of two that are not negative, from the intervals of both."""
        both = self.at(0.5 + 0.5 * self.confidence).intervals  # each may miss half as often
        if np.isnan(both[[i, j]]).any():
            return np.nan, np.nan
        low = both[i, 0] / both[j, 1] if both[j, 1] > 0 else 0.0
        return float(low), float(both[i, 1] / both[j, 0]) if both[j, 0] > 0 else np.inf


def together(parts: Sequence[Parameters], kind: str) -> Parameters:
    """The `Parameters` of several parts that were fitted as one, part after part.

    Args:
        parts: of the parts, functions of the same fitted numbers.
        kind: what a part is called, such as "task".
    """
    first, many = parts[0], any(one.unrestricted is not None for one in parts)
    bounded = any(one.upper is not None for one in parts)
    return replace(
        first,
        names=tuple(f"{name} ({kind} {e})" for e, one in enumerate(parts) for name in one.names),
        upper=np.concatenate([one.upper_bounds for one in parts]) if bounded else None,
        unrestricted=np.concatenate([one.tested for one in parts]) if many else None,
        **{
            name: np.concatenate([getattr(one, name) for one in parts])
            for name in ("estimates", "jacobian", "lower", "limits")
        },
        student=None if first.student is None else np.concatenate([one._freedom for one in parts]),
    )


def _upper_limit(step: float, error: float, confidence: float) -> float:
    """How far above its bound a coefficient may be, if one step off the bound is `step`.

    The loss is a parabola with its minimum at `step`; the limit is where it has risen from its
    smallest value above the bound by half the squared quantile of the confidence.
    """
    if not np.isfinite(error):
        return error
    return step + float(np.hypot(min(step, 0.0), normal_quantile(confidence) * error))
