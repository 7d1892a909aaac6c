"""If the discount were another, or states were cut otherwise: what each explains and changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tacit.checks import numbers_of
from tacit.checks.reliability import ExpectedChoices, log_policy, optimal_actions
from tacit.data.measurements import Measurements
from tacit.data.observed import Observed
from tacit.data.tally import counts_of
from tacit.errors import InvalidModel
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.logged.recovery import LoggedRecovery
from tacit.estimators.logged.world import Logged, LoggedTask, logged_task
from tacit.estimators.recover import Estimator, choose, recover
from tacit.estimators.task import Task, task_of
from tacit.estimators.trips.world import Trips
from tacit.inference.findings import Finding, Kind
from tacit.inference.tails import TWO_SIDED
from tacit.likelihood.start import OF_COEFFICIENTS, check_plain, maximum
from tacit.model.arguments import numbers
from tacit.model.mdp import MDP
from tacit.recovery import Recovery
from tacit.search.algebra import first_largest

# A weight that moves by less within the set hardly depends on the discount.
STEADY = 0.05


@dataclass(frozen=True, eq=False, kw_only=True)
class DiscountProfile:
    """The recovery at every discount tried, and which of them the demonstrations support.

    Attributes:
        discounts: [G] those tried, in rising order.
        log_likelihood: [G] of all steps, everything else refitted; NaN for an expert without noise.
        share_optimal: [G] share of steps that take a best action under the recovered objective.
        inside: [G] bool, the 95 % set: twice the log-likelihood within 3.84 of the best. Without
            noise, the discounts with the largest share of optimal steps.
        recoveries: one per discount.
        assumed: the discount of the world as given.
    """

    discounts: np.ndarray
    log_likelihood: np.ndarray
    share_optimal: np.ndarray
    inside: np.ndarray
    recoveries: tuple[Recovery, ...]
    assumed: float

    @property
    def best(self) -> float:
        """The discount that explains the demonstrations best; the first of several."""
        noisy = not np.isnan(self.log_likelihood).any()
        return float(
            self.discounts[np.argmax(self.log_likelihood if noisy else self.share_optimal)]
        )

    @property
    def interval(self) -> tuple[float, float]:
        """Smallest and largest discount of the 95 % set, among those tried."""
        found = self.discounts[self.inside]
        return float(found[0]), float(found[-1])

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Name -> [G]: the profile, then every weight, price and budget."""
        table = {
            "discount": self.discounts,
            "log_likelihood": self.log_likelihood,
            "share_optimal": self.share_optimal,
            "inside": self.inside,
            "temperature": np.array([one.temperature for one in self.recoveries]),
        }
        active = np.array([one.identification.active for one in self.recoveries], bool)
        table |= {f"active {k}": column for k, column in enumerate(active.T)}
        rows = [[*numbers_of(one)] for one in self.recoveries]
        values = np.array([[row.value for row in one] for one in rows])
        return table | {row.label: column for row, column in zip(rows[0], values.T, strict=True)}

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What the profile says, as findings."""
        return (*self._discount_findings(), *self._answer_findings())

    def _discount_findings(self) -> list[Finding]:
        low, high = self.interval
        few, tried = int(self.inside.sum()), len(self.discounts)
        kind, number = Kind.NOT_IDENTIFIED, None
        if few == tried:
            first = (
                f"The demonstrations cannot tell the discount: all {tried} values tried, from "
                f"{low:g} to {high:g}, explain them equally well."
            )
        elif few == 1:
            kind, number = Kind.NOTE, low
            first = (
                f"Of the discounts tried only {low:g} explains the demonstrations well; a finer "
                "grid around it would say how sure that is."
            )
        else:
            gaps = not self.inside[np.argmax(self.inside) :][:few].all()
            but = ", with gaps" if gaps else ""
            first = (
                f"The demonstrations cannot tell the discount between {low:g} and {high:g}{but}; "
                f"{self.best:g} explains them best."
            )
        found = [Finding(first, kind, number=number)]
        if few < tried and (self.inside[0] or self.inside[-1]):
            ends = (("below", self.inside[0]), ("above", self.inside[-1]))
            beyond = " and ".join(word for word, open_end in ends if open_end)
            said = f"Discounts {beyond} those tried may explain them as well."
            found.append(Finding(said, Kind.NOT_IDENTIFIED))
        if self.assumed in self.discounts[~self.inside]:
            said = f"The discount assumed, {self.assumed:g}, does not explain them as well."
            found.append(Finding(said, Kind.MISFIT, number=self.assumed))
        return found

    def _answer_findings(self) -> list[Finding]:
        """How the answer moves within the set."""
        kept = [one for one, on in zip(self.recoveries, self.inside, strict=True) if on]
        if len(kept) == 1:
            return []
        found = []
        for k in range(len(kept[0].cost_weights)):
            active = [bool(one.identification.active[k]) for one in kept]
            if all(active) or not any(active):
                word = "active" if active[0] else "not shown to be active"
                said = f"Constraint {k} is {word} at each of these discounts."
                kind = Kind.ACTIVE if active[0] else Kind.INACTIVE
                found.append(Finding(said, kind, constraint=k))
            else:
                at = self.discounts[self.inside][np.array(active)]
                said = (
                    f"Whether constraint {k} is active depends on the discount: it is at "
                    f"{len(at)} of {len(kept)} of these, from {at[0]:g} to {at[-1]:g}."
                )
                found.append(Finding(said, Kind.NOT_IDENTIFIED, constraint=k, number=len(at)))
        moved, name, low, high = _most_moved(kept)
        if moved <= STEADY:
            said = f"No weight moves by more than {moved:.2g} over these discounts."
            return [*found, Finding(said, number=moved)]
        said = (
            f"The weight that moves most over these discounts is that of {name}: it lies "
            f"between {low:.3g} and {high:.3g}."
        )
        return [*found, Finding(said, Kind.NOT_IDENTIFIED, feature=name, number=moved)]


def discount_profile(
    mdp: MDP | Trips | Logged,
    features: Any,
    demonstrations: Observed | None,
    discounts: npt.ArrayLike,
    *,
    estimator: Estimator | None = None,
) -> DiscountProfile:
    """The `DiscountProfile` of these discounts: everything is refitted at each of them.

    Args:
        mdp: the known world, but for its discount; or `Trips`, which have all that follows.
        features: what reward and costs may be made of; None with trips.
        demonstrations: what was seen; None with trips.
        discounts: [G] values to try, each in [0, 1); 1 as well where every state can reach an end,
            as all of a trip can.
        estimator: how to recover; None picks by evidence, once for all discounts.
    """
    ends = isinstance(mdp, Trips) or bool(mdp.ends.any())
    grid = np.unique(np.atleast_1d(numbers(discounts, "discounts")).ravel())
    if len(grid) == 0 or not ((grid >= 0) & (grid < 1 + ends)).all() or grid.max() > 1:
        ending = "]" if ends else ")"
        raise InvalidModel(
            f"discounts must be numbers in [0, 1{ending}, at least one; got {discounts!r:.60}"
        )
    if isinstance(mdp, Logged):
        task = logged_task(mdp, features, demonstrations)
    else:
        task = task_of(mdp, features, demonstrations, "the profile of discounts", in_memory=False)
    if estimator is None and not isinstance(task, Trips | LoggedTask):
        estimator, _ = choose(task.mdp, task.features, task.demonstrations)
    if isinstance(estimator, Likelihood):
        check_plain(estimator, "the profile of discounts", OF_COEFFICIENTS)
    rows = [_row_at(task.with_discount(discount), estimator) for discount in grid.tolist()]
    recoveries, likelihoods, shares = zip(*rows, strict=True)
    likelihood, optimal = np.array(likelihoods), np.array(shares)
    inside = 2.0 * (likelihood.max() - likelihood) <= TWO_SIDED**2  # the discount is one number
    if np.isnan(likelihood).any():
        inside = optimal >= optimal.max() - 1e-12
    return DiscountProfile(
        discounts=grid,
        log_likelihood=likelihood,
        share_optimal=optimal,
        inside=inside,
        recoveries=recoveries,
        assumed=cast("float", mdp.discount),
    )


class ProfileRow(NamedTuple):
    """What one discount gives.

    Attributes:
        recovery: at this discount.
        log_likelihood: of all steps; NaN without noise.
        share_optimal: share of the steps that take a best action.
    """

    recovery: Recovery
    log_likelihood: float
    share_optimal: float


def _row_at(task: Task, estimator: Estimator | None) -> ProfileRow:
    # Impossible moves were refused when this question was not asked yet.
    found = recover(task, estimator=estimator, allow_impossible=True, throw=False)
    if isinstance(task, Trips):
        asked = ExpectedChoices.of(found, task.demonstrations)
        counts, best = asked.counts, asked.best
    elif isinstance(found, LoggedRecovery):
        chances = found.policy(cast("Measurements", task.demonstrations))
        best = chances >= chances.max(axis=1, keepdims=True)
        counts = np.zeros(best.shape)
        counts[task.demonstrations.states, task.demonstrations.actions] = 1.0
        return ProfileRow(found, found.log_likelihood, float((counts * best).sum() / counts.sum()))
    else:
        counts, best = counts_of(task.mdp, task.demonstrations), optimal_actions(found, task.mdp)
    likely, chosen = np.nan, estimator or Likelihood(free_reward=True)
    if isinstance(chosen, Likelihood):
        # With every constraint: dropping those not shown to be active makes the profile jump.
        likely = -float(maximum(task.chain(chosen), chosen).loss)
    elif found.temperature > 0:
        likely = float((counts * log_policy(found.behaviour)).sum())
    return ProfileRow(found, likely, float((counts * best).sum() / counts.sum()))


def _most_moved(recoveries: list[Recovery]) -> tuple[float, str, float, float]:
    """(range, name, smallest, largest) of the weight that differs most between the recoveries."""
    rows = [[row for row in numbers_of(one) if row.is_weight] for one in recoveries]
    values = np.array([[row.value for row in one] for one in rows])
    known = np.isfinite(values)
    low, high = np.where(known, values, np.inf), np.where(known, values, -np.inf)
    low, high = low.min(axis=0), high.max(axis=0)
    moved = np.where(known.sum(axis=0) > 1, high - low, 0.0)
    j = first_largest(moved)
    return float(moved[j]), rows[0][j].name, float(low[j]), float(high[j])


# Standard errors by which an answer may move when states are cut otherwise.
STABLE = 2.0
# Times as large a noise from which cells are said to change it.
NOISY = 1.5


@dataclass(frozen=True, eq=False, kw_only=True)
class ResolutionCheck:
    """Whether the answer depends on how finely positions were cut into states.

    Attributes:
        sizes: [R] widths of cells, or numbers of bins, tried: the one in use first.
        states: [R] how many states each makes.
        names: [D] the weights and prices compared.
        values: [R, D] what was recovered.
        standard_errors: [D] of those in use; NaN where there is none.
        moves: [R - 1, D] how far each of the others is away, in those standard errors.
        adequate: whether some could be judged, and none moves by more than two of them.
        recoveries: one per size.
    """

    sizes: np.ndarray
    states: np.ndarray
    names: tuple[str, ...]
    values: np.ndarray
    standard_errors: np.ndarray
    moves: np.ndarray
    adequate: bool
    recoveries: tuple[Recovery, ...]

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What came out, as a finding."""
        tried = ", ".join(
            f"{size:g} ({n} states)" for size, n in zip(self.sizes, self.states, strict=True)
        )
        if np.isnan(self.moves).all():
            said = f"Cells of {tried} were tried; there is no weight whose move could be judged."
            return (Finding(said, Kind.NOT_IDENTIFIED),)
        worst = np.unravel_index(first_largest(self.moves), self.moves.shape)
        far, which = float(self.moves[worst]), int(worst[1])
        here, there = self.values[0, which], self.values[1 + worst[0], which]
        most = f"{self.names[which]} moves most, from {here:.3g} to {there:.3g} at "
        most += f"{self.sizes[1 + worst[0]]:g}, by {far:.1f} of its standard errors"
        noises = [one.temperature for one in self.recoveries]
        noise = ", ".join(f"{one:.3g}" for one in noises)
        also = f"The noise depends on them ({noise}), and with it coefficients in units of it."
        also = (Finding(also),) if min(noises) > 0 and max(noises) > NOISY * min(noises) else ()
        if self.adequate:
            said = f"The answer does not depend on how states were cut ({tried}): {most}."
            return (Finding(said, feature=self.names[which], number=far), *also)
        said = (
            f"The answer depends on how states were cut ({tried}): {most}. Its intervals do not "
            "allow for that: take finer states, or read them as too narrow."
        )
        return (Finding(said, Kind.MISFIT, feature=self.names[which], number=far), *also)


def resolution_check(
    make: Callable[[float], Task], sizes: Sequence[float], *, estimator: Estimator | None = None
) -> ResolutionCheck:
    """The `ResolutionCheck` of states cut at several sizes, each refitted.

    Args:
        make: the world, features and demonstrations at a size, features of the same names.
        sizes: the one in use, then a coarser and a finer one, or more.
        estimator: how; None picks by evidence.
    """
    if len(sizes) < 2:
        raise InvalidModel(f"sizes must be at least two, the one in use first; got {len(sizes)}")
    tasks = [make(size) for size in sizes]
    asked = {"estimator": estimator, "allow_impossible": True, "throw": False}
    found = tuple(recover(one, **asked) for one in tasks)
    rows = [[row for row in numbers_of(one) if not row.is_budget] for one in found]
    names = [f"the price of cost {row.name}" if row.is_price else row.name for row in rows[0]]
    if len({len(one) for one in rows}) > 1:
        raise InvalidModel("every size must have the same features; some has others")
    values = np.array([[row.value for row in one] for one in rows])
    errors = np.array([row.standard_error for row in rows[0]])
    errors = np.where((errors > 0) & np.isfinite(errors), errors, np.nan)
    moves = np.abs(values[1:] - values[0]) / errors
    return ResolutionCheck(
        sizes=np.array(sizes, dtype=np.float64),
        states=np.array([one.mdp.states for one in tasks]),
        names=tuple(names),
        values=values,
        standard_errors=errors,
        moves=moves,
        adequate=bool((moves <= STABLE).any() and not (moves > STABLE).any()),
        recoveries=found,
    )
