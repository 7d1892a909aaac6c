"""Pairs of states and actions, one an episode, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidDemonstrations
from tacit.files.columns import integers


def joined(
    trajectories: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """The arguments of `Demonstrations`, from (states, actions) pairs of numbers or known names."""
    states, actions, final = [], [], []
    for number, trajectory in enumerate(trajectories):
        try:
            seen, taken = trajectory
        except (TypeError, ValueError):
            raise InvalidDemonstrations(
                f"trajectory {number} must be a pair (states, actions); got {trajectory!r:.60}"
            ) from None
        seen = _numbered(seen, state_names, f"trajectory {number}: states")
        taken = _numbered(taken, action_names, f"trajectory {number}: actions")
        if len(seen) not in (len(taken), len(taken) + 1):
            raise InvalidDemonstrations(
                f"trajectory {number} must hold as many states as actions, or one more; "
                f"got {len(seen)} and {len(taken)}"
            )
        if len(taken) == 0:
            raise InvalidDemonstrations(f"trajectory {number} holds no step")
        final.append(int(seen[-1]) if len(seen) > len(taken) else -1)
        states.append(seen[: len(taken)])
        actions.append(taken)
    if not states:
        raise InvalidDemonstrations("demonstrations must hold at least one trajectory; got none")
    return {
        "states": np.concatenate(states),
        "actions": np.concatenate(actions),
        "offsets": np.concatenate([[0], np.cumsum([len(taken) for taken in actions])]),
        "final_states": np.array(final),
    }


def _numbered(values: npt.ArrayLike, names: Sequence[str], what: str) -> np.ndarray:
    """[N] the integers of a list of integers or of known names."""
    if not names or not isinstance(values, list | tuple | np.ndarray):
        return integers(values, what)
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "UTO":
        return integers(array, what)
    places = {name: at for at, name in enumerate(names)}
    strange = next((value for value in array.tolist() if value not in places), None)
    if strange is not None:
        raise InvalidDemonstrations(f"{what} must be names of the layout; got {strange!r:.60}")
    return np.array([places[value] for value in array.tolist()], dtype=np.int32)
