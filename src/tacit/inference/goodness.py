"""Whether a fitted policy fits what was seen: its actions, its trajectories, their time and order.

Laws are given the visited sites, under which actions are independent draws of the policy.
Instead of a refit, statistics lose their projection on the score of the fitted parameters: at the
maximum of the likelihood that projection is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed, PartitionedDemonstrations
from tacit.data.tally import group_sums
from tacit.inference.sequence import BINS, EVENTS, SequenceSums
from tacit.inference.tails import gamma_tails, ratio_tail, student_tail
from tacit.search.algebra import coarse, first_largest, square_roots, weighted_products

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# The parts of a goodness.
ACTIONS, TRAJECTORIES, TIME, STEPS, NOISE = "actions", "trajectories", "time", "steps", "noise"
TIMES, SERIAL = "times", "serial"
# Expected number of steps from which a cell is large enough for the chi-square law.
LARGE = 5.0
# Least number of draws whose ranks are a p-value; of fewer only the moments are used.
DRAWS = 199
# A gamma law of a smaller shape has nearly all of its mass at 0, where no statistic of ours is.
LEAST_SHAPE = 0.5
# Cells and steps drawn in all, so that testing stays cheaper than fitting.
MOST_CELLS = 200_000
MOST_STEPS = 1_000_000
# Pearson statistic a step that only rounding makes.
FLAT = 1e-20
# Steps drawn where no other law is known.
MOST_STEPS_WITHOUT_LAW = 50_000_000
# Numbers in one go: what stays in the cache.
AT_ONCE = 100_000
# Sites to a visited one from which the others are left out: with fewer a copy is not worth it.
SITES_A_VISITED_ONE = 2
# Relative size below which a variance is rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Part:
    """One test of the fit.

    Attributes:
        name: "actions" (given states), "trajectories" (between them), "time" (a trend within them),
            "times" (between bins of time), "serial" (what follows what), "noise" (that was given),
            or "steps" that no explanation allows.
        statistic: what is large where the model fails; NaN where it could not be tested.
        p_value: chance of one this large if the model is right; NaN where there is none.
        adjusted: the same after Holm's correction for the other parts.
        method: law of the statistic: "chi-square", "bootstrap", "moments", "exact", or "between
            episodes" where choices decide how long these last.
        degrees: of freedom of the chi-square; NaN for other laws.
        draws: of the bootstrap; 0 for other laws.
        absence: why it could not be tested; empty where it was.
    """

    name: str
    statistic: float = np.nan
    p_value: float = np.nan
    adjusted: float = np.nan
    method: str = ""
    degrees: float = np.nan
    draws: int = 0
    absence: str = ""


@dataclass(frozen=True, kw_only=True)
class Worst:
    """The action by which the model fails most.

    Attributes:
        state: where.
        action: which.
        observed: share of the visits in which it was taken.
        expected: the share that the model says.
    """

    state: int
    action: int
    observed: float
    expected: float

    def sentence(self, states: Sequence[str] = (), actions: Sequence[str] = ()) -> str:
        """It in words, with names where they are given."""
        where = states[self.state] if states else f"state {self.state}"
        what = actions[self.action] if actions else f"action {self.action}"
        return (
            f"in {where} it takes {what} in {percentage(self.observed)} of visits, the model says "
            f"{percentage(self.expected)}"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedChoices:
    """A fitted policy where actions were chosen.

    A site is a state; of trips it is a state on the way to a goal.

    Attributes:
        counts: [n, A] how often each action was taken.
        policy: [n, A] of the fit.
        scores: [D, n, A] of one step, in the directions in which the fit could move.
        choices: [n] how many actions can be taken at each site.
        doubt: [m, n, A] what estimated dynamics may be mistaken by: independent draws of what the
            logarithm of the policy moves, of which any random mixture is one, too.
        states: [n] state of each site, whose actions are added up; None where sites are states.
        covariance: [D, D] inverse information, with that of a prior; None for that of the scores.
        rank: number of parameters that the covariance fits; None for that of the scores.
        pull: [D] gradient of a prior at the fit; None without one.
        directions: [r, D] in which trajectories are compared; None for all.
        names: [D] of the parameters; empty where the scores are not those of single ones.
    """

    counts: np.ndarray
    policy: np.ndarray
    scores: np.ndarray
    choices: np.ndarray
    doubt: np.ndarray | None = None
    states: np.ndarray | None = None
    covariance: np.ndarray | None = None
    rank: int | None = None
    pull: np.ndarray | None = None
    directions: np.ndarray | None = None
    names: Sequence[str] = ()

    def by_state(self, table: np.ndarray, states: int) -> np.ndarray:
        """[S, A] sums over the sites of a table [n, A]."""
        if self.states is None:
            return table
        sums = np.zeros((states, table.shape[1]))
        np.add.at(sums, self.states, table)
        return sums


@dataclass(frozen=True, eq=False, kw_only=True)
class FitTests:
    """Tests and residuals of a fitted policy.

    Attributes:
        parts: the tests.
        residuals: [S, A] (seen - expected) / sqrt(expected); NaN where nothing was chosen.
        trajectory_residuals: [E] how far beyond chance each trajectory is from the model, in
            standard deviations; empty where single trajectories are not known.
        worst: the action by which the model fails most; None where it is not known.
        unseen: [B, D] directions of the parameters that rest on fewer than five expected events:
            trajectories, time and order are not compared in them.
    """

    parts: tuple[Part, ...]
    residuals: np.ndarray
    trajectory_residuals: np.ndarray
    worst: Worst | None = None
    unseen: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))


def fit_tests(
    demonstrations: Observed,
    fit: FittedChoices,
    *,
    states: int,
    level: float,
    seed: int = 0,
    simulated: bool = True,
) -> FitTests:
    """The `FitTests` of a fitted policy.

    Args:
        demonstrations: what was seen.
        fit: the policy where actions were chosen.
        states: S.
        level: of the test.
        seed: of the draws.
        simulated: whether laws may be drawn; else they are chi-square and gamma ones.
    """
    demonstrations, fit = _at_visited_sites(demonstrations, fit)
    visits = fit.counts.sum(axis=1)
    flat = fit.scores.reshape(len(fit.scores), fit.policy.size)
    if fit.directions is not None:
        flat = fit.directions @ flat
    half = square_roots(_information(fit.policy, flat, visits))[1]
    whitened = (half @ flat).reshape(len(half), *fit.policy.shape)
    draws = max(DRAWS, int(np.ceil(10.0 / level)) - 1) if simulated else 0
    whitened[:, visits == 0] = 0.0  # nothing is asked of them, and scores far away may overflow
    first, second = np.random.default_rng(seed).spawn(2)
    actions = _actions_part(fit, whitened, draws, first)
    rests, axes = _event_shares(whitened, visits[:, None] * fit.policy)
    usual = EVENTS * rests <= 1.0
    kept = np.tensordot(axes[usual], whitened, 1)
    unseen = axes[~usual] @ half
    if fit.directions is not None:
        unseen = unseen @ fit.directions
    chances = Chances(fit.policy, fit.doubt)
    sequence, absence = _sequence_parts(demonstrations, chances, kept, rests[usual])
    parts, by_trajectory = _trajectory_parts(demonstrations, chances, kept, draws, second, absence)
    seen = fit.by_state(fit.counts, states)
    expected = fit.by_state(visits[:, None] * fit.policy, states)
    return FitTests(
        parts=(actions, *parts, *sequence),
        residuals=_residuals(fit, seen, expected),
        trajectory_residuals=by_trajectory,
        worst=worst_action(seen, expected),
        unseen=unseen,
    )


def _at_visited_sites(
    demonstrations: Observed, fit: FittedChoices
) -> tuple[Observed, FittedChoices]:
    """Both without the sites that nobody visits, where most are such."""
    if fit.states is not None or not isinstance(demonstrations, Demonstrations):
        return demonstrations, fit
    is_visited = fit.counts.sum(axis=1) > 0
    is_visited[demonstrations.states] = True
    visited = np.flatnonzero(is_visited)
    if SITES_A_VISITED_ONE * len(visited) > len(is_visited):
        return demonstrations, fit
    number = np.cumsum(is_visited) - 1
    steps = replace(demonstrations, states=number[demonstrations.states], final_states=None)
    doubt = None if fit.doubt is None else fit.doubt[:, visited]
    return steps, replace(
        fit,
        counts=fit.counts[visited],
        policy=fit.policy[visited],
        scores=fit.scores[:, visited],
        choices=fit.choices[visited],
        doubt=doubt,
        states=visited,
    )


def _event_shares(whitened: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[r] the share of one event in what is known of a direction, and [r, r] these directions.

    Where all rests on one action that is seldom taken, that is 1 over its expected number, whatever
    its score: its chance may be 1e-9 and the score 1e4. No eigenvalue of the information shows it.
    """
    flat = whitened.reshape(len(whitened), expected.size)
    lengths = np.einsum("dn,dn->n", flat, flat)
    shares, axes = np.linalg.eigh(weighted_products(flat, expected.ravel() * lengths))
    return shares, axes.T


def _sequence_parts(
    demonstrations: Observed, given: Chances, whitened: np.ndarray, shares: np.ndarray
) -> tuple[list[Part], str]:
    """The tests of changes with time and of what follows what, and why none can be made, if so."""
    reason = ""
    if not isinstance(demonstrations, Demonstrations | PartitionedDemonstrations):
        reason = "single trajectories are not known: only their sums are"
    elif demonstrations.episodes == demonstrations.steps:
        reason = "there are no trajectories, only loose steps"
    if reason:
        return [Part(name=name, absence=reason) for name in (TIMES, SERIAL)], reason
    sums_of = partial(SequenceSums.of, given.policy, whitened, given.doubt)
    if isinstance(demonstrations, Demonstrations):
        sums = sums_of(demonstrations)
    else:
        assert isinstance(demonstrations, PartitionedDemonstrations)
        sums = demonstrations.reduce(sums_of)
    # Every bin of time must rest on enough events of every direction.
    most = 1.0 / (EVENTS * float(shares.max())) if len(shares) else 0.0
    sizes = sorted({min(int(most), count) for count in BINS})
    times = [_chi_square_part(TIMES, *sums.bins(count)) for count in sizes if count > 1]
    times = [part for part in times if part.degrees > 0]
    few = "there are too few steps"
    part = Part(name=TIMES, absence=few)
    if times:  # as many tests as numbers of bins, by Bonferroni
        part = min(times, key=lambda one: one.p_value)
        part = replace(part, p_value=min(1.0, len(times) * part.p_value))
    serial = _chi_square_part(SERIAL, *sums.serial())
    return [part, serial if serial.degrees > 0 else Part(name=SERIAL, absence=few)], ""


def _residuals(fit: FittedChoices, seen: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """[S, A] (seen - expected) / sqrt(expected); NaN where nothing was chosen."""
    residuals = (seen - expected) / np.sqrt(np.maximum(expected, 1e-300))
    residuals[(expected == 0.0) & (seen == 0.0)] = np.nan
    choices = fit.choices
    if fit.states is not None:
        choices = np.zeros(len(seen), int)
        np.maximum.at(choices, fit.states, fit.choices)
    residuals[choices < 2] = np.nan
    return residuals


@dataclass(frozen=True, eq=False)
class Chances:
    """The policy that draws are made of.

    Draws are attached to sites and actions by what is seen and likely there, not by their numbers.

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

    def counts(
        self, visits: np.ndarray, blocks: Sequence[int], random: np.random.Generator
    ) -> Iterator[np.ndarray]:
        """[size, S, A] how often actions are taken in so many visits [S], some draws at a time."""
        whole = visits.astype(np.int64)
        sites = np.lexsort([coarse((self.policy**2).sum(axis=1)), whole])
        cells = sites[:, None], self._likeliest[sites]
        for size in blocks:
            counts = np.empty((size, *self.policy.shape), np.int64)
            chances = self.drawn(size, random)[:, *cells]
            counts[:, *cells] = random.multinomial(whole[sites], chances, (size, len(sites)))
            yield counts

    def actions(self, states: np.ndarray, size: int, random: np.random.Generator) -> np.ndarray:
        """[size, T] actions taken in these states [T]."""
        chances, likeliest = random.random((size, len(states))), self._likeliest
        policies = np.take_along_axis(self.drawn(size, random), likeliest[None], axis=2)
        limits, places = np.cumsum(policies, axis=2), np.zeros(chances.shape, np.int64)
        for place in range(self.policy.shape[1] - 1):
            places += chances >= limits[:, states, place]
        return likeliest[states, places]

    @cached_property
    def _likeliest(self) -> np.ndarray:
        """[S, A] the actions of each site, the likeliest first."""
        return np.argsort(-coarse(self.policy), axis=1, kind="stable")


def _actions_part(
    fit: FittedChoices, whitened: np.ndarray, draws: int, random: np.random.Generator
) -> Part:
    """Pearson's test of the actions at the visited sites, or by state where those have several."""
    at = np.flatnonzero(fit.counts.sum(axis=1) > 0)
    counts, policy, scores = fit.counts[at], fit.policy[at], fit.scores[:, at]
    covariance, rank = fit.covariance, fit.rank
    if covariance is None or rank is None:
        scores, rank = whitened[:, at], len(whitened)
        covariance = np.eye(rank)
    degrees = int((fit.choices[at] - 1).clip(0).sum()) - rank
    if degrees < 1 and fit.pull is None:
        return Part(name=ACTIONS, absence="there are as many parameters as choices")
    visits, cells = counts.sum(axis=1), policy.size
    expected = visits[:, None] * policy
    rows = scores.reshape(len(scores), cells)
    pull = np.zeros(len(rows)) if fit.pull is None else fit.pull
    places = None if fit.states is None else _sums_by_state(fit.states[at])
    sums = expected if places is None else places @ expected
    safe = np.where(sums > 0, np.maximum(sums, 1e-300), 1.0).ravel()

    def pearson(drawn: np.ndarray) -> np.ndarray:
        off = (drawn - expected).reshape(len(drawn), cells)
        # What a refit would take away, to first order.
        off -= expected.ravel() * (((off @ rows.T - pull) @ covariance) @ rows)
        if places is not None:
            off = np.stack([(places @ one.reshape(policy.shape)).ravel() for one in off])
        off *= off
        found = off @ (1.0 / safe)
        return np.where(found > FLAT * visits.sum(), found, 0.0)  # rounding orders nothing

    statistic = float(pearson(counts[None])[0])
    known = fit.doubt is None and places is None and fit.pull is None
    if known and (draws == 0 or expected[policy > 0].min() >= LARGE):
        return _chi_square_part(ACTIONS, statistic, degrees)
    chances = Chances(policy, None if fit.doubt is None else fit.doubt[:, at])
    many = int(np.clip(MOST_CELLS // cells, 19, draws))
    blocks = _blocks(many, max(1, AT_ONCE // cells))
    law = np.concatenate([pearson(drawn) for drawn in chances.counts(visits, blocks, random)])
    if many < DRAWS:  # its mean is known exactly where the law is that of plain counts
        mean = float(degrees) if known else float(law.mean())
        return moments_part(ACTIONS, statistic, mean, float(((law - mean) ** 2).mean()), many)
    return drawn_part(ACTIONS, statistic, law)


def _sums_by_state(states: np.ndarray) -> csr_array | None:
    """[G, n] whose product with a table adds up the sites of a state; None where all differ."""
    from scipy.sparse import csr_array

    distinct, own = np.unique(states, return_inverse=True)
    if len(distinct) == len(states):
        return None
    return csr_array((np.ones(len(states)), (own, np.arange(len(states)))))


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
        size, (every, actions) = len(whitened), policy.shape
        offsets, many = demonstrations.offsets, demonstrations.episodes
        seen, where = np.unique(demonstrations.states, return_inverse=True)
        taken, states = where * actions + demonstrations.actions, len(seen)
        policy, whitened = policy[seen], whitened[:, seen]
        of_pairs = group_sums(None, taken, offsets, states * actions)
        if isinstance(of_pairs, np.ndarray):
            of_states = of_pairs.reshape(many, states, actions).sum(axis=2)
        else:
            of_states = group_sums(None, where, offsets, states)
        halves = np.ascontiguousarray(np.moveaxis(whitened * np.sqrt(policy), 0, 2))
        spread = (
            np.swapaxes(halves, 1, 2) @ halves
        )  # [states, r, r] covariance of one step's scores
        lengths = np.einsum("dsa,dsa->sa", whitened, whitened)
        traces = (policy * lengths).sum(axis=1)
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
        late, spent = np.zeros((every, actions)), np.zeros(every)
        late[seen] = np.asarray(placed.sum(axis=0)).reshape(policy.shape)
        spent[seen] = np.bincount(where, weights=steps, minlength=states)
        return cls(
            sums=of_pairs @ whitened.reshape(size, policy.size).T,
            traces=of_states @ traces,
            squares=squares,
            rests=of_states @ rests,
            late=late,
            spent=spent,
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


def _information(policy: np.ndarray, whitened: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[r, r] covariances of the scores of one step, summed over states with weights [S]."""
    flat = whitened.reshape(len(whitened), policy.size)
    return weighted_products(flat, (weights[:, None] * policy).ravel())


def _trajectory_parts(
    demonstrations: Observed,
    given: Chances,
    whitened: np.ndarray,
    draws: int,
    random: np.random.Generator,
    reason: str,
) -> tuple[list[Part], np.ndarray]:
    """The tests between trajectories and over time, and [E] how far each is from the model.

    They are not made where there is a `reason`.
    """
    none, policy = np.zeros(0), given.policy
    if not reason and len(whitened) == 0:
        reason = "no parameter is free, or none rests on five expected events"
    if not reason and given.doubt is not None and not isinstance(demonstrations, Demonstrations):
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

    first = _information(policy, whitened, found.late.sum(axis=1))
    second = _information(policy, whitened, found.spent) - first @ first.T
    inverse = square_roots(second, ROUNDING)[1]
    drift = np.einsum("dsa,sa->d", whitened, found.late) - first @ total
    drifted = float(((inverse @ drift) ** 2).sum())
    statistic = float(apart.sum())
    shrunk = max(1.0 - float(found.squares.sum()) / size, 0.0)
    moments = size * shrunk, float(variances.sum()) * shrunk
    few = demonstrations.steps * draws > MOST_STEPS
    no_law = moments[0] ** 2 < LEAST_SHAPE * moments[1]
    needed = draws > 0 and (given.doubt is not None or no_law or not few)
    if isinstance(demonstrations, Demonstrations) and needed:
        most = MOST_STEPS_WITHOUT_LAW if no_law else MOST_STEPS
        many = int(np.clip(most // demonstrations.steps, 49, draws))
        laws = _drawn_laws(demonstrations, given, whitened, shares, (inverse, first), many, random)
        named = ((TRAJECTORIES, statistic, laws[0]), (TIME, drifted, laws[1]))
        parts = [
            moments_part(name, value, float(law.mean()), float(law.var()), many)
            if few and not no_law
            else drawn_part(name, value, law)
            for name, value, law in named
        ]
    else:
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
        index = states * actions + given.actions(states, size, random)
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


def worst_action(counts: np.ndarray, expected: np.ndarray) -> Worst | None:
    """The state whose steps lose most likelihood, and there the action seen most too often.

    Both are tables [S, A]: how often each action was taken, and how often by the model.
    """
    visits = counts.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = np.where(counts > 0, counts * np.log(counts / np.maximum(expected, 1e-300)), 0.0)
    state = first_largest(lost.sum(axis=1))
    if not visits[state] > 0:
        return None
    action = first_largest(np.abs(counts[state] - expected[state]))
    taken = float(counts[state, action] / visits[state])
    share = float(expected[state, action] / visits[state])
    return Worst(state=state, action=action, observed=taken, expected=share)


def drawn_part(name: str, statistic: float, law: np.ndarray) -> Part:
    """The test of a statistic by its rank among draws of its law."""
    # Ties by rounding count as at least as large.
    p = float((1 + (law >= statistic * (1.0 - 1e-12)).sum()) / (1 + len(law)))
    return Part(name=name, statistic=statistic, p_value=p, method="bootstrap", draws=len(law))


def moments_part(name: str, statistic: float, mean: float, variance: float, draws: int) -> Part:
    """The test by a scaled chi-square law that has this mean and variance."""
    if not (mean > 0 and variance > 0):
        return Part(name=name, absence="nothing was left to chance")
    if mean**2 < LEAST_SHAPE * variance:
        return Part(
            name=name, absence="it rests on a few unlikely steps, for which no law is known"
        )
    p = gamma_tail(statistic, mean, variance)
    return Part(name=name, statistic=statistic, p_value=p, method="moments", draws=draws)


def gamma_tail(statistic: float, mean: float, variance: float) -> float:
    """The chance that a scaled chi-square number of this mean and variance is larger."""
    return float(gamma_tails(mean**2 / variance, max(statistic, 0.0) * mean / variance)[1])


def excess_p(excess: np.ndarray) -> float:
    """The chance of a mean as large as that of these numbers [E], if their expectation is 0."""
    many, spread = len(excess), float(excess.std(ddof=1)) if len(excess) > 1 else 0.0
    if not spread > 0:
        return np.nan
    return student_tail(many - 1, float(excess.mean()) / spread * np.sqrt(many))


def percentage(share: float) -> str:
    """A share in words that never rounds one step to nothing."""
    if 0.0 < share < 0.001:
        return "less than 0.1 %"
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{100.0 * share:.3g} %"
