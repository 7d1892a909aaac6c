"""Do groups of episodes want and refuse the same? A likelihood-ratio test.

Groups fitted apart are compared with one fit of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.demonstrations import Demonstrations
from tacit.data.units import EPISODES, Units
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.logged.nodes import task_anywhere
from tacit.estimators.logged.world import LoggedTask
from tacit.estimators.task import Task
from tacit.estimators.trips.world import Trips
from tacit.inference.findings import LEVEL, Finding, Kind, chance, listed
from tacit.inference.information import inverse_information
from tacit.inference.tails import chi_square_tail
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import OF_COEFFICIENTS, check_plain, maximum
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# Simulated likelihood ratios where a coefficient is on its bound or individuals are named.
DRAWS = 199
# Episodes that every group must have for dealing them out again to say something.
ENOUGH = 5
# Groups named in one sentence.
NAMED = 6


@dataclass(frozen=True, eq=False, kw_only=True)
class EqualWeightsTest:
    """Whether groups share reward weights, cost weights and prices.

    Attributes:
        groups: [G] their names, in order.
        episodes: [G] how many trajectories each has.
        steps: [G] how many steps.
        ratio: likelihood ratio of the separate fits against groups that are alike.
        degrees: degrees of freedom of its chi-square; NaN where its law was simulated.
        p_value: chance of a ratio this large if the groups are equal.
        least: the smallest chance that its law can give, of few individuals; else 0.
        draws: simulated ratios behind the chance; 0 for a chi-square.
        law: where the chance comes from, in words.
    """

    groups: tuple[str, ...]
    episodes: np.ndarray
    steps: np.ndarray
    ratio: float
    degrees: float
    p_value: float
    least: float = 0.0
    draws: int
    law: str

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
        said = (
            f"{who} do not follow the same weights, prices and noise ({basis}): tacit recover --by "
            "group, in Python tacit.many.differences, says in what they differ."
        )
        return (Finding(said, Kind.MISFIT, number=self.p_value),)


def equal_weights_test(
    mdp: MDP | Task,
    features: Features | None = None,
    demonstrations: Demonstrations | None = None,
    groups: npt.ArrayLike | None = None,
    *,
    estimator: Likelihood | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> EqualWeightsTest:
    """The `EqualWeightsTest` of groups of episodes.

    Args:
        mdp: the known world, the same for all groups; or a `Task` or `Trips`, which hold features
            and demonstrations.
        features: what reward and costs may be made of.
        demonstrations: the trajectories of all groups.
        groups: [E] the group of every episode; None takes `demonstrations.groups`.
        estimator: a `Likelihood`; its default by default.
        draws: simulated likelihood ratios; 0 takes the chi-square law, None simulates where a
            weight sits on its bound or individuals are named, whose episodes go together.
        seed: of the simulation.
    """
    if draws is not None and draws < 0:
        raise InvalidModel(f"draws must be at least 0; got {draws}")
    task = task_anywhere(mdp, features, demonstrations, "the test of groups")
    free = isinstance(task, Trips | LoggedTask)
    options = Likelihood(free_reward=free) if estimator is None else estimator
    if not isinstance(options, Likelihood):
        raise InvalidModel(
            "groups are compared by the likelihoods of their steps, which matched sums do not "
            f"have: use Likelihood(); got {type(options).__name__}"
        )
    check_plain(options, "the test of groups", OF_COEFFICIENTS)
    whole = mdp if isinstance(mdp, Task) else task
    names, member = _members(whole.demonstrations, groups)
    if isinstance(whole, Trips):
        member = member[whole.goals > -2]
    if task.learnt and draws == 0:
        raise InvalidModel(
            "draws must be at least 1 where dynamics are only logged: their errors are in the "
            "ratio of the likelihoods, which then has no chi-square law"
        )
    found = GroupFits.of(task.prepared(options), member, options)
    number, least = draws, 0.0
    if number is None:
        number = DRAWS if found.bounded or found.units.doubt or task.learnt else 0
    if number:
        ratios, law = found.simulated(number, seed)
        larger = np.array(ratios) >= found.ratio * (1.0 - 1e-9)
        # One more in both counts: a simulated law cannot vouch for a chance of zero.
        p_value = float((1.0 + larger.sum()) / (1.0 + number))
        if found.units.doubt:
            least = found.units.least_chance(member)
            p_value = max(p_value, least)  # few deals, drawn often, are found rarer than they are
    else:
        p_value = chi_square_tail(found.degrees, found.ratio) if found.degrees > 0 else 1.0
        law = f"by a chi-square with {found.degrees:g} degrees of freedom{found.units.doubt}"
    return EqualWeightsTest(
        groups=names,
        episodes=np.bincount(member, minlength=len(names)),
        steps=np.bincount(np.repeat(member, task.demonstrations.lengths), minlength=len(names)),
        ratio=found.ratio,
        degrees=np.nan if number else found.degrees,
        p_value=p_value,
        least=least,
        draws=number,
        law=law,
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


def ratio_of(apart: Sequence[Fit], pooled: Fit) -> float:
    """Likelihood ratio of fits of every group against the fit of all."""
    return max(0.0, 2.0 * (pooled.loss - float(sum(one.loss for one in apart))))


def fitted_apart(chains: Sequence[Any], options: Likelihood, pooled: Fit) -> tuple[Fit, ...]:
    """The fit of every group, one chain each: begun at the fit of all, and so never worse."""
    return tuple(maximum(chain, options, near=pooled) for chain in chains)


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupFits:
    """Groups of a task fitted apart against one fit of all, and what that is by chance.

    Attributes:
        task: of all groups.
        member: [E] number of the group of every episode.
        options: of the fits.
        pooled: the fit of all episodes.
        chains: one per group.
        apart: the fit of each.
        units: what is independent among the episodes.
    """

    task: Task
    member: np.ndarray
    options: Likelihood
    pooled: Fit
    chains: tuple[Any, ...]
    apart: tuple[Fit, ...]
    units: Units

    @classmethod
    def of(
        cls, task: Task, member: np.ndarray, options: Likelihood, *, pooled: Fit | None = None
    ) -> GroupFits:
        """The fits of these groups; `pooled` is that of all, where it is known."""
        chains = tuple(task.group_chains(member, options))
        pooled = maximum(task.chain(options), options) if pooled is None else pooled
        return cls(
            task=task,
            member=member,
            options=options,
            pooled=pooled,
            chains=chains,
            apart=fitted_apart(chains, options, pooled),
            units=task.units().across(member),
        )

    @property
    def ratio(self) -> float:
        """Likelihood ratio of the separate fits against the fit of all."""
        return ratio_of(self.apart, self.pooled)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of its chi-square: parameters more, those seen by the data."""
        pooled = self.pooled
        whole = pooled.problem.chains[0]

        def seen(chain: Any) -> int:
            x = pooled.z * (chain.space.scales / whole.space.scales)
            part = chain.at(x, pooled.parts[0], pooled.tolerance)
            fisher = chain.evidence(part, np.eye(len(x)), None).fisher
            _, blind = inverse_information(fisher, pooled.free)
            return int(pooled.free.sum()) - len(blind)

        return float(max(sum(map(seen, self.chains)) - seen(whole), 0))

    @property
    def bounded(self) -> bool:
        """Whether a coefficient is on its bound, where no chi-square holds."""
        fits = (self.pooled, *self.apart)
        return not all((one.free | ~one.problem.movable).all() for one in fits)

    @property
    def exchangeable(self) -> bool:
        """Whether there are trajectories, not just loose pairs, to deal out again, and enough.

        Of named individuals any number is, since nothing else is exact.
        """
        if self.units.called != EPISODES or isinstance(self.task, Trips):
            return True
        seen = self.task.demonstrations
        return int(np.bincount(self.member).min()) >= ENOUGH and seen.episodes < seen.steps

    def simulated(self, number: int, seed: int) -> tuple[list[float], str]:
        """So many ratios of groups that are alike, and how they were made."""
        random, options, ratios = np.random.default_rng(seed), self.options, []
        if self.exchangeable:
            # Exact whatever the episodes are like, if nothing but chance put them into groups.
            for _ in range(number):
                dealt = self.task.group_chains(self.units.dealt(self.member, random), options)
                ratios.append(ratio_of(fitted_apart(dealt, options, self.pooled), self.pooled))
            whole = "trips" if isinstance(self.task, Trips) else "episodes"
            return ratios, f"by {self.units.dealing(self.member, whole)} {number} times"
        whole, policy = self.pooled.problem.chains[0], self.pooled.parts[0].policy
        visits = [chain.visits.astype(np.int64) for chain in self.chains]
        for _ in range(number):
            counts = [redrawn_counts(random, policy, own) for own in visits]
            drawn = [whole.reweighted(one) for one in counts]
            near = maximum(whole.reweighted(np.sum(counts, axis=0)), options, near=self.pooled)
            ratios.append(ratio_of(fitted_apart(drawn, options, near), near))
        return ratios, f"by drawing new actions {number} times{self.units.doubt}"


def redrawn_counts(
    random: np.random.Generator, policy: np.ndarray, visits: np.ndarray
) -> np.ndarray:
    """[S, A] counts of actions drawn from a policy [S, A], in states visited so often [S]."""
    chances = policy / policy.sum(axis=1, keepdims=True)
    return random.multinomial(visits, chances).astype(np.float64)
