"""Draws for ArviZ: the law of the coefficients, replicates, posteriors."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import tacit


@pytest.fixture(scope="module")
def recovery():
    place = tacit.worlds.hill_grid(seed=1, size=3, tightness=0.6)
    expert = tacit.solve(place.mdp, place.truth, solver=tacit.SoftDual(temperature=0.05))
    seen = tacit.simulate(place.mdp, expert.policy, trajectories=40, steps=40, seed=0)
    likelihood = tacit.Likelihood(free_reward=True)
    return tacit.recover(
        place.mdp, place.features.reward_alone, seen, estimator=likelihood, bootstrap=30
    )


def test_parametric_draws_have_the_law_of_the_coefficients(recovery):
    draws = tacit.export.draws(recovery, count=4000, seed=3)
    table = np.concatenate([*draws.values()])
    assert [*draws] == [*recovery.parameters.names]
    assert {one.shape for one in draws.values()} == {(1, 4000)}
    errors = recovery.parameters.standard_errors
    assert np.allclose(table.mean(axis=1), recovery.parameters.estimates, atol=0.1 * errors.min())
    # 4000 draws: a standard deviation is known to 1.1 %.
    assert np.allclose(table.std(axis=1), errors, rtol=0.06)


def test_bootstrap_draws_are_the_replicates_in_units_of_the_noise(recovery):
    draws = tacit.export.draws(recovery, kind="bootstrap")
    replicates = recovery.replicates
    name = recovery.parameters.names[0]
    expected = replicates.reward_weights[:, 0] / replicates.temperatures
    assert np.allclose(draws[name][0], expected[replicates.converged])
    assert abs(draws[name].mean() - recovery.parameters.estimates[0]) < draws[name].std()


def test_a_posterior_is_given_as_it_is_and_absences_are_said(recovery, tmp_path):
    believed = tacit.checks.posterior(recovery)
    draws = tacit.export.draws(believed)
    assert np.array_equal(np.concatenate([*draws.values()]).T, believed.draws)
    recovery.save(tmp_path / "run")
    with pytest.raises(tacit.InvalidModel, match="bootstrap=200"):
        tacit.export.draws(tacit.Recovery.load(tmp_path / "run"), kind="bootstrap")
    with pytest.raises(tacit.InvalidModel, match="kind must be"):
        tacit.export.draws(recovery, kind="jackknife")
    with pytest.raises(tacit.InvalidModel, match="recovery or a posterior; got int"):
        tacit.export.draws(3)


@pytest.mark.parametrize("release", [0, 1])
def test_arviz_is_called_as_either_of_its_versions_wants(recovery, monkeypatch, release):
    arviz = ModuleType("arviz")
    if release:
        arviz.from_dict = lambda data, *, name=None: SimpleNamespace(
            attrs={}, held=data["posterior"]
        )
    else:
        arviz.from_dict = lambda posterior=None, *, prior=None: SimpleNamespace(
            attrs={}, held=posterior
        )
    monkeypatch.setitem(sys.modules, "arviz", arviz)
    made = tacit.export.inference_data(recovery, count=100)
    assert made.attrs["kind"] == "parametric"
    assert [*made.held] == [*recovery.parameters.names]


def test_without_arviz_one_line_says_what_to_install(recovery, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(tacit.InvalidModel, match=r"needs ArviZ.*\[arviz\]"):
        tacit.export.inference_data(recovery)
