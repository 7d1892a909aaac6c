"""The answer where a world was only logged: functions of rows, in the place of tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from tacit.data.demonstrations import Demonstrations
from tacit.data.measurements import Measurements
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.logged.choice import BasisChoice
from tacit.estimators.logged.choices import RowChoices
from tacit.estimators.logged.world import Logged, LoggedRegression
from tacit.forward.solution import Solution
from tacit.model.features import RowFeatures
from tacit.model.features.rows import FunctionFeatures
from tacit.model.objective import Objective
from tacit.recovery import Recovery

if TYPE_CHECKING:
    from tacit.data.observed import Observed
    from tacit.model.mdp import MDP
    from tacit.model.objective import Features


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LoggedRecovery(Recovery):
    """What a demonstrator wants and refuses, whose world was only logged.

    Attributes:
        world: what was said of it.
        features: of rows; None where they are functions and the recovery was read from a file.
        actions: names of the actions.
        regression: what follows every action, as regressed.
        basis: on which functions, and which were tried; None where there are nodes instead.
        objective: None: there are no states to have tables of.
        solution: None: policy, reward and costs are functions of rows.
    """

    world: Logged
    features: RowFeatures | None = field(default=None, metadata={"packed": "kept_features"})
    actions: tuple[str, ...]
    regression: LoggedRegression
    basis: BasisChoice | None = None
    objective: Objective | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    solution: Solution | None = None  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def kept_features(self) -> RowFeatures | None:
        """The features, where they are formulas that a file can hold; functions are not."""
        return None if isinstance(self.features, FunctionFeatures) else self.features

    @property
    def behaviour(self) -> np.ndarray:
        """Refused: there are no states to have a table of."""
        raise InvalidModel(
            "a logged world has no states to have a table of: ask for recovery.policy(rows)"
        )

    def reward(self, rows: npt.ArrayLike | Measurements, action: int | str) -> np.ndarray:
        """[n] the reward of an action at rows, in the gauge."""
        maps = self._maps(rows)
        return maps[0][:, self._number(action)] @ np.nan_to_num(self.reward_weights)

    def costs(self, rows: npt.ArrayLike | Measurements, action: int | str) -> np.ndarray:
        """[K, n] what each constraint charges for an action at rows; 0 for one that is idle."""
        maps, a = self._maps(rows)[1:], self._number(action)
        pairs = zip(maps, self.cost_weights, strict=True)
        found = [table[:, a] @ np.nan_to_num(weights) for table, weights in pairs]
        return np.stack(found) if found else np.zeros((0, len(self._rows(rows))))

    def policy(self, rows: npt.ArrayLike | Measurements) -> np.ndarray:
        """[n, A] chance of every action at rows."""
        theta, maps = self.parameters.estimates, self._maps(rows)
        signed = np.concatenate([maps[0], *(-table for table in maps[1:])], axis=2)
        later = self.regression.worth(self._rows(rows))
        worth = signed @ theta + self.world.discount * later
        policy = np.exp(worth - np.asarray(logsumexp(worth, axis=1, keepdims=True)))
        if self.lapses is None:
            return policy
        share = self.lapses.share
        return (1.0 - share) * policy + share / policy.shape[1]

    def choice_model(
        self,
        at: Any = None,
        goals: npt.ArrayLike | None = None,
        *,
        world: MDP | None = None,
        features: Features | None = None,
    ) -> RowChoices:
        """What may be chosen at rows, and how chances follow the coefficients; see `predict`."""
        if goals is not None or world is not None or features is not None:
            raise InvalidModel(
                "what is done at rows is predicted where it was logged: leave out goals, world and "
                "features; another world needs one whose steps are known (tacit.worlds."
                "interpolated)"
            )
        if at is None:
            raise InvalidModel("predictions at rows need them: predict(rows)")
        rows, discount = self._rows(at), self.world.discount
        maps = self._maps(rows)
        return RowChoices(
            labels=dict(zip(self.columns, rows.T, strict=True)),
            signed=np.concatenate([maps[0], *(-table for table in maps[1:])], axis=2),
            later=discount * self.regression.worth(rows),
            slopes=discount * self.regression.slopes(rows),
            reference=self.regression.reference,
            shared=self.regression.shared,
        )

    def updated(
        self, more: Observed, *, forget: float | None = None, keep_rows: bool = False
    ) -> NoReturn:
        """Refused: rows have no sums to which more could be added."""
        raise InvalidModel(
            "rows have no sums to which more could be added, since each is regressed on: pool them "
            "(old + new) and recover again; Logged(basis=recovery.basis.basis.family) keeps the "
            "family"
        )

    def policy_at(self, seen: Demonstrations) -> np.ndarray:
        """[N, A] chance of every action at the rows of steps; one line where these are none."""
        if not isinstance(seen, Measurements):
            raise InvalidDemonstrations(
                "this recovery is about rows of measurements; got demonstrations of numbered states"
            )
        return self.policy(seen.measuring(self.columns).observations[: seen.steps])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the measurements."""
        return self.regression.inputs.imputing.columns

    def _maps(self, rows: npt.ArrayLike | Measurements) -> tuple[np.ndarray, ...]:
        """One [n, A, D_k] for the reward, then one per constraint."""
        if self.features is None:
            raise InvalidModel(
                "features that are functions are not kept in files: recover again, or give "
                "formulas, Features.from_formula"
            )
        count = len(self.actions)
        return self.features.on(self._rows(rows), count).by_action(count)

    def _rows(self, rows: Any) -> np.ndarray:
        """[n, d] rows of an array, of a frame, or of measurements."""
        if isinstance(rows, Measurements):
            return rows.measuring(self.columns).observations
        if hasattr(rows, "columns"):
            strange = [name for name in self.columns if name not in rows.columns]
            if strange:
                raise InvalidModel(f"rows must have a column {strange[0]!r}; it is missing")
            rows = rows[list(self.columns)]
        found = np.atleast_2d(np.asarray(rows, dtype=np.float64))
        if found.ndim != 2 or found.shape[1] != len(self.columns):
            raise InvalidModel(
                f"rows must be [n, {len(self.columns)}], one column for each of "
                f"{', '.join(self.columns)}; got shape {found.shape}"
            )
        return found

    def _number(self, action: int | str) -> int:
        """The number of an action, given so or by its name."""
        if isinstance(action, str):
            if action not in self.actions:
                known = ", ".join(self.actions)
                raise InvalidModel(f"action must be one of {known}; got {action!r:.60}")
            return self.actions.index(action)
        if not 0 <= action < len(self.actions):
            raise InvalidModel(f"action must be 0 to {len(self.actions) - 1}; got {action!r:.60}")
        return int(action)
