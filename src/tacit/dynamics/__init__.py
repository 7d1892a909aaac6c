"""Where actions lead, as a likelihood asks for it: soft values and three linear maps around them.

A noisy expert with utilities u(s, a) takes action a with probability exp(q(s, a) - V(s)), where

    q(s, a) = u(s, a) + discount * E[V(next site) | s, a],    V(s) = log sum_a exp q(s, a),

the soft Bellman equations at temperature 1; a site that ends the episode has V(s) = u(s, 0).
`Dynamics` is all that a `DynamicsChain` needs of a world, so a new kind of world is one class; the
page "How it is built" has an example. Worlds of states (`likelihood/steps.py`) and of goals (trips)
have fused chains of their own, which do the same in one pass over tables.

Axes: L layers (times, goals; else 1), n sites (states, nodes, rows), A actions, D features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from tacit.model.mdp import MDP


class Factor(Protocol):
    """A square matrix in factors."""

    def solve(self, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
        """[P, ...] the solution of the system, or the transposed one, for right sides [P, ...]."""
        ...


class Solved(NamedTuple):
    """The solution of the soft Bellman equations for one table of utilities."""

    values: np.ndarray  # [L, n] V
    log_policy: np.ndarray  # [L, n, A] q - V; 0 where an action is not available
    policy: np.ndarray  # [L, n, A] its exponential; 0 where an action is not available
    factor: Factor | None = None  # of the linearised equations; None if the kind needs none
    unknowns: np.ndarray = np.empty(0)  # what the equations were solved for: the next warm start


class RegressorNoise(NamedTuple):
    """Errors in variables: what errors of estimated dynamics do to scores and information.

    Features with all that follows them are the regressors of the choices. Errors make them differ
    between actions where they do not: this passes for information and shrinks coefficients.
    """

    information: np.ndarray  # [D, D] the part of the information that is errors alone
    score_bias: np.ndarray  # [D] what the scores of all steps lack on average


class Source(Protocol):
    """The data that dynamics were estimated from: counted steps, or a log."""

    @property
    def description(self) -> str:
        """How the dynamics were estimated, after "The dynamics were": counted, or only logged."""
        ...

    def same_steps(self, other: Source | None, /) -> bool:
        """Whether both are the same data: estimates from them then have the same errors."""
        ...

    def joint_covariance(self, influences: Sequence[Any], /) -> np.ndarray:
        """[m, m] covariance of m numbers, caused by errors of the estimated dynamics.

        `influences` have the first-order effects of those errors, an entry for each group of the m
        numbers, as `ChainEvidence.dynamics_influence` of chains with this source returns them.
        """
        ...

    def drawn_worlds(self, seed: int, policy: np.ndarray, /) -> Iterator[MDP]:
        """Worlds drawn around the estimate, in pairs of opposite errors; perhaps none.

        Draws do not depend on how states and actions are numbered: where the dynamics do not
        distinguish them, the policy [n, A] does.
        """
        ...

    def unseen_share(self, visits: np.ndarray, /) -> float:
        """Share of the steps from sites, visited [n] times, to successors that were never seen."""
        ...


class EstimatedDynamics(Protocol):
    """Dynamics with estimation errors, independent between sites."""

    @property
    def source(self) -> Source:
        """The data they were estimated from."""
        ...

    def starting_point(
        self, counts: np.ndarray, jacobian: np.ndarray, /
    ) -> tuple[np.ndarray, Solved]:
        """([D] parameters, a warm start) near the optimum for counts [n, A] of observed steps."""
        ...

    def score_influence(
        self, solved: Solved, scores: np.ndarray, visits: np.ndarray, /
    ) -> np.ndarray:
        """[n, D] first-order effect of each site's error on the sum of the scores of all steps.

        `scores` [n, A, D] are those of one step, `visits` [n] counts the steps at each site.
        """
        ...

    def sum_influence(
        self, solved: Solved, jacobian: np.ndarray, scores: np.ndarray, start: np.ndarray, /
    ) -> np.ndarray:
        """[n, D] first-order effect of each site's error on expected discounted feature sums.

        The sums are of features `jacobian` [n, A, D], from sites drawn from `start` [n].
        """
        ...

    def regressor_noise(
        self, solved: Solved, jacobian: np.ndarray, visits: np.ndarray, /
    ) -> RegressorNoise | None:
        """The errors in variables of steps at visits [n], with features `jacobian` [n, A, D].

        None where refits in the drawn worlds of the source measure them.
        """
        ...


class Dynamics(Protocol):
    """Where actions lead: the soft Bellman equations of one world, and their derivatives."""

    @property
    def layers(self) -> int:
        """L."""
        ...

    @property
    def discount(self) -> float:
        """Weight of the next step against this one."""
        ...

    @property
    def estimated(self) -> EstimatedDynamics | None:
        """The same dynamics with their estimation errors; None where they are known."""
        ...

    def solve(self, table: np.ndarray, near: Solved | None) -> Solved | None:
        """The solution for utilities [n, A]; None where values are not finite.

        `near` is a solution for similar utilities, as a warm start.
        """
        ...

    def adjoint(self, solved: Solved, counts: np.ndarray) -> np.ndarray:
        """[L, n] weights y, by which the loss of counted steps [L, n, A] depends on utilities.

        The loss is -sum counts * log_policy, and its derivative in u(s, a) is the sum over layers
        of y(s) policy(s, a) - counts(s, a). In a known world y = b + discount * (inflow of y *
        policy), with b of the theory page, "The step likelihood"; y may be negative.
        """
        ...

    def visits_from(self, solved: Solved, start: np.ndarray) -> np.ndarray:
        """[L, n] expected discounted visits of episodes that begin as start [L, n] says.

        With them visits * policy is the derivative of sum start * values in the utilities.
        """
        ...

    def respond(self, solved: Solved, jacobian: np.ndarray) -> np.ndarray:
        """[L, n, A, D] derivative of q in D parameters, from that of utilities, [n, A, D]."""
        ...
