"""The step likelihood: every observed step counts equally, and every answer has its error bar.

Where the likelihood is convex its optimum is global (`Steps.convex`); otherwise the search starts
from the convex fit, and the recovery says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.data.observed import Observed
from tacit.errors import InvalidModel
from tacit.inverse.expectations import check_task
from tacit.inverse.noisy.boltzmann import refit
from tacit.inverse.noisy.coordinates import coordinates
from tacit.inverse.noisy.report import report
from tacit.inverse.noisy.steps import Steps, active_constraints
from tacit.inverse.recovery import Recovery, delivered
from tacit.model.mdp import MDP
from tacit.model.objective import Features


@dataclass(frozen=True)
class Likelihood:
    """Maximum likelihood of the observed actions of a noisy expert, with intervals and tests.

    Attributes:
        free_reward: let reward weights take either sign.
        level: of the test whether a constraint is active; 1 keeps every constraint.
        tolerance: projected gradient to reach, relative to the number of steps.
        max_steps: most evaluations of the loss.
        seed: of the simulated laws.
    """

    free_reward: bool = False
    level: float = 0.05
    tolerance: float = 1e-9
    max_steps: int = 300
    seed: int = 0

    def check(self) -> None:
        """Raises `InvalidModel` unless the options make sense."""
        if not 0 < self.level <= 1 or not self.tolerance > 0 or self.max_steps < 1:
            raise InvalidModel(
                "level must be in (0, 1], tolerance positive, max_steps at least 1; "
                f"got {self.level}, {self.tolerance}, {self.max_steps}"
            )

    def fit(
        self,
        mdp: MDP,
        features: Features,
        demonstrations: Observed,
        *,
        throw: bool = True,
    ) -> Recovery:
        """The recovery under which the observed actions are most likely."""
        self.check()
        check_task(mdp, features, demonstrations)
        return delivered(maximise(self, mdp, features, demonstrations), throw)


def maximise(
    options: Likelihood,
    mdp: MDP,
    features: Features,
    demonstrations: Observed,
    *,
    first: float | None = None,
) -> Recovery:
    """The recovery of the likeliest parameters, constraints that are not active left out.

    Args:
        options: level, tolerance, seed.
        mdp: the model.
        features: what reward and costs may be made of.
        demonstrations: what was seen.
        first: the coefficient of the first feature, where it is known beforehand.
    """
    steps = Steps.of(mdp, coordinates(mdp, features), demonstrations)
    full = steps.fit(options)
    if first is not None:  # begins where an unknown one would lead
        lower, upper = full.problem.lower.copy(), full.problem.upper.copy()
        lower[0] = upper[0] = first * steps.space.scales[0]
        full = refit(mdp, full, max_steps=options.max_steps, lower=lower, upper=upper)
    kept, p_values = active_constraints(
        steps, full, level=options.level, max_steps=options.max_steps, seed=options.seed
    )
    return report(options, features, demonstrations, steps, full=full, kept=kept, p_values=p_values)
