"""How flows answer if something changes: ways that are closed, other features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.forward.soft_dual import SoftDual
from tacit.inverse.findings import Finding, Kind
from tacit.inverse.joint.flows import without
from tacit.inverse.joint.goals import planned
from tacit.inverse.joint.traveller import TripsRecovery
from tacit.inverse.joint.trips import between
from tacit.inverse.recovery import Recovery
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective

# Origins and goals of trips, one each a trip; empty for one task.
Ends = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Response:
    """What the demonstrator is expected to do after a change.

    Attributes:
        before: [S, A] expected uses of every pair: by all trips; discounted, of one task.
        flows: [S, A] the same after the change, by those trips that still have a way.
        worth: mean change of what a trip that still has a way, or the task, is worth, in units of
            the noise: divided by the coefficient of time it is time, and so for money.
        lost: trips that have no way to their goal any more.
    """

    before: np.ndarray
    flows: np.ndarray
    worth: float
    lost: int

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What came out, as findings."""
        said = f"It changes what a trip is worth by {self.worth:.4g} times the noise, on average."
        found = (Finding(said, number=self.worth),)
        text = f"{self.lost} trips have no way to their goal any more: they are left out."
        lost = Finding(text, Kind.UNATTAINABLE, number=self.lost)
        return (*found, lost) if self.lost else found


def reroute(
    recovery: Recovery,
    *,
    closed: npt.ArrayLike = (),
    mdp: MDP | None = None,
    features: Features | None = None,
) -> Response:
    """The `Response` to actions that are closed, or to other features.

    Args:
        recovery: of trips, whose origins and goals stay as they are, or of one task.
        closed: [n] states that nobody may enter, or [n, 2] pairs of state and action.
        mdp: the world of one task; of trips, their network after the change.
        features: of trips, as they are after the change; of one task, as they are.
    """
    network, own = _task(recovery, mdp, features)
    before, value, _, _ = _expected(recovery, network, own)
    base = network if mdp is None else mdp
    changed = without(base, np.asarray(closed))
    after, worth, lost, ends = _expected(recovery, changed, own if features is None else features)
    if lost:  # of the same trips before and after
        value = _expected(recovery, network, own, ends)[1]
    return Response(before=before, flows=after, worth=worth - value, lost=lost)


def _task(recovery: Recovery, mdp: MDP | None, features: Features | None) -> tuple[MDP, Features]:
    """The world and the features that it was recovered from."""
    if isinstance(recovery, TripsRecovery):
        return recovery.network, recovery.features
    if mdp is None or features is None:
        raise InvalidModel("the recovery of one task must be given its mdp and features; got none")
    return mdp, features


def _expected(
    recovery: Recovery, network: MDP, features: Features, ends: Ends = ()
) -> tuple[np.ndarray, float, int, Ends]:
    """[S, A] expected uses as recovered, mean worth, trips without way, origins and goals with."""
    points = np.nan_to_num(recovery.parameters.estimates)
    if isinstance(recovery, TripsRecovery):
        ended = recovery.destinations >= 0
        ends = ends or (recovery.origins[ended], recovery.destinations[ended])
        journeys, lost = between(network, features, recovery.discount, *ends)
        flows, worth = planned(journeys, points * journeys.space.scales)
        if np.isinf(worth):
            raise InvalidModel("trips have no finite value after this change: circles pay")
        kept = journeys.origins, np.repeat(journeys.goals, np.diff(journeys.begins))
        return flows, worth / len(journeys.origins), lost, kept
    sizes = [len(names) for names in (features.reward_names, *features.cost_names)]
    first, *rest = np.split(points, np.cumsum(sizes)[:-1])
    charged = features.objective(first, rest, np.zeros(len(rest)))
    reward, costs = charged.tables_of(network.states, network.actions)
    found = SoftDual(1.0).solve(network, Objective(reward - costs.sum(axis=0)))
    return found.visitation, float(network.initial @ found.values), 0, ends
