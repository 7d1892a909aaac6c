"""Published methods of noisy experts: clones, action values, the most random ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tacit import (
    MDP,
    Demonstrations,
    Features,
    Finding,
    InvalidModel,
    Kind,
    Recovery,
    RewardOnly,
    SoftDual,
    data,
    methods,
    policies,
)
from tacit_lab.families.search import by_action, minimise, reward_alone, spans

# Chance of what was never done, in the logarithm that makes a reward of a policy.
NEVER = 1e-12


@dataclass(frozen=True)
class InverseActionValues(methods.PointEstimator):
    """Inverse action-value iteration (Kalweit et al. 2020, the section of that name).

    The expert is Boltzmann at temperature 1 over the OPTIMAL action values: its log-chances differ
    as these do. With eta(s, a) = log policy(a|s) - discount E max Q(next) the
    reward solves r(s, a) - mean_b r(s, b) = eta(s, a) - mean_b eta(s, b); least
    squares makes the mean 0. Then Q = log policy + c(s), and the maxima V of Q solve ONE linear
    system of the uniform policy, V = max_a log policy - mean_a log policy + discount P_uniform V:
    a closed form, where the published code sweeps over all states until nothing moves.

    The reward is a table; its optimum is `recovery.solution`, `choice_probabilities` are the noisy
    policy of the paper.

    Known weakness: that noisy policy IS the clone (plus `floor`): nothing is learnt beyond it where
    nobody was. Every action that was never taken has the reward of the floor, whatever it is.

    Attributes:
        floor: added to every chance, so that its logarithm exists (1e-6 in the published code).
        pseudo_count: added to every available action of a visited state.
    """

    floor: float = 1e-6
    pseudo_count: float = 0.0

    def find(self, mdp: MDP, features: Features, demonstrations: data.Observed) -> methods.Estimate:
        """The reward as a table [S, A], with its optimum."""
        if mdp.discount == 1.0:
            raise InvalidModel(
                "inverse action values need a discount below 1: their rewards add up to gains "
                "without end otherwise; got 1"
            )
        cloned = methods.cloned_policy(
            mdp, methods.counts_of(mdp, demonstrations), self.pseudo_count
        )
        logs = np.log(cloned + self.floor)
        best = np.where(mdp.available, logs, -np.inf).max(axis=1)
        gain = np.where(mdp.ends, 0.0, best - _mean(mdp, logs))
        values = policies.policy_values(mdp, policies.uniform_policy(mdp), gain)
        eta = logs - mdp.discount * mdp.expected_next(values)
        reward = np.where(mdp.available, eta - _mean(mdp, eta)[:, None], 0.0)
        objective = methods.table_objective(mdp, features, reward)
        # Where nobody was all actions are as good, and none is preferred.
        greedy = np.where(mdp.available, logs >= best[:, None], False)
        greedy = greedy / np.maximum(greedy.sum(axis=1, keepdims=True), 1)
        solution = methods.conclude(
            mdp,
            objective,
            policies.visitation(mdp, greedy),
            values,
            np.zeros(features.constraints),
            tolerance=1e-6,
            policy=greedy,
        )
        said = [
            Finding(
                "The reward is a table over states and actions whose mean over actions is 0; its "
                "noisy policy is the clone of the demonstrations.",
                Kind.NOT_IDENTIFIED,
            ),
            *methods.left_out(features),
        ]
        return methods.Estimate(
            objective=objective, solution=solution, reward_weights=None, findings=said
        )


def _mean(mdp: MDP, table: np.ndarray) -> np.ndarray:
    """[S] mean over the available actions; 0 at ends."""
    return (table * policies.uniform_policy(mdp)).sum(axis=1)


# --- entropy --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CausalEntropy:
    """Maximum causal entropy (Ziebart, Bagnell and Dey 2010, the case of decision processes).

    Of all policies with the demonstrations' discounted feature expectations the one that is most
    random given what it knows at each step: Boltzmann over SOFT action values.
    The dual, p0 . V_soft(weights) - weights . expectations, is convex. `RewardOnly` with its steps
    is the same expert by a likelihood that uses every step.

    Known weakness: discounted expectations throw most of long trajectories away; and whatever was
    avoided is explained by reward, so that a constraint looks like a taste that a larger reward
    would outweigh.

    Attributes:
        free_reward: let reward weights take either sign, as the paper does.
        tolerance: projected gradient to reach, relative to its scale.
        max_steps: most evaluations of the loss.
    """

    free_reward: bool = True
    tolerance: float = 1e-9
    max_steps: int = 300

    def fit(
        self, mdp: MDP, features: Features, demonstrations: data.Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery that explains everything by reward; every constraint is inactive."""
        same = RewardOnly(True, self.free_reward, self.tolerance, self.max_steps)
        recovery = same.fit(mdp, features, demonstrations, throw=False)
        return methods.delivered(replace(recovery, estimator=repr(self)), throw)


@dataclass(frozen=True, eq=False)
class ObservedTrips:
    """What the likelihood of whole trajectories asks of the demonstrations.

    Attributes:
        starts: [T + 1, S] how many trajectories begin in each state, by the steps they may take.
        visits: [S, A] how often each action was taken; arrivals in ends spread over their rows.
        number: of trajectories.
    """

    starts: np.ndarray
    visits: np.ndarray
    number: int


@dataclass(frozen=True)
class MaximumEntropy(methods.PointEstimator):
    """Maximum entropy over trajectories (Ziebart, Maas, Bagnell and Dey 2008).

    A trajectory of T steps has chance exp(weights . its feature sum) times the chances of its
    moves, over Z (eq. 4; eq. 2 where moves are sure), given where it starts. Undiscounted; one that
    came to an end competes with all of at most as many steps as the longest, one that was cut off
    with those as long as itself. The log-likelihood is concave, its gradient observed less expected
    feature sums (eq. 6) by one backward and one forward pass (Algorithm 1; forward by the chances
    of paths, where theirs takes those of the world: the same where moves are sure).

    Known weakness: it takes chance for choice. Where moves are random, Z adds up the luck of good
    outcomes, so that risky ways look better than they are and weights are biased; `CausalEntropy`
    is the repair of 2010. Short trajectories say little about what lies beyond them.

    Attributes:
        ridge: pull of the weights towards 0, on features scaled to range one.
        tolerance: largest entry of the gradient, relative to the largest feature sum.
        max_steps: most iterations.
    """

    ridge: float = 0.0
    tolerance: float = 1e-6
    max_steps: int = 500
    in_memory: ClassVar[bool] = True

    def find(self, mdp: MDP, features: Features, demonstrations: data.Observed) -> methods.Estimate:
        """The likeliest weights; the policy is the causal one at these."""
        assert isinstance(demonstrations, Demonstrations)
        trips = _trips(mdp, demonstrations)
        alone = features.reward_alone
        observed = methods.pull_back(alone, trips.visits)[0] / trips.number

        def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, visits = trajectory_partition(mdp, alone.reward @ theta, trips)
            expected = methods.pull_back(alone, visits)[0]
            return float(value - theta @ observed), expected - observed

        spread = spans(features.reward)
        found = minimise(loss, np.zeros(len(spread)), spread, self, lower=-np.inf)
        size = float(np.abs(found.point).sum()) or 1.0
        weights = found.point / size
        objective = reward_alone(features, weights)
        solution = SoftDual(1.0 / size).solve(mdp, objective, throw=False)
        longest = len(trips.starts) - 1
        said = [
            Finding(
                f"The weights maximise the chance of whole trajectories of up to {longest} steps, "
                "undiscounted; the policy is that of a causal expert with these weights.",
                number=longest,
            ),
            *found.findings,
            *methods.left_out(features),
        ]
        return methods.Estimate(
            objective=objective,
            solution=solution,
            reward_weights=weights,
            findings=said,
            **found.ended,
        )


def _trips(mdp: MDP, demonstrations: Demonstrations) -> ObservedTrips:
    """What `MaximumEntropy` asks of demonstrations."""
    visits = np.array(demonstrations.counts(mdp), float)
    final, lengths = demonstrations.final_states, demonstrations.lengths
    arrived = (final >= 0) & mdp.ends[final]
    steps = np.where(arrived, int(lengths.max()), lengths)
    starts = np.zeros((int(steps.max()) + 1, mdp.states))
    np.add.at(starts, (steps, demonstrations.states[demonstrations.offsets[:-1]]), 1.0)
    np.add.at(visits, final[arrived], 1.0 / mdp.actions)
    return ObservedTrips(starts, visits, len(steps))


def trajectory_partition(
    mdp: MDP, table: np.ndarray, trips: ObservedTrips
) -> tuple[float, np.ndarray]:
    """Mean log Z over the trajectories' starts, and [S, A] mean expected visits (its gradient).

    Args:
        mdp: the model.
        table: [S] or [S, A] what a step is worth, over the temperature.
        trips: where trajectories start, and how many steps each may take.
    """
    worth = by_action(mdp, table)
    after, chances = mdp.transitions.states, mdp.transitions.probabilities
    with np.errstate(divide="ignore"):
        logs = np.log(chances)
    longest = len(trips.starts) - 1
    stops = np.where(mdp.ends, worth[:, 0], 0.0)
    z = np.empty((longest + 1, mdp.states))
    z[0], tilted, policy = stops, [], []
    for t in range(1, longest + 1):
        ahead = logs + z[t - 1][after]  # [S, A, B]
        top = np.where(mdp.available, ahead.max(axis=2), -np.inf)
        with np.errstate(invalid="ignore"):
            mass = np.exp(ahead - top[:, :, None])
        mass = np.where(mdp.available[:, :, None], mass, 0.0)
        total = mass.sum(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            q = np.where(mdp.available, worth + top + np.log(total), -np.inf)
        best = np.where(mdp.ends, 0.0, q.max(axis=1))
        odds = np.exp(q - best[:, None])
        going = np.where(mdp.ends, 1.0, odds.sum(axis=1))
        z[t] = np.where(mdp.ends, stops, best + np.log(going))
        tilted.append(mass / np.maximum(total, 1e-300)[:, :, None])
        policy.append(odds / going[:, None])
    visits, flow = np.zeros(worth.shape), np.zeros(mdp.states)
    for t in range(longest, 0, -1):
        flow = flow + trips.starts[t]
        taken = np.where(mdp.ends[:, None], flow[:, None] / mdp.actions, 0.0)
        moving = np.where(mdp.ends, 0.0, flow)[:, None] * policy[t - 1]
        visits += taken + moving
        spread = moving[:, :, None] * tilted[t - 1]
        flow = np.bincount(after.ravel(), weights=spread.ravel(), minlength=mdp.states)
    visits += np.where(mdp.ends[:, None], flow[:, None] / mdp.actions, 0.0)
    return float((trips.starts * z).sum()) / trips.number, visits / trips.number
