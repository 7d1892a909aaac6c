"""Where the recovered policy would have been in as many steps, beside where they were seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from tacit.errors import InvalidModel
from tacit.inference.findings import Finding

if TYPE_CHECKING:
    import polars

    from tacit.data.demonstrations import Demonstrations
    from tacit.model.layout import Layout
    from tacit.model.mdp import MDP
    from tacit.recovery import Recovery


@dataclass(frozen=True, eq=False)
class SpaceUse:
    """Use of space: what was seen beside what the fit expects.

    Attributes:
        observed: [S] steps that were seen in each state.
        expected: [S] what infinitely many simulations of the fit give on average: as many tracks,
            from the same states, as long.
        correlation: of the two, over all states.
    """

    observed: np.ndarray
    expected: np.ndarray
    correlation: float

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """How near the one is to the other."""
        said = (
            "Use of space simulated from the fit, with as many tracks from the same places and as "
            f"long, correlates {self.correlation:.2f} with what was seen, cell by cell."
        )
        return (Finding(said, number=self.correlation),)

    def frame(self, layout: Layout) -> polars.DataFrame:
        """A row a state, with its coordinates where they are known.

        Args:
            layout: how states are called and where they lie.
        """
        import polars

        count = len(self.observed)
        columns: dict[str, object] = {"state": [layout.state_name(s) for s in range(count)]}
        middles = layout.middles
        if len(middles) == count and np.isfinite(middles).all():
            columns |= {"x": middles[:, 0], "y": middles[:, 1]}
        shares = {
            "observed": self.observed / max(self.observed.sum(), 1e-300),
            "expected": self.expected / max(self.expected.sum(), 1e-300),
        }
        return polars.DataFrame(columns | shares)


def space_use(mdp: MDP, recovery: Recovery, demonstrations: Demonstrations) -> SpaceUse:
    """The `SpaceUse` of demonstrations and of the policy that was recovered from them.

    Tracks of the fit begin where those that were seen begin and are as long: differences are those
    of the way, not of the start. The average over simulations is computed, not drawn.

    Args:
        mdp: the world.
        recovery: what was recovered in it.
        demonstrations: the tracks.
    """
    if recovery.solution is None:
        raise InvalidModel("use of space needs one policy; of trips and of rows there is none")
    policy = np.asarray(recovery.solution.policy)
    if recovery.lapses is not None:
        random = mdp.available / mdp.available.sum(axis=1, keepdims=True).clip(1)
        policy = (1.0 - recovery.lapses.share) * policy + recovery.lapses.share * random
    moves, states = mdp.transitions, mdp.states
    chances = policy[:, :, None] * moves.probabilities
    begin = np.broadcast_to(np.arange(states)[:, None, None], chances.shape)
    step = csr_array(
        (chances.ravel(), (begin.ravel(), np.asarray(moves.states).ravel())),
        shape=(states, states),
    )
    lengths, first = np.diff(demonstrations.offsets), demonstrations.offsets[:-1]
    starts, order = demonstrations.states[first], np.argsort(-lengths)
    # Sum over t of (starts of tracks longer than t) moved t times, from the last t to the first.
    expected = np.zeros(states)
    ends, at = lengths[order], 0
    for t in range(int(lengths.max()) - 1, -1, -1):
        while at < len(order) and ends[at] > t:
            at += 1
        begun = np.bincount(starts[order[:at]], minlength=states)
        expected = begun + expected @ step
    observed = np.bincount(demonstrations.states, minlength=states).astype(float)
    spread = min(np.ptp(observed), np.ptp(expected))
    correlation = float(np.corrcoef(observed, expected)[0, 1]) if spread > 0 else np.nan
    return SpaceUse(observed, expected, correlation)
