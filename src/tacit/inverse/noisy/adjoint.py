"""Fits with very many features: gradients by one adjoint solve, Newton's steps by products.

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
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from tacit.engine import undiscounted_fixed_point
from tacit.engine.backends import Host, soft_fixed_point
from tacit.engine.kernels.chains import chain_solve, policy_chain
from tacit.engine.kernels.systems import bounded_step, conjugate_gradients, inverse_by_values
from tacit.engine.progress import pursue
from tacit.errors import InvalidModel
from tacit.inverse.noisy import table_scores
from tacit.likelihood.protocol import LARGEST
from tacit.likelihood.rescue import FAR
from tacit.likelihood.start import NOWHERE, Bounds
from tacit.likelihood.steps import information, over_an_episode
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.search.minimise import REST
from tacit.search.operators import Matrices
from tacit.search.smooth_dual import VALUE_CARE

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Products with the curvature for one step of Newton's, at most.
PRODUCTS = 250
# Residual of the linear systems inside a product, relative to their right sides.
EXACT = 1e-10
# Numbers of the scores [D, S * A] that are written out at most, states, and parameters.
WRITTEN_OUT, STATES, PARAMETERS = 16_000_000, 3000, 2000
# Numbers of the derivatives [S, D] of all values that a step of Newton's holds; states at a time.
VALUES, BLOCK = 50_000_000, 2048
# Entries of a penalty up to which it is factorised.
DENSE = 2_000_000
# A step shortened to less than this share gains nothing more.
SHORTEST = 1e-10
# Times as far as parameters go that are infinite, a search may go and come back: some overshoot.
OVERSHOT = 8.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Loss:
    """start . V_soft(x . features) - <seen, x . features> + x . penalty x / 2, within bounds.

    Attributes:
        mdp: the model.
        design: the features.
        start: [S] weights of the states: b of a likelihood, p0 of expectations.
        seen: [S, A] counts of a likelihood, mean discounted visits of expectations.
        lower: [D] bounds.
        upper: [D] bounds.
        visits: [S] weights of the curvature where those from `start` are not positive.
        penalty: [D, D] sparse and positive semidefinite; None for none.
    """

    mdp: MDP
    design: Design
    start: np.ndarray
    seen: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    visits: np.ndarray
    penalty: csr_array | None = None

    @classmethod
    def of(
        cls,
        mdp: MDP,
        design: Design,
        counts: np.ndarray,
        *,
        bounds: Bounds,
        penalty: csr_array | None,
    ) -> Loss:
        """Minus the log-likelihood of counted steps [S, A], and the penalty."""
        visits = counts.sum(axis=1)
        return cls(
            mdp=mdp,
            design=design,
            start=visits - mdp.discount * mdp.inflow(counts),
            seen=counts,
            lower=bounds.lower,
            upper=bounds.upper,
            visits=visits,
            penalty=penalty,
        )

    @property
    def scale(self) -> float:
        """Size of a gradient entry that counts as one: most that a feature of range 1 collects."""
        return float(over_an_episode(self.mdp, max(float(np.abs(self.start).sum()), 1e-300)))

    @property
    def space(self) -> Design:
        """The features, scaled."""
        return self.design

    @property
    def counts(self) -> np.ndarray:
        """[S, A] what was seen."""
        return self.seen

    squares = None
    lost = None

    def scores(self, place: Place) -> np.ndarray:
        """[D, S, A] the score of one step."""
        return table_scores(self.mdp, self.design.rows(slice(0, self.mdp.states)), place.policy)

    def unsettled(self, place: Place) -> bool:
        """Whether the values of a place are not those of a policy."""
        return bool(place.residual > 1e-8 * (1.0 + float(np.abs(place.values).max())))

    def pulled(self, x: np.ndarray) -> np.ndarray:
        """[D] penalty times x."""
        return np.zeros(len(x)) if self.penalty is None else np.asarray(self.penalty @ x)

    def at(self, x: np.ndarray, guess: np.ndarray, tolerance: float) -> Place:
        """The `Place` at x [D], sought from values `guess` [S]: one adjoint solve."""
        mdp, backend = self.mdp, Host(self.mdp)
        reward, leak = self.design.table(x), self.mdp.leak
        size = float(np.abs(reward).max()) + np.log(1.0 + mdp.actions)
        precision = max(VALUE_CARE * tolerance * leak, 4e-16 / leak * size)
        if backend.walk is not None:
            way = (soft_fixed_point, 1.0, reward, guess, precision)
            found = undiscounted_fixed_point(backend, *way)
        else:
            found = soft_fixed_point(backend, mdp.discount, 1.0, reward, guess, precision)
        values, policy, residual = found
        if not np.isfinite(residual):
            nothing = np.zeros(len(x))
            return Place(x, np.inf, nothing, values, policy, self.start, np.inf)
        loss = self.start @ values - (self.seen * reward).sum() + 0.5 * x @ self.pulled(x)
        enough = 0.1 * tolerance * float(np.abs(self.start).sum())
        rows, weights = policy_chain(mdp, policy)
        visits = chain_solve(mdp, rows, weights, self.start, transposed=True, target=enough)
        gradient = self.design.pull_back(visits[:, None] * policy - self.seen) + self.pulled(x)
        return Place(x, float(loss), gradient, values, policy, visits, float(residual))

    def held(self, place: Place) -> np.ndarray:
        """[D] bool, the parameters that their bound holds back."""
        x, gradient = place.x, place.gradient
        return ((x <= self.lower) & (gradient > 0)) | ((x >= self.upper) & (gradient < 0))

    def missed(self, place: Place) -> float:
        """Largest entry of the gradient that no bound holds back, relative to its scale."""
        return float(
            np.abs(np.where(self.held(place), 0.0, place.gradient)).max(initial=0.0) / self.scale
        )


class Place(NamedTuple):
    """The loss and its gradient at one x."""

    x: np.ndarray  # [D]
    loss: float
    gradient: np.ndarray  # [D]
    values: np.ndarray  # [S]
    policy: np.ndarray  # [S, A]
    visits: np.ndarray  # [S] discounted visits from the start
    residual: float  # Bellman residual left


class Descent(NamedTuple):
    """Where a search stands."""

    place: Place
    steps: int
    products: int  # with the curvature, in all
    missed: float  # projected gradient, relative to its scale
    stuck: bool


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "_chain", policy_chain(self.mdp, self.policy))

    def solve(self, right: np.ndarray, *, transposed: bool) -> np.ndarray:
        """[S] the values or visits of the policy's chain, for a right side [S]."""
        size = np.abs(right).sum() if transposed else np.abs(right).max(initial=0.0)
        target = EXACT * max(float(size), 1e-300)
        rows, weights = self.__dict__["_chain"]
        return chain_solve(self.mdp, rows, weights, right, transposed=transposed, target=target)

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

    def written(self) -> np.ndarray:
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
        rough = self._rough_inverse
        return conjugate_gradients(self, right, free, share=share, most=most, rough=rough)

    @cached_property
    def _rough_inverse(self) -> Callable[[np.ndarray], np.ndarray]:
        """An approximate inverse, of the penalty and a multiple of one: few steps then do."""
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


def curvature(loss: Loss, place: Place) -> Information:
    """The curvature of the loss at a place, made positive where a negative start bends it down."""
    return Information(
        mdp=loss.mdp,
        design=loss.design,
        policy=place.policy,
        visits=np.where(place.visits > 0, place.visits, loss.visits),
        penalty=loss.penalty,
    )


def begin(loss: Loss, tolerance: float) -> Place:
    """A `Place` to search from that has finite values; `InvalidModel` where there is none."""
    values = np.zeros(loss.mdp.states)
    place = loss.at(np.clip(0.0, loss.lower, loss.upper), values, tolerance)
    if np.isfinite(place.loss):
        return place
    # Discount 1: a cost of every step ends all walks. The parameters whose table is nearest to it.
    from scipy.sparse.linalg import LinearOperator, lsqr

    design, pairs = loss.design, loss.mdp.states * loss.mdp.actions
    make = cast(Callable[..., LinearOperator], LinearOperator)  # its types lack these arguments
    operator = make(
        (pairs, design.size),
        matvec=lambda v: design.table(v).ravel(),
        rmatvec=lambda t: design.pull_back(t.reshape(design.shape)),
        dtype=np.float64,
    )
    costly = lsqr(operator, -np.ones(pairs), iter_lim=200)[0]
    for factor in np.log(1.0 + loss.mdp.actions) * 2.0 ** np.arange(8):
        place = loss.at(np.clip(factor * costly, loss.lower, loss.upper), values, tolerance)
        if np.isfinite(place.loss):
            return place
    raise InvalidModel(NOWHERE)


def descend(
    loss: Loss, near: Place, *, tolerance: float, max_steps: int, stage: str = "fit", aim: float = 0
) -> Descent:
    """The search for the minimum from a place, until the projected gradient meets the tolerance.

    Newton's steps: to the minimum of the quadratic model within the bounds, never far beyond
    doubling, and shortened until the loss falls, and is finite. A gradient of `aim` will do.
    """

    def ahead(at: Descent, until: int | None) -> Descent:
        limit = max_steps if until is None else min(until, max_steps)
        while at.steps < limit and not at.stuck and at.missed > max(aim, REST * tolerance):
            if loss.penalty is None and runs_away(at.place, OVERSHOT * FAR):
                break
            at = _step(loss, at, tolerance)
        return at

    def begin(place: Place) -> Descent:
        return Descent(place, 0, 0, loss.missed(place), False)

    return pursue(
        stage,
        begin(near),
        ahead,
        step=lambda at: int(at.steps),
        numbers=lambda at: {"loss": float(at.place.loss), "projected_gradient": float(at.missed)},
        inputs=(loss.mdp.transitions, loss.seen, loss.start, loss.lower, near.x, tolerance),
        save=lambda at: at.place.x,
        restore=lambda x: begin(loss.at(x, near.values, tolerance)),
    )


def _step(loss: Loss, at: Descent, tolerance: float) -> Descent:
    place = at.place
    free = ~loss.held(place) & (loss.upper > loss.lower)
    share = min(0.1, np.sqrt(at.missed))
    bent = curvature(loss, place)
    bounds = (loss.lower - place.x, loss.upper - place.x)
    if np.isinf(loss.lower).all() and (loss.upper >= LARGEST).all():
        direction, products, _ = bent.inverse_times(-place.gradient, free, share=share)
    elif loss.design.size <= PARAMETERS and loss.design.size * loss.mdp.states <= VALUES:
        direction, products = _written_step(loss, place, bent), 0
    else:
        direction, products = bounded_step(
            bent, place.gradient, *bounds, share=share, most=4 * PRODUCTS
        )
    if not direction.any():  # no curvature at all: downhill
        direction = np.where(free, -place.gradient / loss.scale, 0.0)
    longest = 2.0 * np.abs(place.x) + 1.0
    direction = direction / max(1.0, float(np.abs(direction / longest).max(initial=0.0)))
    rounding = 1e-13 * (abs(place.loss) + float(np.abs(loss.seen).sum()))
    length, trial = 1.0, None
    while length > SHORTEST:
        x = np.clip(place.x + length * direction, loss.lower, loss.upper)
        trial = loss.at(x, place.values, tolerance)
        slope = min(float(place.gradient @ (x - place.x)), 0.0)
        if trial.loss <= place.loss + 1e-4 * slope + rounding:
            break
        length *= 0.25
    stuck = trial is None or length <= SHORTEST
    kept = place if trial is None or stuck else trial
    return Descent(kept, at.steps + 1, at.products + products, loss.missed(kept), stuck)


def _written_step(loss: Loss, place: Place, bent: Information) -> np.ndarray:
    """[D] Newton's step within bounds, from the curvature [D, D]."""
    if can_write_out(loss.design):
        scores = table_scores(loss.mdp, loss.design.rows(slice(0, loss.mdp.states)), place.policy)
        whole = information(scores, place.policy, bent.visits)
    else:
        whole = bent.written()
    whole = whole if loss.penalty is None else whole + loss.penalty.toarray()
    # What would go far beyond doubling, as it tells next to nothing, stops there alone: to shorten
    # the step for its sake would hold back all others.
    near = 2.0 * np.abs(place.x) + 1.0
    lower, upper = np.maximum(loss.lower, place.x - near), np.minimum(loss.upper, place.x + near)
    box = (lower - place.x)[None], (upper - place.x)[None]
    return Matrices(whole[None]).bounded_step(place.gradient[None], *box)[0]


def runs_away(place: Place, far: float = FAR) -> bool:
    """Whether a search has gone so far that the best parameters seem to be infinite."""
    return float(np.abs(place.x).max(initial=0.0)) > far


def can_write_out(design: Design) -> bool:
    """Whether the scores of all parameters, and their curvature [D, D], are small enough."""
    states, actions = design.shape
    few = design.size <= PARAMETERS and states <= STATES
    return few and design.size * states * actions <= WRITTEN_OUT
