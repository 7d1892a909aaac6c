"""The step likelihood: every observed step counts equally, and every answer has its error bar.

Where the likelihood is convex its optimum is global (`Steps.convex`); otherwise the search starts
from the convex fit, and the recovery says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.dynamics.counted import CountedRows
from tacit.errors import InvalidModel
from tacit.inference.activity import Verdict
from tacit.inference.goodness import FittedChoices
from tacit.inverse.assembly import Estimate, recovery
from tacit.inverse.diagnostics import Goodness, goodness_of, untested
from tacit.inverse.expectations import are_weighted, check_task, expectations_from_start, pull_back
from tacit.inverse.findings import (
    NAMED,
    Finding,
    Kind,
    doubt_findings,
    feature_findings,
    found_findings,
    guarantee_findings,
    listed,
    more_data_findings,
)
from tacit.inverse.noisy import MANY, check_plain
from tacit.inverse.noisy.activity import Restraint, verdict_findings, without_idle_constraints
from tacit.inverse.noisy.counted import policy_noise
from tacit.inverse.noisy.estimate import coefficients_of, estimate_of
from tacit.inverse.noisy.evidence import (
    Evidence,
    evidence_of,
    method_findings,
    parameter_findings,
    score_law,
)
from tacit.inverse.noisy.inference import Chosen, delta_method, described, fitted_scores
from tacit.inverse.noisy.intervals import PROFILED, OwnFit, numbers_of
from tacit.inverse.noisy.known import (
    bound_findings,
    check_temperature,
    temperature_findings,
    zero_findings,
)
from tacit.inverse.noisy.lapses import goodness_with_lapses, saying_lapses, with_lapses
from tacit.inverse.noisy.power import PowerStudy
from tacit.inverse.noisy.questions import AskedByProducts
from tacit.inverse.noisy.sparse import check_sparse, select
from tacit.inverse.noisy.strength import Strength, choose_strength, penalty_of, prior_findings
from tacit.inverse.parameters import inverse_information
from tacit.inverse.recovery import Recovery, delivered, warned
from tacit.inverse.sets import NeverIncurred, never_incurred
from tacit.inverse.standardised import standard_of
from tacit.likelihood.kinds import KindsChain, Units
from tacit.likelihood.problem import Fit
from tacit.likelihood.protocol import ChainEvidence
from tacit.likelihood.rescue import VISIBLE, rescued
from tacit.likelihood.start import (
    Bounds,
    Label,
    Range,
    maximum,
    name_coefficients,
    within_temperature,
)
from tacit.likelihood.steps import StepsChain
from tacit.model.arguments import integer, number
from tacit.model.features import Ridge, Smooth, Sparse
from tacit.model.features.design import Design, values_off
from tacit.model.features.priors import too_large
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.search.algebra import largest_first

# Directions, drawn at random, in which trajectories are compared where parameters are very many.
DIRECTIONS = 12


def estimate_of_steps(
    options: Likelihood,
    features: Features,
    demonstrations: Observed,
    *,
    wide: Evidence,
    evidence: Evidence,
    verdict: Verdict,
    goodness: Goodness,
    unknown: Fit | None = None,
    strength: Strength | None = None,
    e: int = 0,
) -> Estimate:
    """The `Estimate` of chain e of a fit, whose evidence this is; `wide` is of every constraint.

    All errors and intervals are those of `wide`: what was left out was chosen by the same data. A
    fit that does not know the temperature is `unknown`, where it was given; `strength` is that of a
    prior.
    """
    fitted, gauge, own = evidence.fitted, evidence.gauge(e), evidence.chains[e]
    chain, x, rows = own.chain, fitted.x(e), fitted.problem.ties.rows[e]
    mdp, space, weigh = chain.mdp, chain.space, chain.squares is not None
    chosen = Chosen.of(verdict.p_values, gauge.multipliers, options.level)
    numbers = numbers_of(wide, e, features=features, chosen=chosen).reported(gauge)
    standard, scaled = standard_of(mdp, features), numbers
    if not standard.uniform:
        unit = standard.stacked
        scaled = numbers_of(wide, e, features=features, chosen=chosen, unit=unit)
        scaled = scaled.reported(evidence.gauge(e, unit=unit))
        standard = standard.knowing(scaled.identification(space, verdict=verdict))
    seen = expectations_from_start(mdp, features, demonstrations, chain.tally)
    reached = pull_back(features, own.reached)
    weights, clustered = scaled.ends[: space.size], wide.found.clustered
    bounds = Bounds.of(space, options) if name_coefficients(options) else None
    given = np.zeros(space.size, bool) if bounds is None else bounds.given
    findings = (
        *constraint_findings(evidence, verdict, chosen, e, misfit=not weigh),
        *([] if strength is None else prior_findings(strength, wide)),
        *([] if bounds is None else bound_findings(bounds, space, x, evidence.free[rows])),
        *parameter_findings(evidence, e),
        *told_features(features, chain),
        *method_findings(chain, wide),
        *(temperature_findings(wide, OwnFit.of(wide, e), unknown, e) if unknown else []),
        *(zero_findings(wide, e) if (wide.fitted.x(e) == 0.0).sum() >= MANY else []),
        *more_data_findings(list(space.names), weights, demonstrations, clustered),
        *([] if seen is None or weigh else guarantee_findings(seen, reached, standard.deviations)),
    )
    off, limits = values_off(space, x, mdp.discount), evidence.own_limits(e)
    endless: NeverIncurred = {"forbidden": (), "undecided": ()}
    if np.isfinite(limits).any():
        endless = never_incurred(space, limits, chain.at_starts)
    estimate = estimate_of(features, fitted, gauge, own.reached, off=off, own=own)
    if strength is not None:
        estimate = replace(estimate, history=strength.history(fitted))
    lost = bool(verdict.absence) and wide.boundless
    gap = fitted.objective_gap if chain.convex else np.nan
    answer = None
    if wide.fitted.converged and not wide.boundless and not wide.written:
        answer = AskedByProducts.of(wide.fitted, gauge)
    elif not wide.absence:
        inner = wide.chains[e].inner
        law, blind = inner @ wide.found.covariance @ inner.T, wide.found.blind @ inner.T
        answer = delta_method(space, x, gauge, law, blind, numbers.ends)
    return replace(
        estimate,
        deterministic=evidence.boundless,
        proven=chain.convex,
        seen=seen,
        certificate={**estimate.certificate, "objective_gap": gap},
        known=numbers.identification(
            space,
            verdict=verdict if wide.asked.converged and not lost else None,
            dynamics=wide.dynamics[e] if wide.dynamics else None,
            answer=answer,
        ),
        parameters=coefficients_of(features, wide, fitted, e, given=given),
        findings=findings,
        goodness=goodness,
        **endless,
        spending=wide.spending(features, seen, e),
        standard=standard,
        counts=chain.counts,
    )


def _goodness(options: Likelihood, demonstrations: Observed, evidence: Evidence) -> Goodness:
    """Whether the model fits, at the fit with every constraint."""
    fitted = evidence.fitted
    if not fitted.converged or fitted.problem.chains[0].squares is not None:
        weigh = "its tests need counts, and the steps have sampling weights"
        return untested(weigh if fitted.converged else "the search did not converge")
    if isinstance(fitted.problem.chains[0], KindsChain):
        return goodness_with_lapses(evidence, demonstrations, options.level, options.seed)
    if evidence.boundless and fitted.problem.chains[0].by_products:
        return untested("the search found no maximum")
    if not evidence.written:
        size = len(fitted.z)
        return untested(f"the law of a fit of {size} features is too large to simulate")
    found = chain_goodness(evidence.chains[0], fitted, demonstrations, options.level, options.seed)
    known = fitted.known() is not None or fitted.problem.chains[0].mdp.evidence
    known = known or fitted.problem.penalised
    if not isinstance(demonstrations, Demonstrations) or known:
        return found
    return replace(found, study=PowerStudy(options, fitted, demonstrations))


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
        names=[chain.space.names[j] for j in np.flatnonzero(free)] if named else [],
    )
    size = len(choices.scores)
    if chain.penalty is not None or (plain and size > PROFILED):
        moves = np.eye(len(free))[free] if known is None else known.tangents(free)
        bread = own.fisher if chain.penalty is None else own.fisher + chain.penalty.toarray()
        inverse, blind = inverse_information(moves @ bread @ moves.T, np.ones(size, bool))
        pull = None if chain.penalty is None else moves @ (chain.penalty @ fitted.x(e))
        choices = replace(choices, covariance=inverse, rank=size - len(blind), pull=pull)
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


def told_features(features: Features, chain: StepsChain) -> list[Finding]:
    """Features that cannot be told apart, or mean nothing."""
    space = chain.space
    if chain.writable and not any(map(too_large, features.maps)):
        return feature_findings(features, chain.mdp)
    empty = [space.names[j] for j in np.flatnonzero(space.empty)]
    if not empty:
        return []
    what = "is the same everywhere: it" if len(empty) == 1 else "are the same everywhere: they"
    said = f"{listed(empty, NAMED)} {what} cannot influence anything."
    return [Finding(said, Kind.NOT_IDENTIFIED, feature=empty[0], number=len(empty))]


def constraint_findings(
    evidence: Evidence,
    verdict: Verdict,
    chosen: Chosen | None = None,
    e: int = 0,
    *,
    misfit: bool = True,
) -> list[Finding]:
    """Which constraints were shown to restrain the demonstrator, and which of them barely.

    `misfit` says that robust evidence is so because the model does not fit, not for weights.
    """
    gauge = evidence.gauge(e)
    # A search that found no maximum has tested nothing, even where a ridge then gave a point.
    lost = bool(verdict.absence) and evidence.boundless
    tested = evidence.fitted.converged and evidence.asked.converged and not lost
    misfit &= evidence.robust
    findings = verdict_findings(verdict, gauge.multipliers, converged=tested, robust=misfit)
    if tested and chosen is not None:
        findings += found_findings(chosen)
        findings += doubt_findings(chosen, verdict.unadjusted, verdict.if_dynamics_known)
    if np.isnan(gauge.reward_weights).any():
        said = (
            "The reward is not identified: the demonstrations are explained without it. Prices are "
            "in units of the temperature."
        )
        findings.append(Finding(said, Kind.NOT_IDENTIFIED))
    return findings


@dataclass(frozen=True)
class Likelihood:
    """Maximum likelihood of the observed actions of a noisy expert, with intervals and tests.

    Attributes:
        free_reward: let reward weights take either sign.
        level: of the test whether a constraint is active; 1 keeps every constraint.
        tolerance: projected gradient to reach, relative to the number of steps.
        max_steps: most evaluations of the loss.
        seed: of the simulated laws.
        lapses: let a share of the steps be random: True to estimate it, or the share itself.
        prior: `tacit.features.Ridge` or `Smooth`, where features are very many; `Sparse`, where few
            of them matter; None for none.
        temperature: the expert's noise where it is known, in units of reward weights that sum to 1:
            those over the temperature then sum to 1 / temperature. How the reward is shared among
            its features, prices and budgets are estimated; None estimates the noise as well.
        bounds: {coefficient: (least, largest)}, by name or number, None for no bound; in units of
            the noise, as in `Recovery.parameters`. Others have the bounds they have by default.
        fixed: {coefficient: value}, those that are known beforehand; an offset is a feature with 1.
        start: {coefficient: value}, where to begin the search.
    """

    free_reward: bool = False
    level: float = 0.05
    _: KW_ONLY
    tolerance: float = 1e-9
    max_steps: int = 300
    seed: int = 0
    lapses: bool | float = field(default=False, repr=False)
    prior: Ridge | Smooth | Sparse | None = field(default=None, repr=False)
    temperature: float | None = field(default=None, repr=False)
    bounds: Mapping[Label, Range] = field(default_factory=dict, repr=False, hash=False)
    fixed: Mapping[Label, float] = field(default_factory=dict, repr=False, hash=False)
    start: Mapping[Label, float] = field(default_factory=dict, repr=False, hash=False)

    def check(self) -> None:
        """Raises `InvalidModel` unless the options make sense."""
        number(self.level, "level", "in (0, 1]", lambda level: 0.0 < level <= 1.0)
        number(self.tolerance, "tolerance", "a positive number", lambda size: size > 0.0)
        integer(self.max_steps, "max_steps")
        integer(self.seed, "seed", 0)
        if not isinstance(self.lapses, bool):
            wanted = "True, False or a share in (0, 1)"
            number(self.lapses, "lapses", wanted, lambda share: 0.0 < share < 1.0)
        if self.temperature is not None:
            check_temperature(self)
        pull = isinstance(self.prior, Ridge) and self.prior.strength is not None
        if self.lapses is not False and self.prior is not None and not pull:
            raise InvalidModel(
                "a fit with lapses must have no prior but Ridge of a given strength, such as "
                f"Ridge(1.0); got lapses={self.lapses}, prior={self.prior!r:.60}"
            )

    def check_no_lapses(self, what: str, known: tuple[str, ...] = ()) -> None:
        """Raises `InvalidModel` where more was asked for than `what` knows of, such as lapses."""
        check_plain(self, what, known)

    def fit(
        self,
        mdp: MDP,
        features: Features,
        demonstrations: Observed,
        *,
        throw: bool = True,
        near: Recovery | None = None,
    ) -> Recovery:
        """The recovery under which the observed actions are most likely.

        The search begins where that of a recovery `near`, with the same features, ended.
        """
        self.check()
        plain = self.prior is None and self.lapses is False
        check_task(mdp, features, demonstrations, weighted=plain)
        if isinstance(self.prior, Sparse):
            check_sparse(self)
        return delivered(warned(maximise(self, mdp, features, demonstrations, near=near)), throw)


def maximise(
    options: Likelihood,
    mdp: MDP,
    features: Features,
    demonstrations: Observed,
    *,
    first: float | None = None,
    near: Recovery | None = None,
) -> Recovery:
    """The recovery of the likeliest parameters, constraints that are not active left out.

    `first` is the coefficient of the first feature, where it is known beforehand. The search begins
    where that of a recovery `near` ended, if there is one.
    """
    space, prior, strength, penalty = Design.of(mdp, features), options.prior, None, None
    lapsing = options.lapses is not False
    if isinstance(prior, Ridge | Smooth) and not lapsing:  # kinds have priors of their own
        unit = penalty_of(prior, mdp, space)
        if prior.strength is None:
            strength = choose_strength(options, mdp, space, demonstrations, unit)
        else:
            strength = Strength(prior=prior, value=float(prior.strength))
        penalty = strength.value * unit
    chain = StepsChain.of(mdp, space, demonstrations, penalty=penalty)
    begin = None if near is None else near.parameters.tested * space.scales
    full, unknown = maximum(chain, options, begin=begin), None
    plain, counted = full, mdp.evidence is not None and not lapsing
    if lapsing:
        full = with_lapses(Units.steps(chain), options, plain)
    if options.temperature is not None:
        unknown = full
        full = within_temperature(full, options.temperature, options.max_steps)
    if first is not None:  # begins where an unknown one would lead
        which = np.arange(chain.space.size) == 0
        known = full.problem.fixing(which, first * chain.space.scales[0])
        full = full.refit(known, max_steps=options.max_steps).completed
    about = {"counted": counted, "seed": options.seed}
    asked = partial(evidence_of, [demonstrations], full, options.max_steps, **about)
    wide = asked()
    goodness = _goodness(options, demonstrations, wide)
    robust = not goodness.adequate or are_weighted(demonstrations)
    if robust:
        wide = asked(robust=True)
    about |= {"size": int(full.free.sum()), "robust": robust}
    nothing = np.full(space.constraints, np.nan)
    if penalty is not None:
        absence = "under a prior no law is known"
        kept, verdict = full, Verdict(unadjusted=nothing, p_values=nothing, absence=absence)
    else:
        kept, _, verdict = without_idle_constraints(
            full,
            [Restraint(k, (0,)) for k in range(space.constraints)],
            lambda less: score_law(less, [demonstrations], **about),
            level=options.level,
            steps=float(chain.counts.sum()),
            max_steps=options.max_steps,
            seed=options.seed,
            scattered=robust or counted,
        )
    lost = wide.boundless and kept is not full
    if lost and not rescued(kept, VISIBLE, options.max_steps)[1]:
        # Only with all constraints there is no maximum: leaving some out would hide that.
        absence = "the likelihood has no maximum with it"
        kept, verdict = full, Verdict(unadjusted=nothing, p_values=nothing, absence=absence)
    known = {"wide": wide, "verdict": verdict, "goodness": goodness}
    known |= {"unknown": unknown, "strength": strength}
    less = partial(evidence_of, [demonstrations], robust=wide.robust, counted=False)

    def estimate(fit: Fit) -> Estimate:
        # The errors of what is left are those of the fit with all.
        evidence = wide if fit is wide.asked else less(fit, options.max_steps)
        return estimate_of_steps(options, features, demonstrations, evidence=evidence, **known)

    if lapsing:
        found = saying_lapses(replace(estimate(kept), counts=chain.counts), kept, plain)
    elif not isinstance(options.prior, Sparse) or not full.converged:
        found = estimate(kept)
    else:
        chosen = select(kept, options.prior, options.max_steps)
        found = estimate(chosen.fitted)
        said = chosen.finding(options.prior)
        found = replace(found, findings=(*found.findings, said))
    return recovery(described(options), mdp, features, demonstrations, found)
