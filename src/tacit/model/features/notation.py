"""Formulas in Wilkinson's notation as checked trees: a formula is data and is never run.

    formula := product (("+" | "-") product)*      terms, united or taken away
    product := crossed (("*" | "/") crossed)*      a * b is a + b + a:b, a / b is a + a:b
    crossed := power (":" power)*
    power   := part (("^" | "**") integer)?        (a + b)^2 is a + b + a:b
    part    := 0 | 1 | column | call | "(" formula ")"
    call    := transform "(" arithmetic ("," option)* ")"

Between the parentheses of a transform + - * / ** ^ are arithmetic. A surface te(x, y) is of two
arithmetics, and s(x, by=group) is s(x):group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.errors import InvalidModel
from tacit.files.wording import did_you_mean

# Transforms that give one number a row, and the names of their options in order.
NUMBERS: dict[str, tuple[str, ...]] = {
    "scale": (), "center": (), "log": (), "exp": (), "sqrt": (), "missing": (),
}  # fmt: skip
# Transforms that give several columns.
BASES = {
    "bs": ("df", "degree"),
    "cr": ("df",),
    "cc": ("df", "lower_bound", "upper_bound"),
    "poly": ("degree",),
}
# Curves and surfaces, whose strength of smoothing is estimated.
CURVES = {"s": ("k", "cyclic", "shape", "by"), "te": ("k",)}
OPTIONS = NUMBERS | BASES | CURVES | {"C": ("base",)}
TEXTS = ("base", "shape")  # options that are texts
ALLOWED = (
    "allowed are columns (any name between `backticks`), 0, 1, + - : * / ^ ( ), and "
    f"{', '.join(sorted(OPTIONS, key=str.casefold))}"
)
LONGEST = 10_000  # characters of a formula
DEEPEST = 50  # parentheses within each other
MOST_TERMS = 500
MOST_SIGNS = 100  # of arithmetic
HIGHEST = 10  # power of a sum

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<name>[^\W\d]\w*)"
    r"|`(?P<quoted>[^`]+)`|(?P<text>'[^']*'|\"[^\"]*\")|(?P<sign>\*\*|[-+*/:^(),=]))",
)


@dataclass(frozen=True)
class Column:
    """A column of the rows."""

    name: str

    def __str__(self) -> str:
        return self.name if self.name.isidentifier() else f"`{self.name}`"


@dataclass(frozen=True)
class Number:
    """A number in arithmetic."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True)
class Arithmetic:
    """Two numbers of a row made one by +, -, *, / or **."""

    sign: str
    left: Node
    right: Node

    def __str__(self) -> str:
        if self.sign == "-" and self.left == Number(0.0):
            product = isinstance(self.right, Arithmetic) and self.right.sign not in "+-"
            return f"(-{str(self.right)[1:-1]})" if product else f"(-{self.right})"
        return f"({self.left} {self.sign} {self.right})"


@dataclass(frozen=True)
class Call:
    """A transform of numbers of a row, with its options by name; a surface has a second one."""

    transform: str
    argument: Node
    options: tuple[tuple[str, float | str], ...] = ()
    second: Node | None = None

    @property
    def arguments(self) -> tuple[Node, ...]:
        """What is transformed, one or two."""
        return (self.argument,) if self.second is None else (self.argument, self.second)

    def __str__(self) -> str:
        inner = (str(one)[1:-1] if isinstance(one, Arithmetic) else str(one)
                 for one in self.arguments)  # fmt: skip
        shown = (f"{name}={value:g}" if isinstance(value, float) else f"{name}={value!r}"
                 for name, value in self.options)  # fmt: skip
        return f"{self.transform}({', '.join([*inner, *shown])})"


Node = Column | Number | Arithmetic | Call
Term = tuple[Node, ...]
"""Factors that are multiplied; none of them is the constant 1."""


def formula_of(names: Sequence[str]) -> str:
    """The formula of columns side by side.

    >>> formula_of(["sbp", "mean pressure"])
    'sbp + `mean pressure`'
    """
    return " + ".join(str(Column(name)) for name in names)


def terms_of(formula: str) -> tuple[Term, ...]:
    """The terms of a formula, in order; `InvalidModel` for all that is not in the notation."""
    if not isinstance(formula, str) or len(formula) > LONGEST:
        got = f"{len(formula)} characters" if isinstance(formula, str) else f"{formula!r:.60}"
        raise InvalidModel(f"a formula must be a text of at most {LONGEST} characters; got {got}")
    reader = _Reader(formula)
    terms = reader.formula()
    if reader.kind:
        raise reader.refusal(f"{reader.token!r} stands where nothing can")
    if not terms:
        raise reader.refusal("no term is left")
    return tuple(terms)


class _Reader:
    """The tokens of a formula, and where the reading stands."""

    def __init__(self, formula: str) -> None:
        self.text, self.depth, self.signs, self.place = formula, 0, 0, 0
        self.by: Node | None = None  # of the curve that was read last
        self.tokens, at = list[tuple[str, str]](), 0
        while formula[at:].strip():
            match = _TOKEN.match(formula, at)
            if match is None:
                rest = formula[at:].strip()
                raise self.refusal(f"got {rest[:20]!r}")
            self.tokens.append((str(match.lastgroup), str(match[str(match.lastgroup)])))
            at = match.end()

    @property
    def kind(self) -> str:
        """What the next token is; "" where there is none."""
        return self.tokens[self.place][0] if self.place < len(self.tokens) else ""

    @property
    def token(self) -> str:
        """The next token."""
        return self.tokens[self.place][1] if self.place < len(self.tokens) else ""

    def sign(self, *signs: str) -> str:
        """The next token, taken, where it is one of these signs; else ""."""
        if self.kind != "sign" or self.token not in signs:
            return ""
        return self.take()

    def take(self) -> str:
        """The next token, taken."""
        self.place += 1
        return self.tokens[self.place - 1][1]

    def expect(self, sign: str) -> None:
        """Takes this sign, or refuses what stands there."""
        if not self.sign(sign):
            raise self.refusal(f"{sign!r} must follow; got {self.token!r}")

    def refusal(self, words: str) -> InvalidModel:
        """The error that says what is wrong, and what is allowed."""
        return InvalidModel(f"the formula {self.text!r:.100} cannot be read, {words}; {ALLOWED}")

    def opens(self) -> bool:
        """Whether a parenthesis opens here, taken if so."""
        if not self.sign("("):
            return False
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.refusal(f"more than {DEEPEST} parentheses within each other")
        return True

    def close(self) -> None:
        """Takes the end of a parenthesis."""
        self.expect(")")
        self.depth -= 1

    def formula(self) -> list[Term]:
        """Terms that are added and taken away."""
        terms, sign = list[Term](), self.sign("+", "-") or "+"
        while sign:
            more = self.product()
            gone = {frozenset(term) for term in more}
            others = [term for term in terms if frozenset(term) not in gone]
            terms = self.united(terms, more) if sign == "+" else others
            sign = self.sign("+", "-")
        return terms

    def product(self) -> list[Term]:
        """Terms side by side and crossed."""
        terms = self.crossed()
        while sign := self.sign("*", "/"):
            more = self.crossed()
            whole = [tuple(dict.fromkeys(node for term in terms for node in term))]
            crossed = self.crossing(terms if sign == "*" else whole, more)
            terms = self.united(self.united(terms, more if sign == "*" else []), crossed)
        return terms

    def crossed(self) -> list[Term]:
        """Terms multiplied with each other."""
        terms = self.power()
        while self.sign(":"):
            more = self.power()
            if () in (*terms, *more):
                raise self.refusal("a number cannot be crossed with a column")
            terms = self.crossing(terms, more)
        return terms

    def power(self) -> list[Term]:
        """Terms crossed with themselves."""
        terms = self.part()
        if self.sign("^", "**"):
            wanted = f"a power must be a whole number from 1 to {HIGHEST}"
            if self.kind != "number" or self.token not in map(str, range(1, HIGHEST + 1)):
                raise self.refusal(f"{wanted}; got {self.token!r}")
            base = terms
            for _ in range(int(self.take()) - 1):
                terms = self.united(terms, self.crossing(terms, base))
        return terms

    def part(self) -> list[Term]:
        """The terms of a number, a column, a transform or of parentheses."""
        if self.opens():
            terms = self.formula()
            self.close()
            return terms
        if self.kind == "number":
            if self.token not in ("0", "1"):
                raise self.refusal(f"the number {self.token} is no term")
            return [()] if self.take() == "1" else []
        factor = self.factor()
        return [(factor, self.by)] if self.by and isinstance(factor, Call) else [(factor,)]

    def factor(self) -> Node:
        """A column, or a transform of columns."""
        if self.kind == "quoted":
            return Column(self.take())
        if self.kind != "name":
            raise self.refusal(f"a column or a transform must stand where {self.token!r} does"
                               if self.kind else "it breaks off")  # fmt: skip
        name, self.by = self.take(), None
        return self.call(name) if self.opens() else Column(name)

    def call(self, name: str) -> Call:
        """The transform of that name, of which the parenthesis is open."""
        if name not in OPTIONS:
            raise self.refusal(f"no transform is called {name!r}{did_you_mean(name, OPTIONS)}")
        argument, second, by = self.sum(), None, None
        if name in ("C", "missing") and not isinstance(argument, Column):
            raise self.refusal(f"{name} must be of a column; got {argument}")
        if name == "te":
            self.expect(",")
            second = self.sum()
        options: dict[str, float | str] = {}
        while self.sign(","):
            if name == "s" and self.names_option("by"):
                by = self.factor()
                continue
            key, value = self.option(OPTIONS[name], len(options))
            if key in options:
                raise self.refusal(f"{name} has {key} twice")
            options[key] = value
        self.close()
        self.by = by
        return Call(name, argument, tuple(options.items()), second)

    def option(self, names: Sequence[str], place: int) -> tuple[str, float | str]:
        """The name and the value of an option; one without a name is told by its place."""
        named = self.tokens[self.place + 1 : self.place + 2] == [("sign", "=")]
        if self.kind == "name" and named:
            key = self.take()
            self.expect("=")
        else:
            key = names[place] if place < len(names) else ""
        if key not in names:
            raise self.refusal(f"there is no such option: {key or self.token!r}; there are "
                               f"{', '.join(names) or 'none'}")  # fmt: skip
        minus = self.sign("-")
        if key in TEXTS and not minus and self.kind in ("text", "number"):
            return key, self.take().strip("'\"")
        if key in TEXTS or self.kind != "number":
            raise self.refusal(f"{key} must be a {'text' if key in TEXTS else 'number'}; "
                               f"got {self.token!r}")  # fmt: skip
        return key, float(minus + self.take())

    def names_option(self, key: str) -> bool:
        """Whether this option is named here; its name is taken then."""
        if (self.kind, self.token) != ("name", key):
            return False
        self.take()
        self.expect("=")
        return True

    def sum(self) -> Node:
        """Arithmetic of + and -."""
        minus = self.sign("-")
        left = self.times()
        left = self.joined("-", Number(0.0), left) if minus else left
        while sign := self.sign("+", "-"):
            left = self.joined(sign, left, self.times())
        return left

    def times(self) -> Node:
        """Arithmetic of * and /."""
        left = self.raised()
        while sign := self.sign("*", "/"):
            left = self.joined(sign, left, self.raised())
        return left

    def raised(self) -> Node:
        """Arithmetic of ** or ^."""
        left = self.atom()
        return self.joined("**", left, self.atom()) if self.sign("**", "^") else left

    def joined(self, sign: str, left: Node, right: Node) -> Node:
        """Two numbers made one."""
        self.signs += 1
        if self.signs > MOST_SIGNS:
            raise self.refusal(f"more than {MOST_SIGNS} signs of arithmetic")
        return Arithmetic(sign, left, right)

    def atom(self) -> Node:
        """A number, a column, a transform that gives one number a row, or parentheses."""
        if self.opens():
            node = self.sum()
            self.close()
            return node
        if self.kind == "number":
            return Number(float(self.take()))
        node = self.factor()
        if isinstance(node, Call) and node.transform not in NUMBERS:
            raise self.refusal(f"{node} has several columns and must stand by itself")
        return node

    def united(self, terms: Sequence[Term], more: Sequence[Term]) -> list[Term]:
        """The terms of both, each once."""
        union: dict[frozenset[Node], Term] = {}
        for term in (*terms, *more):
            union.setdefault(frozenset(term), term)
        if len(union) > MOST_TERMS:
            raise self.refusal(f"it has more than {MOST_TERMS} terms")
        return [*union.values()]

    def crossing(self, terms: Sequence[Term], more: Sequence[Term]) -> list[Term]:
        """Every term of the first with every one of the second, each factor once."""
        if len(terms) * len(more) > MOST_TERMS**2:
            raise self.refusal(f"it has more than {MOST_TERMS} terms")
        pairs = (tuple(dict.fromkeys((*one, *other))) for one in terms for other in more)
        return self.united([], [*pairs])
