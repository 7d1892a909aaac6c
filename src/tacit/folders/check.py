"""What `tacit check` says about a problem that can be read: warnings, and what a recovery takes."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.data.tally import impossible_rows
from tacit.errors import TacitError
from tacit.estimators.trips.world import network_ending
from tacit.files.wording import listed, some
from tacit.folders.demonstrations import FILES
from tacit.folders.feature_table import FeatureTable, table_features
from tacit.folders.names import Names, in_order
from tacit.folders.problem import Problem
from tacit.folders.settings import read_settings
from tacit.folders.text_problem import NAMED
from tacit.folders.transition_table import TransitionTable
from tacit.forward.solution import Status
from tacit.forward.solve import solve
from tacit.inference.findings import (
    SAME_CORRELATION,
    Finding,
    Kind,
    feature_findings,
    single_minded,
)
from tacit.model.layout import Layout
from tacit.model.mdp import MDP
from tacit.model.objective import Features, is_too_large_to_compare

T = TypeVar("T")

# Pairs of state and action up to which the truth is solved to see whether its budgets bind.
QUICK = 200_000
# Share of steps in states where the expert always does the same that looks deterministic.
DETERMINISTIC = 0.95
# How many times as often a similar name is taken that a name looks misspelt.
OFTEN = 50

Move = tuple[str, str, str, int]


def check_problem(problem: Problem) -> tuple[str, ...]:
    """Everything worth a warning, as sentences."""
    mdp, trips = problem.mdp, problem.trips
    if trips is not None:  # what every step has counts steps: a trip to a goal ends
        mdp = network_ending(mdp, trips.journeys()[0].goals)
    warnings: list[str] = []
    if any(is_too_large_to_compare(table) for table in problem.features.maps):
        warning = (
            f"{max(problem.features.sizes)} sparse features are too many to compare all of them: "
            "whether some are the same, or depend on each other, was not looked at. A prior on "
            "the weights (--estimator likelihood --prior ridge) holds those that nothing tells."
        )
        warnings.append(warning)
    else:
        warnings = [*feature_findings(problem.features, mdp), *dependent_features(problem.features)]
    if problem.demonstrations is None:
        warnings.append("There are no demonstrations: the problem can be solved, not recovered.")
    else:
        warnings += _of_demonstrations(problem, problem.demonstrations)
    return (*warnings, *slack_budgets(problem))


def _of_demonstrations(problem: Problem, seen: Demonstrations) -> list[str]:
    mdp, layout = problem.mdp, problem.layout
    warnings = []
    if moves := impossible_moves(mdp, seen, layout):
        worst, total = _worst(moves)
        warnings.append(
            f"{total} probability 0 in this world ({worst}): correct the transitions or the data."
        )
    begins = seen.states[seen.offsets[:-1]]
    odd = (mdp.initial[begins] == 0) & ~seen.partial
    if odd.any() and not problem.goal:  # where a network starts is of no account to trips
        names = _named(np.unique(begins[odd]), layout)
        warnings.append(
            f"{int(odd.sum())} episodes begin where this world never starts ({names}): correct "
            "initial, or mark them as partial if they were joined later."
        )
    counts = seen.counts(mdp)
    unseen = np.flatnonzero((counts.sum(axis=1) == 0) & ~mdp.ends)
    if len(unseen):
        many = f"{len(unseen)} of {int((~mdp.ends).sum())} states were never visited"
        warnings.append(
            f"{many} ({_named(unseen, layout)}): what they cost is known only as far as they were "
            "avoided."
        )
    if mdp.evidence:
        warnings += misspelt_actions(counts.sum(axis=0), layout)
    if mdp.choices.sum(axis=1).max() == 1:
        warnings.append("There is only one action: nothing was chosen, so nothing can be learnt.")
    elif (share := single_minded(counts, mdp.choices.sum(axis=1))) > DETERMINISTIC:
        warnings.append(
            f"The expert looks deterministic: {share:.0%} of the steps were taken in states where "
            "it always did the same, so weights are known as a range, not as a point."
        )
    return [*warnings, *(_of_trips(problem) if problem.goal else _of_lengths(mdp, seen))]


def _of_trips(problem: Problem) -> list[str]:
    """What was assumed about trips, and how few there are of them."""
    assert problem.trips is not None
    journeys, findings = problem.trips.journeys()
    warnings: list[str] = [*findings]
    goals, trips = len(journeys.goals), len(journeys.origins)
    if trips == 1:
        warnings.append("There is one trip only: no spread over trips can be told.")
    only = np.asarray(journeys.choices.sum(axis=1) < 2)
    if only.all():
        warnings.append(
            f"No step of these {trips} trips to {goals} goals had a choice: one action alone leads "
            "on, so nothing can be learnt."
        )
    return warnings


def _of_lengths(mdp: MDP, seen: Demonstrations) -> list[str]:
    warnings = []
    if seen.episodes == 1:
        warnings.append("There is one trajectory only: no spread over trajectories can be told.")
    single = int(((seen.lengths == 1) & ~seen.partial & ~seen.ended).sum())
    if single:
        why = "" if mdp.evidence is None else ": they tell little of where actions lead"
        warnings.append(f"{single} of {seen.episodes} trajectories have one step only{why}.")
    over = mdp.ends[seen.last_states]
    odd = seen.ended & ~over & ~mdp.absorbing[seen.last_states] & (seen.final_states >= 0)
    if odd.any():
        warnings.append(
            f"{int(odd.sum())} of {seen.episodes} trajectories are marked as ended in states that "
            "this world leaves: they are taken to be cut off there."
        )
    open_ended = ~(seen.ended | over) & ~seen.partial
    if mdp.discount == 1.0:
        if cut := int((open_ended | odd).sum()):
            warnings.append(
                f"{cut} of {seen.episodes} trajectories do not reach an end: without a discount "
                "nothing bounds what they would still collect."
            )
        return warnings
    horizon = 1.0 / (1.0 - mdp.discount)
    short = int((open_ended & (seen.lengths < horizon)).sum())
    if short > seen.episodes // 2:
        warnings.append(
            f"{short} of {seen.episodes} trajectories are cut off within the horizon "
            f"1 / (1 - discount) = {horizon:.3g} steps (median {np.median(seen.lengths):g}): "
            "longer ones, or a smaller discount, would tell more."
        )
    return warnings


def availability(mdp: MDP, layout: Layout, folder: Path | None) -> tuple[Finding, ...]:
    """How many actions are not available and which states are ends, as findings; none if all are.

    Args:
        mdp: that was read.
        layout: how states and actions are called.
        folder: from which it was read; None where that does not say all of it.
    """
    findings = []
    pairs = np.argwhere(~mdp.available & ~mdp.ends[:, None])
    is_table = folder is not None and (folder / "transitions.csv").exists()
    why = " (no row in transitions.csv)" if is_table else ""
    if len(pairs):
        names = [
            f"{layout.action_name(a)} in {layout.state_name(s)}" for s, a in pairs[: NAMED + 1]
        ]
        names += [""] * (len(pairs) - len(names))
        total = int((~mdp.ends).sum()) * mdp.actions
        sentence = (
            f"{len(pairs)} of {total} pairs of state and action are not available"
            f"{why}: {listed(names, NAMED)}."
        )
        findings.append(Finding(sentence, Kind.ASSUMED, number=len(pairs)))
    ends = np.flatnonzero(mdp.ends)
    if len(ends):
        names = [layout.state_name(int(s)) for s in ends]
        one = len(ends) == 1
        sentence = (
            f"{len(ends)} of {mdp.states} states {'ends an episode' if one else 'end episodes'}"
            f"{why}: {listed(names, NAMED)}. What such a state pays it pays once, on arrival."
        )
        findings.append(Finding(sentence, Kind.ASSUMED, number=len(ends)))
    return tuple(findings)


def misspelt_actions(counts: np.ndarray, layout: Layout) -> list[str]:
    """Rare actions that read like a frequent one, as sentences: no other file lists the actions."""
    warnings = []
    for action, name in enumerate(layout.action_names):
        often = {
            other: index
            for index, other in enumerate(layout.action_names)
            if counts[index] > OFTEN * counts[action] > 0
        }
        for near in get_close_matches(name, often, n=1, cutoff=0.8):
            warnings.append(
                f"Action {name!r} was taken {counts[action]:.0f} times, {near!r} "
                f"{counts[often[near]]:.0f} times: if that is a typing error, correct it; actions "
                "in [names] of problem.toml lists those that there are."
            )
    return warnings


def impossible_sentence(problem: Problem) -> str:
    """What is wrong where known dynamics never make a move that was observed; "" where nothing is.

    Estimated dynamics may well be wrong there: that is a warning only.
    """
    seen, is_known = problem.demonstrations, problem.mdp.evidence is None
    if seen is None or not is_known:
        return ""
    moves = impossible_moves(problem.mdp, seen, problem.layout)
    if not moves:
        return ""
    worst, total = _worst(moves)
    return (
        f"observed moves must have a probability above 0; {total} probability 0 "
        f"({worst}): correct the transitions or the data, or give --allow-impossible"
    )


def _worst(moves: list[Move]) -> tuple[str, str]:
    """(the most frequent of these moves, how many there are), in words."""
    worst = "; ".join(
        f"{state} by {action} to {following}, {'once' if count == 1 else f'{count} times'}"
        for state, action, following, count in moves[:NAMED]
    )
    total = sum(move[3] for move in moves)
    return worst, f"{total} observed {'move has' if total == 1 else 'moves have'}"


def impossible_moves(mdp: MDP, seen: Demonstrations, layout: Layout) -> list[Move]:
    """(state, action, next state, how often) of observed moves of probability 0, worst first."""
    rows, after = impossible_rows(mdp, seen)
    moves = np.stack([seen.states[rows], seen.actions[rows], after[rows]])
    distinct, counts = np.unique(moves, axis=1, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [
        (layout.state_name(s), layout.action_name(a), layout.state_name(n), int(counts[at]))
        for at, (s, a, n) in zip(order, distinct.T[order].tolist(), strict=True)
    ]


def dependent_features(features: Features) -> list[str]:
    """Feature maps whose columns depend on each other beyond pairs, as sentences."""
    warnings = []
    for name, table, labels in (
        ("The reward", features.reward, features.reward_names),
        *((f"Cost {k}", table, features.cost_names[k]) for k, table in enumerate(features.costs)),
    ):
        columns = table.reshape(-1, table.shape[-1])
        columns = columns - columns.mean(axis=0)
        scale = np.linalg.norm(columns, axis=0)
        columns = columns[:, scale > 0] / scale[scale > 0]
        # Pairs of columns that are the same are told elsewhere: only the first one counts here.
        again = np.triu(np.abs(columns.T @ columns) > SAME_CORRELATION, 1).any(axis=0)
        distinct = columns[:, ~again]
        rank = int(np.linalg.matrix_rank(distinct)) if distinct.size else 0
        if rank < distinct.shape[1]:
            warnings.append(
                f"{name} has {len(labels)} features ({some(labels, NAMED)}) of which only {rank} "
                "are independent: their weights cannot all be told apart."
            )
    return warnings


def slack_budgets(problem: Problem) -> list[str]:
    """Constraints of the truth that do not restrain anything, or cannot be met, as sentences."""
    truth, mdp = problem.truth, problem.mdp
    if truth is None or not truth.constraints or mdp.states * mdp.actions > QUICK or problem.goal:
        return []
    solution = solve(mdp, truth, throw=False)
    if solution.status is Status.INFEASIBLE:
        return ["No policy meets the budgets of the truth: tacit solve tells why."]
    return [
        f"Constraint {k} is slack: {spent:.4g} is spent where {budget:.4g} is allowed, so nothing "
        "that was done can tell its cost."
        for k, (spent, budget, price) in enumerate(
            zip(solution.spent, truth.budgets, solution.multipliers, strict=True)
        )
        if price == 0 and spent < budget
    ]


def _named(states: np.ndarray, layout: Layout) -> str:
    return some([layout.state_name(int(s)) for s in states[: NAMED + 1]], NAMED)


def choice(problem: Problem) -> Finding | None:
    """Which estimator would be picked, and why; None without data."""
    from tacit.estimators.recover import choose

    if problem.demonstrations is None:
        return None
    if problem.trips is not None:
        return Finding("Trips, each to a goal, are recovered by their likelihood.", Kind.CHOICE)
    return choose(problem.mdp, problem.features, problem.demonstrations)[1]


def faults(folder: Path, first: Exception) -> tuple[str, ...]:
    """The error met first, and what else is wrong in files that can be read by themselves.

    Args:
        folder: of the problem.
        first: what loading it raised.
    """
    messages = [" ".join(str(first).split())]

    def untold(name: str) -> bool:
        """Whether the file is there and nothing has been said about it yet."""
        return (folder / name).is_file() and str(folder / name) not in messages[0]

    def attempt(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (TacitError, OSError) as error:
            message = " ".join(str(error).split())
            if message not in messages:
                messages.append(message)
            return None

    settings = attempt(lambda: read_settings(folder))
    table = None
    if untold("features.csv"):
        table = attempt(lambda: FeatureTable.read(folder / "features.csv"))
    if table is not None:
        states, actions = in_order(table.states), in_order(table.actions)
        if settings is not None:
            names = Names(states, actions)
            there = np.ones((len(states), max(1, len(actions))), bool)
            attempt(lambda: table_features(table, settings, names, there))
        if untold("transitions.csv"):
            known = Names(states, sources=("features.csv", ""))
            attempt(lambda: TransitionTable.read(folder / "transitions.csv", known))
    for name in FILES:
        if untold(name):
            attempt(lambda name=name: Demonstrations.load_named(folder / name))
    return tuple(messages)
