"""How close a recovery came: metrics against a truth."""

from tacit.judge.behaviour import (
    Behaviours,
    FeasibleAgreement,
    FeatureGap,
    SetAgreement,
    costly_pairs,
    feasible_agreement,
    feature_gap,
    log_likelihood,
    policy_agreement,
    policy_distance,
    sample_behaviours,
    set_agreement,
    visitation_distance,
    weight_error,
)
from tacit.judge.comparison import Comparison, compare
from tacit.judge.outcomes import (
    best_values,
    canonical,
    correlation,
    excess,
    gauged_multipliers,
    lagrangian,
    lagrangian_regret,
    multiplier_errors,
    regret,
    starc,
    violation,
)

__all__ = [
    "Behaviours",
    "Comparison",
    "FeasibleAgreement",
    "FeatureGap",
    "SetAgreement",
    "best_values",
    "canonical",
    "compare",
    "correlation",
    "costly_pairs",
    "excess",
    "feasible_agreement",
    "feature_gap",
    "gauged_multipliers",
    "lagrangian",
    "lagrangian_regret",
    "log_likelihood",
    "multiplier_errors",
    "policy_agreement",
    "policy_distance",
    "regret",
    "sample_behaviours",
    "set_agreement",
    "starc",
    "violation",
    "visitation_distance",
    "weight_error",
]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)
