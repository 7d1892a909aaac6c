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
from typing import TYPE_CHECKING, Any, Literal, get_args

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
# A start whose number is an odd multiple of 2^v is looked at for so many times 2^v batches.
LIVES = 8
# Share of the run length at which a warning is given.
WARNING = 0.1
# Share of the evidence below which a start is not looked at exactly.
SLIGHT = 1e-3
# Most points of the history; beyond, every other one is dropped.
POINTS = 1000


@dataclass(frozen=True, eq=False, kw_only=True)
class Start:
    """A time at which a change may have happened.

    Attributes:
        batch: its number, from 1.
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

    def lives(self, batch: int) -> bool:
        """Whether it is looked at after this batch: old starts lie farther apart."""
        return batch - self.batch <= LIVES * (self.batch & -self.batch)


@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """Where a watch stands; all that is saved of it.

    Attributes:
        reference: [...] what the reference, its confidence and the run length are.
        batches: how many were seen.
        steps: in them.
        sums: [...] of all of them, as `Reference.sums`.
        counts: [S, A] of all of them.
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
        shape = (self.origin.mdp.states, self.origin.mdp.actions)
        known = self.reference
        self.state = State(
            reference=np.array([*known.centre, known.radius, self.run_length]),
            batches=0,
            steps=0,
            sums=np.zeros_like(known.sums(np.zeros(shape))),
            counts=np.zeros(shape),
            logs=np.full(len(known.names), -np.inf),
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
        """What was seen, and what is promised."""
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
        before, known = self.state, self.reference
        many = round(float(counts.sum()))
        if not many:
            return self
        batch = before.batches + 1
        sofar = {"steps": before.steps, "sums": before.sums, "counts": before.counts}
        starts = (*before.starts, Start(batch=batch, weight=many, **sofar))
        state = replace(
            before,
            batches=batch,
            steps=before.steps + many,
            sums=before.sums + known.sums(counts),
            counts=before.counts + counts,
            starts=tuple(one for one in starts if one.lives(batch)),
        )
        self.state = _with_history(self._judged(state))
        return self

    def _counts(self, steps: Any) -> np.ndarray:
        """[S, A] of what was handed over."""
        mdp = self.origin.mdp
        if isinstance(steps, tuple) and len(steps) == 2:
            states, actions = (np.atleast_1d(np.asarray(part)) for part in steps)
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

    def _judged(self, state: State) -> State:
        """The state with its evidence and level: screened to second order, told exactly."""
        known, starts, suspect = self.reference, list(state.starts), state.suspect
        if suspect is not None and all(one.batch != suspect.batch for one in starts):
            starts.append(suspect)  # it stays in sight
        counts = np.stack([state.counts - one.counts for one in starts])
        sums = np.stack([state.sums - one.sums for one in starts])
        weights = np.log([[one.weight] for one in starts]) + np.log(known.shares)
        gains = known.gains(sums, counts) + weights
        near, pulls = known.largest_near(sums)
        logs = gains - near[:, None]
        warning, alarm = np.log(WARNING * self.run_length), np.log(self.run_length)
        if state.level != "alarm" and np.logaddexp.reduce(logs, axis=None) >= warning:
            each = np.logaddexp.reduce(logs, axis=1)
            # Evidence without some of the starts is valid, too.
            logs = np.full_like(gains, -np.inf)
            for j in np.flatnonzero(each >= each.max() + np.log(SLIGHT)):
                bound = known.largest(counts[j], float(pulls[j]))
                logs[j] = gains[j] - (bound - sums[j, 0])
        total = float(np.logaddexp.reduce(logs, axis=None))
        reached = int(total >= warning) + int(total >= alarm)
        level = LEVELS[max(reached, LEVELS.index(state.level))]
        if total >= warning:
            suspect = starts[int(np.logaddexp.reduce(logs, axis=1).argmax())]
        began = state.alarm or (state.steps if level == "alarm" else 0)
        each = np.logaddexp.reduce(logs, axis=0)
        return replace(state, logs=each, level=level, alarm=began, suspect=suspect)

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
        """The watch itself, gone on with from this state of a watch of the same reference."""
        mine = self.state.reference
        if mine.shape != state.reference.shape or not np.allclose(mine, state.reference, 1e-6):
            raise InvalidModel(
                "a watch is gone on with where its reference, confidence and run length are the "
                "same; they are others here: begin a new one"
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
    """The state, its evidence among the history; where that is full every other point is left."""
    if state.batches % state.stride:
        return state
    point = (float(state.steps), float(np.logaddexp.reduce(state.logs)))
    history, stride = (*state.history, point), state.stride
    if len(history) > POINTS:
        history, stride = history[1::2], 2 * stride
    return replace(state, history=history, stride=stride)
