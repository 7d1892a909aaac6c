"""Trips drawn again or asked again: resampled, by group, and with an assumption given up.

Every trip is one draw, whatever its goal. A resampled set is fitted from where the fit of all trips
ended, a few steps of Newton's; a constraint that the recovery does not keep stays out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from tacit.data.units import Units, units_of
from tacit.engine.progress import Callback
from tacit.inference.boundary import rank_of
from tacit.inference.gauge import Gauge
from tacit.inference.tails import chi_square_tail
from tacit.inverse.batch import Batch, tell
from tacit.inverse.bootstrap import widened
from tacit.inverse.findings import listed
from tacit.inverse.joint.maximum import TripsChain, maximum_near, maximum_of_trips
from tacit.inverse.joint.traveller import KNOWN, Choices, TripsRecovery
from tacit.inverse.joint.trips import Trips
from tacit.inverse.joint.units import TripUnits
from tacit.inverse.noisy.lapses import lapses_of, with_lapses
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.likelihood.kinds import one_direction
from tacit.likelihood.problem import Fit
from tacit.model.features import Map
from tacit.model.layout import Layout

# Discounts looked at, at least; logarithms of noises of groups, at most.
SHORTEST, FARTHEST = 0.5, 3.0


def resampled_trips(
    trips: Trips,
    recovery: TripsRecovery,
    options: Likelihood,
    *,
    replicates: int,
    seed: int,
    callbacks: Sequence[Callback],
) -> TripsRecovery:
    """The recovery with intervals of trips drawn again, as many, whatever their goals.

    Args:
        trips: the network and its trips.
        recovery: what they gave.
        options: it was made with.
        replicates: how many.
        seed: of the draws.
        callbacks: called with a `tacit.progress.Event` as replicates are done.
    """
    seen, random = kept_trips(trips), np.random.default_rng(seed)
    units = units_of(seen.demonstrations)
    idle = [not np.isfinite(weights).all() for weights in recovery.cost_weights]
    gauges, fits = [], list[Fit]()
    for done in range(replicates):
        drawn = _selected(seen, units.drawn(random))
        chain = _chain(drawn, options)
        fitted = maximum_near(chain, options, recovery.parameters.estimates, idle)
        own = fitted.evidence([drawn])[0]
        gauges.append(Gauge.of(chain.space, fitted.z, own.spent, own.reaction))
        fits.append(fitted)
        tell(callbacks, "bootstrap", replicates, done + 1)
    batch = Batch(
        reward_weights=np.stack([one.reward_weights for one in gauges]),
        cost_weights=tuple(np.stack([g.cost_weights[k] for g in gauges]) for k in range(len(idle))),
        multipliers=np.stack([one.multipliers for one in gauges]),
        budgets=np.stack([one.budgets for one in gauges]),
        temperatures=np.array([one.temperature for one in gauges]),
        losses=np.array([one.loss for one in fits]),
        projected_gradients=np.array([one.projected_gradient for one in fits]),
        converged=np.array([one.converged for one in fits]),
        deterministic=np.zeros(replicates, bool),
        parameters=np.stack([one.z for one in fits]),
        steps=np.array([one.steps for one in fits]),
    )
    return widened(recovery, batch, units)


def kept_trips(trips: Trips) -> Trips:
    """The same without trajectories that are left out."""
    used = trips.goals > -2
    return trips if used.all() else _selected(trips, used)


def _selected(trips: Trips, which: np.ndarray) -> Trips:
    """The trips of these numbers, or for which this is True."""
    return replace(trips, demonstrations=trips.demonstrations.select(which))


def _chain(trips: Trips, options: Likelihood) -> TripsChain:
    return TripsChain.of(trips.journeys()[0], options.tolerance)


def _coefficients(fitted: Fit) -> np.ndarray:
    """[D] in the user's units."""
    return fitted.z / fitted.problem.chains[0].space.scales


def random_sums(chosen: Choices, best: np.ndarray) -> np.ndarray:
    """[2, E] log-likelihood of random actions in every trip, and their best steps, `best` [M, A].

    Random among the actions that leave a way to the goal.
    """
    options = chosen.available.sum(axis=1)
    found = np.empty((2, len(chosen.trips)))
    for row, table in zip(found, (-np.log(options), best.sum(axis=1) / options), strict=True):
        sums = np.add.reduceat(table[chosen.steps.states], chosen.steps.offsets[:-1])
        row[np.argsort(np.argsort(chosen.trips))] = sums
    return found


class Apart(NamedTuple):
    """Groups fitted apart against groups that are alike."""

    ratio: float  # of their likelihoods
    degrees: float  # of freedom of its chi-square
    bounded: bool  # whether a coefficient is on its bound, where no chi-square holds
    simulated: Callable[[int], tuple[list[float], str]]  # so many ratios by chance, and how made
    units: Units  # what is independent among the episodes
    steps: np.ndarray  # [G] steps of each group


def trips_apart(trips: Trips, member: np.ndarray, options: Likelihood, seed: int) -> Apart:
    """Groups of trips fitted apart, against shared coefficients and noise.

    Args:
        trips: of all groups, none of them left out.
        member: [E] number of the group of every trip.
        options: of the fits.
        seed: of the dealing.
    """
    options.check_no_lapses("the test of groups", KNOWN)
    pooled = maximum_of_trips(_chain(trips, options), options)
    theta, count = _coefficients(pooled), int(member.max()) + 1

    def apart(member: np.ndarray) -> list[Fit]:
        groups = (_selected(trips, member == g) for g in range(count))
        return [maximum_near(_chain(own, options), options, theta) for own in groups]

    def ratio_of(parts: list[Fit]) -> float:
        return max(0.0, 2.0 * (pooled.loss - sum(one.loss for one in parts)))

    parts = apart(member)
    fixed = ~pooled.problem.movable
    bounded = not all((one.free | fixed).all() for one in (pooled, *parts))
    ranks = [rank_of(one.parts[0].fisher, one.free) for one in (pooled, *parts)]
    units = units_of(trips.demonstrations).across(member)

    def dealt(number: int) -> tuple[list[float], str]:
        random = np.random.default_rng(seed)
        found = [ratio_of(apart(units.dealt(member, random))) for _ in range(number)]
        return found, f"by {units.dealing(member, 'trips')} {number} times"

    steps = np.bincount(np.repeat(member, trips.demonstrations.lengths), minlength=count)
    degrees = float(max(sum(ranks[1:]) - ranks[0], 0))
    return Apart(ratio_of(parts), degrees, bounded, dealt, units, steps)


# (assumption, alternative, extra, log-likelihood, p-value or None for a chi-square, words, remedy)
GivenUp = tuple[str, str, int, float, float | None, str, str]


def alternatives(
    trips: Trips, options: Likelihood, layout: Layout
) -> tuple[float, int, Iterator[GivenUp]]:
    """Minus the log-likelihood of the trips, their steps, and what each assumption given up brings.

    Lapses, another discount, a feature more, and, where there are groups, a noise or coefficients
    by group.
    """
    options.check_no_lapses("the diagnosis", KNOWN)
    seen = kept_trips(trips)
    base = maximum_of_trips(_chain(seen, options), options)
    theta = _coefficients(base)

    def rows() -> Iterator[GivenUp]:
        yield _lapses(base, options)
        yield _discount(seen, options, base, theta)
        yield _mark(seen, options, base, theta, layout)
        if seen.demonstrations.groups is not None:
            names, member = np.unique(seen.demonstrations.groups, return_inverse=True)
            if len(names) > 1:
                yield from _by_group(seen, options, base, names.tolist(), member.ravel())

    return base.loss, seen.demonstrations.steps, rows()


def descend(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    units: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
) -> tuple[float, np.ndarray]:
    """The smallest loss found within the bounds, and where; coordinates in units of their own."""
    from scipy.optimize import minimize

    best = [loss(start)[0], start]

    def scaled(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = loss(z * units)
        if not np.isfinite(value):  # no finite values there: far, and downhill nowhere
            return abs(best[0]) * 10.0 + 1e6, np.zeros_like(z)
        if value < best[0]:
            best[:] = value, z * units
        return value, slope * units

    lower, upper = bounds
    within = list(zip(lower / units, upper / units, strict=True))
    minimize(scaled, start / units, jac=True, method="L-BFGS-B", bounds=within)
    return float(best[0]), np.array(best[1])


def _lapses(base: Fit, options: Likelihood) -> GivenUp:
    found = with_lapses(TripUnits.steps(base.problem.chains[0]), options, base)
    told = lapses_of(found, base)
    low, high = told.interval
    return (
        "every step was chosen",
        "lapses",
        1,
        -found.loss,
        told.p_value,
        f"{told.share:.1%} of the steps at random [{low:.1%}, {high:.1%}]",
        "Recover with Likelihood(lapses=True).",
    )


def _discount(trips: Trips, options: Likelihood, base: Fit, theta: np.ndarray) -> GivenUp:
    from scipy.optimize import OptimizeResult, minimize_scalar

    own, top = cast("float", trips.discount), -base.loss
    best = own

    def likely(discount: float) -> float:
        chain = _chain(replace(trips, discount=float(discount)), options)
        return -maximum_near(chain, options, theta).loss

    for low, high in ((SHORTEST, own), (own, 1.0)):
        near = own + 0.02 * (low + high - 2.0 * own)  # a step from the own one: uphill, or not
        if high - low < 1e-6 or not likely(near) > -base.loss:
            continue
        found: OptimizeResult = minimize_scalar(  # type: ignore[assignment]
            lambda d: -likely(d), bounds=(low, high), method="bounded", options={"xatol": 1e-3}
        )
        if -float(found["fun"]) > top:
            top, best = -float(found["fun"]), float(found["x"])
    ratio = 2.0 * (top + base.loss)
    border = 0.5 * chi_square_tail(1, ratio) if own == 1.0 and ratio > 0 else None
    return (
        f"the discount is {own:g}",
        "another discount",
        1,
        top,
        border,
        f"discount {best:.3g}",
        f"Recover with a discount near {best:.3g}: --discount-grid shows what it changes.",
    )


def _mark(
    trips: Trips, options: Likelihood, base: Fit, theta: np.ndarray, layout: Layout
) -> GivenUp:
    """The state or action that is met far more, or less, often than expected, as a feature."""
    counts, flows = trips.demonstrations.counts(trips.mdp), base.parts[0].flows
    visits = [(counts.sum(axis=axis), flows.sum(axis=axis)) for axis in (1, 0)]
    off = np.concatenate([(n - f) / np.sqrt(f + 1.0) for n, f in visits])
    most, states = int(np.abs(off).argmax()), trips.mdp.states
    table = np.zeros((*counts.shape, 1))
    if most < states:
        table[most], name = np.sign(off[most]), f"being at {layout.state_name(most)}"
    else:
        table[:, most - states] = np.sign(off[most])
        name = f"taking {layout.action_name(most - states)}"
    name = name if name not in trips.features.reward_names else f"{name} (mark)"
    chain = _chain(trips.with_features(Map(table, name)), options)
    place = chain.space.blocks[0].stop - 1
    fitted = maximum_near(chain, options, np.insert(theta, place, 0.0))
    gain = max(base.loss - fitted.loss, 0.0)
    size = float(_coefficients(fitted)[place] * np.sign(off[most]))
    return (
        "no feature is missing",
        "a feature more",
        1,
        -base.loss + gain,
        min(1.0, len(off) * chi_square_tail(1, 2.0 * gain)) if gain > 0 else 1.0,  # the best of all
        f"a mark of {name} ({size:+.3g})",
        f"A feature that tells {name} from the rest would mend most: add one.",
    )


def _by_group(
    trips: Trips, options: Likelihood, base: Fit, names: list[str], member: np.ndarray
) -> Iterator[GivenUp]:
    each = [_chain(_selected(trips, member == g), options) for g in range(len(names))]
    ratio = each[0].space.scales / base.problem.chains[0].space.scales
    shared = one_direction(each, base.problem, ratio * base.z)
    lengths = np.r_[1.0, shared.z[len(base.z) :]]
    told = [f"{n} {1.0 / length:.3g}" for n, length in zip(names, lengths, strict=True)]
    yield (
        "all groups have one noise",
        "a noise by group",
        len(names) - 1,
        -shared.loss,
        None,
        f"noise, that of {names[0]} being 1: {listed(told, 6)}",
        "Recover the groups apart: --by group.",
    )
    found = trips_apart(trips, member, options, seed=0)
    yield (
        "all groups want and refuse the same",
        "coefficients by group",
        int(found.degrees),
        -base.loss + 0.5 * found.ratio,
        chi_square_tail(found.degrees, found.ratio) if found.degrees > 0 else 1.0,
        f"{len(names)} groups, each with coefficients of its own",
        "Recover the groups apart: --by group; --groups says in what they differ.",
    )
