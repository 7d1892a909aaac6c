"""Trips along links: an independent recursive logit draws them, and its truth must come back."""

import math
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.data.sources import LinksReader
from tacit.errors import InvalidModel

TRUTH = {"minutes": -1.0, "toll": -2.0, "type: avenue": 0.5}


def town(folder: Path, *, side: int = 5, trips: int = 500) -> None:
    """Links with two parallel ones, nodes that lie on a square, and trips by nodes and by links."""
    rng = np.random.default_rng(5)
    cells = [(r, c) for r in range(side) for c in range(side)]
    name = {cell: f"n{cell[0]}{cell[1]}" for cell in cells}
    pairs = [(a, b) for a in cells for b in cells if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    pairs += pairs[:2]  # parallel
    minutes = (1 + 2 * rng.random(len(pairs))).round(2)
    toll = (rng.random(len(pairs)) < 0.3) * 1.0
    avenue = rng.random(len(pairs)) < 0.4
    worth = TRUTH["minutes"] * minutes + TRUTH["toll"] * toll + TRUTH["type: avenue"] * avenue
    ways = np.zeros((len(cells), len(cells)))
    begins, ends = (np.array([cells.index(pair[k]) for pair in pairs]) for k in (0, 1))
    np.add.at(ways, (begins, ends), np.exp(worth))
    inverse = np.linalg.inv(np.eye(len(cells)) - ways)
    lines = [
        f"L{i},{name[a]},{name[b]},{minutes[i]},{toll[i]:g},{'avenue' if avenue[i] else 'street'}"
        for i, (a, b) in enumerate(pairs)
    ]
    (folder / "links.csv").write_text("\n".join(["id,a,b,minutes,toll,type", *lines, ""]))
    lines = [f"{name[c]},{100 * c[1]},{100 * c[0]}" for c in cells]
    (folder / "nodes.csv").write_text("\n".join(["node,x,y", *lines, ""]))
    goals = rng.choice(len(cells), 6, replace=False)
    rows = ["trip,seq,link"]
    for trip in range(trips):
        goal = rng.choice(goals)
        at = int(rng.choice([c for c in range(len(cells)) if c != goal]))
        step = 0
        while at != goal:
            out = np.flatnonzero(begins == at)
            chances = np.exp(worth[out]) * inverse[ends[out], goal]
            link = rng.choice(out, p=chances / chances.sum())
            rows.append(f"{trip},{step},L{link}")
            at, step = int(ends[link]), step + 1
    cut = next(i for i, row in enumerate(rows[1:], 1) if row.startswith("400,"))
    (folder / "trips.csv").write_text("\n".join([*rows[:cut], ""]))
    (folder / "later.csv").write_text("\n".join([rows[0], *rows[cut:], ""]))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A town with its problem and run, made by two commands that name no column."""
    folder = tmp_path_factory.mktemp("town")
    town(folder)
    words = [str(folder / "trips.csv"), "--links", str(folder / "links.csv")]
    words += ["--nodes", str(folder / "nodes.csv"), "--reward", "minutes + toll + C(type)"]
    assert main(["ingest", *words, "--out", str(folder / "p")]) == 0
    assert main(["recover", str(folder / "p"), "--out", str(folder / "run"), "--quiet"]) == 0
    return folder


def test_two_commands_recover_what_travellers_pay_for(place):
    recovery = tacit.Recovery.load(place / "run")
    fitted = recovery.parameters
    truth = np.array([TRUTH[name] for name in fitted.names])
    assert (np.abs(fitted.estimates - truth) < 3 * fitted.standard_errors).all()
    assert recovery.goodness.p_value > 1e-3  # of a true model: it errs in one of a thousand


def test_later_trips_are_scored_as_the_first_were_read(place, capsys):
    assert main(["score", str(place / "run"), str(place / "later.csv")]) == 0
    said = capsys.readouterr().out
    assert "episodes               100" in said
    assert "predicts these actions better than actions at random" in said


def test_the_report_opens_with_coefficients_the_value_of_time_and_the_network(place):
    page = (place / "run" / "report.html").read_text()
    opening = page.partition('id="opening"')[2].partition('id="findings"')[0]
    for word in ("Coefficients of the model", "Value of time", "rho squared", "AIC", "busiest"):
        assert word in opening


def test_nodes_and_links_go_by_name_wherever_they_go_by_number(place):
    recovery = tacit.Recovery.load(place / "run")
    names, actions = recovery.layout.state_names, recovery.layout.action_names
    goal = int(recovery.destinations[0])
    by_name, by_number = recovery.solve(names[goal]), recovery.solve(goal)
    assert by_name.value == by_number.value
    pair = (names.index("n11"), actions.index("to n12"))
    closed = [recovery.counterfactual(closed=[one], draws=0).surplus.estimate
              for one in (pair, ("n11", "to n12"), ("n11", "n12"))]  # fmt: skip
    assert closed[0] == closed[1] == closed[2] < 0
    start = int(recovery.origins[0])
    known = recovery.predict([start], [goal]).probabilities
    assert np.array_equal(recovery.predict([names[start]], [names[goal]]).probabilities, known)
    with pytest.raises(InvalidModel, match="no node is called 'n99'"):
        recovery.solve("n99")
    with pytest.raises(InvalidModel, match="0 lead from n00 to n44"):
        recovery.counterfactual(closed=[("n00", "n44")])
    with pytest.raises(InvalidModel, match="2 lead from n00 to n01: name the action"):
        recovery.counterfactual(closed=[("n00", "n01")])


def test_nodes_are_links_where_none_are_parallel(tmp_path):
    town(tmp_path)
    lines = (tmp_path / "links.csv").read_text().splitlines()
    (tmp_path / "single.csv").write_text("\n".join([*lines[:-2], ""]))
    ends = {one.split(",")[0]: one.split(",")[1:3] for one in lines[1:-2]}
    rows, trip = ["trip,node"], ""
    kept = [row.split(",") for row in (tmp_path / "trips.csv").read_text().splitlines()[1:]]
    lost = {row[0] for row in kept if row[2] not in ends}
    for number, _, link in (row for row in kept if row[0] not in lost):
        if number != trip:
            rows.append(f"{number},{ends[link][0]}")
        trip = number
        rows.append(f"{number},{ends[link][1]}")
    rows.insert(2, rows[1])  # it waits where it began
    (tmp_path / "nodes_of.csv").write_text("\n".join([*rows, ""]))
    links = LinksReader(links=tmp_path / "single.csv")
    by_node = links.read(tmp_path / "nodes_of.csv")
    assert any("1 rows name the node of the row before" in note for note in by_node.notes)
    kept_rows = ["trip,seq,link", *(",".join(row) for row in kept if row[0] not in lost), ""]
    (tmp_path / "links_of.csv").write_text("\n".join(kept_rows))
    by_link = links.read(tmp_path / "links_of.csv")
    for one in ("states", "actions", "final_states", "offsets"):
        first, second = (getattr(log.demonstrations, one) for log in (by_node, by_link))
        assert np.array_equal(first, second)


def test_link_size_is_one_word(tmp_path):
    town(tmp_path, trips=410)
    words = [str(tmp_path / "trips.csv"), "--links", str(tmp_path / "links.csv"), "--link-size"]
    assert main(["ingest", *words, "--out", str(tmp_path / "p")]) == 0
    problem = tacit.runs.Problem.load(tmp_path / "p")
    assert problem.features.reward_names == ("minutes", "toll", "link size")


def test_very_many_nodes_are_ways_at_each(tmp_path):
    side = 21
    cells = [(r, c) for r in range(side) for c in range(side)]
    pairs = [(a, b) for a in cells for b in ((a[0], a[1] + 1), (a[0] + 1, a[1])) if b in set(cells)]
    lines = [f"{a[0]}-{a[1]},{b[0]}-{b[1]},1" for a, b in pairs]
    (tmp_path / "links.csv").write_text("\n".join(["from,to,km", *lines, ""]))
    (tmp_path / "log.csv").write_text("trip,node\n1,0-0\n1,0-1\n1,1-1\n")
    log = LinksReader(links=tmp_path / "links.csv").read(tmp_path / "log.csv")
    assert log.layout.action_names == ("way 1", "way 2")
    assert math.isclose(log.features["km"].sum(), len(pairs))
    seen, moves = log.demonstrations, log.moves
    led = [
        log.layout.state_names[moves[s, a]] for s, a in zip(seen.states, seen.actions, strict=True)
    ]
    assert led == ["0-1", "1-1"]


LOG = "trip,node\n1,a\n1,b\n1,c\n"
LINKS = "from,to,km\na,b,1\nb,c,1\n"


@pytest.mark.parametrize(
    ("links", "log", "words"),
    [
        ("from,to,km\na,b,1\nb,a,1\nc,a,1\n", LOG, ["line 4", "'1'", "from b to c", "(1 of 2)"]),
        ("from,to,km\na,b,1\nb,c,1\na,b,2\n", LOG, ["which of 2 parallel", "--link"]),
        ("from,to,km\na,b,1\nb,c,far\n", LOG, ["line 3", "km", "'far'"]),
        ("from,to,km\na,b,1\nb,c,\n", LOG, ["line 3", "km", "missing"]),
        ("from,to,km\na,b,\nb,c,\n", LOG, ["km must be known", "missing in all"]),
        ("from,to,km\na,b,1\n,c,1\n", LOG, ["line 3", "every link begins and ends"]),
        ("from,to\na,b\nb,c\n", LOG, ["a column of numbers for each attribute"]),
        ("from,till,km\na,b,1\n", LOG, ["'to'", "till", "--to"]),
        (LINKS, "trip,place\n1,a\n1,x\n", ["nodes or links of links.csv", "--state", "--link"]),
        (LINKS, "who,node\n1,a\n1,b\n", ["--episode"]),
        ("id,from,to,km\n7,a,b,1\n8,b,c,1\n9,c,a,1\n", "trip,link\n1,7\n1,9\n",
         ["links of a trip must join", "7 ends in b", "9 begins in c"]),
    ],
)  # fmt: skip
def test_what_cannot_be_a_trip_is_one_line(links, log, words, tmp_path, capsys):
    (tmp_path / "log.csv").write_text(log)
    (tmp_path / "links.csv").write_text(links)
    asked = [str(tmp_path / "log.csv"), "--links", str(tmp_path / "links.csv")]
    assert main(["ingest", *asked, "--out", str(tmp_path / "p")]) == 2
    line = capsys.readouterr().err.strip()
    assert "\n" not in line
    for word in words:
        assert word in line
    assert not (tmp_path / "p").exists()


def test_a_link_without_a_node_is_one_line(tmp_path):
    (tmp_path / "links.csv").write_text(LINKS)
    (tmp_path / "nodes.csv").write_text("node,x,y\na,0,0\nb,1,1\n")
    reader = LinksReader(links=tmp_path / "links.csv", nodes=tmp_path / "nodes.csv")
    with pytest.raises(InvalidModel, match=r"every node .* 'c' has no row \(1 of 3\)"):
        reader.network()
