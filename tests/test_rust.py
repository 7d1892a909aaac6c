"""Rust's bus engines (1987): published coefficients and errors, by the public interface alone."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import tacit

BINS, MILES, DISCOUNT = 90, 5_000, 0.9999
# Replacement cost, maintenance (thousandths a bin) and their outer-product errors: Rust's tables,
# as computed from these files by others to three decimals.
PUBLISHED = {
    (4,): ((10.0750, 2.2930), (1.582, 0.639)),
    (1, 2, 3): ((11.7270, 4.8259), (2.602, 1.792)),
    (1, 2, 3, 4): ((9.7558, 2.6275), (1.227, 0.618)),
}


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def histories(folder: Path, groups: tuple[int, ...]):
    """One (mileage states, whether replaced) a bus from its second month on, and [N] usage."""
    odometer, replaced = defaultdict(list), defaultdict(list)
    for row in rows(folder / "odometer.csv"):
        if int(row["group"]) in groups:
            odometer[row["bus"]].append(float(row["odometer"]))
    for row in rows(folder / "replacements.csv"):
        if float(row["odometer"]) > 0:
            replaced[row["bus"]].append(float(row["odometer"]))
    walks, usage = [], []
    for bus, given in odometer.items():
        reading, at = np.array(given), np.sort(replaced[bus])
        number = np.searchsorted(at, reading)
        bins = (reading - np.r_[0.0, at][number]) / MILES
        state = bins.astype(int)
        renewed = np.diff(number) > 0
        # A new engine is at 0 somewhere within the month: its usage is rounded up.
        usage.append(np.where(renewed, np.ceil(bins[1:]).astype(int), np.diff(state)))
        walks.append((state[1:], np.r_[renewed[1:], False].astype(int)))
    return walks, np.concatenate(usage)


def world(usage: np.ndarray):
    """Keep (0) or replace (1): mileage grows by the usage seen, from where it is or from 0."""
    moves = np.zeros((BINS, 2, BINS))
    for step, share in enumerate(np.bincount(usage) / len(usage)):
        for state in range(BINS):
            moves[state, 0, min(state + step, BINS - 1)] += share
            moves[state, 1, step] += share
    features = np.zeros((BINS, 2, 2))
    features[:, 1, 0] = -1.0
    features[:, 0, 1] = -0.001 * np.arange(BINS)
    mdp = tacit.MDP(moves, np.eye(BINS)[0], DISCOUNT)
    return mdp, tacit.Features(features, reward_names=["replacement", "maintenance"])


@pytest.mark.parametrize("groups", PUBLISHED, ids=str)
def test_rust_s_engines_cost_what_he_published(data, groups):
    folder = data / "rust"
    if not folder.is_dir():
        pytest.skip("the recordings have no folder rust")
    walks, usage = histories(folder, groups)
    seen = tacit.Demonstrations.from_trajectories(walks)
    found = tacit.recover(*world(usage), seen, estimator=tacit.Likelihood()).parameters
    points, errors = PUBLISHED[groups]
    assert found.names == ("replacement", "maintenance")
    # Published to three or four decimals.
    np.testing.assert_allclose(found.estimates, points, atol=5e-4)
    np.testing.assert_allclose(found.with_errors("outer").standard_errors, errors, atol=1e-3)
