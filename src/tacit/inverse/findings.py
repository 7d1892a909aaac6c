"""Plain sentences about data and features that hold whatever the estimator."""

from __future__ import annotations

import numpy as np

from tacit.demonstrations import Demonstrations
from tacit.mdp import MDP
from tacit.objective import Features

# Correlation beyond which two feature columns are called the same.
SAME = 1.0 - 1e-9
# From this many visits on, a state in which one action was always taken speaks of determinism.
ENOUGH = 5


def data_findings(mdp: MDP, demonstrations: Demonstrations) -> list[str]:
    """What the demonstrations leave open by themselves."""
    sentences = impossible_moves(mdp, demonstrations)
    counts = demonstrations.counts(mdp)
    unseen = int((counts.sum(axis=1) == 0).sum())
    if unseen:
        sentences.append(f"{unseen} of {mdp.states} states were never visited.")
    if mdp.actions == 1:
        sentences.append("There is only one action: nothing was chosen, so nothing can be learnt.")
        return sentences
    share = single_minded(counts)
    if share > 0.95:
        sentences.append(
            f"The expert looks deterministic: {share:.0%} of the steps were taken in states where "
            "it always did the same."
        )
    return sentences


def impossible_moves(mdp: MDP, demonstrations: Demonstrations) -> list[str]:
    """Observed moves that this world gives probability 0, and starts that it never has."""
    sentences = []
    states, actions, step = demonstrations.states, demonstrations.actions, demonstrations.step
    inside = np.flatnonzero(step[1:] > 0)  # rows followed by a row of the same episode
    bad, first = 0, -1
    for rows in np.array_split(inside, max(1, len(inside) // 1_000_000)):
        lists = mdp.transitions.states[states[rows], actions[rows]]
        chances = mdp.transitions.probabilities[states[rows], actions[rows]]
        met = ((lists == states[rows + 1][:, None]) & (chances > 0)).any(axis=1)
        if not met.all():
            first = int(rows[~met][0]) if first < 0 else first
            bad += int((~met).sum())
    if bad:
        have = "observed move has" if bad == 1 else "observed moves have"
        sentences.append(
            f"{bad} {have} probability 0 in this world, the first in episode "
            f"{demonstrations.episode[first]}, step {step[first]}: from state {states[first]} by "
            f"action {actions[first]} to state {states[first + 1]}. Model or data are wrong."
        )
    begins = states[demonstrations.offsets[:-1]]
    odd = np.flatnonzero((mdp.initial[begins] == 0) & ~demonstrations.partial)
    if len(odd):
        begin, them = ("episode begins", "it") if len(odd) == 1 else ("episodes begin", "them")
        was = "it was" if len(odd) == 1 else "they were"
        sentences.append(
            f"{len(odd)} {begin} where this world never starts, the first episode {odd[0]} in "
            f"state {begins[odd[0]]}: mark {them} as partial if {was} joined later."
        )
    return sentences


def single_minded(counts: np.ndarray) -> float:
    """Share of steps taken in well-visited states where one action was taken 99 % of the time."""
    visits = counts.sum(axis=1)
    known = visits >= ENOUGH
    if not known.any():
        return 0.0
    same = counts.max(axis=1) >= 0.99 * visits
    return float(visits[known & same].sum() / visits[known].sum())


def feature_findings(features: Features) -> list[str]:
    """Feature columns that cannot be told apart, or mean nothing, before any data are seen."""
    maps = (features.reward, *features.costs)
    names = (features.reward_names, *features.cost_names)
    actions = max((table.shape[1] for table in maps if table.ndim == 3), default=1)
    columns, labels = [], []
    for table, group in zip(maps, names, strict=True):
        full = table if table.ndim == 3 else np.repeat(table[:, None, :], actions, axis=1)
        columns.append(full.reshape(-1, full.shape[-1]).T)
        labels += group
    stacked = np.concatenate(columns)
    centred = stacked - stacked.mean(axis=1, keepdims=True)
    size = np.linalg.norm(centred, axis=1)
    flat = size <= 1e-12 * np.maximum(np.abs(stacked).max(axis=1), 1e-300) * stacked.shape[1]
    sentences = [
        f"{labels[j]} is the same everywhere: it cannot influence anything."
        for j in np.flatnonzero(flat)
    ]
    unit = centred / np.where(flat, 1.0, size)[:, None]
    unit[flat] = 0.0
    similar = unit @ unit.T
    for i, j in zip(*np.nonzero(np.triu(np.abs(similar), 1) > SAME), strict=True):
        sentences.append(
            f"{labels[i]} and {labels[j]} are the same feature up to scale and shift: no "
            "demonstration of this world can tell them apart."
        )
    return sentences
