"""The strength of a prior: as given, or that under which trajectories held out are likeliest.

A prior is a penalty, whose strength is one over the variance of a weight, or of a difference,
before anything is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidModel
from tacit.inference.evidence import Evidence
from tacit.inference.findings import Finding, Kind
from tacit.likelihood.problem import Fit, LikelihoodProblem
from tacit.likelihood.start import Bounds
from tacit.model.ends import uniform_policy
from tacit.model.features import Ridge, Smooth
from tacit.model.features.design import Design
from tacit.model.mdp import MDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.estimators.likelihood import Likelihood
    from tacit.estimators.setting import Setting

# Strengths that are tried, the strongest first; after so many worse ones no weaker is tried.
STRENGTHS = 10.0 ** np.arange(3.0, -3.25, -0.5)
WORSE = 3
# Parts that the trajectories are divided into; each is held out once.
FOLDS = 4
# Projected gradient to reach, evaluations to take, where only a prediction is wanted.
ROUGHLY, BRIEFLY = 1e-6, 60


@dataclass(frozen=True, eq=False, kw_only=True)
class Strength:
    """The strength of a prior, and how it was chosen.

    Attributes:
        prior: whose.
        value: of the penalty.
        tried: [n] strengths; empty where it was given.
        held_out: [n] mean log-likelihood of a step held out.
        random: the same of random actions.
    """

    prior: Ridge | Smooth
    value: float
    tried: np.ndarray = field(default_factory=lambda: np.zeros(0))
    held_out: np.ndarray = field(default_factory=lambda: np.zeros(0))
    random: float = np.nan

    def on(self, chain: Any) -> Any:
        """The chain with the penalty of the prior."""
        return replace(chain, penalty=self.value * penalty_of(self.prior, chain.mdp, chain.space))

    def history(self, fitted: Fit) -> dict[str, np.ndarray]:
        """What was tried, and what came of the strength that was taken."""
        before = np.full(len(self.tried), np.nan)
        return {
            "strength": np.append(self.tried, self.value),
            "held_out": np.append(self.held_out, np.nan),
            "loss": np.append(before, fitted.loss),
            "evaluations": np.append(before, fitted.steps),
        }


def penalty_of(prior: Ridge | Smooth, mdp: MDP, design: Design) -> csr_array:
    """[D, D] the penalty of a prior of strength one."""
    from scipy.sparse import block_diag, csr_array, eye_array

    if isinstance(prior, Ridge):
        return csr_array(eye_array(design.size))
    rough, blocks = prior.roughness(mdp), []
    for part in design.parts:
        by_state = part
        if part.shape[0] != mdp.states:  # pairs: what the actions of a state pay on average
            by_pair = part.reshape(*design.shape, -1) * uniform_policy(mdp)[:, :, None]
            by_state = by_pair.sum(axis=1)
        blocks.append(csr_array(by_state.T @ csr_array(rough @ by_state)))
    return csr_array(block_diag(blocks, format="csr"))


def strength_of(options: Likelihood, setting: Setting, chain: Any) -> Strength | None:
    """The strength of the prior, as given or chosen; None without a prior that is a penalty."""
    prior = options.prior
    if not isinstance(prior, Ridge | Smooth):
        return None
    if prior.strength is None:
        return choose_strength(options, setting, chain)
    return Strength(prior=prior, value=float(prior.strength))


def choose_strength(options: Likelihood, setting: Setting, chain: Any) -> Strength:
    """The strength under which episodes that are held out are likeliest.

    Every part of the episodes is held out once. The fits go from the strongest to weaker ones, each
    begun where the last one ended.
    """
    seen, prior = setting.seen, options.prior
    assert isinstance(prior, Ridge | Smooth)
    many = seen.episodes if isinstance(seen, Demonstrations) else 0
    if many < 2:
        raise InvalidModel(
            "the strength of a prior is chosen by trajectories held out, of which two or more must "
            f"be in memory; got {seen!r:.60}: give the strength, as in "
            f"{type(prior).__name__}(strength=1.0)"
        )
    task, folds = setting.task, min(FOLDS, many)
    part = np.random.default_rng(options.seed).permutation(task.demonstrations.episodes) % folds
    pairs = [task.group_chains((part == k).astype(np.int64), options) for k in range(folds)]
    units = [penalty_of(prior, kept.mdp, kept.space) for kept, _ in pairs]
    rules = {"tolerance": ROUGHLY, "max_steps": BRIEFLY, "stage": "strength"}
    fits: list[Fit | None] = [None] * folds
    means: list[float] = []
    for strength in STRENGTHS:
        total = 0.0
        for k, ((kept, held), near) in enumerate(zip(pairs, fits, strict=True)):
            trained, space = replace(kept, penalty=strength * units[k]), kept.space
            bounds = Bounds.of(space, options)
            problem = LikelihoodProblem.of(trained, bounds.lower, bounds.upper)
            place = (np.zeros(space.size), None) if near is None else (near.z, near.parts)
            fits[k] = fit = problem.minimum(*place, **rules)
            x = fit.z * held.space.scales / space.scales
            total += held.loss_at(x, fit.parts[0], ROUGHLY)
        means.append(-total / chain.steps)
        if len(means) - 1 - int(np.argmax(means)) >= WORSE:
            break
    return Strength(
        prior=prior,
        value=float(STRENGTHS[int(np.argmax(means))]),
        tried=STRENGTHS[: len(means)],
        held_out=np.array(means),
        random=-chain.at_random / chain.steps,
    )


def prior_findings(strength: Strength, evidence: Evidence, e: int = 0) -> list[Finding]:
    """That estimates are penalised, how strongly, what chose the strength, and what it decides."""
    prior, best = strength.prior, float(strength.held_out.max(initial=-np.inf))
    what = (
        "pulls every weight towards 0"
        if isinstance(prior, Ridge)
        else "pulls what neighbouring states pay towards each other"
    )
    said = f"A {prior} prior of strength {strength.value:g} {what}: estimates are penalised"
    if not len(strength.tried):
        said += "."
    else:
        said += (
            f". Trajectories held out chose it among {len(strength.tried)} strengths from "
            f"{strength.tried[-1]:g} to {strength.tried[0]:g}: {best:.4g} log-likelihood a step, "
            f"random actions {strength.random:.4g}."
        )
    findings = [Finding(said, Kind.ASSUMED, number=strength.value)]
    if len(strength.tried) and not best > strength.random:
        said = (
            "No strength of the prior predicts held-out trajectories better than random actions: "
            "these demonstrations are too few to tell what is wanted."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=best - strength.random))
    space = evidence.chains[e].chain.space
    if not space.ending and space.constant is not None:
        said = (
            "A constant in the reward of every state is a sum of these features and changes no "
            "behaviour: reward weights are identified up to it, and those given are one choice."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED))
    if not evidence.absence:
        said = (
            f"The demonstrations determine as much as {evidence.effective:.3g} of {space.size} "
            "weights, the prior the rest."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED, number=evidence.effective))
    return findings
