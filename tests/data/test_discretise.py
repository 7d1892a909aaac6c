"""Continuous logs become states and back: every point in the cell whose name says so."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refusal
from tacit import InvalidDemonstrations, InvalidModel
from tacit.data.sources import Discretiser

RNG = np.random.default_rng(0)
CLOUD = RNG.normal(size=(500, 2)) * [1.0, 20.0]


def within(name: str, point) -> bool:
    """Whether a point lies in the ranges that the name of a state tells."""
    found = re.findall(r"in \[(\S+), (\S+)([)\]])", name)
    assert len(found) == len(point)
    return all(
        float(low) <= x and (x <= float(high) if end == "]" else x < float(high))
        for (low, high, end), x in zip(found, point, strict=True)
    )


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_every_point_is_in_the_cell_whose_name_says_so(axes):
    # Edges with few digits, so that names tell them exactly.
    edges = [np.arange(4.0), np.array([-1.0, 0.5, 2.5]), np.arange(3.0)][:axes]
    grid = Discretiser.from_edges(edges, names=["x", "y", "z"][:axes])
    assert grid.states == [3, 6, 12][axes - 1] == len(grid.layout.state_names)
    points = np.stack([RNG.uniform(axis[0], axis[-1], 200) for axis in edges], axis=1)
    corners = np.stack([np.resize(axis, 12) for axis in edges], axis=1)
    for point in np.concatenate([points, corners]):
        state = grid(point if axes > 1 else point[0])
        assert isinstance(state, int)
        assert within(grid.layout.state_name(state), point)
    assert np.array_equal(grid(grid.centres), np.arange(grid.states))


def test_two_axes_make_a_picture():
    grid = Discretiser.from_edges([[0, 1, 2, 3], [0, 10, 20]], names=["east", "north"])
    assert (grid.layout.rows, grid.layout.columns) == (2, 3)
    assert grid([[0.5, 15], [2.5, 15], [0.5, 5]]).tolist() == [0, 2, 3]  # north is up
    assert grid.layout.state_name(2) == "east in [2, 3], north in [10, 20]"
    assert grid.layout.state_name(3) == "east in [0, 1), north in [0, 10)"
    assert np.array_equal(grid.layout.grid(grid.centres[:, 1]), [[15] * 3, [5] * 3])


def test_bins_have_equal_width_or_equally_many_points():
    even = Discretiser.fit(CLOUD, bins=(4, 5))
    assert even.states == 20
    widths = np.diff(even.edges[1])
    assert np.allclose(widths, np.ptp(CLOUD[:, 1]) / 5, rtol=1e-12)  # rounding
    many = Discretiser.fit(CLOUD[:, 0], bins=5, quantiles=True)
    counts = np.bincount(many(CLOUD[:, 0]), minlength=5)
    assert counts.tolist() == [100] * 5
    ties = Discretiser.fit([0.0] * 90 + [1.0] * 9 + [2.0], bins=10, quantiles=True)
    assert ties.states < 10  # points that coincide cannot be cut
    assert len(set(ties([0.0, 1.0, 2.0]).tolist())) >= 2


def test_clusters_send_every_point_to_the_nearest_centre():
    # Centres are in the order of their first coordinate: no two are alike there but for noise.
    middles, noise = np.array([[0.0, 0.0], [5.0, 0.0], [2.5, 5.0]]), np.random.default_rng(0)
    points = np.repeat(middles, 30, axis=0) + noise.normal(size=(90, 2)) * 0.1
    found = Discretiser.fit(points, clusters=3, names=["u", "v"])
    states = found(points)
    distances = np.linalg.norm(points[:, None] - found.centres[None], axis=2)
    assert np.array_equal(states, distances.argmin(axis=1))
    assert sorted(np.bincount(states).tolist()) == [30, 30, 30]
    # Centres of 30 points: 0.1 / sqrt(30) is a standard error; six of them.
    assert np.abs(found.centres - middles[[0, 2, 1]]).max() < 0.11
    assert len(set(found.layout.state_names)) == 3
    assert found.layout.state_name(2).startswith("u near ")
    again = Discretiser.fit(points, clusters=3)
    assert np.array_equal(again.centres, found.centres)


@settings(max_examples=12)
@given(st.integers(0, 2**31 - 1), st.sampled_from(["even", "quantiles", "clusters"]))
def test_saved_and_loaded_is_the_same_map(tmp_path_factory, seed, kind):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(40, 2))
    how = {"clusters": 4} if kind == "clusters" else {"bins": 3, "quantiles": kind == "quantiles"}
    made = Discretiser.fit(points, clip=bool(seed % 2), **how)
    path = tmp_path_factory.mktemp("maps") / "map.npz"
    made.save(path)
    read = Discretiser.load(path)
    assert np.array_equal(read(points), made(points))
    assert read.layout == made.layout
    assert read.clip == made.clip
    assert np.array_equal(read.centres, made.centres)


def test_a_changed_or_foreign_file_is_refused(tmp_path):
    path = tmp_path / "map.npz"
    Discretiser.fit(CLOUD, bins=3).save(path)
    content = bytearray(path.read_bytes())
    at = content.find(np.float64(CLOUD[:, 0].max()).tobytes())
    assert at > 0
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"is damaged|cannot be read|holds no arrays"):
        Discretiser.load(path)
    np.savez(path, apples=np.arange(3))
    with pytest.raises(OSError, match="must hold a discretiser"):
        Discretiser.load(path)
    with pytest.raises(InvalidModel, match=r"saved as \.npz; got map\.csv"):
        Discretiser.fit(CLOUD, bins=3).save(tmp_path / "map.csv")


def test_points_outside_are_refused_or_clipped():
    strict = Discretiser.fit([[0.0, 0.0], [1.0, 2.0]], bins=2, names=["x", "height"])
    with pytest.raises(
        InvalidDemonstrations, match=r"height must be in \[0, 2\], row 1 has 7 \(1 rows"
    ):
        strict([[0.5, 1.0], [0.5, 7.0]])
    for kind in ({"bins": 2}, {"clusters": 2}):
        lax = Discretiser.fit([[0.0, 0.0], [1.0, 2.0]], clip=True, **kind)
        assert lax([[9.0, 9.0]]).tolist() == lax([[1.0, 2.0]]).tolist()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Discretiser.fit(CLOUD), "either bins or clusters"),
        (lambda: Discretiser.fit(CLOUD, bins=2, clusters=2), "either bins or clusters"),
        (lambda: Discretiser.fit(CLOUD, bins=0), "bins must be a positive integer"),
        (lambda: Discretiser.fit(CLOUD, bins=2.5), "bins must be a positive integer"),
        (lambda: Discretiser.fit(CLOUD, bins=(2, 2, 2)), "one for each of 2 axes"),
        (lambda: Discretiser.fit(CLOUD, bins=2000), "bins must make 1 to 1000000 states"),
        (lambda: Discretiser.fit(CLOUD, clusters=501), "an integer in 1..500"),
        (lambda: Discretiser.fit([[1.0, 2], [1, 3]], bins=2), "x is 1 in every point"),
        (lambda: Discretiser.fit([[1.0], [np.nan]], bins=2), "row 1, axis 0 is nan"),
        (lambda: Discretiser.fit(CLOUD, bins=2, names=["x"]), "2 axes need 2 names; got 1"),
        (lambda: Discretiser.from_edges([[0, 1, 1]]), "two or more increasing numbers"),
        (lambda: Discretiser.fit(CLOUD, bins=2)([[np.inf, 0]]), "row 0, axis 0 is inf"),
        (lambda: Discretiser.fit(CLOUD, bins=2)([[1.0, 2, 3]]), "the 2 axes x, y; got shape"),
    ],
)
def test_bad_input_is_one_line(build, words):
    with refusal((InvalidModel, InvalidDemonstrations), words):
        build()


def test_logs_become_demonstrations():
    grid = Discretiser.from_edges([[0, 1, 2], [0, 1, 2]])
    seen = grid.demonstrations(
        [([[0.5, 0.5], [1.5, 0.5], [1.5, 1.5]], [0, 1]), ([[0.1, 1.9]], [2])]
    )
    assert seen.states.tolist() == [2, 3, 0]
    assert seen.actions.tolist() == [0, 1, 2]
    assert seen.final_states.tolist() == [1, -1]


def test_a_border_in_32_bits_is_inside():
    """MountainCar says -1.2 in 32 bits, which is less than -1.2 in 64."""
    edges = [np.linspace(-1.2, 0.6, 4), np.linspace(-0.07, 0.07, 3)]
    cells = Discretiser.from_edges(edges)
    corners = np.array([[-1.2, -0.07], [0.6, 0.07]], dtype=np.float32)
    assert float(corners[0, 0]) < -1.2
    exact = np.array([[-1.2, -0.07], [0.6, 0.07]])
    assert cells(corners).tolist() == cells(exact).tolist()
    with pytest.raises(InvalidDemonstrations, match="within what was seen"):
        cells(np.array([[-1.2001, 0.0]]))
