"""Many draws of one question, resumable: what is asked, and the plain numbers each leaves."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeAlias,
    TypedDict,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import tacit
from tacit import InvalidModel

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


# The estimators that are compared, by the name that people and files see.
RULES, CALIBRATED = "Algorithm 1, as published", "Algorithm 1, calibrated budget"
SLIDES, EXPLANATION = "Algorithm 1, bound of the slides", "Explanation set"
MATCHING, LIKELIHOOD = "Feature matching (Convex)", "Step likelihood"
REWARD_ONLY, RANDOM = "Reward only", "Random weights"
FIGURE = -1  # the seed that stands for the published draw
UNITS = "units"  # the folder with a file for each unit of work
FIGURES = "figures"  # the folder of those drawn with every draw
PUBLISHED, BINDING = "published", "binding"
# Options of Algorithm 1, each with its words, the usual one first.
RULE_CHOICES = {
    "multiplier": ("optimal", "at-least-one"),
    "update": ("exponentiated", "projected"),
}
HALFWAY = 0.5  # tightness of the block that binds
LENGTHS = (20, 50, 100, 200, 500, 1000, 2000)
COUNTS = (5, 10, 20, 50, 100, 200)


class Rules(TypedDict):
    """Words chosen for the options in `RULE_CHOICES`."""

    multiplier: str
    update: str


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """What to reproduce, and the folder to write."""

    seeds: int = 10
    """number of draws of the grid: seeds 0, 1, ..."""
    trajectories: int = 100
    """number of demonstrations in each draw"""
    steps: int = 2000
    """length T of a demonstration"""
    discount: float = 0.9
    """discount factor; the paper gives none"""
    size: int = 5
    """number of rows and of columns of the grid"""
    hill: Literal["absolute", "as-written"] = "absolute"
    """the cost feature e^(-c|h-x|), or e^(-c(h-x)) as the paper prints it"""
    budget: Literal["both", "binding"] | float = "both"
    """a number, "binding" for halfway between least and unconstrained cost, or "both" for 1, as
    published, and "binding" in turn"""
    multiplier: Literal["optimal", "at-least-one"] = "optimal"
    """Algorithm 1: the price of the constrained problem, or 1 + nu as the paper's text has it"""
    update: Literal["exponentiated", "projected"] = "exponentiated"
    """Algorithm 1: weights times exp(-step), as published, or less the step, then projected"""
    jobs: int = 0
    """number of processes; 0 for one per core"""
    out: Path = Path("reproduction")
    """folder to write"""

    def __post_init__(self) -> None:
        _check_least(self, {"seeds": 1, "trajectories": 2, "steps": 1, "size": 3, "jobs": 0})
        if not 0.0 < self.discount < 1.0:
            raise InvalidModel(f"discount must be in (0, 1); got {self.discount}")
        if not isinstance(self.budget, str) and not math.isfinite(self.budget):
            raise InvalidModel(f"budget must be a finite number; got {self.budget}")
        if isinstance(self.budget, str) and self.budget not in ("both", BINDING):
            raise InvalidModel(
                f"budget must be a number, 'both' or 'binding'; got {self.budget!r:.60}"
            )
        if self.hill not in ("absolute", "as-written"):
            raise InvalidModel(f"hill must be 'absolute' or 'as-written'; got {self.hill!r:.60}")
        for name, (first, second) in RULE_CHOICES.items():
            if (given := getattr(self, name)) not in (first, second):
                raise InvalidModel(f"{name} must be {first!r} or {second!r}; got {given!r:.60}")

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The budgets to run, the published one first."""
        both = self.budget == "both"
        words = ("budget halfway, binding", "where it lies halfway and binds")
        halfway = Block(BINDING, *words, 1.0, tightness=HALFWAY)
        if isinstance(self.budget, str) and not both:
            return (halfway,)
        amount = 1.0 if both else float(self.budget)
        name, title = f"budget-{amount:g}", f"budget {amount:g}"
        if amount == 1.0:
            name, title = PUBLISHED, "budget 1, as published"
        given = Block(name, title, f"at budget {amount:g}", amount, tightness=None)
        return (given, halfway) if both else (given,)

    def block(self, name: str) -> Block:
        """The block of that name."""
        return next(block for block in self.blocks if block.name == name)

    def file(self, kind: str, block: int, seed: int) -> Path:
        """Where the record of a unit is written."""
        name = self.blocks[block].name if kind == "draw" else "study"
        draw = "published-draw" if seed == FIGURE else f"seed-{seed:03d}"
        return self.out / UNITS / f"{name}-{draw}.json"

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths T of the study of T, up to the one asked for."""
        return (*(length for length in LENGTHS if length < self.steps), self.steps)

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of trajectories of that study, up to twice the one asked for."""
        return tuple(n for n in COUNTS if n <= 2 * self.trajectories)

    def identity(self) -> dict[str, object]:
        """What the results depend on: not the number of processes, nor the folder."""
        # The rules of Algorithm 1 only where they were changed: older folders can be continued.
        usual = {name: words[0] for name, words in RULE_CHOICES.items()}
        given = {k: v for k, v in asdict(self).items() if k not in ("jobs", "out")}
        return {k: v for k, v in given.items() if k not in usual or usual[k] != v}

    @property
    def rules(self) -> Rules:
        """The options of `Alternating` that were chosen."""
        return {"multiplier": self.multiplier, "update": self.update}


@dataclass(frozen=True)
class Block:
    """One budget, over all seeds.

    Attributes:
        name: in file names.
        title: for people.
        phrase: the same inside a sentence.
        budget: largest expected discounted cost; not read where there is a tightness.
        tightness: where between least and unconstrained cost the budget lies, or None.
    """

    name: str
    title: str
    phrase: str
    budget: float
    _: KW_ONLY
    tightness: float | None


@dataclass(frozen=True)
class Trace:
    """The way of an alternating estimator, one number a round.

    Attributes:
        feature_gap: of each round.
        weight_change: of each round.
        multiplier: of each round, in the gauge.
        best: the round that was kept.
    """

    feature_gap: list[float]
    weight_change: list[float]
    multiplier: list[float]
    best: int


@dataclass(frozen=True, kw_only=True)
class EstimatorScore:
    """What one estimator recovered from one set of demonstrations, and how it was judged.

    Attributes:
        estimator: its name in the table.
        metrics: name -> number; NaN where a question has no answer.
        reward_weights: [D] in the gauge.
        cost_weights: [D_1] in the gauge; NaN where the constraint was found inactive, except that
            Algorithm 1 returns the weights it carried all the same.
        active: whether the constraint was found to restrain the expert.
        budget: recovered, in the gauge.
        status: the sentence of the recovery.
        converged: whether the recovery says so.
        iterations: rounds or evaluations.
        seconds: it took; the only number that changes from run to run.
        policy: [S][A] of the recovered problem.
        trace: the rounds of an alternating estimator.
    """

    estimator: str
    metrics: dict[str, float]
    reward_weights: list[float]
    cost_weights: list[float]
    active: bool
    budget: float
    status: str
    converged: bool
    iterations: int
    seconds: float
    policy: list[list[float]] = field(default_factory=list)
    trace: Trace | None = None


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One draw of the grid at one budget: the truth and every score.

    Attributes:
        block: name of the block.
        seed: of the draw; -1 for the published one.
        recipe: the call that makes the world again.
        feasible: whether any policy meets the budget; if not there is nothing to recover from.
        binds: whether the budget has a price.
        budget: the true one, in the gauge.
        least: smallest cost that any policy can have, in the gauge.
        unconstrained: cost of the reward-optimal policy, in the gauge.
        multiplier: its true price, in the gauge.
        reward_weights: [D] true, in the gauge.
        cost_weights: [D_1] true, in the gauge.
        policy: [S][A] of the true problem.
        ties: [S][A] whether an action is optimal at the true prices.
        noise: sampling noise of the demonstrations' feature expectations.
        scores: one an estimator.
        null: metric -> one number a random guess.
    """

    block: str
    seed: int
    recipe: str
    feasible: bool
    binds: bool
    budget: float
    least: float
    unconstrained: float
    multiplier: float
    reward_weights: list[float]
    cost_weights: list[float]
    policy: list[list[float]]
    ties: list[list[bool]]
    noise: float
    scores: list[EstimatorScore]
    null: dict[str, list[float]]

    def score(self, estimator: str) -> EstimatorScore | None:
        """The score of the estimator of that name."""
        return next((score for score in self.scores if score.estimator == estimator), None)


@dataclass(frozen=True)
class SweepPoint:
    """One recovery of a study of the amount of data.

    Attributes:
        study: "steps" or "trajectories": what was varied.
        expert: "noisy" or "optimal".
        estimator: its name in the table; "Random weights" for the median of random guesses.
        position: how many of what was varied.
        reward_error: L1 of the reward weights.
        cost_error: L1 of the cost weights; NaN where the constraint was found inactive.
        visitation_distance: total variation to the expert's visitation.
    """

    study: str
    expert: str
    estimator: str
    position: int
    _: KW_ONLY
    reward_error: float
    cost_error: float
    visitation_distance: float


@dataclass(frozen=True)
class Sweep:
    """The studies of one seed.

    Attributes:
        seed: of the draw.
        points: one a recovery.
    """

    seed: int
    points: list[SweepPoint]


Record = TypeVar("Record")
Tree: TypeAlias = Any  # of plain JSON, or its type


def write_unit(path: Path, record: DataclassInstance) -> None:
    """Writes the record of a unit, sealed, with NaN and infinities as Python writes them."""
    tacit.runs.write_page(path, asdict(record), strict=False)


def read_unit(path: Path, kind: type[Record]) -> Record:
    """The record that `write_unit` wrote; `OSError` where it has changed or is another kind."""
    with tacit.runs.sound(path, "the record of a unit (remove it, and that is done again)"):
        return _made(tacit.runs.read_page(path), kind, "it")


def _made(value: Tree, kind: Tree, name: str) -> Tree:
    """The value as one of that kind: a record, a list, a dictionary, a number, a text or None."""
    within = get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        wanted = {key: one for key, one in get_type_hints(kind).items() if key != "_"}
        if not isinstance(value, dict) or value.keys() != wanted.keys():
            raise TypeError(f"{name} must have {', '.join(wanted)}")
        return kind(**{key: _made(value[key], one, key) for key, one in wanted.items()})
    if get_origin(kind) is list and isinstance(value, list):
        return [_made(one, within[0], name) for one in value]
    if get_origin(kind) is dict and isinstance(value, dict):
        return {key: _made(one, within[1], name) for key, one in value.items()}
    if type(None) in within:
        return None if value is None else _made(value, within[0], name)
    if type(value) is not kind and (kind, type(value)) != (float, int):
        raise TypeError(f"{name} must be {getattr(kind, '__name__', kind)}; got {value!r:.40}")
    return value


@dataclass(frozen=True, kw_only=True)
class Board:
    """What to compare, and the folder to write."""

    worlds: tuple[str, ...] | None = None
    """worlds by name, problem folders, or FILE.py:NAME of one's own; None for all"""
    methods: tuple[str, ...] | None = None
    """methods by name, or FILE.py:NAME of one's own; None for all"""
    seeds: int = 3
    """number of draws of each world"""
    jobs: int = 0
    """number of processes; 0 for one per core"""
    out: Path = Path("leaderboard")
    """folder to write"""

    def __post_init__(self) -> None:
        _check_least(self, {"seeds": 1, "jobs": 0})
        from tacit_lab.studies.contests import known_methods, known_places, resolved

        places, methods = known_places(), known_methods()
        for one in self.worlds or ():
            resolved(one, places, "world")
        for one in self.methods or ():
            resolved(one, methods, "method")

    @property
    def contests(self) -> list[tuple[str, int]]:
        """(world, seed) of every unit."""
        from tacit_lab.studies.contests import known_places, resolved

        places, found = known_places(), []
        for name in self.worlds or tuple(places):
            draws = getattr(resolved(name, places, "world"), "draws", 0) or self.seeds
            found += [(name, seed) for seed in range(min(draws, self.seeds))]
        return found

    def file(self, world: str, seed: int) -> Path:
        """Where the record of a unit is written."""
        return self.out / UNITS / f"{_plain(world)}-seed-{seed:03d}.json"

    def identity(self) -> dict[str, object]:
        """What the results depend on: not the number of processes, nor the folder."""
        return {
            "worlds": list(self.worlds or ()),
            "methods": list(self.methods or ()),
            "seeds": self.seeds,
        }


def _check_least(asked: StudySettings | Board, limits: dict[str, int]) -> None:
    for name, limit in limits.items():
        if (given := getattr(asked, name)) < limit:
            raise InvalidModel(f"{name} must be at least {limit}; got {given}")


def _plain(name: str) -> str:
    """The name with nothing in it that a file's name should not have."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name)
