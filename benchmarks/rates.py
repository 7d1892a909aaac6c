"""Whether rates are what was promised, judged so that chance does not decide.

A bound such as ">= .93 in each of 15 cells with 400 draws" fails with chance .37 for intervals that
are exactly right. Here a rate fails only where it is on the wrong side of its target by more than
chance explains:

- significantly in a cell: exact binomial test, Holm over all cells, 1 % in all; or
- in the mean over the cells, by more than .01 and by more than its Monte Carlo error.

Intervals are to hold the truth in .95 of draws, tests are to err in .05. The other side, intervals
that hold more often and tests that err less often, is reported and does not fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc

from tacit.inference.tails import holm

LEVEL = 0.01  # chance that rates which are exactly right fail in some cell
TOLERANCE = 0.01  # of the mean over the cells


@dataclass(frozen=True)
class Rate:
    """How often something happened in one cell.

    Attributes:
        cell: the name of the cell.
        count: draws in which it happened.
        draws: of the cell, independent of each other.
        source: cells of one source have draws in common, so that they err together.
    """

    cell: str
    count: int
    draws: int
    source: str

    @property
    def share(self) -> float:
        return self.count / self.draws


@dataclass(frozen=True)
class Verdict:
    """Rates of many cells against one target.

    Attributes:
        target: nominal rate.
        side: "at least" or "at most" the target.
        cells: number of cells.
        draws: of all cells.
        mean: mean rate over the cells.
        error: Monte Carlo standard error of the mean.
        worst: the cell furthest on the wrong side.
        worst_share: its rate.
        worst_draws: its draws.
        worst_p_value: its p-value, adjusted for the number of cells.
        failed: cells significantly on the wrong side.
        beyond: cells significantly on the other side, which is no failure.
        reached: whether the target is.
    """

    target: float
    side: str
    cells: int
    draws: int
    mean: float
    error: float
    worst: str
    worst_share: float
    worst_draws: int
    worst_p_value: float
    failed: tuple[str, ...]
    beyond: tuple[str, ...]
    reached: bool

    def __str__(self) -> str:
        line = (
            f"{'reached' if self.reached else 'NOT REACHED'}, {self.side} {self.target:g}: "
            f"mean {self.mean:.4f} (Monte Carlo error {self.error:.4f}) over {self.cells} cells "
            f"with {self.draws} draws; worst {self.worst_share:.4f} of {self.worst_draws} draws "
            f"in {self.worst} (p {self.worst_p_value:.2g} over all cells)"
        )
        line += f"; significantly wrong: {', '.join(self.failed)}" if self.failed else ""
        return line + (f"; more than nominal: {', '.join(self.beyond)}" if self.beyond else "")


def rates_of(source: str, happened: np.ndarray, names: Sequence[str] = ()) -> list[Rate]:
    """One rate a column of what happened [draws] or [draws, J], NaN where it was not measured."""
    table = np.asarray(happened, float).reshape(len(happened), -1)
    known = np.isfinite(table)
    columns = names or [str(j) for j in range(table.shape[1])]
    cells = [source] if table.shape[1] == 1 and not names else [f"{source}: {c}" for c in columns]
    counts = np.where(known, table, 0.0).sum(axis=0)
    return [
        Rate(cell, int(count), int(draws), source)
        for cell, count, draws in zip(cells, counts, known.sum(axis=0), strict=True)
    ]


def coverage_verdict(rates: Iterable[Rate], target: float = 0.95) -> Verdict:
    """Verdict on intervals, which hold the truth in at least the target's share of draws."""
    return verdict(rates, target, "at least")


def size_verdict(rates: Iterable[Rate], target: float = 0.05) -> Verdict:
    """Verdict on tests, which err in at most the target's share of draws."""
    return verdict(rates, target, "at most")


def verdict(rates: Iterable[Rate], target: float, side: str) -> Verdict:
    """Verdict on rates that are promised to be at least, or at most, a target."""
    cells = [rate for rate in rates if rate.draws]
    if not cells:
        raise ValueError("rates must have draws in at least one cell; got none")
    counts, draws = (np.array([getattr(r, name) for r in cells]) for name in ("count", "draws"))
    below, above = tail(counts, draws, target), tail(draws - counts, draws, 1.0 - target)
    wrong, other = (below, above) if side == "at least" else (above, below)
    adjusted = holm(wrong.tolist())
    worst = int(np.argmin(wrong))
    mean, error = float(np.mean(counts / draws)), mean_error(cells, target)
    return Verdict(
        target=target,
        side=side,
        cells=len(cells),
        draws=int(draws.sum()),
        mean=mean,
        error=error,
        worst=cells[worst].cell,
        worst_share=cells[worst].share,
        worst_draws=cells[worst].draws,
        worst_p_value=float(adjusted[worst]),
        failed=tuple(cells[k].cell for k in np.flatnonzero(adjusted <= LEVEL)),
        beyond=tuple(cells[k].cell for k in np.flatnonzero(holm(other.tolist()) <= LEVEL)),
        reached=bool((adjusted > LEVEL).all() and not mean_is_off(mean, error, target, side)),
    )


def tail(counts: np.ndarray, draws: np.ndarray, target: float) -> np.ndarray:
    """P(binomial <= count), also between whole numbers."""
    whole = counts >= draws
    inside = np.where(whole, 0.0, counts)
    return np.where(whole, 1.0, betainc(draws - inside, inside + 1.0, 1.0 - target))


def mean_error(cells: Sequence[Rate], target: float) -> float:
    """Standard error of the mean over cells whose rate is the target.

    Cells of one source have the same draws: they count as if they always erred together.
    """
    errors: dict[str, float] = {}
    for cell in cells:
        own = float(np.sqrt(target * (1.0 - target) / cell.draws))
        errors[cell.source] = errors.get(cell.source, 0.0) + own
    return float(np.linalg.norm(list(errors.values()))) / len(cells)


def mean_is_off(mean: float, error: float, target: float, side: str) -> bool:
    """Whether the mean is on the wrong side by more than the tolerance and more than chance.

    Chance is that of as many draws as would have this error, at 1 % for both sides together.
    """
    if side == "at most":
        mean, target = 1.0 - mean, 1.0 - target
    if mean >= target - TOLERANCE - 1e-12:  # rounding of a mean
        return False
    draws = target * (1.0 - target) / error**2
    return bool(tail(np.array(mean * draws), np.array(draws), target) <= LEVEL / 2)
