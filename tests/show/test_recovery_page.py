"""The report of a run: it says what was recovered, stays small, and can be read by anyone."""

import base64
import dataclasses
import io
import json
import re
from dataclasses import replace
from functools import cache
from html import escape
from importlib.resources import files

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.image import imread
from matplotlib.path import Path
from matplotlib.quiver import Quiver

import tacit
import tacit_lab.worlds
from browser import CONTRAST
from house import ROOMS, house
from outline import read
from tacit.checks.discounts import discount_profile
from tacit.checks.held_out import holdout
from tacit.checks.reliability import trajectory_fits
from tacit.cli import main
from tacit.cli.report import Report
from tacit.cli.terminal import Terminal
from tacit.folders.runs import Run
from tacit.forward.solution import Certificate, Solution, Status
from tacit.inference.findings import Finding, Kind
from tacit.inference.sets import unidentified
from tacit.model.layout import COMPASS, Layout, with_directions
from tacit.recovery import History, Recovery, RecoveryCertificate, RecoveryStatus
from tacit.show import Document, Picture, Section, canvas
from tacit.show.arrows import LEAST_SHARE, draw_policy, indifferent
from tacit.show.canvas import PAINTED, axes_at, new_figure
from tacit.show.checks import check_sections
from tacit.show.differences import comparison_document
from tacit.show.grid import extent, map_names, outlines
from tacit.show.html import render
from tacit.show.maps import policy_map, value_map
from tacit.show.page import recovery_document
from tacit.show.quantities import NamedRecovery, state_choice, state_table
from tacit.show.report import headlines
from tacit.show.tables import short
from text_form import save_text
from travellers import GOALS, TRUTH, lengths, streets, travelled

LARGEST = 1_050_000  # bytes of a page; noise in 300 000 cells is the worst that there is
EVIL = "<script>alert(1)</script> & \"quotes\" '$1'"
CONFIG = {"command": "tacit recover house --out run", "problem": "data/house"}


def run_of(mdp, features, demonstrations, layout, estimator=None, **more) -> Run:
    recovery = tacit.recover(mdp, features, demonstrations, estimator=estimator, throw=False)
    fits = trajectory_fits(recovery, demonstrations, mdp=mdp)
    data = {"episodes": demonstrations.episodes, "steps": demonstrations.steps}
    return Run(recovery, layout, CONFIG, data, trajectories=fits.columns, seed=3, **more)


@pytest.fixture(scope="module")
def rooms() -> Run:
    mdp, features, truth, layout = house()
    policy = tacit.solve(mdp, truth, solver=tacit.SoftDual(temperature=0.05)).policy
    seen = tacit.simulate(mdp, policy, trajectories=120, steps=40, seed=1)
    extras = {
        "holdout": holdout(mdp, features, seen),
        "discount_profile": discount_profile(mdp, features, seen, [0.7, 0.9]),
    }
    hashes = {"demonstrations": "ab12" * 16}
    notes = ("The start was estimated.",)
    return run_of(mdp, features, seen, layout, extras=extras, hashes=hashes, notes=notes)


@pytest.fixture(scope="module")
def grid() -> Run:
    """The paper's grid by the paper's algorithm, which has many iterations and no intervals."""
    world = tacit.worlds.hill_grid(seed=1, tightness=0.4).in_gauge
    policy = tacit.solve(world.mdp, world.truth).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=30, steps=60, seed=0)
    rules = tacit.Alternating(starts=2, max_steps=30)
    return run_of(world.mdp, world.features, seen, world.layout, rules)


def synthetic(states: int, layout: Layout, *, constraints: int = 1, actions: int = 4) -> Run:
    """A run of any size whose numbers are noise: the worst case for every compression."""
    random = np.random.default_rng(0)
    weights = np.full(5, 0.2)
    cost_weights = [weights] * constraints
    solution = Solution(
        random.dirichlet(np.full(actions, 0.3), states),
        random.random((states, actions)),
        *(np.zeros(states), np.full(constraints, 0.2)),
        value=1.0,
        spent=np.ones(constraints),
        temperature=0.1,
        status=Status.CONVERGED,
        certificate=Certificate(0.0, 0.0, 0.0, 0.0),
    )
    costs = random.random((constraints, states)) * np.arange(1, constraints + 1)[:, None]
    objective = tacit.Objective(random.random(states), costs, np.ones(constraints))
    recovery = Recovery(
        reward_weights=weights,
        cost_weights=cost_weights,
        multipliers=np.full(constraints, 0.2),
        budgets=np.ones(constraints),
        temperature=0.1,
        objective=objective,
        solution=solution,
        status=RecoveryStatus.CONVERGED,
        certificate=RecoveryCertificate(0.01, 0.02),
        history=History({}),
        identification=unidentified(weights, cost_weights, active=[True] * constraints),
    )
    fits = {"episode": np.arange(9_000), "share_optimal": np.linspace(0, 1, 9_000)}
    return Run(recovery, layout, trajectories=fits)


@cache
def rendered(run: Run) -> str:
    """The page of a run, drawn once."""
    return render(recovery_document(run))


def said(run: Run) -> dict[str, str]:
    """Label -> text of the findings, without the stars of what is strong."""
    found = headlines(NamedRecovery(run.recovery, run.layout), run.notes)
    return {one.label: one.text.replace("**", "") for one in found}


# ------------------------------------------------------------------------------- what it says


def test_the_findings_say_what_was_recovered(rooms):
    found, recovery = said(rooms), rooms.recovery
    assert found["What it wants"] == "It wants sun."
    heat, noise = (short(weight, digits=2) for weight in recovery.cost_weights[0])
    refused = f"It avoids heat most (weight {heat} of 1), then noise ({noise})."
    assert found["What it refuses"] == refused
    price, budget = short(recovery.multipliers[0]), short(recovery.budgets[0])
    assert f"at most {budget}." in found["At what price"]
    assert f"would buy it {price} of reward" in found["At what price"]
    assert found["What was assumed"] == "The start was estimated."
    detail = headlines(NamedRecovery(recovery, rooms.layout))[1].detail
    assert detail.startswith("What a step costs, where it costs most: boiler room at 0.9")
    assert "95 % interval: heat 0." in detail


def test_what_is_not_identified_is_not_made_up(rooms):
    known = dataclasses.replace(
        rooms.recovery.identification,
        cost_intervals=[np.full((2, 2), np.nan)],
        multiplier_intervals=[[0.0, 0.5]],
        active=[False],
    )
    nothing = dataclasses.replace(
        rooms.recovery,
        cost_weights=[np.full(2, np.nan)],
        multipliers=[0.0],
        budgets=[np.inf],
        identification=known,
    )
    run = dataclasses.replace(rooms, recovery=nothing)
    finding = headlines(NamedRecovery(run.recovery, run.layout))[1]
    assert finding.verdict == "not identified"
    assert finding.detail == "A price above 0.5 for it is ruled out."
    assert "At what price" not in said(run)
    heads = [column.name for column in state_table(NamedRecovery(run.recovery, run.layout)).columns]
    assert heads == ["State", "Time there", "What it does", "Reward"]
    assert "weights of the cost" not in rendered(run)


@pytest.mark.parametrize(
    ("gap", "noise", "truncation", "verdict"),
    [
        (0.019, 0.01, np.nan, "behaviour matched"),
        (0.021, 0.01, np.nan, "behaviour not matched"),
        (0.021, 0.01, 0.002, "cut off too early to say"),
        (0.023, 0.01, 0.002, "behaviour not matched"),
        (np.nan, np.nan, np.nan, "not measured"),
        (0.01, np.nan, np.nan, "chance not known"),
    ],
)
def test_agreement_is_judged_by_chance_and_by_what_was_cut_off(
    rooms, gap, noise, truncation, verdict
):
    proof = RecoveryCertificate(feature_gap=gap, sampling_noise=noise, truncation=truncation)
    recovery = dataclasses.replace(rooms.recovery, certificate=proof)
    finding = next(
        f for f in headlines(NamedRecovery(recovery, rooms.layout)) if f.label == "How sure"
    )
    assert finding.verdict == verdict
    if verdict == "behaviour matched":  # sums may agree where steps do not
        goodness = dataclasses.replace(recovery.goodness, adequate=False, p_value=0.01, absence="")
        hidden = dataclasses.replace(goodness, adequate=True, p_value=0.3, settled=5e-5)
        contradicted = dataclasses.replace(
            recovery.identification,
            findings=[Finding("It explains less than chance.", Kind.MISFIT)],
        )
        for change in (
            {"goodness": goodness},
            {"goodness": hidden},
            {"identification": contradicted},
        ):
            poor = dataclasses.replace(recovery, **change)
            told = [one.verdict for one in headlines(NamedRecovery(poor, rooms.layout))]
            assert "matched on average only" in told
            assert verdict not in told


def test_a_weight_that_cannot_be_told_is_not_called_nothing(rooms):
    known, names = rooms.recovery.identification, rooms.recovery.cost_names[0]
    for low, high, untold in ((0.0, 0.2, False), (0.0, 1.0, True)):
        ends = [np.array([[1.0, 1.0], [low, high]])]
        recovery = dataclasses.replace(
            rooms.recovery,
            cost_weights=[np.array([1.0, 0.0])],
            identification=dataclasses.replace(known, cost_intervals=ends),
        )
        finding = headlines(NamedRecovery(recovery, rooms.layout))[1]
        assert (f"Whether it avoids **{names[1]}** cannot be told." in finding.text) == untold
        assert ("hardly anything else" in finding.text) == (not untold)
        assert (finding.verdict == "not settled") == untold


def test_an_answer_without_intervals_says_so(grid):
    assert said(grid)["What cannot be told"].startswith("How far the weights may be off")
    page = rendered(grid)
    assert "This answer has no intervals." in page
    assert "95 % interval" not in page


def test_intervals_of_all_explanations_are_not_called_confidence():
    world = tacit.worlds.hill_grid(seed=1, tightness=0.4).in_gauge
    policy = tacit.solve(world.mdp, world.truth).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=30, steps=60, seed=0)
    run = run_of(world.mdp, world.features, seen, world.layout, tacit.Explanation())
    page = rendered(run)
    assert "Over all explanations" in page
    assert "95 % interval" not in page


def test_states_are_listed_by_how_much_time_is_spent_there(rooms):
    subject = NamedRecovery(rooms.recovery, rooms.layout)
    rows = [row.cells for row in state_table(subject).rows]
    time = np.asarray(rooms.recovery.solution.visitation).sum(axis=1)
    assert [cells[0] for cells in rows] == [ROOMS[s] for s in np.argsort(-time, kind="stable")]
    assert sum(cells[1].value for cells in rows) == pytest.approx(100, abs=0.05)  # two decimals
    garden = next(cells for cells in rows if cells[0] == "garden")
    assert garden[3].value == pytest.approx(float(rooms.recovery.objective.reward[4]))


def test_the_page_has_every_part(rooms, grid):
    headings = re.findall(r"<h2[^>]*>([^<]*)", rendered(rooms))
    assert headings == [
        *("What was found", "State by state", "Weights, budgets and prices"),
        *("On trajectories held back", "If the discount were another"),
        *("Guarantees and findings", "Convergence", "The demonstrations", "How to reproduce"),
    ]
    page = read(rendered(rooms))
    assert CONFIG["command"] in page.text
    assert rooms.hashes["demonstrations"] in page.text
    for sentence in rooms.recovery.identification.findings:
        assert sentence[1:] in page.text
    worst = [str(e) for e in rooms.trajectories["episode"][:3]]
    listed = re.findall(r'<th scope="row">(\d+)</th>', rendered(rooms))
    assert listed[:3] == worst
    assert "Maps" in re.findall(r"<h2[^>]*>([^<]*)", rendered(grid))


def test_the_curves_follow_the_start_that_was_kept(grid):
    [gallery] = next(s for s in recovery_document(grid).sections if s.title == "Convergence").blocks
    drawn = next(one for one in gallery.blocks if one.alt.startswith("feature gap"))
    history = grid.recovery.history
    kept = [np.allclose(w, grid.recovery.reward_weights) for w in history["reward_weights"]]
    start = history["start"][int(np.argmax(kept))]
    rows = np.flatnonzero(history["start"] == start)
    wanted = history["feature_gap"][rows[-1]]
    told = dict(zip(drawn.cells[0].names, drawn.cells[0].values, strict=True))
    assert list(told) == [f"iteration {k + 1}" for k in range(len(rows))]
    assert told[f"iteration {len(rows)}"] == short(float(wanted))


def test_results_that_nobody_foresaw_are_shown(rooms):
    extras = {
        "price_curve": {"sentences": ["It bends."], "columns": {"budget": [1, 2], "value": [3, 4]}},
        "odd": {"level": 0.25},
        "nothing": {},
    }
    sections = check_sections(extras)
    assert [section.title for section in sections] == ["Price curve", "Odd"]


def test_what_was_asked_is_answered_on_top(rooms):
    found = {one.label: one.text for one in recovery_document(rooms).headlines}
    assert found["On trajectories held back"].startswith("It predicts unseen episodes")
    told = rooms.extras["discount_profile"].sentences[0]
    assert found["If the discount were another"] == told


def test_discounts_are_compared_with_the_best_of_them():
    columns = {"discount": [0.9, 0.5, 0.7], "log_likelihood": [-1203.5, np.nan, -1200.0]}
    section = check_sections({"discount_profile": {"sentences": ["x"], "columns": columns}})[0]
    gallery, table = section.blocks[1:]
    assert [row.cells[1] for row in table.rows] == pytest.approx([-3.5, np.nan, 0], nan_ok=True)
    assert "highest at 0.7" in gallery.blocks[0].alt


PHRASES = (
    *("active", "cannot be told", "picked fruit", "trivial pursuit", "<b>not identified</b>"),
    *('a "quoted" name', "no upper limit", "never visited", "converged", "may be inactive"),
    *("nothing is known", "95 % interval", "constraint 0 is active"),
)


def spoken(names: tuple[str, ...]) -> tuple[Run, str, str, str]:
    """The run of a house in which everything has these names; its page, summary and notebook."""
    mdp, features, truth, _ = house()
    policy = tacit.solve(mdp, truth, solver=tacit.SoftDual(temperature=0.05)).policy
    seen = tacit.simulate(mdp, policy, trajectories=40, steps=20, seed=1)
    flat = np.ones((mdp.states, 1))  # says nothing: a finding that begins with its name
    named = tacit.Features(
        reward=np.hstack([np.asarray(features.reward), flat]),
        costs=features.costs,
        reward_names=names[:2],
        cost_names=(names[2:4],),
    )
    layout = Layout(state_names=names[4:12], action_names=(*names[12:], "b", "c", "d"))
    run = run_of(mdp, named, seen, layout)
    page = read(rendered(run)).text
    return run, page, run.recovery.summary(), read(run.recovery._repr_html_()).text


def test_names_made_of_our_own_phrases_change_nothing_that_is_said():
    plain = tuple(f"zq{letter}" for letter in "abcdefghijklm")

    def normal(text: str, names: tuple[str, ...]) -> str:
        text = text.lower()
        for name, other in sorted(zip(names, plain, strict=True), key=lambda pair: -len(pair[0])):
            text = text.replace(name.lower(), other)
        return " ".join(re.sub("-{3,}", "", text).split())  # without rules as wide as the names

    one, *wanted = spoken(plain)
    other, *found = spoken(PHRASES)
    kinds = [finding.kind for finding in one.recovery.identification.findings]
    assert Kind.NOT_IDENTIFIED in kinds
    assert [finding.kind for finding in other.recovery.identification.findings] == kinds
    # "active" and its kin are words of ours as well: both sides are read with the same rule.
    for expected, text in zip(wanted, found, strict=True):
        assert normal(text, PHRASES) == normal(normal(expected, plain), PHRASES)


def test_kinds_decide_where_a_finding_stands_and_words_do_not(rooms):
    findings = (
        Finding("Constraint 0 is active: nothing cannot be told.", Kind.ACTIVE, constraint=0),
        Finding("Picked fruit is the same everywhere.", Kind.NOT_IDENTIFIED, feature="fruit"),
        Finding("Three moves are impossible here.", Kind.MISFIT),
        Finding("The best of several.", Kind.LOCAL_OPTIMUM),
    )
    known = dataclasses.replace(rooms.recovery.identification, findings=findings)
    run = dataclasses.replace(
        rooms, recovery=dataclasses.replace(rooms.recovery, identification=known)
    )
    found = said(run)
    assert found["Warnings"] == f"{findings[2]} {findings[3]}"
    assert found["What cannot be told"] == findings[1]
    wanted = [findings[2], findings[3], findings[1], findings[0]]
    for text in (
        run.recovery.summary(),
        run.recovery._repr_html_(),
        read(rendered(run)).text.partition("Guarantees and findings")[2],
    ):
        places = [text.rindex(sentence) for sentence in wanted]
        assert places == sorted(places)


# ------------------------------------------------------------------------------- pictures


def test_a_map_whose_least_is_white_is_no_slab_in_the_dark():
    """A page turns its colours round; the style sheet knows what is written on them."""
    grid = Layout(2, 3)
    every = (canvas.REWARD_MAP, canvas.COST_MAP, canvas.VISIT_MAP)
    maps = {c: value_map(grid, np.arange(6.0), "n", colours=c) for c in every}
    for colours, picture in maps.items():
        white = sum(colormaps[colours](0.0)[:3]) > 2.5
        assert picture.bright == white
        sheet = Document(title="t", headlines=[], sections=[Section("s", [picture])])
        assert ('class="picture narrow bright"' in render(sheet)) == white
    style = files("tacit.show").joinpath("templates/page.css").read_text("utf-8")
    for ink in (canvas.ON_LIGHT, canvas.ON_DARK):
        assert f"fill: {ink}" in str(maps[canvas.VISIT_MAP].image)
        assert f'[style*="fill: {ink}"]' in style


def test_a_map_tells_every_value_where_it_lies():
    layout = Layout(2, 3)
    values = np.arange(7.0)  # the last state lies off the grid
    picture = value_map(layout, values, "reward", colours="viridis")
    cells = picture.cells[0]
    assert (cells.rows, cells.columns) == (2, 3)
    assert list(cells.values) == ["0", "1", "2", "3", "4", "5"]
    left, top, width, height = cells.box
    # The first tick labels stand left of and below the lattice, the title above it.
    assert 0 < left < 0.15
    assert 0 < top < 0.2
    assert 0.8 < left + width < 1
    assert top + height < 0.8
    assert "Lowest 0 at (0, 0), highest 5 at (1, 2)" in picture.alt


def test_what_depends_on_the_action_is_shown_by_state_and_on_average():
    run = synthetic(6, Layout(2, 3, action_names=("a", "b", "c", "d")))
    table = np.arange(24.0).reshape(6, 4)
    objective = tacit.Objective(table, run.recovery.objective.costs, [1.0])
    run = dataclasses.replace(run, recovery=dataclasses.replace(run.recovery, objective=objective))
    subject = NamedRecovery(run.recovery, run.layout)
    mean = [sum(subject.policy[s, a] * table[s, a] for a in range(4)) for s in range(6)]
    assert subject.reward == pytest.approx(mean)
    [_, choice] = state_choice(subject)
    for s, option in zip(np.argsort(-subject.time, kind="stable"), choice.options, strict=True):
        rows = [row.cells for row in option.blocks[0].rows]
        assert [cells[2].value for cells in rows] == table[s].tolist()


def test_a_grid_too_fine_to_draw_is_drawn_by_means():
    rows, columns = 300, 500
    stripes = np.tile([0.0, 1.0], rows * columns // 2)
    image = str(value_map(Layout(rows, columns), stripes, "worth").image)
    found = re.search(r'image/png;base64,([^"]+)"', image)
    assert found
    drawn = imread(io.BytesIO(base64.b64decode(found[1])), "png")
    assert drawn.shape[1] < columns  # no more dots than a page has
    middle = np.array(colormaps[canvas.COST_MAP](0.5)[:3])
    inside = drawn[5:-5, 5:-5, :3]
    assert np.abs(inside - middle).mean() < 0.1  # one grey, and neither of the two colours


def test_costs_that_are_compared_share_their_colours():
    run = synthetic(25, Layout(5, 5), constraints=2)
    pictures = [one for one in recovery_document(run).blocks() if isinstance(one, Picture)]
    costs = [one.image for one in pictures if one.alt.startswith("Map of cost")]
    ticks = [re.findall(r">([\d.]+)</text>", one.split("axes_2")[1]) for one in costs]
    assert len(ticks) == 2
    assert ticks[0] == ticks[1] != []


# ------------------------------------------------------------------------------- size and names


@pytest.mark.parametrize(
    ("states", "layout"),
    [
        (10_000, Layout(100, 100)),
        (300_000, Layout(500, 600)),
        (100_000, Layout(state_names=tuple(f"ward {i} of the house" for i in range(100_000)))),
    ],
    ids=["100 x 100", "500 x 600", "named"],
)
def test_a_large_world_stays_small(states, layout):
    page = render(recovery_document(synthetic(states, layout)))
    assert len(page.encode()) < LARGEST
    assert f"The 300 most visited of {states} states are listed" in page
    assert "The first 300 of 9000 are listed" in page


def test_many_constraints_stay_small():
    page = render(recovery_document(synthetic(3_600, Layout(60, 60), constraints=6)))
    assert len(page.encode()) < LARGEST


def test_nothing_that_somebody_named_becomes_markup(rooms):
    layout = Layout(state_names=(EVIL,) * 8, action_names=(EVIL,) * 4)
    names = {"reward_names": (EVIL,), "cost_names": ((EVIL, EVIL),)}
    run = dataclasses.replace(
        rooms,
        recovery=dataclasses.replace(rooms.recovery, **names),
        layout=layout,
        notes=(EVIL,),
        config={"command": EVIL, "problem": EVIL},
        extras={EVIL: {"sentences": [EVIL], "columns": {EVIL: [EVIL]}}},
        data={EVIL: EVIL},
    )
    page = rendered(run)
    outline = read(page)
    assert len(outline.every("script")) == page.count("<script") == 1
    fragment = run.recovery._repr_html_()
    assert "<script" not in fragment
    assert EVIL in read(fragment).text


# ------------------------------------------------------------------------------- files


def test_the_command_writes_the_page(grid, tmp_path):
    grid.save(tmp_path / "my run")
    answer = Report(tmp_path / "my run").run(Terminal())
    page = (tmp_path / "my run" / "report.html").read_bytes()
    assert answer.data["bytes"] == len(page)
    assert answer.data["findings"][0]["text"].startswith("It wants row most")
    json.dumps(answer.data, allow_nan=False)
    other = tmp_path / "elsewhere.html"
    Report(tmp_path / "my run", other).run(Terminal())
    assert other.read_bytes() == page  # the same run gives the same bytes


def test_what_cannot_be_written_or_read_is_said_in_one_line(rooms, tmp_path, capsys):
    rooms.save(tmp_path / "run")
    before = sorted(tmp_path.rglob("*"))
    run, out = str(tmp_path / "run"), str(tmp_path / "no" / "x")
    for words, message, where in (
        ([str(tmp_path / "none")], "no such folder", "none"),
        ([run, "--out", str(tmp_path)], "Is a directory", str(tmp_path)),
        ([run, "--out", out], "no such folder", str(tmp_path / "no")),
    ):
        assert main(["report", *words]) == 4
        error = capsys.readouterr().err
        assert message in error
        assert error.rstrip().endswith(where)
        assert error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_notebook_shows_weights_intervals_prices_and_findings(rooms):
    fragment = rooms.recovery._repr_html_()
    text = read(fragment).text
    found = rooms.recovery.standardised
    weight = found.cost_weights[0][0]
    low, high = found.identification.cost_intervals[0][0]
    assert f"heat{weight:.3g} [{low:.3g}, {high:.3g}]" in text
    assert f"{found.multipliers[0]:.3g}" in text
    assert rooms.recovery.identification.findings[0] in text
    assert "<script" not in fragment


# ------------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def pages(rooms, grid, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    for name, run in (("rooms", rooms), ("grid", grid)):
        (folder / f"{name}.html").write_text(rendered(run), encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in ("rooms", "grid")}


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["rooms", "grid"])
def test_the_page_in_a_browser(chrome, pages, name, width, dark):
    page = chrome.open(pages[name], width=width, dark=dark)
    page.check(pages[name], width)
    if width == 1280 and not dark:
        assert page.faults() == []
    assert page.evaluate(
        "[...document.querySelectorAll('.bar')].filter(b => b.checkVisibility())"
        ".every(b => b.getBoundingClientRect().width > 60)"
    )


TIP = "(t => t.hidden ? '' : t.textContent)(document.querySelector('.tip'))"


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_pointing_at_a_map_tells_its_value(chrome, pages, grid, width):
    page = chrome.open(pages["grid"], width=width)
    assert page.evaluate(TIP) == ""
    page.point(".cells", across=0.5, down=0.9)  # the middle cell of the last row
    value = short(float(grid.recovery.standardised.objective.reward[22]))
    assert page.evaluate(TIP) == f"row 4, column 2: reward {value}"
    inside = "(b => b.left >= 0 && b.right <= innerWidth && b.top >= 0 && b.bottom <= innerHeight)"
    assert page.evaluate(f"{inside}(document.querySelector('.tip').getBoundingClientRect())")
    # The frame lies round that cell: a fifth of the map each way.
    frame = page.evaluate(
        "(([s, m]) => [(s.x - m.x) / m.width, (s.y - m.y) / m.height])"
        "(['.spot', '.cells'].map(q => document.querySelector(q).getBBox()))"
    )
    assert frame == pytest.approx([0.4, 0.8], abs=0.01)
    page.point("h1")
    assert page.evaluate(TIP) == ""


@pytest.mark.browser
def test_the_arrow_keys_read_a_map(chrome, pages, grid):
    page = chrome.open(pages["grid"], width=390)
    page.evaluate("document.querySelector('nav a').focus()")
    page.evaluate("document.querySelectorAll('.cells')[1].focus()")
    for key, code in (("ArrowRight", 39), ("ArrowDown", 40), ("ArrowUp", 38), ("ArrowUp", 38)):
        page.press(key, code=code)
    cost = short(float(grid.recovery.standardised.objective.costs[0, 1]))
    assert page.evaluate(TIP) == f"row 0, column 1: cost {cost}"  # it does not leave the map
    page.press("Escape", code=27)
    assert page.evaluate(TIP) == ""
    # A curve is read the same way.
    page.evaluate("document.querySelector('.cells[data-label=\"feature gap\"]').focus()")
    page.press("ArrowRight", code=39)
    assert page.evaluate(TIP).startswith("iteration 2: feature gap ")


@pytest.mark.browser
def test_states_are_searched_sorted_and_chosen(chrome, pages, rooms):
    page = chrome.open(pages["rooms"], width=390)
    set_to = "(() => {{ const e = {}; e.value = {!r}; e.dispatchEvent(new Event('input')); }})()"
    names = (
        "[...document.querySelectorAll('input[type=search]')[0].closest('figure')"
        ".querySelectorAll('tbody tr:not([hidden]) th')].map(e => e.innerText)"
    )
    page.evaluate(set_to.format("document.querySelector('input[type=search]')", "BOILER"))
    assert page.evaluate(names) == ["boiler room"]
    page.evaluate(set_to.format("document.querySelector('input[type=search]')", ""))
    cost = np.asarray(rooms.recovery.objective.costs[0])
    heads = "document.querySelectorAll('th[aria-sort] button')"
    page.evaluate(f"[...{heads}].find(b => b.innerText === 'Cost').focus()")
    page.press("Enter", code=13, text="\r")
    assert page.evaluate(names)[0] == ROOMS[int(cost.argmax())]
    page.press("Enter", code=13, text="\r")
    assert cost[ROOMS.index(page.evaluate(names)[0])] == cost.min()
    page.evaluate(f"{heads}[0].click()")
    assert page.evaluate(names) == sorted(ROOMS)
    # Another state.
    shown = "document.querySelector('.choice .shown').innerText"
    before = page.evaluate(shown)
    page.evaluate("[...document.querySelectorAll('.chips label')].at(-1).click()")
    assert page.evaluate(shown).startswith("In ")
    assert page.evaluate(shown) != before


@pytest.mark.browser
def test_a_comparison_fits_a_phone(chrome, rooms, tmp_path):
    both = {"the first of them": rooms.recovery, "another one": rooms.recovery}
    page = tmp_path / "page.html"
    page.write_text(render(comparison_document(both, tacit.many.differences(both))), "utf-8")
    shown = chrome.open(page.as_uri(), width=390)
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390
    assert shown.evaluate("document.querySelectorAll('.picture').length") == 2
    # Every drawing is seen whole, and its smallest letters are no specks.
    assert shown.evaluate(
        "[...document.querySelectorAll('.picture .sheet')]"
        ".every(s => s.scrollWidth <= s.clientWidth + 1)"
    )
    assert (
        shown.evaluate(
            "Math.min(...[...document.querySelectorAll('.picture text')]"
            ".map(t => t.getBoundingClientRect().height))"
        )
        > 6.5
    )
    assert shown.faults() == []


def test_directions_are_told_by_the_moves():
    world = tacit.worlds.hill_grid(seed=0)
    moves, named = world.mdp.transitions, world.layout
    bare = Layout(named.rows, named.columns)
    told = with_directions(bare, moves.states, moves.probabilities)
    assert told.directions == named.directions
    assert told.action_names == tuple(COMPASS[step] for step in named.directions)
    # Names that were given stay; where chance decides the way, nothing is pointed at.
    given = replace(bare, action_names=("a", "b", "c", "d"))
    assert with_directions(given, moves.states, moves.probabilities).action_names == tuple("abcd")
    lake = tacit.worlds.gymnasium("FrozenLake-v1", discount=0.95).mdp.transitions
    square = Layout(4, 4)
    assert with_directions(square, lake.states, lake.probabilities) == square
    # One of four never moves: it stays. Where none moves, nobody knows.
    still = moves.states.copy()
    still[:, 0] = np.arange(25)[:, None]
    assert with_directions(bare, still, moves.probabilities).directions[0] == (0, 0)
    still[:] = np.arange(25)[:, None, None]
    assert with_directions(bare, still, moves.probabilities) == bare


def comb(rows: int = 3, columns: int = 4) -> Layout:
    """Hexagons with six moves and staying."""
    points = [(0.0, 0.0), (columns - 1.0, (rows - 1) * 0.866)]
    layout = tacit.data.sources.hexagons(points, 1.0).layout
    assert layout.hexagon == 1.0
    return layout


def test_areas_are_hexagons_or_what_is_nearest():
    layout = comb()
    for area, centre in zip(outlines(layout), layout.centres, strict=True):
        assert np.hypot(*(area - centre).T) == pytest.approx(np.full(6, 3**-0.5))
    random = np.random.default_rng(0)
    spots = random.random((12, 2)) * (3.0, 2.0)
    places = Layout(centres=tuple(map(tuple, spots.tolist())))
    areas, (across, up) = outlines(places), extent(places)
    tried = random.uniform(*np.transpose([across, up]), (300, 2))
    nearest = np.hypot(*(tried[:, None] - spots).T).argmin(axis=0)
    inside = np.array([Path(area).contains_points(tried) for area in areas])
    assert (inside.sum(axis=0) == 1).all()
    assert np.array_equal(inside.argmax(axis=0), nearest)


def test_arrows_lead_where_actions_lead_and_are_as_long_as_they_are_likely():
    layout = comb()
    run = synthetic(len(layout.centres), layout, actions=7)
    policy = np.where(np.array(layout.leads) >= 0, run.recovery.solution.policy, 0.0)
    policy /= policy.sum(axis=1, keepdims=True)
    axes = draw_policy(policy, axes_at(new_figure(3, 3), 0, 0, 3, 3), layout=layout)
    [arrows] = [one for one in axes.collections if isinstance(one, Quiver)]
    centres, leads = np.array(layout.centres), np.array(layout.leads)
    shown = (policy > LEAST_SHARE) & (leads >= 0) & ~indifferent(policy)[:, None]
    shown[:, 6] = False  # to stay is a dot
    state, action = np.nonzero(shown)
    away = centres[leads[state, action]] - centres[state]
    drawn = np.stack([arrows.U, arrows.V], axis=1)
    turned = drawn[:, 0] * away[:, 1] - drawn[:, 1] * away[:, 0]
    assert np.abs(turned).max() < 1e-12
    assert ((drawn * away).sum(axis=1) > 0).all()
    ratio = np.hypot(*drawn.T) / policy[state, action]
    assert ratio == pytest.approx(np.full(len(ratio), ratio[0]))


def test_places_survive_the_folders(tmp_path):
    layout = comb()
    moves = np.array(layout.leads)
    there = moves >= 0
    lists = tacit.Successors(np.where(there, moves, 0)[..., None], there[..., None] * 1.0)
    states = len(moves)
    mdp = tacit.MDP(lists, np.full(states, 1 / states), 0.9, available=there)
    features = tacit.Features(np.eye(states)[:, :2])
    problem = tacit.runs.Problem(mdp, features, layout=layout)
    problem.save(tmp_path / "arrays")
    save_text(problem, tmp_path / "text")
    assert (tmp_path / "text" / "places.csv").exists()
    for name in ("arrays", "text"):
        assert tacit.runs.Problem.load(tmp_path / name).layout == layout
    run = replace(synthetic(states, layout, actions=7))
    run.save(tmp_path / "run")
    assert Run.load(tmp_path / "run").layout == layout
    lines = (tmp_path / "text" / "places.csv").read_text().splitlines()
    (tmp_path / "text" / "places.csv").write_text("\n".join(lines[:-1]))
    with pytest.raises(tacit.InvalidModel, match="one row for each of the 12 states; it has 11"):
        tacit.runs.Problem.load(tmp_path / "text")


@pytest.mark.browser
def test_places_are_pointed_at_and_read_with_the_arrow_keys(chrome, tmp_path):
    layout = comb()
    run = synthetic(len(layout.centres), layout, actions=7)
    document = recovery_document(run)
    assert any(section.title == "Maps" for section in document.sections)
    file = tmp_path / "places.html"
    file.write_text(render(document), "utf-8")
    page = chrome.open(file.as_uri(), width=390)
    (left, right), (bottom, top) = extent(layout)
    s = layout.state_names.index("B2")
    x, y = layout.centres[s]
    page.point(".cells", across=(x + 0.2 - left) / (right - left), down=(top - y) / (top - bottom))
    reward = run.recovery.objective.reward
    assert page.evaluate(TIP) == f"B2: reward {short(float(reward[s]))}"
    page.evaluate("document.querySelector('.cells').focus()")
    page.press("ArrowRight", code=39)
    assert page.evaluate(TIP).startswith("C2: reward ")
    page.press("ArrowUp", code=38)
    assert page.evaluate(TIP).partition(":")[0] in ("C1", "D1")
    assert page.complaints == []


def test_painted_actions_keep_the_colours_of_their_key():
    run = synthetic(9, Layout(3, 3, action_names=("a", "b", "c", "d")))
    policy = run.recovery.solution.policy
    named = NamedRecovery(run.recovery, run.layout)
    drawn = policy_map(named)
    assert isinstance(drawn.image, str)
    for colour in PAINTED[: policy.shape[1]]:
        assert f"fill: {colour}" in drawn.image
    page = rendered(run)
    assert all(colour in page for colour in PAINTED[: policy.shape[1]])


def test_only_actions_that_can_be_taken_are_listed(rooms):
    solution = rooms.recovery.solution
    policy = solution.policy.copy()
    policy[:, 0] = 0.0
    policy /= policy.sum(axis=1, keepdims=True)
    recovery = replace(rooms.recovery, solution=replace(solution, policy=policy))
    [_, choice] = state_choice(NamedRecovery(recovery, rooms.layout))
    for option in choice.options:
        assert len(option.blocks[0].rows) == policy.shape[1] - 1


def test_the_page_of_one_group_says_which(rooms):
    config = {**rooms.config, "problem": "here/foxes", "only": "town"}
    run = dataclasses.replace(rooms, config=config)
    assert recovery_document(run).title == "What was recovered from foxes, town"
    assert recovery_document(run, private=True).title == "What was recovered"


def test_a_private_page_tells_no_state_no_episode_and_no_path(rooms):
    whole = rendered(rooms)
    shared = render(recovery_document(rooms, private=True))
    names = [*rooms.layout.state_names, str(rooms.config.get("problem") or "nowhere"), "Episode"]
    told = [name for name in names if escape(name) in whole]
    assert len(told) >= len(rooms.layout.state_names)
    assert [name for name in names if escape(name) in shared] == []
    for name in rooms.recovery.reward_names:  # what was found is still there
        assert escape(name) in shared


def test_rows_and_columns_are_called_as_in_the_names_of_cells():
    cells = tuple(f"{letter}{row}" for row in (1, 2) for letter in "ABC")
    assert map_names(Layout(2, 3, state_names=cells)) == ([*"ABC"], [*"12"])
    assert map_names(Layout(2, 3, state_names=("gate", *cells[1:]))) == ([*"012"], [*"01"])
    assert map_names(Layout(2, 3)) == ([*"012"], [*"01"])
    layout = Layout(2, 3, state_names=cells)
    drawn = str(value_map(layout, np.arange(6.0), "worth").image)
    assert all(f">{name}<" in drawn for name in "ABC12")


def kinds_of_pages(rooms: Run, grid: Run) -> dict[str, str]:
    """Every kind of page about a run: name -> HTML."""
    mdp, features, truth, layout = house()
    policy = tacit.solve(mdp, truth, solver=tacit.SoftDual(temperature=0.05)).policy
    other = features.objective([1.0], [np.array([0.15, 0.85])], [0.3])
    its = tacit.solve(mdp, other, solver=tacit.SoftDual(temperature=0.05)).policy
    halves = [
        tacit.simulate(mdp, one, trajectories=30, steps=40, seed=k)
        for k, one in enumerate((policy, its))
    ]
    both = [one.trajectory(e) for one in halves for e in range(one.episodes)]
    seen = tacit.Demonstrations.from_trajectories(both)
    seen = replace(seen, names=np.array([f"bird {e}" for e in range(60)]))
    mixture = tacit.recover(mdp, features, seen, estimator=tacit.Mixture(starts=2), throw=False)
    columns = tacit.export.memberships(mixture, seen)
    joint = tacit.recover([tacit.Task(mdp, features, one) for one in halves], throw=False)
    own = {
        name: tacit.Likelihood().fit(mdp, features, one, throw=False)
        for name, one in zip(("ann", "bob"), halves, strict=True)
    }
    told = tacit.many.differences(own)
    town = streets()
    trips = tacit.Trips(
        town, lengths(town), travelled(town, lengths(town).reward @ TRUTH, 60, GOALS)
    )
    named = Layout(4, 4, state_names=tuple(f"place {s}" for s in range(16)))
    goodness = replace(rooms.recovery.goodness, adequate=False, p_value=1e-4, absence="")
    misfit = replace(rooms, recovery=replace(rooms.recovery, goodness=goodness))
    walls = tacit_lab.worlds.walls(seed=0)
    drawn = tacit.solve(walls.mdp, walls.truth, solver=tacit.SoftDual(temperature=0.1)).policy
    walks = tacit.simulate(walls.mdp, drawn, trajectories=40, steps=30, seed=0)
    shut = run_of(walls.mdp, walls.features, walks, walls.layout, tacit.Forbidden())
    found = {
        "noisy": recovery_document(rooms),
        "optimal": recovery_document(grid),
        "misfit": recovery_document(misfit),
        "private": recovery_document(rooms, private=True),
        "types": recovery_document(Run(mixture, layout, CONFIG, trajectories=columns)),
        "tasks": recovery_document(Run(joint, layout, CONFIG)),
        "compared": comparison_document(own, told, joint),
        "forbidden": recovery_document(shut),
        "trips": recovery_document(Run(tacit.recover(trips, throw=False), named, CONFIG)),
    }
    return {name: render(document) for name, document in found.items()}


@pytest.mark.study
@pytest.mark.browser
def test_every_kind_of_page_fits_every_screen(chrome, rooms, grid, tmp_path):
    for name, text in kinds_of_pages(rooms, grid).items():
        file = tmp_path / f"{name}.html"
        file.write_text(text, "utf-8")
        for width in (1280, 390):
            for dark in (False, True):
                page = chrome.open(file.as_uri(), width=width, dark=dark)
                page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
                look = (name, width, dark)
                assert page.complaints == [], look
                assert page.evaluate("document.documentElement.scrollWidth") <= width, look
                assert page.evaluate(CONTRAST) >= 4.5, look
                empty = page.evaluate(
                    "[...document.querySelectorAll('.picture svg')].filter(s => s.checkVisibility()"
                    " && !s.querySelector('path, rect, use, text')).length"
                )
                assert empty == 0, look
                if not dark:
                    assert page.faults() == [], look
                page.close()
