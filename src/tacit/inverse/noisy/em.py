"""EM for trajectories of unknown type: every type a noisy expert, every trajectory of one type.

The E-step gives each trajectory its chances of being of each type, from the likelihood of its
actions. The M-step is the step likelihood on counts weighted by those chances, begun where the last
one ended: it need not reach the maximum, only rise, so that no round lowers the likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.engine.backends import backend_of
from tacit.engine.soft_search import Point, point_at
from tacit.inference.numerics import covariance_root
from tacit.inverse.noisy.boltzmann import Fit
from tacit.inverse.noisy.inference import advantages, information
from tacit.inverse.noisy.steps import Coordinates, Steps
from tacit.inverse.parameters import inverse_information
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Rounds from every start before the best goes on, and the gain (nats) that ends those.
SHORT, ROUGH = 15, 1e-2
# Iterations of k-means.
LLOYD = 30
# Logarithm of the noise of a type or group relative to the first one's, at most.
WIDEST = 7.0
# Redrawn actions behind the test of trajectories, and most steps for which it is made.
DRAWS, LARGEST = 199, 500_000
# Loss of parameters without a finite value, in nats.
FORBIDDING = 1e15


@dataclass(frozen=True)
class Search:
    """How one M-step searches.

    Attributes:
        free_reward: let reward weights take either sign.
        tolerance: projected gradient to reach, relative to the number of steps.
        max_steps: most evaluations of the loss.
        bounds: {number of a coefficient: (least, largest)}, where not the usual ones.
    """

    free_reward: bool = False
    tolerance: float = 1e-9
    max_steps: int = 20
    bounds: Mapping[int, tuple[None, None]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Trajectories as rows of counts.

    Attributes:
        table: sparse [E, S * A] how often each trajectory took each action in each state.
        whole: the likelihood of all steps.
    """

    table: csr_matrix
    whole: Steps

    @classmethod
    def of(cls, mdp: MDP, space: Coordinates, seen: Demonstrations) -> Trajectories:
        """The rows of these demonstrations."""
        from scipy.sparse import csr_matrix

        index = seen.states.astype(np.int64) * mdp.actions + seen.actions
        shape = (seen.episodes, mdp.states * mdp.actions)
        table = csr_matrix((np.ones(seen.steps), index, seen.offsets), shape=shape)
        table.sum_duplicates()
        return cls(table, Steps.of(mdp, space, seen))

    def __len__(self) -> int:
        return len(self.table.indptr) - 1

    def parts(self, membership: np.ndarray) -> list[Steps]:
        """The likelihood of each type, every trajectory weighted by its chances [E, T]."""
        counts = np.asarray(self.table.T @ membership).T
        return [self.whole.reweighted(c.reshape(self.whole.counts.shape)) for c in counts]

    def sums(self, tables: np.ndarray) -> np.ndarray:
        """[E, n] sums of tables [n, S, A] over every trajectory."""
        return np.asarray(self.table @ tables.reshape(len(tables), -1).T)


@dataclass(frozen=True, eq=False, kw_only=True)
class Types:
    """Where EM stands.

    Attributes:
        fits: one per type.
        shares: [T] of the trajectories.
        membership: [E, T] chances that each trajectory is of each type, under these fits.
        trace: log-likelihood of all actions, round after round; the last is that of the fits.
        converged: whether the gain was down to the tolerance.
    """

    fits: tuple[Fit, ...]
    shares: np.ndarray
    membership: np.ndarray
    trace: tuple[float, ...]
    converged: bool

    @property
    def log_likelihood(self) -> float:
        """Of all actions."""
        return self.trace[-1]

    def sorted(self) -> Types:
        """The same, the most frequent type first."""
        order = np.argsort(-self.shares, kind="stable")
        return replace(
            self,
            fits=tuple(self.fits[k] for k in order),
            shares=self.shares[order],
            membership=self.membership[:, order],
        )


def single_type(seen: Trajectories, pooled: Fit) -> Types:
    """The fit of all trajectories together, as the only type."""
    return Types(
        fits=(pooled,),
        shares=np.ones(1),
        membership=np.ones((len(seen), 1)),
        trace=(-float(pooled.point.loss),),
        converged=pooled.converged,
    )


def log_policies(fits: Sequence[Fit]) -> np.ndarray:
    """[T, S, A] logarithms of the policies; what underflowed counts as the smallest number."""
    policies = np.stack([np.asarray(one.point.policy) for one in fits])
    return np.log(np.maximum(policies, np.finfo(np.float64).tiny))


def expectation(
    seen: Trajectories, fits: Sequence[Fit], shares: np.ndarray
) -> tuple[np.ndarray, float]:
    """[E, T] chances that each trajectory is of each type, and the log-likelihood of all."""
    from scipy.special import logsumexp

    tiny = np.finfo(np.float64).tiny
    each = seen.sums(log_policies(fits)) + np.log(np.maximum(shares, tiny))
    total = np.asarray(logsumexp(each, axis=1))
    return np.exp(each - total[:, None]), float(total.sum())


def climb(
    seen: Trajectories,
    options: Search,
    begin: Types,
    *,
    rounds: int,
    tolerance: float,
    shared: bool = False,
    upper: Sequence[np.ndarray] | None = None,
) -> Types:
    """The types after EM from `begin`: at rest, or after so many rounds.

    Args:
        seen: the trajectories.
        options: of the fit of one type.
        begin: chances of the trajectories, and fits to search from.
        rounds: most rounds.
        tolerance: gain (nats) still to come, by the rate of the last rounds, that ends the search.
        shared: whether the types share weights and prices and differ in their noise alone.
        upper: one [D] per type, the largest parameters allowed; none by default.
    """
    fits, shares, chances = begin.fits, begin.shares, begin.membership
    trace, before, converged = list(begin.trace), np.inf, False
    for _ in range(rounds):
        shares = chances.mean(axis=0)
        parts = seen.parts(chances)
        tops = [None] * len(fits) if upper is None else list(upper)
        if shared:
            fits = scaled_fits(parts, options, fits)
        else:
            pairs = zip(parts, fits, tops, strict=True)
            fits = tuple(part.fit(options, near=near, upper=top) for part, near, top in pairs)
        chances, likely = expectation(seen, fits, shares)
        gain = likely - trace[-1] if trace else np.inf
        trace.append(likely)
        rest = gain * gain / (before - gain) if before > gain else np.inf
        if max(gain, rest) <= tolerance:
            converged = True
            break
        before = gain
    return Types(
        fits=tuple(fits), shares=shares, membership=chances, trace=tuple(trace), converged=converged
    )


def search(
    seen: Trajectories,
    options: Search,
    pooled: Fit,
    types: int,
    *,
    starts: int,
    rounds: int,
    tolerance: float,
    seed: int,
    shared: bool = False,
) -> Types:
    """The likeliest so many types found from several starts, the most frequent first.

    Half of the starts group trajectories by their scores, half deal them out at random; each gets a
    few rounds, and the best goes on.

    Args:
        seen: the trajectories.
        options: of the fit of one type.
        pooled: the fit of all trajectories together.
        types: how many.
        starts: how many.
        rounds: most rounds of the one that goes on.
        tolerance: as in `climb`.
        seed: of the starts.
        shared: as in `climb`.
    """
    if types == 1:
        return single_type(seen, pooled)
    rng = np.random.default_rng(seed)
    directions = trajectory_directions(seen, pooled)
    best = None
    for number in range(starts):
        if number % 2:
            member = rng.permutation(np.arange(len(seen)) % types)
        else:
            member = k_means(rng, directions, types)
        # Nobody is certain at the start: a trajectory dealt out wrongly must be able to leave.
        chances = np.full((len(seen), types), 0.2 / types)
        chances[np.arange(len(seen)), member] += 0.8
        begin = Types(
            fits=(pooled,) * types,
            shares=chances.mean(axis=0),
            membership=chances,
            trace=(),
            converged=False,
        )
        found = climb(
            seen, options, begin, rounds=min(SHORT, rounds), tolerance=ROUGH, shared=shared
        )
        if best is None or found.log_likelihood > best.log_likelihood:
            best = found
    assert best is not None  # there is a start
    left = max(rounds - len(best.trace), 1)
    return climb(seen, options, best, rounds=left, tolerance=tolerance, shared=shared).sorted()


def trajectory_directions(seen: Trajectories, pooled: Fit) -> np.ndarray:
    """[E, n] scores of the trajectories in the fit of all, in units of their chance variation."""
    mdp, space = seen.whole.mdp, seen.whole.space
    scores = advantages(mdp, space, pooled)
    fisher = information(scores, pooled.point.policy, seen.whole.visits)
    covariance, _ = inverse_information(fisher, np.ones(space.size, bool))
    lengths = np.asarray(seen.table.sum(axis=1)).reshape(-1, 1)
    # A score grows like the square root of the length if all is chance: one scale for all lengths.
    return seen.sums(scores) @ covariance_root(covariance) * np.sqrt(lengths.sum() / lengths)


def k_means(rng: np.random.Generator, points: np.ndarray, groups: int) -> np.ndarray:
    """[E] group of each of the points [E, n], by k-means from k-means++ seeds."""
    centres = points[rng.integers(len(points))][None]
    while len(centres) < groups:
        far = ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
        chance = far / far.sum() if far.sum() > 0 else None
        centres = np.concatenate([centres, points[rng.choice(len(points), p=chance)][None]])
    member = np.zeros(len(points), np.int64)
    for _ in range(LLOYD):
        member = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        kept = [points[member == g] for g in range(groups)]
        moved = np.stack(
            [k.mean(axis=0) if len(k) else c for k, c in zip(kept, centres, strict=True)]
        )
        if np.allclose(moved, centres):
            break
        centres = moved
    return member


def scaled_fits(parts: Sequence[Steps], options: Search, near: Sequence[Fit]) -> tuple[Fit, ...]:
    """Fits with one direction of the parameters, each part at its own length, from fits nearby."""
    brief = replace(options, max_steps=1)
    problems = [part.fit(brief, near=one) for part, one in zip(parts, near, strict=True)]
    sizes = np.array([np.abs(one.point.x).sum() for one in near])
    lengths = sizes / sizes[0] if sizes.min() > 0 else np.ones(len(sizes))
    x = near[0].point.x
    _, points = fit_direction(parts[0].mdp, problems, x, np.log(lengths[1:]), steps=4)
    return tuple(replace(one, point=point) for one, point in zip(problems, points, strict=True))


def fit_direction(
    mdp: MDP,
    fits: Sequence[Fit],
    x: np.ndarray,
    lengths: np.ndarray | None = None,
    *,
    steps: int = 200,
) -> tuple[float, list[Point]]:
    """Least loss of all with one direction of the parameters, each at its own length, and points.

    Args:
        mdp: the model.
        fits: of the parts, for their problems and values.
        x: [D] parameters of the first part, to begin from.
        lengths: [G - 1] logarithms of the others' lengths, to begin from; 0 by default.
        steps: most iterations.
    """
    from scipy.optimize import minimize

    size, backend = len(x), backend_of(mdp)
    values = [one.point.values for one in fits]
    points = [one.point for one in fits]

    def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
        total, slope = 0.0, np.zeros(len(z))
        for g, one in enumerate(fits):
            scale = float(np.exp(z[size + g - 1])) if g else 1.0
            point = point_at(backend, one.problem, scale * z[:size], values[g], one.tolerance)
            if not np.isfinite(point.loss):  # discount 1: no finite value, so never the way
                return FORBIDDING, np.zeros(len(z))
            points[g], values[g] = point, point.values
            total += float(point.loss)
            slope[:size] += scale * point.gradient
            if g:
                slope[size + g - 1] = scale * float(z[:size] @ point.gradient)
        return total, slope

    problem = fits[0].problem
    limits = list(zip(problem.lower, problem.upper, strict=True))
    limits += [(-WIDEST, WIDEST)] * (len(fits) - 1)
    start = np.zeros(len(fits) - 1) if lengths is None else np.clip(lengths, -WIDEST, WIDEST)
    begin = np.concatenate([x, start])
    # In nats: far finer than a likelihood ratio needs.
    options = {"ftol": 1e-10, "gtol": 1e-4, "maxiter": steps}
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=limits, options=options)
    total, _ = loss(found.x)
    return total, points


def trajectory_p_value(seen: Trajectories, base: Fit, *, seed: int = 0) -> float:
    """Chance that trajectories of one type scatter as much as these; NaN where they are too many.

    The scatter of their scores in units of the information; its law by actions redrawn at the
    visited states, each draw corrected by one score step instead of a refit.
    """
    whole = seen.whole
    if whole.counts.sum() > LARGEST:
        return np.nan
    policy, actions = np.asarray(base.point.policy), whole.mdp.actions
    scores = advantages(whole.mdp, whole.space, base)[base.free]
    fisher = information(scores, policy, whole.visits)
    inverse, _ = inverse_information(fisher, np.ones(len(scores), bool))
    own = seen.table.tocoo()
    # One row a step: its trajectory and its state.
    often = own.data.astype(np.int64)
    row, state = np.repeat(own.row, often), np.repeat(own.col // actions, often)
    visits = np.zeros((len(seen), whole.mdp.states))
    np.add.at(visits, (row, state), 1.0)
    per_state = np.einsum("dsa,esa,sa->sde", scores, scores, policy)
    each = np.tensordot(visits, per_state, 1)  # [E, D, D] information of every trajectory

    def scatter(sums: np.ndarray) -> float:
        left = sums - each @ (inverse @ sums.sum(axis=0))
        return float(np.einsum("ed,df,ef->", left, inverse, left))

    rng, edges = np.random.default_rng(seed), np.cumsum(policy, axis=1)[state]
    observed, larger = scatter(seen.sums(scores)), 0
    for _ in range(DRAWS):
        drawn = (rng.random(len(state))[:, None] > edges[:, :-1]).sum(axis=1)
        sums = np.zeros((len(seen), len(scores)))
        np.add.at(sums, row, scores[:, state, drawn].T)
        larger += scatter(sums) >= observed
    return (1.0 + larger) / (1.0 + DRAWS)
