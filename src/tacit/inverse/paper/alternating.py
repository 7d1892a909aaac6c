"""Algorithm 1 of the paper with its gaps mended, or as published: `Alternating`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from tacit.data.observed import Observed
from tacit.engine.progress import pursue, stopped
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.solution import Certificate, Infeasibility, Mixture, Solution, Status
from tacit.forward.solve import Solver
from tacit.inverse.expectations import Expectations, check_task, expectations_from_start
from tacit.inverse.paper.projections import Yardsticks, within_bands, yardsticks
from tacit.inverse.paper.report import report
from tacit.inverse.paper.rounds import NextRound, Round, rounds
from tacit.inverse.recovery import History, Recovery, delivered
from tacit.model.mdp import MDP
from tacit.model.objective import Features

# What the history keeps of a round: name -> number or vector.
Row = dict[str, Any]
# Rounds after which a decaying step has fallen to 1 / sqrt(2) of the first one.
HALF_LIFE = 100.0
# Starts with the reward alone before the constraints are asked for: -3, -2 and -1 in the history.
FREE_STARTS = 3


class Choice(Enum):
    """A choice that prints as its word."""

    def __repr__(self) -> str:
        return repr(self.value)


class Budget(Choice):
    """What the constraint weights are held against."""

    CALIBRATED = "calibrated"
    ONE = "one"


class Bound(Choice):
    """Whose feature expectations bound the constraint weights where the budget is one."""

    POLICY = "policy"
    DEMONSTRATIONS = "demonstrations"


class Step(Choice):
    """How large the steps are."""

    DECAYING = "decaying"
    CONSTANT = "constant"


@dataclass(frozen=True)
class Alternating:
    """Alternates between solving the constrained problem and exponentiated steps on its weights.

    Attributes:
        solver: of the constrained problem; `SoftDual(temperature=...)` for a noisy expert.
        budget: "calibrated": what the demonstrations spend under the weights of the moment, raised
            to the least possible cost where need be; "one": as published, the weights are
            projected onto those under which `bound` spends at most 1.
        bound: whose feature expectations that are: "policy" (the paper) or "demonstrations" (the
            authors' slides). Not used with calibrated budgets.
        step: "decaying": steps in units of what the features can differ by, falling with the
            square root of the rounds; "constant": the gradient times `step_size`, as published.
        step_size: of the first step.
        band: standard errors of a feature expectation within which a difference is no reason to
            step. Not used with constant steps.
        steps: T of the finite recursion for the policy's visitation (paper eq. 5); None solves for
            the infinite horizon.
        starts: how many random starts to make.
        tolerance: change of the weights, and pull on them, by a full step that counts as none.
        max_steps: most rounds of a start.
        seed: of the random starts.

    With a band, the reward alone is tried first: if it matches all expectations within the band, no
    constraint is identified.
    """

    solver: Solver = field(default_factory=ColumnGeneration)
    budget: Budget | str = Budget.CALIBRATED
    bound: Bound | str = Bound.POLICY
    step: Step | str = Step.DECAYING
    step_size: float = 5.0
    band: float = 2.5
    steps: int | None = None
    starts: int = 12
    tolerance: float = 1e-4
    max_steps: int = 150
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in (("budget", Budget), ("bound", Bound), ("step", Step)):
            object.__setattr__(self, name, _choice(name, getattr(self, name), kind))
        if not (self.step_size > 0 and self.band >= 0 and self.tolerance > 0):
            raise InvalidModel(
                "step_size and tolerance must be positive and band at least 0; "
                f"got {self.step_size}, {self.tolerance}, {self.band}"
            )
        for name in ("starts", "max_steps", "steps"):
            number = getattr(self, name)
            if not (name == "steps" and number is None) and not number >= 1:
                raise InvalidModel(f"{name} must be at least 1; got {number}")

    @classmethod
    def published(cls, *, step_size: float = 10.0, **options: Any) -> Alternating:
        """The rules as printed: budget 1, constant step, one start; `options` change some."""
        rules = {"budget": Budget.ONE, "step": Step.CONSTANT, "starts": 1, "band": 0.0}
        return cls(step_size=step_size, **(rules | options))

    @property
    def calibrated(self) -> bool:
        """Whether budgets come from the demonstrations."""
        return self.budget is Budget.CALIBRATED

    @property
    def bounded_by_policy(self) -> bool:
        """Whether the policy's expectations bound the constraint weights."""
        return self.bound is Bound.POLICY

    @property
    def constant(self) -> bool:
        """Whether the step is the gradient times a constant."""
        return self.step is Step.CONSTANT

    def share(self, number: int) -> float:
        """The size of a round's step, as a share of the first one."""
        return 1.0 if self.constant else float(1.0 / np.sqrt(1.0 + number / HALF_LIFE))

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery at the best round of all starts; its history holds every round."""
        check_task(mdp, features, demonstrations)
        seen = expectations_from_start(mdp, features, demonstrations)
        if seen is None:
            raise InvalidDemonstrations(
                "Alternating matches discounted sums from the start: it needs trajectories that "
                "begin there; got partial ones only (use Likelihood)"
            )
        best, history = self._best(mdp, features, seen)
        return delivered(report(self, mdp, features, demonstrations, seen, best, history), throw)

    def _best(self, mdp: MDP, features: Features, seen: Expectations) -> tuple[Round, History]:
        """The best round of all starts, and every round."""
        sticks = yardsticks(seen, self.band)
        best: Round | None = None
        rows: list[Row] = []
        frugal = bool(seen.costs) and not self.constant and self.band > 0 and seen.trajectories > 1
        for start in range(-FREE_STARTS if frugal else 0, self.starts):
            if stopped() is not None and (start < 0 or best is not None):
                continue
            free = start < 0
            found = run_start(mdp, features, seen, sticks, self, start=start, free=free)
            rows += found.rows
            assert found.kept is not None
            if not free:
                best = better_round(self, best, found.kept, sticks.noise)
            elif found.kept.converged(self.tolerance) and within_bands(
                seen, sticks, found.kept.reached
            ):
                return found.kept, history_of(rows)  # the reward alone says it all
        assert best is not None
        return best, history_of(rows)


@dataclass(frozen=True, eq=False)
class Start:
    """Where one start stands: what the next round needs, the round to keep, all rows so far.

    Kept is the best round, or the last one if the start is free of constraints.
    """

    ahead: NextRound | None
    kept: Round | None
    rows: tuple[Row, ...]
    over: bool

    @property
    def made(self) -> int:
        """How many rounds were made."""
        return len(self.rows)


KINDS = (Start, NextRound, Round, Solution, Mixture, Infeasibility, Certificate, Status)


def run_start(
    mdp: MDP,
    features: Features,
    seen: Expectations,
    sticks: Yardsticks,
    rules: Alternating,
    *,
    start: int,
    free: bool,
) -> Start:
    """The `Start` at its end, or where it was stopped."""
    under_way: Iterator[tuple[Round, NextRound]] | None = None

    def further(here: Start, until: int | None) -> Start:
        nonlocal under_way
        if under_way is None:  # the first call, whether from the start or from where it was left
            under_way = rounds(
                mdp, features, seen, sticks, rules, start=start, free=free, ahead=here.ahead
            )
        while not here.over and (until is None or here.made < until):
            made, ahead = next(under_way)
            kept = made if free else better_round(rules, here.kept, made, sticks.noise)
            over = made.converged(rules.tolerance) or ahead.number >= rules.max_steps
            here = Start(ahead, kept, (*here.rows, history_row(made)), over)
        return here

    def numbers(here: Start) -> dict[str, float]:
        last = here.rows[-1]
        names = ("feature_gap", "loss", "weight_change", "projected_gradient")
        return {name: float(last[name]) for name in names}

    world = (mdp.transitions, mdp.initial, mdp.discount)
    return pursue(
        "alternation",
        Start(None, None, (), over=False),
        further,
        step=lambda here: here.made,
        numbers=numbers,
        inputs=(world, features.reward, features.costs, seen, repr(rules), start, free),
        kinds=KINDS,
    )


def better_round(rules: Alternating, old: Round | None, new: Round | None, noise: float) -> Round:
    """The better of two rounds; the older one of equals."""
    found = [made for made in (old, new) if made is not None]
    return min(found, key=lambda made: made.rank(rules.tolerance, noise))


def history_row(made: Round) -> Row:
    """What the history keeps of a round."""
    weights = {f"cost_weights_{k}": part for k, part in enumerate(made.weights[1:])}
    return {
        "start": made.start,
        "iteration": made.number,
        "feature_gap": made.gap,
        "visitation_distance": made.distance,
        "loss": made.loss,
        "step": made.step,
        "weight_change": made.change,
        "projected_gradient": made.pull,
        "infeasible": made.infeasible,
        "raised": made.raised,
        "empty": made.empty,
        "reversed": made.reversed,
        "multipliers": np.asarray(made.multipliers),
        "budgets": np.asarray(made.budgets),
        "reward_weights": made.weights[0],
        **weights,
    }


def history_of(rows: Sequence[Row]) -> History:
    """The `History` of these rows, one a round."""
    return History({name: np.array([row[name] for row in rows]) for name in rows[0]})


def _choice(name: str, given: object, kind: type[Choice]) -> Choice:
    try:
        return kind(given)
    except ValueError:
        known = " or ".join(repr(word.value) for word in kind)
        raise InvalidModel(f"{name} must be {known}; got {given!r:.60}") from None
