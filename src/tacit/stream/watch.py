"""Alarms: whether a demonstrator still does what it did, on steps that go on arriving.

The evidence is a Shiryaev-Roberts sum over the times at which a change may have happened, of the
likelihood of all steps since under something else, over their largest one within the confidence set
of the reference. Under any demonstrator of that set the sum less the number of steps is a
supermartingale: steps until an alarm are, on average, at least what the sum must reach (the
e-detectors of Shin, Ramdas and Rinaldo 2023).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from tacit.data.demonstrations import Demonstrations
from tacit.data.observed import Observed
from tacit.data.tally import Tally, tally_of
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.arrays import read_arrays, write_arrays
from tacit.files.atomic import BadFile
from tacit.files.trees import pack, sound, unpack
from tacit.inference.expectations import check_task
from tacit.inference.findings import Finding, Kind
from tacit.model.arguments import number
from tacit.stream.reference import Reference
from tacit.stream.updating import origin_of

if TYPE_CHECKING:
    from tacit.recovery import Recovery

Level = Literal["none", "warning", "alarm"]
LEVELS: tuple[Level, ...] = get_args(Level)
# A start whose number is an odd multiple of 2^v is watched for so many times 2^v batches.
LIFETIME = 8
# Share of the run length at which a warning is given.
WARNING_SHARE = 0.1
# Share of the largest evidence of a start below which a start is not evaluated exactly.
SCREENED_SHARE = 1e-3
# Most points of the history; beyond, every other one is dropped.
MOST_POINTS = 1000


@dataclass(frozen=True, eq=False, kw_only=True)
class Start:
    """A time at which a change may have happened.

    Attributes:
        batch: number of the first batch after it, from 1.
        steps: how many were seen before it.
        weight: steps of its batch.
        sums: [...] of all steps before it, as `Reference.sums`.
        counts: [S, A] of all steps before it.
    """

    batch: int
    steps: int
    weight: int
    sums: np.ndarray
    counts: np.ndarray

    def is_watched(self, batch: int) -> bool:
        """Whether it is still watched after this batch.

        A doubling schedule: the lifetime grows with the power of two that divides the start's own
        number. Old starts lie farther apart, and their number grows as the logarithm of batches.
        """
        largest_power_of_two = self.batch & -self.batch
        return batch - self.batch <= LIFETIME * largest_power_of_two


@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """Where a watch stands; all that is saved of it.

    Attributes:
        reference: [D + 2] centre and radius of the confidence set, and the run length.
        batches: how many were seen.
        steps: how many were seen.
        sums: [...] of all steps, as `Reference.sums`.
        counts: [S, A] of all steps.
        starts: times at which a change may have happened.
        level: "none", "warning" or "alarm".
        alarm: number of steps at which the alarm was given; 0 for none.
        suspect: the likeliest time of the change; None before a warning.
        logs: [names] log evidence by what may have changed.
        history: (steps, log evidence) of some batches.
        stride: batches from one point of the history to the next.
    """

    reference: np.ndarray
    batches: int
    steps: int
    sums: np.ndarray
    counts: np.ndarray
    starts: tuple[Start, ...] = ()
    level: Level = "none"
    alarm: int = 0
    suspect: Start | None = None
    logs: np.ndarray
    history: tuple[tuple[float, float], ...] = ()
    stride: int = 1


class Watch:
    """Whether a demonstrator still does what it did.

    `update` takes steps as they arrive. The level goes up and never down: a new recovery makes a
    new watch. On average at least `run_length` steps pass before a false alarm, if the demonstrator
    was, and stays, one within the reference's confidence set: that holds in `confidence` of
    references whose model fits. A change to another one inside the set cannot be seen.
    """

    def __init__(
        self, recovery: Recovery, run_length: float = 10_000, *, confidence: float = 0.95
    ) -> None:
        """A watch that knows what this recovery knows.

        Args:
            recovery: the reference, by `Likelihood`.
            run_length: steps until a false alarm, on average at least.
            confidence: of the reference's set.
        """
        number(run_length, "run_length", "a number of steps above 1", lambda n: 1.0 < n < np.inf)
        number(confidence, "confidence", "in (0, 1)", lambda share: 0.0 < share < 1.0)
        self.run_length, self.confidence = float(run_length), float(confidence)
        self.recovery, self.origin = recovery, origin_of(recovery)
        self.reference = Reference.of(recovery, confidence=confidence)
        reference = self.reference
        no_steps = np.zeros((self.origin.mdp.states, self.origin.mdp.actions))
        self.state = State(
            reference=np.array([*reference.centre, reference.radius, self.run_length]),
            batches=0,
            steps=0,
            sums=np.zeros_like(reference.sums(no_steps)),
            counts=no_steps,
            logs=np.full(len(reference.names), -np.inf),
        )

    @property
    def level(self) -> Level:
        """How sure a change is: "none", "warning" or "alarm"; it never goes down."""
        return self.state.level

    @property
    def changed(self) -> str | None:
        """What moved, by the evidence of all steps since; None before a warning."""
        if self.state.suspect is None:
            return None
        return self.reference.names[int(np.argmax(self.state.logs))]

    @property
    def since(self) -> int | None:
        """Number of steps that had been seen when it moved, as estimated; None before a warning."""
        return None if self.state.suspect is None else self.state.suspect.steps

    @property
    def evidence(self) -> float:
        """The sum that gives the alarm where it reaches the run length."""
        return float(np.exp(min(np.logaddexp.reduce(self.state.logs), 700.0)))

    @property
    def steps(self) -> int:
        """How many steps were seen."""
        return self.state.steps

    @property
    def alarm(self) -> int | None:
        """Number of steps at which the alarm was given; None for none."""
        return self.state.alarm or None

    @property
    def history(self) -> np.ndarray:
        """[n, 2] steps and log10 of the evidence, of at most 1000 batches."""
        points = np.array(self.state.history, float).reshape(-1, 2)
        return points / [1.0, np.log(10.0)]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Misfit of the reference, a change, and what is promised of false alarms."""
        found = [] if self.recovery.goodness.adequate else [MISFIT]
        if self.level != "none":
            found.append(
                Finding(
                    f"{self.level.capitalize()}: {self.changed} changed after about {self.since} "
                    f"of {self.steps} steps (evidence {self.evidence:.3g}, an alarm is "
                    f"{self.run_length:g}).",
                    Kind.CHANGED,
                    number=self.since,
                )
            )
        return (*found, self._promise())

    def _promise(self) -> Finding:
        return Finding(
            f"On average at least {self.run_length:g} steps pass before a false alarm, for any "
            f"demonstrator in the reference's {self.confidence:.0%} confidence set, if the "
            "model holds. A change to another demonstrator in that set cannot be seen.",
            Kind.NOTE,
            number=self.run_length,
        )

    def update(self, steps: Observed | tuple[npt.ArrayLike, npt.ArrayLike]) -> Watch:
        """The watch itself, after more steps: demonstrations, sums, or (states, actions)."""
        counts = self._counts(steps)
        size = round(float(counts.sum()))
        if not size:
            return self
        before = self.state
        batch = before.batches + 1
        start = Start(
            batch=batch,
            steps=before.steps,
            weight=size,
            sums=before.sums,
            counts=before.counts,
        )
        starts = (*before.starts, start)
        state = replace(
            before,
            batches=batch,
            steps=before.steps + size,
            sums=before.sums + self.reference.sums(counts),
            counts=before.counts + counts,
            starts=tuple(start for start in starts if start.is_watched(batch)),
        )
        self.state = _with_history(self._with_evidence(state))
        return self

    def _counts(self, steps: object) -> np.ndarray:
        """[S, A] how often each action was taken in the steps handed to `update`."""
        mdp = self.origin.mdp
        if isinstance(steps, tuple) and len(steps) == 2:
            states, actions = map(np.atleast_1d, steps)
            steps = Demonstrations(
                states, actions, np.array([0, len(states)]), partial=np.array([True])
            )
        if isinstance(steps, Observed):
            check_task(mdp, self.origin.features, steps)
            return tally_of(mdp, steps).counts if isinstance(steps, Tally) else steps.counts(mdp)
        raise InvalidDemonstrations(
            "update takes demonstrations, their sums, or (states, actions); "
            f"got {type(steps).__name__}"
        )

    def _with_evidence(self, state: State) -> State:
        """The state with its evidence, its level and the likeliest time of a change."""
        starts, suspect = list(state.starts), state.suspect
        if suspect is not None and all(start.batch != suspect.batch for start in starts):
            starts.append(suspect)  # it stays in sight
        log_evidence = self._log_evidence(state, starts)
        total = float(np.logaddexp.reduce(log_evidence, axis=None))
        level = max(self._level(total), state.level, key=LEVELS.index)
        if self._level(total) != "none":
            suspect = starts[int(np.logaddexp.reduce(log_evidence, axis=1).argmax())]
        return replace(
            state,
            logs=np.logaddexp.reduce(log_evidence, axis=0),
            level=level,
            alarm=state.alarm or (state.steps if level == "alarm" else 0),
            suspect=suspect,
        )

    def _level(self, log_evidence: float) -> Level:
        """The level of so much evidence by itself."""
        if log_evidence >= np.log(self.run_length):
            return "alarm"
        return "warning" if log_evidence >= np.log(WARNING_SHARE * self.run_length) else "none"

    def _log_evidence(self, state: State, starts: list[Start]) -> np.ndarray:
        """[J, names] log evidence of a change at each start, by what may have changed.

        Screening: all starts are evaluated to second order. Only where that reaches a warning, the
        starts that matter are evaluated exactly; evidence without the others is valid, too.
        """
        reference = self.reference
        counts = np.stack([state.counts - start.counts for start in starts])
        sums = np.stack([state.sums - start.sums for start in starts])
        weights = np.log([[start.weight] for start in starts]) + np.log(reference.shares)
        gains = reference.gains(sums, counts) + weights
        largest, pulls = reference.largest_near(sums)
        screened = gains - largest[:, None]
        total = float(np.logaddexp.reduce(screened, axis=None))
        if state.level == "alarm" or self._level(total) == "none":
            return screened
        by_start = np.logaddexp.reduce(screened, axis=1)
        exact = np.full_like(gains, -np.inf)
        for j in np.flatnonzero(by_start >= by_start.max() + np.log(SCREENED_SHARE)):
            bound = reference.largest(counts[j], float(pulls[j]))
            exact[j] = gains[j] - (bound - sums[j, 0])
        return exact

    def save(self, path: str | Path) -> None:
        """Writes where the watch stands, as one npz file, whole or not at all."""
        write_arrays(Path(path), pack(self.state))

    @classmethod
    def load(
        cls,
        path: str | Path,
        recovery: Recovery,
        run_length: float = 10_000,
        *,
        confidence: float = 0.95,
    ) -> Watch:
        """The watch that was saved, of the same recovery."""
        watch = cls(recovery, run_length, confidence=confidence)
        with sound(Path(path), "the state of a watch"):
            state = unpack(read_arrays(Path(path)))
            if not isinstance(state, State):
                raise BadFile(f"it holds a {type(state).__name__}")
        return watch.resumed(state)

    def resumed(self, state: State) -> Watch:
        """The watch itself, which goes on from this state of a watch of the same reference."""
        mine = self.state.reference
        if mine.shape != state.reference.shape or not np.allclose(mine, state.reference, 1e-6):
            raise InvalidModel(
                "a watch can go on only where its reference, confidence and run length are the "
                "same; these are others: begin a new one"
            )
        self.state = state
        return self

    def __repr__(self) -> str:
        what = "" if self.changed is None else f", changed={self.changed!r}, since={self.since}"
        return f"Watch({self.level}{what}, steps={self.steps}, evidence={self.evidence:.3g})"


MISFIT = Finding(
    "The reference does not fit what it was fitted to: an alarm may be about that, not a change.",
    Kind.MISFIT,
)


def _with_history(state: State) -> State:
    """The state with its evidence in the history; a full history drops every other point."""
    if state.batches % state.stride:
        return state
    point = (float(state.steps), float(np.logaddexp.reduce(state.logs)))
    history = (*state.history, point)
    if len(history) <= MOST_POINTS:
        return replace(state, history=history)
    return replace(state, history=history[1::2], stride=2 * state.stride)
