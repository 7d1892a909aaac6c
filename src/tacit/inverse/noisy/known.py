"""What is known of the parameters before they are fitted: bounds, fixed values, a start, the noise.

Bounds, fixed values and a start are given by name, in the units of the coefficients themselves:
weights over the temperature, as choice models have them. A temperature that is given sets the norm
of the reward parameters. What such knowledge leaves open, or runs into, is said here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.engine.backends import backend_of
from tacit.errors import InvalidModel
from tacit.files.wording import did_you_mean
from tacit.inverse.findings import LEVEL, Finding, Kind, chance
from tacit.inverse.noisy import MANY
from tacit.inverse.noisy.boltzmann import LARGEST, Fit, silent, sought
from tacit.model.mdp import MDP
from tacit.model.objective import coefficient_names
from tacit.search.minimise import feasible
from tacit.search.operators import Matrices
from tacit.search.smooth_dual import loss_at

if TYPE_CHECKING:
    from tacit.inference.intervals import Landscape
    from tacit.inverse.noisy.convex import Convex
    from tacit.inverse.noisy.em import Search
    from tacit.inverse.noisy.evidence import Evidence
    from tacit.inverse.noisy.likelihood import Likelihood
    from tacit.inverse.noisy.steps import Coordinates, Steps
    from tacit.model.features import Design

# A step of this size or less (scaled features), beyond which no value is finite, ends at a border.
NEAR = 1e-3
# Information of what is known beforehand, as a multiple of what the steps say of it at most.
CERTAIN = 1e4

Label = str | int
Range = Sequence[float | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Bounds:
    """What is known of the coefficients before they are fitted, on scaled features.

    Attributes:
        lower: [D] smallest values allowed.
        upper: [D] largest ones; `LARGEST` where there are none.
        given: [D] bool, those fixed beforehand.
        asked: [D] bool, those with bounds that were asked for.
        start: [D] where the search begins; None for where it finds best.
    """

    lower: np.ndarray
    upper: np.ndarray
    given: np.ndarray
    asked: np.ndarray
    start: np.ndarray | None = None

    @classmethod
    def of(cls, space: Coordinates | Design, options: Likelihood | Search) -> Bounds:
        """The bounds that the options ask for, and the usual ones of all other coefficients."""
        lower, size = space.lower(free_reward=options.free_reward), len(space.scales)
        upper, none = np.full(size, LARGEST), np.zeros(size, bool)
        known = cls(lower=lower, upper=upper, given=none, asked=none.copy())
        bounds, fixed, start = (
            by_number(space, getattr(options, name, None), name)
            for name in ("bounds", "fixed", "start")
        )
        for j, (name, pair) in bounds.items():
            low, high = _ends(space, j, name, pair)
            most = LARGEST / space.scales[j]
            if not low < most:
                raise InvalidModel(f"bounds: {name} must have a least below {most:.3g}; got {low}")
            known.asked[j] = True
            lower[j] = low * space.scales[j]
            known.upper[j] = min(high * space.scales[j], LARGEST)
        for j, (name, value) in fixed.items():
            known.given[j] = True
            lower[j] = known.upper[j] = number_of(f"fixed: {name}", value) * space.scales[j]
            if known.asked[j] or (space.signs[j] < 0 and lower[j] < 0):
                must = "have no bounds too" if known.asked[j] else "not be below 0, as it is a cost"
                raise InvalidModel(f"fixed: {name} must {must}; got {value!r:.60}")
        if size and known.given.all():
            raise InvalidModel("fixed must leave a coefficient to be fitted; it has all of them")
        if not start:
            return known
        place = np.clip(np.zeros(size), lower, known.upper)
        for j, (name, value) in start.items():
            place[j] = number_of(f"start: {name}", value) * space.scales[j]
            if not lower[j] <= place[j] <= known.upper[j]:
                raise InvalidModel(f"start: {name} must be within its bounds; got {value!r:.60}")
        return replace(known, start=place)

    def findings(
        self, space: Coordinates | Design, x: np.ndarray, undecided: np.ndarray | None = None
    ) -> list[Finding]:
        """What was fixed, and which of the bounds that were asked for hold a coefficient at x [D].

        One each, so that each says which feature it is about. Those that are `undecided` [D] bool
        might as well be elsewhere.
        """
        findings = []
        for j in np.flatnonzero(self.given | self.asked):
            name, value = space.names[j], float(x[j] / space.scales[j])
            said = (
                f"The coefficient of {name} was fixed at {value:.4g} beforehand: it has no error."
            )
            if not self.given[j]:
                if self.lower[j] < x[j] < self.upper[j]:
                    continue
                beyond = "alone would have it beyond, and intervals and tests are one-sided"
                if undecided is not None and undecided[j]:
                    beyond = "do not tell whether it is beyond"
                said = (
                    f"The coefficient of {name} is on its bound, {value:.4g}: the demonstrations "
                    f"{beyond}."
                )
            findings.append(Finding(said, Kind.ASSUMED, feature=name, number=value))
        return findings


def by_number(
    space: Coordinates | Design, asked: object, what: str
) -> dict[int, tuple[str, object]]:
    """Number of a coefficient -> its name, and what is said of it by name or number."""
    asked = asked or {}
    if not isinstance(asked, Mapping):
        raise InvalidModel(f"{what} must be by coefficient, {{name: ...}}; got {asked!r:.60}")
    groups = [space.names[block] for block in space.blocks]
    names = coefficient_names(groups[0], groups[1:]) if asked else ()
    found: dict[int, tuple[str, object]] = {}
    for label, value in asked.items():
        whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
        j = int(label) if whole else names.index(label) if label in names else len(names)
        if not -len(names) <= j < len(names):
            known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            hint = did_you_mean(str(label), names) or f"; they are {known}"
            raise InvalidModel(f"{what} must be of coefficients; got {label!r:.60}{hint}")
        if j % len(names) in found:
            raise InvalidModel(f"{what} must name each once; {names[j]} stands twice")
        found[j % len(names)] = names[j], value
    return found


def number_of(what: str, value: object) -> float:
    """The value as a finite number; one line where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidModel(f"{what} must be a number; got {value!r:.60}")
    if not np.isfinite(value):
        raise InvalidModel(f"{what} must be finite; got {value!r:.60}")
    return float(value)


def _ends(space: Coordinates | Design, j: int, name: str, pair: object) -> tuple[float, float]:
    """The smallest and the largest value that a pair allows a coefficient."""
    what, least = f"bounds: {name}", 0.0 if space.signs[j] < 0 else -np.inf
    if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
        raise InvalidModel(f"{what} must be (least, largest), None for no bound; got {pair!r:.60}")
    low = least if pair[0] is None else number_of(what, pair[0])
    high = np.inf if pair[1] is None else number_of(what, pair[1])
    if low < least:
        raise InvalidModel(f"{what} must not be below 0, as it is a cost; got {pair!r:.60}")
    if not low < high:
        raise InvalidModel(f"{what} must be (least, largest), least first; got {pair!r:.60}")
    return low, high


@dataclass(frozen=True, eq=False, kw_only=True)
class Norm:
    """The L1 norm of the reward parameters, known because the temperature is: 1 / temperature.

    A fit that keeps to it is the minimum of the loss plus pull * (form . x - value): the target of
    its problem is less by pull * form, its loss is that of the steps alone.

    Attributes:
        form: [D] the norm is form . x within the signs; 0 for what changes nothing.
        value: of the norm.
        pull: what a larger norm would cost or, if negative, gain.
        free_loss: of the fit that does not know the norm.
        free_value: of the norm there.
    """

    form: np.ndarray
    value: float
    pull: float = 0.0
    free_loss: float = np.nan
    free_value: float = np.nan

    @classmethod
    def of(cls, space: Coordinates, fitted: Fit, temperature: float) -> Norm:
        """The norm at a given temperature; `fitted` is the fit that does not know it."""
        reward, problem = space.blocks[0], fitted.problem
        signs = np.where(problem.lower >= 0, 1.0, np.where(problem.upper <= 0, -1.0, np.nan))
        if np.isnan(signs[reward]).any():
            raise InvalidModel(
                "a given temperature needs reward weights of known sign, which sum to 1: leave out "
                "free_reward, and negate features that are disliked; got free signs"
            )
        form = np.zeros(space.size)
        form[reward] = signs[reward] / space.scales[reward]
        shown = ~silent(fitted.point.curvature, float(problem.information.sum()))
        form *= shown & (problem.upper > problem.lower)
        if not form.any():
            raise InvalidModel(
                "a given temperature needs a reward that changes what is done; got none"
            )
        found = float(form @ fitted.point.x)
        free_loss = float(fitted.point.loss)
        return cls(form=form, value=1.0 / temperature, free_loss=free_loss, free_value=found)

    def refit(self, mdp: MDP, fitted: Fit, max_steps: int, **changes: np.ndarray) -> Fit:
        """The minimum with this norm, some fields of the problem changed, sought from a fit."""
        form, whole = self.form, fitted.problem
        whole = whole._replace(target=whole.target + self.pull * form)._replace(**changes)
        x, ties = np.clip(fitted.point.x, whole.lower, whole.upper), form[None]
        if form @ x > 0:
            x = x * (self.value / float(form @ x))
        x = feasible(x, whole.lower, whole.upper, ties, np.array([self.value]))
        given = (whole, x, fitted.point.values, fitted.tolerance, max_steps)
        found = sought(mdp, *given, ties=ties)
        if not np.isfinite(found.point.loss):
            return replace(found, norm=replace(self, pull=0.0))
        inside = np.where(found.free, form, 0.0)
        inside = inside if inside.any() else form
        pull = -float(inside @ found.point.gradient) / float(inside @ form)
        point = found.point._replace(gradient=found.point.gradient + pull * form)
        whole = whole._replace(target=whole.target - pull * form)
        norm = replace(self, pull=pull)
        return Fit(whole, point, found.steps, fitted.tolerance, norm=norm)

    def information(self, fisher: np.ndarray) -> np.ndarray:
        """[D, D] of knowing the norm, beside that of the steps [D, D]: so much that it is sure."""
        known = self.form != 0
        most = float((np.diagonal(fisher)[known] / self.form[known] ** 2).max())
        return CERTAIN * most * np.outer(self.form, self.form)

    def tangents(self, free: np.ndarray) -> np.ndarray:
        """[n, D] the directions in which the free parameters can move without changing the norm."""
        form, moves = np.where(free, self.form, 0.0), np.eye(len(free))
        at = int(np.abs(form).argmax())
        if form[at] == 0.0:
            return moves[free]
        others = free & (np.arange(len(free)) != at)
        return moves[others] - np.outer(form[others] / form[at], moves[at])


def check_temperature(options: Likelihood | Convex) -> None:
    """Raises `InvalidModel` unless the temperature that is given makes sense, with the rest."""
    given = options.temperature
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if given is None or not number or not 0.0 < given < np.inf:
        raise InvalidModel(f"temperature must be positive and finite; got {given!r:.60}")
    for name in ("lapses", "prior", "ridge", "bounds", "fixed", "start"):
        if other := getattr(options, name, None):
            raise InvalidModel(f"a given temperature must be without {name}; got {name}={other!r}")


def within_norm(space: Coordinates, mdp: MDP, fitted: Fit, options: Likelihood | Convex) -> Fit:
    """The fit that keeps to a given temperature, sought from one that does not know it."""
    assert options.temperature is not None
    return Norm.of(space, fitted, options.temperature).refit(mdp, fitted, options.max_steps)


def norm_findings(fitted: Fit) -> list[Finding]:
    """That the temperature was given, if it was."""
    if (norm := fitted.norm) is None:
        return []
    said = (
        f"The temperature was given, {1.0 / norm.value:.6g}: reward weights over it sum to "
        f"{norm.value:.6g}. Their shares, the prices and the budgets were estimated."
    )
    return [Finding(said, Kind.ASSUMED, number=1.0 / norm.value)]


def at_border(mdp: MDP, fitted: Fit) -> bool:
    """Whether a search ended where, a small step further, no value is finite (discount 1)."""
    if mdp.discount < 1.0 or fitted.converged or not np.isfinite(fitted.point.loss):
        return False
    problem, point, backend = fitted.problem, fitted.point, backend_of(mdp)
    low = np.maximum(problem.lower - point.x, -NEAR)
    high = np.minimum(problem.upper - point.x, NEAR)
    curvature = Matrices(point.curvature[None])
    step = curvature.bounded_step(point.gradient[None], low[None], high[None])[0]
    beyond = np.clip(point.x + step, problem.lower, problem.upper)
    return bool(np.isinf(float(loss_at(backend, problem, beyond, point.values, fitted.tolerance))))


def border_findings(mdp: MDP, fitted: Fit) -> list[Finding]:
    """That a search ended where values cease to be finite, if it did."""
    if not at_border(mdp, fitted):
        return []
    said = (
        "No finite value at these weights: the search ended where walking in circles begins to "
        "pay, which at discount 1 is worth more than any number. A step cost among the features, "
        "or a discount below 1, would mend it."
    )
    return [Finding(said, Kind.NOT_CONVERGED)]


def zero_findings(steps: Steps, evidence: Evidence) -> list[Finding]:
    """What many reward weights at 0 do to the prices, and the number that they leave alone."""
    space, fitted, gauge = steps.space, evidence.fitted, evidence.gauge
    reward = space.blocks[0]
    zeros = int(((fitted.point.x == 0.0) & (fitted.problem.lower == 0.0))[reward].sum())
    if zeros < MANY or evidence.absence or fitted.norm is not None:  # the unit is known then
        return []
    findings = []
    for k in np.flatnonzero(gauge.multipliers > 0).tolist():
        own = np.zeros(space.size)
        own[space.blocks[1 + k]] = 1.0 / space.scales[space.blocks[1 + k]]
        stable = float(own @ fitted.point.x)
        error = float(np.sqrt(max(own @ evidence.found.covariance @ own, 0.0)))
        said = (
            f"Price {k} divided by the temperature is {stable:.4g} (standard error {error:.2g}). "
            f"It does not depend on the {zeros} reward weights at 0; the unit of price {k} itself "
            "does, so its interval was simulated."
        )
        findings.append(Finding(said, Kind.NOTE, constraint=k, number=stable))
    return findings


def temperature_findings(
    evidence: Evidence, landscape_of: Callable[..., Landscape]
) -> list[Finding]:
    """That the temperature was given, and whether the steps speak against it.

    `landscape_of` makes that of a fit, as in `intervals`.
    """
    fitted = evidence.fitted
    norm, findings = fitted.norm, norm_findings(fitted)
    if norm is None or evidence.absence:
        return findings
    slope = fitted.point.gradient - norm.pull * norm.form
    plain = replace(fitted, point=fitted.point._replace(gradient=slope), norm=None)
    moving = np.isnan(evidence.limits)
    around = landscape_of(plain, evidence.found, evidence.fisher, moving)
    # Where steps are not the units, so much of the likelihood ratio is chance.
    rise = float(fitted.point.loss) - norm.free_loss
    if evidence.found.scatter is not None:
        rise = around.rise(norm.form, -norm.value)
    p = around.chance(norm.form, -norm.value, rise)
    if p < LEVEL:
        other = f"{1.0 / norm.free_value:.4g}" if norm.free_value > 0 else "without a limit"
        said = (
            f"The demonstrations contradict the given temperature ({chance(p)} if it were "
            f"right): without it the estimate is {other}."
        )
        findings.append(Finding(said, Kind.MISFIT, number=p))
    return findings
