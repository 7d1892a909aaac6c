"""Findings: sentences for people that say in fields what they are about, and the common ones.

Nothing in the program reads a sentence back: what a finding is about stands in `kind` and `about`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.measurements import Measurements
from tacit.data.observed import Observed
from tacit.data.tally import counts_of
from tacit.errors import InvalidDemonstrations
from tacit.files.wording import listed
from tacit.inference.expectations import Blocks, Expectations, moves_of
from tacit.model.available import Sites
from tacit.model.features.curves import same_curves
from tacit.model.features.imputing import Imputing
from tacit.model.mdp import MDP
from tacit.model.objective import Features
from tacit.search.algebra import first_largest

if TYPE_CHECKING:
    from tacit.inference.information import Chosen


class Kind(Enum):
    """What a finding is about; the list is closed, and its order is that of findings everywhere."""

    DECLARED = auto()  # something that was declared, and that the data contradict
    MISFIT = auto()  # the model does not fit what was seen
    CHANGED = auto()  # the demonstrator is no longer what it was
    NOT_CONVERGED = auto()
    BASIS = auto()  # the functions or nodes that values were sought on are too few
    CHOICE = auto()  # which estimator was picked, and why
    UNATTAINABLE = auto()  # no policy collects what the demonstrations did
    LOCAL_OPTIMUM = auto()
    DETERMINISTIC = auto()  # the expert looks deterministic
    NOT_IDENTIFIED = auto()  # the demonstrations leave a number open
    SUPPORT = auto()  # rows lie beyond those that anything was learnt from
    ACTIVE = auto()  # a constraint restrains the demonstrator
    INACTIVE = auto()  # it was not shown to
    SLACK = auto()  # a budget is not used up
    FORBIDDEN = auto()  # something that is never done, or a cost without an upper limit
    TRUNCATED = auto()  # trajectories were cut off
    DATA = auto()  # what was read is taken for something, or was filled in
    ASSUMED = auto()  # something that was not seen had to be assumed
    ERRORS = auto()  # what the error bars rest on
    NOTE = auto()


@dataclass(frozen=True, kw_only=True)
class About:
    """What a finding is about, where it is about one thing.

    Attributes:
        constraint: its number.
        feature: its name; of two the first.
        state: its number.
        action: its number.
        trajectory: its number.
        number: the number that the sentence turns on: a p-value, a share, a count.
        constraints: their numbers, where it is about several.
    """

    constraint: int | None = None
    feature: str | None = None
    state: int | None = None
    action: int | None = None
    trajectory: int | None = None
    number: float | None = None
    constraints: tuple[int, ...] | None = None


class Finding(str):
    """A sentence for people, with its kind and what it is about in fields.

    Attributes:
        kind: one of `Kind`.
        about: constraint, feature, state, action, trajectory, number, constraints; None where it
            is not one.
    """

    kind: Kind
    about: About

    def __new__(cls, sentence: str, kind: Kind = Kind.NOTE, **about: Any) -> Finding:
        """A finding of a kind; `about` are the fields of `About`."""
        found = super().__new__(cls, sentence)
        found.kind = kind
        found.about = About(**about)
        return found


def chance(p_value: float) -> str:
    """A p-value in words that never round it to 0."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


LEVEL = 0.05
"""Level of the tests behind a finding, where nobody asks for another."""
# Most features that one sentence lists.
NAMED = 6


# What speaks against the answer, and what the demonstrations leave open.
WARNINGS = (
    Kind.MISFIT,
    Kind.CHANGED,
    Kind.NOT_CONVERGED,
    Kind.UNATTAINABLE,
    Kind.LOCAL_OPTIMUM,
    Kind.DETERMINISTIC,
)
OPEN = (Kind.NOT_IDENTIFIED, Kind.INACTIVE, Kind.SLACK, Kind.FORBIDDEN)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings by their kinds; those of one kind in the order given."""
    return tuple(sorted(findings, key=lambda finding: finding.kind.value))


def of_kinds(findings: Iterable[Finding], kinds: Sequence[Kind]) -> list[Finding]:
    """The findings of these kinds."""
    return [finding for finding in findings if finding.kind in kinds]


# Correlation beyond which two feature columns are called the same.
SAME = 1.0 - 1e-9
# From this many visits on, a state in which one action was always taken speaks of determinism.
ENOUGH = 5


def data_findings(mdp: MDP, demonstrations: Observed) -> list[Finding]:
    """What the demonstrations leave open by themselves."""
    findings = impossible_moves(mdp, demonstrations)
    counts = counts_of(mdp, demonstrations)
    unseen = int(((counts.sum(axis=1) == 0) & ~mdp.ends).sum())  # nothing is done at an end
    if unseen:
        but = " that do not end an episode" if mdp.ends.any() else ""
        sentence = f"{unseen} of {mdp.states - int(mdp.ends.sum())} states{but} were never visited."
        findings.append(Finding(sentence, Kind.ASSUMED, number=unseen))
    options = mdp.choices.sum(axis=1)
    if (options == 1).all():
        sentence = "There is only one action: nothing was chosen, so nothing can be learnt."
        return [*findings, Finding(sentence, Kind.NOT_IDENTIFIED)]
    share = single_minded(counts, options)
    if share > 0.95:
        sentence = (
            f"The expert looks deterministic: {share:.0%} of the steps were taken in states where "
            "it always did the same."
        )
        findings.append(Finding(sentence, Kind.DETERMINISTIC, number=share))
    return findings


def row_findings(seen: Measurements) -> list[Finding]:
    """What rows of measurements lack, and what stands in its place."""
    findings, filled = [], Imputing.of(seen.observations, seen.columns)
    lost = [(name, int(many)) for name, many in zip(filled.columns, filled.missing, strict=True)]
    if some := [f"{name} ({many})" for name, many in lost if many]:
        sentence = (
            f"Of {seen.sites} rows some lack {listed(some, NAMED)}: what is missing has the median "
            "of its column, and that it was missing is a column of its own where values are "
            "regressed on rows."
        )
        findings.append(Finding(sentence, Kind.DATA, number=int(filled.missing.sum())))
    last = seen.offsets[1:] - 1
    cut = int(((seen.next_states[last] < 0) & ~seen.ended).sum())
    if cut:
        sentence = (
            f"{cut} of {seen.steps} steps have no row after them: they tell what was chosen, and "
            "nothing of where it led."
        )
        findings.append(Finding(sentence, Kind.DATA, number=cut))
    return findings


def impossible_moves(mdp: MDP, demonstrations: Observed) -> list[Finding]:
    """Observed moves that this world gives probability 0, and starts that it never has."""
    found = moves_of(mdp, demonstrations)
    findings = []
    if found is not None and found.move is not None:
        episode, step, state, action, after = found.move
        have = "observed move has" if found.impossible == 1 else "observed moves have"
        sentence = (
            f"{found.impossible} {have} probability 0 in this world, the first in episode "
            f"{_called(demonstrations, episode)}, step {step}: from state {state} by action "
            f"{action} to state {after}. Model or data are wrong."
        )
        where = {"trajectory": episode, "state": state, "action": action}
        findings.append(Finding(sentence, Kind.MISFIT, **where, number=found.impossible))
    if found is not None and found.start is not None:
        episode, state = found.start
        one = found.misplaced == 1
        begin, them = ("episode begins", "it") if one else ("episodes begin", "them")
        was = "it was" if one else "they were"
        sentence = (
            f"{found.misplaced} {begin} where this world never starts, the first episode "
            f"{_called(demonstrations, episode)} in state {state}: mark {them} as partial if {was} "
            "joined later."
        )
        where = {"trajectory": episode, "state": state}
        findings.append(Finding(sentence, Kind.MISFIT, **where, number=found.misplaced))
    return findings


def _called(demonstrations: Observed, episode: int) -> str:
    names = getattr(demonstrations, "names", None)
    return str(episode if names is None else names[episode])


class ImpossibleMoves(InvalidDemonstrations):
    """Somebody moved as a known world never does."""


def check_possible(mdp: MDP, demonstrations: Observed, where: str = "") -> None:
    """Raises `ImpossibleMoves` where somebody moved as a known world never does.

    Estimated dynamics may well be wrong there: then it stays a finding.

    Args:
        mdp: the world.
        demonstrations: what was seen in it.
        where: whose demonstrations they are, for the message.
    """
    found = None if mdp.evidence is not None else moves_of(mdp, demonstrations)
    if found is not None and found.move is not None:
        episode, step, state, action, after = found.move
        have = "1 has" if found.impossible == 1 else f"{found.impossible} have"
        raise ImpossibleMoves(
            f"{where}every observed move must have a probability above 0 in this world; {have} "
            f"none, the first in episode {_called(demonstrations, episode)}, step {step}: from "
            f"state {state} by action {action} to state {after}. Correct the transitions or the "
            "data, or give allow_impossible=True"
        )


def single_minded(counts: np.ndarray, options: np.ndarray | None = None) -> float:
    """Share of steps taken in well-visited states where one action was taken 99 % of the time.

    Where there was but one to take nothing is told: `options` [S] is how many there are.
    """
    visits = counts.sum(axis=1)
    known = visits >= ENOUGH
    if options is not None and counts.shape[1] > 1:
        known = known & (options > 1)
    if not known.any():
        return 0.0
    same = counts.max(axis=1) >= 0.99 * visits
    return float(visits[known & same].sum() / visits[known].sum())


def feature_findings(features: Features, mdp: Sites | None = None) -> list[Finding]:
    """Feature columns that cannot be told apart, or mean nothing, before any data are seen.

    In a model where episodes end, what is the same everywhere counts the steps until then, and a
    shift does so, too. Pairs that are not there say nothing.
    """
    actions = max((table.shape[1] for table in features.maps if table.ndim == 3), default=1)
    labels = [name for names in (features.reward_names, *features.cost_names) for name in names]
    stacked = np.concatenate(features.by_action(actions), axis=2).reshape(-1, len(labels)).T
    if mdp is not None and mdp.restricted:
        there = mdp.choices if actions > 1 else mdp.choices.any(axis=1)
        stacked = stacked[:, there.ravel()]
    shifts = mdp is not None and bool(mdp.ends.any())
    centred = stacked if shifts else stacked - stacked.mean(axis=1, keepdims=True)
    size = np.linalg.norm(centred, axis=1)
    flat = size <= 1e-12 * np.maximum(np.abs(stacked).max(axis=1), 1e-300) * stacked.shape[1]
    findings = [
        Finding(
            f"{labels[j]} is {'0' if shifts else 'the same'} everywhere: it cannot influence "
            "anything.",
            Kind.NOT_IDENTIFIED,
            feature=labels[j],
        )
        for j in np.flatnonzero(flat)
    ]
    for *alike, curve in same_curves(features.curves, features.maps):
        others = listed([one.label for one in alike], NAMED)
        sentence = (
            f"{curve.label} and {others} cannot be told apart: every choice depends on their "
            "difference, which is shown as that of the reward. Tasks that share the cost tell "
            "them apart, or a cost of something else."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, feature=curve.name))
    unit = centred / np.where(flat, 1.0, size)[:, None]
    unit[flat] = 0.0
    for curve in features.curves:
        unit[curve.among(features.blocks)] = 0.0  # of which single columns mean nothing
    similar = unit @ unit.T
    for i, j in zip(*np.nonzero(np.triu(np.abs(similar), 1) > SAME), strict=True):
        sentence = (
            f"{labels[i]} and {labels[j]} are the same feature up to "
            f"{'scale' if shifts else 'scale and shift'}: no demonstration of this world can tell "
            "them apart."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, feature=labels[i]))
    return findings


def guarantee_findings(
    seen: Expectations, reached: Blocks, deviations: Sequence[np.ndarray]
) -> list[Finding]:
    """How far the recovered policy can be from the demonstrator, for any weights in the span.

    |J(demonstrator) - J(recovered)| <= |w|_1 (gap + sampling + truncation), for every w of features
    divided by their deviations.
    """
    if seen.trajectories < 2:
        return []
    hoeffding = seen.guarantee(reached, seen.hoeffding(), deviations)
    bernstein = seen.guarantee(reached, seen.bernstein(), deviations)
    bounds = [min(pair) for pair in zip(hoeffding, bernstein, strict=True)]
    if not np.isfinite(bounds).all():  # without a discount sums have no range
        return []
    parts = ["reward"] + [f"cost {k}" for k in range(len(bounds) - 1)]
    listed = "; ".join(f"{name} {bound:.3g}" for name, bound in zip(parts, bounds, strict=True))
    sentence = (
        "Guarantee at 95 % confidence, for any weights of standardised features of L1 norm 1: the "
        "discounted sums of the recovered policy and of the demonstrator differ by at most "
        f"{listed} (the better of the Hoeffding and the empirical Bernstein bound)."
    )
    return [Finding(sentence, number=max(bounds))]


def more_data_findings(
    names: list[str], ends: np.ndarray, demonstrations: Observed, clustered: bool
) -> list[Finding]:
    """Which number is known worst, and how much more data would halve its interval.

    Args:
        names: of the weights.
        ends: [D, 2] their intervals.
        demonstrations: what there is.
        clustered: whether trajectories, not steps, are the independent units.
    """
    width = ends[:, 1] - ends[:, 0]
    # From 0 to 1 is all that a weight can be: nothing is told of it, and more of it tells no more.
    informative = np.isfinite(width) & ~((ends[:, 0] <= 0.0) & (ends[:, 1] >= 1.0))
    width = np.where(informative, width, -1.0)
    worst = first_largest(width)
    if width[worst] <= 0:
        return []
    # Intervals shrink with the square root of the data: half the width takes four times as much.
    unit = "trajectories" if clustered else "steps"
    more = 3 * (demonstrations.episodes if clustered else demonstrations.steps)
    sentence = (
        f"The widest interval of a weight is that of {names[worst]}; {more} more {unit} like "
        "these would halve it."
    )
    return [Finding(sentence, feature=names[worst], number=more)]


def blind_findings(names_of: Sequence[str], blind: np.ndarray) -> list[Finding]:
    """One finding for each direction in which the parameters can move freely."""
    findings = []
    for names in named_directions(names_of, blind):
        sentence = (
            f"{names[0]} cannot be told from these demonstrations: no weight on it changes what "
            "the demonstrator would do."
        )
        if len(names) > 1:
            shown = listed(names, len(names) if len(names) <= NAMED else NAMED - 1)
            sentence = f"{shown} trade off freely: these demonstrations cannot tell them apart."
        feature = names[0] if len(names) == 1 else None
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, feature=feature))
    return findings


def named_directions(
    names_of: Sequence[str], directions: np.ndarray
) -> tuple[tuple[str, ...], ...]:
    """The names of what each direction [B, D] moves, in a basis that moves few at a time."""
    heavy = [np.abs(one) > 1e-3 * np.abs(one).max() for one in _echelon(directions)]
    which = [np.flatnonzero(one).tolist() for one in heavy]
    return tuple(tuple(dict.fromkeys(names_of[d] for d in own)) for own in which)


def _echelon(rows: np.ndarray) -> np.ndarray:
    """[B, D] rows that span the same directions, each with few entries: two pairs stay pairs."""
    _, sizes, rest = np.linalg.svd(rows, full_matrices=False)
    rest, pivots = rest[sizes > 1e-9], []
    for _ in range(len(rest)):  # lengths of columns are the same whatever rows span the directions
        pivots.append(first_largest(np.linalg.norm(rest, axis=0)))
        own = rest[:, pivots[-1]] / np.linalg.norm(rest[:, pivots[-1]])
        rest = rest - np.outer(own, own @ rest)
    return np.linalg.pinv(rows[:, pivots]) @ rows


def found_findings(chosen: Chosen) -> list[Finding]:
    """Which constraints were found so barely that chance finds some as sure, and what that does."""
    findings = []
    for k in np.flatnonzero([chosen.barely_found(k) for k in range(len(chosen.kept))]).tolist():
        p = float(chosen.p_values[k])
        sentence = (
            f"Constraint {k} is barely significant ({chance(p)} at the level {chosen.level:g}). "
            "Selection effect: a constraint that is found by chance looks the same, its weights "
            "are arbitrary, its price is biased upwards and its interval covers less often."
        )
        findings.append(Finding(sentence, Kind.NOTE, constraint=k, number=p))
    return findings


def doubt_findings(chosen: Chosen, pooled: np.ndarray, settled: np.ndarray | None) -> list[Finding]:
    """Which constraints were left out for the doubt about the dynamics, not for the behaviour.

    Args:
        chosen: the constraints.
        pooled: [K] p-values that count the doubt.
        settled: [K] the same if the dynamics were as estimated; None where they are known.
    """
    if settled is None:
        return []
    findings = []
    for k in np.flatnonzero(~chosen.kept).tolist():
        if not settled[k] * len(settled) <= chosen.level < pooled[k]:
            continue
        sentence = (
            f"Uncertainty of the dynamics decides about constraint {k}: {chance(settled[k])} with "
            f"the dynamics as estimated, {chance(pooled[k])} with their uncertainty. More steps to "
            "estimate the dynamics from would help most."
        )
        findings.append(
            Finding(sentence, Kind.NOT_IDENTIFIED, constraint=k, number=float(settled[k]))
        )
    return findings
