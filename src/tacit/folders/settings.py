"""`problem.toml`: what stands in it, checked key by key, and the names that it fixes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.files.atomic import check_text
from tacit.files.columns import did_you_mean
from tacit.inverse.joint.trips import UNENDED
from tacit.model.transitions import Layout

if TYPE_CHECKING:
    from tacit.data.demonstrations import Demonstrations
    from tacit.folders.reading import FeatureTable

FILE = "problem.toml"
LARGEST = 2**26  # bytes: names of a million states
TOP = ("discount", "initial", "goal", "unended")
KEYS = {
    "": (*TOP, "features", "names", "grid", "transitions", "truth", "coefficients"),
    "features": ("reward", "costs", "link_size"),
    "names": ("states", "actions"),
    "grid": ("rows", "columns", "directions"),
    "transitions": ("prior", "unvisited", "absorbing"),
    "truth": ("reward", "costs", "budgets"),
}


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
        prior: pseudo-count of a row, where transitions are estimated.
        over: where the pseudo-count goes.
        unvisited: what pairs that were never seen do.
        absorbing: states where time goes on and every action stays.
        truth: weights and budgets of the truth; empty where it is not given.
        coefficients: what is known of coefficients beforehand, as it stands there.
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
    prior: float = 1.0
    over: str = "successors"
    unvisited: str = "prior"
    absorbing: tuple[str, ...] = ()
    truth: dict[str, Any] = field(default_factory=dict)
    coefficients: object = field(default_factory=dict)


# A key of sixteen parts with dots between them.
NESTED = re.compile(r"""(?:(?:[\w-]{1,64}|"[^"\n]{0,64}"|'[^'\n]{0,64}')[ \t]*\.[ \t]*){16}""")


def read_settings(folder: Path) -> Settings:
    """The settings of a folder; all absent where it has no `problem.toml`."""
    path = folder / FILE
    return _Reader(path, read_toml(path)).settings() if path.exists() else Settings(path=path)


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


@dataclass(frozen=True)
class _Reader:
    """Takes the tables apart.

    Attributes:
        path: of the file.
        given: what it holds.
    """

    path: Path
    given: dict[str, Any]

    def settings(self) -> Settings:
        """The settings, or one line that names the key."""
        self._refuse_unknown("", self.given)
        features, names = self._table("features"), self._table("names")
        grid, transitions = self._table("grid"), self._table("transitions")
        prior, over = self._prior(transitions.get("prior", 1.0))
        return Settings(
            path=self.path,
            discount=self._discount(),
            initial=self._initial(),
            goal=self._word("goal", self.given["goal"], ("last",)) if "goal" in self.given else "",
            unended=self._unended(),
            reward=self._made_of("features.reward", features["reward"]) if features else None,
            costs=self._costs(features.get("costs", [])),
            link_size=self._link_size(features.get("link_size", {})),
            states=self._names("names.states", names.get("states", [])),
            actions=self._names("names.actions", names.get("actions", [])),
            rows=self._count("grid.rows", grid["rows"]) if grid else 0,
            columns=self._count("grid.columns", grid["columns"]) if grid else 0,
            directions=self._directions(grid.get("directions", [])),
            prior=prior,
            over=over,
            unvisited=self._word(
                "transitions.unvisited",
                transitions.get("unvisited", "prior"),
                ("prior", "stay", "refuse"),
            ),
            absorbing=self._absorbing(transitions.get("absorbing", [])),
            truth=self._table("truth"),
            coefficients=self.given.get("coefficients", {}),
        )

    def _table(self, name: str) -> dict[str, Any]:
        table = self.given.get(name, {})
        if not isinstance(table, dict):
            raise self._wrong(name, f"a table: write [{name}] on a line of its own", table)
        self._refuse_unknown(name, table)
        needed = {"features": ("reward",), "grid": ("rows", "columns"), "truth": ("reward",)}
        for key in needed.get(name, ()) if name in self.given else ():
            if key not in table:
                raise InvalidModel(f"{self.path}: [{name}] must have {key}; it has {_list(table)}")
        return table

    def _refuse_unknown(self, name: str, table: dict[str, Any]) -> None:
        for key in table:
            if key not in KEYS[name]:
                place = f"[{name}]" if name else "the file"
                hint = did_you_mean(key, KEYS[name]) or f"; it may hold {_list(KEYS[name])}"
                raise InvalidModel(f"{self.path}: unknown key {key!r} in {place}{hint}")

    def _wrong(self, key: str, expected: str, got: object) -> InvalidModel:
        return InvalidModel(f"{self.path}: {key} must be {expected}; got {got!r:.80}")

    def _number(self, key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number", value)
        return float(value)

    def _count(self, key: str, value: object) -> int:
        if type(value) is not int or value < 1:
            raise self._wrong(key, "a positive whole number", value)
        return value

    def _word(self, key: str, value: object, words: tuple[str, ...]) -> str:
        if value not in words or not isinstance(value, str):
            raise self._wrong(key, f"one of {_list(words)}", value)
        return value

    def _discount(self) -> float | None:
        if "discount" not in self.given:
            return None
        discount = self._number("discount", self.given["discount"])
        if not 0.0 <= discount <= 1.0:
            raise self._wrong("discount", "in [0, 1]", discount)
        return discount

    def _unended(self) -> str:
        if "unended" in self.given and "goal" not in self.given:
            raise InvalidModel(
                f'{self.path}: unended is about trips, which need goal = "last"; there is no goal'
            )
        return self._word("unended", self.given.get("unended", "refuse"), UNENDED)

    def _initial(self) -> str | dict[str, float] | None:
        initial = self.given.get("initial")
        if isinstance(initial, dict):
            return {
                str(name): self._number(f"initial.{name}", share) for name, share in initial.items()
            }
        if isinstance(initial, bool) or not isinstance(initial, str | int | None):
            raise self._wrong("initial", "a state or a table of state = probability", initial)
        return None if initial is None else str(initial)

    def _names(self, key: str, value: object) -> tuple[str, ...]:
        """Names as text; whole numbers count as names."""
        if not isinstance(value, list) or not all(type(entry) in (str, int) for entry in value):
            raise self._wrong(key, 'a list of names such as ["a", "b"]', value)
        names = tuple(str(entry).strip() for entry in value)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidModel(f"{self.path}: {key} must name each once; {twice!r} stands twice")
        return names

    def _costs(self, value: object) -> tuple[tuple[str, ...], ...]:
        if not isinstance(value, list) or any(not isinstance(one, list | dict) for one in value):
            wanted = 'one list of columns per constraint, [["heat"]]'
            raise self._wrong("features.costs", wanted, value)
        return tuple(self._made_of(f"features.costs[{k}]", entry) for k, entry in enumerate(value))

    def _made_of(self, key: str, value: object) -> tuple[str, ...]:
        """Names of columns; none for one indicator a state."""
        if isinstance(value, dict):
            if value != {"one_hot": "state"}:
                raise self._wrong(key, 'a list of columns, or { one_hot = "state" }', value)
            return ()
        if names := self._names(key, value):
            return names
        raise InvalidModel(f"{self.path}: {key} must name at least one column; got none")

    def _link_size(self, table: object) -> dict[str, float]:
        if not isinstance(table, dict) or (table and "goal" not in self.given):
            raise self._wrong("features.link_size", "{ feature = -1.0 }, of trips alone", table)
        return {k: self._number(f"features.link_size.{k}", one) for k, one in table.items()}

    def _directions(self, value: object) -> tuple[tuple[int, int], ...]:
        if not isinstance(value, list) or not all(
            isinstance(step, list) and [type(part) for part in step] == [int, int] for step in value
        ):
            wanted = "one [row, column] step per action, [[0, 1], [1, 0]]"
            raise self._wrong("grid.directions", wanted, value)
        return tuple((step[0], step[1]) for step in value)

    def _prior(self, value: object) -> tuple[float, str]:
        table = value if isinstance(value, dict) else {"strength": value}
        if not {*table} <= {"strength", "over"}:
            raise self._wrong("transitions.prior", "a number, or strength and over", value)
        strength = self._number("transitions.prior", table.get("strength", 1.0))
        if not 0.0 <= strength < float("inf"):
            raise self._wrong("transitions.prior", "a number of steps, 0 or more", strength)
        over = table.get("over", "successors")
        return strength, self._word("transitions.prior.over", over, ("successors", "all", "stay"))

    def _absorbing(self, value: object) -> tuple[str, ...]:
        if value == "stay":
            raise InvalidModel(
                f'{self.path}: transitions.absorbing must list the states that stay, ["a", "b"]; '
                "got 'stay': a pair without transitions is not available now, and a state without "
                "any ends the episode"
            )
        return self._names("transitions.absorbing", value)


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


@dataclass(frozen=True)
class Names:
    """How states and actions are called, in their order; plain numbers where they have no names.

    Attributes:
        states: one name a state.
        actions: one name an action; empty where nothing has told them yet.
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]

    def layout(self, settings: Settings) -> Layout:
        """The layout of these names on the grid of the settings."""
        return Layout(
            rows=settings.rows,
            columns=settings.columns,
            directions=settings.directions,
            state_names=() if numbered(self.states) else self.states,
            action_names=() if numbered(self.actions) else self.actions,
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
    known, stays = lookup(states), np.zeros(len(states), bool)
    for name in settings.absorbing:
        if name not in known:
            raise InvalidModel(
                f"{settings.path}: transitions.absorbing must name states; "
                f"got {name!r}{did_you_mean(name, known)}"
            )
        stays[known[name]] = True
    return stays


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
    start = np.zeros(len(states))
    for name, share in {given: 1.0}.items() if isinstance(given, str) else given.items():
        if name not in known:
            raise InvalidModel(
                f"{settings.path}: initial must name a state; got {name!r}"
                f"{did_you_mean(name, known)}"
            )
        start[known[name]] = share
    return _distribution(start, f"{settings.path}: initial")


def _distribution(shares: np.ndarray, what: str) -> np.ndarray:
    if shares.ndim != 1 or not (shares >= 0).all() or abs(shares.sum() - 1.0) > 1e-6:
        total = f"; it sums to {shares.sum():g}" if (shares >= 0).all() else "; one is negative"
        raise InvalidModel(f"{what} must be probabilities of states that sum to 1{total}")
    return shares


def first_states(
    settings: Settings, demonstrations: Demonstrations | None, states: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """[S] the shares of the first states that were seen, and the sentence that says so."""
    whole = None if demonstrations is None else np.flatnonzero(~demonstrations.partial)
    if demonstrations is None or whole is None or not len(whole):
        raise InvalidModel(
            f'{settings.path} must give initial, such as initial = "name of a state": there are no '
            "demonstrations seen from their start to take it from"
        )
    rows, begins = demonstrations.offsets[:-1][whole], demonstrations.states
    rows = rows[(begins[rows] >= 0) & (begins[rows] < states)]
    total = np.bincount(begins[rows], demonstrations.shares[rows], states)
    note = (
        f"Where episodes start was not given: the shares of the first states of {len(whole)} "
        "episodes were taken."
    )
    return total / (total.sum() or 1.0), (note,)
