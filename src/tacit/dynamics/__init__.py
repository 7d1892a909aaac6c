"""Where actions lead, as a likelihood asks for it: a few linear maps around soft values.

`Dynamics` is all that a `DynamicsChain` needs; a new kind of world is one class. Worlds of states
and of goals have fused chains of their own (`likelihood/steps.py`, trips), which do the same in one
pass on tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np


class Solved(NamedTuple):
    """The soft solution of a noisy expert; of L layers (times, goals), n sites and A actions."""

    values: np.ndarray  # [L, n]
    log_policy: np.ndarray  # [L, n, A]; 0 where an action is not there
    policy: np.ndarray  # [L, n, A]; 0 there
    factor: Any = None  # of the system that derivatives solve
    unknowns: Any = None  # of the fixed point, from which the next one starts


class Blur(NamedTuple):
    """What errors of learnt dynamics do to the scores of steps on average, as errors of regressors.

    Features with all that follows them differ between actions by errors alone, too. That passes for
    information, and makes coefficients too small.
    """

    information: np.ndarray  # [D, D] what of the information is errors alone
    pull: np.ndarray  # [D] by what scores are too small


class Source(Protocol):
    """What dynamics are known from, where they are not known for certain: counts, or a log."""

    @property
    def made(self) -> str:
        """What dynamics from it are, in a word or two: counted, or only logged."""
        ...

    def same(self, other: Any, /) -> bool:
        """Whether both are the same steps, so that their errors are the same."""
        ...

    def covariance_of(self, slopes: Sequence[Any], /) -> np.ndarray:
        """[m, m] covariance of numbers by the slopes that chains give, one after the other."""
        ...

    def worlds(self, seed: int, policy: np.ndarray, /) -> Iterator[Any]:
        """Worlds drawn around the estimate, in pairs of opposite errors; perhaps none.

        What the dynamics do not tell apart is told apart by the policy, so that draws do not hang
        on how it is numbered.
        """
        ...

    def unseen(self, visits: np.ndarray, /) -> float:
        """Share of steps from visited sites, [n] times, to where none was seen to lead."""
        ...


class Learnt(Protocol):
    """Dynamics that have errors, one site's independent of another's."""

    @property
    def source(self) -> Source:
        """What they were learnt from."""
        ...

    def pilot(self, seen: np.ndarray, jacobian: np.ndarray, /) -> tuple[np.ndarray, Solved]:
        """Parameters [D] that explain what was seen [n, A] nearly best, and a place near there."""
        ...

    def score_influence(
        self, solved: Solved, scores: np.ndarray, visits: np.ndarray, /
    ) -> np.ndarray:
        """[n, D] by what every site's error moves the scores [n, A, D] of steps, [n] of each."""
        ...

    def sum_influence(
        self, solved: Solved, jacobian: np.ndarray, scores: np.ndarray, start: np.ndarray, /
    ) -> np.ndarray:
        """[n, D] likewise the expected sums of the features [n, A, D] from the start [n]."""
        ...

    def blur(self, solved: Solved, jacobian: np.ndarray, visits: np.ndarray, /) -> Blur | None:
        """What errors do to the scores of steps at visits [n], the features being [n, A, D].

        None where the worlds of the source show it.
        """
        ...


class Dynamics(Protocol):
    """Where actions lead."""

    @property
    def layers(self) -> int:
        """L."""
        ...

    @property
    def discount(self) -> float:
        """Weight of the next step against this one."""
        ...

    @property
    def learnt(self) -> Learnt | None:
        """The same as learnt from steps, with their errors; None where they are known."""
        ...

    def solve(self, table: np.ndarray, near: Solved | None) -> Solved | None:
        """The solution for utilities [n, A], from one nearby; None where values are not finite."""
        ...

    def adjoint(self, solved: Solved, seen: np.ndarray) -> np.ndarray:
        """[L, n] weights by which the loss of what was seen [L, n, A] answers to utilities.

        Its slope in them is weights * policy - seen. No occupancy: they may be negative.
        """
        ...

    def reach(self, solved: Solved, start: np.ndarray) -> np.ndarray:
        """[L, n] weights by which start [L, n] . values answers: its slope is weights * policy."""
        ...

    def respond(self, solved: Solved, jacobian: np.ndarray) -> np.ndarray:
        """[L, n, A, D] derivative of what an action is worth with all that follows it.

        `jacobian` [n, A, D] is that of the utilities.
        """
        ...
