"""Published methods, each frozen hyperparameters and `fit`, to compare with.

By what they assume: `experts.py` noisy demonstrators, `margins.py` optimal ones, `priced.py` costs
as prices, `forbidding.py` hard constraints, `soft_constraint.py` a known budget, `safe_set.py`
several safe demonstrators.
"""

from tacit_lab.families.experts import CausalEntropy, InverseActionValues, MaximumEntropy
from tacit_lab.families.forbidding import LikeliestConstraints, PosteriorConstraints
from tacit_lab.families.margins import Apprenticeship, LinearProgramming, MarginPlanning
from tacit_lab.families.priced import (
    ConstraintAsReward,
    KnownConstraints,
    PenaltyConstraints,
    choice_probabilities,
)
from tacit_lab.families.safe_set import SafeSet
from tacit_lab.families.soft_constraint import SoftConstraint

__all__ = [
    "Apprenticeship",
    "CausalEntropy",
    "ConstraintAsReward",
    "InverseActionValues",
    "KnownConstraints",
    "LikeliestConstraints",
    "LinearProgramming",
    "MarginPlanning",
    "MaximumEntropy",
    "PenaltyConstraints",
    "PosteriorConstraints",
    "SafeSet",
    "SoftConstraint",
    "choice_probabilities",
]
