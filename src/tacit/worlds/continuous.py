"""Continuous worlds whose steps are known, from a function or a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tacit.data.sources.gymnasium import make_environment
from tacit.errors import InvalidModel
from tacit.model.arguments import integer
from tacit.model.nodes import Interpolated, Step


def interpolated(
    step: Step | str | object,
    box: npt.ArrayLike | None = None,
    *,
    discount: float,
    nodes: int | Sequence[int] = 41,
    actions: int | None = None,
    noise: npt.ArrayLike | tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    ends: Callable[[np.ndarray], npt.ArrayLike] | None = None,
    columns: Sequence[str] = (),
    repeat: int = 1,
) -> Interpolated:
    """A continuous world on a grid of nodes, to recover from rows of measurements.

    Between nodes values are multilinear. `tacit.recover` says how far that moves its answer.

    Args:
        step: (observations [n, d], action number) -> [n, d] where that leads; or a Gymnasium
            environment whose observation is its `state`, which can be set, or its name.
        box: [d, 2] least and largest value of every coordinate; what leads out stays at its edge.
            None for that of the environment.
        discount: of the world; 1 where every node can reach an end.
        nodes: along every axis, or one number for each: 5, 9, 13, ... 41, 81.
        actions: how many there are; None for those of the environment.
        noise: [d] standard deviations of a normal law that is added to every step; or shifts
            [Q, d] and their chances [Q]. None for certain steps.
        ends: observations [n, d] -> [n] bool, where episodes end. Let the box end there, too.
        columns: names of the coordinates.
        repeat: how often an action is repeated in one step of an environment.
    """
    about = {"nodes": nodes, "discount": discount, "noise": noise, "ends": ends, "columns": columns}
    if not isinstance(step, str) and not hasattr(step, "observation_space"):
        if not callable(step):
            raise InvalidModel(f"step must be a function or an environment; got {step!r:.60}")
        if box is None or actions is None:
            raise InvalidModel(
                "a world given by its step needs box=[(least, largest), ...] and actions="
            )
        return Interpolated.of(cast("Step", step), box, actions=actions, **about)
    environment = _Environment(make_environment(step) if isinstance(step, str) else step, repeat)
    box = environment.box if box is None else box
    count = environment.actions if actions is None else actions
    world = Interpolated.of(environment.step, box, actions=count, **about)
    if ends is None and environment.terminates(world.nodes.points, count):
        raise InvalidModel(
            "episodes end in this environment: say where, as ends=lambda rows: rows[:, 0] >= 0.5"
        )
    return world


class _Environment:
    """A Gymnasium environment as a step from any state."""

    def __init__(self, environment: Any, repeat: int) -> None:
        self._inner = environment.unwrapped
        self._repeat = integer(repeat, "repeat")
        seen, _ = environment.reset(seed=0)
        state = np.ravel(getattr(self._inner, "state", ()))
        if state.shape != np.shape(np.ravel(seen)) or not np.allclose(state, np.ravel(seen)):
            raise InvalidModel(
                "the environment must have its observation as its attribute `state`, so that it "
                "can be set; write its step as a function of the state instead"
            )
        if not hasattr(self._inner.action_space, "n"):
            raise InvalidModel(
                f"the environment must have finitely many actions; got {self._inner.action_space}"
            )

    @property
    def box(self) -> np.ndarray:
        """[d, 2] the bounds of the observations."""
        space = self._inner.observation_space
        edges = np.stack([space.low, space.high], axis=1).astype(float)
        if not (np.abs(edges) < 1e6).all():
            raise InvalidModel(
                f"the environment has no finite box: give box= of {len(edges)} pairs"
            )
        return edges

    @property
    def actions(self) -> int:
        """How many there are."""
        return int(self._inner.action_space.n)

    def step(self, rows: np.ndarray, action: int) -> np.ndarray:
        """[n, d] where an action leads from rows [n, d]."""
        return np.array([self._after(row, action)[0] for row in rows])

    def terminates(self, rows: np.ndarray, actions: int) -> bool:
        """Whether some step from rows [n, d] ends an episode."""
        some = rows[:: max(1, len(rows) // 500)]
        return any(self._after(row, action)[1] for row in some for action in range(actions))

    def _after(self, row: np.ndarray, action: int) -> tuple[np.ndarray, bool]:
        inner, over = self._inner, False
        inner.state = np.array(row)
        for _ in range(self._repeat):
            if hasattr(inner, "steps_beyond_terminated"):
                inner.steps_beyond_terminated = None
            _, _, over, _, _ = inner.step(action)
            if over:
                break
        return np.ravel(inner.state).astype(np.float64), bool(over)
