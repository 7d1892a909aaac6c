"""Questions after a fit: held-out data, other discounts, groups, doubt about dynamics, prices."""

from typing import TYPE_CHECKING

from tacit import names_on_demand

if TYPE_CHECKING:
    from tacit.checks.assumptions import Alternative, Diagnosis, diagnose
    from tacit.checks.discounts import (
        DiscountProfile,
        ResolutionCheck,
        discount_profile,
        resolution_check,
    )
    from tacit.checks.dynamics import DynamicsUncertainty, dynamics_uncertainty
    from tacit.checks.fits import Response, TrajectoryFits, elasticities, reroute, trajectory_fits
    from tacit.checks.groups import EqualWeightsTest, equal_weights_test
    from tacit.checks.held_out import Holdout, Prediction, holdout, score
    from tacit.checks.prices import BudgetSweep, PriceCurve, budget_sweep, price_curve
    from tacit.inverse.bootstrap import posterior
    from tacit.inverse.doubts import Posterior
    from tacit.inverse.joint.goals import link_size

__all__ = [
    "Alternative",
    "BudgetSweep",
    "Diagnosis",
    "DiscountProfile",
    "DynamicsUncertainty",
    "EqualWeightsTest",
    "Holdout",
    "Posterior",
    "Prediction",
    "PriceCurve",
    "ResolutionCheck",
    "Response",
    "TrajectoryFits",
    "budget_sweep",
    "diagnose",
    "discount_profile",
    "dynamics_uncertainty",
    "elasticities",
    "equal_weights_test",
    "holdout",
    "link_size",
    "posterior",
    "price_curve",
    "reroute",
    "resolution_check",
    "score",
    "trajectory_fits",
]

_HOME, __getattr__ = names_on_demand(__name__)
