"""How well each trajectory fits what was recovered, and how flows answer if something changes.

One pass over the steps. Every step is a look-up in tables [S, A] or [S], summed by episode, so that
millions of steps need the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solution import priced
from tacit.inverse.findings import LEVEL, Finding, Kind
from tacit.inverse.joint.flows import without
from tacit.inverse.joint.goals import planned
from tacit.inverse.joint.traveller import Choices, TripsRecovery
from tacit.inverse.joint.trips import between
from tacit.inverse.numerics import gamma_tails, normal_tail
from tacit.inverse.recovery import Recovery
from tacit.model import found as numbered
from tacit.model.mdp import MDP
from tacit.model.objective import Features, Objective
from tacit.model.transitions import read_only

# Steps looked up at a time.
BATCH = 1 << 18
# Actions whose worth differs by less, relative to the largest difference of worths, tie.
TIE = 1e-6
# Variance of a log-likelihood (squared nats) below which only rounding is left.
ROUNDING = 1e-18


@dataclass(frozen=True, eq=False, kw_only=True)
class TrajectoryFits:
    """The fit of every trajectory to a recovery, one row an episode, the worst first.

    The worst are the lowest z-scores; without noise, the smallest shares of optimal steps.

    Attributes:
        episode: [E] number of the episode in the demonstrations.
        steps: [E] its length.
        log_likelihood: [E] mean log-probability of its actions; NaN for an expert without noise.
        expected: [E] what that is on average for the recovered policy, in the same states.
        z_score: [E] how far it is above that, in standard deviations; negative is worse.
        p_value: [E] chance that the recovered policy fits this badly or worse.
        share_optimal: [E] share of steps that take a best action under the recovered objective.
        names: [E] what the episodes are called; None where they are numbered from 0.
    """

    episode: np.ndarray
    steps: np.ndarray
    log_likelihood: np.ndarray
    expected: np.ndarray
    z_score: np.ndarray
    p_value: np.ndarray
    share_optimal: np.ndarray
    names: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def noisy(self) -> bool:
        """Whether the recovered expert is noisy, so that there is a likelihood."""
        return not np.isnan(self.log_likelihood).all()

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Name -> [E], to be written as a table; episodes by their names where they have some."""
        columns = dict(vars(self))
        names = columns.pop("names")
        return columns if names is None else {**columns, "episode": names}

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What to know about the fits, as findings."""
        number, count = int(self.episode[0]), len(self)
        which = number if self.names is None else self.names[0]
        if not self.noisy:
            whole = float(self.share_optimal @ self.steps / self.steps.sum())
            text = f"{_percent(whole)} of the steps are optimal under the recovered objective."
            said = [Finding(text, number=whole)]
            if count > 1 and self.share_optimal[0] < 1.0:
                worst = _percent(self.share_optimal[0])
                text = f"Episode {which} fits worst: {worst} of its steps are."
                least = float(self.share_optimal[0])
                said.append(Finding(text, trajectory=number, number=least))
            return tuple(said)
        chance = min(1.0, count * float(self.p_value.min()))
        fit = f"{self.log_likelihood[0]:.3g} a step where {self.expected[0]:.3g} is usual"
        kind = Kind.NOTE
        if chance < LEVEL:
            kind = Kind.MISFIT
            few = int((self.p_value < LEVEL / count).sum())
            more = f", {few} trajectories in all" if few > 1 else ""
            sentence = (
                f"Episode {which} does not fit: its log-likelihood is {fit}, too low to be chance "
                f"even for the worst of {count}{more}."
            )
        elif count == 1:
            sentence = f"The trajectory fits: its log-likelihood is {fit}."
        else:
            sentence = (
                f"No trajectory fits worse than chance allows; the worst is episode {which}, its "
                f"log-likelihood {fit}."
            )
        return (Finding(sentence, kind, trajectory=number, number=chance),)


def trajectory_fits(
    recovery: Recovery, demonstrations: Demonstrations, *, mdp: MDP | None = None
) -> TrajectoryFits:
    """The `TrajectoryFits` of these demonstrations, the worst first.

    Args:
        recovery: what was recovered, from these demonstrations or from others.
        demonstrations: the trajectories to judge.
        mdp: the world. With it, every action that ties for the best counts as optimal; without it,
            only those that the recovered policy takes.
    """
    if isinstance(recovery, TripsRecovery):
        return called(trip_fits(recovery.choices(demonstrations)), demonstrations)
    policy, best = recovery.behaviour, optimal_actions(recovery, mdp)
    _check(demonstrations, recovery)
    fits = _ordered(recovery.temperature > 0, *_totals(policy, best, demonstrations))
    return called(fits, demonstrations)


def called(fits: TrajectoryFits, seen: Demonstrations) -> TrajectoryFits:
    """The fits with the names of the episodes, where they have some."""
    return fits if seen.names is None else replace(fits, names=seen.names[fits.episode])


def trip_fits(choices: Choices) -> TrajectoryFits:
    """The `TrajectoryFits` of trips, each on its way to its goal, the worst first."""
    found = _ordered(True, *_totals(choices.policy, likeliest(choices.policy), choices.steps))
    return replace(found, episode=read_only(choices.trips[found.episode]))


def _totals(policy: np.ndarray, best: np.ndarray, seen: Demonstrations) -> np.ndarray:
    """[6, E] sums over each episode: steps, and what `_tables` has."""
    tables = _tables(policy, best)
    totals = np.zeros((len(tables) + 1, seen.episodes))
    totals[0] = seen.lengths
    for episode, index in _batches(seen, policy.shape[1]):
        starts = np.flatnonzero(np.diff(episode, prepend=-1))
        for row, table in zip(totals[1:], tables, strict=True):
            row[episode[starts]] += np.add.reduceat(table[index], starts)
    return totals


def likeliest(policy: np.ndarray) -> np.ndarray:
    """[S, A] bool, the actions that no other is likelier than."""
    return policy >= (1.0 - TIE) * policy.max(axis=1, keepdims=True)


def log_policy(policy: np.ndarray) -> np.ndarray:
    """[S, A] logarithm of a policy [S, A]; what underflowed counts as the smallest number."""
    return np.log(np.maximum(policy, np.finfo(np.float64).tiny))


def optimal_actions(recovery: Recovery, mdp: MDP | None = None) -> np.ndarray:
    """[S, A] bool, the best actions under the recovered objective; with the world, all that tie."""
    solution = recovery.solution
    if recovery.temperature > 0:
        return likeliest(solution.policy)
    if mdp is None:
        return solution.policy > TIE
    worth = priced(*recovery.objective.tables(mdp), solution.multipliers)
    worth = worth + mdp.discount * mdp.expected_next(solution.values)
    worth = np.where(mdp.choices, worth, -np.inf)
    loss = worth.max(axis=1, keepdims=True) - worth
    return (loss <= TIE * max(loss[mdp.choices].max(), 1e-300)) | (solution.policy > TIE)


def _tables(policy: np.ndarray, best: np.ndarray) -> list[np.ndarray]:
    """[S * A] each: log-likelihood, its mean, variance and third moment in that state, optimal."""
    logarithm = log_policy(policy)
    mean = (policy * logarithm).sum(axis=1, keepdims=True)
    moments = [(policy * (logarithm - mean) ** n).sum(axis=1, keepdims=True) for n in (2, 3)]
    tables = (logarithm, mean, *moments, best.astype(np.float64))
    return [np.broadcast_to(table, policy.shape).ravel() for table in tables]


def _ordered(noisy: bool, *totals: np.ndarray) -> TrajectoryFits:
    """The fits from sums over each episode, the worst first."""
    number = np.flatnonzero(totals[0])  # an episode without a step has no fit
    steps, likelihood, mean, variance, third, optimal = (total[number] for total in totals)
    z_score, p_value = _unusual(likelihood - mean, variance, third)
    share = optimal / steps
    # The longer of two equally bad ones says more.
    order = np.lexsort((-steps, likelihood / steps, z_score) if noisy else (-steps, share))
    nothing = np.full(len(steps), np.nan)
    columns = [number, steps.astype(np.int64)]
    columns += [likelihood / steps, mean / steps, z_score, p_value] if noisy else [nothing] * 4
    found = zip(fields(TrajectoryFits), [*columns, share], strict=False)  # no names yet
    return TrajectoryFits(**{one.name: read_only(column[order]) for one, column in found})


def _unusual(
    excess: np.ndarray, variance: np.ndarray, third: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """[E] z-scores and [E] lower tail chances of sums with these central moments.

    A log-likelihood is skewed, so that the normal law would call short trajectories unusual too
    often: the tail is that of a shifted gamma law with the same first three moments.
    """
    certain = variance <= ROUNDING
    spread = np.sqrt(np.where(certain, 1.0, variance))
    score = np.where(certain, 0.0, excess / spread)
    skew = np.where(certain, 0.0, third / spread**3)
    normal = np.abs(skew) < 1e-3
    shape = 4.0 / np.where(normal, 1.0, skew) ** 2
    at = np.maximum(shape + np.sign(skew) * np.sqrt(shape) * score, 0.0)
    below, above = gamma_tails(shape, at)
    tail = np.where(skew < 0, above, below)
    tail = np.where(normal, normal_tail(-score), tail)
    # Where every action was certain, another one is out of the question.
    wrong = certain & (excess < -1e-9)
    return np.where(wrong, -np.inf, score), np.where(certain, np.where(wrong, 0.0, 1.0), tail)


def _batches(seen: Demonstrations, actions: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Episode and s * A + a of the steps, in batches: never a column for all of them."""
    for low in range(0, seen.steps, BATCH):
        high = min(low + BATCH, seen.steps)
        first = int(np.searchsorted(seen.offsets, low, side="right")) - 1
        last = int(np.searchsorted(seen.offsets, high, side="left"))
        lengths = np.diff(np.clip(seen.offsets[first : last + 1], low, high))
        index = seen.states[low:high].astype(np.int64) * actions + seen.actions[low:high]
        yield np.repeat(np.arange(first, last), lengths), index


def _check(seen: Demonstrations, recovery: Recovery) -> None:
    """Raises unless every step exists in the recovered world."""
    counts = recovery.solution.policy.shape
    for name, column, count in zip(
        ("state", "action"), (seen.states, seen.actions), counts, strict=True
    ):
        if seen.steps and (column.min() < 0 or column.max() >= count):
            row = int(np.argmax((column < 0) | (column >= count)))
            episode = int(np.searchsorted(seen.offsets, row, side="right")) - 1
            raise InvalidDemonstrations(
                f"every {name} must be in 0..{count - 1}, as in the recovery; "
                f"episode {episode} has {column[row]}"
            )


def _percent(share: float) -> str:
    """A share in words that never round an exception away."""
    if share == 1.0:
        return "All"
    return "None" if share == 0.0 else f"{min(max(share, 0.001), 0.999):.1%}"


# Relative change by which elasticities are taken: its square is far below what anybody prints.
CHANGE = 1e-4
# Origins and goals of trips, one each a trip; empty for one task.
Ends = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Response:
    """What the demonstrator is expected to do after a change.

    Attributes:
        before: [S, A] expected uses of every pair: by all trips; discounted, of one task.
        flows: [S, A] the same after the change, by those trips that still have a way.
        worth: mean change of what a trip that still has a way, or the task, is worth, in units of
            the noise: divided by the coefficient of time it is time, and so for money.
        lost: trips that have no way to their goal any more.
    """

    before: np.ndarray
    flows: np.ndarray
    worth: float
    lost: int

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What came out, as findings."""
        said = f"It changes what a trip is worth by {self.worth:.4g} times the noise, on average."
        found = (Finding(said, number=self.worth),)
        text = f"{self.lost} trips have no way to their goal any more: they are left out."
        lost = Finding(text, Kind.UNATTAINABLE, number=self.lost)
        return (*found, lost) if self.lost else found


def reroute(
    recovery: Recovery,
    *,
    closed: npt.ArrayLike = (),
    mdp: MDP | None = None,
    features: Features | None = None,
) -> Response:
    """The `Response` to actions that are closed, or to other features.

    Args:
        recovery: of trips, whose origins and goals stay as they are, or of one task.
        closed: [n] states that nobody may enter, or [n, 2] pairs of state and action.
        mdp: the world of one task; of trips, their network after the change.
        features: of trips, as they are after the change; of one task, as they are.
    """
    network, own = _task(recovery, mdp, features)
    before, value, _, _ = _expected(recovery, network, own)
    base = network if mdp is None else mdp
    changed = without(base, np.asarray(closed))
    after, worth, lost, ends = _expected(recovery, changed, own if features is None else features)
    if lost:  # of the same trips before and after
        value = _expected(recovery, network, own, ends)[1]
    return Response(before=before, flows=after, worth=worth - value, lost=lost)


def elasticities(
    recovery: Recovery,
    feature: int | str,
    *,
    where: npt.ArrayLike | None = None,
    mdp: MDP | None = None,
    features: Features | None = None,
) -> np.ndarray:
    """[S, A] by how many per cent each flow changes if a feature grows by one per cent; NaN at 0.

    Args:
        recovery: of trips, or of one task.
        feature: its coefficient, by number or name.
        where: [S, A] or [S] bool, where it grows; None for everywhere.
        mdp: the world of one task; trips have their network.
        features: of one task; trips have theirs.
    """
    network, own = _task(recovery, mdp, features)
    names = recovery.parameters.names
    place = numbered(feature, len(names), names, "coefficient")
    mask = np.ones((network.states, 1)) if where is None else np.asarray(where, float)
    mask = mask.reshape(network.states, -1)

    def flows(factor: float) -> np.ndarray:
        tables, at = [], place
        for table in (own.reward, *own.costs):
            full = np.repeat(table[:, None], network.actions, axis=1) if table.ndim == 2 else +table
            if 0 <= at < full.shape[2]:
                full[..., at] *= 1.0 + factor * mask
            tables.append(full)
            at -= full.shape[2]
        scaled = Features(tables[0], tables[1:], own.reward_names, own.cost_names)
        return _expected(recovery, network, scaled)[0]

    up, down = flows(CHANGE), flows(-CHANGE)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(up > 0, (np.log(up) - np.log(down)) / (2.0 * CHANGE), np.nan)


def _task(recovery: Recovery, mdp: MDP | None, features: Features | None) -> tuple[MDP, Features]:
    """The world and the features that it was recovered from."""
    if isinstance(recovery, TripsRecovery):
        return recovery.network, recovery.features
    if mdp is None or features is None:
        raise InvalidModel("the recovery of one task must be given its mdp and features; got none")
    return mdp, features


def _expected(
    recovery: Recovery, network: MDP, features: Features, ends: Ends = ()
) -> tuple[np.ndarray, float, int, Ends]:
    """[S, A] expected uses as recovered, mean worth, trips without way, origins and goals with."""
    points = np.nan_to_num(recovery.parameters.estimates)
    if isinstance(recovery, TripsRecovery):
        ended = recovery.destinations >= 0
        ends = ends or (recovery.origins[ended], recovery.destinations[ended])
        journeys, lost = between(network, features, recovery.discount, *ends)
        flows, worth = planned(journeys, points * journeys.space.scales)
        if np.isinf(worth):
            raise InvalidModel("trips have no finite value after this change: circles pay")
        kept = journeys.origins, np.repeat(journeys.goals, np.diff(journeys.begins))
        return flows, worth / len(journeys.origins), lost, kept
    sizes = [len(names) for names in (features.reward_names, *features.cost_names)]
    first, *rest = np.split(points, np.cumsum(sizes)[:-1])
    charged = features.objective(first, rest, np.zeros(len(rest)))
    reward, costs = charged.tables_of(network.states, network.actions)
    found = SoftDual(1.0).solve(network, Objective(reward - costs.sum(axis=0)))
    return found.visitation, float(network.initial @ found.values), 0, ends
