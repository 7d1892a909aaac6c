"""`tacit leaderboard`: methods x worlds x metrics, resumable, then one page and `results.json`.

A unit of work is one draw of one world, on which every method is tried; it is a file of its own,
written whole or not at all, so that a run can be continued.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit import TacitError, pages, progress, runs
from tacit_lab import figures
from tacit_lab.studies import Board, read_unit, write_unit
from tacit_lab.studies.contests import (
    OPTIMUM,
    RANDOM,
    known_methods,
    known_places,
    played,
    resolved,
)
from tacit_lab.studies.reproduce import claimed, complete

# Metric -> its head, how to read it, and whether less is better.
METRICS: dict[str, tuple[str, str, bool]] = {
    "regret": ("Regret", "of its policy, share of what can be earned", True),
    "violation": ("Violation", "of its policy, 1 as if it did not mind", True),
    "log_likelihood": ("Prediction", "log-likelihood of a fresh step", False),
    "same_regret": ("Regret, solved again", "best policy of its objective", True),
    "same_violation": ("Violation, solved again", "best policy of its objective", True),
    "dynamics_violation": ("Violation, new dynamics", "one step in five slips", True),
    "start_violation": ("Violation, new starts", "anywhere that is allowed", True),
    "reward_violation": ("Violation, new reward", "turned round, constraint kept", True),
    "share_safe": ("Safe", "share of five worlds without a violation", False),
    "feasible": ("Feasible", "share of trips, solved again, that arrive and enter nothing", False),
    "wrong": ("Wrong", "share of what it calls forbidden", True),
    "recall": ("Recall", "share of what is forbidden", False),
    "recall_decidable": ("Recall of what can be told", "the data decide no more", False),
    "price_error": ("Price error", "relative, the worst of all budgets", True),
    "seconds": ("Seconds", "of the processor, for a fit", True),
}
RANKED = ("violation", "same_violation", "share_safe", "log_likelihood")
DRAWN = ("regret", "violation", "same_violation", "log_likelihood")
HIDES = (
    "Regret alone rewards a violator: read it beside the violation. Prediction cannot tell a cost "
    "from a lack of reward, and cloning is hard to beat at it; solving again, above all where the "
    "world has changed, can."
)


@dataclass(frozen=True, kw_only=True)
class TriedMethod:
    """One method on one draw of a world.

    Attributes:
        method: its name.
        told: what it was told beyond the demonstrations.
        metrics: name -> number.
        status: how the fit ended, or why there is none.
        fits: whether the model fits.
    """

    method: str
    told: str = ""
    metrics: dict[str, float]
    status: str
    fits: bool


@dataclass(frozen=True, kw_only=True)
class Unit:
    """All methods on one draw of a world.

    Attributes:
        world: its name.
        seed: of the draw.
        rows: one a method.
        absent: why there are none, or nothing.
        seconds: of the processor.
    """

    world: str
    seed: int
    rows: list[TriedMethod]
    absent: str
    seconds: float


def compare_methods(
    board: Board, *, callbacks: Sequence[progress.Callback] = (), break_lock: bool = False
) -> Path:
    """The path of the page, after running what is not done yet.

    Args:
        board: what to compare, and the folder to write.
        callbacks: called with an `Event` after every unit.
        break_lock: take the folder from a writer on another machine that is surely gone.
    """
    with claimed(board, break_lock):
        complete(board, board.contests, perform, "draws of worlds", callbacks, apart=False)
        results = standings(board)
        runs.write_bytes(
            board.out / "results.json", (json.dumps(results, indent=1) + "\n").encode()
        )
        page = board.out / "leaderboard.html"
        runs.write_bytes(page, pages.render(document(results)).encode())
        return page


def perform(board: Board, world: str, seed: int) -> None:
    """Plays one contest and writes what came out."""
    place, known = resolved(world, known_places(), "world"), known_methods()
    left_out = dict(getattr(place, "left_out", {}))
    usual = getattr(place, "only", ()) or tuple(known)
    chosen = [name for name in (board.methods or usual) if name not in left_out]
    methods = {name: resolved(name, known, "method") for name in chosen}
    begin = time.process_time()
    try:
        rows, said = played(place.make(seed), methods), ""  # type: ignore[attr-defined]
    except TacitError as error:  # its data are not here
        rows, said = [], str(error)
    for name, reason in left_out.items():
        rows.append({"method": name, "metrics": {}, "status": reason, "fits": True})
    tried, seconds = [TriedMethod(**row) for row in rows], time.process_time() - begin
    unit = Unit(world=world, seed=seed, rows=tried, absent=said, seconds=seconds)
    write_unit(board.file(world, seed), unit)


def standings(board: Board) -> dict[str, object]:
    """Everything that was measured: of each world and method the mean and its standard error."""
    units = [read_unit(board.file(*contest), Unit) for contest in board.contests]
    for contest, unit in zip(board.contests, units, strict=True):
        if contest != (unit.world, unit.seed):
            raise runs.BadFile(
                f"{board.file(*contest)} must be of {contest}; got {unit.world!r:.60}"
            )
    places, worlds = known_places(), []
    for name in dict.fromkeys(unit.world for unit in units):
        own = [unit for unit in units if unit.world == name]
        place = resolved(name, places, "world")
        rows = []
        for method in dict.fromkeys(row.method for unit in own for row in unit.rows):
            tried = [row for unit in own for row in unit.rows if row.method == method]
            told = "; ".join({row.told: None for row in tried if row.told})
            rows.append({"method": method, "told": told, **_summary(tried)})
        worlds.append(
            {
                "name": name,
                "title": getattr(place, "title", name),
                "said": getattr(place, "said", ""),
                "absent": next((unit.absent for unit in own if unit.absent), ""),
                "draws": len(own),
                "seconds": sum(unit.seconds for unit in own),
                "methods": rows,
            }
        )
    return {"settings": board.identity(), "versions": runs.versions(), "worlds": worlds}


def _summary(tried: list[TriedMethod]) -> dict[str, object]:
    """Mean and standard error over the draws of each metric, and how the fits ended."""
    metrics = {}
    for name in METRICS:
        values = [row.metrics[name] for row in tried if name in row.metrics]
        if values:
            many = len(values) > 1
            error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if many else None
            metrics[name] = {"mean": float(np.mean(values)), "error": error, "values": values}
    return {
        "metrics": metrics,
        "statuses": list(dict.fromkeys(row.status for row in tried if row.status)),
        "misfits": sum(not row.fits for row in tried),
    }


# --- the page -------------------------------------------------------------------------------------


def document(results: dict) -> pages.Document:
    """The page: a table to sort and pictures for each world, the published numbers beside."""
    sections = [*_overall(results), *(_section(world) for world in results["worlds"])]
    present = [world for world in results["worlds"] if not world["absent"]]
    headlines = [
        pages.Headline(
            f"Of the methods that are told nothing more, {_shown(_best(world))} loses least where "
            f"its objective is solved again with a violation under 1 % ({_draws(world)}).",
            label=_shown(world["name"]),
        )
        for world in present
        if _best(world)
    ]
    counts = {"worlds": len(results["worlds"]), "draws of each": results["settings"]["seeds"]}
    return pages.Document(
        title="Published methods and tacit's, on the same demonstrations",
        headlines=headlines,
        sections=sections,
        lead=HIDES,
        facts=pages.Facts(counts),
        footer=f"tacit {results['versions'].get('tacit', '')}. All numbers: `results.json`.",
    )


def _best(world: dict) -> str:
    """The method with the least regret, solved again, among those that keep to it; "" for none."""
    fair = [
        (row["metrics"]["same_regret"]["mean"], row["method"])
        for row in world["methods"]
        if row["method"] not in (RANDOM, OPTIMUM)
        and not row["told"]
        and "same_regret" in row["metrics"]
        and row["metrics"]["same_violation"]["mean"] <= 0.01
    ]
    return min(fair)[1] if fair else ""


def ranks(results: dict, metric: str) -> tuple[dict[str, list[float]], float]:
    """Method -> its rank in each draw that all of them have, and the critical difference.

    Two mean ranks that differ by less are not told apart at the level 5 % (Nemenyi's test, as
    Demsar 2006 draws it), over fresh draws of these worlds. Methods that were tried in fewer than
    half of the worlds are left out.
    """
    from scipy.stats import rankdata, studentized_range

    sign, tables = 1.0 if METRICS[metric][2] else -1.0, []
    for world in results["worlds"]:
        rows = {row["method"]: row["metrics"].get(metric) for row in world["methods"]}
        tables.append({
            name: [sign * value for value in found["values"]]
            for name, found in rows.items()
            if name not in (RANDOM, OPTIMUM) and found and len(found["values"]) == world["draws"]
        })  # fmt: skip
    tried = [table for table in tables if table]
    names = [
        name
        for name in dict.fromkeys(name for table in tried for name in table)
        if 2 * sum(name in table for table in tried) >= len(tried)
    ]
    full = [np.array([table[n] for n in names]) for table in tried if set(names) <= {*table}]
    blocks = np.concatenate([np.zeros((len(names), 0)), *full], axis=1).T if names else np.zeros(0)
    if len(blocks) < 2 or len(names) < 2:
        return {}, float("nan")
    # What differs by rounding shares a rank.
    places, many = rankdata(blocks.round(9), axis=1), len(names)
    wide = float(studentized_range.ppf(0.95, many, np.inf)) / np.sqrt(2.0)
    apart = wide * np.sqrt(many * (many + 1) / (6.0 * len(blocks)))
    return dict(zip(names, places.T.tolist(), strict=True)), float(apart)


def _overall(results: dict) -> list[pages.Section]:
    """The picture of mean ranks over all worlds, for each metric that is drawn."""
    pictures, count = [], 0
    for metric in RANKED:
        mean_ranks, apart = ranks(results, metric)
        if mean_ranks:
            pictures.append(_rank_picture(mean_ranks, apart, metric))
            count = len(next(iter(mean_ranks.values())))
    if not pictures:
        return []
    said = (
        f"Rank 1 is the best; a mark is one of {count} draws in which all were tried, a diamond "
        "the mean. Those whose means lie in the shade, within the critical difference of the best, "
        "are not told apart from it (5 %, Nemenyi's test). What a method was told is not weighed."
    )
    return [pages.Section("All worlds together", [pages.Paragraph(said), pages.Gallery(pictures)])]


@pages.styled()
def _rank_picture(found: dict[str, list[float]], apart: float, metric: str) -> pages.Picture:
    """A row a method, a dot a world, the mean rank as a bar, the best on top."""
    head = METRICS[metric][0]
    rows = sorted(found.items(), key=lambda one: float(np.mean(one[1])))
    figure = pages.new_figure(4.4, 0.85 + 0.2 * len(rows))
    axes = pages.axes_at(figure, 1.7, 0.25, 2.55, 0.2 * len(rows))
    figures.draw_spread([figures.Group(_shown(name), places) for name, places in rows], axes)
    means = [float(np.mean(places)) for _, places in rows]
    axes.axvspan(means[0], means[0] + apart, color=pages.MUTED, alpha=0.12, lw=0)
    axes.plot(means, range(len(rows)), ls="", marker="D", ms=5, color=pages.INK)
    axes.set_xlim(0.5, len(rows) + 0.5)
    axes.set_title(f"{head}: ranks", x=-0.6)
    axes.set_xlabel(f"critical difference {apart:.1f}", x=1.0, ha="right")
    best = ", ".join(
        f"{name} {pages.short(mean)}" for (name, _), mean in zip(rows[:4], means, strict=False)
    )
    alt = f"Mean ranks by {head.lower()}, the best first: {best}; critical difference {apart:.1f}."
    return pages.Picture(pages.svg(figure), alt)


def _section(world: dict) -> pages.Section:
    blocks: list[pages.Block] = []
    if world["absent"]:
        return pages.Section(world["title"], [pages.Paragraph(f"Not run: {world['absent']}")])
    shown = [name for name in METRICS if any(name in row["metrics"] for row in world["methods"])]
    rows = []
    for row in world["methods"]:
        cells = [_shown(row["method"]), row["told"]]
        for name in shown:
            value = row["metrics"].get(name)
            cells.append(float(value["mean"]) if value else "–")
        note = " ".join(row["statuses"])[:60] if not row["metrics"] else _ended(row, world["draws"])
        kind = pages.RowKind.NULL if row["method"] in (RANDOM, OPTIMUM) else pages.RowKind.PLAIN
        rows.append(pages.Row([*cells, note], kind))
    heads = [
        pages.Head("Method"),
        pages.Head("Told", "beside the demonstrations"),
        *(pages.Head(*METRICS[name][:2]) for name in shown),
        pages.Head("Ended"),
    ]
    blocks.append(pages.Table(f"{_draws(world)}, means", heads, rows, listed=True))
    blocks.append(pages.Gallery([_picture(world, name) for name in DRAWN if name in shown]))
    if world["said"]:
        blocks.append(pages.Paragraph(world["said"]))
    return pages.Section(world["title"], blocks)


def _shown(name: str) -> str:
    """A world or method as people call it: of one from a file, without the folders."""
    return name.replace("\\", "/").rpartition("/")[2]


def _draws(world: dict) -> str:
    return f"{world['draws']} {'draw' if world['draws'] == 1 else 'draws'}"


def _ended(row: dict, draws: int) -> str:
    said = ", ".join(one.lower().replace("_", " ") for one in row["statuses"])
    return f"{said}; misfit said in {row['misfits']} of {draws}" if row["misfits"] else said


@pages.styled()
def _picture(world: dict, metric: str) -> pages.Picture:
    """A row a method, a dot a draw, the best on top."""
    head, meaning, less = METRICS[metric]
    rows = [row for row in world["methods"] if metric in row["metrics"]]
    rows.sort(key=lambda row: row["metrics"][metric]["mean"] * (1 if less else -1))
    groups = [
        figures.Group(
            _shown(row["method"]),
            row["metrics"][metric]["values"],
            row["method"] in (RANDOM, OPTIMUM),
        )
        for row in rows
    ]
    figure = pages.new_figure(4.4, 0.75 + 0.2 * len(groups))
    axes = pages.axes_at(figure, 1.7, 0.25, 2.55, 0.2 * len(groups))
    figures.draw_spread(groups, axes)
    axes.set_title(head, x=-0.6)
    axes.set_xlabel(meaning, x=1.0, ha="right")
    means = ", ".join(
        f"{r['method']} {pages.short(r['metrics'][metric]['mean'])}" for r in rows[:4]
    )
    alt = f"{head} on {world['name']}, the best first: {means}."
    return pages.Picture(pages.svg(figure), alt)
