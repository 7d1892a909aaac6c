"""Published methods of optimal experts: every other policy must be worse, by some margin."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

import numpy as np

from tacit import (
    MDP,
    ColumnGeneration,
    Features,
    Finding,
    Kind,
    Objective,
    Solution,
    data,
    methods,
    policies,
)
from tacit_lab.families.search import POSITIVE, by_action, reward_alone, seen_expectations, spans


@dataclass(frozen=True)
class Apprenticeship(methods.PointEstimator):
    """Apprenticeship learning (Abbeel and Ng 2004, section 3): match feature expectations.

    Weights w = mu_E - the nearest mixture of the policies met so far; the optimum for w joins them,
    until mu_E is within `tolerance` or no policy comes nearer. `margin` takes the nearest point of
    all mixtures at once, which is the maximum-margin program, eqs. 10 to 12, by its dual;
    otherwise the projection of section 3.1 moves along one line a step. The answer is the MIXTURE,
    which draws one policy an episode and does as well as the expert for EVERY reward of these
    features within the distance.

    Known weakness: the weights are only the last direction that separated, none that makes the
    mixture the best: where it matches the expert, they say nothing. The loss of the mixture for
    them is in the certificate of `solution`.

    Attributes:
        margin: maximum margin instead of the projection.
        tolerance: distance of expectations, features scaled to range one, per horizon.
        max_steps: most policies.
    """

    margin: bool = False
    tolerance: float = 1e-4
    max_steps: int = 200

    def find(self, mdp: MDP, features: Features, demonstrations: data.Observed) -> methods.Estimate:
        """The mixture nearest to the demonstrations, and the last direction as its weights."""
        scale = spans(features.reward) * mdp.horizon
        target = seen_expectations(mdp, features, demonstrations)[0] / scale
        visits = [policies.visitation(mdp, policies.uniform_policy(mdp))]
        points = [methods.pull_back(features, visits[0])[0] / scale]
        shares, distances, best, ahead = np.ones(1), [], None, np.inf
        w = target - points[0]
        for _ in range(self.max_steps):
            w = target - shares @ np.array(points)
            distances.append(float(np.linalg.norm(w)))
            if distances[-1] <= self.tolerance:
                break
            best = _optimum(mdp, features, w / scale)
            point = methods.pull_back(features, best.visitation)[0] / scale
            step = point - shares @ np.array(points)
            ahead = float(step @ w) / distances[-1]
            if ahead <= 0.1 * self.tolerance:  # nobody comes nearer: the distance is the least
                break
            visits.append(best.visitation)
            points.append(point)
            if self.margin:
                shares = nearest_mixture(target - np.array(points))
            else:
                share = float(np.clip(step @ w / (step @ step), 0.0, 1.0))
                shares = np.r_[(1.0 - share) * shares, share]
        near = distances[-1] <= self.tolerance
        weights = _gauge(w / scale)
        mixed = np.tensordot(shares, np.array(visits), 1)
        objective = reward_alone(features, weights)
        values = _optimum(mdp, features, weights).values
        solution = methods.conclude(
            mdp, objective, mixed, values, np.zeros(features.constraints), tolerance=1e-6
        )
        used = int((shares > 1e-9).sum())
        said = [
            Finding(
                f"The policy is a mixture of {used} policies at distance {distances[-1]:.2g} from "
                "the demonstrations; the weights are the last direction that separated them.",
                Kind.NOT_IDENTIFIED,
                number=distances[-1],
            ),
            *methods.left_out(features),
        ]
        return methods.Estimate(
            objective=objective,
            solution=solution,
            reward_weights=weights,
            converged=near or ahead <= 0.1 * self.tolerance,
            unattainable=not near,
            findings=said,
            history={"distance": distances},
            certificate={"objective_gap": 0.0 if near else ahead},
        )


def nearest_mixture(rows: np.ndarray) -> np.ndarray:
    """[m] shares of the mixture of the rows [m, D] that is nearest to 0."""
    from scipy.optimize import nnls

    # Lawson and Hanson's form of least distance: exact, by non-negative least squares.
    size = max(1e-300, float(np.abs(rows).max()))
    mixture, _ = nnls(
        np.r_[rows.T / size, np.ones((1, len(rows)))], np.r_[np.zeros(rows.shape[1]), 1]
    )
    return mixture / mixture.sum()


@dataclass(frozen=True)
class LinearProgramming(methods.PointEstimator):
    """Inverse reinforcement learning by linear programs (Ng and Russell 2000).

    With a policy (sections 3.2 and 4): weights within [-1, 1] that maximise the sum over
    the visited states of min over other actions of p(advantage of what was done most), eq. 6 by
    eqs. 8 to 10, less `penalty` times their L1 norm, where p(x) = x for x >= 0 and 2 x below: no
    reward need make the policy optimal (Theorem 3, eq. 4). One-hot features are the small form, any
    others the large one with its sampled states. With `trajectories` (section 5): maximise the sum
    of p(return of the demonstrations - return of a policy), eqs. 11 and 12, over the policies met
    so far, to which the optimum is added, until none does better.

    Known weakness: 0 is always a solution, and many others are; the margin and the penalty choose
    among them by taste, at a corner of the program. One noisy action counts like a belief.

    Attributes:
        trajectories: compare returns instead of actions.
        penalty: price of the L1 norm of the weights, of features scaled to range one.
        tolerance: advantage of a policy over the demonstrations that ends the search.
        max_steps: most policies.
    """

    trajectories: bool = False
    penalty: float = 0.0
    tolerance: float = 1e-6
    max_steps: int = 100

    def find(self, mdp: MDP, features: Features, demonstrations: data.Observed) -> methods.Estimate:
        """The weights of the program, and their optimum."""
        scale = spans(features.reward) * mdp.horizon
        done, losses = True, []
        if self.trajectories:
            target = seen_expectations(mdp, features, demonstrations)[0] / scale
            rows = [
                target
                - methods.pull_back(
                    features, policies.visitation(mdp, policies.uniform_policy(mdp))
                )[0]
                / scale
            ]
            done, w = False, np.zeros(len(scale))
            while not done and len(rows) <= self.max_steps:
                groups = list(range(len(rows)))
                w, value = best_margins(np.array(rows), np.array(groups), self.penalty)
                point = methods.pull_back(features, _optimum(mdp, features, w / scale).visitation)[
                    0
                ]
                rows.append(target - point / scale)
                losses.append(-value)
                done = bool(rows[-1] @ w >= -self.tolerance)
        else:
            rows, groups = advantages_of(mdp, features, methods.counts_of(mdp, demonstrations))
            w, value = best_margins(rows / scale, groups, self.penalty)
            losses.append(-value)
        said = list(methods.left_out(features))
        if not w.any():
            said.insert(
                0, Finding("Only the reward 0 explains the demonstrations.", Kind.NOT_IDENTIFIED)
            )
        found = _solved(mdp, features, w / scale)
        return replace(found, converged=done, findings=said, history={"loss": losses})


def advantages_of(
    mdp: MDP, features: Features, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """[R, D] features by which what was done most beats each other action, and [R] its state.

    Discounted sums after the first action are those of what was done most, everywhere; uniform
    where nobody was.
    """
    most = (counts == counts.max(axis=1, keepdims=True)) & (counts > 0)
    most &= np.cumsum(most, axis=1) == 1
    policy = methods.cloned_policy(mdp, most.astype(float))
    columns = []
    for d in range(features.reward.shape[-1]):
        table = by_action(mdp, features.reward[..., d])
        columns.append(
            table + mdp.discount * mdp.expected_next(policies.policy_values(mdp, policy, table))
        )
    sums = np.stack(columns, axis=-1)  # [S, A, D]
    states, others = np.nonzero(most.any(axis=1)[:, None] & mdp.available & ~most)
    return sums[states, most.argmax(axis=1)[states]] - sums[states, others], states


def best_margins(rows: np.ndarray, groups: np.ndarray, penalty: float) -> tuple[np.ndarray, float]:
    """[D] weights in [-1, 1] that maximise the sum over groups of min p(row . w), less the penalty.

    And that maximum. p(x) = min(x, 2 x).
    """
    from scipy.optimize import linprog

    numbers_of, group = np.unique(groups, return_inverse=True)
    size, many = rows.shape[1], len(numbers_of)
    if not len(rows):
        return np.zeros(size), 0.0
    least = np.eye(many)[group]
    matrix = np.r_[np.c_[-rows, rows, least], np.c_[-2.0 * rows, 2.0 * rows, least]]
    cost = np.r_[np.full(2 * size, penalty + 1e-12), -np.ones(many)]  # of both signs, one is 0
    program = linprog(
        cost,
        matrix,
        np.zeros(len(matrix)),
        bounds=[(0.0, 1.0)] * (2 * size) + [(None, None)] * many,
    )
    assert program.status == 0, program.message
    return program.x[:size] - program.x[size : 2 * size], -float(program.fun)


@dataclass(frozen=True)
class MarginPlanning(methods.PointEstimator):
    """Maximum margin planning (Ratliff, Bagnell and Zinkevich 2006).

    Its quadratic program (eqs. 1 and 2) with one slack, as the regularised hinge loss (eq. 10) of
    their subgradients. Minimise |w|^2 regularisation / 2 + max over policies of (w . features +
    loss) less w . demonstrations: the best policy for w must beat none by more than what it does
    otherwise than the expert, its loss. Here the loss of a step is 1 less the share of the
    demonstrations that act so in its state, and 1 where nobody was. Cutting planes in the place of
    subgradients: every cut is an optimal policy for a loss-augmented reward, and the gap of the
    convex problem is known (`certificate.objective_gap`).

    Known weakness: the regularisation sets the scale of the weights, and with it how far the loss
    counts: no noise is modelled, and one imperfect demonstrator moves the margin of all.

    Attributes:
        regularisation: of the weights, on features scaled to range one.
        tolerance: gap of the objective, relative to its size.
        max_steps: most cuts.
    """

    regularisation: float = 0.01
    _: KW_ONLY
    tolerance: float = 1e-5
    max_steps: int = 200
    limits: ClassVar = {"regularisation": POSITIVE}

    def find(self, mdp: MDP, features: Features, demonstrations: data.Observed) -> methods.Estimate:
        """The weights of the least loss, and their optimum without it."""
        scale = spans(features.reward) * mdp.horizon
        target = seen_expectations(mdp, features, demonstrations)[0] / scale
        loss = planning_loss(mdp, methods.counts_of(mdp, demonstrations)) / mdp.horizon
        cuts, heights = [np.zeros(len(scale))], [0.0]  # the expert itself beats nobody
        w, bounds, gap, upper = np.zeros(len(scale)), [], np.inf, np.inf
        for _ in range(self.max_steps):
            table = (features.reward @ (w / scale)).reshape(mdp.states, -1) + loss
            visits = ColumnGeneration().solve(mdp, Objective(table), throw=False).visitation
            point = methods.pull_back(features, visits)[0] / scale
            cuts.append(target - point)
            heights.append(float((loss * visits).sum()))
            rise = max(0.0, heights[-1] - float(w @ cuts[-1]))
            upper = min(upper, 0.5 * self.regularisation * float(w @ w) + rise)
            bounds.append(upper)
            shares, lower = _steepest(np.array(cuts), np.array(heights), self.regularisation)
            w = shares @ np.array(cuts) / self.regularisation
            gap = upper - lower
            if gap <= self.tolerance * max(1.0, upper):
                break
        return replace(
            _solved(mdp, features, w / scale),
            converged=gap <= self.tolerance * max(1.0, upper),
            findings=methods.left_out(features),
            history={"loss": bounds},
            certificate={"objective_gap": gap},
        )


def planning_loss(mdp: MDP, counts: np.ndarray) -> np.ndarray:
    """[S, A] 1 less the share of the demonstrations that act so; 1 where nobody was, 0 at ends."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return np.where(mdp.ends[:, None], 0.0, 1.0 - shares)


def _steepest(
    cuts: np.ndarray, heights: np.ndarray, regularisation: float
) -> tuple[np.ndarray, float]:
    """[m] shares with the largest shares . heights - |shares . cuts|^2 / (2 regularisation)."""
    from scipy.optimize import minimize

    def lost(shares: np.ndarray) -> tuple[float, np.ndarray]:
        mixed = shares @ cuts
        value = 0.5 * float(mixed @ mixed) / regularisation - float(shares @ heights)
        return value, cuts @ mixed / regularisation - heights

    start = np.full(len(heights), 1.0 / len(heights))
    minimum = minimize(
        lost,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1.0, "jac": np.ones_like},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    shares = np.maximum(minimum.x, 0.0)
    shares /= shares.sum()
    return shares, -lost(shares)[0]  # any shares bound the optimum from below


def _optimum(mdp: MDP, features: Features, weights: np.ndarray) -> Solution:
    """The optimum of these reward weights alone."""
    return ColumnGeneration().solve(mdp, Objective(features.reward @ weights), throw=False)


def _solved(mdp: MDP, features: Features, weights: np.ndarray) -> methods.Estimate:
    """The optimum of these reward weights alone, in the gauge; weights of 0 say nothing."""
    known = _gauge(weights) if weights.any() else None
    objective = reward_alone(features, weights if known is None else known)
    solution = ColumnGeneration().solve(mdp, objective, throw=False)
    return methods.Estimate(objective=objective, solution=solution, reward_weights=known)


def _gauge(weights: np.ndarray) -> np.ndarray:
    """[D] the weights with L1 norm 1."""
    return weights / max(float(np.abs(weights).sum()), 1e-300)
