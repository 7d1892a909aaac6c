"""Published methods and halves of the question, each frozen hyperparameters and `fit`."""

from tacit.inverse.families.answers import SafeSet
from tacit.inverse.families.baselines import (
    ConstraintOnly,
    RewardOnly,
    SoftConstraint,
)
from tacit.inverse.families.experts import (
    CausalEntropy,
    Cloning,
    InverseActionValues,
    MaximumEntropy,
)
from tacit.inverse.families.forbidding import LikeliestConstraints, PosteriorConstraints
from tacit.inverse.families.margins import Apprenticeship, LinearProgramming, MarginPlanning
from tacit.inverse.families.priced import (
    ConstraintAsReward,
    KnownConstraints,
    PenaltyConstraints,
    choice_probabilities,
)

__all__ = [
    "Apprenticeship",
    "CausalEntropy",
    "Cloning",
    "ConstraintAsReward",
    "ConstraintOnly",
    "InverseActionValues",
    "KnownConstraints",
    "LikeliestConstraints",
    "LinearProgramming",
    "MarginPlanning",
    "MaximumEntropy",
    "PenaltyConstraints",
    "PosteriorConstraints",
    "RewardOnly",
    "SafeSet",
    "SoftConstraint",
    "choice_probabilities",
]
