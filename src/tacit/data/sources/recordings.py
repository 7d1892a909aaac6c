"""Demonstrations from Gymnasium environments, Minari datasets, and as `imitation` keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.demonstrations import Demonstrations
from tacit.data.measurements import Measurements
from tacit.data.sources.discretise import Discretiser, checked_ends
from tacit.data.sources.gymnasium import (
    Element,
    Environment,
    Space,
    element,
    is_discrete,
    make_environment,
    measurement_names,
    measurements,
    number,
    size,
    terminal_states,
)
from tacit.errors import InvalidDemonstrations, InvalidModel, TacitError, optional
from tacit.files.atomic import naming
from tacit.model.arguments import ROW_SUM_TOLERANCE, integer
from tacit.model.layout import Layout


@dataclass(frozen=True, eq=False)
class Coding:
    """How the elements of a space are numbered: as they are, or by the states they fall into.

    Those of a continuous space without a discretiser are rows of measurements.

    Attributes:
        space: of observations or actions.
        what: which of the two, for messages.
        discretiser: of a continuous space; None for a discrete one.
    """

    space: Space
    what: str
    discretiser: Discretiser | None = None

    @property
    def size(self) -> int:
        """How many numbers there are."""
        if self.discretiser is not None:
            return self.discretiser.states
        return size(self.space, self.what)

    @property
    def is_measured(self) -> bool:
        """Whether elements have no numbers, and are measured."""
        return self.discretiser is None and not is_discrete(self.space)

    def rows(self, values: Element, count: int) -> np.ndarray:
        """[count, d] the measurements of so many elements."""
        try:
            return measurements(self.space, values, count)
        except (TypeError, ValueError, LookupError):
            raise InvalidDemonstrations(
                f"{self.what} must be {count} of {self.space!s:.80}; got {values!r:.60}"
            ) from None

    def numbers(self, values: Element, *, place: str = "") -> np.ndarray:
        """[N] the numbers of elements [N, ...]."""
        what = f"{place}{self.what}"
        if self.discretiser is None:
            return number(self.space, values, what)
        array = np.asarray(values, dtype=np.float64)
        with naming(what, TacitError):
            return np.asarray(self.discretiser(array.reshape(len(array), -1)))

    def one(self, value: Element) -> Element:
        """The number of one element, or its measurements [d]."""
        if self.is_measured:
            return self.rows(value, 1)[0]
        if self.discretiser is None:
            return int(number(self.space, value, self.what))
        return int(self.numbers([value])[0])

    def element(self, index: int) -> Element:
        """The element of that number; of a continuous space the middle of those."""
        if self.discretiser is None:
            return element(self.space, index)
        middle = self.discretiser.centres[index].reshape(self.space.shape)
        return middle.astype(self.space.dtype)


def rollouts(
    environment: Environment,
    policy: npt.ArrayLike | Callable[[Element], Element],
    *,
    episodes: int = 100,
    seed: int = 0,
    max_steps: int = 1000,
    ends: npt.ArrayLike | None = None,
    discretiser: Discretiser | None = None,
    action_discretiser: Discretiser | None = None,
) -> Demonstrations:
    """Demonstrations of a policy in an environment; `Measurements` where it is not discrete.

    Continuous observations without a discretiser are rows of measurements, the parts of `Dict` and
    `Tuple` spaces side by side. An episode that the environment terminates has `ended`, and the end
    is its final state; one that it truncates, or that is cut after `max_steps`, has not. The same
    seed gives the same episodes, if the environment keeps to its own seed. Nothing is closed.

    Args:
        environment: a Gymnasium environment, or its name. Elements of compound discrete spaces are
            numbered in row-major order.
        policy: [S, A] one distribution over actions a state; rows of ends, which are 0, and of
            further states may be there. Or a function from the number of a state to that of an
            action; where observations are continuous, from the observation itself; where actions
            have a discretiser, to the action itself.
        episodes: how many to collect.
        seed: of the environment and of the choices.
        max_steps: most steps of an episode.
        ends: [S] where an episode is over that terminates in each state; None for those of
            `terminal_states`, as the world of `tacit.worlds.gymnasium` has them, and of an
            environment without a table `P` for the state itself. A discretiser has its own:
            `Discretiser.with_ends`.
        discretiser: of continuous observations. Whether its states are fine enough,
            `tacit.checks.resolution_check` tells.
        action_discretiser: of continuous actions.
    """
    environment = make_environment(environment) if isinstance(environment, str) else environment
    seeing = Coding(environment.observation_space, "observations", discretiser)
    acting = Coding(environment.action_space, "actions", action_discretiser)
    if seeing.is_measured and not callable(policy):
        raise InvalidModel(
            "the policy of continuous observations must be a function of the observation; "
            f"got {type(policy).__name__}"
        )
    states = 0 if seeing.is_measured else seeing.size
    episodes, max_steps = integer(episodes, "episodes"), integer(max_steps, "max_steps")
    ends = ends_of(ends, discretiser)
    if seeing.is_measured:
        _refuse_ends(ends)
    elif ends is None and discretiser is None:
        table = terminal_states(environment)
        # What is observed may not be what the table numbers.
        ends = table if table is not None and table.shape == (states,) else None
    over = where_over(ends, states)
    choose = _chooser(policy, (seeing, acting), np.random.default_rng(seed))
    pairs, ended = [], []
    for episode in range(episodes):
        seen, taken = list[Element](), list[int]()
        observation, _ = environment.reset(seed=seed if episode == 0 else None)
        terminated = truncated = False
        for _ in range(max_steps):
            state = seeing.one(observation)  # its number, or its measurements
            action, chosen = choose(state, observation)
            seen.append(state)
            taken.append(action)
            observation, _, terminated, truncated, _ = environment.step(chosen)
            if terminated or truncated:
                break
        last = seeing.one(observation)
        is_end = terminated and not seeing.is_measured
        pairs.append(([*seen, int(over[last]) if is_end else last], taken))
        ended.append(bool(terminated))
    if seeing.is_measured:
        return _measured(pairs, ended, seeing, acting)
    demonstrations = Demonstrations.from_trajectories(pairs, ended=ended)
    return replace(demonstrations, layout=_layout(discretiser, action_discretiser))


def _measured(
    pairs: list[tuple[Element, Element]], ended: list[bool], seeing: Coding, acting: Coding
) -> Measurements:
    """The measurements of (observations [T + 1, d], numbers of actions [T]) pairs."""
    named = _layout(None, acting.discretiser)
    actions = named.action_names if named else tuple(map(str, range(acting.size)))
    made = Measurements.from_trajectories(
        pairs, columns=measurement_names(seeing.space, what=seeing.what), ended=ended
    )
    return replace(made, layout=Layout(action_names=actions))


def _refuse_ends(ends: npt.ArrayLike | None) -> None:
    if ends is not None:
        raise InvalidModel(
            "ends are of numbered states; rows of measurements need none: leave them out"
        )


def _layout(states: Discretiser | None, actions: Discretiser | None) -> Layout | None:
    """The names that discretisers give; None where there are none."""
    if states is None and actions is None:
        return None
    layout = Layout() if states is None else states.layout
    return layout if actions is None else replace(layout, action_names=actions.layout.state_names)


def ends_of(ends: npt.ArrayLike | None, discretiser: object) -> npt.ArrayLike | None:
    """[S] the ends as given, or those that a discretiser carries; None where nobody says."""
    if not isinstance(discretiser, Discretiser):
        return ends
    if ends is not None:
        raise InvalidModel(
            "a discretiser carries its ends: give them to it, discretiser.with_ends(ends), in "
            "place of ends="
        )
    return discretiser.ends


def where_over(ends_given: npt.ArrayLike | None, states: int) -> np.ndarray:
    """[S] where an episode is over that terminates in each state: as given, or the state itself."""
    ends = np.full(states, -1) if ends_given is None else checked_ends(ends_given, states)
    return np.where(ends < 0, np.arange(states), ends)


def _chooser(
    policy: npt.ArrayLike | Callable[[Element], Element],
    codings: tuple[Coding, Coding],
    random: np.random.Generator,
) -> Callable[[int, Element], tuple[int, Element]]:
    """From a state and its observation to the number of an action and the action itself."""
    seeing, acting = codings
    states, actions = 0 if seeing.is_measured else seeing.size, acting.size
    is_numbered = seeing.discretiser is None and not seeing.is_measured
    if callable(policy):

        def ask(state: int, observation: Element) -> tuple[int, Element]:
            answer = policy(state if is_numbered else observation)
            if acting.discretiser is not None:
                return acting.one(answer), answer
            action = np.asarray(answer)
            if action.dtype.kind not in "iu" or action.ndim or not 0 <= action < actions:
                raise InvalidModel(
                    f"the policy must return an action from 0 to {actions - 1}; "
                    f"got {action!s:.40} in {f'state {state}' if is_numbered else 'a state'}"
                )
            return int(action), acting.element(int(action))

        return ask
    table = np.asarray(policy, dtype=np.float64)
    if table.ndim != 2 or len(table) < states or table.shape[1] != actions:
        raise InvalidModel(
            f"the policy must be a function, or a table of shape {(states, actions)}; "
            f"got shape {table.shape}"
        )
    sums = table.sum(axis=1)
    odd = ~((table >= 0).all(axis=1) & ((np.abs(sums - 1) <= ROW_SUM_TOLERANCE) | (sums == 0)))
    if odd.any():
        state = int(np.argmax(odd))
        raise InvalidModel(
            f"the policy must be distributions over actions; state {state} has {table[state]}"
        )
    likely = np.cumsum(table, axis=1)
    # Rounding must not choose an action beyond the last one that is possible.
    last = actions - 1 - np.argmax(table[:, ::-1] > 0, axis=1)

    def draw(state: int, observation: Element) -> tuple[int, Element]:
        if sums[state] == 0:
            raise InvalidModel(
                f"the policy has no action in state {state}, and the environment goes on there"
            )
        chosen = int(np.searchsorted(likely[state], random.random(), side="right"))
        action = min(chosen, int(last[state]))
        return action, acting.element(action)

    return draw


def from_minari(
    dataset: Any,
    *,
    ends: npt.ArrayLike | None = None,
    discretiser: Discretiser | None = None,
    action_discretiser: Discretiser | None = None,
) -> Demonstrations:
    """The demonstrations of a Minari dataset, read without a network.

    Continuous observations without a discretiser are rows of measurements: `Measurements`.

    Args:
        dataset: a `MinariDataset`, the folder of one (HDF5 or Arrow), or the name of one that is
            stored on this machine.
        ends: [S] where an episode is over that terminates in each state, as `terminal_states` of
            its environment tells; None for the state itself. A discretiser has its own.
        discretiser: of continuous observations.
        action_discretiser: of continuous actions.
    """
    source = dataset
    if hasattr(dataset, "iterate_episodes"):
        source = getattr(getattr(dataset, "spec", None), "dataset_id", "the dataset")
    else:
        dataset = _opened(dataset)
    seeing = Coding(dataset.observation_space, "observations", discretiser)
    acting = Coding(dataset.action_space, "actions", action_discretiser)
    ends = ends_of(ends, discretiser)
    if seeing.is_measured:
        _refuse_ends(ends)
    over = where_over(ends, 0 if seeing.is_measured else seeing.size)
    if acting.size < 1:
        raise InvalidDemonstrations("there must be at least one action; got none")
    pairs, ended = [], []
    try:
        for episode in dataset.iterate_episodes():
            what = f"episode {episode.id}: "
            taken = acting.numbers(episode.actions, place=what)
            if seeing.is_measured:
                seen = seeing.rows(episode.observations, len(taken) + 1)
            else:
                seen = seeing.numbers(episode.observations, place=what)
            terminated = bool(len(taken)) and bool(episode.terminations[-1])
            if terminated and not seeing.is_measured:
                seen = np.append(seen[: len(taken)], over[seen[len(taken)]])
            pairs.append((seen, taken))
            ended.append(terminated)
    except TacitError:
        raise
    except Exception as error:  # Minari, HDF5 and Arrow each have errors of their own
        raise _unreadable(source, error) from None
    if seeing.is_measured:
        return _measured(pairs, ended, seeing, acting)
    demonstrations = Demonstrations.from_trajectories(pairs, ended=ended)
    return replace(demonstrations, layout=_layout(discretiser, action_discretiser))


def _opened(source: Any) -> Any:
    """The dataset of a folder or a name."""
    lacks = InvalidDemonstrations
    minari = optional("minari", "a Minari dataset needs Minari", "minari", lacks)
    if not isinstance(source, str | Path):
        raise InvalidDemonstrations(
            f"a Minari dataset must be a dataset, a folder or a name; got {type(source).__name__}"
        )
    folder = Path(source)
    inner = folder if (folder / "metadata.json").exists() else folder / "data"
    named = isinstance(source, str) and not folder.exists()
    if not named and not (inner / "metadata.json").exists():
        raise OSError(f"{folder} is no Minari dataset: it holds no metadata.json")
    try:
        return minari.load_dataset(source, download=False) if named else minari.MinariDataset(inner)
    except Exception as error:
        raise _unreadable(source, error) from None


def _unreadable(source: Any, error: Exception) -> OSError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return OSError(f"{source} is no Minari dataset that can be read: {reason:.160}")


def from_imitation(trajectories: Iterable[Any]) -> Demonstrations:
    """Demonstrations from trajectories with `obs`, `acts` and `terminal`, objects or dictionaries.

    A trajectory may hold one observation more than actions, or as many: `notes` says which was
    found. One that is terminal has `ended`; without the flag it is taken to be cut off.
    """
    pairs, flags = [], []
    for at, trajectory in enumerate(trajectories):
        obs, acts = (_whole_numbers(trajectory, name, at) for name in ("obs", "acts"))
        pairs.append((obs, acts))
        flags.append(_part(trajectory, "terminal"))
    made = Demonstrations.from_trajectories(pairs, ended=[bool(flag) for flag in flags])
    total, longer = len(pairs), sum(len(obs) > len(acts) for obs, acts in pairs)
    notes = []
    for count, what in (
        (
            longer,
            "one observation more than actions: the last one is the state after the last action",
        ),
        (
            total - longer,
            "as many observations as actions: where the last action led is not known",
        ),
        (flags.count(None), "no flag 'terminal': taken to be cut off"),
    ):
        which = f"{count} of {total} trajectories hold{'s' if count == 1 else ''}"
        if count == total:
            which = "all trajectories hold" if total > 1 else "the trajectory holds"
        notes += [f"{which} {what}"] if count else []
    return replace(made, notes=tuple(notes))


def _part(trajectory: Any, name: str) -> Any:
    if isinstance(trajectory, Mapping):
        return trajectory.get(name)
    return getattr(trajectory, name, None)


def _whole_numbers(trajectory: Any, name: str, at: int) -> np.ndarray:
    """[N] one column of a trajectory."""
    part = _part(trajectory, name)
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
