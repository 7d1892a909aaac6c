"""Arrays of offline reinforcement learning, as D4RL keeps them: one row a transition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacit.data.demonstrations import Demonstrations
from tacit.data.measurements import Measurements, observations_of
from tacit.data.sources.discretise import Discretiser
from tacit.errors import InvalidDemonstrations
from tacit.files.arrays import read_arrays
from tacit.files.columns import CLASSES, flags
from tacit.files.wording import did_you_mean
from tacit.model.arguments import numbers
from tacit.model.layout import Layout

NEEDED = ("observations", "actions", "terminals")


def from_offline(
    dataset: Mapping[str, npt.ArrayLike] | str | Path,
    *,
    columns: Sequence[str] | None = None,
    action_discretiser: Discretiser | None = None,
) -> Measurements:
    """Measurements of arrays `observations` [N, d], `actions` [N] and `terminals` [N], in order.

    An episode that is terminal has `ended`; one that `timeouts` [N] cuts off has not, nor has the
    last, where the arrays stop. With `next_observations` [N, d] the row after a last action is
    known, and an episode is cut, too, where the next row is another. `notes` say what was taken.

    Args:
        dataset: the arrays by name, such as a dictionary or an open HDF5 file; or an .npz file.
        columns: d names; None for "x0", "x1", ...
        action_discretiser: of continuous actions [N, k].
    """
    held = read_arrays(Path(dataset)) if isinstance(dataset, str | Path) else dataset
    if missing := next((name for name in NEEDED if name not in held), None):
        raise InvalidDemonstrations(
            f"offline data must hold {', '.join(NEEDED)}; {missing!r} is not among "
            f"{', '.join(map(str, held))}{did_you_mean(missing, map(str, held))}"
        )
    rows = observations_of(np.asarray(held["observations"]), "observations", None)
    actions, named = _actions(np.asarray(held["actions"]), action_discretiser)
    over, cut = (
        flags(np.ravel(held[name]), name) if name in held else np.zeros(len(rows), bool)
        for name in ("terminals", "timeouts")
    )
    after = None
    if "next_observations" in held:
        after = observations_of(
            np.asarray(held["next_observations"]), "next_observations", rows.shape[1]
        )
    lengths = {"observations": rows, "actions": actions, "terminals": over, "timeouts": cut}
    lengths |= {} if after is None else {"next_observations": after}
    if len({len(one) for one in lengths.values()}) > 1 or not len(rows):
        got = ", ".join(f"{name} {len(one)}" for name, one in lengths.items())
        raise InvalidDemonstrations(f"offline data must be as many rows in all arrays; got {got}")
    last, notes = over | cut, list[str]()
    last[-1] = True
    if after is not None:
        torn = np.zeros(len(rows), bool)
        torn[:-1] = ~last[:-1] & (~_alike(after[:-1], rows[1:])).any(axis=1)
        last |= torn
        if torn.any():
            notes.append(f"{torn.sum()} episodes are cut where the next row is another")
    elif "timeouts" not in held:
        notes.append("there are no timeouts: episodes go on until they are terminal")
    stops = np.flatnonzero(last) + 1
    finals = np.full(len(stops), -1) if after is None else len(rows) + stops - 1
    sites = Demonstrations(
        states=np.arange(len(rows)),
        actions=actions,
        offsets=np.append(0, stops),
        ended=over[stops - 1],
        final_states=finals,
        layout=named,
        notes=tuple(notes),
    )
    table = rows if after is None else np.concatenate([rows, after])
    names = tuple(f"x{j}" for j in range(rows.shape[1])) if columns is None else tuple(columns)
    return Measurements.at_sites(sites, table, names)


def _alike(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return (first == second) | (np.isnan(first) & np.isnan(second))


def _actions(
    given: np.ndarray, discretiser: Discretiser | None
) -> tuple[np.ndarray, Layout | None]:
    """([N] numbers of actions, their names if a discretiser gives some)."""
    if discretiser is not None:
        classes = np.asarray(discretiser(given.reshape(len(given), -1)))
        return classes, Layout(action_names=discretiser.layout.state_names)
    taken = numbers(given, "actions", error=InvalidDemonstrations)
    taken = taken[:, 0] if taken.ndim == 2 and taken.shape[1] == 1 else taken
    if taken.ndim != 1 or not (taken == np.floor(taken)).all() or (taken < 0).any():
        raise InvalidDemonstrations(
            f"actions must be whole numbers from 0, one a row; got {given.dtype} of shape "
            f"{given.shape}{CLASSES}, or give action_discretiser"
        )
    return taken.astype(np.int64), None
