"""The report: what it says is what was given, it asks no network, and a browser shows it well."""

import base64
import hashlib
import itertools
import re

import numpy as np
import pytest

from outline import read
from tacit.show import (
    Alternatives,
    Code,
    Disclosure,
    Document,
    Facts,
    Headline,
    Items,
    Option,
    Paragraph,
    Picture,
    Section,
    Selector,
    Tone,
    anchor,
)
from tacit.show.canvas import svg
from tacit.show.html import inline, render, template
from tacit.show.intervals import draw_beside
from tacit.show.tables import Bar, Best, Head, IntervalEstimate, Row, RowKind, Table
from tacit.worlds import hill_grid
from tacit_lab.figures import (
    Convergence,
    Group,
    ObjectiveView,
    SampleCurve,
    comparison_figure,
    convergence_figure,
    spread_figure,
    study_figure,
)
from tacit_lab.studies.tally import quartiles

EVIL = "<script>alert(1)</script> & \"quotes\" 'single' `a<b` **x > y** $1 {braces}"


def interval_figure(name: str, *numbers: float):
    return draw_beside({"": {name: IntervalEstimate(*numbers)}}, None, "").figure


def written(*blocks) -> str:
    module = template("blocks.html").make_module({"number": itertools.count(1).__next__})
    return str(module.blocks(blocks))


def document(*blocks, **more) -> Document:
    return Document("A report", [Headline("It works.")], [Section("One", blocks)], **more)


def grid_picture(seed: int) -> Picture:
    world = hill_grid(seed)
    policy = np.eye(4)[np.random.default_rng(seed).integers(4, size=25)]
    views = [
        ObjectiveView.of("True", world.truth, policy),
        ObjectiveView.of("Recovered", world.truth, policy),
    ]
    figure = comparison_figure(world.layout, views)
    return Picture(svg(figure), alt=f"Six panels of seed {seed}", caption=f"Seed {seed}.")


@pytest.fixture(scope="module")
def pictures() -> list[Picture]:
    return [grid_picture(seed) for seed in range(3)]


@pytest.fixture(scope="module")
def whole(pictures) -> Document:
    """A report that uses everything a report can hold."""
    random = np.random.default_rng(0)

    def spread(scale: float) -> IntervalEstimate:
        return quartiles(scale * random.lognormal(0, 0.4, 10))

    columns = [Head("Estimator", best=Best.NONE)] + [
        Head(f"Measure {i}", "L1 error", Best.LOWEST) for i in range(10)
    ]
    rows = [Row([name, *(spread(0.1) for _ in range(10))]) for name in ("Likelihood", "Convex")]
    rows += [Row(["Random weights", *(spread(0.9) for _ in range(10))], RowKind.NULL)]
    rows += [Row(["Published", 0.57, *[None] * 9], RowKind.PUBLISHED)]
    fall = np.exp(-np.arange(40) / 5.0)
    samples = 0.1 + random.random((5, 10))
    curves = [
        SampleCurve(name, [20, 100, 200, 500, 2000], samples) for name in ("Likelihood", "Convex")
    ]
    groups = [Group("Likelihood", random.random(10)), Group("null", random.random(10), null=True)]
    figures = {
        "convergence": convergence_figure(Convergence(fall, fall, fall[:, None], noise=0.02)),
        "study": study_figure([("reward", curves, 0.9)], positions_name="steps"),
        "spread": spread_figure([("reward", groups)]),
        "intervals": interval_figure("row", 0.6, 0.5, np.inf),
    }
    options = [
        Option((b, s), [pictures[s], Paragraph(f"budget {b}, seed {s}")])
        for b in range(2)
        for s in range(3)
        if (b, s) != (1, 2)
    ]
    return Document(
        "Constraint recovery, measured",
        [
            Headline(
                "Behaviour is recovered.", "Behaviour", "confirmed", Tone.GOOD, detail="Gap `1.1`."
            ),
            Headline("Cost weights are **not**.", "Weights", "differs", Tone.CAUTION),
            Headline("Nothing can be learnt from slack budgets.", "Slack"),
        ],
        [
            Section("Tables", [Table("Ten seeds", columns, rows, note="Medians.")], lead="All."),
            Section(
                "Every seed",
                [
                    Alternatives(
                        [Selector("budget", ["1", "halfway"]), Selector("seed", ["0", "1", "2"])],
                        options,
                    )
                ],
            ),
            Section("Figures", [Picture(svg(f), alt=name) for name, f in figures.items()]),
            Section(
                "Figures",
                [
                    Picture(svg(figures["spread"]), alt="dots"),
                    Alternatives(
                        [Selector("state", [f"state {i}" for i in range(20)])],
                        [Option((i,), [Paragraph(f"This is state {i}.")]) for i in range(20)],
                    ),
                ],
            ),
            Section(
                "More",
                [
                    Disclosure("How it was made", [Code("tacit reproduce " + "--long " * 60)]),
                    Table(
                        "States",
                        [Head("State"), Head("Action"), Head("Visits")],
                        [Row([f"cell {i}", "up" if i % 2 else "down", i / 7]) for i in range(12)],
                        listed=True,
                    ),
                    Items(["one", "two"], numbered=True),
                    Paragraph("averyveryverylongword" * 12),
                ],
            ),
        ],
        lead="One command.",
        facts=Facts(
            {"seeds": 10, "discount": 0.9, "gap": IntervalEstimate(0.1, 0.05, 0.2), "grid": "5 × 5"}
        ),
        footer="Made by tacit.",
    )


@pytest.fixture(scope="module")
def page(whole) -> str:
    return render(whole)


# ------------------------------------------------------------------------------- the page


def test_the_page_is_well_formed_and_names_are_given_once(page):
    outline = read(page)
    names = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(names) == len(set(names))
    # Every reference points to something that is there.
    for _, attributes in outline.elements:
        for key, value in attributes.items():
            targets = re.findall(r"url\(#([^)]+)\)", value or "")
            if key == "href" and (value or "").startswith("#"):
                targets.append(value[1:])
            if key in ("aria-labelledby", "for", "data-table"):
                targets += value.split()
            assert set(targets) <= set(names), (key, value)


def test_findings_stand_before_everything_else(page):
    outline = read(page)
    first = outline.text.index("Behaviour is recovered.")
    assert first < outline.text.index("Ten seeds")
    assert [tag for tag, _ in outline.elements if tag in ("h1", "h2")][:2] == ["h1", "h2"]
    assert len(outline.every("h1")) == 1
    assert outline.every("html", lang="en")


def test_every_section_can_be_linked_to(page):
    outline = read(page)
    links = [a["href"] for a in outline.every("a") if a["href"] != "#main"]
    assert links == ["#tables", "#every-seed", "#figures", "#figures-2", "#more"]


def test_nothing_points_out_of_the_page(page):
    outline = read(page)
    for tag, attributes in outline.elements:
        for key in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
            value = attributes.get(key)
            assert value is None or value.startswith(("#", "data:")), (tag, key, value)
        assert "url(" not in attributes.get("style", ""), (tag, attributes)
        assert not any(key.startswith("on") for key in attributes), (tag, attributes)
    style = page.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert "http" not in page.replace("http-equiv", "")


def test_the_browser_is_told_to_ask_nobody(page):
    policy = read(page).every("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert policy.startswith("default-src 'none';")
    inside = page.split("<script>")[1].split("</script>")[0]
    checksum = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    assert f"script-src 'sha256-{checksum}'" in policy


def test_the_same_document_gives_the_same_page(whole, page):
    assert render(whole) == page


def test_a_figure_drawn_again_gives_the_same_page():
    assert render(document(grid_picture(1))) == render(document(grid_picture(1)))


def test_the_page_is_small(page):
    assert len(page.encode()) < 1_000_000


# ------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    "block",
    [
        Paragraph(EVIL),
        Items([EVIL]),
        Facts({EVIL: EVIL}),
        Code(EVIL),
        Disclosure(EVIL, [Paragraph(EVIL)]),
        Table(EVIL, [Head(EVIL, EVIL), Head("b")], [Row([EVIL, EVIL])], EVIL, listed=True),
        Picture(svg(interval_figure(EVIL, 1, 0, 2)), alt=EVIL, caption=EVIL),
        Picture(svg(spread_figure([("a", [])])), alt=EVIL, caption=EVIL),
        Alternatives(
            [Selector(EVIL, [EVIL, "b"])], [Option((i,), [Paragraph(EVIL)]) for i in (0, 1)]
        ),
        Alternatives(
            [Selector(EVIL, [EVIL] * 20)], [Option((i,), [Paragraph(EVIL)]) for i in range(20)]
        ),
    ],
    ids=lambda block: type(block).__name__,
)
def test_nothing_a_reader_wrote_becomes_markup(block):
    whole = Document(
        EVIL, [Headline(EVIL, EVIL, EVIL, detail=EVIL)], [Section(EVIL, [block], EVIL)], lead=EVIL,
        facts=Facts({EVIL: EVIL}), footer=EVIL,
    )  # fmt: skip
    page = render(whole)
    outline = read(page)
    assert len(outline.every("script")) == 1
    assert page.count("<script") == 1
    assert "<script>alert(1)</script> & \"quotes\" 'single'" in outline.text
    assert not any("alert" in key for _, attributes in outline.elements for key in attributes)


def test_inline_markup():
    assert inline("a `b` **c `d`** e") == ("a <code>b</code> <strong>c <code>d</code></strong> e")
    assert inline("2 * 3 ** 4 ` 5") == "2 * 3 ** 4 ` 5"
    assert inline("`**x**`") == "<code>**x**</code>"
    assert anchor("…") == "section"


def test_sections_of_the_same_name_get_names_of_their_own():
    titles = ["Main", "Findings", "A", "A", "A 2"]
    whole = Document("t", [], [Section(title, []) for title in titles])
    names = [a["id"] for a in read(render(whole)).every("section")]
    assert len(set(names)) == len(titles)
    assert not {"main", "findings"} & set(names)


# ------------------------------------------------------------------------------- tables


def cells(page: str) -> list[list[str]]:
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    return [
        [re.sub(r"<[^>]+>", "", c).strip() for c in re.findall(r"<t[hd].*?</t[hd]>", row)]
        for row in rows
    ]


def test_cells_say_numbers_as_a_reader_wants_them():
    spread = quartiles([0.1, 0.2, 0.3, 0.4, 0.5])
    table = Table(
        "t",
        [Head("name"), Head("a", "unit"), Head("b"), Head("c")],
        [Row(["x", 0.123456, None, "words"]), Row(["y", np.nan, spread, 3])],
    )
    assert cells(written(table)) == [
        ["name", "aunit", "b", "c"],
        ["x", "0.123", "–", "words"],
        ["y", "–", "0.3 0.2 to 0.4", "3"],
    ]


def test_a_column_of_small_numbers_has_its_power_in_its_head():
    table = Table(
        "t",
        [Head("name"), Head("regret", "lost"), Head("other")],
        [Row(["x", IntervalEstimate(4.65e-5, -3.9e-5, 6.8e-5), 1e-5]), Row(["y", 0.0, 1.0])],
    )
    assert cells(written(table)) == [
        ["name", "regretlost, ×10⁻⁶", "other"],
        ["x", "46.5 −39 to 68", "10⁻⁵"],
        ["y", "0", "1"],
    ]


def test_baselines_are_told_apart_and_never_the_best():
    table = Table(
        "t",
        [Head("name"), Head("low", best=Best.LOWEST), Head("high", best=Best.HIGHEST)],
        [
            Row(["one", IntervalEstimate(0.2, 0.1, 0.3), 0.5]),
            Row(["two", 0.30004, 0.7]),
            Row(["three", 0.20001, np.nan]),
            Row(["random", 0.01, 0.99], RowKind.NULL),
            Row(["paper", 0.02, 0.98], RowKind.PUBLISHED),
        ],
    )
    html = written(table)
    rows = re.findall(r"<tr.*?</tr>", html)
    best = [re.findall(r'class="n best">([\d.]+)', row) for row in rows[1:]]
    # 0.2 and 0.20001 are printed alike: both are best.
    assert best == [["0.2"], ["0.7"], ["0.2"], [], []]
    assert '<tr class="null">' in rows[4]
    assert '<span class="tag">null</span>' in rows[4]
    assert '<span class="tag">published</span>' in rows[5]


def test_one_alone_is_not_the_best():
    table = Table("t", [Head("n"), Head("x", best=Best.LOWEST)], [Row(["a", 1.0])])
    assert "best" not in written(table)


def test_a_row_must_fit_its_table():
    with pytest.raises(ValueError, match="row 1 of table 't' must have 2 cells; got 3"):
        Table("t", [Head("a"), Head("b")], [Row([1, 2]), Row([1, 2, 3])])


def test_quartiles_leave_out_what_is_missing_and_keeps_infinities():
    assert quartiles([1.0, np.nan, 3.0]) == IntervalEstimate(2.0, 1.5, 2.5)
    assert np.isnan(quartiles([np.nan]).value)
    some = quartiles([1.0, 2.0, np.inf, np.inf, np.inf])
    assert (some.low, some.high) == (2.0, np.inf)


@pytest.mark.parametrize(
    ("cell", "drawn"),
    [
        (Bar(0.5), 'class="fill" x="0.0" y="2" width="50.0"'),
        (Bar(-1.0, limits=(-2, 2)), 'class="fill" x="25.0" y="2" width="25.0"'),
        (Bar(0.5, 0.25, 0.75), 'class="span" x="25.0" y="3" width="50.0"'),
        (Bar(0.5, 0.25, np.inf), 'class="span" x="25.0" y="3" width="75.0"'),
    ],
)
def test_bars_are_drawn_to_scale(cell, drawn):
    assert drawn in written(Facts({"x": cell}))


# ------------------------------------------------------------------------------- pictures


def test_two_pictures_on_a_page_share_no_names(pictures):
    both = written(pictures[0], pictures[0])
    names = re.findall(r'\bid="([^"]+)"', both)
    assert len(names) == len(set(names)) > 4


def test_pictures_must_say_what_they_show():
    with pytest.raises(ValueError, match="alt"):
        Picture("<svg/>", alt=" ")


# ------------------------------------------------------------------------------- choices


def test_a_choice_must_have_options_at_places_that_exist():
    with pytest.raises(ValueError, match="at least one"):
        Alternatives([Selector("a", ["x"])], [])
    with pytest.raises(ValueError, match=r"within \[1\]; got \(1,\)"):
        Alternatives([Selector("a", ["x"])], [Option((1,), [])])
    with pytest.raises(ValueError, match="same place"):
        Alternatives([Selector("a", ["x"])], [Option((0,), []), Option((0,), [])])


def test_values_without_an_option_are_not_offered():
    choice = Alternatives(
        [Selector("seed", ["0", "1", "2"]), Selector("kind", ["a", "b"])],
        [Option((2, 0), []), Option((0, 0), [])],
    )
    outline = read(written(choice))
    assert [radio["value"] for radio in outline.every("input", type="radio")] == ["0", "2"]
    checked = [radio["value"] for radio in outline.every("input") if "checked" in radio]
    assert checked == ["2"]  # of the first option
    assert [hidden["value"] for hidden in outline.every("input", type="hidden")] == ["0"]


# ------------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def address(page, tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page, encoding="utf-8")
    return file.as_uri()


SHOWN = "[...document.querySelectorAll('.choice')].map(c => c.querySelector('.shown')?.innerText)"


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_in_a_browser(chrome, address, tmp_path, width, dark):
    page = chrome.open(address, width=width, dark=dark)
    page.check(address, width)
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    headings = page.evaluate("[...document.querySelectorAll('h1, h2')].map(h => h.innerText)")
    assert headings == [
        *("Constraint recovery, measured", "What was found", "Tables", "Every seed"),
        *("Figures", "Figures", "More"),
    ]
    # Every drawing has a size.
    assert page.evaluate(
        "[...document.querySelectorAll('.shown svg, .picture svg')]"
        ".filter(s => s.checkVisibility()).every(s => s.getBoundingClientRect().height > 40)"
    )
    if width == 1280 and not dark:
        assert page.faults() == []
    page.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 50_000


@pytest.mark.browser
def test_choosing_shows_the_choice(chrome, address):
    page = chrome.open(address, width=1280)
    assert page.evaluate(SHOWN)[0].endswith("budget 0, seed 0")
    page.evaluate("document.querySelectorAll('.chips input')[3].click()")  # seed 1
    assert page.evaluate(SHOWN)[0].endswith("budget 0, seed 1")
    page.evaluate("document.querySelectorAll('.chips input')[1].click()")  # the other budget
    assert page.evaluate(SHOWN)[0].endswith("budget 1, seed 1")
    page.evaluate("document.querySelectorAll('.chips input')[4].click()")  # is not there
    assert page.evaluate(SHOWN)[0] is None
    assert page.evaluate("!document.querySelector('.nothing').hidden")


@pytest.mark.browser
def test_a_list_and_a_search_field(chrome, address):
    page = chrome.open(address, width=1280)
    set_to = "(() => {{ const e = {}; e.value = {!r}; e.dispatchEvent(new Event('input')); }})()"
    page.evaluate(set_to.format("document.querySelector('select')", "17"))
    assert page.evaluate(SHOWN)[1] == "This is state 17."
    page.evaluate(set_to.format("document.querySelector('input[type=search]')", "CELL 1"))
    rows = "[...document.querySelectorAll('.search ~ .scroll tbody tr:not([hidden]) th')]"
    assert page.evaluate(f"{rows}.map(e => e.innerText)") == ["cell 1", "cell 10", "cell 11"]
    assert page.evaluate("document.querySelector('.search output').innerText") == "3 of 12"
    page.evaluate(set_to.format("document.querySelector('input[type=search]')", "down"))
    assert page.evaluate(f"{rows}.length") == 6  # words inside a row are found as well


@pytest.mark.browser
def test_everything_is_reached_with_the_keyboard(chrome, address):
    page = chrome.open(address, width=390)
    page.evaluate("document.body.focus()")
    reached = []
    for _ in range(60):
        page.press("Tab", code=9)
        what = page.evaluate(
            "(e => e === document.body ? '' : `${e.tagName}.${e.type || e.className}`)"
            "(document.activeElement)"
        )
        if not what and reached:
            break
        reached.append(what)
    assert reached[0] == "A.skip"
    for wanted in ("DIV.scroll", "DIV.sheet", "INPUT.radio", "SELECT.select-one"):
        assert wanted in reached, wanted
    assert {"SUMMARY.", "INPUT.search"} <= set(reached)
    page.evaluate("document.querySelectorAll('.chips')[1].querySelector('input').focus()")
    page.press("ArrowRight", code=39)
    assert page.evaluate(SHOWN)[0].endswith("seed 1")
    page.evaluate("document.querySelector('summary').focus()")
    page.press("Enter", code=13, text="\r")
    assert page.evaluate("document.querySelector('details').open")


@pytest.mark.browser
def test_without_scripts_every_alternative_is_there(chrome, page, tmp_path):
    bare = tmp_path / "bare.html"
    bare.write_text(re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL), encoding="utf-8")
    shown = chrome.open(bare.as_uri(), width=1280)
    visible = "[...document.querySelectorAll('.option')].filter(e => e.checkVisibility()).length"
    assert shown.evaluate(visible) == 5 + 20
    assert "budget: halfway, seed: 1" in shown.evaluate("document.body.innerText")
    assert not shown.evaluate("document.querySelector('.controls').checkVisibility()")


@pytest.mark.browser
def test_the_page_prints_with_its_details_open(chrome, address):
    page = chrome.open(address, width=1280)
    page.evaluate(
        "addEventListener('beforeprint',"
        " () => { window.seen = document.querySelector('details').open; })"
    )
    assert page.printed().startswith(b"%PDF")
    assert page.evaluate("window.seen") is True
    assert page.evaluate("document.querySelector('details').open") is False


@pytest.mark.browser
def test_the_watch_for_network_and_complaints_is_not_blind(chrome, tmp_path):
    noisy = tmp_path / "noisy.html"
    noisy.write_text(
        "<!DOCTYPE html><title>x</title><body><img src='missing.png'>"
        "<script>console.error('loud'); null.f()</script>",
        encoding="utf-8",
    )
    page = chrome.open(noisy.as_uri(), width=390)
    assert any(url.endswith("missing.png") for url in page.requests)
    assert any("loud" in complaint for complaint in page.complaints)
    assert any("TypeError" in complaint for complaint in page.complaints)
