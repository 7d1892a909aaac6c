"""Maps of a log: classes are no amounts, and what lies elsewhere is refused."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.data.sources import LogReader, read_raster
from tacit.data.sources.rasters import holds_classes
from tacit.errors import InvalidDemonstrations, InvalidModel


def ingest(log, **options):
    return LogReader(**options).read(log)


SIDE, WIDTH = 6, 500.0
CORNERS = {"metres": (432000.0, 5761000.0), "degrees": (9.1, 51.9)}
# One cell of 500 m, in degrees to the east and north at that latitude.
SCALES = {"metres": (WIDTH, WIDTH), "degrees": (WIDTH / 68800.0, WIDTH / 111320.0)}
COVER = np.random.default_rng(3).choice([11, 21, 40, 52], size=(SIDE, SIDE), p=[0.4, 0.3, 0.2, 0.1])
ROAD = np.zeros((SIDE, SIDE))
ROAD[2] = 1.0
WATER = np.zeros((SIDE, SIDE))
WATER[:, 4] = 1.0
# [key, where, how many, number]: projected in zone 32, or longitude and latitude.
KEYS = {
    "metres": (1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32632),
    "degrees": (1, 1, 0, 2, 1024, 0, 1, 2, 2048, 0, 1, 4326),
}


def write_grid(path: Path, values: np.ndarray, kind: str = "metres") -> None:
    """An ASCII grid over the cells; of degrees the width to the north, which is near enough."""
    (west, south), step = CORNERS[kind], SCALES[kind][1]
    if kind == "degrees":
        values = np.repeat(values, 2, axis=1)  # cells are wider than high in degrees
    head = [f"ncols {values.shape[1]}", f"nrows {len(values)}", f"xllcorner {west}"]
    head += [f"yllcorner {south}", f"cellsize {step}", "NODATA_value -9999"]
    rows = [" ".join(f"{value:g}" for value in row) for row in values]
    path.write_text("\n".join([*head, *rows]))


def write_geotiff(path: Path, values: np.ndarray, kind: str, *, point: bool = False) -> None:
    """A GeoTIFF over the cells; where `point`, its tie is the middle of the first pixel."""
    image = pytest.importorskip("PIL.Image")
    tags = pytest.importorskip("PIL.TiffImagePlugin").ImageFileDirectory_v2()
    (west, south), (wide, high) = CORNERS[kind], SCALES[kind]
    north, half = south + len(values) * high, 0.5 if point else 0.0
    tags[33550] = (wide, high, 0.0)
    tags[33922] = (0.0, 0.0, 0.0, west + half * wide, north - half * high, 0.0)
    tags.tagtype[33550] = tags.tagtype[33922] = 12
    keys = KEYS[kind] + ((1025, 0, 1, 2) if point else ())
    tags[34735] = (*keys[:3], len(keys) // 4 - 1, *keys[4:])
    tags.tagtype[34735] = 3
    image.fromarray(values.astype(np.int32)).save(path, tiffinfo=tags)


def write_log(path: Path, kind: str, axes: tuple[str, str], number: int = 6) -> None:
    """Walks over the cells, one fix an hour."""
    random = np.random.default_rng(0)
    (west, south), (wide, high) = CORNERS[kind], SCALES[kind]
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["fox", "hour", *axes])
        for fox in range(number):
            row, column = random.integers(0, SIDE, 2)
            for hour in range(60):
                x = west + (column + random.uniform(0.05, 0.95)) * wide
                y = south + (SIDE - 1 - row + random.uniform(0.05, 0.95)) * high
                table.writerow([f"fox {fox}", hour, repr(float(x)), repr(float(y))])
                row, column = np.clip(
                    np.array([row, column]) + random.integers(-1, 2, 2), 0, SIDE - 1
                )


READ = {"episode": "fox", "time": "hour", "every": 1.0, "cell": WIDTH}


@pytest.fixture
def field(tmp_path):
    """A folder with a log in metres, one in degrees, and maps of both."""
    write_log(tmp_path / "metres.csv", "metres", ("x", "y"))
    write_log(tmp_path / "degrees.csv", "degrees", ("location-long", "location-lat"))
    for name, values in {"cover": COVER, "road": ROAD, "water": WATER}.items():
        for kind in CORNERS:
            write_grid(tmp_path / f"{name}-{kind}.asc", values, kind)
    return tmp_path


def test_classes_of_land_cover_are_shares_and_not_averaged(field):
    log = ingest(
        field / "metres.csv", **READ, x="x", y="y", maps={"cover": field / "cover-metres.asc"}
    )
    codes, counts = np.unique(COVER, return_counts=True)
    common = codes[counts.argmax()]
    land = [name for name in log.features if name not in log.spare]
    assert land == [f"cover: {code}" for code in codes if code != common]
    assert log.layout.rows == log.layout.columns == SIDE
    for code in codes[codes != common]:
        assert log.features[f"cover: {code}"].tolist() == (code == COVER).ravel().tolist()
    [told] = [note for note in log.notes if note.startswith("cover")]
    assert f"class {common}, which is left out" in told
    # A cell of four pixels has the share of each class in it.
    coarse = ingest(
        field / "metres.csv",
        **{**READ, "cell": 2 * WIDTH},
        x="x",
        y="y",
        maps={"cover": field / "cover-metres.asc"},
        classes={"cover": "21"},
    )
    assert "cover: 21" not in coarse.features
    shares = (COVER == 40).reshape(SIDE // 2, 2, SIDE // 2, 2).mean(axis=(1, 3))
    assert coarse.features["cover: 40"] == pytest.approx(shares.ravel())


def test_classes_are_asked_for_and_refused_by_name(field, capsys):
    maps = {"cover": field / "cover-metres.asc", "road": field / "road-metres.asc"}
    asked = {**READ, "x": "x", "y": "y", "maps": maps}
    amounts = ingest(field / "metres.csv", **asked, classes={})
    assert amounts.features["cover"] == pytest.approx(COVER.ravel())
    assert ingest(field / "metres.csv", **asked).features["road"] == pytest.approx(ROAD.ravel())
    for classes, words in (
        ({"cove": None}, "did you mean 'cover'"),
        ({"cover": "12"}, "one of its classes 11, 21, 40, 52; got '12'"),
    ):
        with pytest.raises(InvalidModel, match=words):
            ingest(field / "metres.csv", **asked, classes=classes)
    options = f"--episode fox --time hour --every 1 --x x --y y --cell {WIDTH:g}"
    words = [*shlex.split(options), "--maps", f"cover={maps['cover']}", "--classes", "cover=21"]
    log, out = str(field / "metres.csv"), str(field / "problem")
    assert main(["ingest", log, *words, "--cost", "cover: 52", "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost 0 made of"] == "cover: 52"
    amounts = [*words[:-1], "--out", str(field / "amounts"), "--json"]
    assert main(["ingest", log, *amounts]) == 0
    assert json.loads(capsys.readouterr().out)["reward made of"].startswith("cover, staying")


def test_what_a_map_holds_is_told_by_its_numbers():
    random = np.random.default_rng(0)
    rows, columns = np.mgrid[:40, :40]
    smooth = np.round(5 + 4 * np.sin(rows / 9) + 4 * np.cos(columns / 7))  # a slope in degrees
    patches = np.kron(random.choice([1, 2, 3, 5, 8, 13, 21], (10, 10)), np.ones((4, 4)))
    assert len(np.unique(smooth)) <= 24
    assert not holds_classes(smooth)
    assert holds_classes(patches)
    assert holds_classes(np.where(patches == 1, np.nan, patches))
    assert not holds_classes((patches > 3) * 1.0)  # shares
    assert holds_classes((patches > 3) + 1.0)
    assert not holds_classes(patches + 0.5)
    assert not holds_classes(random.integers(0, 200, (40, 40)) * 1.0)
    assert not holds_classes(np.full((4, 4), 7.0))


def test_whole_numbers_that_are_averaged_are_said_to_be_amounts(field):
    """More classes than are told by themselves, as of CORINE: a mean of codes means nothing."""
    codes = np.random.default_rng(0).permutation(SIDE * SIDE).reshape(SIDE, SIDE) + 1.0
    asked = {**READ, "x": "x", "y": "y", "maps": {"cover": field / "codes.asc"}}
    notes = {}
    for shift in (0.0, 0.5):
        write_grid(field / "codes.asc", codes + shift)
        notes[shift] = ingest(field / "metres.csv", **asked).notes
    [told] = [note for note in notes[0.0] if note not in notes[0.5]]
    assert told.startswith("cover holds 36 whole numbers")
    # Who says what the maps hold need not be told.
    write_grid(field / "codes.asc", codes)
    assert ingest(field / "metres.csv", **asked, classes={}).notes == notes[0.5]


def test_roads_drawn_on_nothing_are_no_roads_elsewhere(field):
    write_grid(field / "drawn.asc", np.where(ROAD > 0, 1, -9999))
    maps = {"road": field / "drawn.asc"}
    log = ingest(field / "metres.csv", **READ, x="x", y="y", maps=maps)
    assert log.features["road"].tolist() == ROAD.ravel().tolist()
    assert any("no value is taken for 0" in note for note in log.notes)


@pytest.mark.parametrize(
    ("log", "made", "words"),
    [
        ("degrees", "metres", r"location-long 9.1.*degrees.*432000.*gdalwarp -t_srs EPSG:4326"),
        ("metres", "degrees", "bring both to one coordinate system"),
    ],
)
def test_a_log_and_a_map_in_other_systems_are_refused(field, capsys, log, made, words):
    axes = ("x", "y") if log == "metres" else ("location-long", "location-lat")
    options = f"--episode fox --time hour --every 1 --cell {WIDTH:g} --x {axes[0]} --y {axes[1]}"
    maps = ["--maps", f"road={field / f'road-{made}.asc'}", "--out", str(field / "out")]
    assert main(["ingest", str(field / f"{log}.csv"), *shlex.split(options), *maps]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"road-{made}.asc" in told
    assert not (field / "out").exists()
    places = {"x": axes[0], "y": axes[1]}
    with pytest.raises(InvalidDemonstrations, match=words):
        ingest(field / f"{log}.csv", **READ, **places, maps={"road": field / f"road-{made}.asc"})
    # In its own system the map is where the roads are.
    own = ingest(field / f"{log}.csv", **READ, **places, maps={"road": field / f"road-{log}.asc"})
    assert 0 < own.features["road"].sum() < len(own.features["road"])


def test_the_keys_of_a_geotiff_say_its_system(field):
    write_geotiff(field / "road-metres.tif", ROAD, "metres")
    write_geotiff(field / "road-degrees.tif", ROAD, "degrees")
    one, other = (read_raster(field / f"road-{kind}.tif") for kind in CORNERS)
    assert (one.degrees, one.system) == (False, "EPSG:32632")
    assert (other.degrees, other.system) == (True, "EPSG:4326")
    assert one.extent[0] == pytest.approx(CORNERS["metres"])
    places = {"x": "x", "y": "y"}
    log = ingest(field / "metres.csv", **READ, **places, maps={"road": field / "road-metres.tif"})
    assert log.features["road"].tolist() == ROAD.ravel().tolist()
    both = {kind: field / f"road-{kind}.tif" for kind in CORNERS}
    with pytest.raises(InvalidModel, match=r"road-metres.tif is in EPSG:32632.*EPSG:4326"):
        ingest(field / "metres.csv", **READ, **places, maps=both)
    with pytest.raises(InvalidDemonstrations, match=r"in EPSG:4326 \(degrees\)"):
        ingest(field / "metres.csv", **READ, **places, maps={"r": both["degrees"]})
    # Where pixels are points, the tie is the middle of the first.
    write_geotiff(field / "point.tif", ROAD, "metres", point=True)
    assert read_raster(field / "point.tif").extent == pytest.approx(one.extent)
    # What lies beside an ASCII grid speaks for it; a local grid may have numbers like degrees.
    (field / "road-metres.prj").write_text('GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984"]]')
    assert read_raster(field / "road-metres.asc").degrees is True
    (field / "road-metres.prj").write_text("Projection    UTM\nZone 32\n")
    assert read_raster(field / "road-metres.asc").degrees is False


def test_a_map_beside_the_log_and_swapped_columns_are_refused(field):
    road = read_raster(field / "road-metres.asc")
    text = (field / "road-metres.asc").read_text().replace("xllcorner 432000", "xllcorner 442000")
    (field / "beside.asc").write_text(text)
    with pytest.raises(InvalidDemonstrations, match="must lie on a map, and none does"):
        ingest(field / "metres.csv", **READ, x="x", y="y", maps={"road": field / "beside.asc"})
    own = {"road": field / "road-metres.asc"}
    with pytest.raises(InvalidDemonstrations, match="x and y seem swapped"):
        ingest(field / "metres.csv", **READ, x="y", y="x", maps=own)
    with pytest.raises(InvalidDemonstrations, match="--x location-long --y location-lat"):
        ingest(field / "degrees.csv", **READ, x="location-lat", y="location-long")
    write_grid(field / "empty.asc", np.full(road.values.shape, -9999))
    empty = {"road": field / "empty.asc"}
    with pytest.raises(InvalidModel, match="road must be known in at least one state"):
        ingest(field / "metres.csv", **READ, x="x", y="y", maps=empty)


def test_an_array_is_said_to_be_laid_over_all_cells(field):
    np.save(field / "road.npy", ROAD)
    log = ingest(field / "metres.csv", **READ, x="x", y="y", maps={"road": field / "road.npy"})
    assert any("laid over all cells, A1 to F6" in note for note in log.notes)


def made_of(field, capsys, *cost):
    """The cost features that a problem made with these words after --cost has."""
    options = f"--episode fox --time hour --every 1 --x x --y y --cell {WIDTH:g}"
    maps = [f"{name}={field / f'{name}-metres.asc'}" for name in ("cover", "road", "water")]
    out = field / "-".join(["problem", *cost])
    words = [*shlex.split(options), "--maps", *maps, "--cost", *cost, "--out", str(out)]
    code = main(["ingest", str(field / "metres.csv"), *words])
    told = capsys.readouterr().err
    return (code, told) if code else tacit.runs.Problem.load(out).features.cost_names


def test_each_name_after_cost_is_a_constraint_of_its_own(field, capsys):
    assert made_of(field, capsys, "road", "water") == (("road",), ("water",))
    assert made_of(field, capsys, "road+water") == (("road", "water"),)
    assert made_of(field, capsys, "road+water", "cover: 40") == (("road", "water"), ("cover: 40",))
    for words in (["road", "road"], ["road+road"]):
        code, told = made_of(field, capsys, *words)
        assert code == 2
        assert "roads+water is one of two features" in told
    code, told = made_of(field, capsys, "road+watr")
    assert code == 2
    assert "did you mean 'water'" in told
