"""Do groups of episodes want and refuse the same? A likelihood-ratio test, and each group's own.

Groups fitted apart are compared with the best model of groups that are alike: one fit of all, or
one direction of the parameters with a noise of its own for every group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
import numpy.typing as npt

from tacit.checks import numbers_of
from tacit.data.demonstrations import Demonstrations
from tacit.data.units import EPISODES, Units, units_of
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.inference.tails import chi_square_tail
from tacit.inverse.expectations import check_task
from tacit.inverse.findings import LEVEL, Finding, Kind, chance, listed
from tacit.inverse.joint.resample import Apart, kept_trips, trips_apart
from tacit.inverse.joint.traveller import recover_trips
from tacit.inverse.joint.trips import Trips
from tacit.inverse.noisy.inference import inverse_information
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.recovery import Recovery
from tacit.inverse.standardised import shown
from tacit.likelihood.kinds import one_direction
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import maximum
from tacit.likelihood.steps import StepsChain, information
from tacit.model.features.design import Design
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
        names = ("group", "quantity", "name", "value", "low", "high", "standard_error")
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
            values, errors = (np.array([row[i] for row in rows]) for i in (2, 5))
            with np.errstate(divide="ignore", invalid="ignore"):  # inf - inf, 0 / 0
                apart = np.abs(values[:, None] - values)
                scores = np.nan_to_num(apart / np.hypot(errors[:, None], errors), posinf=0.0)
            if rows[0][0] == "budget" or coarse(scores.max()) <= coarse(best):
                continue
            best = float(scores.max())
            pair = np.unravel_index(first_largest(scores), scores.shape)
            each = [
                f"{rows[g][2]:.3g} [{rows[g][3]:.3g}, {rows[g][4]:.3g}] for {self.groups[g]}"
                for g in sorted(pair)
            ]
            kind, name = rows[0][:2]
            what = f"{kind} {name}" if kind == "price" else f"the {kind} weight of {name}"
            text = f"They differ most in {what}: {each[0]}, {each[1]}."
            found = [Finding(text, feature=None if kind == "price" else name, number=best)]
        return found


def equal_weights_test(
    mdp: MDP | Trips,
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
        mdp: the known world, the same for all groups; or `Trips`, and no features and
            demonstrations then.
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
    if isinstance(mdp, Trips):
        if features is not None or demonstrations is not None:
            raise InvalidModel("trips hold their features and demonstrations; got more beside them")
        if own_noise:
            raise InvalidModel("groups of trips are compared with their noise: leave own_noise out")
        options = Likelihood(free_reward=True) if estimator is None else estimator
        names, member = _members(mdp.demonstrations, groups)
        member, seen = member[mdp.goals > -2], kept_trips(mdp)
        found = trips_apart(seen, member, options, seed)
        demonstrations = seen.demonstrations

        def fit(part: Demonstrations) -> Recovery:
            trips = replace(seen, demonstrations=part)
            return recover_trips(trips, estimator=options, throw=False)
    else:
        if features is None or demonstrations is None:
            raise InvalidModel("the test needs a model, features and demonstrations; got fewer")
        check_task(mdp, features, demonstrations, in_memory=True)
        options = Likelihood() if estimator is None else estimator
        if not isinstance(options, Likelihood):
            said = f"the test compares likelihoods: use Likelihood(); got {options!r:.60}"
            raise InvalidModel(said)
        options.check_no_lapses("the test of groups")
        names, member = _members(demonstrations, groups)
        whole = StepsChain.of(mdp, Design.of(mdp, features), demonstrations)
        deck = Deck.of(mdp, demonstrations, member, len(names))
        found = _apart(whole, options, deck, own_noise=own_noise, seed=seed)

        def fit(part: Demonstrations) -> Recovery:
            return options.fit(mdp, features, part, throw=False)

    number, least = draws, 0.0
    if number is None:
        number = DRAWS if found.bounded or found.units.doubt else 0
    if number:
        ratios, law = found.simulated(number)
        larger = np.array(ratios) >= found.ratio * (1.0 - 1e-9)
        # One more in both counts: a simulated law cannot vouch for a chance of zero.
        p_value = float((1.0 + larger.sum()) / (1.0 + number))
        if found.units.doubt and not own_noise:
            least = found.units.least_chance(member)
            p_value = max(p_value, least)  # few deals, drawn often, are found rarer than they are
    else:
        p_value = chi_square_tail(found.degrees, found.ratio) if found.degrees > 0 else 1.0
        law = f"by a chi-square with {found.degrees:g} degrees of freedom{found.units.doubt}"
    parts = [demonstrations.select(member == k) for k in range(len(names))]
    return EqualWeightsTest(
        groups=names,
        episodes=np.bincount(member, minlength=len(names)),
        own_noise=own_noise,
        pooled=fit(demonstrations),
        recoveries=tuple(fit(part) for part in parts),
        steps=found.steps,
        ratio=found.ratio,
        degrees=np.nan if number else found.degrees,
        p_value=p_value,
        least=least,
        draws=number,
        law=law,
        raw_units=raw_units,
    )


def _apart(
    whole: StepsChain, options: Likelihood, deck: Deck, *, own_noise: bool, seed: int
) -> Apart:
    """The groups of a deck fitted apart, against groups that are alike."""
    counts = deck.counts(deck.member)
    pooled = maximum(whole, options)
    ratio, apart, policies = compared(whole, options, counts, pooled, own_noise=own_noise)
    bounded = not all(one.free.all() for one in (pooled, *apart))
    degrees = degrees_of_freedom(whole, pooled, counts, own_noise=own_noise)

    def simulated(number: int) -> tuple[list[float], str]:
        random, near, ratios = np.random.default_rng(seed), pooled, []
        dealt = deck.exchangeable and not own_noise
        if dealt:
            # Exact whatever the episodes are like, if nothing but chance put them into groups.
            tables = (deck.counts(deck.units.dealt(deck.member, random)) for _ in range(number))
        else:
            tables = redraw_counts(random, policies, deck, number)
        for drawn in tables:
            if not dealt:
                near = maximum(whole.reweighted(drawn.sum(axis=0)), options, near=pooled)
            ratios.append(compared(whole, options, drawn, near, own_noise=own_noise)[0])
        if not dealt:
            return ratios, f"by drawing new actions {number} times{deck.units.doubt}"
        return ratios, f"by {deck.units.dealing(deck.member, 'episodes')} {number} times"

    steps = counts.sum(axis=(1, 2)).astype(np.int64)
    return Apart(ratio, degrees, bounded, simulated, deck.units, steps)


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


@dataclass(frozen=True, eq=False)
class Deck:
    """The episodes, to be dealt out to groups.

    Attributes:
        member: [E] group of each episode.
        groups: G.
        index: [N] s * A + a of every step.
        lengths: [E] steps of each episode.
        units: what is independent among them.
        shape: (S, A).
    """

    member: np.ndarray
    groups: int
    index: np.ndarray
    lengths: np.ndarray
    _: KW_ONLY
    units: Units
    shape: tuple[int, int]

    @classmethod
    def of(cls, mdp: MDP, seen: Demonstrations, member: np.ndarray, groups: int) -> Deck:
        """The deck of these demonstrations."""
        index = seen.states.astype(np.int64) * mdp.actions + seen.actions
        units, shape = units_of(seen).across(member), (mdp.states, mdp.actions)
        return cls(member, groups, index, seen.lengths, units=units, shape=shape)

    @property
    def exchangeable(self) -> bool:
        """Whether there are trajectories, not just loose pairs, to deal out again, and enough.

        Of named individuals any number is, since nothing else is exact.
        """
        if self.units.called != EPISODES:
            return True
        fewest = int(np.bincount(self.member, minlength=self.groups).min())
        return fewest >= ENOUGH and len(self.lengths) < len(self.index)

    def counts(self, member: np.ndarray) -> np.ndarray:
        """[G, S, A] how often each group took each action, for the group of every episode [E]."""
        size = self.shape[0] * self.shape[1]
        at = np.repeat(member * size, self.lengths) + self.index
        total = np.bincount(at, minlength=self.groups * size)
        return total.reshape(self.groups, *self.shape).astype(np.float64)


def compared(
    whole: StepsChain, options: Likelihood, counts: np.ndarray, pooled: Fit, *, own_noise: bool
) -> tuple[float, tuple[Fit, ...], np.ndarray]:
    """The likelihood ratio of groups of these counts, their fits, and policies [G, S, A] if alike.

    The fit of every group begins at the fit of all: never worse than that. Groups that are alike
    share all parameters, or all but their noise.
    """
    apart = tuple(maximum(whole.reweighted(table), options, near=pooled) for table in counts)
    loss, policies = pooled.loss, [pooled.parts[0].policy] * len(apart)
    if own_noise:
        chains = [one.problem.chains[0] for one in apart]
        shared = one_direction(chains, pooled.problem, pooled.z)
        if shared.loss < loss:
            loss, policies = shared.loss, [part.policy for part in shared.parts]
    ratio = max(0.0, 2.0 * (loss - float(sum(one.loss for one in apart))))
    return ratio, apart, np.stack(policies)


def degrees_of_freedom(
    whole: StepsChain, pooled: Fit, counts: np.ndarray, *, own_noise: bool
) -> float:
    """Parameters that the separate fits have more than the model, those seen by the data."""
    scores = whole.scores(pooled.parts[0])
    policy, free = pooled.parts[0].policy, pooled.free

    def seen(visits: np.ndarray) -> int:
        _, blind = inverse_information(information(scores, policy, visits), free)
        return int(free.sum()) - len(blind)

    more = sum(seen(table.sum(axis=1)) for table in counts) - seen(whole.visits)
    return float(max(more - (len(counts) - 1 if own_noise else 0), 0))


def redraw_counts(
    rng: np.random.Generator, policies: np.ndarray, deck: Deck, draws: int
) -> Iterator[np.ndarray]:
    """[G, S, A] counts of actions drawn from the policies [G, S, A], states as they were."""
    visits = deck.counts(deck.member).sum(axis=2).astype(np.int64)
    chances = policies / policies.sum(axis=2, keepdims=True)
    for _ in range(draws):
        yield rng.multinomial(visits, chances).astype(np.float64)
