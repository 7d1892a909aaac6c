"""Rust's bus engines (1987): published coefficients and errors, by the public interface alone."""

import json

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit_lab import worlds
from tacit_lab.studies.reproduce import PRINTED, EngineFit, _redrawn

# Replacement cost, maintenance (thousandths a bin) and their outer-product errors: Rust's tables,
# as computed from these files by others to three decimals.
PUBLISHED = {
    (4,): ((10.0750, 2.2930), (1.582, 0.639)),
    (1, 2, 3): ((11.7270, 4.8259), (2.602, 1.792)),
    (1, 2, 3, 4): ((9.7558, 2.6275), (1.227, 0.618)),
}


@pytest.mark.parametrize("groups", PUBLISHED, ids=str)
def test_rust_s_engines_cost_what_he_published(data, groups):
    if not (data / "rust").is_dir():
        pytest.skip("the recordings have no folder rust")
    world = worlds.recorded_buses(groups, folder=data)
    seen = world.demonstrations[0]
    recovery = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())
    found, (points, errors) = recovery.parameters, PUBLISHED[groups]
    assert found.names == ("replacement", "maintenance")
    assert seen.steps == len(world.tables["usage"])
    # Published to three or four decimals.
    np.testing.assert_allclose(found.estimates, points, atol=5e-4)
    np.testing.assert_allclose(found.with_errors("outer").standard_errors, errors, atol=1e-3)
    np.testing.assert_allclose(world.reward_weights, points)


# Digits that are swapped or dropped in print: the others of the same column agree.
MISPRINTED = {(90, 0.0, (4,)): (0, 7.6358), (175, 0.9999, (4,)): (0, 10.0896)}


def test_both_tables_are_reproduced(data, tmp_path, capsys, monkeypatch):
    if not (data / "rust").is_dir():
        pytest.skip("the recordings have no folder rust")
    # Half of the columns, those with the misprints, to spare time; the command makes all.
    kept = {key: PRINTED[key] for key in ((90, 0.0), (175, 0.9999))}
    monkeypatch.setattr("tacit_lab.studies.reproduce.PRINTED", kept)
    words = ["reproduce", "rust", "--draws", "0", "--data", str(data), "--out", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "rust.json").read_text())["fits"] == told["fits"]
    assert len(told["fits"]) == 6
    for one in told["fits"]:
        key = one["bins"], one["discount"], tuple(one["groups"])
        printed = np.array(one["printed"])
        if key in MISPRINTED:
            place, meant = MISPRINTED[key]
            printed[place] = meant
            assert len(one["misprints"]) == 1
        # Four digits, and of the errors three: derivatives were numerical then.
        np.testing.assert_allclose(one["found"][:2], printed[:2], rtol=1e-4)
        np.testing.assert_allclose(one["found"][2:4], printed[2:4], rtol=6e-3)
        # Usage of groups 1 to 3 at 90 bins was counted otherwise: three of its steps.
        same = one["bins"] == 175 or key[2] == (4,)
        assert one["found"][4] == pytest.approx(one["printed"][4], abs=2e-3 if same else 6.0)
        assert (np.array(one["ratio"]) > 1.1).all()  # outer products against information


def test_errors_that_differ_are_judged_by_drawn_data():
    def fit(spread: float) -> EngineFit:
        return EngineFit(
            bins=90, discount=0.9999, groups=(1, 2, 3, 4), printed=(9.8, 2.6, 1.2, 0.6, -6055.0),
            found=(9.8, 2.6, 1.2, 0.6, -6050.0), fisher=np.array([0.8, 0.4]),
            spread=np.full(2, spread), misfit=0.5,
        )  # fmt: skip

    np.testing.assert_allclose(fit(0.5).ratio, 1.5)
    kinds = {spread: fit(spread).finding.kind for spread in (np.nan, 0.5, 0.01)}
    assert list(kinds.values()) == [tacit.Kind.ERRORS, tacit.Kind.ERRORS, tacit.Kind.MISFIT]


def test_data_are_redrawn_with_as_many_buses_and_months():
    world = worlds.buses(bins=30, weights=(4.0, 50.0), discount=0.9)
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=1.0))
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=40, steps=60, seed=3)
    own = {name: getattr(world, name) for name in type(world).__dataclass_fields__}
    recorded = worlds.Recorded(**own, demonstrations=(seen,), tables={})
    fit = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())
    ratio = _redrawn(recorded, fit, 0)
    assert np.isfinite(ratio).all()
    assert (ratio > 0).all()
    np.testing.assert_array_equal(ratio, _redrawn(recorded, fit, 0))
