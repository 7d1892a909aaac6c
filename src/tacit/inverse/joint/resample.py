"""Trips drawn again or asked again: resampled, by group, and with an assumption given up.

Every trip is one draw, whatever its goal. A resampled set is fitted from where the fit of all trips
ended, a few steps of Newton's; a constraint that the recovery does not keep stays out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from tacit.data.units import Units
from tacit.engine.progress import Callback
from tacit.inference.boundary import rank_of
from tacit.inference.gauge import Gauge
from tacit.inference.numerics import TWO_SIDED, chi_square_tail
from tacit.inverse.batch import Batch, tell
from tacit.inverse.bootstrap import widened
from tacit.inverse.findings import listed
from tacit.inverse.joint.maximum import Found, Likelihoods
from tacit.inverse.joint.stack import descend
from tacit.inverse.joint.traveller import KNOWN, Choices, TripsRecovery
from tacit.inverse.joint.trips import Trips
from tacit.inverse.noisy.inference import units_of
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.inverse.parameters import inverse_information
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
    gauges, founds = [], []
    for done in range(replicates):
        drawn = _selected(seen, units.drawn(random))
        likelihoods, many = _likelihoods(drawn, options), drawn.demonstrations.episodes
        found = likelihoods.near(recovery.parameters.estimates, idle)
        spent, reaction = found.sums.spent / many, found.sums.reaction / many
        gauges.append(Gauge.of(likelihoods.journeys.space, found.fitted.point.x, spent, reaction))
        founds.append(found)
        tell(callbacks, "bootstrap", replicates, done + 1)
    batch = Batch(
        reward_weights=np.stack([one.reward_weights for one in gauges]),
        cost_weights=tuple(np.stack([g.cost_weights[k] for g in gauges]) for k in range(len(idle))),
        multipliers=np.stack([one.multipliers for one in gauges]),
        budgets=np.stack([one.budgets for one in gauges]),
        temperatures=np.array([one.temperature for one in gauges]),
        losses=np.array([one.sums.loss for one in founds]),
        projected_gradients=np.array([one.fitted.projected_gradient for one in founds]),
        converged=np.array([one.fitted.converged for one in founds]),
        deterministic=np.zeros(replicates, bool),
        parameters=np.stack([one.fitted.point.x for one in founds]),
        steps=np.array([one.fitted.steps for one in founds]),
    )
    return widened(recovery, batch, units)


def kept_trips(trips: Trips) -> Trips:
    """The same without trajectories that are left out."""
    used = trips.goals > -2
    return trips if used.all() else _selected(trips, used)


def _selected(trips: Trips, which: np.ndarray) -> Trips:
    """The trips of these numbers, or for which this is True."""
    return replace(trips, demonstrations=trips.demonstrations.select(which))


def _likelihoods(trips: Trips, options: Likelihood) -> Likelihoods:
    return Likelihoods(trips.journeys()[0], options)


def _coefficients(whole: Likelihoods, found: Found) -> np.ndarray:
    """[D] in the user's units."""
    return found.fitted.point.x / whole.journeys.space.scales


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
    whole = _likelihoods(trips, options)
    pooled = whole.best()
    theta, count = _coefficients(whole, pooled), int(member.max()) + 1

    def apart(member: np.ndarray) -> list[Found]:
        groups = (_selected(trips, member == g) for g in range(count))
        return [_likelihoods(own, options).near(theta) for own in groups]

    def ratio_of(parts: list[Found]) -> float:
        return max(0.0, 2.0 * (pooled.sums.loss - sum(one.sums.loss for one in parts)))

    parts = apart(member)
    settled = pooled.fitted.problem.lower == pooled.fitted.problem.upper
    bounded = not all((one.fitted.free | settled).all() for one in (pooled, *parts))
    ranks = [rank_of(one.sums.fisher, one.fitted.free) for one in (pooled, *parts)]
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
    by group. Types of travellers are not sought: a mixture has one world.
    """
    options.check_no_lapses("the diagnosis", KNOWN)
    seen = kept_trips(trips)
    whole = _likelihoods(seen, options)
    base = whole.best()
    theta = _coefficients(whole, base)

    def rows() -> Iterator[GivenUp]:
        yield _lapses(whole, base)
        yield _discount(seen, options, base, theta)
        yield _mark(seen, options, base, theta, layout)
        if seen.demonstrations.groups is not None:
            names, member = np.unique(seen.demonstrations.groups, return_inverse=True)
            if len(names) > 1:
                yield from _by_group(seen, options, base, names.tolist(), member.ravel())

    return float(base.sums.loss), seen.demonstrations.steps, rows()


def _lapses(whole: Likelihoods, base: Found) -> GivenUp:
    j, size = whole.journeys, len(base.fitted.point.x)

    def terms(z: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """[n] chances of the steps, and [n, D + 1] the derivatives of their logarithms."""
        sums = whole.at(z[:-1], whole.all, detailed=True)
        if not np.isfinite(sums.loss):
            return None
        rows, share = sums.rows, z[-1]
        own = sums.policy[np.arange(len(rows)), j.actions[rows]]
        random = 1.0 / j.choices[rows].sum(axis=1)
        mixed = (1.0 - share) * own + share * random
        told = ((1.0 - share) * own / mixed)[:, None] * sums.scores
        return mixed, np.column_stack([told, (random - own) / mixed])

    def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
        found = terms(z)
        if found is None:
            return np.inf, np.zeros(len(z))
        return -float(np.log(found[0]).sum()), -found[1].sum(axis=0)

    problem = base.fitted.problem
    curved = np.diagonal(base.sums.curvature)
    units = np.r_[1.0 / np.sqrt(np.where(curved > 0, curved, 1.0)), 0.01]
    bounds = np.r_[problem.lower, 0.0], np.r_[problem.upper, 0.99]
    least, z = descend(loss, np.r_[base.fitted.point.x, 0.02], units, bounds)
    share, ratio = float(z[-1]), max(2.0 * (float(base.sums.loss) - least), 0.0)
    slopes = terms(z)
    assert slopes is not None
    free = np.r_[base.fitted.free, True]
    spread = inverse_information(slopes[1].T @ slopes[1], free)[0][size, size] ** 0.5
    low, high = max(share - TWO_SIDED * spread, 0.0), min(share + TWO_SIDED * spread, 1.0)
    return (
        "every step was chosen",
        "lapses",
        1,
        -least,
        0.5 * chi_square_tail(1, ratio) if ratio > 0 else 1.0,  # 0 is a border
        f"{share:.1%} of the steps at random [{low:.1%}, {high:.1%}]",
        "Leave out trips of which the table of trajectories says that they fit least.",
    )


def _discount(trips: Trips, options: Likelihood, base: Found, theta: np.ndarray) -> GivenUp:
    from scipy.optimize import OptimizeResult, minimize_scalar

    own, top = cast("float", trips.discount), -float(base.sums.loss)
    best = own

    def likely(discount: float) -> float:
        whole = _likelihoods(replace(trips, discount=float(discount)), options)
        return -float(whole.near(theta).sums.loss)

    for low, high in ((SHORTEST, own), (own, 1.0)):
        near = own + 0.02 * (low + high - 2.0 * own)  # a step from the own one: uphill, or not
        if high - low < 1e-6 or not likely(near) > -float(base.sums.loss):
            continue
        found: OptimizeResult = minimize_scalar(  # type: ignore[assignment]
            lambda d: -likely(d), bounds=(low, high), method="bounded", options={"xatol": 1e-3}
        )
        if -float(found["fun"]) > top:
            top, best = -float(found["fun"]), float(found["x"])
    ratio = 2.0 * (top + float(base.sums.loss))
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
    trips: Trips, options: Likelihood, base: Found, theta: np.ndarray, layout: Layout
) -> GivenUp:
    """The state or action that is met far more, or less, often than expected, as a feature."""
    counts, flows = trips.demonstrations.counts(trips.mdp), base.sums.flows
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
    whole = _likelihoods(trips.with_features(Map(table, name)), options)
    place = whole.journeys.space.blocks[0].stop - 1
    found = whole.near(np.insert(theta, place, 0.0))
    gain = max(float(base.sums.loss - found.sums.loss), 0.0)
    size = float(_coefficients(whole, found)[place] * np.sign(off[most]))
    return (
        "no feature is missing",
        "a feature more",
        1,
        -float(base.sums.loss) + gain,
        min(1.0, len(off) * chi_square_tail(1, 2.0 * gain)) if gain > 0 else 1.0,  # the best of all
        f"a mark of {name} ({size:+.3g})",
        f"A feature that tells {name} from the rest would mend most: add one.",
    )


def _by_group(
    trips: Trips, options: Likelihood, base: Found, names: list[str], member: np.ndarray
) -> Iterator[GivenUp]:
    each = [_likelihoods(_selected(trips, member == g), options) for g in range(len(names))]
    own, problem = trips.journeys()[0].space.scales, base.fitted.problem
    ratios = [one.journeys.space.scales / own for one in each]
    size = len(own)

    def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope, x = 0.0, np.zeros(len(z)), z[:size]
        for g, (one, ratio) in enumerate(zip(each, ratios, strict=True)):
            factor = np.exp(z[size + g - 1]) if g else 1.0
            sums = one.at(factor * ratio * x, one.all)
            if not np.isfinite(sums.loss):
                return np.inf, slope
            value += float(sums.loss)
            slope[:size] += factor * ratio * sums.gradient
            if g:
                slope[size + g - 1] = factor * (ratio * x) @ sums.gradient
        return value, slope

    curved = np.diagonal(base.sums.curvature)
    units = np.r_[1.0 / np.sqrt(np.where(curved > 0, curved, 1.0)), np.full(len(names) - 1, 0.1)]
    far = np.full(len(names) - 1, FARTHEST)
    start = np.r_[base.fitted.point.x, 0.0 * units[size:]]
    least, z = descend(loss, start, units, (np.r_[problem.lower, -far], np.r_[problem.upper, far]))
    told = [f"{n} {t:.3g}" for n, t in zip(names, np.exp(-np.r_[0.0, z[size:]]), strict=True)]
    yield (
        "all groups have one noise",
        "a noise by group",
        len(names) - 1,
        -least,
        None,
        f"noise, that of {names[0]} being 1: {listed(told, 6)}",
        "Recover the groups apart: --by group.",
    )
    found = trips_apart(trips, member, options, seed=0)
    yield (
        "all groups want and refuse the same",
        "coefficients by group",
        int(found.degrees),
        -float(base.sums.loss) + 0.5 * found.ratio,
        chi_square_tail(found.degrees, found.ratio) if found.degrees > 0 else 1.0,
        f"{len(names)} groups, each with coefficients of its own",
        "Recover the groups apart: --by group; --groups says in what they differ.",
    )
