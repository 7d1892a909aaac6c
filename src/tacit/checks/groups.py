"""Do groups of episodes want and refuse the same? A likelihood-ratio test, and each group's own.

Groups fitted apart are compared with the best model of groups that are alike: one fit of all, or
one direction of the parameters with a noise of its own for every group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.checks import Quantity, numbers_of
from tacit.data.demonstrations import Demonstrations
from tacit.data.units import EPISODES, Units
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.inference.tails import chi_square_tail
from tacit.inverse.findings import LEVEL, Finding, Kind, chance, listed
from tacit.inverse.joint.trips import Trips
from tacit.inverse.noisy.inference import inverse_information
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.recover import recover
from tacit.inverse.recovery import Recovery
from tacit.inverse.standardised import shown
from tacit.inverse.task import Task, task_of
from tacit.likelihood.kinds import one_direction
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import OF_COEFFICIENTS, maximum
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.search.algebra import coarse, first_largest

# Simulated likelihood ratios where a coefficient is on its bound or individuals are named.
DRAWS = 199
# Episodes that every group must have for dealing them out again to say something.
ENOUGH = 5
# Groups named in one sentence.
NAMED = 6


@dataclass(frozen=True, eq=False, kw_only=True)
class EqualWeightsTest:
    """Whether groups share reward weights, cost weights and prices, and each group's own.

    Attributes:
        groups: [G] their names, in order.
        episodes: [G] how many trajectories each has.
        steps: [G] how many steps.
        own_noise: whether the groups may differ in their noise; if not, that must be equal, too.
        ratio: likelihood ratio of the separate fits against groups that are alike.
        degrees: degrees of freedom of its chi-square; NaN where its law was simulated.
        p_value: chance of a ratio this large if the groups are equal.
        least: the smallest chance that its law can give, of few individuals; else 0.
        draws: simulated ratios behind the chance; 0 for a chi-square.
        law: where the chance comes from, in words.
        pooled: recovery from all groups together.
        recoveries: one per group.
        raw_units: whether numbers of groups are those of the features as given, and not of
            standardised ones.
    """

    groups: tuple[str, ...]
    episodes: np.ndarray
    steps: np.ndarray
    own_noise: bool
    ratio: float
    degrees: float
    p_value: float
    least: float = 0.0
    draws: int
    law: str
    pooled: Recovery
    recoveries: tuple[Recovery, ...]
    raw_units: bool = False

    @property
    def _shown(self) -> tuple[Recovery, ...]:
        """[G] the recoveries in the units of their numbers."""
        return tuple(shown(one, raw_units=self.raw_units) for one in self.recoveries)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Name -> column of a table: group, quantity, name, value, low, high, standard_error."""
        pairs = zip(self.groups, self._shown, strict=True)
        rows = [(group, *row) for group, recovery in pairs for row in numbers_of(recovery)]
        names = ("group", *Quantity._fields)
        columns = zip(*rows, strict=True)
        return {name: np.array(part) for name, part in zip(names, columns, strict=True)}

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What came out, as findings."""
        pairs = zip(self.groups, self.episodes, strict=True)
        who = listed([f"{g} ({n} episode{'s' if n != 1 else ''})" for g, n in pairs], NAMED)
        basis = f"likelihood ratio {self.ratio:.4g}, {chance(self.p_value)} {self.law}"
        if self.least > LEVEL:
            said = (
                f"Whether {who} differ cannot be told: with so few individuals no p-value below "
                f"{self.least:.2g} is possible ({basis})."
            )
            return (Finding(said, Kind.NOT_IDENTIFIED, number=self.p_value),)
        if self.p_value > LEVEL:
            said = f"Nothing shows that {who} differ in what they want and refuse ({basis})."
            return (Finding(said, number=self.p_value),)
        what = "weights and prices" if self.own_noise else "weights, prices and noise"
        said = f"{who} do not follow the same {what} ({basis})."
        return (Finding(said, Kind.MISFIT, number=self.p_value), *self._widest())

    def _widest(self) -> list[Finding]:
        """The number in which two groups differ most, in standard errors."""
        best, found = 0.0, []
        for rows in zip(*map(numbers_of, self._shown), strict=True):
            values = np.array([row.value for row in rows])
            errors = np.array([row.standard_error for row in rows])
            with np.errstate(divide="ignore", invalid="ignore"):  # inf - inf, 0 / 0
                apart = np.abs(values[:, None] - values)
                scores = np.nan_to_num(apart / np.hypot(errors[:, None], errors), posinf=0.0)
            if rows[0].is_budget or coarse(scores.max()) <= coarse(best):
                continue
            best = float(scores.max())
            pair = np.unravel_index(first_largest(scores), scores.shape)
            each = [
                f"{rows[g].value:.3g} [{rows[g].low:.3g}, {rows[g].high:.3g}] for {self.groups[g]}"
                for g in sorted(pair)
            ]
            price, name = rows[0].is_price, rows[0].name
            what = f"price {name}" if price else f"the {rows[0].quantity} weight of {name}"
            text = f"They differ most in {what}: {each[0]}, {each[1]}."
            found = [Finding(text, feature=None if price else name, number=best)]
        return found


def equal_weights_test(
    mdp: MDP | Task,
    features: Features | None = None,
    demonstrations: Demonstrations | None = None,
    groups: npt.ArrayLike | None = None,
    *,
    estimator: Likelihood | None = None,
    own_noise: bool = False,
    draws: int | None = None,
    seed: int = 0,
    raw_units: bool = False,
) -> EqualWeightsTest:
    """The `EqualWeightsTest` of groups of episodes.

    Args:
        mdp: the known world, the same for all groups; or a `Task` or `Trips`, which hold features
            and demonstrations.
        features: what reward and costs may be made of.
        demonstrations: the trajectories of all groups.
        groups: [E] the group of every episode; None takes `demonstrations.groups`.
        estimator: a `Likelihood`; its default by default.
        own_noise: let every group have a noise of its own, so that only weights and prices count.
        draws: simulated likelihood ratios; 0 takes the chi-square law, None simulates where a
            weight sits on its bound or individuals are named, whose episodes go together.
        seed: of the simulation.
        raw_units: give numbers of the features as given, and not of standardised ones.
    """
    if draws is not None and draws < 0:
        raise InvalidModel(f"draws must be at least 0; got {draws}")
    task = task_of(mdp, features, demonstrations, "the test of groups")
    options = Likelihood(free_reward=isinstance(task, Trips)) if estimator is None else estimator
    if not isinstance(options, Likelihood):
        raise InvalidModel(
            "groups are compared by the likelihoods of their steps, which matched sums do not "
            f"have: use Likelihood(); got {type(options).__name__}"
        )
    options.check_no_lapses("the test of groups", OF_COEFFICIENTS)
    whole = mdp if isinstance(mdp, Task) else task
    names, member = _members(whole.demonstrations, groups)
    if isinstance(whole, Trips):
        member = member[whole.goals > -2]
    found = GroupFits.of(task, member, options, own_noise=own_noise)
    number, least = draws, 0.0
    if number is None:
        unsure = found.bounded or found.units.doubt
        number = DRAWS if unsure and not (own_noise and isinstance(task, Trips)) else 0
    if number:
        ratios, law = found.simulated(number, seed)
        larger = np.array(ratios) >= found.ratio * (1.0 - 1e-9)
        # One more in both counts: a simulated law cannot vouch for a chance of zero.
        p_value = float((1.0 + larger.sum()) / (1.0 + number))
        if found.units.doubt and not own_noise:
            least = found.units.least_chance(member)
            p_value = max(p_value, least)  # few deals, drawn often, are found rarer than they are
    else:
        p_value = chi_square_tail(found.degrees, found.ratio) if found.degrees > 0 else 1.0
        law = f"by a chi-square with {found.degrees:g} degrees of freedom{found.units.doubt}"

    def recovery(part: Task) -> Recovery:
        return recover(part, estimator=options, allow_impossible=True, throw=False)

    return EqualWeightsTest(
        groups=names,
        episodes=np.bincount(member, minlength=len(names)),
        own_noise=own_noise,
        pooled=recovery(task),
        recoveries=tuple(recovery(task.select(member == g)) for g in range(len(names))),
        steps=np.bincount(np.repeat(member, task.demonstrations.lengths), minlength=len(names)),
        ratio=found.ratio,
        degrees=np.nan if number else found.degrees,
        p_value=p_value,
        least=least,
        draws=number,
        law=law,
        raw_units=raw_units,
    )


def _members(
    demonstrations: Demonstrations, groups: npt.ArrayLike | None
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the groups, and [E] the number of every episode's group."""
    given = getattr(demonstrations, "groups", None) if groups is None else groups
    if given is None:
        raise InvalidDemonstrations(
            "groups must name the group of every episode: pass them, or load a table with a "
            "`group` column"
        )
    labels = np.array([str(label) for label in np.asarray(given).ravel()])
    if labels.shape != (demonstrations.episodes,):
        raise InvalidDemonstrations(
            f"groups must hold one entry an episode ({demonstrations.episodes}); got {len(labels)}"
        )
    names, member = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise InvalidDemonstrations(
            f"at least two groups are needed to compare them; got {[str(n) for n in names]}"
        )
    return tuple(str(name) for name in names), member.ravel()


class Compared(NamedTuple):
    """Groups fitted apart, and the best model of groups that are alike."""

    ratio: float  # of their likelihoods
    apart: tuple[Fit, ...]
    alike: Fit | None  # with a noise for every group; None where that of all is as good


def compared(
    chains: Sequence[Any], options: Likelihood, pooled: Fit, *, own_noise: bool
) -> Compared:
    """The comparison of groups, one chain each.

    The fit of every group begins at the fit of all: never worse than that. Groups that are alike
    share all parameters, or all but their noise.
    """
    apart = tuple(maximum(chain, options, near=pooled) for chain in chains)
    loss, alike = pooled.loss, None
    if own_noise:
        shared = one_direction(chains, apart[0].problem, _moved(pooled, chains[0]))
        if shared.loss < loss:
            loss, alike = shared.loss, shared
    ratio = max(0.0, 2.0 * (loss - float(sum(one.loss for one in apart))))
    return Compared(ratio, apart, alike)


def _moved(fitted: Fit, chain: Any) -> np.ndarray:
    """[D] the parameters of a fit in the units of another chain."""
    return fitted.z * (chain.space.scales / fitted.problem.chains[0].space.scales)


def degrees_of_freedom(pooled: Fit, chains: Sequence[Any], *, own_noise: bool) -> float:
    """Parameters that the separate fits have more than the model, those seen by the data."""

    def seen(chain: Any) -> int:
        x = _moved(pooled, chain)
        part = chain.at(x, pooled.parts[0], pooled.tolerance)
        fisher = chain.evidence(part, np.eye(len(x)), None).fisher
        _, blind = inverse_information(fisher, pooled.free)
        return int(pooled.free.sum()) - len(blind)

    more = sum(map(seen, chains)) - seen(pooled.problem.chains[0])
    return float(max(more - (len(chains) - 1 if own_noise else 0), 0))


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupFits:
    """Groups of a task fitted apart against groups that are alike, and what that is by chance.

    Attributes:
        task: of all groups.
        member: [E] number of the group of every episode.
        options: of the fits.
        own_noise: whether groups that are alike may differ in their noise.
        pooled: the fit of all episodes.
        chains: one per group.
        found: what was compared.
        units: what is independent among the episodes.
    """

    task: Task
    member: np.ndarray
    options: Likelihood
    own_noise: bool
    pooled: Fit
    chains: tuple[Any, ...]
    found: Compared
    units: Units

    @classmethod
    def of(
        cls,
        task: Task,
        member: np.ndarray,
        options: Likelihood,
        *,
        own_noise: bool = False,
        pooled: Fit | None = None,
    ) -> GroupFits:
        """The fits of these groups; `pooled` is that of all, where it is known."""
        chains = tuple(task.parts(member, options))
        pooled = maximum(task.chain(options), options) if pooled is None else pooled
        return cls(
            task=task,
            member=member,
            options=options,
            own_noise=own_noise,
            pooled=pooled,
            chains=chains,
            found=compared(chains, options, pooled, own_noise=own_noise),
            units=task.units().across(member),
        )

    @property
    def ratio(self) -> float:
        """Likelihood ratio of the separate fits against groups that are alike."""
        return self.found.ratio

    @property
    def degrees(self) -> float:
        """Degrees of freedom of its chi-square."""
        return degrees_of_freedom(self.pooled, self.chains, own_noise=self.own_noise)

    @property
    def bounded(self) -> bool:
        """Whether a coefficient is on its bound, where no chi-square holds."""
        fits = (self.pooled, *self.found.apart)
        return not all((one.free | ~one.problem.movable).all() for one in fits)

    @property
    def exchangeable(self) -> bool:
        """Whether there are trajectories, not just loose pairs, to deal out again, and enough.

        Of named individuals any number is, since nothing else is exact.
        """
        if self.own_noise:
            return False
        if self.units.called != EPISODES or isinstance(self.task, Trips):
            return True
        seen = self.task.demonstrations
        return int(np.bincount(self.member).min()) >= ENOUGH and seen.episodes < seen.steps

    def simulated(self, number: int, seed: int) -> tuple[list[float], str]:
        """So many ratios of groups that are alike, and how they were made."""
        random, rules = np.random.default_rng(seed), {"own_noise": self.own_noise}
        options, ratios = self.options, []
        if self.exchangeable:
            # Exact whatever the episodes are like, if nothing but chance put them into groups.
            for _ in range(number):
                dealt = self.task.parts(self.units.dealt(self.member, random), options)
                ratios.append(compared(dealt, options, self.pooled, **rules).ratio)
            whole = "trips" if isinstance(self.task, Trips) else "episodes"
            return ratios, f"by {self.units.dealing(self.member, whole)} {number} times"
        if isinstance(self.task, Trips):
            raise InvalidModel(
                "groups of trips that differ in their noise have no simulated law: an action drawn "
                "anew leads where the rest of the trip does not; use draws=0"
            )
        plain = [self.pooled.parts[0]] * len(self.chains)
        alike = plain if self.found.alike is None else self.found.alike.parts
        whole = self.pooled.problem.chains[0]
        visits = [chain.visits.astype(np.int64) for chain in self.chains]
        for _ in range(number):
            counts = [
                redrawn_counts(random, part.policy, own)
                for part, own in zip(alike, visits, strict=True)
            ]
            drawn = [whole.reweighted(one) for one in counts]
            near = maximum(whole.reweighted(np.sum(counts, axis=0)), options, near=self.pooled)
            ratios.append(compared(drawn, options, near, **rules).ratio)
        return ratios, f"by drawing new actions {number} times{self.units.doubt}"


def redrawn_counts(
    random: np.random.Generator, policy: np.ndarray, visits: np.ndarray
) -> np.ndarray:
    """[S, A] counts of actions drawn from a policy [S, A], in states visited so often [S]."""
    chances = policy / policy.sum(axis=1, keepdims=True)
    return random.multinomial(visits, chances).astype(np.float64)
