"""The step likelihood: every observed step counts equally, and every answer has its error bar.

Where the likelihood is convex its optimum is global (`StepsChain.convex`); otherwise the search
starts from the convex fit, and the recovery says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial

import numpy as np

from tacit.data.observed import Observed
from tacit.errors import InvalidModel
from tacit.estimators.estimate import estimate_of
from tacit.estimators.lapses import saying_lapses, with_lapses
from tacit.estimators.setting import Setting, StepsSetting
from tacit.estimators.smoothing import Smoothing
from tacit.estimators.sparse import check_sparse, select
from tacit.estimators.strength import strength_of
from tacit.inference.activity import Verdict
from tacit.inference.diagnostics import untested
from tacit.inference.evidence import evidence_of, score_law
from tacit.inference.expectations import are_weighted, check_task
from tacit.inference.findings import Finding
from tacit.inference.idle_constraints import Restraint, without_idle_constraints
from tacit.inference.information import described
from tacit.inference.known import (
    check_droppable,
    check_restrictions,
    check_temperature,
    restriction_findings,
    restrictions_of,
)
from tacit.likelihood.rescue import VISIBLE, rescued
from tacit.likelihood.start import (
    Label,
    Range,
    check_coefficients,
    maximum,
    restricted,
    within_temperature,
)
from tacit.model.arguments import integer, number
from tacit.model.features import Ridge, Smooth, Sparse
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.recovery import Recovery, delivered, warned


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
        restrict: linear equations that the coefficients keep, such as "road = 2 * water"; names
            that are not one word stand in `backticks`.
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
    restrict: Sequence[str] = field(default=(), repr=False)

    def check(self) -> None:
        """Raises `InvalidModel` unless the options make sense."""
        number(self.level, "level", "in (0, 1]", lambda level: 0.0 < level <= 1.0)
        number(self.tolerance, "tolerance", "a positive number", lambda size: size > 0.0)
        integer(self.max_steps, "max_steps")
        integer(self.seed, "seed", 0)
        if not isinstance(self.lapses, bool):
            wanted = "True, False or a share in (0, 1)"
            number(self.lapses, "lapses", wanted, lambda share: 0.0 < share < 1.0)
        check_coefficients(self)
        check_restrictions(self)
        if self.temperature is not None:
            check_temperature(self)
        if not isinstance(self.prior, Ridge | Smooth | Sparse | None):
            raise InvalidModel(f"prior must be Ridge, Smooth or Sparse; got {self.prior!r:.60}")
        pull = isinstance(self.prior, Ridge) and self.prior.strength is not None
        if self.lapses is not False and self.prior is not None and not pull:
            raise InvalidModel(
                "a fit with lapses must have no prior but Ridge of a given strength, such as "
                f"Ridge(1.0); got lapses={self.lapses}, prior={self.prior!r:.60}"
            )

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
        setting = StepsSetting(mdp, features, demonstrations)
        return delivered(warned(maximise(self, setting, near=near)), throw)


def maximise(
    options: Likelihood,
    setting: Setting,
    *,
    first: float | None = None,
    near: Recovery | None = None,
) -> Recovery:
    """The recovery of the likeliest parameters, constraints that are not active left out.

    `first` is the coefficient of the first feature, where it is known beforehand. The search begins
    where that of a recovery `near` ended, if there is one.
    """
    chain, lapsing, seen = setting.chain(options), options.lapses is not False, [setting.seen]
    # Kinds have priors of their own.
    strength = None if lapsing else strength_of(options, setting, chain)
    chain = chain if strength is None else strength.on(chain)
    space, unknown = chain.space, None
    begin = None if near is None else near.parameters.tested * space.scales
    plain = maximum(chain, options, begin=begin)
    full_fit, counted = plain, setting.counted and not lapsing
    if lapsing:
        full_fit = with_lapses(setting.step_units(chain), options, plain)
    if options.restrict:
        rows, goals = restrictions_of(options.restrict, space)
        check_droppable(rows, goals, space, options.level)
        full_fit = restricted(full_fit, rows, goals, options.max_steps)
    if options.temperature is not None:
        unknown = full_fit
        full_fit = within_temperature(full_fit, options.temperature, options.max_steps)
    if first is not None:  # begins where an unknown one would lead
        which = np.arange(space.size) == 0
        known = full_fit.problem.fixing(which, first * space.scales[0])
        full_fit = full_fit.refit(known, max_steps=options.max_steps).completed
    curves = Smoothing.of(full_fit, setting.seen)
    if curves is not None and curves.without_law(full_fit, options.max_steps):
        full_fit = curves.band(full_fit)
    about = {"counted": counted, "seed": options.seed}
    asked = partial(evidence_of, seen, full_fit, options.max_steps, **about)
    full, goodness = asked(), untested("the search did not converge")
    if full.fitted.converged:
        goodness = setting.goodness(options, full)
    robust = not goodness.adequate or are_weighted(setting.seen)
    if robust:
        full = asked(robust=True)
    about |= {"size": int(full_fit.free.sum()), "robust": robust}
    reduced_fit, _, verdict = without_idle_constraints(
        full_fit,
        [Restraint(k, (0,)) for k in range(space.constraints)],
        lambda less: score_law(less, seen, **about),
        level=options.level,
        steps=chain.steps,
        max_steps=options.max_steps,
        seed=options.seed,
        scattered=robust or counted,
    )
    lost = full.boundless and reduced_fit is not full_fit
    if lost and not rescued(reduced_fit, VISIBLE, options.max_steps)[1]:
        # Only with all constraints there is no maximum: leaving some out would hide that.
        absence = "the likelihood has no maximum with it"
        reduced_fit, verdict = full_fit, Verdict.none(space.constraints, absence)
    findings = list[Finding]()
    if isinstance(options.prior, Sparse) and full_fit.converged:
        chosen = select(reduced_fit, options.prior, options.max_steps)
        reduced_fit, findings = chosen.fitted, [chosen.finding(options.prior)]
    if curves is not None:
        reduced_fit = curves.point(reduced_fit)
    reduced = full
    if reduced_fit is not full_fit:
        # The errors of what is left are those of the fit with all.
        rules = {"robust": full.robust, "counted": False}
        reduced = evidence_of(seen, reduced_fit, options.max_steps, **rules)
    found = estimate_of(
        options,
        setting,
        full=full,
        reduced=reduced,
        verdict=verdict,
        goodness=goodness,
        unknown=unknown,
        strength=strength,
    )
    if curves is not None:
        rules = {"robust": robust, "counted": counted, "seed": options.seed}
        law = partial(evidence_of, seen, max_steps=options.max_steps, **rules)
        found = replace(found, curves=curves.recovered(full, reduced_fit, law))
    findings += restriction_findings(options, full_fit, plain)
    found = replace(found, findings=(*found.findings, *findings))
    if lapsing:
        found = saying_lapses(setting.with_lapses(found, chain), reduced_fit, plain)
    return setting.recovery(described(options), found, reduced)
