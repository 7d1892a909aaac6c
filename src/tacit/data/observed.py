"""What was seen, however it is held: in memory, in files too large for it, or as sums alone.

Estimators ask these questions of it and nothing else. Each answer is a sum over episodes.
"""

from __future__ import annotations

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.partitions import PartitionedDemonstrations
from tacit.data.tally import Moves, Scatter, Spread, Tally
from tacit.errors import InvalidDemonstrations
from tacit.model.mdp import MDP
from tacit.model.objective import Features

Observed = Demonstrations | PartitionedDemonstrations | Tally


def check_observed(mdp: MDP, observed: Observed, *, in_memory: bool = False) -> None:
    """Raises `InvalidDemonstrations` unless it was seen in this world.

    `in_memory` asks for `Demonstrations`, for those who must look at single episodes again.
    """
    allowed = (Demonstrations,) if in_memory else (*Observed.__args__,)
    if not isinstance(observed, allowed):
        wanted = " in memory here" if isinstance(observed, Observed) else ""
        raise InvalidDemonstrations(
            f"demonstrations must be Demonstrations{wanted}; got {type(observed).__name__}"
        )
    observed.check(mdp)


def tally_of(mdp: MDP, observed: Observed) -> Tally:
    """The `Tally` in this world."""
    if isinstance(observed, Demonstrations):
        return Tally.of(mdp, observed)
    if isinstance(observed, PartitionedDemonstrations):
        return observed.tally(mdp)
    observed.check(mdp)
    return observed


def counts_of(mdp: MDP, observed: Observed) -> np.ndarray:
    """[S, A] how often each action was taken in each state."""
    if isinstance(observed, Demonstrations):
        return observed.counts(mdp)  # quicker than the whole tally
    return tally_of(mdp, observed).counts


def moves_of(mdp: MDP, observed: Observed) -> Moves | None:
    """The `Moves` that this world cannot have done; None where only sums are left."""
    if isinstance(observed, Demonstrations):
        return Moves.of(mdp, observed)
    return observed.moves(mdp) if isinstance(observed, PartitionedDemonstrations) else None


def spread_of(mdp: MDP, features: Features, observed: Observed) -> Spread | None:
    """The `Spread` of the discounted feature sums; None where only sums over all are left."""
    if isinstance(observed, Demonstrations):
        return Spread.of(mdp, features, observed)
    if isinstance(observed, PartitionedDemonstrations):
        return observed.spread(mdp, features)
    return None


def scatter_of(scores: np.ndarray, observed: Observed) -> Scatter | None:
    """The `Scatter` of the episodes' sums of tables [D, S, A]; None where episodes are lost."""
    if isinstance(observed, Demonstrations):
        return Scatter.of(scores, observed)
    return observed.scatter(scores) if isinstance(observed, PartitionedDemonstrations) else None
