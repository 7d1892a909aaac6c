"""A recovery as a folder: arrays, the table of iterations, and a page of text. Never pickle.

Each file is written whole or not at all (`tacit.files`). `run.json` is written last and holds the
checksum of every array: a folder whose parts do not belong together does not load.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.files.arrays import checksum, read_arrays, write_arrays
from tacit.files.atomic import write_atomically
from tacit.files.tables import read_columns, write_columns
from tacit.forward.solution import Certificate, Infeasibility, Mixture, Solution, Status
from tacit.inverse.identification import Identification
from tacit.objective import Objective

if TYPE_CHECKING:
    from tacit.inverse.recovery import History, Recovery

FORMAT = 1
ARRAYS, HISTORY, PAGE = "recovery.npz", "history.parquet", "run.json"


def save(recovery: Recovery, folder: Path) -> None:
    """Writes the folder; `run.json` comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = _arrays(recovery)
    columns = _flat_columns(recovery.history)
    write_arrays(folder / ARRAYS, arrays)
    write_columns(folder / HISTORY, columns)
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
        "versions": _versions(),
        "checksums": {name: checksum(array) for name, array in arrays.items()},
        "history": {name: checksum(column) for name, column in columns.items()},
        "widths": {name: _width(column) for name, column in recovery.history.columns.items()},
    }
    text = json.dumps(page, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    write_atomically(folder / PAGE, lambda file: file.write(text.encode()))


def load(folder: Path) -> Recovery:
    """The recovery of a folder; `OSError` if a file is missing, damaged or of another run."""
    from tacit.inverse.recovery import History, Recovery, RecoveryCertificate, RecoveryStatus

    page = _page(folder / PAGE)
    arrays = _checked(read_arrays(folder / ARRAYS), page["checksums"], folder / ARRAYS)
    columns = _checked(read_columns(folder / HISTORY), page["history"], folder / HISTORY)
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
            **intervals, active=arrays["active"], findings=tuple(page["findings"])
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
    return {name: np.asarray(array) for name, array in found.items()}


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


def _page(path: Path) -> dict[str, Any]:
    try:
        page = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise OSError(f"{path} is no page of a run: {error}") from None
    if not isinstance(page, dict) or page.get("format") != FORMAT:
        raise OSError(f"{path} is no page of a run in format {FORMAT}")
    return page


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


def _versions() -> dict[str, str]:
    return {
        "tacit": importlib.metadata.version("tacit"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
