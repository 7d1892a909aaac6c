"""Where a fit is sought: bounds, fixed values, a start, a known temperature; and the search.

Bounds, fixed values and a start are given by name, in the units of the coefficients themselves:
weights over the temperature, as choice models have them. A temperature that is given sets the norm
of the reward parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.wording import did_you_mean
from tacit.likelihood.problem import Equalities, Fit, LikelihoodProblem
from tacit.likelihood.products import PARAMETERS
from tacit.likelihood.protocol import LARGEST
from tacit.model.arguments import truth
from tacit.model.features.design import Design
from tacit.model.objective import coefficient_names

# Information a step below which a feature influences nothing but rounding.
SILENT = 1e-20
NOWHERE = (
    "discount 1 needs weights under which walking in circles does not pay, and no weights of these "
    "features within their signs are such: add a feature that every step pays (a step cost), let "
    "reward weights be negative (free_reward=True), or take a discount below 1"
)

# Options that say something of single coefficients.
# By what the search may miss an equation, relative to its right side.
MISSED = 1e-6
OF_COEFFICIENTS = ("bounds", "fixed", "start")
Label = str | int
Range = Sequence[float | None]


class Options(Protocol):
    """How a fit is sought; bounds, fixed values and a start where an estimator has them."""

    @property
    def free_reward(self) -> bool:
        """Whether reward weights may take either sign."""
        ...

    @property
    def tolerance(self) -> float:
        """Projected gradient to reach, relative to its scale."""
        ...

    @property
    def max_steps(self) -> int:
        """Most evaluations of the loss."""
        ...


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
    def of(cls, space: Design, options: Options) -> Bounds:
        """The bounds that the options ask for, and the usual ones of all other coefficients."""
        check_coefficients(options)
        free = truth(options.free_reward, "free_reward")
        lower, size = space.lower(free_reward=free), len(space.scales)
        upper, none = np.minimum(space.upper, LARGEST), np.zeros(size, bool)
        known = cls(lower=lower, upper=upper, given=none, asked=none.copy())
        bounds, fixed, start = (
            by_number(space, getattr(options, name, None), name) for name in OF_COEFFICIENTS
        )
        for j, (name, pair) in bounds.items():
            least = lower[j] if space.signs[j] < 0 else -np.inf
            low, high = _ends(least, name, pair)
            most = LARGEST / space.scales[j]
            if not low < most:
                raise InvalidModel(f"bounds: {name} must have a least below {most:.3g}; got {low}")
            known.asked[j] = True
            lower[j] = low * space.scales[j]
            known.upper[j] = min(high * space.scales[j], LARGEST)
        for j, (name, value) in fixed.items():
            known.given[j], least = True, lower[j]
            lower[j] = known.upper[j] = number_of(f"fixed: {name}", value) * space.scales[j]
            if abs(lower[j]) > LARGEST:
                most = LARGEST / space.scales[j]
                raise InvalidModel(f"fixed: {name} must be {most:.3g} at most in size; got {value}")
            if known.asked[j] or (space.signs[j] < 0 and lower[j] < least):
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


def check_coefficients(options: Options) -> None:
    """Raises `InvalidModel` unless what is said of coefficients is a mapping of them."""
    for word in OF_COEFFICIENTS:
        labelled(getattr(options, word, None), word)


def labelled(asked: object, what: str) -> Mapping[Label, object]:
    """What is said of coefficients, if it is a mapping of them; raises `InvalidModel` if not."""
    asked = asked or {}
    if not isinstance(asked, Mapping):
        raise InvalidModel(f"{what} must be by coefficient, {{name: ...}}; got {asked!r:.60}")
    return asked


def by_number(space: Design, asked: object, what: str) -> dict[int, tuple[str, object]]:
    """Number of a coefficient -> its name, and what is said of it by name or number."""
    asked = labelled(asked, what)
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


def _ends(least: float, name: str, pair: object) -> tuple[float, float]:
    """The smallest and the largest value that a pair allows a coefficient, `least` or more."""
    what = f"bounds: {name}"
    if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
        raise InvalidModel(f"{what} must be (least, largest), None for no bound; got {pair!r:.60}")
    low = least if pair[0] is None else number_of(what, pair[0])
    high = np.inf if pair[1] is None else number_of(what, pair[1])
    if low < least:
        raise InvalidModel(f"{what} must not be below 0, as it is a cost; got {pair!r:.60}")
    if not low < high:
        raise InvalidModel(f"{what} must be (least, largest), least first; got {pair!r:.60}")
    return low, high


def maximum(
    chain: Any,
    options: Options,
    *,
    near: Fit | None = None,
    begin: np.ndarray | None = None,
    upper: np.ndarray | None = None,
    idle: Sequence[int] = (),
) -> Fit:
    """The maximum of the likelihood of a chain, sought from a fit nearby if there is one.

    Args:
        chain: what was seen.
        options: how it is sought.
        near: a fit of the same features, of other data or in another world.
        begin: [D] where the search begins, if no fit is nearby; that of the options by default.
        upper: [D] the largest values allowed; those of the options by default.
        idle: constraints that are left out.
    """
    space, known = chain.space, Bounds.of(chain.space, options)
    problem = LikelihoodProblem.of(chain, known.lower, known.upper if upper is None else upper)
    for k in idle:
        problem = problem.without(1 + k)
    if near is None:
        asked = known.start if begin is None else np.nan_to_num(begin)
        place = chain.approach(problem, asked, options.max_steps)
        problem, x, part = place.problem, place.x, place.parts
    else:
        x, part = near.z * (space.scales / near.problem.chains[0].space.scales), near.parts
    rules = {"tolerance": options.tolerance, "max_steps": options.max_steps}
    found = problem.minimum(x, part, **rules, stage=chain.stage)
    if np.isinf(found.loss):
        raise InvalidModel(NOWHERE)
    return found.completed


def within_temperature(fitted: Fit, temperature: float, max_steps: int) -> Fit:
    """The fit whose temperature is known, sought from one that does not know it.

    The reward parameters of every demonstrator then have the L1 norm 1 / temperature.
    """
    problem, known = fitted.problem, fitted.problem.equalities
    signs = np.where(problem.lower >= 0, 1.0, np.where(problem.upper <= 0, -1.0, np.nan))
    forms = list[np.ndarray]()
    bends = fitted.diagonal
    if bends is None:
        raise InvalidModel(
            "a given temperature is an equality between all reward weights, which needs the "
            f"curvature of the likelihood written out: at most {PARAMETERS} features; got "
            f"{len(signs)}"
        )
    for e, chain in problem.wanting:
        reward, form = chain.space.blocks[0], np.zeros(len(signs))
        rows = problem.ties.rows[e][reward]
        if np.isnan(signs[rows]).any():
            raise InvalidModel(
                "a given temperature needs reward weights of known sign, which sum to 1: leave out "
                "free_reward, and negate features that are disliked; got free signs"
            )
        form[rows] = signs[rows] / chain.space.scales[reward]
        telling = (bends > SILENT * max(chain.steps, 1.0)) & problem.movable
        if not form[telling].any():
            said = "a given temperature needs a reward that changes what is done; got none"
            raise InvalidModel(said)
        # A weight that is fixed takes its share of the norm.
        form *= telling | (~problem.movable & (problem.lower != 0.0))
        _check_reachable(form, problem, 1.0 / temperature)
        forms.append(form)
    known = known or Equalities.none(len(signs))
    tied = known.joined(np.stack(forms), np.full(len(forms), 1.0 / temperature), norms=True)
    return fitted.refit(replace(problem, equalities=tied), max_steps=max_steps)


def restricted(fitted: Fit, rows: np.ndarray, goals: np.ndarray, max_steps: int) -> Fit:
    """The fit under linear equations of every demonstrator's coefficients: rows . them = goals.

    Args:
        fitted: without the equations.
        rows: [q, D] of coefficients.
        goals: [q].
        max_steps: most evaluations of the loss.
    """
    problem = fitted.problem
    size = len(problem.lower)
    if fitted.diagonal is None:
        raise InvalidModel(
            "restrict needs the curvature of the likelihood written out: at most "
            f"{PARAMETERS} features; got {size}"
        )
    forms, values = [], []
    for e, chain in problem.wanting:
        for row, goal in zip(rows, goals, strict=True):
            form = np.zeros(size)
            form[problem.ties.rows[e]] = row / chain.space.scales
            length = float(np.linalg.norm(form))
            forms.append(form / length)
            values.append(goal / length)
    known = problem.equalities or Equalities.none(size)
    tied = known.joined(np.stack(forms), np.array(values), norms=False)
    found = fitted.refit(replace(problem, equalities=tied), max_steps=max_steps)
    if np.abs(found.missing(found.z)).max() > MISSED * (1.0 + np.abs(tied.values).max()):
        raise InvalidModel(
            "restrict must be possible within the bounds of the coefficients (costs and, without "
            "free_reward, rewards are not negative); no coefficients are"
        )
    return found


def _check_reachable(form: np.ndarray, problem: LikelihoodProblem, norm: float) -> None:
    """Raises `InvalidModel` unless a form [n] within the bounds can be the norm of the reward."""
    counts = form != 0.0
    ends = form[counts] * np.stack([problem.lower[counts], problem.upper[counts]])
    least, most = float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())
    if not least <= norm <= most:
        raise InvalidModel(
            "a given temperature must leave the reward weights within their bounds: over it they "
            f"sum to 1 / temperature = {norm:.6g}; the bounds allow {least:.6g} to {most:.6g}"
        )


def silent(fisher: np.ndarray, steps: float) -> np.ndarray:
    """[D] bool, the parameters that no action ever depends on."""
    return np.asarray(np.diagonal(fisher) <= SILENT * max(steps, 1.0))


def check_plain(options: object, what: str, known: tuple[str, ...] = ()) -> None:
    """Raises `InvalidModel` where an estimator was asked for more than `what` knows of."""
    for name in ("lapses", "prior", "temperature", "bounds", "fixed", "start", "restrict"):
        given = getattr(options, name, None)
        if given not in (None, False, {}, ()) and name not in known:
            raise InvalidModel(f"{what} must be without {name}: leave it out; got {given!r}")
