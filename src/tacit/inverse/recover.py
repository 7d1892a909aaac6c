"""The verb of the inverse half: Demonstrations -> Objective."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from tacit.demonstrations import Demonstrations
from tacit.inverse.expectations import check_task
from tacit.inverse.recovery import Recovery, delivered
from tacit.mdp import MDP
from tacit.objective import Features


class Estimator(Protocol):
    """Frozen hyperparameters and one verb."""

    def fit(
        self,
        mdp: MDP,
        features: Features,
        demonstrations: Demonstrations,
        *,
        throw: bool = True,
    ) -> Recovery:
        """A recovery with its certificate."""
        ...


def recover(
    mdp: MDP,
    features: Features,
    demonstrations: Demonstrations,
    *,
    estimator: Estimator | None = None,
    throw: bool = True,
) -> Recovery:
    """The `Recovery` of what the demonstrator wants and refuses.

    Args:
        mdp: the known world.
        features: what reward and costs may be made of; one cost map per constraint.
        demonstrations: what was seen.
        estimator: how to recover; None picks by evidence, and the first finding says what and why.
        throw: raise `NotConverged` instead of returning a recovery that says so.
    """
    check_task(mdp, features, demonstrations)
    if estimator is not None:
        return delivered(estimator.fit(mdp, features, demonstrations, throw=throw), throw)
    from tacit.inverse.choice import choose

    picked, reason = choose(mdp, features, demonstrations)
    recovery = picked.fit(mdp, features, demonstrations, throw=False)
    known = recovery.identification
    known = replace(known, findings=(reason, *known.findings))
    return delivered(replace(recovery, identification=known), throw)
