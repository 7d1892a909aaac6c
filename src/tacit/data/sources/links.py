"""Trips along the links of a network: a table of links, and a log of nodes or of links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from tacit.data.episodes import PEOPLE, ROWS
from tacit.data.sources.guess import ColumnGuess, guess_columns
from tacit.data.sources.log_rows import LogRows
from tacit.data.sources.logs import MOST_WORDS, Log, episodes_of
from tacit.data.sources.positions import Degrees
from tacit.data.sources.tracks import Track
from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.files.columns import RawColumn
from tacit.files.tables import TableSource, open_table
from tacit.files.wording import did_you_mean, listed, natural_order, some
from tacit.model.layout import Layout

# What the columns of a table of links are called: where a link begins and where it ends.
BEGINS = ("from", "from_node", "a", "u", "source", "tail", "init_node", "start", "start_node", "i")
ENDS = ("to", "to_node", "b", "v", "target", "head", "term_node", "end", "end_node", "j")
# The columns of a table of nodes: name, position to the east and to the north.
PLACED = (
    ("node", "id", "node_id", "name", "osmid"),
    ("x", "lon", "longitude", "east", "easting", "x_coord"),
    ("y", "lat", "latitude", "north", "northing", "y_coord"),
)
# Most nodes at which links end that actions are called by; beyond, they are numbered at each node.
MOST_NAMED = 400


@dataclass(frozen=True, eq=False, kw_only=True)
class Links:
    """The links of a network, one way each.

    Attributes:
        path: of their table.
        nodes: names of all nodes.
        names: names of the links; empty where they have none.
        begins: [L] number of the node where each begins.
        ends: [L] number of the node where each ends.
        actions: [L] number of the action that takes each.
        action_names: of all actions.
        attributes: name -> [L] numbers.
        classes: name -> [L] 0 or 1, of words: each but the commonest.
        centres: [S, 2] where the nodes lie; empty where nobody knows.
        notes: what was assumed.
    """

    path: str
    nodes: tuple[str, ...]
    names: tuple[str, ...]
    begins: np.ndarray
    ends: np.ndarray
    actions: np.ndarray
    action_names: tuple[str, ...]
    attributes: Mapping[str, np.ndarray]
    classes: Mapping[str, np.ndarray] = field(default_factory=dict)
    centres: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    notes: tuple[str, ...] = ()

    @property
    def moves(self) -> np.ndarray:
        """[S, A] the node that each action leads to, -1 where there is no link."""
        moves = np.full((len(self.nodes), len(self.action_names)), -1, np.int64)
        moves[self.begins, self.actions] = self.ends
        return moves

    @property
    def layout(self) -> Layout:
        """The names of nodes and actions, and where the nodes lie."""
        named = Layout(state_names=self.nodes, action_names=self.action_names)
        if not len(self.centres):
            return named
        centres = tuple(map(tuple, self.centres.tolist()))
        return replace(named, centres=centres, leads=tuple(map(tuple, self.moves.tolist())))

    def tables(self, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Name -> [S, A] the numbers of the links; 0 where there is none."""
        found = {}
        for name, values in columns.items():
            found[name] = np.zeros((len(self.nodes), len(self.action_names)))
            found[name][self.begins, self.actions] = values
        return found

    @cached_property
    def between(self) -> dict[tuple[int, int], list[int]]:
        """(node, node) -> the links from the one to the other."""
        found: dict[tuple[int, int], list[int]] = {}
        for link, ends in enumerate(zip(self.begins.tolist(), self.ends.tolist(), strict=True)):
            found.setdefault(ends, []).append(link)
        return found


@dataclass(frozen=True, kw_only=True)
class LinksReader:
    """How a log of trips along links becomes a `Log`: one row a node or a link, in order.

    Columns that are not named are recognised: those of the links by what they are called, that of
    the log by what it holds.

    Attributes:
        links: .csv or .parquet file with a row for each link, one way: two columns of nodes, and
            attributes. Links may be parallel.
        begins: its column of the nodes where links begin.
        ends: its column of the nodes where links end.
        link_name: its column of names of links; needed where trips are of links.
        nodes: .csv or .parquet file of the nodes and where they lie, for maps.
        episode: column of the log that tells which trip a row is of.
        state: its column of nodes.
        link: or its column of links.
        time: its column of the order in a trip; None takes the rows as they come.
        group: its column of groups to compare.
        individual: its column of individuals, whose trips are not independent.
        weight: its column of counts: how many trips like this one were seen.
        attributes: columns of the links that matter; None for all columns of numbers.
        decimal_comma: whether 3,5 means three and a half.
    """

    links: str | Path
    begins: str | None = None
    ends: str | None = None
    link_name: str | None = None
    nodes: str | Path | None = None
    episode: str | None = None
    state: str | None = None
    link: str | None = None
    time: str | None = None
    group: str | None = None
    individual: str | None = None
    weight: str | None = None
    attributes: Sequence[str] | None = None
    decimal_comma: bool = False

    def read(self, log: str | Path) -> Log:
        """The trips of a .csv or .parquet file, as a `Log`."""
        links = self.network()
        roles, notes = self._roles(Path(log), links)
        rows, more = LogRows.read(log, roles).within_individuals()
        track = self._track(rows)
        if "link" in roles:
            taken = (
                rows["link"]
                .select(track.rows)
                .numbered(
                    {name: at for at, name in enumerate(links.names)}, f"a link of {links.path}"
                )
            )
            _check_joined(rows, track, taken, links)
            where, finals = links.begins[taken], links.ends[taken[_lasts(track)]]
        else:
            node = {name: at for at, name in enumerate(links.nodes)}
            where = rows["state"].select(track.rows).numbered(node, f"a node of {links.path}")
            track, where, stops = _without_stops(track, where)
            if stops:
                more = [*more, f"{stops} rows name the node of the row before: they are left out"]
            taken, finals = _links_taken(rows, track, where, links), None
        actions = np.where(taken >= 0, links.actions[taken], -1)
        layout = links.layout
        seen, alone = episodes_of(rows, track, where, actions, layout, finals=finals)
        notes = (*notes, *links.notes, *more, *alone, *seen.notes)
        return Log(
            demonstrations=seen,
            layout=layout,
            moves=links.moves,
            features=links.tables({**links.attributes, **links.classes}),
            spare=tuple(links.classes),
            notes=notes,
        )

    def network(self) -> Links:
        """The `Links` of the table."""
        table = open_table(Path(self.links), InvalidModel, expected=["from", "to"])
        begins = _column(table, self.begins, BEGINS, "--from")
        ends = _column(table, self.ends, ENDS, "--to")
        ids = self.link_name or _named(table.names, self.link or "", "link", "link_id", "id")
        columns = table.read(texts=table.names)
        ends_of = [columns[name] for name in (begins, ends)]
        for column in ends_of:
            column.refuse(column.voids, "a node: every link begins and ends in one")
        if not len(ends_of[0]):
            raise InvalidModel(f"{self.links} must have a row for each link; it has none")
        nodes = natural_order({*(ends_of[0].texts or ()), *(ends_of[1].texts or ())})
        node = {name: at for at, name in enumerate(nodes)}
        first, last = (column.numbered(node, "a node") for column in ends_of)
        names = _link_names(columns[ids], required=bool(self.link_name)) if ids else ()
        if not names:
            ids = None
        rank = _ranks(first, last)
        actions, action_names = _actions(first, last, rank, nodes)
        asked = [name for name in table.names if name not in (begins, ends, ids)]
        attributes, classes, notes = self._attributes(columns, asked)
        centres, placed = np.zeros((0, 2)), list[str]()
        if self.nodes is not None:
            centres, placed = _centres(Path(self.nodes), nodes, comma=self.decimal_comma)
        parallel = int((rank > 0).sum())
        said = [f"{parallel} links are parallel to another"] if parallel else []
        return Links(
            path=Path(self.links).name,
            nodes=nodes,
            names=names,
            begins=first,
            ends=last,
            actions=actions,
            action_names=action_names,
            attributes=attributes,
            classes=classes,
            centres=centres,
            notes=(*said, *notes, *placed),
        )

    def _attributes(
        self, columns: Mapping[str, RawColumn], names: Sequence[str]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[str]]:
        """Attribute -> [L] numbers, class -> [L] 0 or 1, and the sentence on columns of words."""
        if self.attributes is not None:
            for name in self.attributes:
                if name not in names:
                    raise InvalidModel(
                        f"an attribute must be a column of {self.links}: {some(names)}; got "
                        f"{name!r}{did_you_mean(name, names)}"
                    )
            names = self.attributes
        attributes: dict[str, np.ndarray] = {}
        classes: dict[str, np.ndarray] = {}
        words = list[str]()
        for name in names:
            column = columns[name]
            if column.missing.all():
                raise InvalidModel(
                    f"{self.links}: {name} must be known of some link; it is missing in all: leave "
                    "the column out"
                )
            numbers = column.numbers(comma=self.decimal_comma)[column.values]
            if np.isfinite(numbers).any():
                values = column.measurements(comma=self.decimal_comma)
                if (odd := ~np.isfinite(values)).any():
                    raise column.wrong(int(np.argmax(odd)), "a number")
                attributes[name] = values
                continue
            words.append(name)
            texts = np.array(column.texts)[column.values]
            levels, counts = np.unique(texts, return_counts=True)
            if len(levels) <= MOST_WORDS:
                usual = levels[counts.argmax()]
                classes |= {
                    f"{name}: {level}": (texts == level).astype(float)
                    for level in levels
                    if level != usual
                }
        if not attributes and not classes:
            raise InvalidModel(
                f"{self.links} must have a column of numbers for each attribute; beside nodes it "
                f"has {some(words) if words else 'none'}"
            )
        if not words or self.attributes is not None:
            return attributes, classes, []
        said = f"{listed(words)}: words, which C({words[0]}) in a --reward formula takes"
        return attributes, classes, [said]

    def _roles(self, log: Path, links: Links) -> tuple[dict[str, str], list[str]]:
        """Role -> column of the log; those that nobody named are recognised, and said."""
        given = ("episode", "state", "link", "time", *PEOPLE, *ROWS)
        asked = {role: getattr(self, role, None) for role in given}
        roles = {role: name for role, name in asked.items() if name is not None}
        if "state" in roles and "link" in roles:
            raise InvalidModel("trips are of nodes (--state) or of links (--link); got both")
        notes, names = [], open_table(log, InvalidDemonstrations).names
        guess = guess_columns(log)
        if "episode" not in roles:
            found = "episode" if "episode" in names else "".join(guess.roles.get("episode", ()))
            if not found:
                raise InvalidDemonstrations(
                    f"{log} must have a column that tells which trip a row is of; it has "
                    f"{some(names)}: give it to --episode"
                )
            roles["episode"] = found
            notes.append(f"{found!r} was taken for the trip")
        if not {"state", "link"} & {*roles}:
            role, found = _along(log, links, guess, {*roles.values()})
            roles[role] = found
            what = "the nodes" if role == "state" else "the links"
            notes.append(f"{found!r} was taken for {what} of the trips")
        if "time" not in roles:
            free = [one for one in guess.roles.get("time", ()) if one not in roles.values()]
            if free:
                roles["time"] = free[0]
                notes.append(f"rows of a trip are in the order of {free[0]!r}")
        return roles, notes

    def _track(self, rows: LogRows) -> Track:
        """The rows in order, a piece for each trip."""
        role = "link" if "link" in rows.columns else "state"
        rows[role].refuse(rows[role].voids, f"a {'link' if role == 'link' else 'node'}")
        who = rows.who
        tick = np.arange(len(who))
        if "time" in rows.columns:
            tick, _, _ = rows.moments(comma=self.decimal_comma)
        order = np.lexsort((tick, who))
        owner = who[order]
        return Track(order, np.append(True, owner[1:] != owner[:-1]), owner)


def _column(table: TableSource, given: str | None, known: Sequence[str], option: str) -> str:
    """The name of a column of nodes: the one given, or one that is called so."""
    if given is not None:
        table.require(given)
        return given
    found = _named(table.names, *known)
    if not found:
        raise InvalidModel(
            f"{table.path} must have a column {known[0]!r}, of nodes; it has {some(table.names)}: "
            f"give it to {option}"
        )
    return found


def _named(names: Sequence[str], *known: str) -> str:
    """The first of these words that a column is called by; "" for none."""
    folded = {name.casefold(): name for name in reversed(names)}
    return next((folded[word.casefold()] for word in known if word.casefold() in folded), "")


def _link_names(column: RawColumn, *, required: bool) -> tuple[str, ...]:
    """[L] the names of the links; empty where they are no names, and need not be."""
    texts = np.array(column.texts)[column.values]
    first, counts = np.unique(texts, return_counts=True)
    if column.missing.any() or (counts > 1).any():
        if required:
            column.refuse(column.voids, "the name of a link")
            twice = first[counts > 1][0]
            raise column.wrong(int(np.flatnonzero(texts == twice)[1]), "the name of one link")
        return ()
    return tuple(texts.tolist())


def _ranks(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """[L] the place of each link among those between the same nodes."""
    order = np.lexsort((np.arange(len(first)), last, first))
    new = np.append(True, (np.diff(first[order]) != 0) | (np.diff(last[order]) != 0))
    begun = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(order)) - begun
    return rank


def _actions(
    first: np.ndarray, last: np.ndarray, rank: np.ndarray, nodes: Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """([L] number of the action that takes each link, their names).

    They are called by where links end, as in "to 105" and "to 105 (2)"; where that would be very
    many they are numbered at each node, as in "way 2".
    """
    kinds, actions = np.unique(np.stack([last, rank]), axis=1, return_inverse=True)
    if kinds.shape[1] <= MOST_NAMED:
        names = [f"to {nodes[n]}" + f" ({r + 1})" * (r > 0) for n, r in kinds.T.tolist()]
        return actions.ravel(), tuple(names)
    order = np.lexsort((rank, last, first))
    begun = np.searchsorted(first[order], first[order])
    slots = np.empty(len(first), np.int64)
    slots[order] = np.arange(len(order)) - begun
    return slots, tuple(f"way {slot + 1}" for slot in range(int(slots.max()) + 1))


def _centres(path: Path, nodes: Sequence[str], *, comma: bool) -> tuple[np.ndarray, list[str]]:
    """([S, 2] where the nodes lie, sentences), by a table of nodes."""
    table = open_table(path, InvalidModel, expected=["node", "x", "y"])
    name, *axes = (_column(table, None, known, "a column of that name") for known in PLACED)
    columns = table.read([name, *axes], texts=[name, *axes])
    points = np.stack([columns[axis].measurements(comma=comma) for axis in axes], axis=1)
    row = {text: at for at, text in enumerate(np.array(columns[name].texts)[columns[name].values])}
    lost = [node for node in nodes if node not in row]
    if lost:
        raise InvalidModel(
            f"{path} must have every node that a link begins or ends in; {lost[0]!r} has no row "
            f"({len(lost)} of {len(nodes)})"
        )
    points = points[[row[node] for node in nodes]]
    if not np.isfinite(points).all():
        lost = nodes[int(np.argmin(np.isfinite(points).all(axis=1)))]
        raise InvalidModel(f"{path} must say where every node lies; {lost!r} has no position")
    frame, notes = Degrees.found(points, (axes[0], axes[1]), None)
    return frame.metres(points), notes


def _along(log: Path, links: Links, guess: ColumnGuess, used: set[str]) -> tuple[str, str]:
    """("state" or "link", the column of a log that holds nodes or links), by its first rows."""
    known = {"link": {*links.names}, "state": {*links.nodes}}
    found = [
        (role, name)
        for name, cells in guess.texts.items()
        for role in known
        if name not in used and {*cells} <= known[role]
    ]
    called = {"link": ("link", "edge", "arc"), "state": ("node", "stop", "station")}
    clear = [
        (role, name) for role, name in found if any(w in name.casefold() for w in called[role])
    ]
    chosen = clear or found
    if len({role for role, _ in chosen}) == 1:
        return chosen[0]
    what = "names of both nodes and links" if chosen else "nodes or links"
    raise InvalidDemonstrations(
        f"{log} must have a column of {what} of {links.path}; it has {some([*guess.texts])}: give "
        "it to --state (nodes) or --link (links)"
    )


def _lasts(track: Track) -> np.ndarray:
    """[E] the last row of each piece."""
    return np.append(np.flatnonzero(track.first)[1:], len(track.first)) - 1


def _without_stops(track: Track, where: np.ndarray) -> tuple[Track, np.ndarray, int]:
    """The track without rows at the node of the row before, its nodes, and how many these were."""
    kept = track.first.copy()
    kept[1:] |= where[1:] != where[:-1]
    left = Track(track.rows[kept], track.first[kept], track.owner[kept], track.notes)
    return left, where[kept], int((~kept).sum())


def _links_taken(rows: LogRows, track: Track, where: np.ndarray, links: Links) -> np.ndarray:
    """[M] the link from each node of a trip to its next one; -1 at the last."""
    follows = np.flatnonzero(track.follows())
    pairs = np.stack([where[follows], where[follows + 1]], axis=1)
    ways = [links.between.get((a, b), []) for a, b in pairs.tolist()]
    odd = [at for at, way in enumerate(ways) if len(way) != 1]
    if odd:
        at = odd[0]
        a, b = (links.nodes[node] for node in pairs[at])
        trip = rows["episode"].cell(int(track.rows[follows[at]]))
        many = sum(len(ways[other]) == len(ways[at]) for other in odd)
        said = f"trip {trip!r} goes from {a} to {b}, "
        mend = "add the link, or correct the trip"
        if ways[at]:
            said += f"by which of {len(ways[at])} parallel links is not known"
            mend = "give the column of links, --link"
        else:
            said += f"where {links.path} has none"
        words = f"every move of a trip must be one link; {said} ({many} of {len(ways)}): {mend}"
        raise rows["state"].fault(int(track.rows[follows[at] + 1]), words)
    taken = np.full(len(where), -1)
    taken[follows] = [way[0] for way in ways]
    return taken


def _check_joined(rows: LogRows, track: Track, taken: np.ndarray, links: Links) -> None:
    """Raises where a trip goes on by a link that begins elsewhere than the one before ends."""
    follows = np.flatnonzero(track.follows())
    apart = links.ends[taken[follows]] != links.begins[taken[follows + 1]]
    if apart.any():
        row = int(follows[np.argmax(apart)])
        one, other = taken[row], taken[row + 1]
        trip = rows["episode"].cell(int(track.rows[row]))
        raise rows["link"].fault(
            int(track.rows[row + 1]),
            f"links of a trip must join; in trip {trip!r} {links.names[one]} ends in "
            f"{links.nodes[links.ends[one]]}, and {links.names[other]} begins in "
            f"{links.nodes[links.begins[other]]} ({int(apart.sum())} of {len(apart)}): a link "
            "between them is missing",
        )
