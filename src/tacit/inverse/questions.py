"""Answers to linear questions about a recovery, as objects that can be kept in a file.

`Identification.interval` asks them. The likelihood answers by the delta method, from a covariance;
the set of explanations by linear programs, which are built again when a loaded recovery is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from tacit.inverse.noisy.coordinates import Coordinates, Split
    from tacit.inverse.noisy.inference import Errors

PREFIX = "question_"


@dataclass(frozen=True, eq=False)
class DeltaMethod:
    """Answers by the delta method.

    Attributes:
        x: [D] the parameters, scaled.
        scales: [D] what the features were divided by.
        sizes: [1 + K] features of the reward, then of each constraint.
        temperature: the demonstrator's noise.
        covariance: [D, D] of the parameters.
        blind: [B, D] directions in which they can move freely.
        quantile: standard errors to either side.
    """

    x: np.ndarray
    scales: np.ndarray
    sizes: np.ndarray
    temperature: Any
    covariance: np.ndarray
    blind: np.ndarray
    quantile: Any

    def __call__(self, reward_direction: Any, cost_directions: Any = ()) -> tuple[float, float]:
        """The ends of the interval of the directions times the weights."""
        parts = [np.asarray(reward_direction, float)]
        given = list(cost_directions)
        for k, size in enumerate(self.sizes[1:]):
            parts.append(np.asarray(given[k], float) if k < len(given) else np.zeros(size))
        direction = np.concatenate(parts)
        x, scales, temperature = self.x, self.scales, float(self.temperature)
        if direction.shape != x.shape:
            raise InvalidModel(
                f"directions must have one entry a feature ({len(x)} in all); got {direction.shape}"
            )
        theta = x / scales
        scaled = np.where(direction != 0, direction * theta, 0.0).sum() * temperature
        slope = direction * temperature
        signs = np.zeros(len(x))
        reward = slice(0, int(self.sizes[0]))
        signs[reward] = np.sign(theta[reward])
        slope = (slope - scaled * temperature * signs) / scales
        moved = np.abs(self.blind @ slope).max(initial=0.0)
        if moved > 1e-5 * np.abs(slope).max(initial=1e-300):
            return -np.inf, np.inf
        margin = float(self.quantile) * float(np.sqrt(max(slope @ self.covariance @ slope, 0.0)))
        return float(scaled) - margin, float(scaled) + margin


def delta_method(space: Coordinates, x: np.ndarray, gauge: Split, found: Errors) -> DeltaMethod:
    """The `DeltaMethod` of a fit with parameters x [D], 95 %."""
    # Here, not above: loading a run must not wait for an engine that it does not need.
    from tacit.inverse.noisy.inference import TWO_SIDED

    sizes = np.array([block.stop - block.start for block in space.blocks])
    scale, spread = gauge.temperature, found.covariance
    return DeltaMethod(x, space.scales, sizes, scale, spread, found.blind, TWO_SIDED)


@dataclass(frozen=True, eq=False)
class StoredSet:
    """Answers over all explanations, from what a file keeps of them.

    Attributes:
        arrays: by name, as `stored` gives them.
    """

    arrays: Mapping[str, np.ndarray]

    @cached_property
    def questions(self) -> Any:
        """The set of explanations, built when it is first asked."""
        from tacit.inverse.optimal.cone import cone
        from tacit.inverse.optimal.questions import Questions
        from tacit.inverse.optimal.vocabulary import Vocabulary
        from tacit.model.mdp import MDP
        from tacit.model.transitions import Successors

        given, sizes = self.arrays, self.arrays["sizes"].tolist()
        ends = np.cumsum(sizes)[:-1]
        words = Vocabulary(
            tables=given["tables"],
            units=given["units"],
            block=given["block"],
            feature=given["feature"],
            sizes=tuple(sizes),
            inert=tuple(np.split(given["inert"], ends)),
            names=tuple(("",) * size for size in sizes),
            free_reward=bool(given["free_reward"]),
        )
        lists = Successors(given["successors"], given["probabilities"])
        mdp = MDP(lists, given["initial"], float(given["discount"]))
        found = cone(mdp, words.tables, given["observed"].astype(float))
        return Questions(found, words, float(given["tolerance"]))

    def __call__(self, reward_direction: Any, cost_directions: Any = ()) -> tuple[float, float]:
        """The least and largest value over all explanations."""
        return self.questions(reward_direction, cost_directions)


def stored(answer: Any) -> dict[str, np.ndarray]:
    """What a file keeps of an answerer: named arrays; none of one that it cannot keep."""
    if isinstance(answer, StoredSet):
        found: dict[str, Any] = dict(answer.arrays)
    elif isinstance(answer, DeltaMethod):
        found = {name: getattr(answer, name) for name in DeltaMethod.__dataclass_fields__}
    elif hasattr(answer, "cone"):
        mdp, words = answer.cone.mdp, answer.words
        found = {
            name: getattr(words, name)
            for name in ("tables", "units", "block", "feature", "sizes", "free_reward")
        }
        found |= {
            "inert": np.concatenate(words.inert),
            "observed": answer.cone.observed,
            "tolerance": answer.tolerance,
            "successors": mdp.transitions.states,
            "probabilities": mdp.transitions.probabilities,
            "initial": mdp.initial,
            "discount": mdp.discount,
        }
    else:
        return {}
    return {PREFIX + name: np.asarray(part) for name, part in found.items()}


def restored(arrays: Mapping[str, np.ndarray]) -> Any:
    """The answerer that a file keeps, or None."""
    found = {n.removeprefix(PREFIX): part for n, part in arrays.items() if n.startswith(PREFIX)}
    if "covariance" in found:
        return DeltaMethod(**found)
    return StoredSet(found) if found else None
