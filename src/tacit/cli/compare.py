"""`tacit compare`: two runs side by side, or a run against the truth of a problem."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional, Union

import tyro

from tacit.cli.terminal import Answer, Terminal, finding_data, shown_default, table_text
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    import numpy as np

    from tacit.estimators.joint_recovery import JointRecovery
    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run
    from tacit.many import Differences
    from tacit.model.layout import Layout
    from tacit.recovery import Recovery
    from tacit.show.tables import IntervalEstimate

# Differences that are listed and drawn for people.
MOST = 24
# What lies beside the runs of groups: the fit that they share.
SHARED = "joint"
HEADING = "weights, prices and budgets, with their intervals"


@dataclass(frozen=True)
class Compare:
    """Compare runs with each other, or a run with the truth of a problem.

    Runs: every weight and price of each, their differences pair by pair with intervals and p-values
    adjusted by Holm's method, and with --out a page with a forest plot. A folder that holds runs,
    as `tacit recover --by group` makes it, stands for all of them.
    """

    first: Path
    """folder of a run, or one that holds several"""
    others: Annotated[
        Union[None, tuple[Path, ...]], tyro.conf.Positional, shown_default("those in the first")
    ] = None
    """folders of further runs, or of one problem whose truth is known"""
    out: Annotated[Optional[Path], shown_default("write nothing")] = None
    """page to write, .html; its forest plot is written beside it"""
    raw_units: bool = field(default=False, kw_only=True)
    """compare numbers of the features as given, and not of standardised ones"""

    def run(self, terminal: Terminal) -> Answer:
        """Reads the folders and says where they agree."""
        from tacit.folders.recoveries import PAGE

        places = (self.first, *(self.others or ()))
        folders = [inner for place in places for inner in runs_in(place)]
        if len(folders) == 2 and not (folders[1] / PAGE).exists():
            if self.out is not None:
                raise InvalidModel("out is for runs; a truth has no error bars to draw")
            problem = terminal.load_problem(folders[1])
            return _against_truth(folders, problem, raw_units=self.raw_units)
        if len(folders) < 2:
            raise InvalidModel(f"runs to compare must be two or more; {self.first} is one")
        shared = shared_fit(self.first) if self.others is None else None
        return compare_runs(folders, page=self.out, shared=shared, raw_units=self.raw_units)


def compare_runs(
    folders: Sequence[Path], *, page: Path | None, shared: Path | None, raw_units: bool
) -> Answer:
    """Every number of some runs, their differences, and a page about them where one is named.

    Where `shared` holds a fit in which all have the same weights, that is shown and tested, too.
    """
    from tacit.estimators.joint_recovery import agreement_findings
    from tacit.folders.recoveries import load
    from tacit.folders.runs import Run
    from tacit.inference.standardised import in_one_unit, shown
    from tacit.many import differences
    from tacit.show import free_name
    from tacit.show.quantities import numbers_of, units_sentence
    from tacit.show.several import agreement_headlines, difference_table

    runs = [Run.load(folder) for folder in folders]
    names: list[str] = []
    for folder in folders:
        names.append(free_name(_short(folder, folders), names))
    distances = _distances(runs, folders) if len(runs) == 2 else {}
    raw = {name: run.recovery for name, run in zip(names, runs, strict=True)}
    recoveries = in_one_unit(raw, raw_units=raw_units)
    first = recoveries[names[0]]
    columns = {name: numbers_of(one) for name, one in recoveries.items()}
    units = _other_units(*recoveries.values()) if len(runs) == 2 else {}
    answer = _side_by_side(columns, distances, "behaviour, 0 for the same", units)
    individuals = {
        name: run.trajectories["individual"]
        for name, run in zip(names, runs, strict=True)
        if "individual" in run.trajectories
    }
    gaps = differences(recoveries, individuals=individuals)
    parts = [*answer.parts, units_sentence(first)]
    parts += [difference_table(gaps).text(most=MOST)] if gaps.rows else []
    parts += gaps.sentences
    data: dict[str, object] = {
        **answer.data,
        "differences": [asdict(row) for row in gaps.rows],
        "findings": [finding_data(one) for one in gaps.sentences],
    }
    joint = None
    if shared is not None:
        joint = shown(load(shared, "JointRecovery"), raw_units=first.standard is None)
        data["agreement"] = [finding_data(one) for one in agreement_findings(joint.agreement)]
        parts += [f"{head.text} {head.detail}".rstrip() for head in agreement_headlines(joint)]
    if page is not None:
        data["page"] = str(page)
        parts.append(f"written: {', '.join(write_page(page, recoveries, gaps, joint))}")
    return Answer(parts, data)


def shared_fit(folder: Path) -> Path | None:
    """The fit of all groups with the same weights beside their runs, where there is one."""
    from tacit.folders.recoveries import PAGE

    place = folder / SHARED / "shared"
    return place if (place / PAGE).exists() else None


def runs_in(folder: Path) -> list[Path]:
    """The runs right inside a folder that is none itself; else the folder."""
    from tacit.folders.recoveries import PAGE

    if not folder.is_dir():
        reason = "there is no such folder; tacit recover makes one"
        raise FileNotFoundError(ENOENT, reason, str(folder))
    inside = [] if (folder / PAGE).exists() else folder.glob(f"*/{PAGE}")
    return sorted(path.parent for path in inside) or [folder]


def _short(folder: Path, folders: Sequence[Path]) -> str:
    """What a run is called among these: its last part, or all of it where that is not enough."""
    is_unique = sum(other.name == folder.name for other in folders) == 1
    return folder.name if is_unique and folder.name else str(folder)


def _side_by_side(
    columns: Mapping[str, Mapping[str, IntervalEstimate]],
    distances: Mapping[str, float],
    heading: str,
    other_units: Mapping[str, str],
) -> Answer:
    """Every number, a column each; of two, which of them differ, and what the distances are.

    Numbers in `other_units` are not compared; each has a sentence that says why.
    """
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    numbers = {
        title: {name: [one.value, one.low, one.high] for name, one in column.items()}
        for title, column in columns.items()
    }
    different, parts = [], []
    data: dict[str, object] = {"numbers": numbers, **distances}
    if len(columns) == 2:
        first, second = columns.values()
        both = [name for name in first if name in second and name not in other_units]
        data["differ"] = different = [n for n in both if first[n].is_apart(second[n])]
        rows = [[name.replace("_", " "), float(one)] for name, one in distances.items()]
        conclusion = (
            f"{len(different)} of {len(names)} numbers differ: their intervals do not overlap."
            if different
            else "No number is seen to differ: every pair of known intervals overlaps."
        )
        reasons = dict.fromkeys(other_units.values())
        parts = [table_text([heading, ""], rows), conclusion, *reasons]
    marks = ["differs" if name in different else "" for name in names]
    each = [[str(one.get(name, "not known")) for name in names] for one in columns.values()]
    rows = list(zip(names, *each, marks, strict=True))
    return Answer([table_text(["", *columns, ""], rows, HEADING), *parts], data)


def write_page(
    out: Path, recoveries: dict[str, Recovery], gaps: Differences, shared: JointRecovery | None
) -> list[str]:
    """The files written: one offline page about several runs, and its forest plot beside it."""
    from tacit.files.atomic import write_bytes
    from tacit.show import Picture
    from tacit.show.differences import comparison_document
    from tacit.show.html import render

    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidModel(f"out must end in .html; got {out.name}")
    document = comparison_document(recoveries, gaps, shared)
    pictures = [one for one in document.blocks() if isinstance(one, Picture)]
    files = {out.with_name(f"{out.stem}-forest.svg"): one.image for one in pictures[:1]}
    files[out] = render(document)  # last: it says that all is there
    for path, text in files.items():
        write_bytes(path, text.encode())
    return [str(path) for path in reversed(files)]


def _distances(runs: Sequence[Run], folders: Sequence[Path]) -> dict[str, float]:
    """How far apart the behaviour of two runs is; empty where it is in no table of states."""
    import numpy as np

    from tacit.estimators.logged.recovery import LoggedRecovery
    from tacit.judge.behaviour import policy_distance
    from tacit.show.quantities import NamedRecovery

    if any(isinstance(run.recovery, LoggedRecovery) for run in runs):
        return {}
    first, second = (NamedRecovery(run.recovery, run.layout) for run in runs)
    if first.policy.shape != second.policy.shape:
        raise InvalidModel(
            f"{folders[0]} and {folders[1]} must be runs of the same world; they have "
            f"[S, A] = {first.policy.shape} and {second.policy.shape}"
        )
    # Files may name the same states and actions in another order.
    order = np.ix_(*_orders(runs[0].layout, runs[1].layout, first.policy.shape, folders))
    visits = [first.visits, second.visits[order]]
    both = visits[0].sum(axis=1) + visits[1].sum(axis=1)
    shares = [table / table.sum() for table in visits]
    return {
        "policy_distance": policy_distance(first.policy, second.policy[order], visits=both),
        "visitation_distance": float(0.5 * np.abs(shares[0] - shares[1]).sum()),
    }


def _orders(
    first: Layout, second: Layout, sizes: tuple[int, ...], folders: Sequence[Path]
) -> list[np.ndarray]:
    """For states and actions, where the second has what the first calls 0, 1, ..."""
    import numpy as np

    orders = []
    for kind, mine, its, size in (
        ("state", first.state_names, second.state_names, sizes[0]),
        ("action", first.action_names, second.action_names, sizes[1]),
    ):
        if mine == its or not mine or not its:  # without names numbers have to do
            orders.append(np.arange(size))
            continue
        place = {name: index for index, name in enumerate(its)}
        if missing := [name for name in mine if name not in place]:
            raise InvalidModel(
                f"{folders[0]} and {folders[1]} must be of the same world; "
                f"{kind} {missing[0]!r} is in the first only"
            )
        orders.append(np.array([place[name] for name in mine]))
    return orders


def _other_units(first: Recovery, second: Recovery) -> dict[str, str]:
    """Label of a number -> why the two give it in other units, of costs.

    What is forbidden stands outside the weights that sum to 1, and so changes the unit of a cost.
    """
    sentences = {}
    ends = (one.identification.cost_intervals for one in (first, second))
    for k, (names, mine, its) in enumerate(zip(first.cost_names, *ends, strict=False)):
        for name, one, other in zip(names, mine, its, strict=False):
            if math.isinf(one[1]) != math.isinf(other[1]):
                reason = (
                    f"{name} is forbidden in one of them only: weights, price and budget of "
                    f"cost {k} are in other units there, and are not compared."
                )
                labels = (
                    *(f"cost {k}: {feature}" for feature in names),
                    f"price {k}",
                    f"budget {k}",
                )
                sentences |= dict.fromkeys(labels, reason)
    return sentences


def _against_truth(folders: Sequence[Path], problem: Problem, *, raw_units: bool) -> Answer:
    """What a run is off the truth, judged in its units, and its numbers in the units to show."""
    import numpy as np

    from tacit.folders.runs import Run
    from tacit.forward.soft_dual import SoftDual
    from tacit.inference.standardised import shown
    from tacit.judge.comparison import compare
    from tacit.show.quantities import numbers_of

    run = Run.load(folders[0])
    recovery = run.recovery
    if problem.truth is None or recovery.solution is None:
        raise InvalidModel(
            f"{folders[1]} must be a run, or a problem whose truth is known; "
            f"{'it has no truth' if problem.truth is None else 'of trips no truth is judged'}"
        )
    shape = recovery.solution.policy.shape
    if shape != (problem.mdp.states, problem.mdp.actions):
        raise InvalidModel(
            f"{folders[0]} must be a run of {folders[1]}; they have [S, A] = "
            f"{shape} and {(problem.mdp.states, problem.mdp.actions)}"
        )
    orders = _orders(run.layout, problem.layout, shape, folders)
    if any((np.diff(order) < 0).any() for order in orders):
        raise InvalidModel(
            f"{folders[1]} must name states and actions in the order of {folders[0]}: "
            "give it in [names] of problem.toml, or recover again"
        )
    # The truth has no noise of its own: a noisy run is judged at the noise it found.
    noise = recovery.temperature
    judged = compare(
        problem.mdp,
        problem.truth,
        recovery.objective,
        solver=SoftDual(temperature=noise) if noise > 0 else None,
        recovered_policy=recovery.behaviour,
        features=problem.features,
        demonstrations=problem.demonstrations,
    )
    to_show = shown(recovery, raw_units=raw_units)
    truth = _true_numbers(problem, to_show)
    columns = {str(folders[0]): numbers_of(to_show), f"truth of {folders[1]}": truth}
    return _side_by_side(columns, judged.scalars(), "judged in the true world", {})


def _true_numbers(problem: Problem, to_show: Recovery) -> dict[str, IntervalEstimate]:
    """The true weights and budgets in the gauge and the units that are shown.

    Where the truth is made of the features.
    """
    from tacit.show.tables import IntervalEstimate

    numbers: dict[str, float] = {}
    names = {-1: problem.features.reward_names, **dict(enumerate(problem.features.cost_names))}
    for k, raw in problem.true_weights().items():
        weights = raw if to_show.standard is None else raw * to_show.standard.deviations[k + 1]
        if (size := float(abs(weights).sum())) > 0:
            quantity, scaled = "reward" if k < 0 else f"cost {k}", (weights / size).tolist()
            numbers |= {f"{quantity}: {n}": one for n, one in zip(names[k], scaled, strict=True)}
            if problem.truth is not None and k >= 0:
                numbers[f"budget {k}"] = float(problem.truth.budgets[k] / size)
    return {name: IntervalEstimate(one, one, one) for name, one in numbers.items()}
