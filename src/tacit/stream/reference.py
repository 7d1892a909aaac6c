"""What was known of a demonstrator before a stream began: a confidence set, and what may change.

The set is the ellipsoid {theta : (theta - centre)' information (theta - centre) <= radius} within
the bounds; on a bound its centre is where the likelihood would be largest without it. Steps speak
for a change by their likelihood under something else over their largest one within the set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from tacit.errors import InvalidModel
from tacit.inference.information import row_errors
from tacit.inference.parameters import inverse_information
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.steps import StepsChain, information
from tacit.model.features.design import Design
from tacit.stream.updating import origin_of, problem_of

if TYPE_CHECKING:
    from tacit.recovery import Recovery

# By what sizes and the noise may have changed.
FACTORS = (0.25, 0.5, 0.71, 1.41, 2.0, 4.0)
# By how many of its own sizes a single coefficient may have moved.
MOVES = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
# Steps that what was known of a state's actions counts as, against a change outside the model.
BELIEFS = (3.0, 30.0)
# Weights of the set's bound in the search for the likeliest demonstrator within it.
PULLS = np.concatenate([[0.0], np.geomspace(1e-4, 1e6, 31)])
# Searches for the pull under which the likeliest demonstrator is on the edge of the set.
SEARCHES = 6
# Most numbers that the chances under all alternatives may take.
ENTRIES = 2**27
# Chance below which an action counts as never taken.
NEVER = 1e-300
OUTSIDE = "the fit"


@dataclass(frozen=True, eq=False)
class Reference:
    """A confidence set of a fitted demonstrator, and what may have changed.

    Attributes:
        problem: the likelihood and its bounds, in scaled coordinates.
        part: its chain at the estimate.
        place: [D] the estimate.
        centre: [D] of the set.
        information: [D, D] that shapes it.
        radius: squared, in units of that information.
        names: what may have changed; the last is the fit itself, in a way outside the model.
        owners: [M] number of the name that each alternative is of.
        shares: [names] of the run length that false alarms for each may take.
        log_policies: [M, S, A] of the alternatives.
    """

    problem: LikelihoodProblem
    part: Any
    _: KW_ONLY
    place: np.ndarray
    centre: np.ndarray
    information: np.ndarray
    radius: float
    names: tuple[str, ...]
    owners: np.ndarray
    shares: np.ndarray
    log_policies: np.ndarray

    @classmethod
    def of(cls, recovery: Recovery, *, confidence: float) -> Reference:
        """What a recovery by `Likelihood` knows."""
        origin = origin_of(recovery)
        problem = problem_of(recovery)
        if not recovery.observed_steps:
            raise InvalidModel("the reference of a watch must rest on steps; it has none")
        if recovery.parameters.absence:
            raise InvalidModel(
                "the reference of a watch must know how far to trust its coefficients: "
                f"{recovery.parameters.absence}"
            )
        chain, precision = problem.chains[0], origin.estimator.tolerance
        space = chain.space
        place = np.clip(recovery.parameters.tested * space.scales, problem.lower, problem.upper)
        changes = list(alternatives(space, place, problem))
        _check_size(chain, sum(len(places) for _, places in changes))
        part = chain.at(place, chain.blank(place), precision)
        shape = information(chain.scores(part), part.policy, chain.visits)
        moving = problem.movable
        inverse, blind = inverse_information(shape, moving)
        gradient = np.where(moving, np.asarray(part.gradient), 0.0)
        fisher = row_errors(np.diag(1.0 / space.scales), inverse, blind)
        names, owners, tables = [], [], []
        for name, places in changes:
            found = [log_policy_at(chain, x, part, precision) for x in places]
            found = [table for table in found if table is not None]
            if found:
                owners += [len(names)] * len(found)
                names.append(name)
                tables += found
        return cls(
            problem,
            part,
            place=place,
            centre=place - inverse @ gradient,
            information=np.where(np.outer(moving, moving), shape, 0.0),
            radius=_radius(recovery, fisher, int(moving.sum()) - len(blind), confidence),
            names=(*names, OUTSIDE),
            owners=np.array(owners, int),
            shares=_shares([*names, OUTSIDE], space),
            log_policies=np.array(tables).reshape(-1, *part.policy.shape),
        )

    @property
    def chain(self) -> StepsChain:
        """The likelihood of what the reference was fitted to."""
        return self.problem.chains[0]

    @cached_property
    def log_policy(self) -> np.ndarray:
        """[S, A] of the estimate."""
        return _log(self.part.policy)

    @cached_property
    def scores(self) -> np.ndarray:
        """[D, S, A] of one step, at the estimate."""
        return self.chain.scores(self.part)

    def sums(self, counts: np.ndarray) -> np.ndarray:
        """[1 + M + D + D * D] what steps [S, A] add up to: all that screening asks for.

        Their log-likelihoods at the estimate and at the alternatives, scores and information.
        """
        own = information(self.scores, self.part.policy, counts.sum(axis=1))
        return np.concatenate(
            [
                [(counts * self.log_policy).sum()],
                self.log_policies.reshape(len(self.owners), -1) @ counts.ravel(),
                self.scores.reshape(len(self.scores), -1) @ counts.ravel(),
                own.ravel(),
            ]
        )

    def gains(self, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """[J, names] log-likelihoods of what may have changed over that of the estimate.

        Of sums [J, ...] of steps [J, S, A]; those of one name in equal shares.
        """
        own, size = sums[:, :1], len(self.owners)
        each = sums[:, 1 : 1 + size] - own
        found = np.full((len(sums), len(self.names)), -np.inf)
        for number in range(len(self.names) - 1):
            among = each[:, self.owners == number]
            found[:, number] = np.logaddexp.reduce(among, axis=1) - np.log(among.shape[1])
        found[:, -1] = self._outside(counts) - own[:, 0]
        return found

    def _outside(self, counts: np.ndarray) -> np.ndarray:
        """[J] log-likelihood of steps [J, S, A] if every state had chances of its own.

        A Dirichlet law about the estimate in every state: the product of its predictions.
        """
        visits, found = counts.sum(axis=2), []
        for belief in BELIEFS:
            prior = belief * np.maximum(self.part.policy, NEVER)
            rise = gammaln(prior + counts) - gammaln(prior)
            whole = prior.sum(axis=1)
            fall = gammaln(whole + visits) - gammaln(whole)
            found.append(np.where(counts > 0, rise, 0.0).sum(axis=(1, 2)) - fall.sum(axis=1))
        return np.logaddexp.reduce(found, axis=0) - np.log(len(BELIEFS))

    def largest_near(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """([J] largest log-likelihood in the set over that of the estimate, [J] pull at its edge).

        To second order about the estimate; by weak duality every pull gives an upper bound.
        """
        size, first = len(self.place), 1 + len(self.owners)
        scores = sums[:, first : first + size]
        own = sums[:, first + size :].reshape(-1, size, size)
        shape, offset = self.information, self.centre - self.place
        ridge = 1e-12 * max(float(np.diagonal(shape).max(initial=0.0)), 1.0) * np.eye(size)
        pulls = PULLS[:, None, None, None]
        slope = scores + pulls[..., 0] * (shape @ offset)
        step = np.linalg.solve(own + pulls * shape + ridge, slope[..., None])[..., 0]
        rest = PULLS[:, None] * (self.radius - offset @ shape @ offset)
        bounds = 0.5 * ((slope * step).sum(axis=-1) + rest)
        best = bounds.argmin(axis=0)
        return bounds[best, np.arange(len(sums))], PULLS[best]

    def largest(self, counts: np.ndarray, pull: float) -> float:
        """An upper bound on the log-likelihood of steps [S, A] within the set.

        By weak duality the likeliest demonstrator with ANY pull towards the centre bounds it; that
        under which it lies on the edge of the set is tight.
        """
        low, high, best = 0.0, np.inf, np.inf
        for _ in range(SEARCHES):
            bound, distance = self._pulled(counts, pull)
            best = min(best, bound)
            if distance > self.radius:
                low = pull
                pull = 2.0 * pull + 1e-6 if np.isinf(high) else 0.5 * (low + high)
                continue
            if pull == 0.0 or distance > 0.98 * self.radius:
                break
            high = pull
            pull = 0.5 * (low + high) if pull > 1e-6 else 0.0
        return best

    def _pulled(self, counts: np.ndarray, pull: float) -> tuple[float, float]:
        """(bound, squared distance from the centre) of the likeliest with this pull."""
        from scipy.sparse import csr_array

        chain, matrix = self.chain, pull * self.information
        penalty = csr_array(matrix) if pull else None
        steps = StepsChain.counted(chain.mdp, chain.space, counts, penalty=penalty)
        tilt = -(matrix @ self.centre)
        problem = replace(self.problem, chains=(steps,), tilt=tilt if pull else None)
        fit = problem.minimum(self.place, [self.part], tolerance=1e-9, max_steps=100)
        away = fit.z - self.centre
        distance = float(away @ self.information @ away)
        rest = 0.5 * pull * (self.radius - float(self.centre @ self.information @ self.centre))
        return rest - fit.loss, distance


def alternatives(
    space: Design, place: np.ndarray, problem: LikelihoodProblem
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """(What may have changed, [D] places where it has), from one place [D] within the bounds."""
    lower, upper, moving = problem.lower, problem.upper, problem.movable

    def within(places: list[np.ndarray]) -> list[np.ndarray]:
        inside = [np.where(moving, np.clip(x, lower, upper), place) for x in places]
        return [x for x in inside if np.abs(x - place).max() > 1e-6]

    yield "the noise", within([place * factor for factor in FACTORS])
    size = max(float(np.abs(place).mean()), 1e-3)
    for number, block in enumerate(space.blocks):
        own = np.zeros(len(place), bool)
        own[block] = True
        if number:
            start = place if place[own].any() else np.where(own, size, place)
            sized = [np.where(own, start * factor, place) for factor in (*FACTORS, 1.0, 0.0)]
            yield f"the price of constraint {number - 1}", within(sized)
        members = np.flatnonzero(own)
        if not number and len(members) > 1:
            total = max(float(np.abs(place[own]).sum()), size)
            lone = [np.where(own, total * (np.arange(len(place)) == j), place) for j in members]
            yield "the reward", within([*lone, np.where(own, total / len(members), place)])
        if number and len(members) == 1:
            continue  # its weight is the price
        for j in members:
            unit = max(abs(float(place[j])), size) * (np.arange(len(place)) == j)
            yield f"the weight of {space.names[j]}", within([place + m * unit for m in MOVES])


def log_policy_at(
    chain: StepsChain, x: np.ndarray, near: Any, precision: float
) -> np.ndarray | None:
    """[S, A] at x [D]; None where values are finite for no policy."""
    found = chain.at(x, near, precision)
    if not np.isfinite(found.loss) or chain.unsettled(found):
        return None
    return _log(found.policy)


def _log(policy: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(policy, NEVER))


def _check_size(chain: StepsChain, alternatives: int) -> None:
    """Raises `InvalidModel` where the chances of all alternatives are too many to be kept."""
    entries = alternatives * chain.counts.size
    if chain.by_products or entries > ENTRIES:
        raise InvalidModel(
            f"a watch keeps the chances of every action under {alternatives} alternatives, at most "
            f"{ENTRIES} numbers; {chain.space.size} features in {len(chain.counts)} states are too "
            "many"
        )


def _shares(names: list[str], space: Design) -> np.ndarray:
    """[names] one each, which all weights of a map have together; their sum is 1."""
    sizes = [block.stop - block.start for block in space.blocks]
    single = {
        f"the weight of {space.names[j]}": 1.0 / size
        for block, size in zip(space.blocks, sizes, strict=True)
        for j in range(block.start, block.stop)
    }
    shares = np.array([single.get(name, 1.0) for name in names])
    return shares / shares.sum()


def _radius(recovery: Recovery, fisher: np.ndarray, degrees: int, confidence: float) -> float:
    """Squared, of the set: a chi-square quantile, and by how much errors are above Fisher's."""
    from scipy.stats import chi2

    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = recovery.parameters.standard_errors / fisher
    known = ratios[np.isfinite(ratios)]
    stretch = max(1.0, float(known.max(initial=1.0)))
    return stretch**2 * float(chi2.ppf(confidence, max(degrees, 1)))
