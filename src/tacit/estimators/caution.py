"""The objective to deploy: what it allows, every objective that the data leave possible allows.

A constraint refuses more than its weights make of what the demonstrator spends: w . f <= w . e, f
and e the expected discounted sums of its features, of a policy and of the demonstrator. What is
known about it is a convex set of rows (w, w . e), and a policy that keeps the row at each corner of
a polytope around that set keeps them all, under any dynamics, start or reward: only f depends on
those. In a world that is known fewer rows do: the worst one for the best policy, again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import Infeasible, InvalidModel
from tacit.estimators.doubts import Doubt, Ellipsoid, Polytope, box_corners
from tacit.estimators.explanation.answers import Answers
from tacit.forward.column_generation import ColumnGeneration
from tacit.forward.solution import Solution
from tacit.forward.solve import solve
from tacit.inference.findings import Finding, Kind
from tacit.inference.parameters import CONFIDENCE
from tacit.model.objective import Objective

if TYPE_CHECKING:
    from tacit.inference.expectations import Spending
    from tacit.model.mdp import MDP
    from tacit.recovery import Recovery

# Halvings of the search for the share of the doubt that can be met.
HALVINGS = 7
# Rows added in a known world at most, and what may be left of a violation, relative to the budget.
CUTS, BROKEN = 100, 1e-7
_SOLVER = ColumnGeneration(tolerance=BROKEN)
# What a raised budget leaves above the least that can be spent: rounding.
SPARE = 1e-7


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Caution(Objective):
    """An objective that keeps within the budgets of every objective the data leave possible.

    Each constraint has become several rows. Made for any world, all that is feasible for them is
    feasible for the truth; made for one world, so is the best policy there.

    Attributes:
        reward: [S] or [S, A] gain of each state or action: the recovered one.
        costs: [R, S] or [R, S, A] what each row charges.
        budgets: [R] largest expected discounted cost allowed.
        weights: one [D_k] per row, of the features of its constraint.
        constraint: [R] number of the constraint that each row belongs to.
        confidence: with which what is feasible is feasible for the truth.
        share: of the doubt that is met: 1, or less where the world given allows no more.
        excess: by what share of itself a budget was raised at most, beyond the recovered ones,
            because no policy of the world given keeps even those; 0 where one does.
        value: expected discounted recovered reward of the best policy within it, in the world
            given; NaN without one.
        plain_value: the same without caution.
        findings: what it rests on, and what it costs.
    """

    weights: tuple[np.ndarray, ...] = ()
    constraint: np.ndarray = None  # pyright: ignore[reportAssignmentType]
    confidence: float = CONFIDENCE
    share: float = 1.0
    excess: float = 0.0
    value: float = np.nan
    plain_value: float = np.nan
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        world = (
            "any world"
            if np.isnan(self.value)
            else f"one world, reward_lost={self.reward_lost:.4g}"
        )
        return (
            f"Caution(for {world}: rows={len(self.budgets)}, confidence={self.confidence:g}, "
            f"share={self.share:.4g}, excess={self.excess:.4g})"
        )

    @property
    def reward_lost(self) -> float:
        """What caution costs: value of the best policy without it less that with it."""
        return self.plain_value - self.value


def cautious(recovery: Recovery, mdp: MDP | None, *, confidence: float = CONFIDENCE) -> Caution:
    """The `Caution` of a recovery, for the world given or for any.

    Args:
        recovery: with what the demonstrator spends.
        mdp: where it is to be used, if that is known: then what caution costs is measured there,
            and where no policy can be as cautious, as much of the doubt is met as can be; where
            none keeps even the recovered budgets, they are raised as little as can be.
        confidence: with which what is feasible is to be feasible for the truth.
    """
    spending = check_spending(recovery, confidence)
    doubts, findings = [], []
    for k in range(len(spending.maps)):
        doubt, more = doubt_of(recovery, spending, k, confidence)
        doubts.append(doubt)
        findings += more
    if mdp is not None:
        return _in_world(recovery, doubts, findings, mdp, confidence)
    rows = tuple(doubt.corners() for doubt in doubts)
    sentence = (
        "Caution for any world: in some worlds no policy keeps these budgets. cautious(mdp) asks "
        "for no more than a policy of that world can keep, and says how much that is."
    )
    findings.append(Finding(sentence, Kind.ASSUMED))
    return _objective(recovery, rows, findings=findings, confidence=confidence)


def check_spending(recovery: Recovery, confidence: float) -> Spending:
    """What the demonstrator spends; `InvalidModel` where that is not known, or no confidence."""
    if not 0.0 < confidence < 1.0:
        raise InvalidModel(f"confidence must be in (0, 1); got {confidence}")
    spending = recovery.spending
    if recovery.solution is None:
        raise InvalidModel(
            "caution is about one budget, and every goal of trips has its own: recover the trips "
            "of one goal as Demonstrations with Likelihood(), in a world that ends there, and ask "
            "that recovery; prices with their intervals are in identification.multiplier_intervals"
        )
    if spending is None or len(spending.maps) != len(recovery.multipliers):
        raise InvalidModel(
            "caution needs to know what the demonstrator spends of each cost feature; this "
            "recovery does not say: recover with Likelihood, Convex or Explanation, from "
            "trajectories that begin at the start"
        )
    return spending


def _objective(
    recovery: Recovery,
    blocks: Sequence[np.ndarray],
    *,
    findings: Sequence[Finding] = (),
    **numbers: float,
) -> Caution:
    """The `Caution` of these rows, one [R_k, D_k + 1] per constraint, and its fields `numbers`."""
    weights, budgets, tables, owners = [], [], [], []
    for k, (rows, table) in enumerate(zip(blocks, _maps(recovery), strict=True)):
        for row in rows:
            size = float(np.abs(row[:-1]).sum()) or 1.0
            weights.append(row[:-1] / size)
            budgets.append(float(row[-1]) / size)
            tables.append(table @ weights[-1])
            owners.append(k)
    states, actions = recovery.solution.policy.shape
    if any(table.ndim == 2 for table in tables):  # mixed state and state-action costs
        tables = [t if t.ndim == 2 else np.repeat(t[:, None], actions, axis=1) for t in tables]
    return Caution(
        reward=recovery.objective.reward,
        costs=np.stack(tables) if tables else np.zeros((0, states)),
        budgets=np.array(budgets),
        weights=tuple(weights),
        constraint=np.array(owners, dtype=int),
        findings=tuple(findings),
        **numbers,
    )


def _maps(recovery: Recovery) -> tuple[np.ndarray, ...]:
    return () if recovery.spending is None else recovery.spending.maps


def _in_world(
    recovery: Recovery,
    doubts: Sequence[Doubt],
    findings: list[Finding],
    mdp: MDP,
    confidence: float,
) -> Caution:
    """The `Caution` that some policy of this world keeps, with what it costs there."""
    try:
        plain = solve(mdp, recovery.objective).value
    except Infeasible:
        plain = np.nan
    share, excess, best = 1.0, 0.0, _cut(recovery, doubts, mdp, 1.0)
    if best is None:
        share, high = 0.0, 1.0
        best = _cut(recovery, doubts, mdp, 0.0)
        if best is None:
            rows, solution, excess = _raised(recovery, doubts, mdp)
            best = rows, solution
        for _ in range(0 if excess else HALVINGS):
            middle = 0.5 * (share + high)
            cut = _cut(recovery, doubts, mdp, middle)
            if cut is None:
                high = middle
            else:
                share, best = middle, cut
        sentence = (
            f"Full caution cannot be kept in this world: {share:.0%} of the margin for uncertain "
            "weights and spending is kept, so the confidence is less than asked for."
        )
        if excess:
            sentence = (
                "No policy of this world keeps even the recovered budgets: they were raised as "
                f"little as can be, by {excess:.1%} at most. No margin for uncertainty is kept, "
                "and the true budgets are probably broken."
            )
        findings = [Finding(sentence, Kind.UNATTAINABLE, number=excess or share), *findings]
    rows, solution = best
    lost = float(plain - solution.value)
    if np.isfinite(lost):
        size = f" ({lost / abs(plain):.1%} of it)" if plain != 0 else ""
        sentence = (
            f"Caution costs {lost:.4g}{size} of the recovered reward that the best policy within "
            f"the recovered budgets has, {plain:.4g}."
        )
        findings = [*findings, Finding(sentence, Kind.NOTE, number=lost)]
    return _objective(
        recovery,
        rows,
        findings=findings,
        confidence=confidence,
        share=share,
        excess=excess,
        value=solution.value,
        plain_value=plain,
    )


def _cut(
    recovery: Recovery, doubts: Sequence[Doubt], mdp: MDP, share: float
) -> tuple[tuple[np.ndarray, ...], Solution] | None:
    """Rows that meet a share of the doubts, and the best policy within them; None without one."""
    blocks, solution = tuple(doubt.centre() for doubt in doubts), None
    for _ in range(CUTS):
        try:
            # Rows that are nearly the same make the program hard; more digits tell no row apart.
            solution = solve(mdp, _objective(recovery, blocks), solver=_SOLVER)
        except Infeasible:
            return None
        broken, found = False, []
        for doubt, table, rows in zip(doubts, _maps(recovery), blocks, strict=True):
            visits = solution.visitation if table.ndim == 3 else solution.visitation.sum(axis=1)
            spent = np.tensordot(visits, table, visits.ndim)
            row = doubt.worst(spent, share)
            scale = float(np.abs(row[:-1]) @ np.abs(spent)) + abs(float(row[-1]))
            if np.isfinite(scale) and row[:-1] @ spent - row[-1] > BROKEN * scale:
                rows, broken = np.concatenate([rows, row[None]]), True
            found.append(rows)
        blocks = tuple(found)
        if not broken:
            break
    assert solution is not None
    return blocks, solution


def _raised(
    recovery: Recovery, doubts: Sequence[Doubt], mdp: MDP
) -> tuple[tuple[np.ndarray, ...], Solution, float]:
    """The estimated rows with budgets raised to what the policy of least violation spends.

    With the best policy within them, and the largest raise as a share of its budget.
    """
    blocks = tuple(doubt.centre() for doubt in doubts)
    plain = _objective(recovery, blocks)
    try:
        return blocks, solve(mdp, plain), 0.0
    except Infeasible as error:
        spent = np.asarray(error.cost, dtype=np.float64)
    more = np.maximum(spent - plain.budgets, 0.0)  # none of an infinite budget
    more += SPARE * np.abs(spent) * (more > 0)
    sizes = np.concatenate([np.abs(rows[:, :-1]).sum(axis=1) for rows in blocks])
    ends = np.cumsum([len(rows) for rows in blocks])[:-1]
    found = []
    for rows, raised in zip(
        blocks, np.split(more * np.where(sizes > 0, sizes, 1.0), ends), strict=True
    ):
        found.append(np.column_stack([rows[:, :-1], rows[:, -1] + raised]))
    solution = solve(mdp, _objective(recovery, found), solver=_SOLVER)
    scale = np.maximum(np.abs(plain.budgets), 1e-300)
    return tuple(found), solution, float((more / scale)[more > 0].max())


def doubt_of(
    recovery: Recovery, spending: Spending, k: int, confidence: float
) -> tuple[Doubt, list[Finding]]:
    """What is known about constraint k, and what that rests on."""
    risk = (1.0 - confidence) / len(spending.maps)
    ellipsoid = _ellipsoid(recovery, spending, k, risk)
    return _polytope(recovery, spending, k, risk) if ellipsoid is None else (ellipsoid, [])


def _ellipsoid(recovery: Recovery, spending: Spending, k: int, risk: float) -> Ellipsoid | None:
    """The rows of constraint k by the errors of its prices; None where these are not all known."""
    from scipy.stats import chi2

    known, size = recovery.identification, len(spending.means[k])
    point, spread = spending.prices[k], spending.covariances[k]
    finite = [recovery.cost_weights[k], spread, known.cost_intervals[k]]
    if not _has_errors(recovery, k) or not all(np.isfinite(part).all() for part in finite):
        return None
    values, vectors = np.linalg.eigh(spread)
    large = values > 1e-12 * max(float(values.max()), 1e-300)
    axes = vectors[:, large] * np.sqrt(values[large]) * _widening(recovery, spending, k)
    # Of a row only its direction matters: one degree of freedom less than it has numbers.
    radius = float(np.sqrt(chi2.isf(risk, size)))
    place, *_ = np.linalg.lstsq(axes, point, rcond=None)
    inside = np.allclose(axes @ place, point, rtol=1e-6, atol=0)
    apart = np.linalg.norm(place) > radius or not inside  # from the row of no constraint at all
    return Ellipsoid(point, axes, radius) if apart else None


def _has_errors(recovery: Recovery, k: int) -> bool:
    """Whether all weights of constraint k have errors: not those at a bound, or never seen."""
    errors = recovery.identification.cost_standard_errors[k]
    return bool(np.isfinite(errors).all()) or len(errors) == 1


def _polytope(
    recovery: Recovery, spending: Spending, k: int, risk: float
) -> tuple[Polytope, list[Finding]]:
    """The rows of constraint k by the ranges of its weights and of what is spent."""
    from scipy.stats import norm

    identification, size = recovery.identification, len(spending.means[k])
    weights, ends = recovery.cost_weights[k], identification.cost_intervals[k]
    known, findings = np.isfinite(weights).all(), []
    # An explanation without the constraint says nothing about its weights.
    priced = identification.multiplier_intervals[k, 0] > 0
    answers = identification.answer if isinstance(identification.answer, Answers) else None
    within = np.isfinite(ends).all() and not _has_errors(recovery, k)
    if known and priced and (answers is not None or within):
        corners = box_corners(ends.clip(0.0, 1.0)) if size > 1 else np.eye(1)
    else:
        answers, corners = None, np.eye(size)
        kind = Kind.NOT_IDENTIFIED if known else Kind.INACTIVE
        sentence = (
            f"Constraint {k} may have any weights: of each of its features no more is allowed than "
            "the demonstrator spends."
        )
        findings.append(Finding(sentence, kind, constraint=k))
        weights = np.full(size, np.nan)
    errors = spending.errors[k]
    if not np.isfinite(errors).all():
        sentence = (
            f"The standard error of the spending on constraint {k} is not known: the spending is "
            "taken as it was seen."
        )
        findings.append(Finding(sentence, Kind.ERRORS, constraint=k))
    polytope = Polytope(
        point=np.append(weights, recovery.budgets[k]),
        vertices=corners,
        means=spending.means[k],
        margins=float(norm.isf(risk / size)) * np.nan_to_num(errors),
        units=np.abs(spending.maps[k]).reshape(-1, size).max(axis=0),
        answers=answers,
        block=k + 1,
    )
    return polytope, findings


def _widening(recovery: Recovery, spending: Spending, k: int) -> float:
    """By what the budget's standard error is larger than the errors of the prices make it, from 1.

    It is where estimated dynamics or resampled trajectories were taken into account later.
    """
    point, spread, budget = spending.prices[k], spending.covariances[k], recovery.budgets[k]
    slope = np.append(np.full(len(point) - 1, -budget), 1.0) / max(point[:-1].sum(), 1e-300)
    own = float(np.sqrt(max(slope @ spread @ slope, 0.0)))
    reported = float(recovery.identification.budget_standard_errors[k])
    return max(1.0, reported / own) if np.isfinite([reported, own]).all() and own > 0.0 else 1.0
