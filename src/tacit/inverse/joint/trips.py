"""Trips: one network, every trajectory to a goal of its own, and one traveller behind all of them.

The last state of a trajectory is its goal. Weights and noise are shared, so nothing is fitted goal
by goal: the likelihood is the sum over the goals (`flows.py`), and Newton's method finds its
maximum. Complete trips whose moves are certain make it convex.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.forward.soft_dual import SoftDual
from tacit.forward.solution import Solution, conclude, costs_of
from tacit.inverse.expectations import check_task
from tacit.inverse.findings import Finding, Kind, feature_findings, more_data_findings
from tacit.inverse.joint.flows import Journeys, at_ends, goal_world, trimmed
from tacit.inverse.joint.maximum import Likelihoods, evidence_of, method_findings
from tacit.inverse.noisy.coordinates import DeltaMethod, coordinates
from tacit.inverse.noisy.likelihood import (
    Likelihood,
    coefficients_of,
    constraint_findings,
    numbers_of,
    parameter_findings,
)
from tacit.inverse.noisy.steps import Steps
from tacit.inverse.recovery import History, Recovery, RecoveryCertificate, delivered, status_of
from tacit.model.mdp import MDP, checked_discount
from tacit.model.objective import Features, Objective
from tacit.model.transitions import read_only

UNENDED = ("refuse", "drop", "keep")


@dataclass(frozen=True, eq=False)
class Trips:
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

    mdp: MDP
    features: Features
    demonstrations: Demonstrations
    discount: float | None = field(default=None, kw_only=True)
    unended: str = field(default="refuse", kw_only=True)

    def __post_init__(self) -> None:
        check_task(self.mdp, self.features, self.demonstrations, in_memory=True)
        given = self.mdp.discount if self.discount is None else self.discount
        object.__setattr__(self, "discount", checked_discount(given, ends=True))
        if self.unended not in UNENDED:
            raise InvalidModel(f"unended must be one of {UNENDED}; got {self.unended!r:.60}")

    def journeys(self) -> tuple[Journeys, list[Finding]]:
        """The steps, sorted by goal, and what had to be assumed; raises where a trip is none."""
        goals, findings = self._goals()
        kept = np.flatnonzero(goals >= -1)
        if not len(kept):
            raise InvalidDemonstrations("no trajectory ended: no trip is left")
        order = kept[np.argsort(goals[kept], kind="stable")]
        seen, own = self.demonstrations.select(order), goals[order]
        distinct, first = np.unique(own, return_index=True)
        found = Journeys(
            mdp=self.mdp,
            discount=cast("float", self.discount),
            space=coordinates(_ending(self.mdp, distinct), self.features),
            goals=distinct,
            states=seen.states.astype(np.int64),
            actions=seen.actions.astype(np.int64),
            trips=order[seen.episode],
            steps=np.r_[seen.offsets[:-1][first], seen.steps],
            origins=seen.states[seen.offsets[:-1]].astype(np.int64),
            begins=np.r_[first, len(order)],
        )
        self._check(found, own[seen.episode])
        return found, findings

    def _goals(self) -> tuple[np.ndarray, list[Finding]]:
        """[E] the goal of every trajectory, -1 for one without, -2 for one that is left out."""
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
                "last state."
            )
            findings.append(Finding(said, Kind.ASSUMED, number=seen.episodes))
        if not over.all() and self.unended == "refuse":
            e = int(np.argmin(over))
            raise InvalidDemonstrations(
                f"a trip must end in its goal; trajectory {e} did not end (it stops in state "
                f"{goals[e]}): leave it out by unended='drop', or use it without its goal by "
                "unended='keep'"
            )
        lost = over & (goals < 0)
        if lost.any():
            e = int(lost.argmax())
            raise InvalidDemonstrations(
                f"a trip must end in its goal; the state after the last action of trajectory {e} "
                "is not recorded: give final_states"
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
            row = int(passed.argmax())
            raise InvalidDemonstrations(
                f"a trip must end when it reaches its goal; trajectory {found.trips[row]} passes "
                f"its goal, state {goal[row]}, before its end: cut it there, or give the goal an "
                "end state of its own"
            )
        if (goal < 0).any() and found.discount == 1.0 and self.mdp.discount < 1.0:
            raise InvalidModel(
                "trips without a goal end where the network does, which discount 1 needs: give the "
                "network itself discount 1 and ends, or leave them out by unended='drop'"
            )
        there = found.choices
        taken = there[np.arange(len(goal)), found.actions]
        if not taken.all():
            row = int(taken.argmin())
            e, state = found.trips[row], found.states[row]
            lost = f"action {found.actions[row]} may lead where there is none"
            lost = lost if there[row].any() else "there is none"
            raise InvalidDemonstrations(
                f"a trip must have a sure way to its goal; trajectory {e} has goal {goal[row]}, "
                f"and in state {state} {lost}"
            )
        self._check_moves()

    def _check_moves(self) -> None:
        seen, moves = self.demonstrations, self.mdp.transitions
        following = np.r_[seen.states[1:], -1]
        following[seen.offsets[1:] - 1] = seen.final_states
        led = moves.states[seen.states, seen.actions] == following[:, None]
        possible = (led & (moves.probabilities[seen.states, seen.actions] > 0)).any(axis=1)
        odd = ~possible & (following >= 0)
        if odd.any():
            row = int(odd.argmax())
            raise InvalidDemonstrations(
                f"every move must be possible in the network; trajectory {seen.episode[row]} goes "
                f"from state {seen.states[row]} by action {seen.actions[row]} to state "
                f"{following[row]}, which has probability 0"
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class TripsRecovery(Recovery):
    """What the traveller behind all trips wants and refuses.

    There is a policy for every goal, so `solution` is None: `solve` gives that of one goal. Budgets
    are what a trip spends on average.

    Attributes:
        reward_weights: [D] of the reward features.
        cost_weights: one [D_k] per constraint.
        multipliers: [K] price of each budget, in rewards of the gauge.
        budgets: [K] what a trip spends on average, discounted.
        temperature: the demonstrator's noise, in rewards of the gauge; 0 for an optimal one.
        objective: the same as tables, to solve, compare and save.
        solution: None: every goal has one of its own.
        status: how the recovery ended, derived from the certificate.
        certificate: what the status rests on.
        history: the iterations.
        identification: how well each number is known, and the findings.
        estimator: the call that made it.
        reward_names: one name per reward feature.
        cost_names: one tuple of names per constraint.
        parameters: the model's own coefficients, with standard errors and tests.
        log_likelihood: of the observed actions under the recovered policy; NaN without a noise.
        null_log_likelihood: the same of actions at random.
        observed_steps: number of observed actions that the likelihoods are about.
        goodness: whether the model fits what was seen, and where it does not.
        lapses: the share of random steps, where the estimator allows for them; the policy of
            `solution` is that of the other steps.
        forbidden: what the demonstrator never does although its reward would have it done.
        undecided: what no demonstration does, and may or may not be forbidden.
        available: [S, A] bool, the actions of the world without what is forbidden; None where no
            hard constraint was sought.
        network: the model of the trips.
        features: what reward and costs are made of.
        discount: of the trips.
        origins: [T] where the trips began.
        destinations: [T] where they ended; -1 where they did not.
    """

    network: MDP
    features: Features
    discount: float
    origins: np.ndarray
    destinations: np.ndarray
    solution: Solution | None = None  # pyright: ignore[reportIncompatibleVariableOverride]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("origins", "destinations"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name), np.int64)))

    def solve(self, goal: int) -> Solution:
        """The `Solution` of trips to this goal, from where the demonstrated ones to it began.

        A goal that nobody went to is reached from all origins that have a way there. The prices
        are those recovered; the budgets are what such a trip spends.
        """
        if not 0 <= goal < self.network.states:
            raise InvalidModel(f"goal must be a state, 0 to {self.network.states - 1}; got {goal}")
        there = np.asarray(trimmed(self.network, goal).any(axis=1))
        begun = self.origins[self.destinations == goal]
        begun = begun if len(begun) else self.origins[there[self.origins]]
        if not len(begun):
            raise InvalidModel(f"no trip begins where there is a sure way to state {goal}")
        start = np.bincount(begun, minlength=self.network.states) / len(begun)
        world = goal_world(self.network, goal, start, self.discount)
        reward, costs = self.objective.tables_of(world.states, world.actions)
        tables = at_ends(self.network, world, np.concatenate([reward[None], costs]))
        charged = tables[0] - np.tensordot(self.multipliers, tables[1:], 1)
        found = SoftDual(self.temperature).solve(world, Objective(charged), throw=False)
        spent = costs_of(tables[1:], found.visitation)
        return conclude(
            world,
            Objective(tables[0], tables[1:], spent),
            found.visitation,
            found.values,
            self.multipliers,
            tolerance=1e-6,
            temperature=self.temperature,
            policy=found.policy,
            iterations=found.iterations,
        )


def recover_trips(
    trips: Trips, *, estimator: Likelihood | None = None, throw: bool = True
) -> TripsRecovery:
    """The `TripsRecovery` under which the observed trips are most likely.

    Args:
        trips: the network and its trips.
        estimator: a `Likelihood` for its options; None lets reward weights take either sign, as
            the attributes of a route do.
        throw: raise `NotConverged` instead of returning a recovery that says so.
    """
    if estimator is not None and not isinstance(estimator, Likelihood):
        raise InvalidModel(f"trips are recovered by Likelihood; got {estimator!r:.60}")
    options = Likelihood(free_reward=True) if estimator is None else estimator
    options.check()
    options.check_no_lapses("a recovery of trips")
    found, findings = trips.journeys()
    if estimator is None:
        said = "Likelihood was picked for these trips, with reward weights of either sign."
        findings.insert(0, Finding(said, Kind.CHOICE))
    return delivered(_report(options, trips, found, findings), throw)


def _report(
    options: Likelihood, trips: Trips, found: Journeys, findings: list[Finding]
) -> TripsRecovery:
    """The `TripsRecovery` of these trips; `findings` come first."""
    likelihoods, features, space = Likelihoods(found, options), trips.features, found.space
    full = likelihoods.best()
    kept, verdict = likelihoods.active(full)
    # Errors and intervals are those of the fit with every constraint: what is left out was chosen
    # by the same data.
    wide = evidence_of(likelihoods, full)
    evidence = wide if kept is full else evidence_of(likelihoods, kept)
    fitted, gauge, convex = evidence.fitted, evidence.gauge, likelihoods.convex
    counts = np.zeros(trips.mdp.available.shape)
    np.add.at(counts, (found.states, found.actions), 1.0)
    # As the steps of one world, of which nobody asks for values.
    nowhere, target = np.zeros(trips.mdp.states), found.targets.sum(axis=0)
    steps = Steps(trips.mdp, space, counts, nowhere, target, None)
    numbers = numbers_of(steps, wide).reported(gauge)
    weights, clustered = numbers.ends[: space.size], wide.found.clustered
    findings += constraint_findings(evidence, verdict)
    findings += parameter_findings(steps, evidence)
    findings += feature_findings(features, _ending(trips.mdp, found.goals))
    findings += method_findings(likelihoods, wide, convex)
    findings += more_data_findings(list(space.names), weights, trips.demonstrations, clustered)
    known = (wide.found.covariance, wide.found.blind, numbers.ends)
    answer = None if wide.absence else DeltaMethod.of(space, fitted.point.x, gauge, *known)
    costs = [w if np.isfinite(w).all() else np.zeros(len(w)) for w in gauge.cost_weights]
    loss = float(fitted.point.loss) - 0.5 * float(fitted.problem.ridge @ fitted.point.x**2)
    return TripsRecovery(
        reward_weights=gauge.reward_weights,
        cost_weights=gauge.cost_weights,
        multipliers=gauge.multipliers,
        budgets=gauge.budgets,
        temperature=gauge.temperature,
        objective=features.objective(np.nan_to_num(gauge.reward_weights), costs, gauge.budgets),
        status=status_of(
            converged=fitted.converged, deterministic=evidence.boundless, proven=convex
        ),
        certificate=RecoveryCertificate(
            projected_gradient=fitted.projected_gradient,
            objective_gap=fitted.objective_gap if convex else np.nan,
        ),
        history=History({"loss": [loss], "evaluations": [fitted.steps]}),
        identification=numbers.identification(
            space,
            findings=findings,
            verdict=verdict if full.fitted.converged else None,
            answer=answer,
        ),
        estimator=f"{options!r} of trips to {len(found.goals)} goals",
        reward_names=features.reward_names,
        cost_names=features.cost_names,
        parameters=coefficients_of(steps, features, wide, fitted),
        log_likelihood=-loss,
        null_log_likelihood=-float(np.log(found.choices.sum(axis=1)).sum()),
        observed_steps=len(found.states),
        network=trips.mdp,
        features=features,
        discount=found.discount,
        origins=found.origins,
        destinations=np.repeat(found.goals, np.diff(found.begins)),
    )


def _ending(mdp: MDP, goals: np.ndarray) -> MDP:
    """The network with one of the goals an end: the features of a world in which sums stop."""
    closed = mdp.available.copy()
    closed[goals[-1]] = False
    return MDP(mdp.transitions, mdp.initial, 0.5, available=closed)
