"""The page a person reads first, on days when little is known."""

import dataclasses
import re

import numpy as np
import pytest

import tacit
from experts import grid
from tacit import Demonstrations
from tacit.show.quantities import coefficient_tables

STEP = Demonstrations.from_trajectories([([0], [1])])
ESTIMATORS = [
    None,
    tacit.Likelihood(),
    tacit.Convex(),
    tacit.Explanation(),
    tacit.RewardOnly(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_one_step_is_summarised_without_nan_or_odd_numbers(estimator):
    world = grid()
    recovery = tacit.recover(world.mdp, world.features, STEP, estimator=estimator, throw=False)
    page = " ".join(recovery.summary().split())
    assert not re.search(r"\bnan\b", page)
    assert max((float(share) for share in re.findall(r"([\d.]+) ?%", page)), default=0) <= 100
    assert not re.search(r"(?<![\d.,])1 (steps|states|actions|episodes|moves|trajectories)\b", page)


def test_a_reward_that_is_not_identified_is_said_not_shown():
    world = grid()
    few = Demonstrations.from_trajectories([([0, 0, 0], [0, 1, 0])])
    recovery = tacit.recover(world.mdp, world.features, few, estimator=tacit.Convex(), throw=False)
    assert np.isnan(recovery.reward_weights).all(), "the case at hand"
    page = " ".join(recovery.summary().split())
    assert "Weights of the reward: not identified, nothing these demonstrations show." in page
    assert "temperature the unit of prices" in page


def test_the_table_of_coefficients_holds_the_numbers_of_the_parameters():
    world = grid()
    policy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.1)).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=60, steps=40, seed=0)
    recovery = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())
    found = recovery.parameters
    [table] = coefficient_tables(recovery)
    rows = {row.cells[0]: row.cells[1:] for row in table.rows}
    assert list(rows) == list(found.names)
    for j, (estimate, error, z, _) in enumerate(rows.values()):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
            (found.estimates[j], *found.intervals[j]), nan_ok=True
        )
        assert error == pytest.approx(found.standard_errors[j], nan_ok=True)
        assert z == pytest.approx(found.z[j], abs=0.005, nan_ok=True)
    text = recovery.summary()
    assert table.text() in text
    assert f"AIC {recovery.aic:.6g}" in " ".join(text.split())
    # What was left out is 0: z and P of the fit with every constraint are not those of a 0.
    first = int(np.nanargmax(np.abs(found.z)))
    points = np.where(np.arange(len(found)) == first, 0.0, found.estimates)
    left = dataclasses.replace(found, estimates=points, unrestricted=found.estimates)
    assert left.p_values[first] < 0.05
    [table] = coefficient_tables(dataclasses.replace(recovery, parameters=left))
    assert np.isnan(table.rows[first].cells[3])
    assert table.rows[first].cells[4] is None


def test_what_was_left_out_and_what_does_not_fit_is_said_beside_the_numbers():
    world = tacit.worlds.hill_grid(4, tightness=0.5)
    plain = tacit.recover(world.mdp, world.features, tacit.Demonstrations.from_pairs([0], [0]))
    found, line = plain.parameters, "Errors, z and p-values are of the fit with every constraint"
    same = dataclasses.replace(found, estimates=np.ones(len(found)), unrestricted=None)
    other = dataclasses.replace(same, unrestricted=np.full(len(found), 2.0))
    assert line not in dataclasses.replace(plain, parameters=same).summary()
    text = dataclasses.replace(plain, parameters=other).summary()
    assert f"{line}: row 2, column 2" in " ".join(text.split())
    poor = dataclasses.replace(plain.goodness, adequate=False, p_value=0.01, absence="")
    known = dataclasses.replace(plain.identification, findings=tuple(poor.findings()))
    text = dataclasses.replace(plain, goodness=poor, identification=known).summary()
    assert text.count("does not fit") == 1
    assert text.startswith("The model does not fit")


def test_an_estimator_without_a_noise_has_no_table_of_coefficients():
    world = grid()
    policy = tacit.solve(world.mdp, world.truth).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=20, steps=40, seed=0)
    recovery = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Explanation())
    assert coefficient_tables(recovery) == []


def test_that_a_fit_was_not_tested_is_said():
    world = tacit.worlds.random(0, states=4, actions=2, features=2)
    seen = tacit.simulate(world.mdp, np.full((4, 2), 0.5), trajectories=4, steps=10, seed=0)
    for estimator, tested in ((tacit.Cloning(), False), (tacit.Likelihood(), True)):
        found = tacit.recover(world.mdp, world.features, seen, estimator=estimator, throw=False)
        assert ("could not be tested" in " ".join(found.summary().split())) is not tested


def test_what_is_printed_of_a_record_fits_a_line_or_three(tmp_path):
    """No page of arrays: what a person sees who types a name."""
    place = tacit.worlds.hill_grid(seed=1, size=4, tightness=0.6)
    expert = tacit.solve(place.mdp, place.truth, solver=tacit.SoftDual(temperature=0.05))
    seen = tacit.simulate(place.mdp, expert.policy, trajectories=60, steps=60, seed=0)
    found = tacit.recover(place.mdp, place.features, seen, estimator=tacit.Likelihood())
    found.save(tmp_path / "run")
    points = np.random.default_rng(0).normal(size=(200, 2))
    records = [
        found,
        found.identification,
        found.spending,
        tacit.runs.Run.load(tmp_path / "run"),
        tacit.data.sources.Discretiser.fit(points, bins=4),
        tacit.data.sources.Discretiser.fit(points, clusters=30),
        tacit.checks.holdout(place.mdp, place.features, seen),
        tacit.checks.posterior(found, {"row": (20.0, 5.0)}),
        tacit.checks.trajectory_fits(found, seen),
        tacit.checks.price_curve(place.mdp, found.objective, points=3),
    ]
    for record in records:
        assert len(repr(record)) < 300, type(record).__name__
        assert "array(" not in repr(record)


def test_text_is_wrapped_to_the_terminal(monkeypatch):
    place = tacit.worlds.hill_grid(seed=1, size=3, tightness=0.6)
    expert = tacit.solve(place.mdp, place.truth, solver=tacit.SoftDual(temperature=0.05))
    seen = tacit.simulate(place.mdp, expert.policy, trajectories=30, steps=40, seed=0)
    found = tacit.recover(place.mdp, place.features, seen, estimator=tacit.Likelihood())
    for columns, most in (("60", 60), ("200", 88)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = found.summary().splitlines()
        sentences = [line for line in lines if not line.startswith(" ")]
        assert 0.75 * most < max(map(len, sentences)) <= most
