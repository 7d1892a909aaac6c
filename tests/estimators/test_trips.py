"""Recovery where trips end, some actions are not there, and nothing is discounted."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from numpy.testing import assert_allclose

import networks
import tacit
from networks import attributes, fork, model, town, travel
from tacit import (
    MDP,
    Convex,
    Demonstrations,
    Explanation,
    Features,
    InvalidDemonstrations,
    InvalidModel,
    Likelihood,
)
from tacit.data.tally import Tally
from tacit.engine.backends import backend_of
from tacit.estimators.estimate import constraint_findings
from tacit.estimators.explanation.gauge import expectation_ranges
from tacit.inference.activity import Verdict
from tacit.inference.evidence import Evidence
from tacit.inference.expectations import expectations, pull_back
from tacit.inference.findings import Kind
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design
from tacit.recovery import RecoveryStatus
from tacit.search.smooth_dual import point_at

# Every shape is compiled anew: most models here have the 9 states and 4 actions of the small town
# and two features.
SHAPE = (9, 4)
# Sums of a few hundred terms of order one.
ROUNDING = 1e-9


def table_of(features: Features, theta) -> np.ndarray:
    """[S, A] reward less costs, for coefficients of all features."""
    maps = np.concatenate([features.reward, *(-cost for cost in features.costs)], axis=2)
    return maps @ np.asarray(theta)


def driven(mdp: MDP, features: Features, theta, number: int, seed: int = 0) -> Demonstrations:
    """Trips of the noisy demonstrator with these coefficients."""
    return travel(mdp, networks.soft_values(mdp, table_of(features, theta))[1], number, seed)


def kinds(recovery) -> set[Kind]:
    return {one.kind for one in recovery.identification.findings}


# The likelihood ----------------------------------------------------------------------------------


@pytest.mark.parametrize("theta", [(0.3, 0.7), (1.0, -0.5)], ids=str)
def test_the_steps_are_as_likely_as_the_paths(theta):
    mdp = fork(1.0, *SHAPE)
    features = attributes(mdp, 2)
    seen = driven(mdp, features, (0.5, 0.5), 40)
    trips = [
        [*zip(*(part.tolist() for part in seen.trajectory(e)), strict=True), (final, -1)]
        for e, final in enumerate(seen.final_states.tolist())
    ]
    steps = StepsChain.of(mdp, Design.of(mdp, features), seen)
    fitted = maximum(steps, Likelihood(free_reward=True))
    scales = steps.space.scales

    def by_paths(theta) -> float:
        return networks.path_loss(mdp, table_of(features, theta), trips)

    x = np.array(theta) * scales
    assert fitted.lagrangian(x) == pytest.approx(by_paths(theta), rel=ROUNDING)
    point = point_at(backend_of(mdp), steps.dual, x, fitted.parts[0].values, 1e-10)
    small = 1e-5  # central differences err by its square, and by rounding over it
    slopes = [(by_paths(theta + d) - by_paths(theta - d)) / (2 * small) for d in small * np.eye(2)]
    assert_allclose(point.gradient * scales, slopes, atol=1e-6)


@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_the_likelihood_counts_expected_arrivals(discount):
    """Random moves: minus the log-likelihood of the actions, whatever the arrivals were."""
    mdp = town(3, discount, 0.3)
    features = attributes(mdp, 2)
    theta = np.array([0.8, 0.6])
    seen = driven(mdp, features, theta, 50)
    steps = StepsChain.of(mdp, Design.of(mdp, features), seen)
    fitted = maximum(steps, Likelihood())
    policy = networks.soft_values(mdp, table_of(features, theta))[1]
    loss = -np.log(policy[seen.states, seen.actions]).sum()
    assert fitted.lagrangian(theta * steps.space.scales) == pytest.approx(loss, rel=ROUNDING)


def test_origins_are_all_that_complete_trips_leave():
    mdp = town(3)
    seen = driven(mdp, attributes(mdp, 2), (0.6, 0.5), 60)
    steps = StepsChain.of(mdp, Design.of(mdp, attributes(mdp, 2)), seen)
    origins = np.bincount(seen.states[seen.offsets[:-1]], minlength=mdp.states)
    assert_allclose(steps.start[~mdp.ends], origins[~mdp.ends])
    assert steps.convex
    cut = StepsChain.of(mdp, steps.space, seen.truncate(2))
    assert not cut.convex


def test_arrivals_are_visits_and_complete_trips_lack_nothing():
    mdp, features = fork(0.8), attributes(fork(), 3)
    seen = Demonstrations.from_trajectories([([0, 2, 5], [1, 2]), ([1, 4, 6], [2, 2])])
    found = expectations(mdp, features, seen)
    by_hand = features.reward[0, 1] + 0.8 * features.reward[2, 2] + 0.64 * features.reward[5, 0]
    by_hand += features.reward[1, 2] + 0.8 * features.reward[4, 2] + 0.64 * features.reward[6, 0]
    assert_allclose(found.reward, by_hand / 2)
    assert_allclose(found.visitation[5], 0.64 / 2 / 3)
    assert all((part == 0).all() for part in found.truncation)
    assert found.horizons.mean == pytest.approx(1 + 0.8 + 0.64)
    cut = Tally.of(fork(), seen.truncate(1))
    assert cut.missing(np.zeros(7, bool)) == np.inf
    both = Tally.of(fork(), seen) + Tally.of(fork(), seen)
    assert both.missing(np.zeros(7, bool)) == 0.0


# Recovery ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("slip", [0.0, 0.2])
def test_known_coefficients_are_recovered_at_discount_1(slip):
    mdp = town(3, 1.0, slip)
    features, theta = attributes(mdp, 2), np.array([0.7, 1.0])
    seen = driven(mdp, features, theta, 400)
    found = tacit.recover(mdp, features, seen, estimator=Likelihood())
    apart = np.abs(found.parameters.estimates - theta) / found.parameters.standard_errors
    assert (apart < 3.0).all()
    counts = seen.counts(mdp)
    # The optimum is proven to be the global one where b >= 0: for certain if moves are certain.
    proven = bool((counts.sum(axis=1) - mdp.inflow(counts))[~mdp.ends].min() >= 0)
    assert proven or slip > 0
    expected = RecoveryStatus.CONVERGED if proven else RecoveryStatus.LOCAL_OPTIMUM
    assert found.status is expected
    assert (Kind.LOCAL_OPTIMUM in kinds(found)) == (not proven)
    random = -(counts.sum(axis=1) @ np.log(np.maximum(mdp.available.sum(axis=1), 1)))
    assert found.null_log_likelihood == pytest.approx(random)
    assert found.parameters.degrees == 2
    assert_allclose(found.solution.policy[mdp.ends], 0.0)
    assert_allclose(found.solution.visitation.sum(axis=1)[mdp.ends], 1.0)


def test_a_constraint_and_its_budget_are_recovered_at_discount_1():
    mdp = town(4)
    features = attributes(mdp, 2, costs=2)
    theta = np.array([0.5, 0.5, 1.5, 0.5])
    seen = driven(mdp, features, theta, 400)
    found = tacit.recover(mdp, features, seen, estimator=Likelihood())
    apart = np.abs(found.parameters.estimates - theta) / found.parameters.standard_errors
    assert (apart < 3.0).all()
    assert found.identification.active.all()
    low, high = found.identification.budget_intervals[0]
    spent = pull_back(features, found.solution.visitation)[1] @ found.cost_weights[0]
    assert found.budgets[0] == pytest.approx(spent, rel=1e-6)
    assert 0.0 <= low < found.budgets[0] < high < np.inf


@pytest.mark.parametrize("estimator", [Likelihood(), Convex()], ids=["likelihood", "convex"])
def test_fillers_that_are_not_there_change_nothing(estimator):
    """A model of two actions, and the same among four with others at other places each state."""
    world = tacit.worlds.random(3, states=8, actions=2, constraints=1, features=2)
    rng = np.random.default_rng(0)
    place = np.array([rng.permutation(4)[:2] for _ in range(8)])
    rows = np.arange(8)[:, None]

    def spread(table: np.ndarray) -> np.ndarray:
        full = table if table.ndim == 3 else np.repeat(table[:, None], 2, axis=1)
        wide = rng.random((8, 4, full.shape[2]))
        wide[rows, place] = full
        return wide

    there = np.zeros((8, 4), bool)
    there[rows, place] = True
    moves = np.zeros((8, 4, 8))
    moves[rows, place] = world.mdp.dense()
    wide = MDP(moves, world.mdp.initial, 0.9, available=there)
    plain = MDP(world.mdp.dense(), world.mdp.initial, 0.9)
    maps = Features(spread(world.features.reward), [spread(world.features.costs[0])])
    seen = tacit.simulate(plain, np.full((8, 2), 0.5), trajectories=40, steps=50, seed=1)
    moved = Demonstrations(seen.states, place[seen.states, seen.actions], seen.offsets)
    one = estimator.fit(plain, world.features, seen, throw=False)
    two = estimator.fit(wide, maps, moved, throw=False)
    assert_allclose(two.reward_weights, one.reward_weights, atol=1e-7)
    assert_allclose(two.multipliers, one.multipliers, atol=1e-7)
    assert two.log_likelihood == pytest.approx(one.log_likelihood)
    assert two.null_log_likelihood == pytest.approx(one.null_log_likelihood)


def test_convex_and_likelihood_agree_on_long_data():
    mdp = town(3)
    features, theta = attributes(mdp, 2), (0.7, 0.8)
    seen = driven(mdp, features, theta, 3000)
    likely = tacit.recover(mdp, features, seen, estimator=Likelihood())
    convex = tacit.recover(mdp, features, seen, estimator=Convex())
    assert convex.status is RecoveryStatus.CONVERGED
    errors = likely.parameters.standard_errors
    # Two consistent estimates of the same numbers.
    assert (np.abs(convex.parameters.estimates - likely.parameters.estimates) < 4 * errors).all()
    reached = pull_back(features, convex.solution.visitation)[0]
    assert_allclose(reached, expectations(mdp, features, seen).reward, rtol=1e-6)


# An optimal demonstrator ------------------------------------------------------------------------


def shortest(mdp: MDP, table: np.ndarray) -> np.ndarray:
    """[S, A] bool, the best actions of a network without loops, by plain value iteration."""
    dense, values = mdp.dense(), np.zeros(mdp.states)
    for _ in range(mdp.states + 1):
        worth = np.where(mdp.available, table + mdp.discount * dense @ values, -np.inf)
        values = np.where(mdp.ends, table[:, 0], worth.max(axis=1))
    return worth >= values[:, None] - 1e-9


@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_the_explanations_are_those_under_which_nothing_better_is_there(discount):
    """All weights of two features on a fine grid, each solved by itself."""
    mdp = fork(discount)
    features = attributes(mdp, 2, seed=3)
    best = shortest(mdp, table_of(features, (0.5, 0.5)))
    walks = []
    for at in (0, 1):
        states, actions = [at], []
        while not mdp.ends[at]:
            actions.append(int(best[at].argmax()))
            at = int(mdp.dense()[at, actions[-1]].argmax())
            states.append(at)
        walks.append((states, actions))
    seen = Demonstrations.from_trajectories(walks * 6)
    shown = seen.counts(mdp) > 0
    grid = np.linspace(0.0, 1.0, 2001)
    explains = [
        bool(shortest(mdp, table_of(features, (w, 1.0 - w)))[shown].all()) for w in grid.tolist()
    ]
    found = tacit.recover(mdp, features, seen, estimator=Explanation())
    low, high = found.identification.reward_intervals[0]
    # The grid is as fine as that.
    assert low == pytest.approx(grid[explains].min(), abs=6e-4)
    assert high == pytest.approx(grid[explains].max(), abs=6e-4)
    assert low < 1.0 - high or high - low < 1.0  # something was learnt
    assert low <= found.reward_weights[0] <= high
    assert (found.solution.policy[shown] > 0).all()
    picked = tacit.recover(mdp, features, seen)
    assert picked.estimator == found.estimator


# Where nothing is finite -------------------------------------------------------------------------


def test_weights_without_a_finite_value_are_refused_in_one_line():
    """A reward for reaching the end, and nothing a step: at every weight circles cost nothing."""
    mdp = town(3)
    wanted = Features(mdp.ends.astype(float)[:, None])
    seen = driven(mdp, attributes(mdp, 2), (0.7, 0.8), 10)
    with pytest.raises(InvalidModel, match="walking in circles"):
        tacit.recover(mdp, wanted, seen, estimator=Likelihood())


def test_a_demonstrator_who_only_circles_is_at_the_border():
    """One state: stay, or leave. It never leaves, and the best step cost is 0: no finite value."""
    mdp = model([(0, 0, 0), (0, 1, 1)], 2, 2)
    features = Features(-np.array([[1.0], [0.0]]))
    seen = Demonstrations.from_trajectories([([0] * 50, [0] * 50)])
    found = tacit.recover(mdp, features, seen, estimator=Likelihood(), throw=False)
    assert found.status is RecoveryStatus.NOT_CONVERGED
    said = [one for one in found.identification.findings if one.kind is Kind.NOT_CONVERGED]
    assert any("No finite value" in one for one in said)


def round_and_round() -> Demonstrations:
    """Cut off on the way between two streets of the small town, and never out of it."""
    return Demonstrations.from_trajectories([([0, 1, 0, 1, 0], [1, 0, 1, 0])] * 5)


def test_what_only_rounding_makes_finite_is_not_finite():
    """Values of 1e9 can repeat themselves under a policy that never ends: no likelihood there."""
    mdp = town(3)
    found = tacit.recover(
        mdp, attributes(mdp, 2), round_and_round(), estimator=Likelihood(), throw=False
    )
    assert found.status is RecoveryStatus.NOT_CONVERGED
    # The values near the border are those of lengths that floats can tell: log(1e12) is 28.
    assert np.abs(found.solution.values).max() < 50.0
    assert np.isfinite(found.solution.visitation).all()


def test_a_search_that_did_not_converge_shows_no_constraint():
    price = SimpleNamespace(multipliers=np.array([0.3]), reward_weights=np.ones(1))
    for converged, kind in ((True, Kind.ACTIVE), (False, Kind.NOT_CONVERGED)):
        fit = SimpleNamespace(converged=converged)
        evidence = SimpleNamespace(
            gauge=lambda _: price, fitted=fit, unregularised=fit, robust=False
        )
        (said,) = constraint_findings(cast(Evidence, evidence), Verdict.of(np.array([0.01])))
        assert said.kind is kind


@pytest.mark.parametrize("free", [False, True])
def test_an_optimal_demonstrator_may_be_cut_off_where_it_goes_round(free):
    mdp = town(3)
    features = attributes(mdp, 2, costs=2)
    estimator = Explanation(free_reward=free)
    found = tacit.recover(mdp, features, round_and_round(), estimator=estimator, throw=False)
    assert np.isfinite(found.solution.visitation).all()
    assert found.solution.visitation.sum(axis=1)[mdp.ends] == pytest.approx(1.0)


def test_budgets_have_no_upper_end_where_policies_may_go_round():
    """Costs of where nobody went: endless if it can be come to, no matter if it cannot."""
    mdp = town(3)
    features = attributes(mdp, 2, costs=2)
    path = np.zeros((9, 4), bool)
    path[[0, 1, 2], 1] = path[[2, 5], 3] = True
    (anywhere,) = expectation_ranges(mdp, features, path, None)
    assert (anywhere[:, 1] == np.inf).all()
    assert (anywhere[:, 0] > 0).all()
    corner = MDP(mdp.transitions, np.eye(9)[0], 1.0, available=mdp.available)
    path[2, 1] = False
    (along,) = expectation_ranges(corner, features, path, None)
    by_hand = sum(features.costs[0][s, a] for s, a in [(0, 1), (1, 1), (2, 3), (5, 3), (8, 0)])
    assert_allclose(along, np.stack([by_hand, by_hand], axis=1))


def test_single_choices_do_not_look_deterministic():
    """Between two forks there is only one way: taking it always says nothing."""
    links = [(0, 0, 1), (0, 1, 2), (1, 0, 3), (2, 1, 3), (3, 0, 4), (3, 1, 4)]
    mdp = model(links, *SHAPE)
    seen = [([0, 1, 3, 4], [0, 0, 0]), ([0, 2, 3, 4], [1, 1, 1])] * 10
    rng = np.random.default_rng(0)
    features = Features(-rng.random((*SHAPE, 2)) * ~mdp.ends[:, None, None])
    found = tacit.recover(mdp, features, Demonstrations.from_trajectories(seen), throw=False)
    assert found.estimator.startswith("Likelihood")


def test_what_an_end_pays_it_pays_whatever_is_done_there():
    mdp = fork()
    uneven = Features(np.random.default_rng(0).random((7, 3, 2)))
    seen = Demonstrations.from_trajectories([([0, 2, 5], [1, 2])])
    with pytest.raises(InvalidModel, match="where an episode ends"):
        tacit.recover(mdp, uneven, seen)


def test_an_action_that_is_not_there_was_not_taken():
    mdp, features = fork(), attributes(fork(), 2)
    seen = Demonstrations.from_trajectories([([0, 2, 4], [1, 1])])
    with pytest.raises(InvalidDemonstrations, match="state 2"):
        tacit.recover(mdp, features, seen, estimator=Likelihood())
