"""The goodness of a noisy expert's fit: its actions, its trajectories, and its time.

All laws are given the visited states, under which actions are independent draws of the policy.
Instead of a refit, statistics lose their projection on the score of the fitted parameters: at the
maximum of the likelihood that projection is 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed, PartitionedDemonstrations
from tacit.inference.numerics import ratio_tail, square_roots
from tacit.inverse.diagnostics import (
    ACTIONS,
    TIME,
    TRAJECTORIES,
    Goodness,
    Part,
    combined,
    drawn_part,
    excess_p,
    gamma_tail,
    moments_part,
    worst_action,
)
from tacit.inverse.findings import LEVEL
from tacit.model.counts import group_sums

# Expected number of steps from which a cell is large enough for the chi-square law.
LARGE = 5.0
# Least number of draws whose ranks are a p-value; of fewer only the moments are used.
DRAWS = 199
# Cells and steps drawn in all, so that testing stays cheaper than fitting.
MOST_CELLS = 200_000
MOST_STEPS = 1_000_000
# Numbers in one go: what stays in the cache.
AT_ONCE = 100_000
# Relative size below which a variance is rounding.
ROUNDING = 1e-9


def noisy_goodness(
    demonstrations: Observed,
    *,
    counts: np.ndarray,
    policy: np.ndarray,
    scores: np.ndarray,
    choices: np.ndarray,
    level: float,
    seed: int = 0,
    doubt: np.ndarray | None = None,
) -> Goodness:
    """The `Goodness` of a fitted policy.

    Args:
        demonstrations: what was seen.
        counts: [S, A] how often each action was taken.
        policy: [S, A] of the fit.
        scores: [n, S, A] of one step, in the directions in which the fit could move.
        choices: [S] how many actions can be taken in each state.
        level: of the test; one that keeps every constraint tests at the usual level.
        seed: of the draws.
        doubt: [m, S, A] what estimated dynamics may be mistaken by: independent draws of what the
            logarithm of the policy moves, of which any random mixture is one, too.
    """
    level = level if level < 1.0 else LEVEL
    visits = counts.sum(axis=1)
    flat = scores.reshape(len(scores), policy.size)
    fisher = (flat * (visits[:, None] * policy).ravel()) @ flat.T
    half = square_roots(fisher)[1]
    whitened = (half @ flat).reshape(len(half), *policy.shape)
    draws = max(DRAWS, int(np.ceil(10.0 / level)) - 1)
    seen = visits > 0
    whitened[:, ~seen] = 0.0  # nothing is asked of them, and scores far away may overflow
    residuals = np.full(policy.shape, np.nan)
    expected = visits[seen, None] * policy[seen]
    residuals[seen] = (counts[seen] - expected) / np.sqrt(np.maximum(expected, 1e-300))
    residuals[(policy == 0.0) & (counts == 0.0)] = np.nan
    residuals[choices < 2] = np.nan
    first, second = np.random.default_rng(seed).spawn(2)
    actions = _actions_part(
        counts[seen],
        Chances(policy[seen], None if doubt is None else doubt[:, seen]),
        whitened[:, seen],
        int((choices[seen] - 1).clip(0).sum()),
        draws,
        first,
    )
    chances = Chances(policy, doubt)
    parts, by_trajectory = _trajectory_parts(demonstrations, chances, whitened, draws, second)
    return combined(
        [actions, *parts],
        level=level,
        residuals=residuals,
        trajectory_residuals=by_trajectory,
        worst=worst_action(counts, policy),
    )


@dataclass(frozen=True, eq=False)
class Chances:
    """The policy that draws are made of.

    Attributes:
        policy: [S, A] of the fit.
        doubt: [m, S, A] draws of what its logarithm is mistaken by; None where nothing is.
    """

    policy: np.ndarray
    doubt: np.ndarray | None

    def drawn(self, size: int, random: np.random.Generator) -> np.ndarray:
        """[size or 1, S, A] policies that may be the true one, each of sum 1."""
        policy = self.policy[None]
        if self.doubt is not None:
            many = len(self.doubt)
            mixed = random.standard_normal((size, many)) / np.sqrt(many)
            moved = np.tensordot(mixed, self.doubt, 1)
            policy = policy * np.exp(np.clip(moved, -50.0, 50.0))
        total = policy.sum(axis=2, keepdims=True)
        return policy / np.where(total > 0, total, 1.0)


def _actions_part(
    counts: np.ndarray,
    given: Chances,
    whitened: np.ndarray,
    choices: int,
    draws: int,
    random: np.random.Generator,
) -> Part:
    """Pearson's test of the actions in the visited states, all arrays being of those alone."""
    degrees, policy = choices - len(whitened), given.policy
    if degrees < 1:
        return Part(name=ACTIONS, absence="there are as many parameters as choices")
    visits = counts.sum(axis=1)
    expected = visits[:, None] * policy
    safe = np.where(policy > 0, np.maximum(expected, 1e-300), 1.0)
    rows = whitened.reshape(len(whitened), policy.size)

    def pearson(drawn: np.ndarray) -> np.ndarray:
        off = (drawn - expected).reshape(len(drawn), -1)
        projected = ((off @ rows.T) ** 2).sum(axis=1)
        off *= off
        return off @ (1.0 / safe.ravel()) - projected

    statistic = float(pearson(counts[None])[0])
    if given.doubt is None and expected[policy > 0].min() >= LARGE:
        return _chi_square_part(ACTIONS, statistic, degrees)
    many = int(np.clip(MOST_CELLS // policy.size, 19, draws))
    at_once, whole = max(1, AT_ONCE // policy.size), visits.astype(np.int64)
    law = np.concatenate(
        [
            pearson(random.multinomial(whole, given.drawn(size, random), size=(size, len(visits))))
            for size in _blocks(many, at_once)
        ]
    )
    if many < DRAWS:  # its mean is known exactly, unless the policy is in doubt
        mean = float(degrees) if given.doubt is None else float(law.mean())
        return moments_part(ACTIONS, statistic, mean, float(((law - mean) ** 2).mean()), many)
    return drawn_part(ACTIONS, statistic, law)


def _blocks(total: int, size: int) -> list[int]:
    return [min(size, total - done) for done in range(0, total, size)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Episodes:
    """Sums over single episodes, in whitened scores; `a + b` is that of both.

    Attributes:
        sums: [E, r] scores.
        traces: [E] their expected squared length: the trace of the episode's information.
        squares: [E] trace of that information squared.
        rests: [E] fourth cumulants of the squared length.
        late: [S, A] places of the steps in their episodes, added up: the roots of their numbers.
        spent: [S] their squares.
        drifts: [E, r] scores times places.
        lengths: [E] number of steps.
    """

    sums: np.ndarray
    traces: np.ndarray
    squares: np.ndarray
    rests: np.ndarray
    late: np.ndarray
    spent: np.ndarray
    drifts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(
        cls, policy: np.ndarray, whitened: np.ndarray, demonstrations: Demonstrations
    ) -> Episodes:
        """The sums of these episodes, of a policy [S, A] and whitened scores [r, S, A]."""
        size, (states, actions) = len(whitened), policy.shape
        offsets, many = demonstrations.offsets, demonstrations.episodes
        where, taken = demonstrations.states, demonstrations.pairs(actions)
        of_pairs = group_sums(None, taken, offsets, states * actions)
        if isinstance(of_pairs, np.ndarray):
            of_states = of_pairs.reshape(many, states, actions).sum(axis=2)
        else:
            of_states = group_sums(None, where, offsets, states)
        spread = _spread(policy, whitened)
        lengths = np.einsum("dsa,dsa->sa", whitened, whitened)
        traces = np.einsum("sdd->s", spread)
        rests = (policy * lengths**2).sum(axis=1) - traces**2 - 2.0 * (spread**2).sum(axis=(1, 2))
        squares = np.empty(many)
        for begin in range(0, many, max(1, AT_ONCE // max(size**2, 1))):
            rows = slice(begin, begin + max(1, AT_ONCE // max(size**2, 1)))
            squares[rows] = ((of_states[rows] @ spread.reshape(states, -1)) ** 2).sum(axis=1)
        # A place is known before its step is taken. One relative to the episode's length would not
        # be: where choices decide when an episode ends, the last step is not a choice like the
        # others, and the right model would seem to drift. The root keeps a few long episodes from
        # deciding alone.
        steps = demonstrations.step
        placed = group_sums(np.sqrt(steps), taken, offsets, states * actions)
        return cls(
            sums=of_pairs @ whitened.reshape(size, policy.size).T,
            traces=of_states @ traces,
            squares=squares,
            rests=of_states @ rests,
            late=np.asarray(placed.sum(axis=0)).reshape(policy.shape),
            spent=np.bincount(where, weights=steps, minlength=states),
            drifts=placed @ whitened.reshape(size, policy.size).T,
            lengths=demonstrations.lengths,
        )

    def __add__(self, other: Episodes) -> Episodes:
        if not isinstance(other, Episodes):
            return NotImplemented
        joined = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("sums", "traces", "squares", "rests", "drifts", "lengths")
        }
        return Episodes(**joined, late=self.late + other.late, spent=self.spent + other.spent)


def _spread(policy: np.ndarray, whitened: np.ndarray) -> np.ndarray:
    """[S, r, r] covariance of the scores of one step in each state."""
    return np.einsum("dsa,sa,esa->sde", whitened, policy, whitened)


def _trajectory_parts(
    demonstrations: Observed,
    given: Chances,
    whitened: np.ndarray,
    draws: int,
    random: np.random.Generator,
) -> tuple[list[Part], np.ndarray]:
    """The tests between trajectories and over time, and [E] how far each is from the model."""
    none, policy = np.zeros(0), given.policy
    reason = ""
    if not isinstance(demonstrations, Demonstrations | PartitionedDemonstrations):
        reason = "single trajectories are not known: only their sums are"
    elif demonstrations.episodes == demonstrations.steps:
        reason = "there are no trajectories, only loose steps"
    elif len(whitened) == 0:
        reason = "no parameter is free"
    elif given.doubt is not None and not isinstance(demonstrations, Demonstrations):
        reason = "the dynamics were estimated, and the trajectories are not in memory"
    if reason:
        return [Part(name=name, absence=reason) for name in (TRAJECTORIES, TIME)], none
    if isinstance(demonstrations, Demonstrations):
        found = Episodes.of(policy, whitened, demonstrations)
    else:
        assert isinstance(demonstrations, PartitionedDemonstrations)
        found = demonstrations.reduce(partial(Episodes.of, policy, whitened))
    size = len(whitened)
    shares = found.traces / size
    total = found.sums.sum(axis=0)
    apart = ((found.sums - shares[:, None] * total) ** 2).sum(axis=1)
    variances = np.maximum(2.0 * found.squares + found.rests, 0.0)
    expected = np.maximum(found.traces - found.squares, 0.0)
    by_trajectory = (apart - expected) / np.sqrt(np.maximum(variances, 1e-300))
    by_trajectory = np.where(variances > 0, by_trajectory, 0.0)

    spread = _spread(policy, whitened)
    first = np.einsum("s,sde->de", found.late.sum(axis=1), spread)
    second = np.einsum("s,sde->de", found.spent, spread) - first @ first.T
    inverse = square_roots(second, ROUNDING)[1]
    drift = np.einsum("dsa,sa->d", whitened, found.late) - first @ total
    drifted = float(((inverse @ drift) ** 2).sum())
    statistic = float(apart.sum())
    few = demonstrations.steps * draws > MOST_STEPS
    if isinstance(demonstrations, Demonstrations) and (given.doubt is not None or not few):
        many = int(np.clip(MOST_STEPS // demonstrations.steps, 49, draws))
        laws = _drawn_laws(demonstrations, given, whitened, shares, (inverse, first), many, random)
        named = ((TRAJECTORIES, statistic, laws[0]), (TIME, drifted, laws[1]))
        parts = [
            moments_part(name, value, float(law.mean()), float(law.var()), many)
            if few
            else drawn_part(name, value, law)
            for name, value, law in named
        ]
    else:
        shrunk = max(1.0 - float(found.squares.sum()) / size, 0.0)
        moments = size * shrunk, float(variances.sum()) * shrunk
        parts = [
            moments_part(TRAJECTORIES, statistic, *moments, 0),
            _chi_square_part(TIME, drifted, len(inverse)),
        ]
    if np.ptp(found.lengths) > 0:
        excess, drifts = apart - expected, found.drifts - found.sums @ first.T
        parts = [_at_least(parts[0], excess_p(excess)), _at_least(parts[1], _drift_p(drifts))]
    if len(shares) < 2:
        parts[0] = Part(name=TRAJECTORIES, absence="there is one trajectory only")
    if len(inverse) == 0:
        parts[1] = Part(name=TIME, absence="no trajectory has two steps")
    return parts, by_trajectory


def _at_least(part: Part, p_value: float) -> Part:
    """The part with the larger of two p-values: its own, given the visits, and that of episodes.

    Where choices decide how long an episode lasts, the visits are not given: what chance does to
    single episodes is then seen between them.
    """
    if not p_value > part.p_value:
        return part
    return replace(part, p_value=p_value, method="between episodes", draws=0)


def _drift_p(drifts: np.ndarray) -> float:
    """The chance of a mean as far from 0 as that of these rows [E, r]: Hotelling's test."""
    many = len(drifts)
    if many < 2:
        return np.nan
    inverse = square_roots(np.atleast_2d(np.cov(drifts.T)) / many, ROUNDING)[1]
    size = len(inverse)
    if not 0 < size < many:
        return np.nan
    ratio = float(((inverse @ drifts.mean(axis=0)) ** 2).sum())
    return ratio_tail(size, many - size, ratio * (many - size) / (size * (many - 1)))


def _chi_square_part(name: str, statistic: float, degrees: int) -> Part:
    p = gamma_tail(statistic, degrees, 2.0 * degrees) if degrees else np.nan
    return Part(name=name, statistic=statistic, p_value=p, method="chi-square", degrees=degrees)


def _drawn_laws(
    demonstrations: Demonstrations,
    given: Chances,
    whitened: np.ndarray,
    shares: np.ndarray,
    drift: tuple[np.ndarray, np.ndarray],
    draws: int,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """[draws] laws of both statistics: actions drawn at the visited states, and one score step."""
    inverse, first = drift
    states, actions = demonstrations.states.astype(np.int64), given.policy.shape[1]
    places, begins = np.sqrt(demonstrations.step), demonstrations.offsets[:-1]
    tables = whitened.reshape(len(whitened), given.policy.size)
    apart, drifted = [], []
    for size in _blocks(draws, max(1, AT_ONCE // len(states))):
        chances = random.random((size, len(states)))
        index = np.broadcast_to(states * actions, chances.shape).copy()
        limits = np.cumsum(given.drawn(size, random), axis=2)
        for action in range(actions - 1):
            index += chances >= limits[:, states, action]
        sums = np.empty((len(tables), size, len(begins)))
        late = np.empty((len(tables), size))
        for d, table in enumerate(tables):
            drawn = table[index]
            sums[d] = np.add.reduceat(drawn, begins, axis=1)
            late[d] = drawn @ places
        total = sums.sum(axis=2)
        apart.append(((sums - shares * total[:, :, None]) ** 2).sum(axis=(0, 2)))
        drifted.append(((inverse @ (late - first @ total)) ** 2).sum(axis=0))
    return np.concatenate(apart), np.concatenate(drifted)
