"""The numbers of a picture, as a table: every function of `tacit.plot` has `.table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from tacit.files.columns import frame_of
from tacit.show.quantities import Group, NamedRecovery

if TYPE_CHECKING:
    import polars

Asked = ParamSpec("Asked")
Drawn = TypeVar("Drawn")


class Plot(Generic[Asked, Drawn]):
    """A picture by one call, and its numbers by `.table` with the same arguments."""

    def __init__(
        self, draw: Callable[Asked, Drawn], numbers: Callable[..., dict[str, Any]]
    ) -> None:
        self._draw, self._numbers = draw, numbers
        update_wrapper(self, draw)

    def __call__(self, *args: Asked.args, **kwargs: Asked.kwargs) -> Drawn:
        """The picture."""
        return self._draw(*args, **kwargs)

    def table(self, *args: Any, pandas: bool = False, **kwargs: Any) -> polars.DataFrame | Any:
        """What is drawn with these arguments, as a frame of Polars, or of pandas."""
        kwargs.pop("axes", None)
        return frame_of(self._numbers(*args, **kwargs), pandas=pandas)

    def __repr__(self) -> str:
        return f"tacit.plot.{self.__name__}"  # pyright: ignore[reportAttributeAccessIssue]


def with_table(
    numbers: Callable[..., dict[str, Any]],
) -> Callable[[Callable[Asked, Drawn]], Plot[Asked, Drawn]]:
    """What makes a `Plot` of a function that draws; `numbers` gives the columns of its table."""
    return lambda draw: Plot(draw, numbers)


def intervals_table(groups: Mapping[str, Group]) -> dict[str, Any]:
    """One row a number of each recovery: its value, and the ends of its interval."""
    rows = [
        (who, name, one.value, one.low, one.high)
        for who, group in groups.items()
        for name, one in group.items()
    ]
    heads = ("recovery", "name", "value", "lower", "upper")
    columns: dict[str, Any] = {head: [row[k] for row in rows] for k, head in enumerate(heads)}
    if [*groups] == [""]:
        columns.pop("recovery", None)
    return columns


def states_table(named: NamedRecovery, values: np.ndarray) -> dict[str, Any]:
    """One row a state."""
    return {"state": [named.state(s) for s in range(len(values))], "value": values}


def pairs_table(named: NamedRecovery, table: np.ndarray, name: str) -> dict[str, Any]:
    """One row a state and action for which there is a number."""
    states, actions = np.nonzero(np.isfinite(table))
    return {
        "state": [named.state(s) for s in states.tolist()],
        "action": [named.action(a) for a in actions.tolist()],
        name: table[states, actions],
    }


def history_table(steps: npt.ArrayLike, logs: npt.ArrayLike) -> dict[str, Any]:
    """One row a look of a watch."""
    return {"steps": np.asarray(steps), "log10_evidence": np.asarray(logs)}
