"""Published methods and halves of the question, each frozen hyperparameters and `fit`."""

from tacit.inverse.families.answers import Cloning, InverseActionValues, choice_probabilities
from tacit.inverse.families.baselines import ConstraintOnly, RewardOnly

__all__ = [
    "Cloning",
    "ConstraintOnly",
    "InverseActionValues",
    "RewardOnly",
    "choice_probabilities",
]
