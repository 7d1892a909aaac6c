"""What the smooth algorithms ask of a model, whatever engine holds it.

Expected next value [S] -> [S, A], its transpose, next-state inflow [S, A] -> [S], the soft backup
made of the first, and the linear systems of the chain that a policy makes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jax.sharding import Mesh

# A NumPy or a JAX array, or a number in place of one.
Array: TypeAlias = Any
State = TypeVar("State")

# The devices that large models are split over (`tacit.scale.sharded`), a `jax.sharding.Mesh`.
MESH: ContextVar[Mesh | None] = ContextVar("tacit_mesh", default=None)


class Backend(Protocol):
    """The dynamics of a model, and the engine they live in."""

    arrays: Array  # numpy or jax.numpy
    direct: bool  # whether systems are solved by elimination: rough answers cost as much as fine

    @property
    def missing(self) -> Array:
        """[S, A] bool, the actions that are not there; None where all are."""
        ...

    @property
    def walk(self) -> Array:
        """[S, A] at discount 1, a policy that reaches an end for sure; else None."""
        ...

    @property
    def length(self) -> Array:
        """The states that the walk passes on average, at most; None likewise."""
        ...

    def while_loop(
        self, going: Callable[[State], Array], step: Callable[[State], State], state: State
    ) -> State:
        """The state after repeating `step` while `going`."""
        ...

    def select(self, condition: Array, new: State, old: State) -> State:
        """`new` if the condition holds, else `old`; both are trees of arrays."""
        ...

    def expected_next(self, values: Array) -> Array:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        ...

    def inflow(self, table: Array) -> Array:
        """[S] what flows into each state when `table` [S, A] flows out."""
        ...

    def soft_backup(
        self, discount: Array, temperature: Array, reward: Array, values: Array
    ) -> tuple[Array, Array]:
        """[S] soft values after one backup of `values`, and [S, A] the Boltzmann policy."""
        ...

    def leak(self, discount: Array) -> Array:
        """1 - discount, by which rounding and residuals are divided; at discount 1, 1 / length."""
        ...

    def solve(
        self,
        policy: Array,
        discount: Array,
        right: Array,
        target: Array,
        *,
        guess: Array = None,
    ) -> Array:
        """[..., S] the values x of the policy's chain, x = right + discount * P x.

        `target` [...] is the largest residual to leave; `guess` [..., S] is where to begin.
        """
        ...

    def solve_transposed(
        self,
        policy: Array,
        discount: Array,
        right: Array,
        target: Array,
        *,
        guess: Array = None,
    ) -> Array:
        """[S] the visits x of the policy's chain, x = right + discount * P' x.

        `target` is the sum of all residuals that may be left; `guess` [S] is where to begin.
        """
        ...

    def linear_solve(self, matrix: Array, right: Array) -> Array:
        """The x of matrix x = right [n, ...], for a small matrix that needs no pivoting."""
        ...


# A loop on an accelerator asks the host whether to go on: not after every step.
AT_ONCE = 8
# Steps between two looks at the true residual, and in all.
PATIENCE, LIMIT = 300, 4000
# Plain steps at once, and in all: enough for a discount of 0.999 to gain twelve digits.
BLOCK, PLAIN = 32, 30_000


Size = Callable[[Array], Array]


def eliminated(matrix: Array, right: Array) -> Array:
    """The x of matrix x = right, by Gauss and Jordan's elimination without pivoting.

    Made of plain array operations, so that a batch of small systems is one program. Stable for what
    it is used for: I - discount P, which is diagonally dominant, and positive definite matrices.
    """
    size = len(matrix)
    columns = right.reshape(size, -1)

    def step(k: Array, table: Array) -> Array:
        row = table[k] / table[k, k]
        rest = table - jnp.outer(table[:, k], row)
        return jnp.where((jnp.arange(size) == k)[:, None], row, rest)

    table = jax.lax.fori_loop(0, size, step, jnp.concatenate([matrix, columns], axis=1))
    return table[:, size:].reshape(right.shape)


def largest(residual: Array) -> Array:
    """The size of a residual that matters for values: its largest entry."""
    return jnp.abs(residual).max()


def total(residual: Array) -> Array:
    """The size of a residual that matters for visits: in a million states small ones add up."""
    return jnp.abs(residual).sum()


def solve_chain(
    rows: Array,
    weights: Array,
    discount: Array,
    right: Array,
    target: Array,
    guess: Array = None,
    size: Size = largest,
) -> Array:
    """[S] the x of x - discount * sum_w weights[s, w] x[rows[s, w]] = right, from `guess`."""

    def product(x: Array) -> Array:
        return x - discount * (weights * x[rows]).sum(axis=1)

    return bicgstab(product, right, target, guess, size)


class Approach(NamedTuple):
    """How far a solve has come, by the true residual."""

    x: Array
    residual: Array  # right - product(x), computed afresh
    spent: Array  # steps so far
    gaining: Array  # whether the last steps made the residual smaller


class Recurrence(NamedTuple):
    """The vectors and numbers of BiCGSTAB, and the residual that it believes in."""

    x: Array
    residual: Array
    shadow: Array
    direction: Array
    rho: Array
    alpha: Array
    omega: Array  # 0 after a breakdown
    image: Array
    steps: Array


def bicgstab(
    product: Callable[[Array], Array],
    right: Array,
    target: Array,
    guess: Array = None,
    size: Size = largest,
) -> Array:
    """The x of product(x) = right, to a true residual of size `target` where that can be had.

    `product` is I - discount P. Where the Krylov steps no longer gain, plain steps x + residual go
    on: they shrink the residual by the discount each, whatever the chain.
    """

    def restart(at: Approach) -> Approach:
        zero = jnp.zeros_like(at.x)
        # Uneven weights: the residual itself breaks down after one step where it is an eigenvector
        # of the transpose, as an even start is for the visits of any policy.
        shadow = at.residual * (1.0 + 0.5 * jnp.cos(jnp.arange(len(at.x), dtype=at.x.dtype)))
        end = jax.lax.while_loop(
            lambda s: (size(s.residual) > 0.5 * target) & (s.steps < PATIENCE) & (s.omega != 0.0),
            some_steps,
            Recurrence(at.x, at.residual, shadow, zero, 1.0, 1.0, 1.0, zero, 0),
        )
        fresh = right - product(end.x)
        before, after = size(at.residual), size(fresh)
        better = after < before  # not where it is NaN
        x, residual = jnp.where(better, end.x, at.x), jnp.where(better, fresh, at.residual)
        return Approach(x, residual, at.spent + end.steps, after < 0.5 * before)

    def some_steps(state: Recurrence) -> Recurrence:
        for _ in range(AT_ONCE):
            state = _bicgstab_step(product, state)
        return state

    def plain(at: Approach) -> Approach:
        one = lambda _, s: (s[0] + s[1], right - product(s[0] + s[1]))  # noqa: E731
        x, fresh = jax.lax.fori_loop(0, BLOCK, one, (at.x, at.residual))
        # At rounding level it stops falling.
        return Approach(x, fresh, at.spent + BLOCK, size(fresh) < 0.98 * size(at.residual))

    def going(limit: int) -> Callable[[Approach], Array]:
        return lambda at: (size(at.residual) > target) & (at.spent < limit) & at.gaining

    x = jnp.zeros_like(right) if guess is None else guess
    start = Approach(x, right - product(x), 0, True)
    end = jax.lax.while_loop(going(LIMIT), restart, start)
    return jax.lax.while_loop(going(PLAIN), plain, end._replace(spent=0, gaining=True)).x


def _bicgstab_step(product: Callable[[Array], Array], at: Recurrence) -> Recurrence:
    fresh = at.shadow @ at.residual
    direction = at.residual + fresh / at.rho * (at.alpha / at.omega) * (
        at.direction - at.omega * at.image
    )
    image = product(direction)
    alpha = fresh / (at.shadow @ image)
    middle = at.residual - alpha * image
    other = product(middle)
    size = other @ other
    omega = jnp.where(size > 0, (other @ middle) / jnp.where(size > 0, size, 1.0), 0.0)
    x = at.x + alpha * direction + omega * middle
    residual = middle - omega * other
    finite = jnp.isfinite(alpha) & jnp.isfinite(omega) & (fresh != 0)
    return Recurrence(
        x=jnp.where(finite, x, at.x),  # a breakdown keeps the last x
        residual=jnp.where(finite, residual, at.residual),
        shadow=at.shadow,
        direction=direction,
        rho=fresh,
        alpha=alpha,
        omega=jnp.where(finite, omega, 0.0),
        image=image,
        steps=at.steps + 1,
    )


def for_each(one: Callable[..., Array], right: Array, target: Array, guess: Array) -> Array:
    """[..., S] what `one` finds for right sides [..., S], targets [...] and guesses [..., S]."""
    guess = jnp.zeros_like(right) if guess is None else guess
    return (jax.vmap(one) if right.ndim > 1 else one)(right, target, guess)
