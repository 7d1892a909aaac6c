"""What counted dynamics add to the errors of several tasks.

Tasks that were counted from one log have the same errors in their rows: what these do to the tasks'
parameters is added up before it is squared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.forward.solution import visitation
from tacit.inference.counted_rows import CountedRows, chain_slopes
from tacit.inverse.joint.stack import Stack, StackFit
from tacit.inverse.noisy.counted import (
    DynamicsNoise,
    chain_of,
    mean_shift,
    newton_way,
    noise_around,
    shifted_by,
)
from tacit.model.mdp import MDP, outside_policy


def sources(mdps: Sequence[MDP]) -> list[tuple[CountedRows, list[int]]]:
    """The counted rows that worlds have, each with the numbers of the worlds that have them."""
    found: list[tuple[CountedRows, list[int]]] = []
    for number, mdp in enumerate(mdps):
        same = next((those for rows, those in found if _alike(rows.mdp, mdp)), None)
        if same is not None:
            same.append(number)
        elif (rows := CountedRows.of(mdp)) is not None:
            found.append((rows, [number]))
    return found


def _alike(one: MDP, other: MDP) -> bool:
    """Whether two worlds were counted from the same steps."""
    if one.evidence is None or other.evidence is None:
        return False
    pairs = [
        (one.evidence.visits, other.evidence.visits),
        (one.transitions.states, other.transitions.states),
        (one.transitions.probabilities, other.transitions.probabilities),
    ]
    return all(np.array_equal(*pair) for pair in pairs)


def tasks_noise(
    stack: Stack,
    fitted: StackFit,
    *,
    bread: np.ndarray,
    free: np.ndarray,
    seed: int = 0,
) -> tuple[DynamicsNoise, np.ndarray] | None:
    """The `DynamicsNoise` of the joint parameters; None where no dynamics were counted.

    Beside it the covariance of the scores of each task's own parameters, task after task. The sums
    are those of all tasks, likewise.

    Args:
        stack: the tasks.
        fitted: their fit.
        bread: [n, n] information of all steps about the joint parameters.
        free: [n] bool, the joint parameters that move.
        seed: of the drawn worlds.
    """
    counted = sources([steps.mdp for steps in stack.steps])
    if not counted:
        return None
    sizes = [steps.space.size for steps in stack.steps]
    edges, many = np.cumsum([0, *sizes]), sum(sizes)
    joint = np.zeros((2 * many, 2 * many))
    scores = stack.scores(fitted)
    for rows, tasks in counted:
        parts, places = [], []
        for e in tasks:
            steps, part = stack.steps[e], fitted.parts[e]
            chain, policy = chain_of(part, scores[e]), outside_policy(steps.mdp, part.parts[0].policy)
            visits = np.asarray(part.parts[0].visits)
            reached = visitation(steps.mdp, policy).sum(axis=1)
            parts.append(chain_slopes(steps.mdp, **chain, visits=visits, counts=steps.counts))
            parts.append(chain_slopes(steps.mdp, **chain, visits=reached))
            places += [np.arange(edges[e], edges[e + 1]), np.arange(edges[e], edges[e + 1]) + many]

        def slopes(part: slice, rows: CountedRows = rows, parts: list = parts) -> np.ndarray:
            return np.concatenate([one.at(rows, part) for one in parts], axis=-1)

        at = np.concatenate(places)
        joint[np.ix_(at, at)] += rows.covariance(slopes)
    inner = np.concatenate([fitted.link.jacobian(e, fitted.z) for e in range(len(sizes))])
    whole = np.zeros((2 * many, len(fitted.z) + many))
    whole[:many, : len(fitted.z)], whole[many:, len(fitted.z) :] = inner, np.eye(many)

    def shifted(worlds: Sequence[MDP]) -> np.ndarray:
        moved = [steps.mdp for steps in stack.steps]
        for (_, tasks), world in zip(counted, worlds, strict=True):
            for e in tasks:
                own = moved[e]
                moved[e] = MDP(
                    world.transitions, own.initial, own.discount, available=own.available
                )
        elsewhere = stack.elsewhere(moved)
        return shifted_by(lambda z: newton_way(*elsewhere.slopes(fitted, z), free), fitted.z)

    drawn = zip(*(rows.worlds(seed + i) for i, (rows, _) in enumerate(counted)), strict=False)
    bias = mean_shift([shifted(worlds) for worlds in drawn])
    noise = noise_around(whole.T @ joint @ whole, bias, bread, np.where(free, fitted.z, 0.0))
    return noise, joint[:many, :many]
