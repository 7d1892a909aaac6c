"""What a run folder must hold to be one: its seals may be right and its content wrong.

A checksum says that nothing changed since somebody wrote it, not that tacit did. So everything that
is read back is looked at here, once, while it is read. Code that comes afterwards, such as that of
a report, may rely on it; what goes wrong there is a bug of ours and no bad input.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.files.arrays import BROKEN, Tree
from tacit.files.atomic import BadFile, Page
from tacit.model.names import Layout

if TYPE_CHECKING:  # recoveries save themselves through `runs`, so nothing here must need them
    from tacit.inverse.parameters import Parameters
    from tacit.inverse.recovery import Recovery

# Array and the shape it must have, by what it is called.
Wanted = dict[str, tuple[np.ndarray, tuple[int, ...]]]


@contextmanager
def sound(path: Path, wanted: str) -> Iterator[None]:
    """Inside, what sealed but malformed content raises becomes one line of `BadFile`.

    Args:
        path: of the file or the folder that it came from.
        wanted: what it should have held.
    """
    try:
        yield
    except BROKEN as error:
        reason = " ".join(str(error).split()) or "nothing"
        raise BadFile(f"{path} must hold {wanted}; {type(error).__name__}: {reason:.120}") from None
    except BadFile as error:
        raise BadFile(f"{path} must hold {wanted}; {error!s:.160}") from None


def check_recovery(found: Recovery) -> None:
    """Raises `BadFile` where arrays of a recovery do not belong together."""
    known, solution, objective = found.identification, found.solution, found.objective
    states, actions = solution.policy.shape
    costs, rewards = len(found.multipliers), len(found.reward_weights)
    wanted: Wanted = {
        "policy": (solution.policy, (len(objective.reward), actions)),
        "visitation": (solution.visitation, (states, actions)),
        "values": (solution.values, (states,)),
        "costs spent": (solution.spent, (costs,)),
        "prices": (found.multipliers, (costs,)),
        "reward": (objective.reward, (states, actions)[: np.ndim(objective.reward)]),
        "costs": (objective.costs, (costs, states, actions)[: np.ndim(objective.costs)]),
        "reward weights": (found.reward_weights, (len(found.reward_names),)),
        "reward intervals": (known.reward_intervals, (rewards, 2)),
        "budgets": (found.budgets, (costs,)),
        "names of costs": (np.zeros(len(found.cost_names)), (costs,)),
        "active": (known.active, (costs,)),
        "multiplier intervals": (known.multiplier_intervals, (costs, 2)),
        "budget intervals": (known.budget_intervals, (costs, 2)),
    }
    for k, (weights, names) in enumerate(zip(found.cost_weights, found.cost_names, strict=True)):
        wanted[f"weights of cost {k}"] = (weights, (len(names),))
        wanted[f"intervals of cost {k}"] = (known.cost_intervals[k], (len(names), 2))
    for name, column in found.history.columns.items():
        wanted[f"history of {name}"] = (column, np.shape(column))
    if np.ndim(objective.costs) not in (2, 3) or np.ndim(objective.reward) not in (1, 2):
        raise BadFile("its reward must be tables by state, and action; and so its costs")
    for name, (array, shape) in (wanted | _wanted_of(found.parameters)).items():
        if np.shape(array) != shape or np.asarray(array).dtype.kind not in "biuf":
            raise BadFile(f"its {name} must be numbers {shape}; got {np.shape(array)}")


def _wanted_of(found: Parameters) -> Wanted:
    """The arrays about the coefficients, and the shapes that they must have."""
    count, fitted = len(found.names), len(np.ravel(found.gradient))
    if np.asarray(found.free).dtype != bool:
        raise BadFile("the freedom of its coefficients must be true or false")
    wanted: Wanted = {
        "jacobian": (found.jacobian, (count, fitted)),
        "gradient": (found.gradient, (fitted,)),
        "freedom": (found.free, (fitted,)),
    }
    for name in ("information", "outer", "scatter"):
        wanted[name] = (getattr(found, name), (fitted, fitted))
    for name in ("estimates", "lower", "limits", "unrestricted"):
        array = getattr(found, name)
        if array is not None or name != "unrestricted":
            wanted[name] = (np.asarray(array), (count,))
    return wanted


def layout_of(page: Page, recovery: Recovery) -> Layout:
    """The layout on the page of a run; `BadFile` unless it fits the recovery."""
    layout = dict(page.get("layout", {}))
    layout["directions"] = tuple(map(tuple, layout.get("directions", ())))
    for name, count in zip(
        ("state_names", "action_names"), recovery.solution.policy.shape, strict=True
    ):
        layout[name] = tuple(layout.get(name, ()))
        texts = all(isinstance(one, str) for one in layout[name])
        if not texts or len(layout[name]) not in (0, count):
            raise BadFile(f"its {name} must be {count} texts")
    sides = [layout.get("rows", 0), layout.get("columns", 0)]
    steps = [step for direction in layout["directions"] for step in direction]
    if not all(isinstance(one, int) for one in (*sides, *steps)) or min(sides) < 0:
        raise BadFile("its rows, columns and directions must be whole numbers")
    if any(len(direction) != 2 for direction in layout["directions"]):
        raise BadFile("its directions must be pairs of steps")
    return Layout(**layout)


def check_extras(extras: Tree) -> None:
    """Raises `BadFile` unless further results are what they must be: parts by name."""
    if not (isinstance(extras, dict) and all(isinstance(one, dict) for one in extras.values())):
        raise BadFile("they must have names")
