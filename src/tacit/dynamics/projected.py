"""Dynamics that were only logged: soft values at the rows seen next, regressed on a basis.

The continuation of an action is discount * psi(site, action) . kappa, and kappa solves

    sum over what was seen of psi (V(next site) - psi . kappa) = penalty @ kappa,

by Newton's method on the coefficients of the basis (theory page, "Without a table"). A one-hot
basis without a penalty gives the dynamics counted from the same log. Nothing of size sites x
coefficients x actions is written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs

from tacit.dynamics import Factor, RegressorNoise, Solved, Source
from tacit.model.available import Sites

if TYPE_CHECKING:
    from tacit.model.mdp import MDP

# Entries of `Projected.following` that are no sites: an end that pays nothing, and nothing seen.
PAID, UNSEEN = -1, -2
# Sites whose products with a basis are formed at once.
SITES_AT_ONCE = 20_000
# Newton's method on the coefficients: the relative length of a step at which it has converged, and
# the most steps.
STEP_TOLERANCE, MOST_STEPS = 1e-11, 60
# Old factors are kept while each step leaves at most this share of the one before.
KEEP_FACTORS = 0.5
# Smallest share of a step that the line search tries.
SHORTEST = 1e-3
# Largest leverage that errors of the regression are corrected for.
LARGEST_LEVERAGE = 0.8
# Steps of the rough regression of choices, and of the logit that begins with it.
CHOICE_STEPS, LOGIT_STEPS = 40, 30


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
        solution, _ = solve(self.triangles, self.pivots, flat, trans=int(transposed))
        return solution.reshape(right.shape)


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
        """[n, A, ...] psi . coefficients, for coefficients [P, ...]."""
        rest = coefficients.shape[1:]
        worth = np.empty((len(self.tables[0]), len(self.tables), *rest))
        for a, (table, columns) in enumerate(zip(self.tables, self.columns, strict=True)):
            worth[:, a] = table @ coefficients[columns]
        return worth

    def pull_back(self, weights: np.ndarray) -> np.ndarray:
        """[P, ...] sum of weight * psi over sites and actions, for weights [n, A, ...]."""
        total = np.zeros((self.size, *weights.shape[2:]))
        for a, (table, columns) in enumerate(zip(self.tables, self.columns, strict=True)):
            total[columns] += table.T @ weights[:, a]
        return total


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
    def estimated(self) -> Projected:
        """Itself: nothing is known but from the log."""
        return self

    @property
    def source(self) -> LoggedSource:
        """The log that the dynamics were estimated from."""
        return LoggedSource(self.draws)

    def solve(self, table: np.ndarray, near: Solved | None) -> Solved | None:
        """The solution for utilities [n, A]; None where the regression has no finite one."""
        if near is not None:
            solution = self._solution(table, near.unknowns, near.factor)
            if solution is not None:
                return solution
        return self._solution(table, np.zeros(self.basis.size), None)

    def _solution(
        self, table: np.ndarray, guess: np.ndarray, factor: Factor | None
    ) -> Solved | None:
        """The solution from one guess of the coefficients [P]; `factor` is of a system nearby."""
        kappa = self._newton(table, guess, factor)
        if kappa is None:
            return None
        worth, values, policy = self._choices(table, kappa)
        factor = self._factored(policy)  # of the solution itself: derivatives are solved by it
        if factor is None or not np.isfinite(values).all():
            return None
        log_policy = np.where(self.choices, worth - values[:, None], 0.0)
        return Solved(values[None], log_policy[None], policy[None], factor, kappa)

    def _newton(
        self, table: np.ndarray, kappa: np.ndarray, factor: Factor | None
    ) -> np.ndarray | None:
        """[P] the coefficients, from a guess [P]; None where Newton's method does not converge.

        Factors of an earlier system serve while they take steps that shrink fast enough.
        """
        fresh = factor is None
        for _ in range(MOST_STEPS):
            if factor is None:
                factor = self._factored(self._choices(table, kappa)[2])
            if factor is None:
                return None
            step = factor.solve(self._residual(table, kappa))
            length = float(np.linalg.norm(step))
            if length <= STEP_TOLERANCE * (1.0 + np.linalg.norm(kappa)):
                return kappa
            share, next_length = self._shortened(table, kappa, step, factor, halve=fresh)
            left = next_length / length
            if share < SHORTEST or not np.isfinite(left + length):
                return None
            if fresh or left <= KEEP_FACTORS:
                kappa = kappa + share * step
            fresh = left > KEEP_FACTORS
            factor = None if fresh else factor
        return None

    def _shortened(
        self, table: np.ndarray, kappa: np.ndarray, step: np.ndarray, factor: Factor, *, halve: bool
    ) -> tuple[float, float]:
        """(share of a step [P] to take, length of the step that would follow by the same factors).

        The step to follow must be shorter (the natural monotonicity test of Deuflhard): else the
        share is halved, if that is wanted.
        """
        length, share = float(np.linalg.norm(step)), 1.0
        while True:
            next_step = factor.solve(self._residual(table, kappa + share * step))
            next_length = float(np.linalg.norm(next_step))
            shorter = next_length / length <= 1.0 - 0.25 * share
            if shorter or not halve or share < SHORTEST:
                return share, next_length
            share *= 0.5

    def _residual(self, table: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """[P] residual of the equations of the regression."""
        values = self._choices(table, kappa)[1]
        errors = self._regression_errors(values, kappa)
        return self.basis.pull_back(errors) - self.penalty @ kappa

    def _regression_errors(self, values: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """[n, A] values [n] at the sites seen next less psi . kappa; 0 where nothing was seen."""
        return np.where(self._seen, self._next(values) - self.basis.worth(kappa), 0.0)

    def starting_point(self, counts: np.ndarray, jacobian: np.ndarray) -> tuple[np.ndarray, Solved]:
        """([D] parameters, a warm start) by the two-step method, for counts [n, A] of steps.

        Choices are first regressed on the basis. Under the policy that gives, action values are
        linear in the parameters, and a logit estimates these. Its values are not solved for.
        """
        policy = self.regressed_choices(counts)
        system = self.system(policy) + self.penalty
        estimate = self.two_steps(counts, jacobian, policy, system)
        x, kappa = estimate or (np.zeros(jacobian.shape[2]), np.zeros(self.basis.size))
        values = np.zeros((1, len(policy)))
        log_policy = np.log(np.maximum(policy, np.finfo(float).tiny))
        factor = Factors.of(_filled(system))
        return x, Solved(values, log_policy[None], policy[None], factor, kappa)

    def two_steps(
        self, counts: np.ndarray, jacobian: np.ndarray, policy: np.ndarray, system: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """([D] parameters, [P] coefficients) for counts [n, A], under a policy [n, A].

        `system` [P, P] is that of the policy, with a penalty; None where it is singular.
        """
        factor = Factors.of(_filled(system))
        if factor is None:
            return None
        average = np.einsum("na,nad->nd", policy, jacobian)
        entropy = -(policy * np.log(np.maximum(policy, np.finfo(float).tiny))).sum(axis=1)
        entropy[self.ends] = 0.0
        slopes = factor.solve(self._pull_back_next(np.column_stack([average, entropy])))
        continuation = self.discount * self.basis.worth(slopes)
        rows = counts.any(axis=1)
        tables = jacobian[rows] + continuation[rows, :, :-1]
        x = logit(tables, continuation[rows, :, -1], counts[rows])
        return x, slopes @ np.append(x, 1.0)

    def regressed_choices(self, counts: np.ndarray) -> np.ndarray:
        """[n, A] policy of a rough logit of the basis, for counts [n, A] of steps.

        Every step uses one bound on the curvature, with a ridge of 1, that is factored once.
        """
        basis, visits = self.basis, counts.sum(axis=1)
        bound, rows = np.eye(basis.size), visits > 0
        for table, columns in zip(basis.tables, basis.columns, strict=True):
            visited = table[rows]
            bound[columns, columns] += 0.5 * visited.T @ visited
        factor = Factors.of(bound)
        assert factor is not None
        coefficients, worth = np.zeros(basis.size), np.zeros(counts.shape)
        for _ in range(CHOICE_STEPS):
            surplus = counts - visits[:, None] * softmax(worth)
            gradient = basis.pull_back(surplus) - coefficients
            coefficients = coefficients + factor.solve(gradient)
            worth = basis.worth(coefficients)
        policy = softmax(worth)
        policy[self.ends] = np.eye(1, self.actions)[0]
        return policy

    def adjoint(self, solved: Solved, counts: np.ndarray) -> np.ndarray:
        """[1, n] counted steps at each site, plus the derivative of the loss in the next values."""
        visits = counts[0].sum(axis=1)
        surplus = visits[:, None] * solved.policy[0] - counts[0]
        return (visits + self._arrivals(solved, surplus))[None]

    def visits_from(self, solved: Solved, start: np.ndarray) -> np.ndarray:
        """[1, n] discounted visits from the start [1, n], as the regression has them."""
        return start + self._arrivals(solved, self._first_actions(solved, start[0]))[None]

    def respond(self, solved: Solved, jacobian: np.ndarray) -> np.ndarray:
        """[1, n, A, D] derivative of action values, from that of utilities, [n, A, D]."""
        continuation = self.basis.worth(self.coefficient_slopes(solved, jacobian))
        continuation = self.discount * continuation
        return (jacobian + np.where(self.ends[:, None, None], 0.0, continuation))[None]

    def coefficient_slopes(self, solved: Solved, jacobian: np.ndarray) -> np.ndarray:
        """[P, D] derivative of the coefficients, from that of utilities, [n, A, D]."""
        average = np.einsum("na,nad->nd", solved.policy[0], jacobian)
        return _solve(solved, self._pull_back_next(average))

    def score_influence(self, solved: Solved, scores: np.ndarray, visits: np.ndarray) -> np.ndarray:
        """[n, D] first-order effect of each site's regression errors on the scores of all steps.

        `scores` [n, A, D] are those of one step, `visits` [n] counts the steps at each site. To
        first order the scores move with the continuation values alone.
        """
        return self._continuation_influence(solved, scores, -visits)

    def sum_influence(
        self, solved: Solved, jacobian: np.ndarray, scores: np.ndarray, start: np.ndarray
    ) -> np.ndarray:
        """[n, D] first-order effect of each site's errors on expected discounted feature sums.

        The sums, of features [n, A, D] from the start [n], move with the continuation values, which
        make the policy, with regressions of the sums themselves, and with the draw of the starts.
        """
        average, errors = self._feature_errors(solved, jacobian)
        levers = self._levers(solved, self._first_actions(solved, start))
        by_regression = np.einsum("na,nad->nd", np.where(self._seen, levers, 0.0), errors)
        by_start = start[:, None] * (average - start @ average)
        visits = self.visits_from(solved, start[None])[0]
        return by_regression + by_start + self._continuation_influence(solved, scores, visits)

    def _feature_errors(
        self, solved: Solved, jacobian: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """([n, D] expected discounted feature sums, [n, A, D] errors of their regression)."""
        responses = self.respond(solved, jacobian)[0]
        average = np.einsum("na,nad->nd", solved.policy[0], responses)
        return average, self.discount * self._next(average) - (responses - jacobian)

    def drawn_error(self, solved: Solved, random: np.random.Generator) -> np.ndarray:
        """[P] errors of the coefficients, drawn by the wild bootstrap.

        Each independent draw of the log has the errors of its regression times a random sign.
        """
        errors = self._regression_errors(solved.values[0], solved.unknowns)
        signs = random.choice([-1.0, 1.0], int(self.draws.max()) + 1)[self.draws]
        return _solve(solved, self.basis.pull_back(errors * signs[:, None]))

    def regressor_noise(
        self, solved: Solved, jacobian: np.ndarray, visits: np.ndarray
    ) -> RegressorNoise | None:
        """The errors in variables of steps at visits [n], by errors of the regression.

        Each error is divided by the square root of 1 - leverage (HC2): as large as it would be if
        its own row did not pull the regression towards itself.

        None where actions share one regression: its errors are the same for all of them but for
        what they leave, and this estimate of the rest is unstable where its system is.
        """
        if self.basis.columns[0] == self.basis.columns[-1]:
            return None
        size, inverse = jacobian.shape[2], _solve(solved, np.eye(self.basis.size))
        _, feature_errors = self._feature_errors(solved, jacobian)
        value_errors = self._next(solved.values[0]) - self.basis.worth(solved.unknowns)
        value_errors = self.discount * value_errors
        errors = np.concatenate([feature_errors, value_errors[..., None]], axis=2)
        covariance = self._basis_covariance(solved.policy[0], visits)
        covariance = inverse.T @ covariance @ inverse
        parts = list(zip(self.basis.tables, self.basis.columns, strict=True))
        for a, (table, columns) in enumerate(parts):
            leverage = ((table @ inverse[columns, columns]) * table).sum(axis=1)
            leverage = np.clip(leverage, 0.0, LARGEST_LEVERAGE)
            errors[:, a] /= np.sqrt(1.0 - leverage)[:, None]
        total = np.zeros((size, size + 1))
        for (a, (table, columns)), (b, (other, others)) in product(enumerate(parts), repeat=2):
            seen = self._seen[:, a] & self._seen[:, b]  # one draw serves several, if declared
            if seen.any():
                weights = ((table[seen] @ covariance[columns, others]) * other[seen]).sum(axis=1)
                total += (errors[seen, a, :size] * weights[:, None]).T @ errors[seen, b]
        information = 0.5 * (total[:, :size] + total[:, :size].T)
        return RegressorNoise(information, total[:, size])

    def coefficient_covariance(
        self, solved: Solved, influence: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """([P, P] covariance of the coefficients, [P, D] that with scores), by regression errors.

        Each site moves the scores by its influence [n, D]; sites of one draw add up. What the
        penalty takes from the coefficients is an error, too, as uncertain as it is large.
        """
        errors = self._regression_errors(solved.values[0], solved.unknowns)
        size, draws = self.basis.size, int(self.draws.max()) + 1
        covariance, cross = np.zeros((size, size)), np.zeros((size, influence.shape[1]))
        parts = list(zip(self.basis.tables, self.basis.columns, strict=True))
        order = np.argsort(self.draws, kind="stable")
        begins = np.arange(0, draws + SITES_AT_ONCE, SITES_AT_ONCE)
        edges = np.searchsorted(self.draws[order], begins).tolist()
        for begin, (low, high) in zip(begins[:-1], pairwise(edges), strict=True):
            sites = order[low:high]
            draw = self.draws[sites] - begin
            error_sums = np.zeros((SITES_AT_ONCE if len(sites) else 0, size))
            for a, (table, columns) in enumerate(parts):
                np.add.at(error_sums[:, columns], draw, table[sites] * errors[sites, a, None])
            influence_sums = np.zeros((len(error_sums), influence.shape[1]))
            np.add.at(influence_sums, draw, influence[sites])
            covariance += error_sums.T @ error_sums
            cross += error_sums.T @ influence_sums
        penalised = self.penalty @ solved.unknowns
        covariance += np.outer(penalised, penalised)
        covariance = _solve(solved, covariance)
        covariance = _solve(solved, np.ascontiguousarray(covariance.T))
        return 0.5 * (covariance + covariance.T), _solve(solved, cross)

    def _basis_covariance(self, policy: np.ndarray, visits: np.ndarray) -> np.ndarray:
        """[P, P] sum over visits [n] of the covariance of the basis over actions."""
        total = np.zeros((self.basis.size,) * 2)
        visited = np.flatnonzero(visits > 0)
        for first in range(0, len(visited), SITES_AT_ONCE):
            sites = visited[first : first + SITES_AT_ONCE]
            mean = np.zeros((len(sites), self.basis.size))
            for a, (table, columns) in enumerate(
                zip(self.basis.tables, self.basis.columns, strict=True)
            ):
                functions, chance = table[sites], policy[sites, a, None]
                total[columns, columns] += functions.T @ (functions * chance * visits[sites, None])
                mean[:, columns] += chance * functions
            total -= mean.T @ (mean * visits[sites, None])
        return total

    def _continuation_influence(
        self, solved: Solved, scores: np.ndarray, visits: np.ndarray
    ) -> np.ndarray:
        """[n, D] effect of regression errors, by continuations, on score sums at visits [n]."""
        weights = (visits[:, None] * solved.policy[0])[..., None] * scores
        errors = self._regression_errors(solved.values[0], solved.unknowns)
        effect = np.einsum("nad,na->nd", self._levers(solved, weights), errors)
        return self.discount * effect

    def _levers(self, solved: Solved, weights: np.ndarray) -> np.ndarray:
        """[n, A, ...] derivative of sum weights [n, A, ...] * psi . kappa in the values seen next.

        These are the right sides of the regression: lambda in the theory of logged dynamics.
        """
        right = self.basis.pull_back(weights)
        return self.basis.worth(_solve(solved, right, transposed=True))

    def _arrivals(self, solved: Solved, weights: np.ndarray) -> np.ndarray:
        """[n] derivative of sum weights [n, A] * continuation in the values of the next sites."""
        levers = self.discount * self._levers(solved, weights)
        led = self.following >= 0
        return np.bincount(self.following[led], weights=levers[led], minlength=self.states)

    def _first_actions(self, solved: Solved, start: np.ndarray) -> np.ndarray:
        """[n, A] chances of the first site and action, from the start [n]; 0 at ends."""
        return np.where(self.ends[:, None], 0.0, start[:, None] * solved.policy[0])

    @cached_property
    def _seen(self) -> np.ndarray:
        """[n, A] bool, after which actions something was seen."""
        return self.following != UNSEEN

    def _pull_back_next(self, values: np.ndarray) -> np.ndarray:
        """[P, ...] sum of psi * values [n, ...] of the next site, over what was seen."""
        return self.basis.pull_back(np.where(self._seen[..., None], self._next(values), 0.0))

    def _next(self, values: np.ndarray) -> np.ndarray:
        """[n, A, ...] values [n, ...] at the sites seen next; 0 at unpaid ends and unseen ones."""
        led = (self.following >= 0).reshape(*self.following.shape, *(1,) * (values.ndim - 1))
        return np.where(led, values[np.maximum(self.following, 0)], 0.0)

    def _choices(
        self, table: np.ndarray, kappa: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """([n, A] action values, [n] values, [n, A] policy) at coefficients kappa [P]."""
        worth = table + self.discount * self.basis.worth(kappa)
        if self.restricted:
            worth = np.where(self.choices, worth, -np.inf)
        values = log_sums(worth)
        policy = np.exp(worth - values[:, None])
        if self.ends.any():
            values = np.where(self.ends, table[:, 0], values)
            policy[self.ends] = np.eye(1, self.actions)[0]  # what an end pays is its first column's
        return worth, values, policy

    def _factored(self, policy: np.ndarray) -> Factors | None:
        """The factors of the system, with the penalty; None where it is singular."""
        return Factors.of(_filled(self.system(policy) + self.penalty))

    def system(self, policy: np.ndarray) -> np.ndarray:
        """[P, P] minus the derivative of the regression's equations, without the penalty.

        It is the sum, over what was seen, of psi (psi - discount * psi_next)', where psi_next is
        the average over the policy [n, A] at the next site, and 0 after an end.
        """
        basis = self.basis
        system = np.zeros((basis.size, basis.size))
        inside = np.where(self.ends[:, None], 0.0, policy)
        for a, (table, columns) in enumerate(zip(basis.tables, basis.columns, strict=True)):
            seen = np.flatnonzero(self._seen[:, a])
            for first in range(0, len(seen), SITES_AT_ONCE):
                rows = seen[first : first + SITES_AT_ONCE]
                functions, next_sites = table[rows], self.following[rows, a]
                led = next_sites >= 0
                next_functions = np.zeros((len(rows), basis.size))
                for b, next_columns in enumerate(basis.columns):
                    chances = inside[next_sites[led], b, None]
                    next_functions[led, next_columns] += chances * basis.tables[b][next_sites[led]]
                system[columns] -= self.discount * functions.T @ next_functions
                system[columns, columns] += functions.T @ functions
        return system


@dataclass(frozen=True, eq=False)
class LoggedSource:
    """A log that dynamics were estimated from: the sites seen next are independent draws.

    Attributes:
        draws: [n] number of the draw of each site.
    """

    draws: np.ndarray

    description = "only logged"

    def same_steps(self, other: Source | None) -> bool:
        """Whether both are the same log."""
        return isinstance(other, LoggedSource) and self.draws is other.draws

    def drawn_worlds(self, seed: int, policy: np.ndarray) -> Iterator[MDP]:
        """No world: one orthogonal step removes the bias of a penalty."""
        return iter(())

    def unseen_share(self, visits: np.ndarray) -> float:
        """NaN: no row is seen twice, so that the share cannot be estimated."""
        return np.nan

    def joint_covariance(self, influences: Sequence[np.ndarray]) -> np.ndarray:
        """[m, m] covariance of m numbers; `influences` [n, m_i] are the effects of each site."""
        rows = np.concatenate(influences, axis=1)
        sums = np.stack([np.bincount(self.draws, weights=column) for column in rows.T], axis=1)
        return sums.T @ sums


def _filled(system: np.ndarray) -> np.ndarray:
    """[P, P] the system with a 1 for each function that was never seen: its coefficient is 0."""
    idle = ~system.any(axis=1)
    system[idle, idle] = 1.0
    return system


def _solve(solved: Solved, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """[P, ...] the solution of the linearised regression for right sides [P, ...]."""
    assert solved.factor is not None
    return solved.factor.solve(right, transposed=transposed)


def softmax(worth: np.ndarray) -> np.ndarray:
    """[n, A] chances of actions with values [n, A]."""
    return np.exp(worth - log_sums(worth)[:, None])


def log_sums(worth: np.ndarray) -> np.ndarray:
    """[n] logarithms of sums over actions of exp(worth) [n, A]; one of each row is finite."""
    most = worth.max(axis=1)
    return most + np.log(np.exp(worth - most[:, None]).sum(axis=1))


def logit(tables: np.ndarray, offsets: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """[D] maximum-likelihood parameters of a conditional logit, roughly, for counts [n, A].

    Action values are tables [n, A, D] times the parameters, and offsets [n, A]. A small ridge keeps
    parameters finite, and no step moves a parameter x by more than 1 + 2 |x|.
    """
    size, visits = tables.shape[2], counts.sum(axis=1)
    x = np.zeros(size)
    ridge = float(visits.sum()) * 1e-4
    for _ in range(LOGIT_STEPS):
        policy = softmax(tables @ x + offsets)
        scores = tables - np.einsum("na,nad->nd", policy, tables)[:, None]
        gradient = np.tensordot(counts, scores, 2) - ridge * x
        flat = scores.reshape(-1, size)
        weights = (visits[:, None] * policy).reshape(-1, 1)
        information = flat.T @ (flat * weights) + ridge * np.eye(size)
        step = np.linalg.solve(information, gradient)
        step /= max(1.0, float((np.abs(step) / (1.0 + 2.0 * np.abs(x))).max()))
        x = x + step
        if np.abs(step).max() <= 1e-6 * (1.0 + np.abs(x).max()):
            break
    return x
