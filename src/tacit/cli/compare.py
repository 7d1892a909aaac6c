"""`tacit compare`: two runs side by side, or a run against the truth of a problem."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional, Union

import tyro

from tacit.cli.terminal import Answer, Table, Terminal, finding_data, shown_default
from tacit.errors import InvalidModel

if TYPE_CHECKING:
    import numpy as np

    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run
    from tacit.inverse.joint.recovery import JointRecovery
    from tacit.inverse.recovery import Recovery
    from tacit.many import Differences, Number
    from tacit.model.transitions import Layout

# Differences that are listed and drawn for people.
MOST = 24
# What lies beside the runs of groups: the fit that they share.
SHARED = "joint"


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

    def run(self, terminal: Terminal, shared: Path | None = None) -> Answer:
        """Reads the folders and says where they agree; `shared` holds a fit of all together."""
        from tacit.folders.recoveries import PAGE
        from tacit.folders.runs import Run
        from tacit.inverse.standardised import in_one_unit, shown

        asked = (self.first, *(self.others or ()))
        folders = [inner for folder in asked for inner in runs_in(folder)]
        if len(folders) == 2 and not (folders[1] / PAGE).exists():
            if self.out is not None:
                raise InvalidModel("out is for runs; a truth has no error bars to draw")
            one = Run.load(folders[0])
            found = shown(one.recovery, raw_units=self.raw_units)
            return _against_truth(one, found, terminal.load_problem(folders[1]), folders)
        if len(folders) < 2:
            raise InvalidModel(f"runs to compare must be two or more; {self.first} is one")
        runs = [Run.load(folder) for folder in folders]  # the same folder twice has one name
        each = {str(n): run.recovery for n, run in enumerate(runs)}
        alike = in_one_unit(each, raw_units=self.raw_units).values()
        runs = [replace(run, recovery=one) for run, one in zip(runs, alike, strict=True)]
        found = {_short(folder, folders): run for folder, run in zip(folders, runs, strict=True)}
        pair = len(folders) == 2
        answer = _against_run(runs[0], runs[1], folders) if pair else _side_by_side(found)
        if self.others is None:
            shared = shared_fit(self.first)
        return _with_differences(answer, found, self.out, shared)


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


def _short(folder: Path, folders: list[Path]) -> str:
    """What a run is called among these: its last part, or all of it where that is not enough."""
    alone = sum(other.name == folder.name for other in folders) == 1
    return folder.name if alone and folder.name else str(folder)


def _side_by_side(found: dict[str, Run]) -> Answer:
    """Every number of several runs, a column each."""
    from tacit.many import Number, numbers_of

    numbers = {name: numbers_of(run.recovery) for name, run in found.items()}
    names = list(dict.fromkeys(name for each in numbers.values() for name in each))
    nothing = Number(math.nan)
    rows = [[name, *(str(each.get(name, nothing)) for each in numbers.values())] for name in names]
    table = Table(["", *numbers], rows, "weights, prices and budgets, with their intervals")
    data = {
        run: {name: [n.value, n.low, n.high] for name, n in each.items()}
        for run, each in numbers.items()
    }
    return Answer([table], {"numbers": data})


def _with_differences(
    answer: Answer, found: dict[str, Run], out: Path | None, shared: Path | None
) -> Answer:
    """The answer, with the differences of its runs, which `out` shows as a page.

    Where `shared` holds a fit in which all have the same weights, that is shown and tested, too.
    """
    from tacit.many import differences
    from tacit.show.summary import units_sentence

    if len(found) < 2:  # the same run twice
        return answer
    each = {name: run.trajectories.get("individual") for name, run in found.items()}
    who = {name: own for name, own in each.items() if own is not None}
    told = differences({name: run.recovery for name, run in found.items()}, individuals=who)
    rows = []
    for row in told.rows[:MOST]:
        about = [f"{row.quantity}: {row.name}", f"{row.first} - {row.second}"]
        number = f"{row.value:.3g} [{row.low:.3g}, {row.high:.3g}]"
        rows.append([*about, number, f"{row.p_value:.2g}", f"{row.adjusted:.2g}"])
    left = f" ({MOST} of {len(told.rows)})" if len(told.rows) > MOST else ""
    title = f"differences, the clearest first{left}"
    heads = ["", "of", "difference", "p", "p by Holm"]
    table = [Table(heads, rows, title)] if rows else []  # the sentences say why there is none
    units = units_sentence(next(iter(found.values())).recovery)
    parts = [*answer.parts, units, *table, *told.sentences]
    data = {
        **answer.data,
        "differences": [asdict(row) for row in told.rows],
        "findings": [finding_data(one) for one in told.sentences],
    }
    joint = None
    if shared is not None:
        from tacit.folders.recoveries import load
        from tacit.inverse.standardised import shown as in_units
        from tacit.show.differences import agreements

        raw = next(iter(found.values())).recovery.standard is None
        joint = in_units(load(shared, "JointRecovery"), raw_units=raw)
        tests = agreements(joint)
        data["agreement"] = [{"of": n, "p_value": p, "adjusted": q} for n, p, q in tests]
        lines = [[f"weights of {n}", f"{p:.2g}", f"{q:.2g}"] for n, p, q in tests]
        parts.append(Table(["weights fitted apart are the same", "p", "p by Holm"], lines))
    if out is not None:
        data["page"] = str(out)
        parts.append(f"written: {', '.join(write_page(out, found, told, joint))}")
    return Answer(parts, data)


def write_page(
    out: Path, found: dict[str, Run], told: Differences, shared: JointRecovery | None = None
) -> list[str]:
    """The files written: one offline page about several runs, and its figures beside it."""
    from tacit.files.atomic import write_bytes
    from tacit.show import figure_files
    from tacit.show.differences import comparison_document
    from tacit.show.html import render

    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidModel(f"out must end in .html; got {out.name}")
    each = {name: run.recovery for name, run in found.items()}
    document = comparison_document(each, told, shared)
    files = {out: render(document).encode()}
    files |= {out.with_name(f"{out.stem}-{n}"): i for n, i in figure_files(document).items()}
    for path in reversed(files):  # the page last: it says that all is there
        write_bytes(path, files[path])
    return [str(path) for path in files]


def _against_run(one: Run, other: Run, folders: Sequence[Path]) -> Answer:
    import numpy as np

    from tacit.judge.behaviour import policy_distance
    from tacit.many import numbers_of
    from tacit.show.quantities import NamedRecovery

    one_by_name, other_by_name = (NamedRecovery(run.recovery, run.layout) for run in (one, other))
    mine, its = one_by_name.policy, other_by_name.policy
    if mine.shape != its.shape:
        raise InvalidModel(
            f"{folders[0]} and {folders[1]} must be runs of the same world; they have "
            f"[S, A] = {mine.shape} and {its.shape}"
        )
    # Files may name the same states and actions in another order.
    order = np.ix_(*_orders(one.layout, other.layout, mine.shape, folders))
    visitations = [one_by_name.visits, other_by_name.visits[order]]
    visits = visitations[0].sum(axis=1) + visitations[1].sum(axis=1)
    shares = [visitation / visitation.sum() for visitation in visitations]
    distances = {
        "policy_distance": policy_distance(mine, its[order], visits=visits),
        "visitation_distance": float(0.5 * np.abs(shares[0] - shares[1]).sum()),
    }
    both = numbers_of(one.recovery), numbers_of(other.recovery)
    return _answer(*both, [*map(str, folders)], distances, "behaviour, 0 for the same")


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


def _answer(
    first: dict[str, Number],
    second: dict[str, Number],
    titles: list[str],
    distances: dict[str, float],
    heading: str,
) -> Answer:
    from tacit.many import Number

    nothing, units = Number(math.nan), _other_units(first, second)
    names = [*first, *(name for name in second if name not in first)]
    rows, data = [], []
    for name in names:
        one, other = first.get(name, nothing), second.get(name, nothing)
        apart = one.is_apart(other) and one.constraint not in units
        rows.append([name, str(one), str(other), "differs" if apart else ""])
        told = {"first": one, "second": other}
        ends = {whose: [n.value, n.low, n.high] for whose, n in told.items()}
        data.append({"name": name, **ends, "differs": apart})
    table = Table(["", *titles, ""], rows, "weights, prices and budgets, with their intervals")
    behaviour = Table(
        [heading, ""],
        [[name.replace("_", " "), float(number)] for name, number in distances.items()],
    )
    count = sum(entry["differs"] for entry in data)
    said = (
        f"{count} of {len(data)} numbers differ: their intervals do not overlap."
        if count
        else "No number is seen to differ: every pair of known intervals overlaps."
    )
    return Answer([table, behaviour, said, *units.values()], {"numbers": data, **distances})


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


def _against_truth(run: Run, shown: Recovery, problem: Problem, folders: Sequence[Path]) -> Answer:
    """What a run is off the truth, judged in its units, and its numbers as they are `shown`."""
    import numpy as np

    from tacit.forward.soft_dual import SoftDual
    from tacit.judge.comparison import compare
    from tacit.many import Number, numbers_of

    found = run.recovery
    if problem.truth is None or found.solution is None:
        raise InvalidModel(
            f"{folders[1]} must be a run, or a problem whose truth is known; "
            f"{'it has no truth' if problem.truth is None else 'of trips no truth is judged'}"
        )
    if found.solution.policy.shape != (problem.mdp.states, problem.mdp.actions):
        raise InvalidModel(
            f"{folders[0]} must be a run of {folders[1]}; they have [S, A] = "
            f"{found.solution.policy.shape} and {(problem.mdp.states, problem.mdp.actions)}"
        )
    orders = _orders(run.layout, problem.layout, found.solution.policy.shape, folders)
    if any((np.diff(order) < 0).any() for order in orders):
        raise InvalidModel(
            f"{folders[1]} must name states and actions in the order of {folders[0]}: "
            "give it in [names] of problem.toml, or recover again"
        )
    # The truth has no noise of its own: a noisy run is judged at the noise it found.
    noise = found.temperature
    solver = SoftDual(temperature=noise) if noise > 0 else None
    judged = compare(
        problem.mdp,
        problem.truth,
        found.objective,
        solver=solver,
        recovered_policy=found.behaviour,
        features=problem.features,
        demonstrations=problem.demonstrations,
    )
    truth = {
        name: Number(value, value, value) for name, value in _true_numbers(problem, shown).items()
    }
    titles = [str(folders[0]), f"truth of {folders[1]}"]
    return _answer(numbers_of(shown), truth, titles, judged.scalars(), "judged in the true world")


def true_weights(problem: Problem) -> list[tuple[int, tuple[str, ...], np.ndarray]]:
    """(k, names, [D] weights) of the true costs that features make up, and of the reward, -1."""
    truth, features = problem.truth, problem.features
    if truth is None:
        return []
    reward, costs = truth.tables(problem.mdp)
    parts = [(-1, features.reward_names, features.reward, reward)]
    if truth.constraints == features.constraints:
        named = zip(features.cost_names, features.costs, costs, strict=True)
        parts += [(k, *part) for k, part in enumerate(named)]
    found = [(k, names, _feature_weights(made, table)) for k, names, made, table in parts]
    return [(k, names, weights) for k, names, weights in found if weights is not None]


def _feature_weights(features: np.ndarray, table: np.ndarray) -> np.ndarray | None:
    """[D] the weights whose sum of features is the table; None where there are none."""
    import numpy as np

    if features.ndim == 2:
        features = np.repeat(features[:, None, :], table.shape[1], axis=1)
    columns = features.reshape(-1, features.shape[-1])
    weights, _, rank, _ = np.linalg.lstsq(columns, table.ravel(), rcond=None)
    left = np.abs(columns @ weights - table.ravel()).max()
    exact = left <= 1e-9 * max(1.0, float(np.abs(table).max())) and rank == columns.shape[1]
    return weights if exact else None


def _true_numbers(problem: Problem, found: Recovery) -> dict[str, float]:
    """The true weights and budgets in the gauge and the units of what was found.

    Where the truth is made of the features.
    """
    numbers = {}
    for k, names, raw in true_weights(problem):
        weights = raw if found.standard is None else raw * found.standard.deviations[k + 1]
        if (size := float(abs(weights).sum())) > 0:
            of, scaled = "reward" if k < 0 else f"cost {k}", (weights / size).tolist()
            numbers |= {f"{of}: {name}": one for name, one in zip(names, scaled, strict=True)}
            if problem.truth is not None and k >= 0:
                numbers[f"budget {k}"] = float(problem.truth.budgets[k] / size)
    return numbers
