"""What transition laws license: rewards that carry over, and how well counted laws tell them.

A noisy demonstrator in one world tells its reward, a table [S, A], up to V - discount * P V for any
V [S]: the shaping of that world. In several worlds what is left open is what is the shaping of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tacit.errors import InvalidModel
from tacit.estimators.task import Task
from tacit.inference.findings import Finding, Kind
from tacit.model.arguments import number
from tacit.model.mdp import MDP

# Most states of a world whose shaping is written out.
STATES = 2000
# Sine of an angle that only rounding makes.
NOTHING = 1e-7


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """What the transition laws of two tasks leave open of a reward that both demonstrators share.

    Attributes:
        tasks: numbers of the two tasks that leave least open.
        open: number of directions of the reward that no demonstrations in both worlds tell, a
            constant left aside.
        angle: smallest principal angle of the two spaces of shaping beyond what they share; NaN
            where nothing is beyond.
        magnification: by what errors of the reward in each world are magnified at most.
    """

    tasks: tuple[int, int]
    open: int
    angle: float
    magnification: float

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """What it licenses, and what that rests on."""
        first, second = self.tasks
        if self.open:
            said = (
                f"Tasks {first} and {second} leave {self.open} directions of a reward table open, "
                "whatever is seen: where dynamics are other ones it may lead elsewhere."
            )
            return (Finding(said, Kind.NOT_IDENTIFIED, number=self.open),)
        said = (
            f"The transition laws of tasks {first} and {second} are {self.angle:.3g} apart (second "
            "smallest principal angle of their spaces of shaping, in radians). A reward table "
            "that both demonstrators share is told up to a constant, so it carries over to any "
            "dynamics; errors of it in each world are magnified at most "
            f"{self.magnification:.3g} times. It rests on the same reward and noise in both, and "
            "every state and action being visited."
        )
        return (Finding(said, Kind.NOTE, number=self.angle),)


def transfer(tasks: Sequence[Task]) -> Transfer:
    """The `Transfer` of the two tasks that leave least open (Schlaginhaufen and Kamgarpour 2024).

    Args:
        tasks: at least two, of the same states and actions.
    """
    worlds = [task.mdp for task in tasks]
    shapes = {one.available.tobytes() for one in worlds} | {one.available.shape for one in worlds}
    if len(worlds) < 2 or len(shapes) != 2:
        raise InvalidModel(
            "transfer compares the transition laws of at least two tasks with the same states and "
            f"available actions; got {len(worlds)} tasks"
        )
    if worlds[0].states > STATES:
        raise InvalidModel(
            f"transfer writes out the shaping of at most {STATES} states; got {worlds[0].states}"
        )
    spaces = [_shaping(one) for one in worlds]
    found = [
        _between(pair, spaces[pair[0]], spaces[pair[1]])
        for pair in combinations(range(len(worlds)), 2)
    ]
    return min(found, key=lambda one: (one.open, one.magnification))


def _shaping(mdp: MDP) -> np.ndarray:
    """[M, S] orthonormal columns that span V - discount * P V on the available pairs."""
    dense = mdp.dense().reshape(-1, mdp.states)[mdp.available.ravel()]
    own = np.repeat(np.eye(mdp.states), mdp.actions, axis=0)[mdp.available.ravel()]
    left, values, _ = np.linalg.svd(own - mdp.discount * dense, full_matrices=False)
    return left[:, values > NOTHING * values.max()]


def _between(pair: tuple[int, int], one: np.ndarray, other: np.ndarray) -> Transfer:
    """What two spaces share, and the smallest angle beyond."""
    # Sines are told by what is left of one space beside the other; cosines would lose small ones.
    rest = other - one @ (one.T @ other)
    sines = np.sort(np.clip(np.linalg.svd(rest, compute_uv=False), 0.0, 1.0))
    beyond = sines[sines > NOTHING]
    constant = np.ones(len(one)) / np.sqrt(len(one))
    shared = len(sines) - len(beyond)
    both = [
        np.linalg.norm(constant - space @ (space.T @ constant)) < NOTHING for space in (one, other)
    ]
    sine = float(beyond[0]) if len(beyond) else np.nan
    return Transfer(
        tasks=pair,
        open=shared - int(all(both)),
        angle=float(np.arcsin(sine)),
        magnification=float(np.sqrt(1.0 + 4.0 / sine**2)),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedAccuracy:
    """How well counted transitions tell the set of rewards that explain a known policy.

    Attributes:
        accuracy: for every table of rewards from 0 to 1 that explains a policy in the true world
            there is one within this distance that explains it in the counted one, and the other
            way round; as far as any two are apart where a pair was never seen.
        wanted: accuracy that is asked for.
        more: [S, A] more steps that each pair needs for it.
        confidence: with which both hold.
    """

    accuracy: float
    wanted: float
    more: np.ndarray
    confidence: float

    @property
    def sentences(self) -> tuple[Finding, ...]:
        """The accuracy, and what would better it."""
        short, total = int((self.more > 0).sum()), float(self.more.sum())
        said = (
            f"The counts tell the rewards that explain a policy within {self.accuracy:.3g}, for "
            f"rewards from 0 to 1, with {self.confidence:.0%} confidence, whatever the true "
            f"transitions are. Within {self.wanted:g} takes {total:.0f} more steps, at {short} "
            "pairs of state and action. It rests on independent steps, and the policy being known."
        )
        return (Finding(said, Kind.ERRORS, number=self.accuracy),)


def counted_accuracy(mdp: MDP, *, wanted: float = 0.1, confidence: float = 0.95) -> CountedAccuracy:
    """The `CountedAccuracy` of a world whose transitions were counted.

    A reward r = V - discount * P V - slack explains as much with the counted P, V and slack kept:
    it moves by discount * (P - counted P) V, and V is at most 1 / (1 - discount). The distance of
    rows is bounded by Weissman et al. (2003), for all pairs at once; see Metelli et al. (2023).

    Args:
        mdp: with the evidence of its counts.
        wanted: accuracy to count further steps for.
        confidence: of both.
    """
    number(wanted, "wanted", "a number above 0", lambda size: size > 0.0)
    number(confidence, "confidence", "in (0, 1)", lambda share: 0.0 < share < 1.0)
    if mdp.evidence is None or mdp.discount >= 1.0:
        raise InvalidModel(
            "this is about transitions that were counted, at a discount below 1: make the world by "
            "MDP.from_transitions"
        )
    open_rows = np.isfinite(mdp.evidence.concentration) & mdp.available
    visits = mdp.evidence.visits
    chances = mdp.states * np.log(2.0) + np.log(max(int(open_rows.sum()), 1) / (1.0 - confidence))
    reach = 0.5 * mdp.discount / (1.0 - mdp.discount)
    with np.errstate(divide="ignore"):
        rows = np.minimum(2.0, np.sqrt(2.0 * chances / visits))
    least = 2.0 * chances * (reach / wanted) ** 2 if wanted < 2.0 * reach else 0.0
    return CountedAccuracy(
        accuracy=float((reach * rows)[open_rows].max(initial=0.0)),
        wanted=float(wanted),
        more=np.where(open_rows, np.maximum(np.ceil(least) - visits, 0.0), 0.0),
        confidence=confidence,
    )
