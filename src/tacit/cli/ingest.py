"""`tacit ingest`: any log becomes a problem folder, with a picture of the cells it fell into."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, Union

from tyro.conf import arg

from tacit.cli.check import problem_facts
from tacit.cli.terminal import (
    LONGEST,
    Answer,
    Terminal,
    command_line,
    finding_data,
    shown_default,
    table_text,
)
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from tacit.checks import ResolutionCheck
    from tacit.data.measurements import Measurements
    from tacit.data.sources import Log, MeasuredReader
    from tacit.estimators.task import Task
    from tacit.model.objective import Features

PICTURE = "cells.png"
# Most named states that become one feature each where none were given.
FEW = 40
# How much coarser and finer cells are tried.
FACTOR = 1.5
NO_TABLES = (".json", ".geojson", ".gpx", ".kml", ".xml", ".yaml", ".shp")
# Options that say nothing of how a log is read.
ONCE = ("log", "out", "reward", "cost", "discount", "adequacy", "link_size", "no_movement")
# Options of a log of arrays, as D4RL keeps them; --state names their columns.
OF_ARRAYS = {"log", "out", "state", "states", "exogenous", "reward", "cost", "discount"}
# Options of trips along links beside those of their reader.
ON_LINKS = {"log", "out", "to", "reward", "cost", "discount", "link_size"}
# Most columns of a log that are shown where it was not said what they are.
SHOWN = 40


@dataclass(frozen=True, kw_only=True)
class Ingest:
    """Turn any log into a problem folder: positions to cells, time to steps, moves to actions.

    A log is a .csv or .parquet file with one row a moment, or an .npz file of offline reinforcement
    learning, as D4RL keeps it. NA, N/A, NaN, null, - and empty cells are missing. A gap in time, a
    missing position or a move beyond a neighbouring cell ends an episode.
    """

    log: Path
    """the log, .csv, .parquet or .npz"""
    episode: str = "episode"
    """column that tells who, or which track, was seen"""
    out: Path = Path("problem")
    """folder to make; it must not exist yet, or be empty"""
    time: Annotated[Optional[str], shown_default("the order of the file")] = None
    """column of time: time stamps such as 2024-05-31 18:30, or numbers"""
    every: Annotated[Optional[str], shown_default("the median between rows")] = None
    """time step, such as 15min or 2h; a plain number where times are numbers"""
    state: Annotated[Union[None, tuple[str, ...]], shown_default("none")] = None
    """column of states, where the log has them; or columns of measurements"""
    exogenous: Annotated[Union[None, tuple[str, ...]], shown_default("none")] = None
    """of the columns of measurements, those that no action moves"""
    states: Annotated[Optional[int], shown_default("each row is a state of its own")] = None
    """of several columns of measurements, number of states: scaled, imputed clusters of the rows"""
    ended: Annotated[Optional[str], shown_default("none")] = None
    """of a log of measurements, column that says in some row how an episode ended: true, or died"""
    x: Annotated[Optional[str], shown_default("none")] = None
    """column of positions to the east; lon means degrees"""
    y: Annotated[Optional[str], shown_default("none")] = None
    """column of positions to the north; lat means degrees"""
    cell: Annotated[Optional[float], shown_default("none")] = None
    """width of square cells, in units of x and y; metres for lon and lat"""
    hexagon: Annotated[Optional[float], shown_default("none")] = None
    """width of hexagons, instead of cells"""
    clusters: Annotated[Optional[int], shown_default("none")] = None
    """number of clusters, instead of cells"""
    action: Annotated[Optional[str], shown_default("inferred from the moves")] = None
    """column of actions"""
    ends: Annotated[Union[None, tuple[str, ...]], shown_default("none")] = None
    """states that end an episode, such as discharged or lost: nothing is done there"""
    group: Annotated[Optional[str], shown_default("none")] = None
    """column of groups to compare"""
    individual: Annotated[Optional[str], shown_default("--episode, where gaps split one")] = None
    """column of individuals, whose episodes are not independent"""
    weight: Annotated[Optional[str], shown_default("every track counts once")] = None
    """column of counts: how many tracks like this one were seen"""
    sampling_weight: Annotated[Optional[str], shown_default("every row counts alike")] = None
    """column of sampling weights: how much a row stands for, in any unit, as of a survey"""
    columns: Annotated[Union[None, tuple[str, ...]], shown_default("none")] = None
    """columns that may matter: their mean in every state, or the shares of words"""
    action_columns: Annotated[Union[None, tuple[str, ...]], shown_default("none")] = None
    """the same of columns that depend on what is done: their mean in every state by action"""
    maps: Annotated[Union[None, tuple[str, ...]], shown_default("none")] = None
    """maps that may matter, each as NAME=FILE: an ASCII grid (.asc), a GeoTIFF or .npy"""
    classes: Annotated[
        Union[None, tuple[str, ...]], shown_default("maps of few whole numbers that look so")
    ] = None
    """maps whose numbers are classes, each as NAME or NAME=CLASS to compare with; no names: none"""
    no_movement: bool = False
    """leave out how an animal moves whatever the land: staying, and the length of a step"""
    radius: Annotated[Optional[int], shown_default("what most moves need")] = None
    """how many square cells a move leads at most"""
    extent: Annotated[
        Union[None, tuple[float, float, float, float]], shown_default("where positions are")
    ] = None
    """west, south, east and north of the land, in units of x and y; what lies beyond is a gap"""
    origin: Annotated[Union[None, tuple[float, float]], shown_default("that of the first map")] = (
        None
    )
    """x and y of a corner of some cell, so that logs share their cells"""
    links: Annotated[Optional[Path], shown_default("none")] = None
    """table of the links of a network, a row each way: every episode is a trip along them"""
    begins: Annotated[Optional[str], arg(name="from"), shown_default("recognised")] = None
    """of the links, column of the node where one begins"""
    to: Annotated[Optional[str], shown_default("recognised")] = None
    """of the links, column of the node where one ends"""
    nodes: Annotated[Optional[Path], shown_default("none")] = None
    """table of the nodes of the links with columns node, x and y: reports then draw a map"""
    link: Annotated[Optional[str], shown_default("recognised")] = None
    """column of links, where trips are of links and not of nodes (--state)"""
    link_size: bool = False
    """add the link size to the links: the correction for routes that share links"""
    reward: Annotated[Union[None, tuple[str, ...]], shown_default("all but the costs")] = None
    """what may be wanted: names of columns and maps, or a formula, scale(slope) + C(cover)"""
    cost: Annotated[Union[None, tuple[str, ...]], shown_default("none")] = None
    """what may be refused, a constraint each: a name, roads+water, or a formula, road:hunting"""
    discount: Annotated[Optional[float], shown_default("0.9, on links 1")] = None
    """how far ahead is planned: 1 / (1 - discount) steps"""
    decimal_comma: bool = False
    """whether 3,5 means three and a half"""
    adequacy: bool = False
    """recover with coarser and finer cells as well, and say whether the answer depends on them"""

    def __post_init__(self) -> None:
        if self.discount is not None and not 0.0 <= self.discount <= 1.0:
            raise InvalidModel(f"discount must be in [0, 1]; got {self.discount}")
        for entry in self.maps or ():
            if not all(entry.partition("=")[::2]):
                raise InvalidModel(f"maps must be NAME=FILE, such as food=food.asc; got {entry!r}")
        if self.state is None and (self.exogenous or self.ended):
            raise InvalidModel("exogenous and ended are for columns of measurements: --state A B")
        if self.links is None and (self.begins or self.to or self.nodes or self.link):
            raise InvalidModel("--from, --to, --nodes and --link are for trips: --links FILE")
        if self.link_size and self.links is None:
            raise InvalidModel("--link-size is for trips: --links FILE")
        if self.adequacy and not (self.cell or self.hexagon or self.states):
            raise InvalidModel("adequacy needs --cell, --hexagon or --states, which it changes")
        if self.states is not None and len(self.state or ()) < 2 and not self.offline:
            raise InvalidModel("--states is for several columns of measurements: --state A B")

    def run(self, terminal: Terminal) -> Answer:
        """Writes the folder and says what became of the log."""
        from tacit.files.atomic import refuse_taken, write_bytes, write_folder
        from tacit.folders.ingested import write_log
        from tacit.folders.problem import Problem
        from tacit.show.canvas import png
        from tacit.show.grid import places_figure

        refuse_taken(self.out)
        if self.measured and self.states is None:
            return self.rows()
        is_told = self.links is not None or self.offline
        if not is_told and (proposal := self.proposal()) is not None:
            return proposal
        log = self.read()
        self.features(log)  # refuses what cannot be made, before anything is written
        reward, costs = log.made_of(*self.asked(log))
        made_of = {"reward": reward, "costs": costs}
        settings: dict[str, object] = {"discount": self._discount}
        # An animal may stay more, or less, than at random; a measurement may be good or bad.
        if self.movement_of(log) or self.states is not None:
            settings["free_reward"] = True
        if self.links is not None:  # every episode is a trip to its last state
            settings["goal"] = "last"
        if self.link_size:
            made_of["link_size"] = self.first_coefficients(log)

        def write(folder: Path) -> None:
            write_log(folder, log, made_of, settings, {**self.options, **log.made_by})
            if log.places is not None:
                write_bytes(folder / PICTURE, png(places_figure(log), dots_per_inch=150))

        write_folder(self.out, write)
        problem = Problem.load(self.out)  # what cannot be read again is a bug of ours, told now
        facts = problem_facts(problem)
        parts: list[str] = [table_text(["what", "value"], [*facts.items()], str(self.out))]
        moves = self.movement_of(log)
        notes = [*log.notes]
        if moves:
            notes.append(
                f"movement comes along: {' and '.join(moves)} are terms of the reward, of either "
                "sign, so that habitat does not answer for them (--no-movement leaves them out)"
            )
        who = log.demonstrations.individuals
        alone = log.demonstrations.episodes == 1 if who is None else len({*who}) == 1
        if log.places is not None and alone:
            notes.append(
                "there is one individual: what is found is about it alone, and errors cannot tell "
                "how others differ"
            )
        if log.places is not None and log.places.radius > 1:
            notes.append(
                f"moves lead up to {log.places.radius} cells, as the track asks (--radius)"
            )
        parts += [f"note: {note}" for note in notes]
        data: dict[str, object] = {"problem": self.out, **facts, "notes": notes}
        if self.adequacy:
            found = self.check_resolution()
            parts += list(found.sentences)
            data["adequate"] = found.adequate
            data["findings"] = [finding_data(one) for one in found.sentences]
        picture = f", {self.out / PICTURE} shows the states" if log.places else ""
        parts.append(f"problem: {self.out} (next: tacit check {self.out}){picture}")
        return Answer(parts, data)

    @property
    def measured(self) -> bool:
        """Whether columns of measurements were named, in the place of states.

        Several are, and one is that says so or whose numbers seldom come again.
        """
        from tacit.data.sources import is_measured

        if self.offline:
            return True
        if not self.state or self.links is not None:
            return False
        first, *others = self.state
        declared = bool(others or self.exogenous or self.ended)
        return declared or (self.log.is_file() and is_measured(self.log, first))

    def rows(self) -> Answer:
        """Writes the folder of a log of measurements, and says what became of it."""
        from tacit.estimators.logged.world import Logged
        from tacit.folders.problem import Problem
        from tacit.folders.rows_problem import RowsProblem
        from tacit.model.features.formulas import FormulaFeatures

        seen = self.measured_rows()
        reward = " + ".join(self.reward or (f"scale({_quoted(name)})" for name in seen.columns))
        features = FormulaFeatures(reward=reward, costs=tuple(self.cost or ()))
        world = Logged(discount=self._discount, exogenous=self.exogenous or ())
        RowsProblem(world, features, seen).save(self.out)
        problem = Problem.load(self.out)
        rows = [
            ("measurements", ", ".join(seen.columns)),
            ("actions", ", ".join(seen.action_names[:12])),
            ("episodes", seen.episodes),
            ("steps", seen.steps),
            ("reward made of", reward),
            *((f"cost {k} made of", formula) for k, formula in enumerate(features.costs)),
        ]
        notes = problem.notes
        parts: list[str] = [table_text(["what", "value"], rows, str(self.out))]
        parts += [f"note: {note}" for note in notes]
        parts.append(f"problem: {self.out} (next: tacit recover {self.out})")
        return Answer(parts, {"problem": self.out, **dict(rows), "notes": notes})

    @property
    def offline(self) -> bool:
        """Whether the log holds arrays of offline reinforcement learning, as D4RL keeps them."""
        return self.log.suffix.lower() == ".npz"

    def measured_rows(self) -> Measurements:
        """The rows of a table, or of arrays, of measurements."""
        if not self.offline:
            return self.measured_reader().read(self.log)
        from tacit.data.sources import from_offline

        for one in fields(self):
            if one.name not in OF_ARRAYS and getattr(self, one.name) != one.default:
                option = one.name.replace("_", "-")
                raise InvalidModel(f"--{option} is for tables; {self.log} holds arrays")
        return from_offline(self.log, columns=self.state)

    def measured_reader(self) -> MeasuredReader:
        """The reader of a log of measurements; refuses options that mean nothing to it."""
        from tacit.data.sources import MeasuredReader

        plain = {"out", "episode", "log", "state", "discount", "reward", "cost", "exogenous"}
        plain |= {one.name for one in fields(MeasuredReader)} | {"states", "adequacy"}
        for one in fields(self):
            if one.name not in plain and getattr(self, one.name) != one.default:
                option = one.name.replace("_", "-")
                raise InvalidModel(
                    f"--{option} is for logs of states or positions; the columns of --state are "
                    "measurements, each row a state of its own, or of clusters (--states)"
                )
        if self.action is None:
            raise InvalidModel("a log of measurements needs --action, the column of what was done")
        asked = {one.name: getattr(self, one.name, None) for one in fields(MeasuredReader)}
        asked["measured"] = self.state
        return MeasuredReader(**{k: v for k, v in asked.items() if v is not None})

    def proposal(self) -> Answer | None:
        """The columns of the log and what to type, where too little was given; None otherwise."""
        if not self.log.is_file():
            return None
        from tacit.data.sources import guess_columns
        from tacit.errors import InvalidDemonstrations
        from tacit.files.tables import open_table

        if self.log.suffix.lower() in NO_TABLES:
            raise InvalidDemonstrations(
                f"{self.log} must be a table of columns: write it as CSV, one row a moment"
            )
        names = open_table(self.log, InvalidDemonstrations).names
        sizes = (self.cell, self.hexagon, self.clusters)
        has_place = self.state is not None or (self.x is not None and self.y is not None)
        lacks = [
            *(["--episode"] if self.episode == "episode" and "episode" not in names else []),
            *([] if has_place else ["--state (or --x and --y)"]),
            *([] if self.state or any(sizes) or not has_place else ["--cell WIDTH"]),
        ]
        if not lacks:
            return None
        guess = guess_columns(self.log)
        typed = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "log"}
        given = {name: v for name, v in typed.items() if v != getattr(Ingest, name)}
        given.pop("out", None)
        options = {**guess.options(given), **given, "out": str(self.out)}
        command = command_line("ingest", self.log, options)
        role = {name: option for option, found in guess.roles.items() for name in found}
        rows = [
            (name, guess.holds[name], guess.first[name][:40], role.get(name, ""))
            for name in names[:SHOWN]
        ]
        more = [f"{len(names) - SHOWN} more columns are not shown"] if len(names) > SHOWN else []
        parts: list[str] = [table_text(["column", "holds", "first", "seems to be"], rows), *more]
        said = f"{self.log} needs {' and '.join(lacks)}; "
        line = f"{said}try: {command}"
        if len(line) > LONGEST - len("tacit: "):  # what is typed must be whole
            parts.append(command)
            line = f"{said}try the line above, a guess by its columns"
        data = {"columns": names, "guess": guess.roles, "try": command}
        return Answer(parts, data, code=2, errors=[line])

    @property
    def options(self) -> dict[str, object]:
        """What is needed to read another log alike, by the names of these fields."""
        found: dict[str, object] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in ONCE or value == one.default:
                continue
            if isinstance(value, Path):
                value = str(value.resolve())
            if one.name == "maps":
                pairs = (entry.partition("=") for entry in value)
                value = [f"{name}={Path(path).resolve()}" for name, _, path in pairs]
            found[one.name] = list(value) if isinstance(value, tuple) else value
        return found

    @classmethod
    def again(cls, log: Path, options: Mapping[str, Any]) -> Ingest:
        """The command for another log, by the `options` of an earlier one."""
        known = {one.name for one in fields(cls)}
        typed: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in options.items()
            if name in known
        }
        typed |= {name: Path(typed[name]) for name in {"links", "nodes"} & {*typed}}
        return cls(log=log, **typed)

    def read(self, *, scale: float = 1.0, profiles: Mapping[str, Any] | None = None) -> Log:
        """The log, in cells of that many times their width, or so many times as many clusters.

        Args:
            scale: of the widths.
            profiles: of states that are known already; None for those of this log.
        """
        from tacit.data.sources import LogReader

        if self.links is not None:
            return self.trips()
        if self.states is not None:
            return self.clustered(round(self.states * scale), profiles)
        typed = {one.name: getattr(self, one.name, None) for one in fields(LogReader)}
        options: dict[str, Any] = {
            name: value for name, value in typed.items() if value is not None
        }
        if self.state is not None:
            (options["state"],) = self.state
        for name in {"cell", "hexagon"} & {*options}:
            options[name] *= scale
        for name in {"maps", "classes"} & {*options}:
            pairs = (one.partition("=") for one in options[name])
            options[name] = {key: value or None for key, _, value in pairs}
        found = LogReader(**options).read(self.log)
        return found if {*found.features} > {*found.spare} else with_plain_features(found)

    def clustered(self, count: int, profiles: Mapping[str, Any] | None) -> Log:
        """The log of measurements in clusters."""
        from tacit.data.sources import Profiles

        seen = self.measured_rows()
        made = Profiles.of(seen.observations, seen.columns, count)
        if profiles is not None:
            made = Profiles.from_stored(profiles)
        if self.offline:
            ways = ["terminal" if over else "" for over in seen.ended.tolist()]
        else:
            outcomes = self.measured_reader().outcomes(self.log)
            names = range(seen.episodes) if seen.names is None else seen.names.tolist()
            ways = [outcomes.get(str(name), "") for name in names]
        log = made.log(seen, ways)
        return replace(log, made_by={"profiles": made.stored()})

    def trips(self) -> Log:
        """The log of trips along links."""
        from tacit.data.sources import LinksReader

        assert self.links is not None
        own = {one.name for one in fields(LinksReader)} - {"ends"}
        for one in fields(self):
            if one.name not in own | ON_LINKS and getattr(self, one.name) != one.default:
                raise InvalidModel(f"--{one.name.replace('_', '-')} is not for trips along links")
        typed = {name: getattr(self, name, None) for name in own}
        typed |= {"ends": self.to, "state": self.state[0] if self.state else None}
        if self.episode == Ingest.episode:
            typed.pop("episode")  # the word by itself: it is recognised
        return LinksReader(**{k: v for k, v in typed.items() if v is not None}).read(self.log)

    def first_coefficients(self, log: Log) -> dict[str, float]:
        """The coefficients at which link sizes are made: those of a fit without them."""
        from tacit.estimators.trips.traveller import recover_trips
        from tacit.estimators.trips.world import Trips

        world, features = log.mdp(0.5), self.features(log)
        trips = Trips(world, features, log.demonstrations, discount=self._discount)
        found = recover_trips(trips, throw=False).parameters
        return dict(zip(found.names, found.estimates.tolist(), strict=True))

    @property
    def _discount(self) -> float:
        """The discount as given, else 0.9, or 1 on links, where every trip ends."""
        if self.discount is not None:
            return self.discount
        return 0.9 if self.links is None else 1.0

    def features(self, log: Log) -> Features:
        """What reward and cost may be made of."""
        return log.maps(*self.asked(log))

    def asked(self, log: Log) -> tuple[Sequence[str] | str | None, list[tuple[str, ...] | str]]:
        """Names or a formula for the reward, None where it was not given, and for each cost."""
        known, reward = {*log.features}, self.reward
        costs = constraints_of(self.cost or (), log.features)
        if reward is None:
            wanted, _ = log.made_of(None, costs)
            return [*wanted, *self.movement_of(log)], costs
        reward = (*reward, *self.movement_of(log))
        if not {*reward} <= known:
            reward = " + ".join(_quoted(one) if one in known else one for one in reward)
        return reward, costs

    def movement_of(self, log: Log) -> list[str]:
        """The terms of movement that come along: what of them is not asked for already."""
        if self.no_movement or self.links is not None or log.places is None:
            return []
        asked = " ".join([*(self.reward or ()), *(self.cost or ())])
        return [name for name in log.spare if name not in asked]

    def check_resolution(self) -> ResolutionCheck:
        """What coarser and finer cells give."""
        from tacit.checks import resolution_check
        from tacit.estimators.task import Task

        width = self.cell or self.hexagon or self.states
        assert width is not None

        def make(size: float) -> Task:
            log = self.read(scale=size / width)
            return Task(log.mdp(self._discount), self.features(log), log.demonstrations)

        return resolution_check(make, [width, width * FACTOR, width / FACTOR])


def _quoted(name: str) -> str:
    """A column as a formula spells it."""
    return name if name.isidentifier() else f"`{name}`"


def constraints_of(asked: Sequence[str], features: Collection[str]) -> list[tuple[str, ...] | str]:
    """What each constraint is made of: NAME, NAME+NAME of several, or a formula."""
    made: list[tuple[str, ...] | str] = []
    for one in asked:
        names = (one,) if one in features else tuple(one.split("+"))
        made.append(names if {*names} <= {*features} else one)
    for names in made:
        twice = not isinstance(names, str) and len({*names}) < len(names)
        if twice or made.count(names) > 1:
            raise InvalidModel(
                "--cost must name each constraint, and each feature in it, once; got "
                f"{names if isinstance(names, str) else '+'.join(names)!r} in "
                f"{' '.join(asked)!r}: a name by itself is a constraint, roads+water is one of two "
                "features"
            )
    return made


def with_plain_features(log: Log) -> Log:
    """The log with features that every state has: where it lies, or which it is."""
    import numpy as np

    names, places = log.layout.state_names, log.places
    if places is not None:
        low, high = places.centres.min(axis=0), places.centres.max(axis=0)
        share = (places.centres - low) / np.where(high > low, high - low, 1.0)
        found = {"east": share[:, 0], "north": share[:, 1]}
        said = "no --columns or --maps were given: how far east and north a cell lies may matter"
    elif len(names) <= FEW:
        found = {f"in {name}": np.eye(len(names))[s] for s, name in enumerate(names)}
        said = "no --columns were given: each state may matter for itself"
    else:
        raise InvalidModel(
            f"what may matter must be given for {len(names)} states: --columns names columns of "
            "the log, --maps files of maps"
        )
    seen = replace(log.demonstrations, notes=(*log.notes, said))
    return replace(
        log, features=found | dict(log.features), demonstrations=seen, notes=(*log.notes, said)
    )
