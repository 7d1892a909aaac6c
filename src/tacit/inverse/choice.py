"""Which estimator suits the demonstrations, and why: for the newcomer who has not chosen one."""

from __future__ import annotations

import numpy as np

from tacit.inverse.findings import ENOUGH, single_minded
from tacit.inverse.recover import Estimator
from tacit.mdp import MDP
from tacit.objective import Features
from tacit.tallies.observed import Observed, tally_of

# Above this share of steps in states where the expert always does the same, noise is not seen.
DETERMINISTIC = 0.9


def choose(mdp: MDP, features: Features, demonstrations: Observed) -> tuple[Estimator, str]:
    """The estimator picked by evidence, and the sentence that says so.

    An expert who varies where it could do the same is noisy, and the likelihood of its steps uses
    every one of them. One who does not is taken for optimal, and the set of all explanations is
    exact there, where the likelihood has no maximum.
    """
    from tacit.inverse.explanation import Explanation
    from tacit.inverse.likelihood import Likelihood

    tally = tally_of(mdp, demonstrations)
    counts = tally.counts
    share = single_minded(counts)
    known = int((counts.sum(axis=1) >= ENOUGH).sum())
    seen = "trajectories" if tally.trajectories else "loose pairs"
    if share > DETERMINISTIC:
        reason = (
            f"Explanation was picked: {share:.0%} of the steps in the {known} states with at least "
            f"{ENOUGH} visits were taken where the expert always did the same, as an optimal "
            "expert does."
        )
        return Explanation(), reason
    if known:
        reason = (
            f"Likelihood was picked for these {seen}: {1 - share:.0%} of the steps in the {known} "
            f"states with at least {ENOUGH} visits were taken where the expert varied, as a noisy "
            "expert does."
        )
    else:
        steps = "1 step" if counts.sum() == 1 else f"{int(np.sum(counts))} steps"
        reason = (
            f"Likelihood was picked for these {seen}: no state has {ENOUGH} visits, too few to "
            f"tell an optimal expert from a noisy one ({steps} in all)."
        )
    return Likelihood(), reason
