"""Fits in columns, as papers print them: coefficients, their errors, and criteria."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.estimators.mixture import MixtureRecovery
from tacit.files.wording import listed
from tacit.recovery import Saved
from tacit.show.tables import MISSING, Head, Table

if TYPE_CHECKING:
    from tacit.inference.parameters import Parameters
    from tacit.show.several import AnyRecovery

# p-values below which a coefficient has so many stars and one more.
STARS = (0.05, 0.01, 0.001)
# Digits after the point beyond which a number has a power of ten.
MOST_DIGITS = 6
LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "²": "$^2$", MISSING: "--",
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class FitTable:
    """Several fits in columns.

    Attributes:
        names: [F] of the fits.
        fits: [F] their coefficients.
        statistics: name -> [F] what each fit is worth, as text.
        stars: whether p-values below 0.05, 0.01 and 0.001 are marked.
        notes: how to read it.
    """

    names: tuple[str, ...]
    fits: tuple[Parameters, ...]
    statistics: Mapping[str, Sequence[str]]
    stars: bool
    notes: tuple[str, ...]

    @cached_property
    def coefficients(self) -> tuple[str, ...]:
        """[P] names of the coefficients of any fit, in the order of the first that has them."""
        return tuple(dict.fromkeys(name for fit in self.fits for name in fit.names))

    @cached_property
    def table(self) -> Table:
        """The table: a row for each coefficient, then one for each statistic."""
        shown = [_cells(fit, stars=self.stars) for fit in self.fits]
        rows = {name: [own.get(name) for own in shown] for name in self.coefficients}
        rows |= {name: list(values) for name, values in self.statistics.items()}
        pairs = zip(self.names, zip(*rows.values(), strict=True), strict=True)
        columns = [("", list(rows)), *((Head(name), list(cells)) for name, cells in pairs)]
        return Table.of("Fits side by side", columns, " ".join(self.notes))

    def frame(self, *, pandas: bool = False) -> Any:
        """One row a fit and coefficient: estimate, standard error, p-value and interval."""
        import polars

        each = [
            one.frame().select(polars.lit(name).alias("fit"), polars.all())
            for name, one in zip(self.names, self.fits, strict=True)
        ]
        found = polars.concat(each)
        return found.to_pandas() if pandas else found

    def markdown(self) -> str:
        """The table in Markdown."""
        heads, rows = self._texts
        cut = len(self.coefficients)
        clean = [[cell.replace("|", r"\|").replace("*", r"\*") for cell in row] for row in rows]
        clean[cut:] = [[f"*{row[0]}*", *row[1:]] for row in clean[cut:]]
        lines = [heads, ["---", *["---:"] * len(self.names)], *clean]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        notes = " ".join(self.notes).replace("*", r"\*")
        return f"{table}\n\n{notes}\n".replace("< 0.", r"\< 0.")

    def latex(self) -> str:
        """The table for LaTeX; it needs the package booktabs."""
        heads, rows = self._texts
        lines = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in [heads, *rows]]
        cut = 1 + len(self.coefficients)
        return "\n".join(
            [
                rf"\begin{{tabular}}{{l{'r' * len(self.names)}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:cut],
                r"\midrule",
                *lines[cut:],
                r"\bottomrule",
                r"\end{tabular}",
                *(rf"\par\smallskip {_latex(note)}" for note in self.notes),
                "",
            ]
        )

    def html(self) -> str:
        """The table as a fragment of HTML, as a notebook shows it."""
        from tacit.show.html import template

        most = len(self.table.rows)
        return template("notebook.html").render(blocks=[self.table], most=most)

    @property
    def _texts(self) -> tuple[list[str], list[list[str]]]:
        """The heads, and the cells of every row, as text."""
        heads = [head.name for head in self.table.columns]
        rows = [[str(cell or MISSING) for cell in row.cells] for row in self.table.rows]
        return heads, rows

    def __repr__(self) -> str:
        return self.table.text(most=len(self.table.rows))

    def _repr_html_(self) -> str:
        return self.html()


def side_by_side(
    *recoveries: AnyRecovery | Mapping[str, AnyRecovery], stars: bool = False
) -> FitTable:
    """The fits in columns: coefficients with errors, likelihoods, criteria and tests of fit.

    `tacit.side_by_side(plain, richer).markdown()` is a table for a paper; `.latex()` and `.html()`
    give the same, `.frame()` its numbers. Types and tasks have their coefficients one after
    another.

    Args:
        *recoveries: the fits, called (1), (2) and so on; or one mapping, name -> fit.
        stars: mark p-values below 0.05, 0.01 and 0.001.
    """
    named: dict[str, Any] = {}
    for number, one in enumerate(recoveries, 1):
        named |= dict(one) if isinstance(one, Mapping) else {f"({number})": one}
    for one in named.values():
        if not isinstance(one, Saved):
            raise InvalidModel(f"side_by_side takes recoveries; got {type(one).__name__}")
    if not named:
        raise InvalidModel("side_by_side takes at least one recovery; got none")
    fits = tuple(one.parameters for one in named.values())
    each = [_statistics(one) for one in named.values()]
    statistics = {name: [own[name] for own in each] for name in each[0]}
    return FitTable(
        names=tuple(named),
        fits=fits,
        statistics={n: row for n, row in statistics.items() if {*row} != {MISSING}},
        stars=stars,
        notes=_notes(named, stars=stars),
    )


def _cells(fit: Parameters, *, stars: bool) -> dict[str, str]:
    """Name -> an estimate with its error in brackets, or why it has none."""
    left_out = (fit.estimates == 0.0) & (fit.tested != 0.0)
    columns = (fit.estimates, fit.standard_errors, fit.p_values, left_out, fit.held)
    cells = {}
    for name, *row in zip(fit.names, *(one.tolist() for one in columns), strict=True):
        value, error, p_value, is_out, is_held = row
        if math.isnan(value):
            continue
        why = "left out" if is_out else "on its bound" if is_held else ""
        why = "fixed" if error == 0.0 else "open" if math.isinf(error) else why
        text = f"{value:.4g} ({why})" if why else _with_error(value, error)
        marks = "*" * sum(p_value < level for level in STARS) if stars and not is_out else ""
        cells[name] = text + marks
    return cells


def _with_error(value: float, error: float) -> str:
    """An estimate to the digits that its error leaves it, and the error to two."""
    if not error > 0:
        return f"{value:.4g}"
    digits = 1 - math.floor(math.log10(error))
    if not 0 <= digits <= MOST_DIGITS:
        return f"{value:.4g} ({error:.2g})"
    return f"{value:.{digits}f} ({error:.{digits}f})"


def _statistics(one: Any) -> dict[str, str]:
    """What a fit is worth; a dash where it has no such number."""
    likely = math.isfinite(one.log_likelihood)
    tested = None if isinstance(one, MixtureRecovery) else one.goodness
    known = tested is not None and not math.isnan(tested.p_value)
    parameters = one.parameters
    seen = parameters.trajectories
    return {
        "log-likelihood": f"{one.log_likelihood:.2f}" if likely else MISSING,
        "coefficients": f"{one.degrees:.4g}" if likely else MISSING,
        "AIC": f"{one.aic:.1f}" if likely else MISSING,
        "BIC": f"{one.bic:.1f}" if likely else MISSING,
        "rho squared": f"{1 - one.log_likelihood / one.null_log_likelihood:.4f}"
        if likely and one.null_log_likelihood
        else MISSING,
        "steps": f"{one.observed_steps:.0f}" if one.observed_steps else MISSING,
        "independent units": str(seen) if seen else MISSING,
        "p-value of fit": _chance(tested.p_value) if tested is not None and known else MISSING,
        "fit": MISSING if tested is None else tested.verdict,
        "standard errors": MISSING if parameters.reason else parameters.errors,
        "status": one.status.name.lower().replace("_", " "),
    }


def _chance(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _notes(named: Mapping[str, Any], *, stars: bool) -> tuple[str, ...]:
    """How to read it, and what cannot be compared."""
    notes = ["Coefficients are in units of the demonstrator's noise, standard errors in brackets."]
    if stars:
        marks = [f"{'*' * k} p < {level:g}" for k, level in enumerate(STARS, 1)]
        notes.append(f"{', '.join(marks)}.")
    noiseless = [
        name for name, one in named.items() if not np.isfinite(one.parameters.estimates).any()
    ]
    if noiseless:
        notes.append(f"No noise is assumed, so there are no coefficients: {listed(noiseless)}.")
    likely = [one for one in named.values() if math.isfinite(one.log_likelihood)]
    seen = {(one.observed_steps, round(float(one.null_log_likelihood), 3)) for one in likely}
    if len(seen) > 1:
        notes.append(
            "The fits are to different steps: log-likelihoods, AIC and BIC cannot be compared."
        )
    if any((one.parameters.tested != one.parameters.estimates).any() for one in likely):
        notes.append("Left out: not shown to be active; errors are those of the fit with all.")
    return tuple(notes)


def _latex(text: str) -> str:
    """The text with what LaTeX reads as a command escaped, and its minus signs as such."""
    escaped = re.sub(r"\*+", r"$^{\g<0>}$", text.translate(LATEX).replace("<", "$<$"))
    return re.sub(r"(?<![\w$])-(\d[\d.]*)", r"$-\1$", escaped)
