"""Published methods that find what is forbidden to an expert whose reward and noise are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import pairwise

import numpy as np

from tacit import (
    MDP,
    Demonstrations,
    Features,
    Finding,
    Forbidden,
    InvalidModel,
    Kind,
    Objective,
    Recovery,
    SoftDual,
    data,
    methods,
)

Groups = Mapping[str, Sequence[int] | Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class LikeliestConstraints:
    """Maximum-likelihood constraint inference (Scobee and Sastry 2020).

    Trajectories have chance exp(reward / temperature) / Z among those that avoid what is forbidden
    (maximum entropy). Forbidding C takes the mass of the trajectories that touch it: with q the
    chance that the present expert avoids C, the divergence from the demonstrations,
    KL = log Z - mean reward - entropy of the demonstrated trips, drops by -log q.
    The candidate with the largest drop is added, until the largest is at most `stop` (their
    Algorithm 2, greedy; q is what their Algorithm 1 counts).

    Known weakness: no error rate. A drop per demonstration of .1 is chance where there are few of
    them: on the published grid 31 % of what is found from one demonstration is wrong. Supersets and
    gateways of what is forbidden drop at least as much, so that they are found first. `Forbidden`
    names at a level instead.

    Attributes:
        reward_weights: [D] known weights of the reward features, of any size.
        temperature: the expert's noise, in units of the reward that these weights make.
        candidates: what may be forbidden: "states", "actions", "features" and "pairs".
        groups: further candidates: name -> states, or pairs (state, action).
        stop: drop of the divergence, in nats a demonstration, that is not worth a constraint.
    """

    reward_weights: Sequence[float]
    temperature: float = 1.0
    candidates: Sequence[str] = ("states", "actions")
    groups: Groups = field(default_factory=dict)
    _: KW_ONLY
    stop: float = 0.1

    def __post_init__(self) -> None:
        _settle(self)

    def fit(
        self, mdp: MDP, features: Features, demonstrations: data.Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery in the world without what was forbidden, in the order of `forbidden`."""
        options = _prepared(self, mdp, features, demonstrations)
        assert isinstance(demonstrations, Demonstrations)
        search = options.selection(mdp, features, demonstrations)
        count = len(search.candidates)
        chosen, drops = list[int](), list[float]()
        while len(chosen) < count:
            world = search.world(chosen)
            drop = -world.logs / demonstrations.episodes
            drop = np.where(world.broken | world.idle, -np.inf, drop)
            best = int(np.argmax(drop))
            if not drop[best] > self.stop:
                break
            chosen.append(best)
            drops.append(float(drop[best]))
        world = search.world(chosen).mdp
        recovery = options.expert(world, features.reward_alone, demonstrations)
        final = -recovery.log_likelihood / demonstrations.episodes - trip_entropy(demonstrations)
        tail = np.cumsum([0.0, *drops[::-1]])[::-1]
        records = [search.candidates[k].record() for k in chosen]
        findings = self._findings(records, drops, count)
        recovery = replace(
            recovery,
            identification=recovery.identification.with_findings(findings),
            estimator=repr(self),
            history=methods.History({"divergence": final + tail, "drop": np.array([0.0, *drops])}),
            forbidden=tuple(records),
            available=world.available,
        )
        return methods.delivered(recovery, throw)

    def _findings(
        self, records: Sequence[methods.HardConstraint], drops: Sequence[float], count: int
    ) -> list[Finding]:
        """What was forbidden, and that no error rate is known for it."""
        findings = [
            Finding(
                f"{one.name[0].upper()}{one.name[1:]} was forbidden: the divergence drops by "
                f"{drop:.3f} nats a demonstration.",
                Kind.FORBIDDEN,
                **methods.about(one),
                number=drop,
            )
            for one, drop in zip(records, drops, strict=True)
        ]
        said = (
            f"{count} candidates were compared; adding stopped where the largest drop is "
            f"at most {self.stop:g}. No error rate is known for what was found."
        )
        return [*findings, Finding(said, Kind.ERRORS, number=count)]


def trip_entropy(demonstrations: Demonstrations) -> float:
    """Entropy of the demonstrated trips as a distribution, in nats."""
    pairs = np.stack([demonstrations.states, demonstrations.actions], axis=1)
    cuts = demonstrations.offsets
    trips = Counter(pairs[i:j].tobytes() for i, j in pairwise(cuts))
    shares = np.array(list(trips.values())) / demonstrations.episodes
    return float(-(shares * np.log(shares)).sum())


@dataclass(frozen=True)
class PosteriorConstraints:
    """Bayesian inverse constrained learning (Papadimitriou, Anwar and Brown 2021, BICRL).

    The posterior over SETS of constraints and their penalty, by Metropolis-Hastings: a proposal
    flips one random candidate, or moves the penalty; both are symmetric. The likelihood is that of
    the demonstrated steps under the noisy expert whose reward is reduced by the penalty wherever a
    candidate of the set is touched, so that an imperfect demonstration speaks
    against a constraint without excluding it.

    Known weakness: the chain flips one candidate at a time and mixes slowly where two stand in for
    each other; what demonstrators would hardly do anyway keeps its prior, which then looks like a
    finding or like none as the prior is. The number of draws decides what can be seen.

    Attributes:
        reward_weights: [D] known weights of the reward features, of any size.
        temperature: the expert's noise, in units of the reward that these weights make.
        candidates: what may be forbidden: "states", "actions", "features" and "pairs".
        groups: further candidates: name -> states, or pairs (state, action).
        prior_chance: of each candidate to be forbidden, before anything is seen.
        penalties: least and largest penalty, in temperatures; log-uniform between them.
        draws: of the chain; the first fifth is dropped.
        seed: of the draws.
    """

    reward_weights: Sequence[float]
    temperature: float = 1.0
    candidates: Sequence[str] = ("states", "actions")
    groups: Groups = field(default_factory=dict)
    _: KW_ONLY
    prior_chance: float = 0.1
    penalties: tuple[float, float] = (1.0, 50.0)
    draws: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        _settle(self)
        low, high = self.penalties
        if not 0.0 < low <= high < np.inf:
            raise InvalidModel(f"penalties must be positive and in order; got {self.penalties}")
        object.__setattr__(self, "penalties", (float(low), float(high)))

    def fit(
        self, mdp: MDP, features: Features, demonstrations: data.Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery without the candidates that are more likely forbidden than not."""
        options = _prepared(self, mdp, features, demonstrations)
        assert isinstance(demonstrations, Demonstrations)
        search = options.selection(mdp, features, demonstrations)
        found, clean, alone = search.candidates, search.seen, features.reward_alone
        shares, penalty, kept, losses = self.sample(mdp, alone, demonstrations, found)
        chosen = [k for k in np.argsort(-shares, kind="stable").tolist() if shares[k] > 0.5]
        # A world without what was done now and then is none that the demonstrations are from.
        hard: list[int] = []
        for k in chosen:
            if not methods.close(mdp, [[found[other] for other in (*hard, k)]]).broken_by(
                clean.taken, clean.visited
            )[0]:
                hard.append(k)
        removed = methods.close(mdp, [[found[k] for k in hard]]).removed.reshape(
            mdp.available.shape
        )
        world = replace(mdp, available=mdp.available & ~removed) if removed.any() else mdp
        recovery = options.expert(world, alone, demonstrations)
        said = [
            Finding(
                f"{found[k].name[0].upper()}{found[k].name[1:]} is forbidden with posterior "
                f"probability {shares[k]:.3f}"
                + ("" if k in hard else ", although it was done; it stays available")
                + ".",
                Kind.FORBIDDEN,
                **methods.about(found[k].record()),
                number=float(shares[k]),
            )
            for k in chosen
        ]
        open_to = np.flatnonzero((shares > 0.5 * self.prior_chance) & (shares <= 0.5))
        if len(open_to):
            names = methods.listed(
                [f"{found[k].name} ({shares[k]:.2f})" for k in open_to.tolist()], 5
            )
            said.append(
                Finding(
                    f"Still possible, with these posterior probabilities: {names}.",
                    Kind.NOT_IDENTIFIED,
                    number=len(open_to),
                )
            )
        said.append(
            Finding(
                f"{self.draws} draws of the chain, of which {kept:.0%} were accepted; the mean "
                f"penalty is {penalty:.3g} temperatures.",
                Kind.ERRORS,
                number=kept,
            )
        )
        recovery = replace(
            recovery,
            identification=recovery.identification.with_findings(said),
            estimator=repr(self),
            history=methods.History({"loss": losses}),
            forbidden=tuple(found[k].record() for k in hard),
            undecided=tuple(found[k].record() for k in open_to.tolist()),
            available=world.available,
        )
        return methods.delivered(recovery, throw)

    def sample(
        self,
        mdp: MDP,
        features: Features,
        demonstrations: Demonstrations,
        candidates: Sequence[methods.Candidate],
    ) -> tuple[np.ndarray, float, float, np.ndarray]:
        """[C] posterior probabilities, mean penalty, accepted share, and [draws] losses."""
        counts = demonstrations.counts(mdp)
        reward, _ = features.objective(self.reward_weights).tables(mdp)
        marks = np.array([_marked(mdp, one) for one in candidates], float)
        solver, guess = SoftDual(self.temperature), None
        known: dict[tuple[bytes, float], float] = {}

        def loss(chosen: np.ndarray, penalty: float) -> float:
            nonlocal guess
            key = (chosen.tobytes(), penalty if chosen.any() else 0.0)
            if key not in known:
                lost = (marks[chosen].sum(axis=0) > 0) * penalty * self.temperature
                wanted = Objective(reward - lost)
                guess = solver.solve(mdp, wanted, guess=guess, throw=False)
                with np.errstate(divide="ignore"):
                    logs = np.where(counts > 0, np.log(guess.policy), 0.0)
                odds = np.log(self.prior_chance / (1.0 - self.prior_chance))
                known[key] = -float((counts * logs).sum()) - odds * int(chosen.sum())
            return known[key]

        draw = np.random.default_rng(self.seed)
        low, high = np.log(self.penalties)
        chosen, size = np.zeros(len(candidates), bool), 0.5 * (low + high)
        now = loss(chosen, float(np.exp(size)))
        total, sizes, kept = np.zeros(len(candidates)), [], 0
        losses = np.empty(self.draws)
        for t in range(self.draws):
            trial, moved = chosen.copy(), size
            if draw.random() < 0.8 or low == high:
                flip = int(draw.integers(len(candidates)))
                trial[flip] = ~trial[flip]
            else:  # reflected at its bounds, which keeps the proposal symmetric
                moved = size + 0.5 * draw.standard_normal()
                moved = low + abs((moved - low) % (2 * (high - low)))
                moved = moved if moved <= high else 2 * high - moved
            new = loss(trial, float(np.exp(moved)))
            if np.log(draw.random()) < now - new:
                chosen, size, now, kept = trial, moved, new, kept + 1
            losses[t] = now
            if t >= self.draws // 5:
                total += chosen
                sizes.append(size)
        return total / len(sizes), float(np.exp(sizes).mean()), kept / self.draws, losses


def _marked(mdp: MDP, one: methods.Candidate) -> np.ndarray:
    """[S, A] bool, where a candidate is touched: its pairs, and all of its states."""
    mark = np.zeros(mdp.states * mdp.actions, bool)
    mark[one.pairs] = True
    mark = mark.reshape(mdp.states, mdp.actions)
    mark[one.states] = True
    return mark


def _settle(method: LikeliestConstraints | PosteriorConstraints) -> Forbidden:
    """The estimator that is told the same: it checks what both are told, and makes it plain."""
    if method.temperature is None or method.reward_weights is None:
        raise InvalidModel("reward_weights and temperature must be known; got None")
    methods.check_options(method)
    same = Forbidden(
        method.reward_weights, method.temperature, method.candidates, dict(method.groups)
    )
    object.__setattr__(method, "candidates", same.candidates)
    object.__setattr__(method, "groups", same.groups)
    return same


def _prepared(
    method: LikeliestConstraints | PosteriorConstraints,
    mdp: MDP,
    features: Features,
    demonstrations: data.Observed,
) -> Forbidden:
    """The expert that is known, and what may be forbidden to it."""
    methods.check_task(mdp, features, demonstrations, in_memory=True)
    methods.known_weights(method.reward_weights, features)
    return _settle(method)
