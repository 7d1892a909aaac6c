"""Which budgets a policy keeps, whatever of the constraints the data leave open, and how sure.

A constraint is known as a convex set of rows (w, w . e): see `caution.py`. A policy keeps its true
budget with a confidence if it keeps the row of that confidence's set that it breaks most.

Of several tasks nothing but what was spent is used: a policy that spends no more of each feature
than some mixture of the demonstrators keeps every budget that all of them kept, whatever its
weights are, as long as none is below 0 (Lindner et al. 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.estimators.caution import check_spending, doubt_of
from tacit.forward.solution import Solution, visitation
from tacit.inference.findings import Finding, Kind
from tacit.inference.tails import normal_quantile

if TYPE_CHECKING:
    from tacit.estimators.joint_recovery import JointRecovery
    from tacit.model.mdp import MDP
    from tacit.recovery import Recovery

# The least chance of being wrong that is told, halvings to the one that is, rounding of a row.
LEAST_RISK, HALVINGS, ROUNDING = 1e-6, 25, 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyCertificate:
    """Which budgets a policy keeps.

    Attributes:
        kept: [K] bool, with the confidence that was asked for, for all constraints at once.
        confidences: [K] the largest with which it is; 0 where the estimate itself is broken.
        spent: one [D_k] per constraint: what the policy spends of its features.
        confidence: that was asked for.
        findings: what it rests on.
    """

    kept: np.ndarray
    confidences: np.ndarray
    spent: tuple[np.ndarray, ...]
    confidence: float
    findings: tuple[Finding, ...]

    @property
    def safe(self) -> bool:
        """Whether every budget is kept."""
        return bool(self.kept.all())

    def __repr__(self) -> str:
        told = ", ".join(f"{share:.1%}" for share in self.confidences)
        return f"PolicyCertificate(safe={self.safe}, confidences=[{told}])"


def certify(
    recovery: Recovery, policy: npt.ArrayLike | Solution, world: MDP | None, *, confidence: float
) -> PolicyCertificate:
    """Which budgets a policy keeps; see `Recovery.certify`."""
    spending = check_spending(recovery, confidence)
    spent = _spent([recovery], policy, world, spending.maps)
    count = len(spending.maps)

    def keeps(k: int, risk: float) -> bool:
        doubt, _ = doubt_of(recovery, spending, k, 1.0 - risk)
        return _keeps(doubt.worst(spent[k], 1.0), spent[k])

    findings = []
    for k in range(count):
        findings += doubt_of(recovery, spending, k, confidence)[1]
    found = [_largest_confidence(partial(keeps, k)) for k in range(count)]
    kept = np.array([keeps(k, 1.0 - confidence) for k in range(count)], bool)
    assumed = (
        "the demonstrator kept the true budgets, the model of its choices holds, and errors of "
        "what it spends are normal"
    )
    return _certificate(kept, found, spent, confidence, findings, assumed)


def certify_by_tasks(
    joint: JointRecovery, policy: npt.ArrayLike | Solution, world: MDP, *, confidence: float
) -> PolicyCertificate:
    """Which budgets a policy keeps by what several demonstrators spent.

    The budgets are those that all of them kept, whose weights may be anything from 0 on; see
    `JointRecovery.certify`.
    """
    each = [check_spending(one, confidence) for one in joint.recoveries]
    spent = _spent(joint.recoveries, policy, world, each[0].maps)
    count = len(spent)

    def keeps(k: int, risk: float) -> bool:
        wide = normal_quantile(1.0 - risk / (len(each) * count * len(spent[k])))
        margins = [wide * np.nan_to_num(one.errors[k]) for one in each]
        return _below_mixture([one.means[k] for one in each], spent[k], margins)

    found = [_largest_confidence(partial(keeps, k)) for k in range(count)]
    kept = np.array([keeps(k, 1.0 - confidence) for k in range(count)], bool)
    assumed = (
        "every demonstrator kept the same budget, its weights are not below 0, and errors of what "
        "they spend are normal"
    )
    return _certificate(kept, found, spent, confidence, [], assumed)


def _certificate(
    kept: np.ndarray,
    confidences: Sequence[float],
    spent: tuple[np.ndarray, ...],
    confidence: float,
    findings: Sequence[Finding],
    assumed: str,
) -> PolicyCertificate:
    """The certificate, with a sentence on each budget and one on what is assumed."""
    said = [
        Finding(
            f"The policy keeps budget {k} with a confidence of {share:.3%}."
            if share > 0
            else f"The policy is not shown to keep budget {k}: it breaks what was estimated.",
            Kind.NOTE,
            constraint=k,
            number=share,
        )
        for k, share in enumerate(confidences)
    ]
    rests = Finding(f"That holds if {assumed}.", Kind.ASSUMED)
    return PolicyCertificate(
        kept=kept,
        confidences=np.array(confidences, float),
        spent=spent,
        confidence=confidence,
        findings=(*said, *findings, rests),
    )


def _spent(
    recoveries: Sequence[Recovery],
    policy: npt.ArrayLike | Solution,
    world: MDP | None,
    maps: Sequence[np.ndarray],
) -> tuple[np.ndarray, ...]:
    """One [D_k] per constraint: what a policy spends in a world."""
    origin = recoveries[0].origin
    if world is None and origin is not None and len(recoveries) == 1:
        world = origin.mdp
    if world is None:
        raise InvalidModel(
            "a policy is judged in a world: give world=, since this recovery does not know its own"
        )
    if isinstance(policy, Solution):
        policy = policy.policy
    visits = visitation(world, np.asarray(policy, float))
    for table in maps:
        if table.shape[0] != world.states or (table.ndim == 3 and table.shape[1] != world.actions):
            raise InvalidModel(
                "the world must have the states and actions of the cost features, "
                f"{table.shape[:-1]}; got {(world.states, world.actions)}"
            )
    return tuple(
        np.tensordot(visits if table.ndim == 3 else visits.sum(axis=1), table, table.ndim - 1)
        for table in maps
    )


def _keeps(row: np.ndarray, spent: np.ndarray) -> bool:
    """Whether what is spent [D_k] is within a row [D_k + 1]."""
    scale = float(np.abs(row[:-1]) @ np.abs(spent)) + abs(float(row[-1]))
    return bool(row[:-1] @ spent - row[-1] <= ROUNDING * scale)


def _below_mixture(
    means: Sequence[np.ndarray], spent: np.ndarray, margins: Sequence[np.ndarray]
) -> bool:
    """Whether some mixture of [D] means, each less its margins, is nowhere below what is spent."""
    from scipy.optimize import linprog

    least = np.stack([mean - margin for mean, margin in zip(means, margins, strict=True)])
    scale = ROUNDING * max(float(np.abs(least).max()), 1e-300)
    found = linprog(
        np.zeros(len(least)),
        A_ub=-least.T,
        b_ub=-(spent - scale),
        A_eq=np.ones((1, len(least))),
        b_eq=[1.0],
        bounds=(0.0, 1.0),
    )
    return found.status == 0


def _largest_confidence(keeps: Callable[[float], bool]) -> float:
    """The largest confidence with which something is kept, from 1/2 on; 0 for none."""
    low, high = LEAST_RISK, 0.5  # wider sets are kept less often
    if not keeps(high):
        return 0.0
    if keeps(low):
        return 1.0 - low
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return 1.0 - high
