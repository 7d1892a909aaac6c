"""What a likelihood asks of a chain: a smooth loss of one number a feature, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

from tacit.data.tally import Scatter
from tacit.data.units import Units
from tacit.dynamics import RegressorNoise, Source
from tacit.engine.backends import row_blocks, side_by_side
from tacit.model.features.design import Design

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.likelihood.problem import LikelihoodProblem

# Scaled features have range one. Far beyond any plausible parameter, even where one extreme entry
# makes the range of a feature and all others differ by a thousandth of it.
LARGEST = 1e5


class Beginning(NamedTuple):
    """Where a search begins."""

    z: np.ndarray  # [n]
    part: Any  # at z, or one to begin from
    evaluated: bool  # whether it is at z, with all that an evaluation gives


class FirstPlace(NamedTuple):
    """A search that nothing nearby is known for."""

    problem: LikelihoodProblem  # with a model of the curvature, where a rough fit gives one
    x: np.ndarray  # [D] where to begin
    parts: tuple | None  # there, or None


class View(Protocol):
    """A chain during one search."""

    def begun(self, near: Any, /) -> Any:
        """A part nearby, where the search needs it."""
        ...

    def at(self, x: np.ndarray, near: Any, precision: float, /, *, lean: bool = False) -> Any:
        """The part at x [D]."""
        ...

    def ended(self, part: Any, /) -> Any:
        """A part in NumPy arrays."""
        ...


class HostView:
    """A chain during a search whose parts stay where they are."""

    def begun(self, near: Any, /) -> Any:
        """A part nearby."""
        return near

    def ended(self, part: Any, /) -> Any:
        """The part."""
        return part


class ChainEvidence(Protocol):
    """What was seen of one chain says at a fit. Matrices [n, n] are of the joint parameters."""

    @property
    def chain(self) -> Any:
        """The chain."""
        ...

    @property
    def kinds(self) -> Sequence[ChainEvidence]:
        """The same of every kind of demonstrators; itself where there is one."""
        ...

    @property
    def part(self) -> Any:
        """Of the fit."""
        ...

    @property
    def inner(self) -> np.ndarray:
        """[D, n] derivative of the chain's parameters in the joint ones."""
        ...

    @property
    def scores(self) -> np.ndarray:
        """[D, S, A] of one step, where a step's score is that of its state and action."""
        ...

    @property
    def fisher(self) -> np.ndarray:
        """[D, D] information of the steps."""
        ...

    def events(self, move: np.ndarray, /) -> float:
        """How many steps of one size would tell as much of a move [D] of the parameters."""
        ...

    @property
    def curvature(self) -> np.ndarray:
        """[D, D] of the loss; the information of the steps where that is no minimum."""
        ...

    @property
    def outer(self) -> np.ndarray:
        """[n, n] sum over all steps of score times score."""
        ...

    @property
    def source(self) -> Source | None:
        """What the dynamics are known from; None where they are known for certain."""
        ...

    def dynamics_influence(self, *, sums: bool) -> list[Any]:
        """What the source takes: slopes of the scores [D] and, asked for, of what is spent [D]."""
        ...

    @property
    def regressor_noise(self) -> RegressorNoise | None:
        """Errors in variables, by those of the dynamics; None where drawn worlds measure them."""
        ...

    @property
    def reached(self) -> np.ndarray:
        """[S, A] discounted visitation of the fitted policy; empty where there are several."""
        ...

    @property
    def spent(self) -> np.ndarray:
        """[D] expected sums of the scaled, signed features."""
        ...

    @property
    def reaction(self) -> np.ndarray:
        """[D, D] derivative of what is spent."""
        ...

    @property
    def loose(self) -> bool:
        """Whether every step is an episode by itself."""
        ...

    @property
    def individuals(self) -> set[object]:
        """Who is named."""
        ...

    @property
    def episodes(self) -> Units:
        """Every episode by itself."""
        ...

    def units(self, least: float, /) -> Units | None:
        """What is independent: the largest that is known; None where only sums are."""
        ...

    def unit_scores(self, units: Units, many: int, /) -> np.ndarray:
        """[many, n] sums of the scores over each unit, of those that other chains have, too."""
        ...

    def unit_information(self, units: Units, many: int, /) -> np.ndarray:
        """[many, n, n] information of each unit."""
        ...

    def scatter(self, units: Units, /) -> Scatter:
        """Squares of the units' scores [n, n]."""
        ...


class Chain(Protocol):
    """What was seen in one world: a smooth loss of one number a feature."""

    @property
    def kinds(self) -> tuple[Chain, ...]:
        """One per kind of demonstrators that want something; itself where there is one."""
        ...

    @property
    def space(self) -> Design:
        """The features, scaled."""
        ...

    @property
    def scale(self) -> np.ndarray:
        """[D] size of a gradient entry that counts as one."""
        ...

    @property
    def penalty(self) -> csr_array | None:
        """[D, D] of a prior, added to the loss; None for none."""
        ...

    @property
    def writable(self) -> bool:
        """Whether the scores of all parameters can be written out."""
        ...

    @property
    def exact(self) -> bool:
        """Whether a rough evaluation costs as much as a fine one."""
        ...

    @property
    def large(self) -> bool:
        """Whether derivatives in parameters that cannot move are worth leaving out."""
        ...

    @property
    def convex(self) -> bool:
        """Whether the loss is convex for certain."""
        ...

    @property
    def discount(self) -> float:
        """Of what was seen."""
        ...

    @property
    def stage(self) -> str:
        """What a search of this chain alone is called by those who watch it."""
        ...

    def approach(
        self, problem: LikelihoodProblem, x: np.ndarray | None, max_steps: int, /
    ) -> FirstPlace:
        """How a search begins, at x [D] if that is given."""
        ...

    @property
    def inputs(self) -> tuple:
        """What the loss is made of, by which a search that is watched knows itself again."""
        ...

    def evidence(self, part: Any, inner: np.ndarray, seen: Any, /) -> ChainEvidence:
        """What was seen says at a part of a fit."""
        ...

    def view(self, x: np.ndarray, moving: np.ndarray | None, /) -> View:
        """The chain as a search asks for it; derivatives of moving parameters, None for all."""
        ...

    def at(self, x: np.ndarray, near: Any, precision: float, /) -> Any:
        """The part at x [D] with all derivatives."""
        ...

    def loss_at(self, x: np.ndarray, near: Any, precision: float, /) -> float:
        """The loss at x [D] without its ridge."""
        ...

    def error(self, part: Any, x: np.ndarray, precision: float, /) -> float:
        """By what rounding and rough solves may mistake the loss of a part."""
        ...

    def unsettled(self, part: Any, /) -> bool:
        """Whether the values of a part are not those of a policy."""
        ...

    def convex_of(self, part: Any, /) -> Any:
        """[D, D] what stands in for a curvature that bends down; itself where it never does."""
        ...

    def blank(self, x: np.ndarray, /) -> Any:
        """A part at x [D] of which nothing is known."""
        ...

    def beginning(
        self,
        x: np.ndarray,
        near: Any,
        problem: LikelihoodProblem,
        precision: float,
        /,
    ) -> Beginning | None:
        """Where to begin a search of this chain alone.

        At x [D], from the part nearby if there is one, wherever values are finite there; None where
        they are finite nowhere within the bounds of the problem.
        """
        ...


def events_of(move: np.ndarray, scores: np.ndarray, often: np.ndarray) -> float:
    """How many events of one size would tell as much of a move [D]: scores [D, n, A], [n, A] times.

    An interval asks it of every end, and a million states are many to look at.
    """

    def moments(rows: slice) -> tuple[float, float]:
        squares = np.einsum("d,dna->na", move, scores[:, rows]) ** 2
        weighted = often[rows] * squares
        return float(weighted.sum()), float((weighted * squares).sum())

    second, fourth = np.sum(side_by_side(moments, row_blocks(len(often))), axis=0)
    return float(second**2 / fourth) if fourth > 0 else np.inf


class OneKind:
    """A chain of one kind of demonstrators, or what was seen of it says."""

    source: Source | None = None
    regressor_noise: RegressorNoise | None = None

    def unit_information(self, units: Units, many: int) -> np.ndarray:
        """[many, n, n] information of each unit: shares of all by how much was seen of it."""
        own: Any = self
        whole = own.inner.T @ own.fisher @ own.inner
        sizes = np.bincount(units.number, minlength=many) / max(len(units.number), 1)
        return sizes[:, None, None] * whole

    def dynamics_influence(self, *, sums: bool) -> list[Any]:
        """None: the dynamics are taken for known."""
        return []

    @property
    def kinds(self) -> tuple[Self, ...]:
        """Itself."""
        return (self,)

    def convex_of(self, part: Any) -> Any:
        """[D, D] the curvature: it never bends down."""
        return part.curvature
