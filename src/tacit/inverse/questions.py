"""Answers to linear questions about a recovery, as objects that can be kept in a file.

`Identification.interval` asks them. The likelihood answers by the delta method, from a covariance;
the set of explanations by linear programs, which are built again when a loaded recovery is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit.inverse.noisy.inference import DeltaMethod

PREFIX = "question_"


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
        from tacit.inverse.optimal.columns import Columns
        from tacit.inverse.optimal.cone import cone
        from tacit.inverse.optimal.questions import Questions
        from tacit.model.mdp import MDP
        from tacit.model.transitions import Successors

        given, sizes = self.arrays, self.arrays["sizes"].tolist()
        ends = np.cumsum(sizes)[:-1]
        columns = Columns(
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
        found = cone(mdp, columns.tables, given["observed"].astype(float))
        return Questions(found, columns, float(given["tolerance"]))

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
        mdp, columns = answer.cone.mdp, answer.columns
        found = {
            name: getattr(columns, name)
            for name in ("tables", "units", "block", "feature", "sizes", "free_reward")
        }
        found |= {
            "inert": np.concatenate(columns.inert),
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
