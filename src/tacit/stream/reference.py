"""The reference of a watch: a confidence set of the demonstrator, and alternatives to it.

The set is the ellipsoid {theta : (theta - centre)' information (theta - centre) <= radius} within
the bounds; on a bound its centre is where the likelihood would be largest without it. The evidence
for a change is the likelihood of steps under alternatives over their largest one within the set.
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

# Factors by which a price or the noise is changed in alternatives.
FACTORS = (0.25, 0.5, 0.71, 1.41, 2.0, 4.0)
# Changes of a single coefficient in alternatives, in units of its own size.
MOVES = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
# Pseudo-counts, a state, of the Dirichlet laws for a change outside the model.
CONCENTRATIONS = (3.0, 30.0)
# Multipliers tried of the set's bound, in the search for the likeliest demonstrator within it.
PULLS = np.concatenate([[0.0], np.geomspace(1e-4, 1e6, 31)])
# Most fits in the search for the pull under which the likeliest demonstrator is on the edge.
MOST_FITS = 6
# Share of the radius from which on a demonstrator counts as on the edge.
AT_EDGE = 0.98
# Most numbers that the policies of all alternatives may take.
MOST_ENTRIES = 2**27
# Chance below which an action counts as never taken.
NEVER = 1e-300
# Name of a change outside the model.
OUTSIDE = "the fit"


@dataclass(frozen=True, eq=False)
class Reference:
    """A confidence set of a fitted demonstrator, and alternatives to it.

    Attributes:
        problem: the likelihood and its bounds, in scaled coordinates.
        part: its chain at the estimate.
        estimate: [D] coefficients, scaled.
        centre: [D] of the set.
        information: [D, D] that shapes the set.
        radius: of the set, squared, in units of that information.
        names: what may have changed; the last is a change outside the model.
        name_numbers: [M] number of the name of each alternative.
        shares: [names] prior probability of each change; their sum is 1.
        log_policies: [M, S, A] of the alternatives.
    """

    problem: LikelihoodProblem
    part: Any
    _: KW_ONLY
    estimate: np.ndarray
    centre: np.ndarray
    information: np.ndarray
    radius: float
    names: tuple[str, ...]
    name_numbers: np.ndarray
    shares: np.ndarray
    log_policies: np.ndarray

    @classmethod
    def of(cls, recovery: Recovery, *, confidence: float) -> Reference:
        """The reference that a recovery by `Likelihood` makes."""
        problem = problem_of(recovery)
        _check_recovery(recovery)
        chain, tolerance = problem.chains[0], origin_of(recovery).estimator.tolerance
        estimate = np.clip(
            recovery.parameters.tested * chain.space.scales, problem.lower, problem.upper
        )
        changes = list(alternatives(chain.space, estimate, problem))
        _check_size(chain, sum(len(places) for _, places in changes))
        part = chain.at(estimate, chain.blank(estimate), tolerance)
        free = problem.movable
        fisher = information(chain.scores(part), part.policy, chain.visits)
        inverse, blind = inverse_information(fisher, free)
        gradient = np.where(free, np.asarray(part.gradient), 0.0)
        fisher_errors = row_errors(np.diag(1.0 / chain.space.scales), inverse, blind)
        names, name_numbers, log_policies = [], [], []
        for name, places in changes:
            tables = [log_policy_at(chain, x, part, tolerance) for x in places]
            tables = [table for table in tables if table is not None]
            if tables:
                name_numbers += [len(names)] * len(tables)
                names.append(name)
                log_policies += tables
        return cls(
            problem,
            part,
            estimate=estimate,
            centre=estimate - inverse @ gradient,
            information=np.where(np.outer(free, free), fisher, 0.0),
            radius=_radius(recovery, fisher_errors, int(free.sum()) - len(blind), confidence),
            names=(*names, OUTSIDE),
            name_numbers=np.array(name_numbers, int),
            shares=_shares([*names, OUTSIDE], chain.space),
            log_policies=np.array(log_policies).reshape(-1, *part.policy.shape),
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
        fisher = information(self.scores, self.part.policy, counts.sum(axis=1))
        return np.concatenate(
            [
                [(counts * self.log_policy).sum()],
                self.log_policies.reshape(len(self.name_numbers), -1) @ counts.ravel(),
                self.scores.reshape(len(self.scores), -1) @ counts.ravel(),
                fisher.ravel(),
            ]
        )

    def _split(self, sums: np.ndarray) -> list[np.ndarray]:
        """[J, 1], [J, M], [J, D], [J, D * D] the four parts of sums [J, ...]."""
        alternatives, size = len(self.name_numbers), len(self.estimate)
        return np.split(sums, [1, 1 + alternatives, 1 + alternatives + size], axis=1)

    def gains(self, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """[J, names] log-likelihoods under each change, less those at the estimate.

        Of sums [J, ...] of steps [J, S, A]. The alternatives of one name are mixed in equal shares.
        """
        at_estimate, at_alternatives, _, _ = self._split(sums)
        ratios = at_alternatives - at_estimate
        gains = np.full((len(sums), len(self.names)), -np.inf)
        for number in range(len(self.names) - 1):
            of_name = ratios[:, self.name_numbers == number]
            gains[:, number] = np.logaddexp.reduce(of_name, axis=1) - np.log(of_name.shape[1])
        gains[:, -1] = self._outside(counts) - at_estimate[:, 0]
        return gains

    def _outside(self, counts: np.ndarray) -> np.ndarray:
        """[J] log-likelihood of steps [J, S, A] under a change outside the model.

        Every state has action chances of its own, drawn from a Dirichlet law about the estimate:
        the marginal likelihood is the product of the law's predictions, step by step.
        """
        visits = counts.sum(axis=2)
        by_concentration = []
        for concentration in CONCENTRATIONS:
            prior = concentration * np.maximum(self.part.policy, NEVER)
            total = prior.sum(axis=1)
            of_actions = np.where(counts > 0, gammaln(prior + counts) - gammaln(prior), 0.0)
            of_states = gammaln(total + visits) - gammaln(total)
            by_concentration.append(of_actions.sum(axis=(1, 2)) - of_states.sum(axis=1))
        return np.logaddexp.reduce(by_concentration, axis=0) - np.log(len(CONCENTRATIONS))

    def largest_near(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """([J] largest log-likelihood in the set over that of the estimate, [J] pull at its edge).

        To second order about the estimate. Weak duality: for every pull m >= 0,
        max over d of d . score - d' fisher d / 2 + m (radius - |d - offset|^2) / 2 is an upper
        bound, with the norm of the set's information; the smallest bound is taken.
        """
        size = len(self.estimate)
        _, _, scores, fishers = self._split(sums)
        shape, offset = self.information, self.centre - self.estimate
        ridge = 1e-12 * max(float(np.diagonal(shape).max(initial=0.0)), 1.0) * np.eye(size)
        pulls = PULLS[:, None, None]
        slopes = scores + pulls * (shape @ offset)
        curvatures = fishers.reshape(-1, size, size) + pulls[..., None] * shape + ridge
        steps = np.linalg.solve(curvatures, slopes[..., None])[..., 0]
        constants = PULLS[:, None] * (self.radius - offset @ shape @ offset)
        bounds = 0.5 * ((slopes * steps).sum(axis=-1) + constants)
        best = bounds.argmin(axis=0)
        return bounds[best, np.arange(len(sums))], PULLS[best]

    def largest(self, counts: np.ndarray, pull: float) -> float:
        """An upper bound on the log-likelihood of steps [S, A] within the set.

        By weak duality the likeliest demonstrator with ANY pull towards the centre bounds it; that
        under which it lies on the edge of the set is tight.
        """
        low, high, best = 0.0, np.inf, np.inf
        for _ in range(MOST_FITS):
            bound, distance = self._dual_bound(counts, pull)
            best = min(best, bound)
            if distance > self.radius:
                low = pull
                pull = 2.0 * pull + 1e-6 if np.isinf(high) else 0.5 * (low + high)
                continue
            if pull == 0.0 or distance > AT_EDGE * self.radius:
                break
            high = pull
            pull = 0.5 * (low + high) if pull > 1e-6 else 0.0
        return best

    def _dual_bound(self, counts: np.ndarray, pull: float) -> tuple[float, float]:
        """(bound, squared distance from the centre) of the likeliest demonstrator at this pull.

        The bound is max over theta of log-likelihood + pull (radius - |theta - centre|^2) / 2.
        """
        from scipy.sparse import csr_array

        chain, matrix = self.chain, pull * self.information
        penalty = csr_array(matrix) if pull else None
        steps = StepsChain.counted(chain.mdp, chain.space, counts, penalty=penalty)
        tilt = -(matrix @ self.centre) if pull else None
        problem = replace(self.problem, chains=(steps,), tilt=tilt)
        fit = problem.minimum(self.estimate, [self.part], tolerance=1e-9, max_steps=100)
        offset = fit.z - self.centre
        distance = float(offset @ self.information @ offset)
        norm = float(self.centre @ self.information @ self.centre)
        return 0.5 * pull * (self.radius - norm) - fit.loss, distance


def alternatives(
    space: Design, estimate: np.ndarray, problem: LikelihoodProblem
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """(What may have changed, [D] coefficients after such changes), from an estimate [D]."""
    lower, upper, free = problem.lower, problem.upper, problem.movable

    def within(places: list[np.ndarray]) -> list[np.ndarray]:
        """Places within the bounds, less those that are the estimate."""
        inside = [np.where(free, np.clip(x, lower, upper), estimate) for x in places]
        return [x for x in inside if np.abs(x - estimate).max() > 1e-6]

    def in_block(block: slice) -> np.ndarray:
        return np.isin(numbers, numbers[block])

    def changed_weights(block: slice) -> Iterator[tuple[str, list[np.ndarray]]]:
        for j in numbers[block]:
            unit = max(abs(float(estimate[j])), size) * (numbers == j)
            places = [estimate + move * unit for move in MOVES]
            yield f"the weight of {space.names[j]}", within(places)

    numbers = np.arange(len(estimate))
    size = max(float(np.abs(estimate).mean()), 1e-3)
    reward, *costs = space.blocks
    yield "the noise", within([estimate * factor for factor in FACTORS])
    if len(estimate[reward]) > 1:
        total = max(float(np.abs(estimate[reward]).sum()), size)
        inside = in_block(reward)
        only_one = [np.where(inside, total * (numbers == j), estimate) for j in numbers[reward]]
        all_equal = np.where(inside, total / inside.sum(), estimate)
        yield "the reward", within([*only_one, all_equal])
    yield from changed_weights(reward)
    for number, block in enumerate(costs):
        inside = in_block(block)
        base = estimate if estimate[block].any() else np.where(inside, size, estimate)
        places = [np.where(inside, base * factor, estimate) for factor in (*FACTORS, 1.0, 0.0)]
        yield f"the price of constraint {number}", within(places)
        if inside.sum() > 1:  # the weight of a single feature is the price
            yield from changed_weights(block)


def log_policy_at(
    chain: StepsChain, x: np.ndarray, near: Any, tolerance: float
) -> np.ndarray | None:
    """[S, A] log chances of actions at x [D]; None where values are finite for no policy."""
    part = chain.at(x, near, tolerance)
    if not np.isfinite(part.loss) or chain.unsettled(part):
        return None
    return _log(part.policy)


def _log(policy: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(policy, NEVER))


def _check_recovery(recovery: Recovery) -> None:
    """Raises `InvalidModel` unless a recovery has steps, and errors of its coefficients."""
    if not recovery.observed_steps:
        raise InvalidModel("the reference of a watch must rest on steps; it has none")
    if recovery.parameters.absence:
        raise InvalidModel(
            "the reference of a watch must know how far to trust its coefficients: "
            f"{recovery.parameters.absence}"
        )


def _check_size(chain: StepsChain, alternatives: int) -> None:
    """Raises `InvalidModel` where the policies of all alternatives are too large to be kept."""
    if chain.by_products or alternatives * chain.counts.size > MOST_ENTRIES:
        raise InvalidModel(
            f"a watch keeps the chances of every action under {alternatives} alternatives, at most "
            f"{MOST_ENTRIES} numbers; {chain.space.size} features in {len(chain.counts)} states "
            "are too many"
        )


def _shares(names: list[str], space: Design) -> np.ndarray:
    """[names] prior probabilities of changes: alike, but one for all weights of a map together."""
    weight_shares = {
        f"the weight of {name}": 1.0 / len(space.names[block])
        for block in space.blocks
        for name in space.names[block]
    }
    shares = np.array([weight_shares.get(name, 1.0) for name in names])
    return shares / shares.sum()


def _radius(
    recovery: Recovery, fisher_errors: np.ndarray, degrees: int, confidence: float
) -> float:
    """The squared radius of the set: a chi-square quantile, times a squared error ratio.

    The ratio is the largest of the recovery's standard errors, clustered ones say, over Fisher's.
    """
    from scipy.stats import chi2

    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = recovery.parameters.standard_errors / fisher_errors
    ratio = max(1.0, float(ratios[np.isfinite(ratios)].max(initial=1.0)))
    return ratio**2 * float(chi2.ppf(confidence, max(degrees, 1)))
