"""Does what was recovered predict trajectories it has not seen?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from tacit.checks import TrajectoryFits
from tacit.checks.reliability import ExpectedChoices, called, log_policy
from tacit.data.demonstrations import Demonstrations
from tacit.data.units import EPISODES
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.logged.nodes import task_anywhere
from tacit.estimators.logged.world import LoggedTask
from tacit.estimators.recover import Estimator, recover
from tacit.estimators.task import Task
from tacit.estimators.trips.world import Trips
from tacit.inference.findings import Finding, Kind
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.recovery import Recovery

# Standard errors from which a difference is not put down to chance.
CLEAR = 2.0


@dataclass(frozen=True, kw_only=True)
class PredictiveScore:
    """How well one model predicts the actions of the episodes held out.

    Attributes:
        name: of the model.
        log_likelihood: mean over the steps; NaN for a model without noise.
        log_likelihood_error: its standard error over episodes; NaN with one episode.
        share_optimal: share of the steps that take an action which is best for the model.
        share_optimal_error: its standard error over episodes.
        lead: log-likelihood a step by which the recovery beats this model; the share of optimal
            steps by which it does, where there is no likelihood.
        lead_error: standard error of that difference, over the same episodes.
    """

    name: str
    log_likelihood: float
    log_likelihood_error: float
    share_optimal: float
    share_optimal_error: float
    lead: float
    lead_error: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Holdout:
    """What a recovery from part of the episodes says about the others.

    Attributes:
        kept: [E - H] episodes that were fitted.
        held: [H] episodes that were held out.
        steps: number of steps held out.
        recovered: score of the recovery from the episodes kept.
        reward_only: of the best reward without constraints, from the same episodes.
        uniform: of random actions.
        recovery: the recovery from the episodes kept.
        individuals: how many were held out, with all their episodes; 0 where none are named.
    """

    kept: np.ndarray
    held: np.ndarray
    steps: int
    recovered: PredictiveScore
    reward_only: PredictiveScore
    uniform: PredictiveScore
    recovery: Recovery
    individuals: int = 0

    def __repr__(self) -> str:
        number, lead = self.recovered.log_likelihood, self.uniform.lead
        scored = self.recovered.share_optimal if np.isnan(number) else number
        return (
            f"Holdout({len(self.held)} of {len(self.held) + len(self.kept)} episodes held out, "
            f"{self.steps} steps, score {scored:.4g} a step, {lead:+.4g} over random actions)"
        )

    @property
    def scores(self) -> tuple[PredictiveScore, ...]:
        """All three, the recovery first."""
        return self.recovered, self.reward_only, self.uniform

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What came out, as findings."""
        noisy = not np.isnan(self.recovered.log_likelihood)
        one, other = self.recovered, self.uniform
        whose = f" of {_count(self.individuals, 'individual')}" if self.individuals else ""
        number = f"{_count(len(self.held), 'episode')}{whose}"
        where = f"On {number} held out ({_count(self.steps, 'step')})"
        if noisy:
            error = one.log_likelihood_error
            spread = "" if np.isnan(error) else f", standard error {error:.2g}"
            first = (
                f"{where} the recovery gives the actions taken a typical probability of "
                f"{_typical(one)} (log-likelihood {one.log_likelihood:.4g} a step{spread}); the "
                f"reward alone {_typical(self.reward_only)}, random actions {_typical(other)}."
            )
        else:
            first = (
                f"{where} {one.share_optimal:.1%} of the steps are optimal under the recovery, "
                f"{self.reward_only.share_optimal:.1%} under the best reward without constraints; "
                f"of random actions {other.share_optimal:.1%} would be."
            )
        score = one.log_likelihood if noisy else one.share_optimal
        return Finding(first, number=score), self._verdict()

    def _verdict(self) -> Finding:
        if (self.individuals or len(self.held)) == 1:
            whose = "individual" if self.individuals else "episode"
            said = f"One {whose} cannot show whether that is more than chance: hold out more."
            return Finding(said, Kind.NOT_IDENTIFIED)
        if not _ahead(self.uniform):
            said = "It does not predict unseen episodes better than random actions do."
            return Finding(said, Kind.MISFIT, number=self.uniform.lead)
        if len(self.recovery.cost_weights) == 0:
            said = "It predicts unseen episodes better than random actions do."
            return Finding(said, number=self.uniform.lead)
        lead = self.reward_only.lead
        if _ahead(self.reward_only):
            said = "It predicts unseen episodes better than the best reward without constraints."
            return Finding(said, number=lead)
        if lead < -max(CLEAR * self.reward_only.lead_error, 1e-9):
            said = "It predicts unseen episodes worse than the best reward without constraints."
            return Finding(said, Kind.MISFIT, number=lead)
        said = (
            "It predicts unseen episodes better than random actions do, and as well as the best "
            "reward without constraints: these episodes do not show that constraints are needed."
        )
        return Finding(said, Kind.INACTIVE, number=lead)


def holdout(
    mdp: MDP | Trips,
    features: Features | None = None,
    demonstrations: Demonstrations | None = None,
    *,
    estimator: Estimator | None = None,
    share: float = 0.2,
    seed: int = 0,
) -> Holdout:
    """The `Holdout` of a random part of the episodes: fitted on the rest, scored on these.

    Individuals, where they are named, are held out as a whole; errors are then over individuals.

    Args:
        mdp: the known world; or `Trips`, and nothing else then: each is scored on the way to its
            goal, which may be one that nobody else went to.
        features: what reward and costs may be made of.
        demonstrations: at least two episodes.
        estimator: how to recover; None picks by evidence.
        share: of the episodes, or individuals, to hold out, at least one and not all.
        seed: of the choice of episodes, and of the estimator where it is picked.
    """
    if not 0.0 < share < 1.0:
        raise InvalidModel(f"share must be between 0 and 1; got {share}")
    task = task_anywhere(mdp, features, demonstrations, "holding out")
    demonstrations = task.demonstrations
    count = len(units := task.units())
    if count < 2:
        whose = "individuals" if demonstrations.episodes > 1 else "episodes"
        raise InvalidDemonstrations(f"holding out needs at least 2 {whose}; got 1")
    number = min(max(round(share * count), 1), count - 1)
    chosen = np.random.default_rng(seed).choice(count, number, replace=False)
    held = np.isin(units.number, chosen)
    rest, new = task.select(~held), demonstrations.select(held)

    # What must not be was said, or allowed, when everything was recovered.
    def fit(part: Task, options: Estimator | None = estimator) -> Recovery:
        rules = {"estimator": options, "seed": seed, "allow_impossible": True}
        return recover(part, **rules, throw=False)

    fitted = fit(rest)
    baseline = fitted
    if len(task.sizes) > 1:
        alone = replace(rest, features=task.features.reward_alone)
        free = isinstance(task, Trips | LoggedTask) or getattr(estimator, "free_reward", False)
        baseline = fit(alone, Likelihood(free_reward=free))
    _, own = np.unique(units.number[held], return_inverse=True)
    asked, alone = (
        ExpectedChoices.of(one, new, cast("MDP", task.mdp)) for one in (fitted, baseline)
    )
    ours = _sums(asked, own, _taken(asked, noisy=fitted.temperature > 0))
    reward_only = _sums(alone, own, _taken(alone, noisy=baseline.temperature > 0))
    states = asked.steps.states
    random = _sums(asked, own, (-np.log(asked.options)[states], asked.chance_best[states]))
    lengths = np.bincount(own, weights=new.lengths)
    return Holdout(
        kept=np.flatnonzero(~held),
        held=np.flatnonzero(held),
        steps=new.steps,
        recovered=_score("recovery", ours, ours, lengths),
        reward_only=_score("reward only", reward_only, ours, lengths),
        uniform=_score("random actions", random, ours, lengths),
        recovery=fitted,
        individuals=0 if units.called == EPISODES else number,
    )


def _taken(asked: ExpectedChoices, *, noisy: bool) -> tuple[np.ndarray, np.ndarray]:
    """[N] log-likelihood of every step, NaN without noise, and [N] whether it is a best one."""
    taken = asked.steps.states, asked.steps.actions
    likely = log_policy(asked.policy)[taken] if noisy else np.full(asked.steps.steps, np.nan)
    return likely, asked.best[taken].astype(np.float64)


def _sums(
    asked: ExpectedChoices, unit: np.ndarray, rows: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """[2, U] sums of two rows [N] over the steps of each unit; `unit` [E] is that of an episode."""
    whose = unit[asked.episodes][asked.steps.episode]
    return np.stack([np.bincount(whose, weights=row) for row in rows])


def _score(name: str, sums: np.ndarray, ours: np.ndarray, lengths: np.ndarray) -> PredictiveScore:
    row = 1 if np.isnan(ours[0]).any() or np.isnan(sums[0]).any() else 0
    likelihood, optimal = _ratio(sums[0], lengths), _ratio(sums[1], lengths)
    lead = _ratio(ours[row] - sums[row], lengths)
    return PredictiveScore(
        name=name,
        log_likelihood=likelihood[0],
        log_likelihood_error=likelihood[1],
        share_optimal=optimal[0],
        share_optimal_error=optimal[1],
        lead=lead[0],
        lead_error=lead[1],
    )


def _ratio(sums: np.ndarray, lengths: np.ndarray) -> tuple[float, float]:
    """sum / sum of lengths, and its standard error over entries, lengths being random too."""
    mean, count = float(sums.sum() / lengths.sum()), len(sums)
    if count < 2:
        return mean, np.nan
    left = ((sums - mean * lengths) ** 2).sum() * count / (count - 1.0)
    return mean, float(np.sqrt(left) / lengths.sum())


def _ahead(score: PredictiveScore) -> bool:
    return score.lead > max(CLEAR * score.lead_error, 1e-9)


@dataclass(frozen=True, eq=False, kw_only=True)
class Score:
    """How well a recovery predicts demonstrations, which may be others than it was made from.

    Attributes:
        episodes: number of trajectories, or of trips.
        steps: number of their steps.
        log_likelihood: of all their actions, by weight where they have any; NaN without noise.
        log_likelihood_error: its standard error over episodes; NaN with one episode.
        null_log_likelihood: the same of actions at random.
        gain_error: standard error of the difference of these two.
        hit_rate: share of the steps that take a likeliest action; of a best one, without noise.
        hit_rate_error: its standard error over episodes.
        null_hit_rate: the share that actions at random would take.
        impossible: number of steps to which the recovery gives no chance at all.
        fits: of every episode, the worst first.
    """

    episodes: int
    steps: int
    log_likelihood: float
    log_likelihood_error: float
    null_log_likelihood: float
    gain_error: float
    hit_rate: float
    hit_rate_error: float
    null_hit_rate: float
    impossible: int
    fits: TrajectoryFits

    @property
    def rho_squared(self) -> float:
        """McFadden's: 1 less the log-likelihood over that of actions at random."""
        return 1.0 - self.log_likelihood / self.null_log_likelihood

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What came out, as findings."""
        found = []
        if self.impossible:
            said = (
                f"{_count(self.impossible, 'step')} of {self.steps} take actions to which the "
                "recovery gives probability 0: its log-likelihood is minus infinity."
            )
            found.append(Finding(said, Kind.MISFIT, number=self.impossible))
        elif not np.isnan(self.log_likelihood):
            gain = (self.log_likelihood - self.null_log_likelihood) / self.steps
            if gain > max(CLEAR * self.gain_error / self.steps, 1e-9):
                said = "The recovery predicts these actions better than actions at random."
                found.append(Finding(said, number=gain))
            else:
                said = "The recovery does not predict these actions better than random ones."
                found.append(Finding(said, Kind.MISFIT, number=gain))
        return (*found, *self.fits.sentences)


def score(recovery: Recovery, demonstrations: Demonstrations, *, mdp: MDP | None = None) -> Score:
    """The `Score` of these demonstrations by what was recovered, from them or from others.

    Args:
        recovery: of one task, or of trips: each trip is then judged on the way to its own goal.
        demonstrations: what was seen.
        mdp: the world, as for `trajectory_fits`; without it, actions that the recovered policy
            never takes are taken not to be there.
    """
    asked, noisy = ExpectedChoices.of(recovery, demonstrations, mdp), recovery.temperature > 0
    fits, seen = called(asked.fits(noisy=noisy), demonstrations), asked.steps
    begin, random = seen.offsets[:-1], -np.log(asked.options)[seen.states]
    likely, best = _taken(asked, noisy=noisy)
    share = seen.shares
    lengths = np.add.reduceat(share, begin)
    likelihood, gain, hits = (
        _ratio(np.add.reduceat(share * sums, begin), lengths)
        for sums in (likely, likely - random, best)
    )
    lost = int((asked.policy[seen.states, seen.actions] == 0).sum()) if noisy else 0
    return Score(
        episodes=len(fits),
        steps=seen.steps,
        log_likelihood=-np.inf if lost else likelihood[0] * seen.steps,
        log_likelihood_error=likelihood[1] * seen.steps,
        null_log_likelihood=float((share * random).sum()),
        gain_error=gain[1] * seen.steps,
        hit_rate=hits[0],
        hit_rate_error=hits[1],
        null_hit_rate=float((share * asked.chance_best[seen.states]).mean()),
        impossible=lost,
        fits=fits,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _typical(score: PredictiveScore) -> str:
    """The geometric mean of the probabilities, in percent."""
    return f"{np.exp(score.log_likelihood):.1%}"
