"""Where episodes start: as `problem.toml` says, or as they were seen to."""

from __future__ import annotations

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.problems.feature_table import FeatureTable
from tacit.problems.naming import lookup
from tacit.problems.settings import Settings
from tacit.problems.sheets import nearest


def given_start(
    settings: Settings, states: tuple[str, ...], table: FeatureTable | None
) -> np.ndarray | None:
    """[S] the distribution of the first state; None where `problem.toml` does not say."""
    given, known = settings.initial, lookup(states)
    if given is None:
        return None
    if isinstance(given, str) and given not in known and table and table.gives(given):
        shares = table.column(given, known, {"": 0})
        return _distribution(shares, f"{table.sheet.path}: the column {given!r}, initial,")
    start = np.zeros(len(states))
    for name, share in {given: 1.0}.items() if isinstance(given, str) else given.items():
        if name not in known:
            raise InvalidModel(
                f"{settings.path}: initial must name a state; got {name!r}{nearest(name, known)}"
            )
        start[known[name]] = share
    return _distribution(start, f"{settings.path}: initial")


def _distribution(shares: np.ndarray, what: str) -> np.ndarray:
    if shares.ndim != 1 or not (shares >= 0).all() or abs(shares.sum() - 1.0) > 1e-6:
        total = f"; it sums to {shares.sum():g}" if (shares >= 0).all() else "; one is negative"
        raise InvalidModel(f"{what} must be probabilities of states that sum to 1{total}")
    return shares


def first_states(
    settings: Settings, demonstrations: Demonstrations | None, states: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """[S] the shares of the first states that were seen, and the sentence that says so."""
    whole = None if demonstrations is None else np.flatnonzero(~demonstrations.partial)
    if demonstrations is None or whole is None or not len(whole):
        raise InvalidModel(
            f'{settings.path} must give initial, such as initial = "name of a state": there are no '
            "demonstrations seen from their start to take it from"
        )
    begins = demonstrations.states[demonstrations.offsets[:-1][whole]]
    inside = begins[(begins >= 0) & (begins < states)]
    shares = np.bincount(inside, minlength=states) / max(1, len(inside))
    note = (
        f"Where episodes start was not given: the shares of the first states of {len(whole)} "
        "episodes were taken."
    )
    return shares, (note,)
