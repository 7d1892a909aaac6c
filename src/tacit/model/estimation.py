"""Dynamics estimated from counted steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.model.arguments import is_integer, numbers
from tacit.model.available import available_pairs, first_unavailable
from tacit.model.counts import CountedSteps
from tacit.model.evidence import DynamicsEvidence
from tacit.model.pseudo_counts import Prior, Unvisited, posterior, unvisited_rule

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.model.objective import SparseTable


def estimated(
    steps: CountedSteps,
    *,
    prior: Prior | float | None,
    unvisited: Unvisited | str,
    absorbing: ArrayLike,
    available: ArrayLike | None,
) -> tuple[csr_array, DynamicsEvidence, np.ndarray | None]:
    """([S * A, S] transitions, what they rest on, [S, A] available), as `MDP.from_transitions`."""
    prior, rule, counts = _prior(prior), unvisited_rule(unvisited), steps.counts
    pairs, states = counts.shape
    shape = (states, pairs // states)
    known = _absorbing(absorbing, steps.stays, states)
    choices = _available(available, steps.ends[~known[steps.ends]], counts, shape)
    transitions, behind = posterior(counts, prior, rule, known, choices)
    visits, ways = counts.sum(axis=1), np.diff(counts.indptr)
    evidence = DynamicsEvidence(
        visits.reshape(shape),
        behind,
        prior,
        unvisited=rule,
        uncounted=steps.uncounted,
        deterministic=bool((visits >= 2).any() and (ways[visits >= 2] == 1).all()),
    )
    return transitions, evidence, choices


def _prior(given: Prior | float | None) -> Prior:
    """The prior; a number is its strength."""
    if isinstance(given, Prior):
        return given
    return Prior() if given is None else Prior(given)


def _absorbing(given: ArrayLike, ends: np.ndarray, states: int) -> np.ndarray:
    """[S] bool, the states that are said to be left by nothing."""
    listed = np.concatenate([np.atleast_1d(numbers(given, "absorbing", None)), ends])
    if not np.isin(listed, np.arange(states)).all():
        raise InvalidModel(f"absorbing must list states in 0..{states - 1}; got {given!r:.60}")
    return np.isin(np.arange(states), listed)


def _available(
    given: ArrayLike | None, ends: np.ndarray, counts: SparseTable, shape: tuple[int, int]
) -> np.ndarray | None:
    """[S, A] bool, as given, with nothing to do where episodes end; None where all is available.

    A pair that was never seen is unknown, not unavailable: only a mask can tell.
    """
    if given is None and not len(ends):
        return None
    mask = available_pairs(given, shape)
    seen = counts.tocoo()
    if (odd := first_unavailable(mask, *np.divmod(seen.row, shape[1]))) is not None:
        raise InvalidDemonstrations(f"{odd.sentence()}, seen {seen.data[odd.row]:g} times")
    mask[ends] = False
    return mask


def start_of(given: ArrayLike, states: int) -> ArrayLike:
    """[S] the initial distribution as given, or that of a single state by its number."""
    if is_integer(given):
        if not 0 <= given < states:
            raise InvalidModel(f"initial must be a state in 0..{states - 1}; got {given}")
        return np.arange(states) == given
    return given
