"""`problem.toml`, read key by key and written."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.errors import InvalidModel
from tacit.estimators.trips.world import UNENDED
from tacit.files.atomic import check_text, naming
from tacit.files.wording import did_you_mean
from tacit.model.features.notation import terms_of
from tacit.model.features.terms import columns_of
from tacit.model.pseudo_counts import Over, Prior, Unvisited

FILE = "problem.toml"
# Of the form of a problem folder. A file without it was written by hand.
VERSION = 1
LARGEST = 2**26  # bytes: names of a million states
# Of a table that is read cell by cell: larger models are made in Python and saved as arrays.
LARGEST_TABLE = 2**31
# From the place of a key and what stands there to what it means.
Check = Callable[[str, object], Any]


@dataclass(frozen=True, kw_only=True)
class RowSettings:
    """What `[measurements]` of `problem.toml` says: states are rows, of which nobody has a table.

    Attributes:
        columns: of the demonstrations that were measured.
        reward: formula of the reward.
        costs: one formula per constraint.
        exogenous: columns that no action moves.
    """

    columns: tuple[str, ...]
    reward: str
    costs: tuple[str, ...] = ()
    exogenous: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProblemSettings:
    """What `problem.toml` says; every part may be absent.

    Attributes:
        path: of the file, for messages.
        discount: of the model; None where it is not given.
        initial: name or number of the first state, name of a column, or {name: probability}.
        goal: "last" where every trajectory is a trip to its last state; "" where it is not.
        unended: what to do with trips that did not end.
        free_reward: whether weights of the reward may have either sign, unless an option says it.
        reward: columns of `features.csv` that the reward is made of, or a formula over them; None
            where not given, and empty where it has one indicator a state, which needs no column.
        costs: the same, one tuple or formula per constraint.
        link_size: coefficients at which link sizes of trips are made; empty for none.
        states: names of the states in their order; empty where not given.
        actions: names of the actions in their order; empty where not given.
        rows: of the grid; 0 where there is none.
        columns: of the grid; 0 where there is none.
        directions: one (row, column) step per action.
        corner: x and y of the upper left corner of the grid; empty where not given.
        cell_size: width and height of its cells; empty where not given.
        prior: pseudo-count of a row and where it goes, where transitions are estimated.
        unvisited: what pairs that were never seen do.
        absorbing: states where time goes on and every action stays.
        truth: weights and budgets of the truth; empty where it is not given.
        coefficients: bounds, fixed and start of coefficients, as `tacit.Likelihood` takes them.
        measurements: what rows of measurements are; None where states are numbered.
        ingest: options of `tacit ingest` that made the folder, for other logs.
    """

    path: Path
    discount: float | None = None
    initial: str | dict[str, float] | None = None
    goal: str = ""
    unended: str = "refuse"
    free_reward: bool = False
    reward: tuple[str, ...] | str | None = None
    costs: tuple[tuple[str, ...] | str, ...] = ()
    link_size: dict[str, float] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    rows: int = 0
    columns: int = 0
    directions: tuple[tuple[int, int], ...] = ()
    corner: tuple[float, ...] = ()
    cell_size: tuple[float, ...] = ()
    prior: Prior = field(default_factory=Prior)
    unvisited: str = "prior"
    absorbing: tuple[str, ...] = ()
    truth: dict[str, Any] = field(default_factory=dict)
    coefficients: dict[str, dict[str, Any]] = field(default_factory=dict)
    measurements: RowSettings | None = None
    ingest: dict[str, Any] = field(default_factory=dict)

    @property
    def used(self) -> set[str]:
        """The columns of `features.csv` that features are made of."""
        blocks = [one for one in (self.reward, *self.costs) if one]
        formulas = [terms_of(one) for one in blocks if isinstance(one, str)]
        listed = {name for one in blocks if not isinstance(one, str) for name in one}
        return listed | columns_of(formulas)


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


def _numbers(key: str, value: object) -> dict[str, float]:
    """A table of numbers by name."""
    if not isinstance(value, dict):
        raise _wrong(key, "a table of numbers", value)
    return {str(name): _number(f"{key}.{name}", one) for name, one in value.items()}


def _count(key: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise _wrong(key, "a positive whole number", value)
    return value


def _truth(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return value


def _word(*words: str) -> Check:
    def check(key: str, value: object) -> str:
        if value not in words or not isinstance(value, str):
            raise _wrong(key, f"one of {_list(words)}", value)
        return value

    return check


def check_version(key: str, value: object) -> None:
    """Raises unless this is the version of a form that can be read."""
    if _count(key, value) > VERSION:
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
        return _numbers(key, value)
    if type(value) not in (str, int):
        raise _wrong(key, "a state or a table of state = probability", value)
    return str(value)


def _names(key: str, value: object) -> tuple[str, ...]:
    """Names as text; whole numbers count as names."""
    if not isinstance(value, list) or not all(type(entry) in (str, int) for entry in value):
        raise _wrong(key, 'a list of names such as ["a", "b"]', value)
    names = tuple(str(entry).strip() for entry in value)
    if len(once := dict.fromkeys(names)) < len(names):
        twice = next(name for name in once if names.count(name) > 1)
        raise InvalidModel(f"{key} must name each once; {twice!r} stands twice")
    return names


def _made_of(key: str, value: object) -> tuple[str, ...] | str:
    """Names of columns, or a formula over them; none for one indicator a state."""
    if isinstance(value, str):
        return _formula(key, value)
    if isinstance(value, dict):
        if value != {"one_hot": "state"}:
            raise _wrong(key, 'a formula, a list of columns, or { one_hot = "state" }', value)
        return ()
    if names := _names(key, value):
        return names
    raise InvalidModel(f"{key} must name at least one column; got none")


def _costs(key: str, value: object) -> tuple[tuple[str, ...] | str, ...]:
    if not isinstance(value, list) or any(not isinstance(one, list | dict | str) for one in value):
        raise _wrong(key, 'one list of columns, or one formula, per constraint, [["heat"]]', value)
    return tuple(_made_of(f"{key}[{k}]", entry) for k, entry in enumerate(value))


def _directions(key: str, value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or not all(
        isinstance(step, list) and [type(part) for part in step] == [int, int] for step in value
    ):
        raise _wrong(key, "one [row, column] step per action, [[0, 1], [1, 0]]", value)
    return tuple((step[0], step[1]) for step in value)


def _pair(key: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) != 2:
        raise _wrong(key, "two numbers, [500, 500]", value)
    return tuple(_number(key, one) for one in value)


def _prior(key: str, value: object) -> Prior:
    table = value if isinstance(value, dict) else {"strength": value}
    if not {*table} <= {"strength", "over"}:
        raise _wrong(key, "a number, or strength and over", value)
    strength = _number(key, table.get("strength", 1.0))
    over = _word(*(one.value for one in Over))(f"{key}.over", table.get("over", "successors"))
    with naming(key):
        return Prior(strength, over)


def _coefficients(key: str, value: object) -> dict[str, dict[str, Any]]:
    """A number for a fixed coefficient, or lower, upper and start; sorted by what they are."""
    known: dict[str, dict[str, Any]] = {}
    if not isinstance(value, dict):
        raise InvalidModel(f"{key} must be a table, [{key}]; got {value!r:.60}")
    words = ("fixed", "lower", "upper", "start")
    for name, entry in value.items():
        about = entry if isinstance(entry, dict) else {"fixed": entry}
        for word in about:
            if word not in words:
                hint = did_you_mean(word, words) or f"; it may hold {_list(words)}"
                raise InvalidModel(f"unknown key {word!r} in {key}.{name}{hint}")
        about = {word: _number(f"{key}.{name}: {word}", number) for word, number in about.items()}
        for word in ("fixed", "start"):
            if word in about:
                known.setdefault(word, {})[name] = about[word]
        if {"lower", "upper"} & {*about}:
            known.setdefault("bounds", {})[name] = (about.get("lower"), about.get("upper"))
    return known


def _measurements(key: str, value: object) -> RowSettings:
    """The table of rows of measurements."""
    words = ("columns", "reward", "costs", "exogenous")
    if not isinstance(value, dict):
        raise InvalidModel(f"{key} must be a table, [{key}]; got {value!r:.60}")
    for word in value:
        if word not in words:
            hint = did_you_mean(word, words) or f"; it may hold {_list(words)}"
            raise InvalidModel(f"unknown key {word!r} in [{key}]{hint}")
    for word in ("columns", "reward"):
        if word not in value:
            raise InvalidModel(f"[{key}] must have {word}; it has {_list(value)}")
    costs = value.get("costs", [])
    if not isinstance(costs, list):
        raise _wrong(f"{key}.costs", 'one formula per constraint, ["dose"]', costs)
    return RowSettings(
        columns=_names(f"{key}.columns", value["columns"]),
        reward=_formula(f"{key}.reward", value["reward"]),
        costs=tuple(_formula(f"{key}.costs[{k}]", one) for k, one in enumerate(costs)),
        exogenous=_names(f"{key}.exogenous", value.get("exogenous", [])),
    )


def _formula(key: str, value: object) -> str:
    """A formula: it is read, and never run."""
    if not isinstance(value, str) or not value.strip():
        raise _wrong(key, 'a formula such as "age + log(dose)"', value)
    with naming(key, InvalidModel):
        terms_of(value)
    return value


def _options(key: str, value: object) -> dict[str, Any]:
    """What was typed, by the name of the option."""
    if not isinstance(value, dict):
        raise InvalidModel(f"{key} must be a table, [{key}]; got {value!r:.60}")
    return {str(name): one for name, one in value.items()}


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
        "free_reward": _truth,
        "coefficients": _coefficients,
        "measurements": _measurements,
        "ingest": _options,
    },
    "features": {"reward": _made_of, "costs": _costs, "link_size": _numbers},
    "names": {"states": _names, "actions": _names},
    "grid": {
        "rows": _count,
        "columns": _count,
        "directions": _directions,
        "corner": _pair,
        "cell_size": _pair,
    },
    "transitions": {
        "prior": _prior,
        "unvisited": _word(*(one.value for one in Unvisited)),
        "absorbing": _names,
    },
    "truth": {},
}
KEYS = {name: (*checks,) for name, checks in CHECKS.items()}
KEYS |= {"truth": ("reward", "costs", "budgets"), "": (*KEYS[""], *filter(None, CHECKS))}
NEEDED = {"features": ("reward",), "grid": ("rows", "columns"), "truth": ("reward",)}


def read_settings(folder: Path) -> ProblemSettings:
    """The settings of a folder, or one line that names the key; all absent without a file."""
    path = folder / FILE
    content, settings = read_toml(path) if path.exists() else {}, {}
    with naming(path):
        for name, checks in CHECKS.items():
            table = content.get(name, {}) if name else content
            _check_keys(name, table, there=name in content)
            for key, check in checks.items():
                if key in table:
                    settings[key] = check(f"{name}.{key}" if name else key, table[key])
        settings.pop("version", None)
        for key in ("unended", "link_size") if "goal" not in content else ():
            if settings.get(key):
                message = f'{key} is about trips, which need goal = "last"; there is no goal'
                raise InvalidModel(message)
    return ProblemSettings(path=path, truth=content.get("truth", {}), **settings)


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
    bounds = known.get("bounds", {})
    columns = {
        "lower": {name: ends[0] for name, ends in bounds.items()},
        "upper": {name: ends[1] for name, ends in bounds.items()},
        **{word: known.get(word, {}) for word in ("fixed", "start")},
    }
    table: dict[str, dict[str, float]] = {}
    for word, column in columns.items():
        for name, value in column.items():
            if value is not None:
                table.setdefault(name, {})[word] = float(value)
    return table


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
