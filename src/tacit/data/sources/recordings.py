"""Demonstrations from Minari datasets and from trajectories as `imitation` keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacit.data.demonstrations import Demonstrations
from tacit.data.sources.episodes import where_over
from tacit.data.sources.gymnasium import Foreign, number, size
from tacit.errors import InvalidDemonstrations, TacitError


def from_minari(dataset: Foreign, *, ends: npt.ArrayLike | None = None) -> Demonstrations:
    """The demonstrations of a Minari dataset with discrete spaces, read without a network.

    Args:
        dataset: a `MinariDataset`, the folder of one (HDF5 or Arrow), or the name of one that is
            stored on this machine.
        ends: [S] where an episode is over that terminates in each state, as `terminal_states` of
            its environment tells; None for the state itself.
    """
    source = dataset
    if hasattr(dataset, "iterate_episodes"):
        source = getattr(getattr(dataset, "spec", None), "dataset_id", "the dataset")
    else:
        dataset = _opened(dataset)
    states = size(dataset.observation_space, "observations")
    size(dataset.action_space, "actions")
    over = where_over(ends, states)
    pairs, ended = [], []
    try:
        for episode in dataset.iterate_episodes():
            what = f"episode {episode.id}: "
            seen = number(dataset.observation_space, episode.observations, what + "observations")
            taken = number(dataset.action_space, episode.actions, what + "actions")
            terminated = bool(len(taken)) and bool(episode.terminations[-1])
            if terminated:
                seen = np.append(seen[: len(taken)], over[seen[len(taken)]])
            pairs.append((seen, taken))
            ended.append(terminated)
    except TacitError:
        raise
    except Exception as error:  # Minari, HDF5 and Arrow each have errors of their own
        raise _unreadable(source, error) from None
    return Demonstrations.from_trajectories(pairs, ended=ended)


def _opened(source: Foreign) -> Foreign:
    """The dataset of a folder or a name."""
    try:
        import minari
    except ImportError:
        raise InvalidDemonstrations(
            "a Minari dataset needs Minari, which is not installed: pip install 'tacit-irl[minari]'"
        ) from None
    if not isinstance(source, str | Path):
        raise InvalidDemonstrations(
            f"a Minari dataset must be a dataset, a folder or a name; got {type(source).__name__}"
        )
    folder = Path(source)
    inner = folder if (folder / "metadata.json").exists() else folder / "data"
    if not folder.exists() and not isinstance(source, Path):
        try:
            return minari.load_dataset(source, download=False)
        except Exception as error:
            raise _unreadable(source, error) from None
    if not (inner / "metadata.json").exists():
        raise OSError(f"{folder} is no Minari dataset: it holds no metadata.json")
    try:
        return minari.MinariDataset(inner)
    except Exception as error:
        raise _unreadable(source, error) from None


def _unreadable(source: Foreign, error: Exception) -> OSError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return OSError(f"{source} is no Minari dataset that can be read: {reason:.160}")


def from_imitation(trajectories: Iterable[Foreign]) -> Demonstrations:
    """Demonstrations from trajectories with `obs`, `acts` and `terminal`, objects or dictionaries.

    A trajectory may hold one observation more than actions, or as many: `notes` says which was
    found. One that is terminal has `ended`; without the flag it is taken to be cut off.
    """
    pairs, ended = [], []
    longer = unflagged = 0
    for at, trajectory in enumerate(trajectories):
        obs, acts = (_part(trajectory, name, at) for name in ("obs", "acts"))
        flag = _get(trajectory, "terminal")
        unflagged += flag is None
        longer += len(obs) == len(acts) + 1
        ended.append(bool(flag))
        pairs.append((obs, acts))
    made = Demonstrations.from_trajectories(pairs, ended=ended)
    notes = []
    if longer:
        notes.append(
            f"{_some(longer, len(pairs))} one observation more than actions: "
            "the last one is the state after the last action"
        )
    if longer < len(pairs):
        notes.append(
            f"{_some(len(pairs) - longer, len(pairs))} as many observations as actions: "
            "where the last action led is not known"
        )
    if unflagged:
        notes.append(f"{_some(unflagged, len(pairs))} no flag 'terminal': taken to be cut off")
    return replace(made, notes=tuple(notes))


def _some(count: int, total: int) -> str:
    if count == total:
        return "all trajectories hold" if total > 1 else "the trajectory holds"
    return f"{count} of {total} trajectories {'hold' if count > 1 else 'holds'}"


def _get(trajectory: Foreign, name: str) -> Foreign:
    if isinstance(trajectory, Mapping):
        return trajectory.get(name)
    return getattr(trajectory, name, None)


def _part(trajectory: Foreign, name: str, at: int) -> np.ndarray:
    """[N] one column of a trajectory, of whole numbers."""
    part = _get(trajectory, name)
    if part is None:
        raise InvalidDemonstrations(
            f"trajectory {at} must have 'obs' and 'acts'; {name!r} is missing in a "
            f"{type(trajectory).__name__}"
        )
    try:
        array = np.asarray(part)
    except ValueError:
        raise InvalidDemonstrations(f"trajectory {at}: {name} must be one column") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidDemonstrations(
            f"trajectory {at}: {name} must be integers, one a step; got {array.dtype} of shape "
            f"{array.shape}: discretise first, for example with tacit.data.sources.Discretiser"
        )
    return array
