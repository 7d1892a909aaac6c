"""The law of a likelihood ratio where parameters have bounds.

Near a fit the log-likelihood is a quadratic with the information I as its curvature, and a model is
the cone of directions in which its parameters may move. With scores G ~ N(0, I) the ratio of two
models is the difference of two maxima of 2 d . G - d' I d. Parameters that no bound holds are
projected out; the rest is a problem of signed numbers, solved for all draws at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tacit.inference.tails import DRAWS, chi_square_tail, simulated_chance
from tacit.search.algebra import covariance_root, largest_first, least_squares, square_roots
from tacit.search.operators import BLIND, inverse_information

# Draws of up to so many bounded parameters in the law of one number, in antithetic pairs, and of
# more: each takes longer, and what the number's own score does counts for more of the law.
FEW, DRAWN, DRAWN_OF_MANY = 12, 512, 128
# Values of the number's own score that each draw meets.
OFFSETS = 8
# Most bounded parameters in the law of one number: those that its form leans on most.
MOST = 40
# Exchanges between the faces of a cone before least squares are asked.
EXCHANGES = 4
# Numbers in the matrices of faces that are solved together.
TOGETHER = 2**21
# What is added to the diagonal of a matrix of size 1, so that every face has an inverse.
STEADY = 1e-11


class Cone:
    """Maxima of 2 y . score - y' matrix y over y >= 0, for many scores.

    By exchanges of all that is wrong between the faces of the cone, each draw on one of its own.
    Where these go round, by least squares with signs, draw by draw.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        own = np.diagonal(matrix)
        self.matrix = matrix + np.diag(np.maximum(own, 0.0) - own + STEADY)

    def maxima(
        self,
        scores: np.ndarray,
        *,
        across: np.ndarray | None = None,
        start: np.ndarray | None = None,
    ) -> np.ndarray:
        """[N, k] where the maxima are for scores [N, k].

        Args:
            scores: [N, k].
            across: [k] what adds its square with itself to the matrix; None for nothing.
            start: [N, k] bool, faces to begin with; None for those of the positive scores.
        """
        across = np.zeros(len(self.matrix)) if across is None else across
        matrix = self.matrix + np.outer(across, across)
        inside = scores > 0 if start is None else start.copy()
        places = np.zeros(scores.shape)
        rounding = 1e-10 * (1.0 + np.abs(scores).max(axis=1, initial=0.0))
        open_ = np.arange(len(scores) if len(matrix) else 0)
        for _ in range(EXCHANGES if len(open_) else 0):
            here = places[open_] = _solved(self.matrix, scores[open_], inside[open_], across)
            slopes = scores[open_] - here @ matrix
            least = rounding[open_, None]
            wrong = np.where(inside[open_], here < -least, slopes > least)
            left = wrong.any(axis=1)
            open_, wrong = open_[left], wrong[left]
            if not len(open_):
                break
            inside[open_] ^= wrong
        if len(open_):
            half, inverse = square_roots(matrix)
            for draw in open_.tolist():
                places[draw] = least_squares(half, inverse @ scores[draw])[0]
        return np.maximum(places, 0.0)

    def gains(self, scores: np.ndarray) -> np.ndarray:
        """[N] the maxima themselves, for scores [N, k]."""
        return gains_at(self.matrix, scores, self.maxima(scores))


def _solved(
    matrix: np.ndarray, scores: np.ndarray, inside: np.ndarray, across: np.ndarray
) -> np.ndarray:
    """[N, k] the maxima without signs on the faces `inside` [N, k] bool, 0 off them.

    The matrix is a given one [k, k] and the square of `across` [k], which may be far larger.
    """
    size, found = len(matrix), np.zeros(scores.shape)
    many = max(1, TOGETHER // size**2)
    for first in range(0, len(scores), many):
        part = slice(first, first + many)
        faces = inside[part]
        blocks = np.where(faces[:, :, None] & faces[:, None, :], matrix, np.eye(size))
        both = np.stack(np.broadcast_arrays(scores[part], across), axis=2)
        aims = np.where(faces[:, :, None], both, 0.0)
        place, lean = np.moveaxis(np.linalg.solve(blocks, aims), 2, 0)
        share = (place @ across) / (1.0 + lean @ across)
        found[part] = place - share[:, None] * lean
    return found


def gains_at(matrix: np.ndarray, scores: np.ndarray, places: np.ndarray) -> np.ndarray:
    """[N] 2 y . score - y' matrix y at places y [N, k]."""
    return 2.0 * (places * scores).sum(axis=1) - ((places @ matrix) * places).sum(axis=1)


@dataclass(frozen=True, eq=False)
class RatioLaw:
    """The law of the likelihood ratio of "form . d = 0", some parameters being at least 0.

    The score of the form is independent of what is left of those of the bounded parameters: each
    draw of these meets several values of that, which are quantiles.

    Attributes:
        information: [n, n] of the parameters.
        bounded: [n] bool, those that are at least 0; all others may go either way.
        draws: of the bounded ones, in antithetic pairs; the same ones for every form. None for as
            many as are enough.
    """

    information: np.ndarray
    bounded: np.ndarray
    draws: int | None = None

    def ratios(self, form: np.ndarray) -> RatioDraws | None:
        """The ratios of a form [n].

        None where the form is of bounded parameters alone: nothing is known of its sum then.
        """
        lean = form @ self._inverse
        own = float(lean @ form)
        scale = float((form**2 / np.maximum(np.diagonal(self.information), 1e-300)).sum())
        if own <= BLIND * scale:
            return None
        # The equality is kept by the free parameters: it adds a square to what is left of the rest.
        across = (form - lean @ self.information)[self.bounded] / np.sqrt(own) / self._units
        return RatioDraws(self._cone, self._rest, self._wide, across)

    def cut(self, form: np.ndarray, side: float, level: float) -> float:
        """The quantile `level` of the ratio, counted as 0 where form . d has the other sign.

        Infinite where the form is of bounded parameters alone.
        """
        ratios = self.ratios(form)
        return np.inf if ratios is None else ratios.quantile(side, level)

    @cached_property
    def _inverse(self) -> np.ndarray:
        """[n, n] of the information about the free parameters, 0 elsewhere."""
        return inverse_information(self.information, ~self.bounded)[0]

    @cached_property
    def _left(self) -> np.ndarray:
        """[k, k] information about the bounded parameters when the free ones adapt."""
        across = self.information[self.bounded]
        return across[:, self.bounded] - across @ self._inverse @ across.T

    @cached_property
    def _units(self) -> np.ndarray:
        """[k] its size for each."""
        known = np.diagonal(self.information)[self.bounded]
        return np.sqrt(np.maximum(np.diagonal(self._left), np.maximum(BLIND * known, 1e-300)))

    @cached_property
    def _root(self) -> np.ndarray:
        """[k, k] of what is left, in these units: what rounding makes negative is 0."""
        left = self._left
        return covariance_root(left / np.outer(self._units, self._units), np.diagonal(left))

    @cached_property
    def _cone(self) -> Cone:
        return Cone(self._root @ self._root.T)

    @cached_property
    def _rest(self) -> np.ndarray:
        """[draws, k] what is left of the scores of the bounded parameters."""
        size = len(self._root)
        count = self.draws or (DRAWN if size <= FEW else DRAWN_OF_MANY)
        drawn = np.random.default_rng(0).standard_normal((count // 2, size))
        return np.concatenate([drawn, -drawn]) @ self._root.T

    @cached_property
    def _wide(self) -> np.ndarray:
        """[draws, k] the bounded parameters where the wider model is likeliest."""
        return self._cone.maxima(self._rest)


class RatioDraws:
    """Draws of the ratio of one form: each is worked out where it may matter.

    A ratio is never larger than the square of the form at the maximum of the wider model, which is
    known for all draws.

    Attributes:
        offsets: [N] scores of the form.
        values: [N] the form at the maximum of the wider model, in its own standard errors.
    """

    def __init__(self, cone: Cone, rest: np.ndarray, wide: np.ndarray, across: np.ndarray) -> None:
        from scipy.special import ndtri

        self._cone, self._rest, self._wide, self._across = cone, rest, wide, across
        # Of both signs with each draw: turned round, a form has the same law on the other side.
        half = OFFSETS // 2
        shuffled = np.random.default_rng(1).permutation(len(rest))
        places = (np.arange(half) * len(rest) + shuffled[:, None] + 0.5) / (half * len(rest))
        sizes = ndtri(0.5 + 0.5 * places)
        self.offsets = np.concatenate([sizes, -sizes], axis=1).ravel()
        self.values = self.offsets + np.repeat(wide @ across, OFFSETS)
        self._gains = gains_at(cone.matrix, rest, wide)

    def __len__(self) -> int:
        return len(self.offsets)

    def at(self, draws: np.ndarray) -> np.ndarray:
        """[...] the ratios of these draws, by their numbers [...]."""
        across, which, offset = self._across, draws // OFFSETS, self.offsets[draws]
        shifted = self._rest[which] - offset[:, None] * across
        tied = self._cone.maxima(shifted, across=across, start=self._wide[which] > 0)
        matrix = self._cone.matrix + np.outer(across, across)
        return offset**2 + self._gains[which] - gains_at(matrix, shifted, tied)

    def share_beyond(self, ratio: float) -> float:
        """The chance of a ratio this large."""
        likely = np.flatnonzero(self.values**2 >= ratio)
        # One more in both counts: a simulated law cannot vouch for a chance of zero.
        return float((1 + (self.at(likely) >= ratio).sum()) / (1 + len(self)))

    def quantile(self, side: float, level: float) -> float:
        """The quantile `level` of the ratios, counted as 0 where the value has the other sign."""
        bounds = np.where(side * self.values > 0, self.values**2, 0.0)
        order = np.argsort(-bounds, kind="stable")
        place = (len(self) - 1) * level
        many = len(self) - int(place)  # that are no smaller than what is asked for
        largest, done = np.zeros(0), 0
        while not done or (done < len(self) and bounds[order[done]] > largest[0]):
            draws = order[done : 2 * done + many]
            ratios = np.minimum(self.at(draws), bounds[draws])
            largest, done = np.sort(np.concatenate([largest, ratios]))[-many:], done + len(draws)
        below, above = largest[0], largest[min(1, many - 1)]
        return float(below + (place - int(place)) * (above - below))


@dataclass(frozen=True, eq=False)
class Directions:
    """Where the parameters of several parts may move from a point, as a model allows.

    Attributes:
        jacobians: one [D, n] per part, derivative of its parameters in those of the model.
        free: [n] bool, the parameters of the model that no bound holds.
        one_sided: [n] bool, those on a bound, which may leave it.
    """

    jacobians: Sequence[np.ndarray]
    free: np.ndarray
    one_sided: np.ndarray

    def information(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """[n, n] about the parameters of the model, from [D, D] of each part about its own."""
        pairs = zip(self.jacobians, parts, strict=True)
        return sum((inner.T @ own @ inner for inner, own in pairs), start=np.zeros(()))

    def gains(self, parts: Sequence[np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        """Scores [draws, N] -> [draws] the likelihood ratios of this model over the point.

        `parts` are the informations, one [D, D] per part; N is their size, all together.
        """
        inner, fisher = np.concatenate(self.jacobians), self.information(parts)
        inverse, _ = inverse_information(fisher, self.free)
        # What is left for the parameters on their bound after the free ones have adapted.
        left = fisher - fisher @ inverse @ fisher
        seen = self.one_sided & (np.diagonal(left) > BLIND * np.diagonal(fisher))
        units = np.sqrt(np.diagonal(left)[seen])
        cone = Cone(left[np.ix_(seen, seen)] / np.outer(units, units))

        def gained(scores: np.ndarray) -> np.ndarray:
            slopes = scores @ inner
            rest = (slopes - slopes @ inverse @ fisher)[:, seen]
            return ((slopes @ inverse) * slopes).sum(axis=1) + cone.gains(rest / units)

        return gained


def ratio_p_value(
    ratio: float,
    parts: Sequence[np.ndarray],
    wide: Directions,
    narrow: Directions,
    *,
    levels: npt.ArrayLike,
    seed: int = 0,
    scatter: np.ndarray | None = None,
) -> float:
    """The chance of a likelihood ratio this large if the narrower of two models is true.

    Args:
        ratio: twice the log-likelihood gained by the wider model.
        parts: the informations, one [D, D] per part.
        wide: where the wider model may move from the fit of the narrower one.
        narrow: where the narrower model may move.
        levels: what the chance is compared with.
        seed: of the simulated law.
        scatter: [N, N] covariance of the scores of all parts, where it is not their information.
    """
    from scipy.linalg import block_diag

    if scatter is None and not (wide.one_sided.any() or narrow.one_sided.any()):
        ranks = [rank_of(one.information(parts), one.free) for one in (wide, narrow)]
        degrees = ranks[0] - ranks[1]
        return chi_square_tail(degrees, max(ratio, 0.0)) if degrees > 0 else 1.0
    known = np.asarray(block_diag(*parts))
    root = covariance_root(known if scatter is None else scatter, np.diagonal(known))
    wider, narrower = wide.gains(parts), narrow.gains(parts)

    def larger(random: np.random.Generator, count: int) -> int:
        scores = random.standard_normal((count, len(root))) @ root.T
        return int((wider(scores) - narrower(scores) >= ratio).sum())

    return simulated_chance(larger, seed=seed, levels=levels)


def activity_p_value(
    ratio: float,
    fisher: np.ndarray,
    tested: np.ndarray,
    free: np.ndarray,
    held: np.ndarray,
    *,
    levels: npt.ArrayLike = 0.05,
    seed: int = 0,
    scatter: np.ndarray | None = None,
) -> float:
    """The chance of a likelihood ratio this large if the tested parameters are all 0.

    Args:
        ratio: twice the log-likelihood gained by the tested parameters.
        fisher: [D, D] information, at the fit without them.
        tested: [D] bool, the parameters of the constraint, at least 0.
        free: [D] bool, nuisance parameters that no bound holds in the fit without them.
        held: [D] bool, nuisance parameters on their bound: they enter both fits as cones.
        levels: what the chance is compared with.
        seed: of the simulated law.
        scatter: [D, D] covariance of the scores where the model does not fit, so that it is not the
            information: the law is then that of the ratio about the best approximation.
    """
    if not tested.any():
        return 1.0
    inverse, _ = inverse_information(fisher, free & ~tested)
    cone = np.flatnonzero(tested | held)
    cone = cone[largest_first(np.diagonal(fisher)[cone])]  # draws do not ask how they are numbered
    left = fisher - fisher @ inverse @ fisher
    left = left[np.ix_(cone, cone)]
    scale = np.sqrt(np.maximum(np.diagonal(fisher)[cone], 0.0))
    visible = np.diagonal(left) > BLIND * np.where(scale > 0, scale, 1.0) ** 2
    cone, left = cone[visible], left[np.ix_(visible, visible)]
    if not tested[cone].any():
        return 1.0  # nothing the free parameters could not do as well: not testable
    unit = np.sqrt(np.diagonal(left))
    left = left / np.outer(unit, unit)  # the law does not depend on units, the search would
    spread, widest = left, 1.0
    if scatter is not None:
        # Scores that the free parameters have no part in.
        clear = np.eye(len(fisher))[cone] - fisher[cone] @ inverse
        spread = clear @ scatter @ clear.T / np.outer(unit, unit)
        widest = float(np.abs(np.linalg.eigvals(np.linalg.pinv(left) @ spread)).max())
    if is_beyond(len(cone), ratio / max(widest, 1e-300)):
        return 1.0 / (1 + DRAWS)
    every = np.ones(len(cone), bool)
    wide, narrow = (
        Directions([np.eye(len(cone))], ~every, bounded) for bounded in (every, ~tested[cone])
    )
    return ratio_p_value(ratio, [left], wide, narrow, levels=levels, seed=seed, scatter=spread)


def is_beyond(degrees: int, ratio: float) -> bool:
    """Whether no draw of its law would be as large as a ratio: that never exceeds a chi-square."""
    return chi_square_tail(degrees, ratio) < 1e-3 / DRAWS


def rank_of(information: np.ndarray, free: np.ndarray) -> int:
    """In how many directions of the free parameters [D] their information [D, D] is not 0."""
    return int(free.sum()) - len(inverse_information(information, free)[1])
