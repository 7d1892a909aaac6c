"""Discounted feature sums: what demonstrations collect (paper eq. 4), and what a policy collects.

The only place that reads feature maps entry by entry. Everybody else uses them as a linear map from
weights to tables (`Features.objective`) and as its transpose, `pull_back`, from a visitation [S, A]
to one number a feature. "Blocks" are one array for the reward, then one per constraint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed, PartitionedDemonstrations
from tacit.data.tally import Horizons, Moves, SumSpread, Tally, once, random_loss, tally_of
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.model.mdp import MDP
from tacit.model.objective import Features, is_sparse, known_rest

if TYPE_CHECKING:
    from tacit.model.objective import FeatureTable


Blocks = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Expectations:
    """Discounted feature sums of demonstrations, and how far they can be off.

    Every tuple holds one array for the reward features, then one per constraint.

    Attributes:
        means: ([D], [D_1], ...) mean over trajectories of the discounted feature sums.
        deviations: ([D], [D_1], ...) standard deviation of one trajectory's sum; NaN where there is
            a single trajectory, or only a tally is left.
        truncation: ([D], [D_1], ...) bound on what is missing from the means because trajectories
            were cut off.
        spans: ([D], [D_1], ...) largest minus smallest value of each feature.
        horizons: discounted steps that the trajectories cover; 1 / (1 - discount) each if all, and
            nothing ends.
        visitation: [S, A] mean discounted visitation of the trajectories; `means` is its pull-back.
    """

    means: Blocks
    deviations: Blocks
    truncation: Blocks
    spans: Blocks
    _: KW_ONLY
    horizons: Horizons
    visitation: np.ndarray

    @property
    def reward(self) -> np.ndarray:
        """[D] means of the reward features."""
        return self.means[0]

    @property
    def costs(self) -> Blocks:
        """One [D_k] per constraint: means of its features."""
        return self.means[1:]

    @property
    def trajectories(self) -> int:
        """E, how many trajectories there are."""
        return self.horizons.number

    @property
    def standard_errors(self) -> Blocks:
        """([D], [D_1], ...) standard errors of the means, over trajectories."""
        return tuple(part / np.sqrt(self.trajectories) for part in self.deviations)

    def hoeffding(self, confidence: float = 0.95) -> Blocks:
        """([D], [D_1], ...) bounds on |means - their expectation|, all true at once.

        Hoeffding's inequality over independent trajectories: it knows the ranges only. Infinite at
        discount 1, where sums have none.
        """
        chances = np.log(2 * _count(self.means) / _risk(confidence))
        spread = float(np.sqrt(self.horizons.square * chances / (2 * self.trajectories)))
        return tuple(_missed(spread, span) for span in self.spans)

    def bernstein(self, confidence: float = 0.95) -> Blocks:
        """([D], [D_1], ...) bounds on |means - their expectation|, all true at once.

        The empirical Bernstein inequality (Maurer and Pontil, 2009, theorem 4), both sides: it uses
        the observed deviations. Infinite for a single trajectory, and at discount 1.
        """
        number = self.trajectories
        if number < 2 or np.isinf(self.horizons.square):
            return tuple(np.full(len(part), np.inf) for part in self.means)
        chances = np.log(4 * _count(self.means) / _risk(confidence))
        rest = 7.0 * self.horizons.longest * chances / (3.0 * (number - 1))
        return tuple(
            np.sqrt(2.0 * chances / number) * deviation + rest * span
            for deviation, span in zip(self.deviations, self.spans, strict=True)
        )

    def guarantee(
        self, reached: Blocks, sampling: Blocks, units: Sequence[np.ndarray] | None = None
    ) -> np.ndarray:
        """[1 + K] most that any return or cost with weights of L1 norm 1 differs between policies.

        |J(demonstrator) - J(recovered)| for the policy whose feature expectations are `reached`,
        with `sampling` either `hoeffding` or `bernstein` bounds; the features divided by `units`.
        """
        scales = [1.0] * len(self.means) if units is None else units
        parts = zip(self.means, reached, sampling, self.truncation, scales, strict=True)
        return np.array([((np.abs(m - r) + s + t) / unit).max() for m, r, s, t, unit in parts])

    def spending(self, features: Features) -> Spending | None:
        """What these trajectories spend of the cost features."""
        return Spending.of_data(features, self)

    def gap(self, reached: Blocks) -> float:
        """How far a policy's feature expectations `reached` are from these.

        Each block relative to its own Euclidean norm, every feature scaled to a range of one; root
        mean square over the blocks.
        """
        return self._relative(tuple(r - m for r, m in zip(reached, self.means, strict=True)))

    @property
    def noise(self) -> float:
        """What `gap` is, root mean square, for the true expectations: from the standard errors."""
        return self._relative(self.standard_errors)

    @property
    def relative_truncation(self) -> float:
        """The truncation bound on the scale of `gap`."""
        return self._relative(self.truncation)

    def _relative(self, blocks: Blocks) -> float:
        # Of what never varies the unit is its own sum, which only the length of a way changes.
        units = [
            np.where(span > 0, span, np.where(mean != 0, np.abs(mean), 1.0))
            for span, mean in zip(self.spans, self.means, strict=True)
        ]
        norms = [
            math.sqrt(((mean / unit) ** 2).sum())
            for mean, unit in zip(self.means, units, strict=True)
        ]
        sizes = [norm if norm > 1e-12 else 1.0 for norm in norms]  # never incurred: absolute
        parts = zip(blocks, units, sizes, strict=True)
        shares = [((block / unit / size) ** 2).sum() for block, unit, size in parts]
        return math.sqrt(sum(shares) / len(shares))


def expectations(mdp: MDP, features: Features, demonstrations: Observed) -> Expectations:
    """The `Expectations` of the demonstrations that begin at the start, of any lengths.

    A trajectory whose last known state is one that no action leaves, with features that no action
    changes, is complete: the rest of its sum is discount^T / (1 - discount) times the features
    there. So is one that arrived at an end, which pays once. Any other is cut off after its T
    steps, and `truncation` bounds what is missing; at discount 1 nothing does, and it is infinite.
    """
    check_task(mdp, features, demonstrations)
    seen = expectations_from_start(mdp, features, demonstrations)
    if seen is None:
        raise InvalidDemonstrations(
            "discounted sums need trajectories that begin at the start; got partial ones only (to "
            "recover from these use Likelihood)"
        )
    return seen


def expectations_from_start(
    mdp: MDP, features: Features, demonstrations: Observed, tally: Tally | None = None
) -> Expectations | None:
    """The `Expectations` if any of the demonstrations begins at the start, else None.

    `tally` is that of the demonstrations, where it was taken already.
    """
    tally = tally_of(mdp, demonstrations) if tally is None else tally
    if not tally.trajectories:
        return None
    known = known_rest(mdp, features)
    visits, missing = tally.visitation(known), tally.missing(known)
    maps = features.maps
    spread = spread_of(mdp, features, demonstrations)
    means = pull_back(features, visits)
    ends = np.cumsum([len(part) for part in means])
    deviations = np.full(ends[-1], np.nan) if spread is None else spread.deviations
    return Expectations(
        means=means,
        deviations=tuple(np.split(deviations, ends[:-1])),
        truncation=tuple(_missed(missing, _largest(table)) for table in maps),
        spans=tuple(_spans(mdp, table) for table in maps),
        horizons=tally.horizons(known | mdp.ends),
        visitation=visits,
    )


def pull_back(features: Features, visitation: np.ndarray) -> Blocks:
    """([D], [D_1], ...) the feature expectations of a visitation [S, A] (paper eq. 6).

    The transpose of the map from weights to tables: weights . pull_back = <table, visitation>.
    """
    visits = visitation.sum(axis=1)
    return tuple(
        np.asarray(table.T @ visits)
        if table.ndim == 2
        else np.tensordot(visitation, np.asarray(table), 2)
        for table in features.maps
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Spending:
    """What a demonstrator spends of each cost feature and how it prices them, with the errors.

    Attributes:
        maps: one [S, D_k] or [S, A, D_k] feature map per constraint.
        means: one [D_k] per constraint: expected discounted sums of its features.
        errors: one [D_k] per constraint: standard errors of these; NaN where they are not known.
        prices: one [D_k + 1] per constraint: the coefficients of its features, in units of the
            noise, and what they charge for the means; NaN where the demonstrator has no noise.
        covariances: one [D_k + 1, D_k + 1] per constraint, of the prices; NaN where not known.
    """

    maps: Blocks
    means: Blocks
    errors: Blocks
    prices: Blocks
    covariances: Blocks

    def __repr__(self) -> str:
        sums = ", ".join(str(len(one)) for one in self.means)
        return f"Spending({len(self.means)} constraints of {sums or 'no'} features)"

    @classmethod
    def of_data(cls, features: Features, seen: Expectations | None) -> Spending | None:
        """That of the trajectories, without prices; None where none begins at the start."""
        if seen is None:
            return None
        # Sparse maps are written out where there are costs alone.
        costs = features.costs if len(features.maps) > 1 else ()
        # What is missing of trajectories that were cut off makes sums smaller, unless it pays.
        least = tuple(
            mean - np.where(_flat(table).min(axis=0) < 0, cut, 0.0)
            for table, mean, cut in zip(costs, seen.costs, seen.truncation[1:], strict=True)
        )
        sizes = [len(mean) + 1 for mean in least]
        return cls(
            maps=costs,
            means=least,
            errors=seen.standard_errors[1:],
            prices=tuple(np.full(size, np.nan) for size in sizes),
            covariances=tuple(np.full((size, size), np.nan) for size in sizes),
        )


def check_task(
    mdp: MDP,
    features: Features,
    demonstrations: Observed,
    *,
    in_memory: bool = False,
    weighted: bool = False,
) -> None:
    """Raises `InvalidModel` or `InvalidDemonstrations` unless the three speak of the same world.

    `in_memory` asks for `Demonstrations`, for those who must look at single episodes again;
    `weighted` lets sampling weights pass, for those who count them.
    """
    for kind, value, expected in (("mdp", mdp, MDP), ("features", features, Features)):
        if not isinstance(value, expected):
            raise InvalidModel(f"{kind} must be a {expected.__name__}; got {type(value).__name__}")
    features.check(mdp)
    allowed = (Demonstrations,) if in_memory else (*Observed.__args__,)
    if not isinstance(demonstrations, allowed):
        wanted = " in memory here" if isinstance(demonstrations, Observed) else ""
        raise InvalidDemonstrations(
            f"demonstrations must be Demonstrations{wanted}; got {type(demonstrations).__name__}"
        )
    counted = weighted and isinstance(demonstrations, Demonstrations)
    if are_weighted(demonstrations) and not counted:
        raise InvalidDemonstrations(
            "sampling weights are counted by tacit.recover with Likelihood (recover --estimator "
            "likelihood), without prior, lapses and bootstrap: leave out such options, or the "
            "weights (weights=None; ingest without --sampling-weight, or rename their column)"
        )
    demonstrations.check(mdp)


def are_weighted(observed: Observed) -> bool:
    """Whether the steps have sampling weights, so that their sums are no counts."""
    return getattr(observed, "weights", None) is not None or getattr(observed, "weighted", False)


def moves_of(mdp: MDP, observed: Observed) -> Moves | None:
    """The `Moves` that this world cannot have done; None where only sums are left."""
    if isinstance(observed, Demonstrations):
        return once(Moves.of, mdp, observed)
    return observed.moves(mdp) if isinstance(observed, PartitionedDemonstrations) else None


def spread_of(mdp: MDP, features: Features, observed: Observed) -> SumSpread | None:
    """The `SumSpread` of discounted feature sums; None where they weigh, or only sums are left."""
    if isinstance(observed, Demonstrations):
        if are_weighted(observed):
            return None
        return SumSpread.of(mdp, features, observed)
    if isinstance(observed, PartitionedDemonstrations):
        return observed.spread(mdp, features)
    return None


def _missed(missing: float, largest: np.ndarray) -> np.ndarray:
    """[D] bounds on what is missing of features of this size, for so many missing steps."""
    return np.where(largest > 0, missing, 0.0) * largest if np.isinf(missing) else missing * largest


def _largest(table: FeatureTable) -> np.ndarray:
    """[D] the largest absolute value of each feature."""
    if is_sparse(table):
        return abs(table).max(axis=0).toarray()
    return np.abs(_flat(table)).max(axis=0)


def _spans(mdp: MDP, table: FeatureTable) -> np.ndarray:
    """[D] largest minus smallest value of each feature; 0, after an end, is one of them."""
    if is_sparse(table):
        high, low = (edge.toarray() for edge in (table.max(axis=0), table.min(axis=0)))
        after = mdp.ends.any()
        return np.maximum(high, 0.0) - np.minimum(low, 0.0) if after else high - low
    if not mdp.restricted:
        return np.ptp(_flat(table), axis=0)
    rows = table if table.ndim == 2 else table[mdp.choices]
    after = np.zeros((int(mdp.ends.any()), table.shape[-1]))
    return np.ptp(np.concatenate([rows, after]), axis=0)


def _flat(table: np.ndarray) -> np.ndarray:
    return table.reshape(-1, table.shape[-1])


def _count(blocks: Blocks) -> int:
    return sum(len(block) for block in blocks)


def _risk(confidence: float) -> float:
    if not 0.0 < confidence < 1.0:
        raise InvalidModel(f"confidence must be in (0, 1); got {confidence}")
    return 1.0 - confidence


def action_log_likelihoods(
    counts: np.ndarray, policy: np.ndarray, choices: np.ndarray
) -> tuple[float, float]:
    """Log-likelihoods of observed actions: under the policy, and of actions at random.

    Args:
        counts: [S, A] how often each action was taken; empty where that is not known.
        policy: [S, A].
        choices: [S, A] bool, the actions that there are.
    """
    if not counts.size:
        return np.nan, np.nan
    taken = counts > 0
    with np.errstate(divide="ignore"):
        likely = float((counts[taken] * np.log(policy[taken])).sum())
    return likely, -random_loss(counts, choices)
