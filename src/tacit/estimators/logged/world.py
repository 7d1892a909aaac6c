"""A world that was only logged, the rows of its log as sites, and a task in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np

from tacit.data.measurements import Measurements
from tacit.data.units import Units, units_of
from tacit.dynamics.projected import PAID, UNSEEN, ActionBasis, Projected
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.logged.basis import Family, Functions, Given, Scaling
from tacit.estimators.task import Task
from tacit.likelihood.dynamic import DynamicsChain
from tacit.likelihood.start import Options
from tacit.model.features import RowFeatures
from tacit.model.features.design import Design
from tacit.model.features.imputing import Imputing
from tacit.model.mdp import checked_discount
from tacit.model.objective import Features

# (observations [n, d], number of an action) -> what is left after it [n, k].
After = Callable[[np.ndarray, int], np.ndarray]
# By how much less than contrasts between actions their common part is shrunk.
COMMON = 0.03
# Relative error of what an action sets for certain.
CERTAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Logged:
    """A world of which nothing is known but the discount, and what was logged.

    Attributes:
        discount: weight of the next step against this one; 1 where every episode ends.
        basis: a family of `tacit.bases`, or a function from observations [n, d] to [n, m]; None to
            choose one by the data.
        exogenous: names of the columns that no action moves: neither directly, nor by the others.
        after: (observations [n, d], number of an action) -> [n, k], what is left after an action:
            all that what comes next depends on; None where nothing is known of it.
    """

    discount: float
    basis: Any = None
    exogenous: tuple[str, ...] = ()
    after: After | None = field(default=None, metadata={"packed": ""})

    def __post_init__(self) -> None:
        object.__setattr__(self, "discount", checked_discount(self.discount, ends=True))
        exogenous = (self.exogenous,) if isinstance(self.exogenous, str) else self.exogenous
        object.__setattr__(self, "exogenous", tuple(map(str, exogenous)))
        basis = self.basis
        if basis is not None and not hasattr(basis, "functions"):
            if not callable(basis):
                raise InvalidModel(
                    "basis must be a family of tacit.bases, such as Gaussian(100), or a function "
                    f"from observations [n, d] to [n, m]; got {basis!r:.60}"
                )
            object.__setattr__(self, "basis", Given(cast("Any", basis)))

    @property
    def ends(self) -> np.ndarray:
        """[1] bool, whether a discount of 1 may be asked for: episodes say whether they end."""
        return np.ones(1, bool)

    @property
    def declared(self) -> bool:
        """Whether it was said what actions do not move."""
        return bool(self.exogenous) or self.after is not None


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedBasis:
    """Functions of rows, and how strongly a ridge pulls at the regression on them.

    Attributes:
        family: what they are of.
        functions: of rows.
        ridge: strength of the penalty.
    """

    family: Any
    functions: Functions
    ridge: float

    def penalty(self, actions: int, *, shared: bool) -> np.ndarray:
        """[P, P] of the coefficients: contrasts between actions, and hardly their common part."""
        own = self.ridge * self.functions.penalty
        if shared:
            return np.diag(own)
        mean, contrasts = (
            np.full((actions, actions), 1.0 / actions),
            np.eye(actions) - 1.0 / actions,
        )
        flat = np.where(own > 0, own, self.ridge)  # of a constant only contrasts are shrunk
        return np.kron(contrasts, np.diag(flat)) + COMMON * np.kron(mean, np.diag(own))


@dataclass(frozen=True, eq=False, kw_only=True)
class RowInputs:
    """What functions are made of: a row, what is left of it after an action, or what none moves.

    Attributes:
        imputing: what is put where a measurement is missing.
        actions: A.
        moved: numbers of the columns that actions may move.
        law: [A, len(moved), 2] constant and slope by which actions set these for certain; None
            where that was not declared, or is not so.
        after: what is left after an action; None where nothing is known of it.
    """

    imputing: Imputing
    actions: int
    moved: tuple[int, ...] = ()
    law: np.ndarray | None = None
    after: After | None = field(default=None, metadata={"packed": ""})

    @property
    def shared(self) -> bool:
        """Whether what is left says all of an action, so that actions share coefficients."""
        return self.after is not None if self.law is None else bool(self.law[..., 1].any())

    def at(self, observations: np.ndarray) -> tuple[np.ndarray, ...]:
        """One [n, k] per action, or one for all where they do not share coefficients."""
        if self.law is not None:
            prepared = self.imputing.prepared(observations)
            alike = np.delete(prepared, self.moved, axis=1)
            if not self.shared:
                return (alike,)
            every = range(self.actions)
            left = [self.set_by(a, prepared) for a in every]
            return tuple(np.concatenate([alike, one], axis=1) for one in left)
        if self.after is not None:
            return self._left_after(self.imputing.filled(observations))
        return (self.imputing.prepared(observations),)

    def set_by(self, action: int, rows: np.ndarray) -> np.ndarray:
        """[n, len(moved)] the columns that actions move, of rows [n, d], as this one sets them."""
        assert self.law is not None
        constant, slope = self.law[action].T
        return constant + slope * rows[:, self.moved]

    def _left_after(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        assert self.after is not None
        found = [np.asarray(self.after(rows.copy(), a), np.float64) for a in range(self.actions)]
        for a, left in enumerate(found):
            if left.ndim != 2 or len(left) != len(rows) or not np.isfinite(left).all():
                raise InvalidModel(
                    "after must give finite numbers [n, k], one row for each of the observations "
                    f"({len(rows)}); action {a} gives shape {left.shape}"
                )
        if len({left.shape for left in found}) > 1:
            raise InvalidModel("after must give as many columns for every action")
        return tuple(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedRegression:
    """What follows every action, as regressed on functions of rows: a `Continuation`.

    Attributes:
        basis: the functions.
        inputs: what they are made of.
        coefficients: [P].
        reference: [D] the coefficients of reward and costs that these are of.
        moves: [P, D + r] how they move with those, and with r standard normal numbers of errors.
        shared: [D, r] covariance of the coefficients of reward and costs and of these numbers.
    """

    basis: FittedBasis
    inputs: RowInputs
    coefficients: np.ndarray
    reference: np.ndarray
    moves: np.ndarray
    shared: np.ndarray

    def worth(self, observations: np.ndarray) -> np.ndarray:
        """[n, A] the expected soft value of the next row, at rows [n, d]."""
        return self._functions(observations).worth(self.coefficients)

    def slopes(self, observations: np.ndarray) -> np.ndarray:
        """[n, A, D + r] its derivative in the coefficients, and in the numbers of the errors."""
        return self._functions(observations).worth(self.moves)

    def _functions(self, observations: np.ndarray) -> ActionBasis:
        return action_basis(self.basis.functions, self.inputs, observations)


def action_basis(functions: Functions, inputs: RowInputs, observations: np.ndarray) -> ActionBasis:
    """The functions of every row [n, d] and action."""
    tables = [functions.at(rows) for rows in inputs.at(observations)]
    if inputs.shared:
        return ActionBasis.shared(tables)
    return ActionBasis.by_action(tables[0], inputs.actions)


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedRows:
    """The rows of a log as sites, with rows that other actions would have led to, if declared.

    Attributes:
        observations: [n, d] those of the measurements, then those of other actions.
        following: [n, A] the site after each action, as `Projected` has it.
        ends: [n] bool, the rows where an episode ended.
    """

    observations: np.ndarray
    following: np.ndarray
    ends: np.ndarray

    def with_others(self, inputs: RowInputs, taken: np.ndarray) -> LoggedRows:
        """The same with the rows that other actions than those taken [N] would have led to.

        What no action moves goes on as it was seen, and the rest is set by the action.
        """
        sites, steps = len(self.observations), len(taken)
        following, rows = self.following.copy(), [self.observations]
        led = following[np.arange(steps), taken]
        known = (led >= 0) & ~self.ends[np.maximum(led, 0)]
        for b in range(inputs.actions):
            at = np.flatnonzero(known & (taken != b))
            moved = self.observations[led[at]].copy()
            moved[:, inputs.moved] = inputs.set_by(b, self.observations[at])
            following[at, b] = sum(map(len, rows)) + np.arange(len(at))
            rows.append(moved)
        observations = np.concatenate(rows)
        more = len(observations) - sites
        return LoggedRows(
            observations=observations,
            following=np.pad(following, ((0, more), (0, 0)), constant_values=UNSEEN),
            ends=np.pad(self.ends, (0, more)),
        )


@dataclass(frozen=True, eq=False)
class LoggedTask(Task):
    """What was logged in a world, and what reward and costs may be made of.

    Attributes:
        mdp: the world.
        features: of rows.
        demonstrations: the rows.
        actions: A; 0 for those of the demonstrations.
        settled: the basis; None for that of the world.
        whole: the task that features and basis were made for, of which this is a part; None where
            it is none.
        ready: the likelihood of all episodes, where it is made already.
    """

    mdp: Logged  # pyright: ignore[reportIncompatibleVariableOverride]
    features: RowFeatures  # pyright: ignore[reportIncompatibleVariableOverride]
    demonstrations: Measurements  # pyright: ignore[reportIncompatibleVariableOverride]
    actions: int = field(default=0, kw_only=True)
    settled: FittedBasis | None = field(default=None, kw_only=True)
    whole: LoggedTask | None = field(default=None, kw_only=True, repr=False)
    ready: DynamicsChain | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        self.check_in_memory()
        self.check_plain()
        seen = self.demonstrations
        strange = [name for name in self.mdp.exogenous if name not in seen.columns]
        if strange:
            seen.column(strange[0])  # says which there are
        if self.mdp.discount == 1.0 and not seen.ended.all():
            raise InvalidModel(
                "discount 1 needs episodes that all end; "
                f"{int((~seen.ended).sum())} of {seen.episodes} did not: take a discount below 1"
            )
        if not self.actions:
            object.__setattr__(self, "actions", len(seen.action_names))

    def check_plain(self) -> None:
        """Raises unless features are of rows, and rows count alike."""
        if not isinstance(self.features, RowFeatures):
            raise InvalidModel(
                "rows need features of rows, made by Features.from_functions or "
                f"Features.from_formula; got {type(self.features).__name__}"
            )
        if self.demonstrations.weights is not None:
            raise InvalidDemonstrations(
                "rows of measurements must all count alike; got sampling weights: leave them out"
            )

    def check_in_memory(self) -> None:
        """Raises `InvalidDemonstrations` unless these are rows of measurements."""
        if not isinstance(self.demonstrations, Measurements):
            raise InvalidDemonstrations(
                "a logged world needs rows of measurements, as those of Measurements.from_frame or "
                f".from_trajectories; got {type(self.demonstrations).__name__}"
            )

    def select(self, episodes: np.ndarray) -> Self:
        """The same with the chosen episodes, numbers or [E] bool."""
        return replace(self, demonstrations=self.demonstrations.select(episodes), ready=None)

    def with_discount(self, discount: float) -> Self:
        """The same at another discount."""
        return replace(self, mdp=replace(self.mdp, discount=float(discount)), ready=None)

    def units(self, least: float = np.inf) -> Units:
        """What is independent among the episodes; groups where there are `least`."""
        return units_of(self.demonstrations, least)

    @cached_property
    def row_features(self) -> RowFeatures:
        """The features, with what they learn from the rows."""
        if self.whole is not None:
            return self.whole.row_features
        return self.features.fitted(self.demonstrations)

    @cached_property
    def imputing(self) -> Imputing:
        """What is put where a measurement is missing."""
        if self.whole is not None:
            return self.whole.imputing
        seen = self.demonstrations
        return Imputing.of(seen.observations, seen.columns)

    @cached_property
    def inputs(self) -> RowInputs:
        """What functions are made of."""
        if self.whole is not None:
            return self.whole.inputs
        world, own = self.mdp, self._moved_columns
        plain = RowInputs(imputing=self.imputing, actions=self.actions, after=world.after)
        law = self._certain_moves(own) if world.exogenous else None
        return plain if law is None else replace(plain, moved=tuple(own), law=law)

    @cached_property
    def rows(self) -> LoggedRows:
        """The rows as sites."""
        seen, steps = self.demonstrations, self.demonstrations.steps
        sites, after = len(seen.observations), np.asarray(seen.next_states)
        over = np.zeros(steps, bool)
        over[seen.offsets[1:] - 1] = seen.ended
        following = np.full((sites, self.actions), UNSEEN)
        unknown = np.where(over, PAID, UNSEEN)
        following[np.arange(steps), seen.actions] = np.where(after < 0, unknown, after)
        ends = np.zeros(sites, bool)
        ends[seen.final_states[seen.ended & (seen.final_states >= 0)]] = True
        rows = LoggedRows(observations=seen.observations, following=following, ends=ends)
        return rows if self.inputs.law is None else rows.with_others(self.inputs, seen.actions)

    def _certain_moves(self, own: Sequence[int]) -> np.ndarray | None:
        """[A, len(own), 2] constant and slope by which actions set these columns.

        None unless each is set for certain: a straight line of what it was, for each action.
        """
        seen = self.demonstrations
        rows, after = self.imputing.filled(seen.observations), np.asarray(seen.next_states)
        law = np.zeros((self.actions, len(own), 2))
        for a in range(self.actions):
            at = np.flatnonzero((seen.actions == a) & (after >= 0))
            if not len(at):
                return None
            for k, j in enumerate(own):
                was, is_now = rows[at, j], rows[after[at], j]
                size = 1.0 + float(np.abs(is_now).max())
                line = np.array([is_now[0], 0.0])
                if np.ptp(is_now) > CERTAIN * size:
                    line = np.linalg.lstsq(np.stack([was**0, was], axis=1), is_now, rcond=None)[0]
                if np.abs(line[0] + line[1] * was - is_now).max() > CERTAIN * size:
                    return None
                law[a, k] = line
        return law

    @property
    def _moved_columns(self) -> list[int]:
        """Numbers of the columns that actions may move."""
        names = self.demonstrations.columns
        return [j for j, name in enumerate(names) if name not in self.mdp.exogenous]

    learnt: ClassVar[bool] = True

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of features of the reward, then of each constraint."""
        own = self.row_features
        return tuple(map(len, (own.reward_names, *own.cost_names)))

    def prepared(self, options: Options) -> Self:
        """The same on a basis that is chosen now; its parts have it, and the same features."""
        from tacit.estimators.logged.choice import choice_of

        choice, chain = choice_of(self, options)
        return replace(self, settled=choice.basis, whole=self, ready=chain)

    def with_basis(self, basis: FittedBasis) -> Self:
        """The same on a basis that is settled."""
        return replace(self, settled=basis)

    def fitted_basis(self, family: Family, ridge: float) -> FittedBasis:
        """The basis of a family on the rows after which something was seen."""
        rows = self.regressed
        functions = family.functions(rows, Scaling.of(rows))
        return FittedBasis(family=family, functions=functions, ridge=ridge)

    @cached_property
    def regressed(self) -> np.ndarray:
        """[m, k] what functions are made of, where something was seen to follow."""
        sites = self.rows.following != UNSEEN
        each = self.inputs.at(self.rows.observations)
        if not self.inputs.shared:
            return each[0][sites.any(axis=1)]
        return np.concatenate([rows[sites[:, a]] for a, rows in enumerate(each)])

    def chain(self, options: Options) -> DynamicsChain:
        """The likelihood of all episodes on the settled basis, or on one chosen now."""
        if self.ready is not None:
            return self.ready
        from tacit.estimators.logged.choice import choice_of

        return choice_of(self, options)[1]

    def chain_on(self, basis: FittedBasis) -> DynamicsChain:
        """The likelihood of all episodes on a basis."""
        rows, actions = self.rows, self.actions
        functions = action_basis(basis.functions, self.inputs, rows.observations)
        world = Projected(
            basis=functions,
            following=rows.following,
            available=np.repeat(~rows.ends[:, None], actions, axis=1),
            penalty=basis.penalty(actions, shared=self.inputs.shared),
            discount=self.mdp.discount,
            draws=self._draws(len(rows.observations)),
        )
        return self.chain_in(world)

    def chain_in(self, world: Any) -> DynamicsChain:
        """The likelihood of all episodes in a world whose first sites are the rows."""
        from scipy.sparse import csr_array

        seen, sites, actions = self.demonstrations, world.states, self.actions
        taken = np.arange(seen.steps) * actions + seen.actions
        shape = (seen.episodes, sites * actions)
        table = csr_array((np.ones(seen.steps), taken, seen.offsets), shape=shape)
        begun = seen.offsets[:-1][~seen.partial]
        begun = begun if len(begun) else seen.offsets[:-1]
        starts = np.zeros((1, sites))
        starts[0, begun] = 1.0 / len(begun)
        return DynamicsChain(world, Design.of(world, self.tables), table, starts)

    @cached_property
    def tables(self) -> Features:
        """The features of all rows [n, A, D]; ends pay what all actions would have."""
        rows = self.rows
        found = self.row_features.on(rows.observations, self.actions)
        if not rows.ends.any():
            return found
        maps = [np.array(table) for table in found.maps]
        for table in maps:
            alike = np.ptp(table[rows.ends], axis=1, keepdims=True) == 0.0
            table[rows.ends] = np.where(alike, table[rows.ends], 0.0)
        return Features(maps[0], maps[1:], found.reward_names, found.cost_names)

    def _draws(self, sites: int) -> np.ndarray:
        """[n] what is drawn independently: individuals where they are named, else steps."""
        seen = self.demonstrations
        if seen.individuals is None:
            return np.arange(sites)
        units = self.units()
        return np.pad(units.number[seen.episode], (0, sites - seen.steps))

    def group_chains(self, group: np.ndarray, options: Options) -> list[Any]:
        """The likelihood of each group of episodes, `group` [E] being its number.

        The world is that of all, and so is what is learnt of it: groups differ in what they want.
        """
        chain, numbers = self.chain(options), range(int(group.max()) + 1)
        return [chain.of_episodes(group == number) for number in numbers]


def logged_task(world: Logged, features: Any, demonstrations: Any) -> LoggedTask:
    """The task of rows that were logged in a world; one line where these are none."""
    if features is None or demonstrations is None:
        raise InvalidModel("a logged world needs features and measurements; got fewer")
    task = LoggedTask(world, features, cast("Measurements", demonstrations))
    task.demonstrations.check_rows()
    return task
