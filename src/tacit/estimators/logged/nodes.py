"""Rows in a continuous world whose steps are known: values on nodes, and what the nodes cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self, cast

import numpy as np

from tacit.dynamics.nodes import OnNodes
from tacit.errors import InvalidModel
from tacit.estimators.assembly import Estimate, recovery
from tacit.estimators.likelihood import Likelihood, maximise
from tacit.estimators.logged.recovery import LoggedRecovery
from tacit.estimators.logged.setting import LoggedSetting
from tacit.estimators.logged.world import Logged, LoggedTask, logged_task
from tacit.estimators.task import Task, task_of
from tacit.inference.evidence import Evidence
from tacit.inference.findings import Finding, Kind, feature_findings
from tacit.likelihood.dynamic import DynamicsChain
from tacit.likelihood.start import maximum
from tacit.model.nodes import Interpolated
from tacit.model.objective import Features
from tacit.recovery import delivered, warned
from tacit.search.algebra import first_largest

# Standard errors by which twice as wide cells may move a coefficient before an order is asked for.
SETTLED = 0.1
# Orders of multilinear interpolation: the best, and the least that is accepted.
BEST, LEAST = 2.0, 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class NodesError:
    """How far the nodes move the coefficients, by fits on every other node and on every fourth.

    Attributes:
        nodes: along every axis.
        moved: [P] by what the coefficients differ from those on every other node.
        order: in which the width of cells moves them; NaN where it hardly does.
        errors: [P] what is left, by Richardson's rule; beside the standard errors.
        settled: whether the nodes are enough.
    """

    nodes: tuple[int, ...]
    moved: np.ndarray
    order: float
    errors: np.ndarray
    settled: bool

    @classmethod
    def of(
        cls,
        nodes: tuple[int, ...],
        estimates: tuple[np.ndarray, np.ndarray, np.ndarray],
        deviations: np.ndarray,
    ) -> NodesError:
        """That of coefficients [P] on all nodes, on every other and on every fourth.

        `deviations` [P] are their standard errors.
        """
        fine, coarse, coarsest = estimates
        near, far = fine - coarse, coarse - coarsest
        known = np.isfinite(deviations) & (deviations > 0)
        scale = np.where(known, deviations, 1.0)
        small = bool((np.abs(near[known]) < SETTLED * scale[known]).all())
        sizes = [float(np.linalg.norm((one / scale)[known])) for one in (near, far)]
        order = np.nan
        if not small:
            order = float(np.log2(max(sizes[1], 1e-300) / sizes[0]))
        rate = BEST if small else float(np.clip(order, LEAST, BEST))
        return cls(
            nodes=nodes,
            moved=near,
            order=order,
            errors=np.abs(near) / (2.0**rate - 1.0),
            settled=small or order >= LEAST,
        )

    def finding(self, names: tuple[str, ...], deviations: np.ndarray) -> Finding:
        """It in words."""
        scale = np.where(deviations > 0, deviations, np.inf)  # none that is not known
        grid = " x ".join(map(str, self.nodes))
        if not self.settled:
            far = float(np.abs(self.moved / scale).max())
            said = (
                f"{grid} nodes are too few: with half as many along each side coefficients move by "
                f"up to {far:.2g} standard errors. The order of convergence in the width of cells "
                f"is {self.order:.2g}, below 1, so that no limit can be estimated. Take more nodes."
            )
            return Finding(said, Kind.BASIS, number=self.order)
        shares = self.errors / scale
        worst = first_largest(shares)
        said = (
            f"Values are interpolated between {grid} nodes, which moves {names[worst]} most: by "
            f"about {self.errors[worst]:.2g}, {shares[worst]:.2g} of its standard error, which "
            "intervals do not count."
        )
        return Finding(said, Kind.ASSUMED, feature=names[worst], number=float(shares[worst]))


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeValues:
    """What follows every action in a world whose steps are known: a `Continuation`.

    Attributes:
        world: the nodes, and where steps lead.
        values: [n] soft values of the nodes.
        reference: [D] the coefficients that they are of.
        moves: [n, D] their derivative in the coefficients.
    """

    world: Interpolated
    values: np.ndarray
    reference: np.ndarray
    moves: np.ndarray

    @property
    def shared(self) -> np.ndarray:
        """[D, 0]: there are no errors of a regression."""
        return np.zeros((len(self.reference), 0))

    def worth(self, observations: np.ndarray) -> np.ndarray:
        """[m, A] the expected soft value of the next row, at rows [m, d]."""
        return self._after(observations, self.values)

    def slopes(self, observations: np.ndarray) -> np.ndarray:
        """[m, A, D] its derivative in the coefficients."""
        return self._after(observations, self.moves)

    def _after(self, observations: np.ndarray, values: np.ndarray) -> np.ndarray:
        """[m, A, ...] expectation of values [n, ...] of the nodes after each action."""
        shape = (-1, self.world.actions, *values.shape[1:])
        later = (self.world.moves(observations) @ values).reshape(shape)
        later[self.world.over(observations)] = 0.0
        return later


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class NodesRecovery(LoggedRecovery):
    """What a demonstrator wants and refuses in a continuous world whose steps are known.

    Attributes:
        world: the nodes, and where steps lead.
        regression: the values of the nodes.
        discretisation: how far the nodes move the coefficients.
    """

    world: Interpolated  # pyright: ignore[reportIncompatibleVariableOverride]
    regression: NodeValues  # pyright: ignore[reportIncompatibleVariableOverride]
    discretisation: NodesError

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        return self.world.columns


@dataclass(frozen=True, eq=False)
class NodesTask(LoggedTask):
    """Rows in a continuous world whose steps are known.

    Attributes:
        mdp: the world.
    """

    mdp: Interpolated  # pyright: ignore[reportIncompatibleVariableOverride]

    def __post_init__(self) -> None:
        self.check_in_memory()
        self.check_plain()
        seen, world = self.demonstrations, self.mdp
        if seen.columns != world.columns:
            raise InvalidModel(
                f"rows must have the world's coordinates {', '.join(world.columns)}, in this "
                f"order; got {', '.join(seen.columns)}"
            )
        if np.isnan(seen.observations).any():
            raise InvalidModel("every coordinate must be measured where steps are known")
        if seen.actions.max() >= world.actions:
            raise InvalidModel(
                f"actions must be 0 to {world.actions - 1}; got {int(seen.actions.max())}"
            )
        object.__setattr__(self, "actions", world.actions)

    learnt: ClassVar[bool] = False

    def prepared(self, options: Any) -> Self:
        """The same: there is no basis."""
        return self

    @property
    def coarser(self) -> Self:
        """The same on every other node."""
        return replace(self, mdp=self.mdp.coarser)

    @cached_property
    def dynamics(self) -> OnNodes:
        """The rows and the nodes as sites."""
        return OnNodes(self.mdp, self.demonstrations.observations)

    @cached_property
    def tables(self) -> Features:
        """The features of all sites [N + n, A, D]."""
        places = np.concatenate([self.demonstrations.observations, self.mdp.nodes.points])
        return self.row_features.on(places, self.actions)

    @cached_property
    def plain_chain(self) -> DynamicsChain:
        """The likelihood of all episodes."""
        return self.chain_in(self.dynamics)

    def chain(self, options: Any) -> DynamicsChain:
        """The likelihood of all episodes."""
        return self.plain_chain


def nodes_task(world: Interpolated, features: Any, demonstrations: Any) -> NodesTask:
    """The task of rows in a world on nodes; one line where these are none."""
    if features is None or demonstrations is None:
        raise InvalidModel("a continuous world needs features and measurements; got fewer")
    return NodesTask(world, features, demonstrations)


def task_anywhere(world: Any, features: Any, demonstrations: Any, question: str) -> Task:
    """The task that was handed over, whole or in parts, of states or of rows; see `task_of`."""
    if isinstance(world, Logged):
        return logged_task(world, features, demonstrations)
    if isinstance(world, Interpolated):
        return nodes_task(world, features, demonstrations)
    return task_of(world, features, demonstrations, question)


def recover_on_nodes(
    task: NodesTask, *, estimator: Likelihood | None = None, throw: bool = True
) -> NodesRecovery:
    """The `NodesRecovery` under which the actions are most likely.

    Args:
        task: the world, its features and its rows.
        estimator: a `Likelihood` for its options; None for one with rewards of either sign.
        throw: raise `NotConverged` where the nodes are too few, instead of returning a recovery
            that says so.
    """
    if estimator is not None and not isinstance(estimator, Likelihood):
        raise InvalidModel(f"rows are recovered by Likelihood; got {estimator!r:.60}")
    options = Likelihood(free_reward=True) if estimator is None else estimator
    options.check()
    said = "Likelihood was picked, with rewards of either sign: rows have no other estimator."
    known = (Finding(said, Kind.CHOICE),) if estimator is None else ()
    setting = NodesSetting(task, known=known, options=options)
    found = cast("NodesRecovery", warned(maximise(options, cast("Any", setting))))
    return delivered(found, throw)


@dataclass(frozen=True, eq=False)
class NodesSetting(LoggedSetting):
    """Rows in a continuous world whose steps are known: a `Setting`.

    Attributes:
        task: the world, features and rows.
        options: by which fits on coarser nodes are sought.
    """

    task: NodesTask  # pyright: ignore[reportIncompatibleVariableOverride]
    options: Likelihood = field(default=Likelihood(), kw_only=True)

    counted = False

    @property
    def _plain(self) -> DynamicsChain:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.task.plain_chain

    def chain(self, options: Likelihood) -> DynamicsChain:
        """The likelihood of all steps."""
        return self._plain

    def findings(self, evidence: Evidence, e: int = 0) -> list[Finding]:
        """What of features and rows is to be known."""
        return [*self.known, *feature_findings(self.features, cast("Any", self.mdp))]

    def with_lapses(self, found: Estimate, chain: DynamicsChain) -> Estimate:
        """The estimate: nothing is taken for more certain than it is."""
        return found

    def recovery(self, called: str, found: Estimate, told: Evidence, e: int = 0) -> NodesRecovery:
        """The answer, `called` by the estimator's call."""
        part, task, chain = told.chains[e].part, self.task, told.chains[e].chain
        responses = chain.dynamics.respond(part.solved, chain.jacobian)[0]
        average = np.einsum("na,nad->nd", part.policy, responses)[-task.mdp.nodes.size :]
        values = NodeValues(
            world=task.mdp,
            values=part.solved.unknowns,
            reference=told.fitted.x(e) / chain.space.scales,
            moves=average * chain.space.scales,
        )
        assert found.parameters is not None
        names, deviations = found.parameters.names, found.parameters.standard_errors
        error = self._error(told, deviations)
        found = replace(
            found,
            converged=found.converged and error.settled,
            findings=(error.finding(names, deviations), *found.findings),
        )
        answer: Any = partial(
            NodesRecovery,
            world=task.mdp,
            features=task.row_features,
            actions=task.demonstrations.action_names,
            regression=values,
            discretisation=error,
        )
        return recovery(called, cast("Any", self.mdp), self.features, None, found, result=answer)

    def _error(self, told: Evidence, deviations: np.ndarray) -> NodesError:
        """By fits on coarser nodes, with all constraints."""
        half = self.task.coarser
        fits = [maximum(one.plain_chain, self.options) for one in (self.task, half, half.coarser)]
        fine, coarse, coarsest = (fit.x(0) / fit.problem.chains[0].space.scales for fit in fits)
        nodes = tuple(len(axis) for axis in self.task.mdp.nodes.axes)
        return NodesError.of(nodes, (fine, coarse, coarsest), deviations)
