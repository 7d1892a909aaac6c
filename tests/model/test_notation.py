"""Formulas are read as Wilkinson and Rogers meant them, and nothing else is."""

import pytest

import tacit
from tacit.model.features.notation import terms_of


def read(formula):
    return [":".join(map(str, term)) or "1" for term in terms_of(formula)]


@pytest.mark.parametrize(
    ("formula", "terms"),
    [
        ("a", ["a"]),
        (" a+b ", ["a", "b"]),
        ("a + a", ["a"]),
        ("1 + a", ["1", "a"]),
        ("a + 0", ["a"]),
        ("1 + a - 1", ["a"]),
        ("a:b + b:a", ["a:b"]),
        ("a * b", ["a", "b", "a:b"]),
        ("a / b", ["a", "a:b"]),
        ("(a + b) / c", ["a", "b", "a:b:c"]),
        ("(a + b):c", ["a:c", "b:c"]),
        ("a + b:c * d", ["a", "b:c", "d", "b:c:d"]),
        ("(a + b + c)^2", ["a", "b", "c", "a:b", "a:c", "b:c"]),
        ("(a + b) ** 2 - a:b", ["a", "b"]),
        ("a * b * c - a:b:c", ["a", "b", "a:b", "c", "a:c", "b:c"]),
        ("`blood pressure`:b", ["`blood pressure`:b"]),
        ("C(a, base='x y')", ["C(a, base='x y')"]),
        ("bs(a, 4) + bs(a, df = 4)", ["bs(a, df=4)"]),
        ("cc(h, df=3, lower_bound=-12, upper_bound=1.2e1)", [
            "cc(h, df=3, lower_bound=-12, upper_bound=12)"
        ]),
        ("scale(log(a + 1)) + log(a * b ** 2 - c / 2)", [
            "scale(log(a + 1))", "log((a * (b ** 2)) - (c / 2))"
        ]),
        ("log(-a)", ["log(-a)"]),
    ],
)  # fmt: skip
def test_terms_are_those_of_the_notation(formula, terms):
    assert read(formula) == terms
    assert read(" + ".join(terms)) == terms  # what is shown can be read again


@pytest.mark.parametrize(
    "formula",
    [
        "__import__('os')", "__import__('os').system('x')", "os.system('x')", "a.b",
        "a.__class__", "a[0]", "a['b']", "[a for a in b]", "(a for a in b)", "{a}", "{a: b}",
        "{a + b}", "lambda: 1", "lambda a: a", "f'{a}'", "'a'", '"a"', "I(a)", "I(a + 1)",
        "eval(a)", "Q('a')", "np.log(a)", "lag(a)", "log(a)(b)", "scale(a)[0]", "scale('a')",
        "scale(eval(a))", "bs(a, df=eval(b))", "bs(a, df=4 + 1)", "bs(a, df=True)",
        "bs(a, knots=[1])", "bs(a, extrapolation='extend')", "C(a, eval(b))", "C(a, contr.sum)",
        "C(a + 1)", "C(scale(a))", "missing(a + b)", "scale(bs(a))", "scale(C(a))", "scale(a, 3)",
        "bs(a, df=3, df=4)", "a == b", "a = b", "a if b else c", "a and b", "not a", "a @ b",
        "a % b", "a // b", "a < b", "a; b", "a, b", "a\\b", "a ~ b", "~ a", "a := b", "*a",
        "a +", "a b", "+", "", " ", "0", "a - a", "2", "2 * a", "a:1", "a^b", "a^0", "a^1.5",
        "a^11", "(a", "a)", "log(a", "log()", "log(a b)", "`a", "a`", "a # b", "$a", "a\0", "…",
        "(" * 60 + "a" + ")" * 60, "log(" * 60 + "a" + ")" * 60, "a+" * 6000 + "a",
        "(a+b+c+d+e+f+g+h+i+j)^10", "log(" + "a+" * 4000 + "a)", "a:" * 4000 + "2", None, 3, ["a"],
    ],
)  # fmt: skip
def test_anything_else_is_refused_in_one_line(formula):
    with pytest.raises(tacit.InvalidModel, match=r"a formula must be|allowed are") as refusal:
        terms_of(formula)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 600


def test_a_name_that_is_nearly_right_is_guessed():
    with pytest.raises(tacit.InvalidModel, match="did you mean 'scale'"):
        terms_of("scael(a)")


def test_what_is_negative_is_spelled_without_parentheses_of_its_own():
    for formula in ("exp(-a / 2)", "exp(-(a / 2) ** 2)", "exp(-(a + 1))", "exp((-a) ** 2)"):
        ((factor,),) = terms_of(formula)
        assert str(factor) == formula
        assert terms_of(str(factor)) == terms_of(formula)
