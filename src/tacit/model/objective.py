"""What is hidden: the reward a demonstrator wants and the costs it keeps within budgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidModel
from tacit.model.arguments import finite, numbers, read_only
from tacit.model.ends import alike_at_ends
from tacit.model.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path

    from scipy.sparse import csr_array, sparray, spmatrix
    from typing_extensions import TypeIs

    from tacit.files.frames import Frame
    from tacit.model.features.curves import CurveTerm
    from tacit.model.features.formulas import FormulaFeatures
    from tacit.model.features.rows import FunctionFeatures, RowFunctions
    from tacit.model.mdp import MDP

    class SparseTable(csr_array):
        """Of two dimensions, which scipy does not say."""

        @property
        def shape(self) -> tuple[int, int]:  # pyright: ignore[reportIncompatibleMethodOverride]
            """(S, D)."""
            ...

    # A feature map [S, D] or [S, A, D]; only [S, D] may be sparse.
    FeatureTable: TypeAlias = np.ndarray | SparseTable
    GivenTable: TypeAlias = ArrayLike | sparray | spmatrix | FeatureTable

# Largest size of a feature. Beyond, sums of squares overflow, or their inverses do.
LARGEST = 1e100
# Most entries of a sparse map that is written out to compare its columns, or to be hashed.
MOST_COMPARED_ENTRIES = 2**22
# Most entries of a sparse map that is written out for those who read single ones: 1 GiB.
MOST_DENSE_ENTRIES = 2**27


@dataclass(frozen=True, eq=False)
class Objective:
    """What a demonstrator wants and refuses. The same type for a truth and for what is recovered.

    Costs may be negative: a budget then bounds a net cost, and the budget itself may be negative.

    Attributes:
        reward: [S] or [S, A] gain of each state or action.
        costs: [K, S] or [K, S, A] what each constraint charges; K = 0 by default.
        budgets: [K] largest expected discounted cost allowed.
    """

    reward: np.ndarray
    costs: np.ndarray = None  # pyright: ignore[reportAssignmentType]
    budgets: np.ndarray = None  # pyright: ignore[reportAssignmentType]

    if TYPE_CHECKING:

        def __init__(
            self,
            reward: ArrayLike,
            costs: ArrayLike | None = None,
            budgets: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        reward = finite(self.reward, "reward", "[S] or [S, A]", (1, 2))
        states = reward.shape[0]
        costs = _cost_tables(self.costs, states)
        budgets = np.atleast_1d(numbers([] if self.budgets is None else self.budgets, "budgets"))
        if costs.shape[1] != states:
            raise InvalidModel(
                f"reward and costs must speak of the same states; got {states} and {costs.shape[1]}"
                f" (reward {reward.shape}, costs {costs.shape})"
            )
        if reward.ndim == 2 and costs.ndim == 3 and reward.shape[1] != costs.shape[2]:
            raise InvalidModel(
                "reward and costs must speak of the same actions; "
                f"got {reward.shape[1]} and {costs.shape[2]}"
            )
        if budgets.shape != costs.shape[:1]:
            raise InvalidModel(
                "budgets must hold one number a constraint; "
                f"got {budgets.shape} for {costs.shape[0]} cost tables"
            )
        bad = np.isnan(budgets) | (budgets == -np.inf)
        if bad.any():
            k = int(np.argmax(bad))
            raise InvalidModel(
                f"budgets must be numbers above minus infinity; budget {k} is {budgets[k]}"
            )
        object.__setattr__(self, "reward", read_only(reward))
        object.__setattr__(self, "costs", read_only(costs))
        object.__setattr__(self, "budgets", read_only(budgets))

    @property
    def constraints(self) -> int:
        """K, the number of constraints."""
        return self.costs.shape[0]

    def tables(self, mdp: MDP) -> tuple[np.ndarray, np.ndarray]:
        """[S, A] reward and [K, S, A] costs, checked against the model they are used with."""
        reward, costs = self.tables_of(mdp.states, mdp.actions)
        if mdp.restricted:
            alike_at_ends(mdp, reward, "reward")
            for k, cost in enumerate(costs):
                alike_at_ends(mdp, cost, f"cost {k}")
        return reward, costs

    def tables_of(self, states: int, actions: int) -> tuple[np.ndarray, np.ndarray]:
        """The same for so many states and actions."""
        shape = (states, actions)
        reward, costs = self.reward, self.costs
        if reward.shape[0] != shape[0] or (reward.ndim == 2 and reward.shape[1] != shape[1]):
            raise InvalidModel(
                f"reward must have shape [S] or [S, A] with S, A = {shape}; got {reward.shape}"
            )
        if costs.ndim == 3 and costs.shape[2] != shape[1]:
            raise InvalidModel(
                f"costs must have shape [K, S] or [K, S, A] with S, A = {shape}; got {costs.shape}"
            )
        tables = self.__dict__.get("_tables")
        if tables is None or tables[0].shape != shape:
            reward = reward if reward.ndim == 2 else np.repeat(reward[:, None], shape[1], axis=1)
            costs = costs if costs.ndim == 3 else np.repeat(costs[:, :, None], shape[1], axis=2)
            tables = (read_only(reward), read_only(costs))
            self.__dict__["_tables"] = tables
        return tables

    def __repr__(self) -> str:
        return (
            f"Objective(states={self.reward.shape[0]}, constraints={self.constraints}, "
            f"budgets={np.array2string(self.budgets, precision=4)})"
        )


@dataclass(frozen=True, eq=False)
class Features:
    """The vocabulary of an explanation: what a reward and each cost may be made of.

    A scipy.sparse map [S, D] is kept as it is (`maps`), and written out only for those who ask for
    `reward` or `costs`.

    Attributes:
        reward: [S, D] or [S, A, D] features of the reward.
        costs: one [S, D_k] or [S, A, D_k] feature map per constraint.
        reward_names: one name per reward feature.
        cost_names: one tuple of names per constraint.
        curves: which features are parameters of a curve, whose smoothness is estimated.
    """

    reward: np.ndarray
    costs: tuple[np.ndarray, ...] = field(default_factory=tuple)
    reward_names: tuple[str, ...] = None  # pyright: ignore[reportAssignmentType]
    cost_names: tuple[tuple[str, ...], ...] = None  # pyright: ignore[reportAssignmentType]
    curves: tuple[CurveTerm, ...] = field(default=(), kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self,
            reward: GivenTable,
            costs: Sequence[GivenTable] | None = (),
            reward_names: Iterable[str] | None = None,
            cost_names: Sequence[Iterable[str] | None] | None = None,
            *,
            curves: Iterable[CurveTerm] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        reward = _sized(self.reward, "reward features")
        given = self.costs
        if isinstance(given, np.ndarray) and given.ndim in (2, 3) and given.dtype != object:
            raise InvalidModel(
                "costs must be a list with one feature map per constraint; "
                f"got one array of shape {given.shape}: write costs=[array]"
            )
        costs = tuple(
            _sized(table, f"cost features {k}")
            for k, table in enumerate(() if given is None else given)
        )
        actions = {table.shape[1] for table in (reward, *costs) if table.ndim == 3}
        if len(actions) > 1:
            raise InvalidModel(
                f"all feature maps must speak of the same actions; got {sorted(actions)}"
            )
        for k, table in enumerate(costs):
            if table.shape[0] != reward.shape[0]:
                raise InvalidModel(
                    f"all feature maps must speak of the same states; "
                    f"got {reward.shape[0]} for the reward and {table.shape[0]} for cost {k}"
                )
        names = _names(self.reward_names, reward.shape[-1], "reward feature")
        given_names = [None] * len(costs) if self.cost_names is None else list(self.cost_names)
        if len(given_names) != len(costs):
            raise InvalidModel(
                f"cost_names must hold one list per constraint ({len(costs)}); "
                f"got {len(given_names)}"
            )
        only = len(costs) == 1
        cost_names = tuple(
            _names(given_names[k], table.shape[-1], "cost feature" if only else f"cost {k} feature")
            for k, table in enumerate(costs)
        )
        maps = tuple(t if is_sparse(t) else read_only(t) for t in (reward, *costs))
        for name in ("reward", "costs"):
            self.__dict__.pop(name, None)  # found again, written out, by whoever asks
        if not any(is_sparse(table) for table in maps):
            self.__dict__.update(reward=maps[0], costs=maps[1:])
        object.__setattr__(self, "_maps", maps)
        object.__setattr__(self, "reward_names", names)
        object.__setattr__(self, "cost_names", cost_names)
        object.__setattr__(self, "curves", tuple(self.curves))

    @staticmethod
    def from_functions(
        reward: RowFunctions, costs: Sequence[RowFunctions] = ()
    ) -> FunctionFeatures:
        """Features of rows of measurements, as functions of (observations [n, d], action) -> [n].

        Args:
            reward: function by name of the feature; the name of a column stands for the column, and
                a list of such names for themselves.
            costs: likewise, one entry a constraint.
        """
        from tacit.model.features.rows import FunctionFeatures

        return FunctionFeatures.of(reward, costs)

    @overload
    @staticmethod
    def from_formula(  # pyright: ignore[reportOverlappingOverload]
        reward: str, costs: Sequence[str] = (), *, data: None = None
    ) -> FormulaFeatures: ...

    @overload
    @staticmethod
    def from_formula(
        reward: str,
        costs: Sequence[str] = (),
        *,
        data: Frame | str | Path,
        layout: Layout | None = None,
        state: str = ...,
        action: str = ...,
    ) -> Features: ...

    @staticmethod
    def from_formula(
        reward: str,
        costs: Sequence[str] = (),
        *,
        data: Frame | str | Path | None = None,
        layout: Layout | None = None,
        state: str = "state",
        action: str = "action",
    ) -> Features | FormulaFeatures:
        """Features by formulas in Wilkinson's notation, such as "C(cover) + scale(slope)".

        Terms are columns, and transforms of them: `C` (a factor; `base="..."` is the level that the
        others are compared with), `scale`, `center`, `log`, `exp`, `sqrt`, `missing` (1 where a
        measurement is missing), and the bases `bs`, `cr`, `cc` and `poly`, for which formulaic is
        installed. `s(x)` is a curve and `te(x, y)` a surface, whose smoothness is estimated:
        `s(hour, cyclic=24)`, `s(x, shape="increasing")` (or "decreasing", "positive"), a curve for
        each level `s(x, by=group)`. `+` puts terms side by side, `:` multiplies them, `a * b` is `a
        + b + a:b`, `(a + b)^2` all pairs; `-` takes a term away. Names with blanks stand between
        `backticks`. There is no constant unless the formula has the term 1. The column `action` is
        what was done, a factor: terms with it, such as `action` or `action:lactate`, are features
        of state and action. A formula is data: anything else in it is refused, and nothing of it is
        run.

        Args:
            reward: formula of the reward.
            costs: one formula per constraint.
            data: a table with one row a state, or one a state and action, as a file, a dict or a
                frame, gives `Features`. None gives features of rows of measurements.
            layout: names of states and actions, where the table gives names and not numbers.
            state: the column that says which state a row is about; without it rows are in order.
            action: the column that says which action it is about.
        """
        from tacit.model.features.formulas import FormulaFeatures, features_of_table

        formulas = FormulaFeatures(reward=reward, costs=costs)  # type: ignore[arg-type]
        if data is None:
            return formulas
        layout = layout or Layout()
        return features_of_table(formulas, data, layout, state=state, action=action)

    def __getattr__(self, name: str) -> object:
        """`reward` and `costs` of sparse maps, written out now and kept."""
        if name not in ("reward", "costs") or "_maps" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        maps = self.maps
        size = sum(int(np.prod(table.shape)) for table in maps if is_sparse(table))
        if size > MOST_DENSE_ENTRIES:
            raise InvalidModel(
                f"sparse features are written out here, entry by entry, which must not take more "
                f"than {MOST_DENSE_ENTRIES} numbers; got {size}: use fewer features, or "
                "Likelihood, which keeps them sparse"
            )
        dense = tuple(read_only(t.toarray()) if is_sparse(t) else t for t in maps)
        self.__dict__.update(reward=dense[0], costs=dense[1:])
        return self.__dict__[name]

    def __repr__(self) -> str:
        shapes = [list(table.shape) for table in self.maps]
        return f"Features(reward={shapes[0]}, costs={shapes[1:]})"

    @property
    def maps(self) -> tuple[FeatureTable, ...]:
        """The feature maps as they are stored, sparse or not: the reward's, then one a cost."""
        return self.__dict__["_maps"]

    def by_action(self, actions: int) -> tuple[np.ndarray, ...]:
        """[S, A, D] of the reward, then one [S, A, D_k] per constraint, whatever they depend on."""
        return tuple(
            table if table.ndim == 3 else np.repeat(table[:, None], actions, axis=1)
            for table in (self.reward, *self.costs)
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many features the reward has, then each constraint."""
        return tuple(table.shape[-1] for table in self.maps)

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Where the features of the reward are among all, then those of each constraint."""
        edges = np.cumsum([0, *self.sizes]).tolist()
        return tuple(slice(a, b) for a, b in pairwise(edges))

    @property
    def constraints(self) -> int:
        """K, the number of constraints."""
        return len(self.maps) - 1

    def check(self, mdp: MDP) -> None:
        """`InvalidModel` unless features are of this world, and alike for all actions of an end."""
        for k, table in enumerate(self.maps):
            name = f"cost features {k - 1}" if k else "reward features"
            if table.shape[:-1] not in ((mdp.states,), (mdp.states, mdp.actions)):
                raise InvalidModel(
                    f"{name} must have shape [S, D] or [S, A, D] with S, A = "
                    f"{(mdp.states, mdp.actions)}; got {table.shape}"
                )
            if table.ndim == 3 and mdp.restricted:
                alike_at_ends(mdp, np.moveaxis(np.asarray(table), 2, 0), name)

    @property
    def reward_alone(self) -> Features:
        """The same without any constraint."""
        own = [curve for curve in self.curves if not curve.block]
        return Features(self.reward, reward_names=self.reward_names, curves=own)

    def objective(
        self,
        reward_weights: ArrayLike,
        cost_weights: Sequence[ArrayLike] | None = (),
        budgets: ArrayLike = (),
    ) -> Objective:
        """The `Objective` whose reward and costs are these weighted sums of features.

        Args:
            reward_weights: [D].
            cost_weights: one [D_k] per constraint.
            budgets: [K].
        """
        alone = [] if cost_weights is None else [cost_weights]
        given = cost_weights if isinstance(cost_weights, Iterable) else alone
        weights = {"reward_weights": reward_weights}
        weights |= {f"cost_weights[{k}]": w for k, w in enumerate(given)}
        weights = {name: numbers(w, name) for name, w in weights.items()}
        if len(weights) - 1 != self.constraints:
            raise InvalidModel(
                f"cost_weights must hold one vector per constraint ({self.constraints}); "
                f"got {len(weights) - 1}"
            )
        made = []
        for (name, w), table in zip(weights.items(), self.maps, strict=True):
            if w.shape != table.shape[-1:]:
                raise InvalidModel(f"{name} must have shape {table.shape[-1:]}; got {w.shape}")
            made.append(np.asarray(table @ w))
        reward, *tables = made
        if any(t.ndim == 2 for t in tables):  # mixed state and state-action costs share one axis
            width = max(t.shape[1] for t in tables if t.ndim == 2)
            tables = [t if t.ndim == 2 else np.repeat(t[:, None], width, axis=1) for t in tables]
        return Objective(reward, np.stack(tables) if tables else None, budgets)


def _cost_tables(given: ArrayLike | None, states: int) -> np.ndarray:
    costs = numbers([] if given is None else given, "costs")
    if costs.size == 0:
        return np.zeros((0, states))
    return finite(costs, "costs", "[K, S] or [K, S, A]", (2, 3))


def is_sparse(table: object) -> TypeIs[SparseTable]:
    """Whether a feature map is a scipy.sparse one."""
    return hasattr(table, "tocsr")


def is_too_large_to_compare(table: FeatureTable) -> bool:
    """Whether a map is sparse, and too large to be written out to compare its columns."""
    return is_sparse(table) and table.shape[0] * table.shape[1] > MOST_COMPARED_ENTRIES


def _kept_sparse(given: SparseTable, name: str) -> SparseTable:
    """A sparse map as CSR in 64 bits, of its own and no longer writable."""
    from scipy.sparse import csr_array

    if len(given.shape) != 2 or 0 in given.shape or given.dtype.kind not in "biuf":
        raise InvalidModel(
            f"{name} that are sparse must be a non-empty matrix of real numbers [S, D]; "
            f"got {given.dtype} {given.shape}"
        )
    table = csr_array(given, dtype=np.float64, copy=True)
    table.sum_duplicates()
    bad = np.flatnonzero(~np.isfinite(table.data))
    if len(bad):
        where = (int(table.tocoo().coords[0][bad[0]]), int(table.indices[bad[0]]))
        raise InvalidModel(f"{name} must be finite; entry {where} is {table.data[bad[0]]}")
    for part in (table.data, table.indices, table.indptr):
        part.setflags(write=False)
    return cast("SparseTable", table)


def _sized(array: GivenTable, name: str) -> FeatureTable:
    """A feature map of which squares and their inverses are numbers, too."""
    if is_sparse(array):
        table = _kept_sparse(array, name)
        sizes = abs(table).max(axis=0).toarray()
    else:
        table = finite(array, name, "[S, D] or [S, A, D]", (2, 3))
        sizes = np.abs(table).max(axis=tuple(range(table.ndim - 1)))
    bad = (sizes > LARGEST) | ((sizes > 0) & (sizes < 1.0 / LARGEST))
    if bad.any():
        j = int(np.argmax(bad))
        raise InvalidModel(
            f"{name} must be numbers between {1 / LARGEST:g} and {LARGEST:g} in size; "
            f"column {j} goes up to {sizes[j]:g}: choose another unit"
        )
    return table


def _names(given: Iterable[str] | None, count: int, label: str) -> tuple[str, ...]:
    if given is None:
        return tuple(f"{label} {j}" for j in range(count))
    names = tuple(str(name) for name in given)
    if len(names) != count:
        raise InvalidModel(f"{label} names: {count} features need {count} names; got {len(names)}")
    return names


def coefficient_names(
    reward_names: Iterable[str], cost_names: Iterable[Iterable[str]]
) -> tuple[str, ...]:
    """[P] the names of the features, costs with their number in front where names repeat."""
    costs = [[str(name) for name in names] for names in cost_names]
    plain = (*reward_names, *(name for names in costs for name in names))
    if len(set(plain)) == len(plain):
        return plain
    numbered = (f"cost {k}: {name}" for k, names in enumerate(costs) for name in names)
    return (*plain[: len(plain) - sum(len(names) for names in costs)], *numbered)


def known_rest(mdp: MDP, features: Features) -> np.ndarray:
    """[S] bool, states that no action leaves, with features that no action changes.

    An end is none of them: there is nothing after it.
    """
    known = mdp.absorbing & ~mdp.ends
    for table in features.maps:
        if table.ndim == 3:
            known = known & (np.ptp(np.asarray(table), axis=1) == 0).all(axis=1)
    return known
