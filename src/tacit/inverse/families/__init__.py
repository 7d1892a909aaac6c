"""Published methods and halves of the question, each frozen hyperparameters and `fit`."""

from tacit.inverse.families.baselines import ConstraintOnly, RewardOnly

__all__ = ["ConstraintOnly", "RewardOnly"]
