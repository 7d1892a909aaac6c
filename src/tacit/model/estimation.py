"""Dynamics estimated from demonstrations, or from rows of observed transitions."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.model.available import available_pairs, first_unavailable
from tacit.model.counts import (
    ObservedSteps,
    TransitionCounts,
    count_transitions,
    observed_steps,
    start_shares,
)
from tacit.model.evidence import Evidence
from tacit.model.prior import Prior, Unvisited, posterior, unvisited_rule
from tacit.model.transitions import numbers

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.data.demonstrations import Demonstrations


def estimated(
    states: ArrayLike | Demonstrations,
    actions: ArrayLike | None,
    next_states: ArrayLike | None,
    *,
    n_states: int | None,
    n_actions: int | None,
    initial: ArrayLike | None,
    prior: Prior | float | None,
    unvisited: Unvisited | str,
    absorbing: ArrayLike,
    available: ArrayLike | None,
) -> tuple[csr_array, ArrayLike, Evidence, np.ndarray | None]:
    """([S * A, S] transitions, [S] initial distribution, what they rest on, [S, A] available).

    The arguments are those of `MDP.from_transitions`.
    """
    prior, rule = _prior(prior), unvisited_rule(unvisited)
    if whole := cast("Demonstrations | None", states if hasattr(states, "offsets") else None):
        if actions is not None or next_states is not None:
            raise InvalidDemonstrations("demonstrations hold their own actions and next states")
        seen = observed_steps(whole)
        # Steps with an unknown outcome are not counted, but their states and actions exist.
        if n_states is None:
            n_states = max(int(whole.states.max()), int(whole.final_states.max())) + 1
        if n_actions is None:
            n_actions = int(whole.actions.max()) + 1
    else:
        rows = cast("tuple[ArrayLike, ArrayLike, ArrayLike]", (states, actions, next_states))
        seen = ObservedSteps(*rows)
    counts = count_transitions(
        seen.states, seen.actions, seen.next_states, n_states=n_states, n_actions=n_actions
    )
    known = _absorbing(absorbing, seen.stays, counts.states)
    choices = _available(available, seen.ends[~known[seen.ends]], counts)
    transitions, behind = posterior(counts, prior, rule, known, choices)
    visits = counts.visits
    ways = np.bincount(counts.rows, minlength=visits.size).reshape(visits.shape)
    evidence = Evidence(
        visits,
        behind,
        prior,
        unvisited=rule,
        uncounted=seen.uncounted,
        episodes=int((~whole.partial).sum()) if whole and initial is None else 0,
        deterministic=bool((visits >= 2).any() and (ways[visits >= 2] == 1).all()),
    )
    return transitions, _start(initial, whole, counts.states), evidence, choices


def _prior(given: Prior | float | None) -> Prior:
    """The prior; a number is its strength."""
    if given is None or isinstance(given, Prior):
        return given or Prior()
    if isinstance(given, bool) or not isinstance(given, Real):
        raise InvalidModel(
            f"prior must be a Prior, or the pseudo-count of a row; got {given!r:.60}"
        )
    return Prior(float(given))


def _absorbing(given: ArrayLike, ends: np.ndarray, states: int) -> np.ndarray:
    """[S] bool, the states that are said to be left by nothing."""
    listed = np.concatenate([np.atleast_1d(numbers(given, "absorbing", None)), ends])
    if not np.isin(listed, np.arange(states)).all():
        raise InvalidModel(f"absorbing must list states in 0..{states - 1}; got {given!r:.60}")
    return np.isin(np.arange(states), listed)


def _available(
    given: ArrayLike | None, ends: np.ndarray, counts: TransitionCounts
) -> np.ndarray | None:
    """[S, A] bool, as given, with nothing to do where episodes end; None where all is available.

    A pair that was never seen is unknown, not unavailable: only a mask can tell.
    """
    shape = (counts.states, counts.actions)
    if given is None and not len(ends):
        return None
    mask = available_pairs(given, shape)
    seen = np.divmod(counts.rows, counts.actions)
    if (odd := first_unavailable(mask, *seen)) is not None:
        raise InvalidDemonstrations(f"{odd.sentence()}, seen {counts.counts[odd.row]:g} times")
    mask[ends] = False
    return mask


def _start(
    given: ArrayLike | None, demonstrations: Demonstrations | None, states: int
) -> ArrayLike:
    """[S] the initial distribution: as given, a single state, or counted from first states."""
    if given is None:
        return start_shares(demonstrations, states)
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if not 0 <= given < states:
            raise InvalidModel(f"initial must be a state in 0..{states - 1}; got {given}")
        return np.arange(states) == given
    return given
