"""What was seen, as the one report of a noisy expert asks for it: steps in a world."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.data.tally import Tally
from tacit.dynamics.counted import CountedRows
from tacit.estimators.assembly import Estimate, recovery
from tacit.estimators.estimate import point_of, solution_of
from tacit.estimators.lapses import goodness_with_lapses
from tacit.estimators.task import Task
from tacit.inference.diagnostics import Goodness, goodness_of, untested
from tacit.inference.dynamics_noise import policy_noise, uncounted_findings
from tacit.inference.evidence import Evidence
from tacit.inference.expectations import expectations_from_start
from tacit.inference.findings import NAMED, Finding, Kind, feature_findings, listed
from tacit.inference.gauged_intervals import PROFILED
from tacit.inference.goodness import FittedChoices
from tacit.inference.information import fitted_scores
from tacit.inference.parameters import inverse_information
from tacit.inference.power import PowerStudy
from tacit.likelihood.kinds import KindsChain, StepUnits
from tacit.likelihood.problem import Fit
from tacit.likelihood.protocol import ChainEvidence
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design
from tacit.model.mdp import MDP
from tacit.model.objective import Features, is_too_large_to_compare
from tacit.recovery import Recovery
from tacit.search.algebra import largest_first

if TYPE_CHECKING:
    from tacit.estimators.likelihood import Likelihood

# Directions, drawn at random, in which trajectories are compared where parameters are very many.
DIRECTIONS = 12


class Setting(Protocol):
    """World, features and what was seen there, as fit and report of an expert ask for it."""

    @property
    def mdp(self) -> MDP:
        """The world."""
        ...

    @property
    def features(self) -> Features:
        """What reward and costs may be made of."""
        ...

    @property
    def seen(self) -> Any:
        """What was seen there."""
        ...

    @property
    def counted(self) -> bool:
        """Whether errors are to count that the dynamics were estimated."""
        ...

    @property
    def task(self) -> Task:
        """The same, single episodes of which can be looked at again."""
        ...

    def chain(self, options: Likelihood) -> Any:
        """The likelihood of all that was seen, without prior."""
        ...

    def step_units(self, chain: Any) -> Any:
        """What was seen as single steps."""
        ...

    def episode_units(self, options: Likelihood) -> Any:
        """What was seen as whole episodes."""
        ...

    def goodness(self, options: Likelihood, evidence: Evidence) -> Goodness:
        """Whether the model fits, at a fit that converged."""
        ...

    def point(self, evidence: Evidence, e: int = 0) -> Estimate:
        """The numbers of chain e of a fit, of which is still to be said how well they are known."""
        ...

    def findings(self, evidence: Evidence, e: int = 0) -> list[Finding]:
        """What of features, data and optimum is to be known of chain e of a fit."""
        ...

    def with_lapses(self, found: Estimate, chain: Any) -> Estimate:
        """The estimate, which says what it takes lapses for."""
        ...

    def of_type(self, evidence: Evidence, k: int) -> Setting:
        """What was seen of one type of demonstrators."""
        ...

    def recovery(self, called: str, found: Estimate, evidence: Evidence, e: int = 0) -> Recovery:
        """The answer, `called` by the estimator's call."""
        ...


@dataclass(frozen=True, eq=False)
class StepsSetting:
    """A world, and the steps that were seen there.

    Attributes:
        mdp: the world.
        features: what reward and costs may be made of.
        seen: the demonstrations.
        of_types: whether they are of one of several types of demonstrators.
    """

    mdp: MDP
    features: Features
    seen: Observed
    of_types: bool = False

    @property
    def counted(self) -> bool:
        """Whether errors are to count that the dynamics were estimated."""
        return self.mdp.evidence is not None

    @property
    def task(self) -> Task:
        """The same, single episodes of which can be looked at again."""
        assert isinstance(self.seen, Demonstrations)
        return Task(self.mdp, self.features, self.seen)

    def chain(self, options: Likelihood) -> StepsChain:
        """The likelihood of all steps, without prior."""
        return StepsChain.of(self.mdp, Design.of(self.mdp, self.features), self.seen)

    def step_units(self, chain: StepsChain) -> StepUnits:
        """Single steps."""
        return StepUnits.steps(chain)

    def episode_units(self, options: Likelihood) -> StepUnits:
        """Whole trajectories."""
        assert isinstance(self.seen, Demonstrations)
        return StepUnits.trajectories(self.mdp, Design.of(self.mdp, self.features), self.seen)

    def goodness(self, options: Likelihood, evidence: Evidence) -> Goodness:
        """Whether the model fits, at the fit with every constraint."""
        fitted = evidence.fitted
        chain = fitted.problem.chains[0]
        if chain.squares is not None:
            return untested("its tests need counts, and the steps have sampling weights")
        if isinstance(chain, KindsChain):
            return goodness_with_lapses(evidence, self.seen, options.level, options.seed)
        if evidence.boundless and chain.by_products:
            return untested("the search found no maximum")
        if not evidence.written:
            size = len(fitted.z)
            return untested(f"the law of a fit of {size} features is too large to simulate")
        found = chain_goodness(evidence.chains[0], fitted, self.seen, options.level, options.seed)
        known = fitted.known() is not None or chain.mdp.evidence or fitted.problem.penalised
        if not isinstance(self.seen, Demonstrations) or known:
            return found
        return replace(found, study=PowerStudy(options, fitted, self.seen))

    def point(self, evidence: Evidence, e: int = 0) -> Estimate:
        """The numbers of chain e of a fit, and the policy that was fitted."""
        fitted, gauge, own = evidence.fitted, evidence.gauge(e), evidence.chains[e]
        solution = solution_of(self.features, fitted, gauge, own.reached, own=own, e=e)
        point = point_of(self.features, fitted, gauge, solution)
        seen = expectations_from_start(self.mdp, self.features, self.seen, own.chain.tally)
        return replace(point, seen=seen, counts=own.chain.counts)

    def findings(self, evidence: Evidence, e: int = 0) -> list[Finding]:
        """What of features, sampling weights and optimum is to be known of chain e of a fit."""
        chain = evidence.chains[e].chain
        findings = design_findings(self.features, chain)
        findings += [] if chain.squares is None else weight_findings(chain)
        if self.of_types:
            reason = "which type a trajectory is of depends on them in no way that is known here"
            return findings + uncounted_findings(self.mdp, reason)
        if isinstance(evidence.fitted.problem.chains[0], KindsChain):
            said = (
                "With lapses the likelihood is not convex: the optimum is a local one, sought from "
                "the fit without them."
            )
            findings.append(Finding(said, Kind.LOCAL_OPTIMUM))
        elif not chain.convex:
            is_prior = chain.penalty is not None and not chain.space.curves
            start = "weights 0" if is_prior else "the convex fit"
            said = (
                "The likelihood is not certain to be convex at these counts: the optimum is a "
                f"local one, sought from {start}."
            )
            findings.append(Finding(said, Kind.LOCAL_OPTIMUM))
        return findings

    def with_lapses(self, found: Estimate, chain: StepsChain) -> Estimate:
        """The estimate, its likelihoods of all steps."""
        return replace(found, counts=chain.counts)

    def of_type(self, evidence: Evidence, k: int) -> StepsSetting:
        """Steps beside the trajectories likeliest of this type, or the likeliest steps alone."""
        assert isinstance(self.seen, Demonstrations)
        own = evidence.fitted.parts[0].membership.argmax(axis=0) == k
        if evidence.fitted.problem.chains[0].sequences.tables:
            pairs = self.seen.pairs(self.mdp.actions)[own]
            counts = np.bincount(pairs, minlength=self.mdp.states * self.mdp.actions)
            shape = self.mdp.states, self.mdp.actions
            return replace(
                self, seen=Tally.of_counts(counts.reshape(shape), self.mdp.discount), of_types=True
            )
        # A type that is nobody's likeliest has no trajectory to be compared with.
        nobody = replace(self.seen, partial=np.ones(self.seen.episodes, bool))
        tally = Tally.of(self.mdp, self.seen.select(own) if own.any() else nobody)
        return replace(self, seen=tally, of_types=True)

    def recovery(self, called: str, found: Estimate, evidence: Evidence, e: int = 0) -> Recovery:
        """The answer, `called` by the estimator's call."""
        return recovery(called, self.mdp, self.features, self.seen, found)


def chain_goodness(
    own: ChainEvidence, fitted: Fit, demonstrations: Observed, level: float, seed: int, e: int = 0
) -> Goodness:
    """Whether the model fits what was seen of chain e; with counted dynamics, allowing for them."""
    chain, part = own.chain, own.part
    free = fitted.free[fitted.problem.ties.rows[e]]
    known = fitted.known(e)
    plain = known is None
    named = plain and chain.penalty is None  # what steps do not tell, a prior does
    choices = FittedChoices(
        counts=chain.counts,
        policy=part.policy,
        scores=fitted_scores(fitted, own.scores, e),
        choices=chain.mdp.available.sum(axis=1),
        names=[chain.space.labels[j] for j in np.flatnonzero(free)] if named else [],
    )
    size = len(choices.scores)
    if chain.penalty is not None or (plain and size > PROFILED):
        moves = np.eye(len(free))[free] if known is None else known.tangents(free)
        choices = with_posterior_law(choices, moves, own, fitted.x(e))
    if size > PROFILED:
        directions, lengths = np.empty((DIRECTIONS, size)), (choices.scores**2).sum(axis=(1, 2))
        random = np.random.default_rng(seed)
        directions[:, largest_first(lengths)] = random.standard_normal((DIRECTIONS, size))
        choices = replace(choices, directions=directions)
    tested = partial(goodness_of, demonstrations, level=level, seed=seed)
    rows = CountedRows.of(chain.mdp)
    if rows is None:
        return tested(choices)
    doubt = policy_noise(rows, part.policy, part.values)
    found = tested(replace(choices, doubt=doubt))
    return replace(found, settled=tested(choices).p_value) if found.adequate else found


def with_posterior_law(
    choices: FittedChoices, moves: np.ndarray, own: ChainEvidence, x: np.ndarray
) -> FittedChoices:
    """The choices of a fit x [D] that moves along [n, D], with its law where there is a prior."""
    penalty, size = own.chain.penalty, len(moves)
    bread = own.fisher if penalty is None else own.fisher + penalty.toarray()
    inverse, blind = inverse_information(moves @ bread @ moves.T, np.ones(size, bool))
    pull = None if penalty is None else moves @ (penalty @ x)
    return replace(choices, covariance=inverse, rank=size - len(blind), pull=pull)


def design_findings(features: Features, chain: StepsChain) -> list[Finding]:
    """Features that cannot be evidence apart, or mean nothing."""
    space = chain.space
    if chain.writable and not any(map(is_too_large_to_compare, features.maps)):
        return feature_findings(features, chain.mdp)
    empty = [space.names[j] for j in np.flatnonzero(space.empty)]
    if not empty:
        return []
    what = "is the same everywhere: it" if len(empty) == 1 else "are the same everywhere: they"
    said = f"{listed(empty, NAMED)} {what} cannot influence anything."
    return [Finding(said, Kind.NOT_IDENTIFIED, feature=empty[0], number=len(empty))]


def weight_findings(steps: StepsChain) -> list[Finding]:
    """What sampling weights do to an answer, whether it has a maximum or not."""
    worth = float(steps.counts.sum()) / steps.design
    said = (
        "The steps have sampling weights: the weighted likelihood is maximised. All "
        f"{steps.counts.sum():.0f} steps tell as much as {worth:.0f} that weigh the same. What "
        "takes weights for counts is not given: the test of the fit, log-likelihood, AIC and BIC, "
        "and bounds on the sums of trajectories."
    )
    return [Finding(said, Kind.ERRORS, number=steps.design)]
