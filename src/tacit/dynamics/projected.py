"""Dynamics that were only logged: soft values at the rows seen next, regressed on a basis.

The continuation of an action is discount * psi(site, action) . kappa, and kappa solves

    sum over what was seen of psi (V(next site) - psi . kappa) = penalty @ kappa,

by Newton's method on the coefficients of the basis. A one-hot basis without a penalty gives the
dynamics counted from the same log. Nothing of size sites x coefficients x actions is written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs
from scipy.special import logsumexp

from tacit.dynamics import Blur, Solved
from tacit.model.available import Sites

# Entries of `Projected.following` that are no sites: an end that pays nothing, and nothing seen.
PAID, UNSEEN = -1, -2
# Sites whose products with a basis are formed at once.
CHUNK = 20_000
# Relative size of a step of the coefficients at which their search ends, and most of its steps.
SETTLED, MOST = 1e-11, 60
# A step that leaves more than this share of the way has the system formed anew.
SLOW = 0.5
# Smallest share of a step that is tried.
SHORTEST = 1e-3
# Largest lever of a row on what is regressed there.
MOST_LEVER = 0.8
# Steps of the rough regression of choices, and of the logit that begins with it.
ROUGH, LOGIT = 40, 30


class Factors(NamedTuple):
    """A matrix [P, P] in triangular factors."""

    triangles: np.ndarray
    pivots: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray) -> Factors | None:
        """The factors of a matrix; None where it is singular."""
        (factor,) = get_lapack_funcs(("getrf",), (matrix,))
        triangles, pivots, fault = factor(matrix)
        return None if fault else cls(triangles, pivots)

    def solve(self, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
        """[P, ...] the solution for right sides [P, ...]."""
        flat = right.reshape(len(right), -1)
        (solve,) = get_lapack_funcs(("getrs",), (self.triangles,))
        found, _ = solve(self.triangles, self.pivots, flat, trans=int(transposed))
        return found.reshape(right.shape)


@dataclass(frozen=True, eq=False)
class ActionBasis:
    """Basis functions psi(site, action): every action has functions of the site, and coefficients.

    Attributes:
        tables: one [n, m] per action, its functions at every site; one array may serve all.
        columns: one slice per action, the coefficients of its functions.
    """

    tables: tuple[np.ndarray, ...]
    columns: tuple[slice, ...]

    @classmethod
    def by_action(cls, table: np.ndarray, actions: int) -> ActionBasis:
        """Functions of the site [n, m], with coefficients of their own for every action."""
        size = table.shape[1]
        columns = tuple(slice(a * size, (a + 1) * size) for a in range(actions))
        return cls((table,) * actions, columns)

    @classmethod
    def shared(cls, tables: Sequence[np.ndarray]) -> ActionBasis:
        """Functions of what is left after each action, [n, m], with the same coefficients."""
        return cls(tuple(tables), (slice(0, tables[0].shape[1]),) * len(tables))

    @property
    def size(self) -> int:
        """P, the number of coefficients."""
        return max(columns.stop for columns in self.columns)

    def worth(self, coefficients: np.ndarray) -> np.ndarray:
        """[n, A, ...] the functions times coefficients [P, ...]."""
        rest = coefficients.shape[1:]
        found = np.empty((len(self.tables[0]), len(self.tables), *rest))
        for a, (table, columns) in enumerate(zip(self.tables, self.columns, strict=True)):
            found[:, a] = table @ coefficients[columns]
        return found

    def pulled(self, weights: np.ndarray) -> np.ndarray:
        """[P, ...] sums of the functions over all sites and actions, weights [n, A, ...]."""
        found = np.zeros((self.size, *weights.shape[2:]))
        for a, (table, columns) in enumerate(zip(self.tables, self.columns, strict=True)):
            found[columns] += table.T @ weights[:, a]
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Projected(Sites):
    """Logged dynamics on sites: rows that were seen.

    Attributes:
        basis: on what soft values of the next site are regressed.
        following: [n, A] the site that was seen after an action; `PAID` for an end that pays
            nothing, `UNSEEN` where none was.
        available: [n, A] bool, the actions there are; at ends none, which pay once, on arrival.
        penalty: [P, P] of the regression.
        discount: weight of the next step against this one; 1 where every episode ends.
        draws: [n] number of the independent draw that a site's next ones are of: an individual
            where they are named, else the step.
    """

    basis: ActionBasis
    following: np.ndarray
    available: np.ndarray
    penalty: np.ndarray
    discount: float
    draws: np.ndarray

    layers = 1

    @property
    def learnt(self) -> Projected:
        """Itself: nothing is known but from the log."""
        return self

    @property
    def source(self) -> LoggedSource:
        """What the dynamics are known from."""
        return LoggedSource(self.draws)

    def solve(self, table: np.ndarray, near: Solved | None) -> Solved | None:
        """The solution for utilities [n, A]; None where the regression has no finite one."""
        found = None if near is None else self._solution(table, near)
        return self._solution(table, None) if found is None else found

    def _solution(self, table: np.ndarray, near: Solved | None) -> Solved | None:
        """The same sought from one place alone."""
        kappa = np.zeros(self.basis.size) if near is None else near.unknowns
        factor = None if near is None else near.factor
        fresh = factor is None
        for _ in range(MOST):
            factor = self._system(self._choices(table, kappa)[2]) if factor is None else factor
            if factor is None:
                return None
            step = factor.solve(self._gap(table, kappa))
            length, share = float(np.linalg.norm(step)), 1.0
            if length <= SETTLED * (1.0 + np.linalg.norm(kappa)):
                break
            # The step that would follow, by the same factors, must be shorter: else half as far.
            while True:
                ahead = factor.solve(self._gap(table, kappa + share * step))
                left = float(np.linalg.norm(ahead)) / length
                if left <= 1.0 - 0.25 * share or not fresh or share < SHORTEST:
                    break
                share *= 0.5
            if share < SHORTEST or not np.isfinite(left + length):
                return None
            kappa = kappa + share * step if fresh or left <= SLOW else kappa
            factor = factor if left <= SLOW else None
            fresh = factor is None
        else:
            return None
        worth, values, policy = self._choices(table, kappa)
        factor = self._system(policy)  # exactly here: derivatives are solved by it
        if factor is None or not np.isfinite(values).all():
            return None
        log_policy = np.where(self.choices, worth - values[:, None], 0.0)
        return Solved(values[None], log_policy[None], policy[None], factor, kappa)

    def _gap(self, table: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """[P] by what the equations of the regression are missed."""
        values = self._choices(table, kappa)[1]
        missed = self._seen_after(values) - self.basis.worth(kappa)
        return self.basis.pulled(np.where(self._seen, missed, 0.0)) - self.penalty @ kappa

    def pilot(self, seen: np.ndarray, jacobian: np.ndarray) -> tuple[np.ndarray, Solved]:
        """Parameters [D] by two steps, and the coefficients that go with them.

        Choices are first regressed on the basis. Under the policy that gives, what an action is
        worth is linear in the parameters, and a logit finds these.
        """
        policy = self.regressed_choices(seen)
        system = self.system(policy) + self.penalty
        found = self.two_steps(seen, jacobian, policy, system)
        size, nothing = jacobian.shape[2], np.zeros(self.basis.size)
        x, kappa = (np.zeros(size), nothing) if found is None else found
        log_policy = np.log(np.maximum(policy, np.finfo(float).tiny))
        values = np.zeros((1, len(policy)))
        factor = Factors.of(_filled(system))
        return x, Solved(values, log_policy[None], policy[None], factor, kappa)

    def two_steps(
        self, seen: np.ndarray, jacobian: np.ndarray, policy: np.ndarray, system: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """([D] parameters, [P] coefficients) under a policy [n, A].

        `system` [P, P] is that of the policy, with a penalty; None where it is singular.
        """
        factor = Factors.of(_filled(system))
        if factor is None:
            return None
        average = np.einsum("na,nad->nd", policy, jacobian)
        surprise = -(policy * np.log(np.maximum(policy, np.finfo(float).tiny))).sum(axis=1)
        surprise[self.ends] = 0.0
        paid = np.concatenate([average, surprise[:, None]], axis=1)
        right = self.basis.pulled(np.where(self._seen[..., None], self._seen_after(paid), 0.0))
        slopes = factor.solve(right)
        worth = self.discount * self.basis.worth(slopes)
        rows = seen.any(axis=1)
        x = logit(jacobian[rows] + worth[rows, :, :-1], worth[rows, :, -1], seen[rows])
        return x, slopes @ np.append(x, 1.0)

    def regressed_choices(self, seen: np.ndarray) -> np.ndarray:
        """[n, A] choices seen [n, A] as a logit of the basis, roughly: a bound on its curvature."""
        size, basis, visits = self.basis.size, self.basis, seen.sum(axis=1)
        bound, rows = np.eye(size), visits > 0
        for table, columns in zip(basis.tables, basis.columns, strict=True):
            some = table[rows]
            bound[columns, columns] += 0.5 * some.T @ some
        factor, place = Factors.of(bound), np.zeros(size)
        assert factor is not None
        worth = np.zeros(seen.shape)
        for _ in range(ROUGH):
            policy = softmax(worth)
            slope = basis.pulled(seen - visits[:, None] * policy) - place
            place = place + factor.solve(slope)
            worth = basis.worth(place)
        policy = softmax(worth)
        policy[self.ends] = np.eye(1, self.actions)[0]
        return policy

    def adjoint(self, solved: Solved, seen: np.ndarray) -> np.ndarray:
        """[1, n] visits that were seen [1, n, A], and by what the next sites answer to them."""
        visits = seen[0].sum(axis=1)
        slope = visits[:, None] * solved.policy[0] - seen[0]
        return (visits + self._arrivals(solved, slope))[None]

    def reach(self, solved: Solved, start: np.ndarray) -> np.ndarray:
        """[1, n] discounted visits from the start [1, n], as the regression has them."""
        return start + self._arrivals(solved, self._started(solved, start[0]))[None]

    def respond(self, solved: Solved, jacobian: np.ndarray) -> np.ndarray:
        """[1, n, A, D] derivative of what an action is worth with all that follows it."""
        later = self.discount * self.basis.worth(self.coefficient_slopes(solved, jacobian))
        return (jacobian + np.where(self.ends[:, None, None], 0.0, later))[None]

    def coefficient_slopes(self, solved: Solved, jacobian: np.ndarray) -> np.ndarray:
        """[P, D] derivative of the coefficients, that of the utilities being [n, A, D]."""
        average = np.einsum("na,nad->nd", solved.policy[0], jacobian)
        right = np.where(self._seen[..., None], self._seen_after(average), 0.0)
        return solved.factor.solve(self.basis.pulled(right))

    def score_influence(self, solved: Solved, scores: np.ndarray, visits: np.ndarray) -> np.ndarray:
        """[n, D] by what the next site that was seen from each site moved the scores of all steps.

        `scores` [n, A, D] are those of one step, `visits` [n] the steps at each site. To first
        order the scores move with the continuation values alone.
        """
        return self._along(solved, scores, -visits)

    def sum_influence(
        self, solved: Solved, jacobian: np.ndarray, scores: np.ndarray, start: np.ndarray
    ) -> np.ndarray:
        """[n, D] the same of the expected sums of the features from the start [n].

        They move with the values, which make the policy, and with what follows the features [n, A,
        D] by themselves.
        """
        responses = self.respond(solved, jacobian)[0]
        average = np.einsum("na,nad->nd", solved.policy[0], responses)
        missed = self.discount * self._seen_after(average) - (responses - jacobian)
        levers = self._levers(solved, self._started(solved, start))
        own = np.einsum("na,nad->nd", np.where(self._seen, levers, 0.0), missed)
        own += start[:, None] * (average - start @ average)  # starts are draws, too
        visits = self.reach(solved, start[None])[0]
        return own + self._along(solved, scores, visits)

    def drawn_error(self, solved: Solved, random: np.random.Generator) -> np.ndarray:
        """[P] errors of the coefficients, drawn: what each row missed, by a random sign of it."""
        worth = self.basis.worth(solved.unknowns)
        missed = np.where(self._seen, self._seen_after(solved.values[0]) - worth, 0.0)
        signs = random.choice([-1.0, 1.0], int(self.draws.max()) + 1)[self.draws]
        return solved.factor.solve(self.basis.pulled(missed * signs[:, None]))

    def blur(self, solved: Solved, jacobian: np.ndarray, visits: np.ndarray) -> Blur:
        """What errors of the regression do to the scores of steps at visits [n], on average.

        Each error is taken as large as its row would have it without a lever of its own.
        """
        responses = self.respond(solved, jacobian)[0]
        average = np.einsum("na,nad->nd", solved.policy[0], responses)
        missed = self.discount * self._seen_after(average) - (responses - jacobian)
        worth = self.basis.worth(solved.unknowns)
        missed_worth = self.discount * (self._seen_after(solved.values[0]) - worth)
        errors = np.concatenate([missed, missed_worth[..., None]], axis=2)
        inverse = solved.factor.solve(np.eye(self.basis.size))
        spread = inverse.T @ self._contrasts(solved.policy[0], visits) @ inverse
        parts = list(zip(self.basis.tables, self.basis.columns, strict=True))
        for a, (table, columns) in enumerate(parts):
            levers = ((table @ inverse[columns, columns]) * table).sum(axis=1)
            errors[:, a] /= np.sqrt(1.0 - np.clip(levers, 0.0, MOST_LEVER))[:, None]
        size = jacobian.shape[2]
        total = np.zeros((size, size + 1))
        for (a, (table, columns)), (b, (other, others)) in product(enumerate(parts), repeat=2):
            seen = self._seen[:, a] & self._seen[:, b]  # one draw tells of several, if declared
            if seen.any():
                own = ((table[seen] @ spread[columns, others]) * other[seen]).sum(axis=1)
                total += (errors[seen, a, :size] * own[:, None]).T @ errors[seen, b]
        information = 0.5 * (total[:, :size] + total[:, :size].T)
        return Blur(information, total[:, size])

    def coefficient_law(
        self, solved: Solved, influence: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """([P, P], [P, D]) covariance of the coefficients by errors of the regression.

        With itself, and with scores that each site moved by its influence [n, D]. What the penalty
        takes from them is an error, too, and known no better than by its own size.
        """
        missed = self._seen_after(solved.values[0]) - self.basis.worth(solved.unknowns)
        missed = np.where(self._seen, missed, 0.0)
        size, many = self.basis.size, int(self.draws.max()) + 1
        law, across = np.zeros((size, size)), np.zeros((size, influence.shape[1]))
        parts = list(zip(self.basis.tables, self.basis.columns, strict=True))
        order = np.argsort(self.draws, kind="stable")
        edges = np.searchsorted(self.draws[order], np.arange(0, many + CHUNK, CHUNK))
        for first, (low, high) in enumerate(pairwise(edges.tolist())):
            at = order[low:high]
            place = self.draws[at] - first * CHUNK
            sums = np.zeros((CHUNK if len(at) else 0, size))
            for a, (table, columns) in enumerate(parts):
                np.add.at(sums[:, columns], place, table[at] * missed[at, a, None])
            moved = np.zeros((len(sums), influence.shape[1]))
            np.add.at(moved, place, influence[at])
            law += sums.T @ sums
            across += sums.T @ moved
        taken = self.penalty @ solved.unknowns
        law += np.outer(taken, taken)
        half = solved.factor.solve(law)
        law = solved.factor.solve(np.ascontiguousarray(half.T))
        return 0.5 * (law + law.T), solved.factor.solve(across)

    def _contrasts(self, policy: np.ndarray, visits: np.ndarray) -> np.ndarray:
        """[P, P] sum over visits [n] of the covariance of the basis over actions."""
        total = np.zeros((self.basis.size,) * 2)
        sites = np.flatnonzero(visits > 0)
        for first in range(0, len(sites), CHUNK):
            at = sites[first : first + CHUNK]
            mean = np.zeros((len(at), self.basis.size))
            for a, (table, columns) in enumerate(
                zip(self.basis.tables, self.basis.columns, strict=True)
            ):
                own, chance = table[at], policy[at, a, None]
                total[columns, columns] += own.T @ (own * chance * visits[at, None])
                mean[:, columns] += chance * own
            total -= mean.T @ (mean * visits[at, None])
        return total

    def _along(self, solved: Solved, scores: np.ndarray, visits: np.ndarray) -> np.ndarray:
        """[n, D] levers of the continuations at these visits, times errors of the regression."""
        steps = (visits[:, None] * solved.policy[0])[..., None] * scores
        worth = self.basis.worth(solved.unknowns)
        missed = np.where(self._seen, self._seen_after(solved.values[0]) - worth, 0.0)
        found = np.einsum("nad,na->nd", self._levers(solved, steps), missed)
        return self.discount * found

    def _levers(self, solved: Solved, weights: np.ndarray) -> np.ndarray:
        """[n, A, ...] by what weights [n, A, ...] of continuations answer to what is seen next."""
        right = self.basis.pulled(weights)
        return self.basis.worth(solved.factor.solve(right, transposed=True))

    def _arrivals(self, solved: Solved, weights: np.ndarray) -> np.ndarray:
        """[n] by what weights [n, A] of continuations answer to utilities of the next sites."""
        levers = self.discount * self._levers(solved, weights)
        led = self.following >= 0
        return np.bincount(self.following[led], weights=levers[led], minlength=self.states)

    def _started(self, solved: Solved, start: np.ndarray) -> np.ndarray:
        """[n, A] the first actions from the start [n]; none at ends."""
        return np.where(self.ends[:, None], 0.0, start[:, None] * solved.policy[0])

    @cached_property
    def _seen(self) -> np.ndarray:
        """[n, A] bool, after which actions something was seen."""
        return self.following != UNSEEN

    def _seen_after(self, values: np.ndarray) -> np.ndarray:
        """[n, A, ...] numbers of sites [n, ...] at the sites seen next; 0 where none pays."""
        led = (self.following >= 0).reshape(*self.following.shape, *(1,) * (values.ndim - 1))
        return np.where(led, values[np.maximum(self.following, 0)], 0.0)

    def _choices(
        self, table: np.ndarray, kappa: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """[n, A] worth of every action, [n] values and [n, A] policy at these coefficients."""
        worth = table + self.discount * self.basis.worth(kappa)
        if self.restricted:
            worth = np.where(self.choices, worth, -np.inf)
        values = np.asarray(logsumexp(worth, axis=1))
        policy = np.exp(worth - values[:, None])
        if self.ends.any():
            values = np.where(self.ends, table[:, 0], values)
            policy[self.ends] = np.eye(1, self.actions)[0]  # what an end pays is its first column's
        return worth, values, policy

    def _system(self, policy: np.ndarray) -> Factors | None:
        """The factors of minus the derivative of the regression's equations; None if singular."""
        return Factors.of(_filled(self.system(policy) + self.penalty))

    def system(self, policy: np.ndarray) -> np.ndarray:
        """[P, P] minus the derivative of the regression's equations, without the penalty."""
        size, basis = self.basis.size, self.basis
        system = np.zeros((size, size))
        inside = np.where(self.ends[:, None], 0.0, policy)
        for a, (table, columns) in enumerate(zip(basis.tables, basis.columns, strict=True)):
            every = np.flatnonzero(self._seen[:, a])
            for first in range(0, len(every), CHUNK):
                rows = every[first : first + CHUNK]
                own, after = table[rows], self.following[rows, a]
                led = after >= 0
                onward = np.zeros((len(rows), size))
                for b, (there, others) in enumerate(zip(basis.tables, basis.columns, strict=True)):
                    onward[led, others] += inside[after[led], b, None] * there[after[led]]
                system[columns] -= self.discount * own.T @ onward
                system[columns, columns] += own.T @ own
        return system


@dataclass(frozen=True, eq=False)
class LoggedSource:
    """A log as what dynamics are known from: what was seen next are independent draws.

    Attributes:
        draws: [n] number of the draw of each site.
    """

    draws: np.ndarray

    made = "only logged"

    def same(self, other: object) -> bool:
        """Whether both are one log."""
        return isinstance(other, LoggedSource) and self.draws is other.draws

    def worlds(self, seed: int, policy: np.ndarray) -> Iterator[Any]:
        """None: one orthogonal step takes the bias of a penalty off."""
        return iter(())

    def unseen(self, visits: np.ndarray) -> float:
        """NaN: rows are never seen twice."""
        return np.nan

    def covariance_of(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """[m, m] covariance of numbers, `parts` [n, m_i] being by what each site moved them."""
        rows = np.concatenate(parts, axis=1)
        sums = np.stack([np.bincount(self.draws, weights=column) for column in rows.T], axis=1)
        return sums.T @ sums


def _filled(system: np.ndarray) -> np.ndarray:
    """[P, P] the system, a function without a row having the coefficient 0."""
    idle = ~system.any(axis=1)
    system[idle, idle] = 1.0
    return system


def softmax(worth: np.ndarray) -> np.ndarray:
    """[n, A] chances of actions that are worth so much."""
    return np.exp(worth - np.asarray(logsumexp(worth, axis=1, keepdims=True)))


def logit(tables: np.ndarray, offsets: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """[D] the likeliest parameters of choices seen [n, A] by tables [n, A, D] and offsets [n, A].

    Roughly: a small ridge keeps them finite, and steps are cut at twice their place.
    """
    size, visits = tables.shape[2], seen.sum(axis=1)
    x = np.zeros(size)
    scale = float(visits.sum()) * 1e-4
    for _ in range(LOGIT):
        worth = tables @ x + offsets
        policy = softmax(worth)
        scores = tables - np.einsum("na,nad->nd", policy, tables)[:, None]
        slope = np.tensordot(seen, scores, 2) - scale * x
        flat = scores.reshape(-1, size)
        bend = flat.T @ (flat * (visits[:, None] * policy).reshape(-1, 1)) + scale * np.eye(size)
        step = np.linalg.solve(bend, slope)
        step /= max(1.0, float((np.abs(step) / (1.0 + 2.0 * np.abs(x))).max()))
        x = x + step
        if np.abs(step).max() <= 1e-6 * (1.0 + np.abs(x).max()):
            break
    return x
