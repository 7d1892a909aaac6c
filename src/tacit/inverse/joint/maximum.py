"""The maximum of the likelihood of trips: where it is, whether it is the only one, how sure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.errors import InvalidModel
from tacit.forward.soft_dual import finite_start
from tacit.inference.activity import BoundedFit, ScoreLaw, Verdict, active_constraints
from tacit.inference.gauge import Gauge
from tacit.inference.limits import lower_limits
from tacit.inverse.joint.flows import Network, Sums, added, scatter_of
from tacit.inverse.joint.goals import Worlds
from tacit.inverse.joint.stack import posed
from tacit.inverse.joint.trips import Journeys
from tacit.inverse.noisy.activity import bounded
from tacit.likelihood.start import NOWHERE
from tacit.likelihood.rescue import RESCUE, is_boundless
from tacit.likelihood.problem import Fit
from tacit.likelihood.chain import LARGEST
from tacit.inverse.noisy.evidence import Evidence
from tacit.likelihood.rescue import VISIBLE
from tacit.inverse.noisy.inference import STEPS, Errors, undecided
from tacit.likelihood.start import Bounds
from tacit.inverse.noisy.likelihood import Likelihood
from tacit.likelihood.chain import of_constraints, priced
from tacit.inverse.parameters import inverse_information
from tacit.search import minimise
from tacit.search.operators import Matrices
from tacit.search.smooth_dual import Point

# Goals of a rough fit from which that of all begins, and its tolerance.
SOME, ROUGH = 64, 1e-3
# Most scores of steps that are kept of the last evaluation.
DETAILED = 2**24


@dataclass(frozen=True, eq=False)
class Found:
    """A minimum of minus the log-likelihood, and the sums there."""

    fitted: Fit
    sums: Sums


class Likelihoods:
    """Minus the log-likelihood of the trips to any of the goals, and its minima."""

    def __init__(self, journeys: Journeys, options: Likelihood) -> None:
        self.journeys, self._options = journeys, options
        self.all = np.arange(len(journeys.goals))
        self._numbers = np.diff(journeys.steps)  # [G] steps to each goal
        self.worlds = Worlds(journeys, options.tolerance)
        plain = journeys.certain and journeys.discount == 1.0
        self.network = Network(journeys) if plain else None
        self._told: tuple[tuple, Sums] | None = None  # the last that was asked in detail

    @property
    def convex(self) -> bool:
        """Whether it is convex for certain, so that its minimum is the global one."""
        return self.journeys.certain or all(self.worlds.convex(i) for i in self.all.tolist())

    def at(
        self,
        x: np.ndarray,
        chosen: np.ndarray,
        ridge: float = 0.0,
        *,
        detailed: bool = False,
        lean: bool = False,
    ) -> Sums:
        """The `Sums` at x [D], with what is linear in x; the loss is infinite if a value is.

        Where it is asked to be detailed, with the policy at every step; lean, without second
        derivatives, where that is faster.
        """
        asked = x.tobytes(), chosen.tobytes(), ridge
        if detailed and self._told is not None and self._told[0] == asked:
            return self._told[1]
        parts, rest = [], chosen
        if self.network is not None:
            known, rest = self.network.evaluate(x, chosen, detailed=detailed, lean=lean)
            parts.append(known)
        if len(rest) and np.isfinite(sum(part.loss for part in parts)):
            parts.append(self.worlds.evaluate(x, rest, detailed=detailed))
        whole, target = added(parts, len(x)), self.journeys.targets[chosen].sum(axis=0)
        found = whole._replace(
            loss=whole.loss - x @ target + 0.5 * ridge * x @ x,
            gradient=whole.gradient - target + ridge * x,
            curvature=whole.curvature + ridge * np.eye(len(x)),
        )
        if detailed:
            self._told = asked, found
        return found

    def fit(
        self,
        x: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        *,
        chosen: np.ndarray | None = None,
        tolerance: float | None = None,
        ridge: float = 0.0,
        model: np.ndarray | None = None,
    ) -> Found:
        """The minimum within the bounds, sought from x [D] or from where the loss is finite.

        With a model [D, D] of the curvature near x, most second derivatives are done without.
        """
        chosen = self.all if chosen is None else chosen
        tolerance = self._options.tolerance if tolerance is None else tolerance
        problem = TripsProblem(self, lower, upper, chosen, ridge, detailed=model is not None)
        x, sums = self._finite(problem, x, lean=model is not None)
        known, evaluations = problem.point(sums), 1
        if np.isfinite(sums.loss):
            inputs = (x, lower, upper, chosen, tolerance, self.journeys.targets)
            end = minimise.minimise(
                problem,
                minimise.begin(x[None], known, model),
                tolerance=tolerance,
                max_steps=self._options.max_steps,
                stage=minimise.Stage("trips", inputs),
            )
            assert end.point is not None
            x, sums, evaluations = end.z[0], end.point.detail, int(end.evaluations[0])
        if sums.lean:  # the search was stopped
            sums = self.at(x, chosen, ridge)
        dual = posed(lower, upper, problem.scale, ridge=ridge, discount=self.journeys.discount)
        point = Point(
            x, sums.loss, sums.gradient, sums.curvature, np.zeros(1), None, None, None, 0.0
        )
        return Found(Fit(dual, point, evaluations, tolerance), sums)

    def _finite(
        self, problem: TripsProblem, x: np.ndarray, *, lean: bool
    ) -> tuple[np.ndarray, Sums]:
        """A start of finite loss: x, else a little of what every step pays, else a program's."""
        j, lower, upper, chosen = self.journeys, problem.lower, problem.upper, problem.chosen
        trial = np.clip(x, lower, upper)
        found = trial, self.at(trial, chosen, problem.ridge, lean=lean)
        if np.isfinite(found[1].loss) or j.discount < 1.0:
            return found
        paid = -np.sign(j.space.tables[:, j.mdp.available].mean(axis=1))

        def starts() -> Iterable[np.ndarray]:
            for size in 0.25 * 2.0 ** np.arange(8):
                yield size * paid
            world, dual = self.worlds.posed(int(chosen[0]))
            dual = dual._replace(lower=lower, upper=np.minimum(upper, LARGEST))
            begun = finite_start(world, dual, trial, self._options.tolerance)
            if begun is not None:
                for size in (1.0, 2.0, 4.0, 8.0):
                    yield size * begun[0]

        for start in starts():
            start = np.clip(start, lower, upper)
            sums = self.at(start, chosen, problem.ridge)
            if np.isfinite(sums.loss):
                return start, sums
        return found

    def steps_to(self, chosen: np.ndarray) -> int:
        """How many steps were taken on trips to these goals."""
        return int(np.isin(self.all, chosen) @ self._numbers)

    def best(self) -> Found:
        """The minimum over all goals, from one over some of them where they are many."""
        space = self.journeys.space
        known = Bounds.of(space, self._options)
        lower, upper = known.lower, known.upper
        x = np.zeros(space.size) if known.start is None else known.start
        count, model = len(self.all), None
        if count >= 2 * SOME:
            some = self.all[:: -(-count // SOME)]
            rough = self.fit(x, lower, upper, chosen=some, tolerance=ROUGH)
            x = rough.fitted.z
            if np.isfinite(rough.sums.loss):
                share = self._numbers[some].sum() / self._numbers.sum()
                model = rough.sums.curvature / share
        found = self.fit(x, lower, upper, model=model)
        if not np.isfinite(found.sums.loss):
            raise InvalidModel(NOWHERE)
        return found

    def near(self, coefficients: np.ndarray, idle: Sequence[bool] = ()) -> Found:
        """The minimum sought from these coefficients [D], without the constraints that are idle."""
        space = self.journeys.space
        known = Bounds.of(space, self._options)
        out = of_constraints(space.blocks, np.flatnonzero(idle).tolist(), space.size)
        lower, upper = np.where(out, 0.0, known.lower), np.where(out, 0.0, known.upper)
        return self.fit(coefficients * space.scales, lower, upper)

    def held(self, found: Found, which: np.ndarray, value: float) -> Found:
        """The minimum with these parameters [D] bool held at a value, sought from this one."""
        x, problem = found.fitted.z, found.fitted.problem
        lower = np.where(which, value, problem.lower)
        return self.fit(x, lower, np.where(which, value, problem.upper))

    def boundless(self, found: Found) -> bool:
        """Whether larger parameters explain the trips as well: no noise is seen."""
        x, problem, sums = found.fitted.z, found.fitted.problem, found.sums
        return is_boundless(
            lambda place: sums.loss if place is x else self.at(place, self.all).loss,
            x,
            lower=problem.lower,
            upper=problem.upper,
            curvature=sums.curvature,
            threshold=VISIBLE,
        )

    def limits(self, found: Found) -> np.ndarray:
        """[D] `lower_limits` of costs that were never incurred, and of some rewards of free sign.

        Of those that were never, or always, met where they could be.
        """
        x, problem = found.fitted.z, found.fitted.problem
        either = (self.journeys.space.signs < 0) | np.isneginf(problem.lower)

        def refitted_loss(j: int, value: float) -> float:
            return self.held(found, np.arange(len(x)) == j, value).sums.loss

        return lower_limits(
            x,
            np.diagonal(found.sums.curvature),
            either & np.where(x > 0, problem.upper >= LARGEST, np.isneginf(problem.lower)),
            loss=lambda x: self.at(x, self.all).loss,
            refitted_loss=refitted_loss,
            largest=LARGEST,
        )

    def active(self, full: Found, *, robust: bool) -> tuple[Found, Verdict]:
        """The fit with only the constraints that the trips ask for, and the verdict on all.

        Robust tests are those of the best approximation, where the model does not fit.
        """
        space, options = self.journeys.space, self._options
        if not full.fitted.converged:
            return full, Verdict.of(np.ones(space.constraints))

        def law_of(less: Found) -> ScoreLaw:
            if not robust:
                return ScoreLaw(less.sums.fisher)
            free = int(less.fitted.free.sum())
            scatter = scatter_of(self.journeys, less.sums, free, robust=True)[1]
            return ScoreLaw(less.sums.curvature, scatter)

        def as_tested(found: Found) -> BoundedFit[Found]:
            return bounded(found, found.fitted, lambda: law_of(found))

        def restricted(members: tuple[int, ...]) -> BoundedFit[Found]:
            return as_tested(
                self.held(full, of_constraints(space.blocks, members, space.size), 0.0)
            )

        return active_constraints(
            as_tested(full),
            space.constraints,
            restricted,
            level=options.level,
            steps=float(len(self.journeys.states)),
            seed=options.seed,
            given=priced(space.blocks, full.fitted.problem.lower),
            scattered=robust,
        )


class TripsProblem:
    """The likelihood of trips to some goals, as the search asks for it.

    Where `detailed`, the last evaluation, for which all second derivatives are asked, keeps the
    scores of the steps, too.
    """

    ties = None
    exact = True

    def __init__(
        self,
        likelihoods: Likelihoods,
        lower: np.ndarray,
        upper: np.ndarray,
        chosen: np.ndarray,
        ridge: float,
        *,
        detailed: bool,
    ) -> None:
        self.lower, self.upper, self.unit = lower, upper, np.ones(len(lower))
        self.chosen, self.ridge, self._likelihoods = chosen, ridge, likelihoods
        self.scale = np.full(len(lower), float(likelihoods.steps_to(chosen)))
        few = len(likelihoods.journeys.states) * len(lower) <= DETAILED
        self._detailed = detailed and few

    def at(
        self,
        z: np.ndarray,
        rows: np.ndarray,
        near: minimise.Point | None,
        precision: np.ndarray,
        *,
        lean: bool = False,
    ) -> minimise.Point:
        """The loss and its derivatives at z [1, D]; see `minimise.Problem`."""
        last = not lean and near is not None and near.detail.lean
        given = (z[0], self.chosen, self.ridge)
        return self.point(self._likelihoods.at(*given, detailed=last and self._detailed, lean=lean))

    def point(self, sums: Sums) -> minimise.Point:
        """The sums, as the search reads them."""
        finite = np.isfinite(sums.loss)
        return minimise.Point(
            loss=np.array([sums.loss]),
            gradient=sums.gradient[None],
            curvature=None if sums.lean else Matrices(sums.curvature[None]),
            error=np.array([5e-13 * (abs(sums.loss) + self.scale[0]) if finite else 0.0]),
            scale=self.scale[None],
            detail=sums,
        )


def evidence_of(likelihoods: Likelihoods, kept: Found, *, robust: bool = False) -> Evidence:
    """What the trips say about the parameters, made finite by a ridge where they are not.

    Where the model does not fit, errors are robust ones: about its best approximation.
    """
    journeys, boundless = likelihoods.journeys, likelihoods.boundless(kept)
    found, problem = kept, kept.fitted.problem
    if boundless:
        x = kept.fitted.z
        found = likelihoods.fit(x, problem.lower, problem.upper, ridge=RESCUE)
    fitted, sums, size = found.fitted, found.sums, journeys.space.size
    limits = np.full(size, np.nan) if boundless else likelihoods.limits(found)
    shut = np.isfinite(limits)
    bread = sums.curvature if robust else sums.fisher
    free = undecided(fitted, bread, fitted.free & ~shut) & ~shut
    inverse, blind = inverse_information(bread, free)
    clusters, scatter, unit, few = scatter_of(journeys, sums, int(free.sum()), robust=robust)
    many = len(journeys.origins)
    covariance = inverse if scatter is None else inverse @ scatter @ inverse
    spent, reaction = sums.spent / many, sums.reaction / many
    return Evidence(
        asked=kept.fitted,
        fitted=fitted,
        gauge=Gauge.of(journeys.space, fitted.z, spent, reaction, unbounded=shut),
        found=Errors(
            covariance, blind, unit != STEPS, scatter, clusters=clusters, unit=unit, few=few
        ),
        fisher=bread,
        outer=sums.scores.T @ sums.scores,
        free=free,
        reached=np.zeros((0, 0)),
        spent=spent,
        reaction=reaction,
        limits=limits,
        boundless=boundless,
        robust=robust,
    )
