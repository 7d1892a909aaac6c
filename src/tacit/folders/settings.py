"""`problem.toml`, read key by key and written, and the names of states and actions."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.atomic import check_text, naming
from tacit.files.wording import did_you_mean
from tacit.inverse.joint.trips import UNENDED
from tacit.model.layout import Layout
from tacit.model.prior import Prior

if TYPE_CHECKING:
    from tacit.folders.reading import FeatureTable
    from tacit.model.mdp import MDP

FILE = "problem.toml"
# Of the form of a problem folder. A file without it was written by hand.
VERSION = 1
LARGEST = 2**26  # bytes: names of a million states
LINKS = "{ feature = -1.0 }, of trips alone"
# From the place of a key and what stands there to what it means.
Check = Callable[[str, object], Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `problem.toml` says; every part may be absent.

    Attributes:
        path: of the file, for messages.
        discount: of the model; None where it is not given.
        initial: name or number of the first state, name of a column, or {name: probability}.
        goal: "last" where every trajectory is a trip to its last state; "" where it is not.
        unended: what to do with trips that did not end.
        reward: columns of `features.csv` that the reward is made of; None where not given, and
            empty where it has one indicator a state, which needs no column.
        costs: the same, one tuple per constraint.
        link_size: coefficients at which link sizes of trips are made; empty for none.
        states: names of the states in their order; empty where not given.
        actions: names of the actions in their order; empty where not given.
        rows: of the grid; 0 where there is none.
        columns: of the grid; 0 where there is none.
        directions: one (row, column) step per action.
        prior: pseudo-count of a row and where it goes, where transitions are estimated.
        unvisited: what pairs that were never seen do.
        absorbing: states where time goes on and every action stays.
        truth: weights and budgets of the truth; empty where it is not given.
        coefficients: bounds, fixed and start of coefficients, as `tacit.Likelihood` takes them.
    """

    path: Path
    discount: float | None = None
    initial: str | dict[str, float] | None = None
    goal: str = ""
    unended: str = "refuse"
    reward: tuple[str, ...] | None = None
    costs: tuple[tuple[str, ...], ...] = ()
    link_size: dict[str, float] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    rows: int = 0
    columns: int = 0
    directions: tuple[tuple[int, int], ...] = ()
    prior: Prior = field(default_factory=Prior)
    unvisited: str = "prior"
    absorbing: tuple[str, ...] = ()
    truth: dict[str, Any] = field(default_factory=dict)
    coefficients: dict[str, dict[str, Any]] = field(default_factory=dict)


# A key of sixteen parts with dots between them.
NESTED = re.compile(r"""(?:(?:[\w-]{1,64}|"[^"\n]{0,64}"|'[^'\n]{0,64}')[ \t]*\.[ \t]*){16}""")


def read_toml(path: Path) -> dict[str, Any]:
    """What a file of TOML holds; one line that names it where it is none."""
    check_text(path, "TOML text", largest=LARGEST)
    try:
        text = path.read_bytes().decode("utf-8-sig")
        if NESTED.search(text):  # thousands of parts would take the parser hours
            raise RecursionError
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise InvalidModel(f"{path} must be text in UTF-8; byte {error.start + 1} is not") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidModel(f"{path} must be TOML: {str(error)[:200]}") from None
    except RecursionError:
        raise InvalidModel(f"{path} must be TOML: it is nested too deeply") from None


def _wrong(key: str, expected: str, got: object) -> InvalidModel:
    return InvalidModel(f"{key} must be {expected}; got {got!r:.80}")


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(key, "a number", value)
    return float(value)


def _count(key: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise _wrong(key, "a positive whole number", value)
    return value


def _word(*words: str) -> Check:
    def check(key: str, value: object) -> str:
        if value not in words or not isinstance(value, str):
            raise _wrong(key, f"one of {_list(words)}", value)
        return value

    return check


def check_version(key: str, value: object) -> None:
    """Raises unless this is the version of a form that can be read."""
    if type(value) is not int or value < 1:
        raise _wrong(key, "a positive whole number", value)
    if value > VERSION:
        raise InvalidModel(
            f"{key} of the form must be at most {VERSION}, which this tacit reads; got {value}: "
            "update tacit, or write the folder again with this one"
        )


def _discount(key: str, value: object) -> float:
    if not 0.0 <= (discount := _number(key, value)) <= 1.0:
        raise _wrong(key, "in [0, 1]", discount)
    return discount


def _initial(key: str, value: object) -> str | dict[str, float]:
    if isinstance(value, dict):
        return {str(name): _number(f"{key}.{name}", share) for name, share in value.items()}
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(key, "a state or a table of state = probability", value)
    return str(value)


def _names(key: str, value: object) -> tuple[str, ...]:
    """Names as text; whole numbers count as names."""
    if not isinstance(value, list) or not all(type(entry) in (str, int) for entry in value):
        raise _wrong(key, 'a list of names such as ["a", "b"]', value)
    names = tuple(str(entry).strip() for entry in value)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidModel(f"{key} must name each once; {twice!r} stands twice")
    return names


def _made_of(key: str, value: object) -> tuple[str, ...]:
    """Names of columns; none for one indicator a state."""
    if isinstance(value, dict):
        if value != {"one_hot": "state"}:
            raise _wrong(key, 'a list of columns, or { one_hot = "state" }', value)
        return ()
    if names := _names(key, value):
        return names
    raise InvalidModel(f"{key} must name at least one column; got none")


def _costs(key: str, value: object) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list) or any(not isinstance(one, list | dict) for one in value):
        raise _wrong(key, 'one list of columns per constraint, [["heat"]]', value)
    return tuple(_made_of(f"{key}[{k}]", entry) for k, entry in enumerate(value))


def _link_size(key: str, value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise _wrong(key, LINKS, value)
    return {name: _number(f"{key}.{name}", one) for name, one in value.items()}


def _directions(key: str, value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or not all(
        isinstance(step, list) and [type(part) for part in step] == [int, int] for step in value
    ):
        raise _wrong(key, "one [row, column] step per action, [[0, 1], [1, 0]]", value)
    return tuple((step[0], step[1]) for step in value)


def _prior(key: str, value: object) -> Prior:
    table = value if isinstance(value, dict) else {"strength": value}
    if not {*table} <= {"strength", "over"}:
        raise _wrong(key, "a number, or strength and over", value)
    strength = _number(key, table.get("strength", 1.0))
    if not 0.0 <= strength < float("inf"):
        raise _wrong(key, "a number of steps, 0 or more", strength)
    over = _word("successors", "all", "stay")(f"{key}.over", table.get("over", "successors"))
    return Prior(strength, over)


def _absorbing(key: str, value: object) -> tuple[str, ...]:
    if value == "stay":
        raise InvalidModel(
            f'{key} must list the states that stay, ["a", "b"]; got \'stay\': a pair without '
            "transitions is not available now, and a state without any ends the episode"
        )
    return _names(key, value)


def _coefficients(key: str, value: object) -> dict[str, dict[str, Any]]:
    """A number for a fixed coefficient, or lower, upper and start; sorted by what they are."""
    found: dict[str, dict[str, Any]] = {}
    if not isinstance(value, dict):
        raise InvalidModel(f"{key} must be a table, [{key}]; got {value!r:.60}")
    words = ("fixed", "lower", "upper", "start")
    for name, told in value.items():
        about = told if isinstance(told, dict) else {"fixed": told}
        for word, number in about.items():
            if word not in words:
                hint = did_you_mean(word, words) or f"; it may hold {_list(words)}"
                raise InvalidModel(f"unknown key {word!r} in {key}.{name}{hint}")
            given = _number(f"{key}.{name}: {word}", number)
            if word in ("fixed", "start"):
                found.setdefault(word, {})[name] = given
        if {"lower", "upper"} & {*about}:
            found.setdefault("bounds", {})[name] = (about.get("lower"), about.get("upper"))
    return found


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


# Of each table of the file, "" for its top: what every key must hold. Tables of the top are its
# keys, too; [truth] is looked at when there are features to make it of.
CHECKS: dict[str, dict[str, Check]] = {
    "": {
        "version": check_version,
        "discount": _discount,
        "initial": _initial,
        "goal": _word("last"),
        "unended": _word(*UNENDED),
        "coefficients": _coefficients,
    },
    "features": {"reward": _made_of, "costs": _costs, "link_size": _link_size},
    "names": {"states": _names, "actions": _names},
    "grid": {"rows": _count, "columns": _count, "directions": _directions},
    "transitions": {
        "prior": _prior,
        "unvisited": _word("prior", "stay", "refuse"),
        "absorbing": _absorbing,
    },
    "truth": {},
}
KEYS = {name: (*checks,) for name, checks in CHECKS.items()}
KEYS |= {"truth": ("reward", "costs", "budgets"), "": (*KEYS[""], *filter(None, CHECKS))}
NEEDED = {"features": ("reward",), "grid": ("rows", "columns"), "truth": ("reward",)}


def read_settings(folder: Path) -> Settings:
    """The settings of a folder, or one line that names the key; all absent without a file."""
    path = folder / FILE
    given, found = read_toml(path) if path.exists() else {}, {}
    with naming(path):
        for name, checks in CHECKS.items():
            table = given.get(name, {}) if name else given
            _check_keys(name, table, there=name in given)
            for key, check in checks.items():
                if key in table:
                    found[key] = check(f"{name}.{key}" if name else key, table[key])
        found.pop("version", None)
        if "unended" in given and "goal" not in given:
            said = 'unended is about trips, which need goal = "last"; there is no goal'
            raise InvalidModel(said)
        if found.get("link_size") and "goal" not in given:
            raise _wrong("features.link_size", LINKS, found["link_size"])
    return Settings(path=path, truth=given.get("truth", {}), **found)


def _check_keys(name: str, table: object, *, there: bool) -> None:
    """Raises unless this is a table with keys that are known, and those that are needed."""
    if not isinstance(table, dict):
        raise _wrong(name, f"a table: write [{name}] on a line of its own", table)
    for key in table:
        if key not in KEYS[name]:
            place = f"[{name}]" if name else "the file"
            hint = did_you_mean(key, KEYS[name]) or f"; it may hold {_list(KEYS[name])}"
            raise InvalidModel(f"unknown key {key!r} in {place}{hint}")
    for key in NEEDED.get(name, ()) if there else ():
        if key not in table:
            raise InvalidModel(f"[{name}] must have {key}; it has {_list(table)}")


def coefficient_table(known: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Lower, upper, fixed and start of each coefficient, by its name."""
    told: dict[str, dict[str, float]] = {}
    for name, ends in known.get("bounds", {}).items():
        pairs = zip(("lower", "upper"), ends, strict=True)
        told.setdefault(name, {}).update({word: float(x) for word, x in pairs if x is not None})
    for word in ("fixed", "start"):
        for name, value in known.get(word, {}).items():
            told.setdefault(name, {})[word] = float(value)
    return told


def toml(value: object) -> str:
    """A text, a number, a list or a dictionary as TOML spells it."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {toml(part)}' for name, part in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml(name)


def toml_lines(table: Mapping[str, object], heading: str = "") -> list[str]:
    """Lines of `problem.toml`, under a heading; none where the table is empty."""
    lines = [f"{_key(name)} = {toml(value)}" for name, value in table.items()]
    return ["", f"[{heading}]", *lines] if heading and lines else lines


@dataclass(frozen=True)
class Names:
    """How states and actions are called, in their order; plain numbers where they have no names.

    Attributes:
        states: one name a state.
        actions: one name an action; empty where nothing has told them yet.
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def lookups(self) -> tuple[dict[str, int], dict[str, int]]:
        """The number of each state and of each action, by name."""
        return lookup(self.states), lookup(self.actions)

    def layout(self, settings: Settings) -> Layout:
        """The layout of these names on the grid of the settings."""
        return Layout(
            rows=settings.rows,
            columns=settings.columns,
            directions=settings.directions,
            state_names=() if numbered(self.states) else self.states,
            action_names=() if numbered(self.actions) else self.actions,
        )


def names_of(mdp: MDP, layout: Layout) -> Names:
    """What the states and actions of a model are called: as the layout says, or numbers."""
    return Names(
        layout.state_names or numbers(mdp.states), layout.action_names or numbers(mdp.actions)
    )


def lookup(names: Sequence[str]) -> dict[str, int]:
    """The number of each name; plain numbers are understood too where no name looks like one."""
    found = {name: number for number, name in enumerate(names)}
    if not any(looks_numeric(name) for name in names):
        found |= {str(number): number for number in range(len(names))}
    return found


def looks_numeric(name: str) -> bool:
    """Whether a name is spelled like a whole number."""
    return name.lstrip("-").isdigit()


def numbered(names: Iterable[str]) -> bool:
    """Whether these names are just 0, 1, ..., each once, in any order."""
    listed = list(names)
    return len(listed) > 0 and set(listed) == {str(i) for i in range(len(listed))}


def numbers(count: int) -> tuple[str, ...]:
    """The names 0, 1, ... of states or actions without names."""
    return tuple(str(number) for number in range(count))


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """The names as found, or sorted where they are just numbers."""
    listed = tuple(names)
    return numbers(len(listed)) if numbered(listed) else listed


def absorbing_states(settings: Settings, states: tuple[str, ...]) -> np.ndarray:
    """[S] bool, the states that are said to stay."""
    must = f"{settings.path}: transitions.absorbing must name states"
    stays = np.zeros(len(states), bool)
    stays[_places(settings.absorbing, lookup(states), must)] = True
    return stays


def _places(names: Collection[str], known: Mapping[str, int], must: str) -> list[int]:
    """The number of each name; one line, which begins with `must`, where one is not known."""
    if (odd := next((name for name in names if name not in known), None)) is not None:
        raise InvalidModel(f"{must}; got {odd!r}{did_you_mean(odd, known)}")
    return [known[name] for name in names]


def given_start(
    settings: Settings, states: tuple[str, ...], table: FeatureTable | None
) -> np.ndarray | None:
    """[S] the distribution of the first state; None where `problem.toml` does not say."""
    given, known = settings.initial, lookup(states)
    if given is None:
        return None
    if isinstance(given, str) and given not in known and table and table.gives(given):
        shares = table.column(given, known, {"": 0})
        return _distribution(shares, f"{table.path}: the column {given!r}, initial,")
    start, shares = np.zeros(len(states)), {given: 1.0} if isinstance(given, str) else given
    places = _places(shares, known, f"{settings.path}: initial must name a state")
    start[places] = [*shares.values()]
    return _distribution(start, f"{settings.path}: initial")


def _distribution(shares: np.ndarray, what: str) -> np.ndarray:
    if shares.ndim != 1 or not (shares >= 0).all() or abs(shares.sum() - 1.0) > 1e-6:
        total = f"; it sums to {shares.sum():g}" if (shares >= 0).all() else "; one is negative"
        raise InvalidModel(f"{what} must be probabilities of states that sum to 1{total}")
    return shares
