"""Every variant with every option: what is refused is said in one sentence, and is little."""

import numpy as np
import pytest

import tacit
import variants


@pytest.fixture(scope="module")
def pairs():
    return list(variants.pairs())


def test_the_table_is_current(pairs):
    assert all("\n" not in one.refusal for one in pairs)
    assert variants.PAGE.read_text(encoding="utf-8") == variants.page(pairs)


def test_at_most_one_pair_in_ten_is_refused(pairs):
    tried = [one for one in pairs if not one.meaningless]
    assert sum(bool(one.refusal) for one in tried) <= len(tried) / 10


def test_trips_whose_noise_is_known_to_be_what_it_is_are_recovered_alike():
    free = variants.of_trips(tacit.Likelihood(level=1.0))
    known = variants.of_trips(tacit.Likelihood(level=1.0, temperature=free.temperature))
    np.testing.assert_allclose(known.parameters.estimates, free.parameters.estimates, atol=1e-6)
    assert known.temperature == pytest.approx(free.temperature, rel=1e-9)
    assert known.log_likelihood == pytest.approx(free.log_likelihood, abs=1e-8)
    moving = free.parameters.estimates[:2] > 0
    errors = [one.parameters.standard_errors[:2][moving] for one in (known, free)]
    assert (errors[0] <= errors[1]).all()


def test_resampled_types_keep_their_numbers_and_order():
    mixture, seed = tacit.Mixture(types=2, starts=2), 0
    few = variants.variants()[0].recover
    plain, drawn = (few(mixture, bootstrap=draws, seed=seed) for draws in (0, 6))
    np.testing.assert_array_equal(plain.shares, drawn.shares)
    low, high = drawn.share_intervals.T
    assert ((low >= 0.0) & (low < high) & (high <= 1.0)).all()
    assert low.sum() < 1.0 < high.sum()
    for one, other in zip(plain.types, drawn.types, strict=True):
        np.testing.assert_array_equal(one.reward_weights, other.reward_weights)
        assert not np.array_equal(
            one.identification.reward_intervals, other.identification.reward_intervals
        )


def test_every_result_has_parts():
    """One part is the result itself; of several the status is the worst, and likelihoods add."""
    few, _, tasks, trips, mixture, _ = variants.variants()
    for one in (few, trips):
        found = one.recover(one.estimator())
        assert found.parts == (found,)
    several = {one.name: one.recover(one.estimator()) for one in (tasks, mixture)}
    joint, types = several["tasks"], several["mixture"]
    assert joint.parts == joint.recoveries
    assert types.parts == types.types
    assert joint.log_likelihood == sum(one.log_likelihood for one in joint.parts)
    for found in several.values():
        assert len(found.parts) == 2
        fine = tacit.RecoveryStatus.CONVERGED
        assert found.status is not fine or all(one.status is fine for one in found.parts)
        assert found.aic == 2.0 * found.degrees - 2.0 * found.log_likelihood
