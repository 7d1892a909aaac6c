"""Columns of a formula's terms: what transforms learn from rows, and what they make of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np

from tacit.errors import InvalidModel, optional
from tacit.files.wording import did_you_mean, natural_order, some
from tacit.model.features.curves import CurveTerm, Spline, Surface, basis_from_stored
from tacit.model.features.notation import (
    BASES,
    CURVES,
    Arithmetic,
    Call,
    Column,
    Node,
    Number,
    Term,
)

# What a transform has learned, in plain numbers, texts, lists and dictionaries.
Learned = dict[str, Any]
# Numbers and factors with levels that are multiplied: what a product of columns spans.
Span = tuple[frozenset[Node], frozenset[Node]]
MISSING = "missing"  # level of rows in which a factor's column is missing
MOST_LEVELS, MOST_COLUMNS = 200, 10_000
ARITHMETIC = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power,
}  # fmt: skip
FUNCTIONS = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt}


@dataclass(frozen=True, eq=False)
class Factor:
    """The columns that a factor of a term makes.

    Attributes:
        values: [n, p].
        labels: p names.
        base: which of the columns stands for the base level; None where it has no levels.
        curves: the curves among them, with their values [n, m].
    """

    values: np.ndarray
    labels: tuple[str, ...]
    base: int | None = None
    curves: tuple[CurveTerm, ...] = ()

    def coded(self, *, is_full: bool) -> Factor:
        """The same, or without the column of the base level."""
        kept = [j for j in range(len(self.labels)) if is_full or j != self.base]
        labels = tuple(self.labels[j] for j in kept)
        return Factor(self.values[:, kept], labels, curves=self.curves)


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns by name, and what the transforms of formulas know of them.

    Attributes:
        columns: [n] numbers, NaN where one is missing, or [n] texts.
        learned: by the text of a factor; filled in by `block` where `learning`.
        learning: whether a transform may learn from these rows.
    """

    columns: Mapping[str, np.ndarray]
    learned: dict[str, Learned]
    learning: bool = False
    _factors: dict[Node, Factor] = field(default_factory=dict)

    def block(self, terms: Sequence[Term]) -> Factor:
        """The columns of all terms side by side, those of few factors first.

        Together they are as many as what they span. A constant, which moves no choice, is taken to
        be there: a factor with levels alone has a column for each but its base.
        """
        spanned: set[Span] = {(frozenset(), frozenset())}
        count = len(next(iter(self.columns.values())))
        values, labels, curves = [np.empty((count, 0))], list[str](), list[CurveTerm]()
        for term in sorted(terms, key=len):
            if not term:
                values.append(np.ones((count, 1)))
                labels.append("1")
            for full in self._codings(term, spanned):
                table, names, coded = np.ones((count, 1)), [""], dict[Node, Factor]()
                for node in term:
                    if node in full:
                        one = coded[node] = self.factor(node).coded(is_full=full[node])
                        table = (table[:, :, None] * one.values[:, None]).reshape(count, -1)
                        names = [f"{a}:{b}" if a else b for a in names for b in one.labels]
                curves += _curves(coded, len(labels))
                values.append(table)
                labels += names
        return Factor(np.concatenate(values, axis=1), tuple(labels), curves=tuple(curves))

    def _codings(self, term: Term, spanned: set[Span]) -> list[dict[Node, bool]]:
        """Products that span what a term adds to `spanned`: their factors, and which are full.

        A full coding has a column for each level and spans the constant, too; a reduced one has
        none for the base level. The algorithm is that of patsy (N. J. Smith, "Redundancy and
        categorical factors"): a reduced coding of a factor takes in the product without it.
        """
        levels = [node for node in term if self.factor(node).base is not None]
        others = frozenset(term) - frozenset(levels)
        if not term:
            return []
        if (count := prod(len(self.factor(node).labels) for node in term)) > MOST_COLUMNS:
            raise InvalidModel(
                f"a term must have at most {MOST_COLUMNS} columns; {':'.join(map(str, term))} has "
                f"{count}"
            )
        subsets = [
            subset
            for size in range(len(levels) + 1)
            for subset in combinations(levels, size)
            if (others, frozenset(subset)) not in spanned
        ]
        spanned |= {(others, frozenset(subset)) for subset in subsets}
        codings = [dict.fromkeys(subset, False) for subset in subsets]
        pairs = [(short, long) for short in codings for long in codings]
        while found := next((pair for pair in pairs if _absorbed(*pair)), None):
            short, long = found
            codings[codings.index(long)] = long | dict.fromkeys(_absorbed(short, long), True)
            codings.remove(short)
            pairs = [(short, long) for short in codings for long in codings]
        return [dict.fromkeys(others, True) | coding for coding in codings]

    def with_columns(self, columns: Mapping[str, np.ndarray]) -> Rows:
        """The same with other values of some columns; factors without them are kept."""
        kept = {
            node: factor for node, factor in self._factors.items() if not used(node) & {*columns}
        }
        return Rows({**self.columns, **columns}, self.learned, self.learning, kept)

    def factor(self, node: Node) -> Factor:
        """The columns of a factor."""
        if node not in self._factors:
            self._factors[node] = made = self._made(node)
            odd = ~np.isfinite(made.values)
            if odd.any():
                row, column = np.argwhere(odd)[0].tolist()
                raise InvalidModel(
                    f"{made.labels[column]} must be finite; row {row} is {made.values[row, column]}"
                )
        return self._factors[node]

    def _made(self, node: Node) -> Factor:
        called = node.transform if isinstance(node, Call) else ""
        if isinstance(node, Column) and self._column(node).dtype.kind == "U":
            return self._levels(node, node, "")
        if isinstance(node, Call) and isinstance(node.argument, Column) and called == "C":
            return self._levels(node, node.argument, str(dict(node.options).get("base", "")))
        if isinstance(node, Call) and called in CURVES:
            return self._curve(node)
        if isinstance(node, Call) and called in BASES:
            return self._basis(node)
        label = node.name if isinstance(node, Column) else str(node)
        return Factor(self._numbers(node)[:, None], (label,))

    def _column(self, node: Column) -> np.ndarray:
        if node.name not in self.columns:
            raise unknown_column(node.name, [*self.columns])
        return self.columns[node.name]

    def _numbers(self, node: Node) -> np.ndarray:
        """[n] one number a row."""
        if isinstance(node, Number):
            return np.full(len(next(iter(self.columns.values()))), node.value)
        if isinstance(node, Column):
            return self._filled(node)
        if isinstance(node, Call) and node.transform == "missing":
            return self._lost(node.argument).astype(np.float64)
        with np.errstate(all="ignore"):  # what is not finite is refused where it matters
            if isinstance(node, Arithmetic):
                return ARITHMETIC[node.sign](self._numbers(node.left), self._numbers(node.right))
            values = self._numbers(node.argument)
            if node.transform in FUNCTIONS:
                return FUNCTIONS[node.transform](values)
        if self.learning and str(node) not in self.learned:
            self._refuse_constant(node, values)
            spread = float(np.std(values, ddof=1)) if node.transform == "scale" else 1.0
            self.learned[str(node)] = {"center": float(np.mean(values)), "scale": spread}
        known = self.learned[str(node)]
        return (values - known["center"]) / known["scale"]

    def _filled(self, node: Column) -> np.ndarray:
        """[n] the numbers of a column, the median where one is missing."""
        values = self._column(node)
        if values.dtype.kind == "U":
            raise InvalidModel(f"{node} holds names, not numbers: write C({node})")
        lost = np.isnan(values)
        if self.learning and str(node) not in self.learned:
            if lost.all():
                raise InvalidModel(f"{node} must be known in some row; it is missing in all")
            self.learned[str(node)] = {"median": float(np.nanmedian(values))}
        return np.where(lost, self.learned[str(node)]["median"], values)

    def _lost(self, node: Node) -> np.ndarray:
        """[n] bool, where a column is missing."""
        assert isinstance(node, Column)
        values = self._column(node)
        return values == "" if values.dtype.kind == "U" else np.isnan(values)

    def _levels(self, node: Node, column: Column, base: str) -> Factor:
        """A column of 0 and 1 for each level; `InvalidModel` for one that was not learned."""
        values, lost = self._column(column), self._lost(column)
        distinct, which = np.unique(values[~lost], return_inverse=True)
        names = [level_name(value) for value in distinct.tolist()]
        if self.learning and str(node) not in self.learned:
            in_order = names if values.dtype.kind == "f" else [*natural_order(names)]
            levels = [*in_order, *([MISSING] if lost.any() else [])]
            if not 2 <= len(levels) <= MOST_LEVELS or base not in ("", *levels):
                wanted = f"levels, 2 to {MOST_LEVELS} of them and the base one of these"
                raise InvalidModel(
                    f"{node} must have {wanted}; there are {len(levels)}: {some(levels)}"
                )
            usual = names[int(np.bincount(which).argmax())]
            self.learned[str(node)] = {
                "levels": levels, "base": base or levels[0], "usual": usual
            }  # fmt: skip
        known = self.learned[str(node)]
        levels = known["levels"]
        strange = next((name for name in names if name not in levels), None)
        if strange is not None:
            raise InvalidModel(f"{node} has the levels {some(levels)}; got {strange!r}")
        codes = np.full(len(values), levels.index(MISSING if MISSING in levels else known["usual"]))
        codes[~lost] = np.array([levels.index(name) for name in names], int)[which]
        labels = tuple(f"{column}[{level}]" for level in levels)
        return Factor(np.eye(len(levels))[codes], labels, levels.index(known["base"]))

    def _basis(self, node: Call) -> Factor:
        """The columns that formulaic makes of a basis, from what was learned."""
        transforms = optional(
            "formulaic.transforms", f"{node.transform} needs formulaic", "formulas"
        ).TRANSFORMS
        values = self._numbers(node.argument)
        is_new = self.learning and str(node) not in self.learned
        if is_new:
            self._refuse_constant(node, values)
        options = {
            name: float(value) if name.endswith("bound") else _whole(node, name, value)
            for name, value in node.options
        }
        known = {} if is_new else _thawed(self.learned[str(node)])
        options |= {"extrapolation": "clip"} if node.transform == "bs" else {}
        options |= {"constraints": "center"} if node.transform in ("cr", "cc") else {}
        try:
            made = transforms[node.transform](values, **options, _state=known)
        except ValueError as error:
            raise InvalidModel(f"{node} cannot be made: {' '.join(str(error).split())}") from None
        if is_new:
            self.learned[str(node)] = _plain(known)
        made = getattr(made, "__wrapped__", made)
        columns = [*made.values()] if isinstance(made, Mapping) else [*np.asarray(made).T]
        labels = tuple(f"{node}[{j + 1}]" for j in range(len(columns)))
        return Factor(np.stack(columns, axis=1), labels)

    def _curve(self, node: Call) -> Factor:
        """The columns of a curve or a surface, from what was learned."""
        values = np.stack([self._numbers(one) for one in node.arguments], axis=1)
        if self.learning and str(node) not in self.learned:
            options = dict(node.options)
            splines = _whole(node, "k", options["k"]) if "k" in options else None
            if len(node.arguments) > 1:
                made = Surface.of(values, splines=splines, what=str(node))
            else:
                shape, period = str(options.get("shape", "")), options.get("cyclic")
                about = {"period": period, "shape": shape, "what": str(node)}
                made = Spline.of(values[:, 0], splines=splines, **about)
            self.learned[str(node)] = made.stored()
        basis = basis_from_stored(self.learned[str(node)])
        labels = tuple(f"{node}[{j + 1}]" for j in range(basis.size))
        curve = CurveTerm(
            name=str(node),
            variables=tuple(map(str, node.arguments)),
            columns=np.arange(basis.size),
            basis=basis,
            values=values,
        )
        return Factor(basis.columns(values), labels, curves=(curve,))

    def _refuse_constant(self, node: Call, values: np.ndarray) -> None:
        if np.ptp(values) == 0:
            raise InvalidModel(
                f"{node} must be of what varies; {node.argument} is {values[0]:g} in all rows"
            )


def _curves(coded: Mapping[Node, Factor], first: int) -> list[CurveTerm]:
    """The curves in a product of factors, one for each column of the others, from column `first`.

    A product of two curves is none, and is not smoothed.
    """
    own = [factor for factor in coded.values() if factor.curves]
    if len(own) != 1:
        return []
    (curve,) = own[0].curves
    others = [factor for factor in coded.values() if factor is not own[0]]
    sizes = [len(factor.labels) for factor in coded.values()]
    places = first + np.arange(np.prod(sizes)).reshape(sizes)
    places = np.moveaxis(places, [*coded.values()].index(own[0]), -1)
    found = []
    for which in product(*(range(len(factor.labels)) for factor in others)):
        names = [factor.labels[j] for factor, j in zip(others, which, strict=True)]
        sizes = [factor.values[:, j] for factor, j in zip(others, which, strict=True)]
        there = np.prod([np.ones(len(curve.values)), *sizes], axis=0) != 0
        values = np.where(there[:, None], curve.values, np.nan)
        name = ":".join([curve.name, *names])
        found.append(replace(curve, name=name, columns=places[which], values=values))
    return found


def _absorbed(short: dict[Node, bool], long: dict[Node, bool]) -> list[Node]:
    """The reduced factor of `long` that, coded in full, takes in all that `short` spans, if any."""
    more = [node for node in long if node not in short]
    same = all(node in long and long[node] == full for node, full in short.items())
    return more if same and len(more) == 1 else []


def unknown_column(name: str, names: Sequence[str]) -> InvalidModel:
    """The error that says that a formula names a column that is not there."""
    return InvalidModel(
        f"a formula must be of the columns {some(names)}; got {name!r}{did_you_mean(name, names)}"
    )


def used(node: Node) -> set[str]:
    """The names of the columns in a factor."""
    if isinstance(node, Column):
        return {node.name}
    if isinstance(node, Arithmetic):
        return used(node.left) | used(node.right)
    return set().union(*map(used, node.arguments)) if isinstance(node, Call) else set()


def known_levels(node: Node, levels: Sequence[str]) -> Learned:
    """What a factor knows whose levels are these, whatever rows there are."""
    options = dict(node.options) if isinstance(node, Call) else {}
    base = str(options.get("base", levels[0]))
    if len(levels) < 2 or base not in levels:
        raise InvalidModel(
            f"{node} must have at least two levels, the base one of them; there are {some(levels)}"
        )
    return {"levels": [*levels], "base": base, "usual": base}


def columns_of(blocks: Iterable[Sequence[Term]]) -> set[str]:
    """The names of all columns in these terms."""
    return {name for terms in blocks for term in terms for node in term for name in used(node)}


def level_name(value: float | str) -> str:
    """What a level is called: a whole number without a decimal part."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _whole(node: Call, name: str, value: float | str) -> int:
    if not isinstance(value, float) or value != int(value) or not 0 <= value <= MOST_LEVELS:
        raise InvalidModel(f"{node}: {name} must be a whole number up to {MOST_LEVELS}")
    return int(value)


def _plain(known: Any) -> Any:
    """What formulaic learned as numbers, lists and dictionaries by text."""
    if isinstance(known, Mapping):
        return {str(name): _plain(value) for name, value in known.items()}
    return known.tolist() if isinstance(known, np.ndarray | np.generic) else known


def _thawed(known: Learned) -> Learned:
    """What formulaic learned, as it held it."""
    held = dict(known)
    for name in ("alpha", "norms2"):
        if name in held:
            held[name] = {int(place): value for place, value in held[name].items()}
    if "constraints" in held:
        held["constraints"] = np.array(held["constraints"])
    return held
