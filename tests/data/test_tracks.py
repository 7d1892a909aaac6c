"""Tracks of animals that move as animals do, drawn without tacit: the truth must come back."""

from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.checks import space_use
from tacit.cli import main
from tacit.data.sources import LogReader, guess_columns, read_raster
from tacit.show.space import MOST_EFFECTS

SIDE, WIDTH, WEST, SOUTH = 12, 100.0, 500_000.0, 5_000_000.0
# Of cover, of roads (a price), of staying, and of the length of a step, in units of the noise.
TRUTH = {"cover": 1.5, "road": 1.0, "staying": 1.2, "step length": -0.5}


def tracks(folder: Path, *, animals: int = 20, fixes: int = 120, reach: int = 1) -> list[str]:
    """A log of animals that look ahead and like to stay, and its maps: the words of `ingest`."""
    rng = np.random.default_rng(2)
    cover = rng.random((SIDE, SIDE)).round(2)
    road = np.zeros((SIDE, SIDE))
    road[:, 5] = 1.0
    cells = [(r, c) for r in range(SIDE) for c in range(SIDE)]
    around = [(i, j) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1)]
    utility, values = {}, np.zeros((SIDE, SIDE))
    for r, c in cells:
        for i, j in around:
            if 0 <= r + i < SIDE and 0 <= c + j < SIDE:
                move = TRUTH["staying"] * (i == j == 0) + TRUTH["step length"] * np.hypot(i, j)
                here = TRUTH["cover"] * cover[r, c] - TRUTH["road"] * road[r, c]
                utility[r, c, i, j] = here + move
    for _ in range(150):
        after = {key: u + 0.8 * values[key[0] + key[2], key[1] + key[3]]
                 for key, u in utility.items()}  # fmt: skip
        sums = np.zeros((SIDE, SIDE))
        for (r, c, _, _), one in after.items():
            sums[r, c] += np.exp(one - 50)
        values = np.log(sums) + 50
    lines = ["animal,hour,utm_e,utm_n"]
    for animal in range(animals):
        r, c = rng.integers(SIDE, size=2)
        for hour in range(fixes):
            x, y = rng.uniform(0.02, 0.98, 2)
            east, north = WEST + (c + x) * WIDTH, SOUTH + (SIDE - 1 - r + y) * WIDTH
            lines.append(f"a{animal},{hour},{east:.1f},{north:.1f}")
            moves = [(i, j) for i, j in around if (r, c, i, j) in utility]
            chances = np.exp([after[r, c, i, j] - values[r, c] for i, j in moves])
            i, j = moves[rng.choice(len(moves), p=chances / chances.sum())]
            r, c = r + i, c + j
    (folder / "log.csv").write_text("\n".join([*lines, ""]))
    for name, table in (("cover", cover), ("road", road)):
        head = f"ncols {SIDE}\nnrows {SIDE}\nxllcorner {WEST}\nyllcorner {SOUTH}\ncellsize {WIDTH}"
        rows = [" ".join(map(str, row)) for row in table.tolist()]
        (folder / f"{name}.asc").write_text("\n".join([head, *rows, ""]))
    words = ["ingest", str(folder / "log.csv"), "--episode", "animal", "--time", "hour"]
    words += ["--x", "utm_e", "--y", "utm_n", "--cell", f"{WIDTH:g}", "--discount", "0.8"]
    words += ["--maps", f"cover={folder / 'cover.asc'}", f"road={folder / 'road.asc'}"]
    return [*words, "--cost", "road", "--out", str(folder / "p")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracks")
    assert main(tracks(folder)) == 0
    assert main(["recover", str(folder / "p"), "--out", str(folder / "run"), "--quiet"]) == 0
    return folder / "run"


def test_movement_comes_along_and_the_truth_comes_back(run):
    recovery = tacit.Recovery.load(run)
    fitted = recovery.parameters
    truth = np.array([TRUTH[name] for name in fitted.names])
    assert (np.abs(fitted.estimates - truth) < 3.5 * fitted.standard_errors).all()
    assert recovery.goodness.p_value > 1e-3
    assert (fitted.standard_errors < 0.35).all()


def test_without_movement_habitat_takes_the_blame(tmp_path):
    assert main([*tracks(tmp_path, animals=10), "--no-movement"]) == 0
    problem = tacit.runs.Problem.load(tmp_path / "p")
    assert problem.features.reward_names == ("cover",)
    alone = tacit.recover(problem, throw=False)
    assert not alone.goodness.adequate


def test_use_of_space_is_the_mean_of_simulations(run):
    recovery, problem = tacit.Recovery.load(run), tacit.runs.Problem.load(run.parent / "p")
    seen = problem.demonstrations
    use = space_use(problem.mdp, recovery, seen)
    assert use.expected.sum() == pytest.approx(seen.steps)
    assert use.correlation > 0.85
    policy, moves = recovery.solution.policy, problem.mdp.transitions.states[:, :, 0]
    rng, counts, many = np.random.default_rng(0), np.zeros(len(policy)), 60
    cumulative = policy.cumsum(axis=1)
    lengths = np.diff(seen.offsets)
    for _ in range(many):
        at, left = seen.states[seen.offsets[:-1]].copy(), lengths.copy()
        while (left > 0).any():
            np.add.at(counts, at[left > 0], 1.0)
            draw = rng.random(len(at))[:, None]
            at = moves[at, (draw > cumulative[at]).sum(axis=1).clip(max=policy.shape[1] - 1)]
            left -= 1
    assert np.corrcoef(counts / many, use.expected)[0, 1] > 0.99
    assert np.abs(counts / many - use.expected).max() < 0.15 * use.expected.max()


def test_maps_for_other_programs_lie_where_the_log_lies(run, tmp_path, capsys):
    tiff, table = tmp_path / "use.tif", tmp_path / "use.csv"
    assert main(["map", str(run), "--out", str(tiff)]) == 0
    assert main(["map", str(run), "--out", str(table)]) == 0
    assert "correlates" in capsys.readouterr().out
    raster = read_raster(tiff)
    assert (raster.left, raster.top) == (WEST, SOUTH + SIDE * WIDTH)
    assert raster.step == (WIDTH, WIDTH)
    assert raster.degrees is False
    head, first = table.read_text().splitlines()[:2]
    assert head.split(",")[:5] == ["state", "x", "y", "observed", "expected"]
    assert first.split(",")[1:3] == [str(WEST + WIDTH / 2), str(SOUTH + (SIDE - 0.5) * WIDTH)]
    assert float(first.split(",")[4]) == pytest.approx(raster.values[0, 0], rel=1e-6)
    assert main(["map", str(run), "--what", "expectd"]) == 2
    assert "did you mean 'expected'?" in capsys.readouterr().err


def test_the_report_has_use_of_space_and_strength_of_selection(run):
    page = (run / "report.html").read_text()
    assert "simulated from the fit" in page
    assert "Relative selection strength" in page
    assert 0 < page.count("Log relative selection strength of") <= MOST_EFFECTS
    assert 'id="opening"' in page


def test_moves_lead_as_far_as_the_track_asks(tmp_path):
    words = tracks(tmp_path, animals=6, fixes=60, reach=2)
    assert main(words) == 0
    layout = tacit.runs.Problem.load(tmp_path / "p").layout
    assert len(layout.action_names) == 25
    assert layout.directions[layout.action_names.index("2 north 1 east")] == (-2, 1)
    log = LogReader(episode="animal", x="utm_e", y="utm_n", cell=WIDTH, radius=1).read(
        tmp_path / "log.csv"
    )
    assert len(log.layout.action_names) == 9


def test_the_land_is_as_wide_as_it_is_said_to_be(tmp_path, capsys):
    words = tracks(tmp_path, animals=3, fixes=40)
    inner = [WEST + 2 * WIDTH, SOUTH - WIDTH, WEST + 10 * WIDTH, SOUTH + 20 * WIDTH]
    assert main([*words, "--extent", *(f"{one:g}" for one in inner)]) == 0
    said = capsys.readouterr().out
    assert "positions lie beyond the extent" in said
    layout = tacit.runs.Problem.load(tmp_path / "p").layout
    assert (layout.rows, layout.columns) == (21, 8)
    assert layout.corner == (inner[0], inner[3])
    again = [*words[:-1], str(tmp_path / "q"), "--extent", "1", "1", "0", "2"]
    assert main(again) == 2
    assert "west, south, east and north" in capsys.readouterr().err


def test_one_animal_speaks_for_itself_alone(tmp_path, capsys):
    assert main(tracks(tmp_path, animals=1, fixes=60)) == 0
    assert "one individual" in capsys.readouterr().out


def test_a_map_without_any_value_is_one_line(tmp_path, capsys):
    words = tracks(tmp_path, animals=2, fixes=30)
    text = (tmp_path / "road.asc").read_text()
    head, rows = text.split(f"cellsize {WIDTH}")
    empty = (
        head
        + f"cellsize {WIDTH}\nNODATA_value -9\n"
        + rows.replace("0.0", "-9").replace("1.0", "-9")
    )
    (tmp_path / "road.asc").write_text(empty)
    assert main(words) == 2
    line = capsys.readouterr().err.strip()
    assert "\n" not in line
    assert "road must be known in at least one state" in line


@pytest.mark.parametrize("names", [("utm_e", "utm_n"), ("utm-easting", "utm-northing"),
                                   ("location-long", "location-lat")])  # fmt: skip
def test_columns_of_movebank_and_of_utm_are_recognised(names, tmp_path):
    head = f"event-id,timestamp,{names[0]},{names[1]},individual-local-identifier"
    rows = [
        f"{n},2024-05-01 {n % 24:02d}:00:00.000,{10 + n / 100},{50 + n / 100},{'kj'[n > 24]}"
        for n in range(48)
    ]
    (tmp_path / "log.csv").write_text("\n".join([head, *rows, ""]))
    roles = guess_columns(tmp_path / "log.csv").roles
    assert (roles["x"], roles["y"]) == ((names[0],), (names[1],))
    assert roles["episode"] == ("individual-local-identifier",)
    assert roles["time"] == ("timestamp",)
