"""Published methods and halves of the question, each frozen hyperparameters and `fit`."""

from tacit.inverse.families.answers import Cloning, InverseActionValues, choice_probabilities
from tacit.inverse.families.baselines import ConstraintOnly, RewardOnly
from tacit.inverse.families.forbidding import LikeliestConstraints, PosteriorConstraints

__all__ = [
    "Cloning",
    "ConstraintOnly",
    "InverseActionValues",
    "LikeliestConstraints",
    "PosteriorConstraints",
    "RewardOnly",
    "choice_probabilities",
]
