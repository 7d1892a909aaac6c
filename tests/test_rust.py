"""Rust's bus engines (1987): published coefficients and errors, by the public interface alone."""

import numpy as np
import pytest

import tacit

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
    world = tacit.worlds.recorded_buses(groups, folder=data)
    seen = world.demonstrations[0]
    recovery = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())
    found, (points, errors) = recovery.parameters, PUBLISHED[groups]
    assert found.names == ("replacement", "maintenance")
    assert seen.steps == len(world.tables["usage"])
    # Published to three or four decimals.
    np.testing.assert_allclose(found.estimates, points, atol=5e-4)
    np.testing.assert_allclose(found.with_errors("outer").standard_errors, errors, atol=1e-3)
    np.testing.assert_allclose(world.reward_weights, points)
