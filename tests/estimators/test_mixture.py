"""Mixtures of noisy experts: no step falls, types are told apart, errors count what is unknown."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import experts
import oracles
import tacit
from kinds import told
from strategies import draws
from tacit import Kind
from tacit.cli import main
from tacit.estimators.types import degrees, search
from tacit.folders.problem import Problem
from tacit.folders.runs import Run
from tacit.likelihood.kinds import StepUnits, log_likelihood
from tacit.likelihood.start import maximum
from tacit.model.features.design import Design
from tacit.model.layout import Layout
from tacit.show import Document
from tacit.show.html import render
from tacit.show.page import recovery_document
from tacit.show.tables import Table


@cache
def world(constraints: int = 0) -> tacit.worlds.World:
    """Twelve states, three actions, three features."""
    return tacit.worlds.random(3, states=12, actions=3, constraints=constraints, features=3)


def policy(coefficients, constraints: int = 0) -> np.ndarray:
    """[S, A] of coefficients in units of the noise, reward first, by an oracle."""
    place = world(constraints)
    return experts.policy_of(place.mdp, place.features, [np.array(c) for c in coefficients])


def joined(policies, trajectories: int = 30, steps: int = 50, *, seed: int = 0, constraints=0):
    """(demonstrations, [E] the true types): so many trajectories of each policy."""
    seen, mdp = [], world(constraints).mdp
    for k, one in enumerate(policies):
        drawn = tacit.simulate(mdp, one, trajectories=trajectories, steps=steps, seed=97 * seed + k)
        seen += [drawn.trajectory(e) for e in range(trajectories)]
    types = np.repeat(np.arange(len(policies)), trajectories)
    return tacit.Demonstrations.from_trajectories(seen), types


APART = ((2.4, 0.7, 0.3),), ((0.3, 0.7, 2.4),)


@cache
def two_types():
    """(demonstrations, truth) of two types that differ."""
    return joined([policy(one) for one in APART])


@cache
def fitted() -> object:
    """The mixture of two types found in them."""
    return tacit.Mixture().fit(world().mdp, world().features, two_types()[0])


def trajectories_of(seen) -> StepUnits:
    place = world()
    return StepUnits.trajectories(place.mdp, Design.of(place.mdp, place.features), seen)


def agreement(found, truth) -> float:
    """Share of trajectories of the right type, whatever the types are numbered."""
    right = float((found.assigned == truth).mean())
    return max(right, 1.0 - right)


def test_two_types_are_told_apart():
    found, (_, truth) = fitted(), two_types()
    # Where the true policies tell: log-likelihoods that differ by more than 3 nats.
    seen = trajectories_of(two_types()[0])
    each = seen.sums(np.log(np.stack([policy(one) for one in APART])))
    clear = np.abs(each[:, 0] - each[:, 1]) > 3.0
    assert clear.mean() > 0.8
    right = found.assigned[clear] == truth[clear]
    assert max(right.mean(), 1.0 - right.mean()) >= 0.95
    assert found.shares.sum() == pytest.approx(1.0)
    assert (found.share_intervals[:, 0] <= 0.5).all()
    assert (found.share_intervals[:, 1] >= 0.5).all()
    order = [0, 1] if agreement(found, truth) == (found.assigned == truth).mean() else [1, 0]
    for k, which in enumerate(order):
        ends = found.types[which].parameters.at(0.999).intervals
        truth_k = np.array(APART[k][0])
        assert ((ends[:, 0] <= truth_k) & (truth_k <= ends[:, 1])).all()


def test_no_step_lowers_the_likelihood():
    stages = fitted().history["log_likelihood"]
    assert len(stages) == 3
    # Values are exact to 1e-9 a step: rounding of the sum of 3000 logarithms.
    assert np.diff(stages).min() > -1e-7
    seen = trajectories_of(two_types()[0])
    pooled = maximum(seen.whole, tacit.Likelihood())
    for shared in (False, True):
        about = {"starts": 2, "seed": 1, "shared": shared}
        best = [
            log_likelihood(search(seen, tacit.Likelihood(max_steps=steps), pooled, 3, **about))
            for steps in (1, 3, 300)
        ]
        assert np.diff([-pooled.loss, *best[1:]]).min() > 0
        assert best[0] <= best[1]


def test_the_likelihood_and_its_slope_are_those_of_an_oracle():
    found, seen = fitted(), two_types()[0]
    rows = trajectories_of(seen)

    def observed(theta) -> float:
        parts = rows.sums(np.log(np.stack([policy((one,)) for one in theta])))
        return float(np.logaddexp.reduce(parts + np.log(found.shares), axis=1).sum())

    theta = np.stack([one.parameters.estimates for one in found.types])
    assert observed(theta) == pytest.approx(found.log_likelihood, abs=1e-5)
    for k, j in ((0, 0), (0, 2), (1, 1)):
        step = np.zeros_like(theta)
        step[k, j] = 1e-4
        slope = (observed(theta + step) - observed(theta - step)) / 2e-4
        assert abs(slope) < 0.02  # at a maximum; a standard error is 0.1, the curvature 1e2


def test_the_curvature_is_that_of_the_observed_likelihood():
    """Gradient and Hessian by finite differences of an oracle, and the errors that they make."""
    mixed = joined([policy(((2.0, 0.9, 0.8),)), policy(((0.8, 0.9, 2.4),))], 30, 20)[0]
    rows = trajectories_of(mixed)
    scales, pooled = rows.whole.space.scales, maximum(rows.whole, tacit.Likelihood())
    found = search(rows, tacit.Likelihood(), pooled, 2, starts=4, seed=0)
    part, chain = found.parts[0], found.problem.chains[0]
    units = np.concatenate([scales, scales, [1.0, 1.0]])
    assert found.free.all()
    # At rest each share is the mean chance of its type.
    np.testing.assert_allclose(part.shares, part.membership.mean(axis=1), atol=1e-8)

    @cache
    def logarithm(theta):
        return np.log(policy((theta,)))

    def loss(x):
        z = x / units
        each = rows.sums(np.stack([logarithm(tuple(z[:3])), logarithm(tuple(z[3:6]))]))
        return -np.logaddexp.reduce(each + np.log(z[6:]), axis=1).sum()

    at, eye = part.x + np.array([0.1, 0, 0, 0, 0.1, 0, 0.05, -0.03]), np.eye(8)
    there = chain.at(at, part, 1e-12)
    slopes = [(loss(at + 1e-4 * e) - loss(at - 1e-4 * e)) / 2e-4 for e in eye]
    np.testing.assert_allclose(there.gradient, slopes, rtol=1e-5, atol=1e-4)
    around = [[chain.at(at + h * e, there, 1e-12).gradient for h in (1e-4, -1e-4)] for e in eye]
    bent = [(ahead - behind) / 2e-4 for ahead, behind in around]
    np.testing.assert_allclose(there.curvature, bent, rtol=1e-5, atol=1e-3)
    # Not knowing never adds information.
    tangents = np.concatenate([eye[:6], eye[6:7] - eye[7:]])
    (told,) = found.evidence([mixed])
    lost = tangents @ (told.complete - told.fisher) @ tangents.T
    assert np.linalg.eigvalsh(lost[:6, :6]).min() > -1e-8
    assert np.linalg.eigvalsh(lost[:6, :6]).max() > 1.0
    # The errors are those of the observed information within the sum of shares.
    inverse = np.linalg.inv(tangents @ told.fisher @ tangents.T)
    errors = np.sqrt(np.diag(tangents.T @ inverse @ tangents))
    recovered = tacit.Mixture(starts=4).fit(world().mdp, world().features, mixed)
    for k, one in enumerate(recovered.types):
        own = errors[3 * k : 3 * k + 3] / scales
        np.testing.assert_allclose(one.parameters.standard_errors, own, rtol=1e-3)
    ends, share = recovered.share_intervals[0], recovered.shares[0]
    width = np.diff(np.log(ends / (1.0 - ends)))[0] * share * (1.0 - share)  # logits are linear
    assert width == pytest.approx(2 * 1.96 * errors[6], rel=1e-3)


def test_certain_memberships_leave_the_errors_of_each_type_alone():
    sharp = [policy(((9.0, 1.0, 0.5),)), policy(((0.5, 1.0, 9.0),))]
    seen, truth = joined(sharp, 8, 200)
    found = tacit.Mixture().fit(world().mdp, world().features, seen)
    assert agreement(found, truth) == 1.0
    assert found.membership.max(axis=1).min() > 1.0 - 1e-9
    assert not told(found.findings, Kind.NOT_IDENTIFIED)
    for k, one in enumerate(found.types):
        alone = tacit.Likelihood().fit(
            world().mdp, world().features, seen.select(found.assigned == k)
        )
        plain = alone.parameters.with_errors("fisher")
        np.testing.assert_allclose(one.parameters.estimates, plain.estimates, rtol=1e-5)
        np.testing.assert_allclose(one.parameters.standard_errors, plain.standard_errors, rtol=1e-4)


def test_one_type_is_the_plain_recovery_and_bic_takes_it():
    for seed in range(draws(3)):
        seen, _ = joined([policy(((1.0, 1.5, 0.5),))], 60, 50, seed=seed + 5)
        found = tacit.recover(
            world().mdp, world().features, seen, estimator=tacit.Mixture(types=None, most=3)
        )
        assert len(found.types) == 1
        assert found.tried.tolist() == [1, 2, 3]
        assert found.criteria.argmin() == 0
        assert told(found.findings, Kind.CHOICE, number=1)
    plain = tacit.Likelihood().fit(world().mdp, world().features, seen)
    np.testing.assert_array_equal(found.types[0].reward_weights, plain.reward_weights)
    assert found.bic == pytest.approx(plain.bic, abs=1e-6)
    assert found.membership.tolist() == [[1.0]] * 60


def test_two_types_are_found_by_bic_and_asking_for_too_many_is_said():
    found = tacit.Mixture(types=None, most=3).fit(world().mdp, world().features, two_types()[0])
    assert len(found.types) == 2
    assert found.bic < found.criteria[0]
    assert found.bic == pytest.approx(fitted().bic, abs=1e-3)
    seen, _ = joined([policy(((1.0, 1.5, 0.5),))], 40, 30)
    forced = tacit.Mixture().fit(world().mdp, world().features, seen, throw=False)
    assert told(forced.findings, Kind.NOT_IDENTIFIED, number=1)
    assert degrees(_types(seen)) <= 7


def _types(seen):
    rows, options = trajectories_of(seen), tacit.Likelihood()
    return search(rows, options, maximum(rows.whole, options), 2, starts=1, seed=0)


def test_a_constraint_of_one_type_only():
    free = policy(((0.5, 0.7, 2.2), (0.0, 0.0, 0.0)), 1)
    bound = policy(((2.4, 0.7, 0.3), (1.5, 0.2, 1.3)), 1)
    seen, truth = joined([free, bound], constraints=1)
    found = tacit.Mixture().fit(world(1).mdp, world(1).features, seen)
    assert agreement(found, truth) > 0.9
    first = int((found.assigned[:30] == 1).mean() > 0.5)
    active = [bool(one.identification.active[0]) for one in found.types]
    assert active[1 - first]
    assert not active[first]
    p_values = [float(one.identification.p_values[0]) for one in found.types]
    assert p_values[1 - first] < 0.001
    assert p_values[first] > 0.05
    assert found.types[first].multipliers[0] == 0


def test_copies_of_a_constraint_are_a_set_in_the_type_that_pays():
    place = world(1)
    own = place.features.costs[0][..., :1]
    near = own + 0.01 * np.random.default_rng(0).standard_normal(own.shape)
    features = tacit.Features(place.features.reward, [own, near])
    free, bound = (
        experts.policy_of(place.mdp, features, [np.array(r), np.array([c]), np.zeros(1)])
        for r, c in (((0.5, 0.7, 2.2), 0.0), ((2.4, 0.7, 0.3), 2.5))
    )
    seen, truth = joined([free, bound], constraints=1)
    found = tacit.Mixture().fit(place.mdp, features, seen)
    assert agreement(found, truth) > 0.9
    paying = int((found.assigned[30:] == 1).mean() > 0.5)
    known = found.types[paying].identification
    assert [one.members for one in known.sets] == [(0, 1)]
    assert not known.active.any()
    assert (found.types[paying].multipliers > 0).sum() == 1
    assert told(known.findings, Kind.NOT_IDENTIFIED, constraints=(0, 1))
    assert known.selection.count == 1
    # Each may carry nothing, the other all.
    assert (known.multiplier_intervals[:, 0] == 0.0).all()
    other = found.types[1 - paying].identification
    assert (other.sets, other.selection.count, other.active.any()) == ((), 0, False)


def test_types_beside_what_is_known_beforehand():
    place, seen, free = world(), two_types()[0], fitted()
    largest = max(one.parameters.estimates[0] for one in free.types)
    fixed = tacit.Mixture(fixed={1: 0.7}).fit(place.mdp, place.features, seen)
    for one in fixed.types:
        assert one.aic == pytest.approx(2 * 2 - 2 * one.log_likelihood)
        assert one.parameters.estimates[1] == pytest.approx(0.7)
        assert one.parameters.standard_errors[1] == 0.0
    assert 0.0 < free.log_likelihood - fixed.log_likelihood < 4.0  # two true numbers
    assert fixed.degrees == free.degrees - 2
    low = tacit.Mixture(bounds={0: (0.0, largest - 0.3)}).fit(place.mdp, place.features, seen)
    found = max(one.parameters.estimates[0] for one in low.types)
    assert found == pytest.approx(largest - 0.3)
    assert low.log_likelihood < free.log_likelihood
    pulled = tacit.Mixture(prior=tacit.features.Ridge(5.0)).fit(place.mdp, place.features, seen)
    sizes = [np.linalg.norm([t.parameters.estimates for t in m.types]) for m in (pulled, free)]
    assert sizes[0] < sizes[1]
    assert pulled.log_likelihood < free.log_likelihood
    with pytest.raises(tacit.InvalidModel, match="strength"):
        tacit.Mixture(prior=tacit.features.Ridge()).fit(place.mdp, place.features, seen)


def test_status_and_findings_say_how_it_ended():
    found = fitted()
    assert found.status is tacit.RecoveryStatus.LOCAL_OPTIMUM
    assert told(found.findings, Kind.LOCAL_OPTIMUM)
    assert found.certificate.projected_gradient < 1e-5
    unsure = int((found.membership.max(axis=1) < 0.95).sum())
    assert [one.about.number for one in told(found.findings, Kind.NOT_IDENTIFIED)] == (
        [unsure] if unsure else []
    )
    place, seen = world(), two_types()[0]
    with pytest.raises(tacit.NotConverged):
        tacit.Mixture(max_rounds=1, starts=1).fit(place.mdp, place.features, seen)
    short = tacit.Mixture(max_rounds=1, starts=1).fit(place.mdp, place.features, seen, throw=False)
    assert short.status is tacit.RecoveryStatus.NOT_CONVERGED
    assert told(short.findings, Kind.NOT_CONVERGED)


def test_saved_loaded_and_shown(tmp_path):
    found = fitted()
    found.save(tmp_path / "run")
    again = tacit.Mixture.load(tmp_path / "run")
    np.testing.assert_array_equal(again.membership, found.membership)
    np.testing.assert_array_equal(again.types[1].reward_weights, found.types[1].reward_weights)
    assert again.findings == found.findings
    assert again.bic == found.bic
    assert found.summary() == again.summary()
    assert repr(found).startswith("MixtureRecovery(LOCAL_OPTIMUM, types=2")
    same = tacit.Recovery.load(tmp_path / "run")
    assert (type(same), same.summary()) == (type(found), found.summary())
    shares, weights, *_ = found.plot().axes
    assert [text.get_text() for text in shares.get_yticklabels()] == [
        f"type {k} ({share:.0%})" for k, share in enumerate(found.shares)
    ]
    assert len(weights.get_legend().get_texts()) == len(found.types)
    with pytest.raises(OSError, match=r"tacit\.Mixture\.load"):
        tacit.JointRecovery.load(tmp_path / "run")


@pytest.mark.parametrize(
    "options", [{"types": 0}, {"types": True}, {"starts": 0}, {"level": 0.0}, {"tolerance": 0.0}]
)
def test_options_are_checked(options):
    with pytest.raises(tacit.InvalidModel, match=next(iter(options))):
        tacit.Mixture(**options).fit(world().mdp, world().features, two_types()[0])


def test_trajectories_are_needed():
    place, seen = world(), two_types()[0]
    with pytest.raises(tacit.InvalidDemonstrations, match="at least 3"):
        tacit.Mixture(types=3).fit(place.mdp, place.features, seen.select([0, 1]))
    with pytest.raises(tacit.InvalidDemonstrations, match="in memory"):
        tacit.Mixture().fit(place.mdp, place.features, tacit.data.Tally.of(place.mdp, seen))


# ------------------------------------------------------------------------------- pages


def test_memberships_by_name_are_those_of_the_types():
    found, seen = fitted(), two_types()[0]
    names = np.array([f"Vole {e:02d}" for e in range(seen.episodes)])
    told = tacit.export.memberships(found, replace(seen, names=names))
    order = told["number"]
    assert sorted(order.tolist()) == list(range(seen.episodes))
    assert told["episode"].tolist() == names[order].tolist()
    assert told["type"].tolist() == found.assigned[order].tolist()
    for k in range(2):
        np.testing.assert_array_equal(told[f"type_{k}"], found.membership[order, k])
    assert (np.diff(told["z_score"]) >= 0).all()
    at = 7  # by hand: the mean log-probability of its actions under the policy of its type
    states, actions = seen.trajectory(int(order[at]))[:2]
    policy_of = found.types[int(told["type"][at])].behaviour
    by_hand = np.log(policy_of[states[: len(actions)], actions]).mean()
    assert told["log_likelihood"][at] == pytest.approx(by_hand)
    unnamed = tacit.export.memberships(found, seen)
    assert unnamed["episode"].tolist() == unnamed["number"].tolist()
    with pytest.raises(tacit.InvalidModel, match="60 trajectories; got 2"):
        tacit.export.memberships(found, seen.select([0, 1]))


def page_of(found, *, private: bool = False, **more) -> Document:
    return recovery_document(Run(found, **more), private=private)


def named_run() -> dict:
    seen = two_types()[0]
    names = np.array([f"Vole {e:02d}" for e in range(seen.episodes)])
    groups = np.where(np.arange(seen.episodes) % 3 == 0, "moor", "heath")
    columns = tacit.export.memberships(fitted(), replace(seen, names=names))
    columns["group"] = groups[columns["number"]]
    layout = Layout(state_names=tuple(f"Burrow {s}" for s in range(12)))
    config = {"problem": "/secret/voles", "command": "tacit recover /secret/voles --types 2"}
    return {"layout": layout, "trajectories": columns, "config": config}


def test_the_page_of_types_says_goodness_first_then_each_type_and_who_is_of_it():
    found, document = fitted(), page_of(fitted(), **named_run())
    heads = document.headlines
    assert [one.label for one in heads[:2]] == ["Does the model fit?", "How many types"]
    assert heads[0].verdict == "yes"
    assert [one.label.partition(" (")[0] for one in heads[2:4]] == ["type 0", "type 1"]
    tables = {one.caption: one for one in document.blocks() if isinstance(one, Table)}
    who = tables["Who is of which type"].rows
    assert len(who) == len(found.membership)
    sure = found.membership.max(axis=1)
    assert who[0].cells[0] == f"Vole {int(sure.argmin()):02d}"  # the least certain first
    for row in who:
        e = int(row.cells[0].removeprefix("Vole "))
        chances = [cell.value / 100.0 for cell in row.cells[2:4]]
        assert chances == pytest.approx(found.membership[e].tolist())
    totals = np.array([[c.value for c in row.cells[2:]] for row in tables["Groups by type"].rows])
    assert totals.sum(axis=0) == pytest.approx(found.membership.sum(axis=0))
    # A trajectory that fits no type is a warning on top.
    told = named_run()
    told["trajectories"]["p_value"] = np.r_[1e-9, np.full(59, 0.5)]
    assert page_of(found, **told).headlines[0].verdict == "no"
    assert page_of(found).headlines[0].verdict == "not tested"


def test_a_private_page_of_types_tells_no_name_and_no_path():
    whole = render(page_of(fitted(), **named_run()))
    shared = render(page_of(fitted(), private=True, **named_run()))
    for name in ("Vole", "Burrow", "moor", "secret"):
        assert name in whole
        assert name not in shared


def test_types_are_recovered_and_reported_by_one_command(tmp_path, capsys):
    place, seen = world(), two_types()[0]
    names = np.array([f"Vole {e:02d}" for e in range(seen.episodes)])
    problem = Problem(place.mdp, place.features, replace(seen, names=names))
    problem.save(tmp_path / "voles")
    run = tmp_path / "run"
    words = ["recover", str(tmp_path / "voles"), "--types", "2", "--starts", "2", "--json"]
    assert main([*words, "--out", str(run)]) == 0
    told = json.loads(capsys.readouterr().out)
    found = tacit.Mixture.load(run)
    assert told["shares"] == found.shares.tolist() == pytest.approx(fitted().shares.tolist())
    assert [len(one["reward_weights"]) for one in told["types"]] == [3, 3]
    text = (run / "report.html").read_text("utf-8")
    assert all(name in text for name in names)
    assert Run.load(run, several=True).trajectories["type_1"].shape == (60,)
    assert main([*words, "--out", str(run), "--resume"]) == 0  # it is done: told again
    assert json.loads(capsys.readouterr().out)["shares"] == told["shares"]
    assert main(["figures", str(run), "--format", "svg", "--quiet"]) == 0
    assert (run / "figures" / "beside.svg").exists()
    for more, message in (
        (["--holdout", "0.2"], "several types of demonstrators are recovered without --holdout"),
        (["--estimator", "convex"], "--types is an option of mixture"),
        (["--by", "group"], "knows who is of which"),
        (["--types", "0"], "types must be an integer, 1 or more"),
    ):
        assert main([*words, "--out", str(tmp_path / "no"), *more]) == 2
        assert message in capsys.readouterr().err
    assert main(["score", str(run), str(tmp_path / "voles")]) == 2
    assert "a mixture of types" in capsys.readouterr().err


def test_no_line_of_the_summary_is_wider_than_a_terminal():
    shown = fitted().summary()
    assert max(map(len, shown.splitlines())) <= 88


def test_two_types_of_one_kind_of_demonstrator_keep_the_constraint_that_they_share():
    """Either type does without it, as the other takes its trajectories over; not both at once."""
    rng = np.random.default_rng(0)
    mdp = tacit.MDP(rng.dirichlet(np.full(7, 0.3), size=(7, 3)), np.full(7, 1 / 7), 0.9)
    maps = rng.normal(size=(7, 3, 3))
    features = tacit.Features(maps[:, :, :2], [-maps[:, :, 2:]])
    noisy = oracles.soft_values(mdp, maps @ [1.1, 1.4, 1.2], 1.0)[1]
    seen = tacit.simulate(mdp, noisy, trajectories=40, steps=15, seed=0)
    alone = tacit.Likelihood().fit(mdp, features, seen, throw=False)
    assert alone.identification.active.all()
    two = tacit.Mixture(types=2).fit(mdp, features, seen, throw=False)
    assert two.log_likelihood >= alone.log_likelihood - 1e-6
    assert any(one.identification.active.all() for one in two.types)
