"""The forward solvers of tacit beside their peers, in one process, on the same problems.

    python benchmarks/forward.py            # everything: 10 to 15 minutes on two cores
    python benchmarks/forward.py --quick    # up to 1 024 states, nothing written: two minutes
    python benchmarks/forward.py --tune     # every setting of every peer at every size: an hour

Prints a table and writes benchmarks/results/forward.json. The peers come with the extra `bench`;
one that is missing is a row that says so. What the rows mean is in benchmarks/README.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from provenance import about


@dataclass(frozen=True)
class Args:
    """Forward benchmark of tacit against its peers."""

    sizes: tuple[int, ...] = (5, 10, 32, 100, 316, 1000)
    """Grids have size x size states."""
    discounts: tuple[float, ...] = (0.95, 0.99)
    cap: float = 100.0
    """Seconds allowed to one run. A run that is stopped here counts as a lower bound."""
    alone_cap: float = 300.0
    """The same for tacit at a million states, where no peer runs beside it."""
    repeats: int = 5
    """Best of this many runs after the first; fewer when they take more than `slow` seconds."""
    slow: float = 5.0
    """A run this long is not repeated; nor are runs that, models included, take twice as long."""
    seed: int = 0
    """The draw of the grid and of the random model."""
    quick: bool = False
    """Only up to 1 024 states, nothing that takes minutes, nothing written."""
    tune: bool = False
    """Try every setting of every peer at every size, instead of up to 1 024 states."""
    out: Path = Path(__file__).parent / "results" / "forward.json"
    child: str = ""
    """Internal: the job of a child process, whose memory or first answer is measured apart."""


# Up to here every documented setting of a peer is tried; beyond, the one that was fastest before.
TUNED_STATES = 1024
# From here on tacit runs in a process of its own, so that its peak memory is its own.
CHILD_STATES = 1_000_000
# Beyond, the peers would spend minutes on the priced problem, which no target speaks of.
PRICED_STATES = 10_000
# The best of five runs of half a millisecond is noise: short runs are repeated for these seconds.
MOMENT = 0.05
ACCURACY = 1e-6  # asked of the peers that iterate, in their own stopping rule


# --------------------------------------------------------------------------------------------------
# Problems, answers, rows
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Problem:
    """A model and what is wanted in it, under a name for the table."""

    name: str
    mdp: tacit.MDP
    objective: tacit.Objective

    def wanting(self, reward: np.ndarray) -> Problem:
        """The same model, another reward, nothing refused."""
        return Problem(self.name, self.mdp, tacit.Objective(reward))


@dataclass(frozen=True, eq=False)
class Answer:
    """What a solver gives back, as far as it does."""

    value: float | None = None
    multiplier: float | None = None
    values: np.ndarray | None = None  # [S]
    policy: np.ndarray | None = None  # [S] actions
    certificate: dict[str, float] | None = None
    status: str = "done"
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One line of the table. `seconds` is None where nothing finished."""

    problem: str
    states: int
    actions: int
    discount: float
    task: str  # constrained, unconstrained, priced, soft, first answer
    solver: str
    settings: str = ""
    status: str = "done"  # done, capped (stopped at the cap: a lower bound), failed, skipped
    seconds: float | None = None
    first_seconds: float | None = None  # the first call, compilation included
    runs: int = 0
    value: float | None = None
    multiplier: float | None = None
    errors: dict[str, float] = field(default_factory=dict)
    certificate: dict[str, float] | None = None
    peak_gib: float | None = None
    tried: dict[str, float] = field(default_factory=dict)  # seconds of one run of each setting
    note: str = ""


def hill(size: int, discount: float, seed: int, budget: float | None = None) -> Problem:
    """The paper's grid at this size; the budget halfway between least and unconstrained cost."""
    placed = {"tightness": 0.5} if budget is None else {"budget": budget}
    world = tacit.worlds.hill_grid(seed, size=size, discount=discount, **placed)
    return Problem(f"hill {size}x{size}", world.mdp, world.truth)


def random_sparse(states: int, discount: float, seed: int) -> Problem:
    world = tacit.worlds.random(
        seed, states=states, actions=4, successors=5, discount=discount, tightness=0.5
    )
    return Problem(f"random {states}", world.mdp, world.truth)


def icu_sepsis(discount: float = 0.99, budget: float = 0.1) -> Problem:
    """The ICU-Sepsis model: 713 patients, death, survival, and the end that both lead to.

    Read from the package's table, so that neither gym nor gymnasium is needed. The reward, 1 on
    entering survival, sits on transitions: its expectation is a table over (state, action).
    Action = 5 * fluids + vasopressors; the cost is the vasopressor level, between 0 and 1.
    """
    folder = importlib.util.find_spec("icu_sepsis").submodule_search_locations[0]
    with np.load(Path(folder) / "envs" / "assets" / "dynamics.npz") as data:
        transitions, initial = data["tx_mat"], data["d_0"]
        reward = (transitions * data["r_mat"]).sum(axis=2)
    states, actions = reward.shape
    cost = np.broadcast_to((np.arange(actions) % 5) / 4, (states, actions))
    mdp = tacit.MDP(transitions, initial, discount)
    return Problem("icu-sepsis", mdp, tacit.Objective(reward, [cost], [budget]))


# --------------------------------------------------------------------------------------------------
# Solvers: each takes a problem and its settings, converts the model once, and returns `fresh`.
# `fresh()` gives an untouched (run, read): only `run` is timed. Fresh, because HiGHS and mdpsolver
# start a second solve from the answer of the first.
# --------------------------------------------------------------------------------------------------

Fresh = Callable[[], tuple[Callable[[], Any], Callable[[Any], Answer]]]


def tacit_solver(problem: Problem, settings: dict[str, Any], cap: float) -> Fresh:
    solver = tacit.SoftDual(**settings) if "temperature" in settings else None

    def read(solution: Any) -> Answer:
        multipliers = solution.multipliers
        return Answer(
            value=float(solution.value),
            multiplier=float(multipliers[0]) if len(multipliers) else None,
            values=solution.values,
            policy=solution.policy.argmax(axis=1) if not len(multipliers) else None,
            certificate=dataclasses.asdict(solution.certificate),
        )

    return lambda: (lambda: tacit.solve(problem.mdp, problem.objective, solver=solver), read)


def highs(problem: Problem, settings: dict[str, Any], cap: float) -> Fresh:
    """HiGHS on the occupancy LP, called directly; the model is passed before the clock starts."""
    import highspy

    lp = occupancy_lp(problem)

    def fresh() -> tuple[Callable[[], Any], Callable[[Any], Answer]]:
        solver = highspy.Highs()
        for option, setting in {"output_flag": False, "time_limit": cap, **settings}.items():
            assert solver.setOptionValue(option, setting) == highspy.HighsStatus.kOk, option
        solver.passModel(lp)

        def read(_: Any) -> Answer:
            status = solver.getModelStatus()
            if status != highspy.HighsModelStatus.kOptimal:
                # Only the clock makes a lower bound; ending early without an answer is a failure.
                late = status == highspy.HighsModelStatus.kTimeLimit
                words = solver.modelStatusToString(status).lower()
                return Answer(status="capped" if late else "failed", note=words)
            dual = np.asarray(solver.getSolution().row_dual)
            return Answer(
                value=-solver.getInfo().objective_function_value,
                # A minimisation: the dual of a binding <= row is negative.
                multiplier=float(-dual[-1]) if problem.objective.constraints else None,
            )

        return solver.run, read

    return fresh


def occupancy_lp(problem: Problem) -> Any:
    """Minimise -<visitation, reward>: S flow rows, then one row a budget; S * A columns."""
    import highspy
    from scipy.sparse import csr_matrix, hstack

    mdp = problem.mdp
    reward, costs = problem.objective.tables(mdp)
    pairs = mdp.states * mdp.actions
    leaves = csr_matrix(
        (np.ones(pairs), np.repeat(np.arange(mdp.states), mdp.actions), np.arange(pairs + 1)),
        shape=(pairs, mdp.states),
    )
    by_column = [leaves - mdp.discount * csr_matrix(mdp.sparse())]
    by_column += [csr_matrix(cost.reshape(-1, 1)) for cost in costs]
    matrix = csr_matrix(hstack(by_column))  # its rows are the columns of the LP
    budgets = problem.objective.budgets
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = matrix.shape
    lp.col_cost_ = -reward.ravel()
    lp.col_lower_ = np.zeros(pairs)
    lp.col_upper_ = np.full(pairs, np.inf)
    lp.row_lower_ = np.concatenate([mdp.initial, np.full(len(budgets), -np.inf)])
    lp.row_upper_ = np.concatenate([mdp.initial, budgets])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = matrix.indptr
    lp.a_matrix_.index_ = matrix.indices
    lp.a_matrix_.value_ = matrix.data
    return lp


def quantecon(problem: Problem, settings: dict[str, Any], cap: float) -> Fresh:
    """QuantEcon DiscreteDP on state-action pairs with a sparse transition matrix."""
    from quantecon.markov import DiscreteDP
    from scipy.sparse import csr_matrix

    mdp = problem.mdp
    pairs = np.indices((mdp.states, mdp.actions)).reshape(2, -1)
    reward = problem.objective.tables(mdp)[0]
    model = DiscreteDP(reward.ravel(), csr_matrix(mdp.sparse()), mdp.discount, *pairs)
    limits = {"max_iter": 1_000_000, **settings}

    def read(result: Any) -> Answer:
        return Answer(float(mdp.initial @ result.v), None, result.v, result.sigma)

    return lambda: (lambda: model.solve(**limits), read)


def mdpsolver(problem: Problem, settings: dict[str, Any], cap: float) -> Fresh:
    """mdpsolver (C++). It takes nested lists and keeps its answer: a new model for every run."""
    import mdpsolver as peer

    mdp = problem.mdp
    model = {
        "discount": mdp.discount,
        "rewards": problem.objective.tables(mdp)[0].tolist(),
        **nested_lists(mdp),
    }

    def fresh() -> tuple[Callable[[], Any], Callable[[Any], Answer]]:
        solver = peer.model()
        solver.mdp(**model)

        def read(_: Any) -> Answer:
            values = np.array(solver.getValueVector())
            return Answer(float(mdp.initial @ values), None, values, np.array(solver.getPolicy()))

        return lambda: solver.solve(tolerance=ACCURACY, **settings), read

    return fresh


def nested_lists(mdp: tacit.MDP) -> dict[str, list]:
    """[S][A][successors] probabilities and columns without zeros, as mdpsolver wants them."""
    columns = mdp.transitions.states.tolist()
    probabilities = mdp.transitions.probabilities.tolist()
    for s, a in np.argwhere((mdp.transitions.probabilities == 0).any(axis=2)):
        kept = [(c, p) for c, p in zip(columns[s][a], probabilities[s][a], strict=True) if p > 0]
        columns[s][a], probabilities[s][a] = map(list, zip(*kept, strict=True))
    return {"tranMatProbs": probabilities, "tranMatColumns": columns}


def mdptoolbox(problem: Problem, settings: dict[str, Any], cap: float) -> Fresh:
    """pymdptoolbox with sparse matrices. Two shims, both outside the timed run.

    Its check of the input compares a sparse matrix with 0 by >=, which makes S x S booleans:
    skipped, the model is checked already. Its bound on the sweeps of value iteration reads S * A
    columns of row-ordered matrices one by one: replaced by `sweeps`.
    """
    from mdptoolbox import mdp as peer
    from mdptoolbox import util
    from scipy.sparse import csr_matrix

    mdp = problem.mdp
    matrix = csr_matrix(mdp.sparse())
    transitions = [csr_matrix(matrix[a :: mdp.actions]) for a in range(mdp.actions)]
    reward = problem.objective.tables(mdp)[0]
    options = dict(settings)
    algorithm = getattr(peer, options.pop("method"))
    sweeps = options.pop("sweeps", "span")  # it stops by the span of the change: never reached
    enough = 10**9 if sweeps == "span" else int(np.ceil(np.log(ACCURACY) / np.log(mdp.discount)))

    def bounded(solver: Any, epsilon: float) -> None:
        solver.max_iter = enough

    def fresh() -> tuple[Callable[[], Any], Callable[[Any], Answer]]:
        check, util.check = util.check, lambda *_: None
        bound, peer.ValueIteration._boundIter = peer.ValueIteration._boundIter, bounded
        try:
            solver = algorithm(transitions, reward, mdp.discount, **options)
        finally:
            util.check, peer.ValueIteration._boundIter = check, bound

        def read(_: Any) -> Answer:
            values = np.array(solver.V)
            return Answer(float(mdp.initial @ values), None, values, np.array(solver.policy))

        return solver.run, read

    return fresh


@dataclass(frozen=True)
class Entrant:
    """A solver, the package it comes from, and the documented settings worth trying."""

    name: str
    package: str
    load: Callable[[Problem, dict[str, Any], float], Fresh]
    settings: tuple[dict[str, Any], ...] = ({},)


TACIT = Entrant("tacit", "tacit-irl", tacit_solver)
CONSTRAINED = (
    Entrant(
        "HiGHS simplex",
        "highspy",
        highs,
        (
            {"solver": "simplex", "simplex_strategy": 1, "presolve": "off"},  # 1: dual
            {"solver": "simplex", "simplex_strategy": 1, "presolve": "on"},
            {"solver": "simplex", "simplex_strategy": 4, "presolve": "off"},  # 4: primal
        ),
    ),
    Entrant(
        "HiGHS interior point",
        "highspy",
        highs,
        (
            {"solver": "ipm", "presolve": "on", "run_crossover": "off"},
            {"solver": "ipm", "presolve": "off", "run_crossover": "off"},
            {"solver": "ipm", "presolve": "on", "run_crossover": "on"},
            {"solver": "ipm", "presolve": "off", "run_crossover": "on"},
        ),
    ),
)
UNCONSTRAINED = (
    Entrant("QuantEcon", "quantecon", quantecon, ({"method": "policy_iteration"},)),
    Entrant(
        "QuantEcon modified",
        "quantecon",
        quantecon,
        tuple(
            {"method": "modified_policy_iteration", "epsilon": ACCURACY, "k": k} for k in (20, 100)
        ),
    ),
    Entrant(
        "mdpsolver",
        "mdpsolver",
        mdpsolver,
        (
            {"algorithm": "mpi", "update": "standard", "parIterLim": 100, "parallel": False},
            {"algorithm": "mpi", "update": "standard", "parIterLim": 20, "parallel": False},
            {"algorithm": "mpi", "update": "standard", "parIterLim": 100, "parallel": True},
            {"algorithm": "mpi", "update": "gs", "parIterLim": 20},
            {"algorithm": "mpi", "update": "gs", "parIterLim": 100},
            {"algorithm": "pi", "update": "gs"},
        ),
    ),
    Entrant(
        "pymdptoolbox",
        "pymdptoolbox",
        mdptoolbox,
        (
            {"method": "ValueIteration", "epsilon": ACCURACY},
            {"method": "PolicyIterationModified", "epsilon": ACCURACY, "max_iter": 100},
            {"method": "PolicyIteration"},
        ),
    ),
    # Stopped by the span it has the policy, while its values are off by a constant of any size. To
    # have the values to 1e-6 like the others, it must sweep until discount^sweeps is 1e-6.
    Entrant(
        "pymdptoolbox, values",
        "pymdptoolbox",
        mdptoolbox,
        (
            {"method": "ValueIteration", "epsilon": 1e-16, "sweeps": "enough"},
            {"method": "PolicyIteration"},
        ),
    ),
)
SHORT = {
    "simplex_strategy=1": "dual",
    "simplex_strategy=4": "primal",
    "run_crossover=on": "crossover",
    "run_crossover=off": "no crossover",
}


def describe(settings: dict[str, Any]) -> str:
    """The settings on one line."""
    pairs = [(k, f"{v:g}" if isinstance(v, float) else f"{v}") for k, v in settings.items()]
    plain = ("method", "algorithm", "update", "solver")  # their values say what they are
    words = [v if k in plain else f"{k}={v}" for k, v in pairs]
    return " ".join(SHORT.get(word, word) for word in words)


# --------------------------------------------------------------------------------------------------
# Measuring
# --------------------------------------------------------------------------------------------------


class Capped(Exception):
    """A run was stopped by the clock."""


@contextlib.contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raises Capped in a run that takes longer, as soon as it is in Python code again."""

    def stop(*_: Any) -> None:
        raise Capped

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True, eq=False)
class Timing:
    """Seconds of each run, the first apart, and the last answer."""

    times: tuple[float, ...]
    answer: Answer

    @property
    def best(self) -> float:
        """The first run pays for compilation, so it counts only where it is the only one."""
        return min(self.times[1:] or self.times)


def measure(fresh: Fresh, *, repeats: int, slow: float, cap: float) -> Timing:
    """One run and then `repeats` more: fewer where they are slow, more where over in a moment."""
    times: list[float] = []
    answer = Answer()
    gc.collect()
    begun = time.perf_counter()
    while len(times) <= repeats or (repeats and sum(times) < MOMENT and len(times) < 200):
        run, read = fresh()
        gc.disable()
        try:
            with stopped_after(1.1 * cap):  # HiGHS stops itself, at the cap or soon after
                start = time.perf_counter()
                raw = run()
                times.append(time.perf_counter() - start)
        except Capped:
            return Timing((*times, cap), Answer(status="capped", note="time limit reached"))
        finally:
            gc.enable()
        answer = read(raw)
        if answer.status != "done" or times[-1] > slow or time.perf_counter() - begun > 2 * slow:
            break
    return Timing(tuple(times), answer)


def contest(
    problem: Problem,
    task: str,
    entrants: tuple[Entrant, ...],
    history: dict[tuple, tuple[int, float, dict[str, Any]]],
    args: Args,
) -> Iterator[Row]:
    """tacit's row, then one row a peer, at the setting that is fastest for it.

    `history` remembers (states, seconds, settings) of the last size, by kind of problem, task,
    discount and peer: a peer that would pass the cap if its time grew only linearly with the states
    is not run.
    """
    tables = {
        "problem": problem.name,
        "states": problem.mdp.states,
        "actions": problem.mdp.actions,
        "discount": problem.mdp.discount,
        "task": task,
    }
    ours = measure(
        TACIT.load(problem, {}, args.cap), repeats=args.repeats, slow=args.slow, cap=args.cap
    )
    yield filled(Row(**tables, solver="tacit", settings="default"), ours, problem, ours.answer)
    for entrant in entrants:
        row = Row(**tables, solver=entrant.name)
        if not installed(entrant.package):
            yield dataclasses.replace(row, status="skipped", note="not installed")
            continue
        key = (problem.name.split()[0], task, problem.mdp.discount, entrant.name)
        before = history.get(key)
        if before is not None:
            states, seconds, _ = before
            linear = seconds * problem.mdp.states / states
            if linear > args.cap:
                note = (
                    f"{seconds:.3g} s at {states} states; linear growth would take {linear:.0f} s"
                )
                yield dataclasses.replace(row, status="skipped", note=note)
                continue
        settings, tried = entrant.settings, {}
        if len(settings) > 1 and before and problem.mdp.states > TUNED_STATES and not args.tune:
            settings = (before[2],)
        if len(settings) > 1:
            settings, tried = fastest(entrant, problem, args)
        timing = measure(
            entrant.load(problem, settings[0], args.cap),
            repeats=args.repeats,
            slow=args.slow,
            cap=args.cap,
        )
        row = dataclasses.replace(row, settings=describe(settings[0]), tried=tried)
        row = filled(row, timing, problem, ours.answer)
        history[key] = (problem.mdp.states, timing.best, settings[0])
        yield row


def fastest(
    entrant: Entrant, problem: Problem, args: Args
) -> tuple[tuple[dict[str, Any], ...], dict[str, float]]:
    """The quickest setting that finds an answer, by one run each (three where they are short)."""
    tried: dict[str, float] = {}
    winner, best = entrant.settings[0], args.cap
    for settings in entrant.settings:
        # A setting that takes twice as long as the best so far may as well stop there.
        cap = min(args.cap, 2.0 * best + 0.1)
        timing = measure(entrant.load(problem, settings, cap), repeats=2, slow=0.2, cap=cap)
        words = "" if timing.answer.status == "done" else f" ({timing.answer.status})"
        tried[describe(settings) + words] = timing.best
        if timing.answer.status == "done" and timing.best < best:
            winner, best = settings, timing.best
    return (winner,), tried


def filled(row: Row, timing: Timing, problem: Problem, reference: Answer) -> Row:
    """The row with its times and with its accuracy against tacit's certified answer."""
    answer = timing.answer
    row = dataclasses.replace(
        row,
        status=answer.status,
        seconds=timing.best,
        first_seconds=timing.times[0],
        runs=len(timing.times),
        note=answer.note,
    )
    if answer.status != "done":
        return row
    return dataclasses.replace(
        row,
        value=answer.value,
        multiplier=answer.multiplier,
        certificate=answer.certificate,
        errors=accuracy(problem, answer, reference) if reference.status == "done" else {},
    )


def accuracy(problem: Problem, answer: Answer, reference: Answer) -> dict[str, float]:
    """Relative errors: of value and multiplier, or of the values and of what the policy loses.

    tacit's own are bounds that need no reference: the duality gap of the certificate, and the
    Bellman residual / (1 - discount).
    """
    if problem.objective.constraints:
        if answer is reference:
            return {"gap": abs(answer.certificate["duality_gap"])}
        return {
            "value": abs(answer.value - reference.value) / abs(reference.value),
            "multiplier": abs(answer.multiplier - reference.multiplier) / reference.multiplier,
        }
    scale = float(np.abs(reference.values).max())
    reward = problem.objective.tables(problem.mdp)[0]
    if answer is reference:
        backup = reward + problem.mdp.discount * problem.mdp.expected_next(answer.values)
        residual = np.abs(backup.max(axis=1) - answer.values).max()
        return {"values": float(residual / (1.0 - problem.mdp.discount) / scale)}
    loss = reference.values - policy_values(problem, answer.policy)
    return {
        "values": float(np.abs(answer.values - reference.values).max() / scale),
        "policy": float(max(0.0, loss.max()) / scale),
    }


def policy_values(problem: Problem, policy: np.ndarray) -> np.ndarray:
    """[S] exact values of a deterministic policy, by a solver of our own choosing: a sparse one."""
    from scipy.sparse import csc_matrix, csr_matrix, identity
    from scipy.sparse.linalg import spsolve

    mdp = problem.mdp
    rows = np.arange(mdp.states) * mdp.actions + policy
    chain = csr_matrix(mdp.sparse())[rows]
    reward = problem.objective.tables(mdp)[0].ravel()[rows]
    return spsolve(csc_matrix(identity(mdp.states) - mdp.discount * chain), reward)


def installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


# --------------------------------------------------------------------------------------------------
# Jobs in a process of their own: peak memory, and the first answer
# --------------------------------------------------------------------------------------------------


def in_child(job: dict[str, Any], environment: dict[str, str] | None = None) -> Row:
    """The row that a fresh process of this script finds for the job."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps(job)],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Row(
            f"hill {job['size']}x{job['size']}",
            job["size"] ** 2,
            4,
            job["discount"],
            job["task"],
            "tacit",
            status="skipped",
            note=f"failed: {reason}",
        )
    return Row(**json.loads(done.stdout.splitlines()[-1]))


def child(job: dict[str, Any], args: Args) -> Row:
    """Solves one grid here and reports the peak memory of this process, the model included."""
    settings = {"temperature": soft_temperature(job["discount"])} if job["task"] == "soft" else {}
    if job["task"] != "first answer":  # compile on a small grid, before the clock starts
        small = hill(5, job["discount"], args.seed)
        measure(tacit_solver(small, settings, args.cap), repeats=0, slow=0.0, cap=args.alone_cap)
    problem = hill(job["size"], job["discount"], args.seed, job.get("budget"))
    if job["task"] == "unconstrained":
        problem = problem.wanting(problem.objective.reward)
    fresh = TACIT.load(problem, settings, args.alone_cap)
    timing = measure(fresh, repeats=2, slow=4 * args.slow, cap=args.alone_cap)
    row = Row(
        problem.name,
        problem.mdp.states,
        problem.mdp.actions,
        job["discount"],
        job["task"],
        "tacit",
        describe(settings) or "default",
    )
    row = filled(row, timing, problem, timing.answer)
    return dataclasses.replace(row, peak_gib=peak_gib())


def peak_gib() -> float:
    """Peak memory of this process; on Linux not by getrusage, where it starts at the parent's."""
    status = Path("/proc/self/status")
    kib = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if kib is None:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return int(kib[1]) / 2**20


def soft_temperature(discount: float) -> float:
    """A fifth of what one cell of progress is worth if kept for ever: 2.5e-3 / (1 - discount).

    The expert then takes the best action nearly always where reward decides, and close calls stay
    random: a temperature far above is a random walk, one far below the hard problem again.
    """
    return 0.2 * 2.5e-3 / (1.0 - discount)


def first_answers(args: Args) -> Iterator[Row]:
    """25 states in a fresh process, with an empty compilation cache and with the one it left."""
    size, discount = min(args.sizes), min(args.discounts)
    budget = float(hill(size, discount, args.seed).objective.budgets[0])
    job = {"task": "first answer", "size": size, "discount": discount, "budget": budget}
    with tempfile.TemporaryDirectory() as cache:
        caches = {"NUMBA_CACHE_DIR": cache, "JAX_COMPILATION_CACHE_DIR": cache}
        for state in ("empty disk cache", "warm disk cache"):
            row = in_child(job, caches)
            # The first call is the answer here; what follows it is in the constrained rows.
            yield dataclasses.replace(
                row, settings=state, seconds=row.first_seconds, note="imports not counted"
            )


# --------------------------------------------------------------------------------------------------
# The targets, the table, the file
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """What was to be reached, what was measured, and whether that is enough."""

    work: str
    target: str
    measured: str
    reached: bool


def targets(rows: list[Row]) -> list[Target]:
    """The promises of the forward half, judged by the rows. One without its rows is left out."""

    def find(task: str, states: int, discount: float, solver: str = "tacit") -> Row | None:
        keys = (task, states, discount, solver)
        hit = [r for r in rows if (r.task, r.states, r.discount, r.solver) == keys]
        return hit[0] if hit and hit[0].status in ("done", "capped") else None

    found: list[Target] = []

    def speed(work: str, task: str, states: int, discount: float, peers: list[str], least: float):
        ours = find(task, states, discount)
        theirs = [r for p in peers if (r := find(task, states, discount, p))]
        if ours is None or not theirs:
            return
        rival = min(theirs, key=lambda r: r.seconds)
        times = rival.seconds / ours.seconds
        bound = "more than " if rival.status == "capped" else ""
        text = f"{bound}{times:.3g} times ({rival.solver})"
        enough = times >= least
        if task == "constrained":  # faster is not enough: value and multiplier must be the same
            worst = max(rival.errors.values(), default=np.inf)
            text += f", equal to {worst:.1e}" if rival.errors else ", nothing to compare with"
            enough = enough and worst <= 1e-6
        where = f"{work}, {states} states, {discount:g}"
        found.append(Target(where, f">= {least:g} times", text, enough))

    def proof(work: str, task: str, discount: float):
        ours = find(task, CHILD_STATES, discount)
        if ours is None or ours.certificate is None:
            return
        worst = max(abs(v) for v in ours.certificate.values())
        text = f"{ours.seconds:.3g} s, certificate {worst:.1e}, {ours.peak_gib:.2f} GiB"
        enough = ours.status == "done" and worst <= 1e-6 and ours.peak_gib < 8
        where = f"{work}, {CHILD_STATES} states, {discount:g}"
        found.append(Target(where, "certificate to 1e-6, under 8 GiB", text, enough))

    methods = [entrant.name for entrant in CONSTRAINED]
    for discount in sorted({r.discount for r in rows}):
        speed("exact CMDP against HiGHS", "constrained", 25, discount, methods, 5)
        speed("exact CMDP against HiGHS", "constrained", 10_000, discount, methods, 100)
        for task in ("unconstrained", "priced"):
            for states, least in ((1024, 1), (10_000, 1.5)):
                speed(f"{task} against QuantEcon", task, states, discount, ["QuantEcon"], least)
            speed(f"{task} against mdpsolver", task, 10_000, discount, ["mdpsolver"], 5)
            for peer in ("pymdptoolbox", "pymdptoolbox, values"):
                speed(f"{task} against pymdptoolbox", task, 10_000, discount, [peer], 25)
        proof("exact CMDP", "constrained", discount)
        proof("soft CMDP", "soft", discount)
        small, large = (find("constrained", n, discount) for n in (10_000, CHILD_STATES))
        if small and large:
            growth = large.seconds / small.seconds * small.states / large.states
            where = f"exact CMDP, time per state from 1e4 to 1e6, {discount:g}"
            found.append(Target(where, "< 4 times", f"{growth:.2f} times", growth < 4))
    for row in rows:
        if row.task == "first answer" and row.seconds is not None:
            where = f"first answer, 25 states, {row.settings}"
            found.append(Target(where, "< 2 s", f"{row.seconds:.3g} s", row.seconds < 2))
    return found


def versions() -> dict[str, str]:
    names = ("tacit-irl", "numpy", "scipy", "jax", "numba", "highspy", "quantecon", "mdpsolver")
    names += ("pymdptoolbox", "icu-sepsis")
    found = {name: importlib.metadata.version(name) for name in names if installed(name)}
    return {"python": platform.python_version(), **found}


def machine() -> dict[str, Any]:
    """CPU model, cores and memory; nothing that names the machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def show(rows: list[Row], judged: list[Target]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 170)
    table = Table(title="Forward solvers (best of several runs; errors are relative)")
    for name in ("problem", "states", "task", "solver", "settings"):
        table.add_column(name, overflow="fold")
    for name in ("time", "first call", "against tacit", "error", "GiB"):
        table.add_column(name, justify="right")
    table.add_column("note", overflow="fold")
    ours = {(r.problem, r.discount, r.task): r.seconds for r in rows if r.solver == "tacit"}
    group = None
    for r in rows:
        key = (r.problem, r.discount, r.task)
        if group not in (None, key):
            table.add_section()
        group = key
        base = ours.get(key)
        ratio = f"{r.seconds / base:.3g} x" if r.seconds and base and r.solver != "tacit" else ""
        table.add_row(
            f"{r.problem}, {r.discount:g}",
            f"{r.states}",
            r.task,
            r.solver,
            r.settings,
            (">" if r.status == "capped" else "") + seconds(r.seconds),
            seconds(r.first_seconds),
            ratio,
            "\n".join(f"{name} {error:.1e}" for name, error in r.errors.items()),
            "" if r.peak_gib is None else f"{r.peak_gib:.2f}",
            f"{r.status}: {r.note}" if r.status != "done" else r.note,
        )
    console.print(table)
    verdicts = Table("work", "target", "measured", "reached", title="Targets")
    for t in judged:
        verdicts.add_row(t.work, t.target, t.measured, "yes" if t.reached else "[bold]NO[/bold]")
    console.print(verdicts)


def seconds(number: float | None) -> str:
    """A time with three digits and the unit it is read in."""
    if number is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number * 1e6:.3g} us"


def save(path: Path, rows: list[Row], judged: list[Target], known: dict[str, Any]) -> None:
    report = {
        **about(()),
        **known,
        "versions": versions(),
        "targets": [dataclasses.asdict(t) for t in judged],
        "rows": [dataclasses.asdict(r) for r in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


# --------------------------------------------------------------------------------------------------
# Everything, in order
# --------------------------------------------------------------------------------------------------


def benchmark(args: Args) -> Iterator[Row]:
    """Every row, smallest problems first."""
    history: dict[tuple, tuple[int, float, dict[str, Any]]] = {}
    for size in (5, 32):  # compiling, which takes seconds, must not pass for a solve that does
        small = hill(size, 0.95, args.seed)
        tacit.solve(small.mdp, small.objective)
    limit = 32 if args.quick else max(args.sizes)
    for size in (n for n in args.sizes if n <= limit and n * n < CHILD_STATES):
        for discount in args.discounts:
            problem = hill(size, discount, args.seed)
            yield from problem_rows(problem, history, args)
    if not args.quick:
        yield from large_rows([n for n in args.sizes if n * n >= CHILD_STATES], args)
        yield from first_answers(args)
    for states in (300,) if args.quick else (300, 3000):
        yield from problem_rows(random_sparse(states, 0.95, args.seed), history, args)
    if installed("icu-sepsis") and not args.quick:
        # HiGHS runs once, by the method and the setting that were seen to be fastest on this model.
        once = tuple(dataclasses.replace(e, settings=e.settings[:1]) for e in CONSTRAINED[:1])
        yield from contest(icu_sepsis(), "constrained", once, history, args)


def problem_rows(problem: Problem, history: dict, args: Args) -> Iterator[Row]:
    """Constrained, then without the constraint, then with the cost priced into the reward.

    The grid's own reward grows along both axes: the policy that is greedy for the reward alone is
    optimal, and policy iteration ends where it starts. With the cost at its optimal price in the
    reward, the unconstrained problem is one that the constrained solver itself meets.
    """
    multiplier = None
    for row in contest(problem, "constrained", CONSTRAINED, history, args):
        multiplier = row.multiplier if row.solver == "tacit" else multiplier
        yield row
    reward, costs = problem.objective.tables(problem.mdp)
    yield from contest(problem.wanting(reward), "unconstrained", UNCONSTRAINED, history, args)
    if problem.mdp.states <= PRICED_STATES:
        priced = problem.wanting(reward - (multiplier or 0.0) * costs[0])
        yield from contest(priced, "priced", UNCONSTRAINED, history, args)


def large_rows(sizes: list[int], args: Args) -> Iterator[Row]:
    """A million states: hard, without the constraint, and soft, each in a process of its own."""
    for size in sizes:
        for discount in args.discounts:
            hardest = discount == max(args.discounts)
            for task in ("constrained", "unconstrained", *(["soft"] if hardest else [])):
                yield in_child({"task": task, "size": size, "discount": discount})


def main(args: Args) -> None:
    warnings.simplefilter("ignore")  # the peers' deprecations are not our business
    if args.child:
        print(json.dumps(dataclasses.asdict(child(json.loads(args.child), args))))
        return
    known = {"cap_seconds": args.cap, "machine": machine()}  # now: the load must be that of others
    start = time.perf_counter()
    rows: list[Row] = []
    with contextlib.suppress(KeyboardInterrupt):  # what is done is kept
        for row in benchmark(args):
            rows.append(row)
            text = f"{row.problem:16} {row.discount:g} {row.task:13} {row.solver:20}"
            print(f"{text} {row.status:8} {seconds(row.seconds):>9}  {row.note}", flush=True)
    judged = targets(rows)
    show(rows, judged)
    print(f"{time.perf_counter() - start:.0f} s in all")
    if not args.quick:
        save(args.out, rows, judged, known)


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args))
