"""`tacit compare`: two runs side by side, or a run against the truth of a problem."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional, Union

import tyro

from tacit.cli.terminal import Answer, Part, Table, Terminal, finding_data, shown_default
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    import numpy as np

    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run
    from tacit.inverse.joint.recovery import JointRecovery
    from tacit.inverse.recovery import Recovery
    from tacit.many import Differences, Number
    from tacit.model.layout import Layout

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
    """page to write, .html; its figures are written beside it"""
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
    from tacit.folders.recoveries import load
    from tacit.folders.runs import Run
    from tacit.inverse.standardised import in_one_unit, shown
    from tacit.many import differences, numbers_of
    from tacit.show.differences import agreements
    from tacit.show.summary import units_sentence

    runs = [Run.load(folder) for folder in folders]  # the same folder twice has one name
    by_number = {str(n): run.recovery for n, run in enumerate(runs)}
    alike = in_one_unit(by_number, raw_units=raw_units).values()
    runs = [replace(run, recovery=one) for run, one in zip(runs, alike, strict=True)]
    names = [_short(folder, folders) for folder in folders]
    distances = _distances(runs, folders) if len(runs) == 2 else {}
    numbers = [numbers_of(run.recovery) for run in runs]
    answer = _side_by_side(numbers, names, distances, "behaviour, 0 for the same")
    each = dict(zip(names, runs, strict=True))
    if len(each) < 2:  # the same run twice
        return answer
    recoveries = {name: run.recovery for name, run in each.items()}
    tables = {name: run.trajectories.get("individual") for name, run in each.items()}
    individuals = {name: column for name, column in tables.items() if column is not None}
    told = differences(recoveries, individuals=individuals)
    parts: list[Part] = [*answer.parts, units_sentence(runs[0].recovery)]
    parts += [*_differences_table(told), *told.sentences]
    data: dict[str, object] = {
        **answer.data,
        "differences": [asdict(row) for row in told.rows],
        "findings": [finding_data(one) for one in told.sentences],
    }
    joint = None
    if shared is not None:
        raw = runs[0].recovery.standard is None
        joint = shown(load(shared, "JointRecovery"), raw_units=raw)
        tests = agreements(joint)
        data["agreement"] = [{"of": n, "p_value": p, "adjusted": q} for n, p, q in tests]
        rows = [[f"weights of {n}", f"{p:.2g}", f"{q:.2g}"] for n, p, q in tests]
        parts.append(Table(["weights fitted apart are the same", "p", "p by Holm"], rows))
    if page is not None:
        data["page"] = str(page)
        parts.append(f"written: {', '.join(write_page(page, recoveries, told, joint))}")
    return Answer(parts, data)


def _differences_table(told: Differences) -> list[Table]:
    """The clearest differences; none where there are none, which the sentences explain."""
    rows = [
        [
            f"{row.quantity}: {row.name}",
            f"{row.first} - {row.second}",
            f"{row.value:.3g} [{row.low:.3g}, {row.high:.3g}]",
            f"{row.p_value:.2g}",
            f"{row.adjusted:.2g}",
        ]
        for row in told.rows[:MOST]
    ]
    rest = f" ({MOST} of {len(told.rows)})" if len(told.rows) > MOST else ""
    heads = ["", "of", "difference", "p", "p by Holm"]
    return [Table(heads, rows, f"differences, the clearest first{rest}")] if rows else []


def shared_fit(folder: Path) -> Path | None:
    """The fit of all groups with the same weights beside their runs, where there is one."""
    from tacit.folders.recoveries import PAGE

    place = folder / SHARED / "shared"
    return place if (place / PAGE).exists() else None


def runs_in(folder: Path) -> list[Path]:
    """The runs right inside a folder that is none itself; else the folder."""
    from tacit.folders.recoveries import PAGE

    if not folder.is_dir():
        said = "there is no such folder; tacit recover makes one"
        raise FileNotFoundError(ENOENT, said, str(folder))
    inside = [] if (folder / PAGE).exists() else folder.glob(f"*/{PAGE}")
    return sorted(path.parent for path in inside) or [folder]


def _short(folder: Path, folders: Sequence[Path]) -> str:
    """What a run is called among these: its last part, or all of it where that is not enough."""
    alone = sum(other.name == folder.name for other in folders) == 1
    return folder.name if alone and folder.name else str(folder)


def _side_by_side(
    columns: Sequence[dict[str, Number]],
    titles: Sequence[str],
    distances: Mapping[str, float],
    heading: str,
) -> Answer:
    """Every number, a column each; of two, which of them differ, and what the distances are."""
    is_pair = len(columns) == 2
    units = _other_units(*columns) if is_pair else {}
    rows, apart = [], []
    for name, row in _rows_of(columns).items():
        differs = is_pair and row[0].is_apart(row[1]) and row[0].constraint not in units
        rows.append([name, *map(str, row), "differs" if differs else ""])
        apart += [name] if differs else []
    parts: list[Part] = [Table(["", *titles, ""], rows, HEADING)]
    numbers = {
        title: {name: [one.value, one.low, one.high] for name, one in column.items()}
        for title, column in zip(titles, columns, strict=True)
    }
    if not is_pair:
        return Answer(parts, {"numbers": numbers})
    behaviour = [[name.replace("_", " "), float(one)] for name, one in distances.items()]
    conclusion = (
        f"{len(apart)} of {len(rows)} numbers differ: their intervals do not overlap."
        if apart
        else "No number is seen to differ: every pair of known intervals overlaps."
    )
    parts += [Table([heading, ""], behaviour), conclusion, *units.values()]
    return Answer(parts, {"numbers": numbers, "differ": apart, **distances})


def _rows_of(columns: Sequence[dict[str, Number]]) -> dict[str, list[Number]]:
    """Name of a number -> what each column has, in the order in which they are first met."""
    from tacit.many import Number

    nothing, names = Number(math.nan), dict.fromkeys(name for each in columns for name in each)
    return {name: [each.get(name, nothing) for each in columns] for name in names}


def write_page(
    out: Path, recoveries: dict[str, Recovery], told: Differences, shared: JointRecovery | None
) -> list[str]:
    """The files written: one offline page about several runs, and its figures beside it."""
    from tacit.files.atomic import write_bytes
    from tacit.show import figure_files
    from tacit.show.differences import comparison_document
    from tacit.show.html import render

    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidModel(f"out must end in .html; got {out.name}")
    document = comparison_document(recoveries, told, shared)
    files = {out: render(document).encode()}
    files |= {out.with_name(f"{out.stem}-{n}"): i for n, i in figure_files(document).items()}
    for path in reversed(files):  # the page last: it says that all is there
        write_bytes(path, files[path])
    return [str(path) for path in files]


def _distances(runs: Sequence[Run], folders: Sequence[Path]) -> dict[str, float]:
    """How far apart the behaviour of two runs is."""
    import numpy as np

    from tacit.judge.behaviour import policy_distance
    from tacit.show.quantities import NamedRecovery

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


def _other_units(first: dict[str, Number], second: dict[str, Number]) -> dict[int | None, str]:
    """Number of a cost -> a sentence, for costs that the two give in other units.

    What is forbidden stands outside the weights that sum to 1, and so changes the unit of a cost.
    """
    found = {}
    for name, one in first.items():
        other = second.get(name, one)
        only_one = math.isinf(one.high) != math.isinf(other.high)
        if one.constraint is not None and one.feature and only_one:
            found[one.constraint] = (
                f"{one.feature} is forbidden in one of them only: weights, price and budget of "
                f"cost {one.constraint} are in other units there, and are not compared."
            )
    return found


def _against_truth(folders: Sequence[Path], problem: Problem, *, raw_units: bool) -> Answer:
    """What a run is off the truth, judged in its units, and its numbers in the units to show."""
    import numpy as np

    from tacit.folders.runs import Run
    from tacit.forward.soft_dual import SoftDual
    from tacit.inverse.standardised import shown
    from tacit.judge.comparison import compare
    from tacit.many import numbers_of

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
    columns = [numbers_of(to_show), _true_numbers(problem, to_show)]
    titles = [str(folders[0]), f"truth of {folders[1]}"]
    return _side_by_side(columns, titles, judged.scalars(), "judged in the true world")


def _true_numbers(problem: Problem, to_show: Recovery) -> dict[str, Number]:
    """The true weights and budgets in the gauge and the units that are shown.

    Where the truth is made of the features.
    """
    from tacit.many import Number

    numbers = {}
    names = {-1: problem.features.reward_names, **dict(enumerate(problem.features.cost_names))}
    for k, raw in problem.true_weights().items():
        weights = raw if to_show.standard is None else raw * to_show.standard.deviations[k + 1]
        if (size := float(abs(weights).sum())) > 0:
            whose, scaled = "reward" if k < 0 else f"cost {k}", (weights / size).tolist()
            numbers |= {f"{whose}: {n}": one for n, one in zip(names[k], scaled, strict=True)}
            if problem.truth is not None and k >= 0:
                numbers[f"budget {k}"] = float(problem.truth.budgets[k] / size)
    return {name: Number(one, one, one) for name, one in numbers.items()}
