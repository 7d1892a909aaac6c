"""Predictions: the chances of actions, with intervals from the law of the coefficients.

The derivative of the logarithm of a chance is the score of a step, so that nothing is fitted again.
Intervals are made of log-odds and stay between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tacit.errors import InvalidModel
from tacit.files.columns import frame_of
from tacit.files.wording import some
from tacit.inference.fitted_law import FittedLaw, Spread, straightened
from tacit.inference.parameters import Parameters
from tacit.inference.quantities import Quantity, quantity_of
from tacit.inference.tails import TWO_SIDED
from tacit.likelihood.steps import StepsChain
from tacit.model.arguments import read_only
from tacit.model.features.design import Design
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.inference.origin import Origin
    from tacit.inference.sets import Lapses
    from tacit.recovery import Recovery

# Draws of the coefficients, with a solution each, where the log-odds bend within their errors.
DRAWS = 400
# Tolerance of the values that are solved for.
PRECISION = 1e-9
# Smallest chance that has log-odds.
LEAST = 1e-300


class ChoiceModel(Protocol):
    """What a demonstrator may choose at some places, and how its chances follow coefficients."""

    @property
    def labels(self) -> Mapping[str, np.ndarray]:
        """Name -> [n] what tells the places apart, such as "state" and "goal"."""
        ...

    @property
    def available(self) -> np.ndarray:
        """[n, A] bool, the actions there are."""
        ...

    @property
    def shared(self) -> np.ndarray:
        """[P, r] covariance of the coefficients with r standard normal numbers that follow them.

        Errors of what is known of the world are such numbers; of one that is known there are none.
        """
        ...

    def scored(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[n, A] chances at coefficients [P], and [P, n, A] derivatives of their logarithms."""
        ...


class KnownWorld:
    """Choices in a world that is known: chances follow the coefficients alone."""

    @property
    def shared(self) -> np.ndarray:
        """[1, 0]: no number follows the coefficients."""
        return np.zeros((1, 0))


@dataclass(frozen=True, eq=False)
class StateChoices(KnownWorld):
    """Choices in the states of a world.

    Attributes:
        world: where.
        features: what reward and costs are made of.
        states: [n] numbers of states.
    """

    world: MDP
    features: Features
    states: np.ndarray

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """The states."""
        return {"state": self.states}

    @property
    def available(self) -> np.ndarray:
        """[n, A] bool, the actions there are."""
        return self.world.available[self.states]

    def scored(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[n, A] chances at coefficients [P], and [P, n, A] derivatives of their logarithms."""
        chain = chain_of(self.world, self.features)
        x = coefficients * chain.space.scales
        point = chain.at(x, chain.blank(x), PRECISION)
        if not np.isfinite(point.loss):
            raise InvalidModel("the world has no finite values at these coefficients")
        scores = chain.scores(point)[:, self.states]
        return np.asarray(point.policy)[self.states], scores * chain.space.scales[:, None, None]


def chain_of(world: MDP, features: Features) -> StepsChain:
    """The chain of a world in which nothing was seen yet."""
    return StepsChain.counted(world, Design.of(world, features), np.zeros(world.available.shape))


@dataclass(frozen=True, eq=False)
class LapsingChoices:
    """Choices of which a share is random; the share comes after the coefficients.

    Attributes:
        meant: the choices that are meant.
    """

    meant: ChoiceModel

    @property
    def labels(self) -> Mapping[str, np.ndarray]:
        """Those of the choices that are meant."""
        return self.meant.labels

    @property
    def available(self) -> np.ndarray:
        """[n, A] bool, the actions there are."""
        return self.meant.available

    @property
    def shared(self) -> np.ndarray:
        """That of the choices that are meant."""
        return self.meant.shared

    def scored(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[n, A] chances at coefficients [P], and [P, n, A] derivatives of their logarithms."""
        *own, share = coefficients
        chances, scores = self.meant.scored(np.array(own))
        random = self.available / self.available.sum(axis=1, keepdims=True)
        mixed = (1.0 - share) * chances + share * random
        safe = np.maximum(mixed, LEAST)
        turned = scores * ((1.0 - share) * chances / safe)
        return mixed, np.concatenate([turned, ((random - chances) / safe)[None]])


@dataclass(frozen=True, eq=False)
class Prediction:
    """The chances of actions at some places, and how well they are known.

    Attributes:
        labels: name -> [n] what tells the places apart, such as "state" and "goal".
        available: [n, A] bool, the actions there are.
        probabilities: [n, A]; 0 for an action that is not there.
        log_odds: of the available actions, row by row.
    """

    labels: Mapping[str, np.ndarray]
    available: np.ndarray
    probabilities: np.ndarray
    log_odds: Quantity

    @property
    def confidence(self) -> float:
        """Of the intervals."""
        return self.log_odds.confidence

    @property
    def method(self) -> str:
        """How intervals were made, as of a `Quantity`."""
        return self.log_odds.method

    @property
    def absence(self) -> str:
        """Why there are no intervals; empty where there are."""
        return self.log_odds.absence

    @property
    def intervals(self) -> np.ndarray:
        """[n, A, 2] of every chance by itself."""
        with np.errstate(over="ignore"):
            ends = 1.0 / (1.0 + np.exp(-self.log_odds.interval))
        found = np.zeros((*self.available.shape, 2))
        found[self.available] = ends
        alone = self.available & (self.available.sum(axis=1) == 1)[:, None]
        found[alone & (not self.absence)] = 1.0  # an action without an alternative
        return read_only(found)

    @property
    def standard_errors(self) -> np.ndarray:
        """[n, A] of the chances."""
        found, p = np.zeros(self.available.shape), self.probabilities
        found[self.available] = self.log_odds.standard_error
        return read_only(np.where(p * (1.0 - p) > 0, found * p * (1.0 - p), 0.0))

    def at(self, confidence: float) -> Prediction:
        """The same with intervals of another confidence."""
        return replace(self, log_odds=self.log_odds.at(confidence))

    def frame(self, layout: Layout | None = None, *, pandas: bool = False) -> Any:
        """One row a place and available action: labels, action, probability, lower, upper.

        Args:
            layout: how states and actions are called.
            pandas: give a frame of pandas.
        """
        named = Layout() if layout is None else layout
        place, action = np.nonzero(self.available)
        columns: dict[str, Any] = {
            name: [named.state_name(one) for one in label[place].tolist()]
            if name in ("state", "goal") and (named.state_names or named.is_grid)
            else label[place]
            for name, label in self.labels.items()
        }
        columns["action"] = [named.action_name(one) for one in action.tolist()]
        columns["probability"] = self.probabilities[self.available]
        columns["lower"], columns["upper"] = self.intervals[self.available].T
        return frame_of(columns, pandas=pandas)

    def __repr__(self) -> str:
        places, actions = self.available.shape
        known = self.absence or f"{self.confidence:.0%} intervals by {self.method}"
        return f"Prediction({places} places, {actions} actions; {known})"


def predicted(
    choices: ChoiceModel,
    parameters: Parameters,
    *,
    confidence: float,
    lapses: Lapses | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Prediction:
    """The `Prediction` of these choices.

    Args:
        choices: at the places that are asked about.
        parameters: the coefficients that they follow.
        confidence: of the intervals.
        lapses: the share of random steps, where the estimator allowed for them.
        draws: how many, where the log-odds bend within their errors; 0 for none, and no check.
        seed: of the draws.
    """
    share, error = np.zeros(0), 0.0
    if lapses is not None:
        choices, share = LapsingChoices(choices), np.array([lapses.share])
        error = (lapses.interval[1] - lapses.interval[0]) / (2.0 * TWO_SIDED)
    there = choices.available

    def odds(coefficients: np.ndarray) -> np.ndarray:
        return _log_odds(choices.scored(coefficients)[0][there])

    def spread(law: FittedLaw) -> Spread:
        law = law.beside(choices.shared)
        law = law.joined(float(share[0]), error) if len(share) else law
        chances, scores = choices.scored(law.point)
        own = np.maximum(1.0 - chances[there], LEAST)
        found = Spread(law, _log_odds(chances[there]), scores[:, there].T / own[:, None])
        return straightened(odds, found, draws=draws, seed=seed) if draws else found

    errors = np.zeros(choices.shared.shape[1])
    chances, _ = choices.scored(np.concatenate([parameters.estimates, errors, share]))
    quantity = quantity_of(parameters, spread, _log_odds(chances[there]), confidence=confidence)
    return Prediction(choices.labels, there, read_only(np.where(there, chances, 0.0)), quantity)


def predict(
    recovery: Recovery,
    at: npt.ArrayLike | None,
    goals: npt.ArrayLike | None,
    *,
    world: MDP | None,
    features: Features | None,
    confidence: float,
    draws: int | None,
) -> Prediction:
    """The `Prediction` of a recovery; see `Recovery.predict`."""
    choices, own = (
        recovery.choice_model(at, goals, world=world, features=features),
        recovery.parameters,
    )
    if choices is not None and np.isfinite(own.estimates).all() and recovery.temperature > 0:
        number = DRAWS if draws is None else draws
        about = {"confidence": confidence, "lapses": recovery.lapses, "draws": number}
        return predicted(choices, own, **about)
    if recovery.solution is None:
        reason = own.reason or "the noise of the demonstrator is not known"
        raise InvalidModel(
            f"predictions at rows need coefficients and a noise, and there are none: {reason}; "
            "recovery.policy(rows) gives the chances"
        )
    policy, absence = recovery.behaviour, "the world is not known: give world= and features="
    if choices is not None:
        absence = own.reason or "there are no coefficients"
    if not recovery.temperature > 0:
        absence = "the noise of the demonstrator is not known"
    states = places_of("at", at, len(policy), np.flatnonzero((policy > 0).any(axis=1)))
    chances = policy[states]
    there = chances > 0 if choices is None else choices.available
    odds = Quantity(_log_odds(chances[there]), confidence=confidence, absence=absence)
    return Prediction({"state": states}, there, read_only(np.where(there, chances, 0.0)), odds)


def state_choices(
    recovery: Recovery,
    at: npt.ArrayLike | None,
    goals: npt.ArrayLike | None,
    *,
    world: MDP | None,
    features: Features | None,
) -> StateChoices | None:
    """The choices in states of the world of a recovery, or of another; None where none is known."""
    if goals is not None:
        raise InvalidModel("goals are for trips; this recovery is of one task")
    origin = recovery.origin
    if world is None and origin is not None:
        world = world_of(recovery, origin)
    features = origin.features if features is None and origin is not None else features
    if world is None or features is None:
        return None
    check_features(recovery, world, features)
    there = np.flatnonzero(world.available.any(axis=1))
    return StateChoices(world, features, places_of("at", at, world.states, there))


def world_of(recovery: Recovery, origin: Origin) -> MDP:
    """The world that a recovery was made in, without what is forbidden there."""
    world, there = origin.mdp, recovery.available
    if there is None:
        return world
    return MDP(world.transitions, world.initial, world.discount, available=there)


def check_features(recovery: Recovery, world: MDP, features: Features) -> None:
    """Raises `InvalidModel` unless the features are those of the recovery, in this world."""
    features.check(world)
    ours = (*recovery.reward_names, *(n for part in recovery.cost_names for n in part))
    theirs = (*features.reward_names, *(n for part in features.cost_names for n in part))
    if ours != theirs:
        raise InvalidModel(
            f"features must be those of the recovery, {some(ours)}; got {some(theirs)}"
        )


def places_of(
    what: str, given: npt.ArrayLike | None, count: int, default: np.ndarray
) -> np.ndarray:
    """[n] numbers below a count that were handed over; the default where none were."""
    if given is None:
        return default
    found = np.atleast_1d(np.asarray(given))
    whole = found.ndim == 1 and found.dtype.kind in "iu"
    if not whole or (found.size and not 0 <= found.min() <= found.max() < count):
        raise InvalidModel(f"{what} must be numbers from 0 to {count - 1}; got {given!r:.60}")
    return found.astype(np.int64)


def _log_odds(chances: np.ndarray) -> np.ndarray:
    """[m] of chances [m]."""
    return np.log(np.maximum(chances, LEAST)) - np.log(np.maximum(1.0 - chances, LEAST))
