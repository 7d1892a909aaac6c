"""What is done as measurements change, and whether chances are as often right as they say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.data.measurements import Measurements
from tacit.estimators.logged.recovery import LoggedRecovery

# Places along a measurement, and the share of rows beyond either end.
PLACES, BEYOND = 25, 0.02
# Groups of steps whose chances are compared with what was done.
PARTS = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class Effect:
    """The chances of actions as one measurement changes, the others at their medians.

    Attributes:
        name: of the measurement.
        at: [P] where.
        chances: [P, A] of the actions there.
        density: [P] share of the rows nearest to each place.
    """

    name: str
    at: np.ndarray
    chances: np.ndarray
    density: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class Tenths:
    """How often an action was taken, in tenths of the steps by its chance.

    Attributes:
        action: its name.
        expected: [T] mean chance in each tenth, rising.
        seen: [T] share of the steps that took it.
    """

    action: str
    expected: np.ndarray
    seen: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class RowEffects:
    """What a recovery says of rows.

    Attributes:
        actions: their names.
        effects: one a measurement.
        calibration: one an action.
    """

    actions: tuple[str, ...]
    effects: tuple[Effect, ...]
    calibration: tuple[Tenths, ...]


def row_effects(recovery: LoggedRecovery, seen: Measurements) -> RowEffects:
    """The `RowEffects` of these rows."""
    rows, policy = seen.observations, recovery.policy_at(seen)
    middle = np.nanmedian(rows, axis=0)
    effects = []
    for j, name in enumerate(seen.columns):
        known = rows[:, j][~np.isnan(rows[:, j])]
        low, high = np.quantile(known, [BEYOND, 1.0 - BEYOND]).tolist()
        at = np.linspace(low, high, PLACES)
        moved = np.tile(middle, (PLACES, 1))
        moved[:, j] = at
        edges = np.concatenate([[-np.inf], (at[1:] + at[:-1]) / 2, [np.inf]])
        density = np.histogram(known, edges)[0] / len(known)
        chances = recovery.policy(moved)
        effects.append(Effect(name=name, at=at, chances=chances, density=density))
    calibration = []
    for a, action in enumerate(recovery.actions):
        order = np.argsort(policy[:, a], kind="stable")
        parts = np.array_split(order, PARTS)
        parts = [part for part in parts if len(part)]
        expected = np.array([policy[part, a].mean() for part in parts])
        share = np.array([(seen.actions[part] == a).mean() for part in parts])
        calibration.append(Tenths(action=action, expected=expected, seen=share))
    return RowEffects(
        actions=recovery.actions, effects=tuple(effects), calibration=tuple(calibration)
    )
