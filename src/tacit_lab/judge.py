"""One draw of a world in which several methods are tried, and their judge, who knows the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from tacit import (
    MDP,
    Demonstrations,
    Features,
    Objective,
    Recovery,
    policies,
    solve,
)
from tacit_lab.transfers import Scales, feasible_share, transfer_suite

FLOOR = 1e-4  # least chance of an action in a held-out likelihood, for methods that say never


@dataclass(frozen=True, eq=False, kw_only=True)
class Contest:
    """What one draw asks of every method.

    Attributes:
        mdp: the world that everybody knows.
        features: what reward and costs may be made of.
        seen: the demonstrations.
        fresh: further ones of the same demonstrator, to predict.
        truth: what the demonstrator wants and refuses; judges alone know it. None where nobody
            does: methods are then judged by prediction.
        known: what some methods take for known, by the name of their argument.
        forbidden: names of what is truly forbidden; empty where budgets are soft.
        implied: names of other things that are forbidden with it.
        decidable: names of what is forbidden and can be told from what was seen.
        prices: [K] of the budgets, at noise 1, where each cost is one known column; else None.
    """

    mdp: MDP
    features: Features
    seen: Demonstrations
    fresh: Demonstrations
    truth: Objective | None
    known: Mapping[str, object]
    forbidden: frozenset[str] = frozenset()
    implied: frozenset[str] = frozenset()
    decidable: frozenset[str] = frozenset()
    prices: np.ndarray | None = None


@dataclass(frozen=True)
class Place:
    """A world of the leaderboard.

    Attributes:
        title: what it is, in words.
        make: seed -> contest.
        draws: how many there are; 0 for as many as asked.
        said: what its published numbers are, and what its metrics hide.
        left_out: method -> why it is not tried there.
        only: the methods that are tried there by default; empty for all.
    """

    title: str
    make: Callable[[int], Contest]
    _: KW_ONLY
    draws: int = 0
    said: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judge:
    """What a method is measured by in one contest, from the truth.

    Attributes:
        contest: the draw.
        best: value of the best policy within the budgets; NaN where the truth is not known.
        scales: of regrets and violations; None likewise.
    """

    contest: Contest
    best: float
    scales: Scales | None

    @classmethod
    def of(cls, contest: Contest) -> Judge:
        """The judge of a contest."""
        if contest.truth is None:
            return cls(contest, np.nan, None)
        best = solve(contest.mdp, contest.truth, throw=False)
        return cls(contest, float(best.value), Scales.of(contest.mdp, contest.truth))

    def policy(self, policy: np.ndarray) -> dict[str, float]:
        """Regret and violation of a policy, and how well it predicts fresh steps."""
        contest = self.contest
        fresh = contest.fresh
        chances = np.maximum(policy[fresh.states[: len(fresh.actions)], fresh.actions], FLOOR)
        if contest.truth is None or self.scales is None:
            return {"log_likelihood": float(np.log(chances).mean())}
        visits = policies.visitation(contest.mdp, policy)
        reward, _ = contest.truth.tables(contest.mdp)
        return {
            "regret": (self.best - float((visits * reward).sum())) / self.scales.width,
            "violation": self.scales.violation(contest.mdp, contest.truth, visits),
            "log_likelihood": float(np.log(chances).mean()),
        }

    def elsewhere(self, found: Objective | Recovery) -> dict[str, float]:
        """Regret and violation of the recovered pair, solved again here and elsewhere."""
        contest = self.contest
        if contest.truth is None:
            return {}
        metrics = transfer_suite(contest.mdp, contest.truth, found)
        regrets = zip(metrics.names, metrics.regrets.tolist(), strict=True)
        violations = zip(metrics.names, metrics.violations.tolist(), strict=True)
        rows = {f"{name}_regret": value for name, value in regrets}
        rows |= {f"{name}_violation": value for name, value in violations}
        rows["share_safe"] = metrics.share_safe
        if contest.forbidden:
            rows["feasible"] = feasible_share(contest.mdp, contest.truth, metrics.policy)
        return rows

    def prices(self, found: Recovery) -> dict[str, float]:
        """The largest relative error of a price, in units of the noise or of the reward."""
        true = self.contest.prices
        if true is None or len(found.multipliers) != len(true):
            return {}
        own = found.multipliers / (found.temperature if found.temperature > 0 else 1.0)
        return {"price_error": float(np.abs(own / true - 1.0).max())}

    def forbidden(self, found: Recovery) -> dict[str, float]:
        """What is wrong of what was called forbidden; what was found of what is, and can be told.

        The last is left out where nothing can be told.
        """
        contest = self.contest
        if not (true := contest.forbidden):
            return {}
        names = {one.name for one in found.forbidden}
        wrong = len(names - true - contest.implied) / len(names) if names else 0.0
        metrics = {"wrong": wrong, "recall": len(names & true) / len(true)}
        if sure := contest.decidable:
            metrics["recall_decidable"] = len(names & sure) / len(sure)
        return metrics
