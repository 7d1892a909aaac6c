"""Recovery from an exactly optimal expert: the set of all explanations, and one point of it.

(theta_r, theta_k, V) explains demonstrations if theta_r . phi_r - sum_k theta_k . phi_k + discount
P V - V is 0 on every observed pair and <= 0 on all others, theta_k = multiplier * weights >= 0.
These are all objectives for which an expert that spends its budgets acts as demonstrated. Unseen
parts of its behaviour only enlarge the set: the truth is in it for certain.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import InvalidModel
from tacit.inverse.expectations import check_task, expectations_from_start
from tacit.inverse.explanations.cone import cone
from tacit.inverse.explanations.imperfect import Nearest, nearest
from tacit.inverse.explanations.points import Point, best_point
from tacit.inverse.explanations.questions import Questions
from tacit.inverse.explanations.report import Evidence, explained, silent, unexplained
from tacit.inverse.explanations.vocabulary import vocabulary
from tacit.inverse.recovery import Recovery, delivered
from tacit.mdp import MDP
from tacit.objective import Features
from tacit.progress import once
from tacit.tallies.observed import Observed, counts_of


@dataclass(frozen=True)
class Explanation:
    """All explanations of an exactly optimal expert: exact intervals, and the clearest one.

    The point given separates demonstrated from other actions by the largest margin, features being
    scaled to the same size. Where no explanation exists the expert errs: the objective under which
    its steps fall short least is given instead, without intervals.

    Attributes:
        free_reward: whether reward weights may be negative.
        tolerance: by how much an inequality of the set may be broken, features being of order one.
    """

    free_reward: bool = False
    tolerance: float = 1e-9

    def fit(
        self,
        mdp: MDP,
        features: Features,
        demonstrations: Observed,
        *,
        throw: bool = True,
    ) -> Recovery:
        """The `Recovery`; its `identification.interval` answers any linear question."""
        if not 1e-10 <= self.tolerance < 1e-3:
            raise InvalidModel(f"tolerance must be in [1e-10, 1e-3); got {self.tolerance}")
        check_task(mdp, features, demonstrations)
        words = vocabulary(mdp, features, free_reward=self.free_reward)
        counts = counts_of(mdp, demonstrations)
        found = cone(mdp, words.tables, counts)
        seen = expectations_from_start(mdp, features, demonstrations)
        evidence = Evidence(mdp, features, demonstrations, words, found, seen, repr(self))
        questions = Questions(found, words, self.tolerance)
        if len(words.tables) == 0:
            return delivered(silent(evidence), throw)
        inputs = (mdp.transitions, mdp.discount, words.tables, counts)
        point, programs = once(
            "explanation",
            lambda: _clearest(questions),
            inputs=(*inputs, self.tolerance),
            kinds=(Point,),
        )
        if point is not None:
            return delivered(explained(evidence, questions, point, programs), throw)
        least = once("nearest", lambda: nearest(found, counts), inputs=inputs, kinds=(Nearest,))
        return delivered(unexplained(evidence, least), throw)


def _clearest(questions: Questions) -> tuple[Point | None, int]:
    """The clearest explanation if there is any, and the programs solved to find it."""
    point = best_point(questions) if questions.exists() else None
    return point, questions.program.solved
