"""How close a recovery came: metrics against a truth, transfer, and what guessing gets."""

from tacit.judge.behaviour import (
    FeatureGap,
    SetAgreement,
    costly_pairs,
    feature_gap,
    log_likelihood,
    policy_agreement,
    policy_distance,
    set_agreement,
    visitation_distance,
    weight_error,
)
from tacit.judge.comparison import Comparison, compare, transfer
from tacit.judge.feasible import (
    Behaviours,
    FeasibleAgreement,
    feasible_agreement,
    sample_behaviours,
)
from tacit.judge.null import NullDistribution, NullDraw, null_distribution, null_objectives
from tacit.judge.outcomes import (
    canonical,
    correlation,
    gauged_multipliers,
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
    "NullDistribution",
    "NullDraw",
    "SetAgreement",
    "canonical",
    "compare",
    "correlation",
    "costly_pairs",
    "feasible_agreement",
    "feature_gap",
    "gauged_multipliers",
    "lagrangian_regret",
    "log_likelihood",
    "multiplier_errors",
    "null_distribution",
    "null_objectives",
    "policy_agreement",
    "policy_distance",
    "regret",
    "sample_behaviours",
    "set_agreement",
    "starc",
    "transfer",
    "violation",
    "visitation_distance",
    "weight_error",
]
