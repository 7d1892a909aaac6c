"""From what was seen to transitions, a start, and the evidence for both."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from tacit.counting import count_transitions, observed_steps
from tacit.dynamics_prior import Prior, Unvisited, posterior, unvisited_rule
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.evidence import Evidence
from tacit.transitions import numbers


def estimated(
    states: Any,
    actions: Any,
    next_states: Any,
    *,
    n_states: int | None,
    n_actions: int | None,
    initial: Any,
    prior: Prior | float | None,
    unvisited: Unvisited | str,
    absorbing: Any,
) -> tuple[Any, Any, Evidence]:
    """([S * A, S] transitions, [S] initial distribution, what they rest on).

    The arguments are those of `MDP.from_transitions`.
    """
    prior, rule = _prior(prior), unvisited_rule(unvisited)
    starts, ends, uncounted = np.zeros(0, np.int64), np.zeros(0, np.int64), 0
    if hasattr(states, "offsets"):
        if actions is not None or next_states is not None:
            raise InvalidDemonstrations("demonstrations hold their own actions and next states")
        whole, seen = states, observed_steps(states)
        # Steps with an unknown outcome are not counted, but their states and actions exist.
        if n_states is None:
            n_states = max(int(whole.states.max()), int(whole.final_states.max())) + 1
        if n_actions is None:
            n_actions = int(whole.actions.max()) + 1
        starts, ends, uncounted = seen.starts, seen.ends, seen.uncounted
        states, actions, next_states = seen.states, seen.actions, seen.next_states
    counts = count_transitions(states, actions, next_states, n_states=n_states, n_actions=n_actions)
    known = _absorbing(absorbing, ends, counts.states)
    transitions, behind = posterior(counts, prior, rule, known)
    counted = len(starts) if initial is None else 0
    visits = counts.visits
    ways = np.bincount(counts.rows, minlength=visits.size).reshape(visits.shape)
    sure = bool((visits >= 2).any() and (ways[visits >= 2] == 1).all())
    evidence = Evidence(visits, behind, prior, rule, uncounted, counted, sure)
    return transitions, _start(initial, starts, counts.states), evidence


def _prior(given: Any) -> Prior:
    """The prior; a number is its strength."""
    if given is None or isinstance(given, Prior):
        return given or Prior()
    if isinstance(given, bool) or not isinstance(given, Real):
        raise InvalidModel(
            f"prior must be a Prior, or its number of imagined steps a row; got {given!r:.60}"
        )
    return Prior(float(given))


def _absorbing(given: Any, ends: np.ndarray, states: int) -> np.ndarray:
    """[S] bool, the states that are said to be left by nothing."""
    listed = np.concatenate([np.atleast_1d(numbers(given, "absorbing", None)), ends])
    if not np.isin(listed, np.arange(states)).all():
        raise InvalidModel(f"absorbing must list states in 0..{states - 1}; got {given!r:.60}")
    return np.isin(np.arange(states), listed)


def _start(given: Any, starts: np.ndarray, states: int) -> Any:
    """[S] the initial distribution: as given, a single state, or counted from first states."""
    if given is None:
        if not len(starts):
            raise InvalidModel(
                "initial must be given, a distribution [S] or the number of a state: no episode "
                "was seen from its start"
            )
        return np.bincount(starts, minlength=states) / len(starts)
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if not 0 <= given < states:
            raise InvalidModel(f"initial must be a state in 0..{states - 1}; got {given}")
        return np.arange(states) == given
    return given
