"""Questions after a fit: held-out data, other discounts, groups, prices.

Here, what is told of the assumptions behind it, and of its trajectories.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit import names_on_demand
from tacit.files.wording import table_text
from tacit.inference.findings import LEVEL, Finding, Kind, chance, listed
from tacit.recovery import Recovery

if TYPE_CHECKING:
    from tacit.checks.assumptions import diagnose
    from tacit.checks.beliefs import Posterior, posterior
    from tacit.checks.discounts import (
        DiscountProfile,
        ResolutionCheck,
        discount_profile,
        resolution_check,
    )
    from tacit.checks.groups import EqualWeightsTest, equal_weights_test
    from tacit.checks.held_out import Holdout, Score, holdout, score
    from tacit.checks.heterogeneity import Individuals, individuals
    from tacit.checks.prices import PriceCurve, price_curve
    from tacit.checks.reliability import trajectory_fits
    from tacit.checks.repeats import Calibration, calibration
    from tacit.checks.rows import RowEffects, row_effects
    from tacit.checks.transitions import CountedAccuracy, Transfer, counted_accuracy, transfer
    from tacit.checks.untaken import UntakenActions, untaken_actions
    from tacit.checks.use_of_space import SpaceUse, space_use
    from tacit.estimators.trips.goals import link_size

__all__ = [
    "Alternative",
    "Calibration",
    "CountedAccuracy",
    "Diagnosis",
    "DiscountProfile",
    "EqualWeightsTest",
    "Holdout",
    "Individuals",
    "Posterior",
    "PriceCurve",
    "ResolutionCheck",
    "RowEffects",
    "Score",
    "SpaceUse",
    "TrajectoryFits",
    "Transfer",
    "UntakenActions",
    "calibration",
    "counted_accuracy",
    "diagnose",
    "discount_profile",
    "equal_weights_test",
    "holdout",
    "individuals",
    "link_size",
    "posterior",
    "price_curve",
    "resolution_check",
    "row_effects",
    "score",
    "space_use",
    "trajectory_fits",
    "transfer",
    "untaken_actions",
]

_HOME, __getattr__, __dir__ = names_on_demand(__name__)


class ReportedNumber(NamedTuple):
    """One number of a recovery: a weight, a price or a budget."""

    quantity: str  # "reward", "cost 0" and so on, "price" or "budget"
    name: str  # of the feature; of a price or a budget the number of its constraint
    value: float
    low: float  # end of its interval
    high: float
    standard_error: float

    @property
    def label(self) -> str:
        """What it is, such as "reward: row", "cost 0: hill" or "price 0"."""
        between = ": " if self.is_weight else " "
        return f"{self.quantity}{between}{self.name}"

    @property
    def is_budget(self) -> bool:
        """Whether it is a budget, which has no unit in common with others."""
        return self.quantity == "budget"

    @property
    def is_price(self) -> bool:
        """Whether it is a price."""
        return self.quantity == "price"

    @property
    def is_weight(self) -> bool:
        """Whether it is the weight of a feature."""
        return not (self.is_price or self.is_budget)


def numbers_of(recovery: Recovery) -> Iterator[ReportedNumber]:
    """Every number of a recovery."""
    known = recovery.identification
    prices = recovery.multipliers, known.multiplier_intervals, known.multiplier_standard_errors
    budgets = recovery.budgets, known.budget_intervals, known.budget_standard_errors
    weights = (recovery.reward_weights, *recovery.cost_weights)
    ends = (known.reward_intervals, *known.cost_intervals)
    errors = (known.reward_standard_errors, *known.cost_standard_errors)
    labels = (recovery.reward_names, *recovery.cost_names)
    kinds = ("reward", *(f"cost {k}" for k in range(len(recovery.cost_names))))
    every = tuple(map(str, range(len(recovery.multipliers))))
    parts = [*zip(kinds, labels, weights, ends, errors, strict=True)]
    parts += [("price", every, *prices), ("budget", every, *budgets)]
    for quantity, *columns in parts:
        for name, value, (low, high), error in zip(*columns, strict=True):
            numbers = (float(value), float(low), float(high), float(error))
            yield ReportedNumber(quantity, str(name), *numbers)


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One assumption, what it was given up for, and what that gains.

    Attributes:
        assumption: of the plain model, in words.
        alternative: in its place.
        extra: number of parameters more.
        gain: of the log-likelihood.
        p_value: of the assumption; NaN where no law of the gain is known.
        aic: difference of Akaike's criterion; negative speaks for the alternative.
        bic: difference of Schwarz's criterion, likewise.
        estimate: what was estimated in its place, in words.
        remedy: what to do, in words.
    """

    assumption: str
    alternative: str
    extra: int
    gain: float
    p_value: float
    aic: float
    bic: float
    estimate: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Together:
    """Two alternatives in one fit: what each gains beside the other.

    Attributes:
        alternatives: the one that gains most by itself, and the next.
        gains: of the log-likelihood, by each beside the other.
        criteria: differences of Schwarz's criterion, likewise; negative where it is still needed.
    """

    alternatives: tuple[str, str]
    gains: tuple[float, float]
    criteria: tuple[float, float]

    @property
    def needed(self) -> tuple[str, ...]:
        """Those that the other does not explain away."""
        pairs = zip(self.alternatives, self.criteria, strict=True)
        return tuple(name for name, bic in pairs if bic < 0)

    @property
    def finding(self) -> Finding:
        """What is left of each beside the other."""
        one, two = self.alternatives
        told = (
            f"beside {two} the log-likelihood rises by {self.gains[0]:.4g} with {one}, "
            f"beside {one} by {self.gains[1]:.4g} with {two}"
        )
        left = self.needed
        if len(left) == 2:
            said = f"Fitted together, both {one} and {two} are needed: {told}."
        elif left:
            other = two if left[0] == one else one
            said = f"Fitted together, {left[0]} explains what {other} gains: {told}."
        else:
            said = f"Fitted together, either {one} or {two} is enough, not told which: {told}."
        kind = Kind.MISFIT if left else Kind.NOT_IDENTIFIED
        return Finding(said, kind, number=float(len(left)))


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What giving up each assumption gains, the one contradicted most first.

    Attributes:
        rows: one per assumption, sorted by Schwarz's criterion.
        log_likelihood: of the plain model, with every constraint.
        observed_steps: number of observed actions.
        together: the one contradicted most and the next of another kind, in one fit; None where
            there is none, or no such fit. All about who was seen is one kind.
    """

    rows: tuple[Alternative, ...]
    log_likelihood: float
    observed_steps: int
    together: Together | None = None

    def __repr__(self) -> str:
        contradicted = ", ".join(row.assumption for row in self.contradicted) or "nothing"
        return f"Diagnosis({len(self.rows)} assumptions given up; contradicted: {contradicted})"

    @property
    def contradicted(self) -> tuple[Alternative, ...]:
        """The assumptions that both criteria, and the test where there is one, speak against.

        The worst first; of two fitted together the one that the other does not explain.
        """
        found = [
            row
            for row in self.rows
            if max(row.bic, row.aic) < 0
            and not row.p_value > LEVEL / len(self.rows)  # NaN: the criteria alone
        ]
        pair = self.together
        if pair is not None and pair.needed == pair.alternatives[1:]:
            found.sort(key=lambda row: row.alternative != pair.needed[0])  # the others stay
        return tuple(found)

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """The conclusion, as a finding: the likeliest culprit first, then what else speaks up."""
        found = self.contradicted
        if not found:
            names = listed([row.assumption for row in self.rows])
            said = f"The demonstrations contradict none of the assumptions tested: {names}."
            return (Finding(said),)
        worst = found[0]
        said = (
            f"What the demonstrations contradict most is that {worst.assumption}: "
            f"{worst.estimate} (log-likelihood up by {worst.gain:.4g} with {worst.extra} more "
            f"parameter{'s' if worst.extra != 1 else ''}{_tested(worst.p_value)}). {worst.remedy}"
        )
        first = Finding(said, Kind.MISFIT, number=worst.p_value)
        if len(found) == 1:
            return (first,)
        both = () if self.together is None else (self.together.finding,)
        others = listed([f"that {row.assumption} ({row.alternative})" for row in found[1:]])
        said = f"Contradicted less, perhaps by the same: {others}. Diagnose again after the first."
        return first, *both, Finding(said, number=float(len(found) - 1))

    @property
    def text(self) -> str:
        """The rows as a table, one a line."""
        heads = ("assumption", "in its place", "more", "gain", "p", "AIC", "BIC", "estimate")
        cells = []
        for row in self.rows:
            p_value = "-" if np.isnan(row.p_value) else f"{row.p_value:.3f}"
            judged = (f"{row.gain:.4g}", p_value, f"{row.aic:+.4g}", f"{row.bic:+.4g}")
            cells.append((row.assumption, row.alternative, str(row.extra), *judged, row.estimate))
        return table_text(heads, cells)


def _tested(p_value: float) -> str:
    return "" if np.isnan(p_value) else f", {chance(p_value)}"


@dataclass(frozen=True, eq=False, kw_only=True)
class TrajectoryFits:
    """The fit of every trajectory to a recovery, one row an episode, the worst first.

    The worst are the lowest z-scores; without noise, the smallest shares of optimal steps.

    Attributes:
        episode: [E] number of the episode in the demonstrations.
        steps: [E] its length.
        log_likelihood: [E] mean log-probability of its actions; NaN for an expert without noise.
        expected: [E] what that is on average for the recovered policy, in the same states.
        z_score: [E] how far it is above that, in standard deviations; negative is worse.
        p_value: [E] chance that the recovered policy fits this badly or worse.
        share_optimal: [E] share of steps that take a best action under the recovered objective.
        names: [E] what the episodes are called; None where they are numbered from 0.
    """

    episode: np.ndarray
    steps: np.ndarray
    log_likelihood: np.ndarray
    expected: np.ndarray
    z_score: np.ndarray
    p_value: np.ndarray
    share_optimal: np.ndarray
    names: np.ndarray | None = None

    def __repr__(self) -> str:
        worst = f", the worst {self.episode[0]}" if len(self) else ""
        return f"TrajectoryFits({len(self)} trajectories{worst})"

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def noisy(self) -> bool:
        """Whether the recovered expert is noisy, so that there is a likelihood."""
        return not np.isnan(self.log_likelihood).all()

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Name -> [E], to be written as a table; episodes by their names where they have some."""
        columns = dict(vars(self))
        names = columns.pop("names")
        return columns if names is None else {**columns, "episode": names}

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What to know about the fits, as findings."""
        number, count = int(self.episode[0]), len(self)
        which = number if self.names is None else self.names[0]
        if not self.noisy:
            whole = float(self.share_optimal @ self.steps / self.steps.sum())
            text = f"{_percent(whole)} of the steps are optimal under the recovered objective."
            said = [Finding(text, number=whole)]
            if count > 1 and self.share_optimal[0] < 1.0:
                worst = _percent(self.share_optimal[0])
                text = f"Episode {which} fits worst: {worst} of its steps are."
                least = float(self.share_optimal[0])
                said.append(Finding(text, trajectory=number, number=least))
            return tuple(said)
        chance = min(1.0, count * float(self.p_value.min()))
        fit = f"{self.log_likelihood[0]:.3g} a step where {self.expected[0]:.3g} is usual"
        kind = Kind.NOTE
        if chance < LEVEL:
            kind = Kind.MISFIT
            few = int((self.p_value < LEVEL / count).sum())
            more = f", {few} trajectories in all" if few > 1 else ""
            sentence = (
                f"Episode {which} does not fit: its log-likelihood is {fit}, too low to be chance "
                f"even for the worst of {count}{more}."
            )
        elif count == 1:
            sentence = f"The trajectory fits: its log-likelihood is {fit}."
        else:
            sentence = (
                f"No trajectory fits worse than chance allows; the worst is episode {which}, its "
                f"log-likelihood {fit}."
            )
        return (Finding(sentence, kind, trajectory=number, number=chance),)


def _percent(share: float) -> str:
    """A share in words that never round an exception away."""
    if share == 1.0:
        return "All"
    return "None" if share == 0.0 else f"{min(max(share, 0.001), 0.999):.1%}"
