"""The parameters of a noisy expert: one number a feature, reward and costs in one vector.

In the Boltzmann model only theta_r = reward weights / temperature and theta_k = multiplier *
weights / temperature act. Inside the library every feature is scaled to a range of one, so that
tolerances and ridges mean the same for all; a cost enters with a minus sign.

What is known beforehand, bounds, fixed values and a start, is given by name, in the units of the
coefficients themselves: weights over the temperature, as choice models have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.columns import did_you_mean
from tacit.inverse.diagnostics import holm
from tacit.inverse.findings import LEVEL, Finding, Kind, chance
from tacit.inverse.recovery import HardConstraint, Recovery
from tacit.model.mdp import MDP
from tacit.model.objective import Features, coefficient_names

if TYPE_CHECKING:
    from tacit.inverse.noisy.boltzmann import Fit
    from tacit.inverse.noisy.em import Search
    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.model.features import Design

# Scaled features have range one. Far beyond any plausible parameter, even where one extreme entry
# makes the range of a feature and all others differ by a thousandth of it.
LARGEST = 1e5
Label = str | int
Range = Sequence[float | None]

# More parameters than this have no curvature [D, D] made of D solves on every step.
MANY = 200
# Features as tables [D, S, A] are at most this many numbers, 320 MB: a search by D solves a step
# holds half a dozen of them.
TABLES = 40_000_000


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
    """

    tables: np.ndarray
    signs: np.ndarray
    scales: np.ndarray
    blocks: tuple[slice, ...]
    _: KW_ONLY
    names: tuple[str, ...]
    ending: bool = False

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
    tables, signs, scales, blocks, at = [], [], [], [], 0
    for k, table in enumerate(maps):
        full = table if table.ndim == 3 else np.repeat(table[:, None, :], mdp.actions, axis=1)
        columns = np.moveaxis(full, 2, 0)
        span = np.ptp(columns, axis=(1, 2))
        if mdp.restricted:
            columns = np.where(mdp.choices | mdp.ends[:, None], columns, 0.0)
            span = _span(mdp, columns)
        largest = np.abs(columns).max(axis=(1, 2))
        varies = span > 1e-12 * largest
        scale = np.where(varies, span, np.where(largest > 0, largest, 1.0))
        sign = 1.0 if k == 0 else -1.0
        # A constant influences nothing; as zeros it cannot even seem to, by rounding or because
        # trajectories were cut off. Where episodes end it counts their steps: 0 comes after them.
        tables.append(np.where(varies, sign / scale, 0.0)[:, None, None] * columns)
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
    )


def _span(mdp: MDP, columns: np.ndarray) -> np.ndarray:
    """[D] largest minus smallest value of columns [D, S, A] over the actions that are there.

    Where episodes end, 0 is a value as well: that of all that would come after.
    """
    there = columns[:, mdp.choices]
    high, low = there.max(axis=1), there.min(axis=1)
    if mdp.ends.any():
        high, low = np.maximum(high, 0.0), np.minimum(low, 0.0)
    return high - low


def are_many(mdp: MDP, features: Features) -> bool:
    """Whether there are more features than are fitted with their curvature [D, D]."""
    count = sum(features.sizes)
    return count > MANY or count * mdp.states * mdp.actions > TABLES


@dataclass(frozen=True, eq=False, kw_only=True)
class Bounds:
    """What is known of the coefficients before they are fitted, on scaled features.

    Attributes:
        lower: [D] smallest values allowed.
        upper: [D] largest ones; `LARGEST` where there are none.
        given: [D] bool, those fixed beforehand.
        asked: [D] bool, those with bounds that were asked for.
        start: [D] where the search begins; None for where it finds best.
    """

    lower: np.ndarray
    upper: np.ndarray
    given: np.ndarray
    asked: np.ndarray
    start: np.ndarray | None = None

    @classmethod
    def of(cls, space: Coordinates | Design, options: Likelihood | Search) -> Bounds:
        """The bounds that the options ask for, and the usual ones of all other coefficients."""
        lower, size = space.lower(free_reward=options.free_reward), len(space.scales)
        upper, none = np.full(size, LARGEST), np.zeros(size, bool)
        known = cls(lower=lower, upper=upper, given=none, asked=none.copy())
        # Most options say nothing of coefficients.
        bounds, fixed, start = (
            by_number(space, getattr(options, name, None), name)
            for name in ("bounds", "fixed", "start")
        )
        for j, (name, pair) in bounds.items():
            low, high = _ends(space, j, name, pair)
            most = LARGEST / space.scales[j]
            if not low < most:
                raise InvalidModel(f"bounds: {name} must have a least below {most:.3g}; got {low}")
            known.asked[j] = True
            lower[j] = low * space.scales[j]
            known.upper[j] = min(high * space.scales[j], LARGEST)
        for j, (name, value) in fixed.items():
            known.given[j] = True
            lower[j] = known.upper[j] = number_of(f"fixed: {name}", value) * space.scales[j]
            if known.asked[j] or (space.signs[j] < 0 and lower[j] < 0):
                must = "have no bounds too" if known.asked[j] else "not be below 0, as it is a cost"
                raise InvalidModel(f"fixed: {name} must {must}; got {value!r:.60}")
        if size and known.given.all():
            raise InvalidModel("fixed must leave a coefficient to be fitted; it has all of them")
        if not start:
            return known
        place = np.clip(np.zeros(size), lower, known.upper)
        for j, (name, value) in start.items():
            place[j] = number_of(f"start: {name}", value) * space.scales[j]
            if not lower[j] <= place[j] <= known.upper[j]:
                raise InvalidModel(f"start: {name} must be within its bounds; got {value!r:.60}")
        return replace(known, start=place)

    def findings(
        self, space: Coordinates | Design, x: np.ndarray, undecided: np.ndarray | None = None
    ) -> list[Finding]:
        """What was fixed, and which of the bounds that were asked for hold a coefficient at x [D].

        One each, so that each says which feature it is about. Those that are `undecided` [D] bool
        might as well be elsewhere.
        """
        findings = []
        for j in np.flatnonzero(self.given | self.asked):
            name, value = space.names[j], float(x[j] / space.scales[j])
            said = (
                f"The coefficient of {name} was fixed at {value:.4g} beforehand: it has no error."
            )
            if not self.given[j]:
                if self.lower[j] < x[j] < self.upper[j]:
                    continue
                beyond = "alone would have it beyond, and intervals and tests are one-sided"
                if undecided is not None and undecided[j]:
                    beyond = "do not tell whether it is beyond"
                said = (
                    f"The coefficient of {name} is on its bound, {value:.4g}: the demonstrations "
                    f"{beyond}."
                )
            findings.append(Finding(said, Kind.ASSUMED, feature=name, number=value))
        return findings


def by_number(
    space: Coordinates | Design, asked: object, what: str
) -> dict[int, tuple[str, object]]:
    """Number of a coefficient -> its name, and what is said of it by name or number."""
    asked = asked or {}
    if not isinstance(asked, Mapping):
        raise InvalidModel(f"{what} must be by coefficient, {{name: ...}}; got {asked!r:.60}")
    groups = [space.names[block] for block in space.blocks]
    names = coefficient_names(groups[0], groups[1:]) if asked else ()
    found: dict[int, tuple[str, object]] = {}
    for label, value in asked.items():
        whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
        j = int(label) if whole else names.index(label) if label in names else len(names)
        if not -len(names) <= j < len(names):
            known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            hint = did_you_mean(str(label), names) or f"; they are {known}"
            raise InvalidModel(f"{what} must be of coefficients; got {label!r:.60}{hint}")
        if j % len(names) in found:
            raise InvalidModel(f"{what} must name each once; {names[j]} stands twice")
        found[j % len(names)] = names[j], value
    return found


def number_of(what: str, value: object) -> float:
    """The value as a finite number; one line where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidModel(f"{what} must be a number; got {value!r:.60}")
    if not np.isfinite(value):
        raise InvalidModel(f"{what} must be finite; got {value!r:.60}")
    return float(value)


def _ends(space: Coordinates | Design, j: int, name: str, pair: object) -> tuple[float, float]:
    """The smallest and the largest value that a pair allows a coefficient."""
    what, least = f"bounds: {name}", 0.0 if space.signs[j] < 0 else -np.inf
    if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
        raise InvalidModel(f"{what} must be (least, largest), None for no bound; got {pair!r:.60}")
    low = least if pair[0] is None else number_of(what, pair[0])
    high = np.inf if pair[1] is None else number_of(what, pair[1])
    if low < least:
        raise InvalidModel(f"{what} must not be below 0, as it is a cost; got {pair!r:.60}")
    if not low < high:
        raise InvalidModel(f"{what} must be (least, largest), least first; got {pair!r:.60}")
    return low, high


def priced(blocks: Sequence[slice], lower: np.ndarray) -> tuple[int, ...]:
    """The constraints that their bounds [D] alone give a price."""
    return tuple(k for k, block in enumerate(blocks[1:]) if (lower[block] > 0).any())


class NeverIncurred(TypedDict):
    """Costs without an upper limit, as the fields of a recovery that name them."""

    forbidden: tuple[HardConstraint, ...]
    undecided: tuple[HardConstraint, ...]


def never_incurred(
    space: Coordinates | Design, limits: np.ndarray, at_starts: np.ndarray | None = None
) -> NeverIncurred:
    """`forbidden` and `undecided` of a recovery: costs without an upper limit.

    Those where the reward pulls there, and the others.

    Args:
        space: of the coefficients.
        limits: [n] lower limits of those without an upper one, else NaN.
        at_starts: [n] bool, what is incurred where all begin is not forbidden.
    """

    def records(chosen: np.ndarray) -> tuple[HardConstraint, ...]:
        return tuple(
            HardConstraint(kind="feature", index=int(j), name=space.names[j])
            for j in np.flatnonzero(chosen)
        )

    endless = (space.signs < 0) & np.isfinite(limits)
    endless &= True if at_starts is None else ~at_starts
    pulled = endless & (limits > 0)
    return {"forbidden": records(pulled), "undecided": records(endless & ~pulled)}


def of_constraints(blocks: Sequence[slice], members: Sequence[int], size: int) -> np.ndarray:
    """[D] bool, the parameters of these constraints; `blocks` begin with that of the reward."""
    mine = np.zeros(size, bool)
    for k in members:
        mine[blocks[1 + k]] = True
    return mine


def bounds_of(
    fitted: Fit, scales: np.ndarray, given: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """[D] smallest and largest coefficients allowed, None where none is the largest.

    Those that are `given` [D] bool have none: no test or interval of theirs meets a bound.
    """
    problem = fitted.problem
    lower = np.where(given | np.isinf(problem.lower), -np.inf, problem.lower) / scales
    upper = np.where(given | (problem.upper >= LARGEST), np.inf, problem.upper) / scales
    return lower, None if np.isinf(upper).all() else upper


def warned(recovery: Recovery) -> Recovery:
    """The recovery; its first findings say where signs are wrong, or chance explains more."""
    known, null = recovery.identification, recovery.null_log_likelihood
    findings, short = _sign_findings(recovery), null - recovery.log_likelihood
    if 1e-9 * (1.0 + abs(null)) < short < np.inf:  # rounding is no difference
        said = (
            "The model explains the demonstrations worse than chance does: its log-likelihood, "
            f"{recovery.log_likelihood:.6g}, is below that of actions at random, {null:.6g}."
        )
        findings.append(Finding(said, Kind.MISFIT, number=short))
    return replace(recovery, identification=replace(known, findings=(*findings, *known.findings)))


def _sign_findings(recovery: Recovery) -> list[Finding]:
    """Which features of the reward are avoided, by the scores at the bound 0 and Holm's method."""
    found, names = recovery.parameters, recovery.reward_names
    doubt = ", the dynamics taken for known" if recovery.identification.dynamics_draws else ""
    # On a bound a p-value is that of a coefficient above 0: near 1 where it would be below.
    below = np.where((found.estimates == 0.0) & (found.lower == 0.0), 1.0 - found.p_values, np.nan)
    held, findings = np.flatnonzero(np.isfinite(below[: len(names)])), []
    for j, p in zip(held.tolist(), holm(below[held].tolist()).tolist(), strict=True):
        said = (
            f"The demonstrations move away from more of {names[j]} ({chance(p)}{doubt}), whose "
            "weight may not be negative here: turn the sign of its column, or use "
            "free_reward=True (--estimator likelihood --free-reward)."
        )
        if p <= LEVEL:
            findings.append(Finding(said, Kind.MISFIT, feature=names[j], number=p))
    return findings
