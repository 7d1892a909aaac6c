"""Maps on a regular grid of pixels: read from a file, averaged over cells, compared with a log.

A map of land cover holds numbers that name classes: their mean means nothing, the share of each
class does. A map that lies elsewhere than the positions is refused, never filled in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

import numpy as np

from tacit.data.sources.places import Places
from tacit.errors import InvalidDemonstrations, InvalidModel, optional
from tacit.files.atomic import check_size, read_head, write_bytes
from tacit.files.wording import did_you_mean

# Most whole numbers of a map that are taken for classes where nobody says what they are.
MOST_CLASSES = 24
# Most whole numbers of a map that may be codes of classes: those of one byte.
MOST_CODES = 256
# Pixels for each of them, at least.
LEAST_PIXELS = 3
# Amounts change by small steps from pixel to pixel: less than this share of what numbers in any
# order would. Below six numbers no order is told from chance.
SMOOTH = 0.5
# Tags of a GeoTIFF.
SCALE, TIE, KEYS, NODATA = 33550, 33922, 34735, 42113
# Its keys: the kind of coordinates, whether a pixel is an area, and the codes of its system.
KIND_KEY, PIXEL_KEY, GEOGRAPHIC_KEY, PROJECTED_KEY = 1024, 1025, 2048, 3072
PROJECTED, GEOGRAPHIC, PIXEL_IS_POINT, USER_DEFINED = 1, 2, 2, 32767


@dataclass(frozen=True, eq=False)
class Raster:
    """Values on a regular map: an ASCII grid, a GeoTIFF, or an array without a place of its own.

    Attributes:
        values: [R, C] from the top; NaN where there is none.
        left: x of the left edge; NaN for an array, which is laid over the cells.
        top: y of the upper edge.
        step: width and height of one value.
        degrees: whether x and y are longitude and latitude; None where the file does not say.
        system: name of the coordinate system, such as EPSG:32632; "" where the file does not say.
    """

    values: np.ndarray
    left: float
    top: float
    step: tuple[float, float]
    _: KW_ONLY
    degrees: bool | None = None
    system: str = ""

    @property
    def corner(self) -> tuple[float, float]:
        """x and y of the lower left corner."""
        return self.left, self.top - len(self.values) * self.step[1]

    @property
    def extent(self) -> np.ndarray:
        """[2, 2] the lower left and the upper right corner, x and y; NaN without a place."""
        wide = self.values.shape[1] * self.step[0]
        return np.array([self.corner, (self.left + wide, self.top)])

    def scaled(self, corner: np.ndarray, scale: np.ndarray) -> Raster:
        """The same map where x and y are counted from a corner, in other units."""
        left, top = (np.array([self.left, self.top]) - corner) * scale
        step = self.step[0] * float(scale[0]), self.step[1] * float(scale[1])
        return replace(self, left=float(left), top=float(top), step=step)

    def over(self, places: Places) -> np.ndarray:
        """[S] the mean over each cell, or the value at its middle where it holds no other."""
        rows, columns = self.values.shape
        if not math.isfinite(self.left):
            half = max(places.size, 1e-12) / 2
            low, high = places.centres.min(axis=0) - half, places.centres.max(axis=0) + half
            step = ((high - low)[0] / columns, (high - low)[1] / rows)
            return replace(self, left=float(low[0]), top=float(high[1]), step=step).over(places)
        x = self.left + (np.arange(columns) + 0.5) * self.step[0]
        y = self.top - (np.arange(rows) + 0.5) * self.step[1]
        every = np.stack([*np.meshgrid(x, y)], axis=-1).reshape(-1, 2)
        means = places.mean(self.values.ravel(), every)
        at = places.centres
        column = np.floor((at[:, 0] - self.left) / self.step[0]).astype(np.int64)
        row = np.floor((self.top - at[:, 1]) / self.step[1]).astype(np.int64)
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        middle = self.values[np.where(inside, row, 0), np.where(inside, column, 0)]
        return np.where(np.isfinite(means), means, np.where(inside, middle, np.nan))


def read_raster(path: str | Path) -> Raster:
    """The raster of an .asc, .tif or .npy file."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending in (".asc", ".grd", ".txt"):
        return _ascii_grid(path)
    if ending in (".tif", ".tiff"):
        return _geotiff(path)
    if ending != ".npy":
        raise InvalidModel(f"a map must be .asc, .tif or .npy; got {path.name}")
    check_size(path, path.stat().st_size, 2**31)
    try:
        values = np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
    except (ValueError, TypeError):
        raise InvalidModel(f"{path} must be one array of numbers, as numpy.save writes") from None
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidModel(f"{path} must have rows and columns; got shape {values.shape}")
    return Raster(values, math.nan, math.nan, (math.nan, math.nan))


def _ascii_grid(path: Path) -> Raster:
    read_head(path, "an ASCII grid", largest=2**31)
    head: dict[str, float] = {}
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines[:6]:
        key, _, value = line.strip().partition(" ")
        if key.casefold() in HEADS:
            head[key.casefold()] = _number(value, path, key)
    rows = [line.split() for line in lines[len(head) :] if line.strip()]
    for name in ("ncols", "nrows", "cellsize"):
        if name not in head:
            raise InvalidModel(
                f"{path} must be an ASCII grid, which begins with ncols, nrows, xllcorner, "
                f"yllcorner and cellsize; {name} is missing"
            )
    shape, size = (int(head["nrows"]), int(head["ncols"])), head["cellsize"]
    cells = [cell for row in rows for cell in row]
    if len(cells) != shape[0] * shape[1] or size <= 0:
        raise InvalidModel(
            f"{path} must hold {shape[0]} x {shape[1]} values; got {len(cells)} of width {size:g}"
        )
    values = np.array([_number(cell, path, "a value") for cell in cells]).reshape(shape)
    values[values == head.get("nodata_value", np.nan)] = np.nan
    left = head["xllcorner"] if "xllcorner" in head else head.get("xllcenter", 0.0) - size / 2
    low = head["yllcorner"] if "yllcorner" in head else head.get("yllcenter", 0.0) - size / 2
    degrees, system = _projection(path)
    top = low + shape[0] * size
    return Raster(values, left, top, (size, size), degrees=degrees, system=system)


def _projection(path: Path) -> tuple[bool | None, str]:
    """Whether the .prj file beside a map says degrees, and what it calls the system."""
    beside = path.with_suffix(".prj")
    if not beside.is_file():
        return None, ""
    read_head(beside, "the projection of a map", largest=2**20)
    text = beside.read_text(encoding="utf-8", errors="replace").strip()
    kind = text[:4].upper()
    if kind in ("GEOG", "PROJ") and '"' in text:  # well-known text
        return kind == "GEOG", text.split('"')[1]
    words = text.upper().split()[:2]  # Projection GEOGRAPHIC, Projection UTM
    return (words[1] == "GEOGRAPHIC", words[1]) if words[:1] == ["PROJECTION"] else (None, "")


HEADS = ("ncols", "nrows", "xllcorner", "xllcenter", "yllcorner", "yllcenter", "cellsize")
HEADS += ("nodata_value",)


def _number(text: str, path: Path, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidModel(f"{path}: {what} must be a number; got {text.strip()!r:.40}") from None


def _geotiff(path: Path) -> Raster:
    image_of = optional("PIL.Image", "a GeoTIFF needs Pillow", "geotiff").open
    read_head(path, "a GeoTIFF", largest=2**31)
    try:
        with image_of(path) as image:
            values = np.asarray(image, dtype=np.float64)
            known = image.tag_v2  # type: ignore[union-attr]
            tags = {tag: known.get(tag) for tag in (SCALE, TIE, KEYS, NODATA)}
    except (OSError, ValueError, TypeError) as error:
        raise InvalidModel(f"{path} must be a GeoTIFF of one band: {str(error)[:80]}") from None
    scale, tie = tags[SCALE], tags[TIE]
    if values.ndim != 2 or not scale or not tie or len(tie) < 6:
        raise InvalidModel(
            f"{path} must be a GeoTIFF of one band with a scale and a tie point; it has "
            f"{values.ndim} dimensions{'' if scale and tie else ' and says nothing of its place'}"
        )
    if tags[NODATA] is not None:
        values[values == float(str(tags[NODATA]).strip("\x00 "))] = np.nan
    step = float(scale[0]), float(scale[1])
    keys = _geographic_keys(tags[KEYS] or ())
    # The tie point is a corner of a pixel, or its middle.
    half = 0.5 if keys.get(PIXEL_KEY) == PIXEL_IS_POINT else 0.0
    left, top = tie[3] - (tie[0] + half) * step[0], tie[4] + (tie[1] + half) * step[1]
    kind = keys.get(KIND_KEY)
    degrees = kind == GEOGRAPHIC if kind in (PROJECTED, GEOGRAPHIC) else None
    code = keys.get(GEOGRAPHIC_KEY if degrees else PROJECTED_KEY, USER_DEFINED)
    system = "" if code == USER_DEFINED else f"EPSG:{code}"
    return Raster(values, left, top, step, degrees=degrees, system=system)


def write_geotiff(
    path: Path, values: np.ndarray, corner: Sequence[float], step: Sequence[float]
) -> None:
    """Writes values [R, C] from the top as a GeoTIFF of one band of 32-bit numbers.

    Args:
        path: of the file.
        values: NaN where there is none.
        corner: x and y of the upper left corner.
        step: width and height of one value.
    """
    import io

    image = optional("PIL.Image", "a GeoTIFF needs Pillow", "geotiff")
    tags = optional("PIL.TiffImagePlugin", "a GeoTIFF needs Pillow", "geotiff")
    directory = tags.ImageFileDirectory_v2()
    for tag, entry in ((SCALE, (*step, 0.0)), (TIE, (0.0, 0.0, 0.0, *corner, 0.0))):
        directory[tag] = tuple(map(float, entry))
        directory.tagtype[tag] = 12  # doubles
    degrees = max(map(abs, corner)) <= 361.0 and max(step) < 1.0
    kind = GEOGRAPHIC if degrees else PROJECTED
    directory[KEYS] = (1, 1, 0, 2, KIND_KEY, 0, 1, kind, PIXEL_KEY, 0, 1, 1)
    directory.tagtype[KEYS] = 3  # short whole numbers
    directory[NODATA] = "nan"
    file = io.BytesIO()
    image.fromarray(values.astype(np.float32)).save(file, format="TIFF", tiffinfo=directory)
    write_bytes(path, file.getvalue())


def _geographic_keys(directory: Sequence[int]) -> dict[int, int]:
    """Key -> number, of the keys of a GeoTIFF that are numbers: four entries each."""
    entries = np.array(directory, dtype=np.int64)
    rows = entries[4 : len(entries) // 4 * 4].reshape(-1, 4)
    return {int(key): int(value) for key, location, _, value in rows if location == 0}


def check_systems(
    maps: Mapping[str, Raster],
    paths: Mapping[str, str | Path],
    points: np.ndarray,
    *,
    axes: tuple[str, str],
    degrees: bool,
) -> None:
    """Raises where maps and positions are counted in different systems, or do not meet.

    Args:
        maps: by name; arrays without a place of their own are not looked at.
        paths: of their files.
        points: [N, 2] positions as the log has them; NaN where one is missing.
        axes: names of the columns that hold them.
        degrees: whether these names mean degrees.
    """
    placed = {name: one for name, one in maps.items() if math.isfinite(one.left)}
    known = {name: one for name, one in placed.items() if _system(one)}
    called = {name: Path(path).name for name, path in paths.items()}
    for name, one in known.items():
        first, other = next(iter(known.items()))
        both = one.system and other.system and one.system != other.system
        if both or (one.degrees is not None and other.degrees is (not one.degrees)):
            raise InvalidModel(
                f"maps must be in one coordinate system; {called[first]} is in {_system(other)}, "
                f"{called[name]} in {_system(one)}: bring them to one, as by gdalwarp -t_srs"
            )
    where = points[np.isfinite(points).all(axis=1)]
    if not len(where):
        return
    span = np.array([where.min(axis=0), where.max(axis=0)])
    log_degrees = True if degrees else False if _beyond_degrees(span) else None
    of_log = f"the log has {_spans(span, axes)}{' (degrees)' if degrees else ''}"
    for name, one in placed.items():
        map_degrees = False if one.degrees is None and _beyond_degrees(one.extent) else one.degrees
        its = f"{called[name]} {_spans(one.extent, ('x', 'y'))}"
        its += f" in {_system(one)}" if _system(one) else ""
        if log_degrees is not None and map_degrees is (not log_degrees):
            other = "degrees (gdalwarp -t_srs EPSG:4326)" if log_degrees else "that of the log"
            raise InvalidDemonstrations(
                f"a map must be in the coordinate system of the log; {of_log}, {its}: bring it to "
                f"{other}"
            )
        if not _inside(where, one).any():
            swapped = _inside(where[:, ::-1], one).any()
            mend = "x and y seem swapped" if swapped else "bring both to one coordinate system"
            raise InvalidDemonstrations(
                f"positions must lie on a map, and none does; {of_log}, {its}: {mend}"
            )


def _inside(points: np.ndarray, raster: Raster) -> np.ndarray:
    """[N] bool, the positions [N, 2] on the map."""
    low, high = raster.extent
    return ((points >= low) & (points <= high)).all(axis=1)


def _beyond_degrees(span: np.ndarray) -> bool:
    """Whether numbers from span[0] to span[1], x and y, can be no longitudes and latitudes."""
    most = np.abs(span).max(axis=0)
    return bool(most[0] > 361.0 or most[1] > 91.0)  # a margin of a pixel


def _system(raster: Raster) -> str:
    """What a map says of its coordinate system."""
    kind = {True: "degrees", False: "projected coordinates", None: ""}[raster.degrees]
    return f"{raster.system} ({kind})" if raster.system and kind else raster.system or kind


def _spans(span: np.ndarray, axes: tuple[str, str]) -> str:
    """From where to where x and y go, in words."""
    pairs = zip(axes, span.T.tolist(), strict=True)
    return ", ".join(f"{name} {low:.7g} to {high:.7g}" for name, (low, high) in pairs)


def class_codes(values: np.ndarray) -> np.ndarray:
    """[C] the whole numbers that a map holds; none where some of its numbers are not whole."""
    finite = values[np.isfinite(values)]
    return np.unique(finite) if (finite == np.round(finite)).all() else np.zeros(0)


def holds_classes(values: np.ndarray) -> bool:
    """Whether the numbers of a map [R, C] look like names of classes, not like amounts.

    They are few and whole, and not 0 and 1 alone, whose mean is the share of what is there. Many of
    them that change by small steps from pixel to pixel are amounts, such as a slope in degrees.
    """
    codes = class_codes(values)
    few = 2 <= len(codes) <= min(MOST_CLASSES, np.isfinite(values).sum() / LEAST_PIXELS)
    if not few or codes.tolist() == [0.0, 1.0]:
        return False
    rank = np.where(np.isfinite(values), np.searchsorted(codes, values), -1)
    pairs = [(rank[1:], rank[:-1]), (rank[:, 1:], rank[:, :-1])]
    one, other = (np.concatenate([pair[i].ravel() for pair in pairs]) for i in (0, 1))
    border = (one >= 0) & (other >= 0) & (one != other)
    if not border.any():
        return True
    ranks = np.concatenate([one[border], other[border]])
    shares = np.bincount(ranks, minlength=len(codes)) / len(ranks)
    chance = np.outer(shares, shares)
    gaps = np.abs(np.subtract.outer(np.arange(len(codes)), np.arange(len(codes))))
    at_random = (chance * gaps).sum() / chance[gaps > 0].sum()
    return bool(np.abs(one - other)[border].mean() >= SMOOTH * at_random)


def class_shares(
    raster: Raster, name: str, places: Places, reference: str | None
) -> tuple[dict[str, np.ndarray], str]:
    """("NAME: CLASS" -> [S] share of each cell, without the reference class; the sentence on it).

    Args:
        raster: a map of whole numbers.
        name: of the map.
        places: the cells.
        reference: the class that is left out; None for the one that most of the land is of.
    """
    codes = class_codes(raster.values)
    if not len(codes):
        raise InvalidModel(f"a map of classes must hold whole numbers alone; {name!r} does not")
    known = np.isfinite(raster.values)
    layers = (np.where(known, raster.values == code, np.nan) for code in codes)
    shares = {
        f"{code:g}": replace(raster, values=layer).over(places)
        for code, layer in zip(codes, layers, strict=True)
    }
    totals = {code: float(np.nansum(share)) for code, share in shares.items()}
    totals = {code: total for code, total in totals.items() if total > 0}
    if len(totals) < 2:
        raise InvalidModel(
            f"the map {name!r} must hold at least two classes where the log is; it holds "
            f"{''.join(totals) or 'none'}: leave it out"
        )
    if reference is not None and reference not in totals:
        raise InvalidModel(
            f"the reference of {name!r} must be one of its classes {', '.join(totals)}; got "
            f"{reference!r}{did_you_mean(reference, totals)}"
        )
    left_out = reference or max(totals, key=totals.__getitem__)
    note = (
        f"{name} holds whole numbers, {', '.join(totals)}, taken for classes: a feature for each "
        f"is its share of a cell, compared with class {left_out}, which is left out (--classes "
        f"{name}=CLASS names another one, --classes without names takes all maps for amounts)"
    )
    return {f"{name}: {code}": shares[code] for code in totals if code != left_out}, note


def without_background(values: np.ndarray) -> np.ndarray:
    """[R, C] a map of one number and none elsewhere, such as roads drawn on nothing, as 1 and 0.

    Any other map is as it was.
    """
    known = np.isfinite(values)
    lone = known.any() and not known.all() and np.ptp(values[known]) == 0
    return known.astype(np.float64) if lone else values


def map_features(
    name: str, raster: Raster, places: Places, classes: Mapping[str, str | None] | None
) -> tuple[dict[str, np.ndarray], list[str]]:
    """(Feature -> [S] of a map, the mean over each cell or the share of each class; notes)."""
    notes = []
    if not math.isfinite(raster.left):
        first, last = places.names[0], places.names[-1]
        notes.append(
            f"{name} does not say where it lies: it was laid over all cells, {first} to {last}"
        )
    if holds_classes(raster.values) if classes is None else name in classes:
        shares, note = class_shares(raster, name, places, (classes or {}).get(name))
        return shares, [*notes, note]
    codes = len(class_codes(raster.values))
    if classes is None and 2 < codes <= MOST_CODES:
        notes.append(
            f"{name} holds {codes} whole numbers, taken for amounts: their mean in each cell "
            f"(--classes {name} takes them for classes, --classes without names says that they "
            "are none)"
        )
    drawn = without_background(raster.values)
    if drawn is not raster.values:
        lone = raster.values[np.isfinite(raster.values)][0]
        notes.append(f"{name} holds {lone:g} or no value: no value is taken for 0, {lone:g} for 1")
    return {name: replace(raster, values=drawn).over(places)}, notes
