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
from tacit.errors import InvalidModel
from tacit.inference.activity import ScoreLaw, Verdict
from tacit.inference.counted_rows import CountedRows
from tacit.inference.goodness import FittedChoices
from tacit.inverse.assembly import Estimate, recovery
from tacit.inverse.diagnostics import Goodness, goodness_of, untested
from tacit.inverse.expectations import are_weighted, check_task, expectations_from_start, pull_back
from tacit.inverse.findings import (
    Finding,
    Kind,
    doubt_findings,
    feature_findings,
    found_findings,
    guarantee_findings,
    more_data_findings,
)
from tacit.inverse.noisy import MANY, check_plain
from tacit.inverse.noisy.activity import verdict_findings, without_idle_constraints
from tacit.inverse.noisy.boltzmann import (
    Fit,
    coefficients_of,
    estimate_of,
    refit,
    rescued,
    silent,
)
from tacit.inverse.noisy.counted import dynamics_noise, policy_noise
from tacit.inverse.noisy.evidence import (
    VISIBLE,
    Evidence,
    evidence_of,
    method_findings,
    parameter_findings,
)
from tacit.inverse.noisy.inference import (
    Chosen,
    advantages,
    delta_method,
    described,
    fitted_scores,
    information,
    informed,
    score_scatter,
)
from tacit.inverse.noisy.intervals import Numbers, intervals, landscape_of
from tacit.inverse.noisy.known import (
    Bounds,
    Label,
    Range,
    check_temperature,
    temperature_findings,
    within_norm,
    zero_findings,
)
from tacit.inverse.noisy.lapses import estimate_with_lapses
from tacit.inverse.noisy.penalised import maximise_many
from tacit.inverse.noisy.power import PowerStudy
from tacit.inverse.noisy.steps import (
    Steps,
    are_many,
    coordinates,
    curvature,
    name_coefficients,
)
from tacit.inverse.noisy.verdicts import check_sparse, select
from tacit.inverse.recovery import Recovery, delivered, warned
from tacit.inverse.sets import Ends, NeverIncurred, never_incurred
from tacit.inverse.standardised import standard_of
from tacit.model.features import Ridge, Smooth, Sparse, values_off
from tacit.model.mdp import MDP
from tacit.model.objective import Features


def estimate_of_steps(
    options: Likelihood,
    features: Features,
    demonstrations: Observed,
    steps: Steps,
    *,
    wide: Evidence,
    kept: Fit,
    verdict: Verdict,
    goodness: Goodness,
) -> Estimate:
    """The `Estimate` of the fit `kept`; `wide` is of every constraint, shown to be active or not.

    All errors and intervals are those of `wide`: what was left out was chosen by the same data.
    """
    mdp, space, weigh = steps.mdp, steps.space, steps.squares is not None
    evidence = wide
    if kept is not wide.asked:  # its errors are those of the fit with all
        evidence = evidence_of(demonstrations, steps, kept, options.max_steps, robust=wide.robust)
    gauge, fitted, limits = evidence.gauge, evidence.fitted, evidence.limits
    chosen = Chosen.of(verdict.p_values, gauge.multipliers, options.level)
    numbers = numbers_of(steps, wide, features, chosen=chosen).reported(gauge)
    standard, scaled = standard_of(mdp, features), numbers
    if not standard.uniform:
        unit = standard.stacked
        told = numbers_of(steps, wide, features, chosen=chosen, unit=unit)
        scaled = told.reported(evidence.in_units(steps.space, unit))
        standard = standard.knowing(scaled.identification(space, verdict=verdict))
    seen = expectations_from_start(mdp, features, demonstrations, steps.tally)
    reached = pull_back(features, evidence.reached)
    weights, clustered = scaled.ends[: space.size], wide.found.clustered
    bounds = Bounds.of(space, options) if name_coefficients(options) else None
    given = np.zeros(space.size, bool) if bounds is None else bounds.given
    findings = (
        *constraint_findings(evidence, verdict, chosen, misfit=not weigh),
        *([] if bounds is None else bounds.findings(space, fitted.point.x, evidence.free)),
        *parameter_findings(steps, evidence),
        *feature_findings(features, mdp),
        *method_findings(steps, wide),
        *([] if wide.fitted.norm is None else temperature_findings(wide, landscape_of)),
        *(zero_findings(steps, wide) if (wide.fitted.point.x == 0.0).sum() >= MANY else []),
        *more_data_findings(list(space.names), weights, demonstrations, clustered),
        *([] if seen is None or weigh else guarantee_findings(seen, reached, standard.deviations)),
    )
    off = values_off(space, fitted.point.x, mdp.discount)
    endless: NeverIncurred = {"forbidden": (), "undecided": ()}
    if np.isfinite(limits).any():
        endless = never_incurred(space, limits, steps.at_starts)
    estimate = estimate_of(mdp, features, fitted, gauge, evidence.reached, off=off)
    gap = fitted.objective_gap if steps.convex else np.nan
    answer = None
    if not wide.absence:
        known = (wide.found.covariance, wide.found.blind, numbers.ends)
        answer = delta_method(space, fitted.point.x, gauge, *known)
    return replace(
        estimate,
        deterministic=evidence.boundless,
        proven=steps.convex,
        seen=seen,
        certificate={**estimate.certificate, "objective_gap": gap},
        known=numbers.identification(
            space,
            verdict=verdict if wide.asked.converged and not verdict.absence else None,
            dynamics=wide.dynamics,
            answer=answer,
        ),
        parameters=coefficients_of(steps, features, wide, fitted, given),
        findings=findings,
        goodness=goodness,
        **endless,
        spending=wide.spending(space, features, seen),
        standard=standard,
        counts=steps.counts,
    )


def _goodness(
    options: Likelihood,
    demonstrations: Observed,
    steps: Steps,
    evidence: Evidence,
    rows: CountedRows | None,
) -> Goodness:
    """Whether the model fits, at the fit with every constraint."""
    fitted = evidence.fitted
    if not fitted.converged or steps.squares is not None:
        weigh = "its tests need counts, and the steps have sampling weights"
        return untested(weigh if fitted.converged else "the search did not converge")
    choices = FittedChoices(
        counts=steps.counts,
        policy=fitted.point.policy,
        scores=fitted_scores(fitted, advantages(steps.mdp, steps.space, fitted)),
        choices=steps.mdp.available.sum(axis=1),
        names=[] if fitted.norm else [steps.space.names[j] for j in np.flatnonzero(fitted.free)],
    )
    tested = partial(goodness_of, demonstrations, level=options.level, seed=options.seed)
    if rows is None:
        found = tested(choices)
        if not isinstance(demonstrations, Demonstrations) or fitted.norm is not None:
            return found
        return replace(found, study=PowerStudy(steps, options, fitted, demonstrations))
    doubt = policy_noise(rows, fitted.point.policy, fitted.point.values)
    found = tested(replace(choices, doubt=doubt))
    return replace(found, settled=tested(choices).p_value) if found.adequate else found


def numbers_of(
    steps: Steps,
    evidence: Evidence,
    features: Features | None = None,
    *,
    chosen: Chosen | None = None,
    unit: np.ndarray | None = None,
) -> Numbers:
    """The expert in the gauge, with its intervals where the evidence has any.

    Of the features is asked what a constant costs: the coordinates do not know. `chosen` are the
    constraints that are reported; `unit` [D] is what the features are divided by first.
    """
    e, space = evidence, steps.space
    if unit is not None:
        e = replace(e, gauge=e.in_units(space, unit))
        space = replace(space, scales=space.scales / unit)
    about = (space, e.fitted, e.gauge, e.found, e.fisher, e.limits)
    loose = e.free if e.robust else None
    ends, spread = intervals(*about, chosen=chosen, loose=loose, stretch=e.budget_stretch(space))
    mute = silent(e.fisher, e.fitted.problem.information.sum())
    mute &= e.fitted.problem.upper > e.fitted.problem.lower
    if mute.any():
        edges = [block.stop for block in space.blocks[:-1]]
        spent = np.split(-e.spent * space.scales, edges)
        if features is not None:
            spent = list(pull_back(features, e.reached))
            if unit is not None:
                spent = [one / own for one, own in zip(spent, np.split(unit, edges), strict=True)]
        prices = slice(space.size, space.size + space.constraints)
        rows = ends[prices.stop :].copy()
        rows[~np.isfinite(e.gauge.budgets)] = np.nan
        costs = [ends[block] for block in space.blocks[1:]]
        narrow = Ends(ends[space.blocks[0]], costs, ends[prices], rows)
        wide = narrow.beside(
            [mute[block] for block in space.blocks],
            [np.stack([part, part], axis=1) for part in spent[1:]],
            free_reward=bool(np.isinf(e.fitted.problem.lower).any()),
        )
        ends = np.concatenate([wide.reward, *wide.costs, wide.multipliers, wide.budgets])
    if e.absence:
        ends[:], spread[:] = np.nan, np.nan
    return Numbers(e.gauge, ends, spread)


def constraint_findings(
    evidence: Evidence, verdict: Verdict, chosen: Chosen | None = None, *, misfit: bool = True
) -> list[Finding]:
    """Which constraints were shown to restrain the demonstrator, and which of them barely.

    `misfit` says that robust evidence is so because the model does not fit, not for weights.
    """
    prices = evidence.gauge.multipliers
    # A search that found no maximum has tested nothing, even where a ridge then gave a point.
    tested = evidence.fitted.converged and evidence.asked.converged and not verdict.absence
    misfit &= evidence.robust
    findings = verdict_findings(verdict, prices, converged=tested, robust=misfit)
    if tested and chosen is not None:
        findings += found_findings(chosen)
        findings += doubt_findings(chosen, verdict.unadjusted, verdict.if_dynamics_known)
    if np.isnan(evidence.gauge.reward_weights).any():
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
        if not 0 < self.level <= 1 or not self.tolerance > 0 or self.max_steps < 1:
            raise InvalidModel(
                "level must be in (0, 1], tolerance positive, max_steps at least 1; "
                f"got {self.level}, {self.tolerance}, {self.max_steps}"
            )
        if not isinstance(self.lapses, bool) and not 0.0 < self.lapses < 1.0:
            raise InvalidModel(
                f"lapses must be True, False or a share in (0, 1); got {self.lapses!r:.60}"
            )
        if self.temperature is not None:
            check_temperature(self)
        if self.lapses is not False:
            check_plain(self, "a fit with lapses", ("lapses", "prior"))

    def check_no_lapses(self, what: str, known: tuple[str, ...] = ()) -> None:
        """Raises `InvalidModel` where more was asked for than `what` knows of, such as lapses."""
        check_plain(self, what, known)

    def fit(
        self, mdp: MDP, features: Features, demonstrations: Observed, *, throw: bool = True
    ) -> Recovery:
        """The recovery under which the observed actions are most likely."""
        self.check()
        many, plain = are_many(mdp, features), self.prior is None and self.lapses is False
        check_task(mdp, features, demonstrations, weighted=plain and not many)
        if isinstance(self.prior, Sparse):
            check_sparse(self, features, many)
        elif self.prior is not None:
            many = True
        chosen = maximise_many if many else maximise
        return delivered(warned(chosen(self, mdp, features, demonstrations)), throw)


def maximise(
    options: Likelihood,
    mdp: MDP,
    features: Features,
    demonstrations: Observed,
    *,
    first: float | None = None,
) -> Recovery:
    """The recovery of the likeliest parameters, constraints that are not active left out.

    `first` is the coefficient of the first feature, where it is known beforehand.
    """
    steps = Steps.of(mdp, coordinates(mdp, features), demonstrations)
    if options.lapses is not False:
        found = estimate_with_lapses(options, features, demonstrations, steps, estimate_of_steps)
        return recovery(described(options), mdp, features, demonstrations, found)
    full = steps.fit(options)
    if options.temperature is not None:
        full = within_norm(steps.space, mdp, full, options)
    if first is not None:  # begins where an unknown one would lead
        lower, upper = full.problem.lower.copy(), full.problem.upper.copy()
        lower[0] = upper[0] = first * steps.space.scales[0]
        full = refit(mdp, full, max_steps=options.max_steps, lower=lower, upper=upper)
    rows = CountedRows.of(mdp)
    asked = partial(evidence_of, demonstrations, steps, full, options.max_steps)
    wide = asked(rows=rows, seed=options.seed)
    goodness = _goodness(options, demonstrations, steps, wide, rows)
    robust = not goodness.adequate or are_weighted(demonstrations)
    if robust:
        wide = asked(robust=True, rows=rows, seed=options.seed)

    def law_of(less: Fit) -> ScoreLaw:
        scores = advantages(mdp, steps.space, less)
        bread = scatter = information(scores, less.point.policy, steps.visits)
        if robust:
            bread = curvature(steps, less, scores)
            squares = steps.counts if steps.squares is None else steps.squares
            scatter = score_scatter(scores, squares, int(full.free.sum()), demonstrations)[1]
        bread = informed(less, bread)
        if rows is None:
            return ScoreLaw(bread, scatter if robust else None)
        about = {"scores": scores, "bread": bread, "free": less.free, "seed": options.seed}
        return ScoreLaw(bread, dynamics_noise(rows, steps, less, **about).total(scatter), scatter)

    kept, verdict = without_idle_constraints(
        steps,
        full,
        law_of,
        level=options.level,
        max_steps=options.max_steps,
        seed=options.seed,
        scattered=robust or rows is not None,
    )
    if (
        wide.boundless
        and kept is not full
        and not rescued(mdp, kept, VISIBLE, options.max_steps)[1]
    ):
        # Only with all constraints there is no maximum: leaving some out would hide that.
        nothing = np.full(steps.space.constraints, np.nan)
        absence = "the likelihood has no maximum with it"
        kept, verdict = full, Verdict(unadjusted=nothing, p_values=nothing, absence=absence)
    asked = (options, features, demonstrations, steps)
    known = {"wide": wide, "verdict": verdict, "goodness": goodness}
    if not isinstance(options.prior, Sparse) or not full.converged:
        found = estimate_of_steps(*asked, kept=kept, **known)
    else:
        chosen = select(steps, kept, options.prior, options.max_steps)
        found = estimate_of_steps(*asked, kept=chosen.fitted, **known)
        said = chosen.finding(steps, options.prior)
        found = replace(found, findings=(*found.findings, said))
    return recovery(described(options), mdp, features, demonstrations, found)
