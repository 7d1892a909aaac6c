"""What the smooth algorithms ask of a model, whatever engine holds it.

Expected next value [S] -> [S, A], its transpose, next-state inflow [S, A] -> [S], the soft backup
made of the first, and the linear systems of the chain that a policy makes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

# The devices that large models are split over (`tacit.scale.sharded`), a `jax.sharding.Mesh`.
MESH: ContextVar[Any] = ContextVar("tacit_mesh", default=None)


class Backend(Protocol):
    """The dynamics of a model, and the engine they live in."""

    arrays: Any  # numpy or jax.numpy
    direct: bool  # whether systems are solved by elimination: rough answers cost as much as fine

    def while_loop(self, going: Callable, step: Callable, state: Any) -> Any:
        """The state after repeating `step` while `going`."""
        ...

    def select(self, condition: Any, new: Any, old: Any) -> Any:
        """`new` if the condition holds, else `old`; both are trees of arrays."""
        ...

    def expected_next(self, values: Any) -> Any:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        ...

    def inflow(self, table: Any) -> Any:
        """[S] what flows into each state when `table` [S, A] flows out."""
        ...

    def soft_backup(
        self, discount: Any, temperature: Any, reward: Any, values: Any
    ) -> tuple[Any, Any]:
        """[S] soft values after one backup of `values`, and [S, A] the Boltzmann policy."""
        ...

    def solve(
        self, policy: Any, discount: Any, right: Any, target: Any, *, guess: Any = None
    ) -> Any:
        """[..., S] the values x of the policy's chain, x = right + discount * P x.

        `target` [...] is the largest residual to leave; `guess` [..., S] is where to begin.
        """
        ...

    def solve_transposed(
        self, policy: Any, discount: Any, right: Any, target: Any, *, guess: Any = None
    ) -> Any:
        """[S] the visits x of the policy's chain, x = right + discount * P' x.

        `target` is the sum of all residuals that may be left; `guess` [S] is where to begin.
        """
        ...

    def linear_solve(self, matrix: Any, right: Any) -> Any:
        """The x of matrix x = right [n, ...], for a small matrix that needs no pivoting."""
        ...
