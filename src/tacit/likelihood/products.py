"""The loss of very many features without their tables: one adjoint solve, and products.

The gradient of the loss is first a table over states and actions, the visits of the noisy expert
from the start less those that were seen (the envelope theorem: the values need no derivative), and
then pulled back by the transpose of the features. So neither the features as tables [D, S, A] nor
their D values are ever there. The curvature is known by its products with directions, two linear
solves each, and Newton's step is found from these by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from tacit.engine import undiscounted_fixed_point
from tacit.engine.backends import Host, soft_fixed_point
from tacit.engine.kernels.chains import chain_solve, policy_chain
from tacit.engine.kernels.systems import conjugate_gradients, inverse_by_values
from tacit.errors import InvalidModel
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.search.algebra import weighted_products
from tacit.search.operators import PRODUCTS, Products
from tacit.search.smooth_dual import VALUE_CARE, DualPoint

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Residual of the linear systems inside a product, relative to their right sides.
EXACT = 1e-10
# Numbers of the scores [D, S * A] that are written out at most, states, and parameters.
WRITTEN_OUT, STATES, PARAMETERS = 16_000_000, 3000, 2000
# Numbers of the derivatives [S, D] of all values that a step of Newton's holds; states at a time.
VALUES, BLOCK = 50_000_000, 2048
# Entries of a penalty up to which it is factorised.
DENSE = 2_000_000
# What visits may create or lose, as a share of the tolerance.
VISIT_CARE = 0.1


def can_write_out(design: Design) -> bool:
    """Whether the scores of all parameters, and their curvature [D, D], are small enough."""
    states, actions = design.shape
    few = design.size <= PARAMETERS and states <= STATES
    return few and design.size * states * actions <= WRITTEN_OUT


@dataclass(frozen=True, eq=False, kw_only=True)
class Loss:
    """start . V_soft(x . features) - <seen, x . features> + x . penalty x / 2.

    Attributes:
        mdp: the model.
        design: the features.
        start: [S] weights of the states: b of a likelihood, p0 of expectations.
        seen: [S, A] counts of a likelihood, mean discounted visits of expectations.
        visits: [S] weights of the curvature where those from `start` are not positive.
        penalty: [D, D] sparse and positive semidefinite; None for none.
    """

    mdp: MDP
    design: Design
    start: np.ndarray
    seen: np.ndarray
    visits: np.ndarray
    penalty: csr_array | None = None

    def at(self, x: np.ndarray, guess: np.ndarray, tolerance: float) -> DualPoint:
        """The loss and its derivatives at x [D], sought from values `guess` [S]."""
        mdp, backend = self.mdp, Host(self.mdp)
        reward, leak = self.design.table(x), mdp.leak
        size = float(np.abs(reward).max()) + np.log(1.0 + mdp.actions)
        precision = max(VALUE_CARE * tolerance * leak, 4e-16 / leak * size)
        given = (1.0, reward, guess, precision)
        if backend.walk is None:
            found = soft_fixed_point(backend, mdp.discount, *given)
        else:
            found = undiscounted_fixed_point(backend, soft_fixed_point, *given)
        values, policy, residual = found
        if not np.isfinite(residual):
            return self.blank(x, values)
        pulled = np.zeros(len(x)) if self.penalty is None else self.penalty @ x
        enough = VISIT_CARE * tolerance * float(np.abs(self.start).sum())
        chain = policy_chain(mdp, policy)
        visits = chain_solve(mdp, *chain, self.start, transposed=True, target=enough)
        information = Information(
            mdp=mdp,
            design=self.design,
            policy=policy,
            # With a start below zero some visits may be too, and the true curvature indefinite.
            visits=np.where(visits > 0, visits, self.visits),
            penalty=self.penalty,
        )
        gradient = self.design.pull_back(visits[:, None] * policy - self.seen) + pulled
        loss = self.start @ values - (self.seen * reward).sum() + 0.5 * x @ pulled
        return self.blank(x, values)._replace(
            loss=float(loss),
            gradient=gradient,
            curvature=information,
            policy=policy,
            visits=visits,
            residual=float(residual),
        )

    def blank(self, x: np.ndarray, values: np.ndarray) -> DualPoint:
        """A point at x [D] of which nothing is known."""
        policy = np.zeros(self.design.shape)
        return DualPoint(
            x=np.array(x, dtype=float),
            loss=np.inf,
            gradient=np.zeros(len(x)),
            curvature=Information(
                mdp=self.mdp,
                design=self.design,
                policy=policy,
                visits=policy[:, 0],
                penalty=self.penalty,
            ),
            values=values,
            table_values=np.zeros((0, len(values))),
            policy=policy,
            visits=policy[:, 0],
            residual=np.inf,
        )

    def finite_start(
        self, x: np.ndarray, lower: np.ndarray, upper: np.ndarray, tolerance: float
    ) -> DualPoint | None:
        """A point within bounds where values are finite; None where none is found.

        At x [D] if they are finite there. Else, at discount 1, a cost of every step ends all walks:
        the parameters whose table is nearest to one.
        """
        from scipy.sparse.linalg import LinearOperator, lsqr

        values = np.zeros(self.mdp.states)
        point = self.at(x, values, tolerance)
        if np.isfinite(point.loss):
            return point
        design, pairs = self.design, self.mdp.states * self.mdp.actions
        make = cast(Callable[..., LinearOperator], LinearOperator)  # its types lack these arguments
        operator = make(
            (pairs, design.size),
            matvec=lambda v: design.table(v).ravel(),
            rmatvec=lambda t: design.pull_back(t.reshape(design.shape)),
            dtype=np.float64,
        )
        costly = lsqr(operator, -np.ones(pairs), iter_lim=200)[0]
        for factor in np.log(1.0 + self.mdp.actions) * 2.0 ** np.arange(8):
            point = self.at(np.clip(factor * costly, lower, upper), values, tolerance)
            if np.isfinite(point.loss):
                return point
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Information:
    """sum_s visits(s) Cov_a[scores], known by its products with directions; and a penalty.

    Attributes:
        mdp: the model.
        design: the features.
        policy: [S, A].
        visits: [S] not negative.
        penalty: [D, D] sparse, added; None for none.
    """

    mdp: MDP
    design: Design
    policy: np.ndarray
    visits: np.ndarray
    penalty: csr_array | None = None

    @cached_property
    def _chain(self) -> tuple[np.ndarray, np.ndarray]:
        return policy_chain(self.mdp, self.policy)

    def solve(self, right: np.ndarray, *, transposed: bool) -> np.ndarray:
        """[S] the values or visits of the policy's chain, for a right side [S]."""
        size = np.abs(right).sum() if transposed else np.abs(right).max(initial=0.0)
        target = EXACT * max(float(size), 1e-300)
        return chain_solve(self.mdp, *self._chain, right, transposed=transposed, target=target)

    def __matmul__(self, direction: np.ndarray) -> np.ndarray:
        """[D] the product with a direction [D]: two linear solves."""
        mdp, policy = self.mdp, self.policy
        table = self.design.table(direction)
        values = self.solve((policy * table).sum(axis=1), transposed=False)
        scores = table + mdp.discount * mdp.expected_next(values) - values[:, None]
        flow = self.visits[:, None] * policy * scores
        # Scores average 0 under the policy, so the values at the states themselves drop out.
        back = self.solve(mdp.discount * mdp.inflow(flow), transposed=True)
        found = self.design.pull_back(flow + back[:, None] * policy)
        return found if self.penalty is None else found + np.asarray(self.penalty @ direction)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        """[D, D] the same, as `np.asarray` asks for it."""
        whole = self.written_out()
        if whole is None:
            raise InvalidModel(
                "several worlds or kinds need the curvature of their likelihood written out: at "
                f"most {PARAMETERS} features each; got {self.design.size}"
            )
        return whole

    @property
    def operator(self) -> Products:
        """It as a search asks for it, bounds stopping no coordinate."""
        return Products(matrix=self, rough=self.rough_inverse, written=self.written_out)

    def written_out(self) -> np.ndarray | None:
        """[D, D] the same; None where it is too large."""
        design = self.design
        if design.size > PARAMETERS or design.size * self.mdp.states > VALUES:
            return None
        if can_write_out(design):
            scores = table_scores(self.mdp, design.rows(slice(0, self.mdp.states)), self.policy)
            weights = (self.visits[:, None] * self.policy).ravel()
            found = weighted_products(scores.reshape(design.size, -1), weights)
        else:
            found = self.in_blocks()
        return found if self.penalty is None else found + self.penalty.toarray()

    def in_blocks(self) -> np.ndarray:
        """[D, D] that of the visits: a linear solve a parameter, then blocks of states."""
        mdp, design, policy = self.mdp, self.design, self.policy
        weights, moves = (self.visits[:, None] * policy).ravel(), mdp.sparse()
        values, found = np.empty((mdp.states, design.size)), np.zeros((design.size,) * 2)
        blocks = [slice(k, min(k + BLOCK, mdp.states)) for k in range(0, mdp.states, BLOCK)]
        for part in blocks:
            table = design.rows(part).reshape(-1, mdp.actions, design.size)
            values[part] = np.einsum("sa,sad->sd", policy[part], table)
        for j in range(design.size):
            values[:, j] = self.solve(values[:, j].copy(), transposed=False)
        for part in blocks:
            pairs = slice(part.start * mdp.actions, part.stop * mdp.actions)
            scores = design.rows(part) + mdp.discount * (moves[pairs] @ values)
            scores -= np.repeat(values[part], mdp.actions, axis=0)
            found += scores.T @ (weights[pairs, None] * scores)
        return found

    def inverse_times(
        self, right: np.ndarray, free: np.ndarray, *, share: float, most: int = PRODUCTS
    ) -> tuple[np.ndarray, int, float]:
        """[D] x with (this) x = right on the free parameters, as `conjugate_gradients` has it."""
        rough = self.rough_inverse
        return conjugate_gradients(self, right, free, share=share, most=most, rough=rough)

    @cached_property
    def _division(self) -> Callable[[np.ndarray], np.ndarray]:
        penalty, own = self.penalty, self.design.own_features
        if penalty is not None and own is not None:
            given = self.mdp.sparse(), self.policy, self.visits, self.mdp.discount, own
            if (found := inverse_by_values(*given, penalty)) is not None:
                return found
        if penalty is None or penalty.nnz <= len(self.design.scales) or penalty.nnz > DENSE:
            return lambda residual: residual
        from scipy.sparse import csc_array, eye_array
        from scipy.sparse.linalg import splu

        size = self.design.size
        probe = np.random.default_rng(0).choice([-1.0, 1.0], size)
        average = float(probe @ (replace(self, penalty=None) @ probe)) / size
        ridge = max(average, 1e-6 * float(penalty.diagonal().mean()))
        return splu(csc_array(penalty + ridge * eye_array(size))).solve

    def rough_inverse(self, residual: np.ndarray) -> np.ndarray:
        """[D] about the inverse of penalty and a multiple of one, times this: few steps then do."""
        return self._division(residual)


def table_values(mdp: MDP, tables: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """[S, D] the values of a policy, of tables [S * A, D]."""
    chain = np.zeros((mdp.states, mdp.states))
    rows, weights = policy_chain(mdp, policy)
    np.add.at(chain, (np.arange(mdp.states)[:, None], rows), weights)
    average = (policy[:, :, None] * tables.reshape(*policy.shape, -1)).sum(axis=1)
    return np.linalg.solve(np.eye(mdp.states) - mdp.discount * chain, average)


def table_scores(mdp: MDP, tables: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """[D, S, A] the scores of one step, of the parameters of tables [S * A, D]."""
    values, moves = table_values(mdp, tables, policy), mdp.sparse()
    scores = tables + mdp.discount * (moves @ values) - np.repeat(values, mdp.actions, axis=0)
    if mdp.restricted:
        scores[~mdp.choices.ravel()] = 0.0
    return np.ascontiguousarray(scores.T).reshape(-1, mdp.states, mdp.actions)
