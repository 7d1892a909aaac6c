"""The law of a likelihood ratio where parameters have bounds.

Near a fit the log-likelihood is a quadratic with the information I as its curvature, and a model is
the cone of directions in which its parameters may move. With scores G ~ N(0, I) the ratio of two
models is the difference of two maxima of 2 d . G - d' I d. Parameters that no bound holds are
projected out; the rest is a problem of a few signed numbers, solved for all draws at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tacit.inference.tails import DRAWS, chi_square_tail, simulated_chance
from tacit.search.algebra import covariance_root
from tacit.search.operators import BLIND, inverse_information

# Draws of the law of one number, in antithetic pairs; of more bounded parameters half as many.
PAIRED, FEW = 1000, 12
# Most bounded parameters whose faces are solved one by one; the law of one number knows no more,
# those that its form leans on most.
MOST = 24
# Exchanges between the faces of a cone before single ones are made, and most of all.
WHOLE, EXCHANGES = 3, 200
# Most faces of a cone whose inverses are kept.
FACES = 5000
# Most rounds of ascent through all coordinates of a larger cone.
SWEEPS = 500
# What is added to the diagonal of a matrix of size 1, so that every face has an inverse.
STEADY = 1e-11


class Cone:
    """Maxima of 2 y . score - y' matrix y over y >= 0, for many scores.

    By principal pivoting between the faces of the cone: each face that is met is solved by its own
    inverse, which is made once and serves every score and every equality.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        size, own = len(matrix), np.diagonal(matrix)
        self.matrix = matrix + np.diag(np.maximum(own, 0.0) - own + STEADY)
        self._numbers: dict[bytes, int] = {}
        self._inverses = np.zeros((0, size, size))

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
        matrix = self.matrix if across is None else self.matrix + np.outer(across, across)
        inside = scores > 0 if start is None else start.copy()
        places = np.zeros(scores.shape)
        fewest = np.full(len(scores), scores.shape[1] + 1)
        patience = np.full(len(scores), WHOLE)
        rounding = 1e-10 * (1.0 + np.abs(scores).max(axis=1, initial=0.0))
        if scores.shape[1] > MOST:
            return _ascended(matrix, scores)
        open_ = np.arange(len(scores) if len(matrix) else 0)
        for _ in range(EXCHANGES if len(open_) else 0):
            here = self._solved(scores[open_], inside[open_], across)
            places[open_] = np.where(inside[open_], here, 0.0)
            slopes = scores[open_] - places[open_] @ matrix
            least = rounding[open_, None]
            wrong = np.where(inside[open_], here < -least, slopes > least)
            many = wrong.sum(axis=1)
            left = many > 0
            open_, wrong, many = open_[left], wrong[left], many[left]
            if not len(open_):
                break
            better = many < fewest[open_]
            fewest[open_] = np.minimum(many, fewest[open_])
            patience[open_] = np.where(better, WHOLE, patience[open_] - 1)
            single = patience[open_] < 0  # one at a time, the last of those that are wrong
            last = wrong.shape[1] - 1 - wrong[:, ::-1].argmax(axis=1)
            alone = np.arange(wrong.shape[1]) == last[:, None]
            inside[open_] ^= np.where(single[:, None], alone, wrong)
        return np.maximum(places, 0.0)

    def gains(self, scores: np.ndarray) -> np.ndarray:
        """[N] the maxima themselves, for scores [N, k]."""
        return gains_at(self.matrix, scores, self.maxima(scores))

    def _solved(
        self, scores: np.ndarray, inside: np.ndarray, across: np.ndarray | None
    ) -> np.ndarray:
        """[N, k] the maxima without signs on the faces `inside` [N, k] bool."""
        inverses = self._inverses_of(inside)
        found = (inverses @ scores[:, :, None])[:, :, 0]
        if across is None:
            return found
        lean = inverses @ across
        share = (found @ across) / (1.0 + lean @ across)
        return found - share[:, None] * lean

    def _inverses_of(self, inside: np.ndarray) -> np.ndarray:
        """[N, k, k] the inverses of the matrix within these faces, 0 elsewhere."""
        packed = np.ascontiguousarray(np.packbits(inside, axis=1))
        codes = packed.view(f"V{packed.shape[1]}").ravel()
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        keys = [packed[i].tobytes() for i in first]
        new = [i for i, key in zip(first, keys, strict=True) if key not in self._numbers]
        if len(self._numbers) + len(new) > FACES:  # of a large cone hardly any is met again
            self._numbers, self._inverses, new = {}, self._inverses[:0], list(first)
        if new:
            faces = inside[new]
            both = faces[:, :, None] & faces[:, None, :]
            blocks = np.where(both, self.matrix, np.eye(len(self.matrix)))
            made = np.where(both, np.linalg.inv(blocks), 0.0)
            for i in new:
                self._numbers[packed[i].tobytes()] = len(self._numbers)
            self._inverses = np.concatenate([self._inverses, made])
        return self._inverses[np.array([self._numbers[key] for key in keys])[which]]


def gains_at(matrix: np.ndarray, scores: np.ndarray, places: np.ndarray) -> np.ndarray:
    """[N] 2 y . score - y' matrix y at places y [N, k]."""
    return 2.0 * (places * scores).sum(axis=1) - ((places @ matrix) * places).sum(axis=1)


def _ascended(matrix: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """[N, k] the maxima over y >= 0 by coordinate ascent, each step exact in its coordinate.

    So many faces are not worth their inverses.
    """
    y, diagonal = np.zeros_like(scores), np.diagonal(matrix)
    for _ in range(SWEEPS):
        before = y.copy()
        for j in range(len(matrix)):
            rest = scores[:, j] - y @ matrix[:, j] + diagonal[j] * y[:, j]
            y[:, j] = np.maximum(rest / diagonal[j], 0.0)
        if np.abs(y - before).max() <= 1e-9 * (1.0 + np.abs(y).max()):
            break
    return y


@dataclass(frozen=True, eq=False)
class RatioLaw:
    """The law of the likelihood ratio of "form . d = 0", some parameters being at least 0.

    Attributes:
        information: [n, n] of the parameters.
        bounded: [n] bool, those that are at least 0; all others may go either way.
        draws: how many ratios are drawn, in antithetic pairs; the same ones for every form.
    """

    information: np.ndarray
    bounded: np.ndarray
    draws: int = PAIRED

    def ratios(self, form: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """[draws] ratios, and [draws] the values of form [n] . d in the wider model.

        None where the form is of bounded parameters alone: nothing is known of its sum then.
        """
        lean = form @ self._inverse
        own = float(lean @ form)
        scale = float((form**2 / np.maximum(np.diagonal(self.information), 1e-300)).sum())
        if own <= BLIND * scale:
            return None
        # The equality is kept by the free parameters: it adds a square to what is left of the rest.
        across = (form - lean @ self.information)[self.bounded] / np.sqrt(own) / self._units
        scores, rest = self._scores
        offset = (scores @ lean) / np.sqrt(own)
        shifted, matrix = rest - offset[:, None] * across, self._cone.matrix
        tied = self._cone.maxima(shifted, across=across, start=self._wide > 0)
        without = gains_at(matrix + np.outer(across, across), shifted, tied)
        ratios = offset**2 + gains_at(matrix, rest, self._wide) - without
        return ratios, offset + self._wide @ across

    def cut(self, form: np.ndarray, side: float, level: float) -> float:
        """The quantile `level` of the ratio, counted as 0 where form . d has the other sign.

        Infinite where the form is of bounded parameters alone.
        """
        drawn = self.ratios(form)
        if drawn is None:
            return np.inf
        return float(np.quantile(np.where(side * drawn[1] > 0, drawn[0], 0.0), level))

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
    def _cone(self) -> Cone:
        return Cone(self._left / np.outer(self._units, self._units))

    @cached_property
    def _scores(self) -> tuple[np.ndarray, np.ndarray]:
        """[draws, n] scores, and [draws, k] what is left of those of the bounded parameters."""
        drawn = np.random.default_rng(0).standard_normal((self.draws // 2, len(self.information)))
        scores = np.concatenate([drawn, -drawn]) @ covariance_root(self.information).T
        rest = (scores - scores @ self._inverse @ self.information)[:, self.bounded]
        return scores, rest / self._units

    @cached_property
    def _wide(self) -> np.ndarray:
        """[draws, k] the bounded parameters where the wider model is likeliest."""
        return self._cone.maxima(self._scores[1])


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
    root = covariance_root(np.asarray(block_diag(*parts)) if scatter is None else scatter)
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
