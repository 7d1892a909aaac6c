"""A world that ends after a known number of steps: by one backward pass, and laid out in time."""

import numpy as np
import pytest

import tacit
from refusals import refusal
from tacit.dynamics.layered import Layered
from tacit.errors import InvalidDemonstrations, InvalidModel

Horizon = tacit.features.Horizon
STATES, ACTIONS, TIMES = 6, 3, 5


def world(discount: float = 1.0) -> tuple[tacit.MDP, tacit.Features]:
    rng = np.random.default_rng(4)
    moves = rng.dirichlet(np.full(STATES, 0.4), (STATES, ACTIONS))
    there = np.ones((STATES, ACTIONS), bool)
    there[-1] = False  # an end of the world itself
    initial = np.append(rng.dirichlet(np.ones(STATES - 1)), 0.0)
    mdp = tacit.MDP(moves, initial, discount, available=there)
    reward, cost = rng.normal(size=(2, STATES, ACTIONS, 1))
    reward[-1], cost[-1] = reward[-1, :1], cost[-1, :1]  # nothing is done at an end
    return mdp, tacit.Features(reward, [np.abs(cost)], ["gain"], [["toil"]])


def walks(mdp, policy, episodes):
    """Episodes by a policy [T, S, A], drawn without tacit."""
    rng, found = np.random.default_rng(0), []
    moves = np.zeros((STATES, ACTIONS, STATES))
    lists = mdp.transitions
    for s, a, b in np.ndindex(lists.states.shape):
        moves[s, a, lists.states[s, a, b]] += lists.probabilities[s, a, b]
    for _ in range(episodes):
        at, states, actions = rng.choice(STATES, p=mdp.initial), [], []
        for t in range(TIMES):
            if mdp.ends[at]:
                break
            states.append(at)
            actions.append(rng.choice(ACTIONS, p=policy[t, at]))
            at = rng.choice(STATES, p=moves[at, actions[-1]])
        found.append(([*states, at], actions))
    return tacit.Demonstrations.from_trajectories(found)


@pytest.mark.parametrize("discount", [1.0, 0.8])
def test_a_horizon_is_one_backward_pass_and_the_truth_comes_back(discount):
    mdp, features = world(discount)
    utility = 1.5 * features.reward[..., 0] - 0.8 * features.costs[0][..., 0]
    solved = Layered(mdp, TIMES).solve(utility, None)
    horizon = Horizon.of(mdp, TIMES)
    lifted = horizon.lifted(features)
    laid_out = 1.5 * lifted.reward[..., 0] - 0.8 * lifted.costs[0][..., 0]
    soft = tacit.solve(
        horizon.mdp,
        tacit.Objective(laid_out, np.zeros((0, *laid_out.shape)), []),
        solver=tacit.SoftDual(temperature=1.0),
    )
    assert np.allclose(horizon.by_time(soft.policy)[:, :-1], solved.policy[:, :-1], atol=1e-8)
    seen = walks(mdp, solved.policy, 3000)
    recovery = tacit.recover(mdp, features, seen, horizon=TIMES, estimator=tacit.Likelihood())
    fitted = recovery.parameters
    assert (np.abs(fitted.estimates - [1.5, 0.8]) < 3 * fitted.standard_errors).all()
    found = horizon.by_time(recovery.solution.policy)
    assert np.abs(found - solved.policy)[:, :-1].max() < 0.05
    last, first = (np.abs(solved.policy[t] - solved.policy[-1]).max() for t in (-1, 0))
    assert last < first  # the policy depends on the time


def test_payoffs_may_depend_on_the_time():
    mdp, _ = world()
    horizon = Horizon.of(mdp, TIMES)
    times = np.arange(TIMES)[:, None, None] * np.ones((TIMES, STATES, 1))
    late = horizon.placed(times, "late")
    assert horizon.by_time(late.values)[..., 0].tolist() == times[..., 0].tolist()
    assert (late.values[-STATES:] == 0).all()
    with refusal(InvalidModel, "values must be [5, 6, ...]"):
        horizon.placed(times[1:], "late")


def test_what_has_no_meaning_with_a_horizon_is_refused():
    mdp, features = world(0.9)
    policy = np.where(mdp.available, 1 / ACTIONS, 0.0)
    seen = walks(mdp, np.broadcast_to(policy, (TIMES, *policy.shape)), 20)
    with refusal(InvalidDemonstrations, "at most the 2 steps of the horizon", "episode"):
        tacit.recover(mdp, features, seen, horizon=2)
    with refusal(InvalidModel, "horizon must be an integer of at least 1"):
        tacit.recover(mdp, features, seen, horizon=0)
    task = tacit.Task(mdp, features, seen)
    with refusal(InvalidModel, "a horizon is of one known MDP"):
        tacit.recover(task, horizon=TIMES)
    counted = tacit.MDP.from_transitions(seen, discount=0.9, n_states=STATES, n_actions=ACTIONS)
    with refusal(InvalidModel, "counted"):
        tacit.recover(counted, features, seen, horizon=TIMES)
    loose = tacit.Demonstrations(
        seen.states, seen.actions, seen.offsets, partial=np.ones(seen.episodes, bool)
    )
    with refusal(InvalidDemonstrations, "joined on their way"):
        tacit.recover(mdp, features, loose, horizon=TIMES)
