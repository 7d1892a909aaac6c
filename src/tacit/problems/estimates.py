"""How long a recovery of a problem will take, and how much memory: orders of magnitude.

Measured on two cores of a laptop-class machine: grids of 5 x 5 to 120 x 120 cells and random
worlds of 20 to 1000 states with 20 000 steps. All recoveries lay within the factor given.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.problems.problem import Problem

# Seconds to begin with (mostly compilation), and for every pair of state and action.
COSTS = {"Likelihood": (3.0, 2.5e-4), "Explanation": (0.3, 3.0e-3)}
FACTOR = 5.0
PER_STEP = 3e-7  # seconds to count one observed step
# Bytes taken by the engines, by an entry of the transitions with its work arrays, and by a step.
ENGINES, PER_ENTRY, STEP_BYTES = 4e8, 120.0, 40.0


@dataclass(frozen=True)
class Estimate:
    """What `tacit recover` will need.

    Attributes:
        estimator: the one that would be picked.
        reason: why.
        seconds: least and most that is likely.
        memory: bytes.
    """

    estimator: str
    reason: str
    seconds: tuple[float, float]
    memory: float

    @property
    def sentence(self) -> str:
        """The estimate in words."""
        low, high = (_duration(seconds) for seconds in self.seconds)
        return (
            f"tacit recover will take between {low} and {high} and about "
            f"{self.memory / 2**30:.1f} GiB of memory with {self.estimator}."
        )


def estimate(problem: Problem) -> Estimate | None:
    """What a recovery needs with the estimator that would be picked; None without data."""
    from tacit.inverse.choice import choose

    if problem.demonstrations is None:
        return None
    mdp, steps = problem.mdp, problem.demonstrations.steps
    picked, reason = choose(mdp, problem.features, problem.demonstrations)
    name = type(picked).__name__
    start, per_pair = COSTS.get(name, COSTS["Likelihood"])
    constraints = 1 + problem.features.constraints
    middle = start + per_pair * mdp.states * mdp.actions * constraints / 2 + PER_STEP * steps
    entries = mdp.transitions.states.size
    memory = ENGINES + PER_ENTRY * entries + STEP_BYTES * steps
    return Estimate(name, reason, (middle / FACTOR, middle * FACTOR), memory)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.2g} s"
    if seconds < 5400:
        return f"{seconds / 60:.2g} min"
    return f"{seconds / 3600:.2g} h"
