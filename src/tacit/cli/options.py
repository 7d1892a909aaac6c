"""Options of `tacit recover` that belong to an estimator, read from its own dataclass.

Names, defaults and help are those of the dataclass and its `Attributes:`. What no command line can
say, such as a solver or bounds by name, is left to Python and to problem.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from functools import cache
from itertools import accumulate, pairwise
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Optional,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from tyro.conf import arg

from tacit.cli.offers import ESTIMATORS, loaded, offered
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    import numpy as np

    from tacit.estimators.recover import Estimator
    from tacit.folders.problem import Problem

# Estimators of tacit by their words; other packages offer more.
METHODS = (
    "auto", "likelihood", "explanation", "convex", "alternating", "reward-only", "constraint-only",
    "cloning", "forbidden", "mixture", "intentions",
)  # fmt: skip
# Fields that are typed by another word: theirs asks something else of `recover`.
OTHER_WORDS = {"groups": "sets", "count": "intentions"}

Reader = Callable[["Problem", Any], object]


def methods() -> type:
    """The type of a word for an estimator: those of tacit, then what packages offer."""
    return Literal[(*METHODS, *offered(ESTIMATORS, METHODS))]  # pyright: ignore


Method = Annotated[
    str, arg(constructor_factory=methods, help_behavior_hint="(default: auto)", metavar="METHOD")
]  # pyright: ignore[reportCallIssue]


def estimator_kind(word: str) -> type:
    """The class that a word of `methods` but auto names."""
    import tacit

    if word not in METHODS:
        return loaded(offered(ESTIMATORS, METHODS)[word])
    return getattr(tacit, "".join(part.capitalize() for part in word.split("-")))


class Shape(NamedTuple):
    """The type in which a value is typed, (problem, what was typed) -> value, and how it looks."""

    typed: Any
    read: Reader
    metavar: str | None = None


@dataclass(frozen=True)
class EstimatorOption:
    """A field of an estimator that can be typed.

    Attributes:
        name: of the field.
        default: of the field; None where it has none, or none that can be typed.
        required: whether it has none.
        shape: how it is typed and read.
    """

    name: str
    default: Any
    required: bool
    shape: Shape

    @property
    def word(self) -> str:
        """Its name on the command line, with underscores."""
        return OTHER_WORDS.get(self.name, self.name)

    @property
    def spelling(self) -> str:
        """How it is typed."""
        return f"--{self.word.replace('_', '-')}"

    @property
    def is_in_truth(self) -> bool:
        """Whether the truth of a folder may say it."""
        return self.name in ("reward_weights", "cost_weights", "budgets", "budget")


def options_of(kind: type) -> list[EstimatorOption]:
    """What can be typed of an estimator; its seed is that of the run."""
    hints, found = get_type_hints(kind), []
    for one in fields(kind):
        required = one.default is one.default_factory is MISSING
        default = None if one.default is MISSING else one.default
        shape = None if one.name == "seed" else typed_as(hints[one.name], default)
        if shape is not None:
            found.append(EstimatorOption(one.name, default, required, shape))
    return found


def typed_as(hint: Any, default: object) -> Shape | None:
    """How a value of this type is typed; None where it cannot be.

    Where a value may be None and is not by default, the word auto says so.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [one for one in inner if one is not NoneType]
        if all(is_dataclass(one) for one in kinds):
            names = ",".join(one.__name__.lower() for one in kinds)
            read = lambda problem, word: prior_of(word, kinds)  # noqa: E731
            return Shape(str, read, f"{{{names}}}[:STRENGTH]")
        shapes = [typed_as(one, default) for one in kinds]
        if None in shapes:
            return None
        types = tuple(one.typed for one in shapes if one is not None)
        if bool in types and len(types) > 1:
            return None
        if NoneType not in inner or default is None:
            return Shape(Union[types], as_typed)
        return Shape(Union[(*types, Literal["auto"])], none_if_auto)
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return Shape(tuple[str, ...], named_sets) if inner[0] is str else None
    if isinstance(origin, type) and issubclass(origin, Sequence):
        if get_origin(inner[0]) is None:
            return Shape(tuple[inner[0], ...], as_typed)
        return Shape(tuple[get_args(inner[0])[0], ...], split_weights)
    return Shape(hint, as_typed) if hint in (bool, int, float, str) or origin is Literal else None


def as_typed(problem: Problem, value: object) -> object:
    """The value itself."""
    return value


def none_if_auto(problem: Problem, value: object) -> object:
    """The value, None where it is the word auto."""
    return None if value == "auto" else value


@dataclass(frozen=True, kw_only=True)
class EstimatorOptions:
    """Options of an estimator; none here, where it is picked by evidence."""

    kind: ClassVar[type | None] = None  # the estimator

    def make(self, problem: Problem, *, seed: int) -> tuple[Estimator | None, list[str]]:
        """The estimator, and what it takes from the truth of the folder, since no option says it.

        None where it is picked by evidence.
        """
        if self.kind is None:
            return problem.with_coefficients(None, seed=seed), []
        given, taken = {}, []
        for option in options_of(self.kind):
            value = getattr(self, option.word)
            if value is not None:
                given[option.name] = option.shape.read(problem, value)
            elif option.required:
                known = truth_by_name(problem)
                if option.name not in known:
                    place = ", or be in the truth of the folder" if option.is_in_truth else ""
                    raise InvalidModel(f"{option.spelling} must be given{place}; got none")
                given[option.name] = option.shape.read(problem, known[option.name])
                taken.append(option.name.replace("_", " "))
        if any(one.name == "seed" for one in fields(self.kind)):
            given["seed"] = seed
        return problem.with_coefficients(self.kind(**given), seed=seed), taken


@cache
def record_of(kind: type) -> type[EstimatorOptions]:
    """The options of an estimator as a dataclass for the parser, its documentation included."""
    rows = []
    for option in options_of(kind):
        typed = option.shape.typed
        if option.default is None:
            truth = ", or in the truth of the folder" if option.is_in_truth else ""
            hint = f"(required{truth})" if option.required else "(default: none)"
            typed = Annotated[
                Optional[typed], arg(help_behavior_hint=hint, metavar=option.shape.metavar)
            ]
        rows.append((option.word, typed, field(default=option.default)))
    text = kind.__doc__ or ""
    for name, word in OTHER_WORDS.items():
        text = text.replace(f" {name}: ", f" {word}: ")
    named = {"kind": kind, "__doc__": text}
    bases = (EstimatorOptions,)
    name = f"{kind.__name__}Options"
    return make_dataclass(name, rows, bases=bases, frozen=True, kw_only=True, namespace=named)


def estimator_word(words: Sequence[str]) -> str:
    """The estimator that a command line names; several types are a mixture."""
    for word, following in pairwise([*words, ""]):
        option, given, value = word.partition("=")
        if option == "--estimator":
            return value if given else following
    asked = {word.partition("=")[0] for word in words}
    if "--intentions" in asked:
        return "intentions"
    return "mixture" if "--types" in asked else "auto"


def option_of_others(option: str, chosen: str) -> str | None:
    """What to do about an option that the chosen estimator has not, where others have it."""
    word = option.removeprefix("--").replace("-", "_")
    owners = [one for one in get_args(methods()) if word in _words_of(one)]
    if not owners:
        return None
    return (
        f"{option} is an option of {', '.join(owners)}; the estimator is {chosen}: give "
        f"--estimator {owners[0]}, or leave out {option}"
    )


def _words_of(method: str) -> list[str]:
    """The options of an estimator; none of one that cannot be loaded."""
    try:
        return [] if method == "auto" else [one.word for one in options_of(estimator_kind(method))]
    except InvalidModel:
        return []


# --- values that are about a problem --------------------------------------------------------------


def truth_by_name(problem: Problem) -> dict[str, Any]:
    """What the folder's own truth says of options, as far as features make it up."""
    known, found = problem.true_weights(), {}
    if -1 in known:
        found["reward_weights"] = _typed(known.pop(-1))
    if problem.truth is not None and len(known) == problem.truth.constraints > 0:
        found["cost_weights"] = [one for weights in known.values() for one in _typed(weights)]
        found["budgets"] = _typed(problem.truth.budgets)
        if len(known) == 1:
            found["budget"] = found["budgets"][0]
    return found


def _typed(numbers: np.ndarray) -> tuple[float, ...]:
    """The numbers as one would type them, without rounding's tail."""
    return tuple(float(f"{one:.12g}") for one in numbers.tolist())


def split_weights(problem: Problem, weights: Sequence[float]) -> list[Sequence[float]]:
    """One [D_k] a constraint, of the weights of all cost features."""
    sizes = [len(names) for names in problem.features.cost_names]
    if len(weights) != sum(sizes):
        raise InvalidModel(
            f"--cost-weights must be {sum(sizes)} numbers, one a cost feature; got {len(weights)}"
        )
    ends = list(accumulate(sizes))
    return [weights[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def named_sets(problem: Problem, words: Sequence[str]) -> dict[str, list[int]]:
    """Name -> states, of words like blue=4,13,22."""
    from tacit.files.wording import did_you_mean
    from tacit.model.layout import lookup

    names = [problem.layout.state_name(s) for s in range(problem.mdp.states)]
    known, sets = lookup(names), {}
    for word in words:
        name, _, members = word.partition("=")
        if not name or not members or name in sets:
            raise InvalidModel(
                f"--sets must be words like NAME=STATE,STATE with different names; got {word!r:.60}"
            )
        for state in members.split(","):
            if state not in known:
                hint = did_you_mean(state, known)
                raise InvalidModel(f"--sets: {name} names no state {state!r:.60}{hint}")
        sets[name] = [known[state] for state in members.split(",")]
    return sets


def prior_of(word: str, kinds: Sequence[type]) -> object:
    """The prior that a word names, such as ridge, its strength after a colon."""
    name, _, strength = word.partition(":")
    priors = {kind.__name__.lower(): kind for kind in kinds}
    try:
        return priors[name](float(strength) if strength else None)
    except (KeyError, ValueError):
        raise InvalidModel(
            f"--prior must be {', '.join(priors)}, with a strength as in ridge:0.3; got "
            f"{word!r:.60}"
        ) from None
