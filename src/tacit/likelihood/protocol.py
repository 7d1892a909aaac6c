"""The protocol of a chain: a smooth loss of one parameter a feature, and the evidence at a fit.

A chain evaluates its loss and derivatives at parameters x [D] into a part, whose type is the
chain's own; a search hands the parts back as warm starts. At a fit the chain gives a
`ChainEvidence`, from which errors, tests and intervals are made. The joint parameters of all chains
are z [n]; `inner` carries derivatives from x to z.
"""

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

# Largest parameter: scaled features have range one. This is far beyond any plausible value, even
# where one extreme entry makes the range and all others differ by a thousandth of it.
LARGEST = 1e5


class Beginning(NamedTuple):
    """Where a search begins."""

    z: np.ndarray  # [n]
    part: Any  # at z, or one to begin from
    evaluated: bool  # whether it is at z, with all that an evaluation gives


class FirstPlace(NamedTuple):
    """Where a search begins for which no fit nearby is known."""

    problem: LikelihoodProblem  # with a model of the curvature, where a rough fit gives one
    x: np.ndarray  # [D] the place
    parts: tuple | None  # parts at x; None where nothing was evaluated


class View(Protocol):
    """A chain during one search."""

    def begun(self, near: Any, /) -> Any:
        """A part nearby, moved to where the search needs it: a device, for example."""
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
    """What the data of one chain say at a fit. Matrices [n, n] are of the joint parameters."""

    @property
    def chain(self) -> Any:
        """The chain that the evidence is of."""
        ...

    @property
    def kinds(self) -> Sequence[ChainEvidence]:
        """The same of every kind of demonstrators; itself where there is one."""
        ...

    @property
    def part(self) -> Any:
        """The chain's part of the fit."""
        ...

    @property
    def inner(self) -> np.ndarray:
        """[D, n] derivative of the chain's parameters in the joint ones."""
        ...

    @property
    def scores(self) -> np.ndarray:
        """[D, S, A] score of a step: derivative of its log-likelihood, by state and action."""
        ...

    @property
    def fisher(self) -> np.ndarray:
        """[D, D] Fisher information of all steps."""
        ...

    def events(self, move: np.ndarray, /) -> float:
        """Effective number of steps that inform about a move [D] of the parameters: `events_of`."""
        ...

    @property
    def curvature(self) -> np.ndarray:
        """[D, D] second derivative of the loss; the information where it is not positive."""
        ...

    @property
    def outer(self) -> np.ndarray:
        """[n, n] sum over all steps of score times score."""
        ...

    @property
    def source(self) -> Source | None:
        """The data that the dynamics were estimated from; None where they are known."""
        ...

    def dynamics_influence(self, *, sums: bool) -> list[Any]:
        """First-order effects of errors of the dynamics, in the form that the source takes.

        They are on the D scores of all steps and, if `sums`, on the D expected feature sums.
        """
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
        """[D, D] derivative of `spent` in the parameters."""
        ...

    @property
    def loose(self) -> bool:
        """Whether every step is an episode by itself."""
        ...

    @property
    def individuals(self) -> set[object]:
        """The names of the individuals that the data name."""
        ...

    @property
    def episodes(self) -> Units:
        """Every episode as a unit of its own."""
        ...

    def units(self, least: float, /) -> Units | None:
        """The largest units known to be independent; None where only sums are known."""
        ...

    def unit_scores(self, units: Units, many: int, /) -> np.ndarray:
        """[many, n] sum of the scores of each unit; units are numbered over all chains."""
        ...

    def unit_information(self, units: Units, many: int, /) -> np.ndarray:
        """[many, n, n] information of each unit."""
        ...

    def scatter(self, units: Units, /) -> Scatter:
        """Squares of the units' scores [n, n]."""
        ...


class Chain(Protocol):
    """The data of one world: a smooth loss of one parameter a feature."""

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
        """Weight of the next step against this one."""
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
        """The arrays that the loss is made of, by which an interrupted search is recognised."""
        ...

    def evidence(self, part: Any, inner: np.ndarray, seen: Any, /) -> ChainEvidence:
        """The evidence at a part of a fit."""
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
        """Bound on the error of a part's loss by rounding and rough solves."""
        ...

    def unsettled(self, part: Any, /) -> bool:
        """Whether the values of a part do not solve the soft Bellman equations."""
        ...

    def convex_of(self, part: Any, /) -> Any:
        """[D, D] positive stand-in for an indefinite curvature; itself where always positive."""
        ...

    def blank(self, x: np.ndarray, /) -> Any:
        """An empty part at x [D], before any evaluation."""
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
    """Effective number of events behind a move [D], of scores [D, n, A] that occur [n, A] times.

    With s the score along the move it is (sum s^2)^2 / sum s^4: events of equal size count fully.
    An interval asks it of every end, so that states are summed in blocks, side by side.
    """

    def moments(rows: slice) -> tuple[float, float]:
        squares = np.einsum("d,dna->na", move, scores[:, rows]) ** 2
        weighted = often[rows] * squares
        return float(weighted.sum()), float((weighted * squares).sum())

    second, fourth = np.sum(side_by_side(moments, row_blocks(len(often))), axis=0)
    return float(second**2 / fourth) if fourth > 0 else np.inf


class OneKind:
    """A chain with one kind of demonstrators, or its evidence."""

    source: Source | None = None
    regressor_noise: RegressorNoise | None = None

    def unit_information(self, units: Units, many: int) -> np.ndarray:
        """[many, n, n] information of each unit: shares of all by how much was seen of it."""
        own: Any = self
        whole = own.inner.T @ own.fisher @ own.inner
        sizes = np.bincount(units.number, minlength=many) / max(len(units.number), 1)
        return sizes[:, None, None] * whole

    def dynamics_influence(self, *, sums: bool) -> list[Any]:
        """No effects: the dynamics are taken for known."""
        return []

    @property
    def kinds(self) -> tuple[Self, ...]:
        """Itself."""
        return (self,)

    def convex_of(self, part: Any) -> Any:
        """[D, D] the curvature: it never bends down."""
        return part.curvature
