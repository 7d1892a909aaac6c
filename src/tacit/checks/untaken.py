"""Actions that were never taken where a fit expects them: perhaps they are not there at all.

A model that thinks of them as open spends chance on them in every visit. What that costs in
likelihood is told; nothing is closed unless somebody asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.inference.expectations import are_weighted
from tacit.inference.findings import LEVEL, Finding, Kind, listed
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.recovery import Recovery

# Pairs named in one sentence.
NAMED = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class UntakenActions:
    """Pairs of state and action that a fit expects and that nobody took.

    Attributes:
        pairs: [S, A] bool, those that chance would hardly leave untaken: perhaps not available.
        untaken: how many pairs of visited states were never taken, these among them.
        expected: steps that the fit expects in `pairs`.
        gain: of the log-likelihood where they are closed, at the same weights and values.
        observed_steps: number of observed actions.
    """

    pairs: np.ndarray
    untaken: int
    expected: float
    gain: float
    observed_steps: int

    def close(self, mdp: MDP) -> MDP:
        """The same world, in which these actions are not available."""
        evidence = mdp.evidence
        if evidence is not None:  # a row that is not there is known for certain
            concentration = np.where(self.pairs, np.inf, evidence.concentration)
            evidence = replace(evidence, concentration=concentration)
        return replace(mdp, available=mdp.available & ~self.pairs, evidence=evidence)

    def names(self, layout: Layout) -> str:
        """The first of the pairs, in words."""
        pairs = np.argwhere(self.pairs)
        named = [f"{layout.action_name(a)} in {layout.state_name(s)}" for s, a in pairs[:NAMED]]
        return listed([*named, *[""] * (len(pairs) - len(named))], NAMED)

    def findings(self, layout: Layout | None = None) -> tuple[Finding, ...]:
        """The proposal to close these actions, with what it is worth; none where there are none."""
        many = int(self.pairs.sum())
        if not many:
            return ()
        said = (
            f"{many} pairs of state and action were never taken, although the fit expects "
            f"{self.expected:.4g} of {self.observed_steps} steps there "
            f"({self.names(layout or Layout())}). If these actions are not available, closing them "
            f"is worth about {self.gain / self.observed_steps:.2g} nats a step: tacit recover "
            "--close-untaken does, in Python tacit.checks.untaken_actions. A missing feature, or "
            "something forbidden, looks the same."
        )
        return (Finding(said, Kind.ASSUMED, number=self.gain / self.observed_steps),)

    def closing(self, layout: Layout | None = None) -> Finding:
        """That these actions are closed for the recovery that follows, and what that was worth."""
        many = int(self.pairs.sum())
        said = (
            f"{many} pairs of state and action that were never taken are closed, as "
            f"--close-untaken asks ({self.names(layout or Layout())}): worth "
            f"{self.gain / self.observed_steps:.2g} nats a step by the fit before. They were "
            "chosen by the same demonstrations: tests and intervals do not count that."
            if many
            else "--close-untaken closed nothing: no action was left untaken that the fit expects."
        )
        return Finding(said, Kind.ASSUMED, number=float(many))


def untaken_actions(mdp: MDP, demonstrations: Demonstrations, recovery: Recovery) -> UntakenActions:
    """The `UntakenActions` of a noisy recovery.

    Args:
        mdp: the world that it was recovered in.
        demonstrations: what was seen.
        recovery: by an estimator of a noisy demonstrator, in one world.
    """
    if not recovery.temperature > 0 or recovery.solution is None:
        raise InvalidModel(
            "what a demonstrator leaves untaken by chance is told of a noisy one in one world; "
            f"got a recovery by {recovery.estimator:.60}"
        )
    if are_weighted(demonstrations):
        raise InvalidDemonstrations(
            "actions that were never taken are told by counts; the demonstrations have sampling "
            "weights"
        )
    return untaken_by(recovery.behaviour, demonstrations.counts(mdp), mdp)


def untaken_by(policy: np.ndarray, counts: np.ndarray, mdp: MDP) -> UntakenActions:
    """The `UntakenActions` of a policy [S, A] and counts [S, A].

    Given the visits, a pair is left untaken with chance (1 - policy) ** visits. By Bonferroni's
    inequality over all pairs of visited states none is proposed by chance but at `LEVEL`.
    """
    visits = counts.sum(axis=1, keepdims=True)
    open_pairs = mdp.available & (visits > 0)
    untaken = open_pairs & (counts == 0)
    chance = np.where(untaken, np.exp(visits * np.log1p(-policy.clip(max=1.0 - 1e-12))), 1.0)
    pairs = chance <= LEVEL / max(int(open_pairs.sum()), 1)
    share = np.where(pairs, policy, 0.0).sum(axis=1).clip(max=1.0 - 1e-12)
    return UntakenActions(
        pairs=pairs,
        untaken=int(untaken.sum()),
        expected=float(visits[:, 0] @ share),
        gain=float(-visits[:, 0] @ np.log1p(-share)),
        observed_steps=int(counts.sum()),
    )
