"""The observed steps as a likelihood of one number a feature, and its shape around the maximum.

In the Boltzmann model only theta_r = reward weights / temperature and theta_k = multiplier *
weights / temperature act. Inside the library every feature is scaled to a range of one, so that
tolerances and ridges mean the same for all; a cost enters with a minus sign.

Minus the log-likelihood of all observed actions equals b . V_soft(theta) - theta . sum N phi with
b(s') = N(s') - discount * inflow of N: the dual of `Convex` with the start replaced by b. Where
episodes end V is what the end pays, linear in theta, and b is minus the expected arrivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.observed import Observed
from tacit.data.tally import Tally, tally_of
from tacit.engine.backends import tables_fit
from tacit.inference.numerics import square_roots
from tacit.inverse.expectations import random_loss, squares_of
from tacit.inverse.noisy.boltzmann import LARGEST, Fit, fit, over_an_episode
from tacit.inverse.noisy.inference import information
from tacit.inverse.noisy.known import Bounds
from tacit.model.features import Design, middles
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.inverse.noisy.em import Search
    from tacit.inverse.noisy.likelihood import Likelihood

# More parameters than this have no curvature [D, D] made of D solves on every step.
MANY_FEATURES = 200

# Ridge of the fit that a search begins from where it may matter.
ROUGH = 1e-4
# Share of the information below which the loss is too flat to divide by.
BENT = 0.05


@dataclass(frozen=True, eq=False)
class Steps:
    """The observed steps as the coefficients of the likelihood.

    Attributes:
        mdp: the model.
        space: its coordinates.
        counts: [S, A] how often each action was taken.
        start: [S] the b of the likelihood; complete trips whose moves are certain make it the
            number of trips that begin in each state, at discount 1.
        target: [D] sums of the features over all steps.
        discounted: [S, A] mean discounted visits of the trajectories that begin at the start, if
            there are any.
        tally: of the demonstrations; None where there are only counts.
        lost: [D, D] information that what was not seen takes away: whose steps these are, or
            whether they were chosen at all. None where all is seen.
        squares: [S, A] squared sampling weights of the steps, summed, their mean being 1; None
            where all steps count alike.
    """

    mdp: MDP
    space: Coordinates
    counts: np.ndarray
    start: np.ndarray
    _: KW_ONLY
    target: np.ndarray
    discounted: np.ndarray | None = None
    tally: Tally | None = None
    lost: np.ndarray | None = None
    squares: np.ndarray | None = None

    @classmethod
    def of(cls, mdp: MDP, space: Coordinates, demonstrations: Observed) -> Steps:
        """The coefficients of these demonstrations."""
        tally, visits = tally_of(mdp, demonstrations), None
        if tally.trajectories:
            known = np.flatnonzero(mdp.absorbing & ~mdp.ends)
            alike = (np.ptp(space.tables[:, known], axis=2) == 0).all(axis=0)
            visits = tally.visitation(np.isin(np.arange(mdp.states), known[alike]))
        plain, squares = cls.counted(mdp, space, tally.counts), squares_of(mdp, demonstrations)
        return replace(plain, discounted=visits, tally=tally, squares=squares)

    @classmethod
    def counted(cls, mdp: MDP, space: Coordinates, counts: np.ndarray) -> Steps:
        """The coefficients of steps of which only the counts [S, A] are known."""
        start = counts.sum(axis=1) - mdp.discount * mdp.inflow(counts)
        return cls(mdp, space, counts, start, target=space.pull_back(counts))

    @property
    def design(self) -> float:
        """By what weights of the steps multiply the variance of a mean (Kish's design effect)."""
        return 1.0 if self.squares is None else float(self.squares.sum() / self.counts.sum())

    @property
    def at_starts(self) -> np.ndarray:
        """[D] bool, which features every trajectory has where it begins, and which were seen."""
        tables = self.space.tables[:, self.mdp.initial > 0]
        begun = (tables + self.space.offsets[:, None, None]).any(axis=2).all(axis=-1)
        return begun & (self.target != 0.0)

    def reweighted(self, counts: np.ndarray) -> Steps:
        """The coefficients of some of the steps, or of a share of each, given as counts [S, A]."""
        return self.counted(self.mdp, self.space, counts)

    @property
    def visits(self) -> np.ndarray:
        """[S] number of steps in each state."""
        return self.counts.sum(axis=1)

    @property
    def convex(self) -> bool:
        """Whether the likelihood is convex for certain, so that its optimum is global."""
        within = self.start[~self.mdp.ends]  # the value of an end is linear
        return bool(within.min(initial=0.0) >= -1e-9 * self.counts.sum())

    def fit(
        self,
        options: Likelihood | Search,
        *,
        near: Fit | None = None,
        upper: np.ndarray | None = None,
    ) -> Fit:
        """The maximum of the likelihood, sought from a fit nearby if there is one.

        `upper` [D] are the largest values allowed; none by default.
        """
        lower, start = self.space.lower(free_reward=options.free_reward), None
        most = np.full(self.space.size, LARGEST)
        if name_coefficients(options):
            known = Bounds.of(self.space, options)
            lower, most, start = known.lower, known.upper, known.start
        upper = most if upper is None else upper
        x, values = (start, None) if near is None else (near.point.x, near.point.values)
        x = None if x is None else np.clip(x, lower, upper)
        if x is None and not self.convex and self.discounted is not None:
            x, values = self._begin(self.discounted, lower, upper, options.max_steps)
        return fit(
            self.mdp,
            self.space,
            self.start,
            self.target,
            lower=lower,
            upper=upper,
            tolerance=options.tolerance,
            max_steps=options.max_steps,
            information=self.visits,
            x=x,
            values=values,
        )

    def _begin(
        self, discounted: np.ndarray, lower: np.ndarray, upper: np.ndarray, max_steps: int
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Where the convex problem of the same data ends, if that is a better start than 0.

        It is not where trajectories are so few or short that no policy collects what they do.
        """
        ridge = over_an_episode(self.mdp, ROUGH)
        rough = fit(
            self.mdp,
            self.space,
            self.mdp.initial,
            self.space.pull_back(discounted),
            lower=lower,
            upper=upper,
            ridge=ridge,
            tolerance=1e-6,
            max_steps=max_steps,
        )
        point = rough.point
        loss = float(self.start @ point.values - point.x @ self.target)
        if not loss < random_loss(self.counts, self.mdp.choices):
            return None, None
        # A feature that moves nothing matches cut-off trajectories with any parameter.
        moves = np.diagonal(point.curvature) > ridge * (1.0 + 1e-9)
        return np.clip(np.where(moves, point.x, 0.0), lower, upper), point.values


def name_coefficients(options: Likelihood | Search) -> bool:
    """Whether options say something of single coefficients; most do not."""
    return any(getattr(options, name, None) for name in ("bounds", "fixed", "start"))


def curvature(steps: Steps, fitted: Fit, scores: np.ndarray) -> np.ndarray:
    """[D, D] of the loss at a fit; the information of the steps where that is no minimum.

    Both agree where the model is right. Elsewhere the loss bends by the visits that the fitted
    policy makes of the start b, not by those that were seen.
    """
    return bent(scores, fitted.point.policy, fitted.point.visits, steps.visits)


def bent(
    scores: np.ndarray, policy: np.ndarray, expected: np.ndarray, visits: np.ndarray
) -> np.ndarray:
    """[D, D] by the expected visits [S]; by those that were seen where that is no minimum."""
    own, fisher = information(scores, policy, expected), information(scores, policy, visits)
    inverse = square_roots(fisher)[1]
    least = np.linalg.eigvalsh(inverse @ own @ inverse.T).min(initial=1.0)
    return own if least > BENT else fisher


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The stacked, scaled and signed features of a task.

    Attributes:
        tables: [D, S, A] reward features, then minus the features of each constraint, scaled.
        signs: [D] 1 for reward, -1 for cost features.
        scales: [D] what the features were divided by.
        blocks: one slice of the coordinates for the reward, then one per constraint.
        names: [D] what to call each coordinate.
        ending: whether episodes end, so that sums may stop at any time.
        offsets: [D] what was taken off the scaled, signed features, which moves no action.
    """

    tables: np.ndarray
    signs: np.ndarray
    scales: np.ndarray
    blocks: tuple[slice, ...]
    _: KW_ONLY
    names: tuple[str, ...]
    ending: bool = False
    offsets: np.ndarray = field(default_factory=lambda: np.zeros(1))

    @property
    def size(self) -> int:
        """D, reward and cost features together."""
        return len(self.scales)

    @property
    def constraints(self) -> int:
        """K, the number of constraints."""
        return len(self.blocks) - 1

    def pull_back(self, visitation: np.ndarray) -> np.ndarray:
        """[D] sums of the tables over a visitation [S, A]."""
        return self.tables.reshape(self.size, -1) @ visitation.ravel()

    def lower(self, *, free_reward: bool) -> np.ndarray:
        """[D] smallest values allowed: 0, or none for a reward of free sign."""
        bounds = np.zeros(self.size)
        if free_reward:
            bounds[self.blocks[0]] = -np.inf
        return bounds


def coordinates(mdp: MDP, features: Features) -> Coordinates:
    """The `Coordinates` of these features on this model."""
    maps = (features.reward, *features.costs)
    tables, signs, scales, offsets, blocks, at = [], [], [], [], [], 0
    for k, table in enumerate(maps):
        columns = np.ascontiguousarray(np.moveaxis(table, -1, 0))  # [D, S] or [D, S, A]
        if mdp.restricted:
            columns = np.repeat(columns[:, :, None], mdp.actions, 2) if table.ndim == 2 else columns
            columns = np.where(mdp.choices | mdp.ends[:, None], columns, 0.0)
        high, low = _edges(mdp, columns)
        span, largest = high - low, np.abs(columns).reshape(len(high), -1).max(axis=1)
        varies = span > 1e-12 * largest
        scale = np.where(varies, span, np.where(largest > 0, largest, 1.0))
        sign = 1.0 if k == 0 else -1.0
        # A constant influences nothing; as zeros it cannot even seem to, by rounding or because
        # trajectories were cut off. Where episodes end it counts their steps: 0 comes after them.
        factors, middle = np.where(varies, sign / scale, 0.0), middles(high, low, mdp)
        columns = columns.reshape(len(scale), mdp.states, -1)
        if middle.any():
            columns = columns - middle[:, None, None]
            columns = np.where(mdp.choices, columns, 0.0) if mdp.restricted else columns
        made = factors[:, None, None] * columns
        tables.append(np.repeat(made, mdp.actions, 2) if made.shape[2] < mdp.actions else made)
        offsets.append(factors * middle)
        signs.append(np.full(len(scale), sign))
        scales.append(scale)
        blocks.append(slice(at, at + len(scale)))
        at += len(scale)
    names = (*features.reward_names, *(name for group in features.cost_names for name in group))
    return Coordinates(
        np.ascontiguousarray(np.concatenate(tables)),
        np.concatenate(signs),
        np.concatenate(scales),
        tuple(blocks),
        names=names,
        ending=bool(mdp.ends.any()),
        offsets=np.concatenate(offsets),
    )


def _edges(mdp: MDP, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([D], [D]) largest and smallest of columns [D, S] or [D, S, A], of the actions there are.

    Where episodes end, 0 is a value as well: that of all that would come after.
    """
    there = columns[:, mdp.choices] if mdp.restricted else columns.reshape(len(columns), -1)
    high, low = there.max(axis=1), there.min(axis=1)
    if mdp.ends.any():
        high, low = np.maximum(high, 0.0), np.minimum(low, 0.0)
    return high, low


def are_many(mdp: MDP, features: Features) -> bool:
    """Whether there are more features than are fitted with their curvature [D, D].

    Of more than those only features that vary count: the others influence nothing.
    """
    count = sum(features.sizes)
    if not tables_fit(count * mdp.states * mdp.actions):
        return True
    if count > MANY_FEATURES:
        count = int((~Design.of(mdp, features).empty).sum())
    return count > MANY_FEATURES


def priced(blocks: Sequence[slice], lower: np.ndarray) -> tuple[int, ...]:
    """The constraints that their bounds [D] alone give a price."""
    return tuple(k for k, block in enumerate(blocks[1:]) if (lower[block] > 0).any())


def of_constraints(blocks: Sequence[slice], members: Sequence[int], size: int) -> np.ndarray:
    """[D] bool, the parameters of these constraints; `blocks` begin with that of the reward."""
    mine = np.zeros(size, bool)
    for k in members:
        mine[blocks[1 + k]] = True
    return mine
