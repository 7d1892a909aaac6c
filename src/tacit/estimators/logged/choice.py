"""Which basis suits a log: its ridge by episodes held out, its size by doubling.

Held-out likelihood does not see a basis that is too coarse; coefficients that move when it is
doubled do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tacit.dynamics.projected import UNSEEN, Projected, softmax
from tacit.errors import InvalidModel
from tacit.estimators.logged.basis import Family, Gaussian, Matern, Polynomials, Scaling
from tacit.estimators.logged.world import FittedBasis, LoggedTask
from tacit.inference.evidence import evidence_of
from tacit.inference.findings import Finding, Kind
from tacit.likelihood.dynamic import DynamicsChain
from tacit.likelihood.problem import Fit, LikelihoodProblem
from tacit.likelihood.rescue import FAR
from tacit.likelihood.start import Bounds, Options

# Strengths of a ridge that are tried, and how many folds of whole episodes.
RIDGES, FOLDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0), 5
# How often a ridge is raised, threefold, where a regression has no finite solution.
RAISED = 4
# Standard errors by which coefficients may move when the basis is doubled; and from which it is
# said that they do.
SETTLED = 0.5
# Families, the best by episodes held out, that are doubled until one settles; steps of a search.
FAMILIES, STEPS = 4, 60
# Most functions of one action, and rows that each of them must have.
MOST, ROWS = 800, 10
# Columns from which coordinates are scaled by how much they matter, and the least that they do.
SEVERAL, LEAST = 3, 0.1


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A basis that was tried.

    Attributes:
        family: it in words.
        size: functions of one action.
        ridge: strength of its penalty.
        score: log-likelihood a step in episodes held out; NaN where none was computed.
        shift: largest move of a coefficient from the basis of half the size, in standard errors;
            NaN where there is none.
    """

    family: str
    size: int
    ridge: float
    score: float = np.nan
    shift: float = np.nan


@dataclass(frozen=True, eq=False, kw_only=True)
class BasisChoice:
    """The basis that was chosen, and those that were tried.

    Attributes:
        basis: the functions, and the strength of the penalty.
        tried: in the order they were.
        unsettled: the last shift, where coefficients still moved when the basis was doubled; NaN
            where they did not, or nothing was doubled.
    """

    basis: FittedBasis
    tried: tuple[Tried, ...] = ()
    unsettled: float = np.nan

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Name -> [n]: what was tried, to be written as a table."""
        names = ("family", "size", "ridge", "score", "shift")
        return {name: np.array([getattr(one, name) for one in self.tried]) for name in names}

    def findings(self) -> list[Finding]:
        """That coefficients depend on the basis, if they do."""
        if np.isnan(self.unsettled):
            return []
        said = (
            f"The basis did not settle: when it was last doubled, to {size_of(self.basis)} "
            f"functions an action, a coefficient moved by {self.unsettled:.2g} standard errors. "
            "Intervals do not allow for that. More rows, a basis of your own, or what actions do "
            "not move (after=, exogenous=) would help."
        )
        return [Finding(said, Kind.BASIS, number=self.unsettled)]


def choice_of(task: LoggedTask, options: Options) -> tuple[BasisChoice, DynamicsChain]:
    """The choice of a basis that is settled already, or now, and the likelihood on it."""
    if task.settled is None:
        return choose_basis(task, options)
    basis, chain, _, _ = fitted(task, task.settled, options)
    return BasisChoice(basis=basis), chain


def choose_basis(task: LoggedTask, options: Options) -> tuple[BasisChoice, DynamicsChain]:
    """The basis for a task, and its likelihood after the orthogonal step.

    A family that was asked for is taken as it is, its ridge chosen.
    """
    relevance = relevance_of(task)
    asked = task.mdp.basis
    if asked is not None:
        tried, basis = ridge_for(task, asked, relevance)
        basis, chain, _, _ = fitted(task, basis, options)
        return BasisChoice(basis=basis, tried=tuple(tried)), chain
    families: list[Family] = [Gaussian(), Matern(), Polynomials(2), Polynomials(3)]
    found = [ridge_for(task, family, relevance) for family in families]
    rows = [tried for tried, _ in found]
    order = np.argsort([-max(one.score for one in tried) for tried in rows], kind="stable")
    tried = [one for each in rows for one in each]
    settling: list[Doubled] = []
    for at in order[
        :FAMILIES
    ].tolist():  # held-out likelihoods are close: one that settles comes first
        settling.append(doubled(task, families[at], found[at][1], relevance, options))
        tried += settling[-1].tried
        if not settling[-1].shift >= SETTLED:
            break
    best = min(settling, key=lambda one: np.nan_to_num(one.shift))
    unsettled = best.shift if best.shift >= SETTLED else np.nan
    return BasisChoice(basis=best.basis, tried=tuple(tried), unsettled=unsettled), best.chain


class Doubled(NamedTuple):
    """A family whose size was doubled while coefficients moved.

    Attributes:
        basis: the last.
        chain: the likelihood on it, after the orthogonal step.
        shift: largest move of a coefficient at the last doubling, in standard errors; NaN where
            nothing was doubled.
        tried: what was tried on the way.
    """

    basis: FittedBasis
    chain: DynamicsChain
    shift: float
    tried: list[Tried]


def doubled(
    task: LoggedTask, family: Family, basis: FittedBasis, relevance: np.ndarray, options: Options
) -> Doubled:
    """A family, its size doubled until coefficients hardly move."""
    basis, chain, place, errors = fitted(task, basis, options)
    wider_family, tried = family.doubled(), list[Tried]()
    shift = np.nan if (errors > 0).any() else np.inf
    while wider_family is not None and not too_many(task, wider_family):
        more, wider = ridge_for(task, wider_family, relevance, around=basis.ridge)
        if size_of(wider) <= size_of(basis):  # nothing was added: all directions are there
            break
        wider, chain, moved, errors = fitted(task, wider, options)
        shift = shift_of(place, moved, errors)
        tried += [replace(one, shift=shift if one.ridge == wider.ridge else np.nan) for one in more]
        basis, place = wider, moved
        if shift < SETTLED or np.isinf(shift):
            break
        wider_family = wider_family.doubled()
    return Doubled(basis, chain, shift, tried)


def size_of(basis: FittedBasis) -> int:
    """Functions of one action."""
    return len(basis.functions.penalty)


def too_many(task: LoggedTask, family: Family) -> bool:
    """Whether a family asks for more functions than rows can tell."""
    wanted = family.size if isinstance(family, Gaussian) else 0
    return wanted > min(MOST, len(task.regressed) // ROWS)


def shift_of(before: np.ndarray, after: np.ndarray, errors: np.ndarray) -> float:
    """The largest move of a coefficient [D] in standard errors; infinite where none is known."""
    known = (errors > 0) & np.isfinite(errors)
    if not known.any():
        return np.inf
    return float((np.abs(after - before)[known] / errors[known]).max(initial=0.0))


def fitted(
    task: LoggedTask, basis: FittedBasis, options: Options
) -> tuple[FittedBasis, DynamicsChain, np.ndarray, np.ndarray]:
    """The basis, the likelihood after the orthogonal step, where it leads [D], standard errors [D].

    Where a regression has no finite solution its ridge is raised.
    """
    chain, fit = _identified(task.chain_on(basis), options)
    for _ in range(RAISED):
        if np.isfinite(fit.loss):
            break
        basis = replace(basis, ridge=3.0 * max(basis.ridge, RIDGES[0]))
        chain, fit = _identified(task.chain_on(basis), options)
    if not np.isfinite(fit.loss):
        raise InvalidModel(
            "the regression of what follows must have a finite solution; it has none on this basis "
            "at any ridge that was tried: take fewer functions, or a smaller discount"
        )
    if not fit.converged:
        return basis, chain, fit.z, np.zeros(len(fit.z))
    chain = chain.corrected(fit.parts[0])
    steps = min(options.max_steps, STEPS)
    fit = fit.refit(fit.problem.with_chains([chain]), max_steps=steps).completed
    law = evidence_of([task.demonstrations], fit, options.max_steps).errors.covariance
    errors = np.sqrt(np.maximum(np.diagonal(law), 0.0))
    return basis, replace(chain, near=fit.parts[0]), fit.z, errors


def _identified(chain: DynamicsChain, options: Options) -> tuple[DynamicsChain, Fit]:
    """The likelihood without directions that nothing tells of, and its maximum.

    A search that has gone far without an end may be after such a direction: they are judged at its
    starting point then.
    """
    fit = _maximum(chain, options)
    far = bool((np.abs(fit.z) > FAR).any())
    if not fit.converged and not far:
        return chain, fit
    known = chain.without_uninformative(fit.parts[0] if fit.converged else None)
    return (chain, fit) if known is chain else (known, _maximum(known, options))


def _maximum(chain: DynamicsChain, options: Options) -> Fit:
    """The maximum of the likelihood of a chain, infinite where there is no finite value."""
    known = Bounds.of(chain.space, options)
    problem = LikelihoodProblem.of(chain, known.lower, known.upper)
    begin = chain.approach(problem, known.start, options.max_steps)
    rules = {"tolerance": options.tolerance, "max_steps": min(options.max_steps, STEPS)}
    return begin.problem.minimum(begin.x, begin.parts, **rules).completed


def ridge_for(
    task: LoggedTask, family: Family, relevance: np.ndarray, *, around: float | None = None
) -> tuple[list[Tried], FittedBasis]:
    """The ridges that were tried for a family, and its basis with the best of them.

    Only neighbours of the one `around` are tried, if it is given.
    """
    rows = task.regressed
    functions = family.functions(rows, Scaling.of(rows, relevance))
    plain = FittedBasis(family=family, functions=functions, ridge=0.0)
    words, size = repr(family), size_of(plain)
    if not family.smooth:
        score = float(held_out(task, plain, [1e-8])[0])
        one = Tried(family=words, size=size, ridge=1e-8, score=score)
        return [one], replace(plain, ridge=1e-8)
    ridges = list(RIDGES)
    if around is not None:
        at = int(np.argmin(np.abs(np.log(np.array(ridges) / around))))
        ridges = ridges[max(at - 1, 0) : at + 2]
    scores = held_out(task, plain, ridges)
    pairs = zip(ridges, scores.tolist(), strict=True)
    tried = [Tried(family=words, size=size, ridge=r, score=s) for r, s in pairs]
    return tried, replace(plain, ridge=ridges[int(np.argmax(scores))])


def held_out(task: LoggedTask, basis: FittedBasis, ridges: Sequence[float]) -> np.ndarray:
    """[R] log-likelihood a step, in episodes held out, of the structural policy by two steps.

    The choices that the second step begins with are regressed once, on all rows: the likelihood
    does not depend on them to first order.
    """
    chain = task.chain_on(basis)
    world: Any = chain.dynamics
    seen, units = chain.counts[0], task.units()
    steps = task.demonstrations.steps
    many = min(FOLDS, len(units))
    if many < 2:
        return np.zeros(len(ridges))
    fold = units.number[task.demonstrations.episode] % many
    policy, total = world.regressed_choices(seen), np.zeros(len(ridges))
    outside = [np.pad(fold == k, (0, len(seen) - steps)) for k in range(many)]
    # Systems are sums over rows: without a fold is with all less its own.
    own = [replace(world, following=_without(world, ~out)).system(policy) for out in outside]
    rest = replace(world, following=_without(world, np.any(outside, axis=0))).system(policy)
    for out, left in zip(outside, own, strict=True):
        inside = replace(world, following=_without(world, out))
        system = np.sum(own, axis=0) + rest - left
        total += _fold_scores(inside, basis, ridges, chain.jacobian, seen, policy, system, out)
    return total / steps


def _without(world: Projected, out: np.ndarray) -> np.ndarray:
    """[n, A] what was seen to follow, but for the sites that are left out [n]."""
    return np.where(out[:, None], UNSEEN, world.following)


def _fold_scores(
    inside: Projected,
    basis: FittedBasis,
    ridges: Sequence[float],
    jacobian: np.ndarray,
    seen: np.ndarray,
    policy: np.ndarray,
    system: np.ndarray,
    out: np.ndarray,
) -> np.ndarray:
    """[R] log-likelihood of the steps from sites that are left `out` [n] of the regression."""
    kept = np.where(out[:, None], 0.0, seen)
    shared = inside.basis.columns[0] == inside.basis.columns[-1]
    scores = np.full(len(ridges), -np.inf)
    for r, ridge in enumerate(ridges):
        penalty = replace(basis, ridge=ridge).penalty(inside.actions, shared=shared)
        found = inside.two_steps(kept, jacobian, policy, system + penalty)
        if found is not None and np.isfinite(found[0]).all() and np.isfinite(found[1]).all():
            worth = jacobian[out] @ found[0] + inside.discount * inside.basis.worth(found[1])[out]
            chances = np.maximum(softmax(worth), np.finfo(float).tiny)
            scores[r] = float((seen[out] * np.log(chances)).sum())
    return scores


def relevance_of(task: LoggedTask) -> np.ndarray:
    """[k] how much each coordinate matters to what is done, of several; ones of few.

    The root of a score statistic of the actions on a cubic of that coordinate, beyond chance.
    """
    rows = task.regressed
    if rows.shape[1] <= SEVERAL or task.inputs.shared:
        return np.ones(rows.shape[1])
    seen, inputs = task.demonstrations, task.inputs.at(task.demonstrations.observations)[0]
    taken = np.eye(task.actions)[seen.actions]
    residual = taken - taken.mean(axis=0)
    shares = np.maximum(taken.mean(axis=0), 1.0 / seen.steps)
    found = np.zeros(rows.shape[1])
    for j, column in enumerate(inputs[: seen.steps].T):
        own = column[:, None]
        values = Polynomials(3).functions(own, Scaling.of(own)).at(own)[:, 1:]
        sums = values.T @ residual
        degrees = values.shape[1] * (task.actions - 1)
        found[j] = max(float((sums**2 / (seen.steps * shares)).sum()) - degrees, 0.0)
    largest = float(found.max())
    if largest == 0.0:
        return np.ones(len(found))
    return np.maximum(np.sqrt(found / largest), LEAST)
