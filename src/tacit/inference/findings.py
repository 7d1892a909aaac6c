"""Findings: sentences for people with their kind and subject in fields, and the common ones.

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
        finding = super().__new__(cls, sentence)
        finding.kind = kind
        finding.about = About(**about)
        return finding


def chance(p_value: float) -> str:
    """A p-value in words that never round it to 0."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


LEVEL = 0.05
"""Level of the tests behind a finding, where nobody asks for another."""
# Most features that one sentence lists.
NAMED = 6
# Correlation beyond which two feature columns are called the same.
SAME_CORRELATION = 1.0 - 1e-9
# A state counts for determinism from so many visits on, with one action in this share of them; the
# expert looks deterministic if this share of the steps was taken in such states.
MIN_VISITS, ONLY_ACTION, DETERMINISTIC_SHARE = 5, 0.99, 0.95

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


def data_findings(mdp: MDP, demonstrations: Observed) -> list[Finding]:
    """What is wrong with demonstrations or left open by them, whatever the features."""
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
    if share > DETERMINISTIC_SHARE:
        sentence = (
            f"The expert looks deterministic: {share:.0%} of the steps were taken in states where "
            "it always did the same."
        )
        findings.append(Finding(sentence, Kind.DETERMINISTIC, number=share))
    return findings


def row_findings(seen: Measurements) -> list[Finding]:
    """Missing values in rows of measurements and how they are filled; steps without a next row."""
    findings = []
    imputing = Imputing.of(seen.observations, seen.columns)
    pairs = zip(imputing.columns, imputing.missing.tolist(), strict=True)
    lacking = [f"{name} ({count})" for name, count in pairs if count]
    if lacking:
        sentence = (
            f"Of {seen.sites} rows some lack {listed(lacking, NAMED)}: what is missing has the "
            "median of its column, and that it was missing is a column of its own where values are "
            "regressed on rows."
        )
        findings.append(Finding(sentence, Kind.DATA, number=int(imputing.missing.sum())))
    last = seen.offsets[1:] - 1
    truncated = int(((seen.next_states[last] < 0) & ~seen.ended).sum())
    if truncated:
        sentence = (
            f"{truncated} of {seen.steps} steps have no row after them: they tell what was chosen, "
            "and nothing of where it led."
        )
        findings.append(Finding(sentence, Kind.DATA, number=truncated))
    return findings


def impossible_moves(mdp: MDP, demonstrations: Observed) -> list[Finding]:
    """Observed moves that this world gives probability 0, and starts that it never has."""
    moves = moves_of(mdp, demonstrations)
    if moves is None:
        return []
    findings = []
    if moves.move is not None:
        episode, step, state, action, next_state = moves.move
        have = "observed move has" if moves.impossible == 1 else "observed moves have"
        sentence = (
            f"{moves.impossible} {have} probability 0 in this world, the first in episode "
            f"{_episode_name(demonstrations, episode)}, step {step}: from state {state} by action "
            f"{action} to state {next_state}. Model or data are wrong."
        )
        where = {"trajectory": episode, "state": state, "action": action}
        findings.append(Finding(sentence, Kind.MISFIT, **where, number=moves.impossible))
    if moves.start is not None:
        episode, state = moves.start
        single = moves.misplaced == 1
        begin = "episode begins" if single else "episodes begin"
        advice = (
            "it as partial if it was joined" if single else "them as partial if they were joined"
        )
        sentence = (
            f"{moves.misplaced} {begin} where this world never starts, the first episode "
            f"{_episode_name(demonstrations, episode)} in state {state}: mark {advice} later."
        )
        where = {"trajectory": episode, "state": state}
        findings.append(Finding(sentence, Kind.MISFIT, **where, number=moves.misplaced))
    return findings


def _episode_name(demonstrations: Observed, episode: int) -> str:
    """The name of an episode, or its number where episodes have none."""
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
    moves = None if mdp.evidence is not None else moves_of(mdp, demonstrations)
    if moves is not None and moves.move is not None:
        episode, step, state, action, next_state = moves.move
        have = "1 has" if moves.impossible == 1 else f"{moves.impossible} have"
        raise ImpossibleMoves(
            f"{where}every observed move must have a probability above 0 in this world; {have} "
            f"none, the first in episode {_episode_name(demonstrations, episode)}, step {step}: "
            f"from state {state} by action {action} to state {next_state}. Correct the transitions "
            "or the data, or give allow_impossible=True"
        )


def single_minded(counts: np.ndarray, options: np.ndarray | None = None) -> float:
    """Share of the steps in well-visited states that were in states where one action prevails.

    One action prevails where it has 99 % of the steps. States with a single available action say
    nothing: `options` [S] counts the available ones.
    """
    visits = counts.sum(axis=1)
    informative = visits >= MIN_VISITS
    if options is not None and counts.shape[1] > 1:
        informative = informative & (options > 1)
    if not informative.any():
        return 0.0
    prevails = counts.max(axis=1) >= ONLY_ACTION * visits
    return float(visits[informative & prevails].sum() / visits[informative].sum())


def feature_findings(features: Features, mdp: Sites | None = None) -> list[Finding]:
    """Feature columns that cannot be told apart, or mean nothing, before any data are seen.

    Where no episode ends a constant influences nothing, and columns are compared up to a shift;
    where episodes end it counts the steps until then. Unavailable pairs are left out.
    """
    actions = max((table.shape[1] for table in features.maps if table.ndim == 3), default=1)
    labels = [name for names in (features.reward_names, *features.cost_names) for name in names]
    columns = np.concatenate(features.by_action(actions), axis=2).reshape(-1, len(labels)).T
    if mdp is not None and mdp.restricted:
        available = mdp.choices if actions > 1 else mdp.choices.any(axis=1)
        columns = columns[:, available.ravel()]
    episodes_end = mdp is not None and bool(mdp.ends.any())
    centred = columns if episodes_end else columns - columns.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1)
    largest = np.maximum(np.abs(columns).max(axis=1), 1e-300)
    constant = norms <= 1e-12 * largest * columns.shape[1]
    value = "0" if episodes_end else "the same"
    findings = [
        Finding(
            f"{labels[j]} is {value} everywhere: it cannot influence anything.",
            Kind.NOT_IDENTIFIED,
            feature=labels[j],
        )
        for j in np.flatnonzero(constant)
    ]
    findings += _same_curve_findings(features)
    units = centred / np.where(constant, 1.0, norms)[:, None]
    units[constant] = 0.0
    for curve in features.curves:
        units[curve.among(features.blocks)] = 0.0  # single columns of a curve mean nothing
    same = np.triu(np.abs(units @ units.T), 1) > SAME_CORRELATION
    for i, j in np.argwhere(same).tolist():
        sentence = (
            f"{labels[i]} and {labels[j]} are the same feature up to "
            f"{'scale' if episodes_end else 'scale and shift'}: no demonstration of this world can "
            "tell them apart."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, feature=labels[i]))
    return findings


def _same_curve_findings(features: Features) -> list[Finding]:
    """Curves of reward and costs that are of the same thing, so that only a difference counts."""
    findings = []
    for *alike, curve in same_curves(features.curves, features.maps):
        others = listed([other.label for other in alike], NAMED)
        sentence = (
            f"{curve.label} and {others} cannot be told apart: every choice depends on their "
            "difference, which is shown as that of the reward. Tasks that share the cost tell "
            "them apart, or a cost of something else."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, feature=curve.name))
    return findings


def guarantee_findings(
    seen: Expectations, reached: Blocks, deviations: Sequence[np.ndarray]
) -> list[Finding]:
    """How far returns of the recovered policy and of the demonstrator differ, for any weights.

    |J(demonstrator) - J(recovered)| <= |w|_1 (gap + sampling + truncation), for every w of features
    divided by their deviations (theory page, "Guarantees").
    """
    if seen.trajectories < 2:
        return []
    hoeffding = seen.guarantee(reached, seen.hoeffding(), deviations)
    bernstein = seen.guarantee(reached, seen.bernstein(), deviations)
    bounds = [min(pair) for pair in zip(hoeffding, bernstein, strict=True)]
    if not np.isfinite(bounds).all():  # without a discount sums have no range
        return []
    parts = ["reward"] + [f"cost {k}" for k in range(len(bounds) - 1)]
    pairs = zip(parts, bounds, strict=True)
    differences = "; ".join(f"{name} {bound:.3g}" for name, bound in pairs)
    sentence = (
        "Guarantee at 95 % confidence, for any weights of standardised features of L1 norm 1: the "
        "discounted sums of the recovered policy and of the demonstrator differ by at most "
        f"{differences} (the better of the Hoeffding and the empirical Bernstein bound)."
    )
    return [Finding(sentence, number=max(bounds))]


def more_data_findings(
    names: list[str], ends: np.ndarray, demonstrations: Observed, clustered: bool
) -> list[Finding]:
    """Which weight has the widest interval, and how much more data would halve it.

    Args:
        names: of the weights.
        ends: [D, 2] their intervals.
        demonstrations: the data there are.
        clustered: whether trajectories, not steps, are the independent units.
    """
    width = ends[:, 1] - ends[:, 0]
    # From 0 to 1 is all that a weight can be: such data do not inform about it, however many.
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
    """One finding for each of the directions [B, D] that these demonstrations do not identify."""
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
    """The names that each direction [B, D] moves, in a basis whose directions move few each."""
    basis = _echelon(directions)
    moved = np.abs(basis) > 1e-3 * np.abs(basis).max(axis=1, keepdims=True, initial=0.0)
    places = [np.flatnonzero(row).tolist() for row in moved]
    return tuple(tuple(dict.fromkeys(names_of[d] for d in row)) for row in places)


def _echelon(rows: np.ndarray) -> np.ndarray:
    """[B, D] rows that span the same directions, each with few entries: two pairs stay pairs."""
    _, singular_values, axes = np.linalg.svd(rows, full_matrices=False)
    rest, pivots = axes[singular_values > 1e-9], []
    for _ in range(len(rest)):  # norms of columns do not depend on which rows span the directions
        norms = np.linalg.norm(rest, axis=0)
        pivot = first_largest(norms)
        unit = rest[:, pivot] / norms[pivot]
        rest = rest - np.outer(unit, unit @ rest)
        pivots.append(pivot)
    return np.linalg.pinv(rows[:, pivots]) @ rows


def selection_findings(chosen: Chosen) -> list[Finding]:
    """Which constraints are barely significant, so that selecting them biases what is said."""
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


def undecided_findings(
    chosen: Chosen, p_values: np.ndarray, p_values_if_dynamics_known: np.ndarray | None
) -> list[Finding]:
    """Which constraints only the uncertainty of the dynamics leaves out.

    They are significant, after Bonferroni's correction, if the dynamics are as estimated.

    Args:
        chosen: the constraints.
        p_values: [K] with the uncertainty of the dynamics.
        p_values_if_dynamics_known: [K] with the dynamics as estimated; None where they are known.
    """
    if p_values_if_dynamics_known is None:
        return []
    findings = []
    for k in np.flatnonzero(~chosen.kept).tolist():
        uncertain, estimated = float(p_values[k]), float(p_values_if_dynamics_known[k])
        if not estimated * len(p_values_if_dynamics_known) <= chosen.level < uncertain:
            continue
        sentence = (
            f"Uncertainty of the dynamics decides about constraint {k}: {chance(estimated)} with "
            f"the dynamics as estimated, {chance(uncertain)} with their uncertainty. More steps to "
            "estimate the dynamics from would help most."
        )
        findings.append(Finding(sentence, Kind.NOT_IDENTIFIED, constraint=k, number=estimated))
    return findings
