"""What is known of coefficients beforehand: bounds, fixed values, a start."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import networks
import tacit
from refusals import refusal
from tacit import Features, InvalidModel, Kind, Likelihood
from tacit.cli import main
from tacit.estimators.trips.chain import TripsChain
from tacit.folders.problem import Problem
from text_form import save_text
from travellers import GOALS, TRUTH, lengths, streets, travelled

NAMES = ("minutes", "euros", "hills")
# A search ends at a gradient of 1e-9 a step; curvatures here are of the order of one.
CLOSE = 1e-6


@pytest.fixture(scope="module")
def world():
    """A world, its features with a cost, and steps of a noisy demonstrator."""
    mdp = networks.town(3, 0.9, 0.2)
    rng = np.random.default_rng(3)
    reward, cost = rng.random((9, 4, 2)), rng.random((9, 4, 1))
    reward[mdp.ends], cost[mdp.ends] = 0.0, 0.0
    features = Features(reward, [cost], ["gain", "pain"], [["toll"]])
    table = reward @ [1.5, 0.3] - cost @ [1.0]
    policy = networks.soft_values(mdp, table)[1]
    seen = tacit.simulate(mdp, policy, trajectories=60, steps=30, seed=1)
    return mdp, features, seen


@pytest.fixture(scope="module")
def trips():
    mdp = streets()
    table = lengths(mdp).reward
    features = Features(table, reward_names=NAMES)
    seen = travelled(mdp, table @ TRUTH, 150, GOALS)
    return tacit.Trips(mdp, features, seen, discount=1.0)


def by_hand(trips, bounds):
    """[D] the likeliest coefficients within bounds, by a search that knows only the loss."""
    found = trips.journeys()[0]
    chain = TripsChain.of(found, Likelihood().tolerance)
    scales = found.space.scales

    def loss(theta):
        found = chain.sums(theta * scales).loss
        return found if np.isfinite(found) else 1e9

    start = np.array([-1.5 if bounds[0][0] is None else -0.9, -0.7, -0.1])
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000, "maxfev": 4000}
    return minimize(loss, start, bounds=bounds, method="Nelder-Mead", options=options).x


@pytest.mark.parametrize(
    "bounds", [{"hills": (None, 0.0)}, {0: (-1.0, 0.0), "euros": (-5.0, None)}], ids=str
)
def test_bounded_trips_are_the_likeliest_within_their_bounds(trips, bounds):
    found = tacit.recover(trips, estimator=Likelihood(free_reward=True, bounds=bounds))
    told = {NAMES[k] if isinstance(k, int) else k: pair for k, pair in bounds.items()}
    expected = by_hand(trips, [told.get(name, (None, None)) for name in NAMES])
    assert_allclose(found.parameters.estimates, expected, atol=1e-5)  # as far as losses tell
    said = [one for one in found.identification.findings if one.kind is Kind.ASSUMED]
    assert [one.about.feature for one in said] == ["hills" if "hills" in told else "minutes"]
    assert found.status.name == "CONVERGED"
    ends = found.parameters.intervals
    for j, name in enumerate(NAMES):
        low, high = told.get(name, (None, None))
        assert ends[j, 0] >= (-np.inf if low is None else low)
        assert ends[j, 1] <= (np.inf if high is None else high)


def mirrored(world, options):
    """The same steps, the second reward feature with the other sign."""
    mdp, features, seen = world
    turned = Features(features.reward * [1.0, -1.0], features.costs, *names_of(features))
    return options.fit(mdp, turned, seen).parameters


def names_of(features):
    return features.reward_names, features.cost_names


@pytest.mark.parametrize("low", [0.0, 0.9])
def test_an_upper_bound_is_a_lower_one_of_the_mirrored_feature(world, low):
    # The lower bound 0 is the one that every reward weight has by default.
    mdp, features, seen = world
    upper = Likelihood(free_reward=True, bounds={"pain": (None, -low)})
    lower = Likelihood(free_reward=True, bounds={"pain": (low, None)})
    ours, theirs = upper.fit(mdp, features, seen), mirrored(world, lower)
    flip = np.array([1.0, -1.0, 1.0])
    assert_allclose(ours.parameters.estimates * flip, theirs.estimates, atol=CLOSE)
    ends = np.sort(theirs.intervals * flip[:, None], axis=1)
    assert_allclose(ours.parameters.intervals, ends, atol=1e-5)
    assert_allclose(ours.parameters.p_values, theirs.p_values, atol=1e-5)
    assert ours.parameters.estimates[1] == -low  # the truth is .3: on its bound
    assert np.isnan(ours.parameters.standard_errors[1])
    assert np.isnan(ours.parameters.p_values[1]) == (low > 0)
    weights = ours.identification.reward_intervals
    assert weights[1, 0] < weights[1, 1] == (0.0 if low == 0 else weights[1, 1])


def test_a_bound_on_what_others_make_up_for_identifies_nothing(world):
    # The third feature is the sum of the others: where its bound ends, they go on.
    mdp, features, seen = world
    table = features.reward
    both = np.concatenate([table, table.sum(axis=-1, keepdims=True)], axis=-1)
    more = Features(both, features.costs, ["gain", "pain", "both"], [["toll"]])
    found = Likelihood(bounds={"both": (0.0, 0.1)}).fit(mdp, more, seen, throw=False)
    plain = Likelihood().fit(mdp, features, seen)
    assert found.log_likelihood == pytest.approx(plain.log_likelihood, abs=CLOSE)
    assert found.parameters.estimates[2] == pytest.approx(0.1)  # on its bound, by the search alone
    assert np.isinf(found.parameters.standard_errors[:2]).all()
    assert np.isfinite(found.parameters.standard_errors[3])
    findings = found.identification.findings
    assert any(one.kind is Kind.NOT_IDENTIFIED for one in findings)
    # A bound that does hold it is told as before.
    held = Likelihood(bounds={"gain": (0.0, 0.2)}).fit(mdp, features, seen)
    kinds = {one.kind for one in held.identification.findings}
    assert Kind.ASSUMED in kinds
    assert Kind.NOT_IDENTIFIED not in kinds


def test_two_bounds_far_away_change_nothing(world):
    mdp, features, seen = world
    plain = Likelihood(free_reward=True).fit(mdp, features, seen)
    wide = dict.fromkeys(features.reward_names, (-50.0, 50.0))
    far = Likelihood(free_reward=True, bounds=wide).fit(mdp, features, seen)
    assert_allclose(far.parameters.intervals, plain.parameters.intervals, atol=CLOSE)
    known, again = plain.identification, far.identification
    # Two bounds are held by a penalty of 1e5 standard errors.
    assert_allclose(again.reward_intervals, known.reward_intervals, atol=1e-4)
    assert_allclose(again.multiplier_intervals, known.multiplier_intervals, atol=1e-4)


def test_a_fixed_coefficient_has_no_error_and_leaves_the_others_theirs(world):
    mdp, features, seen = world
    plain = Likelihood(free_reward=True).fit(mdp, features, seen)
    value = float(plain.parameters.estimates[0])
    found = Likelihood(free_reward=True, fixed={"gain": value}).fit(mdp, features, seen)
    # At its own estimate nothing moves, and the others know one thing more.
    assert_allclose(found.parameters.estimates, plain.parameters.estimates, atol=CLOSE)
    inner = plain.parameters.with_errors("fisher").information[1:, 1:]
    rows = plain.parameters.jacobian[1:, 1:]
    errors = np.sqrt(np.diagonal(rows @ np.linalg.inv(inner) @ rows.T))
    ours = found.parameters.with_errors("fisher")
    assert_allclose(ours.standard_errors, [0.0, *errors], rtol=1e-5)
    assert_allclose(ours.intervals[0], value)
    assert np.isnan([ours.p_values[0], ours.z[0]]).all()
    assert found.parameters.degrees == plain.parameters.degrees - 1
    said = [one for one in found.identification.findings if one.kind is Kind.ASSUMED]
    assert said[0].about.feature == "gain"
    assert "fixed" in found.summary()


def test_an_offset_is_a_feature_whose_coefficient_is_one(world):
    mdp, features, seen = world
    value = 0.7
    table = np.concatenate([features.reward, value * features.reward[..., :1]], axis=2)
    added = Features(table, features.costs, ("gain", "pain", "offset"), features.cost_names)
    plain = Likelihood(free_reward=True).fit(mdp, features, seen)
    found = Likelihood(free_reward=True, fixed={"offset": 1.0}).fit(mdp, added, seen)
    # The offset is .7 of the first feature: it takes as much from its coefficient.
    expected = plain.parameters.estimates - [value, 0.0, 0.0]
    assert_allclose(np.delete(found.parameters.estimates, 2), expected, atol=CLOSE)
    assert found.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-6)
    assert_allclose(found.solution.policy, plain.solution.policy, atol=CLOSE)


def test_a_price_that_was_fixed_is_not_tested(world):
    mdp, features, seen = world
    found = Likelihood(free_reward=True, fixed={"toll": 1e-4}).fit(mdp, features, seen)
    known = found.identification
    assert np.isnan(known.p_values).all()
    assert known.active.all()
    assert found.multipliers[0] == pytest.approx(1e-4 * found.temperature)
    about = [one.about.constraint for one in known.findings if one.kind is Kind.ASSUMED]
    assert 0 in about


def test_a_start_changes_where_the_search_begins_alone(trips):
    near = dict(zip(NAMES, TRUTH.tolist(), strict=True))
    plain = tacit.recover(trips)
    found = tacit.recover(trips, estimator=Likelihood(free_reward=True, start=near))
    assert_allclose(found.parameters.estimates, plain.parameters.estimates, atol=CLOSE)
    assert found.history["evaluations"][-1] < plain.history["evaluations"][-1]


def test_many_features_know_bounds_too(world):
    mdp, features, seen = world
    options = {"free_reward": True, "bounds": {"gain": (None, 1.0)}, "fixed": {"toll": 0.8}}
    few = Likelihood(**options).fit(mdp, features, seen)
    weak = Likelihood(**options, prior=tacit.features.Ridge(1e-9), start={"gain": 0.5})
    many = weak.fit(mdp, features, seen)
    assert_allclose(many.parameters.estimates, few.parameters.estimates, atol=1e-5)
    # A bound that the data contradict is a misfit: few features then have the loss's own curvature.
    ends = few.parameters.with_errors("fisher").intervals
    assert_allclose(many.parameters.intervals, ends, rtol=0.05)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fixed": {"gian": 1.0}}, "did you mean 'gain'"),
        ({"bounds": {9: (0, 1)}}, "gain, pain, toll"),
        ({"bounds": {"gain": (1, 0)}}, "least first"),
        ({"bounds": {"gain": 1}}, "(least, largest)"),
        ({"bounds": {"gain": (1e7, None)}}, "a least below"),
        ({"bounds": {"toll": (-1, 1)}}, "a cost"),
        ({"fixed": {"toll": -1}}, "a cost"),
        ({"fixed": {"gain": float("nan")}}, "finite"),
        ({"fixed": {"gain": "1"}}, "a number"),
        ({"fixed": {"gain": 1}, "bounds": {0: (0, 2)}}, "no bounds too"),
        ({"fixed": {"gain": 1, 0: 2}}, "stands twice"),
        ({"fixed": {"gain": 1, "pain": 1, "toll": 1}}, "to be fitted"),
        ({"start": {"gain": 3}, "bounds": {"gain": (0, 2)}}, "within its bounds"),
        ({"fixed": [1]}, "{name: ...}"),
    ],
)
def test_bad_knowledge_is_refused_in_one_line(world, options, said):
    mdp, features, seen = world
    with refusal(InvalidModel, said):
        Likelihood(free_reward=True, **options).fit(mdp, features, seen)


def test_a_folder_knows_coefficients(trips, tmp_path, capsys):
    known = {"bounds": {"hills": (None, 0.0)}, "fixed": {"euros": -0.7}, "start": {"hills": -0.1}}
    network = tacit.MDP(
        trips.mdp.transitions, trips.mdp.initial, 0.0, available=trips.mdp.available
    )
    task = network, trips.features, trips.demonstrations
    problem = Problem(*task, goal="last", discount=1.0, coefficients=known)
    for text in (True, False):
        (save_text if text else Problem.save)(problem, tmp_path / f"{text}")
        assert Problem.load(tmp_path / f"{text}").coefficients == known
    run = str(tmp_path / "run")
    assert main(["recover", str(tmp_path / "True"), "--out", run, "--no-report", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["parameters"]
    ours = tacit.recover(trips, estimator=Likelihood(free_reward=True, **known)).parameters
    assert_allclose(told["estimates"], ours.estimates)
    assert_allclose(tacit.Recovery.load(run).parameters.intervals, ours.intervals)
    path = tmp_path / "True" / "problem.toml"
    text = path.read_text()
    for line, said in (
        ("hill = 1", "did you mean 'hills'"),
        ("minutes = { uper = 0 }", "did you mean 'upper'"),
        ('minutes = "x"', "must be a number"),
    ):
        path.write_text(f"{text}{line}\n")
        assert main(["recover", str(path.parent), "--out", run, "--overwrite"]) == 2
        assert said in capsys.readouterr().err
    path.write_text(text)
    arguments = [
        "recover",
        str(path.parent),
        "--out",
        run,
        "--estimator",
        "explanation",
        "--overwrite",
    ]
    assert main(arguments) == 2
    assert "[coefficients]" in capsys.readouterr().err
