"""One start of the alternation as a search that can be watched, stopped and gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.forward.solution import Certificate, Infeasibility, Mixture, Solution, Status
from tacit.inverse.alternation import Ahead, Round, rounds
from tacit.inverse.expectations import Expectations
from tacit.inverse.exponentiated import Yardsticks
from tacit.mdp import MDP
from tacit.objective import Features
from tacit.progress import pursue

if TYPE_CHECKING:
    from tacit.inverse.alternating import Alternating


@dataclass(frozen=True, eq=False)
class Course:
    """Where one start stands.

    Attributes:
        ahead: what the next round needs; None before the first.
        kept: the best round so far, or the last one if the start is free of constraints.
        rows: what the history keeps of every round.
        over: whether there is no next round.
    """

    ahead: Ahead | None
    kept: Round | None
    rows: tuple[dict[str, Any], ...]
    over: bool

    @property
    def made(self) -> int:
        """How many rounds were made."""
        return len(self.rows)


KINDS = (Course, Ahead, Round, Solution, Mixture, Infeasibility, Certificate, Status)


def course(
    mdp: MDP,
    features: Features,
    seen: Expectations,
    sticks: Yardsticks,
    rules: Alternating,
    *,
    start: int,
    free: bool,
) -> Course:
    """The `Course` of one start at its end, or where it was stopped."""
    under_way: Iterator[tuple[Round, Ahead]] | None = None

    def further(here: Course, until: int | None) -> Course:
        nonlocal under_way
        if under_way is None:  # the first call, whether from the start or from where it was left
            under_way = rounds(
                mdp, features, seen, sticks, rules, start=start, free=free, ahead=here.ahead
            )
        while not here.over and (until is None or here.made < until):
            made, ahead = next(under_way)
            kept = made if free else better(rules, here.kept, made, sticks.noise)
            over = made.rests(rules.tolerance) or ahead.number >= rules.max_steps
            here = Course(ahead, kept, (*here.rows, row(made)), over)
        return here

    def numbers(here: Course) -> dict[str, float]:
        last = here.rows[-1]
        names = ("feature_gap", "loss", "weight_change", "projected_gradient")
        return {name: float(last[name]) for name in names}

    world = (mdp.transitions, mdp.initial, mdp.discount)
    return pursue(
        "alternation",
        Course(None, None, (), over=False),
        further,
        step=lambda here: here.made,
        numbers=numbers,
        inputs=(world, features.reward, features.costs, seen, repr(rules), start, free),
        kinds=KINDS,
    )


def better(rules: Alternating, old: Round | None, new: Round | None, noise: float) -> Round:
    """The better of two rounds; the older one of equals."""
    found = [made for made in (old, new) if made is not None]
    return min(found, key=lambda made: made.rank(rules.tolerance, noise))


def row(made: Round) -> dict[str, Any]:
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
