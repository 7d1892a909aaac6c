"""Types of demonstrators: the search for them from several starts, how many, and who is of which.

Newton's method goes up from one place and does not choose among local optima (`kinds.py`): several
places are tried, and the best goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.inference.findings import Finding, Kind
from tacit.inference.parameters import inverse_information
from tacit.inference.tails import TWO_SIDED
from tacit.likelihood.kinds import KindsChain, KindsEvidence, StepUnits, problem_of_kinds
from tacit.likelihood.problem import Fit
from tacit.likelihood.start import Bounds
from tacit.likelihood.steps import information
from tacit.likelihood.switching import Mixing, Sequences
from tacit.search.algebra import covariance_root
from tacit.search.operators import Matrices

if TYPE_CHECKING:
    from tacit.estimators.likelihood import Likelihood

# Steps of the pieces that are dealt out to kinds that switch: as long as one may last.
PIECES = (50, 15, 5)
# Evaluations from every start before the best goes on.
SHORT = 15
# Precision of the values that a start is made of.
VALUED = 1e-9
# Iterations of k-means.
LLOYD = 30
# Redrawn actions behind the test of trajectories, and most steps for which it is made.
DRAWS, MOST_STEPS = 199, 500_000
# Chance of its best type below which it is said that a trajectory cannot be told.
SURE = 0.95


def search(
    units: Any,
    options: Likelihood,
    pooled: Fit,
    types: int,
    *,
    starts: int,
    seed: int,
    prior: float = 0.0,
    shared: bool = False,
    following: Sequences | None = None,
) -> Fit:
    """The likeliest so many types found from several starts, the most frequent first.

    Half of the starts group trajectories by their scores, half deal them out at random; each gets a
    few steps, and the best goes on. Where kinds may switch from unit to unit it is pieces of
    trajectories, of one length after the other.

    Args:
        units: the trajectories.
        options: of the fit.
        pooled: the fit of all trajectories together, as of one type.
        types: how many.
        starts: how many.
        seed: of the starts.
        prior: 1 / variance of a scaled parameter before anything is seen; 0 for none.
        shared: whether the types share weights and prices and differ in their noise alone.
        following: in which order units were done, where kinds may switch from one to the next.
    """
    rng, point = np.random.default_rng(seed), units.point(pooled.z, pooled.parts[0], VALUED)
    chain = KindsChain(units=units, experts=types, prior=prior, following=following)
    problem = problem_of_kinds(chain, Bounds.of(chain.whole.space, options), one_direction=shared)
    pieces = [(1, units)]
    if following is not None:
        pieces = [(steps, units.joined(following.cut(steps))) for steps in PIECES]
    begun = []
    for number in range(starts):
        dwell, dealt = pieces[number % len(pieces)]
        if number % 2:
            member = rng.permutation(np.arange(len(dealt)) % types)
        else:
            member = k_means(rng, trajectory_directions(dealt, pooled, point), types)
        # Nobody is certain at the start: a trajectory dealt out wrongly must be able to leave.
        chances = np.full((types, len(dealt)), 0.2 / types)
        chances[member, np.arange(len(dealt))] += 0.8
        apart = [scored(dealt, pooled, point, chance) for chance in chances]
        mixing = Mixing.sticky(chances.mean(axis=1), chain.sequences.tables, dwell)
        start = problem.ties.start([*apart, mixing.flat])
        begun.append(
            problem.minimum(
                start, tolerance=options.tolerance, max_steps=min(SHORT, options.max_steps)
            )
        )
    best = min(begun, key=lambda one: one.loss)
    return by_share(best.refit(problem, max_steps=options.max_steps))


def scored(units: Any, pooled: Fit, point: Any, chances: np.ndarray) -> np.ndarray:
    """[D] parameters of a kind after one step from the fit of all, units having chances [U]."""
    problem, (_, (own,)) = pooled.problem, units.weighted([point], chances[None], VALUED)
    far = 2.0 * np.abs(pooled.z) + 1.0
    low, high = (
        np.maximum(problem.lower - pooled.z, -far),
        np.minimum(problem.upper - pooled.z, far),
    )
    model, slope = Matrices(np.asarray(own.curvature)[None]), np.asarray(own.gradient)
    return pooled.z + model.bounded_step(slope[None], low[None], high[None])[0]


def by_share(found: Fit) -> Fit:
    """The same, the most frequent kind first."""
    shares = found.parts[0].shares
    order = np.argsort(-shares, kind="stable")
    if (np.diff(order) > 0).all():
        return found
    ties, steps = found.problem.ties, found.steps
    mixing = found.parts[0].mixing.ordered(order)
    z = ties.start([*(found.x(int(k)) for k in order), mixing.flat])
    part = found.problem.chains[0]
    near = part.blank(found.problem.parameters(z)[0])
    points = tuple(found.parts[0].parts[k] for k in order)
    parts = found.problem.parts(z, [near._replace(parts=points)], found.tolerance)
    return Fit.of(found.problem, z, parts, steps, found.tolerance)


def kinds_of(found: Fit) -> int:
    """How many types a fit has; one where it is of all trajectories together."""
    return len(found.problem.chains[0].kinds)


def schwarz(degrees: int, log_likelihood: float, steps: int) -> float:
    """Schwarz's criterion, smaller is better: coefficients * log(steps) - 2 * log-likelihood."""
    return degrees * float(np.log(max(steps, 1))) - 2.0 * log_likelihood


def degrees(found: Fit) -> int:
    """How many numbers were fitted: coefficients off their bounds that show, and free shares."""
    (own,), known = found.evidence([None]), found.problem.equalities
    fisher = own.complete if isinstance(own, KindsEvidence) else own.fisher
    _, blind = inverse_information(own.inner.T @ fisher @ own.inner, found.free)
    return int(found.free.sum()) - len(blind) - (0 if known is None else len(known.values))


def share_intervals(shares: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """[T, 2] 95 % intervals of shares with these standard errors, on the logit scale."""
    if len(shares) == 1:
        return np.ones((1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.log(shares / (1.0 - shares))
        margin = TWO_SIDED * errors / (shares * (1.0 - shares))
        ends = 1.0 / (1.0 + np.exp(-np.stack([middle - margin, middle + margin], axis=1)))
    return np.where(np.isnan(ends), [[0.0, 1.0]], ends)


def type_findings(
    types: Fit, tried: np.ndarray, criteria: np.ndarray, *, given: bool, starts: int
) -> list[Finding]:
    """How many types there are, and how well trajectories can be told apart.

    Args:
        types: the fit of those that were found.
        tried: [M] numbers of types.
        criteria: [M] the BIC of each.
        given: whether their number was.
        starts: of the search.
    """
    many = kinds_of(types)
    number = np.flatnonzero(tried == many)[0]
    told = ", ".join(f"{b:.6g} for {n}" for n, b in zip(tried.tolist(), criteria, strict=True))
    findings = []
    if not given:
        said = f"{many} type{'s' if many > 1 else ''} explain the trajectories best (BIC {told})."
        findings.append(Finding(said, Kind.CHOICE, number=many))
    elif criteria[number] > criteria.min():
        fewer = int(tried[criteria.argmin()])
        said = f"{fewer} type{'s' if fewer > 1 else ''} would do: the BIC is {told}."
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=fewer))
    if many == 1:
        return findings
    shares, membership = types.parts[0].shares, types.parts[0].membership.T
    unsure = int((membership.max(axis=1) < SURE).sum())
    if unsure:
        said = (
            f"{unsure} of {len(membership)} trajectories cannot be assigned with "
            f"{100 * SURE:g} % confidence."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=unsure))
    for k in np.flatnonzero(shares * len(membership) < 2.0).tolist():
        said = f"Type {k} has hardly more than one trajectory: look at that trajectory."
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=float(shares[k])))
    if not types.converged:
        said = "The search stopped before its tolerance was met: raise `max_rounds`."
        findings.append(Finding(said, Kind.NOT_CONVERGED))
    said = (
        f"These types are the likeliest of {starts} starts: a local optimum, better ones are "
        "not ruled out."
    )
    return [*findings, Finding(said, Kind.LOCAL_OPTIMUM, number=starts)]


def trajectory_directions(units: Any, pooled: Fit, point: Any) -> np.ndarray:
    """[E, n] scores of the trajectories in the fit of all, in units of their chance variation."""
    (told,), lengths = pooled.evidence([None]), units.lengths[:, None]
    covariance, _ = inverse_information(told.fisher, np.ones(len(told.fisher), bool))
    # A score grows like the square root of the length if all is chance: one scale for all lengths.
    return units.scores(point) @ covariance_root(covariance) * np.sqrt(lengths.sum() / lengths)


def k_means(rng: np.random.Generator, points: np.ndarray, groups: int) -> np.ndarray:
    """[E] group of each of the points [E, n], by k-means from k-means++ seeds."""
    centres = points[rng.integers(len(points))][None]
    while len(centres) < groups:
        far = ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
        chance = far / far.sum() if far.sum() > 0 else None
        centres = np.concatenate([centres, points[rng.choice(len(points), p=chance)][None]])
    member = np.zeros(len(points), np.int64)
    for _ in range(LLOYD):
        member = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        kept = [points[member == g] for g in range(groups)]
        moved = np.stack(
            [k.mean(axis=0) if len(k) else c for k, c in zip(kept, centres, strict=True)]
        )
        if np.allclose(moved, centres):
            break
        centres = moved
    return member


def trajectory_p_value(units: StepUnits, base: Fit, *, seed: int = 0) -> float:
    """Chance that trajectories of one type scatter as much as these; NaN where they are too many.

    The scatter of their scores in units of the information; its law by actions redrawn at the
    visited states, each draw corrected by one score step instead of a refit.
    """
    whole = units.whole
    if whole.counts.sum() > MOST_STEPS:
        return np.nan
    policy, actions = np.asarray(base.parts[0].policy), whole.mdp.actions
    scores = whole.scores(base.parts[0])[base.free]
    fisher = information(scores, policy, whole.visits)
    inverse, _ = inverse_information(fisher, np.ones(len(scores), bool))
    own = units.table.tocoo()
    # One row a step: its trajectory and its state.
    often = own.data.astype(np.int64)
    row, state = np.repeat(own.row, often), np.repeat(own.col // actions, often)
    visits = np.zeros((len(units), whole.mdp.states))
    np.add.at(visits, (row, state), 1.0)
    per_state = np.einsum("dsa,esa,sa->sde", scores, scores, policy)
    each = np.tensordot(visits, per_state, 1)  # [E, D, D] information of every trajectory

    def scatter(sums: np.ndarray) -> float:
        left = sums - each @ (inverse @ sums.sum(axis=0))
        return float(np.einsum("ed,df,ef->", left, inverse, left))

    rng, edges = np.random.default_rng(seed), np.cumsum(policy, axis=1)[state]
    observed, larger = scatter(units.sums(scores)), 0
    for _ in range(DRAWS):
        drawn = (rng.random(len(state))[:, None] > edges[:, :-1]).sum(axis=1)
        sums = np.zeros((len(units), len(scores)))
        np.add.at(sums, row, scores[:, state, drawn].T)
        larger += scatter(sums) >= observed
    return (1.0 + larger) / (1.0 + DRAWS)
