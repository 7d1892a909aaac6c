"""What trajectories of unknown type say: information, free numbers, active constraints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit.inverse.findings import Finding, Kind
from tacit.inverse.goodness import prune
from tacit.inverse.noisy.activity import activity_p_value
from tacit.inverse.noisy.em import Search, Trajectories, Types, climb
from tacit.inverse.noisy.inference import advantages, information
from tacit.inverse.parameters import TWO_SIDED, inverse_information

# Gain (nats) still to come that ends a search where likelihoods are only compared.
COMPARED = 1e-2
# Chance of its best type below which it is said that a trajectory cannot be told.
SURE = 0.95


def schwarz(degrees: int, log_likelihood: float, steps: int) -> float:
    """Schwarz's criterion, smaller is better: coefficients * log(steps) - 2 * log-likelihood."""
    return degrees * float(np.log(max(steps, 1))) - 2.0 * log_likelihood


def degrees(seen: Trajectories, types: Types, *, shared: bool = False) -> int:
    """How many numbers were fitted: coefficients off their bounds that show, and free shares.

    `shared` counts one direction, and a noise for each type.
    """
    total = len(types.fits) - 1
    for one, part in zip(types.fits, seen.parts(types.membership), strict=True):
        scores = advantages(part.mdp, part.space, one)
        fisher = information(scores, one.point.policy, part.visits)
        _, blind = inverse_information(fisher, one.free)
        total += int(one.free.sum()) - len(blind)
        if shared:
            return total + len(types.fits) - 1
    return total


def constraint_tests(
    seen: Trajectories, full: Types, how: Search, *, level: float, rounds: int, seed: int
) -> tuple[Types, np.ndarray]:
    """The types with only the constraints shown to be active in them, and [T, K] p-values of all.

    Each test is a likelihood ratio: EM is run again without the constraint in that type.

    Args:
        seen: the trajectories.
        full: the types with every constraint.
        how: an M-step searches.
        level: of the tests.
        rounds: most rounds of EM, each test.
        seed: of the simulated laws.
    """
    space = seen.whole.space

    def test(types: Types, part: tuple[int, int]) -> tuple[float, Types]:
        k, constraint = part
        tested = np.zeros(space.size, bool)
        tested[space.blocks[1 + constraint]] = True
        tops = [one.problem.upper for one in types.fits]
        tops[k] = np.where(tested, 0.0, tops[k])
        less = climb(
            seen,
            how,
            replace(types, trace=()),
            rounds=rounds,
            tolerance=COMPARED,
            upper=tops,
        )
        if not (types.fits[k].point.x[tested] > 0).any():
            return 1.0, less
        lost, _ = lost_information(seen, less)
        steps, fitted = seen.parts(less.membership)[k], less.fits[k]
        scores = advantages(seen.whole.mdp, space, fitted)
        fisher = information(scores, fitted.point.policy, steps.visits) - lost[k]
        held = (tops[k] > fitted.problem.lower) & ~fitted.free
        ratio = 2.0 * (types.log_likelihood - less.log_likelihood)
        p_value = activity_p_value(ratio, fisher, tested, fitted.free, held, seed=seed)
        return p_value, less

    every = [(k, c) for k in range(len(full.fits)) for c in range(space.constraints)]
    kept, _, found = prune(full, every if full.converged else [], test, level)
    p_values = np.ones((len(full.fits), space.constraints))
    for (k, constraint), p_value in found.items():
        p_values[k, constraint] = p_value
    return kept, p_values


def lost_information(seen: Trajectories, types: Types) -> tuple[list[np.ndarray], np.ndarray]:
    """One [D, D] per type, information that not knowing the memberships takes, and [T] errors.

    By Louis (1982): the information of the complete data less the covariance, given what was seen,
    of its scores; of that the part is lost that the other types and the shares could imitate. The
    errors are the standard errors of the shares.
    """
    mdp, space = seen.whole.mdp, seen.whole.space
    chances, many, size = types.membership, len(types.fits), space.size
    tables = [advantages(mdp, space, one) for one in types.fits]
    scores = np.stack([seen.sums(table) for table in tables])  # [T, E, D]
    parts = seen.parts(chances)
    rows = [slice(k * size, (k + 1) * size) for k in range(many)]
    last = slice(many * size, many * size + many - 1)
    full = np.zeros((last.stop, last.stop))
    for k in range(many):
        full[rows[k], rows[k]] = information(tables[k], types.fits[k].point.policy, parts[k].visits)
        for j in range(many):
            # Covariance of "is of type k" and "is of type j", trajectory by trajectory.
            both = chances[:, k] * ((k == j) - chances[:, j])
            full[rows[k], rows[j]] -= (scores[k] * both[:, None]).T @ scores[j]
            if j < many - 1:
                column = (scores[k] * both[:, None]).sum(axis=0)
                full[rows[k], last.start + j] -= column
                full[last.start + j, rows[k]] -= column
            if max(j, k) < many - 1:
                shares = types.shares[k] * ((k == j) - types.shares[j]) * len(chances)
                full[last.start + k, last.start + j] = shares - both.sum()
    free = np.concatenate([*(one.free for one in types.fits), np.ones(many - 1, bool)])
    lost = []
    for k in range(many):
        complete = information(tables[k], types.fits[k].point.policy, parts[k].visits)
        others = free.copy()
        others[rows[k]] = False
        inverse, _ = inverse_information(full, others)
        left = full[rows[k], rows[k]] - full[rows[k]] @ inverse @ full[:, rows[k]]
        lost.append(complete - 0.5 * (left + left.T))
    inverse, blind = inverse_information(full, free)
    spread = np.sqrt(
        np.maximum(np.diagonal(_share_covariance(types.shares, inverse[last, last])), 0.0)
    )
    if np.abs(blind[:, last]).max(initial=0.0) > 1e-5:
        spread[:] = np.inf
    return lost, spread


def _share_covariance(shares: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """[T, T] covariance of the shares, from that of their logarithms relative to the last one's."""
    slope = (np.diag(shares) - np.outer(shares, shares))[:, :-1]
    return slope @ logits @ slope.T


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
    types: Types, tried: np.ndarray, criteria: np.ndarray, *, given: bool, starts: int
) -> list[Finding]:
    """How many types there are, and how well trajectories can be told apart.

    Args:
        types: that were found.
        tried: [M] numbers of types.
        criteria: [M] the BIC of each.
        given: whether their number was.
        starts: of EM.
    """
    many, number = len(types.fits), np.flatnonzero(tried == len(types.fits))[0]
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
    unsure = int((types.membership.max(axis=1) < SURE).sum())
    if unsure:
        said = (
            f"{unsure} of {len(types.membership)} trajectories cannot be assigned with "
            f"{SURE:.0%} confidence."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=unsure))
    for k in np.flatnonzero(types.shares * len(types.membership) < 2.0).tolist():
        said = f"Type {k} is hardly more than one trajectory: look at that one."
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=float(types.shares[k])))
    if not types.converged:
        said = "EM stopped before its tolerance was met: raise `max_rounds`."
        findings.append(Finding(said, Kind.NOT_CONVERGED))
    said = (
        f"The types are the likeliest found from {starts} starts; nothing proves that "
        "there are no likelier ones."
    )
    return [*findings, Finding(said, Kind.LOCAL_OPTIMUM, number=starts)]
