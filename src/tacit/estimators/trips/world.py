"""Trips: one network, every trajectory to a goal of its own, and the ways to each goal.

The last state of a trajectory is its goal. For a goal nothing but the goal ends a trip, and pairs
that may lead to a state without a sure way there are not available.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, Self, cast

import numpy as np

from tacit.data.tally import impossible_rows
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.estimators.task import Task
from tacit.inference.findings import Finding, Kind
from tacit.likelihood.start import Options
from tacit.model.features.design import Design
from tacit.model.layout import Layout
from tacit.model.mdp import MDP, checked_discount
from tacit.model.objective import Features

if TYPE_CHECKING:
    from tacit.estimators.trips.chain import TripsChain

UNENDED = ("refuse", "drop", "keep")


class BadTrip(InvalidDemonstrations):
    """A trip that cannot be one; its step is known, so that a reader can name file and line.

    Attributes:
        row: number of the step among all steps of the demonstrations.
        trajectory: number of the trip.
    """

    def __init__(self, words: str, row: int, trajectory: int, **places: int) -> None:
        self.row, self.trajectory = row, trajectory
        self._words, self._places = words, places
        super().__init__(self.sentence())

    def sentence(self, layout: Layout | None = None) -> str:
        """What must hold, and what was got; with a layout by name, for where the line is told."""
        named = Layout() if layout is None else layout
        parts = {
            what: (named.action_name if what == "action" else named.state_name)(number)
            for what, number in self._places.items()
        }
        which = f"trajectory {self.trajectory}" if layout is None else "this one"
        return self._words.format(trip=which, **parts)


@dataclass(frozen=True, eq=False)
class Trips(Task):
    """One network, and trajectories that each have a goal of their own: their last state.

    In a trip to a goal nothing but the goal ends it. Pairs of state and action that may lead to a
    state without a sure way there are not available to it, and other trips' goals are states like
    any other. What a state pays, the goal pays on arrival; what an action pays, it does not.

    Attributes:
        mdp: the network; where it starts is of no account.
        features: what reward and costs may be made of, the same for all trips.
        demonstrations: the trips.
        discount: of the trips; None for that of the network. A network without an end of its own
            has one below 1, its trips may have 1.
        unended: what to do with trajectories that did not end, where others are marked as ended:
            "refuse" them with an error, "drop" them, or "keep" them without a goal, in the network
            as it is and with its own ends.
    """

    discount: float | None = field(default=None, kw_only=True)
    unended: str = field(default="refuse", kw_only=True)

    def __post_init__(self) -> None:
        self.check_in_memory()
        given = self.mdp.discount if self.discount is None else self.discount
        object.__setattr__(self, "discount", checked_discount(given, ends=True))
        if self.unended not in UNENDED:
            raise InvalidModel(f"unended must be one of {UNENDED}; got {self.unended!r:.60}")

    def journeys(self) -> tuple[Journeys, list[Finding]]:
        """The steps, sorted by goal, and what had to be assumed; raises where a trip is none."""
        goals, findings = self._ended
        kept = np.flatnonzero(goals >= -1)
        if not len(kept):
            raise InvalidDemonstrations("no trajectory ended: no trip is left")
        order = kept[np.argsort(goals[kept], kind="stable")]
        seen, own = self.demonstrations.select(order), goals[order]
        distinct, first = np.unique(own, return_index=True)
        who = seen.individuals
        whose = None if who is None else np.unique(who, return_inverse=True)[1][seen.episode]
        found = Journeys(
            mdp=self.mdp,
            discount=cast("float", self.discount),
            space=Design.of(network_ending(self.mdp, distinct), self.features),
            goals=distinct,
            states=seen.states.astype(np.int64),
            actions=seen.actions.astype(np.int64),
            trips=order[seen.episode],
            steps=np.r_[seen.offsets[:-1][first], seen.steps],
            origins=seen.states[seen.offsets[:-1]].astype(np.int64),
            begins=np.r_[first, len(order)],
            individuals=whose,
        )
        self._check(found, own[seen.episode])
        return found, list(findings)

    @property
    def without_dropped(self) -> Self:
        """The trips without the trajectories that are left out."""
        used = self.goals > -2
        return self if used.all() else self.select(used)

    def with_discount(self, discount: float) -> Self:
        """The same trips at another discount."""
        return replace(self, discount=float(discount))

    def chain(self, options: Options) -> TripsChain:
        """The likelihood of all trips."""
        from tacit.estimators.trips.chain import TripsChain

        return TripsChain.of(self.journeys()[0], options.tolerance)

    def group_chains(self, group: np.ndarray, options: Options) -> list[TripsChain]:
        """The likelihood of each group of trips, `group` [E] being its number."""
        numbers = range(int(group.max()) + 1)
        return [self.select(group == number).chain(options) for number in numbers]

    @property
    def goals(self) -> np.ndarray:
        """[E] the goal of every trajectory, -1 for one without, -2 for one that is left out."""
        return self._ended[0]

    @cached_property
    def _ended(self) -> tuple[np.ndarray, list[Finding]]:
        """The goals, and what had to be assumed."""
        seen, findings = self.demonstrations, []
        goals = seen.final_states.astype(np.int64)
        last = seen.offsets[1:] - 1
        moves = self.mdp.transitions
        chances = moves.probabilities[seen.states[last], seen.actions[last]]
        led = moves.states[seen.states[last], seen.actions[last]]
        sure = np.take_along_axis(led, chances.argmax(axis=1)[:, None], axis=1)[:, 0]
        goals = np.where((goals < 0) & (chances.max(axis=1) == 1.0), sure, goals)
        if seen.ended.any():
            over = seen.ended
        else:
            over = np.ones(seen.episodes, bool)
            said = (
                "No trajectory is marked as ended: each is taken to have reached its goal in its "
                "last state. (A column `ended` in the demonstrations says which did.)"
            )
            findings.append(Finding(said, Kind.ASSUMED, number=seen.episodes))
        if not over.all() and self.unended == "refuse":
            e = int(np.argmin(over))
            raise BadTrip(
                "a trip must end in its goal; {trip} did not end (its last action was in {state}): "
                'leave it out by unended = "drop", or use it without its goal by unended = "keep"',
                int(last[e]),
                e,
                state=int(seen.states[last[e]]),
            )
        lost = over & (goals < 0)
        if lost.any():
            e = int(lost.argmax())
            raise BadTrip(
                "a trip must end in its goal; the state after the last action of {trip} is not "
                "recorded: give final_states",
                int(last[e]),
                e,
            )
        if not over.all():
            many = int((~over).sum())
            done = "left out" if self.unended == "drop" else "used without a goal"
            said = f"{many} of {seen.episodes} trajectories did not end: they were {done}."
            findings.append(Finding(said, Kind.TRUNCATED, number=many))
        return np.where(over, goals, -2 if self.unended == "drop" else -1), findings

    def _check(self, found: Journeys, goal: np.ndarray) -> None:
        """Raises unless every trip, its goals given for every step [N], is one that can be made."""
        passed = found.states == goal
        if passed.any():
            self._refuse(
                found,
                int(passed.argmax()),
                "a trip must end when it reaches its goal; {trip} passes its goal, {goal}, before "
                "its end: cut it there, or give the goal an end state of its own",
                goal=goal,
            )
        if (goal < 0).any() and found.discount == 1.0 and self.mdp.discount < 1.0:
            raise InvalidModel(
                "trips without a goal end where the network does, which discount 1 needs: give the "
                'network itself discount 1 and ends, or leave them out by unended = "drop"'
            )
        there = found.choices
        taken = there[np.arange(len(goal)), found.actions]
        if not taken.all():
            row = int(taken.argmin())
            lost = "{action} may lead where there is none" if there[row].any() else "there is none"
            words = "a trip must have a sure way to its goal; {trip} has the goal {goal}, and in "
            self._refuse(found, row, words + "{state} " + lost, goal=goal)
        seen = self.demonstrations
        odd, following = impossible_rows(self.mdp, seen)
        if len(odd):
            row = int(odd[0])
            raise BadTrip(
                "every move must be possible in the network; {trip} goes from {state} by {action} "
                "to {reached}, which has probability 0",
                row,
                int(seen.episode[row]),
                state=int(seen.states[row]),
                action=int(seen.actions[row]),
                reached=int(following[row]),
            )

    def _refuse(self, found: Journeys, row: int, words: str, *, goal: np.ndarray) -> NoReturn:
        """Raises `BadTrip` about a step, given by its number among the steps sorted by goal."""
        e = int(found.trips[row])
        place = row - int(np.flatnonzero(found.trips == e)[0])
        raise BadTrip(
            words,
            int(self.demonstrations.offsets[e]) + place,
            e,
            goal=int(goal[row]),
            state=int(found.states[row]),
            action=int(found.actions[row]),
        )


def network_ending(mdp: MDP, goals: np.ndarray) -> MDP:
    """The network with one of the goals an end: the features of a world in which sums stop."""
    closed = mdp.available.copy()
    closed[goals[-1]] = False
    return MDP(mdp.transitions, mdp.initial, 0.5, available=closed)


@dataclass(frozen=True, eq=False, kw_only=True)
class Journeys:
    """Chain of trips, goal by goal.

    Attributes:
        mdp: the network.
        discount: of the trips.
        space: the coordinates, rows of every goal as in the network.
        goals: [G] distinct goals; -1 for trips without one, which end where the network does.
        states: [N] where every step was taken, sorted by goal.
        actions: [N] what was done there.
        trips: [N] number of the trajectory.
        steps: [G + 1] goal i has the steps from steps[i] to steps[i + 1].
        origins: [T] first states of the trips, sorted by goal.
        begins: [G + 1] goal i has the trips from begins[i] to begins[i + 1].
        individuals: [N] number of who made the step, whose trips are not independent, if named.
    """

    mdp: MDP
    discount: float
    space: Design
    goals: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    trips: np.ndarray
    steps: np.ndarray
    origins: np.ndarray
    begins: np.ndarray
    individuals: np.ndarray | None = None

    @cached_property
    def targets(self) -> np.ndarray:
        """[G, D] sums of the features over the steps to each goal."""
        rows = self.space.tables[:, self.states, self.actions]
        return np.add.reduceat(rows, self.steps[:-1], axis=1).T

    @cached_property
    def successors(self) -> np.ndarray | None:
        """[S, A] the next states where every available move is certain, else None."""
        moves = self.mdp.transitions
        best = moves.probabilities.argmax(axis=2)[..., None]
        sure = np.take_along_axis(moves.probabilities, best, axis=2)[..., 0] == 1.0
        if not sure[self.mdp.available].all():
            return None
        return np.take_along_axis(moves.states, best, axis=2)[..., 0]

    @property
    def certain(self) -> bool:
        """Whether every move is certain, and every trip has a goal."""
        return self.successors is not None and bool(self.goals[0] >= 0)

    @cached_property
    def reach(self) -> np.ndarray:
        """[G, S] bool, the states that have a way to each goal, of moves that are certain."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, connected_components

        assert self.successors is not None
        states, at = self.mdp.states, np.nonzero(self.mdp.available)[0]
        moves = (np.ones(len(at)), (self.successors[self.mdp.available], at))
        graph = csr_array(moves, shape=(states, states))
        _, parts = connected_components(graph, connection="strong")
        found, reach = {}, np.zeros((len(self.goals), states), bool)
        for i, goal in enumerate(self.goals.tolist()):
            if parts[goal] not in found:  # one search serves all goals that reach each other
                found[parts[goal]] = breadth_first_order(graph, goal, return_predecessors=False)
            reach[i, found[parts[goal]]] = True
        return reach

    @cached_property
    def choices(self) -> np.ndarray:
        """[N, A] bool, the actions that there were on the way to the goal, at every step."""
        if self.certain:
            assert self.successors is not None
            own = np.repeat(np.arange(len(self.goals)), np.diff(self.steps))
            on_the_way = self.reach[own[:, None], self.successors[self.states]]
            return self.mdp.available[self.states] & on_the_way
        there = np.empty((len(self.states), self.mdp.actions), bool)
        for i, goal in enumerate(self.goals.tolist()):
            rows = slice(self.steps[i], self.steps[i + 1])
            there[rows] = trimmed(self.mdp, goal)[self.states[rows]]
        return there

    def starts(self, i: int) -> np.ndarray:
        """[S] how many trips to goal i begin in each state."""
        begun = self.origins[self.begins[i] : self.begins[i + 1]]
        return np.bincount(begun, minlength=self.mdp.states).astype(float)


def trimmed(mdp: MDP, goal: int) -> np.ndarray:
    """[S, A] bool, the pairs of a trip to this goal: those that leave a sure way there.

    A state that has none is left out with all pairs that may lead to it, until nothing changes.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    there = mdp.available.copy()
    if goal < 0:
        return there
    there[goal] = False
    moves, positive = mdp.transitions.states, mdp.transitions.probabilities > 0
    while True:
        at = np.nonzero(positive & there[:, :, None])
        graph = csr_array((np.ones(len(at[0])), (moves[at], at[0])), shape=(mdp.states,) * 2)
        sure = np.zeros(mdp.states, bool)
        sure[breadth_first_order(graph, goal, return_predecessors=False)] = True
        kept = there & (sure[moves] | ~positive).all(axis=2) & sure[:, None]
        if (kept == there).all():
            return kept
        there = kept


def goal_world(mdp: MDP, goal: int, initial: np.ndarray, discount: float) -> MDP:
    """The `MDP` of a trip to this goal; states without a way there are ends nobody enters."""
    return MDP(mdp.transitions, initial, discount, available=trimmed(mdp, goal))


def paid(mdp: MDP, tables: np.ndarray, states: np.ndarray) -> np.ndarray:
    """[D, n] what the features [D, S, A] of these states are if the trip ends there.

    The arrival is no action: a feature that depends on what is done next is 0.
    """
    rows = tables[:, states]
    there = mdp.available[states] | mdp.ends[states][:, None]
    most = np.where(there, rows, -np.inf).max(axis=2)
    return np.where(most == np.where(there, rows, np.inf).min(axis=2), most, 0.0)


def at_ends(mdp: MDP, world: MDP, tables: np.ndarray) -> np.ndarray:
    """[D, S, A] the features of the network, rows of the world's ends as they are `paid`."""
    changed, ends = tables.copy(), np.flatnonzero(world.ends)
    changed[:, ends] = paid(mdp, tables, ends)[:, :, None]
    return changed


def between(
    mdp: MDP, features: Features, discount: float, origins: np.ndarray, goals: np.ndarray
) -> tuple[Journeys, int]:
    """Trips of which only origins and goals [T] are given, and how many have no way and are out."""
    ways = {goal: np.any(trimmed(mdp, goal), axis=1) for goal in np.unique(goals).tolist()}
    open_ = np.array([bool(ways[g][o]) for o, g in zip(origins, goals, strict=True)])
    order = np.flatnonzero(open_)[np.argsort(goals[open_], kind="stable")]
    distinct, first = np.unique(goals[order], return_index=True)
    if not len(distinct):
        raise InvalidModel("some trip must have a way to its goal; none has")
    none = np.zeros(0, np.int64)
    found = Journeys(
        mdp=mdp,
        discount=discount,
        space=Design.of(network_ending(mdp, distinct), features),
        goals=distinct,
        states=none,
        actions=none,
        trips=none,
        steps=np.zeros(len(distinct) + 1, np.int64),
        origins=origins[order],
        begins=np.r_[first, len(order)],
    )
    return found, int((~open_).sum())
