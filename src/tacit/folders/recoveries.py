"""A recovery as a folder: arrays, the table of iterations, and a page of text. Never pickle.

The folder is written whole or not at all (`tacit.files.atomic`). `run.json` holds the checksum of
every file and of every array: a folder whose parts do not belong together does not load.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import __version__
from tacit.files.arrays import checksum, pack, read_arrays, unpack, write_arrays
from tacit.files.atomic import member, read_page, verify, write_bundle
from tacit.files.tables import read_columns, write_columns
from tacit.forward.solution import Certificate, Infeasibility, Mixture, Solution, Status
from tacit.inverse.identification import Identification
from tacit.inverse.joint.tasks import JointRecovery
from tacit.inverse.questions import DeltaMethod, restored, stored
from tacit.inverse.recovery import History, Recovery, RecoveryCertificate, RecoveryStatus
from tacit.model.objective import Objective

if TYPE_CHECKING:
    from tacit.inverse.recovery import History, Recovery

FORMAT = 2
ARRAYS, HISTORY, PAGE = "recovery.npz", "history.parquet", "run.json"


def save(recovery: Recovery, folder: Path) -> None:
    """Writes the folder, all or nothing; an older run in it stays until the new one is whole."""
    write_bundle(folder, PAGE, *contents(recovery))


def contents(recovery: Recovery) -> tuple[dict[str, Any], dict[str, Callable[[Path], Any]]]:
    """What the page of a run says about a recovery, and how to write its files."""
    arrays = _arrays(recovery)
    columns = _flat_columns(recovery.history)
    page = {
        "format": FORMAT,
        "estimator": recovery.estimator,
        "status": recovery.status.name,
        "sentence": recovery.status.value,
        "certificate": {k: _readable(v) for k, v in asdict(recovery.certificate).items()},
        "solution": recovery.solution.status.name,
        "findings": list(recovery.identification.findings),
        "reward_names": list(recovery.reward_names),
        "cost_names": [list(names) for names in recovery.cost_names],
        "versions": versions(),
        "checksums": {name: checksum(array) for name, array in arrays.items()},
        "history": {name: checksum(column) for name, column in columns.items()},
        "widths": {name: _width(column) for name, column in recovery.history.columns.items()},
    }
    return page, {
        ARRAYS: lambda path: write_arrays(path, arrays),
        HISTORY: lambda path: write_columns(path, columns),
    }


def load(folder: Path) -> Recovery:
    """The recovery of a folder; `OSError` if a file is missing, damaged or of another run."""
    from tacit.inverse.recovery import History, Recovery, RecoveryCertificate, RecoveryStatus

    page = read_page(folder / PAGE, form=FORMAT)
    if "tasks" in page:
        raise OSError(f"{folder} holds several tasks: load it by tacit.JointRecovery.load")
    arrays = _member(folder, page, ARRAYS, read_arrays, page["checksums"])
    columns = _member(folder, page, HISTORY, read_columns, page["history"])
    constraints = len(page["cost_names"])

    def many(name: str) -> list[np.ndarray]:
        return [arrays[f"{name}_{k}"] for k in range(constraints)]

    intervals: dict[str, Any] = {
        f"{kind}_{suffix}": many(f"cost_{suffix}") if kind == "cost" else arrays[f"{kind}_{suffix}"]
        for suffix in ("intervals", "standard_errors")
        for kind in ("reward", "cost", "multiplier", "budget")
    }
    return Recovery(
        reward_weights=arrays["reward_weights"],
        cost_weights=many("cost_weights"),
        multipliers=arrays["multipliers"],
        budgets=arrays["budgets"],
        temperature=float(arrays["temperature"]),
        objective=Objective(
            arrays["objective_reward"], arrays["objective_costs"], arrays["objective_budgets"]
        ),
        solution=_solution(arrays, page["solution"]),
        status=RecoveryStatus[page["status"]],
        certificate=RecoveryCertificate(*(float(number) for number in arrays["certificate"])),
        history=History(_stacked_columns(columns, page["widths"])),
        identification=Identification(
            **intervals,
            active=arrays["active"],
            findings=tuple(page["findings"]),
            answer=restored(arrays),
        ),
        estimator=page["estimator"],
        reward_names=tuple(page["reward_names"]),
        cost_names=tuple(tuple(names) for names in page["cost_names"]),
    )


def _arrays(recovery: Recovery) -> dict[str, np.ndarray]:
    known, solution, objective = recovery.identification, recovery.solution, recovery.objective
    found: dict[str, Any] = {
        "reward_weights": recovery.reward_weights,
        "multipliers": recovery.multipliers,
        "budgets": recovery.budgets,
        "temperature": recovery.temperature,
        "certificate": list(asdict(recovery.certificate).values()),
        "objective_reward": objective.reward,
        "objective_costs": objective.costs,
        "objective_budgets": objective.budgets,
        "active": known.active,
    }
    for name in ("policy", "visitation", "values", "multipliers", "value", "spent", "temperature"):
        found[f"solution_{name}"] = getattr(solution, name)
    found["solution_iterations"] = solution.iterations
    found["solution_certificate"] = list(asdict(solution.certificate).values())
    if solution.mixture is not None:
        found["mixture_weights"] = solution.mixture.weights
        found["mixture_policies"] = solution.mixture.policies
    if (proof := solution.infeasibility) is not None:
        found["infeasibility"] = np.array([proof.least, proof.allowed, *proof.weights])
    for suffix in ("intervals", "standard_errors"):
        for kind in ("reward", "multiplier", "budget"):
            found[f"{kind}_{suffix}"] = getattr(known, f"{kind}_{suffix}")
        for k, part in enumerate(getattr(known, f"cost_{suffix}")):
            found[f"cost_{suffix}_{k}"] = part
    found |= {f"cost_weights_{k}": weights for k, weights in enumerate(recovery.cost_weights)}
    return {name: np.asarray(array) for name, array in found.items()} | stored(known.answer)


def _solution(arrays: Mapping[str, np.ndarray], status: str) -> Solution:
    mixture = proof = None
    if "mixture_weights" in arrays:
        mixture = Mixture(arrays["mixture_weights"], arrays["mixture_policies"])
    if "infeasibility" in arrays:
        least, allowed, *weights = arrays["infeasibility"]
        proof = Infeasibility(np.array(weights), float(least), float(allowed))
    return Solution(
        policy=arrays["solution_policy"],
        visitation=arrays["solution_visitation"],
        values=arrays["solution_values"],
        multipliers=arrays["solution_multipliers"],
        value=float(arrays["solution_value"]),
        spent=arrays["solution_spent"],
        temperature=float(arrays["solution_temperature"]),
        status=Status[status],
        certificate=Certificate(*(float(number) for number in arrays["solution_certificate"])),
        mixture=mixture,
        infeasibility=proof,
        iterations=int(arrays["solution_iterations"]),
    )


def _flat_columns(history: History) -> dict[str, np.ndarray]:
    """One flat column an entry: "name" for [I], "name[j]" for [I, n]."""
    flat = {}
    for name, column in history.columns.items():
        if column.ndim == 1:
            flat[name] = column
        for j in range(_width(column) or 0):
            flat[f"{name}[{j}]"] = np.ascontiguousarray(column[:, j])
    return flat


def _stacked_columns(
    flat: Mapping[str, np.ndarray], widths: Mapping[str, int | None]
) -> dict[str, np.ndarray]:
    rows = len(next(iter(flat.values()), ()))

    def column(name: str, width: int | None) -> np.ndarray:
        if width is None:
            return flat[name]
        parts = [flat[f"{name}[{j}]"] for j in range(width)]
        return np.stack(parts, axis=1) if parts else np.zeros((rows, 0))

    return {name: column(name, width) for name, width in widths.items()}


def _width(column: np.ndarray) -> int | None:
    """n of a column [I, n]; None of a column [I]."""
    return None if column.ndim == 1 else column.shape[1]


def _member(
    folder: Path,
    page: Mapping[str, Any],
    name: str,
    read: Callable[[Path], dict[str, np.ndarray]],
    sums: Mapping[str, str],
) -> dict[str, np.ndarray]:
    """The arrays of a file of the run, each checked, and the file as a whole."""
    path = member(folder, page, name)
    arrays = _checked(read(path), sums, path)
    verify(path, page, name)
    return arrays


def _checked(
    arrays: dict[str, np.ndarray], sums: Mapping[str, str], path: Path
) -> dict[str, np.ndarray]:
    if sorted(arrays) != sorted(sums):
        raise OSError(f"{path} does not belong to this run: it holds other arrays")
    for name, array in arrays.items():
        if checksum(array) != sums[name]:
            raise OSError(f"{path} is damaged or of another run: {name} has changed since saving")
    return arrays


def _readable(number: float) -> float | str:
    """The number, or its name where JSON has none."""
    return number if np.isfinite(number) else str(number)


def versions() -> dict[str, str]:
    """The versions that a result depends on to the last bit, by name."""
    found = {"tacit": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "jax", "jaxlib", "numba", "highspy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


JOINT_ARRAYS = "joint.npz"
KINDS = (
    JointRecovery,
    Recovery,
    RecoveryStatus,
    RecoveryCertificate,
    History,
    Identification,
    DeltaMethod,
    Objective,
    Solution,
    Status,
    Certificate,
    Mixture,
    Infeasibility,
)


def save_joint(joint: JointRecovery, folder: Path) -> None:
    """Writes the folder, all or nothing; an older one in it stays until the new one is whole."""
    arrays = pack(joint)
    page = {
        "format": FORMAT,
        "tasks": len(joint.recoveries),
        "estimator": joint.estimator,
        "status": joint.status.name,
        "sentence": joint.status.value,
        "findings": list(joint.findings),
        "versions": versions(),
    }
    write_bundle(folder, PAGE, page, {JOINT_ARRAYS: lambda path: write_arrays(path, arrays)})


def load_joint(folder: Path) -> JointRecovery:
    """The joint recovery of a folder; `OSError` if a file is missing, damaged or of another run."""
    page = read_page(folder / PAGE, form=FORMAT)
    if JOINT_ARRAYS not in page["files"]:
        raise OSError(f"{folder} holds the recovery of one task: load it by tacit.Recovery.load")
    path = member(folder, page, JOINT_ARRAYS)
    arrays = read_arrays(path)
    verify(path, page, JOINT_ARRAYS)
    return unpack(arrays, KINDS)
