"""What speaks against an answer from logged rows, beside tests: declarations, basis, support."""

from __future__ import annotations

import numpy as np

from tacit.dynamics.projected import UNSEEN
from tacit.estimators.logged.basis import Polynomials, Scaling
from tacit.estimators.logged.world import FittedBasis, LoggedTask
from tacit.inference.findings import Finding, Kind, chance
from tacit.inference.tails import chi_square_tail, holm
from tacit.likelihood.dynamic import DynamicsChain

# Level of the tests of declarations, for all columns together.
LEVEL = 0.01
# Uses of an action, for each function of it, below which its regression is a guess.
USES = 10
# Times the largest leverage of the rows regressed on, and the share of rows beyond, that are said.
BEYOND, SHARE = 1.5, 0.01
# Variance of the noise of dynamics, over that of the steps, from which a simulator helps most.
DEAR = 5.0


def declared_findings(task: LoggedTask) -> list[Finding]:
    """Columns that were declared to be moved by no action, or by what is left after it alone.

    The next value of a column is regressed on a polynomial of what was declared to decide it; what
    is left must not depend on the action.
    """
    seen, world = task.demonstrations, task.mdp
    if not world.declared:
        return []
    after = np.asarray(seen.next_states)
    rows = np.flatnonzero(after >= 0)
    complete = task.imputing.filled(seen.observations)
    names = list(world.exogenous) or list(seen.columns)
    numbers = [seen.columns.index(name) for name in names]
    if world.exogenous:
        given = complete[rows][:, numbers]
    else:
        every = task.inputs.at(seen.observations[: seen.steps])
        given = np.stack(every, axis=1)[rows, seen.actions[rows]]
    taken = np.eye(task.actions)[seen.actions[rows]]
    p_values = [_p_of_action(given, taken, complete[after[rows], j]) for j in numbers]
    tested = [j for j, p in enumerate(p_values) if not np.isnan(p)]
    findings = []
    for j, p in zip(tested, holm([p_values[j] for j in tested]).tolist(), strict=True):
        if p > LEVEL:
            continue
        what = "no action moves it" if world.exogenous else "it depends on what is left alone"
        said = (
            f"The rows contradict what was declared of {names[j]}, that {what}: its next value "
            f"depends on the action ({chance(p)} if it did not). Take it out of the declaration."
        )
        findings.append(Finding(said, Kind.DECLARED, feature=names[j], number=p))
    if world.exogenous and task.inputs.law is None and world.after is None:
        said = (
            "The declared columns could not be shared between actions: that needs all other "
            "columns to be set by the action for certain. They were only tested."
        )
        findings.append(Finding(said, Kind.NOTE))
    return findings


def _p_of_action(given: np.ndarray, taken: np.ndarray, values: np.ndarray) -> float:
    """The p-value of the actions [n, A] in values [n], beside a polynomial of rows [n, k]."""
    curves = Polynomials(5).functions(given, Scaling.of(given)).at(given)
    inverse = np.linalg.pinv(curves.T @ curves)

    def rest(columns: np.ndarray) -> np.ndarray:
        return columns - curves @ (inverse @ (curves.T @ columns))

    left, moved = rest(values), rest(taken[:, 1:])
    if left @ left <= 1e-12 * max(float(values @ values), 1e-300):
        return np.nan  # it is set for certain
    scores = moved * left[:, None]
    scatter = scores.T @ scores
    total = scores.sum(axis=0)
    rank = int(np.linalg.matrix_rank(moved.T @ moved))
    if not rank:
        return np.nan
    return chi_square_tail(rank, float(total @ np.linalg.pinv(scatter) @ total))


def basis_findings(task: LoggedTask, basis: FittedBasis) -> list[Finding]:
    """Actions that were taken too seldom for as many functions."""
    if task.inputs.shared or task.inputs.law is not None:
        return []
    uses = (task.rows.following != UNSEEN).sum(axis=0)
    size, names, findings = len(basis.functions.penalty), task.demonstrations.action_names, []
    for a in np.flatnonzero(uses < USES * size).tolist():
        said = (
            f"What follows action {names[a]} rests on {uses[a]} rows for {size} functions, fewer "
            f"than {USES} each: its regression leans on the ridge."
        )
        findings.append(Finding(said, Kind.BASIS, action=a, number=float(uses[a])))
    return findings


def support_findings(task: LoggedTask, basis: FittedBasis) -> list[Finding]:
    """Rows seen next that lie beyond those that anything was regressed on."""
    rows, regressed = task.rows, task.regressed
    led = np.unique(rows.following[rows.following >= 0])
    if task.inputs.shared or not len(led):
        return []
    own = basis.functions.at(regressed)
    inverse = np.linalg.pinv(own.T @ own)

    def leverage(values: np.ndarray) -> np.ndarray:
        return ((values @ inverse) * values).sum(axis=1)

    there = basis.functions.at(task.inputs.at(rows.observations[led])[0])
    beyond = (leverage(there) > BEYOND * leverage(own).max()) & ~rows.ends[led]
    many, share = int(beyond.sum()), float(beyond.mean())
    if share < SHARE:
        return []
    said = (
        f"{many} of {len(led)} rows that were seen next lie beyond those from which anything was "
        "seen to follow: what they are worth is extrapolated."
    )
    return [Finding(said, Kind.SUPPORT, number=share)]


def untold_findings(chain: DynamicsChain) -> list[Finding]:
    """That nothing is known in some directions of the parameters, if so."""
    if chain.uninformative is None:
        return []
    many = len(chain.uninformative)
    what = "One direction" if many == 1 else f"{many} directions"
    said = (
        f"{what} of the weights cannot be told from the errors of regressed values: actions differ "
        "there by less than these errors. Weights that have a part in it have no limits."
    )
    return [Finding(said, Kind.NOT_IDENTIFIED, number=many)]


def price_findings(price: float) -> list[Finding]:
    """What not knowing the dynamics costs, where it is most of the error."""
    if not price > DEAR:
        return []
    said = (
        f"Not knowing the dynamics multiplies variances by {1.0 + price:.2g}: a simulator of the "
        "world would help more than rows."
    )
    return [Finding(said, Kind.ERRORS, number=price)]
