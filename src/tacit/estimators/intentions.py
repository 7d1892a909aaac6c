"""Rewards that switch within a trajectory: `Intentions`, and what it finds.

At every step a demonstrator follows one of several intentions, each a reward and prices of its own,
and plans as if it would keep it. From step to step it switches by chances that are the same
everywhere, or those of the place or the time. Intentions and chances are the maximum of one
likelihood (`likelihood/kinds.py`), and so are their errors, intervals and tests. A `Mixture` is the
case in which nobody switches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.engine.progress import unwatched
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.kinds import KindsOptions, KindsRecovery, report_of, several_kinds
from tacit.estimators.likelihood import maximise
from tacit.estimators.setting import StepsSetting
from tacit.estimators.types import SURE, degrees, kinds_of, schwarz, search
from tacit.inference.diagnostics import Identification
from tacit.inference.evidence import Evidence
from tacit.inference.expectations import check_task
from tacit.inference.findings import Finding, Kind
from tacit.inference.tails import ONE_SIDED, TWO_SIDED
from tacit.likelihood.kinds import KindsChain, StepUnits, log_likelihood
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import Label, Range, maximum
from tacit.likelihood.switching import Mixing, Passes, Sequences, drawn_kinds, passes
from tacit.model.arguments import read_only
from tacit.model.features import Ridge
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.recovery import (
    History,
    Recovery,
    RecoveryCertificate,
    RecoveryStatus,
    delivered,
)

# Parameters and paths drawn for the intervals of shares, and the pseudo-count of what was counted.
DRAWS, PSEUDO = 100, 0.5
# Precision of the values at parameters that are drawn.
VALUED = 1e-9


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class IntentionsRecovery(KindsRecovery):
    """Several intentions of the same demonstrators, and which step follows which of them.

    Attributes:
        intentions: one `Recovery` each, the most frequent first. Their likelihoods are those of the
            steps weighted by `following`; their errors count that it is not known.
        shares: [T] of the steps.
        share_intervals: [T, 2].
        following: [N, T] chances that each step follows each intention, by its whole trajectory.
        states: [N] where each step was made.
        offsets: [E + 1] trajectory e holds the steps offsets[e] to offsets[e + 1].
        membership: [E, T] expected share of each trajectory's steps.
        start: [T] chances of the intentions at the first step of a trajectory.
        switching: [G, T, T] chances to go on with each intention, from each; one table for each
            place and time that was told apart.
        dwell: [G, T] steps for which an intention is followed on average; infinite where it is
            never left.
        dwell_intervals: [G, T, 2].
        where: [S, T] share of the steps in each state that follow each intention; NaN where nobody
            was.
        where_intervals: [S, T, 2].
        places: [S] number of the place that each state is of.
        times: steps at which chances to switch change.
        log_likelihood: of all observed actions.
        null_log_likelihood: the same of actions at random.
        observed_steps: number of observed actions.
        degrees: number of free coefficients of all intentions and of free chances.
        tried: [M] numbers of intentions that were tried.
        criteria: [M] Schwarz's criterion of each.
        held_out: [M] nats a step on trajectories that were held out; empty where the number of
            intentions was given.
        counted: [2] the same of how often actions were taken in the state, and in the state by the
            one before: what can be predicted without any meaning; empty likewise.
        status: how the recovery ended, derived from the certificate.
        certificate: the largest entry of the gradient of the likelihood that no bound holds back,
            and the intentions' feature gaps, root mean square.
        history: log-likelihood of one intention, of the best start after a few steps, and at the
            end.
        identification: the findings; every number is known in the intentions.
        estimator: the call that made it.
    """

    kind: ClassVar[str] = "intention"
    what: ClassVar[str] = "steps"

    intentions: tuple[Recovery, ...]
    shares: np.ndarray
    share_intervals: np.ndarray
    following: np.ndarray
    states: np.ndarray
    offsets: np.ndarray
    membership: np.ndarray
    start: np.ndarray
    switching: np.ndarray
    dwell: np.ndarray
    dwell_intervals: np.ndarray
    where: np.ndarray
    where_intervals: np.ndarray
    places: np.ndarray
    times: np.ndarray
    log_likelihood: float
    null_log_likelihood: float
    observed_steps: int
    degrees: int
    tried: np.ndarray
    criteria: np.ndarray
    held_out: np.ndarray
    counted: np.ndarray
    status: RecoveryStatus
    certificate: RecoveryCertificate
    history: History
    identification: Identification
    estimator: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "intentions", tuple(self.intentions))
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(np.array(value)))

    @property
    def parts(self) -> tuple[Recovery, ...]:
        """The intentions."""
        return self.intentions

    def with_parts(self, parts: Sequence[Recovery]) -> Self:
        """The same with other recoveries of its intentions."""
        return replace(self, intentions=tuple(parts))

    @property
    def followed(self) -> np.ndarray:
        """[N] the likeliest intention of each step."""
        return self.following.argmax(axis=1)

    def log_likelihoods(self, demonstrations: Demonstrations) -> np.ndarray:
        """[E] those of other trajectories, over all ways to switch.

        found.log_likelihoods(held_out).sum() / held_out.steps
        """
        rows = demonstrations.states, demonstrations.actions
        chances = np.stack([one.solution.policy[rows] for one in self.intentions], axis=1)
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(chances), np.log(np.finfo(float).tiny))
        order = sequences_of(demonstrations, self.places, self.times)
        return -passes(order, logs, Mixing(self.start, self.switching)).losses


@dataclass(frozen=True, kw_only=True)
class Intentions(KindsOptions):
    """Rewards and prices that switch within a trajectory, by maximum likelihood.

        tacit.recover(mdp, features, demonstrations, estimator=tacit.Intentions(count=2))

    Attributes:
        count: how many intentions; None takes the fewest that predict trajectories that are held
            out as well as any number does, by what chance allows.
        most: intentions tried at most, where the number is not given.
        places: [S] number of the place that each state is of: chances to switch are those of the
            place where a step begins; None for the same everywhere.
        times: steps, counted from 0, at which chances to switch change; none for the same always.
        folds: parts that trajectories are held out in, where the number is not given.
        free_reward: let reward weights take either sign.
        level: of the test whether a constraint is active in an intention; 1 keeps every constraint.
        starts: of the search; half group pieces of trajectories by their scores, half deal them out
            at random.
        tolerance: projected gradient to reach, relative to the number of steps.
        max_rounds: most evaluations of the likelihood, each search.
        seed: of the starts and of whatever is simulated.
        prior: `tacit.features.Ridge` of a given strength, on the coefficients of every intention;
            None for none.
        bounds: {coefficient: (least, largest)}, of every intention, as in `Likelihood`.
        fixed: {coefficient: value}, those that are known beforehand and the same in every
            intention.
        start: {coefficient: value}, where to begin the search for one intention.
        temperature: the noise of every intention where it is known, as in `Likelihood`.
    """

    noun: ClassVar[str] = "an estimator of intentions"
    kind: ClassVar[str] = "intention"

    count: int | None = 2
    most: int = 3
    places: Sequence[int] | np.ndarray | None = field(default=None, repr=False, hash=False)
    times: tuple[int, ...] = ()
    folds: int = 5
    free_reward: bool = False
    level: float = 0.05
    starts: int = 6
    tolerance: float = 1e-9
    max_rounds: int = 500
    seed: int = 0
    prior: Ridge | None = field(default=None, repr=False)
    bounds: Mapping[Label, Range] = field(default_factory=dict, repr=False, hash=False)
    fixed: Mapping[Label, float] = field(default_factory=dict, repr=False, hash=False)
    start: Mapping[Label, float] = field(default_factory=dict, repr=False, hash=False)
    temperature: float | None = field(default=None, repr=False)

    def check(self) -> None:
        """Raises `InvalidModel` unless the options make sense."""
        self.check_options("count")
        if isinstance(self.folds, bool) or not isinstance(self.folds, int) or self.folds < 2:
            raise InvalidModel(f"folds must be an integer, 2 or more; got {self.folds!r:.60}")
        times = np.asarray(self.times)
        whole = times.size == 0 or times.dtype.kind in "iu"
        if times.ndim != 1 or not whole or (np.diff(times, prepend=0) <= 0).any():
            raise InvalidModel(f"times must be rising integers above 0; got {self.times!r:.60}")

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> IntentionsRecovery:
        """The intentions under which the observed actions are most likely, each with its recovery.

        Demonstrations are in memory, as the order of their steps counts.
        """
        self.check()
        check_task(mdp, features, demonstrations, in_memory=True)
        assert isinstance(demonstrations, Demonstrations)
        self._check_data(demonstrations)
        places = self._places(mdp)
        order = sequences_of(demonstrations, places, np.asarray(self.times, np.intp))
        setting = StepsSetting(mdp, features, demonstrations)
        units = StepUnits.ordered(mdp, Design.of(mdp, features), demonstrations)
        with unwatched():  # hundreds of small fits: none is a stage of its own
            found = self._search(setting, units, order)
            return delivered(_report(self, setting, units, order, places, found), throw)

    @staticmethod
    def load(folder: str | Path) -> IntentionsRecovery:
        """The `IntentionsRecovery` saved in this folder."""
        return IntentionsRecovery.load(folder)

    def _places(self, mdp: MDP) -> np.ndarray:
        """[S] the place of each state."""
        if self.places is None:
            return np.zeros(mdp.states, np.intp)
        known = np.asarray(self.places)
        if known.shape != (mdp.states,) or known.dtype.kind not in "iu" or known.min() < 0:
            raise InvalidModel(
                f"places must be a number from 0 for each of the {mdp.states} states; got "
                f"{self.places!r:.60}"
            )
        return known

    def _check_data(self, seen: Demonstrations) -> None:
        least = max(self.count or 1, 2)
        if seen.lengths.max() < 2:
            raise InvalidDemonstrations(
                "intentions switch within trajectories, of which one must have 2 steps or more; "
                "got loose steps"
            )
        if seen.steps < least * least:
            raise InvalidDemonstrations(
                f"{least} intentions need at least {least * least} steps, one for each chance to "
                f"switch; got {seen.steps}: ask for fewer"
            )
        if self.count is None and seen.episodes < 2 * self.folds:
            raise InvalidDemonstrations(
                f"the number of intentions is sought with trajectories that are held out, at least "
                f"{2 * self.folds} for {self.folds} folds; got {seen.episodes}: give count, or cut "
                "long trajectories into pieces"
            )

    def _search(self, setting: StepsSetting, units: StepUnits, order: Sequences) -> Searched:
        """The fits of all numbers of intentions that are tried, and how each predicts."""
        whole, options = replace(units.whole, ridge=self.strength), self.of_one
        pooled = self.knowing(maximum(whole, options))
        numbers = sorted({1, self.count}) if self.count else list(range(1, self.most + 1))
        about = {"starts": self.starts, "seed": self.seed, "prior": self.strength}
        fits = [
            pooled
            if n == 1
            else self.knowing(search(units, options, pooled, n, following=order, **about))
            for n in numbers
        ]
        likely = [(degrees(one), log_likelihood(one)) for one in fits]
        criteria = np.array([schwarz(*pair, int(whole.steps)) for pair in likely])
        if self.count:
            at, scores, counted = numbers.index(self.count), np.zeros((0, 0)), np.zeros(0)
        else:
            scores = held_out(units, order, fits, folds=self.folds, seed=self.seed)
            at = fewest(scores)
            assert isinstance(setting.seen, Demonstrations)
            counted = held_out_counts(setting.seen, setting.mdp, folds=self.folds, seed=self.seed)
        return Searched(np.array(numbers), criteria, scores, counted, pooled, fits[at])


def sequences_of(seen: Demonstrations, places: np.ndarray, times: np.ndarray) -> Sequences:
    """The steps in their order, each entered by the table of its place [S] and time."""
    count = int(places.max()) + 1
    time = np.searchsorted(times, seen.step, side="right")
    entered = time * count + places[seen.states]
    return Sequences(np.asarray(seen.offsets), entered, count * (len(times) + 1))


class Searched(NamedTuple):
    """What the search for intentions found."""

    tried: np.ndarray  # [M] numbers of intentions
    criteria: np.ndarray  # [M] their BIC
    scores: np.ndarray  # [M, E] log-likelihood of each trajectory, held out; empty where not asked
    counted: np.ndarray  # [2] nats a step of counts
    pooled: Fit  # of one intention
    best: Fit  # of the number that was asked for, or predicts best


def fold_of(trajectories: int, folds: int, seed: int) -> np.ndarray:
    """[E] the fold that each trajectory is held out in."""
    return np.random.default_rng(seed).permutation(trajectories) % folds


def held_out(
    units: StepUnits, order: Sequences, fits: Sequence[Fit], *, folds: int, seed: int
) -> np.ndarray:
    """[M, E] log-likelihoods of trajectories under fits to the others, each begun from its fit."""
    fold, scores = fold_of(len(order), folds, seed), np.empty((len(fits), len(order)))
    for number in range(folds):
        train, kept = order.select(fold != number)
        test, tested = order.select(fold == number)
        for m, fit in enumerate(fits):
            chain = fit.problem.chains[0]
            if isinstance(chain, KindsChain):
                again = replace(chain, units=units.select(kept), following=train)
                found = fit.refit(fit.problem.with_chains([again]))
                new = replace(chain, units=units.select(tested), following=test)
                new_passes = new.passes(found.parts[0].x, found.parts[0], VALUED)
                scores[m, fold == number] = -np.inf if new_passes is None else -new_passes.losses
            else:
                again = replace(units.select(kept).whole, ridge=chain.ridge)
                found = fit.refit(fit.problem.with_chains([again]))
                losses = units.select(tested).losses(found.parts[0])
                scores[m, fold == number] = -test.sums(losses[:, None])[:, 0]
    return scores


def fewest(scores: np.ndarray) -> int:
    """The first row of scores [M, E] that the best one exceeds by no more than chance allows.

    By the scatter of its gain over trajectories, one-sided at 5 %.
    """
    best = scores[int(scores.sum(axis=1).argmax())]
    for m, own in enumerate(scores):
        gains = best - own
        error = float(gains.std(ddof=1)) * np.sqrt(len(gains))
        if not gains.sum() > ONE_SIDED * error:
            return m
    return len(scores) - 1


def held_out_counts(seen: Demonstrations, mdp: MDP, *, folds: int, seed: int) -> np.ndarray:
    """[2] nats a step of held-out actions by counts of (state), and of (state, state before)."""
    fold = fold_of(seen.episodes, folds, seed)[seen.episode]
    before = np.where(seen.step > 0, np.concatenate([[0], seen.states[:-1]]) + 1, 0)
    pairs = seen.states * np.int64(mdp.states + 1) + before
    _, both = np.unique(pairs, return_inverse=True)
    found = np.zeros(2)
    for row, cells in enumerate((seen.states, both)):
        available = mdp.available[seen.states]
        for number in range(folds):
            table = np.zeros((int(cells.max()) + 1, mdp.actions))
            kept = fold != number
            np.add.at(table, (cells[kept], seen.actions[kept]), 1.0)
            chances = (table[cells[~kept]] + PSEUDO) * available[~kept]
            taken = chances[np.arange(len(chances)), seen.actions[~kept]] / chances.sum(axis=1)
            found[row] += np.log(taken).sum()
    return found / seen.steps


def _report(
    options: Intentions,
    setting: StepsSetting,
    units: StepUnits,
    order: Sequences,
    places: np.ndarray,
    found: Searched,
) -> IntentionsRecovery:
    """The `IntentionsRecovery` of these fits."""
    seen, many, tables = setting.seen, kinds_of(found.best), order.tables
    assert isinstance(seen, Demonstrations)
    if many == 1:
        parts, fitted = [maximise(options.of_one, setting)], found.best
        known = _alone(seen, setting.mdp, tables)
    else:
        # By whole trajectories where these are enough: within one a demonstrator has its ways.
        robust = len(order) >= 2 * len(found.best.z) + 2
        taken = "trajectories" if robust else "steps"
        parts, evidence = report_of(options, setting, found.best, taken=taken, robust=robust)
        fitted = evidence.unregularised
        known = _following(evidence, order, seen, setting.mdp, options.seed)
    fits = (found.pooled, found.best, fitted)[: 1 + 2 * (many > 1)]
    held = found.scores.sum(axis=1) / seen.steps
    findings = _findings(options, found, held, fitted, known)
    membership = order.sums(known["following"]) / order.lengths[:, None]
    return several_kinds(
        IntentionsRecovery,
        options,
        parts,
        fits,
        findings,
        intentions=tuple(parts),
        **known,
        states=seen.states,
        offsets=seen.offsets,
        membership=membership,
        places=places,
        times=np.asarray(options.times, np.intp),
        null_log_likelihood=-units.whole.at_random,
        observed_steps=seen.steps,
        tried=found.tried,
        criteria=found.criteria,
        held_out=held,
        counted=found.counted,
    )


Known = dict[str, np.ndarray]  # fields of an `IntentionsRecovery`


def _alone(seen: Demonstrations, mdp: MDP, tables: int) -> Known:
    """What is known of who follows what where there is one intention."""
    visited = np.bincount(seen.states, minlength=mdp.states) > 0
    where = np.where(visited, 1.0, np.nan)[:, None]
    return {
        "shares": np.ones(1),
        "share_intervals": np.ones((1, 2)),
        "following": np.ones((seen.steps, 1)),
        "start": np.ones(1),
        "switching": np.ones((tables, 1, 1)),
        "dwell": np.full((tables, 1), np.inf),
        "dwell_intervals": np.full((tables, 1, 2), np.inf),
        "where": where,
        "where_intervals": np.stack([where, where], axis=2),
    }


def _following(
    evidence: Evidence, order: Sequences, seen: Demonstrations, mdp: MDP, seed: int
) -> Known:
    """What is known of who follows what, with intervals.

    They are of draws: parameters from their law within the bounds, then a path of intentions by all
    that was seen. So they have in them that neither is known.
    """
    part, chain = evidence.fitted.parts[0], evidence.fitted.problem.chains[0]
    kinds, mixing, following = chain.many, part.mixing, part.membership.T

    def shares_of(paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[T] of all steps that follow each, and [S, T] of those in each state; of [N, T]."""
        sums = np.stack([np.bincount(seen.states, own, mdp.states) for own in paths.T], axis=1)
        with np.errstate(invalid="ignore"):
            return paths.mean(axis=0), sums / sums.sum(axis=1, keepdims=True)

    drawn = _draws(evidence, chain, order, seed)
    each = [shares_of(np.eye(kinds)[path]) for path, _ in drawn]
    shares, where = shares_of(following)
    leaving = _leaving(mixing)
    with np.errstate(divide="ignore"):
        dwell = 1.0 / leaving
        dwell_ends = 1.0 / _ends(leaving, [_leaving(one) for _, one in drawn])[..., ::-1]
    return {
        "shares": shares,
        "share_intervals": _ends(shares, [one for one, _ in each]),
        "following": following,
        "start": mixing.start,
        "switching": mixing.switching,
        "dwell": dwell,
        "dwell_intervals": dwell_ends,
        "where": where,
        "where_intervals": _ends(where, [one for _, one in each]),
    }


def _leaving(mixing: Mixing) -> np.ndarray:
    """[G, T] chances to leave each intention; rows sum to 1 but for rounding."""
    return np.clip(1.0 - np.diagonal(mixing.switching, axis1=1, axis2=2), 0.0, 1.0)


def _draws(
    evidence: Evidence, chain: KindsChain, order: Sequences, seed: int
) -> list[tuple[np.ndarray, Mixing]]:
    """Paths [N] of intentions and the mixing, at parameters drawn; none where no law is known."""
    fitted, rng, drawn = evidence.fitted, np.random.default_rng(seed), []
    if evidence.absence:
        return drawn
    values, vectors = np.linalg.eigh(evidence.errors.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    for _ in range(DRAWS):
        z = fitted.problem.start(fitted.z + root @ rng.standard_normal(len(root)))
        x = fitted.problem.parameters(z)[0]
        found: Passes | None = chain.passes(x, fitted.parts[0], VALUED)
        if found is not None:
            mixing = chain.mixing(x)
            drawn.append((drawn_kinds(order, found, mixing, rng), mixing))
    return drawn


def _ends(shares: np.ndarray, drawn: Sequence[np.ndarray]) -> np.ndarray:
    """[..., 2] 95 % intervals of shares [...] that scatter as those that were drawn.

    On the scale of angles (arcsine of the root), on which the scatter of a share hardly depends on
    it; from 0 to 1 where nothing was drawn.
    """
    if not len(drawn):
        return np.stack([np.zeros(shares.shape), np.ones(shares.shape)], axis=-1)
    angles = np.arcsin(np.sqrt(np.clip(drawn, 0.0, 1.0)))
    middle = np.arcsin(np.sqrt(np.clip(shares, 0.0, 1.0)))
    margin = TWO_SIDED * np.sqrt(((angles - middle) ** 2).mean(axis=0))
    ends = np.clip(np.stack([middle - margin, middle + margin], axis=-1), 0.0, np.pi / 2.0)
    return np.sin(ends) ** 2


def _findings(
    options: Intentions, found: Searched, held: np.ndarray, fitted: Fit, known: Known
) -> list[Finding]:
    """How many intentions there are, what predicts better, and how well steps can be told apart."""
    many, findings = kinds_of(fitted), list[Finding]()
    if len(held):
        scores = zip(held.tolist(), found.tried.tolist(), strict=True)
        told = ", ".join(f"{score:.4f} with {n}" for score, n in scores)
        said = (
            f"{many} intention{'s' if many > 1 else ''} are taken: nats a step on trajectories "
            f"held out are {told}."
        ).replace("1 intention are", "1 intention is")
        findings.append(Finding(said, Kind.CHOICE, number=many))
        here, before = found.counted
        said = (
            f"For comparison, counts of actions by state predict {here:.4f} nats a step, counts by "
            f"state and previous state {before:.4f}."
        )
        findings.append(Finding(said, Kind.NOTE, number=before))
    elif found.criteria[0] <= found.criteria[-1] and many > 1:
        criteria = zip(found.criteria.tolist(), found.tried.tolist(), strict=True)
        told = ", ".join(f"{value:.6g} for {n}" for value, n in criteria)
        said = f"1 intention would do: the BIC is {told}."
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=1))
    if many == 1:
        return findings
    unsure = float((known["following"].max(axis=1) < SURE).mean())
    if unsure > 0:
        said = f"{unsure:.0%} of the steps cannot be assigned with {100 * SURE:g} % confidence."
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=unsure))
    longest = float(np.diff(fitted.problem.chains[0].sequences.offsets).max())
    for k in np.flatnonzero(known["dwell"].max(axis=0) > longest).tolist():
        said = (
            f"Intention {k} is followed longer than the longest trajectory lasts: it is a type "
            "of trajectory, as Mixture seeks them."
        )
        findings.append(Finding(said, Kind.NOTE, number=float(known["dwell"][:, k].max())))
    if not fitted.converged:
        said = "The search stopped before its tolerance was met: raise `max_rounds`."
        findings.append(Finding(said, Kind.NOT_CONVERGED))
    said = (
        "Whether the intentions fit has no test of its own here: compare what is held out with the "
        "counts (count=None)."
    )
    findings.append(Finding(said, Kind.NOTE))
    said = (
        f"These intentions are the likeliest of {options.starts} starts: a local optimum, better "
        "ones are not ruled out."
    )
    return [*findings, Finding(said, Kind.LOCAL_OPTIMUM, number=options.starts)]
