"""The sums of one reading of demonstrations: all that the estimators fit.

Of each episode nothing is kept but its part of the sums, so their size is that of the world, not of
the data. The sums of parts add up to those of the whole: `a + b`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import WeakKeyDictionary, ref

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations
from tacit.model.arguments import read_only
from tacit.model.available import first_unavailable
from tacit.model.mdp import MDP
from tacit.model.objective import Features, is_sparse, known_rest

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from tacit.data.observed import Observed
    from tacit.model.objective import FeatureTable

Sums = TypeVar("Sums")  # over episodes, which can be added up
# Model entries up to which sums over demonstrations are kept until they are asked for again: one
# fit asks for the same sums several times, for the search, the tests and the findings.
LARGEST_KEPT = 100_000
_sums: WeakKeyDictionary[Demonstrations, tuple[ref[MDP], dict]] = WeakKeyDictionary()
# Entries of a table of groups that is kept dense.
DENSE_GROUPS = 1_000_000
# Steps checked in one go: the successor lists of all would not fit for millions.
STEPS_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Horizons:
    """How many discounted steps trajectories cover, each at most 1 / (1 - discount).

    Attributes:
        number: E, how many trajectories there are.
        mean: of the steps covered.
        square: mean of their squares, for bounds on sums: of an episode that is complete, of the
            most that it could have taken. Infinite at discount 1, where nothing bounds that.
        longest: the most that one covers.
    """

    number: int
    mean: float
    square: float
    longest: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Tally:
    """What demonstrations add up to in a world; `a + b` is the tally of both.

    A trajectory is an episode that begins at the start: a partial one is none. Where a trajectory
    was cut off, what is missing depends on the features of its last known state, so those sums are
    kept by that state. One that arrived at an end is complete: its arrival is a visit, spread over
    the end's row. At discount 1 there is no bound on what is missing elsewhere.

    Attributes:
        counts: [S, A] how often each action was taken in each state, by all episodes.
        discounted: [S, A] discounted visits, summed over trajectories.
        starts: [S] how many trajectories begin in each state.
        cut: [S] discounted steps after the last one seen, summed over the trajectories that have
            their last known state there; 0 at an end.
        squares: [S] squares of the discounted steps seen, likewise.
        longest: [S] most discounted steps seen, likewise; 0 where there is no trajectory.
        ends: [S] how many trajectories those are.
        discount: of the sums.
        episodes: E, how many episodes of either kind there are.
        weighted: whether steps had sampling weights, so that these sums are no counts.
    """

    counts: np.ndarray
    discounted: np.ndarray
    starts: np.ndarray
    cut: np.ndarray
    squares: np.ndarray
    longest: np.ndarray
    ends: np.ndarray
    discount: float
    episodes: int
    weighted: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            part = getattr(self, field.name)
            if isinstance(part, np.ndarray):
                read_only(part)

    @classmethod
    def of(cls, mdp: MDP, demonstrations: Demonstrations) -> Tally:
        """The tally of demonstrations in this world."""
        seen, counts = demonstrations, demonstrations.counts(mdp)
        is_trajectory = ~seen.partial
        powers = mdp.discount ** np.arange(int(seen.lengths.max()) + 1)
        shares = seen.shares  # of steps; a trajectory's is that of its first and last one
        if seen.weights is not None and seen.partial.any() and is_trajectory.any():
            shares = shares / shares[is_trajectory[seen.episode]].mean()
        weights = shares * powers[seen.step]
        if seen.partial.any():
            weights *= is_trajectory[seen.episode]
        visits = np.bincount(seen.pairs(mdp.actions), weights, counts.size).reshape(counts.shape)
        first_shares = shares[seen.offsets[:-1]] * is_trajectory
        last_shares = shares[seen.offsets[1:] - 1] * is_trajectory
        final, discounts = seen.last_states, powers[seen.lengths]
        if mdp.discount == 1.0:
            missing, covered = np.full(len(final), np.inf), seen.lengths.astype(np.float64)
        else:
            missing = discounts / (1.0 - mdp.discount)
            covered = 1.0 / (1.0 - mdp.discount) - missing
        arrived = mdp.ends[final]
        if arrived.any():
            arrivals = _binned(mdp, final, last_shares * arrived * discounts)
            visits += arrivals[:, None] / mdp.actions
            covered = covered + arrived * discounts
            missing = np.where(arrived, 0.0, missing)
        longest = np.zeros(mdp.states)
        np.maximum.at(longest, final, covered * is_trajectory)
        missing = np.where(is_trajectory, missing, 0.0)
        return cls(
            counts=counts,
            discounted=visits,
            starts=_binned(mdp, seen.states[seen.offsets[:-1]], first_shares),
            cut=_binned(mdp, final, last_shares * missing),
            squares=_binned(mdp, final, last_shares * covered**2),
            longest=longest,
            ends=_binned(mdp, final, last_shares),
            discount=mdp.discount,
            episodes=seen.episodes,
            weighted=seen.weights is not None,
        )

    @classmethod
    def of_counts(cls, counts: np.ndarray, discount: float) -> Tally:
        """The tally of loose steps, of which only how often each was taken, [S, A], is known."""
        no_states = np.zeros(len(counts))
        return cls(
            counts=counts,
            discounted=np.zeros(counts.shape),
            starts=no_states,
            cut=no_states,
            squares=no_states,
            longest=no_states,
            ends=no_states,
            discount=discount,
            episodes=round(float(counts.sum())),
        )

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        if (self.counts.shape, self.discount) != (other.counts.shape, other.discount):
            raise InvalidDemonstrations(
                "tallies that are merged must be of the same world; got S, A, discount = "
                f"{(*self.counts.shape, self.discount)} and {(*other.counts.shape, other.discount)}"
            )
        return Tally(
            counts=self.counts + other.counts,
            discounted=self.discounted + other.discounted,
            starts=self.starts + other.starts,
            cut=self.cut + other.cut,
            squares=self.squares + other.squares,
            longest=np.maximum(self.longest, other.longest),
            ends=self.ends + other.ends,
            discount=self.discount,
            episodes=self.episodes + other.episodes,
            weighted=self.weighted or other.weighted,
        )

    def scaled(self, share: float) -> Tally:
        """The sums in which every step weighs this share of what it does here."""
        sums = ("counts", "discounted", "starts", "cut", "squares", "ends")
        return replace(self, **{name: share * getattr(self, name) for name in sums})

    @property
    def steps(self) -> int:
        """N, the number of observed steps."""
        return round(self.counts.sum())

    @property
    def trajectories(self) -> int:
        """How many episodes begin at the start."""
        return int(np.ceil(self.starts.sum()))

    def visitation(self, known: np.ndarray) -> np.ndarray:
        """[S, A] mean discounted visitation of the trajectories.

        `known` [S] bool says where the rest of a trajectory is known: it stays, whatever it does.
        """
        rest = np.where(known, self.cut, 0.0)[:, None] / self.counts.shape[1]
        return (self.discounted + rest) / self.starts.sum()

    def missing(self, known: np.ndarray) -> float:
        """Discounted steps that the mean trajectory lacks because it was cut off."""
        return float(self.cut[~known].sum() / self.starts.sum())

    def horizons(self, known: np.ndarray) -> Horizons:
        """How many discounted steps the trajectories cover, with the rest where it is known.

        `known` [S] bool are the states in which a trajectory is complete, ends among them: it could
        have been longer, and a bound must know it.
        """
        squares, longest, number = self.squares, self.longest, float(self.starts.sum())
        if self.discount < 1.0:
            full = 1.0 / (1.0 - self.discount)
            squares = np.where(known, full**2 * self.ends, squares)
            longest = np.where(known & (self.ends > 0), full, longest)
        rest = float(self.cut[known].sum())
        return Horizons(
            number=self.trajectories,
            mean=(float(self.discounted.sum()) + rest) / number,
            square=float(squares.sum() / number) if self.discount < 1.0 else np.inf,
            longest=float(longest.max()),
        )

    def check(self, mdp: MDP) -> None:
        """Raises `InvalidDemonstrations` unless these are sums in this world."""
        sizes = (*self.counts.shape, self.discount)
        if sizes != (mdp.states, mdp.actions, mdp.discount):
            raise InvalidDemonstrations(
                "a tally must be of the world it is used with; it has S, A, discount = "
                f"{sizes}, the world {(mdp.states, mdp.actions, mdp.discount)}"
            )
        odd = first_unavailable(mdp.available, *np.nonzero(self.counts)) if mdp.restricted else None
        if odd is not None:
            raise InvalidDemonstrations(f"{odd.sentence()} in the tally")

    def __repr__(self) -> str:
        return f"Tally(episodes={self.episodes}, steps={self.steps})"


def _binned(mdp: MDP, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[S] the sum of the weights of these states."""
    return np.bincount(states, weights=weights, minlength=mdp.states).astype(np.float64)


def tally_of(mdp: MDP, observed: Observed) -> Tally:
    """The `Tally` in this world."""
    if isinstance(observed, Demonstrations):
        return once(Tally.of, mdp, observed)
    if not isinstance(observed, Tally):
        return observed.tally(mdp)
    observed.check(mdp)
    return observed


def counts_of(mdp: MDP, observed: Observed) -> np.ndarray:
    """[S, A] how often each action was taken in each state."""
    if isinstance(observed, Demonstrations):  # quicker than the whole tally
        return once(_counts, mdp, observed)
    return tally_of(mdp, observed).counts


def _counts(mdp: MDP, observed: Demonstrations) -> np.ndarray:
    """[S, A] the counts, no longer writable."""
    return read_only(observed.counts(mdp))


def once(make: Callable[[MDP, Demonstrations], Sums], mdp: MDP, observed: Demonstrations) -> Sums:
    """What `make` returns; kept with the demonstrations, since neither they nor a world change."""
    if mdp.states * mdp.actions > LARGEST_KEPT:
        return make(mdp, observed)
    world, sums = _sums.get(observed, (None, {}))
    if world is None or world() is not mdp:
        sums = {}
        _sums[observed] = (ref(mdp), sums)
    if make not in sums:
        sums[make] = make(mdp, observed)
    return cast("Sums", sums[make])


def episode_sums(tables: np.ndarray, demonstrations: Demonstrations) -> np.ndarray:
    """[D, E] the sums of tables [D, S, A] over the steps of every episode."""
    flat, pairs = tables.reshape(len(tables), -1), demonstrations.pairs(tables.shape[2])
    share = None if demonstrations.weights is None else demonstrations.shares
    return (group_sums(share, pairs, demonstrations.offsets, flat.shape[1]) @ flat.T).T


@dataclass(frozen=True, eq=False)
class Scatter:
    """Products of sums over single episodes, added up; `a + b` is that of both.

    Attributes:
        episodes: how many there are.
        products: [D, D] sum over episodes of g g', with g [D] the sums of an episode.
    """

    episodes: int
    products: np.ndarray

    @classmethod
    def of(
        cls, scores: np.ndarray, demonstrations: Demonstrations, who: np.ndarray | None = None
    ) -> Scatter:
        """The scatter of the episodes' sums of tables [D, S, A]; those of one `who` [E] as one."""
        sums = episode_sums(scores, demonstrations)
        if who is None:
            return cls(demonstrations.episodes, sums @ sums.T)
        by_owner = np.stack([np.bincount(who, weights=row) for row in sums])
        return cls(by_owner.shape[1], by_owner @ by_owner.T)

    def __add__(self, other: Scatter) -> Scatter:
        return Scatter(self.episodes + other.episodes, self.products + other.products)


@dataclass(frozen=True, eq=False)
class SumSpread:
    """How discounted sums vary between trajectories; `a + b` is that of both.

    Attributes:
        number: how many trajectories there are.
        means: [D] of their sums.
        squares: [D] squared distances from the means, added up.
    """

    number: int
    means: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, mdp: MDP, features: Features, demonstrations: Demonstrations) -> SumSpread:
        """The spread of the discounted feature sums, of all maps one after the other."""
        if demonstrations.partial.all():
            size = sum(features.sizes)
            return cls(0, np.zeros(size), np.zeros(size))
        seen = demonstrations
        if seen.partial.any():
            seen = seen.select(~seen.partial)
        powers = mdp.discount ** np.arange(int(seen.lengths.max()) + 1)
        final, left = seen.last_states, powers[seen.lengths]
        known = known_rest(mdp, features)[final]
        tail = left / (1.0 - mdp.discount) * known if known.any() else np.zeros(len(final))
        tail = np.where(mdp.ends[final], left, tail)  # paid once, on arrival
        weights = powers[seen.step]

        @cache
        def visits(by_action: bool) -> np.ndarray | csr_matrix:
            """[E, S] or [E, S * A] the discounted visits before the last state."""
            size, places = mdp.states, seen.states
            if by_action:
                size, places = mdp.states * mdp.actions, seen.pairs(mdp.actions)
            return group_sums(weights, places, seen.offsets, size)

        moments = [
            moment
            for table in features.maps
            for moment in _moments(table, visits(table.ndim == 3), final, tail)
        ]
        means, squares = zip(*moments, strict=True)
        return cls(seen.episodes, np.concatenate(means), np.concatenate(squares))

    def __add__(self, other: SumSpread) -> SumSpread:
        number = self.number + other.number
        if self.number == 0 or other.number == 0:
            return other if self.number == 0 else self
        # Chan, Golub and LeVeque (1979): no large numbers are subtracted from each other.
        difference, share = other.means - self.means, other.number / number
        between = self.number * share * difference**2
        return SumSpread(
            number, self.means + share * difference, self.squares + other.squares + between
        )

    @property
    def deviations(self) -> np.ndarray:
        """[D] standard deviations; NaN where there is a single trajectory."""
        if self.number < 2:
            return np.full(len(self.means), np.nan)
        return np.sqrt(self.squares / (self.number - 1))


@dataclass(frozen=True, kw_only=True)
class Moves:
    """What a world cannot have done; `a + b` is that of both, the episodes of `b` numbered on.

    Attributes:
        episodes: how many were looked at.
        impossible: observed moves of probability 0.
        move: (episode, step, state, action, next state) of the first of them, or None.
        misplaced: trajectories that begin where the world never starts.
        start: (episode, state) of the first of them, or None.
    """

    episodes: int
    impossible: int = 0
    move: tuple[int, int, int, int, int] | None = None
    misplaced: int = 0
    start: tuple[int, int] | None = None

    @classmethod
    def of(cls, mdp: MDP, demonstrations: Demonstrations) -> Moves:
        """The impossible moves and misplaced starts of demonstrations in this world."""
        seen = demonstrations
        impossible, next_states = impossible_rows(mdp, seen)
        move = None
        if len(impossible):
            columns = (seen.episode, seen.step, seen.states, seen.actions, next_states)
            move = tuple(int(column[impossible[0]]) for column in columns)
        first_states = seen.states[seen.offsets[:-1]]
        misplaced = np.flatnonzero((mdp.initial[first_states] == 0) & ~seen.partial)
        start = None
        if len(misplaced):
            start = int(misplaced[0]), int(first_states[misplaced[0]])
        return cls(
            episodes=seen.episodes,
            impossible=len(impossible),
            move=cast("tuple[int, int, int, int, int] | None", move),
            misplaced=len(misplaced),
            start=start,
        )

    def __add__(self, other: Moves) -> Moves:
        move = other.move and (other.move[0] + self.episodes, *other.move[1:])
        start = other.start and (other.start[0] + self.episodes, other.start[1])
        return Moves(
            episodes=self.episodes + other.episodes,
            impossible=self.impossible + other.impossible,
            move=self.move or move,
            misplaced=self.misplaced + other.misplaced,
            start=self.start or start,
        )


def impossible_rows(mdp: MDP, seen: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
    """([M] the rows where a move of probability 0 begins, [N] the state after each, or -1)."""
    next_states = seen.next_states
    known, impossible = np.flatnonzero(next_states >= 0), []
    few_kinds = mdp.states**2 * mdp.actions <= len(known)  # of moves: no need to sort them
    for rows in np.array_split(known, max(1, len(known) // STEPS_AT_ONCE)):
        pairs = seen.states[rows].astype(np.int64) * mdp.actions + seen.actions[rows]
        moves = pairs * mdp.states + next_states[rows]
        kinds = np.flatnonzero(np.bincount(moves)) if few_kinds else np.unique(moves)
        place, target = np.divmod(kinds // mdp.states, mdp.actions), kinds % mdp.states
        is_likely = mdp.transitions.probabilities[place] > 0
        is_target = mdp.transitions.states[place] == target[:, None]
        is_possible = (is_likely & is_target).any(axis=1)
        if not is_possible.all():
            impossible.append(rows[np.isin(moves, kinds[~is_possible])])
    return np.concatenate([known[:0], *impossible]), next_states


def group_sums(
    weights: np.ndarray | None, places: np.ndarray, offsets: np.ndarray, size: int
) -> np.ndarray | csr_matrix:
    """[G, n] sums of the rows' weights [N] at their places [N], by group; sparse if large.

    Args:
        weights: of the rows; None where each counts 1.
        places: from 0 to n - 1.
        offsets: [G + 1] group g holds the rows offsets[g] to offsets[g + 1], at least one.
        size: n.
    """
    many = len(offsets) - 1
    if many * size > DENSE_GROUPS:
        from scipy.sparse import csr_matrix

        weights = np.ones(len(places)) if weights is None else weights
        return csr_matrix((weights, places, offsets), shape=(many, size))
    index = np.zeros(len(places), np.int64)
    index[offsets[1:-1]] = size
    np.cumsum(index, out=index)
    index += places
    sums = np.bincount(index, weights, minlength=many * size)
    return sums.reshape(many, size).astype(np.float64, copy=False)


def _moments(
    table: FeatureTable, visits: np.ndarray | csr_matrix, final: np.ndarray, tail: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """([n], [n]) means over episodes of sums of some columns, and squared distances from them.

    Args:
        table: [S, D] or [S, A, D] features.
        visits: [E, S] or [E, S * A] how much each episode visits.
        final: [E] one more state of each.
        tail: [E] how much that counts.
    """
    number = len(final)
    if is_sparse(table):
        from scipy.sparse import csr_array

        rest = csr_array((tail, (np.arange(number), final)), shape=visits.shape)
        sums = csr_array((csr_array(visits) + rest) @ csr_array(table))
        means = np.asarray(sums.sum(axis=0)).ravel() / number
        squares = np.asarray((sums * sums).sum(axis=0)).ravel() - number * means**2
        yield means, np.maximum(squares, 0.0)
        return
    flat = table.reshape(-1, table.shape[-1])
    at_end = table if table.ndim == 2 else table.mean(axis=1)
    for d in range(flat.shape[1]):  # one column at a time: [E, D] would not fit for millions
        sums = visits @ flat[:, d] + tail * at_end[final, d]
        yield sums.mean(keepdims=True), ((sums - sums.mean()) ** 2).sum(keepdims=True)


def squares_of(mdp: MDP, observed: Observed) -> np.ndarray | None:
    """[S, A] squared weights of the steps, their mean being 1, summed; None where none weigh."""
    if not isinstance(observed, Demonstrations) or observed.weights is None:
        return None
    size = mdp.states * mdp.actions
    total = np.bincount(observed.pairs(mdp.actions), observed.shares**2, minlength=size)
    return read_only(total.reshape(mdp.states, mdp.actions))


def random_loss(counts: np.ndarray, choices: np.ndarray) -> float:
    """Minus the log-likelihood of observed actions [S, A] if all there are were as likely."""
    if choices.all():
        return float(counts.sum() * np.log(counts.shape[1]))
    return float(counts.sum(axis=1) @ np.log(choices.sum(axis=1)))
