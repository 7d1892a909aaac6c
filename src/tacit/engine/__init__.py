"""How numbers are made: engines, searches, workers. Knows arrays, no noun.

What the smooth algorithms ask of a model, whatever engine holds it, is a `Backend`: expected next
value [S] -> [S, A], its transpose, next-state inflow [S, A] -> [S], the soft backup made of the
first, and the linear systems of the chain that a policy makes of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

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


def names_on_demand(package: str) -> Callable[[str], object]:
    """The `__getattr__` of a package: imports one of its public names when it is asked for.

    They are what it imports for type checkers, under `if TYPE_CHECKING`, which never runs.
    """
    import ast

    module = sys.modules[package]
    source = module.__loader__.get_source(package)  # pyright: ignore
    checked = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    home = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }

    def find(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home[name] == package:
            inside = f"{package}.{name}"
            return import_module(inside)
        value = getattr(import_module(home[name]), name)
        setattr(module, name, value)
        return value

    return find
