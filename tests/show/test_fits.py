"""Fits side by side, and the card of a model: what stands there is what was recovered."""

import re

import numpy as np
import pytest

import tacit


@pytest.fixture(scope="module")
def fits():
    place = tacit.worlds.hill_grid(seed=1, size=3, tightness=0.6)
    expert = tacit.solve(place.mdp, place.truth, solver=tacit.SoftDual(temperature=0.05))
    seen = tacit.simulate(place.mdp, expert.policy, trajectories=60, steps=40, seed=0)
    likelihood = tacit.Likelihood(level=1.0)
    full = tacit.recover(place.mdp, place.features, seen, estimator=likelihood)
    alone = tacit.recover(place.mdp, place.features.reward_alone, seen, estimator=likelihood)
    return full, alone, place, seen


def test_a_column_holds_estimates_errors_and_what_the_fit_is_worth(fits):
    full, alone, *_ = fits
    beside = tacit.side_by_side({"full": full, "reward & more": alone}, stars=True)
    rows = {row.cells[0]: row.cells[1:] for row in beside.table.rows}
    errors = full.parameters.standard_errors
    for j, name in enumerate(full.parameters.names):
        shown, is_there = rows[name], name in alone.parameters.names
        assert (shown[1] is not None) == is_there
        if np.isfinite(errors[j]):
            value, error, marks = re.fullmatch(r"(\S+) \((\S+)\)(\**)", shown[0]).groups()
            assert float(error) == pytest.approx(errors[j], rel=0.05)
            assert float(value) == pytest.approx(full.parameters.estimates[j], abs=float(error))
            levels = np.array([0.05, 0.01, 0.001])
            assert len(marks) == (full.parameters.p_values[j] < levels).sum()
    assert float(rows["log-likelihood"][0]) == pytest.approx(full.log_likelihood, abs=0.01)
    assert [float(one) for one in rows["steps"]] == [2400, 2400]
    frame = beside.frame()
    assert frame.height == len(full.parameters) + len(alone.parameters)
    assert frame.filter(frame["fit"] == "full")["estimate"].to_list() == [
        *full.parameters.estimates
    ]


def test_markdown_latex_and_html_hold_every_cell(fits):
    full, alone, *_ = fits
    beside = tacit.side_by_side({"full": full, "reward & more": alone})
    lines = beside.markdown().splitlines()
    width = {line.count("|") for line in lines if line.startswith("|")}
    assert width == {4}
    assert sum(line.startswith("|") for line in lines) == 2 + len(beside.table.rows)
    latex, page = beside.latex(), beside.html()
    assert r"reward \& more" in latex
    assert "reward &amp; more" in page
    assert latex.count(r"\\") == 1 + len(beside.table.rows)
    assert f"$-{abs(full.log_likelihood):.2f}$" in latex
    for row in beside.table.rows:
        assert row.cells[0] in page


def test_fits_to_other_steps_are_not_compared_by_criteria(fits):
    full, _, place, seen = fits
    half = full.refit  # the same options
    other = tacit.recover(
        place.mdp, place.features, seen.select(np.arange(30)), estimator=tacit.Likelihood(level=1.0)
    )
    assert "different steps" in " ".join(tacit.side_by_side(full, other).notes)
    assert "different steps" not in " ".join(tacit.side_by_side(full, half(seed=1)).notes)
    with pytest.raises(tacit.InvalidModel, match="takes recoveries; got int"):
        tacit.side_by_side(3)
    with pytest.raises(tacit.InvalidModel, match="at least one"):
        tacit.side_by_side()


def test_without_a_noise_there_are_no_coefficients_and_it_says_so(fits):
    full, _, place, seen = fits
    optimal = tacit.recover(
        place.mdp, place.features, seen, estimator=tacit.Explanation(), throw=False
    )
    beside = tacit.side_by_side({"noisy": full, "optimal": optimal})
    assert all(row.cells[2] is None for row in beside.table.rows[: len(full.parameters)])
    assert any("optimal" in note for note in beside.notes)
    card = optimal.model_card()
    assert "there are no standard errors" in card
    assert "reward" in card


def test_the_card_has_its_six_parts_and_limits_of_its_own(fits, tmp_path):
    full, alone, place, _ = fits
    card = full.model_card(place.layout)
    heads = re.findall(r"^## (.*)$", card, re.M)
    assert heads[0] == "What it is"
    assert heads[-1] == "What it must not be used for"
    assert "Steps: 2400." in card
    assert len(heads) == 6
    misfit = alone.model_card()
    assert not alone.goodness.adequate
    assert "does not fit what was seen" in misfit.split(heads[-1])[1]
    assert "does not fit what was seen" not in card.split(heads[-1])[1]
    full.save(tmp_path / "run")
    kept = tacit.Recovery.load(tmp_path / "run").model_card()
    assert "not kept with the model" in kept


def test_the_card_of_types_has_the_coefficients_of_each(fits):
    _, _, place, seen = fits
    mixture = tacit.recover(
        place.mdp, place.features.reward_alone, seen, estimator=tacit.Mixture(types=2), throw=False
    )
    card = mixture.model_card()
    assert "(type 0)" in card
    assert "(type 1)" in card
    assert "2 types" in card
